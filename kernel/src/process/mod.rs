//! Processes and threads.
//!
//! * `ids`          numbers, and what they lead to
//! * `credentials/` user and group ids, capabilities, who may look into a process; `session` sessions and process groups; `limits` resource limits
//! * `family/`      parents, children, orphans; `wait` for them; `list` lists of processes, linked by number
//! * `attributes`   what threads ask for themselves
//! * `fork`, `exec/`, `exit`; `dump/` core dumps
//! * `foreign`      another process's memory, copied from and to; `compare` what two threads have in common
//! * `ptrace/`      who traces whom (ptrace(2)): how a traced thread stops, and what its tracer does to it
//! * `oom/`         what happens when memory is out; `badness` who is chosen then
//! * `signal/`      sending, queues, delivery; `trap` what faults become
//! * `timer/`       interval and POSIX timers, clocks of processor time; `rseq`
//! * `timekeeping/` who sets the wall clock, and how fast it runs
//! * `utsname`      host and domain name, release; `personality` what old programs want different
//! * `usage`        what a process has used; `walk` over all threads and files of a process
//!
//! There is no list of processes and no tree lock: a process is found by its number, parent and children meet under the
//! parent's lock alone, and a group has its members on lists per CPU.
//!
//! LockOrder: `children` → members of a group → `signals` → `threads` → wait queue. `children` of two processes are never held
//! at once.
#![deny(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod attributes;
pub mod compare;
pub mod credentials;
pub mod dispatch;
pub mod dump;
pub mod exec;
mod exit;
mod family;
pub mod foreign;
mod fork;
pub mod ids;
pub mod io;
pub mod limits;
mod list;
mod oom;
#[allow(unsafe_code)] // The only module here that may: see its head.
mod own;
pub mod personality;
pub mod pidfd;
pub mod ptrace;
pub mod rseq;
pub mod seccomp;
pub mod session;
pub mod signal;
mod start;
pub mod timekeeping;
pub mod timer;
pub mod trap;
mod usage;
pub mod utsname;
mod walk;

pub use attributes::{Attributes, Flags, NOBODY};
pub use credentials::capabilities::Capability;
pub use credentials::count::has_as_many;
pub use credentials::{Credentials, access, capabilities, set_credentials};
pub use exit::{begin_exit_group, exit_group, exit_thread};
pub use family::children_of;
pub use family::wait;
pub use fork::{CloneRequest, clone};
pub use ids::{Pid, find_process, find_thread, walk_processes, walk_processes_from};
pub use limits::{file_size_limit, limit_now};
pub use oom::{Relief, badness, drain_and_retry, release as release_memory, set_relief};
pub use own::{Standing, before_user_mode};
pub use session::Session;
pub use signal::deliver::return_work;
#[cfg(test)]
pub(crate) use start::make_first;
pub use start::start_init;
pub use trap::kernel_fault;

use crate::arch::TrapRecord;
use crate::errno::Errno;
use crate::fs::File;
use crate::fs::vfs::notify;
use crate::ipc::sem::undo;
use crate::lock_order as level;
use crate::memory::{HeldSpace, Space};
use crate::sched::{self, Deadline, Task, TaskLink, WaitQueue, Work};
use alloc::sync::Arc;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use ids::Id;
use sync::protocol::mask::Mask;
use sync::rcu::{List, Place, RcuArc, RcuHead};
use sync::{SpinLock, lock_class, rcu};
use vm::policy::TaskPolicy;

lock_class! {
    static THREADS: LockClass = ("process threads", level::ProcessThreads);
    static SPACE: LockClass = ("process space", level::ProcessSpace);
    static MEMORY: LockClass = ("process memory layout", level::ProcessMemory);
    static NAME_AT_EXIT: LockClass = ("process name at exit", level::ThreadState);
    static THREAD_ID: LockClass = ("thread id", level::ThreadState);
    static ALTSTACK: LockClass = ("alternate signal stack", level::ThreadState);
    static COMM: LockClass = ("thread name", level::ThreadState);
    static RESTART: LockClass = ("restarted sleep", level::ThreadState);
    static TRAP: LockClass = ("last exception", level::ThreadState);
    static EXECUTING: LockClass = ("file being executed", level::ThreadState);
}

