//! What a tracer asks of a thread, mostly of one that is stopped for it. Each answers ESRCH where the thread is not traced by the running thread, or is not stopped.
#![forbid(unsafe_code)]

use super::{Going, How, Phase, State, Tracee, breakpoints, link};
use crate::arch::{self, CORE_REGISTERS, place};
use crate::errno::{Errno, Result};
use crate::process::access::{self, By};
use crate::process::signal::{Info, UNBLOCKABLE, send};
use crate::process::{Capability, Pid, Thread, current, ids};
use crate::sched::Work;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use linux_raw_sys::ptrace as requests;
use vm::addr::VirtAddr;

/// The options that there are.
const OPTIONS: u32 = requests::PTRACE_O_MASK & !requests::PTRACE_O_SUSPEND_SECCOMP;
/// Signals that a thread may be given when it goes on; 0: none.
const LAST_SIGNAL: usize = 64;

/// A thread as its tracer has named it.
pub struct Subject(Arc<Thread>);

/// The registers of a stopped thread, as one may look at them.
pub type Words = [u64; CORE_REGISTERS];

/// PTRACE_ATTACH; with options PTRACE_SEIZE, which stops nothing.
///
/// # Errors
/// ESRCH: there is no such thread. EPERM. ENOMEM. EIO, EINVAL: there are no such options.
pub fn attach(tid: Pid, seizes: Option<usize>) -> Result {
    let caller = current();
    let found = ids::find_thread(tid);
    let options = match seizes {
        Some(options) if found.is_some() || ids::find_process(tid).is_some() => {
            let options = u32::try_from(options).map_err(|_| Errno::EIO)?;
            if options & !requests::PTRACE_O_MASK != 0 {
                return Err(Errno::EIO);
            }
            if options & !OPTIONS != 0 {
                return Err(Errno::EINVAL);
            }
            options
        }
        _ => 0,
    };
    let Some(thread) = found else {
        // A zombie's.
        return Err(if ids::find_process(tid).is_some() { Errno::EPERM } else { Errno::ESRCH });
    };
    let may = || access::may_inspect_thread(&caller, &thread, By::RealIds);
    if Arc::ptr_eq(&thread.process, &caller.process) || !may() {
        return Err(Errno::EPERM);
    }
    let how = How { options, capable: caller.capable(Capability::SYS_PTRACE), seized: seizes.is_some() };
    let tracee = link(&thread, &caller, how)?;
    // An exec that gives it new privileges makes them known before it looks for a tracer; this one is seen by then, or sees them (`exec::run`).
    if !may() {
        if caller.process.tracees.take_out(&tracee) {
            tracee.let_go(0);
        }
        return Err(Errno::EPERM);
    }
    if seizes.is_none() {
        let _ = send::queue_resting(&thread.process, Some(&thread), Info::kernel(abi::SIGSTOP), false);
    }
    // If its process is stopped, it leaves that sleep for its tracer.
    thread.process.signals.wake_stopped();
    Ok(())
}

/// The thread with this number. That the running thread traces it is seen at each request.
///
/// # Errors
/// ESRCH: there is none.
pub fn subject(tid: Pid) -> Result<Subject> {
    ids::find_thread(tid).map(Subject).ok_or(Errno::ESRCH)
}

impl Subject {
    fn tracee(&self) -> Result<Arc<Tracee>> {
        self.0.tracee().filter(|tracee| tracee.is_traced_by(&current())).ok_or(Errno::ESRCH)
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        let tracee = self.tracee()?;
        let killed = self.0.look_at_task(|task| task.work.any(Work::KILL)).unwrap_or(true);
        let mut state = tracee.state.lock();
        if state.phase != Phase::Stopped || killed && !state.is_last {
            return Err(Errno::ESRCH);
        }
        f(&mut state)
    }

    /// Does something with it while it is stopped for the running thread, which alone makes it go on.
    ///
    /// # Errors
    /// ESRCH; what `f` gives.
    pub fn with_thread<R>(&self, f: impl FnOnce(&Thread) -> Result<R>) -> Result<R> {
        self.check()?;
        f(&self.0)
    }

    /// Is it stopped for the running thread?
    ///
    /// # Errors
    /// ESRCH.
    pub fn check(&self) -> Result {
        self.with(|_| Ok(()))
    }

    /// PTRACE_CONT and its kin.
    ///
    /// # Errors
    /// EIO: there is no such signal. ESRCH.
    pub fn resume(&self, going: Going, signal: usize) -> Result {
        if signal > LAST_SIGNAL {
            return Err(Errno::EIO);
        }
        let tracee = self.tracee()?;
        self.with(|state| {
            (state.going, state.signal) = (going, signal as u32);
            state.event = None;
            state.phase = Phase::Runs;
            Ok(())
        })?;
        tracee.resumed.wake_all();
        Ok(())
    }

