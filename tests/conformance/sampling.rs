//! Choosing tokens.

use rtts::compute::random::{Purpose, uniform};
use rtts::compute::{Choice, Compute};

use super::Backend;
use super::support::{Random, buffer};

/// The largest of the first columns, the lower one among equals.
pub fn greedy<C: Compute>(b: &Backend<C>) {
    let logits = buffer(&b.compute, &[1.0, 3.0, 2.0, 3.0, 9.0, 0.5, -1.0, -2.0, -3.0, 9.0], 5);
    let choice = |columns| Choice { columns, temperature: 0.0, top_k: 3, seed: 4, step: 5 };
    assert_eq!(b.compute.sample(&logits, &[choice(4), choice(5)]).unwrap(), [1, 4]);
}

/// The documented rule with the documented random number, whatever the other rows are.
pub fn replays<C: Compute>(b: &Backend<C>) {
    let mut random = Random(41);
    for (cols, columns, top_k) in [(513, 512, 30), (7, 7, 0), (64, 60, 1), (40, 40, 100)] {
        let rows = 9;
        let values: Vec<f32> = random.values(rows * cols).into_iter().map(|v| v * 4.0).collect();
        let logits = buffer(&b.compute, &values, cols);
        let choices: Vec<Choice> = (0..rows)
            .map(|r| Choice { columns, temperature: 0.5 + 0.1 * r as f32, top_k, seed: random.word(), step: r as u32 })
            .collect();
        let got = b.compute.sample(&logits, &choices).unwrap();
        for r in 0..rows {
            let row = &values[r * cols..r * cols + columns];
            let mut order: Vec<usize> = (0..columns).collect();
            order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
            order.truncate(if top_k == 0 { columns } else { top_k });
            let weight = |c: usize| (f64::from(row[c] - row[order[0]]) / f64::from(choices[r].temperature)).exp();
            let total: f64 = order.iter().map(|c| weight(*c)).sum();
            let number = f64::from(uniform(choices[r].seed, choices[r].step, Purpose::Token));
            let mut sum = 0.0;
            let expected = order.iter().find(|c| {
                sum += weight(**c);
                sum > number * total
            });
            assert_eq!(got[r] as usize, *expected.unwrap(), "row {r}");
            let alone = buffer(&b.compute, &values[r * cols..(r + 1) * cols], cols);
            assert_eq!(b.compute.sample(&alone, &choices[r..=r]).unwrap(), [got[r]]);
        }
    }
}

/// As often as the probabilities say.
pub fn distribution<C: Compute>(b: &Backend<C>) {
    let logits = buffer(&b.compute, &[0.0, 1.0, -1.0, 0.5], 4);
    let mut counts = [0u32; 4];
    for step in 0..4000 {
        let choice = Choice { columns: 4, temperature: 1.0, top_k: 3, seed: 7, step };
        counts[b.compute.sample(&logits, &[choice]).unwrap()[0] as usize] += 1;
    }
    assert_eq!(counts[2], 0, "the smallest is not among the three kept");
    let total = 1f64.exp() + 0.5f64.exp() + 1.0;
    for (column, logit) in [(0, 0.0f64), (1, 1.0), (3, 0.5)] {
        let (p, got) = (logit.exp() / total, f64::from(counts[column]) / 4000.0);
        // Four standard deviations.
        assert!((got - p).abs() < 4.0 * (p * (1.0 - p) / 4000.0).sqrt(), "column {column}: {got} for {p}");
    }
}
