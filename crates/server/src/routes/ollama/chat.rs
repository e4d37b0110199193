//! `POST /api/chat`.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use kauri_engine::{Call, Chat, Message, tools};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Line, Place, Sent};
use crate::App;
use crate::answers::{Answers, blocking};
use crate::ask::Prompt;
use crate::body::{self, Fields};
use crate::document::{Sheet, schema};
use crate::error::{Dialect, Problem};
use crate::guard::Caller;
use crate::wire::{Offer, tools_schema};

/// Most messages of a conversation.
const MESSAGES_MAX: usize = 10_000;

#[derive(Debug, Deserialize, ToSchema)]
struct SentChat {
    #[serde(default)]
    #[schema(min_items = 1, max_items = 10000, required = true)]
    messages: Vec<SentMessage>,
    #[schema(schema_with = tools_schema)]
    tools: Option<Vec<Value>>,
}

schema!(role_schema, { "type": "string", "enum": ["system", "user", "assistant", "tool"] });

pub fn sheet() -> Sheet {
    let sheet = Sheet::new("Answers a conversation.").takes::<Sent>().takes::<SentChat>();
    sheet.gives::<Line<'_>>().streams::<Line<'_>>("application/x-ndjson").fails(&[404, 422, 503])
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaSentMessage)]
struct SentMessage {
    #[schema(schema_with = role_schema)]
    role: String,
    #[serde(default)]
    content: Option<String>,
    thinking: Option<String>,
    /// None: models here read text.
    #[schema(max_items = 0)]
    images: Option<Vec<Value>>,
    tool_calls: Option<Vec<SentCall>>,
    #[serde(alias = "name")]
    tool_name: Option<String>,
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaSentCall)]
struct SentCall {
    #[serde(default)]
    id: Option<String>,
    function: SentFunction,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaSentFunction)]
struct SentFunction {
    name: String,
    arguments: Value,
}

pub async fn chat(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    Dialect::Ollama.answer(answer(&app, caller, request).await)
}

async fn answer(app: &App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let bytes = body::read(request, app.body_limits).await?;
    let work = move || {
        let fields = Fields::parse(&bytes)?;
        let sent: Sent = fields.read()?;
        sent.check()?;
        let ask = sent.ask(read(&sent, fields.read()?)?)?;
        Ok::<_, Problem>((sent, ask))
    };
    let (sent, ask) = blocking(work).await??;
    let keep = sent.keep()?;
    let model = app.models.get(sent.model.as_deref()).await?;
    keep.into_iter().for_each(|keep| app.models.keep(&model.name, keep));
    let answers = Answers::open(app, model, ask, caller).await?;
    Place::Message.respond(answers, sent.stream.unwrap_or(true)).await
}

fn read(sent: &Sent, chat: SentChat) -> Result<Prompt, Problem> {
    let SentChat { messages, tools } = chat;
    if messages.is_empty() || messages.len() > MESSAGES_MAX {
        return Err(Problem::field("messages", format!("must hold from 1 to {MESSAGES_MAX} messages")));
    }
    let mut chat = Chat::new();
    for (index, message) in messages.into_iter().enumerate() {
        let place = format!("messages[{index}]");
        if message.images.is_some_and(|images| !images.is_empty()) {
            return Err(Problem::field(&format!("{place}.images"), "this model reads text, and no images"));
        }
        if !matches!(message.role.as_str(), "system" | "user" | "assistant" | "tool") {
            return Err(Problem::field(&format!("{place}.role"), "must be system, user, assistant or tool"));
        }
        let call = |(number, call): (usize, SentCall)| Call {
            // Templates of some models want one, and this dialect has none.
            id: call.id.unwrap_or_else(|| format!("call{index:04}{number:01}")),
            name: call.function.name,
            arguments: call.function.arguments.to_string(),
        };
        chat.add(Message {
            role: message.role,
            content: message.content.unwrap_or_default(),
            reasoning: message.thinking,
            calls: message.tool_calls.into_iter().flatten().enumerate().map(call).collect(),
            call_id: message.tool_call_id,
            name: message.tool_name,
        });
    }
    sent.set_reasoning(&mut chat)?;
    let list = tools.unwrap_or_default();
    let offer = (!list.is_empty()).then(|| Offer::new(list, &tools::Choice::Auto, true)).transpose()?;
    Ok(Prompt::chat(chat, offer))
}
