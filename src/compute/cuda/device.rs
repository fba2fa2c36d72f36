//! One GPU: found, judged, and its context.

use std::ffi::CStr;
use std::sync::Arc;

use super::driver::{Address, Driver, Handle, OUT_OF_MEMORY};
use crate::error::{Error, Result};

/// What the driver says of a GPU.
#[derive(Clone, Debug)]
pub struct Facts {
    /// As the driver calls it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// How many streaming multiprocessors it has.
    pub multiprocessors: u32,
    /// Its memory is the machine's.
    pub integrated: bool,
    /// Bytes of shared memory that a block can have.
    pub shared_memory: u32,
}

/// A GPU in use. Its context is the process's primary one.
pub struct Device {
    driver: &'static Driver,
    handle: i32,
    facts: Facts,
    context: Handle,
}

// SAFETY: a context may be used from any thread that makes it current, which every use here does.
unsafe impl Send for Device {}
// SAFETY: the driver's functions may be called from several threads at once.
unsafe impl Sync for Device {}

/// Numbers of `CUdevice_attribute`.
const MULTIPROCESSORS: i32 = 16;
const INTEGRATED: i32 = 18;
const CAPABILITY: [i32; 2] = [75, 76];
const SHARED_MEMORY: i32 = 97;

impl Facts {
    /// Name and architecture.
    pub fn describe(&self) -> String {
        let (major, minor) = self.capability;
        format!("{}, sm_{major}{minor}", self.name)
    }
}

impl Device {
    /// How many GPUs the driver shows this process.
    ///
    /// # Errors
    /// Why there are none.
    pub fn count() -> Result<usize> {
        let driver = Driver::get()?;
        let mut count = 0;
        // SAFETY: the pointer is to a variable of ours.
        driver.check(unsafe { (driver.cuDeviceGetCount)(&raw mut count) }, "be counted")?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The GPU with this number, without using it.
    ///
    /// # Errors
    /// No driver, no such GPU, or one that is too old.
    pub fn look(ordinal: usize) -> Result<Facts> {
        Self::find(ordinal).map(|(_, facts)| facts)
    }

    fn find(ordinal: usize) -> Result<(i32, Facts)> {
        let driver = Driver::get()?;
        let count = Self::count()?;
        let index = i32::try_from(ordinal).ok().filter(|_| ordinal < count).ok_or_else(|| {
            let there = if count == 1 { "is 1".into() } else { format!("are {count}") };
            Error::new(format!("there is no GPU {ordinal}: there {there}, counted from 0"))
                .hint("`CUDA_VISIBLE_DEVICES` may hide others; `--device cpu` works without a GPU")
        })?;
        let mut device = 0;
        // SAFETY: the pointer is to a variable of ours.
        driver.check(unsafe { (driver.cuDeviceGet)(&raw mut device, index) }, "be opened")?;
        let mut name = [0; 256];
        // SAFETY: the buffer has the length given.
        driver.check(unsafe { (driver.cuDeviceGetName)(name.as_mut_ptr(), 256, device) }, "say its name")?;
        // SAFETY: the driver ends the name with a zero within the buffer.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let attribute = |number: i32| {
            let mut value = 0;
            // SAFETY: the pointer is to a variable of ours.
            let code = unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, number, device) };
            driver.check(code, "describe itself").map(|()| value)
        };
        let capability = (attribute(CAPABILITY[0])?, attribute(CAPABILITY[1])?);
        if capability.0 < 8 {
            let (major, minor) = capability;
            return Err(Error::new(format!(
                "GPU {ordinal} (`{name}`) has compute capability {major}.{minor}; 8.0 is needed"
            ))
            .hint("take an Ampere GPU or newer, or compute with `--device cpu`"));
        }
        let (multiprocessors, integrated) = (attribute(MULTIPROCESSORS)? as u32, attribute(INTEGRATED)? != 0);
        let shared_memory = attribute(SHARED_MEMORY)? as u32;
        Ok((device, Facts { name, capability, multiprocessors, integrated, shared_memory }))
    }

    /// The GPU with this number, ready to use.
    ///
    /// # Errors
    /// As [`Device::look`], or one that cannot be used.
    pub fn open(ordinal: usize) -> Result<Arc<Self>> {
        let driver = Driver::get()?;
        let (handle, facts) = Self::find(ordinal)?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is to a variable of ours; the context is released when the device is dropped.
        let code = unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut context, handle) };
        driver.check(code, "be used").map_err(|e| e.at(format!("GPU {ordinal} (`{}`)", facts.name)).hint(HINT))?;
        let device = Self { driver, handle, facts, context };
        device.enter()?;
        Ok(Arc::new(device))
    }

    /// The driver.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// What it is.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Makes the context the calling thread's.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the device.
        self.check(unsafe { (self.driver.cuCtxSetCurrent)(self.context) }, "be used from this thread")
    }

    /// An error unless `code` is success.
    pub fn check(&self, code: i32, doing: &str) -> Result<()> {
        if code == 0 { Ok(()) } else { self.driver.check(code, doing).map_err(|e| e.hint(HINT)) }
    }

    /// Bytes that can still be taken, and all there are. Where the GPU shares the machine's memory, what the system would
    /// give counts, not what lies unused: most of the rest is its file cache.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are to variables of ours.
        let code = unsafe { (self.driver.cuMemGetInfo_v2)(&raw mut free, &raw mut total) };
        self.check(code, "say how much memory it has")?;
        if self.facts.integrated {
            free = available().unwrap_or(free).min(total);
        }
        Ok((free, total))
    }

    /// New device memory, or `None` where there is not enough.
    pub fn take(&self, bytes: usize) -> Result<Option<Address>> {
        self.enter()?;
        let mut at = 0;
        // SAFETY: the pointer is to a variable of ours.
        match unsafe { (self.driver.cuMemAlloc_v2)(&raw mut at, bytes) } {
            OUT_OF_MEMORY => Ok(None),
            code => self.check(code, "give memory").map(|()| Some(at)),
        }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// It came from [`Device::take`] and is not used again.
    pub unsafe fn give(&self, at: Address) {
        if self.enter().is_ok() {
            // SAFETY: the caller's promise. A failure here would say that the device is lost, which the next call says.
            unsafe { (self.driver.cuMemFree_v2)(at) };
        }
    }
}

const HINT: &str = "if it happens again, `rtts doctor` shows what to report; `--device cpu` works without the GPU";

/// Bytes the system would give, from /proc/meminfo.
fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok().map(|kibibytes| kibibytes * 1024)
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained once when the device was opened.
        unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.handle) };
    }
}
