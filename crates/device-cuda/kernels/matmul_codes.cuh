// The wide product on Hopper with weights as they are stored: to (tokens, rows) = x (tokens, columns) weight (rows, columns)^T for 9 to some hundred
// tokens, where making bf16 weights first would move more bytes than the product itself. The body of the kernels in matmul_codes.cu.
//
// A block makes 128 output rows for TOKENS tokens, or 64 of a gated pair. Two producer threads copy by tensor copies into two rings in shared memory:
// stored blocks of 256 columns, and tiles of 64 columns of x. Two consumer warpgroups have 64 rows each; a thread turns the stored values of its two
// rows into bf16 where the product wants its left operand, in registers, while the product of the 64 columns before is under way. Of a gated pair the
// two rows of a thread are the gate's and the other matrix's.
#pragma once
#include "hopper.cuh"
#include "matmul.cuh"

static constexpr int SUPER = 256;  // columns of a stored block

struct CodesMaps {
    TensorMap x;           // bf16 (tokens, columns), box (64, TOKENS), 128-byte swizzle
    TensorMap weight[3];   // bytes (matrices, rows, bytes of a row), box (those of 256 columns, 64, 1): of each plane, in Stored's order
    TensorMap up[3];       // the second matrix of a gated pair
    const u8* scales[2];   // of types whose scales of blocks are a plane: where that of each begins, and the next matrix's so many bytes behind
    size_t stride;
};
struct MatmulCodes : CodesMaps, MatmulTask {};

// Two stored values, as integers at bit PLACE and eight bits above of `low` and `high`, to bf16: scale * value - shift[PLACE].
// A float whose exponent makes bit PLACE of it count one is 2^(23 - PLACE) and the value: what is too much goes with the shift.
template <int PLACE> static __device__ __forceinline__ float counted(u32 bits) { return __uint_as_float(bits | (u32)(127 + 23 - PLACE) << 23); }
template <int PLACE> static __device__ __forceinline__ float excess() { return (float)(1 << (23 - PLACE)); }

// Q4_K as it lies in a file: 144 bytes a row of 256 columns.
struct StoredQ4K {
    static constexpr int BYTES = 64 * 144, PLANES = 1;  // of 64 rows
    struct Row { float scale[8], shift[8]; };
    static __device__ __forceinline__ void load(u8* to, const TensorMap* maps, u64* bar, int super, int row, int matrix) { tensor_load(to, maps, bar, super * 144, row, matrix); }
    static __device__ __forceinline__ void begin(const u8*, const u8* tile, int row, size_t, Row& r) {
        const uint4 header = *reinterpret_cast<const uint4*>(tile + row * 144);
        const float d = half_to_float(header.x & 0xffff), m = half_to_float(header.x >> 16);
        const u32 scales[2] = {header.y & 0x3f3f3f3f, (header.w & 0x0f0f0f0f) | (header.y >> 2 & 0x30303030)};
        const u32 minimums[2] = {header.z & 0x3f3f3f3f, (header.w >> 4 & 0x0f0f0f0f) | (header.z >> 2 & 0x30303030)};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int turn = i % 4;
            r.scale[i] = d * (counted<0>(__byte_perm(scales[i / 4], 0, 0x4440 | turn)) - excess<0>());
            r.shift[i] = m * (counted<0>(__byte_perm(minimums[i / 4], 0, 0x4440 | turn)) - excess<0>());
            // Low nibbles are unpacked at bit 8, high ones at bit 12.
            r.shift[i] += r.scale[i] * (i % 2 ? excess<12>() : excess<8>());
        }
    }
    // The left operand's registers of one row for 64 columns: step s, half h at a[s][2 h].
    static __device__ __forceinline__ void unpack(const u8* tile, int row, int p, const Row& r, u32 (&a)[4][4], int which) {
        const u8* at = tile + row * 144 + 16 + 32 * p + 2 * (threadIdx.x & 3);
#pragma unroll
        for (int s = 0; s < 2; s++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const u32 two = *reinterpret_cast<const u16*>(at + 16 * s + 8 * h), up = two << 8;
                a[s][2 * h + which] = pack_bf16(counted<8>(up & 0x0f00) * r.scale[2 * p] - r.shift[2 * p], counted<8>(two & 0x0f00) * r.scale[2 * p] - r.shift[2 * p]);
                a[s + 2][2 * h + which] = pack_bf16(counted<12>(up & 0xf000) * r.scale[2 * p + 1] - r.shift[2 * p + 1], counted<12>(two & 0xf000) * r.scale[2 * p + 1] - r.shift[2 * p + 1]);
            }
        }
    }
};

