//! NVFP4: 4-bit E2M1 codes, one E4M3 scale per 16 values, one f32 scale per matrix.
//!
//! Both packings met in the wild become one [`Nvfp4Matrix`], which keeps the weights packed:
//!
//! | | modelopt | compressed-tensors |
//! |---|---|---|
//! | value | `e2m1 * (f32(scale) * weight_scale_2)` | `e2m1 * (f32(scale) / weight_global_scale)` |
//!
//! Source: the packages' own code, nvidia-modelopt 0.47 and compressed-tensors 0.20; the vectors in
//! `tests/data/nvfp4-vectors.json` were made by running it. Dequantisation here is bit-exact with theirs, down to the
//! sign of zero: modelopt's table has +0 for the code 8, compressed-tensors' has -0.

use crate::bytes::Bytes;
use crate::error::{Error, Result};

pub mod dot;
pub mod e2m1;
pub mod e4m3;
pub mod mma;
#[cfg(test)]
mod properties;
pub mod quantize;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod vectors;
pub mod w4a4;

/// How many consecutive columns share a scale.
pub const BLOCK: usize = 16;

/// The largest value in units of the global scale, 6 * 448.
const SPAN: f32 = e2m1::MAX * e4m3::MAX;

/// No weight of a sane model is this large; a global scale read the wrong way round makes weights that are.
const ABSURD_WEIGHT: f32 = 32768.0;

