//! Sound cards for tests, without hardware: ALSA configurations whose default device writes what it hears to a file.
//!
//! A process finds them through `ALSA_CONFIG_PATH`, which must be set before it starts. The configurations stand alone,
//! so neither ALSA's own files nor the machine's settings matter.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A stand-in for the default sound card.
pub struct Card {
    folder: TempDir,
}

impl Card {
    /// Takes any format, like ALSA's usual default; records 16 bits at the rate and channels it is given.
    pub fn plain() -> Self {
        Self::new("pcm.default { type plug slave { pcm record format S16_LE } }")
    }

    /// Runs at 48 kHz stereo; converts all but rates below 4 kHz, which it refuses.
    pub fn stereo_48k() -> Self {
        Self::new("pcm.default { type plug slave { pcm record format S16_LE rate 48000 channels 2 } }")
    }

    /// Takes any rate, but only stereo.
    pub fn stereo() -> Self {
        Self::new(
            "pcm.narrow { type plug slave { pcm record format S16_LE } }
             pcm.default { type multi slaves { a { pcm narrow channels 2 } }
               bindings { 0 { slave a channel 0 } 1 { slave a channel 1 } } }",
        )
    }

    /// A machine without a sound card.
    pub fn missing() -> Self {
        Self::new("pcm.default { type hw card 31 }")
    }

    fn new(default: &str) -> Self {
        let card = Self { folder: TempDir::new().unwrap() };
        let record = card.recording().display().to_string();
        let silence = "pcm.silence { type null }";
        let record = format!("pcm.record {{ type file slave.pcm silence file \"{record}\" format wav }}");
        fs::write(card.configuration(), format!("{silence}\n{record}\n{default}\n")).unwrap();
        card
    }

    /// The file `ALSA_CONFIG_PATH` names.
    pub fn configuration(&self) -> PathBuf {
        self.folder.path().join("asound.conf")
    }

    fn recording(&self) -> PathBuf {
        self.folder.path().join("recording.wav")
    }

    /// Makes this the default sound card of `command`.
    pub fn plug_into<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("ALSA_CONFIG_PATH", self.configuration())
    }

    /// What the card heard, interleaved, with its channels and rate. The silence a card without a clock swallows at the
    /// end is still there.
    pub fn heard(&self) -> (Vec<i16>, u16, u32) {
        let mut wav = hound::WavReader::open(self.recording()).unwrap();
        let spec = wav.spec();
        assert_eq!(spec.bits_per_sample, 16);
        (wav.samples::<i16>().map(Result::unwrap).collect(), spec.channels, spec.sample_rate)
    }
}
