//! What the threads of a process have used together.
//!
//! Of a process with many threads (`signal::Crowd`) it is added up in parts. A thread that ends meanwhile might be counted twice or not at all, so ends are
//! counted as well, and what was added up while one was under way is added up again, a few times. Its processor time never falls, as programs see it.
#![forbid(unsafe_code)]

use super::wait::UsageSum;
use super::{Process, Thread};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How often it is added up while threads end.
const TRIES: usize = 3;

/// What is known of the threads of one process.
pub struct Used {
    /// Ends of threads that have begun, and those after which what the thread has used is counted with the process's.
    ending: AtomicU32,
    ended: AtomicU32,
    /// The most that was seen, ns.
    user_ns: AtomicU64,
    system_ns: AtomicU64,
}

impl Used {
    pub const fn new() -> Self {
        Self {
            ending: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            user_ns: AtomicU64::new(0),
            system_ns: AtomicU64::new(0),
        }
    }

    /// Adds up until no thread ends meanwhile.
    fn add_up(&self, mut sum: impl FnMut() -> UsageSum) -> UsageSum {
        let mut all = UsageSum::default();
        for _ in 0..TRIES {
            let ended = self.ended.load(Ordering::SeqCst);
            all = sum();
            if self.ending.load(Ordering::SeqCst) == ended {
                break;
            }
        }
        all.user_ns = all.user_ns.max(self.user_ns.fetch_max(all.user_ns, Ordering::Relaxed));
        all.system_ns = all.system_ns.max(self.system_ns.fetch_max(all.system_ns, Ordering::Relaxed));
        all
    }

    /// Processor time, as it was when it was added up last.
    fn known(&self) -> UsageSum {
        UsageSum {
            user_ns: self.user_ns.load(Ordering::Relaxed),
            system_ns: self.system_ns.load(Ordering::Relaxed),
            ..UsageSum::default()
        }
    }
}

#[inline(always)]
fn add(sum: &mut UsageSum, thread: &Thread) {
    if !thread.exiting.load(Ordering::SeqCst) {
        sum.add_thread(thread);
    }
}

impl Process {
    /// What all threads have used. Gives way: no spinning lock is held, and the caller is not about to sleep.
    pub fn usage(&self) -> UsageSum {
        let Some(crowd) = self.signals.crowd() else { return self.usage_of_few() };
        crowd.used.add_up(|| {
            let mut sum = self.gone.sum();
            self.look_at_threads(|thread| add(&mut sum, thread));
            sum
        })
    }

    /// As `usage`, for any caller, and of processor time alone: of many threads as it was when it was added up last.
    pub fn known_usage(&self) -> UsageSum {
        self.signals.crowd().map_or_else(|| self.usage_of_few(), |crowd| crowd.used.known())
    }

    fn usage_of_few(&self) -> UsageSum {
        let mut sum = self.gone.sum();
        self.look_at_few_threads(|thread| add(&mut sum, thread));
        sum
    }

    /// Processor time of all threads, living and dead. As `usage`.
    #[expect(clippy::arithmetic_side_effects, reason = "nanoseconds of five hundred years")]
    pub fn cpu_time_ns(&self) -> u64 {
        let usage = self.usage();
        usage.user_ns + usage.system_ns
    }

    /// One of its threads ends, and has used `usage`.
    pub(super) fn thread_ends(&self, thread: &Thread, usage: &UsageSum) {
        let crowd = self.signals.crowd();
        if let Some(crowd) = crowd {
            crowd.used.ending.fetch_add(1, Ordering::SeqCst);
        }
        // Before it looks whether it has children (`family::threads`).
        thread.exiting.store(true, Ordering::SeqCst);
        self.gone.add(usage);
        if let Some(crowd) = crowd {
            crowd.used.ended.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(user_ns: u64) -> UsageSum {
        UsageSum { user_ns, ..UsageSum::default() }
    }

    #[test]
    fn what_is_added_up_while_a_thread_ends_is_added_up_again() {
        let all = Used::new();
        let mut times = 0;
        let sum = all.add_up(|| {
            times += 1;
            if times == 1 {
                all.ending.fetch_add(1, Ordering::SeqCst);
                return used(5);
            }
            all.ended.store(1, Ordering::SeqCst);
            used(7)
        });
        // The second began before that end was over.
        assert_eq!((times, sum.user_ns), (3, 7));
        all.ending.fetch_add(1, Ordering::SeqCst);
        let mut times = 0;
        all.add_up(|| {
            times += 1;
            used(8)
        });
        assert_eq!(times, TRIES, "not for ever");
    }

    #[test]
    fn processor_time_never_falls() {
        let all = Used::new();
        assert_eq!(all.add_up(|| used(9)).user_ns, 9);
        assert_eq!(all.add_up(|| used(4)).user_ns, 9);
        assert_eq!(all.known().user_ns, 9);
    }
}
