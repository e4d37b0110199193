//! Chat templates: the program that a model ships with to turn a conversation into its prompt's text.
//!
//! The language is Jinja2 as transformers runs it (version 5: `trim_blocks`, `lstrip_blocks`, loop controls, the immutable
//! sandbox, its `tojson`, `raise_exception`, `strftime_now`); the reference is its output, byte for byte. The engine is
//! minijinja. In front of it stands a rewriter (`syntax`, `expression`) that reads Jinja2's grammar and turns every
//! operator, literal, subscript and loop into a call, so that each is Python's, paid for, and aware of origin.
//!
//! # A template is a program of unknown origin
//!
//! It sees the variables it is given and nothing else: there is no file, no environment, no attribute of an object of ours,
//! no other template. It runs on a budget ([`Limits`]): instructions, bytes read and made by operations, bytes of one value,
//! bytes of output, nesting. A loop of 1e9, a string times 1e9, a list that holds itself twice over and over: each ends with
//! [`Error::Limit`], which names the limit, before the memory is taken.
//!
//! # A conversation is text of unknown origin
//!
//! `<|im_start|>system` in a user's message must stay six harmless words. So strings remember who wrote each of their
//! characters (`text`): what came in through the variables is the conversation's, what stands in the template (and the
//! model's own tokens, variables named `..._token`) is the template's. Trimming, cutting, joining, replacing and `tojson`
//! carry that along; comparisons do not see it, so a template cannot behave differently for it. [`Template::render_spans`]
//! returns the text with its origin; [`split_special`] then finds special tokens in the template's own text only, and
//! leaves everything between them in one piece, so that tokens form across the seam as they did in training. The one word
//! of a conversation that counts as the template's is a message's role when it is one of [`ROLES`], because templates
//! build tokens from it (`<|user|>`).
//!
//! Knows no tokenizer, no clock and no model.

mod arguments;
mod budget;
mod clock;
mod compare;
mod expression;
mod filters;
mod format;
mod functions;
mod json;
mod methods;
mod operators;
mod print;
mod questions;
mod spans;
mod syntax;
mod text;
mod tokens;
mod value;

pub use json::{JSON_BYTES_MAX, JSON_DEPTH_MAX, Json, Object};
pub use spans::{Piece, Span, split_special};

use budget::{BUDGET, Budget, Stop};
use clock::Moment;
use functions::CLOCK;
use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, ErrorKind, State, UndefinedBehavior};
use operators::Operation;
use std::collections::BTreeMap;
use text::Text;
use value::{Origin, from_json, from_text, list, map};

/// Roles that templates may build special tokens from; a message's role that is none of them is conversation text.
pub const ROLES: [&str; 10] =
    ["assistant", "developer", "environment", "function", "ipython", "model", "observation", "system", "tool", "user"];

/// How deep frames may nest, macros calling macros above all (five frames each): past any sensible schema's depth, well
/// before the stack of a thread with 2 MiB.
const RECURSION_MAX: usize = 200;

/// What goes wrong with a template or its rendering.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The template itself refused the conversation, with these words.
    #[error("the chat template refuses this conversation: {message}")]
    Raised {
        /// What the template gave to `raise_exception`.
        message: String,
    },
    /// The template cannot be read.
    #[error("the chat template has an error on line {line}: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template failed on this conversation.
    #[error("the chat template failed on line {line}: {message}")]
    Failed {
        /// Counted from 1; 0 where it is not known.
        line: usize,
        /// What went wrong.
        message: String,
    },
    /// A limit was reached.
    #[error("the chat template or its conversation is over the limit of {max} {limit}")]
    Limit {
        /// The limit's name, with its unit.
        limit: String,
        /// Its value.
        max: u64,
    },
    /// A conversation that is not JSON.
    #[error("not JSON at byte {offset}: {message}")]
    Json {
        /// Where, counted from 0.
        offset: usize,
        /// What is wrong.
        message: String,
    },
    /// The variable `now` is not a date and time.
    #[error("`now` must be an ISO 8601 date and time such as 2026-03-14T09:26:53, not {now:?}")]
    Clock {
        /// What it was (shortened).
        now: String,
    },
}

impl Error {
    fn limit(limit: &str, max: u64) -> Self {
        Self::Limit { limit: limit.to_owned(), max }
    }

    fn syntax(line: usize, message: String) -> Self {
        Self::Syntax { line, message }
    }
}

