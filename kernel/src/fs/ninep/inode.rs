//! Inodes of a server's files: what was last said of each, and how the server is asked about it.
//!
//! **One inode per number** (`qid.path`) while it is in use, so all names of a file lead to it. What the server says is believed for the mount's lifetime, a second;
//! then it is asked again where somebody looks (stat, open, a name that is walked through). Where version, time of modification or size are others than the
//! last time, the pages that are in memory are of contents that are gone, and go too.
//!
//! A fid may be a path to the server (QEMU's is): a file that was moved there is not found by it any more. So whoever finds the file by a name gives the inode the
//! fid that led to it. What is open is read through a fid of its own, which stays.
//!
//! Lock order: what is known of a file → its object; its fids are innermost. None is held while the server is asked.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::{Mutex, SpinLock, lock_class, try_arc, try_box};

use super::client::{Client, Fid};
use super::contents::{Contents, Reading};
use super::message::Attributes;
use super::{Fs, contents, directory};
use crate::errno::{EIO, ENOENT, EROFS, ESTALE, Errno, Result};
use crate::fs::file::{FileOps, OpenFlags};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::clock;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{self, Inode, Kind, NewInode, Seen};
use crate::fs::vfs::operations::{DirEntry, InodeOps, Validity, Writing};
use crate::lock_order as level;
use vm::{ObjectRef, Pager};

lock_class! { static KNOWN: LockClass = ("remote file", level::RemoteFile); }
lock_class! { static FIDS: LockClass = ("remote file's fids", level::RemoteFids); }

/// How the server is asked about a file.
pub struct Remote {
    pub client: Arc<Client>,
    path: u64,
    is_dir: bool,
    fids: SpinLock<Fids, level::RemoteFids>,
    pub size: AtomicU64,
}

struct Fids {
    /// The newest that a name led to.
    walked: Arc<Fid>,
    open: Option<Arc<Fid>>,
}

impl Remote {
    pub fn walked(&self) -> Arc<Fid> {
        self.fids.lock().walked.clone()
    }

    /// A name has led to the file again.
    fn adopt(&self, fid: Arc<Fid>) {
        let old = core::mem::replace(&mut self.fids.lock().walked, fid);
        drop(old);
    }

    fn open_already(&self) -> Option<Arc<Fid>> {
        self.fids.lock().open.clone()
    }

    /// The fid through which its contents, or names, are read. The first to ask opens it, with the server's permission. May sleep.
    ///
    /// # Errors
    /// ESTALE: the server has another file there by now. Those of the server.
    pub fn opened(&self) -> Result<Arc<Fid>> {
        if let Some(open) = self.open_already() {
            return Ok(open);
        }
        let (fid, qid) = self.client.open(&self.walked(), self.is_dir)?;
        if qid.path != self.path || qid.is_dir != self.is_dir {
            return Err(ESTALE);
        }
        // Of two that open it at once one's is kept.
        Ok(self.fids.lock().open.get_or_insert(fid).clone())
    }

    /// What the server says of it now. `None`: no name leads to it any more, but it is open.
    fn ask(&self) -> Result<Option<Attributes>> {
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
}

/// By what contents are told from those before.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    version: u32,
    modified: i64,
    size: u64,
}

fn version_of(said: &Attributes) -> Version {
    let [_, modified, _] = said.times;
    Version { version: said.qid.version, modified, size: said.size }
}

/// The operations of an inode of any kind.
pub struct Node {
    fs: Arc<Fs>,
    pub remote: Arc<Remote>,
    contents: Option<Contents>,
    known: Mutex<Version, level::RemoteFile>,
    blocks: AtomicU64,
    /// Until when what is known is believed.
    fresh: AtomicU64,
}

/// What a name has led to.
pub struct Found {
    pub fid: Arc<Fid>,
    pub said: Attributes,
    /// When the server was asked.
    pub at: u64,
}

impl Fs {
    /// The inode of what a name has led to, with what the server says of it.
    pub fn inode(self: &Arc<Self>, found: Found) -> Result<Arc<Inode>> {
        let said = &found.said;
        for _ in 0..2 {
            let inode = self.inodes.get(said.qid.path, || self.make(&found))?;
            if inode.kind == said.kind && inode.rdev == rdev(said) {
                let node = node_of(&inode).ok_or(EIO)?;
                node.remote.adopt(found.fid);
                node.learn(&inode, said, found.at)?;
                return Ok(inode);
            }
            // The number was another file's, which is gone.
            self.inodes.forget(&inode);
        }
        Err(EIO)
    }

    fn make(self: &Arc<Self>, found: &Found) -> Result<Arc<Inode>> {
        let said = &found.said;
        let remote = try_arc(Remote {
            client: self.client.clone(),
            path: said.qid.path,
            is_dir: said.kind == Kind::Directory,
            fids: SpinLock::new(Fids { walked: found.fid.clone(), open: None }, &FIDS),
            size: AtomicU64::new(said.size),
        })?;
        let contents = match said.kind {
            Kind::Regular => Some(Contents::try_new(&remote, said.qid.path, said.size)?),
            _ => None,
        };
        let node = Node {
            fs: self.clone(),
            remote,
            contents,
            known: Mutex::new(version_of(said), &KNOWN),
            blocks: AtomicU64::new(said.blocks),
            fresh: AtomicU64::new(0),
        };
        let new =
            NewInode { kind: said.kind, mode: said.mode, uid: said.uid, gid: said.gid, rdev: rdev(said) };
        Inode::try_with(said.qid.path, self.device, &new, try_box(node)?, inode::Attributes::Elsewhere)
    }

