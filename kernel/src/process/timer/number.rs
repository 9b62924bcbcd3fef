//! Timers by number, found without a lock.
//!
//! Numbers are taken in order and begin anew when they have come to their end. 64 of them lie in a block, and the blocks that have a timer stand in
//! a row in the order of their numbers. Who looks for a timer reads row, block and place under RCU, and writes no line but the count of the
//! timer. Who changes something holds the lock: a place is filled or emptied where its block is; if a block comes or goes, a new row takes the old one's place.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::lock_order as level;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::heap::try_vec;
use sync::rcu::{self, Deferred, RcuArc, RcuHead, RcuObject};
use sync::{SpinLock, TryVec, lock_class, try_arc};

lock_class! { static NUMBERS: LockClass = ("numbers of POSIX timers", level::PosixTimers); }

/// Numbers of one block: a bit each.
const BLOCK: i32 = u64::BITS as i32;

/// The number of a block: that of the timers in it, without its last bits.
fn block_of(id: i32) -> i32 {
    id.div_euclid(BLOCK)
}

fn place_of(id: i32) -> u32 {
    id.rem_euclid(BLOCK) as u32
}

struct Block<T: RcuObject> {
    number: i32,
    /// Which places are filled. Under the lock.
    used: AtomicU64,
    places: [RcuArc<T>; BLOCK as usize],
}

impl<T: RcuObject> Block<T> {
    fn new(number: i32) -> Self {
        Block { number, used: AtomicU64::new(0), places: [const { RcuArc::empty() }; BLOCK as usize] }
    }

    fn place(&self, id: i32) -> Option<&RcuArc<T>> {
        self.places.get(place_of(id) as usize)
    }

    fn is_empty(&self) -> bool {
        self.used.load(Relaxed) == 0
    }

    /// # Errors
    /// EAGAIN: the number is in use.
    fn fill(&self, id: i32, with: Arc<T>) -> Result {
        let place = self.place(id).ok_or(Errno::EAGAIN)?;
        place.put_if_empty(with).map_err(|_| Errno::EAGAIN)?;
        self.used.store(self.used.load(Relaxed) | 1 << place_of(id), Relaxed);
        Ok(())
    }

    fn empty(&self, id: i32) -> Option<Deferred<T>> {
        let gone = self.place(id)?.take()?;
        self.used.store(self.used.load(Relaxed) & !(1 << place_of(id)), Relaxed);
        Some(gone)
    }

    /// The first number from `id`, which is one of the block's, on that is free.
    fn free_from(&self, id: i32) -> Option<i32> {
        let used = self.used.load(Relaxed) >> place_of(id);
        let free = id.checked_add(used.trailing_ones() as i32)?;
        (block_of(free) == self.number).then_some(free)
    }
}

/// The blocks, by number.
struct Row<T: RcuObject> {
    blocks: Vec<Arc<Block<T>>>,
    rcu: RcuHead,
}

sync::rcu_object!([T: RcuObject] Row<T>);

impl<T: RcuObject> Row<T> {
    /// The block of timer `id`.
    fn block(&self, id: i32) -> Option<&Block<T>> {
        let at = self.blocks.binary_search_by_key(&block_of(id), |block| block.number).ok()?;
        self.blocks.get(at).map(|block| &**block)
    }
}

/// Timers by number.
pub(super) struct Numbers<T: RcuObject> {
    /// Who changes anything holds it. The number that the next timer has, if it is free.
    next: SpinLock<i32, level::PosixTimers>,
    row: RcuArc<Row<T>>,
}

impl<T: RcuObject> Numbers<T> {
    pub const fn new() -> Self {
        Numbers { next: SpinLock::new(0, &NUMBERS), row: RcuArc::empty() }
    }

    /// The timer with this number.
    pub fn find(&self, id: i32) -> Option<Arc<T>> {
        let read = rcu::read();
        self.row.load(&read)?.block(id)?.place(id)?.get(&read)
    }

