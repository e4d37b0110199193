//! A safetensors directory as the draft of a GGUF file: what each slot of the model is filled with goes where the file has it.
//!
//! Which rows those are, `arch::renaming` knows. This finds their bytes, and checks that every tensor of the file is filled once and
//! every tensor of the directory used. Vocabulary and template are none of its business.

use indexmap::IndexMap;
use kauri_arch::renaming::{self, Origin};
use kauri_arch::{Name, Role};
use kauri_formats::{Checkpoint, Metadata, Quant, Value};

use crate::draft::{Change, Draft, Piece, Planned, Values};

/// Why a directory cannot be made a GGUF.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model's description, or that its family's GGUF cannot hold it.
    #[error(transparent)]
    Architecture(#[from] kauri_arch::Error),
    /// A tensor is not there, or not as long as it must be.
    #[error("the tensor {tensor} {what}")]
    Tensor {
        /// By the directory's name or the file's.
        tensor: String,
        /// What is wrong with it.
        what: String,
    },
}

fn wrong(tensor: &str, what: impl Into<String>) -> Error {
    Error::Tensor { tensor: tensor.to_owned(), what: what.into() }
}

/// What a tensor is made of: its slot, and the pieces by the rows that they begin at.
type Gathered<'a> = (&'a Name, Vec<(u64, Piece)>);

/// The draft of the model in a directory, without vocabulary; `entries` go behind what it is called and ahead of its settings.
///
/// # Errors
/// When the model is not understood, a tensor is missing, or the family's GGUF has no place for something.
pub fn draft(checkpoint: &Checkpoint, entries: Vec<(String, Value)>) -> Result<Draft, Error> {
    let renamed = renaming::to_gguf(checkpoint)?;
    let mut gathered: IndexMap<&str, Gathered<'_>> = IndexMap::new();
    for (to, from) in &renamed.slots {
        let rows = to.slot_rows();
        let piece = piece(checkpoint, to, from)?;
        if rows.end - rows.start != piece.count as u64 {
            return Err(wrong(&from.name.tensor, format!("has {} rows for {to}", piece.count)));
        }
        let (_, pieces) = gathered.entry(&to.tensor).or_insert((to, Vec::new()));
        // Slots that share a tensor fill it once.
        if pieces.iter().all(|(first, _)| *first != rows.start) {
            pieces.push((rows.start, piece));
        }
    }
    let mut tensors: Vec<Planned> = renamed.made.iter().map(|(name, values)| made(name, values)).collect();
    for (name, (to, pieces)) in gathered {
        tensors.push(planned(name, to, pieces)?);
    }
    let mut metadata = Metadata::default();
    let mut settings = renamed.metadata.iter().map(|(key, value)| (key.to_owned(), value.clone()));
    let (first, rest) = (settings.next(), settings);
    for (key, value) in first.into_iter().chain(entries).chain(rest) {
        metadata.insert(key, value);
    }
    Ok(Draft { metadata, tensors })
}

fn made(name: &str, values: &[f32]) -> Planned {
    let dims = vec![values.len() as u64];
    Planned { name: name.to_owned(), dims, quant: Quant::F32, values: Values::Made(values.to_vec()) }
}

