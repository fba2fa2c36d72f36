//! Causal convolutions: the carried rows are put in front of the new ones, and what follows sees overlapping rows.

use bytemuck::{Pod, Zeroable};

use super::buffer::Buffer;
use super::each::rows as block_a_row;
use super::linear::{Input, Linear};
use super::memory::Block;
use super::stream::Grid;
use super::{Cuda, Vector, fault};
use crate::compute::Rows;
use crate::error::Result;

/// The last input rows of every slot.
pub struct Carry {
    /// `[B, rows, cols]`
    values: Block,
    slots: usize,
    rows: usize,
    cols: usize,
}

/// `Stretch` in kernels/conv.cu.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Stretch {
    slot: u32,
    from: u32,
    len: u32,
    at: u32,
}

/// Carried and new rows, segment after segment, and the first joined row that every new row sees.
struct Joined {
    rows: Block,
    first: Block,
}

/// The taps of a depthwise convolution.
pub(super) struct Depthwise<'a> {
    pub w: &'a Vector,
    pub bias: Option<&'a Vector>,
    pub phases: usize,
    pub dilation: usize,
}

impl Cuda {
    pub(super) fn carry_(&self, slots: usize, rows: usize, cols: usize) -> Result<Carry> {
        let bytes = slots * rows * cols * 4;
        let values = self.pool.take(bytes)?;
        // SAFETY: the block was taken for these bytes.
        unsafe { self.stream.zero(values.at(), bytes)? };
        Ok(Carry { values, slots, rows, cols })
    }

    pub(super) fn reset_carry_(&self, carry: &mut Carry, slot: usize) -> Result<()> {
        if slot >= carry.slots {
            return Err(fault(format!("slot {slot} of a history of {} slots", carry.slots)));
        }
        let bytes = carry.rows * carry.cols * 4;
        // SAFETY: the slot's part of the block.
        unsafe { self.stream.zero(carry.values.at() + (slot * bytes) as u64, bytes) }
    }

    /// Puts carried and new rows together, and carries on.
    fn join_carried(&self, carry: &mut Carry, x: &Buffer, rows: &Rows) -> Result<Joined> {
        if x.cols() != carry.cols || x.rows() != rows.len() {
            return Err(fault(format!("a convolution of {} columns over rows of {}", carry.cols, x.cols())));
        }
        if let Some(segment) = rows.segments.iter().find(|s| carry.rows > 0 && s.slot >= carry.slots) {
            return Err(fault(format!("slot {} of a history of {} slots", segment.slot, carry.slots)));
        }
        let (mut from, mut at) = (0, 0);
        let stretches: Vec<Stretch> = rows
            .segments
            .iter()
            .map(|s| {
                let stretch = Stretch { slot: s.slot as u32, from, len: s.len as u32, at };
                from += s.len as u32;
                at += (carry.rows + s.len) as u32;
                stretch
            })
            .collect();
        let longest = rows.segments.iter().map(|s| s.len).max().unwrap_or(0);
        let list = self.send(&stretches)?;
        let joined =
            Joined { rows: self.pool.take(at as usize * carry.cols * 4)?, first: self.pool.take(from as usize * 4)? };
        let (before, cols, segments) = (carry.rows as u32, carry.cols as u32, stretches.len() as u32);
        let threads = block_a_row(1, carry.cols).threads;
        let wide = |rows: usize| (rows.min(1 << 16) as u32, segments);
        // SAFETY: a row of blocks a segment. The joined rows were taken for all segments' carried and new ones, `first`
        // for a number of every new row; the slots were found to exist.
        unsafe {
            let grid = Grid::new(wide(longest.div_ceil(256)), 256);
            self.launch("conv_first", grid, &[&list.at(), &joined.first.at()])?;
            let grid = Grid::new(wide(carry.rows + longest), threads);
            let carried = carry.values.at();
            self.launch("conv_join", grid, &[&list.at(), &carried, &before, &x.at(), &joined.rows.at(), &cols])?;
            let grid = Grid::new((before, segments), threads);
            self.launch("conv_carry", grid, &[&list.at(), &carried, &before, &joined.rows.at(), &cols])?;
        }
        Ok(joined)
    }

    pub(super) fn conv_(&self, w: &Linear, carry: &mut Carry, x: &Buffer, rows: &Rows, out: &mut Buffer) -> Result<()> {
        if w.k() != (carry.rows + 1) * carry.cols {
            return Err(fault(format!("a convolution of {} inputs over {} rows", w.k(), carry.rows + 1)));
        }
        let input = Input { at: x.at(), first: 0, stride: carry.cols, rows: x.rows(), k: w.k() };
        if carry.rows == 0 && x.cols() == carry.cols && x.rows() == rows.len() {
            return self.multiply(w, input, out);
        }
        let joined = self.join_carried(carry, x, rows)?;
        self.multiply(w, Input { at: joined.rows.at(), first: joined.first.at(), ..input }, out)
    }

    pub(super) fn depthwise_(
        &self,
        depthwise: &Depthwise<'_>,
        carry: &mut Carry,
        x: &Buffer,
        rows: &Rows,
        out: &mut Buffer,
    ) -> Result<()> {
        let &Depthwise { w, bias, phases, dilation } = depthwise;
        let (before, cols) = (carry.rows, carry.cols);
        if dilation == 0 || !before.is_multiple_of(dilation) || w.len() != phases * (before / dilation + 1) * cols {
            return Err(fault(format!("{} weights for {phases} phases over {before} rows of {cols}", w.len())));
        }
        bias.map_or(Ok(()), |bias| bias.must_be(cols))?;
        let joined = self.join_carried(carry, x, rows)?;
        let out_at = out.shape(&self.pool, rows.len(), phases * cols)?;
        let (taps, bias) = ((before / dilation + 1) as u32, bias.map_or(0, Vector::at));
        let (width, phases, dilation, cols) = (phases * cols, phases as u32, dilation as u32, cols as u32);
        // SAFETY: a block a row; every row sees `before` joined rows and its own.
        unsafe {
            self.launch(
                "depthwise",
                block_a_row(rows.len(), width),
                &[&joined.rows.at(), &joined.first.at(), &w.at(), &bias, &phases, &taps, &dilation, &cols, &out_at],
            )
        }
    }
}
