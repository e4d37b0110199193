//! What the rewritten template calls instead of operators, literals, subscripts and loops: the same results as in Python,
//! with the price paid first and each character's origin kept. [`OPERATORS`] is the whole list.

use super::arguments::as_integer;
use super::budget::{Budget, failed};
use super::compare;
use super::format;
use super::print::to_text;
use super::text::{Text, clean};
use super::value::{Key, Number, as_list, as_map, from_integer, list, map, sequence, settle, shallow_bytes, tuple};
use minijinja::value::Value;
use minijinja::{Error, State};

pub(super) type Operation = fn(&mut State<'_, '_>, &[Value]) -> Result<Value, Error>;

/// The names that the rewritten template calls them by.
pub(super) const OPERATORS: &[(&str, Operation)] = &[
    ("_kauri_arithmetic", arithmetic),
    ("_kauri_compare", comparison),
    ("_kauri_concat", concat),
    ("_kauri_dict", dict_literal),
    ("_kauri_item", item),
    ("_kauri_iterate", iterate),
    ("_kauri_keep", keep),
    ("_kauri_list", list_literal),
    ("_kauri_negate", negate),
    ("_kauri_plus", plus),
    ("_kauri_power", power),
    ("_kauri_slice", slice),
    ("_kauri_tuple", tuple_literal),
];

/// `(a, "==", b, "<", c)`: a chain of comparisons, true when each is.
fn comparison(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    for step in args.windows(3).step_by(2) {
        if !compare::compare(&budget, &step[0], operator(&step[1]), &step[2])? {
            return Ok(Value::from(false));
        }
    }
    Ok(Value::from(true))
}

fn operator(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `a ~ b ~ c`
fn concat(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let mut out = String::new();
    for value in args {
        let piece = marked_text(&budget, value)?;
        budget.within_value((out.len() + piece.len()) as u64)?;
        out.push_str(&piece);
    }
    Ok(Value::from(out))
}

/// The value as text with its marks, ready to be joined to other such text.
pub(super) fn marked_text(budget: &Budget, value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => {
            budget.work(text.len() as u64)?;
            Ok(text.to_owned())
        }
        None => Ok(to_text(budget, value)?.encode()),
    }
}

/// `(a, "+", b, "-", c)`: a chain of one precedence, from left to right.
fn arithmetic(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let mut total = args[0].clone();
    for step in args[1..].chunks_exact(2) {
        total = binary(&budget, &total, operator(&step[0]), &step[1])?;
    }
    Ok(total)
}

/// `a ** b`
fn power(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    binary(&budget, &args[0], "**", &args[1])
}

/// `-a`
fn negate(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    match Number::of(&args[0]) {
        Some(Number::Integer(integer)) => integer.checked_neg().map(from_integer),
        Some(Number::Float(float)) => Some(Value::from(-float)),
        None => None,
    }
    .ok_or_else(|| failed(format!("a {} has no negative", args[0].kind())))
}

/// `+a`
fn plus(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    match Number::of(&args[0]) {
        Some(Number::Integer(integer)) => Ok(from_integer(integer)),
        Some(Number::Float(_)) => Ok(args[0].clone()),
        None => Err(failed(format!("a {} has no sign", args[0].kind()))),
    }
}

