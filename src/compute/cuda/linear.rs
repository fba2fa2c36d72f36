//! Linears of weights in planes of bfloat16 (kernels/gemm.cu, kernels/pack.cu) or in pieces of NVFP4 (`pieces`).
//!
//! Parts of one kind that lie beside each other become one matrix with a factor for every row. Where the input goes through
//! NVFP4 too, weights and input are unpacked to bfloat16, which holds both exactly.

use super::buffer::{Buffer, columns};
use super::driver::Address;
use super::each::rows as block_a_row;
use super::memory::Block;
use super::pieces::Pieces;
use super::stream::{Argument, Grid};
use super::{Cuda, fault};
use crate::compute::{Activations, View};
use crate::error::{Error, Result};
use crate::matrix::{Float, Matrix, PlainMatrix};
use crate::nvfp4::{InputScale, Nvfp4Matrix};

/// Columns of a plane are a multiple of this: the kernel's largest chunk.
const CHUNK: usize = 128;
/// Bytes of a checkpoint that are unpacked at a time.
const PART: usize = 64 << 20;

/// Matrices stacked along N over one input of K values.
pub struct Linear {
    n: usize,
    k: usize,
    groups: Vec<Group>,
    /// `[N]`
    bias: Option<Block>,
}

/// Consecutive outputs whose weights are of one kind.
struct Group {
    from: usize,
    n: usize,
    kind: Kind,
    weights: Weights,
}

enum Weights {
    Planes {
        /// Columns, with zeros beyond K.
        padded: usize,
        /// `[n, padded]`
        high: Block,
        /// `[n, padded]`
        low: Option<Block>,
        /// `[n]`
        alpha: Option<Block>,
    },
    Pieces(Pieces),
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The values are bfloat16.
    Narrow,
    /// Two bfloat16 add up to a value.
    Wide,
    /// As narrow, with a factor.
    Nvfp4,
    /// And an input that goes through NVFP4 with this multiplier.
    Fp4(f32),
}

/// `Gemm` in kernels/gemm.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Gemm {
    high: Address,
    low: Address,
    x: Address,
    first: Address,
    alpha: Address,
    bias: Address,
    out: Address,
    stride: u64,
    rows: u32,
    n: u32,
    k: u32,
    padded: u32,
    out_cols: u32,
}
// SAFETY: the struct of the same name, member by member.
unsafe impl Argument for Gemm {}

/// Rows of x: row r begins at `(first ? first[r] : r) * stride` values.
#[derive(Clone, Copy)]
pub(super) struct Input {
    pub at: Address,
    pub first: Address,
    pub stride: usize,
    pub rows: usize,
    pub k: usize,
}

impl Linear {
    /// K.
    pub(super) fn k(&self) -> usize {
        self.k
    }
}

impl Cuda {
    pub(super) fn prepare_linear_(
        &self,
        parts: &[Matrix],
        bias: Option<&[f32]>,
        activations: Activations,
    ) -> Result<Linear> {
        let (k, n) = (parts.first().map_or(0, Matrix::k), parts.iter().map(Matrix::n).sum());
        let kinds = parts.iter().map(|part| kind(part, k, activations)).collect::<Result<Vec<_>>>()?;
        if let Some(bias) = bias.filter(|bias| bias.len() != n) {
            return Err(fault(format!("a bias of {} for {n} outputs", bias.len())));
        }
        let mut groups = Vec::new();
        let (mut at, mut from) = (0, 0);
        while at < parts.len() {
            let end = (at..parts.len()).find(|i| kinds[*i] != kinds[at]).unwrap_or(parts.len());
            let group = self.group(&parts[at..end], kinds[at], from, k)?;
            from += group.n;
            groups.push(group);
            at = end;
        }
        Ok(Linear { n, k, groups, bias: bias.map(|bias| self.send(bias)).transpose()? })
    }

    fn group(&self, parts: &[Matrix], kind: Kind, from: usize, k: usize) -> Result<Group> {
        let n = parts.iter().map(Matrix::n).sum();
        let packed = parts.iter().filter_map(|part| if let Matrix::Nvfp4(m) = part { Some(m) } else { None });
        let weights = match kind {
            Kind::Nvfp4 if !self.exact => Weights::Pieces(self.stacked_pieces(packed, n, k)?),
            _ => self.planes(parts, kind, n, k)?,
        };
        Ok(Group { from, n, kind, weights })
    }

