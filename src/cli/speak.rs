//! Texts become audio: each text is one or more utterances, all of them share the engine's slots, and each text's
//! utterances are joined in order.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::joiner::Joiner;
use crate::engine::{self, Flow, Request};
use crate::error::{Error, Result};
use crate::models::{Speaker, Stop, Utterance};

/// A text to speak as one stream of audio.
#[derive(Clone, Debug)]
pub struct Script {
    /// The caller's own number.
    pub id: usize,
    /// Samples of silence before them.
    pub lead: usize,
    /// Its utterances, in order; never empty.
    pub utterances: Vec<Utterance>,
    /// What was written for each of them; nothing where it goes on with what was written for the one before.
    pub captions: Vec<Option<String>>,
    /// Samples of silence after each of them.
    pub gaps: Vec<usize>,
}

/// How a text went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Samples spoken, silences and fades included.
    pub samples: usize,
    /// Autoregressive steps of all its utterances.
    pub steps: usize,
    /// Why it ended: the first cut, else the end of its last utterance.
    pub stop: Stop,
    /// How many of its utterances were cut.
    pub cuts: usize,
    /// From its first admission to its end.
    pub wall: Duration,
    /// When each of its utterances is heard, in samples from the beginning.
    pub spans: Vec<Range<usize>>,
}

/// What happens to the texts.
#[derive(Debug)]
pub enum Event<'a> {
    /// The next samples of a text.
    Audio {
        /// The text's number.
        id: usize,
        /// Mono samples at the speaker's rate; never empty.
        samples: &'a [f32],
    },
    /// A text is spoken.
    Done {
        /// The text's number.
        id: usize,
        /// How it went.
        told: Told,
    },
    /// A text failed; the others go on.
    Failed {
        /// The text's number.
        id: usize,
        /// Why.
        error: Error,
    },
}

/// A text that has been admitted, at least in part.
struct Live {
    joiner: Joiner,
    begun: Instant,
    samples: usize,
    steps: usize,
    cuts: usize,
    stop: Option<Stop>,
    failed: bool,
}

#[derive(Default)]
struct State {
    /// By the text's number.
    live: HashMap<usize, Live>,
    /// Which text and which of its utterances a request is, by the request's number.
    requests: Vec<(usize, usize)>,
}

/// Hands the utterances of one script after the other to the engine.
struct Feed<'a> {
    scripts: &'a mut dyn Iterator<Item = Script>,
    rate: u32,
    state: &'a RefCell<State>,
    id: usize,
    rest: std::iter::Enumerate<std::vec::IntoIter<Utterance>>,
}

impl Iterator for Feed<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            if let Some((index, utterance)) = self.rest.next() {
                let mut state = self.state.borrow_mut();
                // The rest of a failed text is not worth speaking.
                if state.live.get(&self.id).is_none_or(|live| live.failed) {
                    continue;
                }
                state.requests.push((self.id, index));
                return Some(Request { id: state.requests.len() - 1, utterance });
            }
            let script = self.scripts.next()?;
            let live = Live {
                joiner: Joiner::new(script.lead, &script.gaps, self.rate),
                begun: Instant::now(),
                samples: 0,
                steps: 0,
                cuts: 0,
                stop: None,
                failed: false,
            };
            self.state.borrow_mut().live.insert(script.id, live);
            self.id = script.id;
            self.rest = script.utterances.into_iter().enumerate();
        }
    }
}

