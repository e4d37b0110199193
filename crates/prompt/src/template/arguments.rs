//! Arguments of a filter, method or function, by position or by name, as Python binds them.

use super::budget::failed;
use super::text::clean;
use super::value::Number;
use minijinja::Error;
use minijinja::value::{Kwargs, Value};
use std::borrow::Cow;

/// The arguments, one place for each parameter.
pub(super) struct Arguments {
    function: &'static str,
    parameters: &'static [&'static str],
    values: Vec<Option<Value>>,
}

impl Arguments {
    /// Binds `args` to `parameters`: too many, unknown or doubled ones are errors that name the function.
    pub fn bind(function: &'static str, parameters: &'static [&'static str], args: &[Value]) -> Result<Self, Error> {
        let (positional, named) = split(args);
        if positional.len() > parameters.len() {
            return Err(failed(format!(
                "{function} takes at most {} arguments, not {}",
                parameters.len(),
                positional.len()
            )));
        }
        let mut values: Vec<_> = positional.iter().cloned().map(Some).collect();
        values.resize(parameters.len(), None);
        if let Some(named) = named {
            for name in named.args() {
                let at = parameters
                    .iter()
                    .position(|parameter| *parameter == name)
                    .filter(|&at| values[at].is_none())
                    .ok_or_else(|| failed(format!("{function} has no use for the argument {name}")))?;
                values[at] = Some(named.peek(name)?);
            }
        }
        Ok(Self { function, parameters, values })
    }

    /// The argument, if it was given.
    pub fn optional(&self, at: usize) -> Option<&Value> {
        self.values[at].as_ref()
    }

    /// The argument, or an error that names it.
    pub fn required(&self, at: usize) -> Result<&Value, Error> {
        self.optional(at).ok_or_else(|| failed(format!("{} needs the argument {}", self.function, self.parameters[at])))
    }

    /// A flag: any value, by its truth; `otherwise` when it was not given.
    pub fn flag(&self, at: usize, otherwise: bool) -> bool {
        self.optional(at).map_or(otherwise, Value::is_true)
    }

    /// An integer within what a size may be, or `otherwise`.
    pub fn integer(&self, at: usize, otherwise: i64) -> Result<i64, Error> {
        match self.optional(at).filter(|value| !value.is_none()) {
            None => Ok(otherwise),
            Some(value) => as_integer(value).ok_or_else(|| self.wrong(at, "an integer")),
        }
    }

    /// A string, clean of marks; `None` when it was not given or is none.
    pub fn string(&self, at: usize) -> Result<Option<Cow<'_, str>>, Error> {
        match self.optional(at).filter(|value| !value.is_none()) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(clean(text))),
                None => Err(self.wrong(at, "a string")),
            },
        }
    }

    fn wrong(&self, at: usize, wanted: &str) -> Error {
        failed(format!("{}: the argument {} must be {wanted}", self.function, self.parameters[at]))
    }
}

/// The positional arguments, and the named ones if there are any.
pub(super) fn split(args: &[Value]) -> (&[Value], Option<Kwargs>) {
    match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => (rest, Kwargs::try_from(last.clone()).ok()),
        _ => (args, None),
    }
}

/// The value as an integer, saturating: indexes and sizes beyond 64 bits are as good as the largest one.
pub(super) fn as_integer(value: &Value) -> Option<i64> {
    match Number::of(value)? {
        Number::Integer(integer) => Some(integer.clamp(i64::MIN.into(), i64::MAX.into()) as i64),
        Number::Float(_) => None,
    }
}
