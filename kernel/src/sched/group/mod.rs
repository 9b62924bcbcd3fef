//! Groups of tasks: whoever is in one has a part of its group's share, however many they are.
//!
//! * `cell`  what one CPU has of a group: the weight of its tasks there, the time that they ran, which part of its own weight each counts with
//! * `bandwidth` how much of the CPUs a group may have however much is free
//! * `mix`   whether tasks of several groups compete, so that they are to be counted
//! * `slot`  how a task leads to its group and its cell
//!
//! Groups are flat: there is no tree of entities. A task's weight is multiplied by a *factor*, the weight of its group divided by the sum of the weights of
//! the group's tasks on all CPUs; in a group within a group, by the product along the chain. The parent's sum counts a child group that has something to run
//! with the child's weight, and its own tasks. So whatever is done with weights holds for groups over all CPUs at once: the order on a CPU, lag, and the
//! balance between CPUs. Tasks outside of groups have the factor [`ONE`](super::fair::ONE).
//!
//! CountLocal: whoever wakes or sleeps writes the cell of its CPU, under the queue's lock. Sums over CPUs are taken at ticks, by CPUs on which somebody
//! waits (by others seldom), from what the cells show; that is written at ticks, when it has changed clearly (`runqueue::groups`). Where tasks of one group alone run, on all
//! CPUs that are looked at, nothing is to be divided: the factor is one, and nothing is counted (`mix`).
//!
//! A group lives in what its members belong to (a session), and tasks point to it without counting. Whoever ends leaves its group at the next switch
//! (`Queue::take_change`), which is before its CPU is quiescent the next time; and who belongs to the session no more has no task that runs but that. So a group
//! may go a grace period after its last member has left (`sync::protocol::membership`).

mod bandwidth;
mod cell;
mod mix;
mod slot;

pub use bandwidth::{Bandwidth, Quota};
pub use cell::Cell;
pub use mix::{Certainty, Mix};
pub use slot::{Membership, Slot};

use super::fair::{NICE_0, weight};
use crate::errno::{ENOMEM, Result};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::*};
use once_cell::race::OnceBox;
use sync::heap::{try_box, try_box_slice};
use sync::machine::CpuId;

/// Do sessions have shares of their own?
static ENABLED: AtomicBool = AtomicBool::new(true);

/// /proc/sys/kernel/sched_autogroup_enabled.
pub fn are_sessions_grouped() -> bool {
    ENABLED.load(Relaxed)
}

/// As of the next ticks.
pub fn group_sessions(enabled: bool) {
    ENABLED.store(enabled, Relaxed);
}

/// Looks for `noautogroup` among the words of the kernel's command line.
pub fn configure(cmdline: &str) {
    if cmdline.split_ascii_whitespace().any(|word| word == "noautogroup") {
        group_sessions(false);
    }
}

type Cells = Box<[AtomicPtr<Cell>]>;

/// See the head of the file.
pub struct Group {
    /// The weight of all its tasks together, as that of a nice value.
    weight: AtomicU64,
    nice: AtomicI32,
    /// By CPU; made at the first tick that comes upon a task of the group while groups compete, and each cell at the first on that CPU.
    cells: OnceBox<Cells>,
    bandwidth: Bandwidth,
}

/// What a group's tasks do, as its cells count them: see there what is not counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Load {
    /// Tasks that run or wait for a CPU, and the sum of their own weights.
    pub tasks: u64,
    pub weight: u64,
    /// Their run time while they were counted, as ticks and sleeps have told it, ns.
    pub used_ns: u64,
}

impl Group {
    /// A group whose weight is that of one task of nice 0. Takes no memory.
    pub const fn new() -> Self {
        Self {
            weight: AtomicU64::new(NICE_0),
            nice: AtomicI32::new(0),
            cells: OnceBox::new(),
            bandwidth: Bandwidth::new(),
        }
    }

    pub fn nice(&self) -> i32 {
        self.nice.load(Relaxed)
    }

