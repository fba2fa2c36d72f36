//! Whether a recording is of use: long enough, loud enough, made of numbers, not overdriven.

use super::{Recording, SHORTEST};
use crate::error::{Error, Result};

/// Below this level, away from the mean, there is nothing but the noise of a microphone: -54 dB.
const SILENCE: f32 = 0.002;
/// Above this level floats are no samples in [-1, 1] that overshot a little, but integers that were never scaled.
const UNSCALED: f32 = 16.0;
/// Of so many samples in a row at the loudest level, the recording was cut off there.
const FLAT: usize = 3;
/// The share of samples in such rows that is heard as distortion.
const CLIPPED: f64 = 0.002;

/// The recording, with what is to be said about it.
pub fn judge(mut recording: Recording) -> Result<Recording> {
    let seconds = recording.seconds();
    if let Some(i) = recording.samples.iter().position(|x| !x.is_finite()) {
        let at = i as f64 / f64::from(recording.rate);
        return Err(Error::new(format!("the sample at {at:.2} seconds is no number")).hint("export the recording anew"));
    }
    if seconds < SHORTEST {
        return Err(Error::new(format!("it is {seconds:.2} seconds long, too short to show a voice"))
            .hint("5 to 30 seconds of one clear voice are best"));
    }
    let mean = recording.samples.iter().map(|x| f64::from(*x)).sum::<f64>() / recording.samples.len() as f64;
    let loudest = recording.samples.iter().fold(0.0_f32, |m, x| m.max((x - mean as f32).abs()));
    if loudest < SILENCE {
        return Err(Error::new("it is silent").hint("record it louder; 5 to 30 seconds of one clear voice are best"));
    }
    if loudest > UNSCALED {
        return Err(Error::new(format!("its samples reach {loudest:.0}, where 1 is full scale"))
            .hint("export it as 16-bit WAV, or as floats from -1 to 1"));
    }
    let clipped = clipped(&recording.samples);
    if clipped > CLIPPED {
        let percent = 100.0 * clipped;
        recording.remarks.push(format!("it is overdriven ({percent:.1} % of it is cut off), and so the voice will be"));
    }
    Ok(recording)
}

/// The share of samples that stand in rows at the loudest level.
fn clipped(samples: &[f32]) -> f64 {
    let loudest = samples.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    // The mean of two channels of which one is cut off moves a little.
    let flat = |row: &&[f32]| row.len() >= FLAT && row[0].abs() > 0.98 * loudest;
    let rows = samples.chunk_by(|a, b| (a - b).abs() < 1e-4 * loudest);
    rows.filter(flat).map(<[f32]>::len).sum::<usize>() as f64 / samples.len().max(1) as f64
}