/// The same for calibrated activations, which may be larger.
const ABSURD_INPUT: f32 = 1_048_576.0;

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

    /// modelopt's scale for a matrix whose largest magnitude is `amax`; 1 for a matrix of zeros.
    pub fn multiply_for(amax: f32) -> Self {
        GlobalScale::Multiply(if amax == 0.0 { 1.0 } else { amax / SPAN })
    }

    /// compressed-tensors' scale for a matrix whose largest magnitude is `amax`; 1 where it overflows.
    pub fn divide_for(amax: f32) -> Self {
        // torch divides a number by a tensor with the tensor's reciprocal, which rounds twice.
        let scale = SPAN * (1.0 / amax.max(f32::MIN_POSITIVE));
        GlobalScale::Divide(if scale.is_finite() { scale } else { 1.0 })
    }

    /// The scale of a block in full.
    fn of_block(self, byte: u8) -> f32 {
        match self {
            GlobalScale::Multiply(s) => e4m3::decode(byte) * s,
            GlobalScale::Divide(s) => e4m3::decode(byte) / s,
        }
    }

    /// What the exporter's own reader takes the codes for.
    fn code_values(self) -> &'static [f32; 16] {
        const PLUS_ZERO: [f32; 16] = {
            let mut values = e2m1::VALUES;
            values[8] = 0.0;
            values
        };
        match self {
            GlobalScale::Multiply(_) => &PLUS_ZERO,
            GlobalScale::Divide(_) => &e2m1::VALUES,
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

impl InputScale {
    /// What activations are multiplied with before they are quantised.
    pub fn multiplier(self) -> f32 {
        match self {
            InputScale::Multiply(s) => 1.0 / s,
            InputScale::Divide(s) => s,
        }
    }

    /// The factor that undoes it: a W4A4 sum is multiplied with this and the weights' [`GlobalScale::factor`]. Where
    /// matrices over one input disagree, the largest factor saturates none of them more than calibrated.
    pub fn factor(self) -> f32 {
        match self {
            InputScale::Multiply(s) => s,
            InputScale::Divide(s) => 1.0 / s,
        }
    }
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

impl Nvfp4Matrix {
    /// A matrix whose parts fit together and whose scales are usable. The error does not know the tensor's name: put it
    /// in front with [`Error::at`].
    pub fn checked(
        n: usize,
        k: usize,
        codes: Bytes,
        scales: Bytes,
        global: GlobalScale,
        input: Option<InputScale>,
    ) -> Result<Self> {
        if k == 0 || !k.is_multiple_of(BLOCK) {
            return Err(Error::new(format!("{k} input features are no multiple of {BLOCK}, the NVFP4 block")));
        }
        let blocks = n.checked_mul(k / BLOCK);
        if blocks != Some(scales.len()) {
            return Err(Error::new(format!("{} block scales where [{n}, {}] are needed", scales.len(), k / BLOCK)));
        }
        if blocks.and_then(|b| b.checked_mul(BLOCK / 2)) != Some(codes.len()) {
            return Err(Error::new(format!("{} bytes of codes where [{n}, {}] are needed", codes.len(), k / 2)));
        }
        check_block_scales(&scales, k)?;
        check_global(global)?;
        input.map_or(Ok(()), check_input)?;
        Ok(Self { n, k, codes, scales, global, input })
    }

    /// Row `n` dequantised into `out` `[K]`, bit for bit as the packing's own software does it in f32.
    pub fn row(&self, n: usize, out: &mut [f32]) {
        debug_assert!(n < self.n && out.len() == self.k);
        let per_row = self.k / BLOCK;
        let (codes, _) = self.codes.as_chunks::<{ BLOCK / 2 }>();
        let (out, _) = out.as_chunks_mut::<BLOCK>();
        let values = self.global.code_values();
        let blocks = codes.iter().zip(self.scales.iter()).skip(n * per_row);
        for ((codes, &byte), out) in blocks.zip(out) {
            let scale = self.global.of_block(byte);
            let (pairs, _) = out.as_chunks_mut::<2>();
            for (code, [even, odd]) in codes.iter().zip(pairs) {
                *even = values[usize::from(code & 15)] * scale;
                *odd = values[usize::from(code >> 4)] * scale;
            }
        }
    }

    /// All rows dequantised, `[N, K]`.
    pub fn dequantize(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.n * self.k];
        for (n, row) in values.chunks_exact_mut(self.k).enumerate() {
            self.row(n, row);
        }
        values
    }
}

/// How many of an activation row's blocks took the largest scale there is: they lie at or beyond the calibrated range and
/// were probably clipped. A checkpoint calibrated on too little shows here and nowhere else.
pub fn saturated_blocks(scales: &[u8]) -> usize {
    scales.iter().filter(|&&byte| byte == e4m3::MAX_BYTE).count()
}

fn check_block_scales(scales: &[u8], k: usize) -> Result<()> {
    // A checkpoint has hundreds of millions of them: the usual case is one pass of byte maxima.
    if scales.iter().fold(0, |top, &byte| byte.max(top)) <= e4m3::MAX_BYTE {
        return Ok(());
    }
    let Some(at) = scales.iter().position(|&byte| byte > e4m3::MAX_BYTE) else { return Ok(()) };
    let bad = scales.iter().filter(|&&byte| byte > e4m3::MAX_BYTE).count();
    let what = if scales[at] & 0x7f == e4m3::NAN_BYTE { "NaN" } else { "negative" };
    let (row, block) = (at / (k / BLOCK), at % (k / BLOCK));
    Err(Error::new(format!(
        "{bad} of {} block scales are unusable, first a {what} one at [{row}, {block}]",
        scales.len()
    ))
    .hint("the file is damaged, or made by a 4-bit packing that is not NVFP4; fetch it again"))
}

fn check_global(global: GlobalScale) -> Result<()> {
    let (GlobalScale::Multiply(stored) | GlobalScale::Divide(stored)) = global;
    usable("global scale", stored, global.factor(), ABSURD_WEIGHT)
}

fn check_input(input: InputScale) -> Result<()> {
    let (InputScale::Multiply(stored) | InputScale::Divide(stored)) = input;
    usable("input scale", stored, input.factor(), ABSURD_INPUT)
}

fn usable(what: &str, stored: f32, factor: f32, absurd: f32) -> Result<()> {
    if !(stored.is_finite() && stored > 0.0 && factor.is_finite() && factor > 0.0) {
        return Err(Error::new(format!("the {what} is {stored}, which is not finite and positive"))
            .hint("the file is damaged or its exporter failed; fetch it again"));
    }
    if factor * SPAN > absurd {
        return Err(Error::new(format!("the {what} {stored} allows values up to {:e}", factor * SPAN))
            .hint("it looks like the reciprocal: modelopt's scales multiply, compressed-tensors' divide"));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GLOBAL: GlobalScale = GlobalScale::Multiply(1e-4);

    fn matrix(n: usize, k: usize, codes: usize, scales: &[u8]) -> Result<Nvfp4Matrix> {
        Nvfp4Matrix::checked(n, k, vec![0x21; codes].into(), scales.to_vec().into(), GLOBAL, None)
    }

    fn message(result: Result<Nvfp4Matrix>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn parts_that_fit_are_taken() {
        let m = matrix(2, 32, 32, &[0x38; 4]).unwrap();
        let mut row = [0.0; 32];
        m.row(1, &mut row);
        assert_eq!(row[..4], [0.5 * 1e-4, 1e-4, 0.5 * 1e-4, 1e-4]);
        assert!(matrix(0, 16, 0, &[]).is_ok());
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        assert!(message(matrix(2, 24, 24, &[0x38; 3])).contains("multiple of 16"));
        assert!(message(matrix(2, 0, 0, &[])).contains("multiple of 16"));
        assert!(message(matrix(2, 32, 31, &[0x38; 4])).contains("31 bytes of codes"));
        assert!(message(matrix(2, 32, 32, &[0x38; 5])).contains("5 block scales where [2, 2]"));
        assert!(message(matrix(usize::MAX, 32, 32, &[0x38; 4])).contains("block scales"));
    }

    #[test]
    fn unusable_block_scales_are_counted_and_located() {
        for (byte, what) in [(0x7f, "NaN"), (0xff, "NaN"), (0x80, "negative"), (0xb8, "negative")] {
            let text = message(matrix(2, 32, 32, &[0x38, 0x7e, 0x38, byte]));
            assert!(text.contains("1 of 4") && text.contains(what) && text.contains("[1, 1]"), "{text}");
        }
    }

    #[test]
    fn unusable_global_scales_are_refused() {
        let with = |global, input| Nvfp4Matrix::checked(1, 16, vec![0; 8].into(), vec![0x38].into(), global, input);
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(with(GlobalScale::Multiply(bad), None).is_err());
            assert!(with(GlobalScale::Divide(bad), None).is_err());
            assert!(with(GLOBAL, Some(InputScale::Multiply(bad))).is_err());
            assert!(with(GLOBAL, Some(InputScale::Divide(bad))).is_err());
        }
        // A subnormal divisor has no finite reciprocal.
        assert!(with(GlobalScale::Divide(1e-42), None).is_err());
    }

    #[test]
    fn scales_of_the_other_convention_are_told_apart() {
        let with = |global, input| Nvfp4Matrix::checked(1, 16, vec![0; 8].into(), vec![0x38].into(), global, input);
        for amax in [0.01, 0.1, 1.0, 50.0f32] {
            let (multiply, divide) = (amax / 2688.0, 2688.0 / amax);
            assert!(with(GlobalScale::Multiply(multiply), None).is_ok());
            assert!(with(GlobalScale::Divide(divide), None).is_ok());
            for shifted in [GlobalScale::Multiply(divide), GlobalScale::Divide(multiply)] {
                assert!(with(shifted, None).unwrap_err().cure().unwrap().contains("reciprocal"));
            }
        }
        for amax in [0.1, 1.0, 5.0f32] {
            let (multiply, divide) = (amax / 2688.0, 2688.0 / amax);
            assert!(with(GLOBAL, Some(InputScale::Multiply(multiply))).is_ok());
            assert!(with(GLOBAL, Some(InputScale::Divide(divide))).is_ok());
            assert!(with(GLOBAL, Some(InputScale::Multiply(divide))).is_err());
            assert!(with(GLOBAL, Some(InputScale::Divide(multiply))).is_err());
        }
    }

    #[test]
    fn dividing_is_not_multiplying_with_the_reciprocal() {
        // compressed-tensors' values need the division itself: with the reciprocal some differ in the last bit.
        let scales: Vec<u8> = (1..=e4m3::MAX_BYTE).collect();
        let n = scales.len();
        let codes = Bytes::from(vec![0x77; n * 8]);
        let at = |global| {
            Nvfp4Matrix::checked(n, 16, codes.clone(), scales.clone().into(), global, None).unwrap().dequantize()
        };
        let global_scale = 18_852.822;
        let divided = at(GlobalScale::Divide(global_scale));
        let multiplied = at(GlobalScale::Multiply(1.0 / global_scale));
        assert_ne!(divided, multiplied);
        for (d, m) in divided.iter().zip(&multiplied) {
            assert!((d - m).abs() <= 2.0 * f32::EPSILON * d);
        }
    }

    #[test]
    fn global_scales_are_what_the_exporters_compute() {
        assert_eq!(GlobalScale::multiply_for(2688.0), GlobalScale::Multiply(1.0));
        // Recorded from compressed-tensors; one division would give 2340.5715.
        assert_eq!(GlobalScale::divide_for(1.148_437_5), GlobalScale::Divide(2_340.571_3));
        assert_ne!(SPAN / 1.148_437_5, 2_340.571_3);
    }

    #[test]
    fn saturation_is_counted() {
        assert_eq!(saturated_blocks(&[0, 0x7d, 0x7e, 0x7e, 0x38]), 2);
        assert_eq!(saturated_blocks(&[]), 0);
    }
}
