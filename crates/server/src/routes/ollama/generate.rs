//! `POST /api/generate`: an answer to one prompt.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use kauri_engine::Chat;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Line, Place, Sent};
use crate::App;
use crate::answers::{Answers, blocking};
use crate::ask::Prompt;
use crate::body::{self, Fields};
use crate::document::Sheet;
use crate::error::{Dialect, Problem};
use crate::guard::Caller;
use crate::wire::now;

#[derive(Debug, Deserialize, ToSchema)]
struct SentPrompt {
    /// Where there is none, the model is loaded.
    prompt: Option<String>,
    suffix: Option<String>,
    system: Option<String>,
    raw: Option<bool>,
    /// None: models here read text.
    #[schema(max_items = 0)]
    images: Option<Vec<Value>>,
}

pub fn sheet() -> Sheet {
    let sheet = Sheet::new("Answers one prompt, or loads a model.").takes::<Sent>().takes::<SentPrompt>();
    sheet.gives::<Line<'_>>().streams::<Line<'_>>("application/x-ndjson").fails(&[404, 422, 503])
}

pub async fn generate(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::Ollama.answer(answer(&app, caller, request).await)
}

async fn answer(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let work = move || {
        let fields = Fields::parse(&bytes)?;
        let sent: Sent = fields.read()?;
        sent.check()?;
        let prompt = read(&sent, fields.read()?)?;
        let ask = prompt.map(|prompt| sent.ask(prompt)).transpose()?;
        Ok::<_, Problem>((sent, ask))
    };
    let (sent, ask) = blocking(work).await??;
    let keep = sent.keep()?;
    let model = app.models.get(sent.model.as_deref()).await?;
    keep.into_iter().for_each(|keep| app.models.keep(&model.name, keep));
    let Some(ask) = ask else {
        // Nothing is asked: the model is to be loaded, and is.
        let loaded =
            json!({ "model": model.name, "created_at": now(), "response": "", "done": true, "done_reason": "load" });
        return Ok(Json(loaded).into_response());
    };
    let answers = Answers::open(app, model, ask, caller).await?;
    Place::Response.respond(answers, sent.stream.unwrap_or(true)).await
}

fn read(sent: &Sent, asked: SentPrompt) -> Result<Option<Prompt>, Problem> {
    if asked.images.is_some_and(|images| !images.is_empty()) {
        return Err(Problem::field("images", "this model reads text, and no images"));
    }
    let prompt = asked.prompt.unwrap_or_default();
    if let Some(after) = asked.suffix.filter(|suffix| !suffix.is_empty()) {
        return Ok(Some(Prompt::Between { before: prompt, after }));
    }
    if prompt.is_empty() {
        return Ok(None);
    }
    if asked.raw == Some(true) {
        return Ok(Some(Prompt::Text(prompt)));
    }
    let mut chat = Chat::new();
    chat.set_system(&asked.system.unwrap_or_default());
    chat.push("user", &prompt);
    sent.set_reasoning(&mut chat)?;
    Ok(Some(Prompt::chat(chat, None)))
}
