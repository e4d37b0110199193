// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
};

typedef float type_2[1];
typedef uint type_3[1];
struct type_4 {
    float inner[8];
};
struct Args {
    uint query;
    uint key;
    uint value;
    uint mixed;
    uint bonus;
    uint heads;
    uint head_dim;
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

float vector(
    uint at,
    device type_3 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vectors[metal::min(unsigned(at), (_buffer_sizes.size1 - 0 - 4) / 4)];
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

float workgroup_sum(
    float x_1,
    uint thread_2,
    threadgroup type_4& reduced
) {
    float sum_1 = 0.0;
    uint part = 0u;
    float _e2 = lane_sum(x_1, thread_2);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (naga_mod(thread_2, LANES) == 0u) {
        reduced.inner[metal::min(unsigned(naga_div(thread_2, LANES)), 7u)] = _e2;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e25 = part;
            part = _e25 + 1u;
        }
        loop_init_1 = false;
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

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& vectors [[buffer(4)]]
, threadgroup type_4& reduced
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    float passes = 0.0;
    uint i = {};
    uint i_1 = {};
    uint _e5 = args.heads;
    uint _e11 = args.head_dim;
    uint at_1 = ((group.y * _e5) + group.x) * _e11;
    i = thread_;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e55 = i;
            i = _e55 + THREADS;
        }
        loop_init_2 = false;
        uint _e16 = i;
        uint _e19 = args.head_dim;
        if (_e16 < _e19) {
        } else {
            break;
        }
        {
            float _e21 = passes;
            uint _e25 = args.query;
            uint _e27 = i;
            float _e30 = arena[metal::min(unsigned((_e25 + at_1) + _e27), (_buffer_sizes.size0 - 0 - 4) / 4)];
            uint _e34 = args.key;
            uint _e36 = i;
            float _e39 = arena[metal::min(unsigned((_e34 + at_1) + _e36), (_buffer_sizes.size0 - 0 - 4) / 4)];
            uint _e43 = args.bonus;
            uint _e47 = args.head_dim;
            uint _e50 = i;
            float _e52 = vector((_e43 + (group.x * _e47)) + _e50, vectors, _buffer_sizes);
            passes = _e21 + ((_e30 * _e39) * _e52);
        }
    }
    float _e58 = passes;
    float _e59 = workgroup_sum(_e58, thread_, reduced);
    passes = _e59;
    i_1 = thread_;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e87 = i_1;
            i_1 = _e87 + THREADS;
        }
        loop_init_3 = false;
        uint _e61 = i_1;
        uint _e64 = args.head_dim;
        if (_e61 < _e64) {
        } else {
            break;
        }
        {
            uint _e69 = args.mixed;
            uint _e71 = i_1;
            float _e74 = arena[metal::min(unsigned((_e69 + at_1) + _e71), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e75 = passes;
            uint _e79 = args.value;
            uint _e81 = i_1;
            float _e84 = arena[metal::min(unsigned((_e79 + at_1) + _e81), (_buffer_sizes.size0 - 0 - 4) / 4)];
            arena[metal::min(unsigned((_e69 + at_1) + _e71), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e74 + (_e75 * _e84);
        }
    }
    return;
}
