//! What lies below a file, and what of it is the overlay's own by now.
//!
//! Attributes, contents and extended attributes become its own one by one, and stay so (`ATTRIBUTES`, `CONTENTS`, `XATTRS`). Until then they follow what lies below: who looks at the file
//! has that brought up to date, and takes it over where its time of change, or the version of its contents, is another than the last time.
//!
//! Lock order: `state` → the object, what is locked below. Flags are set under it; to see one set no lock is needed.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use once_cell::race::OnceBox;
use sync::{Mutex, TryVec, lock_class, try_box};
use vm::{BudgetKind, Object, ObjectOwner};

use super::Fs;
use super::names::Names;
use crate::errno::{EINTR, EIO, ENODATA, ENOSPC, EOPNOTSUPP, Result};
use crate::fs::vfs::inode::{Attributes, Inode, Kind, NewInode, Seen};
use crate::fs::vfs::operations::XattrMode;
use crate::fs::vfs::xattr::CAPABILITY;
use crate::fs::vfs::xattr::store::Xattrs;
use crate::lock_order as level;

lock_class! { static STATE: LockClass = ("overlay file", level::OverlayFile); }

const ATTRIBUTES: u8 = 1;
const CONTENTS: u8 = 2;
const XATTRS: u8 = 4;
/// Not of what is its own: what lies below was asked, and gives no capabilities to who executes it.
const GIVES_NONE: u8 = 8;

/// A file that has something below it, or a directory.
pub struct Node {
    pub fs: Arc<Fs>,
    pub below: Option<Arc<Inode>>,
    /// Of a regular file.
    pub object: Option<ObjectOwner>,
    /// Of a directory.
    pub names: Names,
    /// Of a symbolic link, once somebody has read it: the text of an inode does not change.
    text: OnceBox<Vec<u8>>,
    xattrs: Xattrs,
    own: AtomicU8,
    /// It counts in the budget.
    is_counted: AtomicBool,
    /// What lay below when it was taken over last: its time of change, and the version of its contents.
    seen_changed: AtomicI64,
    seen_version: AtomicU64,
    state: Mutex<(), level::OverlayFile>,
}

/// None: a file that has nothing below it and is no directory; it is tmpfs's.
pub fn of(inode: &Inode) -> Option<&Node> {
    let ops: &dyn core::any::Any = &*inode.ops;
    ops.downcast_ref()
}

impl Node {
    pub fn try_new(fs: &Arc<Fs>, below: Option<Arc<Inode>>, kind: Kind) -> Result<Node> {
        let object = match (&below, kind) {
            (Some(below), Kind::Regular) => {
                let pager = below.ops.pager()?.ok_or(EIO)?;
                // 0 is memory without a file.
                let number = (below.number as usize).max(1);
                Some(Object::try_owned_paged(number, below.size(), pager, Some(fs.budget.share()))?)
            }
            _ => None,
        };
        Ok(Node {
            fs: fs.clone(),
            below,
            object,
            names: Names::new(),
            text: OnceBox::new(),
            xattrs: Xattrs::new(),
            own: AtomicU8::new(0),
            is_counted: AtomicBool::new(false),
            seen_changed: AtomicI64::new(0),
            seen_version: AtomicU64::new(0),
            state: Mutex::new((), &STATE),
        })
    }

    /// An inode over `below`, as that is known to be.
    pub fn over(fs: &Arc<Fs>, number: u64, below: &Arc<Inode>) -> Result<Arc<Inode>> {
        let node = Node::try_new(fs, Some(below.clone()), below.kind)?;
        node.note_seen(below);
        let new = NewInode {
            kind: below.kind,
            mode: below.mode(),
            uid: below.uid(),
            gid: below.gid(),
            rdev: below.rdev,
        };
        let inode = Inode::try_with(number, fs.device, &new, try_box(node)?, Attributes::Elsewhere)?;
        inode.take_over(&seen(below));
        Ok(inode)
    }

