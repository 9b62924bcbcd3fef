//! How deep the kernel's stacks get, by what a program asked for: the most that a call, an exception or a return to user mode has used, interrupts
//! that came meanwhile included. On the lockdep kernel alone, for /proc/darter/stack. More than [`MOST`] is a bug that a guard page would show one
//! day, so it is a panic at once.
//!
//! `plant=deep-stack` on the kernel's command line uses more once, to see that it is found.
//!
//! CountLocal: a CPU writes its own figures alone.
#![forbid(unsafe_code)]

use super::latency::Kind;
use crate::arch;
use crate::arch::interrupts::Entered;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering};
use sync::percpu::Count;
use sync::{CpuId, per_cpu};

/// Bytes of a stack that may be used: three quarters.
const MOST: usize = arch::STACK_SIZE / 4 * 3;

per_cpu! {
    static DEEPEST: [Count; Kind::COUNT] = [const { Count::new() }; Kind::COUNT];
}

/// The next thread that goes to user mode is to use too much before.
static PLANTED: AtomicBool = AtomicBool::new(false);

/// Takes `plant=deep-stack` of the kernel's command line.
pub fn plant(command_line: &str) {
    PLANTED.store(
        command_line.split_ascii_whitespace().any(|word| word == "plant=deep-stack"),
        Ordering::Relaxed,
    );
}

#[inline(never)]
fn go_deep() {
    black_box(&mut [1u8; MOST]);
}

/// The CPU is about to go to user mode, with interrupts off.
pub fn note() {
    let kind = match arch::entered_by() {
        Entered::Call(number) => Kind::Call(number),
        Entered::Exception => Kind::Exception,
        Entered::Other => Kind::Return,
    };
    if PLANTED.swap(false, Ordering::Relaxed) {
        go_deep();
    }
    let used = arch::stack_used();
    if let Some(deepest) = DEEPEST.this().get(kind.index()) {
        deepest.max(used as u64);
    }
    assert!(used <= MOST, "{kind} used {used} bytes of the kernel's stack; {MOST} are allowed");
}

/// The most that `cpu` has seen used, by kind, in bytes.
pub fn figures(cpu: CpuId, mut f: impl FnMut(Kind, u64)) {
    for (index, deepest) in DEEPEST.of(cpu).iter().enumerate().filter(|(_, deepest)| deepest.get() != 0) {
        f(Kind::of(index), deepest.get());
    }
}
