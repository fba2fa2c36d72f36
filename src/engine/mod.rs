//! Requests in slots: admitted as slots fall free, stepped as one batch, retired as they end.

use std::time::Duration;

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

/// What the caller wants after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
/// # Errors
/// A failing device or an error of `on`; a failing request is an event, not an error.
pub fn run(
    speaker: &mut dyn Speaker,
    requests: &mut dyn Iterator<Item = Request>,
    slots: usize,
    on: &mut dyn FnMut(Event) -> Result<Flow>,
) -> Result<()> {
    let _ = (speaker, requests, slots, on);
    Err(Error::new("the engine is not built yet"))
}
