//! Strings that remember which of their characters came from the conversation and which from the template.
//!
//! Inside a render every string is an ordinary engine string with marks in it: [`OPEN`] and [`CLOSE`] around what came
//! from the conversation, and [`ESCAPE`] before a stand-in for any of the three marks in the text itself. The marks are
//! Unicode noncharacters, but nothing rests on nobody using them: text that holds them is escaped on its way in, the
//! template's own text too. Joining two marked strings end to end gives the marked string of the joined text, so output
//! captured by the engine keeps its marks. Every other operation decodes, works on the clean text, and carries the marks
//! along by position.

use std::borrow::Cow;
use std::ops::Range;

const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';
const ESCAPE: char = '\u{fdd2}';

/// A string, clean, and where in it the conversation's characters are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Text {
    clean: String,
    /// Byte ranges of the conversation's characters: ascending, not empty, not touching.
    user: Vec<Range<usize>>,
}

impl Text {
    /// Text of the template's own.
    pub fn own(clean: impl Into<String>) -> Self {
        Self { clean: clean.into(), user: Vec::new() }
    }

    /// Text of the conversation.
    pub fn user(clean: &str) -> Self {
        let mut text = Self::default();
        text.push(clean, true);
        text
    }

    /// Reads a string with marks. Never fails: a mark without its partner reaches to the end.
    pub fn decode(marked: &str) -> Self {
        if !has_marks(marked) {
            return Self::own(marked);
        }
        let mut text = Self::default();
        let mut user = false;
        let mut rest = marked;
        while let Some(at) = rest.find([OPEN, CLOSE, ESCAPE]) {
            text.push(&rest[..at], user);
            let mut after = rest[at..].chars();
            match after.next() {
                Some(OPEN) => user = true,
                Some(CLOSE) => user = false,
                _ => match after.next() {
                    Some('0') => text.push("\u{fdd0}", user),
                    Some('1') => text.push("\u{fdd1}", user),
                    _ => text.push("\u{fdd2}", user),
                },
            }
            rest = after.as_str();
        }
        text.push(rest, user);
        text
    }

    /// The string with marks.
    pub fn encode(&self) -> String {
        if self.user.is_empty() && !has_marks(&self.clean) {
            return self.clean.clone();
        }
        let mut out = String::with_capacity(self.clean.len() + 6 * self.user.len());
        for (run, user) in self.runs() {
            if user {
                out.push(OPEN);
            }
            for character in run.chars() {
                match character {
                    OPEN => out.extend([ESCAPE, '0']),
                    CLOSE => out.extend([ESCAPE, '1']),
                    ESCAPE => out.extend([ESCAPE, '2']),
                    other => out.push(other),
                }
            }
            if user {
                out.push(CLOSE);
            }
        }
        out
    }

    /// The clean text.
    pub fn as_str(&self) -> &str {
        &self.clean
    }

    pub fn len(&self) -> usize {
        self.clean.len()
    }

    /// A part of the text, by byte range of the clean text.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let from = self.user.partition_point(|user| user.end <= range.start);
        let user = self.user[from..]
            .iter()
            .take_while(|user| user.start < range.end)
            .map(|user| {
                let start = user.start.max(range.start);
                start - range.start..user.end.min(range.end) - range.start
            })
            .collect();
        Self { clean: self.clean[range].to_owned(), user }
    }

    /// The slice for a part of `self.as_str()` itself.
    pub fn slice_of(&self, part: &str) -> Self {
        let start = part.as_ptr() as usize - self.clean.as_ptr() as usize;
        self.slice(start..start + part.len())
    }

    pub fn push(&mut self, clean: &str, user: bool) {
        if clean.is_empty() {
            return;
        }
        let start = self.clean.len();
        self.clean.push_str(clean);
        if user {
            match self.user.last_mut() {
                Some(last) if last.end == start => last.end = self.clean.len(),
                _ => self.user.push(start..self.clean.len()),
            }
        }
    }

    pub fn append(&mut self, other: &Self) {
        for (run, user) in other.runs() {
            self.push(run, user);
        }
    }

    /// The text cut where the origin changes, with whether the conversation wrote it.
    pub fn runs(&self) -> impl Iterator<Item = (&str, bool)> {
        let mut at = 0;
        let mut next = 0;
        std::iter::from_fn(move || {
            if at == self.clean.len() {
                return None;
            }
            let (end, user) = match self.user.get(next) {
                Some(user) if user.start == at => {
                    next += 1;
                    (user.end, true)
                }
                Some(user) => (user.start, false),
                None => (self.clean.len(), false),
            };
            let run = &self.clean[at..end];
            at = end;
            Some((run, user))
        })
    }

    /// Replaces each character, keeping who wrote it.
    pub fn map(&self, mut replace: impl FnMut(char, &mut String)) -> Self {
        let mut out = Self::default();
        let mut buffer = String::new();
        for (run, user) in self.runs() {
            buffer.clear();
            run.chars().for_each(|c| replace(c, &mut buffer));
            out.push(&buffer, user);
        }
        out
    }
}

/// The clean text of a string with marks.
pub(super) fn clean(marked: &str) -> Cow<'_, str> {
    if has_marks(marked) { Cow::Owned(Text::decode(marked).clean) } else { Cow::Borrowed(marked) }
}

/// The marks share their first two bytes with nothing that is common, so one byte search settles most strings.
fn has_marks(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, &byte)| byte == 0xef && matches!(bytes[at + 1..], [0xb7, 0x90..=0x92, ..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(text: &Text) -> Vec<(String, bool)> {
        text.runs().map(|(run, user)| (run.to_owned(), user)).collect()
    }

    #[test]
    fn slices_keep_the_origin_of_each_character() {
        let mut text = Text::own("ab");
        text.push("cd", true);
        text.push("ef", false);
        assert_eq!(runs(&text.slice(1..5)), [("b".into(), false), ("cd".into(), true), ("e".into(), false)]);
        assert_eq!(runs(&text.slice(2..4)), [("cd".into(), true)]);
        assert_eq!(runs(&text.slice(4..6)), [("ef".into(), false)]);
        assert_eq!(runs(&text.slice(3..3)), []);
    }

    fn any_text() -> impl Strategy<Value = Text> {
        let run = ("[a-cé\u{fdd0}\u{fdd1}\u{fdd2}01]{0,4}", any::<bool>());
        proptest::collection::vec(run, 0..5).prop_map(|runs| {
            let mut text = Text::default();
            for (run, user) in runs {
                text.push(&run, user);
            }
            text
        })
    }

    proptest! {
        #[test]
        fn marks_read_back_even_when_the_text_holds_marks(a in any_text(), b in any_text()) {
            prop_assert_eq!(&Text::decode(&a.encode()), &a);
            let mut joined = a.clone();
            joined.append(&b);
            prop_assert_eq!(Text::decode(&(a.encode() + &b.encode())), joined);
            prop_assert_eq!(clean(&a.encode()).into_owned(), a.as_str());
        }

        #[test]
        fn decode_never_panics(raw in "[a\u{fdd0}\u{fdd1}\u{fdd2}0-3]{0,12}") {
            let text = Text::decode(&raw);
            prop_assert_eq!(Text::decode(&text.encode()), text);
        }
    }
}
