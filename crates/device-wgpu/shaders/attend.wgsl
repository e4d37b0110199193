// `mixed[t][h] = softmax(scale * query[t][h] K^T) V`, a workgroup for a head of a token: a thread compares the query with one of
// `THREADS` positions at a time, then the threads share the values of these out among them. grid (heads, tokens).

struct Args {
    query: u32,
    mixed: u32,
    keys: u32,
    key_scales: u32,
    values: u32,
    value_scales: u32,
    heads: u32,
    kv_heads: u32,
    // Values of a key; of a cached row of values, and the first of them that belongs to what is gathered.
    key: u32,
    value_row: u32,
    value_start: u32,
    window: u32,
    is_both_ways: u32,
    scale: f32,
    // None where it is not positive.
    cap: f32,
    sinks: u32,
    // None where it is not positive.
    alibi: f32,
}

var<immediate> args: Args;

// The query, four values a place.
var<workgroup> query: array<vec4<f32>, ROW_FOURS_MAX>;
// The weights of the positions at hand, and where their keys and values are.
var<workgroup> shares: array<f32, THREADS>;
var<workgroup> places: array<u32, THREADS>;
// Sums of the threads that share four values.
var<workgroup> parts: array<vec4<f32>, THREADS>;

// Fours of a row that a thread has at most.
const FOURS: u32 = (ROW_FOURS_MAX + THREADS - 1u) / THREADS;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = group.x;
    let kv_head = head / (args.heads / args.kv_heads);
    let key_fours = (args.key + 3u) / 4u;
    let from_at = args.query + (group.y * args.heads + head) * args.key;
    for (var i = thread; i < key_fours; i += THREADS) {
        let at = from_at + 4u * i;
        let rest = args.key - 4u * i;
        query[i] = vec4<f32>(arena[at], value_of(at + 1u, rest > 1u), value_of(at + 2u, rest > 2u), value_of(at + 3u, rest > 3u));
    }
    workgroupBarrier();
    let token = token(group.y);
    let pages = sequence(token.z).pages;
    let start = select(0u, token.y + 1u - args.window, args.window <= token.y);
    var end = token.y + 1u;
    if (args.is_both_ways != 0u) {
        end = token.w;
        if (args.window < token.w - token.y) {
            end = token.y + args.window;
        }
    }
    let value_fours = (args.value_row + 3u) / 4u;
    // As many threads to four values as there are: each takes its share of the positions.
    let spread = max(1u, THREADS / value_fours);
    let share_of = thread / value_fours;
    let slope = slope_of(head);
    var most = LEAST;
    var total = 0.0;
    var sums: array<vec4<f32>, FOURS>;
    for (var i = 0u; i < FOURS; i++) {
        sums[i] = vec4<f32>(0.0);
    }
    for (var first = start; first < end; first += THREADS) {
        let count = min(THREADS, end - first);
        var score = LEAST;
        if (thread < count) {
            let place = place_of(pages, first + thread) * args.kv_heads + kv_head;
            places[thread] = place;
            let values = args.keys + place * row_words(args.key);
            let scales = args.key_scales + place * scale_words(args.key);
            var sum = 0.0;
            for (var i = 0u; i < key_fours; i++) {
                sum += dot(query[i], cached_four(values, scales, i));
            }
            score = sum * args.scale;
            if (args.cap > 0.0) {
                score = args.cap * hyperbolic_tangent(score / args.cap);
            }
            if (args.alibi > 0.0) {
                score -= slope * abs(f32(i32(first + thread) - i32(token.y)));
            }
        }
        let larger = max(most, workgroup_max(score, thread));
        let weight = select(0.0, exp(score - larger), thread < count);
        let remains = exp(most - larger);
        shares[thread] = weight;
        total = total * remains + workgroup_sum(weight, thread);
        most = larger;
        workgroupBarrier();
        for (var i = 0u; i < FOURS; i++) {
            let four = select(thread + i * THREADS, thread % value_fours, spread > 1u);
            var sum = sums[i] * remains;
            if (four < value_fours && share_of < spread) {
                for (var other = select(0u, share_of, spread > 1u); other < count; other += spread) {
                    let values = args.values + places[other] * row_words(args.value_row);
                    let scales = args.value_scales + places[other] * scale_words(args.value_row);
                    sum += shares[other] * cached_four(values, scales, four);
                }
            }
            sums[i] = sum;
            if (spread > 1u) {
                break;
            }
        }
        workgroupBarrier();
    }
    if (args.sinks != NOTHING) {
        let sink = vector(args.sinks + head);
        let larger = max(most, sink);
        let remains = exp(most - larger);
        total = total * remains + exp(sink - larger);
        for (var i = 0u; i < FOURS; i++) {
            sums[i] *= remains;
        }
    }
    parts[thread] = sums[0];
    workgroupBarrier();
    let width = args.value_row - args.value_start;
    let to = args.mixed + (group.y * args.heads + head) * width;
    for (var i = 0u; i < FOURS; i++) {
        let four = thread + i * THREADS;
        if (four < value_fours) {
            var sum = sums[i];
            for (var other = 1u; other < spread; other++) {
                sum += parts[four + other * value_fours];
            }
            for (var j = 0u; j < 4u; j++) {
                let at = 4u * four + j;
                if (at >= args.value_start && at < args.value_row) {
                    arena[to + at - args.value_start] = sum[j] / total;
                }
            }
        }
    }
}

// What linear biases take off a score for every token between.
fn slope_of(head: u32) -> f32 {
    let power = 1u << firstLeadingBit(args.heads);
    let step = select(f32(2u * (head - power) + 1u) / f32(2u * power), f32(head + 1u) / f32(power), head < power);
    return exp2(-args.alibi * step);
}

fn value_of(at: u32, is_there: bool) -> f32 {
    if (is_there) {
        return arena[at];
    }
    return 0.0;
}
