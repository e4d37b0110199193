// `wide[t][k] = activation(factor * gate x[t]) * up x[t]` of the k-th chosen expert. grid (width / EXPERT_UP_ROWS, wanted, tokens).

struct Args {
    table: u32,
    chosen: u32,
    from_at: u32,
    wide: u32,
    hidden: u32,
    width: u32,
    wanted: u32,
    is_gated: u32,
    activation: u32,
    limit: f32,
    steepness: f32,
    factor: f32,
}

var<immediate> args: Args;

// What a lane adds to the products of `EACH_EXPERT_UP` rows of both matrices with a row of the buffer.
struct Pair {
    gates: array<f32, EACH_EXPERT_UP>,
    ups: array<f32, EACH_EXPERT_UP>,
}

@compute @workgroup_size(EXPERT_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let row = EXPERT_UP_ROWS * group.x + EACH_EXPERT_UP * (thread / LANES);
    let place = group.z * args.wanted + group.y;
    let expert = arena[args.chosen + place];
    let is_there = row < args.width && expert >= 0.0;
    let number = u32(max(expert, 0.0));
    let gate = matrix_of(args.table, number, 0u);
    let up = matrix_of(args.table, number, 1u);
    let sums = pair_of(gate, up, is_there, args.from_at + group.z * args.hidden, row, lane, thread);
    for (var i = 0u; i < EACH_EXPERT_UP; i++) {
        let gate_sum = lane_sum(sums.gates[i], thread);
        var y = lane_sum(sums.ups[i], thread);
        let own = row + i;
        if (lane == i % LANES && is_there && own < args.width) {
            if (up.bias != NOTHING) {
                y += vector(up.bias + own);
            }
            if (args.is_gated != 0u) {
                var by = gate_sum;
                if (gate.bias != NOTHING) {
                    by += vector(gate.bias + own);
                }
                y = activated(args.activation, args.limit, args.steepness, by * args.factor) * beside_gate(args.activation, args.limit, y);
            } else {
                y = activated(args.activation, args.limit, args.steepness, y);
            }
            arena[args.wide + place * args.width + own] = y;
        }
    }
}
