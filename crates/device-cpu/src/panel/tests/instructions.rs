//! Every method of every instruction set against the same on plain arrays, on ordinary numbers and on awkward ones.

use half::{bf16, f16};
use kauri_arch::Activation;

use super::blocks::Random;
use super::plain::{Plain, Readable};
use crate::detect::{Isa, Kernels};
use crate::elementwise::gated;
use crate::vector::{self, Vector, halves_max};

/// Rows of bytes that are gathered: how many each holds, and how far they lie apart.
const ROW: usize = 16;
const STRIDE: usize = 21;

/// What the methods are given.
struct Input {
    numbers: [[f32; 16]; 3],
    /// From -126 to 127.
    whole: [f32; 16],
    bytes: [[u8; 64]; 2],
    rows: Vec<u8>,
    /// From -127 on.
    x: [i8; 64],
    table: Vec<u32>,
    first: i32,
    last: i32,
}

/// The lanes of each result, with the method's name.
struct Results(Vec<(&'static str, Vec<u32>)>);

impl Input {
    fn new(random: &mut Random) -> Self {
        const AWKWARD: [f32; 8] = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5, -2.5, 1e-40];
        let mut number = |_| match random.below(12) {
            index @ 0..8 => AWKWARD[index],
            _ => random.normal() * 8.0,
        };
        let numbers = [(); 3].map(|()| std::array::from_fn(&mut number));
        // Bytes and activations are often as large as they can be: products of those are what could saturate.
        let mut byte = || match random.below(4) {
            0 => 255,
            1 => 128,
            _ => random.below(256) as u8,
        };
        let bytes = [(); 2].map(|()| std::array::from_fn(|_| byte()));
        let rows = (0..16 * STRIDE).map(|_| byte()).collect();
        Self {
            numbers,
            bytes,
            rows,
            whole: std::array::from_fn(|_| random.below(254) as f32 - 126.0),
            x: std::array::from_fn(|_| [-127, 127, random.below(255) as i8][random.below(3)].max(-127)),
            table: (0..37).map(|_| random.below(1 << 32) as u32).collect(),
            first: random.below(18) as i32 - 1,
            last: random.below(18) as i32 - 1,
        }
    }
}

impl Results {
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn float<V: Vector>(&mut self, name: &'static str, value: V::Float) {
        let mut lanes = [0.0; 16];
        // SAFETY: the array holds a vector.
        unsafe { V::store(value, lanes.as_mut_ptr()) };
        self.0.push((name, lanes[..V::LANES].iter().map(|&lane| bits(lane)).collect()));
    }

    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn bytes<V: Vector>(&mut self, name: &'static str, value: V::Bytes) {
        let mut lanes = [0; 64];
        // SAFETY: the array holds a vector.
        unsafe { V::store_bytes(value, lanes.as_mut_ptr()) };
        self.0.push((name, lanes.as_chunks().0[..V::LANES].iter().map(|&lane| u32::from_le_bytes(lane)).collect()));
    }
}

/// The bits, all that are not numbers alike.
fn bits(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

/// What arithmetic on numbers gives.
///
/// # Safety
/// The CPU has the instructions of `V`.
unsafe fn numbers<V: Vector>(input: &Input, results: &mut Results) {
    // SAFETY: the arrays hold sixteen values, as many as any vector.
    unsafe {
        let (a, b) = (V::load(input.numbers[0].as_ptr()), V::load(input.numbers[1].as_ptr()));
        let (c, whole) = (V::load(input.numbers[2].as_ptr()), V::load(input.whole.as_ptr()));
        results.float::<V>("float", V::float(input.numbers[0][0]));
        results.float::<V>("mul", V::mul(a, b));
        results.float::<V>("mul_add", V::mul_add(a, b, c));
        results.float::<V>("sub_mul", V::sub_mul(a, b, c));
        results.float::<V>("add", V::add(a, b));
        results.float::<V>("sub", V::sub(a, b));
        results.float::<V>("div", V::div(a, b));
        results.float::<V>("larger_magnitude", V::larger_magnitude(V::magnitude(a), V::magnitude(b)));
        results.float::<V>("max", V::max(a, b));
        results.float::<V>("min", V::min(a, b));
        results.float::<V>("round", V::round(a));
        results.float::<V>("times_power_of_two", V::times_power_of_two(a, whole));
        results.float::<V>("zero_under", V::zero_under(a, b, input.numbers[2][0]));
        results.float::<V>("to_float", V::to_float(V::int(-77_777)));
        results.float::<V>("to_int", V::to_float(V::to_int(whole)));
        results.float::<V>("settled", V::to_float(V::settled(V::to_int(whole))));
        let (first, last) = (input.first.min(V::LANES as i32), input.last.min(V::LANES as i32));
        results.float::<V>("only", V::only(a, first, last, b));
        let mut narrow = [0u8; 64];
        let apart = [0.25, 1.25, -2.25, 0.5].map(|apart| V::add(whole, V::float(apart)));
        V::store_bytes(V::narrow(apart), narrow.as_mut_ptr());
        for (name, narrow) in ["narrow, first", "second", "third", "fourth"].into_iter().zip(narrow.chunks(V::LANES)) {
            results.0.push((name, narrow.iter().map(|&value| u32::from(value)).collect()));
        }
        let mut unsigned = [0u8; 16];
        V::store_unsigned(V::add(whole, V::float(128.25)), unsigned.as_mut_ptr());
        results.0.push(("store_unsigned", unsigned[..V::LANES].iter().map(|&value| u32::from(value)).collect()));
        // Whole numbers of this size are exact in any order; the rest is left out.
        let mut few = [0.0; 16];
        few[..4].copy_from_slice(&input.whole[..4]);
        results.0.push(("sum", vec![bits(V::sum(V::load(few.as_ptr())))]));
        let repeated: [f32; 16] = std::array::from_fn(|lane| input.whole[lane % 4]);
        results.0.push(("most", vec![bits(V::most(V::load(repeated.as_ptr())))]));
        let stored = input.numbers[0].map(f16::from_f32);
        results.float::<V>("load_half", V::load_half(stored.as_ptr()));
        let stored = input.numbers[0].map(bf16::from_f32);
        results.float::<V>("load_brain", V::load_brain(stored.as_ptr()));
    }
}

/// What arithmetic on bytes gives.
///
/// # Safety
/// The CPU has the instructions of `V`.
unsafe fn bytes<V: Vector>(input: &Input, results: &mut Results) {
    // SAFETY: the arrays hold sixteen words, as many as any vector; table numbers are cut to the table's length.
    unsafe {
        let (a, b) = (V::load_bytes(input.bytes[0].as_ptr()), V::load_bytes(input.bytes[1].as_ptr()));
        results.bytes::<V>("byte", V::byte(input.bytes[0][0]));
        results.bytes::<V>("word", V::word(input.table[0]));
        results.bytes::<V>("and", V::and(a, b));
        results.bytes::<V>("or", V::or(a, b));
        results.bytes::<V>("xor", V::xor(a, b));
        results.bytes::<V>("shift_right 1", V::shift_right::<1>(a));
        results.bytes::<V>("shift_right 28", V::shift_right::<28>(a));
        results.bytes::<V>("shift_left 4", V::shift_left::<4>(a));
        results.bytes::<V>("add_words", V::add_words(a, b));
        results.bytes::<V>("spread", V::spread(a, 0x91));
        let mut table = [0; 16];
        table.copy_from_slice(&input.bytes[1][..16]);
        results.bytes::<V>("lookup", V::lookup(&table, V::and(a, V::byte(0x0f))));
        results.bytes::<V>("entries", V::entries(&input.table, V::and(a, V::word(0x1f))));
        results.float::<V>("float_from_bits", V::float_from_bits(a));
        results.float::<V>("byte_to_float 0", V::byte_to_float::<0>(a));
        results.float::<V>("byte_to_float 1", V::byte_to_float::<1>(a));
        results.float::<V>("byte_to_float 2", V::byte_to_float::<2>(a));
        results.float::<V>("byte_to_float 3", V::byte_to_float::<3>(a));
        results.float::<V>("signed_byte_to_float 0", V::signed_byte_to_float::<0>(a));
        results.float::<V>("signed_byte_to_float 1", V::signed_byte_to_float::<1>(a));
        results.float::<V>("signed_byte_to_float 2", V::signed_byte_to_float::<2>(a));
        results.float::<V>("signed_byte_to_float 3", V::signed_byte_to_float::<3>(a));
        results.float::<V>("half_to_float 0", V::half_to_float::<0>(a));
        results.float::<V>("half_to_float 1", V::half_to_float::<1>(a));
        let sum = V::int(-9_999);
        let (low, x) = (V::and(a, V::byte(0x7f)), V::load_bytes(input.x.as_ptr().cast()));
        results.float::<V>("dot", V::to_float(V::dot(sum, a, x)));
        results.float::<V>("dot_low", V::to_float(V::dot_low(sum, low, x)));
        results.float::<V>("dot_signed", V::to_float(V::dot_signed(sum, a, x)));
        results.float::<V>("dot_words", words_dotted::<V>(-9_999, input));
        // As many as sums of sixteen bits hold, the last ones the largest.
        for (name, most) in [("dot_halves 15", 15), ("dot_halves 31", 31), ("dot_halves 63", 63)] {
            let mut sum = V::dot_halves(V::int(0), V::and(a, V::byte(most)), x);
            for _ in 1..halves_max(most) {
                sum = V::dot_halves(sum, V::byte(most), V::byte(0x80));
            }
            results.float::<V>(name, V::to_float(V::halves_added(sum)));
        }
    }
}

/// [`Vector::dot_words`] of both arrays of bytes; by its definition, where there is none.
///
/// # Safety
/// The CPU has the instructions of `V`.
unsafe fn words_dotted<V: Vector>(sum: i32, input: &Input) -> V::Float {
    let [a, b] = [&input.bytes[0], &input.bytes[1]];
    // SAFETY: the arrays hold sixteen words, as many as any vector.
    unsafe {
        if V::WORDS {
            return V::to_float(V::dot_words(V::int(sum), V::load_bytes(a.as_ptr()), V::load_bytes(b.as_ptr())));
        }
        let word = |bytes: &[u8], at: usize| i32::from(i16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]));
        let product = |at: usize| word(a, at) * word(b, at);
        let sums: [f32; 16] =
            std::array::from_fn(|lane| sum.wrapping_add(product(2 * lane)).wrapping_add(product(2 * lane + 1)) as f32);
        V::load(sums.as_ptr())
    }
}

