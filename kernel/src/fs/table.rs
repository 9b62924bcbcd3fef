//! Descriptor tables.
//!
//! A descriptor is looked up under RCU with no lock. Fork does not copy: parent and child share one image of the table
//! until either changes it, so a child that only execs and exits writes to none of the files it inherited.
//!
//! Lock order: `change` is innermost but for the allocator; files are released after it is dropped.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Relaxed},
};

use sync::rcu::{RcuArc, RcuHead};
use sync::{SpinLock, TryVec, lock_class, try_arc};

use super::file::File;
use crate::errno::{EBADF, EINVAL, EMFILE, Result};

lock_class! { static TABLE: LockClass = ("file table", sync::level::Other); }

struct Slot {
    file: RcuArc<File>,
    close_on_exec: AtomicBool,
}

#[repr(align(64))]
struct Image {
    slots: Box<[Slot]>,
    /// Tables that have this image.
    tables: AtomicU32,
    rcu: RcuHead,
}

rcu_object!(Image);

/// Slots of a new table.
const FIRST: usize = 16;
/// No table is larger, whatever the limit says.
pub const MOST: usize = 1 << 20;

impl Image {
    fn try_new(slots: usize) -> Result<Arc<Image>> {
        let make = |_| Slot { file: RcuArc::empty(), close_on_exec: AtomicBool::new(false) };
        let slots = sync::heap::try_box_slice(slots, make)?;
        Ok(try_arc(Image { slots, tables: AtomicU32::new(1), rcu: RcuHead::new() })?)
    }

    /// A copy with at least `slots` places, whose descriptors count anew.
    fn try_copy(&self, slots: usize) -> Result<Arc<Image>> {
        let copy = Image::try_new(slots.max(self.slots.len()))?;
        let read = sync::rcu::read();
        for (from, to) in self.slots.iter().zip(&copy.slots) {
            if let Some(file) = from.file.get(&read) {
                file.add_open();
                to.file.swap(Some(file));
                to.close_on_exec.store(from.close_on_exec.load(Relaxed), Relaxed);
            }
        }
        Ok(copy)
    }

    /// One table less; the last one closes every file.
    fn leave(&self) {
        if self.tables.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        for slot in &self.slots {
            if let Some(file) = slot.file.take() {
                file.drop_open();
            }
        }
    }
}

#[repr(align(64))]
pub struct FileTable {
    image: RcuArc<Image>,
    /// Guards changes; holds the lowest descriptor that may be free.
    change: SpinLock<usize>,
}

impl FileTable {
    pub fn try_new() -> Result<Arc<FileTable>> {
        FileTable::with(Image::try_new(FIRST)?, 0)
    }

    fn with(image: Arc<Image>, free: usize) -> Result<Arc<FileTable>> {
        Ok(try_arc(FileTable { image: RcuArc::new(Some(image)), change: SpinLock::new(free, &TABLE) })?)
    }

    /// A table of its own with the same descriptors, for fork.
    pub fn try_clone(&self) -> Result<Arc<FileTable>> {
        let free = self.change.lock();
        let read = sync::rcu::read();
        let image = self.image.get(&read).ok_or(EBADF)?;
        let table = FileTable::with(image.clone(), *free)?;
        image.tables.fetch_add(1, Relaxed);
        Ok(table)
    }

    pub fn get(&self, fd: i32) -> Result<Arc<File>> {
        let read = sync::rcu::read();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let image = self.image.load(&read).ok_or(EBADF)?;
        image.slots.get(index).and_then(|s| s.file.get(&read)).ok_or(EBADF)
    }

    /// The image, which this table alone has from now on, with a place for `index`. `change` is held.
    fn own(&self, index: usize) -> Result<Arc<Image>> {
        let read = sync::rcu::read();
        let image = self.image.get(&read).ok_or(EBADF)?;
        if index >= MOST {
            return Err(EMFILE);
        }
        if image.tables.load(Relaxed) == 1 && index < image.slots.len() {
            return Ok(image);
        }
        let slots =
            if index < image.slots.len() { image.slots.len() } else { (index + 1).next_power_of_two() };
        let copy = image.try_copy(slots)?;
        self.image.swap(Some(copy.clone()));
        image.leave();
        Ok(copy)
    }

