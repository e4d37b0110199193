//! The options of commands that remember what they computed.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kauri_engine::Remembering;

use crate::failure::print_line;

/// Bytes of a gigabyte.
const GB: f64 = 1e9;

/// What is remembered outside of the cache, and where.
#[derive(Args, Clone, Debug)]
pub struct CacheOptions {
    /// A folder in which what was computed for prompts is kept: whatever begins alike is found again, after a restart too.
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,

    /// Most gigabytes of that folder; what was used longest ago is removed first.
    #[arg(long, value_name = "GB", default_value_t = 10.0, value_parser = gigabytes)]
    pub cache_size_gb: f64,
}

impl CacheOptions {
    /// The engine's settings, with `memory_gb` beside the cache.
    pub fn remembering(&self, memory_gb: f64) -> Remembering {
        Remembering {
            folder: self.cache_dir.clone(),
            folder_bytes_max: (self.cache_size_gb * GB) as u64,
            memory_bytes_max: (memory_gb * GB) as u64,
            notice: Arc::new(print_line),
        }
    }
}

/// Reads a number of gigabytes.
///
/// # Errors
/// When it is none.
pub fn gigabytes(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=1e6).contains(number));
    number.ok_or_else(|| "give a number of gigabytes from 0 to 1000000, such as 2.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::gigabytes;

    #[test]
    fn sizes_are_numbers_of_gigabytes() {
        assert_eq!(gigabytes("2.5"), Ok(2.5));
        assert_eq!(gigabytes("0"), Ok(0.0));
        for wrong in ["-1", "NaN", "inf", "1e7", "much", ""] {
            assert!(gigabytes(wrong).is_err(), "{wrong}");
        }
    }
}
