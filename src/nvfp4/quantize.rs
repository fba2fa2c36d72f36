//! Floats to NVFP4: activations at run time, weights as the two exporters do it.
//!
//! **Activations.** Per row and block of 16, every operation rounded to f32, `gs` = [`InputScale::multiplier`]:
//!
//! ```text
//! byte = e4m3( gs * (max|x| * (1/6)) )
//! inv  = byte == 0 ? 0 : 1 / (f32(byte) * (1/gs))
//! code = e2m1( x * inv )
//! ```
//!
//! That is vLLM's rule in exact divisions (its GPU code takes approximate reciprocals), the one TinyAya's recorded
//! outputs were made with. The shorter form with one division, `inv = gs / f32(byte)`, is not equal: the two `inv` differ
//! in the last bits now and then, hence a code can differ where `x * inv` falls on or beside a tie. Every backend uses
//! the form above. What the codes stand for is `e2m1 * f32(byte) / gs`.
//!
//! **Weights.** The bytes nvidia-modelopt 0.47 and compressed-tensors 0.20 write, each by its own arithmetic; which one
//! is decided by the convention of the global scale. Used by tests, benchmarks and tools: checkpoints arrive quantised.

use super::{BLOCK, GlobalScale, InputScale, Nvfp4Matrix, e2m1, e4m3};
use crate::error::{Error, Result};

const SIXTH: f32 = 1.0 / 6.0;

/// Quantises one row `[K]` of activations into codes `[K/2]` and block scales `[K/16]`.
///
/// A block beyond the calibrated range saturates ([`super::saturated_blocks`] counts them); one with NaN in it gets the
/// scale NaN, so that it cannot pass unnoticed.
pub fn activations(x: &[f32], input: InputScale, codes: &mut [u8], scales: &mut [u8]) {
    debug_assert_eq!(x.len() % BLOCK, 0);
    debug_assert_eq!(codes.len(), x.len() / 2);
    debug_assert_eq!(scales.len(), x.len() / BLOCK);
    let gs = input.multiplier();
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the features were found just now.
            return unsafe { activations_avx512(x, gs, codes, scales) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was found just now.
            return unsafe { activations_avx2(x, gs, codes, scales) };
        }
    }
    activations_anywhere(x, gs, codes, scales);
}

/// The same operations, compiled for wider vectors; none of them rounds differently there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn activations_avx512(x: &[f32], gs: f32, codes: &mut [u8], scales: &mut [u8]) {
    activations_anywhere(x, gs, codes, scales);
}

/// The same operations, compiled for wider vectors; none of them rounds differently there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn activations_avx2(x: &[f32], gs: f32, codes: &mut [u8], scales: &mut [u8]) {
    activations_anywhere(x, gs, codes, scales);
}

#[inline(always)]
fn activations_anywhere(x: &[f32], gs: f32, codes: &mut [u8], scales: &mut [u8]) {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    let (codes, _) = codes.as_chunks_mut::<{ BLOCK / 2 }>();
    let back = 1.0 / gs;
    for ((x, codes), scale) in blocks.iter().zip(codes).zip(scales) {
        let byte = e4m3::encode(gs * (largest(x) * SIXTH));
        let s = e4m3::decode(byte);
        // A whole block too small for any scale becomes zeros that keep their signs.
        let inv = if s == 0.0 { 0.0 } else { 1.0 / (s * back) };
        let mut nibbles = [0; BLOCK];
        for (nibble, x) in nibbles.iter_mut().zip(x) {
            *nibble = e2m1::encode_bits((x * inv).to_bits()) as u8;
        }
        *codes = pack(nibbles);
        *scale = byte;
    }
}

/// max |x|; NaN if there is one, because NaN is the largest bit pattern.
#[inline(always)]
fn largest(x: &[f32; BLOCK]) -> f32 {
    let mut top = 0;
    for x in x {
        top = top.max((x.to_bits() & 0x7fff_ffff) as i32);
    }
    f32::from_bits(top as u32)
}

/// Sixteen nibbles into eight bytes, the even ones low.
#[inline(always)]
fn pack(nibbles: [u8; BLOCK]) -> [u8; BLOCK / 2] {
    let (pairs, _) = nibbles.as_chunks::<2>();
    let mut bytes = [0; BLOCK / 2];
    for (byte, [low, high]) in bytes.iter_mut().zip(pairs) {
        *byte = low | high << 4;
    }
    bytes
}

