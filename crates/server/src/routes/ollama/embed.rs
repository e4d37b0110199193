//! `POST /api/embed`: texts as vectors.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::Wanted;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::embeddings::{dimensions, read_inputs};
use crate::App;
use crate::answers::blocking;
use crate::body::{self, Fields};
use crate::desk::Work;
use crate::error::{Dialect, Problem};

#[derive(Debug, Deserialize)]
struct Sent {
    model: Option<String>,
    input: Value,
    dimensions: Option<u64>,
}

pub async fn embed(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::Ollama.answer(answer(&app, request).await)
}

async fn answer(app: &App, request: Request) -> Result<Response, Problem> {
    let start = Instant::now();
    let bytes = body::read(request, app.body_limits).await?;
    let fields = blocking(move || Fields::parse(&bytes)).await??;
    let sent: Sent = fields.read()?;
    let texts = read_inputs(&sent.input, "input")?;
    let wanted = Wanted { dimensions: dimensions(sent.dimensions)?, ..Wanted::default() };
    let model = app.models.get(sent.model.as_deref()).await?;
    let read = model.desk().await?.read(Work::Embed { texts, wanted }).await?;
    let answer = json!({
        "model": model.name,
        "embeddings": read.vectors,
        "total_duration": start.elapsed().as_nanos() as u64,
        "load_duration": 0,
        "prompt_eval_count": read.tokens,
    });
    Ok(Json(answer).into_response())
}
