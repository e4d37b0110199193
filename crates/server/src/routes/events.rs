//! `GET /events`: what becomes of each model, as it happens. First how all of them stand, then each change, until the client leaves or
//! the server is told to end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};
use utoipa::ToSchema;

use crate::App;
use crate::document::{Sheet, schema};
use crate::sse::{self, Page, SILENCE_MAX};

/// What becomes of a model.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = ModelChange)]
struct Change {
    id: String,
    #[schema(schema_with = change_schema)]
    state: &'static str,
    /// Why it could not be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How much of it is in memory, from 0 to 1, while it is loaded; said again each time that it is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
}

schema!(change_schema, { "type": "string", "enum": ["unloaded", "loading", "loaded", "failed", "gone"] });

pub fn sheet() -> Sheet {
    Sheet::new("What becomes of each model, as it happens. Goes on until the client leaves.")
        .streams::<Change>("text/event-stream")
}

pub async fn events(State(app): State<Arc<App>>) -> Response {
    let next = next(app.models.changes());
    let silence = Box::pin(sleep(SILENCE_MAX));
    let feed = Feed { app, told: BTreeMap::new(), is_news: true, next, silence };
    sse::response(sse::Kind::Events, Body::new(feed))
}

/// Comes with the next change; with nothing when there will be none.
type Next = Pin<Box<dyn Future<Output = Option<watch::Receiver<()>>> + Send>>;

fn next(mut changes: watch::Receiver<()>) -> Next {
    Box::pin(async move { changes.changed().await.ok().map(|()| changes) })
}

struct Feed {
    app: Arc<App>,
    /// What was said last of each.
    told: BTreeMap<String, Change>,
    is_news: bool,
    next: Next,
    silence: Pin<Box<Sleep>>,
}

impl Feed {
    /// What is not told yet.
    fn news(&mut self) -> Page {
        let mut page = Page::default();
        let mut before = std::mem::take(&mut self.told);
        for (known, state) in self.app.models.all() {
            let id = known.entry.name;
            let (reason, progress) = (state.reason().map(str::to_owned), state.progress());
            let change = Change { id: id.clone(), state: state.word(), reason, progress };
            if before.remove(&id).as_ref() != Some(&change) {
                page.event(None, &change);
            }
            self.told.insert(id, change);
        }
        for id in before.into_keys() {
            page.event(None, &Change { id, state: "gone", reason: None, progress: None });
        }
        page
    }
}

impl http_body::Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        loop {
            let mut page = if std::mem::take(&mut this.is_news) { this.news() } else { Page::default() };
            if page.is_empty() {
                if this.app.is_draining() {
                    return Poll::Ready(None);
                }
                match this.next.as_mut().poll(context) {
                    Poll::Ready(Some(changes)) => {
                        (this.is_news, this.next) = (true, next(changes));
                        continue;
                    }
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Pending if this.silence.as_mut().poll(context).is_ready() => page.text(": waiting\n\n"),
                    Poll::Pending => return Poll::Pending,
                }
            }
            this.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
            return Poll::Ready(Some(Ok(Frame::data(page.take()))));
        }
    }
}
