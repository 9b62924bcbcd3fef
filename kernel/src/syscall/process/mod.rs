//! fork, exec, exit, wait, ids, groups, sessions.
#![forbid(unsafe_code)]

mod kcmp;
pub(super) mod pidfd;
pub(super) mod prctl;
mod ptrace;
mod seccomp;

pub use kcmp::sys_kcmp;
pub use pidfd::{sys_pidfd_getfd, sys_pidfd_open, sys_pidfd_send_signal, sys_process_mrelease, sys_setns};
pub use ptrace::sys_ptrace;
pub use seccomp::sys_seccomp;

use crate::arch::UserRegs;
use crate::errno::{Errno, Result};
use crate::fs::Executable;
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::access::{self, By};
use crate::process::ptrace::exits as ptrace_exits;
use crate::process::wait::{self, Event, Target, UsageSum, WaitOptions};
use crate::process::{self, Capability, CloneRequest, exec, ids, session};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::path::PathText;
use super::time::Timeval;

/// fork(2).
pub fn sys_fork(regs: &mut UserRegs) -> Result<usize> {
    let request = CloneRequest { exit_signal: abi::SIGCHLD, ..Default::default() };
    process::clone(&request, regs).map(|pid| pid as usize)
}

/// vfork(2).
pub fn sys_vfork(regs: &mut UserRegs) -> Result<usize> {
    let flags = u64::from(abi::CLONE_VFORK | abi::CLONE_VM);
    let request = CloneRequest { flags, exit_signal: abi::SIGCHLD, ..Default::default() };
    process::clone(&request, regs).map(|pid| pid as usize)
}

/// clone(2), in the order of arguments of x86-64.
pub fn sys_clone(regs: &mut UserRegs) -> Result<usize> {
    let [flags, sp, parent_tid, child_tid, tls, _] = regs.args();
    let request = CloneRequest {
        flags: flags as u64 & u64::from(u32::MAX) & !u64::from(abi::CSIGNAL),
        sp,
        parent_tid,
        child_tid,
        tls,
        exit_signal: flags as u32 & abi::CSIGNAL,
        pidfd: parent_tid,
    };
    process::clone(&request, regs).map(|pid| pid as usize)
}

/// clone3(2), the first version of its argument.
#[expect(clippy::arithmetic_side_effects, reason = "size is at least FIRST")]
pub fn sys_clone3(regs: &mut UserRegs) -> Result<usize> {
    let [address, size, ..] = regs.args();
    const FIRST: usize = 64;
    if size < FIRST {
        return Err(Errno::EINVAL);
    }
    if size > 4096 {
        return Err(Errno::E2BIG);
    }
    let words = UserPtr::<[u64; 8]>::new(address).read()?;
    // What a newer structure holds beyond the first version must be zero.
    let mut at = FIRST;
    while at < size {
        let mut part = [0u8; 64];
        let part = part.get_mut(..(size - at).min(64)).ok_or(Errno::E2BIG)?;
        UserSlice::new(address.checked_add(at).ok_or(Errno::EFAULT)?, part.len()).read(part)?;
        if part.iter().any(|b| *b != 0) {
            return Err(Errno::E2BIG);
        }
        at += part.len();
    }
    let [flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls] = words;
    if flags & u64::from(abi::CSIGNAL | abi::CLONE_DETACHED) != 0
        || flags >> 33 != 0
        || exit_signal > 64
        || (stack == 0) != (stack_size == 0)
        || (flags & u64::from(abi::CLONE_THREAD | abi::CLONE_PARENT) != 0 && exit_signal != 0)
    {
        return Err(Errno::EINVAL);
    }
    let request = CloneRequest {
        flags,
        sp: stack.checked_add(stack_size).ok_or(Errno::EINVAL)? as usize,
        parent_tid: parent_tid as usize,
        child_tid: child_tid as usize,
        tls: tls as usize,
        exit_signal: exit_signal as u32,
        pidfd: pidfd as usize,
    };
    process::clone(&request, regs).map(|pid| pid as usize)
}

/// execve(2).
pub fn sys_execve(regs: &mut UserRegs) -> Result<usize> {
    let [path, argv, envp, ..] = regs.args();
    execute(regs, path, argv, envp, |path| Ok(Executable::named(path)))
}

