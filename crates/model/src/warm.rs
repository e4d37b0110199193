//! Whether a file is in memory already, and bringing it there: a first token that waits for a disk should say so.
//!
//! What is read goes to the system's own copy of the file, which the mapping shows; nothing is kept here.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a read.
const CHUNK_BYTES: usize = 4 << 20;

/// The share of a file, from 0 to 1, that can be read without waiting for a disk; nothing where the system does not say.
pub fn share_in_memory(path: &Path) -> Option<f64> {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::{ReadWriteFlags, preadv2};

        /// Places that are looked at.
        const PLACES: u64 = 64;
        let file = File::open(path).ok()?;
        let bytes = file.metadata().ok()?.len();
        let places = PLACES.min(bytes.div_ceil(4096)).max(1);
        let mut here = 0;
        for place in 0..places {
            let mut byte = [0];
            let mut buffers = [io::IoSliceMut::new(&mut byte)];
            match preadv2(&file, &mut buffers, place * bytes / places, ReadWriteFlags::NOWAIT) {
                Ok(_) => here += 1,
                Err(rustix::io::Errno::AGAIN) => {}
                // Some file systems cannot tell.
                Err(_) => return None,
            }
        }
        Some(here as f64 / places as f64)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        None
    }
}

/// Reads a file from its start to its end; `read` is told how many more bytes are there, and may end it by answering `false`.
///
/// # Errors
/// Those of the operating system.
pub fn read(path: &Path, mut read: impl FnMut(u64) -> bool) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => {
                if !read(count as u64) {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_in_memory_and_is_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 9 << 20]).unwrap();
        if let Some(share) = share_in_memory(file.path()) {
            assert!(share > 0.9, "{share}");
        }
        let mut bytes = 0;
        read(file.path(), |count| {
            bytes += count;
            true
        })
        .unwrap();
        assert_eq!(bytes, 9 << 20);
    }
}