/// Quantises a matrix `[N, K]` with the global scale given (see [`GlobalScale::multiply_for`] and
/// [`GlobalScale::divide_for`]); the result has no input scale.
pub fn weights(n: usize, k: usize, values: &[f32], global: GlobalScale) -> Result<Nvfp4Matrix> {
    if k == 0 || !k.is_multiple_of(BLOCK) || Some(values.len()) != n.checked_mul(k) {
        return Err(Error::new(format!("{} values are no [{n}, {k}] matrix in whole blocks of {BLOCK}", values.len())));
    }
    let mut codes = Vec::with_capacity(n * k / 2);
    let mut scales = Vec::with_capacity(n * k / BLOCK);
    let (blocks, _) = values.as_chunks::<BLOCK>();
    for x in blocks {
        let (byte, divisor) = match global {
            GlobalScale::Multiply(scale) => modelopt_block(largest(x), scale),
            GlobalScale::Divide(scale) => compressed_tensors_block(largest(x), scale),
        };
        codes.extend(pack(x.map(|x| weight_code(x, divisor))));
        scales.push(byte);
    }
    Nvfp4Matrix::checked(n, k, codes.into(), scales.into(), global, None)
}

/// modelopt's block scale and what the block's values are divided by.
fn modelopt_block(amax: f32, scale_2: f32) -> (u8, f32) {
    let wanted = amax / (e2m1::MAX * scale_2);
    let wanted = if wanted == 0.0 { 1.0 } else { wanted };
    let byte = e4m3::encode(wanted.clamp(e4m3::decode(1), e4m3::MAX));
    (byte, e4m3::decode(byte) * scale_2)
}

/// compressed-tensors' block scale and what the block's values are divided by. A scale that rounds to zero becomes
/// E4M3's epsilon, 0.125.
fn compressed_tensors_block(amax: f32, global_scale: f32) -> (u8, f32) {
    let byte = match e4m3::encode(global_scale * (amax / e2m1::MAX)) {
        0 => 0x20,
        byte => byte,
    };
    (byte, e4m3::decode(byte) / global_scale)
}

