//! What a server has said of a directory's names, kept while that is believed: a directory that is listed again costs no message.
//!
//! A listing is the server's answers as they came ([`Part`]), one behind the other, each with an index of its positions. It grows as far as somebody reads: who comes to
//! its end asks for the next part and puts it there; of two at once one's is kept. A position is the server's offset in a listing as without one, so who began in the one goes
//! on in the other.
//!
//! ```text
//!  place (of the inode) ──rcu──► listing: until when it is believed
//!                                   ├ part 0: begins at 2,   names, index, ends at 731
//!                                   ├ part 1: begins at 731, names, index, ends at 1460
//!                                   └ part 2: (nothing yet)
//! ```
//!
//! **It goes** when its time is over and somebody lists the directory anew, when the directory is seen to have changed, when this client changes it, and for want of
//! memory. A listing that is read meanwhile is read to its end; what is put into one that has gone is seen by nobody else. A change puts nothing in its place, and a new
//! one is in its place before the server is first asked: so what it says is no older than the change.
//!
//! **Who lists** looks at it within a read section and writes nothing of it, up to a number of names; one who goes on counts a reference. To find where a
//! position is, each part's index is asked, of 128 at most.
//!
//! **Memory**: a directory's listing has at most `MOST` parts of 32 KiB (some 100,000 names) and their indexes; all together have a 64th of memory, where the oldest go first. What
//! does not fit is asked for each time. Where memory is scarce they do not grow, and go (`InodeOps::shed`).
//!
//! Lock order: the queue is innermost; nothing is freed under it.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use sync::rcu::{self, RcuArc, RcuHead};
use sync::{SpinLock, TryVec, lock_class, try_arc, try_box};
use vm::{OnceBox, PAGE_SIZE};

use super::directory::{FIRST, position_of};
use super::message::{self, Entry};
use crate::errno::Result;
use crate::lock_order as level;
use crate::sort;

lock_class! { static QUEUE_CLASS: LockClass = ("remote listings", level::RemoteListings); }

/// Parts of a listing.
const MOST: usize = 128;
/// Names that are listed in one read section.
const TURN: usize = 1024;
/// The part of memory that all listings may have.
const SHARE: usize = 64;
/// Listings that go at once where there are too many bytes: what they have is free after a grace period.
const BATCH: usize = 8;

/// Bytes of all parts.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// Places that have a listing, or had one, the oldest first.
static QUEUE: SpinLock<VecDeque<Weak<Place>>, level::RemoteListings> =
    SpinLock::new(VecDeque::new(), &QUEUE_CLASS);

/// A directory's place for its listing.
pub struct Place {
    now: RcuArc<Listing>,
    is_queued: AtomicBool,
    /// It was read since memory was last asked back from it.
    is_used: AtomicBool,
}

pub struct Listing {
    /// Nanoseconds since boot.
    until: u64,
    first: OnceBox<Part>,
    more: OnceBox<[OnceBox<Part>; MOST - 1]>,
    rcu: RcuHead,
}

sync::rcu_object!(Listing);

/// One answer of the server's.
pub struct Part {
    /// Positions.
    begins: u64,
    ends: u64,
    /// There are no names behind it.
    is_last: bool,
    /// As they came, and checked.
    names: Vec<u8>,
    /// Where the names begin that are behind each position: byte of `names`. In the order of positions.
    index: Vec<(u64, u32)>,
    counted: usize,
}

/// Where a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    part: usize,
    byte: usize,
    pub position: u64,
}

impl Spot {
    pub const BEGIN: Spot = Spot { part: 0, byte: 0, position: FIRST };
}

/// How listing some names ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All is said, or `emit` has had enough.
    Done,
    /// There may be more that the listing has.
    Turn,
    /// What comes now is not in the listing.
    Beyond,
}

