//! The closed set of storage types, their block layout, and scalar conversion to and from `f32`.
//!
//! A quantised row is a run of blocks; a block holds a fixed number of values in a fixed number of bytes. One file per
//! type under `quant/` knows a block's inside. Nothing here is fast: kernels are the devices' business, and are checked
//! against this.

mod bf16;
mod f16;
mod plain;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod scales_6bit;

/// How the values of a tensor are stored. The names are those of ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, missing_docs)]
pub enum Quant {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ3_XXS,
    IQ3_S,
    IQ1_S,
    IQ1_M,
    IQ4_NL,
    IQ4_XS,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Q1_0,
    Q2_0,
    /// Plain integers and doubles: tables, never operands of a matrix product.
    I8,
    I16,
    I32,
    I64,
    F64,
}

/// Name, number in a GGUF file, values per block, bytes per block; in the order of the variants.
const LAYOUT: [(&str, u32, usize, usize); 33] = [
    ("F32", 0, 1, 4),
    ("F16", 1, 1, 2),
    ("BF16", 30, 1, 2),
    ("Q4_0", 2, 32, 18),
    ("Q4_1", 3, 32, 20),
    ("Q5_0", 6, 32, 22),
    ("Q5_1", 7, 32, 24),
    ("Q8_0", 8, 32, 34),
    ("Q2_K", 10, 256, 84),
    ("Q3_K", 11, 256, 110),
    ("Q4_K", 12, 256, 144),
    ("Q5_K", 13, 256, 176),
    ("Q6_K", 14, 256, 210),
    ("IQ2_XXS", 16, 256, 66),
    ("IQ2_XS", 17, 256, 74),
    ("IQ2_S", 22, 256, 82),
    ("IQ3_XXS", 18, 256, 98),
    ("IQ3_S", 21, 256, 110),
    ("IQ1_S", 19, 256, 50),
    ("IQ1_M", 29, 256, 56),
    ("IQ4_NL", 20, 32, 18),
    ("IQ4_XS", 23, 256, 136),
    ("TQ1_0", 34, 256, 54),
    ("TQ2_0", 35, 256, 66),
    ("MXFP4", 39, 32, 17),
    ("NVFP4", 40, 64, 36),
    ("Q1_0", 41, 128, 18),
    ("Q2_0", 42, 64, 18),
    ("I8", 24, 1, 1),
    ("I16", 25, 1, 2),
    ("I32", 26, 1, 4),
    ("I64", 27, 1, 8),
    ("F64", 28, 1, 8),
];

impl Quant {
    /// Every type.
    pub const ALL: [Self; 33] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ2_XXS,
        Self::IQ2_XS,
        Self::IQ2_S,
        Self::IQ3_XXS,
        Self::IQ3_S,
        Self::IQ1_S,
        Self::IQ1_M,
        Self::IQ4_NL,
        Self::IQ4_XS,
        Self::TQ1_0,
        Self::TQ2_0,
        Self::MXFP4,
        Self::NVFP4,
        Self::Q1_0,
        Self::Q2_0,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F64,
    ];

    /// The type with this number in a GGUF file.
    pub fn from_ggml(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|quant| quant.ggml() == number)
    }

    /// This type's number in a GGUF file.
    pub const fn ggml(self) -> u32 {
        LAYOUT[self as usize].1
    }

    /// The name, as ggml writes it.
    pub const fn name(self) -> &'static str {
        LAYOUT[self as usize].0
    }

    /// Values in one block.
    pub const fn block_len(self) -> usize {
        LAYOUT[self as usize].2
    }

    /// Bytes in one block.
    pub const fn block_bytes(self) -> usize {
        LAYOUT[self as usize].3
    }

    /// Bytes of a row of `columns` values; `None` if that is no whole number of blocks or does not fit in memory.
    pub const fn row_bytes(self, columns: usize) -> Option<usize> {
        if columns.is_multiple_of(self.block_len()) {
            (columns / self.block_len()).checked_mul(self.block_bytes())
        } else {
            None
        }
    }

    /// The values of whole blocks, in order.
    ///
    /// `values` is a multiple of [`Self::block_len`] long and `blocks` holds exactly their bytes; loading has checked
    /// that, so anything else is a bug and panics. The content of the bytes is free: any of them gives some values.
    pub fn dequantise(self, blocks: &[u8], values: &mut [f32]) {
        assert!(
            self.row_bytes(values.len()) == Some(blocks.len()),
            "{} bytes of {} are not {} values",
            blocks.len(),
            self.name(),
            values.len()
        );
        match self {
            Self::F32 => each_block(blocks, values, plain::dequantise_f32),
            Self::F16 => f16::dequantise(blocks, values),
            Self::BF16 => each_block(blocks, values, bf16::dequantise),
            Self::Q4_0 => each_block(blocks, values, q4_0::dequantise),
            Self::Q4_1 => each_block(blocks, values, q4_1::dequantise),
            Self::Q5_0 => each_block(blocks, values, q5_0::dequantise),
            Self::Q5_1 => each_block(blocks, values, q5_1::dequantise),
            Self::Q8_0 => each_block(blocks, values, q8_0::dequantise),
            Self::Q2_K => each_block(blocks, values, q2_k::dequantise),
            Self::Q3_K => each_block(blocks, values, q3_k::dequantise),
            Self::Q4_K => each_block(blocks, values, q4_k::dequantise),
            Self::Q5_K => each_block(blocks, values, q5_k::dequantise),
            Self::Q6_K => each_block(blocks, values, q6_k::dequantise),
            Self::I8 => each_block(blocks, values, plain::dequantise_i8),
            Self::I16 => each_block(blocks, values, plain::dequantise_i16),
            Self::I32 => each_block(blocks, values, plain::dequantise_i32),
            Self::I64 => each_block(blocks, values, plain::dequantise_i64),
            Self::F64 => each_block(blocks, values, plain::dequantise_f64),
            _ => panic!("{} is not read yet", self.name()),
        }
    }
}

/// Runs one type's dequantiser over every block: `BYTES` bytes become `VALUES` values.
#[inline(always)]
fn each_block<const BYTES: usize, const VALUES: usize>(
    blocks: &[u8],
    values: &mut [f32],
    dequantise: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    for (block, values) in blocks.as_chunks().0.iter().zip(values.as_chunks_mut().0) {
        dequantise(block, values);
    }
}
