//! Restartable sequences (rseq(2)): a word in a thread's memory says on which CPU it runs, and a critical section that names itself
//! there begins again at its abort address when the thread was switched away from, moved, or got a signal inside it.
//!
//! `MOVED` is raised for a registered thread each time it is switched in; the work is done on its way back to user mode. Threads
//! without a registration pay nothing. The area and what it points at are the program's memory, and each word is read once.
#![forbid(unsafe_code)]

use super::signal::{Info, send};
use super::{Current, Thread};
use crate::arch::{self, UserRegs, user};
use crate::errno::{Errno, Result};
use crate::memory::user::UserPtr;
use crate::sched::{self, Work};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use linux_raw_sys::general as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Work flag: the thread has been switched in since it was last in user mode.
pub const MOVED: u32 = Work::PROCESS << 2;

/// Bytes of the first version of struct rseq, and of what of the present one is used (AT_RSEQ_FEATURE_SIZE).
const FIRST_SIZE: u32 = 32;
pub const FEATURE_SIZE: usize = 28;
/// Alignment of the area (AT_RSEQ_ALIGN).
pub const ALIGN: usize = 32;

/// Offsets in struct rseq.
const CPU_START: usize = 0;
const SECTION: usize = 8;
const FLAGS: usize = 16;
const NODE: usize = 20;

/// What a thread registered. Written by the thread itself; by its creator before it runs.
#[derive(Default)]
pub struct Registration {
    /// 0: nothing.
    address: AtomicUsize,
    len: AtomicU32,
    signature: AtomicU32,
}

/// struct rseq_cs.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Section {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    abort: u64,
}

impl Registration {
    /// For the thread of a forked process, which has a copy of the area.
    pub fn copy(&self) -> Self {
        Self {
            address: AtomicUsize::new(self.address.load(Relaxed)),
            len: AtomicU32::new(self.len.load(Relaxed)),
            signature: AtomicU32::new(self.signature.load(Relaxed)),
        }
    }

    /// Address, length and signature; zeros: there is none.
    pub fn shown(&self) -> (u64, u32, u32) {
        match self.address.load(Relaxed) {
            0 => (0, 0, 0),
            address => (address as u64, self.len.load(Relaxed), self.signature.load(Relaxed)),
        }
    }

    pub fn is_there(&self) -> bool {
        self.address.load(Relaxed) != 0
    }

    /// exec: the area is gone.
    pub fn clear(&self) {
        if self.is_there() {
            self.address.store(0, Relaxed);
            sched::current().stop_raising(MOVED);
        }
    }
}

/// rseq(2) without RSEQ_FLAG_UNREGISTER.
///
/// # Errors
/// EINVAL, EPERM, EBUSY, EFAULT, in Linux's order.
pub fn register(thread: &Current, address: usize, len: u32, signature: u32) -> Result {
    let mine = &thread.rseq;
    if mine.is_there() {
        check_same(mine, address, len, signature)?;
        return Err(Errno::EBUSY);
    }
    let long_enough = len == FIRST_SIZE || len as usize >= FEATURE_SIZE;
    if len < FIRST_SIZE || !long_enough || !address.is_multiple_of(ALIGN) {
        return Err(Errno::EINVAL);
    }
    if !user::in_user_half(address, len as usize) {
        return Err(Errno::EFAULT);
    }
    // It begins outside all sections, whatever the area says.
    UserPtr::<u64>::new(address.saturating_add(SECTION)).write(&0)?;
    mine.address.store(address, Relaxed);
    mine.len.store(len, Relaxed);
    mine.signature.store(signature, Relaxed);
    let task = sched::current();
    task.raise_on_resume(MOVED);
    task.work.set(MOVED);
    Ok(())
}

