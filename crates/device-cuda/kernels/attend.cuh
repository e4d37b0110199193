// Attention over the paged cache with tensor cores (mma.sync, sm_80 and up): the bodies of the kernels in attend.cu.
//
// Both kernels walk the cache in tiles of 64 tokens, copied ahead into shared memory as f16, with a running softmax (Dao 2023, arXiv:2307.08691).
// `prefill`: a warp has 16 query tokens of one head, a block 64. `decode`: the rows of a warp's products are the query heads that share a
// key-value head, so that the cache is read once for all of them; the four warps take 16 tokens of each tile, blocks take parts of the context
// whose size depends on its length alone, and the last block of a head adds the parts in their order.
#pragma once
#include "rows.cuh"

// Up to 64 neighbouring query tokens of one sequence; for decode exactly one.
struct AttendTile {
    int token, count;  // rows of `q` and `to`
    int position;      // of the first token
    int end;           // tokens of the sequence, with those of this batch
    int table;         // where its page table begins in `pages`
};

// What decode does to queries, and to the keys and values of the new tokens, ahead of attention: norms of heads, ropes, the cache. Without `key`
// that was done before.
struct Turning {
    const float *key, *value;        // (tokens, kv_heads, head_dim), or null
    const float *q_norm, *k_norm;    // (head_dim), or null
    const float2* turns;             // (tokens, pairs): cosines and sines, or null
    int pairs, halves;               // halves: a pair is values i and i + pairs, else neighbours
    float q_epsilon, k_epsilon;
};

struct Attend {
    const float* q;             // (tokens, heads, head_dim)
    float* to;                  // (tokens, heads, head_dim), or null
    u16* halves;                // the same as bf16, or null
    signed char* codes;         // decode of a head_dim that is a multiple of 32: the same in blocks of codes, what the next product reads; or null
    BlockMeta* metas;
    const u8 *keys, *values;    // element (page, head, token, dim) at page * page_stride + head * head_stride + token * token_stride + dim
    const u16 *key_scales, *value_scales;  // q8_0: f16, at the element's place / 32; null: keys and values are f16
    long page_stride, head_stride, token_stride;  // in elements, multiples of 8; for q8_0 multiples of 32
    const int* pages;
    const AttendTile* tiles;
    const float* sinks;         // (heads), or null
    float* partials;            // decode: (tiles, heads, splits, head_dim + 2), 16-byte aligned
    unsigned* counters;         // decode: (tiles, kv_heads * ((heads / kv_heads + 15) / 16)) zeros, left zeros
    int page_tokens;            // a multiple of 16
    int heads, kv_heads;
    int window;                 // tokens that a query sees, itself included; 0: all
    int both_ways;              // 1: it sees as many behind it too
    int splits;                 // decode: the most parts of a context; even, at most SPLITS_MAX
    int split_tokens;           // decode: the least tokens of a part, a multiple of 64
    float scale, soft_cap;      // soft_cap 0: none
    Turning turning;            // decode
};

static constexpr int TILE_TOKENS = 64, SPLITS_MAX = 64;
static constexpr float LOG2_E = 1.4426950408889634f;

// Shared memory. F16: two tiles, each keys and values. Q8_0: one tile of halves, then two of codes as they come.
template <int DIM> struct Tiles {
    static constexpr int ROW = DIM * 2 + 16;  // bytes: neighbouring rows begin four banks apart
    static constexpr int BYTES = TILE_TOKENS * ROW;
    static constexpr int CODES = TILE_TOKENS * DIM;
};

