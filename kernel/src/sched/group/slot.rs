//! How a task leads to its group, and to what its CPU has of that.
//!
//! Both words change under the lock of the task's queue; before the task is first put on a queue, by its maker. They are not counted:
//! `sync::protocol::membership` says why no task leads to a group that has ended.

use super::{Cell, Certainty, Group};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};
use sync::protocol::membership;

/// The group of a process, for tasks that begin. Changed under its `children` lock, by what keeps the group.
pub struct Membership(membership::Membership<Group>);

impl Membership {
    /// Of no group.
    pub const fn none() -> Self {
        Self(membership::Membership::none())
    }

    /// # Safety
    /// The group stays until a grace period after the process has left it for another, or has no task any more that has not left its space.
    pub unsafe fn set(&self, group: Option<&Group>) {
        self.0.set(group.map_or(core::ptr::null(), core::ptr::from_ref));
    }

    /// A child is in its maker's group, under the maker's `children` lock.
    #[inline]
    pub fn inherit(&self, maker: &Membership) {
        self.0.set(maker.0.get());
    }

    /// The running task's process has another group: the task goes there.
    pub fn take_up(&self) {
        let task = super::super::task::current();
        super::super::runqueue::regroup(&task, self.0.get());
    }

    /// The other tasks of that process go there too: `visit` comes by them, and calls [`take_up_for`](Self::take_up_for) for each. What keeps the group that they
    /// leave stays until this returns. May sleep.
    pub fn settle(&self, visit: impl FnOnce()) {
        self.0.settle(sync::rcu::synchronize, visit);
    }

    /// See [`settle`](Self::settle).
    pub fn take_up_for(&self, task: &super::super::Task) {
        // One that ends leaves its group by itself.
        if !task.leaves()
            && let Some(group) = self.0.moves(&task.slot.place)
        {
            super::super::runqueue::regroup(task, group);
        }
    }
}

/// See the head of the file.
pub struct Slot {
    place: membership::Place<Group>,
    /// What the CPU of the task's queue has of the group; null: the task is not counted. [`NOTHING`]: where it comes next that is to be found.
    cell: AtomicPtr<Cell>,
    /// How certain it was that groups compete on the CPU that the task has left (`Certainty::word`).
    certainty: AtomicU32,
}

/// An address at which there is nothing.
const NOTHING: *mut Cell = core::ptr::without_provenance_mut(1);

impl Slot {
    pub const fn new() -> Self {
        Self {
            place: membership::Place::not_begun(),
            cell: AtomicPtr::new(core::ptr::null_mut()),
            certainty: AtomicU32::new(0),
        }
    }

    /// The group. By the task's own CPU in a section that does not sleep, or under the lock of its queue.
    pub fn group(&self) -> Option<&Group> {
        // SAFETY: a task has left a group before that goes, and this section holds that off (`protocol::membership`).
        unsafe { self.place.get().as_ref() }
    }

    /// Is the task counted, or may be where it comes next? If not there is nothing to do about its group. Under the lock of its queue, or of the running task.
    #[inline]
    pub fn is_counted(&self) -> bool {
        !self.cell.load(Relaxed).is_null()
    }

    /// Under the lock of the task's queue.
    pub fn cell(&self) -> Option<&Cell> {
        let cell = self.cell.load(Relaxed);
        if cell == NOTHING {
            return None;
        }
        // SAFETY: as in `group`: a cell goes with its group.
        unsafe { cell.as_ref() }
    }

    /// The task begins, in its process's group, in the section in which it also comes on a queue; `is_counted`: who makes it is.
    #[inline]
    pub fn begin(&self, process: &Membership, is_counted: bool) {
        if is_counted {
            self.find_cell();
        }
        self.place.begin(&process.0);
    }

    /// Under the lock of the task's queue.
    pub fn set_group(&self, group: *const Group) {
        self.place.set(group);
        self.set_cell(None);
    }

    /// The task ends. Under the lock of its queue, before its CPU is quiescent.
    pub fn leave(&self) {
        self.place.leave();
        self.set_cell(None);
    }

    /// The task leaves a CPU that counts it. Under the lock of that queue.
    pub fn set_certainty(&self, certainty: Certainty) {
        self.certainty.store(certainty.word(), Relaxed);
    }

    /// How certain the CPU was that the task has left.
    pub fn certainty(&self) -> Certainty {
        Certainty::of(self.certainty.load(Relaxed))
    }

    pub fn set_cell(&self, cell: Option<&Cell>) {
        self.cell.store(cell.map_or(core::ptr::null(), core::ptr::from_ref).cast_mut(), Relaxed);
    }

    /// What counts the task is to be found where it comes next.
    pub fn find_cell(&self) {
        self.cell.store(NOTHING, Relaxed);
    }
}
