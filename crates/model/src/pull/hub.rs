//! The protocol of Hugging Face's hub: a listing of a repository at a revision, and its files by name.
//!
//! The cache is laid out as its own tools do it, `models--OWNER--REPO` with `blobs`, `snapshots` and `refs`, so that what either has
//! pulled, the other has too. What a listing says is hostile until checked: names of files, commits and digests become paths.

use std::path::PathBuf;

use serde::Deserialize;

use super::digest::{Digest, is_hex};
use super::fetch::Wanted;
use super::web::Credential;
use super::{Afterwards, Error, Places, Plan, Puller};
use crate::resolve::{self, HubName, Listed};

/// Most files of a repository that are looked at.
const FILES_MAX: usize = 10_000;

/// What the hub says of a repository at a revision.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: String,
    size: u64,
}

impl Puller {
    /// What it takes to have a repository's model here.
    pub(super) fn plan_hub(&self, name: &HubName, budget_bytes: Option<u64>) -> Result<Plan, Error> {
        let hub = self.sources.hub.trim_end_matches('/');
        let credential = self.sources.token.as_deref().and_then(|token| Credential::bearer(hub, token));
        let what = name.to_string();
        let (owner, repo, revision) = (&name.owner, &name.repo, &name.revision);
        let url = format!("{hub}/api/models/{owner}/{repo}/revision/{revision}?blobs=true");
        let text = self.patiently(|| self.web.text(&url, None, credential.as_ref()));
        let text = text.map_err(|fault| Error::of(&what, fault))?;
        let listing: Listing = serde_json::from_str(&text)
            .map_err(|error| Error::unusable(&what, format!("the hub's listing cannot be read: {error}")))?;
        if !is_hex(&listing.sha, 40) {
            return Err(Error::unusable(&what, "the hub's listing names no commit"));
        }
        let files: Vec<(Listed, Digest)> = listing.siblings.iter().take(FILES_MAX).filter_map(listed).collect();
        let names: Vec<Listed> = files.iter().map(|(file, _)| file.clone()).collect();
        let choice = resolve::choose(&names, name, budget_bytes).map_err(|why| Error::unusable(&what, why))?;

        let folder = resolve::hub_folder(&self.places, name);
        let snapshot = folder.join("snapshots").join(&listing.sha);
        let mut plan = Plan {
            name: HubName { quant: choice.quant.clone().or_else(|| name.quant.clone()), ..name.clone() }.to_string(),
            source: choice.source.as_ref().map_or(snapshot.clone(), |file| snapshot.join(file)),
            quant: choice.quant,
            files: Vec::new(),
            afterwards: Vec::new(),
            folder: folder.clone(),
            door: None,
        };
        for index in choice.files {
            let (file, digest) = &files[index];
            // Every listed file has one of the two.
            let Some(blob) = digest.hex() else { continue };
            let place = folder.join("blobs").join(blob);
            plan.afterwards.push(Afterwards::Link { name: snapshot.join(&file.path), blob: place.clone() });
            let path: Vec<String> = file.path.split('/').map(escaped).collect();
            plan.files.push(Wanted {
                title: file.path.clone(),
                url: format!("{hub}/{owner}/{repo}/resolve/{}/{}", listing.sha, path.join("/")),
                bytes: file.bytes,
                digest: digest.clone(),
                version: None,
                place,
                lock: locks_folder(&self.places, name).join(format!("{blob}.lock")),
                credential: credential.clone(),
            });
        }
        if !is_hex(revision, 40) {
            let name = folder.join("refs").join(revision);
            plan.afterwards.push(Afterwards::Text { name, text: listing.sha.clone() });
        }
        Ok(plan)
    }
}

/// Where the locks of a repository's files are, those of the hub's own tools included.
pub fn locks_folder(places: &Places, name: &HubName) -> PathBuf {
    places.hub.join(".locks").join(resolve::hub_folder_name(name))
}

/// A file of a listing, if its name may be a path here and its content can be verified.
fn listed(file: &Sibling) -> Option<(Listed, Digest)> {
    if !resolve::is_safe_path(&file.rfilename) {
        return None;
    }
    let (bytes, digest) = match (&file.lfs, &file.blob_id) {
        (Some(large), _) => (large.size, Digest::sha256(&large.sha256)?),
        (None, Some(id)) => (file.size?, Digest::git(id)?),
        (None, None) => return None,
    };
    Some((Listed { path: file.rfilename.clone(), bytes }, digest))
}

/// A part of a path as it stands in an address.
fn escaped(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+,()=@".contains(&byte);
    part.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_digests_of_a_listing_are_checked() {
        let listed = |name: &str, blob: &str| {
            listed(&Sibling { rfilename: name.to_owned(), size: Some(5), blob_id: Some(blob.to_owned()), lfs: None })
        };
        let git = "ce013625030ba8dba906f756967f9e9ca394464a";
        assert!(listed("sub/model.gguf", git).is_some());
        for name in ["../model.gguf", "/etc/passwd", "a/../../b", "a\\..\\b", "", "a//b", "a/./b", "c:\\x"] {
            assert!(listed(name, git).is_none(), "{name}");
        }
        assert!(listed("model.gguf", "../../../x").is_none());
        assert_eq!(escaped("Q4 K#M.gguf"), "Q4%20K%23M.gguf");
    }
}
