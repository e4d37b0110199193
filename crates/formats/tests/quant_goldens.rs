//! Dequantisers and quantisers against ggml's own: the shared goldens, bit for bit where a result is defined to the bit.

use std::path::Path;

use kauri_formats::Quant;

#[test]
fn dequantise_shared() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap()
        .join("shared/fixtures/quant");
    if !dir.is_dir() {
        eprintln!("skipped: no {}", dir.display());
        return;
    }
    for quant in Quant::ALL {
        let name = quant.name().to_lowercase();
        let Ok(blocks) = std::fs::read(dir.join(format!("{name}.blocks.bin"))) else {
            continue;
        };
        let expect = std::fs::read(dir.join(format!("{name}.expect.f32"))).unwrap();
        let mut values = vec![0.0; expect.len() / 4];
        quant.dequantise(&blocks, &mut values);
        for (i, (value, expect)) in values.iter().zip(expect.as_chunks().0).enumerate() {
            let expect = f32::from_le_bytes(*expect);
            assert!(
                value.to_bits() == expect.to_bits(),
                "{name}[{i}]: {value} is not {expect}"
            );
        }
        println!("{name} ok");
    }
}