/// execveat(2).
pub fn sys_execveat(regs: &mut UserRegs) -> Result<usize> {
    let [dir, path, argv, envp, flags, _] = regs.args();
    let (dir, flags) = (dir as i32, flags as u32);
    execute(regs, path, argv, envp, |path| {
        if flags & !(abi::AT_EMPTY_PATH | abi::AT_SYMLINK_NOFOLLOW) != 0 {
            return Err(Errno::EINVAL);
        }
        if path.is_empty() && flags & abi::AT_EMPTY_PATH != 0 && dir != abi::AT_FDCWD {
            return Ok(Executable::Open(dir));
        }
        // The working directory by an empty path is ".", which is no program.
        let path: &[u8] = if path.is_empty() && flags & abi::AT_EMPTY_PATH != 0 { b"." } else { path };
        let dir = (dir != abi::AT_FDCWD).then_some(dir);
        Ok(Executable::At { dir, path, follow: flags & abi::AT_SYMLINK_NOFOLLOW == 0 })
    })
}

fn execute(
    regs: &mut UserRegs,
    path: usize,
    argv: usize,
    envp: usize,
    meaning: impl FnOnce(&[u8]) -> Result<Executable<'_>>,
) -> Result<usize> {
    let path = PathText::read(path)?;
    let what = meaning(path.bytes())?;
    let (argv, envp) = exec::copy_strings(argv, envp)?;
    exec::exec(regs, what, argv, &envp).map(|()| 0)
}

/// exit(2): this thread alone.
pub fn sys_exit(regs: &mut UserRegs) -> Result<usize> {
    let status = exit_status(regs);
    ptrace_exits(regs, status);
    process::exit_thread(status)
}

/// exit_group(2).
pub fn sys_exit_group(regs: &mut UserRegs) -> Result<usize> {
    let status = process::begin_exit_group(exit_status(regs));
    ptrace_exits(regs, status);
    process::exit_group(status)
}

fn exit_status(regs: &UserRegs) -> i32 {
    let [code, ..] = regs.args();
    (code as i32 & 0xff) << 8
}

/// struct rusage.
#[derive(Clone, Copy, IntoBytes, Immutable, KnownLayout, FromBytes)]
#[repr(C)]
pub struct Rusage {
    user: Timeval,
    system: Timeval,
    max_rss: i64,
    unused_shared: [i64; 3],
    minor_faults: i64,
    major_faults: i64,
    unused_io: [i64; 6],
    voluntary: i64,
    involuntary: i64,
}

impl Rusage {
    #[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
    pub fn new(usage: &UsageSum) -> Self {
        Self {
            user: Timeval::from_ns(usage.user_ns),
            system: Timeval::from_ns(usage.system_ns),
            // In kilobytes.
            max_rss: (usage.max_rss * 4) as i64,
            unused_shared: [0; 3],
            minor_faults: usage.minor_faults as i64,
            major_faults: usage.major_faults as i64,
            unused_io: [0; 6],
            voluntary: usage.voluntary as i64,
            involuntary: usage.involuntary as i64,
        }
    }
}

/// wait4(2).
pub fn sys_wait4(pid: i32, status: usize, options: u32, usage: usize) -> Result<usize> {
    let known =
        abi::WNOHANG | abi::WUNTRACED | abi::WCONTINUED | abi::__WNOTHREAD | abi::__WALL | abi::__WCLONE;
    if options & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let target = match pid {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => Target::Any,
        0 => Target::Group(process::current().process.group()),
        pid if pid < 0 => Target::Group(pid.unsigned_abs()),
        pid => Target::Pid(pid as u32),
    };
    let wait_options = WaitOptions {
        exited: true,
        stopped: options & abi::WUNTRACED != 0,
        continued: options & abi::WCONTINUED != 0,
        leave_waitable: false,
        ..wait_options(target, options)
    };
    let Some(event) = wait::wait(&wait_options)? else { return Ok(0) };
    if status != 0 {
        UserPtr::<i32>::new(status).write(&event.status)?;
    }
    if usage != 0 {
        UserPtr::<Rusage>::new(usage).write(&Rusage::new(&event.usage))?;
    }
    Ok(event.pid as usize)
}

