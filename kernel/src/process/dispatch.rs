//! System calls that a thread wants to get as signals (PR_SET_SYSCALL_USER_DISPATCH, Linux's syscall-user-dispatch.rst): those that it makes outside one range of
//! its code, while a byte of its memory says so.
//!
//! Set by the thread itself, or by its tracer while it is stopped; not handed on to what it makes, and gone with its program. Its calls are watched
//! meanwhile (`Task::is_watched`): who has none of this pays nothing. No locks.
#![forbid(unsafe_code)]

use crate::arch::{USER_END, UserRegs};
use crate::errno::{Errno, Result};
use crate::memory::user::UserPtr;
use crate::process::signal::{Info, deliver, send};
use crate::process::{Thread, current};
use linux_raw_sys::general as abi;
use sync::rcu::{RcuArc, RcuHead};
use sync::{rcu, try_arc};

const MACHINE: u32 = 0xc000_003e;

/// What the byte says: calls are made; calls are signals.
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Where calls are made as ever, and where the byte lies; 0: there is none, and all others are signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Config {
    pub offset: u64,
    pub len: u64,
    pub selector: u64,
}

/// A thread's.
pub struct Dispatch {
    config: Config,
    rcu: RcuHead,
}

sync::rcu_object!(Dispatch);

/// A thread's place for it.
pub struct Slot(RcuArc<Dispatch>);

impl Slot {
    pub const fn none() -> Self {
        Self(RcuArc::empty())
    }

    pub fn config(&self) -> Option<Config> {
        self.0.load(&rcu::read()).map(|dispatch| dispatch.config)
    }
}

/// Sets it for `thread`, the running one or one that is stopped for its tracer. None: its calls are calls again.
///
/// # Errors
/// EINVAL: the range wraps around. EFAULT: the byte lies where no program's memory is. ENOMEM.
pub fn set(thread: &Thread, config: Option<Config>) -> Result {
    let dispatch = match config {
        Some(Config { offset, len, .. }) if offset != 0 && offset.wrapping_add(len) <= offset => {
            return Err(Errno::EINVAL);
        }
        Some(Config { selector, .. }) if selector >= USER_END as u64 => return Err(Errno::EFAULT),
        Some(config) => Some(try_arc(Dispatch { config, rcu: RcuHead::new() })?),
        None => None,
    };
    let is_on = dispatch.is_some();
    thread.dispatch.0.swap(dispatch);
    thread.look_at_task(|task| task.set_dispatching(is_on));
    Ok(())
}

/// The running thread begins a new program.
pub fn forget() {
    let thread = current();
    if !thread.dispatch.0.is_empty() {
        thread.dispatch.0.swap(None);
        thread.look_at_task(|task| task.set_dispatching(false));
    }
}

/// Is the call that the running thread is about to make a signal instead? Then the handler finds the registers as they were.
#[cold]
#[inline(never)]
pub fn diverts(regs: &UserRegs) -> bool {
    let thread = current();
    let Some(Config { offset, len, selector }) = thread.dispatch.config() else { return false };
    let pc = regs.pc() as u64;
    if pc.wrapping_sub(offset) < len {
        return false;
    }
    if selector != 0 {
        match UserPtr::<u8>::new(selector as usize).read() {
            Ok(ALLOW) => return false,
            Ok(BLOCK) => {}
            Ok(_) => deliver::end(regs, &thread, &Info::kernel(abi::SIGSYS)),
            Err(_) => deliver::end(regs, &thread, &Info::kernel(abi::SIGSEGV)),
        }
    }
    let info = Info::refused_call(pc, regs.number() as i32, MACHINE, 0);
    send::forced(Info { code: abi::SYS_USER_DISPATCH as i32, ..info });
    true
}
