//! A small piece of work for every kind of kernel, on two devices.

use crate::compute::random::{Purpose, words};
use crate::compute::{Activations, Choice, Compute, KvSpec, Rope, RopePairs, Rows, Segment, View};
use crate::error::Result;
use crate::matrix::{Float, Matrix, PlainMatrix};
use crate::nvfp4::{GlobalScale, InputScale, quantize};

/// As far as results may differ, as a share of the largest.
pub const MOST: f32 = 2e-2;

const K: usize = 256;
const N: usize = 96;
const ROWS: usize = 11;

/// Numbers in -1..1, the same every time.
fn values(count: usize, of: u64) -> Vec<f32> {
    (0..count as u32).map(|i| (words(of, 0, Purpose::Noise, i)[0] >> 8) as f32 / 8_388_608.0 - 1.0).collect()
}

type Work<C> = fn(&C) -> Result<Vec<f32>>;

fn work<C: Compute>() -> [(&'static str, Work<C>); 7] {
    [
        ("bf16 linear", |c| linear(c, &Matrix::Plain(plain(N, K, Float::Bf16)), Activations::Full)),
        ("f32 linear", |c| linear(c, &Matrix::Plain(plain(N, K, Float::F32)), Activations::Full)),
        ("nvfp4 linear", |c| linear(c, &nvfp4()?, Activations::Full)),
        ("nvfp4 linear, 4-bit input", |c| linear(c, &nvfp4()?, Activations::Fp4)),
        ("norm and attention", attention),
        ("convolution", convolution),
        ("sampling", sampling),
    ]
}

/// The name of every piece, and how far the first device's results are from the second's.
pub fn compare<A: Compute, B: Compute>(a: &A, b: &B) -> Vec<(&'static str, Result<f32>)> {
    let pairs = work::<A>().into_iter().zip(work::<B>());
    pairs
        .map(|((name, on_a), (_, on_b))| {
            let away = on_a(a).and_then(|ours| on_b(b).map(|theirs| away(&ours, &theirs)));
            (name, away)
        })
        .collect()
}

/// Infinite where they are not comparable.
fn away(ours: &[f32], theirs: &[f32]) -> f32 {
    let size = theirs.iter().fold(f32::MIN_POSITIVE, |most, v| most.max(v.abs()));
    let off = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / size);
    let most = off.fold(0f32, |most, off| if off.is_nan() { f32::INFINITY } else { most.max(off) });
    if ours.len() == theirs.len() { most } else { f32::INFINITY }
}

fn plain(n: usize, k: usize, float: Float) -> PlainMatrix {
    let values = values(n * k, 1);
    match float {
        Float::Bf16 => {
            let bytes: Vec<u8> = values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
            PlainMatrix { n, k, float, bytes: bytes.into() }
        }
        _ => PlainMatrix::from_f32(n, k, &values),
    }
}

fn nvfp4() -> Result<Matrix> {
    let mut matrix = quantize::weights(N, K, &values(N * K, 2), GlobalScale::multiply_for(1.0))?;
    matrix.input = Some(InputScale::Multiply(1.0 / 2688.0));
    Ok(Matrix::Nvfp4(matrix))
}

fn linear<C: Compute>(c: &C, matrix: &Matrix, activations: Activations) -> Result<Vec<f32>> {
    let w = c.prepare_linear(std::slice::from_ref(matrix), Some(&values(N, 3)), activations)?;
    let (mut x, mut out) = (c.buffer(), c.buffer());
    c.write(&values(ROWS * K, 4), K, &mut x)?;
    c.linear(&w, View { buffer: &x, at: 0, width: K }, &mut out)?;
    c.read(&out)
}

fn attention<C: Compute>(c: &C) -> Result<Vec<f32>> {
    let spec = KvSpec { slots: 1, kv_heads: 1, head_dim: 64, windows: vec![None], max_positions: 64 };
    let mut cache = c.kv_cache(&spec)?;
    let (mut x, mut normed, mut out) = (c.buffer(), c.buffer(), c.buffer());
    c.write(&values(ROWS * K, 5), K, &mut x)?;
    c.layer_norm(&x, &c.prepare_vector(&values(K, 6))?, None, 1e-5, &mut normed)?;
    let rows = Rows { segments: vec![Segment { slot: 0, start: 0, len: ROWS }] };
    c.rope(&mut normed, 0, 3, &Rope::plain(10_000.0, 64, RopePairs::Interleaved), &rows)?;
    let view = |at, width| View { buffer: &normed, at, width };
    c.attend(&mut cache, 0, view(0, 128), view(128, 64), view(192, 64), &rows, &mut out)?;
    c.read(&out)
}

fn convolution<C: Compute>(c: &C) -> Result<Vec<f32>> {
    let w = c.prepare_linear(&[Matrix::Plain(plain(N, 3 * 64, Float::F32))], None, Activations::Full)?;
    let mut carry = c.carry(1, 2, 64)?;
    let (mut x, mut active, mut out) = (c.buffer(), c.buffer(), c.buffer());
    c.write(&values(ROWS * 64, 7), 64, &mut x)?;
    c.elu(&x, &mut active)?;
    let rows = Rows { segments: vec![Segment { slot: 0, start: 0, len: ROWS }] };
    c.conv(&w, &mut carry, &active, &rows, &mut out)?;
    c.gelu(&mut out)?;
    c.read(&out)
}

fn sampling<C: Compute>(c: &C) -> Result<Vec<f32>> {
    let mut logits = c.buffer();
    c.write(&values(ROWS * N, 8), N, &mut logits)?;
    let choice = |step| Choice { columns: N, temperature: 0.8, top_k: 30, seed: 9, step };
    let choices: Vec<Choice> = (0..ROWS as u32).map(choice).collect();
    Ok(c.sample(&logits, &choices)?.into_iter().map(|column| column as f32).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::compute::cpu::Cpu;

    #[test]
    fn a_device_agrees_with_itself_and_a_wrong_number_shows() {
        let cpu = Cpu::new(Some(1)).unwrap();
        for (name, outcome) in compare(&cpu, &cpu) {
            assert_eq!(outcome.unwrap(), 0.0, "{name}");
        }
        assert!(away(&[1.0, 0.5], &[1.0, 0.4]) > MOST);
        assert!(away(&[f32::NAN], &[1.0]) > MOST);
        assert!(away(&[1.0], &[1.0, 2.0]) > MOST);
    }
}
