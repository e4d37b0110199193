//! A tokenizer from `tokenizer.json`, the format of <https://github.com/huggingface/tokenizers>.
//!
//! Byte-pair encoding, which nearly all such files are, is read straight into `bpe`, because the `tokenizers` crate needs
//! a third of a second for a vocabulary of 150,000. Other pipelines run on that crate, behind `pipeline`.

use serde_json::{Map, Value as Json};

use crate::bpe::{self, Bpe, Rule, Symbols, words_are_apart};
use crate::error::{Error, shown};
use crate::known;
use crate::pipeline::Pipeline;
use crate::special::{Named, SpecialTokens, is_markup};
use crate::split::Splitter;
use crate::vocabulary::{Kind, Reach, TOKENS_MAX, Vocabulary, limit};
use crate::{Inner, Model};

mod file;
mod steps;

use file::Added;
pub(crate) use file::{File, Merge, Vocab};
pub(crate) use steps::{Steps, visit};

/// Reads a tokenizer. `config` is `tokenizer_config.json` and `generation` is `generation_config.json`, each empty if
/// there is none.
pub(crate) fn read(json: &[u8], config: &Map<String, Json>, generation: &Map<String, Json>) -> Result<Inner, Error> {
    let file: File<'_> =
        serde_json::from_slice(json).map_err(|error| Error::Json(shown(&error.to_string().replace('\n', " "))))?;
    let steps = Steps::of(&file)?;
    let vocabulary = vocabulary(&file, steps.as_ref())?;
    let model = match steps {
        Some(steps) => Model::Bpe(bpe(&file, &vocabulary, &steps)?),
        None => Model::Pipeline(Box::new(Pipeline::new(json, &file)?)),
    };
    let drops_space = steps_drop_space(&file.decoder);
    let special = SpecialTokens::new(named_tokens(&file))?;
    let named = |key: &str| config_token(config, key).and_then(|name| vocabulary.special(name));
    let (bos, eos, pad) = (named("bos_token"), named("eos_token"), named("pad_token"));
    let (prefix, suffix) = around(&file, config, &vocabulary, bos, eos);
    let eot = known::turn_end(&vocabulary);
    let ends = known::ends(&vocabulary, eos.into_iter().chain(generation_ends(generation, vocabulary.len())));
    Ok(Inner { vocabulary, special, model, prefix, suffix, bos, eos, eot, pad, ends, drops_space })
}

fn bpe(file: &File<'_>, vocabulary: &Vocabulary, steps: &Steps) -> Result<Bpe, Error> {
    let unknown = file.model.unk_token.as_ref().and_then(|name| word_or_special(vocabulary, name.as_str()));
    let style = bpe::Style {
        symbols: steps.symbols,
        whole_words: file.model.ignore_merges,
        nfc: steps.nfc,
        prefix: steps.prefix,
        words_apart: steps.symbols == Symbols::Characters && words_are_apart(vocabulary),
    };
    let splitter = Splitter::new(steps.patterns.iter().map(|pattern| &**pattern))?;
    let rules = file.model.merges.iter().map(|merge| match merge {
        Merge::Line(line) => Rule::Line(line.as_str()),
        Merge::Pair(left, right) => Rule::Pair(left.as_str(), right.as_str()),
    });
    Bpe::new(vocabulary, rules, unknown, splitter, style)
}

fn word_or_special(vocabulary: &Vocabulary, name: &str) -> Option<u32> {
    vocabulary.special(name).or_else(|| vocabulary.word(name.as_bytes()))
}

/// How the tokens of the model are written, which is how decoding reads them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling<'a> {
    /// In the byte alphabet.
    Bytes,
    /// With SentencePiece's mark for a space, and `<0x0A>` for a byte.
    Marked,
    /// A token that continues a word has this in front.
    Continued(&'a str),
    /// As they are.
    Plain,
}

