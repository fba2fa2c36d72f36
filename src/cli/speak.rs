//! Texts become audio: each text is one or more utterances, all of them share the engine's slots, and each text's
//! utterances are joined in order.
//!
//! A model that clones voices and was given none speaks every utterance with another, so the first of a text lends its
//! voice to the rest. One that is too short to show a voice well lends it only as far as the first that is long enough,
//! which lends it to all that follow.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::joiner::Joiner;
use crate::audio::trim::Trimmer;
use crate::engine::{self, Flow, Request, Requests};
use crate::error::{Error, Result};
use crate::models::{Speaker, Stop, Utterance};
use crate::text::spoken_length;

/// An utterance of so many letters, about four seconds, shows a voice well enough to be its only example.
const SHOWS_VOICE: usize = 60;

/// How the texts are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// How often an utterance that runs away is tried again. More than 0 keeps each back until its end.
    pub retries: usize,
    /// Whether silence at the end of utterances is cut off.
    pub trim: bool,
}

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
    /// How often one of them ran away and was tried again.
    pub retries: usize,
    /// Samples of silence cut off their ends.
    pub trimmed: usize,
    /// From its first admission to its end.
    pub wall: Duration,
    /// When each of its utterances is heard, in samples from the beginning.
    pub spans: Vec<Range<usize>>,
}

/// What happens to the texts.
#[derive(Debug)]
pub enum Event<'a> {
    /// The model made so many samples, which may still wait for their turn.
    Made {
        /// How many.
        samples: usize,
    },
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
    /// By utterance; none where nothing is trimmed.
    trimmers: Vec<Option<Trimmer>>,
    begun: Instant,
    samples: usize,
    steps: usize,
    cuts: usize,
    retries: usize,
    trimmed: usize,
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
    manner: Manner,
    /// The model can take a voice from a recording, and so from another utterance.
    listens: bool,
    state: &'a RefCell<State>,
    id: usize,
    rest: std::vec::IntoIter<Piece>,
}

/// An utterance to come.
struct Piece {
    index: usize,
    utterance: Utterance,
    /// The utterance of the same text whose voice it takes.
    voice_of: Option<usize>,
    lends: usize,
}

impl Requests for Feed<'_> {
    fn next(&mut self) -> Option<Request> {
        loop {
            if let Some(piece) = self.rest.next() {
                let mut state = self.state.borrow_mut();
                // The rest of a failed text is not worth speaking.
                if state.live.get(&self.id).is_none_or(|live| live.failed) {
                    continue;
                }
                let id = state.requests.len();
                state.requests.push((self.id, piece.index));
                return Some(Request {
                    id,
                    utterance: piece.utterance,
                    voice_of: piece.voice_of.map(|lender| id + lender - piece.index),
                    lends: piece.lends,
                    retries: self.manner.retries,
                });
            }
            let script = self.scripts.next()?;
            let trimmer = self.manner.trim.then(|| Trimmer::new(self.rate));
            let live = Live {
                joiner: Joiner::new(script.lead, &script.gaps, self.rate, self.manner.retries > 0),
                trimmers: vec![trimmer; script.utterances.len()],
                begun: Instant::now(),
                samples: 0,
                steps: 0,
                cuts: 0,
                retries: 0,
                trimmed: 0,
                stop: None,
                failed: false,
            };
            self.state.borrow_mut().live.insert(script.id, live);
            self.id = script.id;
            self.rest = pieces(script.utterances, self.listens).into_iter();
        }
    }

    fn wanted(&self, id: usize) -> bool {
        let state = self.state.borrow();
        let live = state.requests.get(id).and_then(|(text, _)| state.live.get(text));
        live.is_some_and(|live| !live.failed)
    }
}

/// Who takes whose voice among the utterances of a text.
fn pieces(utterances: Vec<Utterance>, listens: bool) -> Vec<Piece> {
    let borrows = listens && utterances.iter().all(|u| u.reference.is_none() && u.prompt.is_none());
    let anchor = utterances.iter().position(|u| spoken_length(&u.text) >= SHOWS_VOICE).unwrap_or(0);
    let lender = |i: usize| match i {
        _ if !borrows || i == 0 => None,
        _ if i > anchor => Some(anchor),
        _ => Some(0),
    };
    let lenders: Vec<Option<usize>> = (0..utterances.len()).map(lender).collect();
    let mut lends = vec![0; utterances.len()];
    lenders.iter().flatten().for_each(|lender| lends[*lender] += 1);
    let piece = |(index, utterance)| Piece { index, utterance, voice_of: lenders[index], lends: lends[index] };
    utterances.into_iter().enumerate().map(piece).collect()
}

