//! A file's bytes become samples, by Symphonia's readers and decoders; its channels become their mean.
//!
//! Players forgive a file that ends early or skips a damaged part, and so does this, with a remark; a file that is
//! damaged for the most part is refused.

use std::cell::Cell;
use std::io::{Cursor, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_OPUS};
use symphonia::core::errors::Error as Fault;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;
use symphonia::default::{get_codecs, get_probe};

use super::{LONGEST, Recording, cut_hint};
use crate::error::{Error, Result};

/// What can be read.
const KNOWN: &str = "WAV, AIFF, FLAC, MP3, OGG Vorbis and M4A are read; convert others: `ffmpeg -i IN OUT.wav`";

/// Rates that recordings have.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=768_000;

/// More channels than any recording has.
const MOST_CHANNELS: usize = 64;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread decodes a file, so that a panic is the file's fault, caught and explained.
pub fn guarded() -> bool {
    GUARDED.get()
}

/// The recording in `bytes`, of a file with this `ending`.
pub fn decode(bytes: Vec<u8>, ending: Option<&str>) -> Result<Recording> {
    if bytes.is_empty() {
        return Err(Error::new("the file is empty").hint(KNOWN));
    }
    if is_text(&bytes) {
        return Err(Error::new("this is text, not audio").hint(KNOWN));
    }
    // The decoders are other people's code at work on files from anywhere, and some headers make them divide by zero.
    GUARDED.set(true);
    let decoded = catch_unwind(AssertUnwindSafe(|| inner(bytes, ending)));
    GUARDED.set(false);
    decoded.unwrap_or_else(|_| Err(Error::new("the file is damaged so that its decoder fails").hint(KNOWN)))
}

fn inner(mut bytes: Vec<u8>, ending: Option<&str>) -> Result<Recording> {
    let torn = tear_off(&mut bytes);
    let streamed = is_streamed_wav(&bytes);
    let mut hint = Hint::new();
    if let Some(ending) = ending {
        hint.with_extension(ending);
    }
    let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
    let mut reader = get_probe()
        .probe(&hint, stream, FormatOptions::default(), MetadataOptions::default())
        .map_err(|fault| not_audio(&fault))?;
    let track =
        reader.default_track(TrackType::Audio).ok_or_else(|| Error::new("the file holds no audio").hint(KNOWN))?;
    let Some(CodecParameters::Audio(parameters)) = &track.codec_params else {
        return Err(Error::new("the file holds no audio").hint(KNOWN));
    };
    if parameters.codec == CODEC_ID_OPUS {
        return Err(Error::new("Opus is not read").hint("convert it: `ffmpeg -i IN OUT.wav`"));
    }
    let declared = track.num_frames.filter(|_| !streamed);
    let decoder = get_codecs()
        .make_audio_decoder(parameters, &AudioDecoderOptions::default())
        .map_err(|fault| Error::new(format!("its coding is not read: {}", words(&fault))).hint(KNOWN))?;
    let id = track.id;
    let mut work = Work { decoder, heard: Heard::default() };
    // A streamed file ends where it ends.
    let early = work.run(reader.as_mut(), id)?.filter(|_| !streamed).or(torn);
    work.heard.recording(early, declared)
}

/// Why the packets ended, where that was not by themselves.
type Early = Option<String>;

struct Work {
    decoder: Box<dyn AudioDecoder>,
    heard: Heard,
}

/// What was decoded so far.
#[derive(Default)]
struct Heard {
    samples: Vec<f32>,
    rate: u32,
    channels: usize,
    packets: usize,
    /// Packets that could not be decoded, after the first that could.
    damaged: usize,
    /// Packets that could not be decoded, before that: the start of a cut MP3 file leans on what was cut away.
    unheard: usize,
}

impl Work {
    /// Decodes all packets of a track.
    fn run(&mut self, reader: &mut dyn FormatReader, track: u32) -> Result<Early> {
        let mut interleaved: Vec<f32> = Vec::new();
        loop {
            let packet = match reader.next_packet() {
                Ok(Some(packet)) if packet.track_id == track => packet,
                Ok(Some(_)) => continue,
                // The second is another stream chained to this one.
                Ok(None) | Err(Fault::ResetRequired) => return Ok(None),
                Err(fault) => return Ok(Some(words(&fault))),
            };
            self.heard.packets += 1;
            let Ok(buffer) = self.decoder.decode(&packet) else {
                *(if self.heard.samples.is_empty() { &mut self.heard.unheard } else { &mut self.heard.damaged }) += 1;
                continue;
            };
            let (rate, channels) = (buffer.spec().rate(), buffer.spec().channels().count());
            if buffer.frames() == 0 {
                continue;
            }
            interleaved.clear();
            buffer.copy_to_vec_interleaved(&mut interleaved);
            self.heard.take(&interleaved, rate, channels)?;
        }
    }
}

