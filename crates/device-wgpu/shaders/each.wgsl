// What is done to every value of a row alone. grid (width / THREADS, rows).

struct Args {
    operation: u32,
    // Values of a row that are worked on, and how the operation names its buffers.
    width: u32,
    to: u32,
    from_at: u32,
    other: u32,
    // Numbers of the operation.
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    activation: u32,
    limit: f32,
    steepness: f32,
    scale: f32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let i = THREADS * group.x + thread;
    let row = group.y;
    if (i >= args.width) {
        return;
    }
    let at = row * args.width + i;
    switch args.operation {
        // activate: to = activation(scale * to) * from; without a gate, to = activation(from).
        case 0u: {
            if (args.a != 0u) {
                let gate = arena[args.to + at] * args.scale;
                arena[args.to + at] = activated(args.activation, args.limit, args.steepness, gate) * beside_gate(args.activation, args.limit, arena[args.from_at + at]);
            } else {
                arena[args.to + at] = activated(args.activation, args.limit, args.steepness, arena[args.from_at + at]);
            }
        }
        // gate: to = activation(to) * from.
        case 1u: {
            arena[args.to + at] = activated(args.activation, args.limit, args.steepness, arena[args.to + at]) * arena[args.from_at + at];
        }
        // scale: to[a ..] *= scale, of rows of b.
        case 2u: {
            arena[args.to + row * args.b + args.a + i] *= args.scale;
        }
        // deal: `to` gets part [a, a + b) of each group of c of `from`; rows of `to` have d values, the part's begin with e.
        case 3u: {
            let which = i / args.b;
            let rest = i % args.b;
            let groups = args.width / args.b;
            arena[args.to + row * args.d + args.e + i] = arena[args.from_at + (row * groups + which) * args.c + args.a + rest];
        }
        // add: to += scale * from.
        case 4u: {
            arena[args.to + at] += args.scale * arena[args.from_at + at];
        }
        // lean: to = from + lean * other.
        case 5u: {
            arena[args.to + at] = arena[args.from_at + at] + vector(args.a + i) * arena[args.other + at];
        }
        // join: to += share * from; the share is one, the sigmoid of the row's only score, or score b of c.
        case 6u: {
            var share = 1.0;
            if (args.a == 1u) {
                share = sigmoid(arena[args.other + row]);
            }
            if (args.a == 2u) {
                share = arena[args.other + row * args.c + args.b];
            }
            if (share != 0.0) {
                arena[args.to + at] += share * arena[args.from_at + at];
            }
        }
        // gather: to = from[outputs[row]].
        case 7u: {
            let index = step_words[step_words[6] + row];
            arena[args.to + at] = arena[args.from_at + index * args.width + i];
        }
        // scale logits: to = cap(scale * to); the cap is the limit.
        default: {
            var x = arena[args.to + at] * args.scale;
            if (args.a != 0u) {
                x = args.limit * hyperbolic_tangent(x / args.limit);
            }
            arena[args.to + at] = x;
        }
    }
}
