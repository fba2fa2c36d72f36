//! Patches of latents, one after the other, for many slots at once (specification 4):
//!
//! ```text
//! prompt ─► LocEnc (audio positions) ─► language models
//! next:  mu, stop = language;  patch = LocDiT(noise, mu, patch before)
//! feed:  the language models read LocEnc(patch), unless it was the last
//! ```

use super::config::Config;
use super::language::Language;
use super::locdit::{LocDit, Solve};
use super::locenc::LocEnc;
use super::prompt::Prompt;
use super::weights::Weights;
use crate::compute::{Activations, Compute, Draw, Rows, Segment};
use crate::error::{Error, Result};

/// All of the model but its codec.
pub struct Patches<C: Compute> {
    pub(super) encoder: LocEnc<C>,
    pub(super) language: Language<C>,
    pub(super) decoder: LocDit<C>,
    patch: usize,
    latent: usize,
    /// Every slot's last patch. `[B * P, latent]`
    before: C::Buffer,
    noise: Noise,
    work: Work<C>,
}

/// Where the solver's beginnings come from.
enum Noise {
    /// The request's own random numbers.
    Drawn,
    /// Recorded ones. `[steps, P, latent]`
    #[cfg(test)]
    Recorded(Vec<f32>),
}

struct Work<C: Compute> {
    cond: C::Buffer, // [S * P, latent]
    x: C::Buffer,    // [S * P, latent]
    f: C::Buffer,    // [S, H]
}

/// What is wanted of one slot.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Which.
    pub slot: usize,
    /// The noise to begin from.
    pub draw: Draw,
    /// How to solve.
    pub solve: Solve,
}

/// What one slot got.
#[derive(Clone, Debug)]
pub struct Got {
    /// `[P, latent]`
    pub patch: Vec<f32>,
    /// The stop head's logits: go on, stop.
    pub stop: [f32; 2],
}

impl<C: Compute> Patches<C> {
    /// Prepares the weights for the device.
    ///
    /// # Errors
    /// What the device can refuse: memory above all.
    pub fn new(
        compute: &C,
        config: &Config,
        weights: &Weights,
        slots: usize,
        activations: Activations,
    ) -> Result<Self> {
        let mut before = compute.buffer();
        compute.blank(slots * config.patch, config.latent, &mut before)?;
        Ok(Self {
            encoder: LocEnc::new(compute, config, weights, activations)?,
            language: Language::new(compute, config, weights, slots, activations)?,
            decoder: LocDit::new(compute, config, weights, activations)?,
            patch: config.patch,
            latent: config.latent,
            before,
            noise: Noise::Drawn,
            work: Work { cond: compute.buffer(), x: compute.buffer(), f: compute.buffer() },
        })
    }

    /// Reads a prompt into a slot, which will be solved in so many steps.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn admit(&mut self, compute: &C, slot: usize, prompt: &Prompt, steps: usize) -> Result<()> {
        self.decoder.prepare(compute, steps)?;
        self.language.reset(compute, slot)?;
        let Work { cond, f, x } = &mut self.work;
        let count = prompt.audio.len();
        if count > 0 {
            compute.write(&prompt.patches, self.latent, cond)?;
            self.encoder.run(compute, cond, count, f)?;
        }
        self.language.prefill(compute, slot, prompt, f)?;
        if prompt.continues() {
            let last: Vec<usize> = ((count - 1) * self.patch..count * self.patch).collect();
            compute.gather(cond, &last, x)?;
        } else {
            compute.blank(self.patch, self.latent, x)?;
        }
        compute.scatter(x, &rows([slot], self.patch), &mut self.before)
    }

    /// The next patch of each of these slots.
    ///
    /// # Errors
    /// A number that is not finite, and what the device can refuse.
    pub fn next(&mut self, compute: &C, wants: &[Want]) -> Result<Vec<Got>> {
        let slots: Vec<usize> = wants.iter().map(|want| want.slot).collect();
        let solves: Vec<Solve> = wants.iter().map(|want| want.solve).collect();
        let places = rows(slots.iter().copied(), self.patch);
        let stops = self.language.stop(compute, &slots)?;
        let mu = self.language.mu(compute, &slots)?;
        let Work { cond, x, .. } = &mut self.work;
        compute.gather(&self.before, &places, cond)?;
        self.noise.begin(compute, wants, self.patch, self.latent, x)?;
        self.decoder.solve(compute, mu, cond, &solves, x)?;
        compute.scatter(x, &places, &mut self.before)?;
        let patches = compute.read(x)?;
        let finite = patches.iter().chain(stops.iter().flatten()).all(|value| value.is_finite());
        if !finite {
            return Err(Error::new("the model computed a number that is not finite")
                .hint("the checkpoint may be damaged: try `rtts models verify`"));
        }
        let patches = patches.chunks_exact(self.patch * self.latent);
        Ok(patches.zip(stops).map(|(patch, stop)| Got { patch: patch.to_vec(), stop }).collect())
    }

    /// Embeds the last patch of each of these slots, for [`Patches::feed`].
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn embed(&mut self, compute: &C, slots: &[usize]) -> Result<()> {
        let Work { cond, f, .. } = &mut self.work;
        compute.gather(&self.before, &rows(slots.iter().copied(), self.patch), cond)?;
        self.encoder.run(compute, cond, slots.len(), f)
    }

    /// Lets these slots read what was just embedded of them, each at its position.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn feed(&mut self, compute: &C, slots: &[usize], positions: &[usize]) -> Result<()> {
        let places = slots.iter().zip(positions);
        let segments = places.map(|(slot, start)| Segment { slot: *slot, start: *start, len: 1 }).collect();
        self.language.step(compute, slots, &Rows { segments }, &self.work.f)
    }

    /// Forgets a slot.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn reset(&mut self, compute: &C, slot: usize) -> Result<()> {
        self.language.reset(compute, slot)
    }

    /// Takes the noise from here instead of drawing it. `[steps, P, latent]`
    #[cfg(test)]
    pub fn replay(&mut self, noise: Vec<f32>) {
        self.noise = Noise::Recorded(noise);
    }

    /// Puts another patch in the place of a slot's last one. `[P, latent]`
    #[cfg(test)]
    pub fn teach(&mut self, compute: &C, slot: usize, patch: &[f32]) -> Result<()> {
        compute.write(patch, self.latent, &mut self.work.x)?;
        compute.scatter(&self.work.x, &rows([slot], self.patch), &mut self.before)
    }
}

impl Noise {
    /// x `[S * P, latent]`
    fn begin<C: Compute>(
        &self,
        compute: &C,
        wants: &[Want],
        patch: usize,
        latent: usize,
        x: &mut C::Buffer,
    ) -> Result<()> {
        match self {
            Noise::Drawn => {
                let draws: Vec<Draw> = wants.iter().map(|want| want.draw).collect();
                compute.noise(&draws, patch, latent, x)
            }
            #[cfg(test)]
            Noise::Recorded(noise) => {
                let size = patch * latent;
                let step = |want: &Want| &noise[want.draw.step as usize * size..][..size];
                let values: Vec<f32> = wants.iter().flat_map(|want| step(want).to_vec()).collect();
                compute.write(&values, latent, x)
            }
        }
    }
}

/// The rows of these slots' patches.
fn rows(slots: impl IntoIterator<Item = usize>, patch: usize) -> Vec<usize> {
    slots.into_iter().flat_map(|slot| slot * patch..(slot + 1) * patch).collect()
}
