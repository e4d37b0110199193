//! What a model needs of the machine's memory, and the sizes a device is given.

use std::collections::HashSet;

use kauri_arch::{Attention, Factors, Ffn, Linear, Mixer, RopeScaling, Shape};
use kauri_device::{Adapted, Buffer, CacheType, Plan, Ring, Weight, apart, split};

/// Tokens to a page of the cache, unless an instrument wants others.
pub const PAGE_TOKENS: u32 = 32;
/// The window when none is asked for: models trained for more take it on request, since its cache has to fit.
const DEFAULT_WINDOW_TOKENS: u32 = 8192;

/// What a caller may ask of the fit.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The window; the model's own up to a sane default where unset.
    pub window_tokens: Option<u32>,
    /// How keys and values are kept.
    pub cache: CacheType,
    /// Tokens to a page of the cache.
    pub page_tokens: u32,
    /// Most tokens of one batch.
    pub batch_tokens: u32,
    /// Most rows of logits of one batch.
    pub batch_outputs: u32,
    /// Sequences that may fill the window at the same time.
    pub sequences: u32,
    /// Tokens of the cache, all sequences together; as many as they may fill where unset.
    pub cache_tokens: Option<u32>,
    /// Where that is unset, most windows that the cache has room for; one for each sequence where this is unset, too.
    pub cache_windows: Option<u32>,
    /// Places for snapshots of states, beside those of the sequences.
    pub snapshots: u32,
    /// Whether layers with a window keep rings; where it pays if unset.
    pub rings: Option<bool>,
}

/// What a model takes of a device's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The weights, and what else is in their files.
    pub weights_bytes: u64,
    /// Keys and values of the window.
    pub cache_bytes: u64,
    /// States of recurrent layers.
    pub state_bytes: u64,
    /// Activations, and what kernels work in.
    pub scratch_bytes: u64,
    /// The program itself, with its vocabulary.
    pub program_bytes: u64,
}

impl Sums {
    /// All together.
    pub fn total_bytes(&self) -> u64 {
        let parts = [self.weights_bytes, self.cache_bytes, self.state_bytes, self.scratch_bytes, self.program_bytes];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// The shortest window that is worth having.
pub const SHORTEST_WINDOW_TOKENS: u32 = 512;

/// What is tried where a window of `asked` tokens does not fit, in this order: shorter windows, each half of the one before.
pub fn shorter_windows(asked: u32) -> impl Iterator<Item = u32> {
    let half = |window: &u32| (*window > SHORTEST_WINDOW_TOKENS).then(|| (window / 2).max(SHORTEST_WINDOW_TOKENS));
    std::iter::successors(half(&asked), half)
}

/// Bytes of all matrices of the model itself, one that several slots share counted once.
pub fn stored_bytes(shape: &Shape<Weight>) -> u64 {
    let mut seen = HashSet::new();
    let mut sum = 0;
    shape.for_each(|weight| {
        sum += match weight {
            Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) if !seen.insert(matrix.data.as_ptr()) => 0,
            Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => matrix.bytes(),
            Weight::Vector(values) => 4 * values.len() as u64,
        }
    });
    sum
}

/// What of a model a GPU has; the CPU has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Its last so many layers, with the output.
    Last(u32),
    /// All of it but the experts of its first so many layers that have some.
    AllButExperts(u32),
}

/// What a layer takes of a device's memory, and what one token reads of it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Its weights but those of experts; each token reads them.
    pub weights_bytes: u64,
    /// Its experts.
    pub experts_bytes: u64,
    /// As many of those as a token chooses.
    pub chosen_bytes: u64,
    /// Its keys, values and states.
    pub kept_bytes: u64,
}

/// What a model takes of a GPU's memory, layer by layer, so that it can be told what of it has room there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Each of them.
    pub each: Vec<Layer>,
    /// Bytes of the output and what else closes the model.
    pub head_bytes: u64,
    /// Bytes of what stands beside them all whatever their number: activations, what kernels work in.
    pub beside_bytes: u64,
}

/// How fast devices read, and what it costs to go from one to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes a second of the GPU's memory.
    pub gpu_bytes_per_s: f64,
    /// Bytes a second of the CPU's.
    pub cpu_bytes_per_s: f64,
    /// Seconds to hand a row over and to begin there.
    pub crossing_s: f64,
}

