//! Elementary functions as branch-free f32 polynomials: the same bits on every machine, and vector code wherever the
//! caller's instruction set has vectors. The coefficients are Chebyshev fits made for this file.

use std::f64::consts::FRAC_2_PI;

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has few bits, so a multiple of it is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
const ROUND: f32 = 12_582_912.0;

/// x = n ln 2 + r with |r| <= ln 2 / 2. Returns the bits of n + ROUND and r.
#[inline(always)]
fn reduce(x: f32) -> (u32, f32) {
    let rounded = x.mul_add(LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    (rounded.to_bits(), r)
}

/// eʳ - 1 for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_m1_near(r: f32) -> f32 {
    let p = 0.001_393_454_5_f32;
    let p = p.mul_add(r, 0.008_363_777);
    let p = p.mul_add(r, 0.041_666_456);
    let p = p.mul_add(r, 0.166_665_73);
    let p = p.mul_add(r, 0.5);
    (r * r).mul_add(p, r)
}

/// 2^n for n = -126..=127 as an offset from ROUND.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// n of [`reduce`].
#[inline(always)]
fn count(rounded: u32) -> i32 {
    rounded.wrapping_sub(ROUND.to_bits()) as i32
}

#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    // Comparisons this way round keep NaN.
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// eˣ
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Beyond these, infinity and zero come out by themselves.
    let x = clamp(x, -110.0, 90.0);
    let (rounded, r) = reduce(x);
    let n = count(rounded);
    // In two steps, because n reaches beyond what one exponent holds.
    let half = n >> 1;
    (1.0 + exp_m1_near(r)) * power(half) * power(n.wrapping_sub(half))
}

/// eˣ - 1 for x <= 0, accurate near zero too.
#[inline(always)]
fn exp_m1_negative(x: f32) -> f32 {
    let x = clamp(x, -30.0, 0.0);
    let (rounded, r) = reduce(x);
    let scale = power(count(rounded));
    exp_m1_near(r).mul_add(scale, scale - 1.0)
}

/// x > 0 ? x : eˣ - 1
#[inline(always)]
pub(super) fn elu(x: f32) -> f32 {
    let below = exp_m1_negative(x);
    if x > 0.0 { x } else { below }
}

/// x / (1 + e⁻ˣ)
#[inline(always)]
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// erfc(a) for a >= 0, as t exp(-a² + P(t)) with t = 1 / (1 + a/2).
#[inline(always)]
fn erfc(a: f32) -> f32 {
    let t = 1.0 / a.mul_add(0.5, 1.0);
    let p = 0.144_930_21_f32;
    let p = p.mul_add(t, -0.680_827_2);
    let p = p.mul_add(t, 1.156_733_8);
    let p = p.mul_add(t, -0.696_251_87);
    let p = p.mul_add(t, -0.080_280_43);
    let p = p.mul_add(t, 0.001_267_586_4);
    let p = p.mul_add(t, 0.034_602_8);
    let p = p.mul_add(t, 0.386_640_4);
    let p = p.mul_add(t, 0.998_632_8);
    let p = p.mul_add(t, -1.265_448);
    t * exp(a.mul_add(-a, p))
}

/// z/2 (1 + erf(z/√2))
#[inline(always)]
pub(super) fn gelu(z: f32) -> f32 {
    let a = z * std::f32::consts::FRAC_1_SQRT_2;
    let tail = erfc(a.abs());
    let twice = if a < 0.0 { tail } else { 2.0 - tail };
    0.5 * z * twice
}

/// (e²ˣ - 1) / (e²ˣ + 1), accurate near zero too.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let below = exp_m1_negative(-2.0 * x.abs());
    (-below / (below + 2.0)).copysign(x)
}

