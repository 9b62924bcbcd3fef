//! Pages that are written and given to a pager later, on the software machine: whoever writes, cleans, evicts and truncates at once, the store and the dirty pages together are what
//! was written.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, file, space};
use soft::{read, switch_to, write};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use vm::frame::{OwnedFrame, Pin, SharedBytesMut};
use vm::*;

const WORDS: usize = 512;

/// How a store answers who gives it pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Honest,
    /// Every third time a fatal signal has come.
    Interrupts,
    /// There is no room.
    Full,
}

/// What keeps the pages, as words.
struct Store {
    words: Mutex<Vec<u64>>,
    manner: Mutex<Manner>,
    writes: AtomicU64,
    pages_written: AtomicU64,
    /// Pages counted as dirty, and how often the first was told of.
    dirty: AtomicI64,
    begun: AtomicU64,
    most: AtomicI64,
    /// Cleaned as soon as some page is counted as clean.
    overtaken: Mutex<Option<ObjectRef>>,
}

impl Store {
    fn new(pages: usize) -> Arc<Self> {
        Arc::new(Self {
            words: Mutex::new(vec![0; pages * WORDS]),
            manner: Mutex::new(Manner::Honest),
            writes: AtomicU64::new(0),
            pages_written: AtomicU64::new(0),
            dirty: AtomicI64::new(0),
            begun: AtomicU64::new(0),
            most: AtomicI64::new(i64::MAX),
            overtaken: Mutex::new(None),
        })
    }

    fn object(self: &Arc<Self>) -> ObjectOwner {
        let size = self.words.lock().unwrap().len() as u64 * 8;
        Object::try_owned_paged(1, size, Box::new(Keeps(self.clone())), None).unwrap()
    }

    fn word(&self, page: usize, word: usize) -> u64 {
        self.words.lock().unwrap()[page * WORDS + word]
    }
}

struct Keeps(Arc<Store>);

impl Pager for Keeps {
    fn read(&self, first: u64, count: usize, give: &mut dyn FnMut(OwnedFrame)) -> Result<Asked, VmError> {
        for page in first as usize..first as usize + count {
            let mut frame = vm::frame::alloc_zeroed().ok_or(VmError::NoMemory)?;
            {
                let words = self.0.words.lock().unwrap();
                let Some(from) = words.get(page * WORDS..(page + 1) * WORDS) else { break };
                for (to, word) in frame.bytes().chunks_exact_mut(8).zip(from) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
            }
            thread::yield_now();
            give(frame);
        }
        Ok(Asked::Read)
    }

    fn takes_writes(&self) -> bool {
        true
    }

    fn write(&self, first: u64, pages: &[Pin], end: u64) -> Result<(), VmError> {
        let n = self.0.writes.fetch_add(1, SeqCst);
        match *self.0.manner.lock().unwrap() {
            Manner::Interrupts if n % 3 == 1 => return Err(VmError::Interrupted),
            Manner::Full => return Err(VmError::Full),
            _ => {}
        }
        for (page, pin) in (first as usize..).zip(pages) {
            let mut bytes = [0; PAGE_SIZE];
            pin.bytes().copy_to(&mut bytes);
            {
                let mut words = self.0.words.lock().unwrap();
                if words.len() < (page + 1) * WORDS {
                    words.resize((page + 1) * WORDS, 0);
                }
                // Nothing of it that lies behind the end.
                let within = usize::try_from(end).unwrap().saturating_sub(page * PAGE_SIZE).div_ceil(8);
                for (to, from) in words[page * WORDS..].iter_mut().zip(bytes.chunks_exact(8)).take(within) {
                    *to = u64::from_le_bytes(from.try_into().unwrap());
                }
            }
            self.0.pages_written.fetch_add(1, SeqCst);
            // Others write meanwhile.
            thread::yield_now();
        }
        // And before it is said that this was done.
        thread::sleep(std::time::Duration::from_micros(50));
        Ok(())
    }

    fn count_dirty(&self, n: u64) -> Result<(), VmError> {
        let dirty = self.0.dirty.fetch_add(n as i64, SeqCst) + n as i64;
        if dirty > self.0.most.load(SeqCst) {
            self.0.dirty.fetch_sub(n as i64, SeqCst);
            return Err(VmError::Full);
        }
        Ok(())
    }

