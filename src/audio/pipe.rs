//! Audio to a pipe: WAV with an unknown length, or the bare samples, flushed chunk by chunk so that a player starts at once.
//!
//! A pipe cannot seek, so the header is written once with both sizes 0xFFFFFFFF, which ffmpeg, sox and others read as
//! "until the end" (RIFF header: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, 1991).

use std::io::{ErrorKind, Write};

use super::pcm::{Format, Quantiser, Tally};
use crate::error::{Error, Result};

/// What goes before the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// A WAV header.
    Wav,
    /// Nothing: the reader must know rate and format.
    Raw,
}

/// Whether the reader still listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reader {
    /// All bytes were taken.
    Listening,
    /// The reader closed the pipe (`| head`, a player that was quit): stop quietly, this is no failure.
    Gone,
}

/// Writes mono audio to anything that takes bytes.
#[derive(Debug)]
pub struct PipeWriter<W: Write> {
    out: W,
    name: String,
    quantiser: Quantiser,
    bytes: Vec<u8>,
    reader: Reader,
}

impl<W: Write> PipeWriter<W> {
    /// Writes the header, if there is one. `name` stands for the pipe in messages.
    ///
    /// # Errors
    /// `out` cannot be written. A reader that has gone is no error.
    pub fn new(out: W, name: &str, container: Container, rate: u32, format: Format) -> Result<Self> {
        let bytes = match container {
            Container::Wav => header(rate, format),
            Container::Raw => Vec::new(),
        };
        let quantiser = Quantiser::new(format);
        let mut writer = Self { out, name: name.to_owned(), quantiser, bytes, reader: Reader::Listening };
        let _ = writer.send()?; // remembered in `reader`, and told at the first chunk
        Ok(writer)
    }

    /// Writes and flushes one chunk.
    ///
    /// # Errors
    /// The pipe cannot be written for another reason than that its reader has gone.
    pub fn write(&mut self, samples: &[f32]) -> Result<Reader> {
        self.quantiser.bytes(samples, &mut self.bytes);
        self.send()
    }

    /// What was written so far.
    pub fn tally(&self) -> Tally {
        self.quantiser.tally()
    }

    fn send(&mut self) -> Result<Reader> {
        if self.reader == Reader::Listening {
            match self.out.write_all(&self.bytes).and_then(|()| self.out.flush()) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::BrokenPipe => self.reader = Reader::Gone,
                Err(e) => return Err(Error::new(format!("cannot write to {}: {e}", self.name))),
            }
        }
        self.bytes.clear();
        Ok(self.reader)
    }
}

