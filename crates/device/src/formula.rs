//! The scalar definition of every primitive, on slices of `f32`: the formulas themselves, one fixed order of summation.
//!
//! Devices are checked against these; the scalar CPU device runs them. Nothing here knows a buffer, a batch or a device.

use kauri_arch::{Activation, NormKind};

/// Independent partial sums of [`dot`]: enough for the compiler to use vector registers.
const LANES: usize = 16;

/// The inner product, summed in lanes and then lane by lane: the same bits whatever is computed beside it.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (a_whole, a_rest) = a.as_chunks::<LANES>();
    let (b_whole, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_whole.iter().zip(b_whole) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += a * b;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Normalises one group in place.
#[inline(always)]
pub fn norm(kind: NormKind, epsilon: f32, weight: &[f32], bias: Option<&[f32]>, x: &mut [f32]) {
    let count = x.len() as f32;
    let mean = match kind {
        NormKind::Rms => 0.0,
        NormKind::Layer => x.iter().sum::<f32>() / count,
    };
    x.iter_mut().for_each(|value| *value -= mean);
    let factor = 1.0 / (dot(x, x) / count + epsilon).sqrt();
    for (value, weight) in x.iter_mut().zip(weight) {
        *value = *value * factor * weight;
    }
    if let Some(bias) = bias {
        x.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
    }
}

/// The elementwise function of a feed-forward network.
pub fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            const SQRT_2_OVER_PI: f32 = 0.797_884_6;
            0.5 * x * (1.0 + (SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)),
        Activation::ReluSquared => x.max(0.0) * x.max(0.0),
    }
}

/// `cap * tanh(x / cap)`.
pub fn soft_cap(x: f32, cap: f32) -> f32 {
    cap * (x / cap).tanh()
}

/// Turns scores into exponentials over their largest, in place; gives back the largest and the sum of the exponentials.
pub fn exponentials(scores: &mut [f32]) -> (f32, f32) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
        sum += *score;
    }
    (most, sum)
}

/// The error function (Abramowitz and Stegun 1964, 7.1.5 as a Taylor series near zero, 7.1.14 as a continued fraction
/// beyond), to the precision of `f32`.
fn erf(x: f32) -> f32 {
    let z = f64::from(x.abs());
    let value = if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for n in 1..60 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let mut fraction = 0.0;
        for n in (1..60).rev() {
            fraction = f64::from(n) / 2.0 / (z + fraction);
        }
        1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + fraction)
    };
    (value as f32).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_is_the_inner_product() {
        for length in [0, 1, 15, 16, 17, 255, 256] {
            let a: Vec<f32> = (0..length).map(|i| i as f32 * 0.25 - 3.0).collect();
            let b: Vec<f32> = (0..length).map(|i| 2.0 - i as f32 * 0.5).collect();
            let expect: f64 = a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            assert!((f64::from(dot(&a, &b)) - expect).abs() <= expect.abs() * 1e-6, "length {length}");
        }
    }

    #[test]
    fn error_function_matches_published_values() {
        // Abramowitz and Stegun 1964, table 7.1.
        for (x, expect) in [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3), (3.0, 0.999_977_9)]
        {
            assert!((erf(x) - expect).abs() < 1e-7, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn exponentials_of_equal_scores_are_one_however_large() {
        let mut scores = [1e30f32; 4];
        assert_eq!(exponentials(&mut scores), (1e30, 4.0));
        assert_eq!(scores, [1.0; 4]);
    }

    #[test]
    fn layer_norm_has_mean_zero_and_variance_one() {
        let mut x = [1.0, 2.0, 3.0, 6.0];
        norm(NormKind::Layer, 0.0, &[1.0; 4], None, &mut x);
        assert!(x.iter().sum::<f32>().abs() < 1e-6);
        assert!((dot(&x, &x) / 4.0 - 1.0).abs() < 1e-6);
    }
}
