//! API keys: each with a name, and perhaps a limit of its own.
//!
//! Only hashes of keys are kept, and they are compared in constant time: how long a refusal takes tells nothing of a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::error::Problem;
use crate::watched::{Watch, watched};

/// Seconds after which a key that has as many requests open as it may should try again.
const RETRY_S: u32 = 1;
/// The shortest key: a shorter one is guessed.
const KEY_BYTES_MIN: usize = 16;

/// The keys of a server; none lets everybody in.
#[derive(Debug, Default)]
pub struct Keys(Vec<Arc<Key>>);

#[derive(Debug)]
struct Key {
    number: u64,
    name: String,
    hash: blake3::Hash,
    /// Most requests open at a time.
    open_max: Option<u32>,
    is_admin: bool,
    open: AtomicU32,
}

/// A key as it is given.
#[derive(Clone, Default)]
pub struct GivenKey {
    /// Whose it is; `default` where nothing is said.
    pub name: String,
    /// What is sent.
    pub key: String,
    /// Most requests open at a time.
    pub open_max: Option<u32>,
    /// Whether it may change what others get.
    pub is_admin: bool,
}

/// A key that has let a request in, until that is over.
#[derive(Debug)]
pub struct Held(Arc<Key>);

impl Keys {
    /// Reads a file of keys: one a line, a name, the key, perhaps `open=N` for the most requests it may have open at a time, and `admin`
    /// where it may change what others get. What follows `#` at a line's beginning is a remark.
    ///
    /// # Errors
    /// Names the line that is wrong, and never the key in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| {
                format!("line {}: {what}; a line is a name, a key and perhaps open=N and admin", index + 1)
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, key, rest) = match &words[..] {
                [] => continue,
                [key] => ("default", *key, &[][..]),
                [name, key, rest @ ..] => (*name, *key, rest),
            };
            let mut given = GivenKey { name: name.to_owned(), key: key.to_owned(), ..GivenKey::default() };
            for &word in rest {
                let count = word.strip_prefix("open=").and_then(|count| count.parse().ok()).filter(|&count| count > 0);
                match count {
                    Some(count) if given.open_max.is_none() => given.open_max = Some(count),
                    None if word == "admin" && !given.is_admin => given.is_admin = true,
                    Some(_) | None => {
                        return Err(wrong("a word behind the key is neither open=N nor admin, or is there twice"));
                    }
                }
            }
            keys.add(given).map_err(|error| wrong(&error))?;
        }
        if keys.is_empty() {
            return Err("there is no key in it; a line is a name, a key and perhaps open=N and admin".to_owned());
        }
        Ok(keys)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// Where it is too short, or another has its name; never with the key.
    pub fn add(&mut self, given: GivenKey) -> Result<(), String> {
        let GivenKey { name, key, open_max, is_admin } = given;
        let name = if name.is_empty() { "default".to_owned() } else { name };
        if key.len() < KEY_BYTES_MIN {
            return Err(format!("the key has fewer than {KEY_BYTES_MIN} characters"));
        }
        if self.0.iter().any(|other| other.name == name) {
            return Err(format!("there is a key called {name:?} already"));
        }
        let (number, hash) = (self.0.len() as u64 + 1, blake3::hash(key.as_bytes()));
        self.0.push(Arc::new(Key { number, name, hash, open_max, is_admin, open: AtomicU32::new(0) }));
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key in a request's headers.
    pub fn given(headers: &HeaderMap) -> Option<&[u8]> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, key) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(key.trim_ascii())
        });
        bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
    }

    /// Lets a request with this key in.
    ///
    /// # Errors
    /// 401 where it is none of ours, 429 where it has as many requests open as it may.
    pub fn admit(&self, given: Option<&[u8]>) -> Result<Held, Problem> {
        let hash = blake3::hash(given.unwrap_or_default());
        // Every key is compared, and each comparison takes the same time.
        let found = self.0.iter().fold(None, |found, key| if key.hash == hash { Some(key) } else { found });
        let Some(key) = found.filter(|_| given.is_some()) else {
            let message = match given {
                Some(_) => "the API key is wrong",
                None => "an API key is needed: send it as `Authorization: Bearer KEY`",
            };
            return Err(Problem::new(StatusCode::UNAUTHORIZED, message).with_code("invalid_api_key"));
        };
        let open = key.open.fetch_add(1, Ordering::AcqRel);
        let held = Held(Arc::clone(key));
        if key.open_max.is_some_and(|most| open >= most) {
            let message = format!("the key {:?} has {open} requests open, as many as it may", key.name);
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, message).with_code("too_many_open");
            return Err(problem.retry_after(RETRY_S));
        }
        Ok(held)
    }
}

