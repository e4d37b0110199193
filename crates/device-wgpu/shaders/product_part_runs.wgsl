// What a lane adds to the products of two rows of the matrix with four rows of the buffer.
fn sums$(part: Part, row: u32, lane: u32, first: u32, thread: u32) -> array<f32, SUMS> {
    var low = vec4<f32>(0.0);
    var high = vec4<f32>(0.0);
    // Rows behind the last are the last again.
    let at = part.at + min(vec2<u32>(row, row + 1u), vec2<u32>(part.rows - 1u)) * part.row_bytes;
    let runs = args.columns / 32u;
    for (var tile = 0u; tile < runs; tile += TILE_RUNS) {
        let here = min(TILE_RUNS, runs - tile);
        stage(args.from_at + first * args.columns + 32u * tile, args.columns, args.tokens - first, here, thread);
        for (var i = lane; i < here; i += LANES) {
            low += meet_four(codes$(at.x, tile + i), i);
            high += meet_four(codes$(at.y, tile + i), i);
        }
    }
    return array<f32, SUMS>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
}
