//! Why a grammar is refused, or an answer under one cannot go on.

/// An error of a grammar. A place in a schema is a JSON pointer, empty for the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A keyword says something that cannot be made sure of while text is written.
    #[error("{keyword:?} at {} cannot be enforced: {reason}", place(.pointer))]
    Unsupported {
        /// The keyword.
        keyword: String,
        /// Where it stands.
        pointer: String,
        /// What stands in the way.
        reason: String,
    },
    /// A keyword's value makes no sense.
    #[error("{keyword:?} at {} is wrong: {reason}", place(.pointer))]
    Invalid {
        /// The keyword.
        keyword: String,
        /// Where it stands.
        pointer: String,
        /// What is wrong.
        reason: String,
    },
    /// The text is not a grammar of its kind.
    #[error("the {kind} cannot be read: {reason}")]
    Syntax {
        /// What it was taken for.
        kind: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// It is larger than what is accepted.
    #[error("the {kind} has more than {limit} {what}")]
    Limit {
        /// What was given.
        kind: &'static str,
        /// What there is too much of.
        what: &'static str,
        /// The most.
        limit: usize,
    },
    /// Nothing at all, or nothing but impossible values, would obey it.
    #[error("nothing obeys the {kind}: {reason}")]
    Impossible {
        /// What was given.
        kind: &'static str,
        /// Why.
        reason: String,
    },
    /// It takes too much work to follow: when it is compiled, or in the middle of an answer.
    #[error("the grammar is too complex: {0}; simplify it, or bound its repetitions")]
    TooComplex(String),
    /// The vocabulary has no token that the grammar would allow next.
    #[error("the vocabulary has no token for what the grammar asks for next")]
    NoToken,
    /// What a tool says of its arguments is refused.
    #[error("the parameters of the tool {tool:?}: {error}; let it say \"strict\": false if they need not be enforced")]
    InTool {
        /// The tool.
        tool: String,
        /// Why.
        error: Box<Self>,
    },
    /// A token that the grammar does not allow was written.
    #[error("token {0} does not obey the grammar")]
    Disobeyed(u32),
}

impl Error {
    /// The same of what a tool says of its arguments.
    pub(crate) fn in_tool(self, tool: &str) -> Self {
        Self::InTool { tool: tool.to_owned(), error: Box::new(self) }
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "the top" } else { pointer }
}
