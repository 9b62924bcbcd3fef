//! The tasks of one CPU.
//!
//! * `shown`    what it shows of them to other CPUs
//! * `turn`     when a task that comes may have the CPU
//! * `counted`  which group counts a task here
//! * `realtime` what is different where real-time tasks are: no other CPU's code comes there
//! * `deadline` and where those with deadlines are

mod counted;
mod deadline;
mod realtime;
mod shown;
mod turn;

pub use deadline::throttled;
pub use shown::{CpuQueue, MIXED};
pub use turn::Turn;

use super::super::fair::{Line, ONE, Running, UNIT};
use super::super::group::{Cell, Mix};
use super::super::realtime::Realtime;
use super::super::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use intrusive_collections::{LinkedList, LinkedListAtomicLink, UnsafeRef, intrusive_adapter};
use shown::FAIR;
use sync::machine::CpuId;

intrusive_adapter!(pub CellAdapter = UnsafeRef<Cell>: Cell { link => LinkedListAtomicLink });
intrusive_adapter!(MovableAdapter = UnsafeRef<Task>: Task { list_link => LinkedListAtomicLink });

/// Tasks looked at for one that another CPU may take: as many may wait as a program likes, and the queue is locked meanwhile.
const LOOKS: u32 = 32;

/// What a real-time task that runs counts as where the loads of CPUs are compared.
const REALTIME_LOAD: u64 = 64 * UNIT;

/// Whom a CPU has for another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Has {
    /// Nobody who may run there.
    Nobody,
    /// Somebody who may, but is to wait here for some time first.
    Later,
    Somebody,
}

/// The tasks of one CPU.
pub struct Queue {
    /// Those on the line that may run elsewhere, in the order in which they came. It does not own them, and so is dropped before the line.
    movable: LinkedList<MovableAdapter>,
    line: Line,
    /// What this CPU has of the groups that had tasks here lately.
    pub(super) cells: LinkedList<CellAdapter>,
    /// Are those groups to be counted?
    pub(super) mix: Mix,
    /// Those that go before all on the line.
    realtime: Realtime,
    /// A fair task runs: neither the idle one nor one of real time.
    runs_fair: bool,
    /// The running task's run reference.
    pub current: Option<Arc<Task>>,
    /// Runs when nothing else does; never on the line.
    pub idle: Option<Arc<Task>>,
    /// What is to be added to the CPU's virtual time where it is compared with another's.
    pub(super) offset: i64,
    /// The CPU has idled since its time was last compared: the comparison begins anew.
    pub(super) is_fresh: bool,
}

impl Queue {
    const fn new() -> Queue {
        Queue {
            line: Line::new(),
            cells: LinkedList::new(CellAdapter::NEW),
            mix: Mix::new(),
            realtime: Realtime::new(),
            runs_fair: false,
            movable: LinkedList::new(MovableAdapter::NEW),
            current: None,
            idle: None,
            offset: 0,
            is_fresh: true,
        }
    }

    /// Does the CPU run its idle task?
    #[inline]
    pub fn idles(&self) -> bool {
        matches!((&self.current, &self.idle), (Some(now), Some(idle)) if Arc::ptr_eq(now, idle))
    }

    #[inline]
    pub fn is_current(&self, task: &Task) -> bool {
        self.current.as_ref().is_some_and(|c| core::ptr::eq(Arc::as_ptr(c), task))
    }

    /// The running task; None: the CPU idles, or runs a real-time task.
    pub fn fair_current(&self) -> Option<&Task> {
        self.current.as_deref().filter(|_| self.runs_fair)
    }

    /// Is `task`, which runs or waits here, among the fair ones?
    pub fn is_fair(&self, task: &Task) -> bool {
        if self.is_current(task) { self.runs_fair } else { task.run_link.is_linked() }
    }

    /// At ticks: where the virtual time of this CPU has come to `far`, it goes back by half of that, before it is more than a word holds. That is once in
    /// years, or in weeks where tasks of the least weights have a CPU.
    pub fn keep_time_below(&mut self, far: u64) {
        let Some(running) = self.fair_current().filter(|task| task.fair.vruntime() >= far) else { return };
        let shift = far / 2;
        running.fair.shift_back(shift);
        self.line.shift_back(shift);
        self.offset = self.offset.wrapping_add_unsigned(shift);
    }

    /// Some of the fair tasks that wait.
    pub fn next(&self, some: usize) -> impl Iterator<Item = &Task> {
        self.line.next(some)
    }

    /// How the running task stands; None: the CPU idles, or runs a real-time task.
    #[inline]
    pub fn running(&self, now: u64) -> Option<Running> {
        let current = self.current.as_ref().filter(|_| self.runs_fair)?;
        let since = current.clock.since();
        Some(current.fair.running(if since == 0 { 0 } else { now.saturating_sub(since) }))
    }

    /// The running task, if it is a fair one.
    pub fn running_fair(&self) -> Option<&Arc<Task>> {
        self.current.as_ref().filter(|_| self.runs_fair)
    }

