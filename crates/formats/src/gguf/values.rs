//! The metadata of a GGUF file: keys, each with a value of one of thirteen types.

use super::cursor::Cursor;
use super::{KEY_BYTES_MAX, NESTING_MAX};
use crate::budget::Budget;
use crate::error::{Error, quoted};
use crate::metadata::{Metadata, Strings, Value};

/// The least a key and its value take: an empty key, a type, one byte.
const ENTRY_BYTES_MIN: u64 = 8 + 4 + 1;
/// What an entry takes in memory, its key and value apart: a slot of the map, an index, the allocation of the key.
const ENTRY_MEMORY_BYTES: usize = size_of::<(usize, String, Value)>() + 64;

/// Types of values, by their number in the file.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    pub(super) fn number(self) -> u32 {
        self as u32
    }

    fn read(cursor: &mut Cursor<'_>, what: &str) -> Result<Self, Error> {
        let number = cursor.u32(what)?;
        Self::ALL.get(number as usize).copied().ok_or_else(|| Error::Value {
            what: what.to_owned(),
            expected: "a type of value, 0 to 12",
            found: number.to_string(),
        })
    }

    /// The bytes of one value; for strings and arrays, the least.
    fn bytes_min(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }
}

/// Reads `count` keys with their values.
pub(super) fn read_all(cursor: &mut Cursor<'_>, count: u64, budget: &mut Budget) -> Result<Metadata, Error> {
    cursor.expect(count, ENTRY_BYTES_MIN, "metadata")?;
    let mut metadata = Metadata::default();
    for index in 0..count {
        let key = cursor.string(KEY_BYTES_MAX, &format!("metadata key {index}"))?;
        budget.draw(1, ENTRY_MEMORY_BYTES + key.len())?;
        let what = format!("metadata key {}", quoted(key));
        let kind = Kind::read(cursor, &what)?;
        let value = read(cursor, kind, &what, budget)?;
        if !metadata.insert(key.to_owned(), value) {
            return Err(Error::Duplicate { what });
        }
    }
    Ok(metadata)
}

/// A value as a message shows it.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Unsigned(value) => value.to_string(),
        Value::Signed(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::String(value) => quoted(value),
        Value::Strings(_)
        | Value::Unsigneds(_)
        | Value::Signeds(_)
        | Value::Floats(_)
        | Value::Bools(_)
        | Value::Nested(_) => "an array".to_owned(),
    }
}

fn read(cursor: &mut Cursor<'_>, kind: Kind, what: &str, budget: &mut Budget) -> Result<Value, Error> {
    Ok(match kind {
        Kind::U8 => Value::Unsigned(u64::from(u8::from_le_bytes(cursor.array(what)?))),
        Kind::U16 => Value::Unsigned(u64::from(u16::from_le_bytes(cursor.array(what)?))),
        Kind::U32 => Value::Unsigned(u64::from(cursor.u32(what)?)),
        Kind::U64 => Value::Unsigned(cursor.u64(what)?),
        Kind::I8 => Value::Signed(i64::from(i8::from_le_bytes(cursor.array(what)?))),
        Kind::I16 => Value::Signed(i64::from(i16::from_le_bytes(cursor.array(what)?))),
        Kind::I32 => Value::Signed(i64::from(i32::from_le_bytes(cursor.array(what)?))),
        Kind::I64 => Value::Signed(i64::from_le_bytes(cursor.array(what)?)),
        Kind::F32 => Value::Float(f64::from(f32::from_le_bytes(cursor.array(what)?))),
        Kind::F64 => Value::Float(f64::from_le_bytes(cursor.array(what)?)),
        Kind::Bool => Value::Bool(truth(cursor.array::<1>(what)?[0], what)?),
        Kind::String => {
            let text = cursor.string(u64::MAX, what)?;
            budget.draw(1, text.len())?;
            Value::String(text.to_owned())
        }
        Kind::Array => array(cursor, what, 1, budget)?,
    })
}

