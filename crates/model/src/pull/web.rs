//! One request over HTTP: who may be told a token, where a redirect may lead, and what went wrong in words.
//!
//! It does not know what is fetched or why; that a fault may be tried again is said here, when is not.

use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::time::Duration;

use ureq::http::{Response as Answer, StatusCode, Uri, header};
use ureq::{Agent, Body};

/// Most hops from the first address to the bytes.
const HOPS_MAX: usize = 5;
/// Most bytes of a listing or a manifest.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// How long to go on when something is in the way.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Attempts that bring nothing, one after the other, before it is given up.
    pub attempts_max: u32,
    /// The wait before the second attempt; it doubles from one to the next.
    pub wait: Duration,
    /// The longest wait, of our own or one that a server asks for.
    pub wait_max: Duration,
    /// A connection that brings nothing for so long is given up.
    pub silence_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { attempts_max: 6, wait: seconds(1), wait_max: seconds(60), silence_max: seconds(30) }
    }
}

/// Words that let somebody in, for one origin alone. They are never printed.
#[derive(Clone)]
pub struct Credential {
    origin: String,
    value: String,
}

impl Credential {
    /// A bearer token for the origin of `url`; none where either makes no sense.
    pub fn bearer(url: &str, token: &str) -> Option<Self> {
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let origin = origin(&url.parse().ok()?)?;
        is_token.then(|| Self { origin, value: format!("Bearer {token}") })
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential(for {})", self.origin)
    }
}

/// What was wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The server answered with an error.
    #[error("{host} answered {status}{}", reason(*status))]
    Status {
        /// Who.
        host: String,
        /// The status code.
        status: u16,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
        /// Where it says that a token is to be had, as it says it.
        challenge: Option<String>,
    },
    /// The connection failed.
    #[error("{host} cannot be reached: {reason}")]
    Connection {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// The answer is not what it should be, and will not be another time.
    #[error("{0}")]
    Wrong(String),
}

impl Fault {
    /// Whether it may be better another time.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            Self::Connection { .. } => true,
            Self::Wrong(_) => false,
        }
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Connection { .. } | Self::Wrong(_) => None,
        }
    }
}

fn reason(status: u16) -> String {
    let known = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    known.map_or(String::new(), |words| format!(" ({words})"))
}

/// Asks servers for things.
#[derive(Clone, Debug)]
pub struct Web {
    agent: Agent,
}

/// What a server gave.
pub struct Given {
    /// 200 or 206.
    pub status: u16,
    /// The length of the body, where it says so.
    pub length: Option<u64>,
    /// First byte, last byte and length of the whole, where it is a part.
    pub part: Option<(u64, u64, u64)>,
    /// What the server calls this version of it.
    pub tag: Option<String>,
    /// The body.
    pub body: Box<dyn Read + Send>,
}

impl Web {
    /// Connections go through `proxy` where there is one.
    pub fn new(patience: &Patience, proxy: Option<ureq::Proxy>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .user_agent(concat!("kauri/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_connect(Some(patience.silence_max))
            .timeout_recv_response(Some(patience.silence_max))
            .timeout_per_read(Some(patience.silence_max));
        Self { agent: config.build().into() }
    }

    /// The bytes of `url`, or the `range` of them. A credential goes to its own origin and nowhere else.
    ///
    /// # Errors
    /// When nobody answers, the answer is an error, or a redirect leads where it must not.
    pub fn get(
        &self,
        url: &str,
        range: Option<&Range<u64>>,
        accept: Option<&str>,
        credential: Option<&Credential>,
    ) -> Result<Given, Fault> {
        let mut place: Uri = url.parse().map_err(|_| Fault::Wrong(format!("{url:?} is no address")))?;
        for _ in 0..=HOPS_MAX {
            let answer = self.ask(&place, range, accept, credential)?;
            let status = answer.status().as_u16();
            match status {
                200 | 206 => return Ok(given(answer)),
                301 | 302 | 303 | 307 | 308 => place = next(&place, &answer)?,
                _ => return Err(refusal(&place, &answer)),
            }
        }
        Err(Fault::Wrong(format!("{url} leads from one address to the next, more than {HOPS_MAX} times")))
    }

    /// A text of bounded length.
    ///
    /// # Errors
    /// As for [`Self::get`]; when it is too long or no UTF-8.
    pub fn text(&self, url: &str, accept: Option<&str>, credential: Option<&Credential>) -> Result<String, Fault> {
        let given = self.get(url, None, accept, credential)?;
        let mut bytes = Vec::new();
        let read = given.body.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| Fault::Connection { host: host(url), reason: error.to_string() })?;
        if bytes.len() as u64 > TEXT_BYTES_MAX {
            return Err(Fault::Wrong(format!("{url} is over {} MiB, which no listing is", TEXT_BYTES_MAX >> 20)));
        }
        String::from_utf8(bytes).map_err(|_| Fault::Wrong(format!("{url} gave something that is no text")))
    }

    fn ask(
        &self,
        place: &Uri,
        range: Option<&Range<u64>>,
        accept: Option<&str>,
        credential: Option<&Credential>,
    ) -> Result<Answer<Body>, Fault> {
        let origin = origin(place).ok_or_else(|| Fault::Wrong(format!("{place} is no address of the web")))?;
        let mut request = self.agent.get(place.clone());
        if let Some(range) = range {
            request = request.header(header::RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        }
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        if let Some(credential) = credential.filter(|credential| credential.origin == origin) {
            request = request.header(header::AUTHORIZATION, &credential.value);
        }
        let host = place.host().unwrap_or_default().to_owned();
        request.call().map_err(|error| Fault::Connection { host, reason: error.to_string() })
    }
}

/// Where a redirect leads: never from a connection that nobody can read to one that anybody can.
fn next(place: &Uri, answer: &Answer<Body>) -> Result<Uri, Fault> {
    let wrong = |what: &str| Fault::Wrong(format!("{} redirects {what}", place.host().unwrap_or_default()));
    let target = answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let target = target.ok_or_else(|| wrong("without saying where"))?;
    let scheme = place.scheme_str().unwrap_or_default();
    let authority = place.authority().map_or("", |authority| authority.as_str());
    let whole = if target.starts_with("//") {
        format!("{scheme}:{target}")
    } else if target.starts_with('/') {
        format!("{scheme}://{authority}{target}")
    } else if target.contains("://") {
        target.to_owned()
    } else {
        let folder = place.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{target}")
    };
    let target: Uri = whole.parse().map_err(|_| wrong("to something that is no address"))?;
    match (scheme, target.scheme_str()) {
        (_, Some("https")) | ("http", Some("http")) => Ok(target),
        _ => Err(wrong("from https to something less safe")),
    }
}

fn refusal(place: &Uri, answer: &Answer<Body>) -> Fault {
    let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    Fault::Status {
        host: place.host().unwrap_or_default().to_owned(),
        status: answer.status().as_u16(),
        retry_after: text(header::RETRY_AFTER).and_then(|text| text.trim().parse().ok()).map(Duration::from_secs),
        challenge: text(header::WWW_AUTHENTICATE).map(str::to_owned),
    }
}

fn given(answer: Answer<Body>) -> Given {
    let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let tag = text(header::ETAG).or_else(|| text(header::LAST_MODIFIED)).map(str::to_owned);
    let part = text(header::CONTENT_RANGE).and_then(part);
    let length = text(header::CONTENT_LENGTH).and_then(|text| text.parse().ok());
    Given { status: answer.status().as_u16(), length, part, tag, body: Box::new(answer.into_body().into_reader()) }
}

/// `bytes 0-9/100` as (0, 9, 100).
fn part(text: &str) -> Option<(u64, u64, u64)> {
    let (range, all) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, all.trim().parse().ok()?))
}