    fn count_clean(&self, n: u64) {
        assert!(self.0.dirty.fetch_sub(n as i64, SeqCst) >= n as i64, "more are clean than were dirty");
        // Who wrote a page that was dirty already is overtaken by who cleans it.
        let overtaken = self.0.overtaken.lock().unwrap().take();
        if let Some(object) = overtaken {
            object.write_back(0, ALL, ALL).unwrap();
        }
    }

    fn begin_dirty(&self) -> Result<(), VmError> {
        self.0.begun.fetch_add(1, SeqCst);
        Ok(())
    }
}

/// Bytes to be written, `short` of them at the most.
struct From<'a>(&'a [u8], usize);

impl Source for From<'_> {
    fn take_now(&mut self, _: SharedBytesMut<'_>) -> usize {
        0
    }

    fn take(&mut self, mut bytes: SharedBytesMut<'_>) -> usize {
        let n = bytes.len().min(self.0.len()).min(self.1);
        let (now, later) = self.0.split_at(n);
        bytes.get_mut(0..n).unwrap().copy_from(now.into());
        (self.0, self.1) = (later, self.1 - n);
        n
    }

    fn rest(&mut self) {}
}

fn put(object: &Object, at: u64, bytes: &[u8]) -> Result<usize, VmError> {
    object.write_tracked(at, bytes.len(), &mut From(bytes, usize::MAX))
}

fn get(object: &Object, at: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    object
        .read(at, len, |bytes| {
            let mut piece = vec![0; bytes.len()];
            bytes.copy_to(&mut piece);
            out.extend(piece);
            bytes.len()
        })
        .unwrap();
    out
}

const ALL: u64 = 1 << 40;

#[test]
fn a_mapping_is_written_when_its_page_is_dirty() {
    let _g = alone();
    let store = Store::new(200);
    let owner = store.object();
    let (object, space) = (owner.share(), space());
    let at = space.map(&file(&object, true, 200 * PAGE_SIZE)).unwrap().0;
    assert_eq!(read(&space, at), Ok(0));
    assert_eq!((store.dirty.load(SeqCst), store.begun.load(SeqCst)), (0, 0));
    write(&space, at + 8, 5).unwrap();
    write(&space, at + 16, 6).unwrap();
    write(&space, at + 150 * PAGE_SIZE, 7).unwrap();
    assert_eq!((store.dirty.load(SeqCst), store.begun.load(SeqCst)), (2, 1));
    assert_eq!((store.word(0, 1), object.is_settled()), (0, false));
    assert_eq!(object.write_back(0, ALL, ALL), Ok(2));
    assert_eq!((store.word(0, 1), store.word(0, 2), store.word(150, 0)), (5, 6, 7));
    assert_eq!((store.dirty.load(SeqCst), object.is_settled()), (0, true));
    // Once more, and by another mapping.
    let other = self::space();
    let there = other.map(&file(&object, true, 200 * PAGE_SIZE)).unwrap().0;
    write(&other, there + 8, 8).unwrap();
    switch_to(&space);
    write(&space, at + 16, 9).unwrap();
    assert_eq!((store.dirty.load(SeqCst), store.begun.load(SeqCst)), (1, 2));
    assert_eq!(object.write_back(0, ALL, ALL), Ok(1));
    assert_eq!((store.word(0, 1), store.word(0, 2)), (8, 9));
    assert_eq!(object.write_back(0, ALL, ALL), Ok(0));
}

