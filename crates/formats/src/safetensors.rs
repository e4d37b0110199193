//! safetensors: a JSON header that lists the tensors, then their bytes; one file or several, in a model directory.
//!
//! After the format's description (the README of huggingface/safetensors). The header is read with `serde_json` and not
//! with the `safetensors` crate: the crate keeps the last of two tensors of one name, and builds the whole header in
//! memory, several times its size, before it looks at it. Here duplicates are refused, and every entry is drawn from
//! the [memory budget](crate::budget) before it is kept.

mod directory;
mod index;
mod json;
mod scaled;

use std::fmt;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::budget::Budget;
use crate::checkpoint::Tensor;
use crate::error::{Error, quoted};
use crate::mapping::Bytes;
use crate::quant::Quant;

pub(crate) use directory::{open_adapter, open_directory, open_file};
pub use scaled::METHODS as SCALED_METHODS;

/// The longest header, in bytes (the reference implementation's limit).
pub const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The longest tensor name, in bytes.
pub const NAME_BYTES_MAX: u64 = 1024;
/// The most dimensions of a tensor.
pub const DIMS_MAX: usize = 8;

/// Types of values that are read, by the names that the format gives them.
const TYPES: [(&str, Quant); 10] = [
    ("F64", Quant::F64),
    ("F32", Quant::F32),
    ("F16", Quant::F16),
    ("BF16", Quant::BF16),
    ("F8_E4M3", Quant::F8_E4M3),
    ("I64", Quant::I64),
    ("I32", Quant::I32),
    ("I16", Quant::I16),
    ("I8", Quant::I8),
    // Bytes that stand for something else: nothing reads either as numbers.
    ("U8", Quant::I8),
];
const TYPE_NAMES: &str = "F64, F32, F16, BF16, F8_E4M3, I64, I32, I16, I8, U8";

const PREFIX_BYTES: usize = size_of::<u64>();
/// What an entry takes in memory, its name apart: as read, then as a slot of the map with an index, and three allocations.
const ENTRY_MEMORY_BYTES: usize = size_of::<Entry>() + size_of::<(usize, String, Tensor)>() + 128;

/// Reads one safetensors file. The tensors are ranges of `bytes`; a scalar has no dimensions.
///
/// # Errors
/// Any deviation from the format, named; a type that is not in the table above.
pub fn parse(bytes: &Bytes) -> Result<IndexMap<String, Tensor>, Error> {
    parse_within(bytes, &mut Budget::new())
}

/// Reads one of several files that share a budget.
fn parse_within(bytes: &Bytes, budget: &mut Budget) -> Result<IndexMap<String, Tensor>, Error> {
    let (header, data) = split(bytes)?;
    budget.extend(data.len() as u64);
    let mut entries = entries(&header, budget)?;
    refuse_gaps(&mut entries, data.len() as u64)?;
    entries.sort_unstable_by_key(|entry| entry.position);
    let mut tensors = IndexMap::with_capacity(entries.len());
    for entry in entries {
        let (name, tensor) = entry.cut(&data)?;
        let name_shown = quoted(&name);
        if tensors.insert(name, tensor).is_some() {
            return Err(Error::Duplicate { what: format!("tensor {name_shown}") });
        }
    }
    Ok(tensors)
}

/// Header and data.
fn split(bytes: &Bytes) -> Result<(Bytes, Bytes), Error> {
    let truncated = |what: &str, at: usize, needed: u64| Error::Truncated {
        what: what.to_owned(),
        at: at as u64,
        needed,
        left: (bytes.len() - at) as u64,
    };
    let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else {
        return Err(truncated("length of the header", 0, PREFIX_BYTES as u64));
    };
    let length = u64::from_le_bytes(*prefix);
    if length > HEADER_BYTES_MAX {
        return Err(Error::Limit {
            what: "length of the safetensors header, in bytes".to_owned(),
            value: length,
            max: HEADER_BYTES_MAX,
        });
    }
    let end = PREFIX_BYTES + length as usize;
    let parts = bytes.slice(PREFIX_BYTES..end).zip(bytes.slice(end..bytes.len()));
    parts.ok_or_else(|| truncated("the safetensors header", PREFIX_BYTES, length))
}

/// One line of the header.
struct Entry {
    name: String,
    quant: Quant,
    dims: Vec<u64>,
    /// In the data, in bytes.
    start: u64,
    end: u64,
    /// In the header.
    position: usize,
}

fn entries(header: &[u8], budget: &mut Budget) -> Result<Vec<Entry>, Error> {
    let mut fault = None;
    let mut deserializer = serde_json::Deserializer::from_slice(header);
    let seed = Header { budget, fault: &mut fault };
    let entries = seed.deserialize(&mut deserializer).and_then(|entries| {
        deserializer.end()?;
        Ok(entries)
    });
    entries
        .map_err(|error| fault.unwrap_or_else(|| Error::Json { what: "safetensors header", reason: error.to_string() }))
}

