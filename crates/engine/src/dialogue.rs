//! How a model holds a conversation: its template, how it writes calls and marks its reasoning, and what it wrote for calls before.

use std::sync::{Arc, Mutex, PoisonError};

use kauri_prompt::template::{Json, Span, Template};
use kauri_step::answer::Form;
use kauri_step::grammar::{Compiled, Grammar};
use kauri_step::reasoning::Start;
use kauri_step::tools::{self, Format, Signs};
use kauri_tokenizer::{Special, Tokenizer};

use crate::chat::{Call, Chat, Message, object};
use crate::error::Error;
use crate::replay::{Fingerprint, Keys, Record, Replay};

/// The end of a prompt in which reasoning may have been opened, in bytes.
const END_BYTES: usize = 256;

/// What a model's conversations have in common.
#[derive(Debug)]
pub(crate) struct Dialogue {
    template: Template,
    source: String,
    format: &'static Format,
    /// Whether the template writes calls of earlier messages; where it leaves them out, they stand in the text.
    writes_calls: bool,
    tokenizer: Tokenizer,
    /// What may end an answer, as the template writes it.
    ends: Vec<String>,
    keys: Keys,
    replay: Mutex<Replay>,
}

/// What was written up to and with a message, and what the template writes behind it.
type Known = (Arc<Record>, Vec<Span>);

/// A prompt, and how its answer is to be read.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// How to read the answer; nothing where it is text and nothing else.
    pub reading: Option<Arc<Reading>>,
    /// What makes every call in the answer one of the tools, with arguments that obey its schema; nothing where there are no tools.
    pub constraint: Option<Compiled>,
}

/// How an answer is to be read.
#[derive(Debug)]
pub struct Reading {
    pub(crate) form: Form,
    /// Special tokens that mean something in it.
    pub(crate) shown: Vec<u32>,
    pub(crate) reasoning_budget_tokens: Option<usize>,
    /// What ends reasoning where the budget is spent.
    pub(crate) break_off: Vec<u32>,
    /// The token that opens reasoning, where the answer may begin with it.
    pub(crate) opening: Option<u32>,
    /// The conversation that was asked about.
    asked: Fingerprint,
    /// What its prompt begins with.
    record: Option<Arc<Record>>,
    dialogue: Arc<Dialogue>,
}

impl Dialogue {
    /// Compiles the template. `ends` are the tokens that end an answer.
    pub(crate) fn new(source: &str, tokenizer: &Tokenizer, ends: &[u32]) -> Result<Self, Error> {
        let template = Template::compile(source)?;
        let has_token = |token: &str| tokenizer.id_of(token).is_some();
        let format = Format::of(&Signs { template: source, has_token: &has_token });
        let ends = ends.iter().filter_map(|&id| String::from_utf8(tokenizer.token_bytes(id)?.to_vec()).ok());
        let mut dialogue = Self {
            template,
            source: source.to_owned(),
            format,
            writes_calls: true,
            tokenizer: tokenizer.clone(),
            ends: ends.filter(|end| !end.is_empty()).collect(),
            keys: Keys::default(),
            replay: Mutex::default(),
        };
        dialogue.writes_calls = dialogue.does_write_calls();
        Ok(dialogue)
    }

    /// The prompt that asks for the next answer, without what that must obey. Text of messages never becomes a special token.
    pub(crate) fn ask(self: &Arc<Self>, chat: &Chat) -> Result<Asked, Error> {
        let prints = self.keys.of(chat);
        let asked = prints[prints.len() - 1];
        let (record, tokens, text) = if let Some((record, spans)) = self.remembered(chat, &prints)? {
            let mut tokens = record.all();
            tokens.extend(self.encode(&spans));
            (Some(record), tokens, end_of(&spans))
        } else {
            let spans = self.render(chat, chat.messages())?;
            (None, self.encode(&spans), end_of(&spans))
        };
        let seed = tokens.iter().fold(0_u64, |seed, &token| (seed ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3));
        let reasoning = Start::of(&self.source, &text);
        let form = Form { format: self.format, reasoning, tools: chat.tools.clone(), seed };
        let reading = (!form.is_plain()).then(|| {
            let special = |mark: &&str| self.tokenizer.id_of(mark).filter(|&id| self.tokenizer.is_special(id));
            let shown = form.marks().iter().filter_map(special).collect();
            let opening = form.opening(&self.tokenizer);
            let break_off = form.break_off().map(|text| self.tokenizer.encode(text, Special::Parse));
            Arc::new(Reading {
                form,
                shown,
                reasoning_budget_tokens: chat.reasoning_budget_tokens,
                break_off: break_off.unwrap_or_default(),
                opening,
                asked,
                record,
                dialogue: Arc::clone(self),
            })
        });
        Ok(Asked { tokens, reading, constraint: None })
    }

