//! The index: what it finds, what it forgets first, and that a collision serves nothing wrong.

use super::*;

const PAGE_TOKENS: u32 = 4;

fn start(salt: u64) -> Place {
    Place { parent: NONE, salt, before: root(salt) }
}

/// Puts the full pages of `tokens` into the index, as a sequence that has computed them; returns its table.
fn fill(index: &mut Prefixes, salt: u64, tokens: &[u32]) -> Vec<u32> {
    let (mut place, mut table) = (start(salt), Vec::new());
    for piece in tokens.chunks_exact(PAGE_TOKENS as usize) {
        let key = chain(place.before, piece);
        let page = index.take().unwrap();
        let page = index.insert(page, &place, key, piece);
        place = Place { parent: page, before: key, ..place };
        table.push(page);
    }
    table
}

fn leave(index: &mut Prefixes, table: &[u32]) {
    table.iter().rev().for_each(|&page| index.release(page));
}

/// The known pages of `tokens`.
fn known(index: &Prefixes, salt: u64, tokens: &[u32]) -> Vec<u32> {
    let (mut place, mut found) = (start(salt), Vec::new());
    for piece in tokens.chunks_exact(PAGE_TOKENS as usize) {
        let key = chain(place.before, piece);
        let Some(page) = index.find(&place, key, piece) else { break };
        place = Place { parent: page, before: key, ..place };
        found.push(page);
    }
    found
}

#[test]
fn the_longest_known_prefix_is_found_and_equal_pages_are_one() {
    let mut index = Prefixes::new(8, PAGE_TOKENS, 1);
    let first = fill(&mut index, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let second = fill(&mut index, 0, &[1, 2, 3, 4, 9, 9, 9, 9]);
    assert_eq!(first[0], second[0], "one page for what is common");
    assert_eq!(index.pages().free(), 5);
    assert_eq!(known(&index, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]), first);
    assert!(known(&index, 0, &[5, 6, 7, 8]).is_empty(), "the same tokens behind nothing are another prefix");
    assert!(known(&index, 1, &[1, 2, 3, 4]).is_empty(), "another salt is another prefix");
}

#[test]
fn leaves_are_forgotten_first_and_shared_ancestors_last() {
    let mut index = Prefixes::new(4, PAGE_TOKENS, 1);
    let one = fill(&mut index, 0, &[1, 1, 1, 1, 2, 2, 2, 2]);
    let other = fill(&mut index, 0, &[1, 1, 1, 1, 3, 3, 3, 3]);
    leave(&mut index, &one);
    assert_eq!(index.cached(), 1, "the ancestor is in use still");
    leave(&mut index, &other);
    assert_eq!((index.cached(), index.pages().free()), (3, 1));
    index.take().unwrap();
    assert_eq!(index.take().unwrap(), one[1], "the leaf used longest ago");
    assert_eq!(known(&index, 0, &[1, 1, 1, 1, 3, 3, 3, 3]), other);
    assert_eq!(index.take().unwrap(), other[1]);
    assert_eq!(index.take().unwrap(), other[0]);
    assert_eq!(index.take(), None);
}

#[test]
fn what_is_used_is_not_forgotten() {
    let mut index = Prefixes::new(2, PAGE_TOKENS, 1);
    let table = fill(&mut index, 0, &[1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(index.take(), None);
    leave(&mut index, &table);
    index.adopt(table[0]);
    assert_eq!(index.take(), Some(table[1]));
    assert_eq!(index.take(), None, "pinned by the sequence that adopted it");
}

#[test]
fn a_collision_serves_nothing_wrong() {
    let mut index = Prefixes::new(4, PAGE_TOKENS, 1);
    let page = index.take().unwrap();
    index.insert(page, &start(0), 7, &[1, 2, 3, 4]);
    assert_eq!(index.find(&start(0), 7, &[1, 2, 3, 4]), Some(page));
    assert_eq!(index.find(&start(0), 7, &[1, 2, 3, 5]), None, "other tokens under the same hash");
    let behind = Place { parent: page, ..start(0) };
    assert_eq!(index.find(&behind, 7, &[1, 2, 3, 4]), None, "another place under the same hash");
    let other = index.take().unwrap();
    assert_eq!(index.insert(other, &start(0), 7, &[1, 2, 3, 5]), other);
    assert_eq!(index.find(&start(0), 7, &[1, 2, 3, 4]), Some(page));
    assert_eq!(index.find(&start(0), 7, &[1, 2, 3, 5]), Some(other));
}

#[test]
fn a_tail_goes_to_the_one_that_goes_on_from_it() {
    let mut index = Prefixes::new(4, PAGE_TOKENS, 2);
    let table = fill(&mut index, 0, &[1, 1, 1, 1]);
    let place = Place { parent: table[0], salt: 0, before: chain(root(0), &[1, 1, 1, 1]) };
    let page = index.take().unwrap();
    let slot = index.take_slot().unwrap();
    index.insert_tail(page, &place, &[5, 6, 7], Some(slot));
    assert_eq!(index.find_tail(&place, &[5, 6, 8, 9], false), Some(Tail { page, matched: 2 }));
    assert_eq!(index.find_tail(&place, &[5, 8, 8, 9], false), None, "less than half of it");
    assert_eq!(index.find_tail(&place, &[5, 6, 8, 9], true), None, "a state is of all its tokens");
    assert_eq!(index.find_tail(&place, &[5, 6, 7, 9], true), Some(Tail { page, matched: 3 }));
    assert_eq!(index.take_over(page), Some(slot));
    assert_eq!(index.find_tail(&place, &[5, 6, 7, 9], false), None);
    index.release(page);
    leave(&mut index, &table);
    assert_eq!((index.pages().free(), index.cached()), (3, 1));
}

#[test]
fn a_forgotten_page_takes_its_snapshot_along() {
    let mut index = Prefixes::new(1, PAGE_TOKENS, 1);
    let table = fill(&mut index, 0, &[1, 1, 1, 1]);
    let slot = index.take_slot().unwrap();
    index.keep_slot(slot, table[0]);
    leave(&mut index, &table);
    assert_eq!((index.slots().free(), index.slots().snapshots()), (0, 1));
    index.take().unwrap();
    assert_eq!((index.slots().free(), index.slots().snapshots()), (1, 0));
}
