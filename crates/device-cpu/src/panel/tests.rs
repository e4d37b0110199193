//! Unpackers against the dequantisers of `kauri_formats`, and whole products against sums in `f64`.
//!
//! The first test runs the unpackers on a vector type made of plain arrays, which every machine has and which refuses
//! reads outside a block. The others run on each instruction set that this CPU has.

mod blocks;
mod floats;
mod instructions;
mod plain;
mod requantised;
mod speed;

use std::marker::PhantomData;

use half::f16;
use kauri_arch::{Activation, Linear};
use kauri_device::{Batch, Extent, Matrix, Weight};
use kauri_formats::Quant;

use super::{Form, Place, Scales, Sink, Unpack, scales};
use crate::activation::{Activations, Rows, SPAN};
use crate::detect::{Isa, Kernels, Packing, Phase};
use crate::foresight;
use crate::matmul::{self, Group, Input, Job, Scratch, Source};
use crate::pool::Pool;
use crate::product::{Ahead, Finish, LANES_MAX};
use crate::quant::{self, Visitor};
use crate::vector::halves_max;
use blocks::{Random, fixtures, stored_blocks};
use plain::{Plain, Readable};

/// The types that are multiplied as bytes.
fn types() -> impl Iterator<Item = Quant> {
    struct Any;
    impl Visitor for Any {
        type Output = ();
        fn visit<U: Unpack>(self) {}
    }
    Quant::ALL.into_iter().filter(|&quant| quant::visit(quant, Any).is_some())
}

#[test]
fn unpacks_what_the_dequantisers_read() {
    assert_eq!(types().count(), 25);
    for quant in types() {
        for blocks in [stored_blocks(quant)].iter().chain(&fixtures(quant)) {
            quant::visit(quant, Compare { quant, blocks }).expect("a type with an unpacker");
        }
    }
}

/// Unpacks blocks, sixteen rows at a time, and compares each value.
struct Compare<'a> {
    quant: Quant,
    blocks: &'a [u8],
}

impl Visitor for Compare<'_> {
    type Output = ();

    fn visit<U: Unpack>(self) {
        assert_eq!((U::COLUMNS, U::BYTES), (self.quant.block_len(), self.quant.block_bytes()));
        assert!(!U::Form::WIDE || U::OFFSET == 128, "{}: wide bytes are signed ones raised", self.quant.name());
        let mut expected = vec![0.0; U::COLUMNS];
        for sixteen in self.blocks.chunks(LANES_MAX * U::BYTES) {
            let count = sixteen.len() / U::BYTES;
            let unpacked = Unpacked::of::<U>(sixteen);
            in_order::<U>(sixteen);
            assert!(
                unpacked.bytes.iter().all(|&byte| byte <= U::MOST && byte <= U::Form::MOST),
                "{}: bytes over {}",
                self.quant.name(),
                U::MOST
            );
            let raised = if U::Form::MINIMUM { 0 } else { i32::from(U::Form::MOST.div_ceil(2)) };
            assert!(
                raised == 0 || unpacked.bytes.iter().all(|&byte| (i32::from(byte) - U::OFFSET).abs() <= raised),
                "{}: values over {raised}",
                self.quant.name(),
            );
            for lane in 0..count {
                self.quant.dequantise(&sixteen[lane * U::BYTES..][..U::BYTES], &mut expected);
                for (column, &expected) in expected.iter().enumerate().filter(|(_, expected)| expected.is_finite()) {
                    let (product, minimum) = unpacked.value::<U>(lane, column);
                    // Two roundings to f32.
                    let tolerance = 2e-7 * (product.abs() + minimum.abs()) + f64::from(f32::MIN_POSITIVE) * 1e-6;
                    let error = (product - minimum - f64::from(expected)).abs();
                    assert!(
                        error <= tolerance,
                        "{}: column {column}: {product} - {minimum}, {expected}",
                        self.quant.name()
                    );
                }
            }
        }
    }
}

