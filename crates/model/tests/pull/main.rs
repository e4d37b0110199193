//! Pulls from a hub and a registry on loopback: the right file or a clear error, and never half a file under its name.

mod mock;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kauri_model::catalog::Catalog;
use kauri_model::pull::{Error, Manner, Patience, Places, Puller, Sources, Watch, sha256};
use kauri_model::{local, resolve};
use mock::{Server, Trouble};
use tempfile::TempDir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const PIECE: u64 = 4096;

/// What a pull said.
#[derive(Default)]
struct Said {
    came: AtomicU64,
    notes: Mutex<Vec<String>>,
}

impl Watch for Said {
    fn came(&self, bytes: u64) {
        self.came.fetch_add(bytes, Ordering::SeqCst);
    }

    fn lost(&self, bytes: u64) {
        self.came.fetch_sub(bytes, Ordering::SeqCst);
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

struct Bench {
    server: Server,
    folder: TempDir,
    said: Said,
}

/// Numbers that look like noise, the same each time.
fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state >> 33
    }
}

fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let mut next = noise(seed);
    (0..bytes).map(|_| next() as u8).collect()
}

fn places(root: &Path) -> Places {
    Places { hub: root.join("hub"), registry: root.join("registry"), web: root.join("web") }
}

fn puller(base: &str, root: &Path, attempts_max: u32, connections: usize) -> Puller {
    let sources = Sources { hub: base.to_owned(), token: Some("secret".to_owned()), registry: base.to_owned() };
    let patience = Patience {
        attempts_max,
        wait: Duration::from_millis(1),
        wait_max: Duration::from_secs(2),
        silence_max: Duration::from_secs(20),
    };
    Puller::new(sources, places(root), Manner { connections, piece_bytes: PIECE, patience }, None)
}

impl Bench {
    /// A hub that has a repository with these files.
    fn hub(files: &[(&str, &[u8])]) -> Self {
        let server = Server::start();
        let listed: Vec<String> = files
            .iter()
            .map(|(name, bytes)| {
                let (sha, size) = (sha256(bytes), bytes.len());
                format!(
                    r#"{{"rfilename":"{name}","size":{size},"blobId":"x","lfs":{{"sha256":"{sha}","size":{size}}}}}"#
                )
            })
            .collect();
        let listing = format!(r#"{{"id":"a/b","sha":"{COMMIT}","siblings":[{}]}}"#, listed.join(","));
        server.put("/api/models/a/b/revision/main", listing);
        for (name, bytes) in files {
            server.put(&format!("/a/b/resolve/{COMMIT}/{name}"), *bytes);
        }
        Self { server, folder: tempfile::tempdir().unwrap(), said: Said::default() }
    }

    fn pull(&self, name: &str) -> Result<PathBuf, Error> {
        self.pull_with(name, 5, 4)
    }

    fn pull_with(&self, name: &str, attempts_max: u32, connections: usize) -> Result<PathBuf, Error> {
        let puller = puller(&self.server.base, self.folder.path(), attempts_max, connections);
        let reference = resolve::parse(name, &Catalog::default()).unwrap();
        let plan = puller.plan(&reference, None)?.expect("a name of the web's");
        puller.pull(&plan, &self.said)
    }

    fn final_files(&self) -> Vec<PathBuf> {
        let blobs = self.folder.path().join("hub/models--a--b/blobs");
        let entries = fs::read_dir(blobs).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| !path.to_string_lossy().contains(".kauri-part")).collect()
    }
}

#[test]
fn a_file_comes_as_the_hubs_own_tools_would_have_put_it() {
    let bytes = content(300_000, 1);
    let bench = Bench::hub(&[("sub/m-Q4_K_M.gguf", &bytes), ("README.md", b"hello")]);
    let path = bench.pull("hf:a/b").unwrap();
    let folder = bench.folder.path().join("hub/models--a--b");
    assert_eq!(path, folder.join("snapshots").join(COMMIT).join("sub/m-Q4_K_M.gguf"));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
    let blob = Path::new("../../../blobs").join(sha256(&bytes));
    assert_eq!(fs::read_link(&path).unwrap(), blob);
    assert_eq!(bench.said.came.load(Ordering::SeqCst), 300_000);
    // A second time nothing is fetched, and it is found without asking.
    let sent = bench.server.sent_bytes();
    bench.pull("hf:a/b").unwrap();
    let listing = bench.server.sent_bytes() - sent;
    assert!(listing < 2000, "{listing}");
    let reference = resolve::parse("hf:a/b:Q4_K_M", &Catalog::default()).unwrap();
    assert_eq!(local::find(&places(bench.folder.path()), &reference), Some(path));
    assert!(bench.server.asked().iter().any(|asked| asked.headers.contains_key("range")));
}

