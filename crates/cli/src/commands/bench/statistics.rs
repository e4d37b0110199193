//! Medians and quantiles of a few timings.

/// The middle value, or the mean of the two in the middle.
///
/// # Panics
/// If there are no values.
pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The smallest value that at least the share `at` of all values do not exceed (nearest rank).
///
/// # Panics
/// If there are no values.
pub fn quantile(values: &[f64], at: f64) -> f64 {
    let sorted = sorted(values);
    let rank = (at * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn sorted(values: &[f64]) -> Vec<f64> {
    assert!(!values.is_empty(), "no values");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 100.0, 2.0]), 3.0);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), 5.0);
        assert_eq!(quantile(&values, 0.9), 9.0);
        assert_eq!(quantile(&values, 0.91), 10.0);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
    }
}