/// Panics unless of each run of columns the first comes before the others and the last behind them: sums of sixteen bits begin and end there.
fn in_order<U: Unpack>(blocks: &[u8]) {
    let _readable = Readable::blocks(blocks.as_ptr(), U::BYTES, U::BYTES);
    let (most, group) = (halves_max(U::Form::MOST), U::Form::GROUP / 4);
    let run = if U::Form::MINIMUM || most == 1 { most.clamp(1, group) } else { group };
    let mut order = Order { run, come: [0; 64] };
    // SAFETY: all rows are the first block; `Plain` runs anywhere.
    unsafe { U::unpack::<Plain>(blocks.as_ptr(), &[0; LANES_MAX], &mut order) };
}

/// How many fours of each run have come.
struct Order {
    run: usize,
    come: [usize; 64],
}

impl Sink<Plain> for Order {
    unsafe fn columns(&mut self, index: usize, _: [[u8; 4]; 16]) {
        let (come, place) = (&mut self.come[index / self.run], index % self.run);
        assert!(place != 0 || *come == 0, "four number {index} does not come first");
        assert!(place != self.run - 1 || *come == self.run - 1, "four number {index} does not come last");
        *come += 1;
    }

    unsafe fn scale(&mut self, _: usize, _: [f32; 16]) {}

    unsafe fn block_scale(&mut self, _: [f32; 16]) {}

    unsafe fn minimum(&mut self, _: usize, _: [f32; 16]) {}
}

/// One block of sixteen rows.
struct Unpacked {
    bytes: Vec<u8>,
    scales: Vec<f32>,
    minimums: Vec<f32>,
    blocks: Vec<f32>,
}

impl Unpacked {
    /// Unpacks up to sixteen blocks with [`Plain`]; the first stands in where there are fewer.
    fn of<U: Unpack>(blocks: &[u8]) -> Self {
        // Between the blocks lie bytes that the unpacker must not read.
        let stride = U::BYTES + 32;
        let mut memory = vec![0xa5; LANES_MAX * stride + 32];
        for lane in 0..LANES_MAX {
            let block = blocks.chunks(U::BYTES).nth(lane).unwrap_or(&blocks[..U::BYTES]);
            memory[32 + lane * stride..][..U::BYTES].copy_from_slice(block);
        }
        let base = memory[32..].as_ptr();
        let _readable = Readable::blocks(base, stride, U::BYTES);
        let offsets = std::array::from_fn(|lane| (lane * stride) as isize);
        let groups = U::COLUMNS / U::Form::GROUP;
        let mut unpacked = Self {
            bytes: vec![0xff; U::COLUMNS * LANES_MAX],
            scales: vec![f32::NAN; groups * LANES_MAX],
            minimums: vec![if U::Form::MINIMUM { f32::NAN } else { 0.0 }; groups * LANES_MAX],
            blocks: vec![if scales::<Plain, U::Form>() == Scales::Numbers { 1.0 } else { f32::NAN }; 2 * LANES_MAX],
        };
        let mut out = Place::<Plain, U::Form> {
            bytes: unpacked.bytes.as_mut_ptr(),
            scales: unpacked.scales.as_mut_ptr(),
            minimums: unpacked.minimums.as_mut_ptr(),
            blocks: unpacked.blocks.as_mut_ptr(),
            spans: U::COLUMNS / SPAN,
            block: [1.0; LANES_MAX],
            form: PhantomData,
        };
        // SAFETY: the blocks are there, and the parts of `out` have room for one; `Plain` runs anywhere.
        unsafe { U::unpack::<Plain>(base, &offsets, &mut out) };
        unpacked
    }

    /// The scaled byte and the minimum of a value.
    fn value<U: Unpack>(&self, lane: usize, column: usize) -> (f64, f64) {
        let byte = self.bytes[(column / 4 * LANES_MAX + lane) * 4 + column % 4];
        let group = column / U::Form::GROUP * LANES_MAX + lane;
        let scale = f64::from(self.scales[group]) * f64::from(self.blocks[column / SPAN * LANES_MAX + lane]);
        let product = f64::from(i32::from(byte) - U::OFFSET) * scale;
        (product, f64::from(self.minimums[group]))
    }
}

/// Calls `test` with all kernels of each instruction set that has integer kernels.
fn for_each_isa(mut test: impl FnMut(Kernels)) {
    for isa in Isa::ALL.into_iter().filter(|&isa| isa != Isa::Scalar) {
        let all = Kernels::all_of(isa);
        if all.is_empty() {
            eprintln!("skipped: this CPU has no {}", isa.name());
        }
        for (index, kernels) in all.into_iter().enumerate() {
            // Names are those of instruction sets: should one of several fail, which.
            println!("{}, kernels number {index}", isa.name());
            test(kernels);
        }
    }
}

