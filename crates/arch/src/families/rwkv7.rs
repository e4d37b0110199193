//! RWKV-7: time mixing in every layer, and networks that lean towards the token before (Peng 2025, arXiv:2503.14456).

use super::Family;
use crate::decoder::{FFN_MAX, Numbers, decoder, norm};
use crate::recurrent::TimeMixes;
use crate::shape::{Activation, Block, Dense, Embed, Ffn, Leaning, Mixer, Shape};

/// What the reference takes where a model states no context: its state has no end.
pub(super) const USUAL_CONTEXT_TOKENS: u32 = 1 << 20;

pub(super) static FAMILY: Family = Family {
    name: "rwkv7",
    gguf: &["rwkv7"],
    hugging_face: &["RWKV7ForCausalLM", "Rwkv7ForCausalLM"],
    tensors: &[
        ("attn_norm", "attn_norm"),
        ("attn_norm_2", "ffn_norm"),
        ("channel_mix_key", "ffn.key"),
        ("channel_mix_lerp_k.weight", "ffn.x_k"),
        ("channel_mix_value", "ffn.value"),
        ("time_mix_a0.weight", "attn.a_lora.lora.2.bias"),
        ("time_mix_a1", "attn.a_lora.lora.0"),
        ("time_mix_a2", "attn.a_lora.lora.2"),
        ("time_mix_g1", "attn.g_lora.lora.0"),
        ("time_mix_g2", "attn.g_lora.lora.2"),
        ("time_mix_k_a.weight", "attn.k_a"),
        ("time_mix_k_k.weight", "attn.k_k"),
        ("time_mix_key", "attn.k_proj"),
        ("time_mix_lerp_a.weight", "attn.x_a"),
        ("time_mix_lerp_g.weight", "attn.x_g"),
        ("time_mix_lerp_k.weight", "attn.x_k"),
        ("time_mix_lerp_r.weight", "attn.x_r"),
        ("time_mix_lerp_v.weight", "attn.x_v"),
        ("time_mix_lerp_w.weight", "attn.x_w"),
        ("time_mix_ln", "attn.g_norm"),
        ("time_mix_output", "attn.o_proj"),
        ("time_mix_r_k.weight", "attn.r_k"),
        ("time_mix_receptance", "attn.r_proj"),
        ("time_mix_v0.weight", "attn.v_lora.lora.2.bias"),
        ("time_mix_v1", "attn.v_lora.lora.0"),
        ("time_mix_v2", "attn.v_lora.lora.2"),
        ("time_mix_value", "attn.v_proj"),
        ("time_mix_w0.weight", "attn.w_lora.lora.2.bias"),
        ("time_mix_w1", "attn.w_lora.lora.0"),
        ("time_mix_w2", "attn.w_lora.lora.2"),
        ("token_embd", "embeddings"),
        ("token_embd_norm", "layers.0.pre_norm"),
    ],
    keys: &[
        ("attention.decay_lora_rank", &["decay_low_rank_dim"]),
        ("attention.gate_lora_rank", &["gate_low_rank_dim"]),
        ("attention.iclr_lora_rank", &["a_low_rank_dim"]),
        ("attention.layer_norm_epsilon", &["norm_eps"]),
        ("attention.value_residual_mix_lora_rank", &["v_low_rank_dim"]),
        ("wkv.head_size", &["head_dim"]),
    ],
    shape: |config| {
        if config.json("norm_first").is_some_and(|first| *first != true) {
            return Err(config.unsupported("norm_first other than true"));
        }
        if config.json("attn").is_some() {
            return Err(config.unsupported("layers of attention between the others (attn)"));
        }
        let numbers = Numbers::body(config, Some(USUAL_CONTEXT_TOKENS))?;
        let (hidden, ffn) = (numbers.hidden, config.count("feed_forward_length", FFN_MAX)?);
        let mixes = TimeMixes::read(config, hidden)?;
        let shape = decoder(config, &numbers, Vec::new(), |layer| {
            let dense = Dense {
                gate: None,
                up: layer.linear("channel_mix_key", ffn, hidden),
                down: layer.linear("channel_mix_value", hidden, ffn),
                activation: numbers.activation.unwrap_or(Activation::ReluSquared),
                gate_scale: 1.0,
            };
            let shifted = Leaning { lean: layer.vector("channel_mix_lerp_k.weight", hidden), op: dense };
            let ffn = layer.feeding("attn_norm_2", Ffn::Shifted(shifted)).ffn;
            Ok(Block { ffn, ..layer.mixing("attn_norm", Mixer::TimeMix(layer.time_mix(&mixes))) })
        })?;
        let embed = Embed { norm: Some(norm(config, &numbers, "token_embd_norm", hidden)), ..shape.embed };
        // Some files have a residual in the first layer, too, which is where there is nothing to go to.
        let unused =
            ["v0", "v1", "v2"].map(|slot| config.vector(&format!("blk.0.time_mix_{slot}.weight"), 0, 0.0).tensor);
        Ok(Shape { embed, left_out: unused.to_vec(), ..shape })
    },
};
