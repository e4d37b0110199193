//! A server that speaks OpenAI's protocol: `/v1/completions` where it has it, else `/v1/chat/completions`, always as a stream.
//!
//! Servers differ in what they take. Before anything is measured, short requests find out: ids of tokens are asked for first, then
//! text, then a chat message, each with the fields that not all know (`ignore_eos`, `min_tokens`, `stream_options`) and without them.
//! What an answer says is somebody else's text: it is limited in length and time, and only counted.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value as Json, json};
use ureq::http::{Response, Uri};
use ureq::{Agent, Body, RequestBuilder};

use super::event::{self, Event};
use super::replay::{Heard, Target};
use super::words::Words;
use crate::failure::BadInput;

/// Ids under it are tokens in nearly every vocabulary; the server's own number counts where it tells.
const VOCAB: u32 = 30_000;
/// A list of models is no longer, nor what a server says about an error.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// An event of one token is no longer.
const LINE_BYTES_MAX: u64 = 1 << 20;
const KEY_BYTES_MAX: usize = 4096;
/// Of what a server says about an error, as much as a line holds.
const REASON_LETTERS_MAX: usize = 200;

/// What to know of a server before it is asked.
#[derive(Clone, Debug)]
pub struct Address<'a> {
    /// Where it is, with or without `/v1`.
    pub url: &'a str,
    /// What it calls the model; the first that it lists where unset.
    pub model: Option<&'a str>,
    /// The form of prompts; the first that it takes where unset.
    pub form: Option<Form>,
    /// What texts are made of, and how many ids there are.
    pub words: Option<Words>,
    /// How many ids there are, where somebody knows.
    pub vocab: Option<u32>,
    /// The file with the key that it asks for.
    pub key_file: Option<&'a Path>,
    /// How tokens are chosen.
    pub temperature: f32,
    /// How long a request may take.
    pub timeout: Duration,
}

/// How a prompt is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// As ids of tokens, to `/v1/completions`.
    Ids,
    /// As text, to `/v1/completions`.
    Text,
    /// As what a person says, to `/v1/chat/completions`.
    Chat,
}

/// The fields that not every server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fields {
    /// Those that keep an answer from ending early, and the one that asks for counts.
    All,
    /// The one that asks for counts.
    Counts,
    /// None.
    None,
}

/// A server that answered.
pub struct Peer {
    agent: Agent,
    base: String,
    model: Option<String>,
    key: Option<String>,
    form: Form,
    fields: Fields,
    words: Words,
    vocab: u32,
    temperature: f32,
    timeout: Duration,
}

/// Why a request got no whole answer.
enum Refusal {
    /// The server does not take it so; perhaps it does otherwise.
    Status(u16, String),
    /// Anything else.
    Broken(String),
}

impl Peer {
    /// Finds out how the server wants to be asked.
    ///
    /// # Errors
    /// When the address or the key make no sense, nobody answers, or not in this protocol.
    pub fn connect(address: &Address<'_>) -> anyhow::Result<Self> {
        let base = base(address.url)?;
        let key = address.key_file.map(key).transpose()?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // The server that was named, not one in between or behind it.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // Each request is somebody else's.
            .max_idle_connections(0)
            .timeout_global(Some(address.timeout))
            .timeout_connect(Some(address.timeout.min(Duration::from_secs(10))))
            .no_delay(true);
        let mut peer = Self {
            agent: config.build().new_agent(),
            base,
            model: address.model.map(str::to_owned),
            key,
            form: Form::Ids,
            fields: Fields::All,
            words: address.words.clone().unwrap_or_else(Words::common),
            vocab: address.vocab.unwrap_or(VOCAB),
            temperature: address.temperature,
            timeout: address.timeout,
        };
        peer.introduce(address.vocab.is_none()).with_context(|| format!("--url {}", address.url))?;
        peer.find_form(address.form).with_context(|| format!("--url {}", address.url))?;
        Ok(peer)
    }

    /// What the server calls the model.
    pub fn model(&self) -> &str {
        self.model.as_deref().unwrap_or("the model there")
    }

