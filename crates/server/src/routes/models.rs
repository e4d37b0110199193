//! `GET /v1/models` and `/v1/models/{id}`: what can be asked. Loads nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::AdapterFile;
use serde::Serialize;
use utoipa::ToSchema;

use super::health::state_schema;
use crate::App;
use crate::document::Sheet;
use crate::error::{Dialect, Problem};
use crate::models::{self, Known};

#[derive(Serialize, ToSchema)]
#[schema(as = ModelList)]
struct List {
    object: &'static str,
    data: Vec<Model>,
}

pub fn list_sheet() -> Sheet {
    Sheet::new("The models that can be asked. Loads none.").gives::<List>()
}

pub fn show_sheet() -> Sheet {
    let sheet = Sheet::new("One model. Loads none.").in_path("name", "What the model is called.");
    sheet.gives::<Model>().fails(&[404])
}

#[derive(Serialize, ToSchema)]
struct Model {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// Tokens that it was trained for.
    context_length: u32,
    /// The model that this is an adapter of.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[schema(schema_with = state_schema)]
    state: &'static str,
}

pub async fn list(State(app): State<Arc<App>>) -> Response {
    let data = app.models.all().into_iter().flat_map(|(known, state)| Model::all(&known, &state)).collect();
    Json(List { object: "list", data }).into_response()
}

pub async fn show(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    Dialect::OpenAi.answer(find(&app, &name))
}

fn find(app: &App, name: &str) -> Result<Response, Problem> {
    let all = app.models.all();
    let mut adapters = all.iter().flat_map(|(known, state)| Model::all(known, state).skip(1));
    let known = match (app.models.look_up(name), adapters.find(|adapter| adapter.id == name)) {
        (Err(_), Some(adapter)) => return Ok(Json(adapter).into_response()),
        (known, _) => known?,
    };
    let found = all.iter().find(|(other, _)| other.entry == known.entry);
    Ok(Json(found.map(|(known, state)| Model::of(known, state))).into_response())
}

impl Model {
    /// A model, then its adapters.
    fn all(known: &Known, state: &models::State) -> impl Iterator<Item = Self> + use<> {
        let adapter = |file: &AdapterFile| Self {
            id: file.name.clone(),
            parent: Some(known.entry.name.clone()),
            ..Self::of(known, state)
        };
        let adapters: Vec<Self> = known.entry.adapters.iter().map(adapter).collect();
        std::iter::once(Self::of(known, state)).chain(adapters)
    }

    fn of(known: &Known, state: &models::State) -> Self {
        Self {
            id: known.entry.name.clone(),
            object: "model",
            created: known.found_s,
            owned_by: "kauri",
            context_length: known.facts.context_tokens,
            parent: None,
            state: state.word(),
        }
    }
}
