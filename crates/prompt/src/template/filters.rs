//! Jinja's filters, those that chat templates may use. Each pays for what it reads and makes; those that look up other
//! filters, tests or attributes are the engine's own on this crate's values. Filters that need randomness, HTML or the
//! network's encodings are not here: a template that names one fails with the filter's name.

use super::arguments::{Arguments, as_integer};
use super::budget::{Budget, failed};
use super::compare::{equal, order, without_case};
use super::format;
use super::methods;
use super::operators::{Operation, escape_html, items_of, marked_text};
use super::print::{JsonLayout, to_json};
use super::text::{Text, clean};
use super::value::{Number, as_list, as_map, from_integer, list, measure, shallow_bytes, tuple};
use minijinja::filters as engine;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};
use std::cmp::Ordering;

/// This crate's filters by name.
pub(super) const FILTERS: &[(&str, Operation)] = &[
    ("attr", attribute),
    ("batch", batch),
    ("capitalize", |state, args| per_text(state, args, methods::capitalize)),
    ("center", center),
    ("count", length),
    ("d", default),
    ("default", default),
    ("dictsort", dictsort),
    ("e", escape),
    ("escape", escape),
    ("first", first),
    ("float", float),
    ("format", percent),
    ("groupby", groupby),
    ("indent", indent),
    ("int", int),
    ("items", items),
    ("join", join),
    ("last", last),
    ("length", length),
    ("list", to_list),
    ("lower", |state, args| per_text(state, args, methods::lower)),
    ("max", |state, args| extreme(state, args, Ordering::Greater)),
    ("min", |state, args| extreme(state, args, Ordering::Less)),
    ("replace", replace),
    ("reverse", reverse),
    ("safe", safe),
    ("slice", slice),
    ("sort", sort),
    ("string", string),
    ("sum", sum),
    ("title", |state, args| per_text(state, args, title)),
    ("tojson", tojson),
    ("trim", trim),
    ("unique", unique),
    ("upper", |state, args| per_text(state, args, methods::upper)),
    ("wordcount", wordcount),
];

/// The engine's filters that work on this crate's values: their results are made into this crate's lists.
pub(super) fn engine_filters() -> [(&'static str, Value); 7] {
    [
        ("abs", Value::from_function(engine::abs)),
        ("map", Value::from_function(engine::map)),
        ("reject", Value::from_function(engine::reject)),
        ("rejectattr", Value::from_function(engine::rejectattr)),
        ("round", Value::from_function(engine::round)),
        ("select", Value::from_function(engine::select)),
        ("selectattr", Value::from_function(engine::selectattr)),
    ]
}

/// Calls one of the engine's filters.
pub(super) fn call_engine(
    state: &mut State<'_, '_>,
    name: &str,
    filter: &Value,
    args: &[Value],
) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    budget.work(args.iter().map(shallow_bytes).sum())?;
    let mut args = args.to_vec();
    match args.first_mut() {
        Some(first) if matches!(name, "abs" | "round") => {
            if let Some(Number::Integer(integer)) = Number::of(first) {
                *first = from_integer(integer);
            }
        }
        // What is none, false or zero has nothing to go through, for Jinja.
        Some(first) if !first.is_true() => *first = list(&budget, Vec::new())?,
        // The engine would loop over a string by its marked characters, and over a dict's marked keys.
        Some(first) => *first = list(&budget, items_of(&budget, first)?)?,
        None => {}
    }
    let result = filter.call(state, &args)?;
    match result.kind() {
        ValueKind::Seq | ValueKind::Iterable => list(&budget, items_of(&budget, &result)?),
        _ => Ok(result),
    }
}

fn subject(args: &[Value]) -> Result<&Value, Error> {
    args.first().ok_or_else(|| failed("a filter needs a value"))
}

/// The value as text with its origin, as Jinja's `soft_str` takes it.
fn text(budget: &Budget, value: &Value) -> Result<Text, Error> {
    Ok(Text::decode(&marked_text(budget, value)?))
}

fn marked(text: &Text) -> Value {
    Value::from(text.encode())
}

