//! What a thread may ask of the kernel (seccomp(2)): four calls in strict mode, else what each of its filters allows.
//!
//! A filter never changes. It knows the one that was there before it: threads and processes that were made from one another have the older ones in common. A thread's
//! newest is in the thread, read under RCU by itself, and replaced by itself or by a thread of its process that hands its own to all (TSYNC); whoever
//! installs has the process's `Turn`. A new thread takes its maker's, and once more when it is in the list of threads, where it cannot be missed.
//!
//! A thread without filters does not come here: `syscall::dispatch` looks whether its task is watched.
//!
//! LockOrder: `Turn` → the process's threads.
#![forbid(unsafe_code)]

mod listener;
mod program;

use listener::Answer;
pub use listener::{Listener, open as open_listener};
pub use program::{Call, Instruction, MOST, Program};

use super::ptrace::{self, Left};
use super::signal::{Info, deliver, send};
use super::{Capability, Current, Process, Thread, exit};
use crate::account::{Charge, Denied, Kind, limits};
use crate::arch::UserRegs;
use crate::errno::{Errno, Result};
use crate::sched::{self, Sleep, Task};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as abi;
use sync::rcu::{RcuArc, RcuHead};
use sync::{TryVec, rcu, try_arc};

/// Instructions that all filters of a thread may have, as Linux counts them (`Program::weight`), and what each filter counts besides.
const MOST_OF_ALL: usize = 32_768;
const PER_FILTER: usize = 4;

/// What struct seccomp_data calls this machine (AUDIT_ARCH_X86_64).
const MACHINE: u32 = 0xc000_003e;

/// Filters that are dropped at once; the rest after a grace period more.
const DROPPED_AT_ONCE: usize = 64;

/// What a filter says of a call: an action above, and its data below.
mod verdict {
    pub const ACTION: u32 = 0xffff_0000;
    pub const DATA: u32 = 0xffff;
    pub const KILL_THREAD: u32 = 0;
    pub const TRAP: u32 = 0x0003_0000;
    pub const ERRNO: u32 = 0x0005_0000;
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;
    pub const KILL_PROCESS: u32 = 0x8000_0000;
}

/// Can a filter ask for the action?
pub fn has_action(action: u32) -> bool {
    use verdict::{ALLOW, ERRNO, KILL_PROCESS, KILL_THREAD, LOG, TRACE, TRAP, USER_NOTIF};
    matches!(action, KILL_PROCESS | KILL_THREAD | TRAP | ERRNO | USER_NOTIF | TRACE | LOG | ALLOW)
}

/// The same, for /proc/sys/kernel/seccomp.
pub const ACTIONS: &str = "kill_process kill_thread trap errno user_notif trace log allow";

enum Rule {
    /// read, write, exit and rt_sigreturn.
    Strict,
    Program(Program),
}

/// What restricts a thread, with all that did before.
pub struct Filter {
    rule: Rule,
    before: Option<Arc<Filter>>,
    /// How many there are, and their weight together.
    count: usize,
    weight: usize,
    /// What it refuses is logged (SECCOMP_FILTER_FLAG_LOG).
    logs: bool,
    /// Whoever gets it has no new privileges.
    no_new_privileges: bool,
    /// Who decides of the calls that it leaves to him.
    listener: Option<Arc<Listener>>,
    _charge: Option<Charge>,
    rcu: RcuHead,
}

sync::rcu_object!(Filter);

impl Drop for Filter {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.filter_ends();
        }
        let mut next = self.before.take();
        for _ in 0..DROPPED_AT_ONCE {
            // Others have it too, or the last one is gone.
            let Some(mut filter) = next.and_then(Arc::into_inner) else { return };
            next = filter.before.take();
        }
        if let Some(rest) = next {
            rcu::defer_arc(rest);
        }
    }
}

/// What the filters have decided.
struct Decision<'f> {
    action: u32,
    logs: bool,
    listener: Option<&'f Arc<Listener>>,
}

