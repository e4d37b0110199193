//! A JSON schema, read as its draft says, and written out again in the few keywords that the engine below enforces exactly.
//!
//! That engine takes most of JSON Schema and passes over some of it in silence: keywords that it does not know, formats of
//! numbers, patterns whose syntax means something else in ECMA-262. So nothing of a schema reaches it unread. A keyword is
//! translated, or is known to say nothing about a value (a title), or the schema is refused with its name and place.
//! What is no keyword of the draft says nothing either, as the specification has it; it is listed in the notes.
//!
//! Everything is limited: size, depth, the number of subschemas, what merging them may come to (`size.rs`).
//!
//! Drafts 4 to 2020-12: <https://json-schema.org/specification>.

mod formats;
mod order;
mod references;
mod size;

use indexmap::IndexSet;
use serde_json::{Map, Number, Value, json};

use super::error::Error;
use super::pattern;
use formats::Format;
pub(super) use order::in_order;
use references::References;

/// The most bytes of a schema.
const BYTES_MAX: usize = 1 << 20;
/// The most levels of a schema's text: what the reader of JSON allows.
const DEPTH_MAX: usize = 127;
/// The most subschemas, and values in lists of constants.
const SUBSCHEMAS_MAX: usize = 20_000;
/// The most patterns, formats counted.
const PATTERNS_MAX: usize = 400;
/// The most patterns for the names of one object's properties: each is compared with each.
const NAME_PATTERNS_MAX: usize = 12;
/// The most alternatives of which exactly one may hold: each is compared with each.
const ONE_OF_MAX: usize = 300;
/// The most places that references go to.
const TARGETS_MAX: usize = 1000;
/// The most remarks kept.
const NOTES_MAX: usize = 50;
/// Whole numbers up to here are the same in every program that reads JSON.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// The largest number of items, properties or characters asked for.
const COUNT_MAX: u64 = 1_000_000;
/// What numbers are to be multiples of must have a common multiple up to here, counted in units of their last digit: an automaton
/// counts them, and 65,521 of them take half a second to compile.
const MULTIPLE_MAX: u64 = 10_000;

/// What these refusals are about.
pub(super) const KIND: &str = "JSON schema";

/// A schema in which every keyword is enforced.
#[derive(Debug)]
pub(super) struct Checked {
    pub schema: Value,
    /// What was found to say nothing, though its author may think otherwise.
    pub notes: Vec<String>,
}

/// Reads a schema.
///
/// # Errors
/// When something in it cannot be enforced, makes no sense, or is too large.
pub(super) fn check(text: &str) -> Result<Checked, Error> {
    limit("bytes", text.len(), BYTES_MAX)?;
    let root: Value = serde_json::from_str(text).map_err(|error| {
        if error.to_string().contains("recursion limit") {
            return Error::Limit { kind: KIND, what: "levels", limit: DEPTH_MAX };
        }
        Error::Syntax { kind: KIND, reason: error.to_string() }
    })?;
    let mut checker = Checker::new(&root)?;
    let top = checker.schema(&root, "")?;
    let mut definitions = Vec::new();
    while let Some(pointer) = checker.targets.get_index(definitions.len()).cloned() {
        let target = root.pointer(&pointer).expect("a reference was resolved");
        checker.current = Some(definitions.len());
        definitions.push(checker.schema(target, &pointer)?);
    }
    checker.refuse_circles(definitions.len())?;
    size::check(&top, &definitions)?;
    let mut schema = top;
    if let Value::Object(object) = &mut schema {
        let named = definitions.into_iter().enumerate().map(|(index, definition)| (index.to_string(), definition));
        object.insert("$defs".to_owned(), Value::Object(named.collect()));
    }
    Ok(Checked { schema, notes: checker.notes })
}

fn limit(what: &'static str, found: usize, most: usize) -> Result<(), Error> {
    if found > most { Err(Error::Limit { kind: KIND, what, limit: most }) } else { Ok(()) }
}

fn unsupported(keyword: &str, at: &str, reason: impl Into<String>) -> Error {
    Error::Unsupported { keyword: keyword.to_owned(), pointer: at.to_owned(), reason: reason.into() }
}