static __device__ __forceinline__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// ONCE: nobody else reads it.
template <bool ONCE>
static __device__ __forceinline__ void copy_async(u32 to, const void* from, bool live) {
    const int bytes = live ? 16 : 0;
    if (ONCE) copy16_once(to, from, bytes);
    else asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> static __device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
static __device__ __forceinline__ void load_matrices(u32 (&m)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void load_matrices_turned(u32 (&m)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}

// Eight codes and their scale to halves.
static __device__ __forceinline__ uint4 widen(uint2 codes, float scale) {
    float v[8];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = scale * (float)(signed char)(codes.x >> (8 * k)), v[4 + k] = scale * (float)(signed char)(codes.y >> (8 * k));
    return make_uint4(pack_half(v[0], v[1]), pack_half(v[2], v[3]), pack_half(v[4], v[5]), pack_half(v[6], v[7]));
}

// Copies keys and values of tokens first to first + 64 of one head towards shared memory; those at `end` and after become zeros. 128 threads, eight
// to a row. `begin_tile` starts the copy of tile `turn`; `end_tile` waits for it, while the next may be under way, and gives its place. ONCE: no other block
// reads them.
template <int DIM, bool CODES, bool ONCE = false> struct Copier {
    static constexpr int UNITS = (DIM / 16 + 7) / 8;
    u16 scales[CODES ? 4 : 1][CODES ? UNITS : 1][2];  // of the tile that was begun last

    __device__ __forceinline__ long place(const Attend& p, const int* pages, int head, int token, bool live) const {
        const int which = token / p.page_tokens;
        return live ? pages[which] * p.page_stride + head * p.head_stride + (token - which * p.page_tokens) * p.token_stride : 0;
    }
    // Token `late` is left out, or with ONLY_LATE all others are: it comes when it is in the cache. TOGETHER: sixteens that are begun by code of their own;
    // one of them is a quarter of the code, and what a block executes once it first has to fetch.
    template <int TOGETHER = TILE_TOKENS / 16, bool ONLY_LATE = false>
    __device__ __forceinline__ void begin_tile(const Attend& p, const int* pages, int head, int first, int end, u8* memory, int turn, int late = -1) {
        constexpr int BYTES = Tiles<DIM>::BYTES, CHUNKS = DIM / 8, STEP = 16 * (CODES ? DIM : Tiles<DIM>::ROW);
        // Pages are of whole sixteens, and so is `first`: sixteen rows lie in one.
        int which = first / p.page_tokens, in_page = first - which * p.page_tokens;
        const int start = CODES ? 2 * BYTES + turn * 2 * Tiles<DIM>::CODES : turn * 2 * BYTES;
        u32 to = shared_at(memory) + (ONCE ? own(start) : start) + threadIdx.x / 8 * (STEP / 16) + threadIdx.x % 8 * 16;
#pragma unroll TOGETHER
        for (int i = 0; i < TILE_TOKENS / 16; i++, in_page += 16, to += STEP) {
            if (in_page >= p.page_tokens) in_page = 0, which++;
            const int row = i * 16 + threadIdx.x / 8;
            if ((first + row == late) != ONLY_LATE) continue;
            const bool live = first + row < end;
            const long at0 = live ? pages[which] * p.page_stride + head * p.head_stride + (in_page + (int)threadIdx.x / 8) * p.token_stride : 0;
            if constexpr (!CODES) {
#pragma unroll
                for (int c = 0; c < (CHUNKS + 7) / 8; c++) {
                    const int chunk = c * 8 + threadIdx.x % 8;
                    if (CHUNKS % 8 != 0 && chunk >= CHUNKS) break;
                    copy_async<ONCE>(to + c * 128, p.keys + (at0 + chunk * 8) * 2, live);
                    copy_async<ONCE>(to + c * 128 + BYTES, p.values + (at0 + chunk * 8) * 2, live);
                }
            } else {
#pragma unroll
                for (int c = 0; c < UNITS; c++) {
                    const int unit = c * 8 + threadIdx.x % 8;
                    if (DIM / 16 % 8 != 0 && unit >= DIM / 16) break;
                    const long at = at0 + unit * 16;
                    copy_async<ONCE>(to + c * 128, p.keys + at, live);
                    copy_async<ONCE>(to + c * 128 + Tiles<DIM>::CODES, p.values + at, live);
                    scales[i][c][0] = live ? p.key_scales[at >> 5] : 0, scales[i][c][1] = live ? p.value_scales[at >> 5] : 0;
                }
            }
        }
        copy_commit();
    }
    // Of a tile begun with `old` scales. All threads are done with the tile before. What a thread reads of the codes it has copied itself.
    static __device__ __forceinline__ u8* end_tile(const Copier& old, u8* memory, int turn, bool more) {
        constexpr int BYTES = Tiles<DIM>::BYTES;
        if (more) copy_wait<1>(); else copy_wait<0>();
        u8* tile = memory + (CODES ? 0 : turn * 2 * BYTES);
        if constexpr (CODES) {
#pragma unroll
            for (int i = 0; i < TILE_TOKENS / 16; i++) {
#pragma unroll
                for (int c = 0; c < UNITS; c++) {
                    const int row = i * 16 + threadIdx.x / 8, unit = c * 8 + threadIdx.x % 8;
                    if (DIM / 16 % 8 != 0 && unit >= DIM / 16) break;
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const uint4 codes = *reinterpret_cast<const uint4*>(memory + 2 * BYTES + (turn * 2 + h) * Tiles<DIM>::CODES + row * DIM + unit * 16);
                        uint4* to = reinterpret_cast<uint4*>(tile + h * BYTES + row * Tiles<DIM>::ROW + unit * 32);
                        const float scale = half_to_float(old.scales[i][c][h]);
                        to[0] = widen(make_uint2(codes.x, codes.y), scale), to[1] = widen(make_uint2(codes.z, codes.w), scale);
                    }
                }
            }
        }
        __syncthreads();
        return tile;
    }
};

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

// Two to a power; what is too small for a normal number is zero.
static __device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

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
    // Where all rows see all tokens, as they mostly do, nothing is masked, and the scale goes with the exponent.
    const bool whole = p.soft_cap <= 0 && p.scale > 0 && first >= max(sight[0].first, sight[1].first) && first + COUNT * 8 <= min(sight[0].last, sight[1].last);
    const bool plain = __all_sync(~0u, whole);
    const float factor = plain ? p.scale * LOG2_E : 1.0f;
    float most[2] = {-INFINITY, -INFINITY};
    if (plain) {
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) most[i >> 1] = fmaxf(most[i >> 1], s[n][i]);
        }
    } else {
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) s[n][i] *= p.scale;
        }
        if (p.soft_cap > 0) {
            const float inverse = 2.0f / p.soft_cap;
#pragma unroll
            for (int n = 0; n < COUNT; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) s[n][i] = p.soft_cap * (1.0f - __fdividef(2.0f, 1.0f + __expf(s[n][i] * inverse)));
            }
        }
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int token = first + n * 8 + (lane & 3) * 2 + (i & 1), half = i >> 1;
                const float v = token >= sight[half].first && token < sight[half].last ? s[n][i] * LOG2_E : -INFINITY;
                s[n][i] = v;
                most[half] = fmaxf(most[half], v);
            }
        }
    }
    float keep[2], base[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 1));
        most[h] = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 2));
        most[h] = fmaxf(rows.most[h], most[h] * factor);
        // A row that has seen nothing yet keeps zeros.
        keep[h] = most[h] == -INFINITY ? 1.0f : power_of_two(rows.most[h] - most[h]);
        base[h] = most[h] == -INFINITY ? 0.0f : most[h];
        rows.most[h] = most[h];
        rows.sum[h] *= keep[h];
    }
