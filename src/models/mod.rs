//! The models, each written once against [`crate::compute`], and what the engine asks of one.

use std::sync::Arc;

use crate::checkpoint::{Checkpoint, Layout};
use crate::compute::{Activations, Compute, ReadRate};
use crate::error::{Error, Result};

pub mod tinyaya;
pub mod voxcpm2;

/// How a model is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many utterances can be under way at once.
    pub slots: usize,
    /// How NVFP4 linears take their input; `None` = as the device does it best.
    pub activations: Option<Activations>,
    /// Codec frames decoded at a time once speech is under way. More is faster, fewer is sooner; the samples are the same.
    pub codec_chunk: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { slots: 1, activations: None, codec_chunk: 4 }
    }
}

/// Loads whatever model the checkpoint holds onto a device.
///
/// # Errors
/// Everything that is wrong with the checkpoint, and what the device can refuse.
pub fn load<C: Compute>(checkpoint: &Checkpoint, compute: C, options: &Options) -> Result<Box<dyn Speaker>> {
    match checkpoint.layout() {
        Layout::TinyAya => Ok(Box::new(tinyaya::TinyAya::load(checkpoint, compute, options)?)),
        Layout::VoxCpm2 => Ok(Box::new(voxcpm2::VoxCpm2::load(checkpoint, compute, options)?)),
    }
}

/// Speech in a codec's own numbers: what a model clones a voice from, or continues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latents {
    /// `[frames, D]`
    pub values: Vec<f32>,
    /// D, numbers in a frame.
    pub dim: usize,
}

/// What a recording is for; it decides on which side silence fills it up to whole patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The voice to speak with; silence follows it.
    Reference,
    /// What the utterance continues; silence precedes it.
    Prompt,
}

/// A recording that the utterance continues, and what is said in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The words of the recording.
    pub text: String,
    /// The recording.
    pub latents: Arc<Latents>,
}

/// What to say and how. Fields left `None` take the model's own default.
#[derive(Clone, Debug, Default)]
pub struct Utterance {
    /// The text of one utterance, already split.
    pub text: String,
    /// A speaker of the checkpoint, matched case-insensitively.
    pub voice: Option<String>,
    /// Delivery in words, for example "happy, Hindi accent, steady pace".
    pub style: Option<String>,
    /// All randomness of the utterance comes from here.
    pub seed: u64,
    /// Sampling temperature; 0 = greedy.
    pub temperature: Option<f32>,
    /// How many of the likeliest tokens stay; 0 = all.
    pub top_k: Option<usize>,
    /// Hard limit of the utterance's length, in seconds.
    pub max_seconds: Option<f32>,
    /// A recording whose voice is taken.
    pub reference: Option<Arc<Latents>>,
    /// A recording that is continued.
    pub prompt: Option<Prompt>,
    /// Strength of classifier-free guidance.
    pub cfg: Option<f32>,
    /// Steps of the solver for a latent patch.
    pub solver_steps: Option<usize>,
}

/// Why an utterance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model's stop head fired.
    StopHead,
    /// The model chose its end token.
    EndToken,
    /// `max_seconds`, or the model's own longest utterance, was reached: the audio is cut.
    Length,
    /// The model's context is full: the audio is cut.
    Context,
    /// Far more audio than the text can need: the model has lost its way, and the audio is cut.
    Runaway,
}

impl Stop {
    /// The audio was cut before the model wanted to end.
    pub fn truncated(self) -> bool {
        matches!(self, Stop::Length | Stop::Context | Stop::Runaway)
    }

    /// The word for manifests and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Stop::StopHead => "stop_head",
            Stop::EndToken => "end_token",
            Stop::Length => "length",
            Stop::Context => "context",
            Stop::Runaway => "runaway",
        }
    }
}

/// What one slot did in a step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// New samples, mono, nominally in [-1, 1]; often empty.
    pub audio: Vec<f32>,
    /// The utterance is over; `audio` holds its last samples.
    pub end: Option<Stop>,
}

/// Hears the name of the part of a step that begins. The clock is the listener's: models have none.
pub type Mark = Box<dyn FnMut(&'static str) + Send>;

/// A loaded model that speaks in slots. A slot's audio depends on its own utterance alone.
pub trait Speaker: Send {
    /// Samples per second of the audio.
    fn sample_rate(&self) -> u32;
    /// Names of the checkpoint's speakers; the first is the default.
    fn voices(&self) -> &[String];
    /// One line for people: the device and how it computes.
    fn device(&self) -> String;
    /// Letters, as [`crate::text::spoken_length`] counts them, that one utterance should hold at most; longer text is better
    /// split.
    fn longest_text(&self) -> usize;
    /// The model was trained on words only: numbers, signs and abbreviations are better written out before.
    fn words_only(&self) -> bool;
    /// Samples per second of the recordings it clones from, if it can.
    fn listens_at(&self) -> Option<u32> {
        None
    }
    /// A recording, mono at [`Speaker::listens_at`], in the codec's numbers.
    ///
    /// # Errors
    /// A model that cannot listen, and what the device can refuse.
    fn listen(&mut self, _samples: &[f32], _role: Role) -> Result<Latents> {
        Err(Error::usage("this model does not clone voices").hint("VoxCPM2 does: `-m voxcpm2`"))
    }
    /// Names what encodes recordings: latents fit only a speaker with the same name.
    fn ear(&self) -> Option<String> {
        None
    }
    /// What the slot has said so far, if others can be given its voice by that.
    fn spoken(&self, _slot: usize) -> Option<Latents> {
        None
    }
    /// Utterances may end in silence or breath that is better cut off.
    fn trails_off(&self) -> bool {
        false
    }
    /// How many slots there are.
    fn slots(&self) -> usize;
    /// Positions of the context that the slot has filled, where the model counts them.
    fn positions(&self, _slot: usize) -> Option<usize> {
        None
    }
    /// How fast its device reads memory; measured anew, which takes a moment. `None` where the device cannot tell.
    ///
    /// # Errors
    /// What the device can refuse.
    fn read_rate(&self) -> Result<Option<ReadRate>> {
        Ok(None)
    }
    /// From now on `mark` hears of every part of a step as it begins, where the model tells.
    fn observe(&mut self, _mark: Mark) {}
    /// Checks an utterance (voice, text, style, length against the context) without touching a slot.
    fn check(&self, utterance: &Utterance) -> Result<()>;
    /// Puts an utterance into a free slot and reads its prompt.
    fn admit(&mut self, slot: usize, utterance: &Utterance) -> Result<()>;
    /// One autoregressive step of the slots in `live`, in that order.
    fn step(&mut self, live: &[usize]) -> Result<Vec<Step>>;
    /// Frees a slot, ended or not.
    fn retire(&mut self, slot: usize) -> Result<()>;
}
