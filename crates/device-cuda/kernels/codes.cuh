// Rows of activations as products read them, and how a row gets there: plain values, bf16, or bytes with a scale for 32 neighbours.
#pragma once
#include "device.cuh"

// A row of activations in blocks of 32: `scale`, and the sums of the codes of its two halves.
struct BlockMeta { float scale; short sums[2]; };

// Where rows go; each may be null.
struct RowOutputs {
    float* values;       // (tokens, columns)
    signed char* codes;  // (tokens, columns), columns a multiple of 32
    BlockMeta* metas;    // (tokens, columns / 32)
    u16* halves;         // (tokens, halves_stride), bf16
    int halves_stride;   // a multiple of 8
};

// Four values to codes; eight neighbouring lanes hold a block of 32, and are all here. `meta` is that of the block, in the first of them.
static __device__ __forceinline__ u32 round_four(float4 v, BlockMeta& meta) {
    // Eight lanes at a time: others of the warp may be elsewhere.
    const u32 eight = 0xffu << (threadIdx.x & 24);
    float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
#pragma unroll
    for (int o = 4; o > 0; o >>= 1) most = fmaxf(most, __shfl_xor_sync(eight, most, o));
    const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
    const int a = __float2int_rn(v.x * inverse), b = __float2int_rn(v.y * inverse), c = __float2int_rn(v.z * inverse), d = __float2int_rn(v.w * inverse);
    int sum = a + b + c + d;
    sum += __shfl_xor_sync(eight, sum, 1);
    sum += __shfl_xor_sync(eight, sum, 2);
    const int other = __shfl_xor_sync(eight, sum, 4);
    meta = {most / 127.0f, {(short)sum, (short)other}};
    return (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
}

// Writes four values; eight neighbouring lanes hold a block of 32, and all lanes of the warp are here. `live`: these are values of the row.
static __device__ __forceinline__ void write_four(const RowOutputs& to, size_t row, int columns, int column, float4 v, bool live) {
    if (to.codes) {
        BlockMeta meta;
        const u32 word = round_four(v, meta);
        if (live) {
            *reinterpret_cast<u32*>(to.codes + row * columns + column) = word;
            if (column % 32 == 0) to.metas[row * (columns / 32) + column / 32] = meta;
        }
    }
    if (!live) return;
    if (to.halves) *reinterpret_cast<uint2*>(to.halves + row * to.halves_stride + column) = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
    if (to.values) *reinterpret_cast<float4*>(to.values + row * columns + column) = v;
}

// Sum over a block of up to 32 warps; every thread gets it. The tree depends on the number of threads alone.
static __device__ __forceinline__ float block_sum(float v) {
    __shared__ float sums[32];
    v = warp_sum(v);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x & 31] : 0.0f;
    return warp_sum(v);
}

// A norm's weights: null where a row is taken as it is.
struct RowNorm {
    const float* weight;  // (columns)
    const float* bias;    // (columns), or null
    int layer;            // 0: root mean square. 1: the mean goes first
    float epsilon;
};

// The whole block turns a row of `columns` values: what it is multiplied with, and what is taken off before.
static __device__ __forceinline__ void measure_row(const float* from, const RowNorm& norm, int columns, float& mean, float& factor) {
    mean = 0, factor = 1;
    if (!norm.weight) return;
    if (norm.layer) {
        float sum = 0;
        for (int i = threadIdx.x * 4; i < columns; i += blockDim.x * 4) {
            const float4 v = *reinterpret_cast<const float4*>(from + i);
            sum += (v.x + v.y) + (v.z + v.w);
        }
        mean = block_sum(sum) / columns;
    }
    float sum = 0;
    for (int i = threadIdx.x * 4; i < columns; i += blockDim.x * 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + i);
        const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
        sum += (a * a + b * b) + (c * c + d * d);
    }
    factor = 1.0f / sqrtf(block_sum(sum) / columns + norm.epsilon);
}

// Four values of a row to what the next product reads.
static __device__ __forceinline__ void turn_four(const float* from, const RowNorm& norm, float mean, float factor, int columns, int i, const RowOutputs& to, size_t row) {
    const bool live = i < columns;
    float4 v = make_float4(0, 0, 0, 0);
    if (live) {
        v = *reinterpret_cast<const float4*>(from + i);
        if (norm.weight) {
            const float4 w = *reinterpret_cast<const float4*>(norm.weight + i);
            v.x = (v.x - mean) * factor * w.x, v.y = (v.y - mean) * factor * w.y, v.z = (v.z - mean) * factor * w.z, v.w = (v.w - mean) * factor * w.w;
        }
        if (norm.bias) {
            const float4 b = *reinterpret_cast<const float4*>(norm.bias + i);
            v.x += b.x, v.y += b.y, v.z += b.z, v.w += b.w;
        }
    }
    write_four(to, row, columns, i, v, live);
}

// The whole block turns a row into what the next product reads. The same number of threads gives the same bits, wherever the row goes.
static __device__ __forceinline__ void turn_row(const float* from, const RowNorm& norm, int columns, const RowOutputs& to, size_t row) {
    float mean, factor;
    measure_row(from, norm, columns, mean, factor);
    for (int start = threadIdx.x / 32 * 128; start < columns; start += blockDim.x * 4) turn_four(from, norm, mean, factor, columns, start + threadIdx.x % 32 * 4, to, row);
}
