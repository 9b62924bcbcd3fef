//! Descriptor tables.
//!
//! A descriptor is looked up under RCU with no lock. Fork does not copy: parent and child share one image of the table
//! until either changes it, so a child that only execs and exits writes to none of the files it inherited.
//!
//! An image has a two-level count, [`Share`]s and the tables of each: a process that forks again and again gives its children a
//! share of its own, so that processes that inherited one image from a common ancestor do not all write its count.
//!
//! Lock order: `change` is innermost but for the allocator; files are released after it is dropped.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Relaxed},
};

use crate::lock_order as level;
use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{SpinLock, TryVec, lock_class, slab_arc, try_arc};

use super::File;
use crate::account::limits;
use crate::errno::{EBADF, EINVAL, EMFILE, Result};
use crate::fs::vfs::locks::Owner;

lock_class! { static TABLE: LockClass = ("file table", level::FileTable); }

struct Slot {
    file: RcuArc<File>,
    close_on_exec: AtomicBool,
}

#[repr(align(64))]
struct Image {
    slots: Box<[Slot]>,
    /// Shares of this image.
    shares: AtomicU32,
}

/// One family's part in an image.
struct Share {
    image: Arc<Image>,
    /// Tables that have this share.
    tables: AtomicU32,
    rcu: RcuHead,
}

sync::rcu_object!(Share);
vm::slab_type!(Share, "file-table-share", Arc);
vm::slab_type!(FileTable, "file-table", Arc);

/// Slots of a new table.
const FIRST: usize = 16;
/// Slots closed before others may run.
const TURN: usize = 64;
/// No table gets larger (fs.nr_open), whatever a process's limit says.
fn most() -> usize {
    limits::NR_OPEN.get() as usize
}

impl Image {
    fn try_new(slots: usize) -> Result<Arc<Image>> {
        let make = |_| Slot { file: RcuArc::empty(), close_on_exec: AtomicBool::new(false) };
        let slots = sync::heap::try_box_slice(slots, make)?;
        Ok(try_arc(Image { slots, shares: AtomicU32::new(0) })?)
    }
}

impl Share {
    /// A share of `image` that one table has.
    fn try_new(image: Arc<Image>) -> Result<Arc<Share>> {
        let share = slab_arc(Share { image, tables: AtomicU32::new(1), rcu: RcuHead::new() })?;
        share.image.shares.fetch_add(1, Relaxed);
        Ok(share)
    }

    /// A share of a copy of `image` with at least `slots` places, whose descriptors count anew.
    fn try_copy(image: &Image, slots: usize) -> Result<Arc<Share>> {
        // Nothing is counted before all that can fail is done.
        let copy = Share::try_new(Image::try_new(slots.max(image.slots.len()))?)?;
        let read = sync::rcu::read();
        for (from, to) in image.slots.iter().zip(&copy.image.slots) {
            if let Some(file) = from.file.get(&read) {
                file.add_open();
                to.file.swap(Some(file));
                to.close_on_exec.store(from.close_on_exec.load(Relaxed), Relaxed);
            }
        }
        Ok(copy)
    }

    /// Does one table alone have the image?
    fn is_alone(&self) -> bool {
        self.tables.load(Relaxed) == 1 && self.image.shares.load(Relaxed) == 1
    }

    /// One table less; the last one closes every file. `sleeps`: the caller may sleep.
    fn leave(&self, sleeps: bool) {
        if self.tables.fetch_sub(1, AcqRel) != 1 || self.image.shares.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        for slots in self.image.slots.chunks(TURN) {
            for slot in slots {
                if let Some(file) = slot.file.take() {
                    file.drop_open();
                }
            }
            if sleeps {
                // All are closed, whatever signal has come.
                let _ = crate::sched::give_way();
            }
        }
    }
}

#[repr(align(64))]
pub struct FileTable {
    share: RcuArc<Share>,
    /// Guards changes.
    change: SpinLock<Change, level::FileTable>,
}

struct Change {
    /// The lowest descriptor that may be free.
    free: usize,
    origin: Origin,
}

/// Whose share a table has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Its own; perhaps its children's too.
    Own,
    /// The parent's.
    Inherited,
    /// The parent's, and it has given it to a child.
    HandedOn,
}

impl FileTable {
    pub fn try_new() -> Result<Arc<FileTable>> {
        FileTable::with(Image::try_new(FIRST)?, 0)
    }

