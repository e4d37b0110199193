// The product of many rows of a buffer with one matrix: `to = x weight^T + bias`, or `to += added * (..)`.
//
// A workgroup makes 64 by 64 outputs: 32 columns at a time of as many rows of the matrix and of the buffer are brought to its memory,
// the matrix's unpacked on the way, and each thread has four by four sums. grid (rows of the matrix / 64, rows of the buffer / 64).

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
    var sums0 = vec4<f32>(0.0);
    var sums1 = vec4<f32>(0.0);
    var sums2 = vec4<f32>(0.0);
    var sums3 = vec4<f32>(0.0);
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
        // Each by name: a place in an array that is known when this is compiled is a register.
        let place = 16u * first + own / 4u;
        let part = own % 4u;
        weights_tile[place][part] = weights.low.x;
        inputs_tile[place][part] = x.low.x;
        weights_tile[place + 16u][part] = weights.low.y;
        inputs_tile[place + 16u][part] = x.low.y;
        weights_tile[place + 32u][part] = weights.low.z;
        inputs_tile[place + 32u][part] = x.low.z;
        weights_tile[place + 48u][part] = weights.low.w;
        inputs_tile[place + 48u][part] = x.low.w;
        weights_tile[place + 64u][part] = weights.high.x;
        inputs_tile[place + 64u][part] = x.high.x;
        weights_tile[place + 80u][part] = weights.high.y;
        inputs_tile[place + 80u][part] = x.high.y;
        weights_tile[place + 96u][part] = weights.high.z;
        inputs_tile[place + 96u][part] = x.high.z;
        weights_tile[place + 112u][part] = weights.high.w;
        inputs_tile[place + 112u][part] = x.high.w;
        workgroupBarrier();
        for (var column = 0u; column < 32u; column++) {
            let w = weights_tile[16u * column + four_rows];
            let v = inputs_tile[16u * column + four_tokens];
            sums0 += v.x * w;
            sums1 += v.y * w;
            sums2 += v.z * w;
            sums3 += v.w * w;
        }
    }
    let to_row = 64u * group.x + 4u * four_rows;
    let to_token = 64u * group.y + 4u * four_tokens;
    put_four(to_token, to_row, sums0);
    put_four(to_token + 1u, to_row, sums1);
    put_four(to_token + 2u, to_row, sums2);
    put_four(to_token + 3u, to_row, sums3);
}

fn put_four(token: u32, row: u32, sums: vec4<f32>) {
    put_one(token, row, sums.x);
    put_one(token, row + 1u, sums.y);
    put_one(token, row + 2u, sums.z);
    put_one(token, row + 3u, sums.w);
}
