//! What is done to rows one by one.

use rtts::compute::{Compute, Rope, RopePairs, View};
use rtts::matrix::{Float, Matrix};

use super::Backend;
use super::support::{Random, buffer, close, exact, rows, same};

/// Sums of looked-up rows, over stacked tables of different kinds.
pub fn embed<C: Compute>(b: &Backend<C>) {
    let mut random = Random(11);
    for cols in [1, 19, 64] {
        let parts =
            [random.plain(5, cols, Float::Bf16), random.plain(3, cols, Float::F32), random.plain(4, cols, Float::F16)];
        let table = b.compute.prepare_table(&parts).unwrap();
        let values: Vec<f64> = parts.iter().flat_map(|p| exact(&Matrix::Plain(p.clone()))).collect();
        for (ids, per_row) in [(vec![0, 11, 4, 5, 7, 8, 5], 1), (vec![2, 2, 11, 0, 9, 6], 3)] {
            let mut out = b.compute.buffer();
            b.compute.embed(&table, &ids, per_row, &mut out).unwrap();
            let mut expected = Vec::new();
            for ids in ids.chunks_exact(per_row) {
                for c in 0..cols {
                    let terms = ids.iter().map(|id| values[*id as usize * cols + c]);
                    expected.push((terms.clone().sum(), terms.map(f64::abs).sum()));
                }
            }
            close("embed", &b.compute.read(&out).unwrap(), &expected, b.tolerance);
        }
        assert!(b.compute.embed(&table, &[12], 1, &mut b.compute.buffer()).is_err());
    }
}

/// Biased variance, with and without a bias.
pub fn layer_norm<C: Compute>(b: &Backend<C>) {
    let mut random = Random(12);
    for cols in [1, 5, 16, 47, 384, 1030] {
        for count in [1, 3, 9] {
            let x: Vec<f32> = random.values(count * cols).into_iter().map(|v| v * 3.0 + 1.0).collect();
            let (gain, bias) = (random.values(cols), random.values(cols));
            let (gain_v, bias_v) = (b.compute.prepare_vector(&gain).unwrap(), b.compute.prepare_vector(&bias).unwrap());
            for with in [false, true] {
                let (input, mut out) = (buffer(&b.compute, &x, cols), b.compute.buffer());
                b.compute.layer_norm(&input, &gain_v, with.then_some(&bias_v), 1e-5, &mut out).unwrap();
                // What the backend stored of x is what counts.
                let x = b.compute.read(&input).unwrap();
                let mut expected = Vec::new();
                for x in x.chunks_exact(cols) {
                    let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / cols as f64;
                    let variance = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / cols as f64;
                    for (c, v) in x.iter().enumerate() {
                        let y = (f64::from(*v) - mean) / (variance + 1e-5).sqrt() * f64::from(gain[c]);
                        let bias = if with { f64::from(bias[c]) } else { 0.0 };
                        // Of one column nothing but rounding is left, which the small variance then magnifies.
                        let size = if cols == 1 { 400.0 } else { 4.0 };
                        expected.push((y + bias, size));
                    }
                }
                close(&format!("{cols} columns"), &b.compute.read(&out).unwrap(), &expected, b.tolerance);
            }
        }
    }
}

/// Both pairings, far positions, and columns left alone.
pub fn rope<C: Compute>(b: &Backend<C>) {
    let mut random = Random(13);
    for pairs in [RopePairs::Interleaved, RopePairs::Halves] {
        for (d, heads, at, cols) in [(2, 1, 0, 2), (8, 3, 5, 40), (64, 2, 0, 130)] {
            let rope = Rope::plain(10_000.0, d, pairs);
            let rows = rows(&[(1, 0, 3), (0, 4000, 2), (2, 77, 1)]);
            let positions = [0, 1, 2, 4000, 4001, 77];
            let x = random.values(6 * cols);
            let mut buffer = buffer(&b.compute, &x, cols);
            b.compute.rope(&mut buffer, at, heads, &rope, &rows).unwrap();
            let mut expected: Vec<(f64, f64)> = x.iter().map(|v| (f64::from(*v), 1.0)).collect();
            for (r, position) in positions.into_iter().enumerate() {
                for head in 0..heads {
                    for i in 0..d / 2 {
                        let (sin, cos) = f64::from(position as f32 * rope.inv_freq[i]).sin_cos();
                        let (i, j) = match pairs {
                            RopePairs::Interleaved => (2 * i, 2 * i + 1),
                            RopePairs::Halves => (i, i + d / 2),
                        };
                        let base = r * cols + at + head * d;
                        let (p, q) = (f64::from(x[base + i]), f64::from(x[base + j]));
                        expected[base + i].0 = p * cos - q * sin;
                        expected[base + j].0 = q * cos + p * sin;
                    }
                }
            }
            close(&format!("{pairs:?}, heads of {d}"), &b.compute.read(&buffer).unwrap(), &expected, b.tolerance);
        }
    }
}