/// An array: the type of its elements, how many, then these one after another. `depth` counts from 1.
fn array(cursor: &mut Cursor<'_>, what: &str, depth: u32, budget: &mut Budget) -> Result<Value, Error> {
    if depth > NESTING_MAX {
        return Err(Error::Limit {
            what: format!("{what}: depth of nested arrays"),
            value: u64::from(depth),
            max: u64::from(NESTING_MAX),
        });
    }
    let kind = Kind::read(cursor, what)?;
    let count = cursor.u64(what)?;
    cursor.expect(count, kind.bytes_min(), what)?;
    let unsigneds = |values| Ok(Value::Unsigneds(values));
    let signeds = |values| Ok(Value::Signeds(values));
    let floats = |values| Ok(Value::Floats(values));
    match kind {
        Kind::U8 => numbers(cursor, count, what, budget, |b| u64::from(u8::from_le_bytes(b))).and_then(unsigneds),
        Kind::U16 => numbers(cursor, count, what, budget, |b| u64::from(u16::from_le_bytes(b))).and_then(unsigneds),
        Kind::U32 => numbers(cursor, count, what, budget, |b| u64::from(u32::from_le_bytes(b))).and_then(unsigneds),
        Kind::U64 => numbers(cursor, count, what, budget, u64::from_le_bytes).and_then(unsigneds),
        Kind::I8 => numbers(cursor, count, what, budget, |b| i64::from(i8::from_le_bytes(b))).and_then(signeds),
        Kind::I16 => numbers(cursor, count, what, budget, |b| i64::from(i16::from_le_bytes(b))).and_then(signeds),
        Kind::I32 => numbers(cursor, count, what, budget, |b| i64::from(i32::from_le_bytes(b))).and_then(signeds),
        Kind::I64 => numbers(cursor, count, what, budget, i64::from_le_bytes).and_then(signeds),
        Kind::F32 => numbers(cursor, count, what, budget, |b| f64::from(f32::from_le_bytes(b))).and_then(floats),
        Kind::F64 => numbers(cursor, count, what, budget, f64::from_le_bytes).and_then(floats),
        Kind::Bool => {
            budget.draw(count, size_of::<bool>())?;
            let bytes = cursor.take(count, what)?;
            let values: Result<Vec<bool>, Error> = bytes.iter().map(|&byte| truth(byte, what)).collect();
            values.map(Value::Bools)
        }
        Kind::String => strings(cursor, count, what, budget).map(Value::Strings),
        Kind::Array => {
            budget.draw(count, size_of::<Value>())?;
            let mut values = Vec::with_capacity(count as usize);
            for _ in 0..count {
                values.push(array(cursor, what, depth + 1, budget)?);
            }
            Ok(Value::Nested(values))
        }
    }
}

/// `count` numbers of `N` bytes each, widened.
fn numbers<const N: usize, T>(
    cursor: &mut Cursor<'_>,
    count: u64,
    what: &str,
    budget: &mut Budget,
    widen: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, Error> {
    budget.draw(count, size_of::<T>())?;
    let bytes = cursor.take(count * N as u64, what)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|&chunk| widen(chunk)).collect())
}

/// `count` strings, left where they are: each is read over once, to check it, and its start is kept.
fn strings(cursor: &mut Cursor<'_>, count: u64, what: &str, budget: &mut Budget) -> Result<Strings, Error> {
    budget.draw(count, size_of::<u32>())?;
    let begin = cursor.at();
    let mut starts = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let start = cursor.at() - begin;
        starts.push(u32::try_from(start).map_err(|_| Error::Limit {
            what: format!("{what}: bytes of its strings"),
            value: start as u64,
            max: u64::from(u32::MAX),
        })?);
        cursor.string(u64::MAX, what)?;
    }
    let bytes = cursor.bytes().slice(begin..cursor.at());
    Ok(Strings::new(bytes.expect("a cursor stays inside its file"), starts))
}

fn truth(byte: u8, what: &str) -> Result<bool, Error> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => {
            Err(Error::Value { what: what.to_owned(), expected: "a truth value, 0 or 1", found: other.to_string() })
        }
    }
}
