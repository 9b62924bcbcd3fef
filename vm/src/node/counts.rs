//! What anybody may read of a node without its lock: how many entries are in use, and about where; its level; what a leaf's segments come to.
//!
//! Invariants: the counts are changed under the node's lock, and whoever holds that finds them exact (LeafOwns). Anybody may read them: whoever adds up many nodes
//! writes no line of theirs, and counts what comes or goes meanwhile or does not.
#![forbid(unsafe_code)]

use super::segment::{MappingAttrs, SegFlags};
use crate::addr::ENTRIES;
use crate::request::Prot;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

pub struct Counts {
    /// Interior nodes: bit `p`: some entry may be other than absent whose number modulo 8 is `p`. They have few entries, so who looks for them need not
    /// look at a whole line. In a leaf all are set.
    places: AtomicU8,
    /// 0: leaf.
    level: u8,
    /// A hint for the fault: some segment of the leaf may name an object.
    maps_objects: AtomicBool,
    /// Bit `g`: among the entries `8 * g..8 * g + 8`, one line, some may be other than absent.
    groups: AtomicU64,
    /// Interior nodes. Bit `g`: a segment may speak for some of those entries. Who finds none knows without the lock that nothing is mapped there.
    meant: AtomicU64,
    /// `LARGE`: the entries of the leaf show one block whole (large.rs). `SWAPPED`: some may be in swap.
    flags: AtomicU8,
    /// Entries that are not absent.
    present: AtomicU16,
    /// Of these, private memory: entries that own a reference to their frame, are pooled, or are in swap.
    private: AtomicU16,
    /// Of a leaf: what its segments come to (`Sizes::packed`), as whoever added them up last found; `UNKNOWN` since they were changed. Who looks at a
    /// space that does not change so writes no line of it.
    sizes: AtomicU64,
}

const LARGE: u8 = 1;
const SWAPPED: u8 = 2;

/// Pages that some segments speak for. Those in quarantine count for nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sizes {
    pub mapped: usize,
    /// Private and writable, but for those of a stack.
    pub data: usize,
    pub stack: usize,
    pub exec: usize,
    pub locked: usize,
}

impl Sizes {
    /// Bits of a number of a leaf's pages, which is 512 at most.
    const BITS: u32 = 10;
    /// Above all numbers: they are known.
    const KNOWN: u64 = 1 << 63;
    const UNKNOWN: u64 = 0;

    /// `pages` more with these attributes.
    #[inline]
    pub fn add(&mut self, attrs: &MappingAttrs, pages: usize) {
        if attrs.is_quarantine() {
            return;
        }
        self.mapped += pages;
        if attrs.flags.contains(SegFlags::GROWSDOWN) {
            self.stack += pages;
        } else if attrs.prot.contains(Prot::WRITE) && !attrs.is_shared() {
            self.data += pages;
        }
        if attrs.flags.contains(SegFlags::LOCKED) {
            self.locked += pages;
        }
        if attrs.prot.contains(Prot::EXEC) {
            self.exec += pages;
        }
    }

    /// And all of `other`.
    pub fn add_all(&mut self, other: &Sizes) {
        self.mapped += other.mapped;
        self.data += other.data;
        self.stack += other.stack;
        self.exec += other.exec;
        self.locked += other.locked;
    }

    fn packed(&self) -> u64 {
        let pack = |word, pages: usize| word << Self::BITS | pages as u64;
        [self.mapped, self.data, self.stack, self.exec, self.locked].into_iter().fold(0, pack) | Self::KNOWN
    }

    fn unpacked(word: u64) -> Option<Sizes> {
        let number = |place: u32| (word >> (place * Self::BITS)) as usize & ((1 << Self::BITS) - 1);
        let [locked, exec, stack, data, mapped] = [0, 1, 2, 3, 4].map(number);
        (word & Self::KNOWN != 0).then_some(Sizes { mapped, data, stack, exec, locked })
    }
}

