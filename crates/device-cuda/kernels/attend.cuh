// Attention over the paged cache with tensor cores (mma.sync, sm_80 and up): the bodies of the kernels in attend.cu.
//
// Both kernels walk the cache in tiles of 64 tokens, copied ahead into shared memory as f16, with a running softmax (Dao 2023, arXiv:2307.08691).
// `prefill`: a warp has 16 query tokens of one head, a block 64. `decode`: the rows of a warp's products are the query heads that share a
// key-value head, so that the cache is read once for all of them; the four warps take 16 tokens of each tile, blocks take parts of the context
// whose size depends on its length alone, and the last block of a head adds the parts in their order.
#pragma once
#include "device.cuh"

// Up to 64 neighbouring query tokens of one sequence; for decode exactly one.
struct AttendTile {
    int token, count;  // rows of `q` and `to`
    int position;      // of the first token
    int end;           // tokens of the sequence, with those of this batch
    int table;         // where its page table begins in `pages`
};

struct Attend {
    const float* q;             // (tokens, heads, head_dim)
    float* to;                  // (tokens, heads, head_dim), or null
    u16* halves;                // the same as bf16, or null
    const u8 *keys, *values;    // element (page, head, token, dim) at page * page_stride + head * head_stride + token * token_stride + dim
    const u16 *key_scales, *value_scales;  // q8_0: f16, at the element's place / 32; null: keys and values are f16
    long page_stride, head_stride, token_stride;  // in elements, multiples of 8; for q8_0 multiples of 32
    const int* pages;
    const AttendTile* tiles;
    const float* sinks;         // (heads), or null
    float* partials;            // decode: (tiles, heads, splits, head_dim + 2)
    unsigned* counters;         // decode: (tiles, kv_heads * ((heads / kv_heads + 15) / 16)) zeros, left zeros
    int page_tokens;            // a multiple of 16
    int heads, kv_heads;
    int window;                 // tokens that a query sees, itself included; 0: all
    int both_ways;              // 1: it sees as many behind it too
    int splits;                 // decode: the most parts of a context
    int split_tokens;           // decode: the least tokens of a part, a multiple of 64
    float scale, soft_cap;      // soft_cap 0: none
};

static constexpr int TILE_TOKENS = 64;
static constexpr float LOG2_E = 1.4426950408889634f;

template <int DIM> struct Tiles {
    static constexpr int ROW = DIM * 2 + 16;  // bytes: neighbouring rows begin four banks apart
    static constexpr int BYTES = TILE_TOKENS * ROW;
};

