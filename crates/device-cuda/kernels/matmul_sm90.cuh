// The wide product on Hopper: to (tokens, rows) = x (tokens, columns) weight (rows, columns)^T, bf16 operands, f32 sums. The body of the kernels in
// matmul_sm90.cu.
//
// A block makes 128 output rows for TOKENS tokens, or 64 of a gated pair: a producer warp copies tiles of 64 columns by tensor copies into a ring in
// shared memory; two consumer warpgroups take whole tiles in turn, so that one multiplies while the other writes. Blocks stay and take one tile
// after the other, tokens before rows, so that those at work at a time share what they read in the L2.
#pragma once
#include "hopper.cuh"

static constexpr int TILE_COLUMNS = 64;

// The activations that gated pairs know here, in one formula without a branch: x = min(gate, limit); x * sigmoid(x * (linear + cubic * x * x)) *
// (clamp(up, -up_limit, up_limit) + up_add). Silu: 1, 0, inf, inf, 0. GeluTanh: 1.5957691, 0.0713548, inf, inf, 0. SiluCut: steepness, 0, limit,
// limit, 1. A switch over all activations, unrolled over a tile, would be 200 KB of instructions; the others go through gate_rows.
struct Curve { float linear, cubic, limit, up_limit, up_add; };
static __device__ __forceinline__ float gated(const Curve& c, float gate, float up) {
    const float x = fminf(gate, c.limit);
    return __fdividef(x, 1.0f + __expf(fminf(-x * (c.linear + c.cubic * x * x), 80.0f))) * (fminf(fmaxf(up, -c.up_limit), c.up_limit) + c.up_add);
}

struct Matmul {
    TensorMap x;           // bf16 (tokens, columns), box (64, TOKENS), 128-byte swizzle
    TensorMap weight;      // bf16 (rows, columns), or (experts * rows, columns); box (64, 64), 128-byte swizzle
    TensorMap up;          // the second matrix of a gated pair, like `weight`
    const float* bias;     // (rows), or null
    const float* up_bias;  // (rows), or null
    float* to;             // (tokens, to_stride), or null
    u16* halves;           // bf16 (tokens, to_stride): what gated pairs write; or null
    const int* starts;     // grouped: (experts + 1): the first row of x of each expert, ascending
    float* partials;       // splits > 1: (tiles, splits, 128 * TOKENS) 16-byte aligned, to work in
    unsigned* counters;    // splits > 1: (tiles) zeros, left zeros
    int rows, tokens, columns, to_stride, experts, splits;
    int add;               // 0: to = y. 1: to += scale * y
    float scale;
    Curve curve;           // of gated pairs
    float gate_scale;
};

template <int TOKENS> struct Stage {
    static constexpr int WEIGHT_BYTES = 128 * TILE_COLUMNS * 2, X_BYTES = TOKENS * TILE_COLUMNS * 2;
};

// Where a tile lies.
struct Tile { int row, token, token_end, weight_row, split, index, first_step, last_step; };

