//! One small operation of each kind on a device, against plain arithmetic: whether a machine computes what it should.
//!
//! The conformance suite among the tests is thorough; this is what a user's machine can run in a moment, before a model is
//! at hand. Inputs have few bits, so that a backend may store them in 16.

use super::random::{Purpose, uniform};
use super::{Activations, Choice, Compute, Draw, Guidance, KvSpec, Rope, RopePairs, Rows, Segment, View};
use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::matrix::{Float, Matrix, PlainMatrix};
use crate::nvfp4::{GlobalScale, InputScale, Nvfp4Matrix, quantize};

/// Rows of every input; odd, so that wide loops have a rest.
const ROWS: usize = 3;
/// Columns of every input: two heads of 16, two blocks of 16.
const COLS: usize = 32;

/// What came of an operation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The operation.
    pub name: &'static str,
    /// What is wrong, if anything.
    pub wrong: Option<String>,
}

/// Runs an operation on a device.
type Operation<C> = fn(&C) -> Result<Pair>;

/// Runs them all. Results may be off by `tolerance` times the size of what is added up: about 1e-5 for f32, 1e-2 for a
/// backend that stores activations in 16 bits.
pub fn all<C: Compute>(c: &C, tolerance: f64) -> Vec<Outcome> {
    let checks: [(&'static str, Operation<C>); 20] = [
        ("embed", embed),
        ("layer norm", layer_norm),
        ("RMS norm", rms_norm),
        ("linear, BF16", |c| linear(c, &plain(), Activations::Full)),
        ("linear, NVFP4", |c| linear(c, &packed(), Activations::Full)),
        ("linear, NVFP4 with 4-bit input", |c| linear(c, &packed(), Activations::Fp4)),
        ("rotation", rotation),
        ("attention with a cache", attend),
        ("attention within groups", attend_within),
        ("gated SiLU", silu_mul),
        ("GELU", |c| in_place(c, C::gelu, |z| 0.5 * z * (1.0 + erf(z / std::f64::consts::SQRT_2)))),
        ("SiLU", |c| in_place(c, C::silu, |z| z / (1.0 + (-z).exp()))),
        ("tanh", |c| in_place(c, C::tanh, f64::tanh)),
        ("snake", snake),
        ("ELU", elu),
        ("finite scalar quantisation", |c| {
            in_place(c, |c, x| c.finite_scalar(x, 9.0), |z| (9.0 * z.tanh()).round_ties_even() / 9.0)
        }),
        ("convolution", conv),
        ("moving rows and columns", moving),
        ("guided step", guided),
        ("sampling and noise", sampling),
    ];
    checks
        .into_iter()
        .map(|(name, check)| Outcome {
            name,
            wrong: match check(c) {
                Ok(pair) => pair.differs(tolerance),
                Err(error) => Some(error.to_string()),
            },
        })
        .collect()
}

/// What a device made, and what it should be.
struct Pair {
    got: Vec<f32>,
    expected: Vec<f64>,
    /// How large the terms are.
    size: f64,
}

impl Pair {
    fn differs(&self, tolerance: f64) -> Option<String> {
        if self.got.len() != self.expected.len() {
            return Some(format!("{} values in place of {}", self.got.len(), self.expected.len()));
        }
        let off = |(got, expected): &(&f32, &f64)| (f64::from(**got) - **expected).abs();
        // NaN is never within.
        let within = |pair: &(&f32, &f64)| off(pair) <= tolerance * self.size;
        let (got, expected) = self.got.iter().zip(&self.expected).find(|pair| !within(pair))?;
        Some(format!("{got} in place of {expected:.6}"))
    }
}

/// In -1..1 with eight bits.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 53 + i * i * 11) % 255) as f32 / 128.0 - 0.992_187_5).collect()
}

fn input<C: Compute>(c: &C, seed: usize) -> Result<(Vec<f32>, C::Buffer)> {
    let x = values(ROWS * COLS, seed);
    let mut buffer = c.buffer();
    c.write(&x, COLS, &mut buffer)?;
    Ok((x, buffer))
}

fn whole<B>(buffer: &B, width: usize) -> View<'_, B> {
    View { buffer, at: 0, width }
}