/// The rows that fill a slot.
fn piece(checkpoint: &Checkpoint, to: &Name, from: &Origin) -> Result<Piece, Error> {
    let name = &from.name;
    let find = |name: &str| checkpoint.tensors.get(name).ok_or_else(|| wrong(name, "is missing"));
    let tensor = find(&name.tensor)?.clone();
    if tensor.dims.iter().product::<u64>() != name.dims.iter().product::<u64>() {
        let dims = |dims: &[u64]| dims.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        return Err(wrong(
            &name.tensor,
            format!("has dimensions ({}), expected ({})", dims(&tensor.dims), dims(&name.dims)),
        ));
    }
    let scales = match &name.role {
        Role::Coded { scales, .. } => Some(find(scales)?.clone()),
        Role::Matrix | Role::Vector { .. } | Role::NegativeExp | Role::Ones => {
            let is_plain = matches!(tensor.quant, Quant::F32 | Quant::F16 | Quant::BF16);
            if !is_plain && tensor.scales.is_none() {
                return Err(wrong(&name.tensor, format!("is {}, expected F32, F16 or BF16", tensor.quant.name())));
            }
            let checked = tensor.check(name.columns() as usize);
            checked.map_err(|error| wrong(&name.tensor, format!("cannot be used: {error}")))?;
            None
        }
    };
    let change = match (&name.role, &to.role) {
        (Role::NegativeExp, Role::Vector { .. }) => Change::NegativeExp,
        (Role::Vector { plus: from }, Role::Vector { plus: to }) if from != to => Change::Plus(from - to),
        _ => Change::None,
    };
    let (rows, step) = (name.slot_rows(), name.step as usize);
    // A coded row is what its codes stand for.
    let columns = name.columns() * if scales.is_some() { 2 } else { 1 };
    let count = from.rows.as_ref().map_or((rows.end - rows.start).div_ceil(name.step) as usize, Vec::len);
    Ok(Piece {
        tensor,
        columns: columns as usize,
        first: rows.start as usize,
        step,
        count,
        rows: from.rows.clone(),
        order: from.columns.clone(),
        change,
        factors: from.factors.iter().map(|&(rows, factor)| (rows as usize, factor)).collect(),
        scales,
    })
}

/// A tensor of the file: its pieces follow each other and fill it.
fn planned(name: &str, to: &Name, mut pieces: Vec<(u64, Piece)>) -> Result<Planned, Error> {
    pieces.sort_by_key(|(first, _)| *first);
    let mut filled = 0;
    for (first, piece) in &pieces {
        if *first != filled {
            return Err(wrong(name, format!("would have nothing in its rows from {filled} on")));
        }
        filled += piece.count as u64;
    }
    if filled * to.columns() != to.dims.iter().product::<u64>() {
        return Err(wrong(name, format!("would have nothing in its rows from {filled} on")));
    }
    let pieces: Vec<Piece> = pieces.into_iter().map(|(_, piece)| piece).collect();
    Ok(Planned {
        name: name.to_owned(),
        dims: dims(name, to),
        quant: natural(name, to, &pieces),
        values: Values::Pieces(pieces),
    })
}

/// The dimensions as readers of the format ask for them; where there is one of something, some of them want it said.
fn dims(name: &str, to: &Name) -> Vec<u64> {
    let slot = name.rsplit_once("blk.").map_or(name, |(_, slot)| slot.split_once('.').map_or(slot, |(_, slot)| slot));
    match slot {
        "ssm_a" | "ssm_d" if to.dims.len() == 1 => vec![to.dims[0], 1],
        "time_mix_lerp_fused.weight" => vec![to.dims[0], 1, 1, to.dims[1]],
        _ => to.dims.clone(),
    }
}

/// The type that keeps the values as they are; of what is no operand of a product, and of routers, `f32`. No GGUF has factors of tiles: what has
/// such becomes `BF16`.
fn natural(name: &str, to: &Name, pieces: &[Piece]) -> Quant {
    if pieces.iter().all(|piece| piece.scales.is_some()) {
        return Quant::MXFP4;
    }
    let small = to.role != Role::Matrix || name.contains("ffn_gate_inp") || name.contains("time_mix_");
    let first = pieces.first().map_or(Quant::F32, |piece: &Piece| piece.tensor.quant);
    let alike = pieces.iter().all(|piece| piece.tensor.quant == first && piece.is_plain());
    let scaled = pieces.iter().all(|piece| piece.tensor.scales.is_some());
    if small || !alike {
        Quant::F32
    } else if scaled {
        Quant::BF16
    } else {
        first
    }
}
