//! The two language models and what hangs on their states (specification 2.4 to 2.6), h the base model's output, f a patch's
//! embedding:
//!
//! ```text
//! e = fsq(h) where there is audio, h where there is text        fsq(h) = out(round(9 tanh(in(h))) / 9)
//! r = residual(fusion([e; f or 0]))
//! of the last position:  mu = [lm_to_dit(e); res_to_dit(r)],  stop = stop_head(silu(stop_proj(e)))
//! ```

use super::config::Config;
use super::locenc::biased;
use super::prompt::Prompt;
use super::stack::{Sight, Stack};
use super::weights::Weights;
use crate::compute::{Activations, Compute, Rows, Segment, View};
use crate::error::Result;

/// The prepared language models, their caches and the last states of all slots.
pub struct Language<C: Compute> {
    hidden: usize,
    quantised: usize,
    levels: f32,
    embedding_scale: f32,
    embedding: C::Table,
    base: Stack<C>,
    residual: Stack<C>,
    base_cache: C::KvCache,
    residual_cache: C::KvCache,
    fsq: [C::Linear; 2],
    fusion: C::Linear,
    to_dit: [C::Linear; 2],
    stop: [C::Linear; 2],
    /// e and r of every slot's last position. `[B, H]` each
    states: [C::Buffer; 2],
    work: Work<C>,
}

struct Work<C: Compute> {
    e: C::Buffer,      // [R, H]
    a: C::Buffer,      // [R, F] or [R, H], passing by
    f: C::Buffer,      // [R, H] embeddings where there is audio, else zero
    joined: C::Buffer, // [R, 2 H]
    mu: [C::Buffer; 2],
}