/// Speaks all `scripts` and tells `on` what happens. To end in order, let `scripts` end: what has begun is finished.
///
/// # Errors
/// A failing device, or an error of `on`.
pub fn speak(
    speaker: &mut dyn Speaker,
    scripts: &mut dyn Iterator<Item = Script>,
    slots: usize,
    manner: Manner,
    on: &mut dyn FnMut(Event<'_>) -> Result<Flow>,
) -> Result<()> {
    let state = RefCell::new(State::default());
    let rate = speaker.sample_rate();
    let listens = speaker.listens_at().is_some();
    let mut feed = Feed { scripts, rate, manner, listens, state: &state, id: 0, rest: Vec::new().into_iter() };
    engine::run(speaker, &mut feed, slots, &mut |event| handle(&state, event, on))
}

fn handle(state: &RefCell<State>, event: engine::Event, on: &mut dyn FnMut(Event<'_>) -> Result<Flow>) -> Result<Flow> {
    let request = match &event {
        engine::Event::Started { id }
        | engine::Event::Audio { id, .. }
        | engine::Event::Again { id, .. }
        | engine::Event::Done { id, .. }
        | engine::Event::Failed { id, .. } => *id,
    };
    let mut state = state.borrow_mut();
    let Some(&(id, index)) = state.requests.get(request) else { return Ok(Flow::Continue) };
    let Some(live) = state.live.get_mut(&id).filter(|live| !live.failed) else { return Ok(Flow::Continue) };
    let heard = match event {
        engine::Event::Started { .. } => return Ok(Flow::Continue),
        engine::Event::Audio { samples, .. } => {
            let flow = on(Event::Made { samples: samples.len() })?;
            if flow != Flow::Continue {
                return Ok(flow);
            }
            live.take(index, samples)
        }
        engine::Event::Again { .. } => {
            live.again(index);
            return Ok(Flow::Continue);
        }
        engine::Event::Done { report, .. } => live.end(index, &report),
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
    let told = live.told();
    state.live.remove(&id);
    on(Event::Done { id, told })
}

impl Live {
    /// The next samples of an utterance; returns what can be heard now.
    fn take(&mut self, index: usize, samples: Vec<f32>) -> Vec<f32> {
        let samples = match self.trimmers.get_mut(index) {
            Some(Some(trimmer)) => trimmer.push(&samples),
            _ => samples,
        };
        self.joiner.audio(index, &samples)
    }

    /// An utterance begins anew.
    fn again(&mut self, index: usize) {
        if let Some(Some(trimmer)) = self.trimmers.get_mut(index) {
            trimmer.reset();
        }
        self.joiner.again(index);
        self.retries += 1;
    }

    /// An utterance is over; returns what can be heard now.
    fn end(&mut self, index: usize, report: &engine::Report) -> Vec<f32> {
        self.steps += report.steps;
        self.cuts += usize::from(report.stop.truncated());
        if !self.stop.is_some_and(Stop::truncated) {
            self.stop = Some(report.stop);
        }
        let mut heard = Vec::new();
        if let Some(trimmer) = self.trimmers.get_mut(index).and_then(Option::take) {
            let (rest, cut) = if report.stop.truncated() { (trimmer.rest(), 0) } else { trimmer.finish() };
            self.trimmed += cut;
            heard = self.joiner.audio(index, &rest);
        }
        heard.extend(self.joiner.end(index, report.stop.truncated()));
        heard
    }

    fn told(&self) -> Told {
        Told {
            samples: self.samples,
            steps: self.steps,
            stop: self.stop.unwrap_or(Stop::EndToken),
            cuts: self.cuts,
            retries: self.retries,
            trimmed: self.trimmed,
            wall: self.begun.elapsed(),
            spans: self.joiner.spans(),
        }
    }
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
        speak(&mut speaker, &mut scripts.into_iter(), slots, Manner::default(), &mut |event| {
            match event {
                Event::Made { .. } => {}
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

    /// Speaks one text with a speaker and a manner of the test's own.
    fn perform(speaker: &mut FakeSpeaker, text: &str, like: &Utterance, manner: Manner) -> (Vec<f32>, Told) {
        let cutting = Cutting { gap: Some(0), ..Cutting::default() };
        let script = script::write(speaker, 0, text, like, &cutting).unwrap();
        let (mut audio, mut end) = (Vec::new(), None);
        let slots = speaker.slots();
        speak(speaker, &mut std::iter::once(script), slots, manner, &mut |event| {
            match event {
                Event::Audio { samples, .. } => audio.extend_from_slice(samples),
                Event::Done { told, .. } => end = Some(told),
                Event::Made { .. } => {}
                Event::Failed { error, .. } => return Err(error),
            }
            Ok(Flow::Continue)
        })
        .unwrap();
        (audio, end.unwrap())
    }

    #[test]
    fn the_first_utterance_lends_its_voice_to_the_rest() {
        let like = Utterance { seed: 40, ..Utterance::default() };
        let (audio, _) = perform(&mut FakeSpeaker::listening(4), LONG, &like, Manner::default());
        let cutting = Cutting { gap: Some(0), ..Cutting::default() };
        let mut pieces = script::write(&FakeSpeaker::listening(1), 0, LONG, &like, &cutting).unwrap().utterances;
        let (_, rest) = pieces.split_first_mut().unwrap();
        // What the fake lends: its pitch, a little higher by length and seed.
        let shown = 0.1 + 59.0 / 1000.0 + 40.0 / 1e12;
        let latents = std::sync::Arc::new(crate::models::Latents { values: vec![shown, 0.0], dim: 2 });
        assert_eq!(rest.len(), 2);
        rest.iter_mut().for_each(|piece| piece.reference = Some(latents.clone()));
        let expected: Vec<f32> = pieces.iter().flat_map(FakeSpeaker::speech).collect();
        assert!(audio == expected);
        for slots in [1, 2, 8] {
            assert!(perform(&mut FakeSpeaker::listening(slots), LONG, &like, Manner::default()).0 == audio);
        }
        // A voice that was given is not replaced.
        let given = Utterance { reference: Some(latents.clone()), ..like };
        let (audio, _) = perform(&mut FakeSpeaker::listening(2), LONG, &given, Manner::default());
        pieces[0].reference = Some(latents);
        assert!(audio == pieces.iter().flat_map(FakeSpeaker::speech).collect::<Vec<f32>>());
    }

    #[test]
    fn a_short_beginning_lends_only_to_the_first_that_is_long_enough() {
        let say = |text: &str| Utterance { text: text.into(), ..Utterance::default() };
        let long = "a".repeat(SHOWS_VOICE);
        let loans = |texts: &[&str]| {
            let pieces = pieces(texts.iter().map(|text| say(text)).collect(), true);
            pieces.iter().map(|piece| (piece.voice_of, piece.lends)).collect::<Vec<_>>()
        };
        assert_eq!(
            loans(&["Title", "short", &long, "b", &long]),
            [(None, 2), (Some(0), 0), (Some(0), 2), (Some(2), 0), (Some(2), 0)]
        );
        assert_eq!(loans(&[&long, "b"]), [(None, 1), (Some(0), 0)]);
        assert_eq!(loans(&["a", "b", "c"]), [(None, 2), (Some(0), 0), (Some(0), 0)]);
        assert_eq!(loans(&["a"]), [(None, 0)]);
    }

    #[test]
    fn a_runaway_is_spoken_again_before_anybody_hears_it() {
        let like = Utterance { seed: 40, ..Utterance::default() };
        let wild = "A wild one.";
        let manner = Manner { retries: 2, trim: false };
        let (audio, told) = perform(&mut FakeSpeaker::new(1), wild, &like, manner);
        assert!(audio == FakeSpeaker::speech(&Utterance { text: wild.into(), seed: 41, ..like.clone() }));
        assert_eq!((told.retries, told.stop, told.cuts, told.steps), (1, Stop::EndToken, 0, wild.len()));
        // Where it is heard at once there is no second try.
        let (audio, told) = perform(&mut FakeSpeaker::new(1), wild, &like, Manner::default());
        assert_eq!((audio.len(), told.retries, told.stop, told.cuts), (2 * wild.len() * STEP, 0, Stop::Runaway, 1));
    }

    #[test]
    fn trailing_silence_is_trimmed_from_every_utterance() {
        let like = Utterance { seed: 40, ..Utterance::default() };
        let trailing = |trails: u32, trim: bool| {
            let mut speaker = FakeSpeaker::trailing(2, trails);
            perform(&mut speaker, LONG, &like, Manner { retries: 0, trim })
        };
        let (whole, told) = trailing(50, false);
        assert_eq!(told.trimmed, 0);
        let (trimmed, told) = trailing(50, true);
        // 500 ms of silence after each of three, of which 190 ms stay, or 200 where a word ends within a frame of 20.
        let cutting = Cutting { gap: Some(0), ..Cutting::default() };
        let pieces = script::write(&FakeSpeaker::new(1), 0, LONG, &like, &cutting).unwrap().utterances;
        let odd = pieces.iter().filter(|piece| piece.text.chars().count() % 2 == 1).count();
        assert_eq!(told.trimmed, 3 * (310 * RATE as usize / 1000) - odd * STEP);
        assert_eq!((trimmed.len() + told.trimmed, told.samples), (whole.len(), trimmed.len()));
        let (short, told) = trailing(20, true);
        assert_eq!((short.len(), told.trimmed), (whole.len() - 3 * 30 * STEP, 0));
    }
}
