// Checks attend.cu against double precision on awkward heads, windows, caps and pages, then times it.
// nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a bench/attend_bench.cu -o attend_bench
#include "bench.cuh"
#include "../attend.cu"

typedef void (*AttendKernel)(Attend);
struct Variant { int dim; AttendKernel prefill, decode; };
#define V(D) {D, attend_prefill_##D, attend_decode_##D}
static const Variant VARIANTS[] = {V(64), V(80), V(96), V(128), V(192), V(256)};
static void go(AttendKernel k, dim3 grid, int dim, const Attend& p, bool dependent = false) {
    static std::vector<AttendKernel> prepared;
    int shared = 512 * dim + 4096;
    if (std::find(prepared.begin(), prepared.end(), k) == prepared.end()) { CHECK(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, shared)); prepared.push_back(k); }
    launch(k, grid, 128, shared, p, dependent);
}

struct Case { int heads, kv_heads, page_tokens, window; bool both, sinks; float cap; bool bytes; std::vector<std::pair<int, int>> sequences; /* cached, new */ };

static void check_case(const Variant& v, const Case& c, int splits, int split_tokens) {
    const int dim = v.dim, padded = (dim + 31) / 32 * 32;
    int tokens = 0, page_count = 1;
    for (auto& s : c.sequences) tokens += s.second, page_count += (s.first + s.second + c.page_tokens - 1) / c.page_tokens;
    const size_t elements = (size_t)page_count * c.kv_heads * c.page_tokens * padded;
    // Poison everywhere but where tokens are.
    std::vector<u8> cache[2]; std::vector<u16> scales[2]; std::vector<float> values[2];
    for (int h = 0; h < 2; h++) cache[h].assign(elements * 2, 0xff), scales[h].assign(elements / 32, 0xffff), values[h].assign(elements, NAN);
    std::vector<int> order(page_count), pages, positions, owners;
    for (int i = 0; i < page_count; i++) order[i] = i;
    for (int i = page_count - 1; i > 0; i--) std::swap(order[i], order[rnd() % (i + 1)]);
    std::vector<AttendTile> prefill, decode;
    auto place = [&](int table, int head, int token) { return (((size_t)pages[table + token / c.page_tokens] * c.kv_heads + head) * c.page_tokens + token % c.page_tokens) * padded; };
    int token0 = 0, used = 0;
    std::vector<int> tables, ends;
    for (auto& s : c.sequences) {
        const int table = pages.size(), length = s.first + s.second;
        for (int i = 0; i < (length + c.page_tokens - 1) / c.page_tokens; i++) pages.push_back(order[used++]);
        for (int h = 0; h < 2; h++) for (int head = 0; head < c.kv_heads; head++) for (int t = 0; t < length; t++) for (int b = 0; b < padded / 32; b++) {
            size_t at = place(table, head, t) + b * 32;
            float scale = 0.01f * (1.5f + uniform());
            scales[h][at / 32] = to_half(scale);
            for (int i = 0; i < 32; i++) {
                float x = b * 32 + i < dim ? normal() : 0;
                if (c.bytes) { int q = std::max(-127, std::min(127, (int)lrintf(x / scale))); cache[h][at + i] = (u8)q, values[h][at + i] = q * from_half(scales[h][at / 32]); }
                else { u16 bits = to_half(x); memcpy(&cache[h][(at + i) * 2], &bits, 2); values[h][at + i] = from_half(bits); }
            }
        }
        for (int t = 0; t < s.second; t += 64) prefill.push_back({token0 + t, std::min(64, s.second - t), s.first + t, length, table});
        for (int t = 0; t < s.second; t++) decode.push_back({token0 + t, 1, s.first + t, length, table}), tables.push_back(table), positions.push_back(s.first + t), ends.push_back(length);
        token0 += s.second;
    }
    prefill.push_back({0, 0, 0, 0, 0}), decode.push_back({0, 0, 0, 0, 0});
    std::vector<float> q((size_t)tokens * c.heads * dim), sinks(c.heads);
    for (auto& x : q) { x = from_half(to_half(normal() * 2)); }
    for (auto& s : sinks) s = 2 * normal();
    const float scale = 1 / sqrtf(dim);
    std::vector<double> want(q.size());
    for (int t = 0; t < tokens; t++) for (int head = 0; head < c.heads; head++) {
        const int kv = head / (c.heads / c.kv_heads), pos = positions[t];
        int first = c.window ? std::max(0, pos + 1 - c.window) : 0, last = !c.both ? pos + 1 : c.window ? std::min(pos + c.window, ends[t]) : ends[t];
        std::vector<double> w;
        double most = -INFINITY, sum = 0;
        for (int s = first; s < last; s++) {
            const size_t at = place(tables[t], kv, s);
            double dot = 0;
            for (int i = 0; i < dim; i++) dot += (double)q[((size_t)t * c.heads + head) * dim + i] * values[0][at + i];
            dot *= scale;
            if (c.cap > 0) dot = c.cap * tanh(dot / c.cap);
            w.push_back(dot), most = std::max(most, dot);
        }
        for (auto& x : w) x = exp(x - most), sum += x;
        if (c.sinks) sum += exp(sinks[head] - most);
        for (int s = first; s < last; s++) { const size_t at = place(tables[t], kv, s); for (int i = 0; i < dim; i++) want[((size_t)t * c.heads + head) * dim + i] += w[s - first] / sum * values[1][at + i]; }
    }
    if (c.bytes) for (int h = 0; h < 2; h++) cache[h].resize(elements);
    Attend p = {};
    p.q = device(q), p.keys = device(cache[0]), p.values = device(cache[1]);
    if (c.bytes) p.key_scales = device(scales[0]), p.value_scales = device(scales[1]);
    p.page_stride = (long)c.kv_heads * c.page_tokens * padded, p.head_stride = (long)c.page_tokens * padded, p.token_stride = padded;
    p.pages = device(pages), p.sinks = c.sinks ? device(sinks) : nullptr;
    p.page_tokens = c.page_tokens, p.heads = c.heads, p.kv_heads = c.kv_heads, p.window = c.window, p.both_ways = c.both, p.scale = scale, p.soft_cap = c.cap, p.splits = splits, p.split_tokens = split_tokens;
    const int parts = (c.heads / c.kv_heads + 15) / 16;
    p.partials = device<float>((size_t)decode.size() * c.heads * splits * (dim + 2));
    p.counters = device(std::vector<unsigned>(decode.size() * c.kv_heads * parts, 0));
    char name[160];
    for (int which = 0; which < 3; which++) {
        p.to = device<float>(q.size()), p.halves = device<u16>(q.size());
        p.codes = which && dim % 32 == 0 ? device<signed char>(q.size()) : nullptr, p.metas = device<BlockMeta>(q.size() / 32 + 1);
        p.tiles = device(which == 0 ? prefill : decode);
        if (which == 0) go(v.prefill, dim3(c.heads, prefill.size()), dim, p);
        else go(v.decode, dim3(which == 1 ? splits : 2, c.kv_heads * parts, decode.size()), dim, p);
        snprintf(name, sizeof name, "%s dim %d heads %d/%d page %d window %d%s%s cap %.1f %s", which ? "decode" : "prefill", dim, c.heads, c.kv_heads, c.page_tokens, c.window, c.both ? " both" : "", c.sinks ? " sinks" : "", c.cap, c.bytes ? "q8_0" : "f16");
        verdict(name, distance(host(p.to, q.size()), want), 1.5e-3);
        std::vector<float> h; for (u16 b : host(p.halves, q.size())) h.push_back(from_bf16(b));
        verdict("  as bf16", distance(h, want), 4e-3);
        if (p.codes) {
            std::vector<float> k(q.size());
            auto codes = host(p.codes, q.size()); auto metas = host(p.metas, q.size() / 32); auto plain = host(p.to, q.size());
            double worst = 0;
            for (size_t i = 0; i < q.size(); i++) worst = std::max(worst, fabs(metas[i / 32].scale * codes[i] - (double)plain[i]) / (metas[i / 32].scale + 1e-30));
            for (size_t b = 0; b < metas.size(); b++) for (int half = 0; half < 2; half++) { int sum = 0; for (int i = 0; i < 16; i++) sum += codes[b * 32 + half * 16 + i]; if (sum != metas[b].sums[half]) worst = 1e9; }
            verdict("  as codes", worst, 0.501);
        }
        CHECK(cudaFree(p.to)); CHECK(cudaFree(p.halves)); CHECK(cudaFree((void*)p.tiles));
    }
    for (void* f : {(void*)p.q, (void*)p.keys, (void*)p.values, (void*)p.key_scales, (void*)p.value_scales, (void*)p.pages, (void*)p.sinks, (void*)p.partials, (void*)p.counters}) CHECK(cudaFree(f));
}

