//! Inodes: what a name leads to. The attributes every file system has lie here; what differs lies behind `operations::InodeOps`.
//!
//! Attributes are single atomics, so stat and permission checks read them under no lock. Those that an operation
//! changes together (a link count and its change time) are changed under the lock of the directory concerned or, for data, under
//! `write_lock`. Contents are a `vm::Object` where there are any: the page cache is the file.
//!
//! Lock order: directory locks → `write_lock` → what the file system takes inside.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::lock_order as level;
use sync::level::{Before, Held};
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{Mutex, MutexGuard, lock_class, try_arc};

use super::acl;
use super::attributes::Changes;
use super::clock;
use super::handles;
use super::locks::FileLocks;
use super::notify::Watched;
use super::operations::InodeOps;
use super::writers::Writers;
use super::xattr;
use crate::errno::{ENOMEM, Result};
use vm::ObjectRef;

lock_class! { pub static INODE_WRITE: LockClass = ("inode write", level::InodeWrite); }

/// The kinds of file, with the bits that `st_mode` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// What has a descriptor but is no file, as Linux's anonymous inodes: no name leads to it.
    Anonymous = 0,
    Fifo = 0o010_000,
    Character = 0o020_000,
    Directory = 0o040_000,
    Block = 0o060_000,
    Regular = 0o100_000,
    Symlink = 0o120_000,
    Socket = 0o140_000,
}

impl Kind {
    /// From the type bits of a mode.
    pub fn from_mode(mode: u32) -> Option<Kind> {
        Some(match mode & 0o170_000 {
            0o010_000 => Kind::Fifo,
            0o020_000 => Kind::Character,
            0o040_000 => Kind::Directory,
            0o060_000 => Kind::Block,
            0o100_000 => Kind::Regular,
            0o120_000 => Kind::Symlink,
            0o140_000 => Kind::Socket,
            _ => return None,
        })
    }

    /// `d_type` of getdents64.
    pub fn dirent_type(self) -> u8 {
        (self as u32 >> 12) as u8
    }
}

pub const SET_USER_ID: u32 = 0o4000;
pub const SET_GROUP_ID: u32 = 0o2000;
pub const STICKY: u32 = 0o1000;

/// What a new inode begins with.
#[derive(Clone, Copy)]
pub struct NewInode {
    pub kind: Kind,
    /// Permission bits, umask already applied.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Of device nodes; 0 otherwise.
    pub rdev: u64,
}

/// What a file system that is elsewhere says of an inode. Times are nanoseconds since the epoch.
pub struct Seen {
    /// Permission, set-id and sticky bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub accessed: i64,
    pub modified: i64,
    pub changed: i64,
}

/// Where the truth about an inode's attributes is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attributes {
    /// Here alone.
    Here,
    /// Here, and the file system writes them down: `InodeOps::times_changed` tells it of what it has not changed itself.
    WrittenBack,
    /// Elsewhere: `InodeOps::refresh` is asked before they are used.
    Elsewhere,
}

pub struct Inode {
    pub number: u64,
    /// `st_dev` of the file system it lies in.
    pub device: u64,
    pub kind: Kind,
    pub rdev: u64,
    mode: AtomicU32,
    uid: AtomicU32,
    gid: AtomicU32,
    links: AtomicU32,
    accessed: AtomicI64,
    modified: AtomicI64,
    changed: AtomicI64,
    pub born: i64,
    /// Moves with every change of the contents; what is cached of them (a parsed ELF header) holds for one value.
    version: AtomicU64,
    pub ops: Box<dyn InodeOps>,
    /// Serialises writes that must not interleave: appends, truncation.
    write_lock: Mutex<(), level::InodeWrite>,
    pub locks: FileLocks,
    /// Who wants to know what happens to it.
    pub watched: Watched,
    /// Who has it open for writing, and whether it was ever a program.
    pub writers: Writers,
    /// It has been mapped, and its object has a label.
    mapped: AtomicBool,
    attributes: Attributes,
    /// A write has more to do than to note its time: there are set-id bits to drop, or somebody to tell. One look on the way of all writes.
    after_write: AtomicBool,
    /// It gives capabilities to who executes it (`xattr::capabilities`). Changes under `write_lock`.
    capabilities: AtomicBool,
    /// A handle was given of it (`handles`). Set and never taken off.
    handled: AtomicBool,
    /// It never had a name, and may get one though it has no link.
    unnamed: AtomicBool,
    /// Who else may do what, by lists. Changes under `write_lock`.
    pub acls: acl::kept::Place,
    /// How long what is written to it will live (F_SET_RW_HINT). Told and no more: there is no device that could place it by that.
    write_hint: AtomicU8,
    /// What exec keeps of a program, and fifos of theirs.
    kept: RcuArc<Kept>,
}

