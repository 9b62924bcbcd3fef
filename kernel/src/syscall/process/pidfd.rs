//! Calls on descriptors of processes.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::fs::{File, OpenFlags};
use crate::memory::user::UserPtr;
use crate::process::access::{self, By};
use crate::process::pidfd::PidFile;
use crate::process::signal::{self, Info, send};
use crate::process::{self, Process, Thread, ids, session};
use crate::syscall::file::{file, install};
use crate::syscall::signal::checked_info;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// pidfd_open(2). PIDFD_THREAD is refused: there are no descriptors of threads.
pub fn sys_pidfd_open(pid: i32, flags: u32) -> Result<usize> {
    let flags = OpenFlags::from_bits_retain(flags);
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(Errno::EINVAL)?;
    if !OpenFlags::NONBLOCK.contains(flags) {
        return Err(Errno::EINVAL);
    }
    // A number that only a thread, a group or a session has is no process's.
    let is_other = || {
        process::find_thread(pid).is_some() || ids::find_group(pid).is_some() || session::find(pid).is_some()
    };
    let none = || if is_other() { Errno::EINVAL } else { Errno::ESRCH };
    let process = process::find_process(pid).ok_or_else(none)?;
    install(|| PidFile::try_new(&process, flags), true)
}

/// The process descriptor that `file` is.
///
/// # Errors
/// EBADF: it is none.
pub(super) fn of(file: &File) -> Result<&PidFile> {
    file.downcast::<PidFile>().ok_or(Errno::EBADF)
}

/// The thread with the number of the process, unless it has exited before the others.
fn leader_of(process: &Process) -> Option<Arc<Thread>> {
    process.leader().filter(|thread| thread.tid() == process.pid())
}

/// pidfd_send_signal(2).
pub fn sys_pidfd_send_signal(fd: i32, signal: u32, info: usize, flags: u32) -> Result<usize> {
    const THREAD: u32 = 1;
    const THREAD_GROUP: u32 = 2;
    // To a group (4) is missing.
    if !matches!(flags, 0 | THREAD | THREAD_GROUP) {
        return Err(Errno::EINVAL);
    }
    let file = file(fd)?;
    let descriptor = of(&file)?;
    let one = flags == THREAD;
    let info = if info == 0 {
        Info::user(signal, if one { abi::SI_TKILL } else { abi::SI_USER as i32 })
    } else {
        let bytes = UserPtr::<[u8; 128]>::new(info).read()?;
        let [a, b, c, d, ..] = bytes;
        if u32::from_ne_bytes([a, b, c, d]) != signal {
            return Err(Errno::EINVAL);
        }
        checked_info(&bytes, signal, descriptor.pid() as i32)?
    };
    let target = descriptor.process().ok_or(Errno::ESRCH)?;
    if signal > signal::COUNT {
        return Err(Errno::EINVAL);
    }
    if !send::permitted(&target, signal) {
        return Err(Errno::EPERM);
    }
    if signal == 0 {
        return Ok(0);
    }
    // Only what says more than kill(2) has to be queued.
    let must_queue = info.code != abi::SI_USER as i32;
    if !one {
        send::queue_resting(&target, None, info, must_queue)?;
    } else if let Some(leader) = leader_of(&target) {
        send::queue_resting(&target, Some(&leader), info, must_queue)?;
    }
    Ok(0)
}

/// pidfd_getfd(2): a descriptor for a file that another process has open.
pub fn sys_pidfd_getfd(fd: i32, number: i32, flags: u32) -> Result<usize> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let file = file(fd)?;
    let target = of(&file)?.process().ok_or(Errno::ESRCH)?;
    if !access::may_inspect(&process::current(), &target, By::RealIds) {
        return Err(Errno::EPERM);
    }
    let found = leader_of(&target).and_then(|thread| thread.with_files(|files| files.get(number)));
    // One that has exited has none.
    let found = found.ok_or(Errno::ESRCH)??;
    install(|| Ok(found), true)
}
