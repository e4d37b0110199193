//! What a schema comes to once everything that must hold at the same time is merged.
//!
//! Merging multiplies: two lists of ten alternatives under one `allOf` are a hundred, and a definition that is merged in two
//! places is there twice. A few lines can so ask for more than any memory holds. The estimate here is from above, and is
//! made before anything is merged.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde_json::Value;

use super::{Error, limit};

/// The most keywords and alternatives, all merged.
const MERGED_MAX: usize = 200_000;
/// The most patterns and formats that one string must match at once: what the next character may be grows with their product.
const PATTERNS_TOGETHER_MAX: usize = 3;

/// Refuses what would grow too large.
pub(super) fn check(top: &Value, definitions: &[Value]) -> Result<(), Error> {
    let mut sizes = Sizes { definitions, known: HashMap::new(), most_patterns: 0 };
    let mut all = sizes.of(top).merged;
    for index in 0..definitions.len() {
        all = all.saturating_add(sizes.definition(index).merged);
    }
    limit("parts once all that must hold together is merged", usize::try_from(all).unwrap_or(usize::MAX), MERGED_MAX)?;
    limit("patterns and formats for the same string", sizes.most_patterns, PATTERNS_TOGETHER_MAX)
}

#[derive(Debug)]
struct Size {
    /// Alternatives that are left.
    alternatives: u64,
    /// Keywords of all of them together.
    merged: u64,
    /// Patterns that the value itself must match, if it is a string.
    patterns: usize,
    /// The same for its parts: by a property's name, or a keyword that stands for all others.
    parts: BTreeMap<String, usize>,
}

impl Size {
    fn one() -> Self {
        Self::plain(1, 1)
    }

    fn plain(alternatives: u64, merged: u64) -> Self {
        Self { alternatives, merged, patterns: 0, parts: BTreeMap::new() }
    }

    /// Keywords that stand in each alternative.
    fn grow(&mut self, keywords: u64) {
        self.merged = self.merged.saturating_add(keywords.saturating_mul(self.alternatives));
    }

    /// What must hold besides.
    fn and(&mut self, other: &Self) {
        let [here, there] =
            [self.merged.saturating_mul(other.alternatives), other.merged.saturating_mul(self.alternatives)];
        self.merged = here.saturating_add(there);
        self.alternatives = self.alternatives.saturating_mul(other.alternatives);
        self.patterns += other.patterns;
        for (name, patterns) in &other.parts {
            *self.parts.entry(name.clone()).or_default() += patterns;
        }
    }

    /// What may hold instead.
    fn or(&mut self, other: &Self) {
        self.alternatives = self.alternatives.saturating_add(other.alternatives);
        self.merged = self.merged.saturating_add(other.merged);
        self.patterns = self.patterns.max(other.patterns);
        for (name, &patterns) in &other.parts {
            let most = self.parts.entry(name.clone()).or_default();
            *most = patterns.max(*most);
        }
    }

    /// The most patterns that meet in one string of the value.
    fn most_patterns(&self) -> usize {
        // What is said of all other properties may come to be said of a named one.
        let others: usize = ["additionalProperties", "patternProperties", "items"]
            .into_iter()
            .filter_map(|keyword| self.parts.get(&format!("/{keyword}")))
            .sum();
        let named = self.parts.iter().filter(|(name, _)| !name.starts_with('/')).map(|(_, patterns)| *patterns).max();
        self.patterns.max(named.unwrap_or(0) + others)
    }
}

struct Sizes<'d> {
    definitions: &'d [Value],
    known: HashMap<usize, Rc<Size>>,
    most_patterns: usize,
}

impl Sizes<'_> {
    fn definition(&mut self, index: usize) -> Rc<Size> {
        if let Some(size) = self.known.get(&index) {
            return Rc::clone(size);
        }
        // What leads back here goes through a step into the value, and is merged no further.
        self.known.insert(index, Rc::new(Size::one()));
        let definitions = self.definitions;
        let size = Rc::new(definitions.get(index).map_or_else(Size::one, |definition| self.of(definition)));
        self.known.insert(index, Rc::clone(&size));
        size
    }

    fn of(&mut self, schema: &Value) -> Size {
        let mut all = Size::one();
        let Value::Object(object) = schema else { return all };
        for (keyword, value) in object {
            match (keyword.as_str(), value) {
                ("$ref", Value::String(target)) => {
                    let index = target.strip_prefix("#/$defs/").and_then(|index| index.parse().ok());
                    let size = index.map(|index| self.definition(index));
                    size.iter().for_each(|size| all.and(size));
                }
                ("allOf", Value::Array(list)) => list.iter().for_each(|schema| all.and(&self.of(schema))),
                ("anyOf" | "oneOf", Value::Array(list)) => {
                    let mut sum = Size::plain(0, 0);
                    list.iter().for_each(|schema| sum.or(&self.of(schema)));
                    all.and(&sum);
                }
                ("enum", Value::Array(list)) => all.and(&Size::plain(list.len() as u64, list.len() as u64)),
                ("properties", Value::Object(map)) => {
                    map.iter().for_each(|(name, part)| self.part(name.replace('/', "~1"), part, &mut all));
                }
                ("patternProperties", Value::Object(map)) => {
                    map.values().for_each(|part| self.part("/patternProperties".to_owned(), part, &mut all));
                }
                ("prefixItems", Value::Array(list)) => {
                    list.iter().enumerate().for_each(|(index, part)| self.part(index.to_string(), part, &mut all));
                }
                ("items" | "additionalProperties", part) => self.part(format!("/{keyword}"), part, &mut all),
                ("pattern", _) => all.patterns += 1,
                _ => all.grow(1),
            }
        }
        self.most_patterns = self.most_patterns.max(all.most_patterns());
        all
    }

    /// A part of the value is merged with others of its name; a reference alone stays one until it is.
    fn part(&mut self, name: String, part: &Value, all: &mut Size) {
        let is_reference = part.as_object().is_some_and(|object| object.len() == 1 && object.contains_key("$ref"));
        let size = self.of(part);
        all.grow(if is_reference { 1 } else { size.merged });
        let patterns = size.most_patterns();
        let most = all.parts.entry(name).or_default();
        *most = patterns.max(*most);
    }
}