#[test]
fn what_is_mapped_to_be_written_later_is_dirty_then() {
    let _g = alone();
    let store = Store::new(4);
    let owner = store.object();
    let (object, space) = (owner.share(), space());
    let request = MapRequest { prot: Prot::READ, ..file(&object, true, 4 * PAGE_SIZE) };
    let at = space.map(&request).unwrap().0;
    assert_eq!(read(&space, at), Ok(0));
    space.protect(VirtAddr(at), 4 * PAGE_SIZE, RW).unwrap();
    write(&space, at, 1).unwrap();
    let child = space.fork().unwrap();
    assert_eq!(object.write_back(0, ALL, ALL), Ok(1));
    switch_to(&child);
    write(&child, at, 2).unwrap();
    switch_to(&space);
    // The tracer's and another's way.
    space.write_for_other(VirtAddr(at + PAGE_SIZE), &3u64.to_le_bytes()).unwrap();
    space.write_for_tracer(VirtAddr(at + 2 * PAGE_SIZE), &4u64.to_le_bytes()).unwrap();
    // The mark stays with the object.
    drop(child);
    space.unmap(VirtAddr(at), 4 * PAGE_SIZE).unwrap();
    assert_eq!(store.dirty.load(SeqCst), 3);
    assert_eq!(object.write_back(0, ALL, ALL), Ok(3));
    assert_eq!((store.word(0, 0), store.word(1, 0), store.word(2, 0)), (2, 3, 4));
}

#[test]
fn what_is_written_in_part_is_read_first_and_what_is_whole_is_not() {
    let _g = alone();
    let store = Store::new(4);
    store.words.lock().unwrap().fill(0x0101_0101_0101_0101);
    let owner = store.object();
    let object = owner.share();
    assert_eq!(put(&object, 4000, &[2; 200]), Ok(200));
    assert_eq!(put(&object, 8192, &[3; 4096]), Ok(4096));
    let expected = [vec![1; 4000], vec![2; 200], vec![1; 8192 - 4200], vec![3; 4096], vec![1; 4096]].concat();
    assert!(get(&object, 0, 1 << 20) == expected);
    // Less came than was asked for: what stood there stays.
    assert_eq!(object.write_tracked(3 * 4096, 4096, &mut From(&[4; 4096], 10)), Ok(10));
    assert!(get(&object, 3 * 4096, 4096) == [vec![4; 10], vec![1; 4086]].concat());
    // Behind the end, with a gap that reads zero though a mapping wrote there.
    object.set_size(2 * 4096 + 8).unwrap();
    let space = space();
    let at = space.map(&file(&object, true, 3 * PAGE_SIZE)).unwrap().0;
    write(&space, at + 8192 + 16, 77).unwrap();
    assert_eq!(put(&object, 5 * 4096 + 100, &[5; 10]), Ok(10));
    assert_eq!(object.size(), 5 * 4096 + 110);
    assert_eq!(get(&object, 8192 + 8, 4096 - 8), [0; 4096 - 8]);
    assert!(get(&object, 5 * 4096, 4096) == [vec![0; 100], vec![5; 10]].concat());
    object.write_back(0, ALL, ALL).unwrap();
    assert_eq!((store.dirty.load(SeqCst), store.word(5, 13) & 0xff), (0, 5));
}

#[test]
fn what_is_dirty_is_neither_evicted_nor_replaced_but_cut_off() {
    let _g = alone();
    let store = Store::new(8);
    let owner = store.object();
    let object = owner.share();
    put(&object, 0, &[1; 8 * 4096]).unwrap();
    for _ in 0..4 {
        assert_eq!(object.shed(100), 0);
    }
    object.replace(8 * 4096).unwrap();
    assert_eq!((object.resident_pages(), store.dirty.load(SeqCst)), (8, 8));
    object.set_size(3 * 4096).unwrap();
    assert_eq!((object.resident_pages(), store.dirty.load(SeqCst)), (3, 3));
    assert_eq!(object.write_back(1, 2, ALL), Ok(1));
    object.replace(3 * 4096).unwrap();
    assert_eq!((object.resident_pages(), store.dirty.load(SeqCst)), (2, 2));
    assert_eq!(object.write_back(0, ALL, ALL), Ok(2));
    while object.shed(100) == 0 {}
    assert_eq!((object.resident_pages(), store.pages_written.load(SeqCst)), (0, 3));
}

