//! One run: prompts are read, steps warm up, steps are timed.
//!
//! All slots are admitted before the first step, so that a batch is whole from its first step on. The text of every slot
//! is the same and its seed its own. A slot that ends is filled again at once, which the clock does not see: the figures
//! are those of a full batch throughout.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Bench;
use crate::error::Result;
use crate::models::{Speaker, Utterance};

/// About six seconds of speech.
pub const TEXT: &str = "The library opens at nine and closes at six, and on Sundays it stays closed all day long.";

/// Steps that are waited for a sound after all is timed: a model full of random numbers may never make one.
const PATIENCE: usize = 128;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Runs of a batch size.
    pub repeat: u32,
    /// Steps before the clock starts.
    pub warmup: u32,
    /// Steps that are timed.
    pub timed: u32,
}

impl Plan {
    /// What the flags ask for, with the defaults for steps of this name.
    pub fn new(bench: &Bench, step: &str) -> Self {
        // The codec decodes four frames at a time once four are out: 32 tokens.
        let (warmup, timed) = if step == "token" { (32, 64) } else { (4, 16) };
        Self { repeat: bench.repeat, warmup: bench.warmup.unwrap_or(warmup), timed: bench.timed.unwrap_or(timed) }
    }
}

/// What the clock showed in one run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Reading the prompts of all slots, one after the other.
    pub prefill: Duration,
    /// Positions that the prompts take, all slots together, where the model counts them.
    pub prompt: Option<usize>,
    /// From the beginning until the first audio of each slot that was heard.
    pub first_audio: Vec<Duration>,
    /// The timed steps.
    pub steps: Vec<Duration>,
    /// Their parts, in the order they come, where the model tells them apart.
    pub stages: Vec<(&'static str, Duration)>,
    /// Positions of all slots together, in the mean of the timed steps.
    pub positions: Option<f64>,
}

impl Run {
    /// A timed step in the mean. The mean, as sound is made in some steps only.
    pub fn step(&self) -> Duration {
        self.steps.iter().sum::<Duration>() / self.steps.len().max(1) as u32
    }
}

/// Hears which part of a step begins, and keeps the time of each.
#[derive(Default)]
struct Stages {
    current: Option<(&'static str, Instant)>,
    spent: Vec<(&'static str, Duration)>,
}

impl Stages {
    fn begin(&mut self, part: &'static str) {
        self.end();
        self.current = Some((part, Instant::now()));
    }

    fn end(&mut self) {
        let Some((part, since)) = self.current.take() else { return };
        match self.spent.iter_mut().find(|(name, _)| *name == part) {
            Some((_, spent)) => *spent += since.elapsed(),
            None => self.spent.push((part, since.elapsed())),
        }
    }
}

/// One run of `slots` slots.
///
/// # Errors
/// What the device can refuse. The speaker is left empty unless it failed.
pub fn measure(speaker: &mut dyn Speaker, slots: usize, plan: &Plan, run: u64) -> Result<Run> {
    let live: Vec<usize> = (0..slots).collect();
    let stages = Arc::new(Mutex::new(Stages::default()));
    let heard = Arc::clone(&stages);
    speaker.observe(Box::new(move |part| heard.lock().unwrap_or_else(PoisonError::into_inner).begin(part)));

    let mut out = Run::default();
    let mut seed = run << 32;
    let begun = Instant::now();
    for &slot in &live {
        admit(speaker, slot, &mut seed)?;
    }
    out.prefill = begun.elapsed();
    out.prompt = positions(speaker, &live);

    let mut first = vec![None; slots];
    let mut sum = Some(0);
    let (warmup, timed) = (plan.warmup as usize, plan.timed as usize);
    let mut taken = 0;
    while taken < warmup + timed || (taken < warmup + timed + PATIENCE && first.iter().any(Option::is_none)) {
        let timing = (warmup..warmup + timed).contains(&taken);
        if taken == warmup {
            *stages.lock().unwrap_or_else(PoisonError::into_inner) = Stages::default();
        }
        if timing {
            sum = sum.zip(positions(speaker, &live)).map(|(sum, now): (usize, usize)| sum + now);
        }
        let start = Instant::now();
        let steps = speaker.step(&live)?;
        let took = start.elapsed();
        if timing {
            out.steps.push(took);
            let mut stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
            stages.end();
            out.stages = stages.spent.clone();
        }
        taken += 1;
        for (&slot, step) in live.iter().zip(&steps) {
            if !step.audio.is_empty() {
                first[slot].get_or_insert_with(|| begun.elapsed());
            }
            if step.end.is_some() {
                speaker.retire(slot)?;
                admit(speaker, slot, &mut seed)?;
            }
        }
    }
    out.positions = sum.map(|sum| sum as f64 / timed.max(1) as f64);
    out.first_audio = first.into_iter().flatten().collect();
    for slot in live {
        speaker.retire(slot)?;
    }
    Ok(out)
}

/// The next utterance, with a seed of its own.
fn admit(speaker: &mut dyn Speaker, slot: usize, seed: &mut u64) -> Result<()> {
    *seed += 1;
    speaker.admit(slot, &Utterance { text: TEXT.to_owned(), seed: *seed, ..Utterance::default() })
}

fn positions(speaker: &dyn Speaker, live: &[usize]) -> Option<usize> {
    live.iter().map(|&slot| speaker.positions(slot)).sum()
}
