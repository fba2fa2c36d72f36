//! Batches of a fake speaker: what they write, what they skip, how they fail and how they are stopped.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use hound::WavReader;
use tempfile::TempDir;

use super::manifest::{self, Entry, Manifest};
use super::perform::Run;
use super::{Batch, claim, name, plan};
use crate::audio::pcm::{Format, Quantiser};
use crate::cli::Outcome;
use crate::cli::args::Global;
use crate::cli::batch::list::Form;
use crate::cli::cast::{Cast, Model};
use crate::cli::console::Console;
use crate::cli::fake::FakeSpeaker;
use crate::cli::interrupt::Interrupt;
use crate::error::Result;
use crate::models::Utterance;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    batch: Batch,
}

struct Bench {
    folder: TempDir,
    interrupt: Arc<Interrupt>,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), interrupt: Arc::new(Interrupt::silent()) }
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.folder.path().join(file)
    }

    /// One run over `list`, as `rtts batch lines.txt -d …` with more `flags`; returns also how many lines it skipped.
    fn run(&self, list: &str, flags: &[&str], speaker: &mut FakeSpeaker) -> Result<(Outcome, usize)> {
        let directory = self.folder.path().to_str().unwrap();
        let words = ["rtts", "lines.txt", "-d", directory].into_iter().chain(flags.iter().copied());
        let batch = Flags::try_parse_from(words).unwrap().batch;
        let like = batch.voice.utterance();
        let voice = like.voice.as_deref().unwrap_or("Low");
        let voices = ["Low", "High"].map(String::from);
        let model_can = Model { voices: &voices, clones: speaker.listens };
        let console = Console::new(&Global { quiet: true, ..Global::default() });
        let common = plan::Common {
            batch: &batch,
            like: &like,
            voice,
            sources: &batch.voice.sources(),
            model_can,
            console: &console,
            model: "fake",
            activations: "auto",
        };
        let mut cast = Cast::default();
        let lines = batch.form.unwrap_or(Form::Txt).lines(list, "list").unwrap();
        let tasks = plan::tasks(&lines, batch.voice.seed.unwrap_or(7), &common, &mut cast);
        name::check(tasks.iter().map(|t| (t.n, t.file.as_str())))?;
        let known = manifest::read(&self.path(manifest::FILE))?;
        let (tasks, skipped) = plan::remaining(&tasks, &known, &batch);
        plan::check_outputs(&tasks, &known, &batch)?;
        let mut manifest = Manifest::open(&batch.directory, false)?;
        let run = Run { batch: &batch, skipped, interrupt: &self.interrupt, console: &console };
        run.speak(speaker, tasks, cast, &mut manifest).map(|outcome| (outcome, skipped))
    }

    fn entries(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.path(manifest::FILE)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// All files but the manifest, sorted.
    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != manifest::FILE).collect();
        names.sort();
        names
    }
}

fn samples(path: &Path) -> Vec<i16> {
    WavReader::open(path).unwrap().samples::<i16>().map(Result::unwrap).collect()
}

const LIST: &str = "One.\n\nThree, a little longer.\nFour.\n";

#[test]
fn every_line_becomes_a_file_and_an_entry() {
    let bench = Bench::new();
    assert_eq!(bench.run(LIST, &[], &mut FakeSpeaker::new(2)).unwrap(), (Outcome::Done, 0));
    assert_eq!(bench.files(), ["0001.wav", "0003.wav", "0004.wav"]);
    let mut entries = bench.entries();
    entries.sort_by_key(|e| e.n);
    assert_eq!(entries.iter().map(|e| e.n).collect::<Vec<_>>(), [1, 3, 4]);
    let third = &entries[1];
    assert_eq!((third.v, third.text.as_str(), third.file.as_str()), (1, "Three, a little longer.", "0003.wav"));
    assert_eq!((third.steps, third.stop.as_deref(), third.error.as_deref()), (Some(23), Some("end_token"), None));
    assert_eq!(third.seconds, Some(0.23));
    assert_eq!(samples(&bench.path("0003.wav")).len(), 23 * 80);
}

