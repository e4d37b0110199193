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

// What a lane adds to the products of `EACH_GATED` rows of both matrices with `TOKENS` rows of the buffer.
struct Pair {
    gates: array<f32, SUMS>,
    ups: array<f32, SUMS>,
}

@compute @workgroup_size(PRODUCT_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = TOKENS * group.y;
    let lane = thread % LANES;
    let row = GATED_ROWS * group.x + EACH_GATED * (thread / LANES);
    let sums = pair(row, lane, first, thread);
    for (var i = 0u; i < SUMS; i++) {
        var gate = lane_sum(sums.gates[i], thread);
        var up = lane_sum(sums.ups[i], thread);
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
