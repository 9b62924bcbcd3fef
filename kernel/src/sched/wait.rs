//! Wait queues: sleeping until a condition holds.
//!
//! The sleeper puts its node on the queue, says that it sleeps, looks at the condition, and only then gives the CPU up; the
//! waker makes the condition true, and only then looks at the queue. Both put a full fence between, so one sees the other.
//! A node is taken off by the waker, so each `wake_one` reaches another exclusive sleeper; one that was woken but leaves for
//! another reason passes the wake on. Those who share a change are woken by every wake, wherever exclusive ones stand.
//!
//! Of many sleepers `wake_all` wakes [`TURN`], and remembers how many it owes a wake. Each that it woke wakes as many more on its way off the queue, so
//! nobody holds the lock for long. An owed sleeper is woken after the change, and so sees it. If the front of the queue was taken by others meanwhile, a newcomer
//! is woken for nothing: sleepers look at their condition.
//!
//! LockOrder: wait queue → run queue. Wakers call from thread context (see `pending`).

use super::switch::schedule;
use super::task::{State, current};
use super::timer::Deadline;
use super::work::Work;
use crate::lock_order as level;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use intrusive_collections::{LinkedList, UnsafeRef};
pub(super) use node::{Released, WaitAdapter, WaitNode};
use sync::atomic::fence_after_rmw;
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

type List = LinkedList<WaitAdapter>;

/// The two kinds of sleepers, each in the order in which they came: each change wakes all who share it, and one of those who take it for themselves.
struct Lines {
    shared: List,
    exclusive: List,
    /// How many at the front of each are owed a wake, no more than there are. While it is not 0 somebody is awake who passes it on.
    owed: Lens,
}

/// As many of those who share each change, and in the upper half of the exclusive ones.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lens(u64);

impl Lens {
    const NONE: Lens = Lens(0);
    const SHARED: Lens = Lens(1);
    const EXCLUSIVE: Lens = Lens(1 << 32);

    fn new(shared: u32, exclusive: u32) -> Lens {
        Lens(u64::from(exclusive) << 32 | u64::from(shared))
    }

    fn shared(self) -> u32 {
        self.0 as u32
    }

    fn exclusive(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn sum(self) -> u32 {
        self.shared().saturating_add(self.exclusive())
    }

    /// One that `node` is of.
    fn of(node: &WaitNode) -> Lens {
        if node.exclusive.load(Ordering::Relaxed) { Lens::EXCLUSIVE } else { Lens::SHARED }
    }

    /// No more than threads of either kind: a half does not run over.
    fn plus(self, other: Lens) -> Lens {
        Lens(self.0.wrapping_add(other.0))
    }

    /// Of each no more than there are.
    fn minus(self, other: Lens) -> Lens {
        Lens(self.0.wrapping_sub(other.0))
    }

    fn at_most(self, other: Lens) -> Lens {
        Lens::new(self.shared().min(other.shared()), self.exclusive().min(other.exclusive()))
    }
}

impl Lines {
    fn of(&mut self, node: &WaitNode) -> &mut List {
        if node.exclusive.load(Ordering::Relaxed) { &mut self.exclusive } else { &mut self.shared }
    }

    /// The next who is owed a wake, off its list; those who share come first.
    fn next_owed(&mut self) -> Option<UnsafeRef<WaitNode>> {
        let (list, one) = match self.owed {
            Lens::NONE => return None,
            owed if owed.shared() != 0 => (&mut self.shared, Lens::SHARED),
            _ => (&mut self.exclusive, Lens::EXCLUSIVE),
        };
        self.owed = self.owed.minus(one);
        list.front().get().into_iter().for_each(WaitNode::claim_line);
        list.pop_front()
    }
}

/// Tasks that wait for something. A line, if it begins on one.
pub struct WaitQueue {
    waiters: SpinLock<Lines, level::WaitQueue>,
    /// How many wait (`Lens`), so that a wake with nobody there takes no lock. Written under it.
    count: AtomicU64,
}

const _: () = assert!(size_of::<WaitQueue>() == 64, "who wakes and who sleeps write one line of a queue");

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitQueue {
    pub const fn new() -> Self {
        let lines = Lines {
            shared: LinkedList::new(WaitAdapter::NEW),
            exclusive: LinkedList::new(WaitAdapter::NEW),
            owed: Lens::NONE,
        };
        Self { waiters: SpinLock::new(lines, &WAIT_QUEUE), count: AtomicU64::new(0) }
    }

    /// Is anybody waiting? Ordered after what the caller wrote before.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) != 0
    }

