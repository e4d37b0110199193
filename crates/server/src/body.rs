//! The body of a request: read within a limit and a time, as JSON, and then field by field: what is wrong is named.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::error::Problem;

/// What says what answers must obey, and the longest that it may be as text. A million small values take a quarter of a second to be made, and as
/// long to be read: what is too long for a schema is told before.
const BOUNDED_FIELDS: [(&str, usize); 4] =
    [("response_format", 2 << 20), ("format", 2 << 20), ("text", 2 << 20), ("tools", 4 << 20)];
/// Bodies up to here have none that is longer.
const BOUND_MIN: usize = 2 << 20;
/// The most levels that are read.
const LEVELS_MAX: usize = 127;

/// What a body may be.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Most bytes.
    pub bytes_max: usize,
    /// How long all of it may take to come.
    pub time_max: Duration,
}

/// Reads all of a body.
///
/// # Errors
/// 413 where it is too long, 408 where it comes too slowly.
pub async fn read(request: Request, limits: BodyLimits) -> Result<Bytes, Problem> {
    let too_long = || {
        let message = format!("the body has more than {} bytes", limits.bytes_max);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let stated = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if stated.is_some_and(|length: u64| length > limits.bytes_max as u64) {
        return Err(too_long());
    }
    let read = tokio::time::timeout(limits.time_max, to_bytes(request.into_body(), limits.bytes_max)).await;
    let Ok(read) = read else {
        let message = format!("the body did not come within {} s", limits.time_max.as_secs());
        return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, message));
    };
    read.map_err(|error| {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if inner.to_string().contains("length limit exceeded") {
                return too_long();
            }
            cause = inner.source();
        }
        Problem::new(StatusCode::BAD_REQUEST, format!("the body could not be read: {error}"))
    })
}

/// A body that is JSON of any kind.
///
/// # Errors
/// Where it is no JSON.
pub fn json(bytes: &[u8]) -> Result<Json, Problem> {
    if bytes.len() > BOUND_MIN {
        check_lengths(bytes)?;
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let message = error.to_string();
        let message = if message.starts_with("recursion limit exceeded") {
            format!("the body has more than {LEVELS_MAX} levels of brackets inside each other")
        } else {
            format!("the body is not JSON: {message}")
        };
        Problem::new(StatusCode::BAD_REQUEST, message)
    })
}

