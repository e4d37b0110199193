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
struct type_8 {
    float inner[256];
};
struct type_9 {
    metal::uint3 inner[256];
};
struct Before {
    metal::uint3 ahead;
    metal::uint3 all;
};
struct type_10 {
    float inner[32];
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
constant uint BLOCK = 32u;
constant int POWER = 53;

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
    bool local_1 = {};
    bool local_2 = {};
    if (row.mask != NOTHING) {
        uint _e13 = weights0_[metal::min(unsigned(row.mask + naga_div(token_1, 32u)), (_buffer_sizes.size0 - 0 - 4) / 4)];
        local_1 = ((_e13 >> naga_mod(token_1, 32u)) & 1u) == 0u;
    } else {
        local_1 = false;
    }
    bool _e22 = local_1;
    if (_e22) {
        return 0u;
    }
    uint bits_1 = logits[metal::min(unsigned(row.logits + token_1), (_buffer_sizes.size4 - 0 - 4) / 4)];
    if (!(((bits_1 & 2147483647u) > INFINITE))) {
        local_2 = bits_1 == 4286578688u;
    } else {
        local_2 = true;
    }
    bool _e39 = local_2;
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

metal::uint3 added(
    metal::uint3 a,
    metal::uint3 b
) {
    uint x_3 = a.x + b.x;
    uint y_1 = a.y + b.y;
    uint carry = (x_3 < a.x) ? 1u : 0u;
    uint y_carried = y_1 + carry;
    return metal::uint3(x_3, y_carried, ((a.z + b.z) + ((y_1 < a.y) ? 1u : 0u)) + ((y_carried < y_1) ? 1u : 0u));
}

metal::uint3 subtracted(
    metal::uint3 a_1,
    metal::uint3 b_1
) {
    uint y_2 = a_1.y - b_1.y;
    uint borrow = (a_1.x < b_1.x) ? 1u : 0u;
    return metal::uint3(a_1.x - b_1.x, y_2 - borrow, ((a_1.z - b_1.z) - ((a_1.y < b_1.y) ? 1u : 0u)) - ((y_2 < borrow) ? 1u : 0u));
}

bool is_less(
    metal::uint3 a_2,
    metal::uint3 b_2
) {
    if (a_2.z != b_2.z) {
        return a_2.z < b_2.z;
    }
    if (a_2.y != b_2.y) {
        return a_2.y < b_2.y;
    }
    return a_2.x < b_2.x;
}

metal::uint3 raised(
    metal::uint3 a_3,
    uint power
) {
    metal::uint3 b_3 = {};
    b_3 = a_3;
    if (power >= 96u) {
        b_3 = metal::uint3(0u);
    } else {
        if (power >= 64u) {
            b_3 = metal::uint3(0u, 0u, a_3.x);
        } else {
            if (power >= 32u) {
                b_3 = metal::uint3(0u, a_3.x, a_3.y);
            }
        }
    }
    uint bits_2 = naga_mod(power, 32u);
    metal::uint3 _e21 = b_3;
    metal::uint3 over = (_e21 >> metal::uint3(1u)) >> metal::uint3(31u - bits_2);
    metal::uint3 _e29 = b_3;
    return (_e29 << metal::uint3(bits_2)) | metal::uint3(0u, over.x, over.y);
}

metal::uint3 lowered(
    metal::uint3 a_4,
    uint power_1
) {
    metal::uint3 b_4 = {};
    b_4 = a_4;
    if (power_1 >= 96u) {
        b_4 = metal::uint3(0u);
    } else {
        if (power_1 >= 64u) {
            b_4 = metal::uint3(a_4.z, 0u, 0u);
        } else {
            if (power_1 >= 32u) {
                b_4 = metal::uint3(a_4.y, a_4.z, 0u);
            }
        }
    }
    uint bits_3 = naga_mod(power_1, 32u);
    metal::uint3 _e21 = b_4;
    metal::uint3 over_1 = (_e21 << metal::uint3(1u)) << metal::uint3(31u - bits_3);
    metal::uint3 _e29 = b_4;
    return (_e29 >> metal::uint3(bits_3)) | metal::uint3(over_1.y, over_1.z, 0u);
}

uint digits(
    metal::uint3 a_5
) {
    if (a_5.z != 0u) {
        return 96u - metal::clz(a_5.z);
    }
    if (a_5.y != 0u) {
        return 64u - metal::clz(a_5.y);
    }
    return 32u - metal::clz(a_5.x);
}

metal::uint3 rounded(
    metal::uint3 a_6,
    metal::uint2 below
) {
    bool is_above = false;
    bool is_half = false;
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    bool local_9 = {};
    bool local_10 = {};
    uint _e2 = digits(a_6);
    uint dropped = (_e2 > 53u) ? (_e2 - 53u) : 0u;
    metal::uint3 _e9 = lowered(a_6, dropped);
    metal::uint3 _e10 = raised(_e9, dropped);
    metal::uint3 _e11 = subtracted(a_6, _e10);
    if (dropped == 0u) {
        if (!((below.y > 2147483648u))) {
            if (below.y == 2147483648u) {
                local_4 = below.x != 0u;
            } else {
                local_4 = false;
            }
            bool _e33 = local_4;
            local_3 = _e33;
        } else {
            local_3 = true;
        }
        bool _e35 = local_3;
        is_above = _e35;
        if (below.y == 2147483648u) {
            local_5 = below.x == 0u;
        } else {
            local_5 = false;
        }
        bool _e45 = local_5;
        is_half = _e45;
    } else {
        metal::uint3 _e52 = raised(metal::uint3(1u, 0u, 0u), dropped - 1u);
        bool has_more = (below.x | below.y) != 0u;
        bool _e58 = is_less(_e52, _e11);
        if (!(_e58)) {
            if (metal::all(_e52 == _e11)) {
                local_7 = has_more;
            } else {
                local_7 = false;
            }
            bool _e67 = local_7;
            local_6 = _e67;
        } else {
            local_6 = true;
        }
        bool _e69 = local_6;
        is_above = _e69;
        if (metal::all(_e52 == _e11)) {
            local_8 = !(has_more);
        } else {
            local_8 = false;
        }
        bool _e76 = local_8;
        is_half = _e76;
    }
    bool _e79 = is_above;
    if (!(_e79)) {
        bool _e83 = is_half;
        if (_e83) {
            local_10 = (_e9.x & 1u) == 1u;
        } else {
            local_10 = false;
        }
        bool _e92 = local_10;
        local_9 = _e92;
    } else {
        local_9 = true;
    }
    bool _e94 = local_9;
    uint up = _e94 ? 1u : 0u;
    metal::uint3 _e99 = added(_e9, metal::uint3(up, 0u, 0u));
    metal::uint3 _e100 = raised(_e99, dropped);
    return _e100;
}

metal::uint2 product(
    uint a_7,
    uint b_5
) {
    uint low = (a_7 & 65535u) * (b_5 & 65535u);
    uint first = ((a_7 >> 16u) * (b_5 & 65535u)) + (low >> 16u);
    uint second = ((a_7 & 65535u) * (b_5 >> 16u)) + (first & 65535u);
    return metal::uint2((second << 16u) | (low & 65535u), (((a_7 >> 16u) * (b_5 >> 16u)) + (first >> 16u)) + (second >> 16u));
}

metal::uint4 multiplied(
    metal::uint3 a_8,
    uint b_6
) {
    metal::uint2 _e3 = product(a_8.x, b_6);
    metal::uint2 _e5 = product(a_8.y, b_6);
    metal::uint2 _e7 = product(a_8.z, b_6);
    metal::uint3 _e16 = added(metal::uint3(_e5.x, _e7.x, _e7.y), metal::uint3(_e3.y, _e5.y, 0u));
    return metal::uint4(_e3.x, _e16);
}

int naga_neg(int val) {
    return as_type<int>(-as_type<uint>(val));
}

metal::uint3 whole_of(
    float x_2,
    int power_2
) {
    bool local_11 = {};
    bool local_12 = {};
    bool local_13 = {};
    uint bits_4 = as_type<uint>(x_2);
    uint mantissa = (bits_4 & 8388607u) | 8388608u;
    int exponent = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(bits_4 >> 23u)) - as_type<uint>(150))) + as_type<uint>(power_2));
    if (!((bits_4 < 8388608u))) {
        local_11 = exponent < -24;
    } else {
        local_11 = true;
    }
    bool _e21 = local_11;
    if (_e21) {
        return metal::uint3(0u);
    }
    if (exponent >= 0) {
        metal::uint3 _e30 = raised(metal::uint3(mantissa, 0u, 0u), static_cast<uint>(exponent));
        return _e30;
    }
    uint down = static_cast<uint>(naga_neg(exponent));
    uint whole = mantissa >> down;
    uint rest = mantissa - (whole << down);
    uint half_1 = 1u << (down - 1u);
    if (!((rest > half_1))) {
        if (rest == half_1) {
            local_13 = (whole & 1u) == 1u;
        } else {
            local_13 = false;
        }
        bool _e54 = local_13;
        local_12 = _e54;
    } else {
        local_12 = true;
    }
    bool _e56 = local_12;
    return metal::uint3(whole + (_e56 ? 1u : 0u), 0u, 0u);
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
    bool local_14 = {};
    bool local_15 = {};
    bool local_16 = {};
    bool local_17 = {};
    uint _e4 = args.vocab;
    if (token_2 >= _e4) {
        return 0.0;
    }
    uint _e8 = key_of(what.row, token_2, weights0_, logits, _buffer_sizes);
    if (~(_e8) == what.last.x) {
        local_14 = token_2 <= what.last.y;
    } else {
        local_14 = false;
    }
    bool is_last = local_14;
    if (!((_e8 == 0u))) {
        local_15 = _e8 < what.least;
    } else {
        local_15 = true;
    }
    bool _e28 = local_15;
    if (!(_e28)) {
        if (!((~(_e8) < what.last.x))) {
            local_17 = is_last;
        } else {
            local_17 = true;
        }
        bool _e40 = local_17;
        local_16 = !(_e40);
    } else {
        local_16 = true;
    }
    bool _e43 = local_16;
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
    threadgroup type_8& lanes
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

