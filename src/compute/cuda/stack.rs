//! All layers of a decoder at once: a step of up to eight rows is one launch (kernels/decode.cu), whose blocks stay and read
//! the weights without a pause from the first layer to the last; more rows take four launches a layer (kernels/wide.cu) and
//! get the same bits. The rows of a prompt are rows like others: each sees what the launch before it has appended.
//!
//! For the shape that the kernel is compiled for and packed weights; everything else takes [`stack::Stack`].

use bytemuck::{Pod, Zeroable};

use super::buffer::Buffer;
use super::driver::Address;
use super::memory::Block;
use super::pieces::{Pieces, Place, SCALE};
use super::stream::{Argument, Graph, Grid, Order};
use super::{Cuda, KvCache, Vector, fault};
use crate::compute::stack::{self, StackLayer, StackSpec};
use crate::compute::{Activations, Rope, RopePairs, Rows, Segment};
use crate::error::Result;
use crate::matrix::Matrix;
use crate::nvfp4::Nvfp4Matrix;

/// The most rows of `decode_layers`.
const NARROW: usize = 8;
/// The most rows of the wide kernels.
const WIDE: usize = 128;
/// Tiles of eight rows that a block of the wide kernels may take.
const TILES: [usize; 4] = [2, 3, 4, 6];
/// As kernels/decode.cuh has them compiled in.
const HIDDEN: usize = 2048;
const HEADS: usize = 16;
const KV_HEADS: usize = 4;
const HEAD: usize = 128;
const KV: usize = KV_HEADS * HEAD;
const QKV: usize = HIDDEN + 2 * KV;
/// Positions in a block of the cache.
const BLOCK: usize = 64;
/// Of a row's positions, in blocks.
const MOST_CHUNKS: usize = 256;
/// The threads of a block of `decode_layers`.
const THREADS: u32 = 768;

/// Prepared layers.
pub enum Stack {
    /// Operation by operation.
    Plain(Box<stack::Stack<Cuda>>),
    /// The kernel of this module.
    Fast(Box<Fast>),
}

/// Layers for the kernel, and what it works with.
pub struct Fast {
    spec: StackSpec,
    layers: Vec<Layer>,
    /// `DecodeLayer` of each
    list: Block,
    /// `[positions, D/2, 2]`: cosine and sine
    turns: Block,
    /// Bytes of shared memory of `decode_layers`, and of `wide_input` and `wide_output` for each of [`TILES`].
    shared: u32,
    wide_shared: [[u32; 2]; 4],
    step: Option<Step>,
    /// The wide launches by what they were recorded for; they work in `step`.
    graphs: Vec<(Recorded, Option<Graph>)>,
}

struct Layer {
    gain: Vector,
    /// `[q | k | v | gate and up in turns of 8 rows, H]`
    input: Pieces,
    o: Pieces,
    down: Pieces,
}

/// What a step of up to so many rows works with; the next one uses it again.
struct Step {
    rows: usize,
    stats: Block,    // [R, H/16, 2]
    q: Block,        // [R, Nh, 2, D] bf16
    mixed: Block,    // [R, Nh D] bf16
    gated: Block,    // [R, I] bf16
    h: Block,        // [R, H] bf16
    parts: Block,    // [24, R, H]
    partial: Block,  // [R, Nkv, chunks, 520]
    counters: Block, // [128 + 4 R]
    places: Block,   // slots [R], positions [R]
}

/// What recorded launches depend on beside the step's own memory: rows, x, the cache's table.
type Recorded = (usize, Address, Address);

/// So many graphs are kept.
const GRAPHS: usize = 160;

/// `DecodeLayer` in kernels/decode.cuh.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
struct DecodeLayer {
    input: Address,
    o: Address,
    down: Address,
    gain: Address,
    cache: u64,
    /// q, k, v, gate, up, o, down
    alphas: [f32; 7],
    rotates: u32,
    window: u32,
    unused: u32,
}

/// `Decode` in kernels/decode.cuh.
#[derive(Clone, Copy)]
#[repr(C)]
struct Decode {
    layers: Address,
    slot: Address,
    position: Address,
    table: Address,
    turns: Address,
    x: Address,
    stats: Address,
    q: Address,
    mixed: Address,
    gated: Address,
    partial: Address,
    h: Address,
    parts: Address,
    counters: Address,
    count: u32,
    rows: u32,
    inner: u32,
    blocks: u32,
    chunks: u32,
    eps: f32,
}
// SAFETY: the struct of the same name, member by member.
unsafe impl Argument for Decode {}

