fn pair(row: u32, lane: u32, first: u32, thread: u32) -> Pair {
    var both: Pair;
    for (var i = 0u; i < SUMS; i++) {
        both.gates[i] = 0.0;
        both.ups[i] = 0.0;
    }
    if (row < args.rows) {
        let last = args.rows - row - 1u;
        let groups = (args.columns + 7u) / 8u;
        let tokens = min(TOKENS, args.tokens - first);
        for (var group = lane; group < groups; group += LANES) {
            for (var r = 0u; r < EACH_GATED; r++) {
                let own = row + min(r, last);
                let gate = eight0(args.gate_quant, args.gate_at + own * args.gate_row_bytes, args.columns, group);
                let up = eight1(args.up_quant, args.up_at + own * args.up_row_bytes, args.columns, group);
                for (var t = 0u; t < TOKENS; t++) {
                    if (t < tokens) {
                        let x = inputs(args.from_at + (first + t) * args.columns, args.columns, group);
                        both.gates[r * TOKENS + t] += dot_of(gate, x);
                        both.ups[r * TOKENS + t] += dot_of(up, x);
                    }
                }
            }
        }
    }
    return both;
}
