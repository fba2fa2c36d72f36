//! An order of work on a device: kernels and copies, one after the other.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;

use super::device::Device;
use super::driver::{Address, Handle, LaunchAttribute, LaunchConfig};
use crate::error::Result;

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
const WITHOUT_TIME: u32 = 2;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`
const OF_THIS_THREAD: i32 = 1;
/// Bytes of each of the two staging buffers.
const STAGE: usize = 16 << 20;

/// A stream with what it needs to bring much data to the device.
pub struct Stream {
    device: Arc<Device>,
    handle: Handle,
    staging: Mutex<Option<Staging>>,
}

// SAFETY: a stream may be used from any thread in whose context it was made, which every use here makes current.
unsafe impl Send for Stream {}
// SAFETY: the driver's functions may be called from several threads at once.
unsafe impl Sync for Stream {}

/// A number or an address that a kernel takes.
///
/// # Safety
/// Its bytes are those of a parameter type of a kernel.
pub unsafe trait Argument {
    /// Where its bytes are.
    fn address(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}
// SAFETY: `unsigned int`
unsafe impl Argument for u32 {}
// SAFETY: `unsigned long long`, or a pointer
unsafe impl Argument for u64 {}
// SAFETY: `float`
unsafe impl Argument for f32 {}

/// How many threads a kernel gets, and how much memory they share.
#[derive(Clone, Copy)]
pub struct Grid {
    /// Blocks in x and y.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Whether blocks wait for others.
    pub order: Order,
}

/// How the blocks of a launch relate to others.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    /// They do not wait; the launch before has ended when they begin.
    Usual,
    /// All of them run at once, since they wait for each other.
    Together,
    /// They may begin before the launch before has ended, and wait for it themselves.
    Early,
}

impl Grid {
    /// Without dynamic shared memory.
    pub fn new(blocks: (u32, u32), threads: u32) -> Self {
        Self { blocks, threads, shared: 0, order: Order::Usual }
    }
}

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const MOST_SHARED: i32 = 8;
/// Bytes of shared memory that need no permission.
const USUAL_SHARED: u32 = 48 << 10;

impl Stream {
    /// A new one.
    pub fn new(device: Arc<Device>) -> Result<Self> {
        device.enter()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a variable of ours.
        let code = unsafe { (device.driver().cuStreamCreate)(&raw mut handle, NON_BLOCKING) };
        device.check(code, "order work")?;
        Ok(Self { device, handle, staging: Mutex::default() })
    }

    /// Starts a kernel; nothing happens for an empty grid.
    ///
    /// # Safety
    /// `function` belongs to the device, and the arguments are those it takes: as many, of its types, with addresses of
    /// device memory that holds what it reads and writes until it has run.
    pub unsafe fn launch(&self, function: Handle, grid: Grid, arguments: &[&dyn Argument]) -> Result<()> {
        let Grid { blocks: (x, y), threads, shared, order } = grid;
        if x == 0 || y == 0 {
            return Ok(());
        }
        self.device.enter()?;
        let driver = self.device.driver();
        if shared > USUAL_SHARED {
            // SAFETY: the caller's promise that it is a function.
            let code = unsafe { (driver.cuFuncSetAttribute)(function, MOST_SHARED, shared as i32) };
            self.device.check(code, "give a kernel the shared memory it needs")?;
        }
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(|a| a.address()).collect();
        let (pointers, none) = (pointers.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the caller's promise; the driver copies the arguments before it returns.
        let code = unsafe {
            match order {
                Order::Usual => {
                    (driver.cuLaunchKernel)(function, x, y, 1, threads, 1, 1, shared, self.handle, pointers, none)
                }
                Order::Together => {
                    (driver.cuLaunchCooperativeKernel)(function, x, y, 1, threads, 1, 1, shared, self.handle, pointers)
                }
                Order::Early => {
                    let early = LaunchAttribute::early();
                    let config = LaunchConfig {
                        shape: [x, y, 1, threads, 1, 1, shared],
                        stream: self.handle,
                        attributes: &raw const early,
                        count: 1,
                    };
                    (driver.cuLaunchKernelEx)(&raw const config, function, pointers, none)
                }
            }
        };
        self.device.check(code, "start a kernel")
    }

    /// Copies a few values to the device. They may change as soon as this returns.
    ///
    /// # Safety
    /// There is room for them at `to`.
    pub unsafe fn put<T: Pod>(&self, values: &[T], to: Address) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if bytes.is_empty() {
            return Ok(());
        }
        self.device.enter()?;
        // SAFETY: the caller's promise; pageable memory is copied before the driver returns.
        let code =
            unsafe { (self.device.driver().cuMemcpyHtoDAsync_v2)(to, bytes.as_ptr().cast(), bytes.len(), self.handle) };
        self.device.check(code, "take data")
    }

    /// Copies much to the device, through pinned memory, so that reading a file and copying go on together.
    ///
    /// # Safety
    /// There is room at `to`.
    pub unsafe fn upload(&self, bytes: &[u8], to: Address) -> Result<()> {
        if bytes.len() < STAGE / 16 {
            // SAFETY: the caller's promise.
            return unsafe { self.put(bytes, to) };
        }
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(Staging::new(self.device.clone())?),
        };
        for (i, part) in bytes.chunks(STAGE).enumerate() {
            // SAFETY: the caller's promise, part by part.
            unsafe { staging.send(self.handle, part, to + (i * STAGE) as Address)? };
        }
        Ok(())
    }

    /// Copies values from the device, when all work before has been done.
    ///
    /// # Safety
    /// There are as many at `from`.
    pub unsafe fn get<T: Pod>(&self, from: Address, values: &mut [T]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        if bytes.is_empty() {
            return Ok(());
        }
        self.device.enter()?;
        // SAFETY: the caller's promise; the copy is over when `wait` returns.
        let code = unsafe {
            (self.device.driver().cuMemcpyDtoHAsync_v2)(bytes.as_mut_ptr().cast(), from, bytes.len(), self.handle)
        };
        let begun = self.device.check(code, "give data");
        // Even where the copy was refused: nothing may be under way into the slice.
        self.wait().and(begun)
    }

    /// Fills with zeros.
    ///
    /// # Safety
    /// There are `bytes` bytes at `to`.
    pub unsafe fn zero(&self, to: Address, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.device.driver().cuMemsetD8Async)(to, 0, bytes, self.handle) };
        self.device.check(code, "clear data")
    }

    /// Records the launches of `work` instead of doing them.
    pub fn record(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        self.device.enter()?;
        let driver = self.device.driver();
        // SAFETY: the stream lives as long as self.
        let code = unsafe { (driver.cuStreamBeginCapture_v2)(self.handle, OF_THIS_THREAD) };
        self.device.check(code, "record work")?;
        let worked = work();
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is being recorded, whatever became of the work; the pointer is to a variable of ours.
        let code = unsafe { (driver.cuStreamEndCapture)(self.handle, &raw mut graph) };
        worked.and_then(|()| self.device.check(code, "record work"))?;
        // SAFETY: the graph was just recorded; what is made from it does not need it.
        let code = unsafe {
            let code = (driver.cuGraphInstantiateWithFlags)(&raw mut exec, graph, 0);
            (driver.cuGraphDestroy)(graph);
            code
        };
        self.device.check(code, "prepare recorded work")?;
        Ok(Graph { device: self.device.clone(), exec })
    }

    /// Does what was recorded.
    ///
    /// # Safety
    /// What the recorded launches were promised still holds.
    pub unsafe fn replay(&self, graph: &Graph) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (self.device.driver().cuGraphLaunch)(graph.exec, self.handle) };
        self.device.check(code, "start recorded work")
    }

    /// Waits until all work is done.
    pub fn wait(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the stream lives as long as self.
        let code = unsafe { (self.device.driver().cuStreamSynchronize)(self.handle) };
        self.device.check(code, "finish its work")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What is under way may still read memory that is given back next.
        let _ = self.wait();
        // SAFETY: made by `new`, not used again.
        unsafe { (self.device.driver().cuStreamDestroy_v2)(self.handle) };
    }
}

/// Launches that were recorded.
pub struct Graph {
    device: Arc<Device>,
    exec: Handle,
}

// SAFETY: a name of the driver, valid in any thread in whose context it was made.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: made by `record`; the driver keeps what is under way.
            unsafe { (self.device.driver().cuGraphExecDestroy)(self.exec) };
        }
    }
}

/// Two pinned buffers in turn.
struct Staging {
    device: Arc<Device>,
    turns: [Turn; 2],
    next: usize,
}

/// A buffer, and the event after which it may be filled again.
struct Turn {
    buffer: *mut c_void,
    sent: Handle,
}

// SAFETY: plain memory and events, used under the stream's lock.
unsafe impl Send for Staging {}

impl Staging {
    fn new(device: Arc<Device>) -> Result<Self> {
        device.enter()?;
        let empty = || Turn { buffer: std::ptr::null_mut(), sent: std::ptr::null_mut() };
        let mut staging = Self { device, turns: [empty(), empty()], next: 0 };
        let driver = staging.device.driver();
        for turn in &mut staging.turns {
            // SAFETY: the pointers are to variables of ours.
            unsafe {
                let code = (driver.cuMemHostAlloc)(&raw mut turn.buffer, STAGE, 0);
                driver.check(code, "pin memory of the machine")?;
                driver.check((driver.cuEventCreate)(&raw mut turn.sent, WITHOUT_TIME), "mark time")?;
            }
        }
        Ok(staging)
    }

    /// # Safety
    /// There is room at `to`; `bytes` are at most [`STAGE`].
    unsafe fn send(&mut self, stream: Handle, bytes: &[u8], to: Address) -> Result<()> {
        self.device.enter()?;
        let driver = self.device.driver();
        let Turn { buffer, sent } = self.turns[self.next];
        self.next = 1 - self.next;
        // SAFETY: the buffer has STAGE bytes, and nobody reads it once its event has passed; the rest is the caller's
        // promise.
        unsafe {
            self.device.check((driver.cuEventSynchronize)(sent), "finish a copy")?;
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>(), bytes.len());
            self.device.check((driver.cuMemcpyHtoDAsync_v2)(to, buffer, bytes.len(), stream), "take data")?;
            self.device.check((driver.cuEventRecord)(sent, stream), "mark time")
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let driver = self.device.driver();
        if self.device.enter().is_err() {
            return;
        }
        for turn in &self.turns {
            // SAFETY: both were made by `new` or are null; copies from the buffer are over after its event.
            unsafe {
                if !turn.sent.is_null() {
                    (driver.cuEventSynchronize)(turn.sent);
                    (driver.cuEventDestroy_v2)(turn.sent);
                }
                if !turn.buffer.is_null() {
                    (driver.cuMemFreeHost)(turn.buffer);
                }
            }
        }
    }
}
