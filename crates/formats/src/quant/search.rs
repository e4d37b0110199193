//! The searches that choose scales and codes: rounding the largest value to the end of the range is rarely best, so
//! they try scales near it and keep the one with the smallest weighted square error.
//!
//! They follow the quantisers of ggml (`make_qx_quants`, `make_q3_quants`, `make_qkx2_quants`, `make_qkx3_quants`,
//! `make_qp_quants` in `ggml-quants.c`) step by step and in its order of summation: the bytes come out the same, and
//! nothing here may be contracted or reassociated. They know arrays of values and codes, not how a block stores them.
//! Any input gives some output: what is no number gets some code.

/// Below this, values are taken for zero: dividing by them would overflow.
pub(super) const ZERO_BELOW: f32 = 1e-15;

/// The nearest integer (ties to even) within `low..=high`; `low` for what is no number. Both ends are below 2^22.
#[inline(always)]
pub(super) fn nearest(value: f32, low: i32, high: i32) -> i32 {
    // Adding 1.5 * 2^23 leaves no fraction bits: the low mantissa bits are then the rounded integer.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = value.max(low as f32).min(high as f32) + SHIFT;
    (shifted.to_bits() & 0x007f_ffff) as i32 - 0x0040_0000
}

/// The value of the largest magnitude, with its sign; the first of equals.
pub(super) fn extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |extreme: f32, &value| if value.abs() > extreme.abs() { value } else { extreme })
}

/// `1 / value`, or 0 for 0.
pub(super) fn inverse(value: f32) -> f32 {
    if value == 0.0 { 0.0 } else { 1.0 / value }
}

/// Mean of the squares.
pub(super) fn mean_square(values: &[f32]) -> f32 {
    values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32
}

/// The weight of each value's error: the importance of its column, more for large values than for small.
pub(super) fn weigh(values: &[f32], importance: &[f32], mean_square: f32, weights: &mut [f32]) {
    for ((weight, importance), value) in weights.iter_mut().zip(importance).zip(values) {
        *weight = importance * (mean_square + value * value).sqrt();
    }
}

/// A scale that sends the extreme value to code 0, and codes of `value = scale * (code - limit)`; no search.
pub(super) fn symmetric_by_extreme<const N: usize>(values: &[f32; N], limit: u8) -> (f32, [u8; N]) {
    let scale = extreme(values) / -f32::from(limit);
    let inverse = inverse(scale);
    (scale, values.map(|value| ((value * inverse + (f32::from(limit) + 0.5)) as u8).min(2 * limit - 1)))
}

/// Scale, minimum and codes of `value = scale * code + minimum` that span the range of the values; no search.
pub(super) fn affine_by_range<const N: usize>(values: &[f32; N], limit: u8) -> (f32, f32, [u8; N]) {
    let minimum = values.iter().copied().fold(f32::MAX, f32::min);
    let maximum = values.iter().copied().fold(f32::MIN, f32::max);
    let scale = (maximum - minimum) / f32::from(limit);
    let inverse = inverse(scale);
    (scale, minimum, values.map(|value| (((value - minimum) * inverse + 0.5) as u8).min(limit)))
}

/// Scale and codes of `value = scale * (code - limit)`, codes below `2 * limit`.
pub(super) fn symmetric<const N: usize>(values: &[f32; N], limit: i32, weights: &[f32; N]) -> (f32, [u8; N]) {
    let extreme = extreme(values);
    if extreme.abs() < ZERO_BELOW {
        return (0.0, [0; N]);
    }
    let codes_at = |inverse: f32| values.map(|value| nearest(inverse * value, -limit, limit - 1));
    let mut codes = codes_at(-limit as f32 / extreme);
    let (value_code, code_code) = moments(values, &codes, weights);
    let mut scale = if code_code == 0.0 { 0.0 } else { value_code / code_code };
    let mut best = scale * value_code;
    for step in (-9..=9).filter(|&step| step != 0) {
        let candidate = codes_at(-(limit as f32 + 0.1 * step as f32) / extreme);
        let (value_code, code_code) = moments(values, &candidate, weights);
        if code_code > 0.0 && value_code * value_code > best * code_code {
            scale = value_code / code_code;
            best = scale * value_code;
            codes = candidate;
        }
    }
    (scale, codes.map(|code| (code + limit) as u8))
}

