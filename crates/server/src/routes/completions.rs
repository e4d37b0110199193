//! `POST /v1/completions`: text that is continued, or filled in where a suffix is given.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::{Reply, Tokenizer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::chat_completions::fingerprint;
use crate::App;
use crate::answers::{Answers, Whole, blocking};
use crate::ask::{ANSWERS_MAX, Ask, LIKELY_MAX, Prompt, answers_count};
use crate::body::{self, Fields};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::guard::Caller;
use crate::sse::{self, Dictation, Page};
use crate::wire::{
    ChoiceLikelihood, Choosing, StreamOptions, Timings, Usage, finish_reason, format_schema, identifier, now_s,
    read_format,
};

/// Tokens where nothing is said, as OpenAI's servers have it.
const TOKENS: u64 = 16;
/// Tokens of what is filled in, where nothing is said.
const INFILL_TOKENS: u64 = 256;

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    #[schema(schema_with = prompt_schema)]
    prompt: Value,
    /// What stands between the prompt and this is wanted.
    suffix: Option<String>,
    /// Answers to each prompt.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u64>,
    echo: Option<bool>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[schema(minimum = 0, maximum = 20)]
    logprobs: Option<u64>,
    /// Probabilities behind the stages of sampling, not before them.
    post_sampling_probs: Option<bool>,
    #[schema(schema_with = format_schema)]
    response_format: Option<Value>,
    cache_salt: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct SentInfill {
    model: Option<String>,
    input_prefix: String,
    input_suffix: String,
    /// What was written since, behind the prefix.
    prompt: Option<String>,
    /// Most tokens; what is not positive is the usual number.
    n_predict: Option<i64>,
}

schema!(prompt_schema, { "oneOf": [
    { "type": "string" },
    { "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX } },
    { "type": "array", "minItems": 1, "maxItems": ANSWERS_MAX, "items": { "oneOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX } },
    ] } },
] });

pub fn sheet() -> Sheet {
    let sheet = Sheet::new("Continues a text, or fills one in.").takes::<Sent>().takes::<Choosing>();
    sheet.gives::<Completion<'_>>().streams::<Completion<'_>>("text/event-stream").fails(&[404, 422, 503])
}

pub fn infill_sheet() -> Sheet {
    let sheet = Sheet::new("Fills in what stands between two texts.").takes::<SentInfill>().takes::<Choosing>();
    sheet.gives::<Infill>().fails(&[404, 503])
}

/// How the answer is to be sent.
struct Manner {
    model: Option<String>,
    is_stream: bool,
    includes_usage: bool,
    logprobs: bool,
    count: usize,
    /// What stands before each answer; made of the tokens where the prompt is of tokens.
    echo: Option<Vec<Echo>>,
}

enum Echo {
    Text(String),
    Tokens(Vec<u32>),
}

pub async fn complete(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::OpenAi.answer(answer(&app, caller, request).await)
}

/// `POST /infill`: the same, in the words of editors that speak llama.cpp's.
pub async fn infill(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::OpenAi.answer(fill_in(&app, caller, request).await)
}

async fn fill_in(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let read = move || {
        let mut fields = Fields::parse(&bytes)?;
        let sent: SentInfill = fields.read()?;
        let most = sent.n_predict.filter(|&most| most > 0).map_or(INFILL_TOKENS, i64::unsigned_abs);
        fields.put_default("max_tokens", most.into());
        let before = sent.input_prefix + &sent.prompt.unwrap_or_default();
        let ask = Ask::new(Prompt::Between { before, after: sent.input_suffix }, fields.read()?);
        Ok::<_, Problem>((ask, sent.model))
    };
    let (ask, name) = blocking(read).await??;
    let model = app.models.get(name.as_deref()).await?;
    let answers = Answers::open(app, model, ask, caller).await?;
    let name = answers.model.name.clone();
    let whole = answers.whole().await?;
    let whole = whole.into_iter().next().ok_or_else(|| Problem::internal("there is no answer"))?;
    let done = &whole.done;
    let answer = Infill {
        content: whole.text,
        model: name,
        stop: true,
        tokens_predicted: done.output_tokens,
        tokens_evaluated: done.prompt_tokens,
        tokens_cached: done.cached_tokens,
        timings: Timings::from(done),
    };
    Ok(Json(answer).into_response())
}

async fn answer(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let (ask, manner) = blocking(move || read(&Fields::parse(&bytes)?)).await??;
    let model = app.models.get(manner.model.as_deref()).await?;
    let answers = Answers::open(app, model, ask, caller).await?;
    let echoes = manner.echoes(&answers);
    if manner.is_stream {
        let chunks = Chunks::new(&answers, &manner, echoes);
        return Ok(sse::stream(sse::Kind::Events, answers, chunks));
    }
    let name = answers.model.name.clone();
    let whole = answers.whole().await?;
    Ok(Json(Completion::of(&name, whole, &manner, &echoes)).into_response())
}