/// A matrix of blocks drawn from those of its type.
fn matrix(quant: Quant, rows: usize, columns: usize, random: &mut Random) -> Linear<Weight> {
    let blocks = stored_blocks(quant);
    let blocks: Vec<&[u8]> = blocks.chunks(quant.block_bytes()).collect();
    let count = rows * columns / quant.block_len();
    let data: Vec<u8> = (0..count).flat_map(|_| blocks[random.below(blocks.len())]).copied().collect();
    let weight = Weight::Matrix(Matrix { quant, rows, columns, data: data.into(), scales: None });
    let bias = (0..rows).map(|_| random.normal()).collect();
    Linear { rows: rows as u32, columns: columns as u32, weight, bias: Some(Weight::Vector(bias)) }
}

/// Rows of activations: one of zeros, one with outliers, groups of zeros.
fn activations(tokens: usize, columns: usize, random: &mut Random) -> Vec<f32> {
    let mut x: Vec<f32> = (0..tokens * columns).map(|_| random.normal()).collect();
    for (token, x) in x.chunks_exact_mut(columns).enumerate() {
        match token % 5 {
            1 => x.fill(0.0),
            2 => x.iter_mut().step_by(37).for_each(|x| *x *= 50.0),
            3 => x[..32].fill(0.0),
            _ => {}
        }
    }
    x
}

fn multiply(kernels: Kernels, linear: &Linear<Weight>, x: &[f32], threads: usize) -> Vec<f32> {
    let tokens = x.len() / linear.columns as usize;
    assert!(kernels.strips(linear.weight.matrix().quant, linear.columns as usize, tokens, Phase::Decode).is_some());
    let mut scratch = Scratch::new(kernels, tokens, linear.columns as usize, 0, threads);
    let mut out = vec![f32::NAN; tokens * linear.rows as usize];
    matmul::linear(
        &mut Pool::new(threads),
        &mut scratch,
        Source::Rows(x),
        (Extent::Outputs, tokens),
        &mut [Job { linear, gate: None, finish: Finish::Store, out: &mut out, then: None }],
    );
    out
}

/// Holds every output against the sum in `f64` of the same quantised activations and the dequantised weights.
fn check_product(kernels: Kernels, linear: &Linear<Weight>, x: &[f32]) {
    let columns = linear.columns as usize;
    let matrix = linear.weight.matrix();
    let bias = linear.bias.as_ref().expect("made with one").vector();
    let out = multiply(kernels, linear, x, 1);
    let x = quantised(x, columns);
    let mut weights = vec![0.0; columns];
    for row in 0..matrix.rows {
        matrix.quant.dequantise(matrix.row(row), &mut weights);
        for (token, x) in x.chunks_exact(columns).enumerate() {
            let products = weights.iter().zip(x).map(|(weight, x)| f64::from(*weight) * x);
            check_sum(matrix, (row, token), products, bias[row], out[token * matrix.rows + row]);
        }
    }
}

/// Holds an output against the sum of its products and its bias.
fn check_sum(
    Matrix { quant, rows, columns, .. }: &Matrix,
    (row, token): (usize, usize),
    products: impl Iterator<Item = f64> + Clone,
    bias: f32,
    found: f32,
) {
    let (found, bias) = (f64::from(found), f64::from(bias));
    let sum = products.clone().sum::<f64>() + bias;
    // Of the sum of magnitudes: a hundred roundings of partial sums, far below one part in 127 of a code.
    let tolerance = 1e-5 * (products.map(f64::abs).sum::<f64>() + bias.abs());
    assert!(
        (found - sum).abs() <= tolerance,
        "{} {rows}x{columns}, row {row}, token {token}: {found}, expected {sum} within {tolerance:e}",
        quant.name(),
    );
}

