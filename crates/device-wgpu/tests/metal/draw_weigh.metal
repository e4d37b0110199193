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
typedef metal::atomic_uint type_8[1];
struct Weighing {
    Row row;
    float most;
    char _pad2[4];
    metal::uint2 last;
    uint least;
    float inverse;
};
struct type_10 {
    float inner[256];
};
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

float number_of(
    uint draw_1,
    uint word_1,
    device type_2 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = word_of(draw_1, word_1, weights1_, _buffer_sizes);
    return as_type<float>(_e2);
}

uint state_at(
    uint draw_2,
    uint word_2,
    constant Args& args
) {
    uint _e4 = args.states;
    return (_e4 + (draw_2 * STATE_WORDS)) + word_2;
}

float exactly(
    float x,
    constant Args& args
) {
    uint _e4 = args.zero;
    return as_type<float>(as_type<uint>(x) ^ _e4);
}

metal::float4 all_exactly(
    metal::float4 x_1,
    constant Args& args
) {
    uint _e4 = args.zero;
    return as_type<metal::float4>(as_type<metal::uint4>(x_1) ^ metal::uint4(_e4));
}

metal::uint4 ordered(
    metal::uint4 bits
) {
    metal::uint4 one_zero = metal::select(bits, metal::uint4(0u), bits == metal::uint4(2147483648u));
    return metal::select(one_zero | metal::uint4(2147483648u), ~(one_zero), one_zero >= metal::uint4(2147483648u));
}

float number(
    uint key
) {
    return as_type<float>(((key >> 31u) == 1u) ? (key & 2147483647u) : ~(key));
}

metal::float4 numbers(
    metal::uint4 keys
) {
    return as_type<metal::float4>(metal::select(~(keys), keys & metal::uint4(2147483647u), keys >= metal::uint4(2147483648u)));
}

