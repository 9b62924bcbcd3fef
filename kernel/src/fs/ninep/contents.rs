//! Contents of a server's file: pages of an object that are asked for when somebody misses one, and stay until the file is seen to have changed.
//!
//! One message for a run of pages, as long as the reader seems to want (`vm::Pager`) and an answer has room for. Whoever misses a page that another is reading
//! waits for that (`vfs::reading`). The pages that the server has written are the object's then: nothing is copied.
//!
//! Lock order: see `inode`. No lock is held while the server is asked.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::Ordering::Relaxed;

use sync::try_box;
use vm::frame::OwnedFrame;
use vm::{Asked, Object, ObjectOwner, ObjectRef, PAGE_SHIFT, PAGE_SIZE, Pager, VmError};

use super::client::Fid;
use super::inode::{Remote, node_of};
use super::message::Ask;
use crate::device::virtio::share::DATA_HEAD;
use crate::errno::{EINTR, EIO, ENOMEM, Errno, Result};
use crate::fs::file::buffer::Output;
use crate::fs::file::regular::REGULAR;
use crate::fs::file::{File, FileOps, Mapping, Order};
use crate::fs::vfs::reading::Reads;

pub struct Contents(ObjectOwner);

/// What reads the file's pages.
pub fn pager(remote: &Arc<Remote>) -> Result<Box<dyn Pager>> {
    Ok(try_box(Paged { remote: remote.clone(), reads: Reads::new() })?)
}

impl Contents {
    pub fn try_new(remote: &Arc<Remote>, number: u64, size: u64) -> Result<Contents> {
        let paged = pager(remote)?;
        // 0 is memory without a file.
        Ok(Contents(Object::try_owned_paged((number as usize).max(1), size, paged, None)?))
    }

    /// The file has other contents by now. May sleep.
    pub fn replace(&self, size: u64) -> Result {
        Ok(self.0.replace(size)?)
    }

    pub fn object(&self) -> ObjectRef {
        self.0.share()
    }
}

/// What an open file is read through: each read sees what has changed longer ago than answers are believed.
pub struct Reading;

impl FileOps for Reading {
    fn read(&self, file: &File, at: u64, out: &mut Output<'_>, order: Order<'_>) -> Result<usize> {
        let inode = file.inode();
        inode.refresh()?;
        match node_of(inode) {
            // There may be something all the same: a size that nobody knows before (the host's /proc).
            Some(node) if inode.size() == 0 => read_unsized(&node.remote, at, out),
            _ => REGULAR.read(file, at, out, order),
        }
    }

    fn seeks(&self) -> bool {
        true
    }

    fn seek(&self, file: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        file.inode().refresh()?;
        REGULAR.seek(file, offset, whence, now)
    }

    fn mapping(&self, file: &File) -> Result<Mapping> {
        REGULAR.mapping(file)
    }

    fn as_any(&self) -> &dyn Any {
        self
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
