//! Core dumps (core(5)): what a process leaves when a signal whose default action is to dump core ends it.
//!
//! The thread that got the signal writes. The others are ended as by SIGKILL; on its way out each notes its registers in the process's
//! [`Dump`] and waits there, with its memory as it was, until the writer is done. A thread that was on its way out already is missing.
//! Only SIGKILL ends the writing early, and no other signal reaches the process any more.
//!
//! * `registers` what is noted of a thread; `notes` what is told of threads and process; `regions` which memory is written
//! * `file`      the ELF file and its holes; `name` where it lies
//!
//! Lock order: `threads` of a dump is a leaf.
#![forbid(unsafe_code)]

mod file;
mod name;
mod notes;
mod regions;
mod registers;

pub use name::{pattern, set_pattern, set_uses_pid, uses_pid};
pub use regions::Filter;

use super::access::Dumpable;
use super::{Current, Process, exit};
use crate::arch::UserRegs;
use crate::errno::Result;
use crate::lock_order as level;
use crate::process::signal::{Info, bit};
use crate::sched::{self, Sleep, WaitQueue, Work};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use linux_raw_sys::general as abi;
use registers::Registers;
use sync::rcu::RcuHead;
use sync::{SpinLock, TryVec, lock_class, try_arc};
use vm::addr::PAGE_SIZE;

lock_class! { static THREADS: LockClass = ("threads of a core dump", level::CoreDump); }

/// The signals whose default action dumps core (signal(7)).
const DUMPING: u64 = bit(abi::SIGQUIT)
    | bit(abi::SIGILL)
    | bit(abi::SIGTRAP)
    | bit(abi::SIGABRT)
    | bit(abi::SIGBUS)
    | bit(abi::SIGFPE)
    | bit(abi::SIGSEGV)
    | bit(abi::SIGXCPU)
    | bit(abi::SIGXFSZ)
    | bit(abi::SIGSYS);

/// A dump that is being written: the other threads of the process meet here.
pub struct Dump {
    threads: SpinLock<Vec<Registers>, level::CoreDump>,
    /// Threads that wait for its end.
    arrived: AtomicU32,
    over: AtomicBool,
    waiting: WaitQueue,
    rcu: RcuHead,
}

sync::rcu_object!(Dump);

impl Dump {
    fn try_new() -> Result<Arc<Self>> {
        Ok(try_arc(Self {
            threads: SpinLock::new(Vec::new(), &THREADS),
            arrived: AtomicU32::new(0),
            over: AtomicBool::new(false),
            waiting: WaitQueue::new(),
            rcu: RcuHead::new(),
        })?)
    }
}

/// The running thread ends its process by a signal. Writes a core, if that is due; whether or not it comes to be written, the caller goes on to
/// end the process. May sleep.
pub fn write(regs: &UserRegs, thread: &Current, info: &Info) {
    let process = &thread.process;
    let limit = process.limits.soft(abi::RLIMIT_CORE);
    let dumpable = process.dumpable();
    if DUMPING & bit(info.signal) == 0 || dumpable == Dumpable::Nobody || limit < PAGE_SIZE as u64 {
        return;
    }
    let Ok(own) = Registers::boxed(thread, regs) else { return };
    let Ok(dump) = Dump::try_new() else { return };
    let publish = || process.dump.swap(Some(dump.clone()));
    if !process.signals.begin_dump(info.signal as i32, publish) {
        return;
    }
    exit::kill_others(thread);
    let gathered = || {
        let others = process.alive.load(Ordering::Acquire).saturating_sub(1);
        (others == dump.arrived.load(Ordering::Acquire)).then_some(())
    };
    let alone = process.release.wait_shared(Sleep::Killable, None, gathered).is_ok();
    if alone {
        let others = core::mem::take(&mut *dump.threads.lock());
        let begun = file::write(thread, info, (&own, &others), limit, dumpable == Dumpable::Root);
        if begun && !super::is_dying() {
            process.signals.note_dumped();
        }
    }
    dump.over.store(true, Ordering::Release);
    dump.waiting.wake_all();
}

/// The running thread is about to end because its process does: if that writes a core, it takes part first.
pub fn take_part(regs: &UserRegs, thread: &Current) {
    let process = &thread.process;
    let Some(dump) = process.dump.get(&sync::rcu::read()) else { return };
    if dump.over.load(Ordering::Acquire) {
        return;
    }
    if let Ok(registers) = Registers::of(thread, regs) {
        // Without memory the core does without it.
        let _ = dump.threads.lock().try_push(registers);
    }
    dump.arrived.fetch_add(1, Ordering::AcqRel);
    process.release.wake_all();
    let over = || dump.over.load(Ordering::Acquire).then_some(());
    // It is killed already, and will be told so again: only the end of the dump, which comes, lets it go on.
    while dump.waiting.wait_shared(Sleep::Killable, None, over).is_err() {
        sched::current().work.clear(Work::SIGNAL | Work::KILL);
    }
}

impl Process {
    /// Which memory a core dump has (`Filter`).
    pub fn dump_filter(&self) -> u32 {
        self.dump_filter.load(Ordering::Relaxed)
    }

    pub fn set_dump_filter(&self, filter: u32) {
        self.dump_filter.store(filter & Filter::ALL.bits(), Ordering::Relaxed);
    }
}
