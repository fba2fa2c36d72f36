//! Requests in slots: admitted as slots fall free, stepped as one batch, retired as they end.
//!
//! A request can take on the voice of another, and is held back until that one has ended; and it can be tried again
//! with the next seed where the model lost its way. Neither depends on who else is live.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::models::{Latents, Speaker, Stop, Utterance};

/// One utterance to speak, with the caller's own number.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Comes back with every event.
    pub id: usize,
    /// What to say.
    pub utterance: Utterance,
    /// The request whose voice it takes on, issued before: it waits for the end of that one, and hears what that said.
    pub voice_of: Option<usize>,
    /// How many requests take on its own voice.
    pub lends: usize,
    /// How often it is tried again with the next seed where it runs away. Only for audio that nobody hears yet.
    pub retries: usize,
}

/// Where requests come from.
pub trait Requests {
    /// The next one; after a `None` there are no more.
    fn next(&mut self) -> Option<Request>;
    /// Whether a request that was held back is still worth speaking.
    fn wanted(&self, _id: usize) -> bool {
        true
    }
}

impl<I: Iterator<Item = Request>> Requests for I {
    fn next(&mut self) -> Option<Request> {
        Iterator::next(self)
    }
}

/// How an utterance went.
#[derive(Clone, Debug)]
pub struct Report {
    /// Samples spoken.
    pub samples: usize,
    /// Autoregressive steps taken.
    pub steps: usize,
    /// How often it was tried again; samples and steps are those of the last time.
    pub retries: usize,
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
    /// The request ran away and begins anew: its samples so far are void.
    Again {
        /// The request's number.
        id: usize,
        /// The seed of the new try.
        seed: u64,
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
/// What it says depends on itself alone, and on the request whose voice it takes: not on its slot, its mates or when it
/// was admitted. Where that request failed, it fails too; where the model cannot lend voices, it goes without.
///
/// # Errors
/// A failing device, or an error of `on`. A request that fails is an event, and the others go on.
pub fn run(
    speaker: &mut dyn Speaker,
    requests: &mut dyn Requests,
    slots: usize,
    on: &mut dyn FnMut(Event) -> Result<Flow>,
) -> Result<()> {
    let slots = slots.clamp(1, speaker.slots().max(1));
    let mut run = Run { speaker, requests, slots, on, live: Vec::new(), queue: Queue::default() };
    let outcome = run.drive();
    // Whatever happened, the speaker is left empty.
    for request in run.live {
        run.speaker.retire(request.slot)?;
    }
    outcome
}

/// A run under way.
struct Run<'a> {
    speaker: &'a mut dyn Speaker,
    requests: &'a mut dyn Requests,
    slots: usize,
    on: &'a mut dyn FnMut(Event) -> Result<Flow>,
    live: Vec<Live>,
    queue: Queue,
}

/// A request in its slot.
struct Live {
    id: usize,
    slot: usize,
    utterance: Utterance,
    lends: usize,
    retries_left: usize,
    retries: usize,
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
            retries: self.retries,
            stop,
            first_audio: self.first_audio,
            wall: self.admitted.elapsed(),
        }
    }
}

/// Requests that wait for a voice, and the voices they wait for.
#[derive(Default)]
struct Queue {
    /// No more requests come.
    closed: bool,
    held: VecDeque<Request>,
    /// By the request that spoke.
    voices: HashMap<usize, Loan>,
}

/// What a request that ended left to others.
struct Loan {
    voice: Voice,
    /// How many are still to take it.
    left: usize,
}

#[derive(Clone)]
enum Voice {
    Heard(Arc<Latents>),
    /// The model cannot lend voices.
    Unknown,
    /// The request failed.
    Failed,
}

impl Queue {
    /// A request that need not wait any longer, with the voice it waited for.
    fn ready(&mut self, requests: &mut dyn Requests) -> Option<(Request, Option<Voice>)> {
        loop {
            let voices = &self.voices;
            let waited = |request: &Request| request.voice_of.is_none_or(|lender| voices.contains_key(&lender));
            if let Some(request) = self.held.iter().position(waited).and_then(|i| self.held.remove(i)) {
                let voice = request.voice_of.and_then(|lender| self.take(lender));
                // Those that wait for it learn that nothing comes.
                if !requests.wanted(request.id) {
                    self.lend(request.id, request.lends, Voice::Failed);
                    continue;
                }
                return Some((request, voice));
            }
            if self.closed {
                return None;
            }
            match requests.next() {
                Some(request) if request.voice_of.is_some() => self.held.push_back(request),
                Some(request) => return Some((request, None)),
                None => self.closed = true,
            }
        }
    }

    /// One of the loans of `lender`; the last one leaves nothing.
    fn take(&mut self, lender: usize) -> Option<Voice> {
        let loan = self.voices.get_mut(&lender)?;
        loan.left = loan.left.saturating_sub(1);
        let voice = loan.voice.clone();
        if loan.left == 0 {
            self.voices.remove(&lender);
        }
        Some(voice)
    }

