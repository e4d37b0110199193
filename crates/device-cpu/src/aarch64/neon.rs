//! NEON with byte products (dotprod), and with products of small matrices (i8mm) and of pairs (bf16): four rows side by side.
//!
//! The products are inline assembly: stable Rust has the features but not yet their intrinsics.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "each method is a few instructions under the contract that the trait states once"
)]

use std::arch::aarch64::{
    float32x4_t, int32x4_t, uint8x16_t, uint16x4_t, uint32x4_t, vabsq_f32, vaddq_f32, vaddq_s32, vaddq_u32, vaddvq_f32,
    vandq_u8, vandq_u32, vbicq_u32, vbslq_f32, vcgeq_s32, vcgtq_f32, vcleq_s32, vcltq_f32, vcombine_s8, vcombine_s16,
    vcombine_u8, vcombine_u16, vcvt_f32_f16, vcvtnq_s32_f32, vcvtq_f32_s32, vcvtq_f32_u32, vdivq_f32, vdupq_n_f32,
    vdupq_n_s32, vdupq_n_u8, vdupq_n_u32, veorq_u8, vfmaq_f32, vfmsq_f32, vget_lane_u32, vld1_u8, vld1q_s32, vld1q_u8,
    vld1q_u32, vmaxq_u32, vmaxvq_f32, vmovn_u32, vmulq_f32, vorrq_u8, vqmovn_s16, vqmovn_s32, vqmovn_u16, vqmovun_s32,
    vqtbl1q_u8, vreinterpret_f16_u16, vreinterpret_u32_u8, vreinterpretq_f32_s32, vreinterpretq_f32_u8,
    vreinterpretq_f32_u32, vreinterpretq_s32_u32, vreinterpretq_u8_s8, vreinterpretq_u8_u32, vreinterpretq_u8_u64,
    vreinterpretq_u32_f32, vreinterpretq_u32_u8, vreinterpretq_u64_u32, vrndnq_f32, vshll_n_u16, vshlq_n_s32,
    vshlq_n_u32, vshlq_u32, vshrn_n_u32, vshrq_n_s32, vshrq_n_u32, vsubq_f32, vsubq_s32, vtrn1q_u32, vtrn1q_u64,
    vtrn2q_u32, vtrn2q_u64, vtstq_u8, vuzp1q_s32, vuzp2q_s32, vzip1q_s32, vzip1q_u32, vzip2q_u32,
};
use std::arch::asm;

use half::{bf16, f16};

use crate::detect::compile;
use crate::vector::Vector;

