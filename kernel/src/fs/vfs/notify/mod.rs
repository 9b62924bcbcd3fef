//! Telling what happens to files to those who watch them (inotify(7)), and what that costs those whom nobody watches.
//!
//! * `events`     the bits of an event
//! * `queue`      what an instance has not read yet
//! * `instance`   an inotify instance: its watches and its queue
//! * `watch`      a watch, and an inode's side of it
//! * `signals`    watches of directories that tell by a signal (F_NOTIFY)
//! * `late`       what is told of closed files, when the running thread goes back to its program
//!
//! **Who pays.** Whoever does something with a file asks [`is_used`] first: one word of the whole kernel, which is written once, by the first
//! watch that anybody ever has. Until then that is all. From then on an event asks two words more, of lines that it has used anyway: whether
//! anybody wants it of the inode, and a mark of the name that says that its directory was watched while it was there. The directory itself is
//! asked only where the mark is, so that who works on a file does not read what those change who make and remove names beside it. The mark is
//! set by the watch of a directory, for all names in it, and by a name that comes into one; it is taken off no more.
//!
//! **The order** of the events is Linux's: those of names are told under the directory's lock; an event of a file is told to its directory
//! first and then to itself.
//!
//! A file ends when its last name is gone and nobody has it open: then its watches are told, and end. Whether anybody has it open is asked of the
//! processes, and only where a watched file loses its last name (`end_if_gone`), so that opening a file counts nothing. What they do not
//! know of (a file in a message, a place that a call holds just now) is found when the name goes from memory at last ([`name_dropped`]).
//!
//! Lock order: sleeping locks of names and files → `signals`' → those of `watch` and `instance`, which are spinning ones.
#![deny(unsafe_code)]

pub mod events;
mod instance;
mod late;
mod queue;
pub mod signals;
#[cfg(test)]
mod tests;
mod watch;

use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use sync::percpu::Padded;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::{LocalCell, per_cpu};

use self::events::*;
pub use self::instance::{Instance, Readers};
pub use self::late::{Late, on_closed, on_nameless_closed, start};
pub use self::queue::{Event, HEADER, Taken};
use self::signals::{Opening, Owner as Signalled};
use self::watch::Told;
pub use self::watch::Watched;
use super::dentry::{Dentry, Name};
use super::inode::Inode;
use super::mount::Path;
use super::numbers::{self, Blocks, Mine};
use crate::errno::Result;
use crate::fs::caller;
use crate::sched::schedule_if_needed;

/// On lines of its own, since all read it.
static USED: Padded<AtomicBool> = Padded(AtomicBool::new(false));

/// Has anybody ever watched anything?
#[inline(always)]
pub fn is_used() -> bool {
    USED.load(Relaxed)
}

/// `instance` watches what lies at `path`, or changes what it watches of it; the watch's number. May sleep.
///
/// # Errors
/// As `Instance::watch`.
pub fn watch(instance: &Arc<Instance>, path: &Path, asked: u32) -> Result<i32> {
    if !is_used() {
        USED.store(true, SeqCst);
    }
    let number = instance.watch(&path.dentry.inode, asked)?;
    if asked & OF_CHILDREN != 0 {
        mark_names(&path.dentry);
    }
    Ok(number)
}

/// The directory tells `owner` by a signal for `fd` of what F_NOTIFY's argument `argument` asks for, on behalf of `opening`. Nothing is done if that `is_open` no
/// more. May sleep.
///
/// # Errors
/// ENOMEM.
pub fn watch_by_signal(
    directory: &Dentry,
    opening: Opening,
    (fd, argument): (i32, u32),
    owner: Arc<dyn Signalled>,
    is_open: impl FnOnce() -> bool,
) -> Result {
    USED.store(true, SeqCst);
    let asked = signals::asked(argument);
    directory.inode.watched.add_signal(opening, (fd, asked), owner, is_open)?;
    if asked & OF_CHILDREN != 0 {
        mark_names(directory);
    }
    Ok(())
}

/// The watch of `opening` ends, if it has one, and no signal comes of it when this returns. May sleep.
pub fn end_signal_and_wait(directory: &Inode, opening: Opening) {
    directory.watched.end_signal_and_wait(opening);
}

/// The same without the wait, where nobody may sleep.
pub fn end_signal(directory: &Inode, opening: Opening) {
    directory.watched.end_signal(opening);
}

/// Marks all names of a directory that is watched. Those that come later find that themselves, under the same lock.
fn mark_names(dentry: &Dentry) {
    let Some(directory) = &dentry.directory else { return };
    let names = directory.names.lock();
    for (entry, _) in names.entries_from(0) {
        entry.dentry.mark_told();
        schedule_if_needed();
    }
}

/// Does a directory want to know what happens to the files in it? Asked by whoever enters a name, under the directory's lock.
#[inline]
pub fn wants_children(directory: &Inode) -> bool {
    is_used() && directory.watched.wants(OF_CHILDREN)
}

fn tell(inode: &Inode, mask: u32, name: Option<&Arc<Name>>, cookie: u32) {
    if inode.watched.wants(mask) {
        inode.watched.tell(&Told { mask, cookie, name, gone: false, rests: true });
    }
}

fn or_directory(inode: &Inode, mask: u32) -> u32 {
    if inode.is_dir() { mask | ISDIR } else { mask }
}

/// To the watches of the inode alone.
#[cold]
pub fn on_inode(inode: &Inode, mask: u32) {
    tell(inode, or_directory(inode, mask), None, 0);
}

