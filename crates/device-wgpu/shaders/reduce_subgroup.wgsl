// Sums and maxima over the threads of a workgroup: first over `LANES` threads, which are no more than any subgroup has, in
// registers, then by way of memory.

var<workgroup> reduced: array<f32, PARTS_REDUCED>;

// The sum over the `LANES` neighbouring threads that this one belongs to. All threads of the workgroup call it.
fn lane_sum(x: f32, thread: u32) -> f32 {
    var sum = x;
    for (var step = LANES / 2u; step > 0u; step /= 2u) {
        sum += subgroupShuffleXor(sum, step);
    }
    return sum;
}

fn lane_max(x: f32) -> f32 {
    var most = x;
    for (var step = LANES / 2u; step > 0u; step /= 2u) {
        most = max(most, subgroupShuffleXor(most, step));
    }
    return most;
}

// The sum over all threads.
fn workgroup_sum(x: f32, thread: u32) -> f32 {
    let own = lane_sum(x, thread);
    workgroupBarrier();
    if (thread % LANES == 0u) {
        reduced[thread / LANES] = own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var part = 0u; part < PARTS_REDUCED; part++) {
        sum += reduced[part];
    }
    return sum;
}

// The largest over all threads.
fn workgroup_max(x: f32, thread: u32) -> f32 {
    let own = lane_max(x);
    workgroupBarrier();
    if (thread % LANES == 0u) {
        reduced[thread / LANES] = own;
    }
    workgroupBarrier();
    var most = LEAST;
    for (var part = 0u; part < PARTS_REDUCED; part++) {
        most = max(most, reduced[part]);
    }
    return most;
}
