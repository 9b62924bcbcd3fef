//! epoll(7): interests in files that stay, and a list of those that became ready.
//!
//! An interest watches its file's queues and puts itself on the ready list when they are woken; `wait` asks the file whether
//! it is so. Level-triggered interests stay on the list while they are ready, and while a file is asked, so that all who wait find them. A file whose last descriptor is closed takes its interests with it.
//!
//! [`interests`] has what an epoll watches, [`ready`] the list, [`nest`] how epolls hang in each other. The last close of an epoll drops its interests,
//! and gives way meanwhile.
//!
//! Lock order: `NESTING` (sleeping) → `interests` (sleeping) → a file's queues → `ready`, `nest` or a file's watches, innermost.
#![deny(unsafe_code)]

mod interests;
mod nest;
mod ready;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::mem::replace;
use core::sync::atomic::Ordering::SeqCst;

use crate::lock_order as level;
use sync::level::Held;
use sync::{Mutex, SpinLock, lock_class, try_arc, try_box};

use self::interests::{Interest, Interests};
use self::nest::{Graph, NESTING, Nest};
use self::ready::ReadyList;
use crate::account::{Charge, Denied, Kind, limits};
use crate::errno::{EBADF, EEXIST, EINVAL, ENOENT, ENOMEM, ENOSPC, ETIMEDOUT, Result};
use crate::fs::caller;
use crate::fs::file::poll::{self, Pace, PollQueue, Poller, Watcher};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::sched::{Deadline, schedule_if_needed};

