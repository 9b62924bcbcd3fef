//! Sending and receiving: send, recv, and their forms with `struct msghdr`.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::vec::Vec;

use sync::TryVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{STORAGE, open_file, read_address, socket_of, told, write_address};
use crate::errno::*;
use crate::fs::caller::{self, Capability};
use crate::fs::file::File;
use crate::fs::file::buffer::{Input, Output, Segment};
use crate::memory::user::{UserPtr, UserSlice};
use crate::net::address::Address;
use crate::net::options::{PASS_CREDENTIALS, PASS_PIDFD};
use crate::net::{self, Incoming, Kind, Outgoing, Rights, Sender, Socket};
use crate::process;
use crate::process::pidfd::PidFile;
use crate::sched::give_way;
use crate::syscall::file::{TRANSFER_MAX, segments};

const OOB: u32 = 1;
const PEEK: u32 = 2;
const TRUNC: u32 = 0x20;
const CTRUNC: u32 = 8;
const DONT_WAIT: u32 = 0x40;
const WAIT_ALL: u32 = 0x100;
const NO_SIGNAL: u32 = 0x4000;
const WAIT_FOR_ONE: u32 = 0x1_0000;
const CMSG_CLOEXEC: u32 = 0x4000_0000;
/// MSG_CMSG_COMPAT, which is the kernel's own.
const COMPAT: u32 = 0x8000_0000;

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const SCM_CREDENTIALS: i32 = 2;
const SCM_PIDFD: i32 = 4;

/// Most segments of a message, and messages of a call.
const SEGMENTS_MAX: usize = 1024;
const MESSAGES_MAX: u32 = 1024;
/// Most bytes of control messages that one call sends (net.core.optmem_max).
const CONTROL_MAX: usize = 128 << 10;

/// `struct msghdr`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    name: usize,
    name_len: i32,
    _pad: u32,
    segments: usize,
    count: usize,
    control: usize,
    control_len: usize,
    flags: u32,
    _end: u32,
}

const NAME_LEN_AT: usize = 8;
const CONTROL_LEN_AT: usize = 40;
const FLAGS_AT: usize = 48;
/// `struct mmsghdr`: a header and a length.
const MANY_SIZE: usize = 64;
const MANY_LEN_AT: usize = 56;

/// `struct cmsghdr`: its length in bytes, level, type.
const CONTROL_HEADER: usize = 16;

impl Header {
    fn read(at: usize) -> Result<Header> {
        let header = UserPtr::<Header>::new(at).read()?;
        if header.name != 0 && header.name_len < 0 {
            return Err(EINVAL);
        }
        Ok(header)
    }

    fn segments(&self) -> Result<Vec<Segment>> {
        if self.count > SEGMENTS_MAX { Err(EMSGSIZE) } else { segments(self.segments, self.count) }
    }
}

/// Whom a send is to, if it says so: an address that is no good is told of by the socket.
fn name_of<'a>(socket: &Socket, given: &'a [u8]) -> Result<Option<&'a [u8]>> {
    if given.is_empty() || socket.kind == Kind::SeqPacket {
        return Ok(None);
    }
    if socket.kind == Kind::Stream {
        return Err(if socket.phase() == net::Phase::Connected { EISCONN } else { EOPNOTSUPP });
    }
    Ok(Some(given))
}

fn send(
    file: &File,
    socket: &alloc::sync::Arc<Socket>,
    given: &[u8],
    from: &mut Input<'_>,
    mut with: Outgoing,
    flags: u32,
) -> Result<usize> {
    if flags & OOB != 0 {
        return Err(EOPNOTSUPP);
    }
    with.no_signal = flags & NO_SIGNAL != 0;
    let name = name_of(socket, given)?.map(Address::parse).transpose()?;
    let wait = net::send_wait(file, socket, flags & DONT_WAIT != 0);
    match socket.kind {
        Kind::Stream => socket.send_stream(from, with, &wait),
        _ => socket.send_message_to(name.as_ref(), from, with, &wait),
    }
}

pub fn sys_sendto(fd: i32, buffer: usize, len: usize, flags: u32, to: usize, to_len: i32) -> Result<usize> {
    let len = len.min(TRANSFER_MAX);
    UserSlice::new(buffer, len).check()?;
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    let mut name = [0; STORAGE];
    let given = if to == 0 { &[][..] } else { read_address(to, to_len, &mut name)? };
    let segment = [Segment { addr: buffer, len }];
    send(&file, socket, given, &mut Input::user(&segment), Outgoing::default(), flags)
}

pub fn sys_sendmsg(fd: i32, message: usize, flags: u32) -> Result<usize> {
    if flags & COMPAT != 0 {
        return Err(EINVAL);
    }
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    send_one(&file, socket, message, flags)
}