/// A process: what its threads share.
pub struct Process {
    id: Id,
    pub(crate) group: AtomicU32,
    pub(crate) session: AtomicU32,
    /// Whose share of the CPUs its threads have: its session's, which it keeps.
    pub(crate) sched: sched::Membership,
    /// Its place in the group.
    pub(crate) member: session::group::Member,
    pub(crate) family: family::Family,
    /// Its leading thread comes first, while it has not exited.
    threads: Threads,
    /// Threads that have not exited.
    pub(crate) alive: AtomicU32,
    /// For others than its own threads; None once it has exited.
    space: SpinLock<Option<Arc<Space>>, level::ProcessSpace>,
    pub signals: signal::Signals,
    pub limits: limits::Limits,
    pub itimers: timer::interval::Itimers,
    pub timers: timer::posix::Timers,
    pub memory: SpinLock<exec::ProgramLayout, level::ProcessMemory>,
    /// Processor time and switches of threads that are gone, ns; page faults.
    pub(crate) gone: wait::Usage,
    /// What threads that are gone, and children that were waited for, had read and written.
    pub(crate) gone_io: io::Counters,
    /// The same of children that were waited for.
    pub(crate) children_usage: wait::Usage,
    /// Wait status once it is a zombie.
    pub(crate) status: AtomicI32,
    pub(crate) zombie: AtomicBool,
    /// Who has a descriptor of it and watches that.
    pub(crate) watched: pidfd::Watched,
    /// The threads that its own trace.
    pub(crate) tracees: ptrace::Tracees,
    /// Its leading thread is traced.
    pub(crate) traced: RcuArc<ptrace::Tracee>,
    /// Real user id, for the parent's siginfo.
    pub(crate) uid: AtomicU32,
    /// Its leading thread counts for its user until it is waited for.
    pub(crate) counted: credentials::count::Counted,
    /// The signal that tells the parent; 0: none.
    pub(crate) exit_signal: AtomicU32,
    /// An `access::Dumpable`.
    pub(crate) dumpable: AtomicU8,
    /// Which memory a core dump has (`dump::Filter`).
    pub(crate) dump_filter: AtomicU32,
    /// The core dump that is being written.
    pub(crate) dump: RcuArc<dump::Dump>,
    pub(crate) subreaper: AtomicBool,
    /// It does without the terminal of its session (TIOCNOTTY).
    pub(crate) without_tty: AtomicBool,
    /// What is said about choosing it when memory is out.
    pub adjustment: badness::Adjustment,
    /// It has called exec since it was forked.
    pub(crate) executed: AtomicBool,
    /// How often it has called exec, and how often its parent had when it was made.
    pub(crate) programs: AtomicU32,
    pub(crate) parents_programs: u32,
    /// A vfork parent waits here until this process has a space of its own or is gone.
    pub(crate) released: AtomicBool,
    pub(crate) release: WaitQueue,
    /// A thread of it gives itself or all of them filters of system calls.
    pub(crate) filters_change: AtomicBool,
    /// What its threads undo when they have ended (semop(2)).
    pub(crate) undo: undo::Slot,
    /// What membarrier was told to be ready for.
    pub(crate) barriers: AtomicU32,
    pub started: u64,
    name_at_exit: SpinLock<[u8; 16], level::ThreadState>,
    rcu: RcuHead,
}

vm::slab_type!(Process, "process", Arc);

sync::rcu_object!(Process);

/// The threads of a process, in the order in which they came.
type Threads = List<Thread, level::ProcessThreads>;

