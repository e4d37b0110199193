// Of four rows of the buffer.
fn pair(row: u32, lane: u32, first: u32, thread: u32) -> Pair {
    var gates = vec4<f32>(0.0);
    var ups = vec4<f32>(0.0);
    let own = min(row, args.rows - 1u);
    let runs = args.columns / 32u;
    for (var tile = 0u; tile < runs; tile += TILE_RUNS) {
        let here = min(TILE_RUNS, runs - tile);
        stage(args.from_at + first * args.columns + 32u * tile, args.columns, args.tokens - first, here, thread);
        for (var i = lane; i < here; i += LANES) {
            gates += meet_four(codes0(args.gate_at + own * args.gate_row_bytes, tile + i), i);
            ups += meet_four(codes1(args.up_at + own * args.up_row_bytes, tile + i), i);
        }
    }
    return Pair(array<f32, SUMS>(gates.x, gates.y, gates.z, gates.w), array<f32, SUMS>(ups.x, ups.y, ups.z, ups.w));
}
