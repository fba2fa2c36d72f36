//! Linears of every kind of weight.

use rtts::compute::{Activations, Compute, View};
use rtts::matrix::{Float, Matrix};
use rtts::nvfp4::{InputScale, quantize};

use super::Backend;
use super::support::{Random, buffer, close, e2m1, e4m3, exact, exact_nvfp4, product, same, whole};

fn run<C: Compute>(c: &C, parts: &[Matrix], bias: Option<&[f32]>, a: Activations, x: &[f32], k: usize) -> Vec<f32> {
    let w = c.prepare_linear(parts, bias, a).unwrap();
    let (x, mut out) = (buffer(c, x, k), c.buffer());
    c.linear(&w, whole(&x, k), &mut out).unwrap();
    c.read(&out).unwrap()
}

fn check<C: Compute>(b: &Backend<C>, random: &mut Random, parts: &[Matrix], rows: usize) {
    let (k, n) = (parts[0].k(), parts.iter().map(Matrix::n).sum());
    let x = random.values(rows * k);
    let bias = random.values(n);
    let w: Vec<f64> = parts.iter().flat_map(exact).collect();
    for bias in [None, Some(bias.as_slice())] {
        let got = run(&b.compute, parts, bias, Activations::Full, &x, k);
        let what = format!("{rows} rows of {k} to {n}, bias {}", bias.is_some());
        close(&what, &got, &product(&x, &w, k, bias), b.tolerance);
    }
}

/// BF16, F16 and F32 of any size.
pub fn plain<C: Compute>(b: &Backend<C>) {
    let mut random = Random(1);
    for float in [Float::F32, Float::Bf16, Float::F16] {
        for (n, k) in [(1, 1), (3, 7), (5, 16), (17, 33), (64, 64), (40, 352), (7, 1030), (130, 48)] {
            for rows in [1, 2, 3, 4, 5, 8, 9, 33] {
                let w = Matrix::Plain(random.plain(n, k, float));
                check(b, &mut random, &[w], rows);
            }
        }
    }
}

/// Packed weights of both conventions, input as it is.
pub fn nvfp4<C: Compute>(b: &Backend<C>) {
    let mut random = Random(2);
    for divide in [false, true] {
        for (n, k) in [(1, 16), (3, 32), (5, 48), (17, 352), (64, 64), (130, 896), (16, 2048)] {
            for rows in [1, 2, 3, 4, 5, 8, 9, 33] {
                let w = Matrix::Nvfp4(random.nvfp4(n, k, divide, None));
                check(b, &mut random, &[w], rows);
            }
        }
    }
}

/// Parts of different kinds and scales over one input.
pub fn stacked<C: Compute>(b: &Backend<C>) {
    let mut random = Random(3);
    for rows in [1, 4, 7] {
        let parts = [
            Matrix::Nvfp4(random.nvfp4(21, 96, false, None)),
            Matrix::Plain(random.plain(5, 96, Float::Bf16)),
            Matrix::Nvfp4(random.nvfp4(2, 96, true, None)),
            Matrix::Plain(random.plain(33, 96, Float::F32)),
        ];
        check(b, &mut random, &parts, rows);
    }
}

/// An input that is some columns of a wider buffer.
pub fn columns<C: Compute>(b: &Backend<C>) {
    let mut random = Random(4);
    let (rows, cols, at, k) = (5, 131, 35, 64);
    let w = Matrix::Nvfp4(random.nvfp4(9, k, false, None));
    let wide = random.values(rows * cols);
    let narrow: Vec<f32> = wide.chunks_exact(cols).flat_map(|row| row[at..at + k].to_vec()).collect();
    let prepared = b.compute.prepare_linear(std::slice::from_ref(&w), None, Activations::Full).unwrap();
    let (x, mut out) = (buffer(&b.compute, &wide, cols), b.compute.buffer());
    b.compute.linear(&prepared, View { buffer: &x, at, width: k }, &mut out).unwrap();
    close("columns", &b.compute.read(&out).unwrap(), &product(&narrow, &exact(&w), k, None), b.tolerance);
}

/// What quantised rows stand for.
fn through_fp4(x: &[f32], k: usize, scale: InputScale) -> Vec<f32> {
    let mut all = Vec::new();
    for x in x.chunks_exact(k) {
        let (mut codes, mut scales) = (vec![0; k / 2], vec![0; k / 16]);
        quantize::activations(x, scale, &mut codes, &mut scales);
        all.extend((0..k).map(|i| {
            let code = if i % 2 == 0 { codes[i / 2] & 15 } else { codes[i / 2] >> 4 };
            (e2m1(code) * e4m3(scales[i / 16]) * f64::from(scale.factor())) as f32
        }));
    }
    all
}

