// A mixture of experts: who is chosen, and what they make of a token. Nothing of it goes by way of the host.
//
// The plain way: a warp for a row of an expert that a token has chosen, whatever the types of the matrices.
#include "types.cuh"

// One expert. As in `src/experts.rs`.
struct Expert {
    // None where there is no gate, or no bias.
    const u8 *gate, *up, *down;
    const float *gate_bias, *up_bias, *down_bias;
    int gate_quant, up_quant, down_quant, unused;
};

enum { SOFTMAX, SIGMOID_SCORES, SOFTMAX_OF_CHOSEN };

// The place of the largest key among those that may be chosen, the first among equals; -1 where there is none. For one warp.
DEVICE int first_largest(const float *keys, const u8 *taken, int count, int lane) {
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

// A value as a number whose order is that of the values; both zeros are the same. Never 0.
DEVICE u32 ordered(float value) {
    u32 bits = __float_as_uint(value + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// Takes the `wanted` largest, the first among equals. For one warp; up to 256 of them stay in its registers.
DEVICE void choose_largest(const float *keys, u8 *taken, int count, int wanted, int lane) {
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

// scores[t]: from the router's scores of all experts to their weights, zero for those not chosen; `chosen` gets who was, in the
// order of their numbers, -1 behind them, and `shares` their weights; `mixture` begins with zeros.
//
// grid (1, tokens), one warp; shared memory for two values and a byte an expert.
KERNEL route(const int *tokens, float *scores, int *chosen, float *shares, float *mixture, const float *bias, int count, int wanted,
             int scoring, int groups, int kept, int two_best, int normalised, float plus, float scale, int hidden) {
    extern __shared__ float shared[];
    follow();
    int token = blockIdx.y, lane = threadIdx.x;
    if (token >= *tokens) return;
    float *own = shared, *keys = shared + count;
    u8 *taken = (u8 *)(keys + count);
    float *row = scores + (size_t)token * count;
    for (int i = lane; i < hidden; i += 32) mixture[(size_t)token * hidden + i] = 0.0f;
    float most = -INFINITE, sum = 0.0f;
    for (int i = lane; i < count; i += 32) most = fmaxf(most, own[i] = row[i]);
    if (scoring == SOFTMAX) {
        most = warp_max(most);
        for (int i = lane; i < count; i += 32) sum += own[i] = expf(own[i] - most);
        sum = warp_sum(sum);
        for (int i = lane; i < count; i += 32) own[i] /= sum;
    } else if (scoring == SIGMOID_SCORES) {
        for (int i = lane; i < count; i += 32) own[i] = sigmoid(own[i]);
    }
    for (int i = lane; i < count; i += 32) {
        float key = own[i] + (bias ? bias[i] : 0.0f);
        keys[i] = isnan(key) ? -INFINITE : key;
        taken[i] = 0;
    }
    __syncwarp();
    if (groups > 0) {
        int size = count / groups;
        // A lane a group: its rank, then how many are better. There are at most 32 groups.
        float rank = -INFINITE;
        if (lane < groups) {
            float first = -INFINITE, second = -INFINITE;
            for (int i = lane * size; i < (lane + 1) * size; i++) {
                if (keys[i] > first) second = first, first = keys[i];
                else second = fmaxf(second, keys[i]);
            }
            rank = two_best ? first + second : first;
        }
        int better = 0;
        for (int other = 0; other < groups; other++) {
            float its = __shfl_sync(~0u, rank, other);
            better += its > rank || (its == rank && other < lane);
        }
        if (lane < groups && better >= kept)
            for (int i = lane * size; i < (lane + 1) * size; i++) keys[i] = -INFINITE;
        __syncwarp();
    }
    choose_largest(keys, taken, count, wanted, lane);
    float divisor = 1.0f;
    if (scoring == SOFTMAX_OF_CHOSEN) {
        most = -INFINITE, sum = 0.0f;
        for (int i = lane; i < count; i += 32)
            if (taken[i]) most = fmaxf(most, own[i]);
        most = warp_max(most);
        for (int i = lane; i < count; i += 32)
            if (taken[i]) sum += own[i] = expf(own[i] - most);
        divisor = warp_sum(sum);
    } else if (normalised) {
        sum = 0.0f;
        for (int i = lane; i < count; i += 32)
            if (taken[i]) sum += own[i];
        divisor = warp_sum(sum) + plus;
    }
    int found = 0;
    for (int first = 0; first < count; first += 32) {
        int i = first + lane;
        bool is = i < count && taken[i];
        u32 which = __ballot_sync(~0u, is);
        float share = is ? own[i] / divisor * scale : 0.0f;
        if (i < count) row[i] = share;
        size_t place = (size_t)token * wanted + found + __popc(which & ((1u << lane) - 1));
        if (is) chosen[place] = i, shares[place] = share;
        found += __popc(which);
    }
    for (int i = found + lane; i < wanted; i += 32) chosen[(size_t)token * wanted + i] = -1, shares[(size_t)token * wanted + i] = 0.0f;
}

// wide[t][k] = activation(factor * gate x[t]) * up x[t] of the k-th chosen expert.
//
// grid (width / 4, wanted, tokens), 4 warps, a warp for a row.
KERNEL experts_up(const int *tokens, const Expert *experts, const int *chosen, const float *x, float *wide, int hidden,
                  int width, int activation, float limit, float steepness, float factor) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32, wanted = gridDim.y, token = blockIdx.z;
    if (token >= *tokens || row >= width) return;
    size_t pair = (size_t)token * wanted + blockIdx.y;
    int who = chosen[pair];
    if (who < 0) return;
    Expert e = experts[who];
    const float *input = x + (size_t)token * hidden;
    float up = product(e.up_quant, e.up + row * row_bytes(e.up_quant, hidden), hidden, input, lane);
    if (e.up_bias) up += e.up_bias[row];
    float y;
    if (e.gate) {
        float gate = product(e.gate_quant, e.gate + row * row_bytes(e.gate_quant, hidden), hidden, input, lane);
        if (e.gate_bias) gate += e.gate_bias[row];
        y = activated(activation, limit, steepness, gate * factor) * beside_gate(activation, limit, up);
    } else {
        y = activated(activation, limit, steepness, up);
    }
    if (lane == 0) wide[pair * width + row] = y;
}

// mixture[t] += weight * down wide[t][k], over the chosen experts in the order of their numbers.
//
// grid (hidden / 4, tokens), 4 warps, a warp for a row.
KERNEL experts_down(const int *tokens, const Expert *experts, const int *chosen, const float *scores, const float *wide,
                    float *mixture, int hidden, int width, int wanted, int count) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32, token = blockIdx.y;
    if (token >= *tokens || row >= hidden) return;
    float sum = 0.0f;
    for (int k = 0; k < wanted; k++) {
        size_t pair = (size_t)token * wanted + k;
        int who = chosen[pair];
        if (who < 0) break;
        float share = scores[(size_t)token * count + who];
        if (share == 0.0f) continue;
        Expert e = experts[who];
        float y = product(e.down_quant, e.down + row * row_bytes(e.down_quant, width), width, wide + pair * width, lane);
        if (e.down_bias) y += e.down_bias[row];
        sum += share * y;
    }
    if (lane == 0) mixture[(size_t)token * hidden + row] += sum;
}
