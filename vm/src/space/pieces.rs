//! Looking at what is mapped, piece by piece: for /proc/PID/maps, for the choice of addresses, for checks.
//!
//! A piece is a run with one set of attributes inside one node; neighbours are joined by who asks. Each step is a walk of its own, so
//! nothing is locked between two pieces, and what changes meanwhile may be seen before or after.
//!
//! A piece holds its object, whose count other processes may use. Who needs the object no longer than the node is locked, or not at all,
//! looks at the attributes in place or takes an extent: beside a mapping that a process inherited it writes nothing.
//! Lock order: one node at a time.
#![forbid(unsafe_code)]

use super::Space;
use crate::addr::PAGE_SHIFT;
use crate::machine::Machine;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::node::{Sizes, WalkPath};
use crate::order::Order;
use crate::request::Prot;
use core::ops::Range;
use sync::rcu;

/// A run of addresses with one set of attributes.
pub(crate) struct Piece {
    pub start: usize,
    pub end: usize,
    pub attrs: MappingAttrs,
}

/// A piece without its object.
pub(crate) struct Extent {
    pub start: usize,
    pub end: usize,
    pub prot: Prot,
    pub flags: SegFlags,
}

impl Extent {
    fn of((range, attrs, _): Found<'_>) -> Self {
        Extent { start: range.start, end: range.end, prot: attrs.prot, flags: attrs.flags }
    }

    pub fn is_quarantine(&self) -> bool {
        self.flags.contains(SegFlags::QUARANTINE)
    }
}

/// A piece in place: where it lies, and what its segment says at the place so many pages before.
pub(crate) type Found<'a> = (Range<usize>, &'a MappingAttrs, u64);

fn piece((range, attrs, pages): Found<'_>) -> Piece {
    Piece { start: range.start, end: range.end, attrs: attrs.advanced(pages) }
}

/// A program chooses how many pieces there are: whoever looks at one after the other gives way.
#[inline]
pub(crate) fn between_pieces() {
    if sync::machine::should_give_way() {
        sync::lock::order::assert_may_sleep();
        // What was asked is answered, whatever signal has come.
        let _ = sync::machine::give_way();
    }
}

impl<M: Machine> Space<M> {
    /// The first piece that ends above `addr`; it begins at `addr` if `addr` is mapped.
    pub(crate) fn next_piece(&self, addr: usize, order: &mut Order<'_>) -> Option<Piece> {
        self.next_piece_in(addr, M::USER_END, order)
    }

    /// The same, if it begins below `limit`. Nodes from there on are not looked at: they may be another CPU's.
    pub(crate) fn next_piece_in(&self, addr: usize, limit: usize, order: &mut Order<'_>) -> Option<Piece> {
        self.look_at_next(addr, limit, order, piece)
    }

    /// As `next_piece`, without the object.
    pub(crate) fn next_extent(&self, addr: usize, order: &mut Order<'_>) -> Option<Extent> {
        self.next_extent_in(addr, M::USER_END, order)
    }

    /// As `next_piece_in`, without the object.
    pub(crate) fn next_extent_in(&self, addr: usize, limit: usize, order: &mut Order<'_>) -> Option<Extent> {
        self.look_at_next(addr, limit, order, Extent::of)
    }

