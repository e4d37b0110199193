//! What is on this disk already: in the hub's cache, from registries, from plain addresses. Nothing here asks the web.
//!
//! A file counts when all of it is there and it lies inside of the folder that it was found in, links followed: what somebody else put
//! there must not lead out of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::pull::{self, Places, is_hex};
use crate::resolve::{self, HubName, Listed, Reference, RegistryName};

/// Most entries of a folder that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Folders below a snapshot.
const DEPTH_MAX: usize = 3;

/// A model that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// What it is called, in full.
    pub name: String,
    /// What is loaded.
    pub source: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its quantisation, where the name of the file says it.
    pub quant: Option<String>,
}

/// Where the model is that `reference` stands for, if it is here.
pub fn find(places: &Places, reference: &Reference) -> Option<PathBuf> {
    match reference {
        Reference::BuiltIn => Some(PathBuf::from(resolve::DEFAULT_NAME)),
        Reference::Path(path) => Some(path.clone()),
        Reference::Hub(name) => hub(places, name).map(|(local, _)| local.source),
        Reference::Registry(name) => registry_blob(places, &manifest_of(places, name)?).map(|(path, _)| path),
        Reference::Web(name) => {
            let path = resolve::web_folder(places, name).join(&name.file);
            inside(&places.web, &path).filter(|path| path.is_file())
        }
    }
}

/// All that is here, by name.
pub fn list(places: &Places) -> Vec<Local> {
    let mut found = BTreeMap::new();
    for folder in entries(&places.hub) {
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts = folder_name.strip_prefix("models--").and_then(|rest| rest.split_once("--"));
        let Some((owner, repo)) = parts else { continue };
        let name = HubName::new(owner, repo);
        if name.check(&folder_name).is_err() {
            continue;
        }
        for quant in quants(places, &name) {
            let name = HubName { quant, ..name.clone() };
            if let Some((local, _)) = hub(places, &name) {
                found.insert(local.name.clone(), local);
            }
        }
    }
    let manifests = places.registry.join("manifests");
    for host in entries(&manifests) {
        for file in files_below(&host, DEPTH_MAX) {
            let Some((name, (source, bytes))) = listed_manifest(places, &host, &file) else { continue };
            let quant = resolve::quant_of(&name);
            found.insert(name.clone(), Local { name, source, bytes, quant });
        }
    }
    for folder in entries(&places.web) {
        for file in entries(&folder) {
            let is_model = ["gguf", "safetensors"].iter().any(|end| file.extension().is_some_and(|is| is == *end));
            let Some(source) = inside(&places.web, &file).filter(|_| is_model) else { continue };
            let name = source.to_string_lossy().into_owned();
            let bytes = fs::metadata(&source).map_or(0, |file| file.len());
            found.insert(name.clone(), Local { quant: resolve::quant_of(&name), name, source, bytes });
        }
    }
    found.into_values().collect()
}

/// Takes a model's files away, but for those that another one shares; the bytes that were freed.
///
/// # Errors
/// When it is not here, is none of ours, or cannot be removed.
pub fn remove(places: &Places, reference: &Reference) -> io::Result<u64> {
    let absent = || io::Error::new(io::ErrorKind::NotFound, "it is not on this disk");
    match reference {
        Reference::BuiltIn => Err(io::Error::other("it is part of this program")),
        Reference::Path(path) => {
            Err(io::Error::other(format!("{} is your own file: remove it as you would any other", path.display())))
        }
        Reference::Hub(name) => remove_hub(places, name).unwrap_or_else(|| Err(absent())),
        Reference::Registry(name) => {
            let manifest = manifest_of(places, name).ok_or_else(absent)?;
            let (blob, bytes) = registry_blob(places, &manifest).ok_or_else(absent)?;
            fs::remove_file(&manifest)?;
            let others = list(places).into_iter().any(|local| local.source == blob);
            if others {
                return Ok(0);
            }
            fs::remove_file(blob)?;
            Ok(bytes)
        }
        Reference::Web(name) => {
            let path = find(places, reference).ok_or_else(absent)?;
            let bytes = fs::metadata(&path)?.len();
            fs::remove_dir_all(resolve::web_folder(places, name))?;
            Ok(bytes)
        }
    }
}

