//! Pages and states that are taken out of one device and put into another, at other places: what is computed on top of them there has
//! the same bits.

use std::fmt::Debug;

use kauri_arch::Shape;

use super::{Subject, batches, continued};
use crate::batch::{Batch, Plan};
use crate::buffers::Buffer;
use crate::executor::DeviceError;
use crate::forward::{Ends, forward};
use crate::weight::Weight;

/// Where the pages of the sequence go on the other device, and its state.
const PAGES: [u32; 3] = [2, 5, 0];
const SLOT: u32 = 2;
/// A page that nothing is done to.
const OTHER_PAGE: u32 = 9;

/// Takes a sequence of three pages from one device to another.
pub(super) fn conform<S: Subject>(shape: &Shape<Weight>, plan: Plan, case: &impl Debug) {
    let mut all = batches(shape.vocab, plan);
    let (full, ragged) = (all.remove(4), all.remove(3));
    let mut from = S::new(shape, plan);
    pass(&mut from, &full);
    let memory = from.memory();
    let (page_bytes, state_bytes) = (memory.page_bytes(), memory.state_bytes());
    let page = |page: u32, subject: &mut S| {
        let mut bytes = vec![0; page_bytes];
        subject.memory().read_page(page, &mut bytes).expect("a page of this length");
        bytes
    };
    let state = |slot: u32, subject: &mut S| {
        let mut bytes = vec![0; state_bytes];
        subject.memory().read_state(slot, &mut bytes).expect("a state of this length");
        bytes
    };
    let pages: Vec<Vec<u8>> = full.pages.iter().map(|&at| page(at, &mut from)).collect();
    let kept = state(full.sequences[0].slot, &mut from);
    let next = continued(&full);
    let expected = pass(&mut from, &next);

    let mut to = S::new(shape, plan);
    pass(&mut to, &ragged);
    let [other, other_state] = [page(OTHER_PAGE, &mut to), state(ragged.sequences[0].slot + 1, &mut to)];
    for (&at, bytes) in PAGES.iter().zip(&pages) {
        to.memory().write_page(at, bytes).expect("a page of this length");
        assert!(page(at, &mut to) == *bytes, "page {at} is read as it was written, {case:?}");
    }
    to.memory().write_state(SLOT, &kept).expect("a state of this length");
    assert!(state(SLOT, &mut to) == kept, "a state is read as it was written, {case:?}");
    let mut moved = Batch::default();
    let sequence = &next.sequences[0];
    moved.push(&next.tokens, sequence.cached_tokens, &PAGES, SLOT, sequence.reach_tokens, 1);
    assert!(pass(&mut to, &moved) == expected, "the same bits on top of what was brought, {case:?}");
    assert!(page(OTHER_PAGE, &mut to) == other, "another page is as it was, {case:?}");
    assert!(state(ragged.sequences[0].slot + 1, &mut to) == other_state, "another state is as it was, {case:?}");

    let before = page(0, &mut to);
    let refused = [
        to.memory().write_page(0, &vec![0; page_bytes + 1]),
        to.memory().read_page(0, &mut vec![0; page_bytes + 2]),
        to.memory().write_state(0, &vec![0; state_bytes + 3]),
        to.memory().read_state(0, &mut vec![0; state_bytes + 4]),
    ];
    for (more, result) in (1..).zip(refused) {
        let refused = matches!(result, Err(DeviceError::Length { expected, found, .. }) if found == expected + more);
        assert!(refused, "a length that is no page's or state's is refused, {case:?}");
    }
    assert!(page(0, &mut to) == before, "what is refused changes nothing, {case:?}");
}

/// A whole pass; the bits of its logits.
fn pass<S: Subject>(subject: &mut S, batch: &Batch) -> Vec<u32> {
    subject.begin(batch);
    let (ops, shape) = subject.parts();
    let vocab = shape.vocab as usize;
    forward(ops, shape, Ends::BOTH);
    let logits = subject.read(Buffer::Logits, batch.outputs.len() * vocab);
    logits.into_iter().map(f32::to_bits).collect()
}
