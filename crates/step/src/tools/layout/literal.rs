//! A value as a model writes it, read character by character into JSON text that is always valid.
//!
//! What is given out is a beginning of a valid text at any time: keys, commas, numbers and words wait until the value behind them
//! has begun or is complete, so that [`Scanner::close`] can end the text wherever the model stopped. Strings come out as
//! they are read. Reads a little more than it has to (raw line ends in strings, a comma at the end of a list, `True`), since
//! that is what models write; gives out RFC 8259 without white space.

/// Levels of lists and objects within each other. A call comes back as a part of a conversation, which may have 64.
const DEPTH_MAX: usize = 48;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// RFC 8259.
    Json,
    /// Literals of Python.
    Python,
    /// Python's keyword arguments: begins behind the bracket that opens them and ends with the one that closes them.
    PythonCall,
    /// Bare keys and strings between two of these marks, without escapes (Gemma).
    Bare(&'static str),
}

/// What a character came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tools) enum Step {
    /// The value goes on.
    More,
    /// The value is complete with this character.
    Done,
    /// The value was complete before this character, which is none of it.
    Before,
    /// The character has no place here.
    Broken,
}

/// Reads one value.
#[derive(Clone, Debug)]
pub(in crate::tools) struct Scanner {
    dialect: Dialect,
    open: Vec<Frame>,
    state: State,
    /// A comma, a key and a colon that belong to a value that has not begun.
    lead: String,
    wants_object: bool,
}

/// A list or an object that is open.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// What closes it where the model writes it.
    close: char,
    is_object: bool,
    is_empty: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// A value, or the end of a list where `may_close`.
    Value {
        may_close: bool,
    },
    /// A key, or the end of an object.
    Key,
    /// A key without quotes.
    BareKey(String),
    /// What stands between a key and its value.
    Colon,
    /// A comma or an end.
    After,
    /// Within a string; of a key where `key` collects it.
    Text {
        quote: Quote,
        escape: Escape,
        key: Option<String>,
    },
    /// The mark that begins a string of [`Dialect::Bare`], and how much of it is read; for a key?
    Mark {
        read: usize,
        is_key: bool,
    },
    /// Python: one quote was read, or two.
    Quotes {
        quote: char,
        count: u8,
        is_key: bool,
    },
    /// A number, or a word such as `true`.
    Word(String),
    Complete,
}

/// What ends a string.
#[derive(Clone, Debug)]
enum Quote {
    One(char),
    /// Three of them, and how many were just read.
    Three(char, u8),
    /// A mark, and how much of it was just read.
    Mark(&'static str, usize),
}

/// Where in an escape the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Begun,
    /// Digits still to come, and what those so far make.
    Digits {
        left: u8,
        code: u32,
        high: Option<u32>,
    },
    /// The first half of a pair was read: `\` must follow, then `u`.
    High(u32),
    HighBegun(u32),
}

impl Scanner {
    /// A value of any kind.
    pub(in crate::tools) fn new(dialect: Dialect) -> Self {
        let mut scanner = Self {
            dialect,
            open: Vec::new(),
            state: State::Value { may_close: false },
            lead: String::new(),
            wants_object: false,
        };
        if dialect == Dialect::PythonCall {
            scanner.open.push(Frame { close: ')', is_object: true, is_empty: true });
            scanner.lead.push('{');
            scanner.state = State::Key;
        }
        scanner
    }

    /// A value that must be an object.
    pub(in crate::tools) fn object(dialect: Dialect) -> Self {
        Self { wants_object: true, ..Self::new(dialect) }
    }

    /// Takes the next character, and puts what became of it behind `out`.
    pub(in crate::tools) fn step(&mut self, c: char, out: &mut String) -> Step {
        match &mut self.state {
            State::Complete => Step::Before,
            State::Value { may_close } => {
                let may_close = *may_close;
                self.begin_value(c, may_close, out)
            }
            State::Key => self.begin_key(c, out),
            State::BareKey(_) => self.bare_key(c),
            State::Colon => match c {
                _ if c.is_whitespace() => Step::More,
                ':' | '=' if c == self.colon() => self.value(false),
                _ => Step::Broken,
            },
            State::After => self.after(c, out),
            State::Text { .. } => self.text(c, out),
            State::Mark { .. } => self.mark(c, out),
            State::Quotes { .. } => self.quotes(c, out),
            State::Word(_) => self.word(c, out),
        }
    }

    /// Ends the text where the model stopped: what has begun is closed, what has not is left out.
    pub(in crate::tools) fn close(&mut self, out: &mut String) {
        if let State::Text { key: None, .. } = self.state {
            out.push('"');
        }
        if self.dialect == Dialect::PythonCall && self.lead.starts_with('{') {
            out.push('{');
        }
        for frame in self.open.drain(..).rev() {
            out.push(if frame.is_object { '}' } else { ']' });
        }
        self.state = State::Complete;
    }

