// Matrix times one vector by blocks that stay: the bodies of the kernels in matvec_stream.cu.
//
// One block for each processor, or a few. A warp takes rows of the matrix in turn, and what its lanes read next is always on its way to a ring in
// shared memory, from before the previous grid has ended: weights do not wait for anybody. The row that all rows meet is turned by every block itself:
// normalised, rounded to codes, and kept in shared memory. An output is summed in the order of matvec.cuh.
#pragma once
#include "matvec.cuh"
#include "own_row.cuh"

static __device__ __forceinline__ u32 address_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bring16(const void* to, const void* from) { copy16_once(address_of(to), from); }
static __device__ __forceinline__ void bring4(const void* to, const void* from) { copy4_once(address_of(to), from); }
static __device__ __forceinline__ void end_of_step() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> static __device__ __forceinline__ void wait_for_step() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// The way of 32 units of a row, a lane's each, through shared memory; BYTES for a warp. `bring` starts the copies, all lanes together, of units `first` to
// `first` + 32 of which there are `units`; `take` is Q::load of what has come. A lane reads what it has brought itself, or where SHARED is set what
// others of the warp have.
template <class Q> struct Way;

static __device__ __forceinline__ uint4 wide_piece(const u8* slot, int piece) { return reinterpret_cast<const uint4*>(slot)[piece * 32 + (threadIdx.x & 31)]; }
static __device__ __forceinline__ const u8* place_wide(const u8* slot, int piece) { return slot + (piece * 32 + (threadIdx.x & 31)) * 16; }

// Two blocks' scales lie in four bytes.
static __device__ __forceinline__ u16 scale_of(u32 pair, size_t block) { return block & 1 ? pair >> 16 : pair & 0xffff; }

template <> struct Way<Q8_0> {
    static constexpr int BYTES = 640;
    static constexpr bool SHARED = false;
    static __device__ __forceinline__ void bring(u8* slot, const u8* w, size_t blocks, size_t block0, int first, int units) {
        const int lane = threadIdx.x & 31, unit = first + lane;
        if (unit >= units) return;
        const size_t block = block0 + (unit >> 1);
        bring16(place_wide(slot, 0), w + block * 32 + (unit & 1) * 16);
        bring4(slot + 512 + lane * 4, w + blocks * 32 + (block & ~(size_t)1) * 2);
    }
    static __device__ __forceinline__ Q8_0::Raw take(const u8* slot, size_t block0, int unit) {
        return {wide_piece(slot, 0), scale_of(reinterpret_cast<const u32*>(slot + 512)[threadIdx.x & 31], block0 + (unit >> 1))};
    }
};
template <> struct Way<Q4_0> {
    static constexpr int BYTES = 640;
    static constexpr bool SHARED = false;
    static __device__ __forceinline__ void bring(u8* slot, const u8* w, size_t blocks, size_t block0, int first, int units) {
        const int lane = threadIdx.x & 31, unit = first + lane;
        if (unit >= units) return;
        const size_t block = block0 + unit;
        bring16(place_wide(slot, 0), w + block * 16);
        bring4(slot + 512 + lane * 4, w + blocks * 16 + (block & ~(size_t)1) * 2);
    }
    static __device__ __forceinline__ Q4_0::Raw take(const u8* slot, size_t block0, int unit) {
        return {wide_piece(slot, 0), scale_of(reinterpret_cast<const u32*>(slot + 512)[threadIdx.x & 31], block0 + unit)};
    }
};

