//! Calls on descriptors of processes.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::fs::anon::namespace::{Kept, NamespaceFile};
use crate::fs::{File, OpenFlags};
use crate::memory::user::UserPtr;
use crate::process::access::{self, By};
use crate::process::pidfd::PidFile;
use crate::process::signal::{self, Info, send};
use crate::process::{self, Capability, ids, session};
use crate::procfs;
use crate::syscall::file::{file, install};
use crate::syscall::signal::checked_info;
use linux_raw_sys::general as abi;

/// PIDFD_THREAD.
const PIDFD_THREAD: OpenFlags = OpenFlags::EXCLUSIVE;

/// pidfd_open(2).
#[expect(clippy::arithmetic_side_effects, reason = "flags without some of them")]
pub fn sys_pidfd_open(pid: i32, flags: u32) -> Result<usize> {
    let flags = OpenFlags::from_bits_retain(flags);
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(Errno::EINVAL)?;
    if !(OpenFlags::NONBLOCK | PIDFD_THREAD).contains(flags) {
        return Err(Errno::EINVAL);
    }
    // A number that only a thread, a group or a session has is no process's.
    let is_other = || {
        process::find_thread(pid).is_some() || ids::find_group(pid).is_some() || session::find(pid).is_some()
    };
    let none = || if is_other() { Errno::EINVAL } else { Errno::ESRCH };
    if flags.contains(PIDFD_THREAD) {
        let kept = flags - PIDFD_THREAD;
        let Some(thread) = process::find_thread(pid) else {
            // The first of a process that has exited is there until the process is waited for.
            let process = process::find_process(pid).ok_or_else(none)?;
            return install(|| PidFile::try_of_first(&process, kept), true);
        };
        return install(|| PidFile::try_of_thread(&thread, kept), true);
    }
    let process = process::find_process(pid).ok_or_else(none)?;
    install(|| PidFile::try_new(&process, flags), true)
}

/// The process descriptor that `file` is.
///
/// # Errors
/// EBADF: it is none.
pub(in crate::syscall) fn of(file: &File) -> Result<&PidFile> {
    file.downcast::<PidFile>().ok_or(Errno::EBADF)
}

/// pidfd_send_signal(2).
pub fn sys_pidfd_send_signal(fd: i32, signal: u32, info: usize, flags: u32) -> Result<usize> {
    const THREAD: u32 = 1;
    const THREAD_GROUP: u32 = 2;
    const PROCESS_GROUP: u32 = 4;
    if !matches!(flags, 0 | THREAD | THREAD_GROUP | PROCESS_GROUP) {
        return Err(Errno::EINVAL);
    }
    let file = file(fd)?;
    // The directory of a process in /proc is as good, as it was before there were these descriptors.
    let made;
    let descriptor = match of(&file) {
        Ok(descriptor) => descriptor,
        Err(error) if file.flags().contains(OpenFlags::PATH) => return Err(error),
        Err(_) => {
            made = PidFile::try_new(&procfs::process_of(file.inode())?, OpenFlags::empty())?;
            made.set_undescribed();
            of(&made)?
        }
    };
    let one = flags == THREAD || flags == 0 && descriptor.is_of_thread();
    let to_group = flags == PROCESS_GROUP;
    let info = if info == 0 {
        Info::user(signal, if one { abi::SI_TKILL } else { abi::SI_USER as i32 })
    } else {
        let bytes = UserPtr::<[u8; 128]>::new(info).read()?;
        let [a, b, c, d, ..] = bytes;
        if u32::from_ne_bytes([a, b, c, d]) != signal {
            return Err(Errno::EINVAL);
        }
        // To a group nobody is alone.
        checked_info(&bytes, signal, if to_group { 0 } else { descriptor.pid() as i32 })?
    };
    if to_group {
        if !descriptor.has_group() {
            return Err(Errno::ESRCH);
        }
        if signal > signal::COUNT {
            return if ids::find_group(descriptor.pid()).is_some() {
                Err(Errno::EINVAL)
            } else {
                Err(Errno::ESRCH)
            };
        }
        return send::kill_group(descriptor.pid(), signal, info).map(|()| 0);
    }
    let target = descriptor.process_of_any().ok_or(Errno::ESRCH)?;
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
    } else if let Some(thread) = descriptor.thread() {
        send::queue_resting(&target, Some(&thread), info, must_queue)?;
    }
    Ok(0)
}

/// process_mrelease(2).
pub fn sys_process_mrelease(fd: i32, flags: u32) -> Result<usize> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let file = file(fd)?;
    let target = of(&file)?.process().ok_or(Errno::ESRCH)?;
    process::release_memory(&target).map(|()| 0)
}

/// setns(2), by a process descriptor or a file of /proc/PID/ns: there are mount namespaces, and no other kind, as on a Linux without. Whoever comes into one stands at its
/// root.
pub fn sys_setns(fd: i32, spaces: u32) -> Result<usize> {
    let file = file(fd)?;
    if let Some(kept) = NamespaceFile::of(&file) {
        return if matches!(spaces, 0 | abi::CLONE_NEWNS) { enter(kept) } else { Err(Errno::EINVAL) };
    }
    let descriptor = of(&file).map_err(|_| Errno::EINVAL)?;
    if spaces != abi::CLONE_NEWNS {
        return Err(Errno::EINVAL);
    }
    let target = descriptor.process_of_any().ok_or(Errno::ESRCH)?;
    let thread = process::current();
    if !access::may_inspect(&thread, &target, By::RealIds) {
        return Err(Errno::EPERM);
    }
    if target.is_zombie() {
        return Err(Errno::ESRCH);
    }
    let kept = descriptor.thread().and_then(|thread| thread.look_at_fs(Kept::of)).ok_or(Errno::ESRCH)?;
    enter(&kept)
}

fn enter(kept: &Kept) -> Result<usize> {
    let thread = process::current();
    if !thread.capable(Capability::SYS_ADMIN | Capability::SYS_CHROOT) {
        return Err(Errno::EPERM);
    }
    if thread.has_fs_in_common() {
        return Err(Errno::EINVAL);
    }
    thread.replace_fs(kept.enter(thread.fs())?);
    Ok(0)
}

/// pidfd_getfd(2): a descriptor for a file that another process has open.
pub fn sys_pidfd_getfd(fd: i32, number: i32, flags: u32) -> Result<usize> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let file = file(fd)?;
    let descriptor = of(&file)?;
    let target = descriptor.process_of_any().ok_or(Errno::ESRCH)?;
    if !access::may_inspect(&process::current(), &target, By::RealIds) {
        return Err(Errno::EPERM);
    }
    let found = descriptor.thread().and_then(|thread| thread.with_files(|files| files.get(number)));
    // One that has exited has none.
    let found = found.ok_or(Errno::ESRCH)??;
    install(|| Ok(found), true)
}
