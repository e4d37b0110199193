//! `POST /tokenize` and `/detokenize`: texts and token ids.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::Special;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::App;
use crate::answers::blocking;
use crate::ask::Prompt;
use crate::body::{self, Fields};
use crate::error::{Dialect, Problem};
use crate::wire::read_messages;

#[derive(Debug, Deserialize)]
struct Sent {
    model: Option<String>,
    #[serde(alias = "prompt", alias = "text")]
    content: Option<String>,
    /// Whether what begins and ends a text is put there.
    #[serde(alias = "add_special_tokens")]
    add_special: Option<bool>,
    /// Whether the names of special tokens become special tokens.
    parse_special: Option<bool>,
    with_pieces: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct SentTokens {
    model: Option<String>,
    tokens: Vec<u32>,
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
        let mut answer = json!({ "count": tokens.len(), "max_model_len": model.window_tokens() });
        answer["tokens"] = if sent.with_pieces.unwrap_or(false) {
            let piece = |&id: &u32| {
                let bytes = tokenizer.token_bytes(id).unwrap_or_default();
                let piece = std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text));
                json!({ "id": id, "piece": piece })
            };
            tokens.iter().map(piece).collect()
        } else {
            json!(tokens)
        };
        Ok::<Value, Problem>(answer)
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
        Ok(json!({ "content": text, "prompt": text }))
    };
    Ok(Json(blocking(work).await??).into_response())
}