    fn value(&mut self, may_close: bool) -> Step {
        self.state = State::Value { may_close };
        Step::More
    }

    fn colon(&self) -> char {
        if self.dialect == Dialect::PythonCall && self.open.len() == 1 { '=' } else { ':' }
    }

    fn is_python(&self) -> bool {
        matches!(self.dialect, Dialect::Python | Dialect::PythonCall)
    }

    fn begin_value(&mut self, c: char, may_close: bool, out: &mut String) -> Step {
        if c.is_whitespace() {
            return Step::More;
        }
        if self.wants_object && self.open.is_empty() && c != '{' {
            return Step::Broken;
        }
        match (c, self.dialect) {
            ('{', _) => self.open(c, '}', out),
            ('[', _) => self.open(c, ']', out),
            ('(', Dialect::Python | Dialect::PythonCall) => self.open(c, ')', out),
            _ if may_close && self.open.last().is_some_and(|frame| frame.close == c) => self.shut(out),
            ('"', Dialect::Json) => self.begin_text(Quote::One('"'), None, out),
            ('"' | '\'', Dialect::Python | Dialect::PythonCall) => {
                self.state = State::Quotes { quote: c, count: 1, is_key: false };
                Step::More
            }
            (_, Dialect::Bare(mark)) if mark.starts_with(c) => {
                self.state = State::Mark { read: 0, is_key: false };
                self.mark(c, out)
            }
            (',' | ':' | ']' | '}' | ')', _) => Step::Broken,
            _ if c.is_alphanumeric() || matches!(c, '-' | '+' | '.') || matches!(self.dialect, Dialect::Bare(_)) => {
                self.state = State::Word(c.to_string());
                Step::More
            }
            _ => Step::Broken,
        }
    }

    fn open(&mut self, c: char, close: char, out: &mut String) -> Step {
        if self.open.len() == DEPTH_MAX {
            return Step::Broken;
        }
        self.write_lead(out);
        let is_object = c == '{';
        self.open.push(Frame { close, is_object, is_empty: true });
        out.push(if is_object { '{' } else { '[' });
        if is_object {
            self.state = State::Key;
            return Step::More;
        }
        self.value(true)
    }

    /// Writes what was kept for a value that begins now.
    fn write_lead(&mut self, out: &mut String) {
        out.push_str(&self.lead);
        self.lead.clear();
        if let Some(frame) = self.open.last_mut() {
            frame.is_empty = false;
        }
    }

    fn shut(&mut self, out: &mut String) -> Step {
        if self.dialect == Dialect::PythonCall && self.open.len() == 1 && self.lead.starts_with('{') {
            out.push('{');
        }
        self.lead.clear();
        let Some(frame) = self.open.pop() else { return Step::Broken };
        out.push(if frame.is_object { '}' } else { ']' });
        self.end_value()
    }

    fn end_value(&mut self) -> Step {
        if self.open.is_empty() {
            self.state = State::Complete;
            return Step::Done;
        }
        self.state = State::After;
        Step::More
    }

    fn begin_key(&mut self, c: char, out: &mut String) -> Step {
        if c.is_whitespace() {
            return Step::More;
        }
        if self.open.last().is_some_and(|frame| frame.close == c) {
            return self.shut(out);
        }
        let bare = self.colon() == '=' || matches!(self.dialect, Dialect::Bare(_));
        match (c, self.dialect) {
            ('"', Dialect::Json) => self.begin_text(Quote::One('"'), Some(String::new()), out),
            ('"' | '\'', Dialect::Python | Dialect::PythonCall) if !bare => {
                self.state = State::Quotes { quote: c, count: 1, is_key: true };
                Step::More
            }
            (_, Dialect::Bare(mark)) if mark.starts_with(c) => {
                self.state = State::Mark { read: 0, is_key: true };
                self.mark(c, out)
            }
            _ if bare && (c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@')) => {
                self.state = State::BareKey(c.to_string());
                Step::More
            }
            _ => Step::Broken,
        }
    }

    fn bare_key(&mut self, c: char) -> Step {
        let colon = self.colon();
        let State::BareKey(key) = &mut self.state else { return Step::Broken };
        match c {
            _ if c == colon || c.is_whitespace() => {
                let key = std::mem::take(key);
                self.take_key(&key);
                if c == colon { self.value(false) } else { Step::More }
            }
            ',' | '{' | '}' | '[' | ']' | '(' | ')' | '"' | '\'' | '=' => Step::Broken,
            _ => {
                key.push(c);
                Step::More
            }
        }
    }

