//! Reads calls out of streamed text, one character at a time, so that where the text is cut into pieces makes no difference.
//!
//! From a mark that may open a call to the tool's name everything is held; if it is no call of a listed tool, it was text. What was
//! read once is not read again, whatever comes of it, so the work is linear in the text.

use std::sync::Arc;

use super::envelope::Envelope;
use super::literal::{Scanner, Step};
use super::parameters::Parameters;
use super::program::{Branch, Op, Program};
use crate::automaton::Automaton;
use crate::tools::{Delta, Tool};

/// The longest that is skipped within a call, in bytes.
const SKIP_BYTES_MAX: usize = 512;
/// The most that may be held before a call's name is known, in bytes: arguments may come first.
const HELD_BYTES_MAX: usize = 4 << 20;

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Parser {
    program: Arc<Program>,
    tools: Arc<[Tool]>,
    /// Texts that may open a section, in the order of the program.
    triggers: Vec<Automaton>,
    /// What ends a call that went wrong.
    end: Option<Automaton>,
    mode: Mode,
    /// What was read and may be text or a call.
    held: String,
    /// White space at the end of the text: none of it where a call follows.
    space: String,
    /// The tool that the call names.
    named: Option<usize>,
    /// Arguments of a call that has not begun.
    early: String,
    number: Option<String>,
    /// Whether the call that is being read was told.
    begun: bool,
    calls: u32,
    /// Whether only one call is wanted, and it is over.
    only_one: bool,
    over: bool,
    /// Of everything read: what ids are made of.
    hash: u64,
    out: Vec<Delta>,
}

#[derive(Debug)]
enum Mode {
    Text,
    /// Within a section, at a step.
    At(usize, Work),
    /// Behind a mistake in a call, until it ends or another begins.
    Lost,
}

/// How far a step is.
#[derive(Debug)]
enum Work {
    Fresh,
    /// Bytes of the text that were read.
    Text(usize),
    /// What was read of a name, a number or something to skip, or of a fork's texts.
    Word(String),
    Arguments(Scanner),
    Envelope(Box<Envelope>),
    Parameters(Box<Parameters>),
}

/// What became of a character.
enum Turn {
    Taken,
    /// It belongs to what comes now.
    Again,
    /// It has no place here.
    Wrong,
}

impl Parser {
    /// Reads calls of `tools`; `seed` makes the ids of one answer differ from those of others.
    pub(in crate::tools) fn new(program: Arc<Program>, tools: Arc<[Tool]>, only_one: bool, seed: u64) -> Self {
        let triggers = program.triggers.iter().map(|trigger| Automaton::new(trigger.text)).collect();
        let end = program.ends.map(|(text, _)| Automaton::new(text));
        let mode = program.first.map_or(Mode::Text, |fork| Mode::At(fork, Work::Fresh));
        Self {
            program,
            tools,
            triggers,
            end,
            mode,
            held: String::new(),
            space: String::new(),
            named: None,
            early: String::new(),
            number: None,
            begun: false,
            calls: 0,
            only_one,
            over: false,
            hash: seed ^ 0xcbf2_9ce4_8422_2325,
            out: Vec::new(),
        }
    }

    /// Takes the next piece of the answer.
    pub(crate) fn push(&mut self, text: &str) {
        for c in text.chars() {
            if self.over {
                return;
            }
            self.hash = (self.hash ^ u64::from(c)).wrapping_mul(0x0100_0000_01b3);
            while !self.over && !self.turn(c) {}
        }
    }

    /// The answer has ended: what was held is text, what was begun is completed.
    pub(crate) fn finish(&mut self) {
        if self.begun {
            self.complete();
        }
        let held = std::mem::take(&mut self.held);
        self.text(&held);
        if self.calls == 0 {
            let space = std::mem::take(&mut self.space);
            self.give(&space);
        }
        self.mode = Mode::Text;
    }

