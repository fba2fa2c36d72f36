//! Threads for one operation at a time.
//!
//! A decoding step is some fifty operations of a few microseconds each, so waking threads through the kernel for every one
//! would cost more than it brings. The helpers therefore look for work for a moment before they sleep, and the caller never
//! waits for one that has not begun: tasks are taken from a counter by whoever comes, the caller included.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// Set in [`Shared::gate`] while helpers may join; the rest of the word counts those inside.
const OPEN: usize = 1 << (usize::BITS - 1);
/// Looks for work before yielding, about 20 µs.
const SPINS: usize = 500;
/// Yields before sleeping, some tens of µs.
const YIELDS: usize = 100;

/// Helper threads, and the caller as one of them.
pub struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// Held by the caller whose operation the helpers work on.
    busy: Mutex<()>,
}

struct Shared {
    job: AtomicPtr<Job<'static>>,
    gate: AtomicUsize,
    /// Counts jobs; a helper that sees a new number looks at the gate.
    epoch: AtomicUsize,
    asleep: AtomicUsize,
    bed: Mutex<()>,
    alarm: Condvar,
    closing: AtomicBool,
}

struct Job<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    tasks: usize,
    next: AtomicUsize,
    fault: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job<'_> {
    fn work(&self) {
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= self.tasks {
                return;
            }
            (self.body)(task);
        }
    }
}

impl Pool {
    /// `threads` in all, the caller included.
    pub fn new(threads: usize) -> Result<Self> {
        let shared = Arc::new(Shared {
            job: AtomicPtr::new(std::ptr::null_mut()),
            gate: AtomicUsize::new(0),
            epoch: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            bed: Mutex::new(()),
            alarm: Condvar::new(),
            closing: AtomicBool::new(false),
        });
        let mut pool = Self { shared, helpers: Vec::new(), busy: Mutex::new(()) };
        for number in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let helper =
                std::thread::Builder::new().name(format!("rtts-cpu-{number}")).spawn(move || shared.help()).map_err(
                    |cause| Error::new(format!("cannot start {threads} threads: {cause}")).hint("use fewer threads"),
                )?;
            pool.helpers.push(helper);
        }
        Ok(pool)
    }

    /// How many threads work, the caller included.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `body` with 0..tasks, each once, in any order and on any thread; returns when all are done.
    pub fn run(&self, tasks: usize, body: &(dyn Fn(usize) + Sync)) {
        let free = if tasks < 2 || self.helpers.is_empty() {
            None
        } else {
            match self.busy.try_lock() {
                Ok(lock) => Some(lock),
                Err(TryLockError::Poisoned(lock)) => Some(lock.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        };
        // Too little to share, or another caller has the helpers.
        let Some(_lock) = free else {
            (0..tasks).for_each(body);
            return;
        };
        let job = Job { body, tasks, next: AtomicUsize::new(0), fault: Mutex::new(None) };
        let shared = &*self.shared;
        shared.job.store((&raw const job).cast_mut().cast(), Ordering::Relaxed);
        shared.gate.store(OPEN, Ordering::Release);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        if shared.asleep.load(Ordering::SeqCst) > 0 {
            let _bed = shared.bed.lock().unwrap_or_else(PoisonError::into_inner);
            shared.alarm.notify_all();
        }
        // Closes the gate and waits even when `body` panics here: the job lives on this stack.
        let closer = Closer(shared);
        job.work();
        drop(closer);
        let fault = job.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(fault) = fault {
            std::panic::resume_unwind(fault);
        }
    }

    /// Splits `values` into pieces of `size` (the last may be shorter) and calls `body` with each piece and its number.
    pub fn split(&self, values: &mut [f32], size: usize, body: impl Fn(usize, &mut [f32]) + Sync) {
        let len = values.len();
        let size = size.max(1);
        let all = Shareable(values.as_mut_ptr());
        self.run(len.div_ceil(size), &|piece| {
            let at = piece * size;
            // SAFETY: pieces of different numbers do not overlap and lie within `values`, which is borrowed for the call.
            let part = unsafe { std::slice::from_raw_parts_mut(all.at(at), size.min(len - at)) };
            body(piece, part);
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        drop(self.shared.bed.lock());
        self.shared.alarm.notify_all();
        for helper in self.helpers.drain(..) {
            // A helper catches the panics of what it runs, so there is nothing to learn from its end.
            let _ = helper.join();
        }
    }
}

struct Closer<'a>(&'a Shared);

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_and(!OPEN, Ordering::AcqRel);
        let mut looks = 0;
        while self.0.gate.load(Ordering::Acquire) != 0 {
            pause(&mut looks);
        }
    }
}

