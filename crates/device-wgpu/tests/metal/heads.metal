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
struct Eight {
    metal::float4 low;
    metal::float4 high;
};
struct Args {
    uint table;
    uint row_bytes;
    uint quant;
    uint is_turned;
    uint from_at;
    uint from_row;
    uint inputs;
    uint to;
    uint to_row;
    uint copied;
    uint outputs;
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

float half_(
    uint bits
) {
    uint magnitude = bits & 32767u;
    float usual = as_type<float>((magnitude << 13u) + 939524096u);
    float value = (magnitude < 1024u) ? (static_cast<float>(magnitude) * 0.000000059604645) : usual;
    return ((bits & 32768u) != 0u) ? -(value) : value;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lane_sum(
    float x,
    uint thread_1
) {
    float sum_1 = {};
    uint step = 16u;
    sum_1 = x;
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

float dot_of(
    Eight a,
    Eight b
) {
    return metal::dot(a.low, b.low) + metal::dot(a.high, b.high);
}

Eight scaled_less(
    float scale,
    metal::uint4 low,
    metal::uint4 high,
    float minimum
) {
    return Eight {(scale * static_cast<metal::float4>(low)) - metal::float4(minimum), (scale * static_cast<metal::float4>(high)) - metal::float4(minimum)};
}

float input(
    uint at,
    bool is_there,
    device type_2 const& arena,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (is_there) {
        float _e4 = arena[metal::min(unsigned(at), (_buffer_sizes.size0 - 0 - 4) / 4)];
        return _e4;
    }
    return 0.0;
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

Eight inputs(
    uint at_1,
    uint columns,
    uint group_2,
    device type_2 const& arena,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_1 = 8u * group_2;
    uint start = at_1 + i_1;
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
    uint low_1 = header.x >> shift;
    uint middle = header.y >> shift;
    uint high_1 = header.z >> shift;
    metal::uint2 first = metal::uint2(low_1 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_1 & 15u) | ((low_1 >> 2u) & 48u), ((high_1 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first : later);
}

Eight q4_k_eight0_(
    uint row_1,
    uint columns_1,
    uint group_3,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block = naga_div(row_1 + (144u * naga_div(group_3, 32u)), 4u);
    uint g = naga_mod(group_3, 32u);
    uint sub_1 = naga_div(g, 4u);
    uint halves = weights0_[metal::min(unsigned(block), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e21 = weights0_[metal::min(unsigned(block + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e26 = weights0_[metal::min(unsigned(block + 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e31 = weights0_[metal::min(unsigned(block + 3u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint3 header_1 = metal::uint3(_e21, _e26, _e31);
    metal::float2 _e33 = affine(header_1, sub_1);
    uint at_2 = ((block + 4u) + (8u * naga_div(sub_1, 2u))) + (2u * naga_mod(g, 4u));
    uint shift_1 = 4u * naga_mod(sub_1, 2u);
    uint _e52 = weights0_[metal::min(unsigned(at_2), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 low_2 = uint4(as_type<packed_uchar4>((_e52 >> shift_1) & 252645135u));
    uint _e61 = weights0_[metal::min(unsigned(at_2 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 high_2 = uint4(as_type<packed_uchar4>((_e61 >> shift_1) & 252645135u));
    float _e68 = half_(halves & 65535u);
    float _e73 = half_(halves >> 16u);
    Eight _e76 = scaled_less(_e68 * _e33.x, low_2, high_2, _e73 * _e33.y);
    return _e76;
}

Eight eight0_(
    uint quant,
    uint row_2,
    uint columns_2,
    uint group_4,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant) {
        case 10u: {
            Eight _e4 = q4_k_eight0_(row_2, columns_2, group_4, weights0_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 grid [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3 const& vectors [[buffer(4)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = {};
    Eight sums = Eight {metal::float4(0.0), metal::float4(0.0)};
    uint row = 0u;
    uint j = 0u;
    float y = {};
    float sum = 0.0;
    uint group_1 = {};
    bool local = {};
    uint head = (group.z * grid.y) + group.y;
    uint _e10 = args.from_at;
    uint _e13 = args.from_row;
    uint from_at = _e10 + (head * _e13);
    uint _e18 = args.to;
    uint _e21 = args.to_row;
    uint to = _e18 + (head * _e21);
    uint _e27 = args.table;
    uint matrix_ = vectors[metal::min(unsigned(_e27 + group.y), (_buffer_sizes.size2 - 0 - 4) / 4)];
    if (group.x == 0u) {
        i = thread_;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e54 = i;
                i = _e54 + THREADS;
            }
            loop_init_1 = false;
            uint _e36 = i;
            uint _e39 = args.copied;
            if (_e36 < _e39) {
            } else {
                break;
            }
            {
                uint _e42 = i;
                uint _e48 = args.inputs;
                uint _e50 = i;
                float _e53 = arena[metal::min(unsigned((from_at + _e48) + _e50), (_buffer_sizes.size0 - 0 - 4) / 4)];
                arena[metal::min(unsigned(to + _e42), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e53;
            }
        }
    }
    uint _e59 = args.is_turned;
    if (_e59 != 0u) {
        uint eight = (group.x * THREADS) + thread_;
        uint _e70 = args.outputs;
        if ((8u * eight) < _e70) {
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e114 = row;
                    row = _e114 + 1u;
                }
                loop_init_2 = false;
                uint _e80 = row;
                uint _e83 = args.inputs;
                if (_e80 < _e83) {
                } else {
                    break;
                }
                {
                    uint _e87 = args.quant;
                    uint _e88 = row;
                    uint _e91 = args.row_bytes;
                    uint _e96 = args.outputs;
                    Eight _e97 = eight0_(_e87, matrix_ + (_e88 * _e91), _e96, eight, weights0_, _buffer_sizes);
                    uint _e99 = row;
                    float x_1 = arena[metal::min(unsigned(from_at + _e99), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    metal::float4 _e104 = sums.low;
                    sums.low = _e104 + (x_1 * _e97.low);
                    metal::float4 _e109 = sums.high;
                    sums.high = _e109 + (x_1 * _e97.high);
                }
            }
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e157 = j;
                    j = _e157 + 1u;
                }
                loop_init_3 = false;
                uint _e118 = j;
                uint _e122 = args.outputs;
                if (_e118 < metal::min(8u, _e122 - (8u * eight))) {
                } else {
                    break;
                }
                {
                    uint _e129 = j;
                    float _e133 = sums.low[metal::min(unsigned(naga_mod(_e129, 4u)), 3u)];
                    y = _e133;
                    uint _e135 = j;
                    if (_e135 >= 4u) {
                        uint _e139 = j;
                        float _e143 = sums.high[metal::min(unsigned(naga_mod(_e139, 4u)), 3u)];
                        y = _e143;
                    }
                    uint _e147 = args.copied;
                    uint _e152 = j;
                    float _e155 = y;
                    arena[metal::min(unsigned(((to + _e147) + (8u * eight)) + _e152), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e155;
                }
            }
        }
        return;
    }
    uint lane = naga_mod(thread_, LANES);
    uint row_3 = (ROWS * group.x) + naga_div(thread_, LANES);
    uint _e171 = args.outputs;
    if (row_3 < _e171) {
        group_1 = lane;
        bool loop_init_4 = true;
        while(true) {
            if (!loop_init_4) {
                uint _e204 = group_1;
                group_1 = _e204 + LANES;
            }
            loop_init_4 = false;
            uint _e174 = group_1;
            uint _e177 = args.inputs;
            if (_e174 < naga_div(_e177 + 7u, 8u)) {
            } else {
                break;
            }
            {
                float _e183 = sum;
                uint _e186 = args.quant;
                uint _e189 = args.row_bytes;
                uint _e194 = args.inputs;
                uint _e195 = group_1;
                Eight _e196 = eight0_(_e186, matrix_ + (row_3 * _e189), _e194, _e195, weights0_, _buffer_sizes);
                uint _e199 = args.inputs;
                uint _e200 = group_1;
                Eight _e201 = inputs(from_at, _e199, _e200, arena, _buffer_sizes);
                float _e202 = dot_of(_e196, _e201);
                sum = _e183 + _e202;
            }
        }
    }
    float _e207 = sum;
    float _e208 = lane_sum(_e207, thread_);
    sum = _e208;
    if (lane == 0u) {
        uint _e215 = args.outputs;
        local = row_3 < _e215;
    } else {
        local = false;
    }
    bool _e218 = local;
    if (_e218) {
        uint _e222 = args.copied;
        float _e226 = sum;
        arena[metal::min(unsigned((to + _e222) + row_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e226;
        return;
    } else {
        return;
    }
}
