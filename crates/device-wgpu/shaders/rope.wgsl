// Turns each head of a row by the angles of the row. grid (heads * pairs / THREADS, rows).

struct Args {
    at: u32,
    // (tokens, pairs) of a cosine and a sine.
    turns: u32,
    pairs: u32,
    is_halves: u32,
    heads: u32,
    head_dim: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let index = THREADS * group.x + thread;
    if (index >= args.heads * args.pairs) {
        return;
    }
    let pair = index % args.pairs;
    let start = args.at + (group.y * args.heads + index / args.pairs) * args.head_dim;
    let by = args.turns + 2u * (group.y * args.pairs + pair);
    let first = start + select(2u * pair, pair, args.is_halves != 0u);
    let second = start + select(2u * pair + 1u, pair + args.pairs, args.is_halves != 0u);
    let a = arena[first];
    let b = arena[second];
    arena[first] = a * arena[by] - b * arena[by + 1u];
    arena[second] = b * arena[by] + a * arena[by + 1u];
}
