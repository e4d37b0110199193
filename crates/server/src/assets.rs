//! The chat page and what belongs to it, built beforehand and linked into the program.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::error::{Dialect, Problem};

/// A file of the page, by its path below `/`: what it is, and its bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

/// Empty until there is a page; `index.html` is shown at `/`.
static ASSETS: &[Asset] = &[];

/// The page asks nobody but this server, and runs nothing that did not come from it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
                      font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

pub async fn page() -> Response {
    serve("index.html")
}

pub async fn asset(Path(path): Path<String>) -> Response {
    serve(&format!("assets/{path}"))
}

fn serve(path: &str) -> Response {
    let Some((_, kind, bytes)) = ASSETS.iter().find(|(name, ..)| *name == path) else {
        let message = "this build has no chat page; programs ask at /v1/chat/completions";
        return Problem::new(StatusCode::NOT_FOUND, message).response(Dialect::OpenAi);
    };
    // What lies under assets has a name that changes with it.
    let keep = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CACHE_CONTROL, keep),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    let mut response = (*bytes).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
