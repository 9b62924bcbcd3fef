//! Sorting of lists whose length a program chooses.
#![forbid(unsafe_code)]

use crate::sched::schedule_if_needed;

/// Sorts in place by a heap, which takes no stack, and gives way. Equal ones come in any order. The caller holds no lock but sleeping ones.
pub fn by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    for root in (0..list.len() / 2).rev() {
        sift(list, root, &key);
    }
    for end in (1..list.len()).rev() {
        list.swap(0, end);
        if let Some(heap) = list.get_mut(..end) {
            sift(heap, 0, &key);
        }
    }
}

/// What is below `at` is a heap, and from now on with `at`.
fn sift<T, K: Ord>(heap: &mut [T], mut at: usize, key: &impl Fn(&T) -> K) {
    if at.is_multiple_of(64) || heap.len().is_multiple_of(64) {
        schedule_if_needed();
    }
    loop {
        let child = at.saturating_mul(2).saturating_add(1);
        let larger = match heap.get(child..) {
            Some([left, right, ..]) if key(right) > key(left) => child.saturating_add(1),
            Some([_, ..]) => child,
            _ => return,
        };
        let (Some(here), Some(below)) = (heap.get(at), heap.get(larger)) else { return };
        if key(here) >= key(below) {
            return;
        }
        heap.swap(at, larger);
        at = larger;
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    #[test]
    fn lists_of_any_length_are_sorted() {
        crate::testing::in_process(|| {
            for count in [0u64, 1, 2, 1000, 1024, 1025, 1026, 5000] {
                let mut list: Vec<u64> =
                    (0..count).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
                let mut sorted = list.clone();
                sorted.sort();
                super::by_key(&mut list, |n| *n);
                assert_eq!(list, sorted, "{count}");
            }
        });
    }
}
