// Matrix times 1 to 8 vectors, weights read once at the memory's speed. The bodies, the parameter structs and the layouts: matvec.cuh, quant.cuh.
//
// matvec_<type>_t<T> (Matvec)        1 to T tokens (T = 1, 2, 4, 8); up to four matrices of one type and one input in a launch
// matvec_mixed_t<T> (Matvec)         the same, each part of its own type: q8_0, q4_0, q4_k, q5_k, q6_k
// matvec_<type>_turned, matvec_mixed_turned, gate_up_<type>_turned (Matvec)   as ..._t1, but every block turns `from` behind `norm` itself, into dynamic
//     shared memory: columns * 5 / 4 bytes for quantised types, columns * 4 for floats
// gate_up_<type>_t<T> (Matvec)       one or more gated pairs: to = activation(gate_scale * (weight x + bias)) * (up x + up_bias)
//     type: q8_0 q4_0 q4_k q5_k q6_k bf16 f16 f32 f8_e4m3
//     Grid: the blocks of all parts; a part has rows / OUTPUTS rounded up, OUTPUTS = WARPS * R for matvec, WARPS * R / 2 for gate_up, where
//     WARPS = 4 and R = 2 for T = 1 and 2, else 4; but R = 1 for matvec_<q8_0, q6_k, bf16, f16, f32>_t1. Block (128). No dynamic shared memory.
// experts_gate_up_<type>, experts_down_<type> (ExpertsMatvec)
//     Grid (rows / 4 rounded up, slots) for gate_up, where slots = tokens * count; (rows / 4 rounded up, tokens) for down. Block (128).
//     gate_up reads x (tokens, columns) and writes (slots, rows); down reads x (slots, columns), writes (tokens, rows).
//     type: as above.
// row_route_f32 (RowRoute)           grid (count + 1), block (128): the last block turns the row
//
// Weights begin at multiples of 16 bytes. Columns: a multiple of the type's block and of 8. Codes, metas and values of x 16-byte aligned (rows.cu
// makes them); quantised types read codes and metas, float types values.
// matvec_plain_<type> (Matvec): f32, f16, bf16 of any number of columns, one token a grid row: grid (blocks, tokens), R = 1, no pairs; slow.
#include "matvec.cuh"

// How a type is dealt out where rows are short.
template <class Q> struct Short { typedef Q Type; };
template <> struct Short<Q4_K_64> { typedef Q4_K Type; };

#define MATVEC(NAME, TYPE, TOKENS, ROWS, UNROLL, BLOCKS) \
    KERNEL void __launch_bounds__(32 * WARPS, BLOCKS) matvec_##NAME##_t##TOKENS(const __grid_constant__ Matvec p) { matvec<TYPE, TOKENS, ROWS, UNROLL, false>(p); }
#define TURNED(NAME, TYPE, ROWS, UNROLL, FEW) \
    KERNEL void __launch_bounds__(32 * WARPS, 8) matvec_##NAME##_turned(const __grid_constant__ Matvec p) { matvec<TYPE, 1, ROWS, UNROLL, false, true>(p); } \
    KERNEL void __launch_bounds__(32 * WARPS, 6) gate_up_##NAME##_turned(const __grid_constant__ Matvec p) { matvec<TYPE, 1, 2, FEW, true, true>(p); }
#define GATE_UP(NAME, TYPE, TOKENS, ROWS, UNROLL, BLOCKS) \
    KERNEL void __launch_bounds__(32 * WARPS, BLOCKS) gate_up_##NAME##_t##TOKENS(const __grid_constant__ Matvec p) { matvec<TYPE, TOKENS, ROWS, UNROLL, true>(p); }
