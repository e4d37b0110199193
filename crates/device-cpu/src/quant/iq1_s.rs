//! `IQ1_S`: eight groups of 32 values, four points of a ternary 2048-point book each, a shift and a scale of three
//! bits.

use kauri_formats::quant::grids::iq1::POINTS;

use crate::panel::{Raised, Sink, Unpack};
use crate::vector::Vector;

use super::points;

/// The coordinates of points.
const LEVELS: [i8; 3] = [-1, 0, 1];
static BOOK: [u32; 2048] = points::eights(&POINTS, &LEVELS);
/// Coordinates in eighths, one eighth more, or where the fourth bit is set one less, plus the offset.
const SHIFTED: [u8; 16] = [2, 10, 18, 0, 0, 0, 0, 0, 0, 8, 16, 0, 0, 0, 0, 0];

/// The scale of scales; 32 bytes of low bits of point numbers; two bytes for each group of high bits, scale and shift.
pub struct Iq1S;

impl Unpack for Iq1S {
    type Form = Raised<32, 31>;
    const COLUMNS: usize = 256;
    const BYTES: usize = 50;
    const OFFSET: i32 = 9;

    #[inline(always)]
    unsafe fn unpack<V: Vector>(base: *const u8, offsets: &[isize; 16], out: &mut impl Sink<V>) {
        // SAFETY: every read lies in the block of 50 bytes, every write in the unpacked one; point numbers have eleven
        // bits.
        unsafe {
            // The bytes count eighths.
            let eighth = V::mul(V::half_to_float::<0>(V::gather(base, offsets)), V::float(0.125));
            let (byte, three) = (V::word(0xff), V::word(0x700));
            let highs = V::columns16(base.add(34), offsets);
            for half in 0..2 {
                let lows = V::columns16(base.add(2 + 16 * half), offsets);
                for part in 0..4 {
                    let group = 4 * half + part;
                    let high = if part % 2 == 0 { highs[group / 2] } else { V::shift_right::<16>(highs[group / 2]) };
                    let stored = V::byte_to_float::<0>(V::and(V::shift_right::<12>(high), V::word(7)));
                    out.scale(group, V::mul(eighth, V::mul_add(stored, V::float(2.0), V::float(1.0))));
                    let shift = everywhere::<V>(V::and(V::shift_right::<12>(high), V::word(8)));
                    let (mut low, mut top) = (lows[part], V::shift_left::<8>(high));
                    for point in 0..4 {
                        let number = V::or(V::and(low, byte), V::and(top, three));
                        eight_columns::<V>(number, shift, out, 8 * group + 2 * point);
                        low = V::shift_right::<8>(low);
                        top = V::shift_right::<3>(top);
                    }
                }
            }
        }
    }
}

/// Writes columns `4 * index` to `4 * index + 7` of `IQ1_S` or `IQ1_M`: a point, with the shift that [`everywhere`]
/// made.
///
/// # Safety
/// `numbers` are under 2048; the columns are in the block; the CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn eight_columns<V: Vector>(
    numbers: V::Bytes,
    shift: V::Bytes,
    out: &mut impl Sink<V>,
    index: usize,
) {
    // SAFETY: the caller's contract covers the gather and the two writes.
    unsafe {
        let low = V::byte(0x0f);
        let points = V::or(V::entries(&BOOK, numbers), shift);
        out.columns(index, V::lookup(&SHIFTED, V::and(points, low)));
        out.columns(index + 1, V::lookup(&SHIFTED, V::and(V::shift_right::<4>(points), low)));
    }
}

/// Copies bit 3 of each row's word, the only one that may be set, to the top of every half byte.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn everywhere<V: Vector>(bit: V::Bytes) -> V::Bytes {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let byte = V::or(bit, V::shift_left::<4>(bit));
        let two = V::or(byte, V::shift_left::<8>(byte));
        V::or(two, V::shift_left::<16>(two))
    }
}
