//! `kauri serve` by other doors: a socket of the file system, encrypted connections; and the line that it writes of each request.

mod kauri;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;

use kauri::kauri;
use serde_json::Value as Json;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A server, until it is dropped, and what it writes.
struct Running(Child, BufReader<ChildStderr>);

impl Running {
    /// Starts it; the first line that it writes.
    fn start(arguments: &[&str]) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kauri"))
            .args(["serve", "--threads", "1"])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut running = Self(child, lines);
        let line = running.line();
        (running, line)
    }

    /// The next line that it writes.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const QUESTION: &str = "GET /v1/models?secret=1 HTTP/1.0\r\nhost: localhost\r\nx-request-id: mine-7\r\n\r\n";

fn ask(mut stream: impl Read + Write) -> String {
    stream.write_all(QUESTION.as_bytes()).expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    said
}

#[test]
fn a_socket_of_the_file_system_is_listened_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kauri.sock");
    let name = path.to_str().expect("a name");
    let (mut server, line) = Running::start(&["--unix", name, "--unix-mode", "660", "--log", "json"]);
    assert_eq!(line, format!("listening on unix:{name}"));
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o660);
    let said = ask(UnixStream::connect(&path).expect("it listens"));
    assert!(said.starts_with("HTTP/1.0 200") && said.contains("x-request-id: mine-7"), "{said}");
    let told: Json = serde_json::from_str(&server.line()).expect("JSON");
    assert_eq!(
        (&told["request_id"], &told["method"], &told["path"], &told["status"], &told["caller"], &told["is_complete"]),
        (&"mine-7".into(), &"GET".into(), &"/v1/models".into(), &200.into(), &"socket".into(), &true.into())
    );
    assert!(told["bytes"].as_u64() > Some(20) && told["ms"].is_number(), "{told}");
    kauri(&["serve", "--unix", name], b"").refused("in use", name);
    kauri(&["serve", "--unix", name, "--unix-mode", "999"], b"").refused("no mode", "--unix-mode");
    // One that was killed leaves its file, and the next takes its place.
    drop(server);
    assert!(path.exists());
    let (_server, line) = Running::start(&["--unix", name]);
    assert_eq!(line, format!("listening on unix:{name}"));
    assert!(ask(UnixStream::connect(&path).expect("it listens")).starts_with("HTTP/1.0 200"));
}

#[test]
fn connections_are_encrypted_with_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a name").to_owned()
    };
    let (certificate, key) = (file("cert.pem", &made.cert.pem()), file("key.pem", &made.signing_key.serialize_pem()));
    let (mut server, line) =
        Running::start(&["--port", "0", "--tls-cert", &certificate, "--tls-key", &key, "--log", "text"]);
    let address = line.strip_prefix("listening on https://").unwrap_or_else(|| panic!("{line}")).to_owned();
    let connect = |roots: RootCertStore| {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        StreamOwned::new(connection, std::net::TcpStream::connect(&address).expect("it listens"))
    };
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let said = ask(connect(roots));
    assert!(said.starts_with("HTTP/1.0 200") && said.contains("kauri-nano"), "{said}");
    let line = server.line();
    assert!(line.contains(" 200 GET \"/v1/models\" 127.0.0.1 ") && line.ends_with(" mine-7"), "{line}");
    // Whoever does not trust the certificate hears nothing, nor does who speaks plainly.
    assert!(connect(RootCertStore::empty()).write_all(QUESTION.as_bytes()).is_err());
    let mut plain = std::net::TcpStream::connect(&address).expect("it listens");
    plain.write_all(QUESTION.as_bytes()).expect("sent");
    let mut said = Vec::new();
    // The end may be an error, where what was sent was not read.
    _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&said));

    let empty = file("empty.pem", "");
    kauri(&["serve", "--tls-cert", &empty, "--tls-key", &key], b"").refused("no certificate", "empty.pem");
    kauri(&["serve", "--tls-cert", &certificate, "--tls-key", &empty], b"").refused("no key", "empty.pem");
    kauri(&["serve", "--tls-cert", &certificate], b"").refused("half of it", "--tls-key");
}
