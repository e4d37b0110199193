//! DeepSeek-V2 and V2-Lite: latent attention, shared experts beside the chosen, dense layers first (`DeepSeek` 2024,
//! arXiv:2405.04434). GGUF files of V3 call themselves the same.

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Numbers, decoder};
use crate::latent::Latents;
use crate::moe::Experts;
use crate::name::Name;
use crate::shape::{GroupRank, Groups, Scoring, Shape};

pub(super) static FAMILY: Family = Family {
    name: "deepseek2",
    gguf: &["deepseek2"],
    hugging_face: &["DeepseekV2ForCausalLM"],
    tensors: &[],
    keys: &[("moe_layer_freq", &["moe_layer_freq"]), ("topk_method", &["topk_method"])],
    shape: |config| shape(config, "greedy", Scoring::Softmax),
};

/// The shape of both generations; `choice` and `scoring` where the configuration does not say how experts are chosen.
pub(super) fn shape(config: &Config<'_>, choice: &str, scoring: Scoring) -> Result<Shape<Name>, Error> {
    let numbers = Numbers::read(config)?;
    let latents = Latents::read(config, &numbers)?;
    if config.optional_count("moe_layer_freq", u32::MAX)?.is_some_and(|every| every != 1) {
        return Err(config.unsupported("moe_layer_freq other than 1"));
    }
    // GGUF files of other generations call themselves the same; a bias on the choice tells them.
    let later =
        config.is_gguf() && (0..numbers.layers).any(|layer| config.has(&format!("blk.{layer}.exp_probs_b.bias")));
    let stated = Experts::read(config, &numbers, if later { Scoring::Sigmoid } else { scoring })?;
    let gguf = if later { "noaux_tc" } else { "group_limited_greedy" };
    let choice = if config.is_gguf() { gguf } else { config.text("topk_method").unwrap_or(choice) };
    let (biased, groups) = match choice {
        "greedy" => (false, None),
        "group_limited_greedy" => (false, stated.groups.map(|groups| Groups { rank: GroupRank::Best, ..groups })),
        "noaux_tc" => (true, stated.groups),
        other => return Err(config.unsupported(format!("a choice of experts by {other:?}"))),
    };
    let experts = Experts { biased, groups, normalised: stated.normalised.map(|_| 1e-20), ..stated };
    decoder(config, &numbers, vec![latents.rope(config, &numbers)?], |layer| {
        Ok(layer.block(layer.latent(&latents), layer.dense_or_moe(&experts)))
    })
}
