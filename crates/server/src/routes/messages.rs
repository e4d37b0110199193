//! `POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's conversation, whole or as a stream of its events.

mod blocks;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::{Done, Finish, Reply, tools};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::App;
use crate::answers::{Answers, Whole, blocking};
use crate::ask::{Ask, Prompt};
use crate::body::{self, Fields};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::guard::Caller;
use crate::sse::{self, Dictation, Page};
use crate::wire::{Choosing, Offer, identifier};

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    stream: Option<bool>,
    tools: Option<Vec<SentTool>>,
    tool_choice: Option<SentChoice>,
    thinking: Option<SentThinking>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicTool)]
struct SentTool {
    #[serde(rename = "type")]
    #[schema(schema_with = tool_kind_schema)]
    kind: Option<String>,
    #[schema(pattern = "^[A-Za-z0-9_./:-]{1,128}$")]
    name: String,
    description: Option<String>,
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    strict: Option<bool>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicToolChoice)]
struct SentChoice {
    #[serde(rename = "type")]
    #[schema(schema_with = choice_schema)]
    kind: String,
    /// Of the tool, where the type is `tool`.
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicThinking)]
struct SentThinking {
    #[serde(rename = "type")]
    #[schema(schema_with = thinking_schema)]
    kind: String,
    budget_tokens: Option<u64>,
}

schema!(tool_kind_schema, { "type": ["string", "null"], "enum": ["custom", null] });
schema!(choice_schema, { "type": "string", "enum": ["auto", "any", "tool", "none"] });
schema!(thinking_schema, { "type": "string", "enum": ["enabled", "adaptive", "disabled"] });

pub fn sheet() -> Sheet {
    let sheet = Sheet::new("Answers a conversation.").takes::<Sent>().takes::<blocks::Sent>().takes::<Choosing>();
    let sheet = sheet.requires(&["max_tokens"]);
    sheet.gives::<Message<'_>>().streams_events::<Event>().fails(&[404, 422, 503])
}

pub fn count_sheet() -> Sheet {
    let sheet = Sheet::new("The tokens of a conversation.").takes::<Sent>().takes::<blocks::Sent>();
    sheet.gives::<Count>().fails(&[404, 503])
}

#[derive(Serialize, ToSchema)]
#[schema(as = AnthropicCount)]
struct Count {
    input_tokens: usize,
}

/// An event of a stream: `message_start`, `content_block_start`, `content_block_delta`, `content_block_stop`, `message_delta`,
/// `message_stop`, `ping` or `error`, with what belongs to it.
#[derive(ToSchema)]
#[schema(as = AnthropicEvent)]
#[expect(dead_code, reason = "its schema alone is wanted")]
struct Event {
    #[schema(rename = "type")]
    kind: String,
}

/// A whole answer.
#[derive(Serialize, ToSchema)]
#[schema(as = AnthropicMessage)]
struct Message<'a> {
    id: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^message$")]
    kind: &'static str,
    #[schema(pattern = "^assistant$")]
    role: &'static str,
    model: &'a str,
    content: Vec<Content<'a>>,
    #[schema(schema_with = reason_schema)]
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
    usage: Usage,
}

schema!(reason_schema, { "type": "string", "enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use"] });

/// A block of an answer.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = AnthropicBlock)]
enum Content<'a> {
    Thinking {
        thinking: &'a str,
        signature: &'static str,
    },
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        #[schema(value_type = Object)]
        input: Value,
    },
}

struct Manner {
    model: Option<String>,
    is_stream: bool,
}

pub async fn answer(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::Anthropic.answer(create(&app, caller, request).await)
}

pub async fn count(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::Anthropic.answer(count_tokens(app, request).await)
}

async fn create(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let (ask, manner) = blocking(move || read(&Fields::parse(&bytes)?, true)).await??;
    let model = app.models.get(manner.model.as_deref()).await?;
    let answers = Answers::open(app, model, ask, caller).await?;
    if manner.is_stream {
        let events = Events::new(&answers);
        return Ok(sse::stream(sse::Kind::Events, answers, events));
    }
    let name = answers.model.name.clone();
    let mut whole = answers.whole().await?;
    let whole = whole.pop().ok_or_else(|| Problem::internal("there is no answer"))?;
    Ok(Json(message(&name, &whole)).into_response())
}

async fn count_tokens(app: Arc<App>, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let (ask, manner) = blocking(move || read(&Fields::parse(&bytes)?, false)).await??;
    let model = app.models.get(manner.model.as_deref()).await?;
    let count = move || Ok::<usize, Problem>(ask.prompts[0].tokens(model.service()?)?.len());
    Ok(Json(Count { input_tokens: blocking(count).await?? }).into_response())
}

