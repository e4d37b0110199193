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
    uint _e22 = kept[metal::min(unsigned(mask), (_buffer_sizes.size1 - 0 - 4) / 4)];
    bool is_masked = _e22 != 0u;
    i = thread_;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e78 = i;
            i = _e78 + THREADS;
        }
        loop_init = false;
        uint _e30 = i;
        uint _e33 = args.vocab;
        if (_e30 < _e33) {
        } else {
            break;
        }
        {
            uint _e36 = i;
            float x_1 = arena[metal::min(unsigned(from_at + _e36), (_buffer_sizes.size0 - 0 - 4) / 4)];
            bool _e40 = is_nan(x_1);
            if (!(_e40)) {
                if (is_masked) {
                    uint _e49 = i;
                    uint _e54 = kept[metal::min(unsigned((mask + 1u) + naga_div(_e49, 32u)), (_buffer_sizes.size1 - 0 - 4) / 4)];
                    uint _e55 = i;
                    local_1 = ((_e54 >> naga_mod(_e55, 32u)) & 1u) == 0u;
                } else {
                    local_1 = false;
                }
                bool _e64 = local_1;
                local = _e64;
            } else {
                local = true;
            }
            bool _e66 = local;
            if (_e66) {
                continue;
            }
            uint _e67 = best;
            if (!((_e67 == NOTHING))) {
                float _e73 = most;
                local_2 = x_1 > _e73;
            } else {
                local_2 = true;
            }
            bool _e76 = local_2;
            if (_e76) {
                uint _e77 = i;
                best = _e77;
                most = x_1;
            }
        }
    }
    float _e83 = most;
    values.inner[metal::min(unsigned(thread_), 255u)] = _e83;
    uint _e86 = best;
    tokens.inner[metal::min(unsigned(thread_), 255u)] = _e86;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e142 = width;
            width = naga_div(_e142, 2u);
        }
        loop_init_1 = false;
        uint _e89 = width;
        if (_e89 > 0u) {
        } else {
            break;
        }
        {
            uint _e92 = width;
            if (thread_ < _e92) {
                uint _e95 = width;
                uint token = tokens.inner[metal::min(unsigned(thread_ + _e95), 255u)];
                uint _e100 = width;
                float value = values.inner[metal::min(unsigned(thread_ + _e100), 255u)];
                uint own = tokens.inner[metal::min(unsigned(thread_), 255u)];
                if (token != NOTHING) {
                    if (!((own == NOTHING))) {
                        float _e118 = values.inner[metal::min(unsigned(thread_), 255u)];
                        local_4 = value > _e118;
                    } else {
                        local_4 = true;
                    }
                    bool _e121 = local_4;
                    if (!(_e121)) {
                        float _e127 = values.inner[metal::min(unsigned(thread_), 255u)];
                        if (value == _e127) {
                            local_6 = token < own;
                        } else {
                            local_6 = false;
                        }
                        bool _e133 = local_6;
                        local_5 = _e133;
                    } else {
                        local_5 = true;
                    }
                    bool _e135 = local_5;
                    local_3 = _e135;
                } else {
                    local_3 = false;
                }
                bool _e137 = local_3;
                if (_e137) {
                    values.inner[metal::min(unsigned(thread_), 255u)] = value;
                    tokens.inner[metal::min(unsigned(thread_), 255u)] = token;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    if (thread_ == 0u) {
        uint _e150 = args.to;
        uint _e156 = tokens.inner[0];
        kept[metal::min(unsigned(_e150 + group.y), (_buffer_sizes.size1 - 0 - 4) / 4)] = _e156;
        return;
    } else {
        return;
    }
}