/// Reads a request.
fn read(fields: &Fields) -> Result<(Ask, Manner), Problem> {
    let sent: Sent = fields.read()?;
    let count = answers_count(sent.n)?;
    if let Some(likely) = sent.logprobs.filter(|&likely| likely > LIKELY_MAX) {
        return Err(Problem::field("logprobs", format!("must be from 0 to {LIKELY_MAX}, not {likely}")));
    }
    let mut prompts = read_prompts(&sent.prompt)?;
    if let Some(after) = sent.suffix.filter(|suffix| !suffix.is_empty()) {
        let between = |prompt| match prompt {
            Prompt::Text(before) => Ok(Prompt::Between { before, after: after.clone() }),
            _ => Err(Problem::field("suffix", "needs a prompt that is text")),
        };
        prompts = prompts.into_iter().map(between).collect::<Result<_, _>>()?;
    }
    let echo = sent.echo.unwrap_or(false).then(|| {
        let echo = |prompt: &Prompt| match prompt {
            Prompt::Text(text) | Prompt::Between { before: text, .. } => Echo::Text(text.clone()),
            Prompt::Tokens(tokens) => Echo::Tokens(tokens.clone()),
            Prompt::Chat { .. } => Echo::Text(String::new()),
        };
        prompts.iter().map(echo).collect()
    });
    let mut choosing = fields.clone();
    choosing.put_default("max_tokens", TOKENS.into());
    let manner = Manner {
        model: sent.model,
        is_stream: sent.stream.unwrap_or(false),
        includes_usage: sent.stream_options.is_some_and(StreamOptions::includes_usage),
        logprobs: sent.logprobs.is_some(),
        count,
        echo,
    };
    let ask = Ask {
        prompts,
        count,
        likely: sent.logprobs.map(|likely| likely as usize),
        likely_as_drawn: sent.post_sampling_probs.unwrap_or(false),
        grammar: read_format(sent.response_format.as_ref(), "response_format")?,
        salt: sent.cache_salt,
        ..Ask::new(Prompt::Tokens(Vec::new()), choosing.read()?)
    };
    Ok((ask, manner))
}

/// A text, tokens, or a list of either.
fn read_prompts(prompt: &Value) -> Result<Vec<Prompt>, Problem> {
    let wrong = |at: &str| Problem::field(at, "must be a text, a list of token ids, or a list of either");
    let tokens = |list: &[Value], at: &str| {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| wrong(at));
        list.iter().map(id).collect::<Result<Vec<u32>, _>>().map(Prompt::Tokens)
    };
    match prompt {
        Value::String(text) => Ok(vec![Prompt::Text(text.clone())]),
        Value::Array(list) if list.is_empty() => Err(Problem::field("prompt", "is empty")),
        Value::Array(list) if list[0].is_number() => Ok(vec![tokens(list, "prompt")?]),
        Value::Array(list) if list.len() > ANSWERS_MAX => {
            Err(Problem::field("prompt", format!("may hold at most {ANSWERS_MAX} prompts")))
        }
        Value::Array(list) => {
            let one = |(index, value): (usize, &Value)| match value {
                Value::String(text) => Ok(Prompt::Text(text.clone())),
                Value::Array(ids) => tokens(ids, &format!("prompt[{index}]")),
                _ => Err(wrong(&format!("prompt[{index}]"))),
            };
            list.iter().enumerate().map(one).collect()
        }
        _ => Err(wrong("prompt")),
    }
}

impl Manner {
    /// What stands before each answer.
    fn echoes(&self, answers: &Answers) -> Vec<String> {
        let text = |echo: &Echo| match echo {
            Echo::Text(text) => text.clone(),
            Echo::Tokens(tokens) => {
                let bytes = answers.model.tokenizer().decode(tokens, true);
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        let each = self.echo.iter().flatten().map(text);
        each.flat_map(|text| std::iter::repeat_n(text, self.count)).collect()
    }
}

#[derive(Serialize, ToSchema)]
struct Infill {
    content: String,
    model: String,
    stop: bool,
    tokens_predicted: usize,
    tokens_evaluated: usize,
    tokens_cached: usize,
    timings: Timings,
}

#[derive(Serialize, ToSchema)]
struct Completion<'a> {
    id: &'a str,
    #[schema(pattern = "^text_completion$")]
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Usage>)]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TextChoice)]
struct Choice {
    index: usize,
    text: String,
    logprobs: Option<Likelihoods>,
    #[schema(schema_with = reason_schema)]
    finish_reason: Option<&'static str>,
}

schema!(reason_schema, { "type": ["string", "null"], "enum": ["stop", "length", null] });

/// How likely tokens were, in the older form.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = TextLikelihoods)]
struct Likelihoods {
    tokens: Vec<String>,
    token_logprobs: Vec<f32>,
    #[schema(value_type = Vec<std::collections::BTreeMap<String, f32>>)]
    top_logprobs: Vec<Map<String, Value>>,
    text_offset: Vec<usize>,
}

