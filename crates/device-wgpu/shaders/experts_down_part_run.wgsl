// What a lane adds to four rows of a token's mixture, in runs of 32 columns. All threads go through all experts, since they bring their
// inputs together.
fn mixed(token: u32, row: u32, lane: u32, thread: u32) -> array<f32, EACH_EXPERT_DOWN> {
    var sums = vec4<f32>(0.0);
    // Rows behind the last are the last again.
    let own = min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(args.hidden - 1u));
    let runs = args.width / 32u;
    for (var k = 0u; k < args.wanted; k++) {
        let pair = token * args.wanted + k;
        let expert = arena[args.chosen + pair];
        let share = share_of(token, expert);
        let down = matrix_of(args.table, u32(max(expert, 0.0)), 2u);
        let rows = down.at + own * down.row_bytes;
        var part = vec4<f32>(0.0);
        for (var tile = 0u; tile < runs; tile += TILE_RUNS) {
            let here = min(TILE_RUNS, runs - tile);
            stage(args.wide + pair * args.width + 32u * tile, 0u, 1u, here, thread);
            for (var i = lane; share != 0.0 && i < here; i += LANES) {
                let x = staged_run(0u, i);
                part += vec4<f32>(meet(codes0(rows.x, tile + i), x), meet(codes0(rows.y, tile + i), x), meet(codes0(rows.z, tile + i), x), meet(codes0(rows.w, tile + i), x));
            }
        }
        if (lane == 0u && share != 0.0 && down.bias != NOTHING) {
            part += vec4<f32>(vector(down.bias + own.x), vector(down.bias + own.y), vector(down.bias + own.z), vector(down.bias + own.w));
        }
        sums += share * part;
    }
    return array<f32, EACH_EXPERT_DOWN>(sums.x, sums.y, sums.z, sums.w);
}
