// The wide product on Hopper (sm_90a alone; other targets compile to kernels that stop). Parameters: Matmul in matmul_sm90.cuh.
//
// matmul_n<T>       (Matmul)   any number of tokens, in tiles of T = 16, 32, 64, 128, 256: take the smallest that holds all tokens, 256 past 128
// gate_up_n<T>      (Matmul)   T = 16, 32, 64, 128: to or halves = activation(gate_scale * (weight x + bias)) * (up x + up_bias)
// experts_n<T>, experts_gate_up_n<T> (Matmul)   T = 16, 32, 64, 128: grouped: rows starts[e] to starts[e + 1] of x meet expert e; `rows` are one expert's, a
//                   weight map has experts * rows; at most 512 experts
//   Block (384), dynamic shared memory SHARED_BYTES below (set the kernel's maximum to it), one block an SM.
//   The x map's box has T rows.
//   Grid: up to one block an SM no more than tiles, where tiles = (rows / 128 rounded up) * (tokens / T
//   rounded up) * splits; grouped: one block an SM.
//   Splits: where tiles are fewer than SMs, split the columns: splits in 1 to columns / 256, `partials` tiles * splits * 128 * T floats (twice that
//   for gate_up), `counters` tiles unsigned zeros.  Sums are added in the order of the splits: the same bits every time.
//   Tensor maps: bf16, 2 dimensions (columns, rows), row stride in bytes a multiple of 16, box (64, 128) for weights, swizzle 128B, no interleave,
//   L2 promotion 256B, fill zeros. Columns: any multiple of 8.
//   SHARED_BYTES: stages * (16384 + 128 T) + 1024, for gated pairs stages * (32768 + 128 T) + 1024; beside each kernel below.
#include "matmul_sm90.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BODY(...) matmul_sm90<__VA_ARGS__>(p)
#else
#define BODY(...) __trap()
#endif

// Tokens, stages, cluster.
#define MATMUL(T, STAGES, CLUSTER) \
    KERNEL void __launch_bounds__(384, 1) matmul_n##T(const __grid_constant__ Matmul p) { BODY(T, STAGES, CLUSTER, false, false); }
#define GATE_UP(T, STAGES, CLUSTER) \
    KERNEL void __launch_bounds__(384, 1) gate_up_n##T(const __grid_constant__ Matmul p) { BODY(T, STAGES, CLUSTER, true, false); }
#define EXPERTS(T, STAGES, GATE_STAGES) \
    KERNEL void __launch_bounds__(384, 1) experts_n##T(const __grid_constant__ Matmul p) { BODY(T, STAGES, 1, false, true); } \
    KERNEL void __launch_bounds__(384, 1) experts_gate_up_n##T(const __grid_constant__ Matmul p) { BODY(T, GATE_STAGES, 1, true, true); }

MATMUL(16, 10, 1)    // 185344
MATMUL(32, 9, 1)     // 185344
MATMUL(64, 8, 1)     // 197632
MATMUL(128, 6, 1)    // 197632
MATMUL(256, 4, 1)    // 197632
GATE_UP(16, 6, 1)    // 209920
GATE_UP(32, 5, 1)    // 185344
GATE_UP(64, 5, 1)    // 205824
GATE_UP(128, 4, 1)   // 197632
EXPERTS(16, 10, 6)   // 185344, 209920
EXPERTS(32, 9, 5)    // 185344, 185344
EXPERTS(64, 8, 5)    // 197632, 205824
EXPERTS(128, 6, 4)   // 197632, 197632