    /// PTRACE_DETACH.
    ///
    /// # Errors
    /// EIO: there is no such signal. ESRCH.
    pub fn detach(&self, signal: usize) -> Result {
        if signal > LAST_SIGNAL {
            return Err(Errno::EIO);
        }
        let tracee = self.tracee()?;
        if current().process.tracees.take_out(&tracee) {
            tracee.let_go(signal as u32);
        }
        Ok(())
    }

    /// PTRACE_INTERRUPT: it stops, whatever it is doing, unless it is about to anyway.
    ///
    /// # Errors
    /// ESRCH: the running thread does not trace it. EIO: it has not seized it.
    pub fn interrupt(&self) -> Result {
        let tracee = self.tracee()?;
        if !tracee.seized {
            return Err(Errno::EIO);
        }
        tracee.trap.store(true, Ordering::SeqCst);
        self.0.notify(false);
        // It may be listening.
        self.0.process.signals.wake_stopped();
        Ok(())
    }

    /// PTRACE_LISTEN: it stays stopped with its process, and stops anew when that goes on.
    ///
    /// # Errors
    /// ESRCH. EIO: it has not stopped so.
    pub fn listen(&self) -> Result {
        let tracee = self.tracee()?;
        self.with(|state| {
            let stop = state.info.map_or(0, |info| info.code.cast_unsigned() >> 8);
            if !tracee.seized || stop != requests::PTRACE_EVENT_STOP {
                return Err(Errno::EIO);
            }
            state.event = None;
            state.phase = Phase::Listening;
            Ok(())
        })?;
        tracee.resumed.wake_all();
        Ok(())
    }

    /// PTRACE_KILL: as SIGKILL by kill(2), whatever the thread is doing.
    ///
    /// # Errors
    /// ESRCH: the running thread does not trace it.
    pub fn kill(&self) -> Result {
        self.tracee()?;
        let info = Info::user(abi::SIGKILL, abi::SI_USER as i32);
        let _ = send::queue_resting(&self.0.process, Some(&self.0), info, false);
        Ok(())
    }

    /// Looks at its memory or changes it: `f` does. Sleeps.
    ///
    /// # Errors
    /// EIO: there is no such memory, or its tracer may not. ESRCH.
    fn with_memory(
        &self,
        f: impl FnOnce(&crate::memory::Space) -> core::result::Result<(), vm::FaultError>,
    ) -> Result {
        let is_open = self.0.process.is_dumpable() || self.tracee()?.capable;
        let space = self.0.space_of().filter(|_| is_open).ok_or(Errno::EIO)?;
        let space = crate::memory::HeldSpace::new(space);
        f(&space).map_err(|_| Errno::EIO)
    }

    /// PTRACE_PEEKDATA.
    ///
    /// # Errors
    /// EIO, ESRCH.
    pub fn peek(&self, address: usize) -> Result<u64> {
        let mut word = [0; 8];
        self.with_memory(|space| space.read_for_tracer(VirtAddr(address), &mut word))?;
        Ok(u64::from_ne_bytes(word))
    }

    /// PTRACE_POKEDATA.
    ///
    /// # Errors
    /// EIO, ESRCH.
    pub fn poke(&self, address: usize, word: usize) -> Result {
        self.with_memory(|space| space.write_for_tracer(VirtAddr(address), &word.to_ne_bytes()))
    }

    /// Its registers (struct user_regs_struct).
    ///
    /// # Errors
    /// ESRCH.
    pub fn registers(&self) -> Result<Words> {
        self.with(|state| Ok(state.registers))
    }

    /// Sets registers from word `first` on, up to the first that may not have its value.
    ///
    /// # Errors
    /// EIO, ESRCH.
    pub fn set_registers(&self, first: usize, values: &[u64]) -> Result {
        self.with(|state| {
            for (n, value) in values.iter().enumerate() {
                if !arch::set_traced_register(&mut state.registers, first.saturating_add(n), *value) {
                    return Err(Errno::EIO);
                }
                state.changed.registers = true;
            }
            Ok(())
        })
    }

    /// Its debug register `n`.
    ///
    /// # Errors
    /// ESRCH.
    pub fn debug_register(&self, n: usize) -> Result<u64> {
        self.check()?;
        Ok(breakpoints::peek(&self.0, n))
    }

    /// Sets it.
    ///
    /// # Errors
    /// EIO: there is none. EINVAL: it may not have this value. ENOMEM, ESRCH.
    pub fn set_debug_register(&self, n: usize, value: u64) -> Result {
        self.check()?;
        breakpoints::poke(&self.0, n, value)
    }

