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
struct type_10 {
    float inner[256];
};
struct type_11 {
    metal::uint3 inner[256];
};
struct Before {
    metal::uint3 ahead;
    metal::uint3 all;
};
struct type_12 {
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
    uint _e14 = logits[metal::min(unsigned(first + at_1.x), (_buffer_sizes.size4 - 0 - 4) / 4)];
    uint _e19 = logits[metal::min(unsigned(first + at_1.y), (_buffer_sizes.size4 - 0 - 4) / 4)];
    uint _e24 = logits[metal::min(unsigned(first + at_1.z), (_buffer_sizes.size4 - 0 - 4) / 4)];
    uint _e29 = logits[metal::min(unsigned(first + at_1.w), (_buffer_sizes.size4 - 0 - 4) / 4)];
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
    device type_2 const& kept,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = kept[metal::min(unsigned(at), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return _e3;
}

metal::uint3 added(
    metal::uint3 a,
    metal::uint3 b
) {
    uint x_4 = a.x + b.x;
    uint y_1 = a.y + b.y;
    uint carry = (x_4 < a.x) ? 1u : 0u;
    uint y_carried = y_1 + carry;
    return metal::uint3(x_4, y_carried, ((a.z + b.z) + ((y_1 < a.y) ? 1u : 0u)) + ((y_carried < y_1) ? 1u : 0u));
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
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
    bool local_1 = {};
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    uint _e2 = digits(a_6);
    uint dropped = (_e2 > 53u) ? (_e2 - 53u) : 0u;
    metal::uint3 _e9 = lowered(a_6, dropped);
    metal::uint3 _e10 = raised(_e9, dropped);
    metal::uint3 _e11 = subtracted(a_6, _e10);
    if (dropped == 0u) {
        if (!((below.y > 2147483648u))) {
            if (below.y == 2147483648u) {
                local_2 = below.x != 0u;
            } else {
                local_2 = false;
            }
            bool _e33 = local_2;
            local_1 = _e33;
        } else {
            local_1 = true;
        }
        bool _e35 = local_1;
        is_above = _e35;
        if (below.y == 2147483648u) {
            local_3 = below.x == 0u;
        } else {
            local_3 = false;
        }
        bool _e45 = local_3;
        is_half = _e45;
    } else {
        metal::uint3 _e52 = raised(metal::uint3(1u, 0u, 0u), dropped - 1u);
        bool has_more = (below.x | below.y) != 0u;
        bool _e58 = is_less(_e52, _e11);
        if (!(_e58)) {
            if (metal::all(_e52 == _e11)) {
                local_5 = has_more;
            } else {
                local_5 = false;
            }
            bool _e67 = local_5;
            local_4 = _e67;
        } else {
            local_4 = true;
        }
        bool _e69 = local_4;
        is_above = _e69;
        if (metal::all(_e52 == _e11)) {
            local_6 = !(has_more);
        } else {
            local_6 = false;
        }
        bool _e76 = local_6;
        is_half = _e76;
    }
    bool _e79 = is_above;
    if (!(_e79)) {
        bool _e83 = is_half;
        if (_e83) {
            local_8 = (_e9.x & 1u) == 1u;
        } else {
            local_8 = false;
        }
        bool _e92 = local_8;
        local_7 = _e92;
    } else {
        local_7 = true;
    }
    bool _e94 = local_7;
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
    uint first_1 = ((a_7 >> 16u) * (b_5 & 65535u)) + (low >> 16u);
    uint second = ((a_7 & 65535u) * (b_5 >> 16u)) + (first_1 & 65535u);
    return metal::uint2((second << 16u) | (low & 65535u), (((a_7 >> 16u) * (b_5 >> 16u)) + (first_1 >> 16u)) + (second >> 16u));
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
    float x_3,
    int power_2
) {
    bool local_9 = {};
    bool local_10 = {};
    bool local_11 = {};
    uint bits_4 = as_type<uint>(x_3);
    uint mantissa = (bits_4 & 8388607u) | 8388608u;
    int exponent = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(bits_4 >> 23u)) - as_type<uint>(150))) + as_type<uint>(power_2));
    if (!((bits_4 < 8388608u))) {
        local_9 = exponent < -24;
    } else {
        local_9 = true;
    }
    bool _e21 = local_9;
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
            local_11 = (whole & 1u) == 1u;
        } else {
            local_11 = false;
        }
        bool _e54 = local_11;
        local_10 = _e54;
    } else {
        local_10 = true;
    }
    bool _e56 = local_10;
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
    uint _e2 = state_at(draw_4, BEST, args);
    uint _e3 = worked_out(_e2, kept, _buffer_sizes);
    float _e4 = number(_e3);
    uint _e6 = state_at(draw_4, LAST, args);
    uint _e10 = word_of(draw_4, BELOW_MAX, weights1_, _buffer_sizes);
    if (_e10 != INFINITE) {
        float _e14 = number_of(draw_4, BELOW_MAX, weights1_, _buffer_sizes);
        float _e16 = exactly(_e4 - _e14, args);
        metal::uint4 _e19 = ordered(metal::uint4(as_type<uint>(_e16)));
        least = _e19.x;
    }
    uint _e21 = worked_out(_e6, kept, _buffer_sizes);
    uint _e24 = worked_out(_e6 + 1u, kept, _buffer_sizes);
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

