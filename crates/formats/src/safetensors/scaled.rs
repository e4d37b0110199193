//! Matrices in eight or four bits whose scales are tensors of their own: both become one [`Tensor`].
//!
//! How checkpoints keep them, by `quantization_config` of `config.json`:
//!
//! | method | codes | times |
//! |---|---|---|
//! | `fp8`, as DeepSeek-V3 and the FP8 models of Qwen3 | `weight`, `F8_E4M3` | `weight_scale_inv`, one for a tile of `weight_block_size` |
//! | `compressed-tensors` (`float-quantized`), `fbgemm_fp8`, `modelopt` (`FP8`) | the same | `weight_scale`, one for a tile, a row, or all |
//! | `modelopt` (`NVFP4`) | `weight`, two to a byte | `weight_scale`, `F8_E4M3`, one for sixteen; `weight_scale_2`, one for all |
//! | `compressed-tensors` (`nvfp4-pack-quantized`) | `weight_packed`, the same | the same; divided by `weight_global_scale` |
//!
//! Scales of activations and of caches are left out: neither is kept in so few bits here.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::checkpoint::Tensor;
use crate::error::{Error, quoted};
use crate::quant::Quant;
use crate::scales::{Scales, TILE_COLUMNS};

/// The methods of `quantization_config` whose tensors are put together here.
pub const METHODS: [&str; 4] = ["compressed-tensors", "fbgemm_fp8", "fp8", "modelopt"];

/// What `config.json` says of how weights are kept.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Format {
    /// Rows and columns of a tile that has a factor, if tiles are what is said.
    tile: Option<[usize; 2]>,
}

/// Tiles where the configuration names none.
const USUAL_TILE: [usize; 2] = [128, 128];
/// The largest side of a tile.
const SIDE_MAX: u64 = 1 << 20;
/// How names of tensors end that belong to activations and caches.
const UNUSED: [&str; 7] =
    [".input_scale", ".input_scale_ub", ".input_global_scale", ".output_scale", ".k_scale", ".v_scale", ".kv_scale"];

impl Format {
    /// Reads what `config.json` says; nothing is said of most models.
    ///
    /// # Errors
    /// For a method or a format that is not in the table above.
    pub(super) fn read(config: &Map<String, Json>) -> Result<Self, Error> {
        const KEY: &str = "quantization_config";
        let stated = ["compression_config", KEY].iter().rev().find_map(|key| config.get(*key));
        let Some(stated) = stated.filter(|stated| !stated.is_null()) else { return Ok(Self::default()) };
        let settings = stated.as_object().ok_or_else(|| unexpected(KEY, "an object", stated))?;
        let method = settings.get("quant_method").and_then(Json::as_str).unwrap_or_default();
        match method {
            "fp8" => {
                allow(&format!("{KEY}.fmt"), settings.get("fmt"), &["e4m3"], "e4m3")?;
                let tile = settings.get("weight_block_size").filter(|size| !size.is_null());
                Ok(Self { tile: tile.map(|size| tile_of(&format!("{KEY}.weight_block_size"), size)).transpose()? })
            }
            "modelopt" => {
                allow(&format!("{KEY}.quant_algo"), settings.get("quant_algo"), &["FP8", "NVFP4"], "FP8 or NVFP4")?;
                Ok(Self::default())
            }
            "compressed-tensors" => compressed(KEY, settings),
            // Its blocks are named by the family that has them.
            "fbgemm_fp8" | "mxfp4" => Ok(Self::default()),
            _ => Err(unexpected(
                &format!("{KEY}.quant_method"),
                "fp8, fbgemm_fp8, compressed-tensors, modelopt or mxfp4",
                settings.get("quant_method").unwrap_or(&Json::Null),
            )),
        }
    }
}

/// What the format of the library `compressed-tensors` says.
fn compressed(key: &str, settings: &Map<String, Json>) -> Result<Format, Error> {
    const FORMATS: [&str; 3] = ["float-quantized", "nvfp4-pack-quantized", "mixed-precision"];
    const EXPECTED: &str = "float-quantized or nvfp4-pack-quantized";
    allow(&format!("{key}.format"), settings.get("format"), &FORMATS, EXPECTED)?;
    for (name, inside) in [("sparsity_config", "format"), ("transform_config", "config_groups")] {
        let other = settings.get(name).and_then(|other| other.get(inside)).filter(|other| !other.is_null());
        let is_empty = |other: &Json| other == "dense" || other.as_object().is_some_and(Map::is_empty);
        if let Some(other) = other.filter(|other| !is_empty(other)) {
            return Err(unexpected(&format!("{key}.{name}.{inside}"), "nothing", other));
        }
    }
    let mut tile = None;
    for (name, group) in settings.get("config_groups").and_then(Json::as_object).into_iter().flatten() {
        let key = format!("{key}.config_groups.{name}");
        allow(&format!("{key}.format"), group.get("format"), &FORMATS[..2], EXPECTED)?;
        let Some(weights) = group.get("weights").filter(|weights| !weights.is_null()) else { continue };
        allow(&format!("{key}.weights.type"), weights.get("type"), &["float"], "float")?;
        if let Some(size) = weights.get("block_structure").filter(|size| !size.is_null()) {
            let size_key = format!("{key}.weights.block_structure");
            let found = tile_of(&size_key, size)?;
            if tile.is_some_and(|tile| tile != found) {
                return Err(unexpected(&size_key, "the same in all groups", size));
            }
            tile = Some(found);
        }
    }
    Ok(Format { tile })
}

