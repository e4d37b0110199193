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
struct type_5 {
    float inner[640];
};
struct Args {
    uint from_at;
    uint heads;
    uint width;
    uint values;
    uint scales;
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
constant uint CACHE = 3u;
constant uint EXPERTS_MAX = 1024u;
constant uint GROUPS_MAX = 64u;
constant uint TAPS_MAX = 16u;
constant uint STATE_COLUMNS_MAX = 512u;
constant uint STATE_WIDTH_MAX = 512u;
constant uint ROW_MAX = 640u;
constant uint ROW_FOURS_MAX = 160u;
constant uint NOTHING = 4294967295u;
constant float LEAST = -300000000000000000000000000000000000000.0;

metal::uint4 token(
    uint index,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(4), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint at = _e3 + (4u * index);
    uint _e9 = step_words[metal::min(unsigned(at), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at + 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at + 3u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return metal::uint4(_e9, _e14, _e19, _e24);
}

Sequence sequence(
    uint index_1,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(5), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint at_1 = _e3 + (8u * index_1);
    uint _e9 = step_words[metal::min(unsigned(at_1), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_1 + 1u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_1 + 2u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_1 + 3u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e29 = step_words[metal::min(unsigned(at_1 + 4u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e34 = step_words[metal::min(unsigned(at_1 + 5u), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return Sequence {_e9, _e14, _e19, _e24, _e29, _e34};
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint place_of(
    uint pages,
    uint position,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint page_tokens = step_words[metal::min(unsigned(3), (_buffer_sizes.size1 - 0 - 4) / 4)];
    uint _e9 = step_words[metal::min(unsigned(pages + naga_div(position, page_tokens)), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return (_e9 * page_tokens) + naga_mod(position, page_tokens);
}

uint row_words(
    uint width
) {
    uint fours = naga_div(width + 3u, 4u);
    uint blocks = naga_div(width + 31u, 32u);
    switch(CACHE) {
        case 0u: {
            return 4u * fours;
        }
        case 1u: {
            return 2u * fours;
        }
        case 2u: {
            return 8u * blocks;
        }
        default: {
            return 4u * blocks;
        }
    }
}

uint scale_words(
    uint width_1
) {
    uint blocks_1 = naga_div(width_1 + 31u, 32u);
    return true ? naga_div(blocks_1 + 1u, 2u) : 0u;
}

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}

uint to_half(
    float x
) {
    uint bits = as_type<uint>(x);
    uint sign = (bits >> 16u) & 32768u;
    uint magnitude = bits & 2147483647u;
    if (magnitude >= 1199566848u) {
        return sign | ((magnitude > 2139095040u) ? 32256u : 31744u);
    }
    if (magnitude < 947912704u) {
        return sign | naga_f2u32(metal::rint(metal::abs(x) * 16777216.0));
    }
    uint rounded = (magnitude + 4095u) + ((magnitude >> 13u) & 1u);
    return sign | ((rounded - 939524096u) >> 13u);
}

float block_most(
    uint block,
    threadgroup type_5& own
) {
    float most = 0.0;
    uint i_1 = 0u;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e19 = i_1;
            i_1 = _e19 + 1u;
        }
        loop_init = false;
        uint _e5 = i_1;
        if (_e5 < 32u) {
        } else {
            break;
        }
        {
            float _e8 = most;
            uint _e12 = i_1;
            float _e15 = own.inner[metal::min(unsigned((32u * block) + _e12), 639u)];
            most = metal::max(_e8, metal::abs(_e15));
        }
    }
    float _e21 = most;
    return _e21;
}

int naga_f2i32(float value) {
    return static_cast<int>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

int code(
    float x_1,
    float most_1,
    float limit
) {
    if (most_1 > 0.0) {
        return naga_f2i32(metal::rint(x_1 / (most_1 / limit)));
    }
    return 0;
}

void put(
    uint values,
    uint scales,
    uint width_2,
    uint thread_1,
    device type_3& kept,
    threadgroup type_5& own,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_2 = {};
    uint word = {};
    uint j = {};
    uint j_1 = {};
    uint i_3 = {};
    uint _e4 = row_words(width_2);
    i_2 = thread_1;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e104 = i_2;
            i_2 = _e104 + THREADS;
        }
        loop_init_1 = false;
        uint _e6 = i_2;
        if (_e6 < _e4) {
        } else {
            break;
        }
        {
            word = 0u;
            switch(CACHE) {
                case 0u: {
                    uint _e12 = i_2;
                    float _e14 = own.inner[metal::min(unsigned(_e12), 639u)];
                    word = as_type<uint>(_e14);
                    break;
                }
                case 1u: {
                    uint _e18 = i_2;
                    float _e21 = own.inner[metal::min(unsigned(2u * _e18), 639u)];
                    uint _e22 = to_half(_e21);
                    uint _e25 = i_2;
                    float _e30 = own.inner[metal::min(unsigned((2u * _e25) + 1u), 639u)];
                    uint _e31 = to_half(_e30);
                    word = _e22 | (_e31 << 16u);
                    break;
                }
                case 2u: {
                    uint _e35 = i_2;
                    float _e38 = block_most(naga_div(_e35, 8u), own);
                    j = 0u;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e64 = j;
                            j = _e64 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e41 = j;
                        if (_e41 < 4u) {
                        } else {
                            break;
                        }
                        {
                            uint _e44 = word;
                            uint _e47 = i_2;
                            uint _e49 = j;
                            float _e52 = own.inner[metal::min(unsigned((4u * _e47) + _e49), 639u)];
                            int _e54 = code(_e52, _e38, 127.0);
                            uint _e59 = j;
                            word = _e44 | ((as_type<uint>(_e54) & 255u) << (8u * _e59));
                        }
                    }
                    break;
                }
                default: {
                    uint _e66 = i_2;
                    float _e69 = block_most(naga_div(_e66, 4u), own);
                    j_1 = 0u;
                    bool loop_init_3 = true;
                    while(true) {
                        if (!loop_init_3) {
                            uint _e97 = j_1;
                            j_1 = _e97 + 1u;
                        }
                        loop_init_3 = false;
                        uint _e72 = j_1;
                        if (_e72 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e75 = word;
                            uint _e78 = i_2;
                            uint _e80 = j_1;
                            float _e83 = own.inner[metal::min(unsigned((8u * _e78) + _e80), 639u)];
                            int _e85 = code(_e83, _e69, 7.0);
                            uint _e92 = j_1;
                            word = _e75 | ((as_type<uint>(as_type<int>(as_type<uint>(_e85) + as_type<uint>(8))) & 15u) << (4u * _e92));
                        }
                    }
                    break;
                }
            }
            uint _e100 = i_2;
            uint _e103 = word;
            kept[metal::min(unsigned(values + _e100), (_buffer_sizes.size2 - 0 - 4) / 4)] = _e103;
        }
    }
    i_3 = thread_1;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e133 = i_3;
            i_3 = _e133 + THREADS;
        }
        loop_init_4 = false;
        uint _e109 = i_3;
        uint _e110 = scale_words(width_2);
        if (_e109 < _e110) {
        } else {
            break;
        }
        {
            uint _e113 = i_3;
            uint _e117 = i_3;
            float _e119 = block_most(2u * _e117, own);
            uint _e121 = to_half(_e119 / 7.0);
            uint _e123 = i_3;
            float _e127 = block_most((2u * _e123) + 1u, own);
            uint _e129 = to_half(_e127 / 7.0);
            kept[metal::min(unsigned(scales + _e113), (_buffer_sizes.size2 - 0 - 4) / 4)] = _e121 | (_e129 << 16u);
        }
    }
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& arena [[buffer(0)]]
, device type_3 const& step_words [[buffer(5)]]
, device type_3& kept [[buffer(6)]]
, threadgroup type_5& own
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = {};
    uint width_3 = args.width;
    uint _e7 = args.from_at;
    uint _e11 = args.heads;
    uint from_at = _e7 + (((group.y * _e11) + group.x) * width_3);
    i = thread_;
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e40 = i;
            i = _e40 + THREADS;
        }
        loop_init_5 = false;
        uint _e18 = i;
        if (_e18 < (naga_div(width_3 + 63u, 64u) * 64u)) {
        } else {
            break;
        }
        {
            uint _e27 = i;
            own.inner[metal::min(unsigned(_e27), 639u)] = 0.0;
            uint _e30 = i;
            if (_e30 < width_3) {
                uint _e33 = i;
                uint _e36 = i;
                float _e39 = arena[metal::min(unsigned(from_at + _e36), (_buffer_sizes.size0 - 0 - 4) / 4)];
                own.inner[metal::min(unsigned(_e33), 639u)] = _e39;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint4 _e44 = token(group.y, step_words, _buffer_sizes);
    Sequence _e46 = sequence(_e44.z, step_words, _buffer_sizes);
    uint _e49 = place_of(_e46.pages, _e44.y, step_words, _buffer_sizes);
    uint _e52 = args.heads;
    uint place = (_e49 * _e52) + group.x;
    uint _e58 = args.values;
    uint _e59 = row_words(width_3);
    uint _e64 = args.scales;
    uint _e65 = scale_words(width_3);
    put(_e58 + (place * _e59), _e64 + (place * _e65), width_3, thread_, kept, own, _buffer_sizes);
    return;
}