#[test]
fn a_store_that_fails_keeps_nobody_dirty_and_one_that_waits_does() {
    let _g = alone();
    let store = Store::new(4);
    let owner = store.object();
    let object = owner.share();
    put(&object, 0, &[1; 3 * 4096]).unwrap();
    *store.manner.lock().unwrap() = Manner::Interrupts;
    store.writes.store(1, SeqCst);
    assert_eq!(object.write_back(0, ALL, ALL), Err(VmError::Interrupted));
    assert_eq!((store.dirty.load(SeqCst), object.is_settled()), (3, false));
    *store.manner.lock().unwrap() = Manner::Full;
    assert_eq!(object.write_back(0, ALL, ALL), Err(VmError::Full));
    assert_eq!((store.dirty.load(SeqCst), object.is_settled()), (0, true));
    assert_eq!(get(&object, 4096, 4), [1; 4]);
    // A pager that has enough.
    store.most.store(2, SeqCst);
    assert_eq!(put(&object, 0, &[2; 4 * 4096]), Ok(2 * 4096));
    assert_eq!(put(&object, 3 * 4096, &[2]), Err(VmError::Full));
    let space = space();
    let at = space.map(&file(&object, true, 4 * PAGE_SIZE)).unwrap().0;
    assert_eq!(write(&space, at + 3 * PAGE_SIZE, 1), Err(FaultError::Bus));
    write(&space, at + PAGE_SIZE, 1).unwrap();
    assert_eq!(store.dirty.load(SeqCst), 2);
    *store.manner.lock().unwrap() = Manner::Honest;
    object.write_back(0, ALL, ALL).unwrap();
}

/// Pages that are always there, and those that a truncation takes away now and then.
const STAY: usize = 80;
const PAGES: usize = 100;
const MAPPED: usize = 3;
/// The words from here on are written by write(2).
const BY_CALL: usize = 256;

#[test]
fn whoever_writes_cleans_evicts_and_truncates_at_once_the_last_write_of_each_word_wins() {
    let _g = alone();
    for round in 0..12u64 {
        let store = Store::new(PAGES);
        *store.manner.lock().unwrap() = if round % 2 == 0 { Manner::Honest } else { Manner::Interrupts };
        let owner = store.object();
        let object = owner.share();
        let space = space();
        let at = space.map(&file(&object, true, PAGES * PAGE_SIZE)).unwrap().0;
        let (is_over, write_lock, turn) = (AtomicBool::new(false), Mutex::new(()), Mutex::new(()));
        let expected = Mutex::new(vec![[0u64; WORDS]; STAY]);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..MAPPED)
                .map(|me| {
                    let (space, expected) = (&space, &expected);
                    scope.spawn(move || {
                        switch_to(space);
                        let mut last = [0u64; STAY];
                        let mut random = round * 77 + me as u64 + 1;
                        for n in 1..3000u64 {
                            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let page = (random >> 33) as usize % PAGES;
                            let word = at + page * PAGE_SIZE + me * 8;
                            if page >= STAY {
                                assert!(matches!(write(space, word, n), Ok(()) | Err(FaultError::Bus)));
                                continue;
                            }
                            assert_eq!(read(space, word), Ok(last[page]), "page {page}");
                            write(space, word, n).unwrap();
                            last[page] = n;
                        }
                        let mut expected = expected.lock().unwrap();
                        (0..STAY).for_each(|page| expected[page][me] = last[page]);
                    })
                })
                .collect();
            let caller = scope.spawn(|| {
                let mut last = [0u64; STAY];
                let mut random = round + 5;
                for n in 1..600u64 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let page = (random >> 33) as usize % STAY;
                    let bytes: Vec<u8> = n.to_le_bytes().repeat(WORDS - BY_CALL);
                    let _lock = write_lock.lock().unwrap();
                    let place = (page * PAGE_SIZE + BY_CALL * 8) as u64;
                    assert_eq!(get(&object, place, 8), last[page].to_le_bytes(), "page {page}");
                    assert_eq!(put(&object, place, &bytes), Ok(bytes.len()));
                    last[page] = n;
                }
                let mut expected = expected.lock().unwrap();
                (0..STAY).for_each(|page| expected[page][BY_CALL..].fill(last[page]));
            });
            let cleaner = scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    let _turn = turn.lock().unwrap();
                    let said = object.write_back(0, ALL, 64);
                    assert!(matches!(said, Ok(_) | Err(VmError::Interrupted)), "{said:?}");
                }
            });
            let evictor = scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    object.shed(30);
                    thread::yield_now();
                }
            });
            let truncater = scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    {
                        let (_lock, _turn) = (write_lock.lock().unwrap(), turn.lock().unwrap());
                        store.words.lock().unwrap().truncate(STAY * WORDS);
                        object.set_size((STAY * PAGE_SIZE) as u64).unwrap();
                        thread::yield_now();
                        object.set_size((PAGES * PAGE_SIZE) as u64).unwrap();
                    }
                    thread::sleep(std::time::Duration::from_millis(2));
                }
            });
            let done: Vec<_> = writers.into_iter().chain([caller]).map(|writer| writer.join()).collect();
            is_over.store(true, SeqCst);
            let rest = [cleaner, evictor, truncater].map(|other| other.join());
            done.into_iter().chain(rest).for_each(|ended| ended.unwrap());
        });
        *store.manner.lock().unwrap() = Manner::Honest;
        object.write_back(0, ALL, ALL).unwrap();
        assert_eq!((store.dirty.load(SeqCst), object.is_settled()), (0, true));
        let (words, expected) = (store.words.lock().unwrap().clone(), expected.lock().unwrap());
        for (page, expected) in expected.iter().enumerate() {
            let has = &words[page * WORDS..(page + 1) * WORDS];
            assert!(has == expected, "page {page} of round {round}: the store has other words");
        }
        // Of what was cut off now and then both have the same.
        for page in STAY..words.len() / WORDS {
            let shown = get(&object, (page * PAGE_SIZE) as u64, PAGE_SIZE);
            let has: Vec<u8> =
                words[page * WORDS..(page + 1) * WORDS].iter().flat_map(|w| w.to_le_bytes()).collect();
            assert!(shown == has, "page {page} of round {round}");
        }
        drop(space);
    }
}

