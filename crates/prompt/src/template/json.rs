//! JSON as a chat template sees it: object keys in the order they were written, `2.0` still a float, and integers of any
//! length exact. `serde_json` keeps the first two, but makes a float of an integer over 64 bits unless every user of it
//! in the build pays for arbitrary precision; hence a type and a small parser (RFC 8259) of our own.
//! Knows nothing of templates.

use super::Error;
use indexmap::IndexMap;

/// The members of a JSON object, in the order they were written; a repeated key keeps its first place and its last value.
pub type Object = IndexMap<String, Json>;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer that fits 128 bits.
    Integer(i128),
    /// The digits of an integer that does not (with its sign, as written).
    LongInteger(String),
    /// A number written with a fraction or an exponent.
    Float(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// The most levels of arrays and objects within each other in a conversation.
pub const JSON_DEPTH_MAX: usize = 64;
/// The longest JSON text taken, in bytes.
pub const JSON_BYTES_MAX: usize = 32 << 20;

impl Json {
    /// Parses one JSON text. Fails with [`Error::Json`] (byte offset and reason), or [`Error::Limit`] beyond
    /// [`JSON_DEPTH_MAX`] levels or [`JSON_BYTES_MAX`] bytes.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > JSON_BYTES_MAX {
            return Err(Error::limit("conversation bytes", JSON_BYTES_MAX as u64));
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        parser.skip_whitespace();
        let value = parser.value()?;
        parser.skip_whitespace();
        if parser.at < text.len() {
            return Err(parser.error("something follows the value"));
        }
        Ok(value)
    }

    /// The object's members, or `None` for another kind of value.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The string's text, or `None` for another kind of value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

impl From<serde_json::Value> for Json {
    /// Integers over 64 bits have become floats in `serde_json` already; [`Json::parse`] keeps them.
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value as Serde;
        match value {
            Serde::Null => Self::Null,
            Serde::Bool(value) => Self::Bool(value),
            Serde::Number(number) => {
                number.as_i128().map_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::NAN)), Self::Integer)
            }
            Serde::String(text) => Self::String(text),
            Serde::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Serde::Object(members) => {
                Self::Object(members.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, message: &str) -> Error {
        Error::Json { offset: self.at, message: message.to_owned() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Json, Error> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => Err(self.error("not the start of a value")),
            None => Err(self.error("the text ends where a value should be")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json, Error>) -> Result<Json, Error> {
        if self.depth == JSON_DEPTH_MAX {
            return Err(Error::limit("conversation depth", JSON_DEPTH_MAX as u64));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, Error> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error("not the start of a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self) -> Result<Json, Error> {
        let mut items = Vec::new();
        self.skip_whitespace();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            self.skip_whitespace();
            items.push(self.value()?);
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.error("an array goes on with , or ends with ]")),
            }
        }
        self.at += 1;
        Ok(Json::Array(items))
    }

    fn object(&mut self) -> Result<Json, Error> {
        let mut members = Object::new();
        self.skip_whitespace();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_whitespace();
            if self.peek() != Some(b'"') {
                return Err(self.error("an object's key must be a string"));
            }
            let key = self.string()?;
            self.skip_whitespace();
            if self.peek() != Some(b':') {
                return Err(self.error("a : must follow an object's key"));
            }
            self.at += 1;
            self.skip_whitespace();
            let value = self.value()?;
            members.insert(key, value);
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.error("an object goes on with , or ends with }")),
            }
        }
        self.at += 1;
        Ok(Json::Object(members))
    }

    fn number(&mut self) -> Result<Json, Error> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let digits = &self.text[start..self.at];
        if !whole {
            let float = digits.parse().map_err(|_| self.error("not a number"))?;
            return Ok(Json::Float(float));
        }
        Ok(digits.parse().map_or_else(|_| Json::LongInteger(digits.to_owned()), Json::Integer))
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error("a digit should be here"));
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let stop = rest
                .bytes()
                .position(|byte| byte == b'"' || byte == b'\\' || byte < 0x20)
                .ok_or_else(|| self.error("the text ends within a string"))?;
            out.push_str(&rest[..stop]);
            self.at += stop;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => out.push(self.escape()?),
                _ => return Err(self.error("a control character must be escaped in a string")),
            }
        }
        self.at += 1;
        Ok(out)
    }

    fn escape(&mut self) -> Result<char, Error> {
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        Ok(match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => {
                self.at -= 1;
                return Err(self.error("not an escape that JSON has"));
            }
        })
    }

    /// A surrogate without its other half has no character; it becomes U+FFFD, as in most parsers.
    fn unicode_escape(&mut self) -> Result<char, Error> {
        let first = self.four_hex_digits()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let mark = self.at;
            self.at += 2;
            let second = self.four_hex_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = mark;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_hex_digits(&mut self) -> Result<u32, Error> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .ok_or_else(|| self.error("\\u needs four hexadecimal digits"))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| self.error("\\u needs four hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind_of_value() {
        let json = Json::parse(
            r#" {"a": [1, -2.0, 1e3, true, false, null], "b": {"c": "\"\\\/\b\f\n\r\t\u00e9\ud83c\udf88"}, "a2": ""} "#,
        )
        .unwrap();
        let members = json.as_object().unwrap();
        assert_eq!(members.keys().collect::<Vec<_>>(), ["a", "b", "a2"]);
        assert_eq!(
            members["a"],
            Json::Array(vec![
                Json::Integer(1),
                Json::Float(-2.0),
                Json::Float(1000.0),
                Json::Bool(true),
                Json::Bool(false),
                Json::Null
            ])
        );
        let inner = members["b"].as_object().unwrap();
        assert_eq!(inner["c"].as_str(), Some("\"\\/\u{8}\u{c}\n\r\té🎈"));
    }

    #[test]
    fn integers_stay_exact_at_any_length() {
        let digits = "9".repeat(60);
        assert_eq!(Json::parse(&digits).unwrap(), Json::LongInteger(digits.clone()));
        assert_eq!(Json::parse("-12345678901234567890123").unwrap(), Json::Integer(-12345678901234567890123));
    }

    #[test]
    fn refuses_what_is_not_json() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\" 1}",
            "{a:1}",
            "01",
            "1.",
            "-",
            "nul",
            "\"a",
            "\"\\x\"",
            "\"\u{1}\"",
            "1 2",
            "[1 2]",
            "\"\\u12g4\"",
            "+1",
            "\"\\u00é\"",
        ] {
            assert!(matches!(Json::parse(text), Err(Error::Json { .. })), "{text}");
        }
    }

    #[test]
    fn depth_is_limited() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(Json::parse(&deep(JSON_DEPTH_MAX)).is_ok());
        assert!(matches!(Json::parse(&deep(JSON_DEPTH_MAX + 1)), Err(Error::Limit { .. })));
        assert!(Json::parse(&deep(1_000_000)).is_err());
    }

    #[test]
    fn a_repeated_key_keeps_its_last_value() {
        let json = Json::parse(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap();
        assert_eq!(
            json.as_object().unwrap().iter().collect::<Vec<_>>(),
            [(&"a".to_owned(), &Json::Integer(3)), (&"b".to_owned(), &Json::Integer(2))]
        );
    }
}
