//! NVFP4 weights in the pieces that the fast kernels read (kernels/tile.cuh), 4.5 bits a weight as in the checkpoint, and the
//! linear over them (kernels/w4a16.cu).

use super::Cuda;
use super::driver::Address;
use super::each::rows as block_a_row;
use super::linear::Input;
use super::memory::Block;
use super::stream::{Argument, Grid};
use crate::error::Result;
use crate::nvfp4::Nvfp4Matrix;

/// Bytes of a piece: 16 rows of 256 columns.
const PIECE: usize = 2304;
/// What the kernels' weights are too small by.
pub(super) const SCALE: f32 = 65_536.0;

/// A matrix `[N, K]`.
pub(super) struct Pieces {
    block: Block,
    n: usize,
    k: usize,
    /// `[N]`: the global scale of each row, as the kernels want it.
    alpha: Block,
}

/// Where the rows of a part go.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// One after the other from this row on.
    From(usize),
    /// Eight, then a gap of eight, from this row on.
    Turns(usize),
}

/// `Linear` in kernels/w4a16.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Linear {
    pieces: Address,
    alpha: Address,
    bias: Address,
    x: Address,
    out: Address,
    stride: u64,
    rows: u32,
    n: u32,
    k: u32,
    out_cols: u32,
}
// SAFETY: the struct of the same name, member by member.
unsafe impl Argument for Linear {}

impl Pieces {
    /// Where the pieces begin.
    pub fn at(&self) -> Address {
        self.block.at()
    }
}

impl Cuda {
    /// Matrices one after the other, `[n, k]` in all.
    pub(super) fn stacked_pieces<'a>(
        &self,
        parts: impl Iterator<Item = &'a Nvfp4Matrix>,
        n: usize,
        k: usize,
    ) -> Result<Pieces> {
        let mut row = 0;
        let placed: Vec<_> = parts
            .map(|m| {
                row += m.n;
                (m, Place::From(row - m.n))
            })
            .collect();
        self.pieces(&placed, n, k)
    }

    /// A matrix `[n, k]` from parts that fill it.
    pub(super) fn pieces(&self, parts: &[(&Nvfp4Matrix, Place)], n: usize, k: usize) -> Result<Pieces> {
        let bytes = n.div_ceil(16) * k.div_ceil(256) * PIECE;
        let block = self.pool.take(bytes)?;
        // SAFETY: the block was taken for these bytes.
        unsafe { self.stream.zero(block.at(), bytes)? };
        let mut alpha = vec![0.0; n];
        for (m, place) in parts {
            for row in 0..m.n {
                alpha[place.of(row)] = m.global.factor() * SCALE;
            }
            self.in_parts(m.n, &[(&m.codes, m.k / 2), (&m.scales, m.k / 16)], |from, count, raw| {
                let (base, run, step) = match place {
                    Place::From(_) => (place.of(from), count, count),
                    Place::Turns(_) => (place.of(from), 8, 16),
                };
                let grid = Grid::new(((m.k / 16).div_ceil(128) as u32, count as u32), 128);
                let (n, k, base, run, step) = (count as u32, m.k as u32, base as u32, run as u32, step as u32);
                // SAFETY: a thread a block of 16 of the part that was uploaded; all rows lie within the matrix.
                unsafe {
                    let (codes, scales) = (raw[0].at(), raw[1].at());
                    self.launch("w4a16_pack", grid, &[&codes, &scales, &n, &k, &base, &run, &step, &block.at()])
                }
            })?;
        }
        Ok(Pieces { block, n, k, alpha: self.send(&alpha)? })
    }

    /// N columns of out `[R, out_cols]`: x Wᵀ * alpha + bias, x rounded to bfloat16.
    pub(super) fn multiply_pieces(
        &self,
        w: &Pieces,
        x: Input,
        bias: Address,
        out: Address,
        out_cols: usize,
    ) -> Result<()> {
        // The kernel reads 16 bytes at a time.
        if x.first == 0 && x.at.is_multiple_of(16) && x.stride.is_multiple_of(4) {
            return self.pieces_linear(w, x, bias, out, out_cols);
        }
        let own = self.pool.take(x.rows * x.k * 4)?;
        // SAFETY: a block a row, of K values each.
        unsafe {
            let (stride, k) = (x.stride as u64, x.k as u32);
            self.launch("unroll", block_a_row(x.rows, x.k), &[&x.at, &x.first, &stride, &k, &own.at()])?;
        }
        let x = Input { at: own.at(), first: 0, stride: x.k, ..x };
        self.pieces_linear(w, x, bias, out, out_cols)
    }

    fn pieces_linear(&self, w: &Pieces, x: Input, bias: Address, out: Address, out_cols: usize) -> Result<()> {
        let facts = self.device.facts();
        let shared = |tiles: u32| 8 * 4 * PIECE as u32 + 16 * tiles * 512 + 8 * 4 * 8;
        // Eight rows of x a tile; the kernel's bits are the same for any number of them.
        let tiles = match x.rows {
            0..=8 => 1,
            9..=16 => 2,
            _ if shared(4) <= facts.shared_memory => 4,
            _ => 2,
        };
        let name = match tiles {
            1 => "w4a16_f32_1",
            2 => "w4a16_f32_2",
            _ => "w4a16_f32_4",
        };
        let blocks = (w.n.div_ceil(16) as u32).min(2 * facts.multiprocessors);
        let most = 65_535 * 8 * tiles as usize;
        for from in (0..x.rows).step_by(most) {
            let rows = most.min(x.rows - from);
            let linear = Linear {
                pieces: w.at(),
                alpha: w.alpha.at(),
                bias,
                x: x.at + (from * x.stride * 4) as Address,
                out: out + (from * out_cols * 4) as Address,
                stride: x.stride as u64,
                rows: rows as u32,
                n: w.n as u32,
                k: w.k as u32,
                out_cols: out_cols as u32,
            };
            let grid = Grid { shared: shared(tiles), ..Grid::new((blocks, (rows as u32).div_ceil(8 * tiles)), 256) };
            // SAFETY: the pieces hold [N, K], alpha and bias N values, x K values in each row, out is [R, out_cols].
            unsafe { self.launch(name, grid, &[&linear])? };
        }
        Ok(())
    }
}

impl Place {
    fn of(self, row: usize) -> usize {
        match self {
            Place::From(base) => base + row,
            Place::Turns(base) => base + row / 8 * 16 + row % 8,
        }
    }
}
