//! `GET /api/tags`, `/api/ps`, `/api/version` and `POST /api/show`: which models there are, and what they are.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::App;
use crate::answers::blocking;
use crate::body::{self, Fields};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::models::{self, Known};
use crate::wire::timestamp;

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    /// Also called `name`.
    #[serde(alias = "name")]
    model: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaModels)]
pub struct Models {
    models: Vec<Model>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaModel)]
#[expect(clippy::struct_field_names, reason = "the dialect's names")]
struct Model {
    name: String,
    model: String,
    modified_at: String,
    size: u64,
    digest: String,
    details: Details,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_vram: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<&'static str>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaDetails)]
struct Details {
    parent_model: &'static str,
    format: &'static str,
    family: &'static str,
    families: Vec<&'static str>,
    parameter_size: String,
    quantization_level: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaVersion)]
pub struct Version {
    version: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OllamaDescription)]
struct Description {
    modelfile: &'static str,
    parameters: &'static str,
    template: Option<String>,
    details: Details,
    #[schema(value_type = Object)]
    model_info: Value,
    #[schema(schema_with = capabilities_schema)]
    capabilities: Vec<&'static str>,
    modified_at: String,
}

schema!(capabilities_schema, { "type": "array", "items": {
    "type": "string", "enum": ["completion", "embedding", "tools", "thinking"] } });

pub fn tags_sheet() -> Sheet {
    Sheet::new("The models that can be asked. Loads none.").gives::<Models>()
}

pub fn running_sheet() -> Sheet {
    Sheet::new("The models that are loaded.").gives::<Models>()
}

pub fn version_sheet() -> Sheet {
    Sheet::new("The program's version.").gives::<Version>()
}

pub fn show_sheet() -> Sheet {
    Sheet::new("What a model is. Loads none.").takes::<Sent>().gives::<Description>().fails(&[404])
}

pub async fn tags(State(app): State<Arc<App>>) -> Json<Models> {
    Json(Models { models: app.models.all().into_iter().map(|(known, _)| entry(&known)).collect() })
}

pub async fn running(State(app): State<Arc<App>>) -> Json<Models> {
    let running = |known: &Known| Model {
        size_vram: Some(0),
        context_length: Some(known.facts.context_tokens),
        // Nobody knows who asks for it next.
        expires_at: Some("9999-12-31T23:59:59Z"),
        ..entry(known)
    };
    let loaded = app.models.all().into_iter().filter(|(_, state)| *state == models::State::Loaded);
    Json(Models { models: loaded.map(|(known, _)| running(&known)).collect() })
}

pub async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION") })
}

pub async fn show(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::Ollama.answer(describe(&app, request).await)
}

async fn describe(app: &App, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let fields = blocking(move || Fields::parse(&bytes)).await??;
    let sent: Sent = fields.read()?;
    let model = &app.models.look_up(&sent.model)?;
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
    let model_info = json!({
        "general.architecture": architecture,
        "general.parameter_count": facts.parameters,
        format!("{architecture}.context_length"): facts.context_tokens,
        format!("{architecture}.block_count"): facts.layers,
        format!("{architecture}.embedding_length"): facts.hidden,
    });
    let answer = Description {
        modelfile: "",
        parameters: "",
        template: facts.template.clone(),
        details: details(model),
        model_info,
        capabilities,
        modified_at: modified(model),
    };
    Ok(Json(answer).into_response())
}

fn entry(model: &Known) -> Model {
    let name = &model.entry.name;
    Model {
        name: name.clone(),
        model: name.clone(),
        modified_at: modified(model),
        size: model.facts.bytes,
        digest: blake3::hash(name.as_bytes()).to_hex().to_string(),
        details: details(model),
        size_vram: None,
        context_length: None,
        expires_at: None,
    }
}

fn modified(model: &Known) -> String {
    timestamp(Duration::from_secs(model.found_s))
}

fn details(model: &Known) -> Details {
    let facts = &model.facts;
    let billions = facts.parameters as f64 / 1e9;
    let parameter_size = if billions >= 1.0 { format!("{billions:.1}B") } else { format!("{:.1}M", billions * 1e3) };
    Details {
        parent_model: "",
        format: facts.format,
        family: facts.architecture,
        families: vec![facts.architecture],
        parameter_size,
        quantization_level: quantization(model),
    }
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
