//! What an epoll watches, by file and descriptor, in a red-black tree; and one watch, which a file's queues tell of changes.
//!
//! An epoll that watches another refers to it until its next look, be it closed. Such references form chains of any length, so an interest's file is let
//! go behind a grace period, each link by a callback of its own.
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

use super::{ALWAYS, BEHAVIOUR, Core, EXCLUSIVE, Event, TURN};
use crate::account::Charge;
use crate::errno::{EINTR, ENOMEM, Result};
use crate::fs::file::File;
use crate::fs::file::poll::{Pace, Poller, Watcher};
use crate::fs::vfs::device_number;
use crate::sched::{give_way, schedule_if_needed};
use sync::heap::Text;

/// The interests of an epoll, by file and descriptor. Those whose file is closed go when as many have been added as were there.
pub(super) struct Interests {
    tree: RBTree<ByPlace>,
    count: usize,
    sweep_at: usize,
}

impl Interests {
    const SWEEP: usize = 32;

    pub(super) const fn new() -> Self {
        Interests { tree: RBTree::new(ByPlace::NEW), count: 0, sweep_at: Self::SWEEP }
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

    /// Gives way: no lock is held but sleeping ones.
    pub(super) fn sweep(&mut self) {
        if self.count < self.sweep_at {
            return;
        }
        let mut at = self.tree.front_mut();
        let mut steps = 0u32;
        while let Some(interest) = at.get() {
            if interest.file.is_closed() {
                drop(at.remove());
                self.count = self.count.saturating_sub(1);
            } else {
                at.move_next();
            }
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(TURN) {
                schedule_if_needed();
            }
        }
        self.sweep_at = self.count.saturating_mul(2).max(Self::SWEEP);
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
        {
            let mut ready = core.ready.lock();
            // `add` reserved a place for every interest.
            if ready.len() == ready.capacity() && ready.try_reserve(1).is_err() {
                self.queued.store(false, SeqCst);
                return false;
            }
            ready.push_back(me);
        }
        core.queue.wake_at(pace);
        waited_for
    }
}

impl Interest {
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

    pub(super) fn current(&self) -> u32 {
        if self.removed.load(SeqCst) || self.file.is_closed() {
            return 0;
        }
        self.file.poll(&mut Poller::Nobody) & self.wants()
    }
}
