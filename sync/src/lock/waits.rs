//! What spinning lock each CPU waits for, for whoever says why a CPU does not get on. Written only where a lock was not free.

use super::class::Class;
use crate::machine::CpuId;
use crate::per_cpu;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

struct Waits {
    /// Null: the CPU waits for none.
    class: AtomicPtr<Class>,
    caller: AtomicPtr<Location<'static>>,
    holder: AtomicU32,
}

per_cpu! {
    static WAITS: Waits = Waits {
        class: AtomicPtr::new(ptr::null_mut()),
        caller: AtomicPtr::new(ptr::null_mut()),
        holder: AtomicU32::new(0),
    };
}

/// A spinning lock that a CPU waits for.
#[derive(Clone, Copy, Debug)]
pub struct WaitedFor {
    pub class: &'static str,
    pub caller: &'static Location<'static>,
    /// Who held it when the wait began.
    pub holder: Option<CpuId>,
}

/// Runs `wait`, which returns with the lock. `holder` is a CPU's number plus one, or 0.
#[inline]
pub(super) fn during<R>(
    class: &'static Class,
    caller: &'static Location<'static>,
    holder: u32,
    wait: impl FnOnce() -> R,
) -> R {
    let waits = WAITS.this();
    waits.caller.store(ptr::from_ref(caller).cast_mut(), Relaxed);
    waits.holder.store(holder, Relaxed);
    waits.class.store(ptr::from_ref(class).cast_mut(), Relaxed);
    let result = wait();
    waits.class.store(ptr::null_mut(), Relaxed);
    result
}

/// The lock that this CPU waits for. For interrupt handlers too.
pub fn waited_for() -> Option<WaitedFor> {
    let waits = WAITS.this();
    // SAFETY: null, or from `&'static` references by `during`.
    let (class, caller) =
        unsafe { (waits.class.load(Relaxed).as_ref()?, waits.caller.load(Relaxed).as_ref()?) };
    Some(WaitedFor { class: class.name, caller, holder: waits.holder.load(Relaxed).checked_sub(1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::tests::Inner;
    use crate::{lock_class, machine};

    lock_class! { static WAITED: LockClass = ("waited for", Inner) }

    #[test]
    fn a_cpu_says_what_it_waits_for_and_for_no_longer_than_it_does() {
        let here = Location::caller();
        let found = during(WAITED.class(), here, machine::cpu_id() + 1, waited_for).unwrap();
        assert_eq!((found.class, found.caller, found.holder), ("waited for", here, Some(machine::cpu_id())));
        assert!(waited_for().is_none());
    }
}
