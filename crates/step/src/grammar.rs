//! What an answer must obey, from a schema or a grammar: compiled once, then followed token by token.
//!
//! [`Compiler`] knows a vocabulary and turns a [`Grammar`] into a [`Compiled`] one, off the hot path: on the caller's thread,
//! and once for equal texts. [`Compiled::start`] begins an answer, and the [`Constraint`] it gives is all that the rest sees: a
//! mask before each token, a commit after it, and the tokens that are certain and need not be asked of the model.
//!
//! Parsing and masks are `llguidance`'s (Earley over derivatives of regular expressions, on a tree of the vocabulary's bytes);
//! no type of it leaves this folder. What a schema says is read here (`grammar/schema.rs`), since that engine passes over
//! some of it in silence.
//!
//! A token's mask is a function of the grammar and of the tokens before it, whatever else is going on.

mod ending;
mod error;
mod gbnf;
mod pattern;
mod refusal;
mod room;
mod schema;
mod vocabulary;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use indexmap::IndexMap;
use kauri_tokenizer::Tokenizer;
use llguidance::api::{GrammarInit, ParserLimits, StopReason, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use toktrie::InferenceCapabilities;

pub use error::Error;

use crate::mask::Mask;
pub(crate) use ending::required_names;
use ending::{Closers, Hints};
use refusal::refusal;
use room::Room;
use vocabulary::Vocabulary;

/// The most choices, and bytes of all of them together.
const CHOICES_MAX: usize = 2000;
const CHOICES_BYTES_MAX: usize = 1 << 17;
/// The most bytes of a Lark grammar.
const LARK_BYTES_MAX: usize = 1 << 18;
/// How many compiled grammars are kept.
const KEPT_MAX: usize = 128;
/// How many tools' schemas are compiled to find the one that calls are refused for.
const SUSPECTS_MAX: usize = 32;
/// Masks of one grammar that answers share, and how far from the beginning: 19 kB each for 150,000 tokens.
const SHARED_MAX: usize = 32;
const SHARED_TOKENS_MAX: usize = 64;
/// What compiling may take of the stack: 4096 levels that a schema may come to, references followed, at 15 kB each.
const STACK_BYTES: usize = 64 << 20;
/// Schemas that come to no more levels are compiled on the caller's stack: under 1 MB. A thread of its own, with memory that no other
/// has touched, takes as long as compiling.
const LEVELS_HERE_MAX: usize = 48;
const BYTES_HERE_MAX: usize = 1 << 18;
/// Space between the parts of JSON: a blank, or a line end and what indents the next line. Without a bound a model may write
/// blanks until the window is full.
const SPACE: &str = r"[ \t]|\r?\n[ \t]{0,40}";

/// What an answer must obey.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Grammar {
    /// JSON that is valid for a schema: drafts 4 to 2020-12. Properties come in the order in which the schema lists them.
    JsonSchema(String),
    /// Any JSON value.
    Json,
    /// Any JSON object.
    JsonObject,
    /// Text that matches a regular expression as a whole (ECMA-262, as far as an automaton can follow).
    Regex(String),
    /// A grammar in Lark's notation.
    Lark(String),
    /// A grammar in the notation of llama.cpp.
    Gbnf(String),
    /// One of several texts.
    Choice(Vec<String>),
    /// An answer with calls of tools, as [`Form::grammar`](crate::answer::Form::grammar) has it.
    Calls(Calls),
}

/// The grammar of an answer with calls. It has special tokens in it, and schemas that were checked: nobody else can make one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Calls {
    pub(crate) lark: String,
    /// The special tokens that it names.
    pub(crate) marks: Vec<u32>,
    /// Texts of the format that end something.
    pub(crate) ends: Vec<String>,
    /// Names of parameters that are required.
    pub(crate) names: Vec<String>,
    /// Each tool that is held to a schema, and that schema as it was given.
    pub(crate) schemas: Vec<(String, String)>,
}

