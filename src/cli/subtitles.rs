//! When each utterance is heard, as a file beside the audio: SubRip (`.srt`), WebVTT (`.vtt`) or JSON.
//!
//! Sources: SubRip as players read it; WebVTT, W3C Candidate Recommendation of 2019-04-04.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::audio::place;
use crate::error::{Error, Result};
use crate::suggest::nearest;

/// A file of subtitles that will be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtitles {
    path: PathBuf,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    SubRip,
    WebVtt,
    Json,
}

/// One subtitle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cue {
    /// When it begins, in seconds.
    pub start: f64,
    /// When it ends, in seconds.
    pub end: f64,
    /// What is said.
    pub text: String,
}

impl Subtitles {
    /// A file at `path`, whose ending says how it is written.
    ///
    /// # Errors
    /// Another ending, or a place that cannot be written.
    pub fn at(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
        let form = match ending.as_str() {
            "srt" => Form::SubRip,
            "vtt" => Form::WebVtt,
            "json" => Form::Json,
            _ => {
                let error = Error::usage(format!("`{}`: subtitles are .srt, .vtt or .json", path.display()));
                return Err(error.hint(match nearest(&ending, ["srt", "vtt", "json"]) {
                    Some(near) => format!("did you mean `{}`?", path.with_extension(near).display()),
                    None => format!("name the file `{}`", path.with_extension("srt").display()),
                }));
            }
        };
        place::preflight(path)?;
        Ok(Self { path: path.to_owned(), form })
    }

    /// Writes the subtitles of a text: `spans` of its utterances in samples at `rate`, and what was written for each.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&self, spans: &[Range<usize>], captions: &[Option<String>], rate: u32) -> Result<()> {
        self.store(&cues(spans, captions, rate))
    }

    /// Writes `cues`.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn store(&self, cues: &[Cue]) -> Result<()> {
        let text = match self.form {
            Form::SubRip => sub_rip(cues),
            Form::WebVtt => web_vtt(cues),
            Form::Json => json(cues)?,
        };
        place::write_whole(&self.path, text.as_bytes())
    }
}

/// A cue for each caption, as long as all utterances that it stands for.
fn cues(spans: &[Range<usize>], captions: &[Option<String>], rate: u32) -> Vec<Cue> {
    let seconds = |samples: usize| samples as f64 / f64::from(rate);
    let mut cues: Vec<Cue> = Vec::new();
    for (span, caption) in spans.iter().zip(captions) {
        let (start, end) = (seconds(span.start), seconds(span.end));
        match (caption, cues.last_mut()) {
            (None, Some(last)) => last.end = end,
            (caption, _) => cues.push(Cue { start, end, text: caption.clone().unwrap_or_default() }),
        }
    }
    cues
}

fn sub_rip(cues: &[Cue]) -> String {
    let mut out = String::new();
    for (i, cue) in cues.iter().enumerate() {
        let (start, end) = (clock(cue.start, ','), clock(cue.end, ','));
        let _ = write!(out, "{}\n{start} --> {end}\n{}\n\n", i + 1, cue.text);
    }
    out
}

fn web_vtt(cues: &[Cue]) -> String {
    let mut out = "WEBVTT\n\n".to_owned();
    for cue in cues {
        let text = cue.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = write!(out, "{} --> {}\n{text}\n\n", clock(cue.start, '.'), clock(cue.end, '.'));
    }
    out
}

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    utterances: &'a [Cue],
}

fn json(cues: &[Cue]) -> Result<String> {
    let text = serde_json::to_string_pretty(&Document { v: 1, utterances: cues });
    Ok(text.map_err(|e| Error::new(format!("cannot write JSON: {e}")))? + "\n")
}

/// `00:01:02,345`
fn clock(seconds: f64, point: char) -> String {
    let ms = (seconds * 1000.0).round() as u64;
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{h:02}:{m:02}:{s:02}{point}{:03}", ms % 1000)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn written(name: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let captions = [Some("Salt & pepper cost $3.".to_owned()), None, Some("He left.".to_owned())];
        let spans = [0..8000, 8000..12_000, 16_000..32_000_000];
        Subtitles::at(&path).unwrap().write(&spans, &captions, 8000).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn all_forms() {
        assert_eq!(
            written("a.srt"),
            "1\n00:00:00,000 --> 00:00:01,500\nSalt & pepper cost $3.\n\n\
             2\n00:00:02,000 --> 01:06:40,000\nHe left.\n\n"
        );
        assert_eq!(
            written("a.VTT"),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nSalt &amp; pepper cost $3.\n\n\
             00:00:02.000 --> 01:06:40.000\nHe left.\n\n"
        );
        let json: serde_json::Value = serde_json::from_str(&written("a.json")).unwrap();
        let first = serde_json::json!({"start": 0.0, "end": 1.5, "text": "Salt & pepper cost $3."});
        assert_eq!((&json["v"], &json["utterances"][0]), (&1.into(), &first));
    }

    #[test]
    fn other_endings_are_refused() {
        let error = Subtitles::at(Path::new("x.str")).unwrap_err();
        assert!(error.to_string().contains(".srt, .vtt or .json") && error.cure().unwrap().contains("`x.srt`"));
        assert!(Subtitles::at(Path::new("x")).unwrap_err().cure().unwrap().contains("`x.srt`"));
        assert!(Subtitles::at(Path::new("no/such/x.srt")).unwrap_err().cure().unwrap().contains("mkdir"));
    }
}