/// What a directory's place had for a reader.
pub enum Met {
    /// Everything that was wanted.
    Done,
    /// A listing that is to be read on from there.
    Listing(Arc<Listing>, Spot),
    /// None that is believed, or none with that position.
    Nothing,
}

impl Part {
    /// What the server answered to who asked at `begins`: `names`, which are its bytes.
    ///
    /// # Errors
    /// EIO: they are none. ENOMEM.
    pub fn try_new(begins: u64, names: Vec<u8>) -> Result<Part> {
        let (mut index, mut ends) = (Vec::new(), begins);
        let mut left = message::entries(&names);
        while let Some(entry) = message::entry(&mut left)? {
            ends = position_of(entry.next);
            index.try_push((ends, names.len().saturating_sub(left.left()) as u32))?;
        }
        // Most servers' positions rise.
        if !index.is_sorted() {
            sort::by_key(&mut index, |(position, _)| *position);
        }
        let counted = names
            .capacity()
            .saturating_add(index.capacity().saturating_mul(size_of::<(u64, u32)>()))
            .saturating_add(size_of::<Part>());
        BYTES.fetch_add(counted, Relaxed);
        Ok(Part { begins, ends, is_last: names.is_empty(), names, index, counted })
    }

    fn find(&self, position: u64) -> Option<usize> {
        if position == self.begins {
            return Some(0);
        }
        let at = self.index.binary_search_by_key(&position, |(position, _)| *position).ok()?;
        self.index.get(at).map(|(_, byte)| *byte as usize)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.counted, Relaxed);
    }
}

impl Listing {
    fn part(&self, n: usize) -> Option<&Part> {
        self.place(n)?.get()
    }

    fn place(&self, n: usize) -> Option<&OnceBox<Part>> {
        match n.checked_sub(1) {
            None => Some(&self.first),
            Some(n) => self.more.get()?.get(n),
        }
    }

    fn find(&self, position: u64) -> Option<Spot> {
        for n in 0..MOST {
            let Some(part) = self.part(n) else {
                // Somebody asks for the first part just now.
                return (n == 0 && position == FIRST).then_some(Spot::BEGIN);
            };
            if let Some(byte) = part.find(position) {
                return Some(Spot { part: n, byte, position });
            }
        }
        None
    }

    /// Shows names from `spot` on to `emit`, which does not sleep, until it refuses one; `spot` goes on.
    pub fn emit(&self, spot: &mut Spot, emit: &mut dyn FnMut(&Entry<'_>) -> bool) -> Ended {
        let mut left = TURN;
        while let Some(part) = self.part(spot.part) {
            let mut names = message::entries(part.names.get(spot.byte..).unwrap_or(&[]));
            // It was checked when it came.
            while let Ok(Some(entry)) = message::entry(&mut names) {
                if !entry.is_dots() && !emit(&entry) {
                    return Ended::Done;
                }
                *spot = Spot {
                    byte: part.names.len().saturating_sub(names.left()),
                    position: position_of(entry.next),
                    ..*spot
                };
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ended::Turn;
                }
            }
            if part.is_last {
                return Ended::Done;
            }
            *spot = Spot { part: spot.part.saturating_add(1), byte: 0, position: part.ends };
        }
        Ended::Beyond
    }

    /// Is there room for one more part at `spot`, and memory?
    pub fn may_grow(&self, spot: &Spot) -> bool {
        spot.part < MOST && !vm::frame::is_scarce() && make_room()
    }

    /// Puts what the server said at `spot` there, if nothing is. False: for want of memory it did not.
    pub fn put(&self, spot: &Spot, part: Part) -> bool {
        if spot.part > 0 && self.more.get_or_try(|| try_box([const { OnceBox::new() }; MOST - 1])).is_err() {
            return false;
        }
        self.place(spot.part).is_some_and(|place| place.get_or_try(|| try_box(part)).is_ok())
    }

    fn bytes(&self) -> usize {
        (0..MOST).map_while(|n| self.part(n)).map(|part| part.counted).sum()
    }
}

