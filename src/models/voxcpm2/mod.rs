//! VoxCPM2: text to 48 kHz speech, one patch of continuous latents a step (0.16 s).
//!
//! ```text
//! text ids ─ embed ─┐
//!                   ├─► base (causal) ─► h ─► FSQ where there is audio ─► e
//! patches ─ LocEnc ─┴─ f ─────────────────────────────────────────────┐  │
//!                                        fusion([e; f]) ◄─────────────┴──┘
//!                                        residual (causal, no positions) ─► r
//! patch = LocDiT(noise, lm_to_dit(e), res_to_dit(r), patch before)        10 Euler steps with guidance
//! stop  = argmax stop_head(silu(stop_proj(e)))                            of the state that made the patch
//! patches ─► AudioVAE decoder ─► 7680 samples each
//! ```
//!
//! Everything is computed in f32 on the checkpoint's weights, as the official program does when it is told to. Where a
//! recording is continued, its last patches go through the decoder first and what they sound like is dropped: speech then
//! begins as the official whole decoding does, which the official streaming does not.
//! Sources: the official `voxcpm` package; the published configuration and tensor list of openbmb/VoxCPM2.

mod config;
mod language;
mod limits;
mod locdit;
mod locenc;
mod patches;
mod prompt;
mod stack;
mod times;
mod tokenizer;
mod weights;

use std::fmt::Write;

use sha2::{Digest, Sha256};

use self::config::Config;
use self::limits::{Limits, MIN_PATCHES};
use self::patches::{Patches, Want};
use self::prompt::{Prompt, prompt};
use self::tokenizer::Tokenizer;
use self::weights::Weights;
use super::{Latents, Mark, Options, Role, Speaker, Step, Stop, Utterance};
use crate::checkpoint::Checkpoint;
use crate::codecs::audiovae::{self, AudioVae, Chunk};
use crate::compute::{Activations, Compute, Draw, ReadRate};
use crate::error::{Error, Result};

/// So many patches of a continued recording set the decoder's state.
const CONTEXT: usize = 3;
/// Letters of one utterance, as [`spoken_length`](crate::text::spoken_length) counts them: about 20 seconds. The model
/// takes minutes in one pass, but speeds up, drifts from its voice and forgets to stop the longer it speaks; a few
/// sentences at a time do none of that and still leave it the run of a paragraph.
const LONGEST_TEXT: usize = 300;
/// The parts of the codec that tell one training of it from another.
const EAR: [&str; 2] = ["audiovae/encoder.fc_mu.", "audiovae/encoder.block.0."];

/// A loaded VoxCPM2 model on one device.
pub struct VoxCpm2<C: Compute> {
    compute: C,
    config: Config,
    tokenizer: Tokenizer,
    patches: Patches<C>,
    codec: AudioVae<C>,
    ear: String,
    slots: Vec<Option<Slot>>,
    mark: Option<Mark>,
}

/// An utterance under way.
struct Slot {
    /// The position of the next patch.
    position: usize,
    /// Patches so far.
    count: usize,
    /// `[count * P, latent]`
    said: Vec<f32>,
    limits: Limits,
    seed: u64,
    end: Option<Stop>,
}

impl<C: Compute> VoxCpm2<C> {
    /// Loads the model from a checkpoint of this layout.
    ///
    /// # Errors
    /// Everything that is wrong with the checkpoint, and what the device can refuse.
    pub fn load(checkpoint: &Checkpoint, compute: C, options: &Options) -> Result<Self> {
        let config = Config::read(checkpoint)?;
        let codec_config = audiovae::Config::read(checkpoint.config())?;
        if codec_config.latent_dim != config.latent {
            let why = format!("is {}, but the codec's frames have {}", config.latent, codec_config.latent_dim);
            return Err(checkpoint.config().wrong("feat_dim", why));
        }
        let tokenizer = Tokenizer::read(checkpoint, config.vocabulary)?;
        let (weights, codec_weights) =
            checkpoint.contract(|c| (Weights::ask(c, &config), audiovae::Weights::ask(c, &codec_config)))?;
        let activations = options.activations.unwrap_or(Activations::Full);
        Ok(Self {
            patches: Patches::new(&compute, &config, &weights, options.slots, activations)?,
            codec: AudioVae::new(&compute, codec_config, &codec_weights, options.slots)?,
            ear: ear(checkpoint),
            compute,
            config,
            tokenizer,
            slots: (0..options.slots).map(|_| None).collect(),
            mark: None,
        })
    }

    /// The prompt and how long the utterance may get.
    fn plan(&self, utterance: &Utterance) -> Result<(Prompt, Limits)> {
        let prompt = prompt(&self.tokenizer, &self.config, utterance)?;
        let codec = self.codec.config();
        let samples = self.config.patch * codec.hop_out;
        let seconds = samples as f64 / f64::from(codec.sample_rate_out);
        let limits = Limits::of(utterance, &prompt, &self.config, seconds)?;
        Ok((prompt, limits))
    }

    /// Tells whoever observes that a part of the step begins.
    fn begin(&mut self, part: &'static str) {
        if let Some(mark) = &mut self.mark {
            mark(part);
        }
    }

    fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        self.slots
            .get_mut(slot)
            .and_then(Option::as_mut)
            .ok_or_else(|| Error::new(format!("slot {slot} holds no utterance")))
    }
}

/// A name for what turns recordings into latents, from its weights.
fn ear(checkpoint: &Checkpoint) -> String {
    let mut hash = Sha256::new();
    for (name, tensor) in checkpoint.tensors().filter(|(name, _)| EAR.iter().any(|part| name.starts_with(part))) {
        hash.update(name);
        hash.update(&*tensor.bytes);
    }
    let mut ear = "audiovae-".to_owned();
    for byte in &hash.finalize()[..8] {
        // Writing into a text cannot fail.
        let _ = write!(ear, "{byte:02x}");
    }
    ear
}

impl<C: Compute> Speaker for VoxCpm2<C> {
    fn sample_rate(&self) -> u32 {
        self.codec.config().sample_rate_out
    }

    fn voices(&self) -> &[String] {
        &[]
    }

    fn device(&self) -> String {
        self.compute.describe()
    }

    fn longest_text(&self) -> usize {
        LONGEST_TEXT
    }

    /// The stop head fires some patches after the last word.
    fn trails_off(&self) -> bool {
        true
    }

    fn words_only(&self) -> bool {
        false
    }

    fn listens_at(&self) -> Option<u32> {
        Some(self.codec.config().sample_rate_in)
    }

    fn listen(&mut self, samples: &[f32], role: Role) -> Result<Latents> {
        self.codec.encode(&self.compute, samples, role, self.config.patch)
    }

    fn ear(&self) -> Option<String> {
        Some(self.ear.clone())
    }

    fn spoken(&self, slot: usize) -> Option<Latents> {
        let said = &self.slots.get(slot)?.as_ref()?.said;
        (!said.is_empty()).then(|| Latents { values: said.clone(), dim: self.config.latent })
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

    fn check(&self, utterance: &Utterance) -> Result<()> {
        self.plan(utterance).map(|_| ())
    }

    fn admit(&mut self, slot: usize, utterance: &Utterance) -> Result<()> {
        let (prompt, limits) = self.plan(utterance)?;
        self.codec.reset(&self.compute, slot)?;
        self.patches.admit(&self.compute, slot, &prompt, limits.solve.steps)?;
        if prompt.continues() {
            let size = CONTEXT * self.config.patch * self.config.latent;
            let latents = &prompt.patches[prompt.patches.len().saturating_sub(size)..];
            self.codec.decode_step(&self.compute, &[Chunk { slot, latents }])?;
        }
        self.slots[slot] = Some(Slot {
            position: prompt.positions(),
            count: 0,
            said: Vec::new(),
            limits,
            seed: utterance.seed,
            end: None,
        });
        Ok(())
    }

    fn step(&mut self, live: &[usize]) -> Result<Vec<Step>> {
        let mut wants = Vec::with_capacity(live.len());
        for slot in live {
            let state = self.slot(*slot)?;
            if state.end.is_none() {
                let Limits { solve, temperature, .. } = state.limits;
                let draw = Draw { seed: state.seed, step: state.count as u32, scale: temperature };
                wants.push(Want { slot: *slot, draw, solve });
            }
        }
        self.begin("locdit");
        let got = if wants.is_empty() { Vec::new() } else { self.patches.next(&self.compute, &wants)? };
        let (mut going, mut positions) = (Vec::with_capacity(wants.len()), Vec::with_capacity(wants.len()));
        for (want, got) in wants.iter().zip(&got) {
            let state = self.slot(want.slot)?;
            state.said.extend_from_slice(&got.patch);
            state.count += 1;
            let [on, stop] = got.stop;
            if stop > on && state.count > MIN_PATCHES {
                state.end = Some(Stop::StopHead);
            } else if state.count >= state.limits.patches {
                state.end = Some(state.limits.stop);
            } else {
                going.push(want.slot);
                positions.push(state.position);
                state.position += 1;
            }
        }
        if !going.is_empty() {
            self.begin("locenc");
            self.patches.embed(&self.compute, &going)?;
            self.begin("language");
            self.patches.feed(&self.compute, &going, &positions)?;
        }
        self.begin("codec");
        let chunks: Vec<Chunk<'_>> =
            wants.iter().zip(&got).map(|(want, got)| Chunk { slot: want.slot, latents: &got.patch }).collect();
        let mut decoded = self.codec.decode_step(&self.compute, &chunks)?.into_iter();
        live.iter()
            .map(|slot| {
                let stepped = wants.iter().any(|want| want.slot == *slot);
                let audio = if stepped { decoded.next().unwrap_or_default() } else { Vec::new() };
                Ok(Step { audio, end: self.slot(*slot)?.end })
            })
            .collect()
    }

    fn retire(&mut self, slot: usize) -> Result<()> {
        self.slots[slot] = None;
        self.patches.reset(&self.compute, slot)?;
        self.codec.reset(&self.compute, slot)
    }
}

#[cfg(test)]
mod tests;
