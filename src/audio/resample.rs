//! Sample rates: a stream at one rate becomes the same sound at another, without delay and to the exact length.
//!
//! rubato's FFT resampler works in blocks of b·from/g samples, which become b·to/g (g: greatest common divisor of the
//! rates), and delays by half a block. With an even b half a block is a whole number of samples at both rates, so
//! dropping it aligns input and output exactly; with an odd b a fraction of a sample would stay. The blocks do not
//! depend on how the caller cuts the stream, hence neither do the samples.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler as _};

use crate::error::{Error, Result};

/// The lowest rate that can be asked for, in Hz.
pub const LOWEST: u32 = 2_000;
/// The highest rate that can be asked for, in Hz.
pub const HIGHEST: u32 = 768_000;

/// At least so many samples to a block, on the side that has fewer: the longer, the closer to half the lower rate the
/// filter reaches. 640 are flat to 96 % of that, for a delay of 27 ms at 24 kHz.
const SHORTEST_BLOCK: u32 = 640;

/// Resamples one mono stream.
pub struct Resampler {
    from: u64,
    to: u64,
    /// None where the rates are equal.
    fft: Option<Fft<f32>>,
    /// Input not yet of block length.
    waiting: Vec<f32>,
    /// One block at the new rate.
    block: Vec<f32>,
    /// Output samples still to be dropped: the filter's delay.
    skip: usize,
    samples_in: u64,
    samples_out: u64,
}

impl std::fmt::Debug for Resampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resampler({} -> {} Hz)", self.from, self.to)
    }
}

impl Resampler {
    /// A resampler from rate `from` to rate `to`.
    ///
    /// # Errors
    /// A rate outside [`LOWEST`] ..= [`HIGHEST`].
    pub fn new(from: u32, to: u32) -> Result<Self> {
        for rate in [from, to] {
            if !(LOWEST..=HIGHEST).contains(&rate) {
                return Err(Error::usage(format!("a rate of {rate} Hz is out of range"))
                    .hint(format!("from {LOWEST} to {HIGHEST} Hz")));
            }
        }
        let mut new = Self {
            from: from.into(),
            to: to.into(),
            fft: None,
            waiting: Vec::new(),
            block: Vec::new(),
            skip: 0,
            samples_in: 0,
            samples_out: 0,
        };
        if from != to {
            let divisor = gcd(from, to);
            let (unit_in, unit_out) = (from / divisor, to / divisor);
            let units = SHORTEST_BLOCK.div_ceil(unit_in.min(unit_out)).next_multiple_of(2);
            let fft = Fft::new(from as usize, to as usize, (units * unit_in) as usize, 1, FixedSync::Both)
                .map_err(|e| Error::new(format!("cannot resample from {from} to {to} Hz: {e}")))?;
            new.block = vec![0.0; fft.output_frames_max()];
            new.skip = fft.output_delay();
            new.fft = Some(fft);
        }
        Ok(new)
    }

    /// Takes the next samples and appends to `out` what they complete.
    ///
    /// # Errors
    /// None is known; the filter's own are passed on.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) -> Result<()> {
        self.samples_in += samples.len() as u64;
        self.feed(samples, out)
    }

    /// Appends the rest to `out`; then `samples in · to / from`, rounded up, have come out in all.
    ///
    /// # Errors
    /// As [`Resampler::push`].
    pub fn finish(mut self, out: &mut Vec<f32>) -> Result<()> {
        let Some(fft) = &self.fft else { return Ok(()) };
        let silence = vec![0.0; fft.input_frames_next()];
        let length = (self.samples_in * self.to).div_ceil(self.from);
        while self.samples_out < length {
            self.feed(&silence, out)?;
        }
        out.truncate(out.len() - (self.samples_out - length) as usize);
        Ok(())
    }

    fn feed(&mut self, samples: &[f32], out: &mut Vec<f32>) -> Result<()> {
        let before = out.len();
        let Some(fft) = &mut self.fft else {
            out.extend_from_slice(samples);
            return Ok(());
        };
        self.waiting.extend_from_slice(samples);
        let length = fft.input_frames_next();
        let mut taken = 0;
        while self.waiting.len() - taken >= length {
            let made = filter(fft, &self.waiting[taken..taken + length], &mut self.block)
                .map_err(|e| Error::new(format!("cannot resample from {} to {} Hz: {e}", self.from, self.to)))?;
            taken += length;
            let dropped = self.skip.min(made);
            self.skip -= dropped;
            out.extend_from_slice(&self.block[dropped..made]);
        }
        self.waiting.drain(..taken);
        self.samples_out += (out.len() - before) as u64;
        Ok(())
    }
}

