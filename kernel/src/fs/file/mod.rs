//! Open file descriptions: what `open` makes and descriptors share.
//!
//! A `File` is held by `Arc`, for memory alone. How many descriptors refer to it is counted apart (`opens`), so that the last
//! close takes effect at once (end of file in a pipe, release of locks) though the memory waits for an RCU grace period.
//!
//! Lock order: `position` → the inode's `write_lock` → what the file itself takes.
#![deny(unsafe_code)]

pub mod async_io;
pub mod buffer;
pub mod count;
pub mod describe;
mod flags;
pub mod ioctl;
mod lease;
pub mod mapped;
pub mod open;
mod operations;
pub mod poll;
pub mod regular;
pub mod special;
pub mod table;
pub mod told;
pub mod tree;
pub mod truncate;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::{forget, offset_of};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32,
    Ordering::{AcqRel, Relaxed},
};

use crate::lock_order as level;
use sync::level::Held;
use sync::rcu::{RcuArc, RcuHead};
use sync::{Mutex, lock_class, slab_arc_of};

pub use flags::OpenFlags;
pub use operations::{FileOps, Mapping, Order, seek_in};
use operations::{SEEK_HOLE, SEEK_SET};

use self::async_io::AsyncIo;
use self::buffer::{Input, Output};
use self::count::Counted;
use self::poll::{Poller, Stays};
use crate::errno::{EBADF, EINVAL, EISDIR, EOVERFLOW, ESPIPE, Errno, Result};
use crate::fs::vfs::inode::{Inode, Kind};
use crate::fs::vfs::locks::Owner;
use crate::fs::vfs::mount::{NO_ATIME, NO_DIR_ATIME, NO_EXEC, Path, STRICT_ATIME};
use crate::fs::vfs::notify;
use crate::fs::vfs::operations::DirEntry;
use vm::ObjectRef;

lock_class! { static POSITION: LockClass = ("file position", level::FilePosition); }

/// No place of a file is past what a signed offset can name.
pub fn check_range(at: u64, len: usize) -> Result<()> {
    match at.checked_add(len as u64) {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(EINVAL),
    }
}

/// A file that stays open (`File::keep_open`).
#[must_use]
pub struct KeptOpen<'a>(&'a File);

impl KeptOpen<'_> {
    /// A descriptor, which is about to refer to the file, keeps it open instead; should none come, `File::drop_open` is due.
    fn hand_over(self) {
        forget(self);
    }
}

impl Drop for KeptOpen<'_> {
    fn drop(&mut self) {
        self.0.drop_open();
    }
}

enum Ops {
    Static(&'static dyn FileOps),
    Own(Box<dyn FileOps>),
}

/// As what an open file counts in its inode.
const NOTHING: u8 = 0;
const WRITER: u8 = 1;
const READER: u8 = 2;

/// Where the file lies: a place in the tree, or nowhere.
pub enum Place {
    Named(Path),
    /// Pipes and the like: the inode that fstat shows, and the text that /proc/PID/fd shows.
    Anonymous(Arc<Inode>, &'static str),
}

/// Descriptors of several processes may be of one file. What who gets or closes one writes lies on one line, with the counts of the `Arc`; what all
/// look at on the next one; the position on the last.
#[repr(C)]
pub struct File {
    /// Descriptors that refer to it, in all tables, and calls that keep it open.
    opens: AtomicU32,
    counted: Counted,
    /// Whether it counts among the inode's writers, or its readers.
    counts: AtomicU8,
    /// No descriptor will refer to it: the kernel reads or writes it by itself, and drops it then (a program, a core).
    undescribed: AtomicBool,
    rcu: RcuHead,
    async_io: RcuArc<AsyncIo>,
    pub place: Place,
    ops: Ops,
    /// The watches that end with it.
    pub stays: Stays,
    flags: AtomicU32,
    pub position: Mutex<u64, level::FilePosition>,
}

// Behind the two counts of the `Arc`, 16 bytes.
const _: () = assert!(offset_of!(File, place) == 48 && offset_of!(File, position) == 112);

vm::slab_type!(File, "file", Arc);

sync::rcu_object!(File);

impl File {
    /// Opens what lies at `path`; permissions are checked already.
    ///
    /// # Errors
    /// ENFILE, and those of what it opens.
    pub fn try_open(path: Path, flags: OpenFlags) -> Result<Arc<File>> {
        File::try_open_counted(path, flags, Counted::try_new()?)
    }

