// The wide product on Hopper: to (tokens, rows) = x (tokens, columns) weight (rows, columns)^T, bf16 operands, f32 sums. The body of the kernels in
// matmul_sm90.cu.
//
// A block makes 128 output rows for TOKENS tokens: a producer warp copies tiles of 64 columns by tensor copies into a ring in shared memory, two
// consumer warpgroups multiply 64 rows each. A pair of blocks (CLUSTER 2) shares its tokens: each copies half of them to both. Blocks stay and take
// one tile after the other, tokens before rows, so that those at work at a time share what they read in the L2.
#pragma once
#include "hopper.cuh"

static constexpr int TILE_ROWS = 128, TILE_COLUMNS = 64;

// The activations that gated pairs know here, in one formula without a branch: x = min(gate, limit); x * sigmoid(x * (linear + cubic * x * x)) *
// (clamp(up, -up_limit, up_limit) + up_add). Silu: 1, 0, inf, inf, 0. GeluTanh: 1.5957691, 0.0713548, inf, inf, 0. SiluCut: steepness, 0, limit,
// limit, 1. A switch over all activations, unrolled over a tile, would be 200 KB of instructions; the others go through gate_rows.
struct Curve { float linear, cubic, limit, up_limit, up_add; };
static __device__ __forceinline__ float gated(const Curve& c, float gate, float up) {
    const float x = fminf(gate, c.limit);
    return x / (1.0f + __expf(-x * (c.linear + c.cubic * x * x))) * (fminf(fmaxf(up, -c.up_limit), c.up_limit) + c.up_add);
}

struct Matmul {
    TensorMap x;           // bf16 (tokens, columns), box (64, TOKENS / CLUSTER), 128-byte swizzle
    TensorMap weight;      // bf16 (rows, columns), or (experts * rows, columns); box (64, 128), 128-byte swizzle
    TensorMap up;          // the second matrix of a gated pair, like `weight`
    const float* bias;     // (rows), or null
    const float* up_bias;  // (rows), or null
    float* to;             // (tokens, to_stride), or null
    u16* halves;           // bf16 (tokens, to_stride): what gated pairs write; or null
    const int* starts;     // grouped: (experts + 1): the first row of x of each expert, ascending
    float* partials;       // splits > 1: (tiles, splits, 128 * TOKENS) memory to work in
    unsigned* counters;    // splits > 1: (tiles) zeros, left zeros
    int rows, tokens, columns, to_stride, experts, splits;
    int add;               // 0: to = y. 1: to += scale * y
    float scale;
    Curve curve;           // of gated pairs
    float gate_scale;
};

template <int TOKENS, int STAGES, bool PAIR>
struct MatmulShared {
    static constexpr int WEIGHT_BYTES = TILE_ROWS * TILE_COLUMNS * 2 * (PAIR ? 2 : 1), X_BYTES = TOKENS * TILE_COLUMNS * 2;
    static constexpr int BYTES = STAGES * (WEIGHT_BYTES + X_BYTES) + 1024;
};

// Where a tile lies.
struct Tile { int row, token, token_end, weight_row, split, index, first_step, last_step; };

template <int TOKENS, int CLUSTER, bool GROUPED>
static __device__ __forceinline__ int count_tiles(const Matmul& p, const int* ends) {
    const int row_tiles = (p.rows + TILE_ROWS * CLUSTER - 1) / (TILE_ROWS * CLUSTER);
    return row_tiles * (GROUPED ? ends[p.experts - 1] : (p.tokens + TOKENS - 1) / TOKENS) * p.splits;
}
template <int TOKENS, int CLUSTER, bool GROUPED>
static __device__ __forceinline__ Tile find_tile(const Matmul& p, const int* ends, int number, u32 rank) {
    Tile t;
    const int steps = (p.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
    t.split = number % p.splits, t.index = number / p.splits;
    t.first_step = steps * t.split / p.splits, t.last_step = steps * (t.split + 1) / p.splits;
    if (GROUPED) {
        const int row_tiles = (p.rows + TILE_ROWS * CLUSTER - 1) / (TILE_ROWS * CLUSTER), which = t.index / row_tiles;
        int low = 0, high = p.experts - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (ends[middle] > which) high = middle; else low = middle + 1;
        }
        t.row = (t.index % row_tiles * CLUSTER + rank) * TILE_ROWS;
        t.token = p.starts[low] + (which - (low ? ends[low - 1] : 0)) * TOKENS, t.token_end = p.starts[low + 1];
        t.weight_row = low * p.rows + t.row;
    } else {
        const int token_tiles = (p.tokens + TOKENS - 1) / TOKENS;
        t.row = t.weight_row = (t.index / token_tiles * CLUSTER + rank) * TILE_ROWS;
        t.token = t.index % token_tiles * TOKENS, t.token_end = p.tokens;
    }
    return t;
}

