// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
    uint size3;
};

typedef float type_2[1];
typedef uint type_3[1];
struct Sequence {
    uint first;
    uint count;
    uint cached;
    uint pages;
    uint slot;
    uint second_start;
};
struct Args {
    uint channels;
    uint steps;
    uint b;
    uint c;
    uint mixed;
    uint states;
    uint decay;
    uint skip;
    uint width;
    uint columns;
};
struct type_6 {
    float inner[16];
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
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant uint COLUMNS = 16u;

float vector(
    uint at,
    device type_3 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vectors[metal::min(unsigned(at), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return as_type<float>(_e3);
}

float kept_float(
    uint at_1,
    device type_3 const& kept,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = kept[metal::min(unsigned(at_1), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return as_type<float>(_e3);
}

Sequence sequence(
    uint index,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(5), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at_2 = _e3 + (8u * index);
    uint _e9 = step_words[metal::min(unsigned(at_2), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_2 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_2 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_2 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e29 = step_words[metal::min(unsigned(at_2 + 4u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e34 = step_words[metal::min(unsigned(at_2 + 5u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return Sequence {_e9, _e14, _e19, _e24, _e29, _e34};
}

float softplus(
    float x_1
) {
    return (x_1 > 20.0) ? x_1 : metal::log(1.0 + metal::exp(metal::min(x_1, 30.0)));
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lane_sum(
    float x_2,
    uint thread_1
) {
    float sum_1 = {};
    uint step = 16u;
    sum_1 = x_2;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e13 = step;
            step = naga_div(_e13, 2u);
        }
        loop_init = false;
        uint _e5 = step;
        if (_e5 > 0u) {
        } else {
            break;
        }
        {
            float _e8 = sum_1;
            float _e9 = sum_1;
            uint _e10 = step;
            float unnamed = metal::simd_shuffle_xor(_e9, _e10);
            sum_1 = _e8 + unnamed;
        }
    }
    float _e16 = sum_1;
    return _e16;
}
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& vectors [[buffer(4)]]
, device type_3 const& step_words [[buffer(5)]]
, device type_3& kept [[buffer(6)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    type_6 state = {};
    uint i = 0u;
    bool local = {};
    bool local_1 = {};
    uint t = {};
    float x = {};
    float sum = {};
    uint i_1 = {};
    bool local_2 = {};
    uint i_2 = 0u;
    bool local_3 = {};
    uint lane = naga_mod(thread_, LANES);
    uint channel = (ROWS * group.x) + naga_div(thread_, LANES);
    uint _e12 = args.width;
    bool is_there = channel < _e12;
    Sequence _e15 = sequence(group.y, step_words, _buffer_sizes);
    uint _e18 = args.states;
    uint _e22 = args.width;
    uint _e27 = args.columns;
    uint state_at = _e18 + (((_e15.slot * _e22) + channel) * _e27);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e67 = i;
            i = _e67 + 1u;
        }
        loop_init_1 = false;
        uint _e33 = i;
        if (_e33 < COLUMNS) {
        } else {
            break;
        }
        {
            uint _e36 = i;
            state.inner[metal::min(unsigned(_e36), 15u)] = 0.0;
            if (is_there) {
                local = _e15.cached > 0u;
            } else {
                local = false;
            }
            bool _e45 = local;
            if (_e45) {
                uint _e49 = i;
                uint _e54 = args.columns;
                local_1 = ((LANES * _e49) + lane) < _e54;
            } else {
                local_1 = false;
            }
            bool _e57 = local_1;
            if (_e57) {
                uint _e58 = i;
                uint _e61 = i;
                float _e65 = kept_float((state_at + (LANES * _e61)) + lane, kept, _buffer_sizes);
                state.inner[metal::min(unsigned(_e58), 15u)] = _e65;
            }
        }
    }
    t = _e15.first;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e207 = t;
            t = _e207 + 1u;
        }
        loop_init_2 = false;
        uint _e71 = t;
        if (_e71 < (_e15.first + _e15.count)) {
        } else {
            break;
        }
        {
            x = 0.0;
            sum = 0.0;
            if (is_there) {
                uint _e83 = args.channels;
                uint _e84 = t;
                uint _e87 = args.width;
                float _e92 = arena[metal::min(unsigned((_e83 + (_e84 * _e87)) + channel), (_buffer_sizes.size0 - 0 - 4) / 4)];
                x = _e92;
                uint _e96 = args.steps;
                uint _e97 = t;
                uint _e100 = args.width;
                float _e105 = arena[metal::min(unsigned((_e96 + (_e97 * _e100)) + channel), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e106 = softplus(_e105);
                i_1 = 0u;
                bool loop_init_3 = true;
                while(true) {
                    if (!loop_init_3) {
                        uint _e175 = i_1;
                        i_1 = _e175 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e109 = i_1;
                    if (_e109 < COLUMNS) {
                    } else {
                        break;
                    }
                    {
                        uint _e113 = i_1;
                        uint column = (LANES * _e113) + lane;
                        uint _e118 = args.columns;
                        if (column >= _e118) {
                            break;
                        }
                        uint _e122 = args.decay;
                        uint _e125 = args.columns;
                        float _e129 = vector((_e122 + (channel * _e125)) + column, vectors, _buffer_sizes);
                        float keep = metal::exp(_e106 * _e129);
                        uint _e132 = i_1;
                        uint _e134 = i_1;
                        float _e136 = state.inner[metal::min(unsigned(_e134), 15u)];
                        float _e138 = x;
                        uint _e143 = args.b;
                        uint _e144 = t;
                        uint _e147 = args.columns;
                        float _e152 = arena[metal::min(unsigned((_e143 + (_e144 * _e147)) + column), (_buffer_sizes.size0 - 0 - 4) / 4)];
                        state.inner[metal::min(unsigned(_e132), 15u)] = (_e136 * keep) + ((_e106 * _e138) * _e152);
                        float _e155 = sum;
                        uint _e156 = i_1;
                        float _e158 = state.inner[metal::min(unsigned(_e156), 15u)];
                        uint _e162 = args.c;
                        uint _e163 = t;
                        uint _e166 = args.columns;
                        float _e171 = arena[metal::min(unsigned((_e162 + (_e163 * _e166)) + column), (_buffer_sizes.size0 - 0 - 4) / 4)];
                        sum = _e155 + (_e158 * _e171);
                    }
                }
            }
            float _e177 = sum;
            float _e178 = lane_sum(_e177, thread_);
            sum = _e178;
            if (lane == 0u) {
                local_2 = is_there;
            } else {
                local_2 = false;
            }
            bool _e184 = local_2;
            if (_e184) {
                uint _e188 = args.mixed;
                uint _e189 = t;
                uint _e192 = args.width;
                float _e197 = sum;
                uint _e200 = args.skip;
                float _e202 = vector(_e200 + channel, vectors, _buffer_sizes);
                float _e203 = x;
                arena[metal::min(unsigned((_e188 + (_e189 * _e192)) + channel), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e197 + (_e202 * _e203);
            }
        }
    }
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e238 = i_2;
            i_2 = _e238 + 1u;
        }
        loop_init_4 = false;
        uint _e211 = i_2;
        if (_e211 < COLUMNS) {
        } else {
            break;
        }
        {
            if (is_there) {
                uint _e217 = i_2;
                uint _e222 = args.columns;
                local_3 = ((LANES * _e217) + lane) < _e222;
            } else {
                local_3 = false;
            }
            bool _e225 = local_3;
            if (_e225) {
                uint _e228 = i_2;
                uint _e233 = i_2;
                float _e235 = state.inner[metal::min(unsigned(_e233), 15u)];
                kept[metal::min(unsigned((state_at + (LANES * _e228)) + lane), (_buffer_sizes.size3 - 0 - 4) / 4)] = as_type<uint>(_e235);
            }
        }
    }
    return;
}
