//! Where references within a schema lead. Nothing is ever fetched: what lies outside the schema is refused.

use std::collections::HashMap;

use serde_json::Value;

use super::{Error, inside, unsupported};

/// The places of a schema that have a name.
pub(super) struct References<'s> {
    root: &'s Value,
    /// Places with an identifier of their own, which relative references within start from.
    resources: Vec<(String, String)>,
    /// Places by name: a whole address, or an address with `#name`.
    names: HashMap<String, String>,
}

impl<'s> References<'s> {
    /// Looks through a schema; in draft 4, identifiers are called `id`.
    pub(super) fn new(root: &'s Value, is_draft_4: bool) -> Self {
        let mut references = Self { root, resources: Vec::new(), names: HashMap::new() };
        references.scan(root, "", "", if is_draft_4 { "id" } else { "$id" });
        references
    }

    /// The place that `reference` leads to from `at`.
    pub(super) fn resolve(&self, reference: &str, at: &str) -> Result<String, Error> {
        let lost = |reason: &str| unsupported("$ref", at, format!("{reference:?} {reason}"));
        let base = self.resources.iter().filter(|(place, _)| covers(place, at)).max_by_key(|(place, _)| place.len());
        let (place, address) = base.map_or(("", ""), |(place, address)| (place.as_str(), address.as_str()));
        let (target, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let target = join(address, target);
        let start = if target == address {
            place
        } else {
            let named = self.names.get(&target);
            named.ok_or_else(|| lost("leads outside the schema, and nothing is fetched"))?
        };
        let fragment = decoded(fragment);
        let pointer = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{start}{fragment}")
        } else {
            let name = format!("{target}#{fragment}");
            self.names.get(&name).cloned().ok_or_else(|| lost("names no anchor of the schema"))?
        };
        match self.root.pointer(&pointer) {
            Some(Value::Object(_) | Value::Bool(_)) => Ok(pointer),
            Some(_) => Err(lost("leads to something that is no schema")),
            None => Err(lost("leads to nothing")),
        }
    }

    fn scan(&mut self, value: &Value, at: &str, base: &str, id: &str) {
        let mut base = base.to_owned();
        match value {
            Value::Object(object) => {
                if let Some(name) = object.get(id).and_then(Value::as_str) {
                    if let Some(anchor) = name.strip_prefix('#') {
                        self.names.insert(format!("{base}#{anchor}"), at.to_owned());
                    } else {
                        base = join(&base, name.trim_end_matches('#'));
                        self.names.insert(base.clone(), at.to_owned());
                        self.resources.push((at.to_owned(), base.clone()));
                    }
                }
                for anchor in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = object.get(anchor).and_then(Value::as_str) {
                        self.names.insert(format!("{base}#{name}"), at.to_owned());
                    }
                }
                for (key, value) in object {
                    if !matches!(key.as_str(), "const" | "enum" | "default" | "examples") {
                        self.scan(value, &inside(at, key), &base, id);
                    }
                }
            }
            Value::Array(list) => {
                list.iter()
                    .enumerate()
                    .for_each(|(index, value)| self.scan(value, &format!("{at}/{index}"), &base, id));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Whether the place `at` lies in what begins at `place`.
fn covers(place: &str, at: &str) -> bool {
    at.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An address as seen from another, as far as schemas use it (RFC 3986, 5.2, without dots in paths).
fn join(base: &str, address: &str) -> String {
    if address.is_empty() {
        return base.to_owned();
    }
    if address.contains("://") || address.starts_with("urn:") {
        return address.to_owned();
    }
    let host = base.find("://").map_or(0, |at| at + 3);
    let end = match address.strip_prefix('/') {
        Some(_) => base[host..].find('/').map_or(base.len(), |at| host + at),
        None => base[host..].rfind('/').map_or(base.len(), |at| host + at + 1),
    };
    let start = if host == 0 && !base.contains('/') { "" } else { &base[..end] };
    format!("{start}{address}")
}

fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_lead_to_places_and_names_within_the_schema() {
        let schema = json!({
            "$id": "https://example.org/root.json",
            "$defs": {
                "a b": { "$anchor": "here" },
                "c": { "$id": "other.json", "$defs": { "d": { "$anchor": "here" } } },
                "x/y": true,
                "n": 5
            }
        });
        let references = References::new(&schema, false);
        let to = |reference: &str, at: &str| references.resolve(reference, at).map_err(|error| error.to_string());
        assert_eq!(to("#", "/items"), Ok(String::new()));
        assert_eq!(to("#/$defs/a%20b", ""), Ok("/$defs/a b".to_owned()));
        assert_eq!(to("#/$defs/x~1y", ""), Ok("/$defs/x~1y".to_owned()));
        assert_eq!(to("#here", ""), Ok("/$defs/a b".to_owned()));
        assert_eq!(to("#here", "/$defs/c/$defs/d"), Ok("/$defs/c/$defs/d".to_owned()));
        assert_eq!(to("#/$defs/d", "/$defs/c/items"), Ok("/$defs/c/$defs/d".to_owned()));
        assert_eq!(to("other.json", ""), Ok("/$defs/c".to_owned()));
        assert_eq!(to("https://example.org/other.json#/$defs/d", ""), Ok("/$defs/c/$defs/d".to_owned()));
        assert_eq!(
            to("root.json#/$defs/n", "/$defs/c").unwrap_err(),
            "\"$ref\" at /$defs/c cannot be enforced: \"root.json#/$defs/n\" leads to something that is no schema"
        );
        assert!(to("http://json-schema.org/draft-07/schema#", "").unwrap_err().contains("nothing is fetched"));
        assert!(to("#/$defs/none", "").unwrap_err().contains("leads to nothing"));
        assert!(to("#nowhere", "").unwrap_err().contains("no anchor"));
    }
}
