// Writes the heads of a buffer to their places in a half of the cache. grid (heads, tokens).

struct Args {
    from_at: u32,
    heads: u32,
    width: u32,
    values: u32,
    scales: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let width = args.width;
    let from_at = args.from_at + (group.y * args.heads + group.x) * width;
    for (var i = thread; i < (width + 63u) / 64u * 64u; i += THREADS) {
        own[i] = 0.0;
        if (i < width) {
            own[i] = arena[from_at + i];
        }
    }
    workgroupBarrier();
    let token = token(group.y);
    let place = place_of(sequence(token.z).pages, token.y) * args.heads + group.x;
    put(args.values + place * row_words(width), args.scales + place * scale_words(width), width, thread);
}
