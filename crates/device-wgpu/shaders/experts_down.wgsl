// `mixture[t] += weight * down wide[t][k]`, over the chosen experts in the order of their numbers. grid (hidden / EXPERT_DOWN_ROWS, tokens).

struct Args {
    table: u32,
    chosen: u32,
    scores: u32,
    wide: u32,
    mixture: u32,
    hidden: u32,
    width: u32,
    wanted: u32,
    count: u32,
}

var<immediate> args: Args;

@compute @workgroup_size(EXPERT_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let row = EXPERT_DOWN_ROWS * group.x + EACH_EXPERT_DOWN * (thread / LANES);
    var sums = mixed(group.y, row, lane, thread);
    for (var i = 0u; i < EACH_EXPERT_DOWN; i++) {
        let sum = lane_sum(sums[i], thread);
        let own = row + i;
        if (lane == i % LANES && own < args.hidden) {
            arena[args.mixture + group.y * args.hidden + own] += sum;
        }
    }
}

// The share of the k-th chosen expert in a token's mixture; nothing where there are fewer.
fn share_of(token: u32, expert: f32) -> f32 {
    if (expert < 0.0) {
        return 0.0;
    }
    return arena[args.scores + token * args.count + u32(expert)];
}
