//! A thread's debug registers, which its tracer sets (PTRACE_POKEUSER): up to four places at which it stops, for instructions or for data.
//!
//! They are the thread's, not its tracer's: as on Linux they stay when it is traced no more, and an exec ends them; no child has them. A thread without any has a
//! null word. One that has some is told by a flag each time it is switched in (`LOADS`) to load them on its way to user mode. Nobody clears them when it is
//! switched away from: who meets a stranger's clears them.
#![forbid(unsafe_code)]

use crate::arch::{self, USER_END, UserRegs, Watches};
use crate::errno::{Errno, Result};
use crate::lock_order as level;
use crate::process::{Thread, current};
use crate::sched::{self, Work};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use sync::rcu::RcuHead;
use sync::{SpinLock, lock_class, rcu, try_arc};

lock_class! { static BREAKPOINTS: LockClass = ("debug registers", level::ThreadState); }

/// Work flag: the thread's debug registers are to be loaded on this CPU.
pub const LOADS: u32 = Work::PROCESS << 6;

const COUNT: usize = 4;
/// DR6's bits for the four, and the one for a step.
const HITS: u32 = 0xf;
const STEP: u32 = 1 << 14;
/// What DR6 says while nothing has come (SDM vol. 3, 18.2.3).
const QUIET: u64 = 0xffff_0ff0;
/// The bits of DR7 that mean nothing.
const RESERVED: u64 = 0xffff_ffff_0000_fc00;
/// Kinds of DR7: a place in the program, written, in and out, written or read.
const EXECUTED: u64 = 0;
const WRITTEN: u64 = 1;
const TRANSFERRED: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    access: u64,
    len: u64,
}

impl Kind {
    /// That of breakpoint `n` in DR7.
    ///
    /// # Errors
    /// EINVAL: there is no such kind.
    fn of(control: u64, n: usize) -> Result<Kind> {
        let field = control >> n.wrapping_mul(4).wrapping_add(16);
        let len = match field >> 2 & 3 {
            0 => 1,
            1 => 2,
            2 => 8,
            _ => 4,
        };
        match field & 3 {
            TRANSFERRED => Err(Errno::EINVAL),
            EXECUTED if len != 1 => Err(Errno::EINVAL),
            access => Ok(Kind { access, len }),
        }
    }

    /// As it is in DR7.
    fn field(self) -> u64 {
        let len = match self.len {
            1 => 0,
            2 => 1,
            8 => 2,
            _ => 3,
        };
        self.access | len << 2
    }
}

/// A breakpoint that was named once.
#[derive(Clone, Copy)]
struct Point {
    address: u64,
    kind: Kind,
    enabled: bool,
}