/// Rows and columns of a tile.
fn tile_of(key: &str, size: &Json) -> Result<[usize; 2], Error> {
    let side = |side: &Json| side.as_u64().filter(|side| (1..=SIDE_MAX).contains(side)).map(|side| side as usize);
    let sides: Option<Vec<usize>> = size.as_array().and_then(|sides| sides.iter().map(side).collect());
    match sides.as_deref() {
        Some(&[rows, columns]) if columns.is_multiple_of(TILE_COLUMNS) => Ok([rows, columns]),
        _ => Err(unexpected(key, "two numbers, of rows and of columns, the second a multiple of 128", size)),
    }
}

/// Fails if a setting is there and is none of these words.
fn allow(key: &str, setting: Option<&Json>, known: &[&str], expected: &'static str) -> Result<(), Error> {
    match setting.filter(|setting| !setting.is_null()) {
        Some(setting) if !setting.as_str().is_some_and(|word| known.contains(&word)) => {
            Err(unexpected(key, expected, setting))
        }
        _ => Ok(()),
    }
}

fn unexpected(key: &str, expected: &'static str, found: &Json) -> Error {
    Error::Value { what: key.to_owned(), expected, found: quoted(&found.to_string()) }
}

/// Tensors by name.
type Tensors = IndexMap<String, Tensor>;

/// The same tensors, codes together with their scales and under the name that the matrix has in other checkpoints.
///
/// # Errors
/// When scales are missing, or are not as many as the codes need.
pub(super) fn join(tensors: Tensors, format: &Format) -> Result<Tensors, Error> {
    if tensors.values().all(|tensor| tensor.quant != Quant::F8_E4M3) {
        return Ok(tensors);
    }
    let finder = Finder { tensors: &tensors, tile: format.tile.unwrap_or(USUAL_TILE) };
    let mut used = HashSet::new();
    let mut joined = HashMap::new();
    for (name, tensor) in &tensors {
        let found = match name.strip_suffix("_packed") {
            Some(matrix) if matrix.ends_with(".weight") => finder.four(name, matrix, "_global_scale", tensor)?,
            _ if name.ends_with(".weight") && tensor.quant == Quant::I8 && finder.has_fine(name) => {
                finder.four(name, name, "_scale_2", tensor)?
            }
            _ if tensor.quant == Quant::F8_E4M3 && !name.ends_with("_scale") => finder.eight(name, tensor)?,
            _ => continue,
        };
        used.extend(found.used.iter().cloned());
        joined.insert(name.clone(), found);
    }
    let mut all = IndexMap::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let is_unused = UNUSED.iter().any(|end| name.ends_with(end)) && tensor.dims.iter().all(|&length| length == 1);
        if used.contains(&name) || is_unused {
            continue;
        }
        let (name, tensor) = match joined.remove(&name) {
            Some(found) => (found.name, found.tensor),
            None => (name, tensor),
        };
        let shown = quoted(&name);
        if all.insert(name, tensor).is_some() {
            return Err(Error::Duplicate { what: format!("tensor {shown}, by itself and as codes,") });
        }
    }
    Ok(all)
}

/// A matrix together with its scales.
struct Joined {
    name: String,
    tensor: Tensor,
    /// The tensors that its scales come from.
    used: Vec<String>,
}

/// Looks for scales.
struct Finder<'a> {
    tensors: &'a Tensors,
    tile: [usize; 2],
}

