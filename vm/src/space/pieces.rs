//! Looking at what is mapped, piece by piece: for /proc/PID/maps, for the choice of addresses, for checks.
//!
//! A piece is a run with one set of attributes inside one node; neighbours are joined by who asks. Each step is a walk of its own, so
//! nothing is locked between two pieces, and what changes meanwhile may be seen before or after.
//! Lock order: one node at a time.
#![forbid(unsafe_code)]

use super::Space;
use crate::addr::PAGE_SHIFT;
use crate::machine::Machine;
use crate::node::WalkPath;
use crate::node::segment::MappingAttrs;
use crate::order::Order;
use sync::rcu;

/// A run of addresses with one set of attributes.
pub(crate) struct Piece {
    pub start: usize,
    pub end: usize,
    pub attrs: MappingAttrs,
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

    /// The same, if it begins below `limit`. Nodes from there on are not looked at, and what is mapped there is not counted: it may be another CPU's.
    #[expect(clippy::arithmetic_side_effects, reason = "places in a node")]
    pub(crate) fn next_piece_in(&self, addr: usize, limit: usize, order: &mut Order<'_>) -> Option<Piece> {
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
                locked.used_in(&(index..512)).find(|i| !locked.entry(*i).is_absent())
            };
            let border = child.unwrap_or(512);
            let found = locked.segments.as_slice().iter().find(|s| s.end > index && s.start < border);
            if let Some(segment) = found {
                let first = segment.start.max(index);
                let start = node.address(first).max(at);
                if start >= limit {
                    return None;
                }
                let attrs = segment.at(first, node.shift());
                let skipped = ((start - node.address(first)) >> PAGE_SHIFT) as u64;
                return Some(Piece {
                    start,
                    end: node.address(segment.end.min(border)),
                    attrs: attrs.advanced(skipped),
                });
            }
            at = child.map_or(node.end(), |c| node.address(c));
        }
        None
    }

    /// The last piece that begins below `addr`; it ends at `addr` if what lies before `addr` is mapped.
    pub(crate) fn previous_piece(&self, addr: usize, order: &mut Order<'_>) -> Option<Piece> {
        self.previous_piece_in(addr, 0, order)
    }

    /// The same, but nodes that end at or below `floor` are not looked at.
    #[expect(clippy::arithmetic_side_effects, reason = "end is not zero; places in a node")]
    pub(crate) fn previous_piece_in(
        &self,
        addr: usize,
        floor: usize,
        order: &mut Order<'_>,
    ) -> Option<Piece> {
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
            let found = locked.segments.as_slice().iter().rev().find(|s| s.start <= index && s.end > limit);
            if let Some(segment) = found {
                let first = segment.start.max(limit);
                return Some(Piece {
                    start: node.address(first),
                    end: node.address(segment.end).min(end),
                    attrs: segment.at(first, node.shift()),
                });
            }
            end = child.map_or(node.base(), |c| node.address(c + 1));
        }
        None
    }

    /// Is nothing mapped in the range?
    pub(crate) fn is_free(&self, start: usize, end: usize, order: &mut Order<'_>) -> bool {
        self.next_piece_in(start, end, order).is_none()
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
            match self.next_piece_in(at, end, order) {
                Some(p) if p.start == at && !p.attrs.is_quarantine() && is(&p.attrs) => at = p.end,
                _ => return at,
            }
            if at < end {
                between_pieces();
            }
        }
        end
    }

    /// The first piece in `start..end` of which `is` holds. May sleep.
    pub(crate) fn find_piece(
        &self,
        start: usize,
        end: usize,
        is: &dyn Fn(&MappingAttrs) -> bool,
        order: &mut Order<'_>,
    ) -> Option<Piece> {
        let mut at = start;
        while let Some(piece) = self.next_piece_in(at, end, order) {
            if is(&piece.attrs) {
                return Some(piece);
            }
            at = piece.end;
            between_pieces();
        }
        None
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
        while let Some(next) = self.next_piece_in(whole.end, limit, order) {
            let pages = ((whole.end - whole.start) >> PAGE_SHIFT) as u64;
            if next.start != whole.end || !whole.attrs.continued_by(&next.attrs, pages) {
                break;
            }
            whole.end = next.end;
            between_pieces();
        }
        Some(whole)
    }
}
