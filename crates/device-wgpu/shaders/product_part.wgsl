// What a lane adds to the products of a row of the matrix with `TOKENS` rows of the buffer.
fn sums$(part: Part, row: u32, lane: u32, first: u32) -> array<f32, TOKENS> {
    var sums: array<f32, TOKENS>;
    for (var t = 0u; t < TOKENS; t++) {
        sums[t] = 0.0;
    }
    if (row < part.rows) {
        let at = part.at + row * part.row_bytes;
        let groups = (args.columns + 7u) / 8u;
        let tokens = min(TOKENS, args.tokens - first);
        for (var group = lane; group < groups; group += LANES) {
            let weights = eight$(part.quant, at, args.columns, group);
            for (var t = 0u; t < tokens; t++) {
                sums[t] += dot_of(weights, inputs(args.from_at + (first + t) * args.columns, args.columns, group));
            }
        }
    }
    return sums;
}