    /// The form of the prompts.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Reads what the server says of its models, if it does.
    fn introduce(&mut self, wants_vocab: bool) -> anyhow::Result<()> {
        let mut response = match self.authorised(self.agent.get(format!("{}/models", self.base))).call() {
            Ok(response) => response,
            Err(error) => bail!("{}", self.reason(&error)),
        };
        if matches!(response.status().as_u16(), 401 | 403) {
            bail!("the server asks for a key ({}); name a file with it: --key-file", response.status());
        }
        let Ok(models) = serde_json::from_slice::<Json>(&text(&mut response)) else { return Ok(()) };
        let first = &models["data"][0];
        if self.model.is_none() {
            self.model = first["id"].as_str().map(str::to_owned);
        }
        let vocab = first["meta"]["n_vocab"].as_u64().and_then(|vocab| u32::try_from(vocab).ok());
        if let Some(vocab) = vocab.filter(|&vocab| wants_vocab && vocab > 0) {
            self.vocab = vocab;
        }
        Ok(())
    }

    /// Tries every form until one is answered.
    fn find_form(&mut self, wanted: Option<Form>) -> anyhow::Result<()> {
        let forms = wanted.map_or_else(|| vec![Form::Ids, Form::Text, Form::Chat], |form| vec![form]);
        let mut first = None;
        for form in forms {
            for fields in [Fields::All, Fields::Counts, Fields::None] {
                (self.form, self.fields) = (form, fields);
                let vocab = self.vocab();
                let body = self.body(&[1, 2, 3, 5, 8].map(|id| id % vocab), 2);
                match self.stream(&body, &mut Heard::new(Instant::now())) {
                    Ok(()) => return Ok(()),
                    Err(Refusal::Broken(reason)) => bail!("{reason}"),
                    Err(Refusal::Status(status @ (401 | 403), reason)) => {
                        bail!("the server wants no part of this ({status}: {reason}); it may ask for a key: --key-file")
                    }
                    Err(Refusal::Status(status, reason)) => _ = first.get_or_insert((status, reason)),
                }
            }
        }
        let (status, reason) = first.expect("a form was tried");
        bail!("no form of prompt is answered there; the first was with {status}: {reason}")
    }

    fn body(&self, prompt: &[u32], gen_tokens: u32) -> String {
        let mut body = match self.form {
            Form::Ids => json!({ "prompt": prompt }),
            Form::Text => json!({ "prompt": self.words.text(prompt) }),
            Form::Chat => json!({ "messages": [{ "role": "user", "content": self.words.text(prompt) }] }),
        };
        body["max_tokens"] = json!(gen_tokens);
        body["temperature"] = json!(self.temperature);
        body["stream"] = json!(true);
        if let Some(model) = &self.model {
            body["model"] = json!(model);
        }
        if self.fields != Fields::None {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if self.fields == Fields::All {
            body["ignore_eos"] = json!(true);
            body["min_tokens"] = json!(gen_tokens);
        }
        body.to_string()
    }

    /// Asks, and hears the stream to its end.
    fn stream(&self, body: &str, heard: &mut Heard) -> Result<(), Refusal> {
        let path = match self.form {
            Form::Ids | Form::Text => "completions",
            Form::Chat => "chat/completions",
        };
        let request = self.agent.post(format!("{}/{path}", self.base)).content_type("application/json");
        let broken = |error: &ureq::Error| Refusal::Broken(self.reason(error));
        let mut response = self.authorised(request).send(body).map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(Refusal::Status(status, said(&text(&mut response))));
        }
        if response.body().mime_type() != Some("text/event-stream") {
            let kind = response.body().mime_type().unwrap_or("of no kind").to_owned();
            return Err(Refusal::Broken(format!("the answer is no stream of events but {kind}")));
        }
        let mut lines = BufReader::new(response.into_body().into_reader());
        let mut line = Vec::new();
        let mut finished = false;
        loop {
            line.clear();
            let read = (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let read = read.map_err(|error| broken(&ureq::Error::from(error)))?;
            if read as u64 == LINE_BYTES_MAX {
                return Err(Refusal::Broken(format!("a line of the stream is longer than {LINE_BYTES_MAX} bytes")));
            }
            match event::read(&line, self.form == Form::Chat).map_err(Refusal::Broken)? {
                Event::Nothing if read == 0 && finished => break,
                Event::Nothing if read == 0 => {
                    let tokens = heard.token_s.len();
                    return Err(Refusal::Broken(format!("the stream broke off after {tokens} tokens")));
                }
                Event::Nothing => {}
                Event::Over => break,
                Event::Chunk(chunk) => {
                    if chunk.is_token {
                        heard.token();
                    }
                    finished |= chunk.is_last;
                    heard.output_tokens = chunk.output_tokens.or(heard.output_tokens);
                    heard.prompt_tokens = chunk.prompt_tokens.or(heard.prompt_tokens);
                    heard.cached_tokens = chunk.cached_tokens.or(heard.cached_tokens);
                }
            }
        }
        match (heard.token_s.is_empty(), heard.output_tokens) {
            (true, None | Some(0)) => Err(Refusal::Broken("the answer has no token".to_owned())),
            // Tokens without any text: they were there at the end.
            (true, Some(_)) => {
                heard.token();
                Ok(())
            }
            (false, _) => Ok(()),
        }
    }

    fn authorised<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.key {
            Some(key) => request.header("Authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    fn reason(&self, error: &ureq::Error) -> String {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => "nobody answers".to_owned(),
            ureq::Error::Timeout(_) => format!("no whole answer within {} s (--timeout)", self.timeout.as_secs_f64()),
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        }
    }
}

impl Target for Peer {
    type Asked = String;