/// Refuses a member of the outermost object that is longer than any of its name may be. Of what is no JSON it says nothing.
fn check_lengths(bytes: &[u8]) -> Result<(), Problem> {
    let (mut levels, mut in_string, mut is_escaped) = (0_usize, false, false);
    // Of the latest string on the first level, which is a name where a colon follows, and of the value behind it.
    let (mut name, mut name_start, mut value_start) = (&[][..], 0, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' if in_string => {
                in_string = false;
                if levels == 1 && value_start == 0 {
                    name = &bytes[name_start..at];
                }
            }
            _ if in_string => {}
            b'"' => (in_string, name_start) = (true, at + 1),
            b':' if levels == 1 => value_start = at + 1,
            b'{' | b'[' => levels += 1,
            b',' | b'}' | b']' => {
                if levels == 1 && value_start > 0 {
                    check_length(name, &bytes[value_start..at])?;
                    value_start = 0;
                }
                levels = levels.saturating_sub(usize::from(byte != b','));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A text may be longer: other endpoints have texts under these names.
fn check_length(name: &[u8], value: &[u8]) -> Result<(), Problem> {
    let most = BOUNDED_FIELDS.iter().find(|(field, most)| field.as_bytes() == name && value.len() > *most);
    match most.filter(|_| !value.trim_ascii_start().starts_with(b"\"")) {
        Some((field, most)) => {
            Err(Problem::field(field, format!("{} bytes of JSON are more than {most}", value.len())))
        }
        None => Ok(()),
    }
}

/// A JSON object, of which each reader takes the fields that it knows. Others are left alone.
#[derive(Clone, Debug, Default)]
pub struct Fields(Json);

impl Fields {
    /// # Errors
    /// Where it is no JSON, or no object.
    pub fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        Self::of(json(bytes)?, "the body")
    }

    /// The members of a value that is found at `place`.
    ///
    /// # Errors
    /// Where it is no object.
    pub fn of(json: Json, place: &str) -> Result<Self, Problem> {
        if json.is_object() { Ok(Self(json)) } else { Err(Problem::field(place, "must be a JSON object")) }
    }

    /// The fields that `T` knows.
    ///
    /// # Errors
    /// Where one has the wrong type: its path and what is wrong.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        serde_path_to_error::deserialize(&self.0).map_err(|error| {
            let path = error.path().to_string();
            let message = error.into_inner().to_string();
            // A field that is missing is named by the message, and its path is that of the object that lacks it.
            let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
            match missing {
                Some(name) if path == "." => Problem::field(name, "is missing"),
                Some(name) => Problem::field(&format!("{path}.{name}"), "is missing"),
                None => Problem::field(&path, message),
            }
        })
    }

    /// Whether there is such a field.
    pub fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    /// Gives a field a value where it has none.
    pub fn put_default(&mut self, name: &str, value: Json) {
        let member = &mut self.0[name];
        if member.is_null() {
            *member = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Wanted {
        #[expect(dead_code, reason = "only its errors are looked at")]
        count: Option<u32>,
        #[expect(dead_code, reason = "only its errors are looked at")]
        list: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[expect(dead_code, reason = "only its errors are looked at")]
        name: String,
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        for (text, param) in [
            (r#"{"count": -1, "list": []}"#, "count"),
            (r#"{"count": 1.5, "list": []}"#, "count"),
            (r#"{"count": 5000000000, "list": []}"#, "count"),
            (r#"{"list": [{"name": "a"}, {"name": 7}]}"#, "list[1].name"),
            (r#"{"list": [{}]}"#, "list[0].name"),
            (r#"{"count": 1}"#, "list"),
        ] {
            let problem = Fields::parse(text.as_bytes()).unwrap().read::<Wanted>().unwrap_err();
            assert_eq!((problem.param.as_deref(), problem.status), (Some(param), StatusCode::BAD_REQUEST), "{text}");
        }
        assert!(Fields::parse(b"[1]").is_err() && Fields::parse(b"{").is_err() && Fields::parse(b"").is_err());
        assert!(Fields::parse(br#"{"count": NaN}"#).is_err());
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_told_by_its_limit() {
        let long = format!("[{}0]", "[\"tools\", {\"a\": \":\\\"}\"}],".repeat(200_000));
        let body =
            |name: &str| format!("{{\"a\": {{\"tools\": 1}}, \"prompt\": \"tools\", \"{name}\" : {long}, \"b\": []}}");
        for name in ["tools", "response_format", "format", "text"] {
            let problem = Fields::parse(body(name).as_bytes()).unwrap_err();
            assert_eq!(problem.param.as_deref(), Some(name), "{}", problem.message);
            assert!(problem.message.contains("bytes of JSON are more than"), "{}", problem.message);
        }
        assert!(Fields::parse(body("messages").as_bytes()).is_ok());
        assert!(Fields::parse(format!("{{\"text\": 1, \"prompt\": {long}}}").as_bytes()).is_ok());
        let text = format!("{{\"text\": \"{}\"}}", "tools ".repeat(BOUND_MIN));
        assert!(Fields::parse(text.as_bytes()).is_ok());
        // Of what is no JSON nothing is said of lengths.
        assert!(Fields::parse("}:,\"".repeat(BOUND_MIN).as_bytes()).is_err());
        let deep = format!("{{\"response_format\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        let problem = Fields::parse(deep.as_bytes()).unwrap_err();
        assert!(problem.message.contains("more than 127 levels"), "{}", problem.message);
    }
}
