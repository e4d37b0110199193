//! The endpoints: one file each, with its own wire types.

mod chat_completions;
mod completions;
mod embeddings;
mod health;
mod messages;
mod metrics;
mod models;
mod ollama;
mod rerank;
mod responses;
mod tokens;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};

use crate::App;
use crate::error::{Dialect, Problem};

/// Every endpoint.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(crate::assets::page))
        .route("/assets/{*path}", get(crate::assets::asset))
        .route("/api/chat", post(ollama::chat::chat))
        .route("/api/embed", post(ollama::embed::embed))
        .route("/api/generate", post(ollama::generate::generate))
        .route("/api/ps", get(ollama::catalogue::running))
        .route("/api/show", post(ollama::catalogue::show))
        .route("/api/tags", get(ollama::catalogue::tags))
        .route("/api/version", get(ollama::catalogue::version))
        .route("/detokenize", post(tokens::detokenize))
        .route("/health", get(health::health))
        .route("/infill", post(completions::infill))
        .route("/metrics", get(metrics::metrics))
        .route("/ready", get(health::ready))
        .route("/rerank", post(rerank::rerank))
        .route("/tokenize", post(tokens::tokenize))
        .route("/v1/chat/completions", post(chat_completions::complete))
        .route("/v1/completions", post(completions::complete))
        .route("/v1/embeddings", post(embeddings::embed))
        .route("/v1/messages", post(messages::answer))
        .route("/v1/messages/count_tokens", post(messages::count))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*name}", get(models::show))
        .route("/v1/rerank", post(rerank::rerank))
        .route("/v1/responses", post(responses::create))
        .fallback(unknown)
        .method_not_allowed_fallback(not_so)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), crate::guard::guard))
        .with_state(app)
}

async fn unknown(method: Method, uri: Uri) -> Response {
    let message = format!("there is nothing at {method} {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, message).response(Dialect::of(uri.path()))
}

async fn not_so(method: Method, uri: Uri) -> Response {
    let message = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, message).response(Dialect::of(uri.path()))
}
