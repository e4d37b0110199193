// What the device allows at most: reads of memory, products of the matrix units.
#include "plain.cuh"

// Reads `count` times 16 bytes, four loads in flight; what is read counts only so far that it is read.
//
// grid (four times the processors), 256 threads.
KERNEL stream(const uint4 *from, int count, u32 *sum) {
    u32 seen = 0;
    size_t step = (size_t)gridDim.x * blockDim.x;
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; at + 3 * step < count; at += 4 * step) {
        uint4 a = from[at], b = from[at + step], c = from[at + 2 * step], d = from[at + 3 * step];
        seen |= a.x | a.y | a.z | a.w | b.x | b.y | b.z | b.w | c.x | c.y | c.z | c.w | d.x | d.y | d.z | d.w;
    }
    if (seen == 0xdeadbeef) *sum = seen;
}

// Products of registers, four sums in flight.
//
// grid (four times the processors), 256 threads.
KERNEL multiply(int products, float *sum) {
    float c[4][4] = {};
    u32 a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = 0x3c003c00u + threadIdx.x;
    for (int i = 0; i < 2; i++) b[i] = 0x3c003c00u + i;
    for (int i = 0; i < products; i += 4) {
#pragma unroll
        for (int j = 0; j < 4; j++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    if (c[0][0] + c[1][1] + c[2][2] + c[3][3] == 0.123f) *sum = c[0][0];
}

// A step that is under way until the host opens a gate, or for twenty seconds. One thread.
KERNEL hold(const volatile u32 *gate) {
    u64 start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (!*gate && now - start < 20000000000ull);
}
