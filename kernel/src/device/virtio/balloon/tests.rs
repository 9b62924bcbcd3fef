//! The balloon beside devices that a test plays.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::vec::Vec;

use vm::frame::hosted;
use vm::{PAGE_SIZE, PhysAddr};

use super::super::fake::{Answer, Fake, Part};
use super::super::find::BALLOON as DRIVER;
use super::{Balloon, feature, of};
use crate::testing::{in_process, until};

const KIND: u32 = 5;
const WANTED: usize = 0;
const ACTUAL: usize = 4;

fn begin(
    features: u64,
    answer: impl Fn(usize, &[Part]) -> Answer + Send + Sync + 'static,
) -> (&'static Balloon, Arc<Fake>) {
    let (device, fake) = Fake::begin(KIND, &DRIVER, features as u32, &[0; 8], answer);
    (of(device).expect("a balloon"), fake)
}

/// Numbers of pages in a request.
fn numbers(parts: &[Part]) -> Vec<u32> {
    let mut all = Vec::new();
    for &(address, len, _) in parts {
        let mut bytes = std::vec![0; len as usize];
        hosted::device_reads(PhysAddr(address), &mut bytes);
        all.extend(bytes.chunks(4).map(|number| u32::from_le_bytes(number.try_into().unwrap())));
    }
    all
}