/// The files that removing takes away of a repository of which there may be several here, by their names there; of anything else none.
pub fn files(places: &Places, reference: &Reference) -> Vec<String> {
    let Reference::Hub(name) = reference else { return Vec::new() };
    let paths = hub(places, name).map_or_else(Vec::new, |(_, paths)| paths);
    let snapshot = snapshot(places, name).map(|(folder, _)| folder).unwrap_or_default();
    let inside = paths.iter().filter_map(|path| path.strip_prefix(&snapshot).ok()?.to_str());
    inside.map(str::to_owned).collect()
}

/// A repository's model in the hub's cache, and the files of its snapshot that it consists of.
fn hub(places: &Places, name: &HubName) -> Option<(Local, Vec<PathBuf>)> {
    let (snapshot, files) = snapshot(places, name)?;
    let choice = resolve::choose(&files, name, None).ok()?;
    let paths: Vec<PathBuf> = choice.files.iter().map(|&index| snapshot.join(&files[index].path)).collect();
    let bytes = choice.files.iter().map(|&index| files[index].bytes).sum();
    let full = HubName { quant: choice.quant.clone().or_else(|| name.quant.clone()), file: None, ..name.clone() };
    let source = choice.source.map_or(snapshot.clone(), |file| snapshot.join(file));
    Some((Local { name: full.to_string(), source, bytes, quant: choice.quant }, paths))
}

/// The folder of a repository's revision in the cache, and the files that are there, whole.
fn snapshot(places: &Places, name: &HubName) -> Option<(PathBuf, Vec<Listed>)> {
    let folder = resolve::hub_folder(places, name);
    let commit = if is_hex(&name.revision, 40) {
        name.revision.clone()
    } else {
        fs::read_to_string(folder.join("refs").join(&name.revision)).ok()?.trim().to_owned()
    };
    if !is_hex(&commit, 40) {
        return None;
    }
    let snapshot = folder.join("snapshots").join(commit);
    let files = files_below(&snapshot, DEPTH_MAX);
    let listed = files.iter().filter_map(|file| {
        inside(&places.hub, file)?;
        let bytes = fs::metadata(file).ok().filter(fs::Metadata::is_file)?.len();
        Some(Listed { path: file.strip_prefix(&snapshot).ok()?.to_str()?.replace('\\', "/"), bytes })
    });
    let listed: Vec<Listed> = listed.collect();
    Some((snapshot, listed))
}

/// The quantisations of a repository that are here; nothing but `None` for a safetensors directory.
fn quants(places: &Places, name: &HubName) -> Vec<Option<String>> {
    let Some((_, files)) = snapshot(places, name) else { return Vec::new() };
    let mut quants: Vec<Option<String>> = files
        .iter()
        .filter(|file| file.path.to_ascii_lowercase().ends_with(".gguf"))
        .map(|file| resolve::quant_of(&file.path))
        .collect();
    quants.sort_unstable();
    quants.dedup();
    if quants.is_empty() { vec![None] } else { quants }
}

fn remove_hub(places: &Places, name: &HubName) -> Option<io::Result<u64>> {
    let folder = resolve::hub_folder(places, name);
    // A folder that is a link is somebody's own arrangement.
    if fs::symlink_metadata(&folder).ok()?.file_type().is_symlink() {
        return Some(Err(io::Error::other(format!(
            "{} is a link: remove what it leads to yourself",
            folder.display()
        ))));
    }
    match hub(places, name) {
        Some((_, files)) => Some(remove_links(places, &folder, &files)),
        None => remove_unfinished(places, name, &folder).transpose(),
    }
}

