//! `IQ4_NL`: 32 values, 4 bits each, one scale; codes name 16 levels, closer together near zero.
//! `value = scale * LEVELS[code]`.
//!
//! ```text
//! byte  0..2    scale (f16)
//! byte  2..18   codes: byte 2 + i holds value i in its low nibble and value i + 16 in its high nibble
//! ```

use super::f16;
use super::search::{ZERO_BELOW, extreme, inverse, mean_square, weigh};

/// The levels, rising: constants of the format (llama.cpp, MIT licence), shared with `IQ4_XS`.
pub const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Values of one block.
pub(super) fn dequantise(block: &[u8; 18], values: &mut [f32; 32]) {
    let scale = f16::scale(block, 0);
    for i in 0..16 {
        let codes = block[2 + i];
        values[i] = scale * LEVELS[codes as usize & 15] as f32;
        values[i + 16] = scale * LEVELS[codes as usize >> 4] as f32;
    }
}

/// The best fit, weighed by importance where it is known.
pub(super) fn quantise(values: &[f32; 32], importance: Option<&[f32; 32]>, block: &mut [u8; 18]) {
    let scale = fit_scale(values, importance, 2.0 * mean_square(values));
    let inverse = inverse(scale);
    f16::store_scale(block, 0, scale);
    for i in 0..16 {
        block[2 + i] = nearest_level(inverse * values[i]) | nearest_level(inverse * values[i + 16]) << 4;
    }
}

/// The scale with the least weighted square error of those tried; 0 for values that are all but zero.
///
/// Errors weigh their value's square, or with importance that of the column times `√(mean_square + value²)`.
pub(super) fn fit_scale(values: &[f32; 32], importance: Option<&[f32; 32]>, mean_square: f32) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < ZERO_BELOW {
        return 0.0;
    }
    let mut weights = values.map(|value| value * value);
    if let Some(importance) = importance {
        weigh(values, importance, mean_square, &mut weights);
    }
    let lowest = LEVELS[0] as f32;
    let (value_level, level_level) = moments(values, &weights, 1.0 / (-extreme / lowest));
    let mut scale = if level_level > 0.0 { value_level / level_level } else { 0.0 };
    let mut best = scale * value_level;
    for step in -7..=7 {
        let (value_level, level_level) = moments(values, &weights, (step as f32 + lowest) / extreme);
        if level_level > 0.0 && value_level * value_level > best * level_level {
            scale = value_level / level_level;
            best = scale * value_level;
        }
    }
    scale
}

/// The code of the level nearest to `value`; the upper one of two equally near.
pub(super) fn nearest_level(value: f32) -> u8 {
    DOUBLED_MIDPOINTS.iter().map(|midpoint| u8::from(2.0 * value >= *midpoint)).sum()
}

/// Twice the midpoint of each level and the next, a whole number.
const DOUBLED_MIDPOINTS: [f32; 15] = {
    let mut midpoints = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        midpoints[i] = (LEVELS[i] as i32 + LEVELS[i + 1] as i32) as f32;
        i += 1;
    }
    midpoints
};

/// Weighted sums of value times level and of level squared, when values times `inverse` are rounded to levels.
fn moments(values: &[f32; 32], weights: &[f32; 32], inverse: f32) -> (f32, f32) {
    let (mut value_level, mut level_level) = (0.0, 0.0);
    for (value, weight) in values.iter().zip(weights) {
        let level = LEVELS[nearest_level(inverse * value) as usize] as f32;
        value_level += weight * level * value;
        level_level += weight * level * level;
    }
    (value_level, level_level)
}
