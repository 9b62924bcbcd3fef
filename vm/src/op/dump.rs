//! Which pages a core dump writes: a look at what is in memory, that puts nothing there.
//!
//! Both looks go by the tree and pass over what has no table; they give way between leaves, and end when a fatal signal comes.
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SHIFT, PAGE_SIZE};
use crate::entry::Entry;
use crate::frame::{self, SharedBytes};
use crate::machine::Machine;
use crate::node::WalkPath;
use crate::order;
use crate::space::Space;
use sync::machine::give_way;
use sync::rcu;

impl<M: Machine> Space<M> {
    /// The first page of `start..end`, whole pages, that is private memory. May sleep.
    pub fn next_private_page(&self, start: usize, end: usize) -> Option<usize> {
        self.next_entry(start, end, Entry::is_private)
    }

    /// The first page of `start..end`, whole pages, that is in memory or in swap: mapped, or one that its object has. May sleep.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "pages of a mapping, and of the part of an object that it maps"
    )]
    pub fn next_page_in_memory(&self, start: usize, end: usize) -> Option<usize> {
        let mut at = start;
        while at < end {
            let piece = self.next_piece_in(at, end, &mut order::begin())?;
            let stop = piece.end.min(end);
            let mapped = self.next_entry(piece.start, stop, |entry| !entry.is_absent());
            let limit = mapped.unwrap_or(stop);
            let behind = piece.attrs.object.as_ref().and_then(|object| {
                let first = piece.attrs.offset;
                let pages = ((limit - piece.start) / PAGE_SIZE) as u64;
                let page = object.seek(first, first + pages, true)?;
                Some(piece.start + ((page - first) << PAGE_SHIFT) as usize)
            });
            if let Some(found) = behind.or(mapped) {
                return Some(found);
            }
            at = stop;
            if give_way() {
                return None;
            }
        }
        None
    }

    /// Copies the page at `addr`, whatever the program may do with it; from swap, if it is there, where it stays. False: it is not mapped just now, or cannot be read. May sleep.
    pub fn copy_mapped_page(&self, addr: usize, to: &mut [u8]) -> bool {
        let mut order = order::begin();
        let slot = {
            let rcu = rcu::read();
            let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
            if !path.node().is_leaf() {
                return false;
            }
            let Some(locked) = path.enter::<M>(&mut order) else { return false };
            let entry = locked.look(path.node().index(addr));
            if let Some(page) = entry.bytes::<M>() {
                page.to_read().copy_to(to);
                return true;
            }
            entry.hold_slot()
        };
        let (Some(slot), Some(mut page)) = (slot, frame::alloc_dirty()) else { return false };
        let is_read = slot.read_into(&mut page).is_ok();
        if is_read {
            SharedBytes::from(&page.bytes()[..]).copy_to(to);
        }
        is_read
    }

    /// The first page of `start..end` whose entry in a leaf is as `wanted`.
    pub(crate) fn next_entry(
        &self,
        start: usize,
        end: usize,
        wanted: impl Fn(Entry) -> bool,
    ) -> Option<usize> {
        let mut at = start;
        while at < end {
            {
                let rcu = rcu::read();
                let path = WalkPath::walk::<M>(self.root(), at, &rcu);
                let node = path.node();
                let order = &mut order::begin();
                let Some(locked) = path.enter::<M>(order) else { continue };
                let index = node.index(at);
                if !node.is_leaf() && !locked.entry(index).is_absent() {
                    continue;
                }
                let is_meant = |i: &u16| match locked.entry(*i) {
                    entry if node.is_leaf() => wanted(entry),
                    entry => !entry.is_absent(),
                };
                let next = locked.used_in(&(index..512)).find(is_meant);
                match next {
                    Some(i) if node.is_leaf() => return Some(node.address(i)).filter(|page| *page < end),
                    Some(i) => at = node.address(i),
                    None => at = node.end(),
                }
            }
            if give_way() {
                return None;
            }
        }
        None
    }
}
