//! The few vector instructions that the kernels are written in: one trait, a thin file for each instruction set.
//!
//! In the integer kernel a lane is an output row: it walks the columns of `LANES` rows side by side, so each row's sum runs over its blocks in
//! order whatever the number of rows or tokens, and a token's result is the same bits alone and in a batch.

use half::{bf16, f16};

use crate::product;

/// Vectors of one instruction set.
///
/// # Safety
/// Every method may only be called where the CPU has the instructions that the implementing type stands for. The kernels that
/// use it are reached only through [`crate::detect::Kernels`], whose constructor asks the CPU.
pub unsafe trait Vector: Copy {
    /// Rows side by side.
    const LANES: usize;
    /// Vectors of rows that the integer kernel computes together.
    const STRIPS: usize;
    /// The same where sums are of sixteen bits.
    const STRIPS_IN_HALVES: usize = Self::STRIPS;
    /// Columns of sixteen rows that it unpacks at a time, at most [`product::CHUNK_MAX`].
    const CHUNK: usize = product::CHUNK;
    /// Tokens that it computes together: as many as the registers have room for sums, one for each vector of rows.
    const TOKENS: usize;
    /// Registers.
    const REGISTERS: usize;
    /// Whether the integer kernel takes eight instead where they are the last and half of the registers have room for their sums.
    const EIGHT: bool;
    /// Whether [`Self::dot_signed`] is quicker than [`Self::dot`].
    const SIGNED: bool;
    /// Whether sums of codes times whole scales are integers over a whole span, as tiles add them up. Vectors alone are quicker with scales that are
    /// numbers.
    const WHOLE: bool = false;
    /// Whether [`Self::dot_halves`] is quicker than [`Self::dot_low`], and its sums are of sixteen bits.
    const HALVES: bool = false;
    /// Streams of memory in which weights are asked for, at most [`product::STREAMS_MAX`].
    const STREAMS: usize;
    /// Whether what few tokens read is asked for twice, the second time when half of the strip before it is read, or of attention's
    /// segment: some CPUs forget what they are asked for while they wait for too much, and asking for what is there costs next to nothing
    /// (docs/log.md, "Asked for and forgotten").
    const ASKS_AGAIN: bool = false;
    /// Whether [`Self::prefetch`] brings a line to the first-level cache alone, so that what one token reads is asked for only a few rows before.
    const NEAR: bool = false;
    /// Whether the next weights are asked for while others are unpacked, and not only while those meet tokens, and before what a few tokens meet at once
    /// is read, and not behind. On some CPUs that takes longer: probably since lines that are on their way from memory hold the few places that lines of the second-level cache need (docs/log.md,
    /// "What a line on its way holds up").
    const ASKS_FILLING: bool = true;
    /// Whether blocks that are not whole words are read [eight at a time](crate::panel::eight).
    const EIGHTS: bool = false;
    /// Whether numbers from memory are read in order, since the CPU's memory gives most to one place that moves on: the only token meets them row
    /// by row, and few rows of attention meet sixteen keys after the other.
    const ROW_BY_ROW: bool = false;
    /// Whether the only token meets [blocks of a type](crate::panel::Unpack::BY_ROWS) row by row, by [`Self::load_runs`], [`Self::group_sums`] and
    /// [`Self::turned`].
    const BLOCKS_BY_ROW: Blocks = Blocks::None;
    /// Whether the only token meets long blocks in a loop of a few turns, where that is shorter code: some CPUs run four thousand bytes of it at
    /// half their speed, or not, by where the file of the program happens to lie in memory.
    const IN_TURNS: bool = false;
    /// Whether minimums that are whole numbers are added up two groups at a time by [`Self::dot_words`].
    const WORDS: bool = false;
    /// Whether there are [`Self::twice`] and [`Self::rescaled`], by which weights of K-quants are rounded once more for a prompt.
    const REQUANTISES: bool = false;
    /// Whether there are [`Self::dot_pairs`] and [`Self::store_brains`].
    const PAIRS: bool = false;
    /// Whether two tokens meet eight columns of each row together by [`Self::dot_matrices`], in half as many instructions as one by one.
    const MATRICES: bool = false;
    /// One `f32` for each row.
    type Float: Copy;
    /// One `i32` for each row.
    type Int: Copy;
    /// Four bytes for each row.
    type Bytes: Copy;

