// The sums of what tokens of spans of every row weigh, in sixteen lanes each. grid (spans by those of a workgroup, draws).

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let draw = group.y;
    let count = (args.vocab + SPAN - 1u) / SPAN;
    let span = group.x * (THREADS / 16u) + thread / 16u;
    var sum = 0.0;
    if (word_of(draw, IS_DRAWN) != 0u && span < count) {
        let what = weighing(draw);
        let end = min(args.vocab, (span + 1u) * SPAN);
        for (var token = span * SPAN + thread % 16u; token < end; token += 16u) {
            sum = exactly(sum + weight_of(what, token));
        }
    }
    sum = tree(sum, thread);
    if (thread % 16u == 0u && span < count) {
        kept[args.spans + draw * count + span] = bitcast<u32>(sum);
    }
}