// Q6_K in planes: low nibbles 128 bytes a row of 256 columns, high bits 64, sub-scales 16; the first two swizzled by the copy.
struct StoredQ6K {
    static constexpr int BYTES = 64 * (128 + 64 + 16), PLANES = 3;
    struct Row { float d; uint4 scales; };
    static __device__ __forceinline__ void load(u8* to, const TensorMap* maps, u64* bar, int super, int row, int matrix) {
        tensor_load(to, maps, bar, super * 128, row, matrix);
        tensor_load(to + 64 * 128, maps + 1, bar, super * 64, row, matrix);
        tensor_load(to + 64 * 192, maps + 2, bar, super * 16, row, matrix);
    }
    static __device__ __forceinline__ void begin(const u8* scales, const u8* tile, int row, size_t block, Row& r) {
        r.d = half_to_float(load_weight2(scales + block * 2));
        r.scales = *reinterpret_cast<const uint4*>(tile + 64 * 192 + row * 16);
    }
    static __device__ __forceinline__ void unpack(const u8* tile, int row, int p, const Row& r, u32 (&a)[4][4], int which) {
        // Columns 64 p to 64 p + 63: runs 2 (p % 2) and the next of half p / 2; a run is 32 columns.
        const int half = p / 2;
        const u8* low = tile + row * 128;
        const u8* high = tile + 64 * 128 + row * 64;
        const int turn = row & 7, high_turn = row >> 1 & 3, two = 2 * (threadIdx.x & 3);
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int run = 2 * (p % 2) + s / 2, sub = 8 * half + 2 * run + s % 2;
            const u32 words[4] = {r.scales.x, r.scales.y, r.scales.z, r.scales.w};
            const float scale = r.d * (float)(signed char)(words[sub / 4] >> (8 * (sub % 4)));
            const float shift = scale * (excess<8>() + 32.0f);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const u32 l = *reinterpret_cast<const u16*>(low + ((4 * half + 2 * (run % 2) + s % 2) ^ turn) * 16 + 8 * h + two);
                const u32 u = *reinterpret_cast<const u16*>(high + ((2 * half + s % 2) ^ high_turn) * 16 + 8 * h + two);
                const u32 nibbles = (run < 2 ? l : l >> 4) & 0x0f0f, bits = (2 * run < 4 ? u << (4 - 2 * run) : u >> (2 * run - 4)) & 0x3030, codes = nibbles | bits;
                a[s][2 * h + which] = pack_bf16(counted<8>(codes << 8 & 0x3f00) * scale - shift, counted<8>(codes & 0x3f00) * scale - shift);
            }
        }
    }
};