    /// Keeps a key until its value begins.
    fn take_key(&mut self, key: &str) {
        let is_first = self.open.last().is_some_and(|frame| frame.is_empty);
        let begins = self.lead.starts_with('{');
        self.lead.clear();
        if begins {
            self.lead.push('{');
        } else if !is_first {
            self.lead.push(',');
        }
        self.lead.push('"');
        key.chars().for_each(|c| write_char(c, &mut self.lead));
        self.lead.push_str("\":");
        self.state = State::Colon;
    }

    fn after(&mut self, c: char, out: &mut String) -> Step {
        let Some(frame) = self.open.last() else { return Step::Broken };
        match c {
            _ if c.is_whitespace() => Step::More,
            _ if c == frame.close => self.shut(out),
            ',' if frame.is_object => {
                self.state = State::Key;
                Step::More
            }
            ',' => {
                ",".clone_into(&mut self.lead);
                self.value(true)
            }
            _ => Step::Broken,
        }
    }

    fn begin_text(&mut self, quote: Quote, key: Option<String>, out: &mut String) -> Step {
        if key.is_none() {
            self.write_lead(out);
            out.push('"');
        }
        self.state = State::Text { quote, escape: Escape::None, key };
        Step::More
    }

    fn end_text(&mut self, out: &mut String) -> Step {
        let State::Text { key, .. } = &mut self.state else { return Step::Broken };
        if let Some(key) = key.take() {
            self.take_key(&key);
            return Step::More;
        }
        out.push('"');
        self.end_value()
    }

    fn text(&mut self, c: char, out: &mut String) -> Step {
        let is_python = self.is_python();
        let State::Text { quote, escape, key } = &mut self.state else { return Step::Broken };
        let mut put = |c: char| match key {
            Some(key) => key.push(c),
            None => write_char(c, out),
        };
        if let Quote::Mark(mark, read) = quote {
            // No mark of a model begins again within itself, so what fails can only begin at this character.
            if mark[*read..].starts_with(c) {
                *read += c.len_utf8();
                return if *read == mark.len() { self.end_text(out) } else { Step::More };
            }
            mark[..*read].chars().for_each(&mut put);
            *read = 0;
            if mark.starts_with(c) {
                *read = c.len_utf8();
            } else {
                put(c);
            }
            return Step::More;
        }
        if *escape != Escape::None {
            let next = unescape(*escape, c, is_python, &mut put);
            *escape = next.unwrap_or(Escape::None);
            if next.is_some() {
                return Step::More;
            }
        }
        match quote {
            _ if c == '\\' => {
                if let Quote::Three(q, read) = quote {
                    (0..std::mem::take(read)).for_each(|_| put(*q));
                }
                *escape = Escape::Begun;
            }
            Quote::One(q) if c == *q => return self.end_text(out),
            Quote::Three(q, 2) if c == *q => return self.end_text(out),
            Quote::Three(q, read) if c == *q => *read += 1,
            Quote::Three(q, read) => {
                (0..std::mem::take(read)).for_each(|_| put(*q));
                put(c);
            }
            Quote::One(_) | Quote::Mark(..) => put(c),
        }
        Step::More
    }

    fn mark(&mut self, c: char, out: &mut String) -> Step {
        let (State::Mark { read, is_key }, Dialect::Bare(mark)) = (&mut self.state, self.dialect) else {
            return Step::Broken;
        };
        if !mark[*read..].starts_with(c) {
            return Step::Broken;
        }
        *read += c.len_utf8();
        if *read < mark.len() {
            return Step::More;
        }
        let key = is_key.then(String::new);
        self.begin_text(Quote::Mark(mark, 0), key, out)
    }

    /// One quote begins a string, two are an empty one, three begin a long one.
    fn quotes(&mut self, c: char, out: &mut String) -> Step {
        let State::Quotes { quote, count, is_key } = &mut self.state else { return Step::Broken };
        let (quote, key) = (*quote, is_key.then(String::new));
        match (c == quote, *count) {
            (true, 1) => {
                *count = 2;
                Step::More
            }
            (true, _) => self.begin_text(Quote::Three(quote, 0), key, out),
            (false, 1) => {
                self.begin_text(Quote::One(quote), key, out);
                self.text(c, out)
            }
            (false, _) => {
                self.begin_text(Quote::One(quote), key, out);
                match self.end_text(out) {
                    Step::Done => Step::Before,
                    Step::More => self.step(c, out),
                    step => step,
                }
            }
        }
    }

