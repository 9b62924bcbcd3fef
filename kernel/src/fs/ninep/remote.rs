//! How the server is asked about a file: the fids that lead to it, and the changes that are under way.
//!
//! A fid may be a path to the server (QEMU's is): a file that was moved there is not found by it any more. So whoever finds the file by a name gives the inode the
//! fid that led to it. What is open is read through a fid of its own, which stays; one to write is there as long as somebody has the file open to write, since the
//! server's system may refuse to execute what is being written.
//!
//! **What this client has changed is not undone by an answer of before.** A change ([`Change`]) is counted in the files that it is about from before its
//! message goes until the *device* is done with it, whoever was killed meanwhile, and gets a number then. Who asks notes the number of the last change first
//! ([`When`]); an answer is believed if no change of the file is under way and none has a higher number ([`Remote::is_current`]).
//!
//! ```text
//!  who asks     note 7 ──────── Tgetattr ─────────── answer: a size; the file's last change is 8: not believed
//!  who writes        count 1 ──── Twrite ─── size set ─── number 8, count 0
//! ```
//!
//! Nor does a message whose sender was killed overtake a later one: changes of a directory's names, and of a file's bytes and attributes, wait until none of before
//! is under way. (Two that are made at once are kept apart by the VFS's locks.)
//!
//! Lock order: the fids are innermost. None is held while the server is asked.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use arrayvec::ArrayVec;
use sync::{SpinLock, TryVec, lock_class, try_arc};

use super::client::{Client, Fid, Opening};
use super::message::{Attributes, Qid};
use super::unwritten::Unwritten;
use crate::errno::{EACCES, EINTR, ENOENT, ESTALE, Result};
use crate::fs::vfs::clock;
use crate::lock_order as level;
use crate::sched::{Sleep, WaitQueue};

lock_class! { static FIDS: LockClass = ("remote file's fids", level::RemoteFids); }

pub struct Remote {
    pub client: Arc<Client>,
    /// `qid.path`.
    pub path: u64,
    is_dir: bool,
    fids: SpinLock<Fids, level::RemoteFids>,
    /// One of them is open for good: who opens the file again writes nothing of it.
    stays_open: AtomicBool,
    pub size: AtomicU64,
    pub unwritten: Unwritten,
    /// Changes that are under way.
    pending: AtomicU32,
    /// The number of the last one that was.
    changed: AtomicU64,
    settled: WaitQueue,
}

struct Fids {
    /// The newest that a name led to.
    walked: Arc<Fid>,
    by: Option<By>,
    /// Those of other names, the newest last.
    others: ArrayVec<(Arc<Fid>, By), NAMES>,
    open: Option<Arc<Fid>>,
    /// What making the file left open, for who opens it next: a mode that lets nobody write is for those after him.
    made: Option<Arc<Fid>>,
    /// Who has it open to write holds this. Does it read too?
    writing: (Weak<Fid>, bool),
}

/// The name that a fid was found by, and the version of its directory that was known before.
pub struct By {
    pub dir: u64,
    pub version: u64,
    pub name: Vec<u8>,
}

/// Further names of a file whose fids are kept: where fids are paths, the file is found by those when one of its names is taken away.
const NAMES: usize = 3;

impl By {
    fn is(&self, dir: u64, name: &[u8]) -> bool {
        self.dir == dir && self.name == name
    }

    pub fn try_new(dir: u64, version: u64, name: &[u8]) -> Result<By> {
        Ok(By { dir, version, name: Vec::try_from_slice(name)? })
    }
}

/// When the server was asked.
#[derive(Clone, Copy)]
pub struct When {
    /// Nanoseconds since boot.
    pub at: u64,
    changes: u64,
}

impl When {
    pub fn now(client: &Client) -> When {
        When { changes: client.changes.load(SeqCst), at: clock::since_boot() }
    }
}

impl Remote {
    pub fn try_new(client: &Arc<Client>, fid: &Arc<Fid>, said: &Attributes) -> Result<Arc<Remote>> {
        let fids = Fids {
            walked: fid.clone(),
            by: None,
            others: ArrayVec::new_const(),
            open: None,
            made: None,
            writing: (Weak::new(), false),
        };
        Ok(try_arc(Remote {
            client: client.clone(),
            path: said.qid.path,
            is_dir: said.qid.is_dir,
            fids: SpinLock::new(fids, &FIDS),
            stays_open: AtomicBool::new(false),
            size: AtomicU64::new(said.size),
            unwritten: Unwritten::new(),
            pending: AtomicU32::new(0),
            changed: AtomicU64::new(0),
            settled: WaitQueue::new(),
        })?)
    }