Before before(
    metal::uint3 own_1,
    uint thread_2,
    threadgroup type_9& sums
) {
    metal::uint3 sum = {};
    uint step = 1u;
    metal::uint3 other = {};
    sum = own_1;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    sums.inner[metal::min(unsigned(thread_2), 255u)] = own_1;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e26 = step;
            step = _e26 * 2u;
        }
        loop_init_1 = false;
        uint _e7 = step;
        if (_e7 < THREADS) {
        } else {
            break;
        }
        {
            other = metal::uint3(0u);
            uint _e13 = step;
            if (thread_2 >= _e13) {
                uint _e16 = step;
                metal::uint3 _e19 = sums.inner[metal::min(unsigned(thread_2 - _e16), 255u)];
                other = _e19;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::uint3 _e20 = sum;
            metal::uint3 _e21 = other;
            metal::uint3 _e22 = added(_e20, _e21);
            sum = _e22;
            metal::uint3 _e25 = sum;
            sums.inner[metal::min(unsigned(thread_2), 255u)] = _e25;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    metal::uint3 _e29 = sum;
    metal::uint3 _e30 = subtracted(_e29, own_1);
    metal::uint3 _e33 = sums.inner[255];
    return Before {_e30, _e33};
}

metal::uint3 share_of(
    metal::uint3 sum_1,
    metal::uint2 share
) {
    metal::uint4 _e3 = multiplied(sum_1, share.x);
    metal::uint4 _e5 = multiplied(sum_1, share.y);
    metal::uint3 _e8 = added(_e3.yzw, _e5.xyz);
    bool _e12 = is_less(_e8, _e3.yzw);
    uint carry_1 = _e12 ? 1u : 0u;
    metal::uint3 _e22 = rounded(metal::uint3(_e8.y, _e8.z, _e5.w + carry_1), metal::uint2(_e3.x, _e8.x));
    return _e22;
}

float weight_at(
    uint spans,
    uint index,
    device type_2 const& kept,
    threadgroup type_10& items,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (spans == NOTHING) {
        float _e6 = items.inner[metal::min(unsigned(index), 31u)];
        return _e6;
    }
    uint _e10 = kept[metal::min(unsigned(spans + index), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return as_type<float>(_e10);
}

uint passed(
    uint spans_1,
    uint count,
    metal::uint3 left,
    uint thread_3,
    device type_2 const& kept,
    threadgroup type_9& sums,
    threadgroup type_10& items,
    threadgroup metal::atomic_uint& passing,
    threadgroup metal::atomic_uint& weighing_last,
    threadgroup metal::uint3& left_there,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint3 own_2 = metal::uint3(0u);
    uint k = {};
    metal::uint3 sum_2 = {};
    uint k_1 = {};
    bool local_18 = {};
    uint k_2 = {};
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_3 == 0u) {
        metal::atomic_store_explicit(&passing, NOTHING, metal::memory_order_relaxed);
        metal::atomic_store_explicit(&weighing_last, 0u, metal::memory_order_relaxed);
    }
    uint share_1 = naga_div((count + THREADS) - 1u, THREADS);
    uint end = metal::min(count, (thread_3 + 1u) * share_1);
    k = thread_3 * share_1;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e34 = k;
            k = _e34 + 1u;
        }
        loop_init_2 = false;
        uint _e25 = k;
        if (_e25 < end) {
        } else {
            break;
        }
        {
            metal::uint3 _e27 = own_2;
            uint _e28 = k;
            float _e29 = weight_at(spans_1, _e28, kept, items, _buffer_sizes);
            metal::uint3 _e31 = whole_of(_e29, POWER);
            metal::uint3 _e32 = added(_e27, _e31);
            own_2 = _e32;
        }
    }
    metal::uint3 _e36 = own_2;
    Before _e37 = before(_e36, thread_3, sums);
    metal::uint3 ahead = _e37.ahead;
    sum_2 = ahead;
    k_1 = thread_3 * share_1;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e68 = k_1;
            k_1 = _e68 + 1u;
        }
        loop_init_3 = false;
        uint _e42 = k_1;
        if (_e42 < end) {
        } else {
            break;
        }
        {
            uint _e44 = k_1;
            float _e45 = weight_at(spans_1, _e44, kept, items, _buffer_sizes);
            metal::uint3 _e46 = sum_2;
            metal::uint3 _e48 = whole_of(_e45, POWER);
            metal::uint3 _e49 = added(_e46, _e48);
            if (_e45 > 0.0) {
                uint _e53 = k_1;
                uint _e54 = metal::atomic_fetch_max_explicit(&weighing_last, _e53, metal::memory_order_relaxed);
                bool _e55 = is_less(left, _e49);
                if (!(_e55)) {
                    metal::uint3 _e59 = sum_2;
                    local_18 = metal::all(left == _e59);
                } else {
                    local_18 = true;
                }
                bool _e63 = local_18;
                if (_e63) {
                    uint _e65 = k_1;
                    uint _e66 = metal::atomic_fetch_min_explicit(&passing, _e65, metal::memory_order_relaxed);
                }
            }
            sum_2 = _e49;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint first_1 = metal::atomic_load_explicit(&passing, metal::memory_order_relaxed);
    uint _e73 = metal::atomic_load_explicit(&weighing_last, metal::memory_order_relaxed);
    uint at = (first_1 == NOTHING) ? _e73 : first_1;
    sum_2 = ahead;
    k_2 = thread_3 * share_1;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e98 = k_2;
            k_2 = _e98 + 1u;
        }
        loop_init_4 = false;
        uint _e79 = k_2;
        if (_e79 < end) {
        } else {
            break;
        }
        {
            uint _e81 = k_2;
            if (_e81 == at) {
                metal::uint3 _e84 = sum_2;
                metal::uint3 _e85 = subtracted(left, _e84);
                metal::uint3 _e88 = sum_2;
                bool _e89 = is_less(left, _e88);
                left_there = _e89 ? metal::uint3(0u) : _e85;
            }
            metal::uint3 _e91 = sum_2;
            uint _e92 = k_2;
            float _e93 = weight_at(spans_1, _e92, kept, items, _buffer_sizes);
            metal::uint3 _e95 = whole_of(_e93, POWER);
            metal::uint3 _e96 = added(_e91, _e95);
            sum_2 = _e96;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return at;
}