    fn prepare(&self, prompt: Vec<u32>, gen_tokens: u32) -> String {
        self.body(&prompt, gen_tokens)
    }

    fn ask(&self, asked: String, heard: &mut Heard) -> Result<(), String> {
        self.stream(&asked, heard).map_err(|refusal| match refusal {
            Refusal::Status(status, reason) => format!("{status}: {reason}"),
            Refusal::Broken(reason) => reason,
        })
    }

    fn vocab(&self) -> u32 {
        match self.form {
            Form::Ids => self.vocab,
            Form::Text | Form::Chat => self.words.len(),
        }
    }
}

impl Form {
    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Text => "text",
            Self::Chat => "chat",
        }
    }
}

/// The address up to `/v1`.
fn base(url: &str) -> Result<String, BadInput> {
    let refused = |what: &str| Err(BadInput(format!("--url {url}: {what}; give one such as http://127.0.0.1:8080")));
    let Ok(uri) = url.parse::<Uri>() else { return refused("not an address") };
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return refused("only plain HTTP is spoken here"),
        _ => return refused("does not begin with http://"),
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return refused("not the address of a server");
    }
    let url = url.trim_end_matches('/');
    Ok(if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") })
}

fn key(path: &Path) -> Result<String, BadInput> {
    let refused = |what: String| BadInput(format!("--key-file {}: {what}", path.display()));
    let key = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let key = key.trim();
    let is_key = !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.bytes().all(|byte| byte.is_ascii_graphic());
    if is_key { Ok(key.to_owned()) } else { Err(refused("not one line with a key".to_owned())) }
}

/// The start of a body; what cannot be read of it is left out.
fn text(response: &mut Response<Body>) -> Vec<u8> {
    let mut text = Vec::new();
    let _ = response.body_mut().as_reader().take(BODY_BYTES_MAX).read_to_end(&mut text);
    text
}

/// What a server says about an error: its message where it is in the usual place.
fn said(body: &[u8]) -> String {
    let json = serde_json::from_slice::<Json>(body).unwrap_or_default();
    let message = event::message(&json).map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(REASON_LETTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_v1_or_nowhere() {
        for url in ["http://localhost:8080", "http://localhost:8080/", "http://localhost:8080/v1", "http://h/a/v1/"] {
            let base = base(url).unwrap();
            assert!(base.ends_with("/v1") && !base.ends_with("/v1/v1"), "{url}: {base}");
        }
        for url in
            ["", "localhost:8080", "https://localhost", "http://", "ftp://h", "http://h/?q=1", "/v1", "http://h h"]
        {
            assert!(base(url).is_err(), "{url}");
        }
    }

    #[test]
    fn what_is_said_of_an_error_is_one_short_line() {
        assert_eq!(said(br#"{"error":{"message":"too\nlong","code":400}}"#), "too long");
        assert_eq!(said(br#"{"error":"plain"}"#), "plain");
        assert_eq!(said(b"<html>\n nothing </html>"), "<html> nothing </html>");
        assert_eq!(said("é".repeat(10_000).as_bytes()).chars().count(), REASON_LETTERS_MAX);
    }
}
