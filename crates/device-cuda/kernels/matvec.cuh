// Matrix times a few vectors, at the speed of the memory that holds the matrix: the bodies of the kernels in matvec.cu.
//
// A warp makes ROWS output rows, for TOKENS tokens at once. Its lanes take the units of a row in turn, lane after lane, keep one sum a row
// and token, and fold those in one fixed tree at the end: an output is summed in the same order whatever TOKENS, ROWS and UNROLL are, so
// that a token's bits do not depend on who shares the batch.
#pragma once
#include "codes.cuh"
#include "quant.cuh"
#include "route.cuh"

static constexpr int WARPS = 4;

// The input rows of a product: codes and metas of quantised rows for quantised weights, values for float weights.
struct Vectors {
    const signed char* codes;  // (tokens, columns)
    const BlockMeta* metas;    // (tokens, columns / 32)
    const float* values;       // (tokens, columns)
    int columns, tokens;
};

template <class Q> struct IsFloat { static constexpr bool value = false; };
template <> struct IsFloat<BF16> { static constexpr bool value = true; };
template <> struct IsFloat<F16> { static constexpr bool value = true; };
template <> struct IsFloat<F32> { static constexpr bool value = true; };
template <> struct IsFloat<F8_E4M3> { static constexpr bool value = true; };

// Where a piece of sixteen codes, or of four values, of a row in shared memory is: lanes that read pieces some apart meet different banks.
static __device__ __forceinline__ int code_piece(int piece) { return piece ^ (piece >> 3 & 1) * 7 ^ (piece >> 4 & 1); }
static __device__ __forceinline__ int value_piece(int piece) { return piece ^ (piece >> 3 & 1); }

// Adds one unit of ROWS rows to their sums, for quantised weights. SHARED: the one row of `x` lies as code_piece says.
template <class Q, int TOKENS, int ROWS, bool INDIRECT, bool SHARED = false>
static __device__ __forceinline__ void add_codes(const typename Q::Raw (&raw)[ROWS], int unit, const Vectors& x, const int (&token)[INDIRECT ? ROWS : TOKENS], float (&sums)[ROWS][TOKENS]) {
    typename Q::Unpacked row[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) Q::unpack(raw[r], unit, row[r]);
    const int first = Q::first(unit);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
#pragma unroll
        for (int c = 0; c < Q::CHUNKS; c++) {
            const int at = first + c * Q::CHUNK_STRIDE;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int which = INDIRECT ? token[r] : token[t];
                const uint2 meta = *reinterpret_cast<const uint2*>(x.metas + (SHARED ? 0 : (size_t)which * (x.columns >> 5)) + (at >> 5));
                int dot = 0;
#pragma unroll
                for (int w = 0; w < Q::WORDS; w += 4) {
                    const size_t place = SHARED ? code_piece((at + 4 * w) >> 4) * 16 : (size_t)which * x.columns + at + 4 * w;
                    const uint4 q = *reinterpret_cast<const uint4*>(x.codes + place);
                    dot = __dp4a(row[r].code[c][w], (int)q.x, dot);
                    dot = __dp4a(row[r].code[c][w + 1], (int)q.y, dot);
                    dot = __dp4a(row[r].code[c][w + 2], (int)q.z, dot);
                    dot = __dp4a(row[r].code[c][w + 3], (int)q.w, dot);
                }
                float value = row[r].scale[c] * (float)dot;
                const int low = (short)meta.y, high = (int)meta.y >> 16;
                if (Q::SHIFTED) value -= row[r].shift[c] * (float)(Q::WORDS == 8 ? low + high : (at & 16) ? high : low);
                sums[r][t] += __uint_as_float(meta.x) * value;
            }
        }
    }
}