/// A thread.
pub struct Thread {
    /// Its number. One that executes a program takes its process's, whichever thread it was.
    tid: AtomicU32,
    /// The use of that number that the thread owns.
    id: SpinLock<Id, level::ThreadState>,
    pub process: Arc<Process>,
    task: TaskLink,
    /// Among the threads of its process.
    place: Place<Thread>,
    /// It is traced.
    pub(crate) traced: RcuArc<ptrace::Tracee>,
    /// Which of its calls it wants as signals.
    pub(crate) dispatch: dispatch::Slot,
    /// Where its tracer has it stopped by the processor.
    pub(crate) breakpoints: RcuArc<ptrace::Breakpoints>,
    references: own::References,
    /// Signals that are blocked. Written by the thread itself; once it ends, all.
    pub(crate) blocked: Mask,
    /// The mask to go back to when the signal that ended a sigsuspend has been delivered.
    pub(crate) saved_mask: signal::SavedMask,
    pub(crate) pending: signal::Queue,
    /// Signals that its process was sent as one of its group since the thread's last fork began.
    pub(crate) sent_to_group: AtomicU64,
    /// What sigtimedwait waits for, and where.
    pub(crate) waits_for: AtomicU64,
    pub(crate) signal_queue: WaitQueue,
    pub altstack: SpinLock<signal::AltStack, level::ThreadState>,
    pub(crate) clear_tid: AtomicUsize,
    pub(crate) robust_list: AtomicUsize,
    /// A thread that does not lead counts for itself.
    pub(crate) counted: credentials::count::Counted,
    pub(crate) rseq: rseq::Registration,
    /// Which system calls it may make.
    pub filters: seccomp::Filters,
    pub personality: personality::Personality,
    pub(crate) attributes: Attributes,
    /// From which NUMA nodes its memory comes.
    pub(crate) memory_policy: TaskPolicy,
    comm: SpinLock<[u8; 16], level::ThreadState>,
    pub(crate) restart: SpinLock<(Option<Deadline>, usize), level::ThreadState>,
    /// The last exception that became a signal: vector, error code, address (for the handler's ucontext).
    pub(crate) trap: SpinLock<TrapRecord, level::ThreadState>,
    /// The file that an exec of it has come to.
    pub(crate) executing: SpinLock<Option<Arc<File>>, level::ThreadState>,
    /// What it tells those who watch files.
    pub(crate) late: notify::Late,
    /// What it undoes itself, if it does not share that with its process.
    own_undo: undo::Slot,
    undoes_alone: AtomicBool,
    pub minor_faults: AtomicU64,
    pub major_faults: AtomicU64,
    pub(crate) io: io::Counters,
    pub(crate) exiting: AtomicBool,
    /// How often its call was made again, since a file was another than a name led to: names are asked for anew then, whatever was known of them.
    pub(crate) walks_anew: AtomicU8,
    /// Children of its process belong to it, or did (`family::threads`).
    pub(crate) has_children: AtomicBool,
    /// Who has a descriptor of it alone and watches that.
    watched: pidfd::Watched,
    rcu: RcuHead,
}

vm::slab_type!(Thread, "thread", Arc);

sync::rcu_object!(Thread);

impl Process {
    pub fn pid(&self) -> Pid {
        self.id.number()
    }

    /// Number of its process group.
    pub fn group(&self) -> Pid {
        self.group.load(Ordering::Relaxed)
    }

    /// Number of its session.
    pub fn session_id(&self) -> Pid {
        self.session.load(Ordering::Relaxed)
    }

    /// Its session; None once it was reaped.
    pub fn session(&self) -> Option<Arc<Session>> {
        session::of(self)
    }

    pub fn parent_pid(&self) -> Pid {
        self.family.parent_pid()
    }

    /// Its address space; None once it has exited. Dropping what is returned may sleep.
    pub fn space(&self) -> Option<HeldSpace> {
        self.space.lock().clone().map(HeldSpace::new)
    }

    /// What `f` says of its space, which is not counted for it if the caller asks about itself; None once it has exited. `f` may sleep.
    pub fn look_at_space<R>(&self, f: impl FnOnce(&Space) -> R) -> Option<R> {
        let caller = current();
        if core::ptr::eq(&*caller.process, self) {
            return Some(f(caller.space()));
        }
        self.space().map(|space| f(&space))
    }

    pub(crate) fn set_space(&self, space: Option<Arc<Space>>) -> Option<Arc<Space>> {
        core::mem::replace(&mut *self.space.lock(), space)
    }

    /// A thread of this process.
    pub fn thread(&self, tid: Pid) -> Option<Arc<Thread>> {
        ids::find_thread(tid).filter(|thread| core::ptr::eq(&*thread.process, self))
    }

    /// The leading thread; once it has exited, the first that has not.
    pub fn leader(&self) -> Option<Arc<Thread>> {
        self.threads.first(&rcu::read()).map(|leader| leader.count())
    }

    /// What `f` says of that thread, which is not counted for it. `f` does not sleep.
    #[inline]
    pub fn look_at_leader<R>(&self, f: impl FnOnce(&Thread) -> R) -> Option<R> {
        self.threads.first(&rcu::read()).map(|leader| f(&leader))
    }

    pub(crate) fn threads_remove(&self, thread: &Arc<Thread>) {
        if thread.tid() == self.pid() {
            *self.name_at_exit.lock() = thread.comm_padded();
        }
        own::take_off(&self.threads, thread);
    }

