//! `Q4_0`: 32 values of four bits and a scale.

use crate::panel::eight::{self, Codes};
use crate::panel::{ByRows, Raised, Sink, Unpack};
use crate::vector::Vector;

use super::halves;

/// Two bytes of scale; 16 bytes whose low halves are the first 16 values, the high halves the rest.
pub struct Q4_0;

impl Unpack for Q4_0 {
    type Form = Raised<32, 15>;
    const COLUMNS: usize = 32;
    const BYTES: usize = 18;
    const OFFSET: i32 = 8;
    const BY_ROWS: Option<ByRows> = Some(ByRows::Codes);
    eight::by_eight!();

    #[inline(always)]
    unsafe fn row<V: Vector>(stored: *const u8, index: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load_halves(stored.add(index * Self::BYTES + 2)) }
    }

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 18 bytes, every write in the unpacked one.
        unsafe {
            let [header, ..] = V::columns16(base, offsets);
            out.scale(0, V::half_to_float::<0>(header));
            for (index, codes) in halves::columns32::<V>(base.add(2), offsets).into_iter().enumerate() {
                out.columns(index, codes);
            }
        }
    }
}

impl Codes for Q4_0 {
    const PARTS: usize = 2;

    #[inline(always)]
    unsafe fn part<V: Vector>(codes: V::Bytes, part: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe { halves::part::<V>(codes, part) }
    }
}
