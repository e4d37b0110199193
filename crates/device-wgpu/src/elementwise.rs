//! What is done to every value: norms, activations, sums.

use kauri_arch::{Activation, Norm, NormKind};
use kauri_device::{Buffer, Part, Share};

use crate::driver::Words;
use crate::ops::{NOTHING, Wgpu, bias_at};
use crate::resident::Resident;
use crate::shader::{Entry, Kernel};

/// The operations of `shaders/each.wgsl`, by number.
#[derive(Clone, Copy)]
enum Each {
    Activate,
    Gate,
    Scale,
    Deal,
    Add,
    Lean,
    Join,
    Gather,
    ScaleLogits,
}

/// Arguments of one of them.
#[derive(Default)]
struct Given {
    to: usize,
    from: usize,
    other: usize,
    numbers: [usize; 5],
    activation: [f32; 3],
    scale: f32,
}

fn each(wgpu: &mut Wgpu, operation: Each, rows: usize, width: usize, given: &Given) {
    let [number, limit, steepness] = given.activation;
    let words = Words::of([operation as usize, width, given.to, given.from, given.other]);
    let words = given.numbers.into_iter().fold(words, Words::int);
    let words = words.int(number as usize).float(limit).float(steepness).float(given.scale);
    let blocks = width.div_ceil(wgpu.threads());
    wgpu.start(Kernel::plain(Entry::Each), [blocks, rows, 1], words);
}

/// See [`kauri_device::Ops::norm`].
pub(crate) fn norm(wgpu: &mut Wgpu, norm: &Norm<Resident>, groups: usize, from: Buffer, to: Buffer) {
    let row = groups * norm.width as usize;
    norm_at(wgpu, norm, groups, wgpu.rows(from), [(wgpu.at(from), row), (wgpu.at(to), row)]);
}

/// The same of rows that begin wherever they do: the first of each buffer, and values from one to the next.
pub(crate) fn norm_at(
    wgpu: &mut Wgpu,
    norm: &Norm<Resident>,
    groups: usize,
    rows: usize,
    [(from, from_row), (to, to_row)]: [(usize, usize); 2],
) {
    let width = norm.width as usize;
    let words = Words::of([from, to, from_row, to_row, width, norm.weight.at, norm.weight.columns / width]);
    let words =
        words.int(bias_at(norm.bias.as_ref())).int(usize::from(norm.kind == NormKind::Layer)).float(norm.epsilon);
    wgpu.start(Kernel::plain(Entry::Norm), [groups, rows, 1], words);
}

/// See [`kauri_device::Ops::activate`]; the gate is multiplied with `scale` first.
pub(crate) fn activate(wgpu: &mut Wgpu, activation: Activation, gated: bool, width: usize, scale: f32) {
    let given = Given {
        to: wgpu.at(Buffer::Gate),
        from: wgpu.at(Buffer::Up),
        numbers: [usize::from(gated), 0, 0, 0, 0],
        activation: numbered(activation),
        scale,
        ..Given::default()
    };
    each(wgpu, Each::Activate, wgpu.rows(Buffer::Gate), width, &given);
}

/// See [`kauri_device::Ops::gate`].
pub(crate) fn gate(wgpu: &mut Wgpu, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
    let (to, from) = (wgpu.at(gate), wgpu.at(values));
    let given = Given { to, from, activation: numbered(activation), ..Given::default() };
    each(wgpu, Each::Gate, wgpu.rows(gate), width, &given);
}

/// See [`kauri_device::Ops::scale`].
pub(crate) fn scale(wgpu: &mut Wgpu, buffer: Buffer, parts: &[(u32, f32)]) {
    let row: u32 = parts.iter().map(|(width, _)| width).sum();
    let mut start = 0;
    for &(width, factor) in parts {
        if factor != 1.0 && width > 0 {
            let numbers = [start, row as usize, 0, 0, 0];
            let given = Given { to: wgpu.at(buffer), numbers, scale: factor, ..Given::default() };
            each(wgpu, Each::Scale, wgpu.rows(buffer), width as usize, &given);
        }
        start += width as usize;
    }
}

/// See [`kauri_device::Ops::deal`].
pub(crate) fn deal(wgpu: &mut Wgpu, groups: usize, parts: &[Part]) {
    let all: usize = parts.iter().map(|part| part.width).sum();
    let mut before = 0;
    for part in parts {
        let (to, from) = (wgpu.at(part.to), wgpu.at(Buffer::Packed));
        copy(wgpu, groups, [from, before, all], [to, part.row, part.start], part.width);
        before += part.width;
    }
}

