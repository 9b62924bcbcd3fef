//! Objects whose pages come from elsewhere, on the software machine: what is asked for, once, and what is believed of the answers.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{alone, file, space};
use soft::{read, switch_to, write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use vm::frame::OwnedFrame;
use vm::*;

/// What a source does that is asked for pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Honest,
    /// Gives so many of them.
    Gives(usize),
    /// Gives so many, and says that it failed.
    Fails(usize),
    /// Is honest, but says at first that another has read.
    Waits,
}

/// A source each of whose pages begins with its number and the contents' number.
struct Source {
    contents: AtomicU64,
    /// Pages that it has.
    pages: AtomicU64,
    asked: Mutex<Vec<(u64, usize)>>,
    manner: Mutex<Manner>,
}

impl Source {
    fn new(pages: u64) -> Arc<Self> {
        Arc::new(Self {
            contents: AtomicU64::new(0),
            pages: AtomicU64::new(pages),
            asked: Mutex::new(Vec::new()),
            manner: Mutex::new(Manner::Honest),
        })
    }

    fn value(&self, page: u64) -> u64 {
        (self.contents.load(SeqCst) << 32) | (page + 1)
    }

    fn object(self: &Arc<Self>, size: u64) -> ObjectOwner {
        Object::try_owned_paged(1, size, Box::new(Asks(self.clone())), None).unwrap()
    }

    fn asked(&self) -> Vec<(u64, usize)> {
        core::mem::take(&mut self.asked.lock().unwrap())
    }
}

struct Asks(Arc<Source>);

impl Pager for Asks {
    fn read(&self, first: u64, count: usize, give: &mut dyn FnMut(OwnedFrame)) -> Result<Asked, VmError> {
        let source = &self.0;
        source.asked.lock().unwrap().push((first, count));
        let manner = *source.manner.lock().unwrap();
        let gives = match manner {
            Manner::Honest => count,
            Manner::Waits => {
                *source.manner.lock().unwrap() = Manner::Honest;
                return Ok(Asked::Waited);
            }
            Manner::Gives(n) | Manner::Fails(n) => n,
        };
        for page in (first..first + gives as u64).take_while(|&page| page < source.pages.load(SeqCst)) {
            let mut frame = vm::frame::alloc_zeroed().ok_or(VmError::NoMemory)?;
            frame.bytes()[..8].copy_from_slice(&source.value(page).to_le_bytes());
            if gives > 1 {
                // Others change what there is meanwhile.
                thread::yield_now();
            }
            give(frame);
        }
        if let Manner::Fails(_) = manner { Err(VmError::Io) } else { Ok(Asked::Read) }
    }
}

fn word(object: &Object, page: u64) -> Result<u64, VmError> {
    let mut word = [0; 8];
    let n = object.read(page * 4096, 8, |bytes| bytes.copy_to(&mut word))?;
    assert_eq!(n, 8, "page {page}");
    Ok(u64::from_le_bytes(word))
}

#[test]
fn a_page_is_asked_for_once_whoever_reads_or_maps_it() {
    let _g = alone();
    let source = Source::new(64);
    let owner = source.object(64 * 4096);
    let object = owner.share();
    let s = space();
    let shared = s.map(&MapRequest { prot: Prot::READ, ..file(&object, true, 64 * 4096) }).unwrap().0;
    let private = s.map(&file(&object, false, 64 * 4096)).unwrap().0;
    assert_eq!(read(&s, shared + 9 * 4096), Ok(10));
    assert_eq!(source.asked(), [(9, 4)]);
    assert_eq!((word(&object, 9), read(&s, private + 11 * 4096)), (Ok(10), Ok(12)));
    write(&s, private + 10 * 4096, 7).unwrap();
    assert_eq!((word(&object, 10), read(&s, private + 10 * 4096)), (Ok(11), Ok(7)));
    assert_eq!(source.asked(), []);
    // Up to a page that is there.
    assert_eq!(word(&object, 7), Ok(8));
    assert_eq!(source.asked(), [(7, 2)]);
    assert_eq!(object.resident_pages(), 6);
    // A write to a private page reads it first.
    write(&s, private + 40 * 4096 + 8, 7).unwrap();
    assert_eq!((read(&s, private + 40 * 4096), read(&s, shared + 40 * 4096 + 8)), (Ok(41), Ok(0)));
    assert_eq!(source.asked(), [(40, 4)]);
}