/// What came of pulls of a repository that were never finished, but for those that are going on; nothing where there are none.
fn remove_unfinished(places: &Places, name: &HubName, folder: &Path) -> io::Result<Option<u64>> {
    let locks = pull::locks_folder(places, name);
    let (mut freed, mut is_any) = (0, false);
    for file in entries(&folder.join("blobs")) {
        let title = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((blob, _)) = title.split_once(pull::PART_ENDING).filter(|(blob, _)| is_hex(blob, blob.len())) else {
            continue;
        };
        // Whoever holds the lock is fetching it.
        let lock = fs::File::open(locks.join(format!("{blob}.lock")));
        if lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock))) {
            continue;
        }
        freed += stored_bytes(&fs::metadata(&file)?);
        fs::remove_file(&file)?;
        is_any = true;
    }
    if is_any && [folder.join("blobs"), folder.join("snapshots")].iter().all(|below| entries(below).is_empty()) {
        fs::remove_dir_all(folder)?;
    }
    Ok(is_any.then_some(freed))
}

/// Bytes that a file takes on its disk: one that is being made is as long as it will be, and empty where nothing has come.
fn stored_bytes(file: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::blocks(file).saturating_mul(512)
    }
    #[cfg(not(unix))]
    {
        file.len()
    }
}

fn remove_links(places: &Places, folder: &Path, files: &[PathBuf]) -> io::Result<u64> {
    let mut freed = 0;
    for file in files {
        let Some(blob) = inside(&places.hub, file) else { continue };
        let bytes = fs::metadata(&blob)?.len();
        fs::remove_file(file)?;
        let snapshots = folder.join("snapshots");
        let is_used = entries(&snapshots)
            .iter()
            .flat_map(|snapshot| files_below(snapshot, DEPTH_MAX))
            .any(|other| fs::canonicalize(other).is_ok_and(|other| other == blob));
        if !is_used {
            // Where the file was no link but the bytes themselves, they are gone with it.
            match fs::remove_file(&blob) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => freed += bytes,
            }
        }
    }
    let is_empty =
        entries(&folder.join("snapshots")).iter().all(|snapshot| files_below(snapshot, DEPTH_MAX).is_empty());
    if is_empty {
        fs::remove_dir_all(folder)?;
    }
    Ok(freed)
}

fn manifest_of(places: &Places, name: &RegistryName) -> Option<PathBuf> {
    let manifests = places.registry.join("manifests");
    let below = |host: &Path| inside(&manifests, &host.join(&name.path).join(&name.tag)).filter(|file| file.is_file());
    match &name.host {
        Some(host) => below(&manifests.join(host.replace(':', "+"))),
        // Whichever registry names without a host were asked of.
        None => entries(&manifests).iter().find_map(|host| below(host)),
    }
}

/// The model's blob that a manifest names, and its size.
fn registry_blob(places: &Places, manifest: &Path) -> Option<(PathBuf, u64)> {
    let json: serde_json::Value = serde_json::from_slice(&fs::read(manifest).ok()?).ok()?;
    let model = json.get("layers")?.as_array()?.iter().find(|layer| {
        let kind = layer.get("mediaType").and_then(serde_json::Value::as_str).unwrap_or_default();
        kind == "application/vnd.ollama.image.model" || kind.to_ascii_lowercase().contains("gguf")
    })?;
    let digest = model.get("digest")?.as_str()?.strip_prefix("sha256:").filter(|hex| is_hex(hex, 64))?;
    let blob = places.registry.join("blobs").join(format!("sha256-{}", digest.to_ascii_lowercase()));
    let bytes = fs::metadata(&blob).ok().filter(fs::Metadata::is_file)?.len();
    inside(&places.registry, &blob)?;
    (model.get("size")?.as_u64()? == bytes).then_some((blob, bytes))
}

/// A manifest as the name that it was pulled by.
fn listed_manifest(places: &Places, host: &Path, file: &Path) -> Option<(String, (PathBuf, u64))> {
    let below = file.strip_prefix(host).ok()?.to_str()?.replace('\\', "/");
    let (path, tag) = below.rsplit_once('/')?;
    let host = host.file_name()?.to_str()?;
    let host = (host != "registry.ollama.ai").then(|| host.replace('+', ":"));
    let name = RegistryName { host, path: path.to_owned(), tag: tag.to_owned() };
    Some((name.to_string(), registry_blob(places, file)?))
}

