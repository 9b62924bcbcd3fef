//! What a CPU shows of its tasks to others, on lines that are written only when that has changed.

use super::super::balance::Looks;
use super::Queue;
use crate::lock_order as level;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sync::machine::CpuId;
use sync::protocol::idle::Idle;
use sync::protocol::inbox::Inbox;
use sync::protocol::offer::Offer;
use sync::{SpinLock, lock_class};

lock_class! { static RUN_QUEUE: LockClass = ("run queue", level::RunQueue); }

/// A CPU's queue, and what it shows of it.
#[repr(align(64))]
pub struct CpuQueue {
    pub queue: SpinLock<Queue, level::RunQueue>,
    /// Tasks that wait; changes at every wake-up, and is looked at by the CPU itself.
    pub(super) waiting: AtomicU32,
    /// When the first of those that are throttled here is to have its next budget; `u64::MAX`: none is. Written under the queue's lock, and looked at by the CPU itself.
    pub(super) next_period: AtomicU64,
    /// What the balancer of this CPU remembers; the CPU's own.
    pub(in super::super) looks: Looks,
    pub shown: Shown,
    pub load: ShownLoad,
    group: ShownGroup,
    pub(super) stealable: Stealable,
}

/// What CPUs that wake a task look at, on a line of its own, which a busy CPU does not write.
#[repr(align(64))]
pub struct Shown {
    /// The CPU idles and has not been given anything.
    pub idle: Idle,
    /// Since when; written before that is shown.
    idle_since: AtomicU64,
    /// Who ran last before has ended, so nobody comes back here soon. Written with that.
    vacant: AtomicBool,
    /// The CPU takes tasks.
    pub online: AtomicBool,
    /// The highest rank (`realtime::Rank`) of the CPU's real-time tasks; 0, and not written, where there are none.
    pub(super) rank: AtomicU64,
    /// Tasks of this CPU that others want to be woken: see `calls`.
    pub called: Inbox,
    /// The CPU whose tasks this one was woken for, plus 1; 0: none. It says where to look first, and nothing else.
    offered_from: AtomicU32,
}

/// What CPUs that start a task look at where none idles, on a line of its own.
#[repr(align(64))]
pub struct ShownLoad(
    /// The weight of the CPU's tasks as it was over the last ticks; written when that has changed by a quarter.
    pub AtomicU64,
);

/// Whose tasks the CPU has, while it does not idle: what CPUs whose tasks are in groups look at, on a line of its own. It is written when that has changed for
/// several ticks.
#[repr(align(64))]
struct ShownGroup(
    /// The address of the one group whose tasks it has, or [`MIXED`]; 0: no tick has come upon any.
    AtomicU64,
);

/// Instead of a group: the CPU has tasks of several, or of none.
pub const MIXED: u64 = 1;

/// What CPUs that seek work look at, on a line of its own: a CPU whose tasks wait one after the other, each for a wake-up, does not write it.
#[repr(align(64))]
pub(super) struct Stealable(
    /// [`FAIR`]: more tasks wait than the CPU is about to run, and some may run elsewhere. Above it the highest rank (`realtime::Rank`) of real-time tasks that wait,
    /// if some may run elsewhere.
    pub(super) Offer,
);

/// In `Stealable`.
pub(super) const FAIR: u64 = 1;

impl CpuQueue {
    pub const fn new() -> Self {
        Self {
            queue: SpinLock::new(Queue::new(), &RUN_QUEUE),
            waiting: AtomicU32::new(0),
            next_period: AtomicU64::new(u64::MAX),
            looks: Looks::new(),
            shown: Shown {
                idle: Idle::new(),
                idle_since: AtomicU64::new(0),
                vacant: AtomicBool::new(false),
                online: AtomicBool::new(false),
                rank: AtomicU64::new(0),
                called: Inbox::new(),
                offered_from: AtomicU32::new(0),
            },
            load: ShownLoad(AtomicU64::new(0)),
            group: ShownGroup(AtomicU64::new(0)),
            stealable: Stealable(Offer::new()),
        }
    }

    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn idles(&self) -> bool {
        self.shown.idle.is_shown()
    }

    /// The CPU has fair tasks that others may take.
    #[inline]
    pub fn is_stealable(&self) -> bool {
        self.stealable.0.shown() & FAIR != 0
    }

    /// The CPU has tasks of any kind that others may take.
    #[inline]
    pub fn gives(&self) -> bool {
        self.stealable.0.shown() != 0
    }

    /// `cpu`, whose queue this is, shows tasks to give away: another that idles may take them. True: the caller kicks that.
    pub fn offer_to(&self, cpu: CpuId, other: &CpuQueue) -> bool {
        let made = self.stealable.0.make(&other.shown.idle);
        if made {
            other.shown.offered_from.store(cpu + 1, Ordering::Relaxed);
        }
        made
    }

    /// Of its own CPU, which looks for work: whose tasks it was woken for.
    pub fn take_offer(&self) -> Option<CpuId> {
        let from = self.shown.offered_from.load(Ordering::Relaxed).checked_sub(1)?;
        self.shown.offered_from.store(0, Ordering::Relaxed);
        Some(from)
    }

    /// The CPU, which idles, has done so for `ns`.
    #[inline]
    pub fn idles_for(&self, now: u64, ns: u64) -> bool {
        now.saturating_sub(self.shown.idle_since.load(Ordering::Relaxed)) >= ns
    }

    /// Of a CPU that idles: has ended who ran there last?
    pub fn is_vacant(&self) -> bool {
        self.shown.vacant.load(Ordering::Relaxed)
    }

    /// Of its own CPU, which idles from `now` on and looks for work, and has had so many switches.
    pub fn show_idle(&self, now: u64, switches: u64) {
        self.shown.idle_since.store(now, Ordering::Relaxed);
        if let Some(ended) = self.looks.take_end(switches) {
            self.shown.vacant.store(ended, Ordering::Relaxed);
        }
        self.shown.idle.show(true);
        if self.load.0.load(Ordering::Relaxed) != 0 {
            self.load.0.store(0, Ordering::Relaxed);
            self.looks.forget_load();
        }
    }

    /// Of its own CPU, which idles no more.
    pub fn show_busy(&self) {
        self.shown.idle.show(false);
    }

    /// Whose tasks it has: see [`ShownGroup`].
    pub fn group(&self) -> u64 {
        self.group.0.load(Ordering::Relaxed)
    }

    /// Of its own CPU: says whose tasks it has.
    pub fn show_group(&self, group: u64) {
        if self.group() != group {
            self.group.0.store(group, Ordering::Relaxed);
        }
    }
}

impl Queue {
    /// Says whether others may take tasks. An idle CPU has one that it was woken for.
    pub(super) fn show_stealable(&self, own: &CpuQueue, waiting: u32) {
        let stealable = !self.movable.is_empty() && waiting > u32::from(self.idles());
        let word = own.stealable.0.shown();
        if (word & FAIR != 0) != stealable {
            own.stealable.0.show(word ^ FAIR);
        }
    }
}