/// Weights and activations of four bits.
pub fn fp4<C: Compute>(b: &Backend<C>) {
    let mut random = Random(5);
    for (n, k) in [(1, 16), (3, 48), (21, 352), (64, 256), (33, 896), (50, 272)] {
        for rows in [1, 2, 5, 8, 19] {
            for scale in [InputScale::Multiply(1.0 / 2000.0), InputScale::Divide(1700.0)] {
                let w = random.nvfp4(n, k, rows == 2, Some(scale));
                let x = random.values(rows * k);
                let got = run(&b.compute, &[Matrix::Nvfp4(w.clone())], None, Activations::Fp4, &x, k);
                let exact = product(&through_fp4(&x, k, scale), &exact_nvfp4(&w), k, None);
                close(&format!("{rows} rows of {k} to {n}"), &got, &exact, b.tolerance.max(4e-6));
            }
        }
    }
}

/// Stacked parts that share an input scale or do not, beside one that is not quantised.
pub fn fp4_with_different_scales<C: Compute>(b: &Backend<C>) {
    let mut random = Random(6);
    let (k, rows) = (96, 3);
    let scales = [InputScale::Multiply(0.001), InputScale::Multiply(0.0003), InputScale::Multiply(0.001)];
    let packed: Vec<_> = scales.iter().map(|s| random.nvfp4(10, k, false, Some(*s))).collect();
    let plain = Matrix::Plain(random.plain(4, k, Float::Bf16));
    let mut parts: Vec<Matrix> = packed.iter().cloned().map(Matrix::Nvfp4).collect();
    parts.push(plain.clone());
    let x = random.values(rows * k);
    let got = run(&b.compute, &parts, None, Activations::Fp4, &x, k);
    for r in 0..rows {
        let x = &x[r * k..(r + 1) * k];
        let mut expected = Vec::new();
        for (w, scale) in packed.iter().zip(scales) {
            expected.extend(product(&through_fp4(x, k, scale), &exact_nvfp4(w), k, None));
        }
        expected.extend(product(x, &exact(&plain), k, None));
        close(&format!("row {r}"), &got[r * 34..(r + 1) * 34], &expected, b.tolerance.max(4e-6));
    }
    let uncalibrated = Matrix::Nvfp4(random.nvfp4(4, k, false, None));
    assert!(b.compute.prepare_linear(&[uncalibrated], None, Activations::Fp4).is_err());
}

/// The same bytes for a row alone and among others, in any place.
pub fn rows_do_not_depend_on_each_other<C: Compute>(b: &Backend<C>) {
    let mut random = Random(7);
    let scale = Some(InputScale::Multiply(0.0005));
    let k = 80;
    let kinds = [
        (Matrix::Plain(random.plain(37, k, Float::F32)), Activations::Full),
        (Matrix::Plain(random.plain(37, k, Float::Bf16)), Activations::Full),
        (Matrix::Plain(random.plain(37, k, Float::F16)), Activations::Full),
        (Matrix::Nvfp4(random.nvfp4(37, k, false, scale)), Activations::Full),
        (Matrix::Nvfp4(random.nvfp4(37, k, false, scale)), Activations::Fp4),
    ];
    for (kind, (w, activations)) in kinds.iter().enumerate() {
        let x = random.values(40 * k);
        let all = run(&b.compute, std::slice::from_ref(w), None, *activations, &x, k);
        for count in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17] {
            let from = random.below(40 - count);
            let part = &x[from * k..(from + count) * k];
            let part = run(&b.compute, std::slice::from_ref(w), None, *activations, part, k);
            same(&format!("kind {kind}, {count} rows from {from}"), &part, &all[from * 37..(from + count) * 37]);
        }
    }
}

/// What makes no sense is refused where it is prepared.
pub fn faults<C: Compute>(b: &Backend<C>) {
    let mut random = Random(8);
    let narrow = Matrix::Plain(random.plain(4, 16, Float::F32));
    let wide = Matrix::Plain(random.plain(4, 32, Float::F32));
    assert!(b.compute.prepare_linear(&[narrow.clone(), wide], None, Activations::Full).is_err());
    assert!(b.compute.prepare_linear(std::slice::from_ref(&narrow), Some(&[0.0; 3]), Activations::Full).is_err());
    let mut short = random.nvfp4(4, 32, false, None);
    short.scales = short.scales.slice(0..7).unwrap();
    assert!(b.compute.prepare_linear(&[Matrix::Nvfp4(short)], None, Activations::Full).is_err());
}
