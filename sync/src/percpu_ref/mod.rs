//! Reference counts that many CPUs can take without a common line: for files that everybody execs, mounts, names.
//!
//! A count begins as one shared atomic. When several CPUs have used it often it goes per CPU: `get` and `put` are then a plain
//! addition in this CPU's counter. When its owner leaves it, it becomes one atomic again after a grace period, and reaches zero
//! there. The argument is in [`crate::protocol::count`].
//!
//! [`PerCpuArc`] is what to use: a shared pointer. [`PerCpuRef`] is the bare count inside it.
//!
//! No locks but that of the free per-CPU counters (`percpu counters`), which is only tried, so counting is allowed under any
//! lock; not in interrupt handlers.

mod arc;
mod counters;

pub use arc::{PerCpuArc, PerCpuOwner};

use crate::machine;
use crate::protocol::count::{Got, RawCount};
use crate::rcu;
use crate::rcu::callback::{self, Call, RawHead};
use core::ptr::NonNull;
use counters::Counters;

/// A reference count with an owner.
#[derive(Debug)]
pub struct PerCpuRef {
    raw: RawCount,
    head: RawHead,
    /// Called with the count when the last reference is gone.
    zero: unsafe fn(NonNull<PerCpuRef>),
}

impl PerCpuRef {
    /// A count with one reference, the owner's, which [`leave`](Self::leave) gives up. `zero` is called once, when no reference
    /// is left, on the CPU that gave up the last, in no read section of this count's.
    pub const fn new(zero: unsafe fn(NonNull<PerCpuRef>)) -> Self {
        PerCpuRef { raw: RawCount::new(), head: RawHead::new(), zero }
    }

    /// A count without an owner, shared for good, with one reference, the caller's. `zero` as with [`new`](Self::new).
    pub const fn unowned(zero: unsafe fn(NonNull<PerCpuRef>)) -> Self {
        PerCpuRef { raw: RawCount::unowned(), head: RawHead::new(), zero }
    }

    /// Takes one more reference; the caller has one or knows that the owner's is there.
    #[inline]
    pub fn get(&self) {
        let read = rcu::read();
        let got = self.raw.get(&Counters, machine::cpu_id());
        if got == Got::HotReference {
            self.warm();
        }
        drop(read);
    }

    /// Gives a reference back; with the last of a killed count calls `zero`, after which the count may be gone.
    ///
    /// # Safety
    /// The caller has a reference to the count at `this` and does not use it any more; `this` may be used for what `zero` does.
    #[inline]
    pub unsafe fn put(this: NonNull<PerCpuRef>) {
        let read = rcu::read();
        // SAFETY: the caller's reference keeps the count in place until it is put. Only the raw count is borrowed here: another
        // CPU may put the last reference, and free all, before this call returns.
        let last = unsafe { (*this.as_ptr()).raw.put(&Counters) };
        drop(read);
        if last {
            // SAFETY: the count is dead and nobody has a reference; this is said once.
            unsafe { ((*this.as_ptr()).zero)(this) };
        }
    }

    /// Gives the owner's reference up. Does not wait. If there is no other, `zero` is called at once.
    ///
    /// # Safety
    /// The caller is the owner and calls this once. The count stays at `this` until `zero` is called, and nobody can find it
    /// without having a reference, not even in a read section that has begun; `this` may be used for what `zero` does.
    pub unsafe fn leave(this: NonNull<PerCpuRef>) {
        // SAFETY: the owner's reference keeps the count in place; alone it is the last, and given up here, once.
        unsafe {
            if (*this.as_ptr()).raw.is_alone() {
                ((*this.as_ptr()).zero)(this);
            } else {
                PerCpuRef::kill(this);
            }
        }
    }

    /// Gives the owner's reference up after a grace period.
    ///
    /// # Safety
    /// As for `leave`.
    unsafe fn kill(this: NonNull<PerCpuRef>) {
        /// # Safety
        /// `count` is the `PerCpuRef` that was killed.
        unsafe fn finish(count: *mut ()) {
            let count = count.cast::<PerCpuRef>();
            // SAFETY: the owner's reference is still there, and so is the count, until `finish` gives it up.
            let (zero, (number, last)) = unsafe { ((*count).zero, (*count).raw.finish(&Counters)) };
            if let Some(number) = number {
                counters::give_back(number);
            }
            if last {
                // SAFETY: as in `put`; the pointer is not null.
                unsafe { zero(NonNull::new_unchecked(count)) };
            }
        }
        // SAFETY: the owner's reference keeps the count in place until `finish`. The head is used by the first kill alone.
        unsafe {
            if (*this.as_ptr()).raw.kill() {
                let head = NonNull::new_unchecked(&raw mut (*this.as_ptr()).head);
                callback::queue(head, Call { object: this.as_ptr().cast(), function: finish });
            }
        }
    }

    /// Goes per CPU, if counters can be had without waiting.
    #[cold]
    fn warm(&self) {
        if let Some(number) = counters::take()
            && !self.raw.warm(number)
        {
            counters::give_back(number);
        }
    }

    /// Whether the owner's reference is the only one, as far as one can see: who finds the object through its owner may take one at any
    /// moment. A count that is per CPU is taken for one with references.
    pub fn is_alone(&self) -> bool {
        self.raw.is_alone()
    }

    /// Whether the count was killed.
    pub fn is_dead(&self) -> bool {
        self.raw.is_dead()
    }

    /// Whether the count is per CPU just now.
    pub fn is_per_cpu(&self) -> bool {
        self.raw.is_per_cpu()
    }
}

// SAFETY: the raw count is atomic; the head is used by the killer and then by the callback lists alone.
unsafe impl Sync for PerCpuRef {}
// SAFETY: as above; the count belongs to no thread.
unsafe impl Send for PerCpuRef {}

#[cfg(test)]
mod tests;
