//! A model directory in the Hugging Face layout: settings in JSON files, tensors in one or more safetensors files.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde_json::{Map, Value as Json};

use super::{index, json, parse_within, scaled};
use crate::budget::Budget;
use crate::checkpoint::{self, Checkpoint, Directory, Source, Tensor};
use crate::error::{Error, quoted};

/// The only file of tensors, if there is but one.
const SINGLE: &str = "model.safetensors";
const CONFIG: &str = "config.json";
/// Folders of matrices behind the pooling, as sentence-transformers writes them, and what their tensors are called here.
const BEHIND: [(&str, &str); 2] = [("2_Dense", "dense_2"), ("3_Dense", "dense_3")];

/// An adapter's settings, and its tensors, as PEFT writes them.
const ADAPTER_CONFIG: &str = "adapter_config.json";
const ADAPTER: &str = "adapter_model.safetensors";

/// Opens the adapter in a directory: its settings are those that a model has in `config.json`.
pub(crate) fn open_adapter(directory: &Path) -> Result<Checkpoint, Error> {
    let mut budget = Budget::new();
    let settings = directory.join(ADAPTER_CONFIG);
    let config = json::read_object(&settings, &mut budget).map_err(|error| error.in_file(&settings))?;
    let config = config.ok_or_else(|| missing(directory, ADAPTER_CONFIG))?;
    let path = directory.join(ADAPTER);
    if !path.exists() {
        return Err(missing(directory, ADAPTER));
    }
    let mut tensors = IndexMap::new();
    read_shard(&path, &mut tensors, &mut budget).map_err(|error| error.in_file(&path))?;
    let source = Source::Safetensors(Box::new(Directory { config, ..Directory::default() }));
    Ok(Checkpoint { paths: vec![path], source, tensors })
}

/// Opens the model in a directory.
pub(crate) fn open_directory(directory: &Path) -> Result<Checkpoint, Error> {
    let single = directory.join(SINGLE);
    let indexed = directory.join(index::FILE_NAME);
    if !directory.join(CONFIG).exists() {
        return Err(missing(directory, CONFIG));
    }
    if single.exists() {
        open(directory, &[single], None)
    } else if indexed.exists() {
        open_indexed(directory, &indexed)
    } else {
        Err(missing(directory, SINGLE))
    }
}

/// Opens the model that a `.safetensors` file belongs to: all shards if an index beside it names it, else it alone.
pub(crate) fn open_file(path: &Path) -> Result<Checkpoint, Error> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let indexed = directory.join(index::FILE_NAME);
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !directory.join(CONFIG).exists() {
        return Err(missing(directory, CONFIG));
    }
    if name != SINGLE && indexed.exists() {
        let bytes = checkpoint::map(&indexed).map_err(|error| error.in_file(&indexed))?;
        let shards = index::shards(&bytes).map_err(|error| error.in_file(&indexed))?;
        if shards.contains(name) {
            return open_indexed(directory, &indexed);
        }
    }
    open(directory, &[path.to_owned()], None)
}

fn open_indexed(directory: &Path, indexed: &Path) -> Result<Checkpoint, Error> {
    let bytes = checkpoint::map(indexed).map_err(|error| error.in_file(indexed))?;
    let shards = index::shards(&bytes).map_err(|error| error.in_file(indexed))?;
    let paths: Vec<PathBuf> = shards.iter().map(|shard| directory.join(shard)).collect();
    if let Some(absent) = paths.iter().find(|path| !path.exists()) {
        return Err(Error::MissingFile {
            name: "this shard".to_owned(),
            expected: format!("{} names it", index::FILE_NAME),
        }
        .in_file(absent));
    }
    open(directory, &paths, Some((indexed, &bytes)))
}

