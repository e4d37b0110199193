// What the threads of a workgroup make of a number each: its sum over the lanes, the sum over all threads, and the largest of all. No
// model takes this; it shows whether subgroups are what the driver says. grid (1).

struct Args {
    from_at: u32,
    // Three rows of as many values as there are threads.
    to: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    let x = arena[args.from_at + thread];
    arena[args.to + thread] = lane_sum(x, thread);
    arena[args.to + THREADS + thread] = workgroup_sum(x, thread);
    arena[args.to + 2u * THREADS + thread] = workgroup_max(x, thread);
}
