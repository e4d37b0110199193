//! Tool calls: what a model may call, how it writes calls, and how they are read back.
//!
//! A [`Format`] is told from a model's chat template and vocabulary. It has a grammar that an answer may be held to,
//! a parser ([`Reader`](crate::answer::Reader)) that turns streamed text into [`Delta`]s, and a writer. Each is one file of data:
//! marks and places, for which `layout` has one parser, one grammar and one writer.
//!
//! Text of a model is hostile: whatever it writes, a call names a listed tool, arguments end as valid JSON, and everything is
//! linear in the text. Knows no tokens and runs no tools.

mod apriel;
mod command_r;
mod command_r7b;
mod deepseek;
mod deepseek_v3_1;
mod dsml;
mod function_gemma;
mod functionary;
mod gemma;
mod generic;
mod gigachat;
mod glm;
mod granite;
pub(crate) mod harmony;
mod hermes;
mod kimi;
mod layout;
mod lfm2;
mod llama;
mod minimax;
mod mirothinker;
mod mistral;
mod mistral_args;
mod nemotron;
mod qwen_coder;
mod seed;

use std::sync::Arc;

use serde_json::Value as Json;

use crate::grammar::{self, Calls, checked_arguments};
pub use generic::{instruction, result_text};
pub(crate) use layout::Parser;
use layout::{Layout, Program};

/// The most tools of a request.
pub const TOOLS_MAX: usize = 512;
/// The longest name of a tool, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// The longest list of tools, in bytes of JSON.
pub const TOOLS_BYTES_MAX: usize = 4 << 20;

/// A function that the model may ask its caller to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Letters, digits and `_ - . / :`, at most [`NAME_BYTES_MAX`].
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub parameters: Json,
    /// Whether the arguments are held to the schema; where they are not, any object will do.
    pub is_strict: bool,
}

/// Whether a call is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The model decides.
    #[default]
    Auto,
    /// A call of any of the tools.
    Required,
    /// A call of this tool.
    Named(String),
}

/// The tools of a request.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Those that may be called.
    pub(crate) list: Arc<[Tool]>,
    pub(crate) ask: Ask,
}

/// What is asked of the calls in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub required: bool,
    pub parallel: bool,
}

/// What is wrong with a list of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no list, or one of it is no tool.
    #[error("{field}: {problem}")]
    Malformed {
        /// Where, as a path into the list.
        field: String,
        /// What is wrong there.
        problem: &'static str,
    },
    /// There are too many.
    #[error("tools: {count} tools are more than {TOOLS_MAX}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// The list is too long.
    #[error("tools: {bytes} bytes of JSON are more than {TOOLS_BYTES_MAX}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The tool that is to be called is not on the list.
    #[error("tool_choice: there is no tool {name:?} in the list")]
    Unlisted {
        /// Its name.
        name: String,
    },
}

impl Tool {
    /// Reads a list of tools as chat templates take it: `{"type": "function", "function": {"name", "description", "parameters",
    /// "strict"}}`, or the inner object alone.
    ///
    /// # Errors
    /// Names what is wrong, and in which of them.
    pub fn list(json: &Json) -> Result<Vec<Self>, Error> {
        let malformed = |field: String, problem| Err(Error::Malformed { field, problem });
        let Some(items) = json.as_array() else {
            return malformed("tools".to_owned(), "must be a list of tools");
        };
        let mut tools = Vec::with_capacity(items.len().min(TOOLS_MAX));
        for (index, item) in items.iter().enumerate() {
            let function = item.get("function").unwrap_or(item);
            let at = format!("tools[{index}]");
            let Some(name) = function.get("name").and_then(Json::as_str) else {
                return malformed(at, "must have a function with a name");
            };
            let parameters = match function.get("parameters") {
                None | Some(Json::Null) => serde_json::json!({ "type": "object", "properties": {} }),
                Some(schema @ Json::Object(_)) => schema.clone(),
                Some(_) => return malformed(format!("{at}.function.parameters"), "must be a JSON schema, an object"),
            };
            let description = function.get("description").and_then(Json::as_str).unwrap_or_default().to_owned();
            let is_strict = function.get("strict") != Some(&Json::Bool(false));
            tools.push(Self { name: name.to_owned(), description, parameters, is_strict });
        }
        Ok(tools)
    }
}

