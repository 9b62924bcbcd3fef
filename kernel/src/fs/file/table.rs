//! Descriptor tables.
//!
//! A descriptor is looked up under RCU with no lock (`look`). Fork does not copy: parent and child share one [image](image) of the table
//! until either changes it, so a child that only execs and exits writes to none of the files it inherited.
//!
//! Lock order: `change` is innermost but for the allocator; files are released after it is dropped. No holder takes longer than some ten thousand
//! instructions, however many descriptors there are.
#![forbid(unsafe_code)]

mod chunk;
mod directory;
mod image;
mod shown;
mod watches;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::lock_order as level;
use sync::protocol::share;
use sync::rcu::{Deferred, Lender, RcuArc, RcuRead};
use sync::{SpinLock, TryVec, lock_class, slab_arc};

use self::directory::{Group, Place};
use self::image::{Found, Image, Share, Slot};
pub use self::shown::Shown;
use super::File;
use crate::account::limits;
use crate::errno::{EBADF, EBUSY, EMFILE, Result};
use crate::fs::vfs::locks::Owner;
use crate::fs::vfs::notify::signals;

lock_class! { static TABLE: LockClass = ("file table", level::FileTable); }

vm::slab_type!(FileTable, "file-table", Arc);

/// Slots of a new table.
const FIRST: usize = 16;
/// No table gets larger (fs.nr_open), whatever a process's limit says.
fn most() -> usize {
    limits::NR_OPEN.get() as usize
}

#[repr(align(64))]
pub struct FileTable {
    share: RcuArc<Share>,
    /// Guards changes.
    change: SpinLock<Change, level::FileTable>,
    /// What a thread that has the table alone looks at without counting it (`Current::file`).
    lender: Lender,
    /// The last walk that has come by (`come_by`).
    walked: AtomicU64,
}

struct Change {
    /// The lowest descriptor that may be free.
    free: usize,
    origin: Origin,
    /// Free descriptors that are promised (`reserve`). `free` stays at or below them.
    reserved: Vec<usize>,
}

impl Change {
    fn end_reservation(&mut self, index: usize) {
        self.reserved.retain(|reserved| *reserved != index);
    }
}

/// Is a file that comes to a table counted as open for the descriptor?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opens {
    Counted,
    /// It is to be.
    Coming,
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

/// As `FileTable::look`, for a place of a chunk, which is copied by itself.
#[cold]
fn look_far<'r, R>(
    share: Option<&'r Share>,
    index: usize,
    f: &impl Fn(Option<&'r Slot>) -> R,
    read: &'r RcuRead,
) -> R {
    match share.and_then(|share| share.image.rest.as_ref()) {
        Some(rest) => rest.look(index, f, read),
        None => f(None),
    }
}

/// A place that a table has to itself, under its lock.
#[derive(Clone, Copy)]
struct Own<'r> {
    slot: &'r Slot,
    /// Where it lies, unless it is one of the first.
    far: Option<Place<'r>>,
}

impl FileTable {
    /// Does the walk of this number come by for the first time? Of two walks at once each may think so again.
    pub fn come_by(&self, walk: u64) -> bool {
        self.walked.swap(walk, Relaxed) != walk
    }

    pub fn try_new() -> Result<Arc<FileTable>> {
        FileTable::with(Image::try_new(FIRST)?, 0)
    }

    fn with(image: Arc<Image>, free: usize) -> Result<Arc<FileTable>> {
        FileTable::with_share(
            Share::try_new(image)?,
            Change { free, origin: Origin::Own, reserved: Vec::new() },
        )
    }

