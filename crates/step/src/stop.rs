//! Stop strings over streamed text: no part of one is ever shown, and nothing is held back that cannot become one.
//!
//! Each stop string is followed by its own Knuth-Morris-Pratt automaton, byte by byte, so the work is linear in the text
//! whatever the strings are, and where the text is cut into pieces makes no difference. Valid UTF-8 in, valid UTF-8 out:
//! a match of a string starts where a character starts.
//!
//! Knows no tokens: stop tokens of a model are compared by id before their text gets here.

use crate::automaton::Automaton;

/// The most stop strings of a request.
pub const STOPS_MAX: usize = 16;
/// The longest stop string, in bytes.
pub const STOP_BYTES_MAX: usize = 1024;

/// Why a list of stop strings is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are too many.
    #[error("stop: {count} strings are more than {STOPS_MAX}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// One is empty: it would stop before the first token.
    #[error("stop[{index}] is empty")]
    Empty {
        /// Its place in the list, from 0.
        index: usize,
    },
    /// One is too long.
    #[error("stop[{index}] has {bytes} bytes, more than {STOP_BYTES_MAX}")]
    TooLong {
        /// Its place in the list, from 0.
        index: usize,
        /// Its length.
        bytes: usize,
    },
}

/// What a piece of text came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output<'a> {
    /// Text that can be shown now.
    pub text: &'a str,
    /// The stop string that was completed, by its place in the list: the answer ends before it.
    pub stopped: Option<usize>,
}

/// Watches streamed text for the first stop string to be complete; of two that are complete at once, the longer one.
#[derive(Clone, Debug)]
pub struct Stops {
    automata: Vec<Automaton>,
    /// What was given out last, and the end of the text so far that may be the start of a stop string.
    held: String,
    /// Bytes of `held` that were given out.
    given: usize,
    stopped: Option<usize>,
}

/// Whether a request may have these stop strings.
///
/// # Errors
/// What is wrong with them: how many there are, or one of them.
pub fn check(stops: &[String]) -> Result<(), Error> {
    if stops.len() > STOPS_MAX {
        return Err(Error::TooMany { count: stops.len() });
    }
    for (index, stop) in stops.iter().enumerate() {
        let bytes = stop.len();
        if bytes == 0 {
            return Err(Error::Empty { index });
        }
        if bytes > STOP_BYTES_MAX {
            return Err(Error::TooLong { index, bytes });
        }
    }
    Ok(())
}

impl Stops {
    /// Takes the stop strings of a request; none is fine, and lets all text through.
    pub fn new(stops: &[String]) -> Result<Self, Error> {
        check(stops)?;
        Ok(Self {
            automata: stops.iter().map(|stop| Automaton::new(stop)).collect(),
            held: String::new(),
            given: 0,
            stopped: None,
        })
    }

    /// Makes room for pieces of up to `bytes` bytes: they will not allocate.
    pub fn reserve(&mut self, bytes: usize) {
        let longest = self.automata.iter().map(|automaton| automaton.text.len()).max().unwrap_or(0);
        self.held.reserve(longest + bytes);
    }

