//! Weights that are rounded once more for a prompt, against sums in `f64` of what they are rounded to by the same formula.

use super::*;

/// The types of which kernels may round weights once more.
const TYPES: [Quant; 5] = [Quant::Q2_K, Quant::Q3_K, Quant::Q4_K, Quant::Q5_K, Quant::Q6_K];

/// Calls `test` with all kernels that have a kernel of their own for prompts.
fn for_each_prefill(mut test: impl FnMut(Kernels)) {
    let mut found = false;
    for_each_isa(|kernels| {
        let kernels = kernels.rounding();
        if kernels.prefills() {
            found = true;
            test(kernels);
        }
    });
    if !found {
        eprintln!("skipped: no instruction set of this CPU has kernels of their own for prompts");
    }
}

/// The product of a batch: of sequences of so many new tokens of their prompts and behind them.
fn multiply_batch(
    kernels: Kernels,
    linear: &Linear<Weight>,
    x: &[f32],
    sequences: &[(usize, usize)],
    threads: usize,
) -> Vec<f32> {
    let tokens = x.len() / linear.columns as usize;
    let mut batch = Batch::default();
    for (slot, &(prompt, written)) in (0..).zip(sequences) {
        batch.push(&vec![0; prompt + written], 3, &[], slot, 64, 0);
        batch.write(3 + prompt as u32);
    }
    assert_eq!(batch.tokens.len(), tokens, "a row for each token");
    let mut scratch = Scratch::new(kernels, tokens, linear.columns as usize, 0, threads);
    scratch.begin(&batch);
    let mut out = vec![f32::NAN; tokens * linear.rows as usize];
    let job = Job { linear, gate: None, finish: Finish::Store, out: &mut out, then: None };
    matmul::linear(&mut Pool::new(threads), &mut scratch, Source::Rows(x), (Extent::Tokens, tokens), &mut [job]);
    out
}

/// Rounds the weights of a row: what a kernel should come to, and how far each may be from what is stored.
struct Round<'a> {
    row: &'a [u8],
}

impl Visitor for Round<'_> {
    type Output = Vec<(f64, f64)>;

    fn visit<U: Unpack>(self) -> Self::Output {
        self.row.chunks(U::BYTES).flat_map(of_block::<U>).collect()
    }
}

fn of_block<U: Unpack>(block: &[u8]) -> Vec<(f64, f64)> {
    let unpacked = Unpacked::of::<U>(block);
    let scale_of = |column: usize| {
        unpacked.scales[column / U::Form::GROUP * LANES_MAX] * unpacked.blocks[column / SPAN * LANES_MAX]
    };
    let minimum_of = |column: usize| unpacked.minimums[column / U::Form::GROUP * LANES_MAX];
    let largest = |column: usize| {
        let (scale, minimum) = (scale_of(column), minimum_of(column));
        let ends = if U::Form::MINIMUM { [f32::from(U::MOST), 0.0] } else { [U::OFFSET as f32, 0.0] };
        ends.map(|end| (scale * end - minimum).abs()).into_iter().fold(0.0, f32::max)
    };
    let mut rounded = Vec::new();
    for span in (0..U::COLUMNS).step_by(SPAN) {
        let most = (span..span + SPAN).map(largest).fold(0.0, f32::max);
        let inverse = 256.0 * 127.0 / most.max(f32::MIN_POSITIVE);
        for column in span..span + SPAN {
            let byte = i64::from(unpacked.bytes[(column / 4 * LANES_MAX) * 4 + column % 4]);
            let factor = f64::from((scale_of(column) * inverse).round_ties_even());
            let start = 128.5 * 256.0 - f64::from(minimum_of(column) * inverse) - f64::from(U::OFFSET) * factor;
            let units = byte * factor as i64 + start.round_ties_even() as i64;
            assert!((0..1 << 16).contains(&units), "{units} in sixteen bits");
            let scale = f64::from(most) / 127.0;
            // Half of a step, and what the factor and the start are rounded by.
            rounded.push((((units >> 8) - 128) as f64 * scale, 0.63 * scale));
        }
    }
    rounded
}

