//! The CUDA backend: NVIDIA GPUs from Ampere on, through the driver alone.
//!
//! Nothing of NVIDIA's is needed to build or to start the program: libcuda is opened when a GPU is asked for (`driver`,
//! `device`), and the kernels of `kernels/` are part of the program as text or as code (`sources`, `cubins`, `modules`).
//! Activations are f32 in device memory, linears multiply sums of bfloat16 on the tensor cores and add in f32, and every
//! sum has an order that does not depend on the other rows, so that a batch equals single runs here too.

mod attention;
mod buffer;
mod conv;
mod cubins;
mod device;
mod driver;
mod each;
mod library;
mod linear;
mod memory;
mod modules;
mod nvrtc;
mod pieces;
mod rows;
mod sample;
mod sources;
mod stack;
mod stream;

use std::sync::{Arc, Mutex};

use bytemuck::Pod;

pub use self::attention::KvCache;
pub use self::buffer::Buffer;
pub use self::conv::Carry;
pub use self::cubins::{compile_all, embedded_count, folder as cache_folder};
pub use self::device::{Device, Facts};
pub use self::linear::Linear;
use self::memory::{Block, Pool};
use self::modules::Modules;
pub use self::rows::Table;
pub use self::stack::Stack;
use self::stream::{Argument, Grid, Stream};
use super::stack::{StackLayer, StackSpec};
use super::{Activations, Choice, Compute, Draw, Guidance, KvSpec, Rope, Rows, View};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, PlainMatrix};

/// A GPU with its kernels. What runs is in one order; the fields go in theirs: the stream waits for its work first.
pub struct Cuda {
    stream: Stream,
    /// Of the last calls.
    rows: Mutex<Vec<(Rows, Arc<Block>)>>,
    ropes: Mutex<Vec<(Rope, Arc<Block>)>>,
    modules: Modules,
    pool: Arc<Pool>,
    device: Arc<Device>,
    /// Nothing is rounded that the CPU does not round.
    exact: bool,
}

/// A prepared parameter vector.
pub struct Vector {
    block: Block,
    len: usize,
}

/// The CUDA version that the driver is made for, major and minor.
///
/// # Errors
/// Why there is no driver.
pub fn driver_version() -> Result<(i32, i32)> {
    driver::Driver::get().map(|driver| (driver.version() / 1000, driver.version() % 1000 / 10))
}

/// The version of the compiler that would be used, major and minor.
///
/// # Errors
/// Why there is none.
pub fn compiler_version() -> Result<(i32, i32)> {
    let driver = driver::Driver::get().ok().map(driver::Driver::version);
    nvrtc::Nvrtc::get(driver).map(nvrtc::Nvrtc::version)
}

/// Something the program must not do; not the user's fault.
fn fault(what: String) -> Error {
    Error::new(format!("internal fault: {what}")).hint("please report this")
}

impl Vector {
    fn at(&self) -> u64 {
        self.block.at()
    }

    fn len(&self) -> usize {
        self.len
    }

    /// A value a column.
    fn must_be(&self, cols: usize) -> Result<()> {
        if self.len == cols { Ok(()) } else { Err(fault(format!("{} parameters for {cols} columns", self.len))) }
    }
}

impl Cuda {
    /// The GPU with this number. `note` hears when something takes long.
    ///
    /// # Errors
    /// Why it cannot be used, and the cure.
    pub fn new(ordinal: usize, note: &mut dyn FnMut(&str)) -> Result<Self> {
        let device = Device::open(ordinal)?;
        let modules = Modules::load(&device, note)?;
        Ok(Self {
            stream: Stream::new(device.clone())?,
            rows: Mutex::default(),
            ropes: Mutex::default(),
            modules,
            pool: Pool::new(device.clone()),
            device,
            exact: false,
        })
    }

