// How every storage type is unpacked: eight neighbouring values of a block at a time, as `kauri-formats` defines them.
//
// This is the plain way, for any type; the types that matter most have kernels of their own.
#pragma once
#include "plain.cuh"

// In the order of the variants of `Quant`.
enum {
    F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S,
    IQ1_S, IQ1_M, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0, F8_E4M3
};

// The code books, brought at load from where `kauri-formats` has them.
__device__ i8 book_iq1[2048][8];
__device__ i8 book_iq2_s[1024][8];
__device__ i8 book_iq2_xs[512][8];
__device__ i8 book_iq2_xxs[256][8];
__device__ i8 book_iq3_s[512][4];
__device__ i8 book_iq3_xxs[256][4];

// Constants of the formats (llama.cpp, MIT licence).
__device__ const i8 iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
__device__ const i8 fp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

DEVICE u16 word(const u8 *bytes) { return (u16)(bytes[0] | bytes[1] << 8); }
DEVICE u32 double_word(const u8 *bytes) { return word(bytes) | (u32)word(bytes + 2) << 16; }
DEVICE float half_at(const u8 *bytes) { return from_half(word(bytes)); }

// A type: values and bytes of a block, and `eight`, the values 8 * g and up of one.
template <int Q> struct Type;

#define TYPE(NAME, VALUES, SIZE)                                    \
    template <> struct Type<NAME> {                                 \
        static const int LEN = VALUES, BYTES = SIZE;                \
        DEVICE_MEMBER void eight(const u8 *b, int g, float *v);     \
    };                                                              \
    __device__ __forceinline__ void Type<NAME>::eight(const u8 *b, int g, float *v)
#define DEVICE_MEMBER static __device__ __forceinline__
#define EACH _Pragma("unroll") for (int j = 0; j < 8; j++)

// Blocks of one value: a run of eight.
TYPE(F32, 8, 32) { EACH v[j] = ((const float *)b)[j]; }
TYPE(F16, 8, 16) { EACH v[j] = from_half(((const u16 *)b)[j]); }
TYPE(BF16, 8, 16) { EACH v[j] = from_brain(((const u16 *)b)[j]); }

// Thirty-two values whose codes of four bits are sixteen bytes: the low halves first.
DEVICE int nibble(const u8 *codes, int g, int j) {
    int code = codes[8 * (g % 2) + j];
    return g < 2 ? code & 15 : code >> 4;
}
DEVICE int fifth_bit(u32 bits, int g, int j) { return (bits >> (8 * g + j) & 1) << 4; }

TYPE(Q4_0, 32, 18) {
    float scale = half_at(b);
    EACH v[j] = scale * (nibble(b + 2, g, j) - 8);
}
TYPE(Q4_1, 32, 20) {
    float scale = half_at(b), minimum = half_at(b + 2);
    EACH v[j] = __fadd_rn(__fmul_rn(scale, nibble(b + 4, g, j)), minimum);
}
TYPE(Q5_0, 32, 22) {
    float scale = half_at(b);
    u32 fifth = double_word(b + 2);
    EACH v[j] = scale * ((nibble(b + 6, g, j) | fifth_bit(fifth, g, j)) - 16);
}
TYPE(Q5_1, 32, 24) {
    float scale = half_at(b), minimum = half_at(b + 2);
    u32 fifth = double_word(b + 4);
    EACH v[j] = __fadd_rn(__fmul_rn(scale, nibble(b + 8, g, j) | fifth_bit(fifth, g, j)), minimum);
}
TYPE(Q8_0, 32, 34) {
    float scale = half_at(b);
    EACH v[j] = scale * (i8)b[2 + 8 * g + j];
}
TYPE(Q2_K, 256, 84) {
    int sub = g / 2, half = sub / 8, run = sub / 2 % 4, odd = sub % 2;
    float scale = half_at(b + 80) * (b[sub] & 15), minimum = half_at(b + 82) * (b[sub] >> 4);
    const u8 *codes = b + 16 + 32 * half + 16 * odd + 8 * (g % 2);
    EACH v[j] = __fsub_rn(__fmul_rn(scale, codes[j] >> (2 * run) & 3), minimum);
}
TYPE(Q3_K, 256, 110) {
    int sub = g / 2, half = sub / 8, run = sub / 2 % 4, odd = sub % 2;
    const u8 *packed = b + 96;
    int low_bits = packed[sub % 8] >> (4 * (sub / 8)) & 15, high_bits = packed[8 + sub % 4] >> (2 * (sub / 4)) & 3;
    float scale = half_at(b + 108) * ((low_bits | high_bits << 4) - 32);
    const u8 *third = b + 16 * odd + 8 * (g % 2), *low = b + 32 + 32 * half + 16 * odd + 8 * (g % 2);
    EACH v[j] = scale * (((low[j] >> (2 * run) & 3) | (third[j] >> (4 * half + run) & 1) << 2) - 4);
}
// The scale and minimum of a sub-block out of the header of Q4_K and Q5_K.
DEVICE void affine_header(const u8 *b, int sub, float *scale, float *minimum) {
    int i = sub % 4, low = b[4 + i], middle = b[8 + i], high = b[12 + i];
    int s = sub < 4 ? low & 63 : (high & 15) | (low >> 6) << 4;
    int m = sub < 4 ? middle & 63 : high >> 4 | (middle >> 6) << 4;
    *scale = half_at(b) * s;
    *minimum = half_at(b + 2) * m;
}
TYPE(Q4_K, 256, 144) {
    int sub = g / 4;
    float scale, minimum;
    affine_header(b, sub, &scale, &minimum);
    const u8 *codes = b + 16 + 32 * (sub / 2) + 8 * (g % 4);
    EACH v[j] = __fsub_rn(__fmul_rn(scale, codes[j] >> (4 * (sub % 2)) & 15), minimum);
}
TYPE(Q5_K, 256, 176) {
    int sub = g / 4;
    float scale, minimum;
    affine_header(b, sub, &scale, &minimum);
    const u8 *fifth = b + 16 + 8 * (g % 4), *codes = b + 48 + 32 * (sub / 2) + 8 * (g % 4);
    EACH v[j] = __fsub_rn(
        __fmul_rn(scale, (codes[j] >> (4 * (sub % 2)) & 15) | (fifth[j] >> sub & 1) << 4), minimum);
}
TYPE(Q6_K, 256, 210) {
    int half = g / 16, run = g / 4 % 4, at = 8 * (g % 4);
    float scale = half_at(b + 208) * (i8)b[192 + g / 2];
    const u8 *low = b + 64 * half + 32 * (run % 2) + at, *high = b + 128 + 32 * half + at;
    EACH v[j] = scale * (((low[j] >> (4 * (run / 2)) & 15) | (high[j] >> (2 * run) & 3) << 4) - 32);
}

