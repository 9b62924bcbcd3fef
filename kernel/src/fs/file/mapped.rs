//! Names of mapped files, for /proc/PID/maps and core dumps: the label of an object.
//!
//! A file gets its label at its first mapping or exec; later ones only look at a flag in the inode. The label goes with the object, and
//! refers to the inode weakly.
//!
//! No locks.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;

use sync::{try_arc, try_box};
use vm::{Label, Object};

use super::describe;
use crate::errno::Result;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::mount;

/// The name of memory that programs share: on Linux a file.
pub const SHARED: &[u8] = b"/dev/zero (deleted)";

/// The device of segments of shared memory, as /proc/PID/maps shows it: Linux's first one without a place.
const SHARED_MEMORY: u64 = 1;

/// A file that was mapped, under the name of that moment.
pub struct Mapped {
    name: Vec<u8>,
    /// The name is a path, under which the file may be found no more.
    is_path: bool,
    pub device: u64,
    pub number: u64,
    inode: Weak<Inode>,
    /// What it is the memory of, where that is no file.
    owner: Option<Owner>,
}

/// What an object is the memory of, beside files.
pub type Owner = Weak<dyn Any + Send + Sync>;

impl Mapped {
    /// The name in two parts: the second says that it is gone.
    pub fn name(&self) -> [&[u8]; 2] {
        let gone: &[u8] = if self.is_path && !self.has_name() { b" (deleted)" } else { b"" };
        [&self.name, gone]
    }

    /// Its file, if it is one that is still known.
    pub fn inode(&self) -> Option<Arc<Inode>> {
        self.inode.upgrade()
    }

    /// Has its file a name yet? What nobody can open any more is memory that programs share.
    pub fn has_name(&self) -> bool {
        self.inode.upgrade().is_some_and(|inode| inode.links() > 0)
    }

    /// What it is the memory of, if it is no file and that is still there.
    pub fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.owner.as_ref()?.upgrade()
    }

    /// May anybody execute its file?
    pub fn is_executable(&self) -> bool {
        self.inode.upgrade().is_some_and(|inode| inode.mode() & 0o111 != 0)
    }
}

/// Labels the contents of the file at `path`. Out of memory, its mappings stay without a name.
pub fn enter(path: &mount::Path) {
    let dentry: &Dentry = &path.dentry;
    if !dentry.inode.first_mapping() {
        return;
    }
    let (Some(object), Ok(root)) = (dentry.inode.object(), mount::root()) else { return };
    let Ok(name) = describe::path(path, &root) else { return };
    let _ = label(&object, &dentry.inode, name, true);
}

/// Labels the contents of a file without a place, which is called `name`.
///
/// # Errors
/// ENOMEM.
pub fn enter_nameless(object: &Object, inode: &Arc<Inode>, name: Vec<u8>) -> Result {
    label(object, inode, name, false)
}

fn label(object: &Object, inode: &Arc<Inode>, name: Vec<u8>, is_path: bool) -> Result {
    let (device, number) = (inode.device, inode.number);
    let inode = Arc::downgrade(inode);
    set(object, Mapped { name, is_path, device, number, inode, owner: None })
}

/// Labels memory that is no file's: on Linux one that has no place, with that number.
///
/// # Errors
/// ENOMEM.
pub fn enter_segment(object: &Object, number: u64, name: Vec<u8>, owner: Owner) -> Result {
    let (inode, owner) = (Weak::new(), Some(owner));
    set(object, Mapped { name, is_path: false, device: SHARED_MEMORY, number, inode, owner })
}

fn set(object: &Object, mapped: Mapped) -> Result {
    let label: Label = try_arc(mapped)?;
    object.set_label(try_box(label)?);
    Ok(())
}

/// The inode that `object` is the contents of, if it is a file's that has been mapped.
pub fn inode_of(object: &Object) -> Option<Arc<Inode>> {
    find(object)?.inode.upgrade()
}

/// The file that `object` is the contents of, if it has been mapped.
pub fn find(object: &Object) -> Option<Arc<Mapped>> {
    object.label()?.clone().downcast().ok()
}