    /// The name of its first thread, once that has exited; NUL padded.
    pub fn name_at_exit(&self) -> [u8; 16] {
        *self.name_at_exit.lock()
    }

    /// Threads that have not exited.
    pub fn thread_count(&self) -> u32 {
        self.alive.load(Ordering::Relaxed)
    }

    /// Calls `f` for each thread, under the lock of the list.
    pub fn for_each_thread(&self, f: impl FnMut(&Arc<Thread>)) {
        self.threads.lock().for_each(f);
    }

    pub fn is_zombie(&self) -> bool {
        self.zombie.load(Ordering::Acquire)
    }

    /// A zombie for which its parent may wait: its tracer, another process, has done so.
    pub(crate) fn is_left_to_parent(&self) -> bool {
        self.is_zombie() && !self.tracees.holds_end()
    }

    /// PR_SET_CHILD_SUBREAPER.
    pub fn set_subreaper(&self, to: bool) {
        family::set_subreaper(self, to);
    }

    pub(crate) fn uid_at_exit(&self) -> u32 {
        self.uid.load(Ordering::Relaxed)
    }

    pub fn is_stopped(&self) -> bool {
        self.signals.is_stopped()
    }

    /// Letter of the state for ps: of its leading thread.
    pub fn state_letter(&self) -> u8 {
        if self.is_zombie() {
            return b'Z';
        }
        if self.is_stopped() {
            return b'T';
        }
        self.look_at_leader(|t| t.look_at_task(|task| task.state_letter())).flatten().unwrap_or(b'S')
    }

    pub fn children_usage(&self) -> wait::UsageSum {
        self.children_usage.sum()
    }

    /// Does `test` hold of the program that it runs, or of a file that one of its threads is executing? Gives way: no spinning lock is held.
    pub fn executes(&self, test: impl Fn(&File) -> bool) -> bool {
        // What it ran is no program any more when its space is gone.
        let runs =
            self.space.lock().is_some() && self.memory.lock().exe.as_ref().is_some_and(|exe| test(&exe.file));
        let mut found = runs;
        self.visit_threads(|t| found |= t.executing.lock().as_ref().is_some_and(|f| test(f)));
        found
    }

    /// The program that it runs.
    pub fn exe(&self) -> Option<Arc<File>> {
        self.memory.lock().exe.as_ref().map(|exe| exe.file.clone())
    }
}

impl Thread {
    pub fn tid(&self) -> Pid {
        self.tid.load(Ordering::Relaxed)
    }

    /// The scheduler's side; None before it first runs and after it is gone.
    pub fn task(&self) -> Option<Arc<Task>> {
        self.task.get()
    }

    /// What `f` says of that, which is not counted for it. `f` does not sleep.
    #[inline(always)]
    pub fn look_at_task<R>(&self, f: impl FnOnce(&Task) -> R) -> Option<R> {
        self.task.look(f)
    }

    /// For the scheduler, which sets it.
    pub(crate) fn task_link(&self) -> &TaskLink {
        &self.task
    }

    /// The name, without trailing NULs.
    pub fn comm(&self) -> ([u8; 16], usize) {
        let comm = self.comm_padded();
        (comm, comm.iter().position(|b| *b == 0).unwrap_or(15))
    }

    /// The name, NUL padded.
    pub fn comm_padded(&self) -> [u8; 16] {
        *self.comm.lock()
    }

    /// Sets the name: 15 bytes at most.
    pub fn set_comm(&self, name: &[u8]) {
        let mut comm = [0; 16];
        let n = name.len().min(15);
        comm[..n].copy_from_slice(&name[..n]);
        *self.comm.lock() = comm;
    }

    /// What is undone when it has ended, or all have who share that with it.
    pub fn undo(&self) -> &undo::Slot {
        if self.undoes_alone.load(Ordering::Relaxed) { &self.own_undo } else { &self.process.undo }
    }

    /// It shares with nobody any more what is undone (CLONE_SYSVSEM of unshare(2)); what only it had is undone. May sleep.
    pub fn unshare_undo(&self) {
        if !self.undoes_alone.load(Ordering::Relaxed) && self.process.thread_count() > 1 {
            // The others keep the process's.
            self.undoes_alone.store(true, Ordering::Relaxed);
        } else {
            self.undo().end();
        }
    }

