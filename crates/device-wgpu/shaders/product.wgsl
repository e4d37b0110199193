// Products of the rows of a buffer with up to three matrices: `to = x weight^T + bias`, or `to += added * (..)`.
//
// `LANES` neighbouring threads share `EACH` rows of a matrix, each of which meets `TOKENS` rows of the buffer once it is unpacked.
// grid (rows of all matrices / PRODUCT_ROWS, rows of the buffer / TOKENS).

struct Part {
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

struct Args {
    tokens: u32,
    columns: u32,
    from_at: u32,
    // Blocks of rows of the first two.
    blocks0: u32,
    blocks1: u32,
    adds: u32,
    added: f32,
    part0: Part,
    part1: Part,
    part2: Part,
}

var<immediate> args: Args;

const SUMS: u32 = EACH * TOKENS;

@compute @workgroup_size(PRODUCT_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = TOKENS * group.y;
    let lane = thread % LANES;
    var block = group.x;
    var which = 0u;
    if (block >= args.blocks0) {
        block -= args.blocks0;
        which = 1u;
        if (block >= args.blocks1) {
            block -= args.blocks1;
            which = 2u;
        }
    }
    let row = PRODUCT_ROWS * block + EACH * (thread / LANES);
    var part = args.part0;
    var sums: array<f32, SUMS>;
    if (which == 0u) {
        sums = sums0(part, row, lane, first, thread);
    }
//PART1     if (which == 1u) {
//PART1         part = args.part1;
//PART1         sums = sums1(part, row, lane, first, thread);
//PART1     }
//PART2     if (which == 2u) {
//PART2         part = args.part2;
//PART2         sums = sums2(part, row, lane, first, thread);
//PART2     }
    // The lanes share the outputs out. Places in arrays are known when this is compiled, so that they are registers.
    for (var i = 0u; i < SUMS; i++) {
        let sum = lane_sum(sums[i], thread);
        let own = row + i / TOKENS;
        let token = first + i % TOKENS;
        if (lane == i % LANES && own < part.rows && token < args.tokens) {
            var y = sum;
            if (part.bias != NOTHING) {
                y += vector(part.bias + own);
            }
            let at = part.to + token * part.stride + own;
            if (args.adds != 0u) {
                y = arena[at] + args.added * y;
            }
            arena[at] = y;
        }
    }
}
