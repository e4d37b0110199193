//! `GET /metrics`: for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::document::Sheet;

pub fn sheet() -> Sheet {
    Sheet::new("Counts and times, for Prometheus.").gives_text("text/plain")
}

pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    let models: Vec<_> = app.models.residents().iter().map(|model| (model.name.clone(), model.status())).collect();
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks() as u64;
    (kind, app.metrics.text(tasks, &models)).into_response()
}
