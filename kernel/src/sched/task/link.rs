//! How a thread leads to its task, without a count.

use super::Task;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The task that a thread is: from `new_user` on until it has run for the last time.
///
/// It is not counted. `unlink` empties it before the task's run reference is dropped behind a grace period, so what a read section finds here stays valid
/// until the section ends.
pub struct TaskLink(AtomicPtr<Task>);

impl TaskLink {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// What `f` says of the task, which is not counted for it. `f` does not sleep.
    #[inline(always)]
    pub fn look<R>(&self, f: impl FnOnce(&Task) -> R) -> Option<R> {
        let _read = sync::rcu::read();
        // SAFETY: as the head of the type says. Acquire: the task is seen whole.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }.map(f)
    }

    /// A reference of the caller's own.
    pub fn get(&self) -> Option<Arc<Task>> {
        self.look(|task| {
            let task = core::ptr::from_ref(task);
            // SAFETY: the run reference is not dropped before the read section ends, so the count is not zero, and the pointer came from an `Arc`.
            unsafe {
                Arc::increment_strong_count(task);
                Arc::from_raw(task)
            }
        })
    }
}

impl Task {
    /// The thread leads to its task from now on. The reference that the caller has is given up by way of `unlink` and a grace period.
    pub(in crate::sched) fn link(self: &Arc<Self>) {
        if let Some(thread) = &self.thread {
            thread.task_link().0.store(Arc::as_ptr(self).cast_mut(), Ordering::Release);
        }
    }

    /// It has run for the last time, or will not run at all.
    pub(in crate::sched) fn unlink(&self) {
        if let Some(thread) = &self.thread {
            let link = &thread.task_link().0;
            // Another may have come in its place.
            if core::ptr::eq(link.load(Ordering::Relaxed), self) {
                link.store(core::ptr::null_mut(), Ordering::Relaxed);
            }
        }
    }
}