impl Held {
    /// The key's place in the file.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether it may change what others get.
    pub fn is_admin(&self) -> bool {
        self.0.is_admin
    }

    /// Holds the key until a response is sent.
    pub fn until_end_of(self, body: Body) -> Body {
        watched(body, self)
    }
}

impl Watch for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# of the house\nalice sk-0123456789abcdef\n\nbob   sk-fedcba9876543210 open=1\n";

    #[test]
    fn keys_let_in_and_have_limits_of_their_own() {
        let keys = Keys::parse(FILE).unwrap();
        let alice = keys.admit(Some(b"sk-0123456789abcdef")).unwrap();
        let bob = keys.admit(Some(b"sk-fedcba9876543210")).unwrap();
        assert_ne!(alice.number(), bob.number());
        let refusal = keys.admit(Some(b"sk-fedcba9876543210")).unwrap_err();
        assert_eq!((refusal.status, refusal.retry_after_s), (StatusCode::TOO_MANY_REQUESTS, Some(1)));
        drop(bob);
        assert!(keys.admit(Some(b"sk-fedcba9876543210")).is_ok(), "the refused one holds nothing");
        for wrong in [None, Some(&b""[..]), Some(b"sk-0123456789abcdeF"), Some(b"sk-0123456789abcdef0")] {
            assert_eq!(keys.admit(wrong).unwrap_err().status, StatusCode::UNAUTHORIZED, "{wrong:?}");
        }
    }

    #[test]
    fn only_a_key_that_is_said_to_be_may_change_what_others_get() {
        let keys = Keys::parse(
            "a sk-0123456789abcdef admin open=2\nb sk-fedcba9876543210 open=2 admin\nc sk-00000000fedcba98 open=2",
        )
        .unwrap();
        let is_admin = |key: &[u8]| keys.admit(Some(key)).unwrap().is_admin();
        assert!(is_admin(b"sk-0123456789abcdef") && is_admin(b"sk-fedcba9876543210"));
        assert!(!is_admin(b"sk-00000000fedcba98"));
        assert_eq!(keys.0.iter().map(|key| key.open_max).collect::<Vec<_>>(), [Some(2); 3]);
    }

    #[test]
    fn what_is_kept_is_not_the_key() {
        let keys = Keys::parse(FILE).unwrap();
        let kept = format!("{keys:?}");
        assert!(kept.contains("alice") && !kept.contains("0123456789abcdef"), "{kept}");
        // A hash is compared as a whole, in time that does not depend on what is in it (`blake3::Hash` says so): not its bytes one by one.
        let _: fn(&blake3::Hash, &blake3::Hash) -> bool = |kept, given| kept == given;
        let Key { hash, .. } = &*keys.0[0];
        assert_eq!(*hash, blake3::hash(b"sk-0123456789abcdef"));
    }

    #[test]
    fn keys_are_found_in_either_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(Keys::given(&headers), None);
        headers.insert("x-api-key", "k1".parse().unwrap());
        assert_eq!(Keys::given(&headers), Some(&b"k1"[..]));
        headers.insert(header::AUTHORIZATION, "bearer k2".parse().unwrap());
        assert_eq!(Keys::given(&headers), Some(&b"k2"[..]));
        headers.insert(header::AUTHORIZATION, "Basic k3".parse().unwrap());
        assert_eq!(Keys::given(&headers), Some(&b"k1"[..]));
    }

    #[test]
    fn files_that_make_no_sense_are_refused_without_the_key() {
        for (text, part) in [
            ("", "no key"),
            ("a short", "line 1"),
            ("\na sk-0123456789abcdef open=0", "line 2"),
            ("a sk-0123456789abcdef\na sk-fedcba9876543210", "line 2"),
            ("a sk-0123456789abcdef open=1 x", "line 1"),
            ("a sk-0123456789abcdef open=1 open=2", "line 1"),
            ("a sk-0123456789abcdef admin admin", "line 1"),
            ("a sk-0123456789abcdef Admin", "line 1"),
        ] {
            let error = Keys::parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains("0123"), "{error}");
        }
    }
}