/// Bytes that a GPU takes for itself and for tables that nobody counts.
const GPU_BESIDE_BYTES: u64 = 384 << 20;

impl Layers {
    /// Of a model sized by `plan`. A GPU keeps pages for every layer, for one with a window, too.
    pub fn of(shape: &Shape<Weight>, plan: &Plan) -> Self {
        let count = shape.blocks.len();
        let places = u64::from(plan.pages).saturating_mul(u64::from(plan.page_tokens));
        let head_bytes = stored_bytes(&split::part(shape, count..count).0);
        let layer = |index: usize| {
            // Of a part that does not end the model the head is not there, so norms and factors are all that is counted twice.
            let (part, _) = split::part(shape, index..index + 1);
            let beside = Shape { blocks: Vec::new(), ..part.clone() };
            let weights = stored_bytes(&part) - stored_bytes(&beside);
            let experts_bytes = weights - (stored_bytes(&apart::parts(&part, 1).0) - stored_bytes(&beside));
            let (chosen, all) =
                part.ffns().find_map(Ffn::moe).map_or((0, 1), |moe| (u64::from(moe.chosen), moe.experts.len() as u64));
            let cached: u64 = part.mixers().map(|mixer| token_bytes(mixer, plan.cache)).sum();
            let states = state_bytes_per_sequence(&part).saturating_mul(u64::from(plan.slots));
            Layer {
                weights_bytes: weights - experts_bytes,
                experts_bytes,
                chosen_bytes: experts_bytes / all.max(1) * chosen,
                kept_bytes: cached.saturating_mul(places).saturating_add(states),
            }
        };
        let activations: u64 = Buffer::ALL.iter().map(|buffer| 4 * buffer.values(shape, plan) as u64).sum();
        // Beside each activation its form for the matrix units.
        let beside_bytes = activations + activations / 2 + GPU_BESIDE_BYTES;
        Self { each: (0..count).map(layer).collect(), head_bytes, beside_bytes }
    }

    /// How many of them have experts.
    pub fn with_experts(&self) -> u32 {
        self.each.iter().filter(|layer| layer.experts_bytes > 0).count() as u32
    }

    /// Bytes that a GPU has, with what stands beside them; of no layer, none.
    pub fn bytes(&self, placement: Placement) -> u64 {
        if placement == Placement::Last(0) {
            return 0;
        }
        let of = |(layer, has): (&Layer, Has)| {
            let experts = if has.experts { layer.experts_bytes } else { 0 };
            let rest = layer.weights_bytes.saturating_add(layer.kept_bytes);
            if has.rest { rest.saturating_add(experts) } else { 0 }
        };
        self.shared(placement).map(of).fold(self.head_bytes + self.beside_bytes, u64::saturating_add)
    }

    /// How many of the last ones have room in so many bytes.
    pub fn within(&self, free_bytes: u64) -> u32 {
        let counts = (1..=self.each.len() as u32).rev();
        counts.into_iter().find(|&layers| self.bytes(Placement::Last(layers)) <= free_bytes).unwrap_or(0)
    }

    /// Of how few layers the experts can be left out so that the rest has room in so many bytes; none if that is too much without any.
    pub fn experts_out(&self, free_bytes: u64) -> Option<u32> {
        (1..=self.with_experts()).find(|&layers| self.bytes(Placement::AllButExperts(layers)) <= free_bytes)
    }

    /// Seconds of a token at least: what it reads of each device's memory, one device after the other, and the ways between them. Keys and values,
    /// of which there are few at first, are not counted.
    pub fn token_seconds(&self, placement: Placement, rates: &Rates) -> f64 {
        let (mut gpu_bytes, mut cpu_bytes) = (self.head_bytes, 0);
        for (layer, has) in self.shared(placement) {
            *(if has.rest { &mut gpu_bytes } else { &mut cpu_bytes }) += layer.weights_bytes;
            *(if has.experts { &mut gpu_bytes } else { &mut cpu_bytes }) += layer.chosen_bytes;
        }
        let crossings = match placement {
            Placement::Last(layers) => u32::from(layers > 0 && (layers as usize) < self.each.len()),
            // There and back.
            Placement::AllButExperts(layers) => 2 * layers,
        };
        let read = gpu_bytes as f64 / rates.gpu_bytes_per_s + cpu_bytes as f64 / rates.cpu_bytes_per_s;
        read + f64::from(crossings) * rates.crossing_s
    }

