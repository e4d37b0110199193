//! A model in several GGUF files, `<name>-00001-of-00003.gguf` and so on, opened by any of them.
//!
//! Metadata is that of the first part. Each part says which it is (`split.no`, from zero) and how many there are
//! (`split.count`); a file is what these keys say, whatever its name.

use std::path::{Path, PathBuf};

use indexmap::map::Entry;

use super::{Gguf, SHARDS_MAX, parse_within, values};
use crate::budget::Budget;
use crate::checkpoint::{Checkpoint, Source};
use crate::error::{Error, quoted};
use crate::mapping::Bytes;
use crate::metadata::Metadata;

const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const TENSORS_KEY: &str = "split.tensors.count";

/// Opens the model that `path`, already mapped as `bytes`, is or is a part of.
pub(crate) fn open_all(path: &Path, bytes: &Bytes) -> Result<Checkpoint, Error> {
    let mut budget = Budget::new();
    let opened = parse_within(bytes, &mut budget).map_err(|error| error.in_file(path))?;
    let Some(part) = Part::of(&opened.metadata).map_err(|error| error.in_file(path))? else {
        return Ok(Checkpoint {
            paths: vec![path.to_owned()],
            source: Source::Gguf(opened.metadata),
            tensors: opened.tensors,
        });
    };
    let paths = part.all_paths(path).map_err(|error| error.in_file(path))?;
    let mut opened = Some(opened);
    let mut open = |number: usize| {
        let wanted = Part { number: number as u64, ..part };
        match opened.take_if(|_| wanted == part) {
            Some(opened) => Ok(opened),
            None => wanted.open(&paths[number], &mut budget).map_err(|error| error.in_file(&paths[number])),
        }
    };
    let mut whole = open(0)?;
    for number in 1..paths.len() {
        whole.append(open(number)?).map_err(|error| error.in_file(&paths[number]))?;
    }
    whole.check_tensor_count().map_err(|error| error.in_file(&paths[0]))?;
    Ok(Checkpoint { paths, source: Source::Gguf(whole.metadata), tensors: whole.tensors })
}

/// Which part of a split model a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// From zero.
    number: u64,
    /// Two or more.
    count: u64,
}

impl Part {
    /// What the file says of itself; `None` if it is a whole model.
    pub(crate) fn of(metadata: &Metadata) -> Result<Option<Self>, Error> {
        let count = unsigned(metadata, COUNT_KEY)?.unwrap_or(1);
        if count <= 1 {
            return Ok(None);
        }
        if count > SHARDS_MAX {
            return Err(Error::Limit { what: format!("metadata key `{COUNT_KEY}`"), value: count, max: SHARDS_MAX });
        }
        let number = unsigned(metadata, NUMBER_KEY)?.filter(|&number| number < count);
        let number = number.ok_or_else(|| Error::Value {
            what: format!("metadata key `{NUMBER_KEY}`"),
            expected: "the number of this part, from zero, below `split.count`",
            found: metadata.get(NUMBER_KEY).map_or("none".to_owned(), values::describe),
        })?;
        Ok(Some(Self { number, count }))
    }

    /// The end of this part's file name.
    fn suffix(self) -> String {
        format!("-{:05}-of-{:05}.gguf", self.number + 1, self.count)
    }

    /// The error for a part that stands alone.
    pub(crate) fn alone(self) -> Error {
        Error::MissingFile {
            name: format!("the rest of a model in {} files", self.count),
            expected: format!("this is part {} alone", self.number + 1),
        }
    }

    /// The paths of all parts, given that of this one.
    fn all_paths(self, path: &Path) -> Result<Vec<PathBuf>, Error> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(&self.suffix()) else {
            return Err(Error::Value {
                what: format!("name of part {} of a model in {} files", self.number + 1, self.count),
                expected: "a name that ends like -00001-of-00003.gguf, as it was published",
                found: quoted(name),
            });
        };
        let part = |number| Self { number, ..self };
        Ok((0..self.count).map(|number| path.with_file_name(format!("{stem}{}", part(number).suffix()))).collect())
    }

    /// Opens the part at `path`, and makes sure that it is this one.
    fn open(self, path: &Path, budget: &mut Budget) -> Result<Gguf, Error> {
        if !path.is_file() {
            return Err(Error::MissingFile {
                name: format!("part {} of {}", self.number + 1, self.count),
                expected: "all parts of a model must be in one directory".to_owned(),
            });
        }
        let gguf = parse_within(&crate::checkpoint::map(path)?, budget)?;
        if Self::of(&gguf.metadata)? != Some(self) {
            return Err(Error::Value {
                what: format!("metadata keys `{NUMBER_KEY}` and `{COUNT_KEY}`"),
                expected: "those of the part that the file's name says",
                found: "others".to_owned(),
            });
        }
        Ok(gguf)
    }
}

impl Gguf {
    /// Adds the tensors of the next part.
    fn append(&mut self, next: Self) -> Result<(), Error> {
        for (name, tensor) in next.tensors {
            match self.tensors.entry(name) {
                Entry::Vacant(slot) => {
                    slot.insert(tensor);
                }
                Entry::Occupied(slot) => {
                    return Err(Error::Duplicate {
                        what: format!("tensor {}, already in an earlier part,", quoted(slot.key())),
                    });
                }
            }
        }
        Ok(())
    }

    fn check_tensor_count(&self) -> Result<(), Error> {
        match unsigned(&self.metadata, TENSORS_KEY)? {
            Some(count) if count != self.tensors.len() as u64 => Err(Error::Value {
                what: format!("metadata key `{TENSORS_KEY}`"),
                expected: "the number of tensors in all parts",
                found: format!("{count}, while the parts hold {}", self.tensors.len()),
            }),
            _ => Ok(()),
        }
    }
}

/// The value of a key, which must be an unsigned number if it is there.
fn unsigned(metadata: &Metadata, key: &str) -> Result<Option<u64>, Error> {
    metadata
        .get(key)
        .map(|value| {
            value.as_u64().ok_or_else(|| Error::Value {
                what: format!("metadata key `{key}`"),
                expected: "an unsigned number",
                found: values::describe(value),
            })
        })
        .transpose()
}
