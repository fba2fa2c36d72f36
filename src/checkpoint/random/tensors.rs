//! Random tensors, laid out as a safetensors file in memory that the system, not the heap, provides.
//!
//! Weights are made eight bytes at a time by masking random words into the wanted format, all threads together: some
//! gigabytes take a second or two.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use memmap2::MmapMut;
use safetensors::Dtype;
use serde_json::{Map, Value, json};

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// Bytes that one thread fills at a time.
const PIECE: usize = 8 << 20;

/// A tensor to be made.
pub struct Wanted {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub fill: Fill,
    /// Changes the part that begins at a byte after it was filled.
    pub touch: Option<Touch>,
}

/// A change of a part of a tensor: the byte it begins at, and its bytes.
pub type Touch = fn(usize, &mut [u8]);

/// What a tensor holds.
#[derive(Clone, Copy)]
pub enum Fill {
    /// Weights: numbers of either sign, from 2⁻⁷ to 2⁻⁵ in size, in the tensor's float type.
    Weights,
    /// Two E2M1 codes a byte, all of them.
    Codes,
    /// Block scales in E4M3, from 0.5 to 0.94.
    Scales,
    /// One number everywhere.
    All(f32),
    /// The first number in the first row, the second in the others.
    FirstRow(f32, f32),
    /// These integers (I32).
    Integers(&'static [i32]),
}

impl Wanted {
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: &[usize], fill: Fill) -> Self {
        Self { name: name.into(), dtype, shape: shape.to_vec(), fill, touch: None }
    }

    /// Of [`Fill::Weights`].
    pub fn weights(name: impl Into<String>, dtype: Dtype, shape: &[usize]) -> Self {
        Self::new(name, dtype, shape, Fill::Weights)
    }

    /// With a change after filling.
    #[must_use]
    pub fn touched(self, touch: Touch) -> Self {
        Self { touch: Some(touch), ..self }
    }

    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bitsize() / 8
    }

    /// Fills the part of the tensor that begins at byte `from`, which is a multiple of [`PIECE`].
    pub fn fill(&self, from: usize, seed: u64, out: &mut [u8]) {
        match (self.fill, self.dtype) {
            (Fill::Weights, Dtype::F32) => random(seed, 0x80ff_ffff_80ff_ffff, 0x3c00_0000_3c00_0000, out),
            (Fill::Weights, _) => random(seed, 0x80ff_80ff_80ff_80ff, 0x3c00_3c00_3c00_3c00, out),
            (Fill::Codes, _) => random(seed, u64::MAX, 0, out),
            (Fill::Scales, _) => random(seed, 0x0707_0707_0707_0707, 0x3030_3030_3030_3030, out),
            (Fill::All(value), _) => self.numbers(from, out, |_| value),
            (Fill::FirstRow(first, others), _) => {
                let row = self.shape.iter().skip(1).product::<usize>();
                self.numbers(from, out, |i| if i < row { first } else { others });
            }
            (Fill::Integers(values), _) => {
                out.chunks_exact_mut(4).zip(values).for_each(|(out, value)| out.copy_from_slice(&value.to_le_bytes()));
            }
        }
        if let Some(touch) = self.touch {
            touch(from, out);
        }
    }

    fn numbers(&self, from: usize, out: &mut [u8], value: impl Fn(usize) -> f32) {
        let size = self.dtype.bitsize() / 8;
        for (i, out) in out.chunks_exact_mut(size).enumerate() {
            let value = value(from / size + i);
            match self.dtype {
                Dtype::F32 => out.copy_from_slice(&value.to_le_bytes()),
                _ => out.copy_from_slice(&half::bf16::from_f32(value).to_le_bytes()),
            }
        }
    }
}

/// Random words, of which the bits outside `random` are those of `fixed`.
fn random(seed: u64, random: u64, fixed: u64, out: &mut [u8]) {
    // xorshift64; the multiplication keeps neighbouring seeds apart, and the state must not be zero.
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for out in out.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = (state & random | fixed).to_le_bytes();
        out.copy_from_slice(&word[..out.len()]);
    }
}

/// A safetensors file of these tensors.
///
/// # Errors
/// The system gives no memory.
pub fn file(tensors: &[Wanted], seed: u64) -> Result<Bytes> {
    lay_out(tensors, |pieces| fill(pieces, seed))
}

/// A part of a tensor: which, from which byte on, and the place for its bytes.
pub type Piece<'a> = (&'a Wanted, usize, &'a mut [u8]);

/// A safetensors file whose tensors hold what `fill` puts into their pieces, else zeros.
pub fn lay_out(tensors: &[Wanted], fill: impl FnOnce(Vec<Piece<'_>>)) -> Result<Bytes> {
    let (mut entries, mut end) = (Map::new(), 0);
    for wanted in tensors {
        let from = end;
        end += wanted.bytes();
        let dtype = format!("{:?}", wanted.dtype);
        entries
            .insert(wanted.name.clone(), json!({"dtype": dtype, "shape": wanted.shape, "data_offsets": [from, end]}));
    }
    let mut header = Value::Object(entries).to_string();
    header.push_str(&" ".repeat((8 - header.len() % 8) % 8));
    let size = 8 + header.len() + end;
    let mut map = MmapMut::map_anon(size)
        .map_err(|cause| Error::new(format!("cannot take {size} bytes of memory for random weights: {cause}")))?;
    let (head, mut rest) = map.split_at_mut(8 + header.len());
    head[..8].copy_from_slice(&(header.len() as u64).to_le_bytes());
    head[8..].copy_from_slice(header.as_bytes());

    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for wanted in tensors {
        let (own, after) = rest.split_at_mut(wanted.bytes());
        pieces.extend(own.chunks_mut(PIECE).enumerate().map(|(i, piece)| (wanted, i * PIECE, piece)));
        rest = after;
    }
    fill(pieces);
    let map = map
        .make_read_only()
        .map_err(|cause| Error::new(format!("cannot protect the memory of random weights: {cause}")))?;
    Ok(Bytes::mapped(Arc::new(map)))
}

/// Fills the pieces on all cores; each has a seed of its own, so the numbers do not depend on who fills it.
fn fill(pieces: Vec<Piece<'_>>, seed: u64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let pieces: Vec<_> = pieces.into_iter().map(|piece| Mutex::new(Some(piece))).collect();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(number) else { return };
            if let Some((wanted, from, out)) = piece.lock().ok().and_then(|mut piece| piece.take()) {
                wanted.fill(from, seed << 32 | number as u64, out);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where no thread can be had, the others do its share.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}