/// LongRoPE's factors stretch the position, and its amplitude multiplies.
pub fn long_rope<C: Compute>(b: &Backend<C>) {
    let mut random = Random(20);
    let mut rope = Rope::plain(10_000.0, 6, RopePairs::Halves);
    rope.stretch = vec![1.0 / 1.014_658, 1.0 / 3.5, 1.0 / 31.0];
    rope.amplitude = 1.25;
    let (rows, x) = (rows(&[(0, 711, 2)]), random.values(2 * 6));
    let mut buffer = buffer(&b.compute, &x, 6);
    b.compute.rope(&mut buffer, 0, 1, &rope, &rows).unwrap();
    let mut expected = vec![(0.0, 2.0); 12];
    for (r, position) in [711f32, 712.0].into_iter().enumerate() {
        for i in 0..3 {
            let (sin, cos) = f64::from((position * rope.stretch[i]) * rope.inv_freq[i]).sin_cos();
            let (p, q) = (f64::from(x[r * 6 + i]), f64::from(x[r * 6 + i + 3]));
            expected[r * 6 + i].0 = 1.25 * (p * cos - q * sin);
            expected[r * 6 + i + 3].0 = 1.25 * (q * cos + p * sin);
        }
    }
    close("long rope", &b.compute.read(&buffer).unwrap(), &expected, b.tolerance);
}

