//! AVX2 with FMA and F16C: eight rows side by side; with the byte products of AVX-512 where the CPU has them (AVX-VNNI).

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "each method is a few instructions under the contract that the trait states once"
)]

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_NLT_UQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_add_ps,
    _mm_add_ss, _mm_cvtsi32_si128, _mm_cvtss_f32, _mm_insert_epi32, _mm_loadu_si128, _mm_max_ps, _mm_max_ss,
    _mm_movehl_ps, _mm_packs_epi32, _mm_packus_epi16, _mm_packus_epi32, _mm_prefetch, _mm_shuffle_ps, _mm_storel_epi64,
    _mm_storeu_si128, _mm256_abs_epi8, _mm256_add_epi16, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps,
    _mm256_and_si256, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_broadcastsi128_si256, _mm256_castps_si256,
    _mm256_castps256_ps128, _mm256_castsi128_si256, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmp_ps,
    _mm256_cmpeq_epi8, _mm256_cmpgt_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps,
    _mm256_cvtps_epi32, _mm256_cvtps_ph, _mm256_div_ps, _mm256_dpbusd_avx_epi32, _mm256_extractf128_ps,
    _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_fnmadd_ps, _mm256_i32gather_epi32, _mm256_inserti128_si256,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_epi32, _mm256_max_ps,
    _mm256_min_ps, _mm256_mul_ps, _mm256_or_si256, _mm256_packs_epi16, _mm256_packs_epi32, _mm256_permute2x128_si256,
    _mm256_permutevar8x32_epi32, _mm256_round_ps, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_shuffle_ps, _mm256_sign_epi8,
    _mm256_sll_epi32, _mm256_slli_epi32, _mm256_srai_epi32, _mm256_srl_epi32, _mm256_srli_epi32, _mm256_srlv_epi32,
    _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi32, _mm256_unpacklo_epi64, _mm256_xor_si256,
};

use half::{bf16, f16};

use crate::detect::compile;
use crate::vector::{Blocks, Vector};

/// AVX2, FMA and F16C; also AVX-VNNI if `VNNI`.
#[derive(Clone, Copy)]
pub struct Avx2<const VNNI: bool>;

// SAFETY: the methods use instructions of AVX2, FMA and F16C, and of AVX-VNNI where the type says so; memory is touched as
// the trait says: `LANES` elements at the given pointers.
unsafe impl<const VNNI: bool> Vector for Avx2<VNNI> {
    const LANES: usize = 8;
    // Products of three instructions keep the units busy with six sums; those of one wait for each other with fewer than eight.
    const STRIPS: usize = if VNNI { 2 } else { 1 };
    // A product of two instructions leaves registers for twelve sums: two vectors of rows share what is read of each token.
    const STRIPS_IN_HALVES: usize = 2;
    const TOKENS: usize = if VNNI { 4 } else { 6 };
    const REGISTERS: usize = 16;
    const EIGHT: bool = !VNNI;
    const SIGNED: bool = !VNNI;
    const HALVES: bool = !VNNI;
    // Of one stream, in the order of memory, an AMD CPU of family 25 brings a fifth more than of four. With VNNI as with AVX-512.
    const STREAMS: usize = if VNNI { 4 } else { 1 };
    // Of rows one after the other that CPU's memory gives more, too, and the words of eight rows need not be brought side by side
    // (docs/log.md, "AVX2 row by row"). With VNNI it was not tried.
    const BLOCKS_BY_ROW: Blocks = if VNNI { Blocks::None } else { Blocks::All };
    type Float = __m256;
    type Int = __m256i;
    type Bytes = __m256i;

    #[inline(always)]
    unsafe fn float(value: f32) -> __m256 {
        _mm256_set1_ps(value)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m256 {
        _mm256_loadu_ps(from)
    }

    #[inline(always)]
    unsafe fn store(value: __m256, to: *mut f32) {
        _mm256_storeu_ps(to, value);
    }

    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        _mm256_mul_ps(a, b)
    }

