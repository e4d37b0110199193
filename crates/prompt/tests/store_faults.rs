//! A program that is killed while it writes, and folders that cannot be written to: the next start is clean, nothing wrong is ever served,
//! and everything else goes on.
//!
//! The program that is killed, or that runs where the disk is full, is this very test, started again with one test of its own; it
//! is told what to do on its standard input. Full and read-only disks are real ones, made in a name space of their own where the
//! system allows it, and the limit on file sizes that every Unix has.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use kauri_prompt::name::Name;
use kauri_prompt::prefix::Kept;
use kauri_prompt::schedule::{Found, Kind, Shelf};
use kauri_prompt::store::{Notice, Settings, Sizes, Store};
use tempfile::TempDir;

const SIZES: Sizes = Sizes { page_tokens: 16, page_bytes: 40_000, state_bytes: 9_000 };
const MODEL: [u8; 32] = [3; 32];
/// Pages of a sequence.
const PAGES: u32 = 12;
/// Sequences that are written one after the other, again and again.
const SEQUENCES: u64 = 8;
/// Less than all sequences have, so that some are removed while others are written.
const LIMIT: u64 = 60 * 40_000;

fn open(folder: &Path, limit: u64) -> (Store, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let notice: Notice = Arc::new(move |text| heard.lock().unwrap().push(text.to_owned()));
    let settings = Settings {
        folder: Some(folder.to_owned()),
        folder_bytes_max: limit,
        memory_bytes_max: 0,
        now: SystemTime::now,
    };
    (Store::open(&settings, MODEL, SIZES, &notice), said)
}

fn sequence(salt: u64) -> Vec<Kept> {
    let mut before = Name::root(salt);
    let page = |page: u32| {
        let tokens: Box<[u32]> = (0..SIZES.page_tokens).map(|token| page * 100 + token + salt as u32 * 7).collect();
        let kept = Kept { at: 0, name: before.then(&tokens), before, tokens };
        before = kept.name;
        kept
    };
    (0..PAGES).map(page).collect()
}

/// What the page or state of this name holds: a function of the name.
fn content(kind: Kind, name: &Name) -> Vec<u8> {
    let mut hash = u64::from_le_bytes(name.bytes()[..8].try_into().unwrap()) ^ kind as u64;
    let next = |_| {
        hash = hash.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (hash >> 33) as u8
    };
    (0..SIZES.bytes(kind)).map(next).collect()
}

fn keep(store: &mut Store, kept: &Kept) {
    for kind in [Kind::Page, Kind::State] {
        if store.wants(kind, &kept.name) {
            store.keep(kind, kept, content(kind, &kept.name));
        }
    }
}

fn get(store: &mut Store, kind: Kind, kept: &Kept) -> Option<Vec<u8>> {
    loop {
        store.turn();
        match store.find(kind, &kept.name, &kept.tokens) {
            Found::AtHand => return store.take(kind, &kept.name).map(|content| content.to_vec()),
            Found::Missing => return None,
            Found::Coming => std::thread::yield_now(),
        }
    }
}

/// How many pages and states are there; each that is must be right.
fn count(store: &mut Store) -> usize {
    let mut count = 0;
    for kept in (0..SEQUENCES).flat_map(sequence) {
        for kind in [Kind::Page, Kind::State] {
            if let Some(got) = get(store, kind, &kept) {
                assert!(got == content(kind, &kept.name), "something else was kept as {kind:?} {}", kept.name);
                count += 1;
            }
        }
    }
    count
}

/// The other program: does what it is told on its standard input. In a run of all tests it is told nothing.
#[test]
#[ignore = "started by the other tests here"]
fn the_other_program() {
    if !std::env::args().any(|argument| argument == "the_other_program") {
        return;
    }
    let mut told = String::new();
    std::io::stdin().read_line(&mut told).unwrap();
    let (what, folder) = told.trim().split_once(' ').unwrap();
    let folder = Path::new(folder);
    match what {
        "write" => {
            let (mut store, _) = open(folder, LIMIT);
            println!("begins");
            for salt in (0..SEQUENCES).cycle() {
                let pages = sequence(salt);
                pages.iter().for_each(|kept| keep(&mut store, kept));
                store.used(pages.iter().map(|kept| kept.name).collect());
                store.flush();
            }
        }
        "fill" => {
            let (mut store, said) = open(folder, 100 * LIMIT);
            for kept in (0..SEQUENCES).flat_map(sequence) {
                keep(&mut store, &kept);
            }
            store.flush();
            let written = store.stored().written as usize;
            assert_eq!(count(&mut store), written);
            println!("written {written} dropped {}", store.stored().dropped);
            said.lock().unwrap().iter().for_each(|text| println!("said {text}"));
        }
        "look" => {
            let (mut store, said) = open(folder, 100 * LIMIT);
            keep(&mut store, &sequence(SEQUENCES)[0]);
            store.flush();
            println!("found {}", count(&mut store));
            said.lock().unwrap().iter().for_each(|text| println!("said {text}"));
        }
        _ => panic!("{told}"),
    }
}

