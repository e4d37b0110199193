// The last place of every row that is kept: in the bin with which the sum reaches what is wanted. Its tokens are in the list, and are looked through
// in parts; where they are too many for it the row is. grid (1, draws).

// No place.
const NONE: u32 = 0xffffffffu;

// Where to look: a row's tokens in these bins, `count` of them in the list, or all of the row.
struct Scope {
    row: Row,
    most: f32,
    bins: vec2<u32>,
    // The least and the largest first word of their places.
    words: vec2<u32>,
    list: u32,
    count: u32,
    is_listed: bool,
}

// A sum that is looked for.
struct Wanted {
    is_counted: bool,
    // What is ahead of the scope, and what is wanted of all.
    ahead: vec3<u32>,
    sum: vec3<u32>,
    // Places behind this one are passed over.
    limit: vec2<u32>,
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let draw = group.y;
    let best = kept[state_at(draw, BEST)];
    if (word_of(draw, IS_CUT) == 0u || best == 0u) {
        return;
    }
    let is_counted = word_of(draw, TOP_K) > 0u;
    let is_shared = word_of(draw, TOP_P) < 0x3f800000u;
    let is_both = is_counted && is_shared;
    let sum = reached(draw, is_counted, thread);
    // Top-p behind top-k is about all that top-k keeps.
    let first_bin = select(found, 0u, is_both);
    let ahead = select(found_ahead, vec3<u32>(0u), is_both);
    let listed = kept[state_at(draw, LIST_COUNT)];
    let scope = Scope(
        row_of(draw),
        number(best),
        vec2<u32>(first_bin, found),
        vec2<u32>(kept[state_at(draw, LIST_LEAST)], kept[state_at(draw, LIST_LARGEST)]),
        args.list + draw * 2u * LISTED,
        select(args.vocab, listed, listed <= LISTED),
        listed <= LISTED,
    );
    var last = reach(scope, Wanted(is_counted, ahead, sum, vec2<u32>(NONE)), thread);
    if (is_both) {
        var own = vec3<u32>(0u);
        for (var i = thread; i < scope.count; i += THREADS) {
            let place = place_at(scope, i);
            if (place.x != NONE && !is_behind(place, last)) {
                own = added(own, amount_of(false, scope.most, number(~place.x)));
            }
        }
        let weight = before(own, thread).all;
        last = reach(scope, Wanted(false, vec3<u32>(0u), share_of(weight, word_of(draw, TOP_P)), last), thread);
    }
    if (thread == 0u) {
        kept[state_at(draw, LAST)] = last.x;
        kept[state_at(draw, LAST) + 1u] = last.y;
    }
}

fn place_at(scope: Scope, i: u32) -> vec2<u32> {
    if (scope.is_listed) {
        return vec2<u32>(kept[scope.list + 2u * i], kept[scope.list + 2u * i + 1u]);
    }
    let key = key_of(scope.row, i);
    if (key == 0u) {
        return vec2<u32>(NONE);
    }
    let bin = bin_of(scope.most, number(key));
    return select(vec2<u32>(NONE), vec2<u32>(~key, i), bin >= scope.bins.x && bin <= scope.bins.y);
}

fn is_behind(place: vec2<u32>, other: vec2<u32>) -> bool {
    return place.x > other.x || (place.x == other.x && place.y > other.y);
}

// The place of a scope with which the sum reaches what is wanted: its first word, and then its second, ten binary digits at a time.
fn reach(scope: Scope, wanted: Wanted, thread: u32) -> vec2<u32> {
    var ahead = wanted.ahead;
    let words = vec2<u32>(scope.words.x, min(scope.words.y, wanted.limit.x));
    let word = narrow(scope, wanted, &ahead, 0u, words, NONE, thread);
    let token = narrow(scope, wanted, &ahead, 1u, vec2<u32>(0u, args.vocab - 1u), word, thread);
    return vec2<u32>(word, token);
}

// One word of that place, which lies in a range; of places that begin with `begin`, where there is one.
fn narrow(
    scope: Scope,
    wanted: Wanted,
    ahead: ptr<function, vec3<u32>>,
    index: u32,
    range: vec2<u32>,
    begin: u32,
    thread: u32,
) -> u32 {
    const OWN: u32 = TALLIES / THREADS;
    var first = range.x;
    var last = range.y;
    let length = 32u - countLeadingZeros(last - first);
    let rounds = (length + 9u) / 10u;
    for (var round = 0u; round < rounds; round++) {
        let rest = length - 10u * round;
        let shift = select(0u, rest - 10u, rest > 10u);
        workgroupBarrier();
        clear(thread);
        if (thread == 0u) {
            found = 0u;
            found_ahead = *ahead;
        }
        workgroupBarrier();
        for (var i = thread; i < scope.count; i += THREADS) {
            let place = place_at(scope, i);
            let word = select(place.x, place.y, index == 1u);
            let is_other = begin != NONE && place.x != begin;
            if (place.x == NONE || is_other || word < first || word > last || is_behind(place, wanted.limit)) {
                continue;
            }
            tally((word - first) >> shift, amount_of(wanted.is_counted, scope.most, number(~place.x)));
        }
        workgroupBarrier();
        var own = vec3<u32>(0u);
        for (var i = 0u; i < OWN; i++) {
            own = added(own, tallied(thread * OWN + i));
        }
        var sum = added(*ahead, before(own, thread).ahead);
        for (var i = 0u; i < OWN; i++) {
            let next = added(sum, tallied(thread * OWN + i));
            if (is_less(sum, wanted.sum) && !is_less(next, wanted.sum)) {
                found = thread * OWN + i;
                found_ahead = sum;
            }
            sum = next;
        }
        workgroupBarrier();
        *ahead = found_ahead;
        first += found << shift;
        last = min(last, first + (1u << shift) - 1u);
    }
    return first;
}