    /// The next piece of text. After a stop string nothing more comes out.
    pub fn push(&mut self, text: &str) -> Output<'_> {
        if self.stopped.is_some() {
            return Output { text: "", stopped: self.stopped };
        }
        self.held.drain(..self.given);
        let before = self.held.len();
        self.held.push_str(text);
        for (at, byte) in text.bytes().enumerate() {
            // A stop that is an end of another is complete at the same byte: the other starts earlier.
            let complete = self
                .automata
                .iter_mut()
                .enumerate()
                .filter_map(|(index, automaton)| automaton.step(byte).then_some((automaton.text.len(), index)))
                .max_by_key(|&(bytes, index)| (bytes, std::cmp::Reverse(index)));
            if let Some((bytes, index)) = complete {
                self.stopped = Some(index);
                self.held.truncate(before + at + 1 - bytes);
                self.given = self.held.len();
                return Output { text: &self.held, stopped: self.stopped };
            }
        }
        let matched = self.automata.iter().map(|automaton| automaton.matched).max().unwrap_or(0);
        self.given = self.held.len() - matched;
        Output { text: &self.held[..self.given], stopped: None }
    }

    /// The answer has ended: what was held back was no stop string after all.
    pub fn finish(&mut self) -> &str {
        for automaton in &mut self.automata {
            automaton.reset();
        }
        let from = std::mem::replace(&mut self.given, self.held.len());
        &self.held[from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stops(strings: &[&str]) -> Stops {
        Stops::new(&strings.iter().map(|stop| (*stop).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    /// Everything shown when the pieces come one by one, and the stop string that ended it.
    fn stream<'a>(strings: &[&str], pieces: impl IntoIterator<Item = &'a str>) -> (String, Option<usize>) {
        let mut stops = stops(strings);
        let mut shown = String::new();
        for piece in pieces {
            let Output { text, stopped } = stops.push(piece);
            shown += text;
            if stopped.is_some() {
                assert_eq!(stops.push("more").text, "");
                return (shown, stopped);
            }
        }
        (shown + stops.finish(), None)
    }

    /// The definition: the first place where a stop string ends, and of those that end there the longest.
    fn reference(strings: &[&str], text: &str) -> (String, Option<usize>) {
        for end in 0..=text.len() {
            let complete =
                (0..strings.len()).filter(|&index| text.as_bytes()[..end].ends_with(strings[index].as_bytes()));
            if let Some(index) = complete.max_by_key(|&index| (strings[index].len(), std::cmp::Reverse(index))) {
                return (text[..end - strings[index].len()].to_owned(), Some(index));
            }
        }
        (text.to_owned(), None)
    }

    #[test]
    fn holds_back_only_what_may_become_a_stop() {
        let mut stops = stops(&["</end>", "\n\nUser"]);
        assert_eq!(stops.push("a<").text, "a");
        assert_eq!(stops.push("b").text, "<b");
        assert_eq!(stops.push("</e").text, "");
        assert_eq!(stops.push("nx").text, "</enx");
        assert_eq!(stops.push("\n").text, "");
        assert_eq!(stops.push("\n").text, "");
        assert_eq!(stops.push("\nUs").text, "\n");
        let output = stops.push("er: hi");
        assert_eq!((output.text, output.stopped), ("", Some(1)));
        assert_eq!(stops.finish(), "");
    }

    #[test]
    fn the_first_to_be_complete_wins_and_of_those_the_longest() {
        assert_eq!(stream(&["abc", "b"], ["xabc"]), ("xa".to_owned(), Some(1)));
        assert_eq!(stream(&["c", "abc"], ["xabc"]), ("x".to_owned(), Some(1)));
        assert_eq!(stream(&["aab"], ["aaab"]), ("a".to_owned(), Some(0)));
        assert_eq!(stream(&["a", "a"], ["a"]), (String::new(), Some(0)));
        assert_eq!(stream(&[], ["a", "b"]), ("ab".to_owned(), None));
        assert_eq!(stream(&["abab!"], ["abababab"]), ("abababab".to_owned(), None));
    }

    #[test]
    fn every_cut_of_a_text_gives_the_same() {
        let strings = ["END", "ND\n", "é漢", "\u{1f388}\u{1f388}"];
        for text in ["say END now", "EENEND", "xND\ny", "éé漢!", "a🎈b🎈🎈c", "EN", "END", "nothing at all"] {
            let expected = reference(&strings, text);
            let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
            for choice in 0..1_u32 << borders.len() {
                let mut pieces = Vec::new();
                let mut from = 0;
                for (bit, &border) in borders.iter().enumerate() {
                    if choice >> bit & 1 == 1 {
                        pieces.push(&text[from..border]);
                        from = border;
                    }
                }
                pieces.push(&text[from..]);
                assert_eq!(stream(&strings, pieces.iter().copied()), expected, "{pieces:?}");
            }
        }
    }

    #[test]
    fn lists_are_limited() {
        let list = |count: usize, text: &str| Stops::new(&vec![text.to_owned(); count]);
        assert!(list(STOPS_MAX, "a").is_ok());
        assert_eq!(list(STOPS_MAX + 1, "a").unwrap_err(), Error::TooMany { count: 17 });
        assert_eq!(list(1, "").unwrap_err().to_string(), "stop[0] is empty");
        assert!(list(1, &"a".repeat(STOP_BYTES_MAX)).is_ok());
        assert_eq!(list(1, &"a".repeat(1025)).unwrap_err(), Error::TooLong { index: 0, bytes: 1025 });
    }

    proptest! {
        #[test]
        fn streams_as_the_definition_says(
            strings in proptest::collection::vec("[abé]{1,4}", 0..4),
            pieces in proptest::collection::vec("[abé]{0,4}", 0..8),
        ) {
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let expected = reference(&strings, &pieces.concat());
            prop_assert_eq!(stream(&strings, pieces.iter().map(String::as_str)), expected);
        }

        #[test]
        fn what_is_held_is_the_longest_start_of_a_stop(
            strings in proptest::collection::vec("[ab]{1,9}|[abé]{1,5}", 1..4),
            pieces in proptest::collection::vec("[ab]{0,6}|[abé]{0,3}", 0..12),
        ) {
            let mut stops = Stops::new(&strings).unwrap();
            let mut text = String::new();
            for piece in &pieces {
                text += piece;
                if stops.push(piece).stopped.is_some() {
                    break;
                }
                let starts = |end: &str| strings.iter().any(|stop| stop.len() > end.len() && stop.starts_with(end));
                let longest = text.char_indices().map(|(at, _)| &text[at..]).find(|end| starts(end));
                prop_assert_eq!(&stops.held[stops.given..], longest.unwrap_or_default());
            }
        }
    }
}
