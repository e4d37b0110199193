//! A conversation as the model's template sees it, and from there to token ids.

use kauri_prompt::template::{Json, Object, Template};
use kauri_tokenizer::{Special, Tokenizer};

use crate::error::Error;

/// A conversation: messages and what else the template may ask for.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    messages: Vec<Message>,
    variables: Object,
}

/// One message of plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Chat {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of plain text.
    pub fn push(&mut self, role: &str, content: &str) {
        self.messages.push(Message { role: role.to_owned(), content: content.to_owned() });
    }

    /// Takes the last message back.
    pub fn pop(&mut self) -> Option<Message> {
        self.messages.pop()
    }

    /// Sets a variable of the template, such as `enable_thinking`.
    pub fn set(&mut self, name: &str, value: Json) {
        self.variables.insert(name.to_owned(), value);
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
            self.messages.insert(0, Message { role: "system".to_owned(), content: content.to_owned() });
        }
    }

    /// The prompt that asks for the next answer, as token ids. Text of messages never becomes a special token.
    pub(crate) fn tokens(&self, template: &Template, tokenizer: &Tokenizer) -> Result<Vec<u32>, Error> {
        let mut variables = self.variables.clone();
        let messages = self.messages.iter().map(|message| {
            let members = [("role", &message.role), ("content", &message.content)];
            Json::Object(members.map(|(key, value)| (key.to_owned(), Json::from(value.as_str()))).into_iter().collect())
        });
        variables.insert("messages".to_owned(), Json::Array(messages.collect()));
        variables.insert("add_generation_prompt".to_owned(), Json::from(true));
        for (name, id) in [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())] {
            let bytes = id.map(|id| tokenizer.decode(&[id], true)).unwrap_or_default();
            let text = Json::from(String::from_utf8_lossy(&bytes).into_owned());
            variables.entry(name.to_owned()).or_insert(text);
        }
        let spans = template.render_spans(&variables)?;
        let spans: Vec<(&str, Special)> = spans
            .iter()
            .map(|span| (span.text.as_str(), if span.from_user { Special::Text } else { Special::Parse }))
            .collect();
        Ok(tokenizer.encode_spans(&spans))
    }
}
