//! Sending signals.
#![forbid(unsafe_code)]

use super::super::wait::Event;
use super::super::{Capability, Current, Pid, Process, Thread, ids, session};
use super::{Action, Allowance, Gone, Info, Run, STOPPING, State, UNBLOCKABLE, bit, errand};
use crate::errno::{Errno, Result};
use crate::fs::file::poll::Pace;
use crate::lock_order as level;
use crate::sched::Work;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use sync::SpinGuard;
use sync::level::Held;
use sync::protocol::mask;

/// Sends to a process; any thread that does not block the signal may take it.
pub fn to_process(process: &Arc<Process>, info: Info) {
    let _ = queue(process, None, info, false);
}

/// As `to_process`, or to one thread, for senders that want to know when a real-time signal could not be queued. False: nobody will see it.
///
/// # Errors
/// EAGAIN.
pub fn queue(
    process: &Arc<Process>,
    thread: Option<&Arc<Thread>>,
    info: Info,
    must_queue: bool,
) -> Result<bool> {
    queue_and(process, thread, info, must_queue, false)
}

/// As `queue`, for system calls: gives way where many threads are told, so the caller holds no spinning lock.
///
/// # Errors
/// EAGAIN.
pub fn queue_resting(
    process: &Arc<Process>,
    thread: Option<&Arc<Thread>>,
    info: Info,
    must_queue: bool,
) -> Result<bool> {
    queue_and(process, thread, info, must_queue, true)
}

fn queue_and(
    process: &Arc<Process>,
    thread: Option<&Arc<Thread>>,
    info: Info,
    must_queue: bool,
    rests: bool,
) -> Result<bool> {
    if process.is_zombie() {
        return Ok(false);
    }
    queue_locked(process, process.signals.state.lock(), thread, info, must_queue, rests)
}

fn queue_locked(
    process: &Arc<Process>,
    mut state: SpinGuard<'_, State, level::ProcessSignals>,
    thread: Option<&Arc<Thread>>,
    info: Info,
    must_queue: bool,
    rests: bool,
) -> Result<bool> {
    let pace = &mut if rests { Pace::resting() } else { Pace::hurried() };
    let this = bit(info.signal);
    if state.dumping && info.signal != abi::SIGKILL {
        return Ok(false);
    }
    let (locked, held) = state.split();
    if info.signal == abi::SIGCONT || STOPPING & this != 0 {
        // Only timers make standard signals many.
        cancel_opposite(process, locked, held, info.signal).drop_soon();
    }
    let Some(action) = process.signals.action(info.signal) else { return Ok(false) };
    if !is_seen(process, thread, &action, &info) {
        return Ok(false);
    }
    let (queue, crowd) = match thread {
        Some(thread) => (&thread.pending, process.signals.crowd()),
        None => (&process.signals.shared, None),
    };
    queue.put(state.held(), crowd, &info, must_queue, Allowance::of(process))?;
    if info.signal == abi::SIGKILL {
        kill_threads(process, state, rests);
        return Ok(true);
    }
    mask::before_choice();
    let mut waits = 0;
    let (taker, are_others) = match thread {
        Some(thread) => ((!blocks(thread, this)).then(|| thread.clone()), false),
        // All are asked below, by who may rest on the way.
        None if rests && process.is_crowd() => (None, true),
        None => process.find_of_first(|t| {
            waits |= t.waits_for();
            !blocks(t, this)
        }),
    };
    if taker.is_none() && are_others {
        drop(state);
        match process.signals.crowd() {
            Some(crowd) if !rests => errand::leave_to_tell(crowd, this),
            _ => tell_threads(process, this),
        }
        return Ok(true);
    }
    if let Some(taker) = taker {
        drop(state);
        taker.notify(fatal(&action, info.signal) && !process.signals.is_traced());
        return Ok(true);
    }
    // sigtimedwait and signalfd wait for blocked signals.
    match thread {
        Some(thread) => {
            thread.notify_waiting(this);
        }
        // Who begins to wait after it was looked at finds the signal queued.
        None if waits & this != 0 => {
            let mut told = super::Told::default();
            process.for_each_thread(|t| told.tell(t, this));
        }
        None => {}
    }
    drop(state);
    process.signals.listeners.wake(pace);
    Ok(true)
}

