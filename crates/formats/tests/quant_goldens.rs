//! Every storage type against ggml: dequantised values to the bit, quantisers by the error they leave.
//!
//! The repository's own share of the fixtures is always read; the full set where it lies beside the repository.

use std::fs;
use std::path::{Path, PathBuf};

use kauri_formats::Quant;

#[test]
fn dequantises_to_the_bit() {
    for dir in fixture_dirs() {
        let types = Quant::ALL.into_iter().filter(|quant| dequantises_exactly(&dir, *quant)).count();
        assert_eq!(types, 27, "types with fixtures in {}", dir.display());
    }
}

/// Whether there are fixtures for this type; panics if a value differs.
fn dequantises_exactly(dir: &Path, quant: Quant) -> bool {
    let name = quant.name().to_lowercase();
    let Ok(blocks) = fs::read(dir.join(format!("{name}.blocks.bin"))) else {
        return false;
    };
    let expected = read_f32(&dir.join(format!("{name}.expect.f32")));
    let mut values = vec![f32::NAN; expected.len()];
    quant.dequantise(&blocks, &mut values);
    for (i, (value, expected)) in values.iter().zip(&expected).enumerate() {
        assert!(value.to_bits() == expected.to_bits(), "{name}, value {i}: {value:e}, expected {expected:e}");
    }
    true
}

#[test]
fn reference_bytes_have_the_stated_error() {
    for dir in fixture_dirs() {
        let input = Input::read(&dir);
        for (quant, by_importance, error, weighted_error) in REFERENCE_ERRORS {
            // The repository's share leaves out the types that cannot be made here.
            let Some(blocks) = reference_blocks(&dir, quant, by_importance) else {
                assert!(!quant.can_quantise(), "no fixture of {}", quant.name());
                continue;
            };
            let errors = input.errors(quant, &blocks);
            let near = |found: f64, stated: f64| (found / stated - 1.0).abs() < 1e-6;
            assert!(near(errors.0, error) && near(errors.1, weighted_error), "{}: {errors:?}", quant.name());
        }
    }
}

/// The searches use nothing but IEEE sums, products, quotients and square roots in a fixed order, so equality holds on
/// every machine; and with it the error of the test above.
#[test]
fn quantises_to_the_reference_bytes() {
    for dir in fixture_dirs() {
        let input = Input::read(&dir);
        for (quant, by_importance, ..) in REFERENCE_ERRORS {
            if !quant.can_quantise() {
                continue;
            }
            let mut blocks = Vec::new();
            let importance = by_importance.then_some(&*input.importance);
            quant.quantise(&input.values, input.importance.len(), importance, &mut blocks).unwrap();
            let reference = reference_blocks(&dir, quant, by_importance).expect("a fixture");
            let size = quant.block_bytes();
            let other = blocks.chunks(size).zip(reference.chunks(size)).position(|(ours, theirs)| ours != theirs);
            assert_eq!(other, None, "the first block of {} that differs, importance {by_importance}", quant.name());
            assert_eq!(blocks.len(), reference.len());
        }
    }
}

/// Against `ml_dtypes`; the NaN, which is read as a number, apart.
#[test]
fn every_float_of_eight_bits_is_its_value() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down");
    let expected = read_f32(&repository.join("tests/golden/scaled/e4m3.f32"));
    let codes: Vec<u8> = (0..=255).collect();
    let mut values = vec![f32::NAN; 256];
    Quant::F8_E4M3.dequantise(&codes, &mut values);
    for (code, (value, expected)) in values.iter().zip(&expected).enumerate() {
        if code & 0x7f == 0x7f {
            assert!(expected.is_nan() && value.abs() == 480.0, "{code:#04x}: {value}");
        } else {
            assert_eq!(value.to_bits(), expected.to_bits(), "{code:#04x}: {value}, expected {expected}");
        }
    }
}

#[test]
fn types_of_one_value_are_converted() {
    fn dequantised(quant: Quant, bytes: &[u8]) -> f32 {
        let mut value = [f32::NAN];
        quant.dequantise(bytes, &mut value);
        value[0]
    }
    assert_eq!(dequantised(Quant::F32, &1.5e-39_f32.to_le_bytes()), 1.5e-39);
    assert_eq!(dequantised(Quant::F64, &0.1_f64.to_le_bytes()), 0.1);
    assert_eq!(dequantised(Quant::F64, &1e300_f64.to_le_bytes()), f32::INFINITY);
    assert_eq!(dequantised(Quant::I8, &(-128_i8).to_le_bytes()), -128.0);
    assert_eq!(dequantised(Quant::I16, &(-32768_i16).to_le_bytes()), -32768.0);
    assert_eq!(dequantised(Quant::I32, &i32::MIN.to_le_bytes()), -2_147_483_648.0);
    assert_eq!(dequantised(Quant::I64, &i64::MAX.to_le_bytes()), 9_223_372_036_854_775_807.0);

    let mut bytes = Vec::new();
    Quant::F32.quantise(&[1.5e-39, -0.0], 2, None, &mut bytes).unwrap();
    assert_eq!(bytes, [1.5e-39_f32.to_le_bytes(), (-0.0_f32).to_le_bytes()].concat());
}