fn check_same(mine: &Registration, address: usize, len: u32, signature: u32) -> Result {
    if mine.address.load(Relaxed) != address || mine.len.load(Relaxed) != len {
        return Err(Errno::EINVAL);
    }
    if mine.signature.load(Relaxed) != signature { Err(Errno::EPERM) } else { Ok(()) }
}

/// rseq(2) with RSEQ_FLAG_UNREGISTER.
///
/// # Errors
/// EINVAL, EPERM, EFAULT.
pub fn unregister(thread: &Current, address: usize, len: u32, signature: u32) -> Result {
    let mine = &thread.rseq;
    if !mine.is_there() {
        return Err(Errno::EINVAL);
    }
    check_same(mine, address, len, signature)?;
    write_place(address, 0, u32::MAX, 0, 0)?;
    mine.clear();
    Ok(())
}

/// The registration that a forked process's thread inherits is in force from its first switch in.
pub fn inherit(thread: &Thread, task: &sched::Task) {
    if thread.rseq.is_there() {
        task.raise_on_resume(MOVED);
    }
}

/// The running thread is on its way back to user mode and was away from its CPU.
#[cold]
pub fn resume(regs: &mut UserRegs) {
    sched::current().work.clear(MOVED);
    let thread = super::current();
    if thread.rseq.is_there() && update(&thread, regs).is_err() {
        send::forced(Info::kernel(abi::SIGSEGV));
    }
}

/// A handler is about to be entered: it must find the section aborted, and itself outside.
///
/// # Errors
/// The area is no good.
pub fn interrupted(thread: &Current, regs: &mut UserRegs) -> Result {
    if thread.rseq.is_there() { update(thread, regs) } else { Ok(()) }
}

fn update(thread: &Current, regs: &mut UserRegs) -> Result {
    let address = thread.rseq.address.load(Relaxed);
    leave_section(regs, address, thread.rseq.signature.load(Relaxed))?;
    let cpu = sync::cpu_id();
    // One thread at a time runs on a CPU, so its number serves as the concurrency id, too.
    write_place(address, cpu, cpu, sync::machine::node_of(cpu), cpu)
}

#[expect(clippy::arithmetic_side_effects, reason = "the area was found to lie in user memory")]
fn write_place(address: usize, start: u32, cpu: u32, node: u32, concurrency: u32) -> Result {
    UserPtr::<[u32; 2]>::new(address + CPU_START).write(&[start, cpu])?;
    UserPtr::<[u32; 2]>::new(address + NODE).write(&[node, concurrency])
}

/// Makes `regs` go on at the abort address if they are in the section that the area names.
#[expect(clippy::arithmetic_side_effects, reason = "the area was found to lie in user memory")]
fn leave_section(regs: &mut UserRegs, area: usize, signature: u32) -> Result {
    let place = UserPtr::<u64>::new(area + SECTION);
    let at = place.read()? as usize;
    if at == 0 {
        return Ok(());
    }
    if at >= arch::USER_END {
        return Err(Errno::EINVAL);
    }
    let section = UserPtr::<Section>::new(at).read()?;
    let end = section.start.checked_add(section.length).ok_or(Errno::EINVAL)?;
    let limit = arch::USER_END as u64;
    let outside = section.abort.wrapping_sub(section.start) >= section.length;
    if section.start >= limit || end >= limit || section.abort >= limit || section.version > 0 || !outside {
        return Err(Errno::EINVAL);
    }
    // The word before the abort address says that somebody meant it to be one.
    let word = UserPtr::<u32>::new((section.abort as usize).wrapping_sub(4)).read()?;
    if word != signature {
        return Err(Errno::EINVAL);
    }
    if (regs.pc() as u64).wrapping_sub(section.start) >= section.length {
        // Left without saying so.
        return place.write(&0);
    }
    if section.flags != 0 || UserPtr::<u32>::new(area + FLAGS).read()? != 0 {
        return Err(Errno::EINVAL);
    }
    place.write(&0)?;
    regs.set_pc(section.abort as usize);
    Ok(())
}
