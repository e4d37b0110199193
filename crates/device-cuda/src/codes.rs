//! Products with some dozens of rows, in Hopper's matrix units, with weights as they are stored (`kernels/matmul_codes.cu`): nothing is made bf16 in
//! memory first.

use kauri_formats::Quant;

use crate::driver::{Arg, BytesMap, Failure, Gpu, Grid, Swizzle};
use crate::matmul::type_name;
use crate::ops::Cuda;
use crate::resident::Resident;
use crate::structure::Structure;
use crate::wide::{self, HOPPER, TILE_ROWS, TILE_TOKENS_MAX, Task};

/// With more tokens than that weights are made bf16 once for all of them.
const TOKENS_MAX: usize = 256;
/// Columns of a stored block.
const BLOCK_COLUMNS: usize = 256;
/// Rows of a copy.
const BOX_ROWS: usize = 64;
/// Planes of a type at most.
const PLANES: usize = 3;
/// Stages of tiles of rows in shared memory.
const ROW_STAGES: usize = 6;

/// How a type lies: bytes of 256 columns in each plane that is copied, how the copy is swizzled, and stages of it in shared memory.
struct Stored {
    planes: &'static [(usize, Swizzle)],
    stages: usize,
}

impl Stored {
    fn of(weight: &Resident) -> Option<Self> {
        match weight.quant {
            Quant::Q4_K => Some(Self { planes: &[(144, Swizzle::None)], stages: 6 }),
            Quant::Q6_K if weight.planes => {
                let planes = &[(128, Swizzle::Bytes128), (64, Swizzle::Bytes64), (16, Swizzle::None)];
                Some(Self { planes, stages: 4 })
            }
            _ => None,
        }
    }
}

/// Whether there is a kernel for the matrix.
pub(crate) fn fits(cuda: &Cuda, weight: &Resident) -> bool {
    let shaped = weight.columns.is_multiple_of(BLOCK_COLUMNS) && weight.rows.is_multiple_of(2);
    !cuda.exact && cuda.gpu.capability == HOPPER && shaped && Stored::of(weight).is_some()
}

/// Whether it is the quickest for so many rows.
pub(crate) fn takes(cuda: &Cuda, weight: &Resident, tokens: usize) -> bool {
    tokens <= TOKENS_MAX && fits(cuda, weight)
}

/// Starts `name`, of bf16 rows and the weights of one matrix, or of a pair; or of so many experts, `stride` bytes apart.
pub(crate) fn launch(
    cuda: &Cuda,
    name: &str,
    halves: u64,
    weights: &[&Resident],
    stride: u64,
    task: &Task,
) -> Result<(), Failure> {
    let Task { rows, tokens, columns, .. } = *task;
    let stored = Stored::of(weights[0]).expect("looked at before");
    let (processors, grouped) = (cuda.gpu.processors as usize, task.starts != 0);
    let matrices = task.experts.max(1);
    let each = if grouped { tokens.div_ceil(matrices) } else { tokens };
    let tile = each.next_power_of_two().clamp(16, TILE_TOKENS_MAX);
    let tiles = rows.div_ceil(TILE_ROWS / weights.len()) * tokens.div_ceil(tile);
    let supers = columns / BLOCK_COLUMNS;
    let splits = if grouped { 1 } else { (processors / tiles).clamp(1, supers) };
    let blocks = if grouped { processors } else { (tiles * splits).min(processors) };

    // `MatmulCodes` of `kernels/matmul_codes.cuh`: maps of the rows, and of the planes of one matrix and another.
    let block_bytes: usize = stored.planes.iter().map(|(bytes, _)| bytes).sum();
    let mut words = Gpu::map(halves, tokens, columns, tile)?.to_vec();
    let mut scales = Vec::new();
    for index in 0..2 {
        let weight = weights.get(index);
        let mut before = 0;
        for plane in 0..PLANES {
            let Some((weight, &(bytes, swizzle))) = weight.zip(stored.planes.get(plane)) else {
                words.extend([0; 16]);
                continue;
            };
            let map = BytesMap {
                at: weight.at + (before * rows * supers) as u64,
                row_bytes: bytes * supers,
                rows,
                matrices,
                stride: if matrices > 1 { stride } else { (bytes * supers * rows) as u64 },
                box_bytes: bytes,
                box_rows: BOX_ROWS,
                swizzle,
            };
            words.extend(map.encode()?);
            before += bytes;
        }
        scales.push(weight.map_or(0, |weight| weight.at + (block_bytes * rows * supers) as u64));
    }
    words.extend(scales);
    words.push(stride);
    words.resize(words.len().next_multiple_of(8), 0);
    words.extend(wide::task_structure(cuda, &Structure::new(), task, splits).words());
    let mut grid = Grid { ahead: true, ..Grid::new([blocks, 1, 1], 384) };
    grid.shared_bytes = stored.stages * TILE_ROWS * block_bytes + ROW_STAGES * 128 * tile + 1024;
    cuda.launch(&format!("{name}_{}_n{tile}", type_name(weights[0].quant)), grid, &[Arg::Words(&words)]);
    Ok(())
}
