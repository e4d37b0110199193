//! From what a person typed to a checkpoint: the default model, a GGUF file, or a safetensors directory.

use std::path::Path;

use kauri_formats::Checkpoint;
use kauri_formats::mapping::Aligned;

/// The model that ships inside the binary.
static DEFAULT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../models/kauri-nano-Q4_K_M.gguf"));

/// What the default model is called.
pub const DEFAULT_NAME: &str = "kauri-nano";

/// Opens the model called `name`, or the default one.
///
/// # Errors
/// Those of the file formats: what is wrong with the file, and where.
pub fn open(name: Option<&str>) -> Result<Checkpoint, kauri_formats::Error> {
    match name {
        None | Some(DEFAULT_NAME) => Checkpoint::from_static(&DEFAULT.0),
        Some(path) => Checkpoint::open(Path::new(path)),
    }
}

/// Whether `word` names a model: the default one's name, or something that exists.
pub fn is_model(word: &str) -> bool {
    word == DEFAULT_NAME || (!word.is_empty() && !word.contains('\n') && Path::new(word).exists())
}
