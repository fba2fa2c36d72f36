//! LocDiT: the solver that makes a patch of noise, and the network that tells it the velocity.
//!
//! ```text
//! tokens(x, mu, t) = [mu₁; mu₂; T(t); cond_proj(patch before) × P; in_proj(x) × P]     rows that see each other
//! v(x, mu, t)      = out_proj(stack(tokens)[last P])
//! T(t)             = time_mlp(sines(t)) + delta_time_mlp(sines(0))
//!
//! x = noise
//! at each time:  v⁺ = v(x, mu, t);  v⁻ = v(x, 0, t)                                    one batch
//!                a = <v⁺, v⁻> / <v⁻, v⁻>;  x = x - dt (a v⁻ + cfg (v⁺ - a v⁻))
//! ```
//!
//! T depends on the time alone, and the times on the number of steps: a table is made once for each number. What stands for
//! the patch before does not change while a patch is solved. In the last layer only the rows of x go on after attention.

use std::collections::BTreeMap;

use super::config::Config;
use super::locenc::{biased, groups};
use super::stack::{Sight, Stack};
use super::times::{Time, embedding, times};
use super::weights::{Biased, Weights};
use crate::compute::{Activations, Compute, Guidance, View};
use crate::error::{Error, Result};
use crate::matrix::PlainMatrix;

/// Rows before those of the patches: mu₁, mu₂ and T.
const HEAD: usize = 3;
/// The row of T.
const TIME: usize = 2;

/// How one patch is solved.
#[derive(Clone, Copy, Debug)]
pub struct Solve {
    /// Steps of the solver.
    pub steps: usize,
    /// Strength of the guidance.
    pub cfg: f32,
}

/// The prepared estimator with its working buffers.
pub struct LocDit<C: Compute> {
    patch: usize,
    latent: usize,
    hidden: usize,
    input: C::Linear,
    cond: C::Linear,
    output: C::Linear,
    time: [C::Linear; 2],
    /// `delta_time_mlp(sines(0))`, `[Hd]`
    delta: Vec<f32>,
    stack: Stack<C>,
    /// By number of steps.
    schedules: BTreeMap<usize, Schedule<C>>,
    work: Work<C>,
}

/// The times of one number of steps, and T for each. `[times, Hd]`
struct Schedule<C: Compute> {
    times: Vec<Time>,
    tokens: C::Table,
}

struct Work<C: Compute> {
    still: C::Buffer, // [2 S * group, Hd] the tokens that stay while a patch is solved
    rows: C::Buffer,  // [S * P, Hd] what is put among the tokens
    x: C::Buffer,     // [A * P, latent] the patches that are not done yet, where some are
    v: C::Buffer,     // [2 A * P, latent] velocities
}

