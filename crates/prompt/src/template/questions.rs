//! Jinja's tests (`x is string`), with Python's idea of what each value is.

use super::budget::{Budget, failed};
use super::compare;
use super::print::to_text;
use super::value::{LongInteger, Number, as_bool, as_list, as_map};
use minijinja::value::Value;
use minijinja::{Error, State};

pub(super) type Question = fn(&mut State<'_, '_>, &[Value]) -> Result<bool, Error>;

/// The tests by name.
pub(super) const QUESTIONS: &[(&str, Question)] = &[
    ("_kauri_in", |state, args| compared(state, args, "in")),
    ("!=", |state, args| compared(state, args, "!=")),
    ("<", |state, args| compared(state, args, "<")),
    ("<=", |state, args| compared(state, args, "<=")),
    ("==", |state, args| compared(state, args, "==")),
    (">", |state, args| compared(state, args, ">")),
    (">=", |state, args| compared(state, args, ">=")),
    ("boolean", |_, args| Ok(as_bool(&args[0]).is_some())),
    ("callable", |_, args| Ok(is_callable(&args[0]))),
    ("defined", |_, args| Ok(!args[0].is_undefined())),
    ("divisibleby", |_, args| divides(args.get(1).unwrap_or(&Value::UNDEFINED), &args[0])),
    ("eq", |state, args| compared(state, args, "==")),
    ("equalto", |state, args| compared(state, args, "==")),
    ("escaped", |_, args| Ok(args[0].is_safe())),
    ("even", |_, args| divides(&Value::from(2), &args[0])),
    ("false", |_, args| Ok(as_bool(&args[0]) == Some(false))),
    ("float", |_, args| Ok(args[0].is_number() && !args[0].is_integer())),
    ("ge", |state, args| compared(state, args, ">=")),
    ("greaterthan", |state, args| compared(state, args, ">")),
    ("gt", |state, args| compared(state, args, ">")),
    ("in", |state, args| compared(state, args, "in")),
    ("integer", |_, args| Ok(args[0].is_integer() || is_long(&args[0]))),
    ("iterable", |_, args| Ok(is_iterable(&args[0]))),
    ("le", |state, args| compared(state, args, "<=")),
    ("lessthan", |state, args| compared(state, args, "<")),
    ("lower", |state, args| cased(state, &args[0], char::is_lowercase, char::is_uppercase)),
    ("lt", |state, args| compared(state, args, "<")),
    ("mapping", |_, args| Ok(as_map(&args[0]).is_some())),
    ("ne", |state, args| compared(state, args, "!=")),
    ("none", |_, args| Ok(args[0].is_none())),
    ("number", |_, args| Ok(Number::of(&args[0]).is_some() || is_long(&args[0]))),
    ("odd", |_, args| is_odd(&args[0])),
    ("sameas", |_, args| Ok(compare::identical(&args[0], args.get(1).unwrap_or(&Value::UNDEFINED)))),
    ("sequence", |_, args| Ok(is_iterable(&args[0]))),
    ("string", |_, args| Ok(args[0].as_str().is_some())),
    ("true", |_, args| Ok(as_bool(&args[0]) == Some(true))),
    ("undefined", |_, args| Ok(args[0].is_undefined())),
    ("upper", |state, args| cased(state, &args[0], char::is_uppercase, char::is_lowercase)),
];

fn compared(state: &mut State<'_, '_>, args: &[Value], operator: &str) -> Result<bool, Error> {
    let other = args.get(1).ok_or_else(|| failed("this test compares with a value"))?;
    compare::compare(&*Budget::of(state)?, &args[0], operator, other)
}

fn divides(divisor: &Value, number: &Value) -> Result<bool, Error> {
    match (Number::of(divisor), Number::of(number)) {
        (Some(divisor), Some(number @ Number::Float(_))) => Ok(number.as_float() % divisor.as_float() == 0.0),
        (Some(Number::Integer(divisor)), Some(Number::Integer(number))) if divisor != 0 => {
            Ok(number.checked_rem(divisor).unwrap_or(0) == 0)
        }
        _ => Err(failed("odd, even and divisibleby take numbers")),
    }
}

/// One more than an even number: half a number is neither.
fn is_odd(number: &Value) -> Result<bool, Error> {
    let is_whole = Number::of(number).is_none_or(|number| number.as_float().fract() == 0.0);
    Ok(!divides(&Value::from(2), number)? && is_whole)
}

fn cased(
    state: &mut State<'_, '_>,
    value: &Value,
    some: fn(char) -> bool,
    none: fn(char) -> bool,
) -> Result<bool, Error> {
    let text = to_text(&*Budget::of(state)?, value)?;
    let text = text.as_str();
    Ok(text.chars().any(some) && !text.chars().any(none))
}

/// Strings, containers and the undefined: what Python can go over and take the length of.
fn is_iterable(value: &Value) -> bool {
    value.as_str().is_some() || value.is_undefined() || is_container(value)
}

fn is_long(value: &Value) -> bool {
    value.downcast_object_ref::<LongInteger>().is_some()
}

fn is_container(value: &Value) -> bool {
    as_list(value).is_some() || as_map(value).is_some()
}

fn is_callable(value: &Value) -> bool {
    value.as_object().is_some() && !is_container(value) && !is_long(value)
}
