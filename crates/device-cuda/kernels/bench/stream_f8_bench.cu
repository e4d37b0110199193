// Checks the products of stream_f8.cuh against double precision on awkward sizes; then times the products of whole layers of 8b.
// nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a bench/stream_f8_bench.cu -o stream_f8_bench
#include "bench.cuh"
#include "../matvec_stream.cu"

typedef void (*MatvecKernel)(Matvec);
static int row_bytes(int columns) { return (2 * columns + columns / 32 + 127) & ~127; }
static constexpr int RING = EightBits::WARPS * EightBits::STEPS * EightBits::STEP_BYTES;
// A row of halves: 2^-11 of each term at most, and a little for sums in single precision.
static const double LIMIT = 5e-4;
static void start(bool pair, int blocks, Matvec p, bool dependent = false) {
    MatvecKernel kernel = pair ? stream_gate_up_f8_e4m3 : stream_f8_e4m3;
    p.blocks = blocks;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    launch(kernel, dim3(blocks), 512, std::max(row_bytes(p.x.columns) + RING, 116 << 10), p, dependent);
}

static double value_of(u8 code) {
    const int e = code >> 3 & 15, m = code & 7;
    const double v = e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
    return code & 128 ? -v : v;
}
struct Weights { std::vector<u8> stored; u8* at; int rows, columns; };
static Weights weights(int rows, int columns) {
    Weights w{std::vector<u8>((size_t)rows * columns + (size_t)rows * columns / 32), nullptr, rows, columns};
    for (size_t i = 0; i < (size_t)rows * columns; i++) { u8 code = rnd(); w.stored[i] = (code & 127) == 127 ? code - 1 : code; }
    for (size_t i = 0; i < (size_t)rows * columns / 128; i++) { float f = 1e-3f * normal(); memcpy(&w.stored[(size_t)rows * columns + 4 * i], &f, 4); }
    w.at = device(w.stored);
    return w;
}
// `size`: that of all terms together.
static double product(const Weights& w, int row, const std::vector<double>& x, double& size) {
    double sum = 0;
    for (int i = 0; i < w.columns; i++) {
        float scale; memcpy(&scale, &w.stored[(size_t)w.rows * w.columns + ((size_t)row * (w.columns / 128) + i / 128) * 4], 4);
        const double term = value_of(w.stored[(size_t)row * w.columns + i]) * scale * x[i];
        sum += term, size += fabs(term);
    }
    return sum;
}

// The largest error of an output, of the size of its terms.
static double share(const std::vector<float>& a, const std::vector<double>& b, const std::vector<double>& sizes) {
    double most = 0;
    for (size_t i = 0; i < b.size(); i++) { if (!std::isfinite(a[i])) return INFINITY; most = std::max(most, fabs(a[i] - b[i]) / sizes[i]); }
    return most;
}

