//! The small files of a model directory, each read whole, within limits.
//!
//! Python's `json` writes infinities as bare words, which no JSON reader takes. [`finite`] turns them into strings before
//! the file is parsed.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::budget::Budget;
use crate::error::Error;

/// The longest settings file, in bytes. The longest published ones have about one million.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What parsed JSON takes at most: for every object or list that holds something (the first allocation of a map), and for
/// every further value in one.
const OPENER_MEMORY_BYTES: usize = 640;
const VALUE_MEMORY_BYTES: usize = 192;

/// Bare words that stand for numbers JSON does not have.
const WORDS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The JSON object in a file; `None` if there is no such file.
pub(super) fn read_object(path: &Path, budget: &mut Budget) -> Result<Option<Map<String, Json>>, Error> {
    let Some(bytes) = read(path, budget)? else {
        return Ok(None);
    };
    let (openers, values) = count_values(&bytes);
    budget.draw(openers, OPENER_MEMORY_BYTES)?;
    budget.draw(values, VALUE_MEMORY_BYTES)?;
    let mut object: Map<String, Json> = serde_json::from_slice(&finite(&bytes))
        .map_err(|error| Error::Json { what: "settings", reason: error.to_string() })?;
    object.values_mut().for_each(unwrap_floats);
    Ok(Some(object))
}

/// The text in a file; `None` if there is no such file.
pub(super) fn read_text(path: &Path, budget: &mut Budget) -> Result<Option<String>, Error> {
    let Some(bytes) = read(path, budget)? else {
        return Ok(None);
    };
    String::from_utf8(bytes).map(Some).map_err(|_| Error::Value {
        what: "content".to_owned(),
        expected: "UTF-8 text",
        found: "other bytes".to_owned(),
    })
}

fn read(path: &Path, budget: &mut Budget) -> Result<Option<Vec<u8>>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    let io = |action| move |reason| Error::Io { action, reason };
    let metadata = fs::metadata(path).map_err(io("open"))?;
    if !metadata.is_file() {
        return Err(Error::NotAFile);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io("open"))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io("read"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::Limit {
            what: "length of the file, in bytes".to_owned(),
            value: metadata.len(),
            max: FILE_BYTES_MAX,
        });
    }
    budget.draw(bytes.len() as u64, 1)?;
    Ok(Some(bytes))
}

/// Calls `each` with every place in the text that lies outside its strings.
fn outside_strings(text: &[u8], mut each: impl FnMut(usize)) {
    let mut in_string = false;
    let mut escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte == b'"' {
            in_string = true;
        } else {
            each(at);
        }
    }
}

/// At most how many objects and lists, and how many further values in them.
fn count_values(text: &[u8]) -> (u64, u64) {
    let (mut openers, mut values) = (0, 0);
    outside_strings(text, |at| match text[at] {
        b'{' | b'[' => openers += 1,
        b',' => values += 1,
        _ => {}
    });
    (openers, values)
}

/// JSON with bare `NaN`, `Infinity` and `-Infinity` put in quotes. What stands in strings is left alone.
fn finite(text: &[u8]) -> Cow<'_, [u8]> {
    let mut quoted = Vec::new();
    let mut copied = 0;
    outside_strings(text, |at| {
        let word = WORDS.iter().find(|word| text[at..].starts_with(word.as_bytes()));
        if let Some(word) = word.filter(|_| at >= copied) {
            quoted.extend(&text[copied..at]);
            quoted.push(b'"');
            quoted.extend(word.as_bytes());
            quoted.push(b'"');
            copied = at + word.len();
        }
    });
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    quoted.extend(&text[copied..]);
    Cow::Owned(quoted)
}

/// Turns `{"__float__": "Infinity"}`, as newer writers have it, into `"Infinity"`.
fn unwrap_floats(value: &mut Json) {
    match value {
        Json::Object(object) => {
            let wrapped = object.get("__float__").and_then(Json::as_str);
            match wrapped.and_then(|text| WORDS.iter().find(|word| **word == text)) {
                Some(word) if object.len() == 1 => *value = Json::from(*word),
                _ => object.values_mut().for_each(unwrap_floats),
            }
        }
        Json::Array(values) => values.iter_mut().for_each(unwrap_floats),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(text: &str) -> Result<Map<String, Json>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read_object(file.path(), &mut Budget::new()).map(Option::unwrap)
    }

    #[test]
    fn infinities_become_strings_wherever_they_stand() {
        let text = r#"{"limit": [0.0, Infinity], "low":-Infinity, "n": NaN, "wrapped": [{"__float__": "Infinity"}]}"#;
        let object = read_from(text).unwrap();
        let expected = r#"{"limit": [0.0, "Infinity"], "low": "-Infinity", "n": "NaN", "wrapped": ["Infinity"]}"#;
        assert_eq!(Json::Object(object), serde_json::from_str::<Json>(expected).unwrap());
    }

    #[test]
    fn words_inside_strings_are_text() {
        let text = r#"{"a": "x Infinity \" NaN", "b\\": "-Infinity", "c": {"__float__": "other"}}"#;
        assert_eq!(Json::Object(read_from(text).unwrap()), serde_json::from_str::<Json>(text).unwrap());
    }

    #[test]
    fn broken_json_says_where() {
        let error = read_from("{\n \"a\": Infinit }").unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert!(read_from("[1]").unwrap_err().to_string().contains("expected a map"));
    }

    #[test]
    fn depth_and_number_of_values_are_limited() {
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(1000), "]".repeat(1000));
        assert!(read_from(&deep).unwrap_err().to_string().contains("recursion limit"));
        let many = format!("{{\"a\": [{}0]}}", "0,".repeat(1_000_000));
        assert!(matches!(read_from(&many), Err(Error::Limit { .. })));
    }
}
