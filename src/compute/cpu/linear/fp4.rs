//! W4A4: weights and activations of 4 bits, summed exactly as the host model of the FP4 tensor-core instruction does
//! ([`crate::nvfp4::w4a4`]).

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::fp4_avx512;
use super::{Inputs, Output};
use crate::compute::cpu::isa::{Isa, Set};
use crate::nvfp4::w4a4::{self, Input, Simd};
use crate::nvfp4::{BLOCK, InputScale, Nvfp4Matrix, quantize};

/// Bytes of weights that are met by all input rows before the next are read.
const HELD: usize = 16 * 1024;

/// Input rows quantised with one scale.
pub(super) enum Quantised {
    /// For any machine, and for AVX2.
    Rows(Simd, Vec<Input>),
    /// For AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512(Vec<fp4_avx512::Input>),
}

impl Quantised {
    pub(super) fn new(isa: Isa, x: &Inputs<'_>, scale: InputScale) -> Self {
        match isa.set() {
            Set::Fallback => Self::Rows(Simd::plain(), quantise(x, scale, Input::new)),
            #[cfg(target_arch = "x86_64")]
            // One row alone is not worth unpacking into memory.
            Set::Avx512 if x.len() > 1 && is_x86_feature_detected!("avx512vnni") => {
                Self::Avx512(quantise(x, scale, fp4_avx512::Input::new))
            }
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 | Set::Avx2 => Self::Rows(Simd::detected(), quantise(x, scale, Input::new)),
        }
    }
}

fn quantise<T>(x: &Inputs<'_>, scale: InputScale, keep: impl Fn(&[u8], &[u8]) -> T) -> Vec<T> {
    let (mut codes, mut scales) = (vec![0; x.k / 2], vec![0; x.k / BLOCK]);
    let row = |r| {
        quantize::activations(x.row(r), scale, &mut codes, &mut scales);
        keep(&codes, &scales)
    };
    (0..x.len()).map(row).collect()
}

/// Outputs `range` for all rows; they exist, and no other thread has them.
pub(super) fn outputs(w: &Nvfp4Matrix, x: &Quantised, range: Range<usize>, out: Output<'_>) {
    match x {
        // SAFETY: such a value is made only where the features were detected.
        #[cfg(target_arch = "x86_64")]
        Quantised::Avx512(inputs) => unsafe { fp4_avx512::outputs(w, inputs, range, out) },
        Quantised::Rows(simd, inputs) => rows(*simd, w, inputs, range, out),
    }
}

fn rows(simd: Simd, w: &Nvfp4Matrix, inputs: &[Input], range: Range<usize>, out: Output<'_>) {
    let (codes, scales) = (w.k / 2, w.k / BLOCK);
    let held = (HELD / codes.max(1)).max(1).next_multiple_of(BLOCK);
    let mut sums = vec![0.0; held.min(range.len())];
    for from in range.clone().step_by(held) {
        let to = (from + held).min(range.end);
        let sums = &mut sums[..to - from];
        for (r, input) in inputs.iter().enumerate() {
            w4a4::dots(simd, input, &w.codes[from * codes..to * codes], &w.scales[from * scales..to * scales], sums);
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: the place exists and is this thread's.
                unsafe { out.put(r, from + i, *sum) };
            }
        }
    }
}