/// Changes what the caller alone changes.
macro_rules! change {
    ($cell:expr, $change:expr) => {
        $cell.store($change($cell.load(Relaxed)), Relaxed)
    };
}

impl Counts {
    pub const fn new(level: u8) -> Self {
        Self {
            places: AtomicU8::new(if level == 0 { u8::MAX } else { 0 }),
            level,
            maps_objects: AtomicBool::new(false),
            groups: AtomicU64::new(0),
            meant: AtomicU64::new(0),
            flags: AtomicU8::new(0),
            present: AtomicU16::new(0),
            private: AtomicU16::new(0),
            sizes: AtomicU64::new(Sizes::UNKNOWN),
        }
    }

    #[inline]
    pub fn level(&self) -> u8 {
        self.level
    }

    #[inline]
    pub fn maps_objects(&self) -> bool {
        self.maps_objects.load(Relaxed)
    }

    pub(super) fn set_maps_objects(&self) {
        self.maps_objects.store(true, Relaxed);
    }

    #[inline]
    pub fn present(&self) -> u16 {
        self.present.load(Relaxed)
    }

    #[inline]
    pub fn private(&self) -> u16 {
        self.private.load(Relaxed)
    }

    /// Interior nodes: may a segment speak for entry `index`? A segment that was put in before the caller asks is seen.
    #[inline]
    pub fn may_mean(&self, index: u16) -> bool {
        self.meant.load(Relaxed) >> ((index >> 3) & 63) & 1 != 0
    }

    /// May a segment speak for any entry?
    #[inline]
    pub fn may_mean_any(&self) -> bool {
        self.meant.load(Relaxed) != 0
    }

    /// A segment is about to speak for entries of `range`, which is not empty. The node is locked, or nobody else knows it.
    #[inline]
    pub fn note_meant(&self, range: &Range<u16>) {
        let (low, high) = (u32::from(range.start >> 3) & 63, u32::from((range.end - 1) >> 3).min(63));
        change!(self.meant, |meant| meant | (u64::MAX << low) & (u64::MAX >> (63 - high)));
    }

    /// As `note_meant`, for all that `other` has.
    pub fn note_meant_of(&self, other: &Counts) {
        self.meant.store(other.meant.load(Relaxed), Relaxed);
    }

    /// There are no segments any more. The node is locked.
    #[inline]
    pub fn note_nothing_meant(&self) {
        if self.meant.load(Relaxed) != 0 {
            self.meant.store(0, Relaxed);
        }
    }

    /// What the segments of a leaf come to; None: they have changed since somebody added them up.
    #[inline]
    pub fn sizes(&self) -> Option<Sizes> {
        Sizes::unpacked(self.sizes.load(Relaxed))
    }

    /// The segments of a leaf come to that. The node is locked.
    pub fn note_sizes(&self, sizes: &Sizes) {
        self.sizes.store(sizes.packed(), Relaxed);
    }

    /// Segments are about to change. The node is locked.
    #[inline(always)]
    pub(super) fn forget_sizes(&self) {
        self.sizes.store(Sizes::UNKNOWN, Relaxed);
    }

    /// Entries that may be other than absent, lines of absent ones left out.
    #[inline]
    pub fn used(&self) -> Used {
        self.used_in(&(0..ENTRIES as u16))
    }

    /// Those of `range`.
    #[inline]
    pub fn used_in(&self, range: &Range<u16>) -> Used {
        Used::new(self.groups.load(Relaxed), range)
    }

    /// Entries of an interior node from `first` on that may be other than absent.
    #[inline]
    pub fn upper_used_from(&self, first: u16) -> UpperUsed {
        let places = self.places.load(Relaxed);
        UpperUsed { lines: self.groups.load(Relaxed), places, line: 0, left: 0, first }
    }

    /// Entry `index` of an interior node is not absent any more. The node is locked.
    #[inline]
    pub(super) fn count_in_upper(&self, index: u16) {
        change!(self.places, |places| places | 1 << (index & 7));
        self.count_in(index, false);
    }