/// SIGKILL waits for the process: all its threads are told.
fn kill_threads(process: &Arc<Process>, state: SpinGuard<'_, State, level::ProcessSignals>, rests: bool) {
    if rests {
        // Whichever thread takes it tells those that are made meanwhile.
        drop(state);
        process.visit_threads(|t| t.notify(true));
    } else if let (Some(crowd), (_, true)) = (process.signals.crowd(), process.find_of_first(|_| true)) {
        drop(state);
        errand::leave_to_tell(crowd, bit(abi::SIGKILL));
    } else {
        process.for_each_thread(|t| t.notify(true));
        drop(state);
    }
    process.signals.wake_stopped();
}

fn blocks(thread: &Thread, signals: u64) -> bool {
    thread.blocked.get() & signals != 0
}

/// Will anybody come to see the signal? One that is blocked is queued even if it would be ignored: the program may change its mind, or sigwait. Of one for the
/// whole process, the first thread decides, as on Linux.
fn is_seen(process: &Process, thread: Option<&Arc<Thread>>, action: &Action, info: &Info) -> bool {
    if !action.discards(info.signal) && !is_spared(process, action, info) {
        return true;
    }
    // A tracer sees also what would be ignored.
    let sees = |t: &Thread| blocks(t, bit(info.signal)) || t.is_traced();
    match thread {
        Some(thread) => sees(thread),
        None => process.look_at_leader(sees).unwrap_or(false),
    }
}

/// Of the first process, by whoever sends, and to whichever thread. The kernel's own SIGKILL (a hard limit) does reach it.
fn is_spared(process: &Process, action: &Action, info: &Info) -> bool {
    let is_order = bit(info.signal) & UNBLOCKABLE != 0 && info.code == abi::SI_KERNEL as i32;
    process.is_spared() && action.is_default() && !is_order
}

/// As `queue_resting`, to the running thread itself. No lock is taken that other threads take, but for signals that concern them too.
///
/// # Errors
/// EAGAIN.
pub fn queue_own(thread: &Current, info: Info, must_queue: bool) -> Result<bool> {
    let process = &thread.process;
    let this = bit(info.signal);
    if (STOPPING | bit(abi::SIGCONT) | bit(abi::SIGKILL)) & this != 0 || process.signals.is_ending() {
        return queue_resting(process, Some(thread), info, must_queue);
    }
    let Some(action) = process.signals.action(info.signal) else { return Ok(false) };
    if !is_seen(process, Some(thread), &action, &info) {
        return Ok(false);
    }
    let crowd = process.signals.crowd();
    thread.pending.put(&mut Held::clean(), crowd, &info, must_queue, Allowance::of(process))?;
    if blocks(thread, this) {
        process.signals.listeners.wake(&mut Pace::resting());
    } else {
        let kill = if fatal(&action, info.signal) && !process.signals.is_traced() { Work::KILL } else { 0 };
        thread.task().work.set(Work::SIGNAL | kill);
    }
    Ok(true)
}

/// Finds who takes `signals`, which wait for the process: new ones, or such as the running thread has just come to block, and may have been told of. Gives
/// way; no lock is held.
pub(super) fn pass_on(process: &Arc<Process>, signals: u64) {
    if process.thread_count() > 1 {
        tell_threads(process, signals);
    }
}

/// As `pass_on`, for whoever is no thread of the process.
pub(super) fn tell_threads(process: &Arc<Process>, signals: u64) {
    mask::before_choice();
    let (mut left, mut waits) = (signals, 0);
    // One takes it, or each is only looked at.
    process.visit_threads_while(super::crowd::MANY, |thread| {
        waits |= thread.waits_for();
        // Of thousands nearly all block what is left.
        if thread.blocked.get() & left == left {
            return true;
        }
        take(process, thread, &mut left)
    });
    if left != 0 {
        // As above: who begins to wait later finds them.
        if left & waits != 0 {
            super::tell_waiting(process, left);
        }
        process.signals.listeners.wake(&mut Pace::resting());
    }
}

/// `thread` is to take those signals of `left` that it does not block. Are any left?
#[cold]
#[inline(never)]
fn take(process: &Process, thread: &Thread, left: &mut u64) -> bool {
    let signals = *left & !thread.blocked.get();
    *left &= !signals;
    let is_fatal = |signal: u32| {
        !process.signals.is_traced() && process.signals.action(signal).is_some_and(|a| fatal(&a, signal))
    };
    thread.notify((1..=super::COUNT).filter(|s| bit(*s) & signals != 0).any(is_fatal));
    *left != 0
}