impl<C: Compute> Language<C> {
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
        let hidden = config.base.hidden;
        let base = Stack::new(compute, config.base.clone(), &weights.base, activations)?;
        let residual = Stack::new(compute, config.residual.clone(), &weights.residual, activations)?;
        let outer = std::slice::from_ref(&weights.stop_outer);
        let state = || {
            let mut state = compute.buffer();
            compute.blank(slots, hidden, &mut state)?;
            Ok(state)
        };
        let buffer = || compute.buffer();
        Ok(Self {
            hidden,
            quantised: config.quantised,
            levels: config.levels,
            embedding_scale: config.embedding_scale,
            embedding: compute.prepare_table(std::slice::from_ref(&weights.embedding))?,
            base_cache: base.cache(compute, slots, config.max_positions)?,
            residual_cache: residual.cache(compute, slots, config.max_positions)?,
            base,
            residual,
            fsq: [biased(compute, &weights.fsq_in)?, biased(compute, &weights.fsq_out)?],
            fusion: biased(compute, &weights.fusion)?,
            to_dit: [biased(compute, &weights.lm_to_dit)?, biased(compute, &weights.res_to_dit)?],
            stop: [biased(compute, &weights.stop_inner)?, compute.prepare_linear(outer, None, Activations::Full)?],
            states: [state()?, state()?],
            work: Work { e: buffer(), a: buffer(), f: buffer(), joined: buffer(), mu: [buffer(), buffer()] },
        })
    }

    /// Forgets a slot.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn reset(&mut self, compute: &C, slot: usize) -> Result<()> {
        compute.reset_kv(&mut self.base_cache, slot)?;
        compute.reset_kv(&mut self.residual_cache, slot)
    }

    /// Reads a prompt into an empty slot. f `[audio positions, H]`
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn prefill(&mut self, compute: &C, slot: usize, prompt: &Prompt, f: &C::Buffer) -> Result<()> {
        let rows = Rows { segments: vec![Segment { slot, start: 0, len: prompt.positions() }] };
        let all: Vec<usize> = (0..prompt.positions()).collect();
        let last = [prompt.positions() - 1];
        compute.embed(&self.embedding, &prompt.ids, 1, self.base.input())?;
        if self.embedding_scale != 1.0 {
            compute.scale(self.base.input(), self.embedding_scale)?;
        }
        compute.blank(prompt.positions(), self.hidden, &mut self.work.f)?;
        if !prompt.audio.is_empty() {
            compute.scatter(f, &prompt.audio, self.base.input())?;
            compute.scatter(f, &prompt.audio, &mut self.work.f)?;
        }
        self.base.run(compute, Sight::Past(&mut self.base_cache), &rows, None)?;
        if !prompt.audio.is_empty() {
            compute.gather(self.base.output(), &prompt.audio, &mut self.work.e)?;
            self.quantise(compute)?;
            std::mem::swap(&mut self.work.e, &mut self.work.a);
        }
        compute.gather(self.base.output(), &all, &mut self.work.e)?;
        if !prompt.audio.is_empty() {
            compute.scatter(&self.work.a, &prompt.audio, &mut self.work.e)?;
        }
        self.fuse(compute)?;
        self.residual.run(compute, Sight::Past(&mut self.residual_cache), &rows, Some(&last))?;
        compute.gather(&self.work.e, &last, &mut self.work.a)?;
        compute.scatter(&self.work.a, &[slot], &mut self.states[0])?;
        compute.scatter(self.residual.output(), &[slot], &mut self.states[1])
    }

    /// Feeds one patch to each of these slots, at the next position of each. f `[S, H]`
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn step(&mut self, compute: &C, slots: &[usize], rows: &Rows, f: &C::Buffer) -> Result<()> {
        let all: Vec<usize> = (0..slots.len()).collect();
        compute.gather(f, &all, self.base.input())?;
        compute.gather(f, &all, &mut self.work.f)?;
        self.base.run(compute, Sight::Past(&mut self.base_cache), rows, None)?;
        compute.gather(self.base.output(), &all, &mut self.work.e)?;
        self.quantise(compute)?;
        self.fuse(compute)?;
        self.residual.run(compute, Sight::Past(&mut self.residual_cache), rows, None)?;
        compute.scatter(&self.work.e, slots, &mut self.states[0])?;
        compute.scatter(self.residual.output(), slots, &mut self.states[1])
    }

    /// The stop head's two logits for each of these slots: go on, stop.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn stop(&mut self, compute: &C, slots: &[usize]) -> Result<Vec<[f32; 2]>> {
        let Work { e, a, .. } = &mut self.work;
        let width = self.hidden;
        compute.gather(&self.states[0], slots, e)?;
        compute.linear(&self.stop[0], View { buffer: e, at: 0, width }, a)?;
        compute.silu(a)?;
        compute.linear(&self.stop[1], View { buffer: a, at: 0, width }, e)?;
        let logits = compute.read(e)?;
        Ok(logits.as_chunks::<2>().0.to_vec())
    }

    /// What LocDiT is told about the next patch of each of these slots. `[S, Hd]` each
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn mu(&mut self, compute: &C, slots: &[usize]) -> Result<[&C::Buffer; 2]> {
        let Work { a, mu, .. } = &mut self.work;
        for ((state, linear), mu) in self.states.iter().zip(&self.to_dit).zip(mu.iter_mut()) {
            compute.gather(state, slots, a)?;
            compute.linear(linear, View { buffer: a, at: 0, width: self.hidden }, mu)?;
        }
        let [base, residual] = mu;
        Ok([base, residual])
    }

    /// e and r of the last positions of all slots. `[B, H]` each
    #[cfg(test)]
    pub fn states(&self) -> &[C::Buffer; 2] {
        &self.states
    }

    /// Finite scalar quantisation of `work.e`, in place.
    fn quantise(&mut self, compute: &C) -> Result<()> {
        let Work { e, a, .. } = &mut self.work;
        compute.linear(&self.fsq[0], View { buffer: e, at: 0, width: self.hidden }, a)?;
        compute.finite_scalar(a, self.levels)?;
        compute.linear(&self.fsq[1], View { buffer: a, at: 0, width: self.quantised }, e)
    }

    /// `work.e` and `work.f` become the residual model's input.
    fn fuse(&mut self, compute: &C) -> Result<()> {
        let Work { e, f, joined, .. } = &mut self.work;
        let width = self.hidden;
        compute.join(View { buffer: e, at: 0, width }, View { buffer: f, at: 0, width }, joined)?;
        compute.linear(&self.fusion, View { buffer: joined, at: 0, width: 2 * width }, self.residual.input())
    }
}
