//! How far a walk may go: what RESOLVE_* of openat2 asks for.
//!
//! A walk within a scope takes the directory where it starts for the root, so `..` does not lead above it. A directory that is moved out meanwhile, with
//! the walk in it, would let it: where it came to is looked at once more at its end.
//!
//! No locks.
#![forbid(unsafe_code)]

use core::ptr;

use super::dentry::Seen;
use super::lookup::{Here, Start, Walk, keep, up};
use crate::errno::{EAGAIN, EINTR, ELOOP, EXDEV, Result};
use crate::fs::vfs::mount::Path;
use crate::sched::give_way;

bitflags::bitflags! {
    /// How far a walk may go (RESOLVE_* of openat2).
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Limits: u32 {
        /// Within one mount.
        const ONE_MOUNT = 1;
        /// Through no link of /proc that no text describes.
        const NO_MAGIC = 2;
        const NO_LINKS = 4;
        /// Not out of the directory where it starts.
        const BENEATH = 8;
        /// That directory is the root of everything.
        const IN_ROOT = 16;
        /// Only as far as no file system has to be asked.
        const CACHED = 32;
    }
}

impl Limits {
    pub fn is_scoped(self) -> bool {
        self.intersects(Limits::BENEATH.union(Limits::IN_ROOT))
    }
}

/// The same place.
fn is_same(a: &Path, b: &Path) -> bool {
    ptr::eq(&*a.dentry, &*b.dentry) && a.mount.id == b.mount.id
}

impl Walk<'_> {
    /// The walk, which has not begun, ends with an error where it would go further than `limits` allow.
    ///
    /// # Errors
    /// EXDEV: an absolute path leaves the directory where the walk starts.
    #[cold]
    pub fn limit(&mut self, limits: Limits) -> Result {
        self.limits = limits;
        if limits.contains(Limits::BENEATH) && self.first.first() == Some(&b'/') {
            return Err(EXDEV);
        }
        if limits.is_scoped() {
            self.scope = Some(match self.start {
                Start::Cwd => self.context.cwd()?,
                Start::At(path) => path.clone(),
            });
        }
        Ok(())
    }

    /// Where an absolute link in `dir` starts.
    pub(super) fn root_from(&self, dir: &Path) -> Result<Path> {
        if self.limits.contains(Limits::BENEATH) {
            return Err(EXDEV);
        }
        let root = match &self.scope {
            Some(scope) => scope.clone(),
            None => self.context.root()?,
        };
        if self.limits.contains(Limits::ONE_MOUNT) && root.mount.id != dir.mount.id {
            return Err(EXDEV);
        }
        Ok(root)
    }

    /// A link in `dir` that no text describes leads to `path`.
    pub(super) fn check_jump(&self, dir: &Path, path: Path) -> Result<Path> {
        if self.limits.contains(Limits::NO_MAGIC) {
            return Err(ELOOP);
        }
        let leaves = self.limits.contains(Limits::ONE_MOUNT) && path.mount.id != dir.mount.id;
        if leaves || self.limits.is_scoped() { Err(EXDEV) } else { Ok(path) }
    }

    /// Is the end still in the scope? A directory may have been moved out of it while the walk stood there, and `..` led on from its new place.
    #[inline]
    pub(super) fn check_end(&self, path: &Path) -> Result {
        self.scope.as_ref().map_or(Ok(()), |scope| self.check_within(scope, path))
    }

    #[cold]
    fn check_within(&self, scope: &Path, path: &Path) -> Result {
        let has_dots = |text: &[u8]| text.windows(2).any(|two| two == b"..");
        if !has_dots(self.first) && !self.text.as_deref().is_some_and(has_dots) {
            return Ok(());
        }
        let mut at = path.clone();
        while !is_same(&at, scope) {
            if give_way() {
                return Err(EINTR);
            }
            let above = {
                let read = sync::rcu::read();
                let root = (Seen::Held(&at.mount), Seen::Held(&at.dentry));
                keep(up(root, scope, &read))
            };
            if is_same(&above, &at) {
                return Err(EXDEV);
            }
            at = above;
        }
        Ok(())
    }

    /// A step that a walk with limits may not make.
    #[cold]
    pub(super) fn check_step(&self, before: Here<'_>, after: Here<'_>, name: &[u8], root: &Path) -> Result {
        let at_root = ptr::eq(before.1.as_ref(), &*root.dentry) && ptr::eq(before.0.as_ref(), &*root.mount);
        if name == b".." && at_root && self.limits.contains(Limits::BENEATH) {
            return Err(if self.limits.contains(Limits::CACHED) { EAGAIN } else { EXDEV });
        }
        let leaves = !ptr::eq(before.0.as_ref(), after.0.as_ref());
        if leaves && self.limits.contains(Limits::ONE_MOUNT) { Err(EXDEV) } else { Ok(()) }
    }
}
