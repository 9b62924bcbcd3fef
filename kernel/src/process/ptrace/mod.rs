//! Who traces whom (ptrace(2)).
//!
//! ```text
//!            link                  stop (tracee)              Tracer waits: `event` is taken
//!   nobody ---------> Runs ----------------------> Stopped <---> Listening (PTRACE_LISTEN: its process stays stopped)
//!     ^                ^ <-------- resume ----------+  |
//!     |                |                               | detach, or the tracer ends
//!     +--- let_go -----+---------------- Detached <----+
//!                      +--- the thread ends ---> Ended ---- the tracer waits, or ends ---> let_go
//! ```
//!
//! * `stop`     the traced thread's side: where it stops, and how it goes on
//! * `look`     the tracer's side: waiting
//! * `request`  the tracer's side: what it asks of a stopped thread
//! * `breakpoints`  the debug registers that it may set
//! * `going`    how a thread goes on until its next stop
//! * `table`    whom the threads of a process trace
//!
//! A thread that is traced leads to a [`Tracee`], which leads back to it and to its tracer, a thread. The tracer's process keeps all of them in one table
//! ([`Tracees`]). These are circles; `let_go` breaks them: when the tracer detaches or ends, or has waited for the thread's end.
//!
//! Nobody reaches into a thread that is stopped: it leaves its registers in its `Tracee` and takes them up again when it goes on. What a tracer writes there is
//! checked when it is written, and again by the door to the machine when it is taken up.
//!
//! Invariants:
//! * A thread has one tracer at most: `Thread::traced` is filled only where it is empty.
//! * What is in a table is let go by whoever takes it out of there, once.
//! * A thread that is ending is not linked, nor is one linked to a tracer that is ending: each says that it ends (`exiting`) and then looks; who links fills in and
//!   then looks whether the other ends. Both put a full fence between.
//! * The end of a process whose leader another process traces is held back from its parent until the tracer has waited (`Tracees::holds_end`).
//!
//! Who is not traced pays a look at a word of its own thread, and only where it gets a signal, stops, executes, forks with CLONE_PTRACE, or ends. Stops at system calls
//! go by the flag that filters have too (`Task::is_watched`).
//!
//! LockOrder: a parent's `children` → the table of a tracer's process → a `Tracee`'s state. Signals are sent and sleepers woken under neither.
#![forbid(unsafe_code)]

pub mod breakpoints;
mod going;
mod look;
mod request;
mod stop;
mod table;

pub use breakpoints::Breakpoints;
pub use going::Going;
pub use look::{Seen, look};
pub use request::*;
pub use stop::{
    CALL_ENDS, Cloned, Left, call_begins, call_ends, exits, goes_on_through_stop, handler_entered, has_trap,
    hides_step, note_clone, note_exec, note_vfork_done, of_clone, stop_at_filter, stop_for_signal,
    stop_for_trap, stop_in_group, stopped_anew,
};
pub use table::Tracees;

use super::signal::{Info, send};
use super::{Capability, Current, Pid, Process, Thread, family, ids};
use crate::arch::{CORE_REGISTERS, FpuState};
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::sched::{self, WaitQueue};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
use linux_raw_sys::general as abi;
use linux_raw_sys::ptrace as requests;
use sync::rcu::RcuHead;
use sync::{SpinLock, lock_class, rcu, try_arc};
use table::NO_PLACE;

lock_class! {
    static TRACED: LockClass = ("traced thread", level::Traced);
}

/// What a traced thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Runs,
    Stopped,
    /// Stopped with its process, and its tracer wants to know when that goes on.
    Listening,
    /// It, or its process, has ended, with this wait status.
    Ended(i32),
    /// It is traced no more.
    Detached,
}

/// What has been changed of a stopped thread.
#[derive(Clone, Copy, Default)]
struct Changed {
    registers: bool,
    vectors: bool,
    mask: bool,
}

/// What is known of a traced thread.
struct State {
    phase: Phase,
    /// The stop for which nobody has waited yet: the signal, and above it what else tells stops apart.
    event: Option<i32>,
    options: u32,
    /// What PTRACE_GETEVENTMSG tells.
    message: u64,
    /// The signal that it has stopped with; None in a stop of its group.
    info: Option<Info>,
    /// Its registers while it is stopped.
    registers: [u64; CORE_REGISTERS],
    vectors: FpuState,
    mask: u64,
    changed: Changed,
    /// Its process ends, and no signal ends this stop.
    is_last: bool,
    /// How it is to go on, and with which signal.
    going: Going,
    signal: u32,
}

