//! Ollama's dialect: `/api/…`. Answers are streams of lines unless a client says otherwise.

pub mod catalogue;
pub mod chat;
pub mod embed;
pub mod generate;

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use kauri_engine::grammar::Grammar;
use kauri_engine::{Call, Chat, Done, Reply, template};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::answers::{Answers, Whole};
use crate::ask::{Ask, Prompt};
use crate::body::Fields;
use crate::document::{schema, schema_of};
use crate::error::{Dialect, Problem};
use crate::models::Keep;
use crate::sse::{self, Dictation, Page};
use crate::wire::{Choosing, now};

/// What `/api/chat` and `/api/generate` have in common.
#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    /// True unless said otherwise.
    stream: Option<bool>,
    /// `json`, or a schema.
    #[schema(schema_with = format_schema)]
    format: Option<Value>,
    #[schema(schema_with = options_schema)]
    options: Option<Map<String, Value>>,
    #[schema(schema_with = think_schema)]
    think: Option<Value>,
    /// How long the model stays when nobody asks for it: seconds, or a number with the unit ms, s, m or h; for ever below 0.
    #[schema(schema_with = keep_schema)]
    keep_alive: Option<Value>,
}

schema!(format_schema, { "oneOf": [{ "type": ["string", "null"], "enum": ["", "json", null] }, { "type": "object" }] });
schema!(think_schema, { "oneOf": [
    { "type": ["boolean", "null"] },
    { "type": "string", "enum": ["low", "medium", "high"] },
] });
schema!(keep_schema, { "oneOf": [
    { "type": ["number", "null"] },
    { "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?(ms|s|m|h)?$" },
] });

/// The fields that settle how tokens are chosen, and this dialect's word for the most of them.
fn options_schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use utoipa::PartialSchema;
    let mut schema = serde_json::to_value(Choosing::schema()).unwrap_or_default();
    schema["type"] = json!(["object", "null"]);
    schema["properties"]["num_predict"] =
        json!({ "type": ["integer", "null"], "minimum": i64::MIN, "maximum": i64::MAX });
    schema_of(&schema)
}

/// Where the words of an answer go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Message,
    Response,
}

impl Sent {
    /// Whether all of it makes sense, where nothing may be asked.
    fn check(&self) -> Result<(), Problem> {
        self.grammar()?;
        self.keep()?;
        self.set_reasoning(&mut Chat::new())?;
        self.choosing()?.check()
    }

    /// The request for an answer to a prompt.
    fn ask(&self, prompt: Prompt) -> Result<Ask, Problem> {
        Ok(Ask { grammar: self.grammar()?, ..Ask::new(prompt, self.choosing()?) })
    }

    /// Its own word for the most tokens is `num_predict`, of which what is not positive means no limit.
    fn choosing(&self) -> Result<Choosing, Problem> {
        let mut options = self.options.clone().unwrap_or_default();
        match options.remove("num_predict") {
            None | Some(Value::Null) => {}
            Some(count) => match count.as_i64() {
                Some(count) if count > 0 => _ = options.insert("max_tokens".to_owned(), count.into()),
                Some(_) => {}
                None => return Err(Problem::field("options.num_predict", "must be a whole number")),
            },
        }
        Fields::of(Value::Object(options), "options")?.read()
    }

    fn grammar(&self) -> Result<Option<Grammar>, Problem> {
        match &self.format {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(word)) if word.is_empty() => Ok(None),
            Some(Value::String(word)) if word == "json" => Ok(Some(Grammar::JsonObject)),
            Some(schema @ Value::Object(_)) => Ok(Some(Grammar::JsonSchema(schema.to_string()))),
            Some(_) => Err(Problem::field("format", "must be json or a JSON schema")),
        }
    }

    /// How long the model is to stay when nobody asks for it: seconds, or a number with a unit; what is below zero is for ever.
    fn keep(&self) -> Result<Option<Keep>, Problem> {
        let wrong = || Problem::field("keep_alive", "must be a number of seconds, or one with a unit such as 5m");
        let seconds = match &self.keep_alive {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Number(number)) => number.as_f64().ok_or_else(wrong)?,
            Some(Value::String(text)) => {
                let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
                let number: f64 = text[..unit_at].parse().map_err(|_| wrong())?;
                let unit = match &text[unit_at..] {
                    "ms" => 0.001,
                    "" | "s" => 1.0,
                    "m" => 60.0,
                    "h" => 3600.0,
                    _ => return Err(wrong()),
                };
                number * unit
            }
            Some(_) => return Err(wrong()),
        };
        if seconds < 0.0 {
            return Ok(Some(Keep::Forever));
        }
        Ok(Some(Duration::try_from_secs_f64(seconds).map_or(Keep::Forever, Keep::For)))
    }

    /// Whether the model is to think.
    fn set_reasoning(&self, chat: &mut Chat) -> Result<(), Problem> {
        match &self.think {
            None | Some(Value::Null) => chat.set_reasoning(false),
            Some(Value::Bool(wanted)) => chat.set_reasoning(*wanted),
            Some(Value::String(degree)) if matches!(degree.as_str(), "low" | "medium" | "high") => {
                chat.set_reasoning(true);
                chat.set("reasoning_effort", template::Json::from(degree.as_str()));
            }
            Some(_) => return Err(Problem::field("think", "must be true, false, low, medium or high")),
        }
        Ok(())
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaAnswer)]
struct Line<'a> {
    model: &'a str,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a str>,
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    done_reason: Option<&'static str>,
    #[serde(flatten)]
    counts: Option<Counts>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaMessage)]
