// What kernels of draws share: the numbers of a draw, the order of a row's tokens, what a token weighs. `kauri_device::draw` says what must
// come out, `src/choose.rs` how the kernels follow one another.
//
// Buffers: masks in `weights0`, what the host sent in `weights1` (draws, then their changes), all that is worked out in `kept`. Logits are bits
// here, so that no driver takes what is no number, or tiny, for something else.
//
// The order of tokens is that of their places: falling logits, then rising ids. A place is two words, both rising.

struct Args {
    // Where the rows are, in values, and how wide they are.
    logits: u32,
    vocab: u32,
    // Where masks begin, and words of one.
    masks: u32,
    mask_words: u32,
    // Where changes begin.
    changes: u32,
    // In `kept`: the tokens of rows; of draws what is known so far, sums, lists, sums of spans, and logits ahead of their changes.
    chosen: u32,
    states: u32,
    bins: u32,
    list: u32,
    spans: u32,
    saved: u32,
    // Zero, which no compiler knows: see `exactly`.
    zero: u32,
}

var<immediate> args: Args;

@group(0) @binding(0) var<storage, read_write> logits: array<u32>;

// The words of a draw that the host sent.
const ROW: u32 = 0u;
const TOP_K: u32 = 1u;
const TOP_P: u32 = 2u;
const BELOW_MAX: u32 = 3u;
// One divided by the temperature.
const INVERSE: u32 = 4u;
const FIRST_CHANGE: u32 = 5u;
const CHANGES: u32 = 6u;
const IS_MASKED: u32 = 7u;
// What decides, in parts of 2^64; the lower half first.
const UNIFORM: u32 = 8u;
// Whether it has a temperature, and whether top-k or top-p keep a part of the row.
const IS_DRAWN: u32 = 10u;
const IS_CUT: u32 = 11u;

// The words of a draw that kernels find out: the key of the largest logit, zero where no token may be chosen; the first token with it, where there is
// no temperature; the last place that is kept; how many places were listed, and the least and the largest first word of them.
const BEST: u32 = 0u;
const FIRST: u32 = 1u;
const LAST: u32 = 2u;
const LIST_COUNT: u32 = 4u;
const LIST_LEAST: u32 = 5u;
const LIST_LARGEST: u32 = 6u;

const INFINITE: u32 = 0x7f800000u;
const LARGEST: u32 = 0x7f7fffffu;

fn word_of(draw: u32, word: u32) -> u32 {
    return weights1[draw * HEAD_WORDS + word];
}

fn number_of(draw: u32, word: u32) -> f32 {
    return bitcast<f32>(word_of(draw, word));
}

fn state_at(draw: u32, word: u32) -> u32 {
    return args.states + draw * STATE_WORDS + word;
}

// Numbers as they were rounded. What follows cannot be made one operation with what comes before, or put in another order, as compilers for GPUs
// do: none knows that the bits are left as they are.
fn exactly(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ args.zero);
}

fn all_exactly(x: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) ^ vec4<u32>(args.zero));
}

// Bits of numbers as whole numbers whose order is that of the numbers; both zeros are the same.
fn ordered(bits: vec4<u32>) -> vec4<u32> {
    let one_zero = select(bits, vec4<u32>(0u), bits == vec4<u32>(0x80000000u));
    return select(one_zero | vec4<u32>(0x80000000u), ~one_zero, one_zero >= vec4<u32>(0x80000000u));
}

// The number that `ordered` made this of.
fn number(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >> 31u == 1u));
}

fn numbers(keys: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(select(~keys, keys & vec4<u32>(0x7fffffffu), keys >= vec4<u32>(0x80000000u)));
}

// A row, and where its mask begins.
struct Row {
    logits: u32,
    mask: u32,
}

fn row_of(draw: u32) -> Row {
    let row = word_of(draw, ROW);
    let mask = select(NOTHING, args.masks + row * args.mask_words, word_of(draw, IS_MASKED) != 0u);
    return Row(args.logits + row * args.vocab, mask);
}

// The order of tokens of a row among the others; zero of one that may not be chosen, or is past the row's end.
fn keys_of(row: Row, tokens: vec4<u32>) -> vec4<u32> {
    let at = min(tokens, vec4<u32>(args.vocab - 1u));
    let first = row.logits;
    let bits = vec4<u32>(logits[first + at.x], logits[first + at.y], logits[first + at.z], logits[first + at.w]);
    var may = tokens == at;
    if (row.mask != NOTHING) {
        let words = vec4<u32>(row.mask) + at / vec4<u32>(32u);
        let allowed = vec4<u32>(weights0[words.x], weights0[words.y], weights0[words.z], weights0[words.w]);
        may &= ((allowed >> (at % vec4<u32>(32u))) & vec4<u32>(1u)) == vec4<u32>(1u);
    }
    may &= (bits & vec4<u32>(0x7fffffffu)) <= vec4<u32>(INFINITE);
    may &= bits != vec4<u32>(0xff800000u);
    let finite = select(bits, vec4<u32>(LARGEST), bits == vec4<u32>(INFINITE));
    return select(vec4<u32>(0u), ordered(finite), may);
}

fn key_of(row: Row, token: u32) -> u32 {
    return keys_of(row, vec4<u32>(token)).x;
}

// Four tokens of a workgroup's threads, of which the first is this.
fn four(token: u32) -> vec4<u32> {
    return vec4<u32>(token) + vec4<u32>(0u, THREADS, 2u * THREADS, 3u * THREADS);
}

// As `exponential` of `kauri_device::draw`, to the bit.
fn exponentials(x: vec4<f32>) -> vec4<f32> {
    // Nothing comes of less, and no infinity goes in.
    let y = max(x, vec4<f32>(-88.0));
    let whole = all_exactly(all_exactly(y * 1.44269504088896340736) + vec4<f32>(12582912.0));
    let power = all_exactly(whole - vec4<f32>(12582912.0));
    let r = all_exactly(all_exactly(y - all_exactly(power * 0.693359375)) + all_exactly(power * 2.1219444e-4));
    var series = all_exactly(vec4<f32>(4.1891409e-2) + all_exactly(r * 8.312385e-3));
    series = all_exactly(vec4<f32>(1.666712e-1) + all_exactly(r * series));
    series = all_exactly(vec4<f32>(4.9999223e-1) + all_exactly(r * series));
    series = all_exactly(r + all_exactly(all_exactly(r * r) * series));
    let near_one = all_exactly(vec4<f32>(1.0) + series);
    let scaled = bitcast<vec4<f32>>(bitcast<vec4<u32>>(near_one) + (bitcast<vec4<u32>>(whole) << vec4<u32>(23u)));
    return select(vec4<f32>(0.0), scaled, x > vec4<f32>(-87.0));
}