/// Reads a request; one that is to be answered says how long the answer may be.
fn read(fields: &Fields, is_answered: bool) -> Result<(Ask, Manner), Problem> {
    let sent: Sent = fields.read()?;
    let mut chat = blocks::read_messages(fields)?;
    let offer = read_tools(sent.tools.unwrap_or_default(), sent.tool_choice)?;
    chat.set_reasoning(false);
    match sent.thinking.as_ref().map(|thinking| thinking.kind.as_str()) {
        None | Some("disabled") => {}
        Some("enabled" | "adaptive") => {
            chat.set_reasoning(true);
            let budget = sent.thinking.and_then(|thinking| thinking.budget_tokens);
            budget.into_iter().for_each(|tokens| chat.set_reasoning_budget(tokens.min(u64::from(u32::MAX)) as usize));
        }
        Some(_) => return Err(Problem::field("thinking.type", "must be enabled, adaptive or disabled")),
    }
    let ask = Ask::new(Prompt::chat(chat, offer), fields.read()?);
    // In this dialect it has one name.
    if is_answered && (!fields.has("max_tokens") || ask.choosing.max_tokens()?.is_none()) {
        return Err(Problem::field("max_tokens", "is missing"));
    }
    Ok((ask, Manner { model: sent.model, is_stream: sent.stream.unwrap_or(false) }))
}

fn read_tools(sent: Vec<SentTool>, choice: Option<SentChoice>) -> Result<Option<Offer>, Problem> {
    let wrong = || Problem::field("tool_choice.type", "must be auto, any, tool or none");
    let parallel = choice.as_ref().and_then(|choice| choice.disable_parallel_tool_use) != Some(true);
    let choice = match choice.as_ref().map(|choice| choice.kind.as_str()) {
        None | Some("auto") => tools::Choice::Auto,
        Some("any") => tools::Choice::Required,
        Some("tool") => {
            let name = choice.and_then(|choice| choice.name);
            tools::Choice::Named(name.ok_or_else(|| Problem::field("tool_choice.name", "is missing"))?)
        }
        Some("none") => return Ok(None),
        Some(_) => return Err(wrong()),
    };
    if sent.is_empty() {
        return match choice {
            tools::Choice::Auto => Ok(None),
            tools::Choice::Required | tools::Choice::Named(_) => {
                Err(Problem::field("tool_choice", "asks for a call, and there are no tools"))
            }
        };
    }
    let mut list = Vec::with_capacity(sent.len());
    for (index, tool) in sent.into_iter().enumerate() {
        if let Some(kind) = tool.kind.filter(|kind| kind != "custom") {
            let message = format!("{kind:?} is nothing that runs here; give tools of your own");
            return Err(Problem::field(&format!("tools[{index}].type"), message));
        }
        let function = json!({
            "name": tool.name,
            "description": tool.description.unwrap_or_default(),
            "parameters": tool.input_schema,
            "strict": tool.strict,
        });
        list.push(function);
    }
    Offer::new(list, &choice, parallel).map(Some)
}

#[derive(Serialize, ToSchema)]
#[schema(as = AnthropicUsage)]
#[expect(clippy::struct_field_names, reason = "the dialect's names")]
struct Usage {
    /// Those that were computed; what was known counts apart.
    input_tokens: usize,
    cache_creation_input_tokens: usize,
    cache_read_input_tokens: usize,
    output_tokens: usize,
}

impl Usage {
    fn of(done: &Done) -> Self {
        Self {
            input_tokens: done.prompt_tokens - done.cached_tokens.min(done.prompt_tokens),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: done.cached_tokens,
            output_tokens: done.output_tokens,
        }
    }
}

/// Why it ended, and by which string.
fn stop_reason(done: &Done, has_calls: bool) -> (&'static str, Option<&str>) {
    match &done.finish {
        Finish::Length | Finish::Window | Finish::Time => ("max_tokens", None),
        Finish::Stop(stop) => ("stop_sequence", Some(stop)),
        Finish::EndToken | Finish::Complete | Finish::Cancelled if has_calls => ("tool_use", None),
        Finish::EndToken | Finish::Complete | Finish::Cancelled => ("end_turn", None),
    }
}