fn wait_options(target: Target, options: u32) -> WaitOptions {
    let (all, clone) = (options & abi::__WALL != 0, options & abi::__WCLONE != 0);
    WaitOptions {
        target,
        exited: options & abi::WEXITED != 0,
        stopped: options & abi::WSTOPPED != 0,
        continued: options & abi::WCONTINUED != 0,
        leave_waitable: options & abi::WNOWAIT != 0,
        block: options & abi::WNOHANG == 0,
        normal: all || !clone,
        clones: all || clone,
        thread: (options & abi::__WNOTHREAD != 0).then(|| process::current().tid()),
    }
}

/// waitid(2), with the usage that the raw call gives.
#[expect(clippy::arithmetic_side_effects, reason = "fields of a struct that was just written to")]
pub fn sys_waitid(kind: u32, id: i32, info: usize, options: u32, usage: usize) -> Result<usize> {
    let what = abi::WEXITED | abi::WSTOPPED | abi::WCONTINUED;
    let known = what | abi::WNOHANG | abi::WNOWAIT | abi::__WNOTHREAD | abi::__WALL | abi::__WCLONE;
    if options & !known != 0 || options & what == 0 {
        return Err(Errno::EINVAL);
    }
    let (mut watched, mut returns) = (None, false);
    let target = match kind {
        abi::P_ALL => Target::Any,
        abi::P_PID if id > 0 => Target::Pid(id as u32),
        abi::P_PGID if id == 0 => Target::Group(process::current().process.group()),
        abi::P_PGID if id > 0 => Target::Group(id as u32),
        abi::P_PIDFD if id >= 0 => {
            let file = super::file::file(id)?;
            watched = pidfd::of(&file)?.process();
            // Of one that has been waited for the number is nobody's, or another's.
            returns = file.nonblocking() && options & abi::WNOHANG == 0;
            watched.as_ref().map_or(Target::Pid(0), |process| Target::Pid(process.pid()))
        }
        _ => return Err(Errno::EINVAL),
    };
    let mut asked = wait_options(target, options);
    asked.block &= !returns;
    let result = match wait::wait(&asked) {
        Ok(None) if returns => Err(Errno::EAGAIN),
        other => other,
    };
    // Its number was its own for as long as it was waited for by it.
    drop(watched);
    let event = result.as_ref().ok().copied().flatten();
    if let (Some(event), true) = (&event, usage != 0) {
        UserPtr::<Rusage>::new(usage).write(&Rusage::new(&event.usage))?;
    }
    // Linux writes it whatever the result is.
    if info != 0 {
        // signo, errno, code, padding, pid, uid, status: only these are written, as on Linux.
        let words = event.map_or([0; 7], |e: Event| {
            [abi::SIGCHLD as i32, 0, e.code as i32, 0, e.pid as i32, e.uid as i32, e.info_status()]
        });
        UserPtr::<[i32; 3]>::new(info).write(&[words[0], words[1], words[2]])?;
        UserPtr::<[i32; 3]>::new(info + 16).write(&[words[4], words[5], words[6]])?;
    }
    result.map(|_| 0)
}

