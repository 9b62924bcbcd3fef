//! Wait queues: sleeping until a condition holds.
//!
//! The sleeper puts its node on the queue, says that it sleeps, looks at the condition, and only then gives the CPU up; the
//! waker makes the condition true, and only then looks at the queue. Both put a full fence between, so one sees the other.
//! A node is taken off by the waker, so each `wake_one` reaches another sleeper; a sleeper that was woken but leaves for
//! another reason passes the wake on.
//!
//! Of many sleepers `wake_all` wakes [`TURN`], and remembers how many it owes a wake. Each that it woke wakes as many more on its way off the queue, so
//! nobody holds the lock for long. An owed sleeper is woken after the change, and so sees it. If the front of the queue was taken by others meanwhile, a newcomer
//! is woken for nothing: sleepers look at their condition.
//!
//! LockOrder: wait queue → run queue. Wakers call from thread context (see `pending`).

use super::futex::FutexWait;
use super::runqueue::Order;
use super::switch::schedule;
use super::task::{State, Task, current};
use super::timer::Deadline;
use super::work::Work;
use crate::lock_order as level;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
use intrusive_collections::{LinkedList, LinkedListAtomicLink, intrusive_adapter};
use sync::{AllocError, SpinGuard, SpinLock, TryVec, lock_class};

lock_class! { static WAIT_QUEUE: LockClass = ("wait queue", level::WaitQueue); }

/// Most sleepers that are woken with the lock held.
const TURN: u32 = 64;

/// How deep a sleep is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// Any signal ends it.
    Interruptible,
    /// A fatal signal ends it.
    Killable,
}

/// Why a sleep ended before its condition held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// A signal: EINTR or a restart.
    Signal,
    /// The deadline.
    Timeout,
}

/// A sleeper's place on one list: a wait queue's, or a futex bucket's. A task sleeps on one of its own at a time; `poll` makes more.
pub(super) struct WaitNode {
    pub(super) link: LinkedListAtomicLink,
    task: AtomicPtr<Task>,
    /// A waker took the node off the list.
    pub(super) woken: AtomicBool,
    /// `wake_one` stops here.
    exclusive: AtomicBool,
    /// Others were owed a wake when this one was woken. Under the queue's lock.
    passes_on: AtomicBool,
    /// In a futex bucket: the futex that the task waits on.
    pub(super) futex: FutexWait,
}

vm::slab_type!(WaitNode, "wait-node", Arc);
intrusive_adapter!(pub(super) WaitAdapter = Arc<WaitNode>: WaitNode { link => LinkedListAtomicLink });

impl WaitNode {
    pub(super) fn new() -> Self {
        Self {
            link: LinkedListAtomicLink::new(),
            task: AtomicPtr::new(core::ptr::null_mut()),
            woken: AtomicBool::new(false),
            exclusive: AtomicBool::new(false),
            passes_on: AtomicBool::new(false),
            futex: FutexWait::new(),
        }
    }

    pub(super) fn set_task(&self, task: *const Task) {
        self.task.store(task.cast_mut(), Ordering::Relaxed);
    }

    /// Wakes the sleeper. The list's lock is held, which is shown, and the node is off it.
    pub(super) fn wake(&self, order: Order<'_>) {
        self.woken.store(true, Ordering::SeqCst);
        // SAFETY: the node was on the list, whose lock is held; its task takes that lock before it goes on, so it lives.
        if let Some(task) = unsafe { self.task.load(Ordering::Relaxed).as_ref() } {
            task.wake_in(order);
        }
    }
}