#[test]
fn twenty_cuts_cost_no_more_than_what_was_under_way() {
    let bytes = content(1 << 20, 2);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let mut next = noise(7);
    let mut cuts = 0;
    let path = loop {
        let count = (next() % 120_000) as usize;
        bench.server.trouble(&[Trouble::Cut(count)]);
        match bench.pull_with("hf:a/b:Q8_0", 1, 1) {
            Ok(path) if cuts >= 20 => break path,
            Ok(_) => panic!("it was whole after {cuts} cuts; make the file larger"),
            Err(_) => cuts += 1,
        }
        assert!(bench.final_files().is_empty(), "half a file under its name");
        if cuts >= 20 {
            bench.server.trouble(&[]);
        }
        if cuts == 20 {
            break bench.pull_with("hf:a/b:Q8_0", 1, 3).unwrap();
        }
    };
    assert_eq!(fs::read(path).unwrap(), bytes);
    // Less than a piece is lost each time, and the sixteenth of a request that a piece is.
    let extra = bench.server.sent_bytes().saturating_sub(bytes.len() as u64);
    assert!(extra < 20 * (PIECE + 2000) + 20_000, "{extra} bytes came twice");
}

#[test]
fn cuts_in_one_pull_are_got_over() {
    let bytes = content(500_000, 3);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let mut next = noise(11);
    let cuts: Vec<Trouble> = (0..20).map(|_| Trouble::Cut(5000 + (next() % 30_000) as usize)).collect();
    bench.server.trouble(&cuts);
    // A request for one piece that is cut brings nothing, and several may be in a row.
    assert_eq!(fs::read(bench.pull_with("hf:a/b", 25, 4).unwrap()).unwrap(), bytes);
    assert_eq!(bench.said.came.load(Ordering::SeqCst), 500_000);
}

#[test]
fn other_bytes_than_announced_never_get_the_name() {
    let bytes = content(50_000, 4);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let mut other = bytes.clone();
    other[30_000] ^= 1;
    bench.server.put(&format!("/a/b/resolve/{COMMIT}/m-Q8_0.gguf"), other);
    let error = bench.pull("hf:a/b").unwrap_err();
    assert!(matches!(error, Error::WrongDigest { .. }) && error.to_string().contains(&sha256(&bytes)), "{error}");
    assert!(bench.final_files().is_empty());
    assert!(!bench.folder.path().join("hub/models--a--b/snapshots").exists());
    // Nothing wrong is left to go on from.
    bench.server.put(&format!("/a/b/resolve/{COMMIT}/m-Q8_0.gguf"), bytes.clone());
    assert_eq!(fs::read(bench.pull("hf:a/b").unwrap()).unwrap(), bytes);
}

#[test]
fn a_part_that_the_disk_spoilt_is_fetched_again() {
    let bytes = content(200_000, 5);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    bench.server.trouble(&[Trouble::Cut(60_000)]);
    bench.pull_with("hf:a/b", 1, 1).unwrap_err();
    let part = bench.folder.path().join("hub/models--a--b/blobs").join(format!("{}.kauri-part", sha256(&bytes)));
    let mut spoilt = fs::read(&part).unwrap();
    spoilt[100] ^= 1;
    fs::write(&part, spoilt).unwrap();
    assert_eq!(fs::read(bench.pull("hf:a/b").unwrap()).unwrap(), bytes);
}

