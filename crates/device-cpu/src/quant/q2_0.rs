//! `Q2_0`: 64 values of two bits and a scale.

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

/// Two bytes of scale, 16 bytes of four values each.
pub struct Q2_0;

impl Unpack for Q2_0 {
    type Form = Raised<32, 15>;
    const COLUMNS: usize = 64;
    const BYTES: usize = 18;
    const OFFSET: i32 = 1;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 18 bytes, every write in the unpacked one.
        unsafe {
            let [header, ..] = V::columns16(base, offsets);
            let scale = V::half_to_float::<0>(header);
            for (four, mut codes) in V::columns16(base.add(2), offsets).into_iter().enumerate() {
                for index in 0..4 {
                    // Four codes in the lowest byte go to four bytes.
                    let byte = V::and(codes, V::word(0xff));
                    let pairs = V::and(V::or(byte, V::shift_left::<12>(byte)), V::word(0x000f_000f));
                    let values = V::and(V::or(pairs, V::shift_left::<6>(pairs)), V::byte(3));
                    out.columns(4 * four + index, values);
                    codes = V::shift_right::<8>(codes);
                }
            }
            out.scale(0, scale);
            out.scale(1, scale);
        }
    }
}
