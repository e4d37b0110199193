//! The `OpenAPI` document: made once of what each endpoint says of itself, and of the types that are read and written.
//!
//! An endpoint has a [`Sheet`] beside its handler, and the table of `routes.rs` binds the two to a path: there is no route without one. A
//! request's body is one object of the fields of all the types that readers take from it; an answer is exactly its type: a field
//! that is not in the document is none of the answer's. Knows no endpoint.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{Dialect, envelope};

/// What reading any body can come to, beside 200.
const BODY_PROBLEMS: [u16; 3] = [400, 408, 413];
/// What the doors, the limits of keys, and our own faults can bring anybody.
const ANY_PROBLEMS: [u16; 4] = [401, 403, 429, 500];

/// A schema that no type of Rust says, for `#[schema(schema_with = …)]`: the union of several, a word of a list.
macro_rules! schema {
    ($visibility:vis $name:ident, $($json:tt)+) => {
        $visibility fn $name() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
            $crate::document::schema_of(&serde_json::json!($($json)+))
        }
    };
}
pub(crate) use schema;

/// What an endpoint says of itself.
#[derive(Default)]
pub struct Sheet {
    summary: &'static str,
    /// One object, where there is a body.
    body: Option<Json>,
    /// Content types of the answer with their schemas.
    contents: Map<String, Json>,
    problems: Vec<u16>,
    other_statuses: Vec<(u16, &'static str)>,
    parameters: Vec<Json>,
    schemas: BTreeMap<String, Json>,
}

/// An endpoint's place in the document.
pub struct Entry {
    pub path: &'static str,
    pub method: &'static str,
    pub sheet: Sheet,
}

/// The JSON form of a schema as utoipa has it.
///
/// # Panics
/// Where it is none: schemas are written in this crate, and a test makes them all.
pub fn schema_of(json: &Json) -> RefOr<Schema> {
    let schema = serde_json::from_value(json.clone()).expect("a schema");
    debug_assert_eq!(serde_json::to_value(&schema).ok().as_ref(), Some(json), "utoipa leaves something out");
    schema
}

impl Sheet {
    pub fn new(summary: &'static str) -> Self {
        Self { summary, ..Self::default() }
    }

    /// The body's fields are those of `T`, too.
    pub fn takes<T: ToSchema>(mut self) -> Self {
        let part = self.learn::<T>(false);
        let body = self.body.get_or_insert_with(|| json!({ "type": "object", "properties": {} }));
        merge(body, &part);
        self
    }

    /// The body is of this schema, and no object.
    pub fn takes_other(mut self, schema: &RefOr<Schema>) -> Self {
        self.body = Some(serde_json::to_value(schema).expect("a schema is JSON"));
        self
    }

    /// In this dialect a field has another name.
    pub fn called(mut self, name: &str, other: &str) -> Self {
        let properties = self.body.as_mut().and_then(|body| body["properties"].as_object_mut());
        if let Some(properties) = properties
            && let Some(schema) = properties.shift_remove(name)
        {
            properties.insert(other.to_owned(), schema);
        }
        self
    }

    /// These fields must be there.
    pub fn requires(mut self, names: &[&str]) -> Self {
        if let Some(body) = &mut self.body {
            merge(body, &json!({ "required": names }));
        }
        self
    }

    /// A field may be missing here.
    pub fn optional(mut self, name: &str) -> Self {
        if let Some(required) = self.body.as_mut().and_then(|body| body.get_mut("required")?.as_array_mut()) {
            required.retain(|other| other != name);
        }
        self
    }

    /// Answers 200 with JSON.
    pub fn gives<T: ToSchema>(mut self) -> Self {
        let schema = self.learn::<T>(true);
        self.contents.insert("application/json".to_owned(), json!({ "schema": schema }));
        self
    }

