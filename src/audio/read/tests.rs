//! Recordings of every kind: the same voice in all of them, and an explanation for each that is of no use.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use hound::{SampleFormat, WavSpec, WavWriter};
use proptest::prelude::*;

use super::*;

/// A file of `tests/data/recordings`, where one voice lies in several formats.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recordings").join(name)
}

/// The voice, 22.05 kHz, 0.8 seconds.
static VOICE: LazyLock<Recording> = LazyLock::new(|| read(&sample("voice.wav")).unwrap());

/// A WAV file of `channels` equal channels that all hold `samples`.
fn wav(samples: &[f32], rate: u32, channels: u16, bits: u16) -> Vec<u8> {
    let sample_format = if bits == 33 { SampleFormat::Float } else { SampleFormat::Int };
    let spec = WavSpec { channels, sample_rate: rate, bits_per_sample: bits.min(32), sample_format };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut bytes, spec).unwrap();
    let scale = f64::from(1_u32 << (bits.min(32) - 1));
    for x in samples.iter().flat_map(|x| std::iter::repeat_n(*x, channels.into())) {
        if bits == 33 {
            writer.write_sample(x).unwrap();
        } else {
            writer.write_sample((f64::from(x) * scale).round().clamp(-scale, scale - 1.0) as i32).unwrap();
        }
    }
    writer.finalize().unwrap();
    bytes.into_inner()
}

fn from(bytes: &[u8]) -> Result<Recording> {
    from_bytes(bytes.to_vec(), Path::new("x.wav"))
}

/// The cosine of the angle between two recordings, after a shift of up to `shift` samples.
fn likeness(a: &[f32], b: &[f32], shift: usize) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let cosine = |a: &[f32], b: &[f32]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    (0..=shift).map(|s| cosine(&a[s.min(a.len())..], b).max(cosine(a, &b[s.min(b.len())..]))).fold(-1.0, f64::max)
}

#[track_caller]
fn refused(result: Result<Recording>, parts: &[&str]) {
    let error = result.unwrap_err();
    let text = format!("{error} / {}", error.cure().unwrap_or_default());
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn the_same_voice_in_every_format() {
    let voice = VOICE.at(16_000);
    for (name, least) in [
        ("voice.flac", 0.999_999),
        ("alac.m4a", 0.999_999),
        ("voice.aiff", 0.999_999),
        ("mulaw.wav", 0.999),
        ("streamed.wav", 0.999_999),
        ("extensible.wav", 0.9999),
        ("voice.mp3", 0.98),
        ("voice.ogg", 0.98),
        ("voice.m4a", 0.98),
    ] {
        let recording = read(&sample(name)).unwrap();
        assert!(recording.remarks.is_empty(), "{name}: {:?}", recording.remarks);
        assert!((recording.seconds() - 0.8).abs() < 0.1, "{name}: {} s", recording.seconds());
        let shift = if least < 0.99 { 1200 } else { 0 };
        let cosine = likeness(&recording.at(16_000), &voice, shift);
        assert!(cosine > least, "{name}: {cosine}");
    }
}

#[test]
fn the_same_voice_at_every_rate_width_and_channel_count() {
    // What 8 kHz can hold, so that all can be compared.
    let narrow = sinc::resample(&sinc::resample(&VOICE.samples, VOICE.rate, 8_000), 8_000, 16_000);
    for rate in [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000] {
        let samples = sinc::resample(&narrow, 16_000, rate);
        for (channels, bits, db) in [(1, 16, 50.0), (2, 24, 50.0), (1, 8, 10.0), (6, 32, 50.0), (2, 33, 50.0)] {
            let recording = from(&wav(&samples, rate, channels, bits)).unwrap();
            assert_eq!((recording.rate, recording.channels), (rate, usize::from(channels)));
            let got = recording.at(16_000);
            assert!(got.len().abs_diff(narrow.len()) <= 2);
            // A tenth of a second at either end is left out: there the recording was cut out of a longer one.
            let middle = 1600..narrow.len() - 1600;
            let power = |x: f32| f64::from(x).powi(2);
            let error: f64 = middle.clone().map(|i| power(got[i] - narrow[i])).sum();
            let signal: f64 = middle.map(|i| power(narrow[i])).sum();
            let found = 10.0 * (signal / error).log10();
            assert!(found > db, "{rate} Hz, {channels} channels, {bits} bits: {found:.1} dB");
        }
    }
}

#[test]
fn channels_are_averaged() {
    let spec = WavSpec { channels: 2, sample_rate: 16_000, bits_per_sample: 32, sample_format: SampleFormat::Float };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut bytes, spec).unwrap();
    for i in 0..16_000 {
        let x = (i as f32 * 0.1).sin();
        writer.write_sample(0.5 * x).unwrap();
        writer.write_sample(0.25 * x).unwrap();
    }
    writer.finalize().unwrap();
    let recording = from(&bytes.into_inner()).unwrap();
    assert!(recording.samples.iter().enumerate().all(|(i, x)| (x - 0.375 * (i as f32 * 0.1).sin()).abs() < 1e-6));
}

