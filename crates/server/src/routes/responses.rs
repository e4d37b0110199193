//! `POST /v1/responses`: OpenAI's newer conversation, whole or as a stream of its events. Nothing is kept between requests.

mod events;
mod items;
mod shape;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::{Call, Done, Finish};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::chat_completions::{effort_schema, set_effort};
use crate::App;
use crate::answers::{Answers, Whole, blocking};
use crate::ask::{Ask, Prompt};
use crate::body::{self, Fields};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::guard::Caller;
use crate::sse;
use crate::wire::{Choosing, SentTools, format_schema, identifier, now_s, read_format, read_tools};
use events::Events;

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    /// A text, or messages, calls and what came of them.
    #[schema(schema_with = items::input_schema)]
    input: Value,
    instructions: Option<String>,
    stream: Option<bool>,
    text: Option<SentText>,
    reasoning: Option<SentReasoning>,
    /// None: responses are not kept.
    #[schema(schema_with = nothing_schema)]
    previous_response_id: Option<String>,
    /// Not true: responses are not kept.
    #[schema(schema_with = never_schema)]
    background: Option<bool>,
    metadata: Option<serde_json::Map<String, Value>>,
}

/// What an answer says of how it was asked for, beside what readers of their own check.
#[derive(Debug, Deserialize)]
struct Said {
    temperature: Option<f64>,
    top_p: Option<f64>,
    max_output_tokens: Option<u64>,
    tools: Option<Value>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
}

schema!(nothing_schema, { "type": "null" });
schema!(never_schema, { "type": ["boolean", "null"], "enum": [false, null] });

pub fn sheet() -> Sheet {
    let sheet = Sheet::new("Answers a conversation. Nothing is kept.").takes::<Choosing>().takes::<SentTools>();
    let sheet = sheet.called("max_completion_tokens", "max_output_tokens").takes::<Sent>();
    sheet.gives::<shape::Response>().streams_events::<shape::Event>().fails(&[404, 422, 503])
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ResponseText)]
struct SentText {
    #[schema(schema_with = format_schema)]
    format: Option<Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ResponseReasoning)]
struct SentReasoning {
    #[schema(schema_with = effort_schema)]
    effort: Option<String>,
}

struct Manner {
    model: Option<String>,
    is_stream: bool,
    /// The response without what only comes with the answer.
    frame: Value,
}

pub async fn create(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::OpenAi.answer(answer(&app, caller, request).await)
}

async fn answer(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let (ask, mut manner) = blocking(move || read(&Fields::parse(&bytes)?)).await??;
    let model = app.models.get(manner.model.as_deref()).await?;
    let answers = Answers::open(app, model, ask, caller).await?;
    manner.frame["model"] = answers.model.name.clone().into();
    if manner.is_stream {
        return Ok(sse::stream(sse::Kind::Events, answers, Events::new(manner.frame)));
    }
    let mut whole = answers.whole().await?;
    let whole = whole.pop().ok_or_else(|| Problem::internal("there is no answer"))?;
    let Whole { text, reasoning, calls, done, .. } = whole;
    let mut output = Vec::new();
    if !reasoning.is_empty() {
        output.push(reasoning_item(&identifier("rs_"), &reasoning));
    }
    if !text.is_empty() || calls.is_empty() {
        output.push(message_item(&identifier("msg_"), &text, status_of(&done)));
    }
    output.extend(calls.iter().map(|call| call_item(&identifier("fc_"), call, "completed")));
    Ok(Json(finished(manner.frame, output, &done)).into_response())
}

/// Reads a request.
fn read(fields: &Fields) -> Result<(Ask, Manner), Problem> {
    let sent: Sent = fields.read()?;
    if sent.previous_response_id.is_some() {
        let message = "responses are not kept here; send the whole conversation as input";
        return Err(Problem::field("previous_response_id", message));
    }
    if sent.background == Some(true) {
        return Err(Problem::field("background", "responses are not kept here; leave it out"));
    }
    let mut chat = items::read_input(&sent.input, sent.instructions.as_deref())?;
    let offer = read_tools(fields)?;
    chat.set_reasoning(false);
    let effort = sent.reasoning.and_then(|reasoning| reasoning.effort);
    if let Some(effort) = &effort {
        set_effort(&mut chat, effort, "reasoning.effort")?;
    }
    let format = sent.text.and_then(|text| text.format);
    let grammar = read_format(format.as_ref(), "text.format")?;
    let ask = Ask { grammar, ..Ask::new(Prompt::chat(chat, offer), fields.read()?) };
    let said: Said = fields.read()?;
    let frame = json!({
        "id": identifier("resp_"),
        "object": "response",
        "created_at": now_s(),
        "status": "in_progress",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": sent.instructions,
        "max_output_tokens": said.max_output_tokens,
        "model": null,
        "output": [],
        "parallel_tool_calls": said.parallel_tool_calls.unwrap_or(true),
        "previous_response_id": null,
        "reasoning": { "effort": effort, "summary": null },
        "store": false,
        "temperature": said.temperature,
        "text": { "format": format.unwrap_or_else(|| json!({ "type": "text" })) },
        "tool_choice": said.tool_choice.unwrap_or_else(|| json!("auto")),
        "tools": said.tools.unwrap_or_else(|| json!([])),
        "top_p": said.top_p,
        "truncation": "disabled",
        "usage": null,
        "user": null,
        "metadata": sent.metadata.unwrap_or_default(),
    });
    Ok((ask, Manner { model: sent.model, is_stream: sent.stream.unwrap_or(false), frame }))
}

fn status_of(done: &Done) -> &'static str {
    match done.finish {
        Finish::Length | Finish::Window | Finish::Time => "incomplete",
        Finish::EndToken | Finish::Complete | Finish::Stop(_) | Finish::Cancelled => "completed",
    }
}

/// The response with its answer.
fn finished(mut frame: Value, output: Vec<Value>, done: &Done) -> Value {
    let status = status_of(done);
    frame["status"] = status.into();
    if status == "incomplete" {
        frame["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    }
    frame["output"] = output.into();
    frame["usage"] = json!({
        "input_tokens": done.prompt_tokens,
        "input_tokens_details": { "cached_tokens": done.cached_tokens },
        "output_tokens": done.output_tokens,
        "output_tokens_details": { "reasoning_tokens": done.reasoning_tokens },
        "total_tokens": done.prompt_tokens + done.output_tokens,
    });
    frame
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn message_item(id: &str, text: &str, status: &str) -> Value {
    json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": [text_part(text)] })
}

fn reasoning_item(id: &str, text: &str) -> Value {
    json!({ "id": id, "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": text }] })
}

fn call_item(id: &str, call: &Call, status: &str) -> Value {
    json!({
        "id": id,
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    })
}
