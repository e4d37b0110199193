// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
};

typedef float type_2[1];
struct type_3 {
    float inner[8];
};
struct Args {
    uint from_at;
    uint to;
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

float lane_max(
    float x_1
) {
    float most = {};
    uint step_1 = 16u;
    most = x_1;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e12 = step_1;
            step_1 = naga_div(_e12, 2u);
        }
        loop_init_1 = false;
        uint _e4 = step_1;
        if (_e4 > 0u) {
        } else {
            break;
        }
        {
            float _e7 = most;
            float _e8 = most;
            uint _e9 = step_1;
            float unnamed_1 = metal::simd_shuffle_xor(_e8, _e9);
            most = metal::max(_e7, unnamed_1);
        }
    }
    float _e15 = most;
    return _e15;
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

float workgroup_sum(
    float x_2,
    uint thread_2,
    threadgroup type_3& reduced
) {
    float sum_1 = 0.0;
    uint part = 0u;
    float _e2 = lane_sum(x_2, thread_2);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (naga_mod(thread_2, LANES) == 0u) {
        reduced.inner[metal::min(unsigned(naga_div(thread_2, LANES)), 7u)] = _e2;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e25 = part;
            part = _e25 + 1u;
        }
        loop_init_2 = false;
        uint _e15 = part;
        if (_e15 < PARTS_REDUCED) {
        } else {
            break;
        }
        {
            float _e18 = sum_1;
            uint _e20 = part;
            float _e22 = reduced.inner[metal::min(unsigned(_e20), 7u)];
            sum_1 = _e18 + _e22;
        }
    }
    float _e27 = sum_1;
    return _e27;
}

float workgroup_max(
    float x_3,
    uint thread_3,
    threadgroup type_3& reduced
) {
    float most_1 = LEAST;
    uint part_1 = 0u;
    float _e2 = lane_max(x_3);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (naga_mod(thread_3, LANES) == 0u) {
        reduced.inner[metal::min(unsigned(naga_div(thread_3, LANES)), 7u)] = _e2;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e25 = part_1;
            part_1 = _e25 + 1u;
        }
        loop_init_3 = false;
        uint _e15 = part_1;
        if (_e15 < PARTS_REDUCED) {
        } else {
            break;
        }
        {
            float _e18 = most_1;
            uint _e20 = part_1;
            float _e22 = reduced.inner[metal::min(unsigned(_e20), 7u)];
            most_1 = metal::max(_e18, _e22);
        }
    }
    float _e27 = most_1;
    return _e27;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, threadgroup type_3& reduced
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint _e4 = args.from_at;
    float x_4 = arena[metal::min(unsigned(_e4 + thread_), (_buffer_sizes.size0 - 0 - 4) / 4)];
    uint _e11 = args.to;
    float _e14 = lane_sum(x_4, thread_);
    arena[metal::min(unsigned(_e11 + thread_), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e14;
    uint _e18 = args.to;
    float _e23 = workgroup_sum(x_4, thread_, reduced);
    arena[metal::min(unsigned((_e18 + THREADS) + thread_), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e23;
    uint _e27 = args.to;
    float _e32 = workgroup_max(x_4, thread_, reduced);
    arena[metal::min(unsigned((_e27 + 512u) + thread_), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e32;
    return;
}