/// What one render may cost. The defaults grow with the conversation, and with the square of its number of messages:
/// several templates go through all the messages again for each of them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions of the engine: 300,000, and 1,000 for each value of the conversation, and 32 for each pair of
    /// messages; at the most 200 million. The reference renderings take 62 for each value at the most.
    pub instructions_max: u64,
    /// Bytes that operations read and make, all together: 64 MiB, and 64 for each byte of the conversation, and 128 for each
    /// pair of messages.
    pub work_bytes_max: u64,
    /// Bytes of one value: 8 MiB, and 8 for each byte of the conversation.
    pub value_bytes_max: u64,
    /// Bytes printed, captured prints included: 16 MiB, and 16 for each byte of the conversation.
    pub output_bytes_max: u64,
}

impl Limits {
    /// The limits for a conversation of this size.
    pub fn of_conversation(size: ConversationSize) -> Self {
        let pairs = size.messages.saturating_mul(size.messages).min(1 << 32);
        Self {
            instructions_max: (300_000 + 1_000 * size.values + 32 * pairs).min(200_000_000),
            work_bytes_max: (64 << 20) + 64 * size.bytes + 128 * pairs,
            value_bytes_max: (8 << 20) + 8 * size.bytes,
            output_bytes_max: (16 << 20) + 16 * size.bytes,
        }
    }
}

/// How large a conversation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationSize {
    /// JSON values: each item of an array and each member of an object counts one.
    pub values: u64,
    /// Bytes of strings, keys included.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

impl ConversationSize {
    /// Measures a conversation, and refuses one over the limits of [`Json::parse`].
    pub fn of(variables: &Object) -> Result<Self, Error> {
        let mut size = Self::default();
        if let Some(Json::Array(messages)) = variables.get("messages") {
            size.messages = messages.len() as u64;
        }
        for value in variables.values() {
            size.add(value, 0)?;
        }
        Ok(size)
    }

    fn add(&mut self, json: &Json, depth: usize) -> Result<(), Error> {
        if depth > JSON_DEPTH_MAX {
            return Err(Error::limit("levels of conversation depth", JSON_DEPTH_MAX as u64));
        }
        self.values += 1;
        match json {
            Json::String(text) | Json::LongInteger(text) => self.bytes += text.len() as u64,
            Json::Array(items) => items.iter().try_for_each(|item| self.add(item, depth + 1))?,
            Json::Object(members) => {
                for (key, value) in members {
                    self.bytes += key.len() as u64;
                    self.add(value, depth + 1)?;
                }
            }
            _ => {}
        }
        if self.bytes + self.values > JSON_BYTES_MAX as u64 {
            return Err(Error::limit("conversation bytes", JSON_BYTES_MAX as u64));
        }
        Ok(())
    }
}

/// A compiled chat template. Rendering shares it: one serves any number of threads.
pub struct Template {
    environment: Environment<'static>,
    limits: Option<Limits>,
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The name of the only template of an environment.
const NAME: &str = "chat template";

impl Template {
    /// Compiles a template's source. Fails with [`Error::Syntax`], or [`Error::Limit`] for a source of over 1 MiB.
    pub fn compile(source: &str) -> Result<Self, Error> {
        let rewritten = syntax::rewrite(source)?;
        let mut environment = environment();
        environment
            .add_template_owned(NAME, rewritten)
            .map_err(|error| Error::syntax(error.line().unwrap_or(0), message(&error)))?;
        Ok(Self { environment, limits: None })
    }

    /// The same template with limits of its own instead of [`Limits::of_conversation`].
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Renders a conversation: `messages`, `tools`, `documents`, `add_generation_prompt`, `bos_token`, `eos_token`, any
    /// variables of the template's own, and `now`, the moment that `strftime_now` prints (ISO 8601).
    ///
    /// As in transformers, absent `tools` and `documents` are none, and a message's `reasoning_content` is there as
    /// `thinking` too.
    pub fn render(&self, variables: &Object) -> Result<String, Error> {
        Ok(self.render_text(variables)?.as_str().to_owned())
    }

    /// The same text, cut where its origin changes.
    pub fn render_spans(&self, variables: &Object) -> Result<Vec<Span>, Error> {
        Ok(spans::spans(&self.render_text(variables)?))
    }

    fn render_text(&self, variables: &Object) -> Result<Text, Error> {
        let size = ConversationSize::of(variables)?;
        let limits = self.limits.unwrap_or_else(|| Limits::of_conversation(size));
        let context = context(variables, limits)?;
        // A clone shares the compiled template; the fuel belongs to this render.
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(limits.instructions_max));
        let template = environment.get_template(NAME).map_err(|error| rendering_error(&error, limits))?;
        let marked = template.render(context).map_err(|error| rendering_error(&error, limits))?;
        Ok(Text::decode(&marked))
    }
}