// The same for weights that are floats.
template <class Q, int TOKENS, int ROWS, bool INDIRECT, bool SHARED = false>
static __device__ __forceinline__ void add_floats(const typename Q::Raw (&raw)[ROWS], int unit, const Vectors& x, const int (&token)[INDIRECT ? ROWS : TOKENS], float (&sums)[ROWS][TOKENS]) {
    float row[ROWS][8];
#pragma unroll
    for (int r = 0; r < ROWS; r++) Q::unpack(raw[r], row[r]);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float4* at = reinterpret_cast<const float4*>(x.values + (SHARED ? 0 : (size_t)(INDIRECT ? token[r] : token[t]) * x.columns + unit * 8));
            const float4 a = at[SHARED ? value_piece(2 * unit) : 0], b = at[SHARED ? value_piece(2 * unit + 1) : 1];
            float sum = Q::SCALED ? 0.0f : sums[r][t];
            sum += row[r][0] * a.x, sum += row[r][1] * a.y, sum += row[r][2] * a.z, sum += row[r][3] * a.w;
            sum += row[r][4] * b.x, sum += row[r][5] * b.y, sum += row[r][6] * b.z, sum += row[r][7] * b.w;
            sums[r][t] = Q::SCALED ? sums[r][t] + factor_of<Q>(raw[r]) * sum : sum;
        }
    }
}

// Adds this lane's share of ROWS rows to `sums`. Row r begins at block `block0[r]` of `weight[r]`, a matrix of `blocks` blocks. Token t is
// row `token[t]` of `x`, or with INDIRECT row r meets row `token[r]` alone. `wait` is called once, behind the first loads of weights: what is
// read of `x` is there when it returns.
template <class Q, int TOKENS, int ROWS, int UNROLL, bool INDIRECT, class Wait>
static __device__ __forceinline__ void add_rows(const u8* const (&weight)[ROWS], size_t blocks, const size_t (&block0)[ROWS], const Vectors& x, const int (&token)[INDIRECT ? ROWS : TOKENS], const Wait& wait, float (&sums)[ROWS][TOKENS]) {
    const int lane = threadIdx.x & 31, units = x.columns / Q::UNIT;
    bool waited = false;
#pragma unroll 1
    for (int start = lane; start < units + lane; start += 32 * UNROLL) {
        typename Q::Raw raw[UNROLL][ROWS];
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            // Past the end the last unit is read again, from the cache.
            const int unit = min(start + 32 * k, units - 1);
#pragma unroll
            for (int r = 0; r < ROWS; r++) raw[k][r] = Q::load(weight[r], blocks, block0[r], unit);
        }
        if (!waited) wait(), waited = true;
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            const int unit = start + 32 * k;
            if (unit < units) {
                if constexpr (IsFloat<Q>::value) add_floats<Q, TOKENS, ROWS, INDIRECT>(raw[k], unit, x, token, sums);
                else add_codes<Q, TOKENS, ROWS, INDIRECT>(raw[k], unit, x, token, sums);
            }
        }
    }
}

// Sums each of COUNT values over the warp; lane l is left with the sum of value l / (32 / COUNT). The tree is that of a plain butterfly.
template <int COUNT>
static __device__ __forceinline__ float fold(float (&values)[COUNT]) {
    const int lane = threadIdx.x & 31;
    int left = COUNT;
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        if (left > 1) {
            left >>= 1;
            const bool upper = lane & o;
#pragma unroll
            for (int i = 0; i < COUNT / 2; i++) {
                if (i < left) {
                    const float keep = upper ? values[i + left] : values[i], send = upper ? values[i] : values[i + left];
                    values[i] = keep + __shfl_xor_sync(~0u, send, o);
                }
            }
        } else {
            values[0] += __shfl_xor_sync(~0u, values[0], o);
        }
    }
    return values[0];
}

// One matrix of a launch.
struct MatvecPart {
    const u8* weight;      // (rows, columns)
    const u8* up;          // the second matrix of a gated pair, else null
    const float* bias;     // (rows), or null
    const float* up_bias;  // (rows), or null
    float* to;             // (tokens, to_stride), values 0 to rows of a row are written
    int rows, to_stride;
    int type;              // of kernels that hold several: the number of the type in a GGUF file
    int first_block;       // the block of the grid that begins with row 0 of this part; ascending, the first 0
};

