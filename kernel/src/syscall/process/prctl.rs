//! prctl(2).
//!
//! An option that is not here gives EINVAL, as on a Linux that was built without it: those of other machines, and
//!
//! * core scheduling, pages merged alike, names of anonymous mappings, perf events, speculation control:
//!   there is no such thing;
//! * PR_SET_MM: where the parts of a program lie is told by exec alone;
//! * PR_TSC_SIGSEGV: the time-stamp counter is always readable.
#![forbid(unsafe_code)]

use super::seccomp;
use crate::errno::{Errno, Result};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::access::Dumpable;
use crate::process::dispatch::{self, Config};
use crate::process::{self, Capability, Current, Flags, Thread};
use crate::syscall::identity::{self, capability};
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::prctl as pr;
use vm::ExecGain;

/// prctl(2).
pub fn sys_prctl(option: u32, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    let thread = process::current();
    let process = &thread.process;
    match option {
        pr::PR_SET_NAME => set_name(&thread, a),
        pr::PR_GET_NAME => UserPtr::<[u8; 16]>::new(a).write(&thread.comm_padded()).map(|()| 0),

        pr::PR_SET_DUMPABLE if a <= 1 => {
            process.set_dumpable(if a == 1 { Dumpable::User } else { Dumpable::Nobody });
            Ok(0)
        }
        pr::PR_GET_DUMPABLE => Ok(process.dumpable() as usize),

        pr::PR_SET_PDEATHSIG if a <= 64 => {
            thread.set_death_signal(a as u32);
            Ok(0)
        }
        pr::PR_GET_PDEATHSIG => write_word(a, thread.attributes.death_signal()),
        pr::PR_SET_CHILD_SUBREAPER => {
            process.set_subreaper(a != 0);
            Ok(0)
        }
        pr::PR_GET_CHILD_SUBREAPER => write_word(a, u32::from(process.subreaper.load(Relaxed))),

        pr::PR_SET_NO_NEW_PRIVS if [a, b, c, d] == [1, 0, 0, 0] => identity::change(|credentials| {
            credentials.no_new_privileges = true;
            Ok(())
        }),
        pr::PR_GET_NO_NEW_PRIVS if [a, b, c, d] == [0; 4] => Ok(usize::from(thread.has_no_new_privileges())),
        pr::PR_GET_SECCOMP => Ok(thread.filters.show().0 as usize),
        pr::PR_SET_SECCOMP => seccomp::set_mode(a, b),
        pr::PR_GET_KEEPCAPS => Ok(usize::from(capability::keeps())),
        pr::PR_SET_KEEPCAPS => capability::set_keeps(a),
        pr::PR_CAPBSET_READ => capability::read_bound(a),
        pr::PR_CAPBSET_DROP => capability::drop_bound(a),
        pr::PR_GET_SECUREBITS => capability::secure_bits(),
        pr::PR_SET_SECUREBITS => capability::set_secure_bits(a),
        pr::PR_CAP_AMBIENT => capability::ambient(a, b, [c, d]),

        // How late a sleep may end so that others end with it: `sched::Deadline`.
        pr::PR_SET_TIMERSLACK => {
            if !is_realtime() {
                thread.attributes.set_slack(a as u64);
            }
            Ok(0)
        }
        pr::PR_GET_TIMERSLACK => Ok(if is_realtime() { 0 } else { thread.attributes.slack() as usize }),
        pr::PR_GET_TIMING => Ok(pr::PR_TIMING_STATISTICAL as usize),
        pr::PR_SET_TIMING if a == pr::PR_TIMING_STATISTICAL as usize => Ok(0),
        pr::PR_GET_TSC => write_word(a, pr::PR_TSC_ENABLE),
        pr::PR_SET_TSC if a == pr::PR_TSC_ENABLE as usize => Ok(0),

        // Memory is never reclaimed by writing to a device, nor a page lost: those wishes are kept, and hold.
        pr::PR_SET_THP_DISABLE if [b, c, d] == [0; 3] => {
            thread.space().refuse_large(a != 0);
            Ok(0)
        }
        pr::PR_GET_THP_DISABLE if [a, b, c, d] == [0; 4] => Ok(usize::from(thread.space().refuses_large())),
        pr::PR_SET_IO_FLUSHER => set_io_flusher(&thread, [a, b, c, d]),
        pr::PR_GET_IO_FLUSHER => get_io_flusher(&thread, [a, b, c, d]),
        pr::PR_MCE_KILL if [c, d] == [0; 2] => set_memory_failure(&thread, a as u32, b as u32),
        pr::PR_MCE_KILL_GET if [a, b, c, d] == [0; 4] => {
            let flags = thread.attributes.flags();
            Ok(match (flags.contains(Flags::FAILURE_CHOSEN), flags.contains(Flags::FAILURE_EARLY)) {
                (false, _) => pr::PR_MCE_KILL_DEFAULT,
                (true, false) => pr::PR_MCE_KILL_LATE,
                (true, true) => pr::PR_MCE_KILL_EARLY,
            } as usize)
        }

        pr::PR_SET_MDWE if [b, c, d] == [0; 3] => set_exec_gain(&thread, a),
        pr::PR_GET_MDWE if [a, b, c, d] == [0; 4] => Ok(usize::from(thread.space().exec_gain().bits())),

        pr::PR_SET_SYSCALL_USER_DISPATCH => set_dispatch(&thread, a, [b, c, d]).map(|()| 0),

        pr::PR_GET_TID_ADDRESS => UserPtr::<usize>::new(a).write(&thread.clear_tid.load(Relaxed)).map(|()| 0),
        pr::PR_GET_AUXV if [c, d] == [0; 2] => read_auxv(&thread, a, b),
        _ => Err(Errno::EINVAL),
    }
}