impl Filter {
    /// The newest of those that decide for the most severe.
    fn decide(&self, call: &Call) -> Decision<'_> {
        let mut decision = Decision { action: verdict::ALLOW, logs: false, listener: None };
        let mut next = Some(self);
        while let Some(filter) = next {
            let said = filter.ask(call);
            // KILL_PROCESS is the least of all as an `int`.
            let severity = |said: u32| (said & verdict::ACTION).cast_signed();
            if severity(said) < severity(decision.action) {
                decision = Decision { action: said, logs: filter.logs, listener: filter.listener.as_ref() };
            }
            next = filter.before.as_deref();
        }
        decision
    }

    fn ask(&self, call: &Call) -> u32 {
        match &self.rule {
            Rule::Program(program) => program.run(call),
            Rule::Strict => match u32::try_from(call.number) {
                Ok(abi::__NR_read | abi::__NR_write | abi::__NR_exit | abi::__NR_rt_sigreturn) => {
                    verdict::ALLOW
                }
                _ => verdict::KILL_THREAD,
            },
        }
    }

    /// Has it, or one before it, somebody who listens?
    fn has_listener(&self) -> bool {
        self.listeners().any(|listener| listener.is_open())
    }

    /// Had it ever?
    fn had_listener(&self) -> bool {
        self.listeners().next().is_some()
    }

    fn listeners(&self) -> impl Iterator<Item = &Arc<Listener>> {
        let filters = core::iter::successors(Some(self), |filter| filter.before.as_deref());
        filters.filter_map(|filter| filter.listener.as_ref())
    }

    fn is_strict(&self) -> bool {
        matches!(self.rule, Rule::Strict)
    }

    /// Those before it, itself among them, oldest last.
    fn places(&self) -> Result<Vec<*const Filter>> {
        let mut places = Vec::new();
        let mut next = Some(self);
        while let Some(filter) = next {
            places.try_push(core::ptr::from_ref(filter))?;
            next = filter.before.as_deref();
        }
        Ok(places)
    }
}

/// The filters of a thread.
pub struct Filters(RcuArc<Filter>);

impl Filters {
    pub const fn none() -> Self {
        Self(RcuArc::empty())
    }

    #[inline]
    pub fn are_there(&self) -> bool {
        !self.0.is_empty()
    }

    #[cold]
    fn become_as(&self, other: &Filters) -> bool {
        let read = rcu::read();
        let place = |filters: &Filters| filters.0.load(&read).map(core::ptr::from_ref);
        let is_other = place(self) != place(other);
        if is_other {
            self.0.swap(other.0.get(&read));
        }
        is_other
    }

    /// What PR_GET_SECCOMP and /proc show: the mode, and how many filters there are.
    pub fn show(&self) -> (u32, usize) {
        const DISABLED: u32 = 0;
        const STRICT: u32 = 1;
        const FILTER: u32 = 2;
        match self.0.load(&rcu::read()) {
            None => (DISABLED, 0),
            Some(filter) if filter.is_strict() => (STRICT, 0),
            Some(filter) => (FILTER, filter.count),
        }
    }

    /// Its thread ends: who listens is to know, and a thread that is gone has no filter with a listener, closed or not. Without one they stay until the thread is gone,
    /// as /proc shows them.
    pub fn end(&self) {
        if self.are_there() && self.0.load(&rcu::read()).is_some_and(Filter::had_listener) {
            self.0.swap(None);
        }
    }

    /// Has another thread forbidden new privileges with a filter that it handed on?
    fn forbid_privileges(&self) -> bool {
        self.are_there() && self.0.load(&rcu::read()).is_some_and(|filter| filter.no_new_privileges)
    }
}

impl Thread {
    /// As a new thread: it has what its maker has by now. A thread of the same process does that last when it is in the list, under the list's lock.
    #[inline]
    pub(super) fn follow_filters(&self, maker: &Thread) {
        if maker.filters.are_there() {
            self.take_filters(maker);
        }
    }

    /// False: it has them.
    #[cold]
    fn take_filters(&self, from: &Thread) -> bool {
        let changed = self.filters.become_as(&from.filters);
        if changed {
            self.look_at_task(Task::watch);
        }
        changed
    }

    /// Does nothing that it executes give it more (PR_SET_NO_NEW_PRIVS)?
    pub fn has_no_new_privileges(&self) -> bool {
        self.look_at_credentials(|c| c.no_new_privileges).unwrap_or(false) || self.filters.forbid_privileges()
    }
}

/// How filters are installed (SECCOMP_FILTER_FLAG_…).
#[derive(Clone, Default)]
pub struct How {
    /// For all threads of the process.
    pub for_all: bool,
    /// A thread that cannot have them gives ESRCH, and not its number.
    pub gives_error: bool,
    pub logs: bool,
    /// Who is told of calls that the filter leaves to him.
    pub listener: Option<Arc<Listener>>,
}

