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
struct type_11 {
    metal::atomic_uint inner[1024];
};
struct type_12 {
    metal::uint3 inner[256];
};
struct Before {
    metal::uint3 ahead;
    metal::uint3 all;
};
struct Scope {
    Row row;
    float most;
    char _pad2[4];
    metal::uint2 bins;
    metal::uint2 words;
    uint list;
    uint count;
    bool is_listed;
    char _pad7[7];
};
struct Wanted {
    bool is_counted;
    char _pad1[15];
    metal::uint3 ahead;
    metal::uint3 sum;
    metal::uint2 limit;
    char _pad4[8];
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
constant uint NONE = 4294967295u;

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
    metal::uint4 at_3 = metal::min(tokens, metal::uint4(_e4 - 1u));
    uint first_1 = row.logits;
    uint _e14 = logits[metal::min(unsigned(first_1 + at_3.x), (_buffer_sizes.size4 - 0 - 4) / 4)];
    uint _e19 = logits[metal::min(unsigned(first_1 + at_3.y), (_buffer_sizes.size4 - 0 - 4) / 4)];
    uint _e24 = logits[metal::min(unsigned(first_1 + at_3.z), (_buffer_sizes.size4 - 0 - 4) / 4)];
    uint _e29 = logits[metal::min(unsigned(first_1 + at_3.w), (_buffer_sizes.size4 - 0 - 4) / 4)];
    metal::uint4 bits_1 = metal::uint4(_e14, _e19, _e24, _e29);
    may = tokens == at_3;
    if (row.mask != NOTHING) {
        metal::uint4 words = metal::uint4(row.mask) + naga_div(at_3, metal::uint4(32u));
        uint _e45 = weights0_[metal::min(unsigned(words.x), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e49 = weights0_[metal::min(unsigned(words.y), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e53 = weights0_[metal::min(unsigned(words.z), (_buffer_sizes.size0 - 0 - 4) / 4)];
        uint _e57 = weights0_[metal::min(unsigned(words.w), (_buffer_sizes.size0 - 0 - 4) / 4)];
        metal::uint4 allowed = metal::uint4(_e45, _e49, _e53, _e57);
        metal::bool4 _e59 = may;
        may = _e59 & (((allowed >> naga_mod(at_3, metal::uint4(32u))) & metal::uint4(1u)) == metal::uint4(1u));
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

uint key_of(
    Row row_1,
    uint token,
    device type_2 const& weights0_,
    constant Args& args,
    device type_2 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 _e3 = keys_of(row_1, metal::uint4(token), weights0_, args, logits, _buffer_sizes);
    return _e3.x;
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
    uint low_1 = (a_7 & 65535u) * (b_5 & 65535u);
    uint first_2 = ((a_7 >> 16u) * (b_5 & 65535u)) + (low_1 >> 16u);
    uint second = ((a_7 & 65535u) * (b_5 >> 16u)) + (first_2 & 65535u);
    return metal::uint2((second << 16u) | (low_1 & 65535u), (((a_7 >> 16u) * (b_5 >> 16u)) + (first_2 >> 16u)) + (second >> 16u));
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
    bool local_11 = {};
    bool local_12 = {};
    bool local_13 = {};
    uint bits_4 = as_type<uint>(x_3);
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
    uint half_ = 1u << (down - 1u);
    if (!((rest > half_))) {
        if (rest == half_) {
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

void clear(
    uint thread_1,
    threadgroup type_11& low,
    threadgroup type_11& high
) {
    uint i_1 = {};
    i_1 = thread_1;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e13 = i_1;
            i_1 = _e13 + THREADS;
        }
        loop_init = false;
        uint _e2 = i_1;
        if (_e2 < TALLIES) {
        } else {
            break;
        }
        {
            uint _e6 = i_1;
            metal::atomic_store_explicit(&low.inner[metal::min(unsigned(_e6), 1023u)], 0u, metal::memory_order_relaxed);
            uint _e10 = i_1;
            metal::atomic_store_explicit(&high.inner[metal::min(unsigned(_e10), 1023u)], 0u, metal::memory_order_relaxed);
        }
    }
    return;
}

void tally(
    uint at_1,
    metal::uint3 amount,
    threadgroup type_11& low,
    threadgroup type_11& high
) {
    uint _e5 = metal::atomic_fetch_add_explicit(&low.inner[metal::min(unsigned(at_1), 1023u)], amount.x, metal::memory_order_relaxed);
    uint rest_1 = amount.y + (((_e5 + amount.x) < _e5) ? 1u : 0u);
    if (rest_1 != 0u) {
        uint _e18 = metal::atomic_fetch_add_explicit(&high.inner[metal::min(unsigned(at_1), 1023u)], rest_1, metal::memory_order_relaxed);
        return;
    } else {
        return;
    }
}

metal::uint3 tallied(
    uint at_2,
    threadgroup type_11& low,
    threadgroup type_11& high
) {
    uint _e3 = metal::atomic_load_explicit(&low.inner[metal::min(unsigned(at_2), 1023u)], metal::memory_order_relaxed);
    uint _e6 = metal::atomic_load_explicit(&high.inner[metal::min(unsigned(at_2), 1023u)], metal::memory_order_relaxed);
    return metal::uint3(_e3, _e6, 0u);
}

metal::uint3 amount_of(
    bool is_counted,
    float most,
    float logit,
    constant Args& args
) {
    if (is_counted) {
        return metal::uint3(1u, 0u, 0u);
    }
    float _e8 = exactly(logit - most, args);
    metal::float4 _e10 = exponentials(metal::float4(_e8), args);
    metal::uint3 _e13 = whole_of(_e10.x, 42);
    return _e13;
}

uint bin_of(
    float most_1,
    float logit_1,
    constant Args& args
) {
    float _e3 = exactly(most_1 - logit_1, args);
    float _e6 = exactly(_e3 + 0.25, args);
    uint bits_5 = as_type<uint>(_e6);
    return metal::min((bits_5 - 1048576000u) >> 16u, 1023u);
}

Before before(
    metal::uint3 own_1,
    uint thread_2,
    threadgroup type_12& sums
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
    uint top_p
) {
    uint exponent_1 = metal::max(top_p >> 23u, 1u);
    uint mantissa_1 = (top_p & 8388607u) | ((top_p >= 8388608u) ? 8388608u : 0u);
    metal::uint3 _e16 = rounded(sum_1, metal::uint2(0u));
    metal::uint4 _e17 = multiplied(_e16, mantissa_1);
    metal::uint3 _e21 = rounded(_e17.xyz, metal::uint2(0u));
    metal::uint3 _e24 = lowered(_e21, 150u - exponent_1);
    metal::uint3 _e27 = raised(_e24, 150u - exponent_1);
    bool is_whole = metal::all(_e27 == _e21);
    metal::uint3 _e36 = added(_e24, metal::uint3(is_whole ? 0u : 1u, 0u, 0u));
    return _e36;
}

metal::uint3 reached(
    uint draw_3,
    bool is_counted_1,
    uint thread_3,
    device type_2 const& weights1_,
    device type_2 const& kept,
    constant Args& args,
    threadgroup type_12& sums,
    threadgroup uint& found,
    threadgroup metal::uint3& found_ahead,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint3 own_2 = metal::uint3(0u);
    uint i_2 = 0u;
    metal::uint3 wanted = {};
    metal::uint3 sum_2 = {};
    uint i_3 = 0u;
    bool local_14 = {};
    uint _e6 = args.bins;
    uint bins = _e6 + (2u * ((draw_3 * TALLIES) + (thread_3 * 4u)));
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e38 = i_2;
            i_2 = _e38 + 1u;
        }
        loop_init_2 = false;
        uint _e19 = i_2;
        if (_e19 < 4u) {
        } else {
            break;
        }
        {
            metal::uint3 _e21 = own_2;
            uint _e23 = i_2;
            uint _e26 = worked_out(bins + (2u * _e23), kept, _buffer_sizes);
            uint _e28 = i_2;
            uint _e33 = worked_out((bins + (2u * _e28)) + 1u, kept, _buffer_sizes);
            metal::uint3 _e36 = added(_e21, metal::uint3(_e26, _e33, 0u));
            own_2 = _e36;
        }
    }
    metal::uint3 _e40 = own_2;
    Before _e41 = before(_e40, thread_3, sums);
    uint _e43 = word_of(draw_3, TOP_K, weights1_, _buffer_sizes);
    wanted = metal::uint3(_e43, 0u, 0u);
    if (!(is_counted_1)) {
        uint _e51 = word_of(draw_3, TOP_P, weights1_, _buffer_sizes);
        metal::uint3 _e52 = share_of(_e41.all, _e51);
        wanted = _e52;
    } else {
        metal::uint3 _e54 = wanted;
        bool _e55 = is_less(_e41.all, _e54);
        if (_e55) {
            wanted = _e41.all;
        }
    }
    if (thread_3 == 0u) {
        found = 0u;
        found_ahead = metal::uint3(0u);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    sum_2 = _e41.ahead;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e103 = i_3;
            i_3 = _e103 + 1u;
        }
        loop_init_3 = false;
        uint _e68 = i_3;
        if (_e68 < 4u) {
        } else {
            break;
        }
        {
            uint _e71 = i_3;
            uint _e74 = worked_out(bins + (2u * _e71), kept, _buffer_sizes);
            uint _e76 = i_3;
            uint _e81 = worked_out((bins + (2u * _e76)) + 1u, kept, _buffer_sizes);
            metal::uint3 inside = metal::uint3(_e74, _e81, 0u);
            metal::uint3 _e84 = sum_2;
            metal::uint3 _e85 = added(_e84, inside);
            metal::uint3 _e86 = sum_2;
            metal::uint3 _e87 = wanted;
            bool _e88 = is_less(_e86, _e87);
            if (_e88) {
                metal::uint3 _e91 = wanted;
                bool _e92 = is_less(_e85, _e91);
                local_14 = !(_e92);
            } else {
                local_14 = false;
            }
            bool _e95 = local_14;
            if (_e95) {
                uint _e98 = i_3;
                found = (thread_3 * 4u) + _e98;
                metal::uint3 _e101 = sum_2;
                found_ahead = _e101;
            }
            sum_2 = _e85;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint3 _e105 = wanted;
    return _e105;
}

metal::uint2 place_at(
    Scope scope,
    uint i_4,
    device type_2 const& weights0_,
    device type_2 const& kept,
    constant Args& args,
    device type_2 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_15 = {};
    if (scope.is_listed) {
        uint _e9 = kept[metal::min(unsigned(scope.list + (2u * i_4)), (_buffer_sizes.size2 - 0 - 4) / 4)];
        uint _e18 = kept[metal::min(unsigned((scope.list + (2u * i_4)) + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
        return metal::uint2(_e9, _e18);
    }
    uint _e21 = key_of(scope.row, i_4, weights0_, args, logits, _buffer_sizes);
    if (_e21 == 0u) {
        return metal::uint2(4294967295u);
    }
    float _e27 = number(_e21);
    uint _e28 = bin_of(scope.most, _e27, args);
    if (_e28 >= scope.bins.x) {
        local_15 = _e28 <= scope.bins.y;
    } else {
        local_15 = false;
    }
    bool _e42 = local_15;
    return _e42 ? metal::uint2(~(_e21), i_4) : metal::uint2(4294967295u);
}

bool is_behind(
    metal::uint2 place,
    metal::uint2 other_1
) {
    bool local_16 = {};
    bool local_17 = {};
    if (!((place.x > other_1.x))) {
        if (place.x == other_1.x) {
            local_17 = place.y > other_1.y;
        } else {
            local_17 = false;
        }
        bool _e17 = local_17;
        local_16 = _e17;
    } else {
        local_16 = true;
    }
    bool _e19 = local_16;
    return _e19;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint narrow(
    Scope scope_1,
    Wanted wanted_1,
    thread metal::uint3& ahead,
    uint index,
    metal::uint2 range,
    uint begin,
    uint thread_4,
    device type_2 const& weights0_,
    device type_2 const& kept,
    constant Args& args,
    device type_2 const& logits,
    threadgroup type_11& low,
    threadgroup type_11& high,
    threadgroup type_12& sums,
    threadgroup uint& found,
    threadgroup metal::uint3& found_ahead,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint first = {};
    uint last_1 = {};
    uint round = 0u;
    uint i_5 = {};
    bool local_18 = {};
    bool local_19 = {};
    bool local_20 = {};
    bool local_21 = {};
    bool local_22 = {};
    metal::uint3 own_3 = {};
    uint i_6 = {};
    metal::uint3 sum_3 = {};
    uint i_7 = {};
    bool local_23 = {};
    first = range.x;
    last_1 = range.y;
    uint _e13 = last_1;
    uint _e14 = first;
    uint length = 32u - metal::clz(_e13 - _e14);
    uint rounds = naga_div(length + 9u, 10u);
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e169 = round;
            round = _e169 + 1u;
        }
        loop_init_4 = false;
        uint _e24 = round;
        if (_e24 < rounds) {
        } else {
            break;
        }
        {
            uint _e27 = round;
            uint rest_2 = length - (10u * _e27);
            uint shift = (rest_2 > 10u) ? (rest_2 - 10u) : 0u;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            clear(thread_4, low, high);
            if (thread_4 == 0u) {
                found = 0u;
                metal::uint3 _e41 = ahead;
                found_ahead = _e41;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            i_5 = thread_4;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e99 = i_5;
                    i_5 = _e99 + THREADS;
                }
                loop_init_5 = false;
                uint _e43 = i_5;
                if (_e43 < scope_1.count) {
                } else {
                    break;
                }
                {
                    uint _e46 = i_5;
                    metal::uint2 _e47 = place_at(scope_1, _e46, weights0_, kept, args, logits, _buffer_sizes);
                    uint word_2 = (index == 1u) ? _e47.y : _e47.x;
                    if (begin != NONE) {
                        local_18 = _e47.x != begin;
                    } else {
                        local_18 = false;
                    }
                    bool is_other = local_18;
                    if (!((_e47.x == NONE))) {
                        local_19 = is_other;
                    } else {
                        local_19 = true;
                    }
                    bool _e68 = local_19;
                    if (!(_e68)) {
                        uint _e72 = first;
                        local_20 = word_2 < _e72;
                    } else {
                        local_20 = true;
                    }
                    bool _e75 = local_20;
                    if (!(_e75)) {
                        uint _e79 = last_1;
                        local_21 = word_2 > _e79;
                    } else {
                        local_21 = true;
                    }
                    bool _e82 = local_21;
                    if (!(_e82)) {
                        bool _e87 = is_behind(_e47, wanted_1.limit);
                        local_22 = _e87;
                    } else {
                        local_22 = true;
                    }
                    bool _e89 = local_22;
                    if (_e89) {
                        continue;
                    }
                    uint _e90 = first;
                    float _e97 = number(~(_e47.x));
                    metal::uint3 _e98 = amount_of(wanted_1.is_counted, scope_1.most, _e97, args);
                    tally((word_2 - _e90) >> shift, _e98, low, high);
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            own_3 = metal::uint3(0u);
            i_6 = 0u;
            bool loop_init_6 = true;
            while(true) {
                if (!loop_init_6) {
                    uint _e116 = i_6;
                    i_6 = _e116 + 1u;
                }
                loop_init_6 = false;
                uint _e107 = i_6;
                if (_e107 < 4u) {
                } else {
                    break;
                }
                {
                    metal::uint3 _e109 = own_3;
                    uint _e111 = i_6;
                    metal::uint3 _e113 = tallied((thread_4 * 4u) + _e111, low, high);
                    metal::uint3 _e114 = added(_e109, _e113);
                    own_3 = _e114;
                }
            }
            metal::uint3 _e118 = ahead;
            metal::uint3 _e119 = own_3;
            Before _e120 = before(_e119, thread_4, sums);
            metal::uint3 _e122 = added(_e118, _e120.ahead);
            sum_3 = _e122;
            i_7 = 0u;
            bool loop_init_7 = true;
            while(true) {
                if (!loop_init_7) {
                    uint _e151 = i_7;
                    i_7 = _e151 + 1u;
                }
                loop_init_7 = false;
                uint _e126 = i_7;
                if (_e126 < 4u) {
                } else {
                    break;
                }
                {
                    metal::uint3 _e128 = sum_3;
                    uint _e130 = i_7;
                    metal::uint3 _e132 = tallied((thread_4 * 4u) + _e130, low, high);
                    metal::uint3 _e133 = added(_e128, _e132);
                    metal::uint3 _e134 = sum_3;
                    bool _e136 = is_less(_e134, wanted_1.sum);
                    if (_e136) {
                        bool _e140 = is_less(_e133, wanted_1.sum);
                        local_23 = !(_e140);
                    } else {
                        local_23 = false;
                    }
                    bool _e143 = local_23;
                    if (_e143) {
                        uint _e146 = i_7;
                        found = (thread_4 * 4u) + _e146;
                        metal::uint3 _e149 = sum_3;
                        found_ahead = _e149;
                    }
                    sum_3 = _e133;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::uint3 _e154 = found_ahead;
            ahead = _e154;
            uint _e155 = first;
            uint _e157 = found;
            first = _e155 + (_e157 << shift);
            uint _e160 = last_1;
            uint _e161 = first;
            last_1 = metal::min(_e160, (_e161 + (1u << shift)) - 1u);
        }
    }
    uint _e171 = first;
    return _e171;
}

metal::uint2 reach(
    Scope scope_2,
    Wanted wanted_2,
    uint thread_5,
    device type_2 const& weights0_,
    device type_2 const& kept,
    constant Args& args,
    device type_2 const& logits,
    threadgroup type_11& low,
    threadgroup type_11& high,
    threadgroup type_12& sums,
    threadgroup uint& found,
    threadgroup metal::uint3& found_ahead,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint3 ahead_1 = {};
    ahead_1 = wanted_2.ahead;
    metal::uint2 words_1 = metal::uint2(scope_2.words.x, metal::min(scope_2.words.y, wanted_2.limit.x));
    uint _e15 = narrow(scope_2, wanted_2, ahead_1, 0u, words_1, NONE, thread_5, weights0_, kept, args, logits, low, high, sums, found, found_ahead, _buffer_sizes);
    uint _e20 = args.vocab;
    uint _e24 = narrow(scope_2, wanted_2, ahead_1, 1u, metal::uint2(0u, _e20 - 1u), _e15, thread_5, weights0_, kept, args, logits, low, high, sums, found, found_ahead, _buffer_sizes);
    return metal::uint2(_e15, _e24);
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
, threadgroup type_11& low
, threadgroup type_11& high
, threadgroup type_12& sums
, threadgroup uint& found
, threadgroup metal::uint3& found_ahead
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    bool local = {};
    bool local_1 = {};
    metal::uint2 last = {};
    metal::uint3 own = metal::uint3(0u);
    uint i = {};
    bool local_2 = {};
    uint draw_4 = group.y;
    uint _e5 = state_at(draw_4, BEST, args);
    uint best = kept[metal::min(unsigned(_e5), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e9 = word_of(draw_4, IS_CUT, weights1_, _buffer_sizes);
    if (!((_e9 == 0u))) {
        local = best == 0u;
    } else {
        local = true;
    }
    bool _e18 = local;
    if (_e18) {
        return;
    }
    uint _e20 = word_of(draw_4, TOP_K, weights1_, _buffer_sizes);
    bool is_counted_2 = _e20 > 0u;
    uint _e24 = word_of(draw_4, TOP_P, weights1_, _buffer_sizes);
    bool is_shared = _e24 < 1065353216u;
    if (is_counted_2) {
        local_1 = is_shared;
    } else {
        local_1 = false;
    }
    bool is_both = local_1;
    metal::uint3 _e31 = reached(draw_4, is_counted_2, thread_, weights1_, kept, args, sums, found, found_ahead, _buffer_sizes);
    uint _e33 = found;
    uint first_bin = is_both ? 0u : _e33;
    metal::uint3 _e37 = found_ahead;
    metal::uint3 ahead_2 = is_both ? metal::uint3(0u) : _e37;
    uint _e43 = state_at(draw_4, LIST_COUNT, args);
    uint listed = kept[metal::min(unsigned(_e43), (_buffer_sizes.size2 - 0 - 4) / 4)];
    Row _e46 = row_of(draw_4, weights1_, args, _buffer_sizes);
    float _e47 = number(best);
    uint _e49 = found;
    uint _e53 = state_at(draw_4, LIST_LEAST, args);
    uint _e55 = kept[metal::min(unsigned(_e53), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e58 = state_at(draw_4, LIST_LARGEST, args);
    uint _e60 = kept[metal::min(unsigned(_e58), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e64 = args.list;
    uint _e72 = args.vocab;
    Scope scope_3 = Scope {_e46, _e47, {}, metal::uint2(first_bin, _e49), metal::uint2(_e55, _e60), _e64 + ((draw_4 * 2u) * LISTED), (listed <= LISTED) ? listed : _e72, listed <= LISTED};
    metal::uint2 _e82 = reach(scope_3, Wanted {is_counted_2, {}, ahead_2, _e31, metal::uint2(4294967295u)}, thread_, weights0_, kept, args, logits, low, high, sums, found, found_ahead, _buffer_sizes);
    last = _e82;
    if (is_both) {
        i = thread_;
        bool loop_init_8 = true;
        while(true) {
            if (!loop_init_8) {
                uint _e111 = i;
                i = _e111 + THREADS;
            }
            loop_init_8 = false;
            uint _e88 = i;
            if (_e88 < scope_3.count) {
            } else {
                break;
            }
            {
                uint _e91 = i;
                metal::uint2 _e92 = place_at(scope_3, _e91, weights0_, kept, args, logits, _buffer_sizes);
                if (_e92.x != NONE) {
                    metal::uint2 _e98 = last;
                    bool _e99 = is_behind(_e92, _e98);
                    local_2 = !(_e99);
                } else {
                    local_2 = false;
                }
                bool _e102 = local_2;
                if (_e102) {
                    metal::uint3 _e103 = own;
                    float _e108 = number(~(_e92.x));
                    metal::uint3 _e109 = amount_of(false, scope_3.most, _e108, args);
                    metal::uint3 _e110 = added(_e103, _e109);
                    own = _e110;
                }
            }
        }
        metal::uint3 _e114 = own;
        Before _e115 = before(_e114, thread_, sums);
        metal::uint3 weight = _e115.all;
        uint _e121 = word_of(draw_4, TOP_P, weights1_, _buffer_sizes);
        metal::uint3 _e122 = share_of(weight, _e121);
        metal::uint2 _e123 = last;
        metal::uint2 _e125 = reach(scope_3, Wanted {false, {}, metal::uint3(0u), _e122, _e123}, thread_, weights0_, kept, args, logits, low, high, sums, found, found_ahead, _buffer_sizes);
        last = _e125;
    }
    if (thread_ == 0u) {
        uint _e130 = state_at(draw_4, LAST, args);
        uint _e133 = last.x;
        kept[metal::min(unsigned(_e130), (_buffer_sizes.size2 - 0 - 4) / 4)] = _e133;
        uint _e136 = state_at(draw_4, LAST, args);
        uint _e141 = last.y;
        kept[metal::min(unsigned(_e136 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)] = _e141;
        return;
    } else {
        return;
    }
}