fn binary(budget: &Budget, a: &Value, operator: &str, b: &Value) -> Result<Value, Error> {
    match (operator, a.as_str(), b.as_str()) {
        ("+", Some(left), Some(right)) => {
            budget.make((left.len() + right.len()) as u64)?;
            if a.is_safe() || b.is_safe() {
                let parts = [escape_html(budget, a)?, escape_html(budget, b)?];
                return Ok(Value::from_safe_string(parts.concat()));
            }
            return Ok(Value::from([left, right].concat()));
        }
        ("*", Some(text), None) => return repeat_text(budget, text, b),
        ("*", None, Some(text)) => return repeat_text(budget, text, a),
        ("%", Some(text), _) => return format::percent(budget, &Text::decode(text), b),
        _ => {}
    }
    match (operator, as_list(a), as_list(b)) {
        ("+", Some(left), Some(right)) if left.is_tuple == right.is_tuple => {
            budget.make(shallow_bytes(a) + shallow_bytes(b))?;
            return sequence(budget, [&left.items[..], &right.items].concat(), left.is_tuple);
        }
        ("*", None, Some(_)) => return binary(budget, b, operator, a),
        ("*", Some(left), None) if Number::of(b).is_some() => {
            let times = repetitions(b)?;
            budget.make(shallow_bytes(a).saturating_mul(times as u64))?;
            let items = std::iter::repeat_n(&left.items, times).flatten().cloned();
            return sequence(budget, items.collect(), left.is_tuple);
        }
        _ => {}
    }
    match (Number::of(a), Number::of(b)) {
        (Some(left), Some(right)) => {
            number(left, operator, right).ok_or_else(|| failed(format!("cannot calculate {a} {operator} {b}")))
        }
        _ if a.is_undefined() || b.is_undefined() => Err(failed(format!("'{operator}' with an undefined value"))),
        _ => Err(failed(format!("'{operator}' cannot take a {} and a {}", a.kind(), b.kind()))),
    }
}

/// The string as HTML text, unless the template called it safe: what joining to a safe string makes of the other one.
pub(super) fn escape_html(budget: &Budget, value: &Value) -> Result<String, Error> {
    let marked = marked_text(budget, value)?;
    if value.is_safe() {
        return Ok(marked);
    }
    budget.make(5 * marked.len() as u64)?;
    let escaped = Text::decode(&marked).map(|character, out| match character {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\'' => out.push_str("&#39;"),
        '"' => out.push_str("&#34;"),
        other => out.push(other),
    });
    Ok(escaped.encode())
}

fn repeat_text(budget: &Budget, text: &str, times: &Value) -> Result<Value, Error> {
    let times = repetitions(times)?;
    budget.make((text.len() as u64).saturating_mul(times as u64))?;
    Ok(Value::from(text.repeat(times)))
}

fn repetitions(times: &Value) -> Result<usize, Error> {
    as_integer(times)
        .map(|times| times.max(0) as usize)
        .ok_or_else(|| failed("a string or list is repeated an integer number of times"))
}

/// Python's arithmetic, or `None` where it has no result or the integer is over 128 bits.
fn number(a: Number, operator: &str, b: Number) -> Option<Value> {
    if let (Number::Integer(a), Number::Integer(b)) = (a, b) {
        let exact = match operator {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "//" => floor_divide(a, b),
            "%" => floor_divide(a, b).and_then(|quotient| a.checked_sub(quotient.checked_mul(b)?)),
            "**" if b >= 0 => a.checked_pow(u32::try_from(b).ok()?),
            _ => return float(a as f64, operator, b as f64).map(Value::from),
        };
        return exact.map(from_integer);
    }
    float(a.as_float(), operator, b.as_float()).map(Value::from)
}

fn floor_divide(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let inexact = a % b != 0 && (a < 0) != (b < 0);
    Some(if inexact { quotient - 1 } else { quotient })
}

fn float(a: f64, operator: &str, b: f64) -> Option<f64> {
    match operator {
        "+" => Some(a + b),
        "-" => Some(a - b),
        "*" => Some(a * b),
        // Python's results are an error and a complex number.
        "**" if (a == 0.0 && b < 0.0) || (a < 0.0 && b.fract() != 0.0) => None,
        "**" => Some(a.powf(b)),
        _ if b == 0.0 => None,
        "/" => Some(a / b),
        "//" => Some(floor_divide_floats(a, b).0),
        _ => Some(floor_divide_floats(a, b).1),
    }
}

