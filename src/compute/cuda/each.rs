//! What is done to values one by one, and to rows one by one: activations, sums, norms, rotation.

use super::buffer::{Buffer, columns};
use super::stream::{Argument, Grid};
use super::{Cuda, Vector, fault};
use crate::compute::{Rope, RopePairs, Rows, View};
use crate::error::Result;

/// Threads of a block, a value each.
const THREADS: u32 = 256;

/// A thread a value, as far as that is useful: kernels go on to the values beyond.
fn values(count: usize) -> Grid {
    let blocks = count.div_ceil(THREADS as usize).min(1 << 20) as u32;
    Grid::new((blocks, 1), THREADS)
}

/// A block a row.
pub(super) fn rows(count: usize, cols: usize) -> Grid {
    let threads = cols.next_multiple_of(32).clamp(32, 256) as u32;
    Grid::new((count as u32, 1), threads)
}

impl Cuda {
    /// A kernel that takes the values of x, in place, then `rest`, then their number.
    pub(super) fn in_place(&self, name: &'static str, x: &mut Buffer, rest: &[&dyn Argument]) -> Result<()> {
        let (at, count) = (x.at(), x.len() as u64);
        let arguments: Vec<&dyn Argument> =
            [&at as &dyn Argument].into_iter().chain(rest.iter().copied()).chain([&count as _]).collect();
        // SAFETY: the kernels called by this function take an address of `count` values, what is in `rest`, and `count`.
        unsafe { self.launch(name, values(x.len()), &arguments) }
    }

    pub(super) fn silu_mul_(&self, gate: &View<'_, Buffer>, up: &View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        let rows = gate.buffer.rows();
        let (gate, up) = (columns(gate)?, columns(up)?);
        if gate.width != up.width {
            return Err(fault(format!("a gate of {} columns for {}", gate.width, up.width)));
        }
        let (out_at, width) = (out.shape(&self.pool, rows, gate.width)?, gate.width as u32);
        let count = out.len() as u64;
        // SAFETY: the kernel reads `width` columns of `rows` rows of both views, and writes the shaped `out`.
        unsafe {
            self.launch(
                "silu_mul",
                values(out.len()),
                &[&gate.at, &gate.cols, &up.at, &up.cols, &out_at, &width, &count],
            )
        }
    }

    pub(super) fn elu_(&self, x: &Buffer, out: &mut Buffer) -> Result<()> {
        let (out_at, count) = (out.shape(&self.pool, x.rows(), x.cols())?, x.len() as u64);
        // SAFETY: both buffers hold `count` values.
        unsafe { self.launch("each_elu", values(x.len()), &[&x.at(), &out_at, &count]) }
    }

    pub(super) fn snake_(&self, x: &Buffer, alpha: &Vector, out: &mut Buffer) -> Result<()> {
        alpha.must_be(x.cols())?;
        let (out_at, count) = (out.shape(&self.pool, x.rows(), x.cols())?, x.len() as u64);
        // SAFETY: both buffers hold `count` values, alpha one a column.
        unsafe { self.launch("snake", values(x.len()), &[&x.at(), &alpha.at(), &out_at, &(x.cols() as u32), &count]) }
    }

    pub(super) fn add_(&self, x: &mut Buffer, y: &Buffer, scale: Option<&Vector>) -> Result<()> {
        if x.rows() != y.rows() || x.cols() != y.cols() {
            return Err(fault(format!("a sum of [{}, {}] and [{}, {}]", x.rows(), x.cols(), y.rows(), y.cols())));
        }
        match scale {
            None => self.in_place("add_to", x, &[&y.at()]),
            Some(scale) => {
                scale.must_be(x.cols())?;
                let cols = x.cols() as u32;
                self.in_place("add_scaled", x, &[&y.at(), &scale.at(), &cols])
            }
        }
    }

    pub(super) fn affine_(&self, x: &mut Buffer, scale: &Vector, shift: &Vector) -> Result<()> {
        scale.must_be(x.cols())?;
        shift.must_be(x.cols())?;
        let cols = x.cols() as u32;
        self.in_place("affine", x, &[&scale.at(), &shift.at(), &cols])
    }

    pub(super) fn layer_norm_(
        &self,
        x: &Buffer,
        gain: &Vector,
        bias: Option<&Vector>,
        eps: f32,
        out: &mut Buffer,
    ) -> Result<()> {
        gain.must_be(x.cols())?;
        bias.map_or(Ok(()), |bias| bias.must_be(x.cols()))?;
        let out_at = out.shape(&self.pool, x.rows(), x.cols())?;
        let bias = bias.map_or(0, Vector::at);
        let grid = Grid::new((x.rows() as u32, 1), 256);
        // SAFETY: a block of 256 threads a row, buffers of the same shape, parameters of one value a column.
        unsafe { self.launch("layer_norm", grid, &[&x.at(), &gain.at(), &bias, &eps, &out_at, &(x.cols() as u32)]) }
    }

    pub(super) fn rms_norm_(&self, x: &Buffer, gain: &Vector, eps: f32, out: &mut Buffer) -> Result<()> {
        gain.must_be(x.cols())?;
        let out_at = out.shape(&self.pool, x.rows(), x.cols())?;
        let grid = Grid::new((x.rows() as u32, 1), 256);
        // SAFETY: as in `layer_norm_`.
        unsafe { self.launch("rms_norm", grid, &[&x.at(), &gain.at(), &eps, &out_at, &(x.cols() as u32)]) }
    }

    pub(super) fn rope_(&self, x: &mut Buffer, at: usize, heads: usize, rope: &Rope, of: &Rows) -> Result<()> {
        let half = rope.inv_freq.len();
        if at + heads * 2 * half > x.cols() || x.rows() != of.len() {
            return Err(fault(format!("{heads} heads of {} rotated from column {at} of {}", 2 * half, x.cols())));
        }
        let (frequencies, places) = (self.rope_table(rope)?, self.places(of)?);
        let stretch = if rope.stretch.is_empty() { 0 } else { frequencies.at() + 4 * half as u64 };
        let halves = u32::from(rope.pairs == RopePairs::Halves);
        let (cols, at, heads, half) = (x.cols() as u32, at as u32, heads as u32, half as u32);
        // SAFETY: a block a row, of which the heads are a part; the tables hold D/2 values, `places` a place a row.
        unsafe {
            self.launch(
                "rope",
                rows(x.rows(), half as usize),
                &[
                    &x.at(),
                    &cols,
                    &at,
                    &heads,
                    &frequencies.at(),
                    &stretch,
                    &half,
                    &rope.amplitude,
                    &halves,
                    &places.at(),
                ],
            )
        }
    }
}
