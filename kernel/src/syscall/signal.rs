//! Signals.
#![forbid(unsafe_code)]

use crate::arch::{self, UserRegs};
use crate::errno::{ERESTARTNOHAND, Errno, Result};
use crate::memory::user::UserPtr;
use crate::process::signal::{self, Action, AltStack, Info, UNBLOCKABLE, deliver, send};
use crate::process::{self, Thread};
use crate::sched::{self, Deadline, Sleep, Woken};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

use super::file::{install, opened};
use super::time::read_timespec;
use crate::fs::anon::signalfd::SignalFile;
use crate::fs::file::OpenFlags;

const SET_SIZE: usize = 8;

fn check_size(size: usize) -> Result {
    if size == SET_SIZE { Ok(()) } else { Err(Errno::EINVAL) }
}

/// rt_sigaction(2).
pub fn sys_rt_sigaction(signal: u32, new: usize, old: usize, size: usize) -> Result<usize> {
    check_size(size)?;
    let signals = &process::current().process.signals;
    let before = if new == 0 {
        signals.action(signal).ok_or(Errno::EINVAL)?
    } else {
        let action = UserPtr::<Action>::new(new).read()?;
        signals.set_action(signal, action)?
    };
    if old != 0 {
        UserPtr::<Action>::new(old).write(&before)?;
    }
    Ok(0)
}

