//! Sending what was written into a file's pages (`back` says when).
//!
//! Lock order: a turn (`unwritten`); with it what is known of the file is locked, but not while the server is asked.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use vm::frame::Pin;
use vm::{PAGE_SIZE, VmError};

use super::contents::Contents;
use super::inode::Node;
use super::remote::{Change, Remote};
use crate::device::virtio::share::Exchange;
use crate::errno::{EINTR, EIO, ENOMEM, Result};
use crate::sched::give_way;

/// Sends pages, up to byte `end`, in messages as long as there may be. The caller has the turn.
///
/// # Errors
/// EIO: the server says that it takes nothing; or nobody has the file open to write. Those of the server.
pub fn send(remote: &Arc<Remote>, first: u64, pages: &[Pin], end: u64) -> Result {
    let client = &remote.client;
    let fid = remote.writing_already().ok_or(EIO)?;
    let start = first.checked_mul(PAGE_SIZE as u64).ok_or(EIO)?;
    let end = end.min(start.saturating_add(pages.len().saturating_mul(PAGE_SIZE) as u64));
    let mut at = start;
    while at < end {
        let mut from = usize::try_from(at.saturating_sub(start)).map_err(|_| EIO)?;
        let len = client.data_most().min(usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX));
        let exchange = Exchange::try_new_sent(len, |mut room| {
            let mut put = 0usize;
            // A piece of the message may lie in two pages.
            while let Some(pin) = pages.get(from / PAGE_SIZE).filter(|_| !room.is_empty()) {
                let within = from.checked_rem(PAGE_SIZE).unwrap_or(0);
                let copied = pin.bytes().get(within..PAGE_SIZE).map_or(0, |bytes| bytes.copy_to(room));
                if copied == 0 {
                    break;
                }
                (put, from) = (put.saturating_add(copied), from.saturating_add(copied));
                room = room.get_mut(copied..).unwrap_or(&mut []);
            }
            put
        })?;
        let change = Change::begin(&[remote], &[])?;
        let (_, taken) = client.write(&fid, at, exchange, change)?;
        if taken == 0 {
            return Err(EIO);
        }
        at = at.saturating_add(taken as u64);
        if give_way() && at < end {
            return Err(EINTR);
        }
    }
    Ok(())
}

impl Node {
    /// Sends up to `most` dirty pages or some more; says how many. May sleep, killably.
    ///
    /// # Errors
    /// EINTR, ENOMEM: the rest is dirty as before. The server's for pages that were lost.
    pub fn write_back(&self, most: u64) -> Result<u64> {
        if !self.remote.unwritten.is_dirty() {
            return Ok(0);
        }
        let _turn = self.remote.unwritten.turn()?;
        self.write_back_in_turn(most)
    }

    /// The same, with the turn.
    pub fn write_back_in_turn(&self, most: u64) -> Result<u64> {
        let Some(contents) = &self.contents else { return Ok(0) };
        // What the server says of it afterwards is of this client's doing.
        self.make_known(|| ());
        let said = contents.object().write_back(0, u64::MAX, most);
        match said {
            Err(VmError::Interrupted) => return Err(EINTR),
            Err(VmError::NoMemory) => return Err(ENOMEM),
            _ => self.remote.unwritten.settle(|| contents.object().is_settled()),
        }
        said.map_err(|_| self.remote.unwritten.errors.last().unwrap_or(EIO))
    }

    /// Has the server put on its disk what it has of the file, if it is open.
    pub fn sync_on_server(&self, data_only: bool) -> Result {
        match self.remote.open_already() {
            Some(open) => self.fs.client.fsync(&open, data_only),
            None => Ok(()),
        }
    }

    /// May a page of it be mapped?
    pub fn is_mapped(&self) -> bool {
        self.was_mapped.load(Relaxed)
            && self.contents.as_ref().is_some_and(|contents| contents.object().is_mapped())
    }

    /// May no mapping of it write any more?
    pub fn is_referred_to_by_nobody(&self) -> bool {
        !self.was_mapped.load(Relaxed) || self.contents.as_ref().is_none_or(Contents::is_alone)
    }
}