    fn lend(&mut self, id: usize, lends: usize, voice: Voice) {
        if lends > 0 {
            self.voices.insert(id, Loan { voice, left: lends });
        }
    }
}

impl Run<'_> {
    fn drive(&mut self) -> Result<()> {
        let mut heard = false;
        loop {
            let room = if heard { self.slots } else { 1 };
            while self.live.len() < room {
                let Some((request, voice)) = self.queue.ready(self.requests) else { break };
                match self.admit(request, voice)? {
                    Flow::Continue => {}
                    Flow::Drain => self.close(),
                    Flow::Stop => return Ok(()),
                }
            }
            if self.live.is_empty() {
                return self.give_up_waiting();
            }
            match self.step()? {
                Flow::Continue => {}
                Flow::Drain => self.close(),
                Flow::Stop => return Ok(()),
            }
            heard |= self.live.iter().any(|request| request.first_audio.is_some());
        }
    }

    /// Admits nothing more.
    fn close(&mut self) {
        self.queue.closed = true;
        self.queue.held.clear();
    }

    /// Nothing is live and nothing is ready: whoever still waits, waits for a voice that never was.
    fn give_up_waiting(&mut self) -> Result<()> {
        for request in std::mem::take(&mut self.queue.held) {
            let error = Error::new("the utterance whose voice it takes was never spoken");
            (self.on)(Event::Failed { id: request.id, error })?;
        }
        Ok(())
    }

    /// Gives the request the lowest free slot.
    fn admit(&mut self, request: Request, voice: Option<Voice>) -> Result<Flow> {
        let Request { id, mut utterance, lends, retries, .. } = request;
        let fit = match voice {
            Some(Voice::Failed) => Err(Error::new("the utterance whose voice it takes failed")),
            Some(Voice::Heard(latents)) => {
                utterance.reference = Some(latents);
                self.speaker.check(&utterance)
            }
            Some(Voice::Unknown) | None => self.speaker.check(&utterance),
        };
        if let Err(error) = fit {
            self.queue.lend(id, lends, Voice::Failed);
            return (self.on)(Event::Failed { id, error });
        }
        let Some(slot) = (0..self.slots).find(|slot| self.live.iter().all(|l| l.slot != *slot)) else {
            return Err(Error::new("a request was admitted without a free slot"));
        };
        let admitted = Instant::now();
        let flow = (self.on)(Event::Started { id })?;
        if flow == Flow::Stop {
            return Ok(flow);
        }
        self.speaker.admit(slot, &utterance)?;
        // Without chance another try would end like the first.
        let retries_left = if utterance.temperature == Some(0.0) { 0 } else { retries };
        self.live.push(Live {
            id,
            slot,
            utterance,
            lends,
            retries_left,
            retries: 0,
            admitted,
            first_audio: None,
            samples: 0,
            steps: 0,
        });
        Ok(flow)
    }

    /// One step of all live requests; the strictest wish of the caller counts.
    fn step(&mut self) -> Result<Flow> {
        let slots: Vec<usize> = self.live.iter().map(|l| l.slot).collect();
        let steps = self.speaker.step(&slots)?;
        let mut flow = Flow::Continue;
        let mut ended = Vec::new();
        for (request, step) in self.live.iter_mut().zip(steps) {
            request.steps += 1;
            if !step.audio.is_empty() {
                request.samples += step.audio.len();
                request.first_audio.get_or_insert_with(|| request.admitted.elapsed());
                flow = flow.max((self.on)(Event::Audio { id: request.id, samples: step.audio })?);
            }
            match step.end {
                Some(Stop::Runaway) if request.retries_left > 0 && flow != Flow::Stop => {
                    request.retries_left -= 1;
                    request.retries += 1;
                    (request.samples, request.steps) = (0, 0);
                    request.utterance.seed = request.utterance.seed.wrapping_add(1);
                    self.speaker.retire(request.slot)?;
                    self.speaker.admit(request.slot, &request.utterance)?;
                    let event = Event::Again { id: request.id, seed: request.utterance.seed };
                    flow = flow.max((self.on)(event)?);
                }
                Some(stop) => {
                    ended.push(request.slot);
                    let (event, voice) = if request.samples == 0 {
                        let error = Error::new("the model ended the utterance before any audio")
                            .hint("try another seed, or more words");
                        (Event::Failed { id: request.id, error }, Voice::Failed)
                    } else {
                        let spoken = if request.lends > 0 { self.speaker.spoken(request.slot) } else { None };
                        let voice = spoken.map_or(Voice::Unknown, |latents| Voice::Heard(Arc::new(latents)));
                        (Event::Done { id: request.id, report: request.report(stop) }, voice)
                    };
                    self.queue.lend(request.id, request.lends, voice);
                    flow = flow.max((self.on)(event)?);
                }
                None => {}
            }
            if flow == Flow::Stop {
                break;
            }
        }
        for slot in ended {
            self.speaker.retire(slot)?;
            self.live.retain(|l| l.slot != slot);
        }
        Ok(flow)
    }
}

#[cfg(test)]
mod tests;