#[test]
fn errors_of_a_server_are_told_apart() {
    let bytes = content(20_000, 6);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let error = bench.pull("hf:a/other").unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    for status in [401, 403] {
        bench.server.trouble(&[Trouble::Status(status, None)]);
        let error = bench.pull("hf:a/b").unwrap_err();
        assert!(matches!(error, Error::Denied { .. }) && error.to_string().contains("HF_TOKEN"), "{error}");
        assert!(!error.to_string().contains("secret"));
    }
    bench.server.trouble(&[Trouble::Status(404, None)]);
    assert!(matches!(bench.pull("hf:a/b").unwrap_err(), Error::Missing { .. }));
    let error = bench.pull("hf:a/b:Q2_K").unwrap_err();
    assert!(error.to_string().contains("Q8_0"), "{error}");
    assert!(bench.final_files().is_empty());
    // What passes is waited for.
    bench.server.trouble(&[Trouble::Status(503, None), Trouble::Status(500, None), Trouble::Cut(10)]);
    assert_eq!(fs::read(bench.pull("hf:a/b").unwrap()).unwrap(), bytes);
}

#[test]
fn who_is_told_to_wait_waits() {
    let bytes = content(20_000, 7);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    bench.server.trouble(&[Trouble::Status(429, Some(1))]);
    assert_eq!(fs::read(bench.pull_with("hf:a/b", 3, 1).unwrap()).unwrap(), bytes);
    let asked = bench.server.asked();
    let files: Vec<_> = asked.iter().filter(|asked| asked.path.contains("/resolve/")).collect();
    assert!(files[1].at - files[0].at >= Duration::from_secs(1), "it asked again at once");
    // Longer than anybody waits is said instead.
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    bench.server.trouble(&[Trouble::Status(429, Some(3600))]);
    let error = bench.pull("hf:a/b").unwrap_err().to_string();
    assert!(error.contains("429"), "{error}");
}

#[test]
fn a_token_goes_to_its_own_origin_and_never_over_a_redirect() {
    let bytes = content(100_000, 8);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let other = Server::start();
    other.put("/elsewhere", bytes.clone());
    let place = format!("/a/b/resolve/{COMMIT}/m-Q8_0.gguf");
    bench.server.state.lock().unwrap().redirects.insert(place.clone(), format!("{}/elsewhere", other.base));
    bench.server.state.lock().unwrap().wanted = Some(("/".to_owned(), "secret".to_owned()));
    assert_eq!(fs::read(bench.pull("hf:a/b").unwrap()).unwrap(), bytes);
    assert!(bench.server.asked().iter().all(|asked| asked.token() == Some("Bearer secret")));
    assert!(!other.asked().is_empty());
    assert!(other.asked().iter().all(|asked| asked.token().is_none()), "{:?}", other.asked());
    // Round and round is an end, too.
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    bench.server.state.lock().unwrap().redirects.insert(place.clone(), place);
    assert!(bench.pull("hf:a/b").unwrap_err().to_string().contains("from one address to the next"));
}

#[test]
fn bodies_of_another_length_are_refused() {
    let bytes = content(100_000, 9);
    for trouble in [Trouble::Announces(8), Trouble::OtherPart] {
        let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
        bench.server.state.lock().unwrap().always = None;
        bench.server.trouble(&vec![trouble.clone(); 40]);
        let error = bench.pull("hf:a/b").unwrap_err();
        assert!(matches!(error, Error::Web { .. }), "{trouble:?}: {error}");
        assert!(bench.final_files().is_empty());
    }
    for gives_no_parts in [false, true] {
        let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
        bench.server.state.lock().unwrap().gives_no_parts = gives_no_parts;
        bench.server.trouble(&vec![Trouble::Longer; 40]);
        let error = bench.pull("hf:a/b").unwrap_err().to_string();
        assert!(error.contains("more bytes"), "{error}");
        assert!(bench.final_files().is_empty());
    }
    // A file of another size than the listing says is another file.
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    bench.server.put(&format!("/a/b/resolve/{COMMIT}/m-Q8_0.gguf"), &bytes[..99_000]);
    let error = bench.pull("hf:a/b").unwrap_err().to_string();
    assert!(error.contains("99000") && error.contains("100000"), "{error}");
}

#[test]
fn servers_that_give_no_parts_give_the_whole() {
    let bytes = content(200_000, 10);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    bench.server.state.lock().unwrap().gives_no_parts = true;
    bench.server.trouble(&[Trouble::Cut(70_000), Trouble::Cut(150_000)]);
    assert_eq!(fs::read(bench.pull("hf:a/b").unwrap()).unwrap(), bytes);
    assert_eq!(bench.said.came.load(Ordering::SeqCst), 200_000);
}

