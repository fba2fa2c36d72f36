//! The CPU backend: the reference for every other one, and as exact as f32 allows.
//!
//! Three promises hold for every operation: f32 accumulation in one order (see `lanes`), the same bits on every
//! instruction set and with any number of threads, and a row's result that does not depend on the other rows. Weights
//! stay as the checkpoint's bytes.

mod activation;
mod attention;
mod buffer;
mod conv;
mod embed;
mod isa;
mod lanes;
mod linear;
mod math;
mod norm;
mod pool;
mod probe;
mod rope;
mod sample;
mod solver;
mod within;

pub use attention::KvCache;
pub use buffer::Buffer;
pub use conv::Carry;
pub use embed::Table;
pub use isa::Isa;
pub use linear::Linear;

use self::linear::{Inputs, fault};
use self::pool::Pool;
use super::stack::{Stack, StackLayer, StackSpec};
use super::{Activations, Choice, Compute, Draw, Guidance, KvSpec, ReadRate, Rope, Rows, View};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, PlainMatrix};

/// Threads and an instruction set.
pub struct Cpu {
    isa: Isa,
    pool: Pool,
}

impl Cpu {
    /// The fastest instruction set of this machine (or what `RTTS_CPU` names) on so many threads; `None` = one per core
    /// this process may use.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        Self::with(Isa::chosen()?, threads)
    }

    /// A given instruction set.
    pub fn with(isa: Isa, threads: Option<usize>) -> Result<Self> {
        let threads = match threads {
            Some(0) => return Err(Error::usage("no threads to compute on").hint("use `--threads 1` or more")),
            Some(threads) => threads,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Ok(Self { isa, pool: Pool::new(threads)? })
    }
}

impl Compute for Cpu {
    type Buffer = Buffer;
    type Linear = Linear;
    type Table = Table;
    type Vector = Vec<f32>;
    type KvCache = KvCache;
    type Carry = Carry;
    type Stack = Stack<Self>;

    fn describe(&self) -> String {
        let threads = self.pool.threads();
        format!("CPU, {}, {threads} thread{}", self.isa.name(), if threads == 1 { "" } else { "s" })
    }

    fn read_rate(&self) -> Result<Option<ReadRate>> {
        probe::read_rate(&self.pool)
    }

    fn prepare_linear(&self, parts: &[Matrix], bias: Option<&[f32]>, activations: Activations) -> Result<Linear> {
        Linear::prepare(parts, bias, activations)
    }

    fn prepare_table(&self, parts: &[PlainMatrix]) -> Result<Table> {
        Table::prepare(parts)
    }

    fn prepare_vector(&self, values: &[f32]) -> Result<Vec<f32>> {
        Ok(values.to_vec())
    }

    fn prepare_stack(&self, spec: &StackSpec, layers: &[StackLayer], activations: Activations) -> Result<Stack<Self>> {
        Stack::new(self, spec, layers, activations)
    }

    fn buffer(&self) -> Buffer {
        Buffer::default()
    }

    fn kv_cache(&self, spec: &KvSpec) -> Result<KvCache> {
        Ok(KvCache::new(spec))
    }

    fn carry(&self, slots: usize, rows: usize, cols: usize) -> Result<Carry> {
        Ok(Carry::new(slots, rows, cols))
    }

    fn reset_kv(&self, cache: &mut KvCache, slot: usize) -> Result<()> {
        cache.reset(slot);
        Ok(())
    }

    fn reset_carry(&self, carry: &mut Carry, slot: usize) -> Result<()> {
        carry.reset(slot);
        Ok(())
    }

    fn embed(&self, table: &Table, ids: &[u32], per_row: usize, out: &mut Buffer) -> Result<()> {
        table.embed(ids, per_row, out)
    }

    fn layer_norm(
        &self,
        x: &Buffer,
        gain: &Vec<f32>,
        bias: Option<&Vec<f32>>,
        eps: f32,
        out: &mut Buffer,
    ) -> Result<()> {
        debug_assert!(gain.len() == x.cols() && bias.is_none_or(|b| b.len() == x.cols()));
        norm::layer_norm(self.isa, &self.pool, x, gain, bias.map(Vec::as_slice), eps, out);
        Ok(())
    }

