// In runs of 32 columns. Where there is no gate, its matrix is the other once more, and its sums are left.
fn pair_of(gate: Matrix, up: Matrix, is_there: bool, at: u32, row: u32, lane: u32, thread: u32) -> Pair {
    var sums = vec4<f32>(0.0);
    // Rows behind the last are the last again.
    let own = min(vec2<u32>(row, row + 1u), vec2<u32>(args.width - 1u));
    let gates = gate.at + own * gate.row_bytes;
    let ups = up.at + own * up.row_bytes;
    let runs = args.hidden / 32u;
    for (var tile = 0u; tile < runs; tile += TILE_RUNS) {
        let here = min(TILE_RUNS, runs - tile);
        stage(at + 32u * tile, 0u, 1u, here, thread);
        for (var i = lane; is_there && i < here; i += LANES) {
            let x = staged_run(0u, i);
            sums += vec4<f32>(
                meet(codes0(gates.x, tile + i), x),
                meet(codes0(gates.y, tile + i), x),
                meet(codes1(ups.x, tile + i), x),
                meet(codes1(ups.y, tile + i), x),
            );
        }
    }
    return Pair(array<f32, EACH_EXPERT_UP>(sums.x, sums.y), array<f32, EACH_EXPERT_UP>(sums.z, sums.w));
}