#[test]
fn listings_that_lie_lead_nowhere() {
    let server = Server::start();
    let root = tempfile::tempdir().unwrap();
    let sha = sha256(b"x");
    let file =
        |name: &str, sha: &str| format!(r#"{{"rfilename":"{name}","size":1,"lfs":{{"sha256":"{sha}","size":1}}}}"#);
    let listings = [
        format!(r#"{{"sha":"../../../x","siblings":[{}]}}"#, file("m-Q8_0.gguf", &sha)),
        format!(r#"{{"sha":"{COMMIT}","siblings":[{}]}}"#, file("../../../../m-Q8_0.gguf", &sha)),
        format!(r#"{{"sha":"{COMMIT}","siblings":[{}]}}"#, file("m-Q8_0.gguf", "../../../../../../m-Q8_0")),
        format!(r#"{{"sha":"{COMMIT}","siblings":[{}]}}"#, file("/tmp/m-Q8_0.gguf", &sha)),
        format!(r#"{{"sha":"{COMMIT}","siblings":[{}]}}"#, file("pytorch_model.bin", &sha)),
        "[]".to_owned(),
        "not json".to_owned(),
        "x".repeat(17 << 20),
    ];
    for listing in listings {
        server.put("/api/models/a/b/revision/main", listing);
        let reference = resolve::parse("hf:a/b", &Catalog::default()).unwrap();
        let error = puller(&server.base, root.path(), 1, 1).plan(&reference, None).unwrap_err();
        assert!(matches!(error, Error::Unusable { .. } | Error::Web { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

/// A registry that has `bytes` as `small:1b`, for who has a pass.
fn registry(bytes: &[u8]) -> Server {
    let server = Server::start();
    let (sha, size) = (sha256(bytes), bytes.len());
    let layer =
        format!(r#"{{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{sha}","size":{size}}}"#);
    let other = r#"{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:00","size":5}"#;
    server.put("/v2/library/small/manifests/1b", format!(r#"{{"schemaVersion":2,"layers":[{other},{layer}]}}"#));
    server.put(&format!("/v2/library/small/blobs/sha256:{sha}"), bytes);
    server.put("/token", r#"{"token":"pass"}"#);
    let mut state = server.state.lock().unwrap();
    state.wanted = Some(("/v2/".to_owned(), "pass".to_owned()));
    state.challenge =
        Some(format!(r#"Bearer realm="{}/token",service="s",scope="repository:library/small:pull""#, server.base));
    drop(state);
    server
}

#[test]
fn a_registry_gives_a_blob_by_its_digest() {
    let bytes = content(80_000, 12);
    let (server, sha) = (registry(&bytes), sha256(&bytes));
    let root = tempfile::tempdir().unwrap();
    let puller = puller(&server.base, root.path(), 3, 4);
    let reference = resolve::parse("ollama:small:1b", &Catalog::default()).unwrap();
    let plan = puller.plan(&reference, None).unwrap().unwrap();
    assert_eq!(plan.bytes(), 80_000);
    let path = puller.pull(&plan, &Said::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    // The hub's token is none of the registry's business, nor of whoever gives its tokens.
    assert!(server.asked().iter().all(|asked| asked.token() != Some("Bearer secret")));
    assert!(
        server.asked().iter().filter(|asked| asked.path.starts_with("/token")).all(|asked| asked.token().is_none())
    );
    let found = local::list(&places(root.path()));
    assert_eq!((found.len(), found[0].source.clone()), (1, path));
    assert_eq!(
        local::remove(&places(root.path()), &resolve::parse(&found[0].name, &Catalog::default()).unwrap()).unwrap(),
        80_000
    );

    // Another blob than the manifest says.
    let mut wrong = bytes;
    wrong[0] ^= 1;
    server.put(&format!("/v2/library/small/blobs/sha256:{sha}"), wrong);
    let plan = puller.plan(&reference, None).unwrap().unwrap();
    assert!(matches!(puller.pull(&plan, &Said::default()).unwrap_err(), Error::WrongDigest { .. }));
    assert!(local::list(&places(root.path())).is_empty());
}

/// A pass is good for minutes: who is sent away midway asks for another, and who is sent away at once does not ask for ever.
#[test]
fn a_pass_that_ends_midway_is_asked_for_again() {
    let bytes = content(400_000, 17);
    let server = registry(&bytes);
    let root = tempfile::tempdir().unwrap();
    let puller = puller(&server.base, root.path(), 3, 1);
    let reference = resolve::parse("ollama:small:1b", &Catalog::default()).unwrap();
    let plan = puller.plan(&reference, None).unwrap().unwrap();
    let no = Trouble::Status(401, None);
    server.trouble(&vec![no.clone(); 9]);
    let error = puller.pull(&plan, &Said::default()).unwrap_err();
    assert!(matches!(error, Error::Denied { status: 401, .. }), "{error}");
    assert_eq!(server.state.lock().unwrap().troubles.len(), 8, "it asked again for what it may not have");

    let said = Said::default();
    let passes = || server.asked().iter().filter(|asked| asked.path.starts_with("/token")).count();
    let before = passes();
    server.trouble(&[Trouble::None, no.clone(), Trouble::None, no]);
    let path = puller.pull(&plan, &said).unwrap();
    assert_eq!(fs::read(path).unwrap(), bytes);
    assert_eq!(passes() - before, 2);
    assert_eq!(said.came.load(Ordering::SeqCst), 400_000);
}

#[test]
fn sizes_that_no_file_has_are_refused() {
    let refused = |server: &Server, word: &str| {
        let root = tempfile::tempdir().unwrap();
        let reference = resolve::parse(word, &Catalog::default()).unwrap();
        let error = puller(&server.base, root.path(), 1, 1).plan(&reference, None).unwrap_err();
        assert!(matches!(error, Error::Unusable { .. }) && error.to_string().contains("bytes"), "{word}: {error}");
    };
    let server = Server::start();
    let (sha, most) = (sha256(b"x"), u64::MAX);
    let part = |number: u32| {
        format!(r#"{{"rfilename":"m-Q8_0-0000{number}-of-00002.gguf","lfs":{{"sha256":"{sha}","size":{most}}}}}"#)
    };
    server
        .put("/api/models/a/b/revision/main", format!(r#"{{"sha":"{COMMIT}","siblings":[{},{}]}}"#, part(1), part(2)));
    refused(&server, "hf:a/b");
    let layer = format!(r#"{{"mediaType":"application/x-gguf","digest":"sha256:{sha}","size":{most}}}"#);
    server.put("/v2/library/small/manifests/1b", format!(r#"{{"layers":[{layer}]}}"#));
    refused(&server, "ollama:small:1b");
}

/// What came of a pull that was given up can be had away, but not under the hands of one that goes on.
#[test]
fn what_came_of_an_unfinished_pull_can_be_removed() {
    let bytes = content(200_000, 18);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    bench.server.trouble(&[Trouble::Cut(60_000)]);
    bench.pull_with("hf:a/b", 1, 1).unwrap_err();
    let (places, hub) = (places(bench.folder.path()), bench.folder.path().join("hub"));
    let reference = resolve::parse("hf:a/b", &Catalog::default()).unwrap();
    let held = fs::File::open(hub.join(".locks/models--a--b").join(format!("{}.lock", sha256(&bytes)))).unwrap();
    held.lock().unwrap();
    assert_eq!(local::remove(&places, &reference).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    drop(held);
    let freed = local::remove(&places, &reference).unwrap();
    assert!((40_000..120_000).contains(&freed), "{freed}");
    assert!(!hub.join("models--a--b").exists());
    assert_eq!(local::remove(&places, &reference).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(fs::read(bench.pull("hf:a/b").unwrap()).unwrap(), bytes);
}

#[test]
fn a_plain_address_gives_a_file_of_its_digest() {
    let server = Server::start();
    let bytes = content(60_000, 13);
    server.put("/m-Q8_0.gguf", bytes.clone());
    let root = tempfile::tempdir().unwrap();
    let puller = puller(&server.base, root.path(), 2, 2);
    let name = format!("{}/m-Q8_0.gguf#sha256={}", server.base, sha256(&bytes));
    let plan = |name: &str| puller.plan(&resolve::parse(name, &Catalog::default()).unwrap(), None).map(Option::unwrap);
    let path = puller.pull(&plan(&name).unwrap(), &Said::default()).unwrap();
    assert_eq!(fs::read(path).unwrap(), bytes);
    let wrong = format!("{}/m-Q8_0.gguf?v=2#sha256={}", server.base, sha256(b"other"));
    assert!(matches!(puller.pull(&plan(&wrong).unwrap(), &Said::default()), Err(Error::WrongDigest { .. })));
    assert!(server.asked().iter().all(|asked| asked.token().is_none()));
}

/// The other process: pulls what it is told to.
#[test]
#[ignore = "started by the other tests here"]
fn the_other_process() {
    if !std::env::args().any(|argument| argument == "the_other_process") {
        return;
    }
    let mut told = String::new();
    std::io::stdin().read_line(&mut told).unwrap();
    let words: Vec<&str> = told.split_whitespace().collect();
    let [base, root] = words.as_slice() else { panic!("{told}") };
    let puller = puller(base, Path::new(root), 3, 2);
    let reference = resolve::parse("hf:a/b", &Catalog::default()).unwrap();
    let plan = puller.plan(&reference, None).unwrap().unwrap();
    println!("begins");
    match puller.pull(&plan, &Said::default()) {
        Ok(path) => println!("has {}", fs::read(path).unwrap().len()),
        Err(error) => println!("error {error}"),
    }
}

fn other_process(shell: &[&str], base: &str, root: &Path) -> std::process::Child {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(std::env::current_exe().unwrap());
    command.args(["the_other_process", "--exact", "--ignored", "--nocapture"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{base} {}", root.display()).unwrap();
    child
}

fn output(mut child: std::process::Child) -> String {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect::<Vec<_>>();
    child.wait().unwrap();
    lines.join("\n")
}

#[test]
fn two_processes_fetch_once() {
    let bytes = content(3 << 20, 14);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let children: Vec<_> =
        (0..3).map(|_| other_process(&["/usr/bin/env"], &bench.server.base, bench.folder.path())).collect();
    for child in children {
        let said = output(child);
        assert!(said.contains(&format!("has {}", bytes.len())), "{said}");
    }
    let sent = bench.server.sent_bytes();
    assert!(sent < bytes.len() as u64 + 10_000, "{sent} bytes were sent for {}", bytes.len());
}

#[test]
fn a_killed_process_costs_little() {
    let bytes = content(6 << 20, 15);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let mut next = noise(99);
    let mut kills = 0;
    for _ in 0..8 {
        let mut child = other_process(&["/usr/bin/env"], &bench.server.base, bench.folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("begins")));
        std::thread::sleep(Duration::from_micros(next() % 8000));
        child.kill().unwrap();
        child.wait().unwrap();
        for file in bench.final_files() {
            assert_eq!(fs::read(file).unwrap(), bytes, "half a file under its name");
        }
        kills += usize::from(bench.final_files().is_empty());
    }
    assert_eq!(fs::read(bench.pull("hf:a/b").unwrap()).unwrap(), bytes);
    eprintln!("killed {kills} times before it was whole; {} bytes sent for {}", bench.server.sent_bytes(), bytes.len());
}

/// Small file systems of their own, where the system lets us make them.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_and_nothing_gets_its_name() {
    let bytes = content(3 << 20, 16);
    let bench = Bench::hub(&[("m-Q8_0.gguf", &bytes)]);
    let root = bench.folder.path().join("small");
    let blobs = root.join("hub/models--a--b/blobs");
    fs::create_dir_all(&blobs).unwrap();
    // The whole place is small: that is seen before anything is fetched. Blobs alone are: that is seen when they are written.
    for (place, expected) in [(&root, "has room for"), (&blobs, "the disk is full")] {
        let after = format!("\"$@\"; ls {}", blobs.display());
        let mount = format!("mount -t tmpfs -o size=2m none {}", place.display());
        let script = format!("{mount} && {{ {after}; }}");
        let can = Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output();
        if !can.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this system lets nobody mount a small disk");
            return;
        }
        let said = output(other_process(&["unshare", "-rm", "sh", "-c", &script, "sh"], &bench.server.base, &root));
        assert!(said.contains("error") && said.contains(expected), "{said}");
        assert!(said.lines().all(|line| line != sha256(&bytes)), "half a file under its name: {said}");
    }
}