/// unshare(2). Namespaces but those of mounts are not there, as on a Linux without them.
pub fn sys_unshare(flags: u32) -> Result<usize> {
    const SPACES: u32 = abi::CLONE_NEWNS
        | abi::CLONE_NEWCGROUP
        | abi::CLONE_NEWUTS
        | abi::CLONE_NEWIPC
        | abi::CLONE_NEWUSER
        | abi::CLONE_NEWPID
        | abi::CLONE_NEWNET
        | abi::CLONE_NEWTIME;
    const ALONE: u32 = abi::CLONE_THREAD | abi::CLONE_SIGHAND | abi::CLONE_VM;
    let known = SPACES | ALONE | abi::CLONE_FS | abi::CLONE_FILES | abi::CLONE_SYSVSEM;
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let thread = process::current();
    // These are there to be said: a thread that has something in common with another keeps it.
    let alone = if flags & abi::CLONE_NEWUSER != 0 { ALONE } else { flags & ALONE };
    if alone != 0 && thread.process.thread_count() > 1 {
        return Err(Errno::EINVAL);
    }
    let with_handlers = flags & (abi::CLONE_SIGHAND | abi::CLONE_VM) != 0;
    let shares_memory = flags & abi::CLONE_VM != 0 && thread.shares_space();
    if shares_memory || with_handlers && thread.process.signals.shares_actions() {
        return Err(Errno::EINVAL);
    }
    if flags & abi::CLONE_NEWUSER != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & SPACES != 0 && !thread.capable(Capability::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    if flags & SPACES & !abi::CLONE_NEWNS != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & abi::CLONE_NEWNS != 0 {
        thread.replace_fs(thread.fs().with_new_namespace()?);
    } else if flags & abi::CLONE_FS != 0 {
        thread.unshare_fs()?;
    }
    if flags & abi::CLONE_FILES != 0 {
        thread.unshare_files()?;
    }
    if flags & abi::CLONE_SYSVSEM != 0 {
        thread.unshare_undo();
    }
    Ok(0)
}

/// getpid(2).
pub fn sys_getpid() -> Result<usize> {
    Ok(process::current().process.pid() as usize)
}

/// gettid(2).
pub fn sys_gettid() -> Result<usize> {
    Ok(process::current().tid() as usize)
}

/// getppid(2).
pub fn sys_getppid() -> Result<usize> {
    Ok(process::current().process.parent_pid() as usize)
}

/// setsid(2).
pub fn sys_setsid() -> Result<usize> {
    session::create().map(|id| id as usize)
}

/// What `f` says of the process with this number; of the caller's own, if it is 0, without counting it.
fn look_at(pid: i32, f: impl FnOnce(&process::Process) -> u32) -> Result<usize> {
    let number = match pid {
        0 => f(&process::current().process),
        pid if pid < 0 => return Err(Errno::ESRCH),
        pid => ids::look_at(pid.unsigned_abs(), f).ok_or(Errno::ESRCH)?,
    };
    Ok(number as usize)
}

/// getsid(2).
pub fn sys_getsid(pid: i32) -> Result<usize> {
    look_at(pid, process::Process::session_id)
}

/// getpgid(2).
pub fn sys_getpgid(pid: i32) -> Result<usize> {
    look_at(pid, process::Process::group)
}

/// getpgrp(2).
pub fn sys_getpgrp() -> Result<usize> {
    Ok(process::current().process.group() as usize)
}

/// setpgid(2).
pub fn sys_setpgid(pid: i32, group: i32) -> Result<usize> {
    // Without a group the target's own is meant.
    if group < 0 || (group == 0 && pid < 0) {
        return Err(Errno::EINVAL);
    }
    if pid < 0 {
        return Err(Errno::ESRCH);
    }
    session::set_group(pid as u32, group as u32).map(|()| 0)
}

/// set_tid_address(2).
pub fn sys_set_tid_address(address: usize) -> Result<usize> {
    let thread = process::current();
    thread.clear_tid.store(address, Ordering::Relaxed);
    Ok(thread.tid() as usize)
}

/// set_robust_list(2).
pub fn sys_set_robust_list(head: usize, size: usize) -> Result<usize> {
    if size != 24 {
        return Err(Errno::EINVAL);
    }
    process::current().robust_list.store(head, Ordering::Relaxed);
    Ok(0)
}

/// get_robust_list(2).
pub fn sys_get_robust_list(pid: i32, head: usize, size: usize) -> Result<usize> {
    let caller = process::current();
    let look = |thread: &process::Thread| {
        let may = access::may_inspect(&caller, &thread.process, By::RealIds);
        may.then(|| thread.robust_list.load(Ordering::Relaxed)).ok_or(Errno::EPERM)
    };
    let list = match pid {
        0 => look(&caller)?,
        pid => ids::look_at_thread(pid.cast_unsigned(), look).ok_or(Errno::ESRCH)??,
    };
    UserPtr::<usize>::new(size).write(&24)?;
    UserPtr::<usize>::new(head).write(&list)?;
    Ok(0)
}