    pub fn walked(&self) -> Arc<Fid> {
        self.fids.lock().walked.clone()
    }

    /// A name has led to the file.
    pub fn adopt(&self, fid: Arc<Fid>, by: By) {
        let mut fids = self.fids.lock();
        // One of the same name is replaced, else the oldest.
        let known = fids.others.iter().position(|(_, known)| known.is(by.dir, &by.name));
        let mut old = known.map(|at| fids.others.remove(at));
        let (last, last_by) = (core::mem::replace(&mut fids.walked, fid), fids.by.replace(by));
        let is_other = |last: &By| fids.by.as_ref().is_none_or(|by| !by.is(last.dir, &last.name));
        let last = match last_by {
            Some(last_by) if is_other(&last_by) => {
                if fids.others.is_full() {
                    old = Some(fids.others.remove(0));
                }
                fids.others.push((last, last_by));
                None
            }
            _ => Some(last),
        };
        drop(fids);
        drop((old, last));
    }

    /// The name leads to the file no more: that of another name is asked, if one is known.
    pub fn disown(&self, dir: u64, name: &[u8]) {
        let mut fids = self.fids.lock();
        let mut old = (None, None);
        if let Some(at) = fids.others.iter().position(|(_, by)| by.is(dir, name)) {
            old.0 = Some(fids.others.remove(at));
        } else if fids.by.as_ref().is_none_or(|by| by.is(dir, name))
            && let Some((fid, by)) = fids.others.pop()
        {
            old.1 = Some((core::mem::replace(&mut fids.walked, fid), fids.by.replace(by)));
        }
        drop(fids);
        drop(old);
    }

    /// The name is another by now. Its fid leads to the file yet, and is the one that is asked; which name is its own is found out at the next walk.
    pub fn renamed(&self, dir: u64, name: &[u8]) {
        let mut fids = self.fids.lock();
        let mut old = None;
        if let Some(at) = fids.others.iter().position(|(_, by)| by.is(dir, name)) {
            let (fid, _) = fids.others.remove(at);
            let last = (core::mem::replace(&mut fids.walked, fid), fids.by.take());
            match last {
                (last, Some(by)) => fids.others.push((last, by)),
                last => old = Some(last),
            }
        } else if fids.by.as_ref().is_some_and(|by| by.is(dir, name)) {
            fids.by = None;
        }
        drop(fids);
        drop(old);
    }

    /// The fid that this name led to, if the directory is as it was then.
    pub fn walked_by(&self, dir: u64, version: u64, name: &[u8]) -> Option<Arc<Fid>> {
        let fids = self.fids.lock();
        let last = fids.by.as_ref().map(|by| (&fids.walked, by));
        let mut all = last.into_iter().chain(fids.others.iter().map(|(fid, by)| (fid, by)));
        let (fid, _) = all.find(|(_, by)| by.version == version && by.is(dir, name))?;
        Some(fid.clone())
    }

    /// One that is open, whatever for.
    pub fn open_already(&self) -> Option<Arc<Fid>> {
        let fids = self.fids.lock();
        fids.open.clone().or_else(|| fids.made.clone()).or_else(|| fids.writing.0.upgrade())
    }

    /// The one that somebody writes by.
    pub fn writing_already(&self) -> Option<Arc<Fid>> {
        let fids = self.fids.lock();
        fids.writing.0.upgrade().or_else(|| fids.made.clone())
    }

    fn readable(&self) -> Option<Arc<Fid>> {
        let fids = self.fids.lock();
        let writing = || fids.writing.0.upgrade().filter(|_| fids.writing.1);
        fids.open.clone().or_else(|| fids.made.clone()).or_else(writing)
    }

    fn check(&self, qid: Qid) -> Result {
        if qid.path == self.path && qid.is_dir == self.is_dir { Ok(()) } else { Err(ESTALE) }
    }

    /// The fid through which its contents, or names, are read: by now, or while the file is open. The first to ask opens it, with the server's permission. May sleep.
    ///
    /// # Errors
    /// ESTALE: the server has another file there by now. Those of the server.
    pub fn opened(&self) -> Result<Arc<Fid>> {
        if let Some(open) = self.readable() {
            return Ok(open);
        }
        self.stay_open()?;
        self.readable().ok_or(ESTALE)
    }

