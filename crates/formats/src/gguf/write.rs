//! Writes GGUF version 3: everything but the tensors' bytes at once, these one tensor after another as they are made.

use std::io::{self, Write};

use super::values::Kind;
use super::{ALIGNMENT_DEFAULT, ALIGNMENT_KEY, ALIGNMENT_MAX, DIMS_MAX, MAGIC, VERSION_WRITTEN, table};
use crate::checkpoint::Tensor;
use crate::metadata::{Metadata, Strings, Value};
use crate::quant::Quant;

/// A tensor to be written: all but its bytes.
#[derive(Clone, Debug)]
pub struct Slot<'a> {
    /// Its name.
    pub name: &'a str,
    /// How its values are stored.
    pub quant: Quant,
    /// Dimensions, outermost first; 1 to 4, none zero.
    pub dims: &'a [u64],
}

/// A GGUF file on its way out. Holds no tensor in memory.
pub struct Writer<W> {
    out: W,
    alignment: u64,
    /// Bytes each tensor takes, in order.
    sizes: Vec<u64>,
    /// The tensor that the next byte belongs to.
    index: usize,
    /// Bytes of it that are written.
    filled: u64,
}

/// Writes a whole model.
///
/// # Errors
/// Those of [`Writer`].
pub fn write<'a, W: Write>(
    out: W,
    metadata: &Metadata,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)> + Clone,
) -> io::Result<W> {
    let slots: Vec<Slot<'_>> = tensors
        .clone()
        .into_iter()
        .map(|(name, tensor)| Slot { name, quant: tensor.quant, dims: &tensor.dims })
        .collect();
    let mut writer = Writer::new(out, metadata, &slots)?;
    for (_, tensor) in tensors {
        writer.data(&tensor.data)?;
    }
    writer.finish()
}

impl<W: Write> Writer<W> {
    /// Writes header, metadata and tensor table.
    ///
    /// Numbers are written as GGUF's writers do by default: 32 bits wide where the value fits without loss, else 64.
    ///
    /// # Errors
    /// `InvalidInput`, naming the tensor or key, for what GGUF cannot hold; those of `out`.
    pub fn new(mut out: W, metadata: &Metadata, tensors: &[Slot<'_>]) -> io::Result<Self> {
        let alignment = alignment(metadata)?;
        let sizes: Vec<u64> = tensors.iter().map(stored_bytes).collect::<io::Result<_>>()?;
        let mut head = Vec::new();
        head.extend(MAGIC);
        head.extend(VERSION_WRITTEN.to_le_bytes());
        head.extend((tensors.len() as u64).to_le_bytes());
        head.extend((metadata.iter().len() as u64).to_le_bytes());
        for (key, value) in metadata.iter() {
            put_string(&mut head, key);
            head.extend(kind(value).number().to_le_bytes());
            put(&mut head, key, value)?;
        }
        let mut offset = 0_u64;
        for (tensor, size) in tensors.iter().zip(&sizes) {
            put_string(&mut head, tensor.name);
            head.extend((tensor.dims.len() as u32).to_le_bytes());
            for dim in tensor.dims.iter().rev() {
                head.extend(dim.to_le_bytes());
            }
            let number = tensor.quant.ggml();
            let number = number
                .ok_or_else(|| invalid(format!("tensor {}: no GGUF has {}", tensor.name, tensor.quant.name())))?;
            head.extend(number.to_le_bytes());
            head.extend(offset.to_le_bytes());
            offset = offset
                .checked_add(*size)
                .and_then(|end| end.checked_next_multiple_of(alignment))
                .ok_or_else(|| invalid(format!("tensor {}: the file would pass 2^64 bytes", tensor.name)))?;
        }
        head.resize(head.len().next_multiple_of(alignment as usize), 0);
        out.write_all(&head)?;
        Ok(Self { out, alignment, sizes, index: 0, filled: 0 })
    }

    /// Writes the next bytes of the tensors, in the order given; a tensor may come in pieces, a piece ends with its tensor.
    ///
    /// # Errors
    /// `InvalidInput` for more bytes than the tensor takes, or than all take; those of the output.
    pub fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(&size) = self.sizes.get(self.index) else {
            return Err(invalid("bytes after the last tensor".to_owned()));
        };
        self.filled += bytes.len() as u64;
        if self.filled > size {
            return Err(invalid(format!("tensor {} takes {size} bytes, given {} or more", self.index, self.filled)));
        }
        self.out.write_all(bytes)?;
        if self.filled == size {
            let padding = size.next_multiple_of(self.alignment) - size;
            io::copy(&mut io::Read::take(io::repeat(0), padding), &mut self.out)?;
            self.index += 1;
            self.filled = 0;
        }
        Ok(())
    }

    /// Takes the next tensor for written: for a file that is continued. Gives the bytes that it stands in, padding included.
    ///
    /// # Errors
    /// `InvalidInput` inside of a tensor, or behind the last.
    pub fn skip(&mut self) -> io::Result<u64> {
        let size = self.sizes.get(self.index).filter(|_| self.filled == 0);
        let size = *size.ok_or_else(|| invalid("only a tensor that is not begun can be skipped".to_owned()))?;
        self.index += 1;
        Ok(size.next_multiple_of(self.alignment))
    }