struct Message<'a> {
    #[schema(pattern = "^assistant$")]
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    thinking: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tool_calls: Vec<AnswerCall>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaCall)]
struct AnswerCall {
    id: String,
    function: AnswerFunction,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaCallFunction)]
struct AnswerFunction {
    name: String,
    /// An object in this dialect.
    #[schema(value_type = Object)]
    arguments: Value,
}

/// Times are in nanoseconds.
#[derive(Serialize, ToSchema)]
struct Counts {
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: usize,
    prompt_eval_duration: u64,
    eval_count: usize,
    eval_duration: u64,
}

impl From<&Done> for Counts {
    fn from(done: &Done) -> Self {
        Self {
            total_duration: (done.time_to_first_token + done.decode).as_nanos() as u64,
            load_duration: 0,
            prompt_eval_count: done.prompt_tokens,
            prompt_eval_duration: done.prefill.as_nanos() as u64,
            eval_count: done.output_tokens,
            eval_duration: done.decode.as_nanos() as u64,
        }
    }
}

fn done_reason(done: &Done) -> &'static str {
    // A call is no reason of its own here.
    crate::wire::finish_reason(done, false)
}

impl Place {
    /// The answer, whole or a line at a time.
    async fn respond(self, answers: Answers, is_stream: bool) -> Result<Response, Problem> {
        if is_stream {
            let lines = Lines::new(&answers, self);
            return Ok(sse::stream(sse::Kind::Lines, answers, lines));
        }
        let name = answers.model.name.clone();
        let whole = answers.whole().await?;
        Ok(Json(whole.first().map(|whole| self.whole(&name, whole))).into_response())
    }

    /// Part of an answer, or all of it.
    fn line<'a>(
        self,
        model: &'a str,
        text: &'a str,
        thinking: &'a str,
        calls: &[Call],
        done: Option<&Done>,
    ) -> Line<'a> {
        let tool_calls = calls.iter().map(AnswerCall::from).collect();
        let message = Message { role: "assistant", content: text, thinking, tool_calls };
        let is_message = self == Self::Message;
        Line {
            model,
            created_at: now(),
            message: is_message.then_some(message),
            response: (!is_message).then_some(text),
            thinking: (!is_message && !thinking.is_empty()).then_some(thinking),
            done: done.is_some(),
            done_reason: done.map(done_reason),
            counts: done.map(Counts::from),
        }
    }

    /// A whole answer.
    fn whole<'a>(self, model: &'a str, whole: &'a Whole) -> Line<'a> {
        self.line(model, &whole.text, &whole.reasoning, &whole.calls, Some(&whole.done))
    }
}

impl From<&Call> for AnswerCall {
    fn from(call: &Call) -> Self {
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        Self { id: call.id.clone(), function: AnswerFunction { name: call.name.clone(), arguments } }
    }
}

/// A stream of lines.
struct Lines {
    model: String,
    place: Place,
    call: Option<Call>,
}

impl Lines {
    fn new(answers: &Answers, place: Place) -> Self {
        Self { model: answers.model.name.clone(), place, call: None }
    }

    fn say(&self, text: &str, thinking: &str, calls: &[Call], done: Option<&Done>, out: &mut Page) {
        out.line(&self.place.line(&self.model, text, thinking, calls, done));
    }
}

impl Dictation for Lines {
    fn hear(&mut self, _: usize, reply: Reply, out: &mut Page) {
        match reply {
            Reply::Token { text, .. } | Reply::Rest(text) => {
                if !text.is_empty() {
                    self.say(&text, "", &[], None, out);
                }
            }
            Reply::Reasoning(text) => self.say("", &text, &[], None, out),
            Reply::Call { id, name, .. } => self.call = Some(Call { id, name, arguments: String::new() }),
            Reply::Arguments { text, .. } => {
                if let Some(call) = &mut self.call {
                    call.arguments += &text;
                }
            }
            // In this dialect a call comes whole.
            Reply::CallEnd { .. } => {
                let call = self.call.take();
                self.say("", "", call.as_slice(), None, out);
            }
            Reply::Done(done) => self.say("", "", &[], Some(&done), out),
            Reply::Queued | Reply::Prefill { .. } | Reply::Failed(_) => {}
        }
    }

    fn fail(&mut self, problem: &Problem, out: &mut Page) {
        out.line(&problem.json(Dialect::Ollama));
    }
}
