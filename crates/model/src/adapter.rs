//! Adapters: two small matrices beside some of a model's, read from a file of their own, checked, and put into the slots they belong to
//! (LoRA: Hu 2021, arXiv:2106.09685).
//!
//! Nothing is merged: the model's matrices stay mapped as they are stored. The adapter's, a hundredth of their size, become `f32`, and the
//! second of them is turned, as kernels want it. Two formats are read. A GGUF file, as llama.cpp writes them, names tensors as the GGUF of its model does; a directory, as PEFT writes
//! it, names them as the safetensors of its model do. What is in a file and cannot be applied is refused by name: an adapter of which
//! only a part counts is another one.

mod peft;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use kauri_arch::{Name, Role, Shape};
use kauri_device::{ADAPTERS_MAX, Adapted, LowRank, Matrix, Weight};
use kauri_formats::{Checkpoint, Metadata, Source, Tensor};

use crate::load::{dimensions, is_integer, same_dimensions};

/// The highest rank that is taken.
pub const RANK_MAX: u64 = 1024;

/// What can be wrong with an adapter. Every message names the setting or the tensor.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] kauri_formats::Error),
    /// It is something else.
    #[error("{path} is no adapter: {key} is {found}, expected {expected}")]
    NoAdapter {
        /// The file.
        path: String,
        /// The setting that says so.
        key: &'static str,
        /// Its value.
        found: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// A setting makes no adapter.
    #[error("{path}: {key} is {found}, expected {expected}")]
    Setting {
        /// The file.
        path: String,
        /// The setting.
        key: String,
        /// Its value.
        found: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// Something that adapters may have, and that is not applied here.
    #[error("{path}: {what} cannot be applied; only low-rank matrices beside those of the model are")]
    Unsupported {
        /// The file.
        path: String,
        /// What it has, by name.
        what: String,
    },
    /// It is an adapter of another model.
    #[error("{path}: an adapter of a {adapter} model, and this one is {model}")]
    OtherModel {
        /// The file.
        path: String,
        /// What it is an adapter of.
        adapter: String,
        /// What the model is.
        model: String,
    },
    /// A tensor cannot be applied.
    #[error("{path}: the tensor {tensor} {problem}")]
    Tensor {
        /// The file.
        path: String,
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There are no tensors in it.
    #[error("{path}: the adapter has no tensors")]
    Empty {
        /// The file.
        path: String,
    },
    /// There are too many.
    #[error("{count} adapters; at most {ADAPTERS_MAX} can be loaded with a model")]
    TooMany {
        /// How many were given.
        count: usize,
    },
}

/// An adapter as its file has it.
#[derive(Debug)]
pub struct Adapter {
    checkpoint: Checkpoint,
    /// By the name of the model's tensor that they go with.
    pairs: IndexMap<String, Pair>,
    path: String,
}

/// The two matrices beside one of the model's.
#[derive(Debug)]
struct Pair {
    /// Names of `A` and `B` in the file.
    names: [String; 2],
    strength: Strength,
}

/// What an adapter's own factor is made of.
#[derive(Clone, Copy, Debug)]
enum Strength {
    /// One.
    One,
    /// This over the rank.
    Alpha(f64),
    /// This over the root of the rank (rsLoRA: Kalajdzievski 2023, arXiv:2312.03732).
    RootAlpha(f64),
}

impl Adapter {
    /// Opens the adapter at `path` for the model in `model`.
    ///
    /// # Errors
    /// When it is no adapter, one of another model, or one with something that is not applied here.
    pub fn open(path: &Path, model: &Checkpoint) -> Result<Self, Error> {
        let checkpoint = Checkpoint::open_adapter(path)?;
        let path = path.display().to_string();
        let pairs = match (&checkpoint.source, &model.source) {
            (Source::Gguf(metadata), Source::Gguf(of)) => gguf_pairs(&path, &checkpoint, metadata, of)?,
            (Source::Safetensors(directory), Source::Safetensors(_)) => peft::pairs(&path, &checkpoint, directory)?,
            (Source::Gguf(_), Source::Safetensors(_)) => {
                let (adapter, model) =
                    ("GGUF".to_owned(), "a safetensors directory: give the adapter as PEFT wrote it");
                return Err(Error::OtherModel { path, adapter, model: model.to_owned() });
            }
            (Source::Safetensors(_), Source::Gguf(_)) => {
                let model = "GGUF: convert the adapter with llama.cpp's convert_lora_to_gguf.py, or run the model's own \
                             safetensors directory";
                return Err(Error::OtherModel { path, adapter: "safetensors".to_owned(), model: model.to_owned() });
            }
        };
        if pairs.is_empty() {
            return Err(Error::Empty { path });
        }
        Ok(Self { checkpoint, pairs, path })
    }

    /// Whether its file still is what it was when it was opened: to be asked when all of it was read.
    ///
    /// # Errors
    /// When it was changed or shortened.
    pub fn verify_unchanged(&self) -> Result<(), Error> {
        Ok(self.checkpoint.verify_unchanged()?)
    }

    /// Everything that what it adds depends on, to be hashed.
    pub fn content(&self, mut hash: impl FnMut(&[u8])) {
        for (of, pair) in &self.pairs {
            hash(of.as_bytes());
            hash(format!("{:?}", pair.strength).as_bytes());
            for name in &pair.names {
                let tensor = &self.checkpoint.tensors[name];
                hash(format!("{:?} {:?}", tensor.quant, tensor.dims).as_bytes());
                hash(&tensor.data);
            }
        }
    }

    fn wrong(&self, tensor: &str, problem: String) -> Error {
        Error::Tensor { path: self.path.clone(), tensor: tensor.to_owned(), problem }
    }

    /// What it adds in the slot that `name` fills with `matrix`, if anything.
    fn part(&self, name: &Name, matrix: &Matrix) -> Result<Option<LowRank>, Error> {
        let Some(pair) = self.pairs.get(&name.tensor) else { return Ok(None) };
        let [down, up] = pair.names.each_ref().map(|name| &self.checkpoint.tensors[name]);
        let [down_name, up_name] = &pair.names;
        let (rows, columns) = (matrix.rows as u64, matrix.columns as u64);
        // A stack of matrices has a stack of each; the rows of a slot are of one of them.
        let outer = name.dims.len().saturating_sub(2);
        let stacked: u64 = name.dims[..outer].iter().product();
        let whole = name.dims.iter().product::<u64>() / (stacked * columns).max(1);
        let rank = down.dims.iter().product::<u64>() / (stacked * columns).max(1);
        if rank == 0 || rank > RANK_MAX {
            return Err(self.wrong(down_name, format!("is of rank {rank}; ranks from 1 to {RANK_MAX} are taken")));
        }
        let stack = &name.dims[..outer];
        for (tensor, name, last) in [(down, down_name, [rank, columns]), (up, up_name, [whole, rank])] {
            let expected = [stack, &last[..]].concat();
            if !same_dimensions(&expected, &tensor.dims) {
                let (found, expected) = (dimensions(&tensor.dims), dimensions(&expected));
                return Err(self.wrong(name, format!("has dimensions {found}, expected {expected} beside this model")));
            }
        }
        let slot = name.slot_rows();
        let place = slot.start / whole.max(1);
        if slot.end > (place + 1) * whole || slot.end - slot.start != rows {
            return Err(self.wrong(up_name, "goes with rows of several matrices".to_owned()));
        }
        let factor = match pair.strength {
            Strength::One => 1.0,
            Strength::Alpha(alpha) => alpha / rank as f64,
            Strength::RootAlpha(alpha) => alpha / (rank as f64).sqrt(),
        };
        let down = self.values(down, down_name, [place * rank, rank, columns])?;
        let up = self.values(up, up_name, [slot.start, rows, rank])?;
        Ok(Some(LowRank {
            rank: rank as usize,
            down: down.into(),
            up: turned(&up, rank as usize).into(),
            factor: factor as f32,
        }))
    }

    /// The values of `rows` rows of a tensor from `first` on.
    fn values(&self, tensor: &Tensor, name: &str, [first, rows, columns]: [u64; 3]) -> Result<Vec<f32>, Error> {
        let wrong = |problem: &str| self.wrong(name, format!("is stored as {}, {problem}", tensor.quant.name()));
        if is_integer(tensor.quant) {
            return Err(wrong("expected a floating-point or quantised type"));
        }
        let row_bytes = tensor.quant.row_bytes(columns as usize);
        let row_bytes = row_bytes.ok_or_else(|| wrong("whose blocks are longer than its rows"))?;
        let data = tensor.data.slice(first as usize * row_bytes..(first + rows) as usize * row_bytes);
        let data = data.ok_or_else(|| wrong("with fewer rows than its dimensions say"))?;
        let mut values = vec![0.0; (rows * columns) as usize];
        tensor.quant.dequantise(&data, &mut values);
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(self.wrong(name, "has values that are no finite numbers".to_owned()))
        }
    }
}

/// A matrix `(rows, columns)` as `(columns, rows)`.
fn turned(values: &[f32], columns: usize) -> Vec<f32> {
    let column = |column: usize| values.iter().skip(column).step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}

/// The weights of a model with what `adapters` add to them, in this order; `shape` was loaded by `names`.
///
/// # Errors
/// When a tensor goes with none of the model's, or with one that it cannot go with.
pub fn apply(shape: &Shape<Weight>, names: &Shape<Name>, adapters: &[Adapter]) -> Result<Shape<Weight>, Error> {
    if adapters.len() > ADAPTERS_MAX {
        return Err(Error::TooMany { count: adapters.len() });
    }
    let (mut slots, fixed) = (Vec::new(), fixed(names));
    names.for_each(|name| slots.push(name.clone()));
    let mut slots = slots.into_iter();
    let mut used = HashSet::new();
    let adapted = shape.try_map(&mut |weight| {
        let name = slots.next().expect("a name for every slot");
        let Weight::Matrix(matrix) = weight else { return Ok::<_, Error>(weight.clone()) };
        if name.role != Role::Matrix || fixed.contains(&name.tensor) {
            return Ok(weight.clone());
        }
        let parts = adapters.iter().map(|adapter| adapter.part(&name, matrix)).collect::<Result<Arc<[_]>, Error>>()?;
        if parts.iter().all(Option::is_none) {
            return Ok(weight.clone());
        }
        used.insert(name.tensor);
        Ok(Weight::Adapted(Adapted { matrix: matrix.clone(), parts }))
    })?;
    for adapter in adapters {
        if let Some((of, pair)) = adapter.pairs.iter().find(|(of, _)| !used.contains(*of)) {
            let problem = if fixed.contains(of) {
                format!("goes with {of}, which is no matrix that inputs are multiplied with: it cannot be adapted")
            } else {
                format!("goes with {of}, which this model does not have: is it an adapter of another?")
            };
            return Err(adapter.wrong(&pair.names[0], problem));
        }
    }
    Ok(adapted)
}

/// The tensors that are no matrices of products, or not of one alone: tables of rows (also where they are the head, too), what latent
/// attention has of each head, and what is made of a text that is read.
fn fixed(names: &Shape<Name>) -> HashSet<String> {
    let mut fixed = HashSet::new();
    let embed = &names.embed;
    let tables = [Some(&embed.table), embed.places.as_ref(), embed.kinds.as_ref()].into_iter().flatten();
    fixed.extend(tables.map(|name| name.tensor.clone()));
    for latent in names.mixers().filter_map(|mixer| mixer.latent()) {
        fixed.extend(latent.keys.iter().chain(&latent.values).map(|linear| linear.weight.tensor.clone()));
    }
    let Ok(_) = names.summary.try_map(&mut |name: &Name| {
        fixed.insert(name.tensor.clone());
        Ok::<_, std::convert::Infallible>(())
    });
    fixed
}

/// The pairs of a GGUF file, after llama.cpp's `llama-adapter.cpp`: an alpha of zero, or none, is a factor of one.
fn gguf_pairs(
    path: &str,
    checkpoint: &Checkpoint,
    metadata: &Metadata,
    model: &Metadata,
) -> Result<IndexMap<String, Pair>, Error> {
    const ALPHA: &str = "adapter.lora.alpha";
    const INVOCATION: &str = "adapter.alora.invocation_tokens";
    for (key, expected) in [("general.type", "adapter"), ("adapter.type", "lora")] {
        let found = metadata.str(key).unwrap_or("missing");
        if found != expected {
            let (path, found) = (path.to_owned(), found.to_owned());
            return Err(Error::NoAdapter { path, key, found, expected });
        }
    }
    let architecture = |metadata: &Metadata| metadata.str("general.architecture").unwrap_or("nameless").to_owned();
    let (adapter, of) = (architecture(metadata), architecture(model));
    if adapter != of {
        return Err(Error::OtherModel { path: path.to_owned(), adapter, model: of });
    }
    if metadata.get(INVOCATION).is_some() {
        let what = format!("an adapter that begins at certain tokens ({INVOCATION})");
        return Err(Error::Unsupported { path: path.to_owned(), what });
    }
    let alpha = metadata.get(ALPHA).map_or(Some(0.0), kauri_formats::Value::as_f64);
    let alpha = alpha.filter(|alpha| alpha.is_finite()).ok_or_else(|| Error::Setting {
        path: path.to_owned(),
        key: ALPHA.to_owned(),
        found: metadata.get(ALPHA).map_or_else(String::new, |value| format!("{value:?}")),
        expected: "a finite number",
    })?;
    let strength = if alpha == 0.0 { Strength::One } else { Strength::Alpha(alpha) };
    let half = |name: &str| {
        let of = |suffix: &str, which| Some((name.strip_suffix(suffix)?.to_owned(), which));
        of(".lora_a", 0).or_else(|| of(".lora_b", 1))
    };
    pairs(path, checkpoint, &half, &|_| strength)
}

/// The tensors of a file two by two: `half` says with which of the model's one goes and which of the two it is.
fn pairs(
    path: &str,
    checkpoint: &Checkpoint,
    half: &dyn Fn(&str) -> Option<(String, usize)>,
    strength: &dyn Fn(&str) -> Strength,
) -> Result<IndexMap<String, Pair>, Error> {
    let wrong = |tensor: &str, problem: &str| Error::Tensor {
        path: path.to_owned(),
        tensor: tensor.to_owned(),
        problem: problem.to_owned(),
    };
    let mut halves: IndexMap<String, [Option<String>; 2]> = IndexMap::new();
    for name in checkpoint.tensors.keys() {
        let (of, which) = half(name)
            .ok_or_else(|| wrong(name, "is none of a low-rank pair: what it would change is not applied here"))?;
        halves.entry(of).or_default()[which] = Some(name.clone());
    }
    let pair = |(of, names): (String, [Option<String>; 2])| match names {
        [Some(down), Some(up)] => {
            let strength = strength(&of);
            Ok((of, Pair { names: [down, up], strength }))
        }
        [Some(only), None] | [None, Some(only)] => Err(wrong(&only, "is alone: the other one of its pair is missing")),
        [None, None] => unreachable!("it was made for one of them"),
    };
    halves.into_iter().map(pair).collect()
}
