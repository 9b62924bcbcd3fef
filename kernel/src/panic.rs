//! Kernel panic: stop the other CPUs, print what happened, the way here and the locks held, then end the virtual machine
//! with a status of its own.
//!
//! Takes no lock and trusts little (`report` prints): a panic inside a panic ends the machine at once.
#![forbid(unsafe_code)]

use core::fmt::Write;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::arch;
use crate::report::{self, Console};

/// What `isa-debug-exit` gets after a panic; the host program turns it into status 125.
const PANIC_STATUS: u8 = 0x31;
/// How long the panicking CPU waits for the others to print and stop.
const PATIENCE: u32 = 2_000_000;

const NOBODY: u32 = u32::MAX;
static PANICKING: AtomicU32 = AtomicU32::new(NOBODY);
static DEPTH: AtomicU32 = AtomicU32::new(0);
static STOPPED: AtomicU32 = AtomicU32::new(0);

/// A kernel panic is under way on some CPU.
pub fn in_progress() -> bool {
    PANICKING.load(Ordering::Relaxed) != NOBODY
}

/// Stops this CPU for another's panic: prints where it was, in turn, and halts for good.
pub fn stop_this_cpu(pc: usize, frame: usize) -> ! {
    report::in_turn(|| {
        if !arch::is_idle_at(pc) {
            report::place(pc, frame);
        }
        STOPPED.fetch_add(1, Ordering::Release);
    });
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
    report::backtrace(arch::frame_pointer());
    if arch::percpu_ready() {
        report::locks();
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
