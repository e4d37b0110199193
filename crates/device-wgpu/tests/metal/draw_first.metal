// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size3;
    uint size4;
};

typedef uint type_2[1];
struct Args {
    uint logits;
    uint vocab;
    uint masks;
    uint mask_words;
    uint changes;
    uint chosen;
    uint states;
    uint bins;
    uint list;
    uint spans;
    uint saved;
    uint zero;
};
struct Row {
    uint logits;
    uint mask;
};
typedef metal::atomic_uint type_6[1];
constant uint EACH = 4u;
constant uint EACH_GATED = 2u;
constant uint PRODUCT_THREADS = 64u;
constant uint PRODUCT_ROWS = 8u;
constant uint GATED_ROWS = 4u;
constant uint THREADS = 256u;
constant uint LANES = 32u;
constant uint ROWS = 8u;
constant uint PARTS_REDUCED = 8u;
constant uint TOKENS = 1u;
constant uint CACHE = 0u;
constant uint EXPERTS_MAX = 1024u;
constant uint GROUPS_MAX = 64u;
constant uint TAPS_MAX = 16u;
constant uint STATE_COLUMNS_MAX = 512u;
constant uint STATE_WIDTH_MAX = 512u;
constant uint ROW_MAX = 640u;
constant uint ROW_FOURS_MAX = 160u;
constant uint HEAD_WORDS = 12u;
constant uint STATE_WORDS = 7u;
constant uint TALLIES = 1024u;
constant uint LISTED = 4096u;
constant uint SPAN = 1024u;
constant uint CHUNK = 2048u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant uint ROW = 0u;
constant uint TOP_K = 1u;
constant uint TOP_P = 2u;
constant uint BELOW_MAX = 3u;
constant uint INVERSE = 4u;
constant uint FIRST_CHANGE = 5u;
constant uint CHANGES = 6u;
constant uint IS_MASKED = 7u;
constant uint UNIFORM = 8u;
constant uint IS_DRAWN = 10u;
constant uint IS_CUT = 11u;
constant uint BEST = 0u;
constant uint FIRST = 1u;
constant uint LAST = 2u;
constant uint LIST_COUNT = 4u;
constant uint LIST_LEAST = 5u;
constant uint LIST_LARGEST = 6u;
constant uint INFINITE = 2139095040u;
constant uint LARGEST = 2139095039u;

