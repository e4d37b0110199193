//! Methods of Python's `str`, `list` and `dict`, those that change nothing. What would change its object is refused, as
//! Jinja's immutable sandbox refuses it.

use super::arguments::{Arguments, as_integer, split as split_arguments};
use super::budget::{Budget, failed};
use super::compare::equal;
use super::format;
use super::operators::marked_text;
use super::text::{Text, clean};
use super::value::{Key, List, Map, as_list, list, map, sequence, shallow_bytes, tuple};
use minijinja::value::Value;
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// A method of a value that is none of this crate's objects: the engine asks here.
pub(super) fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => string_method(state, text, name, args),
        None => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn unsafe_method(kind: &str, name: &str) -> Error {
    failed(format!("the method {name} of a {kind} would change it: templates change nothing"))
}

pub(super) fn list_method(state: &mut State<'_, '_>, this: &List, name: &str, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    match name {
        "copy" => sequence(&budget, this.items.clone(), this.is_tuple),
        "count" | "index" => {
            let arguments = Arguments::bind("index and count", &["value"], args)?;
            let wanted = arguments.required(0)?;
            let mut found = Vec::new();
            for (at, item) in this.items.iter().enumerate() {
                budget.work(super::compare::comparison_bytes(item, wanted))?;
                if equal(item, wanted) {
                    found.push(at);
                }
            }
            match (name, found.first()) {
                ("count", _) => Ok(Value::from(found.len())),
                (_, Some(&at)) => Ok(Value::from(at)),
                _ => Err(failed("index: the value is not in the list")),
            }
        }
        "append" | "clear" | "extend" | "insert" | "pop" | "remove" | "reverse" | "sort" => {
            Err(unsafe_method("list", name))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

pub(super) fn map_method(state: &mut State<'_, '_>, this: &Map, name: &str, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    match name {
        "get" => {
            let arguments = Arguments::bind("get", &["key", "default"], args)?;
            let key = arguments.required(0)?;
            budget.work(shallow_bytes(key))?;
            let key = Key::new(key).ok_or_else(|| failed("a list or dict is never the key of a dict"))?;
            let otherwise = || arguments.optional(1).cloned().unwrap_or(Value::from(()));
            Ok(this.get(&key).unwrap_or_else(otherwise))
        }
        "keys" => list(&budget, this.keys()),
        "values" => list(&budget, this.values()),
        "items" => items(&budget, this),
        "copy" => map(&budget, this.entries.values().cloned()),
        "clear" | "pop" | "popitem" | "setdefault" | "update" => Err(unsafe_method("dict", name)),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// The pairs of a dict.
pub(super) fn items(budget: &Budget, this: &Map) -> Result<Value, Error> {
    let pairs = this.entries.values();
    let pairs = pairs.map(|(key, value)| tuple(budget, vec![key.clone(), value.clone()]));
    list(budget, pairs.collect::<Result<_, _>>()?)
}

fn string_method(state: &mut State<'_, '_>, marked: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    let inputs: u64 = args.iter().map(shallow_bytes).sum();
    budget.work(marked.len() as u64 + inputs)?;
    let text = Text::decode(marked);
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let arguments = Arguments::bind("strip", &["chars"], args)?;
            let characters = arguments.string(0)?;
            Ok(value(&strip(&text, characters.as_deref(), name != "rstrip", name != "lstrip")))
        }
        "lower" | "casefold" => Ok(value(&lower(&text))),
        "upper" => Ok(value(&upper(&text))),
        "title" => Ok(value(&title(&text))),
        "capitalize" => Ok(value(&capitalize(&text))),
        "swapcase" => Ok(value(&text.map(|character, out| {
            if character.is_uppercase() {
                out.extend(character.to_lowercase());
            } else {
                out.extend(character.to_uppercase());
            }
        }))),
        "startswith" | "endswith" => starts_or_ends(&text, name == "startswith", args),
        "removeprefix" | "removesuffix" => {
            let arguments = Arguments::bind("removeprefix and removesuffix", &["affix"], args)?;
            arguments.required(0)?;
            let affix = arguments.string(0)?.unwrap_or_default();
            let rest = match name {
                "removeprefix" => text.as_str().strip_prefix(&*affix),
                _ => text.as_str().strip_suffix(&*affix),
            };
            Ok(value(&text.slice_of(rest.unwrap_or(text.as_str()))))
        }
        "split" | "rsplit" => split(&budget, &text, name == "rsplit", args),
        "splitlines" => {
            let arguments = Arguments::bind("splitlines", &["keepends"], args)?;
            let lines = lines(&text, arguments.flag(0, false));
            list(&budget, lines.into_iter().map(|part| value(&part)).collect())
        }
        "partition" | "rpartition" => partition(&budget, &text, name == "partition", args),
        "replace" => {
            let arguments = Arguments::bind("replace", &["old", "new", "count"], args)?;
            replace(&budget, &text, &arguments)
        }
        "join" => {
            let arguments = Arguments::bind("join", &["iterable"], args)?;
            let items = super::operators::items_of(&budget, arguments.required(0)?)?;
            if let Some(item) = items.iter().find(|item| item.as_str().is_none()) {
                return Err(failed(format!("join takes strings, not a {}", item.kind())));
            }
            join(&budget, marked, &items)
        }
        "format" => {
            let (items, named) = split_arguments(args);
            format::braces(&budget, &text, items, |name| named.as_ref().and_then(|named| named.peek(name).ok()))
        }
        "center" | "ljust" | "rjust" | "zfill" => fill(&budget, &text, name, args),
        "index" | "rindex" | "find" | "rfind" | "count" | "isalnum" | "isalpha" | "isascii" | "isdigit"
        | "isnumeric" | "islower" | "isupper" | "isspace" => question(state, &text, name, args),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn value(text: &Text) -> Value {
    Value::from(text.encode())
}

/// Methods whose answer is a number or a flag: origin plays no part in them.
fn question(state: &mut State<'_, '_>, text: &Text, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args: Vec<_> = args
        .iter()
        .map(|arg| arg.as_str().map_or_else(|| arg.clone(), |text| Value::from(clean(text).as_ref())))
        .collect();
    let asked = match name {
        "index" => "find",
        "rindex" => "rfind",
        other => other,
    };
    let answer = pycompat::unknown_method_callback(state, &Value::from(text.as_str()), asked, &args)?;
    if asked != name && as_integer(&answer) == Some(-1) {
        return Err(failed("index: the string does not hold the part"));
    }
    Ok(answer)
}

/// Python's whitespace: Unicode's, and the four separators of ASCII.
pub(super) fn is_whitespace(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Without the characters (whitespace unless given) at its start or end.
pub(super) fn strip(text: &Text, characters: Option<&str>, start: bool, end: bool) -> Text {
    let goes = |character: char| match characters {
        Some(characters) => characters.contains(character),
        None => is_whitespace(character),
    };
    let mut rest = text.as_str();
    if start {
        rest = rest.trim_start_matches(goes);
    }
    if end {
        rest = rest.trim_end_matches(goes);
    }
    text.slice_of(rest)
}

pub(super) fn lower(text: &Text) -> Text {
    text.map(|character, out| out.extend(character.to_lowercase()))
}

pub(super) fn upper(text: &Text) -> Text {
    text.map(|character, out| out.extend(character.to_uppercase()))
}

pub(super) fn capitalize(text: &Text) -> Text {
    let mut first = true;
    text.map(|character, out| {
        if std::mem::take(&mut first) {
            out.extend(character.to_uppercase());
        } else {
            out.extend(character.to_lowercase());
        }
    })
}

/// Every word's first letter upper case, the others lower; a word is a run of letters.
pub(super) fn title(text: &Text) -> Text {
    let mut within_word = false;
    text.map(|character, out| {
        if within_word {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        within_word = character.is_alphabetic();
    })
}

fn starts_or_ends(text: &Text, start: bool, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("startswith and endswith", &["affix"], args)?;
    let affix = arguments.required(0)?;
    let choices = match as_list(affix) {
        Some(list) if list.is_tuple => list.items.as_slice(),
        _ => std::slice::from_ref(affix),
    };
    for choice in choices {
        let choice =
            choice.as_str().ok_or_else(|| failed("startswith and endswith take a string or a tuple of strings"))?;
        let choice = clean(choice);
        if (start && text.as_str().starts_with(&*choice)) || (!start && text.as_str().ends_with(&*choice)) {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

fn split(budget: &Budget, text: &Text, from_end: bool, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("split", &["sep", "maxsplit"], args)?;
    let separator = arguments.string(0)?;
    let most = usize::try_from(arguments.integer(1, -1)?).unwrap_or(usize::MAX);
    let whole = text.as_str();
    let mut parts: Vec<&str> = match separator.as_deref() {
        Some("") => return Err(failed("split: the separator is empty")),
        Some(separator) if from_end => whole.rsplitn(most.saturating_add(1), separator).collect(),
        Some(separator) => whole.splitn(most.saturating_add(1), separator).collect(),
        None if from_end => words_from_end(whole, most),
        None => words(whole, most),
    };
    if from_end {
        parts.reverse();
    }
    budget.make(48 * parts.len() as u64)?;
    list(budget, parts.into_iter().map(|part| value(&text.slice_of(part))).collect())
}

fn words(text: &str, most: usize) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text.trim_start_matches(is_whitespace);
    while !rest.is_empty() {
        let end = if out.len() < most { rest.find(is_whitespace).unwrap_or(rest.len()) } else { rest.len() };
        out.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_whitespace);
    }
    out
}

fn words_from_end(text: &str, most: usize) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text.trim_end_matches(is_whitespace);
    while !rest.is_empty() {
        let start = if out.len() < most {
            rest.char_indices().rev().find(|&(_, c)| is_whitespace(c)).map_or(0, |(at, c)| at + c.len_utf8())
        } else {
            0
        };
        out.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_whitespace);
    }
    out
}

/// The lines of a text, cut where Python cuts them.
pub(super) fn lines(text: &Text, keep_ends: bool) -> Vec<Text> {
    let mut out = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let is_end = |c: char| {
            matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
        };
        let end = rest.find(is_end).unwrap_or(rest.len());
        let after = &rest[end..];
        let width = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        out.push(text.slice_of(&rest[..if keep_ends { end + width } else { end }]));
        rest = &rest[end + width..];
    }
    out
}

fn partition(budget: &Budget, text: &Text, first: bool, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("partition", &["sep"], args)?;
    arguments.required(0)?;
    let separator = arguments.string(0)?.unwrap_or_default();
    if separator.is_empty() {
        return Err(failed("partition: the separator is empty"));
    }
    let whole = text.as_str();
    let at = if first { whole.find(&*separator) } else { whole.rfind(&*separator) };
    let (start, end) = match at {
        Some(at) => (at, at + separator.len()),
        None if first => (whole.len(), whole.len()),
        None => (0, 0),
    };
    let parts = [0..start, start..end, end..whole.len()];
    tuple(budget, parts.map(|part| value(&text.slice(part))).to_vec())
}

/// `replace(old, new, count)`, bound as arguments 0 to 2.
pub(super) fn replace(budget: &Budget, text: &Text, arguments: &Arguments) -> Result<Value, Error> {
    arguments.required(0)?;
    let old = arguments.string(0)?.unwrap_or_default();
    let new = arguments.required(1)?;
    let new = Text::decode(new.as_str().ok_or_else(|| failed("replace takes strings"))?);
    let most = usize::try_from(arguments.integer(2, -1)?).unwrap_or(usize::MAX);
    let whole = text.as_str();
    let mut out = Text::default();
    let mut from = 0;
    let mut count = 0;
    for (at, _) in whole.match_indices(&*old).take(most) {
        out.append(&text.slice(from..at));
        out.append(&new);
        from = at + old.len();
        count += 1;
        budget.within_value(out.len() as u64)?;
        budget.work(new.len() as u64)?;
    }
    budget.make(out.len() as u64 + count)?;
    out.append(&text.slice(from..whole.len()));
    Ok(value(&out))
}

/// The items' texts with a separator between; everything still with its marks.
pub(super) fn join(budget: &Budget, separator: &str, items: &[Value]) -> Result<Value, Error> {
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        let piece = marked_text(budget, item)?;
        budget.work(separator.len() as u64)?;
        budget.within_value((out.len() + separator.len() + piece.len()) as u64)?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(&piece);
    }
    budget.work(out.len() as u64)?;
    Ok(Value::from(out))
}

/// Fills to a width: spaces (or a character given) at one side or both, or zeros after the sign.
pub(super) fn fill(budget: &Budget, text: &Text, name: &str, args: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::bind("center, ljust, rjust and zfill", &["width", "fillchar"], args)?;
    arguments.required(0)?;
    let width = usize::try_from(arguments.integer(0, 0)?).unwrap_or(0);
    budget.make((width as u64).saturating_mul(4))?;
    let missing = width.saturating_sub(text.as_str().chars().count());
    let with = match arguments.string(1)? {
        Some(with) if with.chars().count() != 1 => return Err(failed("a fill character is one character")),
        Some(with) => with.into_owned(),
        None => if name == "zfill" { "0" } else { " " }.to_owned(),
    };
    let left = match name {
        "ljust" => 0,
        // Python puts the odd one left when the width is odd.
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let sign = usize::from(name == "zfill" && text.as_str().starts_with(['+', '-']));
    let mut out = text.slice(0..sign);
    out.push(&with.repeat(left), false);
    out.append(&text.slice(sign..text.len()));
    out.push(&with.repeat(missing - left), false);
    Ok(value(&out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_lines_are_cut_as_python_cuts_them() {
        assert_eq!(words("  a b\u{1f}c ", usize::MAX), ["a", "b", "c"]);
        assert_eq!(words(" a b c ", 1), ["a", "b c "]);
        assert_eq!(words_from_end(" a b c ", 1), ["c", " a b"]);
        assert_eq!(words("  ", 3), [""; 0]);
        let text = Text::own("a\r\nb\rc\n\nd\u{2028}");
        let cut = |keep| lines(&text, keep).into_iter().map(|line| line.as_str().to_owned()).collect::<Vec<_>>();
        assert_eq!(cut(false), ["a", "b", "c", "", "d"]);
        assert_eq!(cut(true).concat(), text.as_str());
    }
}
