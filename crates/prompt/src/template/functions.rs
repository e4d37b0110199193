//! The functions a chat template may call: `range`, `dict`, `namespace`, and the two that Hugging Face adds,
//! `raise_exception` and `strftime_now`.

use super::arguments::{Arguments, split};
use super::budget::{Budget, Stop, failed, limit};
use super::clock::Moment;
use super::operators::{Operation, items_of};
use super::print::to_text;
use super::text::{Text, clean};
use super::value::{as_map, list, map};
use minijinja::value::{Kwargs, Value};
use minijinja::{Error, State, functions as engine};

/// The functions by name.
pub(super) const FUNCTIONS: &[(&str, Operation)] = &[
    ("dict", dict),
    ("namespace", namespace),
    ("raise_exception", raise_exception),
    ("range", range),
    ("strftime_now", strftime_now),
];

/// The longest range, as in Jinja's sandbox.
const RANGE_ITEMS_MAX: usize = 100_000;

/// The name of the variable that holds the render's clock.
pub(super) const CLOCK: &str = "_kauri_clock";

fn range(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let arguments = Arguments::bind("range", &["start", "stop", "step"], args)?;
    arguments.required(0)?;
    let (start, stop) = match arguments.optional(1) {
        Some(_) => (arguments.integer(0, 0)?, arguments.integer(1, 0)?),
        None => (0, arguments.integer(0, 0)?),
    };
    let step = arguments.integer(2, 1)?;
    if step == 0 {
        return Err(failed("range: the step cannot be zero"));
    }
    let mut items = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        if items.len() == RANGE_ITEMS_MAX {
            return Err(limit("range items", RANGE_ITEMS_MAX as u64));
        }
        items.push(Value::from(at));
        at = match at.checked_add(step) {
            Some(next) => next,
            None => break,
        };
    }
    list(&budget, items)
}

fn dict(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let (positional, named) = split(args);
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    if let Some(source) = positional.first() {
        if let Some(source) = as_map(source) {
            pairs.extend(source.entries.values().cloned());
        } else {
            for pair in items_of(&budget, source)? {
                match items_of(&budget, &pair)?.as_slice() {
                    [key, value] => pairs.push((key.clone(), value.clone())),
                    _ => return Err(failed("dict takes a dict or a list of pairs")),
                }
            }
        }
    }
    if let Some(named) = &named {
        for name in named.args() {
            pairs.push((Value::from(name), named.peek(name)?));
        }
    }
    map(&budget, pairs)
}

fn namespace(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let members = dict(state, args)?;
    let members = as_map(&members).map(|members| members.entries.values().cloned());
    let members =
        members.into_iter().flatten().filter_map(|(name, value)| Some((clean(name.as_str()?).into_owned(), value)));
    let members: Kwargs = members.collect();
    Value::from_function(engine::namespace).call(state, &[Value::from(members)])
}

fn raise_exception(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let message = to_text(&*Budget::of(state)?, args.first().unwrap_or(&Value::UNDEFINED))?;
    Err(Stop::Raised(message.as_str().to_owned()).into_engine_error())
}

fn strftime_now(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let pattern = args.first().and_then(Value::as_str).ok_or_else(|| failed("strftime_now takes a format"))?;
    budget.work(32 * pattern.len() as u64)?;
    let clock = state.lookup(CLOCK).and_then(|clock| clock.downcast_object::<Moment>());
    let clock = clock.ok_or_else(|| failed("strftime_now: the render was given no clock; set the variable now"))?;
    Ok(Value::from(Text::own(clock.format(&clean(pattern))).encode()))
}
