//! Rows: what a call says about them, where they are looked up, moved and put side by side.

use std::sync::{Arc, PoisonError};

use bytemuck::{Pod, Zeroable};

use super::buffer::{Buffer, columns};
use super::each::rows as block_a_row;
use super::memory::Block;
use super::stream::Grid;
use super::{Cuda, fault};
use crate::compute::{Rope, Rows, View};
use crate::error::Result;
use crate::matrix::{Float, PlainMatrix};

/// `Segment` in kernels/rows.cu.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct DeviceSegment {
    slot: u32,
    start: u32,
    first: u32,
    len: u32,
}

/// Bytes of `Place` in kernels/base.cuh.
const PLACE: usize = 20;
/// How many calls' rows are remembered: those of the backbone and of every rate of a codec.
const REMEMBERED: usize = 8;

/// Rows to look up, of one kind of number.
pub struct Table {
    block: Block,
    rows: usize,
    cols: usize,
    wide: bool,
}

impl Cuda {
    /// Slot, position and segment of every row, on the device.
    pub(super) fn places(&self, rows: &Rows) -> Result<Arc<Block>> {
        let mut known = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|(known, _)| known == rows) {
            let entry = known.remove(at);
            let places = entry.1.clone();
            known.push(entry);
            return Ok(places);
        }
        let mut first = 0;
        let segments: Vec<DeviceSegment> = rows
            .segments
            .iter()
            .map(|s| {
                first += s.len;
                let first = (first - s.len) as u32;
                DeviceSegment { slot: s.slot as u32, start: s.start as u32, first, len: s.len as u32 }
            })
            .collect();
        let longest = rows.segments.iter().map(|s| s.len).max().unwrap_or(0);
        let (list, places) = (self.send(&segments)?, Arc::new(self.pool.take(rows.len() * PLACE)?));
        let grid = Grid::new((longest.div_ceil(256).min(1024) as u32, segments.len() as u32), 256);
        // SAFETY: a row of blocks a segment, which together have as many rows as there are places.
        unsafe { self.launch("places", grid, &[&list.at(), &places.at()])? };
        if known.len() == REMEMBERED {
            known.remove(0);
        }
        known.push((rows.clone(), places.clone()));
        Ok(places)
    }

    /// A rotation's frequencies, then its stretch: `[D/2]` each.
    pub(super) fn rope_table(&self, rope: &Rope) -> Result<Arc<Block>> {
        let mut known = self.ropes.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |r: &Rope| r.inv_freq == rope.inv_freq && r.stretch == rope.stretch;
        if let Some((_, table)) = known.iter().find(|(known, _)| same(known)) {
            return Ok(table.clone());
        }
        if !rope.stretch.is_empty() && rope.stretch.len() != rope.inv_freq.len() {
            return Err(fault(format!("{} factors for {} frequencies", rope.stretch.len(), rope.inv_freq.len())));
        }
        let table = Arc::new(self.send(&[rope.inv_freq.as_slice(), &rope.stretch].concat())?);
        known.push((rope.clone(), table.clone()));
        Ok(table)
    }

    pub(super) fn prepare_table_(&self, parts: &[PlainMatrix]) -> Result<Table> {
        let cols = parts.first().map_or(0, |m| m.k);
        for m in parts {
            if m.k != cols || m.bytes.len() != m.n * m.k * m.float.size() {
                return Err(fault(format!("a table of {} columns and {} bytes beside {cols}", m.k, m.bytes.len())));
            }
        }
        let rows = parts.iter().map(|m| m.n).sum();
        let wide = parts.iter().any(|m| m.float != Float::Bf16);
        let block = self.pool.take(rows * cols * if wide { 4 } else { 2 })?;
        let mut at = block.at();
        for m in parts {
            if wide {
                self.pack_f32(m, at)?;
                at += (m.n * m.k * 4) as u64;
            } else {
                // SAFETY: the block holds all parts, one after the other.
                unsafe { self.stream.upload(&m.bytes, at)? };
                at += m.bytes.len() as u64;
            }
        }
        Ok(Table { block, rows, cols, wide })
    }

    pub(super) fn embed_(&self, table: &Table, ids: &[u32], per_row: usize, out: &mut Buffer) -> Result<()> {
        if let Some(id) = ids.iter().find(|id| **id as usize >= table.rows) {
            return Err(fault(format!("row {id} of a table of {}", table.rows)));
        }
        if per_row == 0 || !ids.len().is_multiple_of(per_row) {
            return Err(fault(format!("{} ids in rows of {per_row}", ids.len())));
        }
        let rows = ids.len() / per_row;
        let (ids, out_at) = (self.send(ids)?, out.shape(&self.pool, rows, table.cols)?);
        let (wide, cols, per_row) = (u32::from(table.wide), table.cols as u32, per_row as u32);
        // SAFETY: a block a row; every id was found to be in the table.
        unsafe {
            self.launch(
                "embed",
                block_a_row(rows, table.cols),
                &[&table.block.at(), &wide, &cols, &ids.at(), &per_row, &out_at],
            )
        }
    }

    pub(super) fn gather_(&self, x: &Buffer, from: &[usize], out: &mut Buffer) -> Result<()> {
        let indices = indices(from, x.rows())?;
        let (cols, out_at) = (x.cols(), out.shape(&self.pool, from.len(), x.cols())?);
        let from = self.send(&indices)?;
        // SAFETY: a block a row; every row was found to exist.
        unsafe {
            self.launch("gather", block_a_row(indices.len(), cols), &[&x.at(), &from.at(), &out_at, &(cols as u32)])
        }
    }

    pub(super) fn scatter_(&self, x: &Buffer, to: &[usize], out: &mut Buffer) -> Result<()> {
        if x.cols() != out.cols() || x.rows() != to.len() {
            return Err(fault(format!("{} rows of {} put into rows of {}", x.rows(), x.cols(), out.cols())));
        }
        let indices = indices(to, out.rows())?;
        let to = self.send(&indices)?;
        // SAFETY: a block a row; every row was found to exist.
        unsafe {
            self.launch("scatter", block_a_row(x.rows(), x.cols()), &[&x.at(), &to.at(), &out.at(), &(x.cols() as u32)])
        }
    }

    pub(super) fn join_(&self, a: &View<'_, Buffer>, b: &View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        let rows = a.buffer.rows();
        if b.buffer.rows() != rows {
            return Err(fault(format!("{rows} rows beside {}", b.buffer.rows())));
        }
        let (a, b) = (columns(a)?, columns(b)?);
        let width = a.width + b.width;
        let out_at = out.shape(&self.pool, rows, width)?;
        let (a_width, b_width) = (a.width as u32, b.width as u32);
        // SAFETY: a block a row; the columns exist, and `out` has the width of both.
        unsafe {
            self.launch(
                "join",
                block_a_row(rows, width),
                &[&a.at, &a.cols, &a_width, &b.at, &b.cols, &b_width, &out_at],
            )
        }
    }
}

/// Row numbers for the device, all below `rows`.
fn indices(of: &[usize], rows: usize) -> Result<Vec<u32>> {
    match of.iter().find(|i| **i >= rows) {
        Some(i) => Err(fault(format!("row {i} of {rows}"))),
        None => Ok(of.iter().map(|i| *i as u32).collect()),
    }
}