    #[inline(always)]
    unsafe fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, c)
    }

    #[inline(always)]
    unsafe fn sub_mul(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fnmadd_ps(a, b, c)
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }

    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        _mm256_sub_ps(a, b)
    }

    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        _mm256_div_ps(a, b)
    }

    #[inline(always)]
    unsafe fn magnitude(a: __m256) -> __m256 {
        _mm256_andnot_ps(_mm256_set1_ps(-0.0), a)
    }

    #[inline(always)]
    unsafe fn larger_magnitude(a: __m256, b: __m256) -> __m256 {
        _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)))
    }

    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        _mm256_max_ps(a, b)
    }

    #[inline(always)]
    unsafe fn min(a: __m256, b: __m256) -> __m256 {
        _mm256_min_ps(a, b)
    }

    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256 {
        _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }

    #[inline(always)]
    unsafe fn times_power_of_two(a: __m256, n: __m256) -> __m256 {
        let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
    }

    #[inline(always)]
    unsafe fn narrow([a, b, c, d]: [__m256; 4]) -> __m256i {
        let first = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
        let last = _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d));
        // Four of each in either half.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, last), order)
    }

    #[inline(always)]
    unsafe fn store_unsigned(value: __m256, to: *mut u8) {
        let words = _mm256_cvtps_epi32(value);
        let halves = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
        _mm_storel_epi64(to.cast(), _mm_packus_epi16(halves, halves));
    }

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> __m256 {
        _mm256_cvtph_ps(_mm_loadu_si128(from.cast()))
    }

    #[inline(always)]
    unsafe fn store_half(value: __m256, to: *mut f16) {
        _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value));
    }

    #[inline(always)]
    unsafe fn load_brain(from: *const bf16) -> __m256 {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))))
    }

    #[inline(always)]
    unsafe fn only(a: __m256, first: i32, last: i32, other: __m256) -> __m256 {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let outside = _mm256_or_si256(
            _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lanes),
            _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(last)),
        );
        _mm256_blendv_ps(a, other, _mm256_castsi256_ps(outside))
    }

    #[inline(always)]
    unsafe fn zero_under(a: __m256, x: __m256, limit: f32) -> __m256 {
        _mm256_and_ps(a, _mm256_cmp_ps::<_CMP_NLT_UQ>(x, _mm256_set1_ps(limit)))
    }

    #[inline(always)]
    unsafe fn sum(a: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }

    #[inline(always)]
    unsafe fn most(a: __m256) -> f32 {
        let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }

    #[inline(always)]
    unsafe fn int(value: i32) -> __m256i {
        _mm256_set1_epi32(value)
    }

    #[inline(always)]
    unsafe fn add_ints(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn to_float(value: __m256i) -> __m256 {
        _mm256_cvtepi32_ps(value)
    }

    #[inline(always)]
    unsafe fn to_int(value: __m256) -> __m256i {
        _mm256_cvtps_epi32(value)
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> __m256i {
        _mm256_loadu_si256(from.cast())
    }

    #[inline(always)]
    unsafe fn store_bytes(value: __m256i, to: *mut u8) {
        _mm256_storeu_si256(to.cast(), value);
    }

    #[inline(always)]
    unsafe fn byte(value: u8) -> __m256i {
        _mm256_set1_epi8(value as i8)
    }

    #[inline(always)]
    unsafe fn word(value: u32) -> __m256i {
        _mm256_set1_epi32(value as i32)
    }

    #[inline(always)]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        _mm256_and_si256(a, b)
    }

    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        _mm256_or_si256(a, b)
    }

    #[inline(always)]
    unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
        _mm256_xor_si256(a, b)
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: u32>(a: __m256i) -> __m256i {
        // Compiles to the instruction with a constant count, which wants its constant of another type.
        _mm256_srl_epi32(a, _mm_cvtsi32_si128(BITS as i32))
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: u32>(a: __m256i) -> __m256i {
        _mm256_sll_epi32(a, _mm_cvtsi32_si128(BITS as i32))
    }

    #[inline(always)]
    unsafe fn add_words(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn spread(a: __m256i, value: u8) -> __m256i {
        // The lowest byte of each word four times, each tested for its own bit.
        let copies =
            _mm256_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c, 0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c);
        let bits = _mm256_set1_epi32(0x0804_0201);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(a, copies), bits), bits);
        _mm256_and_si256(set, _mm256_set1_epi8(value as i8))
    }

    #[inline(always)]
    unsafe fn lookup(table: &[u8; 16], indices: __m256i) -> __m256i {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
        _mm256_shuffle_epi8(table, indices)
    }

    #[inline(always)]
    unsafe fn entries(table: &[u32], numbers: __m256i) -> __m256i {
        _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), numbers)
    }

    #[inline(always)]
    unsafe fn float_from_bits(a: __m256i) -> __m256 {
        _mm256_castsi256_ps(a)
    }

    #[inline(always)]
    unsafe fn byte_to_float<const INDEX: u32>(a: __m256i) -> __m256 {
        let byte = match INDEX {
            0 => a,
            1 => _mm256_srli_epi32::<8>(a),
            2 => _mm256_srli_epi32::<16>(a),
            _ => return _mm256_cvtepi32_ps(_mm256_srli_epi32::<24>(a)),
        };
        _mm256_cvtepi32_ps(_mm256_and_si256(byte, _mm256_set1_epi32(0xff)))
    }

    #[inline(always)]
    unsafe fn signed_byte_to_float<const INDEX: u32>(a: __m256i) -> __m256 {
        let high = match INDEX {
            0 => _mm256_slli_epi32::<24>(a),
            1 => _mm256_slli_epi32::<16>(a),
            2 => _mm256_slli_epi32::<8>(a),
            _ => a,
        };
        _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(high))
    }

    #[inline(always)]
    unsafe fn half_to_float<const INDEX: u32>(a: __m256i) -> __m256 {
        let half = if INDEX == 0 { _mm256_and_si256(a, _mm256_set1_epi32(0xffff)) } else { _mm256_srli_epi32::<16>(a) };
        _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half)))
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        _mm_prefetch::<_MM_HINT_T0>(from);
    }

    #[inline(always)]
    unsafe fn gather(base: *const u8, offsets: &[isize; 16]) -> __m256i {
        // Not the instruction of this name: on many CPUs without AVX-512 it takes longer.
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(base, offsets, 0)), four(base, offsets, 4))
    }

    #[inline(always)]
    unsafe fn columns16(base: *const u8, offsets: &[isize; 16]) -> [__m256i; 4] {
        // Rows r and r + 4 in the two halves; then 4 x 4 words are transposed inside each half.
        let (a, b) = (halves(base, offsets, 0), halves(base, offsets, 1));
        let (c, d) = (halves(base, offsets, 2), halves(base, offsets, 3));
        turned_in_halves([a, b, c, d])
    }

    #[inline(always)]
    unsafe fn load_runs(from: *const u8, _: usize) -> __m256i {
        _mm256_loadu_si256(from.cast())
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u8) -> __m256i {
        let both = _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast()));
        let halves = _mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
        _mm256_and_si256(halves, _mm256_set1_epi8(0x0f))
    }

    #[inline(always)]
    unsafe fn group_sums<const GROUP: usize, const HALVES: bool>(products: [__m256i; 8]) -> [__m256i; 2] {
        // Two vectors at once, their halves of 128 bits by themselves: four columns of a vector to a lane, then eight.
        let mut twos = [_mm256_setzero_si256(); 4];
        for (two, sum) in twos.iter_mut().enumerate() {
            let (a, b) = (products[2 * two], products[2 * two + 1]);
            let (low, high) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            *sum = if HALVES { in_pairs(_mm256_add_epi16(low, high)) } else { _mm256_add_epi32(low, high) };
        }
        // Then sixteen: each half has a lane of each of four vectors.
        let (first, second) = (sums_of_twos(twos[0], twos[1]), sums_of_twos(twos[2], twos[3]));
        if GROUP == 16 {
            return [first, second];
        }
        let low = _mm256_permute2x128_si256::<0x20>(first, second);
        let high = _mm256_permute2x128_si256::<0x31>(first, second);
        [_mm256_add_epi32(low, high), _mm256_setzero_si256()]
    }

    #[inline(always)]
    unsafe fn turned<const GROUP: usize>(rows: *const __m256i) -> [__m256i; 16] {
        let zero = _mm256_setzero_si256();
        // Inside halves: four rows and four columns.
        let mut fours = [zero; 8];
        for (index, fours) in fours.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let row = rows.add(4 * index);
            let (a, b) = (_mm256_loadu_si256(row), _mm256_loadu_si256(row.add(1)));
            let (c, d) = (_mm256_loadu_si256(row.add(2)), _mm256_loadu_si256(row.add(3)));
            *fours = turned_in_halves([a, b, c, d]);
        }
        // The halves are the first four groups and the last; of groups of sixteen columns, those of even numbers and those of odd ones.
        let mut turned = [zero; 16];
        for k in 0..4 {
            let (even, odd) = if GROUP == 16 { (2 * k, 2 * k + 1) } else { (k, k + 4) };
            turned[even] = _mm256_permute2x128_si256::<0x20>(fours[k], fours[k + 4]);
            turned[odd] = _mm256_permute2x128_si256::<0x31>(fours[k], fours[k + 4]);
        }
        turned
    }

    #[inline(always)]
    unsafe fn settled(sum: __m256i) -> __m256i {
        if VNNI { sum } else { settled(sum) }
    }

    #[inline(always)]
    unsafe fn dot(sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        if VNNI {
            return _mm256_dpbusd_avx_epi32(sum, weights, x);
        }
        // Sums of two products fit sixteen bits if the weights have seven: the eighth goes by itself.
        let low = _mm256_and_si256(weights, _mm256_set1_epi8(0x7f));
        let high = _mm256_and_si256(weights, _mm256_set1_epi8(-0x80));
        let sum = _mm256_add_epi32(sum, in_pairs(_mm256_maddubs_epi16(low, x)));
        _mm256_add_epi32(sum, in_pairs(_mm256_maddubs_epi16(high, x)))
    }

    #[inline(always)]
    unsafe fn dot_low(sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        if VNNI {
            return Self::dot(sum, weights, x);
        }
        _mm256_add_epi32(sum, in_pairs(_mm256_maddubs_epi16(weights, x)))
    }

    #[inline(always)]
    unsafe fn dot_signed(sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // The sign moves to the other side; what is left is at most 128, so that sums of two products fit sixteen bits.
        let x = _mm256_sign_epi8(x, weights);
        _mm256_add_epi32(sum, in_pairs(_mm256_maddubs_epi16(_mm256_abs_epi8(weights), x)))
    }

    #[inline(always)]
    unsafe fn dot_halves(sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        if VNNI {
            return Self::dot(sum, weights, x);
        }
        _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, x))
    }

    #[inline(always)]
    unsafe fn halves_added(sum: __m256i) -> __m256i {
        if VNNI { sum } else { in_pairs(sum) }
    }
}