    /// The placements that have room in so many bytes where the whole has not, the one that is expected to write tokens faster first: as many
    /// layers as there is room for, one at least; all but experts, where that helps.
    pub fn placements(&self, free_bytes: u64, rates: impl FnOnce() -> Rates) -> Vec<Placement> {
        let layers = Placement::Last(self.within(free_bytes).max(1).min(self.each.len() as u32));
        let Some(experts) = self.experts_out(free_bytes).map(Placement::AllButExperts) else { return vec![layers] };
        let rates = rates();
        if self.token_seconds(experts, &rates) < self.token_seconds(layers, &rates) {
            vec![experts, layers]
        } else {
            vec![layers, experts]
        }
    }

    /// Each layer with what of it a GPU has.
    fn shared(&self, placement: Placement) -> impl Iterator<Item = (&Layer, Has)> {
        let front = match placement {
            Placement::Last(layers) => self.each.len() - (layers as usize).min(self.each.len()),
            Placement::AllButExperts(_) => 0,
        };
        let mut out = match placement {
            Placement::Last(_) => 0,
            Placement::AllButExperts(layers) => layers,
        };
        self.each.iter().enumerate().map(move |(index, layer)| {
            let is_out = layer.experts_bytes > 0 && out > 0;
            out -= u32::from(is_out);
            (layer, Has { rest: index >= front, experts: index >= front && !is_out })
        })
    }
}

/// What of a layer a GPU has.
#[derive(Clone, Copy)]
struct Has {
    experts: bool,
    rest: bool,
}

/// Bytes of all adapters, one part that several slots share counted once.
pub fn adapters_bytes(shape: &Shape<Weight>) -> u64 {
    let mut seen = HashSet::new();
    let mut sum = 0;
    shape.for_each(|weight| match weight {
        Weight::Matrix(_) | Weight::Vector(_) => {}
        Weight::Adapted(Adapted { parts, .. }) => {
            let matrices = parts.iter().flatten().flat_map(|part| [&part.down, &part.up]);
            let new = matrices.filter(|values| seen.insert(values.as_ptr()));
            sum += new.map(|values| 4 * values.len() as u64).sum::<u64>();
        }
    });
    sum
}

/// The window asked for does not suit the model.
#[derive(Debug, thiserror::Error)]
#[error("a window of {asked} tokens: this model was trained for 1 to {trained}")]
pub struct WindowError {
    /// What was asked for.
    pub asked: u32,
    /// What the model was trained for.
    pub trained: u32,
}

/// The sizes for the wished sequences, each of the wished window, and that window in tokens: no longer than the cache.
///
/// # Errors
/// When the window is empty or longer than the model was trained for.
pub fn plan<W>(shape: &Shape<W>, wish: &Wish) -> Result<(Plan, u32), WindowError> {
    let trained = shape.context_tokens;
    let window = wish.window_tokens.unwrap_or(trained.min(DEFAULT_WINDOW_TOKENS));
    if window == 0 || window > trained {
        return Err(WindowError { asked: window, trained });
    }
    let page_tokens = wish.page_tokens;
    let all = window
        .div_ceil(page_tokens)
        .saturating_mul(wish.cache_windows.map_or(wish.sequences, |most| wish.sequences.min(most.max(1))));
    let pages = wish.cache_tokens.map_or(all, |tokens| tokens.div_ceil(page_tokens).max(1));
    let window = window.min(pages.saturating_mul(page_tokens));
    let has_state = shape.state_values_per_sequence() > 0;
    let plan = Plan {
        page_tokens,
        pages,
        batch_tokens: wish.batch_tokens.min(window.saturating_mul(wish.sequences)),
        batch_outputs: wish.batch_outputs,
        slots: wish.sequences.saturating_add(if has_state { wish.snapshots } else { 0 }),
        cache: wish.cache,
        ring: None,
    };
    Ok((ringed(shape, wish, &plan).unwrap_or(plan), window))
}

