//! Mounts: where in the tree a file system hangs, and with which flags. Each namespace has a tree of its own (`namespace`).
//!
//! The walk looks into the [table](table) under RCU and only at dentries that say they are mount points. Changes are made under one lock. A mount is
//! held by per-CPU counts, as dentries are.
//!
//! Beside the trees of namespaces there are trees that a descriptor holds (`anonymous`): nothing is mounted in them or taken out, until the whole tree is moved
//! to a place in one of those, or its descriptor is closed.
//!
//! Lock order: no directory is locked under `MOUNTS`, which comes after the text of a file of /proc.
#![forbid(unsafe_code)]

mod anonymous;
mod attributes;
mod change;
mod moving;
pub mod namespace;
mod peers;
mod pivot;
mod sharing;
mod spread;
mod table;
mod unmount;

pub use anonymous::{copy, dissolve, new};
pub use attributes::{Change, change};
pub use change::{bind_tree, mount};
pub use moving::{Where, move_to};
pub use namespace::Namespace;
pub use pivot::pivot;
pub use sharing::{Kind, Told, join_group, set_kind, told};
pub use unmount::{check_expired, covers, uncover, unmount};

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::lock_order as level;
use sync::percpu_ref::{PerCpuArc as HotRef, PerCpuOwner as Owner};
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{Mutex, TryVec, lock_class, try_arc};

use self::peers::Peers;
use self::table::Link;
use super::dentry::{Dentry, DentryRef, Seen};
use super::superblock::SuperBlock;
use crate::errno::{EINTR, ENOENT, Result};
use crate::sched::give_way;
use crate::sort;

lock_class! { pub static MOUNT: LockClass = ("mount", level::Mounts); }

pub type MountRef = HotRef<Mount>;

/// Flags of a mount, as in mount(2).
pub const READ_ONLY: u32 = 1;
pub const NO_SUID: u32 = 2;
pub const NO_DEV: u32 = 4;
pub const NO_EXEC: u32 = 8;
pub const NO_SYMFOLLOW: u32 = 256;
pub const NO_ATIME: u32 = 1024;
pub const NO_DIR_ATIME: u32 = 2048;
pub const STRICT_ATIME: u32 = 1 << 24;
/// Those that say when a read is noted: without `NO_ATIME` and `STRICT_ATIME` as relatime does.
pub const ATIME: u32 = NO_ATIME | NO_DIR_ATIME | STRICT_ATIME;
/// Those kept per mount.
pub const KEPT: u32 = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC | NO_SYMFOLLOW | ATIME;

/// What MNT_EXPIRE knows of a mount: it was used since the mark, or never marked; marked; one walk came by since. The walk of the call that looks at the
/// mark is one.
const IN_USE: u8 = 0;
const MARKED: u8 = 1;
const SEEN: u8 = 2;

/// Of a mount that hangs nowhere, or in a tree that a descriptor holds: in place of the number of a namespace (`Mount::tree`).
const NOWHERE: u64 = 0;
const HELD: u64 = 1;

pub struct Mount {
    pub id: u64,
    pub root: DentryRef,
    pub superblock: Arc<SuperBlock>,
    pub source: Box<[u8]>,
    flags: AtomicU32,
    /// It cannot be bound elsewhere (MS_UNBINDABLE).
    unbindable: AtomicBool,
    expiry: AtomicU8,
    /// How many mounts hang on it. Changed under `MOUNTS`.
    hanging: AtomicU32,
    /// The last walk over all mounts that came by, and what it found (`change::below_or`).
    walk: AtomicU64,
    /// It hung somewhere and was taken off. Changed under `MOUNTS`.
    gone: AtomicBool,
    /// Which tree it is in: the number of a namespace, or `NOWHERE` or `HELD`. Changed under `MOUNTS`.
    tree: AtomicU64,
    /// The group with which it shares what is mounted in it (`peers`), or `peers::NONE`. Changed under `MOUNTS`.
    group: AtomicU32,
    /// Where it hangs; nothing for the root of a tree and for mounts without a place. Changed under `MOUNTS`.
    point: RcuArc<Point>,
}

