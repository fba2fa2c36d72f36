//! FLAC files that appear whole or not at all: lossless, about half the size of WAV.
//!
//! Blocks of 4096 samples are coded as they come; the stream header with the length, the frame sizes and the MD5 of the
//! samples is written once more at the end (RFC 9639, section 8.2). A device or FIFO keeps the first header, which
//! leaves them unknown.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flacenc::bitsink::ByteSink;
use flacenc::component::{BitRepr, StreamInfo};
use flacenc::config::Encoder;
use flacenc::encode_fixed_size_frame;
use flacenc::error::{Verified, Verify};
use flacenc::source::{Context, Fill, FrameBuf};

use super::pcm::{Format, Quantiser, Sample, Tally};
use super::place::{Draft, Place, cannot_write, place};
use crate::error::{Error, Result};

/// Samples of a block.
const BLOCK: usize = 4096;

/// A mono FLAC file in the making. Dropped before [`FlacFile::finish`], it leaves nothing behind.
pub struct FlacFile {
    path: PathBuf,
    // before `draft`: closed first, then removed
    out: BufWriter<File>,
    /// The regular file; a device or FIFO has none.
    draft: Option<Draft>,
    quantiser: Quantiser,
    coder: Coder,
}

/// Samples into frames.
struct Coder {
    config: Verified<Encoder>,
    info: StreamInfo,
    /// Length and MD5 of all samples.
    context: Context,
    block: FrameBuf,
    /// Samples that do not fill a block yet.
    waiting: Vec<i32>,
    frames: usize,
}

impl FlacFile {
    /// Starts a file that will stand at `path`.
    ///
    /// # Errors
    /// A sample format that FLAC does not have, and as [`super::place::preflight`].
    pub fn create(path: &Path, rate: u32, format: Format) -> Result<Self> {
        if format == Format::F32 {
            return Err(no_floats(path));
        }
        let (file, draft) = match place(path)? {
            Place::Special => (OpenOptions::new().write(true).open(path).map_err(|e| cannot_write(path, &e))?, None),
            Place::File(target) => {
                let draft = target.draft(path)?;
                (draft.file.try_clone().map_err(|e| cannot_write(path, &e))?, Some(draft))
            }
        };
        let coder = Coder::new(rate, 8 * format.bytes()).map_err(|e| cannot_write(path, &e))?;
        let mut out = BufWriter::with_capacity(1 << 16, file);
        coder.header().and_then(|header| out.write_all(&header)).map_err(|e| cannot_write(path, &e))?;
        Ok(Self { path: path.to_owned(), out, draft, quantiser: Quantiser::new(format), coder })
    }

    /// Appends samples.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        for &x in samples {
            let sample = self.quantiser.sample(x);
            self.put(sample)?;
        }
        Ok(())
    }

    /// Appends one stored sample.
    fn put(&mut self, sample: Sample) -> Result<()> {
        self.coder.waiting.push(match sample {
            Sample::I16(v) => v.into(),
            Sample::I24(v) => v,
            Sample::F32(_) => return Err(no_floats(&self.path)),
        });
        if self.coder.waiting.len() < BLOCK {
            return Ok(());
        }
        self.frame().map_err(|e| cannot_write(&self.path, &e))
    }

    /// What was written so far.
    pub fn tally(&self) -> Tally {
        self.quantiser.tally()
    }

    /// Completes the file and lets it appear at its path.
    ///
    /// # Errors
    /// The disk is full or fails; then nothing new stands at the path.
    pub fn finish(mut self) -> Result<Tally> {
        let tally = self.tally();
        self.complete().map_err(|e| cannot_write(&self.path, &e))?;
        Ok(tally)
    }

    fn frame(&mut self) -> io::Result<()> {
        let bytes = self.coder.frame()?;
        self.out.write_all(&bytes)
    }

    fn complete(&mut self) -> io::Result<()> {
        if !self.coder.waiting.is_empty() {
            self.frame()?;
        }
        let Some(draft) = self.draft.take() else { return self.out.flush() };
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&self.coder.end()?)?;
        self.out.flush()?;
        draft.publish()
    }
}

impl Coder {
    fn new(rate: u32, bits: usize) -> io::Result<Self> {
        let config = Encoder::default().into_verified().map_err(|(_, e)| io::Error::other(e.to_string()))?;
        let mut info = StreamInfo::new(rate as usize, 1, bits).map_err(other)?;
        info.set_block_sizes(BLOCK, BLOCK).map_err(other)?;
        let block = FrameBuf::with_size(1, BLOCK).map_err(other)?;
        Ok(Self { config, info, context: Context::new(bits, 1), block, waiting: Vec::new(), frames: 0 })
    }

    /// Codes what waits, at most a block.
    fn frame(&mut self) -> io::Result<Vec<u8>> {
        if self.waiting.len() < BLOCK {
            self.block.resize(self.waiting.len());
        }
        self.block.fill_interleaved(&self.waiting).map_err(other)?;
        self.context.fill_interleaved(&self.waiting).map_err(other)?;
        self.waiting.clear();
        let frame = encode_fixed_size_frame(&self.config, &self.block, self.frames, &self.info).map_err(other)?;
        self.frames += 1;
        self.info.update_frame_info(&frame);
        bits(&frame)
    }

    /// The marker and the stream header as it is known so far.
    fn header(&self) -> io::Result<Vec<u8>> {
        // The only metadata block, and the last: type 0, 34 bytes.
        let mut bytes = b"fLaC\x80\x00\x00\x22".to_vec();
        bytes.extend(bits(&self.info)?);
        Ok(bytes)
    }

    /// The header once all is coded.
    fn end(&mut self) -> io::Result<Vec<u8>> {
        self.info.set_total_samples(self.context.total_samples());
        self.info.set_md5_digest(&self.context.md5_digest());
        // A shorter last block does not count.
        self.info.set_block_sizes(BLOCK, BLOCK).map_err(other)?;
        self.header()
    }
}

fn bits(part: &impl BitRepr) -> io::Result<Vec<u8>> {
    let mut sink = ByteSink::new();
    part.write(&mut sink).map_err(other)?;
    Ok(sink.into_inner())
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// The error for a sample format that FLAC does not have.
pub fn no_floats(path: &Path) -> Error {
    Error::usage(format!("`{}`: FLAC holds no floating-point samples", path.display()))
        .hint("use `--format i24`, or write a `.wav` file")
}