/// Will the default action end the process?
pub(super) fn fatal(action: &Action, signal: u32) -> bool {
    action.is_default() && !action.discards(signal) && STOPPING & bit(signal) == 0
}

/// SIGCONT undoes stopping, and a signal that stops undoes SIGCONT, whatever is blocked or ignored.
fn cancel_opposite(
    process: &Arc<Process>,
    state: &mut State,
    held: &mut Held<'_, level::ProcessSignals>,
    signal: u32,
) -> Gone {
    let mut gone = Gone::default();
    if signal == abi::SIGCONT {
        process.signals.shared.discard(held, STOPPING, &mut gone);
        process.signals.discard_of_threads(process, held, STOPPING, &mut gone);
        if state.run == Run::Stopping {
            state.run = Run::Runs;
        }
        if state.run == Run::Stopped {
            process.signals.set_stopped(state, false);
            state.tell_continued = true;
            process.signals.stop_event.store(0, Ordering::Relaxed);
            process.signals.continue_event.store(true, Ordering::Relaxed);
            process.signals.wake_stopped();
            // The parent is told by the first thread that goes on.
        }
    } else {
        let this = bit(abi::SIGCONT);
        process.signals.shared.discard(held, this, &mut gone);
        process.signals.discard_of_threads(process, held, this, &mut gone);
    }
    gone
}

/// Sends a signal of the kernel's.
pub fn kernel(process: &Arc<Process>, signal: u32) {
    to_process(process, Info::kernel(signal));
}

/// A signal that the running thread's own instruction caused. If it is blocked or ignored the process ends by it, as on
/// Linux: the instruction could only cause it again.
pub fn forced(info: Info) {
    let thread = super::super::current();
    let mut state = thread.process.signals.state.lock();
    let this = bit(info.signal);
    let Some(action) = thread.process.signals.action(info.signal) else { return };
    let blocked = thread.blocked.get();
    let resets = blocked & this != 0 || action.is_ignore();
    if resets {
        thread.process.signals.reset_action(info.signal, state.held());
        thread.blocked.change(blocked & !this);
    }
    if resets || action.is_default() {
        thread.process.signals.faulted.store(true, Ordering::Relaxed);
    }
    // Under the same lock: another thread may have it ignored in between.
    let _ = queue_locked(&thread.process, state, Some(&thread), info, false, false);
}

/// `thread`, which has not run yet, gets SIGSTOP before anything else. Of its process nothing changes by that.
pub fn stop_new_thread(thread: &Arc<Thread>) {
    let info = Info { code: abi::SI_USER as i32, ..Info::kernel(abi::SIGSTOP) };
    let process = &thread.process;
    let crowd = process.signals.crowd();
    let _ = thread.pending.put(&mut Held::clean(), crowd, &info, false, Allowance::of(process));
    thread.notify(false);
}

/// Every process of a group. Gives way at times: no spinning lock is held.
pub fn to_group(group: Pid, info: Info) {
    session::for_each_member(group, |p| {
        to_member(p, info);
        true
    });
}

/// To a process of many that are sent it at once, and to those that it forks just now.
pub(super) fn to_member(process: &Arc<Process>, info: Info) {
    if queue(process, None, info, false) == Ok(true) {
        process.note_sent_to_group(info.signal);
    }
}

/// Members of a group that are sent a signal in one go.
const FEW: usize = 64;

/// As `to_group`, a signal of the kernel's, for the lower half of an interrupt, where nobody may rest: if the members are many, it is left to who may.
pub fn to_group_soon(number: Pid, signal: u32) {
    let Some(group) = ids::find_group(number) else { return };
    let mut members = 0usize;
    let are_few = group.visit(false, |_| {
        members = members.saturating_add(1);
        members <= FEW
    });
    if !are_few {
        return errand::leave_to_send(&group, signal);
    }
    group.visit(false, |p| {
        to_member(p, Info::kernel(signal));
        true
    });
}

/// May the running thread send `signal` to `target` (kill(2))?
pub fn permitted(target: &Process, signal: u32) -> bool {
    let caller = super::super::current();
    // A process may always: also where a thread of it has changed its ids alone.
    if core::ptr::eq(target, &*caller.process) {
        return true;
    }
    if signal == abi::SIGCONT && target.session_id() == caller.process.session_id() {
        return true;
    }
    let ids = caller.ids();
    let may = target.look_at_leader(|t| t.look_at_credentials(|theirs| ids.may_signal(theirs)));
    may.flatten().unwrap_or_else(|| ids.uid == target.uid_at_exit()) || caller.capable(Capability::KILL)
}

