//! Where the audio of one text goes: a file, a pipe, the speakers, or two of them at once; resampled where asked for.

use std::path::Path;

use super::console::Stdout;
use super::sound::Storing;
use crate::audio::file::SoundFile;
use crate::audio::loudness::{Levelled, Loudness};
use crate::audio::pcm::Tally;
use crate::audio::pipe::{Container, PipeWriter, Reader};
use crate::audio::play::Player;
use crate::audio::resample::Resampler;
use crate::error::Result;

/// Takes samples at the model's rate.
#[derive(Default)]
pub struct Outlet<'a> {
    store: Option<Store<'a>>,
    player: Option<Player>,
}

/// What went through an outlet.
pub struct Finished {
    /// What was stored.
    pub tally: Tally,
    /// What became of its loudness, where one was asked for.
    pub levelled: Option<Levelled>,
    /// The speakers, which may still have something to say.
    pub player: Option<Player>,
}

/// A file or pipe, with its own rate.
struct Store<'a> {
    resampler: Option<Resampler>,
    loudness: Option<Loudness>,
    sink: Sink<'a>,
    resampled: Vec<f32>,
}

enum Sink<'a> {
    File(SoundFile),
    Pipe(PipeWriter<Stdout<'a>>),
}

impl<'a> Outlet<'a> {
    /// Into the file `path`, from audio at `rate`.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn file(path: &Path, rate: u32, storing: &Storing) -> Result<Self> {
        let to = storing.rate.unwrap_or(rate);
        let sink = Sink::File(SoundFile::create(path, to, storing.format())?);
        Ok(Self { store: Some(Store::new(sink, rate, to, storing.lufs)?), player: None })
    }

    /// Into stdout, from audio at `rate`.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn pipe(out: Stdout<'a>, container: Container, rate: u32, storing: &Storing) -> Result<Self> {
        let to = storing.rate.unwrap_or(rate);
        let sink = Sink::Pipe(PipeWriter::new(out, "stdout", container, to, storing.format())?);
        Ok(Self { store: Some(Store::new(sink, rate, to, storing.lufs)?), player: None })
    }

    /// Into the speakers as well.
    #[must_use]
    pub fn with_player(mut self, player: Player) -> Self {
        self.player = Some(player);
        self
    }

    /// The next samples.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn push(&mut self, samples: &[f32]) -> Result<Reader> {
        if let Some(player) = &mut self.player {
            player.push(samples)?;
        }
        match &mut self.store {
            Some(store) => store.push(samples),
            None => Ok(Reader::Listening),
        }
    }

    /// The audio is whole: the file appears. The speakers may still have something to say.
    ///
    /// # Errors
    /// Where the file cannot be completed.
    pub fn finish(self) -> Result<Finished> {
        let (tally, levelled) = match self.store {
            Some(store) => store.finish()?,
            None => (Tally::default(), None),
        };
        Ok(Finished { tally, levelled, player: self.player })
    }
}

impl<'a> Store<'a> {
    fn new(sink: Sink<'a>, from: u32, to: u32, lufs: Option<f64>) -> Result<Self> {
        let resampler = if from == to { None } else { Some(Resampler::new(from, to)?) };
        let loudness = lufs.map(|lufs| Loudness::new(lufs, to)).transpose()?;
        Ok(Self { resampler, loudness, sink, resampled: Vec::new() })
    }

    fn push(&mut self, samples: &[f32]) -> Result<Reader> {
        let Some(resampler) = &mut self.resampler else { return keep(&mut self.loudness, &mut self.sink, samples) };
        self.resampled.clear();
        resampler.push(samples, &mut self.resampled)?;
        keep(&mut self.loudness, &mut self.sink, &self.resampled)
    }

    fn finish(mut self) -> Result<(Tally, Option<Levelled>)> {
        if let Some(resampler) = self.resampler.take() {
            self.resampled.clear();
            resampler.finish(&mut self.resampled)?;
            // A reader that left is noticed by stdout itself.
            let _ = keep(&mut self.loudness, &mut self.sink, &self.resampled)?;
        }
        let sink = &mut self.sink;
        let levelled = self.loudness.map(|l| l.finish(|samples| sink.write(samples).map(drop))).transpose()?;
        let tally = match self.sink {
            Sink::File(file) => file.finish()?,
            Sink::Pipe(pipe) => pipe.tally(),
        };
        Ok((tally, levelled))
    }
}

/// Samples go out at once, or wait until their loudness is known.
fn keep(loudness: &mut Option<Loudness>, sink: &mut Sink<'_>, samples: &[f32]) -> Result<Reader> {
    match loudness {
        Some(loudness) => loudness.push(samples).map(|()| Reader::Listening),
        None => sink.write(samples),
    }
}

impl Sink<'_> {
    fn write(&mut self, samples: &[f32]) -> Result<Reader> {
        match self {
            Sink::File(file) => file.write(samples).map(|()| Reader::Listening),
            Sink::Pipe(pipe) => pipe.write(samples),
        }
    }
}
