//! The scheduler's thread.
//!
//! Who owns a task: one strong count, its *run reference*, belongs to its being alive. It lies in the run queue (waiting or
//! running) and is forgotten while the task sleeps; the waker takes it up again (`Task::take_run_reference`). After
//! the last switch away it is dropped behind an RCU grace period, so a `&Task` found under RCU, or by somebody in a section
//! that does not sleep, stays valid.
//!
//! * `schedule` as what it is to run: its policy, its weight, what it is lent
//! * `link`     how its thread leads to it

mod link;
mod registers;
mod schedule;

pub use link::TaskLink;

use super::affinity::Affinity;
use super::clock::Clock;
use super::cpustat::Share;
use super::deadline;
use super::fair::Entity;
use super::futex::pi::PiSlot;
use super::group;
use super::partner::Partner;
use super::policy::{Loan, Schedule};
use super::realtime;
use super::report::Waits;
use super::work::Work;
use super::{runqueue::Order, timer::Timer, wait::WaitNode};
use crate::arch;
use crate::errno::Result;
use crate::memory::Space;
use crate::process::Thread;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use intrusive_collections::{LinkedListAtomicLink, RBTreeLink};
use sync::level::Held;
use sync::machine::{CpuId, MAX_CPUS};
use sync::per_cpu;
use sync::protocol::saved::OnCpu;
use sync::rcu::RcuHead;

/// What a task is doing. Only its own CPU makes it sleep; it is made `Running` under the lock of its run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
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

/// What wakers read and nobody writes when it sleeps or wakes, on a line of its own.
#[repr(align(64))]
struct Place {
    affinity: Affinity,
    nice: AtomicI32,
    /// `Schedule::word`.
    policy: AtomicU32,
    /// The `Class` in which it is to run: that of its policy, or what it is lent.
    class: AtomicU32,
}

