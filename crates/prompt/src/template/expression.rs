//! Expressions, read by Jinja2's grammar and written again for the engine with every operator, literal and subscript as
//! a call to one of [`super::operators`]. What is written is always a name, a call or something in brackets, so that no
//! precedence but Jinja2's, which is in the order of the functions below, plays a part.

use super::Error;
use super::text::Text;
use super::tokens::Token;

/// Names that only this crate may use.
const RESERVED: &str = "_kauri_";
/// The deepest that brackets and operators may be nested in an expression.
const EXPRESSION_DEPTH_MAX: usize = 48;
/// The most operations of one tag that the engine's compiler nests within each other (it goes down one call each).
const EXPRESSION_LINKS_MAX: usize = 1000;

/// Reads a tag's words.
pub(super) struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    links: usize,
    line: usize,
}

impl Parser {
    /// A parser of the words of one tag that began at `line`.
    pub fn new(tokens: Vec<(Token, usize)>, line: usize) -> Self {
        Self { tokens, at: 0, depth: 0, links: 0, line }
    }

    pub fn error(&self, message: impl Into<String>) -> Error {
        let line = self.tokens.get(self.at).map_or(self.line, |(_, line)| *line);
        Error::syntax(line, message.into())
    }

    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn peek_second(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1).map(|(token, _)| token)
    }

    pub fn at_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    pub fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(found)) if found == word)
    }

    pub fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.at_sign(sign);
        self.at += usize::from(found);
        found
    }

    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        self.at += usize::from(found);
        found
    }

    pub fn expect_sign(&mut self, sign: &str) -> Result<(), Error> {
        if self.take_sign(sign) {
            return Ok(());
        }
        Err(self.error(format!("expected {sign}")))
    }

    /// Counts an operation that the engine will nest.
    fn link(&mut self) -> Result<(), Error> {
        self.links += 1;
        if self.links > EXPRESSION_LINKS_MAX {
            return Err(self.error(format!("a tag of over {EXPRESSION_LINKS_MAX} operations")));
        }
        Ok(())
    }

    /// A name that is not this crate's own.
    pub fn name(&mut self) -> Result<String, Error> {
        let Some(Token::Name(name)) = self.peek() else {
            return Err(self.error("expected a name"));
        };
        if name.starts_with(RESERVED) {
            return Err(self.error(format!("names that start with {RESERVED} are reserved")));
        }
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    /// Nothing may be left of the tag.
    pub fn end(&self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("the tag should end here")),
        }
    }

    /// An expression, or several with commas between: a tuple.
    pub fn tuple(&mut self) -> Result<String, Error> {
        self.tuple_of(Self::expression)
    }

    /// The same without `a if b`, whose `if` is a loop's filter here.
    pub fn loop_tuple(&mut self) -> Result<String, Error> {
        self.tuple_of(Self::either)
    }

    fn tuple_of(&mut self, item: fn(&mut Self) -> Result<String, Error>) -> Result<String, Error> {
        let first = item(self)?;
        if !self.at_sign(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_sign(",") {
            let ends = matches!(self.peek(), None | Some(Token::Sign(")" | "]" | "}" | "=")))
                || self.at_word("if")
                || self.at_word("recursive");
            if ends {
                break;
            }
            items.push(item(self)?);
        }
        Ok(format!("_kauri_tuple({})", items.join(",")))
    }

    /// `a if b else c`
    pub fn expression(&mut self) -> Result<String, Error> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(self.error(format!("an expression nested over {EXPRESSION_DEPTH_MAX} levels")));
        }
        let mut value = self.either()?;
        while self.take_word("if") {
            self.link()?;
            let condition = self.either()?;
            value = if self.take_word("else") {
                format!("({value} if {condition} else {})", self.expression()?)
            } else {
                format!("({value} if {condition})")
            };
        }
        self.depth -= 1;
        Ok(value)
    }

    /// `a or b`
    pub fn either(&mut self) -> Result<String, Error> {
        self.chain_of_words("or", Self::both)
    }

    /// `a and b`
    fn both(&mut self) -> Result<String, Error> {
        self.chain_of_words("and", Self::not)
    }

    fn chain_of_words(&mut self, word: &str, part: fn(&mut Self) -> Result<String, Error>) -> Result<String, Error> {
        let mut parts = vec![part(self)?];
        while self.take_word(word) {
            self.link()?;
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => format!("({})", parts.join(&format!(" {word} "))),
        })
    }

    /// `not a`
    fn not(&mut self) -> Result<String, Error> {
        let mut negated = false;
        let mut found = false;
        while self.take_word("not") {
            negated = !negated;
            found = true;
        }
        let value = self.comparison()?;
        Ok(match (found, negated) {
            (false, _) => value,
            (true, true) => format!("(not {value})"),
            (true, false) => format!("(not (not {value}))"),
        })
    }

    /// `a < b <= c`, `a in b`
    fn comparison(&mut self) -> Result<String, Error> {
        let mut parts = vec![self.sum()?];
        loop {
            let operator = match self.peek() {
                Some(Token::Sign(sign @ ("==" | "!=" | ">" | "<" | ">=" | "<="))) => *sign,
                Some(Token::Name(name)) if name == "in" => "in",
                Some(Token::Name(name)) if name == "not" => match self.peek_second() {
                    Some(Token::Name(second)) if second == "in" => {
                        self.at += 1;
                        "not in"
                    }
                    _ => break,
                },
                _ => break,
            };
            self.at += 1;
            parts.push(format!("\"{operator}\""));
            parts.push(self.sum()?);
        }
        Ok(call("_kauri_compare", parts))
    }

    /// `a + b - c`
    fn sum(&mut self) -> Result<String, Error> {
        self.chain_of_signs(&["+", "-"], Self::concatenation)
    }

    /// `a ~ b ~ c`
    fn concatenation(&mut self) -> Result<String, Error> {
        let first = self.product()?;
        if !self.at_sign("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_sign("~") {
            parts.push(self.product()?);
        }
        Ok(format!("_kauri_concat({})", parts.join(",")))
    }

    /// `a * b / c // d % e`
    fn product(&mut self) -> Result<String, Error> {
        self.chain_of_signs(&["*", "/", "//", "%"], Self::power)
    }

    fn chain_of_signs(
        &mut self,
        signs: &[&'static str],
        part: fn(&mut Self) -> Result<String, Error>,
    ) -> Result<String, Error> {
        let mut parts = vec![part(self)?];
        while let Some(sign) = signs.iter().find(|sign| self.at_sign(sign)) {
            self.at += 1;
            parts.push(format!("\"{sign}\""));
            parts.push(part(self)?);
        }
        Ok(call("_kauri_arithmetic", parts))
    }

    /// `a ** b`
    fn power(&mut self) -> Result<String, Error> {
        let mut value = self.unary(true)?;
        while self.take_sign("**") {
            self.link()?;
            value = format!("_kauri_power({value},{})", self.unary(true)?);
        }
        Ok(value)
    }

    /// `-a`; filters and tests bind weaker than the sign.
    fn unary(&mut self, with_filters: bool) -> Result<String, Error> {
        let negative = self.at_sign("-");
        let value = if negative || self.at_sign("+") {
            self.at += 1;
            self.depth += 1;
            if self.depth > EXPRESSION_DEPTH_MAX {
                return Err(self.error(format!("an expression nested over {EXPRESSION_DEPTH_MAX} levels")));
            }
            let value = self.unary(false)?;
            self.depth -= 1;
            format!("_kauri_{}({value})", if negative { "negate" } else { "plus" })
        } else {
            let value = self.primary()?;
            self.postfix(value)?
        };
        if with_filters { self.filters(value) } else { Ok(value) }
    }

    fn primary(&mut self) -> Result<String, Error> {
        let Some(token) = self.peek().cloned() else {
            return Err(self.error("the tag ends where a value should be"));
        };
        match token {
            Token::Name(name) => {
                let literal = match name.as_str() {
                    "true" | "True" => "true",
                    "false" | "False" => "false",
                    "none" | "None" => "none",
                    _ => return self.name(),
                };
                self.at += 1;
                Ok(literal.to_owned())
            }
            Token::Integer(digits) | Token::Float(digits) => {
                self.at += 1;
                Ok(format!("({digits})"))
            }
            Token::Text(mut text) => {
                self.at += 1;
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Ok(literal(&text))
            }
            Token::Sign("(") => {
                self.at += 1;
                if self.take_sign(")") {
                    return Ok("_kauri_tuple()".to_owned());
                }
                let value = self.tuple()?;
                self.expect_sign(")")?;
                Ok(value)
            }
            Token::Sign("[") => {
                self.at += 1;
                let items = self.items("]", Self::expression)?;
                Ok(format!("_kauri_list({})", items.join(",")))
            }
            Token::Sign("{") => {
                self.at += 1;
                let pairs = self.items("}", Self::pair)?;
                Ok(format!("_kauri_dict({})", pairs.join(",")))
            }
            Token::Sign(sign) => Err(self.error(format!("{sign} where a value should be"))),
        }
    }

    fn pair(&mut self) -> Result<String, Error> {
        let key = self.expression()?;
        self.expect_sign(":")?;
        Ok(format!("{key},{}", self.expression()?))
    }

    fn items(&mut self, close: &str, item: fn(&mut Self) -> Result<String, Error>) -> Result<Vec<String>, Error> {
        let mut items = Vec::new();
        while !self.take_sign(close) {
            if !items.is_empty() {
                self.expect_sign(",")?;
                if self.take_sign(close) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `a.b`, `a[b]`, `a(b)`
    fn postfix(&mut self, mut value: String) -> Result<String, Error> {
        loop {
            if self.take_sign(".") {
                value = self.attribute(&value)?;
            } else if self.take_sign("[") {
                value = self.subscript(&value)?;
            } else if self.at_sign("(") {
                value = format!("{value}({})", self.arguments()?.written.join(","));
            } else {
                return Ok(value);
            }
        }
    }

    fn attribute(&mut self, value: &str) -> Result<String, Error> {
        self.link()?;
        if let Some(Token::Integer(index)) = self.peek().cloned() {
            self.at += 1;
            return Ok(format!("_kauri_item({value},({index}))"));
        }
        let name = self.name()?;
        if !self.at_sign("(") {
            return Ok(format!("{value}.{name}"));
        }
        let arguments = self.arguments()?;
        if name == "cycle" && arguments.positional == 0 {
            return Err(self.error("cycle needs a value to give"));
        }
        let written = match name.as_str() {
            // The engine keeps these to compare with the next ones.
            "changed" => arguments.written.iter().map(|value| format!("_kauri_keep({value})")).collect(),
            _ => arguments.written,
        };
        Ok(format!("{value}.{name}({})", written.join(",")))
    }

    fn subscript(&mut self, value: &str) -> Result<String, Error> {
        self.link()?;
        let mut bounds = [const { None }; 3];
        let mut colons = 0;
        let mut keys = Vec::new();
        loop {
            if self.take_sign(":") {
                colons += 1;
                if colons > 2 {
                    return Err(self.error("a slice has at most three parts"));
                }
            } else if self.take_sign("]") {
                break;
            } else {
                let part = self.expression()?;
                bounds[colons] = Some(part.clone());
                keys.push(part);
                if self.take_sign(",") && colons > 0 {
                    return Err(self.error("a slice cannot be part of a tuple"));
                }
            }
        }
        if colons > 0 {
            let bounds = bounds.map(|bound| bound.unwrap_or_else(|| "none".to_owned()));
            return Ok(format!("_kauri_slice({value},{})", bounds.join(",")));
        }
        match keys.as_slice() {
            [] => Err(self.error("a subscript needs a key")),
            [key] => Ok(format!("_kauri_item({value},{key})")),
            keys => Ok(format!("_kauri_item({value},_kauri_tuple({}))", keys.join(","))),
        }
    }

    fn arguments(&mut self) -> Result<CallArguments, Error> {
        self.link()?;
        self.expect_sign("(")?;
        let mut positional = 0;
        let written = self.items(")", |parser| match parser.peek() {
            Some(Token::Sign(star @ ("*" | "**"))) => {
                let star = *star;
                parser.at += 1;
                Ok(format!("{star}{}", parser.expression()?))
            }
            Some(Token::Name(_)) if matches!(parser.peek_second(), Some(Token::Sign("="))) => {
                let name = parser.name()?;
                parser.at += 1;
                Ok(format!("{name}={}", parser.expression()?))
            }
            _ => parser.expression(),
        })?;
        for argument in &written {
            // What is written for an expression starts with a name, a quote or a bracket; a name's `=` follows it at once.
            let named = argument.find(|c: char| !c.is_alphanumeric() && c != '_');
            let is_named = named.is_some_and(|at| argument[at..].starts_with('='));
            positional += usize::from(!is_named && !argument.starts_with('*'));
        }
        Ok(CallArguments { written, positional })
    }

    /// `a|b(c)`, `a is b`
    fn filters(&mut self, mut value: String) -> Result<String, Error> {
        loop {
            if self.take_sign("|") {
                value = format!("({})", self.filter(&value)?);
            } else if self.take_word("is") {
                value = self.test(&value)?;
            } else if self.at_sign("(") {
                value = format!("({value})({})", self.arguments()?.written.join(","));
            } else {
                return Ok(value);
            }
        }
    }

    /// A filter's name and arguments, applied to `value`.
    pub fn filter(&mut self, value: &str) -> Result<String, Error> {
        self.link()?;
        let name = self.name()?;
        let arguments =
            if self.at_sign("(") { format!("({})", self.arguments()?.written.join(",")) } else { String::new() };
        Ok(format!("{value}|{name}{arguments}"))
    }

    fn test(&mut self, value: &str) -> Result<String, Error> {
        self.link()?;
        let negated = if self.take_word("not") { "not " } else { "" };
        let name = self.name()?;
        // The engine's parser knows some of these names as words of its own.
        let name = match name.as_str() {
            "in" => "_kauri_in",
            "none" | "None" => "none",
            "true" | "True" => "true",
            "false" | "False" => "false",
            other => other,
        };
        let has_argument = match self.peek() {
            Some(Token::Name(word)) => !matches!(word.as_str(), "else" | "or" | "and" | "is" | "if" | "not" | "in"),
            Some(Token::Sign(sign)) => matches!(*sign, "[" | "{"),
            Some(_) => true,
            None => false,
        };
        let arguments = if self.at_sign("(") {
            format!("({})", self.arguments()?.written.join(","))
        } else if has_argument {
            let argument = self.primary()?;
            format!("({})", self.postfix(argument)?)
        } else {
            String::new()
        };
        Ok(format!("({value} is {negated}{name}{arguments})"))
    }
}

struct CallArguments {
    written: Vec<String>,
    positional: usize,
}

fn call(function: &str, mut parts: Vec<String>) -> String {
    match parts.len() {
        1 => parts.remove(0),
        _ => format!("{function}({})", parts.join(",")),
    }
}

/// A string of the template's own as the engine reads it, and as a render keeps it.
pub(super) fn literal(text: &str) -> String {
    let marked = Text::own(text).encode();
    format!("\"{}\"", marked.replace('\\', "\\\\").replace('"', "\\\""))
}
