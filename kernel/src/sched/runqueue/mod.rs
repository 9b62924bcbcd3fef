//! One run queue per CPU, and everything that puts tasks on queues.
//!
//! * `queue`   the tasks of one CPU, in the order of `fair`, and what the CPU shows of them
//! * `place`   wake-up, birth, a change of affinity or weight: which queue a task goes to
//! * `calls`   wake-ups that leave the work to another CPU
//! * `balance` tasks that move because one CPU has more to do than another; `realtime` because one of a lower rank runs elsewhere
//! * `push`    the running task goes to another CPU
//! * `moves`   how many went where, and why
//! * `groups` what part of its own weight a task counts with
//! * `quota`  whether anything is left of a group's quota
//! * `deadline` when a CPU looks at run times and periods
//! * `machine` what all of it sees of the machine; `simulation` is another one, for tests
//!
//! A task that waits for a CPU is on the queue of `task.cpu`; the running one is that queue's `current`. A task is made
//! `Running` only under the lock of its queue, where it is clear whether it has already left the CPU:
//!
//! * still `current`: it has not yet gone to sleep and simply goes on;
//! * gone, but its registers are not saved yet (`on_cpu`): it goes on its own CPU's queue, whose next switch comes after;
//! * else it may go anywhere.
//!
//! CountLocal: there is no list or mask of idle CPUs. What a CPU shows to others lies on lines that it writes only when it starts or stops to
//! idle, has or no longer has tasks to give away, or has become clearly busier or less busy.

mod balance;
mod calls;
mod deadline;
mod groups;
mod machine;
mod moves;
mod place;
mod push;
mod queue;
mod quota;
mod realtime;
#[cfg(test)]
mod simulation;

use super::fair::{NICE_0, UNIT};
use super::group::Group;
use super::task::{State, Task};
use super::work::Work;
use crate::arch;
use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
use machine::{Machine, Real};
use queue::Queue;
use sync::SpinGuard;
use sync::level::Held;
use sync::machine::CpuId;

use crate::lock_order as level;

/// A CPU's load, for `/proc`.
#[derive(Clone, Copy, Debug)]
pub struct CpuLoad {
    /// Tasks that wait for the CPU.
    pub waiting: u32,
    pub idle: bool,
}

/// Load of `cpu`, read without a lock.
pub fn load_of(cpu: CpuId) -> CpuLoad {
    let queue = Real.queue(cpu);
    CpuLoad { waiting: queue.waiting(), idle: queue.idles() }
}

/// What a CPU has to do, for `/proc`.
#[derive(Clone, Copy, Debug)]
pub struct QueueLook {
    /// The number of the thread that runs; None: the CPU idles, or runs a thread of the kernel's own.
    pub running: Option<u32>,
    /// Tasks that wait.
    pub waiting: u32,
    /// The weight of all, where nice 0 is 1024.
    pub weight: u64,
    /// The weight that it shows to CPUs that start a task.
    pub shown_weight: u64,
    /// Its virtual time, as it is compared with that of other CPUs, ns; None: it has nothing to do.
    pub time: Option<u64>,
    /// It shows tasks that others may take.
    pub gives_away: bool,
}

/// Looks at the queue of `cpu`. Takes its lock for a moment.
pub fn look_at_queue(cpu: CpuId) -> QueueLook {
    let own = Real.queue(cpu);
    let queue = own.queue.lock();
    QueueLook {
        running: queue.current.as_ref().and_then(|task| task.thread.as_ref()).map(|thread| thread.tid()),
        waiting: own.waiting(),
        weight: queue.load() / (UNIT / NICE_0),
        shown_weight: own.load.0.load(Ordering::Relaxed) / (UNIT / NICE_0),
        time: queue.time(Real.now()),
        gives_away: own.is_stealable(),
    }
}

/// What `cpu` has moved to other CPUs, or to itself: woken, woken by a partner, taken while it idled, owed more than others, sent away; and how many of
/// those went to another node. Read without a lock.
pub fn moves_of(cpu: CpuId) -> ([u64; 5], u64) {
    moves::of(cpu)
}