    fn with(image: Arc<Image>, free: usize) -> Result<Arc<FileTable>> {
        FileTable::with_share(Share::try_new(image)?, Change { free, origin: Origin::Own })
    }

    fn with_share(share: Arc<Share>, change: Change) -> Result<Arc<FileTable>> {
        Ok(slab_arc(FileTable { share: RcuArc::new(Some(share)), change: SpinLock::new(change, &TABLE) })?)
    }

    /// A table of its own with the same descriptors, for fork.
    pub fn try_clone(&self) -> Result<Arc<FileTable>> {
        let mut change = self.change.lock();
        let read = sync::rcu::read();
        let mut share = self.share.get(&read).ok_or(EBADF)?;
        match change.origin {
            Origin::Own => {}
            Origin::Inherited => change.origin = Origin::HandedOn,
            Origin::HandedOn => {
                // It forks often. Without memory for a share of its own it goes on with the parent's.
                if let Ok(own) = Share::try_new(share.image.clone()) {
                    self.share.swap(Some(own.clone()));
                    // Not the last: `own` was counted before.
                    share.leave(false);
                    share = own;
                    change.origin = Origin::Own;
                }
            }
        }
        let table =
            FileTable::with_share(share.clone(), Change { free: change.free, origin: Origin::Inherited })?;
        share.tables.fetch_add(1, Relaxed);
        Ok(table)
    }

    pub fn get(&self, fd: i32) -> Result<Arc<File>> {
        let read = sync::rcu::read();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let image = self.image(&read).ok_or(EBADF)?;
        image.slots.get(index).and_then(|s| s.file.get(&read)).ok_or(EBADF)
    }

    #[inline]
    fn image<'r>(&'r self, read: &'r RcuRead) -> Option<&'r Image> {
        self.share.load(read).map(|share| &*share.image)
    }