/// The two halves of each word, added.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn in_pairs(halves: __m256i) -> __m256i {
    _mm256_madd_epi16(halves, _mm256_set1_epi16(1))
}

/// Of two vectors whose halves of 128 bits are two lanes for each of two sums: all four sums of each half.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn sums_of_twos(a: __m256i, b: __m256i) -> __m256i {
    let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    let (even, odd) = (_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b));
    _mm256_add_epi32(_mm256_castps_si256(even), _mm256_castps_si256(odd))
}

/// Four vectors of words, turned inside each half: the first words of all four, the second ones, and so on.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn turned_in_halves([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Sixteen bytes of the rows `first` and `first + 4`.
///
/// # Safety
/// The CPU has AVX2; each of those rows holds sixteen bytes at its offset.
#[inline(always)]
unsafe fn halves(base: *const u8, offsets: &[isize; 16], first: usize) -> __m256i {
    let low = _mm_loadu_si128(base.offset(offsets[first]).cast());
    let high = _mm_loadu_si128(base.offset(offsets[first + 4]).cast());
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}

/// Four bytes of the rows `first` to `first + 3`.
///
/// # Safety
/// The CPU has SSE 4.1; each of those rows holds four bytes at its offset.
#[inline(always)]
unsafe fn four(base: *const u8, offsets: &[isize; 16], first: usize) -> __m128i {
    let mut words = [0; 4];
    for (word, &offset) in words.iter_mut().zip(&offsets[first..first + 4]) {
        *word = base.offset(offset).cast::<i32>().read_unaligned();
    }
    let rows = _mm_cvtsi32_si128(words[0]);
    let rows = _mm_insert_epi32::<1>(rows, words[1]);
    let rows = _mm_insert_epi32::<2>(rows, words[2]);
    _mm_insert_epi32::<3>(rows, words[3])
}

/// [`Vector::settled`], which needs the instructions to name a register.
#[inline]
#[target_feature(enable = "avx2")]
fn settled(mut sum: __m256i) -> __m256i {
    // SAFETY: no instruction at all; it is not said to leave memory alone, so that no read moves across.
    unsafe { asm!("/* {0} */", inout(ymm_reg) sum, options(nostack, preserves_flags)) };
    sum
}

compile! {
    /// The kernels in [`Avx2`], without AVX-VNNI.
    pub static KERNELS: Avx2<false> where is_x86_feature_detected has "avx2" "fma" "f16c"
}

compile! {
    /// The kernels in [`Avx2`], with AVX-VNNI.
    pub static VNNI_KERNELS: Avx2<true> where is_x86_feature_detected has "avx2" "fma" "f16c" "avxvnni"
}
