// Attention over the pages of the cache, the plain way: a block for a head of a token, its warps taking turns at 32 positions.
//
// Keys and values may be parts of one row, as they are in latent attention.
#include "cache.cuh"

// Writes a head to its place in a half of the cache; `threads` threads of whole warps, this the one that begins with value `i`.
template <int KIND>
DEVICE void put(const float *from, u8 *codes, u16 *scales, size_t head, int width, int i, int threads) {
    int wide = padded(KIND, width);
    for (; i < (wide + 31) / 32 * 32; i += threads) {
        size_t at = head * wide + i;
        float x = i < width ? from[i] : 0.0f;
        if (KIND == CACHE_F32) {
            if (i < width) ((float *)codes)[at] = x;
        } else if (KIND == CACHE_F16) {
            if (i < width) ((u16 *)codes)[at] = to_half(x);
        } else {
            float most = warp_max(fabsf(x)), limit = KIND == CACHE_Q8 ? 127.0f : 7.0f, scale = most / limit;
            u16 half = to_half(scale);
            int code = most > 0.0f ? (int)rintf(x / scale) : 0;
            if (i % 32 == 0) scales[at / 32] = half;
            if (KIND == CACHE_Q8) {
                ((i8 *)codes)[at] = (i8)code;
            } else {
                int neighbour = __shfl_down_sync(~0u, code, 1);
                if (i % 2 == 0) codes[at / 2] = (u8)((code + 8) | (neighbour + 8) << 4);
            }
        }
    }
}

// Writes `heads` heads of `width` values of every token to their place in a half of the cache.
//
// grid (heads, tokens), a thread for a value of the padded head (a multiple of 32).
template <int KIND>
DEVICE void store(Batch &batch, const float *from, u8 *codes, u16 *scales, int width) {
    int index = blockIdx.y, i = threadIdx.x;
    if (index >= batch.counts[0]) return;
    Token token = batch.tokens[index];
    size_t place = place_of(batch, batch.pages + batch.sequences[token.sequence].pages, token.position);
    size_t head = place * gridDim.x + blockIdx.x;
    put<KIND>(from + ((size_t)index * gridDim.x + blockIdx.x) * width, codes, scales, head, width, i, blockDim.x);
}

// What becomes of queries, keys and values between their products and attention: norms of heads, ropes, the cache.
struct Turn {
    float *query;
    const float *key, *value;
    // None where heads have no norm.
    const float *query_norm, *key_norm;
    // None where there is no rope.
    const float2 *turns;
    u8 *keys;
    u16 *key_scales;
    u8 *values;
    u16 *value_scales;
    int heads, kv_heads, head_dim, pairs, halves;
    float query_epsilon, key_epsilon;
    int unused;
};

// Warps of a block that turns the heads of a token, and values of a head that a lane has at most.
static const int TURN_WARPS = 8;
static const int TURN_VALUES = 16;

// Heads of 32 * VALUES values whose rope, if there is one, turns the first half with the second: a lane has both of each pair. A warp asks for several
// heads at once, and for what they have in common once.
template <int KIND, int VALUES> DEVICE void turn_even(Batch &batch, const Turn &p) {
    const int TASKS = 3, WIDTH = 32 * VALUES;
    extern __shared__ float shared[];
    follow();
    int index = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, all = p.heads + 2 * p.kv_heads;
    float *own = shared + warp * WIDTH;
    float query_norm[VALUES], key_norm[VALUES];
    float2 turns[VALUES / 2];
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
        query_norm[i] = p.query_norm ? p.query_norm[32 * i + lane] : 1.0f;
        key_norm[i] = p.key_norm ? p.key_norm[32 * i + lane] : 1.0f;
    }
