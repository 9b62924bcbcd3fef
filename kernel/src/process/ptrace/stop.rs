//! Where a traced thread stops, and how it goes on. All of this is run by the thread itself.
#![forbid(unsafe_code)]

use super::{Changed, Going, Phase, Tracee, is_killed};
use crate::arch::{self, UserRegs};
use crate::process::signal::{Info, deliver, send};
use crate::process::{Current, Thread, current};
use crate::sched::{Sleep, Work};
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;
use linux_raw_sys::ptrace as requests;

/// Work flag: its tracer is to see the end of the system call that the thread makes.
pub const CALL_ENDS: u32 = Work::PROCESS << 5;

/// PTRACE_EVENTMSG_SYSCALL_ENTRY and _EXIT.
pub(super) const CALL_BEGUN: u64 = 1;
pub(super) const CALL_ENDED: u64 = 2;
/// What is added to the signal of stops at system calls (PTRACE_O_TRACESYSGOOD).
const GOOD: i32 = 0x80;

/// Why a thread stops.
struct Stop {
    code: i32,
    why: u32,
    info: Option<Info>,
    message: u64,
}

/// How a thread goes on.
struct Resumed {
    /// The signal that its tracer gives it.
    signal: u32,
    /// What it stopped with, as its tracer has left it.
    info: Option<Info>,
}

/// Stops for the thread's tracer. None: it has none any more, or the thread is to end.
#[inline(never)]
fn stop(regs: &mut UserRegs, thread: &Current, stop: &Stop) -> Option<Resumed> {
    let tracee = thread.tracee()?;
    if is_killed(thread) {
        return None;
    }
    {
        let mut state = tracee.state.lock();
        if state.phase == Phase::Detached {
            return None;
        }
        state.registers = arch::traced_registers(regs, tracee.steps.load(Relaxed));
        state.vectors.copy_registers();
        state.mask = thread.saved_mask.look().unwrap_or_else(|| thread.blocked.get());
        state.changed = Changed::default();
        (state.info, state.message) = (stop.info, stop.message);
        (state.going, state.signal) = (Going::On, 0);
        state.event = Some(stop.code);
        state.phase = Phase::Stopped;
    }
    tracee.tell_tracer(stop.why, stop.code & 0x7f);
    let goes = || (tracee.state.lock().phase != Phase::Stopped || is_killed(thread)).then_some(());
    // A fatal signal ends it too.
    let _ = tracee.resumed.wait_until(Sleep::Killable, None, goes);
    go_on(regs, thread, &tracee)
}

fn go_on(regs: &mut UserRegs, thread: &Current, tracee: &Tracee) -> Option<Resumed> {
    let (mut refused, mut mask) = (None, None);
    let (going, resumed) = {
        let mut state = tracee.state.lock();
        if state.phase == Phase::Stopped {
            // It is to end.
            state.phase = Phase::Runs;
        }
        state.event = None;
        let changed = core::mem::take(&mut state.changed);
        if changed.registers {
            refused = arch::set_traced_registers(regs, &state.registers);
            if regs.steps() {
                // As its program would have it.
                tracee.steps.store(false, Relaxed);
            }
        }
        if changed.vectors {
            state.vectors.restore();
        }
        if changed.mask {
            mask = Some(state.mask);
        }
        (state.going, Resumed { signal: state.signal, info: state.info.take() })
    };
    tracee.going.store(going as u8, Relaxed);
    thread.task().set_call_traced(going != Going::On);
    if going == Going::Step {
        if !regs.steps() {
            tracee.steps.store(true, Relaxed);
        }
        // Also if it is set already: IRET steps over the next instruction, SYSRET would over none.
        regs.set_steps(true);
    } else if tracee.steps.swap(false, Relaxed) {
        regs.set_steps(false);
    }
    if let Some(mask) = mask {
        thread.saved_mask.take();
        thread.task().work.clear(deliver::RESTORE_MASK);
        deliver::set_blocked(thread, mask);
    }
    if let Some(trap) = refused {
        *thread.trap.lock() = trap;
        send::forced(Info::kernel(abi::SIGSEGV));
        // `deliver` mends the segments whatever becomes of the signal.
        thread.task().work.set(Work::SIGNAL);
    }
    // Who traces it no more has said with which signal it goes on.
    Some(resumed)
}

/// A stop that tells of something the thread itself has done.
fn trap(regs: &mut UserRegs, thread: &Current, code: i32, message: u64) -> Option<Resumed> {
    let info = Info { signal: abi::SIGTRAP, ..Info::user_of_thread(thread.tid(), code) };
    stop(regs, thread, &Stop { code, why: abi::CLD_TRAPPED, info: Some(info), message })
}

fn options(tracee: &Tracee) -> u32 {
    tracee.state.lock().options
}

