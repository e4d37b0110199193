//! Regular expressions as schemas and callers write them, ECMA-262, rewritten for the engine below, whose syntax is that of
//! Rust's `regex` crate.
//!
//! The two look alike and differ in what they match: a dot, a space, a digit, a bracket within brackets. So a pattern is
//! read as ECMA-262 says and written out again with every character and class spelled as code points. What no automaton can
//! follow (looking around, remembering what was matched) is refused by name.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

/// The most bytes of a pattern.
pub(super) const PATTERN_BYTES_MAX: usize = 8192;
/// The most groups inside each other.
const DEPTH_MAX: usize = 50;
/// The most times that something is repeated by number.
const REPEAT_MAX: u32 = 100_000;

const DIGIT: &str = "0-9";
const NO_DIGIT: &str = r"\x{0}-\x{2f}\x{3a}-\x{10ffff}";
const WORD: &str = r"0-9A-Z\x{5f}a-z";
const NO_WORD: &str = r"\x{0}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{5e}\x{60}\x{7b}-\x{10ffff}";
const SPACE: &str = r"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";
const NO_SPACE: &str = r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}";
const NO_LINE_END: &str = r"[^\x{a}\x{d}\x{2028}\x{2029}]";

/// The same pattern in the syntax of the engine below; anchors stay where they were.
///
/// # Errors
/// Why it cannot be, in words.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("it has {} bytes, more than {PATTERN_BYTES_MAX}", pattern.len()));
    }
    let mut reader =
        Reader { rest: pattern.chars().peekable(), out: String::with_capacity(pattern.len() * 2), depth: 0 };
    reader.alternatives()?;
    match reader.rest.next() {
        None => Ok(reader.out),
        Some(other) => Err(format!("{other:?} closes nothing")),
    }
}

/// Text that is matched as it is.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    text.chars().for_each(|character| push_character(&mut out, character as u32));
    out
}

fn push_character(out: &mut String, code: u32) {
    match char::from_u32(code).filter(char::is_ascii_alphanumeric) {
        Some(plain) => out.push(plain),
        None => write!(out, "\\x{{{code:x}}}").expect("writing to a string"),
    }
}

struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    depth: usize,
}

/// What stands between brackets.
enum Member {
    Character(u32),
    /// The inside of a class.
    Class(String),
}