/// May the running thread install filters?
///
/// # Errors
/// EACCES.
pub fn check_rights() -> Result {
    let thread = super::current();
    if thread.has_no_new_privileges() || thread.capable(Capability::SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// Strict mode from now on.
///
/// # Errors
/// EINVAL: there are filters. ENOMEM.
pub fn be_strict() -> Result<usize> {
    install(Rule::Strict, How::default())
}

/// One filter more. 0, or with `how.for_all` the number of a thread that cannot have it; then nothing is changed.
///
/// # Errors
/// EINVAL: the thread is in strict mode. EBUSY: somebody listens to it already. ENOMEM: the filters are too long together, or there is no memory. ESRCH: as `how` says.
pub fn add(program: Program, how: How) -> Result<usize> {
    install(Rule::Program(program), how)
}

/// Of a process's threads one at a time changes filters.
struct Turn<'p>(&'p Process);

impl<'p> Turn<'p> {
    /// # Errors
    /// EINTR: a fatal signal came.
    fn wait_for(process: &'p Process) -> Result<Self> {
        let take = || (!process.filters_change.swap(true, Ordering::Acquire)).then_some(());
        process.release.wait_shared(Sleep::Killable, None, take).map_err(|_| Errno::EINTR)?;
        Ok(Self(process))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.filters_change.store(false, Ordering::Release);
        self.0.release.wake_all();
    }
}

fn install(rule: Rule, how: How) -> Result<usize> {
    let thread = super::current();
    let (weight, charge) = match &rule {
        Rule::Strict => (0, None),
        Rule::Program(program) => (program.weight(), Some(charge(&thread, program.size())?)),
    };
    let is_strict = matches!(rule, Rule::Strict);
    let _turn = Turn::wait_for(&thread.process)?;
    let no_new_privileges = thread.has_no_new_privileges();
    let before = thread.filters.0.get(&rcu::read());
    if before.as_ref().is_some_and(|before| before.is_strict() != is_strict) {
        return Err(Errno::EINVAL);
    }
    if how.listener.is_some() && before.as_ref().is_some_and(|before| before.has_listener()) {
        return Err(Errno::EBUSY);
    }
    let (count, earlier) = before.as_ref().map_or((0, 0), |before| (before.count, before.weight));
    let weight = earlier.saturating_add(weight);
    let penalty = count.saturating_mul(PER_FILTER);
    if weight.saturating_add(penalty) > MOST_OF_ALL {
        return Err(Errno::ENOMEM);
    }
    let own = match &before {
        Some(before) if how.for_all => before.places()?,
        _ => Vec::new(),
    };
    let filter = try_arc(Filter {
        rule,
        before,
        count: count.saturating_add(1),
        weight,
        logs: how.logs,
        no_new_privileges,
        listener: how.listener,
        _charge: charge,
        rcu: RcuHead::new(),
    })?;
    if how.for_all
        && let Some(stray) = find_stray(&thread.process, &own)
    {
        return if how.gives_error { Err(Errno::ESRCH) } else { Ok(stray) };
    }
    thread.filters.0.swap(Some(filter));
    sched::current().watch();
    if how.for_all {
        hand_on(&thread);
    }
    Ok(0)
}

fn charge(thread: &Current, size: usize) -> Result<Charge> {
    let kib = (size_of::<Filter>().saturating_add(size) as u64).div_ceil(1024);
    Charge::try_new(thread.ids().uid, Kind::Filters, kib, limits::filters()).map_err(|denied| match denied {
        Denied::Full | Denied::NoMemory => Errno::ENOMEM,
    })
}

/// A thread of the process that has filters which are not among `own`, newest first: it cannot have the caller's instead. Gives way; the caller has the turn.
fn find_stray(process: &Process, own: &[*const Filter]) -> Option<usize> {
    let mut stray = None;
    process.visit_threads(|thread| {
        let read = rcu::read();
        if let Some(theirs) = thread.filters.0.load(&read) {
            let is_older = own.len().checked_sub(theirs.count).and_then(|newer| own.get(newer));
            if is_older != Some(&core::ptr::from_ref(theirs)) && stray.is_none() {
                stray = Some(thread.tid() as usize);
            }
        }
    });
    stray
}

/// All threads of the process get the running thread's filters. Gives way; the caller has the turn.
fn hand_on(caller: &Current) {
    loop {
        let mut changed = false;
        caller.process.visit_threads(|thread| changed |= thread.take_filters(caller));
        // Threads that others made meanwhile are seen by the next visit. Once there is nothing to change, whoever makes one hands the filters on himself.
        if !changed || super::is_dying() {
            return;
        }
    }
}

/// What the call that the running thread is about to make returns without being made; None: it is made. Its tracer, to whom a filter may leave it, may have made
/// another call of it by then, or none, whose result is what it has left there.
#[cold]
pub fn judge(regs: &mut UserRegs) -> Option<isize> {
    const NOBODY: isize = (Errno::ENOSYS.0 as isize).wrapping_neg();
    let thread = super::current();
    match judge_once(regs, &thread) {
        Judgement::IsMade => None,
        Judgement::Returns(result) => Some(result),
        Judgement::Tracers(data) => match ptrace::stop_at_filter(regs, &thread, data) {
            Left::ToNobody => Some(NOBODY),
            Left::Undone => Some(regs.result()),
            // The filters have not seen yet what it has become. That they leave to the tracer once more is nothing new.
            Left::ToBeMade => match judge_once(regs, &thread) {
                Judgement::Returns(result) => Some(result),
                Judgement::IsMade | Judgement::Tracers(_) => None,
            },
        },
    }
}

enum Judgement {
    IsMade,
    /// With this result, without being made.
    Returns(isize),
    /// It is left to the tracer, who is told this.
    Tracers(u32),
}

fn judge_once(regs: &UserRegs, thread: &Current) -> Judgement {
    let call = Call {
        number: regs.number() as i32,
        machine: MACHINE,
        pc: regs.pc() as u64,
        arguments: regs.args().map(|argument| argument as u64),
    };
    let (is_strict, action, logs, listener) = {
        let read = rcu::read();
        let Some(newest) = thread.filters.0.load(&read) else { return Judgement::IsMade };
        let Decision { action, logs, listener } = newest.decide(&call);
        let is_left = action & verdict::ACTION == verdict::USER_NOTIF;
        (newest.is_strict(), action, logs, listener.filter(|_| is_left).cloned())
    };
    let data = action & verdict::DATA;
    let log = |signal: u32| {
        if logs {
            self::log(thread, &call, signal, action);
        }
    };
    match action & verdict::ACTION {
        verdict::ALLOW => Judgement::IsMade,
        verdict::LOG => {
            self::log(thread, &call, 0, action);
            Judgement::IsMade
        }
        verdict::ERRNO => {
            log(0);
            Judgement::Returns(0isize.wrapping_sub_unsigned(data.min(LARGEST_ERRNO) as usize))
        }
        verdict::TRAP => {
            log(0);
            // The handler finds the registers as they were.
            send::forced(refusal(&call, data));
            Judgement::Returns(call.number as isize)
        }
        verdict::TRACE => Judgement::Tracers(data),
        verdict::USER_NOTIF => match listener.map(|listener| listener.decide(call)) {
            Some(Answer::IsMade) => Judgement::IsMade,
            Some(Answer::Returns(result)) => Judgement::Returns(result),
            // Nobody listens.
            None => Judgement::Returns((Errno::ENOSYS.0 as isize).wrapping_neg()),
        },
        _ if is_strict => {
            self::log(thread, &call, abi::SIGKILL, action);
            exit::exit_thread(abi::SIGKILL as i32)
        }
        severest => {
            self::log(thread, &call, abi::SIGSYS, action);
            if severest == verdict::KILL_THREAD && thread.process.thread_count() > 1 {
                exit::exit_thread(abi::SIGSYS as i32)
            }
            deliver::end(regs, thread, &refusal(&call, data))
        }
    }
}

fn refusal(call: &Call, data: u32) -> Info {
    Info::refused_call(call.pc, call.number, call.machine, data)
}

/// MAX_ERRNO.
const LARGEST_ERRNO: u32 = 4095;

/// Lines of the log in a second.
const LINES: u64 = 10;

/// One line, as Linux without an audit daemon writes it to its log.
fn log(thread: &Current, call: &Call, signal: u32, action: u32) {
    /// The second, and above it how many lines it has had.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    const SECOND: u64 = 0xffff_ffff;
    let now = (crate::arch::time::now() / 1_000_000_000) & SECOND;
    let old = WRITTEN.load(Ordering::Relaxed);
    let lines = if old & SECOND == now { old >> 32 } else { 0 };
    if lines < LINES {
        WRITTEN.store(lines.wrapping_add(1) << 32 | now, Ordering::Relaxed);
        let (pid, Call { number, machine, pc, .. }) = (thread.process.pid(), call);
        info!(
            "audit: type=1326 pid={pid} sig={signal} arch={machine:x} syscall={number} compat=0 ip={pc:#x} code={action:#x}"
        );
    }
}
