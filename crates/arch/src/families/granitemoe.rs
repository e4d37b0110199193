//! Granite 3 with experts: Granite's block and multipliers, weights that are the softmax over the chosen (IBM 2024).

use super::{Family, granite};
use crate::decoder::Numbers;
use crate::moe::Experts;
use crate::shape::Scoring;

/// Hugging Face's names, shared with Granite 4.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("ffn_down_exps", "block_sparse_moe.output_linear"),
    ("ffn_down_shexp", "shared_mlp.output_linear"),
    ("ffn_gate_inp", "block_sparse_moe.router.layer"),
    ("ffn_gate_up_exps", "block_sparse_moe.input_linear"),
    ("ffn_gate_up_shexp", "shared_mlp.input_linear"),
];

pub(super) static FAMILY: Family = Family {
    name: "granitemoe",
    gguf: &["granitemoe"],
    hugging_face: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
    tensors: TENSORS,
    keys: &[],
    shape: |config| {
        let numbers = Numbers::read(config)?;
        let experts = Experts::read(config, &numbers, Scoring::SoftmaxOfChosen)?;
        granite::shape(config, &numbers, |layer, attention| layer.pre_norm(attention, layer.moe(&experts)))
    },
};
