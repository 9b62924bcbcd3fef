//! An inotify instance: its watches by number, and the events that nobody has read.
//!
//! One watch is added at a time (`adding`), so that an instance has one watch of an inode at the most. Whoever tells it something takes its
//! queue's lock alone.
//!
//! Lock order: `adding` (sleeping) → an inode's watches → `watches` → `queue`.
#![deny(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU64;

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use sync::percpu::Padded;
use sync::{LocalCell, Mutex, SpinLock, TryVec, lock_class, per_cpu, slab_arc};

use super::events::ISDIR;
use super::queue::{Event, Put, Queue, Queued, Taken};
use super::watch::{Told, Watch};
use crate::account::{Charge, Denied, Kind, limits};
use crate::errno::{EBADF, EINVAL, EMFILE, ENOMEM, ENOSPC, Result};
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::numbers::{self, Blocks, Mine};
use crate::lock_order as level;
use crate::sched::schedule_if_needed;

lock_class! {
    static ADDING: LockClass = ("inotify adding", level::InotifyAdding);
    static NUMBERS: LockClass = ("inotify watches", level::InotifyWatches);
    static QUEUE: LockClass = ("inotify queue", level::InotifyQueue);
}

intrusive_adapter!(ByNumber = Arc<Watch>: Watch { by_number => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByNumber {
    type Key = i32;
    fn get_key(&self, watch: &'a Watch) -> i32 {
        watch.number
    }
}

/// Those who read from an instance, or wait for that.
pub trait Readers: Send + Sync {
    /// There is more to read. Takes spinning locks alone.
    fn wake(&self);
}

pub struct Instance {
    /// Tells it from others, in an inode's tree. Not 0.
    pub id: u64,
    /// Who made it: its watches are counted for him.
    uid: u32,
    /// The number that the next watch gets, or the first free one after it.
    adding: Mutex<i32, level::InotifyAdding>,
    /// Empty when the instance goes, since each watch keeps it: so there is nothing to drop.
    watches: SpinLock<ManuallyDrop<RBTree<ByNumber>>, level::InotifyWatches>,
    queue: SpinLock<Queue, level::InotifyQueue>,
    readers: Arc<dyn Readers>,
}

vm::slab_type!(Instance, "inotify", Arc);

static NEXT: Blocks = Padded(AtomicU64::new(1));
per_cpu! { static MINE: Mine = LocalCell::new((0, 0)); }

/// What a few numbers in a row are.
enum Near {
    Free(i32),
    /// All are used; where to go on.
    Further(i32),
    /// There are no more.
    None,
}

/// Steps of a loop before others may run.
const TURN: usize = 64;

/// A Linux error for what may not be counted.
fn refused(denied: Denied, full: crate::errno::Errno) -> crate::errno::Errno {
    match denied {
        Denied::Full => full,
        Denied::NoMemory => ENOMEM,
    }
}

impl Instance {
    /// An instance of user `uid`, read by `readers`.
    ///
    /// # Errors
    /// EMFILE: the user has as many as may be. ENOMEM.
    pub fn try_new(uid: u32, readers: Arc<dyn Readers>) -> Result<Arc<Instance>> {
        let limit = limits::INOTIFY_INSTANCES.get();
        let charge =
            Charge::try_new(uid, Kind::InotifyInstances, 1, limit).map_err(|d| refused(d, EMFILE))?;
        let events = Charge::try_new(uid, Kind::InotifyEvents, 0, sync::quota::UNLIMITED);
        let most = usize::try_from(limits::INOTIFY_EVENTS.get()).unwrap_or(usize::MAX);
        let queue = Queue::try_new(most, events.map_err(|d| refused(d, ENOMEM))?, Some(charge))?;
        Ok(slab_arc(Instance {
            id: numbers::take(&NEXT, MINE.this()),
            uid,
            adding: Mutex::new(1, &ADDING),
            watches: SpinLock::new(ManuallyDrop::new(RBTree::new(ByNumber::NEW)), &NUMBERS),
            queue: SpinLock::new(queue, &QUEUE),
            readers,
        })?)
    }

    /// Watches `inode`, or changes what is watched of it; the watch's number. May sleep.
    ///
    /// # Errors
    /// EEXIST: it is watched, and `asked` has MASK_CREATE. ENOSPC: the user has as many watches as may be. ENOMEM. EBADF: closed.
    pub fn watch(self: &Arc<Self>, inode: &Arc<Inode>, asked: u32) -> Result<i32> {
        inode.watched.make()?;
        let mut next = self.adding.lock();
        if let Some(changed) = inode.watched.change(self, asked) {
            return changed;
        }
        // The number is used up whatever comes of it, as on Linux.
        let number = self.free_number(*next)?;
        *next = number.checked_add(1).unwrap_or(1);
        let charge = Charge::try_new(self.uid, Kind::InotifyWatches, 1, limits::inotify_watches());
        let charge = charge.map_err(|d| refused(d, ENOSPC))?;
        let watch = Watch::try_new(number, inode.clone(), self.clone(), asked, charge)?;
        if inode.watched.enter(&watch) { Ok(number) } else { Err(EBADF) }
    }

    /// The first number from `from` on, and then from 1 on, that no watch has. Gives way: a program chooses where it begins.
    ///
    /// # Errors
    /// ENOSPC: there is none.
    fn free_number(&self, from: i32) -> Result<i32> {
        let mut from = from.max(1);
        for wrapped in [false, true] {
            loop {
                match self.free_near(from) {
                    Near::Free(free) => return Ok(free),
                    Near::Further(further) => from = further,
                    Near::None => break,
                }
                schedule_if_needed();
            }
            if !wrapped {
                from = 1;
            }
        }
        Err(ENOSPC)
    }

    /// A free number among a few from `from` on.
    fn free_near(&self, from: i32) -> Near {
        let watches = self.watches.lock();
        let mut cursor = watches.lower_bound(Bound::Included(&from));
        let mut free = from;
        for _ in 0..TURN {
            match cursor.get() {
                Some(watch) if watch.number == free => match free.checked_add(1) {
                    Some(next) => free = next,
                    None => return Near::None,
                },
                _ => return Near::Free(free),
            }
            cursor.move_next();
        }
        Near::Further(free)
    }

    /// The next watch gets the number `next`, or the first free one after it (INOTIFY_IOC_SETNEXTWD).
    pub fn set_next(&self, next: i32) {
        *self.adding.lock() = next;
    }

    /// Ends a watch.
    ///
    /// # Errors
    /// EINVAL: there is none of that number.
    pub fn unwatch(&self, number: i32) -> Result {
        let found = self.watches.lock().find(&number).clone_pointer().ok_or(EINVAL)?;
        if found.end() { Ok(()) } else { Err(EINVAL) }
    }

    /// Under the lock of the inode's watches: puts the watch among those by number. False: the instance is closed.
    pub(super) fn enter(&self, watch: &Arc<Watch>) -> bool {
        let mut watches = self.watches.lock();
        if self.queue.lock().is_closed() {
            return false;
        }
        watches.insert(watch.clone());
        true
    }

    /// Under the lock of the inode's watches: the watch ends, and its last event is queued. Says whether somebody is to be woken for that.
    pub(super) fn end(&self, watch: &Watch) -> bool {
        let mut event = Queued::try_new(watch.last_event()).ok();
        let put = {
            let mut queue = self.queue.lock();
            watch.set_ended();
            queue.put(&mut event)
        };
        self.watches.lock().find_mut(&watch.number).remove();
        put == Put::Queued
    }

    /// Queues an event, of `watch` if it has not ended meanwhile, and wakes who waits for it.
    pub(super) fn put(&self, watch: &Watch, event: Event) {
        let mut new = Queued::try_new(event).ok();
        let put = {
            let mut queue = self.queue.lock();
            if !watch.is_alive() {
                return;
            }
            queue.put(&mut new)
        };
        if put == Put::Queued {
            self.wake();
        }
    }

    /// Something was not told, for want of memory.
    pub(super) fn put_lost(&self) {
        let put = self.queue.lock().put(&mut None);
        if put == Put::Queued {
            self.wake();
        }
    }

    /// There is more to read. No spinning lock of a watch or queue is held.
    pub(super) fn wake(&self) {
        self.readers.wake();
    }

    /// Takes the first event, if it fits into `room` bytes.
    pub fn take(&self, room: usize) -> Taken {
        self.queue.lock().take(room)
    }

    pub fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }

    /// Events that nobody has read.
    pub fn waiting(&self) -> usize {
        self.queue.lock().len()
    }

    /// Bytes that a program would read now.
    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes()
    }

    /// The last descriptor is closed: all watches end, and nobody is told. Gives way.
    pub fn close(&self) {
        let mut rest = self.queue.lock().close();
        let mut steps = 0usize;
        let mut step = || {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(TURN) {
                schedule_if_needed();
            }
        };
        while rest.drop_one() {
            step();
        }
        loop {
            let first = self.watches.lock().front().clone_pointer();
            let Some(first) = first else { return };
            first.end();
            step();
        }
    }

    /// Calls `f` for each watch, the last one first. Gives way; those that come and go meanwhile may be left out.
    pub fn for_each(&self, mut f: impl FnMut(&Watch) -> Result) -> Result {
        let mut before = None;
        loop {
            let next = {
                let watches = self.watches.lock();
                match &before {
                    None => watches.back().clone_pointer(),
                    Some(number) => watches.upper_bound(Bound::Excluded(number)).clone_pointer(),
                }
            };
            let Some(next) = next else { return Ok(()) };
            before = Some(next.number);
            f(&next)?;
            schedule_if_needed();
        }
    }

    /// The file system of `device` is unmounted: the watches of its files are told and end, in the order in which Linux does it, the file first that was
    /// made last. May sleep.
    pub fn unmounted(&self, device: u64, told: u32) {
        let mut all: Vec<Arc<Inode>> = Vec::new();
        // Without memory the rest learns of it when the file system's names go.
        let _ = self.for_each(|watch| {
            if watch.inode.device == device {
                all.try_push(watch.inode.clone())?;
            }
            Ok(())
        });
        crate::sort::by_key(&mut all, |inode| core::cmp::Reverse(inode.number));
        for inode in all {
            let mask = if inode.is_dir() { told | ISDIR } else { told };
            inode.watched.end(&Told { mask, cookie: 0, name: None, gone: false, rests: true });
            schedule_if_needed();
        }
    }
}
