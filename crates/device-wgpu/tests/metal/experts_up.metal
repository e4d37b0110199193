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
struct Matrix {
    uint at;
    uint row_bytes;
    uint quant;
    uint bias;
};
struct type_10 {
    float inner[1];
};
struct Pair {
    type_10 gates;
    type_10 ups;
};
struct Args {
    uint table;
    uint chosen;
    uint from_at;
    uint wide;
    uint hidden;
    uint width;
    uint wanted;
    uint is_gated;
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
constant uint EXPERT_THREADS = 256u;
constant uint EACH_EXPERT_UP = 1u;
constant uint EACH_EXPERT_DOWN = 1u;
constant uint EXPERT_UP_ROWS = 8u;
constant uint EXPERT_DOWN_ROWS = 8u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);

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
    float y_1 = metal::exp(2.0 * metal::clamp(x_1, -20.0, 20.0));
    return (y_1 - 1.0) / (y_1 + 1.0);
}

float error_function(
    float x_2
) {
    float z = metal::abs(x_2);
    float t = 1.0 / (1.0 + (0.3275911 * z));
    float sum_1 = t * (0.2548296 + (t * (-0.28449672 + (t * (1.4214138 + (t * (-1.4531521 + (t * 1.0614054))))))));
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
    float up
) {
    return (activation_1 == 7u) ? (metal::clamp(up, -(limit_1), limit_1) + 1.0) : up;
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
    uint i_1 = 8u * group_1;
    uint start = at_2 + i_1;
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
    float _e52 = input(start, i_1 < columns, arena, _buffer_sizes);
    float _e58 = input(start + 1u, (i_1 + 1u) < columns, arena, _buffer_sizes);
    float _e64 = input(start + 2u, (i_1 + 2u) < columns, arena, _buffer_sizes);
    float _e70 = input(start + 3u, (i_1 + 3u) < columns, arena, _buffer_sizes);
    float _e77 = input(start + 4u, (i_1 + 4u) < columns, arena, _buffer_sizes);
    float _e83 = input(start + 5u, (i_1 + 5u) < columns, arena, _buffer_sizes);
    float _e89 = input(start + 6u, (i_1 + 6u) < columns, arena, _buffer_sizes);
    float _e95 = input(start + 7u, (i_1 + 7u) < columns, arena, _buffer_sizes);
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

Matrix matrix_of(
    uint table,
    uint expert,
    uint which,
    device type_3 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_7 = (table + (12u * expert)) + (4u * which);
    uint _e11 = vectors[metal::min(unsigned(at_7), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e16 = vectors[metal::min(unsigned(at_7 + 1u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e21 = vectors[metal::min(unsigned(at_7 + 2u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e26 = vectors[metal::min(unsigned(at_7 + 3u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return Matrix {_e11, _e16, _e21, _e26};
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
    uint at_8 = ((block + 4u) + (8u * naga_div(sub_1, 2u))) + (2u * naga_mod(g, 4u));
    uint shift_1 = 4u * naga_mod(sub_1, 2u);
    uint _e52 = weights0_[metal::min(unsigned(at_8), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 low_3 = uint4(as_type<packed_uchar4>((_e52 >> shift_1) & 252645135u));
    uint _e61 = weights0_[metal::min(unsigned(at_8 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
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
    uint at_9 = ((block_1 + (64u * naga_div(g_1, 16u))) + (32u * naga_mod(run, 2u))) + (8u * naga_mod(g_1, 4u));
    uint above = ((block_1 + 128u) + (32u * naga_div(g_1, 16u))) + (8u * naga_mod(g_1, 4u));
    uint shift_3 = 4u * naga_div(run, 2u);
    uint _e45 = word1_(at_9, weights1_, _buffer_sizes);
    uint _e49 = word1_(above, weights1_, _buffer_sizes);
    uint low_4 = ((_e45 >> shift_3) & 252645135u) | (((_e49 >> (2u * run)) & 50529027u) << 4u);
    uint _e60 = word1_(at_9 + 4u, weights1_, _buffer_sizes);
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

Pair pair_of(
    Matrix gate,
    Matrix up_1,
    bool is_there_1,
    uint at_6,
    uint row_4,
    uint lane,
    uint thread_2,
    device type_2 const& arena,
    device type_3 const& weights0_,
    device type_3 const& weights1_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    float gate_sum = 0.0;
    float up_sum = 0.0;
    uint group_6 = {};
    if (is_there_1) {
        group_6 = lane;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e57 = group_6;
                group_6 = _e57 + LANES;
            }
            loop_init_1 = false;
            uint _e12 = group_6;
            uint _e15 = args.hidden;
            if (_e12 < naga_div(_e15 + 7u, 8u)) {
            } else {
                break;
            }
            {
                uint _e23 = args.hidden;
                uint _e24 = group_6;
                Eight _e25 = inputs(at_6, _e23, _e24, arena, _buffer_sizes);
                float _e26 = up_sum;
                uint _e34 = args.hidden;
                uint _e35 = group_6;
                Eight _e36 = eight1_(up_1.quant, up_1.at + (row_4 * up_1.row_bytes), _e34, _e35, weights1_, _buffer_sizes);
                float _e37 = dot_of(_e36, _e25);
                up_sum = _e26 + _e37;
                uint _e41 = args.is_gated;
                if (_e41 != 0u) {
                    float _e44 = gate_sum;
                    uint _e52 = args.hidden;
                    uint _e53 = group_6;
                    Eight _e54 = eight0_(gate.quant, gate.at + (row_4 * gate.row_bytes), _e52, _e53, weights0_, _buffer_sizes);
                    float _e55 = dot_of(_e54, _e25);
                    gate_sum = _e44 + _e55;
                }
            }
        }
    }
    float _e60 = gate_sum;
    float _e62 = up_sum;
    return Pair {type_10 {{_e60}}, type_10 {{_e62}}};
}
uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3 const& weights1_ [[buffer(2)]]
, device type_3 const& vectors [[buffer(4)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    bool local = {};
    uint i = 0u;
    float y = {};
    bool local_1 = {};
    bool local_2 = {};
    float by = {};
    uint lane_1 = naga_mod(thread_, LANES);
    uint row_5 = (EXPERT_UP_ROWS * group.x) + (EACH_EXPERT_UP * naga_div(thread_, LANES));
    uint _e15 = args.wanted;
    uint place = (group.z * _e15) + group.y;
    uint _e22 = args.chosen;
    float expert_1 = arena[metal::min(unsigned(_e22 + place), (_buffer_sizes.size0 - 0 - 4) / 4)];
    uint _e28 = args.width;
    if (row_5 < _e28) {
        local = expert_1 >= 0.0;
    } else {
        local = false;
    }
    bool is_there_2 = local;
    uint number = naga_f2u32(metal::max(expert_1, 0.0));
    uint _e41 = args.table;
    Matrix _e43 = matrix_of(_e41, number, 0u, vectors, _buffer_sizes);
    uint _e46 = args.table;
    Matrix _e48 = matrix_of(_e46, number, 1u, vectors, _buffer_sizes);
    uint _e51 = args.from_at;
    uint _e55 = args.hidden;
    Pair _e58 = pair_of(_e43, _e48, is_there_2, _e51 + (group.z * _e55), row_5, lane_1, thread_, arena, weights0_, weights1_, args, _buffer_sizes);
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e161 = i;
            i = _e161 + 1u;
        }
        loop_init_2 = false;
        uint _e61 = i;
        if (_e61 < EACH_EXPERT_UP) {
        } else {
            break;
        }
        {
            uint _e65 = i;
            float _e67 = lane_sum(_e58.gates.inner[metal::min(unsigned(_e65), 0u)], thread_);
            uint _e69 = i;
            float _e71 = lane_sum(_e58.ups.inner[metal::min(unsigned(_e69), 0u)], thread_);
            y = _e71;
            uint _e73 = i;
            uint own = row_5 + _e73;
            uint _e75 = i;
            if (lane_1 == naga_mod(_e75, LANES)) {
                local_1 = is_there_2;
            } else {
                local_1 = false;
            }
            bool _e82 = local_1;
            if (_e82) {
                uint _e87 = args.width;
                local_2 = own < _e87;
            } else {
                local_2 = false;
            }
            bool _e90 = local_2;
            if (_e90) {
                if (_e48.bias != NOTHING) {
                    float _e94 = y;
                    float _e97 = vector(_e48.bias + own, vectors, _buffer_sizes);
                    y = _e94 + _e97;
                }
                uint _e101 = args.is_gated;
                if (_e101 != 0u) {
                    by = _e67;
                    if (_e43.bias != NOTHING) {
                        float _e108 = by;
                        float _e111 = vector(_e43.bias + own, vectors, _buffer_sizes);
                        by = _e108 + _e111;
                    }
                    uint _e115 = args.activation;
                    float _e118 = args.limit;
                    float _e121 = args.steepness;
                    float _e122 = by;
                    float _e125 = args.factor;
                    float _e127 = activated(_e115, _e118, _e121, _e122 * _e125);
                    uint _e130 = args.activation;
                    float _e133 = args.limit;
                    float _e134 = y;
                    float _e135 = beside_gate(_e130, _e133, _e134);
                    y = _e127 * _e135;
                } else {
                    uint _e139 = args.activation;
                    float _e142 = args.limit;
                    float _e145 = args.steepness;
                    float _e146 = y;
                    float _e147 = activated(_e139, _e142, _e145, _e146);
                    y = _e147;
                }
                uint _e151 = args.wide;
                uint _e154 = args.width;
                float _e159 = y;
                arena[metal::min(unsigned((_e151 + (place * _e154)) + own), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e159;
            }
        }
    }
    return;
}
