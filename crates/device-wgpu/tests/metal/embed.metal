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
struct Eight {
    metal::float4 low;
    metal::float4 high;
};
struct Args {
    uint at;
    uint row_bytes;
    uint first_row;
    uint rows;
    uint quant;
    uint columns;
    uint to;
    float scale;
    uint kind;
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
constant metal::uint4 IQ4_LEVELS = metal::uint4(3215825025u, 4142587343u, 639175937u, 1901675829u);
constant metal::uint2 FP4_LEVELS = metal::uint2(50462976u, 201852420u);

metal::uint4 token(
    uint index,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(4), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at = _e3 + (4u * index);
    uint _e9 = step_words[metal::min(unsigned(at), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return metal::uint4(_e9, _e14, _e19, _e24);
}

Sequence sequence(
    uint index_1,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(5), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at_1 = _e3 + (8u * index_1);
    uint _e9 = step_words[metal::min(unsigned(at_1), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_1 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_1 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_1 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e29 = step_words[metal::min(unsigned(at_1 + 4u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e34 = step_words[metal::min(unsigned(at_1 + 5u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return Sequence {_e9, _e14, _e19, _e24, _e29, _e34};
}

float half_(
    uint bits
) {
    uint magnitude = bits & 32767u;
    float usual = as_type<float>((magnitude << 13u) + 939524096u);
    float value = (magnitude < 1024u) ? (static_cast<float>(magnitude) * 0.000000059604645) : usual;
    return ((bits & 32768u) != 0u) ? -(value) : value;
}

Eight scaled_less(
    float scale,
    metal::uint4 low,
    metal::uint4 high,
    float minimum
) {
    return Eight {(scale * static_cast<metal::float4>(low)) - metal::float4(minimum), (scale * static_cast<metal::float4>(high)) - metal::float4(minimum)};
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

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

Eight q4_k_eight0_(
    uint row_1,
    uint columns,
    uint group_1,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint block = naga_div(row_1 + (144u * naga_div(group_1, 32u)), 4u);
    uint g = naga_mod(group_1, 32u);
    uint sub_1 = naga_div(g, 4u);
    uint halves = weights0_[metal::min(unsigned(block), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e21 = weights0_[metal::min(unsigned(block + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e26 = weights0_[metal::min(unsigned(block + 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e31 = weights0_[metal::min(unsigned(block + 3u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint3 header_1 = metal::uint3(_e21, _e26, _e31);
    metal::float2 _e33 = affine(header_1, sub_1);
    uint at_2 = ((block + 4u) + (8u * naga_div(sub_1, 2u))) + (2u * naga_mod(g, 4u));
    uint shift_1 = 4u * naga_mod(sub_1, 2u);
    uint _e52 = weights0_[metal::min(unsigned(at_2), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 low_2 = uint4(as_type<packed_uchar4>((_e52 >> shift_1) & 252645135u));
    uint _e61 = weights0_[metal::min(unsigned(at_2 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    metal::uint4 high_2 = uint4(as_type<packed_uchar4>((_e61 >> shift_1) & 252645135u));
    float _e68 = half_(halves & 65535u);
    float _e73 = half_(halves >> 16u);
    Eight _e76 = scaled_less(_e68 * _e33.x, low_2, high_2, _e73 * _e33.y);
    return _e76;
}

Eight eight0_(
    uint quant,
    uint row_2,
    uint columns_1,
    uint group_2,
    device type_3 const& weights0_,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(quant) {
        case 10u: {
            Eight _e4 = q4_k_eight0_(row_2, columns_1, group_2, weights0_, _buffer_sizes);
            return _e4;
        }
        default: {
            return Eight {metal::float4(0.0), metal::float4(0.0)};
        }
    }
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& weights0_ [[buffer(1)]]
, device type_3 const& step_words [[buffer(5)]]
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint row = {};
    bool local = {};
    uint j = 0u;
    float x = {};
    uint eight = (THREADS * group.x) + thread_;
    uint i = 8u * eight;
    uint _e10 = args.columns;
    if (i >= _e10) {
        return;
    }
    metal::uint4 _e13 = token(group.y, step_words, _buffer_sizes);
    row = _e13.x;
    uint _e18 = args.kind;
    if (_e18 == 1u) {
        row = _e13.y;
    }
    uint _e24 = args.kind;
    if (_e24 == 2u) {
        uint _e29 = args.rows;
        Sequence _e35 = sequence(_e13.z, step_words, _buffer_sizes);
        row = (_e13.y < _e35.second_start) ? 0u : (_e29 - 1u);
    }
    uint _e39 = row;
    uint _e42 = args.first_row;
    if (!((_e39 < _e42))) {
        uint _e47 = row;
        uint _e50 = args.first_row;
        uint _e53 = args.rows;
        local = _e47 >= (_e50 + _e53);
    } else {
        local = true;
    }
    bool _e57 = local;
    if (_e57) {
        return;
    }
    uint _e60 = args.quant;
    uint _e63 = args.at;
    uint _e64 = row;
    uint _e67 = args.first_row;
    uint _e71 = args.row_bytes;
    uint _e76 = args.columns;
    Eight _e77 = eight0_(_e60, _e63 + ((_e64 - _e67) * _e71), _e76, eight, weights0_, _buffer_sizes);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e133 = j;
            j = _e133 + 1u;
        }
        loop_init = false;
        uint _e80 = j;
        uint _e84 = args.columns;
        if (_e80 < metal::min(8u, _e84 - i)) {
        } else {
            break;
        }
        {
            uint _e89 = j;
            x = _e77.low[metal::min(unsigned(naga_mod(_e89, 4u)), 3u)];
            uint _e94 = j;
            if (_e94 >= 4u) {
                uint _e98 = j;
                x = _e77.high[metal::min(unsigned(naga_mod(_e98, 4u)), 3u)];
            }
            float _e102 = x;
            float _e105 = args.scale;
            x = _e102 * _e105;
            uint _e109 = args.to;
            uint _e113 = args.columns;
            uint _e117 = j;
            uint at_3 = ((_e109 + (group.y * _e113)) + i) + _e117;
            uint _e121 = args.kind;
            if (_e121 != 0u) {
                float _e124 = x;
                float _e127 = arena[metal::min(unsigned(at_3), (_buffer_sizes.size0 - 0 - 4) / 4)];
                x = _e124 + _e127;
            }
            float _e131 = x;
            arena[metal::min(unsigned(at_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e131;
        }
    }
    return;
}