#[test]
fn who_reads_on_gets_more_each_time_and_who_jumps_gets_little() {
    let _g = alone();
    let source = Source::new(2048);
    let owner = source.object(2048 * 4096 - 100);
    let object = owner.share();
    let mut read = 0;
    object
        .read(0, usize::MAX >> 1, |bytes| {
            read += bytes.len();
            bytes.len()
        })
        .unwrap();
    assert_eq!(read, 2048 * 4096 - 100);
    let asked = source.asked();
    assert_eq!(asked[..6], [(0, 8), (8, 16), (24, 32), (56, 64), (120, 128), (248, 128)]);
    assert_eq!(asked.iter().map(|(_, count)| count).sum::<usize>(), 2048);
    object.replace(2048 * 4096).unwrap();
    for page in [1000, 3, 500, 2040] {
        assert_eq!(word(&object, page), Ok(page + 1));
    }
    assert_eq!(source.asked(), [(1000, 4), (3, 4), (500, 4), (2040, 4)]);
}

#[test]
fn a_source_that_fails_is_told_of_and_asked_again() {
    let _g = alone();
    let source = Source::new(16);
    let owner = source.object(16 * 4096);
    let object = owner.share();
    let s = space();
    let a = s.map(&MapRequest { prot: Prot::READ, ..file(&object, true, 16 * 4096) }).unwrap().0;
    *source.manner.lock().unwrap() = Manner::Fails(0);
    assert_eq!(word(&object, 3), Err(VmError::Io));
    assert_eq!(read(&s, a + 3 * 4096), Err(FaultError::Bus));
    assert_eq!(object.resident_pages(), 0);
    // What came is good.
    *source.manner.lock().unwrap() = Manner::Fails(2);
    assert_eq!((word(&object, 3), word(&object, 4), object.resident_pages()), (Ok(4), Ok(5), 2));
    let mut read = 0;
    let mut count = |bytes: vm::frame::SharedBytes<'_>| {
        read += bytes.len();
        bytes.len()
    };
    *source.manner.lock().unwrap() = Manner::Fails(0);
    assert_eq!(object.read(3 * 4096, 8 * 4096, &mut count), Ok(2 * 4096));
    *source.manner.lock().unwrap() = Manner::Honest;
    assert_eq!(object.read(3 * 4096, 8 * 4096, &mut count), Ok(8 * 4096));
    assert_eq!(read, 10 * 4096);
}

#[test]
fn a_source_that_gives_too_much_or_too_little_gives_no_page_that_it_has_not() {
    let _g = alone();
    let source = Source::new(16);
    let owner = source.object(16 * 4096);
    let object = owner.share();
    *source.manner.lock().unwrap() = Manner::Gives(9);
    assert_eq!((word(&object, 2), object.resident_pages()), (Ok(3), 4));
    *source.manner.lock().unwrap() = Manner::Waits;
    source.asked();
    assert_eq!((word(&object, 7), source.asked()), (Ok(8), vec![(7, 4), (7, 4)]));
    *source.manner.lock().unwrap() = Manner::Gives(1);
    assert_eq!((word(&object, 12), object.resident_pages()), (Ok(13), 9));
    // It has become shorter, and nobody has said so: zeros, as on Linux.
    source.pages.store(13, SeqCst);
    assert_eq!((word(&object, 13), word(&object, 15)), (Ok(0), Ok(0)));
    // Nobody reads past the end.
    assert_eq!(object.read(16 * 4096, 1, |_| panic!("there is nothing")), Ok(0));
    assert_eq!(object.seek(3, 16, true), Some(3));
    assert_eq!(object.seek(3, 16, false), None);
}

#[test]
fn pages_are_given_back_and_read_again() {
    let _g = alone();
    let source = Source::new(512);
    let owner = source.object(512 * 4096);
    let object = owner.share();
    let s = space();
    let a = s.map(&MapRequest { prot: Prot::READ, ..file(&object, true, 512 * 4096) }).unwrap().0;
    for page in 0..512 {
        assert_eq!(read(&s, a + page * 4096), Ok(page as u64 + 1));
    }
    assert_eq!((object.shed(100), object.resident_pages()), (0, 512), "they have just been read");
    // By the tables of 64 slots, from the start on.
    assert_eq!((object.shed(100), object.resident_pages()), (128, 384));
    assert_eq!((object.shed(1), object.resident_pages()), (64, 320));
    source.asked();
    assert_eq!((read(&s, a + 192 * 4096), source.asked()), (Ok(193), vec![]));
    assert_eq!((read(&s, a + 191 * 4096), source.asked()), (Ok(192), vec![(191, 1)]));
    assert_eq!((object.shed(u64::MAX), object.shed(u64::MAX), object.resident_pages()), (0, 320, 1));
    assert_eq!((object.shed(1), object.resident_pages()), (1, 0), "the hand begins anew");
    assert_eq!(object.shed(1), 0);
}

