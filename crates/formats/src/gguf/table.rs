//! The tensor table of a GGUF file, checked against the data that follows it.

use indexmap::IndexMap;

use super::cursor::Cursor;
use super::{DIMS_MAX, NAME_BYTES_MAX};
use crate::budget::Budget;
use crate::checkpoint::Tensor;
use crate::error::{Error, quoted};
use crate::quant::Quant;

/// The least an entry takes: an empty name, the number of dimensions, one dimension, type, offset.
const ENTRY_BYTES_MIN: u64 = 8 + 4 + 8 + 4 + 8;
/// What an entry takes in memory, its name apart, while all are checked: a slot of the map and an index, the allocations
/// of name and dimensions, and the entry as read.
const ENTRY_MEMORY_BYTES: usize = size_of::<(usize, String, Tensor)>() + size_of::<Entry<'_>>() + 96;

/// One line of the table.
struct Entry<'a> {
    name: &'a str,
    quant: Quant,
    /// Outermost first.
    dims: Vec<u64>,
    /// In the data section, in bytes.
    offset: u64,
    /// Bytes stored.
    bytes: u64,
}

/// Reads `count` entries, and cuts each tensor from the data section.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    count: u64,
    alignment: u64,
    budget: &mut Budget,
) -> Result<IndexMap<String, Tensor>, Error> {
    cursor.expect(count, ENTRY_BYTES_MIN, "tensor table")?;
    budget.draw(count, ENTRY_MEMORY_BYTES)?;
    let mut entries = Vec::with_capacity(count as usize);
    for index in 0..count {
        entries.push(Entry::read(cursor, index, alignment, budget)?);
    }
    refuse_overlaps(&entries)?;
    let data_start = (cursor.at() as u64).next_multiple_of(alignment);
    let mut tensors = IndexMap::with_capacity(entries.len());
    for entry in entries {
        let tensor = entry.cut(cursor, data_start)?;
        if tensors.insert(entry.name.to_owned(), tensor).is_some() {
            return Err(Error::Duplicate { what: format!("tensor {}", quoted(entry.name)) });
        }
    }
    Ok(tensors)
}

impl<'a> Entry<'a> {
    fn read(cursor: &mut Cursor<'a>, index: u64, alignment: u64, budget: &mut Budget) -> Result<Self, Error> {
        let name = cursor.string(NAME_BYTES_MAX, &format!("name of tensor {index}"))?;
        budget.draw(1, name.len())?;
        let what = format!("tensor {}", quoted(name));
        let dims = dims(cursor, name, &what)?;
        let number = cursor.u32(&what)?;
        let quant = Quant::from_ggml(number).ok_or_else(|| Error::TensorType {
            tensor: quoted(name),
            found: number.to_string(),
            expected: "the types of ggml",
        })?;
        let bytes = stored_bytes(&dims, quant).ok_or_else(|| Error::TensorDims {
            tensor: quoted(name),
            dims: dims.clone(),
            expected: format!(
                "rows of whole {} blocks ({} values), less than 2^63 bytes in all",
                quant.name(),
                quant.block_len()
            ),
        })?;
        let offset = cursor.u64(&what)?;
        if !offset.is_multiple_of(alignment) {
            return Err(Error::Misaligned { tensor: quoted(name), offset, alignment });
        }
        Ok(Self { name, quant, dims, offset, bytes })
    }

    /// The tensor over its bytes.
    fn cut(&self, cursor: &Cursor<'_>, data_start: u64) -> Result<Tensor, Error> {
        let file = cursor.bytes();
        let start = data_start.saturating_add(self.offset);
        let range = usize::try_from(start).ok().zip(usize::try_from(start.saturating_add(self.bytes)).ok());
        let data = range.and_then(|(start, end)| file.slice(start..end));
        Ok(Tensor {
            quant: self.quant,
            dims: self.dims.clone(),
            data: data.ok_or_else(|| Error::Truncated {
                what: format!("tensor {}", quoted(self.name)),
                at: start,
                needed: self.bytes,
                left: (file.len() as u64).saturating_sub(start),
            })?,
            scales: None,
        })
    }
}

/// Dimensions, turned round: GGUF has the innermost first.
fn dims(cursor: &mut Cursor<'_>, name: &str, what: &str) -> Result<Vec<u64>, Error> {
    let count = cursor.u32(what)?;
    if !(1..=DIMS_MAX).contains(&count) {
        return Err(Error::Value {
            what: format!("{what}: number of dimensions"),
            expected: "1 to 4",
            found: count.to_string(),
        });
    }
    let mut dims = Vec::with_capacity(count as usize);
    for _ in 0..count {
        dims.push(cursor.u64(what)?);
    }
    dims.reverse();
    if dims.contains(&0) {
        return Err(Error::TensorDims { tensor: quoted(name), dims, expected: "none of them zero".to_owned() });
    }
    Ok(dims)
}

/// Bytes of a tensor; `None` if its rows are no whole blocks or the product passes what a file can hold.
pub(super) fn stored_bytes(dims: &[u64], quant: Quant) -> Option<u64> {
    let (&columns, outer) = dims.split_last()?;
    let row = quant.row_bytes(usize::try_from(columns).ok()?)? as u64;
    let bytes = outer.iter().try_fold(row, |product, &dim| product.checked_mul(dim))?;
    i64::try_from(bytes).ok().map(|_| bytes)
}

fn refuse_overlaps(entries: &[Entry<'_>]) -> Result<(), Error> {
    let mut order: Vec<&Entry<'_>> = entries.iter().collect();
    order.sort_unstable_by_key(|entry| entry.offset);
    for pair in order.windows(2) {
        if pair[0].offset.saturating_add(pair[0].bytes) > pair[1].offset {
            return Err(Error::Overlap {
                tensor: quoted(pair[0].name),
                other: quoted(pair[1].name),
                offset: pair[1].offset,
            });
        }
    }
    Ok(())
}
