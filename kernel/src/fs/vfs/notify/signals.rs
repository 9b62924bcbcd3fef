//! Watches of directories that tell by a signal (fcntl(2), F_NOTIFY; Linux calls it dnotify).
//!
//! A watch belongs to an open file, as one table of descriptors has it ([`Opening`]): it ends when a descriptor of that table is closed that means the file,
//! whichever, and with the table; and by its first event, unless it is to tell again. So there are no more of them than descriptors.
//!
//! A directory's watches are in two trees, by opening and by age, of which both change under the lock of the inode's watches. They are counted for the
//! inode's interest as inotify's are, so who works on a directory that nobody watches pays nothing more.
//!
//! No signal comes after the close that ended its watch: who tells holds `telling`, and who closes waits for that.
//!
//! Lock order: a directory's names, a file's position → `telling` (sleeping) → the inode's watches; `telling` → signals.
#![deny(unsafe_code)]

use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use linux_raw_sys::general::{
    DN_ACCESS, DN_ATTRIB, DN_CREATE, DN_DELETE, DN_MODIFY, DN_MULTISHOT, DN_RENAME,
};
use sync::percpu::Padded;
use sync::slab_arc;

use super::events::{ACCESS, ATTRIB, CREATE, DELETE, MODIFY, MOVED_FROM, MOVED_TO, RENAME};
use super::watch::{Set, TURN, Told, Watched};
use crate::account::limits::Setting;
use crate::errno::{ENOMEM, Result};

/// fs.dir-notify-enable: 0: nobody gets a watch. An integer, as programs write it.
pub static ENABLED: Setting = Setting::new(1);

/// On lines of its own, since all who close read it.
static USED: Padded<AtomicBool> = Padded(AtomicBool::new(false));

/// Has anybody ever had such a watch?
#[inline(always)]
pub fn is_used() -> bool {
    USED.load(Relaxed)
}

/// Whose a watch is: an open file's, in a table of descriptors. Each by its place in memory, where it stays for longer than the watch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening {
    pub table: usize,
    pub file: usize,
}

/// Whom a watch tells.
pub trait Owner: Send + Sync {
    /// Something happened in the directory that `fd` was when it was asked for. No spinning lock is held.
    fn tell(&self, fd: i32);
}

/// It goes on after an event.
const MULTISHOT: u32 = 1 << 31;

/// Each event of F_NOTIFY, and those of inotify that it stands for.
const EVENTS: [(u32, u32); 7] = [
    (DN_ACCESS, ACCESS),
    (DN_MODIFY, MODIFY),
    (DN_CREATE, CREATE | MOVED_TO),
    (DN_DELETE, DELETE | MOVED_FROM),
    (DN_RENAME, RENAME),
    (DN_ATTRIB, ATTRIB),
    (DN_MULTISHOT, MULTISHOT),
];

/// All that is told by a signal.
const TOLD: u32 = ACCESS | MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE | RENAME;

/// Does F_NOTIFY's argument ask for an event? Without one the watch ends. What Linux does not know it takes for an event that never happens.
pub fn asks_for_any(argument: u32) -> bool {
    argument & !DN_MULTISHOT != 0
}

/// The events that F_NOTIFY's argument asks for, and whether the watch goes on.
pub fn asked(argument: u32) -> u32 {
    EVENTS.iter().filter(|(bit, _)| argument & bit != 0).fold(0, |all, (_, events)| all | events)
}

struct SignalWatch {
    opening: Opening,
    /// Those that came later have greater ones.
    age: u64,
    owner: Arc<dyn Owner>,
    /// What the signal says. Changes under the inode's lock, as `mask` does.
    fd: AtomicI32,
    mask: AtomicU32,
    by_opening: RBTreeAtomicLink,
    by_age: RBTreeAtomicLink,
}

vm::slab_type!(SignalWatch, "dnotify-watch", Arc);

