//! Super blocks: one mounted instance of a file system, and the table of file-system types. The VFS knows file systems
//! only through these.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::lock_order as level;
use once_cell::race::OnceRef;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::rcu::{InParts, Parts};
use sync::{Mutex, SpinLock, lock_class, slab_arc, try_arc, try_box};

use super::cache::inodes::InodeTable;
use super::cache::{Cache, NameCache};
use super::dentry::{Dentry, DentryRef, Name};
use super::inode::Inode;
use super::notify;
use super::operations::SuperOps;
use super::parameters::Parameters;
use crate::errno::{ENODEV, ENOENT, Result};
use crate::sched::schedule_if_needed;

lock_class! { pub static RENAME: LockClass = ("rename", level::Rename); }
lock_class! { pub static SUPER_CHANGES: LockClass = ("super block changes", level::SuperChanges); }
lock_class! { pub static SUPER_ROOT: LockClass = ("super block root", level::SuperRoot); }

/// A kind of file system.
pub struct FsType {
    pub name: &'static str,
    /// `f_type` of statfs.
    pub magic: u64,
    /// Needs no device (`nodev` in /proc/filesystems).
    pub nodev: bool,
    /// Makes an instance, or returns the only one.
    pub mount: fn(&'static FsType, &Mounting<'_>) -> Result<Arc<SuperBlock>>,
    pub parameters: Parameters,
}

/// How a file system is to be mounted.
#[derive(Clone, Copy, Default)]
pub struct Mounting<'a> {
    /// What it is from: a name that only some look at.
    pub source: Option<&'a [u8]>,
    pub options: &'a [u8],
}

/// Sizes in pages.
#[derive(Default, Clone, Copy)]
pub struct StatFs {
    pub blocks: u64,
    pub free: u64,
    /// Of those free: not for everybody.
    pub reserved: u64,
    pub files: u64,
    pub files_free: u64,
}

pub struct SuperBlock {
    pub kind: &'static FsType,
    /// `st_dev`.
    pub device: u64,
    /// How the name cache stands to the names.
    pub cache: Cache,
    /// Where that is `Cached` or `Revalidated`.
    pub names: Option<Arc<NameCache>>,
    pub ops: Box<dyn SuperOps>,
    /// What was said of writing it: `READ_ONLY`, and those of `SHOWN`.
    flags: AtomicU32,
    /// Held by who changes flags and options while it is mounted.
    pub changes: Mutex<(), level::SuperChanges>,
    root: SpinLock<Option<Arc<Owner<Dentry>>>, level::SuperRoot>,
    /// Where its names come apart at its end.
    remains: Option<Box<InParts<Remains>>>,
    /// Held by a rename that moves a directory between directories, so that the shape of the tree stands still for it.
    pub rename: Mutex<Shape, level::Rename>,
}

vm::slab_type!(SuperBlock, "super-block", Arc);

/// Which directory lies in which. It stands still for whoever holds `SuperBlock::rename`, and nobody else is answered.
pub struct Shape(());

impl Shape {
    /// Is `upper` at or above `lower`? Gives way: a program chooses how deep they lie.
    pub fn contains(&self, upper: &Dentry, lower: &DentryRef) -> bool {
        let mut here = lower.clone();
        for depth in 1u32.. {
            if depth.is_multiple_of(64) {
                schedule_if_needed();
            }
            if ptr::eq(upper, &*here) {
                return true;
            }
            match here.parent() {
                Some(parent) => here = parent,
                None => return false,
            }
        }
        false
    }
}

/// Anonymous device numbers: major 0, as Linux numbers file systems without a disk. Those before are of files without a mount (`anon`).
static NEXT_DEVICE: AtomicU64 = AtomicU64::new(0x11);

pub fn new_device() -> u64 {
    NEXT_DEVICE.fetch_add(1, Relaxed)
}

/// MS_RDONLY, of the file system: it is written through no mount. Each mount says besides whether it may be written.
pub const READ_ONLY: u32 = 1;

/// Flags of mount(2) that /proc tells of a file system, and how. In memory all is written at once, whatever they say; mandatory locks have not been there
/// since Linux 5.15.
pub const SHOWN: [(u32, &str); 4] = [(16, ",sync"), (128, ",dirsync"), (64, ",mand"), (1 << 25, ",lazytime")];

impl SuperBlock {
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    pub fn is_read_only(&self) -> bool {
        self.flags() & READ_ONLY != 0
    }

    /// Those that statmount(2) tells: mandatory locks are none of them.
    pub fn told_flags(&self) -> u32 {
        self.flags() & (READ_ONLY | 16 | 128 | 1 << 25)
    }

    /// Sets those of `SHOWN` that are in `which`.
    pub fn set_flags(&self, flags: u32, which: u32) {
        let shown = SHOWN.iter().fold(READ_ONLY, |all, (flag, _)| all | flag) & which;
        let changed = |old| Some(old & !shown | flags & shown);
        let _always = self.flags.fetch_update(Relaxed, Relaxed, changed);
    }

    /// An instance whose cache is its directories (`Complete`), or has none of its names (`Uncached`).
    pub fn try_new(
        kind: &'static FsType,
        cache: Cache,
        device: u64,
        root: Arc<Inode>,
        ops: Box<dyn SuperOps>,
    ) -> Result<Arc<SuperBlock>> {
        let owner = Dentry::try_new(root, None, Name::try_new(b"/")?)?;
        SuperBlock::with(kind, cache, None, device, try_arc(owner)?, ops)
    }

