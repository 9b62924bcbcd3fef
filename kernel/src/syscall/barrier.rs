//! membarrier(2) and rseq(2).
#![forbid(unsafe_code)]

use crate::arch;
use crate::errno::{Errno, Result};
use crate::process::{self, rseq};
use crate::sched;
use core::sync::atomic::{AtomicBool, Ordering, fence};

const GLOBAL: u32 = 1;
const GLOBAL_EXPEDITED: u32 = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: u32 = 1 << 2;
const PRIVATE_EXPEDITED: u32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: u32 = 1 << 4;
const PRIVATE_SYNC_CORE: u32 = 1 << 5;
const REGISTER_PRIVATE_SYNC_CORE: u32 = 1 << 6;
const PRIVATE_RSEQ: u32 = 1 << 7;
const REGISTER_PRIVATE_RSEQ: u32 = 1 << 8;
const GET_REGISTRATIONS: u32 = 1 << 9;
const ALL: u32 = (1 << 10) - 1;

/// Some process has registered for barriers by all others, or had done so: while none has, nobody is interrupted for them. Never falls.
static GLOBAL_REGISTERED: AtomicBool = AtomicBool::new(false);

/// membarrier(2). An interrupt is a full barrier, and leaving it serialises the processor, so the expedited commands are
/// one interrupt to every CPU that may run the program.
pub fn sys_membarrier(command: u32, flags: u32, cpu: u32) -> Result<usize> {
    const FLAG_CPU: u32 = 1;
    if (command, flags) == (GLOBAL, 0) {
        sync::rcu::synchronize();
        return Ok(0);
    }
    if flags & !(if command == PRIVATE_RSEQ { FLAG_CPU } else { 0 }) != 0 {
        return Err(Errno::EINVAL);
    }
    let only = (flags & FLAG_CPU != 0).then_some(cpu);
    let barriers = &process::current().process.barriers;
    match command {
        0 => return Ok(ALL as usize),
        GET_REGISTRATIONS => {
            let registered = barriers.load(Ordering::Relaxed);
            // Linux counts the two special kinds as the plain one besides.
            let special = registered & (REGISTER_PRIVATE_SYNC_CORE | REGISTER_PRIVATE_RSEQ) != 0;
            return Ok((registered | if special { REGISTER_PRIVATE_EXPEDITED } else { 0 }) as usize);
        }
        GLOBAL_EXPEDITED => {
            // A barrier of the caller's own, before and behind. Pairs with the one of who registers: a registration that is over is seen.
            fence(Ordering::SeqCst);
            if GLOBAL_REGISTERED.load(Ordering::Relaxed) {
                arch::call_others(0..sync::machine::cpus(), barrier, 0);
                fence(Ordering::SeqCst);
            }
        }
        REGISTER_GLOBAL_EXPEDITED
        | REGISTER_PRIVATE_EXPEDITED
        | REGISTER_PRIVATE_SYNC_CORE
        | REGISTER_PRIVATE_RSEQ => {
            if command == REGISTER_GLOBAL_EXPEDITED && !GLOBAL_REGISTERED.load(Ordering::Relaxed) {
                GLOBAL_REGISTERED.store(true, Ordering::SeqCst);
            }
            // Threads that register what is registered write no common line.
            if barriers.load(Ordering::SeqCst) & command == 0 {
                barriers.fetch_or(command, Ordering::SeqCst);
            }
        }
        PRIVATE_EXPEDITED | PRIVATE_SYNC_CORE | PRIVATE_RSEQ => {
            if barriers.load(Ordering::Relaxed) & command << 1 == 0 {
                return Err(Errno::EPERM);
            }
            private(command == PRIVATE_RSEQ, only);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// A barrier on every CPU that may run the process, or on `only` one; sequences that it interrupts begin again if `restarts`.
fn private(restarts: bool, only: Option<u32>) {
    let thread = process::current();
    // Pairs with the one behind a change of the set: a CPU that is not in it comes later, through a full barrier.
    fence(Ordering::SeqCst);
    let cpus = thread.space().tlb().cpus();
    let here = sync::cpu_id();
    let call = if restarts { restart } else { barrier };
    arch::call_others(cpus.iter().filter(|c| only.is_none_or(|o| *c == o)), call, 0);
    if restarts && only.is_none_or(|o| o == here) {
        restart(0);
    }
    fence(Ordering::SeqCst);
}

/// On a CPU that was asked, with interrupts off.
fn barrier(_: usize) {
    fence(Ordering::SeqCst);
}

/// As `barrier`; a restartable sequence that was interrupted here begins again.
fn restart(_: usize) {
    fence(Ordering::SeqCst);
    if let Some(task) = sched::try_current() {
        task.raise_again();
    }
}

/// rseq(2).
pub fn sys_rseq(address: usize, len: u32, flags: u32, signature: u32) -> Result<usize> {
    const UNREGISTER: u32 = 1;
    let thread = process::current();
    match flags {
        0 => rseq::register(&thread, address, len, signature)?,
        UNREGISTER => rseq::unregister(&thread, address, len, signature)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
