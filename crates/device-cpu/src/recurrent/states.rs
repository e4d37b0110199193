//! The states of one block in memory: how they lie, and how they are copied.

use kauri_arch::State;
use kauri_device::Plan;
use kauri_device::memory::Run;

use super::{LANES, Row};

/// The states of one block, of all slots. Zeros at first: an instrument may go on behind tokens that were never computed.
pub struct States {
    /// The last inputs of the convolution: (slots, taps - 1, channels), the input of position `p` in row `p % (taps - 1)`; or of the
    /// shift: (slots, hidden).
    pub(super) tails: Vec<f32>,
    /// (slots, heads, strips of lanes, columns).
    pub(super) recurrent: Vec<Row>,
    /// The last inputs of feed-forward networks: (slots, hidden).
    pub(super) shifted: Vec<f32>,
}

impl States {
    /// Sized for `state`, whose recurrence has heads of `head_dim` values.
    pub fn new(plan: &Plan, state: State, head_dim: usize) -> Self {
        let slots = plan.slots as usize;
        let rows = state.recurrent as usize / head_dim.max(1) * head_dim.div_ceil(LANES);
        let zeros = |values: u64| vec![0.0; slots * values as usize];
        let recurrent = vec![Row([0.0; LANES]); slots * rows];
        Self { tails: zeros(state.tail), recurrent, shifted: zeros(state.shifted) }
    }

    /// Copies what one of the `slots` holds to another.
    pub fn copy(&mut self, slots: usize, from: usize, to: usize) {
        fn copy<T: Copy>(values: &mut [T], slots: usize, from: usize, to: usize) {
            let each = values.len() / slots;
            values.copy_within(from * each..(from + 1) * each, to * each);
        }
        // Whatever is added to a state is named here, too.
        let Self { tails, recurrent, shifted } = self;
        copy(tails, slots, from, to);
        copy(recurrent, slots, from, to);
        copy(shifted, slots, from, to);
    }

    /// Walks over what one of the `slots` has in memory.
    pub fn walk(&mut self, slots: usize, slot: usize, run: &mut dyn FnMut(Run<'_>)) {
        fn of<T>(values: &mut [T], slots: usize, slot: usize) -> &mut [T] {
            let each = values.len() / slots;
            &mut values[slot * each..(slot + 1) * each]
        }
        // Whatever is added to a state is named here, too.
        let Self { tails, recurrent, shifted } = self;
        run(Run::Floats(of(tails, slots, slot)));
        of(recurrent, slots, slot).iter_mut().for_each(|row| run(Run::Floats(&mut row.0)));
        run(Run::Floats(of(shifted, slots, slot)));
    }
}
