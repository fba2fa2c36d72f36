//! Attention with its cache.

use rtts::compute::{Compute, KvSpec, Rows, View};

use super::Backend;
use super::support::{Random, buffer, close, rows, same};

#[derive(Clone, Copy)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    d: usize,
}

impl Shape {
    fn q(self) -> usize {
        self.heads * self.d
    }
    fn kv(self) -> usize {
        self.kv_heads * self.d
    }
    fn cols(self) -> usize {
        self.q() + 2 * self.kv() + 3
    }
    fn spec(self, slots: usize, windows: &[Option<usize>]) -> KvSpec {
        KvSpec { slots, kv_heads: self.kv_heads, head_dim: self.d, windows: windows.to_vec(), max_positions: 1000 }
    }
}

/// q, k and v side by side in one buffer `[R, cols]`.
fn attend<C: Compute>(c: &C, cache: &mut C::KvCache, layer: usize, s: Shape, x: &[f32], rows: &Rows) -> Vec<f32> {
    let (x, mut out) = (buffer(c, x, s.cols()), c.buffer());
    let view = |at, width| View { buffer: &x, at, width };
    let (q, k, v) = (view(1, s.q()), view(1 + s.q(), s.kv()), view(2 + s.q() + s.kv(), s.kv()));
    c.attend(cache, layer, q, k, v, rows, &mut out).unwrap();
    c.read(&out).unwrap()
}

/// One slot from its beginning; `[T, Nh * D]`
fn exactly(s: Shape, x: &[f32], window: Option<usize>) -> Vec<(f64, f64)> {
    let x: Vec<&[f32]> = x.chunks_exact(s.cols()).collect();
    let mut all = Vec::new();
    for t in 0..x.len() {
        let first = window.map_or(0, |w| (t + 1).saturating_sub(w));
        for head in 0..s.heads {
            let key_head = head * s.kv_heads / s.heads;
            let value = |p: usize, i: usize| f64::from(x[p][2 + s.q() + s.kv() + key_head * s.d + i]);
            let scores: Vec<f64> = (first..=t)
                .map(|p| {
                    let terms = (0..s.d)
                        .map(|i| f64::from(x[t][1 + head * s.d + i]) * f64::from(x[p][1 + s.q() + key_head * s.d + i]));
                    (terms.sum::<f64>() / (s.d as f64).sqrt()).exp()
                })
                .collect();
            let total: f64 = scores.iter().sum();
            for i in 0..s.d {
                let sum: f64 = (first..=t).map(|p| scores[p - first] / total * value(p, i)).sum();
                all.push((sum, 2.0));
            }
        }
    }
    all
}

const SHAPES: [Shape; 5] = [
    Shape { heads: 1, kv_heads: 1, d: 8 },
    Shape { heads: 6, kv_heads: 2, d: 64 },
    Shape { heads: 4, kv_heads: 4, d: 24 },
    Shape { heads: 3, kv_heads: 1, d: 83 },
    Shape { heads: 4, kv_heads: 1, d: 128 },
];

/// Against the formula, in one call.
pub fn exact<C: Compute>(b: &Backend<C>) {
    let mut random = Random(21);
    for s in SHAPES {
        for len in [1, 2, 17, 70] {
            let x = random.values(len * s.cols());
            let mut cache = b.compute.kv_cache(&s.spec(2, &[None])).unwrap();
            let got = attend(&b.compute, &mut cache, 0, s, &x, &rows(&[(1, 0, len)]));
            close(&format!("{len} positions, heads of {}", s.d), &got, &exactly(s, &x, None), b.tolerance);
        }
    }
}

/// Layers with windows of their own.
pub fn windows<C: Compute>(b: &Backend<C>) {
    let mut random = Random(22);
    let s = SHAPES[1];
    let windows = [Some(1), None, Some(5), Some(64), Some(300)];
    let len = 200;
    let x = random.values(len * s.cols());
    let mut cache = b.compute.kv_cache(&s.spec(1, &windows)).unwrap();
    for (layer, window) in windows.iter().enumerate() {
        let got = attend(&b.compute, &mut cache, layer, s, &x, &rows(&[(0, 0, len)]));
        close(&format!("window {window:?}"), &got, &exactly(s, &x, *window), b.tolerance);
    }
}

