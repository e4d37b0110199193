//! Tools and the choice among them, as OpenAI's clients send them.

use kauri_engine::{Tool, Tools, tools};
use serde::Deserialize;
use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::body::Fields;
use crate::document::schema;
use crate::error::Problem;

/// What may be called, and what must be.
#[derive(Debug, Deserialize, ToSchema)]
pub struct SentTools {
    #[schema(schema_with = tools_schema)]
    tools: Option<Json>,
    #[schema(schema_with = choice_schema)]
    tool_choice: Option<Json>,
    parallel_tool_calls: Option<bool>,
}

/// The tools of a request.
#[derive(Debug)]
pub struct Offer {
    pub tools: Tools,
    /// The same where only those that say `"strict": true` are held to their schemas, if that makes a difference.
    pub relaxed: Option<Tools>,
}

schema!(choice_schema, { "oneOf": [
    { "type": "null" },
    { "type": "string", "enum": ["none", "auto", "required", "any"] },
    { "type": "object", "required": ["function"], "properties": {
        "function": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } } } },
    { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
] });

/// A function, as it is or as the member of an object.
pub fn tools_schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    let function = serde_json::json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string", "pattern": "^[A-Za-z0-9_./:-]{1,128}$" },
        "description": { "type": ["string", "null"] },
        "parameters": { "type": ["object", "null"] },
        "strict": { "type": ["boolean", "null"] },
    } });
    let mut bare = function.clone();
    bare["properties"]["type"] = serde_json::json!({ "type": ["string", "null"], "enum": ["function", null] });
    let kind = bare["properties"]["type"].clone();
    let whole = serde_json::json!({ "type": "object", "required": ["function"],
        "properties": { "type": kind, "function": function } });
    crate::document::schema_of(&serde_json::json!({ "oneOf": [
        { "type": "null" },
        { "type": "array", "maxItems": tools::TOOLS_MAX, "items": { "anyOf": [whole, bare] } },
    ] }))
}

impl Offer {
    /// Of a list of tools, each in the form that [`Tool::list`] reads.
    ///
    /// # Errors
    /// Names what is no tool.
    pub fn new(list: Vec<Json>, choice: &tools::Choice, parallel: bool) -> Result<Self, Problem> {
        list.iter().enumerate().try_for_each(|(index, tool)| check(tool, index))?;
        let insists = |tool: &Json| tool.get("function").unwrap_or(tool).get("strict") == Some(&Json::Bool(true));
        let insisting: Vec<bool> = list.iter().map(insists).collect();
        let strict = Tool::list(&Json::Array(list)).map_err(of_tools)?;
        let relaxed: Vec<Tool> = strict
            .iter()
            .zip(&insisting)
            .map(|(tool, &insists)| Tool { is_strict: tool.is_strict && insists, ..tool.clone() })
            .collect();
        let relaxed =
            (relaxed != strict).then(|| Tools::new(relaxed, choice, parallel)).transpose().map_err(of_tools)?;
        Ok(Self { tools: Tools::new(strict, choice, parallel).map_err(of_tools)?, relaxed })
    }
}

/// What a tool may be called and told, where that can be said of one alone.
fn check(tool: &Json, index: usize) -> Result<(), Problem> {
    let wrong = |field: &str, message: &str| Err(Problem::field(&format!("tools[{index}].{field}"), message));
    match tool.get("type") {
        None | Some(Json::Null) => {}
        Some(Json::String(kind)) if kind == "function" => {}
        Some(other) => return wrong("type", &format!("{other} is nothing that runs here; give functions")),
    }
    let function = tool.get("function").unwrap_or(tool);
    if !function.get("description").is_none_or(|text| text.is_null() || text.is_string()) {
        return wrong("function.description", "must be a string");
    }
    if !function.get("strict").is_none_or(|strict| strict.is_null() || strict.is_boolean()) {
        return wrong("function.strict", "must be true or false");
    }
    Ok(())
}

