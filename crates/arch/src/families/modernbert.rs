//! `ModernBERT`: a norm before each branch, rope, a gate, windows to both sides on most layers (Warner 2024, arXiv:2412.13663).

use super::Family;
use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, decoder, norm, rope};
use crate::encoder::{embed, encoder};
use crate::name::Name;
use crate::shape::{
    Activation, Attention, Block, Branch, Curve, Dense, NormKind, Pooling, Refinement, Rope, RopeStyle, Shape, Summary,
};

pub(super) static FAMILY: Family = Family {
    name: "modern-bert",
    gguf: &["modern-bert"],
    hugging_face: &["ModernBertForMaskedLM", "ModernBertForSequenceClassification", "ModernBertModel"],
    tensors: &[
        ("attn_norm", "attn_norm"),
        ("attn_output", "attn.Wo"),
        ("attn_qkv", "attn.Wqkv"),
        ("cls", "head.dense"),
        ("cls.norm", "head.norm"),
        ("cls.output", "classifier"),
        ("ffn_down", "mlp.Wo"),
        ("ffn_norm", "mlp_norm"),
        ("ffn_up", "mlp.Wi"),
        ("output_norm", "final_norm"),
        ("token_embd", "embeddings.tok_embeddings"),
        ("token_embd_norm", "embeddings.norm"),
    ],
    keys: &[
        ("attention.layer_norm_epsilon", &["layer_norm_eps", "norm_eps"]),
        ("attention.sliding_window", &["local_attention"]),
        ("attention.sliding_window_pattern", &["global_attn_every_n_layers"]),
        ("hidden_activation", &["hidden_activation"]),
        ("rope.freq_base", &["rope_parameters.full_attention.rope_theta", "global_rope_theta"]),
        ("rope.freq_base_swa", &["rope_parameters.sliding_attention.rope_theta", "local_rope_theta"]),
    ],
    shape,
};

fn shape(config: &Config<'_>) -> Result<Shape<Name>, Error> {
    let activation = match config.text("hidden_activation") {
        None | Some("gelu") => Activation::Gelu,
        Some("silu") => Activation::Silu,
        Some(other) => return Err(config.unsupported(format!("the activation {other:?}"))),
    };
    // Some files say the epsilon of its norms where others have that of another kind.
    let numbers = Numbers { norm: NormKind::Layer, ..Numbers::read(config)? };
    let period = config.optional_count("attention.sliding_window_pattern", 1 << 10)?.unwrap_or(3);
    let full = rope(config, &numbers, RopeStyle::Halves)?;
    let windowed = Rope { base: config.optional_positive("rope.freq_base_swa")?.unwrap_or(full.base), ..full.clone() };
    let shape = decoder(config, &numbers, vec![full, windowed], |layer| Ok(block(layer, period, activation)))?;
    let embed = embed(config, &numbers, shape.embed);
    let shape = encoder(config, &numbers, Pooling::First, Shape { embed, ..shape })?;
    Ok(Shape { summary: judged(config, &numbers, shape.summary)?, ..shape })
}

fn block(layer: &Layer<'_>, period: u32, activation: Activation) -> Block<Name> {
    let Numbers { hidden, ffn, .. } = *layer.numbers();
    let windowed = layer.is_windowed(!layer.index.is_multiple_of(period));
    let attention = Attention {
        rope: Some(usize::from(windowed)),
        // Stated is how far it reaches to both sides together.
        window_tokens: layer.window(windowed).map(|both| both / 2 + 1),
        ..layer.packed_both_ways()
    };
    let [gate, up] = layer.split("ffn_up", [ffn; 2], hidden);
    let block = layer.pre_norm(attention, Dense { gate: Some(gate), up, activation, ..layer.gated(activation) });
    // The embeddings are normalised already.
    let norm = |branch: Branch<_, _>| Branch { norm: branch.norm.filter(|_| layer.index > 0), ..branch };
    Block { mixer: block.mixer.map(norm), ..block }
}

/// Its classifier reads the mean or the first token, and has a norm.
fn judged(config: &Config<'_>, numbers: &Numbers, summary: Summary<Name>) -> Result<Summary<Name>, Error> {
    if !summary.judges {
        return Ok(summary);
    }
    let stated = config.json("classifier_pooling").and_then(|pooling| pooling.as_str());
    let pooling = match (config.optional_count("classifier.pooling_type", 4)?, stated) {
        (Some(2), _) | (_, Some("cls")) => Pooling::First,
        (None | Some(1), None | Some("mean")) => Pooling::Mean,
        (number, _) => return Err(config.unsupported(format!("a classifier's pooling {number:?} {stated:?}"))),
    };
    let refinements = summary.refinements.into_iter().map(|refinement| match refinement.curve {
        Curve::Tanh | Curve::Gelu => {
            let norm = config.has("cls.norm.weight").then(|| norm(config, numbers, "cls.norm", numbers.hidden));
            Refinement { curve: Curve::Gelu, norm, ..refinement }
        }
        Curve::Line => refinement,
    });
    Ok(Summary { pooling, refinements: refinements.collect(), ..summary })
}
