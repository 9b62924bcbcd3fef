//! What is told of files that are closed, and of those that are gone: not where that is, which may be deep in the kernel and under locks, but when the running thread goes back to
//! its program, or ends. Linux tells it then too. What threads of the kernel's close is told by a thread that is there since boot.
//!
//! Where memory is out for a note of it, all instances are told that events were lost.
//!
//! LockOrder: whatever closes a file → the lists → wait queue.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Relaxed, Release},
};

use intrusive_collections::{LinkedList, LinkedListAtomicLink, intrusive_adapter};
use sync::{SpinLock, lock_class, slab_box};

use super::{end, end_if_gone, on_inode, on_opened, or_directory};
use crate::errno::Result;
use crate::fs::caller;
use crate::fs::vfs::dentry::{Dentry, DentryRef};
use crate::fs::vfs::inode::Inode;
use crate::lock_order as level;
use crate::sched::{Sleep, WaitQueue, schedule_if_needed, spawn};

lock_class! { static LATE: LockClass = ("closed files", level::ClosedFiles); }

/// What is to be told.
enum What {
    /// The file that was opened by this name was closed.
    Closed(DentryRef),
    /// A file without a name was.
    NamelessClosed(Arc<Inode>),
    /// The file is gone: its watches end.
    Gone(Arc<Inode>),
}

/// What is told later.
struct Note {
    what: What,
    mask: u32,
    link: LinkedListAtomicLink,
}

vm::slab_type!(Note, "inotify-note", Box);

intrusive_adapter!(InList = Box<Note>: Note { link => LinkedListAtomicLink });

impl Note {
    fn tell(self) {
        match self.what {
            What::Closed(dentry) => {
                on_opened(&dentry, self.mask);
                if dentry.is_removed() {
                    end_if_gone(&dentry, false);
                }
            }
            What::NamelessClosed(inode) => on_inode(&inode, self.mask),
            What::Gone(inode) => end(&inode, self.mask, true),
        }
    }
}

/// What a thread tells later. The thread alone puts notes here and takes them, but for those of the kernel's threads. Nothing is left in it when the thread is
/// dropped, which may be anywhere: so its notes are not dropped with it.
pub struct Late {
    list: SpinLock<ManuallyDrop<LinkedList<InList>>, level::ClosedFiles>,
    /// Nobody will tell what comes now.
    ended: AtomicBool,
}

impl Late {
    pub const fn new() -> Late {
        let list = ManuallyDrop::new(LinkedList::new(InList::NEW));
        Late { list: SpinLock::new(list, &LATE), ended: AtomicBool::new(false) }
    }

    fn take_first(&self) -> Option<Box<Note>> {
        self.list.lock().pop_front()
    }

    /// Keeps a note, unless it has ended.
    fn keep(&self, note: Box<Note>) -> Option<Box<Note>> {
        if self.ended.load(Relaxed) {
            return Some(note);
        }
        self.list.lock().push_back(note);
        None
    }

    /// Tells all, in the order in which it happened. Gives way.
    #[cold]
    pub fn tell(&self) {
        while let Some(note) = self.take_first() {
            note.tell();
            schedule_if_needed();
        }
    }

    /// From now on a thread of the kernel's tells what the thread would have. What is here is to be told yet.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}

/// What threads of the kernel's have closed.
static LEFT: Late = Late::new();
/// Something was not noted, for want of memory.
static LOST: AtomicBool = AtomicBool::new(false);
static CAME: WaitQueue = WaitQueue::new();

/// # Errors
/// No memory.
fn leave(what: What, mask: u32) -> Result {
    let note = slab_box(Note { what, mask, link: LinkedListAtomicLink::new() })?;
    if let Some(note) = caller::tell_on_return(note, Late::keep) {
        LEFT.keep(note);
        CAME.wake_one();
    }
    Ok(())
}

fn leave_or_lose(what: What, mask: u32) {
    if leave(what, mask).is_err() {
        LOST.store(true, Release);
        CAME.wake_one();
    }
}

/// A file that was opened by this name is closed, for the last time.
#[cold]
pub fn on_closed(dentry: &DentryRef, mask: u32) {
    if is_asked_for(dentry, mask) {
        leave_or_lose(What::Closed(dentry.clone()), mask);
    }
}

/// A file without a name is closed.
#[cold]
pub fn on_nameless_closed(inode: &Arc<Inode>, mask: u32) {
    if inode.watched.wants(mask) {
        leave_or_lose(What::NamelessClosed(inode.clone()), mask);
    }
}

/// A file is gone, or its file system. Without memory for a note its watches end here.
#[cold]
pub(super) fn on_end(inode: &Arc<Inode>, mask: u32) {
    if inode.watched.is_watched() && leave(What::Gone(inode.clone()), mask).is_err() {
        end(inode, mask, false);
    }
}

/// Does anybody want to know of the close?
fn is_asked_for(dentry: &Dentry, mask: u32) -> bool {
    let inode = &dentry.inode;
    let mask = or_directory(inode, mask);
    let parent_asks = || {
        let read = sync::rcu::read();
        dentry
            .link(&read)
            .is_some_and(|link| link.parent.as_ref().is_some_and(|p| p.inode.watched.wants(mask)))
    };
    inode.watched.wants(mask)
        || dentry.is_told() && parent_asks()
        || dentry.is_removed() && inode.watched.is_watched()
}

/// Makes the thread that tells what threads of the kernel's have closed. At boot.
///
/// # Errors
/// No memory.
pub fn start() -> Result {
    spawn(None, run, 0).map(drop)
}

enum Errand {
    Tell(Box<Note>),
    SayLost,
}

fn take() -> Option<Errand> {
    if LOST.swap(false, AcqRel) { Some(Errand::SayLost) } else { LEFT.take_first().map(Errand::Tell) }
}

fn run(_: usize) {
    loop {
        match CAME.wait_until(Sleep::Killable, None, take) {
            Ok(Errand::Tell(note)) => note.tell(),
            Ok(Errand::SayLost) => caller::for_each_inotify(|instance| instance.put_lost()),
            // No signal comes to a thread of the kernel's.
            Err(_) => {}
        }
        schedule_if_needed();
    }
}
