// Matrix times one vector by blocks that stay, for processors whose grids may begin ahead (sm_90 and up). The bodies: matvec_stream.cuh.
//
// stream_<type> (Matvec)          up to four matrices of one type and one input. type: q8_0 q4_0 q4_k q5_k bf16 f16 f8_e4m3
// stream_gate_up_<type> (Matvec)  one gated pair; with `codes` the output in blocks of codes too, where rows are a multiple of 32, a block has 256 of them at
//     most, and it turns `from`: `codes` may be those of `x`.
//     `from` is the input behind `norm`, or without a norm as it is; without `from` it is the codes of `x`. Grid: any number of blocks, best one for
//     each processor; part i has those from its first_block to the next part's, at least one. Block (512). Dynamic shared memory: the row,
//     columns * 4 bytes for floats, columns * 5 / 4 for others, rounded up to 128, and for each warp a ring of STEPS * ROWS * UNITS * Way<type>::BYTES (codes
//     of eight bits: stream_f8.cuh); and more than half of what a processor has: of two blocks on one processor and none on another, all would wait for the two.
//     Columns a multiple of 64, so that scales come in pairs; of codes of eight bits a multiple of 128.
#include "stream_f8.cuh"

// As measured on an H200.
typedef Shape<2, 2, 3, 16> OfQ8_0;
typedef Shape<2, 2, 3, 16> OfQ4_0;
typedef Shape<2, 1, 3, 16> OfQ4_K;
typedef Shape<2, 1, 3, 16> OfQ5_K;
typedef Shape<2, 2, 3, 16> OfFloats;

// So many registers that a block of attention is on the processor, too.
#define STREAM(NAME, TYPE, SHAPE) \
    KERNEL void __maxnreg__(80) stream_##NAME(const __grid_constant__ Matvec p) { stream_rows<TYPE, SHAPE, false>(p); } \
    KERNEL void __maxnreg__(80) stream_gate_up_##NAME(const __grid_constant__ Matvec p) { stream_rows<TYPE, SHAPE, true>(p); }
STREAM(q8_0, Q8_0, OfQ8_0)
STREAM(q4_0, Q4_0, OfQ4_0)
STREAM(q4_k, Q4_K_64, OfQ4_K)
STREAM(q5_k, Q5_K, OfQ5_K)
STREAM(bf16, BF16, OfFloats)
STREAM(f16, F16, OfFloats)
KERNEL void __maxnreg__(80) stream_f8_e4m3(const __grid_constant__ Matvec p) { stream_eight_bits<false>(p); }
KERNEL void __maxnreg__(80) stream_gate_up_f8_e4m3(const __grid_constant__ Matvec p) { stream_eight_bits<true>(p); }
