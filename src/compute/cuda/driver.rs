//! libcuda's entry points, found at run time and all at once: a driver that lacks one is an error, never a panic.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use libloading::Library;

use super::library;
use crate::error::{Error, Result};

/// A device address.
pub type Address = u64;
/// A context, stream, event, module, function or graph of the driver.
pub type Handle = *mut c_void;

/// `CUlaunchConfig`
#[repr(C)]
pub struct LaunchConfig {
    /// Blocks in x, y and z; threads in x, y and z; bytes of dynamic shared memory.
    pub shape: [u32; 7],
    /// The stream.
    pub stream: Handle,
    /// What is special about the launch.
    pub attributes: *const LaunchAttribute,
    /// How many attributes.
    pub count: u32,
}

/// `CUlaunchAttribute`, with a value that is one number.
#[repr(C, align(8))]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`
    pub id: u32,
    pad: u32,
    /// The value; 64 bytes are there.
    pub value: [u32; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`: the kernel may begin before the one before it has ended.
    pub fn early() -> Self {
        let mut value = [0; 16];
        value[0] = 1;
        Self { id: 6, pad: 0, value }
    }
}

/// Declares a table of functions and how to fill it from a library.
macro_rules! entry_points {
    ($(#[$meta:meta])* $name:ident { $($symbol:ident($($ty:ty),* $(,)?);)* }) => {
        $(#[$meta])*
        #[allow(non_snake_case, missing_docs)]
        pub struct $name {
            $(pub $symbol: unsafe extern "system" fn($($ty),*) -> i32,)*
        }

        impl $name {
            /// The table, or the first function that is missing.
            fn from(library: &'static Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the library's documentation, and the library is never closed.
                unsafe { Ok(Self { $($symbol: *library.get(stringify!($symbol)).map_err(|_| stringify!($symbol))?,)* }) }
            }
        }
    };
}
pub(super) use entry_points;

entry_points! {
    /// The driver, as far as it is used. Signatures: CUDA Driver API reference.
    Driver {
        cuInit(u32);
        cuDriverGetVersion(*mut i32);
        cuGetErrorName(i32, *mut *const c_char);
        cuGetErrorString(i32, *mut *const c_char);
        cuDeviceGetCount(*mut i32);
        cuDeviceGet(*mut i32, i32);
        cuDeviceGetName(*mut c_char, i32, i32);
        cuDeviceGetAttribute(*mut i32, i32, i32);
        cuDevicePrimaryCtxRetain(*mut Handle, i32);
        cuDevicePrimaryCtxRelease_v2(i32);
        cuCtxSetCurrent(Handle);
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemAlloc_v2(*mut Address, usize);
        cuMemFree_v2(Address);
        cuMemHostAlloc(*mut *mut c_void, usize, u32);
        cuMemFreeHost(*mut c_void);
        cuMemcpyHtoDAsync_v2(Address, *const c_void, usize, Handle);
        cuMemcpyDtoHAsync_v2(*mut c_void, Address, usize, Handle);
        cuMemsetD8Async(Address, u8, usize, Handle);
        cuStreamCreate(*mut Handle, u32);
        cuStreamDestroy_v2(Handle);
        cuStreamSynchronize(Handle);
        cuEventCreate(*mut Handle, u32);
        cuEventRecord(Handle, Handle);
        cuEventSynchronize(Handle);
        cuEventDestroy_v2(Handle);
        cuModuleLoadData(*mut Handle, *const c_void);
        cuModuleUnload(Handle);
        cuModuleGetFunction(*mut Handle, Handle, *const c_char);
        cuModuleGetGlobal_v2(*mut Address, *mut usize, Handle, *const c_char);
        cuStreamBeginCapture_v2(Handle, i32);
        cuStreamEndCapture(Handle, *mut Handle);
        cuGraphInstantiateWithFlags(*mut Handle, Handle, u64);
        cuGraphLaunch(Handle, Handle);
        cuGraphDestroy(Handle);
        cuGraphExecDestroy(Handle);
        cuFuncSetAttribute(Handle, i32, i32);
        cuLaunchCooperativeKernel(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void);
        cuLaunchKernelEx(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
        cuLaunchKernel(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`
pub const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NO_DEVICE`
const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_STUB_LIBRARY`
const STUB: i32 = 34;
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`
const MISMATCH: i32 = 803;

/// The oldest driver that knows everything used here, as it numbers itself.
const OLDEST: i32 = 12_000;

impl Driver {
    /// The driver of this machine, ready to use.
    ///
    /// # Errors
    /// Why there is none, and the cure.
    pub fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self> {
        let names: [&str; 2] = if cfg!(windows) { ["nvcuda.dll", "nvcuda"] } else { ["libcuda.so.1", "libcuda.so"] };
        let library = library::open(names.map(Into::into)).map_err(|why| {
            // That the file is not there is no news.
            let why = if why.contains("No such file") { String::new() } else { format!(": {why}") };
            Error::new(format!("there is no NVIDIA driver{why}"))
                .hint("install NVIDIA's driver, or compute with `--device cpu`")
        })?;
        let driver = Self::from(library).map_err(|symbol| {
            Error::new(format!("the NVIDIA driver is too old: it has no `{symbol}`"))
                .hint("install driver 525 or newer, or compute with `--device cpu`")
        })?;
        // SAFETY: the only argument is 0, as documented.
        let code = unsafe { (driver.cuInit)(0) };
        if code != 0 {
            return Err(driver.unready(code));
        }
        let version = driver.version();
        if version < OLDEST {
            let (major, minor) = (version / 1000, version % 1000 / 10);
            return Err(Error::new(format!("the NVIDIA driver is too old: it is made for CUDA {major}.{minor}"))
                .hint("install driver 525 or newer, or compute with `--device cpu`"));
        }
        Ok(driver)
    }

    /// The CUDA version the driver is made for, 1000 * major + 10 * minor.
    pub fn version(&self) -> i32 {
        let mut version = 0;
        // SAFETY: the pointer is to an i32 of ours.
        unsafe { (self.cuDriverGetVersion)(&raw mut version) };
        version
    }

    /// Why the driver does not start.
    fn unready(&self, code: i32) -> Error {
        let cpu = "or compute with `--device cpu`";
        match code {
            NO_DEVICE => match std::env::var("CUDA_VISIBLE_DEVICES") {
                Ok(value) => Error::new(format!("`CUDA_VISIBLE_DEVICES={value}` leaves the NVIDIA driver no GPU"))
                    .hint(format!("unset the variable, {cpu}")),
                Err(_) => Error::new("the NVIDIA driver finds no GPU")
                    .hint(format!("see whether `nvidia-smi` lists one; in a container, give it the GPU, {cpu}")),
            },
            STUB => Error::new("the `libcuda` found first is the toolkit's stub, not the driver")
                .hint(format!("take the stubs folder out of `LD_LIBRARY_PATH`, {cpu}")),
            MISMATCH => Error::new("the NVIDIA driver's library and its kernel module are of different versions")
                .hint(format!("restart the machine after an update, {cpu}")),
            _ => Error::new(format!("the NVIDIA driver does not start: {}", self.reason(code)))
                .hint(format!("see whether `nvidia-smi` works, {cpu}")),
        }
    }

    /// The driver's own words for an error.
    pub fn reason(&self, code: i32) -> String {
        let text = |of: unsafe extern "system" fn(i32, *mut *const c_char) -> i32| {
            let mut text = std::ptr::null();
            // SAFETY: the pointer is to a variable of ours; what comes back is a constant string of the library, or null.
            unsafe {
                if of(code, &raw mut text) == 0 && !text.is_null() {
                    Some(CStr::from_ptr(text).to_string_lossy().into_owned())
                } else {
                    None
                }
            }
        };
        match (text(self.cuGetErrorString), text(self.cuGetErrorName)) {
            (Some(words), Some(name)) => format!("{words} ({name})"),
            (Some(words), None) => words,
            _ => format!("error {code}"),
        }
    }

    /// An error unless `code` is success; `doing` reads like "copy to the GPU".
    pub fn check(&self, code: i32, doing: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(Error::new(format!("the GPU cannot {doing}: {}", self.reason(code))))
    }
}
