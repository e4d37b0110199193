//! Rotary embeddings ready to apply: frequencies from a shape, sines and cosines for a batch.
//!
//! Frequencies are settled at load. The angles of a step are computed once for all layers.

use kauri_arch::{Factors, Rope, RopeScaling, RopeStyle};

use crate::batch::Batch;
use crate::weight::Weight;

/// The frequencies of one rope.
#[derive(Clone, Debug)]
pub struct Frequencies {
    /// Which values make a pair.
    pub style: RopeStyle,
    /// Radians per position of each pair: (dims / 2).
    pub short: Vec<f32>,
    /// Those of sequences that may grow past `long_from_tokens`.
    pub long: Option<Vec<f32>>,
    /// Sequences with a longer reach take the long frequencies.
    pub long_from_tokens: u32,
    /// Factor on sines and cosines.
    pub attention_factor: f32,
}

/// The angles of one rope for the tokens of a batch.
#[derive(Clone, Debug, Default)]
pub struct Angles {
    /// (tokens, dims / 2) of (cosine, sine).
    pub turns: Vec<(f32, f32)>,
}

impl Angles {
    /// Room for the angles of `tokens` tokens, turned by `frequencies`.
    pub fn with_room(frequencies: &Frequencies, tokens: usize) -> Self {
        Self { turns: Vec::with_capacity(tokens * frequencies.pairs()) }
    }
}

impl Frequencies {
    /// Settles the frequencies of `rope`.
    pub fn new(rope: &Rope<Weight>) -> Self {
        let pairs = rope.dims as usize / 2;
        let plain: Vec<f32> = (0..pairs)
            .map(|i| (1.0 / f64::from(rope.base).powf(2.0 * i as f64 / f64::from(rope.dims))) as f32)
            .collect();
        let divided = |factors: &Factors<Weight>| {
            let factors = match factors {
                Factors::Tensor(weight) => weight.vector(),
                Factors::Numbers(numbers) => numbers,
            };
            plain.iter().zip(factors).map(|(frequency, factor)| frequency / factor).collect::<Vec<f32>>()
        };
        let mut result = Self {
            style: rope.style,
            short: Vec::new(),
            long: None,
            long_from_tokens: u32::MAX,
            attention_factor: 1.0,
        };
        result.short = match &rope.scaling {
            RopeScaling::None => plain,
            RopeScaling::Linear { factor } => plain.iter().map(|frequency| frequency / factor).collect(),
            RopeScaling::Llama3 { factor, low, high, original_context_tokens } => {
                let original = *original_context_tokens as f32;
                plain.iter().map(|&frequency| llama3(frequency, *factor, *low, *high, original)).collect()
            }
            RopeScaling::Yarn { attention_factor, .. } => {
                result.attention_factor = *attention_factor;
                yarn(rope, plain)
            }
            RopeScaling::Each(factors) => divided(factors),
            RopeScaling::LongShort { original_context_tokens, long, short, attention_factor } => {
                result.long = Some(divided(long));
                result.long_from_tokens = *original_context_tokens;
                result.attention_factor = *attention_factor;
                divided(short)
            }
        };
        result
    }

    /// How many pairs it turns.
    pub fn pairs(&self) -> usize {
        self.short.len()
    }

    /// Computes the angles of every token of `batch`; allocates only while `angles` grows.
    pub fn turn(&self, batch: &Batch, angles: &mut Angles) {
        angles.turns.clear();
        for sequence in &batch.sequences {
            let long = self.long.as_ref().filter(|_| sequence.reach_tokens > self.long_from_tokens);
            let frequencies = long.unwrap_or(&self.short);
            for position in sequence.positions() {
                angles.turns.extend(frequencies.iter().map(|frequency| {
                    let (sine, cosine) = (position as f32 * frequency).sin_cos();
                    (cosine * self.attention_factor, sine * self.attention_factor)
                }));
            }
        }
    }

    /// Turns one head by one token's angles: (dims / 2). Inlined, so that it is compiled for the instructions of its caller.
    #[inline(always)]
    pub fn apply(&self, turns: &[(f32, f32)], head: &mut [f32]) {
        match self.style {
            RopeStyle::Halves => {
                let (first, second) = head.split_at_mut(turns.len());
                for ((a, b), turn) in first.iter_mut().zip(second).zip(turns) {
                    (*a, *b) = turned(*a, *b, *turn);
                }
            }
            RopeStyle::Pairs => {
                for ([a, b], turn) in head.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                    (*a, *b) = turned(*a, *b, *turn);
                }
            }
        }
    }
}

/// A pair turned by an angle.
#[inline(always)]
fn turned(a: f32, b: f32, (cosine, sine): (f32, f32)) -> (f32, f32) {
    (a * cosine - b * sine, b * cosine + a * sine)
}

/// `YaRN`'s stretching: pairs from one place on are low frequencies, divided; those up to another are kept; between the two
/// they are blended by their place.
fn yarn(rope: &Rope<Weight>, plain: Vec<f32>) -> Vec<f32> {
    let RopeScaling::Yarn { factor, slow_turns, fast_turns, original_context_tokens, whole_pairs, .. } = rope.scaling
    else {
        return plain;
    };
    let (dims, original) = (f64::from(rope.dims), f64::from(original_context_tokens));
    // The place of the pair that turns so often within the original context.
    let place = |turns: f32| {
        let wavelength = original / f64::from(turns) / std::f64::consts::TAU;
        dims * wavelength.ln() / (2.0 * f64::from(rope.base).ln())
    };
    let (mut from, mut to) = (place(fast_turns), place(slow_turns));
    if whole_pairs {
        (from, to) = (from.floor(), to.ceil());
    }
    (from, to) = (from.max(0.0), to.min(dims - 1.0));
    if from == to {
        to = from + 0.001;
    }
    let blended = plain.iter().enumerate().map(|(pair, &frequency)| {
        let low = (((pair as f64 - from) / (to - from)) as f32).clamp(0.0, 1.0);
        frequency / factor * low + frequency * (1.0 - low)
    });
    blended.collect()
}

/// Llama 3.1's stretching of one frequency: low frequencies divided, high ones kept, those between blended.
fn llama3(frequency: f32, factor: f32, low: f32, high: f32, original_context_tokens: f32) -> f32 {
    let wavelength = std::f32::consts::TAU / frequency;
    if wavelength > original_context_tokens / low {
        frequency / factor
    } else if wavelength < original_context_tokens / high {
        frequency
    } else {
        let blend = (original_context_tokens / wavelength - low) / (high - low);
        (1.0 - blend) * frequency / factor + blend * frequency
    }
}
