// The wide product, whatever multiplies: its task, the cutting into tiles, and how a tile is written. For matmul_sm90.cuh and matmul_mma.cuh.
#pragma once
#include "device.cuh"

static constexpr int TILE_COLUMNS = 64;

// The activations that gated pairs know here, in one formula without a branch: x = min(gate, limit); x * sigmoid(x * (linear + cubic * x * x)) *
// (clamp(up, -up_limit, up_limit) + up_add). Silu: 1, 0, inf, inf, 0. GeluTanh: 1.5957691, 0.0713548, inf, inf, 0. SiluCut: steepness, 0, limit,
// limit, 1. A switch over all activations, unrolled over a tile, would be 200 KB of instructions; the others go through gate_rows.
struct Curve { float linear, cubic, limit, up_limit, up_add; };
static __device__ __forceinline__ float gated(const Curve& c, float gate, float up) {
    const float x = fminf(gate, c.limit);
    return __fdividef(x, 1.0f + __expf(fminf(-x * (c.linear + c.cubic * x * x), 80.0f))) * (fminf(fmaxf(up, -c.up_limit), c.up_limit) + c.up_add);
}

// Where rows `first` and on go, of matrices that lie one behind the other and are taken as one.
struct Joined {
    float* to;  // (tokens, stride), or null
    int first;  // a multiple of 128
    int stride;
};

// to (tokens, rows) = x (tokens, columns) weight (rows, columns)^T.
struct MatmulTask {
    const float* bias;     // (rows), or null
    const float* up_bias;  // (rows), or null
    float* to;             // (tokens, to_stride), or null
    u16* halves;           // bf16 (tokens, to_stride), or null
    const int* starts;     // grouped: (experts + 1): the first row of x of each expert, ascending
    float* partials;       // splits > 1: (tiles, splits, 128 * TOKENS), 16-byte aligned, to work in
    unsigned* counters;    // splits > 1: (tiles) zeros, left zeros
    int rows, tokens, columns, to_stride, experts, splits;
    int add;               // 0: to = y. 1: to += scale * y
    float scale;
    Curve curve;           // of gated pairs
    float gate_scale;
    int stored;            // whether the weights are older than the step: they may be asked for before the previous grid has ended
    Joined joined[2];      // of the second matrix, and of the third; without a pair, a bias and `halves`
};

// Where a tile lies.
struct Tile { int row, token, token_end, weight_row, split, index, first_step, last_step; };

template <int TOKENS, bool PAIR, bool GROUPED>
static __device__ __forceinline__ int count_tiles(const MatmulTask& p, const int* ends) {
    constexpr int ROWS = PAIR ? 64 : 128;
    return (p.rows + ROWS - 1) / ROWS * (GROUPED ? ends[p.experts - 1] : (p.tokens + TOKENS - 1) / TOKENS) * p.splits;
}
template <int TOKENS, bool PAIR, bool GROUPED>
static __device__ __forceinline__ Tile find_tile(const MatmulTask& p, const int* ends, int number) {
    constexpr int ROWS = PAIR ? 64 : 128;
    Tile t;
    const int steps = (p.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
    t.split = number % p.splits, t.index = number / p.splits;
    t.first_step = steps * t.split / p.splits, t.last_step = steps * (t.split + 1) / p.splits;
    if (GROUPED) {
        const int row_tiles = (p.rows + ROWS - 1) / ROWS, which = t.index / row_tiles;
        int low = 0, high = p.experts - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (ends[middle] > which) high = middle; else low = middle + 1;
        }
        t.row = t.index % row_tiles * ROWS;
        t.token = p.starts[low] + (which - (low ? ends[low - 1] : 0)) * TOKENS, t.token_end = p.starts[low + 1];
        t.weight_row = low * p.rows + t.row;
    } else {
        const int token_tiles = (p.tokens + TOKENS - 1) / TOKENS;
        t.row = t.weight_row = t.index / token_tiles * ROWS;
        t.token = t.index % token_tiles * TOKENS, t.token_end = p.tokens;
    }
    return t;
}

// Several blocks share a tile's columns, and each adds up a part of its tokens. All of them run at a time: there are no more than processors, and the next
// grid does not begin before the last of them has. For the 128 threads of `group`; `counter` is zero, and is left so.
static __device__ __forceinline__ void meet(unsigned* counter, int splits, int group) {
    __threadfence();
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    if ((threadIdx.x & 127) == 0) {
        atomicAdd(counter, 1);
        while (*reinterpret_cast<volatile unsigned*>(counter) < (unsigned)splits) __nanosleep(32);
        __threadfence();
    }
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
}
static __device__ __forceinline__ void part(unsigned* counter, int splits, int group) {
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    if ((threadIdx.x & 127) == 0 && atomicAdd(counter, 1) == 2 * splits - 1) *counter = 0;
}

