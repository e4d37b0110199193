// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size3;
    uint size6;
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
struct type_7 {
    metal::atomic_uint inner[1024];
};
typedef metal::atomic_uint type_8[1];
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
    bool local = {};
    bool local_1 = {};
    if (row.mask != NOTHING) {
        uint _e13 = weights0_[metal::min(unsigned(row.mask + naga_div(token_1, 32u)), (_buffer_sizes.size0 - 0 - 4) / 4)];
        local = ((_e13 >> naga_mod(token_1, 32u)) & 1u) == 0u;
    } else {
        local = false;
    }
    bool _e22 = local;
    if (_e22) {
        return 0u;
    }
    uint bits_1 = logits[metal::min(unsigned(row.logits + token_1), (_buffer_sizes.size3 - 0 - 4) / 4)];
    if (!(((bits_1 & 2147483647u) > INFINITE))) {
        local_1 = bits_1 == 4286578688u;
    } else {
        local_1 = true;
    }
    bool _e39 = local_1;
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
    float x_2,
    int power_1
) {
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    uint bits_3 = as_type<uint>(x_2);
    uint mantissa = (bits_3 & 8388607u) | 8388608u;
    int exponent = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(bits_3 >> 23u)) - as_type<uint>(150))) + as_type<uint>(power_1));
    if (!((bits_3 < 8388608u))) {
        local_2 = exponent < -24;
    } else {
        local_2 = true;
    }
    bool _e21 = local_2;
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
            local_4 = (whole & 1u) == 1u;
        } else {
            local_4 = false;
        }
        bool _e54 = local_4;
        local_3 = _e54;
    } else {
        local_3 = true;
    }
    bool _e56 = local_3;
    return metal::uint3(whole + (_e56 ? 1u : 0u), 0u, 0u);
}

void clear(
    uint thread_1,
    threadgroup type_7& low,
    threadgroup type_7& high
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
    uint at,
    metal::uint3 amount,
    threadgroup type_7& low,
    threadgroup type_7& high
) {
    uint _e5 = metal::atomic_fetch_add_explicit(&low.inner[metal::min(unsigned(at), 1023u)], amount.x, metal::memory_order_relaxed);
    uint rest_1 = amount.y + (((_e5 + amount.x) < _e5) ? 1u : 0u);
    if (rest_1 != 0u) {
        uint _e18 = metal::atomic_fetch_add_explicit(&high.inner[metal::min(unsigned(at), 1023u)], rest_1, metal::memory_order_relaxed);
        return;
    } else {
        return;
    }
}

metal::uint3 tallied(
    uint at_1,
    threadgroup type_7& low,
    threadgroup type_7& high
) {
    uint _e3 = metal::atomic_load_explicit(&low.inner[metal::min(unsigned(at_1), 1023u)], metal::memory_order_relaxed);
    uint _e6 = metal::atomic_load_explicit(&high.inner[metal::min(unsigned(at_1), 1023u)], metal::memory_order_relaxed);
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
    float _e9 = exponential(_e8, args);
    metal::uint3 _e11 = whole_of(_e9, 42);
    return _e11;
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

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& weights0_ [[buffer(1)]]
, device type_2 const& weights1_ [[buffer(2)]]
, constant Args& args [[buffer(7)]]
, device type_2 const& logits [[buffer(0)]]
, threadgroup type_7& low
, threadgroup type_7& high
, device type_8& shared_words [[buffer(6)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint end = {};
    uint token = {};
    uint bin = {};
    uint draw_3 = group.y;
    Row _e3 = row_of(draw_3, weights1_, args, _buffer_sizes);
    uint _e6 = state_at(draw_3, BEST, args);
    uint _e8 = metal::atomic_load_explicit(&shared_words[metal::min(unsigned(_e6), (_buffer_sizes.size6 - 0 - 4) / 4)], metal::memory_order_relaxed);
    float _e9 = number(_e8);
    uint _e11 = word_of(draw_3, TOP_K, weights1_, _buffer_sizes);
    bool is_counted_1 = _e11 > 0u;
    clear(thread_, low, high);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e16 = args.vocab;
    end = metal::min(_e16, (group.x + 1u) * CHUNK);
    uint _e25 = word_of(draw_3, IS_CUT, weights1_, _buffer_sizes);
    if (_e25 == 0u) {
        end = 0u;
    }
    token = (group.x * CHUNK) + thread_;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e45 = token;
            token = _e45 + THREADS;
        }
        loop_init_1 = false;
        uint _e34 = token;
        uint _e35 = end;
        if (_e34 < _e35) {
        } else {
            break;
        }
        {
            uint _e37 = token;
            uint _e38 = key_of(_e3, _e37, weights0_, logits, _buffer_sizes);
            if (_e38 != 0u) {
                float _e41 = number(_e38);
                uint _e42 = bin_of(_e9, _e41, args);
                float _e43 = number(_e38);
                metal::uint3 _e44 = amount_of(is_counted_1, _e9, _e43, args);
                tally(_e42, _e44, low, high);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bin = thread_;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e88 = bin;
            bin = _e88 + THREADS;
        }
        loop_init_2 = false;
        uint _e49 = bin;
        if (_e49 < TALLIES) {
        } else {
            break;
        }
        {
            uint _e52 = bin;
            metal::uint3 _e53 = tallied(_e52, low, high);
            if ((_e53.x | _e53.y) != 0u) {
                uint _e61 = args.bins;
                uint _e65 = bin;
                uint at_2 = _e61 + (2u * ((draw_3 * TALLIES) + _e65));
                uint _e72 = metal::atomic_fetch_add_explicit(&shared_words[metal::min(unsigned(at_2), (_buffer_sizes.size6 - 0 - 4) / 4)], _e53.x, metal::memory_order_relaxed);
                uint rest_2 = _e53.y + (((_e72 + _e53.x) < _e72) ? 1u : 0u);
                if (rest_2 != 0u) {
                    uint _e87 = metal::atomic_fetch_add_explicit(&shared_words[metal::min(unsigned(at_2 + 1u), (_buffer_sizes.size6 - 0 - 4) / 4)], rest_2, metal::memory_order_relaxed);
                }
            }
        }
    }
    return;
}