fn message<'a>(model: &'a str, whole: &'a Whole) -> Message<'a> {
    let mut content = Vec::new();
    if !whole.reasoning.is_empty() {
        content.push(Content::Thinking { thinking: &whole.reasoning, signature: "" });
    }
    if !whole.text.is_empty() || whole.calls.is_empty() {
        content.push(Content::Text { text: &whole.text });
    }
    for call in &whole.calls {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        content.push(Content::ToolUse { id: &call.id, name: &call.name, input });
    }
    let (stop_reason, stop_sequence) = stop_reason(&whole.done, !whole.calls.is_empty());
    Message {
        id: identifier("msg_"),
        kind: "message",
        role: "assistant",
        model,
        content,
        stop_reason,
        stop_sequence,
        usage: Usage::of(&whole.done),
    }
}

/// A stream of events.
struct Events {
    id: String,
    model: String,
    prompt_tokens: usize,
    /// The block that is being written.
    open: Option<Block>,
    /// Blocks that were begun.
    blocks: usize,
    has_calls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

impl Events {
    fn new(answers: &Answers) -> Self {
        Self {
            id: identifier("msg_"),
            model: answers.model.name.clone(),
            prompt_tokens: answers.prompt_tokens.iter().sum(),
            open: None,
            blocks: 0,
            has_calls: false,
        }
    }

    /// Sees that a block of this kind is open.
    fn open(&mut self, block: Block, content: &Value, out: &mut Page) {
        if self.open == Some(block) && block != Block::Call {
            return;
        }
        self.close(out);
        let start = json!({ "type": "content_block_start", "index": self.blocks, "content_block": content });
        out.event(Some("content_block_start"), &start);
        self.open = Some(block);
        self.blocks += 1;
    }

    fn delta(&self, delta: &Value, out: &mut Page) {
        let event = json!({ "type": "content_block_delta", "index": self.blocks.saturating_sub(1), "delta": delta });
        out.event(Some("content_block_delta"), &event);
    }

    fn close(&mut self, out: &mut Page) {
        let Some(block) = self.open else { return };
        if block == Block::Thinking {
            self.delta(&json!({ "type": "signature_delta", "signature": "" }), out);
        }
        self.open = None;
        let stop = json!({ "type": "content_block_stop", "index": self.blocks - 1 });
        out.event(Some("content_block_stop"), &stop);
    }

    fn text(&mut self, text: &str, out: &mut Page) {
        if !text.is_empty() {
            self.open(Block::Text, &json!({ "type": "text", "text": "" }), out);
            self.delta(&json!({ "type": "text_delta", "text": text }), out);
        }
    }
}

impl Dictation for Events {
    fn begin(&mut self, out: &mut Page) {
        let usage = Usage {
            input_tokens: self.prompt_tokens,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            output_tokens: 0,
        };
        let message = json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        });
        out.event(Some("message_start"), &json!({ "type": "message_start", "message": message }));
        self.keep_alive(out);
    }

    fn hear(&mut self, _: usize, reply: Reply, out: &mut Page) {
        match reply {
            Reply::Token { text, .. } | Reply::Rest(text) => self.text(&text, out),
            Reply::Reasoning(text) => {
                self.open(Block::Thinking, &json!({ "type": "thinking", "thinking": "", "signature": "" }), out);
                self.delta(&json!({ "type": "thinking_delta", "thinking": text }), out);
            }
            Reply::Call { id, name, .. } => {
                self.has_calls = true;
                self.open(Block::Call, &json!({ "type": "tool_use", "id": id, "name": name, "input": {} }), out);
            }
            Reply::Arguments { text, .. } => {
                self.delta(&json!({ "type": "input_json_delta", "partial_json": text }), out);
            }
            Reply::CallEnd { .. } => self.close(out),
            Reply::Done(done) => {
                if self.blocks == 0 {
                    self.open(Block::Text, &json!({ "type": "text", "text": "" }), out);
                }
                self.close(out);
                let (reason, stop) = stop_reason(&done, self.has_calls);
                let delta = json!({ "stop_reason": reason, "stop_sequence": stop });
                let event = json!({ "type": "message_delta", "delta": delta, "usage": Usage::of(&done) });
                out.event(Some("message_delta"), &event);
            }
            Reply::Queued | Reply::Prefill { .. } | Reply::Failed(_) => {}
        }
    }

    fn fail(&mut self, problem: &Problem, out: &mut Page) {
        out.event(Some("error"), &problem.json(Dialect::Anthropic));
    }

    fn end(&mut self, out: &mut Page) {
        out.event(Some("message_stop"), &json!({ "type": "message_stop" }));
    }

    fn keep_alive(&mut self, out: &mut Page) {
        out.event(Some("ping"), &json!({ "type": "ping" }));
    }
}