    /// The latest message of which is known what the model wrote, and what the template writes behind it.
    fn remembered(&self, chat: &Chat, prints: &[Fingerprint]) -> Result<Option<Known>, Error> {
        let messages = chat.messages();
        let known = |&at: &usize| {
            let replay = self.replay.lock().unwrap_or_else(PoisonError::into_inner);
            if messages[at].calls.is_empty() { None } else { replay.get(prints[at + 1]) }
        };
        let Some((at, record)) = (0..messages.len()).rev().find_map(|at| Some((at, known(&at)?))) else {
            return Ok(None);
        };
        // The place of the message's end in what the template writes is found by arguments that nobody can have written.
        let mark = format!("{:?}", prints[at + 1]).chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        let mut messages = messages.to_vec();
        for call in &mut messages[at].calls {
            call.arguments = format!("{{\"x\":\"{mark}\"}}");
        }
        let mut spans = self.render(chat, &messages)?;
        let Some(marked) = spans.iter().rposition(|span| span.text.contains(&mark)) else { return Ok(None) };
        for index in marked..spans.len() {
            let span = &spans[index];
            let from = span.text.rfind(&mark).filter(|_| index == marked).map_or(0, |at| at + mark.len());
            if span.from_user {
                continue;
            }
            let end = self.ends.iter().filter_map(|end| span.text[from..].find(end.as_str())).min();
            if let Some(end) = end {
                let rest = spans[index].text.split_off(from + end);
                spans[index].text = rest;
                spans.drain(..index);
                return Ok(Some((record, spans)));
            }
        }
        Ok(None)
    }

    fn encode(&self, spans: &[Span]) -> Vec<u32> {
        let spans: Vec<(&str, Special)> = spans
            .iter()
            .map(|span| (span.text.as_str(), if span.from_user { Special::Text } else { Special::Parse }))
            .collect();
        self.tokenizer.encode_spans(&spans)
    }

    fn render(&self, chat: &Chat, messages: &[Message]) -> Result<Vec<Span>, Error> {
        let mut messages: Vec<Message> = messages.to_vec();
        if !self.writes_calls {
            messages.iter_mut().for_each(|message| self.write_out(message));
        }
        let Some(tools) = chat.tools.as_ref().filter(|_| self.format.is_generic()) else {
            return self.fill_in(chat, &messages);
        };
        // A template that knows nothing of tools; some know no system message either.
        let instruction = tools::instruction(tools.list());
        let mut told = messages.clone();
        instruct(&mut told, &instruction, "system");
        self.fill_in(chat, &told).or_else(|_| {
            instruct(&mut messages, &instruction, "user");
            self.fill_in(chat, &messages)
        })
    }

    /// What the template makes of messages as they are.
    fn fill_in(&self, chat: &Chat, messages: &[Message]) -> Result<Vec<Span>, Error> {
        let mut variables = chat.variables.clone();
        if let Some(tools) = chat.tools.as_ref().filter(|_| !self.format.is_generic()) {
            variables.insert("tools".to_owned(), Json::Array(tools.list().iter().map(tool_json).collect()));
        }
        variables.insert("messages".to_owned(), Json::Array(messages.iter().map(Message::json).collect()));
        variables.insert("add_generation_prompt".to_owned(), Json::from(true));
        for (name, id) in [("bos_token", self.tokenizer.bos()), ("eos_token", self.tokenizer.eos())] {
            let bytes = id.map(|id| self.tokenizer.decode(&[id], true)).unwrap_or_default();
            let text = Json::from(String::from_utf8_lossy(&bytes).into_owned());
            variables.entry(name.to_owned()).or_insert(text);
        }
        Ok(self.template.render_spans(&variables)?)
    }

