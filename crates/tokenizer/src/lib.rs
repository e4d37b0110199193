//! Text to token ids and back. Knows vocabularies and splitting rules; knows no model, no prompt and no request.
//!
//! Start at [`Tokenizer`]. Byte-level BPE, SentencePiece (both kinds) and WordPiece are implemented here, because a
//! vocabulary of 150,000 tokens must be ready in a few hundredths of a second and text may be hostile; what else a
//! `tokenizer.json` may describe runs on the `tokenizers` crate.
#![forbid(unsafe_code)]

use std::sync::Arc;

use kauri_formats::{Checkpoint, Metadata, Source};
use serde_json::{Map, Value as Json};

mod alphabet;
mod bpe;
mod charsmap;
mod error;
pub mod export;
mod gguf;
mod json;
mod known;
mod merge;
mod pipeline;
mod special;
mod split;
mod spm;
mod stream;
mod unigram;
mod vocabulary;
mod wordpiece;

pub use error::Error;
pub use special::Special;
pub use stream::Stream;

use bpe::{After, Bpe};
use pipeline::Pipeline;
use special::{Segment, SpecialTokens};
use spm::Spm;
use unigram::Unigram;
use vocabulary::{Kind, Vocabulary};
use wordpiece::WordPiece;

/// A vocabulary and the rules that go with it. Cheap to clone; usable from any thread.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    model: Model,
    /// Put before a prompt.
    prefix: Vec<u32>,
    /// Put after a prompt.
    suffix: Vec<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    pad: Option<u32>,
    /// Ascending.
    ends: Vec<u32>,
    /// The first space of a text only joins words.
    drops_space: bool,
}

#[derive(Debug)]
pub(crate) enum Model {
    Bpe(Bpe),
    Spm(Spm),
    Unigram(Unigram),
    WordPiece(WordPiece),
    Pipeline(Box<Pipeline>),
}