impl<'a> Spelling<'a> {
    fn of(file: &'a File<'_>, steps: Option<&Steps>) -> Self {
        if let Some(steps) = steps {
            return match steps.symbols {
                Symbols::Characters => Self::Marked,
                Symbols::Bytes => Self::Bytes,
            };
        }
        let mut kinds = Vec::new();
        visit(&file.decoder, &mut |step| {
            kinds.extend(step.get("type").and_then(Json::as_str));
        });
        if kinds.contains(&"ByteLevel") {
            Self::Bytes
        } else if kinds.contains(&"WordPiece") {
            let prefix = file.decoder.get("prefix").and_then(Json::as_str);
            Self::Continued(prefix.unwrap_or("##"))
        } else if kinds.iter().any(|kind| matches!(*kind, "Metaspace" | "Replace" | "ByteFallback")) {
            Self::Marked
        } else {
            Self::Plain
        }
    }

    fn push(self, vocabulary: &mut Vocabulary, token: &str, scratch: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            _ if token.is_empty() => drop(vocabulary.push(b"", Kind::Unused, Reach::Nothing)?),
            Self::Bytes => bpe::push_bytes_token(vocabulary, token, scratch)?,
            Self::Marked => match bpe::named_byte(token) {
                Some(byte) => drop(vocabulary.push(&[byte], Kind::Byte, Reach::Nothing)?),
                None => bpe::push_marked_token(vocabulary, token, scratch)?,
            },
            Self::Continued(prefix) => {
                if let Some(rest) = token.strip_prefix(prefix) {
                    vocabulary.push(rest.as_bytes(), Kind::Normal, Reach::Nothing)?;
                } else {
                    scratch.clear();
                    scratch.push(b' ');
                    scratch.extend(token.as_bytes());
                    vocabulary.push(scratch, Kind::Normal, Reach::Word)?;
                }
            }
            Self::Plain => drop(vocabulary.push(token.as_bytes(), Kind::Normal, Reach::Word)?),
        }
        Ok(())
    }
}

/// What an id is, before all ids are in order.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Hole,
    Word(&'a str),
    Added(&'a Added<'a>),
}

fn vocabulary(file: &File<'_>, steps: Option<&Steps>) -> Result<Vocabulary, Error> {
    let count = file.model.vocab.len() + file.added_tokens.len();
    limit("the number of tokens", count, TOKENS_MAX)?;
    // Some vocabularies leave holes; none is mostly holes.
    let most = count as u64 * 4 + 0x10000;
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(count);
    for (token, id) in file.model.vocab.tokens() {
        let entry = slot(&mut entries, id, most)?;
        if let Entry::Word(other) = *entry {
            return Err(Error::Json(format!("id {id} belongs to both {:?} and {:?}", shown(other), shown(token))));
        }
        *entry = Entry::Word(token);
    }
    for added in &file.added_tokens {
        let entry = slot(&mut entries, added.id, most)?;
        let other = match *entry {
            Entry::Hole => None,
            Entry::Word(word) => Some(word).filter(|word| *word != added.content.as_str()),
            Entry::Added(other) => Some(other.content.as_str()),
        };
        if let Some(other) = other {
            let (other, content) = (shown(other), shown(added.content.as_str()));
            return Err(Error::Json(format!("id {} belongs to both {other:?} and {content:?}", added.id)));
        }
        *entry = Entry::Added(added);
    }
    let spelling = Spelling::of(file, steps);
    let unknown = file.model.unknown_name();
    let mut vocabulary = Vocabulary::with_capacity(entries.len())?;
    let mut scratch = Vec::new();
    for entry in entries {
        match entry {
            Entry::Hole => drop(vocabulary.push(b"", Kind::Unused, Reach::Nothing)?),
            Entry::Added(added) => {
                let content = added.content.as_str();
                let kind = match added.special {
                    true if Some(content) == unknown => Kind::Unknown,
                    true => Kind::Control,
                    false => Kind::UserDefined,
                };
                vocabulary.push(content.as_bytes(), kind, Reach::Special)?;
            }
            Entry::Word(token) => spelling.push(&mut vocabulary, token, &mut scratch)?,
        }
    }
    Ok(vocabulary)
}

