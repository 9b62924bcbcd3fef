//! Wake-ups that leave the work to the CPU of who is woken: `sync::protocol::call` has the argument.
//!
//! The waker writes the line of the task that its state is on, and what the CPU shows, and neither the queue nor what the order knows of the task. It does so where it is clear where the
//! task goes: back to a CPU that idles, or that is the only one it may use. That CPU is kicked, so it looks at once.

use super::super::switch;
use super::super::task::{State, Task};
use super::machine::Machine;
use super::place::{self, Wanted};
use alloc::sync::Arc;
use core::sync::atomic::{Ordering, fence};
use sync::machine::CpuId;
use sync::protocol::idle::Found;

/// All sleeps: who was called may sleep anew when its CPU answers.
const ASLEEP: [State; 3] = [State::Interruptible, State::Killable, State::Uninterruptible];

/// The other CPU to which a task is sure to go back when it is woken.
#[inline]
pub fn home_afar(machine: &impl Machine, task: &Task) -> Option<CpuId> {
    let home = task.sleep_node.cpu.get_acquire();
    if home == machine.here() || task.class().is_realtime() {
        return None;
    }
    let returns = match task.affinity().only() {
        Some(only) => only == home,
        None => machine.queue(home).idles() && task.affinity().allows(home) && place::is_alone(machine, home),
    };
    returns.then_some(home)
}

/// Leaves `task` to `home`.
#[inline(never)]
pub fn call(machine: &impl Machine, task: &Task, home: CpuId) {
    if !task.sleep_node.call.call() {
        return;
    }
    let shown = &machine.queue(home).shown;
    let is_first = shown.called.put_as_first(core::ptr::from_ref(task).expose_provenance() as u64, |next| {
        task.sleep_node.next.store(next, Ordering::Relaxed)
    });
    // Who was there first kicks for all.
    if is_first && shown.idle.take() != Found::Looking {
        machine.kick(home);
    }
}

/// Has nobody called a task of this CPU?
#[inline]
pub fn none_called(machine: &impl Machine) -> bool {
    machine.own_queue().shown.called.is_empty()
}

/// Wakes those of this CPU's tasks whom others have called.
#[cold]
#[inline(never)]
pub fn answer(machine: &impl Machine) {
    let own = machine.own_queue();
    let is_idle = own.queue.lock().idles();
    let mut address = own.shown.called.take();
    while address != 0 {
        let task = core::ptr::with_exposed_provenance::<Task>(address as usize);
        // SAFETY: the task was there when it was called, and since then its end leaves its reference to who answers. After the answer it may end, but is freed only
        // after a grace period, and this function does not sleep.
        let called = unsafe { &*task };
        let node = &called.sleep_node;
        // Written before anything is read: so the line comes over once.
        node.wakes.store(true, Ordering::Relaxed);
        address = node.next.load(Ordering::Relaxed);
        fence(Ordering::Release);
        let has_ended = node.call.answer(|| {
            let has_time = is_idle && own.waiting() == 0;
            let wanted = if has_time { Wanted::Here } else { Wanted::Anywhere };
            place::wake_from_here(machine, called, &ASLEEP, wanted);
        });
        node.wakes.store(false, Ordering::Release);
        if has_ended {
            // SAFETY: its end left us the strong count that was its run reference.
            switch::bury(unsafe { Arc::from_raw(task) });
        }
    }
}
