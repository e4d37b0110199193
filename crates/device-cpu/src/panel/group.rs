//! The products of one group of a panel with the tokens of a tile.

use super::{Form, Input, Minimums, Partial, begun_with, dot, in_halves, minimums, run, run_begun};
use crate::activation;
use crate::product::Panel;
use crate::quant::written_out;
use crate::vector::Vector;

/// Adds the products of group number `first + index` of the columns, up to the scale of its activations; `index` is that among those that are
/// added up as one.
///
/// # Safety
/// The panel and the input hold `columns` columns, and the group; the CPU has the instructions of `V`.
#[inline(always)]
pub unsafe fn group<V: Vector, F: Form, const R: usize, const T: usize>(
    columns: usize,
    panel: &Panel,
    input: &Input,
    (first, index): (usize, usize),
    partial: &mut [[Partial<V>; T]; R],
) {
    let number = first + index;
    let (block, inside) = (number * F::GROUP / activation::GROUP, number * F::GROUP % activation::GROUP);
    // SAFETY: panel and input have the group, of `F::GROUP` columns.
    unsafe {
        let values = input.values.add(block * input.width * activation::GROUP + inside);
        let mut sum = [[V::int(0); T]; R];
        for first in (0..F::GROUP / 4).step_by(const { run::<V, F>() }) {
            let few = products::<V, F, R, T>(columns, panel, input, (number, first), values);
            for r in 0..R {
                for t in 0..T {
                    sum[r][t] = match in_halves::<V, F>() {
                        true if first == 0 => V::halves_added(few[r][t]),
                        true => V::add_ints(sum[r][t], V::halves_added(few[r][t])),
                        false => few[r][t],
                    };
                }
            }
        }
        for r in 0..R {
            let place = (r * columns / F::GROUP + number) * V::LANES;
            let scale = V::load(panel.scales.as_ptr().add(place));
            let minimum = if matches!(minimums::<V, F>(), Minimums::OfGroups) {
                V::load(panel.minimums.as_ptr().add(place))
            } else {
                scale
            };
            for t in 0..T {
                let sums = input.sums.add(number * input.width + t);
                partial[r][t].add::<F>(index, sums, (sum[r][t], scale, minimum));
            }
        }
    }
}

/// The products of a [run](run) of columns of group number `number`, from its four columns number `first` on, whose activations are `values`.
///
/// # Safety
/// As [`group`].
#[inline(always)]
unsafe fn products<V: Vector, F: Form, const R: usize, const T: usize>(
    columns: usize,
    panel: &Panel,
    input: &Input,
    (number, first): (usize, usize),
    values: *const i8,
) -> [[V::Int; T]; R] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        if const { V::MATRICES && T > 1 } {
            return matrices::<V, F, R, T>(columns, panel, input, number, values);
        }
        let mut sum = [[V::int(0); T]; R];
        for t in 0..T {
            let begun = run_begun::<V, F>(input, number * input.width + t);
            for r in 0..R {
                sum[r][t] = begun;
            }
        }
        // The compiler writes out a loop over so few by itself, and then reads ahead; of more it leaves the loop, whose sums stay in registers.
        if const { in_halves::<V, F>() && run::<V, F>() <= 4 } {
            written_out!(index in [0, 1, 2, 3] {
                if index < const { run::<V, F>() } {
                    add_four::<V, F, R, T>(columns, panel, (number, first + index), values, &mut sum);
                    // What the next four need is not read before: there are registers for sums, and few others.
                    for r in 0..R {
                        for t in 0..T {
                            sum[r][t] = V::settled(sum[r][t]);
                        }
                    }
                }
            });
            return sum;
        }
        for four in first..first + const { run::<V, F>() } {
            add_four::<V, F, R, T>(columns, panel, (number, four), values, &mut sum);
        }
        sum
    }
}

/// The products of group number `number`, whose activations are `values`, by matrices of two tokens; the last of an odd number by itself.
///
/// # Safety
/// As [`group`].
#[inline(always)]
unsafe fn matrices<V: Vector, F: Form, const R: usize, const T: usize>(
    columns: usize,
    panel: &Panel,
    input: &Input,
    number: usize,
    values: *const i8,
) -> [[V::Int; T]; R] {
    const { assert!(!V::MATRICES || V::SIGNED && !V::HALVES, "signed weights, and sums of whole groups") };
    // SAFETY: the caller's contract is the same.
    unsafe {
        let start = |t: usize| begun_with::<V, F>(input, number * input.width + t);
        let mut sum = [[V::int(0); T]; R];
        let mut twos = [[[V::int(0); 2]; T]; R];
        for r in 0..R {
            for t in 0..T / 2 {
                twos[r][t] = V::matrices([start(2 * t), start(2 * t + 1)]);
            }
            sum[r][T - 1] = V::int(start(T - 1));
        }
        for eight in 0..const { F::GROUP / 8 } {
            let mut fours = [[V::byte(0); 2]; R];
            let mut weights = [[V::byte(0); 2]; R];
            for r in 0..R {
                let place = panel.bytes.as_ptr().add((r * columns + number * F::GROUP + eight * 8) * V::LANES);
                fours[r] = [V::load_bytes(place), V::load_bytes(place.add(4 * V::LANES))];
                weights[r] = V::eights(fours[r]);
            }
            let values = values.add(eight * 8);
            for t in 0..T / 2 {
                let first = values.add(2 * t * activation::GROUP);
                let x = V::two_tokens([first, first.add(activation::GROUP)]);
                for r in 0..R {
                    twos[r][t] = V::dot_matrices(twos[r][t], weights[r], x);
                }
            }
            if T % 2 == 1 {
                for four in 0..2 {
                    let x = V::word(values.add((T - 1) * activation::GROUP + four * 4).cast::<u32>().read_unaligned());
                    for r in 0..R {
                        sum[r][T - 1] = dot::<V, F>(sum[r][T - 1], fours[r][four], x);
                    }
                }
            }
        }
        for r in 0..R {
            for t in 0..T / 2 {
                [sum[r][2 * t], sum[r][2 * t + 1]] = V::of_tokens(twos[r][t]);
            }
        }
        sum
    }
}

/// Adds the products of the four columns number `four` of group number `number`, whose activations are `values`. They meet all tokens before the
/// next: many sums that do not wait for each other.
///
/// # Safety
/// As [`group`].
#[inline(always)]
unsafe fn add_four<V: Vector, F: Form, const R: usize, const T: usize>(
    columns: usize,
    panel: &Panel,
    (number, four): (usize, usize),
    values: *const i8,
    sum: &mut [[V::Int; T]; R],
) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let mut weights = [V::byte(0); R];
        for r in 0..R {
            let column = r * columns + number * F::GROUP + four * 4;
            weights[r] = V::load_bytes(panel.bytes.as_ptr().add(column * V::LANES));
        }
        for t in 0..T {
            let x = V::word(values.add(t * activation::GROUP + four * 4).cast::<u32>().read_unaligned());
            for r in 0..R {
                sum[r][t] = dot::<V, F>(sum[r][t], weights[r], x);
            }
        }
    }
}