/// A WAV header for one channel of unknown length.
fn header(rate: u32, format: Format) -> Vec<u8> {
    const UNKNOWN: [u8; 4] = [0xff; 4];
    const PCM: u16 = 1;
    const IEEE_FLOAT: u16 = 3;
    const CHANNELS: u16 = 1;
    // all formats but PCM end in the length of an extension, here none
    let (tag, extension) = match format {
        Format::I16 | Format::I24 => (PCM, &[][..]),
        Format::F32 => (IEEE_FLOAT, &[0_u8, 0][..]),
    };
    let block = format.bytes() as u16;
    let mut out = Vec::with_capacity(46);
    out.extend(b"RIFF");
    out.extend(UNKNOWN);
    out.extend(b"WAVEfmt ");
    out.extend((16 + extension.len() as u32).to_le_bytes());
    out.extend(tag.to_le_bytes());
    out.extend(CHANNELS.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend(rate.saturating_mul(u32::from(block)).to_le_bytes());
    out.extend(block.to_le_bytes());
    out.extend((8 * block).to_le_bytes());
    out.extend(extension);
    out.extend(b"data");
    out.extend(UNKNOWN);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;

    use super::*;

    /// Takes `room` bytes, then fails with `then`; remembers how often it was flushed.
    #[derive(Debug)]
    struct Pipe {
        got: Vec<u8>,
        flushed: Vec<usize>,
        room: usize,
        then: ErrorKind,
    }

    impl Pipe {
        fn new(room: usize, then: ErrorKind) -> Self {
            Self { got: Vec::new(), flushed: Vec::new(), room, then }
        }
    }

    impl Write for &mut Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room - self.got.len());
            if n == 0 && !bytes.is_empty() {
                return Err(self.then.into());
            }
            self.got.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.flushed.push(self.got.len());
            Ok(())
        }
    }

    #[test]
    fn every_chunk_is_flushed() {
        let mut pipe = Pipe::new(usize::MAX, ErrorKind::Other);
        let mut writer = PipeWriter::new(&mut pipe, "standard output", Container::Wav, 24_000, Format::I16).unwrap();
        for chunk in [&[0.5_f32, -0.5][..], &[], &[1.0]] {
            assert_eq!(writer.write(chunk).unwrap(), Reader::Listening);
        }
        assert_eq!(writer.tally().samples, 3);
        assert_eq!(pipe.flushed, [44, 48, 48, 50]);
        assert_eq!(pipe.got[44..], [0xff, 0x3f, 0x01, 0xc0, 0xff, 0x7f]);
    }

    #[test]
    fn raw_is_samples_only() {
        let mut pipe = Pipe::new(usize::MAX, ErrorKind::Other);
        let mut writer = PipeWriter::new(&mut pipe, "standard output", Container::Raw, 24_000, Format::I16).unwrap();
        assert_eq!(writer.write(&[1.0, -1.0]).unwrap(), Reader::Listening);
        assert_eq!(pipe.got, [0xff, 0x7f, 0x01, 0x80]);
    }

    #[test]
    fn a_reader_that_leaves_is_no_error() {
        let mut pipe = Pipe::new(46, ErrorKind::BrokenPipe);
        let mut writer = PipeWriter::new(&mut pipe, "standard output", Container::Wav, 24_000, Format::I16).unwrap();
        assert_eq!(writer.write(&[0.1]).unwrap(), Reader::Listening);
        assert_eq!(writer.write(&[0.1]).unwrap(), Reader::Gone);
        assert_eq!(writer.write(&[0.1]).unwrap(), Reader::Gone);
        // gone before the header
        let mut pipe = Pipe::new(0, ErrorKind::BrokenPipe);
        let mut writer = PipeWriter::new(&mut pipe, "standard output", Container::Wav, 24_000, Format::I16).unwrap();
        assert_eq!(writer.write(&[0.1]).unwrap(), Reader::Gone);
    }

    #[test]
    fn any_other_failure_is_an_error_that_names_the_pipe() {
        let mut pipe = Pipe::new(44, ErrorKind::StorageFull);
        let mut writer = PipeWriter::new(&mut pipe, "standard output", Container::Wav, 24_000, Format::I16).unwrap();
        let error = writer.write(&[0.1]).unwrap_err().to_string();
        assert!(error.starts_with("cannot write to standard output: "), "{error}");
    }

    /// An independent reader agrees with the header, once the length is known.
    #[test]
    fn hound_reads_what_was_piped() {
        for format in [Format::I16, Format::I24, Format::F32] {
            let mut pipe = Pipe::new(usize::MAX, ErrorKind::Other);
            let mut writer = PipeWriter::new(&mut pipe, "standard output", Container::Wav, 48_000, format).unwrap();
            assert_eq!(writer.write(&[0.5, -0.25]).unwrap(), Reader::Listening);
            let mut bytes = pipe.got;
            let data = 2 * format.bytes();
            let head = bytes.len() - data;
            assert_eq!(head, if format == Format::F32 { 46 } else { 44 });
            assert_eq!(bytes[4..8], [0xff; 4]);
            assert_eq!(bytes[head - 4..head], [0xff; 4]);
            bytes[head - 4..head].copy_from_slice(&(data as u32).to_le_bytes());
            let mut reader = hound::WavReader::new(io::Cursor::new(bytes)).unwrap();
            let spec = reader.spec();
            assert_eq!((spec.channels, spec.sample_rate), (1, 48_000));
            assert_eq!(usize::from(spec.bits_per_sample), 8 * format.bytes());
            match format {
                Format::F32 => {
                    assert_eq!(reader.samples::<f32>().map(Result::unwrap).collect::<Vec<_>>(), [0.5, -0.25])
                }
                Format::I24 => {
                    assert_eq!(
                        reader.samples::<i32>().map(Result::unwrap).collect::<Vec<_>>(),
                        [4_194_303, -2_097_151]
                    );
                }
                Format::I16 => {
                    assert_eq!(reader.samples::<i32>().map(Result::unwrap).collect::<Vec<_>>(), [16383, -8191])
                }
            }
        }
    }
}