    /// The weight of all tasks. One of real time leaves others next to nothing.
    pub fn load(&self) -> u64 {
        let running = match &self.current {
            Some(task) if self.runs_fair => task.fair.weight(),
            _ if !self.realtime.running.is_none() => REALTIME_LOAD,
            _ => 0,
        };
        self.line.load() + running
    }

    /// The CPU's virtual time, to be compared with that of others; None: there is nothing to do.
    pub fn time(&self, now: u64) -> Option<u64> {
        let running = self.running(now);
        if running.is_none() && self.line.load() == 0 {
            return None;
        }
        Some(self.line.time(running).wrapping_add_signed(self.offset))
    }

    /// Which part of its weight the running task counts with.
    pub fn factor(&self) -> u64 {
        self.fair_current().map_or(ONE, |task| task.fair.factor())
    }

    /// From now on the CPU, which has nothing to do, compares its time as if it were `time`.
    pub fn adopt(&mut self, time: u64) {
        self.offset = time.wrapping_sub(self.line.time(None)).cast_signed();
        self.is_fresh = false;
    }

    /// The task is about to wait on the queue of `cpu`.
    #[inline(always)]
    fn move_to(cpu: CpuId, task: &Task) {
        if task.sleep_node.cpu.move_to(cpu) {
            task.migrations.store(task.migrations.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Puts a fair task on the queue that has its place; `own` is this queue's CPU, and `running` what runs there.
    pub fn put(&mut self, own: &CpuQueue, cpu: CpuId, task: Arc<Task>, running: Option<Running>) {
        Queue::move_to(cpu, &task);
        if task.affinity().only().is_none() {
            // SAFETY: the line keeps the task until `taken`, which takes it off this list.
            self.movable.push_back(unsafe { UnsafeRef::from_raw(Arc::as_ptr(&task)) });
        }
        self.line.insert(task, running);
        let waiting = own.waiting() + 1;
        // Who puts it on the queue of another CPU looks whether that idles: `protocol::idle`.
        own.waiting.store(waiting, Ordering::Relaxed);
        self.show_stealable(own, waiting);
    }

    /// Puts the running task, which is `current` no more, back among the waiting.
    #[inline(always)]
    pub fn put_back(&mut self, own: &CpuQueue, cpu: CpuId, task: Arc<Task>, slice: u64) {
        if !self.runs_fair {
            return self.put_back_realtime(own, cpu, task);
        }
        if task.slot.is_counted() {
            self.take_factor(&task);
        }
        task.partner.gives_way();
        self.line.renew(&task.fair, slice);
        self.put(own, cpu, task, None);
    }

    /// Takes the task whose turn it is.
    pub fn take_first(&mut self, own: &CpuQueue, now: u64) -> Option<Arc<Task>> {
        if self.realtime.any
            && let Some(task) = self.take_first_realtime(own, now)
        {
            return Some(task);
        }
        let task = self.line.take_first();
        self.runs_fair = task.is_some();
        let task = task?;
        self.taken(own, &task);
        Some(task)
    }

    fn unlist(&mut self, task: &Task) {
        if task.list_link.is_linked() {
            // SAFETY: who waits here is on this list or on none.
            unsafe { self.movable.cursor_mut_from_ptr(task) }.remove();
        }
    }

    fn taken(&mut self, own: &CpuQueue, task: &Task) {
        self.unlist(task);
        let waiting = own.waiting() - 1;
        own.waiting.store(waiting, Ordering::Relaxed);
        self.show_stealable(own, waiting);
    }

    /// Takes a fair task that may run on `thief`, whose registers are saved, and that `wants` takes: the one that has waited longest of those looked
    /// at. Whoever is not taken waits behind the others for the next look.
    pub fn take_for(
        &mut self,
        own: &CpuQueue,
        thief: CpuId,
        wants: impl Fn(&Task) -> bool,
    ) -> Option<Arc<Task>> {
        let mut first: *const Task = core::ptr::null();
        for _ in 0..LOOKS {
            let task = self.movable.pop_front()?;
            if core::ptr::eq(first, &raw const *task) {
                self.movable.push_back(task);
                break;
            }
            if first.is_null() {
                first = &raw const *task;
            }
            if task.affinity().allows(thief) && !task.on_cpu.is_on() && wants(&task) {
                // SAFETY: who was on the list waits on the line.
                let task = unsafe { self.line.take(&task) }?;
                self.leave_group_awake(&task);
                self.taken(own, &task);
                return Some(task);
            }
            self.movable.push_back(task);
        }
        None
    }

    /// Does a task wait here for `cpu` to take it, one that `wants` takes? Those looked at that do not wait behind the others for the next look.
    pub fn has_for(&mut self, cpu: CpuId, wants: impl Fn(&Task) -> bool) -> Has {
        let mut has = Has::Nobody;
        for _ in 0..LOOKS {
            let Some(task) = self.movable.front().get() else { break };
            if task.affinity().allows(cpu) {
                if wants(task) {
                    return Has::Somebody;
                }
                has = Has::Later;
            }
            if let Some(task) = self.movable.pop_front() {
                self.movable.push_back(task);
            }
        }
        has
    }

    /// Does `task` wait here? Another CPU may link it to its own queue meanwhile.
    pub fn is_waiting_here(&self, cpu: CpuId, task: &Task) -> bool {
        let is_linked =
            task.run_link.is_linked() || task.list_link.is_linked() || Queue::is_on_deadlines(task);
        task.sleep_node.cpu.is_at(cpu, is_linked)
    }

    /// Takes out a task that waits here.
    ///
    /// # Safety
    /// `is_waiting_here` says so, under the same lock.
    pub unsafe fn take(&mut self, own: &CpuQueue, task: &Task) -> Option<Arc<Task>> {
        if !task.run_link.is_linked() {
            // SAFETY: it waits here, and not among the fair ones.
            return unsafe { self.take_realtime(own, task) };
        }
        // SAFETY: as the caller says.
        let task = unsafe { self.line.take(task) }?;
        self.leave_group_awake(&task);
        self.taken(own, &task);
        Some(task)
    }

    /// A task that waits here may or may not run elsewhere, other than before.
    pub fn affinity_changed(&mut self, own: &CpuQueue, task: &Task) {
        if !task.run_link.is_linked() {
            return self.realtime_affinity_changed(own, task);
        }
        self.unlist(task);
        if task.affinity().only().is_none() {
            // SAFETY: as in `put`.
            self.movable.push_back(unsafe { UnsafeRef::from_raw(task) });
        }
        self.show_stealable(own, own.waiting());
    }

    /// The running task, which a tick has come upon, gets the weight that it is to have. It goes on: were it told to go through a switch, another that waits would
    /// get its turn, perhaps one that an idle CPU was just woken for. On its own CPU.
    pub fn reweigh_current(&self, now: u64) {
        if let Some(current) = self.fair_current()
            && current.fair.weight_changed()
        {
            current.account(now, true);
            self.line.reweigh_running(&current.fair);
        }
    }

    /// A task that waits here gets the weight that it is to have.
    ///
    /// # Safety
    /// As `take`.
    pub unsafe fn reweigh(&mut self, task: &Task, now: u64) {
        self.recount(task);
        let running = self.running(now);
        // SAFETY: as the caller says.
        unsafe { self.line.reweigh(task, running) };
    }

    /// The running task, which is `current` no more for a moment, takes the weight and the class that it is to have. On its own CPU. May it go on?
    #[cold]
    pub fn take_change(&mut self, own: &CpuQueue, cpu: CpuId, task: &Task, now: u64, slice: u64) -> bool {
        let class = task.take_change();
        if self.runs_fair {
            self.recount(task);
        } else {
            task.fair.refresh();
        }
        if task.leaves() {
            // See `group`: before this CPU is quiescent.
            self.leave_group_awake(task);
            task.slot.leave();
        }
        let rank = task.rank_in(class);
        if rank.priority() != self.realtime.running.priority() {
            self.change_running(own, cpu, task, rank, now, slice);
        } else if !class.is_realtime() && task.fair.weight_changed() {
            self.line.reweigh_running(&task.fair);
        }
        !self.realtime.running.has_deadline() || self.go_on_with_deadline(own, task, now)
    }

    /// The running task, which is `current` no more, goes to sleep, or ends.
    pub fn leave(&mut self, task: &Task, slice: u64) {
        if !self.runs_fair {
            return self.leave_realtime(task);
        }
        task.partner.sleeps(|| task.fair.ran());
        self.leave_group(task);
        self.line.leave(&task.fair, slice);
        if self.line.load() == 0 {
            self.is_fresh = true;
            self.line.forget_debts();
        }
    }

    /// What a task is owed that went to sleep here.
    pub fn lag_of(&self, task: &Task, now: u64) -> i64 {
        match task.fair.lag() {
            kept @ 0.. => kept,
            _ => self.line.lag_of(&task.fair, self.running(now)),
        }
    }

    /// Gives a task that comes its place.
    pub fn place(&mut self, cpu: CpuId, task: &Task, lag: i64, now: u64, slice: u64) {
        self.enter_group(cpu, task);
        self.line.place(&task.fair, lag, self.running(now), slice);
    }

    /// Gives a task that comes from another CPU, `lag` behind the time of this one, its place.
    pub fn place_behind(&mut self, cpu: CpuId, task: &Task, lag: i64, now: u64, slice: u64) {
        self.enter_group(cpu, task);
        let running = self.running(now);
        self.line.place_behind(&task.fair, lag, running, slice);
    }

    /// Are those that are here still waiting for one that came from another CPU and was owed much?
    pub fn owes(&self, now: u64) -> bool {
        self.line.owes(self.running(now))
    }
}
