// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
    uint size3;
    uint size4;
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
    float inner[16];
};
struct type_11 {
    Eight inner[2];
};
constant uint EACH = 2u;
constant uint EACH_GATED = 1u;
constant uint PRODUCT_THREADS = 64u;
constant uint PRODUCT_ROWS = 4u;
constant uint GATED_ROWS = 2u;
constant uint THREADS = 256u;
constant uint LANES = 32u;
constant uint ROWS = 8u;
constant uint PARTS_REDUCED = 8u;
constant uint TOKENS = 8u;
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
constant uint SUMS = 16u;

float vector(
    uint at,
    device type_3 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vectors[metal::min(unsigned(at), (_buffer_sizes.size4 - 0 - 4) / 4)];
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
    uint i_4 = 8u * group_1;
    uint start = at_2 + i_4;
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
    float _e52 = input(start, i_4 < columns, arena, _buffer_sizes);
    float _e58 = input(start + 1u, (i_4 + 1u) < columns, arena, _buffer_sizes);
    float _e64 = input(start + 2u, (i_4 + 2u) < columns, arena, _buffer_sizes);
    float _e70 = input(start + 3u, (i_4 + 3u) < columns, arena, _buffer_sizes);
    float _e77 = input(start + 4u, (i_4 + 4u) < columns, arena, _buffer_sizes);
    float _e83 = input(start + 5u, (i_4 + 5u) < columns, arena, _buffer_sizes);
    float _e89 = input(start + 6u, (i_4 + 6u) < columns, arena, _buffer_sizes);
    float _e95 = input(start + 7u, (i_4 + 7u) < columns, arena, _buffer_sizes);
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
    metal::uint2 first_3 = metal::uint2(low_2 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_2 & 15u) | ((low_2 >> 2u) & 48u), ((high_2 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first_3 : later);
}

Eight q4_k_eight0_(
    uint row,
    uint columns_1,
    uint group_2,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_1 = naga_div(row + (144u * naga_div(group_2, 32u)), 4u);
    uint g = naga_mod(group_2, 32u);
    uint sub_1 = naga_div(g, 4u);
    uint halves = weights0_[metal::min(unsigned(block_1), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e21 = weights0_[metal::min(unsigned(block_1 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e26 = weights0_[metal::min(unsigned(block_1 + 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e31 = weights0_[metal::min(unsigned(block_1 + 3u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint3 header_1 = metal::uint3(_e21, _e26, _e31);
    metal::float2 _e33 = affine(header_1, sub_1);
    uint at_6 = ((block_1 + 4u) + (8u * naga_div(sub_1, 2u))) + (2u * naga_mod(g, 4u));
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

type_10 sums0_(
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
    type_10 sums_1 = {};
    uint i_1 = 0u;
    uint group_4 = {};
    type_11 weights = {};
    uint r = {};
    uint t = {};
    uint r_1 = {};
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e15 = i_1;
            i_1 = _e15 + 1u;
        }
        loop_init_1 = false;
        uint _e8 = i_1;
        if (_e8 < SUMS) {
        } else {
            break;
        }
        {
            uint _e11 = i_1;
            sums_1.inner[metal::min(unsigned(_e11), 15u)] = 0.0;
        }
    }
    if (row_2 < part_1.rows) {
        uint at_7 = part_1.at + (row_2 * part_1.row_bytes);
        uint last = (part_1.rows - row_2) - 1u;
        uint _e29 = args.columns;
        uint groups = naga_div(_e29 + 7u, 8u);
        uint _e37 = args.tokens;
        uint tokens = metal::min(TOKENS, _e37 - first);
        group_4 = lane;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e111 = group_4;
                group_4 = _e111 + LANES;
            }
            loop_init_2 = false;
            uint _e41 = group_4;
            if (_e41 < groups) {
            } else {
                break;
            }
            {
                weights = type_11 {};
                r = 0u;
                bool loop_init_3 = true;
                while(true) {
                    if (!loop_init_3) {
                        uint _e64 = r;
                        r = _e64 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e47 = r;
                    if (_e47 < EACH) {
                    } else {
                        break;
                    }
                    {
                        uint _e50 = r;
                        uint _e53 = r;
                        uint _e60 = args.columns;
                        uint _e61 = group_4;
                        Eight _e62 = eight0_(part_1.quant, at_7 + (metal::min(_e53, last) * part_1.row_bytes), _e60, _e61, weights0_, _buffer_sizes);
                        weights.inner[metal::min(unsigned(_e50), 1u)] = _e62;
                    }
                }
                t = 0u;
                bool loop_init_4 = true;
                while(true) {
                    if (!loop_init_4) {
                        uint _e109 = t;
                        t = _e109 + 1u;
                    }
                    loop_init_4 = false;
                    uint _e68 = t;
                    if (_e68 < TOKENS) {
                    } else {
                        break;
                    }
                    {
                        uint _e71 = t;
                        if (_e71 < tokens) {
                            uint _e75 = args.from_at;
                            uint _e76 = t;
                            uint _e80 = args.columns;
                            uint _e85 = args.columns;
                            uint _e86 = group_4;
                            Eight _e87 = inputs(_e75 + ((first + _e76) * _e80), _e85, _e86, arena, _buffer_sizes);
                            r_1 = 0u;
                            bool loop_init_5 = true;
                            while(true) {
                                if (!loop_init_5) {
                                    uint _e106 = r_1;
                                    r_1 = _e106 + 1u;
                                }
                                loop_init_5 = false;
                                uint _e90 = r_1;
                                if (_e90 < EACH) {
                                } else {
                                    break;
                                }
                                {
                                    uint _e93 = r_1;
                                    uint _e96 = t;
                                    float _e99 = sums_1.inner[metal::min(unsigned((_e93 * TOKENS) + _e96), 15u)];
                                    uint _e100 = r_1;
                                    Eight _e102 = weights.inner[metal::min(unsigned(_e100), 1u)];
                                    float _e103 = dot_of(_e102, _e87);
                                    sums_1.inner[metal::min(unsigned((_e93 * TOKENS) + _e96), 15u)] = _e99 + _e103;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    type_10 _e114 = sums_1;
    return _e114;
}

Eight q4_k_eight1_(
    uint row_3,
    uint columns_3,
    uint group_5,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_2 = naga_div(row_3 + (144u * naga_div(group_5, 32u)), 4u);
    uint g_1 = naga_mod(group_5, 32u);
    uint sub_2 = naga_div(g_1, 4u);
    uint halves_1 = weights1_[metal::min(unsigned(block_2), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e21 = weights1_[metal::min(unsigned(block_2 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e26 = weights1_[metal::min(unsigned(block_2 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e31 = weights1_[metal::min(unsigned(block_2 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    metal::uint3 header_2 = metal::uint3(_e21, _e26, _e31);
    metal::float2 _e33 = affine(header_2, sub_2);
    uint at_8 = ((block_2 + 4u) + (8u * naga_div(sub_2, 2u))) + (2u * naga_mod(g_1, 4u));
    uint shift_2 = 4u * naga_mod(sub_2, 2u);
    uint _e52 = weights1_[metal::min(unsigned(at_8), (_buffer_sizes.size2 - 0 - 4) / 4)];
    metal::uint4 low_4 = uint4(as_type<packed_uchar4>((_e52 >> shift_2) & 252645135u));
    uint _e61 = weights1_[metal::min(unsigned(at_8 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    metal::uint4 high_4 = uint4(as_type<packed_uchar4>((_e61 >> shift_2) & 252645135u));
    float _e68 = half_(halves_1 & 65535u);
    float _e73 = half_(halves_1 >> 16u);
    Eight _e76 = scaled_less(_e68 * _e33.x, low_4, high_4, _e73 * _e33.y);
    return _e76;
}

Eight eight1_(
    uint quant_1,
    uint row_4,
    uint columns_4,
    uint group_6,
    device type_3 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant_1) {
        case 10u: {
            Eight _e4 = q4_k_eight1_(row_4, columns_4, group_6, weights1_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

type_10 sums1_(
    Part part_2,
    uint row_5,
    uint lane_1,
    uint first_1,
    uint thread_3,
    device type_2 const& arena,
    device type_3 const& weights1_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_10 sums_2 = {};
    uint i_2 = 0u;
    uint group_7 = {};
    type_11 weights_1 = {};
    uint r_2 = {};
    uint t_1 = {};
    uint r_3 = {};
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e15 = i_2;
            i_2 = _e15 + 1u;
        }
        loop_init_6 = false;
        uint _e8 = i_2;
        if (_e8 < SUMS) {
        } else {
            break;
        }
        {
            uint _e11 = i_2;
            sums_2.inner[metal::min(unsigned(_e11), 15u)] = 0.0;
        }
    }
    if (row_5 < part_2.rows) {
        uint at_9 = part_2.at + (row_5 * part_2.row_bytes);
        uint last_1 = (part_2.rows - row_5) - 1u;
        uint _e29 = args.columns;
        uint groups_1 = naga_div(_e29 + 7u, 8u);
        uint _e37 = args.tokens;
        uint tokens_1 = metal::min(TOKENS, _e37 - first_1);
        group_7 = lane_1;
        bool loop_init_7 = true;
        while(true) {
            if (!loop_init_7) {
                uint _e111 = group_7;
                group_7 = _e111 + LANES;
            }
            loop_init_7 = false;
            uint _e41 = group_7;
            if (_e41 < groups_1) {
            } else {
                break;
            }
            {
                weights_1 = type_11 {};
                r_2 = 0u;
                bool loop_init_8 = true;
                while(true) {
                    if (!loop_init_8) {
                        uint _e64 = r_2;
                        r_2 = _e64 + 1u;
                    }
                    loop_init_8 = false;
                    uint _e47 = r_2;
                    if (_e47 < EACH) {
                    } else {
                        break;
                    }
                    {
                        uint _e50 = r_2;
                        uint _e53 = r_2;
                        uint _e60 = args.columns;
                        uint _e61 = group_7;
                        Eight _e62 = eight1_(part_2.quant, at_9 + (metal::min(_e53, last_1) * part_2.row_bytes), _e60, _e61, weights1_, _buffer_sizes);
                        weights_1.inner[metal::min(unsigned(_e50), 1u)] = _e62;
                    }
                }
                t_1 = 0u;
                bool loop_init_9 = true;
                while(true) {
                    if (!loop_init_9) {
                        uint _e109 = t_1;
                        t_1 = _e109 + 1u;
                    }
                    loop_init_9 = false;
                    uint _e68 = t_1;
                    if (_e68 < TOKENS) {
                    } else {
                        break;
                    }
                    {
                        uint _e71 = t_1;
                        if (_e71 < tokens_1) {
                            uint _e75 = args.from_at;
                            uint _e76 = t_1;
                            uint _e80 = args.columns;
                            uint _e85 = args.columns;
                            uint _e86 = group_7;
                            Eight _e87 = inputs(_e75 + ((first_1 + _e76) * _e80), _e85, _e86, arena, _buffer_sizes);
                            r_3 = 0u;
                            bool loop_init_10 = true;
                            while(true) {
                                if (!loop_init_10) {
                                    uint _e106 = r_3;
                                    r_3 = _e106 + 1u;
                                }
                                loop_init_10 = false;
                                uint _e90 = r_3;
                                if (_e90 < EACH) {
                                } else {
                                    break;
                                }
                                {
                                    uint _e93 = r_3;
                                    uint _e96 = t_1;
                                    float _e99 = sums_2.inner[metal::min(unsigned((_e93 * TOKENS) + _e96), 15u)];
                                    uint _e100 = r_3;
                                    Eight _e102 = weights_1.inner[metal::min(unsigned(_e100), 1u)];
                                    float _e103 = dot_of(_e102, _e87);
                                    sums_2.inner[metal::min(unsigned((_e93 * TOKENS) + _e96), 15u)] = _e99 + _e103;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    type_10 _e114 = sums_2;
    return _e114;
}

uint word2_(
    uint at_3,
    device type_3 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint index = at_3 >> 2u;
    uint shift_3 = 8u * (at_3 & 3u);
    if (shift_3 == 0u) {
        uint _e11 = weights2_[metal::min(unsigned(index), (_buffer_sizes.size3 - 0 - 4) / 4)];
        return _e11;
    }
    uint _e14 = weights2_[metal::min(unsigned(index), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e20 = weights2_[metal::min(unsigned(index + 1u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return (_e14 >> shift_3) | (_e20 << (32u - shift_3));
}

uint byte2_(
    uint at_4,
    device type_3 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = weights2_[metal::min(unsigned(at_4 >> 2u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return (_e5 >> (8u * (at_4 & 3u))) & 255u;
}

float half_at2_(
    uint at_5,
    device type_3 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = weights2_[metal::min(unsigned(at_5 >> 2u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    float _e13 = half_((_e5 >> (8u * (at_5 & 2u))) & 65535u);
    return _e13;
}

Eight q6_k_eight2_(
    uint row_6,
    uint columns_5,
    uint group_8,
    device type_3 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_3 = row_6 + (210u * naga_div(group_8, 32u));
    uint g_2 = naga_mod(group_8, 32u);
    uint run = naga_mod(naga_div(g_2, 4u), 4u);
    uint at_10 = ((block_3 + (64u * naga_div(g_2, 16u))) + (32u * naga_mod(run, 2u))) + (8u * naga_mod(g_2, 4u));
    uint above = ((block_3 + 128u) + (32u * naga_div(g_2, 16u))) + (8u * naga_mod(g_2, 4u));
    uint shift_4 = 4u * naga_div(run, 2u);
    uint _e45 = word2_(at_10, weights2_, _buffer_sizes);
    uint _e49 = word2_(above, weights2_, _buffer_sizes);
    uint low_5 = ((_e45 >> shift_4) & 252645135u) | (((_e49 >> (2u * run)) & 50529027u) << 4u);
    uint _e60 = word2_(at_10 + 4u, weights2_, _buffer_sizes);
    uint _e66 = word2_(above + 4u, weights2_, _buffer_sizes);
    uint high_5 = ((_e60 >> shift_4) & 252645135u) | (((_e66 >> (2u * run)) & 50529027u) << 4u);
    uint _e80 = byte2_((block_3 + 192u) + naga_div(g_2, 2u), weights2_, _buffer_sizes);
    float sub_scale = static_cast<float>(metal::extract_bits(as_type<int>(_e80), metal::min(0u, 32u), metal::min(8u, 32u - metal::min(0u, 32u))));
    float _e88 = half_at2_(block_3 + 208u, weights2_, _buffer_sizes);
    Eight _e93 = scaled(_e88 * sub_scale, uint4(as_type<packed_uchar4>(low_5)), uint4(as_type<packed_uchar4>(high_5)), 32.0);
    return _e93;
}

Eight eight2_(
    uint quant_2,
    uint row_7,
    uint columns_6,
    uint group_9,
    device type_3 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant_2) {
        case 12u: {
            Eight _e4 = q6_k_eight2_(row_7, columns_6, group_9, weights2_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

type_10 sums2_(
    Part part_3,
    uint row_8,
    uint lane_2,
    uint first_2,
    uint thread_4,
    device type_2 const& arena,
    device type_3 const& weights2_,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_10 sums_3 = {};
    uint i_3 = 0u;
    uint group_10 = {};
    type_11 weights_2 = {};
    uint r_4 = {};
    uint t_2 = {};
    uint r_5 = {};
    bool loop_init_11 = true;
    while(true) {
        if (!loop_init_11) {
            uint _e15 = i_3;
            i_3 = _e15 + 1u;
        }
        loop_init_11 = false;
        uint _e8 = i_3;
        if (_e8 < SUMS) {
        } else {
            break;
        }
        {
            uint _e11 = i_3;
            sums_3.inner[metal::min(unsigned(_e11), 15u)] = 0.0;
        }
    }
    if (row_8 < part_3.rows) {
        uint at_11 = part_3.at + (row_8 * part_3.row_bytes);
        uint last_2 = (part_3.rows - row_8) - 1u;
        uint _e29 = args.columns;
        uint groups_2 = naga_div(_e29 + 7u, 8u);
        uint _e37 = args.tokens;
        uint tokens_2 = metal::min(TOKENS, _e37 - first_2);
        group_10 = lane_2;
        bool loop_init_12 = true;
        while(true) {
            if (!loop_init_12) {
                uint _e111 = group_10;
                group_10 = _e111 + LANES;
            }
            loop_init_12 = false;
            uint _e41 = group_10;
            if (_e41 < groups_2) {
            } else {
                break;
            }
            {
                weights_2 = type_11 {};
                r_4 = 0u;
                bool loop_init_13 = true;
                while(true) {
                    if (!loop_init_13) {
                        uint _e64 = r_4;
                        r_4 = _e64 + 1u;
                    }
                    loop_init_13 = false;
                    uint _e47 = r_4;
                    if (_e47 < EACH) {
                    } else {
                        break;
                    }
                    {
                        uint _e50 = r_4;
                        uint _e53 = r_4;
                        uint _e60 = args.columns;
                        uint _e61 = group_10;
                        Eight _e62 = eight2_(part_3.quant, at_11 + (metal::min(_e53, last_2) * part_3.row_bytes), _e60, _e61, weights2_, _buffer_sizes);
                        weights_2.inner[metal::min(unsigned(_e50), 1u)] = _e62;
                    }
                }
                t_2 = 0u;
                bool loop_init_14 = true;
                while(true) {
                    if (!loop_init_14) {
                        uint _e109 = t_2;
                        t_2 = _e109 + 1u;
                    }
                    loop_init_14 = false;
                    uint _e68 = t_2;
                    if (_e68 < TOKENS) {
                    } else {
                        break;
                    }
                    {
                        uint _e71 = t_2;
                        if (_e71 < tokens_2) {
                            uint _e75 = args.from_at;
                            uint _e76 = t_2;
                            uint _e80 = args.columns;
                            uint _e85 = args.columns;
                            uint _e86 = group_10;
                            Eight _e87 = inputs(_e75 + ((first_2 + _e76) * _e80), _e85, _e86, arena, _buffer_sizes);
                            r_5 = 0u;
                            bool loop_init_15 = true;
                            while(true) {
                                if (!loop_init_15) {
                                    uint _e106 = r_5;
                                    r_5 = _e106 + 1u;
                                }
                                loop_init_15 = false;
                                uint _e90 = r_5;
                                if (_e90 < EACH) {
                                } else {
                                    break;
                                }
                                {
                                    uint _e93 = r_5;
                                    uint _e96 = t_2;
                                    float _e99 = sums_3.inner[metal::min(unsigned((_e93 * TOKENS) + _e96), 15u)];
                                    uint _e100 = r_5;
                                    Eight _e102 = weights_2.inner[metal::min(unsigned(_e100), 1u)];
                                    float _e103 = dot_of(_e102, _e87);
                                    sums_3.inner[metal::min(unsigned((_e93 * TOKENS) + _e96), 15u)] = _e99 + _e103;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    type_10 _e114 = sums_3;
    return _e114;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(64)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3 const& weights1_ [[buffer(2)]]
, device type_3 const& weights2_ [[buffer(3)]]
, device type_3 const& vectors [[buffer(4)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint block = {};
    uint which = 0u;
    Part part = {};
    type_10 sums = {};
    uint i = 0u;
    bool local = {};
    bool local_1 = {};
    float y = {};
    uint first_4 = TOKENS * group.y;
    uint lane_3 = naga_mod(thread_, LANES);
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
    uint row_9 = (PRODUCT_ROWS * _e34) + (EACH * naga_div(thread_, LANES));
    Part _e43 = args.part0_;
    part = _e43;
    uint _e46 = which;
    if (_e46 == 0u) {
        Part _e49 = part;
        type_10 _e50 = sums0_(_e49, row_9, lane_3, first_4, thread_, arena, weights0_, args, _buffer_sizes);
        sums = _e50;
    }
    uint _e51 = which;
    if (_e51 == 1u) {
        Part _e56 = args.part1_;
        part = _e56;
        Part _e57 = part;
        type_10 _e58 = sums1_(_e57, row_9, lane_3, first_4, thread_, arena, weights1_, args, _buffer_sizes);
        sums = _e58;
    }
    uint _e59 = which;
    if (_e59 == 2u) {
        Part _e64 = args.part2_;
        part = _e64;
        Part _e65 = part;
        type_10 _e66 = sums2_(_e65, row_9, lane_3, first_4, thread_, arena, weights2_, args, _buffer_sizes);
        sums = _e66;
    }
    bool loop_init_16 = true;
    while(true) {
        if (!loop_init_16) {
            uint _e139 = i;
            i = _e139 + 1u;
        }
        loop_init_16 = false;
        uint _e69 = i;
        if (_e69 < SUMS) {
        } else {
            break;
        }
        {
            uint _e72 = i;
            float _e74 = sums.inner[metal::min(unsigned(_e72), 15u)];
            float _e75 = lane_sum(_e74, thread_);
            uint _e76 = i;
            uint own = row_9 + naga_div(_e76, TOKENS);
            uint _e80 = i;
            uint token = first_4 + naga_mod(_e80, TOKENS);
            uint _e84 = i;
            if (lane_3 == naga_mod(_e84, LANES)) {
                uint _e91 = part.rows;
                local = own < _e91;
            } else {
                local = false;
            }
            bool _e94 = local;
            if (_e94) {
                uint _e99 = args.tokens;
                local_1 = token < _e99;
            } else {
                local_1 = false;
            }
            bool _e102 = local_1;
            if (_e102) {
                y = _e75;
                uint _e105 = part.bias;
                if (_e105 != NOTHING) {
                    float _e108 = y;
                    uint _e110 = part.bias;
                    float _e112 = vector(_e110 + own, vectors, _buffer_sizes);
                    y = _e108 + _e112;
                }
                uint _e115 = part.to;
                uint _e117 = part.stride;
                uint at_12 = (_e115 + (token * _e117)) + own;
                uint _e123 = args.adds;
                if (_e123 != 0u) {
                    float _e128 = arena[metal::min(unsigned(at_12), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e131 = args.added;
                    float _e132 = y;
                    y = _e128 + (_e131 * _e132);
                }
                float _e137 = y;
                arena[metal::min(unsigned(at_12), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e137;
            }
        }
    }
    return;
}
