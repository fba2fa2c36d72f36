//! W4A4: weights and activations of 4 bits, summed exactly as the host model of the FP4 tensor-core instruction does.
//!
//! Per block of 16: the products of twice the values are integers, their sum is exact, and
//! `d = fma(sum, scale_a * scale_b / 4, d)` rounds once, block after block. See [`crate::nvfp4`].

use std::ops::Range;

use super::{Inputs, Output};
use crate::compute::cpu::isa::kernel;
use crate::compute::cpu::pool::Pool;
use crate::nvfp4::{BLOCK, InputScale, Nvfp4Matrix, e2m1, e4m3, quantize};

/// Input rows quantised with one scale.
pub(super) struct Quantised {
    rows: usize,
    k: usize,
    /// `[R, K]`, twice the E2M1 values.
    values: Vec<i8>,
    /// `[R, K/16]`, a quarter of the E4M3 values.
    scales: Vec<f32>,
}

impl Quantised {
    pub(super) fn new(_pool: &Pool, x: &Inputs<'_>, scale: InputScale) -> Self {
        let (rows, k) = (x.len(), x.k);
        let mut all = Self { rows, k, values: vec![0; rows * k], scales: vec![0.0; rows * (k / BLOCK)] };
        let (mut codes, mut scales) = (vec![0; k / 2], vec![0; k / BLOCK]);
        for r in 0..rows {
            quantize::activations(x.row(r), scale, &mut codes, &mut scales);
            unpack(&codes, &mut all.values[r * k..(r + 1) * k]);
            for (value, byte) in all.scales[r * (k / BLOCK)..].iter_mut().zip(&scales) {
                *value = e4m3::decode(*byte) * 0.25;
            }
        }
        all
    }
}

#[inline(always)]
fn unpack(codes: &[u8], values: &mut [i8]) {
    for (pair, byte) in values.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
        *pair = [e2m1::DOUBLED[usize::from(byte & 15)], e2m1::DOUBLED[usize::from(byte >> 4)]];
    }
}

kernel! {
    /// Outputs `range` for all rows; they exist, and no other thread has them.
    pub(super) fn outputs<L>(w: &Nvfp4Matrix, x: &Quantised, range: Range<usize>, out: Output<'_>) {
        let blocks = x.k / BLOCK;
        let mut values = vec![0i8; x.k];
        let mut scales = vec![0f32; blocks];
        for n in range {
            unpack(&w.codes[n * (x.k / 2)..(n + 1) * (x.k / 2)], &mut values);
            for (scale, byte) in scales.iter_mut().zip(&w.scales[n * blocks..(n + 1) * blocks]) {
                *scale = e4m3::VALUES[usize::from(*byte)];
            }
            for r in 0..x.rows {
                let inputs = x.values[r * x.k..(r + 1) * x.k].as_chunks::<BLOCK>().0;
                let input_scales = &x.scales[r * blocks..(r + 1) * blocks];
                let mut sum = 0f32;
                for (b, weights) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
                    let mut exact = 0i32;
                    for (weight, input) in weights.iter().zip(&inputs[b]) {
                        exact += i32::from(*weight) * i32::from(*input);
                    }
                    sum = (exact as f32).mul_add(input_scales[b] * scales[b], sum);
                }
                // SAFETY: the place exists and is this thread's.
                unsafe { out.put(r, n, sum) };
            }
        }
    }
}
