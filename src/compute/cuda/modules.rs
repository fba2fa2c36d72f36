//! Kernels loaded onto a device, by name.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, PoisonError, RwLock};

use super::cubins;
use super::device::Device;
use super::driver::Handle;
use super::sources::{SOURCES, targets};
use crate::error::{Error, Result};

/// The loaded modules.
pub struct Modules {
    device: Arc<Device>,
    /// In the order of [`SOURCES`].
    modules: Vec<Handle>,
    functions: RwLock<HashMap<&'static str, Function>>,
}

#[derive(Clone, Copy)]
struct Function(Handle);

// SAFETY: functions and modules are names of the driver, valid in any thread in whose context they were loaded.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}
// SAFETY: as above.
unsafe impl Send for Modules {}
// SAFETY: as above.
unsafe impl Sync for Modules {}

impl Modules {
    /// Loads all kernels, compiled where necessary. `note` hears when something takes long.
    pub fn load(device: &Arc<Device>, note: &mut dyn FnMut(&str)) -> Result<Self> {
        let driver = device.driver();
        let cubins = cubins::obtain(&targets(device.facts().capability), driver.version(), note)?;
        device.enter()?;
        let mut loaded = Self { device: device.clone(), modules: Vec::new(), functions: RwLock::default() };
        for (cubin, source) in cubins.iter().zip(SOURCES) {
            let mut module = std::ptr::null_mut();
            // SAFETY: a whole cubin, which the driver copies.
            let code = unsafe { (driver.cuModuleLoadData)(&raw mut module, cubin.as_ptr().cast()) };
            driver.check(code, &format!("load kernel `{}`", source.name)).map_err(|e| {
                e.hint("the compiler may be newer than the driver: update the driver, or name an older NVRTC with `RTTS_NVRTC`")
            })?;
            loaded.modules.push(module);
        }
        Ok(loaded)
    }

    /// The kernel of this name.
    pub fn function(&self, name: &'static str) -> Result<Handle> {
        if let Some(function) = self.functions.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(function.0);
        }
        self.device.enter()?;
        let symbol = CString::new(name).map_err(|_| Error::new(format!("`{name}` is no name of a kernel")))?;
        for module in &self.modules {
            let mut function = std::ptr::null_mut();
            // SAFETY: the module is loaded, the name is a string.
            let code =
                unsafe { (self.device.driver().cuModuleGetFunction)(&raw mut function, *module, symbol.as_ptr()) };
            if code == 0 {
                let mut functions = self.functions.write().unwrap_or_else(PoisonError::into_inner);
                functions.insert(name, Function(function));
                return Ok(function);
            }
        }
        Err(Error::new(format!("there is no kernel `{name}`")))
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            for module in &self.modules {
                // SAFETY: loaded by `load`; every stream that runs its kernels waits before it goes.
                unsafe { (self.device.driver().cuModuleUnload)(*module) };
            }
        }
    }
}
