//! The Linux system-call interface for x86-64.
//!
//! `rows.rs` is the one list: number, name, arguments, handler; `table` dispatches by it. A handler's file decodes, checks, calls and encodes; the work is
//! elsewhere. Handlers get their arguments as the types that Linux's prototypes have: an `int` is the low 32 bits of its register.
#![forbid(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod barrier;
pub mod file;
mod futex;
mod futex2;
mod identity;
mod ipc;
pub mod memory;
pub mod path;
mod plant;
pub mod policies;
pub mod poll;
pub mod process;
pub mod scheduling;
pub mod signal;
mod socket;
pub mod system;
mod table;
pub mod time;
pub mod trace;
pub mod tty;

use identity::capability;
use process::prctl;
pub use time::timer;

use crate::arch::UserRegs;
use crate::errno::{ERESTARTSYS, ESTALE, Errno, Result};
use crate::process::{current as caller, dispatch, ptrace, seccomp};
use crate::sched::{self, Work};
use core::sync::atomic::{AtomicU64, Ordering};

/// A system call from `regs`; the result goes into them. Interrupts are enabled and no lock is held.
#[inline]
pub fn dispatch(regs: &mut UserRegs) {
    let number = regs.number();
    let result = if sched::current().is_watched() { watched(regs) } else { table::call(number, regs) };
    // exec and sigreturn leave the frame as the program is to find it.
    if regs.in_syscall() {
        let shown = match result {
            Ok(value) => value as isize,
            // Not below `watched`: what is called is deep.
            Err(ESTALE) => again(regs),
            Err(errno) => failed(errno),
        };
        regs.set_result(shown);
    }
}

/// Between the walk to a file and its use the file was replaced, and the file system cannot find it without its name: a server of files, whose fids are paths. The call is made
/// again, as far as it was allowed, and asks for each name of its path. Linux tries once more (LOOKUP_REVAL). Returns what the result's register is to have.
#[cold]
#[inline(never)]
fn again(regs: &mut UserRegs) -> isize {
    let mut result = Err(ESTALE);
    while result == Err(ESTALE) && begin_again(regs.number()) {
        result = table::call(regs.number(), regs);
    }
    caller().walks_anew.store(0, Ordering::Relaxed);
    match result {
        // It has begun another program.
        Ok(_) if !regs.in_syscall() => regs.result(),
        Ok(value) => value as isize,
        Err(errno) => failed(errno),
    }
}

/// How often a call is made again.
const AGAIN: u8 = 16;

/// Is the call to be made once more? Not without end, nor for who is killed, nor where it names no file.
#[cold]
fn begin_again(number: usize) -> bool {
    let thread = caller();
    let times = thread.walks_anew.load(Ordering::Relaxed);
    if times == AGAIN || !table::names_files(number) || sched::give_way() {
        return false;
    }
    thread.walks_anew.store(times.saturating_add(1), Ordering::Relaxed);
    true
}

#[cold]
fn watched(regs: &mut UserRegs) -> Result<usize> {
    // Neither its tracer nor its filters see a call that is a signal.
    if sched::current().is_dispatching() && dispatch::diverts(regs) {
        return Ok(regs.number());
    }
    if sched::current().is_call_traced() {
        // A tracer may choose another call, or none by number -1: then the result is what it has left there.
        if !ptrace::call_begins(regs) || !regs.in_syscall() {
            return Ok(regs.result().cast_unsigned());
        }
    }
    if let Some(result) = seccomp::judge(regs) {
        // Number -1 is refused too, which counts as no call.
        regs.set_result(result);
        return Ok(result.cast_unsigned());
    }
    let number = regs.number();
    plant::count(number);
    // The call may write another frame.
    let args = regs.args();
    let result = table::call(number, regs);
    trace::trace(number, args, &result);
    result
}

/// The result of a call that failed.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "errnos are small")]
fn failed(errno: Errno) -> isize {
    if errno.0 >= ERESTARTSYS.0 {
        // Whatever became of the signal (another thread may have taken it), the way out has to see this result.
        sched::current().work.set(Work::SIGNAL);
    }
    -(errno.0 as isize)
}

/// An argument of a system call.
pub trait Argument {
    /// Its value in a register.
    fn from_register(raw: usize) -> Self;
}

macro_rules! arguments {
    ($($t:ty)*) => {$(
        impl Argument for $t {
            #[inline(always)]
            fn from_register(raw: usize) -> Self {
                raw as $t
            }
        }
    )*};
}
arguments!(usize isize u64 i64 u32 i32 u16 u8);

/// A handler with up to six arguments.
pub trait Handler<Arguments> {
    fn call(self, raw: [usize; 6]) -> Result<usize>;
}

macro_rules! handlers {
    ($(($($name:ident $n:tt),*))*) => {$(
        impl<F, $($name: Argument),*> Handler<($($name,)*)> for F
        where
            F: FnOnce($($name),*) -> Result<usize>,
        {
            #[inline(always)]
            fn call(self, _raw: [usize; 6]) -> Result<usize> {
                self($($name::from_register(_raw[$n])),*)
            }
        }
    )*};
}
handlers! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, G 5)
}

/// Says once per number that a call is not there.
#[cold]
fn missing(number: usize) -> Errno {
    static SEEN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let known = table::name(number);
    if let (Some(name), Some(word)) = (known, SEEN.get(number / 64)) {
        let bit = 1 << (number % 64);
        if word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            info!("system call {number} ({name}) is not there: ENOSYS");
        }
    }
    Errno::ENOSYS
}