#[test]
fn when_the_contents_are_others_nobody_sees_those_before() {
    let _g = alone();
    let source = Source::new(16);
    let owner = source.object(16 * 4096);
    let object = owner.share();
    let s = space();
    let shared = s.map(&MapRequest { prot: Prot::READ, ..file(&object, true, 16 * 4096) }).unwrap().0;
    let private = s.map(&file(&object, false, 16 * 4096)).unwrap().0;
    assert_eq!((read(&s, shared), read(&s, private + 4096)), (Ok(1), Ok(2)));
    write(&s, private + 2 * 4096, 7).unwrap();
    source.contents.store(1, SeqCst);
    object.replace(8 * 4096 + 10).unwrap();
    assert_eq!((read(&s, shared), read(&s, private + 4096)), (Ok(1 << 32 | 1), Ok(1 << 32 | 2)));
    assert_eq!(read(&s, private + 2 * 4096), Ok(7), "a private copy stays");
    assert_eq!(read(&s, shared + 9 * 4096), Err(FaultError::Bus));
    assert_eq!((object.pages(), object.size()), (9, 8 * 4096 + 10));
}

#[test]
fn readers_of_contents_that_change_are_never_left_with_those_before() {
    let _g = alone();
    let source = Source::new(16);
    let owner = source.object(16 * 4096);
    let object = owner.share();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for me in 0..3 {
            let (object, source, done) = (&object, &source, &done);
            scope.spawn(move || {
                let s = space();
                let prot = Prot::READ;
                let a = s.map(&MapRequest { prot, ..file(object, true, 16 * 4096) }).unwrap().0;
                switch_to(&s);
                let mut page = me;
                while done.load(SeqCst) == 0 {
                    page = (page + 5) % 16;
                    // What was replaced before it was asked for is not seen.
                    let before = source.contents.load(SeqCst).saturating_sub(1);
                    let seen = if me == 0 {
                        word(object, page).unwrap()
                    } else {
                        read(&s, a + page as usize * 4096).unwrap()
                    };
                    assert_eq!(seen as u32, page as u32 + 1);
                    assert!(seen >> 32 >= before, "contents {} after {before}", seen >> 32);
                }
                drop(s);
                sync::rcu::drain();
            });
        }
        for contents in 1..400 {
            source.contents.store(contents, SeqCst);
            object.replace(16 * 4096).unwrap();
            thread::yield_now();
        }
        done.store(1, SeqCst);
    });
}

#[test]
fn what_is_its_own_is_asked_for_no_more_and_stays() {
    let _g = alone();
    let source = Source::new(8);
    let owner = source.object(8 * 4096 - 100);
    let object = owner.share();
    let s = space();
    let shared = s.map(&MapRequest { prot: Prot::READ, ..file(&object, true, 8 * 4096) }).unwrap().0;
    assert_eq!(read(&s, shared + 3 * 4096), Ok(4));
    assert_eq!(object.own(u64::MAX, &|| false), Ok(true));
    assert!(!object.is_paged());
    source.contents.store(1, SeqCst);
    source.asked();
    assert_eq!((object.resident_pages(), object.size()), (8, 8 * 4096 - 100));
    assert_eq!((object.shed(100), object.shed(100)), (0, 0));
    assert!((0..8).all(|page| word(&object, page) == Ok(page + 1)));
    // Who has it mapped sees what is written.
    object.write(3 * 4096, 8, |mut bytes| bytes.copy_from(77u64.to_le_bytes()[..].into())).unwrap();
    assert_eq!(read(&s, shared + 3 * 4096), Ok(77));
    object.set_size(1000 * 4096).unwrap();
    assert_eq!(word(&object, 900), Ok(0));
    assert_eq!(source.asked(), []);
}

#[test]
fn what_is_cut_is_not_asked_for() {
    let _g = alone();
    let source = Source::new(64);
    let owner = source.object(64 * 4096);
    let object = owner.share();
    assert_eq!(word(&object, 20), Ok(21));
    source.asked();
    assert_eq!(object.own(4096 + 8, &|| false), Ok(true));
    assert!(source.asked().iter().all(|&(page, _)| page < 2));
    assert_eq!((object.size(), object.resident_pages()), (4096 + 8, 2));
    object.set_size(64 * 4096).unwrap();
    assert_eq!((word(&object, 1), word(&object, 2), word(&object, 20)), (Ok(2), Ok(0), Ok(0)));
    let empty = source.object(64 * 4096);
    source.asked();
    assert_eq!(empty.share().own(0, &|| false), Ok(true));
    assert_eq!((source.asked(), empty.share().size()), (Vec::new(), 0));
}

