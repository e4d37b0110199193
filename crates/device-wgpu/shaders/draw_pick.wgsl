// The token of every row, all bits where there is none: at which the running sum of what tokens weigh, by rising id, passes a share of it. What was
// changed is undone. grid (1, draws).
//
// Running sums are whole numbers of 2^-53, which nothing below a double's last digit of a sum of one or more is lost to; the sum of all, and the
// share of it, are rounded as doubles are.

// Tokens of a block, and blocks of a span.
const BLOCK: u32 = 32u;
const POWER: i32 = 53;

// What blocks of the span weigh, and then what tokens of the block do.
var<workgroup> items: array<f32, BLOCK>;
var<workgroup> passing: atomic<u32>;
var<workgroup> weighing_last: atomic<u32>;
var<workgroup> left_there: vec3<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let draw = group.y;
    let row = row_of(draw);
    let best = kept[state_at(draw, BEST)];
    var token = NOTHING;
    if (best != 0u) {
        if (word_of(draw, IS_DRAWN) != 0u) {
            token = drawn(draw, thread);
        } else {
            token = kept[state_at(draw, FIRST)];
        }
    }
    if (thread == 0u) {
        kept[args.chosen + word_of(draw, ROW)] = token;
    }
    storageBarrier();
    workgroupBarrier();
    let count = word_of(draw, CHANGES);
    let first = word_of(draw, FIRST_CHANGE);
    for (var i = thread; i < count; i += THREADS) {
        let at = args.changes + 2u * (first + i);
        let changed = weights1[at] & 0x7fffffffu;
        if (i == 0u || (weights1[at - 2u] & 0x7fffffffu) != changed) {
            logits[row.logits + changed] = kept[args.saved + first + i];
        }
    }
}

fn drawn(draw: u32, thread: u32) -> u32 {
    let what = weighing(draw);
    let count = (args.vocab + SPAN - 1u) / SPAN;
    let spans = args.spans + draw * count;
    let share = (count + THREADS - 1u) / THREADS;
    var own = vec3<u32>(0u);
    for (var k = thread * share; k < min(count, (thread + 1u) * share); k++) {
        own = added(own, whole_of(bitcast<f32>(kept[spans + k]), POWER));
    }
    let sum = rounded(before(own, thread).all, vec2<u32>(0u));
    let goal = share_of(sum, vec2<u32>(word_of(draw, UNIFORM), word_of(draw, UNIFORM + 1u)));
    let span = passed(spans, count, goal, thread);
    for (var pair = thread; pair < SPAN / 2u; pair += THREADS) {
        let first = span * SPAN + pair / 16u * BLOCK + pair % 16u;
        let weights = weights_of(what, vec4<u32>(first, first + 16u, first, first));
        let sum = tree(exactly(weights.x + weights.y), thread);
        if (pair % 16u == 0u) {
            items[pair / 16u] = sum;
        }
    }
    let block = span * SPAN + BLOCK * passed(NOTHING, BLOCK, left_there, thread);
    if (thread < BLOCK) {
        items[thread] = weights_of(what, vec4<u32>(block + thread)).x;
    }
    return block + passed(NOTHING, BLOCK, left_there, thread);
}

// A share of a sum, in parts of 2^64, as a double has it.
fn share_of(sum: vec3<u32>, share: vec2<u32>) -> vec3<u32> {
    let low = multiplied(sum, share.x);
    let high = multiplied(sum, share.y);
    let upper = added(low.yzw, high.xyz);
    let carry = select(0u, 1u, is_less(upper, low.yzw));
    return rounded(vec3<u32>(upper.y, upper.z, high.w + carry), vec2<u32>(low.x, upper.x));
}

// What a span weighs, or what an item does.
fn weight_at(spans: u32, index: u32) -> f32 {
    if (spans == NOTHING) {
        return items[index];
    }
    return bitcast<f32>(kept[spans + index]);
}

// The index at which the running sum passes `left`; the last that weighs anything where rounding leaves some over. What is left of it there is in
// `left_there`. All threads of the workgroup call it.
fn passed(spans: u32, count: u32, left: vec3<u32>, thread: u32) -> u32 {
    workgroupBarrier();
    if (thread == 0u) {
        atomicStore(&passing, NOTHING);
        atomicStore(&weighing_last, 0u);
    }
    let share = (count + THREADS - 1u) / THREADS;
    let end = min(count, (thread + 1u) * share);
    var own = vec3<u32>(0u);
    for (var k = thread * share; k < end; k++) {
        own = added(own, whole_of(weight_at(spans, k), POWER));
    }
    let ahead = before(own, thread).ahead;
    var sum = ahead;
    for (var k = thread * share; k < end; k++) {
        let weight = weight_at(spans, k);
        let next = added(sum, whole_of(weight, POWER));
        if (weight > 0.0) {
            atomicMax(&weighing_last, k);
            // What weighs less than a part is passed where nothing is left.
            if (is_less(left, next) || all(left == sum)) {
                atomicMin(&passing, k);
            }
        }
        sum = next;
    }
    workgroupBarrier();
    let first = atomicLoad(&passing);
    let at = select(first, atomicLoad(&weighing_last), first == NOTHING);
    sum = ahead;
    for (var k = thread * share; k < end; k++) {
        if (k == at) {
            left_there = select(subtracted(left, sum), vec3<u32>(0u), is_less(left, sum));
        }
        sum = added(sum, whole_of(weight_at(spans, k), POWER));
    }
    workgroupBarrier();
    return at;
}
