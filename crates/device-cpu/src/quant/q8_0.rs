//! `Q8_0`: 32 signed bytes and a scale.

use crate::panel::eight::{self, Codes};
use crate::panel::{ByRows, Sink, Unpack, Wide};
use crate::vector::Vector;

/// Two bytes of scale, 32 bytes of values.
pub struct Q8_0;

impl Unpack for Q8_0 {
    type Form = Wide<32>;
    const COLUMNS: usize = 32;
    const BYTES: usize = 34;
    const OFFSET: i32 = 128;
    const BY_ROWS: Option<ByRows> = Some(ByRows::Bytes);
    eight::by_eight!();

    #[inline(always)]
    unsafe fn row<V: Vector>(stored: *const u8, index: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe {
            let blocks = const { V::LANES * 4 / Self::COLUMNS };
            let codes = V::load_runs(stored.add(index * blocks * Self::BYTES + 2), Self::BYTES);
            V::xor(codes, V::byte(0x80))
        }
    }

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 34 bytes, every write in the unpacked one.
        unsafe {
            let [header, ..] = V::columns16(base, offsets);
            out.scale(0, V::half_to_float::<0>(header));
            for half in 0..2 {
                for (index, columns) in V::columns16(base.add(2 + 16 * half), offsets).into_iter().enumerate() {
                    out.columns(4 * half + index, V::xor(columns, V::byte(0x80)));
                }
            }
        }
    }
}

impl Codes for Q8_0 {
    const PARTS: usize = 1;

    #[inline(always)]
    unsafe fn part<V: Vector>(codes: V::Bytes, _part: usize) -> V::Bytes {
        // SAFETY: the caller's contract is the same.
        unsafe { V::xor(codes, V::byte(0x80)) }
    }
}