    /// What was found since the last time.
    pub(crate) fn take(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.out)
    }

    /// Whether no more calls are wanted.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Offers a character; whether it was taken.
    fn turn(&mut self, c: char) -> bool {
        match std::mem::replace(&mut self.mode, Mode::Text) {
            Mode::Text => {
                self.watch(c);
                true
            }
            Mode::Lost => {
                self.mode = Mode::Lost;
                self.skip(c);
                true
            }
            Mode::At(at, work) => {
                let program = Arc::clone(&self.program);
                let turn = self.work(&program, at, work, c);
                if !self.begun && self.held.len() > HELD_BYTES_MAX {
                    self.fail();
                    return true;
                }
                match turn {
                    Turn::Taken => true,
                    Turn::Again => false,
                    Turn::Wrong => {
                        self.fail();
                        false
                    }
                }
            }
        }
    }

    /// Text: looks for what opens a section.
    fn watch(&mut self, c: char) {
        self.held.push(c);
        let mut found = None;
        for (index, trigger) in self.triggers.iter_mut().enumerate() {
            if trigger.step_char(c) {
                found = Some(index);
            }
        }
        if let Some(index) = found {
            let mark = self.open(index);
            let before: String = self.held.drain(..self.held.len() - mark).collect();
            self.text(&before);
            return;
        }
        let matched = self.triggers.iter().map(|trigger| trigger.matched).max().unwrap_or(0);
        if self.held.len() > matched {
            let text: String = self.held.drain(..self.held.len() - matched).collect();
            self.text(&text);
        }
    }

    /// Begins a section by one of its marks; returns the mark's length.
    fn open(&mut self, index: usize) -> usize {
        self.triggers.iter_mut().for_each(Automaton::reset);
        let Branch { text, peeks, to } = self.program.triggers[index];
        let work = if peeks { Work::Word(text.to_owned()) } else { Work::Fresh };
        self.go(to, work);
        text.len()
    }

    /// Behind a mistake: what belongs to the call is not shown.
    fn skip(&mut self, c: char) {
        let mut found = None;
        for (index, trigger) in self.triggers.iter_mut().enumerate() {
            if trigger.step_char(c) {
                found = Some(index);
            }
        }
        if let Some(index) = found {
            self.open(index);
            self.program.triggers[index].text.clone_into(&mut self.held);
            return;
        }
        if let (Some(end), Some((_, to))) = (&mut self.end, self.program.ends)
            && end.step_char(c)
        {
            self.triggers.iter_mut().for_each(Automaton::reset);
            self.go(to, Work::Fresh);
        }
    }

    /// Goes to a step, through those that take no character.
    fn go(&mut self, mut at: usize, work: Work) {
        let program = Arc::clone(&self.program);
        loop {
            match &program.ops[at] {
                Op::CallEnd => {
                    if !self.begun {
                        self.begin();
                    }
                    self.end_call(true);
                    at += 1;
                }
                Op::SectionEnd => {
                    self.held.clear();
                    self.over |= self.only_one && self.calls > 0;
                    self.mode = Mode::Text;
                    return;
                }
                Op::Fork(branches) if matches!(branches.as_slice(), [Branch { text: "", .. }]) => at = branches[0].to,
                _ => break,
            }
        }
        self.mode = Mode::At(at, work);
    }

    /// The work of one step on one character.
    fn work(&mut self, program: &Program, at: usize, work: Work, c: char) -> Turn {
        match (&program.ops[at], work) {
            (Op::Text(text), work) => {
                let read = if let Work::Text(read) = work { read } else { 0 };
                self.exactly(text, read, at, c)
            }
            (Op::Space, _) if c.is_whitespace() => self.stay(at, Work::Fresh, c),
            (Op::Space, _) => {
                self.go(at + 1, Work::Fresh);
                Turn::Again
            }
            (Op::Name, work) => self.name(word(work), at, c),
            (Op::Number(end), work) => self.number(word(work), end, at, c),
            (Op::Skip(end), work) => {
                let mut word = word(work);
                word.push(c);
                if word.ends_with(end) {
                    self.hold(c);
                    self.go(at + 1, Work::Fresh);
                    return Turn::Taken;
                }
                if word.len() > SKIP_BYTES_MAX { Turn::Wrong } else { self.stay(at, Work::Word(word), c) }
            }
            (Op::Fork(branches), work) => self.fork(branches, word(work), at, c),
            (Op::Arguments(dialect), work) => {
                let scanner = if let Work::Arguments(scanner) = work { scanner } else { Scanner::object(*dialect) };
                self.arguments(scanner, at, c)
            }
            (Op::Envelope(keys), work) => {
                let envelope =
                    if let Work::Envelope(envelope) = work { envelope } else { Box::new(Envelope::new(keys)) };
                self.envelope(envelope, at, c)
            }
            (Op::Parameters(marks), work) => {
                let read = if let Work::Parameters(read) = work { read } else { Box::new(Parameters::new(marks)) };
                self.parameters(read, program, at, c)
            }
            // `go` never stops at these.
            (Op::CallEnd | Op::SectionEnd, _) => Turn::Wrong,
        }
    }

    fn stay(&mut self, at: usize, work: Work, c: char) -> Turn {
        self.hold(c);
        self.mode = Mode::At(at, work);
        Turn::Taken
    }

    fn hold(&mut self, c: char) {
        if !self.begun {
            self.held.push(c);
        }
    }

    fn exactly(&mut self, text: &str, read: usize, at: usize, c: char) -> Turn {
        if !text[read..].starts_with(c) {
            // Models are not exact about white space.
            return if read == 0 && c.is_whitespace() { self.stay(at, Work::Fresh, c) } else { Turn::Wrong };
        }
        let read = read + c.len_utf8();
        if read < text.len() {
            return self.stay(at, Work::Text(read), c);
        }
        self.hold(c);
        self.go(at + 1, Work::Fresh);
        Turn::Taken
    }

    /// The longest name of the list that the text has.
    fn name(&mut self, mut name: String, at: usize, c: char) -> Turn {
        if name.is_empty() && c.is_whitespace() {
            return self.stay(at, Work::Fresh, c);
        }
        name.push(c);
        if self.tools.iter().any(|tool| tool.name.starts_with(&name)) {
            return self.stay(at, Work::Word(name), c);
        }
        name.pop();
        self.named = self.tools.iter().position(|tool| tool.name == name);
        // What may be followed by anything must not be followed by more of a name.
        let is_longer = matches!(self.program.ops[at + 1], Op::Skip(_)) && !c.is_whitespace() && !"[<".contains(c);
        if self.named.is_none() || is_longer {
            return Turn::Wrong;
        }
        self.go(at + 1, Work::Fresh);
        Turn::Again
    }

    fn number(&mut self, mut number: String, end: &str, at: usize, c: char) -> Turn {
        number.push(c);
        if number.ends_with(end) {
            number.truncate(number.len() - end.len());
            self.number = Some(number.trim().to_owned());
            self.hold(c);
            self.go(at + 1, Work::Fresh);
            return Turn::Taken;
        }
        let known = number.trim_end_matches(|c: char| !c.is_ascii_digit());
        let is_number = known.bytes().all(|byte| byte.is_ascii_digit()) && number.len() - known.len() <= end.len();
        if is_number && known.len() <= 9 { self.stay(at, Work::Word(number), c) } else { Turn::Wrong }
    }

    fn fork(&mut self, branches: &[Branch], mut read: String, at: usize, c: char) -> Turn {
        if read.is_empty() && c.is_whitespace() {
            return self.stay(at, Work::Fresh, c);
        }
        let before = read.len();
        read.push(c);
        let mut fits = branches.iter().filter(|branch| !branch.text.is_empty() && branch.text.starts_with(&read));
        if let Some(branch) = fits.clone().find(|branch| branch.text == read) {
            if branch.peeks {
                self.mode = Mode::At(branch.to, Work::Fresh);
                return Turn::Again;
            }
            self.hold(c);
            self.go(branch.to, Work::Fresh);
            return Turn::Taken;
        }
        if fits.next().is_some() {
            return self.stay(at, Work::Word(read), c);
        }
        match branches.iter().find(|branch| branch.text.is_empty()) {
            Some(branch) if before == 0 => {
                self.go(branch.to, Work::Fresh);
                Turn::Again
            }
            _ => Turn::Wrong,
        }
    }

    fn arguments(&mut self, mut scanner: Scanner, at: usize, c: char) -> Turn {
        let mut json = String::new();
        let step = scanner.step(c, &mut json);
        if !self.begun && step != Step::Broken {
            if c.is_whitespace() {
                self.hold(c);
            } else {
                self.begin();
            }
        }
        self.give_arguments(&json);
        match step {
            Step::More => {
                self.mode = Mode::At(at, Work::Arguments(scanner));
                Turn::Taken
            }
            Step::Done => {
                self.go(at + 1, Work::Fresh);
                Turn::Taken
            }
            Step::Before => {
                self.go(at + 1, Work::Fresh);
                Turn::Again
            }
            Step::Broken => {
                self.mode = Mode::At(at, Work::Arguments(scanner));
                Turn::Wrong
            }
        }
    }

    fn envelope(&mut self, mut envelope: Box<Envelope>, at: usize, c: char) -> Turn {
        let step = envelope.step(c);
        if !self.begun && step != Step::Broken {
            self.hold(c);
            if let Some(name) = &envelope.name {
                if self.named.is_none() {
                    self.named = self.tools.iter().position(|tool| tool.name == *name);
                }
                if self.named.is_none() {
                    self.held.pop();
                    return Turn::Wrong;
                }
                if envelope.begun || step == Step::Done {
                    self.begin();
                }
            }
        }
        if step == Step::Done && self.begun {
            envelope.close();
        }
        if self.begun {
            let arguments = std::mem::take(&mut envelope.arguments);
            self.give_arguments(&arguments);
        }
        match step {
            Step::Done if self.begun => {
                self.go(at + 1, Work::Fresh);
                Turn::Taken
            }
            Step::More => {
                self.mode = Mode::At(at, Work::Envelope(envelope));
                Turn::Taken
            }
            Step::Done => {
                // No name at all.
                self.held.pop();
                Turn::Wrong
            }
            Step::Before | Step::Broken => {
                self.mode = Mode::At(at, Work::Envelope(envelope));
                Turn::Wrong
            }
        }
    }

    fn parameters(&mut self, mut read: Box<Parameters>, program: &Program, at: usize, c: char) -> Turn {
        let Some(tool) = self.named.and_then(|named| self.tools.get(named)) else { return Turn::Wrong };
        let step = read.step(c, &tool.parameters);
        if step != Step::Before {
            self.hold(c);
        }
        if !self.begun && read.has_begun() {
            self.begin();
        }
        let json = std::mem::take(&mut read.arguments);
        self.give_arguments(&json);
        if step != Step::Before {
            self.mode = Mode::At(at, Work::Parameters(read));
            return if step == Step::Broken { Turn::Wrong } else { Turn::Taken };
        }
        // What the next mark and the end of the call begin with alike was taken for the mark.
        let shared = read.shared();
        let next = (at + 1..program.ops.len()).find(|&next| !matches!(program.ops[next], Op::Space));
        let Some((next, Op::Text(text))) = next.map(|next| (next, &program.ops[next])) else { return Turn::Wrong };
        if !text.starts_with(shared) || !text[shared.len()..].starts_with(c) {
            self.mode = Mode::At(at, Work::Parameters(read));
            return Turn::Wrong;
        }
        read.close();
        let json = std::mem::take(&mut read.arguments);
        self.give_arguments(&json);
        self.mode = Mode::At(next, Work::Text(shared.len()));
        Turn::Again
    }

    /// The character has no place in a call: what was held was text, or the call ends here.
    fn fail(&mut self) {
        if self.begun {
            self.complete();
            self.triggers.iter_mut().for_each(Automaton::reset);
            if let Some(end) = &mut self.end {
                end.reset();
                self.mode = Mode::Lost;
            } else {
                self.mode = Mode::Text;
            }
            return;
        }
        self.mode = Mode::Text;
        self.named = None;
        self.number = None;
        self.early.clear();
        let held = std::mem::take(&mut self.held);
        self.text(&held);
    }

    /// Completes a call whose text broke off.
    fn complete(&mut self) {
        let mut json = String::new();
        let complete = match std::mem::replace(&mut self.mode, Mode::Text) {
            Mode::At(_, Work::Arguments(mut scanner)) => {
                scanner.close(&mut json);
                false
            }
            Mode::At(_, Work::Envelope(mut envelope)) => {
                let complete = envelope.close();
                json = std::mem::take(&mut envelope.arguments);
                complete
            }
            Mode::At(_, Work::Parameters(mut read)) => {
                read.close();
                json = std::mem::take(&mut read.arguments);
                false
            }
            // Only what stands behind the arguments is missing.
            Mode::At(..) | Mode::Text | Mode::Lost => true,
        };
        self.give_arguments(&json);
        self.end_call(complete);
    }

    /// Tells of a call: its name is known to be on the list.
    fn begin(&mut self) {
        let Some(tool) = self.named.and_then(|named| self.tools.get(named)) else { return };
        if self.only_one && self.calls > 0 {
            self.over = true;
            return;
        }
        self.space.clear();
        self.held.clear();
        self.begun = true;
        let id = match (self.program.id, &self.number) {
            (Some(prefix), Some(number)) => format!("{prefix}{}:{number}", tool.name),
            _ => id(self.hash, self.calls),
        };
        self.out.push(Delta::Call { index: self.calls, id, name: tool.name.clone() });
        self.calls += 1;
        let early = std::mem::take(&mut self.early);
        self.give_arguments(&early);
    }

    fn end_call(&mut self, complete: bool) {
        if std::mem::take(&mut self.begun) {
            self.out.push(Delta::End { index: self.calls - 1, complete });
        }
        self.named = None;
        self.number = None;
        self.early.clear();
        self.held.clear();
    }

    fn give_arguments(&mut self, json: &str) {
        if json.is_empty() {
            return;
        }
        if !self.begun {
            self.early.push_str(json);
            return;
        }
        match self.out.last_mut() {
            Some(Delta::Arguments { text, .. }) => text.push_str(json),
            _ => self.out.push(Delta::Arguments { index: self.calls - 1, text: json.to_owned() }),
        }
    }

    /// Gives out text; white space at its end waits for what follows.
    fn text(&mut self, text: &str) {
        let shown = text.trim_end();
        if !shown.is_empty() {
            let space = std::mem::take(&mut self.space);
            self.give(&space);
            self.give(shown);
        }
        self.space.push_str(&text[shown.len()..]);
    }

    fn give(&mut self, shown: &str) {
        if shown.is_empty() {
            return;
        }
        match self.out.last_mut() {
            Some(Delta::Text(text)) => text.push_str(shown),
            _ => self.out.push(Delta::Text(shown.to_owned())),
        }
    }
}

fn word(work: Work) -> String {
    if let Work::Word(word) = work { word } else { String::new() }
}

/// An id of nine letters and digits, as Mistral's templates demand and all others take.
pub(in crate::tools) fn id(hash: u64, index: u32) -> String {
    // The finisher of SplitMix64: every bit of the result depends on every bit of the sum.
    let mut bits = hash.wrapping_add(u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let letters = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..9)
        .map(|_| {
            let letter = letters[(bits % 62) as usize];
            bits /= 62;
            char::from(letter)
        })
        .collect()
}