    /// Answers 200 with a stream of `T`, where that is asked for.
    pub fn streams<T: ToSchema>(self, kind: &str) -> Self {
        let mut sheet = self;
        let item = sheet.learn::<T>(true);
        sheet.streams_of(kind, &item)
    }

    /// Answers 200 with a stream of events that have at least the members of `T`, where that is asked for.
    pub fn streams_events<T: ToSchema>(self) -> Self {
        let mut sheet = self;
        let item = sheet.learn::<T>(false);
        sheet.streams_of("text/event-stream", &item)
    }

    fn streams_of(mut self, kind: &str, item: &Json) -> Self {
        let schema = if kind == "text/event-stream" { event(item) } else { json!({ "type": "string" }) };
        let content = json!({ "schema": schema, "x-item-schema": item });
        self.contents.insert(kind.to_owned(), content);
        self
    }

    /// Answers 200 with an object that has at least these members.
    pub fn gives_object(mut self, required: &[&str]) -> Self {
        self.contents
            .insert("application/json".to_owned(), json!({ "schema": { "type": "object", "required": required } }));
        self
    }

    /// Answers 200 with text or a file.
    pub fn gives_text(mut self, kind: &str) -> Self {
        self.contents.insert(kind.to_owned(), json!({ "schema": { "type": "string" } }));
        self
    }

    /// May answer so, beside what any endpoint may.
    pub fn fails(mut self, statuses: &[u16]) -> Self {
        self.problems.extend(statuses);
        self
    }

    /// Answers with the same JSON and another status.
    pub fn also(mut self, status: u16, what: &'static str) -> Self {
        self.other_statuses.push((status, what));
        self
    }

    /// A part of its path.
    pub fn in_path(mut self, name: &str, what: &str) -> Self {
        let schema = json!({ "type": "string", "minLength": 1 });
        self.parameters
            .push(json!({ "name": name, "in": "path", "required": true, "description": what, "schema": schema }));
        self
    }

    /// The schema of a type, and those that it names kept; `exact` ones have no other fields.
    fn learn<T: ToSchema>(&mut self, exact: bool) -> Json {
        let json = |schema: &RefOr<Schema>| serde_json::to_value(schema).expect("a schema is JSON");
        let mut named = Vec::new();
        T::schemas(&mut named);
        let named: BTreeMap<String, Json> = named.iter().map(|(name, schema)| (name.clone(), json(schema))).collect();
        let read = |mut json: Json| {
            flatten(&mut json, &named);
            bound(&mut json);
            if exact {
                close(&mut json);
            }
            json
        };
        for (name, schema) in &named {
            let schema = read(schema.clone());
            let known = self.schemas.insert(name.clone(), schema.clone());
            debug_assert!(known.is_none_or(|known| known == schema), "two schemas are called {name}");
        }
        read(json(&<T as PartialSchema>::schema()))
    }

    fn operation(mut self, path: &str, method: &str, schemas: &mut BTreeMap<String, Json>) -> Json {
        let dialect = Dialect::of(path);
        let problem = json!({ "application/json": { "schema": { "$ref": reference(dialect.error_name()) } } });
        let mut problems = ANY_PROBLEMS.to_vec();
        problems.append(&mut self.problems);
        if self.body.is_some() {
            problems.extend(BODY_PROBLEMS);
        }
        let mut responses = BTreeMap::new();
        for status in problems {
            responses.insert(
                status.to_string(),
                json!({ "description": meaning(status), "headers": headers(status), "content": problem }),
            );
        }
        for (status, what) in &self.other_statuses {
            responses.insert(
                status.to_string(),
                json!({ "description": what, "headers": headers(*status), "content": self.contents }),
            );
        }
        responses.insert(
            "200".to_owned(),
            json!({ "description": "Done.", "headers": headers(200), "content": self.contents }),
        );
        let mut operation = json!({
            "operationId": operation_name(path, method),
            "summary": self.summary,
            "tags": [dialect.name()],
            "responses": responses,
        });
        if !self.parameters.is_empty() {
            operation["parameters"] = self.parameters.into();
        }
        if let Some(body) = self.body {
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": body } } });
        }
        if crate::guard::is_open(path) {
            operation["security"] = json!([]);
        }
        schemas.extend(self.schemas);
        operation
    }
}

/// The whole document.
pub fn document(entries: Vec<Entry>) -> Json {
    let mut schemas = BTreeMap::new();
    for dialect in Dialect::ALL {
        schemas.insert(dialect.error_name().to_owned(), envelope(dialect));
    }
    let mut paths = Map::new();
    for Entry { path, method, sheet } in entries {
        let operation = sheet.operation(path, method, &mut schemas);
        let path = path.replace("{*", "{");
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "kauri",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Language models on your own hardware, in the words of OpenAI, Anthropic and Ollama. A field that is not named here is left alone.",
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "security": [{ "bearer": [] }, { "header": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "Where the server has keys." },
                "header": { "type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same." },
            },
        },
    })
}

