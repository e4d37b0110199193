// `mixture[t] += weight * down wide[t][k]`, over the chosen experts in the order of their numbers. grid (hidden / ROWS, tokens).

struct Args {
    table: u32,
    chosen: u32,
    scores: u32,
    wide: u32,
    mixture: u32,
    hidden: u32,
    width: u32,
    wanted: u32,
    count: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let row = ROWS * group.x + thread / LANES;
    var sum = 0.0;
    if (row < args.hidden) {
        for (var k = 0u; k < args.wanted; k++) {
            let pair = group.y * args.wanted + k;
            let expert = arena[args.chosen + pair];
            if (expert < 0.0) {
                break;
            }
            let share = arena[args.scores + group.y * args.count + u32(expert)];
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
    sum = lane_sum(sum, thread);
    if (lane == 0u && row < args.hidden) {
        arena[args.mixture + group.y * args.hidden + row] += sum;
    }
}