impl Finder<'_> {
    /// A matrix in eight bits.
    fn eight(&self, name: &str, tensor: &Tensor) -> Result<Joined, Error> {
        let [rows, columns] = sides(name, tensor)?;
        let mut beside = ["_scale_inv", "_scale"]
            .map(|end| self.tensors.get_key_value(&format!("{name}{end}")))
            .into_iter()
            .flatten();
        let (Some((beside, factors)), None) = (beside.next(), beside.next()) else {
            return Err(Error::Value {
                what: format!("tensor {} is F8_E4M3: its factors", quoted(name)),
                expected: "one tensor, whose name has `_scale_inv` or `_scale` behind it",
                found: "none, or both".to_owned(),
            });
        };
        if !matches!(factors.quant, Quant::F32 | Quant::F16 | Quant::BF16) {
            return Err(wrong_type(beside, factors, "F32, F16, BF16"));
        }
        let [height, width] = self.tile;
        let tiles = [rows.div_ceil(height), columns.div_ceil(width)];
        let dims = |sides: [usize; 2]| sides.map(|side| side as u64);
        let ([height, width], across) = match factors.dims[..] {
            _ if factors.dims == dims(tiles) => (self.tile, tiles[1]),
            ref dims if dims.iter().all(|&length| length == 1) => ([rows, columns], 1),
            [length] | [length, 1] if length == rows as u64 => ([1, columns], 1),
            _ => {
                let [down, across] = tiles;
                return Err(Error::TensorDims {
                    tensor: quoted(beside),
                    dims: factors.dims.clone(),
                    expected: format!(
                        "({down}, {across}) for tiles of {height} rows and {width} columns, ({rows}, 1) for rows, or (1)"
                    ),
                });
            }
        };
        let scales =
            Scales::Tiles { factors: factors.data.clone(), quant: factors.quant, rows: height, columns: width, across };
        let tensor = Tensor { scales: Some(Box::new(scales)), ..tensor.clone() };
        Ok(Joined { name: name.to_owned(), tensor, used: vec![beside.clone()] })
    }

    /// Whether a matrix has scales of eight bits.
    fn has_fine(&self, matrix: &str) -> bool {
        self.tensors.get(&format!("{matrix}_scale")).is_some_and(|scales| scales.quant == Quant::F8_E4M3)
    }

    /// A matrix in four bits, whose codes are the tensor `name`; the name of its one factor ends with `end`.
    fn four(&self, name: &str, matrix: &str, end: &str, codes: &Tensor) -> Result<Joined, Error> {
        let find = |end: &str| {
            let beside = format!("{matrix}{end}");
            let Some(tensor) = self.tensors.get(&beside) else {
                return Err(Error::Value {
                    what: format!("tensor {} is NVFP4: its {}", quoted(name), quoted(&beside)),
                    expected: "a tensor",
                    found: "none".to_owned(),
                });
            };
            Ok((beside, tensor))
        };
        if codes.quant != Quant::I8 {
            return Err(wrong_type(name, codes, "U8"));
        }
        let [rows, bytes] = sides(name, codes)?;
        let dims = [rows as u64, (bytes / 8) as u64];
        let (fine_name, fine) = find("_scale")?;
        if fine.quant != Quant::F8_E4M3 {
            return Err(wrong_type(&fine_name, fine, "F8_E4M3"));
        }
        if fine.dims != dims || !bytes.is_multiple_of(8) {
            return Err(Error::TensorDims {
                tensor: quoted(&fine_name),
                dims: fine.dims.clone(),
                expected: format!("({}, {}), one for sixteen values of {}", dims[0], dims[1], quoted(name)),
            });
        }
        let (factor_name, factor) = find(end)?;
        let stated = match factor.data.as_chunks().0 {
            [bytes] if factor.quant == Quant::F32 => f32::from_le_bytes(*bytes),
            _ if factor.quant != Quant::F32 => return Err(wrong_type(&factor_name, factor, "F32")),
            _ => {
                let (tensor, dims) = (quoted(&factor_name), factor.dims.clone());
                return Err(Error::TensorDims { tensor, dims, expected: "one number".to_owned() });
            }
        };
        // One of the two formats divides.
        let factor = if end == "_global_scale" { 1.0 / stated } else { stated };
        let scales = Scales::Sixteens { scales: fine.data.clone(), factor };
        let dims = vec![rows as u64, 2 * bytes as u64];
        let tensor = Tensor { quant: Quant::NVFP4, dims, data: codes.data.clone(), scales: Some(Box::new(scales)) };
        Ok(Joined { name: matrix.to_owned(), tensor, used: vec![fine_name, factor_name] })
    }
}

/// Rows and stored columns of a matrix.
fn sides(name: &str, tensor: &Tensor) -> Result<[usize; 2], Error> {
    match tensor.dims[..] {
        [rows, columns] if rows > 0 && columns > 0 => Ok([rows as usize, columns as usize]),
        _ => Err(Error::TensorDims {
            tensor: quoted(name),
            dims: tensor.dims.clone(),
            expected: "rows and columns, as every matrix that has scales beside it".to_owned(),
        }),
    }
}

fn wrong_type(name: &str, tensor: &Tensor, expected: &'static str) -> Error {
    Error::TensorType { tensor: quoted(name), found: tensor.quant.name().to_owned(), expected }
}
