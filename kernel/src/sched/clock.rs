//! The processor time that a task has used, in user mode and in the kernel.
//!
//! The whole is exact, and counted for the CPU too (`cpustat`). Each timer interrupt says in which mode it came upon the task, and the time until the next counts as that. So neither part ever
//! goes back, and who asks writes nothing: the words are the CPU's that runs the task, and are read together by `sync::protocol::sequence`.
#![forbid(unsafe_code)]

use super::cpustat::{self, Share};
use crate::arch;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
use sync::protocol::sequence::{Sequence, Word};

/// How often a reader looks again. Who changes the words is not interrupted for long: its CPU takes interrupts alone meanwhile.
const TRIES: u32 = 1 << 16;

/// See the head of the file. Changed by the CPU that runs or switches the task.
pub(super) struct Clock {
    sequence: Sequence,
    /// When it was last switched in or accounted, ns; 0: it does not run.
    since: Word,
    /// What was used up to then, in user mode and in the kernel.
    ns: [Word; 2],
    /// Is it the kernel's time that runs?
    in_kernel: Word,
    /// Which time of its CPU it is, in user mode: a [`Share`].
    share: AtomicU8,
}

impl Clock {
    pub const fn new(share: Share) -> Self {
        Self {
            sequence: Sequence::new(),
            since: Word::new(),
            ns: [const { Word::new() }; 2],
            in_kernel: Word::new(),
            share: AtomicU8::new(share as u8),
        }
    }

    /// From now on it is this time of its CPU.
    pub fn set_share(&self, share: Share) {
        self.share.store(share as u8, Relaxed);
    }

    /// The task runs from now on.
    pub fn start(&self, now: u64) {
        self.since.store(now.max(1));
    }

    pub fn since(&self) -> u64 {
        self.since.load()
    }

    /// Counts the time up to now, which it gives. The task runs on, or not.
    #[inline]
    pub fn advance(&self, now: u64, runs_on: bool) -> u64 {
        let mut ran = 0;
        self.sequence.write(|| {
            // A timer interrupt that comes from here on leaves the words alone.
            compiler_fence(SeqCst);
            let since = self.since.load();
            // One that came since `now` was read has counted up to a later time.
            ran = now.saturating_sub(since);
            let in_kernel = self.in_kernel.load() != 0;
            let used = &self.ns[usize::from(in_kernel)];
            used.store(used.load().wrapping_add(ran));
            cpustat::charge(self.share.load(Relaxed), in_kernel, ran);
            self.since.store(if runs_on { now.max(since) } else { 0 });
        });
        ran
    }

    /// A timer interrupt, which gives the time up to now.
    pub fn tick(&self, from_user: bool) -> u64 {
        // It comes between two switches, or into `advance`.
        if self.sequence.read(|| self.since.load()).is_none_or(|since| since == 0) {
            return 0;
        }
        let ran = self.advance(arch::time::now(), true);
        let in_kernel = u64::from(!from_user);
        if self.in_kernel.load() != in_kernel {
            self.in_kernel.store(in_kernel);
        }
        ran
    }

    /// Nanoseconds in user mode and in the kernel.
    #[inline(always)]
    pub fn read(&self) -> (u64, u64) {
        match self.sequence.read(|| self.read_words()) {
            Some(times) => times,
            None => self.read_again(),
        }
    }

    #[cold]
    fn read_again(&self) -> (u64, u64) {
        for _ in 0..TRIES {
            if let Some(times) = self.sequence.read(|| self.read_words()) {
                return times;
            }
            core::hint::spin_loop();
        }
        self.read_words()
    }

    #[inline(always)]
    fn read_words(&self) -> (u64, u64) {
        let (user, system) = (self.ns[0].load(), self.ns[1].load());
        let since = self.since.load();
        if since == 0 {
            return (user, system);
        }
        let tail = arch::time::now().saturating_sub(since);
        if self.in_kernel.load() == 0 { (user + tail, system) } else { (user, system + tail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_run_stays_as_it_was_counted() {
        let clock = Clock::new(Share::User);
        assert_eq!(clock.read(), (0, 0), "it has not run");
        clock.start(100);
        assert_eq!(clock.advance(130, false), 30);
        assert_eq!(clock.read(), (30, 0), "it does not run");
        clock.start(200);
        clock.in_kernel.store(1);
        assert_eq!(clock.advance(205, false), 5);
        assert_eq!(clock.read(), (30, 5));
        assert_eq!(clock.tick(true), 0, "between two switches");
    }

    #[test]
    fn time_that_an_interrupt_has_counted_is_not_counted_again() {
        let clock = Clock::new(Share::User);
        clock.start(100);
        clock.advance(150, true);
        // `now` was read before that.
        assert_eq!(clock.advance(120, true), 0);
        assert_eq!((clock.since(), clock.ns[0].load()), (150, 50));
    }

    #[test]
    fn neither_part_ever_goes_back() {
        let clock = Clock::new(Share::User);
        clock.start(arch::time::now());
        let mut last = clock.read();
        for round in 0..1000 {
            if round % 3 == 0 {
                clock.tick(round % 2 == 0);
            }
            let (user, system) = clock.read();
            assert!(user >= last.0 && system >= last.1, "{user} {system} after {last:?}");
            last = (user, system);
        }
        assert!(last.0 > 0 && last.1 > 0);
    }
}
