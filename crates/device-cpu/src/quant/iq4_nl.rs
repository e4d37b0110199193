//! `IQ4_NL`: 32 codes of four bits that name one of sixteen levels, and a scale.

use kauri_formats::quant::IQ4_LEVELS;

use crate::panel::eight::{self, Codes};
use crate::panel::{Sink, Unpack, Wide};
use crate::vector::Vector;

use super::halves;

/// The levels as unsigned bytes.
pub(super) const LEVELS: [u8; 16] = halves::raised(IQ4_LEVELS, Iq4Nl::OFFSET);

/// Two bytes of scale; 16 bytes whose low halves are the first 16 codes, the high halves the rest.
pub struct Iq4Nl;

impl Unpack for Iq4Nl {
    type Form = Wide<32>;
    const COLUMNS: usize = 32;
    const BYTES: usize = 18;
    // The levels run from -127 to 113.
    const OFFSET: i32 = 128;
    eight::by_eight!();

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 18 bytes, every write in the unpacked one.
        unsafe {
            let [header, ..] = V::columns16(base, offsets);
            out.scale(0, V::half_to_float::<0>(header));
            for (index, codes) in halves::columns32::<V>(base.add(2), offsets).into_iter().enumerate() {
                out.columns(index, V::lookup(&LEVELS, codes));
            }
        }
    }
}

impl Codes for Iq4Nl {
    const PARTS: usize = 2;

    #[inline(always)]
    unsafe fn part<V: Vector>(codes: V::Bytes, part: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe { V::lookup(&LEVELS, halves::part::<V>(codes, part)) }
    }
}
