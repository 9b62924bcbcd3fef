//! Signals (signal(7)).
//!
//! One lock per process guards what becomes of it (`State`), and is held by who sends a signal of another thread or of a whole process, and by who changes an
//! action. Its queue and its threads' queues have locks of their own; a thread takes from its own queue, and sends to it, under that alone. Actions are read
//! without a lock. A thread writes its own blocked mask: `sync::protocol::mask` says how a sender finds who takes a signal. A sender sets a flag in a
//! thread's `work`; the thread delivers the signal on its way back to user mode.
//!
//! LockOrder: `Signals` of one process at a time → actions, `threads` → a queue → wait queue and run queue.
#![deny(unsafe_code)]

mod actions;
mod crowd;
pub mod deliver;
pub mod errand;
mod info;
pub mod io;
mod pending;
pub mod robust;
mod saved;
pub mod send;
mod stop;

use crate::errno::{Errno, Result};
use crate::fs::anon::signalfd::Listeners;
use crate::lock_order as level;
use crate::sched::{Deadline, Sleep, WaitQueue, Woken};
use actions::Actions;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use linux_raw_sys::general as abi;
use sync::level::Held;
use sync::rcu::RcuArc;
use sync::{AllocError, SpinLock, lock_class};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use crowd::Crowd;
pub use info::{Info, TimerSignal};
pub use pending::{Allowance, Gone, Queue};
pub use saved::SavedMask;
pub use send::kernel as send_kernel;
use stop::Run;
pub use stop::any_stopped;

lock_class! {
    static SIGNALS: LockClass = ("process signals", level::ProcessSignals);
}

/// Signals are 1 to 64.
pub const COUNT: u32 = 64;
/// Signals that cannot be blocked, caught or ignored.
pub const UNBLOCKABLE: u64 = bit(abi::SIGKILL) | bit(abi::SIGSTOP);
/// Signals that an instruction causes; delivered before others.
const SYNCHRONOUS: u64 = bit(abi::SIGSEGV)
    | bit(abi::SIGBUS)
    | bit(abi::SIGILL)
    | bit(abi::SIGTRAP)
    | bit(abi::SIGFPE)
    | bit(abi::SIGSYS);
const STOPPING: u64 = bit(abi::SIGSTOP) | bit(abi::SIGTSTP) | bit(abi::SIGTTIN) | bit(abi::SIGTTOU);
const IGNORED_BY_DEFAULT: u64 = bit(abi::SIGCHLD) | bit(abi::SIGCONT) | bit(abi::SIGURG) | bit(abi::SIGWINCH);

/// The mask bit of a signal.
#[expect(clippy::arithmetic_side_effects, reason = "signals are numbered from 1 to 64")]
pub const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The flags of an action that there are.
const KNOWN_FLAGS: u64 = {
    const HIGH: u32 =
        abi::SA_ONSTACK | abi::SA_RESTART | abi::SA_NODEFER | abi::SA_RESETHAND | abi::SA_RESTORER;
    let low = abi::SA_NOCLDSTOP | abi::SA_NOCLDWAIT | abi::SA_SIGINFO | abi::SA_EXPOSE_TAGBITS;
    (HIGH | low) as u64
};

/// struct sigaction as the kernel takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Action {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

impl Action {
    const DEFAULT: usize = 0;
    const IGNORE: usize = 1;

    pub fn is_default(&self) -> bool {
        self.handler == Self::DEFAULT
    }

    pub fn is_ignore(&self) -> bool {
        self.handler == Self::IGNORE
    }

    pub fn has(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }

    /// As the action for SIGCHLD: children leave no zombies.
    pub fn reaps_children(&self) -> bool {
        self.is_ignore() || self.has(abi::SA_NOCLDWAIT)
    }

    /// Does nothing happen when `signal` comes?
    fn discards(&self, signal: u32) -> bool {
        self.is_ignore() || (self.is_default() && IGNORED_BY_DEFAULT & bit(signal) != 0)
    }
}

/// The alternate signal stack of a thread.
#[derive(Clone, Copy, Debug)]
pub struct AltStack {
    pub sp: usize,
    pub size: usize,
    pub flags: u32,
}

impl AltStack {
    pub const NONE: Self = Self { sp: 0, size: 0, flags: abi::SS_DISABLE };

    /// Is it gone as soon as a handler is entered, until that returns?
    pub fn disarms(&self) -> bool {
        self.flags & abi::SS_AUTODISARM != 0
    }

    /// Is `sp` on it? Never on one that is disarmed while a handler runs (SS_AUTODISARM): the handler may leave without returning.
    #[expect(clippy::arithmetic_side_effects, reason = "compared just before")]
    pub fn contains(&self, sp: usize) -> bool {
        self.size != 0 && !self.disarms() && sp > self.sp && sp - self.sp <= self.size
    }
}

