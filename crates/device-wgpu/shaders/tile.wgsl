// What kernels that make tiles of outputs are given, and how one output is written.

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

fn put_one(token: u32, row: u32, sum: f32) {
    if (token >= args.tokens || row >= args.rows) {
        return;
    }
    var y = sum;
    if (args.bias != NOTHING) {
        y += vector(args.bias + row);
    }
    let at = args.to + token * args.stride + row;
    if (args.adds != 0u) {
        y = arena[at] + args.added * y;
    }
    arena[at] = y;
}

