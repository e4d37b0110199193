//! Adapters: on every product that takes them, for some sequences of a batch and not for others, several on one.

use std::sync::Arc;

use kauri_arch::{Activation, Shape, Wiring};
use kauri_formats::Quant;

use super::{Case, Check, Random, Subject, Tolerance, batches, cases};
use crate::batch::{Applied, Batch, CacheType};
use crate::weight::{Adapted, LowRank, Matrix, Weight};

/// Ranks of the adapters, which are a multiple of nothing or of everything.
const RANKS: [usize; 3] = [1, 16, 5];

/// Runs the part of the suite that is about adapters.
///
/// # Panics
/// At the first value out of tolerance, with the case, the operation and the place.
pub fn conform<S: Subject>(tolerance: Tolerance) {
    for (number, case) in cases(&[Quant::F32]).into_iter().enumerate().filter(|(_, case)| is_told_apart(case)) {
        let shape = adapted(&case.shape(number as u64 + 1));
        for batch in batches(shape.vocab, case.plan()) {
            for batch in with_adapters(&batch) {
                let mut check = Check::<S>::new(&case, &shape, tolerance);
                check.operations(&shape, &batch);
                // Of a norm of two values the last bit decides, and here sums may be rounded in another order.
                if case.experts.is_none() && case.hidden > 2 {
                    check.forward(&shape, &batch);
                }
            }
        }
    }
}

/// A cache that does not round hides nothing; a smaller activation makes as much of a difference.
fn is_told_apart(case: &Case) -> bool {
    case.cache == CacheType::F32 || case.experts.is_some() || case.latents.is_some() || {
        case.wiring == Wiring::Parallel || matches!(case.activation, Activation::Gelu)
    }
}

/// The shape with three adapters: the last leaves some matrices alone. A table of rows is no product, nor is what stands in one
/// piece for several heads.
fn adapted(shape: &Shape<Weight>) -> Shape<Weight> {
    let mut random = Random(4711);
    let table = shape.embed.table.matrix().data.as_ptr();
    let mut alone: Vec<*const u8> = vec![table];
    for latent in shape.mixers().filter_map(|mixer| mixer.latent()) {
        let heads = latent.keys.iter().chain(&latent.values);
        alone.extend(heads.map(|linear| linear.weight.matrix().data.as_ptr()));
    }
    let others = [&shape.embed.places, &shape.embed.kinds].into_iter().flatten();
    alone.extend(others.map(|table| table.matrix().data.as_ptr()));
    let Ok(shape) = shape.try_map(&mut |weight| {
        let changed = match weight {
            Weight::Matrix(matrix) if !alone.contains(&matrix.data.as_ptr()) => {
                Weight::Adapted(Adapted { matrix: matrix.clone(), parts: parts(&mut random, matrix) })
            }
            Weight::Matrix(_) | Weight::Vector(_) | Weight::Adapted(_) => weight.clone(),
        };
        Ok::<_, std::convert::Infallible>(changed)
    });
    shape
}

fn parts(random: &mut Random, matrix: &Matrix) -> Arc<[Option<LowRank>]> {
    let (rows, columns) = (matrix.rows, matrix.columns);
    let last = random.next_u32().is_multiple_of(2);
    let part = |(index, rank): (usize, usize)| {
        let values = |random: &mut Random, width: usize, of: usize| -> Arc<[f32]> {
            random.values(rank * width, 1.7 / (of as f32).sqrt()).into()
        };
        (index < 2 || last).then(|| LowRank {
            rank,
            down: values(random, columns, columns),
            up: values(random, rows, rank),
            factor: 0.5 + index as f32,
        })
    };
    RANKS.into_iter().enumerate().map(part).collect()
}

/// The batch with adapters on every other sequence, and with one on all of them.
fn with_adapters(batch: &Batch) -> [Batch; 2] {
    let one = |adapter, scale| Applied { adapter, scale };
    let mixed = [&[one(1, 0.75)][..], &[], &[one(0, -1.0), one(2, 0.5)]];
    [adapt(batch, &mixed), adapt(batch, &[&[one(1, 1.0)]])]
}

/// The batch with these on its sequences, in turn.
fn adapt(batch: &Batch, adapters: &[&[Applied]]) -> Batch {
    let mut adapted = batch.clone();
    for (sequence, applied) in adapted.sequences.iter_mut().zip(adapters.iter().cycle()) {
        let start = adapted.adapters.len();
        adapted.adapters.extend_from_slice(applied);
        sequence.adapters = start..adapted.adapters.len();
    }
    adapted
}