/// Sine, absolutely accurate to a unit of 1's last place for |x| up to 1e5.
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    /// π in three parts; the first two have few bits, so a multiple of them is exact.
    const HIGH: f32 = 3.140_625;
    const MIDDLE: f32 = 9.675_026e-4;
    const LOW: f32 = 1.509_958e-7;
    let rounded = x.mul_add(std::f32::consts::FRAC_1_PI, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LOW, n.mul_add(-MIDDLE, n.mul_add(-HIGH, x)));
    let s = r * r;
    let p = -2.384_198_8e-8_f32;
    let p = p.mul_add(s, 2.752_230_3e-6);
    let p = p.mul_add(s, -1.984_079_7e-4);
    let p = p.mul_add(s, 8.333_33e-3);
    let p = p.mul_add(s, -0.166_666_67);
    let sin = (r * s).mul_add(p, r);
    // Odd multiples of π turn the sign.
    f32::from_bits(sin.to_bits() ^ (rounded.to_bits() << 31))
}

/// ln x for x in [2^-24, 1], by x = 2^e m with m around 1 and the series of atanh.
#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let e = (bits.wrapping_sub(0x3F35_04F3) as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((e as u32) << 23));
    let z = (m - 1.0) / (m + 1.0);
    let s = z * z;
    let p = 0.232_558_04_f32;
    let p = p.mul_add(s, 0.285_536_7);
    let p = p.mul_add(s, 0.400_000_96);
    let p = p.mul_add(s, 0.666_666_7);
    let e = e as f32;
    let m = (z * s).mul_add(p, 2.0 * z);
    e.mul_add(LN_2_HIGH, e.mul_add(LN_2_LOW, m))
}