    fn try_open_counted(path: Path, flags: OpenFlags, counted: Counted) -> Result<Arc<File>> {
        let inode = &path.dentry.inode;
        let ops = if flags.contains(OpenFlags::PATH) {
            Ops::Static(&regular::PATH_ONLY)
        } else {
            match inode.ops.open(&path.dentry, flags)? {
                Some(ops) => Ops::Own(ops),
                None => match inode.kind {
                    Kind::Regular => Ops::Static(&regular::REGULAR),
                    Kind::Directory => Ops::Static(&regular::DIRECTORY),
                    _ => Ops::Own(special::open(inode, flags)?),
                },
            }
        };
        let regular = inode.kind == Kind::Regular && !flags.contains(OpenFlags::PATH);
        let file = File::try_make(Place::Named(path), ops, flags, counted)?;
        if regular {
            file.begin_access(flags)?;
        }
        Ok(file)
    }

    /// Counts it among who has the regular file open, and waits until nobody's lease is against that.
    ///
    /// # Errors
    /// ETXTBSY; EAGAIN, ERESTARTSYS, EINTR: there is a lease.
    #[inline]
    fn begin_access(&self, flags: OpenFlags) -> Result {
        let inode = self.inode();
        let leased = if flags.writes() {
            inode.begin_write()?;
            self.counts.store(WRITER, Relaxed);
            inode.locks.is_leased()
        } else if flags.reads() {
            self.counts.store(READER, Relaxed);
            inode.begin_read()
        } else {
            inode.locks.is_leased()
        };
        if leased {
            // Who opens it for nothing (access mode 3) may write, to Linux.
            let writing = flags.bits() & 3 != 0;
            inode.locks.break_leases(writing, !flags.contains(OpenFlags::NONBLOCK))?;
        }
        Ok(())
    }

    /// # Errors
    /// ENFILE.
    pub fn try_anonymous(
        inode: Arc<Inode>,
        name: &'static str,
        ops: Box<dyn FileOps>,
        flags: OpenFlags,
    ) -> Result<Arc<File>> {
        File::try_make(Place::Anonymous(inode, name), Ops::Own(ops), flags, Counted::try_new()?)
    }

    /// An anonymous file whose open files have nothing of their own.
    pub fn try_static(
        inode: Arc<Inode>,
        name: &'static str,
        ops: &'static dyn FileOps,
        flags: OpenFlags,
    ) -> Result<Arc<File>> {
        File::try_make(Place::Anonymous(inode, name), Ops::Static(ops), flags, Counted::try_new()?)
    }

    fn try_make(place: Place, ops: Ops, flags: OpenFlags, counted: Counted) -> Result<Arc<File>> {
        let kept = flags.difference(
            OpenFlags::CREATE
                .union(OpenFlags::EXCLUSIVE)
                .union(OpenFlags::NO_CTTY)
                .union(OpenFlags::TRUNCATE)
                .union(OpenFlags::CLOEXEC),
        );
        Ok(slab_arc_of(|| File {
            opens: AtomicU32::new(0),
            counted,
            counts: AtomicU8::new(NOTHING),
            undescribed: AtomicBool::new(false),
            rcu: RcuHead::new(),
            async_io: RcuArc::empty(),
            place,
            ops,
            stays: Stays::new(),
            flags: AtomicU32::new(kept.bits()),
            position: Mutex::new(0, &POSITION),
        })?)
    }

    pub fn ops(&self) -> &dyn FileOps {
        match &self.ops {
            Ops::Static(ops) => *ops,
            Ops::Own(ops) => &**ops,
        }
    }

    /// The operations as their own type.
    pub fn downcast<T: 'static>(&self) -> Option<&T> {
        self.ops().as_any().downcast_ref()
    }

    pub fn inode(&self) -> &Inode {
        match &self.place {
            Place::Named(path) => &path.dentry.inode,
            Place::Anonymous(inode, _) => inode,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Named(path) => Some(path),
            Place::Anonymous(..) => None,
        }
    }

    pub fn flags(&self) -> OpenFlags {
        OpenFlags::from_bits_retain(self.flags.load(Relaxed))
    }

