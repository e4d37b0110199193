//! Names to weights: every slot of a shape gets the tensor it names, checked, and no tensor is left over.
//!
//! Matrices stay mapped as they are stored; those in NVFP4 whose codes and scales are two tensors become blocks. Norm weights, biases and rope factors become `f32`: less than a thousandth of
//! the bytes, and one type for every kernel that reads them.

use std::collections::{HashMap, HashSet};

use kauri_arch::{Name, Role, Shape};
use kauri_device::{Matrix, Weight};
use kauri_formats::scales::ScalesError;
use kauri_formats::{Bytes, Checkpoint, Quant, Tensor};

use crate::{fit, mxfp4};

/// What can be wrong between a shape and the tensors of a file. Every message names the family, the tensor and what was
/// expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A slot's tensor is not in the file.
    #[error("{family}: the tensor {tensor} is missing; expected {expected}")]
    MissingTensor {
        /// The family.
        family: &'static str,
        /// The tensor.
        tensor: String,
        /// The dimensions it should have.
        expected: String,
    },
    /// A tensor has other dimensions than its slot.
    #[error("{family}: the tensor {tensor} has dimensions {found}, expected {expected}")]
    WrongDimensions {
        /// The family.
        family: &'static str,
        /// The tensor.
        tensor: String,
        /// Its dimensions, outermost first.
        found: String,
        /// Those of the slot.
        expected: String,
    },
    /// A tensor is stored in a type that its slot cannot use.
    #[error("{family}: the tensor {tensor} is stored as {found}, expected {expected}")]
    WrongType {
        /// The family.
        family: &'static str,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: &'static str,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// A tensor belongs to no slot: the file is of a variant that this family's shape does not have.
    #[error("{family}: the tensor {tensor} is unknown ({count} such); a model of this family has no place for it")]
    UnknownTensor {
        /// The family.
        family: &'static str,
        /// The first of them, in file order.
        tensor: String,
        /// How many.
        count: usize,
    },
    /// The rows of a slot are no whole blocks, or what scales them is no number.
    #[error("{family}: the tensor {tensor} cannot be used: {reason}")]
    Part {
        /// The family.
        family: &'static str,
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        reason: ScalesError,
    },
    /// [`in_f32`] refuses to fill the machine's memory.
    #[error(
        "{family}: the weights would take {bytes} bytes in f32, and this instrument stops at {F32_BYTES_MAX}; use a smaller model"
    )]
    TooLargeInF32 {
        /// The family.
        family: &'static str,
        /// What they would take.
        bytes: u64,
    },
}

/// The most bytes that [`in_f32`] makes.
const F32_BYTES_MAX: u64 = 16 << 30;

/// Fills every slot of `names` with its tensor of `checkpoint`.
///
/// # Errors
/// When a tensor is missing, of other dimensions or of an unusable type, or when one is left over.
pub fn weights(checkpoint: &Checkpoint, names: &Shape<Name>) -> Result<Shape<Weight>, Error> {
    let family = names.family;
    let mut used = HashSet::new();
    let find = |tensor: &str, dims: &[u64]| {
        let (name, expected) = (tensor.to_owned(), dimensions(dims));
        match checkpoint.tensors.get(tensor) {
            None => Err(Error::MissingTensor { family, tensor: name, expected }),
            Some(tensor) if !same_dimensions(dims, &tensor.dims) => {
                Err(Error::WrongDimensions { family, tensor: name, found: dimensions(&tensor.dims), expected })
            }
            Some(tensor) => Ok(tensor),
        }
    };
    let shape = names.try_map(&mut |name| {
        if name.role == Role::Ones {
            return Ok(Weight::Vector(vec![1.0; name.slot_rows().count()]));
        }
        let tensor = find(&name.tensor, &name.dims)?;
        used.insert(name.tensor.clone());
        let Role::Coded { scales, scales_dims } = &name.role else { return fill(family, name, tensor) };
        used.insert(scales.clone());
        coded(family, name, tensor, find(scales, scales_dims)?)
    })?;
    let mut surplus = checkpoint.tensors.keys().filter(|name| !used.contains(*name) && !derived(name, names));
    if let Some(tensor) = surplus.next() {
        return Err(Error::UnknownTensor { family, tensor: tensor.clone(), count: 1 + surplus.count() });
    }
    Ok(shape)
}

/// The same model with every matrix converted to `f32` in memory: an instrument that shows what quantised weights are worth.
/// A matrix that several slots share stays shared.
///
/// # Errors
/// When the model is too large for that.
pub fn in_f32(shape: &Shape<Weight>) -> Result<Shape<Weight>, Error> {
    let bytes = 4 * fit::parameters(shape);
    if bytes > F32_BYTES_MAX {
        return Err(Error::TooLargeInF32 { family: shape.family, bytes });
    }
    let mut converted: HashMap<(*const u8, usize), Bytes> = HashMap::new();
    shape.try_map(&mut |weight| {
        let Weight::Matrix(matrix) = weight else {
            return Ok(weight.clone());
        };
        let stored = (matrix.data.as_ptr(), matrix.data.len());
        let data = converted.entry(stored).or_insert_with(|| values_of(matrix)).clone();
        Ok(Weight::Matrix(Matrix { quant: Quant::F32, data, scales: None, ..*matrix }))
    })
}