fn per_text(state: &mut State<'_, '_>, args: &[Value], change: fn(&Text) -> Text) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let text = text(&budget, subject(args)?)?;
    budget.make(2 * text.len() as u64)?;
    Ok(marked(&change(&text)))
}

fn string(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let value = subject(args)?;
    match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => Ok(marked(&text(&*Budget::of(state)?, value)?)),
    }
}

/// Calls the text safe: joined to others with `+`, it makes them HTML. Nothing else is done for it.
fn safe(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let marked = marked_text(&*Budget::of(state)?, subject(args)?)?;
    Ok(Value::from_safe_string(marked))
}

fn trim(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("trim", &["value", "chars"], args)?;
    let text = text(&*Budget::of(state)?, arguments.required(0)?)?;
    Ok(marked(&methods::strip(&text, arguments.string(1)?.as_deref(), true, true)))
}

fn escape(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let escaped = escape_html(&*Budget::of(state)?, subject(args)?)?;
    Ok(Value::from_safe_string(escaped))
}

fn center(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let text = text(&budget, subject(args)?)?;
    match args.get(1) {
        Some(width) => methods::fill(&budget, &text, "center", std::slice::from_ref(width)),
        None => methods::fill(&budget, &text, "center", &[Value::from(80)]),
    }
}

fn replace(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let text = text(&budget, subject(args)?)?;
    let arguments = Arguments::bind("replace", &["old", "new", "count"], &args[1..])?;
    methods::replace(&budget, &text, &arguments)
}

fn percent(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let pattern = text(&budget, subject(args)?)?;
    format::percent_with(&budget, &pattern, &args[1..])
}

fn indent(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("indent", &["value", "width", "first", "blank"], args)?;
    let budget = Budget::of(state)?;
    let indentation = match arguments.optional(1) {
        Some(width) if width.as_str().is_some() => Text::decode(width.as_str().unwrap_or_default()),
        _ => {
            let width = usize::try_from(arguments.integer(1, 4)?).unwrap_or(0);
            budget.make(width as u64)?;
            Text::own(" ".repeat(width))
        }
    };
    let mut whole = text(&budget, arguments.required(0)?)?;
    whole.push("\n", false);
    let lines = methods::lines(&whole, false);
    budget.make(whole.len() as u64 + (lines.len() as u64).saturating_mul(indentation.len() as u64))?;
    let mut out = Text::default();
    if arguments.flag(2, false) {
        out.append(&indentation);
    }
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push("\n", false);
            if line.len() > 0 || arguments.flag(3, false) {
                out.append(&indentation);
            }
        }
        out.append(line);
    }
    Ok(marked(&out))
}

/// Jinja's own idea of a title: a word starts after blanks, a hyphen or an opening bracket.
fn title(text: &Text) -> Text {
    let mut within_word = false;
    text.map(|character, out| {
        if within_word {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        within_word = !(character.is_whitespace() || "-({[<".contains(character));
    })
}

fn wordcount(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let text = text(&*Budget::of(state)?, subject(args)?)?;
    let words = text.as_str().split(|c: char| !c.is_alphanumeric() && c != '_');
    Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
}

fn tojson(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let parameters = &["value", "ensure_ascii", "indent", "separators", "sort_keys"];
    let arguments = Arguments::bind("tojson", parameters, args)?;
    let indent = match arguments.optional(2).filter(|indent| !indent.is_none()) {
        Some(indent) => Some(json_indent(indent)?),
        None => None,
    };
    let separators = arguments.optional(3).and_then(as_list).map(|list| list.items.clone());
    let separator = |at: usize, otherwise: &str| match separators.as_ref().and_then(|items| items.get(at)?.as_str()) {
        Some(separator) => clean(separator).into_owned(),
        None => otherwise.to_owned(),
    };
    let layout = JsonLayout {
        item_separator: separator(0, if indent.is_some() { "," } else { ", " }),
        key_separator: separator(1, ": "),
        indent,
        ensure_ascii: arguments.flag(1, false),
        sort_keys: arguments.flag(4, false),
    };
    Ok(marked(&to_json(&*Budget::of(state)?, arguments.required(0)?, &layout)?))
}

fn json_indent(indent: &Value) -> Result<String, Error> {
    if let Some(text) = indent.as_str() {
        return Ok(clean(text).into_owned());
    }
    let width = as_integer(indent).ok_or_else(|| failed("tojson: indent must be an integer or a string"))?;
    // Wider than any page; it keeps one step of the printer small between two of its checks.
    Ok(" ".repeat(width.clamp(0, 256) as usize))
}

fn default(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("default", &["value", "default_value", "boolean"], args)?;
    let value = arguments.required(0)?;
    let missing = value.is_undefined() || (arguments.flag(2, false) && !value.is_true());
    Ok(if missing { arguments.optional(1).cloned().unwrap_or_else(|| Value::from("")) } else { value.clone() })
}

fn length(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let value = subject(args)?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(clean(text).chars().count()));
    }
    if value.is_undefined() {
        return Ok(Value::from(0));
    }
    value.len().map(Value::from).ok_or_else(|| failed(format!("a {} has no length", value.kind())))
}