/// The real path of `path`, if that is below `root`.
fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    real.starts_with(fs::canonicalize(root).ok()?).then_some(real)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX).map(|entry| entry.path()).collect();
    entries.sort_unstable();
    entries
}

/// Files below a folder, links to files included, links to folders not followed.
fn files_below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in entries(folder) {
        let is_folder = fs::symlink_metadata(&entry).is_ok_and(|entry| entry.is_dir());
        if !is_folder {
            files.push(entry);
        } else if depth > 0 {
            files.extend(files_below(&entry, depth - 1));
        }
    }
    files
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const COMMIT: &str = "0123456789012345678901234567890123456789";

    fn cache(root: &Path) -> (Places, PathBuf) {
        let places = Places { hub: root.join("hub"), registry: root.join("registry"), web: root.join("web") };
        let folder = places.hub.join("models--a--b");
        for sub in ["blobs", "refs", &format!("snapshots/{COMMIT}")] {
            fs::create_dir_all(folder.join(sub)).unwrap();
        }
        fs::write(folder.join("refs/main"), COMMIT).unwrap();
        (places, folder)
    }

    fn name(quant: Option<&str>) -> Reference {
        Reference::Hub(HubName { quant: quant.map(str::to_owned), ..HubName::new("a", "b") })
    }

    #[test]
    fn what_the_hubs_own_tools_pulled_is_found_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let (places, folder) = cache(root.path());
        let snapshot = folder.join("snapshots").join(COMMIT);
        for (blob, file) in [("f1", "m-Q4_K_M.gguf"), ("f2", "m-Q8_0.gguf")] {
            fs::write(folder.join("blobs").join(blob), vec![0; 100]).unwrap();
            symlink(format!("../../blobs/{blob}"), snapshot.join(file)).unwrap();
        }
        // A part that is missing makes a file none.
        symlink("../../blobs/f3", snapshot.join("m-Q6_K.gguf")).unwrap();
        let names: Vec<String> = list(&places).into_iter().map(|local| local.name).collect();
        assert_eq!(names, ["hf:a/b:Q4_K_M", "hf:a/b:Q8_0"]);
        assert_eq!(find(&places, &name(None)).unwrap(), snapshot.join("m-Q4_K_M.gguf"));
        assert!(find(&places, &name(Some("Q6_K"))).is_none());
        assert_eq!(
            [None, Some("Q8_0")].map(|quant| files(&places, &name(quant))),
            [["m-Q4_K_M.gguf"], ["m-Q8_0.gguf"]]
        );
        assert_eq!(remove(&places, &name(Some("Q8_0"))).unwrap(), 100);
        assert!(!folder.join("blobs/f2").exists() && folder.join("blobs/f1").exists());
        assert_eq!(list(&places).len(), 1);
    }

    #[test]
    fn a_file_that_is_no_link_is_counted_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let (places, folder) = cache(root.path());
        fs::write(folder.join("snapshots").join(COMMIT).join("m-Q8_0.gguf"), vec![0; 100]).unwrap();
        assert_eq!(remove(&places, &name(None)).unwrap(), 100);
        assert!(!folder.exists());
    }

    #[test]
    fn links_that_lead_out_of_the_cache_are_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (places, folder) = cache(root.path());
        fs::write(root.path().join("secret.gguf"), vec![0; 10]).unwrap();
        symlink("../../../../secret.gguf", folder.join("snapshots").join(COMMIT).join("m-Q8_0.gguf")).unwrap();
        assert!(
            fs::read(folder.join("snapshots").join(COMMIT).join("m-Q8_0.gguf")).is_ok(),
            "the link leads somewhere"
        );
        assert!(find(&places, &name(Some("Q8_0"))).is_none());
        assert!(list(&places).is_empty());
        assert!(remove(&places, &name(Some("Q8_0"))).is_err());
        assert!(root.path().join("secret.gguf").exists());
        // Nor is a commit that is none.
        fs::write(folder.join("refs/main"), "../../../..").unwrap();
        assert!(find(&places, &name(None)).is_none());
    }
}
