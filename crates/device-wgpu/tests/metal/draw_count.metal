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
struct type_11 {
    metal::atomic_uint inner[1024];
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
    uint first = row.logits;
    uint _e14 = logits[metal::min(unsigned(first + at_3.x), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e19 = logits[metal::min(unsigned(first + at_3.y), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e24 = logits[metal::min(unsigned(first + at_3.z), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e29 = logits[metal::min(unsigned(first + at_3.w), (_buffer_sizes.size3 - 0 - 4) / 4)];
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

metal::uint4 four(
    uint token_1
) {
    return metal::uint4(token_1) + metal::uint4(0u, 256u, 512u, 768u);
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

metal::uint3 raised(
    metal::uint3 a,
    uint power
) {
    metal::uint3 b = {};
    b = a;
    if (power >= 96u) {
        b = metal::uint3(0u);
    } else {
        if (power >= 64u) {
            b = metal::uint3(0u, 0u, a.x);
        } else {
            if (power >= 32u) {
                b = metal::uint3(0u, a.x, a.y);
            }
        }
    }
    uint bits_2 = naga_mod(power, 32u);
    metal::uint3 _e21 = b;
    metal::uint3 over = (_e21 >> metal::uint3(1u)) >> metal::uint3(31u - bits_2);
    metal::uint3 _e29 = b;
    return (_e29 << metal::uint3(bits_2)) | metal::uint3(0u, over.x, over.y);
}

int naga_neg(int val) {
    return as_type<int>(-as_type<uint>(val));
}

metal::uint3 whole_of(
    float x_3,
    int power_1
) {
    bool local = {};
    bool local_1 = {};
    bool local_2 = {};
    uint bits_3 = as_type<uint>(x_3);
    uint mantissa = (bits_3 & 8388607u) | 8388608u;
    int exponent = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(bits_3 >> 23u)) - as_type<uint>(150))) + as_type<uint>(power_1));
    if (!((bits_3 < 8388608u))) {
        local = exponent < -24;
    } else {
        local = true;
    }
    bool _e21 = local;
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
            local_2 = (whole & 1u) == 1u;
        } else {
            local_2 = false;
        }
        bool _e54 = local_2;
        local_1 = _e54;
    } else {
        local_1 = true;
    }
    bool _e56 = local_1;
    return metal::uint3(whole + (_e56 ? 1u : 0u), 0u, 0u);
}

void clear(
    uint thread_1,
    threadgroup type_11& low,
    threadgroup type_11& high
) {
    uint i = {};
    i = thread_1;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e13 = i;
            i = _e13 + THREADS;
        }
        loop_init = false;
        uint _e2 = i;
        if (_e2 < TALLIES) {
        } else {
            break;
        }
        {
            uint _e6 = i;
            metal::atomic_store_explicit(&low.inner[metal::min(unsigned(_e6), 1023u)], 0u, metal::memory_order_relaxed);
            uint _e10 = i;
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
    uint bits_4 = as_type<uint>(_e6);
    return metal::min((bits_4 - 1048576000u) >> 16u, 1023u);
}

void count(
    bool is_counted_1,
    float most_2,
    uint key_1,
    constant Args& args,
    threadgroup type_11& low,
    threadgroup type_11& high
) {
    if (key_1 != 0u) {
        float _e5 = number(key_1);
        uint _e6 = bin_of(most_2, _e5, args);
        float _e7 = number(key_1);
        metal::uint3 _e8 = amount_of(is_counted_1, most_2, _e7, args);
        tally(_e6, _e8, low, high);
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
, device type_8& shared_words [[buffer(6)]]
, threadgroup type_11& low
, threadgroup type_11& high
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint end = {};
    uint token = {};
    uint bin = {};
    uint draw_3 = group.y;
    Row _e3 = row_of(draw_3, weights1_, args, _buffer_sizes);
    uint _e5 = state_at(draw_3, BEST, args);
    uint _e6 = worked_out(_e5, shared_words, _buffer_sizes);
    float _e7 = number(_e6);
    uint _e9 = word_of(draw_3, TOP_K, weights1_, _buffer_sizes);
    bool is_counted_2 = _e9 > 0u;
    clear(thread_, low, high);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e14 = args.vocab;
    end = metal::min(_e14, (group.x + 1u) * CHUNK);
    uint _e23 = word_of(draw_3, IS_CUT, weights1_, _buffer_sizes);
    if (_e23 == 0u) {
        end = 0u;
    }
    token = (group.x * CHUNK) + thread_;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e42 = token;
            token = _e42 + 1024u;
        }
        loop_init_1 = false;
        uint _e32 = token;
        uint _e33 = end;
        if (_e32 < _e33) {
        } else {
            break;
        }
        {
            uint _e35 = token;
            metal::uint4 _e36 = four(_e35);
            metal::uint4 _e37 = keys_of(_e3, _e36, weights0_, args, logits, _buffer_sizes);
            count(is_counted_2, _e7, _e37.x, args, low, high);
            count(is_counted_2, _e7, _e37.y, args, low, high);
            count(is_counted_2, _e7, _e37.z, args, low, high);
            count(is_counted_2, _e7, _e37.w, args, low, high);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bin = thread_;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e85 = bin;
            bin = _e85 + THREADS;
        }
        loop_init_2 = false;
        uint _e46 = bin;
        if (_e46 < TALLIES) {
        } else {
            break;
        }
        {
            uint _e49 = bin;
            metal::uint3 _e50 = tallied(_e49, low, high);
            if ((_e50.x | _e50.y) != 0u) {
                uint _e58 = args.bins;
                uint _e62 = bin;
                uint at_4 = _e58 + (2u * ((draw_3 * TALLIES) + _e62));
                uint _e69 = metal::atomic_fetch_add_explicit(&shared_words[metal::min(unsigned(at_4), (_buffer_sizes.size4 - 0 - 4) / 4)], _e50.x, metal::memory_order_relaxed);
                uint rest_2 = _e50.y + (((_e69 + _e50.x) < _e69) ? 1u : 0u);
                if (rest_2 != 0u) {
                    uint _e84 = metal::atomic_fetch_add_explicit(&shared_words[metal::min(unsigned(at_4 + 1u), (_buffer_sizes.size4 - 0 - 4) / 4)], rest_2, metal::memory_order_relaxed);
                }
            }
        }
    }
    return;
}
