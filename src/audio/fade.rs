//! The ends of an utterance: a short fade where it was cut, and how many samples a silence has.

/// How long a cut utterance fades: long enough not to click, too short to hear as a fade.
pub const CUT_FADE_MS: u32 = 10;

/// Fades the last [`CUT_FADE_MS`] of `samples` out along half a cosine; the last sample becomes 0.
pub fn fade_out(samples: &mut [f32], rate: u32) {
    let length = samples_in(CUT_FADE_MS, rate).min(samples.len());
    let start = samples.len() - length;
    for (i, x) in samples[start..].iter_mut().enumerate() {
        let phase = std::f32::consts::PI * (i + 1) as f32 / length as f32;
        *x *= 0.5 * (1.0 + phase.cos());
    }
}

/// How many samples last `ms` at `rate`, rounded to the nearest.
pub fn samples_in(ms: u32, rate: u32) -> usize {
    ((u64::from(ms) * u64::from(rate) + 500) / 1000) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fade_is_smooth_and_ends_in_silence() {
        let mut samples = vec![1.0; 1000];
        fade_out(&mut samples, 24_000); // 240 samples
        assert!(samples[..760].iter().all(|&x| x == 1.0));
        assert!(samples[760..].windows(2).all(|w| w[0] > w[1]));
        assert!(samples.windows(2).all(|w| w[0] - w[1] < 0.007)); // steepest: pi / 2 / 240
        assert!((samples[879] - 0.5).abs() < 1e-3);
        assert_eq!(samples[999], 0.0);
    }

    #[test]
    fn a_short_utterance_fades_as_a_whole() {
        let mut samples = vec![-1.0; 5];
        fade_out(&mut samples, 24_000);
        assert!(samples.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(samples[4], 0.0);
        fade_out(&mut [], 24_000);
    }

    #[test]
    fn lengths_are_rounded() {
        assert_eq!(samples_in(300, 24_000), 7200);
        assert_eq!(samples_in(1, 22_050), 22);
        assert_eq!(samples_in(u32::MAX, 192_000), 824_633_720_640); // no overflow
        assert_eq!(samples_in(0, 24_000), 0);
    }
}