    fn with_share(share: Arc<Share>, change: Change) -> Result<Arc<FileTable>> {
        let (share, change) = (RcuArc::new(Some(share)), SpinLock::new(change, &TABLE));
        Ok(slab_arc(FileTable { share, change, lender: Lender::new(), walked: AtomicU64::new(0) })?)
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
                    share.change_to(&own, || self.share.swap(Some(own.clone())));
                    share = own;
                    change.origin = Origin::Own;
                }
            }
        }
        let table = FileTable::with_share(
            share.clone(),
            Change { free: change.free, origin: Origin::Inherited, reserved: Vec::new() },
        )?;
        share.join();
        Ok(table)
    }

    pub fn get(&self, fd: i32) -> Result<Arc<File>> {
        let read = sync::rcu::read();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        self.look(index, |slot| slot.and_then(|slot| slot.file.get(&read)), &read).ok_or(EBADF)
    }

    /// The place of a descriptor, if it is one of the first. The caller alone has the table: otherwise it might be another table's by now (`look`).
    #[inline]
    pub fn own_place<'r>(&'r self, fd: i32, read: &'r RcuRead) -> Option<&'r RcuArc<File>> {
        // A negative one is none of the first.
        self.image(read)?.first.get(fd as usize).map(|slot| &slot.file)
    }

    pub fn lender(&self) -> &Lender {
        &self.lender
    }

    /// Does the descriptor mean `file`?
    pub fn is(&self, fd: i32, file: &File) -> bool {
        let read = sync::rcu::read();
        let is = |slot: Option<&Slot>| {
            slot.and_then(|slot| slot.file.load(&read)).is_some_and(|there| ptr::eq(there, file))
        };
        usize::try_from(fd).is_ok_and(|index| self.look(index, is, &read))
    }

    /// Where the file lies that the descriptor means, which tells files apart. Nothing is counted.
    pub(super) fn place_of_file(&self, fd: u32) -> Option<usize> {
        let read = sync::rcu::read();
        let place = |slot: Option<&Slot>| {
            slot.and_then(|slot| slot.file.load(&read)).map(|file| ptr::from_ref(file).addr())
        };
        self.look(fd as usize, place, &read)
    }

    /// What `f` makes of the place `index`, or of none, without a lock. It is this table's place: should a thread take a copy of the image meanwhile, so
    /// that another process may change the old one, `f` is asked again.
    #[inline]
    fn look<'r, R>(&'r self, index: usize, f: impl Fn(Option<&'r Slot>) -> R, read: &'r RcuRead) -> R {
        let in_share = |share: Option<&'r Share>| {
            let first = share.map_or(&[][..], |share| &share.image.first);
            match first.get(index) {
                Some(slot) => f(Some(slot)),
                None => look_far(share, index, &f, read),
            }
        };
        share::look(|| self.share.load(read), in_share)
    }

    #[inline]
    fn image<'r>(&'r self, read: &'r RcuRead) -> Option<&'r Image> {
        self.share.load(read).map(|share| &*share.image)
    }

    /// The place `index`, if this table alone has it. `change` is held.
    #[inline]
    fn owned<'r>(&'r self, index: usize, read: &'r RcuRead) -> Option<Own<'r>> {
        let share = self.share.load(read).filter(|share| share.is_alone())?;
        match share.image.first.get(index) {
            Some(slot) => Some(Own { slot, far: None }),
            None => share.far(index, read).map(|place| Own { slot: place.slot, far: Some(place) }),
        }
    }

    /// The place `index`, which is `own`, has a file from now on.
    #[inline]
    fn fill(&self, own: Own<'_>, index: usize, read: &RcuRead) {
        if let Some(place) = own.far.filter(|place| place.fill(index)) {
            self.mark_group(place.group, index, read);
        }
    }

    /// It has none.
    #[inline]
    fn empty(&self, own: Own<'_>, index: usize, read: &RcuRead) {
        if let Some(place) = own.far.filter(|place| place.empty(index)) {
            self.mark_group(place.group, index, read);
        }
    }

    #[cold]
    fn mark_group(&self, group: &Group, index: usize, read: &RcuRead) {
        self.image(read)
            .and_then(|image| image.rest.as_ref())
            .into_iter()
            .for_each(|rest| rest.mark(group, index));
    }

    /// The place `index`, which this table alone has from now on. `change` is held.
    #[inline]
    fn own<'r>(&'r self, index: usize, change: &mut Change, read: &'r RcuRead) -> Result<Own<'r>> {
        match self.owned(index, read) {
            Some(own) => Ok(own),
            None => self.make_own(index, change, read),
        }
    }

    #[cold]
    fn make_own<'r>(&'r self, index: usize, change: &mut Change, read: &'r RcuRead) -> Result<Own<'r>> {
        let share = self.share.load(read).ok_or(EBADF)?;
        if let Some(own) = share.make_own(index, read)? {
            self.share.swap(Some(own));
            change.origin = Origin::Own;
            // Perhaps the last by now; but the copy has counted each file, so none is closed here.
            share.leave(false);
        }
        self.owned(index, read).ok_or(EBADF)
    }

    /// Is there a free descriptor below `limit`? Asked before a file is made, or opened with what that changes. Linux reserves the descriptor;
    /// here another thread of the process may take the last one meanwhile, and then `install` fails with the file made.
    ///
    /// # Errors
    /// EMFILE.
    #[inline]
    pub fn check_room(&self, limit: usize) -> Result {
        let limit = limit.min(most());
        let read = sync::rcu::read();
        // What lies beyond the table is free.
        if self.image(&read).is_some_and(|image| image.size(&read) < limit) {
            return Ok(());
        }
        self.look_for_room(limit)
    }

    #[cold]
    fn look_for_room(&self, limit: usize) -> Result {
        let change = self.change.lock();
        let read = sync::rcu::read();
        let index = self.image(&read).ok_or(EBADF)?.next_free(change.free, &read);
        if index < limit { Ok(()) } else { Err(EMFILE) }
    }

    /// Enters `file` at the lowest free descriptor that is at least `from` and below `limit`.
    pub fn install(&self, file: Arc<File>, from: usize, limit: usize, close_on_exec: bool) -> Result<i32> {
        self.put(&mut Some(file), Opens::Coming, from, limit, close_on_exec)
    }

    /// Enters `file`, which no descriptor has referred to, at the lowest free descriptor below `limit`, or closes it.
    pub fn install_new(&self, file: Arc<File>, limit: usize, close_on_exec: bool) -> Result<i32> {
        let file = &mut Some(file);
        let entered = self.put(file, Opens::Coming, 0, limit, close_on_exec);
        if let Some(file) = file {
            file.ops().release(file);
        }
        entered
    }

    /// As `install`; where that fails the file stays the caller's.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    fn put(
        &self,
        file: &mut Option<Arc<File>>,
        opens: Opens,
        from: usize,
        limit: usize,
        close_on_exec: bool,
    ) -> Result<i32> {
        let mut change = self.change.lock();
        let limit = limit.min(most());
        let read = sync::rcu::read();
        let index = self.next_free(from, &change, &read)?;
        if index >= limit {
            return Err(EMFILE);
        }
        self.enter(index, file, opens, close_on_exec, &mut change, &read)?;
        if from <= change.free && change.reserved.is_empty() {
            change.free = index + 1;
        }
        Ok(index as i32)
    }

    /// The lowest descriptor at or above `from` that is free and promised to nobody.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "indices of descriptors are below 2^31")]
    fn next_free(&self, from: usize, change: &Change, read: &RcuRead) -> Result<usize> {
        let image = self.image(read).ok_or(EBADF)?;
        let mut index = image.next_free(from.max(change.free), read);
        while change.reserved.contains(&index) {
            index = image.next_free(index + 1, read);
        }
        Ok(index)
    }

    #[inline]
    fn enter(
        &self,
        index: usize,
        file: &mut Option<Arc<File>>,
        opens: Opens,
        close_on_exec: bool,
        change: &mut Change,
        read: &RcuRead,
    ) -> Result {
        let own = self.own(index, change, read)?;
        if opens == Opens::Coming {
            file.iter().for_each(|file| file.add_open());
        }
        own.slot.close_on_exec.store(close_on_exec, Relaxed);
        own.slot.file.swap(file.take());
        self.fill(own, index, read);
        Ok(())
    }

    /// The lowest free descriptor below `limit`, which is the caller's to use (`install_reserved`) or to give back (`end_reservation`). Till then nobody
    /// finds a file there, and nobody else gets it.
    ///
    /// # Errors
    /// EMFILE, ENOMEM.
    pub fn reserve(&self, limit: usize) -> Result<i32> {
        let mut change = self.change.lock();
        let read = sync::rcu::read();
        let index = self.next_free(0, &change, &read)?;
        if index >= limit.min(most()) {
            return Err(EMFILE);
        }
        change.reserved.try_push(index)?;
        self.own(index, &mut change, &read).inspect_err(|_| change.end_reservation(index))?;
        Ok(index as i32)
    }

    /// Enters `file` at a descriptor that was reserved, closed by exec.
    ///
    /// # Errors
    /// ENOMEM: the descriptor is free.
    pub fn install_reserved(&self, file: Arc<File>, fd: i32) -> Result {
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let mut change = self.change.lock();
        change.end_reservation(index);
        self.enter(index, &mut Some(file), Opens::Coming, true, &mut change, &sync::rcu::read())
    }

    pub fn end_reservation(&self, fd: i32) {
        if let Ok(index) = usize::try_from(fd) {
            self.change.lock().end_reservation(index);
        }
    }

    /// One more descriptor for `file`, as `install`. dup and F_DUPFD.
    ///
    /// # Errors
    /// EBADF: its last descriptor was closed meanwhile. EMFILE, ENOMEM.
    pub fn duplicate(&self, file: Arc<File>, from: usize, limit: usize, close_on_exec: bool) -> Result<i32> {
        file.keep_open()?.hand_over();
        let file = &mut Some(file);
        let entered = self.put(file, Opens::Counted, from, limit, close_on_exec);
        if let Some(file) = file {
            file.drop_open();
        }
        entered
    }

    /// A descriptor for `file`, which the caller keeps open for it; where that fails the file stays the caller's.
    ///
    /// # Errors
    /// EMFILE, ENOMEM.
    pub fn install_open(
        &self,
        file: &mut Option<Arc<File>>,
        limit: usize,
        close_on_exec: bool,
    ) -> Result<i32> {
        self.put(file, Opens::Counted, 0, limit, close_on_exec)
    }

    /// One more descriptor for `file`, `fd`; closes what is there. dup2 and dup3.
    ///
    /// # Errors
    /// EBADF: its last descriptor was closed meanwhile, or `fd` is none. EBUSY: it is promised to another. ENOMEM.
    pub fn duplicate_at(&self, file: Arc<File>, fd: i32, limit: usize, close_on_exec: bool) -> Result {
        file.keep_open()?.hand_over();
        let file = &mut Some(file);
        let entered = self.put_at(file, fd, limit, close_on_exec);
        if let Some(file) = file {
            file.drop_open();
        }
        entered
    }

    #[cfg(test)]
    fn install_at(&self, file: Arc<File>, fd: i32, limit: usize, close_on_exec: bool) -> Result {
        file.add_open();
        let file = &mut Some(file);
        let entered = self.put_at(file, fd, limit, close_on_exec);
        if let Some(file) = file {
            file.drop_open();
        }
        entered
    }

    /// Enters `file`, which is open once more for it, at `fd`, and closes what is there; where that fails the file stays the caller's.
    fn put_at(&self, file: &mut Option<Arc<File>>, fd: i32, limit: usize, close_on_exec: bool) -> Result {
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        if index >= limit.min(most()) {
            return Err(EBADF);
        }
        let old = {
            let mut change = self.change.lock();
            let read = sync::rcu::read();
            if change.reserved.contains(&index) {
                return Err(EBUSY);
            }
            let own = self.own(index, &mut change, &read)?;
            own.slot.close_on_exec.store(close_on_exec, Relaxed);
            // In one step: no lookup finds the place empty.
            let old = own.slot.file.replace(file.take());
            self.fill(own, index, &read);
            old
        };
        if let Some(old) = old {
            self.closed(old);
        }
        Ok(())
    }

    pub fn close(&self, fd: i32) -> Result {
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let file = {
            let read = sync::rcu::read();
            // Who closes what is not open writes nothing, and copies no shared image.
            let is_open = |slot: Option<&Slot>| slot.is_some_and(|slot| slot.file.load(&read).is_some());
            if !self.look(index, is_open, &read) {
                return Err(EBADF);
            }
            let mut change = self.change.lock();
            let own = match self.owned(index, &read) {
                Some(own) => own,
                None => {
                    // Another thread may have closed it meanwhile.
                    let slot = self.image(&read).and_then(|image| image.slot(index, &read));
                    slot.and_then(|slot| slot.file.load(&read)).ok_or(EBADF)?;
                    self.make_own(index, &mut change, &read)?
                }
            };
            let file = own.slot.file.take().ok_or(EBADF)?;
            self.empty(own, index, &read);
            change.free = change.free.min(index);
            file
        };
        let flushed = if file.is_open_once() { file.ops().flush(&file) } else { Ok(()) };
        self.closed(file);
        flushed
    }

    pub fn close_on_exec(&self, fd: i32) -> Result<bool> {
        let read = sync::rcu::read();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let on = |slot: Option<&Slot>| {
            slot?.file.load(&read).and(slot).map(|slot| slot.close_on_exec.load(Relaxed))
        };
        self.look(index, on, &read).ok_or(EBADF)
    }

    pub fn set_close_on_exec(&self, fd: i32, on: bool) -> Result {
        if self.close_on_exec(fd)? == on {
            return Ok(());
        }
        let mut change = self.change.lock();
        let index = usize::try_from(fd).map_err(|_| EBADF)?;
        let read = sync::rcu::read();
        self.own(index, &mut change, &read)?.slot.close_on_exec.store(on, Relaxed);
        Ok(())
    }

    /// What exec does: closes the descriptors marked so.
    pub fn exec(&self) {
        let mut from = 0;
        while let Some(fd) = self.search(from, true, |slot, _| slot.close_on_exec.load(Relaxed)) {
            if self.close(fd as i32).is_err() {
                return;
            }
            from = fd.saturating_add(1);
            crate::sched::schedule_if_needed();
        }
    }

    /// The lowest descriptor at or above `from` that is `wanted`. `sleeps`: the caller may sleep, and gives way.
    fn search(&self, mut from: usize, sleeps: bool, wanted: impl Fn(&Slot, &File) -> bool) -> Option<usize> {
        loop {
            let found = {
                let read = sync::rcu::read();
                self.image(&read)?.search(from, &wanted, &read)?
            };
            match found {
                Found::At(fd) => return Some(fd),
                Found::NotBefore(fd) => from = fd,
            }
            if sleeps {
                crate::sched::schedule_if_needed();
            }
        }
    }

    /// The lowest descriptor in use at or above `from`; for /proc/PID/fd and close_range. Takes some ten thousand instructions at most.
    pub fn next_used(&self, from: usize) -> Option<i32> {
        let read = sync::rcu::read();
        self.image(&read)?.next_used(from, &read).map(|fd| fd as i32)
    }

    /// Calls `f` for each descriptor in use.
    pub fn for_each(&self, mut f: impl FnMut(i32)) {
        let mut from = 0;
        while let Some(fd) = self.next_used(from) {
            f(fd);
            from = (fd as usize).saturating_add(1);
        }
    }

    /// Places in the table, for FDSize of /proc/PID/status.
    pub fn size(&self) -> usize {
        let read = sync::rcu::read();
        self.image(&read).map_or(0, |image| image.size(&read))
    }
}

