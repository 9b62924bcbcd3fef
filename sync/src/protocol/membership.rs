//! Which group the tasks of a process are in, without a count of the group: it lives in what the process is a member of, and for a grace period more.
//!
//! ```text
//!   process: Membership   the group in which its tasks begin
//!   task:    Place        the group that it is in; its own CPU looks at it in sections that do not sleep
//! ```
//!
//! Who makes a task reads the membership and stores the place in one section (`begin`). Who gives the process another group
//!
//! 1. stores the membership,
//! 2. waits for a grace period (`membership.wait`): a section that read the old group is over then, and its task has begun; who begins later begins in the
//!    new one,
//! 3. gives each task that has begun in the old group the new one (`membership.move`), under the lock of the task's queue,
//! 4. lets go of what keeps the old group. If that was the last, the group ends after a grace period: then the sections are over in which a task has found it.
//!
//! A task that ends belongs to the group until its process does no more, which may be while it runs its last code. So it leaves the group before its CPU is quiescent the
//! next time (`membership.leave`), though it may run on after that.
//!
//! Grace periods and the lock of the queue order everything here: no access needs an ordering of its own.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicPtr, Ordering::Relaxed, const_new, step};

/// The group of a process, for tasks that begin.
#[derive(Debug)]
pub struct Membership<T>(AtomicPtr<T>);

/// The group that a task is in.
#[derive(Debug)]
pub struct Place<T>(AtomicPtr<T>);

/// The place of a task that has not begun: an address at which there is nothing.
fn nowhere<T>() -> *mut T {
    core::ptr::without_provenance_mut(1)
}

impl<T> Membership<T> {
    const_new! {
        pub fn none() -> Self {
            Membership(AtomicPtr::new(core::ptr::null_mut()))
        }
    }

    /// The group; null: none.
    #[inline]
    pub fn get(&self) -> *const T {
        self.0.load(Relaxed)
    }

    #[inline]
    pub fn set(&self, group: *const T) {
        self.0.store(group.cast_mut(), Relaxed);
    }

    /// After [`set`](Self::set), and before the old group is let go: `wait` waits for a grace period, `visit` comes by all tasks of the process and asks
    /// [`moves`](Self::moves) of each.
    pub fn settle(&self, wait: impl FnOnce(), visit: impl FnOnce()) {
        if step("membership.wait") {
            wait();
        }
        visit();
    }

    /// The group that a task is to be given which is at this place; None: it is there, or begins there.
    pub fn moves(&self, place: &Place<T>) -> Option<*const T> {
        let group = self.get();
        (place.has_begun() && !place.is_in(group) && step("membership.move")).then_some(group)
    }
}

impl<T> Place<T> {
    const_new! {
        /// Of a task that has not begun.
        pub fn not_begun() -> Self {
            Place(AtomicPtr::new(core::ptr::without_provenance_mut(1)))
        }
    }

    /// The task begins. In the section in which `membership` is read here, the task also comes on a queue.
    #[inline]
    pub fn begin(&self, membership: &Membership<T>) {
        self.set(membership.get());
    }

    pub fn has_begun(&self) -> bool {
        self.0.load(Relaxed) != nowhere()
    }

    pub fn is_in(&self, group: *const T) -> bool {
        core::ptr::eq(self.0.load(Relaxed), group)
    }

    /// The group, while this section lasts; null: none.
    #[inline]
    pub fn get(&self) -> *const T {
        let group = self.0.load(Relaxed);
        if group == nowhere() { core::ptr::null() } else { group }
    }

    /// Under the lock of the task's queue.
    pub fn set(&self, group: *const T) {
        self.0.store(group.cast_mut(), Relaxed);
    }

    /// The task ends. Before its CPU is quiescent, under the lock of its queue.
    pub fn leave(&self) {
        if step("membership.leave") {
            self.set(core::ptr::null());
        }
    }
}