impl Likelihoods {
    /// Of tokens behind `offset` characters of text.
    fn of(told: &[ChoiceLikelihood], mut offset: usize) -> Self {
        let mut likelihoods = Self::default();
        for one in told {
            likelihoods.text_offset.push(offset);
            offset += one.token.token.chars().count();
            likelihoods.tokens.push(one.token.token.clone());
            likelihoods.token_logprobs.push(one.token.logprob);
            let top = one.top_logprobs.iter().map(|token| (token.token.clone(), token.logprob.into()));
            likelihoods.top_logprobs.push(top.collect());
        }
        likelihoods
    }
}

impl Completion<'_> {
    fn of(model: &str, whole: Vec<Whole>, manner: &Manner, echoes: &[String]) -> Value {
        let mut usage = Usage::default();
        for (index, answer) in whole.iter().enumerate() {
            usage.add(&answer.done, index.is_multiple_of(manner.count));
        }
        let timings = whole.first().map(|answer| Timings::from(&answer.done));
        let choice = |(index, answer): (usize, Whole)| {
            let echo = echoes.get(index).map_or("", String::as_str);
            Choice {
                index,
                logprobs: manner.logprobs.then(|| Likelihoods::of(&answer.tokens, echo.chars().count())),
                finish_reason: Some(finish_reason(&answer.done, false)),
                text: format!("{echo}{}", answer.text),
            }
        };
        let completion = Completion {
            id: &identifier("cmpl-"),
            object: "text_completion",
            created: now_s(),
            model,
            system_fingerprint: fingerprint(),
            choices: whole.into_iter().enumerate().map(choice).collect(),
            usage: Some(json!(usage)),
            timings,
        };
        serde_json::to_value(completion).unwrap_or_default()
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
    echoes: Vec<String>,
    /// Characters of each answer so far.
    offsets: Vec<usize>,
    usage: Usage,
    timings: Option<Timings>,
}

impl Chunks {
    fn new(answers: &Answers, manner: &Manner, echoes: Vec<String>) -> Self {
        Self {
            id: identifier("cmpl-"),
            created: now_s(),
            model: answers.model.name.clone(),
            tokenizer: answers.model.tokenizer().clone(),
            count: manner.count,
            includes_usage: manner.includes_usage,
            logprobs: manner.logprobs,
            offsets: vec![0; answers.prompt_tokens.len()],
            echoes,
            usage: Usage::default(),
            timings: None,
        }
    }

    fn say(&self, choices: Vec<Choice>, usage: Option<Usage>, timings: Option<Timings>, out: &mut Page) {
        let chunk = Completion {
            id: &self.id,
            object: "text_completion",
            created: self.created,
            model: &self.model,
            system_fingerprint: fingerprint(),
            choices,
            usage: self.includes_usage.then(|| json!(usage)),
            timings,
        };
        out.event(None, &chunk);
    }

    fn text(&mut self, index: usize, text: String, told: &[ChoiceLikelihood], out: &mut Page) {
        let logprobs = (!told.is_empty()).then(|| Likelihoods::of(told, self.offsets[index]));
        self.offsets[index] += text.chars().count();
        self.say(vec![Choice { index, text, logprobs, finish_reason: None }], None, None, out);
    }
}

impl Dictation for Chunks {
    fn begin(&mut self, out: &mut Page) {
        for (index, echo) in std::mem::take(&mut self.echoes).into_iter().enumerate() {
            self.text(index, echo, &[], out);
        }
    }

    fn hear(&mut self, index: usize, reply: Reply, out: &mut Page) {
        match reply {
            Reply::Token { id, text, likelihood } => {
                let told = likelihood.filter(|_| self.logprobs);
                let told = told.map(|told| ChoiceLikelihood::of(&self.tokenizer, id, &told));
                if !text.is_empty() || told.is_some() {
                    self.text(index, text, told.as_slice(), out);
                }
            }
            Reply::Rest(text) | Reply::Reasoning(text) => self.text(index, text, &[], out),
            Reply::Done(done) => {
                self.usage.add(&done, index.is_multiple_of(self.count));
                let timings = Timings::from(&done);
                self.timings.get_or_insert(timings);
                let finish_reason = Some(finish_reason(&done, false));
                let choice = Choice { index, text: String::new(), logprobs: None, finish_reason };
                self.say(vec![choice], None, Some(timings), out);
            }
            Reply::Queued
            | Reply::Prefill { .. }
            | Reply::Call { .. }
            | Reply::Arguments { .. }
            | Reply::CallEnd { .. }
            | Reply::Failed(_) => {}
        }
    }

    fn fail(&mut self, problem: &Problem, out: &mut Page) {
        out.event(None, &problem.json(Dialect::OpenAi));
        out.text("data: [DONE]\n\n");
    }

    fn end(&mut self, out: &mut Page) {
        if self.includes_usage {
            self.say(Vec::new(), Some(self.usage), self.timings, out);
        }
        out.text("data: [DONE]\n\n");
    }

    fn keep_alive(&mut self, out: &mut Page) {
        out.text(": still at work\n\n");
    }
}
