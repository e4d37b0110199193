//! Who may ask: hosts, origins and keys, checked before any endpoint sees a request.
//!
//! A page on any site can make a browser send requests to this machine, and can make its own name mean this machine ("DNS
//! rebinding"). So a server that listens on loopback answers only to names of loopback, and no server answers a page of another
//! origin.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::error::{Dialect, Problem};
use crate::keys::{Held, Keys};
use crate::log::{Line, Log};
use crate::trace::Span;
use crate::wire::identifier;

/// The longest name of a request that a client may give.
const REQUEST_ID_BYTES_MAX: usize = 128;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Whose names are answered to.
#[derive(Clone, Debug, Default)]
pub struct Doors {
    /// Whether only this machine can come in.
    pub is_loopback: bool,
    /// Host names that are ours beside those of loopback.
    pub hosts: Vec<String>,
    /// Origins of pages that may ask.
    pub origins: Vec<String>,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub Option<IpAddr>);

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// As the engine tells callers apart.
    pub number: u64,
    /// Whether they may change what others get: with keys, whose key says so; without, who is on this machine.
    pub is_admin: bool,
    /// What is told of the request, where anything is.
    pub span: Option<Span>,
}

/// Lets a request in, or says why not.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let dialect = Dialect::of(request.uri().path());
    let origin = request.headers().get(header::ORIGIN).cloned();
    let came = Instant::now();
    let line = line(&app, &request, &id);
    let span = span(&app, &request, &id);
    let mut who = None;
    let mut response = match admit(&app, &request) {
        Err(problem) => problem.response(dialect),
        Ok(_) if request.method() == Method::OPTIONS && origin.is_some() => preflight(request.headers()),
        Ok((number, held)) => {
            let is_admin = held.as_ref().map_or(app.doors.is_loopback, Held::is_admin);
            request.extensions_mut().insert(Caller { number, is_admin, span: span.clone() });
            let endpoint = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
            let response = next.run(request).await;
            app.metrics.answered(&endpoint, response.status().as_u16());
            who = held.as_ref().map(|held| held.name().to_owned());
            match held {
                Some(held) => response.map(|body| held.until_end_of(body)),
                None => response,
            }
        }
    };
    let headers = response.headers_mut();
    if let Some(origin) = origin.filter(|origin| app.doors.is_ours(origin)) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let status = response.status().as_u16();
    if let Some((span, tracer)) = span.zip(app.tracer.as_ref()) {
        response = response.map(|body| tracer.until_end_of(span, status, body));
    }
    let Some(line) = line else { return response };
    let line = Line { status, caller: who.unwrap_or(line.caller), ..line };
    response.map(|body| app.log.watch(body, line, came))
}

/// What is told of a request before it is answered, where anything is.
fn line(app: &App, request: &Request, id: &HeaderValue) -> Option<Line> {
    if app.log == Log::Nothing {
        return None;
    }
    let peer = request.extensions().get::<Peer>().and_then(|peer| peer.0);
    Some(Line {
        time: String::new(),
        request_id: id.to_str().unwrap_or_default().to_owned(),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        status: 0,
        caller: peer.map_or_else(|| "socket".to_owned(), |address| address.to_string()),
        ms: 0.0,
        bytes: 0,
        is_complete: false,
    })
}

/// What is told of a request that is posted, where anything is.
fn span(app: &App, request: &Request, id: &HeaderValue) -> Option<Span> {
    app.tracer.as_ref().filter(|_| request.method() == Method::POST)?;
    let endpoint = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
    Span::begin(request.headers(), format!("POST {endpoint}"), id.to_str().unwrap_or_default().to_owned())
}

/// Whether a request may come in: the number of who asks, and the key that let it in.
fn admit(app: &App, request: &Request) -> Result<(u64, Option<Held>), Problem> {
    let headers = request.headers();
    let host = host_of(headers, request.uri());
    app.doors.check_host(host)?;
    let keys = app.keys();
    if let Some(origin) = headers.get(header::ORIGIN)
        && !app.doors.is_ours(origin)
        && !is_own_page(origin, host, !keys.is_empty())
    {
        let origin = origin.to_str().unwrap_or("that origin");
        let message = format!("pages of {origin} may not ask here; start the server with --allow-origin to let them");
        return Err(Problem::new(StatusCode::FORBIDDEN, message).with_code("origin_not_allowed"));
    }
    if request.method() == Method::OPTIONS || is_open(request.uri().path()) {
        return Ok((0, None));
    }
    if keys.is_empty() {
        let peer = request.extensions().get::<Peer>().and_then(|peer| peer.0);
        return Ok((peer.map_or(0, caller_of), None));
    }
    let held = keys.admit(Keys::given(headers))?;
    Ok((held.number(), Some(held)))
}

