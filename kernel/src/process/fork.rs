//! fork, vfork, clone: a new process or a new thread.
//!
//! Everything that can fail comes first. Then the new thread or process is published, added to its parent's children, and started.
#![forbid(unsafe_code)]

use super::access::Dumpable;
use super::credentials::count::{self, Counted};
use super::ids::Id;
use super::io;
use super::own::References;
use super::personality::{Persona, Personality};
use super::session::group::ForkStart;
use super::{ALTSTACK, COMM, EXECUTING, MEMORY, NAME_AT_EXIT, RESTART, SPACE, THREAD_ID, THREADS, TRAP};
use super::{
    Attributes, Credentials, Current, Pid, Process, Thread, Threads, badness, dump, exec, family, limits,
    oom, pidfd, ptrace, rseq, seccomp, session, signal, timer, wait,
};
use crate::account::Charge;
use crate::arch::{self, TrapRecord, UserRegs};
use crate::errno::{Errno, Result};
use crate::fs::vfs::notify;
use crate::fs::{FileTable, FsContext};
use crate::ipc::attach;
use crate::ipc::sem::undo;
use crate::memory::Space;
use crate::sched::{self, Sleep, TaskLink, WaitQueue};
use crate::trace;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use linux_raw_sys::general as abi;
use sync::protocol::mask::Mask;
use sync::rcu::{Place, RcuArc, RcuHead};
use sync::{SpinLock, slab_arc};
use vm::addr::VirtAddr;
use vm::policy::TaskPolicy;

/// Arguments of clone(2) and clone3(2).
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneRequest {
    pub flags: u64,
    /// The new stack pointer; 0: the caller's.
    pub sp: usize,
    pub parent_tid: usize,
    pub child_tid: usize,
    pub tls: usize,
    pub exit_signal: u32,
    /// Where CLONE_PIDFD writes the descriptor.
    pub pidfd: usize,
}

/// CLONE_CLEAR_SIGHAND: handlers become defaults in the child.
const CLEAR_SIGHAND: u64 = 1 << 32;

const fn flag(f: u32) -> u64 {
    f as u64
}

impl CloneRequest {
    fn has(&self, f: u32) -> bool {
        self.flags & flag(f) != 0
    }

