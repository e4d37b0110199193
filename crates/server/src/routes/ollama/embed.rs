//! `POST /api/embed`: texts as vectors.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::Wanted;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::super::embeddings::{dimensions, inputs_schema, read_inputs};
use crate::App;
use crate::answers::blocking;
use crate::body::{self, Fields};
use crate::desk::Work;
use crate::document::Sheet;
use crate::error::{Dialect, Problem};

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    #[schema(schema_with = inputs_schema)]
    input: Value,
    #[schema(minimum = 1, maximum = 4294967295u32)]
    dimensions: Option<u64>,
}

/// Times are in nanoseconds.
#[derive(Serialize, ToSchema)]
#[schema(as = OllamaEmbeddings)]
#[expect(clippy::struct_field_names, reason = "the dialect's names")]
struct Embeddings {
    model: String,
    embeddings: Vec<Vec<f32>>,
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: usize,
}

pub fn sheet() -> Sheet {
    Sheet::new("Texts as vectors of length one.").takes::<Sent>().gives::<Embeddings>().fails(&[404, 503])
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
    let answer = Embeddings {
        model: model.name.clone(),
        embeddings: read.vectors,
        total_duration: start.elapsed().as_nanos() as u64,
        load_duration: 0,
        prompt_eval_count: read.tokens,
    };
    Ok(Json(answer).into_response())
}
