//! `POST /rerank` and `/v1/rerank`: documents in the order in which they answer a query.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::embeddings::{TEXTS_MAX, Usage};
use crate::App;
use crate::answers::blocking;
use crate::body::{self, Fields};
use crate::desk::Work;
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::wire::identifier;

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    query: String,
    #[schema(schema_with = documents_schema)]
    documents: Vec<Value>,
    #[schema(minimum = 1)]
    top_n: Option<u64>,
    return_documents: Option<bool>,
}

schema!(documents_schema, { "type": "array", "minItems": 1, "maxItems": TEXTS_MAX, "items": { "oneOf": [
    { "type": "string" },
    { "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } },
] } });

pub fn sheet() -> Sheet {
    let sheet = Sheet::new("Documents in the order in which they answer a query.");
    sheet.takes::<Sent>().gives::<Ranking>().fails(&[404, 503])
}

#[derive(Serialize, ToSchema)]
struct Ranking {
    id: String,
    model: String,
    results: Vec<Ranked>,
    usage: Usage,
}

#[derive(Serialize, ToSchema)]
struct Ranked {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = RankedDocument)]
struct Document {
    text: String,
}

pub async fn rerank(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::OpenAi.answer(answer(&app, request).await)
}

async fn answer(app: &App, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let fields = blocking(move || Fields::parse(&bytes)).await??;
    let sent: Sent = fields.read()?;
    if sent.documents.is_empty() || sent.documents.len() > TEXTS_MAX {
        return Err(Problem::field("documents", format!("must hold from 1 to {TEXTS_MAX} documents")));
    }
    if sent.top_n == Some(0) {
        return Err(Problem::field("top_n", "must be at least 1"));
    }
    let text = |(index, document): (usize, &Value)| {
        let text = document.as_str().or_else(|| document.get("text").and_then(Value::as_str));
        let wrong = || Problem::field(&format!("documents[{index}]"), "must be a text, or an object with a text");
        text.map(str::to_owned).ok_or_else(wrong)
    };
    let documents: Vec<String> = sent.documents.iter().enumerate().map(text).collect::<Result<_, _>>()?;
    let model = app.models.get(sent.model.as_deref()).await?;
    let desk = model.desk().await?;
    if !desk.judges() {
        return Err(kauri_engine::Error::NoJudge.into());
    }
    let read = desk.read(Work::Judge { query: sent.query, documents: documents.clone() }).await?;
    let scores = read.vectors.iter().map(|score| score.first().copied().unwrap_or_default());
    let ranked = scores.enumerate().map(|(index, relevance_score)| Ranked { index, relevance_score, document: None });
    let mut results: Vec<Ranked> = ranked.collect();
    // Equals stay in the order in which they were given.
    results.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score));
    results.truncate(sent.top_n.map_or(usize::MAX, |most| most as usize));
    if sent.return_documents == Some(true) {
        results.iter_mut().for_each(|ranked| {
            ranked.document = Some(Document { text: documents[ranked.index].clone() });
        });
    }
    let usage = Usage { prompt_tokens: read.tokens, total_tokens: read.tokens };
    Ok(Json(Ranking { id: identifier("rerank-"), model: model.name.clone(), results, usage }).into_response())
}
