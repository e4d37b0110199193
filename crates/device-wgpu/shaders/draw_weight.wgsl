// What tokens weigh in a draw, and sums of that in the order of the definition.

// What is kept of a row, and how it is weighed.
struct Weighing {
    row: Row,
    most: f32,
    // The last place, and the least key.
    last: vec2<u32>,
    least: u32,
    inverse: f32,
}

fn weighing(draw: u32) -> Weighing {
    let most = number(kept[state_at(draw, BEST)]);
    let at = state_at(draw, LAST);
    var least = 0u;
    if (word_of(draw, BELOW_MAX) != INFINITE) {
        least = ordered(bitcast<u32>(exactly(most - number_of(draw, BELOW_MAX))));
    }
    return Weighing(row_of(draw), most, vec2<u32>(kept[at], kept[at + 1u]), least, number_of(draw, INVERSE));
}

fn weight_of(what: Weighing, token: u32) -> f32 {
    if (token >= args.vocab) {
        return 0.0;
    }
    let key = key_of(what.row, token);
    let is_last = ~key == what.last.x && token <= what.last.y;
    if (key == 0u || key < what.least || !(~key < what.last.x || is_last)) {
        return 0.0;
    }
    return exponential(exactly(exactly(number(key) - what.most) * what.inverse));
}

var<workgroup> lanes: array<f32, THREADS>;

// The sum over the sixteen neighbouring threads that this one belongs to, for the first of them. All threads of the workgroup call it.
fn tree(own: f32, thread: u32) -> f32 {
    workgroupBarrier();
    lanes[thread] = own;
    workgroupBarrier();
    for (var half = 8u; half > 0u; half /= 2u) {
        if (thread % 16u < half) {
            lanes[thread] = exactly(lanes[thread] + lanes[thread + half]);
        }
        workgroupBarrier();
    }
    return lanes[thread];
}
