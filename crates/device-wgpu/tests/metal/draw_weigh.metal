// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
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
struct Weighing {
    Row row;
    float most;
    char _pad2[4];
    metal::uint2 last;
    uint least;
    float inverse;
};
struct type_5 {
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
constant uint STATE_WORDS = 3u;
constant uint TALLIES = 1024u;
constant uint LISTED = 4096u;
constant uint SPAN = 1024u;
constant uint CHUNK = 4096u;
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
constant uint LAST = 1u;
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

uint ordered(
    uint bits
) {
    uint one_zero = (bits == 2147483648u) ? 0u : bits;
    return ((one_zero >> 31u) == 1u) ? ~(one_zero) : (one_zero | 2147483648u);
}

float number(
    uint key
) {
    return as_type<float>(((key >> 31u) == 1u) ? (key & 2147483647u) : ~(key));
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

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint key_of(
    Row row,
    uint token_1,
    device type_2 const& weights0_,
    device type_2 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_2 = {};
    bool local_3 = {};
    if (row.mask != NOTHING) {
        uint _e13 = weights0_[metal::min(unsigned(row.mask + naga_div(token_1, 32u)), (_buffer_sizes.size0 - 0 - 4) / 4)];
        local_2 = ((_e13 >> naga_mod(token_1, 32u)) & 1u) == 0u;
    } else {
        local_2 = false;
    }
    bool _e22 = local_2;
    if (_e22) {
        return 0u;
    }
    uint bits_1 = logits[metal::min(unsigned(row.logits + token_1), (_buffer_sizes.size4 - 0 - 4) / 4)];
    if (!(((bits_1 & 2147483647u) > INFINITE))) {
        local_3 = bits_1 == 4286578688u;
    } else {
        local_3 = true;
    }
    bool _e39 = local_3;
    if (_e39) {
        return 0u;
    }
    uint _e45 = ordered((bits_1 == INFINITE) ? LARGEST : bits_1);
    return _e45;
}

float exponential(
    float x_1,
    constant Args& args
) {
    float series = {};
    float y = metal::max(x_1, -88.0);
    float _e5 = exactly(y * 1.442695, args);
    float _e8 = exactly(_e5 + 12582912.0, args);
    float _e11 = exactly(_e8 - 12582912.0, args);
    float _e14 = exactly(_e11 * 0.6933594, args);
    float _e16 = exactly(y - _e14, args);
    float _e19 = exactly(_e11 * 0.00021219444, args);
    float _e21 = exactly(_e16 + _e19, args);
    float _e24 = exactly(_e21 * 0.008312385, args);
    float _e27 = exactly(0.041891407 + _e24, args);
    series = _e27;
    float _e29 = series;
    float _e31 = exactly(_e21 * _e29, args);
    float _e34 = exactly(0.1666712 + _e31, args);
    series = _e34;
    float _e35 = series;
    float _e37 = exactly(_e21 * _e35, args);
    float _e40 = exactly(0.49999222 + _e37, args);
    series = _e40;
    float _e42 = exactly(_e21 * _e21, args);
    float _e43 = series;
    float _e45 = exactly(_e42 * _e43, args);
    float _e47 = exactly(_e21 + _e45, args);
    float _e50 = exactly(1.0 + _e47, args);
    float scaled = as_type<float>(as_type<uint>(_e50) + (as_type<uint>(_e8) << 23u));
    return (x_1 > -87.0) ? scaled : 0.0;
}

Weighing weighing(
    uint draw_4,
    device type_2 const& weights1_,
    device type_2 const& kept,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint least = 0u;
    uint _e3 = state_at(draw_4, BEST, args);
    uint _e5 = kept[metal::min(unsigned(_e3), (_buffer_sizes.size2 - 0 - 4) / 4)];
    float _e6 = number(_e5);
    uint _e8 = state_at(draw_4, LAST, args);
    uint _e12 = word_of(draw_4, BELOW_MAX, weights1_, _buffer_sizes);
    if (_e12 != INFINITE) {
        float _e16 = number_of(draw_4, BELOW_MAX, weights1_, _buffer_sizes);
        float _e18 = exactly(_e6 - _e16, args);
        uint _e20 = ordered(as_type<uint>(_e18));
        least = _e20;
    }
    Row _e21 = row_of(draw_4, weights1_, args, _buffer_sizes);
    uint _e24 = kept[metal::min(unsigned(_e8), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e29 = kept[metal::min(unsigned(_e8 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e31 = least;
    float _e33 = number_of(draw_4, INVERSE, weights1_, _buffer_sizes);
    return Weighing {_e21, _e6, {}, metal::uint2(_e24, _e29), _e31, _e33};
}

float weight_of(
    Weighing what,
    uint token_2,
    device type_2 const& weights0_,
    constant Args& args,
    device type_2 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    uint _e4 = args.vocab;
    if (token_2 >= _e4) {
        return 0.0;
    }
    uint _e8 = key_of(what.row, token_2, weights0_, logits, _buffer_sizes);
    if (~(_e8) == what.last.x) {
        local_4 = token_2 <= what.last.y;
    } else {
        local_4 = false;
    }
    bool is_last = local_4;
    if (!((_e8 == 0u))) {
        local_5 = _e8 < what.least;
    } else {
        local_5 = true;
    }
    bool _e28 = local_5;
    if (!(_e28)) {
        if (!((~(_e8) < what.last.x))) {
            local_7 = is_last;
        } else {
            local_7 = true;
        }
        bool _e40 = local_7;
        local_6 = !(_e40);
    } else {
        local_6 = true;
    }
    bool _e43 = local_6;
    if (_e43) {
        return 0.0;
    }
    float _e45 = number(_e8);
    float _e48 = exactly(_e45 - what.most, args);
    float _e51 = exactly(_e48 * what.inverse, args);
    float _e52 = exponential(_e51, args);
    return _e52;
}

float tree(
    float own,
    uint thread_1,
    constant Args& args,
    threadgroup type_5& lanes
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
, device type_2& kept [[buffer(6)]]
, constant Args& args [[buffer(7)]]
, device type_2 const& logits [[buffer(0)]]
, threadgroup type_5& lanes
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    float sum = 0.0;
    bool local = {};
    uint token = {};
    bool local_1 = {};
    uint draw_5 = group.y;
    uint _e5 = args.vocab;
    uint count = naga_div((_e5 + SPAN) - 1u, SPAN);
    uint span = (group.x * 16u) + naga_div(thread_, 16u);
    uint _e21 = word_of(draw_5, IS_DRAWN, weights1_, _buffer_sizes);
    if (_e21 != 0u) {
        local = span < count;
    } else {
        local = false;
    }
    bool _e28 = local;
    if (_e28) {
        Weighing _e29 = weighing(draw_5, weights1_, kept, args, _buffer_sizes);
        uint _e32 = args.vocab;
        uint end = metal::min(_e32, (span + 1u) * SPAN);
        token = (span * SPAN) + naga_mod(thread_, 16u);
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e51 = token;
                token = _e51 + 16u;
            }
            loop_init_1 = false;
            uint _e44 = token;
            if (_e44 < end) {
            } else {
                break;
            }
            {
                float _e46 = sum;
                uint _e47 = token;
                float _e48 = weight_of(_e29, _e47, weights0_, args, logits, _buffer_sizes);
                float _e50 = exactly(_e46 + _e48, args);
                sum = _e50;
            }
        }
    }
    float _e54 = sum;
    float _e55 = tree(_e54, thread_, args, lanes);
    sum = _e55;
    if (naga_mod(thread_, 16u) == 0u) {
        local_1 = span < count;
    } else {
        local_1 = false;
    }
    bool _e64 = local_1;
    if (_e64) {
        uint _e68 = args.spans;
        float _e73 = sum;
        kept[metal::min(unsigned((_e68 + (draw_5 * count)) + span), (_buffer_sizes.size2 - 0 - 4) / 4)] = as_type<uint>(_e73);
        return;
    } else {
        return;
    }
}
