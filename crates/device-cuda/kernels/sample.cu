// The choice of tokens.
#include "plain.cuh"
#include "ordered.cuh"

// The most likely token of every row, the first among equals, among those whose bit is set; ~0 where there is none.
// `masks` is (any, words); `masked` (rows) says which of them a row has, from 1 on, and 0 where it has none; it is null where no row has one. `best` (rows) and
// `arrived` (rows) are zeros and left so.
//
// grid (any, rows), 256 threads: the blocks of a row share it, and the last to come says what they found.
KERNEL greedy(const int *count, const float *logits, const u32 *masks, const int *masked, int vocab, u64 *best, u32 *arrived,
              u32 *tokens) {
    __shared__ u64 most[8];
    int row = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (row >= *count) return;
    const float *from = logits + (size_t)row * vocab;
    const u32 *mask = masked && masked[row] ? masks + (size_t)(masked[row] - 1) * ((vocab + 31) / 32) : 0;
    u64 own = 0;
    int step = gridDim.x * blockDim.x;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < vocab; i += step) {
        float value = from[i];
        u32 word = mask ? mask[i / 32] : ~0u;
        bool allowed = !isnan(value) && word >> (i % 32) & 1;
        u64 key = (u64)ordered(value) << 32 | (u32)~i;
        if (allowed && key > own) own = key;
    }
    for (int round = 0; round < 2; round++) {
        for (int step = 16; step > 0; step /= 2) {
            u64 other = __shfl_xor_sync(~0u, own, step);
            if (other > own) own = other;
        }
        if (round == 1) break;
        if (lane == 0) most[warp] = own;
        __syncthreads();
        own = lane < 8 ? most[lane] : 0;
    }
    if (threadIdx.x != 0) return;
    atomicMax(best + row, own);
    __threadfence();
    if (atomicAdd(arrived + row, 1) + 1 != gridDim.x) return;
    __threadfence();
    u64 found = atomicExch(best + row, 0ull);
    arrived[row] = 0;
    tokens[row] = found ? ~(u32)found : ~0u;
}