    /// As programs are told of them (F_GETFL): a 64-bit program's files are all "large".
    pub fn flags_told(&self) -> OpenFlags {
        let mut flags = self.flags();
        flags.set(OpenFlags::ASYNC, self.is_async());
        let large = self.path().is_some() && !flags.contains(OpenFlags::PATH);
        flags.set(OpenFlags::LARGEFILE, large || flags.contains(OpenFlags::LARGEFILE));
        flags
    }

    /// The kernel has opened it for itself.
    pub fn set_undescribed(&self) {
        self.undescribed.store(true, Relaxed);
    }

    /// F_SETFL.
    pub fn set_flags(&self, flags: OpenFlags) {
        let keep = self.flags().difference(OpenFlags::SETTABLE);
        self.flags.store(keep.union(flags.intersection(OpenFlags::SETTABLE)).bits(), Relaxed);
    }

    /// One of the flags that are not kept otherwise.
    pub fn keep_flag(&self, flag: OpenFlags) {
        self.flags.fetch_or(flag.bits(), Relaxed);
    }

    pub fn nonblocking(&self) -> bool {
        self.flags().contains(OpenFlags::NONBLOCK)
    }

    /// As whom it holds locks of its own: flock's, and F_OFD_SETLK's.
    pub fn lock_holder(&self) -> Owner {
        Owner::of_open_file(ptr::from_ref(self).addr())
    }

    /// A descriptor refers to it now: its first one, or one more beside one that stays meanwhile.
    pub fn add_open(&self) {
        self.opens.fetch_add(1, Relaxed);
    }

    /// Keeps it open for a call that sleeps or makes another descriptor: should the last one be closed meanwhile, that takes effect when the call
    /// ends.
    ///
    /// # Errors
    /// EBADF: it is closed already, though the caller had found it before.
    pub fn keep_open(&self) -> Result<KeptOpen<'_>> {
        let kept = self.opens.fetch_update(Relaxed, Relaxed, |n| n.checked_add(1).filter(|_| n != 0));
        kept.map(|_| KeptOpen(self)).map_err(|_| EBADF)
    }

    /// A descriptor is gone; the last one releases the file.
    pub fn drop_open(&self) {
        if self.opens.fetch_sub(1, AcqRel) == 1 {
            if notify::is_used() {
                told::on_close(self);
            }
            self.counted.end();
            let inode = self.inode();
            inode.locks.release_file(self.lock_holder());
            self.end_access(inode);
            self.stop_async();
            self.stays.end();
            self.ops().release(self);
        }
    }

    /// Comes once or twice, and never on two CPUs at once: with the last close, and when the file goes.
    #[inline(always)]
    fn end_access(&self, inode: &Inode) {
        let counts = self.counts.load(Relaxed);
        if counts != NOTHING {
            self.counts.store(NOTHING, Relaxed);
            if counts == WRITER { inode.end_write() } else { inode.end_read() }
        }
    }

    /// Descriptors that refer to it, calls that keep it open, and messages that carry it.
    pub fn openings(&self) -> u32 {
        self.opens.load(Relaxed)
    }

    /// Is there one of these alone, which is the caller's to end?
    pub fn is_open_once(&self) -> bool {
        self.openings() == 1
    }

    /// No descriptor refers to it any more.
    pub fn is_closed(&self) -> bool {
        self.opens.load(Relaxed) == 0
    }

    fn may_read(&self) -> Result<()> {
        if self.flags().reads() { Ok(()) } else { Err(EBADF) }
    }

    fn may_write(&self) -> Result<()> {
        if self.flags().writes() { Ok(()) } else { Err(EBADF) }
    }

    /// For calls that look at the file before they look at a vector of buffers.
    pub fn check_reads(&self) -> Result<()> {
        self.may_read()?;
        if self.ops().can_read() { Ok(()) } else { Err(EINVAL) }
    }

    pub fn check_writes(&self) -> Result<()> {
        self.may_write()?;
        if self.ops().can_write() { Ok(()) } else { Err(EINVAL) }
    }

    /// ESPIPE comes before a descriptor that is open for the other direction only.
    pub fn check_places(&self, writing: bool) -> Result<()> {
        if self.flags().contains(OpenFlags::PATH) {
            return Err(EBADF);
        }
        if self.ops().takes_places(writing) { Ok(()) } else { Err(ESPIPE) }
    }

