// What goes from token to token in a state. Tokens of a sequence are taken in order with one fixed arithmetic each; sequences,
// heads and channels are shared out. A sequence of which nothing is cached starts from zeros.
#include "plain.cuh"

static const int TAPS = 16;

// Convolves every channel in place; `tails` is (slots, channels, taps - 1), the oldest first.
//
// grid (channels / 128, sequences), 128 threads, a thread for a channel.
KERNEL convolve(Batch batch, float *x, float *tails, const float *weight, const float *bias, int channels, int taps,
                int activation, float limit, float steepness) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if ((int)blockIdx.y >= batch.counts[2] || channel >= channels) return;
    Sequence s = batch.sequences[blockIdx.y];
    float *tail = tails + ((size_t)s.slot * channels + channel) * (taps - 1);
    float seen[TAPS], w[TAPS];
    for (int i = 0; i < TAPS; i++) {
        seen[i] = i < taps - 1 && s.cached > 0 ? tail[i] : 0.0f;
        w[i] = i < taps ? weight[(size_t)channel * taps + i] : 0.0f;
    }
    float start = bias ? bias[channel] : 0.0f;
    for (int t = s.first; t < s.first + s.count; t++) {
        float *value = x + (size_t)t * channels + channel, newest = *value, sum = start;
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            if (i < taps - 1) sum += w[i] * seen[i];
            if (i == taps - 1) sum += w[i] * newest;
        }
#pragma unroll
        for (int i = 0; i + 1 < TAPS; i++) seen[i] = i == taps - 2 ? newest : seen[i + 1];
        *value = activated(activation, limit, steepness, sum);
    }
    for (int i = 0; i < taps - 1; i++) tail[i] = seen[i];
}

// change[t] = from[t - 1] - from[t]; `before` is (slots, hidden).
//
// grid (hidden / 128, sequences), 128 threads, a thread for a channel.
KERNEL shift(Batch batch, const float *from, float *change, float *before, int hidden) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if ((int)blockIdx.y >= batch.counts[2] || channel >= hidden) return;
    Sequence s = batch.sequences[blockIdx.y];
    float *state = before + (size_t)s.slot * hidden + channel, last = s.cached > 0 ? *state : 0.0f;
    for (int t = s.first; t < s.first + s.count; t++) {
        float value = from[(size_t)t * hidden + channel];
        change[(size_t)t * hidden + channel] = last - value;
        last = value;
    }
    *state = last;
}

static const int COLUMNS = 16;

// One row of a head of a selective state space by a warp, 32 * COLUMNS columns at most.
//
// grid (head_dim / 4, heads, sequences), 4 warps.
KERNEL scan(Batch batch, const float *channels, const float *steps, float *mixed, float *states, const float *decay,
            const float *step_bias, const float *skip, int head_dim, int groups, int columns, float least, float most) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32, head = blockIdx.y, heads = gridDim.y;
    if ((int)blockIdx.z >= batch.counts[2] || row >= head_dim) return;
    Sequence s = batch.sequences[blockIdx.z];
    int width = heads * head_dim, all = width + 2 * groups * columns;
    int b = width + head / (heads / groups) * columns, c = b + groups * columns;
    float *kept = states + (((size_t)s.slot * heads + head) * head_dim + row) * columns;
    float state[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        state[i] = s.cached > 0 && 32 * i + lane < columns ? kept[32 * i + lane] : 0.0f;
    for (int t = s.first; t < s.first + s.count; t++) {
        const float *in = channels + (size_t)t * all;
        float step = fminf(fmaxf(softplus(steps[(size_t)t * heads + head] + step_bias[head]), least), most);
        float keep = expf(step * decay[head]), x = in[head * head_dim + row], taken = step * x, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            int column = 32 * i + lane;
            if (column >= columns) break;
            state[i] = state[i] * keep + taken * in[b + column];
            sum += state[i] * in[c + column];
        }
        sum = warp_sum(sum);
        if (lane == 0) mixed[(size_t)t * width + head * head_dim + row] = sum + skip[head] * x;
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        if (32 * i + lane < columns) kept[32 * i + lane] = state[i];
}

