//! Key-value metadata of a model file, typed as GGUF types it.
//!
//! Arrays of strings stay where they are in the file: a vocabulary of 150,000 strings is a list of offsets, not of copies.
//! This file does not know what any key means.

use indexmap::IndexMap;

use crate::mapping::Bytes;

/// Key-value metadata in file order.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: IndexMap<String, Value>,
}

/// One metadata value. Integers of every width are widened; the width in the file is not kept.
#[derive(Clone, Debug)]
pub enum Value {
    /// `u8`, `u16`, `u32`, `u64`.
    Unsigned(u64),
    /// `i8`, `i16`, `i32`, `i64`.
    Signed(i64),
    /// `f32`, `f64`.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// UTF-8 text, checked.
    String(String),
    /// An array of strings, each checked to be UTF-8, left in the file.
    Strings(Strings),
    /// An array of unsigned integers.
    Unsigneds(Vec<u64>),
    /// An array of signed integers.
    Signeds(Vec<i64>),
    /// An array of floating-point numbers.
    Floats(Vec<f64>),
    /// An array of booleans.
    Bools(Vec<bool>),
    /// An array of arrays.
    Nested(Vec<Value>),
}

/// An array of strings that stays in the file, as GGUF lays it out: each a `u64` length and that many bytes of UTF-8.
///
/// Beside it stand four bytes for each string, where it starts; nothing else is held in memory.
#[derive(Clone, Debug)]
pub struct Strings {
    bytes: Bytes,
    starts: Vec<u32>,
}

impl Metadata {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// All entries in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Adds an entry; `false` if the key was there already (the old value stays).
    pub fn insert(&mut self, key: String, value: Value) -> bool {
        match self.entries.entry(key) {
            indexmap::map::Entry::Occupied(_) => false,
            indexmap::map::Entry::Vacant(slot) => {
                slot.insert(value);
                true
            }
        }
    }

    /// The value of `key` as text.
    pub fn str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The value of `key` as an unsigned integer (a non-negative signed one too).
    pub fn u64(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// The value of `key` as a number (integers too).
    pub fn f64(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    /// The value of `key` as a truth value.
    pub fn bool(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of `key` as an array of strings.
    pub fn strings(&self, key: &str) -> Option<&Strings> {
        match self.get(key)? {
            Value::Strings(value) => Some(value),
            _ => None,
        }
    }

    /// The value of `key` as an array of numbers (integers too).
    pub fn f64s(&self, key: &str) -> Option<Vec<f64>> {
        match self.get(key)? {
            Value::Floats(values) => Some(values.clone()),
            Value::Unsigneds(values) => Some(values.iter().map(|&v| v as f64).collect()),
            Value::Signeds(values) => Some(values.iter().map(|&v| v as f64).collect()),
            _ => None,
        }
    }

    /// The value of `key` as an array of integers.
    pub fn i64s(&self, key: &str) -> Option<Vec<i64>> {
        match self.get(key)? {
            Value::Unsigneds(values) => values.iter().map(|&v| i64::try_from(v).ok()).collect(),
            Value::Signeds(values) => Some(values.clone()),
            _ => None,
        }
    }
}

impl Value {
    /// As text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// As an unsigned integer (a non-negative signed one too).
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// As a number (integers too).
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            _ => None,
        }
    }
}

impl Strings {
    /// Bytes of the length in front of each string.
    pub(crate) const PREFIX_BYTES: usize = size_of::<u64>();

    /// The array in `bytes`; string `i` has its length at `starts[i]`. The caller has checked that all lie inside and are
    /// UTF-8.
    pub(crate) fn new(bytes: Bytes, starts: Vec<u32>) -> Self {
        Self { bytes, starts }
    }

    /// How many strings.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The string at `index`. Checked again at each reading, since a mapped file may be written to by others.
    pub fn get(&self, index: usize) -> Option<&str> {
        let rest = self.bytes.get(*self.starts.get(index)? as usize..)?;
        let (prefix, rest) = rest.split_first_chunk::<{ Self::PREFIX_BYTES }>()?;
        let length = usize::try_from(u64::from_le_bytes(*prefix)).ok()?;
        std::str::from_utf8(rest.get(..length)?).ok()
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// The whole array as it stands in the file.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Lays strings out in memory as they would stand in a file.
///
/// # Panics
/// If they take 4 GiB or more.
impl<T: AsRef<str>> FromIterator<T> for Strings {
    fn from_iter<I: IntoIterator<Item = T>>(strings: I) -> Self {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for string in strings {
            let string = string.as_ref();
            starts.push(u32::try_from(bytes.len()).expect("an array of strings takes less than 4 GiB"));
            bytes.extend((string.len() as u64).to_le_bytes());
            bytes.extend(string.as_bytes());
        }
        Self::new(bytes.into(), starts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_keep_their_order_and_know_their_end() {
        let strings: Strings = ["a", "", "né"].into_iter().collect();
        assert_eq!(strings.iter().collect::<Vec<_>>(), ["a", "", "né"]);
        assert_eq!(strings.get(3), None);
    }

    #[test]
    fn a_key_is_kept_as_first_written() {
        let mut metadata = Metadata::default();
        assert!(metadata.insert("k".to_owned(), Value::Signed(-1)));
        assert!(!metadata.insert("k".to_owned(), Value::Signed(2)));
        assert_eq!((metadata.f64("k"), metadata.u64("k")), (Some(-1.0), None));
    }
}