#[test]
fn what_cannot_be_brought_in_is_as_before() {
    let _g = alone();
    let budget = Budget::try_new().unwrap();
    budget.set_limit(BudgetKind::Pages, Some(63));
    let source = Source::new(64);
    let asks = Box::new(Asks(source.clone()));
    let owner = Object::try_owned_paged(1, 64 * 4096, asks, Some(budget.share())).unwrap();
    let object = owner.share();
    assert_eq!(word(&object, 5), Ok(6));
    assert_eq!((object.own(u64::MAX, &|| false), budget.used(BudgetKind::Pages)), (Err(VmError::Full), 0));
    budget.set_limit(BudgetKind::Pages, Some(64));
    *source.manner.lock().unwrap() = Manner::Fails(0);
    assert_eq!((object.own(u64::MAX, &|| false), budget.used(BudgetKind::Pages)), (Err(VmError::Io), 0));
    *source.manner.lock().unwrap() = Manner::Honest;
    assert_eq!((object.own(u64::MAX, &|| true), budget.used(BudgetKind::Pages)), (Ok(false), 0));
    assert!(object.is_paged());
    // Given back, as before.
    object.shed(100);
    assert!(object.shed(100) > 0);
    source.contents.store(1, SeqCst);
    assert_eq!(word(&object, 5), Ok((1 << 32) | 6));
    assert_eq!((object.own(u64::MAX, &|| false), budget.used(BudgetKind::Pages)), (Ok(true), 64));
    object.set_size(10 * 4096).unwrap();
    assert_eq!(budget.used(BudgetKind::Pages), 10);
    drop((object, owner));
    assert_eq!((budget.used(BudgetKind::Pages), budget.used(BudgetKind::Tables)), (0, 0));
}

#[test]
fn readers_and_mappings_of_what_becomes_its_own_see_each_page() {
    let _g = alone();
    for round in 0..50 {
        let budget = Budget::try_new().unwrap();
        let source = Source::new(200);
        let asks = Box::new(Asks(source.clone()));
        let owner = Object::try_owned_paged(1, 200 * 4096, asks, Some(budget.share())).unwrap();
        let object = owner.share();
        let written = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let size = if round % 2 == 0 { u64::MAX } else { 150 * 4096 };
                assert_eq!(object.own(size, &|| false), Ok(true));
                source.contents.store(1, SeqCst);
                written.store(1, SeqCst);
                // Grows over what was cut: nothing of the source comes back.
                object.set_size(200 * 4096).unwrap();
            });
            scope.spawn(|| {
                while written.load(SeqCst) == 0 {
                    object.shed(50);
                    thread::yield_now();
                }
            });
            for first in 0..2 {
                let object = &object;
                scope.spawn(move || {
                    for page in (first..200u32).step_by(2).rev().map(u64::from) {
                        let mut found = [0; 8];
                        let n = object.read(page * 4096, 8, |bytes| bytes.copy_to(&mut found)).unwrap();
                        let found = u64::from_le_bytes(found);
                        let cut = page >= 150 && round % 2 == 1;
                        assert!(
                            n == 8 && found == page + 1 || cut && (n == 0 || found == 0),
                            "{page}: {n} {found}"
                        );
                    }
                });
            }
        });
        let cut = round % 2 == 1;
        for page in 0..200 {
            let expected = if cut && page >= 150 { 0 } else { page + 1 };
            assert_eq!(word(&object, page), Ok(expected));
        }
        assert_eq!(budget.used(BudgetKind::Pages), object.resident_pages());
        drop((object, owner));
        assert_eq!(budget.used(BudgetKind::Pages), 0);
    }
}

#[test]
fn what_objects_have_is_counted_by_whose_pages_they_are() {
    let _g = alone();
    sync::rcu::drain();
    let before = ObjectPages::now();
    let more = || {
        let now = ObjectPages::now();
        (now.paged.wrapping_sub(before.paged), now.own.wrapping_sub(before.own))
    };
    let source = Source::new(64);
    let owner = source.object(64 * 4096);
    let object = owner.share();
    (0..20).for_each(|page| assert_eq!(word(&object, page), Ok(page + 1)));
    assert_eq!(more(), (object.resident_pages(), 0));
    // The first call after a page was read gives none back.
    while object.resident_pages() > 0 {
        object.shed(8);
    }
    assert_eq!(more(), (0, 0));
    assert_eq!(object.own(40 * 4096, &|| false), Ok(true));
    assert_eq!(more(), (0, 40));
    object.set_size(4096).unwrap();
    assert_eq!(more(), (0, 1));
    let other = source.object(64 * 4096);
    assert_eq!(word(&other.share(), 3), Ok(4));
    assert_ne!(more().0, 0);
    drop((owner, object, other));
    sync::rcu::drain();
    assert_eq!(more(), (0, 0));
}