/// Copies `width` values of each of `groups` groups of every row: of groups of so many values, from the one with this number; to rows of
/// so many values, from this one on.
pub(crate) fn copy(
    wgpu: &mut Wgpu,
    groups: usize,
    [from, first, all]: [usize; 3],
    [to, row, start]: [usize; 3],
    width: usize,
) {
    let given = Given { to, from, numbers: [first, width, all, row, start], ..Given::default() };
    each(wgpu, Each::Deal, wgpu.rows(Buffer::Packed), groups * width, &given);
}

/// See [`kauri_device::Ops::add`].
pub(crate) fn add(wgpu: &mut Wgpu, from: Buffer, scale: f32) {
    let given = Given { to: wgpu.at(Buffer::Stream), from: wgpu.at(from), scale, ..Given::default() };
    each(wgpu, Each::Add, wgpu.rows(from), wgpu.hidden, &given);
}

/// See [`kauri_device::Ops::lean`].
pub(crate) fn lean(wgpu: &mut Wgpu, lean: &Resident, from: Buffer) {
    let given = Given {
        to: wgpu.at(Buffer::Leant),
        from: wgpu.at(from),
        other: wgpu.at(Buffer::Change),
        numbers: [lean.at, 0, 0, 0, 0],
        ..Given::default()
    };
    each(wgpu, Each::Lean, wgpu.rows(from), lean.columns, &given);
}

/// See [`kauri_device::Ops::join`].
pub(crate) fn join(wgpu: &mut Wgpu, share: Share) {
    let numbers = match share {
        Share::Whole => [0, 0, 0, 0, 0],
        Share::Gate => [1, 0, 0, 0, 0],
        Share::Expert { index, count } => [2, index, count, 0, 0],
    };
    let [to, from, other] = [Buffer::Mixture, Buffer::Branch, Buffer::Scores].map(|buffer| wgpu.at(buffer));
    let given = Given { to, from, other, numbers, ..Given::default() };
    each(wgpu, Each::Join, wgpu.rows(Buffer::Mixture), wgpu.hidden, &given);
}

/// See [`kauri_device::Ops::gather`].
pub(crate) fn gather(wgpu: &mut Wgpu) {
    let given = Given { to: wgpu.at(Buffer::Last), from: wgpu.at(Buffer::Stream), ..Given::default() };
    each(wgpu, Each::Gather, wgpu.rows(Buffer::Last), wgpu.hidden, &given);
}

/// See [`kauri_device::Ops::scale_logits`].
pub(crate) fn scale_logits(wgpu: &mut Wgpu, scale: f32, soft_cap: Option<f32>) {
    let given = Given {
        to: wgpu.at(Buffer::Logits),
        numbers: [usize::from(soft_cap.is_some()), 0, 0, 0, 0],
        activation: [0.0, soft_cap.unwrap_or(1.0), 0.0],
        scale,
        ..Given::default()
    };
    each(wgpu, Each::ScaleLogits, wgpu.rows(Buffer::Logits), wgpu.vocab, &given);
}

/// See [`kauri_device::Ops::rope`].
pub(crate) fn rope(wgpu: &mut Wgpu, rope: usize, heads: usize, head_dim: usize, buffer: Buffer) {
    let (turns, pairs, is_halves) = wgpu.turns(rope);
    let words = Words::of([wgpu.at(buffer), turns, pairs, usize::from(is_halves), heads, head_dim]);
    let blocks = (heads * pairs).div_ceil(wgpu.threads());
    wgpu.start(Kernel::plain(Entry::Rope), [blocks, wgpu.rows(buffer), 1], words);
}

/// An activation as kernels are told it: its number, what it cuts to, how steep it is.
pub(crate) fn numbered(activation: Activation) -> [f32; 3] {
    match activation {
        Activation::Silu => [0.0; 3],
        Activation::GeluTanh => [1.0, 0.0, 0.0],
        Activation::Gelu => [2.0, 0.0, 0.0],
        Activation::ReluSquared => [3.0, 0.0, 0.0],
        Activation::Sigmoid => [4.0, 0.0, 0.0],
        Activation::Tanh => [5.0, 0.0, 0.0],
        Activation::Identity => [6.0, 0.0, 0.0],
        Activation::SiluCut { limit, steepness } => [7.0, limit, steepness],
    }
}

/// Where something begins, or that there is none.
pub(crate) fn or_nothing(at: Option<usize>) -> usize {
    at.unwrap_or(NOTHING)
}