/// Mount and dentry that a mount hangs on.
struct Point {
    path: Path,
    rcu: RcuHead,
}

sync::rcu_object!(Point);

vm::slab_type!(Mount, "mount", PerCpuArc);

impl Mount {
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags & KEPT, Relaxed);
    }

    /// Mount and dentry it hangs on just now; `None` for the root of a tree and for what hangs nowhere.
    #[inline]
    pub fn point<'r>(&'r self, read: &'r RcuRead) -> Option<&'r Path> {
        self.point.load(read).map(|point| &point.path)
    }

    /// Is it in a tree that a descriptor holds?
    pub fn is_anonymous(&self) -> bool {
        self.tree.load(Relaxed) == HELD
    }

    /// Is it the root of such a tree? With `MOUNTS` it stays so.
    fn is_anonymous_root(&self) -> bool {
        self.is_anonymous() && self.point(&sync::rcu::read()).is_none()
    }

    /// Is it in the namespace? With `MOUNTS` it stays so.
    pub fn is_in(&self, within: &Namespace) -> bool {
        self.tree.load(Relaxed) == within.number()
    }

    /// Is it in any tree? With `MOUNTS` it stays so.
    pub fn is_attached(&self) -> bool {
        self.tree.load(Relaxed) != NOWHERE
    }

    /// Does it hang on `upper`, or on what hangs there?
    fn hangs_below(&self, upper: &Mount, read: &RcuRead) -> bool {
        let mut at = self.point(read);
        while let Some(point) = at {
            if ptr::eq(&*point.mount, upper) {
                return true;
            }
            at = point.mount.point(read);
        }
        false
    }

    pub fn is_unbindable(&self) -> bool {
        self.unbindable.load(Relaxed)
    }

    /// A walk comes by.
    fn note_use(&self) {
        let state = self.expiry.load(Relaxed);
        if state != IN_USE {
            self.expiry.store(if state == MARKED { SEEN } else { IN_USE }, Relaxed);
        }
    }

    /// By itself, or because its file system is.
    pub fn is_read_only(&self) -> bool {
        self.flags() & READ_ONLY != 0 || self.superblock.is_read_only()
    }
}

/// A place in the tree.
#[derive(Clone)]
pub struct Path {
    pub mount: MountRef,
    pub dentry: DentryRef,
}

/// No number by which programs ask for a mount is so low, so that it is taken for none of those that are used again on Linux.
pub const UNIQUE: u64 = 1 << 31;

/// The number by which programs ask for the mount with that number.
pub fn unique(id: u64) -> u64 {
    id.saturating_add(UNIQUE)
}

static MOUNTS: Mutex<Peers, level::Mounts> = Mutex::new(Peers::new(), &MOUNT);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn try_mount(
    superblock: Arc<SuperBlock>,
    root: DentryRef,
    source: &[u8],
    flags: u32,
    point: Option<Path>,
) -> Result<Owner<Mount>> {
    try_numbered(NEXT_ID.fetch_add(1, Relaxed), superblock, root, source, flags, point)
}

fn try_numbered(
    id: u64,
    superblock: Arc<SuperBlock>,
    root: DentryRef,
    source: &[u8],
    flags: u32,
    point: Option<Path>,
) -> Result<Owner<Mount>> {
    let point = match point {
        Some(path) => Some(try_arc(Point { path, rcu: RcuHead::new() })?),
        None => None,
    };
    Ok(Owner::try_slab(Mount {
        id,
        root,
        superblock,
        source: Vec::try_from_slice(source)?.into_boxed_slice(),
        flags: AtomicU32::new(flags & KEPT),
        unbindable: AtomicBool::new(false),
        expiry: AtomicU8::new(IN_USE),
        hanging: AtomicU32::new(0),
        walk: AtomicU64::new(0),
        gone: AtomicBool::new(false),
        tree: AtomicU64::new(NOWHERE),
        group: AtomicU32::new(peers::NONE),
        point: RcuArc::new(point),
    })?)
}

