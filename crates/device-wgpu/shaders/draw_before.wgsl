// Sums over the threads of a workgroup, and up to each of them.

var<workgroup> sums: array<vec3<u32>, THREADS>;

struct Before {
    // Of the threads ahead of this one.
    ahead: vec3<u32>,
    // Of all.
    all: vec3<u32>,
}

// All threads of the workgroup call it.
fn before(own: vec3<u32>, thread: u32) -> Before {
    var sum = own;
    workgroupBarrier();
    sums[thread] = own;
    workgroupBarrier();
    for (var step = 1u; step < THREADS; step *= 2u) {
        var other = vec3<u32>(0u);
        if (thread >= step) {
            other = sums[thread - step];
        }
        workgroupBarrier();
        sum = added(sum, other);
        sums[thread] = sum;
        workgroupBarrier();
    }
    return Before(subtracted(sum, own), sums[THREADS - 1u]);
}
