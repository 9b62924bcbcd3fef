//! What one CPU has of a group.
//!
//! Written under the lock of the CPU's queue, most often by the CPU itself; memory is that CPU's. Others read what it shows, on a line of its own.

use super::super::fair::{Entity, ONE};
use super::Group;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use intrusive_collections::LinkedListAtomicLink;
use sync::machine::CpuId;

/// In a sum of tasks: one task. Below it are their weights: 17 bits each.
pub const TASK: u64 = 1 << 42;

/// Ticks after which a small change is shown too.
const PATIENCE: u64 = 12;

/// Ticks between two looks at other CPUs where nobody waits: a task that has its CPU for itself is not to show a weight of long ago for long, by which
/// it would seem to be due all of that.
const SELDOM: u64 = 8;

/// See the head of the file.
#[repr(align(64))]
pub struct Cell {
    /// The group's fair tasks that run or wait here: how many, in [`TASK`]s, and the sum of their own weights.
    tasks: AtomicU64,
    /// Which part of their own weights counts, in [`ONE`]s.
    factor: AtomicU64,
    /// The run time that was told, ns.
    used: AtomicU64,
    cpu: CpuId,
    /// Among those of its CPU that are looked at.
    pub link: LinkedListAtomicLink,
    /// The group, while `link` is linked.
    pub group: AtomicPtr<Group>,
    is_new: AtomicBool,
    /// The weight of the tasks over the last ticks.
    average: AtomicU64,
    /// Ticks since `shown` was written.
    since: AtomicU64,
    /// Ticks since the other CPUs were looked at.
    unseen: AtomicU64,
    /// What the other CPUs show, as of the last whole look at them, and whether they run tasks of other groups.
    others: AtomicU64,
    others_mix: AtomicBool,
    /// The look that goes on: the CPU that is next, and what has been found so far.
    next: AtomicU64,
    found: AtomicU64,
    found_mix: AtomicBool,
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
            cpu,
            link: LinkedListAtomicLink::new(),
            group: AtomicPtr::default(),
            is_new: AtomicBool::new(true),
            average: AtomicU64::new(0),
            since: AtomicU64::new(0),
            unseen: AtomicU64::new(0),
            others: AtomicU64::new(0),
            others_mix: AtomicBool::new(true),
            next: AtomicU64::new(0),
            found: AtomicU64::new(0),
            found_mix: AtomicBool::new(false),
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

    /// A task comes, and counts with the factor that tasks have here.
    #[inline]
    pub fn enter(&self, entity: &Entity) {
        let counted = TASK | entity.own_weight();
        self.tasks.store(self.tasks.load(Relaxed).wrapping_add(counted), Relaxed);
        entity.counted.store(counted, Relaxed);
        if self.factor() != entity.factor() {
            entity.set_factor(self.factor());
        }
    }

    /// A task goes, if it is counted.
    #[inline]
    pub fn leave(&self, entity: &Entity) {
        self.tasks.store(self.tasks.load(Relaxed).wrapping_sub(entity.counted.load(Relaxed)), Relaxed);
        entity.counted.store(0, Relaxed);
    }

    /// The run time of a task since the last time. The caller says so to the entity, or lets it sleep.
    #[inline]
    pub fn tell(&self, entity: &Entity) {
        self.used.store(self.used.load(Relaxed).wrapping_add(entity.untold()), Relaxed);
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

    /// A tick: is it time to look at the other CPUs? At each tick where somebody waits, else seldom.
    pub fn is_time(&self, is_contended: bool) -> bool {
        let unseen = self.unseen.load(Relaxed).saturating_add(1);
        let is_time = is_contended || unseen >= SELDOM;
        self.unseen.store(if is_time { 0 } else { unseen }, Relaxed);
        is_time
    }

    /// Looks at `looks` of the CPUs from where the last look ended: `look` gives what one shows of the group, and whether it runs others' tasks.
    pub fn look_at_others(&self, cpus: u32, looks: u32, mut look: impl FnMut(CpuId) -> (u64, bool)) {
        for _ in 0..looks.min(cpus) {
            let cpu = self.next.load(Relaxed);
            if cpu != u64::from(self.cpu) {
                let (weight, mixes) = look(cpu as CpuId);
                self.found.store(self.found.load(Relaxed).saturating_add(weight), Relaxed);
                self.found_mix.store(self.found_mix.load(Relaxed) | mixes, Relaxed);
            }
            let next = cpu.saturating_add(1);
            if next < u64::from(cpus) {
                self.next.store(next, Relaxed);
                continue;
            }
            self.next.store(0, Relaxed);
            self.others.store(self.found.swap(0, Relaxed), Relaxed);
            self.others_mix.store(self.found_mix.swap(false, Relaxed), Relaxed);
        }
    }

    /// The weight of the group's tasks on all CPUs, as far as it is known here, and whether anybody else runs there.
    pub fn total(&self) -> (u64, bool) {
        (self.average().saturating_add(self.others.load(Relaxed)), self.others_mix.load(Relaxed))
    }

    /// Tasks that come have this factor from now on, unless it is nearly what they have.
    pub fn set_factor(&self, factor: u64) {
        let before = self.factor();
        if factor.abs_diff(before) > before / 32 || factor == ONE && before != ONE {
            self.factor.store(factor, Relaxed);
        }
    }
}
