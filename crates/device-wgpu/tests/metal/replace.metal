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
struct type_4 {
    float inner[8];
};
struct Args {
    uint query;
    uint key;
    uint value;
    uint steps;
    uint rates;
    uint first;
    uint mixed;
    uint states;
    uint removal;
    uint insertion;
    uint heads;
    uint head_dim;
    uint has_residual;
};
struct type_5 {
    float inner[512];
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

float kept_float(
    uint at_1,
    device type_3 const& kept,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = kept[metal::min(unsigned(at_1), (_buffer_sizes.size3 - 0 - 4) / 4)];
    return as_type<float>(_e3);
}

Sequence sequence(
    uint index_2,
    device type_3 const& step_words,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = step_words[metal::min(unsigned(5), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint at_2 = _e3 + (8u * index_2);
    uint _e9 = step_words[metal::min(unsigned(at_2), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e14 = step_words[metal::min(unsigned(at_2 + 1u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e19 = step_words[metal::min(unsigned(at_2 + 2u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e24 = step_words[metal::min(unsigned(at_2 + 3u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e29 = step_words[metal::min(unsigned(at_2 + 4u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    uint _e34 = step_words[metal::min(unsigned(at_2 + 5u), (_buffer_sizes.size2 - 0 - 4) / 4)];
    return Sequence {_e9, _e14, _e19, _e24, _e29, _e34};
}

float sigmoid(
    float x
) {
    return 1.0 / (1.0 + metal::exp(-(metal::clamp(x, -87.0, 87.0))));
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

float workgroup_sum(
    float x_2,
    uint thread_2,
    threadgroup type_4& reduced
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

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2& arena [[buffer(0)]]
, device type_3 const& vectors [[buffer(4)]]
, device type_3 const& step_words [[buffer(5)]]
, device type_3& kept [[buffer(6)]]
, threadgroup type_4& reduced
, constant Args& args [[buffer(7)]]
, threadgroup type_5& r
, threadgroup type_5& keep
, threadgroup type_5& seen
, threadgroup type_5& back
, threadgroup type_5& k
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint index = {};
    uint i = {};
    uint t = {};
    float squares = {};
    uint i_1 = {};
    uint i_2 = {};
    uint index_1 = {};
    float v = {};
    float has = {};
    uint i_3 = {};
    float y = {};
    uint i_4 = {};
    uint head = group.x;
    Sequence _e4 = sequence(group.y, step_words, _buffer_sizes);
    uint dim = args.head_dim;
    uint _e10 = args.states;
    uint _e14 = args.heads;
    uint state = _e10 + ((((_e4.slot * _e14) + head) * dim) * dim);
    if (_e4.cached == 0u) {
        index = thread_;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e41 = index;
                index = _e41 + THREADS;
            }
            loop_init_2 = false;
            uint _e24 = index;
            if (_e24 < dim) {
            } else {
                break;
            }
            {
                i = 0u;
                bool loop_init_3 = true;
                while(true) {
                    if (!loop_init_3) {
                        uint _e39 = i;
                        i = _e39 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e28 = i;
                    if (_e28 < dim) {
                    } else {
                        break;
                    }
                    {
                        uint _e31 = i;
                        uint _e34 = index;
                        kept[metal::min(unsigned((state + (_e31 * dim)) + _e34), (_buffer_sizes.size3 - 0 - 4) / 4)] = 0u;
                    }
                }
            }
        }
    }
    t = _e4.first;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e314 = t;
            t = _e314 + 1u;
        }
        loop_init_4 = false;
        uint _e46 = t;
        if (_e46 < (_e4.first + _e4.count)) {
        } else {
            break;
        }
        {
            uint _e51 = t;
            uint _e54 = args.heads;
            uint row = ((_e51 * _e54) + head) * dim;
            squares = 0.0;
            i_1 = thread_;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e145 = i_1;
                    i_1 = _e145 + THREADS;
                }
                loop_init_5 = false;
                uint _e61 = i_1;
                if (_e61 < dim) {
                } else {
                    break;
                }
                {
                    uint _e66 = args.rates;
                    uint _e68 = i_1;
                    float _e71 = arena[metal::min(unsigned((_e66 + row) + _e68), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e72 = sigmoid(_e71);
                    uint _e76 = args.key;
                    uint _e78 = i_1;
                    float key = arena[metal::min(unsigned((_e76 + row) + _e78), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    uint _e84 = args.removal;
                    uint _e87 = i_1;
                    float _e89 = vector((_e84 + (head * dim)) + _e87, vectors, _buffer_sizes);
                    float u = key * _e89;
                    uint _e92 = i_1;
                    uint _e97 = args.query;
                    uint _e99 = i_1;
                    float _e102 = arena[metal::min(unsigned((_e97 + row) + _e99), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    r.inner[metal::min(unsigned(_e92), 511u)] = _e102;
                    uint _e104 = i_1;
                    uint _e109 = args.steps;
                    uint _e111 = i_1;
                    float _e114 = arena[metal::min(unsigned((_e109 + row) + _e111), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e115 = sigmoid(_e114);
                    keep.inner[metal::min(unsigned(_e104), 511u)] = metal::exp(-0.60653067 * _e115);
                    uint _e120 = i_1;
                    uint _e126 = args.insertion;
                    uint _e129 = i_1;
                    float _e131 = vector((_e126 + (head * dim)) + _e129, vectors, _buffer_sizes);
                    k.inner[metal::min(unsigned(_e120), 511u)] = key * (1.0 + ((_e72 - 1.0) * _e131));
                    uint _e137 = i_1;
                    seen.inner[metal::min(unsigned(_e137), 511u)] = u;
                    uint _e140 = i_1;
                    back.inner[metal::min(unsigned(_e140), 511u)] = _e72;
                    float _e142 = squares;
                    squares = _e142 + (u * u);
                }
            }
            float _e148 = squares;
            float _e149 = workgroup_sum(_e148, thread_, reduced);
            float factor = 1.0 / metal::max(metal::sqrt(_e149), 0.000000000001);
            i_2 = thread_;
            bool loop_init_6 = true;
            while(true) {
                if (!loop_init_6) {
                    uint _e172 = i_2;
                    i_2 = _e172 + THREADS;
                }
                loop_init_6 = false;
                uint _e156 = i_2;
                if (_e156 < dim) {
                } else {
                    break;
                }
                {
                    uint _e159 = i_2;
                    float _e161 = seen.inner[metal::min(unsigned(_e159), 511u)];
                    seen.inner[metal::min(unsigned(_e159), 511u)] = _e161 * factor;
                    uint _e164 = i_2;
                    float _e166 = back.inner[metal::min(unsigned(_e164), 511u)];
                    uint _e168 = i_2;
                    float _e170 = seen.inner[metal::min(unsigned(_e168), 511u)];
                    back.inner[metal::min(unsigned(_e164), 511u)] = _e166 * _e170;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            index_1 = thread_;
            bool loop_init_7 = true;
            while(true) {
                if (!loop_init_7) {
                    uint _e310 = index_1;
                    index_1 = _e310 + THREADS;
                }
                loop_init_7 = false;
                uint _e176 = index_1;
                if (_e176 < dim) {
                } else {
                    break;
                }
                {
                    uint _e178 = index_1;
                    uint at_3 = row + _e178;
                    uint _e183 = args.value;
                    float _e186 = arena[metal::min(unsigned(_e183 + at_3), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    v = _e186;
                    uint _e190 = args.has_residual;
                    if (_e190 != 0u) {
                        float _e193 = v;
                        uint _e197 = args.first;
                        float _e200 = arena[metal::min(unsigned(_e197 + at_3), (_buffer_sizes.size0 - 0 - 4) / 4)];
                        float _e201 = v;
                        uint _e206 = args.mixed;
                        float _e209 = arena[metal::min(unsigned(_e206 + at_3), (_buffer_sizes.size0 - 0 - 4) / 4)];
                        float _e210 = sigmoid(_e209);
                        v = _e193 + ((_e200 - _e201) * _e210);
                    } else {
                        uint _e216 = args.first;
                        float _e219 = v;
                        arena[metal::min(unsigned(_e216 + at_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e219;
                    }
                    has = 0.0;
                    i_3 = 0u;
                    bool loop_init_8 = true;
                    while(true) {
                        if (!loop_init_8) {
                            uint _e240 = i_3;
                            i_3 = _e240 + 1u;
                        }
                        loop_init_8 = false;
                        uint _e224 = i_3;
                        if (_e224 < dim) {
                        } else {
                            break;
                        }
                        {
                            float _e226 = has;
                            uint _e227 = i_3;
                            uint _e230 = index_1;
                            float _e232 = kept_float((state + (_e227 * dim)) + _e230, kept, _buffer_sizes);
                            uint _e234 = i_3;
                            float _e236 = seen.inner[metal::min(unsigned(_e234), 511u)];
                            has = _e226 + (_e232 * _e236);
                        }
                    }
                    y = 0.0;
                    i_4 = 0u;
                    bool loop_init_9 = true;
                    while(true) {
                        if (!loop_init_9) {
                            uint _e284 = i_4;
                            i_4 = _e284 + 1u;
                        }
                        loop_init_9 = false;
                        uint _e246 = i_4;
                        if (_e246 < dim) {
                        } else {
                            break;
                        }
                        {
                            uint _e248 = i_4;
                            uint _e251 = index_1;
                            uint place = (state + (_e248 * dim)) + _e251;
                            float _e253 = kept_float(place, kept, _buffer_sizes);
                            uint _e255 = i_4;
                            float _e257 = keep.inner[metal::min(unsigned(_e255), 511u)];
                            uint _e260 = i_4;
                            float _e262 = k.inner[metal::min(unsigned(_e260), 511u)];
                            float _e263 = v;
                            uint _e266 = i_4;
                            float _e268 = back.inner[metal::min(unsigned(_e266), 511u)];
                            float _e269 = has;
                            float x_3 = (_e253 * _e257) + ((_e262 * _e263) - (_e268 * _e269));
                            kept[metal::min(unsigned(place), (_buffer_sizes.size3 - 0 - 4) / 4)] = as_type<uint>(x_3);
                            float _e276 = y;
                            uint _e278 = i_4;
                            float _e280 = r.inner[metal::min(unsigned(_e278), 511u)];
                            y = _e276 + (x_3 * _e280);
                        }
                    }
                    uint _e289 = args.mixed;
                    float _e292 = y;
                    arena[metal::min(unsigned(_e289 + at_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e292;
                    uint _e296 = args.key;
                    uint _e300 = index_1;
                    float _e302 = k.inner[metal::min(unsigned(_e300), 511u)];
                    arena[metal::min(unsigned(_e296 + at_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e302;
                    uint _e306 = args.value;
                    float _e309 = v;
                    arena[metal::min(unsigned(_e306 + at_3), (_buffer_sizes.size0 - 0 - 4) / 4)] = _e309;
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    return;
}
