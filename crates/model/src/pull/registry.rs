//! OCI registries: a manifest that lists layers by their digest, one of which is a GGUF file. Ollama's registry is one.

use serde::Deserialize;

use super::digest::Digest;
use super::fetch::Wanted;
use super::web::{Credential, Fault};
use super::{Afterwards, Error, Plan, Puller};
use crate::resolve::{self, RegistryName};

const MANIFEST: &str =
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json";

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    #[serde(rename = "mediaType")]
    media_type: String,
    digest: String,
    size: u64,
}

/// What a registry's token server gives.
#[derive(Deserialize)]
struct Pass {
    token: Option<String>,
    access_token: Option<String>,
}

impl Layer {
    /// Whether it is a model in GGUF.
    fn is_model(&self) -> bool {
        let kind = self.media_type.as_str();
        kind == "application/vnd.ollama.image.model" || kind.to_ascii_lowercase().contains("gguf")
    }
}

impl Puller {
    /// What it takes to have a registry's model here.
    pub(super) fn plan_registry(&self, name: &RegistryName) -> Result<Plan, Error> {
        let what = name.to_string();
        let base = self.registry_of(name);
        let (text, pass) = self.manifest(&base, name)?;
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|error| Error::unusable(&what, format!("the manifest cannot be read: {error}")))?;
        let mut models = manifest.layers.iter().filter(|layer| layer.is_model());
        let (model, more) = (models.next(), models.next());
        let model = model.ok_or_else(|| Error::unusable(&what, "there is no GGUF file in it"))?;
        if more.is_some() {
            return Err(Error::unusable(&what, "it is split into several layers, which is not supported"));
        }
        let digest = model.digest.strip_prefix("sha256:").and_then(Digest::sha256);
        let digest = digest.ok_or_else(|| Error::unusable(&what, "its layer has no SHA-256"))?;
        let host = resolve::host_folder(&super::web::host(&base), &base);
        let place = self.places.registry.join("blobs").join(format!("sha256-{}", digest.hex().unwrap_or_default()));
        let wanted = Wanted {
            title: what.clone(),
            url: format!("{base}/v2/{}/blobs/{}", name.path, model.digest.to_ascii_lowercase()),
            bytes: model.size,
            digest,
            version: None,
            lock: place.with_extension("lock"),
            place: place.clone(),
            credential: pass,
        };
        let listed = self.places.registry.join("manifests").join(host).join(&name.path).join(&name.tag);
        Ok(Plan {
            name: what,
            quant: resolve::quant_of(&name.tag),
            files: vec![wanted],
            source: place,
            afterwards: vec![Afterwards::Text { name: listed, text }],
            folder: self.places.registry.clone(),
            door: Some(name.clone()),
        })
    }

    /// What opens the door to a model's blobs, asked for anew.
    pub(super) fn pass(&self, name: &RegistryName) -> Result<Option<Credential>, Error> {
        Ok(self.manifest(&self.registry_of(name), name)?.1)
    }

    /// The address of the registry that a name is one of.
    fn registry_of(&self, name: &RegistryName) -> String {
        match &name.host {
            Some(host) if is_loopback(host) => format!("http://{host}"),
            Some(host) => format!("https://{host}"),
            None => self.sources.registry.trim_end_matches('/').to_owned(),
        }
    }

    /// The manifest, and what opens the door to its blobs. A registry may send whoever has no token for one: that one is asked without
    /// any word of ours, and what it gives goes to the registry alone.
    fn manifest(&self, base: &str, name: &RegistryName) -> Result<(String, Option<Credential>), Error> {
        let url = format!("{base}/v2/{}/manifests/{}", name.path, name.tag);
        self.opened(base, &url).map_err(|fault| Error::of(&name.to_string(), fault))
    }

    fn opened(&self, base: &str, url: &str) -> Result<(String, Option<Credential>), Fault> {
        let ask = |pass: Option<&Credential>| self.patiently(|| self.web.text(url, Some(MANIFEST), pass));
        let challenge = match ask(None) {
            Ok(text) => return Ok((text, None)),
            Err(Fault::Status { status: 401, challenge: Some(challenge), host, retry_after }) => {
                let again = Fault::Status { status: 401, challenge: None, host, retry_after };
                token_address(&challenge).ok_or(again)?
            }
            Err(fault) => return Err(fault),
        };
        let pass: Pass = serde_json::from_str(&self.web.text(&challenge, None, None)?)
            .map_err(|error| Fault::Wrong(format!("{challenge}: no token: {error}")))?;
        let token = pass.token.or(pass.access_token).unwrap_or_default();
        let pass = Credential::bearer(base, &token);
        Ok((ask(pass.as_ref())?, pass))
    }

    /// Does what may be better another time again, within reason.
    pub(super) fn patiently<T>(&self, ask: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
        let patience = &self.manner.patience;
        let mut wait = patience.wait;
        for _ in 1..patience.attempts_max {
            match ask() {
                Err(fault) if fault.is_passing() => {
                    let asked = fault.retry_after().unwrap_or(wait);
                    if asked > patience.wait_max {
                        return Err(fault);
                    }
                    std::thread::sleep(asked.max(patience.wait));
                    wait = (wait * 2).min(patience.wait_max);
                }
                other => return other,
            }
        }
        ask()
    }
}

/// Where a token is to be had: `Bearer realm="https://..",service="..",scope=".."`.
fn token_address(challenge: &str) -> Option<String> {
    let fields = challenge.strip_prefix("Bearer ")?;
    let field = |name: &str| {
        let value = fields.split(',').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix("=\""))?;
        value.strip_suffix('"').filter(|value| value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'))
    };
    let realm = field("realm").filter(|realm| realm.starts_with("https://") || is_loopback_address(realm))?;
    let parts = ["service", "scope"].into_iter().filter_map(|name| Some(format!("{name}={}", field(name)?)));
    let joint = if realm.contains('?') { '&' } else { '?' };
    Some(format!("{realm}{joint}{}", parts.collect::<Vec<_>>().join("&")))
}

fn is_loopback_address(url: &str) -> bool {
    url.strip_prefix("http://").is_some_and(|rest| is_loopback(rest.split('/').next().unwrap_or_default()))
}

/// Whether a host, perhaps with a port, is this machine.
fn is_loopback(host: &str) -> bool {
    let bare = host.rsplit_once(':').map_or(host, |(host, _)| host);
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_where_to_ask() {
        let challenge = r#"Bearer realm="https://auth.example/token",service="registry",scope="repository:a/b:pull""#;
        assert_eq!(
            token_address(challenge).unwrap(),
            "https://auth.example/token?service=registry&scope=repository:a/b:pull"
        );
        assert!(token_address(r#"Bearer realm="http://auth.example/token""#).is_none());
        assert!(token_address(r#"Basic realm="https://auth.example""#).is_none());
        assert!(is_loopback("127.0.0.1:5000") && !is_loopback("127.0.0.1.evil.example:80"));
    }
}
