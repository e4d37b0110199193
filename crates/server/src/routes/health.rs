//! `GET /health`: the server lives. `GET /ready`: it can answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::document::{Sheet, schema};
use crate::models;

#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(pattern = "^ok$")]
    status: &'static str,
}

#[derive(Serialize, ToSchema)]
pub struct Ready {
    /// ready or draining.
    status: &'static str,
    models: Vec<Model>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ModelState)]
struct Model {
    id: String,
    #[schema(schema_with = state_schema)]
    state: &'static str,
    /// Why it could not be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How much of it is in memory, from 0 to 1, while it is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
}

schema!(pub state_schema, { "type": "string", "enum": ["unloaded", "loading", "loaded", "failed"] });

pub fn health_sheet() -> Sheet {
    Sheet::new("The server lives.").gives::<Health>()
}

pub fn ready_sheet() -> Sheet {
    Sheet::new("Whether it can answer, and what becomes of each model.")
        .gives::<Ready>()
        .also(503, "It is told to end.")
}

pub async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

pub async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<Ready>) {
    let model = |(known, state): (models::Known, models::State)| {
        let (reason, progress) = (state.reason().map(str::to_owned), state.progress());
        Model { id: known.entry.name, state: state.word(), reason, progress }
    };
    let models = app.models.all().into_iter().map(model).collect();
    if app.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(Ready { status: "draining", models }));
    }
    (StatusCode::OK, Json(Ready { status: "ready", models }))
}