fn send_one(file: &File, socket: &alloc::sync::Arc<Socket>, message: usize, flags: u32) -> Result<usize> {
    let header = Header::read(message)?;
    let mut name = [0; STORAGE];
    let len = header.name_len.min(STORAGE as i32);
    let given = if header.name == 0 { &[][..] } else { read_address(header.name, len, &mut name)? };
    let segments = header.segments()?;
    let with = outgoing(&header)?;
    send(file, socket, given, &mut Input::user(&segments), with, flags)
}

/// What the control messages of a send say.
fn outgoing(header: &Header) -> Result<Outgoing> {
    let mut with = Outgoing::default();
    if header.control_len > i32::MAX as usize {
        return Err(ENOBUFS);
    }
    if header.control_len == 0 {
        return Ok(with);
    }
    if header.control_len > CONTROL_MAX {
        return Err(ENOBUFS);
    }
    let mut control: Vec<u8> = Vec::new();
    control.try_resize(header.control_len, 0)?;
    UserSlice::new(header.control, control.len()).read(&mut control)?;
    let mut rest = &control[..];
    while let Some((head, _)) = rest.split_at_checked(CONTROL_HEADER) {
        let (len, level, kind) = control_header(head);
        let data = rest.get(CONTROL_HEADER..len).ok_or(EINVAL)?;
        if level == SOL_SOCKET {
            match kind {
                SCM_RIGHTS => add_rights(&mut with.rights, data)?,
                SCM_CREDENTIALS => with.sender = Some(credentials(data)?),
                _ => return Err(EINVAL),
            }
        }
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
    }
    Ok(with)
}

fn control_header(head: &[u8]) -> (usize, i32, i32) {
    let word = |at: usize| {
        head.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |b| i32::from_ne_bytes(*b))
    };
    let len = head.first_chunk::<8>().map_or(0, |bytes| usize::from_ne_bytes(*bytes));
    (len, word(8), word(12))
}

/// SCM_RIGHTS: descriptors.
fn add_rights(rights: &mut Option<Box<Rights>>, data: &[u8]) -> Result {
    let (numbers, _) = data.as_chunks::<4>();
    if numbers.is_empty() {
        return Ok(());
    }
    if numbers.len() > net::rights::MOST {
        return Err(EINVAL);
    }
    let files = caller::files();
    if rights.is_none() {
        *rights = Some(Rights::try_new()?);
    }
    let Some(rights) = rights else { return Err(ENOMEM) };
    for number in numbers {
        rights.add(files.get(i32::from_ne_bytes(*number))?)?;
    }
    Ok(())
}

/// SCM_CREDENTIALS: a process and ids that the caller may say it is.
fn credentials(data: &[u8]) -> Result<Sender> {
    let (words, rest) = data.as_chunks::<4>();
    let &[pid, uid, gid] = words else { return Err(EINVAL) };
    if !rest.is_empty() {
        return Err(EINVAL);
    }
    let (pid, uid, gid) = (u32::from_ne_bytes(pid), u32::from_ne_bytes(uid), u32::from_ne_bytes(gid));
    let thread = caller::current();
    let ids = thread.ids();
    let own_user = [ids.uid, ids.euid, ids.suid].contains(&uid) || caller::capable(Capability::SETUID);
    let own_group = [ids.gid, ids.egid, ids.sgid].contains(&gid) || caller::capable(Capability::SETGID);
    let own_process = pid == caller::pid() || caller::capable(Capability::SYS_ADMIN);
    if uid == u32::MAX || gid == u32::MAX {
        return Err(EINVAL);
    }
    if !(own_user && own_group && own_process) {
        return Err(EPERM);
    }
    if pid != caller::pid() && process::find_process(pid).is_none() {
        return Err(ESRCH);
    }
    Ok(Sender { pid, uid, gid })
}

