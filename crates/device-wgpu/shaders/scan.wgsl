// One row of a head of a selective state space by `LANES` threads, `COLUMNS` columns of the state each at most.
//
// grid (head_dim / ROWS, heads, sequences).

struct Args {
    channels: u32,
    steps: u32,
    mixed: u32,
    states: u32,
    decay: u32,
    step_bias: u32,
    skip: u32,
    heads: u32,
    head_dim: u32,
    groups: u32,
    columns: u32,
    least: f32,
    most: f32,
}

var<immediate> args: Args;

const COLUMNS: u32 = STATE_COLUMNS_MAX / LANES;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let row = ROWS * group.x + thread / LANES;
    let head = group.y;
    let is_there = row < args.head_dim;
    let s = sequence(group.z);
    let width = args.heads * args.head_dim;
    let all = width + 2u * args.groups * args.columns;
    let b = width + head / (args.heads / args.groups) * args.columns;
    let c = b + args.groups * args.columns;
    let state_at = args.states + ((s.slot * args.heads + head) * args.head_dim + row) * args.columns;
    var state: array<f32, COLUMNS>;
    for (var i = 0u; i < COLUMNS; i++) {
        state[i] = 0.0;
        if (is_there && s.cached > 0u && LANES * i + lane < args.columns) {
            state[i] = kept_float(state_at + LANES * i + lane);
        }
    }
    for (var t = s.first; t < s.first + s.count; t++) {
        let in = args.channels + t * all;
        let step = clamp(softplus(arena[args.steps + t * args.heads + head] + vector(args.step_bias + head)), args.least, args.most);
        let keep = exp(step * vector(args.decay + head));
        var x = 0.0;
        var sum = 0.0;
        if (is_there) {
            x = arena[in + head * args.head_dim + row];
            for (var i = 0u; i < COLUMNS; i++) {
                let column = LANES * i + lane;
                if (column >= args.columns) {
                    break;
                }
                state[i] = state[i] * keep + step * x * arena[in + b + column];
                sum += state[i] * arena[in + c + column];
            }
        }
        sum = lane_sum(sum, thread);
        if (lane == 0u && is_there) {
            arena[args.mixed + t * width + head * args.head_dim + row] = sum + vector(args.skip + head) * x;
        }
    }
    for (var i = 0u; i < COLUMNS; i++) {
        if (is_there && LANES * i + lane < args.columns) {
            kept[state_at + LANES * i + lane] = bitcast<u32>(state[i]);
        }
    }
}