// Rows a warp and units in flight of one token, as measured on an H200: what is best for a matrix of 17 to 100 MB.
#define MATVECS(NAME, TYPE, ROWS, UNROLL, FEW) \
    MATVEC(NAME, TYPE, 1, ROWS, UNROLL, 8) \
    TURNED(NAME, TYPE, ROWS, UNROLL, FEW) \
    GATE_UP(NAME, TYPE, 1, 2, FEW, 8) \
    MATVEC(NAME, TYPE, 2, 2, FEW, 8) \
    GATE_UP(NAME, TYPE, 2, 2, FEW, 8) \
    MATVEC(NAME, TYPE, 4, 4, (FEW + 1) / 2, 4) \
    GATE_UP(NAME, TYPE, 4, 4, (FEW + 1) / 2, 4) \
    MATVEC(NAME, TYPE, 8, 4, 1, 4) \
    GATE_UP(NAME, TYPE, 8, 4, 1, 4) \
    KERNEL void __launch_bounds__(32 * WARPS, 8) experts_gate_up_##NAME(const __grid_constant__ ExpertsMatvec p) { experts_gate_up<TYPE, 2, FEW>(p); } \
    KERNEL void __launch_bounds__(32 * WARPS, 4) experts_down_##NAME(const __grid_constant__ ExpertsMatvec p) { experts_down<typename Short<TYPE>::Type, 8, 1>(p); }

MATVECS(q8_0, Q8_0, 1, 4, 4)
MATVECS(q4_0, Q4_0, 2, 2, 2)
MATVECS(q4_k, Q4_K_64, 2, 1, 1)
MATVECS(q5_k, Q5_K, 2, 1, 1)
MATVECS(q6_k, Q6_K, 1, 2, 1)
MATVECS(bf16, BF16, 1, 4, 2)
MATVECS(f16, F16, 1, 4, 2)
MATVECS(f32, F32, 1, 2, 2)
MATVECS(f8_e4m3, F8_E4M3, 2, 4, 4)

KERNEL void __launch_bounds__(32 * WARPS) row_route_f32(const __grid_constant__ RowRoute p) { row_route(p); }

KERNEL void __launch_bounds__(32 * WARPS, 8) matvec_mixed_t1(const __grid_constant__ Matvec p) { matvec_mixed<1, 2, 1>(p); }
KERNEL void __launch_bounds__(32 * WARPS, 8) matvec_mixed_turned(const __grid_constant__ Matvec p) { matvec_mixed<1, 2, 1, true>(p); }
KERNEL void __launch_bounds__(32 * WARPS, 8) matvec_mixed_t2(const __grid_constant__ Matvec p) { matvec_mixed<2, 2, 1>(p); }
KERNEL void __launch_bounds__(32 * WARPS, 4) matvec_mixed_t4(const __grid_constant__ Matvec p) { matvec_mixed<4, 4, 1>(p); }
KERNEL void __launch_bounds__(32 * WARPS, 3) matvec_mixed_t8(const __grid_constant__ Matvec p) { matvec_mixed<8, 4, 1>(p); }

template <int TYPE>
static __device__ __forceinline__ void matvec_plain(const Matvec& p) {
    release_next_grid();
    wait_for_previous_grid();
    const MatvecPart& part = part_of<4>(p);
    const int row = (blockIdx.x - part.first_block) * WARPS + (threadIdx.x >> 5), token = blockIdx.y;
    if (row >= part.rows) return;
    float sum = 0;
    for (int i = threadIdx.x & 31; i < p.x.columns; i += 32) {
        const size_t at = (size_t)row * p.x.columns + i;
        float w;
        if (TYPE == TYPE_F32) w = reinterpret_cast<const float*>(part.weight)[at];
        if (TYPE == TYPE_F16) w = half_to_float(reinterpret_cast<const u16*>(part.weight)[at]);
        if (TYPE == TYPE_BF16) w = bf16_low(reinterpret_cast<const u16*>(part.weight)[at]);
        sum += w * p.x.values[(size_t)token * p.x.columns + i];
    }
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) != 0) return;
    if (part.bias) sum += part.bias[row];
    float* to = part.to + (size_t)token * part.to_stride + row;
    *to = p.add ? *to + p.scale * sum : sum;
}
KERNEL void __launch_bounds__(32 * WARPS) matvec_plain_f32(const __grid_constant__ Matvec p) { matvec_plain<TYPE_F32>(p); }
KERNEL void __launch_bounds__(32 * WARPS) matvec_plain_f16(const __grid_constant__ Matvec p) { matvec_plain<TYPE_F16>(p); }
KERNEL void __launch_bounds__(32 * WARPS) matvec_plain_bf16(const __grid_constant__ Matvec p) { matvec_plain<TYPE_BF16>(p); }
