//! How fast this machine reads memory: all threads walk through more bytes than any cache holds.

use std::time::{Duration, Instant};

use super::pool::Pool;
use crate::compute::ReadRate;
use crate::error::{Error, Result};
use crate::machine;

/// Larger than the last caches of all but a few servers.
const LARGEST: usize = 512 << 20;
/// Below this a cache may answer in the memory's place.
const SMALLEST: usize = 64 << 20;
/// What a thread takes at a time.
const PIECE: usize = 4 << 20;
/// Passes over everything, at least.
const PASSES: usize = 5;
/// And at least for so long.
const TIME: Duration = Duration::from_millis(500);

/// `None` where so little memory is free that a cache would be measured.
pub(super) fn read_rate(pool: &Pool) -> Result<Option<ReadRate>> {
    let free = machine::memory().map_or(usize::MAX, |m| usize::try_from(m.available).unwrap_or(usize::MAX));
    let size = LARGEST.min(free / 8) / PIECE * PIECE;
    if size < SMALLEST {
        return Ok(None);
    }
    let mut values: Vec<f32> = Vec::new();
    values.try_reserve_exact(size / 4).map_err(|_| Error::new(format!("cannot take {size} bytes of memory")))?;
    values.resize(size / 4, 0.0);
    // Every page is written by who will read it, as far as threads stay where they are.
    pool.split(&mut values, PIECE / 4, |number, piece| piece.fill(number as f32));
    let bytes: &[u8] = bytemuck::cast_slice(&values);

    let begun = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < PASSES || begun.elapsed() < TIME {
        let start = Instant::now();
        pool.run(size / PIECE, &|piece| read(&bytes[piece * PIECE..][..PIECE]));
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| size as f64 / seconds;
    Ok(Some(ReadRate { best: rate(seconds[0]), median: rate(seconds[seconds.len() / 2]) }))
}

/// Reads every byte and does next to nothing with it.
fn read(bytes: &[u8]) {
    let mut sums = [0_u64; 16];
    for line in bytes.as_chunks::<128>().0 {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum ^= u64::from_le_bytes(*word);
        }
    }
    std::hint::black_box(sums);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_a_memory_can_have() {
        let rate = read_rate(&Pool::new(2).unwrap()).unwrap().unwrap();
        assert!(rate.median <= rate.best, "{rate:?}");
        assert!((1e7..1e14).contains(&rate.median), "{rate:?}");
    }
}
