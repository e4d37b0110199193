// The sums of what tokens of spans of every row weigh, in sixteen lanes each; where there is no temperature the first token of the largest logit.
// grid (spans by those of a workgroup, draws).

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let draw = group.y;
    let count = (args.vocab + SPAN - 1u) / SPAN;
    let span = group.x * (THREADS / 16u) + thread / 16u;
    let first = span * SPAN + thread % 16u;
    // Of four rounds of lanes at a time.
    let rounds = vec4<u32>(0u, 16u, 32u, 48u);
    let end = min(args.vocab, (span + 1u) * SPAN);
    var sum = 0.0;
    if (word_of(draw, IS_DRAWN) != 0u) {
        let what = weighing(draw);
        for (var token = first; token < end; token += 64u) {
            let weights = weights_of(what, vec4<u32>(token) + rounds);
            sum = exactly(exactly(exactly(exactly(sum + weights.x) + weights.y) + weights.z) + weights.w);
        }
    } else {
        let row = row_of(draw);
        let best = worked_out(state_at(draw, BEST));
        for (var token = first; token < end; token += 64u) {
            let tokens = vec4<u32>(token) + rounds;
            let found = select(vec4<u32>(NOTHING), tokens, keys_of(row, tokens) == vec4<u32>(best));
            let least = min(min(found.x, found.y), min(found.z, found.w));
            if (least != NOTHING) {
                atomicMin(&shared_words[state_at(draw, FIRST)], least);
            }
        }
    }
    sum = tree(sum, thread);
    if (thread % 16u == 0u && span < count) {
        atomicStore(&shared_words[args.spans + draw * count + span], bitcast<u32>(sum));
    }
}
