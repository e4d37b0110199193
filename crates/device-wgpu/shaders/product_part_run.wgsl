// What a lane adds to the products of four rows of the matrix with one row of the buffer.
fn sums$(part: Part, row: u32, lane: u32, first: u32, thread: u32) -> array<f32, SUMS> {
    var sums = vec4<f32>(0.0);
    // Rows behind the last are the last again.
    let at = part.at + min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(part.rows - 1u)) * part.row_bytes;
    let runs = args.columns / 32u;
    for (var tile = 0u; tile < runs; tile += TILE_RUNS) {
        let here = min(TILE_RUNS, runs - tile);
        stage(args.from_at + first * args.columns + 32u * tile, args.columns, 1u, here, thread);
        for (var i = lane; i < here; i += LANES) {
            let x = staged_run(0u, i);
            sums += vec4<f32>(
                meet(codes$(at.x, tile + i), x),
                meet(codes$(at.y, tile + i), x),
                meet(codes$(at.z, tile + i), x),
                meet(codes$(at.w, tile + i), x),
            );
        }
    }
    return array<f32, SUMS>(sums.x, sums.y, sums.z, sums.w);
}