    /// As [`has_waiters`](Self::has_waiters), where since the write the caller has changed something by a read-modify-write, as by giving back a sleeping
    /// lock: on x86 that is a fence.
    #[inline]
    fn has_waiters_after_rmw(&self) -> bool {
        fence_after_rmw("wait.look");
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Wakes all sleepers but the exclusive ones, and of these the first.
    pub fn wake_one(&self) {
        if self.has_waiters() {
            self.wake_some(1);
        }
    }

    /// Wakes everybody, if they are many some of them through others.
    pub fn wake_all(&self) {
        if self.has_waiters() {
            self.wake_some(u32::MAX);
        }
    }

    /// As `wake_one`, right behind the caller's giving back of the sleeping lock under which it made its change.
    #[inline]
    pub fn wake_one_after_unlock(&self) {
        if self.has_waiters_after_rmw() {
            self.wake_some(1);
        }
    }

    /// As `wake_all`, likewise.
    #[inline]
    pub fn wake_all_after_unlock(&self) {
        if self.has_waiters_after_rmw() {
            self.wake_some(u32::MAX);
        }
    }

    #[inline(never)]
    fn wake_some(&self, exclusive: u32) {
        let mut lines = self.waiters.lock();
        let (lens, owed) = (self.lens(), lines.owed.exclusive().saturating_add(exclusive));
        lines.owed = Lens::new(lens.shared(), owed.min(lens.exclusive()));
        self.pay(lines);
    }

    /// How many wait. Under the lock.
    fn lens(&self) -> Lens {
        Lens(self.count.load(Ordering::Relaxed))
    }

    fn set_lens(&self, lens: Lens) {
        self.count.store(lens.0, Ordering::Relaxed);
    }

    /// Wakes those who are owed a wake, or if they are many some of them.
    fn pay(&self, mut guard: SpinGuard<'_, Lines, level::WaitQueue>) {
        let (lines, order) = guard.split();
        let owed = lines.owed;
        let many = owed.sum() > TURN;
        let mut last = None;
        for _ in 0..TURN {
            let Some(node) = lines.next_owed() else { break };
            node.passes_on.store(many, Ordering::Relaxed);
            if let Some(before) = mem::replace(&mut last, node.release()) {
                before.wake_in(order.reborrow().lower());
            }
        }
        self.set_lens(self.lens().minus(owed.minus(lines.owed)));
        // Mostly it is the only one, and would wait for the lock.
        drop(guard);
        drop(last);
    }

    /// The caller puts a full fence behind it, before it looks at its condition.
    ///
    /// # Safety
    /// The node stays where it is until `take` is called.
    unsafe fn put(&self, node: &WaitNode, exclusive: bool) {
        node.woken.store(false, Ordering::Relaxed);
        node.exclusive.store(exclusive, Ordering::Relaxed);
        let mut lines = self.waiters.lock();
        // SAFETY: as the caller says.
        lines.of(node).push_back(unsafe { UnsafeRef::from_raw(node) });
        self.set_lens(self.lens().plus(Lens::of(node)));
    }

    /// Takes the node off, if it is still on; true if a waker did it before.
    fn take(&self, node: &WaitNode) -> bool {
        let mut lines = self.waiters.lock();
        if node.woken.load(Ordering::Relaxed) || !node.link.is_linked() {
            if node.passes_on.load(Ordering::Relaxed) {
                node.passes_on.store(false, Ordering::Relaxed);
                self.pay(lines);
            }
            return true;
        }
        // SAFETY: linked, and only ever put on this list while the caller waits; the lock is held.
        unsafe { lines.of(node).cursor_mut_from_ptr(node) }.remove();
        let lens = self.lens().minus(Lens::of(node));
        self.set_lens(lens);
        lines.owed = lines.owed.at_most(lens);
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
            // SAFETY: it is the running task's, and `take` follows. `sleep_alone` has the fence.
            unsafe { self.put(&task.sleep_node, exclusive) };
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
            if deadline.has_come() {
                break Err(Woken::Timeout);
            }
            if !armed {
                task.sleep_timer.arm_idle(deadline);
                armed = true;
            } else if deadline.may_move() {
                // It may have gone off before the wall clock was set back.
                task.sleep_timer.arm(deadline);
            }
        }
        schedule();
        // Mostly it was woken for a reason; else it looks again, behind a fence.
        if let Some(result) = condition() {
            break Ok(result);
        }
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
        let node = sync::try_arc(WaitNode::of(&raw const *current()))?;
        self.places.try_push((node.clone(), queue))?;
        // SAFETY: `places` has it until `clear` takes it off.
        unsafe { queue.put(&node, false) };
        fence(Ordering::SeqCst);
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

mod node;
#[cfg(test)]
mod tests;
