//! SentencePiece's precompiled character map: which strings are replaced before text is looked at.
//!
//! The format is a length, a double array of 32-bit units (<https://github.com/s-yata/darts-clone>), and the
//! replacements, each ended by a zero byte. Everything the walk may touch is checked when the map is read.

use crate::error::Error;

/// A map that was checked.
#[derive(Debug, Default)]
pub(crate) struct Charsmap {
    units: Vec<u32>,
    replacements: String,
}

const DAMAGED: fn(&'static str) -> Error = Error::Charsmap;
/// The longest replacement, its end included: text may grow by no more than this. Unicode's own longest is 33.
const REPLACEMENT_BYTES_MAX: usize = 256;
/// Marks a unit that holds a value, not a transition.
const VALUE: u32 = 1 << 31;

impl Charsmap {
    /// Reads and checks a map. No bytes at all is a map that replaces nothing.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or(DAMAGED("shorter than its length field"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (array, replacements) = rest.split_at_checked(length).ok_or(DAMAGED("shorter than it says"))?;
        let (units, []) = array.as_chunks::<4>() else {
            return Err(DAMAGED("its array is not made of 4-byte units"));
        };
        let units: Vec<u32> = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let replacements =
            String::from_utf8(replacements.to_vec()).map_err(|_| DAMAGED("its replacements are not UTF-8"))?;
        let map = Self { units, replacements };
        map.check()?;
        Ok(map)
    }

    /// Every transition leads into a block of 256 units that exists, and every value to a replacement that ends soon.
    fn check(&self) -> Result<(), Error> {
        if self.units.is_empty() || !self.units.len().is_multiple_of(256) {
            return Err(DAMAGED("its array is not made of blocks of 256"));
        }
        for (at, &unit) in self.units.iter().enumerate().filter(|&(_, unit)| unit & VALUE == 0) {
            let target = at ^ offset(unit);
            let Some(&next) = self.units.get(target) else {
                return Err(DAMAGED("a transition leads outside its array"));
            };
            if has_value(unit) && self.replacement((next & !VALUE) as usize).is_none() {
                return Err(DAMAGED("a replacement lies outside its text or does not end"));
            }
        }
        Ok(())
    }

    fn replacement(&self, start: usize) -> Option<&str> {
        let rest = self.replacements.get(start..)?;
        let end = rest.bytes().take(REPLACEMENT_BYTES_MAX).position(|byte| byte == 0)?;
        Some(&rest[..end])
    }

    /// The replacement of the longest string that `text` begins with, and that string's length in bytes.
    pub(crate) fn longest(&self, text: &[u8]) -> Option<(&str, usize)> {
        let mut at = offset(*self.units.first()?);
        let mut found = None;
        for (index, &byte) in text.iter().enumerate() {
            if byte == 0 {
                break;
            }
            at ^= byte as usize;
            let unit = *self.units.get(at)?;
            if unit & (VALUE | 0xFF) != u32::from(byte) {
                break;
            }
            at ^= offset(unit);
            if has_value(unit) {
                let replacement = self.replacement((self.units.get(at)? & !VALUE) as usize)?;
                found = Some((replacement, index + 1));
            }
        }
        found
    }
}

fn has_value(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A map that replaces single bytes, built the way the format says: root in block 0, children in block 1, values
    /// in block 2.
    pub(crate) fn of_bytes(pairs: &[(u8, &str)]) -> Vec<u8> {
        let mut units = vec![0u32; 768];
        let mut text = String::new();
        units[0] = 256 << 10;
        for &(byte, replacement) in pairs {
            // From 256 ^ byte to 512 ^ byte.
            let child = 256 ^ byte as usize;
            units[child] = ((256 ^ 512) << 10) | 1 << 8 | u32::from(byte);
            units[child ^ 256 ^ 512] = VALUE | text.len() as u32;
            text.push_str(replacement);
            text.push('\0');
        }
        let mut bytes = (units.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(text.bytes());
        bytes
    }

    #[test]
    fn replaces() {
        let map = Charsmap::parse(&of_bytes(&[(b'A', "a"), (b'\t', " "), (b'x', "")])).unwrap();
        assert_eq!(map.longest(b"Ab"), Some(("a", 1)));
        assert_eq!(map.longest(b"\tA"), Some((" ", 1)));
        assert_eq!(map.longest(b"xyz"), Some(("", 1)));
        assert_eq!(map.longest(b"b"), None);
        assert_eq!(Charsmap::parse(&[]).unwrap().longest(b"b"), None);
    }

    #[test]
    fn damage_is_found_when_read() {
        let good = of_bytes(&[(b'A', "a")]);
        assert!(Charsmap::parse(&good[..3]).is_err());
        assert!(Charsmap::parse(&good[..100]).is_err());
        assert!(Charsmap::parse(&good[..good.len() - 1]).is_err(), "the replacement does not end");
        let mut far = good.clone();
        far[4..8].copy_from_slice(&(0x001F_FFFFu32 << 10).to_le_bytes());
        assert!(Charsmap::parse(&far).is_err());
    }
}
