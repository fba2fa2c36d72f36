//! What a model adds after the last word: silence and faint noise at the end of an utterance are cut off, with a fade.
//!
//! The samples come as they are generated and leave as soon as they can: only what may turn out to be the end is kept
//! back. Where the chunks are cut never shows in the result.

use super::fade::{CUT_FADE_MS, fade_out, samples_in};

/// Stretches that are judged as a whole.
const FRAME_MS: u32 = 20;
/// So many quiet frames after the last word are left: words fade, and rooms ring.
const KEPT_FRAMES: usize = 9;
/// Nothing is cut for less than this.
const LEAST_MS: u32 = 100;
/// Quiet is what has so much less power than the loudest frame so far: 40 dB, as people trim recordings.
const QUIET: f64 = 1e-4;
/// What has less power than this, -70 dB of full scale, is quiet in any case.
const FLOOR: f64 = 1e-7;

/// Trims the end of one utterance.
#[derive(Clone, Debug)]
pub struct Trimmer {
    rate: u32,
    frame: usize,
    /// Power of the loudest frame; 0 until one is not quiet.
    loudest: f64,
    /// Samples of a frame that is not full yet.
    partial: Vec<f32>,
    /// Quiet frames that were let through since the last loud one.
    passed: usize,
    /// Quiet frames after those.
    held: Vec<f32>,
}

impl Trimmer {
    /// For an utterance at `rate`.
    pub fn new(rate: u32) -> Self {
        let frame = samples_in(FRAME_MS, rate).max(1);
        Self { rate, frame, loudest: 0.0, partial: Vec::new(), passed: 0, held: Vec::new() }
    }

    /// The next samples; returns what can be heard now.
    pub fn push(&mut self, samples: &[f32]) -> Vec<f32> {
        self.partial.extend_from_slice(samples);
        let waiting = std::mem::take(&mut self.partial);
        let frames = waiting.chunks_exact(self.frame);
        self.partial = frames.remainder().to_vec();
        let mut heard = Vec::new();
        for frame in frames {
            if self.is_loud(frame) {
                heard.append(&mut self.held);
                heard.extend_from_slice(frame);
                self.loudest = self.loudest.max(power(frame));
                self.passed = 0;
            } else if self.loudest == 0.0 || self.passed < KEPT_FRAMES {
                heard.extend_from_slice(frame);
                self.passed += 1;
            } else {
                self.held.extend_from_slice(frame);
            }
        }
        heard
    }

    /// Forgets the utterance, which begins anew.
    pub fn reset(&mut self) {
        *self = Self::new(self.rate);
    }

    /// The utterance is over by itself; returns its last samples and how many were cut off.
    pub fn finish(mut self) -> (Vec<f32>, usize) {
        let ends_loud = self.is_loud(&self.partial);
        let (fade, least) = (samples_in(CUT_FADE_MS, self.rate), samples_in(LEAST_MS, self.rate));
        self.held.append(&mut self.partial);
        let cut = self.held.len().saturating_sub(fade);
        if ends_loud || self.loudest == 0.0 || cut < least {
            return (self.held, 0);
        }
        self.held.truncate(fade);
        fade_out(&mut self.held, self.rate);
        (self.held, cut)
    }

    /// The utterance was cut at its limit, and ends there; returns its last samples.
    pub fn rest(mut self) -> Vec<f32> {
        self.held.append(&mut self.partial);
        self.held
    }

    fn is_loud(&self, frame: &[f32]) -> bool {
        power(frame) > (self.loudest * QUIET).max(FLOOR)
    }
}

/// Mean square.
fn power(frame: &[f32]) -> f64 {
    frame.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / frame.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: u32 = 1000; // a frame has 20 samples

    fn tone(n: usize, level: f32) -> Vec<f32> {
        (0..n).map(|i| level * (i as f32 * 1.3).sin()).collect()
    }

    fn trimmed(samples: &[f32]) -> (Vec<f32>, usize) {
        let mut trimmer = Trimmer::new(RATE);
        let mut heard = trimmer.push(samples);
        let (rest, cut) = trimmer.finish();
        heard.extend(rest);
        (heard, cut)
    }

    #[test]
    fn a_long_quiet_end_goes_and_a_short_one_stays() {
        for noise in [0.0, 0.001] {
            let spoken = [tone(400, 0.5), tone(1000, noise)].concat();
            let (heard, cut) = trimmed(&spoken);
            // 180 ms are left, and 10 ms that fade.
            assert_eq!((heard.len(), cut), (590, 810));
            assert!(heard[..580] == spoken[..580] && heard[589] == 0.0);
        }
        for quiet in [0, 100, 280] {
            let spoken = [tone(400, 0.5), tone(quiet, 0.0)].concat();
            assert_eq!(trimmed(&spoken), (spoken, 0));
        }
    }

    #[test]
    fn pauses_and_beginnings_stay() {
        let spoken = [tone(300, 0.0), tone(200, 0.5), tone(600, 0.0), tone(95, 0.3)].concat();
        assert_eq!(trimmed(&spoken), (spoken, 0));
    }

    #[test]
    fn silence_alone_is_not_ours_to_judge() {
        assert_eq!(trimmed(&[0.0; 2000]), (vec![0.0; 2000], 0));
    }

    #[test]
    fn a_cut_utterance_keeps_its_end() {
        let spoken = [tone(400, 0.5), tone(1005, 0.0)].concat();
        let mut trimmer = Trimmer::new(RATE);
        let mut heard = trimmer.push(&spoken);
        heard.extend(trimmer.rest());
        assert_eq!(heard, spoken);
    }

    proptest! {
        #[test]
        fn chunks_do_not_show(lengths in prop::collection::vec((0_usize..300, any::<bool>()), 1..8), cuts in prop::collection::vec(0_usize..200, 0..8)) {
            let spoken: Vec<f32> = lengths.iter().flat_map(|&(n, loud)| tone(n, if loud { 0.5 } else { 0.0 })).collect();
            let mut trimmer = Trimmer::new(RATE);
            let (mut heard, mut rest) = (Vec::new(), &spoken[..]);
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                heard.extend(trimmer.push(chunk));
                rest = after;
            }
            heard.extend(trimmer.push(rest));
            let (end, cut) = trimmer.finish();
            heard.extend(end);
            prop_assert_eq!(heard.len() + cut, spoken.len());
            prop_assert_eq!((heard, cut), trimmed(&spoken));
        }
    }
}