// One channel of a selective state space each of whose columns decays at a pace of its own, by a warp, COLUMNS columns of the state a lane.
//
// grid (width / 4, sequences), 4 warps.
KERNEL selective(Batch batch, const float *channels, const float *steps, const float *b, const float *c, float *mixed, float *states,
                 const float *decay, const float *skip, int width, int columns) {
    int lane = threadIdx.x % 32, channel = blockIdx.x * 4 + threadIdx.x / 32;
    if ((int)blockIdx.y >= batch.counts[2] || channel >= width) return;
    Sequence s = batch.sequences[blockIdx.y];
    float *kept = states + ((size_t)s.slot * width + channel) * columns;
    float state[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        state[i] = s.cached > 0 && 32 * i + lane < columns ? kept[32 * i + lane] : 0.0f;
    for (int t = s.first; t < s.first + s.count; t++) {
        float step = softplus(steps[(size_t)t * width + channel]), x = channels[(size_t)t * width + channel], taken = step * x, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            int column = 32 * i + lane;
            if (column >= columns) break;
            float keep = expf(step * decay[(size_t)channel * columns + column]);
            state[i] = state[i] * keep + taken * b[(size_t)t * columns + column];
            sum += state[i] * c[(size_t)t * columns + column];
        }
        sum = warp_sum(sum);
        if (lane == 0) mixed[(size_t)t * width + channel] = sum + skip[channel] * x;
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        if (32 * i + lane < columns) kept[32 * i + lane] = state[i];
}

// One head of the gated delta rule by a block: a thread for a value, which goes through its column of the state.
//
// grid (heads, sequences), value_dim threads or more, in whole warps; shared memory for a key and a query, and for the state
// where it fits (`resident`).
KERNEL delta(Batch batch, const float *channels, const float *steps, const float *rates, float *mixed, float *states,
             const float *decay, const float *step_bias, int keys, int key_dim, int value_dim, int interleaved, float epsilon,
             int resident) {
    extern __shared__ float shared[];
    int head = blockIdx.x, heads = gridDim.x, index = threadIdx.x;
    if ((int)blockIdx.y >= batch.counts[2]) return;
    Sequence s = batch.sequences[blockIdx.y];
    int row = 2 * keys * key_dim + heads * value_dim, key = interleaved ? head % keys : head / (heads / keys);
    float *q = shared, *k = shared + key_dim;
    float *kept = states + ((size_t)s.slot * heads + head) * key_dim * value_dim;
    float *state = resident ? k + key_dim : kept;
    for (int i = index; i < key_dim * value_dim; i += blockDim.x) state[i] = s.cached > 0 ? kept[i] : 0.0f;
    for (int t = s.first; t < s.first + s.count; t++) {
        const float *in = channels + (size_t)t * row;
        __syncthreads();
        float q_squares = 0.0f, k_squares = 0.0f, both = 0.0f;
        for (int i = index; i < key_dim; i += blockDim.x) {
            float a = in[key * key_dim + i], b = in[(keys + key) * key_dim + i];
            q[i] = a, k[i] = b;
            q_squares += a * a, k_squares += b * b;
        }
        float q_factor = 1.0f / sqrtf((float)key_dim) / sqrtf(block_sum(q_squares) + epsilon);
        float k_factor = 1.0f / sqrtf(block_sum(k_squares) + epsilon);
        for (int i = index; i < key_dim; i += blockDim.x) {
            q[i] *= q_factor, k[i] *= k_factor;
            both += q[i] * k[i];
        }
        both = block_sum(both);
        __syncthreads();
        float keep = expf(decay[head] * softplus(steps[(size_t)t * heads + head] + step_bias[head]));
        float rate = sigmoid(rates[(size_t)t * heads + head]);
        if (index >= value_dim) continue;
        float for_k = 0.0f, for_q = 0.0f;
        for (int i = 0; i < key_dim; i++) {
            float value = state[i * value_dim + index];
            for_k += value * k[i], for_q += value * q[i];
        }
        float correction = (in[2 * keys * key_dim + head * value_dim + index] - keep * for_k) * rate;
        for (int i = 0; i < key_dim; i++) {
            float *value = state + i * value_dim + index;
            *value = *value * keep + k[i] * correction;
        }
        mixed[(size_t)t * heads * value_dim + head * value_dim + index] = keep * for_q + both * correction;
    }
    __syncthreads();
    if (resident)
        for (int i = index; i < key_dim * value_dim; i += blockDim.x) kept[i] = state[i];
}

// One head of RWKV-7's rule by a block: a thread for a value, which goes through its column of the state.
//
// grid (heads, sequences), head_dim threads or more, in whole warps; shared memory for five rows of a head.
KERNEL replace(Batch batch, const float *query, float *key, float *value, const float *steps, const float *rates, float *first,
               float *mixed, float *states, const float *removal, const float *insertion, int head_dim, int residual) {
    extern __shared__ float shared[];
    int head = blockIdx.x, heads = gridDim.x, index = threadIdx.x;
    if ((int)blockIdx.y >= batch.counts[2]) return;
    Sequence s = batch.sequences[blockIdx.y];
    bool mine = index < head_dim;
    float *r = shared, *keep = r + head_dim, *seen = keep + head_dim, *back = seen + head_dim, *k = back + head_dim;
    float *state = states + ((size_t)s.slot * heads + head) * head_dim * head_dim;
    if (s.cached == 0 && mine)
        for (int i = 0; i < head_dim; i++) state[i * head_dim + index] = 0.0f;
    for (int t = s.first; t < s.first + s.count; t++) {
        size_t at = ((size_t)t * heads + head) * head_dim + index;
        __syncthreads();
        float v = 0.0f, u = 0.0f, rate = 0.0f;
        if (mine) {
            r[index] = query[at];
            keep[index] = expf(-0.60653066f * sigmoid(steps[at]));
            rate = sigmoid(rates[at]);
            u = key[at] * removal[head * head_dim + index];
            k[index] = key[at] * (1.0f + (rate - 1.0f) * insertion[head * head_dim + index]);
            v = value[at];
            if (residual) v += (first[at] - v) * sigmoid(mixed[at]);
        }
        float factor = 1.0f / fmaxf(sqrtf(block_sum(u * u)), 1e-12f);
        if (mine) seen[index] = u * factor, back[index] = rate * (u * factor);
        __syncthreads();
        if (!mine) continue;
        float has = 0.0f, y = 0.0f;
        for (int i = 0; i < head_dim; i++) has += state[i * head_dim + index] * seen[i];
        for (int i = 0; i < head_dim; i++) {
            float *place = state + i * head_dim + index, x = *place * keep[i] + (k[i] * v - back[i] * has);
            *place = x;
            y += x * r[i];
        }
        mixed[at] = y;
        key[at] = k[index];
        value[at] = v;
        if (!residual) first[at] = v;
    }
}

// mixed[t][h] += (query[t][h] * key[t][h] * bonus[h]) value[t][h].
//
// grid (heads, tokens), one warp.
KERNEL pass_by(const int *count, const float *query, const float *key, const float *value, float *mixed, const float *bonus,
               int head_dim) {
    if ((int)blockIdx.y >= *count) return;
    size_t at = ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * head_dim;
    float passes = 0.0f;
    for (int i = threadIdx.x; i < head_dim; i += 32) passes += query[at + i] * key[at + i] * bonus[blockIdx.x * head_dim + i];
    passes = warp_sum(passes);
    for (int i = threadIdx.x; i < head_dim; i += 32) mixed[at + i] += passes * value[at + i];
}
