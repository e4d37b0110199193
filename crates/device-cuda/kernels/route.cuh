// Which experts a token goes to, from its router's scores: for one warp, whatever else its kernel does.
#pragma once
#include "ordered.cuh"

enum { SOFTMAX, SIGMOID_SCORES, SOFTMAX_OF_CHOSEN };

// How a router chooses, and where its choice goes. As in `src/experts.rs`.
struct Routing {
    float *scores;      // (tokens, count): from scores to weights, zero for those not chosen
    int *chosen;        // (tokens, wanted): who was, in the order of their numbers, -1 behind them
    float *shares;      // (tokens, wanted): their weights
    const float *bias;  // (count): added to what is compared; none where null
    int count, wanted, scoring;
    // Groups of experts, at most 32, how many of them are kept, and whether a group's rank is the sum of its two best; 0 groups are none.
    int groups, kept, two_best;
    int normalised;
    float plus, scale;
};

// The place of the largest key among those that may be chosen, the first among equals; -1 where there is none. For one warp.
static __device__ __forceinline__ int first_largest(const float *keys, const u8 *taken, int count, int lane) {
    int best = -1;
    float most = 0.0f;
    for (int i = lane; i < count; i += 32)
        if (!taken[i] && (best < 0 || keys[i] > most)) best = i, most = keys[i];
    for (int step = 16; step > 0; step /= 2) {
        int other = __shfl_xor_sync(~0u, best, step);
        float larger = __shfl_xor_sync(~0u, most, step);
        if (other >= 0 && (best < 0 || larger > most || (larger == most && other < best))) best = other, most = larger;
    }
    return best;
}

// Takes the `wanted` largest, the first among equals. For one warp; up to 256 of them stay in its registers.
static __device__ __forceinline__ void choose_largest(const float *keys, u8 *taken, int count, int wanted, int lane) {
    const int KEYS = 8;
    if (count > 32 * KEYS) {
        for (int i = 0; i < wanted; i++) {
            int best = first_largest(keys, taken, count, lane);
            if (best >= 0 && lane == 0) taken[best] = 1;
            __syncwarp();
        }
        return;
    }
    u32 own[KEYS];
#pragma unroll
    for (int k = 0; k < KEYS; k++) own[k] = 32 * k + lane < count ? ordered(keys[32 * k + lane]) : 0;
    for (int i = 0; i < wanted && i < count; i++) {
        u32 most = 0;
#pragma unroll
        for (int k = 0; k < KEYS; k++) most = max(most, own[k]);
        most = __reduce_max_sync(~0u, most);
        u32 first = ~0u;
#pragma unroll
        for (int k = KEYS - 1; k >= 0; k--)
            if (own[k] == most) first = 32 * k + lane;
        first = __reduce_min_sync(~0u, first);
#pragma unroll
        for (int k = 0; k < KEYS; k++)
            if (32 * k + lane == first) own[k] = 0;
        if (lane == 0) taken[first] = 1;
    }
    __syncwarp();
}

// Chooses for one token. `own` and `keys` (count) and `taken` (count) are memory of this warp.
static __device__ __forceinline__ void route_row(const Routing &r, int token, float *own, float *keys, u8 *taken, int lane) {
    const float NONE = -__builtin_huge_valf();
    const int count = r.count;
    float *row = r.scores + (size_t)token * count;
    float most = NONE, sum = 0.0f;
    for (int i = lane; i < count; i += 32) most = fmaxf(most, own[i] = __ldcg(row + i));
    if (r.scoring == SOFTMAX) {
        most = warp_max(most);
        for (int i = lane; i < count; i += 32) sum += own[i] = expf(own[i] - most);
        sum = warp_sum(sum);
        for (int i = lane; i < count; i += 32) own[i] /= sum;
    } else if (r.scoring == SIGMOID_SCORES) {
        for (int i = lane; i < count; i += 32) own[i] = 1.0f / (1.0f + expf(-own[i]));
    }
    for (int i = lane; i < count; i += 32) {
        float key = own[i] + (r.bias ? r.bias[i] : 0.0f);
        keys[i] = isnan(key) ? NONE : key;
        taken[i] = 0;
    }
    __syncwarp();
    if (r.groups > 0) {
        int size = count / r.groups;
        // A lane a group: its rank, then how many are better. There are at most 32 groups.
        float rank = NONE;
        if (lane < r.groups) {
            float first = NONE, second = NONE;
            for (int i = lane * size; i < (lane + 1) * size; i++) {
                if (keys[i] > first) second = first, first = keys[i];
                else second = fmaxf(second, keys[i]);
            }
            rank = r.two_best ? first + second : first;
        }
        int better = 0;
        for (int other = 0; other < r.groups; other++) {
            float its = __shfl_sync(~0u, rank, other);
            better += its > rank || (its == rank && other < lane);
        }
        if (lane < r.groups && better >= r.kept)
            for (int i = lane * size; i < (lane + 1) * size; i++) keys[i] = NONE;
        __syncwarp();
    }
    choose_largest(keys, taken, count, r.wanted, lane);
    float divisor = 1.0f;
    if (r.scoring == SOFTMAX_OF_CHOSEN) {
        most = NONE, sum = 0.0f;
        for (int i = lane; i < count; i += 32)
            if (taken[i]) most = fmaxf(most, own[i]);
        most = warp_max(most);
        for (int i = lane; i < count; i += 32)
            if (taken[i]) sum += own[i] = expf(own[i] - most);
        divisor = warp_sum(sum);
    } else if (r.normalised) {
        sum = 0.0f;
        for (int i = lane; i < count; i += 32)
            if (taken[i]) sum += own[i];
        divisor = warp_sum(sum) + r.plus;
    }
    int found = 0;
    for (int first = 0; first < count; first += 32) {
        int i = first + lane;
        bool is = i < count && taken[i];
        u32 which = __ballot_sync(~0u, is);
        float share = is ? own[i] / divisor * r.scale : 0.0f;
        if (i < count) row[i] = share;
        size_t place = (size_t)token * r.wanted + found + __popc(which & ((1u << lane) - 1));
        if (is) r.chosen[place] = i, r.shares[place] = share;
        found += __popc(which);
    }
    for (int i = found + lane; i < r.wanted; i += 32) r.chosen[(size_t)token * r.wanted + i] = -1, r.shares[(size_t)token * r.wanted + i] = 0.0f;
}
