//! NVFP4: 4-bit E2M1 codes, one E4M3 scale per 16 values, one f32 scale per matrix.
//!
//! Both packings met in the wild become one [`Nvfp4Matrix`], which keeps the weights packed:
//!
//! | | modelopt | compressed-tensors |
//! |---|---|---|
//! | value | `e2m1 * (f32(scale) * weight_scale_2)` | `e2m1 * (f32(scale) / weight_global_scale)` |

use crate::bytes::Bytes;

/// The global scale of a matrix. The two conventions are reciprocal and must never be mixed up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GlobalScale {
    /// modelopt `weight_scale_2` = amax / 2688: multiplies.
    Multiply(f32),
    /// compressed-tensors `weight_global_scale` = 2688 / amax: divides.
    Divide(f32),
}

impl GlobalScale {
    /// The factor a kernel multiplies its sum with.
    pub fn factor(self) -> f32 {
        match self {
            GlobalScale::Multiply(s) => s,
            GlobalScale::Divide(s) => 1.0 / s,
        }
    }
}

/// The calibrated scale of a matrix's input, for 4-bit activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InputScale {
    /// modelopt `input_scale` = amax / 2688: multiplies.
    Multiply(f32),
    /// compressed-tensors `input_global_scale` = 2688 / amax: divides.
    Divide(f32),
}

/// A packed weight matrix `[N, K]`, K divisible by 16.
#[derive(Clone, Debug)]
pub struct Nvfp4Matrix {
    /// Rows: output features N.
    pub n: usize,
    /// Columns: input features K.
    pub k: usize,
    /// `[N, K/2]`: byte j holds column 2j in its low and 2j+1 in its high nibble.
    pub codes: Bytes,
    /// `[N, K/16]`: E4M3, not negative, not NaN.
    pub scales: Bytes,
    /// The matrix's own scale.
    pub global: GlobalScale,
    /// Present where the checkpoint was calibrated for 4-bit activations.
    pub input: Option<InputScale>,
}