/// The same sizes with rings for layers that have a window, if there are any and it pays: with a place for a snapshot for each sequence, since
/// whoever keeps rings can only go back to one, rings take at most half of what pages would. The other half may be more snapshots.
fn ringed<W>(shape: &Shape<W>, wish: &Wish, plan: &Plan) -> Option<Plan> {
    // A text that is read both ways is computed in one step.
    let window_tokens = shape.widest_window().filter(|_| !shape.reads_both_ways() && wish.rings != Some(false))?;
    let ring = Ring::new(window_tokens, plan.batch_tokens, plan.page_tokens);
    let (least, affordable) = (wish.sequences.saturating_mul(2), plan.pages / 2 / ring.pages);
    if affordable < least && wish.rings.is_none() {
        return None;
    }
    let slots = wish.sequences.saturating_add(wish.snapshots).clamp(least, affordable.max(least));
    Some(Plan { slots, ring: Some(ring), ..*plan })
}

/// The same sizes for reading up to so many texts in one step; where they are read `both_ways`, each up to the window.
pub fn for_reading(plan: &Plan, window_tokens: u32, texts: u32, both_ways: bool) -> Plan {
    let batch_tokens = if both_ways { plan.batch_tokens.max(window_tokens) } else { plan.batch_tokens };
    // The last page of each text may be half empty.
    let pages = window_tokens.max(batch_tokens).div_ceil(plan.page_tokens) + texts;
    Plan { pages, batch_tokens, batch_outputs: batch_tokens, slots: texts, ring: None, ..*plan }
}

/// Bytes of keys and values that one token adds however long its sequence is, over all layers without a window; scales are counted.
pub fn cache_bytes_per_token<W>(shape: &Shape<W>, cache: CacheType) -> u64 {
    shape.mixers().filter(|mixer| slides(mixer).is_none()).map(|mixer| token_bytes(mixer, cache)).sum()
}

/// Bytes of keys and values of the layers with a window that a sequence of so many tokens needs; scales are counted.
pub fn window_bytes<W>(shape: &Shape<W>, cache: CacheType, tokens: u32) -> u64 {
    let layers =
        shape.mixers().filter_map(|mixer| Some(u64::from(slides(mixer)?.min(tokens)) * token_bytes(mixer, cache)));
    layers.sum()
}

fn slides<W>(mixer: &Mixer<W>) -> Option<u32> {
    mixer.attention().and_then(Attention::slides)
}

/// Bytes that a layer keeps of a token.
fn token_bytes<W>(mixer: &Mixer<W>, cache: CacheType) -> u64 {
    match (mixer.latent(), mixer.attention()) {
        (Some(latent), _) => cache.of_rows().head_bytes(latent.row()),
        (None, Some(attention)) => 2 * u64::from(attention.kv_heads) * cache.head_bytes(attention.head_dim),
        (None, None) => 0,
    }
}

/// Bytes of state that a sequence has whatever its length, over all layers.
pub fn state_bytes_per_sequence<W>(shape: &Shape<W>) -> u64 {
    4 * shape.state_values_per_sequence()
}

/// Values of all weights, a matrix that several slots share counted once; rope factors, which are settings, are none.
pub fn parameters(shape: &Shape<Weight>) -> u64 {
    let mut seen = HashSet::new();
    let mut sum = 0;
    shape.for_each(|weight| {
        sum += match weight {
            Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) if !seen.insert(matrix.data.as_ptr()) => 0,
            Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => (matrix.rows * matrix.columns) as u64,
            Weight::Vector(values) => values.len() as u64,
        }
    });
    let factors = |factors: &Factors<Weight>| match factors {
        Factors::Tensor(weight) => weight.vector().len() as u64,
        Factors::Numbers(_) => 0,
    };
    let settings = shape.ropes.iter().map(|rope| match &rope.scaling {
        RopeScaling::None | RopeScaling::Linear { .. } | RopeScaling::Llama3 { .. } | RopeScaling::Yarn { .. } => 0,
        RopeScaling::Each(each) => factors(each),
        RopeScaling::LongShort { long, short, .. } => factors(long) + factors(short),
    });
    sum - settings.sum::<u64>()
}

