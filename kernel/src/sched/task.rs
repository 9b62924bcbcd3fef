//! The scheduler's thread.
//!
//! Who owns a task: one strong count, its *run reference*, belongs to its being alive. It lies in the run queue (waiting or
//! running) and is forgotten while the task sleeps; the waker takes it up again (`Task::take_run_reference`). After
//! the last switch away it is dropped behind an RCU grace period, so a `&Task` found under RCU, or by somebody in a section
//! that does not sleep, stays valid.

use super::affinity::Affinity;
use super::policy::{Policy, RESETS, Schedule, weight};
use super::work::Work;
use super::{runqueue::Order, timer::Timer, wait::WaitNode};
use crate::arch;
use crate::errno::Result;
use crate::memory::Space;
use crate::process::Thread;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use intrusive_collections::RBTreeAtomicLink;
use sync::level::Held;
use sync::machine::{CpuId, MAX_CPUS};
use sync::per_cpu;
use sync::rcu::RcuHead;

/// What a yield costs, ns of virtual time: the next in turn goes first.
const YIELD: u64 = 1_000_000;

/// What a task is doing. Only its own CPU makes it sleep; it is made `Running` under the lock of its run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum State {
    /// Runs or waits for a CPU.
    Running = 0,
    /// Sleeps; a signal ends it.
    Interruptible = 1,
    /// Sleeps; a fatal signal ends it.
    Killable = 2,
    /// Sleeps; only the event ends it.
    Uninterruptible = 3,
    /// Will never run again.
    Dead = 4,
}

/// Processor time that a task has used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel.
    pub system_ns: u64,
    /// Switches away because it waited.
    pub voluntary: u64,
    /// Switches away because another task's turn came.
    pub involuntary: u64,
}

/// The hardware's side of a task. Touched by the CPU that runs or switches it, and before its first run by its maker.
pub(super) struct Hardware {
    pub context: arch::Context,
    pub stack: Option<arch::KernelStack>,
    pub fpu: Option<arch::FpuState>,
    pub segments: arch::Segments,
    pub space: Option<Arc<Space>>,
    /// What a kernel thread runs.
    pub start: Option<(fn(usize), usize)>,
}

impl Hardware {
    /// Of a task of the kernel's own, which keeps its place in `context`.
    pub fn kernel(context: arch::Context) -> Hardware {
        let segments = arch::Segments::default();
        Hardware { context, stack: None, fpu: None, segments, space: None, start: None }
    }
}

/// A thread, as the scheduler sees it.
pub struct Task {
    pub work: Work,
    pub(super) state: AtomicU32,
    /// The CPU whose queue the task is on or was last on. Changes under that queue's lock, while the task is not queued.
    pub(super) cpu: AtomicU32,
    /// Set while a CPU runs on the task's stack.
    pub(super) on_cpu: AtomicBool,
    /// `park` returns at once, and takes this back.
    pub(super) permit: AtomicBool,
    pub(super) run_link: RBTreeAtomicLink,
    /// Weighted run time, ns: the key in the run queue. Changes only while the task is not queued.
    pub(super) vruntime: AtomicU64,
    /// When it was last switched in or accounted, ns.
    pub(super) since: AtomicU64,
    nice: AtomicI32,
    /// What its share is taken from: the nice value, or worse.
    rank: AtomicI32,
    /// A `Policy`, and `RESETS`.
    policy: AtomicU32,
    affinity: Affinity,
    /// It is counted among the tasks of its queue that other CPUs may take. Under that queue's lock.
    pub(super) movable: AtomicBool,
    exec_ns: AtomicU64,
    user_ticks: AtomicU64,
    system_ticks: AtomicU64,
    /// What `times` has answered before.
    shown_user_ns: AtomicU64,
    shown_system_ns: AtomicU64,
    pub(super) voluntary: AtomicU64,
    pub(super) involuntary: AtomicU64,
    /// Work flags that are set each time the task is switched in.
    pub(super) on_resume: AtomicU32,
    pub(super) sleep_node: Arc<WaitNode>,
    pub(super) sleep_timer: Arc<Timer>,
    /// It has left its space, and ends.
    leaves: AtomicBool,
    /// The user thread that this is; None for kernel threads.
    pub thread: Option<Arc<Thread>>,
    rcu: RcuHead,
    /// The sleeping locks that it holds.
    #[cfg(feature = "lockdep")]
    pub(super) locks: sync::lock::order::HeldLocks,
    hardware: UnsafeCell<Hardware>,
}