/// A thread, as the scheduler sees it.
pub struct Task {
    pub work: Work,
    /// Set while a CPU runs on the task's stack.
    pub(super) on_cpu: OnCpu,
    /// `park` returns at once, and takes this back.
    pub(super) permit: AtomicBool,
    pub(super) run_link: RBTreeLink,
    /// Links it to those of its queue that other CPUs may take or, without `run_link`, to the real-time tasks of its priority. Under that queue's
    /// lock.
    pub(super) list_link: LinkedListAtomicLink,
    /// Its place among those that want the CPU.
    pub(super) fair: Entity,
    pub(super) realtime: realtime::Entity,
    pub(super) partner: Partner,
    pub(super) deadline: deadline::Slot,
    /// The group that it is in.
    pub(super) slot: group::Slot,
    /// The processor time that it has used.
    pub(super) clock: Clock,
    /// The `Loan` of those that wait for a futex of its (`futex::pi`).
    lent: AtomicU32,
    /// Its class or its weight is another since its CPU last took them up.
    changed: AtomicBool,
    place: Place,
    /// How long it waited for a CPU.
    pub(super) waits: Waits,
    /// Moves to another CPU.
    pub(super) migrations: AtomicU64,
    pub(super) voluntary: AtomicU64,
    pub(super) involuntary: AtomicU64,
    /// Work flags that are set each time the task is switched in.
    pub(super) on_resume: AtomicU32,
    /// Its part in futexes that lend priority.
    pub(super) pi: PiSlot,
    /// What wakers touch: where it sleeps, its state and its CPU.
    pub(super) sleep_node: WaitNode,
    pub(super) sleep_timer: Arc<Timer>,
    /// It is to go to another CPU at its next switch.
    pub(super) moves: AtomicBool,
    /// It has left its space, and ends.
    leaves: AtomicBool,
    /// Why its system calls are looked at before they are made (`syscall::dispatch`): `FOR_GOOD`, `TRACED`.
    watched: AtomicU8,
    /// It waits for the quota of its group (`throttle`).
    throttled: AtomicBool,
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

/// Filters of system calls, or options of the kernel's command line.
const FOR_GOOD: u8 = 1;
/// Who traces it wants to see its calls. The task itself sets and clears it.
const TRACED: u8 = 2;
/// It wants some of its calls as signals.
const DISPATCHING: u8 = 4;

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
        let sleep_timer = sync::slab_arc(Timer::new(wake_at, 0))?;
        let task = sync::slab_arc(Task {
            work: Work::new(),
            on_cpu: OnCpu::new(),
            permit: AtomicBool::new(false),
            run_link: RBTreeLink::new(),
            list_link: LinkedListAtomicLink::new(),
            fair: Entity::new(schedule.rank()),
            realtime: realtime::Entity::new(),
            partner: Partner::new(),
            deadline: deadline::Slot::new(),
            slot: group::Slot::new(),
            clock: Clock::new(Share::of(schedule.nice)),
            lent: AtomicU32::new(Loan::NONE.0),
            changed: AtomicBool::new(false),
            place: Place {
                affinity: Affinity::all(),
                nice: AtomicI32::new(schedule.nice),
                policy: AtomicU32::new(schedule.word()),
                class: AtomicU32::new(schedule.class().0),
            },
            waits: Waits::new(),
            migrations: AtomicU64::new(0),
            voluntary: AtomicU64::new(0),
            involuntary: AtomicU64::new(0),
            on_resume: AtomicU32::new(0),
            pi: PiSlot::new(),
            // SAFETY: that of this task.
            sleep_node: unsafe { WaitNode::of_task(sync::cpu_id()) },
            sleep_timer,
            moves: AtomicBool::new(false),
            leaves: AtomicBool::new(false),
            watched: AtomicU8::new(0),
            throttled: AtomicBool::new(false),
            thread,
            rcu: RcuHead::new(),
            #[cfg(feature = "lockdep")]
            locks: sync::lock::order::HeldLocks::new(),
            hardware: UnsafeCell::new(hardware),
        })?;
        task.fair.set_slice(schedule.slice);
        let address = Arc::as_ptr(&task);
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
        match self.sleep_node.state.load(Ordering::SeqCst) {
            0 => State::Running,
            1 => State::Interruptible,
            2 => State::Killable,
            3 => State::Uninterruptible,
            _ => State::Dead,
        }
    }

    /// Who begins to sleep puts a full fence behind it, before it looks at what it waits for.
    pub(super) fn set_state(&self, state: State) {
        self.sleep_node.state.store(state as u8, Ordering::Release);
    }

    /// Is there anything to do before this task returns to user mode?
    #[inline]
    pub fn work_pending(&self) -> bool {
        self.work.any(u32::MAX)
    }

    /// From now on `flags` are set in `work` each time the task is switched in.
    pub fn raise_on_resume(&self, flags: u32) {
        if self.on_resume.load(Ordering::Relaxed) & flags != flags {
            self.on_resume.fetch_or(flags, Ordering::Relaxed);
        }
    }

    /// No more.
    pub fn stop_raising(&self, flags: u32) {
        if self.on_resume.load(Ordering::Relaxed) & flags != 0 {
            self.on_resume.fetch_and(!flags, Ordering::Relaxed);
        }
    }

    /// Sets the flags of `raise_on_resume`, as a switch in does. For interrupt handlers too.
    pub fn raise_again(&self) {
        let raised = self.on_resume.load(Ordering::Relaxed);
        if raised != 0 {
            self.work.set(raised);
        }
    }

    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed) != 0
    }

    /// Are those watched that it makes?
    pub(super) fn is_watched_for_good(&self) -> bool {
        self.watched.load(Ordering::Relaxed) & FOR_GOOD != 0
    }

    /// For good, and so are those that it makes.
    pub fn watch(&self) {
        self.watched.fetch_or(FOR_GOOD, Ordering::Relaxed);
    }

    /// Is it to stop at its calls for who traces it?
    pub fn is_call_traced(&self) -> bool {
        self.watched.load(Ordering::Relaxed) & TRACED != 0
    }

    /// For the running task, which has been told how to go on by who traces it.
    pub fn set_call_traced(&self, to: bool) {
        if self.is_call_traced() != to {
            self.watched.fetch_xor(TRACED, Ordering::Relaxed);
        }
    }

    /// Does it want some of its calls as signals (`process::dispatch`)?
    pub fn is_dispatching(&self) -> bool {
        self.watched.load(Ordering::Relaxed) & DISPATCHING != 0
    }

    /// For the running task, or one that is stopped.
    pub fn set_dispatching(&self, to: bool) {
        if to {
            self.watched.fetch_or(DISPATCHING, Ordering::Relaxed);
        } else {
            self.watched.fetch_and(!DISPATCHING, Ordering::Relaxed);
        }
    }

    /// The task ends: it has no space any more.
    pub(super) fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// Its next switch takes it out of its group.
    pub(super) fn set_leaves(&self) {
        self.leaves.store(true, Ordering::Relaxed);
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Sleeping, for `ps`: 'R', 'S' or 'D'.
    pub fn state_letter(&self) -> u8 {
        // Who is woken runs, though its CPU may not have got round to it: called, then being woken, then awake, looked at in this order.
        if self.sleep_node.call.is_called() || self.sleep_node.wakes.load(Ordering::Acquire) {
            return b'R';
        }
        match self.state() {
            State::Running => b'R',
            _ if self.is_throttled() => b'R',
            State::Interruptible => b'S',
            State::Killable | State::Uninterruptible => b'D',
            State::Dead => b'X',
        }
    }

    /// Does it wait for the quota of its group?
    pub(super) fn is_throttled(&self) -> bool {
        self.throttled.load(Ordering::Relaxed)
    }

    pub(super) fn set_throttled(&self, is_throttled: bool) {
        self.throttled.store(is_throttled, Ordering::Relaxed);
    }

    /// The CPU it runs on or ran on last.
    pub fn cpu(&self) -> CpuId {
        self.sleep_node.cpu.get()
    }

    pub fn affinity(&self) -> &Affinity {
        &self.place.affinity
    }

    /// Restricts the task to the CPUs of `words` (64 CPUs each, lowest first). False: none of them is present.
    /// A task that runs elsewhere moves at its next switch; the current one at once.
    pub fn set_affinity(&self, words: [u64; MAX_CPUS / 64]) -> bool {
        let present = sync::machine::cpus();
        if !(0..present).any(|cpu| words[cpu as usize / 64] >> (cpu % 64) & 1 != 0) {
            return false;
        }
        self.place.affinity.store(words);
        super::runqueue::move_if_needed(self);
        true
    }

    pub(super) fn set_affinity_at_birth(&self, cpu: CpuId) {
        let mut words = [0; MAX_CPUS / 64];
        words[cpu as usize / 64 % words.len()] = 1 << (cpu % 64);
        self.place.affinity.store(words);
    }

    pub(super) fn inherit_affinity(&self, parent: &Task) {
        self.place.affinity.inherit(&parent.place.affinity);
    }

    /// Processor time used so far (`clock`).
    #[inline(always)]
    pub fn times(&self) -> Times {
        let (user_ns, system_ns) = self.clock.read();
        Times {
            user_ns,
            system_ns,
            voluntary: self.voluntary.load(Ordering::Relaxed),
            involuntary: self.involuntary.load(Ordering::Relaxed),
        }
    }

    /// A timer interrupt has come upon it.
    pub(super) fn count_tick(&self, from_user: bool) {
        self.fair.count(self.clock.tick(from_user));
    }

    /// Counts the time since the last call. The task runs on, or is switched away. Its own CPU only.
    pub(super) fn account(&self, now: u64, runs_on: bool) {
        self.fair.count(self.clock.advance(now, runs_on));
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
        if self.on_cpu.is_on_after() && current_address() != core::ptr::from_ref(self) as usize {
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
