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
struct Matrix {
    uint at;
    uint row_bytes;
    uint quant;
    uint bias;
};
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
constant uint EXPERT_THREADS = 128u;
constant uint EACH_EXPERT_UP = 2u;
constant uint EACH_EXPERT_DOWN = 4u;
constant uint EXPERT_UP_ROWS = 8u;
constant uint EXPERT_DOWN_ROWS = 16u;
constant uint TILE_RUNS = 64u;
constant uint RUN_TOKENS = 1u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);
constant bool HAS_LESS = true;

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
    float y_1 = metal::exp(2.0 * metal::clamp(x_1, -20.0, 20.0));
    return (y_1 - 1.0) / (y_1 + 1.0);
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
    metal::uint2 first = metal::uint2(low_3 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_2 & 15u) | ((low_3 >> 2u) & 48u), ((high_2 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first : later);
}

Matrix matrix_of(
    uint table,
    uint expert,
    uint which,
    device type_5 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_6 = (table + (12u * expert)) + (4u * which);
    uint _e11 = vectors[metal::min(unsigned(at_6), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e16 = vectors[metal::min(unsigned(at_6 + 1u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e21 = vectors[metal::min(unsigned(at_6 + 2u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e26 = vectors[metal::min(unsigned(at_6 + 3u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return Matrix {_e11, _e16, _e21, _e26};
}

Run staged_run(
    uint token,
    uint run,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums
) {
    uint at_7 = (8u * token) * TILE_RUNS;
    metal::float4 _e9 = staged.inner[metal::min(unsigned(at_7 + run), 511u)];
    metal::float4 _e17 = staged.inner[metal::min(unsigned((at_7 + TILE_RUNS) + (run ^ 1u)), 511u)];
    metal::float4 _e25 = staged.inner[metal::min(unsigned((at_7 + 128u) + (run ^ 2u)), 511u)];
    metal::float4 _e33 = staged.inner[metal::min(unsigned((at_7 + 192u) + (run ^ 3u)), 511u)];
    metal::float4 _e41 = staged.inner[metal::min(unsigned((at_7 + 256u) + (run ^ 4u)), 511u)];
    metal::float4 _e49 = staged.inner[metal::min(unsigned((at_7 + 320u) + (run ^ 5u)), 511u)];
    metal::float4 _e57 = staged.inner[metal::min(unsigned((at_7 + 384u) + (run ^ 6u)), 511u)];
    metal::float4 _e65 = staged.inner[metal::min(unsigned((at_7 + 448u) + (run ^ 7u)), 511u)];
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
    float first_1 = (metal::dot(w.a, x_5.a) + metal::dot(w.b, x_5.b)) + (metal::dot(w.c, x_5.c) + metal::dot(w.d, x_5.d));
    float second = (metal::dot(w.e, x_5.e) + metal::dot(w.f, x_5.f)) + (metal::dot(w.g, x_5.g) + metal::dot(w.h, x_5.h));
    float all_1 = (w.scale.x * first_1) + (w.scale.y * second);
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
    uint at_8 = (block + 1u) + (2u * naga_div(sub_1, 2u));
    metal::uint4 shift_1 = metal::uint4(4u * naga_mod(sub_1, 2u));
    metal::uint4 _e28 = weights0_[metal::min(unsigned(at_8), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 low_4 = (_e28 >> shift_1) & metal::uint4(252645135u);
    metal::uint4 _e37 = weights0_[metal::min(unsigned(at_8 + 1u), (_buffer_sizes.size1 - 0 - 16) / 16)];
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
    uint at_9 = (block_1 + (64u * part)) + (32u * naga_mod(quarter_1, 2u));
    uint above_1 = (block_1 + 128u) + (32u * part);
    uint _e33 = word1_((block_1 + 192u) + (2u * naga_mod(run_2, 8u)), weights1_, _buffer_sizes);
    int factors = as_type<int>(_e33);
    metal::float2 scale_2 = static_cast<metal::float2>(metal::int2(metal::extract_bits(factors, metal::min(0u, 32u), metal::min(8u, 32u - metal::min(0u, 32u))), metal::extract_bits(factors, metal::min(8u, 32u), metal::min(8u, 32u - metal::min(8u, 32u)))));
    metal::uint4 _e43 = sixteen1_(at_9, weights1_, _buffer_sizes);
    metal::uint4 _e44 = sixteen1_(above_1, weights1_, _buffer_sizes);
    metal::uint4 _e45 = signed1_(_e43, _e44, quarter_1);
    metal::uint4 _e48 = sixteen1_(at_9 + 16u, weights1_, _buffer_sizes);
    metal::uint4 _e51 = sixteen1_(above_1 + 16u, weights1_, _buffer_sizes);
    metal::uint4 _e52 = signed1_(_e48, _e51, quarter_1);
    float _e55 = half_at1_(block_1 + 208u, weights1_, _buffer_sizes);
    Codes _e59 = signed_codes(_e45, _e52, (0.25 * _e55) * scale_2);
    return _e59;
}

Pair pair_of(
    Matrix gate,
    Matrix up_1,
    bool is_there,
    uint at_5,
    uint row_2,
    uint lane,
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
    bool local_3 = {};
    uint _e15 = args.width;
    metal::uint2 own = metal::min(metal::uint2(row_2, row_2 + 1u), metal::uint2(_e15 - 1u));
    metal::uint2 gates = metal::uint2(gate.at) + (own * gate.row_bytes);
    metal::uint2 ups = metal::uint2(up_1.at) + (own * up_1.row_bytes);
    uint _e32 = args.hidden;
    uint runs_1 = naga_div(_e32, 32u);
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e89 = tile;
            tile = _e89 + TILE_RUNS;
        }
        loop_init_4 = false;
        uint _e37 = tile;
        if (_e37 < runs_1) {
        } else {
            break;
        }
        {
            uint _e40 = tile;
            uint here = metal::min(TILE_RUNS, runs_1 - _e40);
            uint _e44 = tile;
            stage(at_5 + (32u * _e44), 0u, 1u, here, thread_3, arena, staged, staged_sums, _buffer_sizes);
            i_3 = lane;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e86 = i_3;
                    i_3 = _e86 + LANES;
                }
                loop_init_5 = false;
                if (is_there) {
                    uint _e52 = i_3;
                    local_3 = _e52 < here;
                } else {
                    local_3 = false;
                }
                bool _e55 = local_3;
                if (_e55) {
                } else {
                    break;
                }
                {
                    uint _e57 = i_3;
                    Run _e58 = staged_run(0u, _e57, staged, staged_sums);
                    metal::float4 _e59 = sums;
                    uint _e61 = tile;
                    uint _e62 = i_3;
                    Codes _e64 = codes0_(gates.x, _e61 + _e62, weights0_, _buffer_sizes);
                    float _e65 = meet(_e64, _e58);
                    uint _e67 = tile;
                    uint _e68 = i_3;
                    Codes _e70 = codes0_(gates.y, _e67 + _e68, weights0_, _buffer_sizes);
                    float _e71 = meet(_e70, _e58);
                    uint _e73 = tile;
                    uint _e74 = i_3;
                    Codes _e76 = codes1_(ups.x, _e73 + _e74, weights1_, _buffer_sizes);
                    float _e77 = meet(_e76, _e58);
                    uint _e79 = tile;
                    uint _e80 = i_3;
                    Codes _e82 = codes1_(ups.y, _e79 + _e80, weights1_, _buffer_sizes);
                    float _e83 = meet(_e82, _e58);
                    sums = _e59 + metal::float4(_e65, _e71, _e77, _e83);
                }
            }
        }
    }
    float _e93 = sums.x;
    float _e95 = sums.y;
    float _e98 = sums.z;
    float _e100 = sums.w;
    return Pair {type_14 {{_e93, _e95}}, type_14 {{_e98, _e100}}};
}
uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
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
    bool local = {};
    uint i = 0u;
    float y = {};
    bool local_1 = {};
    bool local_2 = {};
    float by = {};
    uint lane_1 = naga_mod(thread_, LANES);
    uint row_4 = (EXPERT_UP_ROWS * group.x) + (EACH_EXPERT_UP * naga_div(thread_, LANES));
    uint _e15 = args.wanted;
    uint place = (group.z * _e15) + group.y;
    uint _e22 = args.chosen;
    float expert_1 = arena[metal::min(unsigned(_e22 + place), (_buffer_sizes.size0 - 0 - 4) / 4)];
    uint _e28 = args.width;
    if (row_4 < _e28) {
        local = expert_1 >= 0.0;
    } else {
        local = false;
    }
    bool is_there_1 = local;
    uint number = naga_f2u32(metal::max(expert_1, 0.0));
    uint _e41 = args.table;
    Matrix _e43 = matrix_of(_e41, number, 0u, vectors, _buffer_sizes);
    uint _e46 = args.table;
    Matrix _e48 = matrix_of(_e46, number, 1u, vectors, _buffer_sizes);
    uint _e51 = args.from_at;
    uint _e55 = args.hidden;
    Pair _e58 = pair_of(_e43, _e48, is_there_1, _e51 + (group.z * _e55), row_4, lane_1, thread_, arena, weights0_, weights1_, staged, staged_sums, args, _buffer_sizes);
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e161 = i;
            i = _e161 + 1u;
        }
        loop_init_6 = false;
        uint _e61 = i;
        if (_e61 < EACH_EXPERT_UP) {
        } else {
            break;
        }
        {
            uint _e65 = i;
            float _e67 = lane_sum(_e58.gates.inner[metal::min(unsigned(_e65), 1u)], thread_);
            uint _e69 = i;
            float _e71 = lane_sum(_e58.ups.inner[metal::min(unsigned(_e69), 1u)], thread_);
            y = _e71;
            uint _e73 = i;
            uint own_1 = row_4 + _e73;
            uint _e75 = i;
            if (lane_1 == naga_mod(_e75, LANES)) {
                local_1 = is_there_1;
            } else {
                local_1 = false;
            }
            bool _e82 = local_1;
            if (_e82) {
                uint _e87 = args.width;
                local_2 = own_1 < _e87;
            } else {
                local_2 = false;
            }
            bool _e90 = local_2;
            if (_e90) {
                if (_e48.bias != NOTHING) {
                    float _e94 = y;
                    float _e97 = vector(_e48.bias + own_1, vectors, _buffer_sizes);
                    y = _e94 + _e97;
                }
                uint _e101 = args.is_gated;
                if (_e101 != 0u) {
                    by = _e67;
                    if (_e43.bias != NOTHING) {
                        float _e108 = by;
                        float _e111 = vector(_e43.bias + own_1, vectors, _buffer_sizes);
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
                arena[metal::min(unsigned((_e151 + (place * _e154)) + own_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e159;
            }
        }
    }
    return;
}