Row row_of(
    uint draw_3,
    device type_2 const& weights1_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = word_of(draw_3, ROW, weights1_, _buffer_sizes);
    uint _e6 = args.masks;
    uint _e9 = args.mask_words;
    uint _e13 = word_of(draw_3, IS_MASKED, weights1_, _buffer_sizes);
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
    metal::uint4 at_1 = metal::min(tokens, metal::uint4(_e4 - 1u));
    uint first = row.logits;
    uint _e14 = logits[metal::min(unsigned(first + at_1.x), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e19 = logits[metal::min(unsigned(first + at_1.y), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e24 = logits[metal::min(unsigned(first + at_1.z), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e29 = logits[metal::min(unsigned(first + at_1.w), (_buffer_sizes.size3 - 0 - 4) / 4)];
    metal::uint4 bits_1 = metal::uint4(_e14, _e19, _e24, _e29);
    may = tokens == at_1;
    if (row.mask != NOTHING) {
        metal::uint4 words = metal::uint4(row.mask) + naga_div(at_1, metal::uint4(32u));
        uint _e45 = weights0_[metal::min(unsigned(words.x), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e49 = weights0_[metal::min(unsigned(words.y), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e53 = weights0_[metal::min(unsigned(words.z), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e57 = weights0_[metal::min(unsigned(words.w), (_buffer_sizes.size0 - 0 - 4) / 4)];
        metal::uint4 allowed = metal::uint4(_e45, _e49, _e53, _e57);
        metal::bool4 _e59 = may;
        may = _e59 & (((allowed >> naga_mod(at_1, metal::uint4(32u))) & metal::uint4(1u)) == metal::uint4(1u));
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

metal::float4 exponentials(
    metal::float4 x_2,
    constant Args& args
) {
    metal::float4 series = {};
    metal::float4 y = metal::max(x_2, metal::float4(-88.0));
    metal::float4 _e6 = all_exactly(y * 1.442695, args);
    metal::float4 _e10 = all_exactly(_e6 + metal::float4(12582912.0), args);
    metal::float4 _e14 = all_exactly(_e10 - metal::float4(12582912.0), args);
    metal::float4 _e17 = all_exactly(_e14 * 0.6933594, args);
    metal::float4 _e19 = all_exactly(y - _e17, args);
    metal::float4 _e22 = all_exactly(_e14 * 0.00021219444, args);
    metal::float4 _e24 = all_exactly(_e19 + _e22, args);
    metal::float4 _e29 = all_exactly(_e24 * 0.008312385, args);
    metal::float4 _e31 = all_exactly(metal::float4(0.041891407) + _e29, args);
    series = _e31;
    metal::float4 _e35 = series;
    metal::float4 _e37 = all_exactly(_e24 * _e35, args);
    metal::float4 _e39 = all_exactly(metal::float4(0.1666712) + _e37, args);
    series = _e39;
    metal::float4 _e42 = series;
    metal::float4 _e44 = all_exactly(_e24 * _e42, args);
    metal::float4 _e46 = all_exactly(metal::float4(0.49999222) + _e44, args);
    series = _e46;
    metal::float4 _e48 = all_exactly(_e24 * _e24, args);
    metal::float4 _e49 = series;
    metal::float4 _e51 = all_exactly(_e48 * _e49, args);
    metal::float4 _e53 = all_exactly(_e24 + _e51, args);
    series = _e53;
    metal::float4 _e56 = series;
    metal::float4 _e58 = all_exactly(metal::float4(1.0) + _e56, args);
    metal::float4 scaled = as_type<metal::float4>(as_type<metal::uint4>(_e58) + (as_type<metal::uint4>(_e10) << metal::uint4(23u)));
    return metal::select(metal::float4(0.0), scaled, x_2 > metal::float4(-87.0));
}

uint worked_out(
    uint at,
    device type_8 const& shared_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = metal::atomic_load_explicit(&shared_words[metal::min(unsigned(at), (_buffer_sizes.size4 - 0 - 4) / 4)], metal::memory_order_relaxed);
    return _e3;
}

Weighing weighing(
    uint draw_4,
    device type_2 const& weights1_,
    constant Args& args,
    device type_8 const& shared_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint least = 0u;
    uint _e2 = state_at(draw_4, BEST, args);
    uint _e3 = worked_out(_e2, shared_words, _buffer_sizes);
    float _e4 = number(_e3);
    uint _e6 = state_at(draw_4, LAST, args);
    uint _e10 = word_of(draw_4, BELOW_MAX, weights1_, _buffer_sizes);
    if (_e10 != INFINITE) {
        float _e14 = number_of(draw_4, BELOW_MAX, weights1_, _buffer_sizes);
        float _e16 = exactly(_e4 - _e14, args);
        metal::uint4 _e19 = ordered(metal::uint4(as_type<uint>(_e16)));
        least = _e19.x;
    }
    uint _e21 = worked_out(_e6, shared_words, _buffer_sizes);
    uint _e24 = worked_out(_e6 + 1u, shared_words, _buffer_sizes);
    metal::uint2 last = metal::uint2(_e21, _e24);
    Row _e26 = row_of(draw_4, weights1_, args, _buffer_sizes);
    uint _e27 = least;
    float _e29 = number_of(draw_4, INVERSE, weights1_, _buffer_sizes);
    return Weighing {_e26, _e4, {}, last, _e27, _e29};
}

metal::float4 weights_of(
    Weighing what,
    metal::uint4 tokens_1,
    device type_2 const& weights0_,
    constant Args& args,
    device type_2 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 _e3 = keys_of(what.row, tokens_1, weights0_, args, logits, _buffer_sizes);
    metal::bool4 ahead = ~(_e3) < metal::uint4(what.last.x);
    metal::bool4 last_1 = (~(_e3) == metal::uint4(what.last.x)) & (tokens_1 <= metal::uint4(what.last.y));
    metal::bool4 is_kept = ((_e3 != metal::uint4(0u)) & (_e3 >= metal::uint4(what.least))) & (ahead | last_1);
    metal::float4 _e28 = numbers(_e3);
    metal::float4 _e32 = all_exactly(_e28 - metal::float4(what.most), args);
    metal::float4 _e38 = all_exactly(metal::select(metal::float4(0.0), _e32, is_kept) * what.inverse, args);
    metal::float4 _e41 = exponentials(_e38, args);
    return metal::select(metal::float4(0.0), _e41, is_kept);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float tree(
    float own,
    uint thread_1,
    constant Args& args,
    threadgroup type_10& lanes
) {
    uint half_ = 8u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    lanes.inner[metal::min(unsigned(thread_1), 255u)] = own;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e25 = half_;
            half_ = naga_div(_e25, 2u);
        }
        loop_init = false;
        uint _e6 = half_;
        if (_e6 > 0u) {
        } else {
            break;
        }
        {
            uint _e11 = half_;
            if (naga_mod(thread_1, 16u) < _e11) {
                float _e17 = lanes.inner[metal::min(unsigned(thread_1), 255u)];
                uint _e19 = half_;
                float _e22 = lanes.inner[metal::min(unsigned(thread_1 + _e19), 255u)];
                float _e24 = exactly(_e17 + _e22, args);
                lanes.inner[metal::min(unsigned(thread_1), 255u)] = _e24;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    float _e30 = lanes.inner[metal::min(unsigned(thread_1), 255u)];
    return _e30;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& weights0_ [[buffer(1)]]
, device type_2 const& weights1_ [[buffer(2)]]
, constant Args& args [[buffer(7)]]
, device type_2 const& logits [[buffer(0)]]
, device type_8& shared_words [[buffer(6)]]
, threadgroup type_10& lanes
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    float sum = 0.0;
    uint token = {};
    uint token_1 = {};
    bool local = {};
    uint draw_5 = group.y;
    uint _e5 = args.vocab;
    uint count = naga_div((_e5 + SPAN) - 1u, SPAN);
    uint span = (group.x * 16u) + naga_div(thread_, 16u);
    uint first_1 = (span * SPAN) + naga_mod(thread_, 16u);
    metal::uint4 rounds = metal::uint4(0u, 16u, 32u, 48u);
    uint _e30 = args.vocab;
    uint end = metal::min(_e30, (span + 1u) * SPAN);
    uint _e39 = word_of(draw_5, IS_DRAWN, weights1_, _buffer_sizes);
    if (_e39 != 0u) {
        Weighing _e42 = weighing(draw_5, weights1_, args, shared_words, _buffer_sizes);
        token = first_1;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e63 = token;
                token = _e63 + 64u;
            }
            loop_init_1 = false;
            uint _e44 = token;
            if (_e44 < end) {
            } else {
                break;
            }
            {
                uint _e46 = token;
                metal::float4 _e49 = weights_of(_e42, metal::uint4(_e46) + rounds, weights0_, args, logits, _buffer_sizes);
                float _e50 = sum;
                float _e53 = exactly(_e50 + _e49.x, args);
                float _e56 = exactly(_e53 + _e49.y, args);
                float _e59 = exactly(_e56 + _e49.z, args);
                float _e62 = exactly(_e59 + _e49.w, args);
                sum = _e62;
            }
        }
    } else {
        Row _e66 = row_of(draw_5, weights1_, args, _buffer_sizes);
        uint _e68 = state_at(draw_5, BEST, args);
        uint _e69 = worked_out(_e68, shared_words, _buffer_sizes);
        token_1 = first_1;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e96 = token_1;
                token_1 = _e96 + 64u;
            }
            loop_init_2 = false;
            uint _e71 = token_1;
            if (_e71 < end) {
            } else {
                break;
            }
            {
                uint _e73 = token_1;
                metal::uint4 tokens_2 = metal::uint4(_e73) + rounds;
                metal::uint4 _e78 = keys_of(_e66, tokens_2, weights0_, args, logits, _buffer_sizes);
                metal::uint4 found = metal::select(metal::uint4(4294967295u), tokens_2, _e78 == metal::uint4(_e69));
                uint least_1 = metal::min(metal::min(found.x, found.y), metal::min(found.z, found.w));
                if (least_1 != NOTHING) {
                    uint _e93 = state_at(draw_5, FIRST, args);
                    uint _e95 = metal::atomic_fetch_min_explicit(&shared_words[metal::min(unsigned(_e93), (_buffer_sizes.size4 - 0 - 4) / 4)], least_1, metal::memory_order_relaxed);
                }
            }
        }
    }
    float _e99 = sum;
    float _e100 = tree(_e99, thread_, args, lanes);
    sum = _e100;
    if (naga_mod(thread_, 16u) == 0u) {
        local = span < count;
    } else {
        local = false;
    }
    bool _e109 = local;
    if (_e109) {
        uint _e113 = args.spans;
        float _e118 = sum;
        metal::atomic_store_explicit(&shared_words[metal::min(unsigned((_e113 + (draw_5 * count)) + span), (_buffer_sizes.size4 - 0 - 4) / 4)], as_type<uint>(_e118), metal::memory_order_relaxed);
        return;
    } else {
        return;
    }
}
