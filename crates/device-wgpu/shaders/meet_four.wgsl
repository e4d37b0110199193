// A run of a matrix's row meets the same of four rows of the buffer.
fn meet_four(w: Codes, run: u32) -> vec4<f32> {
    return vec4<f32>(meet(w, staged_run(0u, run)), meet(w, staged_run(1u, run)), meet(w, staged_run(2u, run)), meet(w, staged_run(3u, run)));
}
