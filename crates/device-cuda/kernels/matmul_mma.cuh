// The wide product for every processor from sm_80 on: mma.sync on bf16, tiles copied ahead by cp.async. The body of the kernels in matmul_mma.cu.
//
// A block of eight warps makes 128 rows (64 of a gated pair) for TOKENS tokens; a warp 32 rows for half of them.
#pragma once
#include "matmul.cuh"

struct MatmulPointers {
    const u16* x;       // bf16 (tokens, columns)
    const u16* weight;  // bf16 (rows, columns), or (experts * rows, columns)
    const u16* up;      // the second matrix of a gated pair
};
// `splits` is 1.
struct MatmulMma : MatmulPointers, MatmulTask {};

static __device__ __forceinline__ u32 place_in_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void copy_sixteen(u32 to, const void* from, bool live) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(live ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void four_matrices(u32 (&m)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void mma_bf16(float* d, const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Sixteen bytes `chunk` of row `row` of a tile of 128-byte rows: chunks are turned by the row, so that eight rows meet eight bank groups.
static __device__ __forceinline__ u32 turned(int row, int chunk) { return row * 128 + ((chunk ^ row) & 7) * 16; }

// Copies ROWS rows of 64 columns from (row, column); what lies past `row_end` or `columns` becomes zeros. 256 threads.
template <int ROWS>
static __device__ __forceinline__ void copy_rows(u32 to, const u16* from, int row, int row_end, int column, int columns) {
#pragma unroll
    for (int i = 0; i < ROWS / 32; i++) {
        const int r = i * 32 + threadIdx.x / 8, chunk = threadIdx.x % 8;
        const bool live = row + r < row_end && column + chunk * 8 < columns;
        copy_sixteen(to + turned(r, chunk), live ? from + (size_t)(row + r) * columns + column + chunk * 8 : from, live);
    }
}

template <int TOKENS, int STAGES, bool PAIR, bool GROUPED>
static __device__ __forceinline__ void matmul_mma(const MatmulMma& p) {
    constexpr int WEIGHT_BYTES = 128 * 128, BYTES = WEIGHT_BYTES + TOKENS * 128, TILES = TOKENS / 16;
    extern __shared__ __align__(128) u8 memory[];
    __shared__ int ends[GROUPED ? 512 : 1];
    release_next_grid();
    wait_for_previous_grid();
    if (GROUPED) {
        count_expert_tiles<TOKENS>(p, ends);
        __syncthreads();
    }
    const int tiles = count_tiles<TOKENS, PAIR, GROUPED>(p, ends), lane = threadIdx.x & 31, warp_row = threadIdx.x / 32 % 4, warp_token = threadIdx.x / 128;
    const u32 ring = place_in_shared(memory);
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile t = find_tile<TOKENS, PAIR, GROUPED>(p, ends, number);
        const int weight_end = t.weight_row - t.row + p.rows;
        float sums[2][TOKENS / 4];
#pragma unroll
        for (int i = 0; i < TOKENS / 4; i++) sums[0][i] = sums[1][i] = 0;
        const auto begin = [&](int step) {
            if (step < t.last_step) {
                const u32 at = ring + step % STAGES * BYTES;
                if (PAIR) copy_rows<64>(at, p.weight, t.weight_row, weight_end, step * TILE_COLUMNS, p.columns), copy_rows<64>(at + WEIGHT_BYTES / 2, p.up, t.weight_row, weight_end, step * TILE_COLUMNS, p.columns);
                else copy_rows<128>(at, p.weight, t.weight_row, weight_end, step * TILE_COLUMNS, p.columns);
                copy_rows<TOKENS>(at + WEIGHT_BYTES, p.x, t.token, t.token_end, step * TILE_COLUMNS, p.columns);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        };
        for (int step = t.first_step; step < t.first_step + STAGES - 1; step++) begin(step);
#pragma unroll 1
        for (int step = t.first_step; step < t.last_step; step++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads();
            begin(step + STAGES - 1);
            const u32 weight = ring + step % STAGES * BYTES, x = weight + WEIGHT_BYTES;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                u32 a[2][4];
#pragma unroll
                for (int m = 0; m < 2; m++) four_matrices(a[m], weight + turned((PAIR ? m * 64 + warp_row * 16 : warp_row * 32 + m * 16) + lane % 16, 2 * k + lane / 16));
#pragma unroll
                for (int n = 0; n < TILES / 2; n++) {
                    u32 b[4];
                    four_matrices(b, x + turned(warp_token * (TOKENS / 2) + n * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
#pragma unroll
                    for (int m = 0; m < 2; m++) mma_bf16(sums[m] + n * 8, a[m], b[0], b[1]), mma_bf16(sums[m] + n * 8 + 4, a[m], b[2], b[3]);
                }
            }
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        write_tile<TOKENS / 2, PAIR>(p, t.row + warp_row * (PAIR ? 16 : 32), 16, t.token + warp_token * (TOKENS / 2), t.token_end, sums);
    }
}