/// A thread that is traced.
pub struct Tracee {
    thread: Arc<Thread>,
    tracer: Arc<Thread>,
    /// The tracer could trace any process when it began (CAP_SYS_PTRACE).
    capable: bool,
    /// By PTRACE_SEIZE, with stops that are told apart from signals.
    seized: bool,
    /// Its tracer wants it to stop (PTRACE_INTERRUPT). Any stop will do.
    trap: AtomicBool,
    /// Its place in its tracer's table. Written under the table's lock.
    place: AtomicU32,
    state: SpinLock<State, level::Traced>,
    /// The thread waits here while it is stopped.
    resumed: WaitQueue,
    /// `Going`, as the thread itself knows it. It alone uses this and the next three.
    going: AtomicU8,
    /// TF is set for its tracer's sake.
    steps: AtomicBool,
    /// The stop of its process that it has told of (`Signals::stops`), and whether it is still to tell that this is over, if it is seized.
    told: AtomicU32,
    tells_end: AtomicBool,
    rcu: RcuHead,
}

sync::rcu_object!(Tracee);

impl Tracee {
    fn tid(&self) -> Pid {
        self.thread.tid()
    }

    /// Is the running thread its tracer?
    fn is_traced_by(&self, caller: &Current) -> bool {
        Arc::ptr_eq(&self.tracer, caller)
    }

    /// Its tracer may wait for something else than before.
    fn wake_tracer(&self) {
        let process = &self.tracer.process;
        process.tracees.note_change();
        process.family.events.wake_all();
    }

    /// Tells its tracer by signal and wakes it. No lock is held.
    fn tell_tracer(&self, why: u32, status: i32) {
        const NS_PER_TICK: u64 = 10_000_000;
        let (tracer, process) = (&self.tracer.process, &self.thread.process);
        let action = tracer.signals.action(abi::SIGCHLD).unwrap_or_default();
        let is_stop = matches!(why, abi::CLD_TRAPPED | abi::CLD_STOPPED);
        if !(is_stop && (action.is_ignore() || action.has(abi::SA_NOCLDSTOP))) {
            let usage = process.usage();
            let (user, system) = (usage.user_ns / NS_PER_TICK, usage.system_ns / NS_PER_TICK);
            let info = Info::child(why, self.tid(), process.uid_at_exit(), status, user, system);
            send::to_process(tracer, info);
        }
        self.wake_tracer();
    }

    /// It is traced no more; whoever took it out of its table calls this. If it is stopped it goes on with `signal`. No lock is held.
    fn let_go(&self, signal: u32) {
        let thread = &self.thread;
        let before = {
            let mut state = self.state.lock();
            let before = core::mem::replace(&mut state.phase, Phase::Detached);
            if matches!(before, Phase::Stopped | Phase::Listening) {
                (state.going, state.signal) = (Going::On, signal);
            }
            before
        };
        let is_this = |tracee: &Tracee| core::ptr::eq(tracee, self);
        let leads = thread.process.traced.load(&rcu::read()).is_some_and(is_this);
        if leads {
            thread.process.traced.swap(None);
        }
        thread.traced.swap(None);
        thread.process.signals.note_traced(false);
        match before {
            Phase::Stopped | Phase::Listening => {
                // It also looks for what came meanwhile: its process may be stopped.
                thread.notify(false);
                self.resumed.wake_all();
                thread.process.signals.wake_stopped();
            }
            Phase::Runs => thread.notify(false),
            Phase::Ended(_) if leads => release_end(&thread.process),
            Phase::Ended(_) | Phase::Detached => {}
        }
    }
}

impl Thread {
    /// Is it traced just now?
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        !self.traced.is_empty()
    }

    fn tracee(&self) -> Option<Arc<Tracee>> {
        if self.traced.is_empty() { None } else { self.traced.get(&rcu::read()) }
    }

    pub fn has_stopped_for_tracer(&self) -> bool {
        let stopped =
            |tracee: Arc<Tracee>| matches!(tracee.state.lock().phase, Phase::Stopped | Phase::Listening);
        self.tracee().is_some_and(stopped)
    }

    /// The number of the thread that traces it; 0: none does.
    pub fn tracer_tid(&self) -> Pid {
        self.tracee().map_or(0, |tracee| tracee.tracer.tid())
    }

    /// Is it traced by somebody who could not trace any process when he began? Its program then gets no new privileges (execve(2)).
    pub fn has_weak_tracer(&self) -> bool {
        self.tracee().is_some_and(|tracee| !tracee.capable)
    }
}