vm::slab_type!(Inode, "inode", Arc);

impl Drop for Inode {
    fn drop(&mut self) {
        if *self.handled.get_mut() {
            handles::forget(self);
        }
    }
}

/// What another room keeps with an inode, and the version of the contents it was made from.
struct Kept {
    version: u64,
    what: Box<dyn Any + Send + Sync>,
    rcu: RcuHead,
}

sync::rcu_object!(Kept);

fn has_work_after_write(mode: u32, attributes: Attributes) -> bool {
    mode & (SET_USER_ID | SET_GROUP_ID) != 0 || attributes == Attributes::WrittenBack
}

impl Inode {
    /// An inode whose attributes are here alone.
    pub fn try_new(number: u64, device: u64, new: &NewInode, ops: Box<dyn InodeOps>) -> Result<Arc<Inode>> {
        Inode::try_with(number, device, new, ops, Attributes::Here)
    }

    #[inline(always)]
    pub fn try_with(
        number: u64,
        device: u64,
        new: &NewInode,
        ops: Box<dyn InodeOps>,
        attributes: Attributes,
    ) -> Result<Arc<Inode>> {
        let now = clock::coarse();
        Ok(sync::slab_arc_of(|| Inode {
            number,
            device,
            kind: new.kind,
            rdev: new.rdev,
            mode: AtomicU32::new(new.mode & 0o7777),
            uid: AtomicU32::new(new.uid),
            gid: AtomicU32::new(new.gid),
            links: AtomicU32::new(if new.kind == Kind::Directory { 2 } else { 1 }),
            accessed: AtomicI64::new(now),
            modified: AtomicI64::new(now),
            changed: AtomicI64::new(now),
            born: now,
            version: AtomicU64::new(0),
            ops,
            write_lock: Mutex::new((), &INODE_WRITE),
            locks: FileLocks::new(),
            watched: Watched::new(),
            writers: Writers::new(),
            mapped: AtomicBool::new(false),
            attributes,
            after_write: AtomicBool::new(has_work_after_write(new.mode, attributes)),
            capabilities: AtomicBool::new(false),
            handled: AtomicBool::new(false),
            unnamed: AtomicBool::new(false),
            acls: acl::kept::Place::new(),
            write_hint: AtomicU8::new(0),
            kept: RcuArc::empty(),
        })?)
    }