// ends[e]: the tiles of experts 0 to e together.
template <int TOKENS>
static __device__ __forceinline__ void count_expert_tiles(const MatmulTask& p, int* ends) {
    if (threadIdx.x >= 32) return;
    int before = 0;
    for (int e = threadIdx.x; e < (p.experts + 31) / 32 * 32; e += 32) {
        int v = e < p.experts ? (p.starts[e + 1] - p.starts[e] + TOKENS - 1) / TOKENS : 0;
#pragma unroll
        for (int o = 1; o < 32; o <<= 1) {
            const int other = __shfl_up_sync(~0u, v, o);
            if (threadIdx.x >= o) v += other;
        }
        if (e < p.experts) ends[e] = before + v;
        before += __shfl_sync(~0u, v, 31);
    }
}

// Writes a warp's part of a tile: sums[m][4 j + 2 h + i] is row lane / 4 + 8 h of sixteen, token `token0` + 8 j + 2 (lane % 4) + i. The sixteen begin at
// `row0`, and for the second m half_rows later, or are the second matrix of a pair.
// Of several blocks that share a tile, this one writes every `shares`-th sixteen tokens, from `share` on.
template <int TOKENS, bool PAIR>
static __device__ __forceinline__ void write_tile(const MatmulTask& p, int row0, int half_rows, int token0, int token_end, float (&sums)[2][TOKENS / 2], int share = 0, int shares = 1) {
    const int lane = threadIdx.x & 31, odd = lane >> 2 & 1;
    Joined at = {p.to, 0, p.to_stride};
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (!PAIR && p.joined[i].to && row0 >= p.joined[i].first) at = p.joined[i];
#pragma unroll
    for (int m = 0; m < (PAIR ? 1 : 2); m++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = row0 + m * half_rows + lane / 4 + 8 * h;
            const bool live = row < p.rows;
            const float bias = live && p.bias ? p.bias[row] : 0.0f, up_bias = PAIR && live && p.up_bias ? p.up_bias[row] : 0.0f;
#pragma unroll
            for (int j0 = 0; j0 < TOKENS / 8; j0 += 2) {
                if (shares > 1 && j0 / 2 % shares != share) continue;
                float y[4];
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    const int at = 4 * (j0 + n / 2) + 2 * h + n % 2;
                    y[n] = sums[m][at] + bias;
                    if (PAIR) y[n] = gated(p.curve, p.gate_scale * y[n], sums[1][at] + up_bias);
                }
                if (p.halves) {
                    // Neighbouring rows trade tokens, so that a store holds two rows of one.
#pragma unroll
                    for (int n = 0; n < 4; n += 2) {
                        const float other = __shfl_xor_sync(~0u, odd ? y[n] : y[n + 1], 4);
                        const int token = token0 + 8 * (j0 + n / 2) + 2 * (lane % 4) + odd;
                        const u32 two = odd ? pack_bf16(other, y[n + 1]) : pack_bf16(y[n], other);
                        const size_t place = (size_t)token * p.to_stride + (row & ~1);
                        if (token >= token_end || (row & ~1) >= p.rows) continue;
                        if ((row | 1) < p.rows && (p.to_stride & 1) == 0) *reinterpret_cast<u32*>(p.halves + place) = two;
                        else {
                            p.halves[place] = (u16)two;
                            if ((row | 1) < p.rows) p.halves[place + 1] = (u16)(two >> 16);
                        }
                    }
                }
                if (at.to && live) {
                    float* to[4];
                    float before[4];
#pragma unroll
                    for (int n = 0; n < 4; n++) {
                        const int token = token0 + 8 * (j0 + n / 2) + 2 * (lane % 4) + n % 2;
                        to[n] = token < token_end ? at.to + (size_t)token * at.stride + row - at.first : nullptr;
                        before[n] = p.add && to[n] ? *to[n] : 0.0f;
                    }
#pragma unroll
                    for (int n = 0; n < 4; n++)
                        if (to[n]) *to[n] = p.add ? before[n] + p.scale * y[n] : y[n];
                }
            }
        }
    }
}