/// An event of a stream: its text, which is JSON as `item` says, an error where the stream ends before its time, or the word for its end.
fn event(item: &Json) -> Json {
    let error = json!({ "type": "object", "required": ["error"] });
    let text = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": { "anyOf": [item, error] } });
    json!({
        "type": "object",
        "description": "Each event of the stream.",
        "required": ["data"],
        "properties": { "event": { "type": "string" }, "data": { "anyOf": [{ "const": "[DONE]" }, text] } },
    })
}

fn reference(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

fn operation_name(path: &str, method: &str) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(method.to_owned(), |name, word| name + "_" + word)
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => {
            "The body is no JSON object, or a field has a value that it may not have; `param` or the message names it."
        }
        401 => "A key is needed, or this is none of ours.",
        403 => "The host or origin is none of ours, or the key may not do this.",
        404 => "There is no such model or file.",
        408 => "The body did not come in time.",
        413 => "The body is too long.",
        422 => "A schema cannot be enforced; the message names the keyword.",
        429 => "The key has as many requests open as it may.",
        503 => "Too many wait, or the model cannot be loaded: come back later.",
        _ => "Something is wrong that no request brought about.",
    }
}

fn headers(status: u16) -> Json {
    let text = |what: &str| json!({ "description": what, "required": true, "schema": { "type": "string" } });
    let mut headers =
        json!({ "x-request-id": text("What the request is called in logs: the client's word, or ours.") });
    if status == 401 {
        headers["www-authenticate"] = text("The scheme.");
    }
    if status == 429 {
        headers["retry-after"] =
            json!({ "description": "Seconds.", "required": true, "schema": { "type": "integer", "minimum": 0 } });
    }
    headers
}

/// Adds the properties of one object to another.
fn merge(object: &mut Json, part: &Json) {
    for (name, schema) in part["properties"].as_object().into_iter().flatten() {
        object["properties"][name] = schema.clone();
    }
    let mut required: Vec<Json> = object["required"].as_array().cloned().unwrap_or_default();
    for name in part["required"].as_array().into_iter().flatten() {
        if !required.contains(name) {
            required.push(name.clone());
        }
    }
    if !required.is_empty() {
        object["required"] = required.into();
    }
}

/// Makes one object of several that are meant together, as flattened fields are.
fn flatten(schema: &mut Json, known: &BTreeMap<String, Json>) {
    let Some(parts) = schema.get_mut("allOf").and_then(Json::as_array_mut).map(std::mem::take) else { return };
    let mut whole = json!({ "type": "object", "properties": {} });
    for part in parts {
        // What may be missing altogether is that, or null.
        let other =
            part["oneOf"].as_array().and_then(|either| either.iter().find(|one| one["type"] != "null")).cloned();
        let is_there = other.is_none();
        let mut part = other.unwrap_or(part);
        let name = part["$ref"].as_str().and_then(|target| target.rsplit('/').next());
        if let Some(named) = name.and_then(|name| known.get(name)) {
            part = named.clone();
        }
        if let Some(members) = part.as_object_mut().filter(|_| !is_there) {
            members.remove("required");
        }
        flatten(&mut part, known);
        merge(&mut whole, &part);
    }
    *schema = whole;
}

