//! Where a traced thread stops, and how it goes on. All of this is run by the thread itself.
#![forbid(unsafe_code)]

use super::{Changed, Going, Phase, Tracee, breakpoints, is_killed};
use crate::arch::{self, UserRegs};
use crate::process::signal::{Info, deliver, send};
use crate::process::{Current, Thread, current};
use crate::sched::{Sleep, Work};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
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
    /// The thread is about to end.
    ends: bool,
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
    if is_killed(thread, stop.ends) {
        return None;
    }
    // Any stop is what its tracer wanted.
    tracee.trap.store(false, Relaxed);
    {
        let mut state = tracee.state.lock();
        if state.phase == Phase::Detached {
            return None;
        }
        state.registers = arch::traced_registers(regs, tracee.steps.load(Relaxed));
        state.vectors.copy_registers();
        state.mask = thread.saved_mask.look().unwrap_or_else(|| thread.blocked.get());
        state.changed = Changed::default();
        state.is_last = stop.ends && thread.process.signals.exit_status().is_some();
        (state.info, state.message) = (stop.info, stop.message);
        (state.going, state.signal) = (Going::On, 0);
        state.event = Some(stop.code);
        state.phase = Phase::Stopped;
    }
    tracee.tell_tracer(stop.why, stop.code & 0x7f);
    let goes = || (tracee.state.lock().phase != Phase::Stopped || is_killed(thread, stop.ends)).then_some(());
    // A fatal signal ends it too, unless its process ends anyway.
    while tracee.resumed.wait_until(Sleep::Killable, None, goes).is_err() && !is_killed(thread, stop.ends) {
        thread.task().work.clear(Work::KILL);
    }
    if tracee.state.lock().phase == Phase::Listening {
        listen(thread, &tracee);
    }
    go_on(regs, thread, &tracee)
}

/// Sleeps on until its process is continued, or its tracer wants it to stop anew.
#[cold]
#[inline(never)]
fn listen(thread: &Current, tracee: &Tracee) {
    let signals = &thread.process.signals;
    let hears = || {
        let stays = tracee.state.lock().phase == Phase::Listening
            && signals.is_stopped()
            && !tracee.trap.load(SeqCst)
            && !is_killed(thread, false);
        (!stays).then_some(())
    };
    signals.wait_resumed(hears);
}

