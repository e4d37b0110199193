// Matrix times one vector by blocks that stay, for codes of eight bits: the body of the kernels in matvec_stream.cu.
//
// As numbers of single precision, one by one, such codes keep a processor busy for longer than the memory. Here they become pairs of halves, exactly, and
// the matrix units multiply them with the row, which is rounded to halves with a power of two for each 128 of them. Sums are in single precision.
//
// A block takes 16 rows at a time, which lie in memory one behind the other. Each of its warps has every 16th (of a pair of matrices every 8th) run of 128
// columns; what they come to is added in the order of the warps.
#pragma once
#include "matvec_stream.cuh"

struct EightBits {
    static constexpr int WARPS = 16, ROWS = 16, COLUMNS = 128, STEPS = 3;
    static constexpr int CODES = ROWS * COLUMNS, STEP_BYTES = CODES + 4 * ROWS;
};

// Four codes to halves: the first two and the others. Codes that are no numbers are none here: matrices that have such go another way.
static __device__ __forceinline__ void halves_of(u32 codes, u32& first, u32& second) {
#if __CUDA_ARCH__ >= 890
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}" : "=r"(first), "=r"(second) : "r"(codes));
#else
    // E4M3 is the upper bits of half precision whose exponent begins eight powers of two lower.
    const u32 even = (codes << 8 & 0x80008000u) | (codes << 7 & 0x3f803f80u), odd = (codes & 0x80008000u) | (codes >> 1 & 0x3f803f80u);
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(first) : "r"(__byte_perm(even, odd, 0x5410)), "r"(0x5c005c00u));
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(second) : "r"(__byte_perm(even, odd, 0x7632)), "r"(0x5c005c00u));
#endif
}

// Four values of the row as halves; 32 neighbouring lanes hold a run of 128 with its factor, and all lanes are here.
static __device__ __forceinline__ void put_halves(u8* to, int columns, int i, float4 v) {
    const float most = warp_max(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    // The largest comes to 2^13 at least, so that halves have all their digits far below it.
    const u32 exponent = max(__float_as_uint(most) >> 23, 14u);
    const float up = __uint_as_float((267 - exponent) << 23);
    if (i >= columns) return;
    *reinterpret_cast<uint2*>(to + 2 * i) = make_uint2(pack_half(v.x * up, v.y * up), pack_half(v.z * up, v.w * up));
    if (i % 128 == 0) reinterpret_cast<float*>(to + 2 * columns)[i / 128] = __uint_as_float((exponent - 13) << 23);
}

// One step of a warp: sums of its rows lane / 4 and lane / 4 + 8 over 128 columns, in all four lanes of a row.
static __device__ __forceinline__ void add_step(const u8* step, const u8* row, float factor, float (&sums)[2]) {
    const int lane = threadIdx.x & 31, group = lane >> 2, quarter = lane & 3;
    float d[2][4] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        // Sixteen columns of a lane. Neighbouring rows have their pieces turned, so that they lie in different banks.
        const u8* const codes = step + group * 128 + ((half * 4 + quarter) ^ (group & 1) * 4) * 16;
        const uint4 low = *reinterpret_cast<const uint4*>(codes), high = *reinterpret_cast<const uint4*>(codes + 8 * 128);
        const uint4* const values = reinterpret_cast<const uint4*>(row + (half * 64 + quarter * 16) * 2);
        const uint4 first = values[0], second = values[1];
        const u32 a[4] = {low.x, low.y, low.z, low.w}, b[4] = {high.x, high.y, high.z, high.w};
        const u32 x[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            u32 m[4];
            halves_of(a[k], m[0], m[2]);
            halves_of(b[k], m[1], m[3]);
            mma_half(d[half], m, x[2 * k], x[2 * k + 1]);
        }
    }
    const float* const scales = reinterpret_cast<const float*>(step + EightBits::CODES);
    sums[0] += factor * scales[group] * (d[0][0] + d[1][0]);
    sums[1] += factor * scales[group + 8] * (d[0][2] + d[1][2]);
}