    /// `look` at what `next_piece_in` finds, under its node's lock.
    #[expect(clippy::arithmetic_side_effects, reason = "places in a node")]
    pub(crate) fn look_at_next<R>(
        &self,
        addr: usize,
        limit: usize,
        order: &mut Order<'_>,
        look: impl FnOnce(Found<'_>) -> R,
    ) -> Option<R> {
        let rcu = rcu::read();
        let mut at = addr;
        while at < limit {
            let path = WalkPath::walk::<M>(self.root(), at, &rcu);
            let node = path.node();
            let Some(locked) = path.enter::<M>(order) else { continue };
            let index = node.index(at);
            if !node.is_leaf() && !locked.entry(index).is_absent() {
                continue;
            }
            // In an interior node a segment speaks only for entries that are absent.
            let child = if node.is_leaf() {
                None
            } else {
                locked.upper_used_from(index).find(|i| !locked.entry(*i).is_absent())
            };
            let border = child.unwrap_or(512);
            if let Some(segment) = locked.segments.first_in(&(index..border)) {
                let first = segment.start.max(index);
                let start = node.address(first).max(at);
                if start >= limit {
                    return None;
                }
                let end = node.address(segment.end.min(border));
                let pages = ((start - node.address(segment.start)) >> PAGE_SHIFT) as u64;
                return Some(look((start..end, &segment.attrs, pages)));
            }
            at = child.map_or(node.end(), |c| node.address(c));
        }
        None
    }

    /// Adds the sizes of the run that begins at `addr` and lies in one node, and says where the next run begins. For who wants all of a space: each node
    /// is locked once for what lies between two of its children, and not at all where it has no segment or a leaf's sizes are known.
    #[expect(clippy::arithmetic_side_effects, reason = "places in a node")]
    pub(crate) fn add_run(&self, addr: usize, order: &mut Order<'_>, sizes: &mut Sizes) -> usize {
        let rcu = rcu::read();
        loop {
            let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
            let node = path.node();
            let index = node.index(addr);
            let next_child =
                || node.entries(node.counts().upper_used_from(index)).next().map(|(child, _)| child);
            let next = |child: Option<u16>| child.map_or(node.end(), |child| node.address(child));
            let is_whole_leaf = node.is_leaf() && index == 0;
            if is_whole_leaf && let Some(known) = node.counts().sizes() {
                sizes.add_all(&known);
                return node.end();
            }
            if !node.is_leaf() && !node.counts().may_mean_any() {
                let child = next_child();
                if child == Some(index) {
                    continue;
                }
                return next(child);
            }
            let Some(locked) = path.enter::<M>(order) else { continue };
            if !node.is_leaf() && !locked.entry(index).is_absent() {
                continue;
            }
            let child = if node.is_leaf() { None } else { next_child() };
            let border = child.unwrap_or(512);
            let all = locked.segments.as_slice().iter();
            let mut run = Sizes::default();
            for segment in all.filter(|s| s.end > index && s.start < border) {
                let start = node.address(segment.start.max(index)).max(addr);
                run.add(&segment.attrs, (node.address(segment.end.min(border)) - start) >> PAGE_SHIFT);
            }
            if is_whole_leaf {
                node.counts().note_sizes(&run);
            }
            sizes.add_all(&run);
            return next(child);
        }
    }

    /// The last piece that begins below `addr`; it ends at `addr` if what lies before `addr` is mapped.
    pub(crate) fn previous_piece(&self, addr: usize, order: &mut Order<'_>) -> Option<Piece> {
        self.previous_piece_in(addr, 0, order)
    }

    /// The same, but nodes that end at or below `floor` are not looked at.
    pub(crate) fn previous_piece_in(
        &self,
        addr: usize,
        floor: usize,
        order: &mut Order<'_>,
    ) -> Option<Piece> {
        self.look_at_previous(addr, floor, order, piece)
    }

    /// As `previous_piece_in`, without the object.
    pub(crate) fn previous_extent_in(
        &self,
        addr: usize,
        floor: usize,
        order: &mut Order<'_>,
    ) -> Option<Extent> {
        self.look_at_previous(addr, floor, order, Extent::of)
    }

    /// `look` at what `previous_piece_in` finds, under its node's lock.
    #[expect(clippy::arithmetic_side_effects, reason = "end is not zero; places in a node")]
    fn look_at_previous<R>(
        &self,
        addr: usize,
        floor: usize,
        order: &mut Order<'_>,
        look: impl FnOnce(Found<'_>) -> R,
    ) -> Option<R> {
        let rcu = rcu::read();
        let mut end = addr;
        while end > floor {
            let path = WalkPath::walk::<M>(self.root(), end - 1, &rcu);
            let node = path.node();
            let Some(locked) = path.enter::<M>(order) else { continue };
            let index = node.index(end - 1);
            if !node.is_leaf() && !locked.entry(index).is_absent() {
                continue;
            }
            let child = if node.is_leaf() {
                None
            } else {
                locked.used_in(&(0..index)).rev().find(|i| !locked.entry(*i).is_absent())
            };
            let limit = child.map_or(0, |c| c + 1);
            if let Some(segment) = locked.segments.last_in(&(limit..index + 1)) {
                let start = node.address(segment.start.max(limit));
                let pages = ((start - node.address(segment.start)) >> PAGE_SHIFT) as u64;
                return Some(look((start..node.address(segment.end).min(end), &segment.attrs, pages)));
            }
            end = child.map_or(node.base(), |c| node.address(c + 1));
        }
        None
    }

    /// Is nothing mapped in the range?
    pub(crate) fn is_free(&self, start: usize, end: usize, order: &mut Order<'_>) -> bool {
        self.look_at_next(start, end, order, |_| ()).is_none()
    }

    /// How far the range is mapped without a hole. May sleep.
    pub(crate) fn mapped_until(&self, start: usize, end: usize, order: &mut Order<'_>) -> usize {
        let allowed = |_: &MappingAttrs| true;
        self.mapped_while(start, end, &allowed, order)
    }

    /// How far the range is mapped without a hole and `is` holds. May sleep.
    pub(crate) fn mapped_while(
        &self,
        start: usize,
        end: usize,
        is: &dyn Fn(&MappingAttrs) -> bool,
        order: &mut Order<'_>,
    ) -> usize {
        let mut at = start;
        while at < end {
            let mapped = self.look_at_next(at, end, order, |(range, attrs, _)| {
                (range.start == at && !attrs.is_quarantine() && is(attrs)).then_some(range.end)
            });
            match mapped.flatten() {
                Some(until) => at = until,
                None => return at,
            }
            if at < end {
                between_pieces();
            }
        }
        end
    }

    /// Where the first piece in `start..end` begins of which `is` holds, wherever in its mapping that is. May sleep.
    pub(crate) fn find_piece(
        &self,
        start: usize,
        end: usize,
        is: &dyn Fn(&MappingAttrs) -> bool,
        order: &mut Order<'_>,
    ) -> Option<usize> {
        let mut at = start;
        loop {
            let look = |(range, attrs, _): Found<'_>| (range.start, range.end, is(attrs));
            let (start, end, found) = self.look_at_next(at, end, order, look)?;
            if found {
                return Some(start);
            }
            at = end;
            between_pieces();
        }
    }

    pub(crate) fn is_mapped(&self, start: usize, end: usize, order: &mut Order<'_>) -> bool {
        self.mapped_until(start, end, order) >= end
    }

    /// The mapping around or after `addr`, neighbours joined upwards from there: a piece for each leaf that was touched, at least. May sleep.
    pub(crate) fn next_mapping(&self, addr: usize, order: &mut Order<'_>) -> Option<Piece> {
        self.next_mapping_in(addr, M::USER_END, order)
    }

    /// The same, if it begins below `limit`; it is joined up to there.
    #[expect(clippy::arithmetic_side_effects, reason = "an end is not before its start")]
    pub(crate) fn next_mapping_in(&self, addr: usize, limit: usize, order: &mut Order<'_>) -> Option<Piece> {
        let mut whole = self.next_piece_in(addr, limit, order)?;
        while whole.attrs.is_quarantine() {
            between_pieces();
            whole = self.next_piece_in(whole.end, limit, order)?;
        }
        loop {
            let pages = ((whole.end - whole.start) >> PAGE_SHIFT) as u64;
            let next = limit.min(whole.end.saturating_add(1));
            let joined = self.look_at_next(whole.end, next, order, |(range, attrs, skipped)| {
                whole.attrs.continued_within(attrs, skipped, pages).then_some(range.end)
            });
            let Some(end) = joined.flatten() else { break };
            whole.end = end;
            between_pieces();
        }
        Some(whole)
    }
}
