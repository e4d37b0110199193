//! `POST /v1/chat/completions`: OpenAI's conversation, whole or as a stream of chunks.

use std::sync::Arc;
use std::sync::OnceLock;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::{Chat, Done, Reply, Tokenizer, template};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::App;
use crate::answers::{Answers, Whole, blocking};
use crate::ask::{Ask, LIKELY_MAX, Prompt, answers_count};
use crate::body::{self, Fields};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::guard::Caller;
use crate::sse::{self, Dictation, Page};
use crate::wire::{
    AnswerCall, ChoiceLikelihood, Choosing, SentMessages, SentTools, StreamOptions, Timings, Usage, answer_calls,
    finish_reason, format_schema, identifier, now_s, read_format, read_messages, read_tools,
};

/// Variables of templates that are not a client's to set: they are the model's, or have fields of their own.
const RESERVED: [&str; 4] = ["messages", "tools", "add_generation_prompt", "now"];

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    /// Answers.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    logprobs: Option<bool>,
    /// Needs `logprobs` to be true.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u64>,
    /// Probabilities behind the stages of sampling, not before them.
    post_sampling_probs: Option<bool>,
    #[schema(schema_with = format_schema)]
    response_format: Option<Value>,
    #[schema(schema_with = effort_schema)]
    reasoning_effort: Option<String>,
    /// Tokens that the model may think with, if it thinks; then it answers.
    #[schema(minimum = 0)]
    reasoning_budget: Option<u64>,
    /// Variables of the model's chat template, such as `enable_thinking`.
    #[schema(value_type = Option<Object>)]
    chat_template_kwargs: Option<serde_json::Map<String, Value>>,
    /// What is known of prompts is shared by those with the same word alone.
    cache_salt: Option<String>,
}

schema!(pub effort_schema, {
    "type": ["string", "null"],
    "enum": ["none", "minimal", "low", "medium", "high", "xhigh", null],
});

pub fn sheet() -> Sheet {
    let sheet = Sheet::new("Answers a conversation.").takes::<Sent>().takes::<SentMessages>();
    let sheet = sheet.takes::<SentTools>().takes::<Choosing>();
    sheet.gives::<Completion>().streams::<Chunk<'_>>("text/event-stream").fails(&[404, 422, 503])
}

/// How the answer is to be sent.
struct Manner {
    model: Option<String>,
    is_stream: bool,
    includes_usage: bool,
    logprobs: bool,
    count: usize,
}

pub async fn complete(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::OpenAi.answer(answer(&app, caller, request).await)
}

async fn answer(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let (ask, manner) = blocking(move || read(&Fields::parse(&bytes)?)).await??;
    let model = app.models.get(manner.model.as_deref()).await?;
    let answers = Answers::open(app, model, ask, caller).await?;
    if manner.is_stream {
        let chunks = Chunks::new(&answers, &manner);
        return Ok(sse::stream(sse::Kind::Events, answers, chunks));
    }
    let name = answers.model.name.clone();
    let whole = answers.whole().await?;
    Ok(Json(Completion::of(name, whole, &manner)).into_response())
}

/// Reads a request.
fn read(fields: &Fields) -> Result<(Ask, Manner), Problem> {
    let sent: Sent = fields.read()?;
    let count = answers_count(sent.n)?;
    let logprobs = sent.logprobs.unwrap_or(false);
    if sent.top_logprobs.is_some() && !logprobs {
        return Err(Problem::field("top_logprobs", "needs logprobs to be true"));
    }
    let likely = sent.top_logprobs.unwrap_or(0);
    if likely > LIKELY_MAX {
        return Err(Problem::field("top_logprobs", format!("must be from 0 to {LIKELY_MAX}, not {likely}")));
    }
    let mut chat = read_messages(fields)?;
    let offer = read_tools(fields)?;
    chat.set_reasoning(false);
    if let Some(effort) = &sent.reasoning_effort {
        set_effort(&mut chat, effort, "reasoning_effort")?;
    }
    if let Some(tokens) = sent.reasoning_budget {
        chat.set_reasoning_budget(tokens.min(u64::from(u32::MAX)) as usize);
    }
    for (name, value) in sent.chat_template_kwargs.unwrap_or_default() {
        if RESERVED.contains(&name.as_str()) || name.ends_with("_token") {
            let field = format!("chat_template_kwargs.{name}");
            return Err(Problem::field(&field, "is not for requests to set"));
        }
        chat.set(&name, template::Json::from(value));
    }
    let manner = Manner {
        model: sent.model,
        is_stream: sent.stream.unwrap_or(false),
        includes_usage: sent.stream_options.is_some_and(StreamOptions::includes_usage),
        logprobs,
        count,
    };
    let ask = Ask {
        count,
        likely: logprobs.then_some(likely as usize),
        likely_as_drawn: sent.post_sampling_probs.unwrap_or(false),
        grammar: read_format(sent.response_format.as_ref(), "response_format")?,
        salt: sent.cache_salt,
        ..Ask::new(Prompt::chat(chat, offer), fields.read()?)
    };
    Ok((ask, manner))
}

