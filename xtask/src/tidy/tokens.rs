//! Rust text as a flat row of tokens with line numbers.
//!
//! Comments are gone and strings are single tokens, so a check that looks for code cannot trip over prose. Brackets are
//! tokens too; nothing here knows what an item or an expression is.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token: an identifier, a literal, a character of punctuation, or one bracket.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) text: String,
    /// The line it starts on, counted from 1.
    pub(super) line: usize,
    /// The line it ends on: another one for a string over several lines.
    pub(super) end_line: usize,
}

/// Splits `text` into tokens. A doc comment becomes the attribute it stands for, `# ! [ doc = "..." ]`.
pub(super) fn read(text: &str) -> Result<Vec<Token>, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    Ok(tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let (start, end) = (tree.span().start().line, tree.span().end().line);
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                tokens.push(Token::new(open, start, start));
                flatten(group.stream(), tokens);
                tokens.push(Token::new(close, end, end));
            }
            TokenTree::Ident(ident) => tokens.push(Token::new(&ident.to_string(), start, end)),
            TokenTree::Punct(punct) => tokens.push(Token::new(&punct.as_char().to_string(), start, end)),
            TokenTree::Literal(literal) => tokens.push(Token::new(&literal.to_string(), start, end)),
        }
    }
}

const fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

impl Token {
    fn new(text: &str, line: usize, end_line: usize) -> Self {
        Self { text: text.to_owned(), line, end_line }
    }

    /// Whether this is a word: a name or a keyword.
    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(|first: char| first.is_alphabetic() || first == '_')
    }
}

/// Whether `tokens` begin with exactly these.
pub(super) fn begins(tokens: &[Token], expected: &[&str]) -> bool {
    tokens.len() >= expected.len() && tokens.iter().zip(expected).all(|(token, &text)| token.text == text)
}

/// For tokens that begin with an opening bracket: how many tokens there are up to and with the bracket that closes it.
pub(super) fn group_len(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        read(source).expect("it is Rust").into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_vanish_and_strings_are_one_token() {
        assert_eq!(texts("f(\"todo!()\"); // todo!()"), ["f", "(", "\"todo!()\"", ")", ";"]);
        assert_eq!(texts("//! Doc."), ["#", "!", "[", "doc", "=", "\" Doc.\"", "]"]);
    }

    #[test]
    fn lines_count_from_one() {
        let tokens = read("a\n{\n\"x\ny\"\n}").expect("it is Rust");
        let lines: Vec<_> = tokens.iter().map(|token| (token.line, token.end_line)).collect();
        assert_eq!(lines, [(1, 1), (2, 2), (3, 4), (5, 5)]);
    }

    #[test]
    fn a_group_ends_at_its_own_bracket() {
        let tokens = read("{ a ( b ) { c } } d").expect("it is Rust");
        assert_eq!(group_len(&tokens), tokens.len() - 1);
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        assert!(read("fn f( {").is_err());
    }
}
