//! A place in a GGUF file, from which numbers and text are read one after another; never past the end.

use crate::error::Error;
use crate::mapping::Bytes;

/// Reads a file from front to back.
pub(super) struct Cursor<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes from the start of the file.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The whole file.
    pub(super) fn bytes(&self) -> &'a Bytes {
        self.bytes
    }

    /// Bytes left in the file.
    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// Fails unless the file still has room for `count` things of at least `size` bytes each.
    pub(super) fn expect(&self, count: u64, size: u64, what: &str) -> Result<(), Error> {
        if count.checked_mul(size).is_none_or(|needed| needed > self.left()) {
            return Err(self.truncated(what, count.saturating_mul(size)));
        }
        Ok(())
    }

    /// The next `length` bytes.
    pub(super) fn take(&mut self, length: u64, what: &str) -> Result<&'a [u8], Error> {
        self.expect(length, 1, what)?;
        let taken = &self.bytes[self.at..self.at + length as usize];
        self.at += length as usize;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(self.truncated(what, N as u64)),
        }
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A string: its length as `u64`, then UTF-8.
    pub(super) fn string(&mut self, bytes_max: u64, what: &str) -> Result<&'a str, Error> {
        let length = self.u64(what)?;
        if length > bytes_max {
            return Err(Error::Limit { what: format!("length of {what}, in bytes"), value: length, max: bytes_max });
        }
        let bytes = self.take(length, what)?;
        let text = std::str::from_utf8(bytes);
        text.map_err(|_| Error::Value {
            what: what.to_owned(),
            expected: "UTF-8 text",
            found: "other bytes".to_owned(),
        })
    }

    fn truncated(&self, what: &str, needed: u64) -> Error {
        Error::Truncated { what: what.to_owned(), at: self.at as u64, needed, left: self.left() }
    }
}
