// Lists the places of every row's tokens in the bin with which the sum reaches what is wanted, as far as there is room, and in those ahead of it where
// top-p comes behind top-k; notes how many there are. grid (chunks, draws).

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let draw = group.y;
    let best = worked_out(state_at(draw, BEST));
    if (word_of(draw, IS_CUT) == 0u || best == 0u) {
        return;
    }
    let is_counted = word_of(draw, TOP_K) > 0u;
    reached(draw, is_counted, thread);
    let is_both = is_counted && word_of(draw, TOP_P) < 0x3f800000u;
    let bins = vec2<u32>(select(found, 0u, is_both), found);
    let row = row_of(draw);
    let end = min(args.vocab, (group.x + 1u) * CHUNK);
    for (var token = group.x * CHUNK + thread; token < end; token += 4u * THREADS) {
        let tokens = four(token);
        let keys = keys_of(row, tokens);
        list(draw, number(best), bins, keys.x, tokens.x);
        list(draw, number(best), bins, keys.y, tokens.y);
        list(draw, number(best), bins, keys.z, tokens.z);
        list(draw, number(best), bins, keys.w, tokens.w);
    }
}

fn list(draw: u32, most: f32, bins: vec2<u32>, key: u32, token: u32) {
    if (key == 0u) {
        return;
    }
    let bin = bin_of(most, number(key));
    if (bin < bins.x || bin > bins.y) {
        return;
    }
    atomicMin(&shared_words[state_at(draw, LIST_LEAST)], ~key);
    atomicMax(&shared_words[state_at(draw, LIST_LARGEST)], ~key);
    let at = atomicAdd(&shared_words[state_at(draw, LIST_COUNT)], 1u);
    if (at < LISTED) {
        let place = args.list + 2u * (draw * LISTED + at);
        atomicStore(&shared_words[place], ~key);
        atomicStore(&shared_words[place + 1u], token);
    }
}