impl Shared {
    fn help(&self) {
        let mut seen = 0;
        loop {
            seen = self.wait(seen);
            if self.closing.load(Ordering::SeqCst) {
                return;
            }
            let inside = self
                .gate
                .fetch_update(Ordering::Acquire, Ordering::Relaxed, |gate| (gate & OPEN != 0).then_some(gate + 1));
            if inside.is_err() {
                continue;
            }
            // SAFETY: the gate was open and now counts this thread, so the caller keeps the job until the count is given back.
            let job = unsafe { &*self.job.load(Ordering::Relaxed) };
            if let Err(fault) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.work())) {
                *job.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
            }
            self.gate.fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns when the epoch is no longer `seen`.
    fn wait(&self, seen: usize) -> usize {
        let mut looks = 0;
        while looks < SPINS + YIELDS {
            let epoch = self.epoch.load(Ordering::Acquire);
            if epoch != seen {
                return epoch;
            }
            pause(&mut looks);
        }
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        // Either the caller sees this sleeper and rings, or the sleeper sees the caller's epoch here.
        while self.epoch.load(Ordering::SeqCst) == seen {
            bed = self.alarm.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        self.epoch.load(Ordering::Acquire)
    }
}

fn pause(looks: &mut usize) {
    if *looks < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
    *looks += 1;
}

/// A pointer that several threads write through, each to places of its own.
#[derive(Clone, Copy)]
pub(super) struct Shareable(pub(super) *mut f32);

// SAFETY: whoever writes through it promises that no two threads touch the same place.
unsafe impl Send for Shareable {}
// SAFETY: as above.
unsafe impl Sync for Shareable {}

impl Shareable {
    /// The place `offset` values further on.
    ///
    /// # Safety
    /// It must lie within the allocation.
    #[inline(always)]
    pub(super) unsafe fn at(self, offset: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_exactly_once() {
        for threads in [1, 2, 3, 5] {
            let pool = Pool::new(threads).unwrap();
            for tasks in [0, 1, 2, 3, 17, 100] {
                for _ in 0..50 {
                    let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(tasks, &|task| {
                        counts[task].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1), "{threads} threads, {tasks} tasks");
                }
            }
        }
    }

    #[test]
    fn helpers_wake_after_sleeping() {
        let pool = Pool::new(2).unwrap();
        let caller = std::thread::current().id();
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let helped = AtomicBool::new(false);
            // The caller's task waits for the helper's, so this ends only if the helper comes.
            pool.run(2, &|_| {
                if std::thread::current().id() == caller {
                    while !helped.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                } else {
                    helped.store(true, Ordering::Release);
                }
            });
            assert!(helped.load(Ordering::Acquire));
        }
    }

    #[test]
    fn callers_on_several_threads_do_not_disturb_each_other() {
        let pool = Pool::new(3).unwrap();
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..200 {
                        let mut values = vec![0.0; 97];
                        pool.split(&mut values, 10, |piece, part| part.fill((piece + caller + round) as f32));
                        for (i, v) in values.iter().enumerate() {
                            assert_eq!(*v, (i / 10 + caller + round) as f32);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(2).unwrap();
        for _ in 0..20 {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.run(8, &|task| assert_ne!(task, 5, "meant to fail"));
            }));
            assert!(outcome.is_err());
        }
        let mut values = vec![0.0; 8];
        pool.split(&mut values, 1, |piece, part| part[0] = piece as f32);
        assert_eq!(values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    }
}