impl FileTable {
    /// Tells tables apart.
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// As whom its processes hold record locks.
    pub fn lock_owner(&self) -> Owner {
        Owner::of_descriptors(self.address())
    }

    /// A descriptor is gone: the record locks on the file that were taken by this table go with it (POSIX), its watch (F_NOTIFY), and perhaps the file.
    fn closed(&self, file: Deferred<File>) {
        file.inode().locks.release_records(self.lock_owner());
        if signals::is_used() {
            self.end_watch(&file);
        }
        self.lender.settle(file, |file| file.drop_open());
    }

    /// Nobody has the table any more, and its record locks go with it. It lay at `address`.
    fn release_locks(&self, address: usize, sleeps: bool) {
        let mut from = 0;
        while let Some(fd) = self.search(from, sleeps, |_, file| file.inode().locks.is_used()) {
            if let Ok(file) = self.get(fd as i32) {
                file.inode().locks.release_records(Owner::of_descriptors(address));
            }
            from = fd.saturating_add(1);
        }
    }

    /// Closes every file, unless another table has the same image. The table lay at `address` while anybody had it.
    fn end(&mut self, address: usize, sleeps: bool) {
        self.release_locks(address, sleeps);
        if let Some(share) = self.share.take() {
            share.leave(sleeps);
        }
    }

    /// As `end`, by the last who had the table; its watches end too.
    fn finish(&mut self, address: usize) {
        if signals::is_used() {
            self.end_watches(address);
        }
        self.end(address, true);
    }

    /// Gives a reference up; the last one closes every file, and gives way meanwhile. May sleep.
    pub fn give_up(mut table: Arc<FileTable>) {
        let address = table.address();
        if let Some(last) = Arc::get_mut(&mut table) {
            last.finish(address);
        } else if let Some(mut last) = Arc::into_inner(table) {
            // Of several who give theirs up at once, one gets it, and not where it lay.
            last.finish(address);
        }
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        if signals::is_used() {
            self.drop_watches();
        }
        self.end(self.address(), false);
    }
}

#[cfg(test)]
mod tests;
