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
struct Args {
    uint query;
    uint mixed;
    uint keys;
    uint key_scales;
    uint values;
    uint value_scales;
    uint heads;
    uint kv_heads;
    uint key;
    uint value_row;
    uint value_start;
    uint window;
    uint is_both_ways;
    float scale;
    float cap;
    uint sinks;
    float alibi;
};
struct type_8 {
    metal::float4 inner[160];
};
struct type_9 {
    float inner[256];
};
struct type_10 {
    uint inner[256];
};
struct type_11 {
    metal::float4 inner[256];
};
struct type_13 {
    metal::float4 inner[1];
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
constant uint FOURS = 1u;

float vector(
    uint at,
    device type_3 const& vectors,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = vectors[metal::min(unsigned(at), (_buffer_sizes.size1 - 0 - 4) / 4)];
    return as_type<float>(_e3);
}

float kept_float(
    uint at_1,
    device type_3 const& kept,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = kept[metal::min(unsigned(at_1), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return as_type<float>(_e3);
}

metal::uint4 token(
    uint index,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(4), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at_3 = _e3 + (4u * index);
    uint _e9 = step_words[metal::min(unsigned(at_3), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_3 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_3 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_3 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return metal::uint4(_e9, _e14, _e19, _e24);
}

Sequence sequence(
    uint index_1,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(5), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at_4 = _e3 + (8u * index_1);
    uint _e9 = step_words[metal::min(unsigned(at_4), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_4 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_4 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_4 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e29 = step_words[metal::min(unsigned(at_4 + 4u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e34 = step_words[metal::min(unsigned(at_4 + 5u), (_buffer_sizes.size2 - 0 - 4) / 4)];
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

float half_(
    uint bits
) {
    uint magnitude = bits & 32767u;
    float usual = as_type<float>((magnitude << 13u) + 939524096u);
    float value = (magnitude < 1024u) ? (static_cast<float>(magnitude) * 0.000000059604645) : usual;
    return ((bits & 32768u) != 0u) ? -(value) : value;
}

float hyperbolic_tangent(
    float x
) {
    float y = metal::exp(2.0 * metal::clamp(x, -20.0, 20.0));
    return (y - 1.0) / (y + 1.0);
}

float lane_sum(
    float x_1,
    uint thread_1
) {
    float sum_3 = {};
    uint step = 16u;
    sum_3 = x_1;
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
            float _e8 = sum_3;
            float _e9 = sum_3;
            uint _e10 = step;
            float unnamed = metal::simd_shuffle_xor(_e9, _e10);
            sum_3 = _e8 + unnamed;
        }
    }
    float _e16 = sum_3;
    return _e16;
}

float lane_max(
    float x_2
) {
    float most_1 = {};
    uint step_1 = 16u;
    most_1 = x_2;
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

float workgroup_sum(
    float x_3,
    uint thread_2,
    threadgroup type_6& reduced
) {
    float sum_4 = 0.0;
    uint part = 0u;
    float _e2 = lane_sum(x_3, thread_2);
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
            float _e18 = sum_4;
            uint _e20 = part;
            float _e22 = reduced.inner[metal::min(unsigned(_e20), 7u)];
            sum_4 = _e18 + _e22;
        }
    }
    float _e27 = sum_4;
    return _e27;
}

float workgroup_max(
    float x_4,
    uint thread_3,
    threadgroup type_6& reduced
) {
    float most_2 = LEAST;
    uint part_1 = 0u;
    float _e2 = lane_max(x_4);
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

float cached_scale(
    uint scales,
    uint block,
    device type_3 const& kept,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e7 = kept[metal::min(unsigned(scales + naga_div(block, 2u)), (_buffer_sizes.size3 - 0 - 4) / 4)];
    float _e15 = half_((_e7 >> (16u * naga_mod(block, 2u))) & 65535u);
    return _e15;
}

metal::float4 cached_four(
    uint values,
    uint scales_1,
    uint four,
    device type_3 const& kept,
    constant _mslBufferSizes& _buffer_sizes
) {
    switch(CACHE) {
        case 0u: {
            uint at_5 = values + (4u * four);
            float _e7 = kept_float(at_5, kept, _buffer_sizes);
            float _e10 = kept_float(at_5 + 1u, kept, _buffer_sizes);
            float _e13 = kept_float(at_5 + 2u, kept, _buffer_sizes);
            float _e16 = kept_float(at_5 + 3u, kept, _buffer_sizes);
            return metal::float4(_e7, _e10, _e13, _e16);
        }
        case 1u: {
            uint at_6 = values + (2u * four);
            uint _e23 = kept[metal::min(unsigned(at_6), (_buffer_sizes.size3 - 0 - 4) / 4)];
            uint _e29 = kept[metal::min(unsigned(at_6 + 1u), (_buffer_sizes.size3 - 0 - 4) / 4)];
            return metal::float4(float2(as_type<half2>(_e23)), float2(as_type<half2>(_e29)));
        }
        case 2u: {
            float _e34 = cached_scale(scales_1, naga_div(four, 8u), kept, _buffer_sizes);
            uint _e38 = kept[metal::min(unsigned(values + four), (_buffer_sizes.size3 - 0 - 4) / 4)];
            return _e34 * static_cast<metal::float4>(int4(as_type<packed_char4>(_e38)));
        }
        default: {
            uint _e47 = kept[metal::min(unsigned(values + naga_div(four, 2u)), (_buffer_sizes.size3 - 0 - 4) / 4)];
            uint codes = _e47 >> (16u * naga_mod(four, 2u));
            metal::uint4 spread = (metal::uint4(codes) >> metal::uint4(0u, 4u, 8u, 12u)) & metal::uint4(15u);
            float _e65 = cached_scale(scales_1, naga_div(four, 8u), kept, _buffer_sizes);
            return _e65 * (static_cast<metal::float4>(spread) - metal::float4(8.0));
        }
    }
}

float value_of(
    uint at_2,
    bool is_there,
    device type_2 const& arena,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (is_there) {
        float _e4 = arena[metal::min(unsigned(at_2), (_buffer_sizes.size0 - 0 - 4) / 4)];
        return _e4;
    }
    return 0.0;
}

float slope_of(
    uint head,
    constant Args& args
) {
    uint _e4 = args.heads;
    uint power = 1u << metal::select(31 - metal::clz(_e4), uint(-1), _e4 == 0);
    float step_2 = (head < power) ? (static_cast<float>(head + 1u) / static_cast<float>(power)) : (static_cast<float>((2u * (head - power)) + 1u) / static_cast<float>(2u * power));
    float _e26 = args.alibi;
    return metal::exp2(-(_e26) * step_2);
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& vectors [[buffer(4)]]
, device type_3 const& step_words [[buffer(5)]]
, device type_3 const& kept [[buffer(6)]]
, threadgroup type_6& reduced
, constant Args& args [[buffer(7)]]
, threadgroup type_8& query
, threadgroup type_9& shares
, threadgroup type_10& places
, threadgroup type_11& parts
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint i = {};
    uint end = {};
    float most = LEAST;
    float total = 0.0;
    type_13 sums = {};
    uint i_1 = 0u;
    uint first = {};
    float score = {};
    float sum = {};
    uint i_2 = {};
    uint i_3 = {};
    metal::float4 sum_1 = {};
    bool local = {};
    uint other = {};
    uint i_4 = 0u;
    uint i_5 = 0u;
    metal::float4 sum_2 = {};
    uint other_1 = {};
    uint j = {};
    bool local_1 = {};
    uint head_1 = group.x;
    uint _e5 = args.heads;
    uint _e8 = args.kv_heads;
    uint kv_head = naga_div(head_1, naga_div(_e5, _e8));
    uint _e13 = args.key;
    uint key_fours = naga_div(_e13 + 3u, 4u);
    uint _e20 = args.query;
    uint _e24 = args.heads;
    uint _e29 = args.key;
    uint from_at = _e20 + (((group.y * _e24) + head_1) * _e29);
    i = thread_;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e68 = i;
            i = _e68 + THREADS;
        }
        loop_init_4 = false;
        uint _e33 = i;
        if (_e33 < key_fours) {
        } else {
            break;
        }
        {
            uint _e36 = i;
            uint at_7 = from_at + (4u * _e36);
            uint _e41 = args.key;
            uint _e43 = i;
            uint rest = _e41 - (4u * _e43);
            uint _e47 = i;
            float _e51 = arena[metal::min(unsigned(at_7), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e56 = value_of(at_7 + 1u, rest > 1u, arena, _buffer_sizes);
            float _e61 = value_of(at_7 + 2u, rest > 2u, arena, _buffer_sizes);
            float _e66 = value_of(at_7 + 3u, rest > 3u, arena, _buffer_sizes);
            query.inner[metal::min(unsigned(_e47), 159u)] = metal::float4(_e51, _e56, _e61, _e66);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint4 _e72 = token(group.y, step_words, _buffer_sizes);
    Sequence _e74 = sequence(_e72.z, step_words, _buffer_sizes);
    uint pages_1 = _e74.pages;
    uint _e82 = args.window;
    uint _e86 = args.window;
    uint start = (_e86 <= _e72.y) ? ((_e72.y + 1u) - _e82) : 0u;
    end = _e72.y + 1u;
    uint _e96 = args.is_both_ways;
    if (_e96 != 0u) {
        end = _e72.w;
        uint _e102 = args.window;
        if (_e102 < (_e72.w - _e72.y)) {
            uint _e110 = args.window;
            end = _e72.y + _e110;
        }
    }
    uint _e114 = args.value_row;
    uint value_fours = naga_div(_e114 + 3u, 4u);
    uint spread_1 = metal::max(1u, naga_div(THREADS, value_fours));
    uint share_of = naga_div(thread_, value_fours);
    float _e124 = slope_of(head_1, args);
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e140 = i_1;
            i_1 = _e140 + 1u;
        }
        loop_init_5 = false;
        uint _e132 = i_1;
        if (_e132 < FOURS) {
        } else {
            break;
        }
        {
            uint _e135 = i_1;
            sums.inner[metal::min(unsigned(_e135), 0u)] = metal::float4(0.0);
        }
    }
    first = start;
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e330 = first;
            first = _e330 + THREADS;
        }
        loop_init_6 = false;
        uint _e143 = first;
        uint _e144 = end;
        if (_e143 < _e144) {
        } else {
            break;
        }
        {
            uint _e147 = end;
            uint _e148 = first;
            uint count = metal::min(THREADS, _e147 - _e148);
            score = LEAST;
            if (thread_ < count) {
                uint _e154 = first;
                uint _e156 = place_of(pages_1, _e154 + thread_, step_words, _buffer_sizes);
                uint _e159 = args.kv_heads;
                uint place = (_e156 * _e159) + kv_head;
                places.inner[metal::min(unsigned(thread_), 255u)] = place;
                uint _e166 = args.keys;
                uint _e169 = args.key;
                uint _e170 = row_words(_e169);
                uint values_1 = _e166 + (place * _e170);
                uint _e175 = args.key_scales;
                uint _e178 = args.key;
                uint _e179 = scale_words(_e178);
                uint scales_2 = _e175 + (place * _e179);
                sum = 0.0;
                i_2 = 0u;
                bool loop_init_7 = true;
                while(true) {
                    if (!loop_init_7) {
                        uint _e198 = i_2;
                        i_2 = _e198 + 1u;
                    }
                    loop_init_7 = false;
                    uint _e186 = i_2;
                    if (_e186 < key_fours) {
                    } else {
                        break;
                    }
                    {
                        float _e188 = sum;
                        uint _e190 = i_2;
                        metal::float4 _e192 = query.inner[metal::min(unsigned(_e190), 159u)];
                        uint _e193 = i_2;
                        metal::float4 _e194 = cached_four(values_1, scales_2, _e193, kept, _buffer_sizes);
                        sum = _e188 + metal::dot(_e192, _e194);
                    }
                }
                float _e200 = sum;
                float _e203 = args.scale;
                score = _e200 * _e203;
                float _e207 = args.cap;
                if (_e207 > 0.0) {
                    float _e212 = args.cap;
                    float _e213 = score;
                    float _e216 = args.cap;
                    float _e218 = hyperbolic_tangent(_e213 / _e216);
                    score = _e212 * _e218;
                }
                float _e222 = args.alibi;
                if (_e222 > 0.0) {
                    float _e225 = score;
                    uint _e226 = first;
                    score = _e225 - (_e124 * metal::abs(static_cast<float>(as_type<int>(as_type<uint>(static_cast<int>(_e226 + thread_)) - as_type<uint>(static_cast<int>(_e72.y))))));
                }
            }
            float _e236 = most;
            float _e237 = score;
            float _e238 = workgroup_max(_e237, thread_, reduced);
            float larger = metal::max(_e236, _e238);
            float _e240 = score;
            float weight = (thread_ < count) ? metal::exp(_e240 - larger) : 0.0;
            float _e246 = most;
            float remains = metal::exp(_e246 - larger);
            shares.inner[metal::min(unsigned(thread_), 255u)] = weight;
            float _e251 = total;
            float _e253 = workgroup_sum(weight, thread_, reduced);
            total = (_e251 * remains) + _e253;
            most = larger;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            i_3 = 0u;
            bool loop_init_8 = true;
            while(true) {
                if (!loop_init_8) {
                    uint _e328 = i_3;
                    i_3 = _e328 + 1u;
                }
                loop_init_8 = false;
                uint _e257 = i_3;
                if (_e257 < FOURS) {
                } else {
                    break;
                }
                {
                    uint _e260 = i_3;
                    uint four_1 = (spread_1 > 1u) ? naga_mod(thread_, value_fours) : (thread_ + (_e260 * THREADS));
                    uint _e268 = i_3;
                    metal::float4 _e270 = sums.inner[metal::min(unsigned(_e268), 0u)];
                    sum_1 = _e270 * remains;
                    if (four_1 < value_fours) {
                        local = share_of < spread_1;
                    } else {
                        local = false;
                    }
                    bool _e278 = local;
                    if (_e278) {
                        other = (spread_1 > 1u) ? share_of : 0u;
                        bool loop_init_9 = true;
                        while(true) {
                            if (!loop_init_9) {
                                uint _e320 = other;
                                other = _e320 + spread_1;
                            }
                            loop_init_9 = false;
                            uint _e284 = other;
                            if (_e284 < count) {
                            } else {
                                break;
                            }
                            {
                                uint _e288 = args.values;
                                uint _e290 = other;
                                uint _e292 = places.inner[metal::min(unsigned(_e290), 255u)];
                                uint _e295 = args.value_row;
                                uint _e296 = row_words(_e295);
                                uint values_2 = _e288 + (_e292 * _e296);
                                uint _e301 = args.value_scales;
                                uint _e303 = other;
                                uint _e305 = places.inner[metal::min(unsigned(_e303), 255u)];
                                uint _e308 = args.value_row;
                                uint _e309 = scale_words(_e308);
                                uint scales_3 = _e301 + (_e305 * _e309);
                                metal::float4 _e312 = sum_1;
                                uint _e314 = other;
                                float _e316 = shares.inner[metal::min(unsigned(_e314), 255u)];
                                metal::float4 _e317 = cached_four(values_2, scales_3, four_1, kept, _buffer_sizes);
                                sum_1 = _e312 + (_e316 * _e317);
                            }
                        }
                    }
                    uint _e322 = i_3;
                    metal::float4 _e324 = sum_1;
                    sums.inner[metal::min(unsigned(_e322), 0u)] = _e324;
                    if (spread_1 > 1u) {
                        break;
                    }
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    uint _e335 = args.sinks;
    if (_e335 != NOTHING) {
        uint _e340 = args.sinks;
        float _e342 = vector(_e340 + head_1, vectors, _buffer_sizes);
        float _e343 = most;
        float larger_1 = metal::max(_e343, _e342);
        float _e345 = most;
        float remains_1 = metal::exp(_e345 - larger_1);
        float _e348 = total;
        total = (_e348 * remains_1) + metal::exp(_e342 - larger_1);
        bool loop_init_10 = true;
        while(true) {
            if (!loop_init_10) {
                uint _e363 = i_4;
                i_4 = _e363 + 1u;
            }
            loop_init_10 = false;
            uint _e355 = i_4;
            if (_e355 < FOURS) {
            } else {
                break;
            }
            {
                uint _e358 = i_4;
                metal::float4 _e360 = sums.inner[metal::min(unsigned(_e358), 0u)];
                sums.inner[metal::min(unsigned(_e358), 0u)] = _e360 * remains_1;
            }
        }
    }
    metal::float4 _e368 = sums.inner[0];
    parts.inner[metal::min(unsigned(thread_), 255u)] = _e368;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e371 = args.value_row;
    uint _e374 = args.value_start;
    uint width_2 = _e371 - _e374;
    uint _e378 = args.mixed;
    uint _e382 = args.heads;
    uint to = _e378 + (((group.y * _e382) + head_1) * width_2);
    bool loop_init_11 = true;
    while(true) {
        if (!loop_init_11) {
            uint _e453 = i_5;
            i_5 = _e453 + 1u;
        }
        loop_init_11 = false;
        uint _e389 = i_5;
        if (_e389 < FOURS) {
        } else {
            break;
        }
        {
            uint _e392 = i_5;
            uint four_2 = thread_ + (_e392 * THREADS);
            if (four_2 < value_fours) {
                uint _e397 = i_5;
                metal::float4 _e399 = sums.inner[metal::min(unsigned(_e397), 0u)];
                sum_2 = _e399;
                other_1 = 1u;
                bool loop_init_12 = true;
                while(true) {
                    if (!loop_init_12) {
                        uint _e414 = other_1;
                        other_1 = _e414 + 1u;
                    }
                    loop_init_12 = false;
                    uint _e403 = other_1;
                    if (_e403 < spread_1) {
                    } else {
                        break;
                    }
                    {
                        metal::float4 _e405 = sum_2;
                        uint _e407 = other_1;
                        metal::float4 _e411 = parts.inner[metal::min(unsigned(four_2 + (_e407 * value_fours)), 255u)];
                        sum_2 = _e405 + _e411;
                    }
                }
                j = 0u;
                bool loop_init_13 = true;
                while(true) {
                    if (!loop_init_13) {
                        uint _e450 = j;
                        j = _e450 + 1u;
                    }
                    loop_init_13 = false;
                    uint _e418 = j;
                    if (_e418 < 4u) {
                    } else {
                        break;
                    }
                    {
                        uint _e423 = j;
                        uint at_8 = (4u * four_2) + _e423;
                        uint _e427 = args.value_start;
                        if (at_8 >= _e427) {
                            uint _e433 = args.value_row;
                            local_1 = at_8 < _e433;
                        } else {
                            local_1 = false;
                        }
                        bool _e436 = local_1;
                        if (_e436) {
                            uint _e441 = args.value_start;
                            uint _e444 = j;
                            float _e446 = sum_2[metal::min(unsigned(_e444), 3u)];
                            float _e447 = total;
                            arena[metal::min(unsigned((to + at_8) - _e441), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e446 / _e447;
                        }
                    }
                }
            }
        }
    }
    return;
}
