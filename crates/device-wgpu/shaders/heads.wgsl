// Each head's matrix times its part of a row: `to[t][h] = matrix[h] from[t][h]`, or by the transposed matrix; what stands behind that
// part may be copied to the front. grid (rows / ROWS, or columns / 8 / THREADS where it is turned, heads, tokens).

struct Args {
    // Where each head's matrix begins: numbers in `vectors`.
    table: u32,
    row_bytes: u32,
    quant: u32,
    is_turned: u32,
    // Of a head in a row of `from_at`: all values, and those that the matrix meets, which come first.
    from_at: u32,
    from_row: u32,
    inputs: u32,
    // Of a head in a row of `to`: all values, and what is copied to their front.
    to: u32,
    to_row: u32,
    copied: u32,
    outputs: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = group.z * grid.y + group.y;
    let from_at = args.from_at + head * args.from_row;
    let to = args.to + head * args.to_row;
    let matrix = vectors[args.table + group.y];
    if (group.x == 0u) {
        for (var i = thread; i < args.copied; i += THREADS) {
            arena[to + i] = arena[from_at + args.inputs + i];
        }
    }
    if (args.is_turned != 0u) {
        let eight = group.x * THREADS + thread;
        if (8u * eight < args.outputs) {
            var sums = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
            for (var row = 0u; row < args.inputs; row++) {
                let weights = eight0(args.quant, matrix + row * args.row_bytes, args.outputs, eight);
                let x = arena[from_at + row];
                sums.low += x * weights.low;
                sums.high += x * weights.high;
            }
            for (var j = 0u; j < min(8u, args.outputs - 8u * eight); j++) {
                var y = sums.low[j % 4u];
                if (j >= 4u) {
                    y = sums.high[j % 4u];
                }
                arena[to + args.copied + 8u * eight + j] = y;
            }
        }
        return;
    }
    let lane = thread % LANES;
    let row = ROWS * group.x + thread / LANES;
    var sum = 0.0;
    if (row < args.outputs) {
        for (var group = lane; group < (args.inputs + 7u) / 8u; group += LANES) {
            sum += dot_of(eight0(args.quant, matrix + row * args.row_bytes, args.inputs, group), inputs(from_at, args.inputs, group));
        }
    }
    sum = lane_sum(sum, thread);
    if (lane == 0u && row < args.outputs) {
        arena[to + args.copied + row] = sum;
    }
}