int main() {
    CHECK(cudaStreamCreate(&stream));
    for (auto& v : VARIANTS) for (bool bytes : {false, true}) {
        check_case(v, {1, 1, 16, 0, false, false, 0, bytes, {{0, 1}}}, 4, 64);
        check_case(v, {8, 2, 16, 0, false, true, 0, bytes, {{0, 70}, {200, 1}, {63, 2}, {0, 3}}}, 4, 64);
        check_case(v, {6, 2, 48, 17, false, false, 1.5f, bytes, {{0, 130}, {300, 1}}}, 8, 64);
        check_case(v, {20, 1, 32, 0, false, true, 3, bytes, {{0, 5}, {100, 40}, {700, 1}}}, 6, 64);
        check_case(v, {3, 3, 16, 4, true, false, 0, bytes, {{0, 75}}}, 2, 64);
        check_case(v, {4, 4, 64, 0, true, true, 0, bytes, {{0, 100}, {20, 9}}}, 4, 128);
        check_case(v, {4, 2, 16, 1, false, false, 0, bytes, {{0, 66}}}, 4, 64);
        // Many parts, and parts of many tiles.
        check_case(v, {20, 1, 32, 0, false, true, 0, bytes, {{1400, 1}, {300, 2}}}, 22, 64);
        check_case(v, {8, 2, 16, 0, false, false, 0, bytes, {{1500, 1}, {255, 1}, {127, 2}, {63, 1}}}, 4, 64);
    }
    printf("attend: %d wrong\n", failures);
    if (failures) return 1;
    const size_t BYTES = 6ull << 30;
    u8* cache = device<u8>(BYTES);
    { std::vector<u16> noise(1 << 24); for (auto& n : noise) n = to_half(normal()); for (size_t at = 0; at < BYTES; at += noise.size() * 2) CHECK(cudaMemcpy(cache + at, noise.data(), noise.size() * 2, cudaMemcpyHostToDevice)); }
    std::vector<float> q(1 << 24); for (auto& x : q) x = normal();
    float *d_q = device(q), *to = device<float>(1 << 25), *partials = device<float>(1 << 28); unsigned* counters = device(std::vector<unsigned>(1 << 16, 0));
    u16* scales = device(std::vector<u16>(1 << 27, to_half(0.01f)));
    struct Shape { const char* name; int heads, kv_heads, dim; } shapes[] = {{"8b", 32, 8, 128}, {"0.6b", 16, 8, 128}, {"30b-a3b", 32, 4, 128}, {"mha64", 32, 32, 64}, {"gemma", 8, 4, 256}};
    for (auto& s : shapes) {
        const Variant* v = nullptr; for (auto& each : VARIANTS) if (each.dim == s.dim) v = &each;
        Attend p = {};
        p.q = d_q, p.to = to, p.partials = partials, p.counters = counters, p.heads = s.heads, p.kv_heads = s.kv_heads, p.scale = 0.088f, p.page_tokens = 64;
        p.head_stride = 64 * s.dim, p.page_stride = (long)s.kv_heads * 64 * s.dim, p.token_stride = s.dim;
        for (auto [sequences, context] : std::vector<std::pair<int, int>>{{1, 512}, {1, 4096}, {1, 16384}, {16, 4096}, {128, 512}, {128, 4096}}) for (int bytes : {0, 1}) for (int split_tokens : {64, 128, 512}) {
            if (split_tokens == 128 && sequences > 1) continue;
            const size_t each = (size_t)context * s.kv_heads * s.dim, half = BYTES / 2;
            const int pages_each = context / 64, copies = std::max<int>(1, std::min<size_t>(half / (2 * each * sequences), 32));
            if (2 * each * sequences * copies > half || (bytes && each * sequences * copies / 32 > (1u << 27))) continue;
            std::vector<int> pages; std::vector<AttendTile> tiles;
            for (int i = 0; i < pages_each * sequences * copies; i++) pages.push_back(i);
            for (size_t i = pages.size() - 1; i > 0; i--) std::swap(pages[i], pages[rnd() % (i + 1)]);
            for (int c = 0; c < copies; c++) for (int i = 0; i < sequences; i++) tiles.push_back({i, 1, context - 1, context, (c * sequences + i) * pages_each});
            int* d_pages = device(pages); AttendTile* d_tiles = device(tiles);
            p.pages = d_pages, p.keys = cache, p.values = cache + half, p.splits = 32, p.split_tokens = split_tokens;
            p.key_scales = bytes ? scales : nullptr, p.value_scales = p.key_scales;
            for (bool dependent : {false, true}) {
            if (dependent && sequences > 1) continue;
            double us = time_us(copies, [&](int i) { p.tiles = d_tiles + i * sequences; const int blocks = s.kv_heads * sequences; go(v->decode, dim3(std::max(1, std::min(32, 528 / blocks)), s.kv_heads * ((s.heads / s.kv_heads + 15) / 16), sequences), s.dim, p, dependent); });
            double moved = (bytes ? 2.125 : 4.0) * each * sequences;
            printf("decode %-8s %3d x %5d tokens %-4s parts of %3d %s %9.2f us %6.0f GB/s\n", s.name, sequences, context, bytes ? "q8_0" : "f16", split_tokens, dependent ? "dependent" : "         ", us, moved / us * 1e-3); }
            CHECK(cudaFree(d_pages)); CHECK(cudaFree(d_tiles));
        }
        p.key_scales = p.value_scales = nullptr;
        for (auto [tokens, cached] : std::vector<std::pair<int, int>>{{512, 0}, {4096, 0}, {512, 3584}}) for (int bytes : {0, 1}) {
            std::vector<int> pages; std::vector<AttendTile> tiles;
            for (int i = 0; i < (tokens + cached) / 64; i++) pages.push_back(i);
            for (int t = 0; t < tokens; t += 64) tiles.push_back({t, 64, cached + t, cached + tokens, 0});
            p.pages = device(pages), p.tiles = device(tiles);
            p.key_scales = bytes ? scales : nullptr, p.value_scales = p.key_scales;
            double us = time_us(4, [&](int) { go(v->prefill, dim3(s.heads, tiles.size()), s.dim, p); });
            double ops = 4.0 * s.heads * s.dim * tokens * (cached + tokens / 2.0);
            printf("prefill %-8s %4d tokens behind %4d %-4s %9.2f us %6.0f TFLOP/s\n", s.name, tokens, cached, bytes ? "q8_0" : "f16", us, ops / us * 1e-6);
        }
    }
    return 0;
}