static void check() {
    char name[128];
    for (int columns : {128, 384, 1024, 2176, 4096, 12288}) for (int rows : {1, 16, 31, 257, 1504}) for (int blocks : {1, 5, 44}) for (int mode = 0; mode < 2; mode++) {
        if (rows == 1504 && (blocks != 44 || columns > 5000)) continue;
        Weights g = weights(rows, columns), u = weights(rows, columns);
        std::vector<float> from(columns), weight(columns), before(rows), bias(rows);
        const float size = mode ? 1e5f : 3e-3f;
        for (auto& f : from) f = normal() * size * expf(3 * normal());
        for (auto& f : weight) f = 1 + 0.1f * normal();
        for (auto& f : before) f = normal();
        for (auto& f : bias) f = normal();
        std::vector<double> x(columns);
        double squares = 0;
        for (float f : from) squares += (double)f * f;
        for (int i = 0; i < columns; i++) x[i] = mode ? from[i] : from[i] / sqrt(squares / columns + 1e-6) * weight[i];
        float *d_from = device(from), *d_weight = device(weight), *d_bias = device(bias), *a = device(before), *b = device<float>(rows), *c = device<float>(rows);
        Matvec p = {};
        p.parts[0] = {g.at, nullptr, d_bias, nullptr, a, rows, rows, 0, 0}, p.parts[1] = {u.at, nullptr, nullptr, nullptr, b, rows, rows, 0, blocks};
        p.count = 2, p.add = 0, p.scale = 0.5f, p.gate_scale = 0.7f, p.x.columns = columns, p.x.tokens = 1, p.from = d_from;
        if (!mode) p.norm = {d_weight, nullptr, 0, 1e-6f};
        p.parts[1].first_block = blocks;
        start(false, 3 * blocks, p);
        std::vector<double> want(rows), second(rows), pair(rows), ones(rows), twos(rows);
        for (int r = 0; r < rows; r++) {
            const double one = product(g, r, x, ones[r]), two = product(u, r, x, twos[r]), gate = 0.7 * (one + bias[r]);
            want[r] = one + bias[r], second[r] = two, pair[r] = gate / (1 + exp(-gate)) * two;
        }
        snprintf(name, sizeof name, "rows %d columns %d blocks %d mode %d", rows, columns, blocks, mode);
        verdict(name, share(host(a, rows), want, ones), LIMIT), verdict((std::string("second ") + name).c_str(), share(host(b, rows), second, twos), LIMIT);
        p.add = 1, p.count = 1;
        CHECK(cudaMemcpy(a, before.data(), 4 * rows, cudaMemcpyHostToDevice));
        start(false, blocks, p);
        for (int r = 0; r < rows; r++) want[r] = before[r] + 0.5 * want[r];
        verdict((std::string("added ") + name).c_str(), share(host(a, rows), want, ones), LIMIT);
        p.add = 0, p.parts[0].up = u.at, p.parts[0].to = c;
        start(true, blocks, p);
        // Of few rows most of what there is may be behind a gate that is nearly closed.
        if (rows > 16) verdict((std::string("pair ") + name).c_str(), distance(host(c, rows), pair), 3 * LIMIT);
        const int rounds = 2 * (((rows + 31) / 32 + blocks - 1) / blocks);
        if (rows % 32 == 0 && rounds * 16 <= 256) {
            signed char* codes = device<signed char>(rows); BlockMeta* metas = device<BlockMeta>(rows / 32);
            p.codes = codes, p.metas = metas;
            start(true, blocks, p);
            auto q = host(codes, rows); auto m = host(metas, rows / 32); auto values = host(c, rows);
            double most = 0;
            for (int r = 0; r < rows; r++) most = std::max(most, fabs(q[r] - (double)values[r] / m[r / 32].scale));
            // Of a code, against the values that go with them.
            verdict((std::string("coded ") + name).c_str(), most, 0.501);
        }
        for (const void* f : {(const void*)g.at, (const void*)u.at, (const void*)d_from, (const void*)d_weight, (const void*)d_bias, (const void*)a, (const void*)b, (const void*)c}) CHECK(cudaFree((void*)f));
    }
    printf("stream_f8: %d wrong\n", failures);
}

int main() {
    CHECK(cudaStreamCreate(&stream));
    check();
    const size_t POOL = 6ull << 30;
    u8* pool = device<u8>(POOL); CHECK(cudaMemset(pool, 0x35, POOL));
    size_t at = 0;
    const auto next = [&](size_t bytes) { if (at + bytes > POOL) at = 0; u8* p = pool + at; at += (bytes + 255) / 256 * 256; return p; };
    std::vector<float> f(1 << 16);
    for (auto& v : f) v = normal();
    float *buffers[4], *norm = device(f);
    for (auto& b : buffers) b = device(f);
    const auto product = [&](std::vector<int> rows, int columns, bool normed, bool pair, bool add, float* from, float* to) {
        Matvec p = {};
        int all = 0, first = 0;
        for (int r : rows) all += r;
        for (int r : rows) {
            const size_t bytes = (size_t)r * columns / 128 * 132;
            u8 *w = next(bytes), *up = pair ? next(bytes) : nullptr;
            p.parts[p.count++] = {w, up, nullptr, nullptr, to + first, r, r, 0, (int)((long)first * 132 / all)};
            first += r;
        }
        p.x.columns = columns, p.x.tokens = 1, p.add = add, p.scale = 1, p.gate_scale = 1, p.from = from, p.norm.weight = normed ? norm : nullptr, p.norm.epsilon = 1e-6f;
        start(pair, 132, p, true);
    };
    const auto one = [&](int which) {
        if (which == 0) product({4096, 1024, 1024}, 4096, true, false, false, buffers[0], buffers[1]);
        if (which == 1) product({4096}, 4096, false, false, true, buffers[1], buffers[0]);
        if (which == 2) product({12288}, 4096, true, true, false, buffers[0], buffers[2]);
        if (which == 3) product({4096}, 12288, false, false, true, buffers[2], buffers[0]);
    };
    const double sizes[4] = {6144.0 * 4096, 4096.0 * 4096, 2 * 12288.0 * 4096, 12288.0 * 4096};
    printf("a layer of 8b: %.2f us (floor %.2f);", time_us(36, [&](int) { for (int i = 0; i < 4; i++) one(i); }), (sizes[0] + sizes[1] + sizes[2] + sizes[3]) * 132 / 128 / 4.53e6);
    for (int i = 0; i < 4; i++) { const double us = time_us(100, [&](int) { one(i); }); printf(" %.2f us, %.0f GB/s;", us, sizes[i] * 132 / 128 / us * 1e-3); }
    printf("\n");
    return failures != 0;
}