template <int TOKENS, bool PAIR, bool GROUPED>
static __device__ __forceinline__ int count_tiles(const Matmul& p, const int* ends) {
    constexpr int ROWS = PAIR ? 64 : 128;
    return (p.rows + ROWS - 1) / ROWS * (GROUPED ? ends[p.experts - 1] : (p.tokens + TOKENS - 1) / TOKENS) * p.splits;
}
template <int TOKENS, bool PAIR, bool GROUPED>
static __device__ __forceinline__ Tile find_tile(const Matmul& p, const int* ends, int number) {
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

// Writes a warpgroup's tile: sums[m][4 j + 2 h + i] is row lane / 4 + 8 h of the warp's sixteen of half m, token 8 j + 2 (lane % 4) + i.
template <int TOKENS, bool PAIR>
static __device__ __forceinline__ void write_tile(const Matmul& p, const Tile& t, float (&sums)[2][TOKENS / 2]) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, odd = lane >> 2 & 1;
#pragma unroll
    for (int m = 0; m < (PAIR ? 1 : 2); m++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = t.row + m * 64 + warp * 16 + lane / 4 + 8 * h;
            const bool live = row < p.rows;
            const float bias = live && p.bias ? p.bias[row] : 0.0f, up_bias = PAIR && live && p.up_bias ? p.up_bias[row] : 0.0f;
#pragma unroll
            for (int j0 = 0; j0 < TOKENS / 8; j0 += 2) {
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
                        const int token = t.token + 8 * (j0 + n / 2) + 2 * (lane % 4) + odd;
                        const u32 two = odd ? pack_bf16(other, y[n + 1]) : pack_bf16(y[n], other);
                        const size_t at = (size_t)token * p.to_stride + (row & ~1);
                        if (token >= t.token_end || (row & ~1) >= p.rows) continue;
                        if ((row | 1) < p.rows && (p.to_stride & 1) == 0) *reinterpret_cast<u32*>(p.halves + at) = two;
                        else {
                            p.halves[at] = (u16)two;
                            if ((row | 1) < p.rows) p.halves[at + 1] = (u16)(two >> 16);
                        }
                    }
                }
                if (p.to && live) {
                    float* to[4];
                    float before[4];
#pragma unroll
                    for (int n = 0; n < 4; n++) {
                        const int token = t.token + 8 * (j0 + n / 2) + 2 * (lane % 4) + n % 2;
                        to[n] = token < t.token_end ? p.to + (size_t)token * p.to_stride + row : nullptr;
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

// Of several blocks that share a tile's columns the last to come adds up all parts, in their order. True for that one.
template <int TOKENS>
static __device__ __forceinline__ bool add_splits(const Matmul& p, const Tile& t, int group, unsigned* arrived, float (&sums)[2][TOKENS / 2]) {
    const int slot = threadIdx.x & 127;
    float4* base = reinterpret_cast<float4*>(p.partials) + (size_t)t.index * p.splits * 32 * TOKENS + slot;
#pragma unroll
    for (int i = 0; i < TOKENS / 4; i++) {
        const float* four = &sums[i / (TOKENS / 8)][i % (TOKENS / 8) * 4];
        __stcg(base + (t.split * (TOKENS / 4) + i) * 128, make_float4(four[0], four[1], four[2], four[3]));
    }
    __threadfence();
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    if (slot == 0) *arrived = atomicAdd(p.counters + t.index, 1);
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    if (*arrived != p.splits - 1) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < TOKENS / 2; i++) sums[0][i] = sums[1][i] = 0;
    for (int s = 0; s < p.splits; s++) {
#pragma unroll
        for (int i = 0; i < TOKENS / 4; i++) {
            const float4 v = __ldcg(base + (s * (TOKENS / 4) + i) * 128);
            float* four = &sums[i / (TOKENS / 8)][i % (TOKENS / 8) * 4];
            four[0] += v.x, four[1] += v.y, four[2] += v.z, four[3] += v.w;
        }
    }
    if (slot == 0) p.counters[t.index] = 0;
    return true;
}

// ends[e]: the tiles of experts 0 to e together.
template <int TOKENS>
static __device__ __forceinline__ void count_expert_tiles(const Matmul& p, int* ends) {
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

template <int TOKENS, int STAGES, bool PAIR, bool GROUPED>
static __device__ __forceinline__ void matmul_sm90(const Matmul& p) {
    constexpr int WEIGHT_BYTES = Stage<TOKENS>::WEIGHT_BYTES, X_BYTES = Stage<TOKENS>::X_BYTES;
    extern __shared__ u8 memory[];
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ unsigned arrived[2];
    __shared__ int ends[GROUPED ? 512 : 1];
    u8* ring = memory + (1024 - (shared_address(memory) & 1023) & 1023);
    u8* x_ring = ring + STAGES * WEIGHT_BYTES;
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    release_next_grid();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(full + s, 1), barrier_init(empty + s, 4);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        prefetch_map(&p.x), prefetch_map(&p.weight);
        if (PAIR) prefetch_map(&p.up);
    }
    wait_for_previous_grid();
    if (GROUPED) count_expert_tiles<TOKENS>(p, ends);
    __syncthreads();
    const int tiles = count_tiles<TOKENS, PAIR, GROUPED>(p, ends);
    int stage = 0;
    u32 parity = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            // What ordinary stores of the grid before wrote is read by the copy engine.
            asm volatile("fence.proxy.async.global;" ::: "memory");
            for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
                const Tile t = find_tile<TOKENS, PAIR, GROUPED>(p, ends, number);
#pragma unroll 1
                for (int step = t.first_step; step < t.last_step; step++) {
                    barrier_wait(empty + stage, parity ^ 1);
                    barrier_expect(full + stage, WEIGHT_BYTES + X_BYTES);
                    u8* weight = ring + stage * WEIGHT_BYTES;
                    tensor_load(weight, &p.weight, full + stage, step * TILE_COLUMNS, t.weight_row);
                    tensor_load(weight + WEIGHT_BYTES / 2, PAIR ? &p.up : &p.weight, full + stage, step * TILE_COLUMNS, t.weight_row + (PAIR ? 0 : 64));
                    tensor_load(x_ring + stage * X_BYTES, &p.x, full + stage, step * TILE_COLUMNS, t.token);
                    if (++stage == STAGES) stage = 0, parity ^= 1;
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        // Every second tile is the other warpgroup's: its stages are passed over.
        const auto pass_over = [&](int number) {
            const int split = number % p.splits, steps = (p.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
            stage += steps * (split + 1) / p.splits - steps * split / p.splits;
            parity ^= stage / STAGES & 1, stage %= STAGES;
        };
        if (group == 2) pass_over(blockIdx.x);
        for (int number = blockIdx.x + (group - 1) * gridDim.x; number < tiles; pass_over(number + gridDim.x), number += 2 * gridDim.x) {
            const Tile t = find_tile<TOKENS, PAIR, GROUPED>(p, ends, number);
            float sums[2][TOKENS / 2];
#pragma unroll
            for (int i = 0; i < TOKENS / 2; i++) sums[0][i] = sums[1][i] = 0;
            u64* before = nullptr;
#pragma unroll 1
            for (int step = t.first_step; step < t.last_step; step++) {
                barrier_wait(full + stage, parity);
                const u64 weight = matrix_descriptor(ring + stage * WEIGHT_BYTES), x = matrix_descriptor(x_ring + stage * X_BYTES);
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    wgmma(sums[0], weight + 2 * k, x + 2 * k);
                    wgmma(sums[1], weight + (WEIGHT_BYTES / 2 >> 4) + 2 * k, x + 2 * k);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (before && threadIdx.x % 32 == 0) barrier_arrive(before);
                before = empty + stage;
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
            wgmma_wait<0>();
            if (before && threadIdx.x % 32 == 0) barrier_arrive(before);
            if constexpr (TOKENS < 128)
                if (p.splits > 1 && !add_splits<TOKENS>(p, t, group, arrived + group - 1, sums)) continue;
            write_tile<TOKENS, PAIR>(p, t, sums);
        }
    }
}
