//! A conversation as the model's template sees it.

use kauri_prompt::template::{Json, Object};
use kauri_step::tools::Tools;

/// A conversation: messages, tools, and what else the template may ask for.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    messages: Vec<Message>,
    pub(crate) variables: Object,
    pub(crate) tools: Option<Tools>,
    pub(crate) reasoning_budget_tokens: Option<usize>,
}

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`.
    pub role: String,
    /// What is said.
    pub content: String,
    /// What the model thought before it said it; the model's own template decides whether it sees that again.
    pub reasoning: Option<String>,
    /// The calls that the model made.
    pub calls: Vec<Call>,
    /// Of a tool's result, the id of the call.
    pub call_id: Option<String>,
    /// Of a tool's result, the tool's name.
    pub name: Option<String>,
}

/// A call that the model made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What its result is told by.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, JSON text of an object.
    pub arguments: String,
}

impl Chat {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of plain text.
    pub fn push(&mut self, role: &str, content: &str) {
        self.add(Message { role: role.to_owned(), content: content.to_owned(), ..Message::default() });
    }

    /// Adds a message.
    pub fn add(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Takes the last message back.
    pub fn pop(&mut self) -> Option<Message> {
        self.messages.pop()
    }

    /// Sets a variable of the template, such as `enable_thinking`.
    pub fn set(&mut self, name: &str, value: Json) {
        self.variables.insert(name.to_owned(), value);
    }

    /// Lets the model call tools.
    pub fn set_tools(&mut self, tools: Tools) {
        self.tools = Some(tools);
    }

    /// Asks the model to reason before it answers, or not to: by the names that templates have for it. What a model does that
    /// knows none of them is its own affair.
    pub fn set_reasoning(&mut self, wanted: bool) {
        self.set("enable_thinking", wanted.into());
        self.set("thinking", wanted.into());
    }

    /// Ends the model's reasoning after so many tokens.
    pub fn set_reasoning_budget(&mut self, tokens: usize) {
        self.reasoning_budget_tokens = Some(tokens);
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Forgets all messages but that of the system.
    pub fn clear(&mut self) {
        self.messages.retain(|message| message.role == "system");
    }

    /// Sets or replaces the message of the system; empty text removes it.
    pub fn set_system(&mut self, content: &str) {
        self.messages.retain(|message| message.role != "system");
        if !content.is_empty() {
            let message = Message { role: "system".to_owned(), content: content.to_owned(), ..Message::default() };
            self.messages.insert(0, message);
        }
    }
}

impl Message {
    /// The message as templates take it: arguments of calls as objects, since they print them themselves.
    pub(crate) fn json(&self) -> Json {
        let mut members = Object::new();
        let mut put = |key: &str, value: Json| _ = members.insert(key.to_owned(), value);
        put("role", self.role.as_str().into());
        put("content", self.content.as_str().into());
        if let Some(reasoning) = &self.reasoning {
            put("reasoning_content", reasoning.as_str().into());
        }
        if !self.calls.is_empty() {
            put("tool_calls", Json::Array(self.calls.iter().map(Call::json).collect()));
        }
        if let Some(id) = &self.call_id {
            put("tool_call_id", id.as_str().into());
        }
        if let Some(name) = &self.name {
            put("name", name.as_str().into());
        }
        Json::Object(members)
    }
}

impl Call {
    fn json(&self) -> Json {
        let function = [("name", Json::from(self.name.as_str())), ("arguments", self.arguments_json())];
        let call = [("id", self.id.as_str().into()), ("type", "function".into()), ("function", object(function))];
        object(call)
    }

    /// The arguments as an object; as a string where they are none, which is the caller's doing.
    pub(crate) fn arguments_json(&self) -> Json {
        Json::parse(&self.arguments)
            .ok()
            .filter(|json| json.as_object().is_some())
            .unwrap_or_else(|| self.arguments.as_str().into())
    }
}

/// An object of these members.
pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