impl Place {
    pub fn try_new() -> Result<Arc<Place>> {
        let (is_queued, is_used) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(try_arc(Place { now: RcuArc::empty(), is_queued, is_used })?)
    }

    /// Shows `emit` the names from `position` on, as far as a listing has them that is believed at `at`.
    pub fn list(&self, position: u64, at: u64, emit: &mut dyn FnMut(&Entry<'_>) -> bool) -> Met {
        let read = rcu::read();
        let Some(listing) = self.now.load(&read).filter(|listing| at < listing.until) else {
            return Met::Nothing;
        };
        let Some(mut spot) = listing.find(position) else { return Met::Nothing };
        if !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
        match listing.emit(&mut spot, emit) {
            Ended::Done => Met::Done,
            // Another may have put one there meanwhile, which does not have the spot.
            Ended::Turn | Ended::Beyond => match self.now.get(&read) {
                Some(same) if core::ptr::eq(&*same, listing) => Met::Listing(same, spot),
                _ => Met::Nothing,
            },
        }
    }

    /// Puts a new listing there, which is believed until then, and has nothing yet.
    pub fn begin(self: &Arc<Self>, until: u64) -> Result<Arc<Listing>> {
        let (first, more) = (OnceBox::new(), OnceBox::new());
        let listing = try_arc(Listing { until, first, more, rcu: RcuHead::new() })?;
        if !self.is_queued.swap(true, Relaxed) {
            let mut queue = QUEUE.lock();
            // Those whose directories are gone.
            while queue.front().is_some_and(|place| place.strong_count() == 0) {
                queue.pop_front();
            }
            let has_place = queue.try_reserve(1).is_ok();
            if has_place {
                queue.push_back(Arc::downgrade(self));
            }
            drop(queue);
            self.is_queued.store(has_place, Relaxed);
        }
        self.now.swap(Some(listing.clone()));
        Ok(listing)
    }

    /// The names are others by now.
    pub fn clear(&self) {
        if !self.now.is_empty() {
            self.now.swap(None);
        }
    }

    /// Memory is scarce: gives back the listing, if nobody has read it since this was last asked. How many pages it had.
    pub fn shed(&self) -> u64 {
        if self.now.is_empty() || self.is_used.swap(false, Relaxed) {
            return 0;
        }
        let bytes = self.now.take().map_or(0, |listing| listing.bytes());
        bytes.div_ceil(PAGE_SIZE) as u64
    }
}

/// May there be more bytes than there are? The oldest listings go where there are too many.
fn make_room() -> bool {
    let most = (vm::frame::total_frames() as usize).saturating_mul(PAGE_SIZE) / SHARE;
    for _ in 0..BATCH {
        if BYTES.load(Relaxed) < most {
            return true;
        }
        let oldest = QUEUE.lock().pop_front();
        match oldest {
            None => return false,
            Some(place) => {
                if let Some(place) = place.upgrade() {
                    place.is_queued.store(false, Relaxed);
                    place.clear();
                }
            }
        }
    }
    BYTES.load(Relaxed) < most
}

const _: () = assert!(size_of::<Option<Box<Part>>>() == size_of::<usize>());

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn entry(next: u64, name: &[u8]) -> Vec<u8> {
        let len = (name.len() as u16).to_le_bytes();
        [&[0u8; 13][..], &next.to_le_bytes(), &[8], &len, name].concat()
    }

    fn part(begins: u64, entries: &[(u64, &[u8])]) -> Part {
        let bytes = entries.iter().flat_map(|(next, name)| entry(*next, name)).collect();
        Part::try_new(begins, bytes).unwrap()
    }