    /// What sigtimedwait waits for. Set before the thread looks at what is queued.
    #[inline]
    pub(crate) fn waits_for(&self) -> u64 {
        self.waits_for.load(Ordering::SeqCst)
    }

    /// A signal has come that it blocks: sigtimedwait may be waiting for it.
    /// False: it waits for none of `signals`.
    pub(crate) fn notify_waiting(&self, signals: u64) -> bool {
        let waits = self.waits_for() & signals != 0;
        if waits {
            self.signal_queue.wake_all();
        }
        waits
    }

    /// Takes its number out of the table.
    pub(crate) fn withdraw(&self) {
        self.id.lock().withdraw_thread();
    }

    /// exec by a thread that is not the leader: it takes the process's number, and its own becomes free.
    pub(crate) fn become_leader(&self) {
        let pid = self.process.pid();
        if self.tid() == pid {
            return;
        }
        self.withdraw();
        credentials::count::thread_ends(self);
        let old = core::mem::replace(&mut *self.id.lock(), self.process.id.share());
        self.tid.store(pid, Ordering::SeqCst);
        drop(old);
        ptrace::leads_now(self);
        self.watched.wake();
    }

    /// exec: the new program has not asked for a word to be cleared; the one of the old program is, for vfork's sake.
    pub(crate) fn clear_tid_for_exec(&self) {
        self.clear_tid.store(0, Ordering::Relaxed);
    }

    /// Makes the thread look at its signals.
    pub(crate) fn notify(&self, kill: bool) {
        self.look_at_task(|task| if kill { task.notify_kill() } else { task.notify() });
    }
}

/// The running thread.
#[derive(Clone, Copy)]
pub struct Current(sched::Current);

impl Deref for Current {
    type Target = Arc<Thread>;
    #[inline]
    fn deref(&self) -> &Arc<Thread> {
        match &self.0.thread {
            Some(thread) => thread,
            None => no_process(),
        }
    }
}

#[cold]
fn no_process() -> ! {
    panic!("a kernel thread has no process");
}

impl Current {
    pub(crate) fn task(&self) -> &Task {
        &self.0
    }
}

/// The running thread. Not for kernel threads.
#[inline]
pub fn current() -> Current {
    Current(sched::current())
}

/// The running thread; None: it is one of the kernel's.
pub fn current_if_any() -> Option<Current> {
    let task = sched::current();
    task.thread.is_some().then_some(Current(task))
}

/// Work flag: it has closed files, which is to be told those who watch them (`notify::Late`).
pub const TELLS: u32 = sched::Work::PROCESS << 4;

/// The running thread tells of the files that it has closed. May sleep.
fn tell_of_closed() {
    let thread = current();
    if thread.task().work.any(TELLS) {
        thread.task().work.clear(TELLS);
        thread.late.tell();
    }
}

/// Sets what threads of one process have once for all. Who sets what is set already writes no line of the others.
#[inline]
pub fn set_flag(flag: &AtomicBool, to: bool) {
    if flag.load(Ordering::Relaxed) != to {
        flag.store(to, Ordering::Relaxed);
    }
}

/// The running process, counted: for who keeps it.
#[inline]
pub fn current_process() -> Arc<Process> {
    current().process.clone()
}

/// The running process's number.
pub fn current_pid() -> Pid {
    current().process.pid()
}

/// The running thread's credentials.
pub fn credentials() -> Arc<Credentials> {
    current().credentials()
}

/// Has a fatal signal come for the running thread? Long operations then end early.
pub fn is_dying() -> bool {
    sched::current().work.any(Work::KILL)
}

/// Is a signal waiting for the running thread?
pub fn signal_pending() -> bool {
    sched::current().work.any(Work::SIGNAL)
}

/// The running thread has hit its file size limit: SIGXFSZ.
pub fn signal_file_size() {
    use linux_raw_sys::general::{SI_USER, SIGXFSZ};
    let _ = signal::send::queue_own(&current(), signal::Info::user(SIGXFSZ, SI_USER as i32), false);
}

/// An interrupted relative sleep: notes its deadline and where the remaining time is written, for restart_syscall.
pub fn restart_sleep(deadline: Deadline, remain: usize) -> Errno {
    *current().restart.lock() = (Some(deadline), remain);
    crate::errno::ERESTART_RESTARTBLOCK
}
