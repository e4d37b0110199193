//! The words of a tag: what is between `{{` and `}}` or `{%` and `%}`, cut as Jinja2's lexer cuts it.

use super::Error;

/// A word of a tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or keyword.
    Name(String),
    /// An integer, in decimal digits.
    Integer(String),
    /// A number with a fraction or an exponent, as Rust reads it.
    Float(String),
    /// A string, its escapes resolved.
    Text(String),
    /// An operator or bracket.
    Sign(&'static str),
}

/// The signs, longest first.
const SIGNS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";",
];

/// A tag's words with the line each stands on, and what ended the tag.
pub(super) struct Tag {
    pub tokens: Vec<(Token, usize)>,
    /// Where the tag's end begins in the source.
    pub end: usize,
}

/// Cuts the source from `at` to the `close` (`}}` or `%}`, with or without a whitespace sign) that no bracket is open at.
pub(super) fn cut(source: &str, at: usize, line: usize, close: &str) -> Result<Tag, Error> {
    let mut lexer = Lexer { source, at, line };
    let mut tokens = Vec::new();
    let mut open = 0_usize;
    loop {
        lexer.skip_whitespace();
        let rest = lexer.rest();
        if rest.is_empty() {
            return Err(Error::syntax(line, format!("the tag has no {close}")));
        }
        if open == 0 && rest.strip_prefix(['-', '+']).unwrap_or(rest).starts_with(close) {
            let end = lexer.at;
            return Ok(Tag { tokens, end });
        }
        let token_line = lexer.line;
        let token = lexer.token()?;
        match token {
            Token::Sign("(" | "[" | "{") => open += 1,
            Token::Sign(")" | "]" | "}") => {
                open = open
                    .checked_sub(1)
                    .ok_or_else(|| Error::syntax(token_line, "a bracket closes that was not opened".to_owned()))?;
            }
            _ => {}
        }
        tokens.push((token, token_line));
    }
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let taken = &self.source[self.at..self.at + bytes];
        self.line += taken.matches('\n').count();
        self.at += bytes;
        taken
    }

    fn skip_whitespace(&mut self) {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start().len();
        self.advance(blank);
    }

    fn token(&mut self) -> Result<Token, Error> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or_default();
        if first == '"' || first == '\'' {
            return self.string(first);
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            return Ok(Token::Name(self.advance(length).to_owned()));
        }
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => {
                self.advance(sign.len());
                Ok(Token::Sign(sign))
            }
            None => Err(Error::syntax(self.line, format!("{first:?} has no meaning in a tag"))),
        }
    }

    fn number(&mut self) -> Result<Token, Error> {
        let rest = self.rest().as_bytes();
        let radix = match rest {
            [b'0', b'x' | b'X', ..] => 16,
            [b'0', b'o' | b'O', ..] => 8,
            [b'0', b'b' | b'B', ..] => 2,
            _ => 10,
        };
        if radix != 10 {
            let length = 2 + rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'_').count();
            let digits = self.advance(length)[2..].replace('_', "");
            let value = i128::from_str_radix(&digits, radix);
            let value = value.map_err(|_| Error::syntax(self.line, "not a number".to_owned()))?;
            return Ok(Token::Integer(value.to_string()));
        }
        let digits =
            |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count();
        let mut length = digits(0);
        let mut whole = true;
        if rest.get(length) == Some(&b'.') && digits(length + 1) > 0 {
            whole = false;
            length += 1 + digits(length + 1);
        }
        if matches!(rest.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length + 1 + sign);
            if exponent > 0 {
                whole = false;
                length += 1 + sign + exponent;
            }
        }
        let written = self.advance(length).replace('_', "");
        if whole {
            let value: i128 =
                written.parse().map_err(|_| Error::syntax(self.line, "an integer of over 128 bits".to_owned()))?;
            return Ok(Token::Integer(value.to_string()));
        }
        let value: f64 = written.parse().map_err(|_| Error::syntax(self.line, "not a number".to_owned()))?;
        if value.is_infinite() {
            return Err(Error::syntax(self.line, "a number too large for a float".to_owned()));
        }
        Ok(Token::Float(format!("{value:?}")))
    }

    fn string(&mut self, quote: char) -> Result<Token, Error> {
        let line = self.line;
        self.advance(1);
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let stop = rest.find([quote, '\\']).ok_or_else(|| Error::syntax(line, "a string has no end".to_owned()))?;
            out.push_str(self.advance(stop));
            if self.rest().starts_with(quote) {
                self.advance(1);
                return Ok(Token::Text(out));
            }
            self.advance(1);
            self.escape(&mut out)?;
        }
    }

    /// Python's escapes; what is none of them stays as it is, backslash and all.
    fn escape(&mut self, out: &mut String) -> Result<(), Error> {
        let rest = self.rest();
        let Some(letter) = rest.chars().next() else {
            return Err(Error::syntax(self.line, "a string has no end".to_owned()));
        };
        let octal = rest.bytes().take(3).take_while(|byte| (b'0'..b'8').contains(byte)).count();
        let (digits, radix) = match letter {
            'x' => (1..3, 16),
            'u' => (1..5, 16),
            'U' => (1..9, 16),
            _ => (0..octal, 8),
        };
        if !digits.is_empty() {
            let end = digits.end;
            let code = rest.get(digits).and_then(|digits| u32::from_str_radix(digits, radix).ok());
            let character = code.and_then(char::from_u32);
            out.push(character.ok_or_else(|| Error::syntax(self.line, format!("\\{letter} names no character")))?);
            self.advance(end);
            return Ok(());
        }
        self.advance(letter.len_utf8());
        match letter {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'v' => out.push('\u{b}'),
            '\\' | '\'' | '"' => out.push(letter),
            '\n' => {}
            other => out.extend(['\\', other]),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Vec<Token> {
        let tag = cut(source, 0, 1, "}}").unwrap();
        tag.tokens.into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn cuts_names_numbers_strings_and_signs() {
        let name = |name: &str| Token::Name(name.to_owned());
        assert_eq!(
            tokens("a.b_1|c(-1.50e1, 0x1F, 1_000)//{'k': {}} }}"),
            [
                name("a"),
                Token::Sign("."),
                name("b_1"),
                Token::Sign("|"),
                name("c"),
                Token::Sign("("),
                Token::Sign("-"),
                Token::Float("15.0".into()),
                Token::Sign(","),
                Token::Integer("31".into()),
                Token::Sign(","),
                Token::Integer("1000".into()),
                Token::Sign(")"),
                Token::Sign("//"),
                Token::Sign("{"),
                Token::Text("k".into()),
                Token::Sign(":"),
                Token::Sign("{"),
                Token::Sign("}"),
                Token::Sign("}"),
            ]
        );
    }

    #[test]
    fn resolves_pythons_escapes() {
        assert_eq!(
            tokens(r#"'a\n\t\\\'\x41\u00e9\U0001F388\101\d"' "}}" }}"#),
            [Token::Text("a\n\t\\'Aé🎈A\\d\"".into()), Token::Text("}}".into())]
        );
    }

    #[test]
    fn refuses_what_is_no_tag() {
        for source in [
            "a",
            "'a }}",
            "a ) }}",
            "( }}",
            "'\\ud800' }}",
            "'\\x4' }}",
            "a ? b }}",
            "'\\",
            "1e999 }}",
            "0xg }}",
            "'\\xé' }}",
        ] {
            assert!(cut(source, 0, 1, "}}").is_err(), "{source}");
        }
    }
}
