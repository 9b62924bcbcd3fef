//! Contents of a server's file: pages of an object that are asked for when somebody misses one, and stay until the file is seen to have changed.
//!
//! One message for a run of pages, as long as the reader seems to want (`vm::Pager`) and an answer has room for. Whoever misses a page that another is reading
//! waits for that (`vfs::reading`). The pages that the server has written are the object's then: nothing is copied.
//!
//! **Written back** (`cache=mmap` and `cache=loose`): write(2) and shared mappings write into pages, which are dirty then and are sent later (`back`), in runs as long as a message.
//! O_DIRECT goes through, after what is dirty; O_SYNC and O_DSYNC wait for what they have written.
//!
//! **Written through** (else): write(2) returns when the server has what was written, so closing and fsync have nothing left to say but what the server's disk does. A page that is
//! in memory is taken away where something was written, from those who map it too, before the file is seen to be longer; who misses it reads what the server has.
//! Shared mappings that may write are refused (EINVAL) then, as on Linux without a cache: nobody would tell the server.
//!
//! Lock order: see `inode`. No lock is held while the server is asked.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::Ordering::Relaxed;

use sync::{TryVec, try_box};
use vm::frame::{OwnedFrame, Pin};
use vm::{Asked, Object, ObjectOwner, ObjectRef, PAGE_SHIFT, PAGE_SIZE, Pager, VmError};

