//! `GET /api/tags`, `/api/ps`, `/api/version` and `POST /api/show`: which models there are, and what they are.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::App;
use crate::answers::blocking;
use crate::body::{self, Fields};
use crate::error::{Dialect, Problem};
use crate::models::{self, Known};
use crate::wire::timestamp;

#[derive(Debug, Deserialize)]
struct Sent {
    #[serde(alias = "name")]
    model: String,
}

pub async fn tags(State(app): State<Arc<App>>) -> Json<Value> {
    let models: Vec<Value> = app.models.all().into_iter().map(|(known, _)| entry(known)).collect();
    Json(json!({ "models": models }))
}

pub async fn running(State(app): State<Arc<App>>) -> Json<Value> {
    let running = |known: &Known| {
        let mut entry = entry(known);
        entry["size_vram"] = 0.into();
        entry["context_length"] = known.facts.context_tokens.into();
        // Nobody knows who asks for it next.
        entry["expires_at"] = "9999-12-31T23:59:59Z".into();
        entry
    };
    let loaded = app.models.all().into_iter().filter(|(_, state)| *state == models::State::Loaded);
    let models: Vec<Value> = loaded.map(|(known, _)| running(known)).collect();
    Json(json!({ "models": models }))
}

pub async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

pub async fn show(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::Ollama.answer(describe(&app, request).await)
}

async fn describe(app: &App, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let fields = blocking(move || Fields::parse(&bytes)).await??;
    let sent: Sent = fields.read()?;
    let model = app.models.look_up(&sent.model)?;
    let facts = &model.facts;
    let mut capabilities = Vec::new();
    capabilities.push(if facts.writes { "completion" } else { "embedding" });
    if facts.template.is_some() {
        capabilities.push("tools");
    }
    if facts.template.as_ref().is_some_and(|template| template.contains("think")) {
        capabilities.push("thinking");
    }
    let architecture = facts.architecture;
    let info = json!({
        "general.architecture": architecture,
        "general.parameter_count": facts.parameters,
        format!("{architecture}.context_length"): facts.context_tokens,
        format!("{architecture}.block_count"): facts.layers,
        format!("{architecture}.embedding_length"): facts.hidden,
    });
    let answer = json!({
        "modelfile": "",
        "parameters": "",
        "template": facts.template,
        "details": details(model),
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": modified(model),
    });
    Ok(Json(answer).into_response())
}

fn entry(model: &Known) -> Value {
    json!({
        "name": model.entry.name,
        "model": model.entry.name,
        "modified_at": modified(model),
        "size": model.facts.bytes,
        "digest": blake3::hash(model.entry.name.as_bytes()).to_hex().as_str(),
        "details": details(model),
    })
}

fn modified(model: &Known) -> String {
    timestamp(Duration::from_secs(model.found_s))
}

fn details(model: &Known) -> Value {
    let facts = &model.facts;
    let billions = facts.parameters as f64 / 1e9;
    let size = if billions >= 1.0 { format!("{billions:.1}B") } else { format!("{:.1}M", billions * 1e3) };
    json!({
        "parent_model": "",
        "format": facts.format,
        "family": facts.architecture,
        "families": [facts.architecture],
        "parameter_size": size,
        "quantization_level": quantization(model),
    })
}

/// How most of the bytes are stored.
fn quantization(model: &Known) -> &'static str {
    let mut kinds: Vec<(&'static str, u64)> = Vec::new();
    for tensor in &model.facts.tensors {
        match kinds.iter_mut().find(|(kind, _)| *kind == tensor.quant) {
            Some((_, bytes)) => *bytes += tensor.bytes,
            None => kinds.push((tensor.quant, tensor.bytes)),
        }
    }
    kinds.into_iter().max_by_key(|&(_, bytes)| bytes).map_or("", |(kind, _)| kind)
}