    /// Enters `file` at the lowest free descriptor that is at least `from` and below `limit`.
    pub fn install(&self, file: Arc<File>, from: usize, limit: usize, close_on_exec: bool) -> Result<i32> {
        let mut free = self.change.lock();
        let limit = limit.min(MOST);
        let start = from.max(*free);
        let index = {
            let read = sync::rcu::read();
            let image = self.image.load(&read).ok_or(EBADF)?;
            let rest = image.slots.get(start..).unwrap_or(&[]);
            match rest.iter().position(|s| s.file.load(&read).is_none()) {
                Some(n) => start + n,
                None => start.max(image.slots.len()),
            }
        };
        if index >= limit {
            return Err(EMFILE);
        }
        let image = self.own(index)?;
        let slot = image.slots.get(index).ok_or(EMFILE)?;
        file.add_open();
        slot.close_on_exec.store(close_on_exec, Relaxed);
        slot.file.swap(Some(file));
        if from <= *free {
            *free = index + 1;
        }
        Ok(index as i32)
    }

    /// Enters `file` at `fd`, closing what is there. dup2 and dup3.
    pub fn install_at(&self, file: Arc<File>, fd: i32, limit: usize, close_on_exec: bool) -> Result {
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        if index >= limit.min(MOST) {
            return Err(EBADF);
        }
        let old = {
            let _free = self.change.lock();
            let image = self.own(index)?;
            let slot = image.slots.get(index).ok_or(EBADF)?;
            let old = slot.file.take();
            file.add_open();
            slot.close_on_exec.store(close_on_exec, Relaxed);
            slot.file.swap(Some(file));
            old
        };
        if let Some(old) = old {
            closed(&old);
        }
        Ok(())
    }

    pub fn close(&self, fd: i32) -> Result {
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let file = {
            let mut free = self.change.lock();
            // Look before copying a shared image for nothing.
            self.get(fd)?;
            let image = self.own(index)?;
            let slot = image.slots.get(index).ok_or(EBADF)?;
            let file = slot.file.take().ok_or(EBADF)?;
            *free = (*free).min(index);
            file
        };
        closed(&file);
        Ok(())
    }

    pub fn close_on_exec(&self, fd: i32) -> Result<bool> {
        let read = sync::rcu::read();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let slot = self.image.load(&read).and_then(|i| i.slots.get(index)).ok_or(EBADF)?;
        slot.file.load(&read).ok_or(EBADF)?;
        Ok(slot.close_on_exec.load(Relaxed))
    }

    pub fn set_close_on_exec(&self, fd: i32, on: bool) -> Result {
        if self.close_on_exec(fd)? == on {
            return Ok(());
        }
        let _free = self.change.lock();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let image = self.own(index)?;
        image.slots.get(index).ok_or(EBADF)?.close_on_exec.store(on, Relaxed);
        Ok(())
    }

    /// What exec does: closes the descriptors marked so.
    pub fn exec(&self) {
        loop {
            let marked = {
                let read = sync::rcu::read();
                self.image.load(&read).and_then(|image| {
                    image
                        .slots
                        .iter()
                        .position(|s| s.close_on_exec.load(Relaxed) && s.file.load(&read).is_some())
                })
            };
            let Some(fd) = marked else { return };
            if self.close(fd as i32).is_err() {
                return;
            }
        }
    }

    /// The descriptors in use, at and above `from`; for /proc/PID/fd and close_range.
    pub fn descriptors(&self, from: usize) -> Result<Vec<i32>> {
        let read = sync::rcu::read();
        let mut list = Vec::new();
        if let Some(image) = self.image.load(&read) {
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
        self.image.load(&read).map_or(0, |i| i.slots.len())
    }
}

/// A descriptor is gone: the process's record locks on the file go with it (POSIX), and perhaps the file.
fn closed(file: &File) {
    file.inode().locks.release_process(super::caller::pid());
    file.drop_open();
}

impl FileTable {
    /// The process `pid` is gone, and its record locks with it.
    pub fn release_locks(&self, pid: u32) {
        let read = sync::rcu::read();
        let Some(image) = self.image.load(&read) else { return };
        for file in image.slots.iter().filter_map(|s| s.file.load(&read)) {
            file.inode().locks.release_process(pid);
        }
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        let read = sync::rcu::read();
        let image = self.image.get(&read);
        drop(read);
        if let Some(image) = image {
            image.leave();
        }
    }
}