// Writes this warpgroup's part of a tile: sums[4 j + 2 h + i] is row lane / 4 + 8 h of the warp's sixteen, token 8 j + 2 (lane % 4) + i.
template <int TOKENS, bool PAIR>
static __device__ __forceinline__ void write_tile(const Matmul& p, const Tile& t, int group, float (&sums)[TOKENS / 2], float (&up)[PAIR ? TOKENS / 2 : 1]) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = t.row + group * 64 + warp * 16 + lane / 4 + 8 * h;
        if (row >= p.rows) continue;
        const float bias = p.bias ? p.bias[row] : 0.0f, up_bias = PAIR && p.up_bias ? p.up_bias[row] : 0.0f;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int token = t.token + 8 * j + 2 * (lane % 4) + i;
                if (token >= t.token_end) continue;
                float y = sums[4 * j + 2 * h + i] + bias;
                if (PAIR) y = gated(p.curve, p.gate_scale * y, up[4 * j + 2 * h + i] + up_bias);
                const size_t at = (size_t)token * p.to_stride + row;
                if (p.halves) p.halves[at] = (u16)pack_bf16(y, y);
                if (p.to) p.to[at] = p.add ? p.to[at] + p.scale * y : y;
            }
        }
    }
}

// Of several blocks that share a tile's columns the last to come adds up all parts, in their order. True for that one.
template <int COUNT>
static __device__ __forceinline__ bool add_splits(const Matmul& p, const Tile& t, int slot, int slots, float (&sums)[COUNT]) {
    __shared__ unsigned arrived;
    float* base = p.partials + (size_t)t.index * p.splits * slots * COUNT + slot;
#pragma unroll
    for (int i = 0; i < COUNT; i++) __stcg(base + ((size_t)t.split * COUNT + i) * slots, sums[i]);
    __threadfence();
    asm volatile("bar.sync 1, 256;" ::: "memory");
    if (slot == 0) arrived = atomicAdd(p.counters + t.index, 1);
    asm volatile("bar.sync 1, 256;" ::: "memory");
    if (arrived != p.splits - 1) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < COUNT; i++) sums[i] = 0;
    for (int s = 0; s < p.splits; s++) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) sums[i] += __ldcg(base + ((size_t)s * COUNT + i) * slots);
    }
    if (slot == 0) p.counters[t.index] = 0;
    return true;
}