    /// Rounds nothing that the CPU does not round: inputs of linears count in two bfloat16 parts, keys and values are kept
    /// in f32. Slower, for comparisons.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// The first GPU that works.
    ///
    /// # Errors
    /// Why none does: what is wrong with the first.
    pub fn first(note: &mut dyn FnMut(&str)) -> Result<Self> {
        let mut why = None;
        for ordinal in 0..Device::count()? {
            match Self::new(ordinal, note) {
                Ok(cuda) => return Ok(cuda),
                Err(error) => why.get_or_insert(error),
            };
        }
        Err(why.unwrap_or_else(|| Error::new("the NVIDIA driver shows no GPU")))
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Starts a kernel.
    ///
    /// # Safety
    /// The arguments are those the kernel takes, as [`Stream::launch`] says.
    unsafe fn launch(&self, name: &'static str, grid: Grid, arguments: &[&dyn Argument]) -> Result<()> {
        // SAFETY: the function belongs to the device; the rest is the caller's promise.
        unsafe { self.stream.launch(self.modules.function(name)?, grid, arguments) }
    }

    /// Values on the device.
    fn send<T: Pod>(&self, values: &[T]) -> Result<Block> {
        let block = self.pool.take(size_of_val(values))?;
        // SAFETY: the block was taken for these values.
        unsafe { self.stream.put(values, block.at())? };
        Ok(block)
    }
}

impl Compute for Cuda {
    type Buffer = Buffer;
    type Linear = Linear;
    type Table = Table;
    type Vector = Vector;
    type KvCache = KvCache;
    type Carry = Carry;
    type Stack = Stack;

    fn describe(&self) -> String {
        self.device.facts().describe()
    }

    fn prepare_linear(&self, parts: &[Matrix], bias: Option<&[f32]>, activations: Activations) -> Result<Linear> {
        self.prepare_linear_(parts, bias, activations)
    }

    fn prepare_table(&self, parts: &[PlainMatrix]) -> Result<Table> {
        self.prepare_table_(parts)
    }

    fn prepare_vector(&self, values: &[f32]) -> Result<Vector> {
        Ok(Vector { block: self.send(values)?, len: values.len() })
    }

    fn prepare_stack(&self, spec: &StackSpec, layers: &[StackLayer], activations: Activations) -> Result<Stack> {
        self.prepare_stack_(spec, layers, activations)
    }

    fn buffer(&self) -> Buffer {
        Buffer::default()
    }

    fn kv_cache(&self, spec: &KvSpec) -> Result<KvCache> {
        self.kv_cache_(spec)
    }

    fn carry(&self, slots: usize, rows: usize, cols: usize) -> Result<Carry> {
        self.carry_(slots, rows, cols)
    }

    fn reset_kv(&self, cache: &mut KvCache, slot: usize) -> Result<()> {
        self.reset_kv_(cache, slot);
        Ok(())
    }

    fn reset_carry(&self, carry: &mut Carry, slot: usize) -> Result<()> {
        self.reset_carry_(carry, slot)
    }

    fn embed(&self, table: &Table, ids: &[u32], per_row: usize, out: &mut Buffer) -> Result<()> {
        self.embed_(table, ids, per_row, out)
    }

    fn layer_norm(&self, x: &Buffer, gain: &Vector, bias: Option<&Vector>, eps: f32, out: &mut Buffer) -> Result<()> {
        self.layer_norm_(x, gain, bias, eps, out)
    }

    fn rms_norm(&self, x: &Buffer, gain: &Vector, eps: f32, out: &mut Buffer) -> Result<()> {
        self.rms_norm_(x, gain, eps, out)
    }

    fn linear(&self, w: &Linear, x: View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        self.linear_(w, &x, out)
    }

    fn rope(&self, x: &mut Buffer, at: usize, heads: usize, rope: &Rope, rows: &Rows) -> Result<()> {
        self.rope_(x, at, heads, rope, rows)
    }

    fn attend(
        &self,
        cache: &mut KvCache,
        layer: usize,
        q: View<'_, Buffer>,
        k: View<'_, Buffer>,
        v: View<'_, Buffer>,
        rows: &Rows,
        out: &mut Buffer,
    ) -> Result<()> {
        self.attend_(cache, layer, &q, &k, &v, rows, out)
    }

    fn attend_within(
        &self,
        group: usize,
        kv_heads: usize,
        q: View<'_, Buffer>,
        k: View<'_, Buffer>,
        v: View<'_, Buffer>,
        out: &mut Buffer,
    ) -> Result<()> {
        self.attend_within_(group, kv_heads, &q, &k, &v, out)
    }

    fn run_stack(&self, stack: &mut Stack, cache: &mut KvCache, x: &mut Buffer, rows: &Rows) -> Result<()> {
        self.run_stack_(stack, cache, x, rows)
    }

    fn silu_mul(&self, gate: View<'_, Buffer>, up: View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        self.silu_mul_(&gate, &up, out)
    }

    fn gelu(&self, x: &mut Buffer) -> Result<()> {
        self.in_place("each_gelu", x, &[])
    }

