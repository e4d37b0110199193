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
typedef metal::uint4 type_4[1];
typedef uint type_5[1];
struct type_7 {
    float inner[8];
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
struct type_12 {
    metal::float4 inner[1024];
};
struct type_13 {
    float inner[128];
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
constant uint EACH = 2u;
constant uint EACH_GATED = 1u;
constant uint PRODUCT_THREADS = 128u;
constant uint PRODUCT_ROWS = 8u;
constant uint GATED_ROWS = 4u;
constant uint THREADS = 256u;
constant uint LANES = 32u;
constant uint ROWS = 8u;
constant uint PARTS_REDUCED = 8u;
constant uint TOKENS = 4u;
constant uint CACHE = 0u;
constant uint EXPERTS_MAX = 1024u;
constant uint GROUPS_MAX = 64u;
constant uint TAPS_MAX = 16u;
constant uint STATE_COLUMNS_MAX = 512u;
constant uint STATE_WIDTH_MAX = 512u;
constant uint ROW_MAX = 640u;
constant uint ROW_FOURS_MAX = 160u;
constant uint TILE_RUNS = 32u;
constant uint RUN_TOKENS = 4u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);
constant bool HAS_LESS = true;
constant uint SUMS = 8u;

float vector(
    uint at,
    device type_5 const& vectors,
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

metal::float2 affine(
    metal::uint3 header,
    uint sub
) {
    uint shift = 8u * naga_mod(sub, 4u);
    uint low_6 = header.x >> shift;
    uint middle = header.y >> shift;
    uint high_5 = header.z >> shift;
    metal::uint2 first_3 = metal::uint2(low_6 & 63u, middle & 63u);
    metal::uint2 later = metal::uint2((high_5 & 15u) | ((low_6 >> 2u) & 48u), ((high_5 >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return static_cast<metal::float2>((sub < 4u) ? first_3 : later);
}

Run staged_run(
    uint token,
    uint run,
    threadgroup type_12& staged,
    threadgroup type_13& staged_sums
) {
    uint at_5 = (8u * token) * TILE_RUNS;
    metal::float4 _e9 = staged.inner[metal::min(unsigned(at_5 + run), 1023u)];
    metal::float4 _e17 = staged.inner[metal::min(unsigned((at_5 + TILE_RUNS) + (run ^ 1u)), 1023u)];
    metal::float4 _e25 = staged.inner[metal::min(unsigned((at_5 + 64u) + (run ^ 2u)), 1023u)];
    metal::float4 _e33 = staged.inner[metal::min(unsigned((at_5 + 96u) + (run ^ 3u)), 1023u)];
    metal::float4 _e41 = staged.inner[metal::min(unsigned((at_5 + 128u) + (run ^ 4u)), 1023u)];
    metal::float4 _e49 = staged.inner[metal::min(unsigned((at_5 + 160u) + (run ^ 5u)), 1023u)];
    metal::float4 _e57 = staged.inner[metal::min(unsigned((at_5 + 192u) + (run ^ 6u)), 1023u)];
    metal::float4 _e65 = staged.inner[metal::min(unsigned((at_5 + 224u) + (run ^ 7u)), 1023u)];
    float _e71 = staged_sums.inner[metal::min(unsigned((token * TILE_RUNS) + run), 127u)];
    return Run {_e9, _e17, _e25, _e33, _e41, _e49, _e57, _e65, _e71};
}

void stage(
    uint at_1,
    uint stride,
    uint tokens,
    uint runs,
    uint thread_2,
    device type_2 const& arena,
    threadgroup type_12& staged,
    threadgroup type_13& staged_sums,
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
            uint row_6 = at_1 + (metal::min(_e10, tokens - 1u) * stride);
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
                    uint start = row_6 + (4u * _e22);
                    uint _e25 = i_1;
                    uint k = naga_mod(_e25, 8u);
                    uint _e30 = t;
                    uint _e35 = i_1;
                    float _e43 = arena[metal::min(unsigned(start), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e48 = arena[metal::min(unsigned(start + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e53 = arena[metal::min(unsigned(start + 2u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e58 = arena[metal::min(unsigned(start + 3u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    staged.inner[metal::min(unsigned((((8u * _e30) + k) * TILE_RUNS) + (naga_div(_e35, 8u) ^ k)), 1023u)] = metal::float4(_e43, _e48, _e53, _e58);
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
            if (_e68 < 128u) {
            } else {
                break;
            }
            {
                uint _e71 = i_2;
                uint _e74 = i_2;
                Run _e77 = staged_run(naga_div(_e71, TILE_RUNS), naga_mod(_e74, TILE_RUNS), staged, staged_sums);
                metal::float4 all = ((_e77.a + _e77.b) + (_e77.c + _e77.d)) + ((_e77.e + _e77.f) + (_e77.g + _e77.h));
                uint _e94 = i_2;
                staged_sums.inner[metal::min(unsigned(_e94), 127u)] = (all.x + all.y) + (all.z + all.w);
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
    Run x_1
) {
    float first_4 = (metal::dot(w.a, x_1.a) + metal::dot(w.b, x_1.b)) + (metal::dot(w.c, x_1.c) + metal::dot(w.d, x_1.d));
    float second = (metal::dot(w.e, x_1.e) + metal::dot(w.f, x_1.f)) + (metal::dot(w.g, x_1.g) + metal::dot(w.h, x_1.h));
    float all_1 = (w.scale.x * first_4) + (w.scale.y * second);
    if (HAS_LESS) {
        return all_1 - (w.less * x_1.sum);
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

metal::float4 meet_four(
    Codes w_1,
    uint run_1,
    threadgroup type_12& staged,
    threadgroup type_13& staged_sums
) {
    Run _e3 = staged_run(0u, run_1, staged, staged_sums);
    float _e4 = meet(w_1, _e3);
    Run _e6 = staged_run(1u, run_1, staged, staged_sums);
    float _e7 = meet(w_1, _e6);
    Run _e9 = staged_run(2u, run_1, staged, staged_sums);
    float _e10 = meet(w_1, _e9);
    Run _e12 = staged_run(3u, run_1, staged, staged_sums);
    float _e13 = meet(w_1, _e12);
    return metal::float4(_e4, _e7, _e10, _e13);
}

Codes codes0_(
    uint row,
    uint run_2,
    device type_4 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_1 = naga_div(row + (144u * naga_div(run_2, 8u)), 16u);
    uint sub_1 = naga_mod(run_2, 8u);
    metal::uint4 header_1 = weights0_[metal::min(unsigned(block_1), (_buffer_sizes.size1 - 0 - 16) / 16)];
    uint at_6 = (block_1 + 1u) + (2u * naga_div(sub_1, 2u));
    metal::uint4 shift_1 = metal::uint4(4u * naga_mod(sub_1, 2u));
    metal::uint4 _e28 = weights0_[metal::min(unsigned(at_6), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 low_7 = (_e28 >> shift_1) & metal::uint4(252645135u);
    metal::uint4 _e37 = weights0_[metal::min(unsigned(at_6 + 1u), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 high_6 = (_e37 >> shift_1) & metal::uint4(252645135u);
    metal::float2 _e43 = affine(header_1.yzw, sub_1);
    float _e47 = half_(header_1.x & 65535u);
    float _e53 = half_(header_1.x >> 16u);
    Codes _e56 = unsigned_codes(low_7, high_6, _e47 * _e43.x, _e53 * _e43.y);
    return _e56;
}

type_7 sums0_(
    Part part_1,
    uint row_1,
    uint lane,
    uint first,
    uint thread_3,
    device type_2 const& arena,
    device type_4 const& weights0_,
    threadgroup type_12& staged,
    threadgroup type_13& staged_sums,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 low_2 = metal::float4(0.0);
    metal::float4 high_2 = metal::float4(0.0);
    uint tile = 0u;
    uint i_3 = {};
    metal::uint2 at_7 = metal::uint2(part_1.at) + (metal::min(metal::uint2(row_1, row_1 + 1u), metal::uint2(part_1.rows - 1u)) * part_1.row_bytes);
    uint _e26 = args.columns;
    uint runs_1 = naga_div(_e26, 32u);
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e80 = tile;
            tile = _e80 + TILE_RUNS;
        }
        loop_init_4 = false;
        uint _e31 = tile;
        if (_e31 < runs_1) {
        } else {
            break;
        }
        {
            uint _e34 = tile;
            uint here = metal::min(TILE_RUNS, runs_1 - _e34);
            uint _e39 = args.from_at;
            uint _e42 = args.columns;
            uint _e46 = tile;
            uint _e51 = args.columns;
            uint _e54 = args.tokens;
            stage((_e39 + (first * _e42)) + (32u * _e46), _e51, _e54 - first, here, thread_3, arena, staged, staged_sums, _buffer_sizes);
            i_3 = lane;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e77 = i_3;
                    i_3 = _e77 + LANES;
                }
                loop_init_5 = false;
                uint _e57 = i_3;
                if (_e57 < here) {
                } else {
                    break;
                }
                {
                    metal::float4 _e59 = low_2;
                    uint _e61 = tile;
                    uint _e62 = i_3;
                    Codes _e64 = codes0_(at_7.x, _e61 + _e62, weights0_, _buffer_sizes);
                    uint _e65 = i_3;
                    metal::float4 _e66 = meet_four(_e64, _e65, staged, staged_sums);
                    low_2 = _e59 + _e66;
                    metal::float4 _e68 = high_2;
                    uint _e70 = tile;
                    uint _e71 = i_3;
                    Codes _e73 = codes0_(at_7.y, _e70 + _e71, weights0_, _buffer_sizes);
                    uint _e74 = i_3;
                    metal::float4 _e75 = meet_four(_e73, _e74, staged, staged_sums);
                    high_2 = _e68 + _e75;
                }
            }
        }
    }
    float _e84 = low_2.x;
    float _e86 = low_2.y;
    float _e88 = low_2.z;
    float _e90 = low_2.w;
    float _e92 = high_2.x;
    float _e94 = high_2.y;
    float _e96 = high_2.z;
    float _e98 = high_2.w;
    return type_7 {{_e84, _e86, _e88, _e90, _e92, _e94, _e96, _e98}};
}

Codes codes1_(
    uint row_2,
    uint run_3,
    device type_4 const& weights1_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_2 = naga_div(row_2 + (144u * naga_div(run_3, 8u)), 16u);
    uint sub_2 = naga_mod(run_3, 8u);
    metal::uint4 header_2 = weights1_[metal::min(unsigned(block_2), (_buffer_sizes.size2 - 0 - 16) / 16)];
    uint at_8 = (block_2 + 1u) + (2u * naga_div(sub_2, 2u));
    metal::uint4 shift_2 = metal::uint4(4u * naga_mod(sub_2, 2u));
    metal::uint4 _e28 = weights1_[metal::min(unsigned(at_8), (_buffer_sizes.size2 - 0 - 16) / 16)];
    metal::uint4 low_8 = (_e28 >> shift_2) & metal::uint4(252645135u);
    metal::uint4 _e37 = weights1_[metal::min(unsigned(at_8 + 1u), (_buffer_sizes.size2 - 0 - 16) / 16)];
    metal::uint4 high_7 = (_e37 >> shift_2) & metal::uint4(252645135u);
    metal::float2 _e43 = affine(header_2.yzw, sub_2);
    float _e47 = half_(header_2.x & 65535u);
    float _e53 = half_(header_2.x >> 16u);
    Codes _e56 = unsigned_codes(low_8, high_7, _e47 * _e43.x, _e53 * _e43.y);
    return _e56;
}

type_7 sums1_(
    Part part_2,
    uint row_3,
    uint lane_1,
    uint first_1,
    uint thread_4,
    device type_2 const& arena,
    device type_4 const& weights1_,
    threadgroup type_12& staged,
    threadgroup type_13& staged_sums,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 low_3 = metal::float4(0.0);
    metal::float4 high_3 = metal::float4(0.0);
    uint tile_1 = 0u;
    uint i_4 = {};
    metal::uint2 at_9 = metal::uint2(part_2.at) + (metal::min(metal::uint2(row_3, row_3 + 1u), metal::uint2(part_2.rows - 1u)) * part_2.row_bytes);
    uint _e26 = args.columns;
    uint runs_2 = naga_div(_e26, 32u);
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e80 = tile_1;
            tile_1 = _e80 + TILE_RUNS;
        }
        loop_init_6 = false;
        uint _e31 = tile_1;
        if (_e31 < runs_2) {
        } else {
            break;
        }
        {
            uint _e34 = tile_1;
            uint here_1 = metal::min(TILE_RUNS, runs_2 - _e34);
            uint _e39 = args.from_at;
            uint _e42 = args.columns;
            uint _e46 = tile_1;
            uint _e51 = args.columns;
            uint _e54 = args.tokens;
            stage((_e39 + (first_1 * _e42)) + (32u * _e46), _e51, _e54 - first_1, here_1, thread_4, arena, staged, staged_sums, _buffer_sizes);
            i_4 = lane_1;
            bool loop_init_7 = true;
            while(true) {
                if (!loop_init_7) {
                    uint _e77 = i_4;
                    i_4 = _e77 + LANES;
                }
                loop_init_7 = false;
                uint _e57 = i_4;
                if (_e57 < here_1) {
                } else {
                    break;
                }
                {
                    metal::float4 _e59 = low_3;
                    uint _e61 = tile_1;
                    uint _e62 = i_4;
                    Codes _e64 = codes1_(at_9.x, _e61 + _e62, weights1_, _buffer_sizes);
                    uint _e65 = i_4;
                    metal::float4 _e66 = meet_four(_e64, _e65, staged, staged_sums);
                    low_3 = _e59 + _e66;
                    metal::float4 _e68 = high_3;
                    uint _e70 = tile_1;
                    uint _e71 = i_4;
                    Codes _e73 = codes1_(at_9.y, _e70 + _e71, weights1_, _buffer_sizes);
                    uint _e74 = i_4;
                    metal::float4 _e75 = meet_four(_e73, _e74, staged, staged_sums);
                    high_3 = _e68 + _e75;
                }
            }
        }
    }
    float _e84 = low_3.x;
    float _e86 = low_3.y;
    float _e88 = low_3.z;
    float _e90 = low_3.w;
    float _e92 = high_3.x;
    float _e94 = high_3.y;
    float _e96 = high_3.z;
    float _e98 = high_3.w;
    return type_7 {{_e84, _e86, _e88, _e90, _e92, _e94, _e96, _e98}};
}

uint word2_(
    uint at_2,
    device type_5 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint index = at_2 >> 2u;
    uint shift_3 = 8u * (at_2 & 3u);
    if (shift_3 == 0u) {
        uint _e11 = weights2_[metal::min(unsigned(index), (_buffer_sizes.size3 - 0 - 4) / 4)];
        return _e11;
    }
    uint _e14 = weights2_[metal::min(unsigned(index), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e20 = weights2_[metal::min(unsigned(index + 1u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return (_e14 >> shift_3) | (_e20 << (32u - shift_3));
}

float half_at2_(
    uint at_3,
    device type_5 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = weights2_[metal::min(unsigned(at_3 >> 2u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    float _e13 = half_((_e5 >> (8u * (at_3 & 2u))) & 65535u);
    return _e13;
}

metal::uint4 sixteen2_(
    uint at_4,
    device type_5 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint index_1 = at_4 >> 2u;
    uint _e5 = weights2_[metal::min(unsigned(index_1), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e10 = weights2_[metal::min(unsigned(index_1 + 1u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e15 = weights2_[metal::min(unsigned(index_1 + 2u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    uint _e20 = weights2_[metal::min(unsigned(index_1 + 3u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    metal::uint4 words = metal::uint4(_e5, _e10, _e15, _e20);
    if ((at_4 & 2u) == 0u) {
        return words;
    }
    uint _e34 = weights2_[metal::min(unsigned(index_1 + 4u), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return (words >> metal::uint4(16u)) | (metal::uint4(words.yzw, _e34) << metal::uint4(16u));
}

metal::uint4 signed2_(
    metal::uint4 low_4,
    metal::uint4 above,
    uint quarter
) {
    metal::uint4 nibbles = ((low_4 >> metal::uint4(4u * naga_div(quarter, 2u))) & metal::uint4(252645135u)) << metal::uint4(2u);
    metal::uint4 upper = ((above >> metal::uint4(2u * quarter)) & metal::uint4(50529027u)) << metal::uint4(6u);
    return (nibbles | upper) ^ metal::uint4(2155905152u);
}

Codes codes2_(
    uint row_4,
    uint run_4,
    device type_5 const& weights2_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block_3 = row_4 + (210u * naga_div(run_4, 8u));
    uint part_4 = naga_div(naga_mod(run_4, 8u), 4u);
    uint quarter_1 = naga_mod(run_4, 4u);
    uint at_10 = (block_3 + (64u * part_4)) + (32u * naga_mod(quarter_1, 2u));
    uint above_1 = (block_3 + 128u) + (32u * part_4);
    uint _e33 = word2_((block_3 + 192u) + (2u * naga_mod(run_4, 8u)), weights2_, _buffer_sizes);
    int factors = as_type<int>(_e33);
    metal::float2 scale_2 = static_cast<metal::float2>(metal::int2(metal::extract_bits(factors, metal::min(0u, 32u), metal::min(8u, 32u - metal::min(0u, 32u))), metal::extract_bits(factors, metal::min(8u, 32u), metal::min(8u, 32u - metal::min(8u, 32u)))));
    metal::uint4 _e43 = sixteen2_(at_10, weights2_, _buffer_sizes);
    metal::uint4 _e44 = sixteen2_(above_1, weights2_, _buffer_sizes);
    metal::uint4 _e45 = signed2_(_e43, _e44, quarter_1);
    metal::uint4 _e48 = sixteen2_(at_10 + 16u, weights2_, _buffer_sizes);
    metal::uint4 _e51 = sixteen2_(above_1 + 16u, weights2_, _buffer_sizes);
    metal::uint4 _e52 = signed2_(_e48, _e51, quarter_1);
    float _e55 = half_at2_(block_3 + 208u, weights2_, _buffer_sizes);
    Codes _e59 = signed_codes(_e45, _e52, (0.25 * _e55) * scale_2);
    return _e59;
}

type_7 sums2_(
    Part part_3,
    uint row_5,
    uint lane_2,
    uint first_2,
    uint thread_5,
    device type_2 const& arena,
    device type_5 const& weights2_,
    threadgroup type_12& staged,
    threadgroup type_13& staged_sums,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 low_5 = metal::float4(0.0);
    metal::float4 high_4 = metal::float4(0.0);
    uint tile_2 = 0u;
    uint i_5 = {};
    metal::uint2 at_11 = metal::uint2(part_3.at) + (metal::min(metal::uint2(row_5, row_5 + 1u), metal::uint2(part_3.rows - 1u)) * part_3.row_bytes);
    uint _e26 = args.columns;
    uint runs_3 = naga_div(_e26, 32u);
    bool loop_init_8 = true;
    while(true) {
        if (!loop_init_8) {
            uint _e80 = tile_2;
            tile_2 = _e80 + TILE_RUNS;
        }
        loop_init_8 = false;
        uint _e31 = tile_2;
        if (_e31 < runs_3) {
        } else {
            break;
        }
        {
            uint _e34 = tile_2;
            uint here_2 = metal::min(TILE_RUNS, runs_3 - _e34);
            uint _e39 = args.from_at;
            uint _e42 = args.columns;
            uint _e46 = tile_2;
            uint _e51 = args.columns;
            uint _e54 = args.tokens;
            stage((_e39 + (first_2 * _e42)) + (32u * _e46), _e51, _e54 - first_2, here_2, thread_5, arena, staged, staged_sums, _buffer_sizes);
            i_5 = lane_2;
            bool loop_init_9 = true;
            while(true) {
                if (!loop_init_9) {
                    uint _e77 = i_5;
                    i_5 = _e77 + LANES;
                }
                loop_init_9 = false;
                uint _e57 = i_5;
                if (_e57 < here_2) {
                } else {
                    break;
                }
                {
                    metal::float4 _e59 = low_5;
                    uint _e61 = tile_2;
                    uint _e62 = i_5;
                    Codes _e64 = codes2_(at_11.x, _e61 + _e62, weights2_, _buffer_sizes);
                    uint _e65 = i_5;
                    metal::float4 _e66 = meet_four(_e64, _e65, staged, staged_sums);
                    low_5 = _e59 + _e66;
                    metal::float4 _e68 = high_4;
                    uint _e70 = tile_2;
                    uint _e71 = i_5;
                    Codes _e73 = codes2_(at_11.y, _e70 + _e71, weights2_, _buffer_sizes);
                    uint _e74 = i_5;
                    metal::float4 _e75 = meet_four(_e73, _e74, staged, staged_sums);
                    high_4 = _e68 + _e75;
                }
            }
        }
    }
    float _e84 = low_5.x;
    float _e86 = low_5.y;
    float _e88 = low_5.z;
    float _e90 = low_5.w;
    float _e92 = high_4.x;
    float _e94 = high_4.y;
    float _e96 = high_4.z;
    float _e98 = high_4.w;
    return type_7 {{_e84, _e86, _e88, _e90, _e92, _e94, _e96, _e98}};
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_4 const& weights0_ [[buffer(1)]]
, device type_4 const& weights1_ [[buffer(2)]]
, device type_5 const& weights2_ [[buffer(3)]]
, device type_5 const& vectors [[buffer(4)]]
, threadgroup type_12& staged
, threadgroup type_13& staged_sums
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint block = {};
    uint which = 0u;
    Part part = {};
    type_7 sums = {};
    uint i = 0u;
    bool local = {};
    bool local_1 = {};
    float y = {};
    uint first_5 = TOKENS * group.y;
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
    uint row_7 = (PRODUCT_ROWS * _e34) + (EACH * naga_div(thread_, LANES));
    Part _e43 = args.part0_;
    part = _e43;
    uint _e46 = which;
    if (_e46 == 0u) {
        Part _e49 = part;
        type_7 _e50 = sums0_(_e49, row_7, lane_3, first_5, thread_, arena, weights0_, staged, staged_sums, args, _buffer_sizes);
        sums = _e50;
    }
    uint _e51 = which;
    if (_e51 == 1u) {
        Part _e56 = args.part1_;
        part = _e56;
        Part _e57 = part;
        type_7 _e58 = sums1_(_e57, row_7, lane_3, first_5, thread_, arena, weights1_, staged, staged_sums, args, _buffer_sizes);
        sums = _e58;
    }
    uint _e59 = which;
    if (_e59 == 2u) {
        Part _e64 = args.part2_;
        part = _e64;
        Part _e65 = part;
        type_7 _e66 = sums2_(_e65, row_7, lane_3, first_5, thread_, arena, weights2_, staged, staged_sums, args, _buffer_sizes);
        sums = _e66;
    }
    bool loop_init_10 = true;
    while(true) {
        if (!loop_init_10) {
            uint _e139 = i;
            i = _e139 + 1u;
        }
        loop_init_10 = false;
        uint _e69 = i;
        if (_e69 < SUMS) {
        } else {
            break;
        }
        {
            uint _e72 = i;
            float _e74 = sums.inner[metal::min(unsigned(_e72), 7u)];
            float _e75 = lane_sum(_e74, thread_);
            uint _e76 = i;
            uint own = row_7 + naga_div(_e76, TOKENS);
            uint _e80 = i;
            uint token_1 = first_5 + naga_mod(_e80, TOKENS);
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
                local_1 = token_1 < _e99;
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
                uint at_12 = (_e115 + (token_1 * _e117)) + own;
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
