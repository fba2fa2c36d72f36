//! Attention over each slot's own keys and values, which live in blocks of 64 positions of all layers.
//!
//! A slot's blocks are taken as its positions come and go back when the slot is reset. A cache whose layers all have
//! windows needs few of them: they are used in turn, and since such a cache is small it is kept in f32.

use super::buffer::{Buffer, columns};
use super::driver::Address;
use super::memory::Block;
use super::stream::{Argument, Grid};
use super::{Cuda, fault};
use crate::compute::{KvSpec, Rows, View};
use crate::error::Result;

/// Positions in a block, as in kernels/attend.cu.
const BLOCK: usize = 64;
/// `MOST_DIM` in kernels/attend.cu.
const MOST_DIM: usize = 256;
/// Heads of a block of threads.
const HEADS: usize = 4;

/// Keys and values of all layers and slots.
pub struct KvCache {
    spec: KvSpec,
    /// `[layers][B]`: positions appended so far.
    lens: Vec<Vec<usize>>,
    /// `[B][blocks]`
    held: Vec<Vec<Option<Block>>>,
    /// `[B, blocks]`: where each begins.
    table: Block,
    blocks: usize,
    wide: bool,
}

/// `Cache` in kernels/attend.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct DeviceCache {
    table: Address,
    blocks: u32,
    wide: u32,
    layer: u64,
    width: u32,
}
// SAFETY: the struct of the same meaning, member by member.
unsafe impl Argument for DeviceCache {}

impl KvCache {
    /// Nkv * D
    fn width(&self) -> usize {
        self.spec.kv_heads * self.spec.head_dim
    }

    /// Keys and values of a layer in a block.
    fn layer(&self) -> usize {
        2 * BLOCK * self.width()
    }

    /// Nkv * D of a cache in bfloat16.
    pub(super) fn narrow_width(&self) -> Option<usize> {
        if self.wide { None } else { Some(self.width()) }
    }

    /// Where the table of blocks lies. `[B, blocks]`
    pub(super) fn table(&self) -> Address {
        self.table.at()
    }

    /// Blocks of a slot.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    fn device(&self, layer: usize) -> DeviceCache {
        DeviceCache {
            table: self.table.at(),
            blocks: self.blocks as u32,
            wide: u32::from(self.wide),
            layer: (layer * self.layer()) as u64,
            width: self.width() as u32,
        }
    }

    /// Says what is wrong with a call before anything is changed.
    fn check(&self, layer: usize, rows: &Rows) -> Result<()> {
        let Some(lens) = self.lens.get(layer) else {
            return Err(fault(format!("layer {layer} of a cache of {} layers", self.lens.len())));
        };
        for segment in &rows.segments {
            let Some(len) = lens.get(segment.slot) else {
                return Err(fault(format!("slot {} of a cache of {} slots", segment.slot, lens.len())));
            };
            let (slot, start) = (segment.slot, segment.start);
            if *len != start {
                return Err(fault(format!(
                    "slot {slot} of layer {layer} holds {len} positions and is given position {start}"
                )));
            }
            let (end, most) = (start + segment.len, self.spec.max_positions);
            if end > most {
                return Err(fault(format!("slot {slot} grows to {end} of at most {most} positions")));
            }
        }
        Ok(())
    }
}

impl Cuda {
    pub(super) fn kv_cache_(&self, spec: &KvSpec) -> Result<KvCache> {
        if spec.head_dim > MOST_DIM {
            return Err(fault(format!("heads of {}, at most {MOST_DIM} are possible", spec.head_dim)));
        }
        let whole = spec.max_positions.div_ceil(BLOCK);
        // Of a window, the positions before the query's own.
        let window = spec.windows.iter().try_fold(1, |most: usize, window| Some(most.max((*window)?)));
        let turning = window.map_or(usize::MAX, |window| (window - 1).div_ceil(BLOCK) + 1);
        let (blocks, wide) = (whole.min(turning), turning < whole || self.exact);
        if u32::try_from(blocks * BLOCK).is_err() {
            return Err(fault(format!("a cache of {blocks} blocks a slot")));
        }
        let table = self.pool.take(spec.slots * blocks * size_of::<Address>())?;
        // SAFETY: the table was taken for as many addresses.
        unsafe { self.stream.zero(table.at(), spec.slots * blocks * size_of::<Address>())? };
        Ok(KvCache {
            spec: spec.clone(),
            lens: vec![vec![0; spec.slots]; spec.windows.len()],
            held: (0..spec.slots).map(|_| (0..blocks).map(|_| None).collect()).collect(),
            table,
            blocks,
            wide,
        })
    }

    pub(super) fn reset_kv_(&self, cache: &mut KvCache, slot: usize) {
        for lens in &mut cache.lens {
            if let Some(len) = lens.get_mut(slot) {
                *len = 0;
            }
        }
        if let Some(held) = cache.held.get_mut(slot) {
            held.fill_with(|| None);
        }
    }

