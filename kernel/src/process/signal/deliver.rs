//! Delivery: what a thread does on its way back to user mode.
//!
//! The order is Linux's: bottom halves and rescheduling, then the end of the process if that was decided, stopping, and
//! signals until one has a handler or none is left. A system call that a signal interrupted is restarted or not as its
//! result and the handler's flags say (signal(7)).
#![forbid(unsafe_code)]

use super::super::ptrace::breakpoints;
use super::super::{Current, Process, Thread, dump, exit, family, limits, ptrace, rseq, timer::posix, wait};
use super::{Action, Info, Run, STOPPING, UNBLOCKABLE, bit, send};
use crate::arch::UserRegs;
use crate::arch::signal_frame::{self, Delivery, SignalStack};
use crate::errno::{ERESTART_RESTARTBLOCK, ERESTARTNOHAND, ERESTARTNOINTR, ERESTARTSYS, Errno};
use crate::sched::{self, Sleep, Task, Work};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use sync::level::Held;
use sync::protocol::mask;

/// Work flag: a saved mask waits to be put back (sigsuspend, ppoll, pselect, epoll_pwait).
pub const RESTORE_MASK: u32 = Work::PROCESS << 1;

/// Everything that has to be done before user mode. Called with interrupts enabled and no lock held, until no work is
/// left.
pub fn return_work(regs: &mut UserRegs) {
    sched::run_pending();
    let task = sched::current();
    if task.work.any(Work::RESCHED) {
        sched::schedule();
    }
    let process = &super::super::current().process;
    limits::check_cpu_time(process);
    process.itimers.check_cpu(process);
    if task.work.any(
        super::super::exec::FIRST_EXEC
            | rseq::MOVED
            | super::super::TELLS
            | ptrace::CALL_ENDS
            | breakpoints::LOADS
            | Work::REALTIME
            | Work::QUOTA,
    ) {
        seldom_work(regs, &task, process);
    }
    if task.work.any(Work::SIGNAL | Work::KILL) {
        deliver(regs);
    } else if task.work.any(RESTORE_MASK) {
        // No signal came, or none that ends in a handler.
        restore_saved_mask(&super::super::current());
    }
}

/// The part of `return_work` that most threads have nothing to do with.
fn seldom_work(regs: &mut UserRegs, task: &Task, process: &Arc<Process>) {
    super::super::tell_of_closed();
    if task.work.any(Work::REALTIME) {
        task.work.clear(Work::REALTIME);
        limits::check_realtime(process);
    }
    if task.work.any(Work::QUOTA) {
        // Here it holds nothing that others wait for.
        sched::wait_for_quota();
    }
    if task.work.any(super::super::exec::FIRST_EXEC) {
        super::super::exec::first(regs);
    }
    if task.work.any(rseq::MOVED) {
        rseq::resume(regs);
    }
    if task.work.any(breakpoints::LOADS) {
        breakpoints::load(regs);
    }
    if task.work.any(ptrace::CALL_ENDS) {
        // Before signals, as on Linux.
        ptrace::call_ends(regs);
    }
}

/// A signal that was taken, and what its process has said of it. It stays where it is: copies would be most of what a signal costs.
struct Taken {
    info: Info,
    action: Action,
}

/// What is to be done about it.
enum Verdict {
    Nothing,
    Handle,
    End,
    Stop,
}

/// Its frame is large, and is not to lie below that of an exec, which `return_work` may go into too.
#[inline(never)]
fn deliver(regs: &mut UserRegs) {
    let thread = super::super::current();
    sched::current().work.clear(Work::SIGNAL | Work::KILL);
    mask::before_look();
    let mut taken = Taken { info: Info::kernel(0), action: Action::default() };
    loop {
        if thread.process.signals.must_end(&thread) {
            dump::take_part(regs, &thread);
            let status = thread.process.signals.exit_status().unwrap_or(0);
            ptrace::exits(regs, status);
            exit::exit_thread(status);
        }
        if thread.process.signals.is_stopped()
            && !(thread.is_traced() && ptrace::goes_on_through_stop(&thread))
        {
            if thread.is_traced() {
                ptrace::stop_in_group(regs, &thread);
                tell_continued(&thread);
            } else {
                wait_for_continue(&thread);
            }
            continue;
        }
        if thread.is_traced() && ptrace::has_trap(&thread) {
            ptrace::stop_for_trap(regs, &thread);
            continue;
        }
        match next(regs, &thread, &mut taken) {
            Verdict::Nothing => break,
            Verdict::End => end(regs, &thread, &taken.info),
            Verdict::Stop => {
                let stopped = stop(&thread, taken.info.signal);
                if stopped && thread.is_traced() {
                    ptrace::stopped_anew(&thread);
                } else if stopped {
                    // Also where the parent, just told, has continued it by now: that is to be told too.
                    wait_for_continue(&thread);
                }
            }
            Verdict::Handle => {
                let was_step = thread.is_traced() && ptrace::hides_step(regs, &thread);
                restart(regs, Some(&taken.action));
                if !handle(regs, &thread, &taken) {
                    end(regs, &thread, &Info::kernel(abi::SIGSEGV));
                }
                if was_step {
                    ptrace::handler_entered(regs, &thread);
                }
                return;
            }
        }
    }
    // The signal of a sigreturn to bad segments ended in its handler or with the process. Whatever else there was, the way out is sound.
    regs.mend_segments();
    restart(regs, None);
    restore_saved_mask(&thread);
}