    fn rms_norm(&self, x: &Buffer, gain: &Vec<f32>, eps: f32, out: &mut Buffer) -> Result<()> {
        debug_assert_eq!(gain.len(), x.cols());
        norm::rms_norm(self.isa, &self.pool, x, gain, eps, out);
        Ok(())
    }

    fn linear(&self, w: &Linear, x: View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        let (rows, cols) = (x.buffer.rows(), x.buffer.cols());
        let starts = (0..rows).map(|r| r * cols + x.at).collect();
        let inputs = Inputs::new(x.buffer.values(), starts, x.width)
            .ok_or_else(|| fault(format!("columns {}..{} of {cols}", x.at, x.at + x.width)))?;
        w.run(self.isa, &self.pool, &inputs, out.shape(rows, w.n()))
    }

    fn rope(&self, x: &mut Buffer, at: usize, heads: usize, rope: &Rope, rows: &Rows) -> Result<()> {
        debug_assert_eq!(x.rows(), rows.len());
        rope::rope(self.isa, &self.pool, x, at, heads, rope, rows);
        Ok(())
    }

    fn attend(
        &self,
        cache: &mut KvCache,
        layer: usize,
        q: View<'_, Buffer>,
        k: View<'_, Buffer>,
        v: View<'_, Buffer>,
        rows: &Rows,
        out: &mut Buffer,
    ) -> Result<()> {
        attention::attend(self.isa, &self.pool, cache, layer, &q, &k, &v, rows, out)
    }

    fn attend_within(
        &self,
        group: usize,
        kv_heads: usize,
        q: View<'_, Buffer>,
        k: View<'_, Buffer>,
        v: View<'_, Buffer>,
        out: &mut Buffer,
    ) -> Result<()> {
        within::attend_within(self.isa, &self.pool, group, kv_heads, &q, &k, &v, out)
    }

    fn run_stack(&self, stack: &mut Stack<Self>, cache: &mut KvCache, x: &mut Buffer, rows: &Rows) -> Result<()> {
        stack.run(self, cache, x, rows)
    }

    fn silu_mul(&self, gate: View<'_, Buffer>, up: View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        activation::silu_mul(self.isa, &self.pool, &gate, &up, out);
        Ok(())
    }

    fn gelu(&self, x: &mut Buffer) -> Result<()> {
        activation::gelu(self.isa, &self.pool, x);
        Ok(())
    }

    fn silu(&self, x: &mut Buffer) -> Result<()> {
        activation::silu(self.isa, &self.pool, x);
        Ok(())
    }

    fn tanh(&self, x: &mut Buffer) -> Result<()> {
        activation::tanh(self.isa, &self.pool, x);
        Ok(())
    }

    fn snake(&self, x: &Buffer, alpha: &Vec<f32>, out: &mut Buffer) -> Result<()> {
        activation::snake(self.isa, &self.pool, x, alpha, out);
        Ok(())
    }

    fn affine(&self, x: &mut Buffer, scale: &Vec<f32>, shift: &Vec<f32>) -> Result<()> {
        activation::affine(self.isa, &self.pool, x, scale, shift);
        Ok(())
    }

    fn finite_scalar(&self, x: &mut Buffer, levels: f32) -> Result<()> {
        activation::finite_scalar(self.isa, &self.pool, x, levels);
        Ok(())
    }

    fn elu(&self, x: &Buffer, out: &mut Buffer) -> Result<()> {
        activation::elu(self.isa, &self.pool, x, out);
        Ok(())
    }

    fn add(&self, x: &mut Buffer, y: &Buffer, scale: Option<&Vec<f32>>) -> Result<()> {
        activation::add(self.isa, &self.pool, x, y, scale.map(Vec::as_slice));
        Ok(())
    }