/// The repository's own share and, where it is, the full set.
fn fixture_dirs() -> Vec<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down");
    let mut dirs = vec![repository.join("tests/golden/quant")];
    let shared = repository.parent().map(|parent| parent.join("shared/fixtures/quant"));
    match shared.filter(|shared| shared.is_dir()) {
        Some(shared) => dirs.push(shared),
        None => eprintln!("skipped: the full set of fixtures, no ../shared/fixtures/quant beside the repository"),
    }
    dirs
}

fn reference_blocks(dir: &Path, quant: Quant, by_importance: bool) -> Option<Vec<u8>> {
    let name = quant.name().to_lowercase();
    fs::read(dir.join(format!("quantise.{name}{}.bin", if by_importance { ".imatrix" } else { "" }))).ok()
}

fn read_f32(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

struct Input {
    /// (rows, columns)
    values: Vec<f32>,
    /// (columns)
    importance: Vec<f32>,
}

impl Input {
    fn read(dir: &Path) -> Self {
        Self {
            values: read_f32(&dir.join("quantise.input.f32")),
            importance: read_f32(&dir.join("quantise.imatrix.f32")),
        }
    }

    /// Root of the mean square error, plain and weighted by importance.
    fn errors(&self, quant: Quant, blocks: &[u8]) -> (f64, f64) {
        let mut values = vec![0.0; self.values.len()];
        quant.dequantise(blocks, &mut values);
        let (mut sum, mut weighted, mut weights) = (0.0, 0.0, 0.0);
        for (i, (value, original)) in values.iter().zip(&self.values).enumerate() {
            let square = (f64::from(*value) - f64::from(*original)).powi(2);
            let weight = f64::from(self.importance[i % self.importance.len()]);
            sum += square;
            weighted += weight * square;
            weights += weight;
        }
        ((sum / values.len() as f64).sqrt(), (weighted / weights).sqrt())
    }
}

/// Type, whether importance was given, and the errors of what ggml made: plain, weighted by importance.
const REFERENCE_ERRORS: [(Quant, bool, f64, f64); 42] = [
    (Quant::F16, false, 3.7676567e-05, 3.6757598e-05),
    (Quant::BF16, false, 0.00031536887, 0.00030063643),
    (Quant::Q4_0, false, 0.014042807, 0.014387622),
    (Quant::Q4_0, true, 0.013927233, 0.012730852),
    (Quant::Q4_1, false, 0.012821698, 0.012999034),
    (Quant::Q4_1, true, 0.011972409, 0.011054278),
    (Quant::Q5_0, false, 0.0067600764, 0.0067579721),
    (Quant::Q5_0, true, 0.0063873731, 0.0061071725),
    (Quant::Q5_1, false, 0.0064279567, 0.0063719132),
    (Quant::Q5_1, true, 0.0060474167, 0.0055188581),
    (Quant::Q8_0, false, 0.00083445665, 0.0008099343),
    (Quant::Q2_K, false, 0.051227782, 0.050042634),
    (Quant::Q2_K, true, 0.052543801, 0.044038117),
    (Quant::Q3_K, false, 0.026104322, 0.026272787),
    (Quant::Q3_K, true, 0.027207325, 0.024270222),
    (Quant::Q4_K, false, 0.011940743, 0.012104255),
    (Quant::Q4_K, true, 0.012036954, 0.011077499),
    (Quant::Q5_K, false, 0.0058400084, 0.0060135887),
    (Quant::Q5_K, true, 0.0062434361, 0.0058021175),
    (Quant::Q6_K, false, 0.0029918935, 0.0030467925),
    (Quant::Q6_K, true, 0.0029676082, 0.0027468382),
    (Quant::IQ4_NL, false, 0.013820834, 0.013127656),
    (Quant::IQ4_NL, true, 0.01424427, 0.012416041),
    (Quant::IQ4_XS, false, 0.013991948, 0.013426051),
    (Quant::IQ4_XS, true, 0.01448235, 0.012579242),
    (Quant::IQ3_S, false, 0.028958693, 0.028454307),
    (Quant::IQ3_S, true, 0.027838349, 0.023199147),
    (Quant::IQ3_XXS, false, 0.03953017, 0.039571908),
    (Quant::IQ3_XXS, true, 0.048445424, 0.028354021),
    (Quant::IQ2_S, false, 0.054567133, 0.054687518),
    (Quant::IQ2_S, true, 0.056860091, 0.045899836),
    (Quant::IQ2_XS, true, 0.071436785, 0.048135495),
    (Quant::IQ2_XXS, true, 0.083894779, 0.057228791),
    (Quant::IQ1_S, true, 0.11027303, 0.080719843),
    (Quant::IQ1_M, false, 0.11254899, 0.11758608),
    (Quant::IQ1_M, true, 0.10494625, 0.072871561),
    (Quant::TQ1_0, false, 0.10841556, 0.10693583),
    (Quant::TQ2_0, false, 0.10841556, 0.10693583),
    (Quant::MXFP4, false, 0.031317966, 0.031562484),
    (Quant::NVFP4, false, 0.020274287, 0.019626077),
    (Quant::Q1_0, false, 0.10837012, 0.11034267),
    (Quant::Q2_0, false, 0.10512876, 0.10351849),
];