impl Tokenizer {
    /// From the keys `tokenizer.ggml.*` of a GGUF file.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self, Error> {
        Ok(Self { inner: Arc::new(gguf::read(metadata)?) })
    }

    /// From the bytes of `tokenizer.json`, and `tokenizer_config.json` (empty if there is none).
    pub fn from_json(tokenizer_json: &[u8], tokenizer_config: &Map<String, Json>) -> Result<Self, Error> {
        Ok(Self { inner: Arc::new(json::read(tokenizer_json, tokenizer_config, &Map::new())?) })
    }

    /// From whichever of the two a model has.
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Result<Self, Error> {
        match &checkpoint.source {
            Source::Gguf(metadata) => Self::from_gguf(metadata),
            Source::Safetensors(directory) => {
                let bytes = directory.tokenizer.as_ref().ok_or(Error::NoTokenizer)?;
                let inner = json::read(bytes, &directory.tokenizer_config, &directory.generation)?;
                Ok(Self { inner: Arc::new(inner) })
            }
        }
    }

    /// The ids of `text` alone: nothing is put before or after it.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        self.encode_spans(&[(text, special)])
    }

    /// The ids of a prompt: special tokens parsed, and the beginning and end tokens where the vocabulary asks for them.
    /// For text as a whole; a rendered chat template brings its own beginning and goes through [`Self::encode_spans`].
    pub fn encode_prompt(&self, text: &str) -> Vec<u32> {
        let mut ids = self.inner.prefix.clone();
        ids.extend(self.encode(text, Special::Parse));
        ids.extend(&self.inner.suffix);
        ids
    }

    /// The ids of a text that is made of spans. Neighbouring spans are tokenised as one text, so that where a span ends
    /// leaves no trace; but special tokens come only from [`Special::Parse`] spans, and only when all of a special
    /// token's text lies in such spans with nothing between them. So text of a user, which goes in a [`Special::Text`]
    /// span, can neither be a special token nor complete one that the template's text begins.
    pub fn encode_spans(&self, spans: &[(&str, Special)]) -> Vec<u32> {
        let mut text = String::new();
        let mut parse: Vec<std::ops::Range<usize>> = Vec::new();
        for &(span, special) in spans.iter().filter(|(span, _)| !span.is_empty()) {
            let start = text.len();
            text.push_str(span);
            match parse.last_mut() {
                _ if special == Special::Text => {}
                Some(before) if before.end == start => before.end = text.len(),
                _ => parse.push(start..text.len()),
            }
        }
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut after = After::Nothing;
        for segment in self.inner.special.segments(&text, &parse) {
            match segment {
                Segment::Token(id) => {
                    ids.push(id);
                    after = After::Special;
                }
                Segment::Text(range) => {
                    self.encode_text(&text[range], after, &mut ids);
                    after = After::Text;
                }
            }
        }
        ids
    }

    /// The bytes that `ids` stand for. They are not UTF-8 when the ids begin or end inside a character. With `special`,
    /// special tokens appear by name, else not at all. Ids that the vocabulary does not have give nothing.
    pub fn decode(&self, ids: &[u32], special: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        let mut first = true;
        for piece in ids.iter().filter_map(|&id| self.piece(id, special)) {
            bytes.extend_from_slice(self.trimmed(piece, first));
            first = false;
        }
        if self.tidies() { wordpiece::tidy(&bytes) } else { bytes }
    }

    /// The bytes of one token, by name if it is special; `None` beyond the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.inner.vocabulary.bytes(id)
    }

    /// Decodes an answer that begins a text, token by token.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone(), true)
    }

    /// Decodes an answer that goes on after `prompt`: where that ends in text, the space of SentencePiece's first word
    /// is part of the answer.
    pub fn stream_after(&self, prompt: &[u32]) -> Stream {
        let fresh = prompt.last().is_none_or(|&last| self.is_special(last));
        Stream::new(self.clone(), fresh)
    }

    /// How many tokens there are; ids run from 0 to one below.
    pub fn vocab_size(&self) -> usize {
        self.inner.vocabulary.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.inner.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.inner.eos
    }

    /// The token that ends a turn of a conversation.
    pub fn eot(&self) -> Option<u32> {
        self.inner.eot
    }

    /// The token that fills a batch.
    pub fn pad(&self) -> Option<u32> {
        self.inner.pad
    }

    /// What [`Self::encode_prompt`] puts first: the beginning-of-text token or nothing.
    pub fn prefix(&self) -> &[u32] {
        &self.inner.prefix
    }

    /// What [`Self::encode_prompt`] puts last: the token that ends a text or nothing.
    pub fn suffix(&self) -> &[u32] {
        &self.inner.suffix
    }

    /// All tokens after which an answer is complete, ascending.
    pub fn end_tokens(&self) -> &[u32] {
        &self.inner.ends
    }

    /// Whether a token is structure that decoding leaves out: a control token or the unknown one.
    pub fn is_special(&self, id: u32) -> bool {
        matches!(self.inner.vocabulary.kind(id), Some(Kind::Control | Kind::Unknown))
    }

    /// The id of the special token named `token`, else of the token whose bytes are `token`.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        let vocabulary = &self.inner.vocabulary;
        vocabulary.special(token).or_else(|| vocabulary.word(token.as_bytes()))
    }

    /// How text becomes tokens: `"bpe"`, `"spm"` or `"wordpiece"`.
    pub fn kind(&self) -> &'static str {
        match &self.inner.model {
            Model::Bpe(_) => "bpe",
            Model::Spm(_) | Model::Unigram(_) => "spm",
            Model::WordPiece(_) => "wordpiece",
            Model::Pipeline(pipeline) => pipeline.kind(),
        }
    }

    fn encode_text(&self, text: &str, after: After, ids: &mut Vec<u32>) {
        let vocabulary = &self.inner.vocabulary;
        match &self.inner.model {
            Model::Bpe(model) => model.encode(vocabulary, text, after, ids),
            Model::Spm(model) => model.encode(vocabulary, text, after, ids),
            Model::Unigram(model) => model.encode(text, after, ids),
            Model::WordPiece(model) => model.encode(vocabulary, text, ids),
            Model::Pipeline(model) => model.encode(vocabulary, text, after, ids),
        }
    }

    /// The bytes of token `id` in a text; `None` when it is not shown.
    fn piece(&self, id: u32, special: bool) -> Option<&[u8]> {
        let shown = special || !self.is_special(id);
        self.token_bytes(id).filter(|_| shown)
    }

    fn trimmed<'p>(&self, piece: &'p [u8], first: bool) -> &'p [u8] {
        match piece {
            [b' ', rest @ ..] if first && self.inner.drops_space => rest,
            _ => piece,
        }
    }

    /// Whether decoding takes out spaces before punctuation.
    fn tidies(&self) -> bool {
        self.kind() == "wordpiece"
    }
}