/// No mean is taken away.
pub fn rms_norm<C: Compute>(b: &Backend<C>) {
    let mut random = Random(21);
    for cols in [1, 5, 16, 47, 384, 1030] {
        for count in [1, 3, 9] {
            let x: Vec<f32> = random.values(count * cols).into_iter().map(|v| v * 3.0 + 1.0).collect();
            let gain = random.values(cols);
            let prepared = b.compute.prepare_vector(&gain).unwrap();
            let (input, mut out) = (buffer(&b.compute, &x, cols), b.compute.buffer());
            b.compute.rms_norm(&input, &prepared, 1e-5, &mut out).unwrap();
            let x = b.compute.read(&input).unwrap();
            let mut expected = Vec::new();
            for x in x.chunks_exact(cols) {
                let square = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / cols as f64;
                expected.extend(
                    x.iter().zip(&gain).map(|(v, g)| (f64::from(*v) / (square + 1e-5).sqrt() * f64::from(*g), 4.0)),
                );
            }
            close(&format!("{cols} columns"), &b.compute.read(&out).unwrap(), &expected, b.tolerance);
        }
    }
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// erf by its Taylor series, which f64 carries far enough for |x| <= 3.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..80 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// Of some columns of one buffer and some of another.
pub fn silu_mul<C: Compute>(b: &Backend<C>) {
    let mut random = Random(14);
    for width in [1, 17, 64] {
        let cols = 2 * width + 3;
        let x: Vec<f32> = random.values(5 * cols).into_iter().map(|v| v * 8.0).collect();
        let (buffer, mut out) = (buffer(&b.compute, &x, cols), b.compute.buffer());
        let gate = View { buffer: &buffer, at: 1, width };
        let up = View { buffer: &buffer, at: width + 2, width };
        b.compute.silu_mul(gate, up, &mut out).unwrap();
        let mut expected = Vec::new();
        for x in x.chunks_exact(cols) {
            for c in 0..width {
                let y = silu(f64::from(x[1 + c])) * f64::from(x[width + 2 + c]);
                expected.push((y, y.abs()));
            }
        }
        close("silu_mul", &b.compute.read(&out).unwrap(), &expected, b.tolerance);
    }
}

fn each<C: Compute>(b: &Backend<C>, what: &str, apply: impl Fn(&C, &mut C::Buffer), exactly: impl Fn(f64) -> f64) {
    let mut random = Random(15);
    for (count, cols) in [(1, 1), (3, 21), (40, 512)] {
        let x: Vec<f32> = random.values(count * cols).into_iter().map(|v| v * 4.0).collect();
        let mut buffer = buffer(&b.compute, &x, cols);
        apply(&b.compute, &mut buffer);
        let expected: Vec<_> = x.iter().map(|v| (exactly(f64::from(*v)), f64::from(v.abs()).max(0.1))).collect();
        close(what, &b.compute.read(&buffer).unwrap(), &expected, b.tolerance);
    }
}

/// The exact one, with erf.
pub fn gelu<C: Compute>(b: &Backend<C>) {
    let exactly = |x: f64| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
    each(b, "gelu", |c, x| c.gelu(x).unwrap(), exactly);
}

/// In place.
pub fn silu_alone<C: Compute>(b: &Backend<C>) {
    each(b, "silu", |c, x| c.silu(x).unwrap(), silu);
}

/// In place.
pub fn tanh<C: Compute>(b: &Backend<C>) {
    each(b, "tanh", |c, x| c.tanh(x).unwrap(), f64::tanh);
}

/// Only whole levels come out, each the nearest one.
pub fn finite_scalar<C: Compute>(b: &Backend<C>) {
    let mut random = Random(22);
    let x: Vec<f32> = random.values(3 * 512).into_iter().map(|v| v * 3.0).collect();
    let mut buffer = buffer(&b.compute, &x, 512);
    b.compute.finite_scalar(&mut buffer, 9.0).unwrap();
    for (x, got) in x.iter().zip(b.compute.read(&buffer).unwrap()) {
        let level = 9.0 * f64::from(*x).tanh();
        let got = f64::from(got) * 9.0;
        assert!((got - got.round()).abs() <= 9.0 * b.tolerance.max(1e-6), "{x} becomes {got} ninths, no level");
        // A value in the middle between two levels may go either way.
        let away = (level - got).abs();
        assert!(away <= 0.5 + 9.0 * b.tolerance.max(1e-6), "{x} becomes level {got} of {level}");
    }
}

/// An alpha per column, large arguments included.
pub fn snake<C: Compute>(b: &Backend<C>) {
    let mut random = Random(23);
    for (count, cols) in [(1, 1), (3, 21), (40, 512)] {
        let x: Vec<f32> = random.values(count * cols).into_iter().map(|v| v * 40.0).collect();
        let alpha: Vec<f32> = random.values(cols).into_iter().map(|v| v.abs() * 4.0 + 0.125).collect();
        let prepared = b.compute.prepare_vector(&alpha).unwrap();
        let (input, mut out) = (buffer(&b.compute, &x, cols), b.compute.buffer());
        b.compute.snake(&input, &prepared, &mut out).unwrap();
        let expected: Vec<_> = (0..x.len())
            .map(|i| {
                let (x, alpha) = (f64::from(x[i]), f64::from(alpha[i % cols]));
                let y = x + f64::from((alpha * x) as f32).sin().powi(2) / (alpha + 1e-9);
                (y, y.abs() + (1.0 + alpha * x.abs()) / alpha)
            })
            .collect();
        close("snake", &b.compute.read(&out).unwrap(), &expected, b.tolerance);
    }
}

/// A scale and a shift per column.
pub fn affine<C: Compute>(b: &Backend<C>) {
    let mut random = Random(24);
    for (count, cols) in [(1, 1), (3, 21), (40, 512)] {
        let (x, scale, shift) = (random.values(count * cols), random.values(cols), random.values(cols));
        let mut out = buffer(&b.compute, &x, cols);
        let (s, t) = (b.compute.prepare_vector(&scale).unwrap(), b.compute.prepare_vector(&shift).unwrap());
        b.compute.affine(&mut out, &s, &t).unwrap();
        let expected: Vec<_> = (0..x.len())
            .map(|i| (f64::from(x[i]) * f64::from(scale[i % cols]) + f64::from(shift[i % cols]), 2.0))
            .collect();
        close("affine", &b.compute.read(&out).unwrap(), &expected, b.tolerance);
    }
}

/// With alpha = 1.
pub fn elu<C: Compute>(b: &Backend<C>) {
    let apply = |c: &C, x: &mut C::Buffer| {
        let mut out = c.buffer();
        c.elu(x, &mut out).unwrap();
        *x = out;
    };
    each(b, "elu", apply, |x| if x > 0.0 { x } else { x.exp_m1() });
}

/// By a constant.
pub fn scale<C: Compute>(b: &Backend<C>) {
    each(b, "scale", |c, x| c.scale(x, 0.37).unwrap(), |x| x * f64::from(0.37f32));
}

/// With and without a scale per column.
pub fn add<C: Compute>(b: &Backend<C>) {
    let mut random = Random(16);
    for (count, cols) in [(1, 1), (3, 21), (40, 512)] {
        let (x, y, scale) = (random.values(count * cols), random.values(count * cols), random.values(cols));
        let scales = b.compute.prepare_vector(&scale).unwrap();
        for with in [false, true] {
            let (mut out, other) = (buffer(&b.compute, &x, cols), buffer(&b.compute, &y, cols));
            b.compute.add(&mut out, &other, with.then_some(&scales)).unwrap();
            let expected: Vec<_> = (0..x.len())
                .map(|i| {
                    let by = if with { f64::from(scale[i % cols]) } else { 1.0 };
                    (f64::from(x[i]) + by * f64::from(y[i]), 2.0)
                })
                .collect();
            close("add", &b.compute.read(&out).unwrap(), &expected, b.tolerance);
        }
    }
}

/// Rows become more and narrower, and nothing moves.
pub fn unfold<C: Compute>(b: &Backend<C>) {
    let x = Random(17).values(3 * 24);
    let mut buffer = buffer(&b.compute, &x, 24);
    b.compute.unfold(&mut buffer, 4).unwrap();
    same("unfold", &b.compute.read(&buffer).unwrap(), &x);
    // Its shape shows when rows are taken.
    let mut out = b.compute.buffer();
    b.compute.gather(&buffer, &[7], &mut out).unwrap();
    same("a row of it", &b.compute.read(&out).unwrap(), &x[42..48]);
}

/// Rows become fewer and wider, and nothing moves; rows that do not fit are refused.
pub fn fold<C: Compute>(b: &Backend<C>) {
    let x = Random(25).values(6 * 5);
    let (mut buffer, mut out) = (buffer(&b.compute, &x, 5), b.compute.buffer());
    b.compute.fold(&mut buffer, 3).unwrap();
    same("fold", &b.compute.read(&buffer).unwrap(), &x);
    b.compute.gather(&buffer, &[1], &mut out).unwrap();
    same("a row of it", &b.compute.read(&out).unwrap(), &x[15..30]);
    assert!(b.compute.fold(&mut buffer, 4).is_err());
}

/// Zeros, and rows put among them.
pub fn blank_and_scatter<C: Compute>(b: &Backend<C>) {
    let x = Random(26).values(3 * 7);
    let input = buffer(&b.compute, &x, 7);
    let mut out = buffer(&b.compute, &Random(27).values(90), 9);
    b.compute.blank(5, 7, &mut out).unwrap();
    b.compute.scatter(&input, &[4, 0, 2], &mut out).unwrap();
    let mut expected = vec![0.0; 5 * 7];
    for (i, to) in [4, 0, 2].into_iter().enumerate() {
        expected[to * 7..to * 7 + 7].copy_from_slice(&x[i * 7..i * 7 + 7]);
    }
    same("scatter", &b.compute.read(&out).unwrap(), &expected);
}

/// Columns of two buffers side by side.
pub fn join<C: Compute>(b: &Backend<C>) {
    let (x, y) = (Random(28).values(3 * 7), Random(29).values(3 * 4));
    let (a, c, mut out) = (buffer(&b.compute, &x, 7), buffer(&b.compute, &y, 4), b.compute.buffer());
    b.compute.join(View { buffer: &a, at: 2, width: 5 }, View { buffer: &c, at: 0, width: 4 }, &mut out).unwrap();
    let expected: Vec<f32> = (0..3).flat_map(|r| [&x[r * 7 + 2..r * 7 + 7], &y[r * 4..r * 4 + 4]].concat()).collect();
    same("join", &b.compute.read(&out).unwrap(), &expected);
}

/// Any rows in any order.
pub fn gather<C: Compute>(b: &Backend<C>) {
    let x = Random(18).values(5 * 7);
    let (buffer, mut out) = (buffer(&b.compute, &x, 7), b.compute.buffer());
    b.compute.gather(&buffer, &[4, 0, 0, 2], &mut out).unwrap();
    let expected: Vec<f32> = [4, 0, 0, 2].iter().flat_map(|r| x[r * 7..r * 7 + 7].to_vec()).collect();
    same("gather", &b.compute.read(&out).unwrap(), &expected);
    b.compute.gather(&buffer, &[], &mut out).unwrap();
    assert!(b.compute.read(&out).unwrap().is_empty());
}

/// A buffer that is used again for fewer and for more rows.
pub fn read_and_write<C: Compute>(b: &Backend<C>) {
    let mut out = b.compute.buffer();
    let mut random = Random(19);
    for (count, cols) in [(3, 5), (1, 2), (17, 33), (0, 4), (2, 2)] {
        let x = random.values(count * cols);
        b.compute.write(&x, cols, &mut out).unwrap();
        same("read", &b.compute.read(&out).unwrap(), &x);
    }
}
