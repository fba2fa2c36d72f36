//! `--join`: the files of a batch in the order of the list as one, with silence between them; not a sample is changed.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use hound::{SampleFormat, WavReader, WavSpec};

use super::Batch;
use super::plan::Task;
use crate::audio::fade::samples_in;
use crate::audio::file::{Kind, SoundFile};
use crate::audio::pcm::{Format, Sample};
use crate::audio::{flac, place};
use crate::cli::input;
use crate::cli::subtitles::{Cue, Subtitles};
use crate::error::{Error, Result};

/// Silence between two lines where `--gap` says nothing: that of a paragraph.
const USUAL_GAP_MS: u32 = 450;

/// Samples written at a time.
const CHUNK: usize = 1 << 14;

/// The file that all lines go into.
#[derive(Debug)]
pub struct Joined<'a> {
    path: &'a Path,
    subtitles: Option<Subtitles>,
    batch: &'a Batch,
}

/// What was joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Seconds of audio, silences included.
    pub seconds: f64,
}

impl<'a> Joined<'a> {
    /// What `batch` asks for, checked before anything is spoken.
    ///
    /// # Errors
    /// A place that cannot be written, or one of the batch's own files.
    pub fn wanted(batch: &'a Batch, tasks: &[Task]) -> Result<Option<Self>> {
        let Some(path) = batch.join.as_deref() else { return Ok(None) };
        if Kind::of(path)? == Kind::Flac && batch.storing.format() == Format::F32 {
            return Err(flac::no_floats(path));
        }
        input::check_output(&batch.list, path)?;
        for task in tasks {
            let line = batch.directory.join(&task.file);
            if Kind::named(&line) != Some(Kind::Wav) {
                return Err(Error::usage(format!("`{}`: only WAV files are joined", line.display()))
                    .hint("let the lines be `.wav`; the file that --join writes may be `.flac`"));
            }
            if same(&line, path) {
                return Err(Error::usage(format!("`{}` is the file of line {}", path.display(), task.n))
                    .hint("choose another name for --join"));
            }
        }
        place::preflight(path)?;
        let subtitles = batch.subtitles.as_deref().map(Subtitles::at).transpose()?;
        Ok(Some(Self { path, subtitles, batch }))
    }

    /// Joins the files of all `tasks`, which must be there.
    ///
    /// # Errors
    /// A file that cannot be read, or does not fit the others; the disk is full.
    pub fn write(&self, tasks: &[Task]) -> Result<Length> {
        let mut out: Option<(WavSpec, SoundFile)> = None;
        let mut cues = Vec::new();
        let mut heard = 0;
        for task in tasks {
            let path = self.batch.directory.join(&task.file);
            let mut reader = WavReader::open(&path).map_err(|e| unreadable(&path, &e))?;
            let spec = reader.spec();
            let (_, file) = match &mut out {
                Some((first, _)) if *first != spec => {
                    return Err(Error::new(format!(
                        "`{}`: another rate or format than the lines before",
                        path.display()
                    ))
                    .hint("speak all lines alike with --force"));
                }
                Some(both) => {
                    let gap = samples_in(self.batch.cutting.gap.unwrap_or(USUAL_GAP_MS), spec.sample_rate);
                    both.1.write(&vec![0.0; gap])?;
                    heard += gap;
                    both
                }
                None => out.insert((spec, SoundFile::create(self.path, spec.sample_rate, format(spec, &path)?)?)),
            };
            let seconds = |samples: usize| samples as f64 / f64::from(spec.sample_rate);
            let begun = heard;
            heard += copy(&mut reader, spec, file, &path)?;
            cues.push(Cue { start: seconds(begun), end: seconds(heard), text: task.text.clone() });
        }
        let Some((spec, file)) = out else { return Ok(Length { seconds: 0.0 }) };
        file.finish()?;
        if let Some(subtitles) = &self.subtitles {
            subtitles.store(&cues)?;
        }
        Ok(Length { seconds: heard as f64 / f64::from(spec.sample_rate) })
    }

    /// Where it stands.
    pub fn path(&self) -> &Path {
        self.path
    }
}

/// Whether both are one file, or would be.
fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn format(spec: WavSpec, path: &Path) -> Result<Format> {
    match (spec.sample_format, spec.bits_per_sample, spec.channels) {
        (SampleFormat::Int, 16, 1) => Ok(Format::I16),
        (SampleFormat::Int, 24, 1) => Ok(Format::I24),
        (SampleFormat::Float, 32, 1) => Ok(Format::F32),
        _ => {
            Err(Error::new(format!("`{}` is not as rtts writes it", path.display()))
                .hint("speak it again with --force"))
        }
    }
}

/// Appends a whole file; returns its samples.
fn copy(reader: &mut WavReader<BufReader<File>>, spec: WavSpec, file: &mut SoundFile, path: &Path) -> Result<usize> {
    let failed = |e: hound::Error| unreadable(path, &e);
    let mut copied = 0;
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut put = |audio: f32| -> Result<()> {
        chunk.push(audio);
        copied += 1;
        if chunk.len() == CHUNK {
            file.write(&chunk)?;
            chunk.clear();
        }
        Ok(())
    };
    match format(spec, path)? {
        Format::I16 => reader.samples::<i16>().try_for_each(|v| put(Sample::I16(v.map_err(failed)?).audio()))?,
        Format::I24 => reader.samples::<i32>().try_for_each(|v| put(Sample::I24(v.map_err(failed)?).audio()))?,
        Format::F32 => reader.samples::<f32>().try_for_each(|v| put(v.map_err(failed)?))?,
    }
    file.write(&chunk)?;
    Ok(copied)
}

fn unreadable(path: &Path, cause: &hound::Error) -> Error {
    Error::new(format!("cannot read `{}`: {cause}", path.display())).hint("run the batch again to speak it anew")
}