/// The host of an address, for messages.
pub fn host(url: &str) -> String {
    url.parse::<Uri>().ok().and_then(|place| place.host().map(str::to_owned)).unwrap_or_else(|| url.to_owned())
}

/// Scheme, host and port.
fn origin(place: &Uri) -> Option<String> {
    let scheme = place.scheme_str()?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    // Who is named before the host would be sent along, and host@other reads as what it is not.
    if place.authority()?.as_str().contains('@') {
        return None;
    }
    let host = place.host()?.to_ascii_lowercase();
    Some(format!("{scheme}://{host}:{}", place.port_u16().unwrap_or(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_exact() {
        let origin = |url: &str| origin(&url.parse().expect("an address"));
        assert_eq!(origin("https://Hub.example/a"), origin("https://hub.example:443/b"));
        assert_ne!(origin("https://hub.example/"), origin("http://hub.example/"));
        assert_ne!(origin("https://hub.example/"), origin("https://hub.example:8443/"));
        assert_ne!(origin("https://hub.example/"), origin("https://hub.example.evil/"));
        assert_eq!(origin("https://hub.example@evil.example/"), None);
        assert_eq!(origin("ftp://hub.example/"), None);
        assert!(Credential::bearer("https://hub.example", "a b").is_none());
        let shown = format!("{:?}", Credential::bearer("https://hub.example", "secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn redirects_lead_to_addresses_that_are_as_safe() {
        let led = |from: &str, to: Option<&str>| {
            let answer = ureq::http::Response::builder().status(302);
            let answer = to.into_iter().fold(answer, |answer, to| answer.header(header::LOCATION, to));
            let answer = answer.body(Body::builder().data(Vec::new())).expect("an answer");
            next(&from.parse().expect("an address"), &answer).map(|target| target.to_string())
        };
        let from = "https://hub.example:8443/a/b?c=d";
        for (to, target) in [
            ("https://cdn.example/x?y=z", "https://cdn.example/x?y=z"),
            ("//cdn.example/x", "https://cdn.example/x"),
            ("/x", "https://hub.example:8443/x"),
            ("x", "https://hub.example:8443/a/x"),
        ] {
            assert_eq!(led(from, Some(to)).expect(to), target);
        }
        for to in ["http://hub.example:8443/a/b", "ftp://cdn.example/x", "file:///etc/passwd", "https://a b/"] {
            assert!(led(from, Some(to)).is_err(), "{to}");
        }
        assert!(led(from, None).is_err());
        assert!(led("http://127.0.0.1:80/a", Some("http://127.0.0.1:81/b")).is_ok());
    }

    #[test]
    fn parts_are_read_exactly() {
        assert_eq!(part("bytes 0-9/100"), Some((0, 9, 100)));
        assert_eq!(part("bytes */100"), None);
        assert_eq!(part("bytes 0-9/*"), None);
    }
}
