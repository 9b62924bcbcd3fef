//! What a CPU says on the console of where it is: the way here, the locks held, the lock waited for. For the panic and for the watch
//! over stalls.
//!
//! Takes no lock and trusts little: the console is written by polling, and the backtrace stops at the first frame pointer that does
//! not look like one. Addresses are printed with the link address of the kernel: `addr2line -fie darter-kernel` names them (the host
//! program does). CPUs that speak at once take turns, but none waits long for another.
#![forbid(unsafe_code)]

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::arch;

/// Stack frames printed.
const FRAMES: usize = 32;
/// Looks at another CPU that speaks before this one speaks as well.
const PATIENCE: u32 = 2_000_000;

static TURN: AtomicU32 = AtomicU32::new(0);
/// The CPU that is to say where it is, plus one; 0: none.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// The grace period that it may hold up; 0: none.
static ASKED_OF: AtomicU64 = AtomicU64::new(0);

/// Text straight to the console. The log keeps it, too, if its lock is free.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        crate::log::kept::piece(crate::log::ERROR, text.as_bytes());
        for (i, line) in text.split('\n').enumerate() {
            if i > 0 {
                crate::device::serial::early_write(b"\r\n");
            }
            crate::device::serial::early_write(line.as_bytes());
        }
        Ok(())
    }
}

/// Runs `say` when no other CPU speaks, or does not come to an end.
pub fn in_turn(say: impl FnOnce()) {
    let mut patience = PATIENCE;
    while TURN.swap(1, Ordering::Acquire) != 0 && patience > 0 {
        patience -= 1;
        core::hint::spin_loop();
    }
    say();
    TURN.store(0, Ordering::Release);
}

/// Prints the return addresses found by frame pointers, from `frame` on.
pub fn backtrace(frame: usize) {
    let mut frame = frame;
    for _ in 0..FRAMES {
        let Some((next, address)) = arch::frame_at(frame) else { break };
        if address == 0 {
            break;
        }
        let _ = writeln!(Console, "  {address:#018x}");
        // Stacks grow down, so callers' frames lie above.
        if next <= frame {
            break;
        }
        frame = next;
    }
}

/// The locks of this CPU and of the thread on it, which only a kernel that checks lock order knows; and the spinning lock that the
/// CPU waits for.
pub fn locks() {
    sync::lock::order::held_locks(|lock| {
        let _ = writeln!(
            Console,
            "  holds lock {} ({}, {:#x}), taken at {}",
            lock.class, lock.level, lock.address, lock.caller
        );
    });
    if let Some(lock) = sync::lock::waits::waited_for() {
        let _ = write!(Console, "  waits for lock {} at {}", lock.class, lock.caller);
        let _ = match lock.holder {
            Some(holder) => writeln!(Console, ", held by CPU {holder} when the wait began"),
            None => writeln!(Console),
        };
    }
}

/// Where this CPU is: at `pc`, with frame pointer `frame`.
pub fn place(pc: usize, frame: usize) {
    let _ = writeln!(Console, "CPU {} was at {pc:#018x}", arch::cpu_id());
    backtrace(frame);
    locks();
}

/// Has `cpu` say where it is, though it may have interrupts off. With the number of a grace period that it holds up: only if it has.
pub fn ask(cpu: u32, period: Option<u64>) {
    ASKED_OF.store(period.unwrap_or(0), Ordering::Relaxed);
    ASKED.store(cpu + 1, Ordering::Release);
    arch::interrupt_unmasked(cpu);
}

/// This CPU's non-maskable interrupt came: perhaps it is asked where it is.
pub fn asked(pc: usize, frame: usize, takes_interrupts: bool) {
    let here = arch::cpu_id();
    if !arch::percpu_ready()
        || ASKED.compare_exchange(here + 1, 0, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        return;
    }
    let period = ASKED_OF.load(Ordering::Relaxed);
    if period != 0 && takes_interrupts {
        return;
    }
    in_turn(|| {
        if period != 0 {
            late_period(period, here);
        }
        place(pc, frame);
    });
}

/// Says that CPU `by` holds up a grace period.
pub fn late_period(number: u64, by: u32) {
    let _ = writeln!(Console, "\nstall: grace period {number} does not end: CPU {by} holds it up");
}
