// `to = activation(factor * (x gate^T + bias)) * (x up^T + bias)`: both rows are unpacked by the same threads.
//
// grid (rows / GATED_ROWS, rows of the buffer / TOKENS).

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

const SUMS: u32 = EACH_GATED * TOKENS;

@compute @workgroup_size(PRODUCT_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = TOKENS * group.y;
    let lane = thread % LANES;
    let row = GATED_ROWS * group.x + EACH_GATED * (thread / LANES);
    var gates: array<f32, SUMS>;
    var ups: array<f32, SUMS>;
    for (var i = 0u; i < SUMS; i++) {
        gates[i] = 0.0;
        ups[i] = 0.0;
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
                        gates[r * TOKENS + t] += dot_of(gate, x);
                        ups[r * TOKENS + t] += dot_of(up, x);
                    }
                }
            }
        }
    }
    for (var i = 0u; i < SUMS; i++) {
        var gate = lane_sum(gates[i], thread);
        var up = lane_sum(ups[i], thread);
        let own = row + i / TOKENS;
        let token = first + i % TOKENS;
        if (lane == i % LANES && own < args.rows && token < args.tokens) {
            if (args.gate_bias != NOTHING) {
                gate += vector(args.gate_bias + own);
            }
            if (args.up_bias != NOTHING) {
                up += vector(args.up_bias + own);
            }
            let y = activated(args.activation, args.limit, args.steepness, gate * args.factor) * beside_gate(args.activation, args.limit, up);
            arena[args.to + token * args.rows + own] = y;
        }
    }
}
