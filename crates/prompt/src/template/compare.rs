//! Equality, order and containment as Python has them. Origin plays no part: marks are left out of every comparison, so
//! no template can tell the conversation's text from its own.

use super::budget::{Budget, failed};
use super::text::clean;
use super::value::{Key, LongInteger, Number, as_bool, as_list, as_map, measure, shallow_bytes};
use minijinja::Error;
use minijinja::value::Value;
use std::cmp::Ordering;

/// `a == b`. Pay for it with [`comparison_bytes`].
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return a == b || clean(a) == clean(b);
    }
    if let (Some(a), Some(b)) = (as_list(a), as_list(b)) {
        return a.is_tuple == b.is_tuple
            && a.items.len() == b.items.len()
            && a.items.iter().zip(&b.items).all(|(a, b)| equal(a, b));
    }
    if let (Some(a), Some(b)) = (as_map(a), as_map(b)) {
        return a.entries.len() == b.entries.len()
            && a.entries
                .iter()
                .all(|(key, (_, value))| b.entries.get(key).is_some_and(|(_, other)| equal(value, other)));
    }
    match (Number::of(a), Number::of(b)) {
        (Some(a), Some(b)) => numbers(a, b) == Some(Ordering::Equal),
        (None, None) => a.kind() == b.kind() && same(a, b),
        _ => false,
    }
}

/// Equality of two values of one kind that are no text, number, list or dict.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_object(), b.as_object()) {
        (None, None) => true,
        _ => match (a.downcast_object_ref::<LongInteger>(), b.downcast_object_ref::<LongInteger>()) {
            (Some(a), Some(b)) => a.0 == b.0,
            _ => false,
        },
    }
}

/// How `a` stands to `b`, or `None` where Python refuses to say.
pub(super) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Some(clean(a).cmp(&clean(b)));
    }
    if let (Some(a), Some(b)) = (as_list(a), as_list(b)) {
        if a.is_tuple != b.is_tuple {
            return None;
        }
        return match a.items.iter().zip(&b.items).find(|(a, b)| !equal(a, b)) {
            Some((a, b)) => order(a, b),
            None => Some(a.items.len().cmp(&b.items.len())),
        };
    }
    if a.is_undefined() && b.is_undefined() {
        return Some(Ordering::Equal);
    }
    numbers(Number::of(a)?, Number::of(b)?)
}

fn numbers(a: Number, b: Number) -> Option<Ordering> {
    match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(&b)),
        _ => a.as_float().partial_cmp(&b.as_float()),
    }
}

/// What comparing two values can cost: no more than the smaller of them.
pub(super) fn comparison_bytes(a: &Value, b: &Value) -> u64 {
    measure(a).bytes.min(measure(b).bytes)
}

/// `item in container`.
pub(super) fn contains(budget: &Budget, container: &Value, item: &Value) -> Result<bool, Error> {
    if let Some(text) = container.as_str() {
        let part = item
            .as_str()
            .ok_or_else(|| failed(format!("'in' a string needs a string on its left, not a {}", item.kind())))?;
        budget.work((text.len() + part.len()) as u64)?;
        return Ok(clean(text).contains(&*clean(part)));
    }
    if let Some(list) = as_list(container) {
        budget.work(shallow_bytes(container))?;
        for candidate in &list.items {
            budget.work(comparison_bytes(candidate, item))?;
            if equal(candidate, item) {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if let Some(map) = as_map(container) {
        budget.work(shallow_bytes(item))?;
        if as_map(item).is_some() || as_list(item).is_some_and(|list| !list.is_tuple) {
            return Err(failed("a list or dict is never the key of a dict"));
        }
        return Ok(Key::new(item).is_some_and(|key| map.entries.contains_key(&key)));
    }
    if container.is_undefined() {
        return Ok(false);
    }
    if container.as_object().is_some() {
        return Ok(!container.get_item(item)?.is_undefined());
    }
    Err(failed(format!("a {} is not a container: 'in' needs one", container.kind())))
}

/// One comparison by the name of its operator.
pub(super) fn compare(budget: &Budget, a: &Value, operator: &str, b: &Value) -> Result<bool, Error> {
    match operator {
        "in" => return contains(budget, b, a),
        "not in" => return Ok(!contains(budget, b, a)?),
        _ => budget.work(comparison_bytes(a, b))?,
    }
    if matches!(operator, "==" | "!=") {
        return Ok(equal(a, b) == (operator == "=="));
    }
    let unordered_numbers = Number::of(a).is_some() && Number::of(b).is_some();
    let Some(ordering) = order(a, b) else {
        if unordered_numbers {
            return Ok(false);
        }
        return Err(failed(format!("'{operator}' cannot compare a {} with a {}", a.kind(), b.kind())));
    };
    Ok(match operator {
        "<" => ordering.is_lt(),
        "<=" => ordering.is_le(),
        ">" => ordering.is_gt(),
        _ => ordering.is_ge(),
    })
}

/// The key to sort by when letter case does not count.
pub(super) fn without_case(value: &Value) -> Value {
    match value.as_str() {
        Some(text) => Value::from(clean(text).to_lowercase()),
        None => value.clone(),
    }
}

/// Python's `is` for what has one instance only; equality otherwise.
pub(super) fn identical(a: &Value, b: &Value) -> bool {
    as_bool(a) == as_bool(b) && a.is_integer() == b.is_integer() && equal(a, b)
}