#[test]
fn a_line_alone_with_its_seed_gives_the_same_bytes() {
    let bench = Bench::new();
    bench.run(LIST, &["--seed", "99", "--voice", "High"], &mut FakeSpeaker::new(3)).unwrap();
    let entry = bench.entries().into_iter().find(|e| e.n == 3).unwrap();
    let alone = Bench::new();
    let seed = entry.seed.to_string();
    alone.run(&entry.text, &["--seed", &seed, "--voice", "High"], &mut FakeSpeaker::new(1)).unwrap();
    assert_eq!(fs::read(bench.path("0003.wav")).unwrap(), fs::read(alone.path("0001.wav")).unwrap());
    assert_ne!(bench.entries()[0].seed, entry.seed);
}

#[test]
fn what_is_done_is_skipped_until_something_changes() {
    let bench = Bench::new();
    let run = |list: &str, flags: &[&str]| bench.run(list, flags, &mut FakeSpeaker::new(2)).unwrap().1;
    assert_eq!(run(LIST, &[]), 0);
    assert_eq!(run(LIST, &[]), 3);
    assert_eq!(run(LIST, &["--force"]), 0);
    assert_eq!(run(&LIST.replace("Four", "Five"), &[]), 2);
    assert_eq!(run(LIST, &["--voice", "High"]), 0);
    assert_eq!(run(LIST, &["--voice", "High", "--temperature", "0.5"]), 0);
    assert_eq!(run(LIST, &["--voice", "High", "--temperature", "0.5"]), 3);
    fs::remove_file(bench.path("0003.wav")).unwrap();
    assert_eq!(run(LIST, &["--voice", "High", "--temperature", "0.5"]), 2);
}

