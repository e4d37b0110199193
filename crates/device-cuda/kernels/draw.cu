// Tokens drawn from rows of logits, as `kauri_device::draw` says what must come out: the same bits in every order that blocks run in.
//
// The order of a row's tokens is that of their places: falling logits, then rising ids. Top-k and top-p each come down to the last place that is kept. To
// find it, tokens are counted (or their weights summed, in whole numbers) in bins by their distance from the largest logit; those of the bin in which the
// sum reaches what is wanted are listed, and one block looks through the list. Where there are too many of them it reads the row instead.
#include "plain.cuh"
#include "ordered.cuh"

// How a row is drawn from. As in `src/choose.rs`.
struct Draw {
    // Of the logits.
    int row;
    // 0 is all.
    int top_k;
    // 1 is all.
    float top_p;
    // Infinity is all.
    float below_max;
    // 0 takes the most probable.
    float temperature;
    // Its changes, by rising token.
    int first_change;
    int changes;
    // Which of the masks it has, from 1 on; 0 is none.
    int mask;
    double uniform;
};

// What is done to a logit. As in `src/choose.rs`.
struct Change {
    // The top bit says that the number divides or multiplies; else it is added.
    u32 token;
    float number;
};

// Where the last place that is kept lies: the first bin with which the sum reaches what is wanted.
struct Reached {
    u64 bin;
    // The sum ahead of the bin, and of it.
    u64 above;
    u64 inside;
    u64 wanted;
};

// Bins by distance: narrow ones where it is small (a thousandth) and wider ones behind, 256 to an octave of a quarter more than it; as in `src/choose.rs`.
#define BINS 2304
// Tokens that one block looks through; as in `src/choose.rs`.
#define LISTED 2048
// Tokens whose weights are summed in lanes.
#define SPAN 1024
#define THREADS 512
// Bins of a look through a list.
#define PARTS 1024

static const float LARGEST = 3.402823466e38f;

// A row with its mask, and its largest logit.
struct Row {
    const float *logits;
    const u32 *mask;
    int vocab;
    float max;
};

DEVICE Row row_of(const Draw &draw, const float *logits, const u32 *masks, int vocab) {
    Row row;
    row.logits = logits + (size_t)draw.row * vocab;
    row.mask = draw.mask ? masks + (size_t)(draw.mask - 1) * ((vocab + 31) / 32) : 0;
    row.vocab = vocab;
    row.max = 0;
    return row;
}

// The word of its mask that has a token's bit; it is asked for together with the logit.
DEVICE u32 word_of(const Row &row, int token) { return row.mask && token < row.vocab ? row.mask[token / 32] : ~0u; }

// Gives each token that may be chosen, with its logit.
template <class Take>
DEVICE void each(const Row &row, int first, int step, Take take) {
    for (int start = first; start < row.vocab; start += 4 * step) {
        float logits[4];
        u32 words[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int token = start + k * step;
            logits[k] = token < row.vocab ? row.logits[token] : -INFINITE;
            words[k] = word_of(row, token);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int token = start + k * step;
            // What is not a number is not larger.
            if (logits[k] > -INFINITE && words[k] >> (token % 32) & 1) take(token, fminf(logits[k], LARGEST));
        }
    }
}

// Where a token comes in the order of its row, and its logit again.
DEVICE u64 place(float logit, int token) { return (u64)~ordered(logit) << 32 | (u32)token; }
DEVICE float logit_at(u64 place) {
    u32 key = ~(u32)(place >> 32);
    return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
}

// The bin of a distance from the largest logit.
DEVICE u32 bin_of(float max, float logit) {
    u32 bin = (__float_as_uint(__fadd_rn(__fsub_rn(max, logit), 0.25f)) - 0x3e800000u) >> 15;
    return bin < BINS ? bin : BINS - 1;
}