impl Heard {
    fn take(&mut self, interleaved: &[f32], rate: u32, channels: usize) -> Result<()> {
        if !RATES.contains(&rate) {
            return Err(Error::new(format!("its sample rate is {rate} Hz")).hint(format!(
                "rates from {} to {} Hz are read",
                RATES.start(),
                RATES.end()
            )));
        }
        if channels == 0 || channels > MOST_CHANNELS {
            return Err(Error::new(format!("it has {channels} channels")).hint("give a mono or stereo recording"));
        }
        if self.samples.is_empty() {
            (self.rate, self.channels) = (rate, channels);
        } else if rate != self.rate {
            return Err(Error::new(format!("its sample rate changes from {} to {rate} Hz", self.rate))
                .hint("convert it: `ffmpeg -i IN OUT.wav`"));
        }
        let part = 1.0 / channels as f32;
        self.samples.extend(interleaved.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() * part));
        if self.samples.len() as f64 > LONGEST * f64::from(self.rate) {
            return Err(
                Error::new(format!("it is longer than {LONGEST} seconds, too long for a voice")).hint(cut_hint())
            );
        }
        Ok(())
    }

    fn recording(self, early: Early, declared: Option<u64>) -> Result<Recording> {
        let mut remarks = Vec::new();
        if self.samples.is_empty() {
            let why = match (early, self.unheard) {
                (Some(why), _) => format!("nothing of it can be decoded: {why}"),
                (None, 0) => "it holds no samples".to_owned(),
                (None, _) => "nothing of it can be decoded".to_owned(),
            };
            return Err(Error::new(why).hint(KNOWN));
        }
        if (self.damaged + self.unheard) * 4 > self.packets {
            let bad = self.damaged + self.unheard;
            return Err(Error::new(format!("{bad} of its {} parts are damaged", self.packets))
                .hint("take another copy of it, or another recording"));
        }
        if self.damaged > 0 {
            remarks.push(format!("{} of its {} parts are damaged and were left out", self.damaged, self.packets));
        }
        let seconds = |samples: u64| samples as f64 / f64::from(self.rate);
        let heard = self.samples.len() as u64;
        match declared {
            // A decoder may keep back a last block or two.
            Some(declared) if heard + heard / 100 + 4096 < declared || early.is_some() && heard < declared => {
                let (heard, declared) = (seconds(heard), seconds(declared));
                remarks.push(format!("the file ends early: it holds {heard:.1} of {declared:.1} seconds"));
            }
            _ if early.is_some() => remarks.push(format!("the file ends early, after {:.1} seconds", seconds(heard))),
            _ => {}
        }
        Ok(Recording { samples: self.samples, rate: self.rate, channels: self.channels, remarks })
    }
}

/// A WAV file written to a pipe, whose header tells no length.
fn is_streamed_wav(bytes: &[u8]) -> bool {
    let size = bytes.get(4..8).map(|b| b.iter().rev().fold(0_u32, |size, b| size << 8 | u32::from(*b)));
    bytes.starts_with(b"RIFF") && size.is_some_and(|size| size == 0 || size >= 0x7FFF_0000)
}

/// Takes the last page off an OGG file where it is not whole, which the reader would refuse the file for.
fn tear_off(bytes: &mut Vec<u8>) -> Early {
    let mark = b"OggS";
    let last = bytes.starts_with(mark).then(|| bytes.windows(mark.len()).rposition(|four| four == mark))??;
    // RFC 3533: 27 bytes, of which the last counts the segments, then a length for each.
    let page = bytes.get(last..)?;
    let lengths = page.get(26).and_then(|count| page.get(27..27 + usize::from(*count)));
    let whole = lengths.map(|l| 27 + l.len() + l.iter().map(|b| usize::from(*b)).sum::<usize>());
    if last == 0 || whole.is_some_and(|whole| whole <= page.len()) {
        return None;
    }
    bytes.truncate(last);
    Some("it ends in the middle".into())
}

/// Whether the file begins as text does: UTF-8 without control characters.
fn is_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(512)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // Cut within a character.
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or_default(),
        Err(_) => return false,
    };
    !text.is_empty() && !text.chars().any(|c| c.is_control() && !c.is_whitespace())
}

fn not_audio(fault: &Fault) -> Error {
    match fault {
        Fault::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => {
            Error::new("the file ends before any audio").hint("take another copy of it")
        }
        // What the probe says where no reader wants the file.
        Fault::Unsupported(_) => Error::new("this is no audio file that is known").hint(KNOWN),
        fault => Error::new(format!("this is no audio file that can be read: {}", words(fault))).hint(KNOWN),
    }
}

/// A fault in a few words.
fn words(fault: &Fault) -> String {
    match fault {
        Fault::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => "it ends in the middle".into(),
        Fault::IoError(e) => e.to_string(),
        Fault::DecodeError(why) | Fault::Unsupported(why) | Fault::LimitError(why) => (*why).to_owned(),
        fault => fault.to_string(),
    }
}
