//! What interrupt handlers leave for threads to do (bottom halves).
//!
//! A handler raises a bit of its CPU and marks the running task; the work is done with interrupts enabled when that CPU
//! next returns to user mode, idles, or calls `schedule_if_needed`. That keeps every lock of the scheduler, of the timers
//! and of the devices above their interrupt handlers free of interrupt masking.

use super::task::{Task, try_current};
use super::work::Work;
use super::{latency, runqueue, stall, timer};
use crate::arch;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use sync::per_cpu;

/// Kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Pending {
    /// The timer went off.
    Timer = 0,
    /// Another CPU asks this one to look at its run queue and its task's work.
    Reschedule = 1,
    /// A serial port has received.
    Serial = 2,
    /// Real-time tasks may have to go to another CPU, or come from there.
    Realtime = 3,
    /// A device has done something that it was asked to.
    Device = 4,
    /// The log has new messages, and there are readers.
    Log = 5,
    /// Much memory was freed, and somebody waits for that.
    Memory = 6,
}

const KINDS: usize = 7;
/// Those that rooms above this one have a handler for.
const HANDLED: [Pending; 4] = [Pending::Serial, Pending::Device, Pending::Log, Pending::Memory];

per_cpu! {
    static RAISED: AtomicU32 = AtomicU32::new(0);
}

static HANDLERS: [AtomicPtr<()>; KINDS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; KINDS];

/// Sets what is done for `kind`. The handler runs in some thread's context, with no lock held, and must not sleep for long.
pub fn set_handler(kind: Pending, handler: fn()) {
    HANDLERS[kind as usize].store(handler as *mut (), Ordering::Release);
}

/// Leaves work for this CPU. For interrupt handlers, with interrupts disabled; elsewhere under any lock, since it takes none.
pub fn raise(kind: Pending) {
    RAISED.this().fetch_or(1 << kind as u32, Ordering::Relaxed);
    if let Some(task) = try_current() {
        task.work.set(Work::PENDING);
    }
}

/// Leaves work for the task to which this CPU is about to change.
pub(super) fn leave(kind: Pending) {
    RAISED.this().fetch_or(1 << kind as u32, Ordering::Relaxed);
}

/// The CPU changes to `next`: what is left for the CPU is now that task's to do. Interrupts are disabled until it is the current one, or it is that already.
pub(super) fn pass_on(next: &Task) {
    #[cfg(feature = "lockdep")]
    assert!(
        !arch::interrupts_enabled() || try_current().is_some_and(|now| core::ptr::eq(&*now, next)),
        "an interrupt may leave work to the task that goes"
    );
    if RAISED.this().load(Ordering::Relaxed) != 0 {
        next.work.set(Work::PENDING);
        latency::gave_way(arch::time::now());
    }
}

/// Does what is left for this CPU. With interrupts enabled and no lock held; may find nothing.
pub fn run_pending() {
    let raised = RAISED.this();
    let mut began = if raised.load(Ordering::Relaxed) == 0 { 0 } else { begin() };
    let mut is_pressed = false;
    if sync::rcu::pending() {
        latency::in_halves(true);
        sync::rcu::poll();
        latency::in_halves(false);
        is_pressed = sync::rcu::is_pressed();
    }
    // Only now: a tick during the callbacks is dealt with below. If it asked for another round, a thread on its way to user mode would stay here
    // as long as there are callbacks. Only when memory is short it does.
    if let Some(task) = try_current() {
        if is_pressed { task.work.set(Work::PENDING) } else { task.work.clear(Work::PENDING) }
    }
    if raised.load(Ordering::Relaxed) != 0 {
        if began == 0 {
            began = begin();
        }
        lower_halves(raised.swap(0, Ordering::Relaxed));
    }
    if began != 0 {
        latency::halves_took(began);
    }
}

/// Interrupt handlers have left work, and this is where the CPU gives way: the time.
#[cold]
fn begin() -> u64 {
    let now = arch::time::now();
    latency::gave_way(now);
    now.max(1)
}

#[cold]
fn lower_halves(bits: u32) {
    latency::in_halves(true);
    if bits & 1 << Pending::Timer as u32 != 0 {
        timer::tick();
        vm::frame::give_back_if_called();
        stall::look_at_grace_period();
    }
    if bits & 1 << Pending::Realtime as u32 != 0 {
        runqueue::even_out();
    }
    if bits & 1 << Pending::Reschedule as u32 != 0 {
        runqueue::answer_calls();
        runqueue::expect_turn();
    }
    for kind in HANDLED {
        if bits & 1 << kind as u32 != 0 {
            handle(kind);
        }
    }
    latency::in_halves(false);
}

fn handle(kind: Pending) {
    let handler = HANDLERS[kind as usize].load(Ordering::Acquire);
    if !handler.is_null() {
        // SAFETY: `set_handler` is the only writer and stores a `fn()`.
        let handler = unsafe { core::mem::transmute::<*mut (), fn()>(handler) };
        handler();
    }
}