#pragma unroll
    for (int n = 0; n < COUNT; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = power_of_two(fmaf(s[n][i], factor, -base[i >> 1]));
            rows.sum[i >> 1] += s[n][i];
        }
    }
    if (__any_sync(~0u, keep[0] != 1.0f || keep[1] != 1.0f)) {
#pragma unroll
        for (int d = 0; d < DIM / 8; d++) rows.mixed[d][0] *= keep[0], rows.mixed[d][1] *= keep[0], rows.mixed[d][2] *= keep[1], rows.mixed[d][3] *= keep[1];
    }
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

// Four values of a head. All lanes of a warp are here where DIM is a multiple of 128, else those of whole blocks of 32.
template <int DIM>
static __device__ __forceinline__ void write_heads(const Attend& p, size_t token, int head, int dim, float4 v, float sum) {
    const float factor = 1.0f / sum;
    v = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
    const RowOutputs to = {p.to, DIM % 32 == 0 ? p.codes : nullptr, p.metas, p.halves, p.heads * DIM};
    write_four(to, token, p.heads * DIM, head * DIM + dim, v, true);
}

template <int DIM, bool CODES>
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
    Copier<DIM, CODES> next, old;
    next.begin_tile(p, pages, kv_head, begin, end, memory, 0);
    int turn = 0;
    for (int first = begin; first < end; first += TILE_TOKENS, turn ^= 1) {
        old = next;
        const bool more = first + TILE_TOKENS < end;
        if (more) next.begin_tile(p, pages, kv_head, first + TILE_TOKENS, end, memory, turn ^ 1);
        const u32 tile = shared_at(Copier<DIM, CODES>::end_tile(old, memory, turn, more));
        // Wide heads leave registers for the scores of half a tile.
        constexpr int AT_ONCE = DIM < 128 ? TILE_TOKENS : TILE_TOKENS / 2;
#pragma unroll 1
        for (int part = 0; part < TILE_TOKENS; part += AT_ONCE)
            if (first + part < warp_last) take_in<DIM, AT_ONCE / 8>(p, q, tile + part * Tiles<DIM>::ROW, tile + Tiles<DIM>::BYTES + part * Tiles<DIM>::ROW, first + part, sight, rows);
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

// Decode's own preparation, by four warps: the heads of a group's queries into shared memory, in half precision; and in the block that has the new
// token its key and value into the cache. A warp has TASKS heads at a time, and asks for all that it reads of them before it uses any.
template <int DIM, bool CODES> struct Turner {
    static constexpr int EACH = (DIM + 31) / 32, ROW = DIM / 2 + 4;  // of queries in shared memory, in words: neighbouring rows begin four banks apart
    static constexpr int TASKS = DIM <= 128 ? 3 : 2, TURNS = (DIM / 2 + 31) / 32;
    float q_norm[EACH], k_norm[EACH];

    // What was there before the previous grid.
    __device__ __forceinline__ void prepare(const Turning& t) {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const bool live = DIM % 32 == 0 || lane + 32 * i < DIM;
            q_norm[i] = t.q_norm && live ? t.q_norm[lane + 32 * i] : 1.0f;
            k_norm[i] = t.k_norm && live ? t.k_norm[lane + 32 * i] : 1.0f;
        }
    }
    // A head whose value lane + 32 i is x[i], behind its norm and its rope. `own`: the warp's memory.
    static __device__ __forceinline__ void turn(const Turning& t, const float* norm, const float (&weight)[EACH], float epsilon, const float2 (&turns)[TURNS], bool is_turned, float (&x)[EACH], float* own) {
        const int lane = threadIdx.x & 31;
        if (norm) {
            float squares = 0.0f;
#pragma unroll
            for (int i = 0; i < EACH; i++) squares += x[i] * x[i];
            const float factor = 1.0f / sqrtf(warp_sum(squares) / DIM + epsilon);
#pragma unroll
            for (int i = 0; i < EACH; i++) x[i] = x[i] * factor * weight[i];
        }
        if (!is_turned) return;
        // Where pairs are halves of a head of whole sixty-fours, a lane has both of each.
        if (DIM % 64 == 0 && t.halves && t.pairs == DIM / 2) {
#pragma unroll
            for (int i = 0; i < TURNS; i++) {
                const float a = x[i], b = x[(i + TURNS) % EACH];
                x[i] = a * turns[i].x - b * turns[i].y;
                x[(i + TURNS) % EACH] = b * turns[i].x + a * turns[i].y;
            }
            return;
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (DIM % 32 == 0 || lane + 32 * i < DIM) own[lane + 32 * i] = x[i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            const int pair = lane + 32 * i;
            if (pair >= t.pairs) break;
            const int first = t.halves ? pair : 2 * pair, second = t.halves ? pair + t.pairs : 2 * pair + 1;
            const float a = own[first], b = own[second];
            own[first] = a * turns[i].x - b * turns[i].y;
            own[second] = b * turns[i].x + a * turns[i].y;
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (DIM % 32 == 0 || lane + 32 * i < DIM) x[i] = own[lane + 32 * i];
    }
    // A head to its place in the cache: as halves, which go to `tile` too if that is one, or as codes with a scale for 32.
    static __device__ __forceinline__ void store(const float (&x)[EACH], const u8* to, const u16* scales, long at, u16* tile) {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int dim = lane + 32 * i;
            if constexpr (CODES) {
                const float most = warp_max(fabsf(x[i])), scale = most / 127.0f;
                const int code = most > 0.0f ? (int)rintf(x[i] / scale) : 0;
                if (lane == 0) const_cast<u16*>(scales)[(at + 32 * i) >> 5] = float_to_half(scale);
                const_cast<u8*>(to)[at + dim] = (u8)code;
            } else if (DIM % 32 == 0 || dim < DIM) {
                const u16 half = float_to_half(x[i]);
                reinterpret_cast<u16*>(const_cast<u8*>(to))[at + dim] = half;
                if (tile) tile[dim] = half;
            }
        }
    }
    // Heads head0 to head0 + heads of a token; with `stores` its key and value too, to `place`, and to the row `tile` of a tile if that is one.
    __device__ __forceinline__ void run(const Attend& p, int token, int head0, int heads, int kv_head, bool stores, long place, u8* tile, u8* memory) const {
        const Turning& t = p.turning;
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, tasks = heads + (stores ? 2 : 0);
        u16* queries = reinterpret_cast<u16*>(memory);
        float* own = reinterpret_cast<float*>(memory + 16 * ROW * 4) + warp * DIM;
        const size_t query = ((size_t)token * p.heads + head0) * DIM, key = ((size_t)token * p.kv_heads + kv_head) * DIM;
        float2 turns[TURNS];
#pragma unroll
        for (int i = 0; i < TURNS; i++) turns[i] = t.turns && lane + 32 * i < t.pairs ? t.turns[(size_t)token * t.pairs + lane + 32 * i] : make_float2(1, 0);
#pragma unroll 1
        for (int task0 = warp; task0 < tasks; task0 += 4 * TASKS) {
            float x[TASKS][EACH];
#pragma unroll
            for (int k = 0; k < TASKS; k++) {
                const int task = task0 + 4 * k;
                const float* from = task < heads ? p.q + query + (size_t)task * DIM : (task == heads ? t.key : t.value) + key;
#pragma unroll
                for (int i = 0; i < EACH; i++) x[k][i] = task < tasks && (DIM % 32 == 0 || lane + 32 * i < DIM) ? from[lane + 32 * i] : 0.0f;
            }
            // One code for all kinds of heads, and for all heads of a warp: what a block executes once it fetches for that once. The next head moves up.
#pragma unroll 1
            for (int k = 0; k < TASKS; k++) {
                const int task = task0 + 4 * k;
                if (task >= tasks) break;
                const bool is_query = task < heads, is_value = task > heads;
                float weight[EACH];
#pragma unroll
                for (int i = 0; i < EACH; i++) weight[i] = is_query ? q_norm[i] : k_norm[i];
                turn(t, is_query ? t.q_norm : is_value ? nullptr : t.k_norm, weight, is_query ? t.q_epsilon : t.k_epsilon, turns, t.turns && !is_value, x[0], own);
                if (is_query) {
#pragma unroll
                    for (int i = 0; i < EACH; i++)
                        if (DIM % 32 == 0 || lane + 32 * i < DIM) queries[task * ROW * 2 + lane + 32 * i] = float_to_half(x[0][i]);
                } else {
                    u16* const row = reinterpret_cast<u16*>(tile ? tile + (is_value ? Tiles<DIM>::BYTES : 0) : nullptr);
                    store(x[0], is_value ? p.values : p.keys, is_value ? p.value_scales : p.key_scales, place, row);
                }
#pragma unroll
                for (int i = 0; i < EACH; i++) {
#pragma unroll
                    for (int next = 1; next < TASKS; next++) x[next - 1][i] = x[next][i];
                }
            }
        }
    }
    // The left operand of the products out of shared memory. What lies in rows behind the last head makes sums that nobody reads.
    static __device__ __forceinline__ void load(const u8* memory, u32 (&q)[DIM / 16][4]) {
        const int lane = threadIdx.x & 31;
        const u32 at = shared_at(memory) + (lane & 15) * ROW * 4 + (lane >> 4) * 16;
#pragma unroll
        for (int k = 0; k < DIM / 16; k++) load_matrices(q[k], at + k * 32);
    }
};

// What a block of decode shares beside its tiles.
struct DecodeShared {
    float mosts[4][16], totals[4][16];
    int arrived;
};

template <int DIM, bool CODES>
static __device__ __forceinline__ void attend_decode(const Attend& p, DecodeShared& shared) {
    extern __shared__ __align__(16) u8 memory[];
    auto& [mosts, totals, arrived] = shared;
    release_next_grid();
    Turner<DIM, CODES> turner;
    // Where this block turns the new token itself, all that it reads besides is older than the step, or than its ropes' angles, which nothing of the step
    // overtakes: it is under way before the previous grid has ended.
    if (p.turning.key) turner.prepare(p.turning);
    if (!p.turning.key || !p.turning.turns) wait_for_previous_grid();
    const int group = p.heads / p.kv_heads, sixteens = (group + 15) / 16;
    const int kv_head = blockIdx.y / sixteens, head0 = kv_head * group + blockIdx.y % sixteens * 16, heads = min(group - blockIdx.y % sixteens * 16, 16);
    const AttendTile tile = p.tiles[blockIdx.z];
    if (tile.count <= 0) return;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const Sight all = sees(p, tile.position, tile.end);
    // Parts are cut by the length alone, at multiples of 64.
    const int start = all.first / 64 * 64, each = max(((all.last - start + p.splits - 1) / p.splits + 63) / 64 * 64, p.split_tokens);
    const int parts = (all.last - start + each - 1) / each;
    if ((int)blockIdx.x >= parts) return;
    const int* pages = p.pages + tile.table;
    // Per head: (splits, DIM) sums, then (splits, 2) largest scores and totals.
    float* partials = p.partials + ((size_t)blockIdx.z * p.heads + head0) * p.splits * (DIM + 2);
    u32 q[DIM / 16][4];
    // Where a tile's scales are in registers, it is begun by one piece of code that knows which.
    constexpr int TOGETHER = CODES ? TILE_TOKENS / 16 : 1;
    Copier<DIM, CODES, true> next, old;
    int done = 0;
    for (int part = blockIdx.x; part < parts; part += gridDim.x, done++) {
        const int begin = start + part * each, end = min(begin + each, all.last);
        const bool turns = p.turning.key && done == 0, stores = p.turning.key && part == parts - 1;
        // Two tiles at once where a tile's scales need no registers. Of a tile that is copied before the new token is there that token's row is left out.
        const int late = stores ? tile.position : -1, at_once = CODES || begin + TILE_TOKENS >= end ? 1 : 2;
#pragma unroll 1
        for (int i = 0; i < at_once; i++) next.template begin_tile<TOGETHER>(p, pages, kv_head, begin + i * TILE_TOKENS, end, memory, i, late);
        const long place = stores ? next.place(p, pages, kv_head, late, true) : 0;
        if (done == 0) wait_for_previous_grid();
        if (turns || stores) {
            u8* queries = memory + 4 * Tiles<DIM>::BYTES;
            const int which = (late - begin) / TILE_TOKENS;
            const bool missing = stores && which < at_once;
            u8* row = missing && !CODES ? memory + which * 2 * Tiles<DIM>::BYTES + (late - begin) % TILE_TOKENS * Tiles<DIM>::ROW : nullptr;
            turner.run(p, tile.token, head0, heads, kv_head, stores, place, row, queries);
            // What this block has stored it copies itself, now or with a later tile.
            __threadfence_block();
            __syncthreads();
            if (missing && !row) next.template begin_tile<TOGETHER, true>(p, pages, kv_head, begin, end, memory, 0, late);
            Turner<DIM, CODES>::load(queries, q);
        } else if (done == 0) {
            const float* at[2];
#pragma unroll
            for (int h = 0; h < 2; h++) at[h] = lane / 4 + 8 * h < heads ? p.q + ((size_t)tile.token * p.heads + head0 + lane / 4 + 8 * h) * DIM : nullptr;
            load_queries<DIM>(at, q);
        }
        const Sight sight[2] = {{all.first, end}, {all.first, end}};
        Rows<DIM> rows;
#pragma unroll
        for (int d = 0; d < DIM / 8; d++) rows.mixed[d][0] = rows.mixed[d][1] = rows.mixed[d][2] = rows.mixed[d][3] = 0;
        rows.most[0] = rows.most[1] = -INFINITY, rows.sum[0] = rows.sum[1] = 0;
        int turn = 0;
        for (int first = begin; first < end; first += TILE_TOKENS, turn ^= 1) {
            old = next;
            const bool more = first + TILE_TOKENS < end;
            if (more && (first > begin || at_once == 1)) next.template begin_tile<TOGETHER>(p, pages, kv_head, first + TILE_TOKENS, end, memory, turn ^ 1);
            const u32 here = shared_at(Copier<DIM, CODES, true>::end_tile(old, memory, turn, more)) + warp * 16 * Tiles<DIM>::ROW;
            if (first + warp * 16 < end) take_in<DIM, 2>(p, q, here, here + Tiles<DIM>::BYTES, first + warp * 16, sight, rows);
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
        for (int i = threadIdx.x; i < heads * (DIM / 4); i += 128) {
            const int row = i / (DIM / 4), dim = i % (DIM / 4) * 4;
            const float most = fmaxf(fmaxf(mosts[0][row], mosts[1][row]), fmaxf(mosts[2][row], mosts[3][row]));
            float4 v = make_float4(0, 0, 0, 0);
            float sum = 0;
#pragma unroll
            for (int w = 0; w < 4; w++) {
                if (mosts[w][row] == -INFINITY) continue;
                const float factor = power_of_two(mosts[w][row] - most);
                const float4 a = *reinterpret_cast<const float4*>(mixed + (w * 16 + row) * DIM + dim);
                v.x += factor * a.x, v.y += factor * a.y, v.z += factor * a.z, v.w += factor * a.w, sum += factor * totals[w][row];
            }
            if (parts == 1) {
                if (p.sinks) sum += exp2f(p.sinks[head0 + row] * LOG2_E - most);
                write_heads<DIM>(p, tile.token, head0 + row, dim, v, sum);
            } else {
                float* head = partials + (size_t)row * p.splits * (DIM + 2);
                __stcg(reinterpret_cast<float4*>(head + part * DIM + dim), v);
                if (dim == 0) __stcg(reinterpret_cast<float2*>(head + p.splits * DIM + part * 2), make_float2(most, sum));
            }
        }
        if (parts == 1) return;
        __syncthreads();
    }
    __threadfence();
    __syncthreads();
    unsigned* counter = p.counters + (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    if (threadIdx.x == 0) arrived = (int)atomicAdd(counter, done) + done;
    __syncthreads();
    if (arrived != parts) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;
    // The last block adds the parts: first each part's factor (heads, parts), a warp to a head, then the sums. What is read of several parts is asked for at
    // once: each time costs the way to the L2.
    constexpr int EACH = SPLITS_MAX / 32, AT_ONCE = DIM <= 128 ? 16 : 8;
    float* factors = reinterpret_cast<float*>(memory);
    for (int row = warp; row < heads; row += 4) {
        const float* stats = partials + (size_t)row * p.splits * (DIM + 2) + p.splits * DIM;
        float2 part[EACH];
        float most = -INFINITY, sum = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            part[k] = lane + 32 * k < parts ? __ldcg(reinterpret_cast<const float2*>(stats) + lane + 32 * k) : make_float2(-INFINITY, 0);
            most = fmaxf(most, part[k].x);
        }
        most = warp_max(most);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const float factor = power_of_two(part[k].x - most);
            if (lane + 32 * k < parts) factors[row * parts + lane + 32 * k] = factor;
            sum += factor * part[k].y;
        }
        sum = warp_sum(sum);
        if (p.sinks) sum += exp2f(p.sinks[head0 + row] * LOG2_E - most);
        if (lane == 0) totals[0][row] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < heads * (DIM / 4); i += 128) {
        const int row = i / (DIM / 4), dim = i % (DIM / 4) * 4;
        const float* from = partials + (size_t)row * p.splits * (DIM + 2) + dim;
        float4 v = make_float4(0, 0, 0, 0);
#pragma unroll 1
        for (int first = 0; first < parts; first += AT_ONCE) {
            float4 a[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) a[k] = first + k < parts ? __ldcg(reinterpret_cast<const float4*>(from + (first + k) * DIM)) : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const float factor = first + k < parts ? factors[row * parts + first + k] : 0.0f;
                v.x += factor * a[k].x, v.y += factor * a[k].y, v.z += factor * a[k].z, v.w += factor * a[k].w;
            }
        }
        write_heads<DIM>(p, tile.token, head0 + row, dim, v, totals[0][row]);
    }
}