impl Grammar {
    /// What it is called in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::JsonSchema(_) | Self::Json | Self::JsonObject => schema::KIND,
            Self::Regex(_) => "regular expression",
            Self::Lark(_) => "Lark grammar",
            Self::Gbnf(_) => "GBNF grammar",
            Self::Choice(_) => "list of choices",
            Self::Calls(_) => "list of tools",
        }
    }

    /// Whether it is a schema that is read on little of a stack.
    fn is_shallow(&self) -> bool {
        match self {
            Self::JsonSchema(text) => text.len() <= BYTES_HERE_MAX && levels(text) <= LEVELS_HERE_MAX,
            Self::Json | Self::JsonObject => true,
            Self::Regex(_) | Self::Lark(_) | Self::Gbnf(_) | Self::Choice(_) | Self::Calls(_) => false,
        }
    }

    /// In the notation of the engine below, with what is to be remarked about it.
    fn lower(&self) -> Result<Lowered, Error> {
        let of_checked = |schema: Value, notes: Vec<String>| {
            Ok(Lowered { grammar: of_json(schema.clone())?, notes, schema: Some(schema) })
        };
        let lark = match self {
            Self::JsonSchema(text) => {
                let checked = schema::check(text)?;
                return of_checked(checked.schema, checked.notes);
            }
            Self::Json => return of_checked(json!({}), Vec::new()),
            Self::JsonObject => return of_checked(json!({ "type": "object" }), Vec::new()),
            Self::Regex(text) => format!("start: {}", self.whole(text)?),
            Self::Lark(text) => checked_lark(text)?,
            Self::Gbnf(text) => gbnf::to_lark(text)?,
            Self::Choice(choices) => format!("start: {}", self.one_of(choices)?),
            Self::Calls(calls) => calls.lark.clone(),
        };
        Ok(Lowered { grammar: TopLevelGrammar::from_lark(lark), notes: Vec::new(), schema: None })
    }

    /// The body of a rule for an answer that may be a call instead; nothing of a grammar that has rules of its own.
    ///
    /// # Errors
    /// When it cannot be enforced.
    pub(crate) fn beside(&self) -> Result<Option<String>, Error> {
        let json = |schema: Value| Ok(Some(format!("%json {}", spaced(schema))));
        match self {
            Self::JsonSchema(text) => json(schema::check(text)?.schema),
            Self::Json => json(json!({})),
            Self::JsonObject => json(json!({ "type": "object" })),
            Self::Regex(text) => self.whole(text).map(Some),
            Self::Choice(choices) => self.one_of(choices).map(Some),
            Self::Lark(_) | Self::Gbnf(_) | Self::Calls(_) => Ok(None),
        }
    }

    /// An expression as a terminal.
    fn whole(&self, text: &str) -> Result<String, Error> {
        let pattern = pattern::translate(text).map_err(|reason| Error::Syntax { kind: self.kind(), reason })?;
        Ok(format!("/(?:{pattern})/"))
    }

    /// Whether a token can be taken back: not behind what Lark's attributes count or cut off.
    fn can_go_back(&self) -> bool {
        !matches!(self, Self::Lark(text) if text.contains("stop") || text.contains("max_tokens"))
    }

    /// What helps to find an end of it.
    fn hints(&self, schema: Option<&Value>) -> Hints {
        match self {
            Self::Calls(calls) => Hints {
                is_json: true,
                names: calls.names.clone(),
                texts: calls.ends.clone(),
                marks: calls.marks.clone(),
            },
            Self::JsonSchema(_) | Self::Json | Self::JsonObject => {
                let names = schema.map(required_names).unwrap_or_default();
                Hints { is_json: true, names, ..Hints::default() }
            }
            Self::Regex(_) | Self::Lark(_) | Self::Gbnf(_) | Self::Choice(_) => Hints::default(),
        }
    }

    /// A list of texts as a terminal.
    fn one_of(&self, choices: &[String]) -> Result<String, Error> {
        let kind = self.kind();
        if choices.len() > CHOICES_MAX {
            return Err(Error::Limit { kind, what: "texts", limit: CHOICES_MAX });
        }
        if choices.iter().map(String::len).sum::<usize>() > CHOICES_BYTES_MAX {
            return Err(Error::Limit { kind, what: "bytes", limit: CHOICES_BYTES_MAX });
        }
        if choices.iter().all(String::is_empty) {
            return Err(Error::Impossible { kind, reason: "it names no text".to_owned() });
        }
        let literals: Vec<String> = choices.iter().map(|choice| pattern::literal(choice)).collect();
        Ok(format!("/(?:{})/", literals.join("|")))
    }
}

