//! Products of one row by blocks that stay (`kernels/matvec_stream.cu`): weights are on their way before the kernel ahead has ended, and every block
//! turns the row itself. For processors whose kernels may begin ahead, where shared memory has room.

use kauri_formats::Quant;

use crate::driver::{Gpu, WAITS};

/// Warps of a block, and threads.
pub(crate) const WARPS: usize = 16;
pub(crate) const THREADS: u32 = 32 * WARPS as u32;
/// Outputs of a block that become codes at most, as in `kernels/matvec_stream.cuh`.
pub(crate) const CODED_ROWS: usize = 256;
/// Columns come in multiples of this many: two blocks of 32.
const COLUMNS: usize = 64;
/// Bytes of the matrices of a launch from which on these kernels are quicker; and of `Q8_0`, where all kernels of a model share out the near memory alike.
const BYTES_MIN: usize = 9 << 20;
const ALIKE_Q8_0_BYTES_MIN: usize = 3 << 20;
/// More than half of what a processor has: two of these blocks are never on one.
const SHARED_BYTES_MIN: usize = 116 << 10;
/// What a block needs of shared memory beside what is counted here.
const OWN_BYTES: usize = 4096;

/// Bytes of the rings of a block: 16 warps, STEPS, ROWS * UNITS and the bytes of a unit, as in `kernels/matvec_stream.cu`; of codes of eight bits 16 warps, STEPS
/// and `STEP_BYTES`, as in `kernels/stream_f8.cuh`.
fn ring_bytes(quant: Quant) -> Option<usize> {
    match quant {
        Quant::Q8_0 | Quant::Q4_0 => Some(16 * 3 * 4 * 640),
        Quant::Q4_K => Some(16 * 3 * 2 * 1152),
        Quant::Q5_K => Some(16 * 3 * 2 * 768),
        Quant::BF16 | Quant::F16 => Some(16 * 3 * 4 * 512),
        Quant::F8_E4M3 => Some(16 * 3 * (16 * 128 + 4 * 16)),
        _ => None,
    }
}

/// Bytes of the matrices of a launch from which on these kernels are quicker. `is_alike`: see [`Gpu::share`].
pub(crate) fn bytes_min(quant: Quant, is_alike: bool) -> usize {
    if is_alike && quant == Quant::Q8_0 { ALIKE_Q8_0_BYTES_MIN } else { BYTES_MIN }
}

/// Shared memory of a block, for matrices of one type with so many columns; none where there is no kernel, or no room.
pub(crate) fn shared_bytes(gpu: &Gpu, quant: Quant, columns: usize) -> Option<usize> {
    let row = match quant {
        Quant::BF16 | Quant::F16 => 4 * columns,
        Quant::F8_E4M3 => 2 * columns + columns / 32,
        _ => columns + columns / 4,
    };
    let needed = (ring_bytes(quant)? + row.next_multiple_of(128)).max(SHARED_BYTES_MIN);
    let fits = gpu.capability >= WAITS
        && columns.is_multiple_of(COLUMNS)
        && needed + OWN_BYTES <= gpu.block_bytes_max as usize;
    fits.then_some(needed)
}

/// The first of `blocks` blocks of each matrix, of so many bytes: as many for each as is its share, and one at least.
pub(crate) fn first_blocks(blocks: usize, bytes: &[usize]) -> Vec<usize> {
    let all: usize = bytes.iter().sum();
    let mut before = 0;
    let mut firsts: Vec<usize> = Vec::with_capacity(bytes.len());
    for (index, share) in bytes.iter().enumerate() {
        let even = (before * blocks + all / 2) / all.max(1);
        let least = firsts.last().map_or(0, |first| first + 1);
        firsts.push(even.clamp(least, blocks - (bytes.len() - index)));
        before += share;
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::first_blocks;

    #[test]
    fn matrices_share_blocks_by_their_bytes() {
        assert_eq!(first_blocks(132, &[7]), [0]);
        assert_eq!(first_blocks(132, &[2, 1, 1]), [0, 66, 99]);
        assert_eq!(first_blocks(132, &[1000, 1, 1]), [0, 130, 131]);
        assert_eq!(first_blocks(132, &[1, 1, 1000]), [0, 1, 2]);
        assert_eq!(first_blocks(4, &[1, 1, 1, 1000]), [0, 1, 2, 3]);
    }
}
