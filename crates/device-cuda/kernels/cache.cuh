// The cache of one block: what lies where, for every way of keeping keys and values.
//
// A half is (places, heads, width) values. Kept as numbers they stand side by side; kept as codes there is a scale for 32
// neighbours of a head in an array of its own, (places, heads, width / 32), and four-bit codes share a byte with their
// neighbour. Widths are padded to a multiple of 32 where there are scales.
#pragma once
#include "plain.cuh"

enum { CACHE_F32, CACHE_F16, CACHE_Q8, CACHE_Q4 };

DEVICE int padded(int kind, int width) { return kind >= CACHE_Q8 ? (width + 31) / 32 * 32 : width; }

// Value `i` of a head.
template <int KIND> DEVICE float cached(const u8 *codes, const u16 *scales, size_t head, int width, int i) {
    size_t at = head * padded(KIND, width) + i;
    if (KIND == CACHE_F32) return ((const float *)codes)[at];
    if (KIND == CACHE_F16) return from_half(((const u16 *)codes)[at]);
    float scale = from_half(scales[at / 32]);
    if (KIND == CACHE_Q8) return scale * ((const i8 *)codes)[at];
    return scale * ((codes[at / 2] >> (4 * (at % 2)) & 15) - 8);
}

// Where a position of a sequence lies.
DEVICE size_t place_of(const Batch &batch, const u32 *pages, int position) {
    int each = (int)batch.page_tokens;
    return (size_t)pages[position / each] * each + position % each;
}
