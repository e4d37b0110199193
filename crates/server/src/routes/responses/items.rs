//! The input of a response: a text, or items: messages, calls and what came of them.

use kauri_engine::{Call, Chat, Message};
use serde_json::Value;

use crate::error::Problem;
use crate::wire::{content_schema, text_of};

/// Most items of a conversation.
const ITEMS_MAX: usize = 10_000;

/// What [`read_input`] takes.
pub fn input_schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use serde_json::json;
    let text = json!({ "type": "string" });
    let content = serde_json::to_value(content_schema()).unwrap_or_default();
    let item = |kind: Value, required: &[&str], properties: Value| {
        let mut all = json!({ "type": kind });
        for (name, schema) in properties.as_object().into_iter().flatten() {
            all[name] = schema.clone();
        }
        json!({ "type": "object", "required": required, "properties": all })
    };
    let kind = |kind: &str| json!({ "type": "string", "enum": [kind] });
    let roles = json!({ "type": "string", "enum": ["developer", "system", "user", "assistant"] });
    let calls = json!({ "call_id": text, "name": text, "arguments": text });
    crate::document::schema_of(
        &json!({ "oneOf": [text, { "type": "array", "minItems": 1, "maxItems": ITEMS_MAX, "items": { "oneOf": [
        item(kind("message"), &["role"], json!({ "role": roles, "content": content })),
        item(kind("function_call"), &["type", "call_id", "name", "arguments"], calls),
        item(kind("function_call_output"), &["type", "call_id"], json!({ "call_id": text, "output": content })),
        item(kind("reasoning"), &["type"], json!({})),
    ] } }] }),
    )
}

/// Reads the input, and what the developer says before it.
///
/// # Errors
/// Names what is no item, or holds what no model here reads.
pub fn read_input(input: &Value, instructions: Option<&str>) -> Result<Chat, Problem> {
    let mut messages: Vec<Message> = Vec::new();
    if let Some(text) = instructions {
        messages.push(plain("system", text.to_owned()));
    }
    match input {
        Value::String(text) => messages.push(plain("user", text.clone())),
        Value::Array(items) if items.is_empty() || items.len() > ITEMS_MAX => {
            return Err(Problem::field("input", format!("must hold from 1 to {ITEMS_MAX} items")));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                read_item(item, &format!("input[{index}]"), &mut messages)?;
            }
        }
        _ => return Err(Problem::field("input", "must be a text or a list of items")),
    }
    let mut chat = Chat::new();
    messages.into_iter().for_each(|message| chat.add(message));
    Ok(chat)
}

fn read_item(item: &Value, place: &str, messages: &mut Vec<Message>) -> Result<(), Problem> {
    let text = |name: &str| {
        let text = item.get(name).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| Problem::field(&format!("{place}.{name}"), "must be a string"))
    };
    let kind = match item.get("type") {
        None => Some("message"),
        Some(kind) => kind.as_str(),
    };
    match kind.ok_or_else(|| Problem::field(&format!("{place}.type"), "must be a string"))? {
        "message" => {
            let role = match text("role")?.as_str() {
                "developer" | "system" => "system",
                "user" => "user",
                "assistant" => "assistant",
                _ => {
                    let field = format!("{place}.role");
                    return Err(Problem::field(&field, "must be system, developer, user or assistant"));
                }
            };
            let content = item.get("content").unwrap_or(&Value::Null);
            messages.push(plain(role, text_of(content, &format!("{place}.content"))?));
        }
        "function_call" => {
            let call = Call { id: text("call_id")?, name: text("name")?, arguments: text("arguments")? };
            // Calls of one answer are items of their own here, and one message to a template.
            match messages.last_mut() {
                Some(last) if last.role == "assistant" => last.calls.push(call),
                _ => messages.push(Message { calls: vec![call], ..plain("assistant", String::new()) }),
            }
        }
        "function_call_output" => {
            let id = text("call_id")?;
            let output = item.get("output").unwrap_or(&Value::Null);
            let output = text_of(output, &format!("{place}.output"))?;
            let mut calls = messages.iter().rev().flat_map(|message| &message.calls);
            let name = calls.find(|call| call.id == id).map(|call| call.name.clone());
            messages.push(Message { call_id: Some(id), name, ..plain("tool", output) });
        }
        // What the model thought is its own affair; most templates leave it out.
        "reasoning" => {}
        other => {
            let message = format!("{other:?} is no item that is read here: give messages, calls and their outputs");
            return Err(Problem::field(&format!("{place}.type"), message));
        }
    }
    Ok(())
}

fn plain(role: &str, content: String) -> Message {
    Message { role: role.to_owned(), content, ..Message::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_become_messages() {
        let input = json!([
            { "role": "user", "content": [{ "type": "input_text", "text": "How warm?" }] },
            { "type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}" },
            { "type": "function_call", "call_id": "b", "name": "weather", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "b", "output": "21" },
        ]);
        let chat = read_input(&input, Some("Be brief.")).unwrap();
        let roles: Vec<&str> = chat.messages().iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!((chat.messages()[2].calls.len(), chat.messages()[3].name.as_deref()), (2, Some("weather")));
        for (input, param) in [
            (json!([]), "input"),
            (json!(7), "input"),
            (json!([{ "role": "king", "content": "" }]), "input[0].role"),
            (json!([{ "type": "item_reference", "id": "x" }]), "input[0].type"),
            (json!([{ "type": "function_call", "name": "x", "arguments": "{}" }]), "input[0].call_id"),
        ] {
            assert_eq!(read_input(&input, None).expect_err(param).param.as_deref(), Some(param));
        }
    }
}