vm::slab_type!(Task, "task", Arc);

// SAFETY: `hardware` is touched as its documentation says: by one CPU at a time, handed over through the run queue's
// lock and `on_cpu`. Everything else is atomic or immutable.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

sync::rcu_object!(Task);

per_cpu! {
    /// The task that runs on this CPU.
    static CURRENT: AtomicPtr<Task> = AtomicPtr::new(core::ptr::null_mut());
}

/// The running task. Not `Send`: another task's current is another one. So it stays on the stacks of its thread, or in what these own; a
/// reference to it ends with them, and none is made to last for ever (clippy.toml refuses `leak`).
#[derive(Clone, Copy)]
pub struct Current(*const Task);

impl Deref for Current {
    type Target = Task;
    #[inline]
    fn deref(&self) -> &Task {
        // SAFETY: the running task is kept alive by its run reference, and a `Current` does not leave its thread.
        unsafe { &*self.0 }
    }
}

/// The running task. Only after `init_cpu`.
#[inline]
pub fn current() -> Current {
    let task = CURRENT.this().load(Ordering::Relaxed);
    debug_assert!(!task.is_null(), "no task runs here");
    Current(task)
}

/// The running task; None early in boot.
pub fn try_current() -> Option<Current> {
    let task = CURRENT.this().load(Ordering::Relaxed);
    (!task.is_null()).then_some(Current(task))
}

pub(crate) fn current_address() -> usize {
    CURRENT.this().load(Ordering::Relaxed) as usize
}

pub(super) fn set_current(task: &Task) {
    CURRENT.this().store(core::ptr::from_ref(task).cast_mut(), Ordering::Relaxed);
}

impl Task {
    pub(super) fn try_new(
        thread: Option<Arc<Thread>>,
        hardware: Hardware,
        schedule: Schedule,
    ) -> Result<Arc<Self>> {
        let sleep_node = sync::slab_arc(WaitNode::new())?;
        let sleep_timer = sync::slab_arc(Timer::new(wake_at, 0))?;
        let task = sync::slab_arc(Task {
            work: Work::new(),
            state: AtomicU32::new(State::Running as u32),
            cpu: AtomicU32::new(sync::cpu_id()),
            on_cpu: AtomicBool::new(false),
            permit: AtomicBool::new(false),
            run_link: RBTreeAtomicLink::new(),
            vruntime: AtomicU64::new(0),
            since: AtomicU64::new(0),
            nice: AtomicI32::new(schedule.nice),
            rank: AtomicI32::new(schedule.rank()),
            policy: AtomicU32::new(schedule.word()),
            affinity: Affinity::all(),
            movable: AtomicBool::new(false),
            exec_ns: AtomicU64::new(0),
            user_ticks: AtomicU64::new(0),
            system_ticks: AtomicU64::new(0),
            shown_user_ns: AtomicU64::new(0),
            shown_system_ns: AtomicU64::new(0),
            voluntary: AtomicU64::new(0),
            involuntary: AtomicU64::new(0),
            on_resume: AtomicU32::new(0),
            sleep_node,
            sleep_timer,
            leaves: AtomicBool::new(false),
            thread,
            rcu: RcuHead::new(),
            #[cfg(feature = "lockdep")]
            locks: sync::lock::order::HeldLocks::new(),
            hardware: UnsafeCell::new(hardware),
        })?;
        let address = Arc::as_ptr(&task);
        task.sleep_node.set_task(address);
        task.sleep_timer.set_argument(address as usize);
        Ok(task)
    }