    fn word(&mut self, c: char, out: &mut String) -> Step {
        let is_bare = matches!(self.dialect, Dialect::Bare(_));
        let State::Word(word) = &mut self.state else { return Step::Broken };
        let ends =
            c.is_whitespace() && !is_bare || matches!(c, ',' | ']' | '}' | ')' | ':' | '"' | '\'' | '[' | '{' | '(');
        if !ends {
            word.push(c);
            return Step::More;
        }
        let word = std::mem::take(word);
        if !self.write_word(&word, out) {
            return Step::Broken;
        }
        match self.end_value() {
            Step::Done => Step::Before,
            Step::More => self.step(c, out),
            step => step,
        }
    }

    /// The text has ended: a number or word at its end is complete. Whether the value is.
    pub(in crate::tools) fn end(&mut self, out: &mut String) -> bool {
        if let (State::Word(word), true) = (&mut self.state, self.open.is_empty()) {
            let word = std::mem::take(word);
            if self.write_word(&word, out) {
                self.state = State::Complete;
            }
        }
        if let (&State::Quotes { count: 2, is_key: false, .. }, true) = (&self.state, self.open.is_empty()) {
            out.push_str("\"\"");
            self.state = State::Complete;
        }
        matches!(self.state, State::Complete)
    }

    fn write_word(&mut self, word: &str, out: &mut String) -> bool {
        let python = self.is_python();
        let word = match word.trim_end() {
            word @ ("true" | "false" | "null") => word.to_owned(),
            "True" if python => "true".to_owned(),
            "False" if python => "false".to_owned(),
            "None" if python => "null".to_owned(),
            number if number.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) => {
                match number_text(number) {
                    Some(number) => number,
                    None if matches!(self.dialect, Dialect::Bare(_)) => quoted(number),
                    None => return false,
                }
            }
            word if matches!(self.dialect, Dialect::Bare(_)) => quoted(word),
            _ => return false,
        };
        self.write_lead(out);
        out.push_str(&word);
        true
    }
}

/// A number as JSON writes it.
fn number_text(written: &str) -> Option<String> {
    if serde_json::from_str::<serde_json::Number>(written).is_ok() {
        return Some(written.to_owned());
    }
    let plain = written.replace('_', "");
    let digits = plain.strip_prefix('+').unwrap_or(&plain);
    if !digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E')) {
        return None;
    }
    let number = serde_json::Number::from_f64(digits.parse().ok()?)?;
    let whole = digits.trim_start_matches('0');
    if !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(whole.to_owned());
    }
    Some(number.to_string())
}

/// A text as a JSON string.
pub(in crate::tools) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|c| write_char(c, &mut out));
    out.push('"');
    out
}

/// A character of a JSON string.
pub(in crate::tools) fn write_char(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..' ' => {
            let code = c as u32;
            out.push_str("\\u00");
            out.extend([code >> 4, code & 15].map(|digit| char::from_digit(digit, 16).unwrap_or('0')));
        }
        _ => out.push(c),
    }
}

/// What an escape becomes with its next character; nothing where the escape is over and the character none of it.
fn unescape(escape: Escape, c: char, is_python: bool, put: &mut impl FnMut(char)) -> Option<Escape> {
    match escape {
        Escape::None => None,
        Escape::Begun => {
            let digits = |left| Some(Escape::Digits { left, code: 0, high: None });
            match c {
                'u' => return digits(4),
                'U' if is_python => return digits(8),
                'x' if is_python => return digits(2),
                '\n' if is_python => {}
                'n' => put('\n'),
                't' => put('\t'),
                'r' => put('\r'),
                'b' => put('\u{8}'),
                'f' => put('\u{c}'),
                '"' | '\\' | '\'' | '/' => put(c),
                // No escape that either language has: the two characters are meant.
                _ => {
                    put('\\');
                    put(c);
                }
            }
            Some(Escape::None)
        }
        Escape::Digits { left, code, high } => {
            let Some(digit) = c.to_digit(16) else {
                put(char::REPLACEMENT_CHARACTER);
                return None;
            };
            let code = code << 4 | digit;
            if left > 1 {
                return Some(Escape::Digits { left: left - 1, code, high });
            }
            match (high, code) {
                (Some(high), 0xdc00..0xe000) => {
                    let code = 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00);
                    put(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    return Some(Escape::None);
                }
                (Some(_), _) => put(char::REPLACEMENT_CHARACTER),
                (None, _) => {}
            }
            if (0xd800..0xdc00).contains(&code) {
                return Some(Escape::High(code));
            }
            put(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            Some(Escape::None)
        }
        Escape::High(high) if c == '\\' => Some(Escape::HighBegun(high)),
        Escape::HighBegun(high) if c == 'u' => Some(Escape::Digits { left: 4, code: 0, high: Some(high) }),
        Escape::HighBegun(_) => {
            put(char::REPLACEMENT_CHARACTER);
            unescape(Escape::Begun, c, is_python, put)
        }
        Escape::High(_) => {
            put(char::REPLACEMENT_CHARACTER);
            None
        }
    }
}
