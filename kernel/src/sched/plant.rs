//! Stalls that a test asks for on the kernel's command line, to see that the watch finds them ([`stall`](super::stall)):
//!
//! * `plant=stall`         a thread holds a spinning lock and never gives way; the last CPU, if there is another, waits for the lock
//! * `plant=stall-masked`  the last CPU has interrupts off for ever, so that no grace period ends

use super::switch::spawn;
use crate::lock_order as level;
use core::sync::atomic::{AtomicBool, Ordering};
use sync::{SpinLock, lock_class, machine};

lock_class! { static PLANTED: LockClass = ("planted stall", level::TimerQueue); }
static HELD: SpinLock<(), level::TimerQueue> = SpinLock::new((), &PLANTED);

/// The first process has been started.
static BOOTED: AtomicBool = AtomicBool::new(false);

/// The boot is over, which gives way and must not wait behind what never does.
pub fn booted() {
    BOOTED.store(true, Ordering::Release);
}

/// Makes the stall that the command line asks for, if it does.
pub fn plant(command_line: &str) {
    let last = sync::cpus() - 1;
    let start = |cpu, f: fn(usize)| {
        if spawn(Some(cpu), f, 0).is_err() {
            error!("no memory for a planted stall");
        }
    };
    match command_line.split_ascii_whitespace().find_map(|word| word.strip_prefix("plant=")) {
        Some("stall") => {
            start(0, hold);
            if last != 0 {
                start(last, wait);
            }
        }
        Some("stall-masked") => start(last, mask),
        _ => {}
    }
}

fn hold(_: usize) {
    let _held = HELD.lock();
    loop {
        machine::relax();
    }
}

fn wait(_: usize) {
    while !HELD.is_locked() {
        super::yield_now();
    }
    drop(HELD.lock());
}

fn mask(_: usize) {
    while !BOOTED.load(Ordering::Acquire) {
        super::yield_now();
    }
    machine::irq_save();
    loop {
        machine::relax();
    }
}