fn counters(rows: usize) -> usize {
    128 + 4 * rows
}

impl Cuda {
    pub(super) fn prepare_stack_(
        &self,
        spec: &StackSpec,
        layers: &[StackLayer],
        activations: Activations,
    ) -> Result<Stack> {
        let packed = layers.iter().map(packed).collect::<Option<Vec<_>>>();
        if let Some(packed) = packed.filter(|_| !self.exact && activations == Activations::Full && fits(spec)) {
            let gains = layers.iter().map(|layer| layer.norm.as_slice());
            return Ok(Stack::Fast(Box::new(self.fast(spec, &packed, gains)?)));
        }
        Ok(Stack::Plain(Box::new(stack::Stack::new(self, spec, layers, activations)?)))
    }

    fn fast<'a>(
        &self,
        spec: &StackSpec,
        packed: &[Packed<'_>],
        gains: impl Iterator<Item = &'a [f32]>,
    ) -> Result<Fast> {
        let inner = spec.inner;
        let mut layers = Vec::new();
        let mut list = Vec::new();
        for (index, (packed, gain)) in packed.iter().zip(gains).enumerate() {
            let [q, k, v, gate, up, o, down] = packed.matrices();
            let parts = [
                (q, Place::From(0)),
                (k, Place::From(HIDDEN)),
                (v, Place::From(HIDDEN + KV)),
                (gate, Place::Turns(QKV)),
                (up, Place::Turns(QKV + 8)),
            ];
            let layer = Layer {
                gain: Vector { block: self.send(gain)?, len: gain.len() },
                input: self.pieces(&parts, QKV + 2 * inner, HIDDEN)?,
                o: self.pieces(&[(o, Place::From(0))], HIDDEN, HIDDEN)?,
                down: self.pieces(&[(down, Place::From(0))], HIDDEN, inner)?,
            };
            list.push(DecodeLayer {
                input: layer.input.at(),
                o: layer.o.at(),
                down: layer.down.at(),
                gain: layer.gain.at(),
                cache: (index * 2 * BLOCK * KV) as u64,
                alphas: packed.matrices().map(|m| m.global.factor() * SCALE),
                rotates: u32::from(spec.rotates[index]),
                window: spec.windows[index].map_or(0, |window| window as u32),
                unused: 0,
            });
            layers.push(layer);
        }
        let mut wide_shared = [[0; 2]; 4];
        for (shared, name) in wide_shared.iter_mut().zip([
            "wide_shared_bytes_2",
            "wide_shared_bytes_3",
            "wide_shared_bytes_4",
            "wide_shared_bytes_6",
        ]) {
            *shared = self.told(name)?;
        }
        let [shared] = self.told("decode_shared_bytes")?;
        Ok(Fast {
            list: self.send(&list)?,
            turns: self.send(&turns(&spec.rope, spec.max_positions))?,
            shared,
            wide_shared,
            step: None,
            graphs: Vec::new(),
            spec: spec.clone(),
            layers,
        })
    }

    /// Numbers that a kernel writes.
    fn told<const N: usize>(&self, kernel: &'static str) -> Result<[u32; N]> {
        let out = self.pool.take(4 * N)?;
        let mut numbers = [0; N];
        // SAFETY: the kernel writes N numbers.
        unsafe {
            self.launch(kernel, Grid::new((1, 1), 1), &[&out.at()])?;
            self.stream.get(out.at(), &mut numbers)?;
        }
        Ok(numbers)
    }

    /// Room for a step of so many rows.
    fn step(&self, spec: &StackSpec, rows: usize) -> Result<Step> {
        // A few sizes: slots come and go.
        let rows = if rows <= NARROW { NARROW } else { rows.next_multiple_of(16) };
        let take = |bytes: usize| self.pool.take(rows * bytes);
        Ok(Step {
            rows,
            stats: take(HIDDEN / 16 * 8)?,
            q: take(HIDDEN * 4)?,
            mixed: take(HIDDEN * 2)?,
            gated: take(spec.inner * 2)?,
            h: take(HIDDEN * 2)?,
            parts: take(24 * HIDDEN * 4)?,
            partial: take(KV_HEADS * chunks(spec) * 520 * 4)?,
            counters: self.pool.take(counters(rows) * 4)?,
            places: take(2 * 4)?,
        })
    }

