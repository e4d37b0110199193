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
    uint at;
    uint tails;
    uint weight;
    uint bias;
    uint channels;
    uint taps;
    uint activation;
    float limit;
    float steepness;
};
struct type_5 {
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

float sigmoid(
    float x
) {
    return 1.0 / (1.0 + metal::exp(-(metal::clamp(x, -87.0, 87.0))));
}

float hyperbolic_tangent(
    float x_1
) {
    float y = metal::exp(2.0 * metal::clamp(x_1, -20.0, 20.0));
    return (y - 1.0) / (y + 1.0);
}

float error_function(
    float x_2
) {
    float z = metal::abs(x_2);
    float t_1 = 1.0 / (1.0 + (0.3275911 * z));
    float sum_1 = t_1 * (0.2548296 + (t_1 * (-0.28449672 + (t_1 * (1.4214138 + (t_1 * (-1.4531521 + (t_1 * 1.0614054))))))));
    float value = 1.0 - (sum_1 * metal::exp(-(metal::min(z * z, 80.0))));
    return (x_2 < 0.0) ? -(value) : value;
}

float activated(
    uint activation,
    float limit,
    float steepness,
    float x_3
) {
    switch(activation) {
        case 0u: {
            float _e4 = sigmoid(x_3);
            return x_3 * _e4;
        }
        case 1u: {
            float _e15 = hyperbolic_tangent(0.7978846 * (x_3 + (((0.044715 * x_3) * x_3) * x_3)));
            return (0.5 * x_3) * (1.0 + _e15);
        }
        case 2u: {
            float _e23 = error_function(x_3 * 0.70710677);
            return (0.5 * x_3) * (1.0 + _e23);
        }
        case 3u: {
            return metal::max(x_3, 0.0) * metal::max(x_3, 0.0);
        }
        case 4u: {
            float _e32 = sigmoid(x_3);
            return _e32;
        }
        case 5u: {
            float _e33 = hyperbolic_tangent(x_3);
            return _e33;
        }
        case 6u: {
            return x_3;
        }
        default: {
            float cut = metal::min(x_3, limit);
            float _e36 = sigmoid(steepness * cut);
            return cut * _e36;
        }
    }
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
    type_5 seen = {};
    uint i = 0u;
    float start = 0.0;
    uint t = {};
    float sum = {};
    uint i_1 = {};
    uint i_2 = {};
    uint i_3 = 0u;
    uint channel = (THREADS * group.x) + thread_;
    uint _e8 = args.channels;
    if (channel >= _e8) {
        return;
    }
    Sequence _e11 = sequence(group.y, step_words, _buffer_sizes);
    uint _e14 = args.taps;
    uint before = _e14 - 1u;
    uint _e19 = args.tails;
    uint _e23 = args.channels;
    uint tail = _e19 + (((_e11.slot * _e23) + channel) * before);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e45 = i;
            i = _e45 + 1u;
        }
        loop_init = false;
        uint _e31 = i;
        if (_e31 < before) {
        } else {
            break;
        }
        {
            uint _e33 = i;
            seen.inner[metal::min(unsigned(_e33), 15u)] = 0.0;
            if (_e11.cached > 0u) {
                uint _e39 = i;
                uint _e41 = i;
                float _e43 = kept_float(tail + _e41, kept, _buffer_sizes);
                seen.inner[metal::min(unsigned(_e39), 15u)] = _e43;
            }
        }
    }
    uint _e49 = args.weight;
    uint _e52 = args.taps;
    uint weight = _e49 + (channel * _e52);
    uint _e59 = args.bias;
    if (_e59 != NOTHING) {
        uint _e64 = args.bias;
        float _e66 = vector(_e64 + channel, vectors, _buffer_sizes);
        start = _e66;
    }
    t = _e11.first;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e145 = t;
            t = _e145 + 1u;
        }
        loop_init_1 = false;
        uint _e69 = t;
        if (_e69 < (_e11.first + _e11.count)) {
        } else {
            break;
        }
        {
            uint _e76 = args.at;
            uint _e77 = t;
            uint _e80 = args.channels;
            uint at_3 = (_e76 + (_e77 * _e80)) + channel;
            float newest = arena[metal::min(unsigned(at_3), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e87 = start;
            sum = _e87;
            i_1 = 0u;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e103 = i_1;
                    i_1 = _e103 + 1u;
                }
                loop_init_2 = false;
                uint _e91 = i_1;
                if (_e91 < before) {
                } else {
                    break;
                }
                {
                    float _e93 = sum;
                    uint _e94 = i_1;
                    float _e96 = vector(weight + _e94, vectors, _buffer_sizes);
                    uint _e97 = i_1;
                    float _e99 = seen.inner[metal::min(unsigned(_e97), 15u)];
                    sum = _e93 + (_e96 * _e99);
                }
            }
            float _e105 = sum;
            float _e107 = vector(weight + before, vectors, _buffer_sizes);
            sum = _e105 + (_e107 * newest);
            i_2 = 0u;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e124 = i_2;
                    i_2 = _e124 + 1u;
                }
                loop_init_3 = false;
                uint _e112 = i_2;
                if ((_e112 + 1u) < before) {
                } else {
                    break;
                }
                {
                    uint _e116 = i_2;
                    uint _e118 = i_2;
                    float _e122 = seen.inner[metal::min(unsigned(_e118 + 1u), 15u)];
                    seen.inner[metal::min(unsigned(_e116), 15u)] = _e122;
                }
            }
            if (before > 0u) {
                seen.inner[metal::min(unsigned(before - 1u), 15u)] = newest;
            }
            uint _e135 = args.activation;
            float _e138 = args.limit;
            float _e141 = args.steepness;
            float _e142 = sum;
            float _e143 = activated(_e135, _e138, _e141, _e142);
            arena[metal::min(unsigned(at_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e143;
        }
    }
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e160 = i_3;
            i_3 = _e160 + 1u;
        }
        loop_init_4 = false;
        uint _e149 = i_3;
        if (_e149 < before) {
        } else {
            break;
        }
        {
            uint _e152 = i_3;
            uint _e155 = i_3;
            float _e157 = seen.inner[metal::min(unsigned(_e155), 15u)];
            kept[metal::min(unsigned(tail + _e152), (_buffer_sizes.size3 - 0 - 4) / 4)] = as_type<uint>(_e157);
        }
    }
    return;
}
