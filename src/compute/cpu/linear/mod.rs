//! `out = x Wᵀ + bias` for weights that stay as the checkpoint's bytes.
//!
//! Every output is one dot product in the order of [`super::lanes`], multiplied by its matrix's global scale if it has one,
//! plus its bias. Neither the tile nor the thread that computes an output changes a bit of it.

mod fp4;
#[cfg(target_arch = "x86_64")]
mod fp4_avx512;
mod readers;
mod tile;

use std::ops::Range;

pub(super) use tile::{Large, Medium, Small, Tiles};

use super::isa::Isa;
use super::pool::{Pool, Shareable};
use crate::compute::Activations;
use crate::error::{Error, Result};
use crate::matrix::{Float, Matrix, PlainMatrix};
use crate::nvfp4::{InputScale, Nvfp4Matrix};

/// Fewer multiply-adds than this (about 3 µs) are not worth another thread.
const TASK: usize = 32 * 1024;
/// Outputs of a task are a multiple of this, so that whole tiles and whole cache lines stay together.
const GRAIN: usize = 16;

/// Matrices stacked along N over one input of K values.
pub struct Linear {
    n: usize,
    k: usize,
    parts: Vec<Part>,
    /// `[N]`
    bias: Option<Vec<f32>>,
    /// The different scales that parts quantise the input with.
    inputs: Vec<InputScale>,
}

/// Outputs `from .. from + weights.n()` of a linear.
struct Part {
    from: usize,
    weights: Weights,
}

enum Weights {
    Plain(PlainMatrix),
    /// Weights of 4 bits, input as it is; `alpha` multiplies the sum.
    Nvfp4 {
        matrix: Nvfp4Matrix,
        alpha: f32,
    },
    /// Both of 4 bits; `input` is an index into [`Linear::inputs`].
    Fp4 {
        matrix: Nvfp4Matrix,
        alpha: f32,
        input: usize,
    },
}

impl Weights {
    fn n(&self) -> usize {
        match self {
            Weights::Plain(m) => m.n,
            Weights::Nvfp4 { matrix, .. } | Weights::Fp4 { matrix, .. } => matrix.n,
        }
    }
}

/// Rows of K values inside one slice; they may overlap, as those of a convolution do.
pub(super) struct Inputs<'a> {
    values: &'a [f32],
    /// Where each row begins.
    rows: Vec<usize>,
    k: usize,
}

impl<'a> Inputs<'a> {
    /// `None` where a row does not lie within the values: the kernels rely on it.
    pub(super) fn new(values: &'a [f32], rows: Vec<usize>, k: usize) -> Option<Self> {
        let within = |at: &usize| at.checked_add(k).is_some_and(|end| end <= values.len());
        rows.iter().all(within).then_some(Self { values, rows, k })
    }

    /// How many rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Row r.
    pub(super) fn row(&self, r: usize) -> &'a [f32] {
        &self.values[self.rows[r]..self.rows[r] + self.k]
    }
}

/// Where a part's results go: output n of row r to `at[r * stride + n]`, as `sum * alpha + bias[n]`.
#[derive(Clone, Copy)]
pub(in crate::compute::cpu) struct Output<'a> {
    at: Shareable,
    stride: usize,
    alpha: Option<f32>,
    bias: Option<&'a [f32]>,
}

impl Output<'_> {
    /// # Safety
    /// Place (r, n) must exist and belong to the calling thread.
    #[inline(always)]
    unsafe fn put(&self, r: usize, n: usize, sum: f32) {
        let mut value = match self.alpha {
            Some(alpha) => sum * alpha,
            None => sum,
        };
        if let Some(bias) = self.bias {
            value += bias[n];
        }
        // SAFETY: the caller's promise.
        unsafe { self.at.at(r * self.stride + n).write(value) }
    }
}