// As `exponential` of `kauri_device::draw`, to the bit.
DEVICE float exponential(float x) {
    float whole = __fadd_rn(__fmul_rn(x, 1.44269504088896340736f), 12582912.0f);
    float power = __fsub_rn(whole, 12582912.0f);
    float r = __fadd_rn(__fsub_rn(x, __fmul_rn(power, 355.0f / 512.0f)), __fmul_rn(power, 2.1219444e-4f));
    float series = __fadd_rn(4.1891409e-2f, __fmul_rn(r, 8.312385e-3f));
    series = __fadd_rn(1.666712e-1f, __fmul_rn(r, series));
    series = __fadd_rn(4.9999223e-1f, __fmul_rn(r, series));
    float near_one = __fadd_rn(1.0f, __fadd_rn(r, __fmul_rn(__fmul_rn(r, r), series)));
    float scaled = __uint_as_float(__float_as_uint(near_one) + (__float_as_uint(whole) << 23));
    return x > -87.0f ? scaled : 0.0f;
}

// What a token counts for where tokens are counted, or weighs at temperature 1, in parts of 2^42.
DEVICE u64 amount_of(bool counts, float max, float logit) {
    return counts ? 1 : __float2ull_rn(__fmul_rn(exponential(__fsub_rn(logit, max)), 4398046511104.0f));
}

// Adds to a sum of two halves.
DEVICE void add(u32 *low, u32 *high, u64 amount) {
    u32 part = (u32)amount;
    u32 before = atomicAdd(low, part);
    u32 rest = (u32)(amount >> 32) + (before + part < before);
    if (rest) atomicAdd(high, rest);
}

// How much is wanted of a sum.
DEVICE u64 share_of(u64 total, float top_p) { return (u64)ceil(__dmul_rn((double)total, (double)top_p)); }

// The sum of the threads ahead of this one, of THREADS; and of all. `sums` is theirs.
DEVICE u64 before(u64 own, u64 *sums, u64 &total) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        u64 other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    __syncthreads();
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    u64 ahead = 0;
    total = 0;
#pragma unroll
    for (int other = 0; other < THREADS / 32; other++) {
        if (other < warp) ahead += sums[other];
        total += sums[other];
    }
    return ahead + sum - own;
}

// Whether this block is the last of a row's to come here. What the others wrote is to be seen then, past this processor's own cache.
DEVICE bool is_last(u32 *arrived) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) + 1 == gridDim.x;
        if (last) *arrived = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

DEVICE bool is_cut(const Draw &draw) { return draw.temperature > 0 && (draw.top_k > 0 || draw.top_p < 1); }

// Makes the changes of each row, and keeps what its logits were where the first of a token is. grid (draws), any threads.
KERNEL draw_change(const Draw *draws, const Change *changes, float *saved, float *logits, int vocab) {
    Draw draw = draws[blockIdx.x];
    float *row = logits + (size_t)draw.row * vocab;
    changes += draw.first_change;
    for (int i = threadIdx.x; i < draw.changes; i += blockDim.x) {
        u32 token = changes[i].token & 0x7fffffffu;
        if (token >= vocab || i > 0 && (changes[i - 1].token & 0x7fffffffu) == token) continue;
        float logit = row[token];
        saved[draw.first_change + i] = logit;
        for (int j = i; j < draw.changes && (changes[j].token & 0x7fffffffu) == token; j++) {
            float number = changes[j].number;
            if (!(changes[j].token >> 31)) logit = __fadd_rn(logit, number);
            else if (logit > 0) logit = __fdiv_rn(logit, number);
            else logit = __fmul_rn(logit, number);
        }
        row[token] = logit;
    }
}

// The first place of every row, turned round so that what is larger comes first: to `best`, which are zeros before. grid (any, draws), 256 threads.
KERNEL draw_first(const Draw *draws, const float *logits, const u32 *masks, int vocab, u64 *best) {
    __shared__ u64 most[8];
    Row row = row_of(draws[blockIdx.y], logits, masks, vocab);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 own = 0;
    each(row, blockIdx.x * 256 + threadIdx.x, gridDim.x * 256, [&](int token, float logit) {
        u64 turned = ~place(logit, token);
        if (turned > own) own = turned;
    });
    for (int round = 0; round < 2; round++) {
        for (int step = 16; step > 0; step /= 2) {
            u64 other = __shfl_xor_sync(~0u, own, step);
            if (other > own) own = other;
        }
        if (round == 1) break;
        if (lane == 0) most[warp] = own;
        __syncthreads();
        own = lane < 8 ? most[lane] : 0;
    }
    if (threadIdx.x == 0 && own) atomicMax(best + blockIdx.y, own);
}

