// What latent attention does to its queries and rows, head by head; the matrices of heads lie wherever they lie.
#include "types.cuh"

// query[t][h] = with position, then keys[h] of what has none: `nope` values of `parts`, then `rope` with a position.
//
// grid (latent / 128 + 1, heads, tokens), 128 threads; a warp for a row, or eight columns for a thread where it is turned.
KERNEL fold(const int *count, const u8 *const *keys, int quant, int turned, const float *parts, float *query, int nope,
            int rope, int latent) {
    int head = blockIdx.y, token = blockIdx.z, heads = gridDim.y;
    if (token >= *count) return;
    size_t at = (size_t)token * heads + head;
    const float *x = parts + at * (nope + rope);
    float *to = query + at * (latent + rope);
    if (blockIdx.x == 0)
        for (int i = threadIdx.x; i < rope; i += blockDim.x) to[i] = x[nope + i];
    to += rope;
    const u8 *matrix = keys[head];
    if (turned) {
        size_t bytes = row_bytes(quant, latent);
        int group = blockIdx.x * blockDim.x + threadIdx.x;
        if (8 * group >= latent) return;
        float sums[8] = {};
        for (int row = 0; row < nope; row++) {
            float w[8];
            eight_of(quant, matrix + row * bytes, latent, group, w);
            EACH sums[j] = fmaf(x[row], w[j], sums[j]);
        }
        for (int j = 0; j < 8 && 8 * group + j < latent; j++) to[8 * group + j] = sums[j];
    } else {
        // Rows of activations begin wherever heads do: only of a copy are eight read at once.
        extern __shared__ float4 copy[];
        float *own = (float *)copy;
        for (int i = threadIdx.x; i < nope; i += blockDim.x) own[i] = x[i];
        __syncthreads();
        size_t bytes = row_bytes(quant, nope);
        int lane = threadIdx.x % 32, last = min(latent, (int)(blockIdx.x + 1) * 128);
        for (int row = blockIdx.x * 128 + threadIdx.x / 32; row < last; row += blockDim.x / 32) {
            float y = product(quant, matrix + row * bytes, nope, own, lane);
            if (lane == 0) to[row] = y;
        }
    }
}

// key[t] = the last `rope` values of value[t], then the norm of the others.
//
// grid (1, tokens), 256 threads.
KERNEL fold_key(const int *count, const float *value, float *key, const float *weight, const float *bias, int rope, int latent,
                int layer, float epsilon) {
    int token = blockIdx.y;
    if (token >= *count) return;
    const float *x = value + (size_t)token * (latent + rope);
    float *to = key + (size_t)token * (latent + rope);
    for (int i = threadIdx.x; i < rope; i += blockDim.x) to[i] = x[latent + i];
    float mean = 0.0f, squares = 0.0f;
    if (layer) {
        for (int i = threadIdx.x; i < latent; i += blockDim.x) mean += x[i];
        mean = block_sum(mean) / latent;
    }
    for (int i = threadIdx.x; i < latent; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
    float factor = 1.0f / sqrtf(block_sum(squares) / latent + epsilon);
    for (int i = threadIdx.x; i < latent; i += blockDim.x)
        to[rope + i] = (x[i] - mean) * factor * weight[i] + (bias ? bias[i] : 0.0f);
}

// parts[t][h] = values[h] mixed[t][h].
//
// grid (rows / 128, heads, tokens), 128 threads; a warp for a row; shared memory for `latent` values.
KERNEL unfold(const int *count, const u8 *const *values, int quant, const float *mixed, float *parts, int latent, int rows) {
    int head = blockIdx.y, token = blockIdx.z, heads = gridDim.y, lane = threadIdx.x % 32;
    if (token >= *count) return;
    size_t at = (size_t)token * heads + head, bytes = row_bytes(quant, latent);
    extern __shared__ float4 copy[];
    float *own = (float *)copy;
    for (int i = threadIdx.x; i < latent; i += blockDim.x) own[i] = mixed[at * latent + i];
    __syncthreads();
    int last = min(rows, (int)(blockIdx.x + 1) * 128);
    for (int row = blockIdx.x * 128 + threadIdx.x / 32; row < last; row += blockDim.x / 32) {
        float y = product(quant, values[head] + row * bytes, latent, own, lane);
        if (lane == 0) parts[at * rows + row] = y;
    }
}
