//! How many spaces have a page of an object in their tables: for /proc/PID/smaps and pagemap.
//!
//! The lists have no count for each page, and get none: it would be a line that all who map the page share. So who asks looks at the leaves that may
//! show the page, and at [`MOST`] of them at the most: more than that many are told as that many.
//!
//! Lock order: a list, then one leaf after the other under it, as in a visit.
#![forbid(unsafe_code)]

use super::Leaves;
use crate::object::list::{Pages, Reached};
use crate::object::{MAX_PAGES, Object};
use crate::order::Order;
use sync::rcu;

/// Leaves that are looked at, and steps along the lists on the way to them.
const MOST: usize = 64;
const STEPS: usize = 2 * MOST;

impl Object {
    /// Adds to the second of each of `counts` how many spaces have the page that is the first in their tables. Pages are in order. Writes nothing of the
    /// leaves but their locks.
    pub(crate) fn count_mappers(&self, counts: &mut [(u64, u32)], order: &mut Order<'_>) {
        let (Some((first, _)), Some((last, _))) = (counts.first(), counts.last()) else { return };
        let pages = Pages::new(*first, last.saturating_add(1).min(MAX_PAGES));
        self.leaves.count(self, pages, counts, order);
    }
}

impl Leaves {
    fn count(&self, object: &Object, pages: Pages, counts: &mut [(u64, u32)], order: &mut Order<'_>) {
        let others = self.others.get().map_or(&[][..], |l| l);
        let (mut leaves, mut steps) = (MOST, STEPS);
        let rcu = rcu::read();
        for list in core::iter::once(&self.inline).chain(others) {
            let mut list = list.0.lock_in(order);
            let (list, held) = list.split();
            let mut reached = Reached::default();
            while let Some(step) = list.next(pages, &mut reached) {
                if let Some(listed) = step.leaf {
                    let locked = listed.node.get(&rcu).lock(held);
                    let sharers = locked.sharer_count();
                    for segment in locked.segments.as_slice() {
                        if !segment.attrs.object.as_ref().is_some_and(|o| core::ptr::eq(&**o, object)) {
                            continue;
                        }
                        let offset = segment.attrs.offset;
                        for (page, count) in counts.iter_mut() {
                            let Some(skipped) = page.checked_sub(offset) else { continue };
                            let index = skipped.saturating_add(segment.start.into());
                            if index >= u64::from(segment.end) {
                                continue;
                            }
                            let entry = locked.entry(index as u16);
                            if !entry.is_absent() && !entry.is_away() && !entry.is_private() {
                                *count = count.saturating_add(sharers);
                            }
                        }
                    }
                    leaves = leaves.saturating_sub(1);
                }
                steps = steps.saturating_sub(1);
                if leaves == 0 || steps == 0 {
                    return;
                }
            }
        }
    }
}
