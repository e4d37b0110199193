// How a lane reads its share of a quantised row: one struct a storage type, for the matrix-vector kernels and the dequantisers.
//
// A row is dealt out in units: a unit is what one lane takes in one step, CHUNKS runs of 4 * WORDS values, 16 or 32. `load` fetches a unit's bytes (with
// no arithmetic, so that several can be in flight), `unpack` turns them into integer codes and, for each run, the value of a code:
//     value[i] = scale[c] * code[i] - shift[c]
// so that with activations quantised to x[i] = d * q[i] a run contributes d * (scale * sum(code q) - shift * sum(q)), the sums exact.
//
// Layouts. The types whose blocks are whole 16-byte words lie as the file has them (Q4_K, Q5_K). Those that are not are cut into planes at
// upload (matvec.cu, `planes_*`): the same bytes, each field of all blocks of the matrix together, so that loads are 16 bytes wide:
//     Q8_0   codes 32 B a block, then scales 2 B a block
//     Q4_0   codes 16 B a block, then scales 2 B a block        (IQ4_NL the same)
//     F8_E4M3  codes, then a factor of 4 B for each 128 columns, whatever tiles it comes from
//     Q6_K   low nibbles 128 B a block, then high bits 64 B, then sub-scales 16 B, then scales 2 B
// `blocks` is the number of blocks of the whole matrix: it says where a plane begins. A matrix begins at a multiple of 16 bytes.
#pragma once
#include "device.cuh"

struct Unpacked1 { int code[1][4]; float scale[1], shift[1]; };
struct Unpacked2 { int code[2][4]; float scale[2], shift[2]; };

struct Q8_0 {
    static constexpr int CHUNKS = 1, UNIT = 16, BLOCK = 32, CHUNK_STRIDE = 16, WORDS = 4;
    static constexpr bool SHIFTED = false;
    typedef Unpacked1 Unpacked;
    struct Raw { uint4 codes; u16 scale; };
    static __device__ __forceinline__ int first(int unit) { return unit * 16; }
    static __device__ __forceinline__ Raw load(const u8* w, size_t blocks, size_t block0, int unit) {
        size_t block = block0 + (unit >> 1);
        return {load_weight16(w + block * 32 + (unit & 1) * 16), load_weight2(w + blocks * 32 + block * 2)};
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int, Unpacked& u) {
        u.code[0][0] = r.codes.x, u.code[0][1] = r.codes.y, u.code[0][2] = r.codes.z, u.code[0][3] = r.codes.w;
        u.scale[0] = half_to_float(r.scale);
    }
};

struct Q4_0 {
    static constexpr int CHUNKS = 2, UNIT = 32, BLOCK = 32, CHUNK_STRIDE = 16, WORDS = 4;
    static constexpr bool SHIFTED = true;
    typedef Unpacked2 Unpacked;
    struct Raw { uint4 codes; u16 scale; };
    static __device__ __forceinline__ int first(int unit) { return unit * 32; }
    static __device__ __forceinline__ Raw load(const u8* w, size_t blocks, size_t block0, int unit) {
        size_t block = block0 + unit;
        return {load_weight16(w + block * 16), load_weight2(w + blocks * 16 + block * 2)};
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int, Unpacked& u) {
        const u32 q[4] = {r.codes.x, r.codes.y, r.codes.z, r.codes.w};
#pragma unroll
        for (int i = 0; i < 4; i++) u.code[0][i] = q[i] & 0x0f0f0f0f, u.code[1][i] = q[i] >> 4 & 0x0f0f0f0f;
        u.scale[0] = u.scale[1] = half_to_float(r.scale);
        u.shift[0] = u.shift[1] = 8.0f * u.scale[0];
    }
};

// The 6-bit sub-scales and sub-minimums of sub-blocks 2 p and 2 p + 1, from the header of Q4_K and Q5_K.
static __device__ __forceinline__ void read_k_header(uint4 header, int p, float scale[2], float shift[2]) {
    const int turn = 16 * (p & 1);
    const u32 y = header.y >> turn, z = header.z >> turn, w = header.w >> turn;
    const u32 scales = p < 2 ? y & 0x3f3f : (w & 0x0f0f) | (y >> 2 & 0x3030);
    const u32 minimums = p < 2 ? z & 0x3f3f : (w >> 4 & 0x0f0f) | (z >> 2 & 0x3030);
    const float d = half_to_float(header.x & 0xffff), m = half_to_float(header.x >> 16);
    scale[0] = d * (float)(scales & 0xff), scale[1] = d * (float)(scales >> 8 & 0xff);
    shift[0] = m * (float)(minimums & 0xff), shift[1] = m * (float)(minimums >> 8 & 0xff);
}

