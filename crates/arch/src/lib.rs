//! Surface 1, architecture: what shape is this model?
//!
//! [`identify`] finds the family a checkpoint belongs to and writes its [`Shape`] with a [`Name`] in every weight slot.
//! This crate reads settings and the names of tensors; it sees no weight, no device and no request.
#![forbid(unsafe_code)]

pub mod config;
pub mod decoder;
pub mod encoder;
pub mod families;
mod latent;
pub mod moe;
pub mod name;
pub mod recurrent;
pub mod renaming;
pub mod shape;

use kauri_formats::Checkpoint;

pub use config::{Config, Error};
pub use families::Family;
pub use name::{Name, Role};
pub use shape::{
    Activation, Attention, Block, Branch, Convolution, Curve, Dense, Embed, Factors, Ffn, GatedDelta, GroupRank,
    Groups, Head, Latent, Leaning, Linear, Mixer, Moe, Norm, NormKind, Parallel, Pooling, Refinement, Rope,
    RopeScaling, RopeStyle, Scoring, Selective, Shape, Shared, ShortConv, State, StateSpace, StateSpaceScales, Summary,
    TimeMix, Wiring,
};

/// The family of a checkpoint and its shape, with the name of a tensor in every slot.
///
/// # Errors
/// When the architecture is unknown, or a setting is missing, out of bounds or of a kind that no shape has. No weight
/// has been read by then.
pub fn identify(checkpoint: &Checkpoint) -> Result<Shape<Name>, Error> {
    let config = Config::new(checkpoint)?;
    (config.family().shape)(&config)
}