/// Both exporters take the sign from `x < 0`: a negative value that rounds to zero keeps it, -0 itself does not.
fn weight_code(x: f32, divisor: f32) -> u8 {
    if x == 0.0 { 0 } else { e2m1::encode(x / divisor) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nvfp4::vectors;

    fn quantized(x: &[f32], input: InputScale) -> (Vec<u8>, Vec<u8>) {
        let mut codes = vec![0xaa; x.len() / 2];
        let mut scales = vec![0xaa; x.len() / BLOCK];
        activations(x, input, &mut codes, &mut scales);
        (codes, scales)
    }

    fn nibbles(codes: &[u8]) -> Vec<u8> {
        codes.iter().flat_map(|c| [c & 15, c >> 4]).collect()
    }

    #[test]
    fn activations_match_the_vectors_in_both_conventions() {
        let vectors = vectors::load();
        let case = &vectors["activation_quant"];
        let x = vectors::f32s(&case["x"]);
        let blocks = case["blocks"].as_array().unwrap();
        let codes: Vec<u8> = blocks.iter().flat_map(|b| vectors::bytes(&b["codes"])).collect();
        let scales: Vec<u8> = blocks.iter().map(|b| b["scale_byte"].as_u64().unwrap() as u8).collect();
        let number = |key: &str| case[key].as_f64().unwrap() as f32;
        for input in [
            InputScale::Multiply(number("modelopt_input_scale")),
            InputScale::Divide(number("compressed_tensors_input_global_scale")),
        ] {
            let (got_codes, got_scales) = quantized(&x, input);
            assert_eq!(nibbles(&got_codes), codes);
            assert_eq!(got_scales, scales);
        }
    }

    #[test]
    fn activations_match_the_recorded_reference_bit_for_bit() {
        // Six rows: plain, with a zero block, with scales that underflow, saturated, on exact ties, with an outlier.
        let file = vectors::Tensors::load("tinyaya-nvfp4/reference.safetensors");
        let input = vectors::q_proj().input.unwrap();
        let (codes, scales) = quantized(&file.f32s("linear/x"), input);
        assert_eq!(codes, file.bytes("linear/x_packed"));
        assert_eq!(scales, file.bytes("linear/x_scale_e4m3_bits"));
        assert!(super::super::saturated_blocks(&scales) > 0);
    }

    #[test]
    fn the_order_of_operations_is_the_exporters() {
        // Blocks on which other orders of the same operations give other bytes; made by `tools/nvfp4_hard_cases.py`.
        let cases: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/data/nvfp4-hard-cases.json")).unwrap();
        for (kind, count) in [("activations", 24), ("modelopt", 18), ("compressed_tensors", 18)] {
            let cases = cases[kind].as_array().unwrap();
            assert_eq!(cases.len(), count);
            for case in cases {
                let x: Vec<f32> = vectors::hex_bits(&case["x_bits"]).into_iter().map(f32::from_bits).collect();
                let stored = vectors::hex_f32(&case["stored_bits"]);
                let packed = |global| {
                    let matrix = weights(1, BLOCK, &x, global).unwrap();
                    (matrix.codes.to_vec(), matrix.scales.to_vec())
                };
                let got = match kind {
                    "activations" => quantized(&x, InputScale::Multiply(stored)),
                    "modelopt" => packed(GlobalScale::Multiply(stored)),
                    _ => packed(GlobalScale::Divide(stored)),
                };
                let scale = case["scale"].as_u64().unwrap() as u8;
                assert_eq!(got, (vectors::bytes(&case["codes"]), vec![scale]), "{kind} {stored} {x:?}");
            }
        }
    }

    #[test]
    fn every_vector_width_gives_the_same_bytes() {
        let mut x: Vec<f32> =
            (0..4096u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761) & 0xbfff_ffff)).collect();
        x.extend((0..4096u32).map(|i| (i as f32 * 0.37).sin() * 2f32.powi((i / 16) as i32 % 40 - 20)));
        let input = InputScale::Multiply(0.003);
        let (codes, scales) = quantized(&x, input);
        let (mut plain_codes, mut plain_scales) = (vec![0; codes.len()], vec![0; scales.len()]);
        activations_anywhere(&x, input.multiplier(), &mut plain_codes, &mut plain_scales);
        assert_eq!(codes, plain_codes);
        assert_eq!(scales, plain_scales);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was found just now.
            unsafe { activations_avx2(&x, input.multiplier(), &mut plain_codes, &mut plain_scales) };
            assert_eq!(codes, plain_codes);
            assert_eq!(scales, plain_scales);
        }
    }

    #[test]
    fn blocks_too_small_for_a_scale_become_signed_zeros() {
        // A largest value of 6 * 2^-10 asks for the scale 2^-10, a tie that rounds to 0; just above it becomes 2^-9.
        let mut x = [-6.0 / 1024.0; 2 * BLOCK];
        x[BLOCK] = -6.001 / 1024.0;
        let (codes, scales) = quantized(&x, InputScale::Divide(1.0));
        assert_eq!(scales, [0, 1]);
        assert_eq!(codes[..8], [0x88; 8]);
        assert!(codes[8..].iter().all(|&c| c & 0x77 != 0));
    }

    #[test]
    fn what_is_no_number_shows_in_the_scale() {
        let mut x = [1.0; BLOCK];
        x[3] = f32::NAN;
        assert_eq!(quantized(&x, InputScale::Multiply(0.001)).1, [e4m3::NAN_BYTE]);
        x[3] = f32::NEG_INFINITY;
        let (codes, scales) = quantized(&x, InputScale::Multiply(0.001));
        assert_eq!(scales, [e4m3::MAX_BYTE]);
        assert_eq!(codes[1] >> 4, 15);
    }

    #[test]
    fn modelopt_weights_match_its_own_code() {
        let vectors = vectors::load();
        let values: Vec<f32> =
            vectors::hex_bits(&vectors["input"]["input_bits"]).into_iter().map(f32::from_bits).collect();
        let case = &vectors["modelopt"];
        let amax = values.iter().fold(0f32, |a, v| a.max(v.abs()));
        let global = GlobalScale::multiply_for(amax);
        assert_eq!(global, GlobalScale::Multiply(vectors::hex_f32(&case["weight_scale_2_bits"])));
        let matrix = weights(2, 32, &values, global).unwrap();
        assert_eq!(*matrix.codes, vectors::bytes(&case["weight"]));
        assert_eq!(*matrix.scales, vectors::bytes(&case["weight_scale_bytes"]));
        let bits: Vec<u32> = matrix.dequantize().into_iter().map(f32::to_bits).collect();
        assert_eq!(bits, vectors::hex_bits(&case["dequantized_bits"]));
    }

    #[test]
    fn compressed_tensors_weights_match_its_own_code() {
        let vectors = vectors::load();
        let values: Vec<f32> =
            vectors::hex_bits(&vectors["input"]["input_bits"]).into_iter().map(f32::from_bits).collect();
        let case = &vectors["compressed_tensors"];
        let amax = values.iter().fold(0f32, |a, v| a.max(v.abs()));
        let global = GlobalScale::divide_for(amax);
        assert_eq!(global, GlobalScale::Divide(vectors::hex_f32(&case["weight_global_scale_bits"])));
        let matrix = weights(2, 32, &values, global).unwrap();
        assert_eq!(*matrix.codes, vectors::bytes(&case["weight_packed"]));
        assert_eq!(*matrix.scales, vectors::bytes(&case["weight_scale_bytes"]));
        let dequantized = matrix.dequantize();
        let bits: Vec<u32> = dequantized.iter().map(|v| v.to_bits()).collect();
        assert_eq!(bits, vectors::hex_bits(&case["dequantized_f32_bits"]));
        let rounded: Vec<f32> = dequantized.iter().map(|&v| half::bf16::from_f32(v).to_f32()).collect();
        assert_eq!(rounded, vectors::f32s(&case["decompress_bf16"]));
    }

    #[test]
    fn weight_codes_follow_both_exporters_at_every_tie() {
        for case in vectors::load()["e2m1_rounding"].as_array().unwrap() {
            let code = u64::from(weight_code(vectors::hex_f32(&case["x_bits"]), 1.0));
            assert_eq!(code, case["modelopt"].as_u64().unwrap());
            assert_eq!(code, case["compressed_tensors"].as_u64().unwrap());
        }
    }

    #[test]
    fn modelopt_scales_never_fall_below_the_smallest() {
        let vectors = vectors::load();
        for case in vectors["e4m3_rounding"].as_array().unwrap() {
            let (Some(byte), x) = (case["modelopt_clamped"].as_u64(), vectors::hex_f32(&case["x_bits"])) else {
                continue;
            };
            // Block scales come from magnitudes; zero has a rule of its own.
            if x > 0.0 && x.is_finite() {
                assert_eq!(u64::from(modelopt_block(x * 6.0, 1.0).0), byte, "{x}");
            }
        }
        assert_eq!(modelopt_block(0.0, 1.0), (0x38, 1.0));
    }

    #[test]
    fn the_recorded_matrix_dequantises_to_the_reference() {
        // The reference multiplies code, scale and global scale in f64: two roundings of ours against one of its own.
        let matrix = vectors::q_proj();
        let wanted = vectors::Tensors::load("tinyaya-nvfp4/reference.safetensors").f32s("linear/w_dequant");
        for (got, wanted) in matrix.dequantize().into_iter().zip(wanted) {
            assert!((got - wanted).abs() <= 2.0 * f32::EPSILON * wanted.abs(), "{got} {wanted}");
        }
    }

    #[test]
    fn a_matrix_of_zeros_stays_one() {
        for global in [GlobalScale::multiply_for(0.0), GlobalScale::divide_for(0.0)] {
            let matrix = weights(1, 32, &[0.0; 32], global).unwrap();
            assert_eq!(*matrix.codes, [0; 16]);
            assert_eq!(matrix.dequantize(), [0.0; 32]);
        }
    }

    #[test]
    fn weights_that_fill_no_blocks_are_refused() {
        assert!(weights(1, 24, &[0.0; 24], GlobalScale::Multiply(1.0)).is_err());
        assert!(weights(2, 16, &[0.0; 16], GlobalScale::Multiply(1.0)).is_err());
        assert!(weights(1, 0, &[], GlobalScale::Multiply(1.0)).is_err());
    }
}