Before before(
    metal::uint3 own_1,
    uint thread_2,
    threadgroup type_11& sums
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
    threadgroup type_12& items,
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
    threadgroup type_11& sums,
    threadgroup type_12& items,
    threadgroup metal::atomic_uint& passing,
    threadgroup metal::atomic_uint& weighing_last,
    threadgroup metal::uint3& left_there,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint3 own_2 = metal::uint3(0u);
    uint k = {};
    metal::uint3 sum_2 = {};
    uint k_1 = {};
    bool local_12 = {};
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
    metal::uint3 ahead_1 = _e37.ahead;
    sum_2 = ahead_1;
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
                    local_12 = metal::all(left == _e59);
                } else {
                    local_12 = true;
                }
                bool _e63 = local_12;
                if (_e63) {
                    uint _e65 = k_1;
                    uint _e66 = metal::atomic_fetch_min_explicit(&passing, _e65, metal::memory_order_relaxed);
                }
            }
            sum_2 = _e49;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint first_2 = metal::atomic_load_explicit(&passing, metal::memory_order_relaxed);
    uint _e73 = metal::atomic_load_explicit(&weighing_last, metal::memory_order_relaxed);
    uint at_2 = (first_2 == NOTHING) ? _e73 : first_2;
    sum_2 = ahead_1;
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
            if (_e81 == at_2) {
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
    return at_2;
}

uint drawn(
    uint draw_5,
    uint thread_4,
    device type_2 const& weights0_,
    device type_2 const& weights1_,
    device type_2 const& kept,
    constant Args& args,
    device type_2 const& logits,
    threadgroup type_10& lanes,
    threadgroup type_11& sums,
    threadgroup type_12& items,
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
            uint _e95 = pair;
            pair = _e95 + THREADS;
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
            uint first_3 = ((_e59 * SPAN) + (naga_div(_e66, 16u) * BLOCK)) + naga_mod(_e72, 16u);
            metal::float4 _e79 = weights_of(_e2, metal::uint4(first_3, first_3 + 16u, first_3, first_3), weights0_, args, logits, _buffer_sizes);
            float _e83 = exactly(_e79.x + _e79.y, args);
            float _e84 = tree(_e83, thread_4, args, lanes);
            uint _e85 = pair;
            if (naga_mod(_e85, 16u) == 0u) {
                uint _e91 = pair;
                items.inner[metal::min(unsigned(naga_div(_e91, 16u)), 31u)] = _e84;
            }
        }
    }
    metal::uint3 _e104 = left_there;
    uint _e105 = passed(NOTHING, BLOCK, _e104, thread_4, kept, sums, items, passing, weighing_last, left_there, _buffer_sizes);
    uint block = (_e59 * SPAN) + (BLOCK * _e105);
    if (thread_4 < BLOCK) {
        metal::float4 _e114 = weights_of(_e2, metal::uint4(block + thread_4), weights0_, args, logits, _buffer_sizes);
        items.inner[metal::min(unsigned(thread_4), 31u)] = _e114.x;
    }
    metal::uint3 _e119 = left_there;
    uint _e120 = passed(NOTHING, BLOCK, _e119, thread_4, kept, sums, items, passing, weighing_last, left_there, _buffer_sizes);
    return block + _e120;
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
, threadgroup type_10& lanes
, threadgroup type_11& sums
, threadgroup type_12& items
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
            uint _e20 = state_at(draw_6, FIRST, args);
            uint _e22 = kept[metal::min(unsigned(_e20), (_buffer_sizes.size2 - 0 - 4) / 4)];
            token = _e22;
        }
    }
    if (thread_ == 0u) {
        uint _e28 = args.chosen;
        uint _e30 = word_of(draw_6, ROW, weights1_, _buffer_sizes);
        uint _e33 = token;
        kept[metal::min(unsigned(_e28 + _e30), (_buffer_sizes.size2 - 0 - 4) / 4)] = _e33;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e35 = word_of(draw_6, CHANGES, weights1_, _buffer_sizes);
    uint _e37 = word_of(draw_6, FIRST_CHANGE, weights1_, _buffer_sizes);
    i = thread_;
    bool loop_init_7 = true;
    while(true) {
        if (!loop_init_7) {
            uint _e83 = i;
            i = _e83 + THREADS;
        }
        loop_init_7 = false;
        uint _e39 = i;
        if (_e39 < _e35) {
        } else {
            break;
        }
        {
            uint _e43 = args.changes;
            uint _e45 = i;
            uint at_3 = _e43 + (2u * (_e37 + _e45));
            uint _e51 = weights1_[metal::min(unsigned(at_3), (_buffer_sizes.size1 - 0 - 4) / 4)];
            uint changed = _e51 & 2147483647u;
            uint _e54 = i;
            if (!((_e54 == 0u))) {
                uint _e64 = weights1_[metal::min(unsigned(at_3 - 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
                local = (_e64 & 2147483647u) != changed;
            } else {
                local = true;
            }
            bool _e69 = local;
            if (_e69) {
                uint _e77 = args.saved;
                uint _e79 = i;
                uint _e82 = kept[metal::min(unsigned((_e77 + _e37) + _e79), (_buffer_sizes.size2 - 0 - 4) / 4)];
                logits[metal::min(unsigned(_e3.logits + changed), (_buffer_sizes.size4 - 0 - 4) / 4)] = _e82;
            }
        }
    }
    return;
}