/// What it gives, or an error where it panics.
fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Error::TooComplex("compiling it failed".to_owned())))
}

/// On a thread with a stack for all that the limits let through.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("kauri-grammar".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || guarded(work));
        let thread = thread.map_err(|error| Error::TooComplex(error.to_string()))?;
        thread.join().unwrap_or_else(|_| Err(Error::TooComplex("compiling it failed".to_owned())))
    })
}

/// The most levels of brackets in a JSON text.
fn levels(text: &str) -> usize {
    let (mut here, mut most, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                here += 1;
                most = most.max(here);
            }
            b'}' | b']' if !in_string => here = here.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// A grammar for the engine below.
struct Lowered {
    grammar: TopLevelGrammar,
    /// What is to be remarked about it.
    notes: Vec<String>,
    /// The schema that it is of, checked.
    schema: Option<Value>,
}

impl Lowered {
    /// The most levels that it may come to, references followed: each leads through a definition once.
    fn levels(&self) -> usize {
        self.schema.as_ref().map_or(usize::MAX, |schema| {
            let definitions = schema.get("$defs").and_then(Value::as_object).map_or(0, serde_json::Map::len);
            levels(&schema.to_string()).saturating_mul(definitions + 1)
        })
    }
}

/// Lark as it is; schemas within it would go around the check that all others go through.
fn checked_lark(text: &str) -> Result<String, Error> {
    let kind = "Lark grammar";
    if text.len() > LARK_BYTES_MAX {
        return Err(Error::Limit { kind, what: "bytes", limit: LARK_BYTES_MAX });
    }
    for directive in ["%json", "%llguidance"] {
        if text.contains(directive) {
            let reason = format!("{directive} is not supported within it; give a JSON schema as such");
            return Err(Error::Syntax { kind, reason });
        }
    }
    Ok(text.to_owned())
}

fn of_json(schema: Value) -> Result<TopLevelGrammar, Error> {
    if schema == Value::Bool(false) {
        return Err(Error::Impossible { kind: schema::KIND, reason: "the schema is false".to_owned() });
    }
    Ok(TopLevelGrammar::from_json_schema(spaced(schema)))
}

/// A schema that says what may stand between the parts of JSON, and how characters are written.
///
/// Where it names some properties and allows others, no character is written by its number: `"\u0061"` would be another way to write the
/// name `a`, which the engine does not know for one, so that the value behind it would obey what holds for the others.
pub(crate) fn spaced(schema: Value) -> Value {
    let mut guidance = json!({ "whitespace_pattern": SPACE });
    if tells_names_apart(&schema) {
        guidance["json_allowed_escapes"] = json!("nrbtf\\\"");
    }
    let mut object = if let Value::Object(object) = schema { object } else { serde_json::Map::new() };
    object.insert("x-guidance".to_owned(), guidance);
    Value::Object(object)
}

/// Whether anything in a schema tells one property from others that may be there.
fn tells_names_apart(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => {
            let names = ["properties", "patternProperties", "required"];
            let is_open = object.get("additionalProperties") != Some(&Value::Bool(false));
            is_open && names.into_iter().any(|keyword| object.contains_key(keyword))
                || object.values().any(tells_names_apart)
        }
        Value::Array(list) => list.iter().any(tells_names_apart),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The schema of a tool's arguments in the keywords that are enforced.
pub(crate) fn checked_arguments(tool: &str, schema: &Value) -> Result<Value, Error> {
    Ok(schema::check(&schema.to_string()).map_err(|error| error.in_tool(tool))?.schema)
}

/// Compiles grammars for one vocabulary. Usable from any thread.
pub struct Compiler {
    factory: ParserFactory,
    text_tokens: Arc<Mask>,
    /// Looked for where an answer first comes near the end of its room.
    closers: Arc<OnceLock<Closers>>,
    kept: Mutex<IndexMap<Grammar, Compiled>>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Compiler").finish_non_exhaustive()
    }
}

impl Compiler {
    /// Prepares a vocabulary, for masks of `rows` bits: a third of a second for 150,000 tokens, once.
    ///
    /// # Panics
    /// If the slices that the engine below comes with are not for it.
    pub fn new(tokenizer: &Tokenizer, rows: usize) -> Self {
        let vocabulary = Vocabulary::new(tokenizer);
        let text_tokens = Arc::new(vocabulary.text_tokens(rows));
        let environment = vocabulary.into_environment();
        let abilities = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&environment, abilities, &slices).expect("its own slices are valid");
        factory.quiet();
        *factory.limits_mut() = limits();
        Self { factory, text_tokens, closers: Arc::default(), kept: Mutex::new(IndexMap::new()) }
    }

    /// Compiles a grammar, or finds it among those that were compiled before.
    ///
    /// # Errors
    /// When it cannot be read, asks for what cannot be enforced, is too large, or leaves nothing to write.
    pub fn compile(&self, grammar: &Grammar) -> Result<Compiled, Error> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            if let Some(found) = kept.shift_remove(grammar) {
                // The one asked for last is let go of last.
                kept.insert(grammar.clone(), found.clone());
                return Ok(found);
            }
        }
        let compiled = self.compile_anew(grammar).map_err(|error| match grammar {
            Grammar::Calls(calls) => self.in_tool(calls, &error).unwrap_or(error),
            Grammar::JsonSchema(_)
            | Grammar::Json
            | Grammar::JsonObject
            | Grammar::Regex(_)
            | Grammar::Lark(_)
            | Grammar::Gbnf(_)
            | Grammar::Choice(_) => error,
        })?;
        let mut kept = kept();
        if kept.len() >= KEPT_MAX {
            kept.shift_remove_index(0);
        }
        kept.insert(grammar.clone(), compiled.clone());
        Ok(compiled)
    }

    /// The first of the tools whose schema is refused by itself, where a grammar of calls is refused for what one of them says.
    fn in_tool(&self, calls: &Calls, error: &Error) -> Option<Error> {
        let part = match error {
            // Which of the two it is, is told by the schema.
            Error::Unsupported { keyword, .. } => keyword.trim_start_matches("min").trim_start_matches("max"),
            Error::Impossible { .. } => "",
            Error::Invalid { .. }
            | Error::Syntax { .. }
            | Error::Limit { .. }
            | Error::TooComplex(_)
            | Error::NoToken
            | Error::InTool { .. }
            | Error::Disobeyed(_) => return None,
        };
        let mut suspects = calls.schemas.iter().filter(|(_, schema)| schema.contains(part)).take(SUSPECTS_MAX);
        suspects.find_map(|(tool, schema)| {
            let error = self.compile_anew(&Grammar::JsonSchema(schema.clone())).err()?;
            Some(error.in_tool(tool))
        })
    }

    fn compile_anew(&self, grammar: &Grammar) -> Result<Compiled, Error> {
        let work = |lowered: Option<Lowered>| {
            let Lowered { grammar: lowered, notes, schema } = lowered.map_or_else(|| grammar.lower(), Ok)?;
            let init = GrammarInit::Serialized(lowered);
            let parser = self.factory.create_parser_from_init_default(init);
            let mut matcher = Matcher::new(Ok(parser.map_err(|error| refusal(grammar, &error.to_string()))?));
            // What no lexeme can begin is found here, and not in the middle of a step.
            match matcher.compute_mask() {
                Ok(first) => Ok((matcher, first, notes, schema)),
                Err(error) => Err(refusal(grammar, &error.to_string())),
            }
        };
        let lowered = grammar.is_shallow().then(|| guarded(|| grammar.lower())).transpose()?;
        let (matcher, first, notes, schema) = match lowered {
            Some(lowered) if lowered.levels() <= LEVELS_HERE_MAX => guarded(|| work(Some(lowered)))?,
            lowered => on_deep_stack(|| work(lowered))?,
        };
        let text_tokens = match grammar {
            Grammar::Calls(calls) => {
                let mut tokens = Mask::clone(&self.text_tokens);
                calls.marks.iter().for_each(|&mark| tokens.allow(mark));
                Arc::new(tokens)
            }
            Grammar::JsonSchema(_)
            | Grammar::Json
            | Grammar::JsonObject
            | Grammar::Regex(_)
            | Grammar::Lark(_)
            | Grammar::Gbnf(_)
            | Grammar::Choice(_) => Arc::clone(&self.text_tokens),
        };
        let mut mask = Mask::clone(&text_tokens);
        mask.fill(first.as_slice(), &text_tokens);
        let prototype = Prototype {
            matcher: Mutex::new(matcher),
            hints: grammar.hints(schema.as_ref()),
            closers: Arc::clone(&self.closers),
            can_go_back: grammar.can_go_back(),
            notes,
            schema,
            shared: Mutex::new(HashMap::from([(Vec::new(), Arc::new(mask))])),
        };
        let is_calls = matches!(grammar, Grammar::Calls(_));
        Ok(Compiled { prototype: Arc::new(prototype), text_tokens, is_calls })
    }
}

