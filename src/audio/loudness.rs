//! Speech at a loudness asked for: measured as a whole (ITU-R BS.1770-5, EBU R 128), then scaled by one factor.
//!
//! Nothing is compressed or limited: where the factor would lift the true peak over [`CEILING`], it is made smaller, and
//! whoever asks is told what was reached. Until the end is known the samples wait, in memory or, many of them, on disk.

use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use ebur128::{EbuR128, Mode};
use tempfile::SpooledTempFile;

use crate::error::{Error, Result};

/// The highest true peak, in dBTP (EBU R 128, paragraph h).
pub const CEILING: f64 = -1.0;

/// Bytes that wait in memory before they go to disk: about three minutes at 24 kHz.
const IN_MEMORY: usize = 16 << 20;

/// Samples read back at a time.
const CHUNK: usize = 1 << 14;

/// Takes samples until their loudness is known.
pub struct Loudness {
    target: f64,
    meter: EbuR128,
    waiting: BufWriter<SpooledTempFile>,
    peak: f32,
}

/// What was measured, and what was made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levelled {
    /// Integrated loudness before, in LUFS; `None` where there was too little sound to measure.
    pub before: Option<f64>,
    /// Integrated loudness after, in LUFS.
    pub after: Option<f64>,
    /// The target would have lifted the true peak over the ceiling.
    pub held_back: bool,
}

impl Loudness {
    /// For samples at `rate` that shall have `target` LUFS.
    ///
    /// # Errors
    /// A rate that cannot be measured.
    pub fn new(target: f64, rate: u32) -> Result<Self> {
        let meter = EbuR128::new(1, rate, Mode::I | Mode::TRUE_PEAK).map_err(unmeasured)?;
        let waiting = BufWriter::new(SpooledTempFile::new(IN_MEMORY));
        Ok(Self { target, meter, waiting, peak: 0.0 })
    }

    /// The next samples.
    ///
    /// # Errors
    /// A disk without room for what waits.
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        // What is no number is written as silence, and must not spoil the measure.
        let finite: Vec<f32> = samples.iter().map(|x| if x.is_finite() { *x } else { 0.0 }).collect();
        self.meter.add_frames_f32(&finite).map_err(unmeasured)?;
        self.peak = finite.iter().fold(self.peak, |peak, x| peak.max(x.abs()));
        self.waiting.write_all(bytemuck::cast_slice(samples)).map_err(|e| full(&e))
    }

    /// Hands all samples, scaled, to `write`.
    ///
    /// # Errors
    /// What waits cannot be read back, or an error of `write`.
    pub fn finish(self, mut write: impl FnMut(&[f32]) -> Result<()>) -> Result<Levelled> {
        let measured = self.meter.loudness_global().map_err(unmeasured)?;
        let before = measured.is_finite().then_some(measured);
        let true_peak = self.meter.true_peak(0).map_err(unmeasured)?.max(f64::from(self.peak));
        let wanted = before.map_or(0.0, |before| self.target - before);
        let room = CEILING - 20.0 * true_peak.log10();
        let held_back = before.is_some() && wanted > room;
        // Never quieter than it was because of a peak that it had before.
        let decibels = if held_back { room.max(0.0).min(wanted) } else { wanted };
        let factor = 10_f64.powf(decibels / 20.0) as f32;

        let mut file = self.waiting.into_inner().map_err(|e| full(e.error()))?;
        file.rewind().map_err(|e| full(&e))?;
        let mut file = BufReader::new(file);
        let mut samples = vec![0.0_f32; CHUNK];
        loop {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut samples);
            let read = fill(&mut file, bytes).map_err(|e| full(&e))? / size_of::<f32>();
            if read == 0 {
                break;
            }
            samples[..read].iter_mut().for_each(|x| *x *= factor);
            write(&samples[..read])?;
        }
        Ok(Levelled { before, after: before.map(|before| before + decibels), held_back })
    }
}

/// Reads until `bytes` are full or the source ends; returns how many there are.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn unmeasured(cause: ebur128::Error) -> Error {
    Error::new(format!("the loudness cannot be measured: {cause}")).hint("leave --lufs out, or choose another --rate")
}

fn full(cause: &io::Error) -> Error {
    Error::new(format!("cannot keep the speech until its loudness is known: {cause}"))
        .hint("free some space in the folder for temporary files, or name another one in `TMPDIR`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const RATE: u32 = 24_000;

    fn levelled(target: f64, samples: &[f32]) -> (Levelled, Vec<f32>) {
        let mut loudness = Loudness::new(target, RATE).unwrap();
        samples.chunks(1001).for_each(|chunk| loudness.push(chunk).unwrap());
        let mut out = Vec::new();
        let report = loudness.finish(|chunk| {
            out.extend_from_slice(chunk);
            Ok(())
        });
        (report.unwrap(), out)
    }

    fn tone(peak: f32, seconds: usize) -> Vec<f32> {
        let step = std::f32::consts::TAU * 997.0 / RATE as f32;
        (0..seconds * RATE as usize).map(|i| peak * (step * i as f32).sin()).collect()
    }

    #[test]
    fn a_tone_of_full_scale_is_three_below() {
        // BS.1770: a sine of 997 Hz at 0 dBFS in one channel has -3.01 LUFS.
        let (report, out) = levelled(-23.0, &tone(1.0, 3));
        assert!((report.before.unwrap() + 3.01).abs() < 0.05, "{report:?}");
        let peak = out.iter().fold(0.0_f32, |peak, x| peak.max(x.abs()));
        assert!((20.0 * peak.log10() + 19.99).abs() < 0.1, "{peak}");
        assert!((report.after.unwrap() + 23.0).abs() < 1e-9 && !report.held_back);
    }

    #[test]
    fn the_peak_stays_under_the_ceiling() {
        let mut spiky = tone(0.01, 3);
        spiky[RATE as usize] = 0.5;
        let (report, out) = levelled(-16.0, &spiky);
        assert!(report.held_back && report.after.unwrap() < -16.0, "{report:?}");
        let peak = out.iter().fold(0.0_f32, |peak, x| peak.max(x.abs()));
        assert!(20.0 * peak.log10() <= CEILING as f32 + 1e-3, "{peak}");
        assert!(peak > 0.7, "{peak}");
    }

    #[test]
    fn what_cannot_be_measured_stays_as_it_is() {
        for samples in [vec![0.0; 48_000], tone(0.5, 1)[..4000].to_vec(), Vec::new()] {
            let (report, out) = levelled(-16.0, &samples);
            assert_eq!((report.before, report.held_back), (None, false));
            assert!(out == samples);
        }
    }

    #[test]
    fn long_speech_waits_on_disk() {
        let samples = tone(0.25, 200);
        assert!(samples.len() * 4 > IN_MEMORY);
        let (report, out) = levelled(-20.0, &samples);
        assert_eq!(out.len(), samples.len());
        let factor = 10_f64.powf((-20.0 - report.before.unwrap()) / 20.0) as f32;
        assert!((out[12_345] - samples[12_345] * factor).abs() < 1e-6);
    }
}
