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
struct type_10 {
    float inner[1];
};
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
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
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
    uint i = 8u * group_1;
    uint start = at_2 + i;
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
    float _e52 = input(start, i < columns, arena, _buffer_sizes);
    float _e58 = input(start + 1u, (i + 1u) < columns, arena, _buffer_sizes);
    float _e64 = input(start + 2u, (i + 2u) < columns, arena, _buffer_sizes);
    float _e70 = input(start + 3u, (i + 3u) < columns, arena, _buffer_sizes);
    float _e77 = input(start + 4u, (i + 4u) < columns, arena, _buffer_sizes);
    float _e83 = input(start + 5u, (i + 5u) < columns, arena, _buffer_sizes);
    float _e89 = input(start + 6u, (i + 6u) < columns, arena, _buffer_sizes);
    float _e95 = input(start + 7u, (i + 7u) < columns, arena, _buffer_sizes);
    return Eight {metal::float4(_e52, _e58, _e64, _e70), metal::float4(_e77, _e83, _e89, _e95)};
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

metal::float2 f16_pair0_(
    uint at_4,
    uint rest,
    uint first,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (first >= rest) {
        return metal::float2(0.0);
    }
    uint _e9 = word0_(at_4 + (2u * first), weights0_, _buffer_sizes);
    float _e12 = half_(_e9 & 65535u);
    float _e15 = half_(_e9 >> 16u);
    return metal::float2(_e12, ((first + 1u) < rest) ? _e15 : 0.0);
}

Eight f16_eight0_(
    uint row,
    uint columns_1,
    uint group_2,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_5 = row + (16u * group_2);
    uint rest_1 = columns_1 - (8u * group_2);
    metal::float2 _e10 = f16_pair0_(at_5, rest_1, 0u, weights0_, _buffer_sizes);
    metal::float2 _e12 = f16_pair0_(at_5, rest_1, 2u, weights0_, _buffer_sizes);
    metal::float2 _e15 = f16_pair0_(at_5, rest_1, 4u, weights0_, _buffer_sizes);
    metal::float2 _e17 = f16_pair0_(at_5, rest_1, 6u, weights0_, _buffer_sizes);
    return Eight {metal::float4(_e10, _e12), metal::float4(_e15, _e17)};
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
        case 1u: {
            Eight _e4 = f16_eight0_(row_1, columns_2, group_3, weights0_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

type_10 sums0_(
    Part part_1,
    uint row_2,
    uint lane,
    uint first_1,
    device type_2 const& arena,
    device type_3 const& weights0_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_10 sums_1 = {};
    uint t_1 = 0u;
    uint group_4 = {};
    uint t_2 = {};
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            uint _e14 = t_1;
            t_1 = _e14 + 1u;
        }
        loop_init_1 = false;
        uint _e7 = t_1;
        if (_e7 < TOKENS) {
        } else {
            break;
        }
        {
            uint _e10 = t_1;
            sums_1.inner[metal::min(unsigned(_e10), 0u)] = 0.0;
        }
    }
    if (row_2 < part_1.rows) {
        uint at_6 = part_1.at + (row_2 * part_1.row_bytes);
        uint _e24 = args.columns;
        uint groups = naga_div(_e24 + 7u, 8u);
        uint _e32 = args.tokens;
        uint tokens = metal::min(TOKENS, _e32 - first_1);
        group_4 = lane;
        uint2 loop_bound_2 = uint2(4294967295u);
        bool loop_init_2 = true;
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            if (!loop_init_2) {
                uint _e71 = group_4;
                group_4 = _e71 + LANES;
            }
            loop_init_2 = false;
            uint _e36 = group_4;
            if (_e36 < groups) {
            } else {
                break;
            }
            {
                uint _e41 = args.columns;
                uint _e42 = group_4;
                Eight _e43 = eight0_(part_1.quant, at_6, _e41, _e42, weights0_, _buffer_sizes);
                t_2 = 0u;
                uint2 loop_bound_3 = uint2(4294967295u);
                bool loop_init_3 = true;
                while(true) {
                    if (metal::all(loop_bound_3 == uint2(0u))) { break; }
                    loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
                    if (!loop_init_3) {
                        uint _e69 = t_2;
                        t_2 = _e69 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e46 = t_2;
                    if (_e46 < tokens) {
                    } else {
                        break;
                    }
                    {
                        uint _e48 = t_2;
                        float _e50 = sums_1.inner[metal::min(unsigned(_e48), 0u)];
                        uint _e53 = args.from_at;
                        uint _e54 = t_2;
                        uint _e58 = args.columns;
                        uint _e63 = args.columns;
                        uint _e64 = group_4;
                        Eight _e65 = inputs(_e53 + ((first_1 + _e54) * _e58), _e63, _e64, arena, _buffer_sizes);
                        float _e66 = dot_of(_e43, _e65);
                        sums_1.inner[metal::min(unsigned(_e48), 0u)] = _e50 + _e66;
                    }
                }
            }
        }
    }
    type_10 _e74 = sums_1;
    return _e74;
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
    uint block = {};
    uint which = 0u;
    Part part = {};
    type_10 sums = {};
    uint t = 0u;
    bool local = {};
    bool local_1 = {};
    float y = {};
    uint first_2 = TOKENS * group.y;
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
    uint row_3 = (ROWS * _e34) + naga_div(thread_, LANES);
    Part _e41 = args.part0_;
    part = _e41;
    uint _e44 = which;
    if (_e44 == 0u) {
        Part _e47 = part;
        type_10 _e48 = sums0_(_e47, row_3, lane_1, first_2, arena, weights0_, args, _buffer_sizes);
        sums = _e48;
    }
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            uint _e115 = t;
            t = _e115 + 1u;
        }
        loop_init_4 = false;
        uint _e51 = t;
        if (_e51 < TOKENS) {
        } else {
            break;
        }
        {
            uint _e54 = t;
            float _e56 = sums.inner[metal::min(unsigned(_e54), 0u)];
            float _e57 = lane_sum(_e56, thread_);
            if (lane_1 == 0u) {
                uint _e63 = part.rows;
                local = row_3 < _e63;
            } else {
                local = false;
            }
            bool _e66 = local;
            if (_e66) {
                uint _e69 = t;
                uint _e73 = args.tokens;
                local_1 = (first_2 + _e69) < _e73;
            } else {
                local_1 = false;
            }
            bool _e76 = local_1;
            if (_e76) {
                y = _e57;
                uint _e79 = part.bias;
                if (_e79 != NOTHING) {
                    float _e82 = y;
                    uint _e84 = part.bias;
                    float _e86 = vector(_e84 + row_3, vectors, _buffer_sizes);
                    y = _e82 + _e86;
                }
                uint _e89 = part.to;
                uint _e90 = t;
                uint _e93 = part.stride;
                uint at_7 = (_e89 + ((first_2 + _e90) * _e93)) + row_3;
                uint _e99 = args.adds;
                if (_e99 != 0u) {
                    float _e104 = arena[metal::min(unsigned(at_7), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e107 = args.added;
                    float _e108 = y;
                    y = _e104 + (_e107 * _e108);
                }
                float _e113 = y;
                arena[metal::min(unsigned(at_7), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e113;
            }
        }
    }
    return;
}
