// Checks matvec_stream.cu against matvec.cu, to the bit, on awkward sizes; then times both, alone and as the products of whole layers.
// nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a bench/stream_bench.cu -o stream_bench
#include "bench.cuh"
#include "../matvec.cu"
#include "../rows.cu"
#include "../planes.cu"
#include "../matvec_stream.cu"

typedef void (*MatvecKernel)(Matvec);
struct Kernels { int type; MatvecKernel matvec, gate_up, stream, stream_gate_up; int ring; };
template <class Q, class S> static constexpr int ring_of() { return S::BLOCK_WARPS * S::STEPS * S::ROWS * S::UNITS * Way<Q>::BYTES; }
#define K(N, NUMBER, TYPE, SHAPE) {NUMBER, matvec_##N##_t1, gate_up_##N##_t1, stream_##N, stream_gate_up_##N, ring_of<TYPE, SHAPE>()}
static const Kernels KERNELS[] = {K(q8_0, 8, Q8_0, OfQ8_0), K(q4_0, 2, Q4_0, OfQ4_0), K(q4_k, 12, Q4_K_64, OfQ4_K), K(q5_k, 13, Q5_K, OfQ5_K), K(bf16, 30, BF16, OfFloats), K(f16, 1, F16, OfFloats)};
static const Kernels& kernels(int type) { for (auto& k : KERNELS) if (k.type == type) return k; exit(2); }
static bool is_float(int type) { return layout(type).block == 1; }

static u8* upload(int type, size_t blocks) {
    auto stored = random_blocks(type, blocks);
    stored.resize(stored.size() + 16);
    u8* from = device(stored);
    if (type != 8 && type != 2) return from;
    u8* to = device<u8>(stored.size());
    dim3 grid((blocks + 255) / 256);
    if (type == 8) planes_q8_0<<<grid, 256>>>((u16*)from, (u16*)to, blocks);
    if (type == 2) planes_q4_0<<<grid, 256>>>((u16*)from, (u16*)to, blocks);
    CHECK(cudaDeviceSynchronize()); CHECK(cudaFree(from));
    return to;
}
static int matvec_rows(int type) { return is_float(type) || type == 8 ? 4 : 8; }
static int row_bytes(int type, int columns) { return ((is_float(type) ? columns * 4 : columns + columns / 4) + 127) & ~127; }
static int shared_bytes(int type, int columns) { return row_bytes(type, columns) + kernels(type).ring; }
static void start(MatvecKernel kernel, int blocks, int shared, Matvec p, bool dependent = false) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    p.blocks = blocks;
    launch(kernel, dim3(blocks), 512, shared, p, dependent);
}
static void same(const char* what, const float* a, const float* b, size_t count) {
    auto x = host(a, count), y = host(b, count);
    bool finite = true;
    for (float f : x) finite &= std::isfinite(f);
    verdict(what, finite && !memcmp(x.data(), y.data(), count * 4) ? 0 : 1, 0);
}

static void check() {
    char name[128];
    for (auto& k : KERNELS) for (int columns : {256, 768, 2304, 4096, 5120, 12288}) for (int rows : {1, 2, 31, 257, 3001}) for (int blocks : {1, 5, 132}) for (int mode = 0; mode < 3; mode++) {
        // Modes: with a norm, as it is, as codes.
        if (mode == 2 && is_float(k.type)) continue;
        if ((rows == 3001 || columns > 5000) && (blocks != 132 || rows < 257)) continue;
        const size_t all = (size_t)rows * columns / layout(k.type).block;
        u8 *g = upload(k.type, all), *u = upload(k.type, all);
        std::vector<float> from(columns), weight(columns), before(rows), bias(rows);
        for (auto& f : from) f = normal() * 3;
        for (auto& f : weight) f = 1 + 0.1f * normal();
        for (auto& f : before) f = normal();
        for (auto& f : bias) f = normal();
        const RowNorm norm = {mode == 0 ? device(weight) : nullptr, nullptr, rows == 31, 1e-6f};
        NormRows turn{device(from), norm, {device<float>(columns), is_float(k.type) ? nullptr : device<signed char>(columns), device<BlockMeta>(columns / 32), nullptr, 0}, columns, columns};
        launch(norm_rows, dim3(1), std::min(1024, (columns / 4 + 31) / 32 * 32), 0, turn);
        float *a = device(before), *b = device(before), *b2 = device(before), *a2 = device(before), *d_bias = device(bias);
        Matvec p = {};
        const int each = (rows + matvec_rows(k.type) - 1) / matvec_rows(k.type);
        p.parts[0] = {g, nullptr, d_bias, nullptr, a, rows, rows, k.type, 0}, p.parts[1] = {u, nullptr, nullptr, nullptr, a2, rows, rows, k.type, each};
        p.count = 2, p.add = 1, p.scale = 0.5f, p.gate_scale = 0.7f, p.x = {turn.to.codes, turn.to.metas, turn.to.values, columns, 1};
        launch(k.matvec, dim3(2 * each), 128, 0, p);
        Matvec q = p;
        q.parts[0].to = b, q.parts[1].to = b2, q.parts[1].first_block = blocks, q.norm = norm, q.from = mode == 2 ? nullptr : turn.from;
        if (mode != 2) q.x.codes = nullptr, q.x.metas = nullptr, q.x.values = nullptr;
        start(k.stream, 3 * blocks, shared_bytes(k.type, columns), q);
        snprintf(name, sizeof name, "%s rows %d columns %d blocks %d mode %d", layout(k.type).name, rows, columns, blocks, mode);
        same(name, b, a, rows), same(name, b2, a2, rows);
        p.count = q.count = 1, p.parts[0].up = q.parts[0].up = u, p.parts[0].up_bias = q.parts[0].up_bias = d_bias, p.add = q.add = 0;
        CHECK(cudaMemset(a, 0xff, rows * 4)); CHECK(cudaMemset(b, 0xff, rows * 4));
        launch(k.gate_up, dim3((rows + 3) / 4), 128, 0, p);
        start(k.stream_gate_up, blocks, shared_bytes(k.type, columns), q);
        same((std::string("pair ") + name).c_str(), b, a, rows);
        for (const void* f : {(const void*)g, (const void*)u, (const void*)turn.from, (const void*)norm.weight, (const void*)turn.to.values, (const void*)turn.to.codes, (const void*)turn.to.metas, (const void*)a, (const void*)b, (const void*)a2, (const void*)b2, (const void*)d_bias}) CHECK(cudaFree((void*)f));
    }
    printf("stream: %d wrong\n", failures);
}