struct Matvec {
    MatvecPart parts[4];
    int count;              // of parts
    Vectors x;
    int add;                // 0: to = y. 1: to += scale * y
    float scale;
    Activation activation;  // of gated pairs: to = activation(gate_scale * gate) * up
    float gate_scale;
    const float* from;      // of kernels that turn their one row themselves: (columns), at most 1024
    RowNorm norm;
    int blocks;             // of kernels whose blocks stay: of the grid
    signed char* codes;     // of gated pairs whose blocks stay: the row that they give in blocks of codes, too; or null
    BlockMeta* metas;
};

// A row of at most 1024 columns that a block of four warps turns as norm_rows does it, to the same bits: a thread's four values of each half. The norm's
// weights are asked for ahead.
struct NarrowRow {
    float4 weight[2];

    static __device__ __forceinline__ int column(int k) { return threadIdx.x * 4 + k * 512; }
    __device__ __forceinline__ void prepare(const RowNorm& norm, int columns) {
#pragma unroll
        for (int k = 0; k < 2; k++) weight[k] = norm.weight && column(k) < columns ? *reinterpret_cast<const float4*>(norm.weight + column(k)) : make_float4(0, 0, 0, 0);
    }
    // The sum of a value of each warp and half, in the order of block_sum with a thread for every four values.
    static __device__ __forceinline__ float sum(const float (&own)[2], int columns) {
        __shared__ float sums[32];
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        const float first = warp_sum(own[0]), second = warp_sum(own[1]);
        __syncthreads();
        if (lane == 0) sums[warp] = first, sums[warp + 4] = second;
        __syncthreads();
        return warp_sum(lane < (columns + 127) / 128 ? sums[lane] : 0.0f);
    }
    __device__ __forceinline__ void turn(const float* from, const RowNorm& norm, int columns, const RowOutputs& to) const {
        float4 x[2];
        float own[2], mean = 0, factor = 1;
#pragma unroll
        for (int k = 0; k < 2; k++) x[k] = column(k) < columns ? *reinterpret_cast<const float4*>(from + column(k)) : make_float4(0, 0, 0, 0);
        if (norm.weight) {
            if (norm.layer) {
#pragma unroll
                for (int k = 0; k < 2; k++) own[k] = (x[k].x + x[k].y) + (x[k].z + x[k].w);
                mean = sum(own, columns) / columns;
            }
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const float a = x[k].x - mean, b = x[k].y - mean, c = x[k].z - mean, d = x[k].w - mean;
                own[k] = column(k) < columns ? (a * a + b * b) + (c * c + d * d) : 0.0f;
            }
            factor = 1.0f / sqrtf(sum(own, columns) / columns + norm.epsilon);
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int i = column(k);
            if ((i & ~127) >= columns) break;
            if (norm.weight) {
                x[k].x = (x[k].x - mean) * factor * weight[k].x, x[k].y = (x[k].y - mean) * factor * weight[k].y;
                x[k].z = (x[k].z - mean) * factor * weight[k].z, x[k].w = (x[k].w - mean) * factor * weight[k].w;
            }
            if (norm.bias && i < columns) {
                const float4 b = *reinterpret_cast<const float4*>(norm.bias + i);
                x[k].x += b.x, x[k].y += b.y, x[k].z += b.z, x[k].w += b.w;
            }
            write_four(to, 0, columns, i, x[k], i < columns);
        }
    }
};

