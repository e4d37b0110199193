// `to = activation(factor * (x gate^T + bias)) * (x up^T + bias)`: both rows are unpacked by the same threads.
//
// grid (rows / ROWS, rows of the buffer / TOKENS).

struct Args {
    tokens: u32,
    columns: u32,
    from_at: u32,
    to: u32,
    rows: u32,
    gate_at: u32,
    gate_row_bytes: u32,
    gate_bias: u32,
    gate_quant: u32,
    up_at: u32,
    up_row_bytes: u32,
    up_bias: u32,
    up_quant: u32,
    activation: u32,
    limit: f32,
    steepness: f32,
    factor: f32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = TOKENS * group.y;
    let lane = thread % LANES;
    let row = ROWS * group.x + thread / LANES;
    var gates: array<f32, TOKENS>;
    var ups: array<f32, TOKENS>;
    for (var t = 0u; t < TOKENS; t++) {
        gates[t] = 0.0;
        ups[t] = 0.0;
    }
    if (row < args.rows) {
        let groups = (args.columns + 7u) / 8u;
        let tokens = min(TOKENS, args.tokens - first);
        for (var group = lane; group < groups; group += LANES) {
            let gate = eight0(args.gate_quant, args.gate_at + row * args.gate_row_bytes, args.columns, group);
            let up = eight1(args.up_quant, args.up_at + row * args.up_row_bytes, args.columns, group);
            for (var t = 0u; t < tokens; t++) {
                let x = inputs(args.from_at + (first + t) * args.columns, args.columns, group);
                gates[t] += dot_of(gate, x);
                ups[t] += dot_of(up, x);
            }
        }
    }
    for (var t = 0u; t < TOKENS; t++) {
        var gate = lane_sum(gates[t], thread);
        var up = lane_sum(ups[t], thread);
        if (lane == 0u && row < args.rows && first + t < args.tokens) {
            if (args.gate_bias != NOTHING) {
                gate += vector(args.gate_bias + row);
            }
            if (args.up_bias != NOTHING) {
                up += vector(args.up_bias + row);
            }
            let y = activated(args.activation, args.limit, args.steepness, gate * args.factor) * beside_gate(args.activation, args.limit, up);
            arena[args.to + (first + t) * args.rows + row] = y;
        }
    }
}
