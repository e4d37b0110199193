// The wide product on Hopper (sm_90a alone; other targets compile to kernels that stop). Parameters: Matmul in matmul_sm90.cuh.
//
// matmul_n<T>       (Matmul)   any number of tokens, in tiles of T = 16, 32, 64, 128: take the smallest that holds all tokens, else 128
// gate_up_n<T>      (Matmul)   to or halves = activation(gate_scale * (weight x + bias)) * (up x + up_bias)
// experts_n<T>, experts_gate_up_n<T> (Matmul)   grouped: rows starts[e] to starts[e + 1] of x meet expert e; `rows` are one expert's, a weight map has
//                   experts * rows; at most 512 experts; T by the tokens of an expert
//   Block (384), dynamic shared memory as beside each line below (set the kernel's maximum to it), one block an SM.
//   Grid: up to one block an SM, no more than tiles, where tiles = (rows / R rounded up) * (tokens / T rounded up) * splits, R = 128, for gated pairs
//   64; grouped: one block an SM.
//   Splits: where tiles are fewer than SMs (with splits counted no more: all blocks of a tile run at a time, and there is one for each split), split the columns: splits in 1 to columns / 256, `partials` tiles * 128 * T floats (tiles with splits counted),
//   `counters` tiles unsigned zeros. Sums are added in the order of the splits: the same bits every time. Else 1 (never 0).
//   Tensor maps: bf16, 2 dimensions (columns, rows), row stride in bytes a multiple of 16, box (64, 64) for weights and (64, T) for x, swizzle 128B, no
//   interleave, L2 promotion 256B, fill zeros. Columns: any multiple of 8. The structs are passed by value; a TensorMap is aligned to 64 bytes.
#include "matmul_sm90.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BODY(...) matmul_sm90<__VA_ARGS__>(p)
#else
#define BODY(...) __trap()
#endif

// Tokens, stages; shared bytes: stages * (16384 + 128 T) + 1024.
#define MATMULS(T, STAGES) \
    KERNEL void __launch_bounds__(384, 1) matmul_n##T(const __grid_constant__ Matmul p) { BODY(T, STAGES, false, false); } \
    KERNEL void __launch_bounds__(384, 1) gate_up_n##T(const __grid_constant__ Matmul p) { BODY(T, STAGES, true, false); } \
    KERNEL void __launch_bounds__(384, 1) experts_n##T(const __grid_constant__ Matmul p) { BODY(T, STAGES, false, true); } \
    KERNEL void __launch_bounds__(384, 1) experts_gate_up_n##T(const __grid_constant__ Matmul p) { BODY(T, STAGES, true, true); }

MATMULS(16, 11)   // 203776
MATMULS(32, 10)   // 205824
MATMULS(64, 8)    // 197632
MATMULS(128, 6)   // 197632