    /// A number for a new timer: the first that is free from the last one taken on; after the last comes 0.
    pub fn take(&self) -> i32 {
        let mut next = self.next.lock();
        let read = rcu::read();
        let row = self.row.load(&read);
        let taken = free_from(row, *next).or_else(|| free_from(row, 0)).unwrap_or(*next);
        *next = taken.wrapping_add(1).max(0);
        taken
    }

    /// `new` has number `id` from now on.
    ///
    /// # Errors
    /// EAGAIN: another has it. ENOMEM.
    pub fn insert(&self, id: i32, new: Arc<T>) -> Result {
        let _next = self.next.lock();
        let read = rcu::read();
        let row = self.row.load(&read);
        if let Some(block) = row.and_then(|row| row.block(id)) {
            return block.fill(id, new);
        }
        let block = try_arc(Block::new(block_of(id)))?;
        block.fill(id, new)?;
        self.change(row, Some(block))
    }

    /// No timer has number `id` any more; gives out the one that had it.
    pub fn remove(&self, id: i32) -> Option<Deferred<T>> {
        let next = self.next.lock();
        let read = rcu::read();
        let row = self.row.load(&read)?;
        let block = row.block(id)?;
        let gone = block.empty(id)?;
        // The block of the next timer stays.
        if block.is_empty() && block.number != block_of(*next) {
            // Without memory it stays until a row is made.
            let _ = self.change(Some(row), None);
        }
        Some(gone)
    }

    /// All go. `f` is called for each, and may give way. Nobody makes one meanwhile.
    pub fn clear(&self, mut f: impl FnMut(&T)) {
        // Most processes never had one.
        if self.row.load(&rcu::read()).is_none() {
            return;
        }
        let gone = {
            let _next = self.next.lock();
            self.row.take()
        };
        for block in gone.iter().flat_map(|row| &row.blocks) {
            block.places.iter().filter_map(RcuArc::take).for_each(|timer| f(&timer));
        }
    }

    /// A row of the blocks of `row` that have a timer, and of `new`, takes its place. For who has the lock.
    fn change(&self, row: Option<&Row<T>>, new: Option<Arc<Block<T>>>) -> Result {
        let old = row.map_or(&[][..], |row| &row.blocks);
        let mut blocks = try_vec(old.len().saturating_add(1))?;
        for block in old.iter().filter(|block| !block.is_empty()) {
            blocks.try_push(block.clone())?;
        }
        if let Some(new) = new {
            let at = blocks.partition_point(|block: &Arc<Block<T>>| block.number < new.number);
            blocks.try_push(new)?;
            if let Some(moved) = blocks.get_mut(at..) {
                moved.rotate_right(1);
            }
        }
        self.row.swap(Some(try_arc(Row { blocks, rcu: RcuHead::new() })?));
        Ok(())
    }
}

