// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size2;
    uint size3;
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
struct type_6 {
    float inner[8];
};
struct type_7 {
    float inner[640];
};
struct Args {
    uint query;
    uint key;
    uint value;
    uint query_norm;
    uint key_norm;
    float query_epsilon;
    float key_epsilon;
    uint turns;
    uint pairs;
    uint is_halves;
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint keys;
    uint key_scales;
    uint values;
    uint value_scales;
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

metal::uint4 token(
    uint index,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(4), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at_1 = _e3 + (4u * index);
    uint _e9 = step_words[metal::min(unsigned(at_1), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_1 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_1 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_1 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return metal::uint4(_e9, _e14, _e19, _e24);
}

Sequence sequence(
    uint index_1,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(5), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at_2 = _e3 + (8u * index_1);
    uint _e9 = step_words[metal::min(unsigned(at_2), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_2 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_2 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_2 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e29 = step_words[metal::min(unsigned(at_2 + 4u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e34 = step_words[metal::min(unsigned(at_2 + 5u), (_buffer_sizes.size2 - 0 - 4) / 4)];
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
    uint page_tokens = step_words[metal::min(unsigned(3), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e9 = step_words[metal::min(unsigned(pages + naga_div(position, page_tokens)), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return (_e9 * page_tokens) + naga_mod(position, page_tokens);
}

float lane_sum(
    float x_1,
    uint thread_1
) {
    float sum = {};
    uint step = 16u;
    sum = x_1;
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

float workgroup_sum(
    float x_2,
    uint thread_2,
    threadgroup type_6& reduced
) {
    float sum_1 = 0.0;
    uint part = 0u;
    float _e2 = lane_sum(x_2, thread_2);
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
    return false ? naga_div(blocks_1 + 1u, 2u) : 0u;
}

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}

uint to_half(
    float x_3
) {
    uint bits = as_type<uint>(x_3);
    uint sign = (bits >> 16u) & 32768u;
    uint magnitude = bits & 2147483647u;
    if (magnitude >= 1199566848u) {
        return sign | ((magnitude > 2139095040u) ? 32256u : 31744u);
    }
    if (magnitude < 947912704u) {
        return sign | naga_f2u32(metal::rint(metal::abs(x_3) * 16777216.0));
    }
    uint rounded = (magnitude + 4095u) + ((magnitude >> 13u) & 1u);
    return sign | ((rounded - 939524096u) >> 13u);
}

float block_most(
    uint block,
    threadgroup type_7& own
) {
    float most = 0.0;
    uint i_3 = 0u;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e19 = i_3;
            i_3 = _e19 + 1u;
        }
        loop_init_2 = false;
        uint _e5 = i_3;
        if (_e5 < 32u) {
        } else {
            break;
        }
        {
            float _e8 = most;
            uint _e12 = i_3;
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
    float x_4,
    float most_1,
    float limit
) {
    if (most_1 > 0.0) {
        return naga_f2i32(metal::rint(x_4 / (most_1 / limit)));
    }
    return 0;
}

void put(
    uint values,
    uint scales,
    uint width_2,
    uint thread_3,
    device type_3& kept,
    threadgroup type_7& own,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_4 = {};
    uint word = {};
    uint j = {};
    uint j_1 = {};
    uint i_5 = {};
    uint _e4 = row_words(width_2);
    i_4 = thread_3;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e104 = i_4;
            i_4 = _e104 + THREADS;
        }
        loop_init_3 = false;
        uint _e6 = i_4;
        if (_e6 < _e4) {
        } else {
            break;
        }
        {
            word = 0u;
            switch(CACHE) {
                case 0u: {
                    uint _e12 = i_4;
                    float _e14 = own.inner[metal::min(unsigned(_e12), 639u)];
                    word = as_type<uint>(_e14);
                    break;
                }
                case 1u: {
                    uint _e18 = i_4;
                    float _e21 = own.inner[metal::min(unsigned(2u * _e18), 639u)];
                    uint _e22 = to_half(_e21);
                    uint _e25 = i_4;
                    float _e30 = own.inner[metal::min(unsigned((2u * _e25) + 1u), 639u)];
                    uint _e31 = to_half(_e30);
                    word = _e22 | (_e31 << 16u);
                    break;
                }
                case 2u: {
                    uint _e35 = i_4;
                    float _e38 = block_most(naga_div(_e35, 8u), own);
                    j = 0u;
                    bool loop_init_4 = true;
                    while(true) {
                        if (!loop_init_4) {
                            uint _e64 = j;
                            j = _e64 + 1u;
                        }
                        loop_init_4 = false;
                        uint _e41 = j;
                        if (_e41 < 4u) {
                        } else {
                            break;
                        }
                        {
                            uint _e44 = word;
                            uint _e47 = i_4;
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
                    uint _e66 = i_4;
                    float _e69 = block_most(naga_div(_e66, 4u), own);
                    j_1 = 0u;
                    bool loop_init_5 = true;
                    while(true) {
                        if (!loop_init_5) {
                            uint _e97 = j_1;
                            j_1 = _e97 + 1u;
                        }
                        loop_init_5 = false;
                        uint _e72 = j_1;
                        if (_e72 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e75 = word;
                            uint _e78 = i_4;
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
            uint _e100 = i_4;
            uint _e103 = word;
            kept[metal::min(unsigned(values + _e100), (_buffer_sizes.size3 - 0 - 4) / 4)] = _e103;
        }
    }
    i_5 = thread_3;
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e133 = i_5;
            i_5 = _e133 + THREADS;
        }
        loop_init_6 = false;
        uint _e109 = i_5;
        uint _e110 = scale_words(width_2);
        if (_e109 < _e110) {
        } else {
            break;
        }
        {
            uint _e113 = i_5;
            uint _e117 = i_5;
            float _e119 = block_most(2u * _e117, own);
            uint _e121 = to_half(_e119 / 7.0);
            uint _e123 = i_5;
            float _e127 = block_most((2u * _e123) + 1u, own);
            uint _e129 = to_half(_e127 / 7.0);
            kept[metal::min(unsigned(scales + _e113), (_buffer_sizes.size3 - 0 - 4) / 4)] = _e121 | (_e129 << 16u);
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
, device type_3 const& step_words [[buffer(5)]]
, device type_3& kept [[buffer(6)]]
, threadgroup type_6& reduced
, threadgroup type_7& own
, constant Args& args [[buffer(7)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint head = {};
    bool local = {};
    uint from_at = {};
    uint norm = {};
    float epsilon = {};
    float squares = 0.0;
    uint i = {};
    float x = {};
    uint i_1 = {};
    bool local_1 = {};
    bool local_2 = {};
    uint pair = {};
    uint i_2 = {};
    head = group.x;
    uint _e4 = head;
    uint _e7 = args.heads;
    bool is_query = _e4 < _e7;
    if (!(is_query)) {
        uint _e12 = head;
        uint _e15 = args.heads;
        uint _e18 = args.kv_heads;
        local = _e12 < (_e15 + _e18);
    } else {
        local = false;
    }
    bool is_key = local;
    uint _e25 = args.query;
    uint _e29 = args.heads;
    uint _e31 = head;
    uint _e35 = args.head_dim;
    from_at = _e25 + (((group.y * _e29) + _e31) * _e35);
    uint _e41 = args.query_norm;
    norm = _e41;
    float _e45 = args.query_epsilon;
    epsilon = _e45;
    if (!(is_query)) {
        uint _e48 = head;
        uint _e51 = args.heads;
        head = _e48 - _e51;
        uint _e55 = args.key;
        uint _e59 = args.kv_heads;
        uint _e61 = head;
        uint _e65 = args.head_dim;
        from_at = _e55 + (((group.y * _e59) + _e61) * _e65);
        uint _e70 = args.key_norm;
        norm = _e70;
        float _e73 = args.key_epsilon;
        epsilon = _e73;
        if (!(is_key)) {
            uint _e75 = head;
            uint _e78 = args.kv_heads;
            head = _e75 - _e78;
            uint _e82 = args.value;
            uint _e86 = args.kv_heads;
            uint _e88 = head;
            uint _e92 = args.head_dim;
            from_at = _e82 + (((group.y * _e86) + _e88) * _e92);
            norm = NOTHING;
        }
    }
    uint width_3 = args.head_dim;
    i = thread_;
    bool loop_init_7 = true;
    while(true) {
        if (!loop_init_7) {
            uint _e129 = i;
            i = _e129 + THREADS;
        }
        loop_init_7 = false;
        uint _e102 = i;
        if (_e102 < (naga_div(width_3 + 63u, 64u) * 64u)) {
        } else {
            break;
        }
        {
            x = 0.0;
            uint _e112 = i;
            if (_e112 < width_3) {
                uint _e115 = from_at;
                uint _e116 = i;
                float _e119 = arena[metal::min(unsigned(_e115 + _e116), (_buffer_sizes.size0 - 0 - 4) / 4)];
                x = _e119;
            }
            uint _e121 = i;
            float _e123 = x;
            own.inner[metal::min(unsigned(_e121), 639u)] = _e123;
            float _e124 = squares;
            float _e125 = x;
            float _e126 = x;
            squares = _e124 + (_e125 * _e126);
        }
    }
    float _e132 = squares;
    float _e133 = workgroup_sum(_e132, thread_, reduced);
    float mean = _e133 / static_cast<float>(width_3);
    uint _e136 = norm;
    if (_e136 != NOTHING) {
        float _e139 = epsilon;
        float factor = 1.0 / metal::sqrt(mean + _e139);
        i_1 = thread_;
        bool loop_init_8 = true;
        while(true) {
            if (!loop_init_8) {
                uint _e160 = i_1;
                i_1 = _e160 + THREADS;
            }
            loop_init_8 = false;
            uint _e145 = i_1;
            if (_e145 < width_3) {
            } else {
                break;
            }
            {
                uint _e148 = i_1;
                uint _e151 = i_1;
                float _e153 = own.inner[metal::min(unsigned(_e151), 639u)];
                uint _e155 = norm;
                uint _e156 = i_1;
                float _e158 = vector(_e155 + _e156, vectors, _buffer_sizes);
                own.inner[metal::min(unsigned(_e148), 639u)] = (_e153 * factor) * _e158;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e165 = args.turns;
    if (_e165 != NOTHING) {
        if (!(is_query)) {
            local_2 = is_key;
        } else {
            local_2 = true;
        }
        bool _e174 = local_2;
        local_1 = _e174;
    } else {
        local_1 = false;
    }
    bool _e176 = local_1;
    if (_e176) {
        pair = thread_;
        bool loop_init_9 = true;
        while(true) {
            if (!loop_init_9) {
                uint _e254 = pair;
                pair = _e254 + THREADS;
            }
            loop_init_9 = false;
            uint _e178 = pair;
            uint _e181 = args.pairs;
            if (_e178 < _e181) {
            } else {
                break;
            }
            {
                uint _e185 = args.turns;
                uint _e190 = args.pairs;
                uint _e192 = pair;
                uint by = _e185 + (2u * ((group.y * _e190) + _e192));
                uint _e197 = pair;
                uint _e199 = pair;
                uint _e202 = args.is_halves;
                uint first = (_e202 != 0u) ? _e199 : (2u * _e197);
                uint _e207 = pair;
                uint _e211 = pair;
                uint _e214 = args.pairs;
                uint _e218 = args.is_halves;
                uint second = (_e218 != 0u) ? (_e211 + _e214) : ((2u * _e207) + 1u);
                float a = own.inner[metal::min(unsigned(first), 639u)];
                float b = own.inner[metal::min(unsigned(second), 639u)];
                float _e232 = arena[metal::min(unsigned(by), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e238 = arena[metal::min(unsigned(by + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                own.inner[metal::min(unsigned(first), 639u)] = (a * _e232) - (b * _e238);
                float _e245 = arena[metal::min(unsigned(by), (_buffer_sizes.size0 - 0 - 4) / 4)];
                float _e251 = arena[metal::min(unsigned(by + 1u), (_buffer_sizes.size0 - 0 - 4) / 4)];
                own.inner[metal::min(unsigned(second), 639u)] = (b * _e245) + (a * _e251);
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_query) {
        i_2 = thread_;
        bool loop_init_10 = true;
        while(true) {
            if (!loop_init_10) {
                uint _e269 = i_2;
                i_2 = _e269 + THREADS;
            }
            loop_init_10 = false;
            uint _e258 = i_2;
            if (_e258 < width_3) {
            } else {
                break;
            }
            {
                uint _e261 = from_at;
                uint _e262 = i_2;
                uint _e266 = i_2;
                float _e268 = own.inner[metal::min(unsigned(_e266), 639u)];
                arena[metal::min(unsigned(_e261 + _e262), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e268;
            }
        }
        return;
    }
    metal::uint4 _e273 = token(group.y, step_words, _buffer_sizes);
    Sequence _e275 = sequence(_e273.z, step_words, _buffer_sizes);
    uint _e278 = place_of(_e275.pages, _e273.y, step_words, _buffer_sizes);
    uint _e281 = args.kv_heads;
    uint _e283 = head;
    uint place = (_e278 * _e281) + _e283;
    uint _e287 = args.values;
    uint _e290 = args.keys;
    uint values_1 = is_key ? _e290 : _e287;
    uint _e294 = args.value_scales;
    uint _e297 = args.key_scales;
    uint scales_1 = is_key ? _e297 : _e294;
    uint _e299 = row_words(width_3);
    uint _e302 = scale_words(width_3);
    put(values_1 + (place * _e299), scales_1 + (place * _e302), width_3, thread_, kept, own, _buffer_sizes);
    return;
}
