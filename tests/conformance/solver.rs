//! Noise and guided solver steps.

use rtts::compute::{Compute, Draw, Guidance};

use super::Backend;
use super::support::{Random, buffer, close, same};

fn noise<C: Compute>(c: &C, draws: &[Draw], rows: usize, cols: usize) -> Vec<f32> {
    let mut out = c.buffer();
    c.noise(draws, rows, cols, &mut out).unwrap();
    c.read(&out).unwrap()
}

/// The numbers of a (seed, step) are its own, whatever is drawn beside them and in whatever shape.
pub fn replays<C: Compute>(b: &Backend<C>) {
    let draw = |seed, step| Draw { seed, step, scale: 1.0 };
    let all = noise(&b.compute, &[draw(7, 0), draw(8, 0), draw(7, 1), draw(u64::MAX, 9)], 4, 64);
    same("alone", &noise(&b.compute, &[draw(7, 1)], 4, 64), &all[2 * 256..3 * 256]);
    let mut sorted = all.clone();
    sorted.sort_by(f32::total_cmp);
    sorted.dedup();
    assert!(sorted.len() > 1000, "only {} of 1024 numbers differ", sorted.len());
    // Column-major within a draw: other shapes are the same numbers in other places.
    let tall = noise(&b.compute, &[draw(7, 0)], 256, 1);
    for (i, number) in tall.iter().enumerate() {
        assert_eq!(number.to_bits(), all[i % 4 * 64 + i / 4].to_bits(), "number {i}");
    }
    let none = noise(&b.compute, &[Draw { scale: 0.0, ..draw(7, 0) }], 4, 64);
    assert!(none.iter().all(|v| *v == 0.0));
    let half = noise(&b.compute, &[Draw { scale: 0.5, ..draw(7, 0) }], 4, 64);
    let expected: Vec<f32> = all[..256].iter().map(|v| 0.5 * v).collect();
    same("half as loud", &half, &expected);
}

/// Normal: moments, tails, and no memory from number to number.
pub fn distribution<C: Compute>(b: &Backend<C>) {
    let draws: Vec<Draw> = (0..400).map(|step| Draw { seed: 3, step, scale: 1.0 }).collect();
    let x: Vec<f64> = noise(&b.compute, &draws, 4, 64).into_iter().map(f64::from).collect();
    let count = x.len() as f64;
    let moment = |power: i32| x.iter().map(|v| v.powi(power)).sum::<f64>() / count;
    for (power, expected, deviation) in [(1, 0.0, 1.0), (2, 1.0, 1.42), (3, 0.0, 3.9), (4, 3.0, 9.8)] {
        let off = (moment(power) - expected).abs() / (deviation / count.sqrt());
        assert!(off < 5.0, "moment {power} is {} of {expected}", moment(power));
    }
    for lag in [1, 2, 4, 64, 256] {
        let together = x.windows(lag + 1).map(|w| w[0] * w[lag]).sum::<f64>() / count;
        assert!(together.abs() < 5.0 / count.sqrt(), "correlation {together} at {lag}");
    }
    for (above, share) in [(1.0, 0.317_310_5), (2.0, 0.045_500_3), (3.0, 0.002_699_8)] {
        let got = x.iter().filter(|v| v.abs() > above).count() as f64 / count;
        assert!((got - share).abs() < 5.0 * (share / count).sqrt(), "beyond {above}: {got} of {share}");
    }
}

/// Against the formula, each draw with its own numbers and whatever is stepped beside it.
pub fn guided<C: Compute>(b: &Backend<C>) {
    let mut random = Random(43);
    let (per_draw, cols, count) = (4, 64, 5);
    let size = per_draw * cols;
    let (x, v) = (random.values(count * size), random.values(2 * count * size));
    let steps: Vec<Guidance> =
        (0..count).map(|i| Guidance { cfg: 1.0 + i as f32 * 0.75, dt: 0.125 / (i + 1) as f32 }).collect();
    let mut out = buffer(&b.compute, &x, cols);
    b.compute.guided_step(&mut out, &buffer(&b.compute, &v, cols), per_draw, &steps).unwrap();
    let got = b.compute.read(&out).unwrap();
    let mut expected = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let with = &v[i * size..][..size];
        let without = &v[(count + i) * size..][..size];
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let alpha = dot(with, without) / (dot(without, without) + 1e-8);
        for j in 0..size {
            let base = alpha * f64::from(without[j]);
            let velocity = base + f64::from(step.cfg) * (f64::from(with[j]) - base);
            expected.push((f64::from(x[i * size + j]) - f64::from(step.dt) * velocity, 4.0));
        }
        let own = [with, without].concat();
        let mut alone = buffer(&b.compute, &x[i * size..][..size], cols);
        b.compute.guided_step(&mut alone, &buffer(&b.compute, &own, cols), per_draw, &steps[i..i + 1]).unwrap();
        same(&format!("draw {i} alone"), &b.compute.read(&alone).unwrap(), &got[i * size..][..size]);
    }
    close("guided", &got, &expected, b.tolerance);
    // Without anything to compare with, the conditioned velocity is scaled alone.
    let mut still = buffer(&b.compute, &x[..size], cols);
    let mut silent = v[..size].to_vec();
    silent.extend(vec![0.0; size]);
    b.compute.guided_step(&mut still, &buffer(&b.compute, &silent, cols), per_draw, &steps[1..2]).unwrap();
    assert!(b.compute.read(&still).unwrap().iter().all(|v| v.is_finite()));
}