fn go_on(regs: &mut UserRegs, thread: &Current, tracee: &Tracee) -> Option<Resumed> {
    let (mut refused, mut mask) = (None, None);
    let (going, resumed) = {
        let mut state = tracee.state.lock();
        if matches!(state.phase, Phase::Stopped | Phase::Listening) {
            // It is to end, or to look again at what its process does.
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
    if going.steps() {
        if !regs.steps() {
            tracee.steps.store(true, Relaxed);
        }
        // Also if it is set already: IRET steps over the next instruction, SYSRET would over none.
        regs.set_steps(true);
    } else if tracee.steps.swap(false, Relaxed) {
        regs.set_steps(false);
    }
    breakpoints::steps_changed(thread);
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
    stop(regs, thread, &Stop { code, why: abi::CLD_TRAPPED, info: Some(info), message, ends: false })
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
#[inline(never)]
pub fn call_begins(regs: &mut UserRegs) -> bool {
    let thread = current();
    let Some(tracee) = thread.tracee() else {
        // Its tracer has gone while it ran.
        thread.task().set_call_traced(false);
        return true;
    };
    thread.task().work.set(CALL_ENDS);
    let going = Going::of(tracee.going.load(Relaxed));
    if going.stops_at_calls() {
        call_stop(regs, &thread, &tracee, CALL_BEGUN);
        return !going.makes_no_call() && !is_killed(&thread, false);
    }
    true
}

/// The call has ended, and its result is in `regs`.
#[cold]
#[inline(never)]
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
#[inline(never)]
pub fn stop_for_signal(regs: &mut UserRegs, thread: &Current, info: Info) -> Option<Info> {
    let before =
        Stop { code: info.signal as i32, why: abi::CLD_TRAPPED, info: Some(info), message: 0, ends: false };
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
#[cold]
#[inline(never)]
pub fn goes_on_through_stop(thread: &Thread) -> bool {
    thread.tracee().is_some_and(|tracee| tracee.told.load(Relaxed) == thread.process.signals.stops())
}

/// It has taken another signal that stops while its process was stopped.
#[cold]
#[inline(never)]
pub fn stopped_anew(thread: &Thread) {
    if let Some(tracee) = thread.tracee() {
        tracee.told.store(0, Relaxed);
    }
}

/// Tells the tracer of the running thread that its process has stopped.
#[cold]
#[inline(never)]
pub fn stop_in_group(regs: &mut UserRegs, thread: &Current) {
    let signals = &thread.process.signals;
    let Some(tracee) = thread.tracee() else { return };
    tracee.told.store(signals.stops(), Relaxed);
    let signal = signals.stop_signal();
    if tracee.seized {
        tracee.tells_end.store(true, Relaxed);
        return event_stop(regs, thread, signal);
    }
    stop(
        regs,
        thread,
        &Stop { code: signal as i32, why: abi::CLD_STOPPED, info: None, message: 0, ends: false },
    );
}

/// A stop that is no signal's, of a thread that is seized.
fn event_stop(regs: &mut UserRegs, thread: &Current, signal: u32) {
    let code = signal as i32 | (requests::PTRACE_EVENT_STOP << 8) as i32;
    let info = Info { signal, ..Info::user_of_thread(thread.tid(), code) };
    stop(regs, thread, &Stop { code, why: abi::CLD_STOPPED, info: Some(info), message: 0, ends: false });
}

/// Does its tracer want the running thread, which is traced, to stop, or to know that the stop of its process is over?
#[cold]
#[inline(never)]
pub fn has_trap(thread: &Thread) -> bool {
    thread.tracee().is_some_and(|tracee| {
        tracee.trap.load(SeqCst) || tracee.tells_end.load(Relaxed) && !thread.process.signals.is_stopped()
    })
}

/// Then it does.
#[cold]
#[inline(never)]
pub fn stop_for_trap(regs: &mut UserRegs, thread: &Current) {
    let signals = &thread.process.signals;
    if signals.is_stopped() {
        return stop_in_group(regs, thread);
    }
    if let Some(tracee) = thread.tracee() {
        tracee.tells_end.store(false, Relaxed);
        tracee.trap.store(false, Relaxed);
    }
    event_stop(regs, thread, abi::SIGTRAP);
}

/// An event of the running thread's own, if its tracer has asked for it by `option`.
fn event(regs: &mut UserRegs, thread: &Current, option: u32, event: u32, message: u64) -> bool {
    let Some(tracee) = thread.tracee() else { return false };
    if options(&tracee) & option == 0 {
        return false;
    }
    trap(regs, thread, (abi::SIGTRAP | event << 8) as i32, message);
    // However it went on, its tracer may see the end of the call that it is in.
    thread.task().work.set(CALL_ENDS);
    true
}

/// To whom a filter has left a call, and what has become of it.
pub enum Left {
    ToNobody,
    ToBeMade,
    /// Its tracer wants none to be made, or the thread is to end.
    Undone,
}

/// A filter leaves the call that the running thread is about to make to its tracer.
#[cold]
#[inline(never)]
pub fn stop_at_filter(regs: &mut UserRegs, thread: &Current, data: u32) -> Left {
    let (option, kind) = (requests::PTRACE_O_TRACESECCOMP, requests::PTRACE_EVENT_SECCOMP);
    if !event(regs, thread, option, kind, data.into()) {
        return Left::ToNobody;
    }
    let is_none = (regs.number() as i32).is_negative();
    if is_none || is_killed(thread, false) { Left::Undone } else { Left::ToBeMade }
}

/// What a tracer has asked to be told of a clone.
#[derive(Clone, Copy)]
pub struct Cloned {
    option: u32,
    event: u32,
}

/// The running thread, which is traced, makes a thread or process: what its tracer is told, who then traces the new one too.
#[cold]
#[inline(never)]
pub fn of_clone(thread: &Current, vfork: bool, exit_signal: u32) -> Option<Cloned> {
    let (option, event) = match (vfork, exit_signal) {
        (true, _) => (requests::PTRACE_O_TRACEVFORK, requests::PTRACE_EVENT_VFORK),
        (false, abi::SIGCHLD) => (requests::PTRACE_O_TRACEFORK, requests::PTRACE_EVENT_FORK),
        (false, _) => (requests::PTRACE_O_TRACECLONE, requests::PTRACE_EVENT_CLONE),
    };
    let asked = options(&*thread.tracee()?) & option != 0;
    asked.then_some(Cloned { option, event })
}

/// It has made number `pid`.
#[cold]
#[inline(never)]
pub fn note_clone(regs: &mut UserRegs, thread: &Current, cloned: Cloned, pid: u32) {
    event(regs, thread, cloned.option, cloned.event, u64::from(pid));
}

/// Its vfork child `pid` has given its memory back.
#[cold]
#[inline(never)]
pub fn note_vfork_done(regs: &mut UserRegs, thread: &Current, pid: u32) {
    let (option, kind) = (requests::PTRACE_O_TRACEVFORKDONE, requests::PTRACE_EVENT_VFORK_DONE);
    event(regs, thread, option, kind, u64::from(pid));
}

/// The running thread is about to end with `status`.
pub fn exits(regs: &UserRegs, status: i32) {
    let thread = current();
    if thread.is_traced() {
        tell_exit(regs, &thread, status);
    }
}

#[cold]
#[inline(never)]
fn tell_exit(regs: &UserRegs, thread: &Current, status: i32) {
    let Some(tracee) = thread.tracee() else { return };
    if options(&tracee) & requests::PTRACE_O_TRACEEXIT == 0 {
        return;
    }
    let code = (abi::SIGTRAP | requests::PTRACE_EVENT_EXIT << 8) as i32;
    let info = Info { signal: abi::SIGTRAP, ..Info::user_of_thread(thread.tid(), code) };
    let message = status.cast_unsigned().into();
    // What its tracer makes of its registers no program sees.
    let mut regs = *regs;
    stop(&mut regs, thread, &Stop { code, why: abi::CLD_TRAPPED, info: Some(info), message, ends: true });
}

/// The running thread is about to enter a handler: is that a step for its tracer? Then TF, which is the tracer's, is not in the handler's frame.
#[cold]
#[inline(never)]
pub fn hides_step(regs: &mut UserRegs, thread: &Thread) -> bool {
    let Some(tracee) = thread.tracee() else { return false };
    if tracee.steps.swap(false, Relaxed) {
        regs.set_steps(false);
        breakpoints::steps_changed(thread);
    }
    let was_step = Going::of(tracee.going.load(Relaxed)).steps();
    if was_step {
        tracee.going.store(Going::On as u8, Relaxed);
    }
    was_step
}

/// It has entered the handler, and that was the step.
#[cold]
#[inline(never)]
pub fn handler_entered(regs: &mut UserRegs, thread: &Current) {
    thread.task().set_call_traced(false);
    // As on Linux the signal that the tracer gives is lost here.
    trap(regs, thread, abi::SIGTRAP as i32, 0);
}

/// The running thread, which is traced, has begun a new program; before it had number `tid`.
#[cold]
#[inline(never)]
pub fn note_exec(regs: &mut UserRegs, thread: &Current, tid: u32) {
    let (option, kind) = (requests::PTRACE_O_TRACEEXEC, requests::PTRACE_EVENT_EXEC);
    let told = event(regs, thread, option, kind, u64::from(tid));
    if told || thread.tracee().is_none_or(|tracee| tracee.seized) {
        return;
    }
    let _ = send::queue_own(thread, Info::user(abi::SIGTRAP, abi::SI_USER as i32), false);
}
