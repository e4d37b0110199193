// What every kernel begins with: the buffers, and arithmetic that is the same on every driver.
//
// Activations lie in one arena: kernels are given where a buffer begins, in values. Numbers are bits in every other buffer, so that
// no driver takes a small whole number for a tiny fraction and makes it zero.

@group(0) @binding(0) var<storage, read_write> arena: array<f32>;
// Weights as they are stored, of up to three matrices: words, or four at a time where every block is a multiple of that.
@group(0) @binding(1) var<storage, read> weights0: array<u32>;
@group(0) @binding(2) var<storage, read> weights1: array<u32>;
@group(0) @binding(3) var<storage, read> weights2: array<u32>;
// Norm weights, biases, tables of experts.
@group(0) @binding(4) var<storage, read> vectors: array<u32>;
// The step: see `src/step.rs`.
@group(0) @binding(5) var<storage, read> step_words: array<u32>;
// Keys and values of a block, and its states.
@group(0) @binding(6) var<storage, read_write> kept: array<u32>;

// An offset that says that there is nothing.
const NOTHING: u32 = 0xffffffffu;
// Less than any score.
const LEAST: f32 = -3.0e38;

fn vector(at: u32) -> f32 {
    return bitcast<f32>(vectors[at]);
}

fn kept_float(at: u32) -> f32 {
    return bitcast<f32>(kept[at]);
}

// One new token: its id, its position, its sequence, and how many tokens that has with this step.
fn token(index: u32) -> vec4<u32> {
    let at = step_words[4] + 4u * index;
    return vec4<u32>(step_words[at], step_words[at + 1u], step_words[at + 2u], step_words[at + 3u]);
}

// One sequence's share of the step.
struct Sequence {
    // Its first new token, and how many.
    first: u32,
    count: u32,
    // Tokens of it that are cached already.
    cached: u32,
    // Where its page table begins.
    pages: u32,
    // Where its state is.
    slot: u32,
    // Where the second text of a pair begins.
    second_start: u32,
}

fn sequence(index: u32) -> Sequence {
    let at = step_words[5] + 8u * index;
    return Sequence(step_words[at], step_words[at + 1u], step_words[at + 2u], step_words[at + 3u], step_words[at + 4u], step_words[at + 5u]);
}

// The place of a position of a sequence whose page table begins at `pages`.
fn place_of(pages: u32, position: u32) -> u32 {
    let page_tokens = step_words[3];
    return step_words[pages + position / page_tokens] * page_tokens + position % page_tokens;
}

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// Half precision to single, tiny numbers included, which drivers may take for zero: scales of blocks are often so.
fn half(bits: u32) -> f32 {
    let magnitude = bits & 0x7fffu;
    let usual = bitcast<f32>((magnitude << 13u) + 0x38000000u);
    let value = select(usual, f32(magnitude) * 0x1p-24, magnitude < 0x400u);
    return select(value, -value, (bits & 0x8000u) != 0u);
}

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-clamp(x, -87.0, 87.0)));
}

// The built-in function may overflow on the way.
fn hyperbolic_tangent(x: f32) -> f32 {
    let y = exp(2.0 * clamp(x, -20.0, 20.0));
    return (y - 1.0) / (y + 1.0);
}

fn softplus(x: f32) -> f32 {
    return select(log(1.0 + exp(min(x, 30.0))), x, x > 20.0);
}

// The error function (Abramowitz and Stegun 1964, 7.1.26): within 1.5e-7.
fn error_function(x: f32) -> f32 {
    let z = abs(x);
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    let value = 1.0 - sum * exp(-min(z * z, 80.0));
    return select(value, -value, x < 0.0);
}

// The activations in the order of `elementwise::numbers`; `limit` and `steepness` are those of the last.
fn activated(activation: u32, limit: f32, steepness: f32, x: f32) -> f32 {
    switch activation {
        case 0u: {
            return x * sigmoid(x);
        }
        case 1u: {
            return 0.5 * x * (1.0 + hyperbolic_tangent(0.7978846 * (x + 0.044715 * x * x * x)));
        }
        case 2u: {
            return 0.5 * x * (1.0 + error_function(x * 0.70710678));
        }
        case 3u: {
            return max(x, 0.0) * max(x, 0.0);
        }
        case 4u: {
            return sigmoid(x);
        }
        case 5u: {
            return hyperbolic_tangent(x);
        }
        case 6u: {
            return x;
        }
        default: {
            let cut = min(x, limit);
            return cut * sigmoid(steepness * cut);
        }
    }
}

// What the activation of a gate is multiplied with.
fn beside_gate(activation: u32, limit: f32, up: f32) -> f32 {
    return select(up, clamp(up, -limit, limit) + 1.0, activation == 7u);
}