    /// Its vector registers, in the standard format of XSAVE.
    ///
    /// # Errors
    /// ENOMEM, ESRCH.
    pub fn vectors(&self) -> Result<Vec<u8>> {
        self.with(|state| Ok(state.vectors.to_core()?))
    }

    /// Sets what FXSAVE stores of them.
    ///
    /// # Errors
    /// EINVAL: the processor would not take it. ESRCH.
    pub fn set_legacy_vectors(&self, legacy: &[u8; 512]) -> Result {
        self.with(|state| {
            if !state.vectors.set_legacy(legacy) {
                return Err(Errno::EINVAL);
            }
            state.changed.vectors = true;
            Ok(())
        })
    }

    /// Sets all of them.
    ///
    /// # Errors
    /// As `set_legacy_vectors`.
    pub fn set_vectors(&self, area: &[u8]) -> Result {
        self.with(|state| {
            if !state.vectors.set_whole(area) {
                return Err(Errno::EINVAL);
            }
            state.changed.vectors = true;
            Ok(())
        })
    }

    /// What it has stopped with.
    ///
    /// # Errors
    /// EINVAL: nothing, since its process has stopped. ESRCH.
    pub fn info(&self) -> Result<Info> {
        self.with(|state| state.info.ok_or(Errno::EINVAL))
    }

    /// Replaces that.
    ///
    /// # Errors
    /// As `info`.
    pub fn set_info(&self, info: Info) -> Result {
        self.with(|state| {
            state.info = Some(state.info.map(|_| info).ok_or(Errno::EINVAL)?);
            Ok(())
        })
    }

    /// What the signal at place `at` carries, of those that wait for it or `shared` for its process.
    pub fn waiting_info(&self, shared: bool, at: usize) -> Option<Info> {
        self.0.look_at_waiting(shared, at)
    }

    /// The signals that it blocks, or will again when the call that it makes is over.
    ///
    /// # Errors
    /// ESRCH.
    pub fn mask(&self) -> Result<u64> {
        self.with(|state| Ok(state.mask))
    }

    /// # Errors
    /// ESRCH.
    pub fn set_mask(&self, mask: u64) -> Result {
        self.with(|state| {
            state.mask = mask & !UNBLOCKABLE;
            state.changed.mask = true;
            Ok(())
        })
    }

    /// # Errors
    /// EINVAL: some are not there. ESRCH.
    pub fn set_options(&self, options: usize) -> Result {
        self.with(|state| {
            let options = u32::try_from(options).map_err(|_| Errno::EINVAL)?;
            if options & !OPTIONS != 0 {
                return Err(Errno::EINVAL);
            }
            state.options = options;
            Ok(())
        })
    }

    /// What came with the last stop.
    ///
    /// # Errors
    /// ESRCH.
    pub fn message(&self) -> Result<u64> {
        self.with(|state| Ok(state.message))
    }

    /// Address, length and signature of what it has registered by rseq(2).
    ///
    /// # Errors
    /// ESRCH.
    pub fn rseq(&self) -> Result<(u64, u32, u32)> {
        self.check()?;
        Ok(self.0.rseq.shown())
    }

    /// The stop that it is in and its registers.
    ///
    /// # Errors
    /// ESRCH.
    pub fn call(&self) -> Result<(CallStop, Words)> {
        self.with(|state| {
            const GOOD: i32 = abi::SIGTRAP as i32 | 0x80;
            const FILTER: i32 = (abi::SIGTRAP | requests::PTRACE_EVENT_SECCOMP << 8) as i32;
            let words = state.registers;
            let word = |n: usize| words.get(n).copied().unwrap_or(0);
            let arguments = place::ARGUMENTS.map(word);
            let at = match (state.info.map(|info| info.code), state.message) {
                (Some(GOOD), super::stop::CALL_BEGUN) => {
                    CallStop::Begins { number: word(place::ORIG_RAX), arguments }
                }
                (Some(FILTER), message) => {
                    CallStop::Filtered { number: word(place::ORIG_RAX), arguments, data: message as u32 }
                }
                (Some(GOOD), super::stop::CALL_ENDED) => CallStop::Ends(word(place::RAX).cast_signed()),
                _ => CallStop::Elsewhere,
            };
            Ok((at, words))
        })
    }
}

/// Where a system call is (PTRACE_GET_SYSCALL_INFO).
pub enum CallStop {
    Elsewhere,
    Begins {
        number: u64,
        arguments: [u64; 6],
    },
    /// It begins, and a filter has left it to the tracer with this data.
    Filtered {
        number: u64,
        arguments: [u64; 6],
        data: u32,
    },
    /// With this result.
    Ends(i64),
}