#pragma unroll
    for (int i = 0; i < VALUES / 2; i++) turns[i] = p.turns ? p.turns[(size_t)index * p.pairs + 32 * i + lane] : make_float2(1.0f, 0.0f);
    size_t place = 0;
    for (int first = warp; first < all; first += TASKS * TURN_WARPS) {
        float x[TASKS][VALUES];
#pragma unroll
        for (int k = 0; k < TASKS; k++) {
            int head = first + k * TURN_WARPS, key = head - p.heads, value = key - p.kv_heads;
            const float *from = key < 0     ? p.query + ((size_t)index * p.heads + head) * WIDTH
                                : value < 0 ? p.key + ((size_t)index * p.kv_heads + key) * WIDTH
                                            : p.value + ((size_t)index * p.kv_heads + value) * WIDTH;
#pragma unroll
            for (int i = 0; i < VALUES; i++) x[k][i] = head < all ? from[32 * i + lane] : 0.0f;
        }
        if (first == warp) {
            // Rows that are none have been read, and are left.
            if (index >= batch.counts[0]) return;
            Token token = batch.tokens[index];
            place = place_of(batch, batch.pages + batch.sequences[token.sequence].pages, token.position);
        }
#pragma unroll
        for (int k = 0; k < TASKS; k++) {
            int head = first + k * TURN_WARPS;
            if (head >= all) break;
            bool is_query = head < p.heads, is_key = !is_query && head < p.heads + p.kv_heads;
            if (is_query ? p.query_norm != 0 : is_key && p.key_norm) {
                float squares = 0.0f;
#pragma unroll
                for (int i = 0; i < VALUES; i++) squares += x[k][i] * x[k][i];
                float factor = 1.0f / sqrtf(warp_sum(squares) / WIDTH + (is_query ? p.query_epsilon : p.key_epsilon));
#pragma unroll
                for (int i = 0; i < VALUES; i++) x[k][i] = x[k][i] * factor * (is_query ? query_norm[i] : key_norm[i]);
            }
            if (p.turns && (is_query || is_key)) {
#pragma unroll
                for (int i = 0; i < VALUES / 2; i++) {
                    float a = x[k][i], b = x[k][i + VALUES / 2];
                    x[k][i] = a * turns[i].x - b * turns[i].y;
                    x[k][i + VALUES / 2] = b * turns[i].x + a * turns[i].y;
                }
            }
            float *to = is_query ? p.query + ((size_t)index * p.heads + head) * WIDTH : own;
            if (!is_query) __syncwarp();
#pragma unroll
            for (int i = 0; i < VALUES; i++) to[32 * i + lane] = x[k][i];
            if (is_query) continue;
            __syncwarp();
            size_t at = place * p.kv_heads + head - p.heads - (is_key ? 0 : p.kv_heads);
            put<KIND>(own, is_key ? p.keys : p.values, is_key ? p.key_scales : p.value_scales, at, WIDTH, lane, 32);
        }
    }
}

// grid (1, tokens), TURN_WARPS warps that take one head after the other; shared memory for a head of each. The next head is on its way while one is
// turned.
template <int KIND> DEVICE void turn(Batch &batch, const Turn &p) {
    if (!p.turns || (p.halves && 2 * p.pairs == p.head_dim)) {
        if (p.head_dim == 128) return turn_even<KIND, 4>(batch, p);
        if (p.head_dim == 64) return turn_even<KIND, 2>(batch, p);
    }
    extern __shared__ float shared[];
    follow();
    int index = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = p.head_dim, all = p.heads + 2 * p.kv_heads;
    float *own = shared + warp * width;
    if (index >= batch.counts[0]) return;
    Token token = batch.tokens[index];
    size_t place = place_of(batch, batch.pages + batch.sequences[token.sequence].pages, token.position);
    const float2 *turns = p.turns ? p.turns + (size_t)index * p.pairs : 0;
    float x[TURN_VALUES];
    auto load = [&](int head) {
        const float *from = head < p.heads                ? p.query + ((size_t)index * p.heads + head) * width
                            : head < p.heads + p.kv_heads ? p.key + ((size_t)index * p.kv_heads + head - p.heads) * width
                                                          : p.value + ((size_t)index * p.kv_heads + head - p.heads - p.kv_heads) * width;
#pragma unroll
        for (int i = 0; i < TURN_VALUES; i++) x[i] = 32 * i + lane < width ? from[32 * i + lane] : 0.0f;
    };
    if (warp < all) load(warp);
    for (int head = warp; head < all; head += TURN_WARPS) {
        bool is_query = head < p.heads, is_key = !is_query && head < p.heads + p.kv_heads;
        const float *norm = is_query ? p.query_norm : is_key ? p.key_norm : 0;
        float factor = 1.0f, squares = 0.0f;
        if (norm) {
#pragma unroll
            for (int i = 0; i < TURN_VALUES; i++) squares += x[i] * x[i];
            factor = 1.0f / sqrtf(warp_sum(squares) / width + (is_query ? p.query_epsilon : p.key_epsilon));
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < TURN_VALUES; i++)
            if (32 * i + lane < width) own[32 * i + lane] = norm ? x[i] * factor * norm[32 * i + lane] : x[i];
        if (head + TURN_WARPS < all) load(head + TURN_WARPS);
        __syncwarp();
        if (turns && (is_query || is_key)) {
            for (int pair = lane; pair < p.pairs; pair += 32) {
                float2 by = turns[pair];
                int first = p.halves ? pair : 2 * pair, second = p.halves ? pair + p.pairs : 2 * pair + 1;
                float a = own[first], b = own[second];
                own[first] = a * by.x - b * by.y;
                own[second] = b * by.x + a * by.y;
            }
            __syncwarp();
        }
        if (is_query) {
            float *to = p.query + ((size_t)index * p.heads + head) * width;
            for (int i = lane; i < width; i += 32) to[i] = own[i];
        } else {
            size_t to = place * p.kv_heads + head - p.heads - (is_key ? 0 : p.kv_heads);
            put<KIND>(own, is_key ? p.keys : p.values, is_key ? p.key_scales : p.value_scales, to, width, lane, 32);
        }
    }
}

// The shape of one attention.
struct Attention {
    // Values of a key in the queries, of a value, and the first of a cached row that belongs to the value.
    int key, value, value_start;
    int heads, kv_heads;
    // Positions seen, the own included; INT_MAX for all.
    int window;
    int both_ways;
    float scale;
    // None where they are not positive.
    float cap, alibi;
};

static const int WARPS = 4;
// Values of a head at most: 32 lanes by so many.
static const int PARTS = 16;

