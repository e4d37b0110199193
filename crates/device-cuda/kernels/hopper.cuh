// What Hopper's asynchronous units are driven with: barriers in shared memory, tensor copies, warpgroup products. sm_90a alone.
#pragma once
#include "wgmma.cuh"

// A CUtensorMap, encoded by the host.
struct alignas(64) TensorMap { u64 opaque[16]; };

static __device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

static __device__ __forceinline__ void barrier_init(u64* bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(arrivals) : "memory");
}
static __device__ __forceinline__ void barrier_expect(u64* bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void barrier_arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
static __device__ __forceinline__ void barrier_wait(u64* bar, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(shared_address(bar)), "r"(parity) : "memory");
}
static __device__ __forceinline__ void tensor_load(void* to, const TensorMap* map, u64* bar, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)), "l"(map), "r"(shared_address(bar)), "r"(column), "r"(row) : "memory");
}
static __device__ __forceinline__ void tensor_load(void* to, const TensorMap* map, u64* bar, int column, int row, int matrix) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)), "l"(map), "r"(shared_address(bar)), "r"(column), "r"(row), "r"(matrix) : "memory");
}
static __device__ __forceinline__ void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
static __device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> static __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }
// Rows of 64 bf16 (128 bytes), swizzled over 128 bytes, groups of eight rows 1024 bytes apart; the address a multiple of 1024, or that plus
// 32 bytes for each step of 16 along the row.
static __device__ __forceinline__ u64 matrix_descriptor(const void* p) {
    return (u64)(shared_address(p) >> 4 & 0x3fff) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
