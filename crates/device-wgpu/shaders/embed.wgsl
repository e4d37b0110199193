// `to[t] = table[token[t]] * scale`, or the same added: of a table of ids, of positions, or of the texts of a pair.
//
// The table's rows that are here begin with `first_row`; tokens whose row is elsewhere are left alone. grid (columns / 512, tokens).

struct Args {
    at: u32,
    row_bytes: u32,
    first_row: u32,
    rows: u32,
    quant: u32,
    columns: u32,
    to: u32,
    scale: f32,
    // 0 by id, 1 by position, 2 by text; the last two add.
    kind: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let eight = THREADS * group.x + thread;
    let i = 8u * eight;
    if (i >= args.columns) {
        return;
    }
    let token = token(group.y);
    var row = token.x;
    if (args.kind == 1u) {
        row = token.y;
    }
    if (args.kind == 2u) {
        row = select(args.rows - 1u, 0u, token.y < sequence(token.z).second_start);
    }
    if (row < args.first_row || row >= args.first_row + args.rows) {
        return;
    }
    let values = eight0(args.quant, args.at + (row - args.first_row) * args.row_bytes, args.columns, eight);
    for (var j = 0u; j < min(8u, args.columns - i); j++) {
        var x = values.low[j % 4u];
        if (j >= 4u) {
            x = values.high[j % 4u];
        }
        x *= args.scale;
        let at = args.to + group.y * args.columns + i + j;
        if (args.kind != 0u) {
            x += arena[at];
        }
        arena[at] = x;
    }
}