#[test]
fn a_failing_line_stops_no_other() {
    let list = "One.\nA silent line.\n\u{1F389}\nAn unspeakable line.\nFive.";
    let bench = Bench::new();
    assert_eq!(bench.run(list, &[], &mut FakeSpeaker::new(2)).unwrap(), (Outcome::SomeFailed, 0));
    assert_eq!(bench.files(), ["0001.wav", "0005.wav"]);
    let mut failed: Vec<_> = bench.entries().into_iter().filter_map(|e| e.error.map(|why| (e.n, why))).collect();
    failed.sort();
    assert_eq!(failed.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(failed[1].1.contains("emoji") && failed[2].1.contains("unspeakable"), "{failed:?}");

    // Only the failed ones are tried again, and only where asked for that.
    let cured = list.replace("silent", "sounding");
    assert_eq!(bench.run(&cured, &["--retry-failed"], &mut FakeSpeaker::new(2)).unwrap(), (Outcome::SomeFailed, 2));
    assert_eq!(bench.files(), ["0001.wav", "0002.wav", "0005.wav"]);
}

#[test]
fn an_interrupted_batch_finishes_what_is_under_way_and_goes_on_later() {
    let list: String = (1..=9).map(|i| format!("This is line {i}.\n")).collect();
    let bench = Bench::new();
    let mut speaker = FakeSpeaker::new(2);
    let interrupt = Arc::clone(&bench.interrupt);
    speaker.before_step = Box::new(move |steps| {
        if steps == 20 {
            interrupt.ask()
        }
    });
    // 15 steps a line, two at a time: lines 3 and 4 are under way at step 20.
    assert_eq!(bench.run(&list, &[], &mut speaker).unwrap(), (Outcome::Interrupted, 0));
    assert_eq!(bench.files(), ["0001.wav", "0002.wav", "0003.wav", "0004.wav"]);
    assert_eq!(bench.entries().len(), 4);

    let again = Bench { interrupt: Arc::new(Interrupt::silent()), ..bench };
    assert_eq!(again.run(&list, &[], &mut FakeSpeaker::new(2)).unwrap(), (Outcome::Done, 4));
    assert_eq!(again.files().len(), 9);
}

#[test]
fn a_device_that_fails_leaves_nothing_half_written() {
    let bench = Bench::new();
    let list = "One.\nA second line, longer than the first.";
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    let mut speaker = FakeSpeaker::new(2);
    speaker.before_step = Box::new(move |n| counted.store(n, Ordering::Relaxed));
    speaker.fail_at = Some(10);
    let error = bench.run(list, &[], &mut speaker).unwrap_err();
    assert!(error.to_string().contains("device is gone"));
    assert_eq!(steps.load(Ordering::Relaxed), 10);
    assert_eq!(bench.files(), ["0001.wav"]);
    assert_eq!(bench.entries().len(), 1);
}

#[test]
fn a_file_that_cannot_be_written_fails_its_line_only() {
    let bench = Bench::new();
    fs::create_dir(bench.path("0003.wav")).unwrap();
    assert_eq!(bench.run(LIST, &[], &mut FakeSpeaker::new(2)).unwrap(), (Outcome::SomeFailed, 0));
    let failed: Vec<_> = bench.entries().into_iter().filter(|e| e.error.is_some()).map(|e| e.n).collect();
    assert_eq!(failed, [3]);
    assert!(bench.path("0004.wav").is_file());
}

#[test]
fn names_follow_the_template() {
    let bench = Bench::new();
    let flags = ["--name", "a/{stem}-{n}-{voice}", "--voice", "High"];
    bench.run(LIST, &flags, &mut FakeSpeaker::new(2)).unwrap();
    assert!(bench.path("a/lines-3-High.wav").is_file());
    assert!(bench.run(LIST, &["--name", "same"], &mut FakeSpeaker::new(2)).is_err());
    assert!(bench.run(LIST, &["--name", "../{n}"], &mut FakeSpeaker::new(2)).is_err());
}

#[test]
fn lines_have_settings_of_their_own() {
    let bench = Bench::new();
    let list =
        "text,name,voice,seed,max_seconds\nOne is high.,a/high,High,5,\nTwo is short.,short,,,0.05\nThree.,,,,\n";
    let flags = ["--form", "csv", "--seed", "9"];
    assert_eq!(bench.run(list, &flags, &mut FakeSpeaker::new(3)).unwrap(), (Outcome::Done, 0));
    let mut entries = bench.entries();
    entries.sort_by_key(|e| e.n);
    let files: Vec<_> = entries.iter().map(|e| e.file.as_str()).collect();
    assert_eq!(files, ["a/high.wav", "short.wav", "0003.wav"]);
    assert_eq!((entries[0].seed, entries[1].stop.as_deref(), entries[2].steps), (5, Some("length"), Some(6)));
    let high = Utterance { text: "One is high.".into(), voice: Some("High".into()), seed: 5, ..Utterance::default() };
    let mut quantiser = Quantiser::new(Format::I16);
    let expected: Vec<i16> = FakeSpeaker::speech(&high).iter().map(|x| quantiser.i16(*x)).collect();
    assert_eq!(samples(&bench.path("a/high.wav")), expected);
    // Only the line that changed is done again.
    let changed = list.replace(",0.05", ",0.06");
    assert_eq!(bench.run(&changed, &flags, &mut FakeSpeaker::new(3)).unwrap(), (Outcome::Done, 2));
}

#[test]
fn a_damaged_file_is_done_again() {
    let bench = Bench::new();
    let run = || bench.run(LIST, &[], &mut FakeSpeaker::new(2)).unwrap().1;
    assert_eq!(run(), 0);
    let whole = fs::read(bench.path("0003.wav")).unwrap();
    fs::write(bench.path("0003.wav"), &whole[..whole.len() / 2]).unwrap();
    fs::write(bench.path("0004.wav"), "").unwrap();
    assert_eq!(run(), 1);
    assert!(fs::read(bench.path("0003.wav")).unwrap() == whole);
    assert_eq!(run(), 3);

    // Entries of earlier versions tell no size, so the file cannot be trusted.
    let old: Vec<String> = bench
        .entries()
        .into_iter()
        .map(|e| {
            let mut value = serde_json::to_value(e).unwrap();
            value.as_object_mut().unwrap().remove("bytes");
            value.to_string()
        })
        .collect();
    fs::write(bench.path(manifest::FILE), old.join("\n")).unwrap();
    assert_eq!(run(), 0);
}

#[test]
fn a_file_of_somebody_else_is_not_replaced() {
    let bench = Bench::new();
    fs::write(bench.path("0003.wav"), "precious").unwrap();
    let error = bench.run(LIST, &[], &mut FakeSpeaker::new(2)).unwrap_err();
    assert!(error.to_string().contains("0003.wav") && error.cure().unwrap().contains("--force"), "{error}");
    assert_eq!(bench.files(), ["0003.wav"]);
    assert_eq!(fs::read(bench.path("0003.wav")).unwrap(), b"precious");
    assert_eq!(bench.run(LIST, &["--force"], &mut FakeSpeaker::new(2)).unwrap(), (Outcome::Done, 0));
    assert_eq!(samples(&bench.path("0003.wav")).len(), 23 * 80);
}

#[test]
fn a_file_whose_line_was_never_entered_is_known_again() {
    let bench = Bench::new();
    fs::write(bench.path("0003.wav"), "killed here").unwrap();
    std::mem::forget(claim::Claim::set(bench.folder.path(), "0003.wav"));
    assert_eq!(bench.run(LIST, &[], &mut FakeSpeaker::new(2)).unwrap(), (Outcome::Done, 0));
    assert_eq!(bench.files(), ["0001.wav", "0003.wav", "0004.wav"]);
}

#[test]
fn a_line_without_text_or_with_a_strange_voice_fails_alone() {
    let bench = Bench::new();
    let list =
        "{\"text\": \"One.\", \"voice\": \"high\"}\n{\"text\": \"  \"}\n{\"text\": \"Three.\", \"voice\": \"Hihg\"}\n";
    let flags = ["--form", "jsonl"];
    assert_eq!(bench.run(list, &flags, &mut FakeSpeaker::new(2)).unwrap(), (Outcome::SomeFailed, 0));
    assert_eq!(bench.files(), ["0001.wav"]);
    let mut failed: Vec<_> = bench.entries().into_iter().filter_map(|e| e.error.map(|why| (e.n, why))).collect();
    failed.sort();
    assert_eq!(failed.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2, 3]);
    assert!(failed[1].1.contains("`Hihg`"), "{failed:?}");
}

