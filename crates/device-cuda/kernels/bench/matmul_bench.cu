// Checks matmul_sm90.cu and matmul_mma.cu against double precision on awkward sizes, then times it.
// nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a bench/matmul_bench.cu -o matmul_bench
#include <cuda.h>
#include <tuple>
#include "bench.cuh"
#include "../matmul_sm90.cu"
#undef MATMULS
#include "../matmul_mma.cu"
#include "../planes.cu"
#include "../grouped.cu"

typedef void (*MatmulKernel)(Matmul);
struct Variant { int tokens, shared; MatmulKernel plain, gate, experts, experts_gate; };
static const Variant VARIANTS[] = {
    {16, 203776, matmul_n16, gate_up_n16, experts_n16, experts_gate_up_n16},
    {32, 205824, matmul_n32, gate_up_n32, experts_n32, experts_gate_up_n32},
    {64, 197632, matmul_n64, gate_up_n64, experts_n64, experts_gate_up_n64},
    {128, 197632, matmul_n128, gate_up_n128, experts_n128, experts_gate_up_n128},
};
static CUresult (*encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
static TensorMap map(const void* at, long rows, int columns, int box) {
    TensorMap m;
    cuuint64_t dims[2] = {(cuuint64_t)columns, (cuuint64_t)rows}, strides[1] = {(cuuint64_t)columns * 2};
    cuuint32_t boxes[2] = {64, (cuuint32_t)box}, steps[2] = {1, 1};
    CUresult r = encode((CUtensorMap*)&m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)at, dims, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r) { printf("encode: %d\n", r); exit(1); }
    return m;
}
static int blocks_most = 132;
static void launch_matmul(MatmulKernel k, const Matmul& p, int tile, int rows, int shared, bool grouped) {
    static std::vector<MatmulKernel> prepared;
    if (std::find(prepared.begin(), prepared.end(), k) == prepared.end()) { CHECK(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, shared)); prepared.push_back(k); }
    int tiles = (p.rows + rows - 1) / rows * ((p.tokens + tile - 1) / tile) * p.splits;
    cudaLaunchConfig_t c = {}; c.gridDim = dim3(grouped ? blocks_most : p.splits > 1 ? tiles : std::min(blocks_most, tiles)); c.blockDim = dim3(384); c.dynamicSmemBytes = shared; c.stream = stream;
    CHECK(cudaLaunchKernelEx(&c, k, p));
}
typedef void (*MmaKernel)(MatmulMma);
// The same task by mma.sync: tiles of 32 or 128 tokens.
static MmaKernel mma_kernel(int tile, bool gate, bool grouped) {
    return tile == 32 ? grouped ? gate ? experts_gate_up_mma_n32 : experts_mma_n32 : gate ? gate_up_mma_n32 : matmul_mma_n32
                      : grouped ? gate ? experts_gate_up_mma_n128 : experts_mma_n128 : gate ? gate_up_mma_n128 : matmul_mma_n128;
}
static void launch_mma(const Matmul& like, const u16* x, const u16* weight, const u16* up, int tile, bool gate, bool grouped) {
    MatmulMma p = {};
    static_cast<MatmulTask&>(p) = like;
    p.x = x, p.weight = weight, p.up = up, p.splits = 1;
    auto k = mma_kernel(tile, gate, grouped);
    const int shared = 3 * (16384 + 128 * tile), rows = gate ? 64 : 128;
    CHECK(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    launch(k, dim3(grouped ? 5 : (p.rows + rows - 1) / rows * ((p.tokens + tile - 1) / tile)), 256, shared, p);
}
struct Half { std::vector<float> values; u16* at; };
static Half halves(size_t count, float size) {
    Half h; std::vector<u16> bits(count); h.values.resize(count);
    for (size_t i = 0; i < count; i++) bits[i] = to_bf16(normal() * size), h.values[i] = from_bf16(bits[i]);
    h.at = device(bits); return h;
}
static double dot(const Half& w, size_t row, const Half& x, size_t token, int columns) {
    double s = 0; for (int i = 0; i < columns; i++) s += (double)w.values[row * columns + i] * x.values[token * columns + i]; return s;
}
static double silu(double x) { return x / (1 + exp(-x)); }

static void check() {
    char name[128];
    float* partials = device<float>(1 << 25); unsigned* counters = device(std::vector<unsigned>(4096, 0));
    for (auto& v : VARIANTS) {
        const int sizes[][4] = {{1, 1, 8, 1}, {v.tokens, 128, 64, 1}, {v.tokens - 1, 130, 264, 1}, {v.tokens + 3, 300, 1032, 1}, {v.tokens / 2 + 1, 257, 2048, 3}, {2 * v.tokens + 5, 640, 520, 2}};
        for (auto& s : sizes) for (int gate = 0; gate < (v.gate ? 2 : 1); gate++) {
            int tokens = s[0], rows = s[1], columns = s[2], splits = s[3];
            Half x = halves((size_t)tokens * columns, 1), w = halves((size_t)rows * columns, 0.05f), u = halves((size_t)rows * columns, 0.05f);
            std::vector<float> bias(rows), start((size_t)tokens * rows); for (auto& b : bias) b = normal(); for (auto& b : start) b = normal();
            Matmul p = {};
            p.x = map(x.at, tokens, columns, v.tokens), p.weight = map(w.at, rows, columns, 64), p.up = map(u.at, rows, columns, 64);
            p.bias = device(bias), p.rows = rows, p.tokens = tokens, p.columns = columns, p.to_stride = rows, p.splits = splits, p.partials = partials, p.counters = counters, p.gate_scale = 1, p.curve = {1, 0, INFINITY, INFINITY, 0}, p.add = !gate, p.scale = 0.5f;
            p.to = device(start);
            std::vector<double> want(start.size());
            for (int t = 0; t < tokens; t++) for (int r = 0; r < rows; r++) {
                double y = dot(w, r, x, t, columns) + bias[r];
                want[(size_t)t * rows + r] = gate ? silu(y) * dot(u, r, x, t, columns) : start[(size_t)t * rows + r] + 0.5 * y;
            }
            // A block to a tile, then few blocks for many.
            for (int again = 0; again < 3; again++) {
                blocks_most = again == 0 ? 132 : again == 1 ? 2 : 1;
                CHECK(cudaMemcpy(p.to, start.data(), start.size() * 4, cudaMemcpyHostToDevice));
                launch_matmul(gate ? v.gate : v.plain, p, v.tokens, gate ? 64 : 128, v.shared, false);
                snprintf(name, sizeof name, "%s n%d tokens %d rows %d columns %d splits %d", gate ? "gate_up" : "matmul", v.tokens, tokens, rows, columns, splits);
                verdict(name, distance(host(p.to, start.size()), want), 1e-4);
                if (gate) {
                    Matmul h = p;
                    h.to = nullptr, h.halves = device<u16>(start.size());
                    launch_matmul(v.gate, h, v.tokens, 64, v.shared, false);
                    std::vector<float> got; for (u16 b : host(h.halves, start.size())) got.push_back(from_bf16(b));
                    verdict("  as bf16", distance(got, want), 4e-3);
                    CHECK(cudaFree(h.halves));
                }
            }
            if (v.tokens == 32 || v.tokens == 128) {
                CHECK(cudaMemcpy(p.to, start.data(), start.size() * 4, cudaMemcpyHostToDevice));
                launch_mma(p, x.at, w.at, u.at, v.tokens, gate, false);
                verdict("  by mma.sync", distance(host(p.to, start.size()), want), 1e-4);
            }
            for (void* f : {(void*)x.at, (void*)w.at, (void*)u.at, (void*)p.to, (void*)p.bias}) CHECK(cudaFree(f));
        }
        blocks_most = 3;
        // Experts: some without a token, some with more than a tile.
        const int experts = 7, rows = 200, columns = 136, counts[experts] = {3, 0, v.tokens + 9, 1, 0, v.tokens, 2};
        std::vector<int> starts(1, 0); for (int c : counts) starts.push_back(starts.back() + c);
        const int tokens = starts.back();
        Half x = halves((size_t)tokens * columns, 1), w = halves((size_t)experts * rows * columns, 0.05f), u = halves((size_t)experts * rows * columns, 0.05f);
        for (int gate = 0; gate < 2; gate++) {
            Matmul p = {};
            p.x = map(x.at, tokens, columns, v.tokens), p.weight = map(w.at, experts * rows, columns, 64), p.up = map(u.at, experts * rows, columns, 64);
            p.rows = rows, p.tokens = tokens, p.columns = columns, p.to_stride = rows, p.splits = 1, p.gate_scale = 1, p.curve = {1, 0, INFINITY, INFINITY, 0}, p.experts = experts, p.starts = device(starts);
            if (gate) p.halves = device<u16>((size_t)tokens * rows); else p.to = device<float>((size_t)tokens * rows);
            launch_matmul(gate ? v.experts_gate : v.experts, p, v.tokens, gate ? 64 : 128, v.shared, true);
            std::vector<double> want((size_t)tokens * rows);
            for (int e = 0; e < experts; e++) for (int t = starts[e]; t < starts[e + 1]; t++) for (int r = 0; r < rows; r++) {
                double y = dot(w, (size_t)e * rows + r, x, t, columns);
                want[(size_t)t * rows + r] = gate ? silu(y) * dot(u, (size_t)e * rows + r, x, t, columns) : y;
            }
            std::vector<float> got;
            if (gate) for (u16 h : host(p.halves, want.size())) got.push_back(from_bf16(h)); else got = host(p.to, want.size());
            snprintf(name, sizeof name, "experts %s n%d", gate ? "gate_up" : "", v.tokens);
            verdict(name, distance(got, want), gate ? 4e-3 : 1e-4);
            if (v.tokens == 32 || v.tokens == 128) {
                if (gate) CHECK(cudaMemset(p.halves, 0xff, want.size() * 2)); else CHECK(cudaMemset(p.to, 0xff, want.size() * 4));
                launch_mma(p, x.at, w.at, u.at, v.tokens, gate, true);
                got.clear();
                if (gate) for (u16 h : host(p.halves, want.size())) got.push_back(from_bf16(h)); else got = host(p.to, want.size());
                verdict("  by mma.sync", distance(got, want), gate ? 4e-3 : 1e-4);
            }
        }
    }
    // Groups of pairs.
    for (auto [tokens, count, experts] : std::vector<std::tuple<int, int, int>>{{1, 1, 1}, {3, 2, 5}, {700, 8, 128}, {4096, 8, 128}, {50, 4, 300}}) {
        const int all = tokens * count, columns = 24;
        std::vector<int> chosen(all), order; for (auto& c : chosen) c = rnd() % 9 == 0 ? -1 : rnd() % experts;
        std::vector<u16> x(tokens * columns); for (auto& h : x) h = to_bf16(normal());
        std::vector<float> made(all * columns), shares(all), start(tokens * columns); for (auto& f : made) f = normal(); for (auto& f : shares) f = normal(); for (auto& f : start) f = normal();
        int *starts = device<int>(experts + 1), *pairs = device<int>(all), *places = device<int>(all);
        CHECK(cudaFuncSetAttribute(group_pairs, cudaFuncAttributeMaxDynamicSharedMemorySize, 67584));
        group_pairs<<<1, 1024, 33 * experts * 4, stream>>>(device(chosen), tokens, count, experts, starts, pairs, places);
        u16* gathered = device<u16>(all * columns);
        gather_pairs<<<all, 128, 0, stream>>>(device(x), starts, pairs, gathered, count, columns, experts);
        float* to = device(start);
        join_pairs<<<tokens, 256, 0, stream>>>(device(made), places, device(shares), to, count, columns, 1, 0.5f);
        std::vector<int> wanted_starts(1, 0);
        for (int e = 0; e < experts; e++) { for (int i = 0; i < all; i++) if (chosen[i] == e) order.push_back(i); wanted_starts.push_back(order.size()); }
        auto got_starts = host(starts, experts + 1), got_pairs = host(pairs, all), got_places = host(places, all);
        auto got_rows = host(gathered, all * columns);
        int wrong = got_starts != wanted_starts;
        for (size_t i = 0; i < order.size(); i++) { wrong += got_pairs[i] != order[i] || got_places[order[i]] != (int)i; for (int c = 0; c < columns; c++) wrong += got_rows[i * columns + c] != x[order[i] / count * columns + c]; }
        std::vector<double> want(start.begin(), start.end());
        for (int i = 0; i < all; i++) { if (chosen[i] < 0) wrong += got_places[i] != -1; else for (int c = 0; c < columns; c++) want[i / count * columns + c] += 0.5 * shares[i] * made[(size_t)got_places[i] * columns + c]; }
        verdict("group_pairs, gather_pairs", wrong, 0);
        verdict("join_pairs", distance(host(to, want.size()), want), 1e-6);
    }
    printf("matmul: %d wrong\n", failures);
}

int main() {
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void**)&encode, 12000, cudaEnableDefault, &found));
    check();
    blocks_most = 132;
    if (failures) return 1;
    const size_t POOL = 1ull << 31;
    u16 *pool = device<u16>(POOL / 2), *x = device<u16>(1 << 26), *out = device<u16>(1 << 26);
    float *to = device<float>(1 << 27), *partials = device<float>(1 << 26); unsigned* counters = device(std::vector<unsigned>(4096, 0));
    std::vector<u16> noise(1 << 24); for (auto& n : noise) n = to_bf16(normal());
    for (size_t at = 0; at < POOL / 2; at += noise.size()) CHECK(cudaMemcpy(pool + at, noise.data(), noise.size() * 2, cudaMemcpyHostToDevice));
    for (size_t at = 0; at < 1 << 26; at += noise.size()) CHECK(cudaMemcpy(x + at, noise.data(), noise.size() * 2, cudaMemcpyHostToDevice));
    const int shapes[][2] = {{6144, 4096}, {4096, 4096}, {4096, 12288}, {12288, 4096}, {3072, 1024}, {1024, 3072}};
    for (int tokens : {4096, 512, 256, 128, 64, 32, 16}) for (auto& s : shapes) for (auto& v : VARIANTS) for (int gate = 0; gate < 2; gate++) for (int splits : {1, 2, 4, 8}) {
        int rows = s[0], columns = s[1];
        if (gate && (!v.gate || s[0] <= s[1] || s[0] == 6144)) continue;
        if (tokens > 256 ? v.tokens < 128 : v.tokens != tokens && v.tokens * 2 != tokens) continue;
        int tiles = (rows + 127) / (gate ? 64 : 128) * ((tokens + v.tokens - 1) / v.tokens);
        if (splits > 1 && (tiles * splits > 132 || columns / splits < 256)) continue;
        size_t each = (size_t)rows * columns * (gate ? 2 : 1);
        int count = tokens > 1000 ? 4 : (int)std::min<size_t>(POOL / 2 / each, 40);
        double us = time_us(count, [&](int i) {
            Matmul p = {};
            p.x = map(x, tokens, columns, v.tokens), p.weight = map(pool + i * each, rows, columns, 64), p.up = map(pool + i * each + (gate ? each / 2 : 0), rows, columns, 64);
            p.rows = rows, p.tokens = tokens, p.columns = columns, p.to_stride = rows, p.splits = splits, p.partials = partials, p.counters = counters, p.gate_scale = 1, p.curve = {1, 0, INFINITY, INFINITY, 0};
            if (gate) p.halves = out; else p.to = to;
            launch_matmul(gate ? v.gate : v.plain, p, v.tokens, gate ? 64 : 128, v.shared, false);
        });
        printf("%-7s n%-3d tokens %4d %5d x %5d splits %d %9.2f us %6.0f TFLOP/s %5.0f GB/s of weights\n", gate ? "gate_up" : "matmul", v.tokens, tokens, rows, columns, splits, us, 2.0 * tokens * each / us * 1e-6, each * 2.0 / us * 1e-3);
    }
    for (int tokens : {4096, 64}) for (auto& s : shapes) {
        const size_t each = (size_t)s[0] * s[1];
        const int tile = tokens > 64 ? 128 : 32;
        double us = time_us(4, [&](int i) {
            Matmul p = {};
            p.rows = s[0], p.tokens = tokens, p.columns = s[1], p.to_stride = s[0], p.to = to;
            launch_mma(p, x, pool + i * each, nullptr, tile, false, false);
        });
        printf("mma     n%-3d tokens %4d %5d x %5d          %9.2f us %6.0f TFLOP/s\n", tile, tokens, s[0], s[1], us, 2.0 * tokens * each / us * 1e-6);
    }
    // 30b-a3b: 128 experts of 768 x 2048, 8 a token; the groups are even.
    for (int tokens : {4096, 512, 128}) for (auto& v : VARIANTS) for (int gate = 0; gate < 2; gate++) {
        if (v.tokens < tokens / 64 || v.tokens > tokens / 4) continue;
        std::vector<int> starts; for (int e = 0; e <= 128; e++) starts.push_back((int)((long)tokens * 8 * e / 128));
        int* d_starts = device(starts);
        double us = time_us(3, [&](int) {
            Matmul p = {};
            const int rows = gate ? 768 : 2048, columns = gate ? 2048 : 768;
            p.x = map(x, tokens * 8, columns, v.tokens), p.weight = map(pool, 128 * rows, columns, 64), p.up = map(pool + 128l * rows * columns, 128 * rows, columns, 64);
            p.rows = rows, p.tokens = tokens * 8, p.columns = columns, p.to_stride = rows, p.splits = 1, p.experts = 128, p.starts = d_starts, p.gate_scale = 1, p.curve = {1, 0, INFINITY, INFINITY, 0};
            if (gate) p.halves = out; else p.to = to;
            launch_matmul(gate ? v.experts_gate : v.experts, p, v.tokens, gate ? 64 : 128, v.shared, true);
        });
        printf("experts %-7s n%-3d tokens %4d %9.2f us %6.0f TFLOP/s %5.0f GB/s of weights\n", gate ? "gate_up" : "down", v.tokens, tokens, us, 2.0 * tokens * 8 * 768 * 2048 * (1 + gate) / us * 1e-6, 128.0 * 768 * 2048 * 2 * (1 + gate) / us * 1e-3);
    }
    // Weights to bf16.
    for (auto& l : LAYOUTS) if (l.type != 30 && l.type != 0) {
        const int rows = 12288, columns = 4096; const long blocks = (long)rows * columns / l.block; const int units = rows * (columns / (l.type == 8 ? 16 : l.type == 1 ? 8 : 32));
        auto k = l.type == 8 ? dequantise_q8_0 : l.type == 2 ? dequantise_q4_0 : l.type == 12 ? dequantise_q4_k : l.type == 13 ? dequantise_q5_k : l.type == 14 ? dequantise_q6_k : dequantise_f16;
        double us = time_us(10, [&](int i) { k<<<(units + 255) / 256, 256, 0, stream>>>((u8*)pool + (size_t)i * 100000000 / 256 * 256, rows, columns, 0, blocks, out, columns, 0); });
        double bytes = (double)blocks * l.bytes + 2.0 * rows * columns;
        printf("dequantise %-5s 12288 x 4096 %8.2f us %6.0f GB/s read and written\n", l.name, us, bytes / us * 1e-3);
    }
    return 0;
}