fn invalid(keyword: &str, at: &str, reason: impl Into<String>) -> Error {
    Error::Invalid { keyword: keyword.to_owned(), pointer: at.to_owned(), reason: reason.into() }
}

/// A version of the language, as far as it changes what a keyword means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Four,
    Six,
    Seven,
    Nineteen,
    Twenty,
}

impl Draft {
    /// What `$schema` says; the newest where it says nothing.
    fn of(root: &Value) -> Result<Self, Error> {
        let Some(stated) = root.get("$schema") else { return Ok(Self::Twenty) };
        let text = stated.as_str().ok_or_else(|| invalid("$schema", "", "it must be a string"))?;
        let name = text
            .trim_end_matches('#')
            .trim_end_matches('/')
            .trim_start_matches("https://")
            .trim_start_matches("http://");
        match name {
            "json-schema.org/draft-04/schema" => Ok(Self::Four),
            "json-schema.org/draft-06/schema" => Ok(Self::Six),
            "json-schema.org/draft-07/schema" => Ok(Self::Seven),
            "json-schema.org/draft/2019-09/schema" => Ok(Self::Nineteen),
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Ok(Self::Twenty),
            _ => {
                Err(unsupported("$schema", "", format!("{text:?} is none of the drafts 4, 6, 7, 2019-09 and 2020-12")))
            }
        }
    }

    /// The first draft in which a keyword means anything.
    fn since(keyword: &str) -> Self {
        match keyword {
            "const" | "contains" | "propertyNames" => Self::Six,
            "if" | "then" | "else" => Self::Seven,
            "dependentRequired"
            | "dependentSchemas"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "$recursiveRef"
            | "minContains"
            | "maxContains" => Self::Nineteen,
            "prefixItems" | "$dynamicRef" => Self::Twenty,
            _ => Self::Four,
        }
    }
}

struct Checker<'s> {
    draft: Draft,
    references: References<'s>,
    /// Where references go, in the order in which they were found: each becomes a definition.
    targets: IndexSet<String>,
    /// References that hold for the very value that they stand in: from which definition (none: the top) to which.
    in_place: Vec<(Option<usize>, usize)>,
    /// The definition that is being read.
    current: Option<usize>,
    subschemas: usize,
    patterns: usize,
    /// What numbers are to be multiples of, all together, in units of ten to the power of minus this.
    multiple: (u64, u32),
    notes: Vec<String>,
}

/// What a schema says, while it is written out again.
struct Out {
    keywords: Map<String, Value>,
    /// What must hold besides.
    also: Vec<Value>,
}

impl<'s> Checker<'s> {
    fn new(root: &'s Value) -> Result<Self, Error> {
        let draft = Draft::of(root)?;
        Ok(Self {
            draft,
            references: References::new(root, draft == Draft::Four),
            targets: IndexSet::new(),
            in_place: Vec::new(),
            current: None,
            subschemas: 0,
            patterns: 0,
            multiple: (1, 0),
            notes: Vec::new(),
        })
    }