    fn planes(&self, parts: &[Matrix], kind: Kind, n: usize, k: usize) -> Result<Weights> {
        let padded = k.next_multiple_of(CHUNK);
        let high = self.pool.take(n * padded * 2)?;
        let low = if kind == Kind::Wide { Some(self.pool.take(n * padded * 2)?) } else { None };
        let mut alpha = Vec::new();
        let mut row = 0;
        for part in parts {
            let at = (row * padded * 2) as Address;
            let (high, low) = (high.at() + at, low.as_ref().map_or(0, |low| low.at() + at));
            match part {
                Matrix::Plain(m) => self.pack_plain(m, padded, high, low)?,
                Matrix::Nvfp4(m) => {
                    self.pack_nvfp4(m, padded, high)?;
                    let input = m.input.filter(|_| kind != Kind::Nvfp4).map_or(1.0, InputScale::factor);
                    alpha.resize(row + m.n, input * m.global.factor());
                }
            }
            row += part.n();
        }
        let alpha = if alpha.is_empty() { None } else { Some(self.send(&alpha)?) };
        Ok(Weights::Planes { padded, high, low, alpha })
    }

    /// A plain matrix into planes `[n, padded]`.
    fn pack_plain(&self, m: &PlainMatrix, padded: usize, high: Address, low: Address) -> Result<()> {
        self.in_parts(m.n, &[(&m.bytes, m.k * m.float.size())], |rows, count, raw| {
            let at = (rows * padded * 2) as Address;
            let (high, low) = (high + at, if low == 0 { 0 } else { low + at });
            let (kind, cols, padded) = (kind_number(m.float), m.k as u32, padded as u32);
            let grid = block_a_row(count, padded as usize);
            // SAFETY: a block a row of the part that was uploaded, into the planes' rows of the same numbers.
            unsafe { self.launch("pack_plain", grid, &[&raw[0].at(), &kind, &cols, &padded, &high, &low]) }
        })
    }

    fn pack_nvfp4(&self, m: &Nvfp4Matrix, padded: usize, high: Address) -> Result<()> {
        self.in_parts(m.n, &[(&m.codes, m.k / 2), (&m.scales, m.k / 16)], |rows, count, raw| {
            let high = high + (rows * padded * 2) as Address;
            let (cols, padded) = (m.k as u32, padded as u32);
            let grid = block_a_row(count, padded as usize);
            // SAFETY: as in `pack_plain`.
            unsafe { self.launch("pack_nvfp4", grid, &[&raw[0].at(), &raw[1].at(), &cols, &padded, &high]) }
        })
    }

    /// A plain matrix as f32 `[n, k]`.
    pub(super) fn pack_f32(&self, m: &PlainMatrix, out: Address) -> Result<()> {
        self.in_parts(m.n, &[(&m.bytes, m.k * m.float.size())], |rows, count, raw| {
            let out = out + (rows * m.k * 4) as Address;
            let (kind, cols) = (kind_number(m.float), m.k as u32);
            // SAFETY: as in `pack_plain`.
            unsafe { self.launch("pack_f32", block_a_row(count, m.k), &[&raw[0].at(), &kind, &cols, &out]) }
        })
    }

    /// Uploads some rows of every tensor at a time and calls `pack(first row, rows, uploaded)`.
    pub(super) fn in_parts(
        &self,
        n: usize,
        tensors: &[(&[u8], usize)],
        pack: impl Fn(usize, usize, &[Block]) -> Result<()>,
    ) -> Result<()> {
        let row: usize = tensors.iter().map(|t| t.1).sum();
        // Whole groups of 16 rows: some packings go by them.
        let step = (PART / row.max(1) / 16 * 16).max(16);
        for from in (0..n).step_by(step) {
            let count = step.min(n - from);
            let upload = |(bytes, size): &(&[u8], usize)| {
                let block = self.pool.take(count * size)?;
                // SAFETY: the block was taken for these bytes.
                unsafe { self.stream.upload(&bytes[from * size..(from + count) * size], block.at())? };
                Ok(block)
            };
            let raw = tensors.iter().map(upload).collect::<Result<Vec<_>>>()?;
            pack(from, count, &raw)?;
        }
        Ok(())
    }

    pub(super) fn linear_(&self, w: &Linear, x: &View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        let (rows, x) = (x.buffer.rows(), columns(x)?);
        let input = Input { at: x.at, first: 0, stride: x.cols as usize, rows, k: x.width };
        self.multiply(w, input, out)
    }