/// The variables as the template finds them.
fn context(variables: &Object, limits: Limits) -> Result<BTreeMap<String, Value>, Error> {
    // Making the conversation's values is not the template's doing: it is paid from a budget of its own.
    let making = Budget::new(Limits { work_bytes_max: u64::MAX, value_bytes_max: u64::MAX, ..limits });
    let failed = |error: minijinja::Error| rendering_error(&error, limits);
    let mut context = BTreeMap::new();
    for name in ["tools", "documents"] {
        context.insert(name.to_owned(), Value::from(()));
    }
    context.insert("add_generation_prompt".to_owned(), Value::from(false));
    for (name, json) in variables {
        let value = match (name.as_str(), json) {
            ("now", Json::String(now)) => {
                context.insert(CLOCK.to_owned(), Value::from_object(Moment::parse(now)?));
                continue;
            }
            (name, _) if name.starts_with("_kauri_") => continue,
            ("messages", Json::Array(messages)) => messages
                .iter()
                .map(|message| message_value(&making, message))
                .collect::<Result<_, _>>()
                .and_then(|messages| list(&making, messages)),
            (name, _) if name.ends_with("_token") => from_json(&making, json, Origin::Model),
            _ => from_json(&making, json, Origin::User),
        };
        context.insert(name.clone(), value.map_err(failed)?);
    }
    context.insert(BUDGET.to_owned(), Value::from_object(Budget::new(limits)));
    Ok(context)
}

fn message_value(budget: &Budget, message: &Json) -> Result<Value, minijinja::Error> {
    let Json::Object(members) = message else {
        return from_json(budget, message, Origin::User);
    };
    let mut pairs = Vec::with_capacity(members.len() + 1);
    for (name, json) in members {
        let is_role = name == "role" && json.as_str().is_some_and(|role| ROLES.contains(&role));
        let origin = if is_role { Origin::Model } else { Origin::User };
        pairs.push((from_text(name, Origin::User), from_json(budget, json, origin)?));
    }
    if let (Some(reasoning), false) = (members.get("reasoning_content"), members.contains_key("thinking")) {
        let thinking = from_json(budget, reasoning, Origin::User)?;
        pairs.push((from_text("thinking", Origin::User), thinking));
    }
    map(budget, pairs)
}

/// The engine with this crate's operations and none of its own that are not bounded.
fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_recursion_limit(RECURSION_MAX);
    environment.set_unknown_method_callback(methods::method);
    environment.set_formatter(|out, state, value| {
        let budget = Budget::of(state)?;
        let printed = match value.as_str() {
            Some(text) => std::borrow::Cow::Borrowed(text),
            None => std::borrow::Cow::Owned(operators::marked_text(&budget, value)?),
        };
        budget.output(printed.len() as u64)?;
        Ok(out.write_str(&printed)?)
    });
    for (name, operation) in operators::OPERATORS.iter().chain(functions::FUNCTIONS) {
        environment.add_function(*name, callable(*operation));
    }
    for (name, operation) in filters::FILTERS {
        environment.add_filter(*name, callable(*operation));
    }
    for (name, filter) in filters::engine_filters() {
        environment.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            filters::call_engine(state, name, &filter, &plain(&args))
        });
    }
    for (name, question) in questions::QUESTIONS {
        environment.add_test(*name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            question(state, &plain(&args))
        });
    }
    environment
}

fn callable(
    operation: Operation,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, minijinja::Error> + Send + Sync + 'static {
    move |state, args| operation(state, &plain(&args))
}

fn plain(args: &Rest<ValueOrKwargs>) -> Vec<Value> {
    args.iter().map(|arg| (**arg).clone()).collect()
}

/// What the engine's error means: our own reason where it carries one.
fn rendering_error(error: &minijinja::Error, limits: Limits) -> Error {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(found) = cause {
        if let Some(stop) = found.downcast_ref::<Stop>() {
            return stop.error();
        }
        if let Some(engine) = found.downcast_ref::<minijinja::Error>() {
            if engine.kind() == ErrorKind::OutOfFuel {
                return Error::limit("instructions", limits.instructions_max);
            }
            if engine.detail().is_some_and(|detail| detail.contains("recursion limit")) {
                return Error::limit("levels of recursion", RECURSION_MAX as u64);
            }
        }
        cause = found.source();
    }
    Error::Failed { line: error.line().unwrap_or(0), message: message(error) }
}

fn message(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}
