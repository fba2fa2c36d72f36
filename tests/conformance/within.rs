//! Attention among neighbouring rows.

use rtts::compute::{Compute, View};

use super::Backend;
use super::support::{Random, buffer, close, same};

/// q|k|v of a call in one buffer.
fn attend<C: Compute>(c: &C, x: &[f32], group: usize, heads: usize, kv_heads: usize, d: usize) -> Vec<f32> {
    let cols = (heads + 2 * kv_heads) * d;
    let (x, mut out) = (buffer(c, x, cols), c.buffer());
    let view = |at: usize, heads: usize| View { buffer: &x, at: at * d, width: heads * d };
    let (q, k, v) = (view(0, heads), view(heads, kv_heads), view(heads + kv_heads, kv_heads));
    c.attend_within(group, kv_heads, q, k, v, &mut out).unwrap();
    c.read(&out).unwrap()
}

/// Against the formula: every row of a group sees the whole group and nothing else.
pub fn exact<C: Compute>(b: &Backend<C>) {
    let mut random = Random(41);
    for (group, heads, kv_heads, d, groups) in [
        (1, 1, 1, 4, 3),
        (5, 4, 2, 8, 1),
        (5, 16, 2, 128, 3),
        (11, 16, 2, 128, 2),
        (11, 4, 2, 19, 7),
        (11, 6, 6, 16, 2),
    ] {
        let cols = (heads + 2 * kv_heads) * d;
        let x: Vec<f32> = random.values(group * groups * cols).into_iter().map(|v| v * 2.0).collect();
        let value = |r: usize, c: usize| f64::from(x[r * cols + c]);
        let mut expected = Vec::new();
        for r in 0..group * groups {
            for head in 0..heads {
                let kv = head * kv_heads / heads;
                let seen = r / group * group..r / group * group + group;
                let scores: Vec<f64> = seen
                    .clone()
                    .map(|j| {
                        let dot = |i| value(r, head * d + i) * value(j, (heads + kv) * d + i);
                        (0..d).map(dot).sum::<f64>() / (d as f64).sqrt()
                    })
                    .collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
                let size = 2.0 * (1.0 + largest.abs());
                for i in 0..d {
                    let of =
                        |(j, s): (usize, &f64)| (s - largest).exp() / total * value(j, (heads + kv_heads + kv) * d + i);
                    expected.push((seen.clone().zip(&scores).map(of).sum(), size));
                }
            }
        }
        let got = attend(&b.compute, &x, group, heads, kv_heads, d);
        close(&format!("{groups} groups of {group}, {heads} heads of {d}"), &got, &expected, b.tolerance);
    }
}

/// A group's result does not depend on the others.
pub fn groups<C: Compute>(b: &Backend<C>) {
    let (group, heads, kv_heads, d) = (11, 4, 2, 32);
    let size = group * (heads + 2 * kv_heads) * d;
    let x = Random(42).values(9 * size);
    let all = attend(&b.compute, &x, group, heads, kv_heads, d);
    for (i, x) in x.chunks_exact(size).enumerate() {
        let alone = attend(&b.compute, x, group, heads, kv_heads, d);
        same(&format!("group {i}"), &alone, &all[i * alone.len()..][..alone.len()]);
    }
    // Rows that are no whole groups are the program's mistake, and said so.
    let (buffer, mut out) = (buffer(&b.compute, &x[..10 * 8 * 32], 8 * 32), b.compute.buffer());
    let view = |at, width| View { buffer: &buffer, at, width };
    assert!(b.compute.attend_within(11, 2, view(0, 128), view(128, 64), view(192, 64), &mut out).is_err());
}
