// Attention over the paged cache. Parameters: Attend and AttendTile in attend.cuh; every field is described there.
//
// attend_prefill_<dim> (Attend)   grid (heads, tiles), block (128)
// attend_decode_<dim> (Attend)    grid (any, kv_heads * ((heads / kv_heads + 15) / 16), tiles), block (128); tiles of one token
//     dim: 64 80 96 128 192 256. The cache is f16, or q8_0 where key_scales is set.
//     Dynamic shared memory: 128 * (2 * dim + 16) + 256 * max(dim, dim + 8) = 512 * dim + 4096 bytes, all caches, and for decode
//     48 * dim + 256 more where it turns its queries itself (`turning.key`); set the kernels' maximum.
// A tile whose count is 0 is left out, so that a grid may have more tiles than there are. Sequences may stand in either kernel.
// q and to 16-byte aligned. Keys and values of tokens past a sequence's end are never used, whatever lies there.
// Pages: any multiple of 16 tokens. Sums in f32, weights and queries rounded to f16.
// The first dimension of decode's grid says how many blocks share the parts of a context: it changes no bit, only time. About 400 blocks
// together fill an H200; more than parts is a waste. What changes bits is `splits` and `split_tokens`.
#include "attend.cuh"

// Decode has registers for as many blocks on a processor as shared memory has room for.
// What a block executes lies together, whichever way the cache is kept: a block of decode executes most of it once, and waits for what it fetches.
#define ATTEND(DIM) \
    KERNEL void __launch_bounds__(128) attend_prefill_##DIM(const __grid_constant__ Attend p) { if (p.key_scales) attend_prefill<DIM, true>(p); else attend_prefill<DIM, false>(p); } \
    KERNEL void __launch_bounds__(128, DIM <= 64 ? 4 : DIM <= 128 ? 3 : 1) attend_decode_##DIM(const __grid_constant__ Attend p) { \
        __shared__ DecodeShared shared; \
        if (p.key_scales) attend_decode<DIM, true>(p, shared); else attend_decode<DIM, false>(p, shared); \
    }
ATTEND(64)
ATTEND(80)
ATTEND(96)
ATTEND(128)
ATTEND(192)
ATTEND(256)
