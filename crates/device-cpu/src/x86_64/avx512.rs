//! AVX-512 with VNNI: sixteen rows side by side.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "each method is one instruction under the contract that the trait states once"
)]

use std::arch::asm;
use std::arch::x86_64::{
    __cpuid, __m128i, __m256bh, __m256i, __m512, __m512bh, __m512i, _CMP_NLT_UQ, _MM_FROUND_NO_EXC,
    _MM_FROUND_TO_NEAREST_INT, _MM_HINT_NTA, _MM_HINT_T1, _mm_cvtsi32_si128, _mm_insert_epi32, _mm_loadu_si128,
    _mm_prefetch, _mm_setzero_si128, _mm_storeu_ps, _mm_storeu_si128, _mm256_castsi128_si256, _mm256_inserti128_si256,
    _mm256_loadu_si256, _mm256_storeu_si256, _mm512_abs_ps, _mm512_add_epi16, _mm512_add_epi32, _mm512_add_ps,
    _mm512_and_si512, _mm512_andnot_si512, _mm512_broadcast_i32x4, _mm512_castps_si512, _mm512_castps512_ps128,
    _mm512_castsi128_si512, _mm512_castsi256_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtepi32_epi16,
    _mm512_cvtepi32_ps, _mm512_cvtepi64_epi32, _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh, _mm512_cvtph_ps,
    _mm512_cvtps_epi32, _mm512_cvtps_ph, _mm512_cvtusepi32_epi8, _mm512_div_ps, _mm512_dpbf16_ps, _mm512_dpbusd_epi32,
    _mm512_dpwssd_epi32, _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_i32gather_epi32, _mm512_inserti32x4,
    _mm512_inserti64x4, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_blend_ps, _mm512_maskz_mov_ps,
    _mm512_maskz_set1_epi8, _mm512_max_epi32, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_mullo_epi16,
    _mm512_or_si512, _mm512_packs_epi16, _mm512_packs_epi32, _mm512_permute_ps, _mm512_permutexvar_epi32,
    _mm512_permutexvar_ps, _mm512_reduce_add_ps, _mm512_reduce_max_ps, _mm512_roundscale_ps, _mm512_scalef_ps,
    _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_ps, _mm512_set4_epi32, _mm512_setr_epi32,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_f32x4, _mm512_shuffle_i32x4, _mm512_slli_epi32,
    _mm512_srli_epi16, _mm512_srli_epi32, _mm512_storeu_ps, _mm512_storeu_si512, _mm512_sub_epi32, _mm512_sub_ps,
    _mm512_ternarylogic_epi32, _mm512_test_epi8_mask, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64, _mm512_xor_si512,
};
use std::marker::PhantomData;
use std::mem::transmute;

use half::{bf16, f16};

use crate::detect::{Compiled, compile};
use crate::product;
use crate::vector::{Blocks, Vector};

/// How a family of CPUs with AVX-512 wants its weights read (docs/log.md, "In which order, and into which cache").
pub trait Reads: Copy {
    /// [`Vector::STREAMS`].
    const STREAMS: usize;
    /// [`Vector::NEAR`]: weights are asked for into the first-level cache alone, for once: what they would push out of the second-level
    /// cache is worth more.
    const NEAR: bool;
    /// [`Vector::ASKS_AGAIN`].
    const ASKS_AGAIN: bool = false;
    /// [`Vector::ASKS_FILLING`].
    const ASKS_FILLING: bool = true;
    /// [`Vector::CHUNK`].
    const CHUNK: usize = product::CHUNK;
    /// [`Vector::IN_TURNS`].
    const SHORT: bool;
    /// Whether sixteen bytes from memory are put into half a vector in half the time that they take into a whole one, and words one by one in half
    /// the time of the instruction that gathers them.
    const HALVES: bool;
    /// [`Vector::ROW_BY_ROW`].
    const ROWS: bool;
    /// [`Vector::PAIRS`]: the CPUs have AVX-512 BF16, too.
    const PAIRS: bool;
}

/// In several streams, a strip before, into the second-level cache: Intel's CPUs read weights that are asked for line by line at a third of the
/// speed.
#[derive(Clone, Copy)]
pub struct Apart;

