//! Attention over each slot's own keys and values.
//!
//! A (row, head) is computed alone, over its positions in order, so its result depends neither on how the positions came
//! in (one by one or in one call) nor on other slots. Keys and values are f32, in blocks that come as positions do and go
//! when no later query of the layer's window can see them.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::buffer::Buffer;
use super::isa::{Isa, kernel};
use super::lanes::{LANES, Lanes, dot, padded};
use super::linear::fault;
use super::math::exp;
use super::pool::Pool;
use crate::compute::{KvSpec, Rows, View};
use crate::error::Result;

/// Positions in a block.
const BLOCK: usize = 64;
/// Multiply-adds in a task.
const TASK: usize = 32 * 1024;

/// Keys and values of all layers and slots.
pub struct KvCache {
    spec: KvSpec,
    /// `[layers][B]`
    layers: Vec<Vec<Store>>,
}

/// One slot's positions in one layer.
#[derive(Default)]
struct Store {
    /// Positions appended so far.
    len: usize,
    /// Blocks dropped from the front.
    gone: usize,
    blocks: VecDeque<Block>,
}

struct Block {
    /// `[BLOCK, Nkv * D]`
    keys: Vec<f32>,
    /// `[BLOCK, Nkv * D]`
    values: Vec<f32>,
}

impl KvCache {
    pub(super) fn new(spec: &KvSpec) -> Self {
        let layers = spec.windows.iter().map(|_| (0..spec.slots).map(|_| Store::default()).collect()).collect();
        Self { spec: spec.clone(), layers }
    }

    pub(super) fn reset(&mut self, slot: usize) {
        for layer in &mut self.layers {
            if let Some(store) = layer.get_mut(slot) {
                *store = Store::default();
            }
        }
    }

    /// Nkv * D
    fn width(&self) -> usize {
        self.spec.kv_heads * self.spec.head_dim
    }

    /// Says what is wrong with a call before anything is changed.
    fn check(&self, layer: usize, rows: &Rows) -> Result<()> {
        let Some(stores) = self.layers.get(layer) else {
            return Err(fault(format!("layer {layer} of a cache of {} layers", self.layers.len())));
        };
        for segment in &rows.segments {
            let Some(store) = stores.get(segment.slot) else {
                return Err(fault(format!("slot {} of a cache of {} slots", segment.slot, stores.len())));
            };
            if store.len != segment.start {
                return Err(fault(format!(
                    "slot {} of layer {layer} holds {} positions and is given position {}",
                    segment.slot, store.len, segment.start
                )));
            }
            if segment.start + segment.len > self.spec.max_positions {
                return Err(fault(format!(
                    "slot {} grows to {} of at most {} positions",
                    segment.slot,
                    segment.start + segment.len,
                    self.spec.max_positions
                )));
            }
        }
        Ok(())
    }
}

impl Store {
    /// k and v `[Nkv * D]`
    fn push(&mut self, k: &[f32], v: &[f32]) {
        let (block, at) = (self.len / BLOCK - self.gone, self.len % BLOCK);
        if block == self.blocks.len() {
            let empty = || vec![0.0; BLOCK * k.len()];
            self.blocks.push_back(Block { keys: empty(), values: empty() });
        }
        let place = at * k.len()..(at + 1) * k.len();
        let block = &mut self.blocks[block];
        block.keys[place.clone()].copy_from_slice(k);
        block.values[place].copy_from_slice(v);
        self.len += 1;
    }

    /// Forgets what a query at position `len` and later cannot see.
    fn slide(&mut self, window: Option<usize>) {
        let Some(window) = window else { return };
        let first = (self.len + 1).saturating_sub(window);
        while (self.gone + 1) * BLOCK <= first && self.blocks.pop_front().is_some() {
            self.gone += 1;
        }
    }

    /// Calls `visit` with the blocks that hold positions `first ..= last`, and which of their rows they are.
    #[inline(always)]
    fn visit(&self, first: usize, last: usize, mut visit: impl FnMut(&Block, std::ops::Range<usize>)) {
        for number in first / BLOCK..=last / BLOCK {
            let from = first.max(number * BLOCK) - number * BLOCK;
            let to = last.min(number * BLOCK + BLOCK - 1) - number * BLOCK;
            visit(&self.blocks[number - self.gone], from..to + 1);
        }
    }
}

/// Columns `at .. at + width` of row r.
#[inline(always)]
pub(super) fn row<'a>(view: &View<'a, Buffer>, r: usize) -> &'a [f32] {
    let at = r * view.buffer.cols() + view.at;
    &view.buffer.values()[at..at + view.width]
}