    fn conv(&self, w: &Linear, carry: &mut Carry, x: &Buffer, rows: &Rows, out: &mut Buffer) -> Result<()> {
        conv::conv(self.isa, &self.pool, w, carry, x, rows, out)
    }

    fn depthwise(
        &self,
        w: &Vec<f32>,
        bias: Option<&Vec<f32>>,
        phases: usize,
        dilation: usize,
        carry: &mut Carry,
        x: &Buffer,
        rows: &Rows,
        out: &mut Buffer,
    ) -> Result<()> {
        let w = conv::Depthwise { w, bias: bias.map(Vec::as_slice), phases, dilation };
        conv::depthwise(self.isa, &self.pool, &w, carry, x, rows, out)
    }

    fn unfold(&self, x: &mut Buffer, factor: usize) -> Result<()> {
        debug_assert!(factor > 0 && x.cols().is_multiple_of(factor));
        x.shape(x.rows() * factor, x.cols() / factor);
        Ok(())
    }

    fn fold(&self, x: &mut Buffer, factor: usize) -> Result<()> {
        if factor == 0 || !x.rows().is_multiple_of(factor) {
            return Err(fault(format!("{} rows folded by {factor}", x.rows())));
        }
        x.shape(x.rows() / factor, x.cols() * factor);
        Ok(())
    }

    fn blank(&self, rows: usize, cols: usize, out: &mut Buffer) -> Result<()> {
        out.shape(rows, cols).fill(0.0);
        Ok(())
    }

    fn scatter(&self, x: &Buffer, to: &[usize], out: &mut Buffer) -> Result<()> {
        debug_assert!(x.cols() == out.cols() && x.rows() == to.len());
        let cols = x.cols();
        let out = out.values_mut();
        for (x, to) in x.values().chunks_exact(cols.max(1)).zip(to) {
            out[to * cols..(to + 1) * cols].copy_from_slice(x);
        }
        Ok(())
    }

    fn join(&self, a: View<'_, Buffer>, b: View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        debug_assert_eq!(a.buffer.rows(), b.buffer.rows());
        let width = a.width + b.width;
        let out = out.shape(a.buffer.rows(), width);
        for (r, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
            out[..a.width].copy_from_slice(attention::row(&a, r));
            out[a.width..].copy_from_slice(attention::row(&b, r));
        }
        Ok(())
    }

    fn gather(&self, x: &Buffer, from: &[usize], out: &mut Buffer) -> Result<()> {
        let cols = x.cols();
        let out = out.shape(from.len(), cols);
        for (to, from) in out.chunks_exact_mut(cols.max(1)).zip(from) {
            to.copy_from_slice(&x.values()[from * cols..(from + 1) * cols]);
        }
        Ok(())
    }

    fn scale(&self, x: &mut Buffer, factor: f32) -> Result<()> {
        activation::scale(self.isa, &self.pool, x, factor);
        Ok(())
    }

    fn sample(&self, logits: &Buffer, choices: &[Choice]) -> Result<Vec<u32>> {
        debug_assert_eq!(logits.rows(), choices.len());
        let rows = logits.values().chunks_exact(logits.cols().max(1));
        rows.zip(choices).map(|(row, choice)| sample::sample(row, choice)).collect()
    }

    fn noise(&self, draws: &[Draw], rows: usize, cols: usize, out: &mut Buffer) -> Result<()> {
        solver::noise(draws, rows, cols, out);
        Ok(())
    }

    fn guided_step(&self, x: &mut Buffer, v: &Buffer, per_draw: usize, steps: &[Guidance]) -> Result<()> {
        solver::guided_step(self.isa, &self.pool, x, v, per_draw, steps);
        Ok(())
    }

    fn read(&self, x: &Buffer) -> Result<Vec<f32>> {
        Ok(x.values().to_vec())
    }

    fn write(&self, values: &[f32], cols: usize, out: &mut Buffer) -> Result<()> {
        debug_assert!(cols > 0 && values.len().is_multiple_of(cols));
        out.shape(values.len() / cols.max(1), cols).copy_from_slice(values);
        Ok(())
    }
}
