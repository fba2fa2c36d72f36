//! TinyAya (rumik-oss-1): text to 24 kHz speech, one codec token a step.
//!
//! ```text
//! prompt   [BOS]<text>{SPEAKER}: <description="{STYLE}"> {TEXT}<audio>
//! step     f, logits, stop = backbone(last token)            100 steps a second of audio
//!          step < 8:        choose among the units
//!          stop > 0:        </audio>
//!          otherwise:       choose among the units and </audio>
//! frame    Q units in the order of their quantizers  ->  Mimi  ->  1920 samples
//! ```
//!
//! The stop head reads the same normed state as the logits and ends the audio before one more unit is emitted; an
//! incomplete last frame is dropped. Only the rows of the tied embedding that can be emitted are multiplied.
//! Sources: the published configuration and tensor list of rumik-oss-1; `Cohere2Model` and `MimiModel` of transformers.

mod backbone;
mod config;
mod frames;
mod prompt;
mod weights;

pub use config::{Advice, AudioIds, Config};
pub use prompt::Prompter;

use std::collections::VecDeque;

use self::backbone::{Backbone, Heads};
use self::frames::Assembler;
use self::weights::Weights;
use super::{Mark, Options, Speaker, Step, Stop, Utterance};
use crate::checkpoint::Checkpoint;
use crate::codecs::mimi::{self, Chunk, Mimi};
use crate::compute::{Activations, Choice, Compute, ReadRate, Rows, Segment};
use crate::error::{Error, Result};

/// So many tokens are emitted before an utterance may end: one frame.
const MIN_TOKENS: usize = 8;
/// The longest utterance the model was made for, in tokens (30.7 s).
const MAX_TOKENS: usize = 3072;

/// A loaded TinyAya model on one device.
pub struct TinyAya<C: Compute> {
    compute: C,
    config: Config,
    ids: AudioIds,
    prompter: Prompter,
    backbone: Backbone<C>,
    codec: Mimi<C>,
    codec_chunk: usize,
    slots: Vec<Option<Slot>>,
    mark: Option<Mark>,
}

/// An utterance under way.
struct Slot {
    position: usize,
    step: usize,
    last: u32, // token to feed next
    assembler: Assembler,
    frames: VecDeque<Vec<u32>>, // complete, not decoded yet
    decoded: usize,             // frames
    max_tokens: usize,
    limit: Stop, // what max_tokens stands for
    temperature: f32,
    top_k: usize,
    seed: u64,
    end: Option<Stop>,
}

impl<C: Compute> TinyAya<C> {
    /// Loads the model from a checkpoint of this layout.
    ///
    /// # Errors
    /// Everything that is wrong with the checkpoint, and what the device can refuse.
    pub fn load(checkpoint: &Checkpoint, compute: C, options: &Options) -> Result<Self> {
        let config = Config::read(checkpoint)?;
        let codec_config = mimi::Config::read(&checkpoint.json("codec/config.json")?)?;
        let prompter = Prompter::read(checkpoint, &config)?;
        let ids = prompter.ids();
        if codec_config.codebook < ids.codebook {
            return Err(Error::new(format!(
                "`{}/codec/config.json` has {} codes a codebook, the model emits {}",
                checkpoint.origin(),
                codec_config.codebook,
                ids.codebook
            ))
            .hint("take codec/ from the same repository as the model"));
        }
        let frame_rate = f64::from(codec_config.sample_rate) / codec_config.frame_samples() as f64;
        if (config.frame_rate - frame_rate).abs() > 1e-3 {
            let why = format!("is {}, but the codec has {frame_rate} frames a second", config.frame_rate);
            return Err(checkpoint.config().wrong("frame_rate_hz", why));
        }
        let (weights, codec_weights) = checkpoint
            .contract(|c| (Weights::ask(c, &config), mimi::Weights::ask(c, &codec_config, ids.quantizers)))?;
        let activations = options.activations.unwrap_or(Activations::Full);
        let backbone = Backbone::new(&compute, config.clone(), &weights, &ids, options.slots, activations)?;
        let codec = Mimi::new(&compute, codec_config, &codec_weights, ids.quantizers, options.slots)?;
        Ok(Self {
            compute,
            config,
            ids,
            prompter,
            backbone,
            codec,
            codec_chunk: options.codec_chunk.max(1),
            slots: (0..options.slots).map(|_| None).collect(),
            mark: None,
        })
    }

