// From who is chosen to groups of rows by expert, and back: what surrounds the grouped products (experts_n<T>, experts_gate_up_n<T>).
//
// A pair is a token and one of its chosen experts: pair token * count + k. Sorted by expert, within an expert in the order of the tokens.
//
// group_pairs (chosen, tokens, count, experts, starts, pairs, places)
//     grid (1), block (1024), dynamic shared memory 33 * experts * 4 bytes; at most 512 experts (67,584 bytes: set the kernel's maximum).
//     chosen: (tokens, count), -1 where a token has fewer. Gives starts (experts + 1): the first row of each expert; pairs (tokens * count): the pair of a row;
//     places (tokens * count): the row of a pair, -1 where there is none.
// gather_pairs (from, starts, pairs, to, count, columns, experts)
//     grid (tokens * count), block (128). Row i of `to` (tokens * count, columns), bf16, is row pairs[i] / count of `from`; columns a multiple of 8; rows past
//     starts[experts] stay as they are.
// join_pairs (from, places, shares, to, count, columns, add, scale)
//     grid (tokens), block (256). to[token] = sum over k of shares[token][k] * from[places[token][k]], in the order of k; `add`: to += scale * that.
//     columns a multiple of 4; all f32.
#include "device.cuh"

KERNEL void __launch_bounds__(1024) group_pairs(const int* chosen, int tokens, int count, int experts, int* starts, int* pairs, int* places) {
    extern __shared__ int counts[];  // (32 warps, experts), then (experts)
    int* totals = counts + 32 * experts;
    release_next_grid();
    wait_for_previous_grid();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = tokens * count, each = (all + 1023) / 1024 * 32;
    const int first = warp * each, last = min(first + each, all);
    for (int i = threadIdx.x; i < 33 * experts; i += 1024) counts[i] = 0;
    __syncthreads();
    int* own = counts + warp * experts;
    for (int i = first; i < last; i += 32) {
        const int e = i + lane < last ? chosen[i + lane] : -1;
        const u32 same = __match_any_sync(~0u, e);
        if (e >= 0 && e < experts && (same & ((1u << lane) - 1)) == 0) own[e] += __popc(same);
        __syncwarp();
    }
    __syncthreads();
    // Each expert's rows ahead of each warp's.
    for (int e = threadIdx.x; e < experts; e += 1024) {
        int before = 0;
        for (int w = 0; w < 32; w++) {
            const int here = counts[w * experts + e];
            counts[w * experts + e] = before, before += here;
        }
        totals[e] = before;
    }
    __syncthreads();
    if (warp == 0) {
        int before = 0;
        for (int e0 = 0; e0 < experts; e0 += 32) {
            const int own_total = e0 + lane < experts ? totals[e0 + lane] : 0;
            int v = own_total;
#pragma unroll
            for (int o = 1; o < 32; o <<= 1) {
                const int other = __shfl_up_sync(~0u, v, o);
                if (lane >= o) v += other;
            }
            if (e0 + lane < experts) totals[e0 + lane] = starts[e0 + lane] = before + v - own_total;
            before += __shfl_sync(~0u, v, 31);
        }
        if (lane == 0) starts[experts] = before;
    }
    __syncthreads();
    for (int i = first; i < last; i += 32) {
        const int e = i + lane < last ? chosen[i + lane] : -1;
        const u32 same = __match_any_sync(~0u, e);
        const bool live = e >= 0 && e < experts;
        const int rank = __popc(same & ((1u << lane) - 1)), place = live ? totals[e] + own[e] + rank : -1;
        __syncwarp();
        if (live && rank == 0) own[e] += __popc(same);
        __syncwarp();
        if (i + lane < last) places[i + lane] = place;
        if (live) pairs[place] = i + lane;
    }
}

KERNEL void __launch_bounds__(128) gather_pairs(const u16* from, const int* starts, const int* pairs, u16* to, int count, int columns, int experts) {
    release_next_grid();
    wait_for_previous_grid();
    const int row = blockIdx.x;
    if (row >= starts[experts]) return;
    const uint4* source = reinterpret_cast<const uint4*>(from + (size_t)(pairs[row] / count) * columns);
    uint4* target = reinterpret_cast<uint4*>(to + (size_t)row * columns);
    for (int i = threadIdx.x; i < columns / 8; i += 128) target[i] = source[i];
}

KERNEL void __launch_bounds__(256) join_pairs(const float* from, const int* places, const float* shares, float* to, int count, int columns, int add, float scale) {
    release_next_grid();
    wait_for_previous_grid();
    const size_t token = blockIdx.x;
    for (int i = threadIdx.x * 4; i < columns; i += 1024) {
        float4 sum = make_float4(0, 0, 0, 0);
        for (int k = 0; k < count; k++) {
            const int place = places[token * count + k];
            if (place < 0) continue;
            const float share = shares[token * count + k];
            const float4 v = *reinterpret_cast<const float4*>(from + (size_t)place * columns + i);
            sum.x += share * v.x, sum.y += share * v.y, sum.z += share * v.z, sum.w += share * v.w;
        }
        float4* at = reinterpret_cast<float4*>(to + token * columns + i);
        if (add) {
            const float4 v = *at;
            sum = make_float4(v.x + scale * sum.x, v.y + scale * sum.y, v.z + scale * sum.z, v.w + scale * sum.w);
        }
        *at = sum;
    }
}
