// Sums of every row in bins: of tokens for top-k, of what they weigh for top-p alone. grid (chunks, draws).

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let draw = group.y;
    let row = row_of(draw);
    let most = number(worked_out(state_at(draw, BEST)));
    let is_counted = word_of(draw, TOP_K) > 0u;
    clear(thread);
    workgroupBarrier();
    var end = min(args.vocab, (group.x + 1u) * CHUNK);
    if (word_of(draw, IS_CUT) == 0u) {
        end = 0u;
    }
    for (var token = group.x * CHUNK + thread; token < end; token += 4u * THREADS) {
        let keys = keys_of(row, four(token));
        count(is_counted, most, keys.x);
        count(is_counted, most, keys.y);
        count(is_counted, most, keys.z);
        count(is_counted, most, keys.w);
    }
    workgroupBarrier();
    for (var bin = thread; bin < TALLIES; bin += THREADS) {
        let amount = tallied(bin);
        if ((amount.x | amount.y) != 0u) {
            let at = args.bins + 2u * (draw * TALLIES + bin);
            let old = atomicAdd(&shared_words[at], amount.x);
            let rest = amount.y + select(0u, 1u, old + amount.x < old);
            if (rest != 0u) {
                atomicAdd(&shared_words[at + 1u], rest);
            }
        }
    }
}

fn count(is_counted: bool, most: f32, key: u32) {
    if (key != 0u) {
        tally(bin_of(most, number(key)), amount_of(is_counted, most, number(key)));
    }
}