/// How much the model is to think, by the words that clients have for it.
///
/// # Errors
/// Where it is none of them.
pub fn set_effort(chat: &mut Chat, effort: &str, field: &str) -> Result<(), Problem> {
    match effort {
        "none" => chat.set_reasoning(false),
        "minimal" | "low" | "medium" | "high" | "xhigh" => {
            chat.set_reasoning(true);
            // Templates that know degrees know three.
            let degree = match effort {
                "minimal" => "low",
                "xhigh" => "high",
                other => other,
            };
            chat.set("reasoning_effort", template::Json::from(degree));
        }
        _ => return Err(Problem::field(field, "must be none, minimal, low, medium, high or xhigh")),
    }
    Ok(())
}

/// What answers are said to come from: the program and its version.
pub fn fingerprint() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("kauri-{}", env!("CARGO_PKG_VERSION")))
}

#[derive(Serialize, ToSchema)]
struct Completion {
    id: String,
    #[schema(pattern = "^chat\\.completion$")]
    object: &'static str,
    created: u64,
    model: String,
    system_fingerprint: &'static str,
    choices: Vec<Choice>,
    usage: Usage,
    timings: Timings,
}

#[derive(Serialize, ToSchema)]
struct Choice {
    index: usize,
    message: Message,
    logprobs: Option<Likelihoods>,
    #[schema(schema_with = reason_schema)]
    finish_reason: &'static str,
}

schema!(reason_schema, { "type": "string", "enum": ["stop", "length", "tool_calls"] });

#[derive(Serialize, ToSchema)]
#[schema(as = Answer)]
struct Message {
    #[schema(pattern = "^assistant$")]
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    /// What the model thought before.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    reasoning_content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tool_calls: Vec<AnswerCall>,
}

#[derive(Serialize, ToSchema)]
struct Likelihoods {
    content: Vec<ChoiceLikelihood>,
    refusal: Option<()>,
}

impl Completion {
    fn of(model: String, whole: Vec<Whole>, manner: &Manner) -> Self {
        let mut usage = Usage::default();
        for (index, answer) in whole.iter().enumerate() {
            usage.add(&answer.done, index.is_multiple_of(manner.count));
        }
        let timings = whole.first().map(|answer| Timings::from(&answer.done)).unwrap_or_default();
        let choice = |(index, answer): (usize, Whole)| {
            let finish_reason = finish_reason(&answer.done, !answer.calls.is_empty());
            let is_silent = answer.text.is_empty() && !answer.calls.is_empty();
            let message = Message {
                role: "assistant",
                content: (!is_silent).then_some(answer.text),
                refusal: None,
                reasoning_content: answer.reasoning,
                tool_calls: answer_calls(answer.calls),
            };
            let logprobs = manner.logprobs.then_some(Likelihoods { content: answer.tokens, refusal: None });
            Choice { index, message, logprobs, finish_reason }
        };
        Self {
            id: identifier("chatcmpl-"),
            object: "chat.completion",
            created: now_s(),
            model,
            system_fingerprint: fingerprint(),
            choices: whole.into_iter().enumerate().map(choice).collect(),
            usage,
            timings,
        }
    }
}

/// A stream of chunks.
struct Chunks {
    id: String,
    created: u64,
    model: String,
    tokenizer: Tokenizer,
    count: usize,
    includes_usage: bool,
    logprobs: bool,
    /// Whether each answer has calls.
    calls: Vec<bool>,
    usage: Usage,
    timings: Option<Timings>,
}