// The sums of all blocks that share a tile's columns, in the order of their parts: of every `splits`-th eight tokens, from the block's own number on.
template <int TOKENS>
static __device__ __forceinline__ void add_parts(const MatmulTask& p, const Tile& t, int group, float (&sums)[TOKENS / 2]) {
    const int tile = t.index * 2 + group - 1;
    float4* base = reinterpret_cast<float4*>(p.partials) + (size_t)tile * p.splits * 16 * TOKENS + (threadIdx.x & 127);
#pragma unroll
    for (int i = 0; i < TOKENS / 8; i++) __stcg(base + (t.split * (TOKENS / 8) + i) * 128, make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    meet(p.counters + tile, p.splits, group);
#pragma unroll
    for (int i = 0; i < TOKENS / 8; i++) {
        if (i % p.splits != t.split) continue;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
        for (int s = 0; s < p.splits; s++) {
            const float4 v = __ldcg(base + (s * (TOKENS / 8) + i) * 128);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        sums[4 * i] = sum.x, sums[4 * i + 1] = sum.y, sums[4 * i + 2] = sum.z, sums[4 * i + 3] = sum.w;
    }
    part(p.counters + tile, p.splits, group);
}

// Writes a warp's sixteen rows of a tile: sums[4 j + 2 h + i] is row lane / 4 + 8 h, token `token0` + 8 j + 2 (lane % 4) + i. Of a pair the second eight rows
// belong to the first. Of several blocks that share a tile, this one writes every `splits`-th eight tokens.
template <int TOKENS, bool PAIR>
static __device__ __forceinline__ void write_rows(const MatmulTask& p, int row0, int token0, int token_end, int split, float (&sums)[TOKENS / 2]) {
    const int lane = threadIdx.x & 31, odd = lane >> 2 & 1;
#pragma unroll
    for (int h = 0; h < (PAIR ? 1 : 2); h++) {
        const int row = row0 + lane / 4 + 8 * h;
        const bool live = row < p.rows;
        const float bias = live && p.bias ? p.bias[row] : 0.0f, up_bias = PAIR && live && p.up_bias ? p.up_bias[row] : 0.0f;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++) {
            if (p.splits > 1 && j % p.splits != split) continue;
            float y[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                y[i] = sums[4 * j + 2 * h + i] + bias;
                if (PAIR) y[i] = gated(p.curve, p.gate_scale * y[i], sums[4 * j + 2 + i] + up_bias);
            }
            const int token = token0 + 8 * j + 2 * (lane % 4);
            if (p.halves) {
                // Neighbouring rows trade tokens, so that a store holds two rows of one. Rows and strides are even.
                const float other = __shfl_xor_sync(~0u, odd ? y[0] : y[1], 4);
                const u32 two = odd ? pack_bf16(other, y[1]) : pack_bf16(y[0], other);
                if (token + odd < token_end && live) *reinterpret_cast<u32*>(p.halves + (size_t)(token + odd) * p.to_stride + (row & ~1)) = two;
            }
            if (p.to && live) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    if (token + i >= token_end) continue;
                    float* to = p.to + (size_t)(token + i) * p.to_stride + row;
                    *to = p.add ? *to + p.scale * y[i] : y[i];
                }
            }
        }
    }
}

template <class Q, int TOKENS, int STAGES, int X_STAGES, bool PAIR, bool GROUPED>
static __device__ __forceinline__ void matmul_codes(const MatmulCodes& p) {
    constexpr int BYTES = 2 * Q::BYTES, X_BYTES = TOKENS * TILE_COLUMNS * 2, CHUNKS = SUPER / TILE_COLUMNS;
    extern __shared__ u8 memory[];
    __shared__ u64 full[STAGES], empty[STAGES], x_full[X_STAGES], x_empty[X_STAGES];
    __shared__ int ends[GROUPED ? 512 : 1];
    u8* ring = memory + (1024 - (shared_address(memory) & 1023) & 1023);
    u8* x_ring = ring + STAGES * BYTES;
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), supers = p.columns / SUPER;
    release_next_grid();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(full + s, 1), barrier_init(empty + s, 8);
        for (int s = 0; s < X_STAGES; s++) barrier_init(x_full + s, 1), barrier_init(x_empty + s, 8);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        prefetch_map(&p.x), prefetch_map(p.weight);
        if (PAIR) prefetch_map(p.up);
    }
    // Who brings weights alone does not wait: they were there before.
    const bool brings_weights = threadIdx.x == 32;
    if (GROUPED || !brings_weights) wait_for_previous_grid();
    if (GROUPED) count_expert_tiles<TOKENS>(p, ends);
    __syncthreads();
    const int tiles = count_tiles<TOKENS, PAIR, GROUPED>(p, ends);
    int stage = 0, x_stage = 0;
    u32 parity = 0, x_parity = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        // What ordinary stores of the grid before wrote is read by the copy engine.
        if (threadIdx.x == 0) asm volatile("fence.proxy.async.global;" ::: "memory");
        if (threadIdx.x != 0 && !brings_weights) return;
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const Tile t = find_tile<TOKENS, PAIR, GROUPED>(p, ends, number);
            const int matrix = (t.weight_row - t.row) / p.rows;