static u8* pool; static const size_t POOL = 3ull << 30;
static float *buffers[4], *weights; static signed char* codes; static BlockMeta* metas;

static size_t bytes_of(int type, size_t rows, size_t columns) { return rows * columns / layout(type).block * layout(type).bytes; }
static size_t at;
static u8* next(size_t bytes) { if (at + bytes > POOL) at = 0; u8* p = pool + at; at += (bytes + 255) / 256 * 256; return p; }

// A product as the engine started it: by kernels that turn the row, then one that reads it.
static void old_way(int type, std::vector<int> rows, int columns, bool norm, bool pair, bool add, bool codes_there, float* from, float* to) {
    const Kernels& k = kernels(type);
    if (!codes_there && (norm || !is_float(type))) {
        NormRows turn{from, {norm ? weights : nullptr, nullptr, 0, 1e-6f}, {is_float(type) ? buffers[3] : nullptr, is_float(type) ? nullptr : codes, metas, nullptr, 0}, columns, columns};
        launch(norm_rows, dim3(1), std::min(1024, columns / 4), 0, turn, true);
        if (is_float(type)) from = buffers[3];
    }
    Matvec p = {};
    int blocks = 0;
    for (int r : rows) {
        u8 *w = next(bytes_of(type, r, columns)), *up = pair ? next(bytes_of(type, r, columns)) : nullptr;
        p.parts[p.count++] = {w, up, nullptr, nullptr, to, r, r, type, blocks};
        blocks += pair ? (r + 3) / 4 : (r + matvec_rows(type) - 1) / matvec_rows(type);
    }
    p.x = {codes, metas, from, columns, 1}, p.add = add, p.scale = 1, p.gate_scale = 1;
    launch(pair ? k.gate_up : k.matvec, dim3(blocks), 128, 0, p, true);
}
struct New { MatvecKernel stream, gate_up; int ring, warps, per_processor; };
static void new_way(const New& n, int type, std::vector<int> rows, int columns, bool norm, bool pair, bool add, bool codes_there, float* from, float* to) {
    Matvec p = {};
    int all = 0, blocks = 132 * n.per_processor, first = 0;
    for (int r : rows) all += r;
    for (int r : rows) {
        u8 *w = next(bytes_of(type, r, columns)), *up = pair ? next(bytes_of(type, r, columns)) : nullptr;
        p.parts[p.count++] = {w, up, nullptr, nullptr, to, r, r, type, (int)((long)first * blocks / all)};
        first += r;
    }
    p.x = {codes, metas, from, columns, 1}, p.add = add, p.scale = 1, p.gate_scale = 1, p.norm.weight = norm ? weights : nullptr, p.norm.epsilon = 1e-6f, p.blocks = blocks;
    p.from = codes_there && !is_float(type) ? nullptr : from;
    // Never two of them on a processor.
    const int shared = std::max(row_bytes(type, columns) + n.ring, 116 << 10);
    MatvecKernel kernel = pair ? n.gate_up : n.stream;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    launch(kernel, dim3(blocks), 32 * n.warps, shared, p, true);
}
struct Model { const char* name; int hidden, heads, kv, wide, layers; };
static const Model MODELS[] = {{"0.6b", 1024, 2048, 1024, 3072, 28}, {"8b", 4096, 4096, 1024, 12288, 36}};

