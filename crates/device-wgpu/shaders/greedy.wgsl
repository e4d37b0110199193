// The most likely token of every row, the first among equals, among those whose bit is set; all bits where there is none.
// In `weights0`: for each row whether it has a mask, then masks, a bit a token. grid (1, rows).

struct Args {
    logits: u32,
    vocab: u32,
    // Where masks begin, how many words one has, and where the tokens go in `kept`.
    masks: u32,
    words: u32,
    to: u32,
}

var<immediate> args: Args;

var<workgroup> values: array<f32, THREADS>;
var<workgroup> tokens: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let from_at = args.logits + group.y * args.vocab;
    let mask = args.masks + group.y * args.words;
    let is_masked = weights0[group.y] != 0u;
    var best = NOTHING;
    var most = 0.0;
    for (var i = thread; i < args.vocab; i += THREADS) {
        let x = arena[from_at + i];
        if (is_nan(x) || (is_masked && ((weights0[mask + i / 32u] >> (i % 32u)) & 1u) == 0u)) {
            continue;
        }
        if (best == NOTHING || x > most) {
            best = i;
            most = x;
        }
    }
    values[thread] = most;
    tokens[thread] = best;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if (thread < width) {
            let token = tokens[thread + width];
            let value = values[thread + width];
            let own = tokens[thread];
            if (token != NOTHING && (own == NOTHING || value > values[thread] || (value == values[thread] && token < own))) {
                values[thread] = value;
                tokens[thread] = token;
            }
        }
        workgroupBarrier();
    }
    if (thread == 0u) {
        kept[args.to + group.y] = tokens[0];
    }
}