lock_class! {
    static INTERESTS: LockClass = ("epoll interests", level::EpollInterests);
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
/// Interests that are looked at before others may run.
const TURN: u32 = 64;
/// What every interest asks for.
const ALWAYS: u32 = poll::ERR | poll::HUP;
struct Core {
    interests: Mutex<Interests, level::EpollInterests>,
    ready: ReadyList,
    queue: PollQueue,
    nest: SpinLock<Nest, level::EpollNest>,
    /// Who made it: what it watches is counted for him.
    uid: u32,
}

impl Core {
    /// Nobody asks any more what is ready: drops all interests, and gives way meanwhile.
    fn forget_all(&self) {
        let mut interests = replace(&mut *self.interests.lock(), Interests::ended());
        let mut steps = 0u32;
        while let Some(interest) = interests.take_first() {
            self.end(&interest);
            drop(interest);
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(TURN) {
                schedule_if_needed();
            }
        }
    }

    /// A level-triggered interest was not ready: takes it from the list. What happened since then is asked for again, and returned.
    fn take_out(&self, interest: &Arc<Interest>) -> u32 {
        let gone = self
            .ready
            .change(|ready| ready.take_out(interest).inspect(|gone| gone.queued.store(false, SeqCst)));
        drop(gone);
        let now = interest.current();
        if now != 0 {
            self.put_back(interest.clone());
            // Whoever was woken for it may have looked while it was out.
            self.queue.wake_at(&mut Pace::resting());
        }
        now
    }

    fn put_back(&self, interest: Arc<Interest>) {
        if !interest.queued.swap(true, SeqCst) {
            self.ready.change(|ready| ready.push(interest));
        }
    }

    /// The interest is watched no more: it is ready no more.
    fn end(&self, interest: &Interest) {
        interest.removed.store(true, SeqCst);
        let gone = self.ready.change(|ready| ready.remove(interest));
        drop(gone);
    }
}

pub struct Epoll {
    core: Arc<Core>,
}

/// One look at all that is ready, of which nothing is told twice.
#[derive(Default)]
pub struct Round {
    /// What comes later is left for the next.
    last: u64,
    /// Looked at so far.
    steps: u32,
    has_any: bool,
}

/// Where the file lies that the epoll `file` watches as number `fd`: of several that with `before` others before it. May sleep.
///
/// # Errors
/// EINVAL: it is no epoll. ENOENT: it watches no such file. EINTR: a fatal signal came.
pub fn place_of_watched(file: &File, fd: u32, before: u32) -> Result<usize> {
    let epoll = file.downcast::<Epoll>().ok_or(EINVAL)?;
    epoll.core.interests.lock().place_of_watched(fd, before)?.ok_or(ENOENT)
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
        ready: ReadyList::new(),
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
        // A close that comes meanwhile finds what was added.
        let watched = file.clone();
        let _kept = watched.keep_open()?;
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
        if interests.ended {
            return Err(EBADF);
        }
        if interests.find(fd, &file).is_some() {
            return Err(EEXIST);
        }
        let charge = Charge::try_new(self.core.uid, Kind::Watches, 1, limits::watches());
        let charge = charge.map_err(|e| if e == Denied::Full { ENOSPC } else { ENOMEM })?;
        let interest = Interest::try_new(fd, file, event, &self.core, charge)?;
        interest.stay()?;
        let watcher: Arc<dyn Watcher> = interest.clone();
        let mut outcome = Ok(());
        let now = interest.file.poll(&mut Poller::Watcher(&watcher, &mut outcome));
        if let Err(e) = outcome {
            interest.removed.store(true, SeqCst);
            return Err(e);
        }
        interests.insert(interest.clone());
        if now & interest.wants() != 0 {
            interest.notify(&mut Pace::resting());
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
            interest.notify(&mut Pace::resting());
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
        let interest = interests.remove(fd, file).ok_or(ENOENT)?;
        drop(interests);
        self.core.end(&interest);
        Ok(())
    }

    #[cfg(test)]
    pub fn wait(&self, file: &File, events: &mut [Event], deadline: Option<u64>) -> Result<usize> {
        self.wait_round(file, &mut Round::default(), events, deadline)
    }

    /// Fills `events` with what is ready and returns how many; waits until there is one or `deadline` has come. Where they were filled, there may be `more`. `file` is this epoll's.
    pub fn wait_round(
        &self,
        file: &File,
        round: &mut Round,
        events: &mut [Event],
        deadline: Option<u64>,
    ) -> Result<usize> {
        let mut kept = None;
        loop {
            *round = Round::default();
            let n = self.more(round, events);
            if n > 0 || deadline == Some(0) {
                return Ok(n);
            }
            if kept.is_none() {
                // Closed meanwhile it keeps what it watches.
                kept = Some(file.keep_open()?);
            }
            let some = || (!self.core.ready.lock().is_empty()).then_some(());
            match self.core.queue.wait(deadline.map(Deadline::of_poll), some) {
                Ok(()) => {}
                Err(ETIMEDOUT) => {
                    *round = Round::default();
                    return Ok(self.more(round, events));
                }
                Err(e) => return Err(poll::interrupted(e)),
            }
        }
    }

    /// Fills `events` with what is ready and was not told of in this round, and returns how many.
    #[expect(clippy::arithmetic_side_effects, reason = "n is at most as many as fit")]
    pub fn more(&self, round: &mut Round, events: &mut [Event]) -> usize {
        let mut n = 0;
        while n < events.len() {
            // Who looks while nothing is ready writes nothing.
            if self.core.ready.is_empty() {
                break;
            }
            let next = self.core.ready.change(|ready| {
                // While nothing was found, those that others have moved to the end meanwhile are looked at, too.
                if !round.has_any && round.steps < TURN {
                    round.last = ready.last();
                }
                ready.next(round.last, Interest::is_level)
            });
            let Some((interest, stays)) = next else { break };
            round.steps = round.steps.wrapping_add(1);
            if round.steps.is_multiple_of(TURN) {
                schedule_if_needed();
            }
            if !stays {
                // Cleared before the file is asked: what happens after the answer queues it again.
                interest.queued.store(false, SeqCst);
            }
            let mut now = interest.current();
            if now == 0 && stays {
                now = self.core.take_out(&interest);
            }
            if now == 0 {
                continue;
            }
            let behaviour = interest.events.load(SeqCst);
            if behaviour & ONE_SHOT != 0 && !interest.fire(behaviour) {
                // Another had its one, or it was changed: it is looked at anew.
                interest.notify(&mut Pace::resting());
                continue;
            }
            if let Some(slot) = events.get_mut(n) {
                *slot = Event { events: now, data: interest.data.load(SeqCst) };
                n += 1;
                round.has_any = true;
            }
            if !stays && interest.is_level() {
                self.core.put_back(interest);
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
        if self.core.ready.lock().is_empty() { 0 } else { poll::IN | poll::RDNORM }
    }

    fn held_pages(&self, _: &File) -> u64 {
        // Of one that is being changed nobody knows.
        self.core.interests.try_lock().map_or(0, |interests| interests.count() as u64 / 16)
    }

    fn release(&self, _: &File) {
        self.core.leave();
        self.core.forget_all();
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn tell(&self, _: &File, out: &mut Vec<u8>) -> Result {
        self.core.interests.lock().tell(out)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