/// Reads the header entry by entry. What is wrong with an entry goes to `fault`, since JSON errors carry only text.
struct Header<'a> {
    budget: &'a mut Budget,
    fault: &'a mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for Header<'_> {
    type Value = Vec<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Entry>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Header<'_> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Entry>, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let drawn = self.budget.draw(1, ENTRY_MEMORY_BYTES + name.len());
            let entry = match drawn {
                Ok(()) => Entry::new(name, map.next_value()?, entries.len()),
                Err(error) => Err(error),
            };
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    *self.fault = Some(error);
                    return Err(de::Error::custom("refused"));
                }
            }
        }
        Ok(entries)
    }
}

/// The value of an entry, as it stands in the header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    dtype: String,
    shape: Dims,
    data_offsets: (u64, u64),
}

/// A list of a few numbers: it stops at the first too many.
struct Dims(Vec<u64>);

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Few;
        impl<'de> Visitor<'de> for Few {
            type Value = Dims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {DIMS_MAX} dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Dims, A::Error> {
                let mut dims = Vec::new();
                while let Some(dim) = seq.next_element()? {
                    if dims.len() == DIMS_MAX {
                        return Err(de::Error::invalid_length(DIMS_MAX + 1, &self));
                    }
                    dims.push(dim);
                }
                Ok(Dims(dims))
            }
        }
        deserializer.deserialize_seq(Few)
    }
}

impl Entry {
    fn new(name: String, fields: Fields, position: usize) -> Result<Self, Error> {
        if name.len() as u64 > NAME_BYTES_MAX {
            return Err(Error::Limit {
                what: format!("length of the name of tensor {}, in bytes", quoted(&name)),
                value: name.len() as u64,
                max: NAME_BYTES_MAX,
            });
        }
        let Some(&(_, quant)) = TYPES.iter().find(|(name, _)| *name == fields.dtype) else {
            return Err(Error::TensorType {
                tensor: quoted(&name),
                found: quoted(&fields.dtype),
                expected: TYPE_NAMES,
            });
        };
        let Dims(dims) = fields.shape;
        let (start, end) = fields.data_offsets;
        let size = quant.block_bytes() as u64;
        let bytes = dims.iter().try_fold(size, |product, &dim| product.checked_mul(dim));
        if bytes.is_none() || bytes != end.checked_sub(start) {
            return Err(Error::TensorDims {
                tensor: quoted(&name),
                dims,
                expected: format!("values of {size} bytes that fill data_offsets {start} to {end}"),
            });
        }
        Ok(Self { name, quant, dims, start, end, position })
    }

    /// The name, and the tensor over its bytes.
    fn cut(self, data: &Bytes) -> Result<(String, Tensor), Error> {
        let range = usize::try_from(self.start).ok().zip(usize::try_from(self.end).ok());
        let Some(cut) = range.and_then(|(start, end)| data.slice(start..end)) else {
            return Err(self.outside(data.len() as u64));
        };
        let tensor = Tensor { quant: self.quant, dims: self.dims, data: cut, scales: None };
        Ok((self.name, tensor))
    }

    fn outside(&self, data_bytes: u64) -> Error {
        Error::Truncated {
            what: format!("data of tensor {}", quoted(&self.name)),
            at: self.start,
            needed: self.end - self.start,
            left: data_bytes.saturating_sub(self.start),
        }
    }
}

/// The format has the tensors fill the data, without a gap and without overlap, so that nothing else can hide in a file.
/// Leaves the entries in the order of their data.
fn refuse_gaps(entries: &mut [Entry], data_bytes: u64) -> Result<(), Error> {
    entries.sort_unstable_by_key(|entry| (entry.start, entry.end));
    if let Some(entry) = entries.iter().find(|entry| entry.end > data_bytes) {
        return Err(entry.outside(data_bytes));
    }
    for pair in entries.windows(2) {
        if pair[1].start < pair[0].end {
            return Err(Error::Overlap {
                tensor: quoted(&pair[0].name),
                other: quoted(&pair[1].name),
                offset: pair[1].start,
            });
        }
    }
    let mut filled = 0;
    let starts = entries.iter().map(|entry| (entry.start, entry.end));
    for (start, end) in starts.chain([(data_bytes, data_bytes)]) {
        if start != filled {
            return Err(Error::Value {
                what: format!("data at byte {filled}"),
                expected: "the start of a tensor, or the end of the file",
                found: format!("{} bytes of no tensor", start - filled),
            });
        }
        filled = end;
    }
    Ok(())
}
