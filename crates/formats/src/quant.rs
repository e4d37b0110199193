//! The closed set of storage types, their block layout, and scalar conversion to and from `f32`.
//!
//! A quantised row is a run of blocks; a block holds a fixed number of values in a fixed number of bytes. One file per
//! type under `quant/` knows a block's inside. Nothing here is fast: kernels are the devices' business, and are checked
//! against this.

mod affine_blocks;
mod bf16;
mod blocks;
mod e4m3;
mod f16;
pub mod grids;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod nvfp4;
mod q1_0;
mod q2_0;
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
mod search;
mod tq1_0;
mod tq2_0;

use blocks::Rows;

pub use iq4_nl::LEVELS as IQ4_LEVELS;
pub use mxfp4::LEVELS as FP4_LEVELS;
pub use nvfp4::half_scale as nvfp4_scale;

/// How the values of a tensor are stored. The names are those of ggml; of what GGUF does not have, those of safetensors.
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
    /// Floats of eight bits, most often with factors apart ([`crate::scales`]). No GGUF has them.
    F8_E4M3,
    /// Plain integers and doubles: tables, never operands of a matrix product.
    I8,
    I16,
    I32,
    I64,
    F64,
}

/// Name, number in a GGUF file if it may be in one, values per block, bytes per block; in the order of the variants.
const LAYOUT: [(&str, Option<u32>, usize, usize); 34] = [
    ("F32", Some(0), 1, 4),
    ("F16", Some(1), 1, 2),
    ("BF16", Some(30), 1, 2),
    ("Q4_0", Some(2), 32, 18),
    ("Q4_1", Some(3), 32, 20),
    ("Q5_0", Some(6), 32, 22),
    ("Q5_1", Some(7), 32, 24),
    ("Q8_0", Some(8), 32, 34),
    ("Q2_K", Some(10), 256, 84),
    ("Q3_K", Some(11), 256, 110),
    ("Q4_K", Some(12), 256, 144),
    ("Q5_K", Some(13), 256, 176),
    ("Q6_K", Some(14), 256, 210),
    ("IQ2_XXS", Some(16), 256, 66),
    ("IQ2_XS", Some(17), 256, 74),
    ("IQ2_S", Some(22), 256, 82),
    ("IQ3_XXS", Some(18), 256, 98),
    ("IQ3_S", Some(21), 256, 110),
    ("IQ1_S", Some(19), 256, 50),
    ("IQ1_M", Some(29), 256, 56),
    ("IQ4_NL", Some(20), 32, 18),
    ("IQ4_XS", Some(23), 256, 136),
    ("TQ1_0", Some(34), 256, 54),
    ("TQ2_0", Some(35), 256, 66),
    ("MXFP4", Some(39), 32, 17),
    ("NVFP4", Some(40), 64, 36),
    ("Q1_0", Some(41), 128, 18),
    ("Q2_0", Some(42), 64, 18),
    ("F8_E4M3", None, 1, 1),
    ("I8", Some(24), 1, 1),
    ("I16", Some(25), 1, 2),
    ("I32", Some(26), 1, 4),
    ("I64", Some(27), 1, 8),
    ("F64", Some(28), 1, 8),
];

impl Quant {
    /// Every type.
    pub const ALL: [Self; 34] = [
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
        Self::F8_E4M3,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F64,
    ];