/// The values of a matrix as the bytes of [`Quant::F32`].
fn values_of(matrix: &Matrix) -> Bytes {
    let mut bytes = Vec::with_capacity(4 * matrix.rows * matrix.columns);
    let mut row = vec![0.0; matrix.columns];
    for index in 0..matrix.rows {
        matrix.dequantise(index, &mut row);
        bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
    }
    Bytes::from(bytes)
}

/// Whether a tensor that no slot names repeats what the shape has from elsewhere, or only drafts tokens.
fn derived(name: &str, names: &Shape<Name>) -> bool {
    let tied = names.head.output.as_ref().is_none_or(|output| output.weight == names.embed.table);
    let drafts = names.left_out.iter().any(|start| name.starts_with(start));
    drafts || name.ends_with(".rotary_emb.inv_freq") || (tied && name == "lm_head.weight")
}

fn fill(family: &'static str, name: &Name, tensor: &Tensor) -> Result<Weight, Error> {
    let wrong_type =
        |expected| Error::WrongType { family, tensor: name.tensor.clone(), found: tensor.quant.name(), expected };
    if is_integer(tensor.quant) {
        return Err(wrong_type("a floating-point or quantised type"));
    }
    let (rows, columns) = (name.slot_rows(), name.columns() as usize);
    let (start, rows, step) = (rows.start as usize, (rows.end - rows.start) as usize, name.step as usize);
    match name.role {
        Role::Vector { .. } | Role::NegativeExp | Role::Ones => {
            // Blocks would straddle values that belong to different slots.
            if tensor.quant.block_len() != 1 || tensor.scales.is_some() {
                return Err(wrong_type("F32, F16 or BF16"));
            }
            let bytes = tensor.quant.block_bytes();
            let mut values = vec![0.0; rows];
            tensor.quant.dequantise(&tensor.data[start * bytes..(start + rows) * bytes], &mut values);
            let values = values.iter().step_by(step);
            Ok(Weight::Vector(match name.role {
                Role::NegativeExp => values.map(|value| -value.exp()).collect(),
                Role::Vector { plus } => values.map(|value| value + plus).collect(),
                Role::Matrix | Role::Coded { .. } | Role::Ones => values.copied().collect(),
            }))
        }
        Role::Matrix if step != 1 => Err(wrong_type("rows that follow each other")),
        Role::Coded { .. } => Err(wrong_type("codes and exponents")),
        Role::Matrix => {
            let part = tensor.part(start..start + rows, columns);
            let (data, scales) =
                part.map_err(|error| Error::Part { family, tensor: name.tensor.clone(), reason: error })?;
            Ok(Weight::Matrix(Matrix { quant: tensor.quant, rows, columns, data, scales }))
        }
    }
}

/// A matrix in MXFP4 whose codes and exponents are apart. The one matrix whose bytes are not those of the file.
fn coded(family: &'static str, name: &Name, codes: &Tensor, scales: &Tensor) -> Result<Weight, Error> {
    let rows = name.slot_rows();
    let groups = name.columns() as usize / 16;
    let rows = (rows.start as usize..rows.end as usize).step_by(name.step as usize);
    let bytes = |tensor: &Tensor| tensor.quant.block_len() == 1 && tensor.quant.block_bytes() == 1;
    let data = mxfp4::blocks(&codes.data, &scales.data, groups, rows.clone()).filter(|_| bytes(codes) && bytes(scales));
    let found = codes.quant.name();
    let data = data.ok_or_else(|| Error::WrongType { family, tensor: name.tensor.clone(), found, expected: "U8" })?;
    Ok(Weight::Matrix(Matrix { quant: Quant::MXFP4, rows: rows.count(), columns: 32 * groups, data, scales: None }))
}

/// Whether dimensions are equal but for ones among them.
pub(crate) fn same_dimensions(a: &[u64], b: &[u64]) -> bool {
    let long = |dims: &[u64]| -> Vec<u64> { dims.iter().copied().filter(|&length| length != 1).collect() };
    long(a) == long(b)
}

pub(crate) fn is_integer(quant: Quant) -> bool {
    matches!(quant, Quant::I8 | Quant::I16 | Quant::I32 | Quant::I64)
}

pub(crate) fn dimensions(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("({})", dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve;

    #[test]
    fn in_f32_every_matrix_has_the_same_values_and_shared_ones_stay_shared() {
        let checkpoint = resolve::open(None).unwrap();
        let names = kauri_arch::identify(&checkpoint).unwrap();
        let stored = weights(&checkpoint, &names).unwrap();
        let full = in_f32(&stored).unwrap();
        assert_eq!(fit::parameters(&full), fit::parameters(&stored));

        let collect = |shape: &Shape<Weight>| {
            let mut matrices = Vec::new();
            shape.for_each(|weight| {
                if let Weight::Matrix(matrix) = weight {
                    matrices.push(matrix.clone());
                }
            });
            matrices
        };
        let (stored, full) = (collect(&stored), collect(&full));
        assert!(stored.iter().any(|matrix| matrix.quant == Quant::Q4_K), "the test needs a quantised model");
        for (stored, full) in stored.iter().zip(&full) {
            assert_eq!((full.quant, full.rows, full.columns), (Quant::F32, stored.rows, stored.columns));
            let row = stored.rows - 1;
            let (mut expected, mut found) = (vec![0.0; stored.columns], vec![0.0; stored.columns]);
            stored.quant.dequantise(stored.row(row), &mut expected);
            full.quant.dequantise(full.row(row), &mut found);
            assert_eq!(found, expected);
        }
    }
}
