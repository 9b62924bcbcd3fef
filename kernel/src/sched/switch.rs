//! From one task to the next on this CPU; birth, sleep and death of tasks.
//!
//! `schedule` picks the next task under the queue's lock, drops the lock, and switches stacks. The task that is switched in runs
//! `finish_switch`: only then is the previous one's `on_cpu` cleared, so nobody runs it while its registers are being saved.
//! A dead task's stack goes back to the CPU's cache there, and the task itself behind an RCU grace period.
//!
//! MaskBeforeRoot: `Space::switch_in` sets this CPU in the space's mask before it loads the root. Kernel threads and the
//! idle task run on whatever root is loaded; a space that dies makes the CPUs that still have it loaded leave it.

use super::policy::Schedule;
use super::runqueue::{self, lock_this};
use super::task::{self, Hardware, State, Task, current};
use super::timer::Deadline;
use super::wait::{Sleep, Woken};
use super::work::Work;
use super::{cpustat, deadline, pending, timer};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::memory::Space;
use crate::process::Thread;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::Ordering;
use sync::machine::{self, CpuId};
use sync::per_cpu;
use sync::protocol::home::Home;

/// The task that this CPU has just switched away from, for the next one to finish (`finish_switch`).
struct SwitchedFrom(UnsafeCell<Option<Previous>>);

struct Previous {
    /// Stays alive until its `on_cpu` is cleared: nobody else can run it before.
    task: *const Task,
    then: Then,
}

/// What becomes of a task that has been switched away from.
enum Then {
    /// It waits on this CPU's queue, or sleeps with its run reference forgotten: nothing is left to do.
    Settled,
    /// It may not run on this CPU any more.
    Moves(Arc<Task>),
    /// It is dead.
    Dies(Arc<Task>),
}

// SAFETY: touched by the owning CPU alone, between a switch and `finish_switch`, neither of which sleeps.
unsafe impl Sync for SwitchedFrom {}

per_cpu! {
    static SWITCHED_FROM: SwitchedFrom = SwitchedFrom(UnsafeCell::new(None));
}

/// Makes the running code of this CPU its idle task.
///
/// # Safety
/// Once on each CPU, before its first `schedule`. The code runs on a stack that stays.
pub unsafe fn init_cpu() -> Result<()> {
    let hardware = Hardware::kernel(arch::Context::running());
    let idle = Task::try_new(None, hardware, Schedule::NORMAL)?;
    idle.on_cpu.on();
    idle.set_affinity_at_birth(machine::cpu_id());
    cpustat::begin(&idle)?;
    idle.clock.start(arch::time::now());
    task::set_current(&idle);
    let mut queue = lock_this();
    queue.current = Some(idle.clone());
    queue.idle = Some(idle);
    drop(queue);
    runqueue::set_online();
    Ok(())
}

