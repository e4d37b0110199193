// Rows of a buffer, in runs of 32 columns: what a run of a matrix's row is scaled with is unpacked once for it.
//
// All threads of a workgroup multiply with the same rows, so some columns of them at a time are brought to their memory.

// Values of a row of the buffer that meet 32 neighbouring values of a matrix's row, in order, and their sum.
struct Run {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
    e: vec4<f32>,
    f: vec4<f32>,
    g: vec4<f32>,
    h: vec4<f32>,
    sum: f32,
}

// Those values of the matrix: a factor for the first sixteen codes and one for the others, less something.
struct Codes {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
    e: vec4<f32>,
    f: vec4<f32>,
    g: vec4<f32>,
    h: vec4<f32>,
    scale: vec2<f32>,
    less: f32,
}

// The k-th fours of neighbouring runs are neighbours, or change places by k, so that threads that take one run each do not wait for one
// another, nor do threads that bring the fours of one.
var<workgroup> staged: array<vec4<f32>, 8u * TILE_RUNS * RUN_TOKENS>;
var<workgroup> staged_sums: array<f32, TILE_RUNS * RUN_TOKENS>;

// Brings so many runs of the values from `at` on, of `RUN_TOKENS` rows that are `stride` values apart, the last of them as often as there
// are fewer. All threads of the workgroup call it.
fn stage(at: u32, stride: u32, tokens: u32, runs: u32, thread: u32) {
    workgroupBarrier();
    for (var t = 0u; t < RUN_TOKENS; t++) {
        let row = at + min(t, tokens - 1u) * stride;
        for (var i = thread; i < 8u * runs; i += PRODUCT_THREADS) {
            let start = row + 4u * i;
            let k = i % 8u;
            staged[(8u * t + k) * TILE_RUNS + ((i / 8u) ^ k)] = vec4<f32>(arena[start], arena[start + 1u], arena[start + 2u], arena[start + 3u]);
        }
    }
    workgroupBarrier();
    if (HAS_LESS) {
        for (var i = thread; i < RUN_TOKENS * TILE_RUNS; i += PRODUCT_THREADS) {
            let x = staged_run(i / TILE_RUNS, i % TILE_RUNS);
            let all = ((x.a + x.b) + (x.c + x.d)) + ((x.e + x.f) + (x.g + x.h));
            staged_sums[i] = (all.x + all.y) + (all.z + all.w);
        }
        workgroupBarrier();
    }
}

fn staged_run(token: u32, run: u32) -> Run {
    let at = 8u * token * TILE_RUNS;
    return Run(
        staged[at + run],
        staged[at + TILE_RUNS + (run ^ 1u)],
        staged[at + 2u * TILE_RUNS + (run ^ 2u)],
        staged[at + 3u * TILE_RUNS + (run ^ 3u)],
        staged[at + 4u * TILE_RUNS + (run ^ 4u)],
        staged[at + 5u * TILE_RUNS + (run ^ 5u)],
        staged[at + 6u * TILE_RUNS + (run ^ 6u)],
        staged[at + 7u * TILE_RUNS + (run ^ 7u)],
        staged_sums[token * TILE_RUNS + run],
    );
}

fn meet(w: Codes, x: Run) -> f32 {
    let first = (dot(w.a, x.a) + dot(w.b, x.b)) + (dot(w.c, x.c) + dot(w.d, x.d));
    let second = (dot(w.e, x.e) + dot(w.f, x.f)) + (dot(w.g, x.g) + dot(w.h, x.h));
    let all = w.scale.x * first + w.scale.y * second;
    if (HAS_LESS) {
        return all - w.less * x.sum;
    }
    return all;
}

// Codes that are bytes: without a sign, and with one.
fn unsigned_codes(low: vec4<u32>, high: vec4<u32>, scale: f32, less: f32) -> Codes {
    return Codes(
        vec4<f32>(unpack4xU8(low.x)),
        vec4<f32>(unpack4xU8(low.y)),
        vec4<f32>(unpack4xU8(low.z)),
        vec4<f32>(unpack4xU8(low.w)),
        vec4<f32>(unpack4xU8(high.x)),
        vec4<f32>(unpack4xU8(high.y)),
        vec4<f32>(unpack4xU8(high.z)),
        vec4<f32>(unpack4xU8(high.w)),
        vec2<f32>(scale),
        less,
    );
}

fn signed_codes(low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>) -> Codes {
    return Codes(
        vec4<f32>(unpack4xI8(low.x)),
        vec4<f32>(unpack4xI8(low.y)),
        vec4<f32>(unpack4xI8(low.z)),
        vec4<f32>(unpack4xI8(low.w)),
        vec4<f32>(unpack4xI8(high.x)),
        vec4<f32>(unpack4xI8(high.y)),
        vec4<f32>(unpack4xI8(high.z)),
        vec4<f32>(unpack4xI8(high.w)),
        scale,
        0.0,
    );
}
