//! `model.safetensors.index.json`: which shard holds which tensor. Read as a stream: only the shards' names are kept.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, quoted};

/// The index of a model in several files.
pub(super) const FILE_NAME: &str = "model.safetensors.index.json";
/// The most files of one model.
const SHARDS_MAX: u64 = 4096;

/// The names of all shards, each once, sorted. Each is a plain file name that ends in `.safetensors`.
pub(super) fn shards(index: &[u8]) -> Result<BTreeSet<String>, Error> {
    let mut shards = BTreeSet::new();
    for_each_weight(index, &mut |_, shard| {
        if !shards.contains(shard) {
            check_name(shard)?;
            shards.insert(shard.to_owned());
        }
        if shards.len() as u64 > SHARDS_MAX {
            return Err(Error::Limit {
                what: format!("shards in {FILE_NAME}"),
                value: shards.len() as u64,
                max: SHARDS_MAX,
            });
        }
        Ok(())
    })?;
    Ok(shards)
}

/// Fails at the first tensor that the index names and `present` denies.
pub(super) fn verify(index: &[u8], present: impl Fn(&str) -> bool) -> Result<(), Error> {
    for_each_weight(index, &mut |tensor, _| {
        if present(tensor) {
            return Ok(());
        }
        Err(Error::MissingTensor { tensor: quoted(tensor) })
    })
}

/// An index comes from outside: a shard is a file beside it, never one elsewhere.
fn check_name(shard: &str) -> Result<(), Error> {
    let mut components = Path::new(shard).components();
    let plain = matches!(components.next(), Some(Component::Normal(name)) if name == shard)
        && components.next().is_none()
        && !shard.contains(['/', '\\', ':', '\0'])
        && shard.ends_with(".safetensors");
    if plain {
        return Ok(());
    }
    Err(Error::Value {
        what: "name of a shard".to_owned(),
        expected: "a plain file name that ends in .safetensors",
        found: quoted(shard),
    })
}

type Each<'a> = &'a mut dyn FnMut(&str, &str) -> Result<(), Error>;

/// Calls `each` with tensor and shard, for every entry of the `weight_map`.
fn for_each_weight(index: &[u8], each: Each<'_>) -> Result<(), Error> {
    let mut fault = None;
    let mut deserializer = serde_json::Deserializer::from_slice(index);
    let outer = Index { each, fault: &mut fault };
    let read = outer.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    read.map_err(|error| {
        fault.unwrap_or_else(|| Error::Json { what: "index of the shards", reason: error.to_string() })
    })
}

/// The whole index. What is wrong with an entry goes to `fault`, since JSON errors carry only text.
struct Index<'a> {
    each: Each<'a>,
    fault: &'a mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for Index<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Index<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { each, fault } = self;
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "weight_map" {
                found = true;
                map.next_value_seed(WeightMap { each: &mut *each, fault: &mut *fault })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if found { Ok(()) } else { Err(de::Error::missing_field("weight_map")) }
    }
}

/// The part that names tensors and shards.
struct WeightMap<'a> {
    each: Each<'a>,
    fault: &'a mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for WeightMap<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WeightMap<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors and the shards that hold them")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((tensor, shard)) = map.next_entry::<String, String>()? {
            if let Err(error) = (self.each)(&tensor, &shard) {
                *self.fault = Some(error);
                return Err(de::Error::custom("refused"));
            }
        }
        Ok(())
    }
}
