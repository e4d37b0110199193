//! Whether matrix units compute what they should: a product is tried before any model's goes through them.
//!
//! What drivers offer as cooperative matrices is new, and so is what translates kernels for it: where a product of small whole numbers
//! comes out wrong, or its kernel is not taken, products of many rows are computed without.

use kauri_formats::Quant;

use crate::driver::{Dispatch, Failure, Gpu, Words, ready};
use crate::ops::NOTHING;
use crate::shader::{Kernel, Types, Unit};

/// The device with its matrix units, if it has some that multiply.
pub(crate) fn proven(mut gpu: Gpu) -> Result<Gpu, Failure> {
    if let Some(unit) = gpu.unit
        && !multiplies(&gpu, unit)?
    {
        gpu.unit = None;
    }
    Ok(gpu)
}

/// Whether a product of whole numbers, which has no rounding, is what it should be: of more than a tile's rows on both sides, with some
/// inputs that no half can be.
fn multiplies(gpu: &Gpu, unit: Unit) -> Result<bool, Failure> {
    let [rows, tokens] = unit.tile().map(|size| size + 5);
    let columns = 75;
    let inputs: Vec<f32> = (0..tokens * columns)
        .map(|place| {
            let large = if place / columns % 7 == 3 { 1_048_576.0 } else { 1.0 };
            large * ((place * 5 % 13) as f32 - 6.0)
        })
        .collect();
    let weights: Vec<f32> = (0..rows * columns).map(|place| (place * 3 % 17) as f32 - 8.0).collect();
    let expected = inputs.chunks(columns).flat_map(|x| weights.chunks(columns).map(move |row| dot(x, row)));
    let found = product(gpu, unit, &inputs, &weights, columns)?;
    Ok(found.is_some_and(|found| found.into_iter().eq(expected)))
}

fn dot(x: &[f32], row: &[f32]) -> f32 {
    x.iter().zip(row).map(|(x, weight)| x * weight).sum()
}

/// The product of `inputs (tokens, columns)` with `weights (rows, columns)` in matrix units, `(tokens, rows)`; nothing where the driver does
/// not take the kernel.
fn product(
    gpu: &Gpu,
    unit: Unit,
    inputs: &[f32],
    weights: &[f32],
    columns: usize,
) -> Result<Option<Vec<f32>>, Failure> {
    let (tokens, rows) = (inputs.len() / columns, weights.len() / columns);
    let kernel = Kernel::in_units(Types::of(Quant::F32), unit);
    let scopes = [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal];
    let [outer, inner] = scopes.map(|filter| gpu.device.push_error_scope(filter));
    let pipeline = gpu.compile(kernel, gpu.lanes);
    // Both end, the inner one first.
    let wrong = [ready(inner.pop()), ready(outer.pop())];
    if wrong.iter().any(Option::is_some) {
        return Ok(None);
    }
    let outputs = tokens * rows;
    let arena = gpu.buffer("arena", 4 * (inputs.len() + outputs) as u64)?;
    let matrix = gpu.buffer("matrix", 4 * weights.len() as u64)?;
    let [read, kept] = ["read", "kept"].map(|name| gpu.buffer(name, 4));
    let (read, kept) = (read?, kept?);
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    gpu.write(&arena, 0, &bytes(inputs));
    gpu.write(&matrix, 0, &bytes(weights));
    let words = Words::of([tokens, columns, 0, 0]).float(0.0);
    let part = [0, 4 * columns, rows, inputs.len(), rows, NOTHING, Quant::F32 as usize];
    let [tile_rows, tile_tokens] = unit.tile();
    gpu.submit(&[Dispatch {
        name: kernel.name(),
        pipeline,
        group: gpu.group([&arena, &matrix, &read, &read, &read, &read, &kept]),
        words: part.into_iter().fold(words, Words::int),
        grid: [rows.div_ceil(tile_rows), tokens.div_ceil(tile_tokens), 1].map(|count| count as u32),
    }]);
    let mut bytes = vec![0; 4 * outputs];
    gpu.read(&[(&arena, 4 * inputs.len() as u64, 4 * outputs as u64)], &mut bytes)?;
    Ok(Some(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{Device, Reduction, adapters};

    /// The device, and its matrix units: those that are offered multiply.
    fn opened() -> Option<(Device, Unit)> {
        let device = Device::open(true, Reduction::Units).inspect_err(|reason| eprintln!("skipped: {reason}")).ok()?;
        println!("on {}, {}", device.name(), device.reduction());
        let Some(unit) = device.0.unit else {
            let offered = adapters().iter().any(|adapter| adapter.name == device.name() && adapter.has_matrix_units);
            assert!(!offered, "its matrix units do not multiply");
            eprintln!("skipped: no matrix units");
            return None;
        };
        Some((device, unit))
    }

    /// Numbers between -1 and 1.
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(next).collect()
    }

    /// Rows of any size, by four subgroups, by fewer and by more: what is lost is a share of the products' sizes, two roundings to eleven
    /// bits, and not of what a half can be.
    #[test]
    fn units_multiply_rows_of_any_size() {
        let Some((Device(gpu), unit)) = opened() else { return };
        for threads in [unit.threads, unit.threads / 4, 2 * unit.threads] {
            multiplies_any_size(&gpu, Unit { threads, ..unit });
        }
    }

    fn multiplies_any_size(gpu: &Gpu, unit: Unit) {
        for (tokens, rows, columns) in [(17, 1, 8), (33, 65, 257), (64, 200, 31), (100, 64, 1024)] {
            let weights = numbers(rows * columns, 7);
            let mut inputs = numbers(tokens * columns, 11);
            let sizes = [1.0, 1e6, 1e-6, 3e38, 1e-30, 0.0, 7e4];
            for (row, size) in inputs.chunks_mut(columns).zip(sizes.iter().cycle()) {
                row.iter_mut().for_each(|value| *value *= size);
            }
            let found = product(gpu, unit, &inputs, &weights, columns).expect("a device").expect("a kernel");
            for (place, found) in found.iter().enumerate() {
                let (token, row) = (place / rows, place % rows);
                let pairs = || inputs[token * columns..][..columns].iter().zip(&weights[row * columns..][..columns]);
                let expected: f64 = pairs().map(|(x, weight)| f64::from(*x) * f64::from(*weight)).sum();
                let size: f64 = pairs().map(|(x, weight)| f64::from(x * weight).abs()).sum();
                let allowed = size * 2.0_f64.powi(-10);
                let off = (f64::from(*found) - expected).abs();
                let at_end = found.is_infinite() && expected.abs() > f64::from(f32::MAX);
                assert!(
                    off <= allowed || at_end,
                    "({tokens}, {rows}, {columns}) at {token}, {row}: {found}, {expected}"
                );
            }
        }
    }

    /// What is no number stays none, in its row alone.
    #[test]
    fn what_is_no_number_stays_in_its_row() {
        let Some((Device(gpu), unit)) = opened() else { return };
        let (tokens, rows, columns) = (20, 9, 40);
        let mut inputs = vec![1.0; tokens * columns];
        inputs[3 * columns + 5] = f32::NAN;
        inputs[7 * columns + 2] = f32::INFINITY;
        let weights = vec![1.0; rows * columns];
        let found = product(&gpu, unit, &inputs, &weights, columns).expect("a device").expect("a kernel");
        for (token, row) in found.chunks(rows).enumerate() {
            let is_right =
                |value: &f32| if [3, 7].contains(&token) { !value.is_finite() } else { *value == columns as f32 };
            assert!(row.iter().all(is_right), "{token}: {row:?}");
        }
    }
}