pub fn sys_sendmmsg(fd: i32, messages: usize, count: u32, flags: u32) -> Result<usize> {
    if flags & COMPAT != 0 {
        return Err(EINVAL);
    }
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    let mut done = 0usize;
    for n in 0..count.min(MESSAGES_MAX) as usize {
        let at = messages.wrapping_add(n.wrapping_mul(MANY_SIZE));
        let sent = send_one(&file, socket, at, flags)
            .and_then(|len| UserPtr::<u32>::new(at.wrapping_add(MANY_LEN_AT)).write(&(len as u32)));
        match sent {
            Ok(()) => done = done.saturating_add(1),
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
        if give_way() {
            break;
        }
    }
    Ok(done)
}

/// Receives into `out`: what the call returns, and what comes with it.
fn receive(
    file: &File,
    socket: &Socket,
    out: &mut Output<'_>,
    flags: u32,
    tells: bool,
) -> Result<(usize, Incoming)> {
    if flags & OOB != 0 {
        return Err(EOPNOTSUPP);
    }
    let wait = net::receive_wait(file, socket, flags & DONT_WAIT != 0);
    let peek = flags & PEEK != 0;
    if socket.kind == Kind::Stream {
        let tells = tells && socket.options.has(PASS_CREDENTIALS | PASS_PIDFD);
        let (n, mut got) = socket.receive_stream(out, (peek, flags & WAIT_ALL != 0), &wait, tells)?;
        if n > 0 {
            got.from = socket.peer_counted().and_then(|peer| peer.name());
        }
        return Ok((n, got));
    }
    let (received, got) = socket.receive_message(out, peek, &wait)?;
    Ok((if flags & TRUNC != 0 { received.len } else { received.copied }, got))
}

fn close_rights(got: &mut Incoming) {
    if let Some(rights) = got.rights.take() {
        net::rights::drop_rights(rights);
    }
}

/// The name that is told of a message: nothing if its sender has none.
fn sender_name(got: &Incoming) -> ([u8; crate::net::address::MOST + crate::net::address::BEFORE], usize) {
    match &got.from {
        Some(name) => told(Some(name)),
        None => ([0; _], 0),
    }
}

pub fn sys_recvfrom(
    fd: i32,
    buffer: usize,
    len: usize,
    flags: u32,
    from: usize,
    from_len: usize,
) -> Result<usize> {
    let len = len.min(TRANSFER_MAX);
    UserSlice::new(buffer, len).check()?;
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    let segment = [Segment { addr: buffer, len }];
    let (n, mut got) = receive(&file, socket, &mut Output::user(&segment), flags, false)?;
    close_rights(&mut got);
    if from != 0 {
        let (name, name_len) = sender_name(&got);
        write_address(name.get(..name_len).unwrap_or(&[]), from, from_len)?;
    }
    Ok(n)
}

pub fn sys_recvmsg(fd: i32, message: usize, flags: u32) -> Result<usize> {
    if flags & COMPAT != 0 {
        return Err(EINVAL);
    }
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    receive_one(&file, socket, message, flags)
}

fn receive_one(file: &File, socket: &Socket, message: usize, flags: u32) -> Result<usize> {
    let header = Header::read(message)?;
    let segments = header.segments()?;
    let (n, mut got) = receive(file, socket, &mut Output::user(&segments), flags, true)?;
    let mut control = Control { at: header.control, left: header.control_len, flags: flags & CMSG_CLOEXEC };
    if got.truncated {
        control.flags |= TRUNC;
    }
    let controlled = control.tell(socket, &mut got, flags & CMSG_CLOEXEC != 0);
    close_rights(&mut got);
    controlled?;
    if header.name != 0 {
        let (name, len) = sender_name(&got);
        let at = message.wrapping_add(NAME_LEN_AT);
        write_address(name.get(..len).unwrap_or(&[]), header.name, at)?;
    }
    UserPtr::<u32>::new(message.wrapping_add(FLAGS_AT)).write(&control.flags)?;
    let used = control.at.wrapping_sub(header.control);
    UserPtr::<usize>::new(message.wrapping_add(CONTROL_LEN_AT)).write(&used)?;
    Ok(n)
}

/// Where control messages of a receive go.
struct Control {
    at: usize,
    left: usize,
    flags: u32,
}

impl Control {
    /// Puts what came with a message.
    fn tell(&mut self, socket: &Socket, got: &mut Incoming, close_on_exec: bool) -> Result {
        let (credentials, pidfd) = (socket.options.has(PASS_CREDENTIALS), socket.options.has(PASS_PIDFD));
        if self.at == 0 {
            if credentials || pidfd || got.rights.is_some() {
                self.flags |= CTRUNC;
            }
            return Ok(());
        }
        let sender = got.sender.unwrap_or(Sender::NOBODY);
        if credentials {
            let mut data = [0; 12];
            let words = [sender.pid, sender.uid, sender.gid].map(u32::to_ne_bytes);
            data.iter_mut().zip(words.iter().flatten()).for_each(|(to, from)| *to = *from);
            self.put(SCM_CREDENTIALS, &data);
        }
        if let Some(rights) = &mut got.rights {
            self.put_rights(rights, close_on_exec);
        }
        if pidfd {
            self.put_pidfd(sender.pid);
        }
        Ok(())
    }

    /// As much as there is room for. A fault leaves the message out, as on Linux.
    fn put(&mut self, kind: i32, data: &[u8]) {
        if self.left < CONTROL_HEADER {
            self.flags |= CTRUNC;
            return;
        }
        let mut len = CONTROL_HEADER.saturating_add(data.len());
        let space = len.next_multiple_of(8);
        if self.left < len {
            self.flags |= CTRUNC;
            len = self.left;
        }
        let part = data.get(..len.saturating_sub(CONTROL_HEADER)).unwrap_or(data);
        let put = self.put_header(kind, len);
        if put
            .and_then(|()| UserSlice::new(self.at.wrapping_add(CONTROL_HEADER), part.len()).write(part))
            .is_ok()
        {
            self.advance(space);
        }
    }

    fn put_header(&self, kind: i32, len: usize) -> Result {
        UserPtr::<usize>::new(self.at).write(&len)?;
        UserPtr::<[i32; 2]>::new(self.at.wrapping_add(8)).write(&[SOL_SOCKET, kind])
    }

    fn advance(&mut self, space: usize) {
        let space = space.min(self.left);
        self.at = self.at.wrapping_add(space);
        self.left = self.left.saturating_sub(space);
    }

    /// New descriptors for the files, as many as there is room for here and in the table.
    fn put_rights(&mut self, rights: &mut Rights, close_on_exec: bool) {
        let room = self.left.saturating_sub(CONTROL_HEADER) / 4;
        let all = rights.files().len();
        let (files, limit) = (caller::files(), caller::descriptor_limit());
        let mut at = self.at.wrapping_add(CONTROL_HEADER);
        let done = rights.hand_out(room, |file| {
            let Ok(fd) = files.install_open(file, limit, close_on_exec) else { return false };
            if UserPtr::<i32>::new(at).write(&fd).is_err() {
                let _ = files.close(fd);
                return false;
            }
            at = at.wrapping_add(4);
            true
        });
        if done > 0 {
            let len = CONTROL_HEADER.saturating_add(done.saturating_mul(4));
            if self.put_header(SCM_RIGHTS, len).is_ok() {
                self.advance(len.next_multiple_of(8));
            }
        }
        if done < all {
            self.flags |= CTRUNC;
        }
    }

    /// SCM_PIDFD: a descriptor of the sender, or the error for which there is none.
    fn put_pidfd(&mut self, pid: u32) {
        const LEN: usize = CONTROL_HEADER + 4;
        if self.left < LEN {
            self.flags |= CTRUNC;
            return;
        }
        let files = caller::files();
        let limit = caller::descriptor_limit();
        let process = process::find_process(pid).ok_or(EINVAL);
        let made = process
            .and_then(|process| PidFile::try_new(&process, crate::fs::file::OpenFlags::empty()))
            .and_then(|file| files.install_new(file, limit, true));
        let told = made.as_ref().map_or_else(|error| error.0.wrapping_neg(), |fd| *fd);
        let before = self.at;
        self.put(SCM_PIDFD, &told.to_ne_bytes());
        if let Ok(fd) = made
            && self.at == before
        {
            let _ = files.close(fd);
        }
    }
}

pub fn sys_recvmmsg(fd: i32, messages: usize, count: u32, flags: u32, timeout: usize) -> Result<usize> {
    if flags & COMPAT != 0 {
        return Err(EINVAL);
    }
    let limit = UserPtr::<[i64; 2]>::new(timeout);
    let deadline = match limit.non_null().map(UserPtr::read).transpose()? {
        None => None,
        Some([seconds, nanoseconds]) => {
            if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
                return Err(EINVAL);
            }
            let length = (seconds as u64).saturating_mul(1_000_000_000).saturating_add(nanoseconds as u64);
            Some(crate::arch::time::now().saturating_add(length))
        }
    };
    let file = open_file(fd)?;
    let socket = socket_of(&file)?;
    socket.take_error()?;
    let (mut done, mut flags, mut failed) = (0usize, flags, None);
    while done < count as usize {
        let at = messages.wrapping_add(done.wrapping_mul(MANY_SIZE));
        let received = receive_one(&file, socket, at, flags & !WAIT_FOR_ONE)
            .and_then(|len| UserPtr::<u32>::new(at.wrapping_add(MANY_LEN_AT)).write(&(len as u32)));
        if let Err(error) = received {
            failed = Some(error);
            break;
        }
        done = done.saturating_add(1);
        if flags & WAIT_FOR_ONE != 0 {
            flags |= DONT_WAIT;
        }
        if deadline.is_some_and(|at| crate::arch::time::now() >= at) || give_way() {
            break;
        }
    }
    if let Some(deadline) = deadline {
        let left = deadline.saturating_sub(crate::arch::time::now());
        limit.write(&[(left / 1_000_000_000) as i64, (left % 1_000_000_000) as i64])?;
    }
    match failed {
        Some(error) if done == 0 => Err(error),
        Some(error) => {
            if error != EAGAIN {
                socket.tell_later(error);
            }
            Ok(done)
        }
        None => Ok(done),
    }
}
