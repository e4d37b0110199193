// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
};

typedef float type_2[1];
typedef uint type_3[1];
struct Args {
    uint operation;
    uint width;
    uint to;
    uint from_at;
    uint other;
    uint a;
    uint b;
    uint c;
    uint d;
    uint e;
    uint activation;
    float limit;
    float steepness;
    float scale;
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

float sigmoid(
    float x_1
) {
    return 1.0 / (1.0 + metal::exp(-(metal::clamp(x_1, -87.0, 87.0))));
}

float hyperbolic_tangent(
    float x_2
) {
    float y = metal::exp(2.0 * metal::clamp(x_2, -20.0, 20.0));
    return (y - 1.0) / (y + 1.0);
}

float error_function(
    float x_3
) {
    float z = metal::abs(x_3);
    float t = 1.0 / (1.0 + (0.3275911 * z));
    float sum = t * (0.2548296 + (t * (-0.28449672 + (t * (1.4214138 + (t * (-1.4531521 + (t * 1.0614054))))))));
    float value = 1.0 - (sum * metal::exp(-(metal::min(z * z, 80.0))));
    return (x_3 < 0.0) ? -(value) : value;
}

float activated(
    uint activation,
    float limit,
    float steepness,
    float x_4
) {
    switch(activation) {
        case 0u: {
            float _e4 = sigmoid(x_4);
            return x_4 * _e4;
        }
        case 1u: {
            float _e15 = hyperbolic_tangent(0.7978846 * (x_4 + (((0.044715 * x_4) * x_4) * x_4)));
            return (0.5 * x_4) * (1.0 + _e15);
        }
        case 2u: {
            float _e23 = error_function(x_4 * 0.70710677);
            return (0.5 * x_4) * (1.0 + _e23);
        }
        case 3u: {
            return metal::max(x_4, 0.0) * metal::max(x_4, 0.0);
        }
        case 4u: {
            float _e32 = sigmoid(x_4);
            return _e32;
        }
        case 5u: {
            float _e33 = hyperbolic_tangent(x_4);
            return _e33;
        }
        case 6u: {
            return x_4;
        }
        default: {
            float cut = metal::min(x_4, limit);
            float _e36 = sigmoid(steepness * cut);
            return cut * _e36;
        }
    }
}

float beside_gate(
    uint activation_1,
    float limit_1,
    float up
) {
    return (activation_1 == 7u) ? (metal::clamp(up, -(limit_1), limit_1) + 1.0) : up;
}
uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
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
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    float share = 1.0;
    float x = {};
    uint i = (THREADS * group.x) + thread_;
    uint row = group.y;
    uint _e9 = args.width;
    if (i >= _e9) {
        return;
    }
    uint _e13 = args.width;
    uint at_1 = (row * _e13) + i;
    uint _e18 = args.operation;
    switch(_e18) {
        case 0u: {
            uint _e21 = args.a;
            if (_e21 != 0u) {
                uint _e27 = args.to;
                float _e30 = arena[metal::min(unsigned(_e27 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e33 = args.scale;
                float gate = _e30 * _e33;
                uint _e38 = args.to;
                uint _e43 = args.activation;
                float _e46 = args.limit;
                float _e49 = args.steepness;
                float _e50 = activated(_e43, _e46, _e49, gate);
                uint _e53 = args.activation;
                float _e56 = args.limit;
                uint _e60 = args.from_at;
                float _e63 = arena[metal::min(unsigned(_e60 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e64 = beside_gate(_e53, _e56, _e63);
                arena[metal::min(unsigned(_e38 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e50 * _e64;
                return;
            } else {
                uint _e69 = args.to;
                uint _e74 = args.activation;
                float _e77 = args.limit;
                float _e80 = args.steepness;
                uint _e84 = args.from_at;
                float _e87 = arena[metal::min(unsigned(_e84 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e88 = activated(_e74, _e77, _e80, _e87);
                arena[metal::min(unsigned(_e69 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e88;
                return;
            }
            break;
        }
        case 1u: {
            uint _e92 = args.to;
            uint _e97 = args.activation;
            float _e100 = args.limit;
            float _e103 = args.steepness;
            uint _e107 = args.to;
            float _e110 = arena[metal::min(unsigned(_e107 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e111 = activated(_e97, _e100, _e103, _e110);
            uint _e115 = args.from_at;
            float _e118 = arena[metal::min(unsigned(_e115 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
            arena[metal::min(unsigned(_e92 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e111 * _e118;
            return;
        }
        case 2u: {
            uint _e123 = args.to;
            uint _e126 = args.b;
            uint _e131 = args.a;
            float _e135 = arena[metal::min(unsigned(((_e123 + (row * _e126)) + _e131) + i), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e138 = args.scale;
            arena[metal::min(unsigned(((_e123 + (row * _e126)) + _e131) + i), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e135 * _e138;
            return;
        }
        case 3u: {
            uint _e142 = args.b;
            uint which = naga_div(i, _e142);
            uint _e146 = args.b;
            uint rest = naga_mod(i, _e146);
            uint _e150 = args.width;
            uint _e153 = args.b;
            uint groups = naga_div(_e150, _e153);
            uint _e158 = args.to;
            uint _e161 = args.d;
            uint _e166 = args.e;
            uint _e173 = args.from_at;
            uint _e178 = args.c;
            uint _e183 = args.a;
            float _e187 = arena[metal::min(unsigned(((_e173 + (((row * groups) + which) * _e178)) + _e183) + rest), (_buffer_sizes.size0 - 0 - 4) / 4)];
            arena[metal::min(unsigned(((_e158 + (row * _e161)) + _e166) + i), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e187;
            return;
        }
        case 4u: {
            uint _e191 = args.to;
            float _e194 = arena[metal::min(unsigned(_e191 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e197 = args.scale;
            uint _e201 = args.from_at;
            float _e204 = arena[metal::min(unsigned(_e201 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
            arena[metal::min(unsigned(_e191 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e194 + (_e197 * _e204);
            return;
        }
        case 5u: {
            uint _e210 = args.to;
            uint _e216 = args.from_at;
            float _e219 = arena[metal::min(unsigned(_e216 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
            uint _e222 = args.a;
            float _e224 = vector(_e222 + i, vectors, _buffer_sizes);
            uint _e228 = args.other;
            float _e231 = arena[metal::min(unsigned(_e228 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
            arena[metal::min(unsigned(_e210 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e219 + (_e224 * _e231);
            return;
        }
        case 6u: {
            uint _e238 = args.a;
            if (_e238 == 1u) {
                uint _e244 = args.other;
                float _e247 = arena[metal::min(unsigned(_e244 + row), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e248 = sigmoid(_e247);
                share = _e248;
            }
            uint _e251 = args.a;
            if (_e251 == 2u) {
                uint _e257 = args.other;
                uint _e260 = args.c;
                uint _e265 = args.b;
                float _e268 = arena[metal::min(unsigned((_e257 + (row * _e260)) + _e265), (_buffer_sizes.size0 - 0 - 4) / 4)];
                share = _e268;
            }
            float _e269 = share;
            if (_e269 != 0.0) {
                uint _e275 = args.to;
                float _e278 = arena[metal::min(unsigned(_e275 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e279 = share;
                uint _e283 = args.from_at;
                float _e286 = arena[metal::min(unsigned(_e283 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
                arena[metal::min(unsigned(_e275 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e278 + (_e279 * _e286);
                return;
            } else {
                return;
            }
            break;
        }
        case 7u: {
            uint _e292 = step_words[metal::min(unsigned(6), (_buffer_sizes.size2 - 0 - 4) / 4)];
            uint index = step_words[metal::min(unsigned(_e292 + row), (_buffer_sizes.size2 - 0 - 4) / 4)];
            uint _e299 = args.to;
            uint _e305 = args.from_at;
            uint _e308 = args.width;
            float _e313 = arena[metal::min(unsigned((_e305 + (index * _e308)) + i), (_buffer_sizes.size0 - 0 - 4) / 4)];
            arena[metal::min(unsigned(_e299 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e313;
            return;
        }
        default: {
            uint _e317 = args.to;
            float _e320 = arena[metal::min(unsigned(_e317 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e323 = args.scale;
            x = _e320 * _e323;
            uint _e328 = args.a;
            if (_e328 != 0u) {
                float _e333 = args.limit;
                float _e334 = x;
                float _e337 = args.limit;
                float _e339 = hyperbolic_tangent(_e334 / _e337);
                x = _e333 * _e339;
            }
            uint _e344 = args.to;
            float _e347 = x;
            arena[metal::min(unsigned(_e344 + at_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e347;
            return;
        }
    }
}