/// Reads the tools of a request; none where there are none, or none may be called.
///
/// # Errors
/// Names what is no tool, or no choice.
pub fn read_tools(fields: &Fields) -> Result<Option<Offer>, Problem> {
    let sent: SentTools = fields.read()?;
    let Some(choice) = read_choice(sent.tool_choice.as_ref())? else { return Ok(None) };
    let list = match &sent.tools {
        None | Some(Json::Null) => &[][..],
        Some(Json::Array(list)) => list,
        Some(_) => return Err(Problem::field("tools", "must be a list of tools")),
    };
    if list.is_empty() {
        return match choice {
            tools::Choice::Auto => Ok(None),
            tools::Choice::Required | tools::Choice::Named(_) => {
                Err(Problem::field("tool_choice", "asks for a call, and there are no tools"))
            }
        };
    }
    Offer::new(list.to_vec(), &choice, sent.parallel_tool_calls.unwrap_or(true)).map(Some)
}

/// Nothing where no tool may be called.
fn read_choice(choice: Option<&Json>) -> Result<Option<tools::Choice>, Problem> {
    let wrong = || Problem::field("tool_choice", "must be none, auto, required, or a function by its name");
    match choice {
        None | Some(Json::Null) => Ok(Some(tools::Choice::Auto)),
        Some(Json::String(word)) => match word.as_str() {
            "none" => Ok(None),
            "auto" => Ok(Some(tools::Choice::Auto)),
            "required" | "any" => Ok(Some(tools::Choice::Required)),
            _ => Err(wrong()),
        },
        Some(object) => {
            let name = object.get("function").unwrap_or(object).get("name").and_then(Json::as_str);
            name.map(|name| Some(tools::Choice::Named(name.to_owned()))).ok_or_else(wrong)
        }
    }
}

fn of_tools(error: tools::Error) -> Problem {
    let field = match &error {
        tools::Error::Malformed { field, .. } => field.clone(),
        tools::Error::TooMany { .. } | tools::Error::TooLong { .. } => "tools".to_owned(),
        tools::Error::Unlisted { .. } => "tool_choice".to_owned(),
    };
    Problem { param: Some(field), ..Problem::from(kauri_engine::Error::from(error)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Json) -> Result<Option<Offer>, Problem> {
        read_tools(&Fields::of(body.clone(), "the body").unwrap())
    }

    #[test]
    fn tools_and_choices_are_read() {
        let tool = json!({ "type": "function", "function": { "name": "weather", "parameters": { "type": "object" } } });
        let other = json!({ "type": "function", "function": { "name": "time", "strict": true } });
        let offer = read(&json!({ "tools": [tool, other] })).unwrap().unwrap();
        assert!(!offer.tools.is_required() && offer.tools.list().iter().all(|tool| tool.is_strict));
        let relaxed: Vec<bool> = offer.relaxed.unwrap().list().iter().map(|tool| tool.is_strict).collect();
        assert_eq!(relaxed, [false, true], "who insists is not let off");
        assert!(read(&json!({ "tools": [tool], "tool_choice": "none" })).unwrap().is_none());
        assert!(read(&json!({ "tools": [] })).unwrap().is_none());
        let named = json!({ "type": "function", "function": { "name": "time" } });
        let offer = read(&json!({ "tools": [tool, other], "tool_choice": named })).unwrap().unwrap();
        assert!(offer.tools.is_required() && offer.tools.list().len() == 1);
        for (body, param) in [
            (json!({ "tools": [tool], "tool_choice": "perhaps" }), "tool_choice"),
            (json!({ "tools": [tool], "tool_choice": named }), "tool_choice"),
            (json!({ "tool_choice": "required" }), "tool_choice"),
            (json!({ "tools": 7 }), "tools"),
            (json!({ "tools": [{ "type": "web_search" }] }), "tools[0].type"),
            (json!({ "tools": [{ "type": 7, "function": { "name": "f" } }] }), "tools[0].type"),
            (json!({ "tools": [{ "name": "f", "description": 7 }] }), "tools[0].function.description"),
            (json!({ "tools": [{ "name": "f", "strict": "yes" }] }), "tools[0].function.strict"),
            (json!({ "tools": [tool, tool] }), "tools[1].function.name"),
            (json!({ "tools": [tool], "parallel_tool_calls": "yes" }), "parallel_tool_calls"),
        ] {
            assert_eq!(read(&body).expect_err(param).param.as_deref(), Some(param), "{body}");
        }
    }
}
