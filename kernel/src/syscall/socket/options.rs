//! getsockopt and setsockopt. These sockets have the options of SOL_SOCKET alone.
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::{open_file, socket_of, told};
use crate::account::limits;
use crate::errno::*;
use crate::fs::caller::{self, Capability};
use crate::fs::file::OpenFlags;
use crate::memory::user::{UserPtr, UserSlice};
use crate::net::options::*;
use crate::net::{Kind, Phase, Socket, address};
use crate::process;
use crate::process::pidfd::PidFile;
use linux_raw_sys::net as abi;

const SOL_SOCKET: i32 = 1;
const SECOND: u64 = 1_000_000_000;

/// Options that are a flag and no more.
fn flag(option: u32) -> Option<u32> {
    Some(match option {
        abi::SO_PASSCRED => PASS_CREDENTIALS,
        abi::SO_PASSPIDFD => PASS_PIDFD,
        abi::SO_REUSEADDR => REUSE_ADDRESS,
        abi::SO_KEEPALIVE => KEEP_ALIVE,
        abi::SO_BROADCAST => BROADCAST,
        abi::SO_OOBINLINE => OOB_INLINE,
        abi::SO_DONTROUTE => NO_ROUTE,
        _ => return None,
    })
}

pub fn sys_setsockopt(fd: i32, level: i32, option: u32, value: usize, len: i32) -> Result<usize> {
    let len = usize::try_from(len).map_err(|_| EINVAL)?;
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    if level != SOL_SOCKET {
        return Err(EOPNOTSUPP);
    }
    if len < 4 {
        return Err(EINVAL);
    }
    let number = UserPtr::<i32>::new(value).read()?;
    let options = &socket.options;
    if let Some(flag) = flag(option) {
        options.set(flag, number != 0);
        return Ok(0);
    }
    match option {
        abi::SO_SNDBUF => {
            options.set_send_buffer(doubled(bounded(number, limits::SEND_MOST.get()), SEND_LEAST))
        }
        abi::SO_RCVBUF => {
            let size = doubled(bounded(number, limits::RECEIVE_MOST.get()), RECEIVE_LEAST);
            options.receive_buffer.store(size, Relaxed);
        }
        abi::SO_SNDBUFFORCE | abi::SO_RCVBUFFORCE => {
            if !caller::capable(Capability::NET_ADMIN) {
                return Err(EPERM);
            }
            let number = number.max(0).cast_unsigned();
            if option == abi::SO_SNDBUFFORCE {
                options.set_send_buffer(doubled(number, SEND_LEAST));
            } else {
                options.receive_buffer.store(doubled(number, RECEIVE_LEAST), Relaxed);
            }
        }
        abi::SO_RCVTIMEO_OLD | abi::SO_RCVTIMEO_NEW => {
            options.receive_timeout.store(timeout(value, len)?, Relaxed);
        }
        abi::SO_SNDTIMEO_OLD | abi::SO_SNDTIMEO_NEW => {
            options.send_timeout.store(timeout(value, len)?, Relaxed)
        }
        abi::SO_RCVLOWAT => options.set_low_mark(number),
        abi::SO_PEEK_OFF => options.set_peek_offset(number),
        abi::SO_LINGER => {
            if len < 8 {
                return Err(EINVAL);
            }
            let [on, seconds] = UserPtr::<[i32; 2]>::new(value).read()?;
            // Kept, and of no meaning for these sockets.
            let kept = if on == 0 { 0 } else { 1 << 32 | u64::from(seconds.cast_unsigned()) };
            options.linger.store(kept, Relaxed);
        }
        abi::SO_PRIORITY => {
            let free = (0..=6).contains(&number);
            if !free && !caller::capable(Capability::NET_ADMIN) && !caller::capable(Capability::NET_RAW) {
                return Err(EPERM);
            }
            options.priority.store(number.cast_unsigned(), Relaxed);
        }
        // What a socket is, nobody changes; and what is not there.
        _ => return Err(ENOPROTOOPT),
    }
    if matches!(option, abi::SO_SNDBUF | abi::SO_SNDBUFFORCE) {
        socket.tell_of_buffer();
    }
    Ok(0)
}

/// A negative size is as large as may be.
fn bounded(number: i32, most: u64) -> u32 {
    u64::from(number.cast_unsigned()).min(most) as u32
}

/// Linux doubles sizes, for what it needs itself.
fn doubled(size: u32, least: usize) -> u32 {
    let most = i32::MAX as u32;
    size.min(most / 2).saturating_mul(2).max(least as u32)
}

/// A `struct timeval` as nanoseconds: 0 without end, u64::MAX not at all.
fn timeout(value: usize, len: usize) -> Result<u64> {
    if len < 16 {
        return Err(EINVAL);
    }
    let [seconds, micros] = UserPtr::<[i64; 2]>::new(value).read()?;
    if !(0..1_000_000).contains(&micros) {
        return Err(EDOM);
    }
    if seconds < 0 {
        return Ok(u64::MAX);
    }
    let length = (seconds as u64).saturating_mul(SECOND).saturating_add((micros as u64).saturating_mul(1000));
    // As good as without end.
    Ok(if length > i64::MAX as u64 { 0 } else { length })
}

