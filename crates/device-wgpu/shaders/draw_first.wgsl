// The key of the largest logit of every row, and zeros for its bins. grid (chunks, draws).

var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let draw = group.y;
    let row = row_of(draw);
    if (thread == 0u) {
        atomicStore(&largest, 0u);
    }
    workgroupBarrier();
    if (word_of(draw, IS_CUT) != 0u) {
        for (var i = group.x * THREADS + thread; i < 2u * TALLIES; i += groups.x * THREADS) {
            atomicStore(&shared_words[args.bins + draw * 2u * TALLIES + i], 0u);
        }
    }
    var own = 0u;
    let end = min(args.vocab, (group.x + 1u) * CHUNK);
    for (var token = group.x * CHUNK + thread; token < end; token += 4u * THREADS) {
        let keys = keys_of(row, four(token));
        own = max(own, max(max(keys.x, keys.y), max(keys.z, keys.w)));
    }
    atomicMax(&largest, own);
    workgroupBarrier();
    if (thread == 0u) {
        atomicMax(&shared_words[state_at(draw, BEST)], atomicLoad(&largest));
    }
}
