//! The hooks as the kernel defines them, with `#[unsafe(no_mangle)] extern "Rust" fn`.
//!
//! `__darter_percpu_base()` is a displacement, not an address: what to add (wrapping) to the link address of a static in section
//! `.percpu` to reach this CPU's copy of it, `copy of __percpu_start - __percpu_start`. It is one load from the CPU's own
//! area, `mov reg, gs:[..]`; in inline assembly it may be `pure, readonly` but never `nomem`, because a thread that slept may go on
//! on another CPU and the compiler must then load it again. `__darter_cpu_id` likewise.

use super::CpuId;
#[cfg(feature = "lockdep")]
use crate::lock::order::HeldLocks;

unsafe extern "Rust" {
    safe fn __darter_cpu_id() -> CpuId;
    safe fn __darter_cpus() -> u32;
    safe fn __darter_node_of(cpu: CpuId) -> u32;
    safe fn __darter_nodes() -> u32;
    safe fn __darter_cycles() -> u64;
    safe fn __darter_relax();
    safe fn __darter_give_way() -> bool;
    safe fn __darter_should_give_way() -> bool;
    safe fn __darter_irq_save() -> bool;
    safe fn __darter_irq_restore(was: bool);
    safe fn __darter_percpu_base() -> usize;
    safe fn __darter_percpu_base_of(cpu: CpuId) -> usize;
    safe fn __darter_park_token() -> usize;
    safe fn __darter_park();
    fn __darter_unpark(token: usize);
    safe fn __darter_kick(cpu: CpuId);
    /// Where the current thread's list lies, for as long as the thread lives; null while there is no thread yet.
    #[cfg(feature = "lockdep")]
    safe fn __darter_thread_locks() -> *const HeldLocks;
}

#[inline(always)]
pub fn cpu_id() -> CpuId {
    __darter_cpu_id()
}

#[inline(always)]
pub fn cpus() -> u32 {
    __darter_cpus()
}

#[inline(always)]
pub fn node_of(cpu: CpuId) -> u32 {
    __darter_node_of(cpu)
}

#[inline(always)]
pub fn nodes() -> u32 {
    __darter_nodes()
}

#[inline(always)]
pub fn cycles() -> u64 {
    __darter_cycles()
}

#[inline(always)]
pub fn relax() {
    __darter_relax();
}

#[inline]
pub fn give_way() -> bool {
    __darter_give_way()
}

#[inline]
pub fn should_give_way() -> bool {
    __darter_should_give_way()
}

#[inline(always)]
pub fn irq_save() -> bool {
    __darter_irq_save()
}

#[inline(always)]
pub fn irq_restore(was: bool) {
    __darter_irq_restore(was);
}

#[inline(always)]
pub fn percpu_base() -> usize {
    __darter_percpu_base()
}

#[inline(always)]
pub fn percpu_base_of(cpu: CpuId) -> usize {
    __darter_percpu_base_of(cpu)
}

#[inline]
pub fn park_token() -> usize {
    __darter_park_token()
}

#[inline]
pub fn park() {
    __darter_park();
}

#[inline]
pub fn unpark(token: usize) {
    // SAFETY: a thread that parks, as the two callers of `super::unpark` make sure.
    unsafe { __darter_unpark(token) };
}

#[inline]
pub fn kick(cpu: CpuId) {
    __darter_kick(cpu);
}

#[cfg(not(feature = "lockdep"))]
pub fn with_thread_locks<R>(_: impl FnOnce(&crate::lock::order::HeldLocks) -> R) -> R {
    unreachable!("threads keep no list of locks")
}

#[cfg(feature = "lockdep")]
pub fn with_thread_locks<R>(f: impl FnOnce(&HeldLocks) -> R) -> R {
    crate::per_cpu! { static BEFORE_THREADS: HeldLocks = HeldLocks::new(); }
    // SAFETY: null, or the list of the thread that runs here and does not end before `f` does.
    f(unsafe { __darter_thread_locks().as_ref() }.unwrap_or_else(|| BEFORE_THREADS.this()))
}
