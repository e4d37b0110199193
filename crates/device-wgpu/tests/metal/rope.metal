// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
};

typedef float type_2[1];
struct Args {
    uint at;
    uint turns;
    uint pairs;
    uint is_halves;
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
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint index = (THREADS * group.x) + thread_;
    uint _e8 = args.heads;
    uint _e11 = args.pairs;
    if (index >= (_e8 * _e11)) {
        return;
    }
    uint _e16 = args.pairs;
    uint pair = naga_mod(index, _e16);
    uint _e20 = args.at;
    uint _e24 = args.heads;
    uint _e28 = args.pairs;
    uint _e33 = args.head_dim;
    uint start = _e20 + (((group.y * _e24) + naga_div(index, _e28)) * _e33);
    uint _e38 = args.turns;
    uint _e43 = args.pairs;
    uint by = _e38 + (2u * ((group.y * _e43) + pair));
    uint _e52 = args.is_halves;
    uint first = start + ((_e52 != 0u) ? pair : (2u * pair));
    uint _e63 = args.pairs;
    uint _e67 = args.is_halves;
    uint second = start + ((_e67 != 0u) ? (pair + _e63) : ((2u * pair) + 1u));
    float a = arena[metal::min(unsigned(first), (_buffer_sizes.size0 - 0 - 4) / 4)];
    float b = arena[metal::min(unsigned(second), (_buffer_sizes.size0 - 0 - 4) / 4)];
    float _e82 = arena[metal::min(unsigned(by), (_buffer_sizes.size0 - 0 - 4) / 4)];
    float _e88 = arena[metal::min(unsigned(by + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
    arena[metal::min(unsigned(first), (_buffer_sizes.size0 - 0 - 4) / 4)] = (a * _e82) - (b * _e88);
    float _e95 = arena[metal::min(unsigned(by), (_buffer_sizes.size0 - 0 - 4) / 4)];
    float _e101 = arena[metal::min(unsigned(by + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
    arena[metal::min(unsigned(second), (_buffer_sizes.size0 - 0 - 4) / 4)] = (b * _e95) + (a * _e101);
    return;
}