impl Reads for Apart {
    const STREAMS: usize = 4;
    const NEAR: bool = false;
    const SHORT: bool = false;
    const HALVES: bool = false;
    const ROWS: bool = false;
    const PAIRS: bool = false;
}

/// In the order of memory, a strip before, into the second-level cache: AMD's CPUs of family 25 (Zen 4) wait for few lines of the first-level
/// cache, and read what is asked for into that at six tenths of the speed. They forget what they are asked for while they wait for too much, so that
/// they are asked twice. Nothing is asked for while weights are unpacked.
#[derive(Clone, Copy)]
pub struct InOrder;

impl Reads for InOrder {
    const STREAMS: usize = 1;
    const NEAR: bool = false;
    const ASKS_AGAIN: bool = true;
    const ASKS_FILLING: bool = false;
    // The second-level cache gives the panel in order as fast as it is met, and sums go to memory and back half as often.
    const CHUNK: usize = 2 * product::CHUNK;
    const SHORT: bool = true;
    const HALVES: bool = true;
    const ROWS: bool = true;
    const PAIRS: bool = true;
}

/// In the order of memory, a few rows before, into the first-level cache: AMD's CPUs from family 26 (Zen 5) on.
#[derive(Clone, Copy)]
pub struct InOrderNear;

impl Reads for InOrderNear {
    const STREAMS: usize = 1;
    const NEAR: bool = true;
    const SHORT: bool = true;
    const HALVES: bool = false;
    const ROWS: bool = false;
    const PAIRS: bool = true;
}

/// AVX-512 F, BW, VL and VNNI. `WHOLE`: beside tiles.
#[derive(Clone, Copy)]
pub struct Avx512<R, const WHOLE: bool = false>(PhantomData<R>);

// SAFETY: the methods use instructions of AVX-512 F, BW and VNNI only, and of BF16 where `PAIRS` says so, which the type stands for; memory is touched as the
// trait says: `LANES` elements at the given pointers.
unsafe impl<R: Reads, const WHOLE: bool> Vector for Avx512<R, WHOLE> {
    const LANES: usize = 16;
    const STRIPS: usize = 2;
    const CHUNK: usize = R::CHUNK;
    const TOKENS: usize = 6;
    const REGISTERS: usize = 32;
    const EIGHT: bool = true;
    const SIGNED: bool = false;
    const WHOLE: bool = WHOLE;
    const STREAMS: usize = R::STREAMS;
    const NEAR: bool = R::NEAR;
    const ASKS_AGAIN: bool = R::ASKS_AGAIN;
    const ASKS_FILLING: bool = R::ASKS_FILLING;
    const EIGHTS: bool = true;
    const IN_TURNS: bool = R::SHORT;
    const ROW_BY_ROW: bool = R::ROWS;
    const BLOCKS_BY_ROW: Blocks = if R::ROWS { Blocks::OfBytes } else { Blocks::None };
    const WORDS: bool = true;
    const REQUANTISES: bool = !WHOLE;
    const PAIRS: bool = R::PAIRS;
    type Float = __m512;
    type Int = __m512i;
    type Bytes = __m512i;

    #[inline(always)]
    unsafe fn float(value: f32) -> __m512 {
        _mm512_set1_ps(value)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        _mm512_loadu_ps(from)
    }

    #[inline(always)]
    unsafe fn store(value: __m512, to: *mut f32) {
        _mm512_storeu_ps(to, value);
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }

    #[inline(always)]
    unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }

    #[inline(always)]
    unsafe fn sub_mul(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fnmadd_ps(a, b, c)
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        _mm512_sub_ps(a, b)
    }

    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        _mm512_div_ps(a, b)
    }

    #[inline(always)]
    unsafe fn magnitude(a: __m512) -> __m512 {
        _mm512_abs_ps(a)
    }

    #[inline(always)]
    unsafe fn larger_magnitude(a: __m512, b: __m512) -> __m512 {
        _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)))
    }

    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        _mm512_max_ps(a, b)
    }

    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        _mm512_min_ps(a, b)
    }

    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512 {
        _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }

    #[inline(always)]
    unsafe fn times_power_of_two(a: __m512, n: __m512) -> __m512 {
        _mm512_scalef_ps(a, n)
    }

    #[inline(always)]
    unsafe fn narrow([a, b, c, d]: [__m512; 4]) -> __m512i {
        let first = _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
        let last = _mm512_packs_epi32(_mm512_cvtps_epi32(c), _mm512_cvtps_epi32(d));
        // Four of each in every quarter.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_permutexvar_epi32(order, _mm512_packs_epi16(first, last))
    }

    #[inline(always)]
    unsafe fn store_unsigned(value: __m512, to: *mut u8) {
        _mm_storeu_si128(to.cast(), _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(value)));
    }

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn store_half(value: __m512, to: *mut f16) {
        _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value));
    }

    #[inline(always)]
    unsafe fn load_brain(from: *const bf16) -> __m512 {
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))))
    }

    #[inline(always)]
    unsafe fn only(a: __m512, first: i32, last: i32, other: __m512) -> __m512 {
        let below = |lanes: i32| (1u32 << lanes.clamp(0, 16)) - 1;
        _mm512_mask_blend_ps((below(last + 1) & !below(first)) as u16, other, a)
    }

    #[inline(always)]
    unsafe fn zero_under(a: __m512, x: __m512, limit: f32) -> __m512 {
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(limit)), a)
    }

    #[inline(always)]
    unsafe fn sum(a: __m512) -> f32 {
        _mm512_reduce_add_ps(a)
    }

    /// In the order of the instruction above: lanes eight apart, four, two, neighbours.
    #[inline(always)]
    unsafe fn store_sums([a, b, c, d]: [__m512; 4], to: *mut f32) {
        let first = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
        let last = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xee>(c, d));
        let sums = _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(first, last), _mm512_shuffle_f32x4::<0xdd>(first, last));
        let sums = _mm512_add_ps(sums, _mm512_permute_ps::<0x4e>(sums));
        let sums = _mm512_add_ps(sums, _mm512_permute_ps::<0xb1>(sums));
        let each = _mm512_castps512_ps128(_mm512_permutexvar_ps(_mm512_set4_epi32(12, 8, 4, 0), sums));
        _mm_storeu_ps(to, each);
    }

    #[inline(always)]
    unsafe fn most(a: __m512) -> f32 {
        _mm512_reduce_max_ps(a)
    }

    #[inline(always)]
    unsafe fn mosts([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
        let first = _mm512_max_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
        let last = _mm512_max_ps(_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xee>(c, d));
        let most = _mm512_max_ps(_mm512_shuffle_f32x4::<0x88>(first, last), _mm512_shuffle_f32x4::<0xdd>(first, last));
        let most = _mm512_max_ps(most, _mm512_permute_ps::<0x4e>(most));
        let most = _mm512_max_ps(most, _mm512_permute_ps::<0xb1>(most));
        let mut mosts = [0.0; 4];
        let each = _mm512_castps512_ps128(_mm512_permutexvar_ps(_mm512_set4_epi32(12, 8, 4, 0), most));
        _mm_storeu_ps(mosts.as_mut_ptr(), each);
        mosts
    }

    #[inline(always)]
    unsafe fn int(value: i32) -> __m512i {
        _mm512_set1_epi32(value)
    }

    #[inline(always)]
    unsafe fn add_ints(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn to_float(value: __m512i) -> __m512 {
        _mm512_cvtepi32_ps(value)
    }

    #[inline(always)]
    unsafe fn to_int(value: __m512) -> __m512i {
        _mm512_cvtps_epi32(value)
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> __m512i {
        _mm512_loadu_si512(from.cast())
    }

    #[inline(always)]
    unsafe fn store_bytes(value: __m512i, to: *mut u8) {
        _mm512_storeu_si512(to.cast(), value);
    }

    #[inline(always)]
    unsafe fn byte(value: u8) -> __m512i {
        _mm512_set1_epi8(value as i8)
    }

    #[inline(always)]
    unsafe fn word(value: u32) -> __m512i {
        _mm512_set1_epi32(value as i32)
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        _mm512_xor_si512(a, b)
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: u32>(a: __m512i) -> __m512i {
        _mm512_srli_epi32::<BITS>(a)
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: u32>(a: __m512i) -> __m512i {
        _mm512_slli_epi32::<BITS>(a)
    }

    #[inline(always)]
    unsafe fn add_words(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn spread(a: __m512i, value: u8) -> __m512i {
        // The lowest byte of each word four times, each tested for its own bit.
        let copies = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
        let set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(a, copies), _mm512_set1_epi32(0x0804_0201));
        _mm512_maskz_set1_epi8(set, value as i8)
    }

    #[inline(always)]
    unsafe fn lookup(table: &[u8; 16], indices: __m512i) -> __m512i {
        let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
        _mm512_shuffle_epi8(table, indices)
    }

    #[inline(always)]
    unsafe fn entries(table: &[u32], numbers: __m512i) -> __m512i {
        _mm512_i32gather_epi32::<4>(numbers, table.as_ptr().cast())
    }

    #[inline(always)]
    unsafe fn float_from_bits(a: __m512i) -> __m512 {
        _mm512_castsi512_ps(a)
    }

    #[inline(always)]
    unsafe fn byte_to_float<const INDEX: u32>(a: __m512i) -> __m512 {
        let byte = match INDEX {
            0 => a,
            1 => _mm512_srli_epi32::<8>(a),
            2 => _mm512_srli_epi32::<16>(a),
            _ => return _mm512_cvtepi32_ps(_mm512_srli_epi32::<24>(a)),
        };
        _mm512_cvtepi32_ps(_mm512_and_si512(byte, _mm512_set1_epi32(0xff)))
    }

    #[inline(always)]
    unsafe fn signed_byte_to_float<const INDEX: u32>(a: __m512i) -> __m512 {
        // The product with one takes the place of two shifts.
        let only = _mm512_set1_epi32(1 << (8 * INDEX));
        _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), only, a))
    }

    #[inline(always)]
    unsafe fn half_to_float<const INDEX: u32>(a: __m512i) -> __m512 {
        let half = if INDEX == 0 { a } else { _mm512_srli_epi32::<16>(a) };
        _mm512_cvtph_ps(_mm512_cvtepi32_epi16(half))
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        if R::NEAR {
            _mm_prefetch::<_MM_HINT_NTA>(from);
        } else {
            _mm_prefetch::<_MM_HINT_T1>(from);
        }
    }

    #[inline(always)]
    unsafe fn gather(base: *const u8, offsets: &[isize; 16]) -> __m512i {
        if R::HALVES {
            return words(base, offsets);
        }
        // Not `array::map`, whose closure would be compiled without the instruction set: sixteen calls for each block.
        let low = _mm512_cvtepi64_epi32(_mm512_loadu_si512(offsets.as_ptr().cast()));
        let high = _mm512_cvtepi64_epi32(_mm512_loadu_si512(offsets.as_ptr().add(8).cast()));
        let offsets = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        _mm512_i32gather_epi32::<1>(offsets, base.cast())
    }

    #[inline(always)]
    unsafe fn columns16(base: *const u8, offsets: &[isize; 16]) -> [__m512i; 4] {
        // Rows r, r + 4, r + 8 and r + 12 in the four quarters; then 4 x 4 words are transposed inside each quarter.
        let (a, b) = (quarters::<R>(base, offsets, 0), quarters::<R>(base, offsets, 1));
        let (c, d) = (quarters::<R>(base, offsets, 2), quarters::<R>(base, offsets, 3));
        turned_in_quarters([a, b, c, d])
    }

    #[inline(always)]
    unsafe fn load_runs(from: *const u8, apart_bytes: usize) -> __m512i {
        let low = _mm512_castsi256_si512(_mm256_loadu_si256(from.cast()));
        _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(from.add(apart_bytes).cast()))
    }

    #[inline(always)]
    unsafe fn group_sums<const GROUP: usize, const HALVES: bool>(products: [__m512i; 8]) -> [__m512i; 2] {
        if GROUP != 32 || HALVES {
            unreachable!("blocks of whole bytes");
        }
        // Half as many lanes a group each time: sums of even and of odd lanes, of two vectors at once.
        let mut twos = [_mm512_setzero_si512(); 4];
        for (two, sum) in twos.iter_mut().enumerate() {
            let (a, b) = (products[2 * two], products[2 * two + 1]);
            *sum = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        }
        let mut fours = [_mm512_setzero_si512(); 2];
        for (four, sum) in fours.iter_mut().enumerate() {
            let (a, b) = (twos[2 * four], twos[2 * four + 1]);
            *sum = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        }
        // Now quarters hold four groups each, of even numbers and of odd ones.
        let [a, b] = fours;
        let sums = _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
        [sums, _mm512_setzero_si512()]
    }

    #[inline(always)]
    unsafe fn turned<const GROUP: usize>(rows: *const __m512i) -> [__m512i; 16] {
        let zero = _mm512_setzero_si512();
        // Inside quarters: four rows and four columns.
        let mut fours = [zero; 16];
        for (index, fours) in fours.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let row = |inside: usize| rows.add(4 * index + inside).cast();
            let (a, b) = (_mm512_loadu_si512(row(0)), _mm512_loadu_si512(row(1)));
            let (c, d) = (_mm512_loadu_si512(row(2)), _mm512_loadu_si512(row(3)));
            *fours = turned_in_quarters([a, b, c, d]);
        }
        // Quarter `q` of number `k` is column 4q + k; four quarters of even groups, then of odd ones, and so again.
        let mut turned = [zero; 16];
        for k in [0, 1, 2, 3] {
            let (a, b, c, d) = (fours[k], fours[4 + k], fours[8 + k], fours[12 + k]);
            let (ab_even, ab_odd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
            let (cd_even, cd_odd) = (_mm512_shuffle_i32x4::<0x88>(c, d), _mm512_shuffle_i32x4::<0xdd>(c, d));
            turned[2 * k] = _mm512_shuffle_i32x4::<0x88>(ab_even, cd_even);
            turned[2 * k + 1] = _mm512_shuffle_i32x4::<0x88>(ab_odd, cd_odd);
            turned[2 * k + 8] = _mm512_shuffle_i32x4::<0xdd>(ab_even, cd_even);
            turned[2 * k + 9] = _mm512_shuffle_i32x4::<0xdd>(ab_odd, cd_odd);
        }
        turned
    }

    #[inline(always)]
    unsafe fn settled(sum: __m512i) -> __m512i {
        settled(sum)
    }

    #[inline(always)]
    unsafe fn dot(sum: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sum, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_words(sum: __m512i, numbers: __m512i, x: __m512i) -> __m512i {
        _mm512_dpwssd_epi32(sum, numbers, x)
    }

    #[inline(always)]
    unsafe fn twice(a: __m512i) -> __m512i {
        _mm512_or_si512(_mm512_and_si512(a, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32::<16>(a))
    }

    #[inline(always)]
    unsafe fn rescaled(bytes: __m512i, factor: __m512i, start: __m512i) -> __m512i {
        let tops = _mm512_set1_epi16(0xff00_u16 as i16);
        let low = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_andnot_si512(tops, bytes), factor), start);
        let high = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_srli_epi16::<8>(bytes), factor), start);
        // `tops` chooses: where it has ones `high`, else the other.
        _mm512_ternarylogic_epi32::<0xb8>(_mm512_srli_epi16::<8>(low), tops, high)
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: __m512, weights: __m512i, x: __m512i) -> __m512 {
        assert!(R::PAIRS, "AVX-512 BF16");
        // SAFETY: both are 64 bytes, and any bits make a number.
        let (weights, x) = (transmute::<__m512i, __m512bh>(weights), transmute::<__m512i, __m512bh>(x));
        _mm512_dpbf16_ps(sum, weights, x)
    }

    #[inline(always)]
    unsafe fn store_brains(value: __m512, to: *mut u16) {
        assert!(R::PAIRS, "AVX-512 BF16");
        // SAFETY: both are 32 bytes, and any bits make an integer.
        _mm256_storeu_si256(to.cast(), transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(value)));
    }

    #[inline(always)]
    unsafe fn dot_low(sum: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        Self::dot(sum, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_signed(sum: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        let raised = Self::dot(sum, _mm512_xor_si512(weights, Self::byte(0x80)), x);
        _mm512_sub_epi32(raised, Self::dot(_mm512_setzero_si512(), Self::byte(0x80), x))
    }
}

/// Sixteen bytes of the rows `first`, `first + 4`, `first + 8` and `first + 12`.
///
/// # Safety
/// The CPU has AVX-512 F; each of those rows holds sixteen bytes at its offset.
#[inline(always)]
unsafe fn quarters<R: Reads>(base: *const u8, offsets: &[isize; 16], first: usize) -> __m512i {
    let mut rows = [_mm_setzero_si128(); 4];
    for quarter in 0..4 {
        rows[quarter] = _mm_loadu_si128(base.offset(offsets[first + 4 * quarter]).cast());
    }
    if R::HALVES {
        return by_halves(rows);
    }
    let v = _mm512_castsi128_si512(rows[0]);
    let v = _mm512_inserti32x4::<1>(v, rows[1]);
    let v = _mm512_inserti32x4::<2>(v, rows[2]);
    _mm512_inserti32x4::<3>(v, rows[3])
}

/// [`Vector::gather`] without the instruction for it, which takes twice as long on some CPUs.
///
/// # Safety
/// The CPU has AVX-512 F; each row holds four bytes at its offset.
#[inline(always)]
unsafe fn words(base: *const u8, offsets: &[isize; 16]) -> __m512i {
    let mut fours = [_mm_setzero_si128(); 4];
    for (four, words) in fours.iter_mut().enumerate() {
        let [a, b, c, d] = [4 * four, 4 * four + 1, 4 * four + 2, 4 * four + 3];
        *words = _mm_cvtsi32_si128(word(base, offsets, a));
        *words = _mm_insert_epi32::<1>(*words, word(base, offsets, b));
        *words = _mm_insert_epi32::<2>(*words, word(base, offsets, c));
        *words = _mm_insert_epi32::<3>(*words, word(base, offsets, d));
    }
    by_halves(fours)
}

/// Four quarters as one vector, put together from halves.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn by_halves(quarters: [__m128i; 4]) -> __m512i {
    let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(quarters[0]), quarters[1]);
    let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(quarters[2]), quarters[3]);
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Four vectors of words, turned inside each quarter: the first words of all four, the second ones, and so on.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn turned_in_quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// The four bytes of one row.
///
/// # Safety
/// The row holds them at its offset.
#[inline(always)]
unsafe fn word(base: *const u8, offsets: &[isize; 16], row: usize) -> i32 {
    base.offset(offsets[row]).cast::<i32>().read_unaligned()
}