impl Tools {
    /// The tools of a request; `parallel` lets an answer have several calls.
    ///
    /// # Errors
    /// When there are none or too many, a name is none or there twice, or the chosen one is missing.
    pub fn new(list: Vec<Tool>, choice: &Choice, parallel: bool) -> Result<Self, Error> {
        if list.len() > TOOLS_MAX {
            return Err(Error::TooMany { count: list.len() });
        }
        let malformed = |field: String, problem| Err(Error::Malformed { field, problem });
        if list.is_empty() {
            return malformed("tools".to_owned(), "must hold at least one tool");
        }
        let mut names = std::collections::HashSet::new();
        let mut bytes = 0;
        for (index, tool) in list.iter().enumerate() {
            let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
            let field = format!("tools[{index}].function.name");
            if tool.name.is_empty() || tool.name.len() > NAME_BYTES_MAX || !tool.name.bytes().all(letters) {
                return malformed(field, "must be 1 to 128 letters, digits, _ - . / or :");
            }
            if !names.insert(tool.name.as_str()) {
                return malformed(field, "is the name of another tool, too");
            }
            bytes += tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
        }
        if bytes > TOOLS_BYTES_MAX {
            return Err(Error::TooLong { bytes });
        }
        let list = match choice {
            Choice::Auto | Choice::Required => list,
            Choice::Named(name) => {
                let named = list.iter().find(|tool| tool.name == *name).cloned();
                vec![named.ok_or_else(|| Error::Unlisted { name: name.clone() })?]
            }
        };
        Ok(Self { list: list.into(), ask: Ask { required: *choice != Choice::Auto, parallel } })
    }

    /// Those that may be called.
    pub fn list(&self) -> &[Tool] {
        &self.list
    }

    /// Whether the answer must be a call.
    pub fn is_required(&self) -> bool {
        self.ask.required
    }
}

/// Something found in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// What the model thinks before it answers.
    Reasoning(String),
    /// Text for the reader.
    Text(String),
    /// A call begins.
    Call {
        /// Its place among the calls of the answer, from 0.
        index: u32,
        /// What its result will be told by.
        id: String,
        /// The tool, one of the list.
        name: String,
    },
    /// More of a call's arguments. All of them together are a JSON object.
    Arguments {
        /// The call.
        index: u32,
        /// The next piece of JSON text.
        text: String,
    },
    /// A call is over.
    End {
        /// The call.
        index: u32,
        /// Whether its arguments are as the model wrote them, not completed where it broke off.
        complete: bool,
    },
}

/// How a model writes calls.
#[derive(Debug)]
pub struct Format {
    /// Its name, for people.
    pub name: &'static str,
    /// Whether a model is told to write so.
    told: fn(&Signs<'_>) -> bool,
    kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Layout(Layout),
    /// An answer of messages, each with a header that says what it is.
    Harmony,
}

/// What a format is told from.
pub struct Signs<'a> {
    /// The source of the chat template.
    pub template: &'a str,
    /// Whether the vocabulary has this token.
    pub has_token: &'a dyn Fn(&str) -> bool,
}

impl Signs<'_> {
    fn has(&self, text: &str) -> bool {
        self.template.contains(text)
    }
}

/// Every format but the one for models that were told of none. At most one of them is told of any model.
static FORMATS: &[&Format] = &[
    // tidy: sorted
    &apriel::FORMAT,
    &command_r7b::FORMAT,
    &command_r::FORMAT,
    &deepseek_v3_1::FORMAT,
    &deepseek::FORMAT,
    &dsml::FORMAT,
    &function_gemma::FORMAT,
    &functionary::FORMAT,
    &gemma::FORMAT,
    &gigachat::FORMAT,
    &glm::FORMAT,
    &granite::FORMAT,
    &harmony::FORMAT,
    &hermes::FORMAT,
    &kimi::FORMAT,
    &lfm2::FORMAT,
    &llama::FORMAT,
    &minimax::FORMAT,
    &mirothinker::FORMAT,
    &mistral_args::FORMAT,
    &mistral::FORMAT,
    &nemotron::FORMAT,
    &qwen_coder::FORMAT,
    &seed::FORMAT,
    // tidy: end
];