// Shared memory: the row, columns * 2 bytes of halves and columns / 32 of factors, rounded up to 128; then the rings of the warps.
template <bool PAIR>
static __device__ __forceinline__ void stream_eight_bits(const Matvec& p) {
    release_next_grid();
    int blocks;
    const MatvecPart& part = stream_part_of(p, blocks);
    constexpr int STEPS = EightBits::STEPS, STEP_BYTES = EightBits::STEP_BYTES, TEAM = PAIR ? EightBits::WARPS / 2 : EightBits::WARPS;
    extern __shared__ uint4 memory[];
    __shared__ float partial[2][EightBits::WARPS][EightBits::ROWS];
    __shared__ __align__(16) float outputs[PAIR ? CODED_ROWS : 1];
    u8* const row_at = reinterpret_cast<u8*>(memory);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, columns = p.x.columns, runs = columns / 128;
    const u32 last = part.rows - 1;
    u8* const ring = row_at + ((2 * columns + columns / 32 + 127) & ~127) + warp * (STEPS * STEP_BYTES);
    const int member = warp % TEAM, steps = (runs - member + TEAM - 1) / TEAM, tiles = (part.rows + 15) / 16, block = (int)blockIdx.x - part.first_block;
    // Sixteens of rows are dealt out one by one; where the outputs become codes too, two by two, which are the 32 of a block of codes.
    const bool in_codes = PAIR && p.codes;
    const auto tile_of = [&](int round) { return in_codes ? ((round >> 1) * blocks + block) * 2 + (round & 1) : round * blocks + block; };
    const u8* const matrix = PAIR && warp >= TEAM ? part.up : part.weight;
    const u8* const codes = matrix + member * 128 + (lane & 7) * 16;
    const u8* const scales = matrix + (size_t)part.rows * columns + member * 4;

    int ahead_round = 0, ahead_tile = tile_of(0), ahead_step = 0, ahead_slot = 0;
    const int piece = (lane >> 3) * 128 + ((lane & 7) ^ (lane >> 3 & 1) * 4) * 16;
    const auto bring = [&]() {
        if (ahead_tile < tiles && steps > 0) {
            u8* const to = ring + own(ahead_slot * STEP_BYTES);
            const u8* const from = codes + ahead_step * (TEAM * 128);
            const u32 row = ahead_tile * 16 + (lane >> 3);
#pragma unroll
            for (int k = 0; k < 4; k++) bring16(to + piece + k * 512, from + (u64)min(row + 4 * k, last) * (u32)columns);
            if (lane < 16) bring4(to + EightBits::CODES + lane * 4, scales + ahead_step * (TEAM * 4) + (u64)min(ahead_tile * 16 + lane, last) * (u32)(4 * runs));
            if (++ahead_step == steps) ahead_step = 0, ahead_tile = tile_of(++ahead_round);
        }
        end_of_step();
        if (++ahead_slot == STEPS) ahead_slot = 0;
    };
#pragma unroll 1
    for (int i = 0; i < STEPS; i++) bring();

    OwnRow<32 * EightBits::WARPS> own_row;
    own_row.prepare(p.norm, columns);
    wait_for_previous_grid();
    own_row.turn(p.from, p.norm, columns, [&](int i, float4 v) { put_halves(row_at, columns, i, v); });
    __syncthreads();

    const float* const factors = reinterpret_cast<const float*>(row_at + 2 * columns);
    int slot = 0;
#pragma unroll 1
    for (int round = 0, tile = tile_of(0); tile < tiles; tile = tile_of(++round)) {
        float sums[2] = {0, 0};
#pragma unroll 1
        for (int step = 0, run = member; step < steps; step++, run += TEAM) {
            wait_for_step<STEPS - 1>();
            __syncwarp();
            add_step(ring + slot * STEP_BYTES, row_at + run * 256, factors[run], sums);
            __syncwarp();
            bring();
            if (++slot == STEPS) slot = 0;
        }
        // Two places in turn: whoever is ahead writes the other one, and waits for all before it comes back to this.
        float(&here)[EightBits::WARPS][EightBits::ROWS] = partial[round & 1];
        if ((lane & 3) == 0) here[warp][lane >> 2] = sums[0], here[warp][(lane >> 2) + 8] = sums[1];
        __syncthreads();
        // The warps add up in turn, too: lanes 0 to 15 the first half of the warps (the gate), the others the second (up).
        if (warp != round % EightBits::WARPS) continue;
        const u32 row = tile * 16 + (lane & 15);
        const bool writes = lane < 16 && row <= last;
        float* const to = part.to + row;
        const float before = p.add && writes ? __ldcg(to) : 0.0f;
        float y = 0;
#pragma unroll
        for (int w = 0; w < EightBits::WARPS / 2; w++) y += here[(lane >> 4) * (EightBits::WARPS / 2) + w][lane & 15];
        if (PAIR) {
            const float* bias = lane < 16 ? part.bias : part.up_bias;
            if (bias && row <= last) y += bias[row];
            const float up = __shfl_xor_sync(~0u, y, 16);
            y = gated(p.activation, p.gate_scale * y, up);
        } else {
            y += __shfl_xor_sync(~0u, y, 16);
            if (part.bias && row <= last) y += part.bias[row];
        }
        if (writes) *to = p.add ? before + p.scale * y : y;
        if (in_codes && writes) outputs[round * 16 + lane] = y;
    }
    if (in_codes) write_coded(p, part, blocks, block, outputs);
}
