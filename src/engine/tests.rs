//! The scheduler against a speaker that only counts.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::models::Step;

/// Speaks as many steps as the text has characters; sample i of a step is the step's number, plus the seed times 100,
/// plus the sum of the reference times 1000. Text "?" is refused, "mute" ends at once without audio, and what begins with
/// "wild" runs away with seeds below 3.
#[derive(Default)]
struct Counter {
    slots: Vec<Option<(usize, Utterance)>>, // (said, what to say)
    voices: Vec<String>,
    widest: usize,
    lends: bool,
}

impl Counter {
    fn new(slots: usize) -> Self {
        Self { slots: vec![None; slots], lends: true, ..Self::default() }
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
        self.slots[slot] = Some((0, utterance.clone()));
        Ok(())
    }
    fn step(&mut self, live: &[usize]) -> Result<Vec<Step>> {
        self.widest = self.widest.max(live.len());
        live.iter()
            .map(|slot| {
                let (said, utterance) = self.slots[*slot].as_mut().unwrap();
                if utterance.text == "mute" {
                    return Ok(Step { audio: Vec::new(), end: Some(Stop::EndToken) });
                }
                *said += 1;
                let voice: f32 = utterance.reference.iter().flat_map(|latents| &latents.values).sum();
                let sample = *said as f32 + 100.0 * utterance.seed as f32 + 1000.0 * voice;
                let wild = utterance.text.starts_with("wild") && utterance.seed < 3;
                let stop = if wild { Stop::Runaway } else { Stop::StopHead };
                Ok(Step { audio: vec![sample], end: (*said == utterance.text.len()).then_some(stop) })
            })
            .collect()
    }
    fn spoken(&self, slot: usize) -> Option<Latents> {
        let (said, _) = self.slots[slot].as_ref()?;
        self.lends.then(|| Latents { values: vec![*said as f32], dim: 1 })
    }
    fn retire(&mut self, slot: usize) -> Result<()> {
        self.slots[slot] = None;
        Ok(())
    }
}

fn requests(texts: &[&str]) -> Vec<Request> {
    let utterance = |t: &&str| Utterance { text: (*t).to_string(), ..Utterance::default() };
    texts.iter().enumerate().map(|(id, t)| Request { id, utterance: utterance(t), ..Request::default() }).collect()
}

/// A line for every event.
fn log(event: &Event) -> String {
    match event {
        Event::Started { id } => format!("start {id}"),
        Event::Audio { id, samples } => format!("audio {id} {samples:?}"),
        Event::Again { id, seed } => format!("again {id} with {seed}"),
        Event::Done { id, report } => format!("done {id} {} {}", report.samples, report.stop.name()),
        Event::Failed { id, error } => format!("failed {id} {error}"),
    }
}

fn speak(texts: &[&str], slots: usize, wish: impl Fn(&Event) -> Flow) -> (Vec<String>, Counter) {
    let mut speaker = Counter::new(slots);
    let lines = perform(&mut speaker, &mut requests(texts).into_iter(), wish);
    (lines, speaker)
}

fn perform(speaker: &mut Counter, requests: &mut dyn Requests, wish: impl Fn(&Event) -> Flow) -> Vec<String> {
    let mut lines = Vec::new();
    let slots = speaker.slots.len();
    run(speaker, requests, slots, &mut |event| {
        lines.push(log(&event));
        Ok(wish(&event))
    })
    .unwrap();
    assert!(speaker.slots.iter().all(Option::is_none));
    lines
}

/// The texts, all but the first with the voice of the first.
fn in_one_voice(texts: &[&str]) -> Vec<Request> {
    let mut requests = requests(texts);
    requests[0].lends = texts.len() - 1;
    requests[1..].iter_mut().for_each(|request| request.voice_of = Some(0));
    requests
}

