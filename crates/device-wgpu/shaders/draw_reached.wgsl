// Where the sum of a row's bins reaches what is wanted.

// The bin or the part that was found, and the sum ahead of it.
var<workgroup> found: u32;
var<workgroup> found_ahead: vec3<u32>;

// Finds the bin in which the sum reaches what is wanted, and gives that.
fn reached(draw: u32, is_counted: bool, thread: u32) -> vec3<u32> {
    const OWN: u32 = TALLIES / THREADS;
    let bins = args.bins + 2u * (draw * TALLIES + thread * OWN);
    var own = vec3<u32>(0u);
    for (var i = 0u; i < OWN; i++) {
        own = added(own, vec3<u32>(worked_out(bins + 2u * i), worked_out(bins + 2u * i + 1u), 0u));
    }
    let sums_before = before(own, thread);
    var wanted = vec3<u32>(word_of(draw, TOP_K), 0u, 0u);
    if (!is_counted) {
        wanted = share_of(sums_before.all, word_of(draw, TOP_P));
    } else if (is_less(sums_before.all, wanted)) {
        wanted = sums_before.all;
    }
    if (thread == 0u) {
        found = 0u;
        found_ahead = vec3<u32>(0u);
    }
    workgroupBarrier();
    var sum = sums_before.ahead;
    for (var i = 0u; i < OWN; i++) {
        let inside = vec3<u32>(worked_out(bins + 2u * i), worked_out(bins + 2u * i + 1u), 0u);
        let next = added(sum, inside);
        if (is_less(sum, wanted) && !is_less(next, wanted)) {
            found = thread * OWN + i;
            found_ahead = sum;
        }
        sum = next;
    }
    workgroupBarrier();
    return wanted;
}

// How much is wanted of a sum, as doubles have it: the share, rounded up.
fn share_of(sum: vec3<u32>, top_p: u32) -> vec3<u32> {
    let exponent = max(top_p >> 23u, 1u);
    let mantissa = (top_p & 0x7fffffu) | select(0u, 0x800000u, top_p >= 0x800000u);
    let exact = rounded(multiplied(rounded(sum, vec2<u32>(0u)), mantissa).xyz, vec2<u32>(0u));
    let share = lowered(exact, 150u - exponent);
    let is_whole = all(raised(share, 150u - exponent) == exact);
    return added(share, vec3<u32>(select(1u, 0u, is_whole), 0u, 0u));
}
