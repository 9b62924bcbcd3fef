//! The end of an object's pages and of the tables that hold them.
//!
//! The last reference to an object goes anywhere: at a munmap, when a file is closed, in an RCU callback. None of them may sleep there, and a file
//! has as many pages as memory, and as many tables. So what a small object has goes at once, and the rest in parts, each an RCU callback
//! that asks for the next; other threads run between them.
//!
//! A low room: it says that nobody reads a frame any more.

use super::slots::{Large, Slots, Tree};
use super::{BudgetKind, BudgetRef, count};
use crate::frame::{Evicted, EvictedFrames};
use crate::once::OnceBox;
use alloc::boxed::Box;
use core::ptr::NonNull;
use sync::rcu::call_soon;

/// What an object that is gone leaves for those who take its slots apart.
pub struct Gone {
    /// Tables and pages are given back there; how many tables were counted.
    pub budget: Option<(BudgetRef, u64)>,
    /// The pages were another's.
    pub is_paged: bool,
    /// A leaf has mapped it. A fault may still read a page that it found: each frame waits for a grace period.
    pub was_mapped: bool,
}

/// Tables, of 64 places each, that are taken apart at once: some hundred thousand instructions.
const PART: usize = 32;

impl Slots {
    /// The object is gone: all frames and tables are given back. What is large goes in parts, between which other threads run: what is left is a callback that
    /// asks to be called again.
    pub fn shed(&mut self, gone: Gone) {
        let mut part = Part::new(&gone);
        if let Some(tree) = self.t0.get_mut() {
            tree.shed(&mut { usize::MAX }, &mut |frame| part.add(frame));
        }
        if let Some(tree) = self.t1.get_mut() {
            tree.shed(&mut { usize::MAX }, &mut |frame| part.add(frame));
        }
        drop(part);
        match self.large.take() {
            None => gone.give_back_tables(),
            Some(mut large) => {
                large.gone = Some(gone);
                Large::shed_part(large);
            }
        }
    }
}

impl Large {
    /// Takes a part of the trees apart, and leaves the rest for later.
    fn shed_part(mut large: Box<Large>) {
        /// # Safety
        /// `large` came from `Box::into_raw` below, and is used no more.
        unsafe fn go_on(large: *mut ()) {
            // SAFETY: as the caller promises.
            Large::shed_part(unsafe { Box::from_raw(large.cast()) });
        }
        let Large { t2, t3, t4, t5, t6, t7, t8, gone, .. } = &mut *large;
        let Some(told) = gone else { return };
        let (mut part, mut left) = (Part::new(told), PART);
        let f = &mut |frame| part.add(frame);
        let is_empty = shed_in(t2, &mut left, f)
            && shed_in(t3, &mut left, f)
            && shed_in(t4, &mut left, f)
            && shed_in(t5, &mut left, f)
            && shed_in(t6, &mut left, f)
            && shed_in(t7, &mut left, f)
            && shed_in(t8, &mut left, f);
        drop(part);
        if is_empty {
            told.give_back_tables();
            return;
        }
        let rest = Box::into_raw(large);
        // SAFETY: the box is nobody else's, and stays until the call.
        unsafe { call_soon(NonNull::new_unchecked(&raw mut (*rest).rcu), rest.cast(), go_on) };
    }
}

/// Takes the tree in `place` apart, as far as `left` tables. True: there is nothing left of it.
fn shed_in<T: Tree>(place: &mut OnceBox<T>, left: &mut usize, f: &mut dyn FnMut(Evicted)) -> bool {
    let done = place.get_mut().is_none_or(|tree| *left > 0 && tree.shed(left, f));
    if done {
        drop(place.take());
    }
    done
}

/// The frames of a part. Dropped, they go, and are given back to the budget.
struct Part<'a> {
    gone: &'a Gone,
    frames: EvictedFrames,
    pages: u64,
}

impl<'a> Part<'a> {
    fn new(gone: &'a Gone) -> Self {
        Self { gone, frames: EvictedFrames::new(), pages: 0 }
    }

    fn add(&mut self, frame: Evicted) {
        self.pages = self.pages.saturating_add(1);
        if self.gone.was_mapped {
            // A fault that copies a page for a write has unlocked the leaf, and another thread may unmap it meanwhile.
            self.frames.add(frame);
        } else {
            // SAFETY: no fault ever found a frame here; whoever else looks into slots has a reference to the object meanwhile.
            unsafe { frame.free_unread() };
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        count::left(self.gone.is_paged, self.pages);
        if let Some((budget, _)) = &self.gone.budget {
            budget.give_back(BudgetKind::Pages, self.pages);
        }
    }
}

impl Gone {
    fn give_back_tables(&self) {
        if let Some((budget, tables)) = &self.budget
            && *tables > 0
        {
            budget.give_back(BudgetKind::Tables, *tables);
        }
    }
}
