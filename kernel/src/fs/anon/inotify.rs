//! inotify(7) as a file: what an instance was told is read from it. The instance is `vfs::notify`'s.
//!
//! No locks of its own.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;

use sync::heap::Text;
use sync::{try_arc, try_box};

use crate::errno::{EAGAIN, EFAULT, EINVAL, ENOMEM, ENOTTY, Result};
use crate::fs::caller;
use crate::fs::file::async_io::AsyncQueues;
use crate::fs::file::buffer::Output;
use crate::fs::file::ioctl::{FIONREAD, put_u32};
use crate::fs::file::poll::{self, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::notify::{Event, HEADER, Instance, Readers, Taken, events};

pub struct Inotify {
    pub instance: Arc<Instance>,
    ready: Arc<Ready>,
}

/// Who waits for something to read.
struct Ready(PollQueue);

impl Readers for Ready {
    fn wake(&self) {
        self.0.wake_for_io();
    }
}

/// A new instance, of the running thread's user.
///
/// # Errors
/// EMFILE: the user has as many as may be. ENFILE, ENOMEM.
pub fn try_new(flags: OpenFlags) -> Result<Arc<File>> {
    let ready = try_arc(Ready(PollQueue::new()))?;
    let instance = Instance::try_new(caller::uid(), ready.clone())?;
    let ops = try_box(Inotify { instance, ready })?;
    File::try_anonymous(super::nameless()?, "anon_inode:inotify", ops, flags)
}

/// The most that the bytes of an event take: a header, and a name of 255 bytes with its NUL.
const LONGEST: usize = HEADER + 256;

impl Inotify {
    /// One segment of a program's, of `room` bytes: as many events as fit, or waits for the first.
    ///
    /// # Errors
    /// EINVAL: the first does not fit. EAGAIN: there is none, and the file does not wait. EFAULT: what was taken is lost, as on Linux.
    fn read_segment(&self, file: &File, out: &mut Output<'_>, room: usize) -> Result<usize> {
        let mut done = 0usize;
        loop {
            let queued;
            let event = match self.instance.take(room.saturating_sub(done)) {
                Taken::Event(taken) => {
                    queued = taken;
                    &queued.event
                }
                Taken::Lost => &Event::LOST,
                _ if done > 0 => return Ok(done),
                Taken::NoRoom => return Err(EINVAL),
                Taken::Empty if file.nonblocking() || out.nowait => return Err(EAGAIN),
                Taken::Empty => {
                    self.ready.0.wait(None, || (!self.instance.is_empty()).then_some(()))?;
                    continue;
                }
            };
            put(event, out)?;
            done = done.saturating_add(event.len());
            if crate::sched::give_way() {
                return Ok(done);
            }
        }
    }
}

/// `struct inotify_event`, and the name with zeros behind it.
fn put(event: &Event, out: &mut Output<'_>) -> Result {
    let mut bytes = [0; LONGEST];
    let name_len = event.name_len();
    let words = [event.watch.cast_unsigned(), event.mask & events::TOLD, event.cookie, name_len as u32];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let name = event.name();
    if let Some(to) = bytes.get_mut(HEADER..HEADER.saturating_add(name.len())) {
        to.copy_from_slice(name);
    }
    let all = bytes.get(..event.len()).unwrap_or(&[]);
    if out.put(all) < all.len() { Err(EFAULT) } else { Ok(()) }
}

impl FileOps for Inotify {
    fn splices(&self) -> bool {
        false
    }

    fn can_write(&self) -> bool {
        false
    }

    /// Each segment is read by itself.
    fn takes_flags(&self, _: bool) -> bool {
        false
    }

    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let mut done = 0usize;
        loop {
            let room = out.next_segment();
            match self.read_segment(file, out, room) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
                Ok(n) => {
                    done = done.saturating_add(n);
                    if n < room || out.left() == 0 {
                        return Ok(done);
                    }
                }
            }
        }
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.ready.0);
        if self.instance.is_empty() { 0 } else { poll::IN | poll::RDNORM }
    }

    fn async_queues(&self) -> Option<AsyncQueues<'_>> {
        Some(AsyncQueues { input: Some(&self.ready.0), output: None, owner: None })
    }

    fn ioctl(&self, _: &File, command: u32, argument: usize) -> Result<usize> {
        /// INOTIFY_IOC_SETNEXTWD.
        const SET_NEXT: u32 = 0x4004_4900;
        match command {
            FIONREAD => put_u32(argument, u32::try_from(self.instance.bytes()).unwrap_or(u32::MAX)),
            SET_NEXT => match i32::try_from(argument) {
                Ok(next) if next > 0 => {
                    self.instance.set_next(next);
                    Ok(0)
                }
                _ => Err(EINVAL),
            },
            _ => Err(ENOTTY),
        }
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn held_pages(&self, _: &File) -> u64 {
        (self.instance.waiting() / 32) as u64
    }

    fn tell(&self, _: &File, out: &mut Vec<u8>) -> Result {
        self.instance.for_each(|watch| {
            let inode = &watch.inode;
            let device = device_number::major(inode.device) << 20 | device_number::minor(inode.device);
            let written = write!(
                Text(out),
                "inotify wd:{:x} ino:{:x} sdev:{device:x} mask:{:x} ignored_mask:0 ",
                watch.number,
                inode.number,
                watch.mask(),
            );
            written.map_err(|_| ENOMEM)?;
            tell_handle(inode, out)
        })
    }

    fn release(&self, _: &File) {
        self.instance.close();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The rest of a line: a handle as name_to_handle_at(2) would give one, of the inode's number alone. No call takes it.
fn tell_handle(inode: &Inode, out: &mut Vec<u8>) -> Result {
    write!(Text(out), "fhandle-bytes:c fhandle-type:1 f_handle:00000000").map_err(|_| ENOMEM)?;
    for byte in inode.number.to_le_bytes() {
        write!(Text(out), "{byte:02x}").map_err(|_| ENOMEM)?;
    }
    writeln!(Text(out)).map_err(|_| ENOMEM)
}