impl Point {
    /// # Errors
    /// EINVAL: its place is no multiple of its length, or does not lie in user space.
    fn check(&self) -> Result {
        let end = self.address.checked_add(self.kind.len);
        let is_user = end.is_some_and(|end| end <= USER_END as u64);
        if is_user && self.address.is_multiple_of(self.kind.len) { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

struct State {
    points: [Option<Point>; COUNT],
    /// DR7 and DR6 as the tracer has set them, or an exception.
    control: u64,
    status: u64,
}

impl State {
    fn watches(&self) -> Watches {
        let mut watches = Watches::default();
        for (n, point) in self.points.iter().enumerate() {
            if let Some(point) = point.filter(|point| point.enabled)
                && let Some(address) = watches.addresses.get_mut(n)
            {
                *address = point.address;
                watches.control |=
                    1 << n.wrapping_mul(2) | point.kind.field() << n.wrapping_mul(4).wrapping_add(16);
            }
        }
        watches
    }

    fn set_address(&mut self, n: usize, address: u64) -> Result {
        let Some(place) = self.points.get_mut(n) else { return Err(Errno::EIO) };
        let first = Point { address, kind: Kind { access: WRITTEN, len: 1 }, enabled: false };
        let point = place.map_or(first, |point| Point { address, ..point });
        point.check()?;
        *place = Some(point);
        Ok(())
    }

    /// Sets kinds, and which are in effect. If one may not be so, those that were in effect are again, and nothing else is.
    fn set_control(&mut self, control: u64) -> Result {
        let known = control & !RESERVED;
        let before = self.watches().control;
        let set = (0..COUNT).try_for_each(|n| self.set_point(known, n));
        if set.is_err() {
            for n in 0..COUNT {
                let _ = self.set_point(before, n);
            }
            return set;
        }
        self.control = control;
        Ok(())
    }

    fn set_point(&mut self, control: u64, n: usize) -> Result {
        let Some(place) = self.points.get_mut(n) else { return Ok(()) };
        let enabled = control >> n.wrapping_mul(2) & 3 != 0;
        if place.is_none() && !enabled {
            return Ok(());
        }
        let kind = Kind::of(control, n)?;
        let address = place.map_or(0, |point| point.address);
        let point = Point { address, kind, enabled };
        point.check()?;
        *place = Some(point);
        Ok(())
    }
}

/// The debug registers of a thread that has had any.
pub struct Breakpoints {
    state: SpinLock<State, level::ThreadState>,
    rcu: RcuHead,
}

sync::rcu_object!(Breakpoints);

/// Those of `thread`, which gets some.
fn make(thread: &Thread) -> Result<Arc<Breakpoints>> {
    if let Some(there) = thread.breakpoints.get(&rcu::read()) {
        return Ok(there);
    }
    let state = State { points: [None; COUNT], control: 0, status: 0 };
    let new = try_arc(Breakpoints { state: SpinLock::new(state, &BREAKPOINTS), rcu: RcuHead::new() })?;
    // Its tracer and itself alone make them, and it is stopped for its tracer.
    let _ = thread.breakpoints.put_if_empty(new);
    thread.breakpoints.get(&rcu::read()).ok_or(Errno::ESRCH)
}

/// Debug register `n` of `thread`.
pub(super) fn peek(thread: &Thread, n: usize) -> u64 {
    let quiet = if n == 6 { QUIET } else { 0 };
    let Some(own) = thread.breakpoints.get(&rcu::read()) else { return quiet };
    let state = own.state.lock();
    match n {
        6 => state.status ^ QUIET,
        7 => state.control,
        _ => state.points.get(n).copied().flatten().map_or(0, |point| point.address),
    }
}

/// Sets it. The thread is stopped, and loads them when it goes on.
///
/// # Errors
/// EIO: there is no such register. EINVAL: it may not have this value. ENOMEM.
pub(super) fn poke(thread: &Thread, n: usize, value: u64) -> Result {
    if matches!(n, 4 | 5) {
        return Err(Errno::EIO);
    }
    let own = make(thread)?;
    let loads = {
        let mut state = own.state.lock();
        match n {
            6 => state.status = value ^ QUIET,
            7 => state.set_control(value)?,
            _ => state.set_address(n, value)?,
        }
        state.watches().control != 0
    };
    thread.look_at_task(|task| {
        if loads {
            task.raise_on_resume(LOADS);
        } else {
            task.stop_raising(LOADS);
        }
        // Also to unload them.
        task.work.set(LOADS);
    });
    Ok(())
}

/// The running thread is stepped from now on, or no more: then it may watch less, or more.
pub(super) fn steps_changed(thread: &Thread) {
    if !thread.breakpoints.is_empty() {
        sched::current().work.set(LOADS);
    }
}

/// The running thread is on its way to user mode, and was away from its CPU or has got others, or is stepped.
#[cold]
#[inline(never)]
pub fn load(regs: &UserRegs) {
    sched::current().work.clear(LOADS);
    let watches = current().breakpoints.get(&rcu::read()).map(|own| own.state.lock().watches());
    match watches {
        Some(watches) if watches.control != 0 => arch::load_watches(&watches, regs.steps()),
        _ => arch::unload_watches(),
    }
}

/// The running thread executes another program.
pub fn end(thread: &Thread) {
    if !thread.breakpoints.is_empty() {
        thread.breakpoints.swap(None);
        let task = sched::current();
        task.stop_raising(LOADS);
        task.work.set(LOADS);
    }
}

/// Has an exception come from what another thread has left on this CPU alone?
fn is_strangers(status: u32, hits: u32) -> bool {
    status & HITS != 0 && status & STEP == 0 && hits == 0
}

/// A debug exception of the running thread, of which the processor has said `status`: si_code of its signal. None: it means nothing to the thread.
pub fn taken(regs: &mut UserRegs, status: u32) -> Option<i32> {
    let thread = current();
    let own = if thread.is_traced() { make(&thread).ok() } else { thread.breakpoints.get(&rcu::read()) };
    let mut hits = 0;
    if let Some(own) = own {
        let mut state = own.state.lock();
        for (n, point) in state.points.iter().enumerate() {
            let bit = 1u32.unbounded_shl(n as u32);
            let Some(point) = point.filter(|point| point.enabled && status & bit != 0) else { continue };
            if point.kind.access != EXECUTED {
                hits |= bit;
            } else if status & STEP == 0 {
                // A step comes before what is about to be executed, which is met anew.
                hits |= bit;
                regs.set_resumes();
            }
        }
        if !is_strangers(status, hits) {
            state.status = u64::from(status & STEP | hits);
        }
    }
    if status & STEP != 0 {
        return Some(abi::TRAP_TRACE as i32);
    }
    if hits != 0 {
        return Some(abi::TRAP_HWBKPT as i32);
    }
    if is_strangers(status, hits) {
        sched::current().work.set(LOADS);
        return None;
    }
    // INT1.
    (status == 0).then_some(abi::TRAP_BRKPT as i32)
}
