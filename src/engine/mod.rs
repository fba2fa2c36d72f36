//! Requests in slots: admitted as slots fall free, stepped as one batch, retired as they end.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::models::{Speaker, Stop, Utterance};

/// One utterance to speak, with the caller's own number.
#[derive(Clone, Debug)]
pub struct Request {
    /// Comes back with every event.
    pub id: usize,
    /// What to say.
    pub utterance: Utterance,
}

/// How an utterance went.
#[derive(Clone, Debug)]
pub struct Report {
    /// Samples spoken.
    pub samples: usize,
    /// Autoregressive steps taken.
    pub steps: usize,
    /// Why it ended.
    pub stop: Stop,
    /// From admission to the first audio (TTFA).
    pub first_audio: Option<Duration>,
    /// From admission to the end.
    pub wall: Duration,
}

/// What the engine tells its caller, in the order it happens.
#[derive(Debug)]
pub enum Event {
    /// The request got a slot.
    Started {
        /// The request's number.
        id: usize,
    },
    /// The next samples of a request.
    Audio {
        /// The request's number.
        id: usize,
        /// Mono samples at the speaker's rate.
        samples: Vec<f32>,
    },
    /// The request ended by itself or at a limit.
    Done {
        /// The request's number.
        id: usize,
        /// How it went.
        report: Report,
    },
    /// The request failed; the others go on.
    Failed {
        /// The request's number.
        id: usize,
        /// Why.
        error: Error,
    },
}

/// What the caller wants after an event; the strictest wish of a step counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Admit nothing more; finish what is in flight.
    Drain,
    /// Stop now.
    Stop,
}

/// Speaks all `requests` in at most `slots` slots at a time and reports to `on`.
///
/// A request waits until a slot is free, is stepped with whoever else is live, and leaves its slot the moment it ends.
/// Until something was heard there is one request only: whoever listens need not wait for the prompts of the others.
/// What it says depends on itself alone: not on its slot, its mates or when it was admitted.
///
/// # Errors
/// A failing device, or an error of `on`. A request that fails is an event, and the others go on.
pub fn run(
    speaker: &mut dyn Speaker,
    requests: &mut dyn Iterator<Item = Request>,
    slots: usize,
    on: &mut dyn FnMut(Event) -> Result<Flow>,
) -> Result<()> {
    let slots = slots.clamp(1, speaker.slots().max(1));
    let mut live: Vec<Live> = Vec::new();
    let outcome = drive(speaker, requests, slots, &mut live, on);
    // Whatever happened, the speaker is left empty.
    for request in live {
        speaker.retire(request.slot)?;
    }
    outcome
}

/// A request in its slot.
struct Live {
    id: usize,
    slot: usize,
    admitted: Instant,
    first_audio: Option<Duration>,
    samples: usize,
    steps: usize,
}

impl Live {
    fn report(&self, stop: Stop) -> Report {
        Report {
            samples: self.samples,
            steps: self.steps,
            stop,
            first_audio: self.first_audio,
            wall: self.admitted.elapsed(),
        }
    }
}

fn drive(
    speaker: &mut dyn Speaker,
    requests: &mut dyn Iterator<Item = Request>,
    slots: usize,
    live: &mut Vec<Live>,
    on: &mut dyn FnMut(Event) -> Result<Flow>,
) -> Result<()> {
    let mut open = true; // more may be admitted
    let mut heard = false;
    loop {
        let room = if heard { slots } else { 1 };
        while open && live.len() < room {
            let Some(request) = requests.next() else {
                open = false;
                break;
            };
            match admit(speaker, request, live, slots, on)? {
                Flow::Continue => {}
                Flow::Drain => open = false,
                Flow::Stop => return Ok(()),
            }
        }
        if live.is_empty() {
            return Ok(());
        }
        match step(speaker, live, on)? {
            Flow::Continue => {}
            Flow::Drain => open = false,
            Flow::Stop => return Ok(()),
        }
        heard |= live.iter().any(|request| request.first_audio.is_some());
    }
}

/// Gives the request the lowest free slot.
fn admit(
    speaker: &mut dyn Speaker,
    request: Request,
    live: &mut Vec<Live>,
    slots: usize,
    on: &mut dyn FnMut(Event) -> Result<Flow>,
) -> Result<Flow> {
    let id = request.id;
    if let Err(error) = speaker.check(&request.utterance) {
        return on(Event::Failed { id, error });
    }
    let Some(slot) = (0..slots).find(|slot| live.iter().all(|l| l.slot != *slot)) else {
        return Err(Error::new("a request was admitted without a free slot"));
    };
    let admitted = Instant::now();
    let flow = on(Event::Started { id })?;
    if flow == Flow::Stop {
        return Ok(flow);
    }
    speaker.admit(slot, &request.utterance)?;
    live.push(Live { id, slot, admitted, first_audio: None, samples: 0, steps: 0 });
    Ok(flow)
}

/// One step of all live requests; the strictest wish of the caller counts.
fn step(speaker: &mut dyn Speaker, live: &mut Vec<Live>, on: &mut dyn FnMut(Event) -> Result<Flow>) -> Result<Flow> {
    let slots: Vec<usize> = live.iter().map(|l| l.slot).collect();
    let steps = speaker.step(&slots)?;
    let mut flow = Flow::Continue;
    let mut ended = Vec::new();
    for (request, step) in live.iter_mut().zip(steps) {
        request.steps += 1;
        if !step.audio.is_empty() {
            request.samples += step.audio.len();
            request.first_audio.get_or_insert_with(|| request.admitted.elapsed());
            flow = flow.max(on(Event::Audio { id: request.id, samples: step.audio })?);
        }
        if let Some(stop) = step.end {
            ended.push(request.slot);
            let event = if request.samples == 0 {
                let error = Error::new("the model ended the utterance before any audio")
                    .hint("try another seed, or more words");
                Event::Failed { id: request.id, error }
            } else {
                Event::Done { id: request.id, report: request.report(stop) }
            };
            flow = flow.max(on(event)?);
        }
        if flow == Flow::Stop {
            break;
        }
    }
    for slot in ended {
        speaker.retire(slot)?;
        live.retain(|l| l.slot != slot);
    }
    Ok(flow)
}

#[cfg(test)]
mod tests;
