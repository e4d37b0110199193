// Normalises each of `groups` groups of `width` values in every row. grid (groups, rows).

struct Args {
    from_at: u32,
    to: u32,
    // Values of a row of both.
    from_row: u32,
    to_row: u32,
    width: u32,
    weight: u32,
    // How many groups have a weight of their own.
    weights: u32,
    bias: u32,
    is_layer: u32,
    epsilon: f32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let start = group.x * args.width;
    let from_at = args.from_at + group.y * args.from_row + start;
    let to = args.to + group.y * args.to_row + start;
    let weight = (group.x % args.weights) * args.width;
    var mean = 0.0;
    if (args.is_layer != 0u) {
        var sum = 0.0;
        for (var i = thread; i < args.width; i += THREADS) {
            sum += arena[from_at + i];
        }
        mean = workgroup_sum(sum, thread) / f32(args.width);
    }
    var squares = 0.0;
    for (var i = thread; i < args.width; i += THREADS) {
        let x = arena[from_at + i] - mean;
        squares += x * x;
    }
    let factor = 1.0 / sqrt(workgroup_sum(squares, thread) / f32(args.width) + args.epsilon);
    for (var i = thread; i < args.width; i += THREADS) {
        var y = (arena[from_at + i] - mean) * factor * vector(args.weight + weight + i);
        if (args.bias != NOTHING) {
            y += vector(args.bias + weight + i);
        }
        arena[to + i] = y;
    }
}
