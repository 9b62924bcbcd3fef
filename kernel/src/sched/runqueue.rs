//! One run queue per CPU, ordered by weighted run time, and everything that puts tasks on queues.
//!
//! A task that waits for a CPU is on the queue of `task.cpu`; the running one is that queue's `current`. A task is made
//! `Running` only under the lock of its queue, where it is clear whether it has already left the CPU:
//!
//! * still `current`: it has not yet gone to sleep and simply goes on;
//! * gone, but its registers are not saved yet (`on_cpu`): it goes on its own CPU's queue, whose next switch comes after;
//! * else it may go anywhere.
//!
//! CountLocal: there is no list or mask of idle CPUs. Looking for one reads the `idle` flags of its neighbours, which change only
//! when those start or stop to idle.

use super::task::{State, Task, current_address};
use super::work::Work;
use crate::arch;
use crate::lock_order as level;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use intrusive_collections::{Bound, KeyAdapter, RBTree, intrusive_adapter};
use sync::level::Held;
use sync::machine::{self, CpuId};
use sync::{SpinGuard, SpinLock, lock_class, per_cpu};

lock_class! { static RUN_QUEUE: LockClass = ("run queue", level::RunQueue); }

intrusive_adapter!(RunAdapter = Arc<Task>: Task { run_link => intrusive_collections::RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for RunAdapter {
    type Key = u64;
    fn get_key(&self, task: &'a Task) -> u64 {
        task.vruntime.load(Ordering::Relaxed)
    }
}

/// A woken task is put at most this far before the queue's time, ns: sleepers start soon, but cannot save up.
const SLEEPER_BONUS: u64 = 3_000_000;
/// A woken task takes the CPU at once if it is this far before the running one, ns.
const PREEMPTION_LEAD: u64 = 1_000_000;
/// CPUs looked at when an idle one is wanted.
const SEARCH: u32 = 16;
/// Tasks looked at for one that an idle CPU may take: as many may wait as a program likes, and the queue is locked meanwhile.
const LOOKS: usize = 32;

/// The tasks of one CPU.
pub(super) struct Queue {
    waiting: RBTree<RunAdapter>,
    /// The running task's run reference.
    pub current: Option<Arc<Task>>,
    /// Runs when nothing else does; never on `waiting`.
    pub idle: Option<Arc<Task>>,
    /// Where the CPU's virtual time stands; never goes back.
    time: u64,
    /// How many of `waiting` may run elsewhere.
    movable: u32,
    /// The run time of the task at which the last look for one to take away ended.
    looked: Option<u64>,
}

#[repr(align(64))]
struct CpuQueue {
    queue: SpinLock<Queue, level::RunQueue>,
    /// Tasks that wait; changes at every wake-up, and is looked at by the CPU itself.
    waiting: AtomicU32,
    shown: Shown,
    stealable: Stealable,
}

/// What CPUs that wake a task look at, on a line of its own, which a busy CPU does not write.
#[repr(align(64))]
struct Shown {
    /// The CPU idles and has not been given anything.
    idle: AtomicBool,
    /// The CPU takes tasks.
    online: AtomicBool,
}

/// What idle CPUs that seek work look at, on a line of its own: a CPU whose tasks wait one after the other, each for a wake-up, does not write it.
#[repr(align(64))]
struct Stealable(
    /// More tasks wait than the CPU is about to run, and some may run elsewhere.
    AtomicBool,
);

per_cpu! {
    static QUEUES: CpuQueue = CpuQueue {
        queue: SpinLock::new(
            Queue::new(),
            &RUN_QUEUE,
        ),
        waiting: AtomicU32::new(0),
        shown: Shown { idle: AtomicBool::new(false), online: AtomicBool::new(false) },
        stealable: Stealable(AtomicBool::new(false)),
    };
}

/// A CPU's load, for `/proc`.
#[derive(Clone, Copy, Debug)]
pub struct CpuLoad {
    /// Tasks that wait for the CPU.
    pub waiting: u32,
    pub idle: bool,
}

/// Load of `cpu`, read without a lock.
pub fn load_of(cpu: CpuId) -> CpuLoad {
    let queue = QUEUES.of(cpu);
    CpuLoad { waiting: queue.waiting.load(Ordering::Relaxed), idle: queue.shown.idle.load(Ordering::Relaxed) }
}

/// How long `cpu` has idled, ns. Takes its queue's lock for a moment.
pub fn idle_ns(cpu: CpuId) -> u64 {
    let idle = QUEUES.of(cpu).queue.lock().idle.clone();
    idle.map_or(0, |task| {
        let times = task.times();
        times.user_ns + times.system_ns
    })
}

/// Locks this CPU's queue.
pub(super) fn lock_this() -> SpinGuard<'static, Queue, level::RunQueue> {
    QUEUES.this().queue.lock()
}

/// The CPU has a current task and may be given others.
pub(super) fn set_online() {
    QUEUES.this().shown.online.store(true, Ordering::Release);
}

pub(super) fn has_waiting() -> bool {
    QUEUES.this().waiting.load(Ordering::Relaxed) != 0
}

/// Says that this CPU idles or no longer does.
pub(super) fn show_idle(idle: bool) {
    let shown = &QUEUES.this().shown.idle;
    if shown.load(Ordering::Relaxed) != idle {
        shown.store(idle, Ordering::SeqCst);
    }
}

impl Queue {
    const fn new() -> Queue {
        let waiting = RBTree::new(RunAdapter::NEW);
        Queue { waiting, current: None, idle: None, time: 0, movable: 0, looked: None }
    }

    /// Puts a task on the queue; `cpu` is this queue's.
    fn put(&mut self, cpu: CpuId, task: Arc<Task>) {
        task.cpu.store(cpu, Ordering::Relaxed);
        // Who sees the link sees the CPU too: `is_waiting_on`.
        fence(Ordering::Release);
        self.count(&task);
        self.waiting.insert(task);
        let shown = &QUEUES.of(cpu).waiting;
        let waiting = shown.load(Ordering::Relaxed) + 1;
        shown.store(waiting, Ordering::SeqCst);
        self.show_stealable(cpu, waiting);
    }

    /// Puts the running task back among the waiting.
    pub(super) fn put_back(&mut self, cpu: CpuId, task: Arc<Task>) {
        self.put(cpu, task);
    }

    /// Takes the task whose turn it is.
    pub(super) fn take_first(&mut self, cpu: CpuId) -> Option<Arc<Task>> {
        let task = self.waiting.front_mut().remove()?;
        self.taken(cpu, &task);
        self.time = self.time.max(task.vruntime.load(Ordering::Relaxed));
        Some(task)
    }

    /// Counts a task that waits, as its affinity is now.
    fn count(&mut self, task: &Task) {
        let movable = task.affinity().only().is_none();
        task.movable.store(movable, Ordering::Relaxed);
        self.movable += u32::from(movable);
    }

    fn uncount(&mut self, task: &Task) {
        self.movable -= u32::from(task.movable.load(Ordering::Relaxed));
    }

    fn taken(&mut self, cpu: CpuId, task: &Task) {
        self.uncount(task);
        let shown = &QUEUES.of(cpu).waiting;
        let waiting = shown.load(Ordering::Relaxed) - 1;
        shown.store(waiting, Ordering::Relaxed);
        self.show_stealable(cpu, waiting);
    }

    /// Says whether others may take tasks. An idle CPU has one that it was woken for.
    fn show_stealable(&self, cpu: CpuId, waiting: u32) {
        let idles = matches!((&self.current, &self.idle), (Some(now), Some(idle)) if Arc::ptr_eq(now, idle));
        let (shown, stealable) =
            (&QUEUES.of(cpu).stealable.0, self.movable > 0 && waiting > u32::from(idles));
        if shown.load(Ordering::Relaxed) != stealable {
            shown.store(stealable, Ordering::Relaxed);
        }
    }

    /// Takes a task that `thief` may run and whose registers are saved, of those whose turn comes last. Goes on where the last look ended.
    fn take_for(&mut self, cpu: CpuId, thief: CpuId) -> Option<Arc<Task>> {
        let mut cursor = match self.looked.take() {
            Some(key) => self.waiting.upper_bound_mut(Bound::Excluded(&key)),
            None => self.waiting.back_mut(),
        };
        for _ in 0..LOOKS {
            let task = cursor.get()?;
            if task.affinity().allows(thief) && !task.on_cpu.load(Ordering::Acquire) {
                let task = cursor.remove()?;
                self.taken(cpu, &task);
                return Some(task);
            }
            self.looked = Some(task.vruntime.load(Ordering::Relaxed));
            cursor.move_prev();
        }
        None
    }

    /// Virtual time for a task that comes from elsewhere or from sleep.
    fn admit(&self, task: &Task, migrated: bool) {
        let floor = self.time.saturating_sub(SLEEPER_BONUS);
        let own = task.vruntime.load(Ordering::Relaxed);
        let start = if migrated { self.time } else { own.max(floor) };
        task.vruntime.store(start, Ordering::Relaxed);
    }

    /// Should `task` take the CPU from the running one?
    fn preempts(&self, task: &Task) -> bool {
        let (Some(current), Some(idle)) = (&self.current, &self.idle) else { return false };
        if Arc::ptr_eq(current, idle) {
            return true;
        }
        let ran = arch::time::now().saturating_sub(current.clock.since());
        task.vruntime.load(Ordering::Relaxed) + PREEMPTION_LEAD
            < current.vruntime.load(Ordering::Relaxed) + ran
            && task.preempts()
    }
}

/// The locks that a waker holds come before the run queues: the last level that does.
pub(super) type Order<'a> = Held<'a, level::TimerQueue>;

/// Wakes `task` if it is in one of `states`.
pub(super) fn wake(task: &Task, states: &[State], _order: Order<'_>) -> bool {
    // The waker's condition before the look at the state; `WaitQueue` has the other half.
    fence(Ordering::SeqCst);
    if !states.contains(&task.state()) {
        return false;
    }
    let (queue, home) = lock_queue_of(task);
    if !states.contains(&task.state()) {
        return false;
    }
    task.set_state(State::Running);
    if queue.current.as_ref().is_some_and(|c| Arc::as_ptr(c) == core::ptr::from_ref(task)) {
        return true;
    }
    // SAFETY: made `Running` just now under the lock, and not current: see above.
    let owned = unsafe { task.take_run_reference() };
    if task.on_cpu.load(Ordering::Acquire) {
        queue.admit(&owned, false);
        return enqueue(queue, home, owned);
    }
    let target = place(&owned, home);
    if target == home {
        queue.admit(&owned, false);
        return enqueue(queue, home, owned);
    }
    drop(queue);
    let queue = QUEUES.of(target).queue.lock();
    queue.admit(&owned, true);
    enqueue(queue, target, owned)
}

/// Puts a new task, whose run reference this is, on a queue.
pub(super) fn start(task: Arc<Task>) {
    let here = machine::cpu_id();
    let target = match task.affinity().only() {
        Some(cpu) if cpu < machine::cpus() => cpu,
        _ => find_idle(&task, here).unwrap_or(if task.affinity().allows(here) {
            here
        } else {
            task.affinity().first().unwrap_or(here)
        }),
    };
    let queue = QUEUES.of(target).queue.lock();
    queue.admit(&task, true);
    enqueue(queue, target, task);
}

/// Locks the queue that `task` belongs to.
fn lock_queue_of(task: &Task) -> (SpinGuard<'static, Queue, level::RunQueue>, CpuId) {
    loop {
        let cpu = task.cpu.load(Ordering::Acquire);
        let queue = QUEUES.of(cpu).queue.lock();
        if task.cpu.load(Ordering::Relaxed) == cpu {
            return (queue, cpu);
        }
    }
}

fn enqueue(mut queue: SpinGuard<'static, Queue, level::RunQueue>, cpu: CpuId, task: Arc<Task>) -> bool {
    let preempts = queue.preempts(&task);
    queue.put(cpu, task);
    if preempts && let Some(current) = &queue.current {
        current.work.set(Work::RESCHED);
    }
    drop(queue);
    if cpu != machine::cpu_id() {
        let shown = &QUEUES.of(cpu).shown.idle;
        let woke = shown.load(Ordering::SeqCst) && shown.swap(false, Ordering::SeqCst);
        if woke || preempts {
            arch::send_reschedule(cpu);
        }
    }
    true
}

/// Where a woken task should run: where it was if that CPU idles or it must; else on an idle one; else where it was.
fn place(task: &Task, home: CpuId) -> CpuId {
    if let Some(only) = task.affinity().only() {
        return if only < machine::cpus() { only } else { home };
    }
    let allowed = task.affinity().allows(home);
    if allowed && QUEUES.of(home).shown.idle.load(Ordering::Relaxed) {
        return home;
    }
    find_idle(task, home).unwrap_or(if allowed { home } else { task.affinity().first().unwrap_or(home) })
}

/// An idle CPU that `task` may run on, near `start`: its own node first.
fn find_idle(task: &Task, start: CpuId) -> Option<CpuId> {
    let cpus = machine::cpus();
    let node = machine::node_of(start);
    for own_node in [true, false] {
        let near = (1..cpus)
            .map(|i| (start + i) % cpus)
            .filter(|cpu| (machine::node_of(*cpu) == node) == own_node)
            .take(SEARCH as usize);
        for cpu in near {
            let shown = &QUEUES.of(cpu).shown;
            if shown.idle.load(Ordering::Relaxed) && task.affinity().allows(cpu) {
                return Some(cpu);
            }
        }
        if machine::nodes() == 1 {
            break;
        }
    }
    None
}

/// Looks for a task that waits elsewhere and puts it on this CPU's queue. Called by an idle CPU.
pub(super) fn steal() -> bool {
    let here = machine::cpu_id();
    let cpus = machine::cpus();
    for cpu in (1..cpus).map(|i| (here + i) % cpus) {
        let victim = QUEUES.of(cpu);
        if !victim.stealable.0.load(Ordering::Relaxed) || !victim.shown.online.load(Ordering::Relaxed) {
            continue;
        }
        let Some(mut queue) = victim.queue.try_lock() else { continue };
        let Some(task) = queue.take_for(cpu, here) else { continue };
        drop(queue);
        let mut own = lock_this();
        own.admit(&task, true);
        own.put(here, task);
        return true;
    }
    false
}

/// Does `task` wait on the queue of `cpu`, whose lock the caller holds? Another CPU may link it to its own queue meanwhile.
fn is_waiting_on(task: &Task, cpu: CpuId) -> bool {
    if !task.run_link.is_linked() {
        return false;
    }
    fence(Ordering::Acquire);
    task.cpu.load(Ordering::Relaxed) == cpu
}

/// The affinity of `task` has changed: gets it off a CPU where it may no longer be.
///
/// A task that waits moves to another queue now. Every other is told to reschedule, and looks at its affinity there, before
/// it is next in user mode: the running one at once, and when they get a CPU the one whose registers are still being saved, the
/// one that sleeps, and the one that is between two queues, on its way to a CPU that its old affinity allowed.
pub(super) fn move_if_needed(task: &Task) {
    let (mut queue, cpu) = lock_queue_of(task);
    let runs = queue.current.as_ref().is_some_and(|c| Arc::as_ptr(c) == core::ptr::from_ref(task));
    let waits = is_waiting_on(task, cpu);
    if (runs || waits) && task.affinity().allows(cpu) {
        if waits {
            queue.uncount(task);
            queue.count(task);
            queue.show_stealable(cpu, load_of(cpu).waiting);
        }
        return;
    }
    if waits && !task.on_cpu.load(Ordering::Acquire) {
        // SAFETY: under the lock of the queue on whose tree `is_waiting_on` found the task.
        let owned = unsafe { queue.waiting.cursor_mut_from_ptr(task) }.remove();
        queue.taken(cpu, task);
        drop(queue);
        owned.into_iter().for_each(start);
        return;
    }
    task.work.set(Work::RESCHED);
    drop(queue);
    if !runs {
        return;
    }
    if current_address() == core::ptr::from_ref(task) as usize {
        super::switch::schedule();
    } else {
        arch::send_reschedule(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::Schedule;
    use super::super::task::Hardware;
    use super::*;
    use crate::testing::in_process;
    use std::vec::Vec;
    use sync::machine::MAX_CPUS;

    /// A task that never runs, with `only` for its one CPU.
    fn task(vruntime: u64, only: Option<CpuId>) -> Arc<Task> {
        let hardware = Hardware::kernel(arch::Context::running());
        let task = Task::try_new(None, hardware, Schedule::NORMAL).unwrap();
        task.vruntime.store(vruntime, Ordering::Relaxed);
        only.into_iter().for_each(|cpu| task.set_affinity_at_birth(cpu));
        task
    }

    fn is_shown(cpu: CpuId) -> bool {
        QUEUES.of(cpu).stealable.0.load(Ordering::Relaxed)
    }

    #[test]
    fn who_has_only_pinned_tasks_is_not_looked_into() {
        in_process(|| {
            let cpu = MAX_CPUS as u32 - 1;
            let mut queue = Queue::new();
            for n in 0..100 {
                queue.put(cpu, task(n, Some(cpu)));
            }
            assert!(!is_shown(cpu));
            queue.put(cpu, task(3, None));
            assert!(is_shown(cpu));
            // The tasks at which each look ends are those at which the next begins.
            let found: Vec<bool> = (0..4).map(|_| queue.take_for(cpu, 0).is_some()).collect();
            assert_eq!(found, [false, false, false, true]);
            assert!(!is_shown(cpu) && queue.movable == 0);
            while queue.take_first(cpu).is_some() {}
            assert_eq!(load_of(cpu).waiting, 0);
        });
    }
}