/// Runs another task if one should run. The current task has set its state before: `Running` means that it only
/// lets others run. No lock is held, and the caller is in no RCU read section.
pub fn schedule() {
    sync::lock::order::assert_may_sleep();
    runqueue::answer_calls();
    let here = machine::cpu_id();
    let now = arch::time::now();
    let mut queue = lock_this();
    let Some(previous) = queue.current.take() else { return };
    previous.work.clear(Work::RESCHED);
    let is_idle = queue.idle.as_ref().is_some_and(|idle| Arc::ptr_eq(idle, &previous));
    let state = previous.state();
    let mut goes_on = state == State::Running
        && !runqueue::has_waiting()
        && (is_idle || previous.affinity().allows(here))
        && !previous.moves.load(Ordering::Relaxed);
    previous.account(now, goes_on);
    // One that ends takes nothing up; of one with a deadline what it has used is counted.
    let takes_up = previous.has_changed() && (state != State::Dead || previous.class().is_realtime());
    if takes_up && !queue.take_change(&previous, now) && goes_on {
        // It has had its run time, and waits for its next period.
        previous.account(now, false);
        goes_on = false;
    }
    // Not before a task that ends has left its group: see `group`.
    sync::rcu::quiescent();
    if goes_on {
        pending::pass_on(&previous);
        queue.current = Some(previous);
        return;
    }
    let from = Arc::as_ptr(&previous);
    let waited = state != State::Running;
    let then = match state {
        // The idle task's other reference is `queue.idle`.
        State::Running if is_idle => Then::Settled,
        State::Running if !previous.affinity().allows(here) || previous.moves.load(Ordering::Relaxed) => {
            previous.moves.store(false, Ordering::Relaxed);
            queue.leave(&previous);
            Then::Moves(previous)
        }
        State::Running => {
            previous.waits.begin(now);
            queue.put_back(previous);
            Then::Settled
        }
        State::Dead => {
            queue.leave(&previous);
            runqueue::note_end();
            Then::Dies(previous)
        }
        _ => {
            queue.leave(&previous);
            if state != State::Interruptible {
                cpustat::blocks();
            }
            core::mem::forget(previous);
            Then::Settled
        }
    };
    let next = match (queue.take_first(now), &queue.idle) {
        (Some(next), _) => next,
        (None, Some(idle)) => idle.clone(),
        (None, None) => unreachable!("every CPU has its idle task from `init_cpu` on"),
    };
    next.clock.start(now);
    let to = Arc::as_ptr(&next);
    next.on_cpu.on();
    Home::taken();
    queue.current = Some(next);
    let turn = queue.first_turn();
    drop(queue);
    if runqueue::has_waiting() {
        timer::tick_sooner(now);
    }
    if let Some(left) = turn {
        timer::look_at(now + left);
    }
    // SAFETY: the running task, and the one that runs next, whose reference lies in `current` of this CPU's queue.
    let (from, to) = unsafe { (&*from, &*to) };
    if core::ptr::eq(from, to) {
        pending::pass_on(to);
        return;
    }
    let counter = if waited { &from.voluntary } else { &from.involuntary };
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    cpustat::switched(to.waits.end(now));
    to.raise_again();
    // An interrupt between here and the new stack would see one task's name on another's stack, and one between the two lines leave its work to a task
    // that is not there: a lost tick is the last, since each sets the next.
    let interrupts = machine::irq_save();
    pending::pass_on(to);
    task::set_current(to);
    switch_to(Previous { task: from, then }, from, to);
    machine::irq_restore(interrupts);
}

/// Saves the previous task, restores `next`, and returns when the previous one is switched to again (on whatever CPU).
fn switch_to(previous: Previous, from: &Task, to: &Task) {
    // SAFETY: this CPU runs `from` and has just taken `to` from its queue; nobody else touches their hardware until
    // `finish_switch` clears `on_cpu`, or at all.
    let (from, to) = unsafe { (from.hardware(), to.hardware()) };
    if let Some(fpu) = &mut from.fpu {
        fpu.save();
        from.segments.save();
    }
    change_space(from.space.as_ref(), to.space.as_ref());
    if let Some(stack) = &to.stack {
        // SAFETY: the top of the stack of the task that runs next.
        unsafe { arch::set_kernel_stack(stack.top()) };
    }
    if let Some(fpu) = &to.fpu {
        fpu.restore();
        to.segments.restore();
    }
    let (from, to) = (&raw mut from.context, &raw const to.context);
    // SAFETY: as in `SwitchedFrom`.
    unsafe { *SWITCHED_FROM.this().0.get() = Some(previous) };
    // SAFETY: both contexts live in their tasks; `from` is this code's own, `to` was saved by a switch or made by `new`.
    unsafe { arch::switch(from, to) };
    finish_switch();
}