fn int(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("int", &["value", "default", "base"], args)?;
    let base = arguments.integer(2, 10)?;
    let value = arguments.required(0)?;
    let number = match (value.as_str(), Number::of(value)) {
        (Some(text), _) => parse_integer(clean(text).trim(), base),
        (None, Some(Number::Integer(integer))) => Some(integer),
        (None, Some(Number::Float(float))) => float.is_finite().then_some(float as i128),
        _ => None,
    };
    Ok(match number {
        Some(integer) => from_integer(integer),
        None => arguments.optional(1).cloned().unwrap_or_else(|| Value::from(0)),
    })
}

fn parse_integer(text: &str, base: i64) -> Option<i128> {
    let digits = text.replace('_', "");
    let (sign, unsigned) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let prefix = match base {
        2 => ["0b", "0B"],
        8 => ["0o", "0O"],
        16 => ["0x", "0X"],
        _ => ["", ""],
    };
    let unsigned = prefix.iter().find_map(|prefix| unsigned.strip_prefix(prefix)).unwrap_or(unsigned);
    let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base))?;
    let whole = i128::from_str_radix(&format!("{sign}{unsigned}"), base).ok();
    whole.or_else(|| digits.parse::<f64>().ok().filter(|float| float.is_finite()).map(|float| float as i128))
}

fn float(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("float", &["value", "default"], args)?;
    let value = arguments.required(0)?;
    let number = match value.as_str() {
        Some(text) => clean(text).trim().parse().ok(),
        None => Number::of(value).map(Number::as_float),
    };
    Ok(match number {
        Some(float) => Value::from(float),
        None => arguments.optional(1).cloned().unwrap_or_else(|| Value::from(0.0)),
    })
}

fn to_list(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    list(&budget, items_of(&budget, subject(args)?)?)
}

fn first(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    end(state, args, |mut items| if items.is_empty() { Value::UNDEFINED } else { items.swap_remove(0) })
}

fn last(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    end(state, args, |mut items| items.pop().unwrap_or_default())
}

fn end(state: &mut State<'_, '_>, args: &[Value], take: fn(Vec<Value>) -> Value) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    Ok(take(items_of(&budget, subject(args)?)?))
}

fn reverse(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let value = subject(args)?;
    let mut items = items_of(&budget, value)?;
    items.reverse();
    match value.as_str() {
        Some(_) => methods::join(&budget, "", &items),
        None => list(&budget, items),
    }
}

fn items(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let value = subject(args)?;
    match as_map(value) {
        Some(map) => methods::items(&budget, map),
        None if value.is_undefined() => list(&budget, Vec::new()),
        None => Err(failed(format!("items takes a dict, not a {}", value.kind()))),
    }
}

fn join(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("join", &["value", "d", "attribute"], args)?;
    let budget = Budget::of(state)?;
    let items = items_of(&budget, arguments.required(0)?)?;
    let items = items.into_iter().map(|item| by_attribute(item, &arguments, 2)).collect::<Result<Vec<_>, _>>()?;
    let separator = match arguments.optional(1) {
        Some(separator) => marked_text(&budget, separator)?,
        None => String::new(),
    };
    methods::join(&budget, &separator, &items)
}

