// The wide product on Hopper with weights as they are stored (sm_90a alone; other targets compile to kernels that stop). Parameters: MatmulCodes in
// matmul_codes.cuh.
//
// matmul_<type>_n<T>       (MatmulCodes)   as matmul_n<T> of matmul_sm90.cu, T = 16, 32, 64, 128
// gate_up_<type>_n<T>      (MatmulCodes)   as gate_up_n<T>
// experts_<type>_n<T>, experts_gate_up_<type>_n<T>   grouped
//   type: q4_k q6_k. Block (384), dynamic shared memory stages * (bytes of 128 stored rows of 256 columns) + x stages * 128 T + 1024 (set the kernel's
//   maximum to it), one block an SM. Columns a multiple of 256, rows of a pair of 2. Splits as there, at most columns / 256; partials as there; counters two
//   for each tile.
//   Tensor maps: x as there. Weights: bytes, 3 dimensions (bytes of a row, rows, matrices), no interleave, L2 promotion 256B, fill zeros. Q4_K: box (144,
//   64, 1), no swizzle. Q6_K: low nibbles box (128, 64, 1), swizzle 128B; high bits (64, 64, 1), swizzle 64B; sub-scales (16, 64, 1), no swizzle.
#include "matmul_codes.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BODY(...) matmul_codes<__VA_ARGS__>(p)
#else
#define BODY(...) __trap()
#endif

// Tokens; stages of Q4_K and Q6_K, and of x: 6 * 18432 + 6 * 128 T + 1024, 4 * 26624 + 6 * 128 T + 1024.
#define MATMULS_OF(NAME, TYPE, STAGES, T) \
    KERNEL void __launch_bounds__(384, 1) matmul_##NAME##_n##T(const __grid_constant__ MatmulCodes p) { BODY(TYPE, T, STAGES, 6, false, false); } \
    KERNEL void __launch_bounds__(384, 1) gate_up_##NAME##_n##T(const __grid_constant__ MatmulCodes p) { BODY(TYPE, T, STAGES, 6, true, false); } \
    KERNEL void __launch_bounds__(384, 1) experts_##NAME##_n##T(const __grid_constant__ MatmulCodes p) { BODY(TYPE, T, STAGES, 6, false, true); } \
    KERNEL void __launch_bounds__(384, 1) experts_gate_up_##NAME##_n##T(const __grid_constant__ MatmulCodes p) { BODY(TYPE, T, STAGES, 6, true, true); }
#define MATMULS(T) \
    MATMULS_OF(q4_k, StoredQ4K, 6, T) \
    MATMULS_OF(q6_k, StoredQ6K, 4, T)

MATMULS(16)
MATMULS(32)
MATMULS(64)
MATMULS(128)
