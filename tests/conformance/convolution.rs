//! Causal convolutions and their history.

use rtts::compute::{Activations, Compute, Rows};
use rtts::matrix::{Float, Matrix};
use rtts::nvfp4::InputScale;

use super::Backend;
use super::support::{Random, buffer, close, exact, product, rows, same};

fn conv<C: Compute>(c: &C, w: &C::Linear, carry: &mut C::Carry, x: &[f32], cols: usize, rows: &Rows) -> Vec<f32> {
    let (x, mut out) = (buffer(c, x, cols), c.buffer());
    c.conv(w, carry, &x, rows, &mut out).unwrap();
    c.read(&out).unwrap()
}

/// `taps - 1` zero rows, then x, unrolled: `[T, taps * C]`
fn unrolled(x: &[f32], cols: usize, taps: usize) -> Vec<f32> {
    let mut padded = vec![0.0; (taps - 1) * cols];
    padded.extend_from_slice(x);
    (0..x.len() / cols).flat_map(|t| padded[t * cols..(t + taps) * cols].to_vec()).collect()
}

/// Against the formula.
pub fn convolves<C: Compute>(b: &Backend<C>) {
    let mut random = Random(31);
    for (cols, taps, n) in [(1, 7, 5), (20, 7, 24), (16, 3, 8), (33, 1, 4), (5, 4, 1), (64, 2, 130)] {
        for len in [1, 2, 9, 40] {
            let w = Matrix::Plain(random.plain(n, taps * cols, Float::Bf16));
            let bias = random.values(n);
            let x = random.values(len * cols);
            let prepared = b.compute.prepare_linear(std::slice::from_ref(&w), Some(&bias), Activations::Full).unwrap();
            let mut carry = b.compute.carry(2, taps - 1, cols).unwrap();
            let got = conv(&b.compute, &prepared, &mut carry, &x, cols, &rows(&[(1, 0, len)]));
            let expected = product(&unrolled(&x, cols, taps), &exact(&w), taps * cols, Some(&bias));
            close(&format!("{cols} columns, {taps} taps"), &got, &expected, b.tolerance);
        }
    }
}

/// Packed weights, and packed inputs too.
pub fn quantised<C: Compute>(b: &Backend<C>) {
    let mut random = Random(32);
    let (cols, taps, n, len) = (16, 3, 12, 10);
    let w = random.nvfp4(n, taps * cols, false, Some(InputScale::Multiply(0.0005)));
    let x = random.values(len * cols);
    for activations in [Activations::Full, Activations::Fp4] {
        let prepared = b.compute.prepare_linear(&[Matrix::Nvfp4(w.clone())], None, activations).unwrap();
        let mut carry = b.compute.carry(1, taps - 1, cols).unwrap();
        let got = conv(&b.compute, &prepared, &mut carry, &x, cols, &rows(&[(0, 0, len)]));
        // The same linear over the unrolled rows.
        let (unrolled, mut out) = (buffer(&b.compute, &unrolled(&x, cols, taps), taps * cols), b.compute.buffer());
        b.compute.linear(&prepared, super::support::whole(&unrolled, taps * cols), &mut out).unwrap();
        same(&format!("{activations:?}"), &got, &b.compute.read(&out).unwrap());
    }
}

/// A transposed convolution as two taps and an unfolding.
pub fn transposed<C: Compute>(b: &Backend<C>) {
    let mut random = Random(33);
    let (cols, stride, to, len) = (6, 4, 5, 9);
    // [in, out, kernel]
    let kernel = random.values(cols * to * 2 * stride);
    let at = |i: usize, o: usize, k: usize| kernel[(i * to + o) * 2 * stride + k];
    // [stride * out, taps * in], the older tap first: it reaches the second half of the kernel.
    let mut w = Vec::new();
    for phase in 0..stride {
        for o in 0..to {
            w.extend((0..cols).map(|i| at(i, o, stride + phase)));
            w.extend((0..cols).map(|i| at(i, o, phase)));
        }
    }
    let w = Matrix::Plain(rtts::matrix::PlainMatrix::from_f32(stride * to, 2 * cols, &w));
    let prepared = b.compute.prepare_linear(&[w], None, Activations::Full).unwrap();
    let mut carry = b.compute.carry(1, 1, cols).unwrap();
    let x = random.values(len * cols);
    let (input, mut out) = (buffer(&b.compute, &x, cols), b.compute.buffer());
    let rows = rows(&[(0, 0, len)]);
    b.compute.conv(&prepared, &mut carry, &input, &rows, &mut out).unwrap();
    b.compute.unfold(&mut out, stride).unwrap();
    let mut expected = vec![(0.0, 0.0); len * stride * to];
    for t in 0..len {
        for k in 0..2 * stride {
            for o in 0..to {
                if let Some(place) = expected.get_mut((t * stride + k) * to + o) {
                    for i in 0..cols {
                        let term = f64::from(x[t * cols + i]) * f64::from(at(i, o, k));
                        place.0 += term;
                        place.1 += term.abs();
                    }
                }
            }
        }
    }
    close("transposed", &b.compute.read(&out).unwrap(), &expected, b.tolerance);
}

