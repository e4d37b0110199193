//! Messages as Anthropic's clients send them: contents of blocks, results of tools among the user's words.

use kauri_engine::{Call, Chat, Message};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::Fields;
use crate::document::schema;
use crate::error::Problem;
use crate::wire::{content_schema, text_of};

/// Most messages of a conversation.
const MESSAGES_MAX: usize = 10_000;

/// The conversation.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Sent {
    #[schema(schema_with = content_schema)]
    system: Option<Value>,
    #[schema(min_items = 1, max_items = 10000)]
    messages: Vec<SentMessage>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicSentMessage)]
struct SentMessage {
    #[schema(schema_with = role_schema)]
    role: String,
    #[schema(schema_with = blocks_schema)]
    content: Value,
}

schema!(role_schema, { "type": "string", "enum": ["user", "assistant", "system"] });

/// A text, or blocks of every kind that is read.
fn blocks_schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use serde_json::json;
    let text = json!({ "type": "string" });
    let block = |kind: &str, properties: Value| {
        let mut required = vec!["type".to_owned()];
        required.extend(properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()));
        let mut all = json!({ "type": { "type": "string", "enum": [kind] } });
        for (name, schema) in properties.as_object().into_iter().flatten() {
            all[name] = schema.clone();
        }
        json!({ "type": "object", "required": required, "properties": all })
    };
    let mut result = block("tool_result", json!({ "tool_use_id": text }));
    result["properties"]["content"] = serde_json::to_value(content_schema()).unwrap_or_default();
    crate::document::schema_of(&json!({ "oneOf": [text, { "type": "array", "items": { "oneOf": [
        block("text", json!({ "text": text })),
        block("thinking", json!({ "thinking": text })),
        block("redacted_thinking", json!({})),
        block("tool_use", json!({ "id": text, "name": text, "input": { "type": "object" } })),
        result,
    ] } }] }))
}

/// Reads the messages of a conversation, and what the system says before them.
///
/// # Errors
/// Names what is no message, or holds what no model here reads.
pub fn read_messages(fields: &Fields) -> Result<Chat, Problem> {
    let sent: Sent = fields.read()?;
    if sent.messages.is_empty() || sent.messages.len() > MESSAGES_MAX {
        return Err(Problem::field("messages", format!("must hold from 1 to {MESSAGES_MAX} messages")));
    }
    let mut chat = Chat::new();
    if let Some(system) = &sent.system {
        chat.set_system(&text_of(system, "system")?);
    }
    for (index, message) in sent.messages.iter().enumerate() {
        message.read(&format!("messages[{index}]"), &mut chat)?;
    }
    Ok(chat)
}

impl SentMessage {
    fn read(&self, place: &str, chat: &mut Chat) -> Result<(), Problem> {
        let role = self.role.as_str();
        if !matches!(role, "user" | "assistant" | "system") {
            return Err(Problem::field(&format!("{place}.role"), "must be user or assistant"));
        }
        let place = format!("{place}.content");
        let blocks = match &self.content {
            Value::String(text) => {
                chat.push(role, text);
                return Ok(());
            }
            Value::Array(blocks) => blocks,
            _ => return Err(Problem::field(&place, "must be a string or a list of blocks")),
        };
        let mut message = Message { role: role.to_owned(), ..Message::default() };
        let mut has_results = false;
        for (index, block) in blocks.iter().enumerate() {
            let at = format!("{place}[{index}]");
            let text = |name: &str| {
                let text = block.get(name).and_then(Value::as_str).map(str::to_owned);
                text.ok_or_else(|| Problem::field(&format!("{at}.{name}"), "must be a string"))
            };
            match block.get("type").and_then(Value::as_str) {
                Some("text") => message.content += &text("text")?,
                Some("thinking") => message.reasoning = Some(text("thinking")?),
                Some("redacted_thinking") => {}
                Some("tool_use") => {
                    let input = block.get("input").filter(|input| input.is_object());
                    let input = input.ok_or_else(|| Problem::field(&format!("{at}.input"), "must be an object"))?;
                    message.calls.push(Call { id: text("id")?, name: text("name")?, arguments: input.to_string() });
                }
                Some("tool_result") => {
                    has_results = true;
                    let id = text("tool_use_id")?;
                    let content = block.get("content").unwrap_or(&Value::Null);
                    let content = text_of(content, &format!("{at}.content"))?;
                    chat.add(result(chat, id, content));
                }
                Some(other) => {
                    let message = format!("this model reads text, and the block is of type {other:?}");
                    return Err(Problem::field(&format!("{at}.type"), message));
                }
                None => return Err(Problem::field(&format!("{at}.type"), "is missing")),
            }
        }
        if !has_results || !message.content.is_empty() {
            chat.add(message);
        }
        Ok(())
    }
}

/// What came of a call, with the name of its tool, which templates ask for.
fn result(chat: &Chat, id: String, content: String) -> Message {
    let calls = chat.messages().iter().rev().flat_map(|message| &message.calls);
    let name = calls.into_iter().find(|call| call.id == id).map(|call| call.name.clone());
    Message { role: "tool".to_owned(), content, call_id: Some(id), name, ..Message::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_messages() {
        let fields = Fields::of(
            json!({ "system": [{ "type": "text", "text": "Be brief." }], "messages": [
                { "role": "user", "content": "How warm?" },
                { "role": "assistant", "content": [{ "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "I look." },
                    { "type": "tool_use", "id": "t1", "name": "weather", "input": { "city": "Hobart" } }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": [{ "type": "text", "text": "21" }] },
                    { "type": "text", "text": "And?" }] } ] }),
            "the body",
        );
        let chat = read_messages(&fields.unwrap()).unwrap();
        let roles: Vec<&str> = chat.messages().iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
        let (call, result) = (&chat.messages()[2], &chat.messages()[3]);
        assert_eq!(
            (call.calls[0].arguments.as_str(), call.reasoning.as_deref()),
            ("{\"city\":\"Hobart\"}", Some("hm"))
        );
        assert_eq!((result.name.as_deref(), result.content.as_str()), (Some("weather"), "21"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (messages, param) in [
            (json!([]), "messages"),
            (json!([{ "role": "user", "content": 7 }]), "messages[0].content"),
            (json!([{ "role": "tool", "content": "" }]), "messages[0].role"),
            (json!([{ "role": "user", "content": [{ "type": "image" }] }]), "messages[0].content[0].type"),
            (json!([{ "role": "user", "content": [{ "type": "tool_result" }] }]), "messages[0].content[0].tool_use_id"),
            (
                json!([{ "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "b", "input": "c" }] }]),
                "messages[0].content[0].input",
            ),
        ] {
            let fields = Fields::of(json!({ "messages": messages }), "the body").unwrap();
            assert_eq!(read_messages(&fields).expect_err(param).param.as_deref(), Some(param));
        }
    }
}
