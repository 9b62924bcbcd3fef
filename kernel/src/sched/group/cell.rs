//! What one CPU has of a group.
//!
//! It counts while groups compete on this CPU or with it (`mix`); a task that comes or goes otherwise finds that it does not, and forgets it.
//!
//! Written under the lock of the CPU's queue, most often by the CPU itself; memory is that CPU's. Others read what it shows, on a line of its own.

use super::super::fair::{Entity, ONE};
use super::{Bandwidth, Group, Quota};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering::Relaxed};
use intrusive_collections::LinkedListAtomicLink;
use sync::machine::CpuId;

/// In a sum of tasks: one task. Below it are their weights: 17 bits each.
pub const TASK: u64 = 1 << 42;

/// Ticks after which a small change is shown too.
const PATIENCE: u64 = 12;

/// See the head of the file.
#[repr(align(64))]
pub struct Cell {
    /// The group's fair tasks that run or wait here: how many, in [`TASK`]s, and the sum of their own weights.
    tasks: AtomicU64,
    /// Which part of their own weights counts, in [`ONE`]s.
    factor: AtomicU64,
    /// The run time that was told, ns.
    used: AtomicU64,
    /// What tasks may run here yet before more of the group's quota is to be had, ns; below 0 what they have had too much. Means nothing where there is no quota.
    left: AtomicI64,
    cpu: CpuId,
    /// Among those of its CPU that are looked at.
    pub link: LinkedListAtomicLink,
    /// The group, while `link` is linked.
    pub group: AtomicPtr<Group>,
    counts: AtomicBool,
    is_new: AtomicBool,
    /// The weight of the tasks over the last ticks.
    average: AtomicU64,
    /// Ticks since `shown` was written.
    since: AtomicU64,
    /// What the other CPUs show, as of the last whole look at them.
    others: AtomicU64,
    /// The look that goes on: the CPU that is next, and what has been found so far.
    next: AtomicU64,
    found: AtomicU64,
    shown: Shown,
}

#[repr(align(64))]
struct Shown(AtomicU64);

impl Cell {
    pub(super) fn new(cpu: CpuId) -> Self {
        Self {
            tasks: AtomicU64::new(0),
            factor: AtomicU64::new(ONE),
            used: AtomicU64::new(0),
            left: AtomicI64::new(0),
            cpu,
            link: LinkedListAtomicLink::new(),
            group: AtomicPtr::default(),
            counts: AtomicBool::new(false),
            is_new: AtomicBool::new(true),
            average: AtomicU64::new(0),
            since: AtomicU64::new(0),
            others: AtomicU64::new(0),
            next: AtomicU64::new(0),
            found: AtomicU64::new(0),
            shown: Shown(AtomicU64::new(0)),
        }
    }

    #[inline]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    pub fn used_ns(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Fair tasks of the group that run or wait here.
    pub fn count(&self) -> u64 {
        self.tasks.load(Relaxed) / TASK
    }

    /// The sum of their own weights.
    pub fn weight(&self) -> u64 {
        self.tasks.load(Relaxed) % TASK
    }

    #[inline]
    pub fn factor(&self) -> u64 {
        self.factor.load(Relaxed)
    }

    /// Are tasks counted?
    #[inline]
    pub fn counts(&self) -> bool {
        self.counts.load(Relaxed)
    }

    /// Tasks are counted from now on, as they come and as ticks come upon them.
    pub fn begin(&self) {
        self.is_new.store(true, Relaxed);
        self.counts.store(true, Relaxed);
    }

    /// Tasks are not counted any more, and count with their own weights.
    pub fn stop(&self) {
        self.counts.store(false, Relaxed);
        self.factor.store(ONE, Relaxed);
        if self.shown() != 0 {
            self.shown.0.store(0, Relaxed);
        }
    }

