// A mixture of experts: who is chosen, and what they make of a token. Nothing of it goes by way of the host.
//
// The plain way: a warp for a row of an expert that a token has chosen, whatever the types of the matrices.
#include "types.cuh"
#include "route.cuh"

// One expert. As in `src/experts.rs`.
struct Expert {
    // None where there is no gate, or no bias.
    const u8 *gate, *up, *down;
    const float *gate_bias, *up_bias, *down_bias;
    int gate_quant, up_quant, down_quant, unused;
};

// scores[t]: from the router's scores of all experts to their weights, zero for those not chosen; `chosen` gets who was, in the
// order of their numbers, -1 behind them, and `shares` their weights; `mixture` begins with zeros.
//
// grid (1, tokens), one warp; shared memory for two values and a byte an expert.
KERNEL route(const int *tokens, float *mixture, int hidden, const __grid_constant__ Routing routing) {
    extern __shared__ float shared[];
    follow();
    int token = blockIdx.y, lane = threadIdx.x;
    if (token >= *tokens) return;
    for (int i = lane; i < hidden; i += 32) mixture[(size_t)token * hidden + i] = 0.0f;
    float *keys = shared + routing.count;
    route_row(routing, token, shared, keys, (u8 *)(keys + routing.count), lane);
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