    /// The prompt, and how many tokens may follow it and why not more.
    fn plan(&self, utterance: &Utterance) -> Result<(Vec<u32>, usize, Stop)> {
        let prompt = self.prompter.prompt(utterance)?;
        let room = self.config.max_positions.saturating_sub(prompt.len());
        if room < MIN_TOKENS {
            return Err(Error::new(format!(
                "the prompt has {} tokens and the model holds {} with the audio",
                prompt.len(),
                self.config.max_positions
            ))
            .hint("split the text into shorter utterances"));
        }
        let mut plan = (MAX_TOKENS, Stop::Length);
        if let Some(seconds) = utterance.max_seconds {
            let tokens = f64::from(seconds) * self.config.frame_rate * self.ids.quantizers as f64;
            // 0.08 s is a whole frame, though its f32 lies a little below.
            let tokens = tokens.round();
            if tokens.is_nan() || tokens < MIN_TOKENS as f64 {
                return Err(Error::usage(format!("{seconds} seconds are shorter than one frame of audio"))
                    .hint("allow at least 0.08 seconds"));
            }
            plan.0 = plan.0.min(tokens as usize);
        }
        if room < plan.0 {
            plan = (room, Stop::Context);
        }
        Ok((prompt, plan.0, plan.1))
    }

    /// Tells whoever observes that a part of the step begins.
    fn begin(&mut self, part: &'static str) {
        if let Some(mark) = &mut self.mark {
            mark(part);
        }
    }

    fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        self.slots.get_mut(slot).and_then(Option::as_mut).ok_or_else(|| idle(slot))
    }

    /// Runs the backbone over `ids` and chooses the next token of every segment's slot.
    fn advance(&mut self, ids: &[u32], rows: &Rows) -> Result<()> {
        let Heads { logits, stop, .. } = self.backbone.forward(&self.compute, ids, rows)?;
        let units = self.ids.units();
        let choices = rows
            .segments
            .iter()
            .map(|segment| {
                let slot = self.slot(segment.slot)?;
                Ok(Choice {
                    columns: if slot.step < MIN_TOKENS { units } else { units + 1 },
                    temperature: slot.temperature,
                    top_k: slot.top_k,
                    seed: slot.seed,
                    step: slot.step as u32,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let chosen = self.compute.sample(&logits, &choices)?;
        let stop = self.compute.read(&stop)?;
        let audio = self.ids;
        for ((segment, column), stop) in rows.segments.iter().zip(chosen).zip(stop) {
            let slot = self.slot(segment.slot)?;
            slot.position += segment.len;
            if !stop.is_finite() {
                return Err(Error::new("the model computed a number that is not finite")
                    .hint("the checkpoint may be damaged: try `rtts models verify`"));
            }
            if slot.step >= MIN_TOKENS && stop > 0.0 {
                slot.end = Some(Stop::StopHead);
            } else if column as usize == units {
                slot.end = Some(Stop::EndToken);
            } else {
                slot.last = audio.first_unit + column;
                slot.frames.extend(slot.assembler.push(slot.last, &audio));
            }
            slot.step += 1;
            if slot.end.is_none() && slot.step >= slot.max_tokens {
                slot.end = Some(slot.limit);
            }
        }
        Ok(())
    }

    /// Decodes what is due: the first frames at once, later ones in chunks, everything at the end.
    fn decode(&mut self, live: &[usize]) -> Result<Vec<Vec<f32>>> {
        let mut due = Vec::new(); // (index into live, slot, frames)
        for (index, slot) in live.iter().enumerate() {
            let state = self.slots[*slot].as_mut().ok_or_else(|| idle(*slot))?;
            // Chunks grow with what was already spoken, so that the first sound comes early.
            let chunk = self.codec_chunk.min(state.decoded.max(1));
            if !state.frames.is_empty() && (state.end.is_some() || state.frames.len() >= chunk) {
                let frames: Vec<Vec<u32>> = state.frames.drain(..).collect();
                state.decoded += frames.len();
                due.push((index, *slot, frames));
            }
        }
        let chunks: Vec<Chunk<'_>> = due.iter().map(|(_, slot, frames)| Chunk { slot: *slot, frames }).collect();
        let decoded = self.codec.decode_step(&self.compute, &chunks)?;
        let mut audio = vec![Vec::new(); live.len()];
        for ((index, ..), samples) in due.iter().zip(decoded) {
            audio[*index] = samples;
        }
        Ok(audio)
    }
}

fn idle(slot: usize) -> Error {
    Error::new(format!("slot {slot} holds no utterance"))
}

impl<C: Compute> Speaker for TinyAya<C> {
    fn sample_rate(&self) -> u32 {
        self.codec.config().sample_rate
    }

    fn voices(&self) -> &[String] {
        &self.config.speakers
    }

    fn device(&self) -> String {
        self.compute.describe()
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn positions(&self, slot: usize) -> Option<usize> {
        self.slots.get(slot)?.as_ref().map(|slot| slot.position)
    }

    fn read_rate(&self) -> Result<Option<ReadRate>> {
        self.compute.read_rate()
    }

    fn observe(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    fn longest_text(&self) -> usize {
        self.config.advice.longest_text
    }

    fn words_only(&self) -> bool {
        self.config.advice.words_only
    }

    fn check(&self, utterance: &Utterance) -> Result<()> {
        self.plan(utterance).map(|_| ())
    }

    fn admit(&mut self, slot: usize, utterance: &Utterance) -> Result<()> {
        let (prompt, max_tokens, limit) = self.plan(utterance)?;
        self.backbone.reset(&self.compute, slot)?;
        self.codec.reset(&self.compute, slot)?;
        let advice = self.config.advice;
        self.slots[slot] = Some(Slot {
            position: 0,
            step: 0,
            last: self.ids.audio,
            assembler: Assembler::default(),
            frames: VecDeque::new(),
            decoded: 0,
            max_tokens,
            limit,
            temperature: utterance.temperature.unwrap_or(advice.temperature),
            top_k: utterance.top_k.unwrap_or(advice.top_k),
            seed: utterance.seed,
            end: None,
        });
        let rows = Rows { segments: vec![Segment { slot, start: 0, len: prompt.len() }] };
        self.advance(&prompt, &rows)
    }

    fn step(&mut self, live: &[usize]) -> Result<Vec<Step>> {
        let mut ids = Vec::with_capacity(live.len());
        let mut rows = Rows::default();
        for slot in live {
            let state = self.slot(*slot)?;
            if state.end.is_none() {
                ids.push(state.last);
                rows.segments.push(Segment { slot: *slot, start: state.position, len: 1 });
            }
        }
        if !rows.is_empty() {
            self.begin("backbone");
            self.advance(&ids, &rows)?;
        }
        self.begin("codec");
        let audio = self.decode(live)?;
        live.iter().zip(audio).map(|(slot, audio)| Ok(Step { audio, end: self.slot(*slot)?.end })).collect()
    }

    fn retire(&mut self, slot: usize) -> Result<()> {
        self.slots[slot] = None;
        self.backbone.reset(&self.compute, slot)?;
        self.codec.reset(&self.compute, slot)
    }
}

#[cfg(test)]
mod tests;