#[test]
fn what_is_no_recording_is_explained() {
    refused(from(b""), &["`x.wav`", "empty", "ffmpeg"]);
    refused(from(b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n"), &["this is text"]);
    refused(from("नमस्ते".repeat(100).as_bytes()), &["this is text"]);
    refused(from(b"RIFF\x10\0\0\0WAVE"), &["`x.wav`", "before any audio"]);
    refused(from(&[0; 4096]), &["no audio", "WAV"]);
    refused(from(b"PK\x03\x04\x14\0\0\0\x08\0rest of an archive"), &["no audio"]);
    refused(read(&sample("voice.opus")), &["Opus", "ffmpeg"]);
    refused(read(Path::new("/no/such/file.wav")), &["cannot read", "/no/such/file.wav"]);
    refused(read(&sample("")), &["folder"]);
}

#[test]
fn what_shows_no_voice_is_explained() {
    let tone = |seconds: f32, level: f32| {
        let samples: Vec<f32> = (0..(seconds * 8e3) as usize).map(|i| level * (i as f32 * 0.3).sin()).collect();
        wav(&samples, 8_000, 1, 33)
    };
    assert!(from(&tone(0.6, 0.5)).unwrap().remarks.is_empty());
    refused(from(&tone(0.2, 0.5)), &["0.20 seconds", "too short", "5 to 30"]);
    refused(from(&tone(121.0, 0.5)), &["longer than 120 seconds", "ffmpeg -i IN -t 20"]);
    refused(from(&tone(1.0, 0.0)), &["silent"]);
    refused(from(&tone(1.0, 0.001)), &["silent"]);
    refused(from(&wav(&[0.3; 8000], 8_000, 1, 33)), &["silent"]); // nothing but an offset
    refused(from(&tone(1.0, 30_000.0)), &["30001", "1 is full scale"]);
    let mut holed = vec![0.1; 8_000];
    holed[4_000] = f32::NAN;
    refused(from(&wav(&holed, 8_000, 1, 33)), &["0.50 seconds", "no number"]);
    let driven: Vec<f32> = (0..8_000).map(|i| (4.0 * (i as f32 * 0.03).sin()).clamp(-1.0, 1.0)).collect();
    assert!(from(&wav(&driven, 8_000, 1, 16)).unwrap().remarks[0].contains("overdriven"));
}

#[test]
fn a_file_that_ends_early_is_taken_with_a_remark() {
    for name in ["voice.wav", "voice.flac", "voice.ogg"] {
        let whole = std::fs::read(sample(name)).unwrap();
        let recording = from_bytes(whole[..whole.len() * 9 / 10].to_vec(), &sample(name)).unwrap();
        assert!(recording.remarks.iter().any(|r| r.contains("ends early")), "{name}: {:?}", recording.remarks);
        assert!((0.5..0.78).contains(&recording.seconds()), "{name}: {}", recording.seconds());
    }
    let whole = std::fs::read(sample("voice.wav")).unwrap();
    refused(from(&whole[..60]), &["`x.wav`"]);
}

#[test]
fn headers_that_lie_are_survived() {
    let whole = wav(&VOICE.samples, VOICE.rate, 1, 16);
    // A rate of 1 Hz, no channels, and blocks of no bytes.
    for (at, value) in [(24, 1), (22, 0), (32, 0), (34, 0)] {
        let mut bytes = whole.clone();
        bytes[at..at + 2].copy_from_slice(&[value, 0]);
        if let Err(error) = from(&bytes) {
            assert!(error.to_string().contains("`x.wav`"));
        }
    }
    let mut bytes = whole;
    let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) + 14;
    bytes.splice(4..8, length.to_le_bytes());
    bytes.splice(12..12, *b"junk\x05\0\0\0abcde\0"); // an odd chunk before the format
    assert_eq!(from(&bytes).unwrap().samples.len(), VOICE.samples.len());
}

/// Files of all formats that are read.
const FILES: [&str; 9] = [
    "voice.wav",
    "voice.mp3",
    "voice.ogg",
    "voice.flac",
    "voice.m4a",
    "alac.m4a",
    "voice.aiff",
    "mulaw.wav",
    "extensible.wav",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whatever happened to a file, it is read or explained.
    #[test]
    fn damaged_files_never_panic(
        file in prop::sample::select(&FILES[..]),
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..24),
        early in any::<bool>(),
        end in 0.0..1.2_f64,
    ) {
        let mut bytes = std::fs::read(sample(file)).unwrap();
        let length = bytes.len();
        for (place, value) in changes {
            // Half of them in the headers.
            let place = if early { place * place * place } else { place };
            bytes[(place * length as f64) as usize] = value;
        }
        bytes.truncate((end * length as f64) as usize);
        match from_bytes(bytes, Path::new(file)) {
            Ok(recording) => prop_assert!(recording.samples.iter().all(|x| x.is_finite())),
            Err(error) => prop_assert!(error.to_string().contains(file)),
        }
    }
}
