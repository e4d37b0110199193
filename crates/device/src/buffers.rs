//! The activations a forward pass works on: a closed set, sized at load, owned by the device.
//!
//! Operations name buffers instead of passing them, so that a device may place them where it likes and record a step for
//! replay at fixed addresses.

use kauri_arch::{Mixer, Shape};

use crate::batch::Plan;

/// One activation buffer. Rows are the batch's tokens, or its outputs where noted; a row's values are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// The residual stream: (tokens, hidden).
    Stream,
    /// What a branch reads after its norm: (tokens, hidden).
    Normed,
    /// (tokens, heads, `head_dim`).
    Query,
    /// (tokens, `kv_heads`, `head_dim`).
    Key,
    /// (tokens, `kv_heads`, `head_dim`).
    Value,
    /// What attention gathered: (tokens, heads, `head_dim`).
    Mixed,
    /// The gated values of a feed-forward network: (tokens, width).
    Gate,
    /// (tokens, width).
    Up,
    /// What a branch adds to the stream: (tokens, hidden).
    Branch,
    /// The router's scores of all experts, then their weights: (tokens, experts).
    Scores,
    /// What experts come to together: (tokens, hidden).
    Mixture,
    /// The stream of the wanted tokens: (outputs, hidden).
    Last,
    /// (outputs, vocab).
    Logits,
}

/// Which rows of the batch a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One for every token.
    Tokens,
    /// One for every token whose logits are wanted.
    Outputs,
}

impl Buffer {
    /// Every buffer, in the order of the variants.
    pub const ALL: [Self; 13] = [
        Self::Stream,
        Self::Normed,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::Mixed,
        Self::Gate,
        Self::Up,
        Self::Branch,
        Self::Scores,
        Self::Mixture,
        Self::Last,
        Self::Logits,
    ];

    /// Which rows it has.
    pub const fn extent(self) -> Extent {
        match self {
            Self::Last | Self::Logits => Extent::Outputs,
            Self::Stream
            | Self::Normed
            | Self::Query
            | Self::Key
            | Self::Value
            | Self::Mixed
            | Self::Gate
            | Self::Up
            | Self::Branch
            | Self::Scores
            | Self::Mixture => Extent::Tokens,
        }
    }

    /// The most values that a forward pass of `shape` keeps in it.
    pub fn values<W>(self, shape: &Shape<W>, plan: &Plan) -> usize {
        let hidden = shape.hidden as usize;
        let experts = shape.blocks.iter().filter_map(|block| block.ffn.op.moe()).map(|moe| moe.experts.len());
        let experts = experts.max().unwrap_or(0);
        let attention = |width: fn(&kauri_arch::Attention<W>) -> u32| {
            let widths = shape.blocks.iter().map(|block| match &block.mixer.op {
                Mixer::Attention(attention) => width(attention),
            });
            widths.max().unwrap_or(0) as usize
        };
        let width = match self {
            Self::Stream | Self::Normed | Self::Branch | Self::Last => hidden,
            Self::Query | Self::Mixed => attention(|attention| attention.heads * attention.head_dim),
            Self::Key | Self::Value => attention(|attention| attention.kv_heads * attention.head_dim),
            Self::Gate | Self::Up => {
                let widths = shape.blocks.iter().flat_map(|block| block.ffn.op.widths());
                widths.max().unwrap_or(0) as usize
            }
            Self::Scores => experts,
            Self::Mixture => hidden * usize::from(experts > 0),
            Self::Logits => shape.vocab as usize,
        };
        let rows = match self.extent() {
            Extent::Tokens => plan.batch_tokens,
            Extent::Outputs => plan.batch_outputs,
        };
        width * rows as usize
    }
}
