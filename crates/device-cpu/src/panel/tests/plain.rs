//! Vectors that are arrays: what each method of [`Vector`] means, on any machine, with reads that are checked.

use std::array::from_fn;
use std::cell::Cell;
use std::marker::PhantomData;

use half::{bf16, f16};

use crate::vector::Vector;

thread_local! {
    /// The blocks that rows may be read from: first address, distance from one to the next, bytes of one.
    static READABLE: Cell<(usize, usize, usize)> = const { Cell::new((0, 1, 0)) };
}

/// While it lives, [`Plain`] reads rows from the given blocks and nowhere else.
pub struct Readable(PhantomData<*const ()>);

impl Readable {
    /// Blocks of `bytes` bytes, one every `stride` bytes from `base` on.
    pub fn blocks(base: *const u8, stride: usize, bytes: usize) -> Self {
        READABLE.set((base.addr(), stride, bytes));
        Self(PhantomData)
    }
}

impl Drop for Readable {
    fn drop(&mut self) {
        READABLE.set((0, 1, 0));
    }
}

/// Sixteen lanes of plain Rust.
#[derive(Clone, Copy)]
pub struct Plain;

/// `N` bytes of each row.
///
/// # Safety
/// Each row holds `N` bytes at its offset; the test refuses a block that does not.
unsafe fn rows<const N: usize>(base: *const u8, offsets: &[isize; 16]) -> [[u8; N]; 16] {
    let (first, stride, bytes) = READABLE.get();
    offsets.map(|offset| {
        let from = base.wrapping_offset(offset);
        let inside = from.addr().checked_sub(first).map_or(usize::MAX, |distance| distance % stride);
        assert!(inside.saturating_add(N) <= bytes, "{N} bytes at {inside} of a block of {bytes}");
        // SAFETY: inside one of the readable blocks.
        unsafe { from.cast::<[u8; N]>().read() }
    })
}

fn words(a: [[u8; 4]; 16], f: impl Fn(u32) -> u32) -> [[u8; 4]; 16] {
    a.map(|word| f(u32::from_le_bytes(word)).to_le_bytes())
}

fn pairs(a: [[u8; 4]; 16], b: [[u8; 4]; 16], f: impl Fn(u32, u32) -> u32) -> [[u8; 4]; 16] {
    from_fn(|lane| f(u32::from_le_bytes(a[lane]), u32::from_le_bytes(b[lane])).to_le_bytes())
}

// SAFETY: no method needs more than any CPU has; memory is touched as the trait says.
unsafe impl Vector for Plain {
    const LANES: usize = 16;
    const SIGNED: bool = false;
    const STRIPS: usize = 1;
    const TOKENS: usize = 8;
    const REGISTERS: usize = 16;
    const EIGHT: bool = false;
    const STREAMS: usize = 2;
    type Float = [f32; 16];
    type Int = [i32; 16];
    type Bytes = [[u8; 4]; 16];

    unsafe fn float(value: f32) -> [f32; 16] {
        [value; 16]
    }

    unsafe fn load(from: *const f32) -> [f32; 16] {
        // SAFETY: the trait's contract.
        unsafe { from.cast::<[f32; 16]>().read_unaligned() }
    }

