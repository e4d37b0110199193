//! The chat page and what belongs to it, built beforehand and linked into the program.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::document::Sheet;
use crate::error::{Dialect, Problem};

/// A file of the page, by its path below `/`: what it is, and its bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

/// What `npm run build` in `ui` wrote; `index.html` is shown at `/`.
static ASSETS: &[Asset] = &[
    ("assets/LICENSES.txt", "text/plain; charset=utf-8", include_bytes!("../ui/dist/assets/LICENSES.txt")),
    ("assets/icon.svg", "image/svg+xml", include_bytes!("../ui/dist/assets/icon.svg")),
    ("assets/page.css", "text/css; charset=utf-8", include_bytes!("../ui/dist/assets/page.css")),
    ("assets/page.js", "text/javascript; charset=utf-8", include_bytes!("../ui/dist/assets/page.js")),
    ("index.html", "text/html; charset=utf-8", include_bytes!("../ui/dist/index.html")),
];

/// The page asks nobody but this server, and runs nothing that did not come from it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

pub fn page_sheet() -> Sheet {
    Sheet::new("The chat page.").gives_text("text/html; charset=utf-8")
}

pub fn asset_sheet() -> Sheet {
    let sheet = Sheet::new("A file of the chat page.").in_path("path", "Its name.");
    let kinds =
        ["text/css; charset=utf-8", "text/javascript; charset=utf-8", "image/svg+xml", "text/plain; charset=utf-8"];
    kinds.iter().fold(sheet, |sheet, kind| sheet.gives_text(kind)).fails(&[404])
}

pub async fn page() -> Response {
    serve("index.html")
}

pub async fn asset(Path(path): Path<String>) -> Response {
    serve(&format!("assets/{path}"))
}

fn serve(path: &str) -> Response {
    let Some((_, kind, bytes)) = ASSETS.iter().find(|(name, ..)| *name == path) else {
        return Problem::new(StatusCode::NOT_FOUND, format!("the chat page has no file {path:?}"))
            .response(Dialect::OpenAi);
    };
    // What lies under assets is asked for with a digest behind its name.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_the_page_names_is_linked_in() {
        let (.., page) = ASSETS.iter().find(|(name, ..)| *name == "index.html").expect("there is a page");
        let page = std::str::from_utf8(page).expect("it is text");
        let named: Vec<&str> =
            page.split("\"/assets/").skip(1).filter_map(|rest| rest.split(['?', '"']).next()).collect();
        assert!(named.len() >= 3, "{named:?}");
        for name in named {
            assert!(ASSETS.iter().any(|(path, ..)| path.strip_prefix("assets/") == Some(name)), "{name}");
        }
    }
}
