//! What a model of the catalog would take that is not on this machine: about, from its numbers alone. What is here says it exactly.

use kauri_engine::catalog::Model;
use kauri_engine::{CacheType, Fitted, Memory, Sums};

/// Tokens whose cache is counted where nobody says how many.
const WINDOW_TOKENS: u32 = 8192;
/// Bytes of cache that a token adds where a model does not say: one of middle size.
const CACHE_BYTES_PER_TOKEN: u64 = 100_000;
/// Bytes that the program takes beside a model, about: itself, its vocabulary, and what it computes in.
const BESIDE_BYTES: u64 = 300 << 20;

/// What is asked of the estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// The window.
    pub window_tokens: Option<u32>,
    /// How keys and values are kept.
    pub cache: Option<CacheType>,
}

/// The model in each of its quantisations, by name.
pub fn all<'a>(model: &'a Model, wish: Wish, memory: Option<&'a Memory>) -> impl Iterator<Item = (&'a str, Fitted)> {
    model.quants.iter().map(move |(quant, gigabytes)| (quant.as_str(), of(model, *gigabytes, wish, memory)))
}

/// The quantisation that would be pulled, and what it would take: the preferred one that fits, else the smallest.
pub fn preferred<'a>(model: &'a Model, wish: Wish, memory: Option<&Memory>) -> Option<(&'a str, Fitted)> {
    let beside = of(model, 0.0, wish, memory).sums.total_bytes();
    let budget = memory.map_or(u64::MAX, |memory| memory.free_bytes.saturating_sub(beside));
    let smallest = || model.quants.iter().min_by(|one, other| one.1.total_cmp(other.1));
    let chosen = model.preferred(budget).or_else(|| smallest().map(|(quant, gigabytes)| (quant.as_str(), *gigabytes)));
    chosen.map(|(quant, gigabytes)| (quant, of(model, gigabytes, wish, memory)))
}

fn of(model: &Model, gigabytes: f64, wish: Wish, memory: Option<&Memory>) -> Fitted {
    let cache = wish.cache.unwrap_or(CacheType::F16);
    let window_tokens = wish.window_tokens.unwrap_or(WINDOW_TOKENS).min(model.context_tokens);
    let in_half = model.kv_bytes_per_token.unwrap_or(CACHE_BYTES_PER_TOKEN) as f64;
    let quant = cache.quant();
    let share = quant.block_bytes() as f64 / quant.block_len() as f64 / 2.0;
    let weights_bytes = (gigabytes * 1e9) as u64;
    let cache_bytes = (in_half * share * f64::from(window_tokens)) as u64;
    Fitted {
        sums: Sums { weights_bytes, cache_bytes, program_bytes: BESIDE_BYTES, ..Sums::default() },
        memory: memory.cloned(),
        window_tokens,
        cache,
        trained_tokens: model.context_tokens,
        parameters: (model.parameters_b * 1e9) as u64,
        bytes_per_token: (weights_bytes as f64 * model.active_share()) as u64,
        on_cpu: true,
        gpu: None,
    }
}

#[cfg(test)]
mod tests {
    use kauri_engine::catalog::Catalog;

    use super::*;

    #[test]
    fn what_would_be_pulled_depends_on_what_is_free_and_on_the_window() {
        let catalog = Catalog::built_in().unwrap();
        let (model, _) = catalog.model("qwen3:8b").unwrap();
        let memory = |free_bytes| Memory { total_bytes: 64 << 30, free_bytes, limited_by: None };
        let chosen = |free, window_tokens| {
            let wish = Wish { window_tokens, cache: None };
            let (quant, fitted) = preferred(model, wish, Some(&memory(free))).unwrap();
            (quant.to_owned(), fitted.fits())
        };
        assert_eq!(chosen(32 << 30, None), ("Q4_K_M".to_owned(), true));
        assert_eq!(chosen(6 << 30, None), ("Q3_K_M".to_owned(), true));
        assert_eq!(chosen(6 << 30, Some(1024)), ("Q4_K_M".to_owned(), true));
        assert_eq!(chosen(1 << 30, None), ("Q2_K".to_owned(), false));
        let cache = |cache| {
            let wish = Wish { window_tokens: Some(1000), cache };
            preferred(model, wish, None).unwrap().1.sums.cache_bytes
        };
        assert_eq!((cache(None), cache(Some(CacheType::F32))), (147_456_000, 294_912_000));
        assert_eq!(cache(Some(CacheType::Q8_0)), 147_456_000 * 17 / 32);
        assert_eq!(all(model, Wish::default(), None).count(), 6);
    }
}
