// The product of many rows of a buffer with one matrix: `to = x weight^T + bias`, or `to += added * (..)`.
//
// A workgroup makes 64 by 64 outputs: 32 columns at a time of as many rows of the matrix and of the buffer are brought to its memory,
// the matrix's unpacked on the way, and each thread has four by four sums. grid (rows of the matrix / 64, rows of the buffer / 64).

struct Args {
    tokens: u32,
    columns: u32,
    from_at: u32,
    adds: u32,
    added: f32,
    // Bytes: where the matrix begins, and of a row.
    at: u32,
    row_bytes: u32,
    rows: u32,
    // Where the first output goes, and values from one row of the output to the next.
    to: u32,
    stride: u32,
    bias: u32,
    quant: u32,
}

var<immediate> args: Args;

// A column after the other, four rows a place.
var<workgroup> weights_tile: array<vec4<f32>, 512>;
var<workgroup> inputs_tile: array<vec4<f32>, 512>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let groups = (args.columns + 7u) / 8u;
    // What this thread brings: eight columns of one row of each.
    let own = thread / 4u;
    let row = 64u * group.x + own;
    let token = 64u * group.y + own;
    let first = 8u * (thread % 4u);
    // What it computes: four rows, four tokens.
    let four_rows = thread % 16u;
    let four_tokens = thread / 16u;
    var sums: array<vec4<f32>, 4>;
    for (var t = 0u; t < 4u; t++) {
        sums[t] = vec4<f32>(0.0);
    }
    for (var step = 0u; step < groups; step += 4u) {
        let eight = step + thread % 4u;
        var weights = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
        if (row < args.rows && eight < groups) {
            weights = eight0(args.quant, args.at + row * args.row_bytes, args.columns, eight);
        }
        var x = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
        if (token < args.tokens && eight < groups) {
            x = inputs(args.from_at + token * args.columns, args.columns, eight);
        }
        workgroupBarrier();
        for (var j = 0u; j < 4u; j++) {
            weights_tile[16u * (first + j) + own / 4u][own % 4u] = weights.low[j];
            weights_tile[16u * (first + 4u + j) + own / 4u][own % 4u] = weights.high[j];
            inputs_tile[16u * (first + j) + own / 4u][own % 4u] = x.low[j];
            inputs_tile[16u * (first + 4u + j) + own / 4u][own % 4u] = x.high[j];
        }
        workgroupBarrier();
        for (var column = 0u; column < 32u; column++) {
            let w = weights_tile[16u * column + four_rows];
            let v = inputs_tile[16u * column + four_tokens];
            sums[0] += v.x * w;
            sums[1] += v.y * w;
            sums[2] += v.z * w;
            sums[3] += v.w * w;
        }
    }
    for (var t = 0u; t < 4u; t++) {
        let to_token = 64u * group.y + 4u * four_tokens + t;
        for (var r = 0u; r < 4u; r++) {
            let to_row = 64u * group.x + 4u * four_rows + r;
            if (to_token < args.tokens && to_row < args.rows) {
                var y = sums[t][r];
                if (args.bias != NOTHING) {
                    y += vector(args.bias + to_row);
                }
                let at = args.to + to_token * args.stride + to_row;
                if (args.adds != 0u) {
                    y = arena[at] + args.added * y;
                }
                arena[at] = y;
            }
        }
    }
}