fn change_space(from: Option<&Arc<Space>>, to: Option<&Arc<Space>>) {
    match (from, to) {
        (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {}
        (_, Some(to)) => to.switch_in(),
        // The root stays loaded: a dying space makes this CPU leave it (vm::tlb).
        (_, None) => vm::tlb::rest(),
    }
}

/// The first thing a task does when it is switched in.
fn finish_switch() {
    // SAFETY: as in `SwitchedFrom`.
    let Some(Previous { task, then }) = (unsafe { (*SWITCHED_FROM.this().0.get()).take() }) else { return };
    // SAFETY: see `Previous`.
    let task = unsafe { &*task };
    if let Then::Dies(_) = then {
        // SAFETY: it will never run again, and only its CPU touches its hardware.
        let hardware = unsafe { task.hardware() };
        hardware.stack = None;
        hardware.fpu = None;
    }
    task.on_cpu.off();
    match then {
        Then::Settled => {}
        Then::Moves(task) => runqueue::send_away(task),
        Then::Dies(task) if task.sleep_node.call.end() => bury(task),
        // Whoever answers the call that has reached it buries it.
        Then::Dies(task) => core::mem::forget(task),
    }
}

/// A task that has run for the last time is dropped when nobody looks at it any more.
pub(super) fn bury(task: Arc<Task>) {
    task.unlink();
    sync::rcu::defer_arc(task);
}

/// First code of every user thread.
extern "C" fn user_entry(_: usize) -> ! {
    finish_switch();
    machine::irq_restore(true);
    let task = current();
    // SAFETY: this task's own hardware; `new_user` put the registers at the top of its stack.
    unsafe {
        let Some(stack) = &task.hardware().stack else { exit_current() };
        let regs = arch::user_regs(stack);
        arch::enter_user(&*regs)
    }
}

/// First code of every kernel thread.
extern "C" fn kernel_entry(_: usize) -> ! {
    finish_switch();
    machine::irq_restore(true);
    let task = current();
    // SAFETY: this task's own hardware.
    if let Some((f, argument)) = unsafe { task.hardware() }.start.take() {
        f(argument);
    }
    exit_current()
}

/// A task for `thread` that will enter user mode with `regs`, `fpu` and `segments`. It runs once `start` is called.
pub fn new_user(
    thread: Arc<Thread>,
    regs: &arch::UserRegs,
    space: Arc<Space>,
    fpu: arch::FpuState,
    segments: arch::Segments,
) -> Result<NewTask> {
    let stack = arch::KernelStack::try_new().ok_or(Errno::ENOMEM)?;
    // SAFETY: the new stack is ours; the place is at its top, aligned, and nobody else's.
    unsafe { arch::user_regs(&stack).write(*regs) };
    let context = arch::Context::new(&stack, user_entry, 0);
    let parent = current();
    let hardware =
        Hardware { context, stack: Some(stack), fpu: Some(fpu), segments, space: Some(space), start: None };
    let schedule = parent.schedule().inherit().ok_or(Errno::EAGAIN)?;
    let task = Task::try_new(Some(thread), hardware, schedule)?;
    if parent.is_watched_for_good() {
        task.watch();
    }
    task.inherit_affinity(&parent);
    task.fair.inherit(&parent.fair);
    task.link();
    Ok(NewTask(Some(task)))
}

/// A task that has not run. A task that runs or waits for a CPU is not started, nor is one started twice: two CPUs would run on its stack.
pub struct NewTask(Option<Arc<Task>>);

impl Deref for NewTask {
    type Target = Arc<Task>;
    fn deref(&self) -> &Arc<Task> {
        match &self.0 {
            Some(task) => task,
            None => unreachable!("taken only by start and drop"),
        }
    }
}

impl Drop for NewTask {
    /// One that is not started. Somebody may have found it by its thread, so its end waits for a grace period; but here, not in a callback: its
    /// thread still refers to descriptors and a space, whose end may sleep. May sleep.
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.unlink();
            super::futex::pi::end(&task);
            sync::rcu::synchronize();
            drop(task);
        }
    }
}

/// Lets a task of `new_user` run: on an idle CPU if there is one that it may use, else here.
pub fn start(mut task: NewTask) {
    if let Some(task) = task.0.take() {
        let mut tid = 0;
        if let Some(thread) = &task.thread {
            tid = thread.tid();
            // From here until it is on a queue nobody sleeps: see `sync::protocol::membership`.
            task.slot.begin(&thread.process.sched, current().slot.is_counted());
        }
        cpustat::born(tid);
        runqueue::start(task);
    }
}

