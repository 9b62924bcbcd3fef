//! Numbers of POSIX timers: they begin anew when they have come to their end.
#![forbid(unsafe_code)]

/// The first number from `next` on that none of `used` has, which are in the order of their numbers; after the last comes 0. None: all are in use.
fn free_id<T>(used: &[T], next: i32, id: impl Fn(&T) -> i32) -> Option<i32> {
    let free_from = |next: i32| {
        let (_, above) = used.split_at(used.partition_point(|timer| id(timer) < next));
        // Those that follow one another without a gap: no number comes twice.
        let (mut low, mut high) = (0, above.len());
        while low < high {
            let middle = low.midpoint(high);
            let expected = i64::from(next).saturating_add(middle as i64);
            let has_no_gap = above.get(middle).is_some_and(|timer| i64::from(id(timer)) == expected);
            if has_no_gap { low = middle.saturating_add(1) } else { high = middle }
        }
        i32::try_from(i64::from(next).saturating_add(low as i64)).ok()
    };
    free_from(next).or_else(|| free_from(0))
}

/// Takes that number for a new timer; `next` goes on after it.
pub(super) fn take_id<T>(used: &[T], next: &mut i32, id: impl Fn(&T) -> i32) -> i32 {
    let taken = free_id(used, *next, id).unwrap_or(*next);
    *next = taken.wrapping_add(1).max(0);
    taken
}

#[cfg(test)]
mod tests {
    use super::{free_id, take_id};

    #[test]
    fn numbers_of_timers_begin_anew_and_skip_those_in_use() {
        let next = |used: &[i32], next| free_id(used, next, |id| *id);
        assert_eq!(next(&[], 0), Some(0));
        assert_eq!(next(&[0, 1, 2], 3), Some(3));
        assert_eq!(next(&[0, 1, 2, 5, 6, 8], 0), Some(3));
        assert_eq!(next(&[0, 1, 2, 5, 6, 8], 4), Some(4));
        assert_eq!(next(&[0, 1, 2, 5, 6, 8], 5), Some(7));
        assert_eq!(next(&[0, 1, i32::MAX], i32::MAX), Some(2));
        assert_eq!(next(&[1, i32::MAX - 1], i32::MAX), Some(i32::MAX));
        assert_eq!(next(&[1, i32::MAX - 1, i32::MAX], i32::MAX - 1), Some(0));
    }

    #[test]
    fn after_the_last_number_comes_the_first() {
        let (used, mut next) = ([0, 1, i32::MAX - 1], i32::MAX - 1);
        assert_eq!(take_id(&used, &mut next, |id| *id), i32::MAX);
        assert_eq!(take_id(&used, &mut next, |id| *id), 2);
        assert_eq!(next, 3);
    }
}