/// Sine and cosine of an f32 angle, computed in f64.
#[inline(always)]
pub(super) fn sin_cos(angle: f32) -> (f32, f32) {
    /// π/2 in two parts; the first has 33 bits, so a multiple of it up to 2^20 is exact.
    const HIGH: f64 = 1.570_796_326_734_125_6;
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(angle);
    let n = (x * FRAC_2_PI).round_ties_even();
    let r = (x - n * HIGH) - n * LOW;
    let s = r * r;
    // Taylor series: the first term left out is below 1e-12 for |r| <= π/4.
    let sin = r
        * (1.0
            + s * (-1.0 / 6.0
                + s * (1.0 / 120.0
                    + s * (-1.0 / 5040.0 + s * (1.0 / 362_880.0 + s * (-1.0 / 39_916_800.0 + s / 6_227_020_800.0))))));
    let cos = 1.0
        + s * (-0.5
            + s * (1.0 / 24.0
                + s * (-1.0 / 720.0 + s * (1.0 / 40_320.0 + s * (-1.0 / 3_628_800.0 + s / 479_001_600.0)))));
    let (sin, cos) = match n as i64 & 3 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    };
    (sin as f32, cos as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In units of the last place of the exact value's f32.
    fn ulps(got: f32, exact: f64) -> f64 {
        let near = (exact as f32).abs().max(f32::MIN_POSITIVE);
        let ulp = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
        (f64::from(got) - exact).abs() / ulp
    }

    /// Every so many f32 of `-limit ..= limit`, both signs.
    fn sweep(limit: f32, mut visit: impl FnMut(f32)) {
        for bits in (0..=limit.to_bits()).step_by(1013) {
            visit(f32::from_bits(bits));
            visit(-f32::from_bits(bits));
        }
    }

    #[test]
    fn exp_is_right_to_two_units() {
        sweep(87.0, |x| assert!(ulps(exp(x), f64::from(x).exp()) <= 2.0, "{x}: {}", exp(x)));
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-200.0), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(100.0), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
        // Below the normal range only absolute accuracy is left.
        assert!((exp(-100.0) - 3.8e-44).abs() < 2e-45);
    }

    #[test]
    fn elu_is_right_to_two_units() {
        sweep(120.0, |x| {
            let exact = if x > 0.0 { f64::from(x) } else { f64::from(x).exp_m1() };
            assert!(ulps(elu(x), exact) <= 2.0, "{x}: {}", elu(x));
        });
        assert!(elu(f32::NAN).is_nan());
    }

    #[test]
    fn silu_is_right_to_three_units() {
        sweep(85.0, |x| {
            let exact = f64::from(x) / (1.0 + (-f64::from(x)).exp());
            assert!(ulps(silu(x), exact) <= 3.0, "{x}: {}", silu(x));
        });
        assert_eq!(silu(-1e4), 0.0);
        assert_eq!(silu(1e4), 1e4);
    }

    #[test]
    fn gelu_is_right_to_1e_7() {
        // Values of z/2 erfc(-z/√2) to 17 digits, computed with 40 digits.
        for (z, exact) in GELU {
            let got = f64::from(gelu(z));
            assert!((got - exact).abs() <= 1e-7 * f64::from(z).abs().max(1.0), "{z}: {got} for {exact}");
            if z < 0.0 {
                // The exponent -z²/2 itself is rounded.
                let limit = 1e-6 + 1e-7 * f64::from(z * z);
                assert!((got - exact).abs() <= limit * exact.abs(), "{z}: {got} for {exact}");
            }
        }
        assert_eq!(gelu(0.0), 0.0);
        assert_eq!(gelu(30.0), 30.0);
        assert_eq!(gelu(-30.0), 0.0);
    }

    #[test]
    fn tanh_is_right_to_three_units() {
        sweep(20.0, |x| assert!(ulps(tanh(x), f64::from(x).tanh()) <= 3.0, "{x}: {}", tanh(x)));
        assert_eq!(tanh(-100.0), -1.0);
        assert!(tanh(f32::NAN).is_nan());
    }

    #[test]
    fn sine_is_right_to_a_unit_of_one() {
        sweep(1e5, |x| {
            let away = (f64::from(sin(x)) - f64::from(x).sin()).abs();
            // Far out, the multiple of π that is taken away is itself rounded.
            assert!(away <= 1.2e-7 + 2e-12 * f64::from(x.abs()), "{x}: {away}");
        });
        assert!(sin(f32::NAN).is_nan());
    }

    #[test]
    fn logarithms_are_right_to_two_units() {
        for bits in (2f32.powi(-24).to_bits()..=1f32.to_bits()).step_by(1013) {
            let x = f32::from_bits(bits);
            assert!(ulps(ln(x), f64::from(x).ln()) <= 2.0, "{x}: {}", ln(x));
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn sine_and_cosine_are_the_nearest_f32() {
        sweep(200_000.0, |x| {
            let (sin, cos) = sin_cos(x);
            let (exact_sin, exact_cos) = f64::from(x).sin_cos();
            assert!(ulps(sin, exact_sin) <= 0.5001, "sin {x}: {sin}");
            assert!(ulps(cos, exact_cos) <= 0.5001, "cos {x}: {cos}");
        });
    }

    const GELU: [(f32, f64); 31] = [
        (-12.0, -2.1317785344932147e-32),
        (-8.5, -8.05760459887282e-17),
        (-6.25, -1.2826646407618368e-09),
        (-5.0, -1.4332578593959695e-06),
        (-4.125, -7.646404361558322e-05),
        (-3.5, -0.0008142017766243376),
        (-3.0, -0.0040496940948902835),
        (-2.5, -0.015524163314440337),
        (-2.0, -0.04550026389635842),
        (-1.5, -0.1002108019032871),
        (-1.25, -0.13206221708356908),
        (-1.0, -0.15865525393145705),
        (-0.75, -0.16997051428265114),
        (-0.5, -0.15426876936299344),
        (-0.25, -0.10032341857926907),
        (-0.125, -0.056282721896235885),
        (-0.0078125, -0.0038819007432746673),
        (0.0078125, 0.003930599256725333),
        (0.125, 0.06871727810376412),
        (0.25, 0.14967658142073093),
        (0.5, 0.34573123063700656),
        (0.75, 0.5800294857173488),
        (1.0, 0.8413447460685429),
        (1.25, 1.117937782916431),
        (1.5, 1.399789198096713),
        (2.0, 1.9544997361036416),
        (2.5, 2.4844758366855597),
        (3.0, 2.99595030590511),
        (4.0, 3.9998733150326675),
        (5.5, 5.499999895557407),
        (8.0, 7.999999999999995),
    ];
}
