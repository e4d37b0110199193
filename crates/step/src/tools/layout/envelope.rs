//! A call as one JSON object that holds the tool's name and its arguments under keys, in any order.

use super::Keys;
use super::literal::{Dialect, Scanner, Step};

/// The longest key or name, in bytes of JSON.
const NAME_BYTES_MAX: usize = 512;

/// Reads one such object.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    keys: &'static Keys,
    /// Objects that are open: the call's own may lie in one called `function`.
    depth: u8,
    state: State,
    /// The key or the name that is being read, as JSON; arguments that are a string.
    word: String,
    /// The name, once it is complete.
    pub(super) name: Option<String>,
    /// Arguments that nobody has taken yet.
    pub(super) arguments: String,
    /// Whether the arguments have begun.
    pub(super) begun: bool,
    complete: bool,
}

#[derive(Clone, Debug)]
enum State {
    Open,
    Key,
    InKey(Scanner),
    Colon,
    Value,
    Name(Scanner),
    Arguments(Scanner),
    /// Arguments as a string of JSON.
    Encoded(Scanner),
    Other(Scanner),
    After,
}

impl Envelope {
    pub(super) fn new(keys: &'static Keys) -> Self {
        Self {
            keys,
            depth: 0,
            state: State::Open,
            word: String::new(),
            name: None,
            arguments: String::new(),
            begun: false,
            complete: false,
        }
    }

    /// Takes the next character of the object.
    pub(super) fn step(&mut self, c: char) -> Step {
        match &mut self.state {
            State::Open | State::Key | State::Colon | State::Value | State::After if c.is_whitespace() => Step::More,
            State::Open if c == '{' => {
                self.depth += 1;
                self.go(State::Key)
            }
            State::Key | State::After if c == '}' => {
                self.depth -= 1;
                if self.depth == 0 { Step::Done } else { self.go(State::After) }
            }
            State::Key => {
                self.word.clear();
                let mut scanner = Scanner::new(Dialect::Json);
                if c != '"' || scanner.step(c, &mut self.word) != Step::More {
                    return Step::Broken;
                }
                self.go(State::InKey(scanner))
            }
            State::InKey(scanner) => match scanner.step(c, &mut self.word) {
                Step::More if self.word.len() <= NAME_BYTES_MAX => Step::More,
                Step::Done => self.go(State::Colon),
                Step::More | Step::Before | Step::Broken => Step::Broken,
            },
            State::Colon if c == ':' => self.go(State::Value),
            State::After if c == ',' => self.go(State::Key),
            State::Value => self.begin_value(c),
            State::Name(scanner) => match scanner.step(c, &mut self.word) {
                Step::More if self.word.len() <= NAME_BYTES_MAX => Step::More,
                Step::Done => {
                    self.name = serde_json::from_str(&self.word).ok();
                    self.go(State::After)
                }
                Step::More | Step::Before | Step::Broken => Step::Broken,
            },
            State::Arguments(_) | State::Encoded(_) | State::Other(_) => self.value(c),
            State::Open | State::Colon | State::After => Step::Broken,
        }
    }

    /// Completes arguments that the model did not. Whether they were complete.
    pub(super) fn close(&mut self) -> bool {
        if let State::Arguments(scanner) = &mut self.state {
            scanner.close(&mut self.arguments);
        }
        if !self.begun {
            self.arguments.push_str("{}");
            self.begun = true;
            self.complete = true;
        }
        self.complete
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn begin_value(&mut self, c: char) -> Step {
        let key: String = serde_json::from_str(&self.word).unwrap_or_default();
        let is = |names: &[&str]| names.contains(&key.as_str());
        self.word.clear();
        if c == '{' && key == "function" && self.depth == 1 && self.name.is_none() && !self.begun {
            self.depth += 1;
            return self.go(State::Key);
        }
        if c == '"' && is(self.keys.name) && self.name.is_none() {
            self.state = State::Name(Scanner::new(Dialect::Json));
            return self.step(c);
        }
        let is_arguments = is(self.keys.arguments) && !self.begun;
        self.state = match (is_arguments, c) {
            (true, '{') => State::Arguments(Scanner::object(Dialect::Json)),
            (true, '"') => State::Encoded(Scanner::new(Dialect::Json)),
            // None at all, said with `null`.
            (true, 'n') | (false, _) => State::Other(Scanner::new(Dialect::Json)),
            (true, _) => return Step::Broken,
        };
        self.value(c)
    }

    fn value(&mut self, c: char) -> Step {
        let step = match &mut self.state {
            State::Arguments(scanner) => {
                self.begun = true;
                let step = scanner.step(c, &mut self.arguments);
                self.complete |= step == Step::Done;
                step
            }
            State::Encoded(scanner) => scanner.step(c, &mut self.word),
            State::Other(scanner) => {
                self.word.clear();
                scanner.step(c, &mut self.word)
            }
            _ => Step::Broken,
        };
        match step {
            Step::More | Step::Broken => step,
            Step::Done => self.end_value(),
            // A word ends with what stands behind it.
            Step::Before => match self.end_value() {
                Step::More => self.step(c),
                step => step,
            },
        }
    }

    fn end_value(&mut self) -> Step {
        if let State::Encoded(_) = self.state {
            let text: String = serde_json::from_str(&self.word).unwrap_or_default();
            let mut scanner = Scanner::object(Dialect::Json);
            self.begun = true;
            let mut steps = text.trim().chars().map(|c| scanner.step(c, &mut self.arguments));
            self.complete = steps.find(|&step| step != Step::More) == Some(Step::Done);
            if !self.complete {
                if self.arguments.is_empty() {
                    self.arguments.push_str("{}");
                }
                scanner.close(&mut self.arguments);
                return Step::Broken;
            }
        }
        self.go(State::After)
    }
}
