// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
};

typedef float type_3[1];
typedef uint type_4[1];
struct Eight {
    metal::float4 low;
    metal::float4 high;
};
struct Args {
    uint tokens;
    uint columns;
    uint from_at;
    uint adds;
    float added;
    uint at;
    uint row_bytes;
    uint rows;
    uint to;
    uint stride;
    uint bias;
    uint quant;
};
struct type_11 {
    half inner[2560];
};
struct type_12 {
    half inner[1280];
};
struct type_13 {
    float inner[256];
};
struct type_15 {
    metal::atomic_uint inner[32];
};
struct Tiles {
    metal::float4 first;
    type_11 weights;
    type_12 inputs;
    type_13 outputs;
    type_15 largest;
    uint subgroups;
    char _pad6[12];
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
constant uint UNIT = 8u;
constant uint UNIT_THREADS = 128u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);
constant uint TILE_ROWS = 64u;
constant uint TILE_TOKENS = 32u;
constant uint BLOCKS = 4u;
constant uint STRIDE = 40u;
constant float HALF_MAX_ = 65504.0;

float vector(
    uint at,
    device type_4 const& vectors,
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
    device type_3 const& arena,
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
    device type_3 const& arena,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_6 = 8u * group_1;
    uint start = at_2 + i_6;
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
    float _e52 = input(start, i_6 < columns, arena, _buffer_sizes);
    float _e58 = input(start + 1u, (i_6 + 1u) < columns, arena, _buffer_sizes);
    float _e64 = input(start + 2u, (i_6 + 2u) < columns, arena, _buffer_sizes);
    float _e70 = input(start + 3u, (i_6 + 3u) < columns, arena, _buffer_sizes);
    float _e77 = input(start + 4u, (i_6 + 4u) < columns, arena, _buffer_sizes);
    float _e83 = input(start + 5u, (i_6 + 5u) < columns, arena, _buffer_sizes);
    float _e89 = input(start + 6u, (i_6 + 6u) < columns, arena, _buffer_sizes);
    float _e95 = input(start + 7u, (i_6 + 7u) < columns, arena, _buffer_sizes);
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
    metal::uint2 first_2 = metal::uint2(low_1 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_1 & 15u) | ((low_1 >> 2u) & 48u), ((high_1 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first_2 : later);
}

void put_one(
    uint token,
    uint row,
    float sum,
    device type_3& arena,
    device type_4 const& vectors,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local = {};
    float y = {};
    uint _e5 = args.tokens;
    if (!((token >= _e5))) {
        uint _e12 = args.rows;
        local = row >= _e12;
    } else {
        local = true;
    }
    bool _e15 = local;
    if (_e15) {
        return;
    }
    y = sum;
    uint _e19 = args.bias;
    if (_e19 != NOTHING) {
        float _e22 = y;
        uint _e25 = args.bias;
        float _e27 = vector(_e25 + row, vectors, _buffer_sizes);
        y = _e22 + _e27;
    }
    uint _e31 = args.to;
    uint _e34 = args.stride;
    uint at_3 = (_e31 + (token * _e34)) + row;
    uint _e40 = args.adds;
    if (_e40 != 0u) {
        float _e45 = arena[metal::min(unsigned(at_3), (_buffer_sizes.size0 - 0 - 4) / 4)];
        float _e48 = args.added;
        float _e49 = y;
        y = _e45 + (_e48 * _e49);
    }
    float _e54 = y;
    arena[metal::min(unsigned(at_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e54;
    return;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

Eight q4_k_eight0_(
    uint row_1,
    uint columns_1,
    uint group_2,
    device type_4 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block = naga_div(row_1 + (144u * naga_div(group_2, 32u)), 4u);
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
    uint row_2,
    uint columns_2,
    uint group_3,
    device type_4 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant) {
        case 10u: {
            Eight _e4 = q4_k_eight0_(row_2, columns_2, group_3, weights0_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

void measure(
    uint group_y,
    uint groups,
    uint thread_1,
    device type_3 const& arena,
    constant Args& args,
    threadgroup Tiles& tiles,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_1 = {};
    uint i_2 = 0u;
    metal::uint4 most = {};
    uint eight = {};
    i_1 = thread_1;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e12 = i_1;
            i_1 = _e12 + UNIT_THREADS;
        }
        loop_init = false;
        uint _e4 = i_1;
        if (_e4 < TILE_TOKENS) {
        } else {
            break;
        }
        {
            uint _e9 = i_1;
            metal::atomic_store_explicit(&tiles.largest.inner[metal::min(unsigned(_e9), 31u)], 0u, metal::memory_order_relaxed);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e76 = i_2;
            i_2 = _e76 + 1u;
        }
        loop_init_1 = false;
        uint _e17 = i_2;
        if (_e17 < TILE_TOKENS) {
        } else {
            break;
        }
        {
            uint _e22 = i_2;
            uint token_1 = (TILE_TOKENS * group_y) + _e22;
            most = metal::uint4(0u);
            uint _e29 = args.tokens;
            if (token_1 < _e29) {
                eight = thread_1;
                bool loop_init_2 = true;
                while(true) {
                    if (!loop_init_2) {
                        uint _e56 = eight;
                        eight = _e56 + UNIT_THREADS;
                    }
                    loop_init_2 = false;
                    uint _e32 = eight;
                    if (_e32 < groups) {
                    } else {
                        break;
                    }
                    {
                        uint _e36 = args.from_at;
                        uint _e39 = args.columns;
                        uint _e44 = args.columns;
                        uint _e45 = eight;
                        Eight _e46 = inputs(_e36 + (token_1 * _e39), _e44, _e45, arena, _buffer_sizes);
                        metal::uint4 _e47 = most;
                        most = metal::max(_e47, metal::max(as_type<metal::uint4>(metal::abs(_e46.low)), as_type<metal::uint4>(metal::abs(_e46.high))));
                    }
                }
            }
            uint _e61 = i_2;
            uint _e64 = most.x;
            uint _e66 = most.y;
            uint _e69 = most.z;
            uint _e71 = most.w;
            uint _e74 = metal::atomic_fetch_max_explicit(&tiles.largest.inner[metal::min(unsigned(_e61), 31u)], metal::max(metal::max(_e64, _e66), metal::max(_e69, _e71)), metal::memory_order_relaxed);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

uint exponent(
    uint row_3,
    threadgroup Tiles& tiles
) {
    uint _e4 = metal::atomic_load_explicit(&tiles.largest.inner[metal::min(unsigned(row_3), 31u)], metal::memory_order_relaxed);
    return metal::max(_e4 >> 23u, 11u);
}

void bring(
    metal::uint3 group_4,
    uint step_1,
    uint groups_1,
    uint thread_2,
    device type_3 const& arena,
    device type_4 const& weights0_,
    constant Args& args,
    threadgroup Tiles& tiles,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_3 = {};
    Eight weights = {};
    bool local_1 = {};
    uint i_4 = {};
    Eight x = {};
    bool local_2 = {};
    i_3 = thread_2;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e122 = i_3;
            i_3 = _e122 + UNIT_THREADS;
        }
        loop_init_3 = false;
        uint _e5 = i_3;
        if (_e5 < 256u) {
        } else {
            break;
        }
        {
            uint _e11 = i_3;
            uint row_4 = (TILE_ROWS * group_4.x) + naga_div(_e11, 4u);
            uint _e15 = i_3;
            uint eight_1 = step_1 + naga_mod(_e15, 4u);
            weights = Eight {metal::float4(0.0), metal::float4(0.0)};
            uint _e27 = args.rows;
            if (row_4 < _e27) {
                local_1 = eight_1 < groups_1;
            } else {
                local_1 = false;
            }
            bool _e33 = local_1;
            if (_e33) {
                uint _e36 = args.quant;
                uint _e39 = args.at;
                uint _e42 = args.row_bytes;
                uint _e47 = args.columns;
                Eight _e48 = eight0_(_e36, _e39 + (row_4 * _e42), _e47, eight_1, weights0_, _buffer_sizes);
                weights = _e48;
            }
            uint _e50 = i_3;
            uint _e55 = i_3;
            uint at_5 = (STRIDE * naga_div(_e50, 4u)) + (8u * naga_mod(_e55, 4u));
            metal::float4 _e61 = weights.low;
            metal::half4 low_3 = static_cast<metal::half4>(metal::clamp(_e61, metal::float4(-65504.0), metal::float4(65504.0)));
            metal::float4 _e69 = weights.high;
            metal::half4 high_3 = static_cast<metal::half4>(metal::clamp(_e69, metal::float4(-65504.0), metal::float4(65504.0)));
            tiles.weights.inner[metal::min(unsigned(at_5), 2559u)] = low_3.x;
            tiles.weights.inner[metal::min(unsigned(at_5 + 1u), 2559u)] = low_3.y;
            tiles.weights.inner[metal::min(unsigned(at_5 + 2u), 2559u)] = low_3.z;
            tiles.weights.inner[metal::min(unsigned(at_5 + 3u), 2559u)] = low_3.w;
            tiles.weights.inner[metal::min(unsigned(at_5 + 4u), 2559u)] = high_3.x;
            tiles.weights.inner[metal::min(unsigned(at_5 + 5u), 2559u)] = high_3.y;
            tiles.weights.inner[metal::min(unsigned(at_5 + 6u), 2559u)] = high_3.z;
            tiles.weights.inner[metal::min(unsigned(at_5 + 7u), 2559u)] = high_3.w;
        }
    }
    i_4 = thread_2;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e241 = i_4;
            i_4 = _e241 + UNIT_THREADS;
        }
        loop_init_4 = false;
        uint _e126 = i_4;
        if (_e126 < 128u) {
        } else {
            break;
        }
        {
            uint _e132 = i_4;
            uint token_2 = (TILE_TOKENS * group_4.y) + naga_div(_e132, 4u);
            uint _e136 = i_4;
            uint eight_2 = step_1 + naga_mod(_e136, 4u);
            x = Eight {metal::float4(0.0), metal::float4(0.0)};
            uint _e148 = args.tokens;
            if (token_2 < _e148) {
                local_2 = eight_2 < groups_1;
            } else {
                local_2 = false;
            }
            bool _e154 = local_2;
            if (_e154) {
                uint _e157 = args.from_at;
                uint _e160 = args.columns;
                uint _e165 = args.columns;
                Eight _e166 = inputs(_e157 + (token_2 * _e160), _e165, eight_2, arena, _buffer_sizes);
                x = _e166;
            }
            uint _e168 = i_4;
            uint _e171 = exponent(naga_div(_e168, 4u), tiles);
            float factor = as_type<float>((264u - _e171) << 23u);
            uint _e177 = i_4;
            uint _e182 = i_4;
            uint at_6 = (STRIDE * naga_div(_e177, 4u)) + (8u * naga_mod(_e182, 4u));
            metal::float4 _e188 = x.low;
            metal::half4 low_4 = static_cast<metal::half4>(factor * _e188);
            metal::float4 _e192 = x.high;
            metal::half4 high_4 = static_cast<metal::half4>(factor * _e192);
            tiles.inputs.inner[metal::min(unsigned(at_6), 1279u)] = low_4.x;
            tiles.inputs.inner[metal::min(unsigned(at_6 + 1u), 1279u)] = low_4.y;
            tiles.inputs.inner[metal::min(unsigned(at_6 + 2u), 1279u)] = low_4.z;
            tiles.inputs.inner[metal::min(unsigned(at_6 + 3u), 1279u)] = low_4.w;
            tiles.inputs.inner[metal::min(unsigned(at_6 + 4u), 1279u)] = high_4.x;
            tiles.inputs.inner[metal::min(unsigned(at_6 + 5u), 1279u)] = high_4.y;
            tiles.inputs.inner[metal::min(unsigned(at_6 + 6u), 1279u)] = high_4.z;
            tiles.inputs.inner[metal::min(unsigned(at_6 + 7u), 1279u)] = high_4.w;
        }
    }
    return;
}

void put_units(
    metal::uint3 group_5,
    uint first_1,
    uint count,
    uint thread_3,
    uint unit_token,
    uint unit_row,
    device type_3& arena,
    device type_4 const& vectors,
    constant Args& args,
    threadgroup Tiles& tiles,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_5 = {};
    bool local_3 = {};
    i_5 = thread_3;
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e63 = i_5;
            i_5 = _e63 + UNIT_THREADS;
        }
        loop_init_5 = false;
        uint _e7 = i_5;
        if (_e7 < 256u) {
        } else {
            break;
        }
        {
            uint _e10 = i_5;
            uint block_1 = naga_div(_e10, 64u);
            if (block_1 >= first_1) {
                local_3 = block_1 < (first_1 + count);
            } else {
                local_3 = false;
            }
            bool _e19 = local_3;
            if (_e19) {
                uint _e20 = i_5;
                uint place = naga_mod(_e20, 64u);
                uint token_3 = (UNIT * ((2u * naga_div(block_1, 2u)) + unit_token)) + naga_div(place, UNIT);
                uint row_5 = (UNIT * ((4u * naga_mod(block_1, 2u)) + unit_row)) + naga_mod(place, UNIT);
                uint _e43 = exponent(token_3, tiles);
                float factor_1 = as_type<float>((_e43 - 10u) << 23u);
                uint _e59 = i_5;
                float _e61 = tiles.outputs.inner[metal::min(unsigned(_e59), 255u)];
                put_one((TILE_TOKENS * group_5.y) + token_3, (TILE_ROWS * group_5.x) + row_5, factor_1 * _e61, arena, vectors, args, _buffer_sizes);
            }
        }
    }
    return;
}
metal::simdgroup_float8x8 NagaCooperativeLoad(const threadgroup float* ptr, int stride, bool is_row_major) {
    metal::simdgroup_float8x8 m;
    simdgroup_load(m, ptr, stride, 0, is_row_major);
    return m;
}

metal::simdgroup_half8x8 NagaCooperativeLoad(const threadgroup half* ptr, int stride, bool is_row_major) {
    metal::simdgroup_half8x8 m;
    simdgroup_load(m, ptr, stride, 0, is_row_major);
    return m;
}

metal::simdgroup_float8x8 NagaCooperativeMultiplyAdd(const thread metal::simdgroup_half8x8& a, const thread metal::simdgroup_half8x8& b, const thread metal::simdgroup_float8x8& c) {
    metal::simdgroup_float8x8 d;
    simdgroup_multiply_accumulate(d,a,b,c);
    return d;
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroup_count [[simdgroups_per_threadgroup]]
, device type_3& arena [[buffer(0)]]
, device type_4 const& weights0_ [[buffer(1)]]
, device type_4 const& vectors [[buffer(4)]]
, constant Args& args [[buffer(7)]]
, threadgroup Tiles& tiles
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint first = 0u;
    uint i = {};
    metal::simdgroup_float8x8 sums00_ = {};
    metal::simdgroup_float8x8 sums01_ = {};
    metal::simdgroup_float8x8 sums02_ = {};
    metal::simdgroup_float8x8 sums03_ = {};
    metal::simdgroup_float8x8 sums10_ = {};
    metal::simdgroup_float8x8 sums11_ = {};
    metal::simdgroup_float8x8 sums12_ = {};
    metal::simdgroup_float8x8 sums13_ = {};
    uint step = {};
    uint column = {};
    uint _e6 = args.columns;
    uint groups_2 = naga_div(_e6 + 7u, 8u);
    measure(group.y, groups_2, thread_, arena, args, tiles, _buffer_sizes);
    if (thread_ == 0u) {
        tiles.first = metal::float4(0.0);
        tiles.subgroups = subgroup_count;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint unnamed = tiles.subgroups;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint count_1 = metal::max(unnamed, 1u);
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e260 = first;
            first = _e260 + count_1;
        }
        loop_init_6 = false;
        uint _e27 = first;
        if (_e27 < BLOCKS) {
        } else {
            break;
        }
        {
            uint _e30 = first;
            uint block_2 = metal::min(_e30 + subgroup, 3u);
            uint block_rows = (32u * naga_mod(block_2, 2u)) * STRIDE;
            uint block_tokens = (16u * naga_div(block_2, 2u)) * STRIDE;
            i = thread_;
            bool loop_init_7 = true;
            while(true) {
                if (!loop_init_7) {
                    uint _e55 = i;
                    i = _e55 + UNIT_THREADS;
                }
                loop_init_7 = false;
                uint _e47 = i;
                if (_e47 < 64u) {
                } else {
                    break;
                }
                {
                    uint _e52 = i;
                    tiles.outputs.inner[metal::min(unsigned(_e52), 255u)] = 0.0;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            sums00_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            sums01_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            sums02_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            sums03_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            sums10_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            sums11_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            sums12_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            sums13_ = NagaCooperativeLoad(&tiles.outputs.inner[0], UNIT, false);
            step = 0u;
            bool loop_init_8 = true;
            while(true) {
                if (!loop_init_8) {
                    uint _e189 = step;
                    step = _e189 + 4u;
                }
                loop_init_8 = false;
                uint _e108 = step;
                if (_e108 < groups_2) {
                } else {
                    break;
                }
                {
                    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
                    uint _e110 = step;
                    bring(group, _e110, groups_2, thread_, arena, weights0_, args, tiles, _buffer_sizes);
                    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
                    column = 0u;
                    bool loop_init_9 = true;
                    while(true) {
                        if (!loop_init_9) {
                            uint _e186 = column;
                            column = _e186 + UNIT;
                        }
                        loop_init_9 = false;
                        uint _e113 = column;
                        if (_e113 < 32u) {
                        } else {
                            break;
                        }
                        {
                            uint _e120 = column;
                            metal::simdgroup_half8x8 x0_ = NagaCooperativeLoad(&tiles.inputs.inner[metal::min(unsigned((block_tokens + 0u) + _e120), 1279u)], STRIDE, false);
                            uint _e129 = column;
                            metal::simdgroup_half8x8 x1_ = NagaCooperativeLoad(&tiles.inputs.inner[metal::min(unsigned((block_tokens + 320u) + _e129), 1279u)], STRIDE, false);
                            uint _e138 = column;
                            metal::simdgroup_half8x8 w0_ = NagaCooperativeLoad(&tiles.weights.inner[metal::min(unsigned((block_rows + 0u) + _e138), 2559u)], STRIDE, true);
                            uint _e147 = column;
                            metal::simdgroup_half8x8 w1_ = NagaCooperativeLoad(&tiles.weights.inner[metal::min(unsigned((block_rows + 320u) + _e147), 2559u)], STRIDE, true);
                            uint _e156 = column;
                            metal::simdgroup_half8x8 w2_ = NagaCooperativeLoad(&tiles.weights.inner[metal::min(unsigned((block_rows + 640u) + _e156), 2559u)], STRIDE, true);
                            uint _e165 = column;
                            metal::simdgroup_half8x8 w3_ = NagaCooperativeLoad(&tiles.weights.inner[metal::min(unsigned((block_rows + 960u) + _e165), 2559u)], STRIDE, true);
                            metal::simdgroup_float8x8 _e170 = sums00_;
                            sums00_ = NagaCooperativeMultiplyAdd(x0_, w0_, _e170);
                            metal::simdgroup_float8x8 _e172 = sums01_;
                            sums01_ = NagaCooperativeMultiplyAdd(x0_, w1_, _e172);
                            metal::simdgroup_float8x8 _e174 = sums02_;
                            sums02_ = NagaCooperativeMultiplyAdd(x0_, w2_, _e174);
                            metal::simdgroup_float8x8 _e176 = sums03_;
                            sums03_ = NagaCooperativeMultiplyAdd(x0_, w3_, _e176);
                            metal::simdgroup_float8x8 _e178 = sums10_;
                            sums10_ = NagaCooperativeMultiplyAdd(x1_, w0_, _e178);
                            metal::simdgroup_float8x8 _e180 = sums11_;
                            sums11_ = NagaCooperativeMultiplyAdd(x1_, w1_, _e180);
                            metal::simdgroup_float8x8 _e182 = sums12_;
                            sums12_ = NagaCooperativeMultiplyAdd(x1_, w2_, _e182);
                            metal::simdgroup_float8x8 _e184 = sums13_;
                            sums13_ = NagaCooperativeMultiplyAdd(x1_, w3_, _e184);
                        }
                    }
                }
            }
            uint own = (block_2 * UNIT) * UNIT;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e196 = sums00_;
            simdgroup_store(_e196, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e201 = first;
            put_units(group, _e201, count_1, thread_, 0u, 0u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e204 = sums01_;
            simdgroup_store(_e204, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e209 = first;
            put_units(group, _e209, count_1, thread_, 0u, 1u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e212 = sums02_;
            simdgroup_store(_e212, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e217 = first;
            put_units(group, _e217, count_1, thread_, 0u, 2u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e220 = sums03_;
            simdgroup_store(_e220, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e225 = first;
            put_units(group, _e225, count_1, thread_, 0u, 3u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e228 = sums10_;
            simdgroup_store(_e228, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e233 = first;
            put_units(group, _e233, count_1, thread_, 1u, 0u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e236 = sums11_;
            simdgroup_store(_e236, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e241 = first;
            put_units(group, _e241, count_1, thread_, 1u, 1u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e244 = sums12_;
            simdgroup_store(_e244, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e249 = first;
            put_units(group, _e249, count_1, thread_, 1u, 2u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::simdgroup_float8x8 _e252 = sums13_;
            simdgroup_store(_e252, &tiles.outputs.inner[metal::min(unsigned(own), 255u)], UNIT);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e257 = first;
            put_units(group, _e257, count_1, thread_, 1u, 3u, arena, vectors, args, tiles, _buffer_sizes);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    return;
}
