//! GPT-J: both branches read one norm; rope on a part of each head, biases in the network and the head (Wang 2021).

use super::Family;
use crate::decoder::{Numbers, decoder, rope};
use crate::shape::{Activation, Block, Dense, RopeStyle, Wiring};

pub(super) static FAMILY: Family = Family {
    name: "gptj",
    gguf: &["gptj"],
    hugging_face: &["GPTJForCausalLM"],
    tensors: &[
        ("attn_k", "attn.k_proj"),
        ("attn_norm", "ln_1"),
        ("attn_output", "attn.out_proj"),
        ("attn_q", "attn.q_proj"),
        ("attn_v", "attn.v_proj"),
        ("ffn_down", "mlp.fc_out"),
        ("ffn_up", "mlp.fc_in"),
        ("output_norm", "ln_f"),
        ("token_embd", "wte"),
    ],
    keys: &[("feed_forward_length", &["n_inner"])],
    shape: |config| {
        let numbers = Numbers::of_width(config, 4, None, None)?;
        decoder(config, &numbers, vec![rope(config, &numbers, RopeStyle::Pairs)?], |layer| {
            let dense = Dense { gate: None, ..layer.gated(Activation::GeluTanh) };
            let ffn = layer.feeding("attn_norm", dense.into()).ffn;
            Ok(Block { ffn, wiring: Wiring::Parallel, ..layer.mixing("attn_norm", layer.attention().into()) })
        })
    },
};