    pub fn is_over(&self, below: &Arc<Inode>) -> bool {
        self.below.as_ref().is_some_and(|own| Arc::ptr_eq(own, below))
    }

    fn has(&self, what: u8) -> bool {
        self.below.is_none() || self.own.load(Acquire) & what != 0
    }

    /// Is something of it the overlay's own?
    pub fn is_changed(&self) -> bool {
        self.has(ATTRIBUTES | CONTENTS | XATTRS)
    }

    pub fn has_contents(&self) -> bool {
        self.has(CONTENTS)
    }

    pub fn has_xattrs(&self) -> bool {
        self.has(XATTRS)
    }

    /// An extended attribute, as below as long as they are. May sleep.
    ///
    /// # Errors
    /// As `InodeOps::get_xattr`.
    pub fn xattr(&self, name: &[u8], out: &mut Vec<u8>) -> Result {
        let Some(below) = self.below.as_ref().filter(|_| !self.has(XATTRS)) else {
            return self.xattrs.get(name, out);
        };
        // Each exec asks for this one, and hardly any file has it.
        let is_usual = name == CAPABILITY;
        if is_usual && self.own.load(Acquire) & GIVES_NONE != 0 {
            return Err(ENODATA);
        }
        match below.ops.get_xattr(below, name, out) {
            Err(EOPNOTSUPP) if !is_usual => self.xattrs.get(name, out),
            Err(ENODATA | EOPNOTSUPP) if is_usual => {
                self.own.fetch_or(GIVES_NONE, Release);
                Err(ENODATA)
            }
            got => got,
        }
    }

    /// Finds out whether it gives capabilities to who executes it: whoever changes it is about to take them away. May sleep.
    pub fn learn_capabilities(&self, inode: &Inode) {
        if inode.kind == Kind::Regular && !self.has(XATTRS) && self.xattr(CAPABILITY, &mut Vec::new()).is_ok()
        {
            inode.note_capabilities(true);
        }
    }

    /// It counts as a file from here on.
    ///
    /// # Errors
    /// ENOSPC.
    pub fn count(&self) -> Result {
        if !self.is_counted.swap(true, Relaxed)
            && self.fs.budget.share().charge(BudgetKind::Files, 1).is_err()
        {
            self.is_counted.store(false, Relaxed);
            return Err(ENOSPC);
        }
        Ok(())
    }

    fn note_seen(&self, below: &Inode) {
        let (_, _, changed) = below.times();
        self.seen_changed.store(changed, Relaxed);
        self.seen_version.store(below.version(), Relaxed);
    }

    fn is_as_seen(&self, below: &Inode) -> bool {
        let (_, _, changed) = below.times();
        changed == self.seen_changed.load(Relaxed) && below.version() == self.seen_version.load(Relaxed)
    }

    /// See `InodeOps::refresh`.
    pub fn refresh(&self, inode: &Inode) -> Result {
        let Some(below) = &self.below else { return Ok(()) };
        if self.has(ATTRIBUTES) && (self.object.is_none() || self.has(CONTENTS)) {
            return Ok(());
        }
        below.refresh()?;
        if self.is_as_seen(below) {
            return Ok(());
        }
        let _state = self.state.lock();
        self.take_over(inode, below)
    }

    /// Takes over what is known of what lies below, as far as it is not the overlay's own. `state` is held.
    fn take_over(&self, inode: &Inode, below: &Inode) -> Result {
        if !self.has(ATTRIBUTES) {
            inode.take_over(&seen(below));
        }
        if let Some(object) = &self.object
            && !self.has(CONTENTS)
            && below.version() != self.seen_version.load(Relaxed)
        {
            object.replace(below.size())?;
            inode.note_new_contents();
        }
        self.own.fetch_and(!GIVES_NONE, Release);
        self.note_seen(below);
        Ok(())
    }