/// How a thread is traced.
#[derive(Clone, Copy, Default)]
struct How {
    options: u32,
    capable: bool,
    seized: bool,
}

/// `thread` is traced by `tracer` from now on.
///
/// # Errors
/// EPERM: it is traced already, or ends. ESRCH: the tracer ends. ENOMEM.
fn link(thread: &Arc<Thread>, tracer: &Arc<Thread>, how: How) -> Result<Arc<Tracee>> {
    let How { options, capable, seized } = how;
    let state = State {
        phase: Phase::Runs,
        event: None,
        options,
        message: 0,
        info: None,
        registers: [0; CORE_REGISTERS],
        vectors: FpuState::try_new().ok_or(Errno::ENOMEM)?,
        mask: 0,
        changed: Changed::default(),
        is_last: false,
        going: Going::On,
        signal: 0,
    };
    let tracee = try_arc(Tracee {
        thread: thread.clone(),
        tracer: tracer.clone(),
        capable,
        seized,
        trap: AtomicBool::new(false),
        place: AtomicU32::new(NO_PLACE),
        state: SpinLock::new(state, &TRACED),
        resumed: WaitQueue::new(),
        going: AtomicU8::new(Going::On as u8),
        steps: AtomicBool::new(false),
        told: AtomicU32::new(0),
        tells_end: AtomicBool::new(false),
        rcu: RcuHead::new(),
    })?;
    let process = &thread.process;
    // Before it is: who sends it a signal is not to end it by that.
    process.signals.note_traced(true);
    if let Err(tracee) = thread.traced.put_if_empty(tracee.clone()) {
        process.signals.note_traced(false);
        drop(tracee);
        return Err(Errno::EPERM);
    }
    fence(Ordering::SeqCst);
    if thread.tid() == process.pid() {
        process.traced.swap(Some(tracee.clone()));
    }
    let put = tracer.process.tracees.put(&tracee);
    fence(Ordering::SeqCst);
    let refused = if put.is_err() {
        tracee.let_go(0);
        Some(Errno::ENOMEM)
    } else if thread.exiting.load(Ordering::SeqCst) {
        Some(Errno::EPERM)
    } else if tracer.exiting.load(Ordering::SeqCst) {
        Some(Errno::ESRCH)
    } else {
        None
    };
    if let Some(errno) = refused {
        if tracer.process.tracees.take_out(&tracee) {
            tracee.let_go(0);
        }
        return Err(errno);
    }
    tracee.wake_tracer();
    Ok(tracee)
}

/// `child`, which `parent` has made and which has not run yet, gets `parent`'s tracer, and stops at once.
#[cold]
#[inline(never)]
pub fn hand_on(parent: &Thread, child: &Arc<Thread>) {
    let Some(tracee) = parent.tracee() else { return };
    let options = tracee.state.lock().options;
    let how = How { options, capable: tracee.capable, seized: tracee.seized };
    let Ok(own) = link(child, &tracee.tracer, how) else { return };
    if own.seized {
        own.trap.store(true, Ordering::SeqCst);
        child.notify(false);
    } else {
        send::stop_new_thread(child);
    }
}

/// Exec has made `thread` the leader. That a tracer had of the one before it learns of no more, as on Linux.
pub(super) fn leads_now(thread: &Thread) {
    fence(Ordering::SeqCst);
    let process = &thread.process;
    let before = process.traced.get(&rcu::read());
    if let Some(before) = before
        && !core::ptr::eq(&*before.thread, thread)
    {
        if before.tracer.process.tracees.take_out(&before) {
            before.let_go(0);
        }
        before.wake_tracer();
    }
    if let Some(tracee) = thread.tracee() {
        process.traced.swap(Some(tracee));
    }
}

/// Is the leader of `process` traced by a thread of `other`?
pub fn leader_is_traced_by(process: &Process, other: &Process) -> bool {
    let is_by = |tracee: &Tracee| core::ptr::eq(&*tracee.tracer.process, other);
    !process.traced.is_empty() && process.traced.load(&rcu::read()).is_some_and(is_by)
}

/// The running thread has ended with `status` and was no leader, of whose end only `process_ends` tells. No lock is held.
#[cold]
#[inline(never)]
pub(super) fn thread_ends(thread: &Thread, status: i32) {
    let Some(tracee) = thread.tracee() else { return };
    {
        let mut state = tracee.state.lock();
        if state.phase == Phase::Detached {
            return;
        }
        state.phase = Phase::Ended(status);
    }
    let (why, told) = end_of(status);
    tracee.tell_tracer(why, told);
}

