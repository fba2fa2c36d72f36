//! A speaker with known times: what is measured, and how it is printed.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::measure::{Run, TEXT};
use super::report::Stage;
use super::*;
use crate::cli::fake::FakeSpeaker;
use crate::models::{Speaker, Step, Utterance};

const PLAN: Plan = Plan { repeat: 1, warmup: 3, timed: 5 };

fn report() -> Report {
    Report {
        v: 1,
        rtts: "0.0.0".into(),
        model: "fake".into(),
        packing: "BF16".into(),
        bytes: 5_000_000_000,
        device: "none".into(),
        activations: "auto".into(),
        load_s: 1.5,
        read_rate: Some(Rate { best: 2e9, median: 1e9 }),
        step: "token".into(),
        steps_a_second: 100.0,
        read_per_step: 8_000_000,
        read_per_position: Some(1000),
        repeat: 3,
        warmup: 3,
        timed: 5,
        resident_bytes: Some(70_000_000),
        peak_bytes: Some(80_000_000),
        results: Vec::new(),
    }
}

/// A run whose steps took so many milliseconds.
fn ran(steps: [u64; 2]) -> Run {
    Run {
        prefill: Duration::from_millis(60),
        prompt: Some(40),
        first_audio: vec![Duration::from_millis(80), Duration::from_millis(100)],
        steps: steps.map(Duration::from_millis).to_vec(),
        stages: vec![("backbone", Duration::from_millis(steps[0])), ("codec", Duration::from_millis(steps[1]))],
        positions: Some(2000.0),
    }
}

fn filled() -> Report {
    let mut report = report();
    report.results = vec![Row::of(2, &[ran([9, 11]), ran([30, 50]), ran([15, 25])], &report)];
    report
}

#[test]
fn a_run_is_as_long_as_asked_and_leaves_nothing() {
    let mut speaker = FakeSpeaker::new(4);
    speaker.before_step = Box::new(|_| std::thread::sleep(Duration::from_millis(2)));
    let run = measure(&mut speaker, 3, &PLAN, 0).unwrap();
    assert_eq!((run.steps.len(), run.first_audio.len()), (5, 3));
    assert!(run.steps.iter().all(|step| step.as_millis() >= 2), "{run:?}");
    assert!(run.first_audio.iter().all(|time| *time >= run.prefill), "{run:?}");
    // It counts no positions and tells no parts.
    assert_eq!((run.prompt, run.positions, run.stages.len()), (None, None, 0));
    assert!(speaker.step(&[0]).is_err(), "a slot is still taken");
}

#[test]
fn slots_that_end_are_filled_again() {
    let mut speaker = FakeSpeaker::new(2);
    // A step for every character: the text ends twice on the way.
    let plan = Plan { timed: 2 * TEXT.len() as u32 + 10, ..PLAN };
    assert_eq!(measure(&mut speaker, 2, &plan, 0).unwrap().steps.len(), plan.timed as usize);
    let mut broken = FakeSpeaker::new(1);
    broken.fail_at = Some(4);
    assert!(measure(&mut broken, 1, &PLAN, 0).unwrap_err().to_string().contains("the device is gone"));
}

/// Its utterances never end and never sound.
struct Mute(usize);