    /// Its attributes are the overlay's own from here on, and the inode is kept.
    ///
    /// # Errors
    /// ENOSPC, ENOMEM; those of what lies below.
    pub fn own_attributes(&self, inode: &Inode) -> Result {
        if self.has(ATTRIBUTES) {
            return Ok(());
        }
        let _state = self.state.lock();
        self.own_attributes_locked(inode)
    }

    fn own_attributes_locked(&self, inode: &Inode) -> Result {
        let Some(below) = self.below.as_ref().filter(|_| !self.has(ATTRIBUTES)) else { return Ok(()) };
        below.refresh()?;
        self.take_over(inode, below)?;
        // Where it has no name any more it stays with those who have it open.
        if let Some(inode) = self.fs.inodes.counted(inode) {
            self.count()?;
            self.fs.inodes.keep(&inode)?;
        }
        self.own.fetch_or(ATTRIBUTES, Release);
        Ok(())
    }

    /// Its contents are the overlay's own from here on, of at most `size` bytes.
    ///
    /// # Errors
    /// ENOSPC, ENOMEM; EINTR: a fatal signal has come; those of what lies below.
    pub fn own_contents(&self, inode: &Inode, size: u64) -> Result {
        if self.has(CONTENTS) {
            return Ok(());
        }
        let _state = self.state.lock();
        self.own_attributes_locked(inode)?;
        let (Some(object), Some(below)) = (&self.object, &self.below) else { return Ok(()) };
        if self.has(CONTENTS) {
            return Ok(());
        }
        below.refresh()?;
        self.take_over(inode, below)?;
        if !object.own(size, &|| false)? {
            return Err(EINTR);
        }
        self.own.fetch_or(CONTENTS, Release);
        Ok(())
    }

    /// Its extended attributes are the overlay's own from here on. The inode's lock of writes is held.
    ///
    /// # Errors
    /// As `own_attributes`.
    pub fn own_xattrs(&self, inode: &Inode) -> Result {
        if self.has(XATTRS) {
            return Ok(());
        }
        let _state = self.state.lock();
        self.own_attributes_locked(inode)?;
        let Some(below) = self.below.as_ref().filter(|_| !self.has(XATTRS)) else { return Ok(()) };
        let mut names = Vec::new();
        match below.ops.list_xattr(below, true, &mut names) {
            Ok(_) => {}
            Err(EOPNOTSUPP) => names.clear(),
            Err(error) => return Err(error),
        }
        for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
            let mut value = Vec::new();
            match below.ops.get_xattr(below, name, &mut value) {
                Ok(()) => {
                    match self.xattrs.set(name, &value, XattrMode::Any, Some(&self.fs.budget.share())) {
                        // Those that no file in memory has (lists, what other systems have) are left below.
                        Ok(()) | Err(EOPNOTSUPP) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(ENODATA | EOPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        self.own.fetch_or(XATTRS, Release);
        Ok(())
    }

    pub fn xattrs(&self) -> &Xattrs {
        &self.xattrs
    }

    /// The text of a symbolic link. May sleep.
    pub fn text(&self) -> Result<Vec<u8>> {
        let text = match self.text.get() {
            Some(text) => text,
            None => {
                let below = self.below.as_ref().ok_or(EIO)?;
                let read = below.ops.read_link(below)?;
                // Of two that read it at once one's is kept.
                let _ = self.text.set(try_box(read)?);
                self.text.get().ok_or(EIO)?
            }
        };
        Ok(Vec::try_from_slice(text)?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if *self.is_counted.get_mut() {
            self.fs.budget.share().give_back(BudgetKind::Files, 1);
        }
    }
}

fn seen(below: &Inode) -> Seen {
    let (accessed, modified, changed) = below.times();
    Seen {
        mode: below.mode(),
        uid: below.uid(),
        gid: below.gid(),
        links: below.links(),
        accessed,
        modified,
        changed,
    }
}
