//! The shape of `tokenizer.json`, read without copying its strings.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use crate::vocabulary::TOKENS_MAX;

/// The file. What is not named here does not change what text becomes.
#[derive(serde::Deserialize)]
pub(crate) struct File<'a> {
    #[serde(borrow, default)]
    pub(crate) added_tokens: Vec<Added<'a>>,
    #[serde(default)]
    pub(crate) normalizer: Json,
    #[serde(default)]
    pub(crate) pre_tokenizer: Json,
    #[serde(default)]
    pub(crate) post_processor: Json,
    #[serde(default)]
    pub(crate) decoder: Json,
    #[serde(borrow)]
    pub(crate) model: ModelFile<'a>,
}

/// A token added to the model's own.
#[derive(serde::Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the format's own fields")]
pub(crate) struct Added<'a> {
    pub(crate) id: u64,
    #[serde(borrow)]
    pub(crate) content: Text<'a>,
    #[serde(default)]
    pub(crate) single_word: bool,
    #[serde(default)]
    pub(crate) lstrip: bool,
    #[serde(default)]
    pub(crate) rstrip: bool,
    #[serde(default)]
    pub(crate) special: bool,
}

/// The model: all kinds in one, since files differ in which fields they write.
#[derive(serde::Deserialize)]
pub(crate) struct ModelFile<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) vocab: Vocab<'a>,
    #[serde(borrow, default)]
    pub(crate) merges: Merges<'a>,
    #[serde(borrow, default)]
    pub(crate) unk_token: Option<Text<'a>>,
    #[serde(default)]
    pub(crate) unk_id: Option<u64>,
    #[serde(default)]
    pub(crate) dropout: Option<f64>,
    #[serde(borrow, default)]
    pub(crate) continuing_subword_prefix: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) end_of_word_suffix: Option<Text<'a>>,
    #[serde(default)]
    pub(crate) byte_fallback: bool,
    #[serde(default)]
    pub(crate) ignore_merges: bool,
    #[serde(default)]
    pub(crate) max_input_chars_per_word: Option<u64>,
}

impl ModelFile<'_> {
    /// Which model it is; very old files do not say.
    pub(crate) fn kind(&self) -> &str {
        match (&self.kind, &self.vocab) {
            (Some(kind), _) => kind.as_str(),
            (None, Vocab::Scored(_)) => "Unigram",
            (None, Vocab::Ids(_)) if self.merges.0.is_empty() => "WordPiece",
            (None, Vocab::Ids(_)) => "BPE",
        }
    }

    /// The token that stands for what cannot be spelled.
    pub(crate) fn unknown_name(&self) -> Option<&str> {
        match (&self.unk_token, self.unk_id, &self.vocab) {
            (Some(name), _, _) => Some(name.as_str()),
            (None, Some(id), Vocab::Scored(tokens)) => Some(tokens.get(usize::try_from(id).ok()?)?.0.as_str()),
            _ => None,
        }
    }
}

/// A string of the file: a part of it, or unescaped.
#[derive(Debug)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The model's tokens.
pub(crate) enum Vocab<'a> {
    /// Tokens with their ids.
    Ids(Vec<(Text<'a>, u64)>),
    /// Tokens with their scores, in the order of their ids.
    Scored(Vec<(Text<'a>, f64)>),
}

impl Vocab<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ids(tokens) => tokens.len(),
            Self::Scored(tokens) => tokens.len(),
        }
    }

    /// Each token with its id.
    pub(crate) fn tokens(&self) -> Box<dyn Iterator<Item = (&str, u64)> + '_> {
        match self {
            Self::Ids(tokens) => Box::new(tokens.iter().map(|(token, id)| (token.as_str(), *id))),
            Self::Scored(tokens) => Box::new((0..).zip(tokens).map(|(id, (token, _))| (token.as_str(), id))),
        }
    }
}

/// Merges, best first.
#[derive(Default)]
pub(crate) struct Merges<'a>(Vec<Merge<'a>>);

impl<'a> std::ops::Deref for Merges<'a> {
    type Target = [Merge<'a>];

    fn deref(&self) -> &[Merge<'a>] {
        &self.0
    }
}

/// A merge, in either form that files use.
pub(crate) enum Merge<'a> {
    Line(Text<'a>),
    Pair(Text<'a>, Text<'a>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Visit)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocab<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Vocab<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a vocabulary: tokens with ids, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab<'de>, A::Error> {
                let mut tokens = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    bounded::<A::Error>(tokens.len())?;
                    tokens.push(entry);
                }
                Ok(Vocab::Ids(tokens))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocab<'de>, A::Error> {
                let mut tokens = Vec::new();
                while let Some(entry) = list.next_element()? {
                    bounded::<A::Error>(tokens.len())?;
                    tokens.push(entry);
                }
                Ok(Vocab::Scored(tokens))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Merges<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Merges<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of merges")
            }

            fn visit_unit<E>(self) -> Result<Merges<'de>, E> {
                Ok(Merges::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merges<'de>, A::Error> {
                let mut merges = Vec::new();
                while let Some(merge) = list.next_element()? {
                    bounded::<A::Error>(merges.len())?;
                    merges.push(merge);
                }
                Ok(Merges(merges))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Merge<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a merge: \"left right\" or [left, right]")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Merge<'de>, E> {
                Ok(Merge::Line(Text(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Merge<'de>, E> {
                Ok(Merge::Line(Text(Cow::Owned(text.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge<'de>, A::Error> {
                let short = || A::Error::custom("a merge has two parts");
                let left = list.next_element()?.ok_or_else(short)?;
                let right = list.next_element()?.ok_or_else(short)?;
                if list.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    return Err(short());
                }
                Ok(Merge::Pair(left, right))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

fn bounded<E: serde::de::Error>(count: usize) -> Result<(), E> {
    if count < TOKENS_MAX {
        return Ok(());
    }
    Err(E::custom(format!("more than {TOKENS_MAX} entries")))
}
