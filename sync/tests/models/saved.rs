//! A CPU leaves a task that waits already, and another takes it: its registers are saved before they are loaded.

use crate::model;
use crate::protocol::saved::OnCpu;
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;

struct World {
    /// The task waits on the queue of the CPU that leaves it.
    queue: Mutex<bool>,
    on_cpu: OnCpu,
    registers: UnsafeCell<u32>,
}

// SAFETY: loom checks what `on_cpu` is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

fn saving() {
    let world =
        Arc::new(World { queue: Mutex::new(false), on_cpu: OnCpu::new(), registers: UnsafeCell::new(0) });
    world.on_cpu.on();
    let thief = thread::spawn({
        let world = world.clone();
        move || {
            let takes = {
                let mut waits = world.queue.lock().unwrap();
                let takes = *waits && !world.on_cpu.is_on();
                *waits &= !takes;
                takes
            };
            if takes {
                // SAFETY: loom checks it.
                world.registers.with(|registers| assert_eq!(unsafe { *registers }, 1, "they are not saved"));
            }
        }
    });
    *world.queue.lock().unwrap() = true;
    // SAFETY: as above.
    world.registers.with_mut(|registers| unsafe { *registers = 1 });
    world.on_cpu.off();
    thief.join().unwrap();
}

model! { saving (3)
    breaks without_release_when_it_is_off: "saved.off"
    breaks without_acquire_when_looked_at: "saved.look"
}