// Blocks of whole pieces of sixteen bytes come as they are stored.
template <int BLOCK_BYTES, int BLOCK_UNITS> struct WayOfBlocks {
    static constexpr int BLOCKS = 32 / BLOCK_UNITS, PIECES = BLOCKS * BLOCK_BYTES / 16, BYTES = (PIECES * 16 + 127) & ~127;
    static constexpr bool SHARED = true;
    static __device__ __forceinline__ void bring(u8* slot, const u8* w, size_t, size_t block0, int first, int units) {
        const int lane = threadIdx.x & 31, most = min(PIECES, (units - first) / BLOCK_UNITS * (BLOCK_BYTES / 16));
        const u8* from = w + (block0 + first / BLOCK_UNITS) * BLOCK_BYTES + lane * 16;
#pragma unroll
        for (int k = 0; k < (PIECES + 31) / 32; k++)
            if (lane + 32 * k < most) bring16(slot + (lane + 32 * k) * 16, from + 512 * k);
    }
    static __device__ __forceinline__ uint4 piece(const u8* slot, int at) {
        return *reinterpret_cast<const uint4*>(slot + (threadIdx.x & 31) / BLOCK_UNITS * BLOCK_BYTES + at);
    }
};
template <> struct Way<Q4_K_64> : WayOfBlocks<144, 4> {
    static __device__ __forceinline__ Q4_K_64::Raw take(const u8* slot, size_t, int unit) { return {piece(slot, 16 + (unit & 3) * 32), piece(slot, 32 + (unit & 3) * 32), piece(slot, 0)}; }
};
template <> struct Way<Q5_K> : WayOfBlocks<176, 8> {
    static __device__ __forceinline__ Q5_K::Raw take(const u8* slot, size_t, int unit) { return {piece(slot, 48 + (unit & 7) * 16), piece(slot, 16 + (unit & 1) * 16), piece(slot, 0)}; }
};
template <class Q> struct WayOfFloats {
    static constexpr int BYTES = 512;
    static constexpr bool SHARED = false;
    static __device__ __forceinline__ void bring(u8* slot, const u8* w, size_t, size_t block0, int first, int units) {
        const int unit = first + (threadIdx.x & 31);
        if (unit < units) bring16(place_wide(slot, 0), w + (block0 + unit * 8) * 2);
    }
    static __device__ __forceinline__ typename Q::Raw take(const u8* slot, size_t, int) { return {wide_piece(slot, 0)}; }
};
template <> struct Way<BF16> : WayOfFloats<BF16> {};
template <> struct Way<F16> : WayOfFloats<F16> {};
// Four values of the one row, to where it lies in shared memory. FLOATS: as values, where value_piece says; else as codes, where code_piece does, and their
// metas behind them.
template <bool FLOATS>
static __device__ __forceinline__ void put_four(u8* to, int columns, int i, float4 v) {
    if (FLOATS) {
        if (i < columns) reinterpret_cast<float4*>(to)[value_piece(i >> 2)] = v;
        return;
    }
    BlockMeta meta;
    const u32 word = round_four(v, meta);
    if (i >= columns) return;
    *reinterpret_cast<u32*>(to + code_piece(i >> 4) * 16 + (i & 15)) = word;
    if (i % 32 == 0) reinterpret_cast<BlockMeta*>(to + columns)[i >> 5] = meta;
}
// A row of codes that is there, by THREADS threads.
template <int THREADS>
static __device__ __forceinline__ void copy_codes(const Vectors& x, u8* to) {
    for (int i = threadIdx.x; i < x.columns / 16; i += THREADS) reinterpret_cast<uint4*>(to)[code_piece(i)] = __ldcg(reinterpret_cast<const uint4*>(x.codes) + i);
    for (int i = threadIdx.x; i < x.columns / 32; i += THREADS) reinterpret_cast<uint2*>(to + x.columns)[i] = __ldcg(reinterpret_cast<const uint2*>(x.metas) + i);
}

// What a kernel is made of beside its type: rows of a warp at a time, units of each in a step, steps on their way, warps of a block.
template <int ROWS_, int UNITS_, int STEPS_, int WARPS_> struct Shape {
    static constexpr int ROWS = ROWS_, UNITS = UNITS_, STEPS = STEPS_, BLOCK_WARPS = WARPS_;
};

// Outputs of a block that become codes, at most.
static constexpr int CODED_ROWS = 256;

// The outputs of a block, 32 for each of its turns, to codes. All of its threads are here.
static __device__ __forceinline__ void write_coded(const Matvec& p, const MatvecPart& part, int blocks, int block, const float* outputs) {
    __syncthreads();
    const int row = (threadIdx.x / 8 * blocks + block) * 32 + threadIdx.x % 8 * 4;
    if (threadIdx.x >= CODED_ROWS / 4 || row >= part.rows) return;
    BlockMeta meta;
    const u32 word = round_four(*reinterpret_cast<const float4*>(outputs + threadIdx.x * 4), meta);
    *reinterpret_cast<u32*>(p.codes + row) = word;
    if (row % 32 == 0) p.metas[row / 32] = meta;
}

// The part whose blocks this one is of, and how many it has.
static __device__ __forceinline__ const MatvecPart& stream_part_of(const Matvec& p, int& blocks) {
    const MatvecPart& part = part_of<4>(p);
    const int next = (int)(&part - p.parts) + 1;
    blocks = (next < p.count ? p.parts[next].first_block : p.blocks) - part.first_block;
    return part;
}

