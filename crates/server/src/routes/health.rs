//! `GET /health`: the server lives. `GET /ready`: it can answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::App;
use crate::models;

pub async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

pub async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    let model = |(known, state): (&models::Known, models::State)| {
        let mut model = json!({ "id": known.entry.name, "state": state.word() });
        if let models::State::Failed(reason) = state {
            model["reason"] = reason.into();
        }
        model
    };
    let models: Vec<Value> = app.models.all().into_iter().map(model).collect();
    if app.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "draining", "models": models })));
    }
    (StatusCode::OK, Json(json!({ "status": "ready", "models": models })))
}