    pub(super) fn run_stack_(&self, stack: &mut Stack, cache: &mut KvCache, x: &mut Buffer, rows: &Rows) -> Result<()> {
        match stack {
            Stack::Plain(stack) => stack.run(self, cache, x, rows),
            Stack::Fast(fast) => {
                if x.rows() != rows.len() || x.cols() != HIDDEN {
                    return Err(fault(format!("{} rows of {} for {} positions", x.rows(), x.cols(), rows.len())));
                }
                if cache.narrow_width() != Some(KV) {
                    return Err(fault("a cache of another kind than the layers".into()));
                }
                self.steps(fast, cache, x, rows)
            }
        }
    }

    /// Positions of slots, up to [`WIDE`] at a time.
    fn steps(&self, fast: &mut Fast, cache: &mut KvCache, x: &mut Buffer, rows: &Rows) -> Result<()> {
        self.advance(cache, rows)?;
        let count = rows.len();
        let most = count.min(WIDE);
        // A row that is its slot's only one may be attended to before the rows beside it are in the cache.
        let single = rows.segments.iter().all(|s| s.len <= 1);
        let of = |s: &Segment| (0..s.len).map(|i| (s.slot as u32, (s.start + i) as u32)).collect::<Vec<_>>();
        let all: Vec<(u32, u32)> = rows.segments.iter().flat_map(of).collect();
        if fast.step.as_ref().is_none_or(|step| step.rows < most) {
            fast.graphs.clear();
            fast.step = None;
            fast.step = Some(self.step(&fast.spec, most)?);
        }
        let Some(step) = &fast.step else { return Err(fault("a step without room".into())) };
        for from in (0..count).step_by(WIDE) {
            let part = &all[from..count.min(from + WIDE)];
            let rows = part.len();
            let places: Vec<u32> = part.iter().map(|row| row.0).chain(part.iter().map(|row| row.1)).collect();
            // SAFETY: there is room for a slot and a position of each row; what read them before is earlier in the stream.
            unsafe { self.stream.put(&places, step.places.at())? };
            let x = x.at() + (from * HIDDEN * 4) as Address;
            let decode = Decode {
                layers: fast.list.at(),
                slot: step.places.at(),
                position: step.places.at() + 4 * rows as Address,
                table: cache.table(),
                turns: fast.turns.at(),
                x,
                stats: step.stats.at(),
                q: step.q.at(),
                mixed: step.mixed.at(),
                gated: step.gated.at(),
                h: step.h.at(),
                parts: step.parts.at(),
                partial: step.partial.at(),
                counters: step.counters.at(),
                count: fast.layers.len() as u32,
                rows: rows as u32,
                inner: fast.spec.inner as u32,
                blocks: cache.blocks() as u32,
                chunks: chunks(&fast.spec) as u32,
                eps: fast.spec.eps,
            };
            let (stats, of, size) = (step.stats.at(), step.counters.at(), counters(rows) as u32);
            let enter = || {
                // SAFETY: x and the counters have the sizes that kernels/README.md gives for so many rows.
                unsafe { self.launch("decode_enter", Grid::new((rows as u32, 1), 256), &[&x, &stats, &of, &size]) }
            };
            if single && rows <= NARROW {
                enter()?;
                let grid = Grid::new((self.device.facts().multiprocessors, 1), THREADS);
                let grid = Grid { shared: fast.shared, order: Order::Together, ..grid };
                // SAFETY: everything has the size that kernels/README.md gives for so many rows; the cache holds the blocks
                // of all positions up to the rows' own.
                unsafe { self.launch("decode_layers", grid, &[&decode])? };
                continue;
            }
            let key = (rows, x, cache.table());
            // SAFETY: as above.
            let work = || enter().and_then(|()| unsafe { self.wide(fast, &decode, single) });
            if !single {
                work()?;
                continue;
            }
            match fast.graphs.iter().find(|(of, _)| *of == key) {
                // SAFETY: the same rows in the same memory; the step's memory is that of the recording.
                Some((_, Some(graph))) => unsafe { self.stream.replay(graph)? },
                Some((_, None)) => {
                    let graph = self.stream.record(work)?;
                    // SAFETY: as above.
                    unsafe { self.stream.replay(&graph)? };
                    if let Some((_, place)) = fast.graphs.iter_mut().find(|(of, _)| *of == key) {
                        *place = Some(graph);
                    }
                }
                // The first time as it is: kernels may have to be loaded, which cannot be recorded.
                None => {
                    work()?;
                    if fast.graphs.len() == GRAPHS {
                        fast.graphs.remove(0);
                    }
                    fast.graphs.push((key, None));
                }
            }
        }
        Ok(())
    }

