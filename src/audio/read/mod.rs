//! Recordings in: any common audio file becomes mono samples at the rate a model listens at.
//!
//! ```text
//! file ──decode──► channels ──mean──► mono ──judge──► recording ──sinc──► mono at the model's rate
//! ```
//!
//! Reading needs no model, so a file that is of no use is refused before gigabytes of weights are loaded.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::{Error, Result};

mod decode;
mod judge;
mod sinc;
#[cfg(test)]
mod tests;

pub use decode::guarded;

/// The shortest recording that shows a voice, in seconds.
pub const SHORTEST: f64 = 0.5;
/// The longest recording that is read, in seconds. A model hears 5 to 30 seconds of a voice best, each second fills
/// its context and takes time to encode, and more than this is rather a mistake, such as a whole podcast.
pub const LONGEST: f64 = 120.0;

/// The largest file that is read, in bytes: [`LONGEST`] of eight channels at 96 kHz and 32 bits fits.
const LARGEST: u64 = 512 << 20;

/// One recording, mono, at its own rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Nominally in [-1, 1], all finite.
    pub samples: Vec<f32>,
    /// Samples per second.
    pub rate: u32,
    /// Channels of the file, of which `samples` is the mean.
    pub channels: usize,
    /// What is wrong with it although it can be used, a sentence each.
    pub remarks: Vec<String>,
}

impl Recording {
    /// Its length.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.rate)
    }

    /// The same sound with `rate` samples per second, without delay; as long as before, rounded up to a sample.
    pub fn at(&self, rate: u32) -> Vec<f32> {
        sinc::resample(&self.samples, self.rate, rate)
    }
}

/// Reads the recording in `path`.
///
/// # Errors
/// A file that cannot be read, is no audio, or holds nothing to take a voice from; each says which.
pub fn read(path: &Path) -> Result<Recording> {
    from_bytes(bytes(path)?, path)
}

/// The recording in a file's `bytes`; `path` is its name, whose ending helps to tell formats apart.
///
/// # Errors
/// As [`read`], less what the file system refuses.
pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<Recording> {
    let place = format!("`{}`", path.display());
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let recording = decode::decode(bytes, ending.as_deref()).and_then(judge::judge);
    recording.map_err(|error| error.at(place))
}

/// All bytes of the file.
///
/// # Errors
/// A file that cannot be read, a folder, or more than any recording of a voice needs.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::io("cannot read", path, &e);
    if path.is_dir() {
        return Err(Error::new(format!("`{}`: this is a folder", path.display())).hint("name one audio file in it"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        let what = format!("`{}`: more than {} MiB, too much for a voice", path.display(), LARGEST >> 20);
        return Err(Error::new(what).hint(cut_hint()));
    }
    Ok(bytes)
}

/// How a long recording becomes a short one.
fn cut_hint() -> String {
    "5 to 30 seconds of one clear voice are best; cut it: `ffmpeg -i IN -t 20 OUT.wav`".into()
}