fn pair<C: Compute>(c: &C, out: &C::Buffer, expected: Vec<f64>, size: f64) -> Result<Pair> {
    Ok(Pair { got: c.read(out)?, expected, size })
}

fn bf16(n: usize, k: usize, seed: usize) -> (Vec<f32>, PlainMatrix) {
    let w = values(n * k, seed);
    let bytes: Vec<u8> = w.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
    (w, PlainMatrix { n, k, float: Float::Bf16, bytes: Bytes::from(bytes) })
}

fn plain() -> Matrix {
    Matrix::Plain(bf16(5, COLS, 2).1)
}

fn packed() -> Matrix {
    let (n, k) = (5, COLS);
    let codes: Vec<u8> = (0..n * k / 2).map(|i| (i * 59 + 7) as u8).collect();
    let scales: Vec<u8> = (0..n * k / 16).map(|i| 0x30 + i as u8).collect();
    let (global, input) = (GlobalScale::Multiply(0.02), Some(InputScale::Multiply(0.001)));
    Matrix::Nvfp4(Nvfp4Matrix { n, k, codes: codes.into(), scales: scales.into(), global, input })
}

/// `[N, K]` in plain numbers.
fn meaning(w: &Matrix) -> Vec<f64> {
    let values = match w {
        Matrix::Plain(plain) => plain.float.decode(&plain.bytes),
        Matrix::Nvfp4(packed) => packed.dequantize(),
    };
    values.into_iter().map(f64::from).collect()
}

fn product(x: &[f64], w: &[f64], k: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    x.chunks_exact(k).flat_map(|x| w.chunks_exact(k).map(move |w| dot(x, w))).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// Rows of one slot from position 0 on.
fn first_rows() -> Rows {
    Rows { segments: vec![Segment { slot: 0, start: 0, len: ROWS }] }
}

fn embed<C: Compute>(c: &C) -> Result<Pair> {
    let (w, table) = bf16(7, COLS, 3);
    let mut out = c.buffer();
    c.embed(&c.prepare_table(&[table])?, &[6, 0, 2, 2], 2, &mut out)?;
    let row = |id: usize| &w[id * COLS..][..COLS];
    let sum = |a: usize, b: usize| row(a).iter().zip(row(b)).map(|(a, b)| f64::from(a + b)).collect::<Vec<_>>();
    pair(c, &out, [sum(6, 0), sum(2, 2)].concat(), 2.0)
}

fn layer_norm<C: Compute>(c: &C) -> Result<Pair> {
    let (x, buffer) = input(c, 4)?;
    let (gain, bias) = (values(COLS, 5), values(COLS, 6));
    let mut out = c.buffer();
    c.layer_norm(&buffer, &c.prepare_vector(&gain)?, Some(&c.prepare_vector(&bias)?), 1e-5, &mut out)?;
    let row = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / COLS as f64;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / COLS as f64;
        let norm = |v: &f64| (v - mean) / (variance + 1e-5).sqrt();
        let scaled = x.iter().zip(&gain).zip(&bias);
        scaled.map(|((v, g), b)| norm(v) * f64::from(*g) + f64::from(*b)).collect::<Vec<_>>()
    };
    pair(c, &out, wide(&x).chunks_exact(COLS).flat_map(row).collect(), 3.0)
}

fn rms_norm<C: Compute>(c: &C) -> Result<Pair> {
    let (x, buffer) = input(c, 7)?;
    let gain = values(COLS, 8);
    let mut out = c.buffer();
    c.rms_norm(&buffer, &c.prepare_vector(&gain)?, 1e-5, &mut out)?;
    let row = |x: &[f64]| {
        let square = x.iter().map(|v| v * v).sum::<f64>() / COLS as f64;
        x.iter().zip(&gain).map(|(v, g)| v / (square + 1e-5).sqrt() * f64::from(*g)).collect::<Vec<_>>()
    };
    pair(c, &out, wide(&x).chunks_exact(COLS).flat_map(row).collect(), 3.0)
}