    /// The layers for more rows, or for several of a slot.
    ///
    /// # Safety
    /// As for `decode_layers`; `single` where no slot has several rows.
    unsafe fn wide(&self, fast: &Fast, decode: &Decode, single: bool) -> Result<()> {
        let facts = self.device.facts();
        let order = if facts.capability.0 >= 9 { Order::Early } else { Order::Usual };
        let grid = |blocks, threads, shared| Grid { shared, order, ..Grid::new(blocks, threads) };
        let attend = if single { order } else { Order::Usual };
        let rows = decode.rows as usize;
        // The fewest groups of rows, then the fewest tiles.
        let groups = |tiles: usize| rows.div_ceil(8 * tiles);
        let fitting = |i: &usize| fast.wide_shared[*i].iter().all(|bytes| *bytes <= facts.shared_memory);
        let Some(choice) = (0..TILES.len()).filter(fitting).min_by_key(|i| (groups(TILES[*i]), *i)) else {
            return Err(fault(format!("no wide kernel fits {} bytes of shared memory", facts.shared_memory)));
        };
        let (input, output) = [
            ("wide_input_2", "wide_output_2"),
            ("wide_input_3", "wide_output_3"),
            ("wide_input_4", "wide_output_4"),
            ("wide_input_6", "wide_output_6"),
        ][choice];
        let ([input_shared, output_shared], groups) = (fast.wide_shared[choice], groups(TILES[choice]) as u32);
        let processors = facts.multiprocessors;
        for layer in 0..=decode.count {
            // SAFETY: the caller's promise; the grids are those of kernels/README.md.
            unsafe {
                self.launch("wide_join", grid((decode.rows, 1), 512, 0), &[decode, &layer])?;
                if layer < decode.count {
                    self.launch(input, grid((processors, groups), 256, input_shared), &[decode, &layer])?;
                    let teams = Grid { order: attend, ..grid((4 * processors, 1), 128, 0) };
                    self.launch("wide_attend", teams, &[decode, &layer])?;
                    self.launch(output, grid((128, groups), 256, output_shared), &[decode, &layer])?;
                }
            }
        }
        Ok(())
    }
}

/// The matrices of a layer.
struct Packed<'a>([&'a Nvfp4Matrix; 7]);

impl<'a> Packed<'a> {
    /// q, k, v, gate, up, o, down
    fn matrices(&self) -> [&'a Nvfp4Matrix; 7] {
        self.0
    }
}

/// Where all of them are packed.
fn packed(layer: &StackLayer) -> Option<Packed<'_>> {
    fn of(matrix: &Matrix) -> Option<&Nvfp4Matrix> {
        if let Matrix::Nvfp4(m) = matrix { Some(m) } else { None }
    }
    let StackLayer { q, k, v, gate, up, o, down, .. } = layer;
    Some(Packed([of(q)?, of(k)?, of(v)?, of(gate)?, of(up)?, of(o)?, of(down)?]))
}

/// The shape is the one compiled in.
fn fits(spec: &StackSpec) -> bool {
    spec.hidden == HIDDEN
        && (spec.heads, spec.kv_heads, spec.head_dim) == (HEADS, KV_HEADS, HEAD)
        && spec.inner.is_multiple_of(256)
        && spec.inner >= 4096
        && spec.rope.pairs == RopePairs::Interleaved
        // Then the cache holds all positions, in bfloat16.
        && spec.windows.contains(&None)
        && chunks(spec) <= MOST_CHUNKS
}

/// The most blocks of 64 positions that a row can see.
fn chunks(spec: &StackSpec) -> usize {
    spec.max_positions.div_ceil(BLOCK) + 1
}

/// Cosine and sine of every position and pair. `[positions, D/2, 2]`
fn turns(rope: &Rope, positions: usize) -> Vec<f32> {
    let pairs = rope.inv_freq.len();
    let of = |place: usize| {
        let (sin, cos) = f64::from(rope.angle(place / pairs, place % pairs)).sin_cos();
        [cos as f32 * rope.amplitude, sin as f32 * rope.amplitude]
    };
    (0..positions * pairs).flat_map(of).collect()
}
