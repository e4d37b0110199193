//! Tools and the choice among them, as OpenAI's clients send them.

use kauri_engine::{Tool, Tools, tools};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::body::Fields;
use crate::error::Problem;

#[derive(Debug, Deserialize)]
struct Sent {
    tools: Option<Json>,
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

impl Offer {
    /// Of a list of tools, each in the form that [`Tool::list`] reads.
    ///
    /// # Errors
    /// Names what is no tool.
    pub fn new(list: Vec<Json>, choice: &tools::Choice, parallel: bool) -> Result<Self, Problem> {
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

/// Reads the tools of a request; none where there are none, or none may be called.
///
/// # Errors
/// Names what is no tool, or no choice.
pub fn read_tools(fields: &Fields) -> Result<Option<Offer>, Problem> {
    let sent: Sent = fields.read()?;
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
    for (index, tool) in list.iter().enumerate() {
        match tool.get("type").and_then(Json::as_str) {
            None | Some("function") => {}
            Some(other) => {
                let message = format!("{other:?} is nothing that runs here; give functions");
                return Err(Problem::field(&format!("tools[{index}].type"), message));
            }
        }
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
            (json!({ "tools": [tool, tool] }), "tools[1].function.name"),
            (json!({ "tools": [tool], "parallel_tool_calls": "yes" }), "parallel_tool_calls"),
        ] {
            assert_eq!(read(&body).expect_err(param).param.as_deref(), Some(param), "{body}");
        }
    }
}
