// Checks matvec.cu, rows.cu and planes.cu against double precision on awkward sizes, then times them beside the streaming read.
// nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a bench/matvec_bench.cu -o matvec_bench
#include "bench.cuh"
#include "../matvec.cu"
#include "../rows.cu"
#include "../planes.cu"

template <class Q, int T, int R, int U, int B, bool PAIR> __global__ void __launch_bounds__(32 * WARPS, B) variant(const __grid_constant__ Matvec p) { matvec<Q, T, R, U, PAIR>(p); }

template <class Q, int R, int U, int B> __global__ void __launch_bounds__(32 * WARPS, B) gate_variant(const __grid_constant__ ExpertsMatvec p) { experts_gate_up<Q, R, U>(p); }
template <class Q, int A, int B> __global__ void __launch_bounds__(32 * WARPS, B) down_variant(const __grid_constant__ ExpertsMatvec p) { experts_down<Q, A, 1>(p); }

typedef void (*MatvecKernel)(Matvec);
typedef void (*ExpertsKernel)(ExpertsMatvec);
struct Kernels { int type; MatvecKernel turned, gu_turned, mv[4], gu[4]; ExpertsKernel eg, ed; };
#define K(N, TYPE) {TYPE, matvec_##N##_turned, gate_up_##N##_turned, {matvec_##N##_t1, matvec_##N##_t2, matvec_##N##_t4, matvec_##N##_t8}, {gate_up_##N##_t1, gate_up_##N##_t2, gate_up_##N##_t4, gate_up_##N##_t8}, experts_gate_up_##N, experts_down_##N}
static const Kernels KERNELS[] = {K(q8_0, 8), K(q4_0, 2), K(q4_k, 12), K(q5_k, 13), K(q6_k, 14), K(bf16, 30), K(f16, 1), K(f32, 0)};
static const MatvecKernel MIXED[] = {matvec_mixed_t1, matvec_mixed_t2, matvec_mixed_t4, matvec_mixed_t8};

struct Matrix { int type, rows, columns; std::vector<double> values; u8* weight; size_t bytes; };
static u8* upload(int type, size_t blocks, const std::vector<unsigned char>& stored) {
    u8* from = device(stored);
    if (type != 8 && type != 2 && type != 14) return from;
    u8* to = device<u8>(stored.size());
    dim3 grid((blocks + 255) / 256);
    if (type == 8) planes_q8_0<<<grid, 256>>>((u16*)from, (u16*)to, blocks);
    if (type == 2) planes_q4_0<<<grid, 256>>>((u16*)from, (u16*)to, blocks);
    if (type == 14) planes_q6_k<<<grid, 256>>>((u16*)from, (u16*)to, blocks);
    CHECK(cudaDeviceSynchronize()); CHECK(cudaFree(from));
    return to;
}
static Matrix matrix(int type, int rows, int columns) {
    const Layout& l = layout(type);
    size_t blocks = (size_t)rows * columns / l.block;
    auto stored = random_blocks(type, blocks);
    Matrix m{type, rows, columns, std::vector<double>((size_t)rows * columns), nullptr, stored.size()};
    for (size_t b = 0; b < blocks; b++) block_values(type, &stored[b * l.bytes], &m.values[b * l.block]);
    m.weight = upload(type, blocks, stored);
    return m;
}
struct Input { std::vector<double> x; Vectors v; };
// Random rows through norm_rows; `x` is what a product with weights of this type reads.
static Input input(int type, int tokens, int columns) {
    std::vector<float> from((size_t)tokens * columns), weight(columns);
    for (auto& f : from) f = normal() * 3;
    for (auto& f : weight) f = 1 + 0.1f * normal();
    bool quantised = layout(type).block > 1;
    NormRows p{device(from), {device(weight), nullptr, 0, 1e-6f}, {device<float>(from.size()), quantised ? device<signed char>(from.size()) : nullptr, device<BlockMeta>(from.size() / 32 + 1), nullptr, 0}, columns, columns};
    launch(norm_rows, dim3(tokens), std::min(1024, (columns / 4 + 31) / 32 * 32), 0, p);
    auto values = host(p.to.values, from.size());
    Input in{std::vector<double>(from.size()), {p.to.codes, p.to.metas, p.to.values, columns, tokens}};
    std::vector<double> wanted(from.size());
    for (int t = 0; t < tokens; t++) {
        double sum = 0;
        for (int i = 0; i < columns; i++) sum += (double)from[t * columns + i] * from[t * columns + i];
        for (int i = 0; i < columns; i++) wanted[t * columns + i] = from[t * columns + i] / sqrt(sum / columns + 1e-6) * weight[i];
    }
    verdict("norm_rows", distance(values, wanted), 1e-6);
    for (size_t i = 0; i < from.size(); i++) in.x[i] = values[i];
    if (quantised) {
        auto codes = host(p.to.codes, from.size());
        auto metas = host(p.to.metas, from.size() / 32);
        double worst = 0;
        for (size_t i = 0; i < from.size(); i++) {
            in.x[i] = (double)metas[i / 32].scale * codes[i];
            worst = std::max(worst, fabs(in.x[i] - values[i]) / (metas[i / 32].scale + 1e-30));
        }
        for (size_t b = 0; b < metas.size(); b++) for (int h = 0; h < 2; h++) {
            int sum = 0;
            for (int i = 0; i < 16; i++) sum += codes[b * 32 + h * 16 + i];
            if (sum != metas[b].sums[h]) worst = 1e9;
        }
        verdict("codes and their sums", worst, 0.501);
    }
    CHECK(cudaFree((void*)p.from));
    return in;
}
static std::vector<double> product(const Matrix& m, const std::vector<double>& x, int tokens) {
    std::vector<double> y((size_t)tokens * m.rows);
    for (int t = 0; t < tokens; t++) for (int r = 0; r < m.rows; r++) {
        double s = 0;
        for (int i = 0; i < m.columns; i++) s += m.values[(size_t)r * m.columns + i] * x[(size_t)t * m.columns + i];
        y[(size_t)t * m.rows + r] = s;
    }
    return y;
}
static int rows_per_block(int t_index, bool pair, int type) { return pair ? WARPS * (t_index < 2 ? 1 : 2) : WARPS * (t_index == 0 && (layout(type).block == 1 || type == 8 || type == 14) ? 1 : t_index < 2 ? 2 : 4); }
static double silu(double x) { return x / (1 + exp(-x)); }