fn linear<C: Compute>(c: &C, w: &Matrix, activations: Activations) -> Result<Pair> {
    let (x, buffer) = input(c, 9)?;
    let prepared = c.prepare_linear(std::slice::from_ref(w), None, activations)?;
    let mut out = c.buffer();
    c.linear(&prepared, whole(&buffer, COLS), &mut out)?;
    let x = match (w, activations) {
        (Matrix::Nvfp4(Nvfp4Matrix { input: Some(scale), .. }), Activations::Fp4) => through_fp4(&x, *scale),
        _ => wide(&x),
    };
    pair(c, &out, product(&x, &meaning(w), COLS), 4.0)
}

/// What quantised rows stand for.
fn through_fp4(x: &[f32], scale: InputScale) -> Vec<f64> {
    let mut all = Vec::new();
    for x in x.chunks_exact(COLS) {
        let (mut codes, mut scales) = (vec![0; COLS / 2], vec![0; COLS / 16]);
        quantize::activations(x, scale, &mut codes, &mut scales);
        let global = GlobalScale::Multiply(scale.factor());
        let row = Nvfp4Matrix { n: 1, k: COLS, codes: codes.into(), scales: scales.into(), global, input: None };
        all.extend(wide(&row.dequantize()));
    }
    all
}

fn rotation<C: Compute>(c: &C) -> Result<Pair> {
    let (x, mut buffer) = input(c, 10)?;
    let rope = Rope::plain(10_000.0, COLS / 2, RopePairs::Interleaved);
    let rows = Rows { segments: vec![Segment { slot: 0, start: 5, len: ROWS }] };
    c.rope(&mut buffer, 0, 2, &rope, &rows)?;
    let mut expected = wide(&x);
    for (r, row) in expected.chunks_exact_mut(COLS).enumerate() {
        for (i, two) in row.chunks_exact_mut(2).enumerate() {
            let (sin, cos) = f64::from(rope.angle(5 + r, i % (COLS / 4))).sin_cos();
            (two[0], two[1]) = (two[0] * cos - two[1] * sin, two[1] * cos + two[0] * sin);
        }
    }
    pair(c, &buffer, expected, 2.0)
}

/// Query heads 0 and 1 of size 16 read key/value head 0; `sees` are the rows that row r looks at.
fn attention(q: &[f32], k: &[f32], v: &[f32], sees: impl Fn(usize) -> std::ops::Range<usize>) -> Vec<f64> {
    let d = COLS / 2;
    let mut out = Vec::new();
    for r in 0..ROWS {
        for head in 0..2 {
            let q = &q[r * COLS + head * d..][..d];
            let score = |s: usize| {
                let k = &k[s * d..][..d];
                (q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>() / (d as f64).sqrt()).exp()
            };
            let total: f64 = sees(r).map(score).sum();
            out.extend((0..d).map(|j| sees(r).map(|s| score(s) / total * f64::from(v[s * d + j])).sum::<f64>()));
        }
    }
    out
}

/// Query rows `[ROWS, COLS]`, keys and values `[ROWS, COLS / 2]`.
fn heads<C: Compute>(c: &C) -> Result<[(Vec<f32>, C::Buffer); 3]> {
    let narrow = |seed| {
        let x = values(ROWS * COLS / 2, seed);
        let mut buffer = c.buffer();
        c.write(&x, COLS / 2, &mut buffer).map(|()| (x, buffer))
    };
    Ok([input(c, 11)?, narrow(12)?, narrow(13)?])
}

fn attend<C: Compute>(c: &C) -> Result<Pair> {
    let [q, k, v] = heads(c)?;
    let spec = KvSpec { slots: 1, kv_heads: 1, head_dim: COLS / 2, windows: vec![None], max_positions: 8 };
    let (mut cache, mut out) = (c.kv_cache(&spec)?, c.buffer());
    let (kv, rows) = (COLS / 2, first_rows());
    c.attend(&mut cache, 0, whole(&q.1, COLS), whole(&k.1, kv), whole(&v.1, kv), &rows, &mut out)?;
    pair(c, &out, attention(&q.0, &k.0, &v.0, |r| 0..r + 1), 2.0)
}

