//! The twelve bytes in which `Q4_K` and `Q5_K` keep a 6-bit scale and a 6-bit minimum for each of their 8 sub-blocks.
//!
//! ```text
//! byte i      (i < 4)   bits 0..6  scale i              bits 6..8  upper two bits of scale i + 4
//! byte 4 + i  (i < 4)   bits 0..6  minimum i            bits 6..8  upper two bits of minimum i + 4
//! byte 8 + i  (i < 4)   bits 0..4  low bits of scale i + 4   bits 4..8  low bits of minimum i + 4
//! ```

/// The scales and the minimums, each 0 to 63.
#[inline(always)]
pub(super) fn unpack(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut minimums) = ([0; 8], [0; 8]);
    for i in 0..4 {
        scales[i] = packed[i] & 63;
        minimums[i] = packed[4 + i] & 63;
        scales[4 + i] = (packed[8 + i] & 15) | (packed[i] >> 6) << 4;
        minimums[4 + i] = (packed[8 + i] >> 4) | (packed[4 + i] >> 6) << 4;
    }
    (scales, minimums)
}
