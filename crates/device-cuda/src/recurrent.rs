//! Mixers that keep a state: where states are, and the kernels that take tokens into them.

use std::sync::Arc;

use kauri_arch::{Convolution, GatedDelta, Selective, State, StateSpace, TimeMix};
use kauri_device::{Buffer, Plan, Side};

use crate::driver::{Allocation, Arg, Failure, Gpu, Grid};
use crate::elementwise::numbers;
use crate::ops::Cuda;
use crate::resident::Resident;

/// Limits of `kernels/recurrent.cu`: taps of a convolution, columns of a state space's state, values of a head of the others.
pub(crate) const TAPS_MAX: u32 = 16;
pub(crate) const COLUMNS_MAX: u32 = 512;
pub(crate) const WIDTH_MAX: u32 = 1024;
/// Shared memory that a head's state may take of a processor's.
const RESIDENT_BYTES: usize = 96 * 1024;

/// The states of one block, all slots of each kind.
pub(crate) struct States {
    tail: Allocation,
    recurrent: Allocation,
    shifted: Allocation,
    slots: usize,
}

impl States {
    /// Sized for `plan`.
    pub(crate) fn new(gpu: &Arc<Gpu>, plan: &Plan, state: State) -> Result<Self, Failure> {
        let slots = plan.slots as usize;
        let make = |values: u64| {
            let states = gpu.allocate(4 * values as usize * slots)?;
            gpu.set(&states, 0)?;
            Ok::<_, Failure>(states)
        };
        let [tail, recurrent, shifted] = [make(state.tail)?, make(state.recurrent)?, make(state.shifted)?];
        Ok(Self { tail, recurrent, shifted, slots })
    }

    /// Every array.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Allocation> {
        [&self.tail, &self.recurrent, &self.shifted].into_iter()
    }

    /// Where the state of a slot is in each array, and its bytes there.
    pub(crate) fn runs(&self, slot: usize) -> impl Iterator<Item = (u64, usize)> {
        self.arrays().filter(|array| array.bytes() > 0).map(move |array| {
            let bytes = array.bytes() / self.slots;
            (array.at() + (slot * bytes) as u64, bytes)
        })
    }
}

/// See [`kauri_device::Ops::convolve`].
pub(crate) fn convolve(cuda: &Cuda, block: usize, convolution: &Convolution<Resident>) {
    let batch = cuda.step.batch();
    let [number, limit, steepness] = numbers(convolution.activation);
    let arguments = [
        (&batch).into(),
        cuda.at(Buffer::Channels).into(),
        cuda.states[block].tail.at().into(),
        convolution.weight.at.into(),
        convolution.bias.map_or(0, |bias| bias.at).into(),
        convolution.channels.into(),
        convolution.taps.into(),
        number,
        limit,
        steepness,
    ];
    let blocks = (convolution.channels as usize).div_ceil(128);
    cuda.launch("convolve", Grid::new([blocks, cuda.sequences, 1], 128), &arguments);
}

/// See [`kauri_device::Ops::shift`].
pub(crate) fn shift(cuda: &Cuda, block: usize, side: Side, from: Buffer) {
    let batch = cuda.step.batch();
    let states = match side {
        Side::Mixer => &cuda.states[block].tail,
        Side::Ffn => &cuda.states[block].shifted,
    };
    let (from, to) = (cuda.at(from), cuda.at(Buffer::Change));
    let arguments = [(&batch).into(), from.into(), to.into(), states.at().into(), cuda.hidden.into()];
    cuda.launch("shift", Grid::new([cuda.hidden.div_ceil(128), cuda.sequences, 1], 128), &arguments);
}

/// See [`kauri_device::Ops::scan`].
pub(crate) fn scan(cuda: &Cuda, block: usize, space: &StateSpace<Resident>) {
    let batch = cuda.step.batch();
    let [least, most] = space.step_limits;
    let arguments = [
        (&batch).into(),
        cuda.at(Buffer::Channels).into(),
        cuda.at(Buffer::Steps).into(),
        cuda.at(Buffer::Mixed).into(),
        cuda.states[block].recurrent.at().into(),
        space.decay.at.into(),
        space.step_bias.at.into(),
        space.skip.at.into(),
        space.head_dim.into(),
        space.groups.into(),
        space.state.into(),
        least.into(),
        most.into(),
    ];
    let blocks = [(space.head_dim as usize).div_ceil(4), space.heads as usize, cuda.sequences];
    cuda.launch("scan", Grid::new(blocks, 128), &arguments);
}

