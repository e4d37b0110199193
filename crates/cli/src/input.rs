//! Text from standard input and from files: whole, of bounded size, and UTF-8 or an error that says where it is not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};

use crate::failure::BadInput;

/// No window holds more, and no memory is lost to a pipe that never ends.
const BYTES_MAX: u64 = 256 << 20;

/// All of standard input.
pub fn standard_input() -> anyhow::Result<String> {
    text("standard input", io::stdin().lock())
}

/// All of a text file.
pub fn file(path: &Path) -> anyhow::Result<String> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| BadInput(format!("{name}: cannot be opened: {error}")))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        bail!(BadInput(format!("{name}: is a directory; expected a text file")));
    }
    text(&name, file)
}

/// Bytes that must be UTF-8.
///
/// # Errors
/// Names the offset of the first byte that is not, counted from 0.
pub fn utf8(name: &str, bytes: Vec<u8>) -> Result<String, BadInput> {
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[offset];
        BadInput(format!("{name} is not UTF-8 text: byte {offset} is 0x{byte:02x}; convert it to UTF-8 first"))
    })
}

fn text(name: &str, source: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    source.take(BYTES_MAX + 1).read_to_end(&mut bytes).with_context(|| format!("{name}: cannot be read"))?;
    if bytes.len() as u64 > BYTES_MAX {
        bail!(BadInput(format!("{name} is over {} MiB; give less text", BYTES_MAX >> 20)));
    }
    Ok(utf8(name, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_refused_with_its_offset() {
        let error = utf8("standard input", b"abc\xff".to_vec()).expect_err("not UTF-8");
        assert!(error.to_string().contains("byte 3 is 0xff"), "{error}");
        // A character that the end cuts off begins where the text stops being valid.
        let error = utf8("standard input", "aé".as_bytes()[..2].to_vec()).expect_err("not UTF-8");
        assert!(error.to_string().contains("byte 1 is 0xc3"), "{error}");
    }
}