fn attend_within<C: Compute>(c: &C) -> Result<Pair> {
    let [q, k, v] = heads(c)?;
    let (mut out, kv) = (c.buffer(), COLS / 2);
    c.attend_within(ROWS, 1, whole(&q.1, COLS), whole(&k.1, kv), whole(&v.1, kv), &mut out)?;
    pair(c, &out, attention(&q.0, &k.0, &v.0, |_| 0..ROWS), 2.0)
}

fn silu_mul<C: Compute>(c: &C) -> Result<Pair> {
    let ((gate, a), (up, b)) = (input(c, 14)?, input(c, 15)?);
    let mut out = c.buffer();
    c.silu_mul(whole(&a, COLS), whole(&b, COLS), &mut out)?;
    let silu = |z: f64| z / (1.0 + (-z).exp());
    pair(c, &out, wide(&gate).into_iter().zip(wide(&up)).map(|(g, u)| silu(g) * u).collect(), 1.0)
}

fn in_place<C: Compute>(
    c: &C,
    run: impl Fn(&C, &mut C::Buffer) -> Result<()>,
    exact: impl Fn(f64) -> f64,
) -> Result<Pair> {
    let (x, mut buffer) = input(c, 16)?;
    run(c, &mut buffer)?;
    pair(c, &buffer, wide(&x).into_iter().map(exact).collect(), 1.0)
}

fn snake<C: Compute>(c: &C) -> Result<Pair> {
    let (x, buffer) = input(c, 17)?;
    let alpha: Vec<f32> = (0..COLS).map(|i| 0.25 + i as f32 / 16.0).collect();
    let mut out = c.buffer();
    c.snake(&buffer, &c.prepare_vector(&alpha)?, &mut out)?;
    let exact = |(i, z): (usize, f64)| {
        let alpha = f64::from(alpha[i % COLS]);
        z + (alpha * z).sin().powi(2) / (alpha + 1e-9)
    };
    pair(c, &out, wide(&x).into_iter().enumerate().map(exact).collect(), 2.0)
}

fn elu<C: Compute>(c: &C) -> Result<Pair> {
    let (x, buffer) = input(c, 18)?;
    let mut out = c.buffer();
    c.elu(&buffer, &mut out)?;
    pair(c, &out, wide(&x).into_iter().map(|z| if z > 0.0 { z } else { z.exp_m1() }).collect(), 1.0)
}

fn conv<C: Compute>(c: &C) -> Result<Pair> {
    let (x, buffer) = input(c, 19)?;
    let (n, taps) = (4, 2);
    let (w, matrix) = bf16(n, taps * COLS, 20);
    let prepared = c.prepare_linear(&[Matrix::Plain(matrix)], None, Activations::Full)?;
    let (mut carry, mut out) = (c.carry(1, taps - 1, COLS)?, c.buffer());
    c.conv(&prepared, &mut carry, &buffer, &first_rows(), &mut out)?;
    // Nothing comes before the first row.
    let padded = [vec![0.0; COLS], wide(&x)].concat();
    let seen: Vec<f64> = (0..ROWS).flat_map(|r| padded[r * COLS..(r + 2) * COLS].to_vec()).collect();
    pair(c, &out, product(&seen, &wide(&w), taps * COLS), 8.0)
}

/// add, scale, fold, gather, join: nothing here may lose a bit.
fn moving<C: Compute>(c: &C) -> Result<Pair> {
    let ((x, mut a), (y, b)) = (input(c, 21)?, input(c, 22)?);
    c.add(&mut a, &b, None)?;
    c.scale(&mut a, 0.5)?;
    let (mut picked, mut joined) = (c.buffer(), c.buffer());
    c.gather(&a, &[2, 0], &mut picked)?;
    c.join(View { buffer: &picked, at: 8, width: 8 }, View { buffer: &picked, at: 0, width: 8 }, &mut joined)?;
    c.unfold(&mut joined, 2)?;
    c.fold(&mut joined, 2)?;
    let half = |i: usize| 0.5 * (f64::from(x[i]) + f64::from(y[i]));
    let expected = [2, 0].into_iter().flat_map(|r| (8..16).chain(0..8).map(move |col| r * COLS + col)).map(half);
    pair(c, &joined, expected.collect(), 1.0)
}