struct State {
    /// All threads are to end; the status of the process.
    exit: Option<i32>,
    /// A core is being written: of signals only SIGKILL counts.
    dumping: bool,
    /// A thread has taken a signal that ends the process, and `exit` is about to say so.
    fated: bool,
    /// This thread is about to exec and ends the others.
    exec: Option<super::Pid>,
    run: Run,
    /// It was continued, and the first of its threads that goes on is to tell the parent.
    tell_continued: bool,
}

/// The signal side of a process.
pub struct Signals {
    state: SpinLock<State, level::ProcessSignals>,
    /// The signals for the whole process. Put in and thrown away under `state`.
    shared: Queue,
    /// Perhaps other processes' too (CLONE_SIGHAND). Replaced under `state`.
    actions: RcuArc<Actions>,
    /// Mirrors `state.run`, for looks without the lock.
    stopped: AtomicBool,
    /// Threads are to end, all or but one: `state` says which. For looks without the lock.
    ending: AtomicBool,
    /// An instruction of its own caused a signal that ends it.
    faulted: AtomicBool,
    /// Stopped threads wait here.
    resumed: WaitQueue,
    /// The stop that the parent has not waited for yet; 0: none.
    stop_event: AtomicU32,
    continue_event: AtomicBool,
    /// Numbers its stops, for threads that are traced.
    stops: AtomicU32,
    /// The signal of the last one.
    stop_signal: AtomicU32,
    /// How many of its threads are traced. Written under `state`.
    traced: AtomicU32,
    /// Waiters on this process's signalfd files.
    pub listeners: Listeners,
    /// Once it has many threads.
    crowd: crowd::Place,
}

impl Signals {
    fn with(actions: Arc<Actions>) -> Self {
        let state = State {
            exit: None,
            dumping: false,
            fated: false,
            exec: None,
            run: Run::Runs,
            tell_continued: false,
        };
        Self {
            state: SpinLock::new(state, &SIGNALS),
            shared: Queue::new(),
            actions: RcuArc::new(Some(actions)),
            stopped: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            resumed: WaitQueue::new(),
            stop_event: AtomicU32::new(0),
            continue_event: AtomicBool::new(false),
            stops: AtomicU32::new(0),
            stop_signal: AtomicU32::new(0),
            traced: AtomicU32::new(0),
            listeners: Listeners::new(),
            crowd: crowd::Place::new(),
        }
    }