    /// The type with this number in a GGUF file.
    pub fn from_ggml(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|quant| quant.ggml() == Some(number))
    }

    /// This type's number in a GGUF file, if it may be in one.
    pub const fn ggml(self) -> Option<u32> {
        LAYOUT[self as usize].1
    }

    /// The name, as ggml writes it, or safetensors.
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
            // Integers and doubles are tables; arithmetic sees them rounded to `f32`.
            Self::F32 => blocks::dequantise_values(blocks, values, f32::from_le_bytes),
            Self::F16 => f16::dequantise(blocks, values),
            Self::BF16 => blocks::dequantise_values(blocks, values, bf16::dequantise),
            Self::F8_E4M3 => blocks::dequantise_values(blocks, values, e4m3::dequantise),
            Self::Q4_0 => blocks::dequantise(blocks, values, q4_0::dequantise),
            Self::Q4_1 => blocks::dequantise(blocks, values, q4_1::dequantise),
            Self::Q5_0 => blocks::dequantise(blocks, values, q5_0::dequantise),
            Self::Q5_1 => blocks::dequantise(blocks, values, q5_1::dequantise),
            Self::Q8_0 => blocks::dequantise(blocks, values, q8_0::dequantise),
            Self::Q2_K => blocks::dequantise(blocks, values, q2_k::dequantise),
            Self::Q3_K => blocks::dequantise(blocks, values, q3_k::dequantise),
            Self::Q4_K => blocks::dequantise(blocks, values, q4_k::dequantise),
            Self::Q5_K => blocks::dequantise(blocks, values, q5_k::dequantise),
            Self::Q6_K => blocks::dequantise(blocks, values, q6_k::dequantise),
            Self::IQ2_XXS => blocks::dequantise(blocks, values, iq2_xxs::dequantise),
            Self::IQ2_XS => blocks::dequantise(blocks, values, iq2_xs::dequantise),
            Self::IQ2_S => blocks::dequantise(blocks, values, iq2_s::dequantise),
            Self::IQ3_XXS => blocks::dequantise(blocks, values, iq3_xxs::dequantise),
            Self::IQ3_S => blocks::dequantise(blocks, values, iq3_s::dequantise),
            Self::IQ1_S => blocks::dequantise(blocks, values, iq1_s::dequantise),
            Self::IQ1_M => blocks::dequantise(blocks, values, iq1_m::dequantise),
            Self::IQ4_NL => blocks::dequantise(blocks, values, iq4_nl::dequantise),
            Self::IQ4_XS => blocks::dequantise(blocks, values, iq4_xs::dequantise),
            Self::TQ1_0 => blocks::dequantise(blocks, values, tq1_0::dequantise),
            Self::TQ2_0 => blocks::dequantise(blocks, values, tq2_0::dequantise),
            Self::MXFP4 => blocks::dequantise(blocks, values, mxfp4::dequantise),
            Self::NVFP4 => blocks::dequantise(blocks, values, nvfp4::dequantise),
            Self::Q1_0 => blocks::dequantise(blocks, values, q1_0::dequantise),
            Self::Q2_0 => blocks::dequantise(blocks, values, q2_0::dequantise),
            Self::I8 => blocks::dequantise_values(blocks, values, |block| i8::from_le_bytes(block) as f32),
            Self::I16 => blocks::dequantise_values(blocks, values, |block| i16::from_le_bytes(block) as f32),
            Self::I32 => blocks::dequantise_values(blocks, values, |block| i32::from_le_bytes(block) as f32),
            Self::I64 => blocks::dequantise_values(blocks, values, |block| i64::from_le_bytes(block) as f32),
            Self::F64 => blocks::dequantise_values(blocks, values, |block| f64::from_le_bytes(block) as f32),
        }
    }

    /// Whether [`Self::quantise`] knows this type.
    pub fn can_quantise(self) -> bool {
        self.quantiser().is_some()
    }

    /// Appends `values`, rows of `columns` values each, to `out` as blocks of this type.
    ///
    /// `importance` says for each column how much its errors matter: the mean square of the activations that meet it (an
    /// importance matrix). Types that have no choice to make ignore it. Values that are no number, or too large for the
    /// type, become something that dequantises without harm, but not to what they were. On an error `out` is as it was.
    pub fn quantise(
        self,
        values: &[f32],
        columns: usize,
        importance: Option<&[f32]>,
        out: &mut Vec<u8>,
    ) -> Result<(), QuantError> {
        let quantiser = self.quantiser().ok_or(QuantError::Unsupported { name: self.name() })?;
        if columns == 0 || !columns.is_multiple_of(self.block_len()) {
            return Err(QuantError::Columns { name: self.name(), columns, block_len: self.block_len() });
        }
        if !values.len().is_multiple_of(columns) {
            return Err(QuantError::Rows { values: values.len(), columns });
        }
        if let Some(importance) = importance.filter(|importance| importance.len() != columns) {
            return Err(QuantError::Importance { found: importance.len(), columns });
        }
        let start = out.len();
        out.resize(start + values.len() / self.block_len() * self.block_bytes(), 0);
        quantiser(Rows { values, columns, importance }, &mut out[start..]);
        Ok(())
    }

    /// What turns whole rows into zeroed bytes of the right length.
    fn quantiser(self) -> Option<fn(Rows<'_>, &mut [u8])> {
        Some(match self {
            Self::F32 => |rows, out| rows.quantise_values(out, f32::to_le_bytes),
            Self::F16 => |rows, out| rows.quantise_values(out, f16::quantise),
            Self::BF16 => |rows, out| rows.quantise_values(out, bf16::quantise),
            Self::Q4_0 => |rows, out| rows.quantise_by_weight(out, q4_0::quantise),
            Self::Q4_1 => |rows, out| rows.quantise_by_weight(out, q4_1::quantise),
            Self::Q5_0 => |rows, out| rows.quantise_by_weight(out, q5_0::quantise),
            Self::Q5_1 => |rows, out| rows.quantise_by_weight(out, q5_1::quantise),
            Self::Q8_0 => |rows, out| rows.quantise(out, q8_0::quantise),
            Self::Q2_K => |rows, out| rows.quantise_by_importance(out, q2_k::quantise),
            Self::Q3_K => |rows, out| rows.quantise_by_importance(out, q3_k::quantise),
            Self::Q4_K => |rows, out| rows.quantise_by_importance(out, q4_k::quantise),
            Self::Q5_K => |rows, out| rows.quantise_by_importance(out, q5_k::quantise),
            Self::Q6_K => |rows, out| rows.quantise_by_importance(out, q6_k::quantise),
            Self::IQ4_NL => |rows, out| rows.quantise_by_importance(out, iq4_nl::quantise),
            Self::IQ4_XS => |rows, out| rows.quantise_by_importance(out, iq4_xs::quantise),
            Self::TQ1_0 => |rows, out| rows.quantise(out, tq1_0::quantise),
            Self::TQ2_0 => |rows, out| rows.quantise(out, tq2_0::quantise),
            Self::MXFP4 => |rows, out| rows.quantise(out, mxfp4::quantise),
            Self::NVFP4 => |rows, out| rows.quantise(out, nvfp4::quantise),
            Self::Q1_0 => |rows, out| rows.quantise(out, q1_0::quantise),
            Self::Q2_0 => |rows, out| rows.quantise(out, q2_0::quantise),
            Self::IQ2_XXS
            | Self::IQ2_XS
            | Self::IQ2_S
            | Self::IQ3_XXS
            | Self::IQ3_S
            | Self::IQ1_S
            | Self::IQ1_M
            | Self::F8_E4M3
            | Self::I8
            | Self::I16
            | Self::I32
            | Self::I64
            | Self::F64 => return None,
        })
    }
}

/// Why values were not quantised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantError {
    /// The type can be read, not written.
    #[error("there is no quantiser for {name}: take a type such as Q4_K, Q6_K or Q8_0")]
    Unsupported {
        /// The type.
        name: &'static str,
    },
    /// A row is no whole number of blocks.
    #[error("a row of {columns} values cannot be {name}: it must be a multiple of {block_len}")]
    Columns {
        /// The type.
        name: &'static str,
        /// Values in a row.
        columns: usize,
        /// Values in a block.
        block_len: usize,
    },
    /// The values are no whole number of rows.
    #[error("{values} values are no whole rows of {columns}")]
    Rows {
        /// Values given.
        values: usize,
        /// Values in a row.
        columns: usize,
    },
    /// Importance is not one number for each column.
    #[error("the importance of {found} columns does not fit rows of {columns}")]
    Importance {
        /// Numbers given.
        found: usize,
        /// Values in a row.
        columns: usize,
    },
}