#[allow(clippy::too_many_arguments)]
pub(super) fn attend(
    isa: Isa,
    pool: &Pool,
    cache: &mut KvCache,
    layer: usize,
    q: &View<'_, Buffer>,
    k: &View<'_, Buffer>,
    v: &View<'_, Buffer>,
    rows: &Rows,
    out: &mut Buffer,
) -> Result<()> {
    debug_assert!(k.width == cache.width() && v.width == cache.width());
    debug_assert!(q.buffer.rows() == rows.len() && k.buffer.rows() == rows.len() && v.buffer.rows() == rows.len());
    cache.check(layer, rows)?;
    let (head_dim, kv_heads) = (cache.spec.head_dim, cache.spec.kv_heads);
    let window = cache.spec.windows[layer];
    let stores = &mut cache.layers[layer];

    // Of each row: its slot and position.
    let mut places = Vec::with_capacity(rows.len());
    for segment in &rows.segments {
        for position in segment.start..segment.start + segment.len {
            let r = places.len();
            stores[segment.slot].push(row(k, r), row(v, r));
            places.push((segment.slot, position));
        }
    }

    let first = |position: usize| window.map_or(0, |window| (position + 1).saturating_sub(window));
    let heads = q.width / head_dim;
    let longest = places.iter().map(|(_, position)| position + 1 - first(*position)).max().unwrap_or(0);
    let task = (TASK / (2 * longest * head_dim).max(1)).clamp(1, heads.max(1));
    let stored = &*stores;
    // Pieces of whole heads; a task never crosses a row, so that it has one position.
    let per_row = heads.div_ceil(task);
    let out = out.shape(places.len(), q.width);
    let pieces = Pieces::new(out);
    pool.run(places.len() * per_row, &|index| {
        let (r, piece) = (index / per_row, index % per_row);
        let (slot, position) = places[r];
        let query = row(q, r);
        for head in piece * task..((piece + 1) * task).min(heads) {
            let at = head * head_dim;
            // SAFETY: row r, head `head` of `out`, which only this task has.
            let out = unsafe { pieces.get(r * query.len() + at, head_dim) };
            let key_head = head * kv_heads / heads;
            attend_one(isa, &query[at..at + head_dim], &stored[slot], key_head, first(position), position, out);
        }
    });
    for segment in &rows.segments {
        stores[segment.slot].slide(window);
    }
    Ok(())
}

/// A slice handed out to threads in disjoint pieces.
struct Pieces {
    at: super::pool::Shareable,
    len: usize,
}

impl Pieces {
    fn new(values: &mut [f32]) -> Self {
        Self { at: super::pool::Shareable(values.as_mut_ptr()), len: values.len() }
    }

    /// # Safety
    /// No other piece that lives overlaps this one, and the slice outlives it.
    unsafe fn get<'a>(&self, from: usize, len: usize) -> &'a mut [f32] {
        debug_assert!(from + len <= self.len);
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at.at(from), len) }
    }
}

thread_local! {
    /// One query's scores, kept for the next.
    static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

fn attend_one(isa: Isa, q: &[f32], store: &Store, key_head: usize, first: usize, last: usize, out: &mut [f32]) {
    SCORES.with_borrow_mut(|scores| {
        scores.resize(last + 1 - first, 0.0);
        softmax_weighted(isa, q, store, key_head, first, last, scores, out);
    });
}

kernel! {
    fn softmax_weighted<L>(
        q: &[f32],
        store: &Store,
        key_head: usize,
        first: usize,
        last: usize,
        scores: &mut [f32],
        out: &mut [f32],
    ) {
        let d = q.len();
        let scale = 1.0 / (d as f32).sqrt();
        let mut largest = f32::NEG_INFINITY;
        let mut at = 0;
        store.visit(first, last, |block, rows| {
            let width = block.keys.len() / BLOCK;
            for r in rows {
                let score = dot::<L>(q, &block.keys[r * width + key_head * d..][..d]) * scale;
                largest = if score > largest { score } else { largest };
                scores[at] = score;
                at += 1;
            }
        });
        for score in scores.iter_mut() {
            *score = exp(*score - largest);
        }
        // SAFETY: reached through `kernel!` only; every load is of 16 values in an array.
        let total = unsafe {
            let one = L::splat(1.0);
            let (groups, rest) = scores.as_chunks::<LANES>();
            let mut sum = L::zero();
            for group in groups {
                sum = L::f32(group.as_ptr()).fma(one, sum);
            }
            L::f32(padded(rest).as_ptr()).fma(one, sum).sum()
        };
        let by = 1.0 / total;
        let mut at = 0;
        while at + 4 * LANES <= d {
            weighted::<L, 4>(store, key_head * d + at, first, last, scores, by, &mut out[at..]);
            at += 4 * LANES;
        }
        while at + LANES <= d {
            weighted::<L, 1>(store, key_head * d + at, first, last, scores, by, &mut out[at..]);
            at += LANES;
        }
        for (at, out) in out.iter_mut().enumerate().skip(at) {
            let mut sum = 0f32;
            let mut score = scores.iter();
            store.visit(first, last, |block, rows| {
                let width = block.values.len() / BLOCK;
                for (r, score) in rows.zip(&mut score) {
                    sum = score.mul_add(block.values[r * width + key_head * d + at], sum);
                }
            });
            *out = sum * by;
        }
    }
}

/// `out[i] = by * Σ_position score * value[column + i]` for 16 N columns, positions in order.
#[inline(always)]
fn weighted<L: Lanes, const N: usize>(
    store: &Store,
    column: usize,
    first: usize,
    last: usize,
    scores: &[f32],
    by: f32,
    out: &mut [f32],
) {
    let out = &mut out[..N * LANES];
    // SAFETY: reached through `kernel!` only; the slices taken below have the 16 N values.
    unsafe {
        let mut sums = [L::zero(); N];
        let mut at = 0;
        store.visit(first, last, |block, rows| {
            let width = block.values.len() / BLOCK;
            for r in rows {
                let value = &block.values[r * width + column..][..N * LANES];
                let score = L::splat(scores[at]);
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = score.fma(L::f32(value.as_ptr().add(i * LANES)), *sum);
                }
                at += 1;
            }
        });
        let by = L::splat(by);
        for (i, sum) in sums.into_iter().enumerate() {
            // A multiplication: the product is rounded once, and adding -0 changes nothing.
            sum.fma(by, L::splat(-0.0)).store(out.as_mut_ptr().add(i * LANES));
        }
    }
}