    /// Every action the default.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new() -> core::result::Result<Self, AllocError> {
        Ok(Self::with(Actions::try_new()?))
    }

    /// The same actions and nothing pending, for fork.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn copy(&self) -> Result<Self> {
        let copy = Actions::try_new()?;
        self.actions.load(&sync::rcu::read()).ok_or(AllocError)?.copy_to(&copy);
        Ok(Self::with(copy))
    }

    /// These very actions and nothing pending, for CLONE_SIGHAND.
    ///
    /// # Errors
    /// None.
    pub fn share(&self) -> Result<Self> {
        Ok(Self::with(self.shared_actions()?))
    }

    /// There always are some.
    fn shared_actions(&self) -> core::result::Result<Arc<Actions>, AllocError> {
        self.actions.get(&sync::rcu::read()).ok_or(AllocError)
    }

    /// Where they lie, which tells apart who has them in common.
    pub fn actions_place(&self) -> usize {
        self.actions.load(&sync::rcu::read()).map_or(0, |actions| core::ptr::from_ref(actions).addr())
    }

    /// Has another process the same actions (CLONE_SIGHAND)?
    pub fn shares_actions(&self) -> bool {
        // The process's own reference, and the one that is counted here.
        self.shared_actions().is_ok_and(|actions| Arc::strong_count(&actions) > 2)
    }

    /// Ends the sharing of actions with other processes, as exec does.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn unshare(&self) -> Result {
        let _state = self.state.lock();
        let actions = self.shared_actions()?;
        // This reference and the process's own.
        if Arc::strong_count(&actions) > 2 {
            let copy = Actions::try_new()?;
            actions.copy_to(&copy);
            self.actions.swap(Some(copy));
        }
        Ok(())
    }

    /// The action for `signal`; None: no such signal.
    #[inline]
    pub fn action(&self, signal: u32) -> Option<Action> {
        self.actions.load(&sync::rcu::read())?.get(signal)
    }

    /// Masks of the signals that are ignored, and of those that have a handler.
    pub fn action_masks(&self) -> (u64, u64) {
        self.actions.load(&sync::rcu::read()).map_or((0, 0), Actions::masks)
    }

    /// `signal` was taken, and its action has a handler for once: gives the action that holds for it.
    fn take_handler(&self, signal: u32) -> Option<Action> {
        self.actions.load(&sync::rcu::read())?.take_handler(signal)
    }

    /// Makes the action for `signal` the default.
    fn reset_action(&self, signal: u32, order: &mut Held<'_, level::ProcessSignals>) {
        if let Some(actions) = self.actions.load(&sync::rcu::read()) {
            actions.set(signal, &Action::default(), order);
        }
    }

    /// Sets the action for a signal and returns the old one. Pending signals that are ignored from now on go. Who sets what is set, with nothing to
    /// throw away, writes nothing.
    ///
    /// # Errors
    /// EINVAL: no such signal, or SIGKILL or SIGSTOP.
    pub fn set_action(&self, signal: u32, to: Action) -> Result<Action> {
        if signal == 0 || signal > COUNT || bit(signal) & UNBLOCKABLE != 0 {
            return Err(Errno::EINVAL);
        }
        // What is not known is cleared, so that a program can see which flags there are.
        let to = Action { mask: to.mask & !UNBLOCKABLE, flags: to.flags & KNOWN_FLAGS, ..to };
        if self.action(signal) == Some(to) && !(to.discards(signal) && self.may_wait(signal)) {
            return Ok(to);
        }
        let mut gone = Gone::default();
        let old = self.exchange_action(signal, to, &mut gone).ok_or(Errno::EINVAL)?;
        gone.drop_in_turns();
        Ok(old)
    }

    /// Does the signal wait for this process, the running thread's, or for one of its threads? Seen without a lock: who sent it before sees that it
    /// does. Of many threads it may.
    fn may_wait(&self, signal: u32) -> bool {
        let me = super::current();
        let waits = |queue: &Queue| queue.set() & bit(signal) != 0;
        let of_threads = || {
            let read = sync::rcu::read();
            self.crowd().is_some() || me.process.threads.iter(&read).any(|thread| waits(&thread.pending))
        };
        waits(&self.shared) || if me.process.thread_count() > 1 { of_threads() } else { waits(&me.pending) }
    }

    #[inline]
    fn exchange_action(&self, signal: u32, to: Action, gone: &mut Gone) -> Option<Action> {
        let me = super::current();
        let process = &me.process;
        let mut state = self.state.lock();
        let order = state.held();
        let old = self.actions.load(&sync::rcu::read())?.set(signal, &to, order)?;
        if to.discards(signal) {
            self.shared.discard(order, bit(signal), gone);
            // None is added under the process's signals.
            if process.thread_count() > 1 || me.pending.set() & bit(signal) != 0 {
                self.discard_of_threads(process, order, bit(signal), gone);
            }
        }
        Some(old)
    }

    /// exec: handlers become the default, ignored signals stay ignored.
    pub fn reset_for_exec(&self) {
        let mut state = self.state.lock();
        if let Some(actions) = self.actions.load(&sync::rcu::read()) {
            actions.reset_for_exec(state.held());
        }
    }

    /// All threads are to end. The first call decides the status, which is returned, and whether this one was the first.
    pub fn begin_exit(&self, status: i32) -> (i32, bool) {
        let mut state = self.state.lock();
        let first = state.exit.is_none();
        let status = *state.exit.get_or_insert(status);
        self.show_ending(&state);
        (status, first)
    }

    /// As `begin_exit`, for the running thread to write a core first; `publish` makes that known to the others. False: they end already, or
    /// one of them executes a program.
    pub fn begin_dump(&self, status: i32, publish: impl FnOnce()) -> bool {
        let mut state = self.state.lock();
        let first = state.exit.is_none() && state.exec.is_none();
        if first {
            publish();
            state.exit = Some(status);
            state.dumping = true;
            self.show_ending(&state);
        }
        first
    }

    /// The core has been written: the parent is told (WCOREDUMP).
    pub fn note_dumped(&self) {
        const DUMPED: i32 = 0x80;
        if let Some(status) = &mut self.state.lock().exit {
            *status |= DUMPED;
        }
    }

    pub fn exit_status(&self) -> Option<i32> {
        self.state.lock().exit
    }

    /// Does it end, or is it to by a signal that came to it, but for those in `blocked`? One that is stopped ends by SIGKILL alone.
    pub fn is_to_end(&self, blocked: u64) -> bool {
        let counts = if self.is_stopped() { bit(abi::SIGKILL) } else { !blocked };
        let set = self.shared.set() & counts;
        let ends = |signal: u32| self.action(signal).is_some_and(|action| send::fatal(&action, signal));
        if (1..=64).any(|signal| set & bit(signal) != 0 && ends(signal)) {
            return true;
        }
        // Last: whoever takes a signal out notes it under this lock.
        let state = self.state.lock();
        state.exit.is_some() || state.fated
    }

    /// The last thread ends: what `begin_exit` made the status, and the signals that waited.
    pub fn end(&self) -> (Option<i32>, Gone) {
        (self.exit_status(), self.shared.end())
    }

    /// One more of its threads is traced, or one less. Senders know it, who look under the same lock.
    pub fn note_traced(&self, begins: bool) {
        let _state = self.state.lock();
        let traced = self.traced.load(Ordering::Relaxed);
        let now = if begins { traced.saturating_add(1) } else { traced.saturating_sub(1) };
        self.traced.store(now, Ordering::Relaxed);
    }

    /// Is one of its threads traced? Then a signal that ends the process may be kept from it by a tracer: until it is taken it ends nothing.
    fn is_traced(&self) -> bool {
        self.traced.load(Ordering::Relaxed) != 0
    }

    /// Are threads to end, all or but one?
    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Before threads are told.
    fn show_ending(&self, state: &State) {
        self.ending.store(state.exit.is_some() || state.exec.is_some(), Ordering::SeqCst);
        sync::protocol::mask::before_choice();
    }

    /// False: the process is being killed, or another of its threads called exec first.
    pub fn begin_exec(&self, tid: super::Pid) -> bool {
        let mut state = self.state.lock();
        let free = state.exit.is_none() && state.exec.is_none();
        if free {
            state.exec = Some(tid);
            self.show_ending(&state);
        }
        free
    }

    pub fn end_exec(&self) {
        let mut state = self.state.lock();
        state.exec = None;
        self.show_ending(&state);
    }

    /// Runs `add`, which adds a thread, unless all threads are to end: then false.
    pub fn admit(&self, add: impl FnOnce()) -> bool {
        let state = self.state.lock();
        let may = state.exit.is_none() && state.exec.is_none();
        if may {
            add();
        }
        may
    }

    /// Is the running thread to end: the process is, or another thread takes its place by exec?
    pub fn must_end(&self, thread: &super::Current) -> bool {
        self.ending.load(Ordering::SeqCst) && self.ends(thread)
    }

    #[cold]
    fn ends(&self, thread: &super::Current) -> bool {
        let state = self.state.lock();
        state.exit.is_some() || state.exec.is_some_and(|tid| tid != thread.tid())
    }

    /// Signals that wait for the whole process.
    pub fn pending(&self) -> u64 {
        self.shared.set()
    }
}

