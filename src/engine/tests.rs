//! The scheduler against a speaker that only counts.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::models::Step;

/// Speaks as many steps as the text has characters; sample i of a step is the step's number. Text "?" is refused,
/// "mute" ends at once without audio.
#[derive(Default)]
struct Counter {
    slots: Vec<Option<(usize, usize)>>, // (said, length)
    voices: Vec<String>,
    widest: usize,
}

impl Counter {
    fn new(slots: usize) -> Self {
        Self { slots: vec![None; slots], ..Self::default() }
    }
}

impl Speaker for Counter {
    fn sample_rate(&self) -> u32 {
        100
    }
    fn voices(&self) -> &[String] {
        &self.voices
    }
    fn device(&self) -> String {
        "counter".into()
    }
    fn longest_text(&self) -> usize {
        100
    }
    fn words_only(&self) -> bool {
        false
    }
    fn slots(&self) -> usize {
        self.slots.len()
    }
    fn check(&self, utterance: &Utterance) -> Result<()> {
        if utterance.text == "?" { Err(Error::new("refused")) } else { Ok(()) }
    }
    fn admit(&mut self, slot: usize, utterance: &Utterance) -> Result<()> {
        assert!(self.slots[slot].is_none(), "slot {slot} is taken");
        let length = if utterance.text == "mute" { 0 } else { utterance.text.len() };
        self.slots[slot] = Some((0, length));
        Ok(())
    }
    fn step(&mut self, live: &[usize]) -> Result<Vec<Step>> {
        self.widest = self.widest.max(live.len());
        live.iter()
            .map(|slot| {
                let (said, length) = self.slots[*slot].as_mut().unwrap();
                if *said >= *length {
                    return Ok(Step { audio: Vec::new(), end: Some(Stop::EndToken) });
                }
                *said += 1;
                Ok(Step { audio: vec![*said as f32], end: (*said == *length).then_some(Stop::StopHead) })
            })
            .collect()
    }
    fn retire(&mut self, slot: usize) -> Result<()> {
        self.slots[slot] = None;
        Ok(())
    }
}

fn requests(texts: &[&str]) -> Vec<Request> {
    let utterance = |t: &&str| Utterance { text: (*t).to_string(), ..Utterance::default() };
    texts.iter().enumerate().map(|(id, t)| Request { id, utterance: utterance(t) }).collect()
}

/// A line for every event.
fn log(event: &Event) -> String {
    match event {
        Event::Started { id } => format!("start {id}"),
        Event::Audio { id, samples } => format!("audio {id} {samples:?}"),
        Event::Done { id, report } => format!("done {id} {} {}", report.samples, report.stop.name()),
        Event::Failed { id, error } => format!("failed {id} {error}"),
    }
}

fn speak(texts: &[&str], slots: usize, wish: impl Fn(&Event) -> Flow) -> (Vec<String>, Counter) {
    let mut speaker = Counter::new(slots);
    let mut lines = Vec::new();
    run(&mut speaker, &mut requests(texts).into_iter(), slots, &mut |event| {
        lines.push(log(&event));
        Ok(wish(&event))
    })
    .unwrap();
    (lines, speaker)
}

#[test]
fn a_slot_is_refilled_as_soon_as_it_falls_free() {
    let (lines, speaker) = speak(&["aaa", "b", "cc"], 2, |_| Flow::Continue);
    let expected = [
        "start 0",
        "audio 0 [1.0]",
        "start 1", // only now: the first is heard before the second's prompt is read
        "audio 0 [2.0]",
        "audio 1 [1.0]",
        "done 1 1 stop_head",
        "start 2",
        "audio 0 [3.0]",
        "done 0 3 stop_head",
        "audio 2 [1.0]",
        "audio 2 [2.0]",
        "done 2 2 stop_head",
    ];
    assert_eq!(lines, expected);
    assert_eq!(speaker.widest, 2);
    assert!(speaker.slots.iter().all(Option::is_none));
}

#[test]
fn a_refused_request_and_a_mute_one_fail_alone() {
    let (lines, _) = speak(&["?", "mute", "a"], 1, |_| Flow::Continue);
    assert_eq!(lines[0], "failed 0 refused");
    assert_eq!(lines[2], "failed 1 the model ended the utterance before any audio");
    assert_eq!(lines.last().unwrap(), "done 2 1 stop_head");
}

#[test]
fn drain_finishes_what_is_in_flight() {
    let drain = |e: &Event| if matches!(e, Event::Audio { id: 1, .. }) { Flow::Drain } else { Flow::Continue };
    let (lines, _) = speak(&["aa", "bbb", "c"], 2, drain);
    assert!(lines.contains(&"done 0 2 stop_head".into()) && lines.contains(&"done 1 3 stop_head".into()));
    assert!(!lines.contains(&"start 2".into()));
}

#[test]
fn stop_leaves_the_speaker_empty() {
    let stop = |e: &Event| if matches!(e, Event::Audio { .. }) { Flow::Stop } else { Flow::Continue };
    let (lines, speaker) = speak(&["aa", "bb"], 2, stop);
    assert_eq!(lines.last().unwrap(), "audio 0 [1.0]");
    assert!(speaker.slots.iter().all(Option::is_none));
}