// What linear biases take off a score for every token between.
DEVICE float slope_of(const Attention &a, int head) {
    int power = 1 << (31 - __clz(a.heads));
    float step = head < power ? (float)(head + 1) / power : (float)(2 * (head - power) + 1) / (2 * power);
    return exp2f(-a.alibi * step);
}

// mixed[t][h] = softmax(scale * query[t][h] K^T) V.
//
// grid (heads, tokens), WARPS warps; shared memory for a query and, for each warp, the sums.
template <int KIND>
DEVICE void attend(Batch &batch, const float *query, float *mixed, const u8 *keys, const u16 *key_scales, const u8 *values,
                   const u16 *value_scales, const float *sinks, const Attention &a) {
    extern __shared__ float shared[];
    int index = blockIdx.y, head = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (index >= batch.counts[0]) return;
    Token token = batch.tokens[index];
    const u32 *pages = batch.pages + batch.sequences[token.sequence].pages;
    int kv_head = head / (a.heads / a.kv_heads), row = a.value_start + a.value;
    int key_row = a.value_start ? row : a.key;
    const float *q = query + ((size_t)index * a.heads + head) * a.key;
    float *own = shared, *sums = shared + a.key, *ends = sums + WARPS * a.value;
    for (int i = threadIdx.x; i < a.key; i += blockDim.x) own[i] = q[i];
    __syncthreads();
    int from = max(0, a.window == 0x7fffffff ? 0 : token.position + 1 - a.window);
    int to = !a.both_ways ? token.position + 1
             : a.window > token.end - token.position ? token.end
                                                     : min(token.end, token.position + a.window);
    float slope = slope_of(a, head), most = -INFINITE, total = 0.0f, parts[PARTS] = {};
    for (int first = from + 32 * warp; first < to; first += 32 * WARPS) {
        int seen = first + lane, here = min(32, to - first);
        float score = -INFINITE;
        size_t place = 0;
        if (seen < to) {
            place = place_of(batch, pages, seen) * a.kv_heads + kv_head;
            float dot = 0.0f;
            for (int i = 0; i < a.key; i++) dot = fmaf(own[i], cached<KIND>(keys, key_scales, place, key_row, i), dot);
            score = dot * a.scale;
            if (a.cap > 0.0f) score = a.cap * tanhf(score / a.cap);
            if (a.alibi > 0.0f) score -= slope * (float)abs(seen - token.position);
        }
        float larger = fmaxf(most, warp_max(score)), kept = most == -INFINITE ? 0.0f : expf(most - larger);
        float weight = seen < to ? expf(score - larger) : 0.0f;
        most = larger;
        total = total * kept + warp_sum(weight);
#pragma unroll
        for (int part = 0; part < PARTS; part++) parts[part] *= kept;
        for (int other = 0; other < here; other++) {
            float share = __shfl_sync(~0u, weight, other);
            size_t there = __shfl_sync(~0u, place, other);
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                int i = 32 * part + lane;
                if (i >= a.value) break;
                float v = cached<KIND>(values, value_scales, there, a.value_start ? row : a.value, a.value_start + i);
                parts[part] = fmaf(share, v, parts[part]);
            }
        }
    }
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int i = 32 * part + lane;
        if (i < a.value) sums[warp * a.value + i] = parts[part];
    }
    if (lane == 0) ends[2 * warp] = most, ends[2 * warp + 1] = total;
    __syncthreads();
    float largest = -INFINITE, sum = 0.0f;
    for (int w = 0; w < WARPS; w++) largest = fmaxf(largest, ends[2 * w]);
    for (int w = 0; w < WARPS; w++) sum += ends[2 * w + 1] > 0.0f ? ends[2 * w + 1] * expf(ends[2 * w] - largest) : 0.0f;
    if (sinks) sum += expf(sinks[head] - largest);
    for (int i = threadIdx.x; i < a.value; i += blockDim.x) {
        float y = 0.0f;
        for (int w = 0; w < WARPS; w++)
            if (ends[2 * w + 1] > 0.0f) y += sums[w * a.value + i] * expf(ends[2 * w] - largest);
        mixed[((size_t)index * a.heads + head) * a.value + i] = y / sum;
    }
}

#define EACH_KIND(NAME, KIND)                                                                                           \
    KERNEL store_##NAME(Batch batch, const float *from, u8 *codes, u16 *scales, int width) {                           \
        store<KIND>(batch, from, codes, scales, width);                                                                \
    }                                                                                                                  \
    KERNEL turn_##NAME(Batch batch, Turn p) { turn<KIND>(batch, p); }                                                  \
    KERNEL attend_##NAME(Batch batch, const float *query, float *mixed, const u8 *keys, const u16 *key_scales,          \
                         const u8 *values, const u16 *value_scales, const float *sinks, Attention a) {                 \
        attend<KIND>(batch, query, mixed, keys, key_scales, values, value_scales, sinks, a);                           \
    }
EACH_KIND(f32, CACHE_F32)
EACH_KIND(f16, CACHE_F16)
EACH_KIND(q8, CACHE_Q8)
EACH_KIND(q4, CACHE_Q4)
