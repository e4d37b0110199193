//! The options of commands that remember what they computed.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kauri_engine::Remembering;

use crate::failure::{BadInput, print_line};

/// Bytes of a gigabyte.
const GB: f64 = 1e9;

/// What is remembered outside of the cache, and where.
#[derive(Args, Clone, Debug)]
pub struct CacheOptions {
    /// A folder in which what was computed for prompts is kept: whatever begins alike is found again, after a restart too.
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,

    /// Most gigabytes of that folder; what was used longest ago is removed first.
    #[arg(long, value_name = "GB", default_value_t = 10.0)]
    pub cache_size_gb: f64,
}

impl CacheOptions {
    /// The engine's settings, with `memory_gb` beside the cache.
    ///
    /// # Errors
    /// When a size is none.
    pub fn remembering(&self, memory_gb: f64) -> Result<Remembering, BadInput> {
        Ok(Remembering {
            folder: self.cache_dir.clone(),
            folder_bytes_max: bytes("--cache-size-gb", self.cache_size_gb)?,
            memory_bytes_max: bytes("--cache-ram-gb", memory_gb)?,
            notice: Arc::new(print_line),
        })
    }
}

fn bytes(option: &str, gigabytes: f64) -> Result<u64, BadInput> {
    if gigabytes.is_finite() && (0.0..=1e6).contains(&gigabytes) {
        Ok((gigabytes * GB) as u64)
    } else {
        Err(BadInput(format!("{option} {gigabytes}: give a number of gigabytes from 0 to 1000000, such as 2.5")))
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_numbers_of_gigabytes() {
        assert_eq!(bytes("--x", 2.5).ok(), Some(2_500_000_000));
        assert_eq!(bytes("--x", 0.0).ok(), Some(0));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e7] {
            let error = bytes("--cache-size-gb", wrong).expect_err("no size").0;
            assert!(error.starts_with("--cache-size-gb"), "{error}");
        }
    }
}
