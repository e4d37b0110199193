//! `IQ4_XS`: eight groups of 32 codes of four bits that name one of sixteen levels, each with a scale of six bits.

use crate::panel::{Sink, Unpack, Wide};
use crate::vector::Vector;

use super::iq4_nl::{Iq4Nl, LEVELS};
use super::{halves, scales};

/// The scale of scales, 6 bytes of scales, 128 bytes of codes: each 16 bytes are a group, low halves first.
pub struct Iq4Xs;

impl Unpack for Iq4Xs {
    type Form = Wide<32>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 136;
    const OFFSET: i32 = Iq4Nl::OFFSET;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 136 bytes, every write in the unpacked one.
        unsafe {
            let [first, low, ..] = V::columns16(base, offsets);
            let scale = V::half_to_float::<0>(first);
            let zero = V::mul(scale, V::float(-32.0));
            let (four, two) = (V::byte(0x0f), V::byte(0x30));
            // The upper half of the first word holds two high bits of each scale: those of groups 2j and 2j + 1 go to
            // byte j.
            let high = V::shift_right::<16>(first);
            let high = V::and(V::or(high, V::shift_left::<8>(high)), V::word(0x00ff_00ff));
            let high = V::and(V::or(high, V::shift_left::<4>(high)), four);
            let even = V::or(V::and(low, four), V::and(V::shift_left::<4>(high), two));
            let odd = V::or(V::and(V::shift_right::<4>(low), four), V::and(V::shift_left::<2>(high), two));
            let (even, odd) = (scales::unsigned::<V>(even), scales::unsigned::<V>(odd));
            for pair in 0..4 {
                out.scale(2 * pair, V::mul_add(scale, even[pair], zero));
                out.scale(2 * pair + 1, V::mul_add(scale, odd[pair], zero));
            }
            for group in 0..8 {
                for (index, codes) in halves::columns32::<V>(base.add(8 + 16 * group), offsets).into_iter().enumerate()
                {
                    out.columns(8 * group + index, V::lookup(&LEVELS, codes));
                }
            }
        }
    }
}