    /// EINVAL: a transfer of `len` bytes at a place, or where the file stands, would end past all offsets.
    pub fn check_range(&self, at: Option<u64>, len: usize) -> Result {
        let own = || if self.ops().moves() { *self.position.lock() } else { 0 };
        self.check_end(at.unwrap_or_else(own), len)
    }

    /// Does a transfer of `len` bytes from `at` on end at a place that the file may have?
    #[inline]
    fn check_end(&self, at: u64, len: usize) -> Result {
        check_range(at, len).or_else(|error| self.check_unsigned_end(at, len, error))
    }

    #[cold]
    fn check_unsigned_end(&self, at: u64, len: usize, error: Errno) -> Result {
        if !self.ops().has_unsigned_places() || isize::try_from(len).is_err() {
            return Err(error);
        }
        // As Linux has it, the last place of all is not reached.
        let reaches_end = i64::try_from(at).is_err() && at.checked_add(len as u64).is_none_or(|end| end == 0);
        if reaches_end { Err(EOVERFLOW) } else { Ok(()) }
    }

    pub fn read(&self, out: &mut Output<'_>) -> Result<usize> {
        self.may_read()?;
        let n = if self.ops().moves() {
            let mut position = self.position.lock();
            let (position, order) = position.split();
            self.check_end(*position, out.left())?;
            let n = self.ops().read(self, *position, out, order.reborrow())?;
            *position = position.saturating_add(n as u64);
            n
        } else {
            self.ops().read(self, 0, out, Held::clean().lower())?
        };
        self.touch();
        Ok(n)
    }

    pub fn read_at(&self, at: u64, out: &mut Output<'_>) -> Result<usize> {
        self.check_places(false)?;
        self.may_read()?;
        self.check_end(at, out.left())?;
        let n = self.ops().read(self, at, out, Held::clean().lower())?;
        self.touch();
        Ok(n)
    }

    pub fn write(&self, from: &mut Input<'_>) -> Result<usize> {
        self.write_or_append(from, self.flags().contains(OpenFlags::APPEND))
    }

    /// As `write`, whether or not the file was opened to append.
    #[inline]
    pub fn write_or_append(&self, from: &mut Input<'_>, appends: bool) -> Result<usize> {
        self.may_write()?;
        if !self.ops().moves() {
            return self.ops().write(self, 0, from, Held::clean().lower());
        }
        let mut position = self.position.lock();
        let (position, order) = position.split();
        self.check_end(*position, from.left())?;
        if appends && self.has_end() {
            let (n, end) = self.ops().append(self, from, order.reborrow())?;
            // To write nothing is not to go to the end.
            if n > 0 {
                *position = end;
            }
            return Ok(n);
        }
        let n = self.ops().write(self, *position, from, order.reborrow())?;
        *position = position.saturating_add(n as u64);
        Ok(n)
    }

    pub fn write_at(&self, at: u64, from: &mut Input<'_>) -> Result<usize> {
        self.write_at_or_append(at, from, self.flags().contains(OpenFlags::APPEND))
    }

    /// As `write_at`, whether or not the file was opened to append.
    #[inline]
    pub fn write_at_or_append(&self, at: u64, from: &mut Input<'_>, appends: bool) -> Result<usize> {
        self.check_places(true)?;
        self.may_write()?;
        self.check_end(at, from.left())?;
        if appends && self.has_end() {
            // As Linux does, against POSIX: O_APPEND wins over the offset.
            return Ok(self.ops().append(self, from, Held::clean().lower())?.0);
        }
        self.ops().write(self, at, from, Held::clean().lower())
    }

    /// Has it an end that could move, so that O_APPEND means something? A disk has none.
    fn has_end(&self) -> bool {
        self.inode().kind != Kind::Block && !self.ops().ignores_append()
    }

