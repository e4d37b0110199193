//! One line of a stream of server-sent events, as OpenAI's protocol uses them: what it says about tokens.

use serde_json::Value as Json;

/// What a line says.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// Nothing: a comment, an empty line, or another field of the format.
    Nothing,
    /// Part of the answer.
    Chunk(Chunk),
    /// The stream is over.
    Over,
}

/// Part of an answer.
#[derive(Debug, Default, PartialEq)]
pub struct Chunk {
    /// Whether it brings a token.
    pub is_token: bool,
    /// Whether it says why the answer ended.
    pub is_last: bool,
    /// Tokens of the answer so far, where it counts them.
    pub output_tokens: Option<u64>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Of those, how many were known.
    pub cached_tokens: Option<u64>,
}

/// Reads a line, of an answer to a chat where `is_chat`.
///
/// # Errors
/// When it says that the answer failed, or is not of this protocol: what is wrong, in words.
pub fn read(line: &[u8], is_chat: bool) -> Result<Event, String> {
    let Some(data) = line.strip_prefix(b"data:") else { return Ok(Event::Nothing) };
    let data = data.trim_ascii();
    if data == b"[DONE]" {
        return Ok(Event::Over);
    }
    let json: Json = serde_json::from_slice(data).map_err(|_| "an event of the stream is not JSON".to_owned())?;
    if let Some(message) = message(&json) {
        return Err(format!("the server said in the stream: {message}"));
    }
    let mut chunk = Chunk::default();
    if let Some(choice) = json["choices"].get(0) {
        chunk.is_last = !choice["finish_reason"].is_null();
        chunk.is_token = if is_chat { says_something(&choice["delta"]) } else { is_token(choice, chunk.is_last) };
    }
    let usage = &json["usage"];
    chunk.output_tokens = usage["completion_tokens"].as_u64();
    chunk.prompt_tokens = usage["prompt_tokens"].as_u64();
    // Beside the protocol's own place, the one where llama.cpp's server has it.
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
    chunk.cached_tokens = cached.or_else(|| json["timings"]["cache_n"].as_u64());
    Ok(Event::Chunk(chunk))
}

/// What an error says: `{"error": {"message": ...}}`, or the error itself where it is text.
pub fn message(json: &Json) -> Option<&str> {
    match &json["error"] {
        Json::Null => None,
        Json::String(message) => Some(message),
        error => Some(error["message"].as_str().unwrap_or("an error without a message")),
    }
}

/// A token may bring no text: part of a letter, say. The event that only says why it ended brings none either.
fn is_token(choice: &Json, is_last: bool) -> bool {
    choice["text"].as_str().is_some_and(|text| !text.is_empty() || !is_last)
}

/// The first event of a chat says only who speaks.
fn says_something(delta: &Json) -> bool {
    let says = |name: &str| delta[name].as_str().is_some_and(|text| !text.is_empty());
    says("content") || says("reasoning_content") || says("reasoning") || delta["tool_calls"].is_array()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(line: &str, is_chat: bool) -> Chunk {
        match read(line.as_bytes(), is_chat) {
            Ok(Event::Chunk(chunk)) => chunk,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn tokens_are_told_from_what_stands_around_them() {
        let token = Chunk { is_token: true, ..Chunk::default() };
        let last = Chunk { is_last: true, ..Chunk::default() };
        assert_eq!(chunk(r#"data: {"choices":[{"text":" a","finish_reason":null}]}"#, false), token);
        assert_eq!(chunk(r#"data:{"choices":[{"text":"","finish_reason":null}]}"#, false), token);
        assert_eq!(chunk(r#"data: {"choices":[{"text":"","finish_reason":"length"}]}"#, false), last);
        let both = chunk(r#"data: {"choices":[{"text":"z","finish_reason":"length"}]}"#, false);
        assert!(both.is_token && both.is_last);
        assert_eq!(chunk(r#"data: {"choices":[{"delta":{"role":"assistant","content":""}}]}"#, true), Chunk::default());
        assert_eq!(chunk(r#"data: {"choices":[{"delta":{"content":"x"}}]}"#, true), token);
        assert_eq!(chunk(r#"data: {"choices":[{"delta":{"reasoning_content":"x"}}]}"#, true), token);
        assert_eq!(chunk(r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#, true), last);
    }

    #[test]
    fn counts_are_found_where_servers_put_them() {
        let line = r#"data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}"#;
        let usage = chunk(line, false);
        assert_eq!((usage.prompt_tokens, usage.output_tokens, usage.cached_tokens), (Some(9), Some(4), Some(8)));
        let line = r#"data: {"choices":[{"text":"","finish_reason":"length"}],"timings":{"cache_n":7}}"#;
        assert_eq!(chunk(line, false).cached_tokens, Some(7));
    }

    #[test]
    fn what_is_no_event_is_nothing_and_what_is_none_of_ours_an_error() {
        for line in ["", "\n", ": keep alive\n", "event: x\n", "id: 3\n"] {
            assert_eq!(read(line.as_bytes(), false), Ok(Event::Nothing), "{line:?}");
        }
        assert_eq!(read(b"data: [DONE]\r\n", true), Ok(Event::Over));
        for line in ["data: x", "data:", "data: {\"choices\":", "data: \u{fffd}"] {
            assert!(read(line.as_bytes(), false).is_err(), "{line:?}");
        }
        for line in [r#"data: {"error":{"message":"lost"}}"#, r#"data: {"error":"lost"}"#] {
            assert!(read(line.as_bytes(), false).unwrap_err().ends_with("lost"));
        }
        // Anything else of JSON is a chunk that brings nothing.
        for line in ["data: 3", "data: []", "data: {\"choices\":{}}", "data: {\"choices\":[3]}", "data: null"] {
            let nothing = chunk(line, false);
            assert!(!nothing.is_token, "{line}");
        }
    }
}