/// [`Vector::settled`], which needs the instructions to name a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn settled(mut sum: __m512i) -> __m512i {
    // SAFETY: no instruction at all; it is not said to leave memory alone, so that no read moves across.
    unsafe { asm!("/* {0} */", inout(zmm_reg) sum, options(nostack, preserves_flags)) };
    sum
}

/// The family of AMD's CPUs whose second-level cache is to be asked for weights.
const ZEN_4: u32 = 25;

/// The kernels in [`Avx512`] that suit this CPU.
pub fn kernels() -> &'static Compiled {
    let vendor = __cpuid(0);
    if [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes) != [*b"Auth", *b"enti", *b"cAMD"] {
        return &KERNELS;
    }
    // Bits 8 to 11, and what 20 to 27 add to them where they are all set.
    let version = __cpuid(1).eax;
    let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
    let kernels = if family <= ZEN_4 { &IN_ORDER_KERNELS } else { &NEAR_KERNELS };
    if (kernels.is_supported)() { kernels } else { &KERNELS }
}

/// All of them, for tests of those that do not suit this CPU but run on it.
#[cfg(test)]
pub static ALL_KERNELS: [&Compiled; 3] = [&KERNELS, &IN_ORDER_KERNELS, &NEAR_KERNELS];

compile! {
    /// For any CPU, and to stand beside tiles.
    pub static KERNELS: Avx512<Apart> where is_x86_feature_detected has "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni"
}

compile! {
    /// For AMD's CPUs up to Zen 4.
    static IN_ORDER_KERNELS: Avx512<InOrder> where is_x86_feature_detected has "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16"
}

compile! {
    /// For AMD's CPUs from Zen 5 on.
    static NEAR_KERNELS: Avx512<InOrderNear> where is_x86_feature_detected has "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16"
}