    /// The place `index` and the file there.
    #[inline]
    fn find<'r>(&'r self, index: usize, read: &'r RcuRead) -> Result<(&'r Slot, &'r File)> {
        let slot = self.image(read).and_then(|image| image.slots.get(index)).ok_or(EBADF)?;
        Ok((slot, slot.file.load(read).ok_or(EBADF)?))
    }

    /// The image, which this table alone has from now on, with a place for `index`. `change` is held.
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    fn own<'r>(&'r self, index: usize, change: &mut Change, read: &'r RcuRead) -> Result<&'r Image> {
        let share = self.share.load(read).ok_or(EBADF)?;
        let image = &*share.image;
        if share.is_alone() && index < image.slots.len() {
            return Ok(image);
        }
        let slots =
            if index < image.slots.len() { image.slots.len() } else { (index + 1).next_power_of_two() };
        self.share.swap(Some(Share::try_copy(image, slots)?));
        change.origin = Origin::Own;
        share.leave(false);
        self.image(read).ok_or(EBADF)
    }

    /// Enters `file` at the lowest free descriptor that is at least `from` and below `limit`.
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    pub fn install(&self, file: Arc<File>, from: usize, limit: usize, close_on_exec: bool) -> Result<i32> {
        let mut change = self.change.lock();
        let limit = limit.min(most());
        let start = from.max(change.free);
        let read = sync::rcu::read();
        let image = self.image(&read).ok_or(EBADF)?;
        let rest = image.slots.get(start..).unwrap_or(&[]);
        let index = match rest.iter().position(|s| s.file.load(&read).is_none()) {
            Some(n) => start + n,
            None => start.max(image.slots.len()),
        };
        if index >= limit {
            return Err(EMFILE);
        }
        let image = self.own(index, &mut change, &read)?;
        let slot = image.slots.get(index).ok_or(EMFILE)?;
        file.add_open();
        slot.close_on_exec.store(close_on_exec, Relaxed);
        slot.file.swap(Some(file));
        if from <= change.free {
            change.free = index + 1;
        }
        Ok(index as i32)
    }

    /// Enters `file` at `fd`, closing what is there. dup2 and dup3.
    pub fn install_at(&self, file: Arc<File>, fd: i32, limit: usize, close_on_exec: bool) -> Result {
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        if index >= limit.min(most()) {
            return Err(EBADF);
        }
        let old = {
            let mut change = self.change.lock();
            let read = sync::rcu::read();
            let image = self.own(index, &mut change, &read)?;
            let slot = image.slots.get(index).ok_or(EBADF)?;
            let old = slot.file.take();
            file.add_open();
            slot.close_on_exec.store(close_on_exec, Relaxed);
            slot.file.swap(Some(file));
            old
        };
        if let Some(old) = old {
            self.closed(&old);
        }
        Ok(())
    }

    pub fn close(&self, fd: i32) -> Result {
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let file = {
            let mut change = self.change.lock();
            let read = sync::rcu::read();
            // Look before copying a shared image for nothing.
            self.find(index, &read)?;
            let image = self.own(index, &mut change, &read)?;
            let slot = image.slots.get(index).ok_or(EBADF)?;
            let file = slot.file.take().ok_or(EBADF)?;
            change.free = change.free.min(index);
            file
        };
        self.closed(&file);
        Ok(())
    }

    pub fn close_on_exec(&self, fd: i32) -> Result<bool> {
        let read = sync::rcu::read();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let (slot, _) = self.find(index, &read)?;
        Ok(slot.close_on_exec.load(Relaxed))
    }

    pub fn set_close_on_exec(&self, fd: i32, on: bool) -> Result {
        if self.close_on_exec(fd)? == on {
            return Ok(());
        }
        let mut change = self.change.lock();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let read = sync::rcu::read();
        let image = self.own(index, &mut change, &read)?;
        image.slots.get(index).ok_or(EBADF)?.close_on_exec.store(on, Relaxed);
        Ok(())
    }

    /// What exec does: closes the descriptors marked so.
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    pub fn exec(&self) {
        let mut from = 0;
        loop {
            let marked = {
                let read = sync::rcu::read();
                self.image(&read).and_then(|image| {
                    image
                        .slots
                        .iter()
                        .skip(from)
                        .position(|s| s.close_on_exec.load(Relaxed) && s.file.load(&read).is_some())
                })
            };
            let Some(skipped) = marked else { return };
            if self.close((from + skipped) as i32).is_err() {
                return;
            }
            from += skipped + 1;
            crate::sched::schedule_if_needed();
        }
    }

    /// The descriptors in use, at and above `from`; for /proc/PID/fd and close_range.
    pub fn descriptors(&self, from: usize) -> Result<Vec<i32>> {
        let read = sync::rcu::read();
        let mut list = Vec::new();
        if let Some(image) = self.image(&read) {
            for (i, slot) in image.slots.iter().enumerate().skip(from) {
                if slot.file.load(&read).is_some() {
                    list.try_push(i32::try_from(i).map_err(|_| EINVAL)?)?;
                }
            }
        }
        Ok(list)
    }

    /// Places in the table, for FDSize of /proc/PID/status.
    pub fn size(&self) -> usize {
        let read = sync::rcu::read();
        self.image(&read).map_or(0, |i| i.slots.len())
    }
}

impl FileTable {
    /// As whom its processes hold record locks.
    pub fn lock_owner(&self) -> Owner {
        Owner::of_descriptors(ptr::from_ref(self).addr())
    }

    /// A descriptor is gone: the record locks on the file that were taken by this table go with it (POSIX), and perhaps the file.
    fn closed(&self, file: &File) {
        file.inode().locks.release_records(self.lock_owner());
        file.drop_open();
    }

    /// Nobody has the table any more, and its record locks go with it.
    fn release_locks(&self) {
        let mut from = 0;
        loop {
            let locked = {
                let read = sync::rcu::read();
                let Some(image) = self.image(&read) else { return };
                let mut rest = image.slots.iter().enumerate().skip(from);
                rest.find_map(|(i, slot)| {
                    slot.file.load(&read).filter(|file| file.inode().locks.is_used())?;
                    Some((i, slot.file.get(&read)?))
                })
            };
            let Some((at, file)) = locked else { return };
            file.inode().locks.release_records(self.lock_owner());
            from = at.saturating_add(1);
        }
    }
}

impl FileTable {
    /// Gives a reference up; the last one closes every file, and gives way meanwhile. May sleep.
    pub fn give_up(mut table: Arc<FileTable>) {
        let Some(last) = Arc::get_mut(&mut table) else { return };
        last.release_locks();
        if let Some(share) = last.share.take() {
            share.leave(true);
        }
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        self.release_locks();
        let read = sync::rcu::read();
        let share = self.share.get(&read);
        drop(read);
        if let Some(share) = share {
            share.leave(false);
        }
    }
}

#[cfg(test)]
mod tests;
