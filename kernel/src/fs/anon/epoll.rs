//! epoll(7): interests in files that stay, and a list of those that became ready.
//!
//! An interest watches its file's queues and puts itself on the ready list when they are woken; `wait` asks the file whether
//! it is so. Level-triggered interests stay on the list while they are ready. A file whose last descriptor is closed drops out.
//!
//! Epolls may watch epolls. How they hang in each other is a graph of its own (`Nest`), in which no chain has more than `EDGES_MAX` edges:
//! whoever adds one counts what lies below and above it. So waking, which goes up along the chains, has a bound. Closing one cuts its
//! edges at once, though its memory may stay: an epoll that watches it refers to it until the next look. Such references form chains of any
//! length, so an interest's file is let go behind a grace period, each link by a callback of its own.
//!
//! Lock order: `NESTING` (sleeping) → `interests` (sleeping) → a file's queues → `ready` or `nest`, innermost.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::mem::take;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::lock_order as level;
use sync::level::Held;
use sync::{Mutex, SpinLock, TryVec, lock_class, try_arc, try_box};

use crate::account::{Charge, Denied, Kind, limits};
use crate::errno::{EEXIST, EINVAL, ELOOP, ENOENT, ENOMEM, ENOSPC, ETIMEDOUT, Result};
use crate::fs::caller;
use crate::fs::file::poll::{self, PollQueue, Poller, Watcher};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::fs::vfs::locks::tree::{Item, Node, Tree};
use crate::sched::schedule_if_needed;

lock_class! {
    static INTERESTS: LockClass = ("epoll interests", level::EpollInterests);
    static READY: LockClass = ("epoll ready list", level::EpollReady);
    static NESTING_CLASS: LockClass = ("epoll nesting", level::EpollNesting);
    static NEST: LockClass = ("epoll nest", level::EpollNest);
}

const EXCLUSIVE: u32 = 1 << 28;
const WAKE_UP: u32 = 1 << 29;
const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;
/// Bits that are no events.
const BEHAVIOUR: u32 = EXCLUSIVE | WAKE_UP | ONE_SHOT | EDGE;
/// What may stand beside `EXCLUSIVE`.
const WITH_EXCLUSIVE: u32 = poll::IN | poll::OUT | poll::ERR | poll::HUP | EXCLUSIVE | WAKE_UP | EDGE;
/// What every interest asks for.
const ALWAYS: u32 = poll::ERR | poll::HUP;
/// Edges of the longest chain of epolls (EP_MAX_NESTS).
const EDGES_MAX: usize = 4;

/// Held by who changes or walks the graph of epolls; how many walks there were.
static NESTING: Mutex<u64, level::EpollNesting> = Mutex::new(0, &NESTING_CLASS);

/// `NESTING` is held: what may be locked next.
type Graph<'a> = Held<'a, level::EpollNesting>;

struct Core {
    interests: Mutex<Interests, level::EpollInterests>,
    ready: SpinLock<VecDeque<Arc<Interest>>, level::EpollReady>,
    queue: PollQueue,
    nest: SpinLock<Nest, level::EpollNest>,
    /// Who made it: what it watches is counted for him.
    uid: u32,
}

/// An epoll's place in the graph. Changed under `NESTING`.
#[derive(Default)]
struct Nest {
    /// The epolls that it watches, once for each interest.
    inner: Vec<Weak<Core>>,
    /// The epolls that watch it.
    outer: Vec<Weak<Core>>,
    /// The last walk that came here, and what it found.
    walk: u64,
    longest: usize,
}

#[derive(Clone, Copy)]
enum Way {
    Down,
    Up,
}

impl Nest {
    fn next(&self, way: Way, at: usize) -> Option<&Weak<Core>> {
        match way {
            Way::Down => self.inner.get(at),
            Way::Up => self.outer.get(at),
        }
    }
}

fn is(weak: &Weak<Core>, core: &Core) -> bool {
    ptr::eq(weak.as_ptr(), core)
}

/// Takes one of the edges to `core` off a list.
fn cut(list: &mut Vec<Weak<Core>>, core: &Core) {
    if let Some(at) = list.iter().position(|weak| is(weak, core)) {
        list.swap_remove(at);
    }
}