    /// Takes the blocks that the rows' positions fall into.
    fn grow(&self, cache: &mut KvCache, rows: &Rows) -> Result<()> {
        let bytes = cache.spec.windows.len() * cache.layer() * if cache.wide { 4 } else { 2 };
        for segment in rows.segments.iter().filter(|s| s.len > 0) {
            let (first, last) = (segment.start / BLOCK, (segment.start + segment.len - 1) / BLOCK);
            for number in (first..=last).take(cache.blocks) {
                let number = number % cache.blocks;
                let place = &mut cache.held[segment.slot][number];
                if place.is_none() {
                    let block = self.pool.take(bytes)?;
                    let entry = (segment.slot * cache.blocks + number) * size_of::<Address>();
                    // SAFETY: the entry lies within the table.
                    unsafe { self.stream.put(&[block.at()], cache.table.at() + entry as Address)? };
                    *place = Some(block);
                }
            }
        }
        Ok(())
    }

    /// Makes room for the rows in all layers, for a kernel that fills it.
    pub(super) fn advance(&self, cache: &mut KvCache, rows: &Rows) -> Result<()> {
        for layer in 0..cache.lens.len() {
            cache.check(layer, rows)?;
        }
        self.grow(cache, rows)?;
        for lens in &mut cache.lens {
            for segment in &rows.segments {
                lens[segment.slot] += segment.len;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn attend_(
        &self,
        cache: &mut KvCache,
        layer: usize,
        q: &View<'_, Buffer>,
        k: &View<'_, Buffer>,
        v: &View<'_, Buffer>,
        rows: &Rows,
        out: &mut Buffer,
    ) -> Result<()> {
        cache.check(layer, rows)?;
        let (head_dim, count) = (cache.spec.head_dim, rows.len());
        let fits = |view: &View<'_, Buffer>| view.buffer.rows() == count;
        if !(fits(q) && fits(k) && fits(v)) || k.width != cache.width() || v.width != k.width {
            return Err(fault(format!("{count} rows of {} keys for a cache of {}", k.width, cache.width())));
        }
        self.grow(cache, rows)?;
        let (q, k, v, places) = (columns(q)?, columns(k)?, columns(v)?, self.places(rows)?);
        let out_at = out.shape(&self.pool, count, q.width)?;
        let heads = q.width / head_dim.max(1);
        let window = cache.spec.windows[layer].map_or(0, |window| window as u32);
        let device = cache.device(layer);
        let grid = Grid::new((count as u32, heads.div_ceil(HEADS) as u32), 32 * HEADS as u32);
        let (heads, kv_heads, dim) = (heads as u32, cache.spec.kv_heads as u32, head_dim as u32);
        // SAFETY: a warp a row and head. The rows' positions before this call were appended by earlier ones, so the table
        // holds their blocks, or, where blocks are used in turn, those within the window.
        unsafe {
            self.launch(
                "attend",
                grid,
                &[
                    &device,
                    &q.at,
                    &q.cols,
                    &k.at,
                    &k.cols,
                    &v.at,
                    &v.cols,
                    &places.at(),
                    &heads,
                    &kv_heads,
                    &dim,
                    &window,
                    &out_at,
                ],
            )?;
            let grid = Grid::new((count as u32, 1), 128);
            self.launch("append", grid, &[&device, &k.at, &k.cols, &v.at, &v.cols, &places.at()])?;
        }
        for segment in &rows.segments {
            cache.lens[layer][segment.slot] += segment.len;
        }
        Ok(())
    }

    pub(super) fn attend_within_(
        &self,
        group: usize,
        kv_heads: usize,
        q: &View<'_, Buffer>,
        k: &View<'_, Buffer>,
        v: &View<'_, Buffer>,
        out: &mut Buffer,
    ) -> Result<()> {
        let rows = q.buffer.rows();
        let head_dim = k.width / kv_heads.max(1);
        let fits = group > 0 && head_dim > 0 && head_dim <= MOST_DIM && rows.is_multiple_of(group);
        if !fits
            || !q.width.is_multiple_of(head_dim)
            || k.width != v.width
            || k.buffer.rows() != rows
            || v.buffer.rows() != rows
        {
            return Err(fault(format!("attention among {group} of {rows} rows in heads of {head_dim}")));
        }
        let (q, k, v) = (columns(q)?, columns(k)?, columns(v)?);
        let out_at = out.shape(&self.pool, rows, q.width)?;
        let heads = q.width / head_dim;
        let grid = Grid::new((rows as u32, heads.div_ceil(HEADS) as u32), 32 * HEADS as u32);
        let (group, heads, kv_heads, dim) = (group as u32, heads as u32, kv_heads as u32, head_dim as u32);
        // SAFETY: a warp a row and head; whole groups of rows, all of which exist.
        unsafe {
            self.launch(
                "attend_within",
                grid,
                &[&group, &q.at, &q.cols, &k.at, &k.cols, &v.at, &v.cols, &heads, &kv_heads, &dim, &out_at],
            )
        }
    }
}