use super::back::{self, Back};
use super::client::Fid;
use super::inode::{Node, node_of};
use super::message::Ask;
use super::remote::{Change, Remote};
use super::sending;
use super::unwritten::SeenErrors;
use crate::device::virtio::share::{DATA_HEAD, Exchange};
use crate::errno::{EBADF, EINTR, EIO, ENOMEM, Errno, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::regular::{self, REGULAR};
use crate::fs::file::{File, FileOps, Mapping, OpenFlags, Order};
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::operations::Writing;
use crate::fs::vfs::reading::Reads;
use crate::sched::give_way;

pub struct Contents(ObjectOwner);

/// What reads the file's pages.
///
/// `back`: and takes what is written to them.
pub fn pager(remote: &Arc<Remote>, back: Option<&Arc<Back>>) -> Result<Box<dyn Pager>> {
    Ok(try_box(Paged { remote: remote.clone(), back: back.cloned(), reads: Reads::new() })?)
}

impl Contents {
    pub fn try_new(
        remote: &Arc<Remote>,
        number: u64,
        size: u64,
        back: Option<&Arc<Back>>,
    ) -> Result<Contents> {
        let paged = pager(remote, back)?;
        // 0 is memory without a file.
        Ok(Contents(Object::try_owned_paged((number as usize).max(1), size, paged, None)?))
    }

    /// The file has other contents by now. May sleep.
    pub fn replace(&self, size: u64) -> Result {
        Ok(self.0.replace(size)?)
    }

    /// The file has that size by now, and else what it had. May sleep.
    pub fn set_size(&self, size: u64) -> Result {
        Ok(self.0.set_size(size)?)
    }

    pub fn object(&self) -> ObjectRef {
        self.0.share()
    }

    /// Does nobody refer to its object? One that many use is taken for one that somebody does.
    pub fn is_alone(&self) -> bool {
        self.0.is_alone()
    }
}

/// What an open file is read and written through: each read sees what has changed longer ago than answers are believed.
pub struct Open {
    /// The fid by which it is written. It is the file's as long as somebody has that open to write.
    writer: Option<Arc<Fid>>,
    /// What is written goes into pages.
    writes_back: bool,
    /// What went wrong later than it was written, and was told here.
    seen: SeenErrors,
}

impl Open {
    pub fn new(writer: Option<Arc<Fid>>, writes_back: bool, seen: SeenErrors) -> Open {
        Open { writer, writes_back, seen }
    }

    /// Sends what is dirty, and tells what went wrong since this open file was told last.
    fn send(&self, node: &Node) -> Result {
        match node.write_back(u64::MAX) {
            // Nothing is lost.
            Err(error @ (EINTR | ENOMEM)) => Err(error),
            _ => node.remote.unwritten.errors.tell(&self.seen),
        }
    }

    fn write_locked(&self, file: &File, at: u64, from: &mut Input<'_>, locked: Writing<'_>) -> Result<usize> {
        if from.left() == 0 {
            return Ok(0);
        }
        regular::limit_write(at, from)?;
        let (inode, fid) = (file.inode(), self.writer.as_deref().ok_or(EBADF)?);
        let node = node_of(inode).ok_or(EIO)?;
        let n = if self.writes_back && !file.flags().contains(OpenFlags::DIRECT) {
            node.write_cached(inode, at, from)?
        } else {
            node.write(inode, fid, at, from)?
        };
        if n > 0 && inode.has_work_after_write() {
            regular::finish_write(file, locked)?;
        }
        if n > 0 && file.flags().intersects(OpenFlags::DSYNC.union(OpenFlags::SYNC)) {
            self.sync(file, !file.flags().contains(OpenFlags::SYNC))?;
        }
        Ok(n)
    }
}

impl FileOps for Open {
    fn read(&self, file: &File, at: u64, out: &mut Output<'_>, order: Order<'_>) -> Result<usize> {
        let inode = file.inode();
        let node = node_of(inode).ok_or(EIO)?;
        node.refresh_old(inode)?;
        // There may be something all the same: a size that nobody knows before (the host's /proc).
        if inode.size() == 0 {
            read_unsized(&node.remote, at, out)
        } else {
            REGULAR.read(file, at, out, order)
        }
    }

    fn write(&self, file: &File, at: u64, from: &mut Input<'_>, mut order: Order<'_>) -> Result<usize> {
        let mut write = file.inode().lock_write(&mut order);
        self.write_locked(file, at, from, write.held().reborrow())
    }

    fn append(&self, file: &File, from: &mut Input<'_>, mut order: Order<'_>) -> Result<(usize, u64)> {
        let inode = file.inode();
        let mut write = inode.lock_write(&mut order);
        node_of(inode).ok_or(EIO)?.refresh_old(inode)?;
        let end = inode.size();
        let n = self.write_locked(file, end, from, write.held().reborrow())?;
        Ok((n, end.saturating_add(n as u64)))
    }

    fn seeks(&self) -> bool {
        true
    }

    fn seek(&self, file: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        file.inode().refresh()?;
        REGULAR.seek(file, offset, whence, now)
    }

    fn mapping(&self, file: &File) -> Result<Mapping> {
        // It is mapped longer than it is open.
        let node = node_of(file.inode()).ok_or(EIO)?;
        node.remote.stay_open()?;
        if self.writer.is_some() {
            node.was_mapped.store(true, Relaxed);
        }
        REGULAR.mapping(file)
    }

    /// Without write-back nobody would tell the server.
    fn takes_shared_writes(&self) -> bool {
        self.writes_back
    }

    fn sync(&self, file: &File, data_only: bool) -> Result {
        let node = node_of(file.inode()).ok_or(EIO)?;
        let sent = self.send(node);
        sent.and(node.sync_on_server(data_only))
    }

    fn flush(&self, file: &File) -> Result {
        if self.writes_back && self.writer.is_some() {
            self.send(node_of(file.inode()).ok_or(EIO)?)
        } else {
            Ok(())
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Open {
    /// The fid by which it was written goes; what is dirty yet is sent by the thread.
    fn drop(&mut self) {
        if self.writer.take().is_some() && self.writes_back {
            back::call();
        }
    }
}

impl Node {
    /// Writes into pages, which are dirty then. The lock of writes is held. May sleep.
    ///
    /// # Errors
    /// Those of the server for a page that is written in part. EFAULT.
    fn write_cached(&self, inode: &Inode, at: u64, from: &mut Input<'_>) -> Result<usize> {
        let Some(contents) = &self.contents else { return Err(EIO) };
        let unwritten = &self.remote.unwritten;
        // An answer that is being taken over is so before the size changes.
        let writing = self.make_known(|| unwritten.write());
        let left = from.left();
        let n = contents.0.write_tracked(at, left, from)?;
        if n > 0 {
            self.remote.size.fetch_max(at.saturating_add(n as u64), Relaxed);
            inode.touch_modified();
        }
        drop(writing);
        if n == 0 { from.result() } else { Ok(n) }
    }

    /// Writes through: what is written is with the server when this returns, and pages that were in memory there are read again. The lock of writes is held. May sleep.
    ///
    /// # Errors
    /// Those of the server, ENOSPC among them, if it has taken nothing. EFAULT.
    fn write(&self, inode: &Inode, fid: &Fid, at: u64, from: &mut Input<'_>) -> Result<usize> {
        let mut done = 0usize;
        while from.left() > 0 {
            let room = from.left().min(self.fs.client.data_most());
            let exchange = Exchange::try_new_sent(room, |bytes| from.take(bytes))?;
            if exchange.sent() == 0 {
                break;
            }
            let sent = exchange.sent();
            let written = self.send(inode, fid, at.saturating_add(done as u64), exchange);
            match written {
                Ok(n) => done = done.saturating_add(n),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            if written != Ok(sent) || sent < room || give_way() {
                break;
            }
        }
        if done > 0 { Ok(done) } else { from.result() }
    }

    /// Sends what `exchange` has, in as many messages as the server wants. It takes something each time, or has failed.
    ///
    /// # Errors
    /// Those of the server, if it has taken nothing. EIO: it says that it has taken nothing.
    fn send(&self, inode: &Inode, fid: &Fid, at: u64, exchange: Exchange) -> Result<usize> {
        let (mut exchange, mut done) = (exchange, 0usize);
        loop {
            let (here, sent) = (at.saturating_add(done as u64), exchange.sent());
            // What is dirty there, or in the same pages, comes first.
            let turn = match &self.fs.back {
                Some(_) => Some(self.remote.unwritten.turn()?),
                None => None,
            };
            if turn.is_some() && self.remote.unwritten.is_dirty() {
                self.write_back_in_turn(u64::MAX)?;
            }
            let change = Change::begin(&[&self.remote], &[])?;
            let said = self.fs.client.write(fid, here, exchange, change.clone());
            // Whatever it says it may have written.
            let end = here.saturating_add(sent as u64);
            let taken = said.as_ref().map_or(0, |(_, n)| *n);
            let known = self.make_known(|| {
                let known = self.written(here, end, taken);
                inode.touch_modified();
                known
            });
            if said.is_err() {
                self.doubt();
            }
            drop((change, turn));
            let (mut sent_before, n) = match (said, known) {
                (Ok((_, 0)), _) if done == 0 => return Err(EIO),
                (Ok((_, 0)), _) => return Ok(done),
                (Ok(said), Ok(())) => said,
                (Err(error), _) | (_, Err(error)) if done == 0 => return Err(error),
                _ => return Ok(done),
            };
            done = done.saturating_add(n);
            if n >= sent || give_way() {
                return Ok(done);
            }
            let mut rest = Vec::new();
            let mut has_memory = true;
            sent_before.sent_from(n, |bytes| has_memory &= rest.try_extend_from_slice(bytes).is_ok());
            let mut left = &rest[..];
            let next = Exchange::try_new_sent(left.len(), |room| {
                let (now, later) = left.split_at_checked(room.len()).unwrap_or((left, &[]));
                left = later;
                room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
                now.len()
            });
            match next {
                Ok(next) if has_memory => exchange = next,
                _ => return Ok(done),
            }
        }
    }

    /// The server may have written bytes `at` to `end`, and has said so of the first `taken`: no page from before stays, and the file is as long.
    fn written(&self, at: u64, end: u64, taken: usize) -> Result {
        let Some(contents) = &self.contents else { return Ok(()) };
        contents.0.forget(at >> PAGE_SHIFT, end.div_ceil(PAGE_SIZE as u64))?;
        let size = at.saturating_add(taken as u64);
        if taken > 0 && size > self.remote.size.load(Relaxed) { self.resize(size) } else { Ok(()) }
    }

    /// The file has that size by now. What is known of it is locked.
    pub fn resize(&self, size: u64) -> Result {
        self.remote.size.store(size, Relaxed);
        self.contents.as_ref().map_or(Ok(()), |contents| contents.set_size(size))
    }
}

/// Bytes that a message asks for where no size says how many there are.
const UNSIZED: usize = 32 << 10;

fn read_unsized(remote: &Remote, at: u64, out: &mut Output<'_>) -> Result<usize> {
    let wanted = out.left().min(UNSIZED);
    if wanted > 0 {
        let (mut answer, got) = remote.client.read(Ask::Read, &*remote.opened()?, at, wanted)?;
        let mut bytes = Vec::new();
        answer.copy(DATA_HEAD.saturating_add(got), &mut bytes)?;
        out.put(bytes.get(DATA_HEAD..).unwrap_or(&[]));
    }
    out.result()
}

struct Paged {
    remote: Arc<Remote>,
    back: Option<Arc<Back>>,
    reads: Reads,
}

fn failure(error: Errno) -> VmError {
    match error {
        EINTR => VmError::Interrupted,
        ENOMEM => VmError::NoMemory,
        _ => VmError::Io,
    }
}

impl Pager for Paged {
    fn read(
        &self,
        first: u64,
        count: usize,
        give: &mut dyn FnMut(OwnedFrame),
    ) -> core::result::Result<Asked, VmError> {
        let reading = self.reads.begin(first, count).map_err(|_| VmError::Interrupted)?;
        let Some(reading) = reading else { return Ok(Asked::Waited) };
        let pages = self.pages(first, reading.count).map_err(failure)?;
        pages.into_iter().for_each(give);
        Ok(Asked::Read)
    }

    fn takes_writes(&self) -> bool {
        self.back.is_some()
    }

    fn write(&self, first: u64, pages: &[Pin], end: u64) -> core::result::Result<(), VmError> {
        sending::send(&self.remote, first, pages, end).map_err(|error| {
            if !matches!(error, EINTR | ENOMEM) {
                self.remote.unwritten.errors.note(error);
            }
            failure(error)
        })
    }

    fn count_dirty(&self, n: u64) -> core::result::Result<(), VmError> {
        self.back.as_ref().map_or(Ok(()), |back| back.count(n))
    }

    fn count_clean(&self, n: u64) {
        if let Some(back) = &self.back {
            back.give_back(n);
        }
    }

    fn begin_dirty(&self) -> core::result::Result<(), VmError> {
        let Some(back) = &self.back else { return Ok(()) };
        back.begin_dirty(self.remote.path, |node| Arc::ptr_eq(&node.remote, &self.remote)).map_err(failure)
    }
}

impl Paged {
    /// Up to `count` pages from page `first` on; fewer at the file's end, or if an answer has no room for more.
    fn pages(&self, first: u64, count: usize) -> Result<Vec<OwnedFrame>> {
        let fid = self.remote.opened()?;
        let client = &self.remote.client;
        let at = first.checked_mul(PAGE_SIZE as u64).ok_or(EIO)?;
        let (answer, got) = client.read(Ask::Read, &fid, at, count.saturating_mul(PAGE_SIZE))?;
        let mut pages = answer.into_pages(got);
        let end = at.saturating_add(got as u64);
        if !got.is_multiple_of(PAGE_SIZE)
            && end < self.remote.size.load(Relaxed)
            && let Some(last) = pages.last_mut()
        {
            // The server has stopped within a page, and the file has not.
            if let Err(error) = self.fill(&fid, last, end) {
                pages.pop();
                if pages.is_empty() {
                    return Err(error);
                }
            }
        }
        Ok(pages)
    }

    /// Fills the rest of a page, from byte `at` of the file on. At most as many messages as a page has bytes.
    fn fill(&self, fid: &Fid, page: &mut OwnedFrame, mut at: u64) -> Result {
        loop {
            let have = at as usize & ((1usize << PAGE_SHIFT).wrapping_sub(1));
            let room = page.bytes().get_mut(have..).unwrap_or(&mut []);
            let (mut answer, got) = self.remote.client.read(Ask::Read, fid, at, room.len())?;
            let mut bytes = Vec::new();
            answer.copy(DATA_HEAD.saturating_add(got), &mut bytes)?;
            let new = bytes.get(DATA_HEAD..).unwrap_or(&[]);
            room.iter_mut().zip(new).for_each(|(to, from)| *to = *from);
            if got == 0 || got >= room.len() {
                return Ok(());
            }
            at = at.saturating_add(got as u64);
        }
    }
}
