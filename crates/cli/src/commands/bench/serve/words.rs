//! Texts of a wanted number of tokens, for servers that take no ids.
//!
//! A text is a row of words, each a token with its space before it. Which words are tokens says a vocabulary where there is one;
//! otherwise they are common English ones, which are tokens in nearly every vocabulary, and the server's own count says what
//! they came to.

use kauri_engine::{Special, Tokenizer};

/// More tell prompts apart no better.
const WORDS_MAX: usize = 4096;
/// Fewer are no prompts.
const WORDS_MIN: usize = 16;
const COMMON: &str = "the of and to in is that for it as was with on by he at from his this are be or had not but which have an they \
    you were her she there been their we one all when would so if my more about them some will out no who up what can said time \
    than only its could do into like over new other two any these first also after me even make because way most people may then \
    such before years many where much should well how down back see our just good through between day made work life world still \
    long own under while last might great state since against right three used take came place own few does part use high year \
    another each head home man old set small end put next large point given most night until group far both often social found \
    water name number left book line second power public side order case area country program form law war school though later";

/// The words that texts are made of.
#[derive(Clone, Debug)]
pub struct Words(Vec<String>);

impl Words {
    /// Words that are common in English.
    pub fn common() -> Self {
        let mut words: Vec<String> = COMMON.split_whitespace().map(|word| format!(" {word}")).collect();
        words.sort_unstable();
        words.dedup();
        Self(words)
    }

    /// Words of letters that a vocabulary cuts into one token each, whatever stands before them.
    ///
    /// # Errors
    /// When it has too few of them: texts cannot be made exact.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, String> {
        let is_word = |text: &str| {
            let letters = text.strip_prefix(' ').unwrap_or_default();
            letters.len() > 1 && letters.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        let texts = (0..tokenizer.vocab_size() as u32).filter(|&id| !tokenizer.is_special(id)).filter_map(|id| {
            // Behind another token, so that a space at the start of a text is not lost.
            let decoded = String::from_utf8(tokenizer.decode(&[id, id], false)).ok()?;
            let text = decoded.get(decoded.len() / 2..)?.to_owned();
            (is_word(&text) && tokenizer.encode(&text.repeat(3), Special::Text).len() == 3).then_some(text)
        });
        let words = Self(texts.take(WORDS_MAX).collect());
        if words.0.len() < WORDS_MIN {
            return Err(format!("only {} words are one token each, which makes no prompts", words.0.len()));
        }
        // One by one says nothing of neighbours.
        let all = words.0.concat();
        let tokens = tokenizer.encode(&all, Special::Text).len();
        if tokens == words.0.len() {
            return Ok(words);
        }
        Err(format!("{} words that are one token each are {tokens} together", words.0.len()))
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// The text of as many tokens as there are numbers, each under [`Words::len`].
    pub fn text(&self, numbers: &[u32]) -> String {
        numbers.iter().map(|&number| self.0[number as usize % self.0.len()].as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_as_many_tokens_as_numbers() {
        let tokenizer = kauri_engine::tokenizer(None).unwrap();
        let words = Words::of(&tokenizer).unwrap();
        let numbers: Vec<u32> = (0..500).map(|number| number * 7919 % words.len()).collect();
        let text = words.text(&numbers);
        assert_eq!(tokenizer.encode(&text, Special::Text).len(), numbers.len());
        assert_ne!(text, words.text(&numbers[1..]));
        assert!(Words::common().len() > 100);
    }
}