    /// An instance whose names are cached, `Cached` or `Revalidated`. `inodes` is where the file system finds its inodes; `root` is from it.
    pub fn try_cached(
        kind: &'static FsType,
        cache: Cache,
        device: u64,
        inodes: Arc<InodeTable>,
        root: Arc<Inode>,
        ops: Box<dyn SuperOps>,
    ) -> Result<Arc<SuperBlock>> {
        let owner = try_arc(Dentry::try_cached_root(root)?)?;
        inodes.set_alias(owner.clone())?;
        let names = NameCache::try_new(device, inodes)?;
        SuperBlock::with(kind, cache, Some(names), device, owner, ops)
    }

    fn with(
        kind: &'static FsType,
        cache: Cache,
        names: Option<Arc<NameCache>>,
        device: u64,
        root: Arc<Owner<Dentry>>,
        ops: Box<dyn SuperOps>,
    ) -> Result<Arc<SuperBlock>> {
        let remains = Remains { top: None, here: None, cache: None };
        Ok(slab_arc(SuperBlock {
            remains: Some(try_box(InParts::new(remains))?),
            kind,
            device,
            cache,
            names,
            ops,
            flags: AtomicU32::new(0),
            changes: Mutex::new((), &SUPER_CHANGES),
            root: SpinLock::new(Some(root), &SUPER_ROOT),
            rename: Mutex::new(Shape(()), &RENAME),
        })?)
    }

    /// What the file system keeps of the instance, if it is of that type.
    pub fn ops_as<T: SuperOps>(&self) -> Option<&T> {
        let ops: &dyn Any = &*self.ops;
        ops.downcast_ref()
    }

    /// The owning handle of the root; none at the end.
    pub fn owned_root(&self) -> Option<Arc<Owner<Dentry>>> {
        self.root.lock().clone()
    }

    pub fn root(&self) -> Result<DentryRef> {
        self.root.lock().as_ref().map(|owner| owner.share()).ok_or(ENOENT)
    }
}

impl Drop for SuperBlock {
    /// This may run as an RCU callback, which may not sleep; nobody else holds these locks any more.
    fn drop(&mut self) {
        let top = self.root.lock().take();
        if let Some(mut remains) = self.remains.take() {
            let here = top.as_ref().map(|owner| owner.share());
            *remains.value() = Remains { top, here, cache: self.names.take() };
            InParts::begin_drop(remains);
        }
    }
}

/// The names that a super block leaves. Children hold their parents: a tree comes apart only from the leaves.
struct Remains {
    /// The tree that is taken apart, and how far that has come.
    top: Option<Arc<Owner<Dentry>>>,
    here: Option<DentryRef>,
    /// Where further trees are from.
    cache: Option<Arc<NameCache>>,
}

/// Names that are taken out at once.
const PART: usize = 64;

impl Parts for Remains {
    fn drop_part(&mut self) -> bool {
        (0..PART).all(|_| self.step())
    }
}

impl Remains {
    /// Takes one name out, or goes to the next directory. False: nothing is left.
    fn step(&mut self) -> bool {
        let Some(here) = self.here.take() else {
            let Some(left) = self.cache.as_ref().and_then(|cache| cache.clear()) else { return false };
            self.top = left.alias;
            self.here = self.top.as_ref().map(|owner| owner.share());
            return true;
        };
        self.here = match take_last(&here) {
            Last::Below(child) => Some(child),
            Last::Taken => Some(here),
            // What lies above `top` is not its own.
            Last::None if self.top.as_ref().is_some_and(|top| ptr::eq(&*here, &***top)) => {
                if notify::is_used() {
                    notify::name_unmounted(&here.inode);
                }
                None
            }
            Last::None => here.parent(),
        };
        true
    }
}

enum Last {
    None,
    Taken,
    /// It is not empty itself.
    Below(DentryRef),
}

/// Takes the last name out of a directory.
fn take_last(here: &Dentry) -> Last {
    let Some(directory) = &here.directory else { return Last::None };
    let Some(mut names) = directory.names.try_lock() else { return Last::None };
    let Some(entry) = names.last().cloned() else { return Last::None };
    let below = entry.dentry.directory.as_ref();
    if below.is_some_and(|d| d.names.try_lock().is_some_and(|n| !n.is_empty())) {
        return Last::Below(entry.dentry.share());
    }
    directory.remove(&mut names, &entry.name);
    if notify::is_used() {
        notify::name_unmounted(&entry.dentry.inode);
    }
    entry.dentry.cut();
    Last::Taken
}

/// The file systems of a kernel, for [`register`].
pub struct Types(pub &'static [&'static FsType]);

static TYPES: OnceRef<'static, Types> = OnceRef::new();

/// Says which file systems this kernel has. Once, at boot, before the first mount.
pub fn register(types: &'static Types) {
    if TYPES.set(types).is_err() {
        crate::warn!("the file systems are registered already");
    }
}

/// The file systems of this kernel.
pub fn types() -> &'static [&'static FsType] {
    TYPES.get().map_or(&[], |types| types.0)
}

/// The file system of that name, unless programs do not mount it.
///
/// # Errors
/// ENODEV.
pub fn find_type(name: &[u8]) -> Result<&'static FsType> {
    let found = types().iter().copied().find(|t| t.name.as_bytes() == name);
    found.filter(|t| !matches!(t.parameters, Parameters::Never)).ok_or(ENODEV)
}
