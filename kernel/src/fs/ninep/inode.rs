//! Inodes of a server's files: what was last said of each, and how the server is asked about it.
//!
//! **One inode per number** (`qid.path`) while it is in use, so all names of a file lead to it. What the server says is believed for the mount's lifetime, a second;
//! then it is asked again where somebody looks (stat, open, a name that is walked through). Where version, time of modification or size are others than the
//! last time, the pages that are in memory are of contents that are gone, and go too; and so does the listing of a directory.
//!
//! A name that the cache has costs one message: attributes by the fid that it led to, as long as the directory is seen to be as it was when it did. Else it is walked to
//! again (`remote::By`). The directory's own attributes are a second old at most then.
//!
//! What this client has changed it knows (sizes at once, the rest is asked for when somebody looks), and no answer that is older undoes it (`remote`).
//!
//! Lock order: what is known of a file → its object; its fids are innermost. None is held while the server is asked.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sync::{Mutex, lock_class, try_box};

use super::client::Fid;
use super::contents::{Contents, Open};
use super::listing::Place;
use super::message::Attributes;
use super::names::Made;
use super::remote::{By, Remote, When};
use super::xattr::Asked;
use super::{Fs, contents, directory, xattr};
use crate::errno::{EIO, ENOENT, ENOTDIR, ESTALE, Result};
use crate::fs::file::{FileOps, OpenFlags};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::clock;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{self, Inode, Kind, NewInode, Seen};
use crate::fs::vfs::operations::{DirEntry, InodeOps, Moving, Validity, Writing, XattrMode};
use crate::lock_order as level;
use vm::{ObjectRef, Pager};

lock_class! { static KNOWN: LockClass = ("remote file", level::RemoteFile); }

/// By what contents are told from those before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Version {
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
    pub fs: Arc<Fs>,
    pub remote: Arc<Remote>,
    pub contents: Option<Contents>,
    /// Of a directory.
    listing: Option<Arc<Place>>,
    pub xattrs: Asked,
    known: Mutex<Version, level::RemoteFile>,
    blocks: AtomicU64,
    /// Until when what is known is believed.
    fresh: AtomicU64,
    /// This client has changed it since, so times and the like are not known.
    touched: AtomicBool,
    /// Who had it open to write has mapped it.
    pub was_mapped: AtomicBool,
}

/// What a name has led to.
pub struct Found {
    pub fid: Arc<Fid>,
    pub said: Attributes,
    pub when: When,
    pub by: By,
}

impl Fs {
    pub fn now(&self) -> When {
        When::now(&self.client)
    }

    /// The inode of what a name has led to, with what the server says of it.
    pub fn inode(self: &Arc<Self>, found: Found) -> Result<Arc<Inode>> {
        let said = &found.said;
        for _ in 0..2 {
            let inode = self.inodes.get(said.qid.path, || self.make(&found.fid, said))?;
            if is_of(&inode, said) {
                let node = node_of(&inode).ok_or(EIO)?;
                node.remote.adopt(found.fid, found.by);
                node.learn(&inode, said, found.when)?;
                return Ok(inode);
            }
            // The number was another file's, which is gone.
            self.inodes.forget(&inode);
        }
        Err(EIO)
    }

    /// The same of the root, which no name leads to.
    pub fn root(self: &Arc<Self>, fid: &Arc<Fid>, said: &Attributes, when: When) -> Result<Arc<Inode>> {
        let inode = self.inodes.get(said.qid.path, || self.make(fid, said))?;
        node_of(&inode).ok_or(EIO)?.learn(&inode, said, when)?;
        Ok(inode)
    }

    fn make(self: &Arc<Self>, fid: &Arc<Fid>, said: &Attributes) -> Result<Arc<Inode>> {
        let remote = Remote::try_new(&self.client, fid, said)?;
        let contents = match said.kind {
            Kind::Regular => Some(Contents::try_new(&remote, said.qid.path, said.size, self.back.as_ref())?),
            _ => None,
        };
        let node = Node {
            fs: self.clone(),
            remote,
            contents,
            listing: if said.kind == Kind::Directory { Some(Place::try_new()?) } else { None },
            xattrs: Asked::new(),
            known: Mutex::new(version_of(said), &KNOWN),
            blocks: AtomicU64::new(said.blocks),
            fresh: AtomicU64::new(0),
            touched: AtomicBool::new(false),
            was_mapped: AtomicBool::new(false),
        };
        let new =
            NewInode { kind: said.kind, mode: said.mode, uid: said.uid, gid: said.gid, rdev: rdev(said) };
        Inode::try_with(said.qid.path, self.device, &new, try_box(node)?, inode::Attributes::Elsewhere)
    }