    /// Entry `index` of a leaf is not absent any more. The node is locked.
    #[inline]
    pub(super) fn count_in(&self, index: u16, private: bool) {
        change!(self.groups, |groups| groups | 1 << ((index >> 3) & 63));
        change!(self.present, |present| present + 1);
        change!(self.private, |count| count + u16::from(private));
    }

    /// So many of the entries from `first` to `last` are not absent any more; none of them is private. Which of their lines have some matters
    /// little. The node is locked.
    #[inline]
    pub(super) fn count_in_run(&self, first: u16, last: u16, count: u16) {
        let (low, high) = (u32::from(first >> 3) & 63, u32::from(last >> 3).min(63));
        change!(self.groups, |groups| groups | (u64::MAX << low) & (u64::MAX >> (63 - high)));
        change!(self.present, |present| present + count);
    }

    /// Do the entries of a leaf show one block whole?
    #[inline]
    pub fn is_large(&self) -> bool {
        self.flags.load(Relaxed) & LARGE != 0
    }

    /// They do from now on, or do no more. The node is locked.
    pub(super) fn note_large(&self, is_large: bool) {
        change!(self.flags, |flags| if is_large { flags | LARGE } else { flags & !LARGE });
    }

    /// May an entry be in swap? No: none is, for who has the node locked. It stays said until all entries are absent.
    #[inline]
    pub fn may_have_swapped(&self) -> bool {
        self.flags.load(Relaxed) & SWAPPED != 0
    }

    /// An entry is in swap now. The node is locked.
    pub(super) fn note_swapped(&self) {
        change!(self.flags, |flags| flags | SWAPPED);
    }

    /// All entries of a leaf that had none are private memory now; `absent`: all are absent. The node is locked.
    pub(super) fn count_all(&self, absent: bool) {
        let (groups, count) = if absent { (0, 0) } else { (u64::MAX, ENTRIES as u16) };
        self.groups.store(groups, Relaxed);
        self.present.store(count, Relaxed);
        self.private.store(count, Relaxed);
    }

    /// An entry is absent now. The node is locked.
    #[inline]
    pub(super) fn count_out(&self, private: bool) {
        let present = self.present() - 1;
        self.present.store(present, Relaxed);
        change!(self.private, |count| count - u16::from(private));
        if present == 0 {
            self.groups.store(0, Relaxed);
            if self.may_have_swapped() {
                change!(self.flags, |flags| flags & !SWAPPED);
            }
        }
    }
}

/// Indices of entries that may be other than absent, in order.
#[derive(Clone)]
pub struct Used {
    groups: u64,
    /// The next: in a group that may have some, or not before `end`.
    at: u16,
    end: u16,
}

impl Used {
    #[inline]
    fn new(groups: u64, range: &Range<u16>) -> Self {
        let mut used = Used { groups, at: range.start, end: range.end };
        used.settle();
        used
    }

    /// `at` has come to a group: if that has none, goes on to the next that may have some.
    #[inline]
    fn settle(&mut self) {
        let rest = self.groups.checked_shr(u32::from(self.at >> 3)).unwrap_or(0);
        if rest & 1 == 0 {
            let skip = rest.checked_ilog2().map(|_| rest.trailing_zeros() as u16);
            self.at = skip.map_or(self.end, |skip| ((self.at >> 3) + skip) << 3);
        }
    }
}

impl Iterator for Used {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.at >= self.end {
            return None;
        }
        let index = self.at;
        self.at += 1;
        if self.at.is_multiple_of(8) {
            self.settle();
        }
        Some(index)
    }
}

impl DoubleEndedIterator for Used {
    #[inline]
    fn next_back(&mut self) -> Option<u16> {
        if self.at >= self.end {
            return None;
        }
        let group = (self.end - 1) >> 3;
        let rest = self.groups << (63 - (group & 63));
        if rest >> 63 == 0 {
            let Some(top) = rest.checked_ilog2() else {
                self.end = self.at;
                return None;
            };
            // The group of the highest bit set: its last entry.
            let found = group - (63 - top as u16);
            self.end = ((found + 1) << 3).min(self.end);
            if self.end <= self.at {
                self.end = self.at;
                return None;
            }
        }
        self.end -= 1;
        Some(self.end)
    }
}