fn arguments() -> [&'static str; 4] {
    ["the_other_program", "--exact", "--ignored", "--nocapture"]
}

fn tell(child: &mut Child, what: &str, folder: &Path) {
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{what} {}", folder.display()).unwrap();
}

/// Runs the other program to its end behind a shell's `script`, in which `"$@"` stands for it; what it says.
fn run(shell: &[&str], script: &str, what: &str, folder: &Path) -> String {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap()).args(arguments());
    let mut child = command.env("FOLDER", folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    tell(&mut child, what, folder);
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{script}: {output}");
    output
}

fn figure(output: &str, name: &str) -> usize {
    let mut words = output.split_whitespace().skip_while(|&word| word != name).skip(1);
    words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name} in {output}"))
}

/// Kills the other program at so many random moments; each time everything that is there is right.
fn kill(times: u64) {
    let folder = TempDir::new().unwrap();
    let (mut found, mut unfinished) = (0, 0);
    let mut random = 0x1234_5678u64;
    for round in 0..times {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        tell(&mut child, "write", folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("begins")));
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(round);
        std::thread::sleep(Duration::from_micros((random >> 33) % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let own = folder.path().join("03".repeat(16));
        let left = || {
            fs::read_dir(&own)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "new"))
        };
        unfinished += left().count();
        let (mut store, said) = open(folder.path(), LIMIT);
        assert_eq!(left().count(), 0, "what was not finished is gone");
        found += count(&mut store);
        assert_eq!(store.stored().refused, 0);
        assert_eq!(*said.lock().unwrap(), Vec::<String>::new(), "round {round}");
        assert!(store.keeps(), "round {round}");
        // A fresh folder now and then: what matters is the moment at which a file is new.
        if round % 8 == 7 {
            drop(store);
            fs::remove_dir_all(&own).unwrap();
        }
    }
    println!("{times} times: {found} pages and states were there and right, {unfinished} files were not finished");
    assert!(found > 0);
}

#[test]
fn who_is_killed_while_writing_leaves_nothing_wrong() {
    kill(8);
}

#[test]
#[ignore = "half a minute: a hundred kills"]
fn who_is_killed_a_hundred_times_leaves_nothing_wrong() {
    kill(100);
}

#[test]
fn a_limit_on_files_is_a_full_disk() {
    let folder = TempDir::new().unwrap();
    // States fit, pages do not: their writing ends in the middle.
    let output = run(&["sh"], "trap '' XFSZ; ulimit -f 32; exec \"$@\"", "fill", folder.path());
    let states = (SEQUENCES * u64::from(PAGES)) as usize;
    assert_eq!((figure(&output, "written"), figure(&output, "dropped")), (states, states), "{output}");
    assert!(output.contains("said nothing can be added to the cache folder"), "{output}");
    let own = fs::read_dir(folder.path().join("03".repeat(16))).unwrap().flatten();
    assert!(own.map(|entry| entry.path()).all(|path| path.extension().unwrap() == "state"), "no remains");
}

/// A shell in a name space in which it may mount; none where the system forbids it.
fn shell_that_mounts() -> Option<Vec<&'static str>> {
    let shell = vec!["unshare", "-U", "-r", "-m", "sh"];
    let tried = Command::new(shell[0]).args(&shell[1..]).args(["-c", "mount -t tmpfs tmpfs /mnt"]).output();
    let works = tried.is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("skipped: this system lets nobody mount a disk of its own");
    }
    works.then_some(shell)
}

#[test]
fn a_full_disk_is_said_once_and_the_rest_goes_on() {
    let Some(shell) = shell_that_mounts() else { return };
    let folder = TempDir::new().unwrap();
    let output = run(&shell, "mount -t tmpfs -o size=600k tmpfs \"$FOLDER\" && exec \"$@\"", "fill", folder.path());
    assert!(figure(&output, "written") > 5 && figure(&output, "dropped") > 5, "{output}");
    let said: Vec<&str> = output.lines().filter(|line| line.starts_with("said")).collect();
    // Once for each time that it begins to fail: small files may still fit.
    assert!(!said.is_empty() && said.iter().all(|line| line.contains("No space left")), "{output}");
}

#[test]
fn a_read_only_disk_is_used_and_not_written_to() {
    let Some(shell) = shell_that_mounts() else { return };
    let folder = TempDir::new().unwrap();
    let filled = run(&["sh"], "exec \"$@\"", "fill", folder.path());
    let script = "mount --bind \"$FOLDER\" \"$FOLDER\" && mount -o remount,ro,bind \"$FOLDER\" && exec \"$@\"";
    let output = run(&shell, script, "look", folder.path());
    assert_eq!(figure(&output, "found"), figure(&filled, "written"), "{output}");
    assert!(output.contains("said nothing is added to the cache folder"), "{output}");
    assert!(output.contains("Read-only"), "{output}");
}
