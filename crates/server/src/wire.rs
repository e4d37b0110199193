//! Wire types that several endpoints share; what only one has lies beside it.

mod adapters;
mod choosing;
mod format;
mod identifier;
mod likelihood;
mod messages;
mod tools;
mod usage;

pub use adapters::{read_adapters, scales_schema};
pub use choosing::Choosing;
pub use format::{format_schema, read_format};
pub use identifier::{identifier, now, now_s, timestamp};
pub use likelihood::ChoiceLikelihood;
pub use messages::{AnswerCall, SentMessages, answer_calls, content_schema, read_messages, text_of};
pub use tools::{Offer, SentTools, read_tools, tools_schema};
pub use usage::{StreamOptions, Timings, Usage, finish_reason};
