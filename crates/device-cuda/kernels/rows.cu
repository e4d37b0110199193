// Rows of activations on their way into a product. Columns a multiple of 4; for codes a multiple of 32. All pointers 16-byte aligned, and
// strides of `values` and `from` multiples of 4. Launch with programmatic stream serialisation or without.
//
//   norm_rows(NormRows)   grid (tokens), block T, no dynamic shared memory. T: a multiple of 32, at most 1024: columns / 4 rounded up is best. The
//                         same T for the same columns gives the same bits.
//   norm_rows_kept(NormRows)  the same with the best T's bits by blocks of 256, for 1025 to 4096 columns: a block reads its row once.
//   gate_rows(GateRows)   grid (tokens * columns / 4 / 256 rounded up), block 256. Columns a multiple of 32 where codes are wanted.
//   NormRows and GateRows: rows.cuh. To quantise or convert rows as they are, give norm_rows a null weight.
#include "rows.cuh"
#include "own_row.cuh"

KERNEL void __launch_bounds__(1024) norm_rows(const __grid_constant__ NormRows p) {
    release_next_grid();
    wait_for_previous_grid();
    turn_row(p.from + (size_t)blockIdx.x * p.from_stride, p.norm, p.columns, p.to, blockIdx.x);
}

KERNEL void __launch_bounds__(256, 4) norm_rows_kept(const __grid_constant__ NormRows p) {
    release_next_grid();
    OwnRow<256, false> own;
    own.prepare(p.norm, p.columns);
    wait_for_previous_grid();
    own.turn(p.from + (size_t)blockIdx.x * p.from_stride, p.norm, p.columns, [&](int i, float4 v) { write_four(p.to, blockIdx.x, p.columns, i, v, i < p.columns); });
}

KERNEL void __launch_bounds__(256) gate_rows(const __grid_constant__ GateRows p) {
    release_next_grid();
    wait_for_previous_grid();
    const size_t i = ((size_t)blockIdx.x * 256 + threadIdx.x) * 4;
    const bool live = i < (size_t)p.tokens * p.columns;
    float4 v = make_float4(0, 0, 0, 0);
    if (live) {
        const float4 u = *reinterpret_cast<const float4*>(p.up + i);
        if (p.gate) {
            const float4 g = *reinterpret_cast<const float4*>(p.gate + i);
            v.x = gated(p.activation, p.gate_scale * g.x, u.x), v.y = gated(p.activation, p.gate_scale * g.y, u.y);
            v.z = gated(p.activation, p.gate_scale * g.z, u.z), v.w = gated(p.activation, p.gate_scale * g.w, u.w);
        } else {
            v.x = activate(p.activation, u.x), v.y = activate(p.activation, u.y), v.z = activate(p.activation, u.z), v.w = activate(p.activation, u.w);
        }
    }
    const size_t row = live ? i / p.columns : 0;
    write_four(p.to, row, p.columns, (int)(i - row * p.columns), v, live);
}
