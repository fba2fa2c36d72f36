//! A speaker without a model, for tests of what stands around one: a tone for every voice, as long as the text, with
//! noise from the utterance's seed. "unspeakable" in a text is refused beforehand, "silent" fails on the way.

use crate::compute::random::{Purpose, uniform};
use crate::error::{Error, Result};
use crate::models::{Speaker, Step, Stop, Utterance};

/// Samples of one step.
pub const STEP: usize = 80;

/// Samples per second.
pub const RATE: u32 = 8000;

/// A speaker with `slots` slots.
pub struct FakeSpeaker {
    voices: Vec<String>,
    slots: Vec<Option<(Utterance, u32)>>,
    /// Called before every step with the number of steps so far.
    pub before_step: Box<dyn FnMut(usize) + Send>,
    /// The step at which the device fails.
    pub fail_at: Option<usize>,
    steps: usize,
}

impl FakeSpeaker {
    /// All slots free.
    pub fn new(slots: usize) -> Self {
        let voices = ["Low", "High"].map(String::from).into();
        Self { voices, slots: vec![None; slots], before_step: Box::new(|_| ()), fail_at: None, steps: 0 }
    }

    /// All audio of an utterance.
    pub fn speech(utterance: &Utterance) -> Vec<f32> {
        (0..steps(utterance).0).flat_map(|step| samples(utterance, step)).collect()
    }
}

/// A step for every character, less where `max_seconds` ends it.
fn steps(utterance: &Utterance) -> (u32, Stop) {
    let wanted = utterance.text.chars().count() as u32;
    let most = utterance.max_seconds.map_or(u32::MAX, |s| (s * RATE as f32) as u32 / STEP as u32);
    if wanted <= most { (wanted, Stop::EndToken) } else { (most, Stop::Length) }
}

fn samples(utterance: &Utterance, step: u32) -> Vec<f32> {
    let pitch = if utterance.voice.as_deref() == Some("High") { 0.3 } else { 0.1 };
    let noise = 0.1 * uniform(utterance.seed, step, Purpose::Noise);
    (0..STEP).map(|i| 0.5 * (pitch * (step as usize * STEP + i) as f32).sin() + noise).collect()
}

impl Speaker for FakeSpeaker {
    fn sample_rate(&self) -> u32 {
        RATE
    }

    fn voices(&self) -> &[String] {
        &self.voices
    }

    fn device(&self) -> String {
        "fake".into()
    }

    fn longest_text(&self) -> usize {
        60
    }
    fn words_only(&self) -> bool {
        false
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn check(&self, utterance: &Utterance) -> Result<()> {
        if utterance.text.contains("unspeakable") {
            return Err(Error::new("the text is unspeakable"));
        }
        Ok(())
    }

    fn admit(&mut self, slot: usize, utterance: &Utterance) -> Result<()> {
        self.slots[slot] = Some((utterance.clone(), 0));
        Ok(())
    }

    fn step(&mut self, live: &[usize]) -> Result<Vec<Step>> {
        (self.before_step)(self.steps);
        if self.fail_at == Some(self.steps) {
            return Err(Error::new("the device is gone"));
        }
        self.steps += 1;
        let step = |&slot: &usize| {
            let (utterance, step) = self.slots[slot].as_mut().ok_or(Error::new("a free slot was stepped"))?;
            let (all, stop) = steps(utterance);
            let dumb = utterance.text.contains("silent");
            let audio = if dumb { Vec::new() } else { samples(utterance, *step) };
            *step += 1;
            Ok(Step { audio, end: (*step >= all).then_some(stop) })
        };
        live.iter().map(step).collect()
    }

    fn retire(&mut self, slot: usize) -> Result<()> {
        self.slots[slot] = None;
        Ok(())
    }
}