impl Core {
    /// Edges of the longest chain from here. `NESTING` is held, whose number `walk` is new.
    ///
    /// # Errors
    /// ELOOP: the chain leads to `avoid`, or is longer than `left`, which ends the recursion.
    #[expect(clippy::arithmetic_side_effects, reason = "depth and edges are below EDGES_MAX")]
    fn longest(
        &self,
        way: Way,
        walk: u64,
        avoid: Option<&Core>,
        left: usize,
        graph: &mut Graph<'_>,
    ) -> Result<usize> {
        if avoid.is_some_and(|core| ptr::eq(core, self)) {
            return Err(ELOOP);
        }
        let (known, longest) = {
            let nest = self.nest.lock_in(graph);
            (nest.walk == walk, nest.longest)
        };
        if known {
            return if longest <= left { Ok(longest) } else { Err(ELOOP) };
        }
        let (mut longest, mut at) = (0, 0);
        loop {
            let next = match self.nest.lock_in(graph).next(way, at) {
                Some(next) => next.upgrade(),
                None => break,
            };
            if let Some(next) = next {
                let left = left.checked_sub(1).ok_or(ELOOP)?;
                longest = longest.max(1 + next.longest(way, walk, avoid, left, graph)?);
            }
            at += 1;
            schedule_if_needed();
        }
        let mut nest = self.nest.lock_in(graph);
        (nest.walk, nest.longest) = (walk, longest);
        Ok(longest)
    }

    /// May this epoll watch `other`?
    ///
    /// # Errors
    /// ELOOP.
    #[expect(clippy::arithmetic_side_effects, reason = "depth and edges are below EDGES_MAX")]
    fn check_nesting(&self, other: &Core, walks: &mut u64, graph: &mut Graph<'_>) -> Result {
        *walks += 2;
        let below = other.longest(Way::Down, *walks - 1, Some(self), EDGES_MAX - 1, graph)?;
        self.longest(Way::Up, *walks, None, EDGES_MAX - 1 - below, graph)?;
        Ok(())
    }

    /// This epoll watches `other` from now on.
    fn nest(self: &Arc<Self>, other: &Arc<Core>, graph: &mut Graph<'_>) -> Result {
        self.nest.lock_in(graph).inner.try_push(Arc::downgrade(other))?;
        let told = other.nest.lock_in(graph).outer.try_push(Arc::downgrade(self));
        if told.is_err() {
            cut(&mut self.nest.lock_in(graph).inner, other);
        }
        Ok(told?)
    }

    fn unnest(&self, other: &Core, graph: &mut Graph<'_>) {
        cut(&mut self.nest.lock_in(graph).inner, other);
        cut(&mut other.nest.lock_in(graph).outer, self);
    }

    /// Nothing hangs together by this epoll any more.
    fn leave(&self) {
        let alone = {
            let nest = self.nest.lock();
            nest.inner.is_empty() && nest.outer.is_empty()
        };
        if alone {
            return;
        }
        let mut nesting = NESTING.lock();
        let graph = nesting.held();
        let (inner, outer) = {
            let mut nest = self.nest.lock_in(graph);
            (take(&mut nest.inner), take(&mut nest.outer))
        };
        for other in inner.iter().filter_map(Weak::upgrade) {
            cut(&mut other.nest.lock_in(graph).outer, self);
        }
        for other in outer.iter().filter_map(Weak::upgrade) {
            cut(&mut other.nest.lock_in(graph).inner, self);
        }
    }
}

/// The interests of an epoll, by file and descriptor. Those whose file is closed go when as many have been added as were there.
struct Interests {
    tree: Tree<Arc<Interest>>,
    count: usize,
    sweep_at: usize,
}

impl Interests {
    const SWEEP: usize = 32;

    const fn new() -> Self {
        Interests { tree: Tree::new(), count: 0, sweep_at: Self::SWEEP }
    }

    fn find(&self, fd: i32, file: &File) -> Option<&Arc<Interest>> {
        self.tree.get(&Interest::place(fd, file))
    }

    fn insert(&mut self, node: Box<Node<Arc<Interest>>>) {
        self.tree.insert(node);
        self.count = self.count.saturating_add(1);
    }

    fn remove(&mut self, fd: i32, file: &File) -> Option<Arc<Interest>> {
        let node = self.tree.remove(&Interest::place(fd, file))?;
        self.count = self.count.saturating_sub(1);
        Some(node.item.clone())
    }

    /// Gives way: no lock is held but sleeping ones.
    fn sweep(&mut self) {
        if self.count < self.sweep_at {
            return;
        }
        let (mut last, mut steps) = ((0, i32::MIN), 0u32);
        while let Some(interest) = self.tree.first_above(&last) {
            last = interest.key();
            if interest.file.is_closed() {
                drop(self.tree.remove(&last));
                self.count = self.count.saturating_sub(1);
            }
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(64) {
                schedule_if_needed();
            }
        }
        self.sweep_at = self.count.saturating_mul(2).max(Self::SWEEP);
    }
}

impl Item for Arc<Interest> {
    type Key = (usize, i32);
    type Summary = ();
    fn key(&self) -> (usize, i32) {
        Interest::place(self.fd, &self.file)
    }
    fn summary(&self) {}
    fn joined((): (), (): ()) {}
}

