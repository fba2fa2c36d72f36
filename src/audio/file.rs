//! Sound files of every kind that is written; the ending of the name says which.

use std::path::Path;

use super::flac::FlacFile;
use super::pcm::{Format, Tally};
use super::wav::WavFile;
use crate::error::{Error, Result};

/// The kinds of sound files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `.wav`, and names without an ending.
    Wav,
    /// `.flac`
    Flac,
}

impl Kind {
    /// The kind that the name of a file asks for.
    ///
    /// # Errors
    /// An ending of another kind.
    pub fn of(path: &Path) -> Result<Self> {
        // A device or FIFO may be called anything.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Ok(Self::named(path).unwrap_or(Kind::Wav));
        }
        Self::named(path).ok_or_else(|| {
            let shown = path.display();
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            let hint = if ["mp3", "ogg", "opus", "m4a", "aac", "wma"].contains(&ending.as_str()) {
                format!("convert it: `rtts say … -o - | ffmpeg -i - {shown}`")
            } else {
                "name the file `.wav` or `.flac`".to_owned()
            };
            Error::usage(format!("`{shown}`: rtts writes WAV and FLAC, not `.{ending}`")).hint(hint)
        })
    }

    /// The kind, where the ending is one of ours.
    pub fn named(path: &Path) -> Option<Self> {
        match path.extension().map(|e| e.to_string_lossy().to_lowercase()).as_deref() {
            None | Some("wav" | "wave") => Some(Kind::Wav),
            Some("flac") => Some(Kind::Flac),
            Some(_) => None,
        }
    }
}

/// A mono sound file in the making. Dropped before [`SoundFile::finish`], it leaves nothing behind.
pub enum SoundFile {
    /// A WAV file.
    Wav(Box<WavFile>),
    /// A FLAC file.
    Flac(Box<FlacFile>),
}

impl SoundFile {
    /// Starts a file that will stand at `path`; one that is there already is replaced by [`SoundFile::finish`].
    ///
    /// # Errors
    /// An unknown ending, a format that the kind does not have, and as [`super::place::preflight`].
    pub fn create(path: &Path, rate: u32, format: Format) -> Result<Self> {
        match Kind::of(path)? {
            Kind::Wav => WavFile::create(path, rate, format).map(Box::new).map(Self::Wav),
            Kind::Flac => FlacFile::create(path, rate, format).map(Box::new).map(Self::Flac),
        }
    }

    /// Appends samples.
    ///
    /// # Errors
    /// The disk is full or fails, or the file would outgrow what its kind can hold.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        match self {
            Self::Wav(file) => file.write(samples),
            Self::Flac(file) => file.write(samples),
        }
    }

    /// Completes the file and lets it appear at its path.
    ///
    /// # Errors
    /// The disk is full or fails; then nothing new stands at the path.
    pub fn finish(self) -> Result<Tally> {
        match self {
            Self::Wav(file) => file.finish(),
            Self::Flac(file) => file.finish(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_ending() {
        for (name, kind) in [("a.wav", Kind::Wav), ("a", Kind::Wav), ("b.FLAC", Kind::Flac), (".hidden", Kind::Wav)] {
            assert_eq!(Kind::of(Path::new(name)).unwrap(), kind, "{name}");
        }
        for (name, cure) in [("a.txt", "`.wav` or `.flac`"), ("a.mp3", "ffmpeg -i - a.mp3"), ("a.v2", "`.flac`")] {
            assert!(Kind::of(Path::new(name)).unwrap_err().cure().unwrap().contains(cure), "{name}");
        }
        assert_eq!(Kind::of(Path::new("/dev/null")).unwrap(), Kind::Wav);
    }

    #[test]
    fn floats_do_not_fit_into_flac() {
        let folder = tempfile::tempdir().unwrap();
        let error = SoundFile::create(&folder.path().join("a.flac"), 24_000, Format::F32).err().unwrap();
        assert!(error.cure().unwrap().contains("i24"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn flac_appears_whole_and_says_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.flac");
        let tone: Vec<f32> = (0..10_000).map(|i| 0.5 * (0.05 * i as f32).sin()).collect();
        let mut file = SoundFile::create(&path, 24_000, Format::I16).unwrap();
        for chunk in tone.chunks(999) {
            file.write(chunk).unwrap();
        }
        assert!(!path.exists());
        assert_eq!(file.finish().unwrap().samples, 10_000);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[..8], b"fLaC\x80\x00\x00\x22");
        assert_eq!(&bytes[8..12], [0x10, 0, 0x10, 0]); // blocks of 4096
        let packed = u64::from_be_bytes(bytes[18..26].try_into().unwrap());
        let (rate, channels, bits, samples) =
            (packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1, packed & 0xF_FFFF_FFFF);
        assert_eq!((rate, channels, bits, samples), (24_000, 1, 16, 10_000));
        assert_ne!(bytes[26..42], [0; 16]);
        assert!(bytes.len() < 20_000 * 3 / 4, "{}", bytes.len());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
