//! LocEnc: the P frames of a patch become one embedding of the language models.
//!
//! ```text
//! x = [special token; in_proj(frames)]          P + 1 rows that see each other
//! f = enc_to_lm_proj(stack(x)[0])
//! ```

use super::config::Config;
use super::stack::{Sight, Stack};
use super::weights::{Biased, Weights};
use crate::compute::{Activations, Compute, Rows, Segment, View};
use crate::error::Result;
use crate::matrix::PlainMatrix;

/// The prepared encoder with its working buffers.
pub struct LocEnc<C: Compute> {
    patch: usize,
    latent: usize,
    hidden: usize,
    special: C::Table, // [1, He]
    input: C::Linear,
    output: C::Linear,
    stack: Stack<C>,
    rows: C::Buffer, // [n * P, He] embedded frames, then [n, He] special tokens
}

impl<C: Compute> LocEnc<C> {
    /// Prepares the weights for the device.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn new(compute: &C, config: &Config, weights: &Weights, activations: Activations) -> Result<Self> {
        let w = &weights.encoder;
        let hidden = config.encoder.hidden;
        Ok(Self {
            patch: config.patch,
            latent: config.latent,
            hidden,
            special: compute.prepare_table(&[PlainMatrix::from_f32(1, hidden, &w.special)])?,
            input: biased(compute, &w.input)?,
            output: biased(compute, &weights.enc_to_lm)?,
            stack: Stack::new(compute, config.encoder.clone(), &w.stack, activations)?,
            rows: compute.buffer(),
        })
    }

    /// Patches `[count * P, latent]` to embeddings `[count, H]`.
    ///
    /// # Errors
    /// What the device can refuse.
    pub fn run(&mut self, compute: &C, patches: &C::Buffer, count: usize, out: &mut C::Buffer) -> Result<()> {
        let group = self.patch + 1;
        let first: Vec<usize> = (0..count).map(|i| i * group).collect();
        let frames: Vec<usize> = first.iter().flat_map(|at| at + 1..at + group).collect();
        compute.blank(count * group, self.hidden, self.stack.input())?;
        compute.linear(&self.input, View { buffer: patches, at: 0, width: self.latent }, &mut self.rows)?;
        compute.scatter(&self.rows, &frames, self.stack.input())?;
        compute.embed(&self.special, &vec![0; count], 1, &mut self.rows)?;
        compute.scatter(&self.rows, &first, self.stack.input())?;
        self.stack.run(compute, Sight::Group(group), &groups(count, group), Some(&first))?;
        compute.linear(&self.output, View { buffer: self.stack.output(), at: 0, width: self.hidden }, out)
    }
}

/// `count` groups of rows, each at positions `0 .. size`.
pub(super) fn groups(count: usize, size: usize) -> Rows {
    Rows { segments: (0..count).map(|slot| Segment { slot, start: 0, len: size }).collect() }
}

/// A linear with a bias; none of these is ever packed, so the input is never quantised.
pub(super) fn biased<C: Compute>(compute: &C, w: &Biased) -> Result<C::Linear> {
    compute.prepare_linear(std::slice::from_ref(&w.matrix), Some(&w.bias), Activations::Full)
}
