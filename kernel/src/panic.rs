//! Kernel panic: stop the other CPUs, print what happened, the way here and the locks held, then end the virtual machine
//! with a status of its own.
//!
//! Takes no lock and trusts little: the console is written by polling, the backtrace stops at the first frame pointer that does
//! not look like one, and a panic inside a panic ends the machine at once. Addresses are printed with the link address of
//! the kernel: `addr2line -fie darter-kernel` names them (the host program does).
#![forbid(unsafe_code)]

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::arch;

/// What `isa-debug-exit` gets after a panic; the host program turns it into status 125.
const PANIC_STATUS: u8 = 0x31;
/// Stack frames printed.
const FRAMES: usize = 32;
/// How long the panicking CPU waits for the others to print and stop.
const PATIENCE: u32 = 2_000_000;

const NOBODY: u32 = u32::MAX;
static PANICKING: AtomicU32 = AtomicU32::new(NOBODY);
static DEPTH: AtomicU32 = AtomicU32::new(0);
/// Other CPUs print one after the other: this one may.
static TURN: AtomicU32 = AtomicU32::new(0);
static STOPPED: AtomicU32 = AtomicU32::new(0);

/// A kernel panic is under way on some CPU.
pub fn in_progress() -> bool {
    PANICKING.load(Ordering::Relaxed) != NOBODY
}

/// Text straight to the console.
struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (i, line) in text.split('\n').enumerate() {
            if i > 0 {
                crate::device::serial::early_write(b"\r\n");
            }
            crate::device::serial::early_write(line.as_bytes());
        }
        Ok(())
    }
}

/// Prints the return addresses found by frame pointers, from `frame` on.
fn backtrace(frame: usize) {
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

/// The locks of this CPU and of the thread on it; only where lock order is checked is there a list of them.
fn held_locks() {
    sync::lock::order::held_locks(|lock| {
        let _ = writeln!(
            Console,
            "  holds lock {} ({}, {:#x}), taken at {}",
            lock.class, lock.level, lock.address, lock.caller
        );
    });
}

/// Stops this CPU for another's panic: prints where it was, in turn, and halts for good.
pub fn stop_this_cpu(pc: usize, frame: usize) -> ! {
    let cpu = arch::cpu_id();
    let mut patience = PATIENCE;
    while TURN.swap(1, Ordering::Acquire) != 0 && patience > 0 {
        patience -= 1;
        core::hint::spin_loop();
    }
    if !arch::is_idle_at(pc) {
        let _ = writeln!(Console, "CPU {cpu} was at {pc:#018x}");
        backtrace(frame);
        held_locks();
    }
    STOPPED.fetch_add(1, Ordering::Release);
    TURN.store(0, Ordering::Release);
    arch::halt_forever()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    arch::disable_interrupts();
    let cpu = if arch::percpu_ready() { arch::cpu_id() } else { 0 };
    match PANICKING.compare_exchange(NOBODY, cpu, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        Err(by) if by == cpu => {
            // A panic in the panic: say so and go.
            if DEPTH.fetch_add(1, Ordering::Relaxed) == 0 {
                let _ = writeln!(Console, "\npanic in a panic: {info}");
            }
            arch::exit_vm(PANIC_STATUS);
        }
        Err(_) => arch::halt_forever(),
    }
    let _ = writeln!(Console, "\nkernel panic on CPU {cpu}: {}", info.message());
    if let Some(place) = info.location() {
        let _ = writeln!(Console, "  at {place}");
    }
    backtrace(arch::frame_pointer());
    if arch::percpu_ready() {
        held_locks();
        arch::stop_other_cpus();
        let others = arch::online_cpus().saturating_sub(1);
        let mut patience = PATIENCE;
        while STOPPED.load(Ordering::Acquire) < others && patience > 0 {
            patience -= 1;
            core::hint::spin_loop();
        }
    }
    let _ = writeln!(Console, "end of kernel panic");
    arch::exit_vm(PANIC_STATUS)
}