static void check() {
    char name[128];
    for (auto& k : KERNELS) {
        const Layout& l = layout(k.type);
        std::vector<float> before[3];
        for (int t_index = 0; t_index < 4; t_index++) for (int columns : {l.block > 32 ? 256 : 32, l.block > 32 ? 768 : 96, 2304}) for (int rows : {1, 2, 31, 257}) {
            int most = 1 << t_index, tokens = t_index > 1 && rows == 31 ? most - 1 : most;
            Matrix g = matrix(k.type, rows, columns), u = matrix(k.type, rows, columns);
            Input in = input(k.type, tokens, columns);
            std::vector<float> bias(rows), start((size_t)tokens * rows);
            for (auto& b : bias) b = normal();
            for (auto& b : start) b = normal();
            Matvec p = {};
            float *d_bias = device(bias), *to = device(start), *to2 = device<float>(start.size());
            int blocks = (rows + rows_per_block(t_index, false, k.type) - 1) / rows_per_block(t_index, false, k.type);
            p.parts[0] = {g.weight, nullptr, d_bias, nullptr, to, rows, rows, k.type, 0};
            p.parts[1] = {u.weight, nullptr, nullptr, nullptr, to2, rows, rows, k.type, blocks};
            p.count = 2, p.x = in.v, p.add = 1, p.scale = 0.5f;
            CHECK(cudaMemset(to2, 0, start.size() * 4));
            launch(k.mv[t_index], dim3(2 * blocks), 128, 0, p);
            auto yg = product(g, in.x, tokens), yu = product(u, in.x, tokens);
            std::vector<double> want(start.size()), want2(start.size()), pair(start.size());
            for (size_t i = 0; i < start.size(); i++) {
                want[i] = start[i] + 0.5 * (yg[i] + bias[i % rows]), want2[i] = 0.5 * yu[i];
                pair[i] = silu(0.7 * (yg[i] + bias[i % rows])) * yu[i];
            }
            snprintf(name, sizeof name, "matvec %s t%d rows %d columns %d", l.name, most, rows, columns);
            verdict(name, std::max(distance(host(to, start.size()), want), distance(host(to2, start.size()), want2)), 2e-5);
            if (l.block > 1) {
                CHECK(cudaMemset(to2, 0xff, start.size() * 4));
                p.add = 0;
                const int mixed = (rows + WARPS * (t_index < 2 ? 2 : 4) - 1) / (WARPS * (t_index < 2 ? 2 : 4));
                p.parts[1].first_block = mixed;
                launch(MIXED[t_index], dim3(2 * mixed), 128, 0, p);
                for (size_t i = 0; i < start.size(); i++) want2[i] = yu[i];
                verdict("  mixed", distance(host(to2, start.size()), want2), 2e-5);
            }
            p.parts[0].up = u.weight, p.count = 1, p.add = 0, p.gate_scale = 0.7f;
            CHECK(cudaMemset(to, 0xff, start.size() * 4));
            launch(k.gu[t_index], dim3((rows + rows_per_block(t_index, true, k.type) - 1) / rows_per_block(t_index, true, k.type)), 128, 0, p);
            verdict("  gate_up", distance(host(to, start.size()), pair), 1e-4);
            for (void* f : {(void*)g.weight, (void*)u.weight, (void*)d_bias, (void*)to, (void*)to2, (void*)in.v.codes, (void*)in.v.metas, (void*)in.v.values}) CHECK(cudaFree(f));
        }
        // One token's bits are the same alone and among eight.
        Matrix m = matrix(k.type, 64, 2304);
        Input in = input(k.type, 8, 2304);
        std::vector<float> one(64);
        for (int t_index = 0; t_index < 4; t_index++) {
            Matvec p = {};
            float* to = device<float>(512);
            p.parts[0] = {m.weight, nullptr, nullptr, nullptr, to, 64, 64, k.type, 0};
            p.count = 1, p.x = in.v, p.x.tokens = 1 << t_index;
            launch(k.mv[t_index], dim3(16), 128, 0, p);
            auto y = host(to, 64);
            if (t_index == 0) one = y;
            verdict("  the same bits alone and in a batch", memcmp(one.data(), y.data(), 256) ? 1 : 0, 0);
        }
        // A row that every block turns itself gives the same bits as one that a kernel has turned before.
        for (int width : {l.block > 32 ? 256 : 32, l.block > 32 ? 768 : 96, 1024}) {
            Matrix g = matrix(k.type, 45, width), u = matrix(k.type, 45, width);
            std::vector<float> from(width), weight(width);
            for (auto& f : from) f = normal() * 3;
            for (auto& f : weight) f = 1 + 0.1f * normal();
            const RowNorm norm = {device(weight), nullptr, 0, 1e-6f};
            NormRows rows{device(from), norm, {device<float>(width), l.block > 1 ? device<signed char>(width) : nullptr, device<BlockMeta>(width / 32 + 1), nullptr, 0}, width, width};
            launch(norm_rows, dim3(1), std::min(1024, (width / 4 + 31) / 32 * 32), 0, rows);
            for (bool pair : {false, true}) {
                float *to = device<float>(45), *own = device<float>(45);
                Matvec p = {};
                p.parts[0] = {g.weight, pair ? u.weight : nullptr, nullptr, nullptr, to, 45, 45, k.type, 0};
                p.count = 1, p.gate_scale = 1, p.x = {rows.to.codes, rows.to.metas, rows.to.values, width, 1}, p.from = rows.from, p.norm = norm;
                const dim3 grid((45 + rows_per_block(0, pair, k.type) - 1) / rows_per_block(0, pair, k.type));
                launch(pair ? k.gu[0] : k.mv[0], grid, 128, 0, p);
                p.parts[0].to = own, p.x.codes = nullptr, p.x.metas = nullptr, p.x.values = nullptr;
                launch(pair ? k.gu_turned : k.turned, grid, 128, 4 * width, p);
                auto y = host(to, 45), z = host(own, 45);
                snprintf(name, sizeof name, "%s %s turned by every block, columns %d", l.name, pair ? "pair" : "matvec", width);
                verdict(name, memcmp(y.data(), z.data(), 45 * 4) || !std::isfinite(z[44]) ? 1 : 0, 0);
            }
        }
        // Experts.
        const int experts = 5, count = 3, tokens = 2, rows = 37, columns = l.block > 32 ? 768 : 96, slots = tokens * count;
        std::vector<Matrix> gates, ups, downs;
        const size_t stride = ((size_t)rows * columns / l.block * l.bytes + 255) / 256 * 256;
        u8 *gate = device<u8>(experts * stride), *up = device<u8>(experts * stride);
        for (int e = 0; e < experts; e++) {
            gates.push_back(matrix(k.type, rows, columns)), ups.push_back(matrix(k.type, rows, columns));
            CHECK(cudaMemcpy(gate + e * stride, gates[e].weight, gates[e].bytes, cudaMemcpyDeviceToDevice));
            CHECK(cudaMemcpy(up + e * stride, ups[e].weight, ups[e].bytes, cudaMemcpyDeviceToDevice));
        }
        std::vector<int> chosen = {4, 0, 2, 1, 3, -1};
        std::vector<float> weights = {0.5f, 0.2f, 0.3f, 0.1f, 0.6f, 0.3f};
        in = input(k.type, tokens, columns);
        ExpertsMatvec p = {};
        p.weight = gate, p.up = up, p.stride = p.up_stride = stride, p.chosen = device(chosen), p.weights = device(weights), p.to = device<float>(slots * rows);
        p.rows = rows, p.count = count, p.experts = experts, p.x = in.v, p.gate_scale = 1;
        CHECK(cudaMemset(p.to, 0, slots * rows * 4));
        launch(k.eg, dim3((rows + 3) / 4, slots), 128, 0, p);
        std::vector<double> want(slots * rows);
        for (int s = 0; s < slots; s++) {
            if (chosen[s] < 0) { for (int r = 0; r < rows; r++) want[s * rows + r] = 0; continue; }
            std::vector<double> x(in.x.begin() + s / count * columns, in.x.begin() + (s / count + 1) * columns);
            auto g = product(gates[chosen[s]], x, 1), u = product(ups[chosen[s]], x, 1);
            for (int r = 0; r < rows; r++) want[s * rows + r] = silu(g[r]) * u[r];
        }
        snprintf(name, sizeof name, "experts_gate_up %s", l.name);
        verdict(name, distance(host(p.to, slots * rows), want), 2e-5);
        in = input(k.type, slots, columns);
        p.x = in.v, p.to = device<float>(tokens * rows);
        launch(k.ed, dim3((rows + 3) / 4, tokens), 128, 0, p);
        want.assign(tokens * rows, 0);
        for (int s = 0; s < slots; s++) {
            if (chosen[s] < 0) continue;
            std::vector<double> x(in.x.begin() + s * columns, in.x.begin() + (s + 1) * columns);
            auto y = product(gates[chosen[s]], x, 1);
            for (int r = 0; r < rows; r++) want[s / count * rows + r] += weights[s] * y[r];
        }
        snprintf(name, sizeof name, "experts_down %s", l.name);
        verdict(name, distance(host(p.to, tokens * rows), want), 2e-5);
    }
    printf("matvec: %d wrong\n", failures);
}