/// Holds every output of a prompt against sums in `f64`.
fn check_prompt(kernels: Kernels, linear: &Linear<Weight>, x: &[f32]) {
    let (columns, matrix) = (linear.columns as usize, linear.weight.matrix());
    let bias = linear.bias.as_ref().expect("made with one").vector();
    let out = multiply_batch(kernels, linear, x, &[(x.len() / columns, 0)], 1);
    let x = quantised(x, columns);
    let mut stored = vec![0.0; columns];
    for row in 0..matrix.rows {
        let weights = quant::visit(matrix.quant, Round { row: matrix.row(row) }).expect("a type of bytes");
        matrix.quant.dequantise(matrix.row(row), &mut stored);
        for (column, (&(weight, most), &stored)) in weights.iter().zip(&stored).enumerate() {
            let error = (weight - f64::from(stored)).abs();
            assert!(error <= most + 1e-12, "{}, column {column}: {weight} for {stored}", matrix.quant.name());
        }
        for (token, x) in x.chunks_exact(columns).enumerate() {
            let products = weights.iter().zip(x).map(|((weight, _), x)| weight * x);
            check_sum(matrix, (row, token), products, bias[row], out[token * matrix.rows + row]);
        }
    }
}

#[test]
fn products_of_a_prompt_equal_sums_of_what_weights_are_rounded_to() {
    for_each_prefill(|kernels| {
        for quant in TYPES {
            let random = &mut Random(37);
            for rows in [1, 2, 31, 33, 255, 257] {
                let linear = matrix(quant, rows, 256, random);
                check_prompt(kernels, &linear, &activations(3, 256, random));
            }
            for (columns, tokens) in [(256, 1), (768, 2), (1024, 8), (1280, 17), (2304, 13)] {
                let linear = matrix(quant, 17, columns, random);
                check_prompt(kernels, &linear, &activations(tokens, columns, random));
            }
        }
    });
}

/// A scale of a broken file that is no number: nothing that looks like one comes of it.
#[test]
fn what_is_not_a_number_stays_none() {
    for_each_prefill(|kernels| {
        for (quant, scale) in
            [(Quant::Q2_K, 80), (Quant::Q3_K, 108), (Quant::Q4_K, 0), (Quant::Q4_K, 2), (Quant::Q6_K, 208)]
        {
            let random = &mut Random(43);
            let mut linear = matrix(quant, 2, 512, random);
            let matrix = linear.weight.matrix();
            let mut data = matrix.data.to_vec();
            data[matrix.row_bytes() + scale..][..2].copy_from_slice(&f16::NAN.to_le_bytes());
            let Matrix { rows, columns, .. } = *matrix;
            linear.weight = Weight::Matrix(Matrix { quant, rows, columns, data: data.into(), scales: None });
            let out = multiply_batch(kernels, &linear, &activations(1, 512, random), &[(1, 0)], 1);
            assert!(out[0].is_finite() && !out[1].is_finite(), "{}: {out:?}", quant.name());
        }
    });
}

/// Which kernel a token meets hangs on what it is to its sequence; its bits do not on who else is in the batch, on threads or on cuts.
#[test]
fn a_prompts_tokens_and_those_behind_it_are_the_same_bits_in_any_batch() {
    let (rows, columns, tokens) = (140, 1280, 40);
    for_each_prefill(|kernels| {
        for quant in [Quant::Q4_K, Quant::Q6_K, Quant::Q8_0, Quant::BF16] {
            let random = &mut Random(41);
            let linear = match quant {
                Quant::BF16 => floats::matrix(quant, rows, columns, random).0,
                _ => matrix(quant, rows, columns, random),
            };
            let x = activations(tokens, columns, random);
            let bits = |out: Vec<f32>| out.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let all =
                |sequences: &[(usize, usize)], threads| bits(multiply_batch(kernels, &linear, &x, sequences, threads));
            let (prompt, written) = (all(&[(tokens, 0)], 1), all(&[(0, tokens)], 1));
            assert_eq!(prompt == written, matches!(quant, Quant::Q8_0 | Quant::BF16), "{}", quant.name());
            for threads in [1, 2, 5] {
                let name = format!("{}, {threads} threads", quant.name());
                assert!(all(&[(tokens, 0)], threads) == prompt, "{name}");
                for sequences in [&[(0, 1), (17, 0), (0, 1), (0, 1), (2, 18)][..], &[(1, 0), (0, 2), (37, 0)]] {
                    let (mut at, found) = (0, all(sequences, threads));
                    for (expected, count) in
                        sequences.iter().flat_map(|&(read, wrote)| [(&prompt, read), (&written, wrote)])
                    {
                        let range = at * rows..(at + count) * rows;
                        assert!(found[range.clone()] == expected[range], "{name}, token {at} of {sequences:?}");
                        at += count;
                    }
                }
            }
            for count in [1, 2, 7] {
                let cut = x
                    .chunks(count * columns)
                    .flat_map(|x| bits(multiply_batch(kernels, &linear, x, &[(x.len() / columns, 0)], 2)));
                assert!(cut.eq(prompt.iter().copied()), "{}, chunks of {count}", quant.name());
            }
        }
    });
}
