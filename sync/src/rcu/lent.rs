//! References to what cells hold that are lent and not counted.
//!
//! A thread that alone takes anything out of some cells ([`RcuArc`]) takes nothing out while it looks at what they hold, so it need not count what it
//! looks at. The [`Lender`] counts how much is lent, in a word that this thread alone writes. What the thread takes out goes through
//! [`Lender::settle`]: should something be lent against that rule, what was taken out is never freed, and where assertions are on it is a panic.

use super::{Deferred, RcuArc, RcuObject, RcuRead};
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How much is lent of what some cells hold. See the head of the file.
#[derive(Debug, Default)]
pub struct Lender(AtomicU32);

impl Lender {
    pub const fn new() -> Self {
        Lender(AtomicU32::new(0))
    }

    /// Is anything lent?
    #[inline]
    pub fn is_lending(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Lets go of what was taken out of one of the cells, and shows it to `last` just before, so that what that writes and the reference are
    /// written one after the other. `last` lends nothing of the cells.
    #[inline]
    pub fn settle<T: RcuObject>(&self, mut taken: Deferred<T>, last: impl FnOnce(&T)) {
        let lending = self.is_lending();
        debug_assert!(!lending, "taken out while something is lent");
        last(&taken);
        if lending {
            core::mem::forget(taken.0.take());
        }
    }

    #[inline(always)]
    fn add(&self, n: i32) {
        // One thread writes it.
        self.0.store(self.0.load(Relaxed).wrapping_add_signed(n), Relaxed);
    }
}

/// A reference to what a cell held when it was looked at: lent, or counted. Not `Send`: what is lent is the thread's that looked.
pub struct Lent<T: RcuObject> {
    object: NonNull<T>,
    /// None: it is counted.
    lender: Option<NonNull<Lender>>,
}

impl<T: RcuObject> Lent<T> {
    /// Lends what `cell` holds.
    ///
    /// # Safety
    /// No other thread lends by `lender`, or takes out what the cell holds, or what another cell holds in its place, as long as the result lives. What
    /// this thread takes out of them goes through `lender.settle`. The lender stays in place as long as the result lives.
    #[inline]
    pub unsafe fn lend(cell: &RcuArc<T>, lender: &Lender, read: &RcuRead) -> Option<Self> {
        let object = NonNull::from(cell.load(read)?);
        lender.add(1);
        Some(Lent { object, lender: Some(NonNull::from(lender)) })
    }

    /// One that is counted.
    pub fn counted(object: Arc<T>) -> Self {
        // SAFETY: what an `Arc` points at has an address.
        Lent { object: unsafe { NonNull::new_unchecked(Arc::into_raw(object).cast_mut()) }, lender: None }
    }

    /// One that is counted, in its place: for who keeps it.
    pub fn into_counted(self) -> Arc<T> {
        // SAFETY: the pointer came from `Arc::into_raw`, and the object is alive as for `deref`.
        unsafe {
            Arc::increment_strong_count(self.object.as_ptr().cast_const());
            Arc::from_raw(self.object.as_ptr().cast_const())
        }
    }
}

impl<T: RcuObject> Deref for Lent<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it is counted; or its cell, or one in its place, holds it still, or what was taken out was not dropped (`settle`).
        unsafe { self.object.as_ref() }
    }
}

impl<T: RcuObject> Drop for Lent<T> {
    #[inline]
    fn drop(&mut self) {
        match self.lender {
            // SAFETY: the lender is still there, as `lend` asks.
            Some(lender) => unsafe { lender.as_ref() }.add(-1),
            None => self.drop_counted(),
        }
    }
}

impl<T: RcuObject> Lent<T> {
    #[cold]
    fn drop_counted(&mut self) {
        // SAFETY: from `Arc::into_raw`, once.
        drop(unsafe { Arc::from_raw(self.object.as_ptr().cast_const()) });
    }
}

impl<T: RcuObject + fmt::Debug> fmt::Debug for Lent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rcu::{self, RcuHead};

    struct Thing(u32, RcuHead);

    crate::rcu_object!(Thing, 1);

    fn thing(number: u32) -> Arc<Thing> {
        Arc::new(Thing(number, RcuHead::new()))
    }

    #[test]
    fn what_is_lent_is_not_counted_and_what_is_counted_is() {
        let (one, lender) = (thing(1), Lender::new());
        let cell = RcuArc::new(Some(one.clone()));
        // SAFETY: this thread alone has the cell and the lender, and nothing is taken out while it is lent.
        let lent = unsafe { Lent::lend(&cell, &lender, &rcu::read()) };
        assert_eq!((lent.as_ref().map(|thing| thing.0), Arc::strong_count(&one)), (Some(1), 2));
        assert!(lender.is_lending());
        assert_eq!(lent.map(|lent| Arc::strong_count(&lent.into_counted())), Some(3));
        assert!(!lender.is_lending());
        let counted = Lent::counted(one.clone());
        assert_eq!((counted.0, Arc::strong_count(&one)), (1, 3));
        drop(counted);
        assert_eq!(Arc::strong_count(&one), 2);
    }

    #[test]
    fn an_empty_cell_lends_nothing() {
        let (cell, lender) = (RcuArc::<Thing>::empty(), Lender::new());
        // SAFETY: as above.
        assert!(unsafe { Lent::lend(&cell, &lender, &rcu::read()) }.is_none());
        assert!(!lender.is_lending());
    }

    #[test]
    #[should_panic(expected = "taken out while something is lent")]
    fn to_take_out_what_is_lent_is_found() {
        let (cell, lender) = (RcuArc::new(Some(thing(1))), Lender::new());
        // SAFETY: this thread alone has them, and what is taken out goes through `settle`.
        let _lent = unsafe { Lent::lend(&cell, &lender, &rcu::read()) };
        if let Some(taken) = cell.take() {
            lender.settle(taken, |_| {});
        }
    }
}