    fn listing() -> Arc<Listing> {
        let listing = Place::try_new().unwrap().begin(10).unwrap();
        // Positions that do not rise.
        let parts = [
            part(FIRST, &[(70, b"."), (50, b"a"), (90, b"b")]),
            part(90, &[(30, b"c"), (80, b"d")]),
            part(80, &[]),
        ];
        let (mut n, mut position) = (0, FIRST);
        for part in parts {
            let spot = Spot { part: n, byte: 0, position };
            (n, position) = (n + 1, part.ends);
            assert!(listing.put(&spot, part));
        }
        listing
    }

    fn names(listing: &Listing, mut spot: Spot, most: usize) -> (Vec<Vec<u8>>, Ended) {
        let mut names = vec![];
        let ended = listing.emit(&mut spot, &mut |entry| {
            names.push(entry.name.to_vec());
            names.len() < most
        });
        (names, ended)
    }

    #[test]
    fn it_is_read_on_from_any_position_of_it() {
        crate::testing::in_process(|| {
            let listing = listing();
            let all = [&b"a"[..], b"b", b"c", b"d"];
            for (position, from) in [(FIRST, 0), (70, 0), (50, 1), (90, 2), (30, 3), (80, 4)] {
                let spot = listing.find(position).unwrap();
                assert_eq!(
                    names(&listing, spot, 9),
                    (all[from..].iter().map(|n| n.to_vec()).collect(), Ended::Done)
                );
            }
            assert_eq!(names(&listing, Spot::BEGIN, 2).0, [b"a", b"b"]);
            assert!(listing.find(51).is_none());
        });
    }

    #[test]
    fn what_it_has_not_is_asked_for_and_of_two_one_is_kept() {
        let listing = Place::try_new().unwrap().begin(10).unwrap();
        assert_eq!(names(&listing, Spot::BEGIN, 9), (vec![], Ended::Beyond));
        assert!(listing.put(&Spot::BEGIN, part(FIRST, &[(3, b"a")])));
        assert!(listing.put(&Spot::BEGIN, part(FIRST, &[(4, b"x")])));
        assert_eq!(names(&listing, Spot::BEGIN, 9), (vec![b"a".to_vec()], Ended::Beyond));
        let far = Spot { part: MOST, byte: 0, position: 9 };
        assert!(!listing.may_grow(&far) && !listing.put(&far, part(9, &[])));
    }

    #[test]
    fn a_server_whose_positions_stand_still_is_read_no_further_than_there_are_parts() {
        let listing = Place::try_new().unwrap().begin(10).unwrap();
        for n in 0..MOST {
            assert!(listing.put(&Spot { part: n, byte: 0, position: 5 }, part(5, &[(5, b"a")])));
        }
        assert_eq!(names(&listing, Spot::BEGIN, usize::MAX), (vec![b"a".to_vec(); MOST], Ended::Beyond));
    }

    #[test]
    fn it_is_believed_until_its_time_is_over_and_gone_when_names_change() {
        let place = Place::try_new().unwrap();
        let met = |position, at| match place.list(position, at, &mut |_| true) {
            Met::Done => 'd',
            Met::Listing(..) => 'l',
            Met::Nothing => 'n',
        };
        assert_eq!(met(FIRST, 0), 'n');
        let listing = place.begin(10).unwrap();
        assert_eq!((met(FIRST, 9), met(FIRST, 10), met(7, 9)), ('l', 'n', 'n'));
        listing.put(&Spot::BEGIN, part(FIRST, &[]));
        assert_eq!(met(FIRST, 9), 'd');
        place.clear();
        assert_eq!(met(FIRST, 9), 'n');
    }

    #[test]
    fn memory_comes_back_from_what_nobody_reads() {
        let place = Place::try_new().unwrap();
        assert_eq!(place.shed(), 0);
        let listing = place.begin(10).unwrap();
        listing.put(&Spot::BEGIN, part(FIRST, &[(3, b"a")]));
        place.list(FIRST, 0, &mut |_| true);
        assert_eq!((place.shed(), place.shed(), place.shed()), (0, 1, 0));
    }
}
