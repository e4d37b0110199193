// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size3;
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
struct Parts {
    uint mantissa;
    int power;
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
    uint _e7 = weights1_[metal::min(unsigned((draw * HEAD_WORDS) + word), (_buffer_sizes.size0 - 0 - 4) / 4)];
    return _e7;
}

float exactly(
    float x,
    constant Args& args
) {
    uint _e4 = args.zero;
    return as_type<float>(as_type<uint>(x) ^ _e4);
}

Row row_of(
    uint draw_1,
    device type_2 const& weights1_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = word_of(draw_1, ROW, weights1_, _buffer_sizes);
    uint _e6 = args.masks;
    uint _e9 = args.mask_words;
    uint _e13 = word_of(draw_1, IS_MASKED, weights1_, _buffer_sizes);
    uint mask = (_e13 != 0u) ? (_e6 + (_e2 * _e9)) : NOTHING;
    uint _e19 = args.logits;
    uint _e22 = args.vocab;
    return Row {_e19 + (_e2 * _e22), mask};
}

Parts parts(
    uint bits
) {
    uint mantissa = bits & 8388607u;
    if (bits >= 8388608u) {
        return Parts {mantissa | 8388608u, as_type<int>(as_type<uint>(static_cast<int>(bits >> 23u)) - as_type<uint>(150))};
    }
    uint missing = metal::clz(mantissa) - 8u;
    return Parts {mantissa << missing, as_type<int>(as_type<uint>(-149) - as_type<uint>(static_cast<int>(missing)))};
}

uint quotient(
    uint a,
    uint b
) {
    bool local_1 = {};
    uint digits = 0u;
    uint rest = {};
    uint i_1 = 0u;
    bool local_2 = {};
    bool local_3 = {};
    if (!((a == INFINITE))) {
        local_1 = b == INFINITE;
    } else {
        local_1 = true;
    }
    bool _e10 = local_1;
    if (_e10) {
        return (a == INFINITE) ? INFINITE : 0u;
    }
    Parts _e16 = parts(a);
    Parts _e17 = parts(b);
    rest = _e16.mantissa;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e45 = i_1;
            i_1 = _e45 + 1u;
        }
        loop_init = false;
        uint _e24 = i_1;
        if (_e24 < 26u) {
        } else {
            break;
        }
        {
            uint _e27 = rest;
            bool fits = _e27 >= _e17.mantissa;
            uint _e30 = digits;
            digits = (_e30 * 2u) + (fits ? 1u : 0u);
            uint _e37 = rest;
            rest = (_e37 - (fits ? _e17.mantissa : 0u)) * 2u;
        }
    }
    uint _e47 = digits;
    uint _e52 = rest;
    digits = (_e47 * 2u) + ((_e52 != 0u) ? 1u : 0u);
    int power = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(_e16.power) - as_type<uint>(_e17.power))) - as_type<uint>(26));
    uint _e62 = digits;
    int length = as_type<int>(as_type<uint>(32) - as_type<uint>(static_cast<int>(metal::clz(_e62))));
    uint dropped = static_cast<uint>(metal::clamp(metal::max(as_type<int>(as_type<uint>(length) - as_type<uint>(24)), as_type<int>(as_type<uint>(-149) - as_type<uint>(power))), 1, 31));
    uint _e76 = digits;
    uint whole = _e76 >> dropped;
    uint half_ = 1u << (dropped - 1u);
    uint _e82 = digits;
    uint left = _e82 - (whole << dropped);
    if (!((left > half_))) {
        if (left == half_) {
            local_3 = (whole & 1u) == 1u;
        } else {
            local_3 = false;
        }
        bool _e99 = local_3;
        local_2 = _e99;
    } else {
        local_2 = true;
    }
    bool _e101 = local_2;
    uint up = _e101 ? 1u : 0u;
    uint mantissa_1 = whole + up;
    int exponent = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(power) + as_type<uint>(static_cast<int>(dropped)))) + as_type<uint>(149));
    if (exponent >= 254) {
        return INFINITE;
    }
    return mantissa_1 + (static_cast<uint>(exponent) << 23u);
}