/// Whether the page that asks is the one that this server shows. That its origin is the very host that it asks is not enough: the
/// name may be somebody else's and made to mean this machine. An address cannot be, and who sends a key knows whom they ask.
fn is_own_page(origin: &HeaderValue, host: Option<&str>, has_keys: bool) -> bool {
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    let (Some(authority), Some(host)) = (authority, host) else { return false };
    authority.eq_ignore_ascii_case(host) && (has_keys || name_of_host(host).parse::<IpAddr>().is_ok())
}

/// What needs no key: whether the server lives, and the page, which has none before it is there.
pub fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/health" | "/ready") || path.starts_with("/assets/")
}

/// A number for an address.
pub fn caller_of(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        // A network of these is one household.
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let stated = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    stated.or_else(|| uri.authority().map(Authority::as_str))
}

fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_fine = |id: &&HeaderValue| {
        !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    let given = headers.get(REQUEST_ID).filter(is_fine).cloned();
    given.unwrap_or_else(|| HeaderValue::try_from(identifier("req-")).expect("letters and digits"))
}

/// What a browser asks before a page of an origin that may ask does.
fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let allowed = response.headers_mut();
    allowed.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    allowed.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

impl Doors {
    /// # Errors
    /// 403 where the name is not ours.
    fn check_host(&self, host: Option<&str>) -> Result<(), Problem> {
        let name = host.map(name_of_host).unwrap_or_default();
        // Beyond loopback any name may be ours, unless names were given.
        let any = !self.is_loopback && self.hosts.is_empty();
        if any || is_loopback_name(name) || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        let name: String = name.chars().take(100).collect();
        let message = format!("this server is not called {name:?}; start it with --allow-host {name} if it is");
        Err(Problem::new(StatusCode::FORBIDDEN, message).with_code("host_not_allowed"))
    }

    /// Whether pages of an origin may ask: those of this machine, and those that were named.
    fn is_ours(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        if self.origins.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)) {
            return true;
        }
        let Some((_, rest)) = origin.split_once("://") else { return false };
        let name = name_of_host(rest);
        let is_named = self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
        is_named || (self.is_loopback && is_loopback_name(name))
    }
}

/// A host without its port and brackets.
fn name_of_host(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(name, _)| name);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_are_ours_on_loopback() {
        let doors = Doors { is_loopback: true, hosts: vec!["kauri.lan".to_owned()], ..Doors::default() };
        for host in
            ["localhost", "localhost:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]", "KAURI.lan:80"]
        {
            assert!(doors.check_host(Some(host)).is_ok(), "{host}");
        }
        for host in
            ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""]
        {
            assert!(doors.check_host(Some(host)).is_err(), "{host}");
        }
        assert!(doors.check_host(None).is_err());
        assert!(Doors::default().check_host(Some("anything.example")).is_ok());
    }

    #[test]
    fn the_page_may_ask_the_server_that_it_came_from() {
        let own = |origin: &'static str, host: &str, has_keys: bool| {
            is_own_page(&HeaderValue::from_static(origin), Some(host), has_keys)
        };
        assert!(own("http://10.0.0.7:8080", "10.0.0.7:8080", false));
        assert!(own("http://[fd00::7]:8080", "[fd00::7]:8080", false));
        assert!(own("https://kauri.example", "kauri.example", true));
        assert!(!own("https://kauri.example", "kauri.example", false), "anybody's name may mean this machine");
        assert!(!own("http://10.0.0.7:9000", "10.0.0.7:8080", true));
        assert!(!own("http://evil.example", "10.0.0.7", true));
        assert!(!own("null", "null", true));
    }

    #[test]
    fn pages_of_other_origins_may_not_ask() {
        let origins = vec!["https://chat.example".to_owned()];
        let doors = Doors { is_loopback: true, hosts: Vec::new(), origins };
        let is_ours = |origin: &'static str| doors.is_ours(&HeaderValue::from_static(origin));
        for origin in ["http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:8080", "https://chat.example"] {
            assert!(is_ours(origin), "{origin}");
        }
        for origin in ["null", "https://evil.example", "http://localhost.evil.example", "https://chat.example.evil"] {
            assert!(!is_ours(origin), "{origin}");
        }
    }
}
