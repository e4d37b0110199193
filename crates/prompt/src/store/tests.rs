//! The store: what is kept is found again, by the next program too; what is not what it should be is named and not used.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;

use super::*;

const SIZES: Sizes = Sizes { page_tokens: 4, page_bytes: 1000, state_bytes: 300 };
const MODEL: [u8; 32] = [7; 32];
/// Bytes of the file of a page.
const PAGE_FILE: u64 = 120 + 16 + 1000 + 32;

/// A clock that goes on by a second whenever it is asked.
fn clock() -> SystemTime {
    static SECONDS: AtomicU64 = AtomicU64::new(1_000_000);
    UNIX_EPOCH + Duration::from_secs(SECONDS.fetch_add(1, Ordering::Relaxed))
}

/// A store, and what it said.
struct Opened {
    store: Store,
    said: Arc<Mutex<Vec<String>>>,
}

fn open(folder: &Path, model: [u8; 32], pages_max: u64) -> Opened {
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let settings = Settings {
        folder: Some(folder.to_owned()),
        folder_bytes_max: pages_max * PAGE_FILE,
        memory_bytes_max: 0,
        now: clock,
    };
    let notice: Notice = Arc::new(move |text| heard.lock().unwrap().push(text.to_owned()));
    Opened { store: Store::open(&settings, model, SIZES, &notice), said }
}

/// The pages of a sequence, each with a name, the one before, and its tokens.
fn sequence(salt: u64, pages: u32) -> Vec<Kept> {
    let mut before = Name::root(salt);
    let page = |page: u32| {
        let tokens: Box<[u32]> = (page * 4..page * 4 + 4).map(|token| token * 3 + salt as u32).collect();
        let kept = Kept { at: 0, name: before.then(&tokens), before, tokens };
        before = kept.name;
        kept
    };
    (0..pages).map(page).collect()
}

/// What the page or state of this name holds.
fn content(kind: Kind, name: &Name) -> Vec<u8> {
    (0..SIZES.bytes(kind)).map(|index| name.bytes()[index % 32] ^ index as u8 ^ kind as u8).collect()
}

impl Opened {
    fn keep(&mut self, kind: Kind, kept: &Kept) {
        assert!(self.store.wants(kind, &kept.name), "{kept:?}");
        self.store.keep(kind, kept, content(kind, &kept.name));
    }