#pragma unroll 1
            for (int super = supers * t.split / p.splits; super < supers * (t.split + 1) / p.splits; super++) {
                if (brings_weights) {
                    barrier_wait(empty + stage, parity ^ 1);
                    barrier_expect(full + stage, BYTES);
                    u8* to = ring + stage * BYTES;
                    Q::load(to, p.weight, full + stage, super, t.row, matrix);
                    Q::load(to + Q::BYTES, PAIR ? p.up : p.weight, full + stage, super, t.row + (PAIR ? 0 : 64), matrix);
                    if (++stage == STAGES) stage = 0, parity ^= 1;
                } else {
                    for (int c = 0; c < CHUNKS; c++) {
                        barrier_wait(x_empty + x_stage, x_parity ^ 1);
                        barrier_expect(x_full + x_stage, X_BYTES);
                        tensor_load(x_ring + x_stage * X_BYTES, &p.x, x_full + x_stage, super * SUPER + c * TILE_COLUMNS, t.token);
                        if (++x_stage == X_STAGES) x_stage = 0, x_parity ^= 1;
                    }
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    // The rows of this thread in the two halves of a stage.
    const int own = warp * 16 + lane / 4, pair_row = (group - 1) * 32 + warp * 8 + lane / 4;
    const int row[2] = {PAIR ? pair_row : own, PAIR ? pair_row : own + 8};
    const int half[2] = {PAIR ? 0 : group - 1, PAIR ? 1 : group - 1};
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile t = find_tile<TOKENS, PAIR, GROUPED>(p, ends, number);
        const int matrix = (t.weight_row - t.row) / p.rows, first = supers * t.split / p.splits, last = supers * (t.split + 1) / p.splits;
        float sums[TOKENS / 2];
#pragma unroll
        for (int i = 0; i < TOKENS / 2; i++) sums[i] = 0;
        u32 a[2][4][4];
        u64 *before = nullptr, *before_that = nullptr;
#pragma unroll 1
        for (int super = first; super < last; super++) {
            barrier_wait(full + stage, parity);
            const u8* tile = ring + stage * BYTES;
            typename Q::Row rows[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int out = min(t.row + row[r] + (PAIR ? 0 : 64 * half[r]), p.rows - 1);
                Q::begin(p.scales[PAIR && r] + matrix * p.stride, tile + half[r] * Q::BYTES, row[r], (size_t)out * supers + super, rows[r]);
            }
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                // Of the products that are under way all but the last are over: their operands may go.
                wgmma_wait<1>();
                if (before_that && lane == 0) barrier_arrive(before_that);
#pragma unroll
                for (int r = 0; r < 2; r++) Q::unpack(tile + half[r] * Q::BYTES, row[r], c, rows[r], a[c & 1], r);
                if (c == CHUNKS - 1) {
                    __syncwarp();
                    if (lane == 0) barrier_arrive(empty + stage);
                }
                barrier_wait(x_full + x_stage, x_parity);
                const u64 x = matrix_descriptor(x_ring + x_stage * X_BYTES);
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < 4; k++) wgmma(sums, a[c & 1][k], x + 2 * k);
                wgmma_commit();
                before_that = before, before = x_empty + x_stage;
                if (++x_stage == X_STAGES) x_stage = 0, x_parity ^= 1;
            }
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        wgmma_wait<0>();
        if (before_that && lane == 0) barrier_arrive(before_that);
        if (before && lane == 0) barrier_arrive(before);
        if (p.splits > 1) add_parts<TOKENS>(p, t, group, sums);
        const int row0 = t.row + (PAIR ? (group - 1) * 32 + warp * 8 : (group - 1) * 64 + warp * 16);
        write_rows<TOKENS, PAIR>(p, row0, t.token, t.token_end, t.split, sums);
    }
}