fn open(directory: &Path, shards: &[PathBuf], indexed: Option<(&Path, &[u8])>) -> Result<Checkpoint, Error> {
    let mut budget = Budget::new();
    let mut tensors = IndexMap::new();
    for path in shards {
        read_shard(path, &mut tensors, &mut budget).map_err(|error| error.in_file(path))?;
    }
    let mut paths = shards.to_vec();
    for (folder, name) in BEHIND {
        let path = directory.join(folder).join(SINGLE);
        if path.exists() {
            let mut found = IndexMap::new();
            read_shard(&path, &mut found, &mut budget).map_err(|error| error.in_file(&path))?;
            let part = |tensor: &str| tensor.strip_prefix("linear.").unwrap_or(tensor).to_owned();
            tensors.extend(found.into_iter().map(|(tensor, bytes)| (format!("{name}.{}", part(&tensor)), bytes)));
            paths.push(path);
        }
    }
    if let Some((path, bytes)) = indexed {
        index::verify(bytes, |tensor| tensors.contains_key(tensor)).map_err(|error| error.in_file(path))?;
    }
    let settings = settings(directory, &mut budget)?;
    let config = directory.join(CONFIG);
    let format = scaled::Format::read(&settings.config).map_err(|error| error.in_file(&config))?;
    // Which of several shards has the tensor, its name says.
    let tensors = scaled::join(tensors, &format).map_err(|error| error.in_file(shards.first().unwrap_or(&config)))?;
    Ok(Checkpoint { paths, source: Source::Safetensors(Box::new(settings)), tensors })
}

fn read_shard(path: &Path, tensors: &mut IndexMap<String, Tensor>, budget: &mut Budget) -> Result<(), Error> {
    let bytes = checkpoint::map(path)?;
    checkpoint::refuse_others(&bytes, path)?;
    for (name, tensor) in parse_within(&bytes, budget)? {
        match tensors.entry(name) {
            Entry::Vacant(slot) => {
                slot.insert(tensor);
            }
            Entry::Occupied(slot) => {
                return Err(Error::Duplicate {
                    what: format!("tensor {}, already in an earlier shard,", quoted(slot.key())),
                });
            }
        }
    }
    Ok(())
}

fn settings(directory: &Path, budget: &mut Budget) -> Result<Directory, Error> {
    let mut object = |name: &str| {
        let path = directory.join(name);
        json::read_object(&path, budget).map_err(|error| error.in_file(&path))
    };
    let config = object(CONFIG)?.ok_or_else(|| missing(directory, CONFIG))?;
    let generation = object("generation_config.json")?.unwrap_or_default();
    let tokenizer_config = object("tokenizer_config.json")?.unwrap_or_default();
    let pooling = object("1_Pooling/config.json")?.unwrap_or_default();
    let template = directory.join("chat_template.jinja");
    let template = json::read_text(&template, budget).map_err(|error| error.in_file(&template))?;
    let tokenizer = directory.join("tokenizer.json");
    let tokenizer = if tokenizer.exists() {
        Some(checkpoint::map(&tokenizer).map_err(|error| error.in_file(&tokenizer))?)
    } else {
        None
    };
    Ok(Directory {
        chat_template: template.or_else(|| default_template(&tokenizer_config)),
        config,
        generation,
        tokenizer,
        tokenizer_config,
        pooling,
    })
}

/// The template in `tokenizer_config.json`: text, or a list of named ones of which `default` counts.
fn default_template(tokenizer_config: &Map<String, Json>) -> Option<String> {
    let text = match tokenizer_config.get("chat_template")? {
        Json::Array(templates) => {
            let default = templates.iter().find(|template| template["name"] == "default")?;
            &default["template"]
        }
        single => single,
    };
    text.as_str().map(str::to_owned)
}

/// The error for a directory that lacks `name`, by what it has instead.
fn missing(directory: &Path, name: &str) -> Error {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let others: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let with = |wanted: &[&str]| {
        let has = |path: &&PathBuf| path.extension().is_some_and(|end| wanted.iter().any(|wanted| end == *wanted));
        others.iter().find(has)
    };
    if with(&["gguf"]).is_some() {
        return Error::MissingFile {
            name: name.to_owned(),
            expected: "the directory holds GGUF files: give the path of one of them".to_owned(),
        }
        .in_file(directory);
    }
    let pickle = with(&checkpoint::PICKLE_EXTENSIONS).filter(|_| with(&["safetensors"]).is_none());
    if let Some(pickle) = pickle {
        return Error::Pickle.in_file(pickle);
    }
    let expected = match name {
        ADAPTER | ADAPTER_CONFIG => format!("an adapter's directory holds {ADAPTER_CONFIG} and {ADAPTER}"),
        CONFIG => format!("a model directory holds {CONFIG} beside its safetensors files"),
        _ => format!("a model directory holds {SINGLE}, or {} and its shards", index::FILE_NAME),
    };
    Error::MissingFile { name: name.to_owned(), expected }.in_file(directory)
}
