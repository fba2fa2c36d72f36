//! What is random: tokens chosen, noise, and the solver's steps from it.

use bytemuck::{Pod, Zeroable};

use super::buffer::Buffer;
use super::stream::Grid;
use super::{Cuda, fault};
use crate::compute::{Choice, Draw, Guidance};
use crate::error::{Error, Result};

/// `KEPT` in kernels/sample.cu.
const KEPT: usize = 2048;
/// `NOT_FINITE` in kernels/sample.cu.
const NOT_FINITE: u32 = u32::MAX;

/// `Choice` in kernels/sample.cu.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct DeviceChoice {
    seed: u64,
    step: u32,
    columns: u32,
    temperature: f32,
    top_k: u32,
}

/// `Draw` in kernels/solver.cu.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct DeviceDraw {
    seed: u64,
    step: u32,
    scale: f32,
}

impl Cuda {
    pub(super) fn sample_(&self, logits: &Buffer, choices: &[Choice]) -> Result<Vec<u32>> {
        if logits.rows() != choices.len() {
            return Err(fault(format!("{} choices among {} rows", choices.len(), logits.rows())));
        }
        if logits.cols() == 0 || choices.iter().any(|c| c.columns == 0) {
            return Err(fault("a choice among no columns".to_owned()));
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let list: Vec<DeviceChoice> = choices
            .iter()
            .map(|c| DeviceChoice {
                seed: c.seed,
                step: c.step,
                columns: number(c.columns),
                temperature: c.temperature,
                top_k: number(c.top_k),
            })
            .collect();
        let kept = choices.iter().filter(|c| c.temperature > 0.0).map(|c| {
            let columns = c.columns.min(logits.cols());
            if c.top_k == 0 { columns } else { c.top_k.min(columns) }
        });
        let kept = kept.max().unwrap_or(0);
        let padded = if kept > KEPT { kept.next_power_of_two() } else { 0 };
        let (list, space) = (self.send(&list)?, self.pool.take(choices.len() * padded * 16)?);
        let out = self.pool.take(choices.len() * 4)?;
        let grid = Grid::new((choices.len() as u32, 1), 1024);
        let mut columns = vec![0; choices.len()];
        // SAFETY: a block a row; `space` holds a key and a double for every logit that may stay.
        unsafe {
            let (cols, padded) = (logits.cols() as u32, padded as u32);
            self.launch("sample", grid, &[&logits.at(), &cols, &list.at(), &space.at(), &padded, &out.at()])?;
            self.stream.get(out.at(), &mut columns)?;
        }
        if columns.contains(&NOT_FINITE) {
            return Err(Error::new("the model's scores are not finite").hint("the checkpoint may be damaged"));
        }
        Ok(columns)
    }

    pub(super) fn noise_(&self, draws: &[Draw], rows: usize, cols: usize, out: &mut Buffer) -> Result<()> {
        let list: Vec<DeviceDraw> =
            draws.iter().map(|d| DeviceDraw { seed: d.seed, step: d.step, scale: d.scale }).collect();
        let (list, out_at) = (self.send(&list)?, out.shape(&self.pool, draws.len() * rows, cols)?);
        let quads = (rows * cols).div_ceil(4);
        let grid = Grid::new((quads.div_ceil(128) as u32, draws.len() as u32), 128);
        // SAFETY: a thread four numbers of a draw; `out` holds all draws.
        unsafe { self.launch("noise", grid, &[&list.at(), &(rows as u32), &(cols as u32), &out_at]) }
    }

    pub(super) fn guided_step_(&self, x: &mut Buffer, v: &Buffer, per_draw: usize, steps: &[Guidance]) -> Result<()> {
        if x.rows() != steps.len() * per_draw || v.rows() != 2 * x.rows() || v.cols() != x.cols() {
            return Err(fault(format!("{} draws of {per_draw} rows in {}", steps.len(), x.rows())));
        }
        let steps: Vec<[f32; 2]> = steps.iter().map(|s| [s.cfg, s.dt]).collect();
        let list = self.send(&steps)?;
        let (size, all) = ((per_draw * x.cols()) as u64, x.len() as u64);
        let grid = Grid::new((steps.len() as u32, 1), 256);
        // SAFETY: a block of 256 threads a draw; v is twice as long as x.
        unsafe { self.launch("guided_step", grid, &[&x.at(), &v.at(), &size, &all, &list.at()]) }
    }
}
