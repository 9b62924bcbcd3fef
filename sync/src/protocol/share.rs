//! What several users have in common until one of them changes it: who has it alone changes it in place, everybody else goes over to a copy.
//!
//! A user is counted ([`RawShare`]). It may be one of a group that is counted as a whole, so that not all write one count: then each group counts its
//! users, and what they have in common counts the groups ([`is_alone`]).
//!
//! Only who has it makes others have it, under a lock of its own user. So who finds itself alone stays alone while it holds that lock.
//!
//! - Who leaves does so when it has copied what it wants, and its own cell names the copy (`share.leave`, release). Who is alone sees that
//!   (`share.alone`, acquire), and only then changes what the other had.
//! - A user that goes from one group to another is counted in the new one first (`share.count_first`), and who asks looks at its own group first
//!   (`share.group_first`): with the last other user gone from its group, it sees the group that has it.
//! - Readers hold no lock. One that looked into a cell before its user went over to a copy may see what the last user has changed since. It
//!   looks at the cell again (`share.again`): it saw the change only if the cell had a new content by then.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU32, Ordering, const_new, site, step};
use Ordering::{Acquire, Relaxed, Release};
use core::ptr;

/// How many users something has.
#[derive(Debug)]
pub struct RawShare(AtomicU32);

impl RawShare {
    const_new! {
        /// One user has it.
        pub fn new() -> Self {
            RawShare(AtomicU32::new(1))
        }
    }

    /// One user more. The caller stands for one.
    #[inline]
    pub fn join(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One user less. True: it was the last.
    #[inline]
    pub fn leave(&self) -> bool {
        self.0.fetch_sub(1, site("share.leave", Release)) == 1
    }

    /// Has it no user but the one that asks?
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.0.load(site("share.alone", Acquire)) == 1
    }
}

impl Default for RawShare {
    fn default() -> Self {
        Self::new()
    }
}

/// Is the one who asks the only user of its group, and that the only group?
#[inline]
pub fn is_alone(group: &RawShare, groups: &RawShare) -> bool {
    let (first, second) = if step("share.group_first") { (group, groups) } else { (groups, group) };
    first.is_alone() && second.is_alone()
}

/// A user goes from the group `from` to a new one: `enter` counts the new one and writes the user's cell. True: nobody is left in `from`.
#[inline]
pub fn change_group(from: &RawShare, enter: impl FnOnce()) -> bool {
    if step("share.count_first") {
        enter();
        from.leave()
    } else {
        let last = from.leave();
        enter();
        last
    }
}

/// What `look` makes of the content of a cell, `place`, if the cell has it still afterwards.
#[inline(always)]
pub fn look<'a, P: 'a, R>(place: impl Fn() -> Option<&'a P>, look: impl Fn(Option<&'a P>) -> R) -> R {
    let address = |place: Option<&'a P>| place.map_or(ptr::null(), ptr::from_ref);
    let mut at = place();
    loop {
        let result = look(at);
        let now = place();
        if address(now) == address(at) || !step("share.again") {
            return result;
        }
        at = now;
    }
}
