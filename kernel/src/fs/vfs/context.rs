//! What a process brings to the file system: its root, its working directory, its umask, its namespace of mounts.
//!
//! Both paths lie together behind an RCU pointer: a walk starts from them without taking a reference.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::lock_order as level;
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{SpinLock, lock_class, slab_arc};

use super::mount::namespace::{self, Member};
use super::mount::{Namespace, Path};
use crate::errno::{ENOENT, Result};

lock_class! { static CONTEXT: LockClass = ("working directory", level::WorkingDirectory); }

pub struct Paths {
    pub root: Path,
    pub cwd: Path,
    rcu: RcuHead,
}

vm::slab_type!(Paths, "working-directory", Arc);

sync::rcu_object!(Paths);

#[repr(align(64))]
pub struct FsContext {
    paths: RcuArc<Paths>,
    /// Serialises chdir and chroot of the threads that share the context.
    change: SpinLock<(), level::WorkingDirectory>,
    umask: AtomicU32,
    /// Nothing: the first namespace.
    member: Option<Member>,
}

vm::slab_type!(FsContext, "fs-context", Arc);

impl FsContext {
    /// In the first namespace of mounts.
    pub fn try_new(root: Path, cwd: Path, umask: u32) -> Result<Arc<FsContext>> {
        Self::try_new_in(None, root, cwd, umask)
    }

    fn try_new_in(member: Option<Member>, root: Path, cwd: Path, umask: u32) -> Result<Arc<FsContext>> {
        let paths = slab_arc(Paths { root, cwd, rcu: RcuHead::new() })?;
        Ok(slab_arc(FsContext {
            paths: RcuArc::new(Some(paths)),
            change: SpinLock::new((), &CONTEXT),
            umask: AtomicU32::new(umask & 0o777),
            member,
        })?)
    }

    /// A context of its own with the same paths, for fork.
    pub fn try_clone(&self) -> Result<Arc<FsContext>> {
        FsContext::try_new_in(self.member(), self.root()?, self.cwd()?, self.umask())
    }

    /// The same in a copy of its namespace (CLONE_NEWNS). May sleep.
    ///
    /// # Errors
    /// EINTR: a fatal signal came. ENOMEM.
    pub fn with_new_namespace(&self) -> Result<Arc<FsContext>> {
        let (member, root, cwd) = self.namespace().copy(self.root()?, self.cwd()?)?;
        FsContext::try_new_in(Some(member), root, cwd, self.umask())
    }

    /// The same at the root of another namespace; nothing: the first.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn within(&self, member: Option<Member>) -> Result<Arc<FsContext>> {
        let space = member.as_deref().unwrap_or_else(|| namespace::first());
        let root = super::mount::top(space.root()?);
        FsContext::try_new_in(member, root.clone(), root, self.umask())
    }

    /// The use of its namespace; nothing: the first.
    pub fn member(&self) -> Option<Member> {
        self.member.clone()
    }

    /// The namespace of its mounts.
    pub fn namespace(&self) -> &Namespace {
        self.member.as_deref().unwrap_or_else(|| namespace::first())
    }

    pub fn paths<'g>(&'g self, read: &'g RcuRead) -> Option<&'g Paths> {
        self.paths.load(read)
    }

    pub fn root(&self) -> Result<Path> {
        let read = sync::rcu::read();
        self.paths(&read).map(|p| p.root.clone()).ok_or(ENOENT)
    }

    pub fn cwd(&self) -> Result<Path> {
        let read = sync::rcu::read();
        self.paths(&read).map(|p| p.cwd.clone()).ok_or(ENOENT)
    }

    pub fn set_cwd(&self, cwd: Path) -> Result {
        let _lock = self.change.lock();
        let root = self.root()?;
        self.paths.swap(Some(slab_arc(Paths { root, cwd, rcu: RcuHead::new() })?));
        Ok(())
    }

    pub fn set_root(&self, root: Path) -> Result {
        let _lock = self.change.lock();
        let cwd = self.cwd()?;
        self.paths.swap(Some(slab_arc(Paths { root, cwd, rcu: RcuHead::new() })?));
        Ok(())
    }

    /// Who stands at `from`, or has it for his root, stands at `to`, or has that.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn replace(&self, from: &Path, to: &Path) -> Result {
        let is = |path: &Path| ptr::eq(&*path.dentry, &*from.dentry) && ptr::eq(&*path.mount, &*from.mount);
        let _lock = self.change.lock();
        let (root, cwd) = (self.root()?, self.cwd()?);
        if !is(&root) && !is(&cwd) {
            return Ok(());
        }
        let other = |path: Path| if is(&path) { to.clone() } else { path };
        self.paths.swap(Some(slab_arc(Paths { root: other(root), cwd: other(cwd), rcu: RcuHead::new() })?));
        Ok(())
    }

    pub fn umask(&self) -> u32 {
        self.umask.load(Relaxed)
    }

    /// Sets the umask and returns the one before.
    pub fn set_umask(&self, mask: u32) -> u32 {
        self.umask.swap(mask & 0o777, Relaxed)
    }
}