    // Numbers.

    /// The same number in every lane.
    unsafe fn float(value: f32) -> Self::Float;
    /// `LANES` numbers from memory.
    unsafe fn load(from: *const f32) -> Self::Float;
    /// `LANES` numbers to memory.
    unsafe fn store(value: Self::Float, to: *mut f32);
    /// Product.
    unsafe fn mul(a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a * b + c`, rounded once.
    unsafe fn mul_add(a: Self::Float, b: Self::Float, c: Self::Float) -> Self::Float;
    /// `c - a * b`, rounded once.
    unsafe fn sub_mul(a: Self::Float, b: Self::Float, c: Self::Float) -> Self::Float;
    /// Sum.
    unsafe fn add(a: Self::Float, b: Self::Float) -> Self::Float;
    /// Difference.
    unsafe fn sub(a: Self::Float, b: Self::Float) -> Self::Float;
    /// Quotient.
    unsafe fn div(a: Self::Float, b: Self::Float) -> Self::Float;
    /// Without its sign.
    unsafe fn magnitude(a: Self::Float) -> Self::Float;
    /// The larger of two numbers without a sign; what is no number is larger than all that are.
    unsafe fn larger_magnitude(a: Self::Float, b: Self::Float) -> Self::Float;
    /// The larger; the second where the first is not a number.
    unsafe fn max(a: Self::Float, b: Self::Float) -> Self::Float;
    /// The smaller; the second where the first is not a number.
    unsafe fn min(a: Self::Float, b: Self::Float) -> Self::Float;
    /// The nearest whole number, to even between two.
    unsafe fn round(a: Self::Float) -> Self::Float;
    /// `a * 2^n` for whole `n` between -126 and 127.
    unsafe fn times_power_of_two(a: Self::Float, n: Self::Float) -> Self::Float;
    /// The nearest whole numbers to numbers between -128 and 127, to even between two, a signed byte each, in order.
    unsafe fn narrow(values: [Self::Float; 4]) -> Self::Bytes;
    /// The nearest whole numbers to numbers between 0 and 255, to even between two, to memory, an unsigned byte each.
    unsafe fn store_unsigned(value: Self::Float, to: *mut u8);
    /// `LANES` half-precision numbers from memory, widened.
    unsafe fn load_half(from: *const f16) -> Self::Float;
    /// The nearest half-precision numbers, to even between two, to memory.
    #[inline(always)]
    unsafe fn store_half(value: Self::Float, to: *mut f16) {
        let mut lanes = [0.0; 16];
        // SAFETY: the array holds a vector, and so does the memory by the caller's word.
        unsafe {
            Self::store(value, lanes.as_mut_ptr());
            for (lane, value) in lanes[..Self::LANES].iter().enumerate() {
                *to.add(lane) = f16::from_f32(*value);
            }
        }
    }
    /// `LANES` brain floating-point numbers from memory, widened.
    unsafe fn load_brain(from: *const bf16) -> Self::Float;
    /// `a` in the lanes from `first` to `last`, `other` elsewhere.
    unsafe fn only(a: Self::Float, first: i32, last: i32, other: Self::Float) -> Self::Float;
    /// Zero where `x` is under `limit`, `a` elsewhere.
    unsafe fn zero_under(a: Self::Float, x: Self::Float, limit: f32) -> Self::Float;
    /// The sum of all lanes, in a fixed order.
    unsafe fn sum(a: Self::Float) -> f32;
    /// That of each of four, to memory one behind the other: the same bits.
    #[inline(always)]
    unsafe fn store_sums(values: [Self::Float; 4], to: *mut f32) {
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: the caller's contract is the same.
            unsafe { *to.add(index) = Self::sum(value) };
        }
    }
    /// The largest lane.
    unsafe fn most(a: Self::Float) -> f32;
    /// That of each of four.
    #[inline(always)]
    unsafe fn mosts(values: [Self::Float; 4]) -> [f32; 4] {
        let mut mosts = [0.0; 4];
        for (most, value) in mosts.iter_mut().zip(values) {
            // SAFETY: the caller's contract is the same.
            *most = unsafe { Self::most(value) };
        }
        mosts
    }
    /// The same integer in every lane.
    unsafe fn int(value: i32) -> Self::Int;
    /// Sum; wraps.
    unsafe fn add_ints(a: Self::Int, b: Self::Int) -> Self::Int;
    /// Integers to numbers.
    unsafe fn to_float(value: Self::Int) -> Self::Float;
    /// Whole numbers of less than 24 bits to integers.
    unsafe fn to_int(value: Self::Float) -> Self::Int;

    // Bytes.

    /// `4 * LANES` bytes from memory, four of each row.
    unsafe fn load_bytes(from: *const u8) -> Self::Bytes;
    /// The same, to memory.
    unsafe fn store_bytes(value: Self::Bytes, to: *mut u8);
    /// The same byte everywhere.
    unsafe fn byte(value: u8) -> Self::Bytes;
    /// The same four bytes in every row, lowest first.
    unsafe fn word(value: u32) -> Self::Bytes;
    /// Bitwise and.
    unsafe fn and(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Bitwise or.
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Bitwise exclusive or.
    unsafe fn xor(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Each row's four bytes as one 32-bit word, shifted right.
    unsafe fn shift_right<const BITS: u32>(a: Self::Bytes) -> Self::Bytes;
    /// Each row's four bytes as one 32-bit word, shifted left.
    unsafe fn shift_left<const BITS: u32>(a: Self::Bytes) -> Self::Bytes;
    /// Each row's four bytes as one 32-bit word, added; wraps.
    unsafe fn add_words(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// The lowest four bits of each row's word, one for each of its bytes: `value` where the bit is set, else zero.
    unsafe fn spread(a: Self::Bytes, value: u8) -> Self::Bytes;
    /// Each byte, under 16, replaced by its entry in a table.
    unsafe fn lookup(table: &[u8; 16], indices: Self::Bytes) -> Self::Bytes;
    /// Each row's word, a number under the table's length, replaced by its entry.
    unsafe fn entries(table: &[u32], numbers: Self::Bytes) -> Self::Bytes;
    /// Each row's word as the bits of a number.
    unsafe fn float_from_bits(a: Self::Bytes) -> Self::Float;
    /// The byte `INDEX` of each row, unsigned, as a number.
    unsafe fn byte_to_float<const INDEX: u32>(a: Self::Bytes) -> Self::Float;
    /// The byte `INDEX` of each row, signed, as a number.
    unsafe fn signed_byte_to_float<const INDEX: u32>(a: Self::Bytes) -> Self::Float;
    /// The half-precision number in the low (`INDEX` 0) or high (1) two bytes of each row, widened.
    unsafe fn half_to_float<const INDEX: u32>(a: Self::Bytes) -> Self::Float;

    /// Asks for the cache line at an address, which need not be readable.
    unsafe fn prefetch(from: *const i8);

    // Rows.

    /// Four bytes of each row, at `base + offsets[row]`. On some CPUs dearer than [`Self::columns16`] of the same rows.
    unsafe fn gather(base: *const u8, offsets: &[isize; 16]) -> Self::Bytes;
    /// Sixteen bytes of each row: the first four of every row, the next four, and so on.
    unsafe fn columns16(base: *const u8, offsets: &[isize; 16]) -> [Self::Bytes; 4];

    /// `4 * LANES` bytes of one row: 32 from memory, and as many from so many bytes behind them on, where the vector has room.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load_runs(_from: *const u8, _apart_bytes: usize) -> Self::Bytes {
        unreachable!("blocks that are met side by side")
    }

    /// Sixteen bytes from memory, each half of a byte as one: the low halves of all, then the high halves. As many bytes as `4 * LANES`.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load_halves(_from: *const u8) -> Self::Bytes {
        unreachable!("blocks that are met side by side")
    }

    /// Of eight vectors of products of neighbouring columns of one row, as [`Self::dot`] gives them or, if `HALVES`, [`Self::dot_halves`], where
    /// sixteen bits hold two products: the sums of groups of `GROUP` columns, `LANES` in each vector, in an order that [`Self::turned`] knows.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn group_sums<const GROUP: usize, const HALVES: bool>(_products: [Self::Int; 8]) -> [Self::Int; 2] {
        unreachable!("blocks that are met side by side")
    }

    /// Those sums of `LANES` rows, turned: of each group those of all rows, in the order of the groups.
    ///
    /// # Safety
    /// So many vectors can be read.
    unsafe fn turned<const GROUP: usize>(_rows: *const Self::Int) -> [Self::Int; 16] {
        unreachable!("blocks that are met side by side")
    }

    /// The same, computed before what follows is read: where a sum waits in a register, the compiler would else read all that a block
    /// takes first, and put it aside in memory.
    #[inline(always)]
    unsafe fn settled(sum: Self::Int) -> Self::Int {
        sum
    }

    /// Adds, in each row, the products of its four unsigned bytes with its four signed bytes in `x`. Exact, as the next two are: no sum on
    /// the way saturates.
    unsafe fn dot(sum: Self::Int, weights: Self::Bytes, x: Self::Bytes) -> Self::Int;
    /// The same of bytes under 128: on some instruction sets quicker.
    unsafe fn dot_low(sum: Self::Int, weights: Self::Bytes, x: Self::Bytes) -> Self::Int;
    /// The same of signed bytes, for `x` from -127 on.
    unsafe fn dot_signed(sum: Self::Int, weights: Self::Bytes, x: Self::Bytes) -> Self::Int;

    /// Two times four bytes of each row as [`Self::dot_matrices`] takes them: eight of each row beside each other.
    #[inline(always)]
    unsafe fn eights(_fours: [Self::Bytes; 2]) -> [Self::Bytes; 2] {
        unreachable!("`MATRICES` says so")
    }

    /// Eight bytes of each of two tokens, which can be read.
    #[inline(always)]
    unsafe fn two_tokens(_x: [*const i8; 2]) -> Self::Bytes {
        unreachable!("`MATRICES` says so")
    }

    /// Adds the products of each row's eight signed bytes with those of each of [two tokens](Self::two_tokens), exact as [`Self::dot`]; the sums
    /// of two rows and both tokens are neighbours.
    #[inline(always)]
    unsafe fn dot_matrices(_sums: [Self::Int; 2], _weights: [Self::Bytes; 2], _x: Self::Bytes) -> [Self::Int; 2] {
        unreachable!("`MATRICES` says so")
    }

    /// Sums of all rows with each of two tokens, the same for every row, as [`Self::dot_matrices`] has them.
    #[inline(always)]
    unsafe fn matrices(_sums: [i32; 2]) -> [Self::Int; 2] {
        unreachable!("`MATRICES` says so")
    }

    /// What [`Self::dot_matrices`] has, as the sums of all rows with each token.
    #[inline(always)]
    unsafe fn of_tokens(_sums: [Self::Int; 2]) -> [Self::Int; 2] {
        unreachable!("`MATRICES` says so")
    }

    /// Adds, in each row, the products of its two signed numbers of sixteen bits with those of `x`: exact where they and their sum are in range.
    #[inline(always)]
    unsafe fn dot_words(_sum: Self::Int, _numbers: Self::Bytes, _x: Self::Bytes) -> Self::Int {
        unreachable!("`WORDS` says so")
    }

    /// The low sixteen bits of each row's number, and the same again above them.
    #[inline(always)]
    unsafe fn twice(_a: Self::Int) -> Self::Bytes {
        unreachable!("`REQUANTISES` says so")
    }

    /// Each unsigned byte times its row's factor, plus its row's start, in sixteen bits of which the high ones are taken; both are given [twice](Self::twice).
    #[inline(always)]
    unsafe fn rescaled(_bytes: Self::Bytes, _factor: Self::Bytes, _start: Self::Bytes) -> Self::Bytes {
        unreachable!("`REQUANTISES` says so")
    }

    /// Adds, in each lane, the products of its two brain floating-point numbers with two of `x`; what is too small for a normal number is zero.
    #[inline(always)]
    unsafe fn dot_pairs(_sum: Self::Float, _weights: Self::Bytes, _x: Self::Bytes) -> Self::Float {
        unreachable!("`PAIRS` says so")
    }

    /// The nearest brain floating-point numbers, their bits to memory; what is too small for a normal number is zero.
    #[inline(always)]
    unsafe fn store_brains(_value: Self::Float, _to: *mut u16) {
        unreachable!("`PAIRS` says so")
    }

    /// The same of so few columns and so small weights that two sums of sixteen bits hold those of each row: see [`halves_max`]. Such a sum
    /// begins with zero and ends with [`Self::halves_added`].
    #[inline(always)]
    unsafe fn dot_halves(sum: Self::Int, weights: Self::Bytes, x: Self::Bytes) -> Self::Int {
        // SAFETY: the caller's contract is the same.
        unsafe { Self::dot_low(sum, weights, x) }
    }

    /// A sum of those products.
    #[inline(always)]
    unsafe fn halves_added(sum: Self::Int) -> Self::Int {
        sum
    }
}

/// Which blocks the only token meets row by row ([`Vector::BLOCKS_BY_ROW`]).
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only kernels of x86-64 do so"))]
pub enum Blocks {
    /// None.
    None,
    /// Those of whole bytes.
    OfBytes,
    /// All that can be.
    All,
}

/// How many products of four weights up to `most` with four signed bytes [`Vector::dot_halves`] can add up in each row.
pub const fn halves_max(most: u8) -> usize {
    // Two products a half; the signed byte is -128 at the worst.
    i16::MAX as usize / (2 * 128 * most as usize)
}

/// Whether two sums of sixteen bits hold those of a whole group of so many weights times signed bytes from -127 on, where weights were raised by
/// `magnitude` at most, which is that of the largest, and the sum begins with what makes up for it: what was added is the weights as they were
/// times the bytes then, and what was not is as much as the largest times them.
pub const fn halves_hold(group: usize, magnitude: usize) -> bool {
    group / 2 * magnitude * 127 <= i16::MAX as usize
}

/// A number as it is stored, in memory of any alignment.
pub trait Stored: Copy {
    /// `V::LANES` values from memory.
    ///
    /// # Safety
    /// As [`Vector::load`].
    unsafe fn load<V: Vector>(from: *const Self) -> V::Float;
}

impl Stored for f32 {
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load(from) }
    }
}

impl Stored for f16 {
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load_half(from) }
    }
}

impl Stored for bf16 {
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const Self) -> V::Float {
        // SAFETY: the caller's contract is the same.
        unsafe { V::load_brain(from) }
    }
}

/// `e^x` to two units in the last place (Cody and Waite's reduction, a polynomial of degree six); zero under -87, no
/// overflow over 88.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn exp<V: Vector>(x: V::Float) -> V::Float {
    // SAFETY: arithmetic on values, under the caller's contract.
    unsafe {
        // In this order what is no number stays none.
        let x = V::min(V::float(88.0), V::max(V::float(-87.3), x));
        let n = V::round(V::mul(x, V::float(std::f32::consts::LOG2_E)));
        let r = V::sub_mul(n, V::float(0.693_359_4), x);
        let r = V::sub_mul(n, V::float(-2.121_944_4e-4), r);
        let mut p = V::float(1.987_569_1e-4);
        for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            p = V::mul_add(p, r, V::float(coefficient));
        }
        let p = V::mul_add(p, V::mul(r, r), V::add(r, V::float(1.0)));
        V::times_power_of_two(p, n)
    }
}

/// `2^x` to four parts in a million (a polynomial of degree four at Chebyshev's nodes), for attention's weights, which are
/// rounded to bytes after; not under `2^-126`.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn exp2<V: Vector>(x: V::Float) -> V::Float {
    // SAFETY: arithmetic on values, under the caller's contract.
    unsafe {
        let x = V::max(x, V::float(-126.0));
        let n = V::round(x);
        let r = V::sub(x, n);
        let mut p = V::float(9.666_368e-3);
        for coefficient in [5.592_197_6e-2, 0.240_223_5, 0.693_121, 1.0] {
            p = V::mul_add(p, r, V::float(coefficient));
        }
        V::times_power_of_two(p, n)
    }
}

/// `tanh(x)` to about 2e-7.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn tanh<V: Vector>(x: V::Float) -> V::Float {
    // SAFETY: arithmetic on values, under the caller's contract.
    unsafe {
        // 1 - 2 / (e^2x + 1): right at both ends.
        let e = exp::<V>(V::add(x, x));
        V::sub(V::float(1.0), V::div(V::float(2.0), V::add(e, V::float(1.0))))
    }
}