impl<C: Compute> LocDit<C> {
    /// Prepares the weights for the device.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn new(compute: &C, config: &Config, weights: &Weights, activations: Activations) -> Result<Self> {
        let w = &weights.decoder;
        let hidden = config.decoder.hidden;
        let delta = mlp(compute, &both(compute, &w.delta)?, &embedding(0.0, hidden), hidden)?;
        Ok(Self {
            patch: config.patch,
            latent: config.latent,
            hidden,
            input: biased(compute, &w.input)?,
            cond: biased(compute, &w.cond)?,
            output: biased(compute, &w.output)?,
            time: both(compute, &w.time)?,
            delta,
            stack: Stack::new(compute, config.decoder.clone(), &w.stack, activations)?,
            schedules: BTreeMap::new(),
            work: Work { still: compute.buffer(), rows: compute.buffer(), x: compute.buffer(), v: compute.buffer() },
        })
    }

    /// Makes the table for a number of steps, unless there is one.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn prepare(&mut self, compute: &C, steps: usize) -> Result<()> {
        if self.schedules.contains_key(&steps) {
            return Ok(());
        }
        let times = times(steps);
        let sines: Vec<f32> = times.iter().flat_map(|time| embedding(time.t, self.hidden)).collect();
        let mut tokens = mlp(compute, &self.time, &sines, self.hidden)?;
        for token in tokens.chunks_exact_mut(self.hidden) {
            token.iter_mut().zip(&self.delta).for_each(|(token, delta)| *token += delta);
        }
        let tokens = compute.prepare_table(&[PlainMatrix::from_f32(times.len(), self.hidden, &tokens)])?;
        self.schedules.insert(steps, Schedule { times, tokens });
        Ok(())
    }

    /// Turns the noise in x into patches: `solves.len()` of them, S. mu `[S, Hd]` each, cond and x `[S * P, latent]`
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn solve(
        &mut self,
        compute: &C,
        mu: [&C::Buffer; 2],
        cond: &C::Buffer,
        solves: &[Solve],
        x: &mut C::Buffer,
    ) -> Result<()> {
        self.begin(compute, mu, cond, solves.len())?;
        let counts =
            solves.iter().map(|solve| Ok(self.schedule(solve.steps)?.times.len())).collect::<Result<Vec<_>>>()?;
        for at in 0..counts.iter().copied().max().unwrap_or(0) {
            let open: Vec<usize> = (0..solves.len()).filter(|i| at < counts[*i]).collect();
            let guidance = open
                .iter()
                .map(|i| Ok(Guidance { cfg: solves[*i].cfg, dt: self.schedule(solves[*i].steps)?.times[at].dt }))
                .collect::<Result<Vec<_>>>()?;
            if open.len() == solves.len() {
                self.velocities(compute, solves, &open, at, x)?;
                compute.guided_step(x, &self.work.v, self.patch, &guidance)?;
            } else {
                // Patches with fewer steps are done: the others go on without them.
                let rows: Vec<usize> = open.iter().flat_map(|i| i * self.patch..(i + 1) * self.patch).collect();
                let mut some = std::mem::replace(&mut self.work.x, compute.buffer());
                compute.gather(x, &rows, &mut some)?;
                self.velocities(compute, solves, &open, at, &some)?;
                compute.guided_step(&mut some, &self.work.v, self.patch, &guidance)?;
                compute.scatter(&some, &rows, x)?;
                self.work.x = some;
            }
        }
        Ok(())
    }

    /// Lays out the tokens that stay: mu in the first half of the groups only, the patch before in both.
    ///
    /// # Errors
    /// What the device can refuse.
    pub(super) fn begin(&mut self, compute: &C, mu: [&C::Buffer; 2], cond: &C::Buffer, count: usize) -> Result<()> {
        let group = self.group();
        let Work { still, rows, .. } = &mut self.work;
        compute.blank(2 * count * group, self.hidden, still)?;
        for (row, mu) in mu.into_iter().enumerate() {
            let to: Vec<usize> = (0..count).map(|i| i * group + row).collect();
            compute.scatter(mu, &to, still)?;
        }
        compute.linear(&self.cond, View { buffer: cond, at: 0, width: self.latent }, rows)?;
        for half in [0, count] {
            compute.scatter(rows, &places(half..half + count, group, HEAD, self.patch), still)?;
        }
        Ok(())
    }

    /// The velocities of the `open` ones of the patches at their time number `at`: with mu, then without.
    /// x `[A * P, latent]`, result `[2 A * P, latent]`
    ///
    /// # Errors
    /// What the device can refuse.
    pub(super) fn velocities(
        &mut self,
        compute: &C,
        solves: &[Solve],
        open: &[usize],
        at: usize,
        x: &C::Buffer,
    ) -> Result<&C::Buffer> {
        let (group, count) = (self.group(), open.len());
        let Self { patch, latent, hidden, schedules, stack, work, .. } = self;
        let still = [0, solves.len()].map(|half| open.iter().map(move |i| half + i));
        let still: Vec<usize> = still.into_iter().flatten().flat_map(|i| i * group..(i + 1) * group).collect();
        compute.gather(&work.still, &still, stack.input())?;
        compute.linear(&self.input, View { buffer: x, at: 0, width: *latent }, &mut work.rows)?;
        for half in [0, count] {
            let to = places(half..half + count, group, HEAD + *patch, *patch);
            compute.scatter(&work.rows, &to, stack.input())?;
        }
        for (steps, schedule) in schedules.iter() {
            let timed = open.iter().enumerate().filter(|(_, i)| solves[**i].steps == *steps);
            let to: Vec<usize> = timed.flat_map(|(i, _)| [i, count + i]).map(|i| i * group + TIME).collect();
            if !to.is_empty() {
                compute.embed(&schedule.tokens, &vec![at as u32; to.len()], 1, &mut work.rows)?;
                compute.scatter(&work.rows, &to, stack.input())?;
            }
        }
        let keep = places(0..2 * count, group, HEAD + *patch, *patch);
        stack.run(compute, Sight::Group(group), &groups(2 * count, group), Some(&keep))?;
        compute.linear(&self.output, View { buffer: stack.output(), at: 0, width: *hidden }, &mut work.v)?;
        Ok(&work.v)
    }

    /// Rows that see each other.
    fn group(&self) -> usize {
        HEAD + 2 * self.patch
    }

    fn schedule(&self, steps: usize) -> Result<&Schedule<C>> {
        self.schedules.get(&steps).ok_or_else(|| Error::new(format!("no times were prepared for {steps} solver steps")))
    }
}

/// Rows `at .. at + len` of each of these groups.
fn places(groups: std::ops::Range<usize>, group: usize, at: usize, len: usize) -> Vec<usize> {
    groups.flat_map(|i| i * group + at..i * group + at + len).collect()
}

fn both<C: Compute>(compute: &C, w: &[Biased; 2]) -> Result<[C::Linear; 2]> {
    Ok([biased(compute, &w[0])?, biased(compute, &w[1])?])
}

/// `linear_2(silu(linear_1(x)))`, x `[R, Hd]`
fn mlp<C: Compute>(compute: &C, layers: &[C::Linear; 2], x: &[f32], width: usize) -> Result<Vec<f32>> {
    let (mut input, mut inner, mut output) = (compute.buffer(), compute.buffer(), compute.buffer());
    compute.write(x, width, &mut input)?;
    compute.linear(&layers[0], View { buffer: &input, at: 0, width }, &mut inner)?;
    compute.silu(&mut inner)?;
    compute.linear(&layers[1], View { buffer: &inner, at: 0, width }, &mut output)?;
    compute.read(&output)
}
