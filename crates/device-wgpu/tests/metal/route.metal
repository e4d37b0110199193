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
struct type_5 {
    float inner[8];
};
struct Args {
    uint scores;
    uint chosen;
    uint mixture;
    uint bias;
    uint count;
    uint wanted;
    uint scoring;
    uint groups;
    uint groups_kept;
    uint is_two_best;
    uint is_normalised;
    float plus;
    float scale;
    uint hidden;
};
struct type_6 {
    float inner[1024];
};
struct type_7 {
    uint inner[1024];
};
struct type_8 {
    float inner[64];
};
struct type_9 {
    float inner[256];
};
struct type_10 {
    uint inner[256];
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

bool is_nan(
    float x
) {
    return (as_type<uint>(x) & 2147483647u) > 2139095040u;
}

float sigmoid(
    float x_1
) {
    return 1.0 / (1.0 + metal::exp(-(metal::clamp(x_1, -87.0, 87.0))));
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lane_sum(
    float x_2,
    uint thread_1
) {
    float sum_1 = {};
    uint step = 16u;
    sum_1 = x_2;
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

float lane_max(
    float x_3
) {
    float most_1 = {};
    uint step_1 = 16u;
    most_1 = x_3;
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
            float _e7 = most_1;
            float _e8 = most_1;
            uint _e9 = step_1;
            float unnamed_1 = metal::simd_shuffle_xor(_e8, _e9);
            most_1 = metal::max(_e7, unnamed_1);
        }
    }
    float _e15 = most_1;
    return _e15;
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

float workgroup_sum(
    float x_4,
    uint thread_2,
    threadgroup type_5& reduced
) {
    float sum_2 = 0.0;
    uint part = 0u;
    float _e2 = lane_sum(x_4, thread_2);
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
            float _e18 = sum_2;
            uint _e20 = part;
            float _e22 = reduced.inner[metal::min(unsigned(_e20), 7u)];
            sum_2 = _e18 + _e22;
        }
    }
    float _e27 = sum_2;
    return _e27;
}

float workgroup_max(
    float x_5,
    uint thread_3,
    threadgroup type_5& reduced
) {
    float most_2 = LEAST;
    uint part_1 = 0u;
    float _e2 = lane_max(x_5);
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
            float _e18 = most_2;
            uint _e20 = part_1;
            float _e22 = reduced.inner[metal::min(unsigned(_e20), 7u)];
            most_2 = metal::max(_e18, _e22);
        }
    }
    float _e27 = most_2;
    return _e27;
}