    /// A schema that says something about the value itself, at the place `at`.
    fn schema(&mut self, schema: &Value, at: &str) -> Result<Value, Error> {
        self.count(1)?;
        let object = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(object) => object,
            _ => {
                return Err(Error::Syntax { kind: KIND, reason: format!("{at:?} is neither an object nor a boolean") });
            }
        };
        let mut out = Out { keywords: Map::new(), also: Vec::new() };
        // Up to draft 7 a reference stands for the whole schema, whatever stands beside it.
        if self.draft <= Draft::Seven && object.contains_key("$ref") {
            self.reference(object, at, &mut out)?;
            for keyword in object.keys().filter(|keyword| !is_silent_beside_a_reference(keyword)) {
                self.note(keyword, at, "stands beside \"$ref\", which up to draft 7 is all of a schema");
            }
        } else {
            for (keyword, value) in object {
                if self.draft < Draft::since(keyword) {
                    self.note(keyword, at, "is no keyword of the draft that the schema names");
                } else {
                    self.keyword(keyword, value, object, at, &mut out)?;
                }
            }
        }
        // What was found on the way comes last, so that properties keep the order in which they are listed.
        if out.also.is_empty() {
            return Ok(Value::Object(out.keywords));
        }
        let mut all = vec![Value::Object(out.keywords)];
        all.append(&mut out.also);
        Ok(json!({ "allOf": all }))
    }

    fn count(&mut self, more: usize) -> Result<(), Error> {
        self.subschemas += more;
        limit("subschemas", self.subschemas, SUBSCHEMAS_MAX)
    }

    fn note(&mut self, keyword: &str, at: &str, what: &str) {
        if self.notes.len() < NOTES_MAX {
            self.notes
                .push(format!("{keyword:?} at {} {what}: it says nothing", if at.is_empty() { "the top" } else { at }));
        }
    }

    /// One keyword of `object`.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        object: &Map<String, Value>,
        at: &str,
        out: &mut Out,
    ) -> Result<(), Error> {
        let keep = match keyword {
            "$ref" => return self.reference(object, at, out),
            "type" => types(value, at)?,
            "const" => self.constant(keyword, value, at)?,
            "enum" => {
                let list = value.as_array().ok_or_else(|| invalid(keyword, at, "it must be a list"))?;
                Value::Array(list.iter().map(|value| self.constant(keyword, value, at)).collect::<Result<_, _>>()?)
            }
            "allOf" | "anyOf" | "oneOf" => self.list(keyword, value, at)?,
            "properties" | "patternProperties" => self.properties(keyword, value, at)?,
            "additionalProperties" => self.part(value, &inside(at, keyword))?,
            "required" => strings(keyword, value, at)?,
            "minProperties" | "maxProperties" => properties_count(keyword, value, object, at)?,
            "items" | "prefixItems" | "additionalItems" => return self.items(keyword, value, object, at, out),
            "minItems" | "maxItems" | "minLength" | "maxLength" => count(keyword, value, at)?,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => bound(keyword, value, at)?,
            "multipleOf" => self.multiple_of(value, at)?,
            "pattern" => self.pattern(keyword, value, at)?,
            "format" => return self.format(value, object, at, out),
            "dependencies" | "dependentRequired" | "dependentSchemas" => {
                return self.dependent(keyword, value, at, out);
            }
            _ => return self.silent(keyword, value, object, at, out),
        };
        out.keywords.insert(keyword.to_owned(), keep);
        Ok(())
    }

    /// A keyword of which nothing is written out: it says nothing here, or it cannot be enforced.
    fn silent(
        &mut self,
        keyword: &str,
        value: &Value,
        object: &Map<String, Value>,
        at: &str,
        out: &mut Out,
    ) -> Result<(), Error> {
        let has = |other: &str| object.contains_key(other);
        let why = match (keyword, value) {
            (
                "$schema" | "$id" | "id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$defs" | "definitions"
                | "$comment" | "title" | "description" | "default" | "examples" | "$vocabulary" | "readOnly"
                | "writeOnly" | "deprecated" | "contentMediaType" | "contentEncoding" | "contentSchema",
                _,
            )
            | ("not" | "uniqueItems", Value::Bool(false))
            | ("propertyNames" | "unevaluatedProperties" | "unevaluatedItems", Value::Bool(true)) => return Ok(()),
            ("then" | "else", _) if has("if") => return Ok(()),
            ("if", _) if !has("then") && !has("else") => return Ok(()),
            ("minContains" | "maxContains", _) if has("contains") => return Ok(()),
            ("then" | "else", _) => {
                self.note(keyword, at, "stands without \"if\"");
                return Ok(());
            }
            ("minContains" | "maxContains", _) => {
                self.note(keyword, at, "stands without \"contains\"");
                return Ok(());
            }
            ("uniqueItems", Value::Bool(true)) => {
                let most = object.get("maxItems").and_then(Value::as_u64);
                if most.is_some_and(|most| most <= 1) {
                    return Ok(());
                }
                "whether an item was there before depends on all that was written"
            }
            ("uniqueItems", _) => return Err(invalid(keyword, at, "it must be true or false")),
            ("unevaluatedProperties" | "unevaluatedItems", _) => {
                let applies = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "contains"];
                if !applies.into_iter().any(has) {
                    return self.leftover(keyword, value, object, at, out);
                }
                "what other keywords looked at is not known while text is written"
            }
            ("not", Value::Bool(true)) => {
                out.also.push(Value::Bool(false));
                return Ok(());
            }
            ("not", _) => "values cannot be left out that another schema describes",
            ("if", _) => "which of two schemas holds would have to be known before the value is written",
            ("contains", _) => "an item that must come somewhere is not tied to a place",
            ("propertyNames", _) => return self.property_names(value, object, at, out),
            ("$dynamicRef" | "$recursiveRef", _) => "where it leads depends on the way that led here",
            _ => {
                self.note(keyword, at, "is no keyword of JSON Schema");
                return Ok(());
            }
        };
        Err(unsupported(keyword, at, why))
    }

    /// Where nothing else looks at a value's properties or items, those that nobody looked at are the additional ones.
    fn leftover(
        &mut self,
        keyword: &str,
        value: &Value,
        object: &Map<String, Value>,
        at: &str,
        out: &mut Out,
    ) -> Result<(), Error> {
        let instead = if keyword == "unevaluatedProperties" { "additionalProperties" } else { "items" };
        if !object.contains_key(instead) {
            let rest = self.part(value, &inside(at, keyword))?;
            out.keywords.insert(instead.to_owned(), rest);
        }
        Ok(())
    }

    /// Names that match a pattern, where all properties are free ones: the same as properties of such names and no others.
    fn property_names(
        &mut self,
        value: &Value,
        object: &Map<String, Value>,
        at: &str,
        out: &mut Out,
    ) -> Result<(), Error> {
        let keyword = "propertyNames";
        let names = value.as_object().ok_or_else(|| invalid(keyword, at, "it must be a schema"))?;
        let says = |name: &str| {
            matches!(name, "pattern" | "enum" | "const" | "format" | "minLength" | "maxLength" | "not" | "$ref")
        };
        let only =
            |name: &str| names.keys().all(|key| key == name || key == "type" || !says(key) && names[key].is_string());
        let pattern = match (names.get("pattern"), names.get("enum")) {
            (Some(Value::String(pattern)), None) if only("pattern") => pattern.clone(),
            (None, Some(Value::Array(list))) if only("enum") => {
                self.count(list.len())?;
                let names = list.iter().filter_map(Value::as_str).map(escaped).collect::<Vec<_>>();
                format!("^(?:{})$", names.join("|"))
            }
            _ => return Err(unsupported(keyword, at, "only one pattern, or a list of names, can be followed")),
        };
        if ["properties", "patternProperties"].into_iter().any(|other| object.contains_key(other)) {
            return Err(unsupported(keyword, at, "it is followed only where no properties are listed beside it"));
        }
        let pattern = self.pattern(keyword, &Value::String(pattern), at)?;
        let rest = object.get("additionalProperties").map_or(Ok(Value::Bool(true)), |rest| self.part(rest, at))?;
        let pattern = pattern.as_str().unwrap_or_default();
        out.also.push(json!({ "patternProperties": { pattern: rest }, "additionalProperties": false }));
        Ok(())
    }

    fn reference(&mut self, object: &Map<String, Value>, at: &str, out: &mut Out) -> Result<(), Error> {
        let value = &object["$ref"];
        let text = value.as_str().ok_or_else(|| invalid("$ref", at, "it must be a string"))?;
        let target = self.references.resolve(text, at)?;
        let index = self.targets.insert_full(target).0;
        limit("places that references go to", self.targets.len(), TARGETS_MAX)?;
        self.in_place.push((self.current, index));
        out.keywords.insert("$ref".to_owned(), Value::String(format!("#/$defs/{index}")));
        Ok(())
    }

    /// References that lead back to where they started without a step into the value say nothing at all.
    fn refuse_circles(&self, definitions: usize) -> Result<(), Error> {
        let mut targets = vec![Vec::new(); definitions];
        for &(from, to) in &self.in_place {
            if let Some(from) = from {
                targets[from].push(to);
            }
        }
        // Those that lead nowhere are taken away until none is left, or only circles are.
        let mut open = vec![true; definitions];
        let mut sources = vec![Vec::new(); definitions];
        let mut left: Vec<usize> = targets.iter().map(Vec::len).collect();
        for (from, to) in targets.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |&to| (from, to))) {
            sources[to].push(from);
        }
        let mut ready: Vec<usize> = (0..definitions).filter(|&index| left[index] == 0).collect();
        while let Some(index) = ready.pop() {
            open[index] = false;
            for &source in &sources[index] {
                left[source] -= 1;
                if left[source] == 0 {
                    ready.push(source);
                }
            }
        }
        match open.iter().position(|&open| open) {
            None => Ok(()),
            Some(index) => {
                let place = &self.targets[index];
                Err(invalid("$ref", place, "it leads back to itself without a step into the value"))
            }
        }
    }

    fn list(&mut self, keyword: &str, value: &Value, at: &str) -> Result<Value, Error> {
        let list = value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| invalid(keyword, at, "it must be a list of schemas, and not an empty one"))?;
        if keyword == "oneOf" {
            limit("alternatives in one \"oneOf\"", list.len(), ONE_OF_MAX)?;
        }
        let schemas = list.iter().enumerate();
        let schemas = schemas.map(|(index, schema)| self.schema(schema, &format!("{at}/{keyword}/{index}")));
        Ok(Value::Array(schemas.collect::<Result<_, _>>()?))
    }

    /// Schemas that say something about a part of the value: references in them begin a new circle.
    fn part(&mut self, schema: &Value, at: &str) -> Result<Value, Error> {
        let before = self.in_place.len();
        let out = self.schema(schema, at)?;
        self.in_place.truncate(before);
        Ok(out)
    }

    fn properties(&mut self, keyword: &str, value: &Value, at: &str) -> Result<Value, Error> {
        let map = value.as_object().ok_or_else(|| invalid(keyword, at, "it must be an object of schemas"))?;
        let by_pattern = keyword == "patternProperties";
        if by_pattern {
            limit("patterns in one \"patternProperties\"", map.len(), NAME_PATTERNS_MAX)?;
        }
        let mut out = Map::new();
        for (name, schema) in map {
            let place = inside(&inside(at, keyword), name);
            let schema = self.part(schema, &place)?;
            let name = if by_pattern { self.pattern_text(keyword, name, &place)? } else { name.clone() };
            out.insert(name, schema);
        }
        Ok(Value::Object(out))
    }

    fn items(
        &mut self,
        keyword: &str,
        value: &Value,
        object: &Map<String, Value>,
        at: &str,
        out: &mut Out,
    ) -> Result<(), Error> {
        let place = inside(at, keyword);
        let is_list = |key: &str| object.get(key).is_some_and(Value::is_array);
        if keyword == "items" && is_list("items") && self.draft == Draft::Twenty && object.contains_key("prefixItems") {
            return Err(invalid(keyword, at, "it must be a schema where \"prefixItems\" stands beside it"));
        }
        let as_items = match keyword {
            // A list of items is what prefixItems is since 2020-12; what follows it was called additionalItems.
            "additionalItems" if is_list("items") => "items",
            "additionalItems" => {
                self.note(keyword, at, "stands without a list of items");
                return Ok(());
            }
            "items" if !value.is_array() => "items",
            _ => "prefixItems",
        };
        let schema = match value.as_array().filter(|_| as_items == "prefixItems") {
            Some(list) => {
                let parts = list.iter().enumerate();
                let parts = parts.map(|(index, schema)| self.part(schema, &format!("{place}/{index}")));
                Value::Array(parts.collect::<Result<_, _>>()?)
            }
            None => self.part(value, &place)?,
        };
        out.keywords.insert(as_items.to_owned(), schema);
        Ok(())
    }

    /// A value that is asked for as it is.
    fn constant(&mut self, keyword: &str, value: &Value, at: &str) -> Result<Value, Error> {
        self.count(1)?;
        match value {
            Value::Number(number) if !is_exact(number, EXACT_MAX) => {
                return Err(unsupported(keyword, at, format!("{number} has more digits than a number keeps")));
            }
            Value::Array(list) => list.iter().try_for_each(|value| self.constant(keyword, value, at).map(drop))?,
            Value::Object(map) => map.values().try_for_each(|value| self.constant(keyword, value, at).map(drop))?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(value.clone())
    }

    fn pattern(&mut self, keyword: &str, value: &Value, at: &str) -> Result<Value, Error> {
        let text = value.as_str().ok_or_else(|| invalid(keyword, at, "it must be a string"))?;
        Ok(Value::String(self.pattern_text(keyword, text, at)?))
    }

    fn pattern_text(&mut self, keyword: &str, text: &str, at: &str) -> Result<String, Error> {
        self.patterns += 1;
        limit("patterns and formats", self.patterns, PATTERNS_MAX)?;
        pattern::translate(text).map_err(|reason| unsupported(keyword, at, reason))
    }

    fn format(&mut self, value: &Value, object: &Map<String, Value>, at: &str, out: &mut Out) -> Result<(), Error> {
        let name = value.as_str().ok_or_else(|| invalid("format", at, "it must be a string"))?;
        match formats::find(name) {
            Format::Pattern(text, most) => {
                let pattern = self.pattern_text("format", text, at)?;
                if most.is_none() && !object.contains_key("pattern") {
                    out.keywords.insert("pattern".to_owned(), Value::String(pattern));
                    return Ok(());
                }
                let mut schema = json!({ "pattern": pattern });
                if let Some(most) = most {
                    schema["maxLength"] = most.into();
                }
                out.also.push(schema);
            }
            Format::Beyond(reason) => return Err(unsupported(&format!("format: {name}"), at, reason)),
            Format::Unknown => self.note(&format!("format: {name}"), at, "is no format of JSON Schema"),
        }
        Ok(())
    }

    fn multiple_of(&mut self, value: &Value, at: &str) -> Result<Value, Error> {
        let wrong = || invalid("multipleOf", at, "it must be a number over 0");
        let number = value.as_number().filter(|number| number.as_f64().is_some_and(|number| number > 0.0));
        let text = number.ok_or_else(wrong)?.as_f64().ok_or_else(wrong)?.to_string();
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        let digits = part.len() as u32;
        let units = format!("{whole}{part}").parse::<u64>().ok().filter(|&units| units <= MULTIPLE_MAX && digits <= 4);
        let too_many = || {
            let reason = format!(
                "with all others of the schema it comes to a multiple of over {MULTIPLE_MAX} of its last digit, or of over 4 decimals"
            );
            unsupported("multipleOf", at, reason)
        };
        let units = units.ok_or_else(too_many)?;
        // References may bring any two of them together.
        let digits_all = digits.max(self.multiple.1);
        let scaled = |units: u64, digits: u32| units * 10_u64.pow(digits_all - digits);
        let (a, b) = (scaled(self.multiple.0, self.multiple.1), scaled(units, digits));
        self.multiple = (a / greatest_divisor(a, b) * b, digits_all);
        if self.multiple.0 > MULTIPLE_MAX { Err(too_many()) } else { Ok(value.clone()) }
    }

    /// What a property's presence asks for: either it is not there, or it is and the rest holds.
    fn dependent(&mut self, keyword: &str, value: &Value, at: &str, out: &mut Out) -> Result<(), Error> {
        let map = value.as_object().ok_or_else(|| invalid(keyword, at, "it must be an object"))?;
        for (name, wanted) in map {
            let place = inside(&inside(at, keyword), name);
            let present = match wanted {
                Value::Array(_) if keyword != "dependentSchemas" => {
                    let mut names = strings(keyword, wanted, &place)?;
                    names.as_array_mut().expect("a list of strings").push(name.as_str().into());
                    json!({ "required": names })
                }
                _ if keyword != "dependentRequired" => {
                    json!({ "allOf": [{ "required": [name] }, self.schema(wanted, &place)?] })
                }
                _ => return Err(invalid(keyword, &place, "it must be a list of names")),
            };
            out.also.push(json!({ "anyOf": [{ "properties": { name: false } }, present] }));
        }
        Ok(())
    }
}