/// Values that one token is multiplied with: all but those of the experts that it does not choose.
pub fn active_parameters(shape: &Shape<Weight>) -> u64 {
    parameters(shape) - idle(shape, |linear| u64::from(linear.rows) * u64::from(linear.columns))
}

/// Bytes of weights that one decoded token reads: all but the embedding table, of which it reads one row, and the experts that it
/// does not choose.
pub fn bytes_per_token(shape: &Shape<Weight>) -> u64 {
    let mut bytes = 0;
    shape.for_each(|weight| {
        bytes += match weight {
            Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => matrix.bytes(),
            Weight::Vector(values) => 4 * values.len() as u64,
        }
    });
    let table = shape.embed.table.matrix();
    let idle = idle(shape, |linear| linear.weight.matrix().bytes());
    let places = shape.embed.places.as_ref().map(Weight::matrix);
    let unread = [Some(table), places].into_iter().flatten();
    bytes - unread.map(|table| (table.data.len() - table.row_bytes()) as u64).sum::<u64>() - idle
}

/// The sum of `size` over the matrices of as many experts as a token does not choose; those of a layer are of one size.
fn idle(shape: &Shape<Weight>, size: impl Fn(&Linear<Weight>) -> u64) -> u64 {
    let layers = shape.ffns().filter_map(Ffn::moe).map(|moe| {
        let expert = moe.experts.first().into_iter();
        let linears = expert.flat_map(|expert| expert.gate.iter().chain([&expert.up, &expert.down]));
        (moe.experts.len() as u64 - u64::from(moe.chosen)) * linears.map(&size).sum::<u64>()
    });
    layers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(weights_bytes: u64, experts_bytes: u64) -> Layer {
        Layer { weights_bytes, experts_bytes, chosen_bytes: experts_bytes / 8, kept_bytes: 0 }
    }

    #[test]
    fn as_many_of_the_last_layers_go_to_a_gpu_as_have_room() {
        let each = [10, 20, 30].map(|bytes| Layer { kept_bytes: 4, ..layer(bytes - 4, 0) });
        let layers = Layers { each: each.to_vec(), head_bytes: 2, beside_bytes: 3 };
        let within = [0, 34, 35, 54, 55, 64, 65, 1000].map(|free| layers.within(free));
        assert_eq!(within, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|count| layers.bytes(Placement::Last(count))), [0, 35, 55, 65]);
        assert_eq!((layers.with_experts(), layers.experts_out(0)), (0, None));
    }

    #[test]
    fn experts_leave_from_the_first_layers_that_have_some() {
        let layers = Layers {
            each: vec![layer(9, 0), layer(1, 80), layer(1, 80), layer(1, 80)],
            head_bytes: 2,
            beside_bytes: 3,
        };
        assert_eq!(layers.with_experts(), 3);
        assert_eq!([0, 1, 2, 3].map(|count| layers.bytes(Placement::AllButExperts(count))), [257, 177, 97, 17]);
        assert_eq!(
            [257, 256, 97, 17, 16].map(|free| layers.experts_out(free)),
            [Some(1), Some(1), Some(2), Some(3), None]
        );
    }

    /// What a token reads decides: a GPU that is ten times as quick is worth more ways there and back than one that is hardly quicker.
    #[test]
    fn the_placement_is_the_one_that_is_expected_to_be_faster() {
        let each = vec![layer(100, 800); 10];
        let layers = Layers { each, head_bytes: 0, beside_bytes: 0 };
        let rates = |gpu_bytes_per_s, crossing_s| Rates { gpu_bytes_per_s, cpu_bytes_per_s: 10.0, crossing_s };
        // Half of it: five layers, or all but the experts of six.
        let (last, experts) = (Placement::Last(5), Placement::AllButExperts(6));
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} and {expected}");
        near(layers.token_seconds(last, &rates(100.0, 0.1)), 10.0 + 100.0 + 0.1);
        near(layers.token_seconds(experts, &rates(100.0, 0.1)), 10.0 + 4.0 + 60.0 + 1.2);
        assert_eq!(layers.placements(4500, || rates(100.0, 0.1)), [experts, last]);
        assert_eq!(layers.placements(4500, || rates(100.0, 10.0)), [last, experts]);
        assert_eq!(layers.placements(999, || unreachable!("there is nothing to choose")), [Placement::Last(1)]);
    }
}
