//! The seam between a model and a machine: what a device must do, what a step is, and the one forward pass.
//!
//! A device implements [`Ops`] and, with [`forward()`], an [`Executor`]. This crate sees no request and no file.
#![forbid(unsafe_code)]

pub mod apart;
pub mod batch;
pub mod buffers;
pub mod conformance;
pub mod draw;
pub mod executor;
pub mod formula;
pub mod forward;
pub mod measure;
pub mod memory;
pub mod ops;
pub mod plain;
pub mod recurrence;
pub mod reference;
pub mod rope;
pub mod split;
pub mod weight;

pub use apart::{Apart, Experts};
pub use batch::{ADAPTERS_MAX, Applied, Batch, CacheType, Plan, Ring, Sequence};
pub use buffers::{Buffer, Extent};
pub use draw::{CHANGES_MAX, Change, Draw, Effect};
pub use executor::{Choice, DeviceError, Executor, Sampled};
pub use forward::{Ends, forward};
pub use measure::{Ceilings, Measured, OpCost};
pub use memory::Memory;
pub use ops::{Ops, Part, Share, Side};
pub use split::{Split, Stage};
pub use weight::{Adapted, LowRank, Matrix, Weight};
