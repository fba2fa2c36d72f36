//! Sample formats: f32 in [-1, 1] to 16-bit, 24-bit or float samples, counting what had to be changed.
//!
//! 16 bits: clamp to [-1, 1], multiply by 32767 in f32, truncate toward zero; this is what the TinyAya reference does.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// How one sample is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// 16-bit integers: understood everywhere.
    #[default]
    I16,
    /// 24-bit integers, 3 bytes each.
    I24,
    /// 32-bit floats: neither rounded nor clipped.
    F32,
}

impl Format {
    /// The names of all formats, as the command line takes them.
    pub const NAMES: [&'static str; 3] = ["i16", "i24", "f32"];

    /// Bytes one sample takes.
    pub fn bytes(self) -> usize {
        match self {
            Format::I16 => 2,
            Format::I24 => 3,
            Format::F32 => 4,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::I16 => "i16",
            Format::I24 => "i24",
            Format::F32 => "f32",
        })
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "i16" => Ok(Format::I16),
            "i24" => Ok(Format::I24),
            "f32" => Ok(Format::F32),
            _ => Err(Error::usage(format!("unknown sample format `{name}`")).hint("one of `i16`, `i24`, `f32`")),
        }
    }
}

/// One stored sample; integers are sign-extended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// A 16-bit sample.
    I16(i16),
    /// A 24-bit sample.
    I24(i32),
    /// A float sample.
    F32(f32),
}

impl Sample {
    /// Audio that a [`Quantiser`] of the same format turns into this very sample.
    pub fn audio(self) -> f32 {
        // Truncation would lose what falls short of a whole number by rounding, so: the next float away from zero.
        let away = |x: f32| {
            if x > 0.0 {
                x.next_up()
            } else if x < 0.0 {
                x.next_down()
            } else {
                x
            }
        };
        match self {
            Sample::I16(v) => away(f32::from(v) / 32767.0),
            Sample::I24(v) => away((f64::from(v) / 8_388_607.0) as f32),
            Sample::F32(v) => v,
        }
    }
}

/// What went through a [`Quantiser`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Samples in all.
    pub samples: u64,
    /// Samples beyond [-1, 1] that were cut to it.
    pub clipped: u64,
    /// NaN or infinite samples, stored as 0.
    pub non_finite: u64,
}

impl Tally {
    /// How long the samples last at `rate`.
    pub fn seconds(&self, rate: u32) -> f64 {
        self.samples as f64 / f64::from(rate)
    }
}

/// Turns f32 samples into stored ones.
#[derive(Clone, Copy, Debug)]
pub struct Quantiser {
    format: Format,
    tally: Tally,
}

impl Quantiser {
    /// A quantiser that has seen nothing yet.
    pub fn new(format: Format) -> Self {
        Self { format, tally: Tally::default() }
    }

    /// The format of the samples that come out.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What went through so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// One sample.
    pub fn sample(&mut self, x: f32) -> Sample {
        match self.format {
            Format::I16 => Sample::I16(self.i16(x)),
            // 2^23 - 1 times a 24-bit mantissa is exact in f64 only
            Format::I24 => Sample::I24((f64::from(self.clamp(x)) * 8_388_607.0) as i32),
            Format::F32 => Sample::F32(self.finite(x)),
        }
    }

    /// One sample as 16 bits, whatever the format of the quantiser.
    pub fn i16(&mut self, x: f32) -> i16 {
        (self.clamp(x) * 32767.0) as i16
    }

    /// Appends the little-endian bytes of `samples` to `out`.
    pub fn bytes(&mut self, samples: &[f32], out: &mut Vec<u8>) {
        out.reserve(samples.len() * self.format.bytes());
        for &x in samples {
            match self.sample(x) {
                Sample::I16(v) => out.extend_from_slice(&v.to_le_bytes()),
                Sample::I24(v) => out.extend_from_slice(&v.to_le_bytes()[..3]),
                Sample::F32(v) => out.extend_from_slice(&v.to_le_bytes()),
            }
        }
    }