// Sums a row in bins, and finds the one in which the sum reaches what is wanted. `bins` (draws, BINS) and `arrived` (draws) are zeros and left so.
// grid (any, draws), THREADS threads.
KERNEL __launch_bounds__(THREADS) draw_count(const Draw *draws, const float *logits, const u32 *masks, int vocab, const u64 *best, u64 *bins,
                                             u32 *arrived, Reached *reached, u32 *listed) {
    __shared__ u32 low[BINS], high[BINS];
    __shared__ u64 sums[THREADS / 32];
    Draw draw = draws[blockIdx.y];
    u64 first = best[blockIdx.y];
    if (!is_cut(draw) || !first) return;
    Row row = row_of(draw, logits, masks, vocab);
    row.max = logit_at(~first);
    bool counts = draw.top_k > 0;
    bins += (size_t)blockIdx.y * BINS;
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS) low[bin] = high[bin] = 0;
    __syncthreads();
    each(row, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS, [&](int, float logit) {
        u64 amount = amount_of(counts, row.max, logit);
        u32 bin = bin_of(row.max, logit);
        if (amount) add(low + bin, high + bin, amount);
    });
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS) {
        u64 amount = (u64)high[bin] << 32 | low[bin];
        if (amount) atomicAdd(bins + bin, amount);
    }
    if (!is_last(arrived + blockIdx.y)) return;
    const int own = (BINS + THREADS - 1) / THREADS;
    u64 amounts[own], sum = 0, total;
#pragma unroll
    for (int k = 0; k < own; k++) {
        int bin = threadIdx.x * own + k;
        amounts[k] = bin < BINS ? __ldcg(bins + bin) : 0;
        if (bin < BINS) bins[bin] = 0;
        sum += amounts[k];
    }
    u64 above = before(sum, sums, total);
    u64 wanted = counts ? (draw.top_k < total ? draw.top_k : total) : share_of(total, draw.top_p);
#pragma unroll
    for (int k = 0; k < own; k++) {
        if (above < wanted && above + amounts[k] >= wanted) {
            Reached here = {(u64)(threadIdx.x * own + k), above, amounts[k], wanted};
            reached[blockIdx.y] = here;
        }
        above += amounts[k];
    }
    if (threadIdx.x == 0) listed[blockIdx.y] = 0;
}

// What a look through tokens works in.
struct Desk {
    u32 low[PARTS], high[PARTS];
    u64 sums[THREADS / 32];
    u64 least[THREADS / 32], most[THREADS / 32];
    u64 part, above;
};

// The least and the largest of all threads.
DEVICE void range(u64 &least, u64 &most, Desk &desk) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        u64 other = __shfl_xor_sync(~0u, least, step);
        if (other < least) least = other;
        other = __shfl_xor_sync(~0u, most, step);
        if (other > most) most = other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) desk.least[threadIdx.x / 32] = least, desk.most[threadIdx.x / 32] = most;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; warp++) {
        if (desk.least[warp] < least) least = desk.least[warp];
        if (desk.most[warp] > most) most = desk.most[warp];
    }
}

// Of the places that `all` gives, up to `last`, the one with which the sum, `above` ahead of them, reaches `wanted`. By one block: each look divides what is
// left into parts.
template <class All>
DEVICE u64 reach(All all, bool counts, float max, u64 last, u64 above, u64 wanted, Desk &desk) {
    u64 first = 0;
    while (true) {
        u64 least = ~0ull, most = 0;
        all([&](u64 place) {
            if (place < first || place > last) return;
            if (place < least) least = place;
            if (place > most) most = place;
        });
        range(least, most, desk);
        first = least, last = most;
        if (first >= last) return first;
        int wide = 64 - __clzll(last - first) - 10, shift = wide > 0 ? wide : 0;
        for (int part = threadIdx.x; part < PARTS; part += THREADS) desk.low[part] = desk.high[part] = 0;
        __syncthreads();
        all([&](u64 place) {
            if (place < first || place > last) return;
            u32 part = (u32)((place - first) >> shift);
            add(desk.low + part, desk.high + part, amount_of(counts, max, logit_at(place)));
        });
        __syncthreads();
        u64 amounts[2], total;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            int part = threadIdx.x * 2 + k;
            amounts[k] = (u64)desk.high[part] << 32 | desk.low[part];
        }
        u64 sum = above + before(amounts[0] + amounts[1], desk.sums, total);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            if (sum < wanted && sum + amounts[k] >= wanted) desk.part = threadIdx.x * 2 + k, desk.above = sum;
            sum += amounts[k];
        }
        __syncthreads();
        above = desk.above;
        first += desk.part << shift;
        u64 end = first + (1ull << shift) - 1;
        if (end < last) last = end;
    }
}

