// Rows of activations on their way into a product: normalised or gated, and turned into what the product reads: blocks of codes, bf16 or
// plain values. The bodies of the kernels in rows.cu.
#pragma once
#include "matvec.cuh"

// Where rows go; each may be null.
struct RowOutputs {
    float* values;       // (tokens, columns)
    signed char* codes;  // (tokens, columns), columns a multiple of 32
    BlockMeta* metas;    // (tokens, columns / 32)
    u16* halves;         // (tokens, halves_stride), bf16
    int halves_stride;   // a multiple of 8
};

// Writes four values; eight neighbouring lanes hold a block of 32, and all lanes of the warp are here. `live`: these are values of the row.
static __device__ __forceinline__ void write_four(const RowOutputs& to, size_t row, int columns, int column, float4 v, bool live) {
    if (to.codes) {
        // Eight lanes at a time: others of the warp may be elsewhere.
        const u32 eight = 0xffu << (threadIdx.x & 24);
        float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
#pragma unroll
        for (int o = 4; o > 0; o >>= 1) most = fmaxf(most, __shfl_xor_sync(eight, most, o));
        const float scale = most / 127.0f, inverse = most > 0.0f ? 127.0f / most : 0.0f;
        const int a = __float2int_rn(v.x * inverse), b = __float2int_rn(v.y * inverse), c = __float2int_rn(v.z * inverse), d = __float2int_rn(v.w * inverse);
        int sum = a + b + c + d;
        sum += __shfl_xor_sync(eight, sum, 1);
        sum += __shfl_xor_sync(eight, sum, 2);
        const int other = __shfl_xor_sync(eight, sum, 4);
        if (live) {
            *reinterpret_cast<u32*>(to.codes + row * columns + column) = (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
            if (column % 32 == 0) to.metas[row * (columns / 32) + column / 32] = {scale, {(short)sum, (short)other}};
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

struct NormRows {
    const float* from;    // (tokens, from_stride)
    const float* weight;  // (columns), or null for a row that is only converted
    const float* bias;    // (columns), or null
    RowOutputs to;
    int columns, from_stride;
    int layer;            // 0: root mean square. 1: the mean goes first
    float epsilon;
};

struct GateRows {
    const float* gate;  // (tokens, columns); null: to = activation(up)
    const float* up;    // (tokens, columns)
    RowOutputs to;
    int columns, tokens;
    Activation activation;
    float gate_scale;
};
