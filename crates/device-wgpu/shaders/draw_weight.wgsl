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
    let most = number(worked_out(state_at(draw, BEST)));
    let at = state_at(draw, LAST);
    var least = 0u;
    if (word_of(draw, BELOW_MAX) != INFINITE) {
        least = ordered(vec4<u32>(bitcast<u32>(exactly(most - number_of(draw, BELOW_MAX))))).x;
    }
    let last = vec2<u32>(worked_out(at), worked_out(at + 1u));
    return Weighing(row_of(draw), most, last, least, number_of(draw, INVERSE));
}

fn weights_of(what: Weighing, tokens: vec4<u32>) -> vec4<f32> {
    let keys = keys_of(what.row, tokens);
    let ahead = ~keys < vec4<u32>(what.last.x);
    let last = (~keys == vec4<u32>(what.last.x)) & (tokens <= vec4<u32>(what.last.y));
    let is_kept = (keys != vec4<u32>(0u)) & (keys >= vec4<u32>(what.least)) & (ahead | last);
    let distance = all_exactly(numbers(keys) - vec4<f32>(what.most));
    // What is no number is nothing's distance.
    let scaled = all_exactly(select(vec4<f32>(0.0), distance, is_kept) * what.inverse);
    return select(vec4<f32>(0.0), exponentials(scaled), is_kept);
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