/// What reading rows gives.
///
/// # Safety
/// The CPU has the instructions of `V`.
unsafe fn rows<V: Vector>(input: &Input, results: &mut Results) {
    let offsets = std::array::from_fn(|lane| (lane * STRIDE) as isize);
    let _readable = Readable::blocks(input.rows.as_ptr(), STRIDE, ROW);
    // SAFETY: sixteen bytes are there at each offset.
    unsafe {
        V::prefetch(input.rows.as_ptr().cast());
        results.bytes::<V>("gather", V::gather(input.rows.as_ptr(), &offsets));
        for bytes in V::columns16(input.rows.as_ptr(), &offsets) {
            results.bytes::<V>("columns16", bytes);
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
unsafe fn results<V: Vector>(input: &Input) -> Vec<(&'static str, Vec<u32>)> {
    let mut results = Results(Vec::new());
    // SAFETY: the caller's contract is the same.
    unsafe {
        numbers::<V>(input, &mut results);
        bytes::<V>(input, &mut results);
        rows::<V>(input, &mut results);
    }
    results.0
}

/// # Safety
/// The CPU has the instructions of `V`.
unsafe fn check<V: Vector>(isa: Isa) {
    let random = &mut Random(3);
    for _ in 0..200 {
        let input = Input::new(random);
        // SAFETY: `Plain` runs anywhere; the rest is the caller's contract.
        let (found, expected) = unsafe { (results::<V>(&input), results::<Plain>(&input)) };
        for ((name, found), (_, expected)) in found.into_iter().zip(expected) {
            // `only` is asked for lanes that a shorter vector has not.
            let lanes = found.len().min(expected.len());
            assert_eq!(found[..lanes], expected[..lanes], "{}: {name}", isa.name());
        }
        let (mut sums, four) = ([0.0; 4], [random.normal(), -3.0, 1e-9, 7e5]);
        // SAFETY: the arrays hold a vector, four numbers; the rest is the caller's contract.
        unsafe {
            let vectors: Vec<[f32; 16]> =
                four.iter().map(|&size| std::array::from_fn(|_| size * random.normal())).collect();
            let [a, b, c, d] = [0, 1, 2, 3].map(|index| V::load(vectors[index].as_ptr()));
            V::store_sums([a, b, c, d], sums.as_mut_ptr());
            let alone = [V::sum(a), V::sum(b), V::sum(c), V::sum(d)];
            assert_eq!(sums.map(f32::to_bits), alone.map(f32::to_bits), "{}: sums of four", isa.name());
            let alone = [V::most(a), V::most(b), V::most(c), V::most(d)];
            assert_eq!(V::mosts([a, b, c, d]), alone, "{}: the largest of four", isa.name());
            let mut halves = [f16::ZERO; 16];
            V::store_half(d, halves.as_mut_ptr());
            let expected = vectors[3][..V::LANES].iter().map(|&value| f16::from_f32(value).to_bits());
            assert!(halves[..V::LANES].iter().map(|half| half.to_bits()).eq(expected), "{}: halves", isa.name());
        }
    }
    let mut worst = 0.0f64;
    for step in -8700..8800 {
        let x = step as f32 / 100.0;
        let mut lanes = [0.0f32; 16];
        // SAFETY: the array holds a vector; the rest is the caller's contract.
        unsafe { V::store(vector::exp::<V>(V::float(x)), lanes.as_mut_ptr()) };
        worst = worst.max((f64::from(lanes[V::LANES - 1]) / f64::from(x).exp() - 1.0).abs());
    }
    assert!(worst < 2.4e-7, "{}: e^x is off by {worst:e}", isa.name());
    let cut = Activation::SiluCut { limit: 7.0, steepness: 1.702 };
    for activation in [
        Activation::Silu,
        Activation::GeluTanh,
        Activation::Gelu,
        Activation::ReluSquared,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Identity,
        cut,
    ] {
        for (gate, up) in [(f32::NAN, 0.5), (0.5, f32::NAN)] {
            let mut lanes = [0.0f32; 16];
            // SAFETY: as above.
            unsafe { V::store(gated::<V>(activation, V::float(gate), V::float(up)), lanes.as_mut_ptr()) };
            let is_number = lanes[..V::LANES].iter().any(|lane| !lane.is_nan());
            assert!(!is_number, "{}: {activation:?} of {gate} and {up}: {lanes:?}", isa.name());
        }
    }
}

#[test]
fn every_instruction_does_what_plain_arrays_do() {
    for isa in Isa::ALL {
        if Kernels::new(isa).is_none() {
            eprintln!("skipped: this CPU has no {}", isa.name());
            continue;
        }
        // SAFETY: the CPU was just asked.
        unsafe { check_isa(isa) };
    }
}

/// # Safety
/// The CPU has the instruction set.
#[cfg(target_arch = "x86_64")]
unsafe fn check_isa(isa: Isa) {
    use crate::x86_64::{
        avx2::Avx2,
        avx512::{Apart, Avx512, InOrder, InOrderNear},
    };
    // SAFETY: the caller's contract is the same.
    unsafe {
        match isa {
            Isa::Scalar => check::<Plain>(isa),
            Isa::Avx2 => check::<Avx2<false>>(isa),
            Isa::AvxVnni => check::<Avx2<true>>(isa),
            // Whichever of them suits this CPU, it can do all; those beside tiles are the same.
            Isa::Avx512 | Isa::Amx => {
                check::<Avx512<Apart>>(isa);
                check::<Avx512<InOrder>>(isa);
                check::<Avx512<InOrderNear>>(isa);
            }
            Isa::Neon | Isa::NeonMatrix => unreachable!("not on this architecture"),
        }
    }
}

/// # Safety
/// The CPU has the instruction set.
#[cfg(target_arch = "aarch64")]
unsafe fn check_isa(isa: Isa) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        match isa {
            Isa::Scalar => check::<Plain>(isa),
            Isa::Neon => check::<crate::aarch64::neon::Neon<false>>(isa),
            Isa::NeonMatrix => check::<crate::aarch64::neon::Neon<true>>(isa),
            Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 | Isa::Amx => unreachable!("not on this architecture"),
        }
    }
}

/// # Safety
/// The CPU has the instruction set.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn check_isa(isa: Isa) {
    match isa {
        // SAFETY: it runs anywhere.
        Isa::Scalar => unsafe { check::<Plain>(isa) },
        Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 | Isa::Amx | Isa::Neon | Isa::NeonMatrix => {
            unreachable!("not on this architecture")
        }
    }
}
