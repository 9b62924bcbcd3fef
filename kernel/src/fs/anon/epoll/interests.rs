//! What an epoll watches, by file and descriptor, in a red-black tree; and one watch, which a file's queues tell of changes.
//!
//! An interest ends by EPOLL_CTL_DEL, or with the last close of its file or its epoll; then nothing keeps it but who looks at it just now. An interest's
//! file may be an epoll with interests of its own, so it is let go behind a grace period, each link of such a chain by a callback of its own.
//!
//! Lock order: as the epoll's (`super`).
#![deny(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::Write;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use scopeguard::ScopeGuard;

use intrusive_collections::{KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};

use super::{ALWAYS, BEHAVIOUR, Core, EDGE, EXCLUSIVE, Event, ONE_SHOT};
use crate::account::Charge;
use crate::errno::{EINTR, ENOMEM, Result};
use crate::fs::file::File;
use crate::fs::file::poll::{Pace, Poller, Watcher};
use crate::fs::vfs::device_number;
use crate::sched::give_way;
use sync::heap::Text;

/// The interests of an epoll, by file and descriptor.
pub(super) struct Interests {
    tree: RBTree<ByPlace>,
    count: usize,
    /// The epoll is closed: none comes any more.
    pub(super) ended: bool,
}

impl Interests {
    pub(super) const fn new() -> Self {
        Interests { tree: RBTree::new(ByPlace::NEW), count: 0, ended: false }
    }