    /// A task comes, and counts with the factor that tasks have here.
    pub fn enter(&self, entity: &Entity) {
        let weight = entity.own_weight();
        self.tasks.store(self.tasks.load(Relaxed).wrapping_add(TASK | weight), Relaxed);
        entity.counted.store(weight as u32, Relaxed);
        if self.factor() != entity.factor() {
            entity.set_factor(self.factor());
        }
    }

    /// A task goes, if it is counted.
    pub fn leave(&self, entity: &Entity) {
        let weight = u64::from(entity.counted.load(Relaxed));
        if weight != 0 {
            self.tasks.store(self.tasks.load(Relaxed).wrapping_sub(TASK | weight), Relaxed);
            entity.counted.store(0, Relaxed);
        }
    }

    /// The run time of a task since the last time. The caller says so to the entity.
    pub fn tell(&self, entity: &Entity) {
        let ran = entity.untold();
        self.used.store(self.used.load(Relaxed).wrapping_add(ran), Relaxed);
        self.left.store(self.left.load(Relaxed).saturating_sub_unsigned(ran), Relaxed);
    }

    /// What tasks may run here yet, ns, if the group has a quota, which gives more if nothing is left; 0: nothing is to be had in this period.
    pub fn quota_left(&self, bandwidth: &Bandwidth, quota: Quota, now: u64) -> u64 {
        let mut left = self.left.load(Relaxed);
        if left <= 0 {
            let more = bandwidth.take(quota, left.unsigned_abs(), now);
            left = left.saturating_add_unsigned(more);
            self.left.store(left, Relaxed);
        }
        u64::try_from(left).unwrap_or(0)
    }

    /// The group has a quota from now on, and did not have one: what was run before is not held against it.
    pub fn begin_quota(&self) {
        self.left.store(0, Relaxed);
        self.counts.store(true, Relaxed);
    }

    /// What other CPUs are to see of the weight here.
    pub fn shown(&self) -> u64 {
        self.shown.0.load(Relaxed)
    }

    pub fn average(&self) -> u64 {
        self.average.load(Relaxed)
    }

    /// A tick: follows the weight, and shows it if it has changed by a quarter, or by less for long. Is there nothing left to follow?
    pub fn follow(&self) -> bool {
        let (now, before, shown) = (self.weight(), self.average(), self.shown());
        let is_new = self.is_new.load(Relaxed);
        let average = if is_new { now } else { (before.saturating_mul(3).saturating_add(now)) / 4 };
        self.average.store(average, Relaxed);
        self.is_new.store(false, Relaxed);
        let since = self.since.load(Relaxed).saturating_add(1);
        let off = average.abs_diff(shown);
        if off > shown / 4 || since >= PATIENCE && off > shown / 32 {
            self.shown.0.store(average, Relaxed);
            self.since.store(0, Relaxed);
        } else {
            self.since.store(since, Relaxed);
        }
        average == 0 && now == 0
    }

    /// Looks at `looks` of the CPUs from where the last look ended: `look` gives what one shows of the group.
    pub fn look_at_others(&self, cpus: u32, looks: u32, look: impl Fn(CpuId) -> u64) {
        for _ in 0..looks.min(cpus) {
            let cpu = self.next.load(Relaxed);
            if cpu != u64::from(self.cpu) {
                self.found.store(self.found.load(Relaxed).saturating_add(look(cpu as CpuId)), Relaxed);
            }
            let next = cpu.saturating_add(1);
            if next < u64::from(cpus) {
                self.next.store(next, Relaxed);
                continue;
            }
            self.next.store(0, Relaxed);
            self.others.store(self.found.swap(0, Relaxed), Relaxed);
        }
    }

    /// The weight of the group's tasks on all CPUs, as far as it is known here.
    pub fn total(&self) -> u64 {
        self.average().saturating_add(self.others.load(Relaxed))
    }

    /// Tasks that come have this factor from now on, unless it is nearly what they have.
    pub fn set_factor(&self, factor: u64) {
        let before = self.factor();
        if factor.abs_diff(before) > before / 32 || factor == ONE && before != ONE {
            self.factor.store(factor, Relaxed);
        }
    }
}
