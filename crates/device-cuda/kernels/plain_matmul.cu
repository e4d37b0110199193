// Products of a matrix in any storage type with the rows of a batch, the plain way: a warp for each row of the matrix, eight
// tokens at a time. An output is summed in the same order whatever the number of tokens.
#include "types.cuh"

// to[t] = W x[t] + bias, or to[t] += scale * (W x[t] + bias) where `added`.
//
// grid (rows / 4, tokens / 8), 128 threads.
template <int Q>
DEVICE void linear(const int *count, const u8 *weight, const float *bias, int rows, int columns, const float *x, float *to,
                   int added, float scale) {
    const int T = 8;
    int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, first = blockIdx.y * T;
    int inputs = min(T, *count - first);
    if (row >= rows || inputs <= 0) return;
    float sums[T] = {};
    const u8 *from = weight + (size_t)row * row_bytes(Q, columns);
    if (inputs == 1) {
        lane_products<Q, 1>(from, columns, x + (size_t)first * columns, columns, 1, lane, sums);
    } else {
        lane_products<Q, T>(from, columns, x + (size_t)first * columns, columns, inputs, lane, sums);
    }
#pragma unroll
    for (int t = 0; t < T; t++) {
        float sum = warp_sum(sums[t]);
        if (lane == t && t < inputs) {
            float y = sum + (bias ? bias[row] : 0.0f);
            float *place = to + (size_t)(first + t) * rows + row;
            *place = added ? *place + scale * y : y;
        }
    }
}

#define LINEAR(Q)                                                                                                    \
    KERNEL linear_##Q(const int *count, const u8 *weight, const float *bias, int rows, int columns, const float *x,   \
                      float *to, int added, float scale) {                                                           \
        linear<Q>(count, weight, bias, rows, columns, x, to, added, scale);                                          \
    }
QUANTISED(LINEAR)
LINEAR(F32)
LINEAR(F16)
LINEAR(BF16)
LINEAR(F8_E4M3)