/// Says how large whole numbers may be; a format says less, and has no word for those without a sign.
fn bound(schema: &mut Json) {
    match schema {
        Json::Object(members) => {
            let format = members.get("format").and_then(Json::as_str).map(str::to_owned);
            if let Some(is_long) =
                format.and_then(|format| ["int32", "int64"].iter().position(|known| *known == format))
            {
                members.shift_remove("format");
                let is_signed = members.get("minimum").and_then(Json::as_f64).is_none_or(|least| least < 0.0);
                let (least, most) = match (is_long == 1, is_signed) {
                    (true, true) => (json!(i64::MIN), json!(i64::MAX)),
                    (true, false) => (json!(0), json!(u64::MAX)),
                    (false, true) => (json!(i32::MIN), json!(i32::MAX)),
                    (false, false) => (json!(0), json!(u32::MAX)),
                };
                members.entry("minimum").or_insert(least);
                members.entry("maximum").or_insert(most);
            }
            members.values_mut().for_each(bound);
        }
        Json::Array(items) => items.iter_mut().for_each(bound),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Lets an object, and those in it, have no other fields than theirs.
fn close(schema: &mut Json) {
    match schema {
        Json::Object(members) => {
            if members.contains_key("properties") && !members.contains_key("additionalProperties") {
                members.insert("additionalProperties".to_owned(), false.into());
            }
            members.values_mut().for_each(close);
        }
        Json::Array(items) => items.iter_mut().for_each(close),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` of the document, with where it stands.
    fn references(json: &Json, found: &mut Vec<String>) {
        match json {
            Json::Object(members) => {
                if let Some(Json::String(target)) = members.get("$ref") {
                    found.push(target.clone());
                }
                members.values().for_each(|value| references(value, found));
            }
            Json::Array(items) => items.iter().for_each(|value| references(value, found)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    #[test]
    fn the_document_names_nothing_that_it_does_not_have() {
        let document = crate::routes::document();
        let mut found = Vec::new();
        references(document, &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for target in found {
            let pointer = target.strip_prefix('#').expect("it is in here");
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
    }

    #[test]
    fn an_answer_has_no_field_beside_those_of_its_type() {
        let document = crate::routes::document();
        let content = &document["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["required"].as_array().is_some_and(|names| names.contains(&json!("usage"))), "{schema}");
        let event =
            &content["text/event-stream"]["schema"]["properties"]["data"]["anyOf"][1]["contentSchema"]["anyOf"][0];
        assert_eq!((&event["additionalProperties"], event["properties"]["choices"].is_object()), (&json!(false), true));
    }

    #[test]
    fn parts_that_may_be_missing_leave_their_fields_behind() {
        let document = crate::routes::document();
        let content = &document["paths"]["/api/chat"]["post"]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        assert!(schema["properties"]["eval_count"].is_object(), "{schema}");
        assert!(schema["required"].as_array().is_some_and(|names| !names.contains(&json!("eval_count"))), "{schema}");
    }

    #[test]
    fn ranges_of_fields_are_those_that_are_checked() {
        let document = crate::routes::document();
        let body = &document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"];
        let properties = &body["schema"]["properties"];
        assert_eq!(properties["temperature"]["maximum"], 100);
        assert_eq!(properties["n"]["minimum"], 1);
        assert_eq!(properties["n"]["maximum"], crate::ask::ANSWERS_MAX);
        assert_eq!(properties["top_logprobs"]["maximum"], crate::ask::LIKELY_MAX);
        assert_eq!(body["schema"]["required"], json!(["messages"]));
        assert!(properties["response_format"].is_object() && properties["tools"].is_object());
    }
}
