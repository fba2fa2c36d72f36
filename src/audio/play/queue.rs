//! Between generator and sound card: a bounded queue of 16-bit samples that counts what the card has taken.
//!
//! The card asks for a block every few milliseconds and always gets one: sound while there is some, else silence.
//! After an underrun sound flows again only when a little has gathered, so that a slow generator makes few long gaps
//! rather than many short ones. Nothing is judged by the clock (some devices swallow any amount at once): the last
//! sample has been heard when as much silence was handed over behind it as the card says it still holds. The clock
//! serves only to notice a card that has stopped asking, and to give late sound a moment before silence is handed over.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};

/// A card that asks for nothing for so long has died.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shared by the generating thread and the one of the sound card.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Most samples held.
    capacity: usize,
    /// So many must have gathered for sound to flow (again).
    enough: usize,
    patience: Duration,
}

#[derive(Debug, Default)]
struct State {
    samples: VecDeque<i16>,
    flowing: bool,
    /// Nothing more will be pushed.
    complete: bool,
    /// All has been heard.
    heard: bool,
    stopped: bool,
    /// Why the card will ask for nothing more.
    dead: Option<String>,
    complaint: Option<String>,
    /// Samples taken by the card.
    taken: u64,
    /// Silent frames handed over since the last sample.
    silence: u64,
    underruns: u64,
    /// How often the card has asked.
    beats: u64,
}

/// What has happened so far.
#[derive(Clone, Debug)]
pub struct Account {
    /// Samples taken by the card.
    pub taken: u64,
    /// How often there was no sound to take.
    pub underruns: u64,
    /// The first complaint of the sound system.
    pub complaint: Option<String>,
}

impl Queue {
    /// An empty queue. `enough` must be less than half of `capacity`.
    pub fn new(capacity: usize, enough: usize) -> Self {
        let (state, changed) = Default::default();
        Self { state, changed, capacity, enough, patience: PATIENCE }
    }

    /// Adds samples, waiting for room where there is none. Until the card asks for the first time, only half the
    /// capacity can be added.
    ///
    /// # Errors
    /// Playing was stopped, or the card died.
    pub fn push(&self, mut samples: &[i16]) -> Result<()> {
        let mut state = self.lock();
        loop {
            state.check()?;
            let room = self.capacity - state.samples.len();
            let (now, later) = samples.split_at(room.min(samples.len()));
            state.samples.extend(now);
            samples = later;
            self.changed.notify_all();
            if samples.is_empty() {
                return Ok(());
            }
            state = self.wait(state)?;
        }
    }

    /// Whether enough has gathered for sound to flow.
    pub fn has_enough(&self) -> bool {
        self.lock().samples.len() >= self.enough
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.lock().samples.is_empty()
    }

    /// Says that nothing more will be pushed, and waits until all has been heard.
    ///
    /// # Errors
    /// Playing was stopped, or the card died.
    pub fn drain(&self) -> Result<()> {
        let mut state = self.lock();
        state.complete = true;
        self.changed.notify_all();
        loop {
            state.check()?;
            if state.heard {
                return Ok(());
            }
            state = self.wait(state)?;
        }
    }

    /// Forgets all samples; whoever waits here, or comes later, gets an error of kind `Interrupted`.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.samples.clear();
        self.changed.notify_all();
    }

    /// The card asks for a block while it still holds `held` frames that were not heard. Where there is no sound, this
    /// waits at most `wait` for some: it must be well below the length of what the card holds.
    pub fn take(&self, block: &mut [i16], held: u64, wait: Duration) {
        let mut state = self.lock();
        state.beats += 1;
        if !state.flowing || state.samples.is_empty() {
            let idle = |state: &mut State| !state.stopped && !state.complete && state.samples.len() < self.enough;
            let waited = self.changed.wait_timeout_while(state, wait, idle);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let state = &mut *state;
        if !state.flowing && !state.samples.is_empty() && (state.complete || state.samples.len() >= self.enough) {
            state.flowing = true;
            state.underruns += u64::from(state.taken > 0); // a gap is one only when sound follows it
        }
        let n = if state.flowing { state.samples.len().min(block.len()) } else { 0 };
        for (to, from) in block.iter_mut().zip(state.samples.drain(..n)) {
            *to = from;
        }
        block[n..].fill(0);
        state.flowing &= n == block.len();
        if n == 0 && state.complete && held <= state.silence {
            state.heard = true;
        }
        if n > 0 {
            state.taken += n as u64;
            state.silence = 0;
        }
        state.silence += (block.len() - n) as u64;
        self.changed.notify_all();
    }

    /// The card lost samples by itself.
    pub fn underrun(&self) {
        self.lock().underruns += 1;
    }

    /// The sound system complains, but goes on.
    pub fn complain(&self, what: String) {
        self.lock().complaint.get_or_insert(what);
    }

    /// The card will ask for nothing more.
    pub fn die(&self, why: String) {
        self.lock().dead.get_or_insert(why);
        self.changed.notify_all();
    }

    /// What has happened so far.
    pub fn account(&self) -> Account {
        let state = self.lock();
        Account { taken: state.taken, underruns: state.underruns, complaint: state.complaint.clone() }
    }

    /// A panic elsewhere leaves nothing half-changed here, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>> {
        let beats = state.beats;
        let (mut state, time) = self.changed.wait_timeout(state, self.patience).unwrap_or_else(PoisonError::into_inner);
        if time.timed_out() && state.beats == beats {
            let why = state.complaint.take().unwrap_or_else(|| "it takes no more samples".to_owned());
            state.dead.get_or_insert(why);
        }
        Ok(state)
    }
}