    /// Ends the file, and gives the output back.
    ///
    /// # Errors
    /// `InvalidInput` if a tensor lacks bytes; those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        if self.index < self.sizes.len() {
            return Err(invalid(format!("tensor {} is not complete", self.index)));
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn alignment(metadata: &Metadata) -> io::Result<u64> {
    match metadata.get(ALIGNMENT_KEY) {
        None => Ok(ALIGNMENT_DEFAULT),
        Some(value) => value
            .as_u64()
            .filter(|alignment| alignment.is_power_of_two() && *alignment <= ALIGNMENT_MAX)
            .ok_or_else(|| invalid(format!("`{ALIGNMENT_KEY}` must be a power of two up to {ALIGNMENT_MAX}"))),
    }
}

fn stored_bytes(tensor: &Slot<'_>) -> io::Result<u64> {
    let countable = (1..=DIMS_MAX as usize).contains(&tensor.dims.len()) && !tensor.dims.contains(&0);
    let bytes = countable.then(|| table::stored_bytes(tensor.dims, tensor.quant)).flatten();
    bytes.ok_or_else(|| {
        invalid(format!("tensor {}: {} cannot hold dimensions {:?}", tensor.name, tensor.quant.name(), tensor.dims))
    })
}

/// The type a value is written as.
fn kind(value: &Value) -> Kind {
    match value {
        Value::Unsigned(value) => unsigned_kind(&[*value]),
        Value::Signed(value) => signed_kind(&[*value]),
        Value::Float(value) => float_kind(&[*value]),
        Value::Bool(_) => Kind::Bool,
        Value::String(_) => Kind::String,
        Value::Strings(_)
        | Value::Unsigneds(_)
        | Value::Signeds(_)
        | Value::Floats(_)
        | Value::Bools(_)
        | Value::Nested(_) => Kind::Array,
    }
}

fn unsigned_kind(values: &[u64]) -> Kind {
    let fits = values.iter().all(|&value| u32::try_from(value).is_ok());
    if fits { Kind::U32 } else { Kind::U64 }
}

fn signed_kind(values: &[i64]) -> Kind {
    let fits = values.iter().all(|&value| i32::try_from(value).is_ok());
    if fits { Kind::I32 } else { Kind::I64 }
}

fn float_kind(values: &[f64]) -> Kind {
    let fits = values.iter().all(|&value| f64::from(value as f32) == value || value.is_nan());
    if fits { Kind::F32 } else { Kind::F64 }
}

fn put(out: &mut Vec<u8>, key: &str, value: &Value) -> io::Result<()> {
    match value {
        Value::Unsigned(value) => put_unsigneds(out, unsigned_kind(&[*value]), &[*value]),
        Value::Signed(value) => put_signeds(out, signed_kind(&[*value]), &[*value]),
        Value::Float(value) => put_floats(out, float_kind(&[*value]), &[*value]),
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::String(text) => put_string(out, text),
        Value::Strings(strings) => {
            put_array(out, Kind::String, strings.len());
            put_strings(out, strings);
        }
        Value::Unsigneds(values) => {
            put_array(out, unsigned_kind(values), values.len());
            put_unsigneds(out, unsigned_kind(values), values);
        }
        Value::Signeds(values) => {
            put_array(out, signed_kind(values), values.len());
            put_signeds(out, signed_kind(values), values);
        }
        Value::Floats(values) => {
            put_array(out, float_kind(values), values.len());
            put_floats(out, float_kind(values), values);
        }
        Value::Bools(values) => {
            put_array(out, Kind::Bool, values.len());
            out.extend(values.iter().map(|&value| u8::from(value)));
        }
        Value::Nested(values) => {
            put_array(out, Kind::Array, values.len());
            for value in values {
                if !matches!(kind(value), Kind::Array) {
                    return Err(invalid(format!("metadata key {key}: a value that is no array among arrays")));
                }
                put(out, key, value)?;
            }
        }
    }
    Ok(())
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_strings(out: &mut Vec<u8>, strings: &Strings) {
    strings.iter().for_each(|text| put_string(out, text));
}

fn put_array(out: &mut Vec<u8>, kind: Kind, length: usize) {
    out.extend(kind.number().to_le_bytes());
    out.extend((length as u64).to_le_bytes());
}

fn put_unsigneds(out: &mut Vec<u8>, kind: Kind, values: &[u64]) {
    match kind {
        Kind::U32 => values.iter().for_each(|&value| out.extend((value as u32).to_le_bytes())),
        _ => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
    }
}

fn put_signeds(out: &mut Vec<u8>, kind: Kind, values: &[i64]) {
    match kind {
        Kind::I32 => values.iter().for_each(|&value| out.extend((value as i32).to_le_bytes())),
        _ => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
    }
}

fn put_floats(out: &mut Vec<u8>, kind: Kind, values: &[f64]) {
    match kind {
        Kind::F32 => values.iter().for_each(|&value| out.extend((value as f32).to_le_bytes())),
        _ => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
    }
}
