// The wide product on any processor from sm_80 on. Parameters: MatmulMma in matmul_mma.cuh; the task's fields as in matmul.cuh, splits 1.
//
// matmul_mma_n<T>, gate_up_mma_n<T> (MatmulMma)                   T = 32, 128: tokens of a tile; 32 for up to 64 tokens
// experts_mma_n<T>, experts_gate_up_mma_n<T> (MatmulMma)          grouped, as in matmul_sm90.cu
//   Block (256). Dynamic shared memory 3 * (16384 + 128 T): 61440 for T = 32, 98304 for T = 128 (set the kernel's maximum).
//   Grid: tiles, or fewer blocks that take turns; tiles = (rows / R rounded up) * (tokens / T rounded up), R = 128, for gated pairs 64; grouped: two
//   blocks an SM. Columns a multiple of 8; x, weight and up 16-byte aligned, rows without gaps.
#include "matmul_mma.cuh"

#define MATMULS(T) \
    KERNEL void __launch_bounds__(256) matmul_mma_n##T(const __grid_constant__ MatmulMma p) { matmul_mma<T, 3, false, false>(p); } \
    KERNEL void __launch_bounds__(256) gate_up_mma_n##T(const __grid_constant__ MatmulMma p) { matmul_mma<T, 3, true, false>(p); } \
    KERNEL void __launch_bounds__(256) experts_mma_n##T(const __grid_constant__ MatmulMma p) { matmul_mma<T, 3, false, true>(p); } \
    KERNEL void __launch_bounds__(256) experts_gate_up_mma_n##T(const __grid_constant__ MatmulMma p) { matmul_mma<T, 3, true, true>(p); }

MATMULS(32)
MATMULS(128)
