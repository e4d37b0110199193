//! Ids to text as they come, complete characters only.
//!
//! A token may end inside a character. What is given out is always whole characters; the rest waits for the next token.
//! All that is given out, together, is what decoding all ids at once gives (with U+FFFD for bytes that are no text).

use crate::Tokenizer;

/// Decodes one answer, token by token. Made by [`Tokenizer::stream`].
#[derive(Clone, Debug)]
pub struct Stream {
    tokenizer: Tokenizer,
    special: bool,
    /// Nothing has been given out, so a space that only joins words is dropped.
    first: bool,
    /// The beginning of a character, or, for WordPiece, all text.
    pending: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(tokenizer: Tokenizer, first: bool) -> Self {
        Self { tokenizer, special: false, first, pending: Vec::new() }
    }

    /// Gives out special tokens too, by name.
    #[must_use]
    pub fn keep_special(mut self) -> Self {
        self.special = true;
        self
    }

    /// Takes the next token and returns the text that is complete with it, often empty. Ids that the vocabulary does not
    /// have give nothing.
    pub fn push(&mut self, id: u32) -> String {
        let tokenizer = self.tokenizer.clone();
        let Some(piece) = tokenizer.piece(id, self.special) else {
            return String::new();
        };
        self.pending.extend_from_slice(tokenizer.trimmed(piece, self.first));
        self.first = false;
        if tokenizer.tidies() {
            return String::new();
        }
        self.take(false)
    }

    /// Ends the answer: what waits is given out, with U+FFFD for a character that never came to its end.
    pub fn finish(&mut self) -> String {
        let tokenizer = self.tokenizer.clone();
        if tokenizer.tidies() {
            self.pending = crate::wordpiece::tidy(&self.pending);
        }
        self.take(true)
    }

    fn take(&mut self, all: bool) -> String {
        let mut text = String::new();
        let mut done = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let invalid = chunk.invalid();
            let last = done + invalid.len() == self.pending.len();
            // The beginning of a character, with nothing after it, can still become one.
            let unfinished = last && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if !invalid.is_empty() && (all || !unfinished) {
                text.push(char::REPLACEMENT_CHARACTER);
                done += invalid.len();
            }
        }
        self.pending.drain(..done);
        text
    }
}