/// Indices of an interior node's entries that may be other than absent, in order.
#[derive(Clone)]
pub struct UpperUsed {
    /// Lines that are still to come.
    lines: u64,
    places: u8,
    /// First entry of the line that `left` is of: places in it that are still to come.
    line: u16,
    left: u8,
    /// Where it begins.
    first: u16,
}

impl Iterator for UpperUsed {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        loop {
            while self.left != 0 {
                let index = self.line | self.left.trailing_zeros() as u16;
                self.left &= self.left.wrapping_sub(1);
                if index >= self.first {
                    return Some(index);
                }
            }
            if self.lines == 0 {
                return None;
            }
            self.line = (self.lines.trailing_zeros() as u16) << 3;
            self.lines &= self.lines.wrapping_sub(1);
            self.left = self.places;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn sizes_of_a_leaf_are_known_until_they_are_forgotten() {
        let counts = Counts::new(0);
        assert_eq!(counts.sizes(), None);
        for (mapped, data) in [(0, 0), (512, 512), (512, 0), (3, 1)] {
            let sizes = Sizes { mapped, data, stack: data / 2, exec: mapped, locked: mapped - data };
            counts.note_sizes(&sizes);
            assert_eq!(counts.sizes(), Some(sizes));
        }
        counts.forget_sizes();
        assert_eq!(counts.sizes(), None);
    }

    #[test]
    fn entries_are_gone_through_from_both_ends_as_their_lines_say() {
        for groups in [0, 1, 1 << 63, 0b1011 << 7, u64::MAX, 0x8000_4000_0000_0081] {
            for range in [0..512, 3..512, 0..8, 8..9, 60..61, 57..200, 0..509, 64..64, 512..512] {
                let used = || Used::new(groups, &range);
                let expected: Vec<u16> = range.clone().filter(|i| groups >> (i / 8) & 1 != 0).collect();
                let mut backwards: Vec<u16> = used().rev().collect();
                backwards.reverse();
                assert_eq!(used().collect::<Vec<_>>(), expected, "{groups:#x}, {range:?}");
                assert_eq!(backwards, expected, "{groups:#x}, {range:?}, backwards");
            }
        }
    }

    #[test]
    fn an_entry_for_which_a_segment_was_put_in_may_mean_something() {
        for range in [0..1, 0..512, 7..8, 7..9, 8..16, 63..65, 511..512, 500..512, 130..131] {
            let counts = Counts::new(1);
            counts.note_meant(&range);
            for index in 0..512 {
                let near = (range.start / 8..=(range.end - 1) / 8).contains(&(index / 8));
                assert_eq!(counts.may_mean(index), near, "{index} of {range:?}");
            }
            counts.note_nothing_meant();
            assert!(!(0..512).any(|index| counts.may_mean(index)));
        }
    }

    #[test]
    fn entries_of_interior_nodes_are_found_by_line_and_place() {
        for used in [&[][..], &[0], &[511], &[3, 255, 256], &[8, 9, 500], &[0, 1, 2, 3, 4, 5, 6, 7, 8]] {
            for first in [0, 1, 8, 255, 256, 511, 512] {
                let counts = Counts::new(1);
                used.iter().for_each(|&index| counts.count_in_upper(index));
                let found: Vec<u16> = counts.upper_used_from(first).collect();
                let of_lines = counts.used_in(&(first..512)).filter(|i| used.iter().any(|u| u % 8 == i % 8));
                assert_eq!(found, of_lines.collect::<Vec<_>>(), "{used:?} from {first}");
                let rest = used.iter().filter(|&&index| index >= first);
                assert!(rest.clone().all(|index| found.contains(index)), "{used:?} from {first}");
            }
        }
    }
}