    /// Waits for what is found.
    fn get(&mut self, kind: Kind, kept: &Kept) -> Option<Vec<u8>> {
        for _ in 0..2000 {
            self.store.turn();
            match self.store.find(kind, &kept.name, &kept.tokens) {
                Found::AtHand => return Some(self.store.take(kind, &kept.name).expect("at hand").to_vec()),
                Found::Missing => return None,
                Found::Coming => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("{kept:?} neither came nor was missing");
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

fn path(folder: &Path, kept: &Kept) -> PathBuf {
    folder.join("07".repeat(16)).join(format!("{}.page", kept.name))
}

#[test]
fn what_is_kept_is_found_again_by_the_next_program_and_by_no_other_model() {
    let folder = TempDir::new().unwrap();
    let pages = sequence(1, 6);
    let mut first = open(folder.path(), MODEL, 100);
    pages.iter().for_each(|kept| first.keep(Kind::Page, kept));
    first.keep(Kind::State, &pages[5]);
    first.store.flush();
    assert!(!first.store.wants(Kind::Page, &pages[0].name), "once is enough");
    drop(first);
    let mut next = open(folder.path(), MODEL, 100);
    assert_eq!(next.store.stored().files, 7);
    for kept in &pages {
        assert_eq!(next.get(Kind::Page, kept), Some(content(Kind::Page, &kept.name)));
    }
    assert_eq!(next.get(Kind::State, &pages[5]), Some(content(Kind::State, &pages[5].name)));
    assert_eq!(next.get(Kind::State, &pages[4]), None);
    assert_eq!(next.get(Kind::Page, &sequence(2, 1)[0]), None);
    assert_eq!((next.store.stored().read, next.said()), (7, Vec::new()));
    drop(next);
    let mut other = open(folder.path(), [8; 32], 100);
    assert_eq!(other.get(Kind::Page, &pages[0]), None);
    assert_eq!(other.store.stored().files, 7, "the limit is of all models");
}

#[test]
fn what_is_not_what_it_should_be_is_named_and_not_used() {
    let folder = TempDir::new().unwrap();
    let (pages, others) = (sequence(1, 12), sequence(2, 1));
    let mut first = open(folder.path(), MODEL, 100);
    pages.iter().chain(&others).for_each(|kept| first.keep(Kind::Page, kept));
    drop(first);
    let mut foreign = open(folder.path(), [9; 32], 100);
    foreign.keep(Kind::Page, &pages[4]);
    drop(foreign);
    let file = |index: usize| path(folder.path(), &pages[index]);
    let change = |index: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(file(index)).unwrap();
        change(&mut bytes);
        fs::write(file(index), bytes).unwrap();
    };
    change(0, &|bytes| bytes.truncate(bytes.len() - 1));
    change(1, &|bytes| bytes[500] ^= 1);
    change(2, &|bytes| bytes.clear());
    change(3, &|bytes| bytes[..8].copy_from_slice(b"SQLite f"));
    fs::copy(folder.path().join("09".repeat(16)).join(format!("{}.page", pages[4].name)), file(4)).unwrap();
    fs::copy(path(folder.path(), &others[0]), file(5)).unwrap();
    fs::remove_file(file(6)).unwrap();
    let reasons =
        ["bytes, and one", "damaged", "has 0 bytes", "not one of", "another model", "its name says", "cannot be read"];
    let mut next = open(folder.path(), MODEL, 100);
    // One that is deleted when it is known already.
    let mut expected = Vec::new();
    for (index, kept) in pages.iter().enumerate() {
        let got = next.get(Kind::Page, kept);
        assert_eq!(got.is_some(), index > 6, "page {index}");
        if index == 6 {
            assert_eq!(next.said().len(), 6, "it was not there from the start");
            continue;
        }
        if index == 7 {
            // Deleted under it.
            fs::remove_file(file(8)).unwrap();
            assert_eq!(next.get(Kind::Page, &pages[8]), None);
            expected = next.said();
            next.keep(Kind::Page, &pages[8]);
            next.store.flush();
        }
    }
    for (index, (said, reason)) in expected.iter().zip(reasons).enumerate() {
        let named = if index == 6 { 8 } else { index };
        assert!(said.contains(reason) && said.contains(&pages[named].name.to_string()), "{said}: {reason}");
    }
    assert_eq!(expected.len(), 7, "{expected:?}");
    for kept in &pages[..6] {
        assert_eq!(next.get(Kind::Page, kept), None, "and is not looked at again");
        next.keep(Kind::Page, kept);
    }
    next.store.flush();
    assert_eq!(next.said().len(), 7);
    drop(next);
    let mut last = open(folder.path(), MODEL, 100);
    let all = pages.iter().filter(|kept| last.get(Kind::Page, kept) == Some(content(Kind::Page, &kept.name))).count();
    assert_eq!(
        (all, last.said()),
        (11, Vec::new()),
        "all that was kept again is good; the one that was deleted is gone"
    );
}

#[test]
fn every_flipped_bit_is_noticed() {
    let folder = TempDir::new().unwrap();
    let page = &sequence(1, 1)[0];
    let mut store = open(folder.path(), MODEL, 100);
    store.keep(Kind::Page, page);
    drop(store);
    let (file, key) = (path(folder.path(), page), (Kind::Page, page.name));
    let good = fs::read(&file).unwrap();
    assert!(file::read(&file, key, &MODEL, &SIZES, &page.tokens).is_ok());
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "nobody else reads what was asked");
    }
    for index in 0..good.len() {
        let mut bytes = good.clone();
        bytes[index] ^= 1 << (index % 8);
        fs::write(&file, bytes).unwrap();
        assert!(file::read(&file, key, &MODEL, &SIZES, &page.tokens).is_err(), "byte {index}");
    }
    fs::write(&file, good).unwrap();
    assert!(file::read(&file, key, &MODEL, &SIZES, &[1, 2, 3, 4]).is_err(), "other tokens");
    assert!(file::read(folder.path(), key, &MODEL, &SIZES, &page.tokens).is_err(), "a folder");
}

#[test]
fn the_limit_holds_and_what_was_used_longest_ago_goes_first_from_its_end() {
    let folder = TempDir::new().unwrap();
    let [old, new, more] = [1, 2, 3].map(|salt| sequence(salt, 4));
    let mut store = open(folder.path(), MODEL, 8);
    for pages in [&old, &new] {
        pages.iter().for_each(|kept| store.keep(Kind::Page, kept));
        store.store.used(pages.iter().map(|kept| kept.name).collect());
    }
    store.store.flush();
    // Used again, and so the younger of the two, by the time of its files too.
    store.store.used(old.iter().map(|kept| kept.name).collect());
    store.store.flush();
    drop(store);
    let mut store = open(folder.path(), MODEL, 8);
    more[..2].iter().for_each(|kept| store.keep(Kind::Page, kept));
    store.store.flush();
    let there = |store: &mut Opened, pages: &[Kept]| -> Vec<bool> {
        pages.iter().map(|kept| store.get(Kind::Page, kept).is_some()).collect()
    };
    assert_eq!(there(&mut store, &old), [true; 4]);
    assert_eq!(there(&mut store, &new), [true, true, false, false], "the end goes first");
    let stored = store.store.stored();
    assert_eq!((stored.files, stored.file_bytes), (8, 8 * PAGE_FILE));
    assert_eq!(fs::read_dir(folder.path().join("07".repeat(16))).unwrap().count(), 8);
    // What is larger than all there may be is not written, and nothing makes way for it.
    drop(store);
    let mut store = open(folder.path(), MODEL, 0);
    assert!(!store.store.wants(Kind::Page, &more[2].name));
    assert!(there(&mut store, &old)[0]);
}

#[test]
fn what_was_not_finished_is_removed_and_what_is_not_ours_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let page = &sequence(1, 1)[0];
    drop(open(folder.path(), MODEL, 8));
    let own = folder.path().join("07".repeat(16));
    let unfinished = own.join(format!("{}.page.new", page.name));
    fs::write(&unfinished, "half").unwrap();
    let foreign =
        [own.join("notes.txt"), folder.path().join("thesis.doc"), own.join(format!("{}.page.bak", page.name))];
    foreign.iter().for_each(|path| fs::write(path, "mine").unwrap());
    fs::create_dir(own.join(format!("{}.state", page.name))).unwrap();
    let mut store = open(folder.path(), MODEL, 1);
    assert!(!unfinished.exists());
    assert_eq!(store.said().len(), 1, "{:?}", store.said());
    assert!(store.said()[0].contains("4 entries"), "{:?}", store.said());
    for page in &sequence(2, 5) {
        store.keep(Kind::Page, page);
    }
    store.store.flush();
    assert!(foreign.iter().all(|path| fs::read(path).unwrap() == b"mine"));
    assert_eq!(store.store.stored().files, 1);
}