template <int TOKENS, int STAGES, int CLUSTER, bool PAIR, bool GROUPED>
static __device__ __forceinline__ void matmul_sm90(const Matmul& p) {
    typedef MatmulShared<TOKENS, STAGES, PAIR> Shared;
    extern __shared__ u8 memory[];
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ int ends[GROUPED ? 512 : 1];
    u8* ring = memory + (1024 - (shared_address(memory) & 1023) & 1023);
    u8* x_ring = ring + STAGES * Shared::WEIGHT_BYTES;
    const int group = threadIdx.x / 128;
    const u32 rank = CLUSTER > 1 ? cluster_rank() : 0;
    release_next_grid();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(full + s, 1), barrier_init(empty + s, 8 * CLUSTER);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        prefetch_map(&p.x), prefetch_map(&p.weight);
    }
    wait_for_previous_grid();
    if (GROUPED) {
        // The tiles of experts 0 to e together.
        for (int e = threadIdx.x; e < p.experts; e += blockDim.x) ends[e] = (p.starts[e + 1] - p.starts[e] + TOKENS - 1) / TOKENS;
        __syncthreads();
        if (threadIdx.x < 32) {
            int before = 0;
            for (int e = threadIdx.x; e < (p.experts + 31) / 32 * 32; e += 32) {
                int v = e < p.experts ? ends[e] : 0;
#pragma unroll
                for (int o = 1; o < 32; o <<= 1) { const int other = __shfl_up_sync(~0u, v, o); if (threadIdx.x >= o) v += other; }
                if (e < p.experts) ends[e] = before + v;
                before += __shfl_sync(~0u, v, 31);
            }
        }
    }
    if (CLUSTER > 1) cluster_sync(); else __syncthreads();
    const int tiles = count_tiles<TOKENS, CLUSTER, GROUPED>(p, ends);
    int stage = 0;
    u32 parity = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            // What ordinary stores of the grid before wrote is read by the copy engine.
            asm volatile("fence.proxy.async.global;" ::: "memory");
            for (int number = blockIdx.x / CLUSTER; number < tiles; number += gridDim.x / CLUSTER) {
                const Tile t = find_tile<TOKENS, CLUSTER, GROUPED>(p, ends, number, rank);
                for (int step = t.first_step; step < t.last_step; step++) {
                    barrier_wait(empty + stage, parity ^ 1);
                    barrier_expect(full + stage, Shared::WEIGHT_BYTES + Shared::X_BYTES);
                    u8* weight = ring + stage * Shared::WEIGHT_BYTES;
                    u8* x = x_ring + stage * Shared::X_BYTES;
                    tensor_load(weight, &p.weight, full + stage, step * TILE_COLUMNS, t.weight_row);
                    if (PAIR) tensor_load(weight + Shared::WEIGHT_BYTES / 2, &p.up, full + stage, step * TILE_COLUMNS, t.weight_row);
                    if (CLUSTER > 1) tensor_load_both(x + rank * (Shared::X_BYTES / 2), &p.x, full + stage, step * TILE_COLUMNS, t.token + rank * (TOKENS / 2));
                    else tensor_load(x, &p.x, full + stage, step * TILE_COLUMNS, t.token);
                    if (++stage == STAGES) stage = 0, parity ^= 1;
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const bool signals = threadIdx.x % 32 == 0;
        auto release = [&](int which) {
            if (!signals) return;
            if (CLUSTER > 1) barrier_arrive_at(empty + which, 0), barrier_arrive_at(empty + which, 1);
            else barrier_arrive(empty + which);
        };
        for (int number = blockIdx.x / CLUSTER; number < tiles; number += gridDim.x / CLUSTER) {
            const Tile t = find_tile<TOKENS, CLUSTER, GROUPED>(p, ends, number, rank);
            float sums[TOKENS / 2], up[PAIR ? TOKENS / 2 : 1];
#pragma unroll
            for (int i = 0; i < TOKENS / 2; i++) sums[i] = 0;
            if constexpr (PAIR)
#pragma unroll
                for (int i = 0; i < TOKENS / 2; i++) up[i] = 0;
            int before = -1;
            for (int step = t.first_step; step < t.last_step; step++) {
                barrier_wait(full + stage, parity);
                const u64 weight = matrix_descriptor(ring + stage * Shared::WEIGHT_BYTES + (group - 1) * 64 * 128);
                const u64 x = matrix_descriptor(x_ring + stage * Shared::X_BYTES);
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    wgmma(sums, weight + 2 * k, x + 2 * k);
                    if constexpr (PAIR) wgmma(up, weight + (TILE_ROWS * 128 >> 4) + 2 * k, x + 2 * k);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (before >= 0) release(before);
                before = stage;
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
            wgmma_wait<0>();
            if (before >= 0) release(before);
            if (p.splits > 1) {
                const int slot = threadIdx.x - 128;
                if constexpr (PAIR) {
                    float both[TOKENS];
#pragma unroll
                    for (int i = 0; i < TOKENS / 2; i++) both[i] = sums[i], both[TOKENS / 2 + i] = up[i];
                    if (!add_splits(p, t, slot, 256, both)) continue;
#pragma unroll
                    for (int i = 0; i < TOKENS / 2; i++) sums[i] = both[i], up[i] = both[TOKENS / 2 + i];
                } else if (!add_splits(p, t, slot, 256, sums)) continue;
            }
            write_tile<TOKENS, PAIR>(p, t, group - 1, sums, up);
        }
    }
    // The other block may still signal here.
    if (CLUSTER > 1) cluster_sync();
}
