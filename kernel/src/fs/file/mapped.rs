//! Names of mapped files, for /proc/PID/maps: an object knows its inode's number, and this table knows where that lies.
//!
//! An inode is entered at its first mapping or exec; later ones only look at a flag in the inode. Entries of inodes that are
//! gone are dropped when others come, and hold nothing but a weak reference.
//! No locks but the table's, which is innermost.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use crate::lock_order as level;
use sync::{SpinLock, TryVec, lock_class, try_arc};

use super::describe;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::mount;

lock_class! { static MAPPED: LockClass = ("mapped files", level::MappedFiles); }

/// A file that was mapped, under the name of that moment.
pub struct Mapped {
    pub name: Vec<u8>,
    pub device: u64,
    pub number: u64,
    inode: Weak<Inode>,
}

impl Mapped {
    /// Has its file a name yet? What nobody can open any more is memory that programs share.
    pub fn has_name(&self) -> bool {
        self.inode.upgrade().is_some_and(|inode| inode.links() > 0)
    }

    /// May anybody execute its file?
    pub fn is_executable(&self) -> bool {
        self.inode.upgrade().is_some_and(|inode| inode.mode() & 0o111 != 0)
    }
}

static TABLE: SpinLock<Vec<Arc<Mapped>>, level::MappedFiles> = SpinLock::new(Vec::new(), &MAPPED);

/// Enters the file at `path`. Out of memory, its mappings stay without a name.
#[expect(clippy::arithmetic_side_effects, reason = "counts no more than the array holds")]
pub fn enter(path: &mount::Path) {
    let dentry: &Dentry = &path.dentry;
    if !dentry.inode.first_mapping() {
        return;
    }
    let Ok(root) = mount::root() else { return };
    let Ok(name) = describe::path(path, &root) else { return };
    let inode = &dentry.inode;
    let (device, number) = (inode.device, inode.number);
    let Ok(entry) = try_arc(Mapped { name, device, number, inode: Arc::downgrade(inode) }) else { return };
    let mut dead = Vec::new();
    let mut table = TABLE.lock();
    let mut i = 0;
    while let Some(old) = table.get(i) {
        if old.inode.strong_count() > 0 {
            i += 1;
        } else if dead.try_push(table.swap_remove(i)).is_err() {
            break;
        }
    }
    let _ = table.try_push(entry);
    drop(table);
    drop(dead);
}

/// The inode that `object` is the contents of, if it is a file's that has been mapped.
pub fn inode_of(object: &vm::Object) -> Option<Arc<Inode>> {
    let inode = find(object.inode_number())?.inode.upgrade()?;
    let same = inode.object().is_some_and(|own| core::ptr::eq(&*own, object));
    same.then_some(inode)
}

/// The mapped file with this inode number.
pub fn find(number: usize) -> Option<Arc<Mapped>> {
    if number == 0 {
        return None;
    }
    TABLE.lock().iter().find(|m| m.number == number as u64).cloned()
}