/// Python's `divmod` of floats: the remainder is exact and has the divisor's sign, the quotient follows from it.
fn floor_divide_floats(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = 0.0_f64.copysign(b);
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(a / b), remainder);
    }
    (quotient.round(), remainder)
}

/// `[a, b]`
fn list_literal(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    list(&*Budget::of(state)?, args.to_vec())
}

/// `(a, b)`
fn tuple_literal(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    tuple(&*Budget::of(state)?, args.to_vec())
}

/// `{a: b, c: d}`
fn dict_literal(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let pairs = args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    map(&*Budget::of(state)?, pairs)
}

/// What a namespace is given to hold.
fn keep(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let mut value = args[0].clone();
    settle(&*Budget::of(state)?, &mut value)?;
    Ok(value)
}

/// `a[b]`; what is not there is undefined, as in Jinja.
fn item(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (container, key) = (&args[0], &args[1]);
    if container.is_undefined() {
        return Err(failed("an undefined value has no items"));
    }
    let budget = Budget::of(state)?;
    budget.work(shallow_bytes(key))?;
    if let Some(map) = as_map(container) {
        return Ok(Key::new(key).and_then(|key| map.get(&key)).unwrap_or_default());
    }
    if let Some(list) = as_list(container) {
        let at = as_integer(key).and_then(|index| position(index, list.items.len()));
        return Ok(at.map(|at| list.items[at].clone()).unwrap_or_default());
    }
    if let (Some(text), Some(index)) = (as_text_paid(&budget, container)?, as_integer(key)) {
        let at = position(index, text.as_str().chars().count());
        let character = at.and_then(|at| text.as_str().char_indices().nth(at));
        return Ok(character.map_or(Value::UNDEFINED, |(start, character)| {
            Value::from(text.slice(start..start + character.len_utf8()).encode())
        }));
    }
    match key.as_str() {
        Some(name) => container.get_item(&Value::from(clean(name).as_ref())),
        None => container.get_item(key),
    }
}

fn as_text_paid(budget: &Budget, value: &Value) -> Result<Option<Text>, Error> {
    value
        .as_str()
        .map(|text| {
            budget.work(text.len() as u64)?;
            Ok(Text::decode(text))
        })
        .transpose()
}

/// The place of a Python index, which counts from the end when negative.
fn position(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add_unsigned(length as u64)? } else { index };
    usize::try_from(at).ok().filter(|&at| at < length)
}

/// `a[start:stop:step]`; a slice of what has none is undefined, as in Jinja.
fn slice(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let bound = |value: &Value| {
        if value.is_none() {
            Ok(None)
        } else {
            as_integer(value).map(Some).ok_or_else(|| failed("the bounds of a slice must be integers or none"))
        }
    };
    let (start, stop, step) = (bound(&args[1])?, bound(&args[2])?, bound(&args[3])?);
    if step == Some(0) {
        return Err(failed("the step of a slice cannot be zero"));
    }
    if let Some(list) = as_list(&args[0]) {
        let at = slice_positions(list.items.len(), start, stop, step.unwrap_or(1));
        budget.work(24 * at.len() as u64)?;
        let items = at.into_iter().map(|at| list.items[at].clone()).collect();
        return sequence(&budget, items, list.is_tuple);
    }
    if let Some(text) = as_text_paid(&budget, &args[0])? {
        // One word for each character: the table costs more than the text.
        budget.work(8 * text.len() as u64)?;
        return Ok(Value::from(slice_text(&text, start, stop, step.unwrap_or(1)).encode()));
    }
    if args[0].is_undefined() {
        return Err(failed("an undefined value cannot be sliced"));
    }
    Ok(Value::UNDEFINED)
}

fn slice_text(text: &Text, start: Option<i64>, stop: Option<i64>, step: i64) -> Text {
    let mut borders: Vec<_> = text.as_str().char_indices().map(|(at, _)| at).collect();
    let length = borders.len();
    borders.push(text.len());
    let at = slice_positions(length, start, stop, step);
    if step == 1 {
        return match (at.first(), at.last()) {
            (Some(&first), Some(&last)) => text.slice(borders[first]..borders[last + 1]),
            _ => Text::default(),
        };
    }
    let mut out = Text::default();
    for at in at {
        out.append(&text.slice(borders[at]..borders[at + 1]));
    }
    out
}

