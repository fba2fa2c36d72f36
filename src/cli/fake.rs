//! A speaker without a model, for tests of what stands around one: a tone for every voice, as long as the text, with
//! noise from the utterance's seed. "unspeakable" in a text is refused beforehand, "silent" fails on the way, and "wild"
//! runs away with an even seed. It can listen, lend its voice and trail off where asked to.

use crate::compute::random::{Purpose, uniform};
use crate::error::{Error, Result};
use crate::models::{Latents, Role, Speaker, Step, Stop, Utterance};

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
    /// It clones voices.
    pub listens: bool,
    /// So many silent steps follow every utterance.
    pub trails: u32,
    /// Recordings it listened to.
    pub listened: usize,
    steps: usize,
}

impl FakeSpeaker {
    /// All slots free.
    pub fn new(slots: usize) -> Self {
        let voices = ["Low", "High"].map(String::from).into();
        let (before_step, fail_at) = (Box::new(|_| ()), None);
        let slots = vec![None; slots];
        Self { voices, slots, before_step, fail_at, listens: false, trails: 0, listened: 0, steps: 0 }
    }

    /// One that clones voices.
    pub fn listening(slots: usize) -> Self {
        Self { listens: true, ..Self::new(slots) }
    }

    /// One whose utterances end in so many silent steps.
    pub fn trailing(slots: usize, trails: u32) -> Self {
        Self { trails, ..Self::new(slots) }
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
    match wanted {
        _ if wanted > most => (most, Stop::Length),
        _ if utterance.text.contains("wild") && utterance.seed.is_multiple_of(2) => (2 * wanted, Stop::Runaway),
        _ => (wanted, Stop::EndToken),
    }
}

/// From the voice, the recording it continues or the one it sounds like.
fn pitch(utterance: &Utterance) -> f32 {
    let recording = utterance.prompt.as_ref().map(|prompt| &prompt.latents).or(utterance.reference.as_ref());
    match (recording, utterance.voice.as_deref()) {
        (Some(latents), _) => latents.values.first().copied().unwrap_or_default(),
        (None, Some("High")) => 0.3,
        (None, _) => 0.1,
    }
}

fn samples(utterance: &Utterance, step: u32) -> Vec<f32> {
    let pitch = pitch(utterance);
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

    fn listens_at(&self) -> Option<u32> {
        self.listens.then_some(16_000)
    }

    /// One frame: a pitch from the recording's length, and what it is for.
    fn listen(&mut self, samples: &[f32], role: Role) -> Result<Latents> {
        self.listened += 1;
        let role = if role == Role::Prompt { 1.0 } else { 0.0 };
        Ok(Latents { values: vec![samples.len() as f32 / 160_000.0, role], dim: 2 })
    }

    fn ear(&self) -> Option<String> {
        self.listens.then(|| "fake ear".into())
    }

    /// A pitch of the voice's own and of the utterance that shows it.
    fn spoken(&self, slot: usize) -> Option<Latents> {
        let (utterance, _) = self.slots.get(slot)?.as_ref()?;
        let shown = pitch(utterance) + utterance.text.len() as f32 / 1000.0 + utterance.seed as f32 / 1e12;
        self.listens.then(|| Latents { values: vec![shown, 0.0], dim: 2 })
    }

    fn trails_off(&self) -> bool {
        self.trails > 0
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
            let (spoken, stop) = steps(utterance);
            let all = if stop == Stop::EndToken { spoken + self.trails } else { spoken };
            let audio = match utterance.text.contains("silent") {
                true => Vec::new(),
                false if *step >= spoken => vec![0.0; STEP],
                false => samples(utterance, *step),
            };
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