#[test]
fn a_page_that_is_written_while_others_flush_is_dirty_or_its_bytes_are_given() {
    let _g = alone();
    let store = Store::new(2);
    let owner = store.object();
    let (object, space) = (owner.share(), space());
    let at = space.map(&file(&object, true, 2 * PAGE_SIZE)).unwrap().0;
    write(&space, at, 1).unwrap();
    let (there, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            switch_to(&space);
            for n in 2..2000 {
                write(&space, at, n).unwrap();
                there.store(n, SeqCst);
            }
        });
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                // What was written before cleaning began is in the store or dirty afterwards.
                let before = there.load(SeqCst);
                object.write_back(0, ALL, ALL).unwrap();
                assert!(store.word(0, 0) >= before);
            }
        });
        writer.join().unwrap();
        is_over.store(true, SeqCst);
    });
}

#[test]
fn what_is_appended_is_given_as_far_as_it_reaches_though_others_clean() {
    let _g = alone();
    let store = Store::new(0);
    let owner = store.object();
    let object = owner.share();
    for n in 0..4 {
        assert_eq!(put(&object, n * 8, &(n + 1).to_le_bytes()), Ok(8));
        *store.overtaken.lock().unwrap() = Some(owner.share());
    }
    *store.overtaken.lock().unwrap() = None;
    object.write_back(0, ALL, ALL).unwrap();
    assert_eq!((object.size(), &store.words.lock().unwrap()[..5]), (32, &[1, 2, 3, 4, 0][..]));
}

#[test]
fn what_is_appended_beside_a_cleaner_is_given() {
    let _g = alone();
    const APPENDED: u64 = 3 * WORDS as u64;
    let store = Store::new(0);
    let owner = store.object();
    let (object, is_over) = (owner.share(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                object.write_back(0, ALL, ALL).unwrap();
            }
        });
        for n in 0..APPENDED {
            assert_eq!(put(&object, n * 8, &(n + 1).to_le_bytes()), Ok(8));
        }
        is_over.store(true, SeqCst);
    });
    object.write_back(0, ALL, ALL).unwrap();
    let words = store.words.lock().unwrap();
    let lost = (0..APPENDED).find(|n| words[*n as usize] != n + 1);
    assert_eq!((lost, object.size()), (None, APPENDED * 8));
}