// Finds the last place of each row that is kept, of those in the bin that was reached. `list` is (draws, LISTED); `listed` (draws) are zeros.
// grid (any, draws), THREADS threads.
KERNEL __launch_bounds__(THREADS, 2) draw_cut(const Draw *draws, const float *logits, const u32 *masks, int vocab, const u64 *best, const Reached *reached,
                                           u32 *arrived, u32 *listed, u64 *list, u64 *lasts) {
    __shared__ u64 found[LISTED];
    __shared__ Desk desk;
    Draw draw = draws[blockIdx.y];
    u64 first = best[blockIdx.y];
    if (!is_cut(draw) || !first) return;
    Row row = row_of(draw, logits, masks, vocab);
    row.max = logit_at(~first);
    Reached here = reached[blockIdx.y];
    bool counts = draw.top_k > 0, both = counts && draw.top_p < 1;
    list += (size_t)blockIdx.y * LISTED;
    // Top-p behind top-k is about all that top-k keeps: of few tokens all are listed, of many none.
    bool is_whole = counts && here.above + here.inside <= LISTED;
    bool is_listed = is_whole || !both && (!counts || here.inside <= LISTED);
    u32 from = is_whole || both ? 0 : (u32)here.bin, to = both && !is_whole ? BINS - 1 : (u32)here.bin;
    if (is_listed) {
        each(row, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS, [&](int token, float logit) {
            u32 bin = bin_of(row.max, logit);
            if (bin < from || bin > to) return;
            u32 at = atomicAdd(listed + blockIdx.y, 1);
            if (at < LISTED) list[at] = place(logit, token);
        });
        if (!is_last(arrived + blockIdx.y)) return;
    } else if (blockIdx.x > 0) {
        return;
    }
    u32 count = is_listed ? __ldcg(listed + blockIdx.y) : LISTED + 1;
    bool is_few = count <= LISTED;
    if (is_few) {
        for (u32 at = threadIdx.x; at < count; at += THREADS) found[at] = __ldcg(list + at);
        __syncthreads();
    }
    auto all = [&](auto take) {
        if (is_few) {
            for (u32 at = threadIdx.x; at < count; at += THREADS) take(found[at]);
        } else {
            each(row, threadIdx.x, THREADS, [&](int token, float logit) {
                u32 bin = bin_of(row.max, logit);
                if (bin >= from && bin <= to) take(place(logit, token));
            });
        }
    };
    u64 last = reach(all, counts, row.max, ~0ull, from ? here.above : 0, here.wanted, desk);
    if (both) {
        u64 sum = 0, total;
        all([&](u64 place) {
            if (place <= last) sum += amount_of(false, row.max, logit_at(place));
        });
        before(sum, desk.sums, total);
        last = reach(all, false, row.max, last, 0, share_of(total, draw.top_p), desk);
    }
    if (threadIdx.x == 0) lasts[blockIdx.y] = last;
}

// What a token of a row weighs in the draw, if it is kept.
struct Weighing {
    u64 last;
    float least, inverse;
};

DEVICE float weight_of(const Row &row, const Weighing &what, int token) {
    if (token >= row.vocab) return 0;
    float logit = row.logits[token];
    u32 word = word_of(row, token);
    if (!(logit > -INFINITE) || !(word >> (token % 32) & 1)) return 0;
    logit = fminf(logit, LARGEST);
    bool kept = logit >= what.least && place(logit, token) <= what.last;
    return kept ? exponential(__fmul_rn(__fsub_rn(logit, row.max), what.inverse)) : 0;
}

// The sum of the lanes of each half of a warp, in the order of the definition.
DEVICE float tree(float lane) {
#pragma unroll
    for (int step = 8; step > 0; step /= 2) lane = __fadd_rn(lane, __shfl_xor_sync(~0u, lane, step));
    return lane;
}

// The sum of the lanes up to each.
DEVICE double running(double own) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        double other = __shfl_up_sync(~0u, own, step);
        if (lane >= step) own += other;
    }
    return own;
}

