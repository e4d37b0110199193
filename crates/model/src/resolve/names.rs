//! Names of models elsewhere, checked before they become a path or an address.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Reference;
use super::files::is_quant;
use crate::pull::{self, Places};

/// The longest word that is a name.
const NAME_BYTES_MAX: usize = 1024;
/// The longest part of one.
const PART_BYTES_MAX: usize = 128;
/// Files that may hold programs instead of numbers.
const PICKLES: [&str; 5] = [".bin", ".pt", ".pth", ".ckpt", ".pkl"];

/// A repository of the hub: `hf:owner/repo[@revision][:quant or file]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubName {
    /// Whose it is.
    pub owner: String,
    /// What it is called.
    pub repo: String,
    /// A branch, a tag or a commit.
    pub revision: String,
    /// The quantisation, in capitals.
    pub quant: Option<String>,
    /// The file, or the first of several.
    pub file: Option<String>,
}

/// A model of a registry: `ollama:name[:tag]`, `oci:host/name[:tag]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryName {
    /// Host and perhaps port; the registry of names without one where unset.
    pub host: Option<String>,
    /// The repository.
    pub path: String,
    /// The tag.
    pub tag: String,
}

/// A file at an address: `https://..[#sha256=..]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebName {
    /// The address.
    pub url: String,
    /// What the file is called here.
    pub file: String,
    /// What it must come to, where that was said.
    pub sha256: Option<String>,
}

/// A word that is no model's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It cannot be one.
    #[error("{name:?} cannot be a model's name: {why}")]
    Wrong {
        /// The word.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// It is a pickle's.
    #[error(
        "{name}: a pickle, by its name; reading one can run code, so kauri never does: take the model in safetensors or GGUF"
    )]
    Pickle {
        /// The word.
        name: String,
    },
    /// Nobody knows it.
    #[error(
        "there is no model {name:?}: no such file, and no such name in the catalog{hint}; kauri list shows the names, hf:OWNER/REPO takes any repository of the hub"
    )]
    Unknown {
        /// The word.
        name: String,
        /// What may have been meant.
        hint: String,
    },
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hf:{}/{}", self.owner, self.repo)?;
        if self.revision != MAIN {
            write!(f, "@{}", self.revision)?;
        }
        match (&self.quant, &self.file) {
            (Some(part), _) | (None, Some(part)) => write!(f, ":{part}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for RegistryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "oci:{host}/{}:{}", self.path, self.tag),
            None => write!(f, "ollama:{}:{}", self.path.strip_prefix("library/").unwrap_or(&self.path), self.tag),
        }
    }
}

const MAIN: &str = "main";

/// What holds for every word.
pub(super) fn check(word: &str) -> Result<(), NameError> {
    let wrong = |why: &str| Err(NameError::Wrong { name: word.chars().take(80).collect(), why: why.to_owned() });
    if word.is_empty() {
        return wrong("it is empty");
    }
    if word.len() > NAME_BYTES_MAX {
        return wrong("it is over 1024 bytes long");
    }
    if word.contains(char::is_control) {
        return wrong("it has a control character");
    }
    Ok(())
}

/// A word that says where a model is; nothing where it says no such thing.
pub(super) fn addressed(word: &str) -> Result<Option<Reference>, NameError> {
    check(word)?;
    if let Some(rest) = word.strip_prefix("hf:").or_else(|| word.strip_prefix("hf://")) {
        return HubName::parse(word, rest.trim_start_matches("//")).map(|name| Some(Reference::Hub(name)));
    }
    if let Some(rest) = word.strip_prefix("ollama:") {
        return RegistryName::parse(word, None, rest).map(|name| Some(Reference::Registry(name)));
    }
    if let Some(rest) = word.strip_prefix("oci:") {
        let rest = rest.trim_start_matches("//");
        let (host, path) = rest.split_once('/').ok_or_else(|| wrong(word, "it has no repository behind the host"))?;
        return RegistryName::parse(word, Some(host), path).map(|name| Some(Reference::Registry(name)));
    }
    if word.starts_with("https://") || word.starts_with("http://") {
        return page_of_the_hub(word)?.map_or_else(|| WebName::parse(word).map(Reference::Web), Ok).map(Some);
    }
    Ok(None)
}