/// kill(2): `pid` as the call takes it, `signal` 0 to 64.
///
/// # Errors
/// ESRCH, EPERM, EINVAL.
pub fn kill(pid: i32, signal: u32) -> Result {
    let info = Info::user(signal, abi::SI_USER as i32);
    let send = |target: &Arc<Process>| {
        check(target, signal)?;
        match signal {
            0 => {}
            _ if pid > 0 => {
                let _ = queue_resting(target, None, info, false);
            }
            _ => to_member(target, info),
        }
        Ok(())
    };
    let thread = super::super::current();
    let caller = &thread.process;
    if u32::try_from(pid) == Ok(caller.pid()) {
        return send(caller);
    }
    if pid > 0 && signal == 0 {
        return ids::look_at(pid.unsigned_abs(), |target| check(target, 0)).unwrap_or(Err(Errno::ESRCH));
    }
    if pid > 0 {
        return send(&ids::find_process(pid as u32).ok_or(Errno::ESRCH)?);
    }
    let group = match pid {
        0 => caller.group(),
        -1 => return to_all(caller, send),
        i32::MIN => return Err(Errno::ESRCH),
        _ => pid.unsigned_abs(),
    };
    kill_group(group, signal, info)
}

/// Sends `info`, with signal 0 nothing, to those members of a group to whom the running thread may. One that was sent it is enough.
///
/// # Errors
/// Else the last one: EPERM. ESRCH.
pub fn kill_group(group: Pid, signal: u32, info: Info) -> Result {
    let mut result = Err(Errno::ESRCH);
    session::for_each_member(group, |p| {
        let sent = check(p, signal);
        if sent.is_ok() && signal != 0 {
            to_member(p, info);
        }
        if result.is_err() {
            result = sent;
        }
        true
    });
    result
}

/// May the running thread send the signal, if there is such a one? Asked only where there is somebody to send it to.
fn check(target: &Process, signal: u32) -> Result {
    if signal > super::COUNT {
        return Err(Errno::EINVAL);
    }
    if permitted(target, signal) { Ok(()) } else { Err(Errno::EPERM) }
}

/// All processes but the first and the caller. That some may not be sent it is no error, as on Linux.
fn to_all(caller: &Arc<Process>, send: impl Fn(&Arc<Process>) -> Result) -> Result {
    let mut result = Err(Errno::ESRCH);
    ids::walk_processes(|p| {
        if p.pid() != 1 && !Arc::ptr_eq(p, caller) {
            result = send(p).or_else(|e| if e == Errno::EPERM { Ok(()) } else { Err(e) });
        }
        true
    });
    result
}

impl Process {
    /// Is it the first process, which ends by no signal's default action, and stops by none? Its own faults end it.
    pub(super) fn is_spared(&self) -> bool {
        self.pid() == 1 && !self.signals.faulted.load(Ordering::Relaxed)
    }

    /// The signal that tells `parent` of its end. A program that did not make it has not asked for another than SIGCHLD, and may be its
    /// better (a set-user-id one).
    pub fn signal_to(&self, parent: &Self) -> u32 {
        if parent.programs.load(Ordering::Relaxed) != self.parents_programs {
            return abi::SIGCHLD;
        }
        self.exit_signal.load(Ordering::Relaxed)
    }
}

/// Tells `parent` by signal what became of `child`.
pub fn child_event(parent: &Arc<Process>, child: &Process, event: Event) {
    let stopped = event.code == abi::CLD_STOPPED || event.code == abi::CLD_CONTINUED;
    let signal = if stopped { abi::SIGCHLD } else { child.signal_to(parent) };
    if signal == 0 {
        return;
    }
    let action = parent.signals.action(abi::SIGCHLD).unwrap_or_default();
    if signal == abi::SIGCHLD && stopped && action.has(abi::SA_NOCLDSTOP) {
        return;
    }
    const NS_PER_TICK: u64 = 10_000_000;
    let (user, system) = (event.usage.user_ns / NS_PER_TICK, event.usage.system_ns / NS_PER_TICK);
    let info = Info::child(event.code, event.pid, event.uid, event.info_status(), user, system);
    to_process(parent, Info { signal, ..info });
}