template <class F> static void times(const char* what, int type, F way) {
    printf("%-5s %-22s", layout(type).name, what);
    for (auto& m : MODELS) {
        const double products[4] = {(double)bytes_of(type, m.heads + 2 * m.kv, m.hidden), (double)bytes_of(type, m.hidden, m.heads), (double)bytes_of(type, 2 * m.wide, m.hidden), (double)bytes_of(type, m.hidden, m.wide)};
        auto product = [&](int which) {
            if (which == 0) way(type, {m.heads, m.kv, m.kv}, m.hidden, true, false, false, false, buffers[0], buffers[1]);
            if (which == 1) way(type, {m.hidden}, m.heads, false, false, true, true, buffers[1], buffers[0]);
            if (which == 2) way(type, {m.wide}, m.hidden, true, true, false, false, buffers[0], buffers[2]);
            if (which == 3) way(type, {m.hidden}, m.wide, false, false, true, false, buffers[2], buffers[0]);
        };
        double all = 0;
        for (double b : products) all += b;
        const double us = time_us(m.layers, [&](int) { for (int i = 0; i < 4; i++) product(i); });
        printf(" | %s layer %6.2f us (floor %5.2f)", m.name, us, all / 4.53e6);
        for (int i = 0; i < 4; i++) {
            const double one = time_us(100, [&](int) { product(i); });
            printf(" %5.2f/%.0f", one, products[i] / one * 1e-3);
        }
    }
    const double head = time_us(4, [&](int) { way(type, {151936}, 4096, false, false, false, true, buffers[1], buffers[2]); });
    printf(" | head %.0f\n", bytes_of(type, 151936, 4096) / head * 1e-3);
    fflush(stdout);
}
template <class Q, class S, int BLOCKS, bool PAIR> __global__ void __launch_bounds__(32 * S::BLOCK_WARPS, BLOCKS) variant(const __grid_constant__ Matvec p) { stream_rows<Q, S, PAIR>(p); }
template <class Q, int R, int U, int STEPS, int WARPS_, int BLOCKS> static void variant_times(int type, int per_processor = 1) {
    typedef Shape<R, U, STEPS, WARPS_> S;
    const New n = {variant<Q, S, BLOCKS, false>, variant<Q, S, BLOCKS, true>, ring_of<Q, S>(), WARPS_, per_processor};
    char name[64];
    snprintf(name, sizeof name, "R%d U%d S%d W%d B%d x%d", R, U, STEPS, WARPS_, BLOCKS, per_processor);
    times(name, type, [&](int t, std::vector<int> r, int c, bool norm, bool pair, bool add, bool there, float* from, float* to) { new_way(n, t, r, c, norm, pair, add, there, from, to); });
}

int main() {
    CHECK(cudaStreamCreate(&stream));
    check();
    if (failures) return 1;
    pool = device<u8>(POOL);
    std::vector<unsigned> noise(1 << 22);
    for (auto& n : noise) n = rnd() & 0x3bff3bff;  // no exponent of infinity as f16 or bf16
    for (size_t to = 0; to < POOL; to += noise.size() * 4) CHECK(cudaMemcpy(pool + to, noise.data(), noise.size() * 4, cudaMemcpyHostToDevice));
    std::vector<float> f(1 << 20);
    for (auto& v : f) v = normal();
    for (auto& b : buffers) b = device(f);
    weights = device(f), codes = device<signed char>(1 << 20), metas = device<BlockMeta>(1 << 15);
    CHECK(cudaMemset(codes, 3, 1 << 20)); CHECK(cudaMemset(metas, 0, 1 << 18));
    printf("per product of a layer: us/GB/s of qkv, output, gate and up, down, each one behind the other alone\n");
    for (int type : {30, 12, 8}) times("kernel after kernel", type, old_way);
    variant_times<BF16, 2, 2, 4, 8, 2>(30);
    variant_times<BF16, 2, 2, 6, 8, 2>(30);
    variant_times<BF16, 2, 2, 3, 16, 2>(30);
    variant_times<BF16, 4, 1, 4, 8, 2>(30);
    variant_times<Q4_K_64, 2, 1, 4, 8, 2>(12);
    variant_times<Q4_K_64, 2, 1, 5, 8, 2>(12);
    variant_times<Q4_K_64, 2, 1, 2, 16, 2>(12);
    variant_times<Q4_K_64, 2, 1, 3, 16, 2>(12);
    variant_times<Q4_K_64, 4, 1, 2, 8, 2>(12);
    variant_times<Q8_0, 2, 2, 4, 8, 2>(8);
    variant_times<Q8_0, 2, 2, 2, 16, 2>(8);
    variant_times<Q8_0, 2, 1, 4, 16, 2>(8);
    return 0;
}
