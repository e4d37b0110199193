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

// The words of a draw that kernels find out: the key of the largest logit, zero where no token may be chosen; the last place that is kept.
const BEST: u32 = 0u;
const LAST: u32 = 1u;

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

// A number as it was rounded. What follows cannot be made one operation with what comes before, or put in another order, as compilers for GPUs
// do: none knows that the bits are left as they are.
fn exactly(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ args.zero);
}

// A number's bits as a whole number whose order is that of the numbers; both zeros are the same.
fn ordered(bits: u32) -> u32 {
    let one_zero = select(bits, 0u, bits == 0x80000000u);
    return select(one_zero | 0x80000000u, ~one_zero, one_zero >> 31u == 1u);
}

// The number that `ordered` made this of.
fn number(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >> 31u == 1u));
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

// The order of a token of a row among the others; zero where it may not be chosen.
fn key_of(row: Row, token: u32) -> u32 {
    if (row.mask != NOTHING && ((weights0[row.mask + token / 32u] >> (token % 32u)) & 1u) == 0u) {
        return 0u;
    }
    let bits = logits[row.logits + token];
    if ((bits & 0x7fffffffu) > INFINITE || bits == 0xff800000u) {
        return 0u;
    }
    return ordered(select(bits, LARGEST, bits == INFINITE));
}

// As `exponential` of `kauri_device::draw`, to the bit.
fn exponential(x: f32) -> f32 {
    // Nothing comes of less, and no infinity goes in.
    let y = max(x, -88.0);
    let whole = exactly(exactly(y * 1.44269504088896340736) + 12582912.0);
    let power = exactly(whole - 12582912.0);
    let r = exactly(exactly(y - exactly(power * 0.693359375)) + exactly(power * 2.1219444e-4));
    var series = exactly(4.1891409e-2 + exactly(r * 8.312385e-3));
    series = exactly(1.666712e-1 + exactly(r * series));
    series = exactly(4.9999223e-1 + exactly(r * series));
    let near_one = exactly(1.0 + exactly(r + exactly(exactly(r * r) * series)));
    let scaled = bitcast<f32>(bitcast<u32>(near_one) + (bitcast<u32>(whole) << 23u));
    return select(0.0, scaled, x > -87.0);
}
