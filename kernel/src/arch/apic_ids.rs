//! CPUs of an interrupt, by their APIC ids: as many as one call of the host takes, which lie within [`SPAN`] from the lowest on.
#![forbid(unsafe_code)]

pub const SPAN: u32 = u128::BITS;

/// A set of ids in a window of [`SPAN`].
pub struct ApicIds {
    first: u32,
    bits: u128,
}

impl ApicIds {
    pub fn new() -> Self {
        Self { first: 0, bits: 0 }
    }

    /// False if `id` is too far from those that the set has: it stays as it is.
    #[inline]
    pub fn insert(&mut self, id: u32) -> bool {
        if self.bits == 0 {
            *self = Self { first: id, bits: 1 };
            return true;
        }
        if id < self.first {
            // The window begins at the lowest id.
            let by = self.first - id;
            if by > self.bits.leading_zeros() {
                return false;
            }
            *self = Self { first: id, bits: self.bits << by | 1 };
            return true;
        }
        let at = id - self.first;
        if at < SPAN {
            self.bits |= 1 << at;
        }
        at < SPAN
    }

    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    pub fn len(&self) -> u32 {
        self.bits.count_ones()
    }

    /// The lowest id, and the set as bits from it on.
    pub fn window(&self) -> (u32, u128) {
        (self.first, self.bits)
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let (first, bits) = self.window();
        (0..SPAN).filter(move |at| bits >> at & 1 != 0).map(move |at| first + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// The ids as they are sent: a set whenever the next id does not fit.
    fn sets(ids: &[u32]) -> Vec<Vec<u32>> {
        let (mut sets, mut set) = (Vec::new(), ApicIds::new());
        for id in ids {
            if !set.insert(*id) {
                sets.push(set.iter().collect());
                set = ApicIds::new();
                assert!(set.insert(*id));
            }
        }
        sets.push(set.iter().collect());
        sets
    }

    #[test]
    fn ids_are_found_again_in_whatever_order_they_come() {
        assert_eq!(sets(&[5, 3, 4, 5]), [[3, 4, 5]]);
        assert_eq!(sets(&[130, 3, 4]), [[3, 4, 130]]);
        assert_eq!(sets(&[u32::MAX, u32::MAX - 1]), [[u32::MAX - 1, u32::MAX]]);
        let mut set = ApicIds::new();
        assert!(set.is_empty());
        set.insert(7);
        set.insert(9);
        assert_eq!((set.window(), set.len()), ((7, 0b101), 2));
    }

    #[test]
    fn ids_too_far_apart_make_two_sets() {
        assert_eq!(sets(&[0, 127, 128]), [vec![0, 127], vec![128]]);
        assert_eq!(sets(&[131, 3]), [vec![131], vec![3]]);
        assert_eq!(sets(&[200, 130, 3]), [vec![130, 200], vec![3]]);
        assert_eq!(sets(&[130, 200, 73]), [[73, 130, 200]]);
        let all: Vec<u32> = (0..300).collect();
        assert_eq!(sets(&all).iter().map(Vec::len).collect::<Vec<_>>(), [128, 128, 44]);
    }
}
