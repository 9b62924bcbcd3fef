//! Timers by number, found without a lock.
//!
//! Numbers are taken in order and begin anew when they have come to their end. 64 of them lie in a block, and the blocks stand in a row in the order of
//! their numbers, at its end free slots. Who looks for a timer reads row, block and place under RCU, and writes no line but the count of the timer.
//!
//! Who changes something holds the lock. A place is filled or emptied where its block is. A block that comes has the highest number but where numbers have
//! begun anew: it goes to the first free slot, or takes the place of the last block if that has no timer any more. Both leave the row in order for who searches it
//! meanwhile. Else a new row takes the old one's place: if there is no free slot, and where more than half of the blocks have no timer. So a timer costs the
//! same few steps on the average, however many there are.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::lock_order as level;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::heap::try_box_slice;
use sync::rcu::{self, Deferred, RcuArc, RcuHead, RcuObject, RcuRead};
use sync::{SpinLock, lock_class, try_arc};

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
    rcu: RcuHead,
}

sync::rcu_object!([T: RcuObject] Block<T>);

impl<T: RcuObject> Block<T> {
    fn new(number: i32) -> Self {
        let places = [const { RcuArc::empty() }; BLOCK as usize];
        Block { number, used: AtomicU64::new(0), places, rcu: RcuHead::new() }
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

/// Slots of the first row.
const FEWEST: usize = 2;

/// The blocks, by number, then free slots.
struct Row<T: RcuObject> {
    slots: Box<[RcuArc<Block<T>>]>,
    rcu: RcuHead,
}

sync::rcu_object!([T: RcuObject] Row<T>);

impl<T: RcuObject> Row<T> {
    /// The first slot of which the block has this number or a higher one, or that is free.
    fn position(&self, number: i32, read: &RcuRead) -> usize {
        self.slots.partition_point(|slot| slot.load(read).is_some_and(|block| block.number < number))
    }

    fn at<'r>(&'r self, slot: usize, read: &'r RcuRead) -> Option<&'r Block<T>> {
        self.slots.get(slot)?.load(read)
    }

    /// The block of timer `id`.
    fn block<'r>(&'r self, id: i32, read: &'r RcuRead) -> Option<&'r Block<T>> {
        let number = block_of(id);
        self.at(self.position(number, read), read).filter(|block| block.number == number)
    }

    /// Puts the block where no block behind it is, if that is possible. Under the lock.
    fn append(&self, block: Arc<Block<T>>, read: &RcuRead) -> core::result::Result<Appended, Arc<Block<T>>> {
        let end = self.position(block.number, read);
        if self.at(end, read).is_some() {
            return Err(block);
        }
        let last = end.checked_sub(1).and_then(|last| Some((self.slots.get(last)?, self.at(last, read)?)));
        if let Some((slot, _)) = last.filter(|(_, last)| last.is_empty()) {
            slot.swap(Some(block));
            return Ok(Appended::ForEmpty);
        }
        match self.slots.get(end) {
            Some(slot) => slot.put_if_empty(block).map(|()| Appended::Behind),
            None => Err(block),
        }
    }

    /// A row of the blocks that have a timer, and of `new`, with as many free slots. Under the lock.
    fn try_anew(row: Option<&Self>, new: Option<Arc<Block<T>>>, read: &RcuRead) -> Result<Self> {
        let old = || row.into_iter().flat_map(|row| &*row.slots).filter_map(|slot| slot.get(read));
        let old = || old().filter(|block| !block.is_empty());
        let before = |block: &Arc<Block<T>>| new.as_ref().is_none_or(|new| block.number < new.number);
        let count = old().count().saturating_add(usize::from(new.is_some()));
        let slots = try_box_slice(count.saturating_mul(2).max(FEWEST), |_| RcuArc::empty())?;
        let behind = old().skip_while(before);
        let blocks = old().take_while(before).chain(new.clone()).chain(behind);
        blocks.zip(&slots).for_each(|(block, slot)| slot.swap(Some(block)));
        Ok(Row { slots, rcu: RcuHead::new() })
    }
}

/// Where a block went.
#[derive(PartialEq, Eq)]
enum Appended {
    /// To a free slot.
    Behind,
    /// To the slot of one without timers.
    ForEmpty,
}

/// What the lock guards, beside all that is changed.
struct Guarded {
    /// The number that the next timer has, if it is free.
    next: i32,
    /// Blocks of the row.
    blocks: usize,
    /// Of these, the ones without a timer.
    empty: usize,
}

/// Timers by number.
pub(super) struct Numbers<T: RcuObject> {
    /// Who changes anything holds it.
    guarded: SpinLock<Guarded, level::PosixTimers>,
    row: RcuArc<Row<T>>,
}

impl<T: RcuObject> Numbers<T> {
    pub const fn new() -> Self {
        let guarded = Guarded { next: 0, blocks: 0, empty: 0 };
        Numbers { guarded: SpinLock::new(guarded, &NUMBERS), row: RcuArc::empty() }
    }

    /// The timer with this number.
    pub fn find(&self, id: i32) -> Option<Arc<T>> {
        let read = rcu::read();
        self.row.load(&read)?.block(id, &read)?.place(id)?.get(&read)
    }

    /// The timer with the highest number below `before`, or of all.
    pub fn last_before(&self, before: Option<i32>) -> Option<Arc<T>> {
        let read = rcu::read();
        let row = self.row.load(&read)?;
        let end = before.map(|id| row.position(block_of(id).saturating_add(1), &read));
        let slots = row.slots.get(..end.unwrap_or(row.slots.len()))?;
        let blocks = slots.iter().rev().filter_map(|slot| slot.load(&read)).filter(|block| !block.is_empty());
        for block in blocks {
            let places = (0..BLOCK).zip(&block.places).rev();
            let below = |place: i32| {
                before.is_none_or(|id| block.number < block_of(id) || place < place_of(id).cast_signed())
            };
            let found = places.filter(|(place, _)| below(*place)).find_map(|(_, timer)| timer.get(&read));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A number for a new timer: the first that is free from the last one taken on; after the last comes 0.
    pub fn take(&self) -> i32 {
        let mut guarded = self.guarded.lock();
        let read = rcu::read();
        let row = self.row.load(&read);
        let taken = free_from(row, guarded.next, &read).or_else(|| free_from(row, 0, &read));
        let taken = taken.unwrap_or(guarded.next);
        guarded.next = taken.wrapping_add(1).max(0);
        taken
    }

    /// `new` has number `id` from now on.
    ///
    /// # Errors
    /// EAGAIN: another has it. ENOMEM.
    pub fn insert(&self, id: i32, new: Arc<T>) -> Result {
        let mut guarded = self.guarded.lock();
        let read = rcu::read();
        let row = self.row.load(&read);
        if let Some(block) = row.and_then(|row| row.block(id, &read)) {
            let was_empty = block.is_empty();
            block.fill(id, new)?;
            guarded.empty = guarded.empty.saturating_sub(usize::from(was_empty));
            return Ok(());
        }
        let block = try_arc(Block::new(block_of(id)))?;
        block.fill(id, new)?;
        let block = match row {
            Some(row) => match row.append(block, &read) {
                Ok(Appended::Behind) => {
                    guarded.blocks = guarded.blocks.saturating_add(1);
                    return Ok(());
                }
                Ok(Appended::ForEmpty) => {
                    guarded.empty = guarded.empty.saturating_sub(1);
                    return Ok(());
                }
                Err(block) => block,
            },
            None => block,
        };
        self.make_row(&mut guarded, row, Some(block), &read)
    }

    /// No timer has number `id` any more; gives out the one that had it.
    pub fn remove(&self, id: i32) -> Option<Deferred<T>> {
        let mut guarded = self.guarded.lock();
        let read = rcu::read();
        let row = self.row.load(&read)?;
        let block = row.block(id, &read)?;
        let gone = block.empty(id)?;
        guarded.empty = guarded.empty.saturating_add(usize::from(block.is_empty()));
        // A single block stays for the next timer.
        if guarded.blocks > 1 && guarded.empty.saturating_mul(2) > guarded.blocks {
            // Without memory it goes on so until a row is made.
            let _ = self.make_row(&mut guarded, Some(row), None, &read);
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
            let mut guarded = self.guarded.lock();
            (guarded.blocks, guarded.empty) = (0, 0);
            self.row.take()
        };
        for block in gone.iter().flat_map(|row| &*row.slots).filter_map(RcuArc::take) {
            block.places.iter().filter_map(RcuArc::take).for_each(|timer| f(&timer));
        }
    }

    /// A row of the blocks that have a timer, and of `new`, takes the place of `row`.
    #[cold]
    fn make_row(
        &self,
        guarded: &mut Guarded,
        row: Option<&Row<T>>,
        new: Option<Arc<Block<T>>>,
        read: &RcuRead,
    ) -> Result {
        let added = usize::from(new.is_some());
        self.row.swap(Some(try_arc(Row::try_anew(row, new, read)?)?));
        guarded.blocks = guarded.blocks.saturating_sub(guarded.empty).saturating_add(added);
        guarded.empty = 0;
        Ok(())
    }
}

/// The first number from `id` on that is free. None: there is none up to the last.
fn free_from<T: RcuObject>(row: Option<&Row<T>>, mut id: i32, read: &RcuRead) -> Option<i32> {
    loop {
        let Some(block) = row.and_then(|row| row.block(id, read)) else { return Some(id) };
        if let Some(free) = block.free_from(id) {
            return Some(free);
        }
        id = block.number.checked_add(1)?.checked_mul(BLOCK)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

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
        numbers.guarded.lock().next = next;
        used.iter().for_each(|&id| insert(&numbers, id).unwrap());
        numbers
    }

    fn blocks(numbers: &Numbers<Timer>) -> Vec<i32> {
        let read = rcu::read();
        let row = numbers.row.load(&read);
        let blocks: Vec<&Block<Timer>> =
            row.into_iter().flat_map(|row| &*row.slots).map_while(|slot| slot.load(&read)).collect();
        let guarded = numbers.guarded.lock();
        let empty = blocks.iter().filter(|block| block.is_empty()).count();
        assert_eq!((blocks.len(), empty), (guarded.blocks, guarded.empty), "they are counted");
        assert!(
            blocks.len() < 2 || empty * 2 <= blocks.len(),
            "{empty} of {} blocks are empty",
            blocks.len()
        );
        blocks.iter().map(|block| block.number).collect()
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
        assert_eq!(numbers.guarded.lock().next, 3);
    }

    #[test]
    fn a_timer_is_found_from_its_coming_to_its_going_without_the_lock() {
        let numbers = with(&[0, 63, 64, 1000, i32::MAX], 0);
        assert_eq!(blocks(&numbers), [0, 1, 15, i32::MAX / 64]);
        {
            // Who looked for one under it would wait for ever.
            let _held = numbers.guarded.lock();
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
        assert_eq!(blocks(&numbers), [0, 1, 15, i32::MAX / 64]);
        for id in [0, 63, 1000] {
            assert_eq!(numbers.remove(id).map(|timer| timer.id), Some(id));
        }
        assert_eq!(blocks(&numbers), [i32::MAX / 64], "no more than half of the blocks are empty");
        for id in [1000, 63, 0] {
            insert(&numbers, id).unwrap();
            assert!(numbers.find(id).is_some() && numbers.find(i32::MAX).is_some());
        }
        assert_eq!(blocks(&numbers), [0, 15, i32::MAX / 64], "in order, wherever one comes");
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