/// A kernel thread that runs `f(argument)`, on `cpu` alone if one is given.
pub fn spawn(cpu: Option<CpuId>, f: fn(usize), argument: usize) -> Result<Arc<Task>> {
    let stack = arch::KernelStack::try_new().ok_or(Errno::ENOMEM)?;
    let context = arch::Context::new(&stack, kernel_entry, 0);
    let hardware = Hardware { stack: Some(stack), start: Some((f, argument)), ..Hardware::kernel(context) };
    let task = Task::try_new(None, hardware, Schedule::NORMAL)?;
    if let Some(cpu) = cpu {
        task.set_affinity_at_birth(cpu);
    }
    cpustat::born(0);
    runqueue::start(task.clone());
    Ok(task)
}

/// Lets others run; returns when it is this task's turn again.
pub fn yield_now() {
    pending::run_pending();
    current().yield_turn();
    schedule();
}

/// The current task is about to begin a new program, whose memory is not there yet: it goes to another CPU if that has clearly less to do. Where it has its CPU
/// for itself nothing is looked at.
pub fn find_place_for_exec() {
    if runqueue::has_waiting() {
        find_place_beside_others();
    }
}

#[cold]
fn find_place_beside_others() {
    let task = current();
    if runqueue::is_better_elsewhere(&task) {
        task.moves.store(true, Ordering::Relaxed);
        schedule();
        task.moves.store(false, Ordering::Relaxed);
    }
}

/// Ends the current task. Its space has been left before (`leave_space`); stack and task are released by the next one.
pub fn exit_current() -> ! {
    sync::lock::order::assert_none_held("the end of a thread");
    debug_assert!(!current().sleep_node.link.is_linked(), "a thread ends while it is on a wait queue");
    current().set_state(State::Dead);
    schedule();
    unreachable!("a dead task was switched to")
}

/// Makes `space` the current task's, in place of the one it had (exec); the old one is returned, no longer in use here.
pub fn replace_space(space: Arc<Space>) -> Option<Arc<Space>> {
    let task = current();
    // SAFETY: the current task's own hardware.
    let hardware = unsafe { task.hardware() };
    let old = hardware.space.replace(space);
    change_space(old.as_ref(), hardware.space.as_ref());
    old
}

/// The current task goes on without a space (exit); the old one is returned.
pub fn leave_space() -> Option<Arc<Space>> {
    let task = current();
    task.set_leaves();
    if task.deadline.get().is_some() {
        deadline::release(&task);
    }
    // SAFETY: the current task's own hardware.
    let hardware = unsafe { task.hardware() };
    let old = hardware.space.take();
    change_space(old.as_ref(), None);
    old
}

/// A copy of the current thread's vector registers, for fork.
///
/// # Errors
/// ENOMEM.
pub fn clone_fpu() -> Result<arch::FpuState> {
    arch::FpuState::try_of_registers().ok_or(Errno::ENOMEM)
}

/// The current thread's vector registers, as a core dump has them.
///
/// # Errors
/// ENOMEM.
pub fn copy_vector_registers() -> Result<Vec<u8>> {
    Ok(clone_fpu()?.to_core()?)
}

/// The current thread begins a new program: vector and segment registers as at birth.
pub fn reset_for_exec() {
    arch::load_initial_vectors();
    arch::Segments::reset();
}

/// Sleeps until `deadline`; a number is one without slack (ns, monotonic clock).
pub fn sleep_until(deadline: impl Into<Deadline>, how: Sleep) -> core::result::Result<(), Woken> {
    match super::wait::sleep_alone(how, Some(deadline.into()), || None::<()>) {
        Ok(()) | Err(Woken::Timeout) => Ok(()),
        Err(woken) => Err(woken),
    }
}

/// Hook of `sync`: sleeps until unparked.
pub(crate) fn park() {
    let task = current();
    loop {
        task.set_state(State::Uninterruptible);
        if task.permit.swap(false, Ordering::SeqCst) {
            task.set_state(State::Running);
            return;
        }
        schedule();
    }
}

/// Hook of `sync`: wakes the task that took `token`.
///
/// # Safety
/// That of `sync::machine::unpark`.
pub(crate) unsafe fn unpark(token: usize) {
    // SAFETY: a token is a task that parks or is about to; it may go on as soon as it has its permit, and even die, but it is
    // freed only after a grace period, which this section, which does not sleep, holds off.
    let task = unsafe { &*(token as *const Task) };
    task.permit.store(true, Ordering::SeqCst);
    task.wake();
}
