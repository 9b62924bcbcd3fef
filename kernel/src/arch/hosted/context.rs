//! Switching between tasks: each has a host thread, and the CPU passes from one to the other.
//!
//! The thread of a task that has died waits for a CPU for ever: the host ends it with the test program.

use super::UserRegs;
use std::boxed::Box;
use std::cell::UnsafeCell;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use sync::CpuId;
use sync::machine::hosted::become_cpu;

/// A thread that is not running, from the processor's point of view.
pub struct Context(Arc<Seat>);

type Entry = (extern "C" fn(usize) -> !, usize);

/// Where a task's thread waits for a CPU.
struct Seat {
    state: Mutex<State>,
    given: Condvar,
}

struct State {
    /// The CPU that it has got and not taken yet.
    cpu: Option<CpuId>,
    /// What it runs, as long as it has no thread.
    start: Option<Entry>,
}

impl Context {
    fn with(start: Option<Entry>) -> Context {
        Context(Arc::new(Seat { state: Mutex::new(State { cpu: None, start }), given: Condvar::new() }))
    }

    /// A place for a thread that runs now; `switch` fills it.
    pub fn running() -> Context {
        Context::with(None)
    }

    /// A thread that will call `entry(arg)`, with interrupts off, when it is first switched to.
    pub fn new(_stack: &KernelStack, entry: extern "C" fn(usize) -> !, arg: usize) -> Context {
        Context::with(Some((entry, arg)))
    }
}

impl Seat {
    /// Lets the thread go on as `cpu`.
    fn give(self: &Arc<Self>, cpu: CpuId) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cpu = Some(cpu);
        if let Some((entry, arg)) = state.start.take() {
            let seat = self.clone();
            let run = move || {
                seat.take();
                entry(arg)
            };
            // A test that cannot have a thread cannot go on.
            thread::Builder::new().spawn(run).expect("no thread for a task");
        }
        drop(state);
        self.given.notify_one();
    }

    /// Waits for a CPU.
    fn take(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let cpu = loop {
            if let Some(cpu) = state.cpu.take() {
                break cpu;
            }
            state = self.given.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        become_cpu(cpu);
    }
}

/// Stores the running thread in `prev` and continues `next`. Returns when somebody switches to `prev`, maybe on another
/// CPU.
///
/// # Safety
/// Interrupts off. `prev` is the running thread's context, `next` one that nobody runs.
pub unsafe fn switch(prev: *mut Context, next: *const Context) {
    // SAFETY: both contexts are alive, as the caller says. `prev` may be dropped as soon as another thread has the CPU, so its seat
    // is kept.
    let (prev, next) = unsafe { ((*prev).0.clone(), (*next).0.clone()) };
    next.give(sync::cpu_id());
    drop(next);
    prev.take();
    super::cpu::take_interrupts();
}

/// What a kernel stack holds besides the stack, which is the host's: the registers of the user program.
pub struct KernelStack(Box<UnsafeCell<UserRegs>>);

// SAFETY: touched only through the pointer that `regs` gives, by the maker of the task and then by the task.
unsafe impl Send for KernelStack {}
// SAFETY: as above.
unsafe impl Sync for KernelStack {}

impl KernelStack {
    pub fn try_new() -> Option<KernelStack> {
        Some(KernelStack(sync::try_box(UnsafeCell::new(UserRegs::default())).ok()?))
    }

    pub fn top(&self) -> usize {
        self.regs() as usize
    }

    pub(super) fn regs(&self) -> *mut UserRegs {
        self.0.get()
    }
}