    pub fn seek(&self, offset: i64, whence: u32) -> Result<u64> {
        if self.flags().contains(OpenFlags::PATH) {
            return Err(EBADF);
        }
        if whence > SEEK_HOLE {
            return Err(EINVAL);
        }
        if !self.ops().moves() {
            return self.seek_in_place(offset, whence);
        }
        if whence == SEEK_SET {
            // Where it was does not matter, so that the position is all that is used while it is locked.
            let to = self.ops().seek(self, offset, whence, 0)?;
            *self.position.lock() = to;
            return Ok(to);
        }
        let mut position = self.position.lock();
        *position = self.ops().seek(self, offset, whence, *position)?;
        Ok(*position)
    }

    /// lseek on a file whose position, if it has one, stays 0.
    #[cold]
    fn seek_in_place(&self, offset: i64, whence: u32) -> Result<u64> {
        if self.ops().seeks() {
            self.ops().seek(self, offset, whence, 0)
        } else if self.ops().ignores_seek() {
            Ok(0)
        } else {
            Err(ESPIPE)
        }
    }

    /// The position, as somebody sees it who does not wait for a long read or write: 0 while one is under way.
    pub fn position_seen(&self) -> u64 {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            if let Some(position) = self.position.try_lock() {
                return *position;
            }
            crate::sched::yield_now();
        }
        0
    }

    /// Reads for the kernel itself, whatever the file was opened for; short only at the end of the file.
    #[expect(clippy::arithmetic_side_effects, reason = "no more is read than fits")]
    pub fn read_at_kernel(&self, at: u64, buffer: &mut [u8]) -> Result<usize> {
        if self.inode().is_dir() {
            return Err(EISDIR);
        }
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..)
            && !rest.is_empty()
        {
            let at = at.saturating_add(done as u64);
            let n = self.ops().read(self, at, &mut Output::kernel(rest), Held::clean().lower())?;
            if n == 0 {
                break;
            }
            done += n;
        }
        Ok(done)
    }

    /// May epoll watch it? Nothing that has contents (a memory file neither), and not every device.
    pub fn can_be_watched(&self) -> bool {
        let stored = matches!(self.inode().kind, Kind::Regular | Kind::Directory);
        !stored && self.ops().can_be_watched()
    }

    pub fn poll<'a>(&'a self, poller: &mut Poller<'_, 'a>) -> u32 {
        if self.flags().contains(OpenFlags::PATH) {
            return poll::NVAL;
        }
        self.ops().poll(self, poller)
    }

    /// The contents, of regular files, to be mapped.
    pub fn object(&self) -> Option<ObjectRef> {
        if let Place::Named(path) = &self.place {
            super::file::mapped::enter(path);
        }
        self.inode().object()
    }

    /// What mmap maps; ENODEV for files that cannot be mapped. The caller checks that the file is open for what it wants.
    pub fn mapping(&self) -> Result<Mapping> {
        self.ops().mapping(self)
    }

    /// Is nothing executed from its mount?
    pub fn is_no_exec(&self) -> bool {
        matches!(&self.place, Place::Named(path) if path.mount.flags() & NO_EXEC != 0)
    }

    /// Notes the access, as mount and open flags allow.
    fn touch(&self) {
        if self.flags().contains(OpenFlags::NOATIME) {
            return;
        }
        if let Place::Named(path) = &self.place {
            let flags = path.mount.flags();
            let dir = path.dentry.inode.is_dir();
            if flags & NO_ATIME != 0 || (dir && flags & NO_DIR_ATIME != 0) || path.mount.is_read_only() {
                return;
            }
            if matches!(path.dentry.inode.kind, Kind::Regular | Kind::Directory) {
                path.dentry.inode.touch_accessed(flags & STRICT_ATIME != 0);
            }
        }
    }

    /// Lists the directory from the file's position; `emit` refuses what does not fit.
    pub fn read_dir(&self, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result<()> {
        self.may_read()?;
        let mut position = self.position.lock();
        let (position, order) = position.split();
        let mut at = *position;
        let mut list = |entry: &DirEntry<'_>| {
            let taken = emit(entry);
            if taken {
                at = entry.next;
            }
            taken
        };
        self.ops().read_dir(self, *position, &mut list, order.reborrow())?;
        *position = at;
        self.touch();
        if notify::is_used() {
            told::on_file(self, notify::events::ACCESS);
        }
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // One that no descriptor ever referred to.
        self.end_access(self.inode());
        if self.undescribed.load(Relaxed) && notify::is_used() {
            told::on_close(self);
        }
    }
}
