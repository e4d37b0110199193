// `change[t] = from[t - 1] - from[t]`; what was last is (slots, hidden). grid (hidden / THREADS, sequences).

struct Args {
    from_at: u32,
    change: u32,
    before: u32,
    hidden: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let channel = THREADS * group.x + thread;
    if (channel >= args.hidden) {
        return;
    }
    let s = sequence(group.y);
    let state = args.before + s.slot * args.hidden + channel;
    var last = 0.0;
    if (s.cached > 0u) {
        last = kept_float(state);
    }
    for (var t = s.first; t < s.first + s.count; t++) {
        let value = arena[args.from_at + t * args.hidden + channel];
        arena[args.change + t * args.hidden + channel] = last - value;
        last = value;
    }
    kept[state] = bitcast<u32>(last);
}