impl Speaker for Mute {
    fn sample_rate(&self) -> u32 {
        8000
    }
    fn voices(&self) -> &[String] {
        &[]
    }
    fn device(&self) -> String {
        "none".into()
    }
    fn longest_text(&self) -> usize {
        100
    }
    fn words_only(&self) -> bool {
        false
    }
    fn slots(&self) -> usize {
        1
    }
    fn check(&self, _: &Utterance) -> Result<()> {
        Ok(())
    }
    fn admit(&mut self, _: usize, _: &Utterance) -> Result<()> {
        Ok(())
    }
    fn step(&mut self, live: &[usize]) -> Result<Vec<Step>> {
        self.0 += 1;
        Ok(vec![Step::default(); live.len()])
    }
    fn retire(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_sound_is_not_waited_for_without_end() {
    let mut mute = Mute(0);
    let run = measure(&mut mute, 1, &PLAN, 0).unwrap();
    assert_eq!((run.steps.len(), run.first_audio.len()), (5, 0));
    assert!(mute.0 < 1000, "{} steps", mute.0);
    let row = Row::of(1, &[run], &report());
    assert_eq!(row.first_audio_ms, None);
    assert!(text::write(&Report { results: vec![row], ..report() }).contains("        ?"));
}

#[test]
fn the_middle_run_counts_and_the_floor_holds_weights_and_context() {
    let report = filled();
    let row = &report.results[0];
    assert_eq!((row.step_ms.median, row.step_ms.least, row.step_ms.most), (20.0, 10.0, 40.0));
    assert_eq!((row.longest_step_ms, row.steps_per_s, row.rtf, row.times_real_time), (50.0, 100.0, 2.0, 1.0));
    assert_eq!((row.prefill_ms.median, row.prompt_positions, row.positions), (30.0, Some(20.0), Some(1000.0)));
    let first = row.first_audio_ms.unwrap();
    assert_eq!((first.median, first.most), (90.0, 100.0));
    // 8 MB of weights and 2000 positions of 1 kB at 2 GB/s.
    assert_eq!((row.floor_ms, row.share), (Some(5.0), Some(0.25)));
    let stage = |name: &str, ms| Stage { name: name.into(), ms };
    assert_eq!(row.stages, [stage("backbone", 7.5), stage("codec", 12.5)]);

    let blind = Report { read_rate: None, ..report.clone() };
    let row = Row::of(2, &[ran([9, 11])], &blind);
    assert_eq!((row.floor_ms, row.share), (None, None));
}

#[test]
fn printed_for_people() {
    let expected = "\
model     fake, BF16, 5.00 GB
device    none
load      1.50 s
resident  70.0 MB, at most 80.0 MB
reads     8.0 MB of weights a token, 1000 B for each position of the context
memory    2.00 GB/s read in the best pass, 1.00 GB/s in the middle one
method    3 runs of 5 tokens, after 3 to warm up; the middle run counts

 slots  ms a step        least … most    tokens/s     × real      RTF  TTFA ms  prefill ms  floor ms   share
     2       20.0         10.0 … 40.0         100       1.00     2.00     90.0        30.0      5.00    25 %

2 side by side: backbone 7.50 ms (38 %), codec 12.5 ms (62 %)
";
    assert_eq!(text::write(&filled()), expected);
    assert_eq!(
        ["0.0123", "1.23", "12.3", "1234"],
        [0.0123, 1.234, 12.34, 1234.4].map(text::short).each_ref().map(String::as_str)
    );
}

#[test]
fn compared_with_before() {
    let old = filled();
    let mut new = Report { device: "some".into(), ..filled() };
    new.results = vec![Row::of(1, &[ran([9, 11])], &new), Row::of(2, &[ran([4, 6]), ran([3, 5]), ran([5, 7])], &new)];
    let expected = "\
device      was `none`, is `some`
 slots             ms a step                tokens/s                 TTFA ms    faster
     1   not measured before
     2           20.0 → 5.00               100 → 400             90.0 → 90.0    4.00 ×
";
    assert_eq!(compare::text(&old, &new), expected);
    new.results[1].step_ms.most = 11.0;
    assert!(compare::text(&old, &new).contains("4.00 ×  (the spreads overlap)"));
}

#[test]
fn a_result_reads_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.json");
    let json = serde_json::to_string(&filled()).unwrap();
    std::fs::write(&path, format!("{json}\n")).unwrap();
    let read = compare::read(&path).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), json);

    std::fs::write(&path, json.replace("\"v\":1", "\"v\":2")).unwrap();
    assert!(compare::read(&path).unwrap_err().to_string().contains("its version is 2"));
    for other in ["", "{}", "[1]", "not json"] {
        std::fs::write(&path, other).unwrap();
        let error = compare::read(&path).unwrap_err();
        assert!(error.to_string().contains("no result of `rtts bench`") && error.cure().is_some(), "{error}");
    }
}