/// A mount that hangs nowhere, for pipes and the like. It lives as long as it is held.
pub fn detached(superblock: Arc<SuperBlock>) -> Result<MountRef> {
    let root = superblock.root()?;
    Ok(try_mount(superblock, root, b"none", 0, None)?.share())
}

/// As `detached`, for files that are in no directory either: it has no number, since nobody asks for it by one, and whoever makes one writes no common line.
pub fn unnumbered(superblock: Arc<SuperBlock>) -> Result<MountRef> {
    let root = superblock.root()?;
    Ok(try_numbered(0, superblock, root, b"none", 0, None)?.share())
}

/// As `detached`, and as if it were in the first namespace: the root of a test's world.
#[cfg(test)]
pub fn world(superblock: Arc<SuperBlock>) -> Result<MountRef> {
    let mount = detached(superblock)?;
    mount.tree.store(namespace::first().number(), Relaxed);
    Ok(mount)
}

/// Panics unless the groups of mounts are whole; says how many there are.
#[cfg(test)]
pub fn check_groups() -> usize {
    MOUNTS.lock().check()
}

/// The root of everything, kept for those who have no root of their own.
struct Root {
    path: Path,
    rcu: RcuHead,
}

sync::rcu_object!(Root);

static ROOT: RcuArc<Root> = RcuArc::empty();

/// The root of everything.
///
/// # Errors
/// ENOENT: it is not mounted yet.
pub fn root() -> Result<Path> {
    let read = sync::rcu::read();
    ROOT.load(&read).map(|r| r.path.clone()).ok_or(ENOENT)
}

/// The root of what is mounted at `path` last, or `path`: a walk that ends in `.` does not come there.
pub fn top(path: Path) -> Path {
    let mut top = path;
    let read = sync::rcu::read();
    while let Some(mount) = find(&top.mount, &top.dentry, &read).map(super::dentry::Seen::keep) {
        top = Path { dentry: mount.root.clone(), mount };
    }
    top
}

/// Mounts the root of everything. Once, at boot.
pub fn mount_root(superblock: Arc<SuperBlock>) -> Result<Path> {
    let _lock = MOUNTS.lock();
    let root = superblock.root()?;
    let mount = try_arc(try_mount(superblock, root.clone(), b"rootfs", 0, None)?)?;
    let path = Path { mount: mount.share(), dentry: root };
    let first = namespace::first();
    mount.tree.store(first.number(), Relaxed);
    first.add(1);
    table::enter(Link::try_new(mount)?, None, None);
    ROOT.swap(Some(try_arc(Root { path: path.clone(), rcu: RcuHead::new() })?));
    Ok(path)
}

/// The mount that covers `dentry` in `mount`: the last one made there.
pub fn find<'g>(mount: &Mount, dentry: &Dentry, read: &'g RcuRead) -> Option<Seen<'g, Mount>> {
    table::find(mount, dentry, read)
}

/// A mount of an instance of a file system that fits, in whatever tree. Gives way.
fn find_instance(fits: impl Fn(&Arc<SuperBlock>) -> bool) -> Option<MountRef> {
    find_mount(|mount| fits(&mount.superblock))
}

/// The mount in the namespace that programs know by that number. Gives way.
pub fn of_unique(number: u64, within: &Namespace) -> Option<MountRef> {
    find_mount(|mount| unique(mount.id) == number && mount.is_in(within))
}

fn find_mount(fits: impl Fn(&Mount) -> bool) -> Option<MountRef> {
    let found = table::unmoved(|| {
        let mut found = None;
        table::for_each(|mount, _| {
            if found.is_none() && fits(mount) {
                found = Some(mount.share());
            }
            Ok(())
        })?;
        Ok(found)
    });
    // It fails only where the closure does.
    found.ok().flatten()
}