/// The first number from `id` on that is free. None: there is none up to the last.
fn free_from<T: RcuObject>(row: Option<&Row<T>>, mut id: i32) -> Option<i32> {
    loop {
        let Some(block) = row.and_then(|row| row.block(id)) else { return Some(id) };
        if let Some(free) = block.free_from(id) {
            return Some(free);
        }
        id = block.number.checked_add(1)?.checked_mul(BLOCK)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Timer {
        id: i32,
        rcu: RcuHead,
    }

    sync::rcu_object!(Timer);

    fn insert(numbers: &Numbers<Timer>, id: i32) -> Result {
        numbers.insert(id, Arc::new(Timer { id, rcu: RcuHead::new() }))
    }

    fn with(used: &[i32], next: i32) -> Numbers<Timer> {
        let numbers = Numbers::new();
        *numbers.next.lock() = next;
        used.iter().for_each(|&id| insert(&numbers, id).unwrap());
        numbers
    }

    fn blocks(numbers: &Numbers<Timer>) -> Vec<i32> {
        let read = rcu::read();
        numbers
            .row
            .load(&read)
            .map_or(Vec::new(), |row| row.blocks.iter().map(|block| block.number).collect())
    }

    #[test]
    fn numbers_of_timers_begin_anew_and_skip_those_in_use() {
        let next = |used: &[i32], next| with(used, next).take();
        assert_eq!(next(&[], 0), 0);
        assert_eq!(next(&[0, 1, 2], 3), 3);
        assert_eq!(next(&[0, 1, 2, 5, 6, 8], 0), 3);
        assert_eq!(next(&[0, 1, 2, 5, 6, 8], 4), 4);
        assert_eq!(next(&[0, 1, 2, 5, 6, 8], 5), 7);
        assert_eq!(next(&[0, 1, i32::MAX], i32::MAX), 2);
        assert_eq!(next(&[1, i32::MAX - 1], i32::MAX), i32::MAX);
        assert_eq!(next(&[1, i32::MAX - 1, i32::MAX], i32::MAX - 1), 0);
        let block: Vec<i32> = (0..64).collect();
        assert_eq!(next(&block, 0), 64);
        let more: Vec<i32> = (60..130).collect();
        assert_eq!(next(&more, 62), 130);
    }

    #[test]
    fn after_the_last_number_comes_the_first() {
        let numbers = with(&[0, 1, i32::MAX - 1], i32::MAX - 1);
        assert_eq!(numbers.take(), i32::MAX);
        assert_eq!(numbers.take(), 2);
        assert_eq!(*numbers.next.lock(), 3);
    }

    #[test]
    fn a_timer_is_found_from_its_coming_to_its_going_without_the_lock() {
        let numbers = with(&[0, 63, 64, 1000, i32::MAX], 0);
        assert_eq!(blocks(&numbers), [0, 1, 15, i32::MAX / 64]);
        {
            // Who looked for one under it would wait for ever.
            let _held = numbers.next.lock();
            for id in [0, 63, 64, 1000, i32::MAX] {
                assert_eq!(numbers.find(id).map(|timer| timer.id), Some(id));
            }
            for id in [1, 62, 65, 999, i32::MAX - 1, -1, i32::MIN] {
                assert!(numbers.find(id).is_none(), "{id}");
            }
        }
        assert_eq!(insert(&numbers, 64), Err(Errno::EAGAIN));
        assert_eq!(numbers.remove(64).map(|timer| timer.id), Some(64));
        assert!(numbers.find(64).is_none() && numbers.remove(64).is_none());
        assert_eq!(blocks(&numbers), [0, 15, i32::MAX / 64], "a block stays in which nothing is");
        let mut gone = Vec::new();
        numbers.clear(|timer| gone.push(timer.id));
        assert_eq!(gone, [0, 63, 1000, i32::MAX]);
        assert!(numbers.find(0).is_none() && blocks(&numbers).is_empty());
    }

    #[test]
    fn timers_that_come_and_go_one_by_one_leave_no_blocks() {
        let numbers: Numbers<Timer> = Numbers::new();
        for expected in 0..1000 {
            let id = numbers.take();
            assert_eq!(id, expected);
            insert(&numbers, id).unwrap();
            assert!(numbers.remove(id).is_some());
            assert!(blocks(&numbers).len() <= 1);
        }
    }

    #[test]
    fn threads_that_look_meet_whole_timers_while_others_come_and_go() {
        let numbers: Arc<Numbers<Timer>> = Arc::new(Numbers::new());
        insert(&numbers, 7).unwrap();
        let looks = {
            let numbers = numbers.clone();
            std::thread::spawn(move || {
                for at in 0..20_000 {
                    assert_eq!(numbers.find(7).map(|timer| timer.id), Some(7));
                    assert!(numbers.find(at % 300 + 8).is_none_or(|timer| timer.id == at % 300 + 8));
                }
            })
        };
        for at in 0..20_000 {
            let id = at % 300 + 8;
            if numbers.remove(id).is_none() {
                insert(&numbers, id).unwrap();
            }
        }
        looks.join().unwrap();
    }
}