/// Speaks all `scripts` and tells `on` what happens. To end in order, let `scripts` end: what has begun is finished.
///
/// # Errors
/// A failing device, or an error of `on`.
pub fn speak(
    speaker: &mut dyn Speaker,
    scripts: &mut dyn Iterator<Item = Script>,
    slots: usize,
    on: &mut dyn FnMut(Event<'_>) -> Result<Flow>,
) -> Result<()> {
    let state = RefCell::new(State::default());
    let rate = speaker.sample_rate();
    let mut feed = Feed { scripts, rate, state: &state, id: 0, rest: Vec::new().into_iter().enumerate() };
    engine::run(speaker, &mut feed, slots, &mut |event| handle(&state, event, on))
}

fn handle(state: &RefCell<State>, event: engine::Event, on: &mut dyn FnMut(Event<'_>) -> Result<Flow>) -> Result<Flow> {
    let request = match &event {
        engine::Event::Started { id }
        | engine::Event::Audio { id, .. }
        | engine::Event::Done { id, .. }
        | engine::Event::Failed { id, .. } => *id,
    };
    let mut state = state.borrow_mut();
    let Some(&(id, index)) = state.requests.get(request) else { return Ok(Flow::Continue) };
    let Some(live) = state.live.get_mut(&id).filter(|live| !live.failed) else { return Ok(Flow::Continue) };
    let heard = match event {
        engine::Event::Started { .. } => return Ok(Flow::Continue),
        engine::Event::Audio { samples, .. } => live.joiner.audio(index, &samples),
        engine::Event::Done { report, .. } => {
            live.steps += report.steps;
            live.cuts += usize::from(report.stop.truncated());
            if !live.stop.is_some_and(Stop::truncated) {
                live.stop = Some(report.stop);
            }
            live.joiner.end(index, report.stop.truncated())
        }
        engine::Event::Failed { error, .. } => {
            live.failed = true;
            return on(Event::Failed { id, error });
        }
    };
    if !heard.is_empty() {
        live.samples += heard.len();
        let flow = on(Event::Audio { id, samples: &heard })?;
        if flow != Flow::Continue {
            return Ok(flow);
        }
    }
    if !live.joiner.complete() {
        return Ok(Flow::Continue);
    }
    let told = Told {
        samples: live.samples,
        steps: live.steps,
        stop: live.stop.unwrap_or(Stop::EndToken),
        cuts: live.cuts,
        wall: live.begun.elapsed(),
        spans: live.joiner.spans(),
    };
    state.live.remove(&id);
    on(Event::Done { id, told })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::fake::{FakeSpeaker, RATE, STEP};
    use crate::cli::script;
    use crate::cli::sound::Cutting;

    /// Speaks `texts` and returns the audio, or the error, of each.
    fn spoken(slots: usize, texts: &[&str], like: &Utterance) -> Vec<Result<(Vec<f32>, Told)>> {
        let mut speaker = FakeSpeaker::new(slots);
        let cutting = Cutting { gap: Some(100), ..Cutting::default() };
        let script = |(id, text): (usize, &&str)| {
            let like = Utterance { seed: 40 + id as u64, ..like.clone() };
            script::write(&speaker, id, text, &like, &cutting).unwrap()
        };
        let scripts: Vec<Script> = texts.iter().enumerate().map(script).collect();
        let mut audio = vec![Vec::new(); texts.len()];
        let mut ends: Vec<Option<Result<Told>>> = texts.iter().map(|_| None).collect();
        speak(&mut speaker, &mut scripts.into_iter(), slots, &mut |event| {
            match event {
                Event::Audio { id, samples } => audio[id].extend_from_slice(samples),
                Event::Done { id, told } => assert!(ends[id].replace(Ok(told)).is_none()),
                Event::Failed { id, error } => assert!(ends[id].replace(Err(error)).is_none()),
            }
            Ok(Flow::Continue)
        })
        .unwrap();
        audio.into_iter().zip(ends).map(|(audio, end)| end.unwrap().map(|told| (audio, told))).collect()
    }

    const LONG: &str = "The library opens at nine and closes at six in the evening. On Sundays it stays closed all day. \
                        Bring the books back in time, or pay a little for every day.";

    #[test]
    fn a_text_sounds_the_same_alone_and_among_others() {
        let like = Utterance::default();
        let together = spoken(3, &["One.", LONG, "Three, a bit longer."], &like);
        for slots in [1, 2, 7] {
            let other = spoken(slots, &["One.", LONG, "Three, a bit longer."], &like);
            for (a, b) in together.iter().zip(&other) {
                let ((a, _), (b, _)) = (a.as_ref().unwrap(), b.as_ref().unwrap());
                assert_eq!(a, b);
            }
        }
    }

    #[test]
    fn pieces_are_joined_in_order_with_gaps_and_seeds() {
        let speaker = FakeSpeaker::new(4);
        let cutting = Cutting { gap: Some(100), ..Cutting::default() };
        let script =
            script::write(&speaker, 0, LONG, &Utterance { seed: 40, ..Utterance::default() }, &cutting).unwrap();
        assert!(script.utterances.len() >= 3);
        assert_eq!(script.utterances[0].seed, 40);
        let pieces: Vec<Vec<f32>> = script.utterances.iter().map(FakeSpeaker::speech).collect();
        let expected = pieces.join([0.0; RATE as usize / 10].as_slice());
        let told = spoken(4, &[LONG], &Utterance::default()).remove(0).unwrap();
        assert!(told.0 == expected);
        assert_eq!(told.1.samples, expected.len());
        assert_eq!((told.1.cuts, told.1.stop), (0, Stop::EndToken));
        for (span, piece) in told.1.spans.iter().zip(&pieces) {
            assert!(told.0[span.clone()] == *piece);
        }
    }

    #[test]
    fn a_failing_text_stops_no_other() {
        let texts =
            ["One.", "A silent text that is long enough to be cut into pieces. LONG it is, and silent too.", "Two."];
        let ends = spoken(2, &texts, &Utterance::default());
        assert!(ends[0].is_ok() && ends[1].is_err() && ends[2].is_ok());
    }

    #[test]
    fn cuts_are_told_and_end_at_the_limit() {
        let like = Utterance { max_seconds: Some(0.05), ..Utterance::default() };
        let (audio, told) = spoken(1, &["Twelve steps"], &like).remove(0).unwrap();
        assert_eq!((told.cuts, told.stop, told.steps), (1, Stop::Length, 5));
        let whole = FakeSpeaker::speech(&Utterance { text: "Twelve steps".into(), seed: 40, ..like });
        assert_eq!(whole.len(), 5 * STEP);
        assert_eq!(audio, whole);
    }
}