static __device__ __forceinline__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void copy_async(u32 to, const void* from, bool live) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(live ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> static __device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
static __device__ __forceinline__ void load_matrices(u32 (&m)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void load_matrices_turned(u32 (&m)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void mma_half(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Eight codes and their scale to halves.
static __device__ __forceinline__ uint4 widen(uint2 codes, float scale) {
    float v[8];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = scale * (float)(signed char)(codes.x >> (8 * k)), v[4 + k] = scale * (float)(signed char)(codes.y >> (8 * k));
    return make_uint4(pack_half(v[0], v[1]), pack_half(v[2], v[3]), pack_half(v[4], v[5]), pack_half(v[6], v[7]));
}

// Copies keys and values of tokens first to first + 64 of one head to shared memory; those at `end` and after become zeros. 128 threads, eight
// to a row.
template <int DIM>
static __device__ __forceinline__ void copy_tile(const Attend& p, const int* pages, int head, int first, int end, u8* keys, u8* values) {
    constexpr int CHUNKS = DIM / 8;
#pragma unroll
    for (int i = 0; i < TILE_TOKENS / 16; i++) {
        const int row = i * 16 + threadIdx.x / 8, token = first + row;
        const bool live = token < end;
        const int which = token / p.page_tokens;
        const long at0 = live ? pages[which] * p.page_stride + head * p.head_stride + (token - which * p.page_tokens) * p.token_stride : 0;
#pragma unroll
        for (int c = 0; c < (CHUNKS + 7) / 8; c++) {
            const int chunk = c * 8 + threadIdx.x % 8;
            if (CHUNKS % 8 != 0 && chunk >= CHUNKS) break;
            const long at = at0 + chunk * 8;
            u8* key = keys + row * Tiles<DIM>::ROW + chunk * 16;
            u8* value = values + row * Tiles<DIM>::ROW + chunk * 16;
            if (!p.key_scales) {
                copy_async(shared_at(key), p.keys + at * 2, live);
                copy_async(shared_at(value), p.values + at * 2, live);
            } else {
                uint2 k = make_uint2(0, 0), v = make_uint2(0, 0);
                u16 k_scale = 0, v_scale = 0;
                if (live) {
                    k = *reinterpret_cast<const uint2*>(p.keys + at), v = *reinterpret_cast<const uint2*>(p.values + at);
                    k_scale = p.key_scales[at >> 5], v_scale = p.value_scales[at >> 5];
                }
                *reinterpret_cast<uint4*>(key) = widen(k, half_to_float(k_scale));
                *reinterpret_cast<uint4*>(value) = widen(v, half_to_float(v_scale));
            }
        }
    }
    copy_commit();
}

// The tokens that a query at `position` sees.
struct Sight { int first, last; };
static __device__ __forceinline__ Sight sees(const Attend& p, int position, int end) {
    Sight s;
    s.first = p.window > 0 ? max(position + 1 - p.window, 0) : 0;
    s.last = !p.both_ways ? position + 1 : p.window > 0 ? (int)min((long)position + p.window, (long)end) : end;
    return s;
}

// The running softmax of a warp's sixteen rows: of rows lane / 4 and lane / 4 + 8.
template <int DIM> struct Rows {
    float mixed[DIM / 8][4];
    float most[2], sum[2];  // in units of log2; `sum` is this lane's share
};

// The scores of COUNT * 8 tokens from `first`, to weights, and those into the running softmax. `keys` and `values`: the rows of the first token.
template <int DIM, int COUNT>
static __device__ __forceinline__ void take_in(const Attend& p, const u32 (&q)[DIM / 16][4], u32 keys, u32 values, int first, const Sight (&sight)[2], Rows<DIM>& rows) {
    const int lane = threadIdx.x & 31;
    float s[COUNT][4];
#pragma unroll
    for (int n = 0; n < COUNT; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
    const u32 key = keys + ((lane & 7) + (lane >> 4) * 8) * Tiles<DIM>::ROW + (lane >> 3 & 1) * 16;
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
#pragma unroll
        for (int n = 0; n < COUNT; n += 2) {
            u32 m[4];
            load_matrices(m, key + n * 8 * Tiles<DIM>::ROW + k * 32);
            mma_half(s[n], q[k], m[0], m[1]);
            mma_half(s[n + 1], q[k], m[2], m[3]);
        }
    }
    float most[2] = {rows.most[0], rows.most[1]};
#pragma unroll
    for (int n = 0; n < COUNT; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int token = first + n * 8 + (lane & 3) * 2 + (i & 1), half = i >> 1;
            float v = s[n][i] * p.scale;
            if (p.soft_cap > 0) v = p.soft_cap * (1.0f - 2.0f / (1.0f + __expf(2.0f * v / p.soft_cap)));
            v = token >= sight[half].first && token < sight[half].last ? v * LOG2_E : -INFINITY;
            s[n][i] = v;
            most[half] = fmaxf(most[half], v);
        }
    }
    float keep[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 1));
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 2));
        // A row that has seen nothing yet keeps zeros.
        keep[h] = most[h] == -INFINITY ? 1.0f : exp2f(rows.most[h] - most[h]);
        rows.most[h] = most[h];
        rows.sum[h] *= keep[h];
    }
    const float base[2] = {most[0] == -INFINITY ? 0.0f : most[0], most[1] == -INFINITY ? 0.0f : most[1]};
