//! Runs the real binary and says what came of it. Shared by the tests beside it.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod peer;
pub mod server;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

/// Runs `kauri` with `stdin` as its standard input.
pub fn kauri<A: AsRef<std::ffi::OsStr>>(arguments: &[A], stdin: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kauri"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    let stdin = stdin.to_vec();
    // A command that refuses its arguments does not read; that is its right.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("written");
    Ran {
        code: output.status.code().expect("no signal"),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Runs `kauri` with an empty standard input, expects success, and gives its standard output as text.
pub fn output<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> String {
    output_of(arguments, b"")
}

/// The same with a standard input.
pub fn output_of<A: AsRef<std::ffi::OsStr>>(arguments: &[A], stdin: &[u8]) -> String {
    kauri(arguments, stdin).success()
}

impl Ran {
    /// Standard output of a run that must have succeeded.
    pub fn success(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        String::from_utf8(self.stdout).expect("UTF-8")
    }

    /// Checks that the input was refused: exit code 2, one line that contains `part`, and nothing on standard output.
    pub fn refused(&self, what: &str, part: &str) {
        assert_eq!(self.code, 2, "{what}: {self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{what}: one line, not {:?}", self.stderr);
        assert!(self.stderr.starts_with("kauri: "), "{what}: {}", self.stderr);
        assert!(self.stderr.contains(part), "{what}: {part:?} is not in {:?}", self.stderr);
        assert!(self.stdout.is_empty(), "{what}: something on standard output");
    }
}

/// The top of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Something among the shared files beside the repository, if they are there.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

/// A JSON file.
pub fn read_json(path: &Path) -> Json {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Little-endian f32.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
