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
struct type_10 {
    metal::float4 inner[512];
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

void put_one(
    uint token,
    uint row,
    float sum,
    device type_2& arena,
    device type_3 const& vectors,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_2 = {};
    float y = {};
    uint _e5 = args.tokens;
    if (!((token >= _e5))) {
        uint _e12 = args.rows;
        local_2 = row >= _e12;
    } else {
        local_2 = true;
    }
    bool _e15 = local_2;
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
    device type_3 const& weights0_,
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
    device type_3 const& weights0_,
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

void put_four(
    uint token_1,
    uint row_3,
    metal::float4 sums,
    device type_2& arena,
    device type_3 const& vectors,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    put_one(token_1, row_3, sums.x, arena, vectors, args, _buffer_sizes);
    put_one(token_1, row_3 + 1u, sums.y, arena, vectors, args, _buffer_sizes);
    put_one(token_1, row_3 + 2u, sums.z, arena, vectors, args, _buffer_sizes);
    put_one(token_1, row_3 + 3u, sums.w, arena, vectors, args, _buffer_sizes);
    return;
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
, threadgroup type_10& weights_tile
, threadgroup type_10& inputs_tile
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    metal::float4 sums0_ = metal::float4(0.0);
    metal::float4 sums1_ = metal::float4(0.0);
    metal::float4 sums2_ = metal::float4(0.0);
    metal::float4 sums3_ = metal::float4(0.0);
    uint step = 0u;
    Eight weights = {};
    bool local = {};
    Eight x = {};
    bool local_1 = {};
    uint column = {};
    uint _e4 = args.columns;
    uint groups = naga_div(_e4 + 7u, 8u);
    uint own = naga_div(thread_, 4u);
    uint row_4 = (64u * group.x) + own;
    uint token_2 = (64u * group.y) + own;
    uint first_1 = 8u * naga_mod(thread_, 4u);
    uint four_rows = naga_mod(thread_, 16u);
    uint four_tokens = naga_div(thread_, 16u);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e273 = step;
            step = _e273 + 4u;
        }
        loop_init = false;
        uint _e41 = step;
        if (_e41 < groups) {
        } else {
            break;
        }
        {
            uint _e43 = step;
            uint eight = _e43 + naga_mod(thread_, 4u);
            weights = Eight {metal::float4(0.0), metal::float4(0.0)};
            uint _e55 = args.rows;
            if (row_4 < _e55) {
                local = eight < groups;
            } else {
                local = false;
            }
            bool _e61 = local;
            if (_e61) {
                uint _e64 = args.quant;
                uint _e67 = args.at;
                uint _e70 = args.row_bytes;
                uint _e75 = args.columns;
                Eight _e76 = eight0_(_e64, _e67 + (row_4 * _e70), _e75, eight, weights0_, _buffer_sizes);
                weights = _e76;
            }
            x = Eight {metal::float4(0.0), metal::float4(0.0)};
            uint _e85 = args.tokens;
            if (token_2 < _e85) {
                local_1 = eight < groups;
            } else {
                local_1 = false;
            }
            bool _e91 = local_1;
            if (_e91) {
                uint _e94 = args.from_at;
                uint _e97 = args.columns;
                uint _e102 = args.columns;
                Eight _e103 = inputs(_e94 + (token_2 * _e97), _e102, eight, arena, _buffer_sizes);
                x = _e103;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint place = (16u * first_1) + naga_div(own, 4u);
            uint part = naga_mod(own, 4u);
            float _e116 = weights.low.x;
            weights_tile.inner[metal::min(unsigned(place), 511u)][metal::min(unsigned(part), 3u)] = _e116;
            float _e122 = x.low.x;
            inputs_tile.inner[metal::min(unsigned(place), 511u)][metal::min(unsigned(part), 3u)] = _e122;
            float _e130 = weights.low.y;
            weights_tile.inner[metal::min(unsigned(place + 16u), 511u)][metal::min(unsigned(part), 3u)] = _e130;
            float _e138 = x.low.y;
            inputs_tile.inner[metal::min(unsigned(place + 16u), 511u)][metal::min(unsigned(part), 3u)] = _e138;
            float _e146 = weights.low.z;
            weights_tile.inner[metal::min(unsigned(place + 32u), 511u)][metal::min(unsigned(part), 3u)] = _e146;
            float _e154 = x.low.z;
            inputs_tile.inner[metal::min(unsigned(place + 32u), 511u)][metal::min(unsigned(part), 3u)] = _e154;
            float _e162 = weights.low.w;
            weights_tile.inner[metal::min(unsigned(place + 48u), 511u)][metal::min(unsigned(part), 3u)] = _e162;
            float _e170 = x.low.w;
            inputs_tile.inner[metal::min(unsigned(place + 48u), 511u)][metal::min(unsigned(part), 3u)] = _e170;
            float _e178 = weights.high.x;
            weights_tile.inner[metal::min(unsigned(place + 64u), 511u)][metal::min(unsigned(part), 3u)] = _e178;
            float _e186 = x.high.x;
            inputs_tile.inner[metal::min(unsigned(place + 64u), 511u)][metal::min(unsigned(part), 3u)] = _e186;
            float _e194 = weights.high.y;
            weights_tile.inner[metal::min(unsigned(place + 80u), 511u)][metal::min(unsigned(part), 3u)] = _e194;
            float _e202 = x.high.y;
            inputs_tile.inner[metal::min(unsigned(place + 80u), 511u)][metal::min(unsigned(part), 3u)] = _e202;
            float _e210 = weights.high.z;
            weights_tile.inner[metal::min(unsigned(place + 96u), 511u)][metal::min(unsigned(part), 3u)] = _e210;
            float _e218 = x.high.z;
            inputs_tile.inner[metal::min(unsigned(place + 96u), 511u)][metal::min(unsigned(part), 3u)] = _e218;
            float _e226 = weights.high.w;
            weights_tile.inner[metal::min(unsigned(place + 112u), 511u)][metal::min(unsigned(part), 3u)] = _e226;
            float _e234 = x.high.w;
            inputs_tile.inner[metal::min(unsigned(place + 112u), 511u)][metal::min(unsigned(part), 3u)] = _e234;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            column = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e271 = column;
                    column = _e271 + 1u;
                }
                loop_init_1 = false;
                uint _e237 = column;
                if (_e237 < 32u) {
                } else {
                    break;
                }
                {
                    uint _e242 = column;
                    metal::float4 w = weights_tile.inner[metal::min(unsigned((16u * _e242) + four_rows), 511u)];
                    uint _e249 = column;
                    metal::float4 v = inputs_tile.inner[metal::min(unsigned((16u * _e249) + four_tokens), 511u)];
                    metal::float4 _e254 = sums0_;
                    sums0_ = _e254 + (v.x * w);
                    metal::float4 _e258 = sums1_;
                    sums1_ = _e258 + (v.y * w);
                    metal::float4 _e262 = sums2_;
                    sums2_ = _e262 + (v.z * w);
                    metal::float4 _e266 = sums3_;
                    sums3_ = _e266 + (v.w * w);
                }
            }
        }
    }
    uint to_row = (64u * group.x) + (4u * four_rows);
    uint to_token = (64u * group.y) + (4u * four_tokens);
    metal::float4 _e288 = sums0_;
    put_four(to_token, to_row, _e288, arena, vectors, args, _buffer_sizes);
    metal::float4 _e291 = sums1_;
    put_four(to_token + 1u, to_row, _e291, arena, vectors, args, _buffer_sizes);
    metal::float4 _e294 = sums2_;
    put_four(to_token + 2u, to_row, _e294, arena, vectors, args, _buffer_sizes);
    metal::float4 _e297 = sums3_;
    put_four(to_token + 3u, to_row, _e297, arena, vectors, args, _buffer_sizes);
    return;
}
