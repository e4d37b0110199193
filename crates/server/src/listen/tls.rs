//! Encrypted connections: a certificate and its key from files. Versions and ciphers are those that rustls recommends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those behind it that lead to one that clients trust.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Reads the files.
///
/// # Errors
/// Names the file that is wrong, and never what is in it.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let wrong = |file: &Path, what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, pem::Error>>)
        .map_err(|error| wrong(&files.certificate, &error))?;
    if certificates.is_empty() {
        return Err(wrong(&files.certificate, &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| wrong(&files.key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