// A streaming read of the same bytes.
__global__ void __launch_bounds__(256) stream_read(const uint4* from, size_t count, u32* to) {
    u32 sum = 0;
    size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, step = (size_t)gridDim.x * 256;
    for (; i + 3 * step < count; i += 4 * step) {
        uint4 a = load_weight16(from + i), b = load_weight16(from + i + step), c = load_weight16(from + i + 2 * step), d = load_weight16(from + i + 3 * step);
        sum += a.x ^ b.y ^ c.z ^ d.w;
    }
    if (sum == 0x12345678) *to = sum;
}

static u8* pool; static const size_t POOL = 3ull << 30;
static float* sink; static signed char* codes; static BlockMeta* metas; static float* values;

static double bench(MatvecKernel k, int type, int rows, int columns, int tokens, int per_block, bool pair, bool dependent) {
    const Layout& l = layout(type);
    size_t bytes = (size_t)rows * columns / l.block * l.bytes, each = (bytes * (pair ? 2 : 1) + 255) / 256 * 256;
    int count = (int)std::min<size_t>(std::max<size_t>(POOL / each, 1), 200);
    double us = time_us(count, [&](int i) {
        Matvec p = {};
        u8* w = pool + i * each;
        p.parts[0] = {w, pair ? w + bytes / 16 * 16 : nullptr, nullptr, nullptr, sink, rows, rows, type, 0};
        p.count = 1, p.x = {codes, metas, values, columns, tokens}, p.gate_scale = 1;
        launch(k, dim3((rows + per_block - 1) / per_block), 128, 0, p, dependent);
    });
    return us;
}
static void line(const char* what, int type, int rows, int columns, int tokens, bool pair, double us) {
    const Layout& l = layout(type);
    double bytes = (double)rows * columns / l.block * l.bytes * (pair ? 2 : 1);
    printf("%-26s %-5s %6d x %5d t%d%s %8.2f us %6.0f GB/s\n", what, l.name, rows, columns, tokens, pair ? " pair" : "     ", us, bytes / us * 1e-3);
}

