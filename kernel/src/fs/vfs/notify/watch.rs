//! Watches: what one inotify instance wants to know of one inode.
//!
//! ```text
//!   instance ──by number──▶ watch ◀──by instance── inode
//!                             └──▶ instance, inode
//! ```
//!
//! A watch is in both trees or in neither, which is decided under the inode's lock. It keeps its inode and its instance in memory, and they it, until it
//! ends: by its number, with the last close of its instance, when its file is gone, when it was to tell one event only. Then it is taken out
//! of both, so what refers to each other in a circle does so no longer than a program asks for it.
//!
//! Whoever asks whether anything of an inode is watched reads one word, which changes as watches come and go.
//!
//! Lock order: an inode's watches → an instance's → its queue.
#![deny(unsafe_code)]

use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use once_cell::race::OnceBox;
use sync::{Mutex, SpinLock, lock_class, slab_arc, try_box};

use super::events::{ALL, EXCL_UNLINK, IGNORED, ISDIR, KEPT, KINDS, MASK_ADD, MASK_CREATE};
use super::events::{DELETE_SELF, MOVE_SELF, ONESHOT, UNMOUNT};
use super::instance::Instance;
use super::queue::Event;
use super::signals::Signals;
use crate::account::Charge;
use crate::errno::{EEXIST, ENOMEM, Result};
use crate::fs::vfs::dentry::Name;
use crate::fs::vfs::inode::Inode;
use crate::lock_order as level;

lock_class! {
    static WATCHES: LockClass = ("inode watches", level::InodeWatches);
    static TELLING: LockClass = ("directory signals", level::DirectorySignals);
}

pub struct Watch {
    /// Its number in its instance.
    pub number: i32,
    pub inode: Arc<Inode>,
    pub instance: Arc<Instance>,
    /// The events that it wants, and what of `KEPT` it was asked for. Changes under the inode's lock.
    mask: AtomicU32,
    /// It is in both trees. Changes under the inode's lock and the queue's.
    alive: AtomicBool,
    by_instance: RBTreeAtomicLink,
    pub(super) by_number: RBTreeAtomicLink,
    _charge: Charge,
}

vm::slab_type!(Watch, "inotify-watch", Arc);