struct Q4_K {
    static constexpr int CHUNKS = 2, UNIT = 32, BLOCK = 256, CHUNK_STRIDE = 32, WORDS = 4;
    static constexpr bool SHIFTED = true;
    typedef Unpacked2 Unpacked;
    struct Raw { uint4 codes, header; };
    static __device__ __forceinline__ int first(int unit) { return (unit >> 1) * 64 + (unit & 1) * 16; }
    static __device__ __forceinline__ Raw load(const u8* w, size_t, size_t block0, int unit) {
        const u8* block = w + (block0 + (unit >> 3)) * 144;
        return {load_weight16(block + 16 + (unit & 7) * 16), load_shared_weight16(block)};
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int unit, Unpacked& u) {
        const u32 q[4] = {r.codes.x, r.codes.y, r.codes.z, r.codes.w};
#pragma unroll
        for (int i = 0; i < 4; i++) u.code[0][i] = q[i] & 0x0f0f0f0f, u.code[1][i] = q[i] >> 4 & 0x0f0f0f0f;
        read_k_header(r.header, unit >> 1 & 3, u.scale, u.shift);
    }
};

// The same, a lane taking both nibbles of 32 bytes: half as much to unpack of headers, where rows are long enough for all lanes.
struct Q4_K_64 {
    static constexpr int CHUNKS = 2, UNIT = 64, BLOCK = 256, CHUNK_STRIDE = 32, WORDS = 8;
    static constexpr bool SHIFTED = true;
    struct Unpacked { int code[2][8]; float scale[2], shift[2]; };
    struct Raw { uint4 first, second, header; };
    static __device__ __forceinline__ int first(int unit) { return unit * 64; }
    static __device__ __forceinline__ Raw load(const u8* w, size_t, size_t block0, int unit) {
        const u8* block = w + (block0 + (unit >> 2)) * 144;
        const u8* codes = block + 16 + (unit & 3) * 32;
        return {load_weight16(codes), load_weight16(codes + 16), load_shared_weight16(block)};
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int unit, Unpacked& u) {
        const u32 q[8] = {r.first.x, r.first.y, r.first.z, r.first.w, r.second.x, r.second.y, r.second.z, r.second.w};
#pragma unroll
        for (int i = 0; i < 8; i++) u.code[0][i] = q[i] & 0x0f0f0f0f, u.code[1][i] = q[i] >> 4 & 0x0f0f0f0f;
        read_k_header(r.header, unit & 3, u.scale, u.shift);
    }
};

struct Q5_K {
    static constexpr int CHUNKS = 2, UNIT = 32, BLOCK = 256, CHUNK_STRIDE = 32, WORDS = 4;
    static constexpr bool SHIFTED = true;
    typedef Unpacked2 Unpacked;
    struct Raw { uint4 codes, fifth, header; };
    static __device__ __forceinline__ int first(int unit) { return (unit >> 1) * 64 + (unit & 1) * 16; }
    static __device__ __forceinline__ Raw load(const u8* w, size_t, size_t block0, int unit) {
        const u8* block = w + (block0 + (unit >> 3)) * 176;
        return {load_weight16(block + 48 + (unit & 7) * 16), load_shared_weight16(block + 16 + (unit & 1) * 16), load_shared_weight16(block)};
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int unit, Unpacked& u) {
        const u32 q[4] = {r.codes.x, r.codes.y, r.codes.z, r.codes.w};
        const u32 h[4] = {r.fifth.x, r.fifth.y, r.fifth.z, r.fifth.w};
        const int p = unit >> 1 & 3;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 fifth = h[i] >> (2 * p);
            u.code[0][i] = (q[i] & 0x0f0f0f0f) | (fifth & 0x01010101) << 4;
            u.code[1][i] = (q[i] >> 4 & 0x0f0f0f0f) | (fifth >> 1 & 0x01010101) << 4;
        }
        read_k_header(r.header, p, u.scale, u.shift);
    }
};

struct Q6_K {
    static constexpr int CHUNKS = 2, UNIT = 32, BLOCK = 256, CHUNK_STRIDE = 64, WORDS = 4;
    static constexpr bool SHIFTED = true;
    typedef Unpacked2 Unpacked;
    struct Raw { uint4 low, high; u32 scales; u16 scale; };
    // Unit j of a block reads low nibbles 16 j and up: half j / 4, runs (j % 4) / 2 and that plus 2, values 16 (j % 2) and up of both.
    static __device__ __forceinline__ int first(int unit) { return (unit >> 2) * 128 + (unit >> 1 & 1) * 32 + (unit & 1) * 16; }
    static __device__ __forceinline__ Raw load(const u8* w, size_t blocks, size_t block0, int unit) {
        const size_t block = block0 + (unit >> 3);
        const int j = unit & 7, half = j >> 2;
        Raw r;
        r.low = load_weight16(w + block * 128 + j * 16);
        r.high = load_shared_weight16(w + blocks * 128 + block * 64 + half * 32 + (j & 1) * 16);
        const int sub = half * 8 + (j >> 1 & 1) * 2 + (j & 1);
        const u8* scales = w + blocks * 192 + block * 16 + half * 8;
        const uint2 eight = load_shared_weight8(scales);
        // Sub-scales `sub` and `sub + 4` of the half's eight.
        const int turn = 8 * (sub & 3);
        r.scales = (eight.x >> turn & 0xff) | (eight.y >> turn & 0xff) << 8;
        r.scale = load_weight2(w + blocks * 208 + block * 2);
        return r;
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int unit, Unpacked& u) {
        const u32 q[4] = {r.low.x, r.low.y, r.low.z, r.low.w};
        const u32 h[4] = {r.high.x, r.high.y, r.high.z, r.high.w};
        const int turn = unit & 2;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 high = h[i] >> turn;
            u.code[0][i] = (q[i] & 0x0f0f0f0f) | (high << 4 & 0x30303030);
            u.code[1][i] = (q[i] >> 4 & 0x0f0f0f0f) | (high & 0x30303030);
        }
        const float d = half_to_float(r.scale);
        u.scale[0] = d * (float)(signed char)(r.scales & 0xff);
        u.scale[1] = d * (float)(signed char)(r.scales >> 8);
        u.shift[0] = 32.0f * u.scale[0], u.shift[1] = 32.0f * u.scale[1];
    }
};