#[test]
fn one_program_writes_and_others_use_what_is_there() {
    let folder = TempDir::new().unwrap();
    let pages = sequence(1, 2);
    let mut writes = open(folder.path(), MODEL, 8);
    writes.keep(Kind::Page, &pages[0]);
    writes.store.flush();
    let mut reads = open(folder.path(), MODEL, 8);
    assert!(reads.said()[0].contains("another kauri"), "{:?}", reads.said());
    assert!(!reads.store.keeps() && !reads.store.wants(Kind::Page, &pages[1].name));
    assert!(reads.get(Kind::Page, &pages[0]).is_some());
    reads.store.flush();
    drop(writes);
    assert!(open(folder.path(), MODEL, 8).store.keeps(), "the right to write is free again");
}

#[test]
fn a_folder_that_is_removed_is_made_again() {
    let folder = TempDir::new().unwrap();
    let pages = sequence(1, 3);
    let mut store = open(folder.path(), MODEL, 8);
    store.keep(Kind::Page, &pages[0]);
    store.store.flush();
    fs::remove_dir_all(folder.path()).unwrap();
    assert_eq!(store.get(Kind::Page, &pages[0]), None);
    assert_eq!(store.said().len(), 1);
    pages.iter().for_each(|kept| store.keep(Kind::Page, kept));
    store.store.flush();
    for kept in &pages {
        assert_eq!(store.get(Kind::Page, kept), Some(content(Kind::Page, &kept.name)));
    }
}

