//! A `tokenizer.json` as the metadata of a GGUF file: the keys `tokenizer.ggml.*` from which `gguf` reads the same vocabulary.
//!
//! Byte-pair encoding, on bytes or on characters as SentencePiece has it; what else there is, is refused. The splitting rule goes by
//! a name there: that of the rule in `split::named` whose patterns are the file's own.

use std::collections::HashMap;

use kauri_formats::checkpoint::Directory;
use kauri_formats::{Metadata, Value};
use serde_json::Value as Json;

use crate::Tokenizer;
use crate::bpe::{Prefix, Symbols, named_byte};
use crate::error::{Error, shown};
use crate::json::{File, Merge, Steps};
use crate::split;

/// Names of splitting rules, those first that most files have.
const RULES: &[&str] = &[
    "gpt-2",
    "llama-bpe",
    "qwen2",
    "qwen35",
    "smollm",
    "starcoder",
    "tekken",
    "gpt-4o",
    "deepseek-v3",
    "deepseek-llm",
    "deepseek-coder",
    "stablelm2",
    "glm4",
    "dbrx",
    "bailingmoe",
    "exaone-moe",
    "falcon",
    "seed-coder",
    "minicpm5",
    "kimi-k2",
    "viking",
    "poro-chat",
    "bloom",
    "superbpe",
    "tiny_aya",
    "youtu",
    "spark2_5",
    "ufakzeka",
    "granite-embed-multi-97m",
    "afmoe",
    "chameleon",
    "default",
];