template <class Q, int TOKENS, int ROWS, int UNROLL, bool PAIR, bool TURNS>
static __device__ __forceinline__ void matvec_part(const Matvec& p, const MatvecPart& part) {
    constexpr int OUTPUTS = PAIR ? ROWS / 2 : ROWS;
    extern __shared__ uint4 turned[];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int row0 = ((blockIdx.x - part.first_block) * WARPS + warp) * OUTPUTS;
    // Who turns a row needs all warps.
    if (!TURNS && row0 >= part.rows) return;
    Vectors x = p.x;
    RowOutputs own = {};
    if (TURNS) {
        if (IsFloat<Q>::value) x.values = own.values = reinterpret_cast<float*>(turned);
        else x.codes = own.codes = reinterpret_cast<signed char*>(turned), x.metas = own.metas = reinterpret_cast<BlockMeta*>(own.codes + x.columns);
    }
    const auto wait = [&]() {
        NarrowRow narrow;
        if (TURNS) narrow.prepare(p.norm, x.columns);
        wait_for_previous_grid();
        if (TURNS) {
            narrow.turn(p.from, p.norm, x.columns, own);
            __syncthreads();
        }
    };
    const size_t row_blocks = p.x.columns / Q::BLOCK;
    const u8* weight[ROWS];
    size_t block0[ROWS];
    float sums[ROWS][TOKENS];
    int token[TOKENS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        weight[r] = PAIR && r >= OUTPUTS ? part.up : part.weight;
        block0[r] = min(row0 + r % OUTPUTS, part.rows - 1) * row_blocks;
#pragma unroll
        for (int t = 0; t < TOKENS; t++) sums[r][t] = 0;
    }
#pragma unroll
    for (int t = 0; t < TOKENS; t++) token[t] = min(t, p.x.tokens - 1);
    add_rows<Q, TOKENS, ROWS, UNROLL, false>(weight, (size_t)part.rows * row_blocks, block0, x, token, wait, sums);

    constexpr int COUNT = ROWS * TOKENS, LANES = 32 / COUNT;
    float y = fold<COUNT>(reinterpret_cast<float(&)[COUNT]>(sums));
    const int which = lane / LANES, t = which % TOKENS, row = row0 + which / TOKENS % OUTPUTS;
    const bool kept = row < part.rows && t < p.x.tokens;
    if (PAIR) {
        const float* bias = lane < 16 ? part.bias : part.up_bias;
        if (bias && kept) y += bias[row];
        const float up = __shfl_xor_sync(~0u, y, 16);
        y = gated(p.activation, p.gate_scale * y, up);
        if (lane >= 16) return;
    } else if (part.bias && kept) {
        y += part.bias[row];
    }
    if (lane % LANES != 0 || !kept) return;
    float* to = part.to + (size_t)t * part.to_stride + row;
    *to = p.add ? *to + p.scale * y : y;
}

template <int COUNT_MAX>
static __device__ __forceinline__ const MatvecPart& part_of(const Matvec& p) {
    int index = 0;
#pragma unroll
    for (int i = 1; i < COUNT_MAX; i++)
        if (i < p.count && (int)blockIdx.x >= p.parts[i].first_block) index = i;
    return p.parts[index];
}

// GGUF's numbers of the types that have kernels here.
enum StorageType { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q4_0 = 2, TYPE_Q8_0 = 8, TYPE_Q4_K = 12, TYPE_Q5_K = 13, TYPE_Q6_K = 14, TYPE_BF16 = 30 };

// One type a launch. TURNS: every block turns the one row from `from` itself, where that is quicker than a kernel for it.
template <class Q, int TOKENS, int ROWS, int UNROLL, bool PAIR, bool TURNS = false>
static __device__ __forceinline__ void matvec(const Matvec& p) {
    release_next_grid();
    matvec_part<Q, TOKENS, ROWS, UNROLL, PAIR, TURNS>(p, part_of<4>(p));
}

// Parts of several quantised types in one launch.
template <int TOKENS, int ROWS, int UNROLL, bool TURNS = false>
static __device__ __forceinline__ void matvec_mixed(const Matvec& p) {
    release_next_grid();
    const MatvecPart& part = part_of<4>(p);
    switch (part.type) {
        case TYPE_Q8_0: return matvec_part<Q8_0, TOKENS, ROWS, UNROLL, false, TURNS>(p, part);
        case TYPE_Q4_0: return matvec_part<Q4_0, TOKENS, ROWS, UNROLL, false, TURNS>(p, part);
        case TYPE_Q4_K: return matvec_part<Q4_K_64, TOKENS, ROWS, UNROLL, false, TURNS>(p, part);
        case TYPE_Q5_K: return matvec_part<Q5_K, TOKENS, ROWS, UNROLL, false, TURNS>(p, part);
        case TYPE_Q6_K: return matvec_part<Q6_K, TOKENS, ROWS, UNROLL, false, TURNS>(p, part);
    }
}