/// Whether a word says where a model is, rightly or not.
pub(super) fn is_addressed(word: &str) -> bool {
    ["hf:", "ollama:", "oci:", "http://", "https://"].iter().any(|start| word.starts_with(start))
}

/// Whether a word looks like a path, so that opening it says more than that it is no name.
pub(super) fn is_path(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    word.contains(['/', '\\'])
        || word.starts_with(['.', '~'])
        || is_pickle(word)
        || [".gguf", ".safetensors"].iter().any(|end| lower.ends_with(end))
}

/// Whether a word that is no path here looks like a repository of the hub without `hf:`.
pub(super) fn is_repository(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_file = [".gguf", ".safetensors"].iter().any(|end| lower.ends_with(end)) || is_pickle(word);
    !is_file && word.split_once('/').is_some_and(|(owner, repo)| is_part(owner) && is_part(repo))
}

impl HubName {
    /// The repository `owner/repo`, at its main branch.
    pub fn new(owner: &str, repo: &str) -> Self {
        Self { owner: owner.to_owned(), repo: repo.to_owned(), revision: MAIN.to_owned(), quant: None, file: None }
    }

    fn parse(word: &str, rest: &str) -> Result<Self, NameError> {
        let (rest, part) = rest.split_once(':').map_or((rest, None), |(rest, part)| (rest, Some(part)));
        let (rest, revision) = rest.split_once('@').map_or((rest, MAIN), |(rest, revision)| (rest, revision));
        let (owner, repo) = rest.split_once('/').ok_or_else(|| wrong(word, "write hf:OWNER/REPO"))?;
        let mut name = Self { revision: revision.to_owned(), ..Self::new(owner, repo) };
        match part {
            Some(part) if is_quant(part) => name.quant = Some(part.to_ascii_uppercase()),
            Some(part) => name.file = Some(part.to_owned()),
            None => {}
        }
        name.check(word)?;
        Ok(name)
    }

    /// # Errors
    /// When it leads elsewhere.
    pub(crate) fn check(&self, word: &str) -> Result<(), NameError> {
        // The hub's own rule: two dashes stand for the slash in its cache.
        let parts = [&self.owner, &self.repo, &self.revision];
        if parts.iter().any(|part| !is_part(part)) || self.owner.contains("--") || self.repo.contains("--") {
            let why = "owner, repository and revision have letters, digits and . _ - only, and begin with a letter or a digit";
            return Err(wrong(word, why));
        }
        match &self.file {
            Some(file) if is_pickle(file) => Err(NameError::Pickle { name: word.to_owned() }),
            Some(file) if !is_safe_path(file) => Err(wrong(word, "the file's name leads elsewhere")),
            Some(_) | None => Ok(()),
        }
    }
}

impl RegistryName {
    fn parse(word: &str, host: Option<&str>, rest: &str) -> Result<Self, NameError> {
        let (path, tag) = rest.rsplit_once(':').unwrap_or((rest, "latest"));
        let path = if host.is_none() && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
        let is_host = |host: &str| {
            let (name, port) = host.rsplit_once(':').unwrap_or((host, "443"));
            is_part(name) && port.parse::<u16>().is_ok()
        };
        let parts: Vec<&str> = path.split('/').collect();
        if !is_part(tag) || parts.len() > 8 || !parts.iter().all(|part| is_part(part)) || !host.is_none_or(is_host) {
            return Err(wrong(word, "host, repository and tag have letters, digits and . _ - only"));
        }
        Ok(Self { host: host.map(str::to_owned), path, tag: tag.to_owned() })
    }
}

