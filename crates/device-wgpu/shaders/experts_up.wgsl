// `wide[t][k] = activation(factor * gate x[t]) * up x[t]` of the k-th chosen expert. grid (width / ROWS, wanted, tokens).

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

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let row = ROWS * group.x + thread / LANES;
    let pair = group.z * args.wanted + group.y;
    let expert = arena[args.chosen + pair];
    let is_there = row < args.width && expert >= 0.0;
    let number = u32(max(expert, 0.0));
    let gate = matrix_of(args.table, number, 0u);
    let up = matrix_of(args.table, number, 1u);
    var gate_sum = 0.0;
    var up_sum = 0.0;
    if (is_there) {
        let from_at = args.from_at + group.z * args.hidden;
        for (var group = lane; group < (args.hidden + 7u) / 8u; group += LANES) {
            let x = inputs(from_at, args.hidden, group);
            up_sum += dot_of(eight1(up.quant, up.at + row * up.row_bytes, args.hidden, group), x);
            if (args.is_gated != 0u) {
                gate_sum += dot_of(eight0(gate.quant, gate.at + row * gate.row_bytes, args.hidden, group), x);
            }
        }
    }
    gate_sum = lane_sum(gate_sum, thread);
    up_sum = lane_sum(up_sum, thread);
    if (lane == 0u && is_there) {
        if (up.bias != NOTHING) {
            up_sum += vector(up.bias + row);
        }
        var y = up_sum;
        if (args.is_gated != 0u) {
            if (gate.bias != NOTHING) {
                gate_sum += vector(gate.bias + row);
            }
            y = activated(args.activation, args.limit, args.steepness, gate_sum * args.factor) * beside_gate(args.activation, args.limit, up_sum);
        } else {
            y = activated(args.activation, args.limit, args.steepness, up_sum);
        }
        arena[args.wide + pair * args.width + row] = y;
    }
}
