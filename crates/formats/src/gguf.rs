//! GGUF, versions 2 and 3, little-endian: header, metadata, tensor table, data; one file or several.
//!
//! After the format's description in the ggml repository (`docs/gguf.md`). A file is hostile until read through: nothing
//! is allocated for a count before the bytes that the count promises are known to be there, and all that reading a model
//! may allocate is drawn from one [`MEMORY_BYTES_MAX`](crate::budget::MEMORY_BYTES_MAX). Tensors and arrays of strings stay in the mapping.
//!
//! This does not know what any key or tensor means, apart from those that describe the file itself: `general.alignment`
//! and `split.*`.

mod cursor;
mod split;
mod table;
mod values;
mod write;

use indexmap::IndexMap;

use crate::budget::Budget;
use crate::checkpoint::Tensor;
use crate::error::Error;
use crate::mapping::Bytes;
use crate::metadata::Metadata;
use cursor::Cursor;

pub(crate) use split::open_all;
pub use write::{Slot, Writer, write};

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// The longest key, in bytes (the format's own limit).
pub const KEY_BYTES_MAX: u64 = 65_535;
/// The longest tensor name, in bytes (llama.cpp stops at 63).
pub const NAME_BYTES_MAX: u64 = 1024;
/// The most dimensions of a tensor (the format's own limit).
pub const DIMS_MAX: u32 = 4;
/// How deep arrays may nest.
pub const NESTING_MAX: u32 = 4;
/// The largest alignment of tensor data, in bytes.
pub const ALIGNMENT_MAX: u64 = 1 << 20;
/// The most files of one model.
pub const SHARDS_MAX: u64 = 4096;

const ALIGNMENT_KEY: &str = "general.alignment";
const ALIGNMENT_DEFAULT: u64 = 32;
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;
const VERSION_WRITTEN: u32 = 3;

/// What one GGUF file holds.
#[derive(Debug)]
pub struct Gguf {
    /// Key-value pairs in file order.
    pub metadata: Metadata,
    /// Tensors by name, in the order of the table.
    pub tensors: IndexMap<String, Tensor>,
}

/// Reads one GGUF file. Tensors and arrays of strings of the result are ranges of `bytes`.
///
/// # Errors
/// Any deviation from the format, named.
pub fn parse(bytes: &Bytes) -> Result<Gguf, Error> {
    parse_within(bytes, &mut Budget::new())
}

/// Reads one of several files that share a budget.
fn parse_within(bytes: &Bytes, budget: &mut Budget) -> Result<Gguf, Error> {
    let mut cursor = Cursor::new(bytes);
    let counts = Counts::read(&mut cursor)?;
    let metadata = values::read_all(&mut cursor, counts.keys, budget)?;
    let alignment = alignment(&metadata)?;
    let tensors = table::read(&mut cursor, counts.tensors, alignment, budget)?;
    Ok(Gguf { metadata, tensors })
}

impl Gguf {
    /// Fails if this is but one part of a model.
    pub(crate) fn refuse_part(&self) -> Result<(), Error> {
        split::Part::of(&self.metadata)?.map_or(Ok(()), |part| Err(part.alone()))
    }
}

/// The fixed part of the header.
struct Counts {
    tensors: u64,
    keys: u64,
}

impl Counts {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let magic = cursor.array::<4>("magic")?;
        if magic == *b"FUGG" {
            return Err(Error::BigEndian);
        }
        if magic != MAGIC {
            return Err(Error::UnknownMagic { first: magic.to_vec() });
        }
        let version = cursor.u32("version")?;
        if VERSIONS.contains(&version.swap_bytes()) {
            return Err(Error::BigEndian);
        }
        if !VERSIONS.contains(&version) {
            return Err(Error::Version { version });
        }
        let tensors = cursor.u64("tensor count")?;
        let keys = cursor.u64("metadata key count")?;
        Ok(Self { tensors, keys })
    }
}

/// The alignment of tensor data, in bytes: a power of two.
fn alignment(metadata: &Metadata) -> Result<u64, Error> {
    let Some(value) = metadata.get(ALIGNMENT_KEY) else {
        return Ok(ALIGNMENT_DEFAULT);
    };
    match value.as_u64() {
        Some(alignment) if alignment.is_power_of_two() && alignment <= ALIGNMENT_MAX => Ok(alignment),
        _ => Err(Error::Value {
            what: format!("metadata key `{ALIGNMENT_KEY}`"),
            expected: "a power of two up to 1048576",
            found: values::describe(value),
        }),
    }
}
