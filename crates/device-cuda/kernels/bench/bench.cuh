// What the bench programs share: errors, random data, stored blocks and their values in double precision, timing by graph replay.
#pragma once
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call) do { cudaError_t error_ = (call); if (error_ != cudaSuccess) { printf("%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); exit(1); } } while (0)

static unsigned long long seed_state = 0x9e3779b97f4a7c15ull;
static unsigned rnd() {
    seed_state ^= seed_state << 13; seed_state ^= seed_state >> 7; seed_state ^= seed_state << 17;
    return (unsigned)(seed_state >> 32);
}
static float uniform() { return (float)rnd() / 4294967296.0f * 2.0f - 1.0f; }
static float normal() { float s = 0; for (int i = 0; i < 6; i++) s += uniform(); return s * 0.7071f; }

static unsigned short to_half(float f) {
    unsigned x; memcpy(&x, &f, 4);
    unsigned sign = x >> 16 & 0x8000; int e = (int)(x >> 23 & 255) - 112; unsigned m = x & 0x7fffff;
    if (e <= 0) { if (e < -10) return sign; m |= 0x800000; int s = 14 - e; unsigned r = m >> s; if (m >> (s - 1) & 1) r++; return sign | r; }
    if (e >= 31) return sign | 0x7c00;
    unsigned r = sign | e << 10 | m >> 13; if (m >> 12 & 1) r++; return r;
}
static double from_half(unsigned short h) {
    int e = h >> 10 & 31, m = h & 1023; double v = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}
static unsigned short to_bf16(float f) { unsigned x; memcpy(&x, &f, 4); return (x + 0x7fff + (x >> 16 & 1)) >> 16; }
static float from_bf16(unsigned short h) { unsigned x = (unsigned)h << 16; float f; memcpy(&f, &x, 4); return f; }

struct Layout { const char* name; int type, block, bytes; };
static const Layout LAYOUTS[] = {{"q8_0", 8, 32, 34}, {"q4_0", 2, 32, 18}, {"q4_k", 12, 256, 144}, {"q5_k", 13, 256, 176}, {"q6_k", 14, 256, 210}, {"bf16", 30, 1, 2}, {"f16", 1, 1, 2}, {"f32", 0, 1, 4}};
static const Layout& layout(int type) { for (auto& l : LAYOUTS) if (l.type == type) return l; exit(2); }

// Random stored blocks of a type, with scales of about 0.01.
static std::vector<unsigned char> random_blocks(int type, size_t blocks) {
    const Layout& l = layout(type);
    std::vector<unsigned char> out(blocks * l.bytes);
    if (type == 30) { for (size_t i = 0; i < blocks; i++) { unsigned short h = to_bf16(normal() * 0.05f); memcpy(&out[i * 2], &h, 2); } return out; }
    if (type == 1) { for (size_t i = 0; i < blocks; i++) { unsigned short h = to_half(normal() * 0.05f); memcpy(&out[i * 2], &h, 2); } return out; }
    if (type == 0) { for (size_t i = 0; i < blocks; i++) { float f = normal() * 0.05f; memcpy(&out[i * 4], &f, 4); } return out; }
    for (size_t i = 0; i + 4 <= out.size(); i += 4) { unsigned r = rnd(); memcpy(&out[i], &r, 4); }
    auto scale = [&](size_t b, int at, float s) { unsigned short h = to_half(s * (1.0f + 0.5f * uniform())); memcpy(&out[b * l.bytes + at], &h, 2); };
    for (size_t b = 0; b < blocks; b++) {
        if (type == 8 || type == 2) scale(b, 0, type == 8 ? 5e-4f : 7e-3f);
        if (type == 12 || type == 13) scale(b, 0, 2e-4f), scale(b, 2, 1e-3f);
        if (type == 14) scale(b, 208, 3e-5f);
    }
    return out;
}

// The values of one stored block.
static void block_values(int type, const unsigned char* b, double* v) {
    auto half = [&](int at) { unsigned short h; memcpy(&h, b + at, 2); return from_half(h); };
    if (type == 0) { float f; memcpy(&f, b, 4); v[0] = f; }
    if (type == 1) v[0] = half(0);
    if (type == 30) { unsigned short h; memcpy(&h, b, 2); v[0] = from_bf16(h); }
    if (type == 8) for (int i = 0; i < 32; i++) v[i] = half(0) * (signed char)b[2 + i];
    if (type == 2) for (int i = 0; i < 16; i++) v[i] = half(0) * ((b[2 + i] & 15) - 8), v[i + 16] = half(0) * ((b[2 + i] >> 4) - 8);
    if (type == 12 || type == 13) {
        const unsigned char *p = b + 4, *codes = b + (type == 12 ? 16 : 48), *fifth = b + 16;
        for (int s = 0; s < 8; s++) {
            int sc = s < 4 ? p[s] & 63 : (p[s + 4] & 15) | p[s - 4] >> 6 << 4, m = s < 4 ? p[s + 4] & 63 : p[s + 4] >> 4 | p[s] >> 6 << 4;
            for (int i = 0; i < 32; i++) {
                int q = s % 2 ? codes[32 * (s / 2) + i] >> 4 : codes[32 * (s / 2) + i] & 15;
                if (type == 13) q |= (fifth[i] >> s & 1) << 4;
                v[32 * s + i] = half(0) * sc * q - half(2) * m;
            }
        }
    }
    if (type == 14) for (int n = 0; n < 256; n++) {
        int h = n / 128, r = n / 32 % 4, i = n % 32;
        int low = b[64 * h + (r % 2) * 32 + i], high = b[128 + 32 * h + i] >> (2 * r) & 3;
        v[n] = half(208) * (signed char)b[192 + n / 16] * (((r < 2 ? low & 15 : low >> 4) | high << 4) - 32);
    }
}

template <class T> static T* device(size_t count) { void* p; CHECK(cudaMalloc(&p, std::max<size_t>(count * sizeof(T), 256))); CHECK(cudaMemset(p, 0xff, std::max<size_t>(count * sizeof(T), 256))); return (T*)p; }
template <class T> static T* device(const std::vector<T>& v) { T* p = device<T>(v.size()); CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); return p; }
template <class T> static std::vector<T> host(const T* p, size_t count) { std::vector<T> v(count); CHECK(cudaDeviceSynchronize()); CHECK(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost)); return v; }

// Launches with or without programmatic stream serialisation.
static cudaStream_t stream;
template <class P> static void launch(void (*kernel)(P), dim3 grid, int block, int shared, const P& p, bool dependent = false) {
    cudaLaunchConfig_t c = {}; c.gridDim = grid; c.blockDim = dim3(block); c.dynamicSmemBytes = shared; c.stream = stream;
    cudaLaunchAttribute a; a.id = cudaLaunchAttributeProgrammaticStreamSerialization; a.val.programmaticStreamSerializationAllowed = 1;
    c.attrs = &a; c.numAttrs = dependent ? 1 : 0;
    CHECK(cudaLaunchKernelEx(&c, kernel, p));
}

// Microseconds of one launch, in a graph of `count`: the median of `repeats` replays.
static double time_us(int count, const std::function<void(int)>& body, int repeats = 7) {
    CHECK(cudaDeviceSynchronize());
    cudaGraph_t graph; cudaGraphExec_t exec; cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < count; i++) body(i);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<float> times;
    for (int i = 0; i < repeats + 2; i++) {
        CHECK(cudaEventRecord(a, stream)); CHECK(cudaGraphLaunch(exec, stream)); CHECK(cudaEventRecord(b, stream)); CHECK(cudaEventSynchronize(b));
        float ms; CHECK(cudaEventElapsedTime(&ms, a, b));
        if (i >= 2) times.push_back(ms);
    }
    CHECK(cudaGetLastError());
    std::sort(times.begin(), times.end());
    cudaGraphExecDestroy(exec); cudaGraphDestroy(graph); cudaEventDestroy(a); cudaEventDestroy(b);
    return times[times.size() / 2] * 1e3 / count;
}

static int failures = 0;
static void verdict(const char* what, double error, double limit) {
    bool ok = error <= limit;
    if (!ok) failures++;
    if (!ok || getenv("VERBOSE")) printf("%-6s %-60s error %.2e (limit %.0e)\n", ok ? "ok" : "WRONG", what, error, limit);
}
// ||a - b|| / ||b||; anything that is no number is infinite.
static double distance(const std::vector<float>& a, const std::vector<double>& b) {
    double d = 0, n = 0;
    for (size_t i = 0; i < b.size(); i++) { if (!std::isfinite(a[i])) return INFINITY; d += (a[i] - b[i]) * (a[i] - b[i]); n += b[i] * b[i]; }
    return sqrt(d / std::max(n, 1e-300));
}
