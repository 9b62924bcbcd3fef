//! epoll(7): interests in files that stay, and a list of those that became ready.
//!
//! An interest watches its file's queues and puts itself on the ready list when they are woken; `wait` asks the file whether
//! it is so. Level-triggered interests stay on the list while they are ready. A file whose last descriptor is closed drops out.
//!
//! Lock order: `interests` (sleeping) → a file's queues → `ready`, innermost.
#![forbid(unsafe_code)]

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use sync::{Mutex, SpinLock, TryVec, lock_class, try_arc, try_box};

use crate::errno::{EEXIST, EINVAL, ELOOP, ENOENT, ENOMEM, EPERM, ETIMEDOUT, Result};
use crate::fs::file::poll::{self, PollQueue, Poller, Watcher};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::fs::vfs::inode::Kind;

lock_class! {
    static INTERESTS: LockClass = ("epoll interests", sync::level::Other);
    static READY: LockClass = ("epoll ready list", sync::level::Other);
}

const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;
/// Bits that are no events.
const BEHAVIOUR: u32 = 0xf << 28;
const NESTING_MAX: usize = 5;

struct Core {
    interests: Mutex<Vec<Arc<Interest>>>,
    ready: SpinLock<VecDeque<Arc<Interest>>>,
    queue: PollQueue,
}

struct Interest {
    fd: i32,
    file: Arc<File>,
    events: AtomicU32,
    data: AtomicU64,
    /// On the ready list, or about to be.
    queued: AtomicBool,
    removed: AtomicBool,
    core: Weak<Core>,
    me: Weak<Interest>,
}

impl Watcher for Interest {
    fn notify(&self) {
        let (Some(core), Some(me)) = (self.core.upgrade(), self.me.upgrade()) else { return };
        if self.queued.swap(true, SeqCst) {
            return;
        }
        {
            let mut ready = core.ready.lock();
            // `add` reserved a place for every interest.
            if ready.len() == ready.capacity() && ready.try_reserve(1).is_err() {
                self.queued.store(false, SeqCst);
                return;
            }
            ready.push_back(me);
        }
        core.queue.wake();
    }
}

impl Interest {
    fn wants(&self) -> u32 {
        let events = self.events.load(SeqCst);
        if events & !BEHAVIOUR == 0 { 0 } else { events & !BEHAVIOUR | poll::ERR | poll::HUP }
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
        interests: Mutex::new(Vec::new(), &INTERESTS),
        ready: SpinLock::new(VecDeque::new(), &READY),
        queue: PollQueue::new(),
    })?;
    let inode = super::inode(Kind::Regular, 0o600)?;
    File::try_anonymous(
        inode,
        "anon_inode:[eventpoll]",
        try_box(Epoll { core })?,
        flags | OpenFlags::READ_WRITE,
    )
}

/// How deep epolls hang in each other below `file`.
fn depth(file: &File, limit: usize) -> usize {
    let Some(epoll) = file.downcast::<Epoll>() else { return 0 };
    if limit == 0 {
        return 1;
    }
    let inner = match epoll.core.interests.try_lock() {
        Some(interests) => interests.iter().map(|i| depth(&i.file, limit - 1)).max().unwrap_or(0),
        // Somebody is changing it: taken for too deep rather than waited for, for it may be ourselves.
        None => NESTING_MAX,
    };
    inner + 1
}

impl Epoll {
    fn same(interest: &Interest, fd: i32, file: &File) -> bool {
        interest.fd == fd && ptr::eq(&*interest.file, file)
    }

    /// EPOLL_CTL_ADD.
    pub fn add(&self, fd: i32, file: Arc<File>, event: Event) -> Result {
        if matches!(file.inode().kind, Kind::Regular | Kind::Directory) && file.path().is_some() {
            return Err(EPERM);
        }
        if let Some(other) = file.downcast::<Epoll>() {
            if Arc::ptr_eq(&other.core, &self.core) {
                return Err(EINVAL);
            }
            if depth(&file, NESTING_MAX) >= NESTING_MAX || other.reaches(&self.core, NESTING_MAX) {
                return Err(ELOOP);
            }
        }
        let mut interests = self.core.interests.lock();
        interests.retain(|i| !i.file.is_closed());
        if interests.iter().any(|i| Self::same(i, fd, &file)) {
            return Err(EEXIST);
        }
        let count = interests.len() + 1;
        {
            let mut ready = self.core.ready.lock();
            let missing = count.saturating_sub(ready.len());
            ready.try_reserve(missing).map_err(|_| ENOMEM)?;
        }
        let interest = sync::heap::try_arc_cyclic(|me| Interest {
            fd,
            file,
            events: AtomicU32::new(event.events),
            data: AtomicU64::new(event.data),
            queued: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            core: Arc::downgrade(&self.core),
            me: me.clone(),
        })?;
        interests.try_push(interest.clone())?;
        let watcher: Arc<dyn Watcher> = interest.clone();
        let mut outcome = Ok(());
        let now = interest.file.poll(&mut Poller::Watcher(&watcher, &mut outcome));
        if let Err(e) = outcome {
            interests.pop();
            return Err(e);
        }
        if now & interest.wants() != 0 {
            interest.notify();
        }
        Ok(())
    }

    fn reaches(&self, core: &Arc<Core>, limit: usize) -> bool {
        if limit == 0 {
            return true;
        }
        let Some(interests) = self.core.interests.try_lock() else { return true };
        interests.iter().any(|i| {
            i.file
                .downcast::<Epoll>()
                .is_some_and(|e| Arc::ptr_eq(&e.core, core) || e.reaches(core, limit - 1))
        })
    }

    /// EPOLL_CTL_MOD.
    pub fn modify(&self, fd: i32, file: &File, event: Event) -> Result {
        let interests = self.core.interests.lock();
        let interest = interests.iter().find(|i| Self::same(i, fd, file)).ok_or(ENOENT)?;
        interest.events.store(event.events, SeqCst);
        interest.data.store(event.data, SeqCst);
        if interest.current() != 0 {
            interest.notify();
        }
        Ok(())
    }

    /// EPOLL_CTL_DEL.
    pub fn remove(&self, fd: i32, file: &File) -> Result {
        let mut interests = self.core.interests.lock();
        let at = interests.iter().position(|i| Self::same(i, fd, file)).ok_or(ENOENT)?;
        interests.swap_remove(at).removed.store(true, SeqCst);
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

    fn collect(&self, events: &mut [Event]) -> usize {
        let mut n = 0;
        let mut left = self.core.ready.lock().len();
        while left > 0 && n < events.len() {
            left -= 1;
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
    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.core.queue);
        let some = self.core.ready.lock().iter().any(|i| !i.removed.load(SeqCst) && !i.file.is_closed());
        if some { poll::IN | poll::RDNORM } else { 0 }
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