fn call_stop(regs: &mut UserRegs, thread: &Current, tracee: &Tracee, message: u64) {
    let good = if options(tracee) & requests::PTRACE_O_TRACESYSGOOD != 0 { GOOD } else { 0 };
    let resumed = trap(regs, thread, abi::SIGTRAP as i32 | good, message);
    let signal = resumed.map_or(0, |resumed| resumed.signal);
    if signal != 0 {
        let _ = send::queue_own(thread, Info::kernel(signal), false);
    }
}

/// The running thread, whose calls are traced, makes one. False: it is not made, since the thread is to end.
#[cold]
pub fn call_begins(regs: &mut UserRegs) -> bool {
    let thread = current();
    let Some(tracee) = thread.tracee() else {
        // Its tracer has gone while it ran.
        thread.task().set_call_traced(false);
        return true;
    };
    thread.task().work.set(CALL_ENDS);
    if tracee.going.load(Relaxed) == Going::ToCall as u8 {
        call_stop(regs, &thread, &tracee, CALL_BEGUN);
        return !is_killed(&thread);
    }
    true
}

/// The call has ended, and its result is in `regs`.
#[cold]
pub fn call_ends(regs: &mut UserRegs) {
    let thread = current();
    thread.task().work.clear(CALL_ENDS);
    let Some(tracee) = thread.tracee() else { return };
    match tracee.going.load(Relaxed) {
        going if going == Going::ToCall as u8 => call_stop(regs, &thread, &tracee, CALL_ENDED),
        // The instruction that made the call was the one step. TF, which SYSCALL clears, would show after the next only.
        going if going == Going::Step as u8 => {
            *thread.trap.lock() = arch::TrapRecord::default();
            send::forced(Info::fault(abi::SIGTRAP, abi::TRAP_BRKPT as i32, regs.pc()));
        }
        _ => {}
    }
}

/// The running thread has taken a signal: its tracer says what becomes of it. None: nothing.
#[cold]
pub fn stop_for_signal(regs: &mut UserRegs, thread: &Current, info: Info) -> Option<Info> {
    let before = Stop { code: info.signal as i32, why: abi::CLD_TRAPPED, info: Some(info), message: 0 };
    let Some(resumed) = stop(regs, thread, &before) else { return Some(info) };
    let signal = resumed.signal;
    if signal == 0 {
        return None;
    }
    let info = match resumed.info {
        Some(same) if same.signal == signal => same,
        // Another signal is as if its tracer had sent it.
        _ => {
            let tracer = thread.tracee().map(|tracee| tracee.tracer.clone());
            let (pid, uid) = tracer.map_or((0, 0), |t| (t.process.pid(), t.process.uid_at_exit()));
            Info { rest: [u64::from(pid) | u64::from(uid) << 32, 0, 0, 0], code: 0, ..Info::kernel(signal) }
        }
    };
    if thread.blocked.get() & crate::process::signal::bit(signal) != 0 {
        // It waits, as if it had just come.
        let _ = send::queue_resting(&thread.process, Some(thread), info, false);
        return None;
    }
    Some(info)
}

/// Has the running thread, which is traced, told its tracer of the stop that its process is in?
pub fn goes_on_through_stop(thread: &Thread) -> bool {
    thread.tracee().is_some_and(|tracee| tracee.told.load(Relaxed) == thread.process.signals.stops())
}

/// It has taken another signal that stops while its process was stopped.
#[cold]
pub fn stopped_anew(thread: &Thread) {
    if let Some(tracee) = thread.tracee() {
        tracee.told.store(0, Relaxed);
    }
}

/// Tells the tracer of the running thread that its process has stopped.
#[cold]
pub fn stop_in_group(regs: &mut UserRegs, thread: &Current) {
    let signals = &thread.process.signals;
    if let Some(tracee) = thread.tracee() {
        tracee.told.store(signals.stops(), Relaxed);
    }
    let code = signals.stop_signal() as i32;
    stop(regs, thread, &Stop { code, why: abi::CLD_STOPPED, info: None, message: 0 });
}

/// The running thread is about to enter a handler: is that a step for its tracer? Then TF, which is the tracer's, is not in the handler's frame.
#[cold]
pub fn hides_step(regs: &mut UserRegs, thread: &Thread) -> bool {
    let Some(tracee) = thread.tracee() else { return false };
    if tracee.steps.swap(false, Relaxed) {
        regs.set_steps(false);
    }
    let was_step = tracee.going.load(Relaxed) == Going::Step as u8;
    if was_step {
        tracee.going.store(Going::On as u8, Relaxed);
    }
    was_step
}

/// It has entered the handler, and that was the step.
#[cold]
pub fn handler_entered(regs: &mut UserRegs, thread: &Current) {
    thread.task().set_call_traced(false);
    // As on Linux the signal that the tracer gives is lost here.
    trap(regs, thread, abi::SIGTRAP as i32, 0);
}

/// The running thread, which is traced, has begun a new program.
#[cold]
pub fn note_exec(thread: &Current) {
    let _ = send::queue_own(thread, Info::user(abi::SIGTRAP, abi::SI_USER as i32), false);
}