/// The place of a part of what lies at `at`.
pub(super) fn inside(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// What says nothing about a value, or is looked up from elsewhere.
fn is_silent_beside_a_reference(keyword: &str) -> bool {
    matches!(
        keyword,
        "$ref"
            | "$schema"
            | "$id"
            | "id"
            | "$comment"
            | "definitions"
            | "$defs"
            | "title"
            | "description"
            | "default"
            | "examples"
            | "readOnly"
            | "writeOnly"
    )
}

fn escaped(text: &str) -> String {
    let special = |character: char| !character.is_alphanumeric() && character != '_' && character != ' ';
    text.chars().flat_map(|character| special(character).then_some('\\').into_iter().chain([character])).collect()
}

fn types(value: &Value, at: &str) -> Result<Value, Error> {
    let known = ["null", "boolean", "number", "integer", "string", "array", "object"];
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let wrong = list.iter().find(|name| !name.as_str().is_some_and(|name| known.contains(&name)));
    match wrong {
        Some(wrong) => Err(invalid("type", at, format!("{wrong} is none of {}", known.join(", ")))),
        None if list.is_empty() => Err(invalid("type", at, "the list is empty")),
        None => Ok(value.clone()),
    }
}

fn strings(keyword: &str, value: &Value, at: &str) -> Result<Value, Error> {
    let list = value.as_array().filter(|list| list.iter().all(Value::is_string));
    list.map(|_| value.clone()).ok_or_else(|| invalid(keyword, at, "it must be a list of strings"))
}

fn count(keyword: &str, value: &Value, at: &str) -> Result<Value, Error> {
    let whole = value.as_f64().filter(|count| *count >= 0.0 && count.fract() == 0.0);
    let whole = whole.ok_or_else(|| invalid(keyword, at, "it must be a whole number, 0 or more"))?;
    if whole > COUNT_MAX as f64 {
        // What may be longer than any answer bounds nothing; what must be is never reached.
        if keyword.starts_with("max") {
            return Ok(COUNT_MAX.into());
        }
        return Err(unsupported(keyword, at, format!("{whole} is more than {COUNT_MAX}")));
    }
    Ok((whole as u64).into())
}

/// Free properties may repeat a name in the text, so that two of them are one in the value.
fn properties_count(keyword: &str, value: &Value, object: &Map<String, Value>, at: &str) -> Result<Value, Error> {
    let out = count(keyword, value, at)?;
    let least = out.as_u64().unwrap_or(0);
    let required = object.get("required").and_then(Value::as_array).map_or(0, |list| {
        list.iter().enumerate().filter(|(index, name)| !list[..*index].contains(name)).count() as u64
    });
    if keyword == "minProperties" && least > required + 1 {
        return Err(unsupported(keyword, at, "of properties that are not required only one can be asked for"));
    }
    Ok(out)
}

fn bound(keyword: &str, value: &Value, at: &str) -> Result<Value, Error> {
    match value {
        // Draft 4: whether the bound beside it is itself left out.
        Value::Bool(_) if keyword.starts_with("exclusive") => Ok(value.clone()),
        Value::Number(number) if is_exact(number, EXACT_MAX) => Ok(value.clone()),
        Value::Number(number) => {
            Err(unsupported(keyword, at, format!("{number} has more digits than can be followed")))
        }
        _ => Err(invalid(keyword, at, "it must be a number")),
    }
}

/// Whether a number is the same written out in decimal digits, and not larger than `most`.
fn is_exact(number: &Number, most: f64) -> bool {
    let value = number.as_f64().unwrap_or(f64::INFINITY);
    value.abs() < most && value.to_string().len() <= 20
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
