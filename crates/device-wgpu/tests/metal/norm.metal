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
    uint from_at;
    uint to;
    uint from_row;
    uint to_row;
    uint width;
    uint weight;
    uint weights;
    uint bias;
    uint is_layer;
    float epsilon;
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
    float sum_1 = {};
    uint step = 16u;
    sum_1 = x;
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
            float _e8 = sum_1;
            float _e9 = sum_1;
            uint _e10 = step;
            float unnamed = metal::simd_shuffle_xor(_e9, _e10);
            sum_1 = _e8 + unnamed;
        }
    }
    float _e16 = sum_1;
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
    float sum_2 = 0.0;
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
            float _e18 = sum_2;
            uint _e20 = part;
            float _e22 = reduced.inner[metal::min(unsigned(_e20), 7u)];
            sum_2 = _e18 + _e22;
        }
    }
    float _e27 = sum_2;
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
    float mean = 0.0;
    float sum = 0.0;
    uint i = {};
    float squares = 0.0;
    uint i_1 = {};
    uint i_2 = {};
    float y = {};
    uint _e5 = args.width;
    uint start = group.x * _e5;
    uint _e9 = args.from_at;
    uint _e13 = args.from_row;
    uint from_at = (_e9 + (group.y * _e13)) + start;
    uint _e19 = args.to;
    uint _e23 = args.to_row;
    uint to = (_e19 + (group.y * _e23)) + start;
    uint _e30 = args.weights;
    uint _e34 = args.width;
    uint weight = naga_mod(group.x, _e30) * _e34;
    uint _e40 = args.is_layer;
    if (_e40 != 0u) {
        i = thread_;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e58 = i;
                i = _e58 + THREADS;
            }
            loop_init_2 = false;
            uint _e46 = i;
            uint _e49 = args.width;
            if (_e46 < _e49) {
            } else {
                break;
            }
            {
                float _e51 = sum;
                uint _e53 = i;
                float _e56 = arena[metal::min(unsigned(from_at + _e53), (_buffer_sizes.size0 - 0 - 4) / 4)];
                sum = _e51 + _e56;
            }
        }
        float _e61 = sum;
        float _e62 = workgroup_sum(_e61, thread_, reduced);
        uint _e65 = args.width;
        mean = _e62 / static_cast<float>(_e65);
    }
    i_1 = thread_;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e86 = i_1;
            i_1 = _e86 + THREADS;
        }
        loop_init_3 = false;
        uint _e71 = i_1;
        uint _e74 = args.width;
        if (_e71 < _e74) {
        } else {
            break;
        }
        {
            uint _e77 = i_1;
            float _e80 = arena[metal::min(unsigned(from_at + _e77), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e81 = mean;
            float x_2 = _e80 - _e81;
            float _e83 = squares;
            squares = _e83 + (x_2 * x_2);
        }
    }
    float _e89 = squares;
    float _e90 = workgroup_sum(_e89, thread_, reduced);
    uint _e93 = args.width;
    float _e98 = args.epsilon;
    float factor = 1.0 / metal::sqrt((_e90 / static_cast<float>(_e93)) + _e98);
    i_2 = thread_;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e145 = i_2;
            i_2 = _e145 + THREADS;
        }
        loop_init_4 = false;
        uint _e104 = i_2;
        uint _e107 = args.width;
        if (_e104 < _e107) {
        } else {
            break;
        }
        {
            uint _e110 = i_2;
            float _e113 = arena[metal::min(unsigned(from_at + _e110), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e114 = mean;
            uint _e119 = args.weight;
            uint _e121 = i_2;
            float _e123 = vector((_e119 + weight) + _e121, vectors, _buffer_sizes);
            y = ((_e113 - _e114) * factor) * _e123;
            uint _e128 = args.bias;
            if (_e128 != NOTHING) {
                float _e131 = y;
                uint _e134 = args.bias;
                uint _e136 = i_2;
                float _e138 = vector((_e134 + weight) + _e136, vectors, _buffer_sizes);
                y = _e131 + _e138;
            }
            uint _e141 = i_2;
            float _e144 = y;
            arena[metal::min(unsigned(to + _e141), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e144;
        }
    }
    return;
}