// Shared memory: the row (columns * 4 bytes of values, or columns * 5 / 4 of codes and metas, rounded up to 128), then the rings of the warps.
template <class Q, class S, bool PAIR>
static __device__ __forceinline__ void stream_part(const Matvec& p, const MatvecPart& part, int blocks) {
    constexpr int ROWS = S::ROWS, UNITS = S::UNITS, STEPS = S::STEPS, OUTPUTS = PAIR ? ROWS / 2 : ROWS;
    constexpr int STEP_BYTES = ROWS * UNITS * Way<Q>::BYTES;
    constexpr bool FLOATS = IsFloat<Q>::value;
    static_assert(!PAIR || (OUTPUTS == 1 && S::BLOCK_WARPS == 16), "rows of a block of codes");
    extern __shared__ uint4 memory[];
    __shared__ __align__(16) float outputs[PAIR ? CODED_ROWS : 1];
    u8* const row_at = reinterpret_cast<u8*>(memory);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, columns = p.x.columns;
    const int row_bytes = ((FLOATS ? columns * 4 : columns + columns / 4) + 127) & ~127;
    u8* const ring = row_at + row_bytes + warp * (STEPS * STEP_BYTES);
    const int units = columns / Q::UNIT, steps = (units + 32 * UNITS - 1) / (32 * UNITS), groups = (part.rows + OUTPUTS - 1) / OUTPUTS;
    const int block = (int)blockIdx.x - part.first_block;
    // Rows are dealt out by groups, one for each warp of every block; where the outputs become codes too, a block has two such rounds one behind the other,
    // which are the 32 of a block of codes.
    const bool in_codes = PAIR && p.codes;
    const auto group_of = [&](int round) { return in_codes ? ((round >> 1) * blocks + block) * 32 + (round & 1) * 16 + warp : (round * blocks + block) * S::BLOCK_WARPS + warp; };
    const size_t row_blocks = columns / Q::BLOCK, all_blocks = part.rows * row_blocks;
    const auto row_of = [&](int group, int r) { return min(group * OUTPUTS + r % OUTPUTS, part.rows - 1); };

    int ahead_round = 0, ahead_group = group_of(0), ahead_step = 0, ahead_slot = 0;
    const auto bring = [&]() {
        if (ahead_group < groups) {
            u8* const to = ring + own(ahead_slot * STEP_BYTES);
#pragma unroll
            for (int k = 0; k < UNITS; k++) {
                const int unit = (ahead_step * UNITS + k) * 32;
                if (unit < units) {
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        Way<Q>::bring(to + (k * ROWS + r) * Way<Q>::BYTES, PAIR && r >= OUTPUTS ? part.up : part.weight, all_blocks, row_of(ahead_group, r) * row_blocks, unit, units);
                }
            }
            if (++ahead_step == steps) ahead_step = 0, ahead_group = group_of(++ahead_round);
        }
        end_of_step();
        if (++ahead_slot == STEPS) ahead_slot = 0;
    };
#pragma unroll 1
    for (int i = 0; i < STEPS; i++) bring();

    OwnRow<32 * S::BLOCK_WARPS> own;
    own.prepare(p.norm, columns);
    wait_for_previous_grid();
    if (p.from) own.turn(p.from, p.norm, columns, [&](int i, float4 v) { put_four<FLOATS>(row_at, columns, i, v); });
    else copy_codes<32 * S::BLOCK_WARPS>(p.x, row_at);
    __syncthreads();

    Vectors x = p.x;
    x.values = reinterpret_cast<const float*>(row_at), x.codes = reinterpret_cast<const signed char*>(row_at);
    x.metas = reinterpret_cast<const BlockMeta*>(row_at + columns);
    const int token[1] = {0};
    constexpr int LANES = 32 / ROWS;
    int slot = 0;
#pragma unroll 1
    for (int round = 0, group = group_of(0); group < groups; group = group_of(++round)) {
        float sums[ROWS][1];
#pragma unroll
        for (int r = 0; r < ROWS; r++) sums[r][0] = 0;
        // The lane that writes an output asks for what it is added to while the warp computes it.
        const int row = group * OUTPUTS + lane / LANES % OUTPUTS;
        const bool writes = lane % LANES == 0 && row < part.rows && (!PAIR || lane < 16);
        float* const to = part.to + row;
        const float before = p.add && writes ? __ldcg(to) : 0.0f;
#pragma unroll 1
        for (int step = 0; step < steps; step++) {
            wait_for_step<STEPS - 1>();
            if (Way<Q>::SHARED) __syncwarp();
            typename Q::Raw raw[UNITS][ROWS];
            const u8* const here = ring + slot * STEP_BYTES;
#pragma unroll
            for (int k = 0; k < UNITS; k++) {
#pragma unroll
                for (int r = 0; r < ROWS; r++) raw[k][r] = Way<Q>::take(here + (k * ROWS + r) * Way<Q>::BYTES, row_of(group, r) * row_blocks, (step * UNITS + k) * 32 + lane);
            }
            if (Way<Q>::SHARED) __syncwarp();
            bring();
            if (++slot == STEPS) slot = 0;
#pragma unroll
            for (int k = 0; k < UNITS; k++) {
                const int unit = (step * UNITS + k) * 32 + lane;
                if (unit < units) {
                    if constexpr (FLOATS) add_floats<Q, 1, ROWS, false, true>(raw[k], unit, x, token, sums);
                    else add_codes<Q, 1, ROWS, false, true>(raw[k], unit, x, token, sums);
                }
            }
        }
        float y = fold<ROWS>(reinterpret_cast<float(&)[ROWS]>(sums));
        if (PAIR) {
            const float* bias = lane < 16 ? part.bias : part.up_bias;
            if (bias && row < part.rows) y += bias[row];
            const float up = __shfl_xor_sync(~0u, y, 16);
            y = gated(p.activation, p.gate_scale * y, up);
        } else if (part.bias && row < part.rows) {
            y += part.bias[row];
        }
        if (writes) *to = p.add ? before + p.scale * y : y;
        if (in_codes && writes) outputs[round * 16 + warp] = y;
    }
    if (in_codes) write_coded(p, part, blocks, block, outputs);
}

template <class Q, class S, bool PAIR>
static __device__ __forceinline__ void stream_rows(const Matvec& p) {
    release_next_grid();
    int blocks;
    const MatvecPart& part = stream_part_of(p, blocks);
    stream_part<Q, S, PAIR>(p, part, blocks);
}
