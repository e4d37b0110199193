// Sums in bins of a workgroup: of tokens where those are counted, else of what they weigh at temperature 1, in parts of 2^42.

var<workgroup> low: array<atomic<u32>, TALLIES>;
var<workgroup> high: array<atomic<u32>, TALLIES>;

fn clear(thread: u32) {
    for (var i = thread; i < TALLIES; i += THREADS) {
        atomicStore(&low[i], 0u);
        atomicStore(&high[i], 0u);
    }
}

// Whatever comes first, a carry comes as often.
fn tally(at: u32, amount: vec3<u32>) {
    let old = atomicAdd(&low[at], amount.x);
    let rest = amount.y + select(0u, 1u, old + amount.x < old);
    if (rest != 0u) {
        atomicAdd(&high[at], rest);
    }
}

fn tallied(at: u32) -> vec3<u32> {
    return vec3<u32>(atomicLoad(&low[at]), atomicLoad(&high[at]), 0u);
}

// What a token adds.
fn amount_of(is_counted: bool, most: f32, logit: f32) -> vec3<u32> {
    if (is_counted) {
        return vec3<u32>(1u, 0u, 0u);
    }
    return whole_of(exponentials(vec4<f32>(exactly(logit - most))).x, 42);
}

// The bin of a distance from the largest logit: narrow ones where it is small (a five-hundredth), and wider ones behind, 128 to an octave of a
// quarter more than it.
fn bin_of(most: f32, logit: f32) -> u32 {
    let bits = bitcast<u32>(exactly(exactly(most - logit) + 0.25));
    return min((bits - 0x3e800000u) >> 16u, TALLIES - 1u);
}
