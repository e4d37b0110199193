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
typedef uint type_3[1];
struct Args {
    uint logits;
    uint vocab;
    uint masks;
    uint words;
    uint to;
};
struct type_5 {
    float inner[256];
};
struct type_6 {
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

bool is_nan(
    float x
) {
    return (as_type<uint>(x) & 2147483647u) > 2139095040u;
}
uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3& kept [[buffer(6)]]
, constant Args& args [[buffer(7)]]
, threadgroup type_5& values
, threadgroup type_6& tokens
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint best = NOTHING;
    float most = 0.0;
    uint i = {};
    bool local = {};
    bool local_1 = {};
    bool local_2 = {};
    uint width = 128u;
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    uint _e4 = args.logits;
    uint _e8 = args.vocab;
    uint from_at = _e4 + (group.y * _e8);
    uint _e13 = args.masks;
    uint _e17 = args.words;
    uint mask = _e13 + (group.y * _e17);
    uint _e23 = weights0_[metal::min(unsigned(group.y), (_buffer_sizes.size1 - 0 - 4) / 4)];
    bool is_masked = _e23 != 0u;
    i = thread_;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e77 = i;
            i = _e77 + THREADS;
        }
        loop_init = false;
        uint _e31 = i;
        uint _e34 = args.vocab;
        if (_e31 < _e34) {
        } else {
            break;
        }
        {
            uint _e37 = i;
            float x_1 = arena[metal::min(unsigned(from_at + _e37), (_buffer_sizes.size0 - 0 - 4) / 4)];
            bool _e41 = is_nan(x_1);
            if (!(_e41)) {
                if (is_masked) {
                    uint _e48 = i;
                    uint _e53 = weights0_[metal::min(unsigned(mask + naga_div(_e48, 32u)), (_buffer_sizes.size1 - 0 - 4) / 4)];
                    uint _e54 = i;
                    local_1 = ((_e53 >> naga_mod(_e54, 32u)) & 1u) == 0u;
                } else {
                    local_1 = false;
                }
                bool _e63 = local_1;
                local = _e63;
            } else {
                local = true;
            }
            bool _e65 = local;
            if (_e65) {
                continue;
            }
            uint _e66 = best;
            if (!((_e66 == NOTHING))) {
                float _e72 = most;
                local_2 = x_1 > _e72;
            } else {
                local_2 = true;
            }
            bool _e75 = local_2;
            if (_e75) {
                uint _e76 = i;
                best = _e76;
                most = x_1;
            }
        }
    }
    float _e82 = most;
    values.inner[metal::min(unsigned(thread_), 255u)] = _e82;
    uint _e85 = best;
    tokens.inner[metal::min(unsigned(thread_), 255u)] = _e85;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e141 = width;
            width = naga_div(_e141, 2u);
        }
        loop_init_1 = false;
        uint _e88 = width;
        if (_e88 > 0u) {
        } else {
            break;
        }
        {
            uint _e91 = width;
            if (thread_ < _e91) {
                uint _e94 = width;
                uint token = tokens.inner[metal::min(unsigned(thread_ + _e94), 255u)];
                uint _e99 = width;
                float value = values.inner[metal::min(unsigned(thread_ + _e99), 255u)];
                uint own = tokens.inner[metal::min(unsigned(thread_), 255u)];
                if (token != NOTHING) {
                    if (!((own == NOTHING))) {
                        float _e117 = values.inner[metal::min(unsigned(thread_), 255u)];
                        local_4 = value > _e117;
                    } else {
                        local_4 = true;
                    }
                    bool _e120 = local_4;
                    if (!(_e120)) {
                        float _e126 = values.inner[metal::min(unsigned(thread_), 255u)];
                        if (value == _e126) {
                            local_6 = token < own;
                        } else {
                            local_6 = false;
                        }
                        bool _e132 = local_6;
                        local_5 = _e132;
                    } else {
                        local_5 = true;
                    }
                    bool _e134 = local_5;
                    local_3 = _e134;
                } else {
                    local_3 = false;
                }
                bool _e136 = local_3;
                if (_e136) {
                    values.inner[metal::min(unsigned(thread_), 255u)] = value;
                    tokens.inner[metal::min(unsigned(thread_), 255u)] = token;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    if (thread_ == 0u) {
        uint _e149 = args.to;
        uint _e155 = tokens.inner[0];
        kept[metal::min(unsigned(_e149 + group.y), (_buffer_sizes.size2 - 0 - 4) / 4)] = _e155;
        return;
    } else {
        return;
    }
}
