// One head of the gated delta rule by a workgroup: a thread for some values, each of which goes through its column of the state.
//
// grid (heads, sequences).

struct Args {
    channels: u32,
    steps: u32,
    rates: u32,
    mixed: u32,
    states: u32,
    decay: u32,
    step_bias: u32,
    heads: u32,
    keys: u32,
    key_dim: u32,
    value_dim: u32,
    is_interleaved: u32,
    epsilon: f32,
}

var<immediate> args: Args;

var<workgroup> q: array<f32, STATE_WIDTH_MAX>;
var<workgroup> k: array<f32, STATE_WIDTH_MAX>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = group.x;
    let s = sequence(group.y);
    let row = 2u * args.keys * args.key_dim + args.heads * args.value_dim;
    let key = select(head / (args.heads / args.keys), head % args.keys, args.is_interleaved != 0u);
    let state = args.states + (s.slot * args.heads + head) * args.key_dim * args.value_dim;
    if (s.cached == 0u) {
        for (var index = thread; index < args.value_dim; index += THREADS) {
            for (var i = 0u; i < args.key_dim; i++) {
                kept[state + i * args.value_dim + index] = 0u;
            }
        }
    }
    for (var t = s.first; t < s.first + s.count; t++) {
        let in = args.channels + t * row;
        var q_squares = 0.0;
        var k_squares = 0.0;
        for (var i = thread; i < args.key_dim; i += THREADS) {
            let a = arena[in + key * args.key_dim + i];
            let b = arena[in + (args.keys + key) * args.key_dim + i];
            q_squares += a * a;
            k_squares += b * b;
        }
        let q_factor = 1.0 / sqrt(f32(args.key_dim)) / sqrt(workgroup_sum(q_squares, thread) + args.epsilon);
        let k_factor = 1.0 / sqrt(workgroup_sum(k_squares, thread) + args.epsilon);
        var both = 0.0;
        for (var i = thread; i < args.key_dim; i += THREADS) {
            q[i] = arena[in + key * args.key_dim + i] * q_factor;
            k[i] = arena[in + (args.keys + key) * args.key_dim + i] * k_factor;
            both += q[i] * k[i];
        }
        both = workgroup_sum(both, thread);
        let keep = exp(vector(args.decay + head) * softplus(arena[args.steps + t * args.heads + head] + vector(args.step_bias + head)));
        let rate = sigmoid(arena[args.rates + t * args.heads + head]);
        for (var index = thread; index < args.value_dim; index += THREADS) {
            var for_k = 0.0;
            var for_q = 0.0;
            for (var i = 0u; i < args.key_dim; i++) {
                let value = kept_float(state + i * args.value_dim + index);
                for_k += value * k[i];
                for_q += value * q[i];
            }
            let correction = (arena[in + 2u * args.keys * args.key_dim + head * args.value_dim + index] - keep * for_k) * rate;
            for (var i = 0u; i < args.key_dim; i++) {
                let at = state + i * args.value_dim + index;
                kept[at] = bitcast<u32>(kept_float(at) * keep + k[i] * correction);
            }
            arena[args.mixed + (t * args.heads + head) * args.value_dim + index] = keep * for_q + both * correction;
        }
        workgroupBarrier();
    }
}
