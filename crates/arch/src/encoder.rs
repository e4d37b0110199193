//! What families have in common whose tokens see those behind them, and what makes a vector or a score of a text.

use crate::config::{Config, Error};
use crate::decoder::{Layer, Numbers, norm};
use crate::name::Name;
use crate::shape::{
    Activation, Attention, Block, Branch, Curve, Dense, Embed, Ffn, Head, Linear, Mixer, Pooling, Refinement, Shape,
    Summary, Wiring,
};

/// Most kinds of tokens.
const KINDS_MAX: u64 = 1 << 10;
/// How the names of tensors begin that encoders have for their training: they are not used.
const TRAINING: &[&str] = &[
    "decoder.",
    "head.",
    "pooler.",
    "cls.predictions.",
    "cls.seq_relationship.",
    "lm_head.",
    "embeddings.position_ids",
];

/// What a decoder's description leaves to be said of an encoder: nothing is written, and vectors are pooled as the file says, else
/// in the `usual` way.
pub fn encoder(
    config: &Config<'_>,
    numbers: &Numbers,
    usual: Pooling,
    shape: Shape<Name>,
) -> Result<Shape<Name>, Error> {
    let left_out = TRAINING.iter().flat_map(|name| ["", "bert.", "roberta."].map(|prefix| format!("{prefix}{name}")));
    Ok(Shape {
        head: Head { output: None, ..shape.head },
        summary: summary(config, numbers, usual)?,
        left_out: left_out.collect(),
        ..shape
    })
}

/// The same of BERT's kin: a token begins as BERT's does, and the norm in front of the head is the last layer's own.
pub fn kin_of_bert(config: &Config<'_>, numbers: &Numbers, shape: Shape<Name>) -> Result<Shape<Name>, Error> {
    let last = format!("blk.{}.layer_output_norm", numbers.layers - 1);
    let embed = embed(config, numbers, shape.embed);
    let shape = Shape { embed, norm: norm(config, numbers, &last, numbers.hidden), ..shape };
    encoder(config, numbers, Pooling::Mean, shape)
}

/// How the file says that vectors are pooled, else the `usual` way; and its classifier, if it has one, which reads the first token
/// unless the family knows better.
pub fn summary(config: &Config<'_>, numbers: &Numbers, usual: Pooling) -> Result<Summary<Name>, Error> {
    let pooling = config.pooling()?;
    let hidden = numbers.hidden;
    let labels = match config.rows_of("cls.output.weight") {
        None => return Ok(Summary::pooled(pooling.unwrap_or(usual))),
        // One row may have lost its dimension.
        Some(rows) if rows == u64::from(hidden) => 1,
        Some(labels @ (1 | 2)) => labels as u32,
        Some(labels) => return Err(config.unsupported(format!("a classifier of {labels} labels"))),
    };
    let linear = |slot: &str, rows: u32| {
        let bias = format!("{slot}.bias");
        Linear {
            rows,
            columns: hidden,
            weight: config.matrix(&format!("{slot}.weight"), rows, hidden),
            bias: config.has(&bias).then(|| config.vector(&bias, rows, 0.0)),
        }
    };
    let first =
        config.has("cls.weight").then(|| Refinement { linear: linear("cls", hidden), curve: Curve::Tanh, norm: None });
    let last = Refinement { linear: linear("cls.output", labels), curve: Curve::Line, norm: None };
    let usual = if usual == Pooling::Last { usual } else { Pooling::First };
    Ok(Summary {
        pooling: pooling.unwrap_or(usual),
        refinements: first.into_iter().chain([last]).collect(),
        judges: true,
    })
}

/// What a token begins as in BERT: a row of its own, and of its kind if there are such, normalised.
pub fn embed(config: &Config<'_>, numbers: &Numbers, embed: Embed<Name>) -> Embed<Name> {
    let kinds = config.rows_of("token_types.weight").filter(|kinds| (1..=KINDS_MAX).contains(kinds));
    let kinds = kinds.map(|kinds| if kinds == u64::from(numbers.hidden) { 1 } else { kinds as u32 });
    Embed {
        kinds: kinds.map(|kinds| config.matrix("token_types.weight", kinds, numbers.hidden)),
        norm: Some(norm(config, numbers, "token_embd_norm", numbers.hidden)),
        ..embed
    }
}

impl Layer<'_> {
    /// Attention in which every token sees all others.
    pub fn attention_both_ways(&self) -> Attention<Name> {
        Attention { both_ways: true, ..self.attention() }
    }

    /// The same with one matrix for queries, keys and values.
    pub fn packed_both_ways(&self) -> Attention<Name> {
        let attention = self.attention_both_ways();
        let rows = [&attention.q, &attention.k, &attention.v].map(|linear| linear.rows);
        let [q, k, v] = self.split("attn_qkv", rows, self.numbers().hidden);
        Attention { q, k, v, ..attention }
    }

    /// BERT's block: a norm of each sum. That of the last layer is the norm in front of the head.
    pub fn normed_sums(&self, attention: Attention<Name>, ffn: impl Into<Ffn<Name>>) -> Block<Name> {
        let is_last = self.index + 1 == self.numbers().layers;
        let (op, norm) = (Mixer::Attention(attention), self.norm("attn_output_norm"));
        let mixer = Branch { norm: None, op, post_norm: Some(norm), scale: 1.0 };
        let norm = (!is_last).then(|| self.norm("layer_output_norm"));
        let ffn = Branch { norm: None, op: ffn.into(), post_norm: norm, scale: 1.0 };
        Block { mixer: Some(mixer), ffn: Some(ffn), wiring: Wiring::NormedSums }
    }

    /// A feed-forward network of two matrices.
    pub fn ungated(&self, usual: Activation) -> Dense<Name> {
        Dense { gate: None, ..self.gated(usual) }
    }
}
