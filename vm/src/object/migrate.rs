//! Moving an object's pages to other NUMA nodes.
//!
//! A page is taken away from everybody who maps it, as when the object is made shorter (truncate.rs, protocol/evict.rs): its slot is tagged, all leaves are visited, all
//! CPUs flush, and whoever found the frame in its slot before has ended when a grace period has passed. Then nobody writes it, unless somebody holds on to it: such a page
//! stays. A copy takes its place in the slot, and the old frame goes.
//!
//! Who wants the page meanwhile waits for `change`, which is held.
//!
//! Lock order: `change` → list → leaf; `change` → policies.
//!
//! A low room: it says when nobody uses a page any more.

use super::{Object, slots::Slot};
use crate::frame::{Frame, FrameKind, OwnedFrame, pin};
use crate::protocol::evict;
use arrayvec::ArrayVec;
use core::sync::atomic::Ordering;
use sync::rcu;

/// Pages that are moved at a time: for all of them one grace period is waited for.
pub const AT_ONCE: usize = 32;

struct Moving<'o> {
    slot: &'o Slot,
    from: &'static Frame,
    to: OwnedFrame,
}

impl Object {
    /// The kernel knows where its pages lie: they stay there for good.
    pub fn keep_in_place(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Moves those of `pages`, in ascending order and at most [`AT_ONCE`], that `concerns` says yes to, to what `alloc` gives for them. Says how many could not be
    /// moved. May sleep.
    pub(crate) fn migrate(
        &self,
        pages: &[u64],
        concerns: impl Fn(&Frame) -> bool,
        alloc: impl Fn(u64) -> Option<OwnedFrame>,
    ) -> usize {
        if self.stays.load(Ordering::Relaxed) {
            return pages.len();
        }
        let mut change = self.change.lock();
        let mut failed = 0usize;
        let mut moving = ArrayVec::<Moving<'_>, AT_ONCE>::new_const();
        for page in pages.iter().take(AT_ONCE) {
            let Some(slot) = self.slots.get(*page) else { continue };
            let Some(from) = slot.frame().filter(|frame| concerns(frame)) else { continue };
            match alloc(*page) {
                Some(to) => {
                    to.set_kind(FrameKind::Object);
                    moving.push(Moving { slot, from, to });
                }
                None => failed = failed.saturating_add(1),
            }
        }
        let (Some(first), Some(last), false) = (pages.first(), pages.last(), moving.is_empty()) else {
            return failed;
        };
        let held = change.held();
        let before = moving.len();
        // With `change` held nobody else tags one of them, or takes one away. One with marks stays: its pager has not got what was written.
        let tag = || moving.retain(|page| page.slot.tag(false).is_some());
        let visit = || self.clear_everywhere(*first..last.saturating_add(1), false, held);
        evict::take_for_exchange(tag, visit, rcu::synchronize);
        failed = failed.saturating_add(before.saturating_sub(moving.len()));
        for Moving { slot, from, mut to } in moving {
            if from.refs() > 1 {
                slot.untag();
                failed = failed.saturating_add(1);
                continue;
            }
            pin::copy(from, &mut to, &rcu::read());
            // SAFETY: all leaves have been visited, and CPUs have flushed (`clear_everywhere`).
            drop(unsafe { slot.exchange_tagged(to) });
        }
        failed
    }
}