/// The samples of a request in a log.
fn samples(lines: &[String], id: usize) -> Vec<&str> {
    lines.iter().filter_map(|line| line.strip_prefix(&format!("audio {id} "))).collect()
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

#[test]
fn borrowers_wait_for_the_voice_and_others_need_not() {
    let mut requests = in_one_voice(&["aaa", "bb", "cc"]);
    requests.push(Request {
        id: 3,
        utterance: Utterance { text: "dddd".into(), ..Utterance::default() },
        ..Request::default()
    });
    let lines = perform(&mut Counter::new(2), &mut requests.clone().into_iter(), |_| Flow::Continue);
    let at = |line: &str| lines.iter().position(|l| l == line).unwrap();
    assert!(at("start 3") < at("done 0 3 stop_head") && at("done 0 3 stop_head") < at("start 1"), "{lines:?}");
    // 3 from the first's own voice, times 1000.
    assert_eq!(samples(&lines, 1), ["[3001.0]", "[3002.0]"]);
    assert_eq!(samples(&lines, 3), ["[1.0]", "[2.0]", "[3.0]", "[4.0]"]);
    for slots in [1, 3, 8] {
        let other = perform(&mut Counter::new(slots), &mut requests.clone().into_iter(), |_| Flow::Continue);
        for id in 0..4 {
            assert_eq!(samples(&other, id), samples(&lines, id));
        }
    }
}

#[test]
fn where_no_voice_can_be_lent_they_go_without() {
    let mut speaker = Counter { lends: false, ..Counter::new(2) };
    let lines = perform(&mut speaker, &mut in_one_voice(&["aa", "b"]).into_iter(), |_| Flow::Continue);
    assert_eq!(samples(&lines, 1), ["[1.0]"]);
}

#[test]
fn borrowers_of_a_failed_voice_fail_alone() {
    for lender in ["?", "mute"] {
        let mut requests = in_one_voice(&[lender, "b", "c"]);
        (requests[1].lends, requests[2].voice_of) = (1, Some(1));
        requests[0].lends = 1;
        requests.push(Request { id: 3, voice_of: Some(77), ..Request::default() });
        requests.push(Request {
            id: 4,
            utterance: Utterance { text: "e".into(), ..Utterance::default() },
            ..Request::default()
        });
        let lines = perform(&mut Counter::new(2), &mut requests.into_iter(), |_| Flow::Continue);
        for id in [1, 2] {
            assert!(lines.contains(&format!("failed {id} the utterance whose voice it takes failed")), "{lines:?}");
        }
        assert!(lines.contains(&"failed 3 the utterance whose voice it takes was never spoken".into()), "{lines:?}");
        assert!(lines.contains(&"done 4 1 stop_head".into()), "{lines:?}");
    }
}

#[test]
fn those_no_longer_wanted_are_never_spoken() {
    struct Unwanted(std::vec::IntoIter<Request>);
    impl Requests for Unwanted {
        fn next(&mut self) -> Option<Request> {
            Iterator::next(&mut self.0)
        }
        fn wanted(&self, id: usize) -> bool {
            id != 1
        }
    }
    let requests = in_one_voice(&["a", "b", "c"]);
    let lines = perform(&mut Counter::new(2), &mut Unwanted(requests.into_iter()), |_| Flow::Continue);
    assert!(
        !lines.iter().any(|line| line.ends_with(" 1")) && lines.contains(&"done 2 1 stop_head".into()),
        "{lines:?}"
    );
}

#[test]
fn drain_leaves_those_that_wait() {
    let drain = |e: &Event| if matches!(e, Event::Audio { .. }) { Flow::Drain } else { Flow::Continue };
    let lines = perform(&mut Counter::new(2), &mut in_one_voice(&["aa", "b"]).into_iter(), drain);
    assert_eq!(lines.last().unwrap(), "done 0 2 stop_head");
}

#[test]
fn a_runaway_is_tried_again_with_the_next_seed() {
    let wild = |seed: u64, retries: usize, temperature: Option<f32>| {
        let utterance = Utterance { text: "wild".into(), seed, temperature, ..Utterance::default() };
        let requests = vec![Request { id: 0, utterance, retries, ..Request::default() }];
        perform(&mut Counter::new(1), &mut requests.into_iter(), |_| Flow::Continue)
    };
    let lines = wild(1, 2, None);
    assert_eq!(lines[5], "again 0 with 2");
    assert_eq!(lines[10], "again 0 with 3");
    assert_eq!(
        lines[11..],
        ["audio 0 [301.0]", "audio 0 [302.0]", "audio 0 [303.0]", "audio 0 [304.0]", "done 0 4 stop_head"]
    );
    // Out of tries, or without chance, it stays as it is.
    assert_eq!(wild(1, 1, None).last().unwrap(), "done 0 4 runaway");
    assert_eq!(wild(1, 0, None).len(), 6);
    assert_eq!(wild(1, 2, Some(0.0)).len(), 6);
}

#[test]
fn a_voice_is_that_of_the_last_try() {
    let mut requests = in_one_voice(&["wild one", "b"]);
    (requests[0].retries, requests[0].utterance.seed) = (2, 2);
    let lines = perform(&mut Counter::new(2), &mut requests.into_iter(), |_| Flow::Continue);
    assert!(lines.contains(&"again 0 with 3".into()));
    assert_eq!(samples(&lines, 1), ["[8001.0]"]);
}
