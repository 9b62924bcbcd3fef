//! A sleeper's place on a list: of a wait queue or of a futex bucket.
//!
//! Each task has one of its own, which is one line of memory with all in it that a waker touches of the task: where it waits, its state, its CPU, and the call
//! that makes its CPU wake it. `poll`, and who waits on several futexes, makes more.

use super::super::runqueue::Order;
use super::super::task::Task;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use intrusive_collections::{LinkedListLink, UnsafeRef, intrusive_adapter};
use sync::machine::{CpuId, MAX_CPUS};
use sync::protocol::call::Call;
use sync::protocol::home::Home;

/// See the head of the file.
#[repr(align(64))]
pub(in crate::sched) struct WaitNode {
    /// Looked at and changed under the lock of the list that the node is on, or by its task where it is on none.
    pub link: LinkedListLink,
    /// In a futex bucket: the futex that the task waits on.
    pub futex: FutexWait,
    /// Of a task's own node: the next among those whom other CPUs have called. Of one for `poll`: the task.
    pub next: AtomicU64,
    pub bits: AtomicU32,
    /// Of a task's own, as the next three: whether another CPU has called it, to be woken by its own.
    pub call: Call,
    /// Its CPU is about to wake it, as another has asked. To be shown and no more.
    pub wakes: AtomicBool,
    /// The CPU whose queue the task is on or was last on. Changes under that queue's lock, while the task is not queued.
    pub cpu: Home,
    /// What the task is doing: a `State`.
    pub state: AtomicU8,
    is_own: bool,
    /// A waker took the node off the list.
    pub woken: AtomicBool,
    /// `wake_one` wakes one of these.
    pub exclusive: AtomicBool,
    /// Others were owed a wake when this one was woken. Under the queue's lock.
    pub passes_on: AtomicBool,
    /// In a futex bucket: the real-time priority of who waits; 0: it has none.
    pub priority: AtomicU8,
}

const _: () = assert!(size_of::<WaitNode>() == 64, "a waker writes one line of a task");
const _: () = assert!(MAX_CPUS <= 1 << 16);

/// What a futex is, and the bucket in which a waiter on it lies: `futex::bucket` has the rules.
pub(in crate::sched) struct FutexWait {
    pub owner: AtomicUsize,
    pub place: AtomicUsize,
    /// The bucket that the node is in; changes under the locks of both buckets.
    pub bucket: AtomicPtr<super::super::futex::Bucket>,
}

// SAFETY: all but `link` is atomic, and that is used as its line says: the lock of one list orders those who touch it, and a node comes to another list
// only after it was taken off under the lock of the one before.
unsafe impl Send for WaitNode {}
// SAFETY: as above.
unsafe impl Sync for WaitNode {}
vm::slab_type!(WaitNode, "wait-node", Arc);
// A list does not own its nodes: whoever waits takes his off before he goes on.
intrusive_adapter!(pub(in crate::sched) WaitAdapter = UnsafeRef<WaitNode>: WaitNode { link => LinkedListLink });

impl WaitNode {
    const fn blank(is_own: bool, cpu: u16, task: u64) -> Self {
        Self {
            link: LinkedListLink::new(),
            futex: FutexWait {
                owner: AtomicUsize::new(0),
                place: AtomicUsize::new(0),
                bucket: AtomicPtr::new(core::ptr::null_mut()),
            },
            next: AtomicU64::new(task),
            bits: AtomicU32::new(0),
            call: Call::new(),
            wakes: AtomicBool::new(false),
            cpu: Home::new(cpu),
            state: AtomicU8::new(0),
            is_own,
            woken: AtomicBool::new(false),
            exclusive: AtomicBool::new(false),
            passes_on: AtomicBool::new(false),
            priority: AtomicU8::new(0),
        }
    }

    /// That of a task itself, which runs.
    ///
    /// # Safety
    /// It becomes the `sleep_node` of a task.
    pub(in crate::sched) const unsafe fn of_task(cpu: CpuId) -> Self {
        Self::blank(true, cpu as u16, 0)
    }

    /// Another place of `task`, which outlives it; null: of nobody, for tests.
    pub(in crate::sched) fn of(task: *const Task) -> Self {
        Self::blank(false, 0, task.expose_provenance() as u64)
    }

    pub(in crate::sched) fn task(&self) -> *const Task {
        if self.is_own {
            let node: *const WaitNode = self;
            // SAFETY: a field of its task, as `of_task` was promised.
            unsafe { node.byte_sub(offset_of!(Task, sleep_node)).cast() }
        } else {
            core::ptr::with_exposed_provenance(self.next.load(Ordering::Relaxed) as usize)
        }
    }

    /// The list's lock is held, and the caller is about to take the node off, or nearly sure to. A write that changes nothing, before the first look: so the
    /// line comes over once, and not first to be read and then to be written.
    #[inline]
    pub(in crate::sched) fn claim_line(&self) {
        self.woken.store(false, Ordering::Relaxed);
    }

    /// Wakes the sleeper. The list's lock is held, which is shown, and the node is off it.
    pub(in crate::sched) fn wake(&self, order: Order<'_>) {
        if let Some(released) = self.release() {
            released.wake_in(order);
        }
    }

    /// The sleeper is woken when what is returned is dropped. The list's lock is held, and the node is off it.
    #[inline(always)]
    pub(in crate::sched) fn release(&self) -> Option<Released> {
        // The wake-up has the fence between this and the look at the task's state.
        self.woken.store(true, Ordering::Release);
        NonNull::new(self.task().cast_mut()).map(Released)
    }
}

/// A sleeper that was taken off its list, and is woken when this is dropped: best when the list's lock has been given back, which the sleeper takes at once. It is
/// not kept over a sleep.
#[must_use]
pub(in crate::sched) struct Released(NonNull<Task>);

impl Released {
    /// Wakes the sleeper under the list's lock, which is shown.
    pub(in crate::sched) fn wake_in(self, order: Order<'_>) {
        self.task().wake_in(order);
        core::mem::forget(self);
    }

    fn task(&self) -> &Task {
        // SAFETY: the node was on a list, whose lock was held; its task takes that lock before it goes on, so it lived then. It is freed only after a grace
        // period, and since then this CPU has not slept.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Released {
    #[inline(always)]
    fn drop(&mut self) {
        self.task().wake();
    }
}