/// The item's attribute that an argument names (`"a.b"`, or an index), or the item when it names none.
fn by_attribute(item: Value, arguments: &Arguments, at: usize) -> Result<Value, Error> {
    let Some(attribute) = arguments.optional(at).filter(|attribute| !attribute.is_none()) else {
        return Ok(item);
    };
    let Some(path) = attribute.as_str() else {
        return item.get_item(attribute);
    };
    let mut value = item;
    for name in clean(path).split('.') {
        value = match name.parse::<usize>() {
            Ok(index) => value.get_item(&Value::from(index))?,
            Err(_) => value.get_item(&Value::from(name))?,
        };
    }
    Ok(value)
}

/// Attributes, not items: data has none, a namespace has.
fn attribute(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("attr", &["value", "name"], args)?;
    let name = arguments.string(1)?.unwrap_or_default();
    let value = arguments.required(0)?;
    if value.is_undefined() {
        return Err(failed("an undefined value has no attributes"));
    }
    if value.as_object().is_none() || as_map(value).is_some() || as_list(value).is_some() {
        return Ok(Value::UNDEFINED);
    }
    value.get_item(&Value::from(name.as_ref()))
}

/// Sorts items by a key each; equal ones keep their order. Fails where two keys have no order.
fn sort_by_key(
    budget: &Budget,
    items: Vec<Value>,
    reverse: bool,
    key: impl Fn(&Value) -> Result<Value, Error>,
) -> Result<Vec<Value>, Error> {
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let key = key(&item)?;
        // A sort compares each item about log2(n) times.
        budget.work(measure(&key).bytes.saturating_mul(16))?;
        keyed.push((key, item));
    }
    let mut unordered = false;
    keyed.sort_by(|(a, _), (b, _)| {
        let ordering = order(a, b).unwrap_or_else(|| {
            unordered = true;
            Ordering::Equal
        });
        if reverse { ordering.reverse() } else { ordering }
    });
    if unordered {
        return Err(failed("sort: the items have no order among them"));
    }
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

fn sort(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("sort", &["value", "reverse", "case_sensitive", "attribute"], args)?;
    let budget = Budget::of(state)?;
    let items = items_of(&budget, arguments.required(0)?)?;
    let sorted = sort_by_key(&budget, items, arguments.flag(1, false), |item| {
        let key = by_attribute(item.clone(), &arguments, 3)?;
        Ok(if arguments.flag(2, false) { key } else { without_case(&key) })
    })?;
    list(&budget, sorted)
}

fn dictsort(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("dictsort", &["value", "case_sensitive", "by", "reverse"], args)?;
    let budget = Budget::of(state)?;
    let value = arguments.required(0)?;
    let map = as_map(value).ok_or_else(|| failed(format!("dictsort takes a dict, not a {}", value.kind())))?;
    let by_value = arguments.string(2)?.as_deref() == Some("value");
    let mut pairs = Vec::with_capacity(map.entries.len());
    for (key, value) in map.entries.values() {
        pairs.push(tuple(&budget, vec![key.clone(), value.clone()])?);
    }
    let sorted = sort_by_key(&budget, pairs, arguments.flag(3, false), |pair| {
        let part = pair.get_item(&Value::from(usize::from(by_value)))?;
        Ok(if arguments.flag(1, false) { part } else { without_case(&part) })
    })?;
    list(&budget, sorted)
}

fn groupby(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let parameters = &["value", "attribute", "default", "case_sensitive"];
    let arguments = Arguments::bind("groupby", parameters, args)?;
    let budget = Budget::of(state)?;
    arguments.required(1)?;
    let key = |item: &Value| {
        let key = by_attribute(item.clone(), &arguments, 1)?;
        Ok(match arguments.optional(2) {
            Some(default) if key.is_undefined() => default.clone(),
            _ if arguments.flag(3, false) => key,
            _ => without_case(&key),
        })
    };
    let items = items_of(&budget, arguments.required(0)?)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for item in sort_by_key(&budget, items, false, key)? {
        match groups.last_mut() {
            Some((name, members)) if equal(name, &key(&item)?) => members.push(item),
            _ => groups.push((key(&item)?, vec![item])),
        }
    }
    let groups = groups.into_iter().map(|(_, members)| {
        let name = by_attribute(members[0].clone(), &arguments, 1)?;
        tuple(&budget, vec![name, list(&budget, members)?])
    });
    list(&budget, groups.collect::<Result<_, Error>>()?)
}