/// See [`kauri_device::Ops::select`].
pub(crate) fn select(cuda: &Cuda, block: usize, selective: &Selective<Resident>) {
    use Buffer::{Channels, Key, Mixed, Query, Steps};
    let batch = cuda.step.batch();
    let [channels, steps, b, c, mixed] = [Channels, Steps, Key, Query, Mixed].map(|buffer| Arg::from(cuda.at(buffer)));
    let arguments = [
        (&batch).into(),
        channels,
        steps,
        b,
        c,
        mixed,
        cuda.states[block].recurrent.at().into(),
        selective.decay.at.into(),
        selective.skip.at.into(),
        selective.width.into(),
        selective.state.into(),
    ];
    let blocks = [(selective.width as usize).div_ceil(4), cuda.sequences, 1];
    cuda.launch("selective", Grid::new(blocks, 128), &arguments);
}

/// See [`kauri_device::Ops::delta`].
pub(crate) fn delta(cuda: &Cuda, block: usize, delta: &GatedDelta<Resident>) {
    let batch = cuda.step.batch();
    let [key_dim, value_dim] = [delta.key_dim, delta.value_dim].map(|count| count as usize);
    let resident = 4 * key_dim * value_dim <= RESIDENT_BYTES;
    let arguments = [
        (&batch).into(),
        cuda.at(Buffer::Channels).into(),
        cuda.at(Buffer::Steps).into(),
        cuda.at(Buffer::Rates).into(),
        cuda.at(Buffer::Mixed).into(),
        cuda.states[block].recurrent.at().into(),
        delta.decay.at.into(),
        delta.step_bias.at.into(),
        delta.key_heads.into(),
        key_dim.into(),
        value_dim.into(),
        delta.interleaved.into(),
        delta.epsilon.into(),
        resident.into(),
    ];
    let threads = value_dim.next_multiple_of(32) as u32;
    let mut grid = Grid::new([delta.value_heads as usize, cuda.sequences, 1], threads);
    grid.shared_bytes = 4 * (2 * key_dim + if resident { key_dim * value_dim } else { 0 });
    cuda.launch("delta", grid, &arguments);
}

/// See [`kauri_device::Ops::replace`].
pub(crate) fn replace(cuda: &Cuda, block: usize, mix: &TimeMix<Resident>) {
    use Buffer::{First, Key, Mixed, Query, Rates, Steps, Value};
    let batch = cuda.step.batch();
    let [query, key, value, steps, rates, first, mixed] =
        [Query, Key, Value, Steps, Rates, First, Mixed].map(|buffer| Arg::from(cuda.at(buffer)));
    let head_dim = mix.head_dim as usize;
    let arguments = [
        (&batch).into(),
        query,
        key,
        value,
        steps,
        rates,
        first,
        mixed,
        cuda.states[block].recurrent.at().into(),
        mix.removal.at.into(),
        mix.insertion.at.into(),
        head_dim.into(),
        mix.residual.is_some().into(),
    ];
    let mut grid = Grid::new([mix.heads as usize, cuda.sequences, 1], head_dim.next_multiple_of(32) as u32);
    grid.shared_bytes = 4 * 5 * head_dim;
    cuda.launch("replace", grid, &arguments);
}

/// See [`kauri_device::Ops::pass_by`].
pub(crate) fn pass_by(cuda: &Cuda, mix: &TimeMix<Resident>) {
    use Buffer::{Key, Mixed, Query, Value};
    let [query, key, value, mixed] = [Query, Key, Value, Mixed].map(|buffer| Arg::from(cuda.at(buffer)));
    let (count, bonus) = (cuda.count(Mixed).into(), mix.bonus.at.into());
    let grid = Grid::new([mix.heads as usize, cuda.rows(Mixed), 1], 32);
    cuda.launch("pass_by", grid, &[count, query, key, value, mixed, bonus, mix.head_dim.into()]);
}