/// To the watches of the name's directory, with the name, and to those of the inode. `opened`: an open file is told of; a watch may leave out those
/// whose names are gone.
fn on_name(dentry: &Dentry, mask: u32, opened: bool) {
    let inode = &dentry.inode;
    let mask = or_directory(inode, mask);
    let gone = opened && dentry.is_removed();
    if dentry.is_told() {
        let place = {
            let read = sync::rcu::read();
            dentry.link(&read).and_then(|link| {
                let parent = link.parent.as_ref().filter(|parent| parent.inode.watched.wants(mask))?;
                Some((parent.clone(), link.name.clone()))
            })
        };
        if let Some((parent, name)) = place {
            let told = Told { mask: mask | ON_CHILD, cookie: 0, name: Some(&name), gone, rests: true };
            parent.inode.watched.tell(&told);
        }
    }
    if inode.watched.wants(mask) {
        inode.watched.tell(&Told { mask, cookie: 0, name: None, gone, rests: true });
    }
}

/// Something happened to the attributes of the file that has this name.
#[cold]
pub fn on_dentry(dentry: &Dentry, mask: u32) {
    on_name(dentry, mask, false);
}

/// As `on_dentry`, for what was done with an open file.
#[cold]
pub fn on_opened(dentry: &Dentry, mask: u32) {
    on_name(dentry, mask, true);
}

/// A name has come to be in a directory, whose lock is held.
#[cold]
pub fn on_create(directory: &Inode, name: &Arc<Name>, is_directory: bool) {
    tell(directory, if is_directory { CREATE | ISDIR } else { CREATE }, Some(name), 0);
}

/// One more name of a file.
#[cold]
pub fn on_link(directory: &Inode, name: &Arc<Name>, inode: &Inode) {
    on_inode(inode, ATTRIB);
    on_create(directory, name, false);
}

/// A name is gone from a directory, whose lock is held. May sleep.
#[cold]
pub fn on_remove(directory: &Inode, name: &Arc<Name>, victim: &Owner<Dentry>) {
    let inode = &victim.inode;
    if !inode.is_dir() {
        on_inode(inode, ATTRIB);
    }
    end_if_gone(victim, victim.is_alone());
    tell(directory, or_directory(inode, DELETE), Some(name), 0);
}

/// A name that the kernel had made itself is gone (devpts), which may be by the close of a file: what that ends is told later.
#[cold]
pub fn on_withdraw(directory: &Inode, name: &Arc<Name>, victim: &Owner<Dentry>) {
    tell(directory, or_directory(&victim.inode, DELETE), Some(name), 0);
    late::on_closed(&victim.share(), 0);
}

/// A rename's two places.
pub struct Moved<'a> {
    pub from: (&'a Inode, &'a Arc<Name>),
    pub to: (&'a Inode, &'a Arc<Name>),
}

static COOKIES: Blocks = Padded(AtomicU64::new(1));
per_cpu! { static MY_COOKIES: Mine = LocalCell::new((0, 0)); }

/// `inode` has moved. The locks of both directories are held. May sleep.
#[cold]
pub fn on_move(moved: &Moved<'_>, inode: &Inode, replaced: Option<&Owner<Dentry>>) {
    if moved.from.0.watched.wants(MOVED_FROM) || moved.to.0.watched.wants(MOVED_TO) {
        // Truncated: of two that are told near each other no two are the same.
        let cookie = numbers::take(&COOKIES, MY_COOKIES.this()) as u32;
        if ptr::eq(moved.from.0, moved.to.0) {
            let (mask, name) = (or_directory(inode, RENAME), Some(moved.from.1));
            moved.from.0.watched.tell(&Told { mask, cookie: 0, name, gone: false, rests: true });
        }
        tell(moved.from.0, or_directory(inode, MOVED_FROM), Some(moved.from.1), cookie);
        tell(moved.to.0, or_directory(inode, MOVED_TO), Some(moved.to.1), cookie);
    }
    if let Some(replaced) = replaced {
        on_inode(&replaced.inode, ATTRIB);
    }
    on_inode(inode, MOVE_SELF);
    if let Some(replaced) = replaced {
        end_if_gone(replaced, replaced.is_alone());
    }
}

/// The name is gone: if it was the file's last, and nobody has that open, its watches end. `alone`: nobody holds the name. May sleep.
fn end_if_gone(dentry: &Dentry, alone: bool) {
    let inode = &dentry.inode;
    if inode.links() == 0 && inode.watched.is_watched() && (alone || !caller::uses_dentry(dentry)) {
        end(inode, DELETE_SELF, true);
    }
}

fn end(inode: &Inode, mask: u32, rests: bool) {
    inode.watched.end(&Told { mask: or_directory(inode, mask), cookie: 0, name: None, gone: false, rests });
}

/// A name that was removed goes from memory: nobody has it open any more.
#[cold]
pub fn name_dropped(inode: &Arc<Inode>) {
    if inode.links() == 0 {
        late::on_end(inode, DELETE_SELF);
    }
}

/// A file system that nobody uses any more comes apart: the file is part of it.
#[cold]
pub fn name_unmounted(inode: &Arc<Inode>) {
    late::on_end(inode, UNMOUNT);
}

/// A mount of the file system of this device number was its last, and nobody uses it: the watches of its files end. May sleep.
pub fn unmounted(device: u64) {
    caller::for_each_inotify(|instance| instance.unmounted(device, UNMOUNT));
}
