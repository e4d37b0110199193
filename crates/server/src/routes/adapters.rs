//! `GET` and `POST /lora-adapters`: the adapters that were loaded with a model, and how much of each requests have that say nothing, as
//! llama.cpp's server has them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::body;
use crate::document::Sheet;
use crate::error::{Dialect, Problem};
use crate::guard::Caller;
use crate::wire::{read_adapters, scales_schema};

/// An adapter.
#[derive(Serialize, ToSchema)]
#[schema(as = LoraAdapter)]
pub struct Adapter {
    /// What `lora` calls it.
    id: usize,
    /// What it is called as a model.
    name: String,
    path: String,
    /// How much of it requests have that say nothing; 0 is nothing.
    scale: f32,
}

pub fn list_sheet() -> Sheet {
    Sheet::new("The adapters that were loaded, and how much of each requests have that say nothing.")
        .gives::<Vec<Adapter>>()
}

pub fn set_sheet() -> Sheet {
    let what = "Sets how much of each adapter requests have that say nothing, none of those that are left out; answers that are being \
                written stay as they are. It changes what others get, so only a key that says `admin` may, or, without keys, who is on \
                the server's machine.";
    Sheet::new(what).takes_other(&scales_schema()).gives::<Vec<Adapter>>()
}

pub async fn list(State(app): State<Arc<App>>) -> Response {
    Json(all(&app)).into_response()
}

pub async fn set(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::OpenAi.answer(change(&app, &caller, request).await)
}

async fn change(app: &App, caller: &Caller, request: Request) -> Result<Response, Problem> {
    if !caller.is_admin {
        let message = "this changes what others get: it takes a key that the server's keys call `admin`, or a server without keys that only \
                       its own machine reaches; for your own requests send the field `lora`, or an adapter's name as the model";
        return Err(Problem::new(StatusCode::FORBIDDEN, message).with_code("not_admin"));
    }
    let bytes = body::read(request, app.body_limits).await?;
    let given = body::json(&bytes)?;
    let count = app.models.adapters().len();
    app.models.set_adapters(&read_adapters("the body", &given, count)?);
    Ok(Json(all(app)).into_response())
}

fn all(app: &App) -> Vec<Adapter> {
    let adapter = |(id, (file, scale)): (usize, (kauri_engine::AdapterFile, f32))| Adapter {
        id,
        name: file.name,
        path: file.path.display().to_string(),
        scale,
    };
    app.models.adapters().into_iter().enumerate().map(adapter).collect()
}