    /// The fid through which its contents are written, for as long as the caller holds it. May sleep.
    ///
    /// # Errors
    /// As [`Self::opened`].
    pub fn writable(&self) -> Result<Arc<Fid>> {
        {
            let mut fids = self.fids.lock();
            if let Some(made) = fids.made.take() {
                fids.writing = (Arc::downgrade(&made), true);
                return Ok(made);
            }
            if let Some(writing) = fids.writing.0.upgrade() {
                return Ok(writing);
            }
        }
        let walked = self.walked();
        let (opened, reads) = match self.client.open(&walked, Opening::ReadWrite) {
            Err(EACCES) => (self.client.open(&walked, Opening::Write)?, false),
            opened => (opened?, true),
        };
        let (fid, qid) = opened;
        self.check(qid)?;
        self.fids.lock().writing = (Arc::downgrade(&fid), reads);
        Ok(fid)
    }

    /// Making the file has left `fid` open.
    pub fn keep_made(&self, fid: Arc<Fid>) {
        let old = self.fids.lock().made.replace(fid);
        drop(old);
    }

    /// As [`Self::opened`], and it stays so as long as the inode, whoever closes the file: somebody has opened it to read, or maps it.
    ///
    /// # Errors
    /// As [`Self::opened`].
    pub fn stay_open(&self) -> Result {
        if self.stays_open.load(SeqCst) {
            return Ok(());
        }
        let has_one = {
            let mut fids = self.fids.lock();
            if fids.open.is_none() {
                fids.open = fids.made.take();
            }
            fids.open.is_some()
        };
        if !has_one {
            self.open_for_good()?;
        }
        self.stays_open.store(true, SeqCst);
        Ok(())
    }

    fn open_for_good(&self) -> Result {
        let what = if self.is_dir { Opening::Directory } else { Opening::Read };
        let fid = match self.client.open(&self.walked(), what) {
            Ok((fid, qid)) => {
                self.check(qid)?;
                fid
            }
            // Who may write it and read it by that has it open already; or no name leads to it.
            Err(error) => self.readable().ok_or(error)?,
        };
        // Of two that open it at once one's is kept.
        self.fids.lock().open.get_or_insert(fid);
        Ok(())
    }

    /// What the server says of it now. `None`: no name leads to it any more, but it is open. May sleep.
    pub fn ask(&self) -> Result<Option<Attributes>> {
        let is_it = |found: &Attributes| found.qid.path == self.path;
        let by_name = self.client.attributes(&self.walked());
        match (by_name, self.open_already()) {
            (Ok(found), _) if is_it(&found) => Ok(Some(found)),
            (Ok(_) | Err(ENOENT | ESTALE), Some(open)) => {
                Ok(self.client.attributes(&open).ok().filter(is_it))
            }
            (Ok(_), None) => Err(ESTALE),
            (Err(error), _) => Err(error),
        }
    }

    /// Does an answer that was asked for then know of all that this client has changed? None does while the server has not got all that was written.
    pub fn is_current(&self, when: When) -> bool {
        !self.unwritten.is_any()
            && self.pending.load(SeqCst) == 0
            && self.changed.load(SeqCst) <= when.changes
    }
}

/// Files that a change may be about: two directories, what is moved, and what is replaced.
const MOST: usize = 4;

/// A change of files, until the server is done with it.
pub struct Change(ArrayVec<Arc<Remote>, MOST>);

impl Change {
    /// Begins one. What `orders` names has no other change under way; of what `also` names it does not matter. The caller holds the VFS's lock that keeps
    /// others from changing those of `orders`. May sleep, killably.
    ///
    /// # Errors
    /// EINTR, ENOMEM.
    pub fn begin(orders: &[&Arc<Remote>], also: &[&Arc<Remote>]) -> Result<Arc<Change>> {
        for remote in orders {
            let is_settled = || (remote.pending.load(SeqCst) == 0).then_some(());
            remote.settled.wait_shared(Sleep::Killable, None, is_settled).map_err(|_| EINTR)?;
        }
        let mut change = Change(ArrayVec::new_const());
        for remote in orders.iter().chain(also).take(MOST) {
            remote.pending.fetch_add(1, SeqCst);
            change.0.push(Arc::clone(remote));
        }
        Ok(try_arc(change)?)
    }
}

impl Drop for Change {
    /// In whichever context the device's answer comes.
    fn drop(&mut self) {
        for remote in self.0.drain(..) {
            let number = remote.client.changes.fetch_add(1, SeqCst).saturating_add(1);
            remote.changed.fetch_max(number, SeqCst);
            remote.pending.fetch_sub(1, SeqCst);
            remote.settled.wake_all();
        }
    }
}
