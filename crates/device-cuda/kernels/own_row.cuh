// A row of activations that a block keeps in registers while it measures it: one way to memory less than turn_row.
#pragma once
#include "codes.cuh"

// A row, turned by THREADS threads that keep its first columns in registers, to the bits of turn_row by a thread for four values. What it needs beside the
// row is asked for ahead. LONG: there may be more columns than those.
template <int THREADS, bool LONG = true> struct OwnRow {
    static constexpr int FIRST = 4096;                              // columns whose values stay in registers
    static constexpr int AHEAD = (FIRST / 4 + THREADS - 1) / THREADS;  // pieces of four of them that a thread has
    float4 weight[AHEAD];

    static __device__ __forceinline__ int column(int k) { return (threadIdx.x + THREADS * k) * 4; }
    static __device__ __forceinline__ float4 zeros() { return make_float4(0, 0, 0, 0); }
    __device__ __forceinline__ void prepare(const RowNorm& norm, int columns) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) weight[k] = norm.weight && column(k) < columns ? *reinterpret_cast<const float4*>(norm.weight + column(k)) : zeros();
    }
    static __device__ __forceinline__ float4 value(const float* from, int columns, int i) { return i < columns ? __ldcg(reinterpret_cast<const float4*>(from + i)) : zeros(); }
    // A piece past the first columns is nobody's: it is taken later.
    static __device__ __forceinline__ bool is_first(int k) { return FIRST / 4 % THREADS == 0 || column(k) < FIRST; }
    // In the order of block_sum with a thread for four values, 1024 at most: `term` of a piece of the row.
    template <class Term> static __device__ __forceinline__ float sum(const float4 (&x)[AHEAD], const float* from, int columns, const Term& term) {
        __shared__ float sums[32];
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        float own[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            own[k] = column(k) < columns ? term(x[k]) : 0.0f;
            for (int i = column(k) + FIRST; LONG && i < columns; i += FIRST) own[k] += term(value(from, columns, i));
            own[k] = warp_sum(own[k]);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (lane == 0 && is_first(k)) sums[warp + THREADS / 32 * k] = own[k];
        __syncthreads();
        return warp_sum(lane < (columns + 127) / 128 ? sums[lane] : 0.0f);
    }
    static __device__ __forceinline__ float4 scaled(float4 v, float4 w, float mean, float factor) {
        return make_float4((v.x - mean) * factor * w.x, (v.y - mean) * factor * w.y, (v.z - mean) * factor * w.z, (v.w - mean) * factor * w.w);
    }
    // `put(i, v)` takes the four values at i, some of them past the end; all lanes of a warp are there.
    template <class Put> __device__ __forceinline__ void turn(const float* from, const RowNorm& norm, int columns, const Put& put) const {
        float4 x[AHEAD];
        float mean = 0, factor = 1;
#pragma unroll
        for (int k = 0; k < AHEAD; k++) x[k] = value(from, columns, column(k));
        if (norm.weight) {
            if (norm.layer) mean = sum(x, from, columns, [](float4 v) { return (v.x + v.y) + (v.z + v.w); }) / columns;
            const auto square = [mean](float4 v) {
                const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
                return (a * a + b * b) + (c * c + d * d);
            };
            factor = 1.0f / sqrtf(sum(x, from, columns, square) / columns + norm.epsilon);
        }
        const auto finish = [&](int i, float4 v, float4 w) {
            if (norm.weight) v = scaled(v, w, mean, factor);
            if (norm.bias && i < columns) {
                const float4 b = *reinterpret_cast<const float4*>(norm.bias + i);
                v.x += b.x, v.y += b.y, v.z += b.z, v.w += b.w;
            }
            put(i, v);
        };
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if ((column(k) & ~127) < columns && is_first(k)) finish(column(k), x[k], weight[k]);
        // Longer rows: four pieces of a thread at a time.
        for (int start = FIRST + threadIdx.x * 4; LONG && (start & ~127) < columns; start += 16 * THREADS) {
            float4 v[4], w[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int i = start + 4 * THREADS * k;
                v[k] = value(from, columns, i);
                w[k] = norm.weight && i < columns ? *reinterpret_cast<const float4*>(norm.weight + i) : zeros();
            }
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (((start + 4 * THREADS * k) & ~127) < columns) finish(start + 4 * THREADS * k, v[k], w[k]);
        }
    }
};
