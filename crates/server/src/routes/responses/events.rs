//! The events of a response that is streamed, each with its number.

use kauri_engine::{Call, Done, Reply};
use serde_json::{Value, json};

use super::{call_item, finished, message_item, reasoning_item, status_of, text_part};
use crate::error::{Dialect, Problem};
use crate::sse::{Dictation, Page};
use crate::wire::identifier;

/// A stream of events.
pub struct Events {
    /// The response without its answer.
    frame: Value,
    sequence: u64,
    /// Items that are over.
    output: Vec<Value>,
    open: Option<Open>,
    done: Option<Value>,
}

/// The item that is being written.
struct Open {
    id: String,
    kind: Kind,
    /// What it holds so far; of a call its arguments.
    text: String,
}

enum Kind {
    Reasoning,
    Message,
    Call { id: String, name: String },
}

impl Open {
    fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Call { .. })
    }

    fn item(&self, status: &str) -> Value {
        match &self.kind {
            Kind::Reasoning => reasoning_item(&self.id, &self.text),
            Kind::Message => message_item(&self.id, &self.text, status),
            Kind::Call { id, name } => {
                let call = Call { id: id.clone(), name: name.clone(), arguments: self.text.clone() };
                call_item(&self.id, &call, status)
            }
        }
    }
}

impl Events {
    pub fn new(frame: Value) -> Self {
        Self { frame, sequence: 0, output: Vec::new(), open: None, done: None }
    }

    fn say(&mut self, kind: &str, mut event: Value, out: &mut Page) {
        event["type"] = kind.into();
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.event(Some(kind), &event);
    }

    /// What is said of a part of the item that is open.
    fn part(&mut self, kind: &str, mut event: Value, out: &mut Page) {
        let Some(open) = &self.open else { return };
        event["item_id"] = open.id.as_str().into();
        event["output_index"] = self.output.len().into();
        if !open.is_call() {
            event["content_index"] = 0.into();
        }
        self.say(kind, event, out);
    }

    fn begin_item(&mut self, prefix: &str, kind: Kind, out: &mut Page) {
        self.end_item("completed", out);
        let open = Open { id: identifier(prefix), kind, text: String::new() };
        let mut item = open.item("in_progress");
        if !open.is_call() {
            item["content"] = json!([]);
        }
        let is_message = matches!(open.kind, Kind::Message);
        self.open = Some(open);
        self.say("response.output_item.added", json!({ "output_index": self.output.len(), "item": item }), out);
        if is_message {
            self.part("response.content_part.added", json!({ "part": text_part("") }), out);
        }
    }

    fn end_item(&mut self, status: &str, out: &mut Page) {
        let Some(open) = &self.open else { return };
        let (text, item) = (open.text.clone(), open.item(status));
        match &open.kind {
            Kind::Reasoning => self.part("response.reasoning_text.done", json!({ "text": text }), out),
            Kind::Message => {
                self.part("response.output_text.done", json!({ "text": text, "logprobs": [] }), out);
                self.part("response.content_part.done", json!({ "part": text_part(&text) }), out);
            }
            Kind::Call { name, .. } => {
                let name = name.clone();
                self.part("response.function_call_arguments.done", json!({ "name": name, "arguments": text }), out);
            }
        }
        self.open = None;
        self.say("response.output_item.done", json!({ "output_index": self.output.len(), "item": item }), out);
        self.output.push(item);
    }

    /// More of the item that is open.
    fn more(&mut self, text: &str, kind: &str, out: &mut Page) {
        if let Some(open) = &mut self.open {
            open.text += text;
        }
        let mut event = json!({ "delta": text });
        if kind == "response.output_text.delta" {
            event["logprobs"] = json!([]);
        }
        self.part(kind, event, out);
    }

    fn text(&mut self, text: &str, out: &mut Page) {
        if text.is_empty() {
            return;
        }
        if !matches!(self.open, Some(Open { kind: Kind::Message, .. })) {
            self.begin_item("msg_", Kind::Message, out);
        }
        self.more(text, "response.output_text.delta", out);
    }

    fn done(&mut self, done: &Done, out: &mut Page) {
        if self.open.is_none() && self.output.is_empty() {
            self.begin_item("msg_", Kind::Message, out);
        }
        self.end_item(status_of(done), out);
        self.done = Some(finished(self.frame.clone(), self.output.clone(), done));
    }
}

impl Dictation for Events {
    fn begin(&mut self, out: &mut Page) {
        for kind in ["response.created", "response.in_progress"] {
            let response = json!({ "response": self.frame });
            self.say(kind, response, out);
        }
    }

    fn hear(&mut self, _: usize, reply: Reply, out: &mut Page) {
        match reply {
            Reply::Token { text, .. } | Reply::Rest(text) => self.text(&text, out),
            Reply::Reasoning(text) => {
                if !matches!(self.open, Some(Open { kind: Kind::Reasoning, .. })) {
                    self.begin_item("rs_", Kind::Reasoning, out);
                }
                self.more(&text, "response.reasoning_text.delta", out);
            }
            Reply::Call { id, name, .. } => self.begin_item("fc_", Kind::Call { id, name }, out),
            Reply::Arguments { text, .. } => self.more(&text, "response.function_call_arguments.delta", out),
            Reply::CallEnd { .. } => self.end_item("completed", out),
            Reply::Done(done) => self.done(&done, out),
            Reply::Queued | Reply::Prefill { .. } | Reply::Failed(_) => {}
        }
    }

    fn fail(&mut self, problem: &Problem, out: &mut Page) {
        let mut response = self.frame.clone();
        response["status"] = "failed".into();
        let message = problem.json(Dialect::OpenAi)["error"]["message"].clone();
        response["error"] = json!({ "code": "server_error", "message": message });
        self.say("response.failed", json!({ "response": response }), out);
    }

    fn end(&mut self, out: &mut Page) {
        let Some(response) = self.done.take() else { return };
        let is_whole = response["status"] == "completed";
        let kind = if is_whole { "response.completed" } else { "response.incomplete" };
        self.say(kind, json!({ "response": response }), out);
    }

    fn keep_alive(&mut self, out: &mut Page) {
        out.text(": still at work\n\n");
    }
}
