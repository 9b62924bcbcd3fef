//! Files that no path leads to: pipe, eventfd, memfd_create, epoll_create.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use crate::errno::*;
use crate::fs::anon::{epoll, eventfd, memfd, pipe};
use crate::fs::caller;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::seals;
use crate::memory::user::{UserPtr, UserStr};
use crate::process::drain_and_retry;

/// Makes a file and gives it a descriptor, if there is one.
pub(in crate::syscall) fn install(
    make: impl FnOnce() -> Result<Arc<File>>,
    close_on_exec: bool,
) -> Result<usize> {
    let (files, limit) = (caller::files(), caller::descriptor_limit());
    files.check_room(limit)?;
    Ok(files.install(make()?, 0, limit, close_on_exec)? as usize)
}

pub fn sys_pipe(address: usize) -> Result<usize> {
    sys_pipe2(address, 0)
}

pub fn sys_pipe2(address: usize, flags: u32) -> Result<usize> {
    let flags = OpenFlags::from_bits_retain(flags);
    // O_NOTIFICATION_PIPE is refused.
    if !(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK | OpenFlags::DIRECT).contains(flags) {
        return Err(EINVAL);
    }
    let kept = flags & (OpenFlags::NONBLOCK | OpenFlags::DIRECT);
    let (reader, writer) = drain_and_retry(|| pipe::pair(kept))?;
    let files = caller::files();
    let limit = caller::descriptor_limit();
    let close_on_exec = flags.contains(OpenFlags::CLOEXEC);
    let first = files.install(reader, 0, limit, close_on_exec)?;
    let done = files.install(writer, 0, limit, close_on_exec).and_then(|second| {
        UserPtr::<[i32; 2]>::new(address).write(&[first, second]).inspect_err(|_| {
            let _ = files.close(second);
        })
    });
    if let Err(e) = done {
        let _ = files.close(first);
        return Err(e);
    }
    Ok(0)
}

pub fn sys_eventfd(count: u32) -> Result<usize> {
    sys_eventfd2(count, 0)
}

pub fn sys_eventfd2(count: u32, flags: u32) -> Result<usize> {
    let semaphore = flags & 1 != 0;
    let flags = OpenFlags::from_bits_retain(flags & !1);
    if !(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK).contains(flags) {
        return Err(EINVAL);
    }
    let make = || eventfd::try_new(u64::from(count), semaphore, flags & OpenFlags::NONBLOCK);
    install(make, flags.contains(OpenFlags::CLOEXEC))
}

pub fn sys_memfd_create(name: usize, flags: u32) -> Result<usize> {
    const CLOEXEC: u32 = 1;
    const ALLOW_SEALING: u32 = 2;
    const HUGETLB: u32 = 4;
    const NOEXEC_SEAL: u32 = 8;
    const EXEC: u32 = 16;
    const HUGE_SIZES: u32 = 0x3f << 26;
    let sizes = if flags & HUGETLB != 0 { HUGE_SIZES } else { 0 };
    if flags & !(CLOEXEC | ALLOW_SEALING | HUGETLB | NOEXEC_SEAL | EXEC | sizes) != 0
        || flags & (NOEXEC_SEAL | EXEC) == NOEXEC_SEAL | EXEC
    {
        return Err(EINVAL);
    }
    // 249 bytes and the NUL, as the name gets a prefix on Linux.
    let mut buffer = [0; 250];
    let name = UserStr::new(name).read_or(&mut buffer, EINVAL)?;
    if flags & HUGETLB != 0 {
        // As Linux without hugetlbfs.
        return Err(ENOSYS);
    }
    let (mode, seals) = match flags & (ALLOW_SEALING | NOEXEC_SEAL) {
        0 => (0o777, seals::SEAL),
        ALLOW_SEALING => (0o777, 0),
        _ => (0o666, seals::EXEC),
    };
    install(|| memfd::try_new(name, mode, seals), flags & CLOEXEC != 0)
}

pub fn sys_epoll_create(size: i32) -> Result<usize> {
    if size <= 0 { Err(EINVAL) } else { sys_epoll_create1(0) }
}

pub fn sys_epoll_create1(flags: u32) -> Result<usize> {
    let flags = OpenFlags::from_bits_retain(flags);
    if !OpenFlags::CLOEXEC.contains(flags) {
        return Err(EINVAL);
    }
    install(|| epoll::try_new(OpenFlags::empty()), flags.contains(OpenFlags::CLOEXEC))
}