/// This CPU's queue, locked.
pub(super) struct This(SpinGuard<'static, Queue, level::RunQueue>);

impl Deref for This {
    type Target = Queue;
    fn deref(&self) -> &Queue {
        &self.0
    }
}

impl DerefMut for This {
    fn deref_mut(&mut self) -> &mut Queue {
        &mut self.0
    }
}

/// Locks this CPU's queue.
pub(super) fn lock_this() -> This {
    This(machine::this().queue.lock())
}

impl This {
    /// The running task, which is `current` no more, goes to sleep, ends, or leaves for another CPU.
    pub fn leave(&mut self, task: &Task) {
        self.0.leave(task, slice());
    }

    /// Puts the running task, which is `current` no more, back among the waiting.
    #[inline(always)]
    pub fn put_back(&mut self, task: Arc<Task>) {
        self.0.put_back(machine::this(), Real.here(), task, slice());
    }

    /// How long the task that has just got this CPU keeps it from those that wait, ns; None: until the next tick.
    #[inline]
    pub fn first_turn(&self) -> Option<u64> {
        self.0.first_turn()
    }

    /// Takes the task whose turn it is.
    pub fn take_first(&mut self, now: u64) -> Option<Arc<Task>> {
        self.0.take_first(machine::this(), now)
    }

    /// The running task, which is `current` no more for a moment, takes the weight and the class that it is to have.
    /// False: it has a deadline and has had its run time.
    pub fn take_change(&mut self, task: &Task, now: u64) -> bool {
        self.0.take_change(machine::this(), Real.here(), task, now, slice())
    }
}

/// The CPU has a current task and may be given others.
pub(super) fn set_online() {
    Real.own_queue().shown.online.store(true, Ordering::Release);
}

pub(super) fn has_waiting() -> bool {
    Real.own_queue().waiting() != 0
}

/// Has this CPU something to do?
pub(super) fn has_work() -> bool {
    has_waiting() || !calls::none_called(&Real)
}

/// Wakes those of this CPU's tasks whom other CPUs have called.
#[inline]
pub(super) fn answer_calls() {
    if !calls::none_called(&Real) {
        calls::answer(&Real);
    }
}

/// Says that this CPU idles from `now` on.
pub(super) fn show_idle(now: u64) {
    Real.own_queue().show_idle(now, super::cpustat::switches_of(Real.here()));
}

/// The running task ends.
pub(super) fn note_end() {
    let own = Real.own_queue();
    if own.waiting() == 0 {
        own.looks.note_end();
    }
}

/// Says that this CPU idles no more.
pub(super) fn show_busy() {
    Real.own_queue().show_busy();
}

/// Does this CPU still show that it idles? If not, it was given something.
pub(super) fn shows_idle() -> bool {
    Real.own_queue().idles()
}

/// This CPU, which idles, says that it halts unless it finds work in a last look. False: it was given something.
pub(super) fn show_halt() -> bool {
    Real.own_queue().shown.idle.halt()
}

/// This CPU halts no more.
pub(super) fn end_halt() {
    Real.own_queue().shown.idle.end_halt();
}

/// What a task that asks for nothing else runs at a time while others wait, ns.
pub(super) fn slice() -> u64 {
    Real.slice()
}

/// The locks that a waker holds come before the run queues: the last level that does.
pub(super) type Order<'a> = Held<'a, level::TimerQueue>;

/// Wakes `task` if it is in one of `states`; sometimes also when it has begun another sleep meanwhile.
pub(super) fn wake(task: &Task, states: &[State], _order: Order<'_>) {
    place::wake(&Real, task, states);
}

/// Puts a new task, whose run reference this is, on a queue.
pub(super) fn start(task: Arc<Task>) {
    place::start(&Real, task);
}

/// The task that has just left this CPU may not run on it any more.
pub(super) fn send_away(task: Arc<Task>) {
    place::send_away(&Real, task);
}

/// The running task begins a new program: is that better done on another CPU?
pub(super) fn is_better_elsewhere(task: &Task) -> bool {
    place::is_better_elsewhere(&Real, task)
}

/// Looks for a task that waits elsewhere and puts it on this CPU's queue. Called by an idle CPU.
pub(super) fn steal() -> bool {
    balance::steal(&Real)
}

/// A tick of this CPU, in a thread's context: should another task run? When the CPU wants to look again, at the latest.
pub(super) fn tick() -> bool {
    balance::tick(&Real)
}

/// Looks whether real-time tasks should go from here to other CPUs, or come from there.
pub(super) fn even_out() {
    if Real.own_queue().queue.lock().take_uneven() {
        realtime::even_out(&Real);
    }
}

/// How long the running task keeps this CPU yet from somebody that waits, ns; None: nobody is to have it before the next tick.
pub(super) fn turn_left(now: u64) -> Option<u64> {
    if !has_waiting() {
        return None;
    }
    Real.own_queue().queue.lock().turn_left(now)
}

/// Looks at tasks with deadlines. When to look again; `u64::MAX`: this CPU has none.
pub(super) fn look_at_deadlines() -> u64 {
    if deadline::has_any(&Real) { deadline::look(&Real) } else { u64::MAX }
}

/// When the next period begins of a task that is throttled here; `u64::MAX`: none is.
pub(super) fn next_period() -> u64 {
    machine::this().next_period()
}

/// Another CPU has made this one look, perhaps for a task that is due when the turn of the running one is over.
pub(super) fn expect_turn() {
    if !super::task::current().work.any(Work::RESCHED) {
        let now = Real.now();
        turn_left(now).into_iter().for_each(|left| Real.look_at(now + left));
    }
}

/// The affinity of `task` has changed: gets it off a CPU where it may no longer be.
///
/// A task that waits moves to another queue now. Every other is told to reschedule, and looks at its affinity there, before
/// it is next in user mode: the running one at once, and when they get a CPU the one whose registers are still being saved, the
/// one that sleeps, and the one that is between two queues, on its way to a CPU that its old affinity allowed.
pub(super) fn move_if_needed(task: &Task) {
    match place::move_if_needed(&Real, task) {
        Some(_) if is_current(task) => super::switch::schedule(),
        Some(cpu) => arch::send_reschedule(cpu),
        None => {}
    }
}

/// The weight or the class of `task` has changed: the CPU that runs it takes it up the next time that it comes by. Does not sleep.
pub(super) fn changed(task: &Task) {
    if let Some(cpu) = place::changed(&Real, task)
        && !is_current(task)
    {
        arch::send_reschedule(cpu);
    }
}

/// Gives `task` another group, which stays as `Membership::set` says. Does not sleep.
pub(super) fn regroup(task: &Task, group: *const Group) {
    groups::regroup(&Real, task, group);
}

/// The group goes: nothing of the queues leads to it any more.
pub(super) fn end_group(group: &Group) {
    groups::end(&Real, group);
}

/// The group has a quota from now on, and had none before.
pub(super) fn begin_quota(group: &Group) {
    quota::begin(&Real, group);
}

/// The running task is on its way to user mode: until when it has to wait for its group's quota, ns; None: not at all.
pub(super) fn wait_for_quota() -> Option<u64> {
    quota::wait(&Real, &super::task::current())
}

/// The running task has waited for its group's quota for `ns`.
pub(super) fn count_throttled(ns: u64) {
    // It may be in no group any more.
    if let Some(group) = super::task::current().slot.group() {
        group.bandwidth().waited(ns);
    }
}

/// A task of a group whose quota has changed looks before it is next in user mode. Does not sleep.
pub(super) fn expect_quota(task: &Task) {
    quota::expect(&Real, task);
}

/// Looks whether the running task's group has used up what this CPU has of its quota. When to look again; `u64::MAX`: it has none.
pub(super) fn look_at_quota() -> u64 {
    if super::task::current().slot.is_counted() { quota::look(&Real) } else { u64::MAX }
}

fn is_current(task: &Task) -> bool {
    super::task::current_address() == core::ptr::from_ref(task) as usize
}
