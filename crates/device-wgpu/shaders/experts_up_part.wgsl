fn pair_of(gate: Matrix, up: Matrix, is_there: bool, at: u32, row: u32, lane: u32, thread: u32) -> Pair {
    var gate_sum = 0.0;
    var up_sum = 0.0;
    if (is_there) {
        for (var group = lane; group < (args.hidden + 7u) / 8u; group += LANES) {
            let x = inputs(at, args.hidden, group);
            up_sum += dot_of(eight1(up.quant, up.at + row * up.row_bytes, args.hidden, group), x);
            if (args.is_gated != 0u) {
                gate_sum += dot_of(eight0(gate.quant, gate.at + row * gate.row_bytes, args.hidden, group), x);
            }
        }
    }
    return Pair(array<f32, EACH_EXPERT_UP>(gate_sum), array<f32, EACH_EXPERT_UP>(up_sum));
}
