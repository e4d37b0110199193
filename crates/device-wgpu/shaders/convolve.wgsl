// Convolves every channel in place; tails are (slots, channels, taps - 1), the oldest first. grid (channels / THREADS, sequences).

struct Args {
    at: u32,
    tails: u32,
    weight: u32,
    bias: u32,
    channels: u32,
    taps: u32,
    activation: u32,
    limit: f32,
    steepness: f32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let channel = THREADS * group.x + thread;
    if (channel >= args.channels) {
        return;
    }
    let s = sequence(group.y);
    let before = args.taps - 1u;
    let tail = args.tails + (s.slot * args.channels + channel) * before;
    var seen: array<f32, TAPS_MAX>;
    for (var i = 0u; i < before; i++) {
        seen[i] = 0.0;
        if (s.cached > 0u) {
            seen[i] = kept_float(tail + i);
        }
    }
    let weight = args.weight + channel * args.taps;
    var start = 0.0;
    if (args.bias != NOTHING) {
        start = vector(args.bias + channel);
    }
    for (var t = s.first; t < s.first + s.count; t++) {
        let at = args.at + t * args.channels + channel;
        let newest = arena[at];
        var sum = start;
        for (var i = 0u; i < before; i++) {
            sum += vector(weight + i) * seen[i];
        }
        sum += vector(weight + before) * newest;
        for (var i = 0u; i + 1u < before; i++) {
            seen[i] = seen[i + 1u];
        }
        if (before > 0u) {
            seen[before - 1u] = newest;
        }
        arena[at] = activated(args.activation, args.limit, args.steepness, sum);
    }
    for (var i = 0u; i < before; i++) {
        kept[tail + i] = bitcast<u32>(seen[i]);
    }
}
