//! A socket as an open file.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::Ordering::*;

use sync::slab_box;

use super::stream::Outgoing;
use super::{Kind, NEITHER, NO_RECEIVE, Phase, Socket, Wait};
use crate::errno::*;
use crate::fs::anon;
use crate::fs::file::async_io::AsyncQueues;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::ioctl::{FIONREAD, put_u32};
use crate::fs::file::poll::{self, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::fs::vfs::inode::Kind as FileKind;

/// Bytes that were sent and not received (SIOCOUTQ).
const SIOCOUTQ: u32 = 0x5411;

/// What an open file has of its socket.
pub struct End(Arc<Socket>);

vm::slab_type!(End, "socket-file", Box);

/// The socket of an open file, if it is one.
pub fn of_file(file: &File) -> Option<&Arc<Socket>> {
    file.downcast::<End>().map(|end| &end.0)
}

/// A file for `socket`, which has none.
///
/// # Errors
/// ENOMEM, ENFILE. Then the socket is closed.
pub fn open(socket: Arc<Socket>, flags: OpenFlags) -> Result<Arc<File>> {
    try_open(&socket, flags).inspect_err(|_| socket.release())
}

fn try_open(socket: &Arc<Socket>, flags: OpenFlags) -> Result<Arc<File>> {
    let inode = anon::inode(FileKind::Socket, 0o777)?;
    let number = inode.number;
    let end: Box<End> = slab_box(End(socket.clone()))?;
    let file = File::try_anonymous(inode, "socket", end, flags | OpenFlags::READ_WRITE)?;
    socket.is_opened(&file, number);
    Ok(file)
}

/// How a call on `file` that receives waits.
pub fn receive_wait<'a>(file: &'a File, socket: &Socket, dont_wait: bool) -> Wait<'a> {
    wait(file, socket.options.receive_timeout.load(Relaxed), dont_wait)
}

/// The same of one that sends, or connects.
pub fn send_wait<'a>(file: &'a File, socket: &Socket, dont_wait: bool) -> Wait<'a> {
    wait(file, socket.options.send_timeout.load(Relaxed), dont_wait)
}

fn wait(file: &File, timeout: u64, dont_wait: bool) -> Wait<'_> {
    let waits = !dont_wait && !file.nonblocking() && timeout != u64::MAX;
    Wait::new(waits.then_some(file), timeout)
}

impl FileOps for End {
    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        if out.left() == 0 {
            return Ok(0);
        }
        let wait = receive_wait(file, &self.0, out.nowait);
        let (n, mut got) = match self.0.kind {
            Kind::Stream => self.0.receive_stream(out, (false, false), &wait, false)?,
            _ => self.0.receive_message(out, false, &wait).map(|(received, got)| (received.copied, got))?,
        };
        // Files that came with it are lost.
        if let Some(rights) = got.rights.take() {
            super::rights::drop_rights(rights);
        }
        Ok(n)
    }

    fn write(&self, file: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        let wait = send_wait(file, &self.0, from.nowait);
        match self.0.kind {
            Kind::Stream => self.0.send_stream(from, Outgoing::default(), &wait),
            _ => self.0.send_message_to(None, from, Outgoing::default(), &wait),
        }
    }

    fn takes_nowait(&self, _: &File) -> bool {
        true
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        let socket = &self.0;
        poller.add(&socket.readable);
        poller.add(&socket.writable);
        let mut events = 0;
        if socket.error.load(Acquire) != 0 {
            events |= poll::ERR;
        }
        let shutdown = socket.shutdown_bits();
        if shutdown == NEITHER {
            events |= poll::HUP;
        }
        if shutdown & NO_RECEIVE != 0 {
            events |= poll::RDHUP | poll::IN | poll::RDNORM;
        }
        if socket.queue.has_some() || socket.waiting.load(Acquire) > 0 {
            events |= poll::IN | poll::RDNORM;
        }
        if socket.kind.is_connected() && socket.phase() == Phase::Unconnected {
            events |= poll::HUP;
        }
        let writable =
            if socket.kind == Kind::Stream { socket.may_send_more() } else { socket.may_send_messages() };
        if writable {
            events |= poll::OUT | poll::WRNORM | poll::WRBAND;
        }
        events
    }

    fn ioctl(&self, _: &File, command: u32, argument: usize) -> Result<usize> {
        match command {
            FIONREAD => {
                if self.0.phase() == Phase::Listening {
                    return Err(EINVAL);
                }
                let bytes = self.0.queue.receive().bytes(self.0.kind)?;
                put_u32(argument, u32::try_from(bytes).unwrap_or(u32::MAX))
            }
            SIOCOUTQ => put_u32(argument, u32::try_from(self.0.sent.load(Acquire)).unwrap_or(u32::MAX)),
            _ => Err(ENOTTY),
        }
    }

    fn async_queues(&self) -> Option<AsyncQueues<'_>> {
        Some(AsyncQueues { input: Some(&self.0.readable), output: Some(&self.0.writable), owner: None })
    }

    fn held_pages(&self, _: &File) -> u64 {
        (self.0.sent.load(Relaxed) / 4096) as u64
    }

    fn release(&self, _: &File) {
        self.0.release();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
