// From the router's scores of all experts to their weights, zero for those not chosen; `chosen` gets who was, in the order of their
// numbers, -1 behind them; the row of the mixture begins with zeros. grid (1, tokens).

struct Args {
    scores: u32,
    chosen: u32,
    mixture: u32,
    bias: u32,
    count: u32,
    wanted: u32,
    // 0 softmax, 1 sigmoid, 2 softmax of the chosen.
    scoring: u32,
    groups: u32,
    groups_kept: u32,
    is_two_best: u32,
    is_normalised: u32,
    plus: f32,
    scale: f32,
    hidden: u32,
}

var<immediate> args: Args;

var<workgroup> own: array<f32, EXPERTS_MAX>;
var<workgroup> keys: array<f32, EXPERTS_MAX>;
var<workgroup> taken: array<u32, EXPERTS_MAX>;
var<workgroup> ranks: array<f32, GROUPS_MAX>;
var<workgroup> best_keys: array<f32, THREADS>;
var<workgroup> best_places: array<u32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = args.scores + group.y * args.count;
    for (var i = thread; i < args.hidden; i += THREADS) {
        arena[args.mixture + group.y * args.hidden + i] = 0.0;
    }
    var most = LEAST;
    for (var i = thread; i < args.count; i += THREADS) {
        own[i] = arena[row + i];
        most = max(most, own[i]);
    }
    if (args.scoring == 0u) {
        most = workgroup_max(most, thread);
        var sum = 0.0;
        for (var i = thread; i < args.count; i += THREADS) {
            own[i] = exp(own[i] - most);
            sum += own[i];
        }
        sum = workgroup_sum(sum, thread);
        for (var i = thread; i < args.count; i += THREADS) {
            own[i] /= sum;
        }
    }
    for (var i = thread; i < args.count; i += THREADS) {
        if (args.scoring == 1u) {
            own[i] = sigmoid(own[i]);
        }
        var key = own[i];
        if (args.bias != NOTHING) {
            key += vector(args.bias + i);
        }
        keys[i] = select(key, LEAST, is_nan(key));
        taken[i] = 0u;
    }
    workgroupBarrier();
    keep_groups(thread);
    for (var i = 0u; i < args.wanted; i++) {
        take_best(thread);
    }
    share(row, group.y, thread);
}

// Takes the experts of all but the best groups out of the choice.
fn keep_groups(thread: u32) {
    if (args.groups == 0u) {
        return;
    }
    let size = args.count / args.groups;
    for (var group = thread; group < args.groups; group += THREADS) {
        var first = LEAST;
        var second = LEAST;
        for (var i = group * size; i < (group + 1u) * size; i++) {
            if (keys[i] > first) {
                second = first;
                first = keys[i];
            } else {
                second = max(second, keys[i]);
            }
        }
        ranks[group] = select(first, first + second, args.is_two_best != 0u);
    }
    workgroupBarrier();
    for (var group = thread; group < args.groups; group += THREADS) {
        var better = 0u;
        for (var other = 0u; other < args.groups; other++) {
            if (ranks[other] > ranks[group] || (ranks[other] == ranks[group] && other < group)) {
                better++;
            }
        }
        if (better >= args.groups_kept) {
            for (var i = group * size; i < (group + 1u) * size; i++) {
                keys[i] = LEAST;
            }
        }
    }
    workgroupBarrier();
}

// Takes the expert with the largest key, the first among equals, of those that are not taken.
fn take_best(thread: u32) {
    var place = NOTHING;
    var most = 0.0;
    for (var i = thread; i < args.count; i += THREADS) {
        if (taken[i] == 0u && (place == NOTHING || keys[i] > most)) {
            place = i;
            most = keys[i];
        }
    }
    best_keys[thread] = most;
    best_places[thread] = place;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if (thread < width) {
            let place = best_places[thread + width];
            let key = best_keys[thread + width];
            let own_place = best_places[thread];
            let own_key = best_keys[thread];
            if (place != NOTHING && (own_place == NOTHING || key > own_key || (key == own_key && place < own_place))) {
                best_keys[thread] = key;
                best_places[thread] = place;
            }
        }
        workgroupBarrier();
    }
    if (thread == 0u && best_places[0] != NOTHING) {
        taken[best_places[0]] = 1u;
    }
    workgroupBarrier();
}

// Writes the weights, and who was chosen.
fn share(row: u32, token: u32, thread: u32) {
    var most = LEAST;
    var sum = 0.0;
    for (var i = thread; i < args.count; i += THREADS) {
        if (taken[i] != 0u) {
            most = max(most, own[i]);
            sum += own[i];
        }
    }
    most = workgroup_max(most, thread);
    var divisor = 1.0;
    sum = workgroup_sum(sum, thread);
    if (args.is_normalised != 0u) {
        divisor = sum + args.plus;
    }
    if (args.scoring == 2u) {
        sum = 0.0;
        for (var i = thread; i < args.count; i += THREADS) {
            if (taken[i] != 0u) {
                own[i] = exp(own[i] - most);
                sum += own[i];
            }
        }
        divisor = workgroup_sum(sum, thread);
    }
    let chosen = args.chosen + token * args.wanted;
    for (var i = thread; i < args.wanted; i += THREADS) {
        if (i >= args.count) {
            arena[chosen + i] = -1.0;
        }
    }
    for (var i = thread; i < args.count; i += THREADS) {
        var weight = 0.0;
        if (taken[i] != 0u) {
            weight = own[i] / divisor * args.scale;
            var before = 0u;
            for (var other = 0u; other < i; other++) {
                before += taken[other];
            }
            arena[chosen + before] = f32(i);
        }
        arena[row + i] = weight;
    }
}