uint drawn(
    uint draw_5,
    uint thread_4,
    device type_2 const& weights0_,
    device type_2 const& weights1_,
    device type_2 const& kept,
    constant Args& args,
    device type_2 const& logits,
    threadgroup type_8& lanes,
    threadgroup type_9& sums,
    threadgroup type_10& items,
    threadgroup metal::atomic_uint& passing,
    threadgroup metal::atomic_uint& weighing_last,
    threadgroup metal::uint3& left_there,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint3 own_3 = metal::uint3(0u);
    uint k_3 = {};
    uint pair = {};
    Weighing _e2 = weighing(draw_5, weights1_, kept, args, _buffer_sizes);
    uint _e5 = args.vocab;
    uint count_1 = naga_div((_e5 + SPAN) - 1u, SPAN);
    uint _e14 = args.spans;
    uint spans_2 = _e14 + (draw_5 * count_1);
    uint share_2 = naga_div((count_1 + THREADS) - 1u, THREADS);
    k_3 = thread_4 * share_2;
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e45 = k_3;
            k_3 = _e45 + 1u;
        }
        loop_init_5 = false;
        uint _e28 = k_3;
        if (_e28 < metal::min(count_1, (thread_4 + 1u) * share_2)) {
        } else {
            break;
        }
        {
            metal::uint3 _e34 = own_3;
            uint _e36 = k_3;
            uint _e39 = kept[metal::min(unsigned(spans_2 + _e36), (_buffer_sizes.size2 - 0 - 4) / 4)];
            metal::uint3 _e42 = whole_of(as_type<float>(_e39), POWER);
            metal::uint3 _e43 = added(_e34, _e42);
            own_3 = _e43;
        }
    }
    metal::uint3 _e47 = own_3;
    Before _e48 = before(_e47, thread_4, sums);
    metal::uint3 _e52 = rounded(_e48.all, metal::uint2(0u));
    uint _e54 = word_of(draw_5, UNIFORM, weights1_, _buffer_sizes);
    uint _e56 = word_of(draw_5, 9u, weights1_, _buffer_sizes);
    metal::uint3 _e58 = share_of(_e52, metal::uint2(_e54, _e56));
    uint _e59 = passed(spans_2, count_1, _e58, thread_4, kept, sums, items, passing, weighing_last, left_there, _buffer_sizes);
    pair = thread_4;
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e93 = pair;
            pair = _e93 + THREADS;
        }
        loop_init_6 = false;
        uint _e61 = pair;
        if (_e61 < 512u) {
        } else {
            break;
        }
        {
            uint _e66 = pair;
            uint _e72 = pair;
            uint first_2 = ((_e59 * SPAN) + (naga_div(_e66, 16u) * BLOCK)) + naga_mod(_e72, 16u);
            float _e76 = weight_of(_e2, first_2, weights0_, args, logits, _buffer_sizes);
            float _e79 = weight_of(_e2, first_2 + 16u, weights0_, args, logits, _buffer_sizes);
            float _e81 = exactly(_e76 + _e79, args);
            float _e82 = tree(_e81, thread_4, args, lanes);
            uint _e83 = pair;
            if (naga_mod(_e83, 16u) == 0u) {
                uint _e89 = pair;
                items.inner[metal::min(unsigned(naga_div(_e89, 16u)), 31u)] = _e82;
            }
        }
    }
    metal::uint3 _e102 = left_there;
    uint _e103 = passed(NOTHING, BLOCK, _e102, thread_4, kept, sums, items, passing, weighing_last, left_there, _buffer_sizes);
    uint block = (_e59 * SPAN) + (BLOCK * _e103);
    if (thread_4 < BLOCK) {
        float _e111 = weight_of(_e2, block + thread_4, weights0_, args, logits, _buffer_sizes);
        items.inner[metal::min(unsigned(thread_4), 31u)] = _e111;
    }
    metal::uint3 _e115 = left_there;
    uint _e116 = passed(NOTHING, BLOCK, _e115, thread_4, kept, sums, items, passing, weighing_last, left_there, _buffer_sizes);
    return block + _e116;
}

