//! Stored blocks of every type to test with: quantised numbers, fixtures, random bytes under a sensible scale.

use std::fs;
use std::path::Path;

use kauri_device::conformance::{self, products};
use kauri_formats::Quant;

/// A reproducible stream of numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number under `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// About normal, with mean 0 and variance 1.
    pub fn normal(&mut self) -> f32 {
        let twelve: f32 = (0..12).map(|_| (self.next() >> 40) as f32 / 16_777_216.0).sum();
        twelve - 6.0
    }
}

/// Blocks of one type one after the other; the first is of zeros.
pub fn stored_blocks(quant: Quant) -> Vec<u8> {
    let mut blocks = vec![0; quant.block_bytes()];
    let random = &mut Random(quant as u64);
    if quant.can_quantise() {
        // Rows as large as those of real models, and much smaller and larger ones.
        for magnitude in [1e-4, 0.02, 0.02, 0.02, 0.5, 4.0] {
            let values: Vec<f32> = (0..512).map(|_| magnitude * random.normal()).collect();
            quant.quantise(&values, 256, None, &mut blocks).expect("whole blocks");
        }
    } else {
        let codes = &mut conformance::Random(random.next());
        blocks.extend((0..32).flat_map(|_| products::block(quant, 0.02 * random.normal(), codes)));
    }
    for bytes in fixtures(quant) {
        // The first half has small scales; products of the last, which span the range of the scale, overflow.
        blocks.extend(&bytes[..bytes.len() / quant.block_bytes() / 2 * quant.block_bytes()]);
    }
    blocks
}

/// The blocks that llama.cpp's dequantisers were asked about: the repository's own share, and the full set where it is.
pub fn fixtures(quant: Quant) -> Vec<Vec<u8>> {
    let name = format!("{}.blocks.bin", quant.name().to_lowercase());
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![fs::read(crate_folder.join("../../tests/golden/quant").join(&name)).expect("a fixture")];
    match fs::read(crate_folder.join("../../../shared/fixtures/quant").join(&name)) {
        Ok(bytes) => found.push(bytes),
        Err(error) => eprintln!("skipped: the shared {name}: {error}"),
    }
    found
}