/// The process ends by a signal, and leaves a core if that is due.
pub fn end(regs: &UserRegs, thread: &Current, info: &Info) -> ! {
    dump::write(regs, thread, info);
    let status = exit::begin_exit_group(info.signal as i32);
    ptrace::exits(regs, status);
    exit::exit_group(status)
}

/// Takes the next signal and decides.
fn next(regs: &mut UserRegs, thread: &Current, taken: &mut Taken) -> Verdict {
    let process = &thread.process;
    loop {
        let is_traced = thread.is_traced();
        if take(thread, thread.blocked.get(), is_traced, taken).is_none() {
            return Verdict::Nothing;
        }
        if is_traced && ask_tracer(regs, thread, taken).is_none() {
            continue;
        }
        let Taken { info, action } = taken;
        if action.discards(info.signal) {
            continue;
        }
        if !action.is_default() && bit(info.signal) & UNBLOCKABLE == 0 {
            // More may wait: the handler's mask, once it is set, looks again.
            return Verdict::Handle;
        }
        // It was blocked when it was sent.
        if process.is_spared() && bit(info.signal) & UNBLOCKABLE == 0 {
            continue;
        }
        if STOPPING & bit(info.signal) != 0 {
            if info.signal != abi::SIGSTOP && super::super::session::is_orphaned(process.group(), None) {
                continue;
            }
            return Verdict::Stop;
        }
        return Verdict::End;
    }
}

/// The running thread, which is traced, has taken a signal: what its tracer makes of it. None: nothing.
#[cold]
#[inline(never)]
fn ask_tracer(regs: &mut UserRegs, thread: &Current, taken: &mut Taken) -> Option<()> {
    let info = taken.info;
    let signals = &thread.process.signals;
    let decided =
        if info.signal == abi::SIGKILL { Some(info) } else { ptrace::stop_for_signal(regs, thread, info) };
    let action = decided.and_then(|info| signals.action(info.signal));
    let stops = |signal: u32, action: &Action| {
        STOPPING & bit(signal) != 0 && (action.is_default() || signal == abi::SIGSTOP)
    };
    let is_stop = decided.zip(action).is_some_and(|(info, action)| stops(info.signal, &action));
    let was_stop = signals.action(info.signal).is_some_and(|action| stops(info.signal, &action));
    if is_stop != was_stop {
        // SIGCONT finds a stop that the tracer has made of it, and none of which it has made something else.
        let mut state = signals.state.lock();
        match state.run {
            Run::Runs if is_stop => state.run = Run::Stopping,
            Run::Stopping if !is_stop => state.run = Run::Runs,
            _ => {}
        }
    }
    *taken = Taken { info: decided?, action: action? };
    if taken.action.has(abi::SA_RESETHAND) && !taken.action.is_default() {
        taken.action = signals.take_handler(taken.info.signal)?;
    }
    Some(())
}

