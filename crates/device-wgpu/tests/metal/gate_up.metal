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
struct Eight {
    metal::float4 low;
    metal::float4 high;
};
struct type_10 {
    float inner[2];
};
struct Pair {
    type_10 gates;
    type_10 ups;
};
struct Args {
    uint tokens;
    uint columns;
    uint from_at;
    uint to;
    uint rows;
    uint gate_at;
    uint gate_row_bytes;
    uint gate_bias;
    uint gate_quant;
    uint up_at;
    uint up_row_bytes;
    uint up_bias;
    uint up_quant;
    uint activation;
    float limit;
    float steepness;
    float factor;
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
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);
constant uint SUMS = 2u;

float vector(
    uint at,
    device type_3 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vectors[metal::min(unsigned(at), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return as_type<float>(_e3);
}

float half_(
    uint bits
) {
    uint magnitude = bits & 32767u;
    float usual = as_type<float>((magnitude << 13u) + 939524096u);
    float value = (magnitude < 1024u) ? (static_cast<float>(magnitude) * 0.000000059604645) : usual;
    return ((bits & 32768u) != 0u) ? -(value) : value;
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
    float value_1 = 1.0 - (sum_1 * metal::exp(-(metal::min(z * z, 80.0))));
    return (x_2 < 0.0) ? -(value_1) : value_1;
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

float beside_gate(
    uint activation_1,
    float limit_1,
    float up_1
) {
    return (activation_1 == 7u) ? (metal::clamp(up_1, -(limit_1), limit_1) + 1.0) : up_1;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lane_sum(
    float x_4,
    uint thread_1
) {
    float sum = {};
    uint step = 16u;
    sum = x_4;
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
            float _e8 = sum;
            float _e9 = sum;
            uint _e10 = step;
            float unnamed = metal::simd_shuffle_xor(_e9, _e10);
            sum = _e8 + unnamed;
        }
    }
    float _e16 = sum;
    return _e16;
}

float dot_of(
    Eight a,
    Eight b
) {
    return metal::dot(a.low, b.low) + metal::dot(a.high, b.high);
}

Eight scaled(
    float scale,
    metal::uint4 low,
    metal::uint4 high,
    float less
) {
    return Eight {scale * (static_cast<metal::float4>(low) - metal::float4(less)), scale * (static_cast<metal::float4>(high) - metal::float4(less))};
}

Eight scaled_less(
    float scale_1,
    metal::uint4 low_1,
    metal::uint4 high_1,
    float minimum
) {
    return Eight {(scale_1 * static_cast<metal::float4>(low_1)) - metal::float4(minimum), (scale_1 * static_cast<metal::float4>(high_1)) - metal::float4(minimum)};
}

float input(
    uint at_1,
    bool is_there,
    device type_2 const& arena,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (is_there) {
        float _e4 = arena[metal::min(unsigned(at_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
        return _e4;
    }
    return 0.0;
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

Eight inputs(
    uint at_2,
    uint columns,
    uint group_1,
    device type_2 const& arena,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_2 = 8u * group_1;
    uint start = at_2 + i_2;
    if (naga_mod(columns, 8u) == 0u) {
        float _e12 = arena[metal::min(unsigned(start), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e17 = arena[metal::min(unsigned(start + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e22 = arena[metal::min(unsigned(start + 2u), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e27 = arena[metal::min(unsigned(start + 3u), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e33 = arena[metal::min(unsigned(start + 4u), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e38 = arena[metal::min(unsigned(start + 5u), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e43 = arena[metal::min(unsigned(start + 6u), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e48 = arena[metal::min(unsigned(start + 7u), (_buffer_sizes.size0 - 0 - 4) / 4)];
        return Eight {metal::float4(_e12, _e17, _e22, _e27), metal::float4(_e33, _e38, _e43, _e48)};
    }
    float _e52 = input(start, i_2 < columns, arena, _buffer_sizes);
    float _e58 = input(start + 1u, (i_2 + 1u) < columns, arena, _buffer_sizes);
    float _e64 = input(start + 2u, (i_2 + 2u) < columns, arena, _buffer_sizes);
    float _e70 = input(start + 3u, (i_2 + 3u) < columns, arena, _buffer_sizes);
    float _e77 = input(start + 4u, (i_2 + 4u) < columns, arena, _buffer_sizes);
    float _e83 = input(start + 5u, (i_2 + 5u) < columns, arena, _buffer_sizes);
    float _e89 = input(start + 6u, (i_2 + 6u) < columns, arena, _buffer_sizes);
    float _e95 = input(start + 7u, (i_2 + 7u) < columns, arena, _buffer_sizes);
    return Eight {metal::float4(_e52, _e58, _e64, _e70), metal::float4(_e77, _e83, _e89, _e95)};
}

metal::float2 affine(
    metal::uint3 header,
    uint sub
) {
    uint shift = 8u * naga_mod(sub, 4u);
    uint low_2 = header.x >> shift;
    uint middle = header.y >> shift;
    uint high_2 = header.z >> shift;
    metal::uint2 first_1 = metal::uint2(low_2 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_2 & 15u) | ((low_2 >> 2u) & 48u), ((high_2 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first_1 : later);
}

Eight q4_k_eight0_(
    uint row,
    uint columns_1,
    uint group_2,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block = naga_div(row + (144u * naga_div(group_2, 32u)), 4u);
    uint g = naga_mod(group_2, 32u);
    uint sub_1 = naga_div(g, 4u);
    uint halves = weights0_[metal::min(unsigned(block), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e21 = weights0_[metal::min(unsigned(block + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e26 = weights0_[metal::min(unsigned(block + 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e31 = weights0_[metal::min(unsigned(block + 3u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint3 header_1 = metal::uint3(_e21, _e26, _e31);
    metal::float2 _e33 = affine(header_1, sub_1);
    uint at_6 = ((block + 4u) + (8u * naga_div(sub_1, 2u))) + (2u * naga_mod(g, 4u));
    uint shift_1 = 4u * naga_mod(sub_1, 2u);
    uint _e52 = weights0_[metal::min(unsigned(at_6), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 low_3 = uint4(as_type<packed_uchar4>((_e52 >> shift_1) & 252645135u));
    uint _e61 = weights0_[metal::min(unsigned(at_6 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 high_3 = uint4(as_type<packed_uchar4>((_e61 >> shift_1) & 252645135u));
    float _e68 = half_(halves & 65535u);
    float _e73 = half_(halves >> 16u);
    Eight _e76 = scaled_less(_e68 * _e33.x, low_3, high_3, _e73 * _e33.y);
    return _e76;
}

Eight eight0_(
    uint quant,
    uint row_1,
    uint columns_2,
    uint group_3,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant) {
        case 10u: {
            Eight _e4 = q4_k_eight0_(row_1, columns_2, group_3, weights0_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

uint word1_(
    uint at_3,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint index = at_3 >> 2u;
    uint shift_2 = 8u * (at_3 & 3u);
    if (shift_2 == 0u) {
        uint _e11 = weights1_[metal::min(unsigned(index), (_buffer_sizes.size2 - 0 - 4) / 4)];
        return _e11;
    }
    uint _e14 = weights1_[metal::min(unsigned(index), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e20 = weights1_[metal::min(unsigned(index + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return (_e14 >> shift_2) | (_e20 << (32u - shift_2));
}

uint byte1_(
    uint at_4,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = weights1_[metal::min(unsigned(at_4 >> 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return (_e5 >> (8u * (at_4 & 3u))) & 255u;
}

float half_at1_(
    uint at_5,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = weights1_[metal::min(unsigned(at_5 >> 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    float _e13 = half_((_e5 >> (8u * (at_5 & 2u))) & 65535u);
    return _e13;
}

Eight q6_k_eight1_(
    uint row_2,
    uint columns_3,
    uint group_4,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_1 = row_2 + (210u * naga_div(group_4, 32u));
    uint g_1 = naga_mod(group_4, 32u);
    uint run = naga_mod(naga_div(g_1, 4u), 4u);
    uint at_7 = ((block_1 + (64u * naga_div(g_1, 16u))) + (32u * naga_mod(run, 2u))) + (8u * naga_mod(g_1, 4u));
    uint above = ((block_1 + 128u) + (32u * naga_div(g_1, 16u))) + (8u * naga_mod(g_1, 4u));
    uint shift_3 = 4u * naga_div(run, 2u);
    uint _e45 = word1_(at_7, weights1_, _buffer_sizes);
    uint _e49 = word1_(above, weights1_, _buffer_sizes);
    uint low_4 = ((_e45 >> shift_3) & 252645135u) | (((_e49 >> (2u * run)) & 50529027u) << 4u);
    uint _e60 = word1_(at_7 + 4u, weights1_, _buffer_sizes);
    uint _e66 = word1_(above + 4u, weights1_, _buffer_sizes);
    uint high_4 = ((_e60 >> shift_3) & 252645135u) | (((_e66 >> (2u * run)) & 50529027u) << 4u);
    uint _e80 = byte1_((block_1 + 192u) + naga_div(g_1, 2u), weights1_, _buffer_sizes);
    float sub_scale = static_cast<float>(metal::extract_bits(as_type<int>(_e80), metal::min(0u, 32u), metal::min(8u, 32u - metal::min(0u, 32u))));
    float _e88 = half_at1_(block_1 + 208u, weights1_, _buffer_sizes);
    Eight _e93 = scaled(_e88 * sub_scale, uint4(as_type<packed_uchar4>(low_4)), uint4(as_type<packed_uchar4>(high_4)), 32.0);
    return _e93;
}

Eight eight1_(
    uint quant_1,
    uint row_3,
    uint columns_4,
    uint group_5,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant_1) {
        case 12u: {
            Eight _e4 = q6_k_eight1_(row_3, columns_4, group_5, weights1_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

Pair pair(
    uint row_4,
    uint lane,
    uint first,
    uint thread_2,
    device type_2 const& arena,
    device type_3 const& weights0_,
    device type_3 const& weights1_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    Pair both = {};
    uint i_1 = 0u;
    uint group_6 = {};
    uint r = {};
    uint t = {};
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e19 = i_1;
            i_1 = _e19 + 1u;
        }
        loop_init_1 = false;
        uint _e7 = i_1;
        if (_e7 < SUMS) {
        } else {
            break;
        }
        {
            uint _e11 = i_1;
            both.gates.inner[metal::min(unsigned(_e11), 1u)] = 0.0;
            uint _e15 = i_1;
            both.ups.inner[metal::min(unsigned(_e15), 1u)] = 0.0;
        }
    }
    uint _e23 = args.rows;
    if (row_4 < _e23) {
        uint _e27 = args.rows;
        uint last = (_e27 - row_4) - 1u;
        uint _e33 = args.columns;
        uint groups = naga_div(_e33 + 7u, 8u);
        uint _e41 = args.tokens;
        uint tokens = metal::min(TOKENS, _e41 - first);
        group_6 = lane;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e135 = group_6;
                group_6 = _e135 + LANES;
            }
            loop_init_2 = false;
            uint _e45 = group_6;
            if (_e45 < groups) {
            } else {
                break;
            }
            {
                r = 0u;
                bool loop_init_3 = true;
                while(true) {
                    if (!loop_init_3) {
                        uint _e133 = r;
                        r = _e133 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e49 = r;
                    if (_e49 < EACH_GATED) {
                    } else {
                        break;
                    }
                    {
                        uint _e52 = r;
                        uint own = row_4 + metal::min(_e52, last);
                        uint _e57 = args.gate_quant;
                        uint _e60 = args.gate_at;
                        uint _e63 = args.gate_row_bytes;
                        uint _e68 = args.columns;
                        uint _e69 = group_6;
                        Eight _e70 = eight0_(_e57, _e60 + (own * _e63), _e68, _e69, weights0_, _buffer_sizes);
                        uint _e73 = args.up_quant;
                        uint _e76 = args.up_at;
                        uint _e79 = args.up_row_bytes;
                        uint _e84 = args.columns;
                        uint _e85 = group_6;
                        Eight _e86 = eight1_(_e73, _e76 + (own * _e79), _e84, _e85, weights1_, _buffer_sizes);
                        t = 0u;
                        bool loop_init_4 = true;
                        while(true) {
                            if (!loop_init_4) {
                                uint _e130 = t;
                                t = _e130 + 1u;
                            }
                            loop_init_4 = false;
                            uint _e89 = t;
                            if (_e89 < TOKENS) {
                            } else {
                                break;
                            }
                            {
                                uint _e92 = t;
                                if (_e92 < tokens) {
                                    uint _e96 = args.from_at;
                                    uint _e97 = t;
                                    uint _e101 = args.columns;
                                    uint _e106 = args.columns;
                                    uint _e107 = group_6;
                                    Eight _e108 = inputs(_e96 + ((first + _e97) * _e101), _e106, _e107, arena, _buffer_sizes);
                                    uint _e110 = r;
                                    uint _e113 = t;
                                    float _e116 = both.gates.inner[metal::min(unsigned((_e110 * TOKENS) + _e113), 1u)];
                                    float _e117 = dot_of(_e70, _e108);
                                    both.gates.inner[metal::min(unsigned((_e110 * TOKENS) + _e113), 1u)] = _e116 + _e117;
                                    uint _e120 = r;
                                    uint _e123 = t;
                                    float _e126 = both.ups.inner[metal::min(unsigned((_e120 * TOKENS) + _e123), 1u)];
                                    float _e127 = dot_of(_e86, _e108);
                                    both.ups.inner[metal::min(unsigned((_e120 * TOKENS) + _e123), 1u)] = _e126 + _e127;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    Pair _e138 = both;
    return _e138;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3 const& weights1_ [[buffer(2)]]
, device type_3 const& vectors [[buffer(4)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = 0u;
    float gate = {};
    float up = {};
    bool local = {};
    bool local_1 = {};
    uint first_2 = TOKENS * group.y;
    uint lane_1 = naga_mod(thread_, LANES);
    uint row_5 = (GATED_ROWS * group.x) + (EACH_GATED * naga_div(thread_, LANES));
    Pair _e15 = pair(row_5, lane_1, first_2, thread_, arena, weights0_, weights1_, args, _buffer_sizes);
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e119 = i;
            i = _e119 + 1u;
        }
        loop_init_5 = false;
        uint _e18 = i;
        if (_e18 < SUMS) {
        } else {
            break;
        }
        {
            uint _e22 = i;
            float _e24 = lane_sum(_e15.gates.inner[metal::min(unsigned(_e22), 1u)], thread_);
            gate = _e24;
            uint _e27 = i;
            float _e29 = lane_sum(_e15.ups.inner[metal::min(unsigned(_e27), 1u)], thread_);
            up = _e29;
            uint _e31 = i;
            uint own_1 = row_5 + naga_div(_e31, TOKENS);
            uint _e35 = i;
            uint token = first_2 + naga_mod(_e35, TOKENS);
            uint _e39 = i;
            if (lane_1 == naga_mod(_e39, LANES)) {
                uint _e47 = args.rows;
                local = own_1 < _e47;
            } else {
                local = false;
            }
            bool _e50 = local;
            if (_e50) {
                uint _e55 = args.tokens;
                local_1 = token < _e55;
            } else {
                local_1 = false;
            }
            bool _e58 = local_1;
            if (_e58) {
                uint _e61 = args.gate_bias;
                if (_e61 != NOTHING) {
                    float _e64 = gate;
                    uint _e67 = args.gate_bias;
                    float _e69 = vector(_e67 + own_1, vectors, _buffer_sizes);
                    gate = _e64 + _e69;
                }
                uint _e73 = args.up_bias;
                if (_e73 != NOTHING) {
                    float _e76 = up;
                    uint _e79 = args.up_bias;
                    float _e81 = vector(_e79 + own_1, vectors, _buffer_sizes);
                    up = _e76 + _e81;
                }
                uint _e85 = args.activation;
                float _e88 = args.limit;
                float _e91 = args.steepness;
                float _e92 = gate;
                float _e95 = args.factor;
                float _e97 = activated(_e85, _e88, _e91, _e92 * _e95);
                uint _e100 = args.activation;
                float _e103 = args.limit;
                float _e104 = up;
                float _e105 = beside_gate(_e100, _e103, _e104);
                float y_1 = _e97 * _e105;
                uint _e110 = args.to;
                uint _e113 = args.rows;
                arena[metal::min(unsigned((_e110 + (token * _e113)) + own_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = y_1;
            }
        }
    }
    return;
}
