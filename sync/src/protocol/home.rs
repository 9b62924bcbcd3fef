//! Which CPU's queue a task belongs to, for those who come without knowing: who wakes it, and who changes where it may run.
//!
//! The word changes under the lock of the queue that the task goes to, while the task is on no queue. So whoever holds the lock of the queue that the word names
//! holds the task, unless it is on its way from that queue to another:
//!
//! ```text
//!   who moves it                             who changes its affinity
//!   locks its queue; may it go? takes it     stores the affinity
//!   unlocks; locks the other                 locks its queue (the word, once more under the lock: `home.again`)
//!   stores the word                          linked, and the word is this queue's? it waits here: moves it
//!   --- home.moved ---  links it             not so, and does not run: tells it to look
//!   the other CPU takes it                   --- home.told ---
//!   --- home.taken ---                       locks its queue, as it is now; runs there: kicks the CPU
//!   is it told to look?  user mode
//! ```
//!
//! - A task sleeps and wakes under the lock of its queue. The word may have been old when it was read, so it is read once more under the lock (`home.again`), and behind
//!   the task's state (`home.seen`): a task that was on its way to another queue may have arrived there, run, and be about to sleep. Who took that for a sleep here would
//!   take a task that a CPU runs.
//! - Linked means on some queue, perhaps the other one. Who sees that link sees the word that was stored before it (`home.moved`, `home.linked`).
//! - Of the two fences `home.told` and `home.taken` one comes first: either the CPU sees that the task is to look before it lets it into user mode, or who changed the affinity
//!   sees the task where it runs. So a change of affinity is not missed until the next tick, wherever the task was.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU16, Ordering, const_new, fence_after_rmw, fence_at, fence_with, step};

/// The number of a CPU.
#[derive(Debug)]
pub struct Home(AtomicU16);

impl Home {
    const_new! {
        pub fn new(cpu: u16) -> Self {
            Home(AtomicU16::new(cpu))
        }
    }

    /// As it was just now.
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed).into()
    }

    /// As it was just now, and all that was done before it was stored there.
    #[inline]
    pub fn get_acquire(&self) -> u32 {
        self.0.load(Ordering::Acquire).into()
    }

    /// Of a task that nobody else sees yet.
    pub fn begin(&self, cpu: u32) {
        self.0.store(cpu as u16, Ordering::Relaxed);
    }

    /// The task is about to be linked to the queue of `cpu`, whose lock is held. True: it was another's.
    #[inline(always)]
    pub fn move_to(&self, cpu: u32) -> bool {
        let moves = self.get() != cpu;
        if moves {
            self.0.store(cpu as u16, Ordering::Relaxed);
        }
        fence_with("home.moved", Ordering::Release);
        moves
    }

    /// Does the task, which is linked or not, wait on the queue of `cpu`, whose lock is held? Another CPU may link it to its own meanwhile.
    #[inline]
    pub fn is_at(&self, cpu: u32, is_linked: bool) -> bool {
        if !is_linked {
            return false;
        }
        fence_with("home.linked", Ordering::Acquire);
        self.get() == cpu
    }

    /// Locks the queue that the task belongs to.
    #[inline]
    pub fn lock<G>(&self, lock: impl Fn(u32) -> G) -> (G, u32) {
        let (queue, cpu, ()) = self.lock_seeing(lock, || ());
        (queue, cpu)
    }

    /// The same, and what `look` sees of the task: that was so while the task belonged to this queue.
    #[inline]
    pub fn lock_seeing<G, T>(&self, lock: impl Fn(u32) -> G, look: impl Fn() -> T) -> (G, u32, T) {
        loop {
            let cpu = self.get_acquire();
            let queue = lock(cpu);
            let seen = look();
            fence_with("home.seen", Ordering::Acquire);
            if self.get() == cpu || !step("home.again") {
                return (queue, cpu, seen);
            }
        }
    }

    /// `tell` makes the task look before it is next in user mode: then locks the queue that the task belongs to now.
    pub fn tell<G>(&self, tell: impl FnOnce(), lock: impl Fn(u32) -> G) -> (G, u32) {
        tell();
        fence_at("home.told");
        self.lock(lock)
    }

    /// A CPU has taken a task from its own queue, under the queue's lock, and goes on to look whether the task is told something.
    #[inline(always)]
    pub fn taken() {
        fence_after_rmw("home.taken");
    }
}