/// The same bytes however the positions are cut into calls.
pub fn chunks<C: Compute>(b: &Backend<C>) {
    let mut random = Random(23);
    for s in [SHAPES[0], SHAPES[1], SHAPES[3]] {
        let windows = [None, Some(7), Some(64), Some(100)];
        let len = 260;
        let x = random.values(len * s.cols());
        for layer in 0..windows.len() {
            let mut cache = b.compute.kv_cache(&s.spec(1, &windows)).unwrap();
            let whole = attend(&b.compute, &mut cache, layer, s, &x, &rows(&[(0, 0, len)]));
            for most in [1, 3, 90] {
                let mut cache = b.compute.kv_cache(&s.spec(1, &windows)).unwrap();
                let mut at = 0;
                while at < len {
                    let count = (1 + random.below(most)).min(len - at);
                    let part = &x[at * s.cols()..(at + count) * s.cols()];
                    let part = attend(&b.compute, &mut cache, layer, s, part, &rows(&[(0, at, count)]));
                    let what = format!("window {:?}, {count} positions from {at}", windows[layer]);
                    same(&what, &part, &whole[at * s.q()..(at + count) * s.q()]);
                    at += count;
                }
            }
        }
    }
}

/// Slots of different ages in one call give the bytes of each alone; a reset slot begins anew.
pub fn slots<C: Compute>(b: &Backend<C>) {
    let mut random = Random(24);
    let s = SHAPES[1];
    let windows = [Some(20)];
    let streams: Vec<Vec<f32>> = (0..3).map(|_| random.values(60 * s.cols())).collect();
    let alone: Vec<Vec<f32>> = streams
        .iter()
        .map(|x| {
            let mut cache = b.compute.kv_cache(&s.spec(1, &windows)).unwrap();
            attend(&b.compute, &mut cache, 0, s, x, &rows(&[(0, 0, 60)]))
        })
        .collect();
    let mut cache = b.compute.kv_cache(&s.spec(4, &windows)).unwrap();
    // Slot 2 has a life before.
    attend(&b.compute, &mut cache, 0, s, &random.values(45 * s.cols()), &rows(&[(2, 0, 45)]));
    b.compute.reset_kv(&mut cache, 2).unwrap();
    let mut at = [0; 3];
    while at.iter().any(|at| *at < 60) {
        let mut segments = Vec::new();
        let mut x = Vec::new();
        for stream in [2, 0, 1] {
            let count = random.below(12).min(60 - at[stream]);
            if count > 0 {
                segments.push((stream, at[stream], count));
                x.extend_from_slice(&streams[stream][at[stream] * s.cols()..(at[stream] + count) * s.cols()]);
            }
        }
        let got = attend(&b.compute, &mut cache, 0, s, &x, &rows(&segments));
        let mut got = got.as_slice();
        for (stream, from, count) in segments {
            let (own, others) = got.split_at(count * s.q());
            same(
                &format!("slot {stream}, {count} from {from}"),
                own,
                &alone[stream][from * s.q()..(from + count) * s.q()],
            );
            got = others;
            at[stream] += count;
        }
    }
}

/// A window far from the beginning.
pub fn long<C: Compute>(b: &Backend<C>) {
    let s = SHAPES[0];
    let window = 33;
    let x = Random(25).values(700 * s.cols());
    let mut cache = b.compute.kv_cache(&s.spec(1, &[Some(window)])).unwrap();
    let mut got = Vec::new();
    for (t, x) in x.chunks_exact(s.cols()).enumerate() {
        got.extend(attend(&b.compute, &mut cache, 0, s, x, &rows(&[(0, t, 1)])));
    }
    close("one by one", &got, &exactly(s, &x, Some(window)), b.tolerance);
}

/// Positions out of order, and too many of them, are refused and change nothing.
pub fn order<C: Compute>(b: &Backend<C>) {
    let s = SHAPES[0];
    let c = &b.compute;
    let mut cache = c.kv_cache(&KvSpec { max_positions: 3, ..s.spec(2, &[None]) }).unwrap();
    let x = Random(26).values(4 * s.cols());
    let refused = |cache: &mut C::KvCache, segment: (usize, usize, usize)| {
        let (x, mut out) = (buffer(c, &x[..segment.2 * s.cols()], s.cols()), c.buffer());
        let view = |at, width| View { buffer: &x, at, width };
        let (q, k, v) = (view(1, s.q()), view(1 + s.q(), s.kv()), view(2 + s.q() + s.kv(), s.kv()));
        assert!(c.attend(cache, 0, q, k, v, &rows(&[segment]), &mut out).is_err(), "{segment:?}");
    };
    refused(&mut cache, (0, 1, 1));
    refused(&mut cache, (0, 0, 4));
    refused(&mut cache, (2, 0, 1));
    let first = attend(c, &mut cache, 0, s, &x[..2 * s.cols()], &rows(&[(0, 0, 2)]));
    refused(&mut cache, (0, 0, 1));
    refused(&mut cache, (0, 3, 1));
    refused(&mut cache, (0, 2, 2));
    let second = attend(c, &mut cache, 0, s, &x[2 * s.cols()..3 * s.cols()], &rows(&[(0, 2, 1)]));
    let got = [first, second].concat();
    close("afterwards", &got, &exactly(s, &x[..3 * s.cols()], None), b.tolerance);
}
