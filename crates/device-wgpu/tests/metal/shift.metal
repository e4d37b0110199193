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
struct Sequence {
    uint first;
    uint count;
    uint cached;
    uint pages;
    uint slot;
    uint second_start;
};
struct Args {
    uint from_at;
    uint change;
    uint before;
    uint hidden;
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

float kept_float(
    uint at,
    device type_3 const& kept,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = kept[metal::min(unsigned(at), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return as_type<float>(_e3);
}

Sequence sequence(
    uint index,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(5), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint at_1 = _e3 + (8u * index);
    uint _e9 = step_words[metal::min(unsigned(at_1), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_1 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_1 + 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_1 + 3u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e29 = step_words[metal::min(unsigned(at_1 + 4u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e34 = step_words[metal::min(unsigned(at_1 + 5u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return Sequence {_e9, _e14, _e19, _e24, _e29, _e34};
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& step_words [[buffer(5)]]
, device type_3& kept [[buffer(6)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    float last = 0.0;
    uint t = {};
    uint channel = (THREADS * group.x) + thread_;
    uint _e8 = args.hidden;
    if (channel >= _e8) {
        return;
    }
    Sequence _e11 = sequence(group.y, step_words, _buffer_sizes);
    uint _e14 = args.before;
    uint _e18 = args.hidden;
    uint state = (_e14 + (_e11.slot * _e18)) + channel;
    if (_e11.cached > 0u) {
        float _e27 = kept_float(state, kept, _buffer_sizes);
        last = _e27;
    }
    t = _e11.first;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e63 = t;
            t = _e63 + 1u;
        }
        loop_init = false;
        uint _e30 = t;
        if (_e30 < (_e11.first + _e11.count)) {
        } else {
            break;
        }
        {
            uint _e38 = args.from_at;
            uint _e39 = t;
            uint _e42 = args.hidden;
            float value = arena[metal::min(unsigned((_e38 + (_e39 * _e42)) + channel), (_buffer_sizes.size0 - 0 - 4) / 4)];
            uint _e51 = args.change;
            uint _e52 = t;
            uint _e55 = args.hidden;
            float _e60 = last;
            arena[metal::min(unsigned((_e51 + (_e52 * _e55)) + channel), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e60 - value;
            last = value;
        }
    }
    float _e67 = last;
    kept[metal::min(unsigned(state), (_buffer_sizes.size2 - 0 - 4) / 4)] = as_type<uint>(_e67);
    return;
}
