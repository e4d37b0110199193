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
    uint mixed;
    uint states;
    uint decay;
    uint step_bias;
    uint skip;
    uint heads;
    uint head_dim;
    uint groups;
    uint columns;
    float least;
    float most;
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
    uint row = (ROWS * group.x) + naga_div(thread_, LANES);
    uint head = group.y;
    uint _e13 = args.head_dim;
    bool is_there = row < _e13;
    Sequence _e16 = sequence(group.z, step_words, _buffer_sizes);
    uint _e19 = args.heads;
    uint _e22 = args.head_dim;
    uint width = _e19 * _e22;
    uint _e27 = args.groups;
    uint _e31 = args.columns;
    uint all = width + ((2u * _e27) * _e31);
    uint _e36 = args.heads;
    uint _e39 = args.groups;
    uint _e44 = args.columns;
    uint b = width + (naga_div(head, naga_div(_e36, _e39)) * _e44);
    uint _e49 = args.groups;
    uint _e52 = args.columns;
    uint c = b + (_e49 * _e52);
    uint _e57 = args.states;
    uint _e61 = args.heads;
    uint _e66 = args.head_dim;
    uint _e71 = args.columns;
    uint state_at = _e57 + (((((_e16.slot * _e61) + head) * _e66) + row) * _e71);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e111 = i;
            i = _e111 + 1u;
        }
        loop_init_1 = false;
        uint _e77 = i;
        if (_e77 < COLUMNS) {
        } else {
            break;
        }
        {
            uint _e80 = i;
            state.inner[metal::min(unsigned(_e80), 15u)] = 0.0;
            if (is_there) {
                local = _e16.cached > 0u;
            } else {
                local = false;
            }
            bool _e89 = local;
            if (_e89) {
                uint _e93 = i;
                uint _e98 = args.columns;
                local_1 = ((LANES * _e93) + lane) < _e98;
            } else {
                local_1 = false;
            }
            bool _e101 = local_1;
            if (_e101) {
                uint _e102 = i;
                uint _e105 = i;
                float _e109 = kept_float((state_at + (LANES * _e105)) + lane, kept, _buffer_sizes);
                state.inner[metal::min(unsigned(_e102), 15u)] = _e109;
            }
        }
    }
    t = _e16.first;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e247 = t;
            t = _e247 + 1u;
        }
        loop_init_2 = false;
        uint _e115 = t;
        if (_e115 < (_e16.first + _e16.count)) {
        } else {
            break;
        }
        {
            uint _e122 = args.channels;
            uint _e123 = t;
            uint in = _e122 + (_e123 * all);
            uint _e129 = args.steps;
            uint _e130 = t;
            uint _e133 = args.heads;
            float _e138 = arena[metal::min(unsigned((_e129 + (_e130 * _e133)) + head), (_buffer_sizes.size0 - 0 - 4) / 4)];
            uint _e141 = args.step_bias;
            float _e143 = vector(_e141 + head, vectors, _buffer_sizes);
            float _e145 = softplus(_e138 + _e143);
            float _e148 = args.least;
            float _e151 = args.most;
            float step_1 = metal::clamp(_e145, _e148, _e151);
            uint _e155 = args.decay;
            float _e157 = vector(_e155 + head, vectors, _buffer_sizes);
            float keep = metal::exp(step_1 * _e157);
            x = 0.0;
            sum = 0.0;
            if (is_there) {
                uint _e167 = args.head_dim;
                float _e172 = arena[metal::min(unsigned((in + (head * _e167)) + row), (_buffer_sizes.size0 - 0 - 4) / 4)];
                x = _e172;
                i_1 = 0u;
                bool loop_init_3 = true;
                while(true) {
                    if (!loop_init_3) {
                        uint _e213 = i_1;
                        i_1 = _e213 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e175 = i_1;
                    if (_e175 < COLUMNS) {
                    } else {
                        break;
                    }
                    {
                        uint _e179 = i_1;
                        uint column = (LANES * _e179) + lane;
                        uint _e184 = args.columns;
                        if (column >= _e184) {
                            break;
                        }
                        uint _e186 = i_1;
                        uint _e188 = i_1;
                        float _e190 = state.inner[metal::min(unsigned(_e188), 15u)];
                        float _e192 = x;
                        float _e198 = arena[metal::min(unsigned((in + b) + column), (_buffer_sizes.size0 - 0 - 4) / 4)];
                        state.inner[metal::min(unsigned(_e186), 15u)] = (_e190 * keep) + ((step_1 * _e192) * _e198);
                        float _e201 = sum;
                        uint _e202 = i_1;
                        float _e204 = state.inner[metal::min(unsigned(_e202), 15u)];
                        float _e209 = arena[metal::min(unsigned((in + c) + column), (_buffer_sizes.size0 - 0 - 4) / 4)];
                        sum = _e201 + (_e204 * _e209);
                    }
                }
            }
            float _e215 = sum;
            float _e216 = lane_sum(_e215, thread_);
            sum = _e216;
            if (lane == 0u) {
                local_2 = is_there;
            } else {
                local_2 = false;
            }
            bool _e222 = local_2;
            if (_e222) {
                uint _e226 = args.mixed;
                uint _e227 = t;
                uint _e232 = args.head_dim;
                float _e237 = sum;
                uint _e240 = args.skip;
                float _e242 = vector(_e240 + head, vectors, _buffer_sizes);
                float _e243 = x;
                arena[metal::min(unsigned(((_e226 + (_e227 * width)) + (head * _e232)) + row), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e237 + (_e242 * _e243);
            }
        }
    }
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e278 = i_2;
            i_2 = _e278 + 1u;
        }
        loop_init_4 = false;
        uint _e251 = i_2;
        if (_e251 < COLUMNS) {
        } else {
            break;
        }
        {
            if (is_there) {
                uint _e257 = i_2;
                uint _e262 = args.columns;
                local_3 = ((LANES * _e257) + lane) < _e262;
            } else {
                local_3 = false;
            }
            bool _e265 = local_3;
            if (_e265) {
                uint _e268 = i_2;
                uint _e273 = i_2;
                float _e275 = state.inner[metal::min(unsigned(_e273), 15u)];
                kept[metal::min(unsigned((state_at + (LANES * _e268)) + lane), (_buffer_sizes.size3 - 0 - 4) / 4)] = as_type<uint>(_e275);
            }
        }
    }
    return;
}
