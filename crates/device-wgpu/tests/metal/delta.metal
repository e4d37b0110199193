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
    uint channels;
    uint steps;
    uint rates;
    uint mixed;
    uint states;
    uint decay;
    uint step_bias;
    uint heads;
    uint keys;
    uint key_dim;
    uint value_dim;
    uint is_interleaved;
    float epsilon;
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

float softplus(
    float x_1
) {
    return (x_1 > 20.0) ? x_1 : metal::log(1.0 + metal::exp(metal::min(x_1, 30.0)));
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

float lane_sum(
    float x_2,
    uint thread_1
) {
    float sum = {};
    uint step = 16u;
    sum = x_2;
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
    float x_3,
    uint thread_2,
    threadgroup type_4& reduced
) {
    float sum_1 = 0.0;
    uint part = 0u;
    float _e2 = lane_sum(x_3, thread_2);
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
, threadgroup type_5& q
, threadgroup type_5& k
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint index = {};
    uint i = {};
    uint t = {};
    float q_squares = {};
    float k_squares = {};
    uint i_1 = {};
    float both = {};
    uint i_2 = {};
    uint index_1 = {};
    float for_k = {};
    float for_q = {};
    uint i_3 = {};
    uint i_4 = {};
    uint head = group.x;
    Sequence _e4 = sequence(group.y, step_words, _buffer_sizes);
    uint _e8 = args.keys;
    uint _e12 = args.key_dim;
    uint _e16 = args.heads;
    uint _e19 = args.value_dim;
    uint row = ((2u * _e8) * _e12) + (_e16 * _e19);
    uint _e24 = args.heads;
    uint _e27 = args.keys;
    uint _e32 = args.keys;
    uint _e36 = args.is_interleaved;
    uint key = (_e36 != 0u) ? naga_mod(head, _e32) : naga_div(head, naga_div(_e24, _e27));
    uint _e42 = args.states;
    uint _e46 = args.heads;
    uint _e51 = args.key_dim;
    uint _e55 = args.value_dim;
    uint state = _e42 + ((((_e4.slot * _e46) + head) * _e51) * _e55);
    if (_e4.cached == 0u) {
        index = thread_;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e88 = index;
                index = _e88 + THREADS;
            }
            loop_init_2 = false;
            uint _e62 = index;
            uint _e65 = args.value_dim;
            if (_e62 < _e65) {
            } else {
                break;
            }
            {
                i = 0u;
                bool loop_init_3 = true;
                while(true) {
                    if (!loop_init_3) {
                        uint _e86 = i;
                        i = _e86 + 1u;
                    }
                    loop_init_3 = false;
                    uint _e69 = i;
                    uint _e72 = args.key_dim;
                    if (_e69 < _e72) {
                    } else {
                        break;
                    }
                    {
                        uint _e75 = i;
                        uint _e78 = args.value_dim;
                        uint _e81 = index;
                        kept[metal::min(unsigned((state + (_e75 * _e78)) + _e81), (_buffer_sizes.size3 - 0 - 4) / 4)] = 0u;
                    }
                }
            }
        }
    }
    t = _e4.first;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e391 = t;
            t = _e391 + 1u;
        }
        loop_init_4 = false;
        uint _e93 = t;
        if (_e93 < (_e4.first + _e4.count)) {
        } else {
            break;
        }
        {
            uint _e100 = args.channels;
            uint _e101 = t;
            uint in = _e100 + (_e101 * row);
            q_squares = 0.0;
            k_squares = 0.0;
            i_1 = thread_;
            bool loop_init_5 = true;
            while(true) {
                if (!loop_init_5) {
                    uint _e144 = i_1;
                    i_1 = _e144 + THREADS;
                }
                loop_init_5 = false;
                uint _e109 = i_1;
                uint _e112 = args.key_dim;
                if (_e109 < _e112) {
                } else {
                    break;
                }
                {
                    uint _e117 = args.key_dim;
                    uint _e120 = i_1;
                    float a = arena[metal::min(unsigned((in + (key * _e117)) + _e120), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    uint _e127 = args.keys;
                    uint _e131 = args.key_dim;
                    uint _e134 = i_1;
                    float b = arena[metal::min(unsigned((in + ((_e127 + key) * _e131)) + _e134), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e138 = q_squares;
                    q_squares = _e138 + (a * a);
                    float _e141 = k_squares;
                    k_squares = _e141 + (b * b);
                }
            }
            uint _e149 = args.key_dim;
            float _e154 = q_squares;
            float _e155 = workgroup_sum(_e154, thread_, reduced);
            float _e158 = args.epsilon;
            float q_factor = (1.0 / metal::sqrt(static_cast<float>(_e149))) / metal::sqrt(_e155 + _e158);
            float _e162 = k_squares;
            float _e163 = workgroup_sum(_e162, thread_, reduced);
            float _e166 = args.epsilon;
            float k_factor = 1.0 / metal::sqrt(_e163 + _e166);
            both = 0.0;
            i_2 = thread_;
            bool loop_init_6 = true;
            while(true) {
                if (!loop_init_6) {
                    uint _e222 = i_2;
                    i_2 = _e222 + THREADS;
                }
                loop_init_6 = false;
                uint _e174 = i_2;
                uint _e177 = args.key_dim;
                if (_e174 < _e177) {
                } else {
                    break;
                }
                {
                    uint _e180 = i_2;
                    uint _e185 = args.key_dim;
                    uint _e188 = i_2;
                    float _e191 = arena[metal::min(unsigned((in + (key * _e185)) + _e188), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    q.inner[metal::min(unsigned(_e180), 511u)] = _e191 * q_factor;
                    uint _e194 = i_2;
                    uint _e199 = args.keys;
                    uint _e203 = args.key_dim;
                    uint _e206 = i_2;
                    float _e209 = arena[metal::min(unsigned((in + ((_e199 + key) * _e203)) + _e206), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    k.inner[metal::min(unsigned(_e194), 511u)] = _e209 * k_factor;
                    float _e211 = both;
                    uint _e213 = i_2;
                    float _e215 = q.inner[metal::min(unsigned(_e213), 511u)];
                    uint _e217 = i_2;
                    float _e219 = k.inner[metal::min(unsigned(_e217), 511u)];
                    both = _e211 + (_e215 * _e219);
                }
            }
            float _e225 = both;
            float _e226 = workgroup_sum(_e225, thread_, reduced);
            both = _e226;
            uint _e229 = args.decay;
            float _e231 = vector(_e229 + head, vectors, _buffer_sizes);
            uint _e235 = args.steps;
            uint _e236 = t;
            uint _e239 = args.heads;
            float _e244 = arena[metal::min(unsigned((_e235 + (_e236 * _e239)) + head), (_buffer_sizes.size0 - 0 - 4) / 4)];
            uint _e247 = args.step_bias;
            float _e249 = vector(_e247 + head, vectors, _buffer_sizes);
            float _e251 = softplus(_e244 + _e249);
            float keep = metal::exp(_e231 * _e251);
            uint _e257 = args.rates;
            uint _e258 = t;
            uint _e261 = args.heads;
            float _e266 = arena[metal::min(unsigned((_e257 + (_e258 * _e261)) + head), (_buffer_sizes.size0 - 0 - 4) / 4)];
            float _e267 = sigmoid(_e266);
            index_1 = thread_;
            bool loop_init_7 = true;
            while(true) {
                if (!loop_init_7) {
                    uint _e387 = index_1;
                    index_1 = _e387 + THREADS;
                }
                loop_init_7 = false;
                uint _e269 = index_1;
                uint _e272 = args.value_dim;
                if (_e269 < _e272) {
                } else {
                    break;
                }
                {
                    for_k = 0.0;
                    for_q = 0.0;
                    i_3 = 0u;
                    bool loop_init_8 = true;
                    while(true) {
                        if (!loop_init_8) {
                            uint _e309 = i_3;
                            i_3 = _e309 + 1u;
                        }
                        loop_init_8 = false;
                        uint _e280 = i_3;
                        uint _e283 = args.key_dim;
                        if (_e280 < _e283) {
                        } else {
                            break;
                        }
                        {
                            uint _e285 = i_3;
                            uint _e288 = args.value_dim;
                            uint _e291 = index_1;
                            float _e293 = kept_float((state + (_e285 * _e288)) + _e291, kept, _buffer_sizes);
                            float _e294 = for_k;
                            uint _e296 = i_3;
                            float _e298 = k.inner[metal::min(unsigned(_e296), 511u)];
                            for_k = _e294 + (_e293 * _e298);
                            float _e301 = for_q;
                            uint _e303 = i_3;
                            float _e305 = q.inner[metal::min(unsigned(_e303), 511u)];
                            for_q = _e301 + (_e293 * _e305);
                        }
                    }
                    uint _e315 = args.keys;
                    uint _e319 = args.key_dim;
                    uint _e324 = args.value_dim;
                    uint _e327 = index_1;
                    float _e330 = arena[metal::min(unsigned(((in + ((2u * _e315) * _e319)) + (head * _e324)) + _e327), (_buffer_sizes.size0 - 0 - 4) / 4)];
                    float _e331 = for_k;
                    float correction = (_e330 - (keep * _e331)) * _e267;
                    i_4 = 0u;
                    bool loop_init_9 = true;
                    while(true) {
                        if (!loop_init_9) {
                            uint _e362 = i_4;
                            i_4 = _e362 + 1u;
                        }
                        loop_init_9 = false;
                        uint _e337 = i_4;
                        uint _e340 = args.key_dim;
                        if (_e337 < _e340) {
                        } else {
                            break;
                        }
                        {
                            uint _e342 = i_4;
                            uint _e345 = args.value_dim;
                            uint _e348 = index_1;
                            uint at_3 = (state + (_e342 * _e345)) + _e348;
                            float _e352 = kept_float(at_3, kept, _buffer_sizes);
                            uint _e355 = i_4;
                            float _e357 = k.inner[metal::min(unsigned(_e355), 511u)];
                            kept[metal::min(unsigned(at_3), (_buffer_sizes.size3 - 0 - 4) / 4)] = as_type<uint>((_e352 * keep) + (_e357 * correction));
                        }
                    }
                    uint _e367 = args.mixed;
                    uint _e368 = t;
                    uint _e371 = args.heads;
                    uint _e376 = args.value_dim;
                    uint _e379 = index_1;
                    float _e382 = for_q;
                    float _e384 = both;
                    arena[metal::min(unsigned((_e367 + (((_e368 * _e371) + head) * _e376)) + _e379), (_buffer_sizes.size0 - 0 - 4) / 4)] = (keep * _e382) + (_e384 * correction);
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    return;
}