#pragma unroll
    for (int n = 0; n < COUNT; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = exp2f(s[n][i] - base[i >> 1]);
            rows.sum[i >> 1] += s[n][i];
        }
    }
#pragma unroll
    for (int d = 0; d < DIM / 8; d++) rows.mixed[d][0] *= keep[0], rows.mixed[d][1] *= keep[0], rows.mixed[d][2] *= keep[1], rows.mixed[d][3] *= keep[1];
    const u32 value = values + ((lane & 7) + (lane >> 3 & 1) * 8) * Tiles<DIM>::ROW + (lane >> 4) * 16;
#pragma unroll
    for (int n = 0; n < COUNT; n += 2) {
        const u32 weights[4] = {pack_half(s[n][0], s[n][1]), pack_half(s[n][2], s[n][3]), pack_half(s[n + 1][0], s[n + 1][1]), pack_half(s[n + 1][2], s[n + 1][3])};
#pragma unroll
        for (int d = 0; d < DIM / 8; d += 2) {
            u32 m[4];
            load_matrices_turned(m, value + n * 8 * Tiles<DIM>::ROW + d * 16);
            mma_half(rows.mixed[d], weights, m[0], m[1]);
            mma_half(rows.mixed[d + 1], weights, m[2], m[3]);
        }
    }
}

// Rows `at[h]` of floats (or null, for zeros) to the left operand of the products.
template <int DIM>
static __device__ __forceinline__ void load_queries(const float* const (&at)[2], u32 (&q)[DIM / 16][4]) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 v = at[i & 1] ? *reinterpret_cast<const float2*>(at[i & 1] + k * 16 + (i >> 1) * 8 + (lane & 3) * 2) : make_float2(0, 0);
            q[k][i] = pack_half(v.x, v.y);
        }
    }
}

static __device__ __forceinline__ void write_two(const Attend& p, size_t at, float a, float b) {
    if (p.to) *reinterpret_cast<float2*>(p.to + at) = make_float2(a, b);
    if (p.halves) *reinterpret_cast<u32*>(p.halves + at) = pack_bf16(a, b);
}

