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
constant uint TILE_RUNS = 64u;
constant uint RUN_TOKENS = 1u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);
constant bool HAS_LESS = false;
constant uint SUMS = 4u;

float vector(
    uint at,
    device type_5 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vectors[metal::min(unsigned(at), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return as_type<float>(_e3);
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

Run staged_run(
    uint token,
    uint run,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums
) {
    uint at_2 = (8u * token) * TILE_RUNS;
    metal::float4 _e9 = staged.inner[metal::min(unsigned(at_2 + run), 511u)];
    metal::float4 _e17 = staged.inner[metal::min(unsigned((at_2 + TILE_RUNS) + (run ^ 1u)), 511u)];
    metal::float4 _e25 = staged.inner[metal::min(unsigned((at_2 + 128u) + (run ^ 2u)), 511u)];
    metal::float4 _e33 = staged.inner[metal::min(unsigned((at_2 + 192u) + (run ^ 3u)), 511u)];
    metal::float4 _e41 = staged.inner[metal::min(unsigned((at_2 + 256u) + (run ^ 4u)), 511u)];
    metal::float4 _e49 = staged.inner[metal::min(unsigned((at_2 + 320u) + (run ^ 5u)), 511u)];
    metal::float4 _e57 = staged.inner[metal::min(unsigned((at_2 + 384u) + (run ^ 6u)), 511u)];
    metal::float4 _e65 = staged.inner[metal::min(unsigned((at_2 + 448u) + (run ^ 7u)), 511u)];
    float _e71 = staged_sums.inner[metal::min(unsigned((token * TILE_RUNS) + run), 63u)];
    return Run {_e9, _e17, _e25, _e33, _e41, _e49, _e57, _e65, _e71};
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
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

metal::float4 bf16_four0_(
    metal::uint2 words
) {
    metal::uint2 even = words << metal::uint2(16u);
    metal::uint2 odd = words & metal::uint2(4294901760u);
    return as_type<metal::float4>(metal::uint4(even.x, odd.x, even.y, odd.y));
}

Codes codes0_(
    uint row,
    uint run_1,
    device type_4 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint at_3 = naga_div(row + (64u * run_1), 16u);
    metal::uint4 first_2 = weights0_[metal::min(unsigned(at_3), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 second_1 = weights0_[metal::min(unsigned(at_3 + 1u), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 third = weights0_[metal::min(unsigned(at_3 + 2u), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::uint4 fourth = weights0_[metal::min(unsigned(at_3 + 3u), (_buffer_sizes.size1 - 0 - 16) / 16)];
    metal::float4 _e26 = bf16_four0_(first_2.xy);
    metal::float4 _e28 = bf16_four0_(first_2.zw);
    metal::float4 _e30 = bf16_four0_(second_1.xy);
    metal::float4 _e32 = bf16_four0_(second_1.zw);
    metal::float4 _e34 = bf16_four0_(third.xy);
    metal::float4 _e36 = bf16_four0_(third.zw);
    metal::float4 _e38 = bf16_four0_(fourth.xy);
    metal::float4 _e40 = bf16_four0_(fourth.zw);
    return Codes {_e26, _e28, _e30, _e32, _e34, _e36, _e38, _e40, metal::float2(1.0), 0.0};
}

type_13 sums0_(
    Part part_1,
    uint row_1,
    uint lane,
    uint first,
    uint thread_3,
    device type_2 const& arena,
    device type_4 const& weights0_,
    threadgroup type_11& staged,
    threadgroup type_12& staged_sums,
    constant Args& args,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 sums_1 = metal::float4(0.0);
    uint tile = 0u;
    uint i_3 = {};
    metal::uint4 at_4 = metal::uint4(part_1.at) + (metal::min(metal::uint4(row_1) + metal::uint4(0u, 1u, 2u, 3u), metal::uint4(part_1.rows - 1u)) * part_1.row_bytes);
    uint _e27 = args.columns;
    uint runs_1 = naga_div(_e27, 32u);
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e90 = tile;
            tile = _e90 + TILE_RUNS;
        }
        loop_init_4 = false;
        uint _e32 = tile;
        if (_e32 < runs_1) {
        } else {
            break;
        }
        {
            uint _e35 = tile;
            uint here = metal::min(TILE_RUNS, runs_1 - _e35);
            uint _e40 = args.from_at;
            uint _e43 = args.columns;
            uint _e47 = tile;
            uint _e52 = args.columns;
            stage((_e40 + (first * _e43)) + (32u * _e47), _e52, 1u, here, thread_3, arena, staged, staged_sums, _buffer_sizes);
            i_3 = lane;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e87 = i_3;
                    i_3 = _e87 + LANES;
                }
                loop_init_5 = false;
                uint _e55 = i_3;
                if (_e55 < here) {
                } else {
                    break;
                }
                {
                    uint _e58 = i_3;
                    Run _e59 = staged_run(0u, _e58, staged, staged_sums);
                    metal::float4 _e60 = sums_1;
                    uint _e62 = tile;
                    uint _e63 = i_3;
                    Codes _e65 = codes0_(at_4.x, _e62 + _e63, weights0_, _buffer_sizes);
                    float _e66 = meet(_e65, _e59);
                    uint _e68 = tile;
                    uint _e69 = i_3;
                    Codes _e71 = codes0_(at_4.y, _e68 + _e69, weights0_, _buffer_sizes);
                    float _e72 = meet(_e71, _e59);
                    uint _e74 = tile;
                    uint _e75 = i_3;
                    Codes _e77 = codes0_(at_4.z, _e74 + _e75, weights0_, _buffer_sizes);
                    float _e78 = meet(_e77, _e59);
                    uint _e80 = tile;
                    uint _e81 = i_3;
                    Codes _e83 = codes0_(at_4.w, _e80 + _e81, weights0_, _buffer_sizes);
                    float _e84 = meet(_e83, _e59);
                    sums_1 = _e60 + metal::float4(_e66, _e72, _e78, _e84);
                }
            }
        }
    }
    float _e94 = sums_1.x;
    float _e96 = sums_1.y;
    float _e98 = sums_1.z;
    float _e100 = sums_1.w;
    return type_13 {{_e94, _e96, _e98, _e100}};
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
    uint block = {};
    uint which = 0u;
    Part part = {};
    type_13 sums = {};
    uint i = 0u;
    bool local = {};
    bool local_1 = {};
    float y = {};
    uint first_3 = TOKENS * group.y;
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
        type_13 _e50 = sums0_(_e49, row_3, lane_1, first_3, thread_, arena, weights0_, staged, staged_sums, args, _buffer_sizes);
        sums = _e50;
    }
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e123 = i;
            i = _e123 + 1u;
        }
        loop_init_6 = false;
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
            uint token_1 = first_3 + naga_mod(_e64, TOKENS);
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
                local_1 = token_1 < _e83;
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
                uint at_5 = (_e99 + (token_1 * _e101)) + own;
                uint _e107 = args.adds;
                if (_e107 != 0u) {
                    float _e112 = arena[metal::min(unsigned(at_5), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e115 = args.added;
                    float _e116 = y;
                    y = _e112 + (_e115 * _e116);
                }
                float _e121 = y;
                arena[metal::min(unsigned(at_5), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e121;
            }
        }
    }
    return;
}
