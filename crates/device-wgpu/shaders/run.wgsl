// One row of a buffer, in runs of 32 columns: what a run of a matrix's row is scaled with is unpacked once for it.
//
// All threads of a workgroup multiply with the same row, so it is brought to their memory, some columns at a time.

// Values of the row that meet 32 neighbouring values of a matrix's row, in order, and their sum.
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

// The same fours of neighbouring runs are neighbours, so that threads that take one run each do not wait for one another.
var<workgroup> staged: array<vec4<f32>, 8u * (TILE_RUNS + 1u)>;

// Brings so many runs of the values from `at` on. All threads of the workgroup call it.
fn stage(at: u32, runs: u32, thread: u32) {
    workgroupBarrier();
    for (var i = thread; i < 8u * runs; i += PRODUCT_THREADS) {
        let start = at + 4u * i;
        staged[(i % 8u) * (TILE_RUNS + 1u) + i / 8u] = vec4<f32>(arena[start], arena[start + 1u], arena[start + 2u], arena[start + 3u]);
    }
    workgroupBarrier();
}

fn staged_run(run: u32) -> Run {
    let a = staged[run];
    let b = staged[TILE_RUNS + 1u + run];
    let c = staged[2u * (TILE_RUNS + 1u) + run];
    let d = staged[3u * (TILE_RUNS + 1u) + run];
    let e = staged[4u * (TILE_RUNS + 1u) + run];
    let f = staged[5u * (TILE_RUNS + 1u) + run];
    let g = staged[6u * (TILE_RUNS + 1u) + run];
    let h = staged[7u * (TILE_RUNS + 1u) + run];
    let all = ((a + b) + (c + d)) + ((e + f) + (g + h));
    return Run(a, b, c, d, e, f, g, h, (all.x + all.y) + (all.z + all.w));
}

// Bytes of two words with eight values: codes without a sign, and with one.
fn meets(x: vec4<f32>, y: vec4<f32>, low: u32, high: u32) -> f32 {
    return dot(vec4<f32>(unpack4xU8(low)), x) + dot(vec4<f32>(unpack4xU8(high)), y);
}

fn meets_signed(x: vec4<f32>, y: vec4<f32>, low: u32, high: u32) -> f32 {
    return dot(vec4<f32>(unpack4xI8(low)), x) + dot(vec4<f32>(unpack4xI8(high)), y);
}