/// The positions that a Python slice takes, by its rules for missing, negative and overlong bounds.
fn slice_positions(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<usize> {
    let length = length as i64;
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |bound: i64| {
        let bound = if bound < 0 { bound.saturating_add(length) } else { bound };
        bound.clamp(lowest, highest)
    };
    let (first, end) = if step > 0 {
        (start.map_or(0, clamp), stop.map_or(length, clamp))
    } else {
        (start.map_or(length - 1, clamp), stop.map_or(-1, clamp))
    };
    let mut out = Vec::new();
    let mut at = first;
    while if step > 0 { at < end } else { at > end } {
        out.push(at as usize);
        at = at.saturating_add(step);
    }
    out
}

/// What a `for` goes over.
fn iterate(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    if as_list(&args[0]).is_some() {
        return Ok(args[0].clone());
    }
    list(&budget, items_of(&budget, &args[0])?)
}

/// The items that a loop over the value takes: a string's characters, a dict's keys, nothing of the undefined.
pub(super) fn items_of(budget: &Budget, value: &Value) -> Result<Vec<Value>, Error> {
    budget.work(shallow_bytes(value))?;
    if let Some(list) = as_list(value) {
        return Ok(list.items.clone());
    }
    if let Some(map) = as_map(value) {
        return Ok(map.keys());
    }
    if let Some(text) = value.as_str() {
        budget.make(24 * text.len() as u64)?;
        let text = Text::decode(text);
        let characters = text.as_str().char_indices();
        return Ok(characters
            .map(|(at, character)| Value::from(text.slice(at..at + character.len_utf8()).encode()))
            .collect());
    }
    if value.is_undefined() {
        return Ok(Vec::new());
    }
    if value.as_object().is_none() {
        return Err(failed(format!("a {} cannot be looped over", value.kind())));
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        budget.work(24)?;
        items.push(item);
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_take_what_python_takes() {
        let at = |start, stop, step| slice_positions(5, start, stop, step);
        assert_eq!(at(None, None, 1), [0, 1, 2, 3, 4]);
        assert_eq!(at(Some(1), None, 1), [1, 2, 3, 4]);
        assert_eq!(at(Some(-2), None, 1), [3, 4]);
        assert_eq!(at(None, Some(-1), 1), [0, 1, 2, 3]);
        assert_eq!(at(Some(3), Some(1), 1), [0; 0]);
        assert_eq!(at(None, None, -1), [4, 3, 2, 1, 0]);
        assert_eq!(at(Some(3), Some(0), -2), [3, 1]);
        assert_eq!(at(Some(-100), Some(100), 2), [0, 2, 4]);
        assert_eq!(at(Some(100), Some(-100), -3), [4, 1]);
        assert_eq!(at(Some(0), Some(i64::MAX), i64::MAX), [0]);
        assert_eq!(at(None, None, i64::MIN), [4]);
    }

    #[test]
    fn division_rounds_down_as_in_python() {
        for (a, b, quotient, remainder) in
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, 3, 2, 0)]
        {
            let integer = |operator| number(Number::Integer(a), operator, Number::Integer(b)).unwrap();
            assert_eq!(integer("//"), from_integer(quotient));
            assert_eq!(integer("%"), from_integer(remainder));
            assert_eq!(integer("/"), Value::from(a as f64 / b as f64));
        }
        assert!(number(Number::Integer(1), "//", Number::Integer(0)).is_none());
        assert!(number(Number::Integer(i128::MIN), "//", Number::Integer(-1)).is_none());
        assert!(number(Number::Integer(2), "**", Number::Integer(200)).is_none());
    }
}