#[test]
fn queues_move_up_where_features_are_not_offered() {
    let (stats, hint, report) = (feature::STATS, feature::FREE_PAGE_HINT, feature::REPORTING);
    let numbers = |offered| super::queues(offered);
    assert_eq!(numbers(0), [Some(0), Some(1), None, None]);
    assert_eq!(numbers(stats), [Some(0), Some(1), Some(2), None]);
    assert_eq!(numbers(stats | report), [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(numbers(stats | hint | report), [Some(0), Some(1), Some(2), Some(4)]);
    assert_eq!(numbers(report), [Some(0), Some(1), None, Some(2)]);
}

#[test]
fn what_the_device_is_told_of_nobody_gets_until_it_is_done() {
    in_process(|| {
        let (_, fake) = begin(feature::REPORTING, |_, _| Answer::Keep);
        until(|| !fake.kept(2).is_empty());
        let parts = fake.kept(2).concat();
        assert!(parts.iter().all(|part| part.2 && part.1 as usize >= 2 << 20), "{parts:?}");
        // Whatever large blocks there are: none of them is what the device has.
        let is_out = |block: &PhysAddr| {
            parts.iter().any(|(start, len, _)| (*start..start + u64::from(*len)).contains(&block.0))
        };
        let mut given = 0;
        hosted::each_large_block(|block| given += usize::from(is_out(&block)));
        assert_eq!(given, 0, "blocks that the device has");
        // The device writes there until it is done, and then they are free.
        for (start, _, _) in &parts {
            hosted::device_writes(PhysAddr(*start), &[0x5a; PAGE_SIZE]);
        }
        let other = fake.kept(2).len();
        assert!(fake.finish(2, &[]));
        until(|| fake.kept(2).len() != other || vm::frame::idle::out() == 0);
        while fake.finish(2, &[]) {}
    });
}

#[test]
fn pages_go_to_the_host_and_come_back_when_it_is_told() {
    in_process(|| {
        let given = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = given.clone();
        let (_, fake) = begin(feature::MUST_TELL, move |queue, parts| {
            if queue == 1 {
                return Answer::Keep;
            }
            for number in numbers(parts) {
                assert!(seen.lock().unwrap().insert(number), "page {number} twice");
            }
            Answer::Done(0)
        });
        fake.set_word(WANTED, 600);
        until(|| fake.word(ACTUAL) == 600);
        assert_eq!(given.lock().unwrap().len(), 600);
        fake.set_word(WANTED, 500);
        until(|| !fake.kept(1).is_empty());
        let back = numbers(&fake.kept(1).concat());
        assert_eq!(back.len(), 100);
        assert!(back.iter().all(|number| given.lock().unwrap().contains(number)));
        assert_eq!(fake.word(ACTUAL), 600, "not before the device is done");
        assert!(fake.finish(1, &[]));
        until(|| fake.word(ACTUAL) == 500);
    });
}

#[test]
fn a_balloon_that_lies_is_reset_and_its_pages_come_back() {
    in_process(|| {
        let lies: [fn() -> Answer; 4] = [
            || Answer::Chain(7),
            || Answer::Chain(u32::MAX),
            // It has nothing to write there.
            || Answer::Done(1),
            || Answer::Jump(300),
        ];
        for lie in lies {
            let asked = AtomicU32::new(0);
            let (balloon, fake) = begin(feature::MUST_TELL, move |_, _| {
                if asked.fetch_add(1, SeqCst) < 2 { Answer::Done(0) } else { lie() }
            });
            let resets = fake.resets.load(SeqCst);
            fake.set_word(WANTED, 1000);
            until(|| fake.resets.load(SeqCst) > resets);
            until(|| balloon.pages.load(SeqCst) == 0);
            assert!(!balloon.device.is_lost());
            // It has nothing to say any more.
            fake.set_word(WANTED, 10);
            assert_eq!(balloon.pages.load(SeqCst), 0);
        }
    });
}

#[test]
fn a_device_that_does_not_even_reset_keeps_what_it_was_told_of() {
    in_process(|| {
        let asked = AtomicU32::new(0);
        let (balloon, fake) = begin(feature::MUST_TELL, move |_, _| {
            if asked.fetch_add(1, SeqCst) == 0 { Answer::Done(0) } else { Answer::Chain(9) }
        });
        fake.is_stuck.store(true, SeqCst);
        fake.set_word(WANTED, 300);
        until(|| balloon.device.is_lost());
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(balloon.pages.load(SeqCst), 300);
    });
}

#[test]
fn statistics_wanted_without_end_are_given_seldom() {
    in_process(|| {
        let asked = Arc::new(AtomicU32::new(0));
        let (count, since) = (asked.clone(), Instant::now());
        begin(feature::STATS, move |queue, parts| {
            assert_eq!(queue, 2);
            let mut bytes = std::vec![0; parts[0].1 as usize];
            hosted::device_reads(PhysAddr(parts[0].0), &mut bytes);
            let tags: Vec<_> = bytes.chunks(10).map(|one| u16::from_le_bytes([one[0], one[1]])).collect();
            assert_eq!(tags, [4, 5, 6]);
            count.fetch_add(1, SeqCst);
            Answer::Done(0)
        });
        until(|| asked.load(SeqCst) >= 4);
        // Three pauses of 100 ms lie between.
        assert!(since.elapsed() >= Duration::from_millis(250));
    });
}

#[test]
fn changes_without_end_lead_where_the_host_wants() {
    in_process(|| {
        let (_, fake) = begin(feature::MUST_TELL, |_, _| Answer::Done(0));
        for n in 0..2000 {
            fake.set_word(WANTED, n % 7 * 100);
            fake.change();
        }
        fake.set_word(WANTED, 123);
        until(|| fake.word(ACTUAL) == 123);
        fake.set_word(WANTED, 0);
        until(|| fake.word(ACTUAL) == 0);
    });
}

#[test]
fn who_has_no_memory_gets_some_of_the_balloon_where_that_is_allowed() {
    in_process(|| {
        let (balloon, fake) = begin(feature::DEFLATE_ON_OOM, |_, _| Answer::Done(0));
        fake.set_word(WANTED, 700);
        until(|| fake.word(ACTUAL) == 700);
        assert!(balloon.relieve());
        assert!(balloon.pages.load(SeqCst) <= 444);
        let (other, fake) = begin(feature::MUST_TELL, |_, _| Answer::Done(0));
        fake.set_word(WANTED, 300);
        until(|| fake.word(ACTUAL) == 300);
        other.relieve();
        assert_eq!(other.pages.load(SeqCst), 300);
    });
}