// The lane at which the running sum passes `left`, and what is left of it there; the last that weighs anything where rounding leaves some over.
DEVICE int passed(double own, double sum, double &left) {
    u32 some = __ballot_sync(~0u, own > 0), past = __ballot_sync(~0u, own > 0 && left < sum);
    int lane = past ? __ffs(past) - 1 : some ? 31 - __clz(some) : 0;
    double ahead = __shfl_up_sync(~0u, sum, 1);
    ahead = __shfl_sync(~0u, ahead, lane);
    if (lane > 0) left -= ahead;
    return lane;
}

// The token of a row from the sums of its spans. By one warp.
DEVICE u32 pick(const Row &row, const Weighing &what, const double *spans, double uniform) {
    int lane = threadIdx.x % 32, count = (row.vocab + SPAN - 1) / SPAN, share = (count + 31) / 32;
    double own = 0;
    for (int k = lane * share; k < (lane + 1) * share && k < count; k++) own += __ldcg(spans + k);
    double sum = running(own), left = uniform * __shfl_sync(~0u, sum, 31);
    int group = passed(own, sum, left), span = 0;
    double ahead = left;
    for (int k = group * share; k < (group + 1) * share && k < count; k++) {
        double weight = __ldcg(spans + k);
        if (!(weight > 0)) continue;
        span = k, left = ahead;
        if (ahead < weight) break;
        ahead -= weight;
    }
    own = 0;
    for (int at = 0; at < SPAN / 32; at++) {
        float weight = weight_of(row, what, span * SPAN + at * 32 + lane);
        weight = tree(__fadd_rn(weight, __shfl_xor_sync(~0u, weight, 16)));
        if (lane == at) own = weight;
    }
    int block = passed(own, running(own), left);
    int start = span * SPAN + block * 32;
    own = weight_of(row, what, start + lane);
    return start + passed(own, running(own), left);
}

// Sums the weights of spans, and draws: to `tokens` (rows), ~0 where there is none. What was changed is undone. `spans` is (draws, SPANs of the vocabulary);
// `best` (draws) are left zeros, `arrived` (draws) are zeros and left so. grid (any, draws), 128 threads.
KERNEL __launch_bounds__(128) draw(const Draw *draws, const Change *changes, const float *saved, float *logits, const u32 *masks, int vocab, u64 *best,
                                   const u64 *lasts, double *spans, u32 *arrived, u32 *tokens) {
    Draw draw = draws[blockIdx.y];
    u64 first = best[blockIdx.y];
    Row row = row_of(draw, logits, masks, vocab);
    row.max = logit_at(~first);
    Weighing what;
    what.last = is_cut(draw) ? lasts[blockIdx.y] : ~0ull;
    what.least = __fsub_rn(row.max, draw.below_max);
    what.inverse = fminf(__fdiv_rn(1.0f, draw.temperature), LARGEST);
    int count = (vocab + SPAN - 1) / SPAN, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    spans += (size_t)blockIdx.y * count;
    bool is_drawn = first && draw.temperature > 0;
    for (int span = blockIdx.x * 4 + warp; span < count && is_drawn; span += gridDim.x * 4) {
        float sum = 0;
#pragma unroll 8
        for (int at = 0; at < SPAN / 32; at++) {
            float weight = weight_of(row, what, span * SPAN + at * 32 + lane);
            sum = __fadd_rn(__fadd_rn(sum, weight), __shfl_xor_sync(~0u, weight, 16));
        }
        sum = tree(sum);
        if (lane == 0) spans[span] = sum;
    }
    if (!is_last(arrived + blockIdx.y)) return;
    if (warp == 0) {
        u32 token = ~0u;
        if (is_drawn) token = pick(row, what, spans, draw.uniform);
        else if (first) token = (u32)~first;
        if (lane == 0) tokens[draw.row] = token, best[blockIdx.y] = 0;
    }
    __syncthreads();
    changes += draw.first_change;
    for (int i = threadIdx.x; i < draw.changes; i += blockDim.x) {
        u32 token = changes[i].token & 0x7fffffffu;
        if (token >= vocab || i > 0 && (changes[i - 1].token & 0x7fffffffu) == token) continue;
        logits[(size_t)draw.row * vocab + token] = saved[draw.first_change + i];
    }
}
