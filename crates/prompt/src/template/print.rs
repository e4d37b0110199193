//! Values as text: what Python's `str`, `repr` and `json.dumps` write, character for character, with each character's
//! origin kept.

use super::budget::{Budget, failed, is_engine_object};
use super::text::Text;
use super::value::{LongInteger, as_bool, as_list, as_map, measure};
use minijinja::value::Value;
use minijinja::{Error, ErrorKind};
use std::fmt::Write as _;

/// Python's `str(value)`.
pub(super) fn to_text(budget: &Budget, value: &Value) -> Result<Text, Error> {
    if let Some(text) = value.as_str() {
        budget.work(text.len() as u64)?;
        return Ok(Text::decode(text));
    }
    if value.is_undefined() {
        return Ok(Text::default());
    }
    let mut out = Printer::new(budget, value)?;
    out.repr(value)?;
    Ok(out.text)
}

/// Python's `repr(value)`.
pub(super) fn to_repr(budget: &Budget, value: &Value) -> Result<Text, Error> {
    let mut out = Printer::new(budget, value)?;
    out.repr(value)?;
    Ok(out.text)
}

/// How `json.dumps` lays out its text.
pub(super) struct JsonLayout {
    /// One level's indentation; `None` keeps everything on a line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub ensure_ascii: bool,
    pub sort_keys: bool,
}

/// Python's `json.dumps(value, ...)`.
pub(super) fn to_json(budget: &Budget, value: &Value, layout: &JsonLayout) -> Result<Text, Error> {
    let mut out = Printer::new(budget, value)?;
    out.json(value, layout, 0)?;
    Ok(out.text)
}

struct Printer<'a> {
    budget: &'a Budget,
    text: Text,
    paid: usize,
}

impl<'a> Printer<'a> {
    fn new(budget: &'a Budget, value: &Value) -> Result<Self, Error> {
        budget.work(measure(value).bytes)?;
        Ok(Self { budget, text: Text::default(), paid: 0 })
    }

    fn own(&mut self, text: &str) {
        self.text.push(text, false);
    }

    /// Pays for what was written since the last time: escapes and indentation can be much longer than the value.
    fn pay(&mut self) -> Result<(), Error> {
        let written = self.text.len() - self.paid;
        self.paid = self.text.len();
        self.budget.work(written as u64)?;
        self.budget.within_value(self.paid as u64)
    }

    fn repr(&mut self, value: &Value) -> Result<(), Error> {
        self.pay()?;
        if let Some(text) = value.as_str() {
            self.repr_string(&Text::decode(text));
        } else if let Some(list) = as_list(value) {
            self.own(if list.is_tuple { "(" } else { "[" });
            for (index, item) in list.items.iter().enumerate() {
                self.own(if index > 0 { ", " } else { "" });
                self.repr(item)?;
            }
            self.own(match (list.is_tuple, list.items.len()) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            });
        } else if let Some(map) = as_map(value) {
            self.own("{");
            for (index, (key, value)) in map.entries.values().enumerate() {
                self.own(if index > 0 { ", " } else { "" });
                self.repr(key)?;
                self.own(": ");
                self.repr(value)?;
            }
            self.own("}");
        } else {
            self.own(&scalar_repr(value));
        }
        Ok(())
    }

    fn repr_string(&mut self, text: &Text) {
        let quote = if text.as_str().contains('\'') && !text.as_str().contains('"') { '"' } else { '\'' };
        let escaped = text.map(|character, out| match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if is_printable(character) => out.push(character),
            _ => {
                // A String takes any write.
                let _ = match u32::from(character) {
                    code @ ..=0xff => write!(out, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                };
            }
        });
        let mut buffer = [0; 4];
        let quote = quote.encode_utf8(&mut buffer);
        self.own(quote);
        self.text.append(&escaped);
        self.own(quote);
    }

    fn json(&mut self, value: &Value, layout: &JsonLayout, depth: usize) -> Result<(), Error> {
        self.pay()?;
        if let Some(text) = value.as_str() {
            self.json_string(&Text::decode(text), layout);
        } else if let Some(list) = as_list(value) {
            self.own("[");
            for (index, item) in list.items.iter().enumerate() {
                self.begin_item(layout, index, depth + 1);
                self.json(item, layout, depth + 1)?;
            }
            self.end_items(layout, list.items.is_empty(), depth);
            self.own("]");
        } else if let Some(map) = as_map(value) {
            self.own("{");
            let mut entries: Vec<_> = map.entries.values().collect();
            if layout.sort_keys {
                entries.sort_by(|(a, _), (b, _)| super::compare::order(a, b).unwrap_or(std::cmp::Ordering::Equal));
            }
            for (index, (key, value)) in entries.iter().enumerate() {
                self.begin_item(layout, index, depth + 1);
                match key.as_str() {
                    Some(text) => self.json_string(&Text::decode(text), layout),
                    None => self.own(&format!("\"{}\"", scalar_json(key)?)),
                }
                self.own(&layout.key_separator);
                self.json(value, layout, depth + 1)?;
            }
            self.end_items(layout, map.entries.is_empty(), depth);
            self.own("}");
        } else {
            self.own(&scalar_json(value)?);
        }
        Ok(())
    }

    fn begin_item(&mut self, layout: &JsonLayout, index: usize, depth: usize) {
        if index > 0 {
            self.own(&layout.item_separator);
        }
        self.new_line(layout, depth);
    }

    fn end_items(&mut self, layout: &JsonLayout, empty: bool, depth: usize) {
        if !empty {
            self.new_line(layout, depth);
        }
    }

    fn new_line(&mut self, layout: &JsonLayout, depth: usize) {
        if let Some(indent) = &layout.indent {
            self.own("\n");
            for _ in 0..depth {
                self.own(indent);
            }
        }
    }

    fn json_string(&mut self, text: &Text, layout: &JsonLayout) {
        let escaped = text.map(|character, out| match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ if character < ' ' || (layout.ensure_ascii && character > '~') => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(character),
        });
        self.own("\"");
        self.text.append(&escaped);
        self.own("\"");
    }
}