/// Against the formula, with phases; and the same bytes in any chunks.
pub fn depthwise<C: Compute>(b: &Backend<C>) {
    let mut random = Random(34);
    for (cols, taps, phases, dilation) in
        [(1, 1, 1, 1), (19, 2, 2, 1), (64, 7, 1, 1), (20, 3, 4, 1), (19, 7, 1, 3), (64, 7, 1, 9), (3, 2, 2, 5)]
    {
        let len = 30;
        let w = random.values(phases * taps * cols);
        let bias = random.values(cols);
        let with_bias = dilation > 1;
        let x = random.values(len * cols);
        let prepared = b.compute.prepare_vector(&w).unwrap();
        let prepared_bias = b.compute.prepare_vector(&bias).unwrap();
        let before = (taps - 1) * dilation;
        let run = |carry: &mut C::Carry, x: &[f32], at: usize| {
            let (input, mut out) = (buffer(&b.compute, x, cols), b.compute.buffer());
            let rows = rows(&[(1, at, x.len() / cols)]);
            let bias = with_bias.then_some(&prepared_bias);
            b.compute.depthwise(&prepared, bias, phases, dilation, carry, &input, &rows, &mut out).unwrap();
            b.compute.read(&out).unwrap()
        };
        let whole = run(&mut b.compute.carry(2, before, cols).unwrap(), &x, 0);
        let seen = unrolled(&x, cols, before + 1);
        let mut expected = Vec::new();
        for seen in seen.chunks_exact((before + 1) * cols) {
            for p in 0..phases {
                for c in 0..cols {
                    let terms = (0..taps)
                        .map(|j| f64::from(w[(p * taps + j) * cols + c]) * f64::from(seen[j * dilation * cols + c]));
                    let bias = if with_bias { f64::from(bias[c]) } else { 0.0 };
                    expected.push((terms.clone().sum::<f64>() + bias, 1.0 + terms.map(f64::abs).sum::<f64>()));
                }
            }
        }
        close(&format!("{cols} columns, {taps} taps, {phases} phases"), &whole, &expected, b.tolerance);
        let mut carry = b.compute.carry(2, before, cols).unwrap();
        let mut at = 0;
        let mut joined = Vec::new();
        while at < len {
            let count = (1 + random.below(6)).min(len - at);
            joined.extend(run(&mut carry, &x[at * cols..(at + count) * cols], at));
            at += count;
        }
        same("in chunks", &joined, &whole);
    }
}

/// The same bytes however the rows are cut into calls.
pub fn chunks<C: Compute>(b: &Backend<C>) {
    let mut random = Random(35);
    for (cols, taps, n) in [(20, 7, 24), (1, 3, 5), (8, 1, 3)] {
        let len = 80;
        let w = Matrix::Plain(random.plain(n, taps * cols, Float::F32));
        let prepared = b.compute.prepare_linear(&[w], None, Activations::Full).unwrap();
        let x = random.values(len * cols);
        let mut carry = b.compute.carry(1, taps - 1, cols).unwrap();
        let whole = conv(&b.compute, &prepared, &mut carry, &x, cols, &rows(&[(0, 0, len)]));
        for most in [1, 4, 30] {
            let mut carry = b.compute.carry(1, taps - 1, cols).unwrap();
            let (mut at, mut joined) = (0, Vec::new());
            while at < len {
                let count = (1 + random.below(most)).min(len - at);
                let part = &x[at * cols..(at + count) * cols];
                joined.extend(conv(&b.compute, &prepared, &mut carry, part, cols, &rows(&[(0, at, count)])));
                at += count;
            }
            same(&format!("{taps} taps, up to {most} rows"), &joined, &whole);
        }
    }
}

/// Slots in one call give the bytes of each alone; a reset slot has no history.
pub fn slots<C: Compute>(b: &Backend<C>) {
    let mut random = Random(36);
    let (cols, taps, n) = (12, 5, 7);
    let w = Matrix::Plain(random.plain(n, taps * cols, Float::F32));
    let prepared = b.compute.prepare_linear(&[w], None, Activations::Full).unwrap();
    let streams: Vec<Vec<f32>> = (0..3).map(|_| random.values(20 * cols)).collect();
    let alone: Vec<Vec<f32>> = streams
        .iter()
        .map(|x| {
            let mut carry = b.compute.carry(1, taps - 1, cols).unwrap();
            conv(&b.compute, &prepared, &mut carry, x, cols, &rows(&[(0, 0, 20)]))
        })
        .collect();
    let mut carry = b.compute.carry(3, taps - 1, cols).unwrap();
    conv(&b.compute, &prepared, &mut carry, &random.values(9 * cols), cols, &rows(&[(1, 0, 9)]));
    b.compute.reset_carry(&mut carry, 1).unwrap();
    // [20 rows] of each in calls of different lengths.
    for (from, lens) in [([0, 0, 0], [3, 1, 8]), ([3, 1, 8], [2, 10, 1]), ([5, 11, 9], [15, 9, 11])] {
        let segments: Vec<_> = [2, 0, 1].into_iter().map(|s| (s, from[s], lens[s])).collect();
        let x: Vec<f32> =
            segments.iter().flat_map(|&(s, at, len)| streams[s][at * cols..(at + len) * cols].to_vec()).collect();
        let got = conv(&b.compute, &prepared, &mut carry, &x, cols, &rows(&segments));
        let expected: Vec<f32> =
            segments.iter().flat_map(|&(s, at, len)| alone[s][at * n..(at + len) * n].to_vec()).collect();
        same("slots", &got, &expected);
    }
}
