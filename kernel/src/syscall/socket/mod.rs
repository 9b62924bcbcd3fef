//! Sockets: Unix sockets, and no other family.
#![forbid(unsafe_code)]

mod message;
mod options;

pub use message::{sys_recvfrom, sys_recvmmsg, sys_recvmsg, sys_sendmmsg, sys_sendmsg, sys_sendto};
pub use options::{sys_getsockopt, sys_setsockopt};

use alloc::sync::Arc;

use sync::rcu::Lent;

use super::file::file;
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::{File, OpenFlags};
use crate::memory::user::{UserPtr, UserSlice};
use crate::net::{self, Kind, Socket, address};
use crate::process::drain_and_retry;

/// `struct sockaddr_storage`.
const STORAGE: usize = 128;
/// What `type` has beside flags, and the greatest type.
const KIND_MASK: u32 = 0xf;
const KINDS: u32 = 11;
/// Numbers of families.
const FAMILIES: i32 = 46;
/// SOCK_RAW: of this family the same as SOCK_DGRAM.
const RAW: u32 = 3;

/// A descriptor's file, for `socket_of`.
fn open_file(fd: i32) -> Result<Lent<File>> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) { Err(EBADF) } else { Ok(file) }
}

/// A file's socket. It is not counted: the file keeps it.
fn socket_of(file: &File) -> Result<&Arc<Socket>> {
    net::of_file(file).ok_or(ENOTSOCK)
}

/// SOCK_CLOEXEC and SOCK_NONBLOCK.
fn new_flags(flags: u32) -> Result<OpenFlags> {
    let flags = OpenFlags::from_bits_retain(flags);
    if (OpenFlags::CLOEXEC | OpenFlags::NONBLOCK).contains(flags) { Ok(flags) } else { Err(EINVAL) }
}

/// The kind of socket that is asked for. In Linux's order: the family's number, the type's, whether there is the family, the protocol, the type.
fn kind(domain: i32, kind: u32, protocol: i32) -> Result<Kind> {
    if !(0..FAMILIES).contains(&domain) {
        return Err(EAFNOSUPPORT);
    }
    if kind & KIND_MASK >= KINDS {
        return Err(EINVAL);
    }
    if domain != i32::from(address::FAMILY) {
        return Err(EAFNOSUPPORT);
    }
    if protocol != 0 && protocol != domain {
        return Err(EPROTONOSUPPORT);
    }
    match kind & KIND_MASK {
        1 => Ok(Kind::Stream),
        2 | RAW => Ok(Kind::Datagram),
        5 => Ok(Kind::SeqPacket),
        _ => Err(ESOCKTNOSUPPORT),
    }
}

/// Gives a new socket a descriptor, or closes it.
fn install(socket: Arc<Socket>, flags: OpenFlags) -> Result<i32> {
    let file = net::open(socket, flags & OpenFlags::NONBLOCK)?;
    caller::files().install_new(file, caller::descriptor_limit(), flags.contains(OpenFlags::CLOEXEC))
}

pub fn sys_socket(domain: i32, type_: u32, protocol: i32) -> Result<usize> {
    let flags = new_flags(type_ & !KIND_MASK)?;
    let kind = kind(domain, type_, protocol)?;
    caller::files().check_room(caller::descriptor_limit())?;
    let socket = drain_and_retry(|| Socket::try_new(kind))?;
    install(socket, flags).map(|fd| fd as usize)
}

pub fn sys_socketpair(domain: i32, type_: u32, protocol: i32, to: usize) -> Result<usize> {
    let flags = new_flags(type_ & !KIND_MASK)?;
    let (files, to) = (caller::files(), UserPtr::<[i32; 2]>::new(to));
    let kind = kind(domain, type_, protocol).map_err(|error| {
        // What is wrong with descriptors or the pointer is told first.
        let room = files.check_room(caller::descriptor_limit());
        room.and_then(|()| to.write(&[-1, -1])).err().unwrap_or(error)
    })?;
    let (one, other) = drain_and_retry(|| net::pair(kind))?;
    let first = install(one, flags).inspect_err(|_| other.release())?;
    let made = install(other, flags).and_then(|second| {
        to.write(&[first, second]).inspect_err(|_| {
            let _ = files.close(second);
        })
    });
    if let Err(error) = made {
        let _ = files.close(first);
        return Err(error);
    }
    Ok(0)
}