    fn check(&self) -> Result {
        let others = flag(abi::CLONE_NEWCGROUP)
            | flag(abi::CLONE_NEWUTS)
            | flag(abi::CLONE_NEWIPC)
            | flag(abi::CLONE_NEWPID)
            | flag(abi::CLONE_NEWNET);
        if self.has(abi::CLONE_NEWNS) && self.has(abi::CLONE_FS) {
            return Err(Errno::EINVAL);
        }
        if (self.has(abi::CLONE_THREAD) && !self.has(abi::CLONE_SIGHAND))
            || (self.has(abi::CLONE_SIGHAND) && !self.has(abi::CLONE_VM))
            || (self.has(abi::CLONE_SIGHAND) && self.flags & CLEAR_SIGHAND != 0)
            || self.exit_signal > 64
        {
            return Err(Errno::EINVAL);
        }
        // Namespaces but those of mounts are not there, as on a Linux without them.
        if self.has(abi::CLONE_NEWUSER) {
            return Err(Errno::EINVAL);
        }
        if self.flags & (others | flag(abi::CLONE_NEWNS)) != 0 {
            if !super::current().capable(super::Capability::SYS_ADMIN) {
                return Err(Errno::EPERM);
            }
            if self.flags & others != 0 {
                return Err(Errno::EINVAL);
            }
        }
        let same = self.has(abi::CLONE_PARENT_SETTID) && self.pidfd == self.parent_tid;
        if self.has(abi::CLONE_PIDFD) && (same || self.has(abi::CLONE_DETACHED)) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

/// Makes a thread or process that goes on from `regs` with result 0; returns its number.
///
/// # Errors
/// EINVAL, EAGAIN, ENOMEM, as clone(2).
pub fn clone(request: &CloneRequest, regs: &mut UserRegs) -> Result<Pid> {
    request.check()?;
    oom::drain_and_retry(|| make(request, regs))
}

fn make(request: &CloneRequest, regs: &mut UserRegs) -> Result<Pid> {
    let parent = super::current();
    let mut child_regs = regs.fork_child();
    if request.sp != 0 {
        child_regs.set_sp(request.sp);
    }
    let tls = request.has(abi::CLONE_SETTLS).then_some(request.tls);
    if tls.is_some_and(|tls| tls >= arch::USER_END) {
        return Err(Errno::EPERM);
    }
    let start = session::group::start_fork(&parent)?;
    let counted = count::one_more(&parent)?;
    // Numbers of processes that are gone may still wait for a grace period.
    let id = Id::try_new().or_else(|e| if oom::drain_caches() { Id::try_new() } else { Err(e) })?;
    let number = id.number();
    let fpu = sched::clone_fpu()?;
    let space = if request.has(abi::CLONE_VM) { parent.share_space() } else { fork_space(&parent)? };
    // A vfork parent waits until its child has another space, so the space has one user at a time. Any other child is a second.
    if request.has(abi::CLONE_VM) && !request.has(abi::CLONE_VFORK) {
        space.set_multithreaded();
    }
    let files =
        if request.has(abi::CLONE_FILES) { parent.share_files() } else { parent.files().try_clone()? };
    let fs = if request.has(abi::CLONE_FS) {
        parent.share_fs()
    } else if request.has(abi::CLONE_NEWNS) {
        parent.fs().with_new_namespace()?
    } else {
        parent.fs().try_clone()?
    };
    let credentials = parent.copy_credentials()?;
    // The area is copied with the memory that it lies in.
    let rseq = if request.has(abi::CLONE_VM) { rseq::Registration::default() } else { parent.rseq.copy() };
    let (blocked, persona) = (parent.blocked.get(), parent.personality.get());
    let attributes = parent.attributes.inherit();
    let memory_policy = parent.memory_policy.copy();
    let comm = parent.comm_padded();
    let undo = own_undo(&parent, request)?;
    let parts = Parts {
        files,
        fs,
        credentials,
        space,
        blocked,
        persona,
        attributes,
        memory_policy,
        rseq,
        counted,
        comm,
        undo,
    };

    let thread = if request.has(abi::CLONE_THREAD) {
        new_thread(parent.process.clone(), id, parts)?
    } else {
        new_process(request, id, parts)?
    };
    if request.has(abi::CLONE_CHILD_CLEARTID) {
        thread.clear_tid.store(request.child_tid, Ordering::Relaxed);
    }
    if !request.has(abi::CLONE_VM) || request.has(abi::CLONE_VFORK) {
        let altstack = *parent.altstack.lock();
        *thread.altstack.lock() = altstack;
    }
    if request.has(abi::CLONE_CHILD_SETTID)
        && let Some(space) = thread.space_of()
    {
        // Linux ignores a bad address here.
        let _ = space.write_remote(VirtAddr(request.child_tid), &number.to_ne_bytes());
    }
    if request.has(abi::CLONE_PARENT_SETTID) {
        // After the space was copied: only a child that shares it sees this. Linux ignores a bad address here too.
        let _ = arch::user::copy_to_user(request.parent_tid, &number.to_ne_bytes());
    }
    let space = thread.space_of().ok_or(Errno::ENOMEM)?;
    let task = sched::new_user(thread.clone(), &child_regs, space, fpu, arch::Segments::of_child(tls))?;
    rseq::inherit(&thread, &task);
    thread.follow_filters(&parent);
    let pidfd = if request.has(abi::CLONE_PIDFD) { Some(promise_pidfd(&thread, request)?) } else { None };
    publish(&thread, request, start)?;
    if let Some(promised) = pidfd {
        promised.give();
    }
    let told = if parent.is_traced() { hand_on(&parent, &thread, request) } else { None };
    let child = thread.process.clone();
    drop(thread);
    sched::start(task);
    if let Some(told) = told {
        ptrace::note_clone(regs, &parent, told, number);
    }
    if request.has(abi::CLONE_VFORK) {
        // A fatal signal ends the wait; the child goes on alone.
        let released = || child.released.load(Ordering::Acquire).then_some(());
        let done = child.release.wait_until(Sleep::Killable, None, released).is_ok();
        if done && parent.is_traced() {
            ptrace::note_vfork_done(regs, &parent, number);
        }
    }
    Ok(number)
}

/// The tracer of `parent` gets `child` too, before its first instruction, if it or `parent` wants that. Gives what the tracer is then told. Without memory the
/// child goes untraced, as where its tracer has just ended.
#[cold]
fn hand_on(parent: &Current, child: &Arc<Thread>, request: &CloneRequest) -> Option<ptrace::Cloned> {
    let is_told = !request.has(abi::CLONE_UNTRACED);
    let signal = if request.has(abi::CLONE_THREAD) { 0 } else { request.exit_signal };
    let told = if is_told { ptrace::of_clone(parent, request.has(abi::CLONE_VFORK), signal) } else { None };
    if told.is_some() || request.has(abi::CLONE_PTRACE) {
        ptrace::hand_on(parent, child);
    }
    told
}

/// A copy of the parent's space, with the segments of shared memory that it has attached.
fn fork_space(parent: &Current) -> Result<Arc<Space>> {
    let space = parent.space();
    attach::fork(space, || Ok(space.fork()?))
}

#[cold]
fn promise_pidfd(child: &Arc<Thread>, request: &CloneRequest) -> Result<pidfd::Promised> {
    let limit = usize::try_from(limits::limit_now(abi::RLIMIT_NOFILE)).unwrap_or(usize::MAX);
    pidfd::Promised::try_new(child, request.has(abi::CLONE_THREAD), request.pidfd, limit)
}

/// What a new thread undoes itself when it ends; None: what its process does.
fn own_undo(parent: &Current, request: &CloneRequest) -> Result<Option<undo::Slot>> {
    let shares = request.has(abi::CLONE_SYSVSEM);
    if !request.has(abi::CLONE_THREAD) {
        return Ok(None);
    }
    match shares {
        false => Ok(Some(undo::Slot::new())),
        true if parent.undoes_alone.load(Ordering::Relaxed) => parent.own_undo.share().map(Some),
        true => Ok(None),
    }
}

/// What a new thread refers to.
struct Parts {
    files: Arc<FileTable>,
    fs: Arc<FsContext>,
    credentials: Arc<Credentials>,
    space: Arc<Space>,
    blocked: u64,
    persona: Persona,
    attributes: Attributes,
    memory_policy: TaskPolicy,
    rseq: rseq::Registration,
    /// For the process if it is new, else for the thread.
    counted: Option<Charge>,
    comm: [u8; 16],
    undo: Option<undo::Slot>,
}

/// Makes the new thread or process visible to others. The last step that can fail comes first.
fn publish(thread: &Arc<Thread>, request: &CloneRequest, start: ForkStart) -> Result {
    let process = &thread.process;
    if request.has(abi::CLONE_THREAD) {
        process.expect_thread()?;
        if !process.signals.admit(|| {
            let mut threads = process.threads.lock();
            threads.push_back(thread.clone());
            thread.follow_filters(&super::current());
            drop(threads);
            process.alive.fetch_add(1, Ordering::AcqRel);
        }) {
            // The process is being killed or replaces itself: the caller goes the same way before it sees this.
            return Err(crate::errno::ERESTARTNOINTR);
        }
        thread.id.lock().publish_thread(thread.clone());
        if process.is_stopped() {
            // It has to stop before its first instruction.
            thread.notify(false);
        }
        return Ok(());
    }
    process.threads.lock().push_back(thread.clone());
    process.id.publish_process(process.clone());
    let maker = super::current();
    let joined = {
        let mut children = maker.process.family.children();
        // Most are their maker's children, and become so under the same lock.
        session::group::join(process, &maker, &mut children, start).map(|()| {
            let has = maker.process.family.has_children();
            process.parent_pid() == maker.process.pid() && children.add(process, has)
        })
    };
    match joined {
        Ok(true) => {}
        // CLONE_PARENT.
        Ok(false) => family::add_sibling(process, &maker.process),
        Err(errno) => {
            process.id.withdraw_process();
            process.threads_remove(thread);
            return Err(errno);
        }
    }
    trace::EVENTS.this().forks.add(1);
    Ok(())
}

fn new_thread(process: Arc<Process>, id: Id, parts: Parts) -> Result<Arc<Thread>> {
    Ok(slab_arc(Thread {
        tid: AtomicU32::new(id.number()),
        id: SpinLock::new(id, &THREAD_ID),
        process,
        task: TaskLink::new(),
        place: Place::new(),
        traced: RcuArc::empty(),
        breakpoints: RcuArc::empty(),
        references: References::new(parts.files, parts.fs, parts.space, parts.credentials),
        blocked: Mask::new().inherit(parts.blocked),
        saved_mask: signal::SavedMask::none(),
        pending: signal::Queue::new(),
        sent_to_group: AtomicU64::new(0),
        waits_for: AtomicU64::new(0),
        signal_queue: WaitQueue::new(),
        altstack: SpinLock::new(signal::AltStack::NONE, &ALTSTACK),
        clear_tid: AtomicUsize::new(0),
        robust_list: AtomicUsize::new(0),
        counted: Counted::as_one(parts.counted),
        rseq: parts.rseq,
        filters: seccomp::Filters::none(),
        dispatch: super::dispatch::Slot::none(),
        personality: Personality::new(parts.persona),
        attributes: parts.attributes,
        memory_policy: parts.memory_policy,
        comm: SpinLock::new(parts.comm, &COMM),
        restart: SpinLock::new((None, 0), &RESTART),
        trap: SpinLock::new(TrapRecord::default(), &TRAP),
        executing: SpinLock::new(None, &EXECUTING),
        late: notify::Late::new(),
        walks_anew: AtomicU8::new(0),
        undoes_alone: AtomicBool::new(parts.undo.is_some()),
        own_undo: parts.undo.unwrap_or_default(),
        minor_faults: AtomicU64::new(0),
        io: io::Counters::default(),
        major_faults: AtomicU64::new(0),
        exiting: AtomicBool::new(false),
        has_children: AtomicBool::new(false),
        watched: pidfd::Watched::new(),
        rcu: RcuHead::new(),
    })?)
}

fn new_process(request: &CloneRequest, id: Id, mut parts: Parts) -> Result<Arc<Thread>> {
    let maker = super::current();
    let caller = &maker.process;
    // As it stands now; `family::add_sibling` asks once more, and for the thread.
    let sibling_of = if request.has(abi::CLONE_PARENT) { caller.family.parent() } else { None };
    let (parent, parent_thread) = match sibling_of {
        Some(parent) => (parent, 0),
        None => {
            maker.note_child();
            (caller.clone(), maker.tid())
        }
    };
    let exit_signal = if request.has(abi::CLONE_PARENT) {
        caller.exit_signal.load(Ordering::Relaxed)
    } else {
        request.exit_signal
    };
    let signals =
        if request.has(abi::CLONE_SIGHAND) { caller.signals.share()? } else { caller.signals.copy()? };
    if request.flags & CLEAR_SIGHAND != 0 {
        signals.reset_for_exec();
    }
    let (memory, old_exe) = caller.memory.lock().fork();
    drop(old_exe);
    let thread_id = id.share();
    let undo = if request.has(abi::CLONE_SYSVSEM) { maker.undo().share()? } else { undo::Slot::new() };
    let process = slab_arc(Process {
        undo,
        family: family::Family::new(Some(parent), parent_thread),
        memory: SpinLock::new(memory, &MEMORY),
        uid: AtomicU32::new(parts.credentials.uid),
        counted: Counted::as_one(parts.counted.take()),
        exit_signal: AtomicU32::new(exit_signal),
        adjustment: caller.adjustment.copy(),
        dumpable: AtomicU8::new(caller.dumpable.load(Ordering::Relaxed)),
        dump_filter: AtomicU32::new(caller.dump_filter.load(Ordering::Relaxed)),
        dump: RcuArc::empty(),
        without_tty: AtomicBool::new(caller.without_tty.load(Ordering::Relaxed)),
        parents_programs: if request.has(abi::CLONE_PARENT) {
            caller.parents_programs
        } else {
            caller.programs.load(Ordering::Relaxed)
        },
        barriers: AtomicU32::new(caller.barriers.load(Ordering::Relaxed)),
        ..blank(id, parts.space.clone(), signals, caller.limits.copy())
    })?;
    new_thread(process, thread_id, parts)
}

/// A process with nothing of its parent's.
#[inline(always)]
fn blank(id: Id, space: Arc<Space>, signals: signal::Signals, limits: limits::Limits) -> Process {
    Process {
        id,
        group: AtomicU32::new(0),
        session: AtomicU32::new(0),
        sched: sched::Membership::none(),
        member: session::group::Member::new(),
        family: family::Family::new(None, 0),
        threads: Threads::new(&THREADS),
        alive: AtomicU32::new(1),
        space: SpinLock::new(Some(space), &SPACE),
        signals,
        limits,
        itimers: timer::interval::Itimers::new(),
        timers: timer::posix::Timers::new(),
        memory: SpinLock::new(exec::ProgramLayout::default(), &MEMORY),
        gone: wait::Usage::default(),
        gone_io: io::Counters::default(),
        children_usage: wait::Usage::default(),
        status: AtomicI32::new(0),
        zombie: AtomicBool::new(false),
        watched: pidfd::Watched::new(),
        tracees: ptrace::Tracees::new(),
        traced: RcuArc::empty(),
        uid: AtomicU32::new(0),
        counted: Counted::nothing(),
        exit_signal: AtomicU32::new(abi::SIGCHLD),
        dumpable: AtomicU8::new(Dumpable::User as u8),
        dump_filter: AtomicU32::new(dump::Filter::DEFAULT.bits()),
        dump: RcuArc::empty(),
        subreaper: AtomicBool::new(false),
        without_tty: AtomicBool::new(false),
        adjustment: badness::Adjustment::new(),
        executed: AtomicBool::new(false),
        programs: AtomicU32::new(0),
        parents_programs: 0,
        released: AtomicBool::new(false),
        release: WaitQueue::new(),
        undo: undo::Slot::new(),
        barriers: AtomicU32::new(0),
        filters_change: AtomicBool::new(false),
        started: arch::time::now(),
        name_at_exit: SpinLock::new([0; 16], &NAME_AT_EXIT),
        rcu: RcuHead::new(),
    }
}

/// The first process and its thread, which has yet to exec.
pub(super) fn first(space: Arc<Space>, files: Arc<FileTable>, fs: Arc<FsContext>) -> Result<Arc<Thread>> {
    let id = Id::try_new()?;
    let thread_id = id.share();
    let process = slab_arc(Process {
        group: AtomicU32::new(id.number()),
        session: AtomicU32::new(id.number()),
        ..blank(id, space.clone(), signal::Signals::try_new()?, limits::Limits::new())
    })?;
    let rseq = rseq::Registration::default();
    let (credentials, persona, attributes) = (Credentials::root()?, Persona::default(), Attributes::new());
    let (blocked, counted, comm) = (0, None, [0; 16]);
    let (memory_policy, undo) = (TaskPolicy::new(), None);
    let parts = Parts {
        files,
        fs,
        credentials,
        space,
        blocked,
        persona,
        attributes,
        memory_policy,
        rseq,
        counted,
        comm,
        undo,
    };
    let thread = new_thread(process.clone(), thread_id, parts)?;
    thread.set_comm(b"init");
    process.threads.lock().push_back(thread.clone());
    process.id.publish_process(process.clone());
    session::create_first(&process)?;
    Ok(thread)
}
