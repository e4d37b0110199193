//! `POST /v1/embeddings`: texts as vectors of length one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kauri_engine::{Pooling, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::App;
use crate::answers::blocking;
use crate::body::{self, Fields};
use crate::desk::{Input, Read, Work};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};

/// Most texts of a request.
pub const TEXTS_MAX: usize = 2048;

#[derive(Debug, Deserialize, ToSchema)]
struct Sent {
    model: Option<String>,
    #[schema(schema_with = inputs_schema)]
    input: Value,
    #[schema(schema_with = encoding_schema)]
    encoding_format: Option<String>,
    /// The first of them, made of length one again.
    #[schema(minimum = 1, maximum = 4294967295u32)]
    dimensions: Option<u64>,
    /// How the rows of a text become one; the model's own way unless said otherwise.
    #[schema(schema_with = pooling_schema)]
    pooling: Option<String>,
}

schema!(pub inputs_schema, { "oneOf": [
    { "type": "string" },
    { "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX } },
    { "type": "array", "minItems": 1, "maxItems": TEXTS_MAX, "items": { "oneOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX } },
    ] } },
] });
schema!(encoding_schema, { "type": ["string", "null"], "enum": ["float", "base64", null] });
schema!(pooling_schema, { "type": ["string", "null"], "enum": ["mean", "cls", "last", null] });

pub fn sheet() -> Sheet {
    Sheet::new("Texts as vectors of length one.").takes::<Sent>().gives::<List>().fails(&[404, 503])
}

#[derive(Serialize, ToSchema)]
#[schema(as = EmbeddingList)]
struct List {
    object: &'static str,
    data: Vec<Embedding>,
    model: String,
    usage: Usage,
}

#[derive(Serialize, ToSchema)]
struct Embedding {
    object: &'static str,
    index: usize,
    #[serde(rename = "embedding")]
    vector: Vector,
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    /// The numbers' bytes, the lowest first, in base64.
    Bytes(String),
}

/// Tokens of texts that are read and not answered.
#[derive(Serialize, ToSchema)]
#[schema(as = ReadUsage)]
pub struct Usage {
    pub prompt_tokens: usize,
    pub total_tokens: usize,
}

pub async fn embed(State(app): State<Arc<App>>, request: Request) -> Response {
    Dialect::OpenAi.answer(answer(&app, request).await)
}

async fn answer(app: &App, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let fields = blocking(move || Fields::parse(&bytes)).await??;
    let sent: Sent = fields.read()?;
    let is_packed = match sent.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(Problem::field("encoding_format", "must be float or base64")),
    };
    let texts = read_inputs(&sent.input, "input")?;
    let wanted = Wanted { pooling: pooling(sent.pooling.as_deref())?, dimensions: dimensions(sent.dimensions)? };
    let model = app.models.get(sent.model.as_deref()).await?;
    let read = model.desk().await?.read(Work::Embed { texts, wanted }).await?;
    let Read { vectors, tokens } = read;
    let embedding = |(index, vector): (usize, Vec<f32>)| {
        let vector = if is_packed {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            Vector::Bytes(STANDARD.encode(bytes))
        } else {
            Vector::Numbers(vector)
        };
        Embedding { object: "embedding", index, vector }
    };
    let data = vectors.into_iter().enumerate().map(embedding).collect();
    let usage = Usage { prompt_tokens: tokens, total_tokens: tokens };
    Ok(Json(List { object: "list", data, model: model.name.clone(), usage }).into_response())
}

/// A text, tokens, or a list of either.
///
/// # Errors
/// Names what is none of them.
pub fn read_inputs(input: &Value, place: &str) -> Result<Vec<Input>, Problem> {
    let wrong = |at: &str| Problem::field(at, "must be a text, a list of token ids, or a list of either");
    let tokens = |list: &[Value], at: &str| {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| wrong(at));
        list.iter().map(id).collect::<Result<Vec<u32>, _>>().map(Input::Tokens)
    };
    match input {
        Value::String(text) => Ok(vec![Input::Text(text.clone())]),
        Value::Array(list) if list.is_empty() => Err(Problem::field(place, "is empty")),
        Value::Array(list) if list[0].is_number() => Ok(vec![tokens(list, place)?]),
        Value::Array(list) if list.len() > TEXTS_MAX => {
            Err(Problem::field(place, format!("may hold at most {TEXTS_MAX} texts")))
        }
        Value::Array(list) => {
            let one = |(index, value): (usize, &Value)| match value {
                Value::String(text) => Ok(Input::Text(text.clone())),
                Value::Array(ids) => tokens(ids, &format!("{place}[{index}]")),
                _ => Err(wrong(&format!("{place}[{index}]"))),
            };
            list.iter().enumerate().map(one).collect()
        }
        _ => Err(wrong(place)),
    }
}

/// # Errors
/// Where there can be no such number.
pub fn dimensions(given: Option<u64>) -> Result<Option<u32>, Problem> {
    let wrong = || Problem::field("dimensions", "must be at least 1, and at most the model's own number");
    given.map(|count| u32::try_from(count).ok().filter(|&count| count > 0).ok_or_else(wrong)).transpose()
}

fn pooling(given: Option<&str>) -> Result<Option<Pooling>, Problem> {
    match given {
        None => Ok(None),
        Some("mean") => Ok(Some(Pooling::Mean)),
        Some("cls") => Ok(Some(Pooling::First)),
        Some("last") => Ok(Some(Pooling::Last)),
        Some(_) => Err(Problem::field("pooling", "must be mean, cls or last")),
    }
}
