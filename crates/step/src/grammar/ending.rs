//! A short way from where an answer stands to where it may end: what lets an answer end whole within its budget.
//!
//! The way is found by trying, on a copy of the parser: whatever closes something first (quotes, brackets, the marks of a call), then
//! what begins a short value, and the longest tokens where only length is missing. A token behind which the mask is one that was
//! there before has led nowhere new, and the next kind is tried first. So the way need not be the shortest; that it ends is certain,
//! since the parser went it.
//!
//! Does not know how much room an answer has, nor what becomes of a way once it is found.

use std::collections::{BTreeSet, HashSet};

use llguidance::Matcher;
use llguidance::api::StopReason;
use serde_json::Value;
use toktrie::{TokEnv, TokTrie};

use crate::mask::Mask;

/// Masks that may be computed for one way, and the work that they may come to: no more than a few hard tokens cost.
const MASKS_MAX: usize = 192;
const ITEMS_MAX: usize = 100_000;
/// The longest token that is written for its length, in bytes.
const FILLER_BYTES_MAX: usize = 16;
/// Names of properties that are remembered as needed.
const NAMES_MAX: usize = 128;
/// How far back a text that ends something may have begun.
const RECENT_TOKENS: usize = 16;
/// How many of the tokens that nothing else speaks for are tried at a place.
const OTHERS_MAX: usize = 5;
/// What ends or begins a string, and what begins other short values, the shortest first.
const STARTERS: [&str; 11] = ["\"\"", "\"", "0", "1", "null", "true", "false", "[]", "{}", "[", "{"];

/// The tokens of a vocabulary that end things.
pub(super) struct Closers {
    /// Of quotes and perhaps brackets, the longest first.
    quotes: Vec<u32>,
    /// Of brackets alone, the longest first.
    brackets: Vec<u32>,
    /// The beginnings of short values.
    starters: Vec<u32>,
    /// Of one sign that is no letter and no digit.
    signs: Vec<u32>,
    /// Those for their length, the longest first.
    fillers: Vec<u32>,
}

/// What is known of a grammar that its parser does not say.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    /// Whether all of it, or what is not in the texts, is JSON.
    pub is_json: bool,
    /// Names of required properties.
    pub names: Vec<String>,
    /// Texts that end something in the notation of a call, the last of a call first.
    pub texts: Vec<String>,
    /// Special tokens that do.
    pub marks: Vec<u32>,
}

/// The names that a schema requires anywhere.
pub(crate) fn required_names(schema: &Value) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
                names.extend(required.filter_map(Value::as_str).filter(|name| !name.is_empty()));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    names.into_iter().map(str::to_owned).take(NAMES_MAX).collect()
}

impl Closers {
    /// Looks through a vocabulary, once.
    pub(super) fn new(tree: &TokTrie, text_tokens: &Mask) -> Self {
        let (mut quotes, mut brackets, mut fillers) = (Vec::new(), Vec::new(), Vec::new());
        for token in (0..tree.vocab_size() as u32).filter(|&token| text_tokens.allows(token)) {
            let bytes = tree.token(token);
            let is_of = |set: &[u8]| bytes.iter().all(|byte| set.contains(byte));
            if is_of(b"]})") {
                brackets.push(token);
            } else if is_of(b"\"]})") {
                quotes.push(token);
            } else if bytes.len() <= FILLER_BYTES_MAX && bytes.is_ascii() {
                fillers.push(token);
            }
        }
        for tokens in [&mut quotes, &mut brackets, &mut fillers] {
            tokens.sort_by_key(|&token| (usize::MAX - tree.token_len(token), token));
        }
        let starters = STARTERS.iter().filter_map(|text| id_of(tree, text.as_bytes())).collect();
        let signs = (b'!'..=b'~').filter(|byte| !byte.is_ascii_alphanumeric());
        let signs = signs.filter_map(|byte| id_of(tree, &[byte])).collect();
        Self { quotes, brackets, starters, signs, fillers }
    }
}

/// Finds a way of at most `tokens_max` tokens from where `matcher` stands to an end, those that are certain included. Uses the
/// matcher up.
pub(super) fn find(
    matcher: Matcher,
    closers: &Closers,
    hints: &Hints,
    text_tokens: &Mask,
    tokens_max: usize,
) -> Option<Vec<u32>> {
    let environment = matcher.tok_env().ok()?;
    let search = Search {
        matcher,
        environment,
        closers,
        hints,
        text_tokens,
        tokens_max,
        way: Vec::new(),
        seen: HashSet::new(),
        barren: HashSet::new(),
        masks: 0,
        items: 0,
        text_count: text_tokens.count(),
    };
    search.run()
}

