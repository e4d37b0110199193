//! Mixers that keep a state: the kernels that take tokens into them.

use kauri_arch::{Convolution, GatedDelta, Selective, StateSpace, TimeMix};
use kauri_device::{Buffer, Side};

use crate::driver::Words;
use crate::elementwise::numbered;
use crate::ops::{Wgpu, bias_at};
use crate::resident::Resident;
use crate::shader::{Entry, Kernel};

/// See [`kauri_device::Ops::convolve`].
pub(crate) fn convolve(wgpu: &mut Wgpu, block: usize, convolution: &Convolution<Resident>) {
    let channels = convolution.channels as usize;
    let [number, limit, steepness] = numbered(convolution.activation);
    let bias = bias_at(convolution.bias.as_ref());
    let words = Words::of([wgpu.at(Buffer::Channels), wgpu.kept[block].tail.at, convolution.weight.at, bias, channels]);
    let words = words.int(convolution.taps as usize).int(number as usize).float(limit).float(steepness);
    let grid = [channels.div_ceil(wgpu.threads()), wgpu.sequences, 1];
    wgpu.start_on(Kernel::plain(Entry::Convolve), Some(block), &[], grid, words);
}

/// See [`kauri_device::Ops::shift`].
pub(crate) fn shift(wgpu: &mut Wgpu, block: usize, side: Side, from: Buffer) {
    let states = match side {
        Side::Mixer => wgpu.kept[block].tail.at,
        Side::Ffn => wgpu.kept[block].shifted.at,
    };
    let words = Words::of([wgpu.at(from), wgpu.at(Buffer::Change), states, wgpu.hidden]);
    let grid = [wgpu.hidden.div_ceil(wgpu.threads()), wgpu.sequences, 1];
    wgpu.start_on(Kernel::plain(Entry::Shift), Some(block), &[], grid, words);
}

/// See [`kauri_device::Ops::scan`].
pub(crate) fn scan(wgpu: &mut Wgpu, block: usize, space: &StateSpace<Resident>) {
    let [least, most] = space.step_limits;
    let [heads, head_dim, groups, columns] =
        [space.heads, space.head_dim, space.groups, space.state].map(|count| count as usize);
    let [channels, steps, mixed] = [Buffer::Channels, Buffer::Steps, Buffer::Mixed].map(|buffer| wgpu.at(buffer));
    let states = wgpu.kept[block].recurrent.at;
    let words = Words::of([channels, steps, mixed, states, space.decay.at, space.step_bias.at, space.skip.at]);
    let words = words.int(heads).int(head_dim).int(groups).int(columns).float(least).float(most);
    let grid = [head_dim.div_ceil(wgpu.matrix_rows()), heads, wgpu.sequences];
    wgpu.start_on(Kernel::plain(Entry::Scan), Some(block), &[], grid, words);
}

/// See [`kauri_device::Ops::select`].
pub(crate) fn select(wgpu: &mut Wgpu, block: usize, selective: &Selective<Resident>) {
    use Buffer::{Channels, Key, Mixed, Query, Steps};
    let buffers = [Channels, Steps, Key, Query, Mixed].map(|buffer| wgpu.at(buffer));
    let (width, columns, states) = (selective.width as usize, selective.state as usize, wgpu.kept[block].recurrent.at);
    let words = Words::of(buffers).int(states).int(selective.decay.at).int(selective.skip.at).int(width).int(columns);
    let grid = [width.div_ceil(wgpu.matrix_rows()), wgpu.sequences, 1];
    wgpu.start_on(Kernel::plain(Entry::Select), Some(block), &[], grid, words);
}

/// See [`kauri_device::Ops::delta`].
pub(crate) fn delta(wgpu: &mut Wgpu, block: usize, delta: &GatedDelta<Resident>) {
    let [heads, keys, key_dim, value_dim] =
        [delta.value_heads, delta.key_heads, delta.key_dim, delta.value_dim].map(|count| count as usize);
    let [channels, steps, rates, mixed] =
        [Buffer::Channels, Buffer::Steps, Buffer::Rates, Buffer::Mixed].map(|buffer| wgpu.at(buffer));
    let states = wgpu.kept[block].recurrent.at;
    let words = Words::of([channels, steps, rates, mixed, states, delta.decay.at, delta.step_bias.at, heads, keys]);
    let words = words.int(key_dim).int(value_dim).int(usize::from(delta.interleaved)).float(delta.epsilon);
    wgpu.start_on(Kernel::plain(Entry::Delta), Some(block), &[], [heads, wgpu.sequences, 1], words);
}

/// See [`kauri_device::Ops::replace`].
pub(crate) fn replace(wgpu: &mut Wgpu, block: usize, mix: &TimeMix<Resident>) {
    use Buffer::{First, Key, Mixed, Query, Rates, Steps, Value};
    let buffers = [Query, Key, Value, Steps, Rates, First, Mixed].map(|buffer| wgpu.at(buffer));
    let (heads, states) = (mix.heads as usize, wgpu.kept[block].recurrent.at);
    let words = Words::of(buffers).int(states).int(mix.removal.at).int(mix.insertion.at);
    let words = words.int(heads).int(mix.head_dim as usize).int(usize::from(mix.residual.is_some()));
    wgpu.start_on(Kernel::plain(Entry::Replace), Some(block), &[], [heads, wgpu.sequences, 1], words);
}

/// See [`kauri_device::Ops::pass_by`].
pub(crate) fn pass_by(wgpu: &mut Wgpu, mix: &TimeMix<Resident>) {
    let buffers = [Buffer::Query, Buffer::Key, Buffer::Value, Buffer::Mixed].map(|buffer| wgpu.at(buffer));
    let heads = mix.heads as usize;
    let words = Words::of(buffers).int(mix.bonus.at).int(heads).int(mix.head_dim as usize);
    wgpu.start(Kernel::plain(Entry::PassBy), [heads, wgpu.rows(Buffer::Mixed), 1], words);
}