/// Takes the next signal that is not blocked, with what is to be done about it. None: there is none.
fn take(thread: &Current, blocked: u64, is_traced: bool, taken: &mut Taken) -> Option<()> {
    let signals = &thread.process.signals;
    let (own, shared) = (thread.pending_signals() & !blocked, signals.shared.set() & !blocked);
    if own | shared == 0 {
        return None;
    }
    if shared == 0 && own & (STOPPING | bit(abi::SIGKILL)) == 0 {
        // The thread's own affair.
        taken.info = thread.pending.take(
            &mut Held::clean(),
            signals.crowd(),
            blocked | STOPPING | bit(abi::SIGKILL),
        )?;
        taken.action = signals.action(taken.info.signal)?;
    } else {
        let mut state = signals.state.lock();
        let own = thread.pending.take(state.held(), signals.crowd(), blocked);
        taken.info = own.or_else(|| signals.shared.take(state.held(), None, blocked))?;
        taken.action = signals.action(taken.info.signal)?;
        let (signal, action) = (taken.info.signal, &taken.action);
        let is_spared = thread.process.is_spared() && bit(signal) & UNBLOCKABLE == 0;
        state.fated |= send::fatal(action, signal) && !is_spared && !is_traced;
        // SIGCONT finds a stop signal in a queue, or that it was taken.
        if STOPPING & bit(signal) != 0
            && (action.is_default() || signal == abi::SIGSTOP)
            && state.run == Run::Runs
        {
            state.run = Run::Stopping;
        }
    }
    posix::delivered(&mut taken.info);
    // What a tracer makes of it comes first.
    if taken.action.has(abi::SA_RESETHAND) && !taken.action.is_default() && !is_traced {
        taken.action = signals.take_handler(taken.info.signal)?;
    }
    Some(())
}

/// The default action of a stop signal. False: the process ends, or was continued since the signal was taken.
fn stop(thread: &Current, signal: u32) -> bool {
    let process = &thread.process;
    // The process is stopped; and by this thread.
    let stop = |order: &mut family::Order<'_>| {
        let mut state = process.signals.state.lock_in(order);
        if state.exit.is_some() || state.run != Run::Stopping {
            return (state.run == Run::Stopped, false);
        }
        process.signals.set_stopped(&mut state, true);
        state.tell_continued = false;
        process.signals.continue_event.store(false, Ordering::Relaxed);
        process.signals.stop_signal.store(signal, Ordering::Relaxed);
        (true, true)
    };
    let stopped = family::with_parent(process, |parent, children, order| {
        let (stopped, stops) = stop(order);
        // A parent that traces it is told by the threads, as their tracer.
        let tells = stops && !ptrace::leader_is_traced_by(process, parent);
        if tells {
            process.signals.stop_event.store(signal, Ordering::Relaxed);
        }
        children.update(process);
        (stopped, stops, tells)
    });
    let (stopped, stops, tells) = stopped.unwrap_or_default();
    if stops {
        process.visit_threads(|t| t.notify(false));
    }
    if tells {
        tell_parent(process, abi::CLD_STOPPED, signal as i32);
    }
    stopped
}

fn wait_for_continue(thread: &Current) {
    let signals = &thread.process.signals;
    // Who is traced from now on stops for its tracer.
    let go = || (!signals.is_stopped() || signals.must_end(thread) || thread.is_traced()).then_some(());
    // A fatal signal ends the sleep, and is found by the caller's loop.
    let killed = signals.resumed.wait_shared(Sleep::Killable, None, go).is_err();
    if signals.go_on(killed) {
        tell_parent(&thread.process, abi::CLD_CONTINUED, abi::SIGCONT as i32);
    }
}

fn tell_parent(process: &Arc<Process>, code: u32, signal: i32) {
    let Some(parent) = process.family.parent() else { return };
    let status = if code == abi::CLD_STOPPED { signal << 8 | 0x7f } else { 0xffff };
    let event =
        wait::Event { pid: process.pid(), uid: process.uid_at_exit(), code, status, usage: process.usage() };
    super::send::child_event(&parent, process, event);
    family::with_parent(process, |parent, children, _| {
        children.update(process);
        parent.family.events.wake_all();
    });
}

/// Turns the internal results of interrupted system calls into a restart or EINTR.
#[expect(clippy::arithmetic_side_effects, reason = "no call's result is the least number")]
fn restart(regs: &mut UserRegs, handler: Option<&Action>) {
    if !regs.in_syscall() {
        return;
    }
    let result = regs.result();
    let Ok(errno) = i32::try_from(-result).map(Errno) else { return };
    let again = match errno {
        ERESTARTSYS => handler.is_none_or(|a| a.has(abi::SA_RESTART)),
        ERESTARTNOINTR => true,
        ERESTARTNOHAND | ERESTART_RESTARTBLOCK => handler.is_none(),
        _ => return,
    };
    if !again {
        regs.set_result(-(Errno::EINTR.0 as isize));
    } else if errno == ERESTART_RESTARTBLOCK {
        regs.restart_with(abi::__NR_restart_syscall as usize);
    } else {
        regs.restart_syscall();
    }
}

/// Tells the parent that the running thread's process, which it has seen stopped, goes on, if it is the one to tell.
#[cold]
#[inline(never)]
fn tell_continued(thread: &Current) {
    if thread.process.signals.go_on(false) {
        tell_parent(&thread.process, abi::CLD_CONTINUED, abi::SIGCONT as i32);
    }
}