// Types whose values are floats: a unit is 8 values. SCALED: times the factor of the unit, which its sum is multiplied with.
struct BF16 {
    static constexpr int UNIT = 8, BLOCK = 1;
    static constexpr bool SCALED = false;
    struct Raw { uint4 v; };
    static __device__ __forceinline__ Raw load(const u8* w, size_t, size_t block0, int unit) { return {load_weight16(w + (block0 + unit * 8) * 2)}; }
    static __device__ __forceinline__ void unpack(const Raw& r, float v[8]) {
        const u32 p[4] = {r.v.x, r.v.y, r.v.z, r.v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) v[2 * i] = bf16_low(p[i]), v[2 * i + 1] = bf16_high(p[i]);
    }
};
struct F16 {
    static constexpr int UNIT = 8, BLOCK = 1;
    static constexpr bool SCALED = false;
    struct Raw { uint4 v; };
    static __device__ __forceinline__ Raw load(const u8* w, size_t, size_t block0, int unit) { return {load_weight16(w + (block0 + unit * 8) * 2)}; }
    static __device__ __forceinline__ void unpack(const Raw& r, float v[8]) {
        const u32 p[4] = {r.v.x, r.v.y, r.v.z, r.v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) v[2 * i] = half_to_float(p[i] & 0xffff), v[2 * i + 1] = half_to_float(p[i] >> 16);
    }
};
struct F32 {
    static constexpr int UNIT = 8, BLOCK = 1;
    static constexpr bool SCALED = false;
    struct Raw { uint4 a, b; };
    static __device__ __forceinline__ Raw load(const u8* w, size_t, size_t block0, int unit) {
        const u8* at = w + (block0 + unit * 8) * 4;
        return {load_weight16(at), load_weight16(at + 16)};
    }
    static __device__ __forceinline__ void unpack(const Raw& r, float v[8]) {
        v[0] = __uint_as_float(r.a.x), v[1] = __uint_as_float(r.a.y), v[2] = __uint_as_float(r.a.z), v[3] = __uint_as_float(r.a.w);
        v[4] = __uint_as_float(r.b.x), v[5] = __uint_as_float(r.b.y), v[6] = __uint_as_float(r.b.z), v[7] = __uint_as_float(r.b.w);
    }
};

struct F8_E4M3 {
    static constexpr int UNIT = 8, BLOCK = 128;
    static constexpr bool SCALED = true;
    struct Raw { uint2 codes; float scale; };
    static __device__ __forceinline__ Raw load(const u8* w, size_t blocks, size_t block0, int unit) {
        return {load_shared_weight8(w + block0 * 128 + unit * 8), *reinterpret_cast<const float*>(w + blocks * 128 + (block0 + (unit >> 4)) * 4)};
    }
    // E4M3 is the upper bits of half precision whose exponent begins eight powers of two lower.
    static __device__ __forceinline__ float factor(const Raw& r) { return 256.0f * r.scale; }
    static __device__ __forceinline__ void unpack(const Raw& r, float v[8]) {
        const u32 codes[2] = {r.codes.x, r.codes.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            // Codes 0 and 2 in the upper bytes of two halves, then 1 and 3.
            const u32 even = codes[i] << 8, odd = codes[i];
            const u32 first = (even & 0x80008000u) | (even & 0x7f007f00u) >> 1, second = (odd & 0x80008000u) | (odd & 0x7f007f00u) >> 1;
            v[4 * i] = half_to_float(first & 0xffff), v[4 * i + 1] = half_to_float(second & 0xffff);
            v[4 * i + 2] = half_to_float(first >> 16), v[4 * i + 3] = half_to_float(second >> 16);
        }
    }
};

// What the values of a unit are multiplied with.
template <class Q>
static __device__ __forceinline__ float factor_of(const typename Q::Raw& raw) {
    if constexpr (Q::SCALED) return Q::factor(raw);
    else return 1.0f;
}
