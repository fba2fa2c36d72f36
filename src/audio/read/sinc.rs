//! A whole recording at another rate: one pass of a windowed sinc, evaluated where each output sample falls.
//!
//! The reference implementations of the models resample with libsoxr's `HQ` setting, and a cloned voice depends on what
//! they heard. This is the same filter (soxr 0.1.3, `soxr_quality_spec`: 20 bits, pass band to 0.9136 of the lower
//! Nyquist frequency, stop band from 1.0), designed after Kaiser (1974): on speech the two differ by less than
//! -90 dB, most of it where the bands meet. It is linear in phase, so nothing is delayed.

use std::f64::consts::PI;

/// Where the pass band ends, by the lower Nyquist frequency.
const PASS: f64 = 0.9136;
/// Attenuation of the stop band, in dB: 21 bits.
const ATTENUATION: f64 = 126.4;
/// Points of the window's table, on one side.
const POINTS: usize = 1 << 14;
/// Filters are kept for the next output sample of the same phase where all of them together are no larger than this.
const KEPT: usize = 1 << 24;

/// `samples` at rate `from`, brought to rate `to`; ceil(n · to / from) samples.
pub fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    if from == to || from == 0 || to == 0 {
        return samples.to_vec();
    }
    let divisor = gcd(from, to);
    let (step, phases) = (u64::from(from / divisor), u64::from(to / divisor));
    let filter = Filter::new(from, to);
    let length = (samples.len() as u64 * phases).div_ceil(step);
    let keep = phases as usize * filter.taps() <= KEPT;
    let mut kept: Vec<Vec<f32>> = vec![Vec::new(); if keep { phases as usize } else { 0 }];
    let mut once = Vec::new();
    let mut out = Vec::with_capacity(length as usize);
    for n in 0..length {
        // Output n lies `phase / phases` after input sample `at`.
        let (at, phase) = ((n * step / phases) as usize, n * step % phases);
        let taps = if keep { &mut kept[phase as usize] } else { &mut once };
        if taps.is_empty() || !keep {
            filter.write(phase as f64 / phases as f64, taps);
        }
        out.push(around(samples, at, filter.reach, taps));
    }
    out
}

/// The sum of `taps` times the samples from `reach` before `at`; outside the recording there is silence.
fn around(samples: &[f32], at: usize, reach: usize, taps: &[f32]) -> f32 {
    let skipped = reach.saturating_sub(at);
    let first = at + skipped - reach;
    let heard = samples.get(first..).unwrap_or_default();
    let sum: f64 = taps.iter().skip(skipped).zip(heard).map(|(tap, x)| f64::from(*tap) * f64::from(*x)).sum();
    sum as f32
}

/// The continuous filter.
struct Filter {
    /// Its cut-off by the Nyquist frequency of the input.
    cutoff: f64,
    /// Half its width, in input samples.
    half: f64,
    /// Input samples it reaches to either side, at most.
    reach: usize,
    /// Kaiser's window from its middle, 1, to its end, at `POINTS` + 1 points.
    window: Vec<f64>,
}

impl Filter {
    fn new(from: u32, to: u32) -> Self {
        let lower = f64::from(from.min(to)) / f64::from(from);
        // Kaiser's estimate of the length, in samples of the lower rate.
        let length = (ATTENUATION - 7.95) / (2.285 * PI * (1.0 - PASS));
        let half = 0.5 * length / lower;
        let beta = 0.1102 * (ATTENUATION - 8.7);
        let point = |i: usize| bessel(beta * (1.0 - (i as f64 / POINTS as f64).powi(2)).max(0.0).sqrt()) / bessel(beta);
        Self {
            cutoff: 0.5 * (1.0 + PASS) * lower,
            half,
            reach: half.floor() as usize,
            window: (0..=POINTS).map(point).collect(),
        }
    }

    fn taps(&self) -> usize {
        2 * self.reach + 2
    }

    /// The filter for an output `phase` of a sample after an input sample.
    fn write(&self, phase: f64, taps: &mut Vec<f32>) {
        taps.clear();
        taps.extend((0..self.taps()).map(|i| self.at(i as f64 - self.reach as f64 - phase) as f32));
    }

