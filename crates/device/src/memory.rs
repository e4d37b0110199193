//! What a device keeps between steps, as bytes: pages of keys and values and the states of slots, to be put aside and brought back.
//!
//! The bytes are the device's own layout, and the same bits come out as went in. They mean something only to a device of the
//! same [`Memory::arithmetic`] with the same model and plan; whoever keeps them sees to that.

use half::f16;

use crate::executor::DeviceError;

/// Pages and states as bytes.
pub trait Memory {
    /// Bytes of a page over all layers; none where no layer has keys and values.
    fn page_bytes(&self) -> usize;

    /// Bytes of the state of a slot over all layers; none where the model has no state.
    fn state_bytes(&self) -> usize;

    /// Copies a page out, behind what was launched before.
    ///
    /// # Errors
    /// When `to` has not [`Memory::page_bytes`], or the device is lost.
    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError>;

    /// Puts a page in place of what was there, ahead of what is launched next.
    ///
    /// # Errors
    /// When `from` has not [`Memory::page_bytes`], or the device is lost.
    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError>;

    /// Copies the state of a slot out, behind what was launched before.
    ///
    /// # Errors
    /// When `to` has not [`Memory::state_bytes`], or the device is lost.
    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError>;

    /// Puts a state in place of that of a slot, ahead of what is launched next.
    ///
    /// # Errors
    /// When `from` has not [`Memory::state_bytes`], or the device is lost.
    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError>;

    /// What settles the bits of a page beside model and plan, in words: the layout, and the instructions where they round
    /// differently.
    fn arithmetic(&self) -> String;
}

/// Neighbouring values of a page or a state in the memory of a host.
pub enum Run<'a> {
    /// Bytes.
    Bytes(&'a mut [u8]),
    /// Half precision.
    Halves(&'a mut [f16]),
    /// Single precision.
    Floats(&'a mut [f32]),
}

/// A walk over the runs of a page or of a state, always in the same order.
pub type Walk<'a> = &'a mut dyn FnMut(&mut dyn FnMut(Run<'_>));

impl Run<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Halves(values) => size_of_val(*values),
            Self::Floats(values) => size_of_val(*values),
        }
    }

    /// Little-endian.
    fn copy_to(&self, to: &mut [u8]) {
        match self {
            Self::Bytes(values) => to.copy_from_slice(values),
            Self::Halves(values) => {
                to.as_chunks_mut().0.iter_mut().zip(values.iter()).for_each(|(to, value)| *to = value.to_le_bytes());
            }
            Self::Floats(values) => {
                to.as_chunks_mut().0.iter_mut().zip(values.iter()).for_each(|(to, value)| *to = value.to_le_bytes());
            }
        }
    }

    fn copy_from(&mut self, from: &[u8]) {
        match self {
            Self::Bytes(values) => values.copy_from_slice(from),
            Self::Halves(values) => {
                values.iter_mut().zip(from.as_chunks().0).for_each(|(value, from)| *value = f16::from_le_bytes(*from));
            }
            Self::Floats(values) => {
                values.iter_mut().zip(from.as_chunks().0).for_each(|(value, from)| *value = f32::from_le_bytes(*from));
            }
        }
    }
}

/// Bytes of all runs of a walk.
pub fn count(walk: Walk<'_>) -> usize {
    let mut sum = 0;
    walk(&mut |run| sum += run.bytes());
    sum
}

/// Copies the runs of a walk out; `what` they are and how many `bytes` they have is for the error.
///
/// # Errors
/// When `to` has another length.
pub fn copy_out(what: &'static str, bytes: usize, walk: Walk<'_>, to: &mut [u8]) -> Result<(), DeviceError> {
    check(what, bytes, to.len())?;
    let mut rest = to;
    walk(&mut |run| {
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(run.bytes());
        run.copy_to(part);
        rest = behind;
    });
    Ok(())
}

/// Copies bytes into the runs of a walk.
///
/// # Errors
/// When `from` has another length.
pub fn copy_in(what: &'static str, bytes: usize, walk: Walk<'_>, from: &[u8]) -> Result<(), DeviceError> {
    check(what, bytes, from.len())?;
    let mut rest = from;
    walk(&mut |mut run| {
        let (part, behind) = rest.split_at(run.bytes());
        run.copy_from(part);
        rest = behind;
    });
    Ok(())
}

pub(crate) fn check(what: &'static str, expected: usize, found: usize) -> Result<(), DeviceError> {
    if expected == found { Ok(()) } else { Err(DeviceError::Length { what, expected, found }) }
}