    /// `out = x Wᵀ + bias`, `[R, N]`
    pub(super) fn multiply(&self, w: &Linear, x: Input, out: &mut Buffer) -> Result<()> {
        if x.k != w.k {
            return Err(fault(format!("a linear of {} columns over rows of {}", w.k, x.k)));
        }
        let out_at = out.shape(&self.pool, x.rows, w.n)?;
        if x.rows == 0 {
            return Ok(());
        }
        let mut through: Option<(f32, Block)> = None;
        for group in &w.groups {
            let mut x = x;
            if let Kind::Fp4(gs) = group.kind {
                if through.as_ref().is_none_or(|(of, _)| *of != gs) {
                    through = Some((gs, self.through_fp4(x, gs)?));
                }
                if let Some((_, values)) = &through {
                    x = Input { at: values.at(), first: 0, stride: x.k, ..x };
                }
            }
            let bias = w.bias.as_ref().map_or(0, |bias| bias.at() + 4 * group.from as Address);
            let out = out_at + 4 * group.from as Address;
            let (padded, high, low, alpha) = match &group.weights {
                Weights::Pieces(pieces) => {
                    self.multiply_pieces(pieces, x, bias, out, w.n)?;
                    continue;
                }
                Weights::Planes { padded, high, low, alpha } => (*padded, high, low, alpha),
            };
            let gemm = Gemm {
                high: high.at(),
                low: low.as_ref().map_or(0, Block::at),
                x: x.at,
                first: x.first,
                alpha: alpha.as_ref().map_or(0, Block::at),
                bias,
                out,
                stride: x.stride as u64,
                rows: x.rows as u32,
                n: group.n as u32,
                k: x.k as u32,
                padded: padded as u32,
                out_cols: w.n as u32,
            };
            let (name, wide, tall) = tiles(group.n, padded, low.is_some(), x.rows);
            let grid = Grid::new((x.rows.div_ceil(wide) as u32, group.n.div_ceil(tall) as u32), 256);
            // SAFETY: the planes are [n, padded], alpha and bias hold n values, x has K values in each row, out is
            // [R, N]; the grid covers rows and outputs with the kernel's tiles.
            unsafe { self.launch(name, grid, &[&gemm])? };
        }
        Ok(())
    }

    /// What x `[R, K]` stands for in 4 bits, times the multiplier.
    fn through_fp4(&self, x: Input, gs: f32) -> Result<Block> {
        let out = self.pool.take(x.rows * x.k * 4)?;
        let (stride, k) = (x.stride as u64, x.k as u32);
        let threads = 128;
        for (from, rows) in (0..x.rows).step_by(65_535).map(|from| (from, (x.rows - from).min(65_535))) {
            let grid = Grid::new(((x.k / 16).div_ceil(threads) as u32, rows as u32), threads as u32);
            let first = if x.first == 0 { 0 } else { x.first + 4 * from as Address };
            let at = if x.first == 0 { x.at + (4 * from * x.stride) as Address } else { x.at };
            let out = out.at() + (4 * from * x.k) as Address;
            // SAFETY: a thread a block of 16 of a row; `out` holds all rows.
            unsafe { self.launch("through_fp4", grid, &[&at, &first, &stride, &k, &gs, &out])? };
        }
        Ok(out)
    }
}

/// What becomes of a part, which must be whole.
fn kind(part: &Matrix, k: usize, activations: Activations) -> Result<Kind> {
    if part.k() != k {
        return Err(fault(format!("stacked matrices of {k} and {} columns", part.k())));
    }
    let whole = match part {
        Matrix::Plain(m) => m.bytes.len() == m.n * m.k * m.float.size(),
        Matrix::Nvfp4(m) => k.is_multiple_of(16) && m.codes.len() == m.n * k / 2 && m.scales.len() == m.n * k / 16,
    };
    if !whole {
        return Err(fault(format!("a matrix of {} rows of {k} that is not whole", part.n())));
    }
    Ok(match part {
        Matrix::Plain(m) if m.float == Float::Bf16 => Kind::Narrow,
        Matrix::Plain(_) => Kind::Wide,
        Matrix::Nvfp4(m) => match (activations, m.input) {
            (Activations::Full, _) => Kind::Nvfp4,
            (Activations::Fp4, Some(input)) => Kind::Fp4(input.multiplier()),
            (Activations::Fp4, None) => {
                return Err(Error::new("the checkpoint has no input scales, so its activations cannot be 4 bits wide")
                    .hint("use `--activations bf16`"));
            }
        },
    })
}

/// `FLOAT_*` in kernels/pack.cu.
fn kind_number(float: Float) -> u32 {
    match float {
        Float::F32 => 0,
        Float::F16 => 1,
        Float::Bf16 => 2,
    }
}

/// The kernel for a matrix and a number of rows, with the rows and outputs of a block. How a sum is split depends on the
/// matrix alone, so that a row's result does not depend on how many there are.
fn tiles(n: usize, padded: usize, two_planes: bool, rows: usize) -> (&'static str, usize, usize) {
    let split = n <= 4096 && padded >= 512;
    match (split, two_planes, rows) {
        (false, false, ..=8) => ("gemm_1_1_1", 8, 128),
        (false, false, ..=32) => ("gemm_4_1_1", 32, 128),
        (false, false, _) => ("gemm_8_1_1", 64, 128),
        (false, true, ..=8) => ("gemm_1_1_2", 8, 128),
        (false, true, ..=32) => ("gemm_4_1_2", 32, 128),
        (false, true, _) => ("gemm_8_1_2", 64, 128),
        (true, false, ..=8) => ("gemm_1_4_1", 8, 32),
        (true, false, _) => ("gemm_4_4_1", 32, 32),
        (true, true, ..=8) => ("gemm_1_4_2", 8, 32),
        (true, true, _) => ("gemm_4_4_2", 32, 32),
    }
}
