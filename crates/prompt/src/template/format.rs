//! `'%s' % x`, the `format` filter and `str.format`: text with values put in. Numbers with a specification go through the
//! engine's formatter; strings are put in here, so that they keep their origin.

use super::budget::{Budget, failed};
use super::print::{to_repr, to_text};
use super::text::{Text, clean};
use super::value::{Key, Number, as_list, as_map, from_integer};
use minijinja::Error;
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::Value;

/// The widest a field may be made, in characters.
const FIELD_WIDTH_MAX: usize = 1000;

/// Python's `format % values`: a tuple gives its items, a dict its values by name, anything else itself.
pub(super) fn percent(budget: &Budget, pattern: &Text, values: &Value) -> Result<Value, Error> {
    let items = match as_list(values) {
        Some(list) if list.is_tuple => list.items.clone(),
        _ => vec![values.clone()],
    };
    let (out, used, by_name) = fill(budget, pattern, &items, values)?;
    // Anything that has items may be there for its names only.
    let is_single = values.as_str().is_some() || !(values.is_undefined() || values.as_object().is_some());
    let is_tuple = as_list(values).is_some_and(|list| list.is_tuple);
    if used < items.len() && !by_name && (is_tuple || is_single) {
        return Err(failed("% formatting: not all values were used"));
    }
    Ok(Value::from(out.encode()))
}

/// The `format` filter: the same with the values as arguments.
pub(super) fn percent_with(budget: &Budget, pattern: &Text, items: &[Value]) -> Result<Value, Error> {
    let named = items.first().cloned().unwrap_or_default();
    Ok(Value::from(fill(budget, pattern, items, &named)?.0.encode()))
}

fn fill(budget: &Budget, pattern: &Text, items: &[Value], named: &Value) -> Result<(Text, usize, bool), Error> {
    let mut out = Text::default();
    let mut used = 0;
    let mut by_name = false;
    let mut rest = pattern.as_str();
    while let Some(at) = rest.find('%') {
        out.append(&pattern.slice_of(&rest[..at]));
        let mut field = &rest[at + 1..];
        let mut value = None;
        if let Some((name, after)) = field.strip_prefix('(').and_then(|field| field.split_once(')')) {
            let found = as_map(named).and_then(|map| map.get(&Key::Text(name.to_owned())));
            value = Some(found.ok_or_else(|| failed(format!("% formatting: no value is named {name}")))?);
            by_name = true;
            field = after;
        }
        let length = field.find(|c: char| !"#0- +.123456789".contains(c)).unwrap_or(field.len());
        let (specification, after) = field.split_at(length);
        check_widths(specification)?;
        let conversion = after.chars().next().ok_or_else(|| failed("% formatting: the pattern ends within a field"))?;
        rest = &after[conversion.len_utf8()..];
        if conversion == '%' {
            out.push("%", false);
            continue;
        }
        let value = if let Some(value) = value {
            value
        } else {
            used += 1;
            let next = items.get(used - 1).cloned();
            next.ok_or_else(|| failed("% formatting: there are more fields than values"))?
        };
        out.append(&field_text(budget, specification, conversion, &value)?);
        budget.within_value(out.len() as u64)?;
    }
    out.append(&pattern.slice_of(rest));
    Ok((out, used, by_name))
}

fn field_text(budget: &Budget, specification: &str, conversion: char, value: &Value) -> Result<Text, Error> {
    match conversion {
        's' => Ok(pad(specification, to_text(budget, value)?)),
        'r' | 'a' => Ok(pad(specification, to_repr(budget, value)?)),
        'c' if value.as_str().is_some_and(|text| clean(text).chars().count() == 1) => {
            Ok(pad(specification, to_text(budget, value)?))
        }
        'd' | 'i' | 'u' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'x' | 'X' | 'o' if Number::of(value).is_some() => {
            let is_decimal = matches!(conversion, 'd' | 'i' | 'u');
            let number = match Number::of(value) {
                Some(Number::Integer(integer)) => from_integer(integer),
                Some(Number::Float(float)) if is_decimal && float.abs() < 1e38 => from_integer(float as i128),
                _ => value.clone(),
            };
            let pattern = format!("%{specification}{}", if is_decimal { 'd' } else { conversion });
            Ok(Text::own(format(FormatStyle::Printf, &pattern, &[number])?))
        }
        _ => Err(failed(format!("% formatting: %{conversion} cannot take a {}", value.kind()))),
    }
}