uint word_of(
    uint draw,
    uint word,
    device type_2 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e7 = weights1_[metal::min(unsigned((draw * HEAD_WORDS) + word), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return _e7;
}

uint state_at(
    uint draw_1,
    uint word_1,
    constant Args& args
) {
    uint _e4 = args.states;
    return (_e4 + (draw_1 * STATE_WORDS)) + word_1;
}

metal::uint4 ordered(
    metal::uint4 bits
) {
    metal::uint4 one_zero = metal::select(bits, metal::uint4(0u), bits == metal::uint4(2147483648u));
    return metal::select(one_zero | metal::uint4(2147483648u), ~(one_zero), one_zero >= metal::uint4(2147483648u));
}

Row row_of(
    uint draw_2,
    device type_2 const& weights1_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = word_of(draw_2, ROW, weights1_, _buffer_sizes);
    uint _e6 = args.masks;
    uint _e9 = args.mask_words;
    uint _e13 = word_of(draw_2, IS_MASKED, weights1_, _buffer_sizes);
    uint mask = (_e13 != 0u) ? (_e6 + (_e2 * _e9)) : NOTHING;
    uint _e19 = args.logits;
    uint _e22 = args.vocab;
    return Row {_e19 + (_e2 * _e22), mask};
}

metal::uint4 naga_div(metal::uint4 lhs, metal::uint4 rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

metal::uint4 naga_mod(metal::uint4 lhs, metal::uint4 rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

metal::uint4 keys_of(
    Row row,
    metal::uint4 tokens,
    device type_2 const& weights0_,
    constant Args& args,
    device type_2 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::bool4 may = {};
    uint _e4 = args.vocab;
    metal::uint4 at = metal::min(tokens, metal::uint4(_e4 - 1u));
    uint first = row.logits;
    uint _e14 = logits[metal::min(unsigned(first + at.x), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e19 = logits[metal::min(unsigned(first + at.y), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e24 = logits[metal::min(unsigned(first + at.z), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e29 = logits[metal::min(unsigned(first + at.w), (_buffer_sizes.size3 - 0 - 4) / 4)];
    metal::uint4 bits_1 = metal::uint4(_e14, _e19, _e24, _e29);
    may = tokens == at;
    if (row.mask != NOTHING) {
        metal::uint4 words = metal::uint4(row.mask) + naga_div(at, metal::uint4(32u));
        uint _e45 = weights0_[metal::min(unsigned(words.x), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e49 = weights0_[metal::min(unsigned(words.y), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e53 = weights0_[metal::min(unsigned(words.z), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e57 = weights0_[metal::min(unsigned(words.w), (_buffer_sizes.size0 - 0 - 4) / 4)];
        metal::uint4 allowed = metal::uint4(_e45, _e49, _e53, _e57);
        metal::bool4 _e59 = may;
        may = _e59 & (((allowed >> naga_mod(at, metal::uint4(32u))) & metal::uint4(1u)) == metal::uint4(1u));
    }
    metal::bool4 _e71 = may;
    may = _e71 & ((bits_1 & metal::uint4(2147483647u)) <= metal::uint4(2139095040u));
    metal::bool4 _e79 = may;
    may = _e79 & (bits_1 != metal::uint4(4286578688u));
    metal::uint4 finite = metal::select(bits_1, metal::uint4(2139095039u), bits_1 == metal::uint4(2139095040u));
    metal::uint4 _e92 = ordered(finite);
    metal::bool4 _e93 = may;
    return metal::select(metal::uint4(0u), _e92, _e93);
}

metal::uint4 four(
    uint token_1
) {
    return metal::uint4(token_1) + metal::uint4(0u, 256u, 512u, 768u);
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& weights0_ [[buffer(1)]]
, device type_2 const& weights1_ [[buffer(2)]]
, constant Args& args [[buffer(7)]]
, device type_2 const& logits [[buffer(0)]]
, device type_6& shared_words [[buffer(6)]]
, threadgroup metal::atomic_uint& largest
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = {};
    uint own = 0u;
    uint token = {};
    uint draw_3 = group.y;
    Row _e4 = row_of(draw_3, weights1_, args, _buffer_sizes);
    if (thread_ == 0u) {
        metal::atomic_store_explicit(&largest, 0u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e10 = word_of(draw_3, IS_CUT, weights1_, _buffer_sizes);
    if (_e10 != 0u) {
        i = (group.x * THREADS) + thread_;
        bool loop_init = true;
        while(true) {
            if (!loop_init) {
                uint _e34 = i;
                i = _e34 + (groups.x * THREADS);
            }
            loop_init = false;
            uint _e18 = i;
            if (_e18 < 2048u) {
            } else {
                break;
            }
            {
                uint _e24 = args.bins;
                uint _e30 = i;
                metal::atomic_store_explicit(&shared_words[metal::min(unsigned((_e24 + ((draw_3 * 2u) * TALLIES)) + _e30), (_buffer_sizes.size4 - 0 - 4) / 4)], 0u, metal::memory_order_relaxed);
            }
        }
    }
    uint _e43 = args.vocab;
    uint end = metal::min(_e43, (group.x + 1u) * CHUNK);
    token = (group.x * CHUNK) + thread_;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e69 = token;
            token = _e69 + 1024u;
        }
        loop_init_1 = false;
        uint _e55 = token;
        if (_e55 < end) {
        } else {
            break;
        }
        {
            uint _e57 = token;
            metal::uint4 _e58 = four(_e57);
            metal::uint4 _e59 = keys_of(_e4, _e58, weights0_, args, logits, _buffer_sizes);
            uint _e60 = own;
            own = metal::max(_e60, metal::max(metal::max(_e59.x, _e59.y), metal::max(_e59.z, _e59.w)));
        }
    }
    uint _e73 = own;
    uint _e74 = metal::atomic_fetch_max_explicit(&largest, _e73, metal::memory_order_relaxed);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_ == 0u) {
        uint _e79 = state_at(draw_3, BEST, args);
        uint _e82 = metal::atomic_load_explicit(&largest, metal::memory_order_relaxed);
        uint _e83 = metal::atomic_fetch_max_explicit(&shared_words[metal::min(unsigned(_e79), (_buffer_sizes.size4 - 0 - 4) / 4)], _e82, metal::memory_order_relaxed);
        return;
    } else {
        return;
    }
}