DEVICE u32 even_signs(u32 stored) {
    stored &= 127;
    return stored | (__popc(stored) & 1) << 7;
}
DEVICE void signed_point(float scale, const i8 *point, int length, u32 signs, float *v) {
    for (int j = 0; j < length; j++) v[j] = scale * (signs >> j & 1 ? -point[j] : point[j]);
}
TYPE(IQ2_XXS, 256, 66) {
    const u8 *codes = b + 2 + 8 * (g / 4);
    u32 signs = double_word(codes + 4);
    float scale = half_at(b) * (0.5f + (signs >> 28)) * 0.25f;
    signed_point(scale, book_iq2_xxs[codes[g % 4]], 8, even_signs(signs >> (7 * (g % 4))), v);
}
TYPE(IQ2_XS, 256, 74) {
    u32 code = word(b + 2 + 2 * g), sub_scale = b[66 + g / 4] >> (4 * (g / 2 % 2)) & 15;
    float scale = half_at(b) * (0.5f + sub_scale) * 0.25f;
    signed_point(scale, book_iq2_xs[code & 511], 8, even_signs(code >> 9), v);
}
TYPE(IQ2_S, 256, 82) {
    u32 sub_scale = b[74 + g / 4] >> (4 * (g / 2 % 2)) & 15, high = b[66 + g / 4] >> (2 * (g % 4)) & 3;
    float scale = half_at(b) * (0.5f + sub_scale) * 0.25f;
    signed_point(scale, book_iq2_s[b[2 + g] | high << 8], 8, b[34 + g], v);
}
TYPE(IQ3_XXS, 256, 98) {
    u32 signs = double_word(b + 66 + 4 * (g / 4));
    const u8 *codes = b + 2 + 2 * g;
    float scale = half_at(b) * (0.5f + (signs >> 28)) * 0.5f;
    signs = even_signs(signs >> (7 * (g % 4)));
    signed_point(scale, book_iq3_xxs[codes[0]], 4, signs, v);
    signed_point(scale, book_iq3_xxs[codes[1]], 4, signs >> 4, v + 4);
}
TYPE(IQ3_S, 256, 110) {
    u32 sub_scale = b[106 + g / 8] >> (4 * (g / 4 % 2)) & 15, ninth = b[66 + g / 4] >> (2 * (g % 4)), signs = b[74 + g];
    float scale = half_at(b) * (1 + 2 * sub_scale);
    signed_point(scale, book_iq3_s[b[2 + 2 * g] | (ninth & 1) << 8], 4, signs, v);
    signed_point(scale, book_iq3_s[b[3 + 2 * g] | (ninth >> 1 & 1) << 8], 4, signs >> 4, v + 4);
}
DEVICE void shifted_point(float scale, const i8 *point, float shift, float *v) {
    EACH v[j] = scale * (point[j] + shift);
}
TYPE(IQ1_S, 256, 50) {
    u32 high = word(b + 34 + 2 * (g / 4));
    float scale = half_at(b) * (2 * (high >> 12 & 7) + 1), shift = high >> 15 ? -0.125f : 0.125f;
    shifted_point(scale, book_iq1[b[2 + g] | (high >> (3 * (g % 4)) & 7) << 8], shift, v);
}
TYPE(IQ1_M, 256, 56) {
    u32 bits = 0;
    for (int w = 0; w < 4; w++) bits |= (word(b + 48 + 2 * w) >> 12) << (4 * w);
    int sub = g / 2;
    float scale = from_half(bits) * (2 * (word(b + 48 + 2 * (sub / 4)) >> (3 * (sub % 4)) & 7) + 1);
    u32 high = b[32 + g / 2] >> (4 * (g % 2));
    shifted_point(scale, book_iq1[b[g] | (high & 7) << 8], high & 8 ? -0.125f : 0.125f, v);
}
TYPE(IQ4_NL, 32, 18) {
    float scale = half_at(b);
    EACH v[j] = scale * iq4_levels[nibble(b + 2, g, j)];
}
TYPE(IQ4_XS, 256, 136) {
    int sub = g / 4, low = b[4 + sub / 2] >> (4 * (sub % 2)) & 15, high = word(b + 2) >> (2 * sub) & 3;
    float scale = half_at(b) * ((low | high << 4) - 32);
    EACH v[j] = scale * iq4_levels[nibble(b + 8 + 16 * sub, g % 4, j)];
}
DEVICE float trit(const u8 *bytes, int digit, float scale) {
    u32 fraction = *bytes;
    for (int i = 0; i < digit; i++) fraction = fraction * 3 & 255;
    return scale * ((int)(fraction * 3 >> 8) - 1);
}
TYPE(TQ1_0, 256, 54) {
    float scale = half_at(b + 52);
    EACH {
        int i = 8 * g + j;
        v[j] = i < 160   ? trit(b + i % 32, i / 32, scale)
               : i < 240 ? trit(b + 32 + i % 16, (i - 160) / 16, scale)
                         : trit(b + 48 + i % 4, (i - 240) / 4, scale);
    }
}
TYPE(TQ2_0, 256, 66) {
    float scale = half_at(b + 64);
    int run = g / 4;
    const u8 *codes = b + 32 * (run / 4) + 8 * (g % 4);
    EACH v[j] = scale * ((codes[j] >> (2 * (run % 4)) & 3) - 1);
}
DEVICE float half_power_of_two(u32 exponent) {
    return __uint_as_float(exponent == 0 ? 0x00200000u : exponent == 1 ? 0x00400000u : (exponent - 1) << 23);
}
TYPE(MXFP4, 32, 17) {
    float scale = half_power_of_two(b[0]);
    EACH v[j] = scale * fp4_levels[nibble(b + 1, g, j)];
}
DEVICE float nvfp4_scale(u32 byte) {
    u32 exponent = byte >> 3 & 15, mantissa = byte & 7;
    if (byte == 127) return 0.0f;
    if (exponent == 0) return mantissa / 1024.0f;
    return __uint_as_float((exponent + 127 - 8) << 23 | mantissa << 20);
}
TYPE(NVFP4, 64, 36) {
    float scale = nvfp4_scale(b[g / 2]);
    const u8 *codes = b + 4 + 8 * (g / 2);
    EACH v[j] = scale * fp4_levels[codes[j] >> (4 * (g % 2)) & 15];
}
TYPE(Q1_0, 128, 18) {
    float scale = half_at(b);
    u32 bits = b[2 + g];
    EACH v[j] = bits >> j & 1 ? scale : -scale;
}
TYPE(Q2_0, 64, 18) {
    float scale = half_at(b);
    u32 codes = word(b + 2 + 2 * g);
    EACH v[j] = scale * ((int)(codes >> (2 * j) & 3) - 1);
}