impl Reader<'_> {
    fn alternatives(&mut self) -> Result<(), String> {
        loop {
            while self.term()? {}
            if self.rest.next_if_eq(&'|').is_none() {
                return Ok(());
            }
            self.out.push('|');
        }
    }

    /// One thing with what repeats it; whether there was one.
    fn term(&mut self) -> Result<bool, String> {
        let Some(character) = self.rest.next_if(|next| !matches!(next, '|' | ')')) else { return Ok(false) };
        match character {
            '^' | '$' => {
                self.out.push(character);
                return match self.rest.peek() {
                    Some('*' | '+' | '?') => Err(format!("{character:?} cannot be repeated")),
                    Some(_) | None => Ok(true),
                };
            }
            '.' => self.out.push_str(NO_LINE_END),
            '(' => self.group()?,
            '[' => self.class()?,
            '\\' => match self.escape(false)? {
                Member::Character(code) => push_character(&mut self.out, code),
                Member::Class(class) => write!(self.out, "[{class}]").expect("writing to a string"),
            },
            '*' | '+' | '?' => return Err(format!("{character:?} repeats nothing")),
            other => push_character(&mut self.out, other as u32),
        }
        self.quantifier()?;
        Ok(true)
    }

    fn group(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} groups lie inside each other"));
        }
        if self.rest.next_if_eq(&'?').is_some() {
            let kind = self.rest.next();
            let named = kind == Some('<') && !matches!(self.rest.peek(), Some('=' | '!'));
            if named {
                let mut name = self.rest.by_ref().take_while(|&next| next != '>');
                if !name.all(|next| next.is_alphanumeric() || matches!(next, '_' | '$')) {
                    return Err("a group's name has an odd character, or no end".to_owned());
                }
            } else if kind != Some(':') {
                return Err("looking ahead, looking behind and flags within a pattern are not supported".to_owned());
            }
        }
        self.out.push_str("(?:");
        self.alternatives()?;
        if self.rest.next() != Some(')') {
            return Err("a group is not closed".to_owned());
        }
        self.out.push(')');
        self.depth -= 1;
        Ok(())
    }

    fn quantifier(&mut self) -> Result<(), String> {
        match self.rest.peek() {
            Some(&sign @ ('*' | '+' | '?')) => {
                self.rest.next();
                self.out.push(sign);
            }
            Some('{') => {
                let Some((least, most)) = self.bounds() else { return Ok(()) };
                for count in [Some(least), most].into_iter().flatten() {
                    if count > REPEAT_MAX {
                        return Err(format!("{count} repetitions are more than {REPEAT_MAX}"));
                    }
                }
                match most {
                    Some(most) if most < least => return Err(format!("{{{least},{most}}} is out of order")),
                    Some(most) => write!(self.out, "{{{least},{most}}}"),
                    None => write!(self.out, "{{{least},}}"),
                }
                .expect("writing to a string");
            }
            Some(_) | None => return Ok(()),
        }
        // The same texts match, whether the shortest or the longest is looked for first.
        self.rest.next_if_eq(&'?');
        if matches!(self.rest.peek(), Some('*' | '+' | '?')) {
            return Err("what is repeated already cannot be repeated again".to_owned());
        }
        Ok(())
    }

    /// The numbers of `{2}`, `{2,}` or `{2,5}`; a brace that is none of them stands for itself.
    fn bounds(&mut self) -> Option<(u32, Option<u32>)> {
        let ahead: String = self.rest.clone().take(24).collect();
        let inside = ahead.strip_prefix('{')?.split_once('}')?.0;
        let (least, most) = inside
            .split_once(',')
            .map_or((inside, Some(inside)), |(least, most)| (least, (!most.is_empty()).then_some(most)));
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_number.then(|| digits.parse().unwrap_or(u32::MAX))
        };
        let bounds = (number(least)?, most.map(number).map_or(Some(None), |most| most.map(Some))?);
        self.rest.by_ref().take(inside.len() + 2).for_each(drop);
        Some(bounds)
    }

    fn class(&mut self) -> Result<(), String> {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let mut inside = String::new();
        loop {
            let first = match self.member()? {
                None => break,
                Some(Member::Class(class)) => {
                    inside.push_str(&class);
                    continue;
                }
                Some(Member::Character(code)) => code,
            };
            // A line between two characters makes a range; at an end, or beside a class, it stands for itself.
            let mut ahead = self.rest.clone();
            if ahead.next() != Some('-') || ahead.peek().is_none_or(|&next| next == ']') {
                push_character(&mut inside, first);
                continue;
            }
            self.rest.next();
            match self.member()? {
                Some(Member::Character(last)) if last >= first => {
                    push_character(&mut inside, first);
                    inside.push('-');
                    push_character(&mut inside, last);
                }
                Some(Member::Class(class)) => {
                    push_character(&mut inside, first);
                    push_character(&mut inside, u32::from(b'-'));
                    inside.push_str(&class);
                }
                Some(Member::Character(_)) | None => return Err("a range within brackets is out of order".to_owned()),
            }
        }
        match (inside.is_empty(), negated) {
            (true, false) => return Err("empty brackets match nothing".to_owned()),
            (true, true) => self.out.push_str(r"[\x{0}-\x{10ffff}]"),
            (false, true) => write!(self.out, "[^{inside}]").expect("writing to a string"),
            (false, false) => write!(self.out, "[{inside}]").expect("writing to a string"),
        }
        Ok(())
    }

    /// The next thing between brackets; none at their end.
    fn member(&mut self) -> Result<Option<Member>, String> {
        match self.rest.next() {
            None => Err("a bracket is not closed".to_owned()),
            Some(']') => Ok(None),
            Some('\\') => self.escape(true).map(Some),
            Some(other) => Ok(Some(Member::Character(other as u32))),
        }
    }

    fn escape(&mut self, in_class: bool) -> Result<Member, String> {
        let Some(letter) = self.rest.next() else { return Err("it ends in a backslash".to_owned()) };
        let class = |class: &str| Ok(Member::Class(class.to_owned()));
        let character = |code: u8| Ok(Member::Character(u32::from(code)));
        match letter {
            'd' => class(DIGIT),
            'D' => class(NO_DIGIT),
            'w' => class(WORD),
            'W' => class(NO_WORD),
            's' => class(SPACE),
            'S' => class(NO_SPACE),
            't' => character(b'\t'),
            'n' => character(b'\n'),
            'v' => character(0x0b),
            'f' => character(0x0c),
            'r' => character(b'\r'),
            'b' if in_class => character(0x08),
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => character(0),
            'c' => match self.rest.next() {
                Some(control) if control.is_ascii_alphabetic() => character(control as u8 % 32),
                Some(_) | None => Err("\\c needs a letter".to_owned()),
            },
            'x' => self.hexadecimal(2).map(Member::Character),
            'u' => self.unicode().map(Member::Character),
            'p' | 'P' => self.property(letter).map(Member::Class),
            'b' | 'B' => Err(format!("\\{letter} (a word's border) is not supported")),
            '0'..='9' | 'k' => Err("what a group matched before cannot be asked for again".to_owned()),
            other if other.is_alphanumeric() => Err(format!("\\{other} means nothing")),
            other => Ok(Member::Character(other as u32)),
        }
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32, String> {
        let text: String = self.rest.by_ref().take(digits).collect();
        let is_number = text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        match u32::from_str_radix(&text, 16) {
            Ok(code) if is_number => Ok(code),
            Ok(_) | Err(_) => Err(format!("{text:?} is not {digits} hexadecimal digits")),
        }
    }

    /// `\u0041`, `\u{1f600}`, or two halves of a pair.
    fn unicode(&mut self) -> Result<u32, String> {
        let code = if self.rest.next_if_eq(&'{').is_some() {
            let text: String = self.rest.by_ref().take_while(|&next| next != '}').take(8).collect();
            u32::from_str_radix(&text, 16).map_err(|_| format!("{text:?} is not a hexadecimal number"))?
        } else {
            let first = self.hexadecimal(4)?;
            let mut ahead = self.rest.clone();
            if (0xd800..0xdc00).contains(&first) && ahead.next() == Some('\\') && ahead.next() == Some('u') {
                self.rest = ahead;
                let second = self.hexadecimal(4)?.checked_sub(0xdc00).filter(|&low| low < 0x400);
                0x10000 + ((first - 0xd800) << 10) + second.ok_or("half of a pair stands alone")?
            } else {
                first
            }
        };
        let code = char::from_u32(code).ok_or_else(|| format!("{code:#x} is no character"))?;
        Ok(code as u32)
    }

    /// `\p{L}`, `\p{Script=Greek}`: the same names on both sides.
    fn property(&mut self, letter: char) -> Result<String, String> {
        let mut inside = String::new();
        if self.rest.next() == Some('{') {
            inside.extend(self.rest.by_ref().take_while(|&next| next != '}').take(64));
        }
        let is_name =
            !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_=".contains(&byte));
        if is_name {
            Ok(format!("\\{letter}{{{inside}}}"))
        } else {
            Err(format!("\\{letter} needs a property, as in \\p{{L}}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the translated pattern is found in the text, by Rust's own engine.
    fn found(pattern: &str, text: &str) -> bool {
        regex::Regex::new(&translate(pattern).expect(pattern)).expect(pattern).is_match(text)
    }

    #[test]
    fn patterns_match_as_ecma_says() {
        for (pattern, yes, no) in [
            (r"^\d+$", "42", "٤٢"),
            (r"^\w$", "_", "é"),
            (r"^\s$", "\u{feff}", "\u{85}"),
            (r"^\S$", "\u{85}", "\u{feff}"),
            (r"^.$", "\u{85}", "\r"),
            (r"^.$", "é", "\u{2028}"),
            (r"^[[a]$", "[", "b"),
            (r"^[a&&b]$", "&", "c"),
            (r"^[\w-.]$", "-", "+"),
            (r"^[a-]$", "-", "b"),
            (r"^[\b]$", "\u{8}", "b"),
            (r"^[^]$", "\n", ""),
            (r"^[^\D]$", "7", "x"),
            (r"^a{,3}$", "a{,3}", "aa"),
            (r"^{$", "{", "}"),
            (r"^a{2}b{1,}c{0,1}?$", "aab", "ab"),
            (r"^(?<year>\d{4})$", "2026", "26"),
            (r"^\/\-\.$", "/-.", "abc"),
            (r"^\u00e9\x41\cA$", "éA\u{1}", "e"),
            (r"^\ud83c\udf88$", "🎈", "x"),
            (r"^\p{Lu}$", "É", "é"),
            (r"a|^b$", "xax", "bb"),
            (r"]", "]", "["),
        ] {
            assert!(found(pattern, yes), "{pattern} on {yes:?}");
            assert!(!found(pattern, no), "{pattern} on {no:?}");
        }
    }

    #[test]
    fn what_no_automaton_follows_is_refused_in_words() {
        for (pattern, reason) in [
            (r"^(?!a)", "looking ahead"),
            (r"(?<=a)b", "looking ahead"),
            (r"(?i)a", "flags within"),
            (r"\bword\b", "border"),
            (r"(a)\1", "matched before"),
            (r"\Aa\Z", r"\A means nothing"),
            (r"(a", "not closed"),
            (r"a)", "closes nothing"),
            (r"[a", "not closed"),
            (r"[]", "match nothing"),
            (r"[b-a]", "out of order"),
            (r"a{3,2}", "out of order"),
            (r"a**", "repeated again"),
            (r"*", "repeats nothing"),
            (r"^*", "cannot be repeated"),
            (r"a{999999999999}", "more than 100000"),
            (r"\ud83c", "no character"),
            ("\\", "backslash"),
        ] {
            let error = translate(pattern).expect_err(pattern);
            assert!(error.contains(reason), "{pattern}: {error}");
        }
        assert!(translate(&"(".repeat(60)).unwrap_err().contains("inside each other"));
        assert!(translate(&"a".repeat(PATTERN_BYTES_MAX + 1)).unwrap_err().contains("more than 8192"));
    }

    #[test]
    fn text_stands_for_itself() {
        let text = "a.b*[c]\\/\"{é\n";
        assert!(regex::Regex::new(&format!("^{}$", literal(text))).unwrap().is_match(text));
    }
}