struct Interest {
    fd: i32,
    file: Watched,
    events: AtomicU32,
    data: AtomicU64,
    /// On the ready list, or about to be.
    queued: AtomicBool,
    removed: AtomicBool,
    core: Weak<Core>,
    me: Weak<Interest>,
    _charge: Charge,
}

/// The file of an interest, let go behind a grace period: it may be an epoll with interests of its own.
struct Watched(Option<Arc<File>>);

impl Deref for Watched {
    type Target = File;
    fn deref(&self) -> &File {
        let Some(file) = &self.0 else { unreachable!("there is a file until the drop") };
        file
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(sync::rcu::defer_arc);
    }
}

impl Watcher for Interest {
    fn is_exclusive(&self) -> bool {
        self.events.load(SeqCst) & EXCLUSIVE != 0
    }

    fn notify(&self) -> bool {
        // A file that is closed wakes nobody, so waking goes along chains of open epolls alone, which have a bound.
        if self.removed.load(SeqCst) || self.file.is_closed() {
            return false;
        }
        let (Some(core), Some(me)) = (self.core.upgrade(), self.me.upgrade()) else { return false };
        let waited_for = core.queue.has_sleepers();
        if self.queued.swap(true, SeqCst) {
            return waited_for;
        }
        {
            let mut ready = core.ready.lock();
            // `add` reserved a place for every interest.
            if ready.len() == ready.capacity() && ready.try_reserve(1).is_err() {
                self.queued.store(false, SeqCst);
                return false;
            }
            ready.push_back(me);
        }
        core.queue.wake();
        waited_for
    }
}

impl Interest {
    fn place(fd: i32, file: &File) -> (usize, i32) {
        (ptr::from_ref(file).addr(), fd)
    }

    /// None once `ONE_SHOT` has had its one.
    fn wants(&self) -> u32 {
        self.events.load(SeqCst) & !BEHAVIOUR
    }

    fn current(&self) -> u32 {
        if self.removed.load(SeqCst) || self.file.is_closed() {
            return 0;
        }
        self.file.poll(&mut Poller::Nobody) & self.wants()
    }
}

pub struct Epoll {
    core: Arc<Core>,
}

/// What `wait` reports.
#[derive(Clone, Copy, Default)]
pub struct Event {
    pub events: u32,
    pub data: u64,
}

pub fn try_new(flags: OpenFlags) -> Result<Arc<File>> {
    let core = try_arc(Core {
        interests: Mutex::new(Interests::new(), &INTERESTS),
        ready: SpinLock::new(VecDeque::new(), &READY),
        queue: PollQueue::new(),
        nest: SpinLock::new(Nest::default(), &NEST),
        uid: caller::uid(),
    })?;
    let inode = super::nameless()?;
    File::try_anonymous(
        inode,
        "anon_inode:[eventpoll]",
        try_box(Epoll { core })?,
        flags | OpenFlags::READ_WRITE,
    )
}

impl Epoll {
    /// EPOLL_CTL_ADD of a file that can be watched.
    pub fn add(&self, fd: i32, file: Arc<File>, event: Event) -> Result {
        let nested = file.downcast::<Epoll>().is_some();
        if event.events & EXCLUSIVE != 0 && (nested || event.events & !WITH_EXCLUSIVE != 0) {
            return Err(EINVAL);
        }
        let Some(other) = file.downcast::<Epoll>().map(|other| other.core.clone()) else {
            return self.watch(fd, file, event, &mut Held::clean().lower());
        };
        if Arc::ptr_eq(&other, &self.core) {
            return Err(EINVAL);
        }
        let mut nesting = NESTING.lock();
        let (walks, graph) = nesting.split();
        self.core.check_nesting(&other, walks, graph)?;
        self.core.nest(&other, graph)?;
        let watched = self.watch(fd, file, event, graph);
        watched.inspect_err(|_| self.core.unnest(&other, graph))
    }

    /// `graph`: `NESTING` may be held.
    fn watch(&self, fd: i32, file: Arc<File>, event: Event, graph: &mut Graph<'_>) -> Result {
        let mut interests = self.core.interests.lock_in(graph);
        let (interests, order) = interests.split();
        interests.sweep();
        if interests.find(fd, &file).is_some() {
            return Err(EEXIST);
        }
        let charge = Charge::try_new(self.core.uid, Kind::Watches, 1, limits::watches());
        let charge = charge.map_err(|e| if e == Denied::Full { ENOSPC } else { ENOMEM })?;
        let count = interests.count.saturating_add(1);
        {
            let mut ready = self.core.ready.lock_in(order);
            let missing = count.saturating_sub(ready.len());
            ready.try_reserve(missing).map_err(|_| ENOMEM)?;
        }
        let interest = sync::heap::try_arc_cyclic(|me| Interest {
            fd,
            file: Watched(Some(file)),
            events: AtomicU32::new(event.events | ALWAYS),
            data: AtomicU64::new(event.data),
            queued: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            core: Arc::downgrade(&self.core),
            me: me.clone(),
            _charge: charge,
        })?;
        let node = Node::try_new(interest.clone())?;
        let watcher: Arc<dyn Watcher> = interest.clone();
        let mut outcome = Ok(());
        let now = interest.file.poll(&mut Poller::Watcher(&watcher, &mut outcome));
        if let Err(e) = outcome {
            interest.removed.store(true, SeqCst);
            return Err(e);
        }
        interests.insert(node);
        if now & interest.wants() != 0 {
            interest.notify();
        }
        Ok(())
    }