/// Python's width and precision of a string: `-10.3` cuts to three characters and fills to ten on the right.
fn pad(specification: &str, text: Text) -> Text {
    let (width, precision) = specification.split_once('.').unwrap_or((specification, ""));
    let digits = |text: &str| text.trim_start_matches(['-', '+', ' ', '#', '0']).parse::<usize>().ok();
    let mut cut = text;
    if specification.contains('.') {
        let most = digits(precision).unwrap_or(0);
        if let Some((end, _)) = cut.as_str().char_indices().nth(most) {
            cut = cut.slice(0..end);
        }
    }
    let missing = digits(width).unwrap_or(0).saturating_sub(cut.as_str().chars().count());
    let spaces = " ".repeat(missing);
    if width.contains('-') {
        cut.push(&spaces, false);
        return cut;
    }
    let mut out = Text::own(spaces);
    out.append(&cut);
    out
}

fn check_widths(specification: &str) -> Result<(), Error> {
    let numbers = specification.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    for digits in numbers {
        if digits.parse::<usize>().map_or(true, |width| width > FIELD_WIDTH_MAX) {
            return Err(failed(format!("a field's width or precision is limited to {FIELD_WIDTH_MAX} characters")));
        }
    }
    Ok(())
}

/// Python's `pattern.format(*items, **named)`, without attributes or items of the values.
pub(super) fn braces(
    budget: &Budget,
    pattern: &Text,
    items: &[Value],
    named: impl Fn(&str) -> Option<Value>,
) -> Result<Value, Error> {
    let mut out = Text::default();
    let mut next = 0;
    let mut rest = pattern.as_str();
    while let Some(at) = rest.find(['{', '}']) {
        out.append(&pattern.slice_of(&rest[..at]));
        let after = &rest[at + 1..];
        let brace = &rest[at..=at];
        if after.starts_with(brace) {
            out.append(&pattern.slice_of(brace));
            rest = &after[1..];
            continue;
        }
        let (field, tail) = after
            .split_once('}')
            .filter(|(field, _)| brace == "{" && !field.contains('{'))
            .ok_or_else(|| failed("format: a single { or }, or a field within a field"))?;
        rest = tail;
        let (name, specification) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = name.split_once('!').unwrap_or((name, ""));
        let value = match name.parse::<usize>() {
            Ok(index) => items.get(index).cloned(),
            Err(_) if name.is_empty() => {
                next += 1;
                items.get(next - 1).cloned()
            }
            Err(_) => named(name),
        };
        let value = value.ok_or_else(|| failed(format!("format: there is no value for the field {{{field}}}")))?;
        out.append(&brace_field(budget, specification, conversion, &value)?);
        budget.within_value(out.len() as u64)?;
    }
    out.append(&pattern.slice_of(rest));
    Ok(Value::from(out.encode()))
}

fn brace_field(budget: &Budget, specification: &str, conversion: &str, value: &Value) -> Result<Text, Error> {
    let text = match conversion {
        "r" | "a" => to_repr(budget, value)?,
        _ => to_text(budget, value)?,
    };
    if specification.is_empty() {
        return Ok(text);
    }
    check_widths(specification)?;
    let value = match Number::of(value).filter(|_| conversion.is_empty()) {
        Some(Number::Integer(integer)) => from_integer(integer),
        Some(Number::Float(float)) => Value::from(float),
        None => Value::from(text.as_str()),
    };
    let filled = format(FormatStyle::StrFormat, &format!("{{:{specification}}}"), std::slice::from_ref(&value))?;
    let conversation = text.runs().any(|(_, user)| user);
    let mut out = Text::default();
    out.push(&filled, conversation);
    Ok(out)
}
