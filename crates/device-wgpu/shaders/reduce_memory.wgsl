// Sums and maxima over the threads of a workgroup by way of its memory, for devices without subgroups.

var<workgroup> reduced: array<f32, THREADS>;

// The sum over the `LANES` neighbouring threads that this one belongs to. All threads of the workgroup call it.
fn lane_sum(x: f32, thread: u32) -> f32 {
    workgroupBarrier();
    reduced[thread] = x;
    workgroupBarrier();
    for (var width = LANES / 2u; width > 0u; width /= 2u) {
        if (thread % LANES < width) {
            reduced[thread] += reduced[thread + width];
        }
        workgroupBarrier();
    }
    return reduced[thread / LANES * LANES];
}

// The sum over all threads.
fn workgroup_sum(x: f32, thread: u32) -> f32 {
    workgroupBarrier();
    reduced[thread] = x;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if (thread < width) {
            reduced[thread] += reduced[thread + width];
        }
        workgroupBarrier();
    }
    return reduced[0];
}

// The largest over all threads.
fn workgroup_max(x: f32, thread: u32) -> f32 {
    workgroupBarrier();
    reduced[thread] = x;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if (thread < width) {
            reduced[thread] = max(reduced[thread], reduced[thread + width]);
        }
        workgroupBarrier();
    }
    return reduced[0];
}