    /// EPOLL_CTL_MOD.
    ///
    /// # Errors
    /// EINVAL: one that is exclusive stays as it is, and none becomes so. ENOENT.
    pub fn modify(&self, fd: i32, file: &File, event: Event) -> Result {
        if event.events & EXCLUSIVE != 0 {
            return Err(EINVAL);
        }
        let interests = self.core.interests.lock();
        let interest = interests.find(fd, file).ok_or(ENOENT)?;
        if interest.is_exclusive() {
            return Err(EINVAL);
        }
        interest.events.store(event.events | ALWAYS, SeqCst);
        interest.data.store(event.data, SeqCst);
        if interest.current() != 0 {
            interest.notify();
        }
        Ok(())
    }

    /// EPOLL_CTL_DEL.
    pub fn remove(&self, fd: i32, file: &File) -> Result {
        let other = file.downcast::<Epoll>();
        let Some(other) = other else { return self.forget(fd, file, &mut Held::clean().lower()) };
        let mut nesting = NESTING.lock();
        let graph = nesting.held();
        self.forget(fd, file, graph)?;
        self.core.unnest(&other.core, graph);
        Ok(())
    }

    /// `graph`: `NESTING` may be held.
    fn forget(&self, fd: i32, file: &File, graph: &mut Graph<'_>) -> Result {
        let mut interests = self.core.interests.lock_in(graph);
        interests.remove(fd, file).ok_or(ENOENT)?.removed.store(true, SeqCst);
        Ok(())
    }

    /// Fills `events` with what is ready and returns how many; waits until there is one or `deadline` has come.
    pub fn wait(&self, events: &mut [Event], deadline: Option<u64>) -> Result<usize> {
        loop {
            let n = self.collect(events);
            if n > 0 || deadline == Some(0) {
                return Ok(n);
            }
            let some = || (!self.core.ready.lock().is_empty()).then_some(());
            match self.core.queue.wait(deadline, some) {
                Ok(()) => {}
                Err(ETIMEDOUT) => return Ok(self.collect(events)),
                Err(e) => return Err(poll::interrupted(e)),
            }
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "n and left share the caller's maximum")]
    fn collect(&self, events: &mut [Event]) -> usize {
        let mut n = 0;
        let mut left = self.core.ready.lock().len();
        while left > 0 && n < events.len() {
            left -= 1;
            if left.is_multiple_of(64) {
                schedule_if_needed();
            }
            let Some(interest) = self.core.ready.lock().pop_front() else { break };
            // Cleared before the file is asked: what happens after the answer queues it again.
            interest.queued.store(false, SeqCst);
            let now = interest.current();
            if now == 0 {
                continue;
            }
            if let Some(slot) = events.get_mut(n) {
                *slot = Event { events: now, data: interest.data.load(SeqCst) };
                n += 1;
            }
            let behaviour = interest.events.load(SeqCst);
            if behaviour & ONE_SHOT != 0 {
                interest.events.store(behaviour & BEHAVIOUR, SeqCst);
            } else if behaviour & EDGE == 0 && !interest.queued.swap(true, SeqCst) {
                let mut ready = self.core.ready.lock();
                if ready.len() < ready.capacity() {
                    ready.push_back(interest);
                }
            }
        }
        n
    }
}

impl FileOps for Epoll {
    fn can_read(&self) -> bool {
        false
    }

    fn can_write(&self) -> bool {
        false
    }

    /// Its own commands (of busy polling) are not there; EINVAL is what Linux says to all others.
    fn ioctl(&self, _: &File, _: u32, _: usize) -> Result<usize> {
        Err(EINVAL)
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.core.queue);
        let some = self.core.ready.lock().iter().any(|i| !i.removed.load(SeqCst) && !i.file.is_closed());
        if some { poll::IN | poll::RDNORM } else { 0 }
    }

    fn held_pages(&self, _: &File) -> u64 {
        // Of one that is being changed nobody knows.
        self.core.interests.try_lock().map_or(0, |interests| interests.count as u64 / 8)
    }

    fn release(&self, _: &File) {
        self.core.leave();
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
