//! Blocks of any bytes and rows of any values: no panic, nothing read out of bounds, errors that name what is wrong.

use kauri_formats::Quant;
use kauri_formats::quant::QuantError;
use proptest::prelude::*;

/// Blocks of a row.
const BLOCKS: usize = 3;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_dequantise(bytes in proptest::collection::vec(any::<u8>(), BLOCKS * 256)) {
        for quant in Quant::ALL {
            dequantise(quant, &bytes[..BLOCKS * quant.block_bytes()]);
        }
    }

    /// The same with each aligned half word made a NaN or an infinity: a scale is among them, wherever it lies.
    #[test]
    fn any_scale_dequantises(
        bytes in proptest::collection::vec(any::<u8>(), BLOCKS * 256),
        scale in prop_oneof![Just(0x7c00_u16), Just(0xfc00), Just(0x7e00), Just(0xfe00), Just(0x7c01), Just(0xffff)],
    ) {
        for quant in Quant::ALL {
            for at in (0..quant.block_bytes().saturating_sub(1)).step_by(2) {
                let mut blocks = bytes[..BLOCKS * quant.block_bytes()].to_vec();
                blocks[at..at + 2].copy_from_slice(&scale.to_le_bytes());
                dequantise(quant, &blocks);
            }
        }
    }

    #[test]
    fn any_values_quantise(
        values in proptest::collection::vec(any_value(), 2 * 256),
        importance in proptest::collection::vec(any_value(), 256),
    ) {
        for quant in Quant::ALL.into_iter().filter(|quant| quant.can_quantise()) {
            round_trip(quant, &values, None);
            round_trip(quant, &values, Some(&importance));
        }
    }
}

/// Every bit pattern, and more often than chance those that arithmetic trips over.
fn any_value() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => any::<u32>().prop_map(f32::from_bits),
        4 => -1.0_f32..1.0,
        1 => prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), Just(f32::MAX), Just(f32::MIN)],
        1 => prop_oneof![Just(0.0_f32), Just(-0.0), Just(f32::MIN_POSITIVE), Just(1e-45), Just(1e30)],
    ]
}

#[test]
fn uniform_rows_quantise() {
    let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0, -0.0, 1e-45, -1e-45, 65520.0];
    for quant in Quant::ALL.into_iter().filter(|quant| quant.can_quantise()) {
        for value in specials {
            for weight in specials {
                round_trip(quant, &[value; 256], Some(&[weight; 256]));
            }
            round_trip(quant, &[value; 256], None);
        }
        let values = round_trip(quant, &[0.0; 256], None);
        assert!(values.iter().all(|value| *value == 0.0), "{}: zeros stay zeros", quant.name());
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let mut out = vec![7];
    let values = [0.0; 512];
    let error = Quant::IQ2_XXS.quantise(&values, 256, None, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "there is no quantiser for IQ2_XXS: take a type such as Q4_K, Q6_K or Q8_0");
    let error = Quant::Q4_K.quantise(&values, 128, None, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "a row of 128 values cannot be Q4_K: it must be a multiple of 256");
    let error = Quant::Q8_0.quantise(&values, 0, None, &mut out).unwrap_err();
    assert_eq!(error, QuantError::Columns { name: "Q8_0", columns: 0, block_len: 32 });
    let error = Quant::Q8_0.quantise(&values, 96, None, &mut out).unwrap_err();
    assert_eq!(error.to_string(), "512 values are no whole rows of 96");
    let error = Quant::Q8_0.quantise(&values, 512, Some(&[1.0; 32]), &mut out).unwrap_err();
    assert_eq!(error.to_string(), "the importance of 32 columns does not fit rows of 512");
    assert_eq!(out, [7], "left as it was");
    for quant in Quant::ALL {
        let refused = matches!(quant.quantise(&values, 256, None, &mut out), Err(QuantError::Unsupported { .. }));
        assert_eq!(quant.can_quantise(), !refused, "{}", quant.name());
    }
}

#[test]
#[should_panic(expected = "33 bytes of Q8_0 are not 32 values")]
fn too_few_bytes_are_a_bug() {
    Quant::Q8_0.dequantise(&[0; 33], &mut [0.0; 32]);
}

fn dequantise(quant: Quant, blocks: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; blocks.len() / quant.block_bytes() * quant.block_len()];
    quant.dequantise(blocks, &mut values);
    values
}

fn round_trip(quant: Quant, values: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let mut blocks = Vec::new();
    quant.quantise(values, 256, importance, &mut blocks).unwrap();
    let restored = dequantise(quant, &blocks);
    assert_eq!(restored.len(), values.len());
    restored
}