/// The same the other way.
fn told_timeout(nanoseconds: u64) -> [u8; 16] {
    let time = if nanoseconds == u64::MAX { 0 } else { nanoseconds };
    let words = [(time / SECOND).to_ne_bytes(), (time % SECOND / 1000).to_ne_bytes()];
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(words.iter().flatten()).for_each(|(to, from)| *to = *from);
    bytes
}

pub fn sys_getsockopt(fd: i32, level: i32, option: u32, value: usize, len: usize) -> Result<usize> {
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    if level != SOL_SOCKET {
        return Err(EOPNOTSUPP);
    }
    let len = UserPtr::<i32>::new(len);
    let room = usize::try_from(len.read()?).map_err(|_| EINVAL)?;
    let put = |bytes: &[u8]| -> Result<usize> {
        let part = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        UserSlice::new(value, part.len()).write(part)?;
        len.write(&(part.len() as i32))?;
        Ok(0)
    };
    match option {
        abi::SO_PEERCRED => {
            let ids = socket.peer_identity().map_or([0, u32::MAX, u32::MAX], |whose| {
                [whose.pid, whose.credentials.euid, whose.credentials.egid]
            });
            let mut bytes = [0; 12];
            bytes
                .iter_mut()
                .zip(ids.map(u32::to_ne_bytes).iter().flatten())
                .for_each(|(to, from)| *to = *from);
            put(&bytes)
        }
        abi::SO_PEERGROUPS => peer_groups(socket, value, room, len),
        abi::SO_PEERPIDFD => peer_process(socket, value, room, len),
        abi::SO_PEERNAME => {
            let peer = socket.peer_counted().ok_or(ENOTCONN)?;
            let name = peer.name();
            let (bytes, n) = told(name.as_deref());
            if n < room {
                return Err(EINVAL);
            }
            UserSlice::new(value, room).write(bytes.get(..room).unwrap_or(&[]))?;
            len.write(&(room as i32))?;
            Ok(0)
        }
        abi::SO_RCVTIMEO_OLD | abi::SO_RCVTIMEO_NEW => {
            put(&told_timeout(socket.options.receive_timeout.load(Relaxed)))
        }
        abi::SO_SNDTIMEO_OLD | abi::SO_SNDTIMEO_NEW => {
            put(&told_timeout(socket.options.send_timeout.load(Relaxed)))
        }
        abi::SO_LINGER => {
            let kept = socket.options.linger.load(Relaxed);
            put(&kept.rotate_left(32).to_ne_bytes())
        }
        _ => put(&number(socket, option)?.to_ne_bytes()),
    }
}

/// An option that is one number.
fn number(socket: &Socket, option: u32) -> Result<i32> {
    let options = &socket.options;
    if let Some(flag) = flag(option) {
        return Ok(i32::from(options.has(flag)));
    }
    Ok(match option {
        abi::SO_TYPE => socket.kind as i32,
        abi::SO_DOMAIN => i32::from(address::FAMILY),
        abi::SO_PROTOCOL => 0,
        abi::SO_ERROR => socket.take_error().err().map_or(0, |error| error.0),
        abi::SO_ACCEPTCONN => i32::from(socket.phase() == Phase::Listening),
        abi::SO_SNDBUF => options.send_buffer() as i32,
        abi::SO_RCVBUF => options.receive_buffer.load(Relaxed) as i32,
        abi::SO_RCVLOWAT => i32::try_from(options.low_mark()).unwrap_or(i32::MAX),
        abi::SO_SNDLOWAT => 1,
        abi::SO_PEEK_OFF if socket.kind as i32 >= Kind::Stream as i32 => options.peek_offset(),
        abi::SO_PRIORITY => options.priority.load(Relaxed) as i32,
        abi::SO_BSDCOMPAT => 0,
        _ => return Err(ENOPROTOOPT),
    })
}

/// SO_PEERGROUPS: the supplementary groups of the other side.
fn peer_groups(socket: &Socket, value: usize, room: usize, len: UserPtr<i32>) -> Result<usize> {
    let whose = socket.peer_identity().ok_or(ENODATA)?;
    let groups = &whose.credentials.groups;
    let bytes = groups.len().saturating_mul(4);
    if room < bytes {
        len.write(&(bytes as i32))?;
        return Err(ERANGE);
    }
    for (n, group) in groups.iter().enumerate() {
        UserPtr::<u32>::new(value).at(n)?.write(group)?;
    }
    len.write(&(bytes as i32))?;
    Ok(0)
}

/// SO_PEERPIDFD: a descriptor of the other side's process.
fn peer_process(socket: &Socket, value: usize, room: usize, len: UserPtr<i32>) -> Result<usize> {
    let whose = socket.peer_identity().ok_or(ENODATA)?;
    let process = process::find_process(whose.pid).filter(|process| process.started == whose.started);
    let process = process.ok_or(EINVAL)?;
    let file = PidFile::try_new(&process, OpenFlags::empty())?;
    let files = caller::files();
    let fd = files.install_new(file, caller::descriptor_limit(), true)?;
    let bytes = fd.to_ne_bytes();
    let part = bytes.get(..room.min(bytes.len())).unwrap_or(&bytes);
    let told = UserSlice::new(value, part.len()).write(part).and_then(|()| len.write(&(part.len() as i32)));
    if told.is_err() {
        let _ = files.close(fd);
    }
    told.map(|()| 0)
}
