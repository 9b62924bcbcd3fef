//! Large leaves: those whose 512 entries show one block of 2 MiB whole.
//!
//! A large page is a shortcut of the hardware past a leaf. The leaf has its table, filled as any other's, and each entry its own reference; so whoever looks at
//! entries or segments need not know. What differs is the link in a view (space/view.rs), which nobody but one CPU's hardware walks: it shows the block
//! instead of the table, and then one translation serves for all 512 pages.
//!
//! | the leaf                       | the entry in the tree | links of views                |
//! |--------------------------------|-----------------------|-------------------------------|
//! | large, one space's own         | leads to the table    | show the block, or are absent |
//! | large, shared by a fork        | leads to the table    | lead to the table, or are absent |
//! | split                          | leads to the table    | lead to the table, or are absent |
//!
//! ```text
//!   no entries -- fill_block --> large -- end_large --> split: as any other leaf
//!        ^                        |  ^                    |
//!        +------ take_block ------+  +---- join_block ----+
//! ```
//!
//! Invariants:
//! * LinkUnderLeaf: a link shows the block only while the leaf is large, writable from above and not shared. Whoever ends one of these cuts the links first, under
//!   the leaf's lock; the CPUs are among the viewers, and flush with whatever is done to the entries.
//! * Entries of a large leaf have the same rights, own their frames, and lie as the block does. What changes one entry, or what a part of the leaf means, splits
//!   first (`Space::split`). Split, a leaf stays so until it has no entries any more, or its pages were gathered
//!   in a block again (`op/collapse.rs`).
//! * A CPU has translations of one size of an address (protocol/view.rs).
//!
//! A low room: the end of frames.

use super::flush::{DebugOnly, Extent, FlushProof, Moment};
use super::{Locked, Retired};
use crate::addr::{ENTRIES, PAGE_SHIFT};
use crate::frame::{self, Frame, LargeFrame, OwnedBlock};
use crate::large::LARGE_COUNTS;
use crate::machine::{Entry, Machine};
use crate::protocol::leaf;
use crate::request::Prot;

/// All pages of a large leaf, taken out at once, with their references. Freed after a flush.
#[must_use = "the frames are never freed"]
pub struct TakenBlock {
    first: &'static Frame,
    origin: DebugOnly<Extent>,
    taken: DebugOnly<Moment>,
}

impl Locked<'_> {
    /// Fills the leaf, which has no entries, with the pages of `block`, which may be used as `prot` says: it is large.
    pub fn fill_block<M: Machine>(&mut self, block: OwnedBlock, prot: Prot) {
        debug_assert!(self.node().is_leaf() && self.present() == 0 && prot.contains(Prot::WRITE));
        let block = block.into_leaf();
        let first = Entry::page::<M>(block.addr(), prot, true);
        // The address is or'ed into the entry, and the block is aligned.
        for (cell, page) in self.node().cells(0, ENTRIES).iter().zip(0u64..) {
            leaf::fill(cell, Entry(first.0 | page << PAGE_SHIFT));
        }
        self.node().counts.count_all(false);
        self.node().counts.note_large(true);
        self.large = Some(block);
    }

    /// The leaf is large, if its entries show one block whole and nobody else has any of its frames. It is the space's own, and its mapping allows `prot`, with
    /// which all its pages may be written from now on; no view links to it.
    pub fn join_block<M: Machine>(&mut self, prot: Prot) -> bool {
        debug_assert!(self.node().is_leaf() && !self.is_large() && prot.contains(Prot::WRITE));
        let Some(first) =
            self.look(0).frame::<M>().filter(|first| first.number().is_multiple_of(ENTRIES as u32))
        else {
            return false;
        };
        let is_whole = (0..ENTRIES as u16).all(|index| {
            let entry = self.look(index);
            let lies_there = entry.address::<M>().0 == first.addr().0 | u64::from(index) << PAGE_SHIFT;
            // A pooled page has no reference of its own.
            lies_there && entry.owns_frame() && entry.frame::<M>().is_some_and(|frame| frame.refs() == 1)
        });
        if !is_whole {
            return false;
        }
        for index in 0..ENTRIES as u16 {
            let entry = self.entry(index);
            if !M::is_writable(entry) {
                leaf::exchange(self.node().cell(index), entry.with_prot::<M>(prot));
            }
        }
        self.node().counts.note_large(true);
        self.large = Some(LargeFrame::of(first));
        true
    }

    /// The leaf is large no more; no view's link shows the block.
    pub fn end_large(&mut self) {
        if let Some(block) = self.large.take() {
            self.node().counts.note_large(false);
            LARGE_COUNTS.this().split.add(1);
            block.end();
        }
    }

    /// Takes out all pages of a large leaf. No view's link shows the block. None: it is not large.
    pub fn take_block<M: Machine>(&mut self) -> Option<TakenBlock> {
        let block = self.large.take()?;
        for cell in self.node().cells(0, ENTRIES) {
            leaf::exchange(cell, Entry::ABSENT);
        }
        self.node().counts.note_large(false);
        self.node().counts.count_all(true);
        let node = self.node();
        let origin = DebugOnly::new(|| Extent { start: node.base(), end: node.end(), ..self.extent(0) });
        Some(TakenBlock { first: block.end(), origin, taken: DebugOnly::new(Moment::now) })
    }

    /// The link of a view that shows this leaf's block, where the tree's entry is `upper`; None: it leads to the table.
    #[inline]
    pub(super) fn link_to_block<M: Machine>(&self, upper: Entry) -> Option<Entry> {
        let shows_block = self.is_large() && M::is_writable(upper) && !self.is_shared();
        shows_block.then(|| self.entry(0).large_page::<M>())
    }
}

impl Retired {
    /// Drops the references that came with a block.
    pub fn block(block: TakenBlock, proof: impl FlushProof) {
        proof.check(block.origin, block.taken);
        // SAFETY: taken out once, with the references of all entries, and every CPU has flushed since.
        unsafe { frame::release_block(block.first) }
    }
}