#[test]
fn a_folder_that_cannot_be_is_done_without() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "no folder").unwrap();
    let mut store = open(&folder.path().join("file"), MODEL, 8);
    assert!(store.said()[0].contains("cannot be made"), "{:?}", store.said());
    assert!(!store.store.keeps() && !store.store.spills());
    assert_eq!(store.get(Kind::Page, &sequence(1, 1)[0]), None);
}

#[test]
fn memory_holds_what_was_used_last_and_compares_tokens() {
    let settings = Settings { folder: None, folder_bytes_max: 0, memory_bytes_max: 2500, now: clock };
    let notice: Notice = Arc::new(|text| panic!("{text}"));
    let store = Store::open(&settings, MODEL, SIZES, &notice);
    let mut opened = Opened { store, said: Arc::default() };
    let pages = sequence(1, 3);
    for kept in &pages[..2] {
        assert!(opened.store.wants_in_memory(Kind::Page, &kept.name));
        opened.store.put_aside(Kind::Page, kept, content(Kind::Page, &kept.name));
    }
    assert!(opened.get(Kind::Page, &pages[0]).is_some());
    opened.store.put_aside(Kind::Page, &pages[2], content(Kind::Page, &pages[2].name));
    assert_eq!(opened.get(Kind::Page, &pages[1]), None, "used longest ago");
    assert_eq!(opened.get(Kind::Page, &pages[0]), Some(content(Kind::Page, &pages[0].name)));
    let wrong = Kept { tokens: pages[1].tokens.clone(), ..pages[0].clone() };
    assert_eq!(opened.get(Kind::Page, &wrong), None, "other tokens under the same name");
    assert_eq!(opened.store.stored().memory_bytes, 2000);
}

/// Whether the clock of [`gated`] goes.
static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// A clock that holds up who asks it, until it goes.
fn gated() -> SystemTime {
    drop(GATE.1.wait_while(GATE.0.lock().unwrap(), |goes| !*goes).unwrap());
    clock()
}

#[test]
fn more_than_may_wait_is_dropped_and_what_nobody_takes_makes_way() {
    let folder = TempDir::new().unwrap();
    let sizes = Sizes { page_bytes: 30 << 20, ..SIZES };
    let settings =
        Settings { folder: Some(folder.path().to_owned()), folder_bytes_max: 1 << 30, memory_bytes_max: 0, now: gated };
    let notice: Notice = Arc::new(|text| panic!("{text}"));
    let mut store = Store::open(&settings, MODEL, sizes, &notice);
    let pages = sequence(1, 8);
    // The writing thread is busy with this until the clock goes.
    store.used(vec![pages[0].name]);
    for kept in &pages {
        store.keep(Kind::Page, kept, vec![1; sizes.page_bytes]);
    }
    *GATE.0.lock().unwrap() = true;
    GATE.1.notify_all();
    store.flush();
    let stored = store.stored();
    assert_eq!((stored.written, stored.dropped), (4, 4), "of 30 MiB each, four wait in 128 MiB: {stored:?}");
    // Ahead of need comes as much as there is room for, and more when nobody asks for it any more.
    let kept: Vec<&Kept> = pages.iter().filter(|kept| store.holds(Kind::Page, &kept.name)).collect();
    let expect =
        |store: &mut Store| kept.iter().filter(|kept| store.expect(Kind::Page, &kept.name, &kept.tokens)).count();
    store.turn();
    assert_eq!(expect(&mut store), 3, "of 30 MiB each, 64 MiB are reached by the third");
    while store.disk.as_ref().is_some_and(|disk| disk.coming_bytes() > 0) {
        store.receive();
    }
    assert_eq!(store.staged_bytes, 90 << 20);
    for _ in 0..=STALE_TURNS {
        store.turn();
    }
    assert!(store.expect(Kind::Page, &kept[3].name, &kept[3].tokens), "the others made way");
    assert_eq!(store.staged_bytes, 0);
}
