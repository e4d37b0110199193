//! `POST /tokenize` and `/detokenize`: texts and token ids.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::Special;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::answers::blocking;
use crate::ask::Prompt;
use crate::body::{self, Fields};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::wire::{SentMessages, read_messages};

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    /// The text, also called `prompt` and `text`; where it is missing, there are `messages`.
    #[serde(alias = "prompt", alias = "text")]
    content: Option<String>,
    /// Whether what begins and ends a text is put there.
    #[serde(alias = "add_special_tokens")]
    add_special: Option<bool>,
    /// Whether the names of special tokens become special tokens.
    parse_special: Option<bool>,
    with_pieces: Option<bool>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct SentTokens {
    model: Option<String>,
    #[schema(schema_with = ids_schema)]
    tokens: Vec<u32>,
}

schema!(ids_schema, { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX } });

#[derive(Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the dialect's names")]
struct Tokens {
    count: usize,
    /// Tokens of the window.
    max_model_len: u32,
    tokens: Vec<Token>,
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Token {
    Id(u32),
    Piece { id: u32, piece: Piece },
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Piece {
    Text(String),
    /// What is no whole character.
    Bytes(Vec<u8>),
}

#[derive(Serialize, ToSchema)]
struct Text {
    content: String,
    prompt: String,
}

pub fn tokenize_sheet() -> Sheet {
    let sheet = Sheet::new("The token ids of a text or a conversation.").takes::<Sent>().takes::<SentMessages>();
    sheet.optional("messages").gives::<Tokens>().fails(&[404, 503])
}

pub fn detokenize_sheet() -> Sheet {
    Sheet::new("The text of token ids.").takes::<SentTokens>().gives::<Text>().fails(&[404, 503])
}

pub async fn tokenize(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::OpenAi.answer(to_tokens(&app, request).await)
}

pub async fn detokenize(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::OpenAi.answer(to_text(&app, request).await)
}

async fn to_tokens(app: &App, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let fields = blocking(move || Fields::parse(&bytes)).await??;
    let sent: Sent = fields.read()?;
    // A conversation beside a text is not looked at further, and is one all the same.
    if sent.content.is_some() && fields.has("messages") {
        read_messages(&fields)?;
    }
    let model = app.models.get(sent.model.as_deref()).await?;
    let work = move || {
        let tokenizer = model.tokenizer();
        let tokens = match &sent.content {
            None => {
                let mut chat = read_messages(&fields)?;
                chat.set_reasoning(false);
                Prompt::chat(chat, None).tokens(model.service()?)?
            }
            Some(text) => {
                let special = if sent.parse_special.unwrap_or(false) { Special::Parse } else { Special::Text };
                let tokens = tokenizer.encode(text, special);
                let is_whole = sent.add_special.unwrap_or(false);
                if is_whole { [tokenizer.prefix(), &tokens, tokenizer.suffix()].concat() } else { tokens }
            }
        };
        let with_pieces = sent.with_pieces.unwrap_or(false);
        let token = |&id: &u32| {
            if !with_pieces {
                return Token::Id(id);
            }
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            let text = std::str::from_utf8(bytes);
            let piece = text.map_or_else(|_| Piece::Bytes(bytes.to_vec()), |text| Piece::Text(text.to_owned()));
            Token::Piece { id, piece }
        };
        let (count, max_model_len) = (tokens.len(), model.window_tokens());
        Ok::<_, Problem>(Tokens { count, max_model_len, tokens: tokens.iter().map(token).collect() })
    };
    Ok(Json(blocking(work).await??).into_response())
}

async fn to_text(app: &App, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let sent: SentTokens = blocking(move || Fields::parse(&bytes)?.read()).await??;
    let model = app.models.get(sent.model.as_deref()).await?;
    let work = move || {
        let vocab = model.tokenizer().vocab_size();
        if let Some(index) = sent.tokens.iter().position(|&token| token as usize >= vocab) {
            let message = format!("is not in the vocabulary of {vocab}");
            return Err(Problem::field(&format!("tokens[{index}]"), message));
        }
        let text = String::from_utf8_lossy(&model.tokenizer().decode(&sent.tokens, true)).into_owned();
        // The one name is llama.cpp's, the other vLLM's.
        Ok(Text { content: text.clone(), prompt: text })
    };
    Ok(Json(blocking(work).await??).into_response())
}
