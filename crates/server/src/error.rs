//! Every error that a client may see, and how each dialect writes it: the one place where errors become HTTP.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kauri_engine::grammar;
use serde_json::{Value as Json, json};

/// Seconds after which a client that found the queue full may ask again.
const QUEUE_RETRY_S: u32 = 1;

/// Whose words an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `/v1/…`, and our own.
    OpenAi,
    /// `/v1/messages`.
    Anthropic,
    /// `/api/…`.
    Ollama,
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// What happened and what to do.
    pub message: String,
    /// The field that is to blame.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
    /// Seconds after which it is worth trying again.
    pub retry_after_s: Option<u32>,
}

impl Dialect {
    pub const ALL: [Self; 3] = [Self::OpenAi, Self::Anthropic, Self::Ollama];

    /// Whose words they are.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Ollama => "Ollama",
        }
    }

    /// What its errors are called in the `OpenAPI` document.
    pub fn error_name(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAiError",
            Self::Anthropic => "AnthropicError",
            Self::Ollama => "OllamaError",
        }
    }

    /// The dialect of a path, for errors that come before any endpoint has the request.
    pub fn of(path: &str) -> Self {
        if path.starts_with("/api/") {
            Self::Ollama
        } else if path.starts_with("/v1/messages") {
            Self::Anthropic
        } else {
            Self::OpenAi
        }
    }

    /// An endpoint's outcome as a response.
    pub fn answer(self, outcome: Result<Response, Problem>) -> Response {
        outcome.unwrap_or_else(|problem| problem.response(self))
    }
}

impl Problem {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None, retry_after_s: None }
    }

    /// A field has a value that it may not have; `message` goes on behind its name.
    pub fn field(param: &str, message: impl AsRef<str>) -> Self {
        let message = format!("{param}: {}", message.as_ref());
        Self { param: Some(param.to_owned()), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    /// Something is wrong that no request brought about.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// What it is in the words of a dialect.
    pub fn json(&self, dialect: Dialect) -> Json {
        match dialect {
            Dialect::OpenAi => json!({ "error": {
                "message": self.message,
                "type": self.openai_type(),
                "param": self.param,
                "code": self.code,
            } }),
            Dialect::Anthropic => json!({
                "type": "error",
                "error": { "type": self.anthropic_type(), "message": self.message },
            }),
            Dialect::Ollama => json!({ "error": self.message }),
        }
    }

    pub fn response(&self, dialect: Dialect) -> Response {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (self.status, headers, self.json(dialect).to_string()).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn openai_type(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status {
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => self.openai_type(),
        }
    }
}

impl From<kauri_engine::Error> for Problem {
    fn from(error: kauri_engine::Error) -> Self {
        use kauri_engine::Error;
        let message = error.to_string();
        match &error {
            Error::QueueFull { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("queue_full").retry_after(QUEUE_RETRY_S)
            }
            Error::Stopped => Self::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(QUEUE_RETRY_S),
            Error::PromptTooLong { .. } => Self {
                param: Some("messages".to_owned()),
                code: Some("context_length_exceeded"),
                ..Self::new(StatusCode::BAD_REQUEST, message)
            },
            Error::Sampling(inner) => {
                Self { param: Some(inner.field.to_owned()), ..Self::new(StatusCode::BAD_REQUEST, message) }
            }
            Error::Stop(_) => Self { param: Some("stop".to_owned()), ..Self::new(StatusCode::BAD_REQUEST, message) },
            Error::Tools(_) => Self { param: Some("tools".to_owned()), ..Self::new(StatusCode::BAD_REQUEST, message) },
            Error::Grammar(inner) => of_grammar(inner),
            Error::NoTemplate => Self::new(
                StatusCode::BAD_REQUEST,
                "this model has no chat template: it cannot hold a conversation; use /v1/completions to continue plain text",
            ),
            other if other.is_input() => Self::new(StatusCode::BAD_REQUEST, message),
            _ => Self::internal(message),
        }
    }
}

/// The schema of what [`Problem::json`] makes.
pub fn envelope(dialect: Dialect) -> Json {
    let text = json!({ "type": "string" });
    let maybe = json!({ "type": ["string", "null"] });
    let object = |required: &[&str], properties: Json| json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false });
    let kinds = |more: &[&str]| {
        let all = [
            "authentication_error",
            "permission_error",
            "not_found_error",
            "rate_limit_error",
            "overloaded_error",
            "invalid_request_error",
        ];
        let all = [&all[..], more].concat();
        json!({ "type": "string", "enum": all })
    };
    let inner = match dialect {
        Dialect::OpenAi => object(
            &["message", "type", "param", "code"],
            json!({ "message": text, "type": kinds(&["server_error"]), "param": maybe, "code": maybe }),
        ),
        Dialect::Anthropic => {
            let kinds = kinds(&["request_too_large", "api_error"]);
            let error = object(&["type", "message"], json!({ "type": kinds, "message": text }));
            let kind = json!({ "type": "string", "enum": ["error"] });
            return object(&["type", "error"], json!({ "type": kind, "error": error }));
        }
        Dialect::Ollama => text,
    };
    object(&["error"], json!({ "error": inner }))
}

fn of_grammar(error: &grammar::Error) -> Problem {
    let param = Some("response_format".to_owned());
    match error {
        grammar::Error::Unsupported { keyword, .. } => Problem {
            param: Some(keyword.clone()),
            code: Some("schema_not_enforceable"),
            ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        },
        grammar::Error::Impossible { .. } | grammar::Error::TooComplex(_) => Problem {
            param,
            code: Some("schema_not_enforceable"),
            ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        },
        grammar::Error::Invalid { .. } | grammar::Error::Syntax { .. } | grammar::Error::Limit { .. } => {
            Problem { param, ..Problem::new(StatusCode::BAD_REQUEST, error.to_string()) }
        }
        grammar::Error::InTool { error: inner, .. } => {
            let problem = of_grammar(inner);
            let param = problem.param.filter(|_| matches!(**inner, grammar::Error::Unsupported { .. }));
            Problem { message: error.to_string(), param: param.or_else(|| Some("tools".to_owned())), ..problem }
        }
        grammar::Error::NoToken | grammar::Error::Disobeyed(_) => Problem::internal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_has_its_envelope() {
        let problem = Problem::field("n", "must be at least 1");
        assert_eq!(
            problem.json(Dialect::OpenAi),
            json!({ "error": { "message": "n: must be at least 1", "type": "invalid_request_error", "param": "n", "code": null } })
        );
        assert_eq!(
            problem.json(Dialect::Anthropic),
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "n: must be at least 1" } })
        );
        assert_eq!(problem.json(Dialect::Ollama), json!({ "error": "n: must be at least 1" }));
        assert_eq!(Dialect::of("/v1/messages/count_tokens"), Dialect::Anthropic);
        assert_eq!(Dialect::of("/api/chat"), Dialect::Ollama);
        assert_eq!(Dialect::of("/v1/models"), Dialect::OpenAi);
    }

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let response = Problem::from(kauri_engine::Error::QueueFull { waiting: 9 }).response(Dialect::OpenAi);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
