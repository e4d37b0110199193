// The choice of tokens.
#include "plain.cuh"

// The most likely token of every row, the first among equals, among those whose bit is set; ~0 where there is none.
// `masks` is (rows, words); a row that has no mask has none in `masked`.
//
// grid (rows), 1024 threads.
KERNEL greedy(const int *count, const float *logits, const u32 *masks, const int *masked, int vocab, u32 *tokens) {
    __shared__ float values[32];
    __shared__ u32 places[32];
    int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (row >= *count) return;
    const float *from = logits + (size_t)row * vocab;
    const u32 *mask = masked[row] ? masks + (size_t)row * ((vocab + 31) / 32) : 0;
    float most = -INFINITE;
    u32 best = ~0u;
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        if (mask && !(mask[i / 32] >> (i % 32) & 1)) continue;
        float value = from[i];
        if (!isnan(value) && (best == ~0u || value > most)) most = value, best = i;
    }
    for (int round = 0; round < 2; round++) {
        for (int step = 16; step > 0; step /= 2) {
            float other = __shfl_xor_sync(~0u, most, step);
            u32 place = __shfl_xor_sync(~0u, best, step);
            if (place != ~0u && (best == ~0u || other > most || (other == most && place < best))) most = other, best = place;
        }
        if (round == 1) break;
        if (lane == 0) values[warp] = most, places[warp] = best;
        __syncthreads();
        most = values[lane], best = places[lane];
    }
    if (threadIdx.x == 0) tokens[row] = best;
}