    /// Takes the lock of writes, which the file's position may be locked above. May sleep.
    #[inline(always)]
    pub fn lock_write<'a>(
        &'a self,
        order: &'a mut Held<'_, impl Before<level::InodeWrite>>,
    ) -> MutexGuard<'a, (), level::InodeWrite> {
        self.write_lock.lock_in(order)
    }

    /// Its device and its number.
    pub fn place(&self) -> (u64, u64) {
        (self.device, self.number)
    }

    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Permission bits with set-id and sticky bits.
    pub fn mode(&self) -> u32 {
        self.mode.load(Relaxed)
    }

    /// `st_mode`.
    pub fn full_mode(&self) -> u32 {
        self.mode() | self.kind as u32
    }

    pub fn uid(&self) -> u32 {
        self.uid.load(Relaxed)
    }

    pub fn gid(&self) -> u32 {
        self.gid.load(Relaxed)
    }

    pub fn links(&self) -> u32 {
        self.links.load(Relaxed)
    }

    /// Makes changes of attributes in memory, but for the size: for file systems, in `set_attributes` and where they learn of a change.
    pub fn apply(&self, changes: &Changes) {
        if let Some(mode) = changes.mode {
            self.mode.store(mode & 0o7777, Relaxed);
            self.note_work_after_write(mode);
        }
        if changes.drops_capabilities {
            xattr::drop_capabilities(self);
        }
        if let Some(uid) = changes.uid {
            self.uid.store(uid, Relaxed);
        }
        if let Some(gid) = changes.gid {
            self.gid.store(gid, Relaxed);
        }
        if let Some(t) = changes.accessed {
            self.accessed.store(t, Relaxed);
        }
        if let Some(t) = changes.modified {
            self.modified.store(t, Relaxed);
        }
        self.touch_changed();
    }

    /// Takes over what the file system says that it is elsewhere.
    pub fn take_over(&self, seen: &Seen) {
        self.mode.store(seen.mode & 0o7777, Relaxed);
        self.uid.store(seen.uid, Relaxed);
        self.gid.store(seen.gid, Relaxed);
        self.links.store(seen.links, Relaxed);
        self.accessed.store(seen.accessed, Relaxed);
        self.modified.store(seen.modified, Relaxed);
        self.changed.store(seen.changed, Relaxed);
    }

    /// The contents are others than before: what is cached of them holds no more.
    pub fn note_new_contents(&self) {
        self.version.fetch_add(1, Relaxed);
    }

    fn note_work_after_write(&self, mode: u32) {
        let work = has_work_after_write(mode, self.attributes) || self.has_capabilities();
        self.after_write.store(work, Relaxed);
    }

    /// Does it give capabilities to who executes it?
    #[inline]
    pub fn has_capabilities(&self) -> bool {
        self.capabilities.load(Relaxed)
    }

    /// It gives some from now on, or none. The lock of writes is held.
    pub fn note_capabilities(&self, some: bool) {
        self.capabilities.store(some, Relaxed);
        self.note_work_after_write(self.mode());
    }

    /// Is the truth about its attributes elsewhere?
    #[inline]
    pub fn is_elsewhere(&self) -> bool {
        self.attributes == Attributes::Elsewhere
    }

    /// Brings the attributes up to date, where that has to be asked for. May sleep.
    #[inline]
    pub fn refresh(&self) -> Result {
        if self.attributes == Attributes::Elsewhere { self.ops.refresh(self) } else { Ok(()) }
    }

    /// Its mode or lists are about to be changed here. May sleep.
    pub fn begin_change(&self) -> Result {
        if self.attributes == Attributes::Elsewhere { self.ops.begin_change(self) } else { Ok(()) }
    }

    /// May it be opened with O_DIRECT? Disks may; files whose contents are memory may too, and lose nothing by it.
    pub fn is_direct(&self) -> bool {
        self.kind == Kind::Block || self.kind == Kind::Regular && self.ops.object().is_some()
    }

    /// The error of the file system, if it lets nobody write here.
    #[inline]
    pub fn check_writing(&self) -> Result {
        match self.attributes {
            Attributes::Elsewhere => self.ops.refuses_writing().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// Does the file system let the caller do here what its mode does not?
    #[cold]
    pub fn grants(&self) -> bool {
        self.attributes == Attributes::Elsewhere && self.ops.grants()
    }

    /// Directory locks serialise this for the links of one directory; two directories may add at once.
    pub fn add_link(&self) {
        self.links.fetch_add(1, Relaxed);
        self.touch_changed();
    }

    pub fn drop_link(&self) {
        let _ = self.links.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
        self.touch_changed();
    }

    /// It is made without a name.
    pub fn set_unnamed(&self) {
        self.unnamed.store(true, Relaxed);
    }

    pub fn is_unnamed(&self) -> bool {
        self.unnamed.load(Relaxed)
    }

    /// It got its first name.
    pub fn end_unnamed(&self) {
        if self.is_unnamed() {
            self.unnamed.store(false, Relaxed);
        }
    }

    /// Was a handle given of it?
    #[inline]
    pub fn has_handle(&self) -> bool {
        self.handled.load(Relaxed)
    }

    /// It is in the table of handles from now on.
    pub fn note_handle(&self) {
        self.handled.store(true, Relaxed);
    }

    pub fn set_links(&self, n: u32) {
        self.links.store(n, Relaxed);
    }

    /// Access, modification and change time in nanoseconds since the epoch.
    pub fn times(&self) -> (i64, i64, i64) {
        (self.accessed.load(Relaxed), self.modified.load(Relaxed), self.changed.load(Relaxed))
    }

    /// When it was made; none where that is elsewhere, and nobody says it.
    pub fn birth(&self) -> Option<i64> {
        (self.attributes != Attributes::Elsewhere).then_some(self.born)
    }

    pub fn touch_changed(&self) {
        self.changed.store(clock::coarse(), Relaxed);
    }

    /// After a change of the contents.
    pub fn touch_modified(&self) {
        let now = clock::coarse();
        self.modified.store(now, Relaxed);
        self.changed.store(now, Relaxed);
        // The owner of the write lock or of the directory lock is alone here; shared writers lose nothing but a step.
        self.version.store(self.version.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// After a write: is there more to do than `touch_modified`? Asked under the lock of writes, as set-id bits are set.
    #[inline]
    pub fn has_work_after_write(&self) -> bool {
        self.after_write.load(Relaxed)
    }

    /// Tells the file system that times have changed here, if it writes them down.
    pub fn tell_times(&self) {
        if self.attributes == Attributes::WrittenBack {
            self.ops.times_changed(self);
        }
    }

    /// After a read; `strictly`: as `strictatime` does, each time. Else as `relatime` does: written only if the file changed since the last time or a day has passed, so
    /// that readers of one file on many CPUs write no common line.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the time of the last change is not negative, and accessed is later"
    )]
    pub fn touch_accessed(&self, strictly: bool) {
        const DAY: i64 = 86_400 * 1_000_000_000;
        let (accessed, modified, changed) = self.times();
        if accessed > modified && accessed > changed {
            let now = clock::coarse();
            if !strictly && now - accessed < DAY {
                return;
            }
            self.accessed.store(now, Relaxed);
        } else {
            // Strictly later than the change, so that the next read sees that it was noted.
            self.accessed.store(clock::coarse().max(modified.max(changed).saturating_add(1)), Relaxed);
        }
        self.tell_times();
    }

    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// F_GET_RW_HINT.
    pub fn write_hint(&self) -> u8 {
        self.write_hint.load(Relaxed)
    }

    pub fn set_write_hint(&self, hint: u8) {
        self.write_hint.store(hint, Relaxed);
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.ops.size(self)
    }

    /// Was it ever mapped?
    pub fn is_mapped(&self) -> bool {
        self.mapped.load(Relaxed)
    }

    /// True for the first caller alone; a plain look for all others.
    pub fn first_mapping(&self) -> bool {
        !self.mapped.load(Relaxed) && !self.mapped.swap(true, Relaxed)
    }

    pub fn object(&self) -> Option<ObjectRef> {
        self.ops.object()
    }

    /// Shows `f` what exec kept of this file, if the contents have not changed since. `f` does not sleep.
    pub fn with_exec_cache<R>(&self, f: impl FnOnce(&(dyn Any + Send + Sync)) -> Option<R>) -> Option<R> {
        let read = sync::rcu::read();
        let kept = self.kept.load(&read)?;
        if kept.version == self.version() { f(&*kept.what) } else { None }
    }

    /// Keeps what exec parsed of the contents of `version`. Out of memory, it is parsed again next time.
    pub fn set_exec_cache(&self, version: u64, image: Box<dyn Any + Send + Sync>) {
        if let Ok(kept) = try_arc(Kept { version, what: image, rcu: RcuHead::new() }) {
            self.kept.swap(Some(kept));
        }
    }

    /// What `attached` has made, if it has.
    pub fn look_attached<T: Any + Send + Sync, R>(
        &self,
        read: &RcuRead,
        show: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        self.kept.load(read).and_then(|kept| kept.what.downcast_ref::<T>()).map(show)
    }

    /// What is kept with an inode that has no contents (a fifo's pipe), made by `make` the first time and there as long as the inode.
    pub fn attached<T: Any + Send + Sync, R>(
        &self,
        make: impl FnOnce() -> Result<T>,
        show: impl FnOnce(&T) -> R,
    ) -> Result<R> {
        let order = &mut Held::clean();
        let _lock = self.lock_write(order);
        if self.kept.load(&sync::rcu::read()).is_none() {
            let what: Box<dyn Any + Send + Sync> = sync::try_box(make()?)?;
            self.kept.swap(Some(try_arc(Kept { version: 0, what, rcu: RcuHead::new() })?));
        }
        let read = sync::rcu::read();
        let kept = self.kept.load(&read).and_then(|kept| kept.what.downcast_ref::<T>());
        kept.map(show).ok_or(ENOMEM)
    }
}
