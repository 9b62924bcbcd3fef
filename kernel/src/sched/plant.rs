//! Stalls that a test asks for on the kernel's command line, to see that the watch finds them ([`stall`](super::stall)):
//!
//! * `plant=stall`         a thread holds a spinning lock and never gives way; the last CPU, if there is another, waits for the lock
//! * `plant=stall-masked`  the last CPU has interrupts off for ever, before a process runs there, so that no grace period ends
//! * `plant=stall-call`    the last CPU has interrupts off for ever, and the first waits for its answer to a call

use super::switch::spawn;
use crate::{arch, lock_order as level};
use core::sync::atomic::{AtomicBool, Ordering};
use sync::{SpinLock, lock_class, machine};

lock_class! { static PLANTED: LockClass = ("planted stall", level::TimerQueue); }
static HELD: SpinLock<(), level::TimerQueue> = SpinLock::new((), &PLANTED);

/// The first process is to be started.
static BOOTED: AtomicBool = AtomicBool::new(false);
/// The last CPU has interrupts off.
static MASKED: AtomicBool = AtomicBool::new(false);

/// The boot is over, but for the first process: what gives way must not wait behind what never does.
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
        Some("stall-call") if last != 0 => {
            start(last, mask);
            start(0, call);
        }
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
    MASKED.store(true, Ordering::Release);
    loop {
        machine::relax();
    }
}

fn call(_: usize) {
    while !MASKED.load(Ordering::Acquire) {
        super::yield_now();
    }
    arch::call_others(sync::cpus() - 1..sync::cpus(), |_| {}, 0);
}