    fn at(&self, t: f64) -> f64 {
        let place = t.abs() / self.half * POINTS as f64;
        let i = place as usize;
        let (Some(a), Some(b)) = (self.window.get(i), self.window.get(i + 1)) else { return 0.0 };
        let window = a + (b - a) * (place - i as f64);
        let x = PI * self.cutoff * t;
        let sinc = if x.abs() < 1e-9 { 1.0 } else { x.sin() / x };
        self.cutoff * sinc * window
    }
}

/// The modified Bessel function of the first kind and order zero, by its power series.
fn bessel(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= (0.5 * x / k).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn sine(rate: u32, hz: f64, n: usize) -> Vec<f32> {
        (0..n).map(|i| (0.8 * (TAU * hz * i as f64 / f64::from(rate)).sin()) as f32).collect()
    }

    /// 10 log10 of the power of the error over that of `want`.
    fn error_db(got: &[f32], want: &[f32]) -> f64 {
        let power = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>();
        let error = power(&mut got.iter().zip(want).map(|(a, b)| a - b));
        10.0 * (error / power(&mut want.iter().copied())).log10()
    }

    /// The sweep of `tools/reference_soxr.py`: 0.1 s from 50 Hz to 0.9 of the lower Nyquist frequency, louder in the middle.
    fn sweep(from: u32, to: u32) -> Vec<f32> {
        let (n, top) = (from as usize / 10, 0.45 * f64::from(from.min(to)));
        let phase = |i: usize| {
            let t = i as f64 / f64::from(from);
            TAU * (50.0 * t + 0.5 * (top - 50.0) / 0.1 * t * t)
        };
        let swell = |i: usize| (PI * i as f64 / (0.1 * f64::from(from))).sin().powi(2);
        (0..n).map(|i| (swell(i) * phase(i).sin()) as f32).collect()
    }

    #[test]
    fn the_same_as_soxr_hq() {
        for from in [8_000, 11_025, 22_050, 24_000, 44_100, 48_000] {
            let path = format!("{}/tests/data/soxr/{from}-16000.f32", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(path).unwrap();
            let want: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            let got = resample(&sweep(from, 16_000), from, 16_000);
            assert!(got.len().abs_diff(want.len()) <= 1, "{from}: {} and {}", got.len(), want.len());
            let db = error_db(&got, &want);
            assert!(db < -85.0, "{from} Hz: {db:.1} dB");
        }
    }

    #[test]
    fn a_sine_stays_where_it_is() {
        for (from, to) in [(8_000, 16_000), (22_050, 16_000), (44_100, 16_000), (48_000, 16_000), (44_101, 16_000)] {
            for hz in [100.0, 997.0, 0.45 * f64::from(from.min(to))] {
                let got = resample(&sine(from, hz, from as usize / 2), from, to);
                let want = sine(to, hz, got.len());
                let middle = got.len() / 4..got.len() * 3 / 4;
                let db = error_db(&got[middle.clone()], &want[middle]);
                assert!(db < -110.0, "{from} -> {to} Hz, {hz} Hz: {db:.1} dB");
            }
        }
    }

    #[test]
    fn what_the_new_rate_cannot_hold_is_gone() {
        for from in [22_050, 44_100, 48_000, 96_000] {
            let got = resample(&sine(from, 8_200.0, from as usize / 2), from, 16_000);
            let middle = &got[got.len() / 4..got.len() * 3 / 4];
            let loudest = middle.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
            assert!(loudest < 2e-6, "{from} Hz: {loudest}");
        }
    }

    #[test]
    fn lengths_are_exact_and_equal_rates_change_nothing() {
        for (from, n, length) in
            [(44_100, 1, 1), (44_100, 441, 160), (8_000, 3, 6), (48_000, 0, 0), (44_101, 44_101, 16_000)]
        {
            assert_eq!(resample(&vec![0.5; n], from, 16_000).len(), length, "{n} at {from} Hz");
        }
        let samples = sine(16_000, 440.0, 123);
        assert_eq!(resample(&samples, 16_000, 16_000), samples);
    }
}
