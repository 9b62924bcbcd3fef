//! When memory is out. A fault that needs a page kills the process that weighs most (`choice`) and waits for what it gives back. A system call,
//! which may fail, kills nobody: it waits once for memory that can be had without (`drain_caches`), that is pages of files that can be read
//! again, unused names of the name cache, and what is free already but cached by other CPUs or behind a grace period,
//! and what the host lets a balloon give back ([`Relief`]).
//!
//! There is one victim at a time, unless it takes too long to die: it may wait for something that another process holds. The first
//! process is never chosen. Pages of files belong to no process and are not counted; a file system in memory refuses to grow before
//! memory is out (`vm::frame::is_scarce`).
//!
//! Lock order: none is held here; the caller holds no spinning lock.
#![forbid(unsafe_code)]

pub mod badness;
mod choice;
mod release;

pub use release::release;

use crate::account;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::vfs::cache::shrink;
use crate::process::signal::{Info, send};
use crate::process::{Process, ids, is_dying};
use crate::sched::{self, Sleep};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as abi;
use once_cell::race::OnceRef;

/// Who has memory that it gives back when there is none: says whether it gave some. May sleep; called with no spinning lock held.
pub struct Relief(pub fn() -> bool);

static RELIEF: OnceRef<'static, Relief> = OnceRef::new();

/// Sets who gives memory back. Once.
pub fn set_relief(relief: &'static Relief) {
    let _ = RELIEF.set(relief);
}

/// The process that was chosen last; 0: none yet.
static VICTIM: AtomicU32 = AtomicU32::new(0);
/// When it was chosen.
static CHOSEN: AtomicU64 = AtomicU64::new(0);

/// How long a victim may take to give its memory back before another is chosen.
const PATIENCE_NS: u64 = 2_000_000_000;
/// How long a thread waits for memory before it tries again.
const PAUSE_NS: u64 = 5_000_000;
/// Pages of files that can be read again and are given up at once: 16 MiB.
const PAGES: u64 = 4096;
/// How many such pauses other CPUs get to give back what they cache.
const TICKS: u32 = 4;

/// There is no frame for the running thread's page: makes some process give memory back and waits a little. False: the running
/// thread itself is dying, so it needs no page any more. May sleep.
#[cold]
pub fn wait_for_memory() -> bool {
    if is_dying() {
        return false;
    }
    let last = VICTIM.load(Ordering::Acquire);
    let patient = time::now().saturating_sub(CHOSEN.load(Ordering::Acquire)) < PATIENCE_NS;
    let dying = last != 0 && patient && ids::find_process(last).is_some_and(|p| holds_memory(&p));
    if !dying {
        drain_caches();
        if vm::frame::has_any() {
            return !is_dying();
        }
    }
    // Of two that come here at once, one chooses.
    if !dying && VICTIM.compare_exchange(last, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        match choice::heaviest(last) {
            Some((victim, weight)) => {
                CHOSEN.store(time::now(), Ordering::Release);
                VICTIM.store(victim.pid(), Ordering::Release);
                warn!("out of memory: process {} is killed, which weighs {weight} pages", victim.pid());
                send::to_process(&victim, Info::kernel(abi::SIGKILL));
            }
            None => send::forced(Info::kernel(abi::SIGKILL)),
        }
    }
    pause();
    !is_dying()
}

/// There is no frame on the nodes that the running thread's page is bound to by a policy, though there are others: has everybody give back what is free there
/// already, and where that is nothing, ends the running process, which Linux too looks for among those that are so bound. False: the running thread is dying. May sleep.
#[cold]
pub fn wait_for_nodes() -> bool {
    let free = vm::frame::free_frames();
    drain_caches();
    if !is_dying() && vm::frame::free_frames() <= free {
        warn!("out of memory on the nodes that process {} is bound to", super::current_pid());
        send::forced(Info::kernel(abi::SIGKILL));
    }
    !is_dying()
}

/// Gives up pages that can be read again and cached names, has every CPU give back the free memory that it caches or that waits for a grace period, and waits a little
/// for it. False: the running thread is dying. May sleep; no spinning lock is held.
#[cold]
pub fn drain_caches() -> bool {
    shrink::shed_pages(PAGES);
    shrink::drain();
    account::forget_idle(sched::schedule_if_needed);
    sync::rcu::expedite();
    sync::rcu::hurry();
    sync::rcu::synchronize();
    // Callbacks of this CPU run here; other CPUs run theirs, and nothing in user mode before.
    let rest = || {
        sched::schedule_if_needed();
        is_dying()
    };
    sync::rcu::run_ripe(rest);
    pause();
    sync::rcu::run_ripe(rest);
    vm::frame::call_back();
    // The others do so when they idle or at their next tick.
    for _ in 0..TICKS {
        if is_dying() || vm::frame::all_gave_back() {
            break;
        }
        pause();
    }
    if !is_dying()
        && !vm::frame::has_any()
        && let Some(relief) = RELIEF.get()
    {
        (relief.0)();
    }
    !is_dying()
}

/// Does `f`, and if it fails for want of memory, once more after `drain_caches`.
///
/// # Errors
/// Those of `f`.
pub fn drain_and_retry<R>(mut f: impl FnMut() -> Result<R>) -> Result<R> {
    match f() {
        Err(Errno::ENOMEM) if drain_caches() => f(),
        result => result,
    }
}

fn pause() {
    // A fatal signal ends the wait; the caller looks for it.
    let _ = sched::sleep_until(time::now().saturating_add(PAUSE_NS), Sleep::Killable);
}

/// Until it is a zombie: its files go after its space, and may hold more.
fn holds_memory(process: &Process) -> bool {
    !process.is_zombie()
}