intrusive_adapter!(ByInstance = Arc<Watch>: Watch { by_instance => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByInstance {
    type Key = u64;
    fn get_key(&self, watch: &'a Watch) -> u64 {
        watch.instance.id
    }
}

impl Watch {
    pub fn try_new(
        number: i32,
        inode: Arc<Inode>,
        instance: Arc<Instance>,
        asked: u32,
        charge: Charge,
    ) -> Result<Arc<Watch>> {
        Ok(slab_arc(Watch {
            number,
            inode,
            instance,
            mask: AtomicU32::new(asked & (ALL | KEPT)),
            alive: AtomicBool::new(false),
            by_instance: RBTreeAtomicLink::new(),
            by_number: RBTreeAtomicLink::new(),
            _charge: charge,
        })?)
    }

    pub fn mask(&self) -> u32 {
        self.mask.load(Relaxed)
    }

    /// It has not ended. Asked under the queue's lock, it stays so meanwhile.
    pub fn is_alive(&self) -> bool {
        self.alive.load(Relaxed)
    }

    /// Tells its instance what happened, if it wants to know.
    pub fn tell(self: &Arc<Self>, told: &Told<'_>) {
        let wanted = self.mask();
        let left_out = told.gone && wanted & EXCL_UNLINK != 0;
        if left_out || told.mask & (wanted & ALL | UNMOUNT) == 0 {
            return;
        }
        // That it is a directory is not said of what happens to it as a whole.
        let whole = told.mask & (MOVE_SELF | DELETE_SELF) != 0;
        let mask = if whole { told.mask & !ISDIR } else { told.mask };
        let event = Event { watch: self.number, mask, cookie: told.cookie, name: told.name.cloned() };
        self.instance.put(self, event);
        if wanted & ONESHOT != 0 {
            self.end();
        }
    }

    /// It ends, and says so. False: it had ended already. Takes spinning locks alone.
    pub fn end(self: &Arc<Self>) -> bool {
        let Some(set) = self.inode.watched.set.get() else { return false };
        let said = {
            let mut inner = set.inner.lock();
            if !self.is_alive() {
                return false;
            }
            let said = self.instance.end(self);
            inner.tree.find_mut(&self.instance.id).remove();
            inner.count(self.mask(), 0);
            self.inode.watched.interest.store(inner.interest(), SeqCst);
            said
        };
        if said {
            self.instance.wake();
        }
        true
    }

    /// Under the queue's lock: it is in no tree from now on.
    pub(super) fn set_ended(&self) {
        self.alive.store(false, Relaxed);
    }

    /// The last event of a watch that has ended.
    pub(super) fn last_event(&self) -> Event {
        Event { watch: self.number, mask: IGNORED, cookie: 0, name: None }
    }
}

/// What happened to an inode, or to a name in it.
pub struct Told<'a> {
    pub mask: u32,
    pub cookie: u32,
    pub name: Option<&'a Arc<Name>>,
    /// It happened by way of a name that is gone.
    pub gone: bool,
    /// Whoever tells may give way.
    pub rests: bool,
}

/// An inode's side: who watches it.
pub struct Watched {
    /// All events that anybody wants.
    pub(super) interest: AtomicU32,
    /// Made by the first watch.
    pub(super) set: OnceBox<Set>,
}

pub(super) struct Set {
    pub(super) inner: SpinLock<Inner, level::InodeWatches>,
    /// Somebody tells by signals.
    pub(super) telling: Mutex<(), level::DirectorySignals>,
    /// There has been a watch that tells by signal.
    pub(super) signalled: AtomicBool,
}

pub(super) struct Inner {
    /// Empty when the inode goes, since each watch keeps it: so there is nothing to drop.
    tree: ManuallyDrop<RBTree<ByInstance>>,
    pub(super) signals: Signals,
    /// For each event, how many want it.
    wanted: [u32; KINDS],
}

impl Inner {
    fn new() -> Inner {
        let tree = ManuallyDrop::new(RBTree::new(ByInstance::NEW));
        Inner { tree, signals: Signals::new(), wanted: [0; KINDS] }
    }

    pub(super) fn interest(&self) -> u32 {
        self.wanted.iter().rev().fold(0, |all, n| all << 1 | u32::from(*n != 0))
    }

    /// A watch wants other events than before.
    pub(super) fn count(&mut self, before: u32, after: u32) {
        let mut bit = 1;
        for n in &mut self.wanted {
            match (before & bit != 0, after & bit != 0) {
                (false, true) => *n = n.saturating_add(1),
                (true, false) => *n = n.saturating_sub(1),
                _ => {}
            }
            bit <<= 1;
        }
    }
}

/// Watches that are told before others may run.
pub(super) const TURN: u32 = 64;

impl Watched {
    pub const fn new() -> Watched {
        Watched { interest: AtomicU32::new(0), set: OnceBox::new() }
    }

    /// Does anybody want one of these events?
    #[inline(always)]
    pub fn wants(&self, mask: u32) -> bool {
        self.interest.load(SeqCst) & mask != 0
    }

    /// Is there a watch of inotify's, whatever it wants?
    pub fn is_watched(&self) -> bool {
        self.set.get().is_some_and(|set| !set.inner.lock().tree.is_empty())
    }

    /// Makes what watches are put into.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn make(&self) -> Result {
        if self.set.get().is_none() {
            let set = Set {
                inner: SpinLock::new(Inner::new(), &WATCHES),
                telling: Mutex::new((), &TELLING),
                signalled: AtomicBool::new(false),
            };
            // Another may have been the first.
            let _ = self.set.set(try_box(set)?);
        }
        self.set.get().map(drop).ok_or(ENOMEM)
    }

    /// Changes what `instance` wants, where it watches the inode already; its watch's number.
    ///
    /// # Errors
    /// EEXIST: it does, and asks for a new one (`MASK_CREATE`).
    pub fn change(&self, instance: &Instance, asked: u32) -> Option<Result<i32>> {
        let mut inner = self.set.get()?.inner.lock();
        let found = inner.tree.find(&instance.id).clone_pointer()?;
        if asked & MASK_CREATE != 0 {
            return Some(Err(EEXIST));
        }
        let before = found.mask();
        let kept = if asked & MASK_ADD != 0 { before } else { 0 };
        let after = kept | asked & (ALL | KEPT);
        inner.count(before, after);
        found.mask.store(after, Relaxed);
        self.interest.store(inner.interest(), SeqCst);
        Some(Ok(found.number))
    }

    /// Puts in a new watch of this inode. Its instance has none yet, and adds no other meanwhile. False: the instance is closed.
    pub fn enter(&self, watch: &Arc<Watch>) -> bool {
        let Some(set) = self.set.get() else { return false };
        let mut inner = set.inner.lock();
        if !watch.instance.enter(watch) {
            return false;
        }
        watch.alive.store(true, Relaxed);
        inner.tree.insert(watch.clone());
        inner.count(0, watch.mask());
        self.interest.store(inner.interest(), SeqCst);
        true
    }

    /// Tells all watches. Each is told without the lock of the others.
    pub fn tell(&self, told: &Told<'_>) {
        let Some(set) = self.set.get() else { return };
        self.tell_signals(set, told);
        let (mut last, mut steps) = (0, 0u32);
        loop {
            let next = set.inner.lock().tree.lower_bound(Bound::Excluded(&last)).clone_pointer();
            let Some(next) = next else { return };
            last = next.instance.id;
            next.tell(told);
            steps = steps.wrapping_add(1);
            if told.rests && steps.is_multiple_of(TURN) {
                crate::sched::schedule_if_needed();
            }
        }
    }

    /// The inode is gone, or its file system: all watches are told `told`, and end.
    pub fn end(&self, told: &Told<'_>) {
        let Some(set) = self.set.get() else { return };
        self.tell(told);
        let mut steps = 0u32;
        loop {
            let first = set.inner.lock().tree.front().clone_pointer();
            let Some(first) = first else { return };
            first.end();
            steps = steps.wrapping_add(1);
            if told.rests && steps.is_multiple_of(TURN) {
                crate::sched::schedule_if_needed();
            }
        }
    }
}

// It is a part of every inode: one word to look at, and one that leads to the rest.
const _: () = assert!(size_of::<Watched>() <= 16);