void keep_groups(
    uint thread_4,
    constant Args& args,
    threadgroup type_6& keys,
    threadgroup type_8& ranks
) {
    uint group_1 = {};
    float first = {};
    float second = {};
    uint i_6 = {};
    uint group_2 = {};
    uint better = {};
    uint other = {};
    bool local = {};
    bool local_1 = {};
    uint i_7 = {};
    uint _e3 = args.groups;
    if (_e3 == 0u) {
        return;
    }
    uint _e8 = args.count;
    uint _e11 = args.groups;
    uint size = naga_div(_e8, _e11);
    group_1 = thread_4;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e65 = group_1;
            group_1 = _e65 + THREADS;
        }
        loop_init_4 = false;
        uint _e14 = group_1;
        uint _e17 = args.groups;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            first = LEAST;
            second = LEAST;
            uint _e23 = group_1;
            i_6 = _e23 * size;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e50 = i_6;
                    i_6 = _e50 + 1u;
                }
                loop_init_5 = false;
                uint _e26 = i_6;
                uint _e27 = group_1;
                if (_e26 < ((_e27 + 1u) * size)) {
                } else {
                    break;
                }
                {
                    uint _e33 = i_6;
                    float _e35 = keys.inner[metal::min(unsigned(_e33), 1023u)];
                    float _e36 = first;
                    if (_e35 > _e36) {
                        float _e38 = first;
                        second = _e38;
                        uint _e40 = i_6;
                        float _e42 = keys.inner[metal::min(unsigned(_e40), 1023u)];
                        first = _e42;
                    } else {
                        float _e43 = second;
                        uint _e45 = i_6;
                        float _e47 = keys.inner[metal::min(unsigned(_e45), 1023u)];
                        second = metal::max(_e43, _e47);
                    }
                }
            }
            uint _e53 = group_1;
            float _e55 = first;
            float _e56 = first;
            float _e57 = second;
            uint _e61 = args.is_two_best;
            ranks.inner[metal::min(unsigned(_e53), 63u)] = (_e61 != 0u) ? (_e56 + _e57) : _e55;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    group_2 = thread_4;
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e140 = group_2;
            group_2 = _e140 + THREADS;
        }
        loop_init_6 = false;
        uint _e69 = group_2;
        uint _e72 = args.groups;
        if (_e69 < _e72) {
        } else {
            break;
        }
        {
            better = 0u;
            other = 0u;
            bool loop_init_7 = true;
            while(true) {
                if (!loop_init_7) {
                    uint _e117 = other;
                    other = _e117 + 1u;
                }
                loop_init_7 = false;
                uint _e78 = other;
                uint _e81 = args.groups;
                if (_e78 < _e81) {
                } else {
                    break;
                }
                {
                    uint _e84 = other;
                    float _e86 = ranks.inner[metal::min(unsigned(_e84), 63u)];
                    uint _e88 = group_2;
                    float _e90 = ranks.inner[metal::min(unsigned(_e88), 63u)];
                    if (!((_e86 > _e90))) {
                        uint _e96 = other;
                        float _e98 = ranks.inner[metal::min(unsigned(_e96), 63u)];
                        uint _e100 = group_2;
                        float _e102 = ranks.inner[metal::min(unsigned(_e100), 63u)];
                        if (_e98 == _e102) {
                            uint _e106 = other;
                            uint _e107 = group_2;
                            local_1 = _e106 < _e107;
                        } else {
                            local_1 = false;
                        }
                        bool _e110 = local_1;
                        local = _e110;
                    } else {
                        local = true;
                    }
                    bool _e112 = local;
                    if (_e112) {
                        uint _e114 = better;
                        better = _e114 + 1u;
                    }
                }
            }
            uint _e119 = better;
            uint _e122 = args.groups_kept;
            if (_e119 >= _e122) {
                uint _e124 = group_2;
                i_7 = _e124 * size;
                bool loop_init_8 = true;
                while(true) {
                    if (!loop_init_8) {
                        uint _e138 = i_7;
                        i_7 = _e138 + 1u;
                    }
                    loop_init_8 = false;
                    uint _e127 = i_7;
                    uint _e128 = group_2;
                    if (_e127 < ((_e128 + 1u) * size)) {
                    } else {
                        break;
                    }
                    {
                        uint _e134 = i_7;
                        keys.inner[metal::min(unsigned(_e134), 1023u)] = LEAST;
                    }
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

void take_best(
    uint thread_5,
    constant Args& args,
    threadgroup type_6& keys,
    threadgroup type_7& taken,
    threadgroup type_9& best_keys,
    threadgroup type_10& best_places
) {
    uint place = NOTHING;
    float most_3 = 0.0;
    uint i_8 = {};
    bool local_2 = {};
    bool local_3 = {};
    uint width = 128u;
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    i_8 = thread_5;
    bool loop_init_9 = true;
    while(true) {
        if (!loop_init_9) {
            uint _e40 = i_8;
            i_8 = _e40 + THREADS;
        }
        loop_init_9 = false;
        uint _e6 = i_8;
        uint _e9 = args.count;
        if (_e6 < _e9) {
        } else {
            break;
        }
        {
            uint _e12 = i_8;
            uint _e14 = taken.inner[metal::min(unsigned(_e12), 1023u)];
            if (_e14 == 0u) {
                uint _e19 = place;
                if (!((_e19 == NOTHING))) {
                    uint _e26 = i_8;
                    float _e28 = keys.inner[metal::min(unsigned(_e26), 1023u)];
                    float _e29 = most_3;
                    local_3 = _e28 > _e29;
                } else {
                    local_3 = true;
                }
                bool _e32 = local_3;
                local_2 = _e32;
            } else {
                local_2 = false;
            }
            bool _e34 = local_2;
            if (_e34) {
                uint _e35 = i_8;
                place = _e35;
                uint _e37 = i_8;
                float _e39 = keys.inner[metal::min(unsigned(_e37), 1023u)];
                most_3 = _e39;
            }
        }
    }
    float _e45 = most_3;
    best_keys.inner[metal::min(unsigned(thread_5), 255u)] = _e45;
    uint _e48 = place;
    best_places.inner[metal::min(unsigned(thread_5), 255u)] = _e48;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_10 = true;
    while(true) {
        if (!loop_init_10) {
            uint _e101 = width;
            width = naga_div(_e101, 2u);
        }
        loop_init_10 = false;
        uint _e51 = width;
        if (_e51 > 0u) {
        } else {
            break;
        }
        {
            uint _e54 = width;
            if (thread_5 < _e54) {
                uint _e57 = width;
                uint place_1 = best_places.inner[metal::min(unsigned(thread_5 + _e57), 255u)];
                uint _e62 = width;
                float key_1 = best_keys.inner[metal::min(unsigned(thread_5 + _e62), 255u)];
                uint own_place = best_places.inner[metal::min(unsigned(thread_5), 255u)];
                float own_key = best_keys.inner[metal::min(unsigned(thread_5), 255u)];
                if (place_1 != NOTHING) {
                    if (!((own_place == NOTHING))) {
                        local_5 = key_1 > own_key;
                    } else {
                        local_5 = true;
                    }
                    bool _e83 = local_5;
                    if (!(_e83)) {
                        if (key_1 == own_key) {
                            local_7 = place_1 < own_place;
                        } else {
                            local_7 = false;
                        }
                        bool _e92 = local_7;
                        local_6 = _e92;
                    } else {
                        local_6 = true;
                    }
                    bool _e94 = local_6;
                    local_4 = _e94;
                } else {
                    local_4 = false;
                }
                bool _e96 = local_4;
                if (_e96) {
                    best_keys.inner[metal::min(unsigned(thread_5), 255u)] = key_1;
                    best_places.inner[metal::min(unsigned(thread_5), 255u)] = place_1;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    if (thread_5 == 0u) {
        uint _e110 = best_places.inner[0];
        local_8 = _e110 != NOTHING;
    } else {
        local_8 = false;
    }
    bool _e114 = local_8;
    if (_e114) {
        uint _e118 = best_places.inner[0];
        taken.inner[metal::min(unsigned(_e118), 1023u)] = 1u;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

void share(
    uint row,
    uint token,
    uint thread_6,
    device type_2& arena,
    threadgroup type_5& reduced,
    constant Args& args,
    threadgroup type_6& own,
    threadgroup type_7& taken,
    constant _mslBufferSizes& _buffer_sizes
) {
    float most_4 = LEAST;
    float sum_3 = 0.0;
    uint i_9 = {};
    float divisor = 1.0;
    uint i_10 = {};
    uint i_11 = {};
    uint i_12 = {};
    float weight = {};
    uint before = {};
    uint other_1 = {};
    i_9 = thread_6;
    bool loop_init_11 = true;
    while(true) {
        if (!loop_init_11) {
            uint _e31 = i_9;
            i_9 = _e31 + THREADS;
        }
        loop_init_11 = false;
        uint _e8 = i_9;
        uint _e11 = args.count;
        if (_e8 < _e11) {
        } else {
            break;
        }
        {
            uint _e14 = i_9;
            uint _e16 = taken.inner[metal::min(unsigned(_e14), 1023u)];
            if (_e16 != 0u) {
                float _e19 = most_4;
                uint _e21 = i_9;
                float _e23 = own.inner[metal::min(unsigned(_e21), 1023u)];
                most_4 = metal::max(_e19, _e23);
                float _e25 = sum_3;
                uint _e27 = i_9;
                float _e29 = own.inner[metal::min(unsigned(_e27), 1023u)];
                sum_3 = _e25 + _e29;
            }
        }
    }
    float _e34 = most_4;
    float _e35 = workgroup_max(_e34, thread_6, reduced);
    most_4 = _e35;
    float _e38 = sum_3;
    float _e39 = workgroup_sum(_e38, thread_6, reduced);
    sum_3 = _e39;
    uint _e42 = args.is_normalised;
    if (_e42 != 0u) {
        float _e45 = sum_3;
        float _e48 = args.plus;
        divisor = _e45 + _e48;
    }
    uint _e52 = args.scoring;
    if (_e52 == 2u) {
        sum_3 = 0.0;
        i_10 = thread_6;
        bool loop_init_12 = true;
        while(true) {
            if (!loop_init_12) {
                uint _e84 = i_10;
                i_10 = _e84 + THREADS;
            }
            loop_init_12 = false;
            uint _e57 = i_10;
            uint _e60 = args.count;
            if (_e57 < _e60) {
            } else {
                break;
            }
            {
                uint _e63 = i_10;
                uint _e65 = taken.inner[metal::min(unsigned(_e63), 1023u)];
                if (_e65 != 0u) {
                    uint _e69 = i_10;
                    uint _e72 = i_10;
                    float _e74 = own.inner[metal::min(unsigned(_e72), 1023u)];
                    float _e75 = most_4;
                    own.inner[metal::min(unsigned(_e69), 1023u)] = metal::exp(_e74 - _e75);
                    float _e78 = sum_3;
                    uint _e80 = i_10;
                    float _e82 = own.inner[metal::min(unsigned(_e80), 1023u)];
                    sum_3 = _e78 + _e82;
                }
            }
        }
        float _e87 = sum_3;
        float _e88 = workgroup_sum(_e87, thread_6, reduced);
        divisor = _e88;
    }
    uint _e91 = args.chosen;
    uint _e94 = args.wanted;
    uint chosen = _e91 + (token * _e94);
    i_11 = thread_6;
    bool loop_init_13 = true;
    while(true) {
        if (!loop_init_13) {
            uint _e113 = i_11;
            i_11 = _e113 + THREADS;
        }
        loop_init_13 = false;
        uint _e98 = i_11;
        uint _e101 = args.wanted;
        if (_e98 < _e101) {
        } else {
            break;
        }
        {
            uint _e103 = i_11;
            uint _e106 = args.count;
            if (_e103 >= _e106) {
                uint _e109 = i_11;
                arena[metal::min(unsigned(chosen + _e109), (_buffer_sizes.size0 - 0 - 4) / 4)] = -1.0;
            }
        }
    }
    i_12 = thread_6;
    bool loop_init_14 = true;
    while(true) {
        if (!loop_init_14) {
            uint _e167 = i_12;
            i_12 = _e167 + THREADS;
        }
        loop_init_14 = false;
        uint _e117 = i_12;
        uint _e120 = args.count;
        if (_e117 < _e120) {
        } else {
            break;
        }
        {
            weight = 0.0;
            uint _e125 = i_12;
            uint _e127 = taken.inner[metal::min(unsigned(_e125), 1023u)];
            if (_e127 != 0u) {
                uint _e131 = i_12;
                float _e133 = own.inner[metal::min(unsigned(_e131), 1023u)];
                float _e134 = divisor;
                float _e138 = args.scale;
                weight = (_e133 / _e134) * _e138;
                before = 0u;
                other_1 = 0u;
                bool loop_init_15 = true;
                while(true) {
                    if (!loop_init_15) {
                        uint _e154 = other_1;
                        other_1 = _e154 + 1u;
                    }
                    loop_init_15 = false;
                    uint _e144 = other_1;
                    uint _e145 = i_12;
                    if (_e144 < _e145) {
                    } else {
                        break;
                    }
                    {
                        uint _e147 = before;
                        uint _e149 = other_1;
                        uint _e151 = taken.inner[metal::min(unsigned(_e149), 1023u)];
                        before = _e147 + _e151;
                    }
                }
                uint _e157 = before;
                uint _e160 = i_12;
                arena[metal::min(unsigned(chosen + _e157), (_buffer_sizes.size0 - 0 - 4) / 4)] = static_cast<float>(_e160);
            }
            uint _e163 = i_12;
            float _e166 = weight;
            arena[metal::min(unsigned(row + _e163), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e166;
        }
    }
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& vectors [[buffer(4)]]
, threadgroup type_5& reduced
, constant Args& args [[buffer(7)]]
, threadgroup type_6& own
, threadgroup type_6& keys
, threadgroup type_7& taken
, threadgroup type_8& ranks
, threadgroup type_9& best_keys
, threadgroup type_10& best_places
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = {};
    float most = LEAST;
    uint i_1 = {};
    float sum = 0.0;
    uint i_2 = {};
    uint i_3 = {};
    uint i_4 = {};
    float key = {};
    uint i_5 = 0u;
    uint _e4 = args.scores;
    uint _e8 = args.count;
    uint row_1 = _e4 + (group.y * _e8);
    i = thread_;
    bool loop_init_16 = true;
    while(true) {
        if (!loop_init_16) {
            uint _e31 = i;
            i = _e31 + THREADS;
        }
        loop_init_16 = false;
        uint _e12 = i;
        uint _e15 = args.hidden;
        if (_e12 < _e15) {
        } else {
            break;
        }
        {
            uint _e20 = args.mixture;
            uint _e24 = args.hidden;
            uint _e27 = i;
            arena[metal::min(unsigned((_e20 + (group.y * _e24)) + _e27), (_buffer_sizes.size0 - 0 - 4) / 4)] = 0.0;
        }
    }
    i_1 = thread_;
    bool loop_init_17 = true;
    while(true) {
        if (!loop_init_17) {
            uint _e56 = i_1;
            i_1 = _e56 + THREADS;
        }
        loop_init_17 = false;
        uint _e37 = i_1;
        uint _e40 = args.count;
        if (_e37 < _e40) {
        } else {
            break;
        }
        {
            uint _e43 = i_1;
            uint _e46 = i_1;
            float _e49 = arena[metal::min(unsigned(row_1 + _e46), (_buffer_sizes.size0 - 0 - 4) / 4)];
            own.inner[metal::min(unsigned(_e43), 1023u)] = _e49;
            float _e50 = most;
            uint _e52 = i_1;
            float _e54 = own.inner[metal::min(unsigned(_e52), 1023u)];
            most = metal::max(_e50, _e54);
        }
    }
    uint _e61 = args.scoring;
    if (_e61 == 0u) {
        float _e64 = most;
        float _e65 = workgroup_max(_e64, thread_, reduced);
        most = _e65;
        i_2 = thread_;
        bool loop_init_18 = true;
        while(true) {
            if (!loop_init_18) {
                uint _e90 = i_2;
                i_2 = _e90 + THREADS;
            }
            loop_init_18 = false;
            uint _e69 = i_2;
            uint _e72 = args.count;
            if (_e69 < _e72) {
            } else {
                break;
            }
            {
                uint _e75 = i_2;
                uint _e78 = i_2;
                float _e80 = own.inner[metal::min(unsigned(_e78), 1023u)];
                float _e81 = most;
                own.inner[metal::min(unsigned(_e75), 1023u)] = metal::exp(_e80 - _e81);
                float _e84 = sum;
                uint _e86 = i_2;
                float _e88 = own.inner[metal::min(unsigned(_e86), 1023u)];
                sum = _e84 + _e88;
            }
        }
        float _e93 = sum;
        float _e94 = workgroup_sum(_e93, thread_, reduced);
        sum = _e94;
        i_3 = thread_;
        bool loop_init_19 = true;
        while(true) {
            if (!loop_init_19) {
                uint _e107 = i_3;
                i_3 = _e107 + THREADS;
            }
            loop_init_19 = false;
            uint _e96 = i_3;
            uint _e99 = args.count;
            if (_e96 < _e99) {
            } else {
                break;
            }
            {
                uint _e102 = i_3;
                float _e104 = own.inner[metal::min(unsigned(_e102), 1023u)];
                float _e105 = sum;
                own.inner[metal::min(unsigned(_e102), 1023u)] = _e104 / _e105;
            }
        }
    }
    i_4 = thread_;
    bool loop_init_20 = true;
    while(true) {
        if (!loop_init_20) {
            uint _e159 = i_4;
            i_4 = _e159 + THREADS;
        }
        loop_init_20 = false;
        uint _e111 = i_4;
        uint _e114 = args.count;
        if (_e111 < _e114) {
        } else {
            break;
        }
        {
            uint _e118 = args.scoring;
            if (_e118 == 1u) {
                uint _e122 = i_4;
                uint _e125 = i_4;
                float _e127 = own.inner[metal::min(unsigned(_e125), 1023u)];
                float _e128 = sigmoid(_e127);
                own.inner[metal::min(unsigned(_e122), 1023u)] = _e128;
            }
            uint _e130 = i_4;
            float _e132 = own.inner[metal::min(unsigned(_e130), 1023u)];
            key = _e132;
            uint _e136 = args.bias;
            if (_e136 != NOTHING) {
                float _e139 = key;
                uint _e142 = args.bias;
                uint _e143 = i_4;
                float _e145 = vector(_e142 + _e143, vectors, _buffer_sizes);
                key = _e139 + _e145;
            }
            uint _e148 = i_4;
            float _e150 = key;
            float _e152 = key;
            bool _e153 = is_nan(_e152);
            keys.inner[metal::min(unsigned(_e148), 1023u)] = _e153 ? LEAST : _e150;
            uint _e156 = i_4;
            taken.inner[metal::min(unsigned(_e156), 1023u)] = 0u;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    keep_groups(thread_, args, keys, ranks);
    bool loop_init_21 = true;
    while(true) {
        if (!loop_init_21) {
            uint _e170 = i_5;
            i_5 = _e170 + 1u;
        }
        loop_init_21 = false;
        uint _e164 = i_5;
        uint _e167 = args.wanted;
        if (_e164 < _e167) {
        } else {
            break;
        }
        {
            take_best(thread_, args, keys, taken, best_keys, best_places);
        }
    }
    share(row_1, group.y, thread_, arena, reduced, args, own, taken, _buffer_sizes);
    return;
}