/// Like [`symmetric`], but moves one code at a time, with the squares of the values as weights.
pub(super) fn symmetric_by_descent<const N: usize>(values: &[f32; N], limit: i32) -> (f32, [u8; N]) {
    let extreme = extreme(values);
    if extreme.abs() < ZERO_BELOW {
        return (0.0, [0; N]);
    }
    let inverse = -limit as f32 / extreme;
    let mut codes = values.map(|value| nearest(inverse * value, -limit, limit - 1));
    let scale = descend(values, &mut codes, -limit, limit - 1, &values.map(|value| value * value));
    (scale, codes.map(|code| (code + limit) as u8))
}

/// Scale and codes of `value = scale * code`, codes up to `limit`, for values that are not negative.
pub(super) fn positive<const N: usize>(values: &[f32; N], limit: i32, weights: &[f32; N]) -> (f32, [u8; N]) {
    let maximum = values.iter().copied().fold(0.0, f32::max);
    if maximum < ZERO_BELOW {
        return (0.0, [0; N]);
    }
    let codes_at = |inverse: f32| values.map(|value| nearest(inverse * value, 0, limit));
    let error_at = |inverse: f32| {
        let scale = 1.0 / inverse;
        let differences = values.iter().zip(codes_at(inverse)).map(|(value, code)| value - scale * code as f32);
        differences.zip(weights).map(|(difference, weight)| weight * difference * difference).sum::<f32>()
    };
    let mut inverse = limit as f32 / maximum;
    let mut least = error_at(inverse);
    for step in (-4..=4).filter(|&step| step != 0) {
        let candidate = (0.1 * step as f32 + limit as f32) / maximum;
        let error = error_at(candidate);
        if error < least {
            (least, inverse) = (error, candidate);
        }
    }
    let mut codes = codes_at(inverse);
    let scale = descend(values, &mut codes, 0, limit, weights);
    (scale, codes.map(|code| code as u8))
}

/// Which scales [`affine`] tries: code ranges `limit + first`, `limit + first + step`, .. for the range of the values.
pub(super) struct Sweep {
    pub(super) first: f32,
    pub(super) step: f32,
    pub(super) steps: i32,
    /// Weigh absolute differences instead of squares.
    pub(super) absolute: bool,
}

impl Sweep {
    /// What all types use that are given importance.
    pub(super) const BY_IMPORTANCE: Self = Self { first: -0.9, step: 0.05, steps: 36, absolute: false };
}

/// A fit of `value = scale * code - minimum`; neither is negative, save for odd weights.
pub(super) struct Affine<const N: usize> {
    pub(super) scale: f32,
    pub(super) minimum: f32,
    pub(super) codes: [u8; N],
}