/// rt_sigprocmask(2).
pub fn sys_rt_sigprocmask(how: i32, new: usize, old: usize, size: usize) -> Result<usize> {
    check_size(size)?;
    let thread = process::current();
    let before = thread.blocked.get();
    if new != 0 {
        let set = UserPtr::<u64>::new(new).read()?;
        let mask = match how as u32 {
            abi::SIG_BLOCK => before | set,
            abi::SIG_UNBLOCK => before & !set,
            abi::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        deliver::set_blocked(&thread, mask);
    }
    if old != 0 {
        UserPtr::<u64>::new(old).write(&before)?;
    }
    Ok(0)
}

/// rt_sigpending(2).
pub fn sys_rt_sigpending(to: usize, size: usize) -> Result<usize> {
    if size > SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let thread = process::current();
    let set = thread.pending_signals() | thread.process.signals.pending();
    let waiting = set & thread.blocked.get();
    crate::memory::user::UserSlice::new(to, size).write(&waiting.to_ne_bytes()[..size])?;
    Ok(0)
}

/// rt_sigsuspend(2).
pub fn sys_rt_sigsuspend(mask: usize, size: usize) -> Result<usize> {
    check_size(size)?;
    let mask = UserPtr::<u64>::new(mask).read()?;
    suspend(Some(mask))
}

/// pause(2).
pub fn sys_pause() -> Result<usize> {
    suspend(None)
}

fn suspend(mask: Option<u64>) -> Result<usize> {
    if let Some(mask) = mask {
        set_temporary_mask(mask);
    }
    let _ = sched::sleep_until(u64::MAX - 1, Sleep::Interruptible);
    Err(ERESTARTNOHAND)
}

/// Blocks just `mask` until the call has ended and signals that came have been delivered (sigsuspend, ppoll, pselect).
pub fn set_temporary_mask(mask: u64) {
    let thread = process::current();
    let before = thread.blocked.get();
    thread.saved_mask.set_if_none(before);
    deliver::set_blocked(&thread, mask & !UNBLOCKABLE);
    // Even without a signal the old mask has to come back on the way out.
    sched::current().work.set(deliver::RESTORE_MASK);
}

fn after(ns: u64) -> Deadline {
    Deadline::of_sleep(arch::time::now().saturating_add(ns))
}

/// rt_sigtimedwait(2).
pub fn sys_rt_sigtimedwait(set: usize, info: usize, timeout: usize, size: usize) -> Result<usize> {
    check_size(size)?;
    let set = UserPtr::<u64>::new(set).read()? & !UNBLOCKABLE;
    let timeout = UserPtr::<()>::new(timeout).non_null().map(|_| read_timespec(timeout)).transpose()?;
    let thread = process::current();
    let found = match (signal::take_waiting(&thread, set), timeout) {
        (Some(found), _) => found,
        // Nobody sleeps.
        (None, Some(0)) => return Err(Errno::EAGAIN),
        (None, timeout) => match signal::wait_for(&thread, set, timeout.map(after)) {
            Ok(found) => found,
            Err(Woken::Timeout) => return Err(Errno::EAGAIN),
            Err(Woken::Signal) => return Err(Errno::EINTR),
        },
    };
    if info != 0 {
        UserPtr::<[u8; 128]>::new(info).write(&found.to_bytes())?;
    }
    Ok(found.signal as usize)
}

/// sigaltstack(2).
pub fn sys_sigaltstack(regs: &mut UserRegs) -> Result<usize> {
    let [new, old, ..] = regs.args();
    let thread = process::current();
    let before = *thread.altstack.lock();
    let on_it = before.contains(regs.sp());
    if new != 0 {
        let stack = UserPtr::<arch::signal_frame::SignalStack>::new(new).read()?;
        if on_it {
            return Err(Errno::EPERM);
        }
        let mode = stack.flags & !abi::SS_AUTODISARM;
        if mode != 0 && mode != abi::SS_ONSTACK && mode != abi::SS_DISABLE {
            return Err(Errno::EINVAL);
        }
        let altstack = if mode == abi::SS_DISABLE {
            AltStack { flags: abi::SS_DISABLE | stack.flags & abi::SS_AUTODISARM, ..AltStack::NONE }
        } else {
            if stack.size < u64::from(abi::MINSIGSTKSZ) {
                return Err(Errno::ENOMEM);
            }
            let flags = stack.flags & abi::SS_AUTODISARM;
            AltStack { sp: stack.sp as usize, size: stack.size as usize, flags }
        };
        *thread.altstack.lock() = altstack;
    }
    if old != 0 {
        let flags = match (before.size, on_it) {
            (0, _) => abi::SS_DISABLE,
            (_, true) => abi::SS_ONSTACK,
            _ => 0,
        };
        let stack = arch::signal_frame::SignalStack {
            sp: before.sp as u64,
            flags: flags | before.flags & abi::SS_AUTODISARM,
            pad: 0,
            size: before.size as u64,
        };
        UserPtr::new(old).write(&stack)?;
    }
    Ok(0)
}

/// rt_sigreturn(2).
pub fn sys_rt_sigreturn(regs: &mut UserRegs) -> Result<usize> {
    deliver::sigreturn(regs);
    Ok(0)
}

/// restart_syscall(2): goes on with an interrupted sleep. EINTR: there is none.
pub fn sys_restart_syscall() -> Result<usize> {
    // What is gone on with once is done. (In a statement of its own: the lock is not held over the sleep.)
    let noted = core::mem::take(&mut *process::current().restart.lock());
    match noted {
        (None, _) => Err(Errno::EINTR),
        (Some(deadline), remain) => super::time::resume_sleep(deadline, remain),
    }
}

/// kill(2).
pub fn sys_kill(pid: i32, signal: u32) -> Result<usize> {
    send::kill(pid, signal).map(|()| 0)
}

fn send_to_thread(group: Option<i32>, tid: i32, signal: u32, info: impl FnOnce() -> Info) -> Result<usize> {
    if tid <= 0 || group.is_some_and(|g| g <= 0) {
        return Err(Errno::EINVAL);
    }
    let caller = process::current();
    if caller.tid() == tid as u32 && group.is_none_or(|g| caller.process.pid() == g as u32) {
        return match signal {
            0 => Ok(0),
            _ if signal > signal::COUNT => Err(Errno::EINVAL),
            _ => send::queue_own(&caller, info(), true).map(|_| 0),
        };
    }
    let thread: Arc<Thread> = process::find_thread(tid as u32)
        .filter(|t| group.is_none_or(|g| t.process.pid() == g as u32))
        .ok_or(Errno::ESRCH)?;
    if signal > signal::COUNT {
        return Err(Errno::EINVAL);
    }
    if !send::permitted(&thread.process, signal) {
        return Err(Errno::EPERM);
    }
    if signal != 0 {
        send::queue_resting(&thread.process, Some(&thread), info(), true)?;
    }
    Ok(0)
}

/// tkill(2).
pub fn sys_tkill(tid: i32, signal: u32) -> Result<usize> {
    send_to_thread(None, tid, signal, || Info::user(signal, abi::SI_TKILL))
}

/// tgkill(2).
pub fn sys_tgkill(group: i32, tid: i32, signal: u32) -> Result<usize> {
    send_to_thread(Some(group), tid, signal, || Info::user(signal, abi::SI_TKILL))
}

/// A siginfo that a program made up. Only to itself may it claim to be the kernel or kill.
pub(super) fn checked_info(bytes: &[u8; 128], signal: u32, target: i32) -> Result<Info> {
    let info = Info { signal, ..Info::from_bytes(bytes) };
    let own = process::current().tid() as i32 == target;
    if (info.code >= 0 || info.code == abi::SI_TKILL) && !own {
        return Err(Errno::EPERM);
    }
    Ok(info)
}

/// rt_sigqueueinfo(2).
pub fn sys_rt_sigqueueinfo(pid: i32, signal: u32, info: usize) -> Result<usize> {
    let info = checked_info(&UserPtr::<[u8; 128]>::new(info).read()?, signal, pid)?;
    if pid <= 0 {
        return Err(Errno::ESRCH);
    }
    let target = process::find_process(pid as u32).ok_or(Errno::ESRCH)?;
    if signal > signal::COUNT {
        return Err(Errno::EINVAL);
    }
    if !send::permitted(&target, signal) {
        return Err(Errno::EPERM);
    }
    if signal != 0 {
        send::queue_resting(&target, None, info, true)?;
    }
    Ok(0)
}

/// rt_tgsigqueueinfo(2).
pub fn sys_rt_tgsigqueueinfo(group: i32, tid: i32, signal: u32, info: usize) -> Result<usize> {
    let bytes = UserPtr::<[u8; 128]>::new(info).read()?;
    if group <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    let info = checked_info(&bytes, signal, tid)?;
    send_to_thread(Some(group), tid, signal, || info)
}

/// signalfd4(2): a new file, or other signals for one that is there.
pub fn sys_signalfd4(fd: i32, set: usize, size: usize, flags: u32) -> Result<usize> {
    check_size(size)?;
    let set = UserPtr::<u64>::new(set).read()?;
    let flags = OpenFlags::from_bits_retain(flags);
    if !(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK).contains(flags) {
        return Err(Errno::EINVAL);
    }
    if fd == -1 {
        return install(|| SignalFile::try_new(set, flags), flags.contains(OpenFlags::CLOEXEC));
    }
    opened(fd)?.downcast::<SignalFile>().ok_or(Errno::EINVAL)?.set(set);
    Ok(fd as usize)
}

/// signalfd(2).
pub fn sys_signalfd(fd: i32, set: usize, size: usize) -> Result<usize> {
    sys_signalfd4(fd, set, size, 0)
}
