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
typedef metal::atomic_uint type_7[1];
struct type_10 {
    metal::uint3 inner[256];
};
struct Before {
    metal::uint3 ahead;
    metal::uint3 all;
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

metal::uint4 four(
    uint token_1
) {
    return metal::uint4(token_1) + metal::uint4(0u, 256u, 512u, 768u);
}

uint worked_out(
    uint at,
    device type_7 const& shared_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = metal::atomic_load_explicit(&shared_words[metal::min(unsigned(at), (_buffer_sizes.size4 - 0 - 4) / 4)], metal::memory_order_relaxed);
    return _e3;
}

metal::uint3 added(
    metal::uint3 a,
    metal::uint3 b
) {
    uint x_1 = a.x + b.x;
    uint y = a.y + b.y;
    uint carry = (x_1 < a.x) ? 1u : 0u;
    uint y_carried = y + carry;
    return metal::uint3(x_1, y_carried, ((a.z + b.z) + ((y < a.y) ? 1u : 0u)) + ((y_carried < y) ? 1u : 0u));
}

metal::uint3 subtracted(
    metal::uint3 a_1,
    metal::uint3 b_1
) {
    uint y_1 = a_1.y - b_1.y;
    uint borrow = (a_1.x < b_1.x) ? 1u : 0u;
    return metal::uint3(a_1.x - b_1.x, y_1 - borrow, ((a_1.z - b_1.z) - ((a_1.y < b_1.y) ? 1u : 0u)) - ((y_1 < borrow) ? 1u : 0u));
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
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    bool local_9 = {};
    uint _e2 = digits(a_6);
    uint dropped = (_e2 > 53u) ? (_e2 - 53u) : 0u;
    metal::uint3 _e9 = lowered(a_6, dropped);
    metal::uint3 _e10 = raised(_e9, dropped);
    metal::uint3 _e11 = subtracted(a_6, _e10);
    if (dropped == 0u) {
        if (!((below.y > 2147483648u))) {
            if (below.y == 2147483648u) {
                local_3 = below.x != 0u;
            } else {
                local_3 = false;
            }
            bool _e33 = local_3;
            local_2 = _e33;
        } else {
            local_2 = true;
        }
        bool _e35 = local_2;
        is_above = _e35;
        if (below.y == 2147483648u) {
            local_4 = below.x == 0u;
        } else {
            local_4 = false;
        }
        bool _e45 = local_4;
        is_half = _e45;
    } else {
        metal::uint3 _e52 = raised(metal::uint3(1u, 0u, 0u), dropped - 1u);
        bool has_more = (below.x | below.y) != 0u;
        bool _e58 = is_less(_e52, _e11);
        if (!(_e58)) {
            if (metal::all(_e52 == _e11)) {
                local_6 = has_more;
            } else {
                local_6 = false;
            }
            bool _e67 = local_6;
            local_5 = _e67;
        } else {
            local_5 = true;
        }
        bool _e69 = local_5;
        is_above = _e69;
        if (metal::all(_e52 == _e11)) {
            local_7 = !(has_more);
        } else {
            local_7 = false;
        }
        bool _e76 = local_7;
        is_half = _e76;
    }
    bool _e79 = is_above;
    if (!(_e79)) {
        bool _e83 = is_half;
        if (_e83) {
            local_9 = (_e9.x & 1u) == 1u;
        } else {
            local_9 = false;
        }
        bool _e92 = local_9;
        local_8 = _e92;
    } else {
        local_8 = true;
    }
    bool _e94 = local_8;
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

uint bin_of(
    float most,
    float logit,
    constant Args& args
) {
    float _e3 = exactly(most - logit, args);
    float _e6 = exactly(_e3 + 0.25, args);
    uint bits_4 = as_type<uint>(_e6);
    return metal::min((bits_4 - 1048576000u) >> 16u, 1023u);
}

Before before(
    metal::uint3 own,
    uint thread_1,
    threadgroup type_10& sums
) {
    metal::uint3 sum = {};
    uint step = 1u;
    metal::uint3 other = {};
    sum = own;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    sums.inner[metal::min(unsigned(thread_1), 255u)] = own;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e26 = step;
            step = _e26 * 2u;
        }
        loop_init = false;
        uint _e7 = step;
        if (_e7 < THREADS) {
        } else {
            break;
        }
        {
            other = metal::uint3(0u);
            uint _e13 = step;
            if (thread_1 >= _e13) {
                uint _e16 = step;
                metal::uint3 _e19 = sums.inner[metal::min(unsigned(thread_1 - _e16), 255u)];
                other = _e19;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::uint3 _e20 = sum;
            metal::uint3 _e21 = other;
            metal::uint3 _e22 = added(_e20, _e21);
            sum = _e22;
            metal::uint3 _e25 = sum;
            sums.inner[metal::min(unsigned(thread_1), 255u)] = _e25;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    metal::uint3 _e29 = sum;
    metal::uint3 _e30 = subtracted(_e29, own);
    metal::uint3 _e33 = sums.inner[255];
    return Before {_e30, _e33};
}

metal::uint3 share_of(
    metal::uint3 sum_1,
    uint top_p
) {
    uint exponent = metal::max(top_p >> 23u, 1u);
    uint mantissa = (top_p & 8388607u) | ((top_p >= 8388608u) ? 8388608u : 0u);
    metal::uint3 _e16 = rounded(sum_1, metal::uint2(0u));
    metal::uint4 _e17 = multiplied(_e16, mantissa);
    metal::uint3 _e21 = rounded(_e17.xyz, metal::uint2(0u));
    metal::uint3 _e24 = lowered(_e21, 150u - exponent);
    metal::uint3 _e27 = raised(_e24, 150u - exponent);
    bool is_whole = metal::all(_e27 == _e21);
    metal::uint3 _e36 = added(_e24, metal::uint3(is_whole ? 0u : 1u, 0u, 0u));
    return _e36;
}

metal::uint3 reached(
    uint draw_3,
    bool is_counted,
    uint thread_2,
    device type_2 const& weights1_,
    constant Args& args,
    device type_7 const& shared_words,
    threadgroup type_10& sums,
    threadgroup uint& found,
    threadgroup metal::uint3& found_ahead,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint3 own_1 = metal::uint3(0u);
    uint i = 0u;
    metal::uint3 wanted = {};
    metal::uint3 sum_2 = {};
    uint i_1 = 0u;
    bool local_10 = {};
    uint _e6 = args.bins;
    uint bins_1 = _e6 + (2u * ((draw_3 * TALLIES) + (thread_2 * 4u)));
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e38 = i;
            i = _e38 + 1u;
        }
        loop_init_1 = false;
        uint _e19 = i;
        if (_e19 < 4u) {
        } else {
            break;
        }
        {
            metal::uint3 _e21 = own_1;
            uint _e23 = i;
            uint _e26 = worked_out(bins_1 + (2u * _e23), shared_words, _buffer_sizes);
            uint _e28 = i;
            uint _e33 = worked_out((bins_1 + (2u * _e28)) + 1u, shared_words, _buffer_sizes);
            metal::uint3 _e36 = added(_e21, metal::uint3(_e26, _e33, 0u));
            own_1 = _e36;
        }
    }
    metal::uint3 _e40 = own_1;
    Before _e41 = before(_e40, thread_2, sums);
    uint _e43 = word_of(draw_3, TOP_K, weights1_, _buffer_sizes);
    wanted = metal::uint3(_e43, 0u, 0u);
    if (!(is_counted)) {
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
    if (thread_2 == 0u) {
        found = 0u;
        found_ahead = metal::uint3(0u);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    sum_2 = _e41.ahead;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e103 = i_1;
            i_1 = _e103 + 1u;
        }
        loop_init_2 = false;
        uint _e68 = i_1;
        if (_e68 < 4u) {
        } else {
            break;
        }
        {
            uint _e71 = i_1;
            uint _e74 = worked_out(bins_1 + (2u * _e71), shared_words, _buffer_sizes);
            uint _e76 = i_1;
            uint _e81 = worked_out((bins_1 + (2u * _e76)) + 1u, shared_words, _buffer_sizes);
            metal::uint3 inside = metal::uint3(_e74, _e81, 0u);
            metal::uint3 _e84 = sum_2;
            metal::uint3 _e85 = added(_e84, inside);
            metal::uint3 _e86 = sum_2;
            metal::uint3 _e87 = wanted;
            bool _e88 = is_less(_e86, _e87);
            if (_e88) {
                metal::uint3 _e91 = wanted;
                bool _e92 = is_less(_e85, _e91);
                local_10 = !(_e92);
            } else {
                local_10 = false;
            }
            bool _e95 = local_10;
            if (_e95) {
                uint _e98 = i_1;
                found = (thread_2 * 4u) + _e98;
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

void list(
    uint draw_4,
    float most_1,
    metal::uint2 bins,
    uint key_1,
    uint token_2,
    constant Args& args,
    device type_7& shared_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_11 = {};
    if (key_1 == 0u) {
        return;
    }
    float _e7 = number(key_1);
    uint _e8 = bin_of(most_1, _e7, args);
    if (!((_e8 < bins.x))) {
        local_11 = _e8 > bins.y;
    } else {
        local_11 = true;
    }
    bool _e17 = local_11;
    if (_e17) {
        return;
    }
    uint _e20 = state_at(draw_4, LIST_LEAST, args);
    uint _e23 = metal::atomic_fetch_min_explicit(&shared_words[metal::min(unsigned(_e20), (_buffer_sizes.size4 - 0 - 4) / 4)], ~(key_1), metal::memory_order_relaxed);
    uint _e26 = state_at(draw_4, LIST_LARGEST, args);
    uint _e29 = metal::atomic_fetch_max_explicit(&shared_words[metal::min(unsigned(_e26), (_buffer_sizes.size4 - 0 - 4) / 4)], ~(key_1), metal::memory_order_relaxed);
    uint _e32 = state_at(draw_4, LIST_COUNT, args);
    uint _e35 = metal::atomic_fetch_add_explicit(&shared_words[metal::min(unsigned(_e32), (_buffer_sizes.size4 - 0 - 4) / 4)], 1u, metal::memory_order_relaxed);
    if (_e35 < LISTED) {
        uint _e40 = args.list;
        uint place = _e40 + (2u * ((draw_4 * LISTED) + _e35));
        metal::atomic_store_explicit(&shared_words[metal::min(unsigned(place), (_buffer_sizes.size4 - 0 - 4) / 4)], ~(key_1), metal::memory_order_relaxed);
        metal::atomic_store_explicit(&shared_words[metal::min(unsigned(place + 1u), (_buffer_sizes.size4 - 0 - 4) / 4)], token_2, metal::memory_order_relaxed);
        return;
    } else {
        return;
    }
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
, device type_7& shared_words [[buffer(6)]]
, threadgroup type_10& sums
, threadgroup uint& found
, threadgroup metal::uint3& found_ahead
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    bool local = {};
    bool local_1 = {};
    uint token = {};
    uint draw_5 = group.y;
    uint _e4 = state_at(draw_5, BEST, args);
    uint _e5 = worked_out(_e4, shared_words, _buffer_sizes);
    uint _e7 = word_of(draw_5, IS_CUT, weights1_, _buffer_sizes);
    if (!((_e7 == 0u))) {
        local = _e5 == 0u;
    } else {
        local = true;
    }
    bool _e16 = local;
    if (_e16) {
        return;
    }
    uint _e18 = word_of(draw_5, TOP_K, weights1_, _buffer_sizes);
    bool is_counted_1 = _e18 > 0u;
    metal::uint3 _e21 = reached(draw_5, is_counted_1, thread_, weights1_, args, shared_words, sums, found, found_ahead, _buffer_sizes);
    if (is_counted_1) {
        uint _e25 = word_of(draw_5, TOP_P, weights1_, _buffer_sizes);
        local_1 = _e25 < 1065353216u;
    } else {
        local_1 = false;
    }
    bool is_both = local_1;
    uint _e31 = found;
    uint _e35 = found;
    metal::uint2 bins_2 = metal::uint2(is_both ? 0u : _e31, _e35);
    Row _e37 = row_of(draw_5, weights1_, args, _buffer_sizes);
    uint _e40 = args.vocab;
    uint end = metal::min(_e40, (group.x + 1u) * CHUNK);
    token = (group.x * CHUNK) + thread_;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e69 = token;
            token = _e69 + 1024u;
        }
        loop_init_3 = false;
        uint _e52 = token;
        if (_e52 < end) {
        } else {
            break;
        }
        {
            uint _e54 = token;
            metal::uint4 _e55 = four(_e54);
            metal::uint4 _e56 = keys_of(_e37, _e55, weights0_, args, logits, _buffer_sizes);
            float _e57 = number(_e5);
            list(draw_5, _e57, bins_2, _e56.x, _e55.x, args, shared_words, _buffer_sizes);
            float _e60 = number(_e5);
            list(draw_5, _e60, bins_2, _e56.y, _e55.y, args, shared_words, _buffer_sizes);
            float _e63 = number(_e5);
            list(draw_5, _e63, bins_2, _e56.z, _e55.z, args, shared_words, _buffer_sizes);
            float _e66 = number(_e5);
            list(draw_5, _e66, bins_2, _e56.w, _e55.w, args, shared_words, _buffer_sizes);
        }
    }
    return;
}