/// The best [`Affine`] fit with codes up to `limit`. A minimum above zero is taken as zero: blocks cannot store it.
pub(super) fn affine<const N: usize>(values: &[f32; N], limit: i32, weights: &[f32; N], sweep: &Sweep) -> Affine<N> {
    let mut minimum = values.iter().copied().fold(values[0], f32::min).min(0.0);
    let maximum = values.iter().copied().fold(values[0], f32::max);
    if maximum <= minimum {
        return Affine { scale: 0.0, minimum: -minimum, codes: [0; N] };
    }
    let codes_at = |inverse: f32, minimum: f32| values.map(|value| nearest(inverse * (value - minimum), 0, limit));
    let error_of = |scale: f32, minimum: f32, codes: &[i32; N]| {
        let differences = values.iter().zip(codes).map(|(value, &code)| scale * code as f32 + minimum - value);
        let errors =
            differences.map(|difference| if sweep.absolute { difference.abs() } else { difference * difference });
        errors.zip(weights).map(|(error, weight)| weight * error).sum::<f32>()
    };
    let weight_sum = weights.iter().sum::<f32>();
    let value_sum = values.iter().zip(weights).map(|(value, weight)| weight * value).sum::<f32>();

    let inverse = limit as f32 / (maximum - minimum);
    let (mut scale, mut codes) = (1.0 / inverse, codes_at(inverse, minimum));
    let mut least = error_of(scale, minimum, &codes);
    for step in 0..=sweep.steps {
        // From the best minimum so far: it moves as the sweep goes on.
        let inverse = (sweep.first + sweep.step * step as f32 + limit as f32) / (maximum - minimum);
        let candidate = codes_at(inverse, minimum);
        let (code_sum, value_code, code_code) = affine_moments(values, &candidate, weights);
        let determinant = weight_sum * code_code - code_sum * code_sum;
        if determinant > 0.0 {
            let mut candidate_scale = (weight_sum * value_code - value_sum * code_sum) / determinant;
            let mut candidate_minimum = (code_code * value_sum - code_sum * value_code) / determinant;
            if candidate_minimum > 0.0 {
                (candidate_scale, candidate_minimum) = (value_code / code_code, 0.0);
            }
            let error = error_of(candidate_scale, candidate_minimum, &candidate);
            if error < least {
                (least, codes) = (error, candidate);
                (scale, minimum) = (candidate_scale, candidate_minimum);
            }
        }
    }
    Affine { scale, minimum: -minimum, codes: codes.map(|code| code as u8) }
}

/// Moves single codes within `low..=high` as long as that lowers the error; returns the best scale for them.
fn descend<const N: usize>(values: &[f32; N], codes: &mut [i32; N], low: i32, high: i32, weights: &[f32; N]) -> f32 {
    let (mut value_code, mut code_code) = moments(values, codes, weights);
    for _ in 0..5 {
        let mut changed = false;
        for ((&value, code), weight) in values.iter().zip(&mut *codes).zip(weights) {
            let old = *code as f32;
            let value_code_rest = value_code - weight * value * old;
            let code_code_rest = code_code - weight * old * old;
            if value_code_rest <= 0.0 || code_code_rest <= 0.0 {
                continue;
            }
            let new_code = nearest(value * code_code_rest / value_code_rest, low, high);
            let new = new_code as f32;
            let value_code_new = value_code_rest + weight * value * new;
            let code_code_new = code_code_rest + weight * new * new;
            let better = value_code_new * value_code_new * code_code > value_code * value_code * code_code_new;
            if new_code != *code && code_code_new > 0.0 && better {
                (*code, value_code, code_code) = (new_code, value_code_new, code_code_new);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    if code_code > 0.0 { value_code / code_code } else { 0.0 }
}

/// Weighted sums of value times code and of code squared: their quotient is the best scale for these codes.
#[inline(always)]
fn moments<const N: usize>(values: &[f32; N], codes: &[i32; N], weights: &[f32; N]) -> (f32, f32) {
    let (mut value_code, mut code_code) = (0.0, 0.0);
    for i in 0..N {
        let code = codes[i] as f32;
        value_code += weights[i] * values[i] * code;
        code_code += weights[i] * code * code;
    }
    (value_code, code_code)
}

/// Weighted sums of code, value times code and code squared. Not [`moments`] and one more: the products associate the
/// other way, as they do in ggml, and the last bit decides between scales that are equally good.
#[inline(always)]
fn affine_moments<const N: usize>(values: &[f32; N], codes: &[i32; N], weights: &[f32; N]) -> (f32, f32, f32) {
    let (mut code_sum, mut value_code, mut code_code) = (0.0, 0.0, 0.0);
    for i in 0..N {
        let code = codes[i] as f32;
        let weighted = weights[i] * code;
        code_sum += weighted;
        value_code += weighted * values[i];
        code_code += weighted * code;
    }
    (code_sum, value_code, code_code)
}