/// Takes a signal of `set` that waits for the running thread or its process. A queue without one is not locked: who sleeps looks here behind the full
/// fence with which it came to its wait queue, and who sends looks at sleepers behind one (`sync::protocol::mask`), so one sees the other.
pub fn take_waiting(thread: &super::Current, set: u64) -> Option<Info> {
    let signals = &thread.process.signals;
    let take = |queue: &Queue, crowd| {
        if queue.set() & set == 0 { None } else { queue.take(&mut Held::clean(), crowd, !set) }
    };
    let found = take(&thread.pending, signals.crowd()).or_else(|| take(&signals.shared, None));
    found.map(|mut info| {
        super::timer::posix::delivered(&mut info);
        info
    })
}

/// Sleeps until a signal of `set` comes.
///
/// # Errors
/// The deadline, or another signal.
pub fn wait_for(
    thread: &super::Current,
    set: u64,
    deadline: Option<Deadline>,
) -> core::result::Result<Info, Woken> {
    thread.waits_for.store(set, Ordering::SeqCst);
    let result = thread.signal_queue.wait_until(Sleep::Interruptible, deadline, || take_waiting(thread, set));
    thread.waits_for.store(0, Ordering::SeqCst);
    if thread.process.thread_count() > TOLD {
        let left = thread.process.signals.pending() & set;
        if left != 0 {
            tell_waiting(&thread.process, left);
        }
    }
    result
}

/// Threads that are told of a signal that waits for their process.
const TOLD: u32 = 64;

/// How many were told that a signal waits for the whole process. Not all are, but whoever leaves [`wait_for`] while such a signal is left tells others.
#[derive(Default)]
struct Told(u32);

impl Told {
    fn tell(&mut self, thread: &super::Thread, signals: u64) {
        if self.0 < TOLD && thread.notify_waiting(signals) {
            self.0 = self.0.saturating_add(1);
        }
    }
}

/// Tells threads of `process` that wait for one of `signals`, which wait for the whole process. Gives way.
fn tell_waiting(process: &super::Process, signals: u64) {
    let mut told = Told::default();
    process.visit_threads(|thread| told.tell(thread, signals));
}

#[cfg(test)]
mod tests;
