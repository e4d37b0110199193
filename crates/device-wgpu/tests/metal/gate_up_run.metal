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
typedef metal::uint4 type_4[1];
typedef uint type_5[1];
struct Run {
    metal::float4 a;
    metal::float4 b;
    metal::float4 c;
    metal::float4 d;
    metal::float4 e;
    metal::float4 f;
    metal::float4 g;
    metal::float4 h;
    float sum;
    char _pad9[12];
};
struct Codes {
    metal::float4 a;
    metal::float4 b;
    metal::float4 c;
    metal::float4 d;
    metal::float4 e;
    metal::float4 f;
    metal::float4 g;
    metal::float4 h;
    metal::float2 scale;
    float less;
    char _pad10[4];
};
struct type_11 {
    metal::float4 inner[512];
};
struct type_12 {
    float inner[64];
};
struct type_14 {
    float inner[2];
};
struct Pair {
    type_14 gates;
    type_14 ups;
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
constant uint PRODUCT_THREADS = 128u;
constant uint PRODUCT_ROWS = 16u;
constant uint GATED_ROWS = 8u;
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
constant uint TILE_RUNS = 64u;
constant uint RUN_TOKENS = 1u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);
constant bool HAS_LESS = true;
constant uint SUMS = 2u;

float vector(
    uint at,
    device type_5 const& vectors,
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

metal::float2 affine(
    metal::uint3 header,
    uint sub
) {
    uint shift = 8u * naga_mod(sub, 4u);
    uint low_3 = header.x >> shift;
    uint middle = header.y >> shift;
    uint high_2 = header.z >> shift;
    metal::uint2 first_1 = metal::uint2(low_3 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_2 & 15u) | ((low_3 >> 2u) & 48u), ((high_2 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first_1 : later);
}

Run staged_run(
    uint token,
    uint run,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums
) {
    uint at_5 = (8u * token) * TILE_RUNS;
    metal::float4 _e9 = staged.inner[metal::min(unsigned(at_5 + run), 511u)];
    metal::float4 _e17 = staged.inner[metal::min(unsigned((at_5 + TILE_RUNS) + (run ^ 1u)), 511u)];
    metal::float4 _e25 = staged.inner[metal::min(unsigned((at_5 + 128u) + (run ^ 2u)), 511u)];
    metal::float4 _e33 = staged.inner[metal::min(unsigned((at_5 + 192u) + (run ^ 3u)), 511u)];
    metal::float4 _e41 = staged.inner[metal::min(unsigned((at_5 + 256u) + (run ^ 4u)), 511u)];
    metal::float4 _e49 = staged.inner[metal::min(unsigned((at_5 + 320u) + (run ^ 5u)), 511u)];
    metal::float4 _e57 = staged.inner[metal::min(unsigned((at_5 + 384u) + (run ^ 6u)), 511u)];
    metal::float4 _e65 = staged.inner[metal::min(unsigned((at_5 + 448u) + (run ^ 7u)), 511u)];
    float _e71 = staged_sums.inner[metal::min(unsigned((token * TILE_RUNS) + run), 63u)];
    return Run {_e9, _e17, _e25, _e33, _e41, _e49, _e57, _e65, _e71};
}

void stage(
    uint at_1,
    uint stride,
    uint tokens,
    uint runs,
    uint thread_2,
    device type_2 const& arena,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint t = 0u;
    uint i_1 = {};
    uint i_2 = {};
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e64 = t;
            t = _e64 + 1u;
        }
        loop_init_1 = false;
        uint _e7 = t;
        if (_e7 < RUN_TOKENS) {
        } else {
            break;
        }
        {
            uint _e10 = t;
            uint row_3 = at_1 + (metal::min(_e10, tokens - 1u) * stride);
            i_1 = thread_2;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e60 = i_1;
                    i_1 = _e60 + PRODUCT_THREADS;
                }
                loop_init_2 = false;
                uint _e17 = i_1;
                if (_e17 < (8u * runs)) {
                } else {
                    break;
                }
                {
                    uint _e22 = i_1;
                    uint start = row_3 + (4u * _e22);
                    uint _e25 = i_1;
                    uint k = naga_mod(_e25, 8u);
                    uint _e30 = t;
                    uint _e35 = i_1;
                    float _e43 = arena[metal::min(unsigned(start), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e48 = arena[metal::min(unsigned(start + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e53 = arena[metal::min(unsigned(start + 2u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e58 = arena[metal::min(unsigned(start + 3u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    staged.inner[metal::min(unsigned((((8u * _e30) + k) * TILE_RUNS) + (naga_div(_e35, 8u) ^ k)), 511u)] = metal::float4(_e43, _e48, _e53, _e58);
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (HAS_LESS) {
        i_2 = thread_2;
        bool loop_init_3 = true;
        while(true) {
            if (!loop_init_3) {
                uint _e103 = i_2;
                i_2 = _e103 + PRODUCT_THREADS;
            }
            loop_init_3 = false;
            uint _e68 = i_2;
            if (_e68 < 64u) {
            } else {
                break;
            }
            {
                uint _e71 = i_2;
                uint _e74 = i_2;
                Run _e77 = staged_run(naga_div(_e71, TILE_RUNS), naga_mod(_e74, TILE_RUNS), staged, staged_sums);
                metal::float4 all = ((_e77.a + _e77.b) + (_e77.c + _e77.d)) + ((_e77.e + _e77.f) + (_e77.g + _e77.h));
                uint _e94 = i_2;
                staged_sums.inner[metal::min(unsigned(_e94), 63u)] = (all.x + all.y) + (all.z + all.w);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        return;
    } else {
        return;
    }
}

float meet(
    Codes w,
    Run x_5
) {
    float first_2 = (metal::dot(w.a, x_5.a) + metal::dot(w.b, x_5.b)) + (metal::dot(w.c, x_5.c) + metal::dot(w.d, x_5.d));
    float second = (metal::dot(w.e, x_5.e) + metal::dot(w.f, x_5.f)) + (metal::dot(w.g, x_5.g) + metal::dot(w.h, x_5.h));
    float all_1 = (w.scale.x * first_2) + (w.scale.y * second);
    if (HAS_LESS) {
        return all_1 - (w.less * x_5.sum);
    }
    return all_1;
}

Codes unsigned_codes(
    metal::uint4 low,
    metal::uint4 high,
    float scale,
    float less
) {
    return Codes {static_cast<metal::float4>(uint4(as_type<packed_uchar4>(low.x))), static_cast<metal::float4>(uint4(as_type<packed_uchar4>(low.y))), static_cast<metal::float4>(uint4(as_type<packed_uchar4>(low.z))), static_cast<metal::float4>(uint4(as_type<packed_uchar4>(low.w))), static_cast<metal::float4>(uint4(as_type<packed_uchar4>(high.x))), static_cast<metal::float4>(uint4(as_type<packed_uchar4>(high.y))), static_cast<metal::float4>(uint4(as_type<packed_uchar4>(high.z))), static_cast<metal::float4>(uint4(as_type<packed_uchar4>(high.w))), metal::float2(scale), less};
}

Codes signed_codes(
    metal::uint4 low_1,
    metal::uint4 high_1,
    metal::float2 scale_1
) {
    return Codes {static_cast<metal::float4>(int4(as_type<packed_char4>(low_1.x))), static_cast<metal::float4>(int4(as_type<packed_char4>(low_1.y))), static_cast<metal::float4>(int4(as_type<packed_char4>(low_1.z))), static_cast<metal::float4>(int4(as_type<packed_char4>(low_1.w))), static_cast<metal::float4>(int4(as_type<packed_char4>(high_1.x))), static_cast<metal::float4>(int4(as_type<packed_char4>(high_1.y))), static_cast<metal::float4>(int4(as_type<packed_char4>(high_1.z))), static_cast<metal::float4>(int4(as_type<packed_char4>(high_1.w))), scale_1, 0.0};
}

Codes codes0_(
    uint row,
    uint run_1,
    device type_4 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block = naga_div(row + (144u * naga_div(run_1, 8u)), 16u);
    uint sub_1 = naga_mod(run_1, 8u);
    metal::uint4 header_1 = weights0_[metal::min(unsigned(block), (_buffer_sizes.size1 - 0 - 16) / 16)];
    uint at_6 = (block + 1u) + (2u * naga_div(sub_1, 2u));
    metal::uint4 shift_1 = metal::uint4(4u * naga_mod(sub_1, 2u));
    metal::uint4 _e28 = weights0_[metal::min(unsigned(at_6), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 low_4 = (_e28 >> shift_1) & metal::uint4(252645135u);
    metal::uint4 _e37 = weights0_[metal::min(unsigned(at_6 + 1u), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 high_3 = (_e37 >> shift_1) & metal::uint4(252645135u);
    metal::float2 _e43 = affine(header_1.yzw, sub_1);
    float _e47 = half_(header_1.x & 65535u);
    float _e53 = half_(header_1.x >> 16u);
    Codes _e56 = unsigned_codes(low_4, high_3, _e47 * _e43.x, _e53 * _e43.y);
    return _e56;
}

uint word1_(
    uint at_2,
    device type_5 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint index = at_2 >> 2u;
    uint shift_2 = 8u * (at_2 & 3u);
    if (shift_2 == 0u) {
        uint _e11 = weights1_[metal::min(unsigned(index), (_buffer_sizes.size2 - 0 - 4) / 4)];
        return _e11;
    }
    uint _e14 = weights1_[metal::min(unsigned(index), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e20 = weights1_[metal::min(unsigned(index + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return (_e14 >> shift_2) | (_e20 << (32u - shift_2));
}

float half_at1_(
    uint at_3,
    device type_5 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = weights1_[metal::min(unsigned(at_3 >> 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    float _e13 = half_((_e5 >> (8u * (at_3 & 2u))) & 65535u);
    return _e13;
}

metal::uint4 sixteen1_(
    uint at_4,
    device type_5 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint index_1 = at_4 >> 2u;
    uint _e5 = weights1_[metal::min(unsigned(index_1), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e10 = weights1_[metal::min(unsigned(index_1 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e15 = weights1_[metal::min(unsigned(index_1 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e20 = weights1_[metal::min(unsigned(index_1 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    metal::uint4 words = metal::uint4(_e5, _e10, _e15, _e20);
    if ((at_4 & 2u) == 0u) {
        return words;
    }
    uint _e34 = weights1_[metal::min(unsigned(index_1 + 4u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return (words >> metal::uint4(16u)) | (metal::uint4(words.yzw, _e34) << metal::uint4(16u));
}

metal::uint4 signed1_(
    metal::uint4 low_2,
    metal::uint4 above,
    uint quarter
) {
    metal::uint4 nibbles = ((low_2 >> metal::uint4(4u * naga_div(quarter, 2u))) & metal::uint4(252645135u)) << metal::uint4(2u);
    metal::uint4 upper = ((above >> metal::uint4(2u * quarter)) & metal::uint4(50529027u)) << metal::uint4(6u);
    return (nibbles | upper) ^ metal::uint4(2155905152u);
}

Codes codes1_(
    uint row_1,
    uint run_2,
    device type_5 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_1 = row_1 + (210u * naga_div(run_2, 8u));
    uint part = naga_div(naga_mod(run_2, 8u), 4u);
    uint quarter_1 = naga_mod(run_2, 4u);
    uint at_7 = (block_1 + (64u * part)) + (32u * naga_mod(quarter_1, 2u));
    uint above_1 = (block_1 + 128u) + (32u * part);
    uint _e33 = word1_((block_1 + 192u) + (2u * naga_mod(run_2, 8u)), weights1_, _buffer_sizes);
    int factors = as_type<int>(_e33);
    metal::float2 scale_2 = static_cast<metal::float2>(metal::int2(metal::extract_bits(factors, metal::min(0u, 32u), metal::min(8u, 32u - metal::min(0u, 32u))), metal::extract_bits(factors, metal::min(8u, 32u), metal::min(8u, 32u - metal::min(8u, 32u)))));
    metal::uint4 _e43 = sixteen1_(at_7, weights1_, _buffer_sizes);
    metal::uint4 _e44 = sixteen1_(above_1, weights1_, _buffer_sizes);
    metal::uint4 _e45 = signed1_(_e43, _e44, quarter_1);
    metal::uint4 _e48 = sixteen1_(at_7 + 16u, weights1_, _buffer_sizes);
    metal::uint4 _e51 = sixteen1_(above_1 + 16u, weights1_, _buffer_sizes);
    metal::uint4 _e52 = signed1_(_e48, _e51, quarter_1);
    float _e55 = half_at1_(block_1 + 208u, weights1_, _buffer_sizes);
    Codes _e59 = signed_codes(_e45, _e52, (0.25 * _e55) * scale_2);
    return _e59;
}

Pair pair(
    uint row_2,
    uint lane,
    uint first,
    uint thread_3,
    device type_2 const& arena,
    device type_4 const& weights0_,
    device type_5 const& weights1_,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 sums = metal::float4(0.0);
    uint tile = 0u;
    uint i_3 = {};
    uint _e12 = args.rows;
    metal::uint2 own = metal::min(metal::uint2(row_2, row_2 + 1u), metal::uint2(_e12 - 1u));
    uint _e19 = args.gate_at;
    uint _e22 = args.gate_row_bytes;
    metal::uint2 gates = metal::uint2(_e19) + (own * _e22);
    uint _e28 = args.up_at;
    uint _e31 = args.up_row_bytes;
    metal::uint2 ups = metal::uint2(_e28) + (own * _e31);
    uint _e37 = args.columns;
    uint runs_1 = naga_div(_e37, 32u);
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e100 = tile;
            tile = _e100 + TILE_RUNS;
        }
        loop_init_4 = false;
        uint _e42 = tile;
        if (_e42 < runs_1) {
        } else {
            break;
        }
        {
            uint _e45 = tile;
            uint here = metal::min(TILE_RUNS, runs_1 - _e45);
            uint _e50 = args.from_at;
            uint _e53 = args.columns;
            uint _e57 = tile;
            uint _e62 = args.columns;
            stage((_e50 + (first * _e53)) + (32u * _e57), _e62, 1u, here, thread_3, arena, staged, staged_sums, _buffer_sizes);
            i_3 = lane;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e97 = i_3;
                    i_3 = _e97 + LANES;
                }
                loop_init_5 = false;
                uint _e65 = i_3;
                if (_e65 < here) {
                } else {
                    break;
                }
                {
                    uint _e68 = i_3;
                    Run _e69 = staged_run(0u, _e68, staged, staged_sums);
                    metal::float4 _e70 = sums;
                    uint _e72 = tile;
                    uint _e73 = i_3;
                    Codes _e75 = codes0_(gates.x, _e72 + _e73, weights0_, _buffer_sizes);
                    float _e76 = meet(_e75, _e69);
                    uint _e78 = tile;
                    uint _e79 = i_3;
                    Codes _e81 = codes0_(gates.y, _e78 + _e79, weights0_, _buffer_sizes);
                    float _e82 = meet(_e81, _e69);
                    uint _e84 = tile;
                    uint _e85 = i_3;
                    Codes _e87 = codes1_(ups.x, _e84 + _e85, weights1_, _buffer_sizes);
                    float _e88 = meet(_e87, _e69);
                    uint _e90 = tile;
                    uint _e91 = i_3;
                    Codes _e93 = codes1_(ups.y, _e90 + _e91, weights1_, _buffer_sizes);
                    float _e94 = meet(_e93, _e69);
                    sums = _e70 + metal::float4(_e76, _e82, _e88, _e94);
                }
            }
        }
    }
    float _e104 = sums.x;
    float _e106 = sums.y;
    float _e109 = sums.z;
    float _e111 = sums.w;
    return Pair {type_14 {{_e104, _e106}}, type_14 {{_e109, _e111}}};
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_4 const& weights0_ [[buffer(1)]]
, device type_5 const& weights1_ [[buffer(2)]]
, device type_5 const& vectors [[buffer(4)]]
, threadgroup type_11& staged
, threadgroup type_12& staged_sums
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = 0u;
    float gate = {};
    float up = {};
    bool local = {};
    bool local_1 = {};
    uint first_3 = TOKENS * group.y;
    uint lane_1 = naga_mod(thread_, LANES);
    uint row_4 = (GATED_ROWS * group.x) + (EACH_GATED * naga_div(thread_, LANES));
    Pair _e15 = pair(row_4, lane_1, first_3, thread_, arena, weights0_, weights1_, staged, staged_sums, args, _buffer_sizes);
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e119 = i;
            i = _e119 + 1u;
        }
        loop_init_6 = false;
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
            uint own_1 = row_4 + naga_div(_e31, TOKENS);
            uint _e35 = i;
            uint token_1 = first_3 + naga_mod(_e35, TOKENS);
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
                local_1 = token_1 < _e55;
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
                arena[metal::min(unsigned((_e110 + (token_1 * _e113)) + own_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = y_1;
            }
        }
    }
    return;
}
