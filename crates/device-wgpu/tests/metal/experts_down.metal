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
struct Matrix {
    uint at;
    uint row_bytes;
    uint quant;
    uint bias;
};
struct Args {
    uint table;
    uint chosen;
    uint scores;
    uint wide;
    uint mixture;
    uint hidden;
    uint width;
    uint wanted;
    uint count;
};
struct type_10 {
    float inner[1];
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
    uint _e3 = vectors[metal::min(unsigned(at), (_buffer_sizes.size2 - 0 - 4) / 4)];
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

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lane_sum(
    float x,
    uint thread_1
) {
    float sum = {};
    uint step = 16u;
    sum = x;
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

Eight scaled_less(
    float scale,
    metal::uint4 low,
    metal::uint4 high,
    float minimum
) {
    return Eight {(scale * static_cast<metal::float4>(low)) - metal::float4(minimum), (scale * static_cast<metal::float4>(high)) - metal::float4(minimum)};
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
    uint low_1 = header.x >> shift;
    uint middle = header.y >> shift;
    uint high_1 = header.z >> shift;
    metal::uint2 first = metal::uint2(low_1 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_1 & 15u) | ((low_1 >> 2u) & 48u), ((high_1 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first : later);
}

Matrix matrix_of(
    uint table,
    uint expert,
    uint which,
    device type_3 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_3 = (table + (12u * expert)) + (4u * which);
    uint _e11 = vectors[metal::min(unsigned(at_3), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e16 = vectors[metal::min(unsigned(at_3 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e21 = vectors[metal::min(unsigned(at_3 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e26 = vectors[metal::min(unsigned(at_3 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
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
    uint at_4 = ((block + 4u) + (8u * naga_div(sub_1, 2u))) + (2u * naga_mod(g, 4u));
    uint shift_1 = 4u * naga_mod(sub_1, 2u);
    uint _e52 = weights0_[metal::min(unsigned(at_4), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 low_2 = uint4(as_type<packed_uchar4>((_e52 >> shift_1) & 252645135u));
    uint _e61 = weights0_[metal::min(unsigned(at_4 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 high_2 = uint4(as_type<packed_uchar4>((_e61 >> shift_1) & 252645135u));
    float _e68 = half_(halves & 65535u);
    float _e73 = half_(halves >> 16u);
    Eight _e76 = scaled_less(_e68 * _e33.x, low_2, high_2, _e73 * _e33.y);
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

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}

float share_of(
    uint token,
    float expert_1,
    device type_2 const& arena,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (expert_1 < 0.0) {
        return 0.0;
    }
    uint _e8 = args.scores;
    uint _e11 = args.count;
    float _e17 = arena[metal::min(unsigned((_e8 + (token * _e11)) + naga_f2u32(expert_1)), (_buffer_sizes.size0 - 0 - 4) / 4)];
    return _e17;
}

type_10 mixed(
    uint token_1,
    uint row_2,
    uint lane,
    uint thread_2,
    device type_2 const& arena,
    device type_3 const& weights0_,
    device type_3 const& vectors,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    float sum_1 = 0.0;
    uint k = 0u;
    float part = {};
    uint group_4 = {};
    bool local_1 = {};
    uint _e8 = args.hidden;
    if (row_2 < _e8) {
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e99 = k;
                k = _e99 + 1u;
            }
            loop_init_1 = false;
            uint _e12 = k;
            uint _e15 = args.wanted;
            if (_e12 < _e15) {
            } else {
                break;
            }
            {
                uint _e19 = args.wanted;
                uint _e21 = k;
                uint pair = (token_1 * _e19) + _e21;
                uint _e26 = args.chosen;
                float expert_2 = arena[metal::min(unsigned(_e26 + pair), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e30 = share_of(token_1, expert_2, arena, args, _buffer_sizes);
                if (_e30 == 0.0) {
                    continue;
                }
                uint _e35 = args.table;
                Matrix _e38 = matrix_of(_e35, naga_f2u32(expert_2), 2u, vectors, _buffer_sizes);
                part = 0.0;
                group_4 = lane;
                bool loop_init_2 = true;
                while(true) {
                    if (!loop_init_2) {
                        uint _e77 = group_4;
                        group_4 = _e77 + LANES;
                    }
                    loop_init_2 = false;
                    uint _e42 = group_4;
                    uint _e45 = args.width;
                    if (_e42 < naga_div(_e45 + 7u, 8u)) {
                    } else {
                        break;
                    }
                    {
                        float _e51 = part;
                        uint _e59 = args.width;
                        uint _e60 = group_4;
                        Eight _e61 = eight0_(_e38.quant, _e38.at + (row_2 * _e38.row_bytes), _e59, _e60, weights0_, _buffer_sizes);
                        uint _e64 = args.wide;
                        uint _e67 = args.width;
                        uint _e72 = args.width;
                        uint _e73 = group_4;
                        Eight _e74 = inputs(_e64 + (pair * _e67), _e72, _e73, arena, _buffer_sizes);
                        float _e75 = dot_of(_e61, _e74);
                        part = _e51 + _e75;
                    }
                }
                if (lane == 0u) {
                    local_1 = _e38.bias != NOTHING;
                } else {
                    local_1 = false;
                }
                bool _e88 = local_1;
                if (_e88) {
                    float _e89 = part;
                    float _e92 = vector(_e38.bias + row_2, vectors, _buffer_sizes);
                    part = _e89 + _e92;
                }
                float _e94 = sum_1;
                float _e95 = part;
                sum_1 = _e94 + (_e30 * _e95);
            }
        }
    }
    float _e101 = sum_1;
    return type_10 {{_e101}};
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3 const& vectors [[buffer(4)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    type_10 sums = {};
    uint i = 0u;
    bool local = {};
    uint lane_1 = naga_mod(thread_, LANES);
    uint row_3 = (EXPERT_DOWN_ROWS * group.x) + (EACH_EXPERT_DOWN * naga_div(thread_, LANES));
    type_10 _e13 = mixed(group.y, row_3, lane_1, thread_, arena, weights0_, vectors, args, _buffer_sizes);
    sums = _e13;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e53 = i;
            i = _e53 + 1u;
        }
        loop_init_3 = false;
        uint _e17 = i;
        if (_e17 < EACH_EXPERT_DOWN) {
        } else {
            break;
        }
        {
            uint _e20 = i;
            float _e22 = sums.inner[metal::min(unsigned(_e20), 0u)];
            float _e23 = lane_sum(_e22, thread_);
            uint _e24 = i;
            uint own = row_3 + _e24;
            uint _e26 = i;
            if (lane_1 == naga_mod(_e26, LANES)) {
                uint _e34 = args.hidden;
                local = own < _e34;
            } else {
                local = false;
            }
            bool _e37 = local;
            if (_e37) {
                uint _e41 = args.mixture;
                uint _e45 = args.hidden;
                float _e50 = arena[metal::min(unsigned((_e41 + (group.y * _e45)) + own), (_buffer_sizes.size0 - 0 - 4) / 4)];
                arena[metal::min(unsigned((_e41 + (group.y * _e45)) + own), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e50 + _e23;
            }
        }
    }
    return;
}
