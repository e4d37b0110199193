//! Names to weights: every slot of a shape gets the tensor it names, checked, and no tensor is left over.
//!
//! Matrices stay mapped as they are stored. Norm weights, biases and rope factors become `f32`: less than a thousandth of
//! the bytes, and one type for every kernel that reads them.

use std::collections::HashSet;

use kauri_arch::{Name, Role, Shape};
use kauri_device::{Matrix, Weight};
use kauri_formats::{Checkpoint, Quant, Tensor};

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
}

/// Fills every slot of `names` with its tensor of `checkpoint`.
///
/// # Errors
/// When a tensor is missing, of other dimensions or of an unusable type, or when one is left over.
pub fn weights(checkpoint: &Checkpoint, names: &Shape<Name>) -> Result<Shape<Weight>, Error> {
    let family = names.family;
    let mut used = HashSet::new();
    let shape = names.try_map(&mut |name| {
        let tensor = checkpoint
            .tensors
            .get(&name.tensor)
            .ok_or_else(|| Error::MissingTensor {
                family,
                tensor: name.tensor.clone(),
                expected: dimensions(&name.dims),
            })?;
        if tensor.dims != name.dims {
            let (found, expected) = (dimensions(&tensor.dims), dimensions(&name.dims));
            return Err(Error::WrongDimensions {
                family,
                tensor: name.tensor.clone(),
                found,
                expected,
            });
        }
        used.insert(name.tensor.clone());
        fill(family, name, tensor)
    })?;
    let mut surplus = checkpoint
        .tensors
        .keys()
        .filter(|name| !used.contains(*name) && !derived(name, names));
    if let Some(tensor) = surplus.next() {
        return Err(Error::UnknownTensor {
            family,
            tensor: tensor.clone(),
            count: 1 + surplus.count(),
        });
    }
    Ok(shape)
}

/// Whether a tensor that no slot names repeats what the shape has from elsewhere.
fn derived(name: &str, names: &Shape<Name>) -> bool {
    let tied = names.head.output.weight == names.embed.table;
    name.ends_with(".rotary_emb.inv_freq") || (tied && name == "lm_head.weight")
}

fn fill(family: &'static str, name: &Name, tensor: &Tensor) -> Result<Weight, Error> {
    let wrong_type = |expected| Error::WrongType {
        family,
        tensor: name.tensor.clone(),
        found: tensor.quant.name(),
        expected,
    };
    if is_integer(tensor.quant) {
        return Err(wrong_type("a floating-point or quantised type"));
    }
    let dims = name.slot_dims();
    let rows = dims.first().copied().unwrap_or(1) as usize;
    let columns = dims.iter().skip(1).product::<u64>() as usize;
    match name.role {
        Role::Vector { plus } => {
            // Blocks would straddle values that belong to different slots.
            if tensor.quant.block_len() != 1 {
                return Err(wrong_type("F32, F16 or BF16"));
            }
            let start = name.rows.as_ref().map_or(0, |rows| rows.start) as usize;
            let bytes = tensor.quant.block_bytes();
            let mut values = vec![0.0; rows];
            tensor
                .quant
                .dequantise(&tensor.data[start * bytes..(start + rows) * bytes], &mut values);
            values.iter_mut().for_each(|value| *value += plus);
            Ok(Weight::Vector(values))
        }
        Role::Matrix => {
            let row_bytes = tensor
                .quant
                .row_bytes(columns)
                .ok_or_else(|| wrong_type("rows of whole blocks"))?;
            let start = name.rows.as_ref().map_or(0, |rows| rows.start) as usize * row_bytes;
            let data = tensor
                .data
                .slice(start..start + rows * row_bytes)
                .ok_or_else(|| wrong_type("whole rows"))?;
            Ok(Weight::Matrix(Matrix {
                quant: tensor.quant,
                rows,
                columns,
                data,
            }))
        }
    }
}

fn is_integer(quant: Quant) -> bool {
    matches!(quant, Quant::I8 | Quant::I16 | Quant::I32 | Quant::I64)
}

fn dimensions(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("({})", dims.join(", "))
}