fn guided<C: Compute>(c: &C) -> Result<Pair> {
    let (x, mut buffer) = input(c, 23)?;
    let v = values(2 * ROWS * COLS, 24);
    let mut velocities = c.buffer();
    c.write(&v, COLS, &mut velocities)?;
    c.guided_step(&mut buffer, &velocities, ROWS, &[Guidance { cfg: 2.0, dt: 0.125 }])?;
    let v = wide(&v);
    let (with, without) = v.split_at(ROWS * COLS);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let alpha = dot(with, without) / (dot(without, without) + 1e-8);
    let step = |((x, with), without): ((f64, &f64), &f64)| {
        let base = alpha * without;
        x - 0.125 * (base + 2.0 * (with - base))
    };
    pair(c, &buffer, wide(&x).into_iter().zip(with).zip(without).map(step).collect(), 2.0)
}

/// The documented random number chooses the token, and noise is normal as far as its moments tell.
fn sampling<C: Compute>(c: &C) -> Result<Pair> {
    let logits = values(ROWS * COLS, 25);
    let mut buffer = c.buffer();
    c.write(&logits, COLS, &mut buffer)?;
    let choices: Vec<Choice> = (0..ROWS as u32)
        .map(|r| Choice { columns: COLS - 2, temperature: r as f32 / 2.0, top_k: 10, seed: 9, step: r })
        .collect();
    let got = c.sample(&buffer, &choices)?;
    let mut noise = c.buffer();
    c.noise(&[Draw { seed: 9, step: 0, scale: 1.0 }], 64, 64, &mut noise)?;
    let noise = wide(&c.read(&noise)?);
    let square = noise.iter().map(|v| v * v).sum::<f64>() / noise.len().max(1) as f64;
    // Six standard deviations of what 4096 normal numbers can be.
    if noise.len() != 4096 || !(0.87..1.13).contains(&square) {
        return Err(Error::new(format!("{} random numbers have the variance {square:.3}", noise.len())));
    }
    let expected = choices.iter().zip(logits.chunks_exact(COLS)).map(|(choice, row)| f64::from(chosen(choice, row)));
    let got = got.into_iter().map(|column| column as f32).collect();
    Ok(Pair { got, expected: expected.collect(), size: 1.0 })
}

fn chosen(choice: &Choice, row: &[f32]) -> u32 {
    let mut order: Vec<usize> = (0..choice.columns).collect();
    order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
    if choice.temperature <= 0.0 {
        return order[0] as u32;
    }
    order.truncate(choice.top_k);
    let weight = |column: usize| (f64::from(row[column] - row[order[0]]) / f64::from(choice.temperature)).exp();
    let total: f64 = order.iter().map(|column| weight(*column)).sum();
    let number = f64::from(uniform(choice.seed, choice.step, Purpose::Token));
    let mut sum = 0.0;
    let found = order.iter().find(|column| {
        sum += weight(**column);
        sum > number * total
    });
    found.copied().unwrap_or(order[0]) as u32
}

/// The error function by its series, for arguments below 1.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..30 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::compute::cpu::{Cpu, Isa};

    #[test]
    fn this_machine_is_right() {
        for isa in Isa::available() {
            let outcomes = all(&Cpu::with(isa, Some(1)).unwrap(), 1e-5);
            for Outcome { name, wrong } in &outcomes {
                assert_eq!(*wrong, None, "{name} on {}", isa.name());
            }
            assert_eq!(outcomes.len(), 20);
        }
    }

    #[test]
    fn what_is_wrong_is_noticed() {
        let pair = |got: &[f32]| Pair { got: got.to_vec(), expected: vec![1.0, -2.0], size: 2.0 };
        assert_eq!(pair(&[1.0, -2.0]).differs(1e-5), None);
        assert_eq!(pair(&[1.0, -2.1]).differs(1e-5).unwrap(), "-2.1 in place of -2.000000");
        assert_eq!(pair(&[f32::NAN, -2.0]).differs(1e-5).unwrap(), "NaN in place of 1.000000");
        assert!(pair(&[1.0]).differs(1e-5).unwrap().contains("1 values in place of 2"));
    }
}
