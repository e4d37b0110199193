// `mixed[t][h] += (query[t][h] * key[t][h] * bonus[h]) value[t][h]`. grid (heads, tokens).

struct Args {
    query: u32,
    key: u32,
    value: u32,
    mixed: u32,
    bonus: u32,
    heads: u32,
    head_dim: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = (group.y * args.heads + group.x) * args.head_dim;
    var passes = 0.0;
    for (var i = thread; i < args.head_dim; i += THREADS) {
        passes += arena[args.query + at + i] * arena[args.key + at + i] * vector(args.bonus + group.x * args.head_dim + i);
    }
    passes = workgroup_sum(passes, thread);
    for (var i = thread; i < args.head_dim; i += THREADS) {
        arena[args.mixed + at + i] += passes * arena[args.value + at + i];
    }
}
