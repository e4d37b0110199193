// What is done to every value, or to every group of neighbours: norms, ropes, activations, sums.
//
// `count` is where the number of rows is, of tokens or of outputs. Where nothing else is said, a thread has a value.
#include "plain.cuh"

#define VALUE(WIDTH)                                                         \
    follow();                                                                \
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;               \
    if (at >= (size_t)*count * (WIDTH)) return;

// Normalises groups of `width` values; the weight is that of `parts` groups in turn.
//
// grid (groups, rows), a block for a group.
KERNEL normalise(const int *count, const float *from, float *to, const float *weight, const float *bias, int width, int parts,
            int layer, float epsilon) {
    follow();
    if (blockIdx.y >= *count) return;
    size_t group = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
    const float *x = from + group * width;
    size_t part = group % parts * width;
    float mean = 0.0f, squares = 0.0f;
    if (layer) {
        for (int i = threadIdx.x; i < width; i += blockDim.x) mean += x[i];
        mean = block_sum(mean) / width;
    }
    for (int i = threadIdx.x; i < width; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
    float factor = 1.0f / sqrtf(block_sum(squares) / width + epsilon);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float y = (x[i] - mean) * factor * weight[part + i];
        to[group * width + i] = bias ? y + bias[part + i] : y;
    }
}

// Turns the pairs of each of `heads` heads; halves of `pairs` values, or neighbours.
//
// grid (heads * pairs / 128, tokens), 128 threads.
KERNEL rope(const int *count, const float2 *turns, int pairs, int halves, int heads, int head_dim, float *buffer) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y;
    if (token >= *count || i >= heads * pairs) return;
    int head = i / pairs, pair = i % pairs;
    float2 turn = turns[(size_t)token * pairs + pair];
    float *x = buffer + ((size_t)token * heads + head) * head_dim;
    int first = halves ? pair : 2 * pair, second = halves ? pair + pairs : 2 * pair + 1;
    float a = x[first], b = x[second];
    x[first] = a * turn.x - b * turn.y;
    x[second] = b * turn.x + a * turn.y;
}

// gate = activation(factor * gate) * up, or activation(up).
KERNEL activate(const int *count, float *gate, const float *up, int width, int activation, float limit, float steepness,
                int gated, float factor) {
    VALUE(width)
    gate[at] = gated ? activated(activation, limit, steepness, gate[at] * factor) * beside_gate(activation, limit, up[at])
                     : activated(activation, limit, steepness, up[at]);
}

// gate = activation(gate) * values.
KERNEL gate(const int *count, float *gate, const float *values, int width, int activation, float limit, float steepness) {
    VALUE(width)
    gate[at] = activated(activation, limit, steepness, gate[at]) * values[at];
}

// Multiplies `width` values of each row of `row` values, from `start` on.
KERNEL scale(const int *count, float *buffer, int row, int start, int width, float factor) {
    VALUE(width)
    buffer[at / width * row + start + at % width] *= factor;
}

// A part of each group of a row of `packed`: `before` it and in it so many values, of `all` in a group.
KERNEL deal(const int *count, const float *packed, float *to, int groups, int all, int before, int width, int row,
            int start) {
    VALUE((size_t)groups * width)
    size_t token = at / ((size_t)groups * width), i = at % ((size_t)groups * width);
    to[token * row + start + i] = packed[(token * groups + i / width) * all + before + i % width];
}

// stream += scale * from.
KERNEL add(const int *count, float *stream, const float *from, int width, float scale) {
    VALUE(width)
    stream[at] += scale * from[at];
}

// leant = from + lean * change.
KERNEL lean(const int *count, const float *from, const float *change, const float *lean, float *leant, int width) {
    VALUE(width)
    leant[at] = from[at] + lean[at % width] * change[at];
}

// mixture += share * branch. The share is 1, the sigmoid of the token's only score, or that of expert `index` of `experts`.
KERNEL join(const int *count, const float *scores, const float *branch, float *mixture, int width, int kind, int index,
            int experts) {
    VALUE(width)
    size_t token = at / width;
    float share = kind == 0 ? 1.0f : kind == 1 ? sigmoid(scores[token]) : scores[token * experts + index];
    if (share != 0.0f) mixture[at] += share * branch[at];
}

// logits = cap(scale * logits).
KERNEL scale_logits(const int *count, float *logits, int width, float scale, int capped, float cap) {
    VALUE(width)
    float x = logits[at] * scale;
    logits[at] = capped ? cap * tanhf(x / cap) : x;
}