fn scalar_repr(value: &Value) -> String {
    if value.is_undefined() {
        return "Undefined".to_owned();
    }
    if value.is_none() {
        return "None".to_owned();
    }
    if let Some(flag) = as_bool(value) {
        return if flag { "True" } else { "False" }.to_owned();
    }
    if let Some(digits) = value.downcast_object_ref::<LongInteger>() {
        return digits.0.clone();
    }
    if value.is_number() && !value.is_integer() {
        return f64::try_from(value.clone()).map_or_else(|_| String::new(), float_repr);
    }
    if value.is_number() {
        return value.to_string();
    }
    // Nobody prints an engine object on purpose, and printing one's content could go in circles.
    format!("<{}>", value.kind())
}

fn scalar_json(value: &Value) -> Result<String, Error> {
    if value.is_none() {
        return Ok("null".to_owned());
    }
    if let Some(flag) = as_bool(value) {
        return Ok(flag.to_string());
    }
    if value.is_number() && !value.is_integer() {
        let float = f64::try_from(value.clone())?;
        return Ok(match float {
            _ if float.is_nan() => "NaN".to_owned(),
            f64::INFINITY => "Infinity".to_owned(),
            f64::NEG_INFINITY => "-Infinity".to_owned(),
            _ => float_repr(float),
        });
    }
    if value.is_number() || value.downcast_object_ref::<LongInteger>().is_some() {
        return Ok(scalar_repr(value));
    }
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::BadSerialization, "an undefined value cannot be written as JSON"));
    }
    let kind = if is_engine_object(value) {
        "a namespace, loop or iterator".to_owned()
    } else {
        format!("a {}", value.kind())
    };
    Err(failed(format!("{kind} cannot be written as JSON")))
}

/// Python's `repr` of a float: the shortest digits that read back, an exponent below 1e-4 and from 1e16.
pub(super) fn float_repr(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Rust's `{:?}` has Python's digits but its own thresholds below 1e-4 and exponents without sign and padding.
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if float != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = float.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}

/// Python's `str.isprintable` for one character: not a control, format, surrogate, private, unassigned or separator
/// character other than the space. Unassigned code points are taken as printable: they change with every Unicode version.
fn is_printable(character: char) -> bool {
    !matches!(
        u32::from(character),
        0..=0x1f
            | 0x7f..=0xa0
            | 0xad
            | 0x600..=0x605
            | 0x61c
            | 0x6dd
            | 0x70f
            | 0x1680
            | 0x180e
            | 0x2000..=0x200f
            | 0x2028..=0x202f
            | 0x205f..=0x206f
            | 0x3000
            | 0xe000..=0xf8ff
            | 0xfdd0..=0xfdef
            | 0xfeff
            | 0xfff0..=0xfffb
            | 0xfffe..=0xffff
            | 0x110bd
            | 0x1d173..=0x1d17a
            | 0xe0001..=0xe007f
            | 0xf0000..=0x10ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        for (float, text) in [
            (2.0, "2.0"),
            (-0.5, "-0.5"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e20, "1e+20"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (123456789.125, "123456789.125"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e100, "1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_repr(float), text);
        }
    }
}
