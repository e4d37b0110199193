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
struct Part {
    uint at;
    uint row_bytes;
    uint rows;
    uint to;
    uint stride;
    uint bias;
    uint quant;
};
struct Args {
    uint tokens;
    uint columns;
    uint from_at;
    uint blocks0_;
    uint blocks1_;
    uint adds;
    float added;
    Part part0_;
    Part part1_;
    Part part2_;
};
struct type_9 {
    float inner[4];
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
constant uint SUMS = 4u;

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

float iq4_level(
    uint code
) {
    uint _e9 = 8u * naga_mod(code, 4u);
    return static_cast<float>(metal::extract_bits(as_type<int>(IQ4_LEVELS[metal::min(unsigned(naga_div(code, 4u)), 3u)]), metal::min(_e9, 32u), metal::min(8u, 32u - metal::min(_e9, 32u))));
}

metal::float4 iq4_levels(
    metal::uint4 codes
) {
    float _e2 = iq4_level(codes.x);
    float _e4 = iq4_level(codes.y);
    float _e6 = iq4_level(codes.z);
    float _e8 = iq4_level(codes.w);
    return metal::float4(_e2, _e4, _e6, _e8);
}

uint word0_(
    uint at_3,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint index = at_3 >> 2u;
    uint shift = 8u * (at_3 & 3u);
    if (shift == 0u) {
        uint _e11 = weights0_[metal::min(unsigned(index), (_buffer_sizes.size1 - 0 - 4) / 4)];
        return _e11;
    }
    uint _e14 = weights0_[metal::min(unsigned(index), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e20 = weights0_[metal::min(unsigned(index + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return (_e14 >> shift) | (_e20 << (32u - shift));
}

float half_at0_(
    uint at_4,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = weights0_[metal::min(unsigned(at_4 >> 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    float _e13 = half_((_e5 >> (8u * (at_4 & 2u))) & 65535u);
    return _e13;
}

Eight iq4_nl_eight0_(
    uint row,
    uint columns_1,
    uint group_2,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_1 = row + (18u * naga_div(group_2, 4u));
    uint g = naga_mod(group_2, 4u);
    uint shift_1 = 4u * naga_div(g, 2u);
    uint at_5 = (block_1 + 2u) + (8u * naga_mod(g, 2u));
    uint _e21 = word0_(at_5, weights0_, _buffer_sizes);
    metal::uint4 low = uint4(as_type<packed_uchar4>((_e21 >> shift_1) & 252645135u));
    uint _e28 = word0_(at_5 + 4u, weights0_, _buffer_sizes);
    metal::uint4 high = uint4(as_type<packed_uchar4>((_e28 >> shift_1) & 252645135u));
    float _e33 = half_at0_(block_1, weights0_, _buffer_sizes);
    metal::float4 _e34 = iq4_levels(low);
    metal::float4 _e36 = iq4_levels(high);
    return Eight {_e33 * _e34, _e33 * _e36};
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
        case 20u: {
            Eight _e4 = iq4_nl_eight0_(row_1, columns_2, group_3, weights0_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

type_9 sums0_(
    Part part_1,
    uint row_2,
    uint lane,
    uint first,
    uint thread_2,
    device type_2 const& arena,
    device type_3 const& weights0_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 sums_1 = metal::float4(0.0);
    uint group_4 = {};
    if (row_2 < part_1.rows) {
        uint at_6 = part_1.at + (row_2 * part_1.row_bytes);
        uint last = (part_1.rows - row_2) - 1u;
        uint second = at_6 + (metal::min(1u, last) * part_1.row_bytes);
        uint third = at_6 + (metal::min(2u, last) * part_1.row_bytes);
        uint fourth = at_6 + (metal::min(3u, last) * part_1.row_bytes);
        uint _e35 = args.columns;
        uint groups = naga_div(_e35 + 7u, 8u);
        group_4 = lane;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e87 = group_4;
                group_4 = _e87 + LANES;
            }
            loop_init_1 = false;
            uint _e41 = group_4;
            if (_e41 < groups) {
            } else {
                break;
            }
            {
                uint _e45 = args.from_at;
                uint _e48 = args.columns;
                uint _e53 = args.columns;
                uint _e54 = group_4;
                Eight _e55 = inputs(_e45 + (first * _e48), _e53, _e54, arena, _buffer_sizes);
                metal::float4 _e56 = sums_1;
                uint _e60 = args.columns;
                uint _e61 = group_4;
                Eight _e62 = eight0_(part_1.quant, at_6, _e60, _e61, weights0_, _buffer_sizes);
                float _e63 = dot_of(_e62, _e55);
                uint _e67 = args.columns;
                uint _e68 = group_4;
                Eight _e69 = eight0_(part_1.quant, second, _e67, _e68, weights0_, _buffer_sizes);
                float _e70 = dot_of(_e69, _e55);
                uint _e74 = args.columns;
                uint _e75 = group_4;
                Eight _e76 = eight0_(part_1.quant, third, _e74, _e75, weights0_, _buffer_sizes);
                float _e77 = dot_of(_e76, _e55);
                uint _e81 = args.columns;
                uint _e82 = group_4;
                Eight _e83 = eight0_(part_1.quant, fourth, _e81, _e82, weights0_, _buffer_sizes);
                float _e84 = dot_of(_e83, _e55);
                sums_1 = _e56 + metal::float4(_e63, _e70, _e77, _e84);
            }
        }
    }
    float _e91 = sums_1.x;
    float _e93 = sums_1.y;
    float _e95 = sums_1.z;
    float _e97 = sums_1.w;
    return type_9 {{_e91, _e93, _e95, _e97}};
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3 const& vectors [[buffer(4)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint block = {};
    uint which = 0u;
    Part part = {};
    type_9 sums = {};
    uint i = 0u;
    bool local = {};
    bool local_1 = {};
    float y = {};
    uint first_1 = TOKENS * group.y;
    uint lane_1 = naga_mod(thread_, LANES);
    block = group.x;
    uint _e11 = block;
    uint _e14 = args.blocks0_;
    if (_e11 >= _e14) {
        uint _e16 = block;
        uint _e19 = args.blocks0_;
        block = _e16 - _e19;
        which = 1u;
        uint _e22 = block;
        uint _e25 = args.blocks1_;
        if (_e22 >= _e25) {
            uint _e27 = block;
            uint _e30 = args.blocks1_;
            block = _e27 - _e30;
            which = 2u;
        }
    }
    uint _e34 = block;
    uint row_3 = (PRODUCT_ROWS * _e34) + (EACH * naga_div(thread_, LANES));
    Part _e43 = args.part0_;
    part = _e43;
    uint _e46 = which;
    if (_e46 == 0u) {
        Part _e49 = part;
        type_9 _e50 = sums0_(_e49, row_3, lane_1, first_1, thread_, arena, weights0_, args, _buffer_sizes);
        sums = _e50;
    }
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e123 = i;
            i = _e123 + 1u;
        }
        loop_init_2 = false;
        uint _e53 = i;
        if (_e53 < SUMS) {
        } else {
            break;
        }
        {
            uint _e56 = i;
            float _e58 = sums.inner[metal::min(unsigned(_e56), 3u)];
            float _e59 = lane_sum(_e58, thread_);
            uint _e60 = i;
            uint own = row_3 + naga_div(_e60, TOKENS);
            uint _e64 = i;
            uint token = first_1 + naga_mod(_e64, TOKENS);
            uint _e68 = i;
            if (lane_1 == naga_mod(_e68, LANES)) {
                uint _e75 = part.rows;
                local = own < _e75;
            } else {
                local = false;
            }
            bool _e78 = local;
            if (_e78) {
                uint _e83 = args.tokens;
                local_1 = token < _e83;
            } else {
                local_1 = false;
            }
            bool _e86 = local_1;
            if (_e86) {
                y = _e59;
                uint _e89 = part.bias;
                if (_e89 != NOTHING) {
                    float _e92 = y;
                    uint _e94 = part.bias;
                    float _e96 = vector(_e94 + own, vectors, _buffer_sizes);
                    y = _e92 + _e96;
                }
                uint _e99 = part.to;
                uint _e101 = part.stride;
                uint at_7 = (_e99 + (token * _e101)) + own;
                uint _e107 = args.adds;
                if (_e107 != 0u) {
                    float _e112 = arena[metal::min(unsigned(at_7), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e115 = args.added;
                    float _e116 = y;
                    y = _e112 + (_e115 * _e116);
                }
                float _e121 = y;
                arena[metal::min(unsigned(at_7), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e121;
            }
        }
    }
    return;
}