    /// What is under that name in the directory, as the server says. May sleep.
    ///
    /// # Errors
    /// ENOENT; EIO: it does not stand still.
    fn find(&self, dir: &Remote, name: &[u8]) -> Result<Found> {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            let at = clock::since_boot();
            let (fid, qid) = self.client.walk(&dir.walked(), name)?;
            let said = self.client.attributes(&fid)?;
            if said.qid.path == qid.path && said.qid.is_dir == qid.is_dir {
                return Ok(Found { fid, said, at });
            }
        }
        Err(EIO)
    }
}

/// Of device nodes alone.
fn rdev(said: &Attributes) -> u64 {
    if matches!(said.kind, Kind::Character | Kind::Block) { said.rdev } else { 0 }
}

pub fn node_of(inode: &Inode) -> Option<&Node> {
    let ops: &dyn core::any::Any = &*inode.ops;
    ops.downcast_ref()
}

impl Node {
    /// What is known is a second old.
    #[cfg(test)]
    pub fn expire(&self) {
        self.fresh.store(0, Relaxed);
    }

    /// Takes over what the server said at `at`. May sleep.
    fn learn(&self, inode: &Inode, said: &Attributes, at: u64) -> Result {
        let [accessed, modified, changed] = said.times;
        inode.take_over(&Seen {
            mode: said.mode,
            uid: said.uid,
            gid: said.gid,
            links: said.links,
            accessed,
            modified,
            changed,
        });
        self.blocks.store(said.blocks, Relaxed);
        let now = version_of(said);
        let mut known = self.known.lock();
        if *known != now {
            self.remote.size.store(now.size, Relaxed);
            if let Some(contents) = &self.contents {
                contents.replace(now.size)?;
            }
            inode.note_new_contents();
            *known = now;
        }
        drop(known);
        self.fresh.store(at.saturating_add(self.fs.lifetime), Relaxed);
        Ok(())
    }
}

impl InodeOps for Node {
    fn size(&self, _: &Inode) -> u64 {
        self.remote.size.load(Relaxed)
    }

    fn blocks(&self, _: &Inode) -> u64 {
        self.blocks.load(Relaxed)
    }

    fn refresh(&self, inode: &Inode) -> Result {
        let at = clock::since_boot();
        if at < self.fresh.load(Relaxed) {
            return Ok(());
        }
        match self.remote.ask()? {
            Some(said) if said.kind == inode.kind && rdev(&said) == inode.rdev => {
                self.learn(inode, &said, at)
            }
            Some(_) => Err(ESTALE),
            None => {
                // As it was last.
                self.fresh.store(at.saturating_add(self.fs.lifetime), Relaxed);
                Ok(())
            }
        }
    }

    fn set_attributes(&self, _: &Inode, _: &Changes, _: Writing<'_>) -> Result {
        Err(EROFS)
    }

    fn refuses_writing(&self) -> Option<Errno> {
        Some(EROFS)
    }

    fn lookup(&self, _: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
        self.fs.inode(self.fs.find(&self.remote, name)?)
    }

    fn revalidate(&self, _: &Inode, name: &[u8], child: Option<&Inode>) -> Result<Validity> {
        let found = match self.fs.find(&self.remote, name) {
            Err(ENOENT) if child.is_none() => return Ok(Validity::Valid),
            Err(ENOENT) => return Ok(Validity::Stale),
            found => found?,
        };
        let said = &found.said;
        let same = |child: &&Inode| {
            child.number == said.qid.path && child.kind == said.kind && child.rdev == rdev(said)
        };
        let Some((child, node)) = child.filter(same).and_then(|child| Some((child, node_of(child)?))) else {
            return Ok(Validity::Stale);
        };
        node.remote.adopt(found.fid);
        node.learn(child, said, found.at)?;
        Ok(Validity::Valid)
    }

    fn lifetime(&self, _: &Inode, _: Option<&Inode>) -> u64 {
        self.fs.lifetime
    }

    fn read_dir(&self, _: &Inode, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
        directory::read(&self.remote, position, emit)
    }

    fn read_link(&self, _: &Inode) -> Result<Vec<u8>> {
        self.remote.client.link(&self.remote.walked())
    }

    fn open(&self, dentry: &Dentry, _: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        let kind = dentry.inode.kind;
        if matches!(kind, Kind::Regular | Kind::Directory) {
            // The server says now whether it lets the client read.
            self.remote.opened()?;
        }
        if kind == Kind::Regular { Ok(Some(try_box(Reading)?)) } else { Ok(None) }
    }

    fn object(&self) -> Option<ObjectRef> {
        self.contents.as_ref().map(Contents::object)
    }

    fn pager(&self) -> Result<Option<Box<dyn Pager>>> {
        match &self.contents {
            Some(_) => Ok(Some(contents::pager(&self.remote)?)),
            None => Ok(None),
        }
    }

    fn can_lie_below(&self) -> bool {
        true
    }
}