    /// The group has the weight of one task with this nice value, from the next ticks on.
    pub fn set_nice(&self, nice: i32) {
        self.nice.store(nice, Relaxed);
        self.weight.store(weight(nice), Relaxed);
    }

    /// The weight of all its tasks together, where that of nice 0 is 1024.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.weight.load(Relaxed)
    }

    /// As `set_nice`, by the weight: where that of nice 0 is [`NICE_0`].
    pub fn set_weight(&self, weight: u64) {
        self.weight.store(weight.max(1), Relaxed);
    }

    /// Is the group's share its own, as things are set?
    pub(super) fn counts(&self) -> bool {
        are_sessions_grouped()
    }

    /// How much of the CPUs it may have in a period.
    #[inline]
    pub fn bandwidth(&self) -> &Bandwidth {
        &self.bandwidth
    }

    /// The group may have so much in each period from now on; None: whatever is free. Its tasks that are there already are to be told (`Task::expect_quota`).
    ///
    /// # Errors
    /// ENOMEM.
    pub fn set_quota(&self, quota: Option<Quota>) -> Result {
        let (cpus, now) = (sync::machine::cpus(), crate::arch::time::now());
        self.limit(quota, cpus, now, || super::runqueue::begin_quota(self))
    }

    /// `begin`: all its cells are to count.
    pub(super) fn limit(&self, quota: Option<Quota>, cpus: u32, now: u64, begin: impl FnOnce()) -> Result {
        if quota.is_some() {
            (0..cpus).try_for_each(|cpu| self.try_cell(cpu, cpus).map(drop))?;
        }
        let begins = quota.is_some() && !self.bandwidth.is_limited();
        self.bandwidth.set(quota, now);
        if begins {
            begin();
        }
        Ok(())
    }

    /// What `cpu` has of the group.
    #[inline]
    pub(super) fn cell(&self, cpu: CpuId) -> Option<&Cell> {
        let cell = self.cells.get()?.get(cpu as usize)?.load(Acquire);
        // SAFETY: a cell goes with its group.
        unsafe { cell.as_ref() }
    }

    /// As `cell`; makes it if there is none. With no lock of a queue held.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn try_cell(&self, cpu: CpuId, cpus: u32) -> Result<&Cell> {
        if self.cells.get().is_none() {
            let cells = try_box_slice(cpus as usize, |_| AtomicPtr::default()).and_then(try_box)?;
            // Another CPU may have been faster.
            let _ = self.cells.set(cells);
        }
        let place = self.cells.get().and_then(|cells| cells.get(cpu as usize)).ok_or(ENOMEM)?;
        if place.load(Acquire).is_null() {
            let made = Box::into_raw(try_box(Cell::new(cpu))?);
            if place.compare_exchange(core::ptr::null_mut(), made, AcqRel, Acquire).is_err() {
                // SAFETY: it came from a box just now, and nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
            }
        }
        self.cell(cpu).ok_or(ENOMEM)
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        let cells = self.cells.get().map_or(&[][..], |cells| cells);
        // SAFETY: as in `cell`.
        cells.iter().filter_map(|cell| unsafe { cell.load(Acquire).as_ref() })
    }

    /// What its CPUs have of it.
    pub fn load(&self) -> Load {
        let mut load = Load::default();
        for cell in self.cells() {
            load.tasks = load.tasks.saturating_add(cell.count());
            load.weight = load.weight.saturating_add(cell.weight());
            load.used_ns = load.used_ns.saturating_add(cell.used_ns());
        }
        load
    }
}

/// The group goes. It has had no tasks for a grace period, or never had any.
pub fn end(group: &Group) {
    if group.cells.get().is_some() {
        super::runqueue::end_group(group);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for place in self.cells.get().into_iter().flatten() {
            let cell = place.swap(core::ptr::null_mut(), Relaxed);
            if !cell.is_null() {
                // SAFETY: it came from a box, and went into its place once. No task leads to it, and no queue (`runqueue::end_group`).
                drop(unsafe { Box::from_raw(cell) });
            }
        }
    }
}