/// Adds to `sum` what an instruction of an extension makes of two more registers, which the CPU must have.
macro_rules! added {
    ($extension:literal, $instruction:literal, $sum:ident, $a:ident, $b:ident) => {
        asm!(
            concat!(".arch_extension ", $extension),
            $instruction,
            sum = inout(vreg) $sum,
            a = in(vreg) $a,
            b = in(vreg) $b,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
}

/// NEON and dotprod. `MATRICES`: and i8mm and bf16.
#[derive(Clone, Copy)]
pub struct Neon<const MATRICES: bool>;

// SAFETY: the methods use instructions of NEON and dotprod only, and of i8mm and bf16 where `MATRICES` says so, which the type stands for;
// memory is touched as the trait says: `LANES` elements at the given pointers.
unsafe impl<const MATRICES: bool> Vector for Neon<MATRICES> {
    const LANES: usize = 4;
    const STRIPS: usize = 2;
    const TOKENS: usize = 6;
    const REGISTERS: usize = 32;
    const EIGHT: bool = false;
    const SIGNED: bool = true;
    const STREAMS: usize = 4;
    const PAIRS: bool = MATRICES;
    const MATRICES: bool = MATRICES;
    type Float = float32x4_t;
    type Int = int32x4_t;
    type Bytes = uint8x16_t;

    #[inline(always)]
    unsafe fn float(value: f32) -> float32x4_t {
        vdupq_n_f32(value)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> float32x4_t {
        from.cast::<float32x4_t>().read_unaligned()
    }

    #[inline(always)]
    unsafe fn store(value: float32x4_t, to: *mut f32) {
        to.cast::<float32x4_t>().write_unaligned(value);
    }

    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vmulq_f32(a, b)
    }

    #[inline(always)]
    unsafe fn mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        vfmaq_f32(c, a, b)
    }

    #[inline(always)]
    unsafe fn sub_mul(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        vfmsq_f32(c, a, b)
    }

    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vaddq_f32(a, b)
    }

    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vsubq_f32(a, b)
    }

    #[inline(always)]
    unsafe fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vdivq_f32(a, b)
    }

    #[inline(always)]
    unsafe fn magnitude(a: float32x4_t) -> float32x4_t {
        vabsq_f32(a)
    }

    #[inline(always)]
    unsafe fn larger_magnitude(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)))
    }

    #[inline(always)]
    unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vbslq_f32(vcgtq_f32(a, b), a, b)
    }

    #[inline(always)]
    unsafe fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vbslq_f32(vcltq_f32(a, b), a, b)
    }

    #[inline(always)]
    unsafe fn round(a: float32x4_t) -> float32x4_t {
        vrndnq_f32(a)
    }

    #[inline(always)]
    unsafe fn times_power_of_two(a: float32x4_t, n: float32x4_t) -> float32x4_t {
        let exponent = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
        vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent)))
    }

    #[inline(always)]
    unsafe fn narrow([a, b, c, d]: [float32x4_t; 4]) -> uint8x16_t {
        let first = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(a)), vqmovn_s32(vcvtnq_s32_f32(b)));
        let last = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(c)), vqmovn_s32(vcvtnq_s32_f32(d)));
        vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(first), vqmovn_s16(last)))
    }

    #[inline(always)]
    unsafe fn store_unsigned(value: float32x4_t, to: *mut u8) {
        let halves = vqmovun_s32(vcvtnq_s32_f32(value));
        let bytes = vqmovn_u16(vcombine_u16(halves, halves));
        to.cast::<u32>().write_unaligned(vget_lane_u32::<0>(vreinterpret_u32_u8(bytes)));
    }

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> float32x4_t {
        vcvt_f32_f16(vreinterpret_f16_u16(from.cast::<uint16x4_t>().read_unaligned()))
    }

    #[inline(always)]
    unsafe fn load_brain(from: *const bf16) -> float32x4_t {
        vreinterpretq_f32_u32(vshll_n_u16::<16>(from.cast::<uint16x4_t>().read_unaligned()))
    }

    #[inline(always)]
    unsafe fn only(a: float32x4_t, first: i32, last: i32, other: float32x4_t) -> float32x4_t {
        let lanes = vld1q_s32([0, 1, 2, 3].as_ptr());
        let after_first = vreinterpretq_u8_u32(vcgeq_s32(lanes, vdupq_n_s32(first)));
        let before_last = vreinterpretq_u8_u32(vcleq_s32(lanes, vdupq_n_s32(last)));
        vbslq_f32(vreinterpretq_u32_u8(vandq_u8(after_first, before_last)), a, other)
    }

    #[inline(always)]
    unsafe fn zero_under(a: float32x4_t, x: float32x4_t, limit: f32) -> float32x4_t {
        vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), vcltq_f32(x, vdupq_n_f32(limit))))
    }

    #[inline(always)]
    unsafe fn sum(a: float32x4_t) -> f32 {
        vaddvq_f32(a)
    }

    #[inline(always)]
    unsafe fn most(a: float32x4_t) -> f32 {
        vmaxvq_f32(a)
    }

    #[inline(always)]
    unsafe fn int(value: i32) -> int32x4_t {
        vdupq_n_s32(value)
    }

    #[inline(always)]
    unsafe fn add_ints(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vaddq_s32(a, b)
    }

    #[inline(always)]
    unsafe fn to_float(value: int32x4_t) -> float32x4_t {
        vcvtq_f32_s32(value)
    }

    #[inline(always)]
    unsafe fn to_int(value: float32x4_t) -> int32x4_t {
        vcvtnq_s32_f32(value)
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> uint8x16_t {
        vld1q_u8(from)
    }

    #[inline(always)]
    unsafe fn store_bytes(value: uint8x16_t, to: *mut u8) {
        to.cast::<uint8x16_t>().write_unaligned(value);
    }

    #[inline(always)]
    unsafe fn byte(value: u8) -> uint8x16_t {
        vdupq_n_u8(value)
    }

    #[inline(always)]
    unsafe fn word(value: u32) -> uint8x16_t {
        vreinterpretq_u8_u32(vdupq_n_u32(value))
    }

    #[inline(always)]
    unsafe fn and(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        vandq_u8(a, b)
    }

    #[inline(always)]
    unsafe fn or(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        vorrq_u8(a, b)
    }

    #[inline(always)]
    unsafe fn xor(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        veorq_u8(a, b)
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: u32>(a: uint8x16_t) -> uint8x16_t {
        // Compiles to the instruction with a constant count, which wants its constant of another type.
        vreinterpretq_u8_u32(vshlq_u32(words(a), vdupq_n_s32(-(BITS as i32))))
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: u32>(a: uint8x16_t) -> uint8x16_t {
        vreinterpretq_u8_u32(vshlq_u32(words(a), vdupq_n_s32(BITS as i32)))
    }

    #[inline(always)]
    unsafe fn add_words(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        vreinterpretq_u8_u32(vaddq_u32(words(a), words(b)))
    }

    #[inline(always)]
    unsafe fn spread(a: uint8x16_t, value: u8) -> uint8x16_t {
        // The lowest byte of each word four times, each tested for its own bit.
        let copies = vld1q_u8([0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12].as_ptr());
        let bits = Self::word(0x0804_0201);
        vandq_u8(vtstq_u8(vqtbl1q_u8(a, copies), bits), vdupq_n_u8(value))
    }

    #[inline(always)]
    unsafe fn lookup(table: &[u8; 16], indices: uint8x16_t) -> uint8x16_t {
        vqtbl1q_u8(vld1q_u8(table.as_ptr()), indices)
    }

    #[inline(always)]
    unsafe fn entries(table: &[u32], numbers: uint8x16_t) -> uint8x16_t {
        let mut entries = [0u32; 4];
        entries.as_mut_ptr().cast::<uint8x16_t>().write_unaligned(numbers);
        for entry in &mut entries {
            *entry = table.as_ptr().add(*entry as usize).read();
        }
        vreinterpretq_u8_u32(vld1q_u32(entries.as_ptr()))
    }

    #[inline(always)]
    unsafe fn float_from_bits(a: uint8x16_t) -> float32x4_t {
        vreinterpretq_f32_u8(a)
    }

    #[inline(always)]
    unsafe fn byte_to_float<const INDEX: u32>(a: uint8x16_t) -> float32x4_t {
        let byte = match INDEX {
            0 => words(a),
            1 => vshrq_n_u32::<8>(words(a)),
            2 => vshrq_n_u32::<16>(words(a)),
            _ => return vcvtq_f32_u32(vshrq_n_u32::<24>(words(a))),
        };
        vcvtq_f32_u32(vandq_u32(byte, vdupq_n_u32(0xff)))
    }

    #[inline(always)]
    unsafe fn signed_byte_to_float<const INDEX: u32>(a: uint8x16_t) -> float32x4_t {
        let high = match INDEX {
            0 => vshlq_n_u32::<24>(words(a)),
            1 => vshlq_n_u32::<16>(words(a)),
            2 => vshlq_n_u32::<8>(words(a)),
            _ => words(a),
        };
        vcvtq_f32_s32(vshrq_n_s32::<24>(vreinterpretq_s32_u32(high)))
    }

    #[inline(always)]
    unsafe fn half_to_float<const INDEX: u32>(a: uint8x16_t) -> float32x4_t {
        let half = if INDEX == 0 { vmovn_u32(words(a)) } else { vshrn_n_u32::<16>(words(a)) };
        vcvt_f32_f16(vreinterpret_f16_u16(half))
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        asm!("prfm pldl1keep, [{from}]", from = in(reg) from, options(nostack, preserves_flags, readonly));
    }

    #[inline(always)]
    unsafe fn gather(base: *const u8, offsets: &[isize; 16]) -> uint8x16_t {
        let mut rows = [0u32; 4];
        for (row, &offset) in rows.iter_mut().zip(offsets) {
            *row = base.offset(offset).cast::<u32>().read_unaligned();
        }
        vreinterpretq_u8_u32(vld1q_u32(rows.as_ptr()))
    }

    #[inline(always)]
    unsafe fn columns16(base: *const u8, offsets: &[isize; 16]) -> [uint8x16_t; 4] {
        let (a, b) = (sixteen(base, offsets[0]), sixteen(base, offsets[1]));
        let (c, d) = (sixteen(base, offsets[2]), sixteen(base, offsets[3]));
        // Words 0 and 2, and words 1 and 3, of two rows each.
        let (ab_even, ab_odd) = (vtrn1q_u32(a, b), vtrn2q_u32(a, b));
        let (cd_even, cd_odd) = (vtrn1q_u32(c, d), vtrn2q_u32(c, d));
        let [ab_even, ab_odd] = [vreinterpretq_u64_u32(ab_even), vreinterpretq_u64_u32(ab_odd)];
        let [cd_even, cd_odd] = [vreinterpretq_u64_u32(cd_even), vreinterpretq_u64_u32(cd_odd)];
        [
            vreinterpretq_u8_u64(vtrn1q_u64(ab_even, cd_even)),
            vreinterpretq_u8_u64(vtrn1q_u64(ab_odd, cd_odd)),
            vreinterpretq_u8_u64(vtrn2q_u64(ab_even, cd_even)),
            vreinterpretq_u8_u64(vtrn2q_u64(ab_odd, cd_odd)),
        ]
    }

    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, weights: uint8x16_t, x: uint8x16_t) -> int32x4_t {
        // There are products of signed with signed bytes only: 128 is taken off each weight, and its product added again.
        let raised = vdupq_n_u8(0x80);
        let below = sdot(sum, veorq_u8(weights, raised), x);
        vsubq_s32(below, sdot(vdupq_n_s32(0), raised, x))
    }

    #[inline(always)]
    unsafe fn dot_low(sum: int32x4_t, weights: uint8x16_t, x: uint8x16_t) -> int32x4_t {
        sdot(sum, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_signed(sum: int32x4_t, weights: uint8x16_t, x: uint8x16_t) -> int32x4_t {
        sdot(sum, weights, x)
    }

    #[inline(always)]
    unsafe fn eights([first, second]: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
        let (first, second) = (words(first), words(second));
        [vreinterpretq_u8_u32(vzip1q_u32(first, second)), vreinterpretq_u8_u32(vzip2q_u32(first, second))]
    }

    #[inline(always)]
    unsafe fn two_tokens([first, second]: [*const i8; 2]) -> uint8x16_t {
        vcombine_u8(vld1_u8(first.cast()), vld1_u8(second.cast()))
    }

    #[inline(always)]
    unsafe fn dot_matrices(sums: [int32x4_t; 2], weights: [uint8x16_t; 2], x: uint8x16_t) -> [int32x4_t; 2] {
        assert!(MATRICES, "i8mm");
        [smmla(sums[0], weights[0], x), smmla(sums[1], weights[1], x)]
    }

    #[inline(always)]
    unsafe fn matrices(sums: [i32; 2]) -> [int32x4_t; 2] {
        let neighbours = vzip1q_s32(vdupq_n_s32(sums[0]), vdupq_n_s32(sums[1]));
        [neighbours, neighbours]
    }

    #[inline(always)]
    unsafe fn of_tokens([low, high]: [int32x4_t; 2]) -> [int32x4_t; 2] {
        [vuzp1q_s32(low, high), vuzp2q_s32(low, high)]
    }

    #[inline(always)]
    unsafe fn dot_pairs(mut sum: float32x4_t, weights: uint8x16_t, x: uint8x16_t) -> float32x4_t {
        assert!(MATRICES, "bf16");
        added!("bf16", "bfdot {sum:v}.4s, {a:v}.8h, {b:v}.8h", sum, weights, x);
        sum
    }

    #[inline(always)]
    unsafe fn store_brains(value: float32x4_t, to: *mut u16) {
        assert!(MATRICES, "bf16");
        let small = vcltq_f32(vabsq_f32(value), vdupq_n_f32(f32::MIN_POSITIVE));
        let normal = vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(value), small));
        let rounded: uint16x4_t;
        asm!(
            ".arch_extension bf16",
            "bfcvtn {rounded:v}.4h, {normal:v}.4s",
            rounded = lateout(vreg) rounded,
            normal = in(vreg) normal,
            options(pure, nomem, nostack, preserves_flags)
        );
        to.cast::<uint16x4_t>().write_unaligned(rounded);
    }
}

/// Adds the products of two rows' eight signed bytes with those of two columns: both with the first row, then with the second.
///
/// # Safety
/// The CPU has i8mm.
#[inline(always)]
pub unsafe fn smmla(mut sum: int32x4_t, rows: uint8x16_t, columns: uint8x16_t) -> int32x4_t {
    added!("i8mm", "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b", sum, rows, columns);
    sum
}

/// Adds, in each word, the products of its four signed bytes.
///
/// # Safety
/// The CPU has dotprod.
#[inline(always)]
pub unsafe fn sdot(mut sum: int32x4_t, a: uint8x16_t, b: uint8x16_t) -> int32x4_t {
    added!("dotprod", "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b", sum, a, b);
    sum
}

/// Each row's bytes as a word.
///
/// # Safety
/// The CPU has NEON.
#[inline(always)]
unsafe fn words(a: uint8x16_t) -> uint32x4_t {
    vreinterpretq_u32_u8(a)
}

/// Sixteen bytes of a row.
///
/// # Safety
/// The CPU has NEON; the row holds sixteen bytes at its offset.
#[inline(always)]
unsafe fn sixteen(base: *const u8, offset: isize) -> uint32x4_t {
    vreinterpretq_u32_u8(vld1q_u8(base.offset(offset)))
}

compile! {
    /// The kernels in [`Neon`].
    pub static KERNELS: Neon<false> where is_aarch64_feature_detected has "neon" "dotprod"
}

compile! {
    /// The same for CPUs with products of matrices.
    pub static MATRIX_KERNELS: Neon<true> where is_aarch64_feature_detected has "neon" "dotprod" "i8mm" "bf16"
}