/// Is the instance of a file system mounted anywhere? Gives way.
pub fn is_mounted(superblock: &Arc<SuperBlock>) -> bool {
    find_instance(|mounted| Arc::ptr_eq(mounted, superblock)).is_some()
}

/// A mount of the file system with that device number. Gives way.
pub fn of_device(device: u64) -> Option<MountRef> {
    find_instance(|mounted| mounted.device == device)
}

/// All mounts of the namespace in the order they were made, for /proc/mounts. Gives way.
pub fn all(within: &Namespace) -> Result<Vec<MountRef>> {
    list(|mount| mount.is_in(within))
}

/// All mounts in trees, in the order they were made. Gives way.
pub fn everywhere() -> Result<Vec<MountRef>> {
    list(Mount::is_attached)
}

fn list(fits: impl Fn(&Mount) -> bool) -> Result<Vec<MountRef>> {
    let mut list = table::unmoved(|| {
        let mut list = Vec::new();
        table::for_each(|mount, _| {
            if fits(mount) {
                list.try_push(mount.share())?;
            }
            Ok(())
        })?;
        Ok(list)
    })?;
    sort::by_key(&mut list, |mount| mount.id);
    list.dedup_by_key(|mount| mount.id);
    Ok(list)
}

/// Levels of directories that are climbed before others may run.
const LEVELS: u32 = 256;

/// Where a climb towards a root has come.
enum Climb {
    Higher(Path),
    /// No further up. `false`: that is not the root.
    Top(bool),
}

/// The text of a path as seen from `root`, for getcwd and /proc. `false`: it cannot be reached from there. Gives way: a program chooses how deep it lies. What
/// is renamed meanwhile is shown under its old or its new name.
///
/// # Errors
/// EINTR: a fatal signal came. ENOMEM.
pub fn text_of(path: &Path, root: &Path) -> Result<(Vec<u8>, bool)> {
    let (mut text, mut higher) = (Vec::new(), None);
    let reached = loop {
        match climb(higher.as_ref().unwrap_or(path), root, &mut text)? {
            Climb::Higher(path) => higher = Some(path),
            Climb::Top(reached) => break reached,
        }
        if give_way() {
            return Err(EINTR);
        }
    };
    if text.is_empty() {
        text.try_push(b'/')?;
    }
    text.reverse();
    Ok((text, reached))
}

/// Adds names to `text` from the last to the first, each backwards.
fn climb(from: &Path, root: &Path, text: &mut Vec<u8>) -> Result<Climb> {
    let read = sync::rcu::read();
    let (mut mount, mut dentry) = (&from.mount, &from.dentry);
    for _ in 0..LEVELS {
        if ptr::eq(&**dentry, &*root.dentry) && ptr::eq(&**mount, &*root.mount) {
            return Ok(Climb::Top(true));
        }
        if ptr::eq(&**dentry, &*mount.root) {
            match mount.point(&read) {
                Some(point) => (mount, dentry) = (&point.mount, &point.dentry),
                None => return Ok(Climb::Top(false)),
            }
            continue;
        }
        let Some(link) = dentry.link(&read) else { return Ok(Climb::Top(true)) };
        let start = text.len();
        text.try_extend_from_slice(&link.name.bytes)?;
        if let Some(name) = text.get_mut(start..) {
            name.reverse();
        }
        // What has no parent has a text for its name (`reopen`).
        if link.parent.is_some() && link.name.bytes.first() != Some(&b'/') {
            text.try_push(b'/')?;
        }
        match &link.parent {
            Some(parent) => dentry = parent,
            // The root of the file system, above that of the mount: the place is not in the mount.
            None if *link.name.bytes == *b"/" => {
                text.clear();
                return Ok(Climb::Top(false));
            }
            None => return Ok(Climb::Top(true)),
        }
    }
    Ok(Climb::Higher(Path { mount: mount.clone(), dentry: dentry.clone() }))
}
