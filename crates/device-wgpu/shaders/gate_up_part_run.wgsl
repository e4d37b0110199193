// Of one row of the buffer, in runs of 32 columns. The sums are a vector, which is registers on every driver; an array need not be.
fn pair(row: u32, lane: u32, first: u32, thread: u32) -> Pair {
    var sums = vec4<f32>(0.0);
    // Rows behind the last are the last again.
    let own = min(vec2<u32>(row, row + 1u), vec2<u32>(args.rows - 1u));
    let gates = args.gate_at + own * args.gate_row_bytes;
    let ups = args.up_at + own * args.up_row_bytes;
    let runs = args.columns / 32u;
    for (var tile = 0u; tile < runs; tile += TILE_RUNS) {
        let here = min(TILE_RUNS, runs - tile);
        stage(args.from_at + first * args.columns + 32u * tile, args.columns, 1u, here, thread);
        for (var i = lane; i < here; i += LANES) {
            let x = staged_run(0u, i);
            sums += vec4<f32>(
                meet(codes0(gates.x, tile + i), x),
                meet(codes0(gates.y, tile + i), x),
                meet(codes1(ups.x, tile + i), x),
                meet(codes1(ups.y, tile + i), x),
            );
        }
    }
    return Pair(array<f32, SUMS>(sums.x, sums.y), array<f32, SUMS>(sums.z, sums.w));
}