// The chosen experts of a few tokens.
struct ExpertsMatvec {
    const u8* weight;       // (experts, rows, columns): expert e begins at e * stride bytes, a multiple of 16
    const u8* up;           // the second matrices of gated pairs
    size_t stride, up_stride;
    const int* chosen;      // (tokens, count): numbers of experts; below 0: none
    const float* weights;   // (tokens, count): what their outputs are multiplied with; of `down`
    float* to;              // gate_up: (tokens, count, rows). down: (tokens, rows)
    int rows, count, experts;
    Vectors x;              // gate_up: (tokens, columns). down: (tokens * count, columns)
    int add;                // down: 0: to = y. 1: to += scale * y
    float scale;
    Activation activation;
    float gate_scale;
};

// to[slot][row] = activation(gate_scale * gate_e[row] x[token]) * up_e[row] x[token]. Grid: (rows / (WARPS * ROWS / 2) rounded up, tokens * count).
template <class Q, int ROWS, int UNROLL>
static __device__ __forceinline__ void experts_gate_up(const ExpertsMatvec& p) {
    constexpr int OUTPUTS = ROWS / 2, LANES = 32 / ROWS;
    // In this order: who begins behind this grid finds who was chosen, and may ask for their weights before it waits.
    wait_for_previous_grid();
    release_next_grid();
    const int lane = threadIdx.x & 31, row0 = (blockIdx.x * WARPS + (threadIdx.x >> 5)) * OUTPUTS, slot = blockIdx.y;
    if (row0 >= p.rows || p.chosen[slot] < 0) return;
    const int expert = min(p.chosen[slot], p.experts - 1);
    const size_t row_blocks = p.x.columns / Q::BLOCK;
    const u8* weight[ROWS];
    size_t block0[ROWS];
    float sums[ROWS][1];
    const int token[1] = {slot / p.count};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        weight[r] = r < OUTPUTS ? p.weight + expert * p.stride : p.up + expert * p.up_stride;
        block0[r] = min(row0 + r % OUTPUTS, p.rows - 1) * row_blocks;
        sums[r][0] = 0;
    }
    add_rows<Q, 1, ROWS, UNROLL, false>(weight, (size_t)p.rows * row_blocks, block0, p.x, token, [] {}, sums);
    float y = fold<ROWS>(reinterpret_cast<float(&)[ROWS]>(sums));
    const int row = row0 + lane / LANES % OUTPUTS;
    y = gated(p.activation, p.gate_scale * y, __shfl_xor_sync(~0u, y, 16));
    if (lane < 16 && lane % LANES == 0 && row < p.rows) p.to[(size_t)slot * p.rows + row] = y;
}

// to[token][row] = sum over the chosen of weights[slot] * down_e[row] x[slot], in the order they are named. Grid: (rows / WARPS rounded up,
// tokens). AT_ONCE experts are read together. It follows experts_gate_up, with nothing between the two but what turns rows: `chosen` and `weights` are older
// than that, and so the first weights are under way before the previous grid has ended.
template <class Q, int AT_ONCE, int UNROLL>
static __device__ __forceinline__ void experts_down(const ExpertsMatvec& p) {
    release_next_grid();
    const int row = blockIdx.x * WARPS + (threadIdx.x >> 5), slot0 = blockIdx.y * p.count;
    if (row >= p.rows) return;
    const size_t row_blocks = p.x.columns / Q::BLOCK;
    float sum = 0;
#pragma unroll 1
    for (int first = 0; first < p.count; first += AT_ONCE) {
        const u8* weight[AT_ONCE];
        size_t block0[AT_ONCE];
        int token[AT_ONCE];
        float sums[AT_ONCE][1], factor[AT_ONCE];
        bool live[AT_ONCE];
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            const int slot = slot0 + min(first + r, p.count - 1);
            const int expert = __ldcg(p.chosen + slot);
            weight[r] = p.weight + max(min(expert, p.experts - 1), 0) * p.stride;
            live[r] = first + r < p.count && expert >= 0, factor[r] = __ldcg(p.weights + slot);
            block0[r] = row * row_blocks, token[r] = slot, sums[r][0] = 0;
        }
        add_rows<Q, 1, AT_ONCE, UNROLL, true>(weight, (size_t)p.rows * row_blocks, block0, p.x, token, [] { wait_for_previous_grid(); }, sums);
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++)
            if (live[r]) sum += factor[r] * sums[r][0];
    }
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) {
        float* to = p.to + (size_t)blockIdx.y * p.rows + row;
        *to = p.add ? *to + p.scale * sum : sum;
    }
}

