//! The descriptor of a tree of mounts that is in no other (fsmount(2), open_tree(2)): as one of O_PATH, but the tree ends with it, unless it was moved meanwhile.
//!
//! Whoever closes it last may sleep and holds no lock that comes after the mounts'.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::any::Any;

use sync::try_box;

use super::count::Counted;
use super::operations::FileOps;
use super::regular::PATH_ONLY;
use super::{File, Mapping, OpenFlags, Ops, Place};
use crate::errno::Result;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::mount::{self, MountRef, Path};

struct Tree(MountRef);

/// The file that holds the tree with that root. Where it cannot be made the tree ends.
///
/// # Errors
/// ENFILE, ENOMEM.
pub fn open(root: Path) -> Result<Arc<File>> {
    let mount = root.mount.clone();
    let opened = try_box(Tree(mount.clone())).map_err(Into::into).and_then(|tree| {
        File::try_make(Place::Named(root), Ops::Own(tree), OpenFlags::PATH, Counted::try_new()?)
    });
    if opened.is_err() {
        mount::dissolve(&mount);
    }
    opened
}

/// A file without a place, opened as by O_PATH.
///
/// # Errors
/// ENFILE, ENOMEM.
pub fn path_only(inode: Arc<Inode>, name: &'static str) -> Result<Arc<File>> {
    File::try_static(inode, name, &PATH_ONLY, OpenFlags::PATH)
}

impl FileOps for Tree {
    fn ioctl(&self, file: &File, command: u32, argument: usize) -> Result<usize> {
        PATH_ONLY.ioctl(file, command, argument)
    }

    fn mapping(&self, file: &File) -> Result<Mapping> {
        PATH_ONLY.mapping(file)
    }

    fn release(&self, _: &File) {
        mount::dissolve(&self.0);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
