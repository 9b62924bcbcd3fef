//! Locks. Every lock has a class, and every class counts per CPU: acquisitions, collisions, time waited, the longest wait with
//! its caller and the holder it waited for. The counts stay on: the uncontended path writes the lock's own line and this CPU's.
//!
//! | lock | waits by | for |
//! |---|---|---|
//! | [`SpinLock`] | spinning | short sections that few CPUs meet in |
//! | [`IrqSpinLock`] | spinning, interrupts off while held | what interrupt handlers lock too |
//! | [`Mutex`] | a little spinning, then sleep | sections that allocate, do I/O or wait |
//!
//! LockOrder: every lock has a level. `lock_in` proves the order by types (see [`crate::level`]), and each lock, however taken, is
//! checked at run time where [`order`] is on.

mod class;
pub mod contention;
mod guarded;
mod irq;
mod mutex;
pub mod order;
mod spin;
pub mod stats;
pub mod waits;

pub use class::{Class, LockClass};
pub use guarded::{Guard, Lock, RawLock};
pub use irq::{IrqSpinGuard, IrqSpinLock};
pub use mutex::{Mutex, MutexGuard};
pub use spin::{SpinGuard, SpinLock};

/// What the tests of the locks use.
#[cfg(test)]
pub(crate) mod tests {
    crate::lock_order! {
        level Outer = 1;
        level Inner;
    }

    crate::lock_class! {
        pub static OUTER: LockClass = ("outer", Outer);
        pub static INNER: LockClass = ("inner", Inner);
    }
}
