//! Messages as OpenAI's clients send them, and as their servers do.

use kauri_engine::{Call, Chat, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::body::Fields;
use crate::document::schema;
use crate::error::Problem;

/// Most messages of a conversation.
const MESSAGES_MAX: usize = 10_000;

/// The conversation.
#[derive(Debug, Deserialize, ToSchema)]
pub struct SentMessages {
    #[schema(min_items = 1, max_items = 10000)]
    messages: Vec<SentMessage>,
}

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Message)]
struct SentMessage {
    #[schema(schema_with = role_schema)]
    role: String,
    /// An assistant's may be missing.
    #[schema(schema_with = content_schema)]
    content: Option<Json>,
    name: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    /// An assistant's alone.
    tool_calls: Option<Vec<SentCall>>,
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MessageCall)]
struct SentCall {
    #[serde(default)]
    id: String,
    function: SentFunction,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MessageCallFunction)]
struct SentFunction {
    name: String,
    /// A string of JSON; some clients send the object.
    arguments: Json,
}

schema!(role_schema, { "type": "string", "enum": ["system", "developer", "user", "assistant", "tool", "function"] });
schema!(pub content_schema, { "oneOf": [
    { "type": "null" },
    { "type": "string" },
    { "type": "array", "items": { "oneOf": [
        { "type": "string" },
        { "type": "object", "required": ["type", "text"], "properties": {
            "type": { "type": "string", "enum": ["text", "input_text", "output_text"] }, "text": { "type": "string" } } },
        { "type": "object", "required": ["type", "refusal"], "properties": {
            "type": { "type": "string", "enum": ["refusal"] }, "refusal": { "type": "string" } } },
    ] } },
] });

/// A call as an answer has it.
#[derive(Serialize, ToSchema)]
pub struct AnswerCall {
    id: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^function$")]
    kind: &'static str,
    function: AnswerFunction,
}

#[derive(Serialize, ToSchema)]
struct AnswerFunction {
    name: String,
    /// The text of a JSON object.
    arguments: String,
}

/// Reads the messages of a conversation.
///
/// # Errors
/// Names what is no message, or holds what no model here reads.
pub fn read_messages(fields: &Fields) -> Result<Chat, Problem> {
    let sent: SentMessages = fields.read()?;
    if sent.messages.is_empty() {
        return Err(Problem::field("messages", "must hold at least one message"));
    }
    if sent.messages.len() > MESSAGES_MAX {
        return Err(Problem::field("messages", format!("may hold at most {MESSAGES_MAX} messages")));
    }
    let mut chat = Chat::new();
    for (index, message) in sent.messages.into_iter().enumerate() {
        chat.add(message.read(&format!("messages[{index}]"))?);
    }
    Ok(chat)
}

impl SentMessage {
    fn read(self, place: &str) -> Result<Message, Problem> {
        // Templates know a system; what developers say is said in its place.
        let role = match self.role.as_str() {
            "developer" => "system",
            "function" => "tool",
            role @ ("system" | "user" | "assistant" | "tool") => role,
            _ => {
                let field = format!("{place}.role");
                return Err(Problem::field(&field, "must be system, developer, user, assistant or tool"));
            }
        };
        let content =
            self.content.as_ref().map_or(Ok(String::new()), |json| text_of(json, &format!("{place}.content")))?;
        if self.content.as_ref().is_none_or(Json::is_null) && role != "assistant" {
            return Err(Problem::field(&format!("{place}.content"), "is missing"));
        }
        let calls = self.tool_calls.unwrap_or_default();
        if !calls.is_empty() && role != "assistant" {
            return Err(Problem::field(&format!("{place}.tool_calls"), "only an assistant's message has calls"));
        }
        Ok(Message {
            role: role.to_owned(),
            content,
            reasoning: self.reasoning_content,
            calls: calls.into_iter().map(SentCall::read).collect(),
            call_id: self.tool_call_id,
            name: self.name,
        })
    }
}

impl SentCall {
    fn read(self) -> Call {
        let arguments = match self.function.arguments {
            Json::String(text) => text,
            other => other.to_string(),
        };
        Call { id: self.id, name: self.function.name, arguments }
    }
}

/// The text of a content: a string, or a list of parts that are text.
///
/// # Errors
/// Names a part that is none.
pub fn text_of(content: &Json, place: &str) -> Result<String, Problem> {
    match content {
        Json::Null => Ok(String::new()),
        Json::String(text) => Ok(text.clone()),
        Json::Array(parts) => {
            let mut all = String::new();
            for (index, part) in parts.iter().enumerate() {
                let place = format!("{place}[{index}]");
                let kind = part.get("type").and_then(Json::as_str);
                let text = match kind {
                    Some("text" | "input_text" | "output_text") => part.get("text"),
                    Some("refusal") => part.get("refusal"),
                    None if part.is_string() => Some(part),
                    Some(other) => {
                        let message = format!("this model reads text, and the part is of type {other:?}");
                        return Err(Problem::field(&format!("{place}.type"), message));
                    }
                    None => return Err(Problem::field(&format!("{place}.type"), "is missing")),
                };
                let Some(text) = text.and_then(Json::as_str) else {
                    return Err(Problem::field(&format!("{place}.text"), "must be a string"));
                };
                all.push_str(text);
            }
            Ok(all)
        }
        _ => Err(Problem::field(place, "must be a string or a list of parts")),
    }
}

/// Calls as an answer has them.
pub fn answer_calls(calls: Vec<Call>) -> Vec<AnswerCall> {
    let call = |Call { id, name, arguments }: Call| AnswerCall {
        id,
        kind: "function",
        function: AnswerFunction { name, arguments },
    };
    calls.into_iter().map(call).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(messages: &Json) -> Result<Chat, Problem> {
        read_messages(&Fields::of(json!({ "messages": messages }), "the body").unwrap())
    }

    #[test]
    fn messages_of_every_kind_are_read() {
        let chat = read(&json!([
            { "role": "developer", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "How " }, { "type": "text", "text": "warm?" }] },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "a1", "type": "function", "function": { "name": "weather", "arguments": "{\"city\": \"Hobart\"}" } }] },
            { "role": "tool", "tool_call_id": "a1", "content": "21" },
        ]))
        .unwrap();
        let messages = chat.messages();
        assert_eq!((messages[0].role.as_str(), messages[1].content.as_str()), ("system", "How warm?"));
        assert_eq!((messages[2].calls[0].name.as_str(), messages[3].call_id.as_deref()), ("weather", Some("a1")));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (messages, param) in [
            (json!([]), "messages"),
            (json!("hello"), "messages"),
            (json!([{ "role": "user" }]), "messages[0].content"),
            (json!([{ "role": "king", "content": "" }]), "messages[0].role"),
            (json!([{ "content": "" }]), "messages[0].role"),
            (json!([{ "role": "user", "content": 7 }]), "messages[0].content"),
            (json!([{ "role": "user", "content": [{ "type": "image_url" }] }]), "messages[0].content[0].type"),
            (
                json!([{ "role": "user", "content": "", "tool_calls": [{ "function": { "name": "f", "arguments": "" } }] }]),
                "messages[0].tool_calls",
            ),
            (
                json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": 7, "arguments": "" } }] }]),
                "messages[0].tool_calls[0].function.name",
            ),
        ] {
            let problem = read(&messages).expect_err(param);
            assert_eq!(problem.param.as_deref(), Some(param), "{messages}");
        }
    }
}
