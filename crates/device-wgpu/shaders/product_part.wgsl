// What a lane adds to the products of `EACH` rows of the matrix with `TOKENS` rows of the buffer.
fn sums$(part: Part, row: u32, lane: u32, first: u32, thread: u32) -> array<f32, SUMS> {
    var sums: array<f32, SUMS>;
    for (var i = 0u; i < SUMS; i++) {
        sums[i] = 0.0;
    }
    if (row < part.rows) {
        let at = part.at + row * part.row_bytes;
        // Rows behind the last are the last again.
        let last = part.rows - row - 1u;
        let groups = (args.columns + 7u) / 8u;
        let tokens = min(TOKENS, args.tokens - first);
        for (var group = lane; group < groups; group += LANES) {
            var weights: array<Eight, EACH>;
            for (var r = 0u; r < EACH; r++) {
                weights[r] = eight$(part.quant, at + min(r, last) * part.row_bytes, args.columns, group);
            }
            for (var t = 0u; t < TOKENS; t++) {
                if (t < tokens) {
                    let x = inputs(args.from_at + (first + t) * args.columns, args.columns, group);
                    for (var r = 0u; r < EACH; r++) {
                        sums[r * TOKENS + t] += dot_of(weights[r], x);
                    }
                }
            }
        }
    }
    return sums;
}
