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
struct type_13 {
    float inner[4];
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
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
    device type_5 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_2 = (table + (12u * expert)) + (4u * which);
    uint _e11 = vectors[metal::min(unsigned(at_2), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e16 = vectors[metal::min(unsigned(at_2 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e21 = vectors[metal::min(unsigned(at_2 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e26 = vectors[metal::min(unsigned(at_2 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return Matrix {_e11, _e16, _e21, _e26};
}

Run staged_run(
    uint token,
    uint run,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums
) {
    uint at_3 = (8u * token) * TILE_RUNS;
    metal::float4 _e9 = staged.inner[metal::min(unsigned(at_3 + run), 511u)];
    metal::float4 _e17 = staged.inner[metal::min(unsigned((at_3 + TILE_RUNS) + (run ^ 1u)), 511u)];
    metal::float4 _e25 = staged.inner[metal::min(unsigned((at_3 + 128u) + (run ^ 2u)), 511u)];
    metal::float4 _e33 = staged.inner[metal::min(unsigned((at_3 + 192u) + (run ^ 3u)), 511u)];
    metal::float4 _e41 = staged.inner[metal::min(unsigned((at_3 + 256u) + (run ^ 4u)), 511u)];
    metal::float4 _e49 = staged.inner[metal::min(unsigned((at_3 + 320u) + (run ^ 5u)), 511u)];
    metal::float4 _e57 = staged.inner[metal::min(unsigned((at_3 + 384u) + (run ^ 6u)), 511u)];
    metal::float4 _e65 = staged.inner[metal::min(unsigned((at_3 + 448u) + (run ^ 7u)), 511u)];
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
            uint row_2 = at_1 + (metal::min(_e10, tokens - 1u) * stride);
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
                    uint start = row_2 + (4u * _e22);
                    uint _e25 = i_1;
                    uint k_1 = naga_mod(_e25, 8u);
                    uint _e30 = t;
                    uint _e35 = i_1;
                    float _e43 = arena[metal::min(unsigned(start), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e48 = arena[metal::min(unsigned(start + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e53 = arena[metal::min(unsigned(start + 2u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e58 = arena[metal::min(unsigned(start + 3u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    staged.inner[metal::min(unsigned((((8u * _e30) + k_1) * TILE_RUNS) + (naga_div(_e35, 8u) ^ k_1)), 511u)] = metal::float4(_e43, _e48, _e53, _e58);
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
    Run x_1
) {
    float first_1 = (metal::dot(w.a, x_1.a) + metal::dot(w.b, x_1.b)) + (metal::dot(w.c, x_1.c) + metal::dot(w.d, x_1.d));
    float second = (metal::dot(w.e, x_1.e) + metal::dot(w.f, x_1.f)) + (metal::dot(w.g, x_1.g) + metal::dot(w.h, x_1.h));
    float all_1 = (w.scale.x * first_1) + (w.scale.y * second);
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

Codes codes0_(
    uint row,
    uint run_1,
    device type_4 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block = naga_div(row + (144u * naga_div(run_1, 8u)), 16u);
    uint sub_1 = naga_mod(run_1, 8u);
    metal::uint4 header_1 = weights0_[metal::min(unsigned(block), (_buffer_sizes.size1 - 0 - 16) / 16)];
    uint at_4 = (block + 1u) + (2u * naga_div(sub_1, 2u));
    metal::uint4 shift_1 = metal::uint4(4u * naga_mod(sub_1, 2u));
    metal::uint4 _e28 = weights0_[metal::min(unsigned(at_4), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 low_2 = (_e28 >> shift_1) & metal::uint4(252645135u);
    metal::uint4 _e37 = weights0_[metal::min(unsigned(at_4 + 1u), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 high_2 = (_e37 >> shift_1) & metal::uint4(252645135u);
    metal::float2 _e43 = affine(header_1.yzw, sub_1);
    float _e47 = half_(header_1.x & 65535u);
    float _e53 = half_(header_1.x >> 16u);
    Codes _e56 = unsigned_codes(low_2, high_2, _e47 * _e43.x, _e53 * _e43.y);
    return _e56;
}

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}

float share_of(
    uint token_1,
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
    float _e17 = arena[metal::min(unsigned((_e8 + (token_1 * _e11)) + naga_f2u32(expert_1)), (_buffer_sizes.size0 - 0 - 4) / 4)];
    return _e17;
}

type_13 mixed(
    uint token_2,
    uint row_1,
    uint lane,
    uint thread_3,
    device type_2 const& arena,
    device type_4 const& weights0_,
    device type_5 const& vectors,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 sums_1 = metal::float4(0.0);
    uint k = 0u;
    metal::float4 part = {};
    uint tile = {};
    uint i_3 = {};
    bool local_1 = {};
    bool local_2 = {};
    bool local_3 = {};
    uint _e16 = args.hidden;
    metal::uint4 own = metal::min(metal::uint4(row_1) + metal::uint4(0u, 1u, 2u, 3u), metal::uint4(_e16 - 1u));
    uint _e23 = args.width;
    uint runs_1 = naga_div(_e23, 32u);
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e169 = k;
            k = _e169 + 1u;
        }
        loop_init_4 = false;
        uint _e28 = k;
        uint _e31 = args.wanted;
        if (_e28 < _e31) {
        } else {
            break;
        }
        {
            uint _e35 = args.wanted;
            uint _e37 = k;
            uint pair = (token_2 * _e35) + _e37;
            uint _e42 = args.chosen;
            float expert_2 = arena[metal::min(unsigned(_e42 + pair), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e46 = share_of(token_2, expert_2, arena, args, _buffer_sizes);
            uint _e49 = args.table;
            Matrix _e54 = matrix_of(_e49, naga_f2u32(metal::max(expert_2, 0.0)), 2u, vectors, _buffer_sizes);
            metal::uint4 rows = metal::uint4(_e54.at) + (own * _e54.row_bytes);
            part = metal::float4(0.0);
            tile = 0u;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e127 = tile;
                    tile = _e127 + TILE_RUNS;
                }
                loop_init_5 = false;
                uint _e65 = tile;
                if (_e65 < runs_1) {
                } else {
                    break;
                }
                {
                    uint _e68 = tile;
                    uint here = metal::min(TILE_RUNS, runs_1 - _e68);
                    uint _e73 = args.wide;
                    uint _e76 = args.width;
                    uint _e80 = tile;
                    stage((_e73 + (pair * _e76)) + (32u * _e80), 0u, 1u, here, thread_3, arena, staged, staged_sums, _buffer_sizes);
                    i_3 = lane;
                    bool loop_init_6 = true;
                    while(true) {
                        if (!loop_init_6) {
                            uint _e124 = i_3;
                            i_3 = _e124 + LANES;
                        }
                        loop_init_6 = false;
                        if (_e46 != 0.0) {
                            uint _e90 = i_3;
                            local_1 = _e90 < here;
                        } else {
                            local_1 = false;
                        }
                        bool _e93 = local_1;
                        if (_e93) {
                        } else {
                            break;
                        }
                        {
                            uint _e95 = i_3;
                            Run _e96 = staged_run(0u, _e95, staged, staged_sums);
                            metal::float4 _e97 = part;
                            uint _e99 = tile;
                            uint _e100 = i_3;
                            Codes _e102 = codes0_(rows.x, _e99 + _e100, weights0_, _buffer_sizes);
                            float _e103 = meet(_e102, _e96);
                            uint _e105 = tile;
                            uint _e106 = i_3;
                            Codes _e108 = codes0_(rows.y, _e105 + _e106, weights0_, _buffer_sizes);
                            float _e109 = meet(_e108, _e96);
                            uint _e111 = tile;
                            uint _e112 = i_3;
                            Codes _e114 = codes0_(rows.z, _e111 + _e112, weights0_, _buffer_sizes);
                            float _e115 = meet(_e114, _e96);
                            uint _e117 = tile;
                            uint _e118 = i_3;
                            Codes _e120 = codes0_(rows.w, _e117 + _e118, weights0_, _buffer_sizes);
                            float _e121 = meet(_e120, _e96);
                            part = _e97 + metal::float4(_e103, _e109, _e115, _e121);
                        }
                    }
                }
            }
            if (lane == 0u) {
                local_2 = _e46 != 0.0;
            } else {
                local_2 = false;
            }
            bool _e137 = local_2;
            if (_e137) {
                local_3 = _e54.bias != NOTHING;
            } else {
                local_3 = false;
            }
            bool _e144 = local_3;
            if (_e144) {
                metal::float4 _e145 = part;
                float _e149 = vector(_e54.bias + own.x, vectors, _buffer_sizes);
                float _e153 = vector(_e54.bias + own.y, vectors, _buffer_sizes);
                float _e157 = vector(_e54.bias + own.z, vectors, _buffer_sizes);
                float _e161 = vector(_e54.bias + own.w, vectors, _buffer_sizes);
                part = _e145 + metal::float4(_e149, _e153, _e157, _e161);
            }
            metal::float4 _e164 = sums_1;
            metal::float4 _e165 = part;
            sums_1 = _e164 + (_e46 * _e165);
        }
    }
    float _e172 = sums_1.x;
    float _e174 = sums_1.y;
    float _e176 = sums_1.z;
    float _e178 = sums_1.w;
    return type_13 {{_e172, _e174, _e176, _e178}};
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(128)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_4 const& weights0_ [[buffer(1)]]
, device type_5 const& vectors [[buffer(4)]]
, threadgroup type_11& staged
, threadgroup type_12& staged_sums
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    type_13 sums = {};
    uint i = 0u;
    bool local = {};
    uint lane_1 = naga_mod(thread_, LANES);
    uint row_3 = (EXPERT_DOWN_ROWS * group.x) + (EACH_EXPERT_DOWN * naga_div(thread_, LANES));
    type_13 _e13 = mixed(group.y, row_3, lane_1, thread_, arena, weights0_, vectors, staged, staged_sums, args, _buffer_sizes);
    sums = _e13;
    bool loop_init_7 = true;
    while(true) {
        if (!loop_init_7) {
            uint _e53 = i;
            i = _e53 + 1u;
        }
        loop_init_7 = false;
        uint _e17 = i;
        if (_e17 < EACH_EXPERT_DOWN) {
        } else {
            break;
        }
        {
            uint _e20 = i;
            float _e22 = sums.inner[metal::min(unsigned(_e20), 3u)];
            float _e23 = lane_sum(_e22, thread_);
            uint _e24 = i;
            uint own_1 = row_3 + _e24;
            uint _e26 = i;
            if (lane_1 == naga_mod(_e26, LANES)) {
                uint _e34 = args.hidden;
                local = own_1 < _e34;
            } else {
                local = false;
            }
            bool _e37 = local;
            if (_e37) {
                uint _e41 = args.mixture;
                uint _e45 = args.hidden;
                float _e50 = arena[metal::min(unsigned((_e41 + (group.y * _e45)) + own_1), (_buffer_sizes.size0 - 0 - 4) / 4)];
                arena[metal::min(unsigned((_e41 + (group.y * _e45)) + own_1), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e50 + _e23;
            }
        }
    }
    return;
}