template <class Q, int R, int U, int B> static void sweep_one(int type) {
    const int shapes[][2] = {{4096, 4096}, {24576, 4096}, {4096, 12288}, {2048, 1024}, {1024, 3072}};
    printf("R%d U%d B%-2d %-5s", R, U, B, layout(type).name);
    for (auto& s : shapes) {
        double us = bench(variant<Q, 1, R, U, B, false>, type, s[0], s[1], 1, WARPS * R, false, true);
        printf("  %6.2f us %5.0f", us, (double)s[0] * s[1] / layout(type).block * layout(type).bytes / us * 1e-3);
    }
    printf("\n");
}
template <class Q> static void sweep(int type) {
    sweep_one<Q, 1, 4, 6>(type); sweep_one<Q, 2, 1, 6>(type);
    sweep_one<Q, 1, 1, 12>(type); sweep_one<Q, 1, 2, 8>(type); sweep_one<Q, 1, 4, 8>(type); sweep_one<Q, 2, 1, 8>(type); sweep_one<Q, 2, 2, 8>(type); sweep_one<Q, 2, 4, 6>(type);
}

int main(int argc, char** argv) {
    CHECK(cudaStreamCreate(&stream));
    check();
    if (failures) return 1;
    pool = device<u8>(POOL);
    {
        std::vector<unsigned> noise(1 << 22);
        for (auto& n : noise) n = rnd() & 0x3bff3bff;  // no exponent of infinity as f16 or bf16
        for (size_t at = 0; at < POOL; at += noise.size() * 4) CHECK(cudaMemcpy(pool + at, noise.data(), noise.size() * 4, cudaMemcpyHostToDevice));
    }
    sink = device<float>(1 << 24);
    std::vector<signed char> c(1 << 20); for (auto& v : c) v = rnd(); codes = device(c);
    std::vector<BlockMeta> m(1 << 15); for (auto& v : m) v = {0.01f, {(short)(rnd() & 255), (short)(rnd() & 255)}}; metas = device(m);
    std::vector<float> f(1 << 20); for (auto& v : f) v = normal(); values = device(f);
    for (int blocks : {2, 4, 8}) {
        double us = time_us(1, [&](int) { stream_read<<<132 * blocks, 256, 0, stream>>>((uint4*)pool, POOL / 16, (u32*)sink); });
        printf("streaming read, %d blocks of 256 an SM: %.0f GB/s\n", blocks, POOL / us * 1e-3);
    }
    if (argc > 1) {
        printf("one token; columns: 4096x4096, 24576x4096, 4096x12288, 2048x1024, 1024x3072\n");
        sweep<Q4_K>(12); sweep<Q4_K_64>(12); sweep<Q6_K>(14); sweep<BF16>(30); sweep<Q8_0>(8);
    }
    if (argc > 1) {
        std::vector<int> ids(64 * 8); for (int i = 0; i < 64; i++) for (int k = 0; k < 8; k++) ids[i * 8 + k] = (i * 37 + k * 16 + rnd() % 16) % 128;
        std::vector<float> w(64 * 8, 0.125f);
        int* d_ids = device(ids); float* d_w = device(w);
        for (int type : {8, 12, 14}) for (bool dependent : {false, true}) {
            const Layout& l = layout(type);
            const size_t each = 768ull * 2048 / l.block * l.bytes;
            ExpertsMatvec p = {};
            p.weight = pool, p.up = pool + 128 * each, p.stride = p.up_stride = each, p.weights = d_w, p.to = sink, p.count = 8, p.experts = 128, p.gate_scale = 1;
            auto gate = [&](const char* name, ExpertsKernel k, int outputs) {
                double us = time_us(40, [&](int i) { p.chosen = d_ids + i * 8; p.rows = 768, p.x = {codes, metas, values, 2048, 1}; launch(k, dim3((768 + 4 * outputs - 1) / (4 * outputs), 8), 128, 0, p, dependent); });
                printf("experts gate_up %-5s %-10s%s %8.2f us %6.0f GB/s\n", l.name, name, dependent ? " dependent" : "", us, 16.0 * each / us * 1e-3);
            };
            auto down = [&](const char* name, ExpertsKernel k) {
                double us = time_us(40, [&](int i) { p.chosen = d_ids + i * 8; p.rows = 2048, p.x = {codes, metas, values, 768, 8}; launch(k, dim3(512, 1), 128, 0, p, dependent); });
                printf("experts down    %-5s %-10s%s %8.2f us %6.0f GB/s\n", l.name, name, dependent ? " dependent" : "", us, 8.0 * each / us * 1e-3);
            };
#define TRY(Q) gate("R2 U1 B8", gate_variant<Q, 2, 1, 8>, 1); gate("R2 U2 B8", gate_variant<Q, 2, 2, 8>, 1); gate("R2 U2 B12", gate_variant<Q, 2, 2, 12>, 1); gate("R4 U1 B6", gate_variant<Q, 4, 1, 6>, 2); gate("R4 U1 B8", gate_variant<Q, 4, 1, 8>, 2); gate("R4 U2 B4", gate_variant<Q, 4, 2, 4>, 2); down("A4 B6", down_variant<Q, 4, 6>); down("A8 B4", down_variant<Q, 8, 4>); down("A2 B8", down_variant<Q, 2, 8>);
            if (type == 8) { TRY(Q8_0) } else if (type == 12) { TRY(Q4_K) } else { TRY(Q6_K) }
        }
    }
    const int shapes[][2] = {{4096, 4096}, {4096, 12288}, {151936, 4096}};
    for (auto& k : KERNELS) if (k.type != 0) {
        for (auto& s : shapes) for (int t = 0; t < 4; t++) {
            if (s[0] > 100000 && (t & 1)) continue;
            line("matvec", k.type, s[0], s[1], 1 << t, false, bench(k.mv[t], k.type, s[0], s[1], 1 << t, rows_per_block(t, false, k.type), false, false));
        }
        line("gate_up", k.type, 12288, 4096, 1, true, bench(k.gu[0], k.type, 12288, 4096, 1, rows_per_block(0, true, k.type), true, false));
        line("gate_up, dependent", k.type, 12288, 4096, 1, true, bench(k.gu[0], k.type, 12288, 4096, 1, rows_per_block(0, true, k.type), true, true));
        line("matvec, dependent", k.type, 4096, 4096, 1, false, bench(k.mv[0], k.type, 4096, 4096, 1, rows_per_block(0, false, k.type), false, true));
        line("gate_up", k.type, 3072, 1024, 1, true, bench(k.gu[0], k.type, 3072, 1024, 1, rows_per_block(0, true, k.type), true, false));
        line("gate_up, dependent", k.type, 3072, 1024, 1, true, bench(k.gu[0], k.type, 3072, 1024, 1, rows_per_block(0, true, k.type), true, true));
        if (k.type == 1) continue;
        // 30b-a3b: 8 of 128 experts.
        std::vector<int> ids(64 * 8); for (auto& i : ids) i = rnd() % 128;
        std::vector<float> w(64 * 8, 0.125f);
        int* d_ids = device(ids); float* d_w = device(w);
        const Layout& l = layout(k.type);
        size_t each = 768ull * 2048 / l.block * l.bytes;
        for (int tokens : {1, 4}) {
            ExpertsMatvec p = {};
            p.weight = pool, p.up = pool + 128 * each, p.stride = p.up_stride = each, p.weights = d_w, p.to = sink, p.count = 8, p.experts = 128, p.gate_scale = 1;
            double us = time_us(40, [&](int i) { p.chosen = d_ids + i * 8; p.rows = 768, p.x = {codes, metas, values, 2048, tokens}; launch(k.eg, dim3(192, 8 * tokens), 128, 0, p); });
            printf("experts gate_up %-5s tokens %d %8.2f us %6.0f GB/s\n", l.name, tokens, us, 16.0 * tokens * each / us * 1e-3);
            us = time_us(40, [&](int i) { p.chosen = d_ids + i * 8; p.rows = 2048, p.x = {codes, metas, values, 768, 8 * tokens}; launch(k.ed, dim3(512, tokens), 128, 0, p); });
            printf("experts down    %-5s tokens %d %8.2f us %6.0f GB/s\n", l.name, tokens, us, 8.0 * tokens * each / us * 1e-3);
        }
    }
    for (int tokens : {1, 8}) for (int columns : {1024, 4096}) {
        NormRows p{values, {values, nullptr, 0, 1e-6f}, {nullptr, codes, metas, nullptr, 0}, columns, columns};
        printf("norm_rows to codes, %d tokens of %d: %.2f us\n", tokens, columns, time_us(100, [&](int) { launch(norm_rows, dim3(tokens), std::min(1024, columns / 4), 0, p); }));
    }
    return 0;
}