/// A token with this text.
fn id_of(tree: &TokTrie, bytes: &[u8]) -> Option<u32> {
    tree.token_id(bytes).filter(|&token| tree.token(token) == bytes)
}

struct Search<'a> {
    matcher: Matcher,
    environment: TokEnv,
    closers: &'a Closers,
    hints: &'a Hints,
    text_tokens: &'a Mask,
    tokens_max: usize,
    way: Vec<u32>,
    /// The masks that were there so far.
    seen: HashSet<Mask>,
    /// Those from which no candidate led away.
    barren: HashSet<Mask>,
    masks: usize,
    items: usize,
    text_count: usize,
}

impl Search<'_> {
    fn run(mut self) -> Option<Vec<u32>> {
        self.follow();
        if self.ends() && self.way.len() <= self.tokens_max {
            return Some(self.way);
        }
        let mut mask = self.mask()?;
        self.seen.insert(mask.clone());
        while self.way.len() < self.tokens_max {
            match self.step(&mask)? {
                Step::Ends => return (self.way.len() <= self.tokens_max).then_some(self.way),
                Step::Leads(behind) => mask = behind,
            }
        }
        None
    }

    /// Goes on by the first candidate that leads somewhere new; where none does, by the first that leads away, and else by the longest
    /// token.
    fn step(&mut self, mask: &Mask) -> Option<Step> {
        let (candidates, idle) =
            if self.barren.contains(mask) { (Vec::new(), Vec::new()) } else { self.candidates(mask) };
        let mut away = None;
        for (index, candidate) in candidates.iter().chain(&idle).enumerate() {
            if index >= candidates.len() && away.is_some() {
                break;
            }
            let before = self.way.len();
            if !self.go(candidate) {
                continue;
            }
            if self.way.len() <= self.tokens_max {
                if self.ends() {
                    return Some(Step::Ends);
                }
                let behind = self.mask()?;
                if self.seen.insert(behind.clone()) {
                    return Some(Step::Leads(behind));
                }
                if behind != *mask {
                    away.get_or_insert(candidate.clone());
                }
            }
            self.back_to(before)?;
        }
        if away.is_none() {
            self.barren.insert(mask.clone());
        }
        let longest = || self.longest(mask, 1).first().map(|&token| vec![token]);
        let next = away.or_else(longest)?;
        if !self.go(&next) {
            return None;
        }
        if self.ends() { Some(Step::Ends) } else { self.mask().map(Step::Leads) }
    }

    /// What to try where `mask` allows what may come, the best first; and apart from that what brings more of the same, or nothing.
    fn candidates(&self, mask: &Mask) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
        let first = |tokens: &[u32]| tokens.iter().copied().find(|&token| mask.allows(token));
        let of = |token: u32| vec![token];
        let mut all: Vec<Vec<u32>> = Vec::new();
        let marks = self.hints.marks.iter().copied().filter(|&mark| mask.allows(mark));
        let written = self.environment.tok_trie().decode_raw(&self.way[self.way.len().saturating_sub(RECENT_TOKENS)..]);
        let texts = self.hints.texts.iter().map(|text| {
            let begun = (1..text.len()).rev().find(|&length| written.ends_with(&text.as_bytes()[..length]));
            self.environment.tokenize_bytes(&text.as_bytes()[begun.unwrap_or(0)..])
        });
        if self.is_text(mask) {
            all.extend(first(&self.closers.quotes).map(of));
            all.extend(marks.map(of));
            all.extend(texts);
            if !self.hints.is_json {
                all.extend(self.closers.signs.iter().copied().filter(|&token| mask.allows(token)).map(of));
            }
            return (all, Vec::new());
        }
        all.extend(first(&self.closers.brackets).map(of));
        all.extend(marks.map(of));
        all.extend(texts);
        all.extend(self.closers.starters.iter().copied().filter(|&token| mask.allows(token)).take(2).map(of));
        all.extend(self.names(mask).map(of));
        let tree = self.environment.tok_trie();
        let is_idle = |token: &u32| tree.token(*token).iter().any(|byte| b", \t\r\n".contains(byte));
        let (mut idle, others): (Vec<u32>, Vec<u32>) = self.longest(mask, 256).into_iter().partition(is_idle);
        idle.sort_by_key(|&token| tree.token(token).starts_with(b","));
        let is_word = |token: &u32| tree.token(*token)[0].is_ascii_alphanumeric();
        let (words, signs): (Vec<u32>, Vec<u32>) = others.into_iter().partition(is_word);
        all.extend(words.into_iter().take(OTHERS_MAX).map(of));
        all.extend(signs.into_iter().take(OTHERS_MAX).map(of));
        all.extend(first(&self.closers.quotes).map(of));
        (all, idle.into_iter().map(of).collect())
    }

    /// Whether a large part of the vocabulary may come: brackets are text then, too.
    fn is_text(&self, mask: &Mask) -> bool {
        mask.count() * 4 > self.text_count
    }

    /// Tokens that a needed name begins with, as much of it as may come in one.
    fn names(&self, mask: &Mask) -> impl Iterator<Item = u32> {
        let tree = self.environment.tok_trie();
        let beginning = |name: &String| {
            let bytes = name.as_bytes();
            let ends = (1..=bytes.len().min(FILLER_BYTES_MAX)).rev();
            ends.filter_map(|end| id_of(tree, &bytes[..end])).find(|&token| mask.allows(token))
        };
        self.hints.names.iter().filter_map(beginning).take(2).collect::<Vec<_>>().into_iter()
    }

    /// The longest tokens that may come, with different first bytes.
    fn longest(&self, mask: &Mask, count: usize) -> Vec<u32> {
        let tree = self.environment.tok_trie();
        if self.is_text(mask) {
            return self.closers.fillers.iter().copied().filter(|&token| mask.allows(token)).take(count).collect();
        }
        let mut longest: [Option<u32>; 256] = [None; 256];
        for token in mask.tokens() {
            let bytes = tree.token(token);
            let Some(&byte) = bytes.first().filter(|_| bytes.len() <= FILLER_BYTES_MAX) else { continue };
            let best = &mut longest[usize::from(byte)];
            if best.is_none_or(|best| tree.token_len(best) < bytes.len()) {
                *best = Some(token);
            }
        }
        let mut tokens: Vec<u32> = longest.into_iter().flatten().collect();
        tokens.sort_by_key(|&token| usize::MAX - tree.token_len(token));
        tokens.truncate(count);
        tokens
    }

    /// Takes tokens and what must follow them; whether they may come.
    fn go(&mut self, tokens: &[u32]) -> bool {
        match self.matcher.try_consume_tokens(tokens) {
            Ok(taken) if taken == tokens.len() => {
                self.way.extend_from_slice(tokens);
                self.follow();
                true
            }
            Ok(taken) => {
                let _ = self.matcher.rollback(taken);
                false
            }
            Err(_) => false,
        }
    }

    /// Takes what is certain, as answers do.
    fn follow(&mut self) {
        if self.is_done() {
            return;
        }
        let tokens = self.matcher.compute_ff_tokens();
        let known = tokens.iter().take_while(|&&token| self.text_tokens.allows(token)).count();
        if known > 0 && self.matcher.consume_tokens(&tokens[..known]).is_ok() {
            self.way.extend_from_slice(&tokens[..known]);
        }
    }

    fn back_to(&mut self, length: usize) -> Option<()> {
        self.matcher.rollback(self.way.len() - length).ok()?;
        self.way.truncate(length);
        Some(())
    }

    fn ends(&mut self) -> bool {
        self.is_done() || self.matcher.is_accepting().unwrap_or(false)
    }

    fn is_done(&self) -> bool {
        matches!(self.matcher.stop_reason(), StopReason::NoExtension | StopReason::EndOfSentence)
    }

    /// What may come; nothing where the work that may be done is done.
    fn mask(&mut self) -> Option<Mask> {
        self.masks += 1;
        if self.masks > MASKS_MAX || self.items > ITEMS_MAX {
            return None;
        }
        let allowed = self.matcher.compute_mask().ok()?;
        self.items += self.matcher.last_step_stats().map_or(0, |stats| stats.all_items);
        let mut mask = Mask::clone(self.text_tokens);
        mask.fill(allowed.as_slice(), self.text_tokens);
        Some(mask)
    }
}

/// Where a candidate led.
enum Step {
    Ends,
    Leads(Mask),
}
