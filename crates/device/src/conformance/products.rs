//! Products of weights in blocks, those of types that are read and never written among them, with as many columns as kernels of tiles ask for.

use half::f16;
use kauri_arch::NormKind;
use kauri_formats::{Bytes, Quant};

use super::{Case, Check, Random, SIZES, Subject, Tolerance, batches};
use crate::batch::CacheType;
use crate::weight::Matrix;

/// Holds every product of a layer to the reference, with weights of every type of `quants`: types of blocks, whether or not they can be
/// written. Of every awkward number of rows, and of no token, of few and of many.
///
/// # Panics
/// As [`super::conform`].
pub fn conform<S: Subject>(quants: &[Quant], tolerance: Tolerance) {
    for (number, case) in products(quants).into_iter().enumerate() {
        let shape = case.shape(number as u64 + 1);
        for batch in batches(shape.vocab, case.plan()) {
            Check::<S>::new(&case, &shape, tolerance).operations(&shape, &batch);
        }
    }
}

fn products(quants: &[Quant]) -> Vec<Case> {
    let (cache, norm) = (CacheType::F32, NormKind::Layer);
    let usual = Case { cache, norm, biased: true, head_norm: false, kv_heads: 1, ..super::usual() };
    let mut products = Vec::new();
    for (index, &size) in SIZES.iter().enumerate() {
        for &quant in quants {
            // Whole spans of 128 columns: one or two of them, or one block or three.
            let columns = match (quant.block_len(), index % 2) {
                (..=128, 0) => 128,
                (_, 0) => 768,
                (..) => 256,
            };
            let (vocab, ffn) = (SIZES[(index + 1) % SIZES.len()], size);
            products.push(Case { quant, hidden: columns, heads: 3, head_dim: 8, ffn, vocab, ..usual.clone() });
            // The same rows of what goes into the stream: from heads, and from the network.
            products.push(Case {
                quant,
                hidden: size,
                heads: 2,
                head_dim: 128,
                ffn: columns,
                vocab: 2,
                ..usual.clone()
            });
        }
    }
    products
}

/// Any codes, under scales for which no value is larger than `size`.
pub(super) fn drawn(random: &mut Random, quant: Quant, [rows, columns]: [usize; 2], size: f32) -> Matrix {
    let mut values = vec![0.0; quant.block_len()];
    let blocks = (0..rows * columns / quant.block_len()).flat_map(|_| {
        let seed = u64::from(random.next_u32());
        quant.dequantise(&block(quant, 1.0, &mut Random(seed)), &mut values);
        let most = values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        block(quant, size / most, &mut Random(seed))
    });
    let data: Vec<u8> = blocks.collect();
    Matrix { quant, rows, columns, data: Bytes::from(data), scales: None }
}

/// A block of any codes under this scale, of a type that cannot be written.
///
/// # Panics
/// If it can be.
pub fn block(quant: Quant, scale: f32, random: &mut Random) -> Vec<u8> {
    let mut block: Vec<u8> = (0..quant.block_bytes()).map(|_| random.next_u32() as u8).collect();
    let scale = f16::from_f32(scale).to_bits();
    match quant {
        // A quarter of it lies above each group's own scales.
        Quant::IQ1_M => {
            for nibble in 0..4 {
                let byte = &mut block[49 + 2 * nibble];
                *byte = *byte & 0x0f | ((scale >> (4 * nibble) & 15) as u8) << 4;
            }
        }
        Quant::IQ2_XXS | Quant::IQ2_XS | Quant::IQ2_S | Quant::IQ3_XXS | Quant::IQ3_S | Quant::IQ1_S => {
            block[..2].copy_from_slice(&scale.to_le_bytes());
        }
        _ => panic!("{} can be written", quant.name()),
    }
    block
}
