//! E4M3 (`float8_e4m3fn`), the 8-bit float of the block scales: sign, four exponent bits (bias 7), three mantissa bits.
//!
//! Subnormals count in steps of 2^-9, normals begin at 2^-6, the largest is 448; there is no infinity, 0x7f and 0xff are
//! NaN. Conversion from f32 follows `cvt.rn.satfinite.e4m3x2.f32` (PTX ISA): to nearest, ties to even, saturating at
//! 448, NaN to 0x7f. Block scales carry no sign: a byte above 0x7e is no valid scale.

/// The largest finite value.
pub const MAX: f32 = 448.0;

/// The byte of [`MAX`].
pub const MAX_BYTE: u8 = 0x7e;

/// The byte of NaN.
pub const NAN_BYTE: u8 = 0x7f;

/// The value of every byte.
pub const VALUES: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = value(byte as u32);
        byte += 1;
    }
    values
};

const fn value(byte: u32) -> f32 {
    let magnitude = byte & 0x7f;
    let bits = if magnitude == 0x7f {
        0x7fc0_0000
    } else if magnitude >= 8 {
        // The same fields three bytes further up; the exponent's bias grows from 7 to 127.
        (magnitude << 20) + (120 << 23)
    } else {
        (magnitude as f32 / 512.0).to_bits()
    };
    f32::from_bits(bits | (byte & 0x80) << 24)
}

/// The value of `byte`.
#[inline]
pub fn decode(byte: u8) -> f32 {
    VALUES[usize::from(byte)]
}

/// The byte nearest to `x`.
#[inline]
pub fn encode(x: f32) -> u8 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return NAN_BYTE;
    }
    let byte = if magnitude >= MAX.to_bits() {
        u32::from(MAX_BYTE)
    } else if magnitude < SMALLEST_NORMAL.to_bits() {
        // Beside 2^14 a float's last bit is worth 2^-9: the addition itself rounds to a whole number of steps.
        (f32::from_bits(magnitude) + STEP_IS_LAST_BIT).to_bits() - STEP_IS_LAST_BIT.to_bits()
    } else {
        // Add just under half of the last kept bit, and one more if that bit is odd; a carry into the exponent is right.
        ((magnitude + 0x7_ffff + (magnitude >> 20 & 1)) >> 20) - (120 << 3)
    };
    (byte | bits >> 24 & 0x80) as u8
}

const SMALLEST_NORMAL: f32 = 1.0 / 64.0;
const STEP_IS_LAST_BIT: f32 = 16384.0;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nvfp4::vectors;

    #[test]
    fn every_byte_survives_a_round_trip() {
        for byte in 0..=255u8 {
            if byte & 0x7f == 0x7f {
                assert!(decode(byte).is_nan());
                assert_eq!(encode(decode(byte)), NAN_BYTE);
            } else {
                assert_eq!(encode(decode(byte)), byte);
            }
        }
        assert_eq!(decode(MAX_BYTE), MAX);
    }

    #[test]
    fn ties_go_to_the_even_byte_and_neighbours_to_the_nearest() {
        for low in 0..MAX_BYTE {
            let tie = (decode(low) + decode(low + 1)) / 2.0;
            let even = low + (low & 1);
            for sign in [0u8, 0x80] {
                let signed = |x: f32| if sign == 0 { x } else { -x };
                assert_eq!(encode(signed(tie)), even | sign, "{tie}");
                assert_eq!(encode(signed(tie.next_down())), low | sign, "below {tie}");
                assert_eq!(encode(signed(tie.next_up())), (low + 1) | sign, "above {tie}");
            }
        }
    }

    #[test]
    fn the_byte_is_monotonic_and_saturates() {
        let mut last = 0;
        for bits in (0..=0x7f80_0000u32).step_by(4099).chain([0x7f7f_ffff, 0x7f80_0000]) {
            let byte = encode(f32::from_bits(bits));
            assert!(byte >= last && byte <= MAX_BYTE);
            assert_eq!(encode(-f32::from_bits(bits)), byte | 0x80);
            last = byte;
        }
        assert_eq!(last, MAX_BYTE);
        assert_eq!(encode(448.0f32.next_up()), MAX_BYTE);
    }

    #[test]
    fn what_is_no_number_stays_so() {
        for bits in [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff] {
            assert_eq!(encode(f32::from_bits(bits)), NAN_BYTE);
        }
    }

    #[test]
    fn vectors_agree() {
        let vectors = vectors::load();
        for (byte, value) in vectors["e4m3_values"].as_array().unwrap().iter().enumerate() {
            match value.as_f64() {
                Some(value) => assert_eq!(decode(byte as u8), value as f32),
                None => assert!(decode(byte as u8).is_nan()),
            }
        }
        for case in vectors["e4m3_rounding"].as_array().unwrap() {
            let x = vectors::hex_f32(&case["x_bits"]);
            assert_eq!(u64::from(encode(x)), case["ptx_rn_satfinite"].as_u64().unwrap(), "{x}");
        }
    }
}