    fn finite(&mut self, x: f32) -> f32 {
        self.tally.samples += 1;
        if x.is_finite() {
            x
        } else {
            self.tally.non_finite += 1;
            0.0
        }
    }

    fn clamp(&mut self, x: f32) -> f32 {
        let x = self.finite(x);
        if x.abs() > 1.0 {
            self.tally.clipped += 1;
        }
        x.clamp(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn i16s(samples: &[f32]) -> (Vec<i16>, Tally) {
        let mut quantiser = Quantiser::new(Format::I16);
        (samples.iter().map(|&x| quantiser.i16(x)).collect(), quantiser.tally())
    }

    #[test]
    fn sixteen_bits_truncate_toward_zero_and_never_wrap() {
        let below_one = 1.0_f32.next_down();
        let (out, tally) =
            i16s(&[0.0, -0.0, 1.0, -1.0, 1.5, -1.5, below_one, 1.9 / 32767.0, -1.9 / 32767.0, 0.5, -0.5]);
        assert_eq!(out, [0, 0, 32767, -32767, 32767, -32767, 32766, 1, -1, 16383, -16383]);
        assert_eq!(tally, Tally { samples: 11, clipped: 2, non_finite: 0 });
    }

    #[test]
    fn what_is_no_number_becomes_silence_and_is_counted() {
        let (out, tally) = i16s(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.25]);
        assert_eq!(out, [0, 0, 0, 8191]);
        assert_eq!(tally, Tally { samples: 4, clipped: 0, non_finite: 3 });
        let mut float = Quantiser::new(Format::F32);
        assert_eq!(float.sample(f32::NAN), Sample::F32(0.0));
        assert_eq!(float.tally().non_finite, 1);
    }

    #[test]
    fn twenty_four_bits() {
        let mut quantiser = Quantiser::new(Format::I24);
        let out: Vec<_> = [1.0, -1.0, 2.0, 0.5, -0.5, 1.0_f32.next_down()].map(|x| quantiser.sample(x)).to_vec();
        let want = [8_388_607, -8_388_607, 8_388_607, 4_194_303, -4_194_303, 8_388_606].map(Sample::I24);
        assert_eq!(out, want);
        assert_eq!(quantiser.tally().clipped, 1);
    }

    #[test]
    fn floats_pass_unchanged() {
        let mut quantiser = Quantiser::new(Format::F32);
        assert_eq!(quantiser.sample(1.25), Sample::F32(1.25));
        assert_eq!(quantiser.tally().clipped, 0);
    }

    #[test]
    fn bytes_are_little_endian() {
        let encode = |format, x| {
            let mut out = Vec::new();
            Quantiser::new(format).bytes(&[x], &mut out);
            out
        };
        assert_eq!(encode(Format::I16, 1.0), [0xff, 0x7f]);
        assert_eq!(encode(Format::I24, -1.0), [0x01, 0x00, 0x80]);
        assert_eq!(encode(Format::F32, 1.0), 1.0_f32.to_le_bytes());
    }

    #[test]
    fn stored_samples_come_back_as_they_were() {
        let mut quantiser = Quantiser::new(Format::I16);
        for v in -32767..=32767 {
            assert_eq!(quantiser.sample(Sample::I16(v).audio()), Sample::I16(v));
        }
        let mut quantiser = Quantiser::new(Format::I24);
        for v in (-8_388_607..=8_388_607).step_by(7).chain(-1000..1000).chain([8_388_607]) {
            assert_eq!(quantiser.sample(Sample::I24(v).audio()), Sample::I24(v));
        }
        assert_eq!(Quantiser::new(Format::F32).sample(Sample::F32(0.3).audio()), Sample::F32(0.3));
    }

    #[test]
    fn names_are_read_back() -> Result<(), Error> {
        for name in Format::NAMES {
            assert_eq!(name.parse::<Format>()?.to_string(), name);
        }
        assert!("mp3".parse::<Format>().is_err());
        Ok(())
    }
}
