//! Activations in device memory: `[R, cols]` f32, row-major.

use std::sync::Arc;

use super::driver::Address;
use super::fault;
use super::memory::{Block, Pool};
use crate::compute::View;
use crate::error::Result;

/// `[rows, cols]`
#[derive(Default)]
pub struct Buffer {
    block: Option<Block>,
    rows: usize,
    cols: usize,
}

/// Columns of a buffer, as kernels take them: where the first row's begin, and how far it is to the next row.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub at: Address,
    pub cols: u32,
    pub width: usize,
}

impl Buffer {
    /// R.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How many values.
    pub(super) fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Where it begins; 0 where there is nothing.
    pub(super) fn at(&self) -> Address {
        self.block.as_ref().map_or(0, Block::at)
    }

    /// Makes it `[rows, cols]`, for a kernel to fill. Memory is kept for later calls.
    pub(super) fn shape(&mut self, pool: &Arc<Pool>, rows: usize, cols: usize) -> Result<Address> {
        let bytes = rows
            .checked_mul(cols)
            .and_then(|n| n.checked_mul(4))
            .ok_or_else(|| fault(format!("a buffer of {rows} rows of {cols}")))?;
        if self.block.as_ref().is_none_or(|block| block.size() < bytes) {
            // The old block first: what replaces it may be the same.
            self.block = None;
            self.block = Some(pool.take(bytes)?);
        }
        (self.rows, self.cols) = (rows, cols);
        Ok(self.at())
    }

    /// The same values in other rows.
    pub(super) fn reshape(&mut self, rows: usize, cols: usize) {
        debug_assert_eq!(rows * cols, self.len());
        (self.rows, self.cols) = (rows, cols);
    }
}

/// The columns of a view, which must exist.
pub(super) fn columns(view: &View<'_, Buffer>) -> Result<Columns> {
    let cols = view.buffer.cols();
    if view.at + view.width > cols {
        return Err(fault(format!("columns {}..{} of {cols}", view.at, view.at + view.width)));
    }
    Ok(Columns { at: view.buffer.at() + 4 * view.at as Address, cols: cols as u32, width: view.width })
}
