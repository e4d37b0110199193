//! The endpoints: one file each, with its own wire types.

mod adapters;
mod chat_completions;
mod completions;
mod embeddings;
mod events;
mod health;
mod messages;
mod metrics;
mod models;
mod ollama;
mod openapi;
mod rerank;
mod responses;
mod tokens;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::handler::Handler;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{self, MethodRouter};

use crate::App;
use crate::document::{self, Sheet};
use crate::error::{Dialect, Problem};

/// An endpoint: where it is, who answers, and what it says of itself.
struct Endpoint {
    answers: MethodRouter<Arc<App>>,
    entry: document::Entry,
}

/// Every endpoint. The router and the document are both made of these.
fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/", crate::assets::page, crate::assets::page_sheet()),
        get("/assets/{*path}", crate::assets::asset, crate::assets::asset_sheet()),
        post("/api/chat", ollama::chat::chat, ollama::chat::sheet()),
        post("/api/embed", ollama::embed::embed, ollama::embed::sheet()),
        post("/api/generate", ollama::generate::generate, ollama::generate::sheet()),
        get("/api/ps", ollama::catalogue::running, ollama::catalogue::running_sheet()),
        post("/api/show", ollama::catalogue::show, ollama::catalogue::show_sheet()),
        get("/api/tags", ollama::catalogue::tags, ollama::catalogue::tags_sheet()),
        get("/api/version", ollama::catalogue::version, ollama::catalogue::version_sheet()),
        post("/detokenize", tokens::detokenize, tokens::detokenize_sheet()),
        get("/events", events::events, events::sheet()),
        get("/health", health::health, health::health_sheet()),
        post("/infill", completions::infill, completions::infill_sheet()),
        get("/lora-adapters", adapters::list, adapters::list_sheet()),
        post("/lora-adapters", adapters::set, adapters::set_sheet()),
        get("/metrics", metrics::metrics, metrics::sheet()),
        get("/openapi.json", openapi::openapi, openapi::sheet()),
        get("/ready", health::ready, health::ready_sheet()),
        post("/rerank", rerank::rerank, rerank::sheet()),
        post("/tokenize", tokens::tokenize, tokens::tokenize_sheet()),
        post("/v1/chat/completions", chat_completions::complete, chat_completions::sheet()),
        post("/v1/completions", completions::complete, completions::sheet()),
        post("/v1/embeddings", embeddings::embed, embeddings::sheet()),
        post("/v1/messages", messages::answer, messages::sheet()),
        post("/v1/messages/count_tokens", messages::count, messages::count_sheet()),
        get("/v1/models", models::list, models::list_sheet()),
        get("/v1/models/{*name}", models::show, models::show_sheet()),
        post("/v1/rerank", rerank::rerank, rerank::sheet()),
        post("/v1/responses", responses::create, responses::sheet()),
    ]
}

fn get<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<App>>, sheet: Sheet) -> Endpoint {
    Endpoint { answers: routing::get(handler), entry: document::Entry { path, method: "get", sheet } }
}

fn post<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<App>>, sheet: Sheet) -> Endpoint {
    Endpoint { answers: routing::post(handler), entry: document::Entry { path, method: "post", sheet } }
}

/// What the endpoints say of themselves.
pub fn document() -> &'static serde_json::Value {
    static DOCUMENT: OnceLock<serde_json::Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| document::document(endpoints().into_iter().map(|endpoint| endpoint.entry).collect()))
}

/// Every endpoint, behind its guard.
pub fn router(app: Arc<App>) -> Router {
    let add = |router: Router<Arc<App>>, endpoint: Endpoint| router.route(endpoint.entry.path, endpoint.answers);
    endpoints()
        .into_iter()
        .fold(Router::new(), add)
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