template <int DIM>
static __device__ __forceinline__ void attend_prefill(const Attend& p) {
    extern __shared__ __align__(16) u8 memory[];
    release_next_grid();
    wait_for_previous_grid();
    // Late tiles see most: they go first.
    const AttendTile tile = p.tiles[gridDim.y - 1 - blockIdx.y];
    const int head = blockIdx.x, kv_head = head / (p.heads / p.kv_heads), lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (tile.count <= 0) return;
    const int* pages = p.pages + tile.table;
    const int begin = sees(p, tile.position, tile.end).first / 16 * 16, end = sees(p, tile.position + tile.count - 1, tile.end).last;
    u32 q[DIM / 16][4];
    Sight sight[2];
    const float* at[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = warp * 16 + lane / 4 + 8 * h;
        sight[h] = row < tile.count ? sees(p, tile.position + row, tile.end) : Sight{0, 0};
        at[h] = row < tile.count ? p.q + ((size_t)(tile.token + row) * p.heads + head) * DIM : nullptr;
    }
    load_queries<DIM>(at, q);
    // What the warp's rows see between them.
    const int warp_last = warp * 16 < tile.count ? sees(p, tile.position + min(warp * 16 + 15, tile.count - 1), tile.end).last : 0;
    Rows<DIM> rows;
#pragma unroll
    for (int d = 0; d < DIM / 8; d++) rows.mixed[d][0] = rows.mixed[d][1] = rows.mixed[d][2] = rows.mixed[d][3] = 0;
    rows.most[0] = rows.most[1] = -INFINITY, rows.sum[0] = rows.sum[1] = 0;
    constexpr int BYTES = Tiles<DIM>::BYTES;
    copy_tile<DIM>(p, pages, kv_head, begin, end, memory, memory + BYTES);
    int turn = 0;
    for (int first = begin; first < end; first += TILE_TOKENS, turn ^= 1) {
        u8* here = memory + turn * 2 * BYTES;
        u8* there = memory + (turn ^ 1) * 2 * BYTES;
        if (first + TILE_TOKENS < end) {
            copy_tile<DIM>(p, pages, kv_head, first + TILE_TOKENS, end, there, there + BYTES);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();
        // Wide heads leave registers for the scores of half a tile.
        constexpr int AT_ONCE = DIM < 128 ? TILE_TOKENS : TILE_TOKENS / 2;
#pragma unroll 1
        for (int part = 0; part < TILE_TOKENS; part += AT_ONCE)
            if (first + part < warp_last) take_in<DIM, AT_ONCE / 8>(p, q, shared_at(here) + part * Tiles<DIM>::ROW, shared_at(here + BYTES) + part * Tiles<DIM>::ROW, first + part, sight, rows);
        __syncthreads();
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = rows.sum[h];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (p.sinks) sum += exp2f(p.sinks[head] * LOG2_E - rows.most[h]);
        const float factor = sum > 0 ? 1.0f / sum : 0.0f;
        const int row = warp * 16 + lane / 4 + 8 * h;
        if (row >= tile.count) continue;
        const size_t to = ((size_t)(tile.token + row) * p.heads + head) * DIM + (lane & 3) * 2;
#pragma unroll
        for (int d = 0; d < DIM / 8; d++) write_two(p, to + d * 8, rows.mixed[d][2 * h] * factor, rows.mixed[d][2 * h + 1] * factor);
    }
}

template <int DIM>
static __device__ __forceinline__ void attend_decode(const Attend& p) {
    extern __shared__ __align__(16) u8 memory[];
    __shared__ float mosts[4][16], totals[4][16];
    __shared__ unsigned arrived;
    constexpr int BYTES = Tiles<DIM>::BYTES;
    release_next_grid();
    wait_for_previous_grid();
    const int group = p.heads / p.kv_heads, parts = (group + 15) / 16;
    const int kv_head = blockIdx.y / parts, head0 = kv_head * group + blockIdx.y % parts * 16, heads = min(group - blockIdx.y % parts * 16, 16);
    const AttendTile tile = p.tiles[blockIdx.z];
    if (tile.count <= 0) return;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const Sight all = sees(p, tile.position, tile.end);
    // Parts are cut by the length alone, at multiples of 64.
    const int start = all.first / 64 * 64, each = max(((all.last - start + p.splits - 1) / p.splits + 63) / 64 * 64, p.split_tokens);
    const int splits = (all.last - start + each - 1) / each;
    if ((int)blockIdx.x >= splits) return;
    const int begin = start + blockIdx.x * each, end = min(begin + each, all.last);
    const int* pages = p.pages + tile.table;
    copy_tile<DIM>(p, pages, kv_head, begin, end, memory, memory + BYTES);
    u32 q[DIM / 16][4];
    const float* at[2];
    const Sight sight[2] = {{all.first, end}, {all.first, end}};
#pragma unroll
    for (int h = 0; h < 2; h++) at[h] = lane / 4 + 8 * h < heads ? p.q + ((size_t)tile.token * p.heads + head0 + lane / 4 + 8 * h) * DIM : nullptr;
    load_queries<DIM>(at, q);
    Rows<DIM> rows;
#pragma unroll
    for (int d = 0; d < DIM / 8; d++) rows.mixed[d][0] = rows.mixed[d][1] = rows.mixed[d][2] = rows.mixed[d][3] = 0;
    rows.most[0] = rows.most[1] = -INFINITY, rows.sum[0] = rows.sum[1] = 0;
    int turn = 0;
    for (int first = begin; first < end; first += TILE_TOKENS, turn ^= 1) {
        u8* here = memory + turn * 2 * BYTES;
        u8* there = memory + (turn ^ 1) * 2 * BYTES;
        if (first + TILE_TOKENS < end) {
            copy_tile<DIM>(p, pages, kv_head, first + TILE_TOKENS, end, there, there + BYTES);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();
        const int mine = warp * 16;
        if (first + mine < end) take_in<DIM, 2>(p, q, shared_at(here) + mine * Tiles<DIM>::ROW, shared_at(here + BYTES) + mine * Tiles<DIM>::ROW, first + mine, sight, rows);
        __syncthreads();
    }
    // The four warps' sums, in their order: to shared memory (4, 16, DIM), then added.
    float* mixed = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = rows.sum[h];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        const int row = lane / 4 + 8 * h;
        if ((lane & 3) == 0) mosts[warp][row] = rows.most[h], totals[warp][row] = sum;
        if (row < heads) {
#pragma unroll
            for (int d = 0; d < DIM / 8; d++) *reinterpret_cast<float2*>(mixed + (warp * 16 + row) * DIM + d * 8 + (lane & 3) * 2) = make_float2(rows.mixed[d][2 * h], rows.mixed[d][2 * h + 1]);
        }
    }
    __syncthreads();
    float* partials = p.partials + ((size_t)blockIdx.z * p.heads + head0) * p.splits * (DIM + 2);
    for (int i = threadIdx.x; i < heads * (DIM / 2); i += 128) {
        const int row = i / (DIM / 2), dim = i % (DIM / 2) * 2;
        const float most = fmaxf(fmaxf(mosts[0][row], mosts[1][row]), fmaxf(mosts[2][row], mosts[3][row]));
        float a = 0, b = 0, sum = 0;
#pragma unroll
        for (int w = 0; w < 4; w++) {
            if (mosts[w][row] == -INFINITY) continue;
            const float factor = exp2f(mosts[w][row] - most);
            const float2 v = *reinterpret_cast<const float2*>(mixed + (w * 16 + row) * DIM + dim);
            a += factor * v.x, b += factor * v.y, sum += factor * totals[w][row];
        }
        if (splits == 1) {
            if (p.sinks) sum += exp2f(p.sinks[head0 + row] * LOG2_E - most);
            write_two(p, ((size_t)tile.token * p.heads + head0 + row) * DIM + dim, a / sum, b / sum);
        } else {
            float* to = partials + ((size_t)row * p.splits + blockIdx.x) * (DIM + 2);
            __stcg(to + dim, a), __stcg(to + dim + 1, b);
            if (dim == 0) __stcg(to + DIM, most), __stcg(to + DIM + 1, sum);
        }
    }
    if (splits == 1) return;
    __threadfence();
    __syncthreads();
    unsigned* counter = p.counters + (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    if (threadIdx.x == 0) arrived = atomicAdd(counter, 1);
    __syncthreads();
    if (arrived != splits - 1) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;
    for (int i = threadIdx.x; i < heads * (DIM / 2); i += 128) {
        const int row = i / (DIM / 2), dim = i % (DIM / 2) * 2;
        const float* from = partials + (size_t)row * p.splits * (DIM + 2);
        float most = -INFINITY;
        for (int s = 0; s < splits; s++) most = fmaxf(most, __ldcg(from + s * (DIM + 2) + DIM));
        float a = 0, b = 0, sum = 0;
#pragma unroll 4
        for (int s = 0; s < splits; s++) {
            const float* part = from + s * (DIM + 2);
            const float factor = exp2f(__ldcg(part + DIM) - most);
            a += factor * __ldcg(part + dim), b += factor * __ldcg(part + dim + 1), sum += factor * __ldcg(part + DIM + 1);
        }
        if (p.sinks) sum += exp2f(p.sinks[head0 + row] * LOG2_E - most);
        write_two(p, ((size_t)tile.token * p.heads + head0 + row) * DIM + dim, a / sum, b / sum);
    }
}