/// What the engine below may spend: 20 ms to compile, 15 ms for a mask.
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 100_000,
        max_grammar_size: 200_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// A compiled grammar. Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Compiled {
    prototype: Arc<Prototype>,
    text_tokens: Arc<Mask>,
    is_calls: bool,
}

struct Prototype {
    matcher: Mutex<Matcher>,
    notes: Vec<String>,
    schema: Option<Value>,
    hints: Hints,
    closers: Arc<OnceLock<Closers>>,
    can_go_back: bool,
    /// Masks by the tokens before them: answers that began alike need each but once.
    shared: Mutex<HashMap<Vec<u32>, Arc<Mask>>>,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Compiled").field("notes", &self.prototype.notes).finish_non_exhaustive()
    }
}

impl Compiled {
    /// What of the grammar says nothing, though its author may think otherwise; for people.
    pub fn notes(&self) -> &[String] {
        &self.prototype.notes
    }

    /// A JSON value as it would be written: a schema's properties in its order. Of other grammars, or what is no JSON, the text as
    /// it is.
    pub fn as_written(&self, text: &str) -> String {
        let parsed = self.prototype.schema.as_ref().zip(serde_json::from_str::<Value>(text).ok());
        parsed.map_or_else(|| text.to_owned(), |(schema, value)| schema::in_order(&value, schema).to_string())
    }