fn unique(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("unique", &["value", "case_sensitive", "attribute"], args)?;
    let budget = Budget::of(state)?;
    let mut seen: Vec<Value> = Vec::new();
    let mut kept = Vec::new();
    for item in items_of(&budget, arguments.required(0)?)? {
        let key = by_attribute(item.clone(), &arguments, 2)?;
        let key = if arguments.flag(1, false) { key } else { without_case(&key) };
        let mut known = false;
        for other in &seen {
            budget.work(super::compare::comparison_bytes(other, &key))?;
            known = known || equal(other, &key);
        }
        if !known {
            seen.push(key);
            kept.push(item);
        }
    }
    list(&budget, kept)
}

fn extreme(state: &mut State<'_, '_>, args: &[Value], wanted: Ordering) -> Result<Value, Error> {
    let arguments = Arguments::bind("min and max", &["value", "case_sensitive", "attribute"], args)?;
    let budget = Budget::of(state)?;
    let mut best: Option<(Value, Value)> = None;
    for item in items_of(&budget, arguments.required(0)?)? {
        let key = by_attribute(item.clone(), &arguments, 2)?;
        let key = if arguments.flag(1, false) { key } else { without_case(&key) };
        budget.work(measure(&key).bytes)?;
        let better = match &best {
            None => true,
            Some((than, _)) => {
                order(&key, than).ok_or_else(|| failed("min and max: the items have no order"))? == wanted
            }
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

fn sum(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("sum", &["value", "attribute", "start"], args)?;
    let budget = Budget::of(state)?;
    let mut total = arguments.optional(2).and_then(Number::of).unwrap_or(Number::Integer(0));
    for item in items_of(&budget, arguments.required(0)?)? {
        let item = by_attribute(item, &arguments, 1)?;
        let number = Number::of(&item).ok_or_else(|| failed(format!("sum takes numbers, not a {}", item.kind())))?;
        total = match (total, number) {
            (Number::Integer(a), Number::Integer(b)) => {
                Number::Integer(a.checked_add(b).ok_or_else(|| failed("sum: the total is over 128 bits"))?)
            }
            (a, b) => Number::Float(a.as_float() + b.as_float()),
        };
    }
    Ok(match total {
        Number::Integer(total) => from_integer(total),
        Number::Float(total) => Value::from(total),
    })
}

fn batch(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("batch", &["value", "linecount", "fill_with"], args)?;
    let budget = Budget::of(state)?;
    let size = usize::try_from(arguments.integer(1, 0)?).unwrap_or(0).max(1);
    budget.make((size as u64).saturating_mul(24))?;
    let items = items_of(&budget, arguments.required(0)?)?;
    let mut rows = Vec::new();
    for row in items.chunks(size) {
        let mut row = row.to_vec();
        if let Some(filler) = arguments.optional(2).filter(|filler| !filler.is_none()) {
            row.resize(size, filler.clone());
        }
        rows.push(list(&budget, row)?);
    }
    list(&budget, rows)
}

fn slice(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("slice", &["value", "slices", "fill_with"], args)?;
    let budget = Budget::of(state)?;
    let columns = usize::try_from(arguments.integer(1, 0)?).unwrap_or(0).max(1);
    budget.make((columns as u64).saturating_mul(48))?;
    let items = items_of(&budget, arguments.required(0)?)?;
    let (least, longer) = (items.len() / columns, items.len() % columns);
    let mut out = Vec::with_capacity(columns);
    let mut rest = &items[..];
    for column in 0..columns {
        let (taken, after) = rest.split_at(least + usize::from(column < longer));
        rest = after;
        let mut taken = taken.to_vec();
        if let Some(filler) = arguments.optional(2).filter(|filler| !filler.is_none() && column >= longer && longer > 0)
        {
            taken.push(filler.clone());
        }
        out.push(list(&budget, taken)?);
    }
    list(&budget, out)
}
