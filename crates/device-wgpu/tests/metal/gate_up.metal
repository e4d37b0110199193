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
struct type_10 {
    float inner[2];
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
    uint group_2,
    device type_2 const& arena,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_2 = 8u * group_2;
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
    metal::uint2 first = metal::uint2(low_2 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_2 & 15u) | ((low_2 >> 2u) & 48u), ((high_2 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first : later);
}

Eight q4_k_eight0_(
    uint row,
    uint columns_1,
    uint group_3,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block = naga_div(row + (144u * naga_div(group_3, 32u)), 4u);
    uint g = naga_mod(group_3, 32u);
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
    uint group_4,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant) {
        case 10u: {
            Eight _e4 = q4_k_eight0_(row_1, columns_2, group_4, weights0_, _buffer_sizes);
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
    uint _e1 = word1_(at_5, weights1_, _buffer_sizes);
    float _e4 = half_(_e1 & 65535u);
    return _e4;
}

Eight q6_k_eight1_(
    uint row_2,
    uint columns_3,
    uint group_5,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_1 = row_2 + (210u * naga_div(group_5, 32u));
    uint g_1 = naga_mod(group_5, 32u);
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
    uint group_6,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant_1) {
        case 12u: {
            Eight _e4 = q6_k_eight1_(row_3, columns_4, group_6, weights1_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
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
    type_10 gates = {};
    type_10 ups = {};
    uint i = 0u;
    uint group_1 = {};
    uint r = {};
    uint t = {};
    uint i_1 = 0u;
    float gate = {};
    float up = {};
    bool local = {};
    bool local_1 = {};
    uint first_1 = TOKENS * group.y;
    uint lane = naga_mod(thread_, LANES);
    uint row_4 = (GATED_ROWS * group.x) + (EACH_GATED * naga_div(thread_, LANES));
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e29 = i;
            i = _e29 + 1u;
        }
        loop_init_1 = false;
        uint _e19 = i;
        if (_e19 < SUMS) {
        } else {
            break;
        }
        {
            uint _e22 = i;
            gates.inner[metal::min(unsigned(_e22), 1u)] = 0.0;
            uint _e25 = i;
            ups.inner[metal::min(unsigned(_e25), 1u)] = 0.0;
        }
    }
    uint _e33 = args.rows;
    if (row_4 < _e33) {
        uint _e37 = args.rows;
        uint last = (_e37 - row_4) - 1u;
        uint _e43 = args.columns;
        uint groups = naga_div(_e43 + 7u, 8u);
        uint _e51 = args.tokens;
        uint tokens = metal::min(TOKENS, _e51 - first_1);
        group_1 = lane;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e143 = group_1;
                group_1 = _e143 + LANES;
            }
            loop_init_2 = false;
            uint _e55 = group_1;
            if (_e55 < groups) {
            } else {
                break;
            }
            {
                r = 0u;
                bool loop_init_3 = true;
                while(true) {
                    if (!loop_init_3) {
                        uint _e141 = r;
                        r = _e141 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e59 = r;
                    if (_e59 < EACH_GATED) {
                    } else {
                        break;
                    }
                    {
                        uint _e62 = r;
                        uint own = row_4 + metal::min(_e62, last);
                        uint _e67 = args.gate_quant;
                        uint _e70 = args.gate_at;
                        uint _e73 = args.gate_row_bytes;
                        uint _e78 = args.columns;
                        uint _e79 = group_1;
                        Eight _e80 = eight0_(_e67, _e70 + (own * _e73), _e78, _e79, weights0_, _buffer_sizes);
                        uint _e83 = args.up_quant;
                        uint _e86 = args.up_at;
                        uint _e89 = args.up_row_bytes;
                        uint _e94 = args.columns;
                        uint _e95 = group_1;
                        Eight _e96 = eight1_(_e83, _e86 + (own * _e89), _e94, _e95, weights1_, _buffer_sizes);
                        t = 0u;
                        bool loop_init_4 = true;
                        while(true) {
                            if (!loop_init_4) {
                                uint _e138 = t;
                                t = _e138 + 1u;
                            }
                            loop_init_4 = false;
                            uint _e99 = t;
                            if (_e99 < TOKENS) {
                            } else {
                                break;
                            }
                            {
                                uint _e102 = t;
                                if (_e102 < tokens) {
                                    uint _e106 = args.from_at;
                                    uint _e107 = t;
                                    uint _e111 = args.columns;
                                    uint _e116 = args.columns;
                                    uint _e117 = group_1;
                                    Eight _e118 = inputs(_e106 + ((first_1 + _e107) * _e111), _e116, _e117, arena, _buffer_sizes);
                                    uint _e119 = r;
                                    uint _e122 = t;
                                    float _e125 = gates.inner[metal::min(unsigned((_e119 * TOKENS) + _e122), 1u)];
                                    float _e126 = dot_of(_e80, _e118);
                                    gates.inner[metal::min(unsigned((_e119 * TOKENS) + _e122), 1u)] = _e125 + _e126;
                                    uint _e128 = r;
                                    uint _e131 = t;
                                    float _e134 = ups.inner[metal::min(unsigned((_e128 * TOKENS) + _e131), 1u)];
                                    float _e135 = dot_of(_e96, _e118);
                                    ups.inner[metal::min(unsigned((_e128 * TOKENS) + _e131), 1u)] = _e134 + _e135;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e249 = i_1;
            i_1 = _e249 + 1u;
        }
        loop_init_5 = false;
        uint _e148 = i_1;
        if (_e148 < SUMS) {
        } else {
            break;
        }
        {
            uint _e151 = i_1;
            float _e153 = gates.inner[metal::min(unsigned(_e151), 1u)];
            float _e154 = lane_sum(_e153, thread_);
            gate = _e154;
            uint _e156 = i_1;
            float _e158 = ups.inner[metal::min(unsigned(_e156), 1u)];
            float _e159 = lane_sum(_e158, thread_);
            up = _e159;
            uint _e161 = i_1;
            uint own_1 = row_4 + naga_div(_e161, TOKENS);
            uint _e165 = i_1;
            uint token = first_1 + naga_mod(_e165, TOKENS);
            uint _e169 = i_1;
            if (lane == naga_mod(_e169, LANES)) {
                uint _e177 = args.rows;
                local = own_1 < _e177;
            } else {
                local = false;
            }
            bool _e180 = local;
            if (_e180) {
                uint _e185 = args.tokens;
                local_1 = token < _e185;
            } else {
                local_1 = false;
            }
            bool _e188 = local_1;
            if (_e188) {
                uint _e191 = args.gate_bias;
                if (_e191 != NOTHING) {
                    float _e194 = gate;
                    uint _e197 = args.gate_bias;
                    float _e199 = vector(_e197 + own_1, vectors, _buffer_sizes);
                    gate = _e194 + _e199;
                }
                uint _e203 = args.up_bias;
                if (_e203 != NOTHING) {
                    float _e206 = up;
                    uint _e209 = args.up_bias;
                    float _e211 = vector(_e209 + own_1, vectors, _buffer_sizes);
                    up = _e206 + _e211;
                }
                uint _e215 = args.activation;
                float _e218 = args.limit;
                float _e221 = args.steepness;
                float _e222 = gate;
                float _e225 = args.factor;
                float _e227 = activated(_e215, _e218, _e221, _e222 * _e225);
                uint _e230 = args.activation;
                float _e233 = args.limit;
                float _e234 = up;
                float _e235 = beside_gate(_e230, _e233, _e234);
                float y_1 = _e227 * _e235;
                uint _e240 = args.to;
                uint _e243 = args.rows;
                arena[metal::min(unsigned((_e240 + (token * _e243)) + own_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = y_1;
            }
        }
    }
    return;
}