    fn silu(&self, x: &mut Buffer) -> Result<()> {
        self.in_place("each_silu", x, &[])
    }

    fn tanh(&self, x: &mut Buffer) -> Result<()> {
        self.in_place("each_tanh", x, &[])
    }

    fn snake(&self, x: &Buffer, alpha: &Vector, out: &mut Buffer) -> Result<()> {
        self.snake_(x, alpha, out)
    }

    fn affine(&self, x: &mut Buffer, scale: &Vector, shift: &Vector) -> Result<()> {
        self.affine_(x, scale, shift)
    }

    fn finite_scalar(&self, x: &mut Buffer, levels: f32) -> Result<()> {
        self.in_place("finite_scalar", x, &[&levels])
    }

    fn elu(&self, x: &Buffer, out: &mut Buffer) -> Result<()> {
        self.elu_(x, out)
    }

    fn add(&self, x: &mut Buffer, y: &Buffer, scale: Option<&Vector>) -> Result<()> {
        self.add_(x, y, scale)
    }

    fn conv(&self, w: &Linear, carry: &mut Carry, x: &Buffer, rows: &Rows, out: &mut Buffer) -> Result<()> {
        self.conv_(w, carry, x, rows, out)
    }

    fn depthwise(
        &self,
        w: &Vector,
        bias: Option<&Vector>,
        phases: usize,
        dilation: usize,
        carry: &mut Carry,
        x: &Buffer,
        rows: &Rows,
        out: &mut Buffer,
    ) -> Result<()> {
        self.depthwise_(&conv::Depthwise { w, bias, phases, dilation }, carry, x, rows, out)
    }

    fn unfold(&self, x: &mut Buffer, factor: usize) -> Result<()> {
        if factor == 0 || !x.cols().is_multiple_of(factor) {
            return Err(fault(format!("{} columns unfolded by {factor}", x.cols())));
        }
        x.reshape(x.rows() * factor, x.cols() / factor);
        Ok(())
    }

    fn fold(&self, x: &mut Buffer, factor: usize) -> Result<()> {
        if factor == 0 || !x.rows().is_multiple_of(factor) {
            return Err(fault(format!("{} rows folded by {factor}", x.rows())));
        }
        x.reshape(x.rows() / factor, x.cols() * factor);
        Ok(())
    }

    fn blank(&self, rows: usize, cols: usize, out: &mut Buffer) -> Result<()> {
        let at = out.shape(&self.pool, rows, cols)?;
        // SAFETY: the buffer was shaped just now.
        unsafe { self.stream.zero(at, 4 * rows * cols) }
    }

    fn scatter(&self, x: &Buffer, to: &[usize], out: &mut Buffer) -> Result<()> {
        self.scatter_(x, to, out)
    }

    fn join(&self, a: View<'_, Buffer>, b: View<'_, Buffer>, out: &mut Buffer) -> Result<()> {
        self.join_(&a, &b, out)
    }

    fn gather(&self, x: &Buffer, from: &[usize], out: &mut Buffer) -> Result<()> {
        self.gather_(x, from, out)
    }

    fn scale(&self, x: &mut Buffer, factor: f32) -> Result<()> {
        self.in_place("each_scale", x, &[&factor])
    }

    fn sample(&self, logits: &Buffer, choices: &[Choice]) -> Result<Vec<u32>> {
        self.sample_(logits, choices)
    }

    fn noise(&self, draws: &[Draw], rows: usize, cols: usize, out: &mut Buffer) -> Result<()> {
        self.noise_(draws, rows, cols, out)
    }

    fn guided_step(&self, x: &mut Buffer, v: &Buffer, per_draw: usize, steps: &[Guidance]) -> Result<()> {
        self.guided_step_(x, v, per_draw, steps)
    }

    fn read(&self, x: &Buffer) -> Result<Vec<f32>> {
        let mut values = vec![0.0; x.len()];
        // SAFETY: the buffer holds as many values.
        unsafe { self.stream.get(x.at(), &mut values)? };
        Ok(values)
    }

    fn write(&self, values: &[f32], cols: usize, out: &mut Buffer) -> Result<()> {
        if cols == 0 || !values.len().is_multiple_of(cols) {
            return Err(fault(format!("{} values in rows of {cols}", values.len())));
        }
        let at = out.shape(&self.pool, values.len() / cols, cols)?;
        // SAFETY: the buffer was shaped for these values.
        unsafe { self.stream.put(values, at) }
    }
}