    /// Puts calls and results into the text, for a template that would leave them out.
    fn write_out(&self, message: &mut Message) {
        if !message.calls.is_empty() {
            let values: Vec<(String, serde_json::Value)> = std::mem::take(&mut message.calls)
                .into_iter()
                .map(|call| (call.name, serde_json::from_str(&call.arguments).unwrap_or_default()))
                .collect();
            let calls: Vec<_> = values.iter().map(|(name, arguments)| (name.as_str(), arguments)).collect();
            if !message.content.is_empty() {
                message.content.push('\n');
            }
            message.content += &self.format.write(&calls);
        }
        if message.role == "tool" && self.format.is_generic() {
            "user".clone_into(&mut message.role);
            message.content = tools::result_text(&message.content);
        }
    }

    /// Tries whether the template writes a call's name and arguments where it should.
    fn does_write_calls(&self) -> bool {
        let call =
            Call { id: "a1b2c3d4e".to_owned(), name: "probed".to_owned(), arguments: "{\"x\":\"y1z2\"}".to_owned() };
        let mut messages = vec![
            Message { role: "user".to_owned(), content: "?".to_owned(), ..Message::default() },
            Message { role: "assistant".to_owned(), calls: vec![call], ..Message::default() },
            Message {
                role: "tool".to_owned(),
                content: "!".to_owned(),
                call_id: Some("a1b2c3d4e".to_owned()),
                name: Some("probed".to_owned()),
                ..Message::default()
            },
        ];
        let mut chat = Chat::new();
        chat.set("now", "2026-01-01T00:00:00".into());
        loop {
            if let Ok(spans) = self.render(&chat, &messages) {
                return spans.iter().any(|span| span.text.contains("y1z2"));
            }
            // Some refuse a conversation that ends so.
            if messages.pop().is_none_or(|message| message.role == "assistant") {
                return false;
            }
        }
    }
}

impl Asked {
    /// The same with what its calls must obey, which `compile` makes.
    pub(crate) fn constrained(
        mut self,
        tokenizer: &Tokenizer,
        compile: impl FnOnce(&Grammar) -> Result<Compiled, Error>,
    ) -> Result<Self, Error> {
        if let Some(reading) = &self.reading
            && let Some(grammar) = reading.form.grammar(tokenizer, None)?
        {
            self.constraint = Some(compile(&grammar)?);
        }
        Ok(self)
    }
}

impl Asked {
    /// What the answer must obey where its text has a grammar of its own: a call, if one may come, or that. Where a call is asked for,
    /// only that; where the two cannot stand beside each other, only the text's.
    pub(crate) fn beside(&self, tokenizer: &Tokenizer, text: &Grammar) -> Result<Grammar, Error> {
        let form = self.reading.as_ref().map(|reading| reading.form()).filter(|form| form.tools.is_some());
        let both = form.map(|form| form.grammar(tokenizer, Some(text))).transpose()?.flatten();
        Ok(both.unwrap_or_else(|| text.clone()))
    }
}

impl Reading {
    /// What the answer may hold.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Keeps what the model wrote for the calls of an answer. `prompt` is what it was asked.
    pub(crate) fn remember(&self, prompt: &[u32], written: &[u32], text: &str, calls: Vec<Call>) {
        let message = Message { role: "assistant".to_owned(), content: text.to_owned(), calls, ..Message::default() };
        let print = self.dialogue.keys.after(self.asked, &message);
        let record = Record::new(self.record.clone(), &[prompt, written].concat());
        self.dialogue.replay.lock().unwrap_or_else(PoisonError::into_inner).keep(print, record);
    }
}

/// Puts what a model must be told before anything else, in the first message if it is of that role.
fn instruct(messages: &mut Vec<Message>, instruction: &str, role: &str) {
    match messages.first_mut() {
        Some(first) if first.role == role => first.content = format!("{instruction}\n\n{}", first.content),
        _ => {
            let message = Message { role: role.to_owned(), content: instruction.to_owned(), ..Message::default() };
            messages.insert(0, message);
        }
    }
}

fn tool_json(tool: &tools::Tool) -> Json {
    let function = object([
        ("name", tool.name.as_str().into()),
        ("description", tool.description.as_str().into()),
        ("parameters", tool.parameters.clone().into()),
    ]);
    object([("type", "function".into()), ("function", function)])
}

/// The last words of a prompt.
fn end_of(spans: &[Span]) -> String {
    let mut text = String::new();
    for span in spans.iter().rev() {
        text.insert_str(0, &span.text);
        if text.len() >= END_BYTES {
            break;
        }
    }
    text
}