// One row's product with a matrix of few rows, behind its norm: a router's scores, and whom it chooses. And the row as other products read it.
struct RowRoute {
    const float* weight;  // (count, columns)
    const float* from;    // (columns), a multiple of 4
    const float* norm;    // (columns): of the root mean square
    signed char* codes;   // the row behind its norm in blocks of codes
    BlockMeta* metas;
    u32* arrived;         // blocks that have written their score: 0, and left so
    int columns;
    float epsilon;
    Routing routing;      // of ROUTED experts at most
};
constexpr int ROUTED = 256;

// A block of four warps for a row of the matrix, all of which is under way before the previous grid has ended where it has 2048 columns at most. The last to
// have its score chooses: a kernel less, and a way to memory less, than one that reads them.
static __device__ __forceinline__ void row_route(const RowRoute& p) {
    constexpr int AHEAD = 4;
    const Routing& r = p.routing;
    release_next_grid();
    if ((int)blockIdx.x == r.count) {
        wait_for_previous_grid();
        return turn_row(p.from, {p.norm, nullptr, 0, p.epsilon}, p.columns, {nullptr, p.codes, p.metas, nullptr, 0}, 0);
    }
    const float* row = p.weight + (size_t)blockIdx.x * p.columns;
    float4 w[AHEAD], g[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        const int i = (threadIdx.x + 128 * k) * 4;
        w[k] = g[k] = make_float4(0, 0, 0, 0);
        if (i < p.columns) w[k] = *reinterpret_cast<const float4*>(row + i), g[k] = *reinterpret_cast<const float4*>(p.norm + i);
    }
    wait_for_previous_grid();
    float dot = 0, squares = 0;
    const auto take = [&](int i, float4 w, float4 g) {
        if (i >= p.columns) return;
        const float4 v = *reinterpret_cast<const float4*>(p.from + i);
        dot += (v.x * g.x * w.x + v.y * g.y * w.y) + (v.z * g.z * w.z + v.w * g.w * w.w);
        squares += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    };
#pragma unroll
    for (int k = 0; k < AHEAD; k++) take((threadIdx.x + 128 * k) * 4, w[k], g[k]);
    for (int i = (threadIdx.x + 128 * AHEAD) * 4; i < p.columns; i += 512) take(i, *reinterpret_cast<const float4*>(row + i), *reinterpret_cast<const float4*>(p.norm + i));
    squares = block_sum(squares);
    dot = block_sum(dot);
    if (threadIdx.x >= 32) return;
    u32 last = 0;
    if (threadIdx.x == 0) {
        r.scores[blockIdx.x] = dot / sqrtf(squares / p.columns + p.epsilon);
        __threadfence();
        last = atomicAdd(p.arrived, 1) + 1 == (u32)r.count;
    }
    if (!__shfl_sync(~0u, last, 0)) return;
    __threadfence();
    if (threadIdx.x == 0) *p.arrived = 0;
    __shared__ float own[ROUTED], keys[ROUTED];
    __shared__ u8 taken[ROUTED];
    route_row(r, 0, own, keys, taken, threadIdx.x);
}