    /// For an epoll that is closed.
    pub(super) fn ended() -> Self {
        Interests { ended: true, ..Self::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn find(&self, fd: i32, file: &File) -> Option<&Interest> {
        self.tree.find(&Interest::place(fd, file)).get()
    }

    pub(super) fn insert(&mut self, interest: Arc<Interest>) {
        self.tree.insert(interest);
        self.count = self.count.saturating_add(1);
    }

    pub(super) fn remove(&mut self, fd: i32, file: &File) -> Option<Arc<Interest>> {
        let gone = self.tree.find_mut(&Interest::place(fd, file)).remove()?;
        self.count = self.count.saturating_sub(1);
        Some(gone)
    }

    pub(super) fn take_first(&mut self) -> Option<Arc<Interest>> {
        let first = self.tree.front_mut().remove()?;
        self.count = self.count.saturating_sub(1);
        Some(first)
    }

    /// Where the file lies that is watched as number `fd`: of several that with `before` others before it. None: there is none. Gives way.
    ///
    /// # Errors
    /// EINTR: a fatal signal came.
    pub(super) fn place_of_watched(&self, fd: u32, mut before: u32) -> Result<Option<usize>> {
        for interest in self.tree.iter() {
            if give_way() {
                return Err(EINTR);
            }
            if interest.fd.cast_unsigned() != fd || interest.file.is_closed() {
                continue;
            }
            match before.checked_sub(1) {
                Some(left) => before = left,
                None => return Ok(Some(ptr::from_ref::<File>(&interest.file).addr())),
            }
        }
        Ok(None)
    }

    /// A line of each whose file is open. Gives way, and ends at a signal that kills.
    pub(super) fn tell(&self, out: &mut Vec<u8>) -> Result {
        for interest in self.tree.iter() {
            if give_way() {
                return Err(EINTR);
            }
            if interest.file.is_closed() {
                continue;
            }
            let inode = interest.file.inode();
            let device = device_number::major(inode.device) << 20 | device_number::minor(inode.device);
            let written = writeln!(
                Text(out),
                "tfd: {:8} events: {:8x} data: {:16x}  pos:{} ino:{:x} sdev:{device:x}",
                interest.fd,
                interest.events.load(SeqCst),
                interest.data.load(SeqCst),
                interest.file.position_seen(),
                inode.number,
            );
            written.map_err(|_| ENOMEM)?;
        }
        Ok(())
    }
}

pub(super) struct Interest {
    fd: i32,
    pub(super) file: Watched,
    pub(super) events: AtomicU32,
    pub(super) data: AtomicU64,
    /// On the ready list, or about to be.
    pub(super) queued: AtomicBool,
    pub(super) removed: AtomicBool,
    link: RBTreeAtomicLink,
    /// Its place among what is ready, and its number there.
    pub(super) ready: RBTreeAtomicLink,
    pub(super) turn: AtomicU64,
    /// As what it leaves the file's watches. 0: it is not there.
    stay: AtomicU64,
    core: Weak<Core>,
    me: Weak<Interest>,
    _charge: Charge,
}

intrusive_adapter!(ByPlace = Arc<Interest>: Interest { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByPlace {
    type Key = (usize, i32);
    fn get_key(&self, interest: &'a Interest) -> (usize, i32) {
        Interest::place(interest.fd, &interest.file)
    }
}

/// The file of an interest, let go behind a grace period: it may be an epoll with interests of its own.
pub(super) struct Watched(ScopeGuard<Arc<File>, fn(Arc<File>)>);

impl Watched {
    fn new(file: Arc<File>) -> Self {
        Self(scopeguard::guard(file, sync::rcu::defer_arc))
    }
}

impl Deref for Watched {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Watcher for Interest {
    fn is_exclusive(&self) -> bool {
        self.events.load(SeqCst) & EXCLUSIVE != 0
    }

    fn notify(&self, pace: &mut Pace) -> bool {
        // A file that is closed wakes nobody, so waking goes along chains of open epolls alone, which have a bound.
        if self.removed.load(SeqCst) || self.file.is_closed() {
            return false;
        }
        let (Some(core), Some(me)) = (self.core.upgrade(), self.me.upgrade()) else { return false };
        let waited_for = core.queue.has_sleepers();
        if self.queued.swap(true, SeqCst) {
            return waited_for;
        }
        core.ready.change(|ready| ready.push(me));
        core.queue.wake_at(pace);
        waited_for
    }

    fn file_closed(&self) {
        if let Some(core) = self.core.upgrade() {
            let gone = core.interests.lock().remove(self.fd, &self.file);
            core.end(self);
            drop(gone);
        }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        match *self.stay.get_mut() {
            0 => {}
            stay => self.file.stays.remove(stay),
        }
    }
}

impl Interest {
    /// It ends with its file, which the caller keeps open.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn stay(self: &Arc<Self>) -> Result {
        let watcher: Weak<dyn Watcher> = Arc::<Interest>::downgrade(self);
        self.stay.store(self.file.stays.put(watcher)?, SeqCst);
        Ok(())
    }

    pub(super) fn try_new(
        fd: i32,
        file: Arc<File>,
        event: Event,
        core: &Arc<Core>,
        charge: Charge,
    ) -> Result<Arc<Interest>> {
        Ok(sync::heap::try_arc_cyclic(|me| Interest {
            fd,
            file: Watched::new(file),
            events: AtomicU32::new(event.events | ALWAYS),
            data: AtomicU64::new(event.data),
            queued: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            link: RBTreeAtomicLink::new(),
            ready: RBTreeAtomicLink::new(),
            turn: AtomicU64::new(0),
            stay: AtomicU64::new(0),
            core: Arc::downgrade(core),
            me: me.clone(),
            _charge: charge,
        })?)
    }

    fn place(fd: i32, file: &File) -> (usize, i32) {
        (ptr::from_ref(file).addr(), fd)
    }

    /// None once `ONE_SHOT` has had its one.
    pub(super) fn wants(&self) -> u32 {
        self.events.load(SeqCst) & !BEHAVIOUR
    }

    /// Is it told of again and again while it is ready?
    pub(super) fn is_level(&self) -> bool {
        self.events.load(SeqCst) & (EDGE | ONE_SHOT) == 0
    }

    /// `ONE_SHOT` has its one, if it still wants what it wanted.
    pub(super) fn fire(&self, wanted: u32) -> bool {
        self.events.compare_exchange(wanted, wanted & BEHAVIOUR, SeqCst, SeqCst).is_ok()
    }

    pub(super) fn current(&self) -> u32 {
        if self.removed.load(SeqCst) || self.file.is_closed() {
            return 0;
        }
        self.file.poll(&mut Poller::Nobody) & self.wants()
    }
}
