//! What one render may cost. The engine counts instructions (fuel); it does not see how large the values are that one
//! instruction makes or reads. So every operation of this crate charges the bytes that it reads and makes here, and the
//! charge comes before the work.

use super::{Error, Limits};
use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{ErrorKind, State};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name under which a render finds its budget; templates cannot use names that start like it.
pub(super) const BUDGET: &str = "_kauri_budget";

/// The limits of one render and what is left of them.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    work_bytes_left: AtomicU64,
    output_bytes_left: AtomicU64,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            work_bytes_left: AtomicU64::new(limits.work_bytes_max),
            output_bytes_left: AtomicU64::new(limits.output_bytes_max),
        }
    }

    /// The budget of the render that `state` belongs to.
    pub fn of(state: &mut State<'_, '_>) -> Result<Arc<Self>, minijinja::Error> {
        if let Some(budget) = state.get_extension::<Arc<Self>>() {
            return Ok(budget.clone());
        }
        let budget = state
            .lookup(BUDGET)
            .and_then(|value| value.downcast_object::<Self>())
            .ok_or_else(|| failed("the render has no budget"))?;
        Ok(state.get_or_insert_extension(budget).clone())
    }

    /// Pays for reading or making `bytes`. A render runs on one thread: the atomics are for the engine's `Sync` alone.
    pub fn work(&self, bytes: u64) -> Result<(), minijinja::Error> {
        take(&self.work_bytes_left, bytes)
            .then_some(())
            .ok_or_else(|| limit("render work bytes", self.limits.work_bytes_max))
    }

    /// Pays for making a value of `bytes`, which must also be within the limit for one value.
    pub fn make(&self, bytes: u64) -> Result<(), minijinja::Error> {
        self.within_value(bytes)?;
        self.work(bytes)
    }

    /// Refuses a value of more bytes than one value may have.
    pub fn within_value(&self, bytes: u64) -> Result<(), minijinja::Error> {
        if bytes > self.limits.value_bytes_max {
            return Err(limit("value bytes", self.limits.value_bytes_max));
        }
        Ok(())
    }

    /// Pays for output, captured output too.
    pub fn output(&self, bytes: u64) -> Result<(), minijinja::Error> {
        if !take(&self.output_bytes_left, bytes) {
            return Err(limit("output bytes", self.limits.output_bytes_max));
        }
        self.work(bytes)
    }
}

impl Object for Budget {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

fn take(left: &AtomicU64, bytes: u64) -> bool {
    let now = left.load(Ordering::Relaxed);
    left.store(now.saturating_sub(bytes), Ordering::Relaxed);
    now >= bytes
}

/// Why a render stopped, carried through the engine as the source of its error.
#[derive(Debug)]
pub(super) enum Stop {
    /// The template called `raise_exception`.
    Raised(String),
    /// A limit was reached.
    Limit { limit: &'static str, max: u64 },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raised(message) => f.write_str(message),
            Self::Limit { limit, max } => write!(f, "limit {limit} = {max}"),
        }
    }
}

impl std::error::Error for Stop {}

impl Stop {
    /// The engine's error with this as its source.
    pub fn into_engine_error(self) -> minijinja::Error {
        minijinja::Error::new(ErrorKind::InvalidOperation, "stopped").with_source(self)
    }

    pub fn error(&self) -> Error {
        match self {
            Self::Raised(message) => Error::Raised { message: message.clone() },
            Self::Limit { limit, max } => Error::limit(limit, *max),
        }
    }
}

pub(super) fn limit(limit: &'static str, max: u64) -> minijinja::Error {
    Stop::Limit { limit, max }.into_engine_error()
}

/// An operation that cannot be done with these values: what the template's author sees.
pub(super) fn failed(message: impl Into<std::borrow::Cow<'static, str>>) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, message)
}

/// Whether a value is one of the engine's own, which have no place in data.
pub(super) fn is_engine_object(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.repr() != ObjectRepr::Plain && !object.type_name().ends_with("::Macro"))
}
