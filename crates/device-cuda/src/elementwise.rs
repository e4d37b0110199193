//! What is done to every value: norms, activations, sums.

use kauri_arch::{Activation, Norm, NormKind};
use kauri_device::{Buffer, Part};

use crate::driver::{Arg, Grid};
use crate::ops::Cuda;
use crate::resident::Resident;

/// Threads of a block where a thread has a value.
const THREADS: usize = 256;

/// Starts a kernel with a thread for each of `width` values of every row of `of`.
pub(crate) fn each(cuda: &Cuda, name: &str, of: Buffer, width: usize, arguments: &[Arg<'_>]) {
    let blocks = (cuda.rows(of) * width).div_ceil(THREADS);
    let grid = Grid { ahead: true, ..Grid::new([blocks, 1, 1], THREADS as u32) };
    cuda.launch(name, grid, arguments);
}

/// See [`kauri_device::Ops::norm`].
pub(crate) fn norm(cuda: &Cuda, norm: &Norm<Resident>, groups: usize, from: Buffer, to: Buffer) {
    let width = norm.width as usize;
    let threads = width.div_ceil(4).next_multiple_of(32).clamp(32, 1024) as u32;
    let arguments = [
        cuda.count(from).into(),
        cuda.at(from).into(),
        cuda.at(to).into(),
        norm.weight.at.into(),
        norm.bias.map_or(0, |bias| bias.at).into(),
        width.into(),
        (norm.weight.columns / width).into(),
        (norm.kind == NormKind::Layer).into(),
        norm.epsilon.into(),
    ];
    let grid = Grid { ahead: true, ..Grid::new([groups, cuda.rows(from), 1], threads) };
    cuda.launch("normalise", grid, &arguments);
}

/// See [`kauri_device::Ops::activate`].
pub(crate) fn activate(cuda: &Cuda, activation: Activation, gated: bool, width: usize) {
    let [number, limit, steepness] = numbers(activation);
    let arguments = [
        cuda.count(Buffer::Gate).into(),
        cuda.at(Buffer::Gate).into(),
        cuda.at(Buffer::Up).into(),
        width.into(),
        number,
        limit,
        steepness,
        gated.into(),
        Arg::Float(1.0),
    ];
    each(cuda, "activate", Buffer::Gate, width, &arguments);
}

/// See [`kauri_device::Ops::gate`].
pub(crate) fn gate(cuda: &Cuda, activation: Activation, gate: Buffer, values: Buffer, width: usize) {
    let [number, limit, steepness] = numbers(activation);
    let (count, to, from) = (cuda.count(gate), cuda.at(gate), cuda.at(values));
    let arguments = [count.into(), to.into(), from.into(), width.into(), number, limit, steepness];
    each(cuda, "gate", gate, width, &arguments);
}

/// See [`kauri_device::Ops::scale`].
pub(crate) fn scale(cuda: &Cuda, buffer: Buffer, parts: &[(u32, f32)]) {
    let row: u32 = parts.iter().map(|(width, _)| width).sum();
    let mut start = 0;
    for &(width, factor) in parts {
        if factor != 1.0 && width > 0 {
            let (count, at) = (cuda.count(buffer), cuda.at(buffer));
            let arguments = [count.into(), at.into(), row.into(), Arg::from(start), width.into(), factor.into()];
            each(cuda, "scale", buffer, width as usize, &arguments);
        }
        start += width;
    }
}

/// See [`kauri_device::Ops::deal`].
pub(crate) fn deal(cuda: &Cuda, groups: usize, parts: &[Part]) {
    let all: usize = parts.iter().map(|part| part.width).sum();
    let mut before = 0;
    for part in parts {
        let arguments = [
            cuda.count(Buffer::Packed).into(),
            cuda.at(Buffer::Packed).into(),
            cuda.at(part.to).into(),
            groups.into(),
            all.into(),
            Arg::from(before),
            part.width.into(),
            part.row.into(),
            part.start.into(),
        ];
        each(cuda, "deal", Buffer::Packed, groups * part.width, &arguments);
        before += part.width;
    }
}

/// See [`kauri_device::Ops::scale_logits`].
pub(crate) fn scale_logits(cuda: &Cuda, scale: f32, soft_cap: Option<f32>) {
    let (count, at, width) = (cuda.count(Buffer::Logits), cuda.at(Buffer::Logits), cuda.vocab);
    let (capped, cap) = (soft_cap.is_some(), soft_cap.unwrap_or(1.0));
    let arguments = [count.into(), at.into(), width.into(), scale.into(), capped.into(), cap.into()];
    each(cuda, "scale_logits", Buffer::Logits, width, &arguments);
}

/// An activation as kernels are told it: its number, what it cuts to, how steep it is.
pub(crate) fn numbers(activation: Activation) -> [Arg<'static>; 3] {
    let [number, limit, steepness] = numbered(activation);
    [Arg::Int(number as i32), limit.into(), steepness.into()]
}

/// The same as numbers.
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