/// Activations as the kernels see them.
fn quantised(x: &[f32], columns: usize) -> Vec<f64> {
    let tokens = x.len() / columns;
    let mut activations = Activations::new(x.len());
    let (rows, widest) = (Rows { first: 0, tokens }, 8);
    activations.begin(tokens, columns, std::iter::empty());
    let writer = activations.writer();
    for (token, x) in x.chunks_exact(columns).enumerate() {
        // SAFETY: one row at a time.
        unsafe { writer.bytes.quantise(rows.tile_of(token, widest), (token, 0), x) };
    }
    let activations = &activations;
    (0..tokens)
        .flat_map(|token| (0..columns).map(move |column| activations.value((rows, widest), token, column)))
        .collect()
}

#[test]
fn products_equal_sums_in_f64() {
    for_each_isa(|kernels| {
        for quant in types() {
            let random = &mut Random(7);
            for rows in [1, 2, 15, 16, 17, 31, 33, 255, 257] {
                let linear = matrix(quant, rows, quant.block_len(), random);
                check_product(kernels, &linear, &activations(3, quant.block_len(), random));
            }
            // Several blocks; a chunk of the panel, and more, with and without a rest.
            for columns in [768, 1024, 1280, 2048, 2304] {
                let linear = matrix(quant, 17, columns, random);
                check_product(kernels, &linear, &activations(17, columns, random));
            }
        }
    });
}

/// The largest codes and the smallest, with activations that are the largest of either sign: sums of sixteen bits are as large as they can be.
#[test]
fn products_of_the_largest_codes_equal_sums_in_f64() {
    // Where a block's scales stand in half precision, how many there are, and where those of groups.
    let places = [
        (Quant::Q4_0, 0, 1, 0..0),
        (Quant::Q5_0, 0, 1, 0..0),
        (Quant::Q6_K, 208, 1, 192..208),
        (Quant::Q4_K, 0, 2, 4..16),
    ];
    for_each_isa(|kernels| {
        for (quant, scale, count, groups) in places.clone() {
            let random = &mut Random(29);
            let mut linear = matrix(quant, 17, 512, random);
            let mut data = Vec::new();
            for _ in 0..linear.weight.matrix().data.len() / quant.block_bytes() {
                let codes = [0x00, 0xff][random.below(2)];
                let mut block = vec![codes; quant.block_bytes()];
                block[groups.clone()].fill([0x7f, 0x81][random.below(2)]);
                block[scale..scale + 2 * count].copy_from_slice(&f16::ONE.to_le_bytes().repeat(count));
                data.extend(block);
            }
            let Matrix { rows, columns, .. } = *linear.weight.matrix();
            linear.weight = Weight::Matrix(Matrix { quant, rows, columns, data: data.into(), scales: None });
            let mut x = vec![1.0f32; 7 * columns];
            x[columns..].iter_mut().for_each(|x| *x = [1.0, -1.0][random.below(2)]);
            x[columns..2 * columns].iter_mut().step_by(2).for_each(|x| *x = -1.0);
            check_product(kernels, &linear, &x);
            check_product(kernels, &linear, &x[..columns]);
        }
    });
}

/// Rows so long that not all tokens meet a strip before the next one does.
#[test]
fn blocks_of_tokens_are_the_same_bits_as_few_tokens() {
    // Two more than a block: the last tile of six and two begins in the block before.
    let (rows, columns, tokens) = (140, 8192, 194);
    for_each_isa(|kernels| {
        for quant in [Quant::Q8_0, Quant::Q4_K, Quant::BF16] {
            let random = &mut Random(13);
            let linear = matrix(quant, rows, columns, random);
            let x = activations(tokens, columns, random);
            let bits = |out: Vec<f32>| out.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let few: Vec<u32> = x.chunks(40 * columns).flat_map(|x| bits(multiply(kernels, &linear, x, 1))).collect();
            let alone = bits(multiply(kernels, &linear, &x[..columns], 1));
            assert!(few[..rows] == alone, "{} {}, alone", kernels.isa().name(), quant.name());
            for threads in [1, 2] {
                let name = format!("{} {}, {threads} threads", kernels.isa().name(), quant.name());
                assert!(few == bits(multiply(kernels, &linear, &x, threads)), "{name}");
            }
        }
    });
}

