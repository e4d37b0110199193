//! From what a person typed to a checkpoint: the default model, a file or folder of theirs, or a name of the web's whose files may be
//! here already.
//!
//! A name is hostile until checked: it becomes a path and an address. What is on this disk is the business of `local`, what is not of
//! `pull`.

mod files;
mod names;

use std::path::{Path, PathBuf};

use kauri_formats::Checkpoint;
use kauri_formats::mapping::Aligned;

use crate::catalog::Catalog;

pub use files::{Choice, Listed, QUANTS_PREFERRED, choose, quant_of};
pub use names::{
    HubName, NameError, RegistryName, WebName, host_folder, hub_folder, hub_folder_name, is_safe_path, web_folder,
};

/// The model that ships inside the binary.
static DEFAULT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../models/kauri-nano-Q4_K_M.gguf"));

/// What the default model is called.
pub const DEFAULT_NAME: &str = "kauri-nano";

/// What a word stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The model inside this program.
    BuiltIn,
    /// A file or folder of this machine, which a person named by its path.
    Path(PathBuf),
    /// A repository of the hub.
    Hub(HubName),
    /// A model of a registry.
    Registry(RegistryName),
    /// A file at a plain address.
    Web(WebName),
}

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

/// What `word` stands for: the default model, something that exists, an address, or a name of the catalog.
///
/// # Errors
/// When it is none of these, or a name that must not be one.
pub fn parse(word: &str, catalog: &Catalog) -> Result<Reference, NameError> {
    if word == DEFAULT_NAME {
        return Ok(Reference::BuiltIn);
    }
    names::check(word)?;
    if let Some(reference) = names::addressed(word)? {
        return Ok(reference);
    }
    if Path::new(word).exists() {
        return Ok(Reference::Path(PathBuf::from(word)));
    }
    if let Some(found) = catalog.find(word) {
        return found;
    }
    if names::is_repository(word) {
        let hint = format!("; hf:{word} would be the hub's");
        return Err(NameError::Unknown { name: word.to_owned(), hint });
    }
    if names::is_path(word) {
        // Opening it says what is wrong.
        return Ok(Reference::Path(PathBuf::from(word)));
    }
    Err(NameError::Unknown { name: word.to_owned(), hint: catalog.hint(word) })
}

/// Whether `word` can only be meant as a model: a word of the catalog, or an address.
pub fn is_name(word: &str, catalog: &Catalog) -> bool {
    !word.contains(char::is_whitespace) && (is_model(word) || names::is_addressed(word) || catalog.find(word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(word: &str) -> Result<Reference, NameError> {
        parse(word, &Catalog::built_in().expect("it is sound"))
    }

    #[test]
    fn names_are_told_apart() {
        assert_eq!(parsed("kauri-nano").unwrap(), Reference::BuiltIn);
        assert_eq!(parsed("/nowhere/x.gguf").unwrap(), Reference::Path("/nowhere/x.gguf".into()));
        let Reference::Hub(name) = parsed("hf:unsloth/Qwen3-8B-GGUF:q4_k_m").unwrap() else { panic!("the hub's") };
        assert_eq!((name.owner.as_str(), name.quant.as_deref()), ("unsloth", Some("Q4_K_M")));
        assert_eq!(name.to_string(), "hf:unsloth/Qwen3-8B-GGUF:Q4_K_M");
        let page = "https://huggingface.co/a/b/blob/main/sub/c-Q8_0.gguf";
        let Reference::Hub(name) = parsed(page).unwrap() else { panic!("the hub's") };
        assert_eq!(name.file.as_deref(), Some("sub/c-Q8_0.gguf"));
        let Reference::Registry(name) = parsed("ollama:llama3.2:1b").unwrap() else { panic!("a registry's") };
        assert_eq!((name.path.as_str(), name.tag.as_str()), ("library/llama3.2", "1b"));
        let Reference::Registry(name) = parsed("oci:127.0.0.1:5000/a/b").unwrap() else { panic!("a registry's") };
        assert_eq!((name.host.as_deref(), name.tag.as_str()), (Some("127.0.0.1:5000"), "latest"));
        assert!(matches!(parsed("https://example.org/m.gguf").unwrap(), Reference::Web(_)));
        assert!(matches!(parsed("qwen3:8b").unwrap(), Reference::Hub(_)));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let wrong = [
            "hf:../../etc:x",
            "hf:a/..",
            "hf:a/b/../c",
            "hf:/etc/passwd",
            "hf:a/b@../../x",
            "hf:a/b:../x",
            "hf:a--b/c",
            "hf:a/.hidden",
            "ollama:../../x",
            "ollama:/abs",
            "ollama:a/b:../../t",
            "oci:evil/../x/y",
            "https://host/a/..%2f..%2f/x.bin",
            "https://user@host/x.gguf",
            "hf:a/b\u{0}c",
            "a\nb",
            "x\u{1b}[2J",
            "",
        ];
        for word in wrong {
            assert!(parsed(word).is_err(), "{word:?}: {:?}", parsed(word));
        }
        // A repository without `hf:` is no path either.
        let said = parsed("Qwen/Qwen3-8B-GGUF").unwrap_err().to_string();
        assert!(said.contains("hf:Qwen/Qwen3-8B-GGUF"), "{said}");
        assert!(matches!(parsed("folder/m.gguf"), Ok(Reference::Path(_))));
        // What nobody knows is no path that somebody could be led to.
        assert!(matches!(parsed("qwen33"), Err(NameError::Unknown { .. })));
        assert!(parsed("qwen33").unwrap_err().to_string().contains("qwen3"), "{}", parsed("qwen33").unwrap_err());
    }

    #[test]
    fn pickles_are_refused_by_name() {
        for word in [
            "https://example.org/pytorch_model.bin",
            "hf:a/b:model.pt",
            "https://huggingface.co/a/b/resolve/main/x.ckpt",
        ] {
            let error = parsed(word).unwrap_err().to_string();
            assert!(error.contains("pickle"), "{word}: {error}");
        }
    }
}