#[test]
fn lines_are_spoken_with_recordings_each_heard_once() {
    let bench = Bench::new();
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recordings");
    let (a, b) = (recordings.join("voice.wav"), recordings.join("voice.flac"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let list = format!(
        "text,voice,reference,prompt_audio,prompt_text\nOne.,,{a},,\nTwo.,,{a},,\nThree.,,,{b},Words.\nFour.,High,,,\n\
         Five.,,none.wav,,\n"
    );
    let flags = ["--form", "csv", "--seed", "3"];
    let mut speaker = FakeSpeaker::listening(3);
    assert_eq!(bench.run(&list, &flags, &mut speaker).unwrap(), (Outcome::SomeFailed, 0));
    assert_eq!((speaker.listened, bench.files().len()), (2, 4));
    let failed = bench.entries().into_iter().find(|entry| entry.error.is_some()).unwrap();
    assert!(failed.n == 5 && failed.error.unwrap().contains("none.wav"));
    // Only what changed is spoken again.
    let changed = list.replace("One.,,", "One.,High,").replace(&format!("High,{a}"), "High,");
    assert_eq!(bench.run(&changed, &flags, &mut FakeSpeaker::listening(3)).unwrap(), (Outcome::SomeFailed, 3));
    // A model that cannot clone refuses these lines only.
    let other = Bench::new();
    assert_eq!(other.run(&list, &flags, &mut FakeSpeaker::new(2)).unwrap(), (Outcome::SomeFailed, 0));
    assert_eq!(other.files(), ["0004.wav"]);
    assert!(other.entries()[0].error.as_ref().unwrap().contains("`--reference`"));
}

#[test]
fn runaways_are_spoken_again_and_entered() {
    let list = "text,seed\nA wild line.,4\nA calm line.,4\n";
    let bench = Bench::new();
    let flags = ["--form", "csv"];
    assert_eq!(bench.run(list, &flags, &mut FakeSpeaker::new(2)).unwrap(), (Outcome::Done, 0));
    let mut entries = bench.entries();
    entries.sort_by_key(|entry| entry.n);
    let told: Vec<_> = entries.iter().map(|e| (e.seed, e.retries, e.stop.as_deref())).collect();
    assert_eq!(told, [(4, Some(1), Some("end_token")), (4, Some(0), Some("end_token"))]);
    assert_eq!(samples(&bench.path("0001.wav")).len(), "A wild line.".len() * 80);
    assert_eq!(bench.run(list, &["--form", "csv", "--retry", "0"], &mut FakeSpeaker::new(2)).unwrap().1, 0);
    assert_eq!(bench.entries().iter().rfind(|e| e.n == 1).unwrap().stop.as_deref(), Some("runaway"));
    assert_eq!(samples(&bench.path("0001.wav")).len(), 2 * "A wild line.".len() * 80);
}
