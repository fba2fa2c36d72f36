//! Causal convolutions over time.
//!
//! Rows are time-major, so the `taps` rows that an output sees lie next to each other, and so do their values: with the
//! carried rows put before the new ones, row t of the unrolled input is the slice of `taps * C` values at `t * C`. A
//! convolution is then a linear whose input rows overlap, and nothing is copied but the input itself.

use super::buffer::Buffer;
use super::isa::{Isa, kernel};
use super::linear::{Inputs, Linear, fault};
use super::pool::Pool;
use crate::compute::{Rows, Segment};
use crate::error::Result;

/// Multiply-adds in a task.
const TASK: usize = 32 * 1024;

/// The last input rows of every slot.
pub struct Carry {
    /// taps - 1
    rows: usize,
    /// C
    cols: usize,
    /// `[B, taps - 1, C]`
    values: Vec<f32>,
    /// Carried and new rows of a call, segment after segment.
    joined: Vec<f32>,
}

impl Carry {
    pub(super) fn new(slots: usize, rows: usize, cols: usize) -> Self {
        Self { rows, cols, values: vec![0.0; slots * rows * cols], joined: Vec::new() }
    }

    pub(super) fn reset(&mut self, slot: usize) {
        self.slot(slot).fill(0.0);
    }

    fn slot(&mut self, slot: usize) -> &mut [f32] {
        let size = self.rows * self.cols;
        &mut self.values[slot * size..(slot + 1) * size]
    }

    /// Lays out carried and new rows, and carries on. Returns where the first row that each output sees begins.
    fn join(&mut self, x: &Buffer, rows: &Rows) -> Result<Vec<usize>> {
        let cols = self.cols;
        let slots = self.values.len() / (self.rows * cols).max(1);
        if x.cols() != cols || x.rows() != rows.len() {
            return Err(fault(format!("a convolution of {cols} columns over rows of {}", x.cols())));
        }
        if let Some(segment) = rows.segments.iter().find(|s| self.rows > 0 && s.slot >= slots) {
            return Err(fault(format!("slot {} of a history of {slots} slots", segment.slot)));
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        let mut starts = Vec::with_capacity(rows.len());
        let mut new = x.values();
        for &Segment { slot, len, .. } in &rows.segments {
            let begin = joined.len();
            joined.extend_from_slice(self.slot(slot));
            let (own, later) = new.split_at(len * cols);
            joined.extend_from_slice(own);
            new = later;
            starts.extend((0..len).map(|t| begin + t * cols));
            let keep = joined.len() - self.rows * cols;
            self.slot(slot).copy_from_slice(&joined[keep..]);
        }
        self.joined = joined;
        Ok(starts)
    }
}

/// x `[R, C]`, w `[N, taps * C]`, out `[R, N]`
pub(super) fn conv(
    isa: Isa,
    pool: &Pool,
    w: &Linear,
    carry: &mut Carry,
    x: &Buffer,
    rows: &Rows,
    out: &mut Buffer,
) -> Result<()> {
    if w.k() != (carry.rows + 1) * carry.cols {
        return Err(fault(format!("a convolution of {} inputs over {} rows", w.k(), carry.rows + 1)));
    }
    let starts = carry.join(x, rows)?;
    let inputs =
        Inputs::new(&carry.joined, starts, w.k()).ok_or_else(|| fault("a convolution beyond its input".to_owned()))?;
    w.run(isa, pool, &inputs, out.shape(rows.len(), w.n()))
}

/// The taps of a depthwise convolution.
pub(super) struct Depthwise<'a> {
    /// `[phases, taps, C]`
    pub w: &'a [f32],
    /// `[C]`
    pub bias: Option<&'a [f32]>,
    pub phases: usize,
    /// Rows from tap to tap.
    pub dilation: usize,
}

/// x `[R, C]`, out `[R, phases * C]`
pub(super) fn depthwise(
    isa: Isa,
    pool: &Pool,
    depthwise: &Depthwise<'_>,
    carry: &mut Carry,
    x: &Buffer,
    rows: &Rows,
    out: &mut Buffer,
) -> Result<()> {
    let &Depthwise { w, phases, dilation, .. } = depthwise;
    let (before, cols) = (carry.rows, carry.cols);
    if dilation == 0 || !before.is_multiple_of(dilation) || w.len() != phases * (before / dilation + 1) * cols {
        return Err(fault(format!("{} weights for {phases} phases over {before} rows of {cols}", w.len())));
    }
    let starts = carry.join(x, rows)?;
    let joined = &carry.joined;
    let width = phases * cols;
    let task = (TASK / w.len().max(1)).max(1);
    pool.split(out.shape(rows.len(), width), task * width, |index, out| {
        for (out, start) in out.chunks_exact_mut(width).zip(&starts[index * task..]) {
            depthwise_row(isa, &joined[*start..start + (before + 1) * cols], depthwise, cols, out);
        }
    });
    Ok(())
}

kernel! {
    /// seen `[(taps - 1) * dilation + 1, C]`, out `[phases, C]`
    fn depthwise_row<L>(seen: &[f32], depthwise: &Depthwise<'_>, cols: usize, out: &mut [f32]) {
        let taps = depthwise.w.len() / out.len().max(1);
        for (out, w) in out.chunks_exact_mut(cols).zip(depthwise.w.chunks_exact(taps * cols)) {
            match depthwise.bias {
                Some(bias) => out.copy_from_slice(bias),
                None => out.fill(0.0),
            }
            for (w, x) in w.chunks_exact(cols).zip(seen.chunks_exact(cols).step_by(depthwise.dilation)) {
                for ((out, w), x) in out.iter_mut().zip(w).zip(x) {
                    *out = w.mul_add(*x, *out);
                }
            }
        }
    }
}