// Rows whose factors the file has apart (`scaled.rs` puts them there): behind the blocks of NVFP4 one for all of them; behind codes of eight bits, rounded up
// to sixteen bytes, one for each 128 columns, rounded up to sixteen bytes too.
DEVICE size_t codes_of_eight_bits(int columns) { return ((size_t)columns + 15) & ~(size_t)15; }
DEVICE size_t row_of_eight_bits(int columns) { return codes_of_eight_bits(columns) + ((size_t)(columns + 127) / 128 * 4 + 15 & ~(size_t)15); }

// E4M3: the upper bits of half precision whose exponent begins eight powers of two lower.
DEVICE float from_eight_bits(u32 code) { return 256.0f * from_half((u16)((code & 0x80) << 8 | (code & 0x7f) << 7)); }

// Eight values of a row; behind its end, which only rows of numbers have elsewhere than at a multiple of eight, zeros.
template <int Q> DEVICE void eight_of_row(const u8 *row, int columns, int group, float *v) {
    if constexpr (Q == F8_E4M3) {
        // Behind its end the codes are zeros.
        float factor = ((const float *)(row + codes_of_eight_bits(columns)))[group / 16];
        EACH v[j] = factor * from_eight_bits(row[8 * group + j]);
    } else if constexpr (Q == F32 || Q == F16 || Q == BF16) {
        if (8 * group + 8 <= columns && columns % 8 == 0) {
            Type<Q>::eight(row + (size_t)group * Type<Q>::BYTES, 0, v);
            return;
        }
        EACH {
            int i = 8 * group + j;
            v[j] = i >= columns  ? 0.0f
                   : Q == F32    ? ((const float *)row)[i]
                   : Q == F16    ? from_half(((const u16 *)row)[i])
                                 : from_brain(((const u16 *)row)[i]);
        }
    } else {
        const int groups = Type<Q>::LEN / 8;
        Type<Q>::eight(row + (size_t)(group / groups) * Type<Q>::BYTES, group % groups, v);
        if (Q == NVFP4) {
            float factor = *(const float *)(row + (size_t)columns / Type<Q>::LEN * Type<Q>::BYTES);
            EACH v[j] *= factor;
        }
    }
}