bool is_no_number(
    uint bits_1
) {
    return (bits_1 & 2147483647u) > INFINITE;
}

uint changed(
    uint bits_2,
    uint change,
    uint by,
    constant Args& args
) {
    bool local_4 = {};
    bool _e3 = is_no_number(bits_2);
    if (_e3) {
        return bits_2;
    }
    if ((change >> 31u) == 0u) {
        float _e11 = exactly(as_type<float>(bits_2) + as_type<float>(by), args);
        return as_type<uint>(_e11);
    }
    if ((bits_2 >> 31u) == 0u) {
        local_4 = bits_2 != 0u;
    } else {
        local_4 = false;
    }
    bool _e22 = local_4;
    if (_e22) {
        uint _e23 = quotient(bits_2, by);
        return _e23;
    }
    float _e27 = exactly(as_type<float>(bits_2) * as_type<float>(by), args);
    return as_type<uint>(_e27);
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& weights1_ [[buffer(2)]]
, device type_2& kept [[buffer(6)]]
, constant Args& args [[buffer(7)]]
, device type_2& logits [[buffer(0)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = {};
    bool local = {};
    uint logit = {};
    uint j = {};
    uint draw_2 = group.y;
    Row _e3 = row_of(draw_2, weights1_, args, _buffer_sizes);
    uint _e5 = word_of(draw_2, CHANGES, weights1_, _buffer_sizes);
    uint _e7 = word_of(draw_2, FIRST_CHANGE, weights1_, _buffer_sizes);
    i = thread_;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e90 = i;
            i = _e90 + THREADS;
        }
        loop_init_1 = false;
        uint _e9 = i;
        if (_e9 < _e5) {
        } else {
            break;
        }
        {
            uint _e13 = args.changes;
            uint _e15 = i;
            uint at = _e13 + (2u * (_e7 + _e15));
            uint _e21 = weights1_[metal::min(unsigned(at), (_buffer_sizes.size0 - 0 - 4) / 4)];
            uint token = _e21 & 2147483647u;
            uint _e24 = i;
            if (_e24 > 0u) {
                uint _e33 = weights1_[metal::min(unsigned(at - 2u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                local = (_e33 & 2147483647u) == token;
            } else {
                local = false;
            }
            bool _e38 = local;
            if (_e38) {
                continue;
            }
            uint _e43 = logits[metal::min(unsigned(_e3.logits + token), (_buffer_sizes.size3 - 0 - 4) / 4)];
            logit = _e43;
            uint _e48 = args.saved;
            uint _e50 = i;
            uint _e53 = logit;
            kept[metal::min(unsigned((_e48 + _e7) + _e50), (_buffer_sizes.size1 - 0 - 4) / 4)] = _e53;
            uint _e54 = i;
            j = _e54;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e83 = j;
                    j = _e83 + 1u;
                }
                loop_init_2 = false;
                uint _e56 = j;
                if (_e56 < _e5) {
                } else {
                    break;
                }
                {
                    uint _e60 = args.changes;
                    uint _e62 = j;
                    uint next = _e60 + (2u * (_e7 + _e62));
                    uint _e68 = weights1_[metal::min(unsigned(next), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    if ((_e68 & 2147483647u) != token) {
                        break;
                    }
                    uint _e72 = logit;
                    uint _e75 = weights1_[metal::min(unsigned(next), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    uint _e80 = weights1_[metal::min(unsigned(next + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    uint _e81 = changed(_e72, _e75, _e80, args);
                    logit = _e81;
                }
            }
            uint _e89 = logit;
            logits[metal::min(unsigned(_e3.logits + token), (_buffer_sizes.size3 - 0 - 4) / 4)] = _e89;
        }
    }
    return;
}
