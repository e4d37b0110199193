//! The byte alphabet of byte-level BPE: one printable character for each of the 256 bytes.
//!
//! Vocabularies of GPT-2's lineage are written in it, so that a token that cuts a character is still text in a file.
//! This file knows the bijection and nothing of merges.

/// The character that stands for each byte: printable bytes stand for themselves, the 68 others follow from U+0100.
const CHARACTERS: [u16; 256] = {
    let mut table = [0; 256];
    let (mut byte, mut next) = (0, 0x100);
    while byte < 256 {
        let printable = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        table[byte] = if printable { byte as u16 } else { next };
        next += !printable as u16;
        byte += 1;
    }
    table
};

/// One past the largest character of the alphabet.
const END: usize = 0x144;

/// The byte that each character stands for; `NONE` for characters outside the alphabet.
const BYTES: [u16; END] = {
    let mut table = [NONE; END];
    let mut byte = 0;
    while byte < 256 {
        table[CHARACTERS[byte] as usize] = byte as u16;
        byte += 1;
    }
    table
};

const NONE: u16 = u16::MAX;

/// Appends the bytes that `token` spells; `false`, with nothing appended, when a character is outside the alphabet.
pub(crate) fn spell(token: &str, bytes: &mut Vec<u8>) -> bool {
    let start = bytes.len();
    for character in token.chars() {
        match BYTES.get(character as usize) {
            Some(&byte) if byte != NONE => bytes.push(byte as u8),
            _ => {
                bytes.truncate(start);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255u8 {
            let character = char::from_u32(u32::from(CHARACTERS[byte as usize])).unwrap();
            let mut bytes = Vec::new();
            assert!(spell(&character.to_string(), &mut bytes));
            assert_eq!(bytes, [byte]);
        }
    }

    #[test]
    fn known_spellings() {
        let mut bytes = Vec::new();
        assert!(spell("ĠĊÃ©", &mut bytes));
        assert_eq!(bytes, b" \n\xC3\xA9");
        assert!(!spell("a b", &mut bytes), "a plain space is outside the alphabet");
        assert_eq!(bytes.len(), 4);
    }
}