/// The bytes of an address that a program gives.
fn read_address(address: usize, len: i32, buffer: &mut [u8; STORAGE]) -> Result<&[u8]> {
    let len = usize::try_from(len).ok().filter(|len| *len <= STORAGE).ok_or(EINVAL)?;
    let part = buffer.get_mut(..len).ok_or(EINVAL)?;
    if len > 0 {
        UserSlice::new(address, len).read(part)?;
    }
    Ok(part)
}

/// What is told of a name: the family, and the name if there is one.
fn told(name: Option<&address::Address>) -> ([u8; address::MOST + address::BEFORE], usize) {
    let mut bytes = [0; address::MOST + address::BEFORE];
    let name = name.map_or(&[][..], address::Address::bytes);
    let family = address::FAMILY.to_ne_bytes();
    bytes.iter_mut().zip(family.iter().chain(name)).for_each(|(to, from)| *to = *from);
    (bytes, family.len().saturating_add(name.len()))
}

/// Tells a program an address: as much as it has room for, and how long it is.
fn write_address(bytes: &[u8], to: usize, len: usize) -> Result {
    let len = UserPtr::<i32>::new(len);
    let room = usize::try_from(len.read()?).map_err(|_| EINVAL)?;
    let part = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
    if !part.is_empty() {
        UserSlice::new(to, part.len()).write(part)?;
    }
    len.write(&(bytes.len() as i32))
}

fn write_name(name: Option<&address::Address>, to: usize, len: usize) -> Result {
    let (bytes, n) = told(name);
    write_address(bytes.get(..n).unwrap_or(&bytes), to, len)
}

pub fn sys_bind(fd: i32, address: usize, len: i32) -> Result<usize> {
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    let mut buffer = [0; STORAGE];
    socket.bind(read_address(address, len, &mut buffer)?)?;
    Ok(0)
}

pub fn sys_listen(fd: i32, backlog: i32) -> Result<usize> {
    let file = open_file(fd)?;
    socket_of(&file)?.listen(backlog)?;
    Ok(0)
}

pub fn sys_connect(fd: i32, address: usize, len: i32) -> Result<usize> {
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    let mut buffer = [0; STORAGE];
    let given = read_address(address, len, &mut buffer)?;
    if socket.kind.is_connected() {
        let name = address::Address::parse(given)?;
        socket.connect(&name, &net::send_wait(&file, socket, false))?;
        return Ok(0);
    }
    // AF_UNSPEC ends a connection.
    let name = match address::family(given).ok_or(EINVAL)? {
        0 => None,
        _ => Some(address::Address::parse(given)?),
    };
    socket.connect_datagram(name.as_ref())?;
    Ok(0)
}

pub fn sys_accept(fd: i32, address: usize, len: usize) -> Result<usize> {
    sys_accept4(fd, address, len, 0)
}

pub fn sys_accept4(fd: i32, address: usize, len: usize, flags: u32) -> Result<usize> {
    let flags = new_flags(flags)?;
    let file = open_file(fd)?;
    let listener = socket_of(&file)?;
    let files = caller::files();
    files.check_room(caller::descriptor_limit())?;
    let end = listener.accept(&net::receive_wait(&file, listener, false))?;
    if address != 0 {
        let named = end
            .peer_counted()
            .ok_or(ECONNABORTED)
            .and_then(|peer| write_name(peer.name().as_deref(), address, len));
        if let Err(error) = named {
            end.release();
            return Err(error);
        }
    }
    install(end, flags).map(|fd| fd as usize)
}

pub fn sys_getsockname(fd: i32, address: usize, len: usize) -> Result<usize> {
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    write_name(socket.name().as_deref(), address, len)?;
    Ok(0)
}

pub fn sys_getpeername(fd: i32, address: usize, len: usize) -> Result<usize> {
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    let peer = socket.peer_counted().ok_or(ENOTCONN)?;
    write_name(peer.name().as_deref(), address, len)?;
    Ok(0)
}

pub fn sys_shutdown(fd: i32, how: i32) -> Result<usize> {
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    match how {
        0 => socket.shut_down(net::NO_RECEIVE),
        1 => socket.shut_down(net::NO_SEND),
        2 => socket.shut_down(net::NEITHER),
        _ => return Err(EINVAL),
    }
    Ok(0)
}
