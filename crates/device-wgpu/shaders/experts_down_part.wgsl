// What a lane adds to a row of a token's mixture.
fn mixed(token: u32, row: u32, lane: u32, thread: u32) -> array<f32, EACH_EXPERT_DOWN> {
    var sum = 0.0;
    if (row < args.hidden) {
        for (var k = 0u; k < args.wanted; k++) {
            let pair = token * args.wanted + k;
            let expert = arena[args.chosen + pair];
            let share = share_of(token, expert);
            if (share == 0.0) {
                continue;
            }
            let down = matrix_of(args.table, u32(expert), 2u);
            var part = 0.0;
            for (var group = lane; group < (args.width + 7u) / 8u; group += LANES) {
                part += dot_of(eight0(down.quant, down.at + row * down.row_bytes, args.width, group), inputs(args.wide + pair * args.width, args.width, group));
            }
            if (lane == 0u && down.bias != NOTHING) {
                part += vector(down.bias + row);
            }
            sum += share * part;
        }
    }
    return array<f32, EACH_EXPERT_DOWN>(sum);
}