uint first_of(
    Row row_1,
    uint key_1,
    uint thread_5,
    device type_2 const& weights0_,
    constant Args& args,
    device type_2 const& logits,
    threadgroup metal::atomic_uint& passing,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint token_3 = {};
    if (thread_5 == 0u) {
        metal::atomic_store_explicit(&passing, NOTHING, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    token_3 = thread_5;
    bool loop_init_7 = true;
    while(true) {
        if (!loop_init_7) {
            uint _e19 = token_3;
            token_3 = _e19 + THREADS;
        }
        loop_init_7 = false;
        uint _e8 = token_3;
        uint _e11 = args.vocab;
        if (_e8 < _e11) {
        } else {
            break;
        }
        {
            uint _e13 = token_3;
            uint _e14 = key_of(row_1, _e13, weights0_, logits, _buffer_sizes);
            if (_e14 == key_1) {
                uint _e17 = token_3;
                uint _e18 = metal::atomic_fetch_min_explicit(&passing, _e17, metal::memory_order_relaxed);
                break;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e23 = metal::atomic_load_explicit(&passing, metal::memory_order_relaxed);
    return _e23;
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
, device type_2& logits [[buffer(0)]]
, threadgroup type_8& lanes
, threadgroup type_9& sums
, threadgroup type_10& items
, threadgroup metal::atomic_uint& passing
, threadgroup metal::atomic_uint& weighing_last
, threadgroup metal::uint3& left_there
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint token = NOTHING;
    uint i = {};
    bool local = {};
    uint draw_6 = group.y;
    Row _e3 = row_of(draw_6, weights1_, args, _buffer_sizes);
    uint _e6 = state_at(draw_6, BEST, args);
    uint best = kept[metal::min(unsigned(_e6), (_buffer_sizes.size2 - 0 - 4) / 4)];
    if (best != 0u) {
        uint _e14 = word_of(draw_6, IS_DRAWN, weights1_, _buffer_sizes);
        if (_e14 != 0u) {
            uint _e17 = drawn(draw_6, thread_, weights0_, weights1_, kept, args, logits, lanes, sums, items, passing, weighing_last, left_there, _buffer_sizes);
            token = _e17;
        } else {
            uint _e18 = first_of(_e3, best, thread_, weights0_, args, logits, passing, _buffer_sizes);
            token = _e18;
        }
    }
    if (thread_ == 0u) {
        uint _e24 = args.chosen;
        uint _e26 = word_of(draw_6, ROW, weights1_, _buffer_sizes);
        uint _e29 = token;
        kept[metal::min(unsigned(_e24 + _e26), (_buffer_sizes.size2 - 0 - 4) / 4)] = _e29;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e31 = word_of(draw_6, CHANGES, weights1_, _buffer_sizes);
    uint _e33 = word_of(draw_6, FIRST_CHANGE, weights1_, _buffer_sizes);
    i = thread_;
    bool loop_init_8 = true;
    while(true) {
        if (!loop_init_8) {
            uint _e79 = i;
            i = _e79 + THREADS;
        }
        loop_init_8 = false;
        uint _e35 = i;
        if (_e35 < _e31) {
        } else {
            break;
        }
        {
            uint _e39 = args.changes;
            uint _e41 = i;
            uint at_1 = _e39 + (2u * (_e33 + _e41));
            uint _e47 = weights1_[metal::min(unsigned(at_1), (_buffer_sizes.size1 - 0 - 4) / 4)];
            uint changed = _e47 & 2147483647u;
            uint _e50 = i;
            if (!((_e50 == 0u))) {
                uint _e60 = weights1_[metal::min(unsigned(at_1 - 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
                local = (_e60 & 2147483647u) != changed;
            } else {
                local = true;
            }
            bool _e65 = local;
            if (_e65) {
                uint _e73 = args.saved;
                uint _e75 = i;
                uint _e78 = kept[metal::min(unsigned((_e73 + _e33) + _e75), (_buffer_sizes.size2 - 0 - 4) / 4)];
                logits[metal::min(unsigned(_e3.logits + changed), (_buffer_sizes.size4 - 0 - 4) / 4)] = _e78;
            }
        }
    }
    return;
}
