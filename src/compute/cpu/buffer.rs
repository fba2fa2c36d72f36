//! Activations in memory: `[R, cols]` f32, row-major, beginning on a cache line.

use bytemuck::{Pod, Zeroable};

/// A cache line of f32, so that rows whose size is a multiple of 16 are loaded without straddling lines.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// `[rows, cols]`; what it holds after [`Buffer::shape`] is unspecified.
#[derive(Default)]
pub struct Buffer {
    lines: Vec<Line>,
    rows: usize,
    cols: usize,
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

    /// All values, row-major.
    pub fn values(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.rows * self.cols]
    }

    /// All values, row-major.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.rows * self.cols]
    }

    /// Makes it `[rows, cols]`, for an operation to fill. Memory is kept for later calls.
    pub fn shape(&mut self, rows: usize, cols: usize) -> &mut [f32] {
        let lines = (rows * cols).div_ceil(16);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line::zeroed());
        }
        (self.rows, self.cols) = (rows, cols);
        self.values_mut()
    }
}