#[test]
fn a_token_is_the_same_bits_in_any_batch_on_any_threads() {
    let (rows, columns, tokens) = (67, 1280, 17);
    for_each_isa(|kernels| {
        for quant in types() {
            let random = &mut Random(11);
            let linear = matrix(quant, rows, columns, random);
            let x = activations(tokens, columns, random);
            let bits = |out: Vec<f32>| out.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let together = bits(multiply(kernels, &linear, &x, 1));
            for threads in [2, 5] {
                assert!(
                    together == bits(multiply(kernels, &linear, &x, threads)),
                    "{}, {threads} threads",
                    quant.name()
                );
            }
            for batch in 1..tokens {
                for (index, x) in x.chunks(batch * columns).enumerate() {
                    let part = bits(multiply(kernels, &linear, x, 1));
                    let expected = &together[index * batch * rows..][..part.len()];
                    assert!(part == expected, "{}, batches of {batch}, number {index}", quant.name());
                }
            }
        }
    });
}

/// Tiles of tokens that are full and that are not, strips that end in either vector of rows, parts of a panel that are not the last, rows that
/// end within a span of activations.
#[test]
fn a_token_among_many_is_the_same_bits_as_alone() {
    for_each_isa(|kernels| {
        use Quant::{IQ4_NL, IQ4_XS, MXFP4, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
        for quant in [Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, IQ4_NL, IQ4_XS, MXFP4] {
            let random = &mut Random(17);
            let shapes = [(1, 256, 24), (16, 512, 48), (33, 768, 31), (40, 1280, 33), (7, 256, 65), (35, 1184, 40)];
            for (rows, columns, tokens) in shapes.into_iter().filter(|shape| shape.1 % quant.block_len() == 0) {
                let linear = matrix(quant, rows, columns, random);
                let x = activations(tokens, columns, random);
                let together = multiply(kernels, &linear, &x, 1);
                for (token, x) in x.chunks_exact(columns).enumerate() {
                    let alone = multiply(kernels, &linear, x, 1);
                    for (row, (alone, found)) in alone.iter().zip(&together[token * rows..]).enumerate() {
                        let name = format!("{} {}: {rows}x{columns}", kernels.isa().name(), quant.name());
                        assert_eq!(alone.to_bits(), found.to_bits(), "{name}, row {row}, token {token} of {tokens}");
                    }
                }
            }
        }
    });
}

/// Few tokens, as many as there are kernels for: strips that are whole and that are not, rows that end within a span of activations.
#[test]
fn a_token_among_few_is_the_same_bits_as_alone() {
    for_each_isa(|kernels| {
        for quant in [Quant::Q4_0, Quant::Q8_0] {
            let random = &mut Random(23);
            for (rows, columns) in [(64, 32), (32, 544), (77, 1056), (96, 1312)] {
                let linear = matrix(quant, rows, columns, random);
                for tokens in 2..=9 {
                    let x = activations(tokens, columns, random);
                    let together = multiply(kernels, &linear, &x, 2);
                    for (token, x) in x.chunks_exact(columns).enumerate() {
                        let alone = multiply(kernels, &linear, x, 1);
                        let found = &together[token * rows..][..rows];
                        let same = alone.iter().zip(found).all(|(alone, found)| alone.to_bits() == found.to_bits());
                        let name = format!("{} {}: {rows}x{columns}", kernels.isa().name(), quant.name());
                        assert!(same, "{name}, token {token} of {tokens}");
                    }
                }
            }
        }
    });
}

/// An activation that is no number, or no finite one: nothing that looks like a number comes of it, and nothing changes for other tokens.
#[test]
fn an_activation_that_is_no_number_is_in_every_output() {
    let (rows, columns, tokens) = (37, 1280, 11);
    for_each_isa(|kernels| {
        for quant in types() {
            let random = &mut Random(47);
            let linear = matrix(quant, rows, columns, random);
            let x = activations(tokens, columns, random);
            let sound = multiply(kernels, &linear, &x, 1);
            for (broken, column) in [(0, 0), (1, 255), (4, 700), (10, 1279)] {
                let mut x = x.clone();
                x[broken * columns + column] = if column == 700 { f32::NEG_INFINITY } else { f32::NAN };
                let found = multiply(kernels, &linear, &x, 1);
                for (token, (found, sound)) in found.chunks(rows).zip(sound.chunks(rows)).enumerate() {
                    let is_right = if token == broken {
                        found.iter().all(|value| value.is_nan())
                    } else {
                        found.iter().zip(sound).all(|(found, sound)| found.to_bits() == sound.to_bits())
                    };
                    assert!(is_right, "{} {}, token {token} of {broken}", kernels.isa().name(), quant.name());
                }
            }
        }
    });
}

/// Groups of far fewer rows than they have on average, by which kernels are chosen, and of more.
#[test]
fn a_row_in_a_group_is_the_same_bits_as_alone() {
    let sizes = [1, 2, 15, 16, 17, 31, 97];
    let (rows, columns, tokens) = (37, 768, sizes.iter().sum());
    for_each_isa(|kernels| {
        for quant in [Quant::Q4_K, Quant::Q6_K, Quant::Q8_0] {
            let random = &mut Random(19);
            let matrices = sizes.map(|_| matrix(quant, rows, columns, random));
            let x = activations(tokens, columns, random);
            let group = |index: usize| {
                let first = sizes[..index].iter().sum();
                Group { linear: &matrices[index], gate: None, tokens: (first, sizes[index]), to: first }
            };
            let mut scratch = Scratch::new(kernels, tokens, columns, 0, 2);
            let mut out = vec![f32::NAN; tokens * rows];
            let input = Input { x: &x, order: None, tokens };
            let pool = &mut Pool::new(2);
            matmul::grouped(pool, &mut scratch, input, (sizes.len(), &group), Finish::Store, &mut out);
            for (index, matrix) in matrices.iter().enumerate() {
                let first = group(index).to;
                for token in first..first + sizes[index] {
                    let alone = multiply(kernels, matrix, &x[token * columns..][..columns], 1);
                    let found = &out[token * rows..][..rows];
                    let same = alone.iter().zip(found).all(|(alone, found)| alone.to_bits() == found.to_bits());
                    assert!(same, "{} {}, token {token}, group {index}", kernels.isa().name(), quant.name());
                }
            }
        }
    });
}

/// A product of few tokens and its gate: the rows that each thread has of both, as far as they are asked for.
#[test]
fn threads_foresee_where_they_begin() {
    let (rows, columns) = (512, 256);
    for_each_isa(|kernels| {
        let random = &mut Random(23);
        let [up, gate] = [(); 2].map(|()| matrix(Quant::Q8_0, rows, columns, random));
        for tokens in [1, 8, 9] {
            let (x, mut out) = (activations(tokens, columns, random), vec![0.0; tokens * rows]);
            let (mut scratch, mut pool) = (Scratch::new(kernels, tokens, columns, 0, 2), Pool::new(2));
            scratch.begin(&Batch::default());
            let finish = Finish::Gate(Activation::Silu);
            let job = Job { linear: &up, gate: Some(&gate), finish, out: &mut out, then: None };
            matmul::linear(&mut pool, &mut scratch, Source::Rows(&x), (Extent::Outputs, tokens), &mut [job]);
            scratch.begin(&Batch::default());
            scratch.foresee(&mut pool);
            for thread in 0..2 {
                let places = [&gate, &up].map(|linear| {
                    let matrix = linear.weight.matrix();
                    let own = &matrix.data[thread * rows / 2 * matrix.row_bytes()..][..64 << 10];
                    foresight::Place::of(own)
                });
                let expected = if tokens > 8 { &[][..] } else { &places };
                assert_eq!(pool.take_foreseen(thread), expected, "{} {tokens} tokens", kernels.isa().name());
            }
        }
    });
}

/// Where lines are that are asked for during a part of a strip, and how many.
#[test]
fn a_strip_asks_for_what_lies_behind_it_or_for_what_comes_then() {
    let stored = [0; 1024];
    let asked = |then, distance_bytes| {
        let ahead = Ahead::during::<Plain>((&stored, 64..576), distance_bytes, then);
        let first = ahead.line::<Plain>(0);
        // Half as far behind the strip, whatever is asked for the first time.
        assert_eq!(ahead.again(first).addr(), stored.as_ptr().addr() + 64 + distance_bytes / 2);
        assert_eq!(ahead.once().again(first), first);
        (first.addr(), ahead.each(1))
    };
    let (start, next) = (stored.as_ptr().addr(), |bytes| Some(foresight::Place { start: 640, bytes }));
    assert_eq!(asked(None, 1024), (start + 1024 + 64, 8));
    assert_eq!(asked(next(1024), 1024), (704, 8));
    assert_eq!(asked(next(320), 1024), (704, 4));
    // The strip's own end is not forgotten.
    assert_eq!(asked(next(1024), 512), (start + 512 + 64, 8));
}

/// More strips than a token meets together, and a short last one.
#[test]
fn strips_together_are_the_same_bits_as_in_pieces() {
    let (rows, columns) = (2500, 512);
    for_each_isa(|kernels| {
        let random = &mut Random(31);
        let x = activations(1, columns, random);
        for quant in [Quant::Q8_0, Quant::Q4_0, Quant::Q4_K, Quant::Q6_K, Quant::BF16, Quant::F16, Quant::F32] {
            let [up, gate] = [(); 2].map(|()| match quant {
                Quant::BF16 | Quant::F16 | Quant::F32 => floats::matrix(quant, rows, columns, random).0,
                _ => matrix(quant, rows, columns, random),
            });
            let results = [1, 5].map(|threads| {
                let (mut scratch, mut pool) = (Scratch::new(kernels, 1, columns, 0, threads), Pool::new(threads));
                [(Finish::Store, None), (Finish::Gate(Activation::Silu), Some(&gate))].map(|(finish, gate)| {
                    let mut out = vec![0.0; rows];
                    let job = Job { linear: &up, gate, finish, out: &mut out, then: None };
                    matmul::linear(&mut pool, &mut scratch, Source::Rows(&x), (Extent::Outputs, 1), &mut [job]);
                    out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                })
            });
            assert!(results[0] == results[1], "{} {}", quant.name(), kernels.isa().name());
        }
    });
}

/// What one token's wide values are packed to by the threads that have them, for the product behind.
#[test]
fn what_is_packed_where_it_is_made_gives_the_same_bits() {
    for_each_isa(|kernels| {
        let random = &mut Random(37);
        // A short last span, where blocks are so short.
        for (quant, wide) in [(Quant::Q8_0, 2464), (Quant::Q4_0, 2464), (Quant::Q6_K, 2560), (Quant::BF16, 2464)] {
            let kernels = kernels.rounding();
            let mut matrix = |rows, columns| match quant {
                Quant::BF16 => floats::matrix(quant, rows, columns, random).0,
                _ => matrix(quant, rows, columns, random),
            };
            let (gate, up, down) = (matrix(wide, 256), matrix(wide, 256), matrix(96, wide));
            let (x, finish) = (activations(1, 256, random), Finish::Gate(Activation::Silu));
            let run = |threads, packs, spoils: bool, other_first: bool| {
                let (mut scratch, mut pool) = (Scratch::new(kernels, 1, wide, 0, threads), Pool::new(threads));
                let (mut held, mut out, mut other) = (vec![0.0; wide], vec![0.0; 96], vec![0.0; wide]);
                let then = Some(&down).filter(|_| packs);
                let job = Job { linear: &up, gate: Some(&gate), finish, out: &mut held, then };
                matmul::linear(&mut pool, &mut scratch, Source::Rows(&x), (Extent::Outputs, 1), &mut [job]);
                if spoils {
                    held.fill(1.0);
                }
                if other_first {
                    let job = Job { linear: &up, gate: None, finish: Finish::Store, out: &mut other, then: None };
                    matmul::linear(&mut pool, &mut scratch, Source::Rows(&x), (Extent::Outputs, 1), &mut [job]);
                }
                let job = Job { linear: &down, gate: None, finish: Finish::Store, out: &mut out, then: None };
                matmul::linear(&mut pool, &mut scratch, Source::Rows(&held), (Extent::Outputs, 1), &mut [job]);
                out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let (expected, of_ones) = (run(1, false, false, false), run(1, false, true, false));
            let case = format!("{} {}", quant.name(), kernels.isa().name());
            for threads in [1, 2, 5] {
                assert!(run(threads, true, false, false) == expected, "{case}, {threads} threads");
                // It is read where it was packed, but not behind another product.
                let takes = kernels.strips(quant, wide, 1, Phase::Decode).expect("a kernel").packing;
                let packs = matches!(takes, Packing::Bytes(_) | Packing::Brains);
                let read = if packs { &expected } else { &of_ones };
                assert!(run(threads, true, true, false) == *read, "{case}, {threads} threads, spoilt");
                assert!(run(threads, true, true, true) == of_ones, "{case}, {threads} threads, another product first");
            }
        }
    });
}