/// What a token is, as the format counts it.
#[derive(Clone, Copy)]
enum Type {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

/// The vocabulary of a directory, filled up to `rows` tokens: as many as the table of embeddings has.
///
/// # Errors
/// When there is none, or it is of a kind that the format has no keys for.
pub fn to_gguf(directory: &Directory, rows: usize) -> Result<Vec<(String, Value)>, Error> {
    let json = directory.tokenizer.as_ref().ok_or(Error::NoTokenizer)?;
    let tokenizer = Tokenizer::from_json(json, &directory.tokenizer_config)?;
    let file: File<'_> =
        serde_json::from_slice(json).map_err(|error| Error::Json(shown(&error.to_string().replace('\n', " "))))?;
    let steps = Steps::of(&file)?;
    let steps = steps.ok_or_else(|| {
        Error::Json(format!("a GGUF has no keys for a vocabulary of the kind {:?} with these steps", file.model.kind()))
    })?;
    let (tokens, types) = tokens(&file, rows.max(tokenizer.vocab_size()));
    let mut entries = match steps.symbols {
        Symbols::Bytes => byte_pairs(&file, &steps)?,
        Symbols::Characters => sentence_pieces(&file, &steps, &tokens),
    };
    entries.push(("tokens", Value::Strings(tokens.iter().collect())));
    entries.push(("token_type", Value::Signeds(types.iter().map(|&kind| kind as i64).collect())));
    let ids = [
        ("bos_token_id", tokenizer.bos()),
        ("eos_token_id", tokenizer.eos().or_else(|| first_end(directory))),
        ("padding_token_id", tokenizer.pad()),
        ("eot_token_id", turn_end(directory, &tokenizer)),
    ];
    entries.extend(ids.into_iter().filter_map(|(key, id)| Some((key, Value::Unsigned(u64::from(id?))))));
    entries.push(("add_bos_token", Value::Bool(!tokenizer.prefix().is_empty())));
    entries.push(("add_eos_token", Value::Bool(!tokenizer.suffix().is_empty())));
    let mut entries: Vec<(String, Value)> =
        entries.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect();
    if let Some(template) = &directory.chat_template {
        entries.push(("tokenizer.chat_template".to_owned(), Value::String(template.clone())));
    }
    Ok(entries)
}

/// Whether the keys give a text the ids that the directory gives it: the last word on whether a vocabulary was told whole.
///
/// # Errors
/// When one of the two cannot be read.
pub fn agrees(directory: &Directory, metadata: &Metadata, text: &str) -> Result<bool, Error> {
    let json = directory.tokenizer.as_ref().ok_or(Error::NoTokenizer)?;
    let (from, to) = (Tokenizer::from_json(json, &directory.tokenizer_config)?, Tokenizer::from_gguf(metadata)?);
    Ok(from.encode_prompt(text) == to.encode_prompt(text))
}

/// Every token by its id, and what it is; holes are filled with tokens that nothing becomes.
fn tokens(file: &File<'_>, rows: usize) -> (Vec<String>, Vec<Type>) {
    let mut tokens: Vec<String> = (0..rows).map(|id| format!("[PAD{id}]")).collect();
    let mut types = vec![Type::Unused; rows];
    for (token, id) in file.model.vocab.tokens() {
        let id = id as usize;
        if id < rows {
            token.clone_into(&mut tokens[id]);
            types[id] = if file.model.byte_fallback && named_byte(token).is_some() { Type::Byte } else { Type::Normal };
        }
    }
    let unknown = file.model.unknown_name();
    for added in &file.added_tokens {
        let (id, content) = (added.id as usize, added.content.as_str());
        if id < rows {
            content.clone_into(&mut tokens[id]);
            types[id] = if added.special { Type::Control } else { Type::UserDefined };
        }
    }
    if let Some(id) = unknown.and_then(|unknown| tokens.iter().position(|token| token == unknown)) {
        types[id] = Type::Unknown;
    }
    (tokens, types)
}

/// The keys of byte-level BPE.
fn byte_pairs(file: &File<'_>, steps: &Steps) -> Result<Vec<(&'static str, Value)>, Error> {
    let whole_words = file.model.ignore_merges;
    let patterns = |named: &split::Named| named.patterns.iter().copied().eq(steps.patterns.iter().map(String::as_str));
    let fits = |exact: bool| {
        RULES.iter().copied().find(|name| {
            split::named(name).is_some_and(|named| {
                patterns(&named) && named.whole_words == whole_words && (!exact || named.nfc == steps.nfc)
            })
        })
    };
    let name = fits(true).or_else(|| fits(false));
    let name = name.ok_or_else(|| Error::UnknownSplit(shown(&steps.patterns.join(" then "))))?;
    let merges = file.model.merges.iter().map(|merge| match merge {
        Merge::Line(line) => line.as_str().to_owned(),
        Merge::Pair(left, right) => format!("{} {}", left.as_str(), right.as_str()),
    });
    let text = |text: &str| Value::String(text.to_owned());
    Ok(vec![("model", text("gpt2")), ("pre", text(name)), ("merges", Value::Strings(merges.collect()))])
}

/// The keys of SentencePiece: a score for each token, the higher the earlier its pieces are joined.
fn sentence_pieces(file: &File<'_>, steps: &Steps, tokens: &[String]) -> Vec<(&'static str, Value)> {
    let mut ranks: HashMap<String, usize> = HashMap::new();
    for (rank, merge) in file.model.merges.iter().enumerate() {
        let joined = match merge {
            Merge::Line(line) => line.as_str().replacen(' ', "", 1),
            Merge::Pair(left, right) => format!("{}{}", left.as_str(), right.as_str()),
        };
        ranks.entry(joined).or_insert(rank);
    }
    let last = file.model.merges.len() as f64;
    let score = |token: &String| ranks.get(token).map_or(-last, |&rank| -(rank as f64));
    let text = |text: &str| Value::String(text.to_owned());
    let mut entries = vec![
        ("model", text("llama")),
        ("pre", text("default")),
        ("scores", Value::Floats(tokens.iter().map(score).collect())),
        ("add_space_prefix", Value::Bool(!matches!(steps.prefix, Prefix::Never))),
    ];
    let unknown = file.model.unknown_name();
    let unknown = unknown.and_then(|unknown| tokens.iter().position(|token| token == unknown));
    entries.extend(unknown.map(|id| ("unknown_token_id", Value::Unsigned(id as u64))));
    entries
}

/// The ids of tokens that end an answer, as the directory lists them.
fn ends(directory: &Directory) -> Vec<u32> {
    let stated = directory.generation.get("eos_token_id").or_else(|| directory.config.get("eos_token_id"));
    let listed = stated.map(|ids| ids.as_array().map_or(std::slice::from_ref(ids), Vec::as_slice)).unwrap_or_default();
    listed.iter().filter_map(Json::as_u64).filter_map(|id| u32::try_from(id).ok()).collect()
}

fn first_end(directory: &Directory) -> Option<u32> {
    ends(directory).first().copied()
}

/// The token that ends a turn, where it is not the one that ends a text.
fn turn_end(directory: &Directory, tokenizer: &Tokenizer) -> Option<u32> {
    let listed = ends(directory).into_iter().find(|&id| Some(id) != tokenizer.eos());
    tokenizer.eot().filter(|&id| Some(id) != tokenizer.eos()).or(listed)
}
