//! Dot products of NVFP4 rows with NVFP4 rows (W4A4), in the order of the tensor-core instruction ([`super::mma`]).
//!
//! Groups of 16 in order, one fused multiply-add each. The product in it is exact (12 bits of integer sum times 8 bits of
//! scales), so a multiplication and an addition round the same way, and machines without the fused instruction agree.

use super::{BLOCK, e2m1, e4m3};

/// Σ over k of two packed rows: codes `[K/2]`, scales `[K/16]`. Scales count without their sign bit, as in the hardware.
pub fn dot_w4a4(codes_a: &[u8], scales_a: &[u8], codes_b: &[u8], scales_b: &[u8], k: usize) -> f32 {
    debug_assert!(k.is_multiple_of(BLOCK) && codes_a.len() == k / 2 && codes_b.len() == k / 2);
    debug_assert!(scales_a.len() == k / BLOCK && scales_b.len() == k / BLOCK);
    accumulate(0.0, codes_a, scales_a, codes_b, scales_b)
}

/// Adds the groups of two packed rows to `d`, one after the other.
pub(super) fn accumulate(d: f32, codes_a: &[u8], scales_a: &[u8], codes_b: &[u8], scales_b: &[u8]) -> f32 {
    let (a, _) = codes_a.as_chunks::<{ BLOCK / 2 }>();
    let (b, _) = codes_b.as_chunks::<{ BLOCK / 2 }>();
    let scales = scales_a.iter().zip(scales_b);
    a.iter().zip(b).zip(scales).fold(d, |d, ((a, b), (&scale_a, &scale_b))| {
        let scale = (e4m3::decode(scale_a & 0x7f) * e4m3::decode(scale_b & 0x7f)) * 0.25;
        group(a, b) as f32 * scale + d
    })
}

/// Four times the sum of one group's products.
fn group(a: &[u8; BLOCK / 2], b: &[u8; BLOCK / 2]) -> i32 {
    let doubled = |code: u8| i32::from(e2m1::DOUBLED[usize::from(code)]);
    a.iter().zip(b).map(|(a, b)| doubled(a & 15) * doubled(b & 15) + doubled(a >> 4) * doubled(b >> 4)).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nvfp4::{quantize, vectors};

    /// The instruction's own words: one fused multiply-add a group, values from the tables.
    fn fused(codes_a: &[u8], scales_a: &[u8], codes_b: &[u8], scales_b: &[u8]) -> f32 {
        let nibble = |codes: &[u8], k: usize| e2m1::decode(codes[k / 2] >> (4 * (k % 2)));
        (0..scales_a.len()).fold(0f32, |d, g| {
            let sum: f32 = (BLOCK * g..BLOCK * (g + 1)).map(|k| 4.0 * nibble(codes_a, k) * nibble(codes_b, k)).sum();
            sum.mul_add(e4m3::decode(scales_a[g]) * e4m3::decode(scales_b[g]) * 0.25, d)
        })
    }

    #[test]
    fn one_rounding_a_group() {
        let mut random = 1u64;
        let mut byte = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 56) as u8
        };
        for groups in [0, 1, 2, 5, 128] {
            let mut bytes = |n: usize, modulus: u8| (0..n).map(|_| byte() % modulus).collect::<Vec<u8>>();
            let (a, b) = (bytes(8 * groups, 255), bytes(8 * groups, 255));
            let (sa, sb) = (bytes(groups, 0x7f), bytes(groups, 0x7f));
            let got = dot_w4a4(&a, &sa, &b, &sb, groups * BLOCK);
            assert_eq!(got.to_bits(), fused(&a, &sa, &b, &sb).to_bits());
        }
    }

    #[test]
    fn a_linear_matches_the_recorded_reference() {
        let file = vectors::Tensors::load("tinyaya-nvfp4/reference.safetensors");
        let matrix = vectors::q_proj();
        let input = matrix.input.unwrap();
        let alpha = input.factor() * matrix.global.factor();
        let (x, y) = (file.f32s("linear/x"), file.f32s("linear/y_w4a4"));
        let (mut codes, mut scales) = ([0; 64], [0; 8]);
        for (x, y) in x.chunks_exact(128).zip(y.chunks_exact(128)) {
            quantize::activations(x, input, &mut codes, &mut scales);
            let peak = y.iter().fold(0f32, |a, v| a.max(v.abs()));
            for (n, &wanted) in y.iter().enumerate() {
                let (weights, their) = (&matrix.codes[64 * n..64 * (n + 1)], &matrix.scales[8 * n..8 * (n + 1)]);
                let got = dot_w4a4(&codes, &scales, weights, their, 128) * alpha;
                assert!((got - wanted).abs() <= 1e-6 * peak, "{got} {wanted}");
            }
        }
    }
}