/// Tasks that wait for something.
pub struct WaitQueue {
    waiters: SpinLock<LinkedList<WaitAdapter>, level::WaitQueue>,
    /// Nodes on the list, so that a wake with nobody there takes no lock.
    count: AtomicU32,
    /// How many at the front are owed a wake, at most. While it is not 0 somebody is awake who passes it on. Under the lock.
    owed: AtomicU32,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitQueue {
    pub const fn new() -> Self {
        Self {
            waiters: SpinLock::new(LinkedList::new(WaitAdapter::NEW), &WAIT_QUEUE),
            count: AtomicU32::new(0),
            owed: AtomicU32::new(0),
        }
    }

    /// Is anybody waiting? Ordered after what the caller wrote before.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Wakes the first exclusive sleeper and all non-exclusive ones before it; true if it woke an exclusive one.
    pub fn wake_one(&self) -> bool {
        self.wake_exclusive(1) > 0
    }

    /// Wakes everybody, if they are many some of them through others.
    pub fn wake_all(&self) {
        self.wake_exclusive(u32::MAX);
    }

    fn wake_exclusive(&self, limit: u32) -> u32 {
        if !self.has_waiters() {
            return 0;
        }
        let mut woken = 0;
        let mut waiters = self.waiters.lock();
        if limit == u32::MAX {
            let count = self.count.load(Ordering::Relaxed);
            if count > TURN {
                self.owed.store(count, Ordering::Relaxed);
                self.pay(waiters);
                return 0;
            }
        }
        let (waiters, order) = waiters.split();
        while woken < limit {
            let Some(node) = waiters.pop_front() else { break };
            self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            woken += u32::from(node.exclusive.load(Ordering::Relaxed));
            node.wake(order.reborrow().lower());
        }
        woken
    }

    /// Wakes some of those who are owed a wake.
    #[cold]
    fn pay(&self, mut waiters: SpinGuard<'_, LinkedList<WaitAdapter>, level::WaitQueue>) {
        let (waiters, order) = waiters.split();
        let owed = self.owed.load(Ordering::Relaxed);
        let now = owed.min(TURN);
        let mut left = owed - now;
        for _ in 0..now {
            let Some(node) = waiters.pop_front() else {
                left = 0;
                break;
            };
            self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            node.passes_on.store(true, Ordering::Relaxed);
            node.wake(order.reborrow().lower());
        }
        self.owed.store(left, Ordering::Relaxed);
    }

    fn put(&self, node: &Arc<WaitNode>, exclusive: bool) {
        node.woken.store(false, Ordering::Relaxed);
        node.exclusive.store(exclusive, Ordering::Relaxed);
        let mut waiters = self.waiters.lock();
        waiters.push_back(node.clone());
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        drop(waiters);
        fence(Ordering::SeqCst);
    }

    /// Takes the node off, if it is still on; true if a waker did it before.
    fn take(&self, node: &WaitNode) -> bool {
        let mut waiters = self.waiters.lock();
        if node.woken.load(Ordering::Relaxed) || !node.link.is_linked() {
            if node.passes_on.load(Ordering::Relaxed) {
                node.passes_on.store(false, Ordering::Relaxed);
                self.pay(waiters);
            }
            return true;
        }
        // SAFETY: linked, and only ever put on this queue while the caller waits; the lock is held.
        drop(unsafe { waiters.cursor_mut_from_ptr(node) }.remove());
        self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        false
    }

    /// Sleeps until `condition` gives a value; `wake_one` wakes one such sleeper.
    /// The condition is looked at often, may take locks, and must not sleep. No spinning lock is held by the caller.
    pub fn wait_until<R>(
        &self,
        how: Sleep,
        deadline: Option<Deadline>,
        condition: impl FnMut() -> Option<R>,
    ) -> Result<R, Woken> {
        self.wait(how, deadline, true, condition)
    }

    /// As `wait_until`, for a condition that many sleepers may see come true at once.
    pub fn wait_shared<R>(
        &self,
        how: Sleep,
        deadline: Option<Deadline>,
        condition: impl FnMut() -> Option<R>,
    ) -> Result<R, Woken> {
        self.wait(how, deadline, false, condition)
    }

    fn wait<R>(
        &self,
        how: Sleep,
        deadline: Option<Deadline>,
        exclusive: bool,
        mut condition: impl FnMut() -> Option<R>,
    ) -> Result<R, Woken> {
        if let Some(result) = condition() {
            return Ok(result);
        }
        let task = current();
        loop {
            self.put(&task.sleep_node, exclusive);
            let result = sleep_alone(how, deadline, || match condition() {
                Some(result) => Some(Some(result)),
                None => task.sleep_node.woken.load(Ordering::SeqCst).then_some(None),
            });
            let woken = self.take(&task.sleep_node);
            match result {
                Ok(Some(result)) => return Ok(result),
                Ok(None) => {}
                Err(reason) => {
                    if woken && exclusive {
                        self.wake_one();
                    }
                    return Err(reason);
                }
            }
            if let Some(result) = condition() {
                return Ok(result);
            }
        }
    }
}

/// Sleeps until `condition` gives a value; the caller has arranged that a change of it wakes this task.
pub(super) fn sleep_alone<R>(
    how: Sleep,
    deadline: Option<Deadline>,
    mut condition: impl FnMut() -> Option<R>,
) -> Result<R, Woken> {
    let task = current();
    let (state, ends) = match how {
        Sleep::Interruptible => (State::Interruptible, Work::SIGNAL),
        Sleep::Killable => (State::Killable, Work::KILL),
    };
    let mut armed = false;
    let result = loop {
        task.set_state(state);
        fence(Ordering::SeqCst);
        if let Some(result) = condition() {
            break Ok(result);
        }
        if task.work.any(ends) {
            break Err(Woken::Signal);
        }
        if let Some(deadline) = deadline {
            if crate::arch::time::now() >= deadline.soft() {
                break Err(Woken::Timeout);
            }
            if !armed {
                task.sleep_timer.arm_idle(deadline);
                armed = true;
            }
        }
        schedule();
    };
    task.set_state(State::Running);
    if armed {
        task.sleep_timer.cancel();
    }
    result
}

/// A sleeper's places on many queues at once: what `poll` and `select` wait with. It is lent by [`PollSet::with`], whose return leaves the queues:
/// a place that stayed on one would be woken when its thread is gone. So nobody has one of his own, which he might forget.
pub struct PollSet<'a> {
    places: Vec<(Arc<WaitNode>, &'a WaitQueue)>,
    failed: bool,
}

impl<'a> PollSet<'a> {
    /// Runs `f` with a set that is on no queue yet.
    pub fn with<R>(f: impl FnOnce(&mut Self) -> R) -> R {
        f(&mut Self { places: Vec::new(), failed: false })
    }

    /// Joins a queue. Out of memory is remembered and reported by `wait`.
    pub fn add(&mut self, queue: &'a WaitQueue) {
        if self.try_add(queue).is_err() {
            self.failed = true;
        }
    }

    fn try_add(&mut self, queue: &'a WaitQueue) -> Result<(), AllocError> {
        let node = sync::try_arc(WaitNode::new())?;
        node.set_task(&raw const *current());
        self.places.try_push((node.clone(), queue))?;
        queue.put(&node, false);
        Ok(())
    }

    /// Was there memory for every `add`?
    pub fn complete(&self) -> Result<(), AllocError> {
        if self.failed { Err(AllocError) } else { Ok(()) }
    }

    /// Sleeps until one of the queues was woken since it was joined.
    pub fn wait(&self, how: Sleep, deadline: Option<Deadline>) -> Result<(), Woken> {
        sleep_alone(how, deadline, || {
            self.places.iter().any(|(node, _)| node.woken.load(Ordering::SeqCst)).then_some(())
        })
    }

    /// Leaves all queues, to be filled again.
    pub fn clear(&mut self) {
        self.places.drain(..).for_each(|(node, queue)| {
            queue.take(&node);
        });
        self.failed = false;
    }
}

impl Drop for PollSet<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests;
