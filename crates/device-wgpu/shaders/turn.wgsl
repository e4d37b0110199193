// What becomes of queries, keys and values between their products and attention: norms of heads, ropes, the cache.
// A workgroup for a head of a token. grid (heads + 2 * kv_heads, tokens); with no heads only keys and values are stored.

struct Args {
    query: u32,
    key: u32,
    value: u32,
    query_norm: u32,
    key_norm: u32,
    query_epsilon: f32,
    key_epsilon: f32,
    // Where the angles are, or nothing.
    turns: u32,
    pairs: u32,
    is_halves: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    keys: u32,
    key_scales: u32,
    values: u32,
    value_scales: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var head = group.x;
    let is_query = head < args.heads;
    let is_key = !is_query && head < args.heads + args.kv_heads;
    var from_at = args.query + (group.y * args.heads + head) * args.head_dim;
    var norm = args.query_norm;
    var epsilon = args.query_epsilon;
    if (!is_query) {
        head -= args.heads;
        from_at = args.key + (group.y * args.kv_heads + head) * args.head_dim;
        norm = args.key_norm;
        epsilon = args.key_epsilon;
        if (!is_key) {
            head -= args.kv_heads;
            from_at = args.value + (group.y * args.kv_heads + head) * args.head_dim;
            norm = NOTHING;
        }
    }
    let width = args.head_dim;
    var squares = 0.0;
    for (var i = thread; i < (width + 63u) / 64u * 64u; i += THREADS) {
        var x = 0.0;
        if (i < width) {
            x = arena[from_at + i];
        }
        own[i] = x;
        squares += x * x;
    }
    let mean = workgroup_sum(squares, thread) / f32(width);
    if (norm != NOTHING) {
        let factor = 1.0 / sqrt(mean + epsilon);
        for (var i = thread; i < width; i += THREADS) {
            own[i] = own[i] * factor * vector(norm + i);
        }
    }
    workgroupBarrier();
    if (args.turns != NOTHING && (is_query || is_key)) {
        for (var pair = thread; pair < args.pairs; pair += THREADS) {
            let by = args.turns + 2u * (group.y * args.pairs + pair);
            let first = select(2u * pair, pair, args.is_halves != 0u);
            let second = select(2u * pair + 1u, pair + args.pairs, args.is_halves != 0u);
            let a = own[first];
            let b = own[second];
            own[first] = a * arena[by] - b * arena[by + 1u];
            own[second] = b * arena[by] + a * arena[by + 1u];
        }
    }
    workgroupBarrier();
    if (is_query) {
        for (var i = thread; i < width; i += THREADS) {
            arena[from_at + i] = own[i];
        }
        return;
    }
    let token = token(group.y);
    let place = place_of(sequence(token.z).pages, token.y) * args.kv_heads + head;
    let values = select(args.values, args.keys, is_key);
    let scales = select(args.value_scales, args.key_scales, is_key);
    put(values + place * row_words(width), scales + place * scale_words(width), width, thread);
}