fn slot<'e, 'a>(entries: &'e mut Vec<Entry<'a>>, id: u64, most: u64) -> Result<&'e mut Entry<'a>, Error> {
    if id >= most {
        return Err(Error::Limit { what: "a token id in tokenizer.json", found: id, limit: most });
    }
    let index = id as usize;
    if index >= entries.len() {
        entries.resize(index + 1, Entry::Hole);
    }
    Ok(&mut entries[index])
}

fn named_tokens(file: &File<'_>) -> Vec<Named> {
    let named = |added: &Added<'_>| Named {
        text: added.content.as_str().to_owned(),
        id: added.id as u32,
        strip_left: added.lstrip,
        strip_right: added.rstrip,
        single_word: added.single_word,
        in_text: !added.special && !is_markup(added.content.as_str()),
    };
    file.added_tokens.iter().filter(|added| !added.content.as_str().is_empty()).map(named).collect()
}

/// The name that `tokenizer_config.json` gives for a role: text, or an object with the text.
fn config_token<'c>(config: &'c Map<String, Json>, key: &str) -> Option<&'c str> {
    let value = config.get(key)?;
    value.as_str().or_else(|| value.get("content")?.as_str())
}

fn generation_ends(generation: &Map<String, Json>, count: usize) -> Vec<u32> {
    let ids = match generation.get("eos_token_id") {
        Some(Json::Array(ids)) => ids.iter().filter_map(Json::as_u64).collect(),
        Some(id) => id.as_u64().into_iter().collect(),
        None => Vec::new(),
    };
    ids.into_iter().filter(|&id| id < count as u64).map(|id| id as u32).collect()
}

/// What goes before and after a prompt: as the configuration says, else as the post-processor does it.
fn around(
    file: &File<'_>,
    config: &Map<String, Json>,
    vocabulary: &Vocabulary,
    bos: Option<u32>,
    eos: Option<u32>,
) -> (Vec<u32>, Vec<u32>) {
    let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
    visit(&file.post_processor, &mut |step| {
        let pair = |key: &str| step.get(key).and_then(|pair| vocabulary.special(pair.get(0)?.as_str()?));
        match step.get("type").and_then(Json::as_str) {
            Some("BertProcessing" | "RobertaProcessing") => {
                prefix = pair("cls").into_iter().collect();
                suffix = pair("sep").into_iter().collect();
            }
            Some("TemplateProcessing") => {
                let parts = step.get("single").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
                let text = parts.iter().position(|part| part.get("Sequence").is_some()).unwrap_or(parts.len());
                let id = |part: &Json| vocabulary.special(part.get("SpecialToken")?.get("id")?.as_str()?);
                prefix = parts[..text].iter().filter_map(id).collect();
                suffix = parts[text..].iter().filter_map(id).collect();
            }
            _ => {}
        }
    });
    match config.get("add_bos_token").and_then(Json::as_bool) {
        Some(true) if bos.is_some() => prefix = bos.into_iter().collect(),
        Some(false) if bos.is_some() && prefix.iter().copied().eq(bos) => prefix.clear(),
        _ => {}
    }
    match config.get("add_eos_token").and_then(Json::as_bool) {
        Some(true) if eos.is_some() => suffix = eos.into_iter().collect(),
        Some(false) if eos.is_some() && suffix.iter().copied().eq(eos) => suffix.clear(),
        _ => {}
    }
    (prefix, suffix)
}

/// Whether decoding drops the first space.
fn steps_drop_space(decoder: &Json) -> bool {
    let mut drops = false;
    visit(decoder, &mut |step| {
        drops |= match step.get("type").and_then(Json::as_str) {
            Some("Strip") => step.get("start").and_then(Json::as_u64).is_some_and(|count| count > 0),
            Some("Metaspace") => step.get("prepend_scheme").and_then(Json::as_str) != Some("never"),
            Some("WordPiece") => true,
            _ => false,
        };
    });
    drops
}