intrusive_adapter!(ByOpening = Arc<SignalWatch>: SignalWatch { by_opening => RBTreeAtomicLink });
intrusive_adapter!(ByAge = Arc<SignalWatch>: SignalWatch { by_age => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByOpening {
    type Key = Opening;
    fn get_key(&self, watch: &'a SignalWatch) -> Opening {
        watch.opening
    }
}

impl<'a> KeyAdapter<'a> for ByAge {
    type Key = u64;
    fn get_key(&self, watch: &'a SignalWatch) -> u64 {
        watch.age
    }
}

impl SignalWatch {
    /// What it adds to the inode's interest. A rename within one directory is told with the name's going, for which the directory is asked.
    fn interest(&self) -> u32 {
        let mask = self.mask.load(Relaxed);
        if mask & RENAME != 0 { mask | MOVED_FROM } else { mask }
    }
}

/// The watches of one directory that tell by signal.
pub(super) struct Signals {
    /// Both are empty when the inode goes, since a watch ends before its file: so there is nothing to drop.
    by_opening: ManuallyDrop<RBTree<ByOpening>>,
    by_age: ManuallyDrop<RBTree<ByAge>>,
    /// The age of the last that came.
    last: u64,
}

impl Signals {
    pub(super) fn new() -> Signals {
        let (by_opening, by_age) = (RBTree::new(ByOpening::NEW), RBTree::new(ByAge::NEW));
        Signals { by_opening: ManuallyDrop::new(by_opening), by_age: ManuallyDrop::new(by_age), last: 0 }
    }

    /// One more. Its opening has none.
    fn add(&mut self, watch: Arc<SignalWatch>) {
        self.by_age.insert(watch.clone());
        self.by_opening.insert(watch);
    }

    fn remove(&mut self, watch: &SignalWatch) {
        self.by_opening.find_mut(&watch.opening).remove();
        self.by_age.find_mut(&watch.age).remove();
    }
}

impl Watched {
    /// `owner` is told by a signal for `fd` of the events `asked`, beside those that the opening has asked for before. Nothing is done if the file `is_open` no
    /// more, which is asked under the lock of the inode's watches.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn add_signal(
        &self,
        opening: Opening,
        (fd, asked): (i32, u32),
        owner: Arc<dyn Owner>,
        is_open: impl FnOnce() -> bool,
    ) -> Result {
        self.make()?;
        let set = self.set.get().ok_or(ENOMEM)?;
        USED.store(true, SeqCst);
        set.signalled.store(true, Release);
        let mut inner = set.inner.lock();
        if !is_open() {
            return Ok(());
        }
        let (before, watch) = match inner.signals.by_opening.find(&opening).clone_pointer() {
            Some(there) => (there.interest(), there),
            None => {
                let age = inner.signals.last.saturating_add(1);
                let watch = slab_arc(SignalWatch {
                    opening,
                    age,
                    owner,
                    fd: AtomicI32::new(fd),
                    mask: AtomicU32::new(0),
                    by_opening: RBTreeAtomicLink::new(),
                    by_age: RBTreeAtomicLink::new(),
                })?;
                inner.signals.last = age;
                inner.signals.add(watch.clone());
                (0, watch)
            }
        };
        watch.fd.store(fd, Relaxed);
        watch.mask.fetch_or(asked, Relaxed);
        inner.count(before, watch.interest());
        self.interest.store(inner.interest(), SeqCst);
        Ok(())
    }

    /// As `end_signal`; no signal comes of the watch when this returns. May sleep.
    pub(super) fn end_signal_and_wait(&self, opening: Opening) {
        let Some(set) = self.set.get().filter(|set| set.signalled.load(Acquire)) else { return };
        let _told = set.telling.lock();
        self.end_signal(opening);
    }

    /// The opening's watch ends, if it has one. One who tells just then may tell it yet.
    pub(super) fn end_signal(&self, opening: Opening) {
        let Some(set) = self.set.get() else { return };
        let ended = {
            let mut inner = set.inner.lock();
            let found = inner.signals.by_opening.find(&opening).clone_pointer();
            if let Some(watch) = &found {
                inner.signals.remove(watch);
                inner.count(watch.interest(), 0);
                self.interest.store(inner.interest(), SeqCst);
            }
            found
        };
        drop(ended);
    }

    /// May a watch be here that tells by signal?
    pub fn is_signalled(&self) -> bool {
        self.set.get().is_some_and(|set| set.signalled.load(Acquire))
    }

    /// The next older watch than `age`, and whether it is to be told of `mask`; if that is all that it was to tell, it has ended.
    fn next_signal(&self, set: &Set, age: u64, mask: u32) -> Option<(Arc<SignalWatch>, bool)> {
        let mut inner = set.inner.lock();
        let watch = inner.signals.by_age.upper_bound(Bound::Excluded(&age)).clone_pointer()?;
        let wanted = watch.mask.load(Relaxed);
        let is_wanted = wanted & mask & TOLD != 0;
        if is_wanted && wanted & MULTISHOT == 0 {
            inner.signals.remove(&watch);
            inner.count(watch.interest(), 0);
            self.interest.store(inner.interest(), SeqCst);
        }
        Some((watch, is_wanted))
    }

    /// Tells those that want to know by a signal, the newest watch first. May sleep, but for events of other kinds.
    pub(super) fn tell_signals(&self, set: &Set, told: &Told<'_>) {
        if told.mask & TOLD == 0 || !set.signalled.load(Acquire) {
            return;
        }
        let _telling = set.telling.lock();
        let (mut age, mut steps) = (u64::MAX, 0u32);
        while let Some((watch, is_wanted)) = self.next_signal(set, age, told.mask) {
            if is_wanted {
                watch.owner.tell(watch.fd.load(Relaxed));
            }
            age = watch.age;
            steps = steps.wrapping_add(1);
            if told.rests && steps.is_multiple_of(TURN) {
                crate::sched::schedule_if_needed();
            }
        }
    }
}

#[cfg(test)]
mod tests;
