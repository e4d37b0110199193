//! The four surfaces composed: an [`Engine`] holds a loaded model on a device, a [`Session`] one conversation on it, a [`Service`]
//! as many as come.
//!
//! This is the way in for programs and for the commands. It knows no wire format and runs no tools.
#![forbid(unsafe_code)]

mod adapters;
mod between;
mod chat;
mod decode;
mod devices;
mod dialogue;
mod drawing;
mod engine;
mod error;
mod events;
mod fitting;
mod inspect;
mod large_pages;
pub mod making;
mod masks;
mod observe;
mod reader;
mod remember;
mod replay;
mod serve;
mod session;
mod writing;

pub use adapters::{AdapterFacts, AdapterFile};
pub use chat::{Call, Chat, Message};
pub use decode::Request;
pub use devices::{Adapter, DeviceChoice, Gpu, Machine, has_simd, machine};
pub use dialogue::{Asked, Reading};
pub use engine::{Defaults, Engine, Options};
pub use error::Error;
pub use events::{Done, Event, Finish, Likelihood};
pub use fitting::{Fitted, Misfit, OnGpu, Resident, fit, measure};
pub use inspect::{Inspection, TensorLine, files, inspect, template_source, tokenizer};
pub use reader::{Passage, Reader, Wanted};
pub use remember::Remembering;
pub use serve::{Answer, Listener, Pace, Reply, Service, Serving, Submission, Ticket};
pub use session::{Session, Synced};

// What the engine's callers need of the layers below, so that they need no edge of their own.
pub use kauri_arch::Pooling;
pub use kauri_device::{Applied, Batch, CacheType, Ceilings, Choice, OpCost, Plan};
pub use kauri_device_cpu::Isa;
pub use kauri_formats::Quant;
pub use kauri_model::fit::{Placement, SHORTEST_WINDOW_TOKENS, Sums};
pub use kauri_model::memory::Memory;
pub use kauri_model::resolve::{DEFAULT_NAME, is_model};
pub use kauri_model::{catalog, choose, draft, importance, local, mix, pull, quantize, resolve, warm};
pub use kauri_prompt::schedule::Status;
pub use kauri_prompt::store::{Notice, Stored};
pub use kauri_prompt::template::{self, Template};
pub use kauri_step::answer::Form;
pub use kauri_step::grammar;
pub use kauri_step::sample::{self, Sampling};
pub use kauri_step::stop;
pub use kauri_step::tools::{self, Tool, Tools};
pub use kauri_tokenizer::{Special, Tokenizer};