    unsafe fn store(value: [f32; 16], to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(value) };
    }

    unsafe fn mul(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| a[lane] * b[lane])
    }

    unsafe fn mul_add(a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| a[lane].mul_add(b[lane], c[lane]))
    }

    unsafe fn sub_mul(a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| (-a[lane]).mul_add(b[lane], c[lane]))
    }

    unsafe fn add(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| a[lane] + b[lane])
    }

    unsafe fn sub(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| a[lane] - b[lane])
    }

    unsafe fn div(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| a[lane] / b[lane])
    }

    unsafe fn magnitude(a: [f32; 16]) -> [f32; 16] {
        a.map(f32::abs)
    }

    unsafe fn larger_magnitude(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| if a[lane] >= b[lane] || a[lane].is_nan() { a[lane] } else { b[lane] })
    }

    unsafe fn max(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
    }

    unsafe fn min(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| if a[lane] < b[lane] { a[lane] } else { b[lane] })
    }

    unsafe fn round(a: [f32; 16]) -> [f32; 16] {
        a.map(f32::round_ties_even)
    }

    unsafe fn times_power_of_two(a: [f32; 16], n: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| a[lane] * n[lane].exp2())
    }

    unsafe fn prefetch(_from: *const i8) {}

    unsafe fn narrow(values: [[f32; 16]; 4]) -> [[u8; 4]; 16] {
        let value = |at: usize| values[at / 16][at % 16].round_ties_even() as i8 as u8;
        from_fn(|four| from_fn(|byte| value(4 * four + byte)))
    }

    unsafe fn store_unsigned(value: [f32; 16], to: *mut u8) {
        // SAFETY: the trait's contract.
        unsafe { to.cast::<[u8; 16]>().write_unaligned(value.map(|value| value.round_ties_even() as u8)) };
    }

    unsafe fn load_half(from: *const f16) -> [f32; 16] {
        // SAFETY: the trait's contract.
        unsafe { from.cast::<[f16; 16]>().read_unaligned() }.map(f16::to_f32)
    }

    unsafe fn load_brain(from: *const bf16) -> [f32; 16] {
        // SAFETY: the trait's contract.
        unsafe { from.cast::<[bf16; 16]>().read_unaligned() }.map(bf16::to_f32)
    }

    unsafe fn only(a: [f32; 16], first: i32, last: i32, other: [f32; 16]) -> [f32; 16] {
        from_fn(|lane| if (first..=last).contains(&(lane as i32)) { a[lane] } else { other[lane] })
    }

    unsafe fn zero_under(a: [f32; 16], x: [f32; 16], limit: f32) -> [f32; 16] {
        from_fn(|lane| if x[lane] < limit { 0.0 } else { a[lane] })
    }

    unsafe fn sum(a: [f32; 16]) -> f32 {
        a.iter().sum()
    }

    unsafe fn most(a: [f32; 16]) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }

    unsafe fn int(value: i32) -> [i32; 16] {
        [value; 16]
    }

    unsafe fn add_ints(a: [i32; 16], b: [i32; 16]) -> [i32; 16] {
        from_fn(|lane| a[lane].wrapping_add(b[lane]))
    }

    unsafe fn to_float(value: [i32; 16]) -> [f32; 16] {
        value.map(|value| value as f32)
    }

    unsafe fn to_int(value: [f32; 16]) -> [i32; 16] {
        value.map(|value| value as i32)
    }

    unsafe fn load_bytes(from: *const u8) -> [[u8; 4]; 16] {
        // SAFETY: the trait's contract.
        unsafe { from.cast::<[[u8; 4]; 16]>().read() }
    }

    unsafe fn store_bytes(value: [[u8; 4]; 16], to: *mut u8) {
        // SAFETY: the trait's contract.
        unsafe { to.cast::<[[u8; 4]; 16]>().write(value) };
    }

    unsafe fn byte(value: u8) -> [[u8; 4]; 16] {
        [[value; 4]; 16]
    }

    unsafe fn word(value: u32) -> [[u8; 4]; 16] {
        [value.to_le_bytes(); 16]
    }

    unsafe fn and(a: [[u8; 4]; 16], b: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        pairs(a, b, |a, b| a & b)
    }

    unsafe fn or(a: [[u8; 4]; 16], b: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        pairs(a, b, |a, b| a | b)
    }

    unsafe fn xor(a: [[u8; 4]; 16], b: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        pairs(a, b, |a, b| a ^ b)
    }

    unsafe fn shift_right<const BITS: u32>(a: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        words(a, |word| word >> BITS)
    }

    unsafe fn shift_left<const BITS: u32>(a: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        words(a, |word| word << BITS)
    }

    unsafe fn add_words(a: [[u8; 4]; 16], b: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        pairs(a, b, u32::wrapping_add)
    }

    unsafe fn spread(a: [[u8; 4]; 16], value: u8) -> [[u8; 4]; 16] {
        a.map(|word| from_fn(|bit| value * (word[0] >> bit & 1)))
    }

    unsafe fn lookup(table: &[u8; 16], indices: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        indices.map(|word| word.map(|index| table[index as usize]))
    }

    unsafe fn entries(table: &[u32], numbers: [[u8; 4]; 16]) -> [[u8; 4]; 16] {
        words(numbers, |number| table[number as usize])
    }

    unsafe fn float_from_bits(a: [[u8; 4]; 16]) -> [f32; 16] {
        a.map(f32::from_le_bytes)
    }

    unsafe fn byte_to_float<const INDEX: u32>(a: [[u8; 4]; 16]) -> [f32; 16] {
        a.map(|word| f32::from(word[INDEX as usize]))
    }

    unsafe fn signed_byte_to_float<const INDEX: u32>(a: [[u8; 4]; 16]) -> [f32; 16] {
        a.map(|word| f32::from(word[INDEX as usize] as i8))
    }

    unsafe fn half_to_float<const INDEX: u32>(a: [[u8; 4]; 16]) -> [f32; 16] {
        a.map(|word| f16::from_le_bytes(word.as_chunks().0[INDEX as usize]).to_f32())
    }

    unsafe fn gather(base: *const u8, offsets: &[isize; 16]) -> [[u8; 4]; 16] {
        // SAFETY: the trait's contract.
        unsafe { rows(base, offsets) }
    }

    unsafe fn columns16(base: *const u8, offsets: &[isize; 16]) -> [[[u8; 4]; 16]; 4] {
        // SAFETY: the trait's contract.
        let rows: [[u8; 16]; 16] = unsafe { rows(base, offsets) };
        from_fn(|four| from_fn(|lane| rows[lane].as_chunks().0[four]))
    }

    unsafe fn dot(sum: [i32; 16], weights: [[u8; 4]; 16], x: [[u8; 4]; 16]) -> [i32; 16] {
        let product = |lane: usize, byte: usize| i32::from(weights[lane][byte]) * i32::from(x[lane][byte] as i8);
        from_fn(|lane| sum[lane] + (0..4).map(|byte| product(lane, byte)).sum::<i32>())
    }

    unsafe fn dot_low(sum: [i32; 16], weights: [[u8; 4]; 16], x: [[u8; 4]; 16]) -> [i32; 16] {
        assert!(weights.as_flattened().iter().all(|&weight| weight < 128), "a byte over 127");
        // SAFETY: the trait's contract.
        unsafe { Self::dot(sum, weights, x) }
    }

    unsafe fn dot_signed(sum: [i32; 16], weights: [[u8; 4]; 16], x: [[u8; 4]; 16]) -> [i32; 16] {
        let product = |lane: usize, byte: usize| i32::from(weights[lane][byte] as i8) * i32::from(x[lane][byte] as i8);
        from_fn(|lane| sum[lane] + (0..4).map(|byte| product(lane, byte)).sum::<i32>())
    }
}
