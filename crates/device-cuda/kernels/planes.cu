// At upload: stored blocks to the planes of quant.cuh, and weights to bf16 for the wide product.
//
//   planes_q8_0, planes_q4_0, planes_q6_k (from, to, blocks)
//       grid (blocks / 256 rounded up), block 256. `from`: the stored blocks of one matrix, 2-byte aligned. `to`: as many bytes, 16-byte aligned, not
//       `from`. A matrix of experts is cut expert by expert: planes lie inside an expert. planes_q4_0 is also that of IQ4_NL.
//   dequantise_<type> (weight, rows, columns, blocks_before, blocks, to, to_stride, stride)
//       Rows of a matrix (in planes where the type has them) to bf16: to (rows, to_stride). Grid (units / 256 rounded up, matrices) where units = rows *
//       columns / 32 (columns / 16 for q8_0, columns / 8 for floats), block 256. `blocks`: of the whole matrix; `blocks_before`: those ahead of the
//       first row wanted. to_stride a multiple of 8. `stride`: bytes from one matrix to the next; their rows come one behind the other.
//   find_no_numbers (codes, pieces, found)
//       Sets `found` to 1 where one of the codes of E4M3, sixteen to a piece, is no number: 0x7f with either sign. Any grid, any block.
#include "quant.cuh"

template <int CODES, int BYTES, int OFFSET>
static __device__ __forceinline__ void planes(const u16* from, u16* to, long blocks) {
    const long block = (long)blockIdx.x * 256 + threadIdx.x;
    if (block >= blocks) return;
    from += block * (BYTES / 2);
    u16* codes = to + block * (CODES / 2);
    for (int i = 0; i < CODES / 2; i++) codes[i] = from[OFFSET / 2 + i];
    to[blocks * (CODES / 2) + block] = from[0];
}
KERNEL void planes_q8_0(const u16* from, u16* to, long blocks) { planes<32, 34, 2>(from, to, blocks); }
KERNEL void planes_q4_0(const u16* from, u16* to, long blocks) { planes<16, 18, 2>(from, to, blocks); }
KERNEL void planes_q6_k(const u16* from, u16* to, long blocks) {
    const long block = (long)blockIdx.x * 256 + threadIdx.x;
    if (block >= blocks) return;
    from += block * 105;
    for (int i = 0; i < 64; i++) to[block * 64 + i] = from[i];
    for (int i = 0; i < 32; i++) to[blocks * 64 + block * 32 + i] = from[64 + i];
    for (int i = 0; i < 8; i++) to[blocks * 96 + block * 8 + i] = from[96 + i];
    to[blocks * 104 + block] = from[104];
}

KERNEL void find_no_numbers(const uint4* codes, long pieces, u32* found) {
    u32 any = 0;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < pieces; i += (long)gridDim.x * blockDim.x) {
        const uint4 piece = codes[i];
        const u32 fours[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (int k = 0; k < 4; k++) any |= (fours[k] & 0x7f7f7f7fu) + 0x01010101u;
    }
    if (any & 0x80808080u) *found = 1;
}

template <class Q>
static __device__ __forceinline__ void dequantise_codes(const u8* weight, int rows, int columns, long blocks_before, long blocks, u16* to, int to_stride, long stride) {
    release_next_grid();
    wait_for_previous_grid();
    weight += blockIdx.y * stride, to += (size_t)blockIdx.y * rows * to_stride;
    __shared__ uint4 tile[256 * Q::UNIT / 8];
    const int units = columns / Q::UNIT;
    const long last = (long)rows * units - 1, first = (long)blockIdx.x * 256, index = min(first + threadIdx.x, last);
    const long row = index / units;
    const int unit = (int)(index - row * units);
    typename Q::Unpacked u;
    Q::unpack(Q::load(weight, blocks, blocks_before + row * (columns / Q::BLOCK), unit), unit, u);
    // 256 units are whole blocks, and so is a row: a block's units are all here.
    const int local = threadIdx.x - unit % (Q::BLOCK / Q::UNIT), at0 = local * Q::UNIT + Q::first(unit % (Q::BLOCK / Q::UNIT));
#pragma unroll
    for (int c = 0; c < Q::CHUNKS; c++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float v[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] = u.scale[c] * (float)(signed char)(u.code[c][2 * h + i / 4] >> (8 * (i % 4)));
                if (Q::SHIFTED) v[i] -= u.shift[c];
            }
            if (first + threadIdx.x <= last) tile[at0 / 8 + c * (Q::CHUNK_STRIDE / 8) + h] = make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Q::UNIT / 8; i++) {
        const long eight = first * (Q::UNIT / 8) + i * 256 + threadIdx.x;
        if (eight >= (last + 1) * (Q::UNIT / 8)) continue;
        const long to_row = to_stride == columns ? 0 : eight / (columns / 8);
        *reinterpret_cast<uint4*>(to + to_row * (to_stride - columns) + eight * 8) = tile[i * 256 + threadIdx.x];
    }
}
template <class Q>
static __device__ __forceinline__ void dequantise_floats(const u8* weight, int rows, int columns, long blocks_before, long blocks, u16* to, int to_stride, long stride) {
    release_next_grid();
    wait_for_previous_grid();
    weight += blockIdx.y * stride, to += (size_t)blockIdx.y * rows * to_stride;
    const int units = columns / 8;
    const long index = (long)blockIdx.x * 256 + threadIdx.x;
    if (index >= (long)rows * units) return;
    const long row = index / units;
    const int unit = (int)(index - row * units);
    float v[8];
    const typename Q::Raw raw = Q::load(weight, blocks, blocks_before + row * (columns / Q::BLOCK), unit);
    Q::unpack(raw, v);
    if (Q::SCALED) {
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] *= factor_of<Q>(raw);
    }
    *reinterpret_cast<uint4*>(to + row * to_stride + unit * 8) = make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
}
#define DEQUANTISE(NAME, TYPE) \
    KERNEL void __launch_bounds__(256) dequantise_##NAME(const u8* weight, int rows, int columns, long blocks_before, long blocks, u16* to, int to_stride, long stride) { \
        dequantise_codes<TYPE>(weight, rows, columns, blocks_before, blocks, to, to_stride, stride); \
    }
DEQUANTISE(q8_0, Q8_0)
DEQUANTISE(q4_0, Q4_0)
DEQUANTISE(q4_k, Q4_K)
DEQUANTISE(q5_k, Q5_K)
DEQUANTISE(q6_k, Q6_K)
#define DEQUANTISE_FLOATS(NAME, TYPE) \
    KERNEL void __launch_bounds__(256) dequantise_##NAME(const u8* weight, int rows, int columns, long blocks_before, long blocks, u16* to, int to_stride, long stride) { \
        dequantise_floats<TYPE>(weight, rows, columns, blocks_before, blocks, to, to_stride, stride); \
    }
DEQUANTISE_FLOATS(bf16, BF16)
DEQUANTISE_FLOATS(f16, F16)
DEQUANTISE_FLOATS(f32, F32)
DEQUANTISE_FLOATS(f8_e4m3, F8_E4M3)
