// The wide product on Hopper: to (tokens, rows) = x (tokens, columns) weight (rows, columns)^T, bf16 operands, f32 sums. The body of the kernels in
// matmul_sm90.cu.
//
// A block makes 128 output rows for TOKENS tokens, or 64 of a gated pair: a producer warp copies tiles of 64 columns by tensor copies into a ring in
// shared memory; two consumer warpgroups take whole tiles in turn, so that one multiplies while the other writes. Blocks stay and take one tile
// after the other, tokens before rows, so that those at work at a time share what they read in the L2.
#pragma once
#include "hopper.cuh"
#include "matmul.cuh"

struct MatmulMaps {
    TensorMap x;       // bf16 (tokens, columns), box (64, TOKENS), 128-byte swizzle
    TensorMap weight;  // bf16 (rows, columns), or (experts * rows, columns); box (64, 64), 128-byte swizzle
    TensorMap up;      // the second matrix of a gated pair, like `weight`
};
struct Matmul : MatmulMaps, MatmulTask {};

template <int TOKENS> struct Stage {
    static constexpr int WEIGHT_BYTES = 128 * TILE_COLUMNS * 2, X_BYTES = TOKENS * TILE_COLUMNS * 2;
};

// The sums of all blocks that share a tile's columns, in the order of their parts: of every `splits`-th sixteen tokens, from the block's own number on.
template <int TOKENS>
static __device__ __forceinline__ void add_splits(const MatmulTask& p, const Tile& t, int group, float (&sums)[2][TOKENS / 2]) {
    float4* base = reinterpret_cast<float4*>(p.partials) + (size_t)t.index * p.splits * 32 * TOKENS + (threadIdx.x & 127);
#pragma unroll
    for (int i = 0; i < TOKENS / 4; i++) {
        const float* four = &sums[i / (TOKENS / 8)][i % (TOKENS / 8) * 4];
        __stcg(base + (t.split * (TOKENS / 4) + i) * 128, make_float4(four[0], four[1], four[2], four[3]));
    }
    meet(p.counters + t.index, p.splits, group);
#pragma unroll
    for (int i = 0; i < TOKENS / 4; i++) {
        if (i % (TOKENS / 8) / 2 % p.splits != t.split) continue;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
        for (int s = 0; s < p.splits; s++) {
            const float4 v = __ldcg(base + (s * (TOKENS / 4) + i) * 128);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        float* four = &sums[i / (TOKENS / 8)][i % (TOKENS / 8) * 4];
        four[0] = sum.x, four[1] = sum.y, four[2] = sum.z, four[3] = sum.w;
    }
    part(p.counters + t.index, p.splits, group);
}

// A step's weights of a tile.
template <int TOKENS, bool PAIR>
static __device__ __forceinline__ void load_weights(const Matmul& p, u8* to, u64* full, int step, int row) {
    tensor_load(to, &p.weight, full, step * TILE_COLUMNS, row);
    tensor_load(to + Stage<TOKENS>::WEIGHT_BYTES / 2, PAIR ? &p.up : &p.weight, full, step * TILE_COLUMNS, row + (PAIR ? 0 : 64));
}

template <int TOKENS, int STAGES, bool PAIR, bool GROUPED>
static __device__ __forceinline__ void matmul_sm90(const Matmul& p) {
    constexpr int WEIGHT_BYTES = Stage<TOKENS>::WEIGHT_BYTES, X_BYTES = Stage<TOKENS>::X_BYTES;
    extern __shared__ u8 memory[];
    __shared__ u64 full[STAGES], empty[STAGES];
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
    // Weights that were there before the step: as many of the first tile's as the ring has room for.
    int ahead = 0;
    if (!GROUPED && p.stored) {
        __syncthreads();
        if (threadIdx.x == 0 && (int)blockIdx.x < count_tiles<TOKENS, PAIR, GROUPED>(p, ends)) {
            const Tile t = find_tile<TOKENS, PAIR, GROUPED>(p, ends, blockIdx.x);
            for (; ahead < min(STAGES, t.last_step - t.first_step); ahead++) {
                barrier_expect(full + ahead, WEIGHT_BYTES + X_BYTES);
                load_weights<TOKENS, PAIR>(p, ring + ahead * WEIGHT_BYTES, full + ahead, t.first_step + ahead, t.weight_row);
            }
        }
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
                    if (ahead > 0) {
                        ahead--;
                    } else {
                        barrier_wait(empty + stage, parity ^ 1);
                        barrier_expect(full + stage, WEIGHT_BYTES + X_BYTES);
                        load_weights<TOKENS, PAIR>(p, ring + stage * WEIGHT_BYTES, full + stage, step, t.weight_row);
                    }
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
            // Behind the last tile's copies, and not before: a barrier's parity tells neighbouring rounds of the ring apart, no more.
            if (number != (int)blockIdx.x) asm volatile("bar.sync %0, 256;" ::"r"(5 - group) : "memory");
            u64* before = nullptr;
#pragma unroll 1
            for (int step = t.first_step; step < t.last_step; step++) {
                barrier_wait(full + stage, parity);
                if (step + 1 == t.last_step && number + (int)gridDim.x < tiles) asm volatile("bar.arrive %0, 256;" ::"r"(2 + group) : "memory");
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
            if (p.splits > 1) add_splits<TOKENS>(p, t, group, sums);
            write_tile<TOKENS, PAIR>(p, t.row + (threadIdx.x >> 5 & 3) * 16, 64, t.token, t.token_end, sums, t.split, p.splits);
        }
    }
}
