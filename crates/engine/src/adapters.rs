//! Adapters: which were loaded with a model, and what a request has of them.
//!
//! Nothing is merged, so that each request may have others, or none: what it has goes with its sequence in every step. What is
//! computed with an adapter is no other's to go on from, so its content and its scale are in the names of pages, in the cache and
//! outside of it.

use std::path::{Path, PathBuf};

use kauri_arch::{Name, Shape};
use kauri_device::{Applied, Weight};
use kauri_formats::Checkpoint;
use kauri_model::adapter::{self, Adapter};

use crate::error::Error;

/// An adapter that is to be loaded with a model.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterFile {
    /// What requests call it.
    pub name: String,
    /// A GGUF file, or a directory as PEFT writes it.
    pub path: PathBuf,
    /// Factor on what it adds, where a request says no other.
    pub scale: f32,
    /// Whether requests have it that say nothing of adapters; otherwise only those that ask for it.
    pub always: bool,
}

/// An adapter that was loaded.
#[derive(Clone, Debug)]
pub struct AdapterFacts {
    /// What was asked for.
    pub file: AdapterFile,
    /// The hash of all that what it adds depends on.
    identity: [u8; 32],
}

/// The adapters of a model, in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Adapters {
    pub(crate) facts: Vec<AdapterFacts>,
}

impl AdapterFile {
    /// The largest scale, either way: far beyond what makes sense, and far from what a number can hold.
    pub const SCALE_MAX: f32 = 1e3;

    /// From a word of the command line: `[NAME=]FILE[:SCALE]`. One with a name is for the requests that ask for it.
    ///
    /// # Errors
    /// When the name or the scale is none.
    pub fn parse(word: &str) -> Result<Self, String> {
        let (name, rest) = match word.split_once('=') {
            Some((name, rest)) if !name.contains(['/', '\\']) => (Some(name), rest),
            Some(_) | None => (None, word),
        };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        if name.is_some_and(|name| name.is_empty() || name.len() > 256 || !name.chars().all(is_name)) {
            return Err(format!(
                "{word:?}: an adapter's name has letters, digits and . _ - only, as in sql=path/of/adapter.gguf"
            ));
        }
        let (path, scale) = match rest.rsplit_once(':') {
            Some((path, scale)) if !Path::new(rest).exists() && !scale.contains(['/', '\\']) => {
                let number = scale.parse::<f32>().ok().filter(|scale| is_scale(*scale));
                (
                    path,
                    number
                        .ok_or_else(|| format!("{word:?}: {scale:?} is no scale: give a number from -1000 to 1000"))?,
                )
            }
            Some(_) | None => (rest, 1.0),
        };
        if path.is_empty() {
            return Err(format!("{word:?} names no file"));
        }
        let stem = || {
            Path::new(path).file_stem().map_or_else(|| "adapter".to_owned(), |stem| stem.to_string_lossy().into_owned())
        };
        Ok(Self {
            name: name.map_or_else(stem, str::to_owned),
            path: PathBuf::from(path),
            scale,
            always: name.is_none(),
        })
    }
}

/// Whether an adapter can be applied with this factor.
fn is_scale(scale: f32) -> bool {
    scale.is_finite() && scale.abs() <= AdapterFile::SCALE_MAX
}

impl Adapters {
    /// Opens `files` for a model and puts what they add beside its weights.
    pub(crate) fn load(
        files: &[AdapterFile],
        checkpoint: &Checkpoint,
        names: &Shape<Name>,
        shape: Shape<Weight>,
    ) -> Result<(Self, Shape<Weight>), Error> {
        if files.is_empty() {
            return Ok((Self::default(), shape));
        }
        if let Some(file) = files.iter().find(|file| !is_scale(file.scale)) {
            return Err(Error::AdapterScale { scale: file.scale });
        }
        let open = |file: &AdapterFile| Adapter::open(&file.path, checkpoint);
        let opened = files.iter().map(open).collect::<Result<Vec<_>, adapter::Error>>()?;
        let shape = adapter::apply(&shape, names, &opened)?;
        let facts = files.iter().zip(&opened).map(|(file, adapter)| {
            let mut hasher = blake3::Hasher::new();
            adapter.content(|bytes| _ = hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes));
            let identity = hasher.finalize().into();
            AdapterFacts { file: file.clone(), identity }
        });
        let facts = facts.collect();
        opened.iter().try_for_each(Adapter::verify_unchanged)?;
        Ok((Self { facts }, shape))
    }

    /// What a request has of them, in the order of their numbers: what it says, or those that all have.
    pub(crate) fn of(&self, wanted: Option<&[Applied]>) -> Result<Vec<Applied>, Error> {
        let mut applied: Vec<Applied> = if let Some(wanted) = wanted {
            wanted.to_vec()
        } else {
            let all = (0..).zip(&self.facts).filter(|(_, facts)| facts.file.always);
            all.map(|(adapter, facts)| Applied { adapter, scale: facts.file.scale }).collect()
        };
        for one in &applied {
            if one.adapter as usize >= self.facts.len() {
                return Err(Error::UnknownAdapter { number: one.adapter, count: self.facts.len() });
            }
            if !is_scale(one.scale) {
                return Err(Error::AdapterScale { scale: one.scale });
            }
        }
        applied.sort_by_key(|one| one.adapter);
        if let Some(pair) = applied.windows(2).find(|pair| pair[0].adapter == pair[1].adapter) {
            return Err(Error::AdapterTwice { number: pair[0].adapter });
        }
        applied.retain(|one| one.scale != 0.0);
        Ok(applied)
    }

    /// What keeps the prefixes of those that have the same of adapters from those of others: `salt` itself where they have none.
    pub(crate) fn salt(&self, salt: u64, applied: &[Applied]) -> u64 {
        if applied.is_empty() {
            return salt;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"kauri adapters").update(&salt.to_le_bytes());
        for one in applied {
            hasher.update(&self.facts[one.adapter as usize].identity).update(&one.scale.to_bits().to_le_bytes());
        }
        let bytes: [u8; 8] = hasher.finalize().as_bytes()[..8].try_into().unwrap_or_default();
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_line_are_files_with_names_and_scales() {
        let file = |name: &str, path: &str, scale, always| {
            Ok(AdapterFile { name: name.to_owned(), path: PathBuf::from(path), scale, always })
        };
        assert_eq!(AdapterFile::parse("dir/one.gguf"), file("one", "dir/one.gguf", 1.0, true));
        assert_eq!(AdapterFile::parse("one.gguf:0.5"), file("one", "one.gguf", 0.5, true));
        assert_eq!(AdapterFile::parse("sql=one.gguf:-2"), file("sql", "one.gguf", -2.0, false));
        assert_eq!(AdapterFile::parse("a/b=c.gguf"), file("b=c", "a/b=c.gguf", 1.0, true));
        assert_eq!(AdapterFile::parse(r"C:\one.gguf"), file(r"C:\one", r"C:\one.gguf", 1.0, true));
        for wrong in ["", "=a.gguf", "a b=c.gguf", "one.gguf:", "one.gguf:x", "one.gguf:nan", "one.gguf:1e9", "n="] {
            assert!(AdapterFile::parse(wrong).is_err(), "{wrong}");
        }
    }
}
