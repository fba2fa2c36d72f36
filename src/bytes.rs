//! A shared, immutable run of bytes: part of a mapped file, of the program itself, or owned.
//!
//! Weights are handed around as `Bytes`, so a checkpoint is never copied before a backend wants it in another order.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;

/// A cheap-to-clone slice of immutable bytes. No alignment is promised.
#[derive(Clone)]
pub struct Bytes {
    store: Store,
    range: Range<usize>,
}

#[derive(Clone)]
enum Store {
    Mapped(Arc<Mmap>),
    Static(&'static [u8]),
    Owned(Arc<[u8]>),
}

impl Bytes {
    /// A whole mapped file.
    pub fn mapped(map: Arc<Mmap>) -> Self {
        let range = 0..map.len();
        Self { store: Store::Mapped(map), range }
    }

    /// The part `range` of these bytes, or `None` where it does not fit.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let start = self.range.start + range.start;
        let end = self.range.start + range.end;
        Some(Self { store: self.store.clone(), range: start..end })
    }
}

impl From<&'static [u8]> for Bytes {
    fn from(bytes: &'static [u8]) -> Self {
        Self { store: Store::Static(bytes), range: 0..bytes.len() }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { store: Store::Owned(bytes.into()), range }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.store {
            Store::Mapped(map) => map,
            Store::Static(bytes) => bytes,
            Store::Owned(bytes) => bytes,
        };
        &whole[self.range.clone()]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}