/// Makes `regs` enter the handler. False: that of SIGSEGV could not be entered, and the process is to end; by the caller, on whose stack is less.
fn handle(regs: &mut UserRegs, thread: &Current, taken: &Taken) -> bool {
    let Taken { info, action } = taken;
    let altstack = *thread.altstack.lock();
    let on_it = altstack.contains(regs.sp());
    let saved = thread.saved_mask.take();
    sched::current().work.clear(RESTORE_MASK);
    let blocked = thread.blocked.get();
    let mask = saved.unwrap_or(blocked);
    let flags = if altstack.size == 0 {
        abi::SS_DISABLE
    } else if on_it {
        abi::SS_ONSTACK
    } else {
        0
    };
    let delivery = Delivery {
        signal: info.signal,
        handler: action.handler,
        restorer: action.restorer,
        info: &info.to_bytes(),
        mask,
        stack: SignalStack {
            sp: altstack.sp as u64,
            flags: flags | altstack.flags,
            pad: 0,
            size: altstack.size as u64,
        },
        switch_stack: action.has(abi::SA_ONSTACK) && altstack.size != 0 && !on_it,
        trap: *thread.trap.lock(),
    };
    let entered = rseq::interrupted(thread, regs).is_ok() && signal_frame::setup(regs, &delivery).is_ok();
    if !entered {
        // Linux: a frame that cannot be written is a SIGSEGV; for SIGSEGV itself the default action.
        if info.signal == abi::SIGSEGV {
            return false;
        }
        super::send::forced(Info::kernel(abi::SIGSEGV));
        return true;
    }
    if altstack.disarms() {
        *thread.altstack.lock() = super::AltStack::NONE;
    }
    let mut now = blocked | action.mask;
    if !action.has(abi::SA_NODEFER) {
        now |= bit(info.signal);
    }
    set_blocked(thread, now);
    true
}

/// Sets the running thread's mask; signals that are no longer blocked are delivered on the way out, and those for the whole process that are from now on
/// are left to other threads. Gives way; no lock is held.
pub fn set_blocked(thread: &Current, mask: u64) {
    let mask = mask & !UNBLOCKABLE;
    let before = thread.blocked.change(mask);
    let shared = thread.process.signals.shared.set();
    if (thread.pending.set() | shared) & !mask != 0 {
        sched::current().work.set(Work::SIGNAL);
    }
    let left = shared & mask & !before;
    if left != 0 {
        super::send::pass_on(&thread.process, left);
    }
}

/// The thread ends: it takes no signal any more. Gives way; no lock is held.
pub fn leave_to_others(thread: &Thread) {
    let before = thread.blocked.change(u64::MAX);
    let left = thread.process.signals.shared.set() & !before;
    if left != 0 {
        super::send::pass_on(&thread.process, left);
    }
}

fn restore_saved_mask(thread: &Current) {
    sched::current().work.clear(RESTORE_MASK);
    let saved = thread.saved_mask.take();
    if let Some(mask) = saved {
        set_blocked(thread, mask);
    }
}

/// rt_sigreturn(2): goes back to what the handler interrupted.
pub fn sigreturn(regs: &mut UserRegs) {
    let thread = super::super::current();
    match signal_frame::restore(regs) {
        Ok(returned) => {
            set_blocked(&thread, returned.mask);
            if !returned.whole {
                super::send::forced(Info::kernel(abi::SIGSEGV));
                return;
            }
            let stack = returned.stack;
            let sp_now = regs.sp();
            let mut altstack = thread.altstack.lock();
            if !altstack.contains(sp_now) {
                let disabled = stack.flags & abi::SS_DISABLE != 0;
                *altstack = if disabled {
                    let flags = abi::SS_DISABLE | stack.flags & abi::SS_AUTODISARM;
                    super::AltStack { flags, ..super::AltStack::NONE }
                } else {
                    let flags = stack.flags & abi::SS_AUTODISARM;
                    super::AltStack { sp: stack.sp as usize, size: stack.size as usize, flags }
                };
            }
            drop(altstack);
            // As on Linux a sleep that the handler interrupted is not gone on with after it.
            *thread.restart.lock() = (None, 0);
            if let Some(trap) = returned.trap {
                *thread.trap.lock() = trap;
                super::send::forced(Info::kernel(abi::SIGSEGV));
                // `deliver` mends the segments, also if another thread has the signal ignored by then.
                sched::current().work.set(Work::SIGNAL);
            }
        }
        Err(_) => super::send::forced(Info::kernel(abi::SIGSEGV)),
    }
}
