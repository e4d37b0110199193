// What a lane adds to the products of four rows of the matrix with one row of the buffer, in runs of 32 columns.
fn sums$(part: Part, row: u32, lane: u32, first: u32, thread: u32) -> array<f32, SUMS> {
    var sums = vec4<f32>(0.0);
    // Rows behind the last are the last again.
    let last = part.rows - 1u;
    let at0 = part.at + min(row, last) * part.row_bytes;
    let at1 = part.at + min(row + 1u, last) * part.row_bytes;
    let at2 = part.at + min(row + 2u, last) * part.row_bytes;
    let at3 = part.at + min(row + 3u, last) * part.row_bytes;
    let runs = args.columns / 32u;
    for (var tile = 0u; tile < runs; tile += TILE_RUNS) {
        let here = min(TILE_RUNS, runs - tile);
        stage(args.from_at + first * args.columns + 32u * tile, here, thread);
        for (var i = lane; i < here; i += LANES) {
            let x = staged_run(i);
            sums += vec4<f32>(
                run$(at0, tile + i, x),
                run$(at1, tile + i, x),
                run$(at2, tile + i, x),
                run$(at3, tile + i, x),
            );
        }
    }
    return array<f32, SUMS>(sums.x, sums.y, sums.z, sums.w);
}