    /// # Safety
    /// The caller is the CPU that runs or switches the task, or its maker before the first run, and makes no second
    /// reference meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the contract above stands in for the borrow checker")]
    pub(super) unsafe fn hardware(&self) -> &mut Hardware {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.hardware.get() }
    }

    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            0 => State::Running,
            1 => State::Interruptible,
            2 => State::Killable,
            3 => State::Uninterruptible,
            _ => State::Dead,
        }
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u32, Ordering::SeqCst);
    }

    /// Is there anything to do before this task returns to user mode?
    #[inline]
    pub fn work_pending(&self) -> bool {
        self.work.any(u32::MAX)
    }

    /// From now on `flags` are set in `work` each time the task is switched in. Called by the task itself, or before its first run.
    pub fn raise_on_resume(&self, flags: u32) {
        self.on_resume.store(flags, Ordering::Relaxed);
    }

    /// Sets the flags of `raise_on_resume`, as a switch in does. For interrupt handlers too.
    pub fn raise_again(&self) {
        let raised = self.on_resume.load(Ordering::Relaxed);
        if raised != 0 {
            self.work.set(raised);
        }
    }

    /// The task ends: it has no space any more.
    pub(super) fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    pub(super) fn set_leaves(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Sleeping, for `ps`: 'R', 'S' or 'D'.
    pub fn state_letter(&self) -> u8 {
        match self.state() {
            State::Running => b'R',
            State::Interruptible => b'S',
            State::Killable | State::Uninterruptible => b'D',
            State::Dead => b'X',
        }
    }

    /// The CPU it runs on or ran on last.
    pub fn cpu(&self) -> CpuId {
        self.cpu.load(Ordering::Relaxed)
    }

    pub fn affinity(&self) -> &Affinity {
        &self.affinity
    }

    /// Restricts the task to the CPUs of `words` (64 CPUs each, lowest first). False: none of them is present.
    /// A task that runs elsewhere moves at its next switch; the current one at once.
    pub fn set_affinity(&self, words: [u64; MAX_CPUS / 64]) -> bool {
        let present = sync::machine::cpus();
        if !(0..present).any(|cpu| words[cpu as usize / 64] >> (cpu % 64) & 1 != 0) {
            return false;
        }
        self.affinity.store(words);
        super::runqueue::move_if_needed(self);
        true
    }

    pub(super) fn set_affinity_at_birth(&self, cpu: CpuId) {
        let mut words = [0; MAX_CPUS / 64];
        words[cpu as usize / 64 % words.len()] = 1 << (cpu % 64);
        self.affinity.store(words);
    }

    pub(super) fn inherit_affinity(&self, parent: &Task) {
        self.affinity.inherit(&parent.affinity);
    }

    /// Lets the tasks that wait with the same virtual time go first.
    pub(super) fn yield_turn(&self) {
        self.account(arch::time::now());
        self.vruntime.fetch_add(YIELD, Ordering::Relaxed);
    }

    /// Nice value, -20 (most) to 19 (least).
    pub fn nice(&self) -> i32 {
        self.nice.load(Ordering::Relaxed)
    }

    pub fn set_nice(&self, nice: i32) {
        self.set_schedule(Schedule { nice, ..self.schedule() });
    }

    /// Two who set it at once may leave a share that belongs to either.
    pub fn set_schedule(&self, schedule: Schedule) {
        let schedule = Schedule { nice: schedule.nice.clamp(-20, 19), ..schedule };
        self.nice.store(schedule.nice, Ordering::Relaxed);
        self.rank.store(schedule.rank(), Ordering::Relaxed);
        self.policy.store(schedule.word(), Ordering::Relaxed);
    }

    pub fn schedule(&self) -> Schedule {
        let word = self.policy.load(Ordering::Relaxed);
        let policy = match word & !RESETS {
            0 => Policy::Normal,
            3 => Policy::Batch,
            _ => Policy::Idle,
        };
        Schedule { policy, nice: self.nice(), resets: word & RESETS != 0 }
    }

    /// Does it take the CPU from another when it wakes?
    pub(super) fn preempts(&self) -> bool {
        self.policy.load(Ordering::Relaxed) & !RESETS == Policy::Normal as u32
    }

    /// Processor time used so far. The whole is exact; user and system are told apart by ticks, as Linux does.
    pub fn times(&self) -> Times {
        let running = self.on_cpu.load(Ordering::Relaxed);
        let since = self.since.load(Ordering::Relaxed);
        let tail = if running { arch::time::now().saturating_sub(since) } else { 0 };
        let total = self.exec_ns.load(Ordering::Relaxed) + tail;
        let user = self.user_ticks.load(Ordering::Relaxed);
        let system = self.system_ticks.load(Ordering::Relaxed);
        let estimate = match user + system {
            0 => 0,
            ticks => (u128::from(total) * u128::from(system) / u128::from(ticks)) as u64,
        };
        // Neither part ever goes back, however the estimate moves: what is known of one bounds the other.
        let known_user = self.shown_user_ns.load(Ordering::Relaxed);
        let known_system = self.shown_system_ns.load(Ordering::Relaxed);
        let total = total.max(known_user + known_system);
        let system_ns = estimate.clamp(known_system, total - known_user);
        let user_ns = total - system_ns;
        self.shown_user_ns.fetch_max(user_ns, Ordering::Relaxed);
        self.shown_system_ns.fetch_max(system_ns, Ordering::Relaxed);
        Times {
            user_ns,
            system_ns,
            voluntary: self.voluntary.load(Ordering::Relaxed),
            involuntary: self.involuntary.load(Ordering::Relaxed),
        }
    }

    pub(super) fn count_tick(&self, from_user: bool) {
        let ticks = if from_user { &self.user_ticks } else { &self.system_ticks };
        ticks.store(ticks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds the time since the last call to what the task has used. Its own CPU only.
    pub(super) fn account(&self, now: u64) {
        let ran = now.saturating_sub(self.since.load(Ordering::Relaxed));
        self.since.store(now, Ordering::Relaxed);
        self.exec_ns.store(self.exec_ns.load(Ordering::Relaxed) + ran, Ordering::Relaxed);
        let weighted = match self.rank.load(Ordering::Relaxed) {
            0 => ran,
            rank => (u128::from(ran) * 1024 / u128::from(weight(rank))) as u64,
        };
        self.vruntime.store(self.vruntime.load(Ordering::Relaxed) + weighted, Ordering::Relaxed);
    }

    /// Wakes the task if it sleeps.
    pub fn wake(&self) {
        self.wake_in(Held::clean().lower());
    }

    /// As `wake`, under a lock that is shown.
    pub(super) fn wake_in(&self, order: Order<'_>) {
        let any = &[State::Interruptible, State::Killable, State::Uninterruptible];
        super::runqueue::wake(self, any, order);
    }

    /// There is a signal for the task: ends an interruptible sleep, and makes a running task look.
    pub fn notify(&self) {
        self.work.set(Work::SIGNAL);
        super::runqueue::wake(self, &[State::Interruptible], Held::clean().lower());
        self.kick();
    }

    /// There is a fatal signal for the task.
    pub fn notify_kill(&self) {
        self.work.set(Work::SIGNAL | Work::KILL);
        super::runqueue::wake(self, &[State::Interruptible, State::Killable], Held::clean().lower());
        self.kick();
    }

    /// If the task runs on another CPU, makes that CPU enter the kernel so that it sees its `work`.
    pub fn kick(&self) {
        if self.on_cpu.load(Ordering::SeqCst) && current_address() != core::ptr::from_ref(self) as usize {
            arch::send_reschedule(self.cpu());
        }
    }

    /// Takes up the run reference that was forgotten when the task went to sleep.
    ///
    /// # Safety
    /// The caller has just changed the state from sleeping to `Running` under the run queue's lock, and the task is not
    /// that queue's current one.
    pub(super) unsafe fn take_run_reference(&self) -> Arc<Task> {
        // SAFETY: the strong count that `switch` forgot is ours now, once.
        unsafe { Arc::from_raw(core::ptr::from_ref(self)) }
    }
}

/// Timer callback of `sleep_timer`.
fn wake_at(task: usize) {
    // SAFETY: the timer is the task's own; it is cancelled before the sleep ends, and a task that is freed meanwhile
    // lives until the end of a grace period, which this section, which does not sleep, holds off.
    unsafe { &*(task as *const Task) }.wake();
}