impl State {
    fn check(&self) -> Result<()> {
        if self.stopped {
            return Err(Error::interrupted("playing was stopped"));
        }
        match &self.dead {
            Some(why) => Err(Error::new(format!("the sound card stopped playing: {why}")).hint(super::USE_A_FILE)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::error::Kind;

    fn take(queue: &Queue, frames: usize, held: u64) -> Vec<i16> {
        let mut block = vec![99; frames];
        queue.take(&mut block, held, Duration::ZERO);
        block
    }

    #[test]
    fn sound_flows_when_enough_has_gathered() {
        let queue = Queue::new(100, 3);
        queue.push(&[1, 2]).unwrap();
        assert_eq!(take(&queue, 2, 0), [0, 0]);
        queue.push(&[3]).unwrap();
        assert_eq!(take(&queue, 2, 0), [1, 2]);
        assert_eq!(queue.account().underruns, 0);
    }

    #[test]
    fn an_underrun_is_silence_counted_once_when_sound_flows_again() {
        let queue = Queue::new(100, 3);
        queue.push(&[1, 2, 3]).unwrap();
        assert_eq!(take(&queue, 4, 0), [1, 2, 3, 0]);
        queue.push(&[4]).unwrap();
        for _ in 0..5 {
            assert_eq!(take(&queue, 4, 0), [0; 4]);
        }
        queue.push(&[5, 6, 7]).unwrap();
        assert_eq!(take(&queue, 4, 0), [4, 5, 6, 7]);
        assert_eq!((queue.account().taken, queue.account().underruns), (7, 1));
        assert_eq!(take(&queue, 4, 0), [0; 4]); // maybe this is the end
        assert_eq!(queue.account().underruns, 1);
    }

    #[test]
    fn late_sound_is_waited_for() {
        let queue = Arc::new(Queue::new(100, 3));
        let asked = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                let mut block = [99; 4];
                queue.take(&mut block, 0, Duration::from_secs(60));
                block
            }
        });
        while queue.lock().beats == 0 {
            thread::yield_now();
        }
        queue.push(&[1]).unwrap();
        queue.push(&[2, 3]).unwrap();
        assert_eq!(asked.join().unwrap(), [1, 2, 3, 0]);
    }

    /// A card that holds 10 frames: drained only when 10 frames of silence went in behind the last sample.
    #[test]
    fn drained_means_heard() {
        let queue = Arc::new(Queue::new(100, 50));
        queue.push(&[1, 2, 3]).unwrap();
        let drained = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.drain()
        });
        while !queue.lock().complete {
            thread::yield_now();
        }
        let mut heard = Vec::new();
        for _ in 0..3 {
            heard.extend(take(&queue, 4, 10));
            assert!(!queue.lock().heard);
        }
        assert_eq!(heard[..4], [1, 2, 3, 0]); // little as it is, it flows, for nothing more will come
        take(&queue, 4, 10); // 9 frames of silence before this block
        assert!(!queue.lock().heard);
        take(&queue, 4, 10); // 13
        drained.join().unwrap().unwrap();
        assert_eq!((queue.account().taken, queue.account().underruns), (3, 0));
    }

    #[test]
    fn a_full_queue_makes_the_generator_wait() {
        let queue = Arc::new(Queue::new(10, 2));
        let all: Vec<i16> = (1..=1000).collect();
        let pushed = thread::spawn({
            let (queue, all) = (Arc::clone(&queue), all.clone());
            move || {
                all.chunks(7).try_for_each(|chunk| queue.push(chunk)).unwrap();
                queue.drain().unwrap();
            }
        });
        let mut got = Vec::new();
        while !queue.lock().heard {
            assert!(queue.lock().samples.len() <= 10);
            got.extend(take(&queue, 3, 0));
        }
        pushed.join().unwrap();
        got.retain(|&x| x != 0);
        assert_eq!(got, all);
    }

    #[test]
    fn stopping_wakes_whoever_waits_and_silences_the_rest() {
        let queue = Arc::new(Queue::new(4, 2));
        let pushed = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(&[1; 100])
        });
        while queue.lock().samples.len() < 4 {
            thread::yield_now();
        }
        queue.stop();
        assert_eq!(pushed.join().unwrap().unwrap_err().kind(), Kind::Interrupted);
        assert_eq!(take(&queue, 4, 0), [0; 4]);
        assert_eq!(queue.drain().unwrap_err().kind(), Kind::Interrupted);
        assert_eq!(queue.account().underruns, 0);
    }

    #[test]
    fn a_dead_card_is_an_error_and_no_hang() {
        let queue = Queue::new(4, 2);
        queue.complain("first".to_owned());
        queue.complain("second".to_owned());
        assert_eq!(queue.account().complaint.unwrap(), "first");
        queue.die("unplugged".to_owned());
        let error = queue.push(&[1]).unwrap_err();
        assert_eq!(error.to_string(), "the sound card stopped playing: unplugged");
        assert!(error.cure().unwrap().contains("-o"));

        let silent = Queue { patience: Duration::from_millis(20), ..Queue::new(4, 2) };
        let error = silent.push(&[1; 5]).unwrap_err();
        assert!(error.to_string().ends_with("it takes no more samples"), "{error}");
    }
}
