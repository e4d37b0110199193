// One channel of a selective state space each of whose columns decays at a pace of its own, by `LANES` threads, `COLUMNS` columns of the
// state each at most.
//
// grid (width / ROWS, sequences).

struct Args {
    channels: u32,
    steps: u32,
    b: u32,
    c: u32,
    mixed: u32,
    states: u32,
    decay: u32,
    skip: u32,
    width: u32,
    columns: u32,
}

var<immediate> args: Args;

const COLUMNS: u32 = STATE_COLUMNS_MAX / LANES;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let channel = ROWS * group.x + thread / LANES;
    let is_there = channel < args.width;
    let s = sequence(group.y);
    let state_at = args.states + (s.slot * args.width + channel) * args.columns;
    var state: array<f32, COLUMNS>;
    for (var i = 0u; i < COLUMNS; i++) {
        state[i] = 0.0;
        if (is_there && s.cached > 0u && LANES * i + lane < args.columns) {
            state[i] = kept_float(state_at + LANES * i + lane);
        }
    }
    for (var t = s.first; t < s.first + s.count; t++) {
        var x = 0.0;
        var sum = 0.0;
        if (is_there) {
            x = arena[args.channels + t * args.width + channel];
            let step = softplus(arena[args.steps + t * args.width + channel]);
            for (var i = 0u; i < COLUMNS; i++) {
                let column = LANES * i + lane;
                if (column >= args.columns) {
                    break;
                }
                let keep = exp(step * vector(args.decay + channel * args.columns + column));
                state[i] = state[i] * keep + step * x * arena[args.b + t * args.columns + column];
                sum += state[i] * arena[args.c + t * args.columns + column];
            }
        }
        sum = lane_sum(sum, thread);
        if (lane == 0u && is_there) {
            arena[args.mixed + t * args.width + channel] = sum + vector(args.skip + channel) * x;
        }
    }
    for (var i = 0u; i < COLUMNS; i++) {
        if (is_there && LANES * i + lane < args.columns) {
            kept[state_at + LANES * i + lane] = bitcast<u32>(state[i]);
        }
    }
}