    /// What is under that name in the directory `dir`, whose inode is `inode`, as the server says. May sleep.
    ///
    /// # Errors
    /// ENOENT; ESTALE: it does not stand still.
    pub fn find(&self, dir: &Remote, inode: &Inode, name: &[u8]) -> Result<Found> {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            let when = self.now();
            let by = By::try_new(dir.path, inode.version(), name)?;
            let (fid, qid) = self.client.walk(&dir.walked(), name)?;
            let said = self.client.attributes(&fid)?;
            if said.qid.path == qid.path && said.qid.is_dir == qid.is_dir {
                return Ok(Found { fid, said, when, by });
            }
        }
        Err(ESTALE)
    }
}

/// Is it that file that the server tells of, and no other that has its number by now?
fn is_of(inode: &Inode, said: &Attributes) -> bool {
    inode.number == said.qid.path && inode.kind == said.kind && inode.rdev == rdev(said)
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

    /// Takes over what the server said to who asked then, unless this client has changed the file meanwhile. May sleep.
    fn learn(&self, inode: &Inode, said: &Attributes, when: When) -> Result {
        let mut known = self.known.lock();
        // A change that is made known waits for the lock.
        if !self.remote.is_current(when) {
            return Ok(());
        }
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
        let own = self.touched.swap(false, Relaxed);
        let now = version_of(said);
        if *known != now {
            self.remote.size.store(now.size, Relaxed);
            match &self.contents {
                // With `cache=loose` nobody else changes it; else it is not known whether somebody has, besides this client, since it was asked last.
                Some(contents) if own && self.fs.options.writes_back() => contents.set_size(now.size)?,
                Some(contents) => contents.replace(now.size)?,
                None => {}
            }
            self.forget_names();
            inode.note_new_contents();
            *known = now;
        }
        drop(known);
        self.fresh.store(when.at.saturating_add(self.fs.lifetime), Relaxed);
        Ok(())
    }

    /// Makes a change known that the server has made for this client, with `make`. The change is not over yet (`remote::Change`). May sleep.
    pub fn make_known<R>(&self, make: impl FnOnce() -> R) -> R {
        let _known = self.known.lock();
        let made = make();
        self.touched.store(true, Relaxed);
        made
    }

    /// Nobody knows whether a change was made: the server is asked before anything is believed.
    pub fn doubt(&self) {
        self.touched.store(true, Relaxed);
        self.fresh.store(0, Relaxed);
    }

    /// What was said of a directory's names holds no more.
    pub fn forget_names(&self) {
        if let Some(listing) = &self.listing {
            listing.clear();
        }
    }

    /// Until when what is known is believed, ns since boot.
    pub fn fresh(&self) -> u64 {
        self.fresh.load(Relaxed)
    }

    /// Brings up to date what is older than a second; what this client has changed since is known but for times and the like.
    pub fn refresh_old(&self, inode: &Inode) -> Result {
        if self.remote.unwritten.is_any() || clock::since_boot() < self.fresh.load(Relaxed) {
            Ok(())
        } else {
            self.ask(inode)
        }
    }

    fn ask(&self, inode: &Inode) -> Result {
        let when = self.fs.now();
        match self.remote.ask()? {
            Some(said) if is_of(inode, &said) => self.learn(inode, &said, when),
            Some(_) => Err(ESTALE),
            None => {
                // As it was last.
                self.fresh.store(when.at.saturating_add(self.fs.lifetime), Relaxed);
                Ok(())
            }
        }
    }

    /// Does the name of the directory `dir` lead to `child` yet, by the fid that it led to? Then it is up to date. False: it has to be walked to.
    fn is_still(&self, dir: &Inode, name: &[u8], child: &Inode) -> Result<bool> {
        let Some(node) = node_of(child) else { return Ok(false) };
        if self.refresh_old(dir).is_err() {
            return Ok(false);
        }
        let Some(fid) = node.remote.walked_by(self.remote.path, dir.version(), name) else {
            return Ok(false);
        };
        let when = self.fs.now();
        match self.fs.client.attributes(&fid) {
            Ok(said) if is_of(child, &said) && said.links > 0 => {
                node.learn(child, &said, when)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

impl InodeOps for Node {
    fn size(&self, _: &Inode) -> u64 {
        self.remote.size.load(Relaxed)
    }

    fn blocks(&self, _: &Inode) -> u64 {
        self.blocks.load(Relaxed)
    }

    fn takes_leases(&self) -> bool {
        false
    }

    fn refresh(&self, inode: &Inode) -> Result {
        if !self.remote.unwritten.is_any() && self.touched.load(Relaxed) {
            self.ask(inode)
        } else {
            self.refresh_old(inode)
        }
    }

    fn set_attributes(&self, inode: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        self.set(inode, changes)
    }

    fn get_xattr(&self, inode: &Inode, name: &[u8], out: &mut Vec<u8>) -> Result {
        xattr::get(self, inode, name, out)
    }

    fn list_xattr(&self, inode: &Inode, all: bool, out: &mut Vec<u8>) -> Result<usize> {
        xattr::list(self, inode, all, out)
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
        self.fs.inode(self.fs.find(&self.remote, dir, name)?)
    }

    fn revalidate(&self, dir: &Inode, name: &[u8], child: Option<&Inode>) -> Result<Validity> {
        if let Some(child) = child
            && self.is_still(dir, name, child)?
        {
            return Ok(Validity::Valid);
        }
        let found = match self.fs.find(&self.remote, dir, name) {
            Err(ENOENT) if child.is_none() => return Ok(Validity::Valid),
            Err(ENOENT) => return Ok(Validity::Stale),
            found => found?,
        };
        let said = &found.said;
        let same = child.filter(|child| is_of(child, said));
        let Some((child, node)) = same.and_then(|child| Some((child, node_of(child)?))) else {
            return Ok(Validity::Stale);
        };
        node.remote.adopt(found.fid, found.by);
        node.learn(child, said, found.when)?;
        Ok(Validity::Valid)
    }

    fn lifetime(&self, _: &Inode, _: Option<&Inode>) -> u64 {
        self.fs.lifetime
    }

    fn read_dir(&self, _: &Inode, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
        let Some(listing) = &self.listing else { return Err(ENOTDIR) };
        let now = (clock::since_boot(), self.fs.lifetime);
        directory::read(&self.remote, listing, now, position, emit)
    }

    fn shed(&self, most: u64) -> u64 {
        match (&self.contents, &self.listing) {
            (Some(contents), _) => {
                let given = contents.object().shed(most);
                if given == 0
                    && self.remote.unwritten.is_dirty()
                    && let Some(back) = &self.fs.back
                {
                    back.hurry();
                }
                given
            }
            (None, Some(listing)) => listing.shed(),
            (None, None) => 0,
        }
    }

    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.make_name(dir, name, new, Made::File)
    }

    fn mkdir(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.make_name(dir, name, new, Made::Directory)
    }

    fn mknod(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.make_name(dir, name, new, Made::Node)
    }

    fn symlink(&self, dir: &Inode, name: &[u8], new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        self.make_name(dir, name, new, Made::Link(target))
    }

    fn link(&self, dir: &Inode, name: &[u8], inode: &Inode) -> Result {
        self.add_name(dir, name, inode)
    }

    fn unlink(&self, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
        self.remove_name(dir, name, victim)
    }

    fn rmdir(&self, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
        self.remove_name(dir, name, victim)
    }

    fn rename(&self, moving: &Moving<'_>) -> Result {
        self.move_name(moving)
    }

    fn read_link(&self, _: &Inode) -> Result<Vec<u8>> {
        self.remote.client.link(&self.remote.walked())
    }

    fn open(&self, dentry: &Dentry, flags: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        let kind = dentry.inode.kind;
        if kind == Kind::Regular {
            // The server says now whether it lets the client read, and write.
            let writer = if flags.writes() { Some(self.remote.writable()?) } else { None };
            match (&writer, &self.fs.back) {
                (None, _) => self.remote.stay_open()?,
                (Some(fid), Some(back)) => back.list(&dentry.inode, fid.clone())?,
                (Some(_), None) => {}
            }
            let (writes_back, seen) = (self.fs.back.is_some(), self.remote.unwritten.errors.sample());
            return Ok(Some(try_box(Open::new(writer, writes_back, seen))?));
        }
        if kind == Kind::Directory {
            self.remote.stay_open()?;
        }
        Ok(None)
    }

    fn object(&self) -> Option<ObjectRef> {
        self.contents.as_ref().map(Contents::object)
    }

    /// What the server has not got is sent, and it puts that on its disk.
    fn fsync(&self, _: &Inode, data_only: bool) -> Result {
        let sent = self.write_back(u64::MAX).map(drop);
        sent.and(self.sync_on_server(data_only))
    }

    fn set_xattr(&self, inode: &Inode, name: &[u8], value: &[u8], mode: XattrMode) -> Result {
        xattr::set(self, inode, name, value, mode)
    }

    fn remove_xattr(&self, inode: &Inode, name: &[u8]) -> Result {
        xattr::remove(self, inode, name)
    }

    fn pager(&self) -> Result<Option<Box<dyn Pager>>> {
        match &self.contents {
            Some(_) => Ok(Some(contents::pager(&self.remote, None)?)),
            None => Ok(None),
        }
    }

    fn can_lie_below(&self) -> bool {
        true
    }
}
