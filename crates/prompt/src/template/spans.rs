//! A rendered prompt by who wrote it, and cut at its special tokens.

use super::text::Text;

/// A stretch of a rendered prompt of one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text; never empty.
    pub text: String,
    /// Whether it came from the conversation (messages, tools, documents, a caller's variables) and not from the template.
    pub from_user: bool,
}

/// A piece of a prompt for the tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// One of the special tokens, by its text.
    Special(String),
    /// Text between special tokens, of both origins, in which nothing is special.
    Text(String),
}

pub(super) fn spans(text: &Text) -> Vec<Span> {
    text.runs().map(|(run, user)| Span { text: run.to_owned(), from_user: user }).collect()
}

/// Cuts a prompt at the special tokens that the template itself wrote: the leftmost, and of those the longest, wholly
/// within one span that is not `from_user`. Everything between two of them is one piece.
pub fn split_special<S: AsRef<str>>(spans: &[Span], specials: &[S]) -> Vec<Piece> {
    let mut specials: Vec<&str> = specials.iter().map(AsRef::as_ref).filter(|special| !special.is_empty()).collect();
    specials.sort_unstable_by_key(|special| std::cmp::Reverse(special.len()));
    let mut firsts = [false; 256];
    for special in &specials {
        firsts[special.as_bytes()[0] as usize] = true;
    }
    let mut pieces = Vec::new();
    let mut text = String::new();
    for span in spans {
        let mut start = 0;
        let mut at = 0;
        while !span.from_user && at < span.text.len() {
            let byte = span.text.as_bytes()[at];
            let special = Some(&specials)
                .filter(|_| firsts[byte as usize])
                .and_then(|specials| specials.iter().find(|special| span.text[at..].starts_with(**special)));
            if let Some(special) = special {
                text.push_str(&span.text[start..at]);
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Special((*special).to_owned()));
                at += special.len();
                start = at;
            } else {
                at += 1;
                while !span.text.is_char_boundary(at) {
                    at += 1;
                }
            }
        }
        text.push_str(&span.text[start..]);
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str, from_user: bool) -> Span {
        Span { text: text.to_owned(), from_user }
    }

    #[test]
    fn only_the_templates_own_text_holds_special_tokens() {
        let spans = [
            span("<s><|a|>é\n", false),
            span("\nx<|a|>", true),
            span("<|a", false),
            span("|>", true),
            span("<|a|>b|>", false),
        ];
        let special = |text: &str| Piece::Special(text.to_owned());
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(
            split_special(&spans, &["<|a|>", "<|a|>b", "<s>", ""]),
            [special("<s>"), special("<|a|>"), text("é\n\nx<|a|><|a|>"), special("<|a|>b"), text("|>")]
        );
        assert_eq!(split_special::<&str>(&spans[..1], &[]), [text("<s><|a|>é\n")]);
        assert_eq!(split_special(&[], &["<s>"]), []);
    }
}