impl WebName {
    fn parse(word: &str) -> Result<Self, NameError> {
        let (url, fragment) = word.split_once('#').map_or((word, None), |(url, rest)| (url, Some(rest)));
        let sha256 = match fragment.map(|fragment| fragment.strip_prefix("sha256=")) {
            None => None,
            Some(Some(hex)) if pull::is_hex(hex, 64) => Some(hex.to_ascii_lowercase()),
            Some(_) => return Err(wrong(word, "behind # stands sha256= and 64 hexadecimal digits, or nothing")),
        };
        let (_, rest) = url.split_once("://").unwrap_or_default();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.split('?').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        if authority.is_empty() || authority.contains('@') || url.contains(char::is_whitespace) {
            return Err(wrong(word, "write https://HOST/PATH/FILE.gguf, without a user's name"));
        }
        if is_pickle(file) {
            return Err(NameError::Pickle { name: word.to_owned() });
        }
        if !is_part(file) || !["gguf", "safetensors"].iter().any(|end| ends_with(file, end)) {
            return Err(wrong(word, "the address of a model ends with the name of a GGUF or safetensors file"));
        }
        Ok(Self { url: url.to_owned(), file: file.to_owned(), sha256 })
    }
}

/// The address of a file on the hub's pages is that file of that repository.
fn page_of_the_hub(word: &str) -> Result<Option<Reference>, NameError> {
    let Some(rest) = word.strip_prefix("https://huggingface.co/").or_else(|| word.strip_prefix("https://hf.co/"))
    else {
        return Ok(None);
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let parts: Vec<&str> = rest.splitn(5, '/').collect();
    let name = match parts.as_slice() {
        [owner, repo] => HubName::new(owner, repo),
        [owner, repo, "tree", revision] => HubName { revision: (*revision).to_owned(), ..HubName::new(owner, repo) },
        [owner, repo, "resolve" | "blob", revision, file] => {
            HubName { revision: (*revision).to_owned(), file: Some((*file).to_owned()), ..HubName::new(owner, repo) }
        }
        _ => return Err(wrong(word, "it is no repository and no file of the hub")),
    };
    name.check(word)?;
    Ok(Some(Reference::Hub(name)))
}

/// Whether a word may be part of a path and of an address without further question.
fn is_part(part: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    part.len() <= PART_BYTES_MAX
        && part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && part.bytes().all(known)
        && !part.contains("..")
}

/// Whether the name of a file in a repository stays inside of it.
pub fn is_safe_path(path: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.len() <= 255
            && !part.contains(|letter: char| letter.is_control() || "\\:<>\"|?*".contains(letter))
    };
    path.len() <= NAME_BYTES_MAX && path.split('/').all(is_plain)
}

/// Whether the name of a file has this extension, in small letters or capitals.
pub fn ends_with(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Whether the name of a file is a pickle's.
pub fn is_pickle(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    PICKLES.iter().any(|end| lower.ends_with(end))
}

/// The folder of a repository in the hub's cache.
pub fn hub_folder(places: &Places, name: &HubName) -> PathBuf {
    places.hub.join(hub_folder_name(name))
}

/// What it is called.
pub fn hub_folder_name(name: &HubName) -> String {
    format!("models--{}--{}", name.owner, name.repo)
}

/// The folder of what came from an address.
pub fn web_folder(places: &Places, name: &WebName) -> PathBuf {
    places.web.join(&pull::sha256(name.url.as_bytes())[..16])
}

/// The folder of a registry: its host, and its port where it is not the usual one.
pub fn host_folder(host: &str, base: &str) -> PathBuf {
    let port = base.rsplit_once(':').map(|(_, port)| port).filter(|port| port.parse::<u16>().is_ok());
    Path::new(&port.map_or(host.to_owned(), |port| format!("{host}+{port}"))).to_owned()
}

fn wrong(word: &str, why: &str) -> NameError {
    NameError::Wrong { name: word.to_owned(), why: why.to_owned() }
}
