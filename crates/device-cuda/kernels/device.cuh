// What every kernel file uses: conversions, cache-hinted loads, warp sums, the ordering of dependent launches, activations.
//
// No header of CUDA beyond the built-in ones: cooperative_groups, CCCL and the fp16 headers multiply the compile time.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__

// A grid that was launched with programmatic stream serialisation may begin before the one ahead of it has ended: everything but
// weights is read and written behind `wait_for_previous_grid`. Launched plainly, both are no operation.
static __device__ __forceinline__ void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static __device__ __forceinline__ void release_next_grid() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// What is read once, by one block: weights, and keys and values of a token's attention. It passes the L1, where activations stay, and is the first to leave the
// L2, where a step's tables, its activations and the code of its kernels stay: of a model that is larger than the L2 they would be gone with every layer.
// Only on Hopper, where that was measured.
#if __CUDA_ARCH__ == 900
static __device__ __forceinline__ u64 read_once() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
static __device__ __forceinline__ uint4 load_weight16(const void* from) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4], %5;" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from), "l"(read_once()));
    return v;
}
static __device__ __forceinline__ uint4 load_shared_weight16(const void* from) {
    uint4 v;
    asm("ld.global.nc.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from), "l"(read_once()));
    return v;
}
static __device__ __forceinline__ uint2 load_shared_weight8(const void* from) {
    uint2 v;
    asm("ld.global.nc.L2::cache_hint.v2.u32 {%0,%1}, [%2], %3;" : "=r"(v.x), "=r"(v.y) : "l"(from), "l"(read_once()));
    return v;
}
static __device__ __forceinline__ u16 load_weight2(const void* from) {
    u16 v;
    asm("ld.global.nc.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(v) : "l"(from), "l"(read_once()));
    return v;
}
// `bytes` of sixteen to shared memory, zeros behind them; and four.
static __device__ __forceinline__ void copy16_once(u32 to, const void* from, int bytes = 16) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from), "r"(bytes), "l"(read_once()) : "memory");
}
static __device__ __forceinline__ void copy4_once(u32 to, const void* from) {
    asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "l"(read_once()) : "memory");
}
#else
static __device__ __forceinline__ uint4 load_weight16(const void* from) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}
static __device__ __forceinline__ uint4 load_shared_weight16(const void* from) {
    uint4 v;
    asm("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}
static __device__ __forceinline__ uint2 load_shared_weight8(const void* from) {
    uint2 v;
    asm("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
    return v;
}
static __device__ __forceinline__ u16 load_weight2(const void* from) {
    u16 v;
    asm("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(from));
    return v;
}
static __device__ __forceinline__ void copy16_once(u32 to, const void* from, int bytes = 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void copy4_once(u32 to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
#endif
// A number that is the same in all lanes, as each lane's own: all of them are here. Of a copy with a hint whose place is the sum of what a lane has and of
// what all have, ptxas 13.0 makes an instruction that is none (.ci/kernels looks for these).
static __device__ __forceinline__ int own(int number) { return __shfl_sync(~0u, number, threadIdx.x & 31); }
static __device__ __forceinline__ float half_to_float(u16 bits) {
    float f;
    asm("{.reg .f16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}" : "=f"(f) : "h"(bits));
    return f;
}
static __device__ __forceinline__ u16 float_to_half(float f) {
    u16 bits;
    asm("{.reg .f16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h;}" : "=h"(bits) : "f"(f));
    return bits;
}
// Two floats to bf16, rounded to nearest even; `low` in the low half.
static __device__ __forceinline__ u32 pack_bf16(float low, float high) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
static __device__ __forceinline__ u32 pack_half(float low, float high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
static __device__ __forceinline__ float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }
static __device__ __forceinline__ float bf16_high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

static __device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
static __device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

// d += a * b, of halves: 16 rows by 8 columns over 16. The sums are single.
static __device__ __forceinline__ void mma_half(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// kauri_arch::Activation, in the order of its variants.
enum ActivationKind { SILU, GELU_TANH, GELU, RELU_SQUARED, SIGMOID, TANH, IDENTITY, SILU_CUT };

struct Activation {
    int kind;
    float limit, steepness;  // of SILU_CUT
};

static __device__ __forceinline__ float activate(Activation a, float x) {
    switch (a.kind) {
        case SILU: return x / (1.0f + __expf(-x));
        case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
        case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
        case RELU_SQUARED: return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
        case SIGMOID: return 1.0f / (1.0f + __expf(-x));
        case TANH: return tanhf(x);
        case SILU_CUT: x = fminf(x, a.limit); return x / (1.0f + __expf(-a.steepness * x));
        default: return x;
    }
}
static __device__ __forceinline__ float gated(Activation a, float gate, float up) {
    if (a.kind == SILU_CUT) up = fminf(fmaxf(up, -a.limit), a.limit) + 1.0f;
    return activate(a, gate) * up;
}
