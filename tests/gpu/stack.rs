//! The decoder layers at the shape that has a kernel of its own: as on the CPU, and the same bytes for any number of rows.

use rtts::compute::cpu::Cpu;
use rtts::compute::cuda::Cuda;
use rtts::compute::stack::{StackLayer, StackSpec};
use rtts::compute::{Activations, Compute, KvSpec, Rope, RopePairs, Rows};
use rtts::matrix::Matrix;
use rtts::nvfp4::{GlobalScale, Nvfp4Matrix};

use crate::conformance::support::{Random, rows, same};

const HIDDEN: usize = 2048;
const INNER: usize = 4096;
const SLOTS: usize = 40;

fn spec() -> StackSpec {
    StackSpec {
        hidden: HIDDEN,
        heads: 16,
        kv_heads: 4,
        head_dim: 128,
        inner: INNER,
        eps: 1e-5,
        rope: Rope::plain(50_000.0, 128, RopePairs::Interleaved),
        rotates: vec![true, false, true],
        windows: vec![Some(40), None, Some(100)],
        max_positions: 300,
    }
}

/// Random codes, weights of about 1/50.
fn matrix(random: &mut Random, n: usize, k: usize) -> Matrix {
    let codes: Vec<u8> = (0..n * k / 2).map(|_| random.word() as u8).collect();
    let scales: Vec<u8> = (0..n * k / 16).map(|_| 0x20 + (random.word() % 32) as u8).collect();
    let global = GlobalScale::Multiply(0.005 + random.below(10) as f32 * 0.0005);
    Matrix::Nvfp4(Nvfp4Matrix::checked(n, k, codes.into(), scales.into(), global, None).unwrap())
}

fn layers() -> Vec<StackLayer> {
    let mut random = Random(61);
    (0..3)
        .map(|_| {
            let mut of = |n, k| matrix(&mut random, n, k);
            let (q, k, v, o) = (of(2048, HIDDEN), of(512, HIDDEN), of(512, HIDDEN), of(HIDDEN, 2048));
            let (gate, up, down) = (of(INNER, HIDDEN), of(INNER, HIDDEN), of(HIDDEN, INNER));
            let norm = random.values(HIDDEN).into_iter().map(|v| 1.0 + v / 4.0).collect();
            StackLayer { norm, q, k, v, o, gate, up, down }
        })
        .collect()
}

/// x of a slot at a position.
fn input(slot: usize, position: usize) -> Vec<f32> {
    Random(1000 * slot as u64 + position as u64).values(HIDDEN)
}

/// Prompts of different lengths, some beyond a window.
fn prompt(slot: usize) -> usize {
    [3, 17, 64, 5, 130][slot % 5]
}

struct Run<'a, C: Compute> {
    c: &'a C,
    stack: C::Stack,
    cache: C::KvCache,
}

impl<'a, C: Compute> Run<'a, C> {
    fn new(c: &'a C, layers: &[StackLayer]) -> Self {
        let spec = spec();
        let kv = KvSpec {
            slots: SLOTS,
            kv_heads: 4,
            head_dim: 128,
            windows: spec.windows.clone(),
            max_positions: spec.max_positions,
        };
        let stack = c.prepare_stack(&spec, layers, Activations::Full).unwrap();
        Self { c, stack, cache: c.kv_cache(&kv).unwrap() }
    }

    fn run(&mut self, of: &Rows) -> Vec<f32> {
        let values: Vec<f32> =
            of.segments.iter().flat_map(|s| (s.start..s.start + s.len).flat_map(|p| input(s.slot, p))).collect();
        let mut x = self.c.buffer();
        self.c.write(&values, HIDDEN, &mut x).unwrap();
        self.c.run_stack(&mut self.stack, &mut self.cache, &mut x, of).unwrap();
        self.c.read(&x).unwrap()
    }

    /// Prompts of all slots, then steps of `together` slots at a time; of every slot, its rows in order.
    fn speak(&mut self, slots: &[usize], steps: usize, together: usize) -> Vec<Vec<f32>> {
        let mut said: Vec<Vec<f32>> = Vec::new();
        for slot in slots {
            said.push(self.run(&rows(&[(*slot, 0, prompt(*slot))])));
        }
        for step in 0..steps {
            for (group, own) in slots.chunks(together).zip(said.chunks_mut(together)) {
                let segments: Vec<_> = group.iter().map(|slot| (*slot, prompt(*slot) + step, 1)).collect();
                let out = self.run(&rows(&segments));
                for (said, row) in own.iter_mut().zip(out.chunks_exact(HIDDEN)) {
                    said.extend_from_slice(row);
                }
            }
        }
        said
    }
}

/// The CPU rounds no input of a linear and no key: a percent of the largest value is what bfloat16 costs here.
pub fn is_the_cpus(gpu: &Cuda) {
    let layers = layers();
    let cpu = Cpu::new(None).unwrap();
    let slots = [0, 1, 4];
    let ours = Run::new(gpu, &layers).speak(&slots, 3, 3);
    let theirs = Run::new(&cpu, &layers).speak(&slots, 3, 3);
    for (slot, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours.len(), theirs.len());
        for (row, (a, b)) in ours.chunks(HIDDEN).zip(theirs.chunks(HIDDEN)).enumerate() {
            let size = b.iter().fold(0f32, |m, v| m.max(v.abs()));
            let off = a.iter().zip(b).fold(0f32, |m, (a, b)| m.max((a - b).abs())) / size;
            assert!(off < 1e-2, "slot {slot}, row {row} is off by {off} of {size}");
        }
    }
}

/// Alone, in narrow launches, in wide ones.
pub fn any_company(gpu: &Cuda) {
    let layers = layers();
    let slots: Vec<usize> = (0..SLOTS).rev().collect();
    let mut run = Run::new(gpu, &layers);
    let all = run.speak(&slots, 4, SLOTS);
    for together in [1, 3, 8, 9, 33] {
        for slot in 0..SLOTS {
            gpu.reset_kv(&mut run.cache, slot).unwrap();
        }
        let now = run.speak(&slots, 4, together);
        for (slot, (now, all)) in slots.iter().zip(now.iter().zip(&all)) {
            same(&format!("slot {slot}, {together} rows at a time"), now, all);
        }
    }
}
