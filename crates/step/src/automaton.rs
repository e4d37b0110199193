//! Finds one text in streamed bytes: Knuth, Morris and Pratt's automaton, linear in the text whatever either of them is.

/// A text that is looked for, and how much of it the bytes so far end with.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    pub(crate) text: Vec<u8>,
    /// For each length matched, the next shorter one that the same bytes match.
    shorter: Vec<usize>,
    pub(crate) matched: usize,
}

impl Automaton {
    /// Looks for `text`, which is not empty.
    pub(crate) fn new(text: &str) -> Self {
        let text = text.as_bytes().to_vec();
        let mut shorter = vec![0; text.len() + 1];
        let mut matched = 0;
        for length in 1..text.len() {
            while matched > 0 && text[length] != text[matched] {
                matched = shorter[matched];
            }
            matched += usize::from(text[length] == text[matched]);
            shorter[length + 1] = matched;
        }
        Self { text, shorter, matched: 0 }
    }

    /// Takes a byte; whether the text is complete with it. Behind a complete one it looks for the next.
    pub(crate) fn step(&mut self, byte: u8) -> bool {
        if self.matched == self.text.len() {
            self.matched = self.shorter[self.matched];
        }
        while self.matched > 0 && byte != self.text[self.matched] {
            self.matched = self.shorter[self.matched];
        }
        self.matched += usize::from(byte == self.text[self.matched]);
        self.matched == self.text.len()
    }

    /// Takes a character; whether the text is complete with it.
    pub(crate) fn step_char(&mut self, c: char) -> bool {
        let mut bytes = [0; 4];
        c.encode_utf8(&mut bytes).bytes().fold(false, |_, byte| self.step(byte))
    }

    /// Forgets what was seen.
    pub(crate) fn reset(&mut self) {
        self.matched = 0;
    }
}
