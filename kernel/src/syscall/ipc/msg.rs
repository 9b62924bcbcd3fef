//! msgget(2), msgsnd(2), msgrcv(2), msgctl(2).
#![forbid(unsafe_code)]

use super::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT, Perm, answer, int};
use crate::errno::{EFAULT, EINVAL, Result};
use crate::ipc::msg::{self, COPY, EXCEPT, Message, Wanted};
use crate::ipc::{NO_WAIT, limits};
use crate::memory::user::{UserPtr, UserSlice};
use alloc::vec::Vec;
use sync::TryVec;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const MSG_STAT: i32 = 11;
const MSG_INFO: i32 = 12;
const MSG_STAT_ANY: i32 = 13;

/// Bytes of a message's kind, which its text follows.
const KIND: usize = 8;

/// struct msqid64_ds.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Queue {
    perm: Perm,
    send_time: i64,
    receive_time: i64,
    change_time: i64,
    bytes: u64,
    messages: u64,
    most_bytes: u64,
    last_sender: u32,
    last_receiver: u32,
    unused: [u64; 2],
}

/// struct msginfo.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Info {
    pool: i32,
    map: i32,
    most: i32,
    most_of_queue: i32,
    queues: i32,
    size: i32,
    bytes: i32,
    segments: u16,
    pad: u16,
}

const _: () = assert!(size_of::<Queue>() == 120 && size_of::<Info>() == 32);

/// msgget(2).
pub fn sys_msgget(key: i32, flags: u32) -> Result<usize> {
    msg::get(key, flags).map(|id| id.cast_unsigned() as usize)
}

/// Reads a text of `size` bytes.
fn read_text(address: usize, size: usize) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    text.try_resize(size, 0u8)?;
    UserSlice::new(address, size).read(&mut text)?;
    Ok(text)
}

/// msgsnd(2).
pub fn sys_msgsnd(id: i32, message: usize, size: usize, flags: u32) -> Result<usize> {
    let kind = UserPtr::<i64>::new(message).read()?;
    if size as u64 > limits::MSGMAX.get() || id < 0 || kind < 1 {
        return Err(EINVAL);
    }
    let text = read_text(message.checked_add(KIND).ok_or(EFAULT)?, size)?;
    let message = Message::try_new(kind, text)?;
    msg::send(id, &message, flags).map(|()| 0)
}

/// Which message msgrcv asks for.
fn wanted(kind: i64, flags: u32) -> Wanted {
    match kind {
        place if flags & COPY != 0 => Wanted::Place(place),
        0 => Wanted::Any,
        i64::MIN..0 => Wanted::UpTo(kind.checked_neg().unwrap_or(i64::MAX)),
        kind if flags & EXCEPT != 0 => Wanted::Not(kind),
        kind => Wanted::Kind(kind),
    }
}

/// msgrcv(2).
pub fn sys_msgrcv(id: i32, message: usize, size: usize, kind: i64, flags: u32) -> Result<usize> {
    if id < 0 || size > isize::MAX as usize {
        return Err(EINVAL);
    }
    if flags & COPY != 0 {
        if flags & EXCEPT != 0 || flags & NO_WAIT == 0 {
            return Err(EINVAL);
        }
        // Linux makes the copy of what is in the buffer first.
        let most = usize::try_from(limits::MSGMAX.get()).unwrap_or(usize::MAX);
        drop(read_text(message, size.min(most))?);
    }
    let received = msg::receive(id, size, wanted(kind, flags), flags)?;
    UserPtr::<i64>::new(message).write(&received.message.kind)?;
    let text = received.message.text.get(..received.size).unwrap_or_default();
    UserSlice::new(message.checked_add(KIND).ok_or(EFAULT)?, text.len()).write(text)?;
    Ok(received.size)
}

/// msgctl(2).
pub fn sys_msgctl(id: i32, command: i32, buffer: usize) -> Result<usize> {
    if id < 0 || command < 0 {
        return Err(EINVAL);
    }
    match command {
        IPC_INFO | MSG_INFO => {
            UserPtr::new(buffer).write(&info(command == MSG_INFO))?;
            Ok(msg::TABLE.highest() as usize)
        }
        IPC_STAT | MSG_STAT | MSG_STAT_ANY => {
            let at = command != IPC_STAT;
            let status = msg::status(id, at, command == MSG_STAT_ANY)?;
            let queue = Queue {
                perm: status.perm.into(),
                send_time: status.send_time,
                receive_time: status.receive_time,
                change_time: status.change_time,
                bytes: status.bytes,
                messages: status.messages,
                most_bytes: status.most_bytes,
                last_sender: status.last_sender,
                last_receiver: status.last_receiver,
                unused: [0; 2],
            };
            UserPtr::new(buffer).write(&queue)?;
            Ok(answer(at, status.perm))
        }
        IPC_SET => {
            let to = UserPtr::<Queue>::new(buffer).read()?;
            msg::set(id, &to.perm.new_owner(), to.most_bytes).map(|()| 0)
        }
        IPC_RMID => msg::remove(id).map(|()| 0),
        _ => Err(EINVAL),
    }
}

/// The limits, or with `used` how much there is in some places.
fn info(used: bool) -> Info {
    let (queues, messages, bytes) = msg::sums();
    // The rest are constants of old on Linux, made of the defaults.
    Info {
        pool: if used { int(queues) } else { 512_000 },
        map: if used { int(messages) } else { 16_384 },
        most: int(limits::MSGMAX.get()),
        most_of_queue: int(limits::MSGMNB.get()),
        queues: int(limits::MSGMNI.get()),
        size: 16,
        bytes: if used { int(bytes) } else { 16_384 },
        segments: 0xffff,
        pad: 0,
    }
}