    /// Whether it is of an answer with calls.
    pub fn is_calls(&self) -> bool {
        self.is_calls
    }

    /// Begins an answer that one of `end_tokens` may end where the grammar allows an end.
    pub fn start(&self, end_tokens: &[u32]) -> Constraint {
        let matcher = self.prototype.matcher.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        Constraint {
            matcher,
            prototype: Arc::clone(&self.prototype),
            text_tokens: Arc::clone(&self.text_tokens),
            end_tokens: end_tokens.to_vec(),
            opening: None,
            written: Vec::new(),
            mask: Mask::clone(&self.text_tokens),
            room: if self.prototype.can_go_back { Room::default() } else { Room::unknown() },
        }
    }
}

/// An answer under a grammar, and how far it has come.
pub struct Constraint {
    matcher: Matcher,
    prototype: Arc<Prototype>,
    text_tokens: Arc<Mask>,
    end_tokens: Vec<u32>,
    /// What may come before all that the grammar is about.
    opening: Option<u32>,
    /// The first tokens, one more than masks are shared for.
    written: Vec<u32>,
    mask: Mask,
    room: Room,
}

impl fmt::Debug for Constraint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Constraint").finish_non_exhaustive()
    }
}

impl Constraint {
    /// Lets an answer begin with `token`, which opens what the grammar says nothing about: the model's reasoning.
    pub fn let_open(&mut self, token: u32) {
        self.opening = Some(token);
    }

    /// Whether `token`, which comes next, opens what the grammar says nothing about. What follows it must not be committed until that
    /// is over.
    pub fn opens(&mut self, token: u32) -> bool {
        self.opening.take() == Some(token)
    }

    /// Works out which tokens may come next; [`Self::mask`] has them. Where the answer is complete, only tokens that end it.
    ///
    /// # Errors
    /// When following the grammar takes too much work.
    pub fn advance(&mut self) -> Result<&Mask, Error> {
        if self.is_done() {
            self.mask.fill(&[], &self.text_tokens);
            self.end_tokens.iter().for_each(|&token| self.mask.allow(token));
            return Ok(&self.mask);
        }
        self.look_up_or_compute()?;
        self.opening.into_iter().for_each(|token| self.mask.allow(token));
        if self.may_end() {
            self.end_tokens.iter().for_each(|&token| self.mask.allow(token));
        } else if self.mask.is_empty() {
            return Err(Error::NoToken);
        }
        Ok(&self.mask)
    }

