// The chosen experts of some dozens of tokens: each expert's rows are read once for up to eight tokens that chose it, where experts_gate_up and
// experts_down (matvec.cu) read them for each. Behind group_pairs (grouped.cu), which says who chose whom.
//
// experts_few_up_<type>, experts_few_down_<type> (ExpertsFew)
//     Grid (rows / 8 rounded up for up, rows / 16 for down; experts). Block (128). up reads x (tokens, columns) and writes a row of `to` for each
//     pair, (tokens * count, rows); down reads x (tokens * count, columns) and writes a row for each place in the order of experts.
//     type: q8_0 q4_0 q4_k q5_k q6_k bf16 f16 f32 f8_e4m3
#include "matvec.cuh"

struct ExpertsFew {
    const u8* weight;   // (experts, rows, columns): expert e begins at e * stride bytes, a multiple of 16
    const u8* up;       // the second matrices of gated pairs
    size_t stride;
    const int* starts;  // (experts + 1): the first place of each
    const int* pairs;   // the pair at a place: token * count + which of its chosen
    float* to;
    int rows, count;
    Vectors x;
    Activation activation;
    float gate_scale;
};

// Rows row0 and on of the pairs at places first to end, of which TOKENS are taken.
template <class Q, int TOKENS, bool PAIR>
static __device__ __forceinline__ void take_few(const ExpertsFew& p, int expert, int first, int end, int row0) {
    constexpr int ROWS = 4, OUTPUTS = PAIR ? 2 : 4, COUNT = ROWS * TOKENS, LANES = 32 / COUNT;
    const int lane = threadIdx.x & 31;
    const size_t row_blocks = p.x.columns / Q::BLOCK;
    const u8* weight[ROWS];
    size_t block0[ROWS];
    float sums[ROWS][TOKENS];
    int token[TOKENS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        weight[r] = (PAIR && r >= OUTPUTS ? p.up : p.weight) + expert * p.stride;
        block0[r] = min(row0 + r % OUTPUTS, p.rows - 1) * row_blocks;
#pragma unroll
        for (int t = 0; t < TOKENS; t++) sums[r][t] = 0;
    }
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        const int pair = p.pairs[min(first + t, end - 1)];
        token[t] = PAIR ? pair / p.count : pair;
    }
    add_rows<Q, TOKENS, ROWS, 1, false>(weight, (size_t)p.rows * row_blocks, block0, p.x, token, [] {}, sums);
    float y = fold<COUNT>(reinterpret_cast<float(&)[COUNT]>(sums));
    const int which = lane / LANES, place = first + which % TOKENS, row = row0 + which / TOKENS % OUTPUTS;
    if (PAIR) y = gated(p.activation, p.gate_scale * y, __shfl_xor_sync(~0u, y, 16));
    if (lane % LANES != 0 || (PAIR && lane >= 16) || row >= p.rows || place >= end) return;
    p.to[(size_t)(PAIR ? p.pairs[place] : place) * p.rows + row] = y;
}

template <class Q, bool PAIR>
static __device__ __forceinline__ void experts_few(const ExpertsFew& p) {
    release_next_grid();
    wait_for_previous_grid();
    const int expert = blockIdx.y, end = p.starts[expert + 1], row0 = (blockIdx.x * WARPS + (threadIdx.x >> 5)) * (PAIR ? 2 : 4);
    if (row0 >= p.rows) return;
#pragma unroll 1
    for (int first = p.starts[expert]; first < end; first += 8) {
        if (end - first > 4) take_few<Q, 8, PAIR>(p, expert, first, end, row0);
        else take_few<Q, 4, PAIR>(p, expert, first, end, row0);
    }
}

#define EXPERTS_FEW(NAME, TYPE) \
    KERNEL void __launch_bounds__(32 * WARPS, 4) experts_few_up_##NAME(const __grid_constant__ ExpertsFew p) { experts_few<TYPE, true>(p); } \
    KERNEL void __launch_bounds__(32 * WARPS, 4) experts_few_down_##NAME(const __grid_constant__ ExpertsFew p) { experts_few<TYPE, false>(p); }
EXPERTS_FEW(q8_0, Q8_0)
EXPERTS_FEW(q4_0, Q4_0)
EXPERTS_FEW(q4_k, Q4_K)
EXPERTS_FEW(q5_k, Q5_K)
EXPERTS_FEW(q6_k, Q6_K)
EXPERTS_FEW(bf16, BF16)
EXPERTS_FEW(f16, F16)
EXPERTS_FEW(f32, F32)
EXPERTS_FEW(f8_e4m3, F8_E4M3)