/// si_code and si_status of a wait status.
fn end_of(status: i32) -> (u32, i32) {
    match status & 0x7f {
        0 => (abi::CLD_EXITED, status >> 8 & 0xff),
        signal if status & 0x80 != 0 => (abi::CLD_DUMPED, signal),
        signal => (abi::CLD_KILLED, signal),
    }
}

/// `process`, whose leader is traced, has ended; its status is set. True: its tracer is told first, and its parent when that has waited (`release_end`).
#[cold]
#[inline(never)]
pub(super) fn process_ends(process: &Arc<Process>) -> bool {
    let Some(tracee) = process.traced.get(&rcu::read()) else { return false };
    if tracee.tracer.process.pid() == process.parent_pid() {
        // As its child it is waited for like any other.
        process.tracees.ended_traced.store(true, Ordering::Relaxed);
        if tracee.tracer.process.tracees.take_out(&tracee) {
            tracee.let_go(0);
        }
        tracee.tracer.process.tracees.note_change();
        return false;
    }
    let status = process.status.load(Ordering::Acquire);
    {
        let mut state = tracee.state.lock();
        if state.phase == Phase::Detached {
            return false;
        }
        state.phase = Phase::Ended(status);
        process.tracees.holds_end.store(true, Ordering::Release);
        process.zombie.store(true, Ordering::Release);
    }
    let (why, told) = end_of(status);
    tracee.tell_tracer(why, told);
    process.watched.wake();
    true
}

/// The end of `process` is not held back any more: its parent is told. No lock is held.
fn release_end(process: &Arc<Process>) {
    let ended = family::with_parent(process, |parent, children, _| {
        process.tracees.holds_end.store(false, Ordering::Release);
        (parent.clone(), family::end(parent, process, children))
    });
    if let Some((parent, end)) = ended {
        family::tell_end(&parent, process, end);
    }
}

/// The running thread ends: those whom it traces are traced no more. Gives way.
pub(super) fn tracer_ends(thread: &Arc<Thread>) {
    let tracees = &thread.process.tracees;
    // It has said that it ends before it looks (`exiting`), both in the one order of such accesses; `Tracees::put` and `link` the other way round.
    if tracees.any.load(Ordering::SeqCst) {
        let mut from = 0;
        while let Some(tracee) = tracees.next_of(thread, &mut from) {
            if let Some(tracee) = tracee
                && tracees.take_out(&tracee)
            {
                let kills = tracee.state.lock().options & requests::PTRACE_O_EXITKILL != 0;
                tracee.let_go(0);
                if kills {
                    let info = Info::kernel(abi::SIGKILL);
                    let _ = send::queue_resting(&tracee.thread.process, Some(&tracee.thread), info, false);
                }
            }
            // The end of a thread is not ended early.
            let _ = sched::give_way();
        }
        // Another thread may wait for one of them, which is now nobody's.
        tracees.note_change();
        thread.process.family.events.wake_all();
    }
}

/// PTRACE_TRACEME: the thread that made the running thread's process traces it from now on.
///
/// # Errors
/// EPERM: it is traced already, or its parent may not trace it. ENOMEM.
pub fn trace_me() -> Result {
    let caller = super::current();
    if caller.is_traced() {
        return Err(Errno::EPERM);
    }
    let Some(parent) = caller.process.family.parent() else { return Ok(()) };
    let maker = ids::find_thread(caller.process.parent_thread())
        .filter(|maker| Arc::ptr_eq(&maker.process, &parent))
        .or_else(|| parent.leader());
    // A parent that ends is none to be traced by, and that is no error, as on Linux.
    let Some(tracer) = maker else { return Ok(()) };
    let own = caller.capabilities();
    let may = tracer.look_at_credentials(|theirs| {
        theirs.sets.permitted.contains(own.permitted) || theirs.capable(Capability::SYS_PTRACE)
    });
    if may == Some(false) {
        return Err(Errno::EPERM);
    }
    let capable = caller.capable(Capability::SYS_PTRACE);
    match link(&caller, &tracer, How { capable, ..How::default() }) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Is the running thread to end, so that it stops for nobody? One that `ends` anyway stops unless SIGKILL waits; and whatever waits if that is how its process
/// ends: as on Linux, who waits there is not killed a second time.
fn is_killed(thread: &Current, ends: bool) -> bool {
    if ends && thread.process.signals.exit_status().is_some() {
        return false;
    }
    let kill = super::signal::bit(abi::SIGKILL);
    (thread.pending_signals() | thread.process.signals.pending()) & kill != 0
        || !ends && thread.process.signals.must_end(thread)
}
