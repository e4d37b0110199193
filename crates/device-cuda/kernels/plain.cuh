// What every kernel includes: the batch as it lies on the device, sums over a warp and a block, halves, activations.
//
// No header of the toolkit is included: they cost ten times what a kernel costs to compile.
#pragma once

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__

static const float INFINITE = __builtin_huge_valf();

// One new token. As in `src/batch.rs`.
struct Token {
    u32 id;
    // In its sequence.
    int position;
    // Which sequence of the batch.
    int sequence;
    // Tokens that the sequence has with this batch.
    int end;
};

// One sequence's share of a batch. As in `src/batch.rs`.
struct Sequence {
    // Its first new token, and how many.
    int first;
    int count;
    // Tokens of it that are cached already.
    int cached;
    // Where its page table begins.
    int pages;
    // Where its state is.
    int slot;
    // Where the second text of a pair begins.
    int second_start;
    // The longest it may become.
    int reach;
    int unused;
};

// The batch, in memory at fixed places; a step that was recorded finds the next batch there.
struct Batch {
    // Tokens, outputs, sequences.
    const int *counts;
    const Token *tokens;
    const Sequence *sequences;
    const int *outputs;
    const u32 *pages;
    long long page_tokens;
};

// A grid that was launched ahead of the end of the one before it waits for that one here, and lets the next begin; launched plainly it is no
// operation. Ahead of it nothing is read or written.
DEVICE void follow() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

DEVICE float from_half(u16 half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

DEVICE u16 to_half(float value) {
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

DEVICE float from_brain(u16 brain) { return __uint_as_float((u32)brain << 16); }

DEVICE float warp_sum(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

DEVICE float warp_max(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

// The sum over all threads of a block of whole warps, at most 32 of them; in the same order whatever runs beside it.
DEVICE float block_sum(float value) {
    __shared__ float sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = warp_sum(value);
    if (warps == 1) return value;
    __syncthreads();
    if (lane == 0) sums[warp] = value;
    __syncthreads();
    return warp_sum(lane < warps ? sums[lane] : 0.0f);
}

DEVICE float block_max(float value) {
    __shared__ float most[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = warp_max(value);
    if (warps == 1) return value;
    __syncthreads();
    if (lane == 0) most[warp] = value;
    __syncthreads();
    return warp_max(lane < warps ? most[lane] : -INFINITE);
}

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

DEVICE float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// The activations in the order of the variants; `limit` and `steepness` are those of the last.
enum { SILU, GELU_TANH, GELU, RELU_SQUARED, SIGMOID, TANH, IDENTITY, SILU_CUT };

DEVICE float activated(int activation, float limit, float steepness, float x) {
    switch (activation) {
    case SILU: return x / (1.0f + expf(-x));
    case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.7978846f * (x + 0.044715f * x * x * x)));
    case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case RELU_SQUARED: return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
    case SIGMOID: return sigmoid(x);
    case TANH: return tanhf(x);
    case IDENTITY: return x;
    default: {
        float cut = fminf(x, limit);
        return cut / (1.0f + expf(-steepness * cut));
    }
    }
}

// What the activation of a gate is multiplied with.
DEVICE float beside_gate(int activation, float limit, float up) {
    return activation == SILU_CUT ? fminf(fmaxf(up, -limit), limit) + 1.0f : up;
}
