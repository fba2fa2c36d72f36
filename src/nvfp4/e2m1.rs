//! E2M1, the 4-bit float: sign, two exponent bits, one mantissa bit.
//!
//! Bit 3 is the sign, bits 2..0 count through 0, 0.5, 1, 1.5, 2, 3, 4, 6. Conversion from f32 follows the hardware's
//! `cvt.rn.satfinite.e2m1x2.f32` (PTX ISA): to nearest, ties to the even code, saturating at 6, the sign of zero kept,
//! NaN to +6.

/// The value of every code.
pub const VALUES: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Twice the value of every code, an integer: products of two of them are exact in integer arithmetic.
pub const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The largest magnitude.
pub const MAX: f32 = 6.0;

/// The smallest magnitude, as f32 bits, that rounds to at least code i + 1. The midpoints 0.25, 1.25, 2.5 and 5 tie
/// down to the even code, so there the bound is the next float above.
const BOUNDS: [u32; 7] = [0x3e80_0001, 0x3f40_0000, 0x3fa0_0001, 0x3fe0_0000, 0x4020_0001, 0x4060_0000, 0x40a0_0001];

const INFINITY: u32 = 0x7f80_0000;

/// The value of the code in the low four bits.
#[inline]
pub fn decode(code: u8) -> f32 {
    VALUES[usize::from(code & 15)]
}

/// The code nearest to `x`.
#[inline]
pub fn encode(x: f32) -> u8 {
    encode_bits(x.to_bits()) as u8
}

/// [`encode`] on the bits of an f32, without branches: a loop over it becomes vector code on every target.
#[inline(always)]
pub(super) fn encode_bits(bits: u32) -> u32 {
    // Magnitudes order as signed integers, which every vector unit compares; NaN lies above infinity, hence above all
    // bounds.
    let magnitude = (bits & 0x7fff_ffff) as i32;
    let mut code = 0;
    for bound in BOUNDS {
        code += u32::from(magnitude >= bound as i32);
    }
    let sign = if magnitude > INFINITY as i32 { 0 } else { (bits >> 28) & 8 };
    code | sign
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nvfp4::vectors;

    #[test]
    fn every_code_survives_a_round_trip() {
        for code in 0..16u8 {
            assert_eq!(encode(decode(code)), code);
            assert_eq!(decode(code | 0xf0).to_bits(), decode(code).to_bits());
            assert_eq!(f32::from(DOUBLED[usize::from(code)]), 2.0 * decode(code));
        }
    }

    #[test]
    fn ties_go_to_the_even_code_and_neighbours_to_the_nearest() {
        for low in 0..7u8 {
            let tie = (decode(low) + decode(low + 1)) / 2.0;
            let even = low + (low & 1);
            for sign in [0u8, 8] {
                let signed = |x: f32| if sign == 0 { x } else { -x };
                assert_eq!(encode(signed(tie)), even | sign, "{tie}");
                assert_eq!(encode(signed(tie.next_down())), low | sign, "below {tie}");
                assert_eq!(encode(signed(tie.next_up())), (low + 1) | sign, "above {tie}");
            }
        }
    }

    #[test]
    fn the_code_is_the_nearest_value_everywhere() {
        // Every 4099th float of both signs, infinities and the largest magnitudes included.
        for bits in (0..=INFINITY).step_by(4099).chain([INFINITY, INFINITY - 1]) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let code = encode(x);
                assert_eq!(code >> 3, u8::from(x.is_sign_negative()));
                let clamped = f64::from(x.abs()).min(6.0);
                let off = |c: u8| (f64::from(decode(c)) - clamped).abs();
                for other in 0..8 {
                    let nearer = off(other) < off(code & 7);
                    let even_tie = off(other) == off(code & 7) && other != code & 7 && other % 2 == 0;
                    assert!(!nearer && !even_tie, "{x} became {code}, {other} is better");
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_becomes_plus_six() {
        for bits in [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffc0_0000, 0xffff_ffff] {
            assert_eq!(encode(f32::from_bits(bits)), 7);
        }
    }

    #[test]
    fn vectors_agree() {
        let vectors = vectors::load();
        for (code, value) in vectors::f32s(&vectors["e2m1_values"]).into_iter().enumerate() {
            assert_eq!(VALUES[code], value);
        }
        for case in vectors["e2m1_rounding"].as_array().unwrap() {
            let x = vectors::hex_f32(&case["x_bits"]);
            assert_eq!(u64::from(encode(x)), case["ptx_rn_satfinite"].as_u64().unwrap(), "{x}");
        }
        assert_eq!(u64::from(encode(f32::NAN)), vectors["e2m1_nan"]["ptx_rn_satfinite"].as_u64().unwrap());
    }
}
