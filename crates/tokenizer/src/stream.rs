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
    /// Special tokens that are given out by name all the same, ascending.
    shown: Vec<u32>,
    /// Nothing has been given out, so a space that only joins words is dropped.
    first: bool,
    /// The beginning of a character, or, for WordPiece, all text.
    pending: Vec<u8>,
    /// What was given out last.
    text: String,
}

impl Stream {
    pub(crate) fn new(tokenizer: Tokenizer, first: bool) -> Self {
        let mut stream =
            Self { special: false, shown: Vec::new(), first, pending: Vec::new(), text: String::new(), tokenizer };
        stream.pending.reserve(stream.waiting_and_one_token());
        stream.text.reserve(stream.text_bytes_max());
        stream
    }

    /// Gives out special tokens too, by name.
    #[must_use]
    pub fn keep_special(mut self) -> Self {
        self.special = true;
        self
    }

    /// Gives out these special tokens by name, since whoever reads the answer finds its parts by them.
    #[must_use]
    pub fn show(mut self, ids: &[u32]) -> Self {
        self.shown = ids.to_vec();
        self.shown.sort_unstable();
        self
    }

    /// The most bytes that one token can bring, until the answer ends: each byte of it, and of a character that was begun
    /// before, may be no text.
    pub fn text_bytes_max(&self) -> usize {
        self.waiting_and_one_token() * char::REPLACEMENT_CHARACTER.len_utf8()
    }

    /// Takes the next token and returns the text that is complete with it, often empty. Ids that the vocabulary does not
    /// have give nothing. Allocates nothing, but for WordPiece, whose text waits for its end.
    pub fn push(&mut self, id: u32) -> &str {
        self.text.clear();
        let shown = self.special || self.shown.binary_search(&id).is_ok();
        if let Some(piece) = self.tokenizer.piece(id, shown) {
            self.pending.extend_from_slice(self.tokenizer.trimmed(piece, self.first));
            self.first = false;
            if !self.tokenizer.tidies() {
                self.take(false);
            }
        }
        &self.text
    }

    /// Ends the answer: what waits is given out, with U+FFFD for a character that never came to its end.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if self.tokenizer.tidies() {
            self.pending = crate::wordpiece::tidy(&self.pending);
        }
        self.take(true);
        &self.text
    }

    fn waiting_and_one_token(&self) -> usize {
        // Three bytes begin a character and do not end it.
        3 + self.tokenizer.inner.vocabulary.longest()
    }

    /// Moves what is complete to `text`.
    fn take(&mut self, all: bool) {
        let text = &mut self.text;
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
    }
}