/// One block through the filter; how many samples came out.
fn filter(fft: &mut Fft<f32>, block: &[f32], out: &mut [f32]) -> Result<usize, Box<dyn std::error::Error>> {
    let room = out.len();
    let input = InterleavedSlice::new(block, 1, block.len())?;
    let mut output = InterleavedSlice::new_mut(out, 1, room)?;
    let (_, made) = fft.process_into_buffer(&input, &mut output, None)?;
    Ok(made)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::*;

    fn whole(from: u32, to: u32, samples: &[f32]) -> Vec<f32> {
        let mut resampler = Resampler::new(from, to).unwrap();
        let mut out = Vec::new();
        resampler.push(samples, &mut out).unwrap();
        resampler.finish(&mut out).unwrap();
        out
    }

    fn sine(rate: u32, hz: f64, n: usize) -> Vec<f32> {
        (0..n).map(|i| (0.8 * (TAU * hz * i as f64 / f64::from(rate)).sin()) as f32).collect()
    }

    /// 10 log10 of the power of the error over that of `want`, away from the ends.
    fn error_db(got: &[f32], want: &[f32]) -> f64 {
        let middle = got.len() / 4..got.len() * 3 / 4;
        let power = |x: f64| x * x;
        let error: f64 = middle.clone().map(|i| power(f64::from(got[i] - want[i]))).sum();
        let signal: f64 = middle.map(|i| power(f64::from(want[i]))).sum();
        10.0 * (error / signal).log10()
    }

    const PAIRS: [(u32, u32); 9] = [
        (24_000, 48_000),
        (24_000, 44_100),
        (24_000, 16_000),
        (24_000, 22_050),
        (24_000, 8_000),
        (48_000, 44_100),
        (48_000, 24_000),
        (22_050, 16_000),
        (44_100, 16_000),
    ];

    /// Fails for a delay of 0.001 samples already, and thereby for the half sample that odd blocks leave.
    #[test]
    fn a_sine_comes_out_as_the_same_sine_at_the_same_time() {
        for (from, to) in PAIRS {
            for hz in [100.0, 997.0, 0.4 * f64::from(from.min(to))] {
                let n = from as usize;
                let got = whole(from, to, &sine(from, hz, n));
                assert_eq!(got.len(), to as usize);
                let db = error_db(&got, &sine(to, hz, got.len()));
                assert!(db < -110.0, "{from} -> {to} Hz, {hz} Hz: {db:.1} dB");
            }
        }
    }

    #[test]
    fn what_the_new_rate_cannot_hold_is_gone() {
        for (from, to) in PAIRS.into_iter().filter(|(from, to)| to < from) {
            let hz = 0.5 * f64::from(to) + 0.02 * f64::from(from);
            let got = whole(from, to, &sine(from, hz, from as usize));
            let middle = &got[got.len() / 4..got.len() * 3 / 4];
            let loudest = middle.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
            assert!(loudest < 1e-5, "{from} -> {to} Hz: {hz} Hz comes out at {loudest}");
        }
    }

    #[test]
    fn an_impulse_stays_where_it_is() {
        let mut impulse = vec![0.0; 1000];
        impulse[0] = 1.0;
        impulse[500] = 1.0;
        let out = whole(24_000, 48_000, &impulse);
        let peaks: Vec<_> = (0..out.len()).filter(|&i| out[i] > 0.9).collect();
        assert_eq!(peaks, [0, 1000]);
    }

    #[test]
    fn equal_rates_change_nothing() {
        let samples = sine(24_000, 440.0, 1234);
        assert_eq!(whole(24_000, 24_000, &samples), samples);
    }

    #[test]
    fn odd_rates_work_and_nonsense_is_refused() {
        assert_eq!(whole(24_000, 44_101, &sine(24_000, 440.0, 2400)).len(), 4411);
        for (from, to) in [(24_000, 0), (0, 24_000), (24_000, u32::MAX), (24_000, 1999)] {
            let error = Resampler::new(from, to).unwrap_err();
            assert!(error.to_string().contains("out of range"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_show_and_the_length_is_exact(
            pair in prop::sample::select(&PAIRS[..]),
            n in 0_usize..6000,
            cuts in prop::collection::vec(0_usize..2500, 0..8),
        ) {
            let samples = sine(pair.0, 440.0, n);
            let want = whole(pair.0, pair.1, &samples);
            prop_assert_eq!(want.len(), (n * pair.1 as usize).div_ceil(pair.0 as usize));
            let mut resampler = Resampler::new(pair.0, pair.1).unwrap();
            let (mut got, mut rest) = (Vec::new(), &samples[..]);
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                resampler.push(chunk, &mut got).unwrap();
                rest = after;
            }
            resampler.push(rest, &mut got).unwrap();
            resampler.finish(&mut got).unwrap();
            prop_assert_eq!(got, want);
        }
    }
}