#[derive(Serialize, ToSchema)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    #[schema(value_type = Vec<ChunkChoice<'_>>)]
    choices: &'a [ChunkChoice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Usage>)]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

#[derive(Serialize, ToSchema)]
struct ChunkChoice<'a> {
    index: usize,
    delta: Delta<'a>,
    logprobs: Option<Likelihoods>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize, ToSchema)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    tool_calls: Option<[Value; 1]>,
}

impl Chunks {
    fn new(answers: &Answers, manner: &Manner) -> Self {
        Self {
            id: identifier("chatcmpl-"),
            created: now_s(),
            model: answers.model.name.clone(),
            tokenizer: answers.model.tokenizer().clone(),
            count: manner.count,
            includes_usage: manner.includes_usage,
            logprobs: manner.logprobs,
            calls: vec![false; answers.prompt_tokens.len()],
            usage: Usage::default(),
            timings: None,
        }
    }

    fn say(&self, choices: &[ChunkChoice<'_>], usage: Option<Usage>, timings: Option<Timings>, out: &mut Page) {
        let chunk = Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            system_fingerprint: fingerprint(),
            choices,
            usage: self.includes_usage.then(|| json!(usage)),
            timings,
        };
        out.event(None, &chunk);
    }

    fn delta(&self, index: usize, delta: Delta<'_>, out: &mut Page) {
        self.say(&[ChunkChoice { index, delta, logprobs: None, finish_reason: None }], None, None, out);
    }

    fn done(&mut self, index: usize, done: &Done, out: &mut Page) {
        self.usage.add(done, index.is_multiple_of(self.count));
        let timings = Timings::from(done);
        self.timings.get_or_insert(timings);
        let reason = finish_reason(done, self.calls[index]);
        let choice = ChunkChoice { index, delta: Delta::default(), logprobs: None, finish_reason: Some(reason) };
        self.say(&[choice], None, Some(timings), out);
    }
}

impl Dictation for Chunks {
    fn begin(&mut self, out: &mut Page) {
        for index in 0..self.calls.len() {
            self.delta(index, Delta { role: Some("assistant"), content: Some(""), ..Delta::default() }, out);
        }
    }

    fn hear(&mut self, index: usize, reply: Reply, out: &mut Page) {
        match reply {
            Reply::Token { id, text, likelihood } => {
                let told = likelihood.filter(|_| self.logprobs);
                let told = told.map(|told| ChoiceLikelihood::of(&self.tokenizer, id, &told));
                if text.is_empty() && told.is_none() {
                    return;
                }
                let logprobs = told.map(|told| Likelihoods { content: vec![told], refusal: None });
                let delta = Delta { content: Some(&text), ..Delta::default() };
                self.say(&[ChunkChoice { index, delta, logprobs, finish_reason: None }], None, None, out);
            }
            Reply::Rest(text) => self.delta(index, Delta { content: Some(&text), ..Delta::default() }, out),
            Reply::Reasoning(text) => {
                self.delta(index, Delta { reasoning_content: Some(&text), ..Delta::default() }, out);
            }
            Reply::Call { index: call, id, name } => {
                self.calls[index] = true;
                let function = json!({ "name": name, "arguments": "" });
                let call = json!({ "index": call, "id": id, "type": "function", "function": function });
                self.delta(index, Delta { tool_calls: Some([call]), ..Delta::default() }, out);
            }
            Reply::Arguments { index: call, text } => {
                let call = json!({ "index": call, "function": { "arguments": text } });
                self.delta(index, Delta { tool_calls: Some([call]), ..Delta::default() }, out);
            }
            Reply::Done(done) => self.done(index, &done, out),
            Reply::Queued | Reply::Prefill { .. } | Reply::CallEnd { .. } | Reply::Failed(_) => {}
        }
    }

    fn fail(&mut self, problem: &Problem, out: &mut Page) {
        out.event(None, &problem.json(Dialect::OpenAi));
        out.text("data: [DONE]\n\n");
    }

    fn end(&mut self, out: &mut Page) {
        if self.includes_usage {
            self.say(&[], Some(self.usage), self.timings, out);
        }
        out.text("data: [DONE]\n\n");
    }

    fn keep_alive(&mut self, out: &mut Page) {
        out.text(": still at work\n\n");
    }
}