/// PR_SET_SYSCALL_USER_DISPATCH and its kin of ptrace(2): for `thread`.
///
/// # Errors
/// EINVAL: no such mode, or it takes no arguments. As `dispatch::set`.
pub(super) fn set_dispatch(thread: &Thread, mode: usize, arguments: [usize; 3]) -> Result {
    let [offset, len, selector] = arguments.map(|argument| argument as u64);
    match u32::try_from(mode) {
        Ok(pr::PR_SYS_DISPATCH_OFF) if arguments == [0; 3] => dispatch::set(thread, None),
        Ok(pr::PR_SYS_DISPATCH_ON) => dispatch::set(thread, Some(Config { offset, len, selector })),
        _ => Err(Errno::EINVAL),
    }
}

/// PR_SET_MDWE: once only.
fn set_exec_gain(thread: &Current, bits: usize) -> Result<usize> {
    let wanted = u8::try_from(bits).ok().and_then(ExecGain::from_bits).ok_or(Errno::EINVAL)?;
    if wanted == ExecGain::NOT_INHERITED {
        return Err(Errno::EINVAL);
    }
    let now = thread.space().exec_gain();
    if !now.is_empty() && now != wanted {
        return Err(Errno::EPERM);
    }
    thread.space().set_exec_gain(wanted);
    Ok(0)
}

fn write_word(to: usize, value: u32) -> Result<usize> {
    UserPtr::<u32>::new(to).write(&value).map(|()| 0)
}

fn set_name(thread: &Current, from: usize) -> Result<usize> {
    let mut name = [0; 16];
    let n = UserSlice::new(from, 16).read_partial(&mut name);
    let end = name[..n].iter().position(|b| *b == 0).or((n == 16).then_some(15)).ok_or(Errno::EFAULT)?;
    thread.set_comm(&name[..end]);
    Ok(0)
}

fn check_io_flusher(unused: &[usize]) -> Result {
    if !process::current().capable(Capability::SYS_RESOURCE) {
        return Err(Errno::EPERM);
    }
    if unused.iter().any(|argument| *argument != 0) { Err(Errno::EINVAL) } else { Ok(()) }
}

fn set_io_flusher(thread: &Current, [on, unused @ ..]: [usize; 4]) -> Result<usize> {
    check_io_flusher(&unused)?;
    if on > 1 {
        return Err(Errno::EINVAL);
    }
    thread.attributes.set_flags(Flags::IO_FLUSHER, on == 1);
    Ok(0)
}

fn get_io_flusher(thread: &Current, unused: [usize; 4]) -> Result<usize> {
    check_io_flusher(&unused)?;
    Ok(usize::from(thread.attributes.flags().contains(Flags::IO_FLUSHER)))
}

/// PR_MCE_KILL: whether a thread wants to know at once of a page that the machine has lost.
fn set_memory_failure(thread: &Current, operation: u32, when: u32) -> Result<usize> {
    let (chosen, early) = match (operation, when) {
        (pr::PR_MCE_KILL_CLEAR, 0) | (pr::PR_MCE_KILL_SET, pr::PR_MCE_KILL_DEFAULT) => (false, false),
        (pr::PR_MCE_KILL_SET, pr::PR_MCE_KILL_EARLY) => (true, true),
        (pr::PR_MCE_KILL_SET, pr::PR_MCE_KILL_LATE) => (true, false),
        (pr::PR_MCE_KILL_SET, _) => {
            // Refused, but the thread counts as one that has chosen, as on Linux.
            thread.attributes.set_flags(Flags::FAILURE_CHOSEN, true);
            return Err(Errno::EINVAL);
        }
        _ => return Err(Errno::EINVAL),
    };
    thread.attributes.set_flags(Flags::FAILURE_CHOSEN, chosen);
    thread.attributes.set_flags(Flags::FAILURE_EARLY, early);
    Ok(0)
}

/// PR_GET_AUXV: writes what fits, and says how long it is.
fn read_auxv(thread: &Current, to: usize, len: usize) -> Result<usize> {
    let (from, end) = thread.process.memory.lock().auxv;
    let mut pairs = [0u8; 512];
    let pairs = pairs.get_mut(..end.saturating_sub(from)).ok_or(Errno::EFAULT)?;
    UserSlice::new(from, pairs.len()).read(pairs)?;
    let fits = pairs.len().min(len);
    UserSlice::new(to, fits).write(&pairs[..fits])?;
    Ok(pairs.len())
}

/// Timers of real-time threads have no slack.
fn is_realtime() -> bool {
    crate::sched::current().schedule().policy.goes_first()
}
