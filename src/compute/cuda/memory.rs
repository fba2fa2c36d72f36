//! Device memory: taken once, kept for the next who needs as much, and accounted for before it is taken.
//!
//! All work of a pool goes through one stream, so a block may be handed on while the GPU still reads it: what is put into
//! it comes later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::device::Device;
use super::driver::Address;
use crate::error::{Error, Result};

/// What the driver and the display keep free.
const MARGIN: usize = 128 << 20;

/// Memory of one device that comes and goes.
pub struct Pool {
    device: Arc<Device>,
    free: Mutex<BTreeMap<usize, Vec<Address>>>,
}

/// A piece of device memory; it goes back to its pool when dropped.
pub struct Block {
    at: Address,
    size: usize,
    pool: Arc<Pool>,
}

impl Pool {
    /// An empty pool.
    pub fn new(device: Arc<Device>) -> Arc<Self> {
        Arc::new(Self { device, free: Mutex::default() })
    }

    /// At least `bytes`, with any content.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Block> {
        let size = rounded(bytes);
        if let Some(at) = self.reuse(size) {
            return Ok(Block { at, size, pool: self.clone() });
        }
        let (free, _) = self.device.memory()?;
        if size + MARGIN > free {
            self.clear();
        }
        let (free, total) = self.device.memory()?;
        let taken = if size + MARGIN > free { None } else { self.device.take(size)? };
        let at = taken.ok_or_else(|| {
            let mib = |bytes: usize| bytes.div_ceil(1 << 20);
            let (needed, free, total) = (mib(size), mib(free), mib(total));
            Error::new(format!(
                "the GPU's memory does not suffice: {needed} MiB more are needed, {free} of {total} MiB are free"
            ))
            .hint("use a smaller `--batch-size`, end other programs on the GPU, or compute with `--device cpu`")
        })?;
        Ok(Block { at, size, pool: self.clone() })
    }

    fn reuse(&self, size: usize) -> Option<Address> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&size)?.pop()
    }

    /// Gives everything unused back to the device.
    fn clear(&self) {
        let free = std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner));
        for at in free.into_values().flatten() {
            // SAFETY: it came from the device, and nobody holds it. The driver waits for the GPU before it takes it away.
            unsafe { self.device.give(at) };
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Small sizes to 256 bytes, large ones to an eighth of their power of two: few different sizes, little waste.
fn rounded(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 16).max(256);
    bytes.max(1).next_multiple_of(step)
}

impl Block {
    /// Where it begins, aligned to 256 bytes.
    pub fn at(&self) -> Address {
        self.at
    }

    /// How many bytes it holds.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.entry(self.size).or_default().push(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn sizes_are_rounded_up_by_an_eighth_at_most() {
        for bytes in [0usize, 1, 255, 256, 257, 5000, 65_536, 65_537, 1_000_000, 123_456_789] {
            let size = rounded(bytes);
            assert!(size >= bytes && size.is_multiple_of(256), "{bytes}: {size}");
            assert!(size <= bytes + (bytes / 8).max(256), "{bytes}: {size}");
            assert_eq!(rounded(size), size);
        }
    }
}
