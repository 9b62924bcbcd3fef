//! How a task leads to its group, and to what its CPU has of that.
//!
//! Both words change under the lock of the task's queue; before the task is first put on a queue, by its maker. They are not counted: see `group`.

use super::{Cell, Group};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// The group of a process, for tasks that begin. Changed under its `children` lock, by what keeps the group.
pub struct Membership(AtomicPtr<Group>);

impl Membership {
    /// Of no group.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// # Safety
    /// The group stays until a grace period after the process has left it for another, or has no task any more that has not left its space.
    pub unsafe fn set(&self, group: Option<&Group>) {
        let group = group.map_or(core::ptr::null(), core::ptr::from_ref);
        self.0.store(group.cast_mut(), SeqCst);
    }

    /// A child is in its maker's group, under the maker's `children` lock.
    #[inline]
    pub fn inherit(&self, maker: &Membership) {
        self.0.store(maker.0.load(Relaxed), Relaxed);
    }

    pub(in super::super) fn get(&self) -> *const Group {
        self.0.load(SeqCst)
    }
}

/// See the head of the file.
pub struct Slot {
    /// The group; null: none. [`nothing`] before the task begins.
    group: AtomicPtr<Group>,
    /// What the CPU of the task's queue has of the group; null: the task is not counted. [`nothing`]: where it comes next that is to be found.
    cell: AtomicPtr<Cell>,
}

/// An address at which there is nothing.
const fn nothing<T>() -> *mut T {
    core::ptr::without_provenance_mut(1)
}

impl Slot {
    pub const fn new() -> Self {
        Self { group: AtomicPtr::new(nothing()), cell: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// The group. By the task's own CPU in a section that does not sleep, or under the lock of its queue.
    pub fn group(&self) -> Option<&Group> {
        let group = self.group.load(Relaxed);
        if group == nothing() {
            return None;
        }
        // SAFETY: a task has left a group before that goes, and this section holds that off (see `group`).
        unsafe { group.as_ref() }
    }

    pub fn is_in(&self, group: *const Group) -> bool {
        core::ptr::eq(self.group.load(Relaxed), group)
    }

    /// Is the task counted, or may be where it comes next? If not there is nothing to do about its group. Under the lock of its queue, or of the running task.
    #[inline]
    pub fn is_counted(&self) -> bool {
        !self.cell.load(Relaxed).is_null()
    }

    /// Under the lock of the task's queue.
    pub fn cell(&self) -> Option<&Cell> {
        let cell = self.cell.load(Relaxed);
        if cell == nothing() {
            return None;
        }
        // SAFETY: as in `group`: a cell goes with its group.
        unsafe { cell.as_ref() }
    }

    /// The task begins, in this group; `is_counted`: who makes it is.
    #[inline]
    pub fn begin(&self, group: *const Group, is_counted: bool) {
        if is_counted {
            self.find_cell();
        }
        self.group.store(group.cast_mut(), Release);
    }

    pub fn has_begun(&self) -> bool {
        self.group.load(Acquire) != nothing()
    }

    pub fn set_group(&self, group: *const Group) {
        self.group.store(group.cast_mut(), Relaxed);
        self.set_cell(None);
    }

    pub fn set_cell(&self, cell: Option<&Cell>) {
        self.cell.store(cell.map_or(core::ptr::null(), core::ptr::from_ref).cast_mut(), Relaxed);
    }

    /// What counts the task is to be found where it comes next.
    pub fn find_cell(&self) {
        self.cell.store(nothing(), Relaxed);
    }
}