impl Linear {
    /// Checks that the bytes hold what the shapes say: the kernels rely on it.
    pub fn prepare(parts: &[Matrix], bias: Option<&[f32]>, activations: Activations) -> Result<Self> {
        let k = parts.first().map_or(0, Matrix::k);
        let mut linear = Self { n: 0, k, parts: Vec::new(), bias: bias.map(<[f32]>::to_vec), inputs: Vec::new() };
        for part in parts {
            if part.k() != k {
                return Err(fault(format!("stacked matrices of {k} and {} columns", part.k())));
            }
            let weights = match part {
                Matrix::Plain(m) => {
                    whole(&m.bytes, m.n, m.k * m.float.size())?;
                    Weights::Plain(m.clone())
                }
                Matrix::Nvfp4(m) => {
                    if !k.is_multiple_of(16) {
                        return Err(fault(format!("NVFP4 with {k} columns")));
                    }
                    whole(&m.codes, m.n, k / 2)?;
                    whole(&m.scales, m.n, k / 16)?;
                    match activations {
                        Activations::Full => Weights::Nvfp4 { matrix: m.clone(), alpha: m.global.factor() },
                        Activations::Fp4 => linear.fp4(m)?,
                    }
                }
            };
            linear.parts.push(Part { from: linear.n, weights });
            linear.n += part.n();
        }
        match bias {
            Some(bias) if bias.len() != linear.n => {
                Err(fault(format!("a bias of {} for {} outputs", bias.len(), linear.n)))
            }
            _ => Ok(linear),
        }
    }

    fn fp4(&mut self, m: &Nvfp4Matrix) -> Result<Weights> {
        let Some(scale) = m.input else {
            return Err(Error::new("the checkpoint has no input scales, so its activations cannot be 4 bits wide")
                .hint("use `--activations bf16`"));
        };
        let input = match self.inputs.iter().position(|s| *s == scale) {
            Some(known) => known,
            None => {
                self.inputs.push(scale);
                self.inputs.len() - 1
            }
        };
        Ok(Weights::Fp4 { matrix: m.clone(), alpha: scale.factor() * m.global.factor(), input })
    }

    /// N.
    pub fn n(&self) -> usize {
        self.n
    }

    /// K.
    pub fn k(&self) -> usize {
        self.k
    }

    /// `out` is `[R, N]`.
    pub(super) fn run(&self, isa: Isa, pool: &Pool, x: &Inputs<'_>, out: &mut [f32]) -> Result<()> {
        if x.k != self.k || out.len() != x.len() * self.n {
            return Err(fault(format!("a linear of {} columns over rows of {}", self.k, x.k)));
        }
        let quantised: Vec<_> = self.inputs.iter().map(|scale| fp4::Quantised::new(isa, x, *scale)).collect();
        let grains = self.n.div_ceil(GRAIN);
        let cost = x.len() * self.n * self.k;
        let tasks = (cost / TASK).clamp(1, pool.threads() * 4).min(grains.max(1));
        let out = Shareable(out.as_mut_ptr());
        pool.run(tasks, &|task| {
            let range = (task * grains / tasks * GRAIN)..((task + 1) * grains / tasks * GRAIN).min(self.n);
            for part in &self.parts {
                let (from, to) = (range.start.max(part.from), range.end.min(part.from + part.weights.n()));
                if from < to {
                    self.part(isa, part, x, &quantised, from - part.from..to - part.from, out);
                }
            }
        });
        Ok(())
    }

    /// Outputs `range` of one part, for all rows. No other thread has them.
    fn part(
        &self,
        isa: Isa,
        part: &Part,
        x: &Inputs<'_>,
        quantised: &[fp4::Quantised],
        range: Range<usize>,
        out: Shareable,
    ) {
        let bias = self.bias.as_ref().map(|bias| &bias[part.from..part.from + part.weights.n()]);
        // SAFETY: the part's first output lies within `out`.
        let at = Shareable(unsafe { out.at(part.from) });
        let out = |alpha| Output { at, stride: self.n, alpha, bias };
        match &part.weights {
            Weights::Plain(m) => match m.float {
                Float::F32 => tile::f32(isa, m, x, range, out(None)),
                Float::Bf16 => tile::bf16(isa, m, x, range, out(None)),
                Float::F16 => tile::f16(isa, m, x, range, out(None)),
            },
            Weights::Nvfp4 { matrix, alpha } => tile::nvfp4(isa, matrix, x, range, out(Some(*alpha))),
            Weights::Fp4 { matrix, alpha, input } => {
                fp4::outputs(matrix, &quantised[*input], range, out(Some(*alpha)));
            }
        }
    }
}

fn whole(bytes: &[u8], rows: usize, row: usize) -> Result<()> {
    if rows.checked_mul(row) == Some(bytes.len()) {
        Ok(())
    } else {
        Err(fault(format!("{} bytes for {rows} rows of {row}", bytes.len())))
    }
}

/// Not the user's doing: the model asked for something that makes no sense.
pub(super) fn fault(what: String) -> Error {
    Error::new(format!("fault of the program: {what}"))
}
