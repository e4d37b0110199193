//! What a page, or the state behind it, is called outside of the pool: by everything that settles it.
//!
//! A name is a BLAKE3 hash of the page's tokens and of the name before it, down to a root that holds the salt. Two pages with one name
//! would be a collision of 256 bits, which nobody can make: a name stands for the whole prefix, where the index of
//! [`crate::prefix`], whose hash is short and quick, compares parents and tokens instead. Model and device are no part of it: a
//! store is opened for one of each.

use std::fmt;

/// The name of the page at the end of a prefix of full pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name([u8; 32]);

impl Name {
    /// The name of no tokens, for those that share what is known under this salt.
    pub fn root(salt: u64) -> Self {
        Self(blake3::Hasher::new().update(b"kauri prefix").update(&salt.to_le_bytes()).finalize().into())
    }

    /// The name of a prefix that goes on with a page of `tokens`.
    #[must_use]
    pub fn then(&self, tokens: &[u32]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        // A stack's worth at a time: one call of the hash for a usual page.
        for piece in tokens.chunks(64) {
            let mut bytes = [0; 4 * 64];
            bytes.as_chunks_mut().0.iter_mut().zip(piece).for_each(|(bytes, token)| *bytes = token.to_le_bytes());
            hasher.update(&bytes[..4 * piece.len()]);
        }
        Self(hasher.finalize().into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The name with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The name that is written as `hex`, in lower case.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let is_lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !hex.as_bytes().iter().all(is_lower_hex) {
            return None;
        }
        blake3::Hash::from_hex(hex).ok().map(|hash| Self(hash.into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_the_salt_the_tokens_and_their_pages() {
        let root = Name::root(0);
        let page = root.then(&[1, 2, 3]);
        assert_eq!(page, Name::root(0).then(&[1, 2, 3]));
        let others = [
            root,
            Name::root(1).then(&[1, 2, 3]),
            root.then(&[1, 2, 4]),
            root.then(&[1, 2]),
            root.then(&[1]).then(&[2, 3]),
        ];
        assert!(others.iter().all(|&other| other != page));
        let long: Vec<u32> = (0..1000).collect();
        assert_ne!(root.then(&long), root.then(&long[..999]));
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = Name::root(7);
        assert_eq!(Name::from_hex(&name.to_string()), Some(name));
        let written = name.to_string();
        for wrong in ["", "ab", &written[1..], &written.to_uppercase(), &format!("{written}0"), &"g".repeat(64)] {
            assert_eq!(Name::from_hex(wrong), None, "{wrong}");
        }
    }
}