DEVICE size_t row_bytes(int quant, int columns) {
#define CASE(Q) case Q: return (size_t)columns / Type<Q>::LEN * Type<Q>::BYTES + (Q == NVFP4 ? 4 : 0);
#define QUANTISED(CASE)                                                                                              \
    CASE(Q4_0) CASE(Q4_1) CASE(Q5_0) CASE(Q5_1) CASE(Q8_0) CASE(Q2_K) CASE(Q3_K) CASE(Q4_K) CASE(Q5_K) CASE(Q6_K)     \
    CASE(IQ2_XXS) CASE(IQ2_XS) CASE(IQ2_S) CASE(IQ3_XXS) CASE(IQ3_S) CASE(IQ1_S) CASE(IQ1_M) CASE(IQ4_NL)             \
    CASE(IQ4_XS) CASE(TQ1_0) CASE(TQ2_0) CASE(MXFP4) CASE(NVFP4) CASE(Q1_0) CASE(Q2_0)
    switch (quant) {
        QUANTISED(CASE)
    case F8_E4M3: return row_of_eight_bits(columns);
    case F32: return 4 * (size_t)columns;
    default: return 2 * (size_t)columns;
    }
#undef CASE
}

// Of a type that is known when the kernel runs. Not inlined: with all types it is long.
static __device__ __noinline__ void eight_of(int quant, const u8 *row, int columns, int group, float *v) {
#define CASE(Q) case Q: eight_of_row<Q>(row, columns, group, v); break;
    switch (quant) {
        QUANTISED(CASE)
        CASE(F32)
        CASE(F16)
        CASE(BF16)
        CASE(F8_E4M3)
    }
#undef CASE
}

// Eight activations of a row; behind its end zeros.
DEVICE void eight_inputs(const float *x, int columns, int group, float *v) {
    if (columns % 8 == 0) {
        float4 a = ((const float4 *)(x + 8 * group))[0], b = ((const float4 *)(x + 8 * group))[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
        return;
    }
    EACH v[j] = 8 * group + j < columns ? x[8 * group + j] : 0.0f;
}

// What one lane of a warp adds to the products of a row with `T` inputs, `stride` values apart.
template <int Q, int T>
DEVICE void lane_products(const u8 *row, int columns, const float *x, size_t stride, int inputs, int lane, float *sums) {
    int groups = (columns + 7) / 8;
    for (int group = lane; group < groups; group += 32) {
        float w[8];
        eight_of_row<Q>(row, columns, group, w);
#pragma unroll
        for (int t = 0; t < T; t++) {
            if (t >= inputs) break;
            float v[8];
            eight_inputs(x + t * stride, columns, group, v);
            EACH sums[t] = fmaf(w[j], v[j], sums[t]);
        }
    }
}

// The product of a row with one input, by a warp; of a type that is known when the kernel runs. Not inlined: with all types it is long.
static __device__ __noinline__ float product(int quant, const u8 *row, int columns, const float *x, int lane) {
    float sum = 0.0f;
#define CASE(Q) case Q: lane_products<Q, 1>(row, columns, x, 0, 1, lane, &sum); break;
    switch (quant) {
        QUANTISED(CASE)
        CASE(F32)
        CASE(F16)
        CASE(BF16)
        CASE(F8_E4M3)
    }
#undef CASE
    return warp_sum(sum);
}
