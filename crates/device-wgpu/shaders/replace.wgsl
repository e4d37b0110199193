// One head of RWKV-7's rule by a workgroup: a thread for some values, each of which goes through its column of the state.
//
// grid (heads, sequences).

struct Args {
    query: u32,
    key: u32,
    value: u32,
    steps: u32,
    rates: u32,
    first: u32,
    mixed: u32,
    states: u32,
    removal: u32,
    insertion: u32,
    heads: u32,
    head_dim: u32,
    has_residual: u32,
}

var<immediate> args: Args;

var<workgroup> r: array<f32, STATE_WIDTH_MAX>;
var<workgroup> keep: array<f32, STATE_WIDTH_MAX>;
var<workgroup> seen: array<f32, STATE_WIDTH_MAX>;
var<workgroup> back: array<f32, STATE_WIDTH_MAX>;
var<workgroup> k: array<f32, STATE_WIDTH_MAX>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = group.x;
    let s = sequence(group.y);
    let dim = args.head_dim;
    let state = args.states + (s.slot * args.heads + head) * dim * dim;
    if (s.cached == 0u) {
        for (var index = thread; index < dim; index += THREADS) {
            for (var i = 0u; i < dim; i++) {
                kept[state + i * dim + index] = 0u;
            }
        }
    }
    for (var t = s.first; t < s.first + s.count; t++) {
        let row = (t * args.heads + head) * dim;
        var squares = 0.0;
        for (var i = thread; i < dim; i += THREADS) {
            let rate = sigmoid(arena[args.rates + row + i]);
            let key = arena[args.key + row + i];
            let u = key * vector(args.removal + head * dim + i);
            r[i] = arena[args.query + row + i];
            keep[i] = exp(-0.60653066 * sigmoid(arena[args.steps + row + i]));
            k[i] = key * (1.0 + (rate - 1.0) * vector(args.insertion + head * dim + i));
            seen[i] = u;
            back[i] = rate;
            squares += u * u;
        }
        let factor = 1.0 / max(sqrt(workgroup_sum(squares, thread)), 1.0e-12);
        for (var i = thread; i < dim; i += THREADS) {
            seen[i] *= factor;
            back[i] *= seen[i];
        }
        workgroupBarrier();
        for (var index = thread; index < dim; index += THREADS) {
            let at = row + index;
            var v = arena[args.value + at];
            if (args.has_residual != 0u) {
                v += (arena[args.first + at] - v) * sigmoid(arena[args.mixed + at]);
            } else {
                arena[args.first + at] = v;
            }
            var has = 0.0;
            for (var i = 0u; i < dim; i++) {
                has += kept_float(state + i * dim + index) * seen[i];
            }
            var y = 0.0;
            for (var i = 0u; i < dim; i++) {
                let place = state + i * dim + index;
                let x = kept_float(place) * keep[i] + (k[i] * v - back[i] * has);
                kept[place] = bitcast<u32>(x);
                y += x * r[i];
            }
            arena[args.mixed + at] = y;
            arena[args.key + at] = k[index];
            arena[args.value + at] = v;
        }
        workgroupBarrier();
    }
}