    fn look_up_or_compute(&mut self) -> Result<(), Error> {
        let shared = || self.prototype.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = self.written.len() <= SHARED_TOKENS_MAX;
        if is_early && let Some(mask) = shared().get(&self.written) {
            self.mask.clone_from(mask);
            return Ok(());
        }
        let allowed = self.matcher.compute_mask().map_err(|error| too_complex(&error.to_string()))?;
        self.mask.fill(allowed.as_slice(), &self.text_tokens);
        if is_early {
            let mut shared = shared();
            if shared.len() < SHARED_MAX {
                shared.insert(self.written.clone(), Arc::new(self.mask.clone()));
            }
        }
        Ok(())
    }

    fn note(&mut self, tokens: &[u32]) {
        let room = (SHARED_TOKENS_MAX + 1).saturating_sub(self.written.len());
        self.written.extend_from_slice(&tokens[..tokens.len().min(room)]);
    }

    /// What [`Self::advance`] found.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Takes the token that was written.
    ///
    /// # Errors
    /// When the grammar does not allow it, or following takes too much work.
    pub fn commit(&mut self, token: u32) -> Result<(), Error> {
        if self.is_done() || !self.text_tokens.allows(token) {
            return Err(Error::Disobeyed(token));
        }
        match self.matcher.try_consume_tokens(&[token]) {
            Ok(1) => {
                self.note(&[token]);
                Ok(())
            }
            Ok(_) => Err(Error::Disobeyed(token)),
            Err(error) => Err(too_complex(&error.to_string())),
        }
    }

    /// How many of the first bytes of `text` may come next, whatever tokens they are cut into.
    pub fn accepted_bytes(&mut self, text: &[u8]) -> usize {
        let Ok(environment) = self.matcher.tok_env() else { return 0 };
        let fits = |end: &usize| {
            let tokens = environment.tok_trie().greedy_tokenize(&text[..*end]);
            self.matcher.validate_tokens(&tokens).is_ok_and(|valid| valid == tokens.len())
        };
        (1..=text.len()).rev().find(fits).unwrap_or(0)
    }

    /// Takes a text as written, whatever tokens it is cut into; whether the grammar allows it.
    pub fn commit_bytes(&mut self, text: &[u8]) -> bool {
        let Ok(environment) = self.matcher.tok_env() else { return false };
        let tokens = environment.tok_trie().greedy_tokenize(text);
        environment.tok_trie().decode_raw(&tokens) == text && tokens.into_iter().all(|token| self.commit(token).is_ok())
    }

    /// The tokens that must come next, taken as written: no model need be asked for them. None in most places.
    pub fn forced(&mut self) -> Vec<u32> {
        if self.is_done() {
            return Vec::new();
        }
        let tokens = self.matcher.compute_ff_tokens();
        let known = tokens.iter().take_while(|&&token| self.text_tokens.allows(token)).count();
        let tokens = &tokens[..known];
        if tokens.is_empty() || self.matcher.consume_tokens(tokens).is_err() {
            return Vec::new();
        }
        let tokens = tokens.to_vec();
        self.note(&tokens);
        tokens
    }

    fn closers(&self) -> &Closers {
        self.prototype.closers.get_or_init(|| {
            let environment = self.matcher.tok_env().expect("a constraint is made of a parser without an error");
            Closers::new(environment.tok_trie(), &self.text_tokens)
        })
    }

    /// Whether the answer may end here.
    pub fn may_end(&mut self) -> bool {
        self.is_done() || self.matcher.is_accepting().unwrap_or(false)
    }

    /// Whether nothing can follow: the answer is complete.
    pub fn is_done(&self) -> bool {
        match self.matcher.stop_reason() {
            StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence => true,
            StopReason::NotStopped
            | StopReason::MaxTokensTotal
            | StopReason::MaxTokensParser
            | StopReason::InternalError
            | StopReason::LexerTooComplex
            | StopReason::ParserTooComplex
            | StopReason::Cancelled => false,
        }
    }
}

fn too_complex(message: &str) -> Error {
    Error::TooComplex(message.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests;