impl Format {
    /// The format of a model; that for any model where nothing tells of one.
    pub fn of(signs: &Signs<'_>) -> &'static Self {
        Self::told_of(signs).next().unwrap_or(&generic::FORMAT)
    }

    /// Every format that a model's signs tell of: one, or none.
    pub fn told_of(signs: &Signs<'_>) -> impl Iterator<Item = &'static Self> {
        FORMATS.iter().filter(|format| (format.told)(signs)).copied()
    }

    /// Whether the model's template knows nothing of tools, so that [`instruction`] must tell it.
    pub fn is_generic(&self) -> bool {
        std::ptr::eq(self, &raw const generic::FORMAT)
    }

    /// The grammar of an answer with calls, in the dialect of Lark that llguidance reads: free text before a call where the model
    /// decides, a call at once where one is required, several where they may be. `token` gives the id of a text that is one
    /// special token of the vocabulary. It begins where reasoning has ended. An answer that is no call obeys `text`, a rule's body.
    ///
    /// # Errors
    /// When the schema of a tool's arguments cannot be enforced.
    fn grammar(
        &self,
        tools: &Tools,
        token: &dyn Fn(&str) -> Option<u32>,
        text: Option<&str>,
    ) -> Result<String, grammar::Error> {
        let checked = |tool: &Tool| {
            let parameters = match (&self.kind, tool.is_strict) {
                (Kind::Layout(layout), true) => {
                    let parameters = checked_arguments(&tool.name, &tool.parameters)?;
                    layout::check(layout, &parameters).map_err(|error| error.in_tool(&tool.name))?;
                    parameters
                }
                (Kind::Harmony, true) => checked_arguments(&tool.name, &tool.parameters)?,
                (Kind::Layout(layout), false) => layout::relaxed(layout, &tool.parameters),
                (Kind::Harmony, false) => serde_json::json!({ "type": "object" }),
            };
            Ok(Tool { parameters, ..tool.clone() })
        };
        let tools_checked = tools.list.iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.kind {
            Kind::Layout(layout) => layout::grammar(layout, &tools_checked, tools.ask, token, text),
            Kind::Harmony => harmony::grammar(&tools_checked, tools.ask, token, text),
        })
    }

    /// The same with what is to be known to follow it, and to end it in time.
    ///
    /// # Errors
    /// When the schema of a tool's arguments cannot be enforced.
    pub(crate) fn calls(
        &self,
        tools: &Tools,
        token: &dyn Fn(&str) -> Option<u32>,
        text: Option<&str>,
    ) -> Result<Calls, grammar::Error> {
        let lark = self.grammar(tools, token, text)?;
        let texts = self.marks();
        let mut marks: Vec<u32> = texts.iter().filter_map(|text| token(text)).collect();
        marks.sort_unstable();
        marks.dedup();
        // Some formats have an end of line before a mark, which then is part of what ends a text.
        let ends = texts.into_iter().rev().flat_map(|text| [text.to_owned(), format!("\n{text}")]).collect();
        let required = |tool: &Tool| grammar::required_names(&tool.parameters);
        let strict = tools.list.iter().filter(|tool| tool.is_strict);
        let schemas = strict.map(|tool| (tool.name.clone(), tool.parameters.to_string())).collect();
        Ok(Calls { lark, marks, ends, names: tools.list.iter().flat_map(required).collect(), schemas })
    }

    /// Calls as the model writes them: each a tool's name and its arguments, an object.
    pub fn write(&self, calls: &[(&str, &Json)]) -> String {
        match &self.kind {
            Kind::Layout(layout) => layout::write(layout, calls),
            Kind::Harmony => harmony::write(calls),
        }
    }

    /// Texts that a parser of the format looks for: those that are special tokens must come to it by name.
    pub fn marks(&self) -> Vec<&'static str> {
        match &self.kind {
            Kind::Layout(layout) => layout.marks(),
            Kind::Harmony => harmony::MARKS.to_vec(),
        }
    }

    pub(crate) fn is_harmony(&self) -> bool {
        matches!(self.kind, Kind::Harmony)
    }

    /// A parser of an answer's text; `seed` makes ids of calls differ from those of other answers.
    pub(crate) fn parser(&self, tools: &Tools, seed: u64) -> Option<Parser> {
        let Kind::Layout(layout) = &self.kind else { return None };
        let program = Arc::new(Program::new(layout));
        Some(Parser::new(program, Arc::clone(&tools.list), !tools.ask.parallel, seed))
    }
}

#[cfg(test)]
pub(crate) mod tests;
